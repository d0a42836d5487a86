"""The sessions and leases of a job, from the records of its ledger."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from papilio.errors import StoreError
from papilio.storage.listings import ListingShard
from papilio.storage.records import Digits, read_record
from papilio.tasks.reports import LeaseResult, ShardRef

_ADVICE = "the ledger was damaged; start a new job directory"


@dataclass(frozen=True)
class SessionInfo:
    """One process's turn at a job."""

    number: int  # from 1 on
    host: str
    pid: int
    engine: str
    cluster: str
    workers: int  # workers that its leases were planned for
    planned: int  # leases planned, and finished so far
    leases: int
    began_at: float  # seconds since 1970
    ended_at: float | None  # None while it runs, and when it was killed
    outcome: str | None  # ``finished``, or why it ended before


@dataclass(frozen=True)
class JobHistory:
    """What the ledger of a job says."""

    sessions: tuple[SessionInfo, ...]
    leases: tuple[LeaseResult, ...]  # in the order finished; the paths of their shards are absolute
    shard_bytes: tuple[int, ...]  # size of the shard of each lease; 0 without one
    tip: str  # checksum of the last record, which covers all
    n_records: int
    # identities of the plans of its sessions: one, in a ledger of one job
    plan_keys: frozenset[str] = frozenset()

    @property
    def intervals(self) -> tuple[tuple[int, int, int], ...]:
        """Partition, start and stop of each lease."""
        return tuple((lease.partition, lease.start, lease.stop) for lease in self.leases)


@dataclass(frozen=True)
class _SessionRecord:
    may_grow: ClassVar[bool] = True

    session: int
    host: str
    pid: int
    engine: str
    cluster: str
    workers: int
    planned: int
    began_at: float
    plan_key: str


@dataclass(frozen=True)
class _EndRecord:
    session: int
    ended_at: float
    outcome: str


@dataclass(frozen=True)
class _ShardRow(ShardRef):
    n_bytes: int


@dataclass(frozen=True)
class _ListedRow(ListingShard):
    n_bytes: int


@dataclass(frozen=True, kw_only=True)
class _LeaseRecord(LeaseResult):
    session: int
    total: Digits
    shard: _ShardRow | None
    listed: tuple[_ListedRow, ...] = ()


_SHARD = re.compile(r"shards/[0-9]+/[A-Za-z0-9][A-Za-z0-9_.-]*")
"""Path of a shard below the job directory. A ledger of another user must not lead to other files."""

_RECORDS: dict[Any, Any] = {"session": _SessionRecord, "lease": _LeaseRecord, "end": _EndRecord}


def read_history(path: Path, records: tuple[dict[str, Any], ...], tip: str) -> JobHistory:
    """Return what the records of a ledger say; ``path`` is its file.

    StoreError for a record of another kind, or of a session that did not begin.
    """
    sessions: dict[int, SessionInfo] = {}
    leases, shard_bytes, plan_keys = [], [], set()
    for number, record in enumerate(records, start=1):
        name = f"{path}, line {number}"
        kind = _RECORDS.get(str(record.get("type")))
        if kind is None:
            raise StoreError(f"{name}: type is {record.get('type')!r}; expected one of {', '.join(_RECORDS)}")
        found = read_record(kind, {key: each for key, each in record.items() if key != "type"}, name, _ADVICE)
        if isinstance(found, _SessionRecord):
            begun = {each.name: getattr(found, each.name) for each in fields(found)}
            plan_keys.add(begun.pop("plan_key"))
            sessions[found.session] = SessionInfo(
                begun.pop("session"), leases=0, ended_at=None, outcome=None, **begun
            )
            continue
        if found.session not in sessions:
            raise StoreError(f"{name}: session {found.session} did not begin; {_ADVICE}")
        session = sessions[found.session]
        if isinstance(found, _EndRecord):
            sessions[found.session] = replace(session, ended_at=found.ended_at, outcome=found.outcome)
        else:
            sessions[found.session] = replace(session, leases=session.leases + 1)
            leases.append(_lease_of(path.parent, found, name))
            shard_bytes.append(0 if found.shard is None else found.shard.n_bytes)
    return JobHistory(
        tuple(sessions.values()), tuple(leases), tuple(shard_bytes), tip, len(records), frozenset(plan_keys)
    )


def _lease_of(root: Path, found: _LeaseRecord, name: str) -> LeaseResult:
    def whole(path: str) -> str:
        if not _SHARD.fullmatch(path):
            raise StoreError(f"{name}: the shard {path!r} is no file of shards/N; {_ADVICE}")
        return str(root / path)

    shard = found.shard
    read = {
        "shard": None if shard is None else ShardRef(whole(shard.path), shard.digest),
        "listed": tuple(ListingShard(whole(each.path), each.digest, each.rows) for each in found.listed),
    }
    same = {each.name: getattr(found, each.name) for each in fields(LeaseResult)}
    return LeaseResult(**{**same, **read})
