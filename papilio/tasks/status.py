"""The state of a job, derived from its directory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from papilio.motifs import Listing, motif_from_json
from papilio.storage.ledger import Holder
from papilio.tasks.control import Coordinator, JobControl, Submission
from papilio.tasks.history import JobHistory, SessionInfo
from papilio.tasks.job import name_question

JobState = Literal["submitted", "waiting", "running", "interrupted", "finished", "failed", "cancelled"]

ACTIVE_STATES: tuple[JobState, ...] = ("submitted", "waiting", "running")
"""States that change without anybody's doing."""

CANCELLED = "cancelled"
"""Outcome of a session that ended on request."""


@dataclass(frozen=True)
class JobStatus:
    """State and progress of a job."""

    path: str
    # ``submitted`` (a cluster has it, none of its workers has begun), ``waiting`` (the coordinator waits, or was lost
    # and the cluster will start another), ``running``, ``finished``, ``failed``, ``cancelled``, or ``interrupted`` (a
    # count outside a cluster that ended before the answer)
    state: JobState
    reason: str | None  # what it waits for, or why it failed
    cancel_requested: bool  # whether the process that has it was asked to stop
    motif: dict[str, Any]  # name and parameters
    per: str
    graph_hash: str
    source: str | None  # the store; None for a graph in memory
    plan_key: str | None  # None until the job was planned
    created_at: float  # seconds since 1970
    leases: int  # finished leases
    items_done: int  # work items counted, and in all (0 until the job was planned)
    items: int
    work_done: int  # their predicted work units
    work: int
    count: int | None  # the answer, once there is one; of a listing the number of its rows
    holder: Holder | None  # the process that runs the job now
    sessions: tuple[SessionInfo, ...]
    submission: Submission | None = None  # the last time that it was given to a cluster
    coordinator: Coordinator | None = None  # of that submission
    listing: dict[str, Any] | None = None  # which motifs are listed; None for a count

    @property
    def title(self) -> str:
        """What is asked, for people; as :attr:`papilio.tasks.job.JobSpec.title`."""
        listing = None if self.listing is None else Listing(**self.listing)
        return name_question(motif_from_json(self.motif), self.per, listing)

    @property
    def share(self) -> float:
        """Share of the predicted work that is done: below 1 until the job is finished."""
        if self.state == "finished":
            return 1.0
        return min(self.work_done / self.work, 0.999) if self.work else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields and ``share`` as a JSON object."""
        return {**asdict(self), "share": round(self.share, 6)}


def find_state(
    finished: bool, holder: Holder | None, control: JobControl, history: JobHistory
) -> tuple[JobState, str | None]:
    """Return the state of a job, and what it waits for or why it failed; ``holder`` has the ledger now."""
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
        return "submitted", f"no worker of {submission.cluster} has begun it yet"
    if coordinator.state == "waiting" and coordinator.reason is not None:
        return "waiting", coordinator.reason
    return "waiting", (
        f"its coordinator, process {coordinator.pid} on {coordinator.host}, was lost; {submission.cluster} starts "
        "another one when it has noticed and has a worker"
    )
