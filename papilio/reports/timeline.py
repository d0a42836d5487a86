"""The facts of one job, read from its directory while it runs or later, and the timeline of its leases.

The begin and end of a lease are by the clock of its worker. If workers are on several hosts, differences of their
clocks shift the bars of the timeline and the tail, but not busy times, balance and overhead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from papilio.storage.answers import ColumnType
from papilio.tasks.directory import JobDirectory, JobStatus, SessionInfo
from papilio.tasks.job import LeaseResult
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult

LEASE_COLUMNS: dict[str, ColumnType] = {
    "worker": "text", "partition": "int", "start": "int", "stop": "int", "began_at": "float",
    "ended_at": "float", "run_s": "float", "work": "int", "peak_bytes": "int",
    "device_peak_bytes": "int",
}  # fmt: skip
"""Columns of the table of leases; ``run_s`` are the seconds in the engine."""


@dataclass(frozen=True)
class WorkerLoad:
    """The leases of one worker, summed up."""

    worker: str
    leases: int
    busy_s: float  # sum of the seconds of its leases in the engine
    work: int
    first_at: float  # begin of its first and end of its last lease, seconds since 1970
    last_at: float
    peak_bytes: int
    device_peak_bytes: int = 0


@dataclass(frozen=True)
class TimelineMeasures:
    """Overhead, tail and balance of one run."""

    loads: tuple[WorkerLoad, ...]  # of the workers that finished a lease, by name
    n_workers: int  # all workers, including workers without a finished lease
    wall_s: float  # wall time of the phase that runs leases
    busy_s: float  # sum over all leases of their seconds in the engine
    # Share of the workers' time outside the engine: ``1 - busy_s / (n_workers * wall_s)``.
    overhead: float
    # From the moment at which the first worker runs out of work to the end of the last lease; from the first lease on
    # when a worker never had one.
    tail_s: float
    balance: float  # busy seconds of the busiest worker over their mean; 1 is even


def timeline_of(leases: Iterable[LeaseResult]) -> tuple[LeaseResult, ...]:
    """Return finished leases by worker and begin."""
    return tuple(sorted(leases, key=lambda lease: (lease.worker, lease.began_at)))


def measure_timeline(leases: Sequence[LeaseResult], n_workers: int, wall_s: float | None = None) -> TimelineMeasures:
    """Measure overhead, tail and balance of one run, which had at least as many workers as the leases name.

    ``wall_s`` is the wall time of the phase, by default from the first begin to the last end.
    """
    by_worker: dict[str, list[LeaseResult]] = {}
    for lease in leases:
        by_worker.setdefault(lease.worker, []).append(lease)
    loads = tuple(
        WorkerLoad(
            worker=worker,
            leases=len(own),
            busy_s=sum(lease.seconds["run"] for lease in own),
            work=sum(lease.work for lease in own),
            first_at=min(lease.began_at for lease in own),
            last_at=max(lease.ended_at for lease in own),
            peak_bytes=max(lease.peak_bytes for lease in own),
            device_peak_bytes=max(lease.device_peak_bytes for lease in own),
        )
        for worker, own in sorted(by_worker.items())
    )
    n_workers = max(n_workers, len(loads))
    if not loads:
        return TimelineMeasures((), n_workers, wall_s or 0.0, 0.0, 0.0, 0.0, 1.0)
    begin, end = min(load.first_at for load in loads), max(load.last_at for load in loads)
    idle_from = begin if len(loads) < n_workers else min(load.last_at for load in loads)
    wall = end - begin if wall_s is None else wall_s
    busy = sum(load.busy_s for load in loads)
    return TimelineMeasures(
        loads=loads,
        n_workers=n_workers,
        wall_s=wall,
        busy_s=busy,
        overhead=1.0 - busy / (n_workers * wall) if wall > 0 else 0.0,
        tail_s=end - idle_from,
        balance=max(load.busy_s for load in loads) * n_workers / busy if busy > 0 else 1.0,
    )


@dataclass(frozen=True)
class SessionTimeline:
    """The leases of one session."""

    session: SessionInfo
    leases: tuple[LeaseResult, ...]  # by worker and begin
    measures: TimelineMeasures


@dataclass(frozen=True)
class JobFacts:
    """State, plan, result and timelines of a job."""

    status: JobStatus
    plan: CountPlan | None  # None until the job was planned
    result: CountResult | None  # without its vectors; None until the job is finished
    timelines: tuple[SessionTimeline, ...]
    version: str  # of Papilio, which began the job

    @property
    def failures(self) -> list[SessionInfo]:
        ended = self.timelines[:-1] if self.status.state == "running" else self.timelines
        return [each.session for each in ended if each.session.outcome != "finished"]


def read_job(path: str | os.PathLike[str]) -> JobFacts:
    """Read a job directory; StoreError if it is not a job directory, or is damaged."""
    directory = JobDirectory(path)
    # Vectors may be large, and no report shows them.
    result = directory.result(with_vectors=False) if directory.finished else None
    history = directory.history()
    timelines, at = [], 0
    for session in history.sessions:
        leases = timeline_of(history.leases[at : at + session.leases])
        at += session.leases
        # The phases of the result belong to the session that finished the job.
        ended = result is not None and session is history.sessions[-1]
        wall = run_wall_s(result) if result is not None and ended else None
        timelines.append(SessionTimeline(session, leases, measure_timeline(leases, session.workers, wall)))
    return JobFacts(
        status=directory.status(),
        plan=None if directory.plan_key is None else directory.plan(),
        result=result,
        timelines=tuple(timelines),
        version=str(directory.described["version"]),
    )


def run_wall_s(result: CountResult) -> float:
    """Return the wall time of the phase that runs leases; partials are folded while others run."""
    return result.seconds["run"] + result.seconds["fold"]


def lease_rows(leases: Iterable[LeaseResult], **same: Any) -> Iterator[dict[str, Any]]:
    """Yield the leases as flat rows with :data:`LEASE_COLUMNS`, each with the given fields."""
    for lease in leases:
        yield {**same, **vars(lease), "run_s": lease.seconds["run"]}
