"""The runs of a scaling experiment, and the speed-up and efficiency of every point.

One definition serves strong and weak scaling: speed is work units over the time, that of a point over the median time
of its repetitions; the speed-up of a run or point is its speed over that of the point with the fewest workers, and
the efficiency is the speed-up over how many times more workers there were. With one graph for all points that is
the usual ratio of times; with graphs that grow it is the scaled speed-up, whatever the exact growth of the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from papilio.errors import ExecutionError, StoreError
from papilio.reports.experiment import ExperimentDirectory, RunRecord
from papilio.reports.job import TimelineMeasures, measure_timeline, run_wall_s, timeline_of
from papilio.tasks.directory import JobDirectory
from papilio.tasks.job import LeaseResult
from papilio.tasks.result import rate_of

SHORT_S = 10.0
"""A run that counts for less says little about scaling: what is not divided among workers takes most of it."""


def counting_s(seconds: Mapping[str, float]) -> float:
    """Return the wall time of everything after the workers run and the graph is read, from the times of phases."""
    return seconds["total"] - seconds["start"] - seconds["read"]


@dataclass(frozen=True)
class Run:
    """One finished run of an experiment."""

    workers: int  # its point, and which repetition it is, from 1 on
    repeat: int
    count: int
    # By phase, as in :class:`papilio.CountResult`; ``start`` and ``total`` include the start of the cluster.
    seconds: dict[str, float]
    work: int  # work units done
    work_unit: str
    leases: int
    measures: TimelineMeasures
    peak_bytes: int  # largest host memory of a worker process
    graph_hash: str
    n_edges: int
    engine: str
    cluster: str
    hosts: tuple[str, ...]
    began_at: float  # seconds since 1970
    versions: dict[str, str]
    job: str  # its job directory, relative to the experiment

    @property
    def counting_s(self) -> float:
        return counting_s(self.seconds)

    @property
    def speed(self) -> float:
        """Work units over :attr:`counting_s`: what speed-ups compare."""
        return self.work / self.counting_s

    @property
    def work_per_second(self) -> float | None:
        return rate_of(self.work, self.seconds["run"])


@dataclass(frozen=True)
class Point:
    """The runs with one number of workers."""

    workers: int
    runs: tuple[Run, ...]  # by repetition; at least one
    middle: Run  # the run of median time; the faster of the middle two
    seconds_min: float  # of :attr:`Run.counting_s`
    seconds_median: float
    seconds_max: float
    speedups: tuple[float, ...]  # of the runs, over the speed of the smallest number of workers
    speedup: float  # of the speed in the median time
    efficiency: float
    ideal: float  # how many times more workers than the smallest point has

    def to_json(self) -> dict[str, Any]:
        """Return the measures of the point as a JSON object, its runs by their job directories."""
        kept = {name: value for name, value in asdict(self).items() if name not in ("runs", "middle")}
        return {**kept, "middle": self.middle.job, "runs": [run.job for run in self.runs]}


def read_run(directory: ExperimentDirectory, record: RunRecord) -> Run:
    """Return a finished run, with its measures; a StoreError says that its job is missing, unfinished or damaged."""
    job = JobDirectory(directory.job_path(record.workers, record.repeat))
    if not job.finished:
        raise StoreError(
            f"{job.root} is not finished, though {directory.point_path(record.workers)} says so; "
            "it was changed: run the experiment in another directory"
        )
    result = job.result(with_vectors=False)
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
        measures=measure_timeline(job.history().leases, record.workers, run_wall_s(result)),
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


def read_timeline(directory: ExperimentDirectory, run: Run) -> tuple[LeaseResult, ...]:
    """Return the leases of a run, by worker and begin."""
    return timeline_of(JobDirectory(directory.root / run.job).history().leases)


def gather_points(runs: Sequence[Run]) -> tuple[Point, ...]:
    """Return the points of an experiment, by rising number of workers; see :func:`require_equal_counts`."""
    require_equal_counts(runs)
    by_workers: dict[int, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.workers, run.repeat)):
        by_workers.setdefault(run.workers, []).append(run)
    if not by_workers:
        return ()
    base = min(by_workers)
    base_speed = _speed(by_workers[base])
    points = []
    for workers, own in by_workers.items():
        times = [run.counting_s for run in own]
        speedups, ideal = tuple(run.speed / base_speed for run in own), workers / base
        points.append(
            Point(
                workers=workers,
                runs=tuple(own),
                middle=sorted(own, key=lambda run: run.counting_s)[(len(own) - 1) // 2],
                seconds_min=min(times),
                seconds_median=median(times),
                seconds_max=max(times),
                speedups=speedups,
                speedup=_speed(own) / base_speed,
                efficiency=_speed(own) / base_speed / ideal,
                ideal=ideal,
            )
        )
    return tuple(points)


def _speed(runs: Sequence[Run]) -> float:
    """Return work units over the median time of the runs of one point, which have the same work."""
    return runs[0].work / median(run.counting_s for run in runs)


def require_equal_counts(runs: Sequence[Run]) -> None:
    """Refuse runs that counted the same graph and disagree; an ExecutionError names the first two."""
    first: dict[str, Run] = {}
    for run in runs:
        other = first.setdefault(run.graph_hash, run)
        if other.count != run.count:
            raise ExecutionError(
                f"the counts of graph {run.graph_hash} differ: {other.count} in {other.job}, {run.count} in "
                f"{run.job}; one of them is wrong: keep the directories, check both with papilio verify "
                "--sample and report it"
            )


def rows_of(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return every run as a flat row, with its own speed-up and efficiency."""
    return [
        _row(run, speedup, speedup / point.ideal)
        for point in points
        for run, speedup in zip(point.runs, point.speedups, strict=True)
    ]


def _row(run: Run, speedup: float, efficiency: float) -> dict[str, Any]:
    nested = ("seconds", "measures", "peak_bytes")
    return {
        **{name: value for name, value in vars(run).items() if name not in nested},
        "count": str(run.count),
        "hosts": ", ".join(run.hosts),
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
        **{f"seconds_{phase}": value for phase, value in run.seconds.items()},
        "seconds_counting": run.counting_s,
        "work_per_second": run.work_per_second,
        "speedup": speedup,
        "efficiency": efficiency,
        "lease_overhead": run.measures.overhead,
        "tail_s": run.measures.tail_s,
        "balance": run.measures.balance,
        "busy_s": run.measures.busy_s,
        "run_wall_s": run.measures.wall_s,
        "peak_memory_bytes": run.peak_bytes,
    }
