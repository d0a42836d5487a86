"""Measure a scaling experiment: run its points, and compute the speed-up and efficiency of each.

Every repetition of a point is a separate job, on separate workers. The points run here, or as an array of Slurm jobs.

One definition serves strong and weak scaling: speed is work units over the time, for a point over the median time of
its repetitions; the speed-up of a run or point is its speed over the speed of the point with the fewest workers, and
the efficiency is the speed-up over the ratio of workers. With one graph for all points that is the usual ratio of
times; with graphs that grow it is the scaled speed-up, whatever the exact growth of the work.
"""

from __future__ import annotations

import platform
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from papilio.api import count as api
from papilio.arguments import plural
from papilio.cluster.doctor import installed_version
from papilio.cluster.events import Listener, ignore_events
from papilio.cluster.executor import Executor
from papilio.cluster.sbatch import SbatchSpec, call_slurm, render_count
from papilio.cluster.selection import make_executor
from papilio.errors import EngineUnavailableError, ExecutionError, PapilioError, StoreError
from papilio.reports.experiment import Experiment, ExperimentDirectory, RunRecord
from papilio.reports.timeline import TimelineMeasures, measure_timeline, run_wall_s, timeline_of
from papilio.storage.ledger import Ledger, find_holder, write_durably
from papilio.storage.store import open_store
from papilio.system_errors import explain
from papilio.tasks.directory import JobDirectory
from papilio.tasks.job import LeaseResult
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.result import CountResult, rate_of
from papilio.version import __version__

_PACKAGES = (
    "numpy", "numba", "cupy-cuda13x", "cupy-cuda12x", "dask", "distributed", "dask-cuda", "pyarrow",
)  # fmt: skip

RunEnded = Callable[[int, int, CountResult | PapilioError | None], None]
"""Called with workers, repetition and outcome: None when it was finished before."""


def run_experiment(
    directory: ExperimentDirectory,
    *,
    workers: Sequence[int] | None = None,
    cluster: str | None = None,
    warm_up: bool = True,
    listener: Listener = ignore_events,
    on_run: RunEnded | None = None,
) -> None:
    """Run the unfinished repetitions: the first of all points, then the second, and so on.

    A failed run is recorded, the others continue, and an error is raised at the end; the same call runs it again.
    ``workers`` are the points to run, by default all; ``cluster`` is by default the experiment's. With ``warm_up``, the
    point with the most workers runs once before all others, unmeasured, to compile kernels. ExecutionError if a run
    failed, or its count differs from the count of another run on the same graph. StoreError if another process runs
    one of the points, or the directory cannot be written.
    """
    experiment = directory.experiment
    points = experiment.workers if workers is None else tuple(workers)
    for each in points:
        experiment.graph_for(each)
    todo = set(points).intersection(directory.unfinished_points())
    if warm_up and todo:
        _warm_up(directory, max(todo), cluster or experiment.cluster, listener)
    failures: list[str] = []
    for repeat in range(1, experiment.repeat + 1):
        for each in points:
            outcome = _run_once(directory, each, repeat, cluster or experiment.cluster, listener)
            if on_run is not None:
                on_run(each, repeat, outcome)
            if isinstance(outcome, PapilioError):
                failures.append(f"{plural(each, 'worker')}, repetition {repeat}: {outcome}")
            elif outcome is not None:
                require_equal_counts([read_run(directory, record) for record in directory.finished_runs()])
    if failures:
        raise ExecutionError(
            f"{len(failures)} of the runs failed; repeat the command to run them again. First: {failures[0]}"
        )


def _warm_up(directory: ExperimentDirectory, workers: int, cluster: str, listener: Listener) -> None:
    """Count once without keeping anything; an error recurs in the measured run, which reports it."""
    job = directory.root / "jobs" / f".warm-up-w{workers}"
    with suppress(PapilioError):
        try:
            _count(directory.experiment, workers, cluster, job, listener, lambda name, start_s: None)
        finally:
            _discard(job)


def _count(
    experiment: Experiment,
    workers: int,
    cluster: str,
    job: Path,
    listener: Listener,
    started: Callable[[str, float], None],
) -> CountResult:
    """Count on separate workers; report the name of the executor and the seconds to start it."""
    _discard(job)
    graph = experiment.graph_for(workers)
    store = open_store(graph.path)
    if store.hash != graph.hash:
        raise StoreError(
            f"{graph.path} is now graph {store.hash}, but the experiment began with {graph.hash}: restore that one, "
            f"or measure the new one in another directory"
        )
    began = time.perf_counter()
    with make_executor(cluster, experiment.engine, workers, experiment.threads) as executor:
        started(executor.name, time.perf_counter() - began)
        return api.count(
            store,
            experiment.motif,
            per=experiment.per,
            # An existing cluster may have more workers than the point.
            cluster=executor if len(executor.workers) <= workers else _FirstWorkers(executor, workers),
            engine=experiment.engine,
            progress=listener,
            job=job,
            options=dict(experiment.options),
        )


