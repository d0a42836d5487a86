"""State of a job, apart from its answer: control files, the history in its ledger, and the state derived from them.

    control/submission.json     written by ``papilio submit``
    control/coordinator.json    written by the coordinator inside the cluster
    control/cancel.json         written by ``papilio cancel``

Each control file has one kind of writer and is replaced whole, so that no lock is needed to read or to write it. A
request to cancel names its submission and session, so that it does not affect later ones.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from papilio.arguments import show_share
from papilio.errors import StoreError
from papilio.kernels.engine import EngineChoice
from papilio.kernels.null.ensemble import Ensemble
from papilio.motifs import Granularity, Listing, motif_from_json
from papilio.question import Question
from papilio.storage.answers import Described, Previewed
from papilio.storage.ledger import Holder, write_durably
from papilio.storage.records import read_record, read_sealed, seal_json
from papilio.system_errors import explain
from papilio.tasks.job import LeaseResult

Priority = Literal["low", "normal", "high"]
"""How long the leases of a job let leases of other jobs pass, see ``papilio.cluster.pool.LAG_S``."""

_CONTROL_ADVICE = "remove it, then submit again"

CoordinatorState = Literal["waiting", "running", "finished", "failed", "cancelled"]


@dataclass(frozen=True)
class Submission:
    """The submission of a job to a cluster."""

    id: str  # unique for each submission
    cluster: str  # address of the scheduler
    engine: EngineChoice
    workers: int | None  # workers to wait for before the first lease
    priority: Priority
    output: str | None  # file for the counts per vertex or edge
    host: str  # where it was submitted from
    submitted_at: float  # seconds since 1970


@dataclass(frozen=True)
class Coordinator:
    """The process that dispatches the leases of a submission, and how it ended."""

    submission: str  # id of the submission
    attempt: int  # from 1 on: number of times the cluster has started it
    losses: int  # starts before this one that were lost without a finished lease
    host: str
    pid: int
    worker: str  # address of the Dask worker
    state: CoordinatorState
    reason: str | None  # why it waits or failed
    n_sessions: int  # sessions in the ledger when this was written; a later one is not this coordinator's
    written_at: float  # seconds since 1970

    @property
    def ended(self) -> bool:
        return self.state in ("finished", "failed", "cancelled")


@dataclass(frozen=True)
class CancelRequest:
    """A request to end a job."""

    submission: str | None  # id of the submission to cancel, if any
    holder: str | None  # claim of the process that wrote the ledger at that time, if any
    host: str
    pid: int  # of the process that made the request
    requested_at: float  # seconds since 1970

    @classmethod
    def now(cls, submission: str | None, holder: str | None) -> CancelRequest:
        return cls(submission, holder, socket.gethostname(), os.getpid(), time.time())


ControlRecord = TypeVar("ControlRecord", Submission, Coordinator, CancelRequest)


class JobControl:
    """The control files of one job directory, read anew at every access."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "control"

    @property
    def submission(self) -> Submission | None:
        """The last submission; None for a job that was never submitted."""
        return self._read("submission", Submission)

    @property
    def coordinator(self) -> Coordinator | None:
        """The coordinator of :attr:`submission`; None until the cluster has started one."""
        submission, found = self.submission, self._read("coordinator", Coordinator)
        fits = submission is not None and found is not None and found.submission == submission.id
        return found if fits else None

    @property
    def request(self) -> CancelRequest | None:
        return self._read("cancel", CancelRequest)

    @property
    def active(self) -> Submission | None:
        """The last submission, unless its coordinator has ended."""
        coordinator = self.coordinator
        return None if coordinator is not None and coordinator.ended else self.submission

    def is_cancelled(self, *, submission: str | None = None, holder: str | None = None) -> bool:
        """Whether the last request cancels this submission, or this process that holds the ledger."""
        request = self.request
        if request is None:
            return False
        by_submission = submission is not None and request.submission == submission
        return by_submission or (holder is not None and request.holder == holder)

    def write(self, record: Submission | Coordinator | CancelRequest) -> None:
        """Replace one of the files, durably. StoreError if it cannot be written."""
        names: Mapping[type, str] = {
            Submission: "submission", Coordinator: "coordinator", CancelRequest: "cancel"
        }  # fmt: skip
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be created {explain(error)}") from error
        path = self.folder / f"{names[type(record)]}.json"
        write_durably(path, seal_json(asdict(record), indent=2))

    def withdraw(self, submission: Submission) -> None:
        """Remove a submission that no cluster has received."""
        if self.submission == submission:
            (self.folder / "submission.json").unlink(missing_ok=True)

    def _read(self, name: str, kind: type[ControlRecord]) -> ControlRecord | None:
        path = self.folder / f"{name}.json"
        try:
            return read_record(kind, read_sealed(path, _CONTROL_ADVICE), str(path), _CONTROL_ADVICE)
        except FileNotFoundError:
            return None


