"""The facts of one job, read from its directory while it runs or later, and the timeline of its leases.

Begin and end of a lease are by the clock of its worker. Where workers are on several hosts, differences of
their clocks shift the bars of the timeline and the tail; busy times, balance and overhead do not depend on them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from papilio.tasks.directory import JobDirectory, JobStatus, SessionInfo
from papilio.tasks.job import LeaseResult
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult


@dataclass(frozen=True)
class LeaseSpan:
    """One finished lease on the timeline of its worker."""

    worker: str
    partition: int  # its work items: the interval ``[start, stop)`` of a partition
    start: int
    stop: int
    began_at: float  # seconds since 1970
    ended_at: float
    run_s: float  # seconds in the engine
    work: int  # work units done
    peak_bytes: int  # the most memory of the worker process so far, of the host and of arrays on the device
    device_peak_bytes: int = 0


@dataclass(frozen=True)
class WorkerLoad:
    """What one worker did."""

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
    """What the timeline of one run says."""

    loads: tuple[WorkerLoad, ...]  # of the workers that finished a lease, by name
    n_workers: int  # all workers, also those that finished none
    wall_s: float  # wall time of the phase that runs leases
    busy_s: float  # sum over all leases of their seconds in the engine
    # Share of the workers' time that was spent outside the engine: ``1 - busy_s / (n_workers * wall_s)``.
    overhead: float
    # From the moment at which the first worker has nothing more to do to the end of the last lease; from the first
    # lease on when a worker never had one.
    tail_s: float
    balance: float  # busy seconds of the busiest worker over their mean; 1 is even


def spans_of(leases: Iterable[LeaseResult]) -> tuple[LeaseSpan, ...]:
    """Return the timeline of finished leases, by worker and begin."""
    spans = (
        LeaseSpan(
            lease.worker, lease.partition, lease.start, lease.stop, lease.began_at, lease.ended_at,
            lease.seconds["run"], lease.work, lease.peak_bytes, lease.device_peak_bytes,
        )
        for lease in leases
    )  # fmt: skip
    return tuple(sorted(spans, key=lambda span: (span.worker, span.began_at)))


def measure_timeline(
    spans: Sequence[LeaseSpan], n_workers: int, wall_s: float | None = None
) -> TimelineMeasures:
    """Measure overhead, tail and balance of one run, which had at least as many workers as the spans name.

    ``wall_s`` is the wall time of the phase, by default from the first begin to the last end.
    """
    by_worker: dict[str, list[LeaseSpan]] = {}
    for span in spans:
        by_worker.setdefault(span.worker, []).append(span)
    loads = tuple(_load(name, by_worker[name]) for name in sorted(by_worker))
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


def _load(worker: str, spans: Sequence[LeaseSpan]) -> WorkerLoad:
    return WorkerLoad(
        worker=worker,
        leases=len(spans),
        busy_s=sum(span.run_s for span in spans),
        work=sum(span.work for span in spans),
        first_at=min(span.began_at for span in spans),
        last_at=max(span.ended_at for span in spans),
        peak_bytes=max(span.peak_bytes for span in spans),
        device_peak_bytes=max(span.device_peak_bytes for span in spans),
    )


@dataclass(frozen=True)
class SessionTimeline:
    """The leases of one session."""

    session: SessionInfo
    spans: tuple[LeaseSpan, ...]
    measures: TimelineMeasures


@dataclass(frozen=True)
class JobFacts:
    """What is known of a job."""

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
    """Read a job directory; a StoreError says that it is none, or damaged."""
    directory = JobDirectory(path)
    # Vectors may be large, and no report shows them.
    result = directory.result(with_vectors=False) if directory.finished else None
    history = directory.history()
    timelines, at = [], 0
    for session in history.sessions:
        spans = spans_of(history.leases[at : at + session.leases])
        at += session.leases
        # The phases of the result are those of the session that finished the job.
        ended = result is not None and session is history.sessions[-1]
        wall = run_wall_s(result) if result is not None and ended else None
        timelines.append(SessionTimeline(session, spans, measure_timeline(spans, session.workers, wall)))
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


def span_rows(spans: tuple[LeaseSpan, ...], **same: Any) -> Iterator[dict[str, Any]]:
    """Yield the leases as flat rows, each with the fields given."""
    for span in spans:
        yield {**same, **asdict(span)}
