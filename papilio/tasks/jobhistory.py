"""The sessions and leases of a job, from the records of its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from papilio.storage.listings import ListingShard
from papilio.tasks.answers import LeaseResult, ShardRef
from papilio.tasks.cells import cells_from_json

__all__ = ["JobHistory", "SessionInfo", "read_history"]


@dataclass(frozen=True)
class SessionInfo:
    """One process's turn at a job.

    Attributes
    ----------
    number : int
        From 1 on.
    host : str
    pid : int
    engine, cluster : str
    workers : int
        Workers that its leases were planned for.
    planned, leases : int
        Leases planned, and finished so far.
    began_at : float
        Seconds since 1970.
    ended_at : float or None
        None while it runs, and when it was killed.
    outcome : str or None
        ``finished``, or why it ended before.
    """

    number: int
    host: str
    pid: int
    engine: str
    cluster: str
    workers: int
    planned: int
    leases: int
    began_at: float
    ended_at: float | None
    outcome: str | None


@dataclass(frozen=True)
class JobHistory:
    """What the ledger of a job says.

    Attributes
    ----------
    sessions : tuple of SessionInfo
    leases : tuple of LeaseResult
        In the order finished; the paths of their shards are absolute.
    shard_bytes : tuple of int
        Size of the shard of each lease; 0 without one.
    tip : str
        Checksum of the last record, which covers all.
    n_records : int
    """

    sessions: tuple[SessionInfo, ...]
    leases: tuple[LeaseResult, ...]
    shard_bytes: tuple[int, ...]
    tip: str
    n_records: int


def read_history(root: Path, records: tuple[dict[str, Any], ...], tip: str) -> JobHistory:
    """Return what the records of a ledger say.

    Raises
    ------
    KeyError, TypeError, ValueError
        For a record of another kind.
    """
    sessions: dict[int, SessionInfo] = {}
    leases, shard_bytes = [], []
    for record in records:
        fields = {name: value for name, value in record.items() if name != "type"}
        number = fields.pop("session")
        if record["type"] == "session":
            sessions[number] = SessionInfo(number, leases=0, ended_at=None, outcome=None, **fields)
        elif record["type"] == "lease":
            sessions[number] = replace(sessions[number], leases=sessions[number].leases + 1)
            leases.append(_read_lease(root, fields))
            shard_bytes.append(0 if fields["shard"] is None else int(fields["shard"]["n_bytes"]))
        elif record["type"] == "end":
            sessions[number] = replace(sessions[number], **fields)
        else:
            raise ValueError(f"a record of type {record['type']!r}")
    return JobHistory(tuple(sessions.values()), tuple(leases), tuple(shard_bytes), tip, len(records))


def _read_lease(root: Path, fields: Mapping[str, Any]) -> LeaseResult:
    shard = fields["shard"]
    reference = None if shard is None else ShardRef(str(root / shard["path"]), shard["checksum"])
    read = {
        "total": int(fields["total"]),
        "shard": reference,
        "cells": cells_from_json(fields.get("cells", ())),
        "listed": tuple(
            ListingShard(str(root / each["path"]), each["checksum"], each["rows"])
            for each in fields.get("listed", ())
        ),
    }
    return LeaseResult(**{**fields, **read})