_LEDGER_ADVICE = "the ledger was damaged; start a new job directory"


@dataclass(frozen=True)
class SessionInfo:
    """One session of a job, run by one process."""

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
    outcome: str | None  # ``finished``, or why it ended early


@dataclass(frozen=True)
class JobHistory:
    """The content of a job's ledger."""

    sessions: tuple[SessionInfo, ...]
    leases: tuple[LeaseResult, ...]  # in the order finished; the paths of their shards are absolute
    tip: str  # checksum of the last record, which covers all
    n_records: int
    # identities of the plans of its sessions: one, in a ledger of one job
    plan_keys: frozenset[str] = frozenset()

    @property
    def intervals(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((lease.partition, lease.start, lease.stop) for lease in self.leases)


@dataclass(frozen=True)
class _Record:
    may_grow: ClassVar[bool] = True

    type: Literal["session", "lease", "end"]
    session: int


@dataclass(frozen=True)
class _SessionRecord:
    may_grow: ClassVar[bool] = True

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
    ended_at: float
    outcome: str


_SHARD = re.compile(r"shards/[0-9]+/[A-Za-z0-9][A-Za-z0-9_.-]*")
"""Path of a shard below the job directory. A ledger of another user must not lead to other files."""

_RECORDS: dict[Any, Any] = {"session": _SessionRecord, "lease": LeaseResult, "end": _EndRecord}


def read_history(path: Path, records: tuple[dict[str, Any], ...], tip: str) -> JobHistory:
    """Return the history from the records of a ledger; ``path`` is its file.

    StoreError for a record of another kind, or of a session that did not begin.
    """
    sessions: dict[int, SessionInfo] = {}
    leases: list[LeaseResult] = []
    plan_keys: set[str] = set()
    for number, record in enumerate(records, start=1):
        name = f"{path}, line {number}"
        head = read_record(_Record, record, name, _LEDGER_ADVICE)
        fields = {key: each for key, each in record.items() if key not in ("type", "session")}
        found = read_record(_RECORDS[head.type], fields, name, _LEDGER_ADVICE)
        if isinstance(found, _SessionRecord):
            begun = asdict(found)
            plan_keys.add(begun.pop("plan_key"))
            sessions[head.session] = SessionInfo(head.session, leases=0, ended_at=None, outcome=None, **begun)
            continue
        if head.session not in sessions:
            raise StoreError(f"{name}: session {head.session} did not begin; {_LEDGER_ADVICE}")
        session = sessions[head.session]
        if isinstance(found, _EndRecord):
            sessions[head.session] = replace(session, ended_at=found.ended_at, outcome=found.outcome)
        else:
            sessions[head.session] = replace(session, leases=session.leases + 1)
            leases.append(found.move_files(partial(_find_shard, path.parent, name)))
    return JobHistory(tuple(sessions.values()), tuple(leases), tip, len(records), frozenset(plan_keys))


def _find_shard(root: Path, record: str, path: str) -> str:
    if not _SHARD.fullmatch(path):
        raise StoreError(f"{record}: the shard {path!r} is not a file in shards/N; {_LEDGER_ADVICE}")
    return str(root / path)


JobState = Literal["submitted", "waiting", "running", "interrupted", "finished", "failed", "cancelled"]

ACTIVE_STATES: tuple[JobState, ...] = ("submitted", "waiting", "running")
"""States that change without user action."""

CANCELLED = "cancelled"
"""Outcome of a session that ended on request."""


@dataclass(frozen=True, repr=False)
class JobStatus(Previewed, Described):
    """State and progress of a job."""

    path: str
    # ``submitted`` (a cluster has it, no worker has begun), ``waiting`` (the coordinator waits, or was lost and the
    # cluster will start another), ``running``, ``finished``, ``failed``, ``cancelled``, or ``interrupted`` (a count
    # outside a cluster that ended before the answer)
    state: JobState
    reason: str | None  # why it waits or failed
    cancel_requested: bool  # whether its process was asked to stop
    motif: dict[str, Any]  # name and parameters
    per: Granularity
    graph_hash: str
    source: str | None  # the store; None for a graph in memory
    plan_key: str | None  # None until the job was planned
    created_at: float  # seconds since 1970
    leases: int  # finished leases
    items_done: int  # work items counted, and in all (0 until the job was planned)
    items: int
    work_done: int  # predicted nanoseconds of finished items on one worker, and of all items
    work: int
    count: int | None  # the answer, once known; for a listing the number of its rows
    holder: Holder | None  # the process that runs the job now
    sessions: tuple[SessionInfo, ...]
    submission: Submission | None = None  # the last submission to a cluster
    coordinator: Coordinator | None = None  # of that submission
    listing: dict[str, Any] | None = None  # which motifs are listed; None for a count
    ensemble: dict[str, Any] | None = None  # the random graphs in which they are also counted

    @property
    def title(self) -> str:
        listing = None if self.listing is None else Listing(**self.listing)
        ensemble = None if self.ensemble is None else Ensemble(**self.ensemble)
        motif = motif_from_json(self.motif)
        return Question(motif, self.per, listing=listing, ensemble=ensemble).title

    @property
    def share(self) -> float:
        """Share of the predicted work that is done: below 1 until the job is finished."""
        if self.state == "finished":
            return 1.0
        return min(self.work_done / self.work, 0.999) if self.work else 0.0

    @property
    def headline(self) -> str:
        """Question, state, and the count or the share done, in one line."""
        named = f"job {self.path}: {self.title}, {self.state}"
        if self.count is not None:
            return f"{named}: {self.count:,}"
        return f"{named}, {show_share(self.share)} done" + (f" ({self.reason})" if self.reason else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and ``share`` as a JSON object."""
        return {**asdict(self), "share": round(self.share, 6)}


def find_state(
    finished: bool, holder: Holder | None, control: JobControl, history: JobHistory
) -> tuple[JobState, str | None]:
    """Return the state of a job, and why it waits or failed; ``holder`` holds the ledger now."""
    if finished:
        return "finished", None
    if holder is not None:
        return "running", None
    submission, coordinator = control.submission, control.coordinator
    if submission is not None and (coordinator is None or not coordinator.ended):
        if control.is_cancelled(submission=submission.id):
            return "cancelled", None
        return _waiting(submission, coordinator)
    overtaken = coordinator is None or len(history.sessions) > coordinator.n_sessions
    if coordinator is not None and not overtaken and coordinator.state in ("failed", "cancelled"):
        return ("failed" if coordinator.state == "failed" else "cancelled"), coordinator.reason
    if history.sessions and history.sessions[-1].outcome == CANCELLED:
        return "cancelled", None
    return "interrupted", None


def _waiting(submission: Submission, coordinator: Coordinator | None) -> tuple[JobState, str]:
    if coordinator is None:
        return "submitted", f"no worker of {submission.cluster} has started it yet"
    if coordinator.state == "waiting" and coordinator.reason is not None:
        return "waiting", coordinator.reason
    return "waiting", (
        f"its coordinator, process {coordinator.pid} on {coordinator.host}, was lost; {submission.cluster} starts "
        f"another one once it detects this and has a free worker"
    )