def _run_once(
    directory: ExperimentDirectory, workers: int, repeat: int, cluster: str, listener: Listener
) -> CountResult | PapilioError | None:
    experiment, job = directory.experiment, directory.job_path(workers, repeat)
    with Ledger(directory.point_path(workers)) as ledger:
        held = directory.records(workers).get(repeat)
        if held is not None and held.outcome == "finished":
            return None
        began_at, began = time.time(), time.perf_counter()
        outcome: CountResult | PapilioError
        versions = {"papilio": __version__, "python": platform.python_version()}
        versions |= {name: found for name in _PACKAGES if (found := installed_version(name)) is not None}
        fields: dict[str, Any] = {
            "type": "run", "repeat": repeat, "host": socket.gethostname(), "began_at": began_at,
            "versions": versions, "question": experiment.question_of(workers),
        }  # fmt: skip

        def note_start(name: str, start_s: float) -> None:
            ledger.append({**fields, "start_s": start_s, "cluster": name})

        try:
            outcome = _count(experiment, workers, cluster, job, listener, note_start)
            _require_workers(outcome, workers)
        except PapilioError as error:
            if ledger.n_records == len(ledger.content.records):
                note_start(cluster, time.perf_counter() - began)
            outcome = error
        text = str(outcome) if isinstance(outcome, PapilioError) else "finished"
        ledger.append({"type": "end", "repeat": repeat, "outcome": text, "ended_at": time.time()})
        return outcome


def _discard(job: Path) -> None:
    """Remove the job directory of a repetition that was killed or failed: it is measured from the beginning."""
    if not job.exists():
        return
    holder = find_holder(job / "ledger.jsonl")
    if holder is not None:
        raise StoreError(f"process {holder.pid} on {holder.host} is running {job}; wait until it ends, or stop it")
    try:
        shutil.rmtree(job)
    except OSError as error:
        raise StoreError(f"{job}: an unfinished run cannot be removed {explain(error)}") from error


def _require_workers(result: CountResult, workers: int) -> None:
    """Raise for a run whose workers changed, or differ in number from its point."""
    if len(result.workers) != workers:
        raise ExecutionError(
            f"the run had {len(result.workers)} workers that can use the engine {result.engine}; its point needs "
            f"{workers}: use a cluster with {workers}"
        )
    came = set(result.leases_by_worker) - {worker.name for worker in result.workers}
    if came:
        raise ExecutionError(
            f"worker {min(came)} joined during the run, which makes its time meaningless; keep the cluster unchanged "
            f"during an experiment"
        )


class _FirstWorkers:
    """An executor that hides all but its first workers, and otherwise behaves as the original one."""

    def __init__(self, executor: Executor, workers: int) -> None:
        self._executor = executor
        self._n_workers = workers

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The first workers, with a GPU if any worker has one."""
        known = self._executor.workers
        return tuple(sorted(known, key=lambda worker: not worker.can_gpu))[: self._n_workers]

    def live_workers(self) -> dict[str, str]:
        """Return the status of the first workers that still run: no other one joins a run."""
        live: dict[str, str] = self._executor.live_workers()  # type: ignore[attr-defined]
        return {worker.name: live[worker.name] for worker in self.workers if worker.name in live}

    def run(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        from papilio.cluster.dispatcher import Dispatcher

        pool: Any = self
        return iter(Dispatcher(pool, *arguments, **named))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)


def submit_points(directory: ExperimentDirectory, spec: SbatchSpec) -> str:
    """Write ``slurm/points.sbatch`` into the experiment and submit it from there; return the id of the array.

    The directory is on a file system that all nodes see; the array of ``spec`` names the points. InputError for an
    invalid specification. EngineUnavailableError without sbatch. ClusterError when Slurm rejects the job.
    """
    script = render_count(spec)
    if shutil.which("sbatch") is None:
        raise EngineUnavailableError(
            "submitting to Slurm needs sbatch, which is not on the PATH; run this on a login node"
        )
    folder = directory.root / "slurm"
    folder.mkdir(exist_ok=True)
    write_durably(folder / "points.sbatch", script)
    answer = call_slurm(
        ["sbatch", "--parsable", "points.sbatch"],
        "Slurm rejects the jobs of the experiment",
        "change the options",
        folder=folder,
    )
    return answer.strip().split(";")[0]


SHORT_S = 10.0
"""Shorter runs say little about scaling: work that is not divided among workers takes most of the time."""


def counting_s(seconds: Mapping[str, float]) -> float:
    """Return the wall time after starting workers and reading the graph, from the times of phases."""
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
        """Work units over :attr:`counting_s`: the basis of speed-ups; no work counts as one unit."""
        return max(self.work, 1) / self.counting_s

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
    ideal: float  # its number of workers over the smallest number

    def to_dict(self) -> dict[str, Any]:
        """Return the measures of the point as a JSON object, its runs by their job directories."""
        kept = {name: value for name, value in asdict(self).items() if name not in ("runs", "middle")}
        return {**kept, "middle": self.middle.job, "runs": [run.job for run in self.runs]}


def read_run(directory: ExperimentDirectory, record: RunRecord) -> Run:
    """Return a finished run, with its measures; StoreError if its job is missing, unfinished or damaged."""
    job = JobDirectory(directory.job_path(record.workers, record.repeat))
    if not job.finished:
        raise StoreError(
            f"{job.root} is not finished, although {directory.point_path(record.workers)} records its end; it was "
            f"changed: run the experiment in another directory"
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
    """Return the points of an experiment, by increasing number of workers; see :func:`require_equal_counts`."""
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
    return max(runs[0].work, 1) / median(run.counting_s for run in runs)


def require_equal_counts(runs: Sequence[Run]) -> None:
    """Raise ExecutionError for runs that counted the same graph and disagree; it names the first two."""
    first: dict[str, Run] = {}
    for run in runs:
        other = first.setdefault(run.graph_hash, run)
        if other.count != run.count:
            raise ExecutionError(
                f"the counts of graph {run.graph_hash} differ: {other.count} in {other.job}, {run.count} in "
                f"{run.job}; one of them is wrong: keep the directories, check both with papilio verify --sample, "
                f"and report it"
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
