"""The state of a job, derived from its directory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from papilio.motifs import Listing, motif_from_json
from papilio.storage.ledger import Holder
from papilio.tasks.control import Coordinator, JobControl, Submission
from papilio.tasks.history import JobHistory, SessionInfo
from papilio.tasks.job import name_question

__all__ = ["ACTIVE_STATES", "CANCELLED", "JobState", "JobStatus", "find_state"]

JobState = Literal["submitted", "waiting", "running", "interrupted", "finished", "failed", "cancelled"]

ACTIVE_STATES: tuple[JobState, ...] = ("submitted", "waiting", "running")
"""States that change without anybody's doing."""

CANCELLED = "cancelled"
"""Outcome of a session that ended on request."""


@dataclass(frozen=True)
class JobStatus:
    """State and progress of a job.

    Attributes
    ----------
    path : str
    state : str
        ``submitted`` (a cluster has it, none of its workers has begun), ``waiting`` (the coordinator waits, or was
        lost and the cluster will start another), ``running``, ``finished``, ``failed``, ``cancelled``, or
        ``interrupted`` (a count outside a cluster that ended before the answer).
    reason : str or None
        What it waits for, or why it failed.
    cancel_requested : bool
        Whether the process that has it was asked to stop.
    motif : dict
        Name and parameters.
    per : str
    listing : dict or None
        Which motifs are listed; None for a count.
    graph_hash : str
    source : str or None
        The store; None for a graph in memory.
    plan_key : str or None
        None until the job was planned.
    created_at : float
        Seconds since 1970.
    leases : int
        Finished leases.
    items_done, items : int
        Work items counted, and in all (0 until the job was planned).
    work_done, work : int
        Their predicted work units.
    count : int or None
        The answer, once there is one; of a listing the number of its rows.
    holder : Holder or None
        The process that runs the job now.
    sessions : tuple of SessionInfo
    submission : Submission or None
        The last time that it was given to a cluster.
    coordinator : Coordinator or None
        Of that submission.
    """

    path: str
    state: JobState
    reason: str | None
    cancel_requested: bool
    motif: dict[str, Any]
    per: str
    graph_hash: str
    source: str | None
    plan_key: str | None
    created_at: float
    leases: int
    items_done: int
    items: int
    work_done: int
    work: int
    count: int | None
    holder: Holder | None
    sessions: tuple[SessionInfo, ...]
    submission: Submission | None = None
    coordinator: Coordinator | None = None
    listing: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """What is asked, for people; as :attr:`papilio.tasks.job.JobSpec.title`."""
        listing = None if self.listing is None else Listing(**self.listing)
        return name_question(motif_from_json(self.motif), self.per, listing)

    @property
    def share(self) -> float:
        """Share of the predicted work that is done, 0 to 1."""
        if self.state == "finished":
            return 1.0
        return self.work_done / self.work if self.work else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields and ``share`` as a JSON object."""
        return {**asdict(self), "share": round(self.share, 6)}


def find_state(
    finished: bool, holder: Holder | None, control: JobControl, history: JobHistory
) -> tuple[JobState, str | None]:
    """Return the state of a job, and what it waits for or why it failed.

    Parameters
    ----------
    finished : bool
        Whether the directory holds the answer.
    holder : Holder or None
        The process that has the ledger now.
    control : JobControl
    history : JobHistory
    """
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
