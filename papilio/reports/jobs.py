"""What a report says of one job, read from its directory; works while the job runs and after it was killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from papilio.errors import StoreError
from papilio.reports.experiment import ExperimentDirectory, RunRecord
from papilio.reports.scaling import Run
from papilio.reports.timeline import LeaseSpan, TimelineMeasures, measure_timeline, spans_of
from papilio.tasks.directory import JobDirectory, JobStatus, SessionInfo
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult


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
        """The sessions that ended without finishing the job."""
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
        wall = _wall(result) if result is not None and ended else None
        timelines.append(SessionTimeline(session, spans, measure_timeline(spans, session.workers, wall)))
    return JobFacts(
        status=directory.status(),
        plan=None if directory.plan_key is None else directory.plan(),
        result=result,
        timelines=tuple(timelines),
        version=str(directory.described["version"]),
    )


def _wall(result: CountResult) -> float:
    """Return the wall time of the phase that runs leases; partials are folded while others run."""
    return result.seconds["run"] + result.seconds["fold"]


def read_run(directory: ExperimentDirectory, record: RunRecord) -> Run:
    """Return a finished run, with its measures; a StoreError says that its job is missing, unfinished or damaged."""
    job = JobDirectory(directory.job_path(record.workers, record.repeat))
    if not job.finished:
        raise StoreError(
            f"{job.root} is not finished, though {directory.point_path(record.workers)} says so; "
            "it was changed: run the experiment in another directory"
        )
    result = job.result(with_vectors=False)
    spans = spans_of(job.history().leases)
    seconds = {**result.seconds, "start": record.start_s}
    seconds["total"] = result.seconds["total"] + record.start_s - result.seconds["start"]
    return Run(
        workers=record.workers,
        repeat=record.repeat,
        count=result.count,
        seconds=seconds,
        work=result.work,
        work_unit=result.work_unit,
        leases=result.leases,
        measures=measure_timeline(spans, record.workers, _wall(result)),
        peak_bytes=result.peak_memory_bytes,
        graph_hash=str(result.graph["hash"]),
        n_edges=int(result.graph["n_edges"]),
        engine=result.engine,
        cluster=record.cluster,
        hosts=tuple(sorted({worker.host for worker in result.workers})),
        began_at=record.began_at,
        versions=record.versions,
        job=str(job.root.relative_to(directory.root)),
    )


def read_spans(directory: ExperimentDirectory, run: Run) -> tuple[LeaseSpan, ...]:
    """Return the timeline of a run."""
    return spans_of(JobDirectory(directory.root / run.job).history().leases)


def span_rows(spans: tuple[LeaseSpan, ...], **same: Any) -> Iterator[dict[str, Any]]:
    """Yield the leases as flat rows, each with the fields given."""
    for span in spans:
        yield {**same, **asdict(span)}
