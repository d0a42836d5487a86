"""Measure a scaling experiment: every repetition of a point is a job of its own, on workers of its own.

The points run here, or as an array of Slurm jobs.
"""

from __future__ import annotations

import platform
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from papilio.api import count as api
from papilio.arguments import plural
from papilio.cluster.doctor import installed_version
from papilio.cluster.events import Listener, ignore_events
from papilio.cluster.executor import Executor
from papilio.cluster.sbatch import SbatchSpec, call_slurm, render_count
from papilio.cluster.selection import make_executor
from papilio.errors import EngineUnavailableError, ExecutionError, PapilioError, StoreError
from papilio.reports.experiment import Experiment, ExperimentDirectory
from papilio.reports.scaling import read_run, require_equal_counts
from papilio.storage.ledger import Ledger, find_holder, write_durably
from papilio.storage.store import open_store
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.result import CountResult
from papilio.version import __version__

_PACKAGES = (
    "numpy", "numba", "cupy-cuda13x", "cupy-cuda12x", "dask", "distributed", "dask-cuda", "pyarrow",
)  # fmt: skip

RunEnded = Callable[[int, int, CountResult | PapilioError | None], None]
"""Called with workers, repetition, and what came of it: None when it was finished before."""


def run_experiment(
    directory: ExperimentDirectory,
    *,
    workers: Sequence[int] | None = None,
    cluster: str | None = None,
    warm_up: bool = True,
    listener: Listener = ignore_events,
    on_run: RunEnded | None = None,
) -> None:
    """Run what is not finished: first repetition of all points, then the second, and so on.

    A run that fails is noted, the others go on, and the end is an error; the same call runs it again. ``workers`` are
    the points to run, by default all; ``cluster`` is by default what the experiment says. The point with the most
    workers runs once before all others, unmeasured, with ``warm_up``: where kernels were not compiled before they are
    then. ExecutionError when a run failed, or its count differs from that of another run on the same graph. StoreError
    when another process runs one of the points, or the directory cannot be written.
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
            f"{len(failures)} of the runs failed, and the same command runs them again; first {failures[0]}"
        )


def _warm_up(directory: ExperimentDirectory, workers: int, cluster: str, listener: Listener) -> None:
    """Count once and keep nothing; an error shows again in the run that is measured, and is reported there."""
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
    """Count on workers of its own; tell the name of the executor and the seconds that starting it took."""
    _discard(job)
    graph = experiment.graph_for(workers)
    store = open_store(graph.path)
    if store.hash != graph.hash:
        raise StoreError(
            f"{graph.path} holds graph {store.hash} now; the experiment was begun with {graph.hash}: "
            "put that back, or measure the new one in another directory"
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
        raise StoreError(
            f"{job} is being run by process {holder.pid} on {holder.host}; wait for it, or stop it"
        )
    try:
        shutil.rmtree(job)
    except OSError as error:
        raise StoreError(f"{job}: an unfinished run cannot be removed ({error.strerror})") from error


def _require_workers(result: CountResult, workers: int) -> None:
    """Refuse a run whose workers were not those of its point from beginning to end."""
    if len(result.workers) != workers:
        raise ExecutionError(
            f"the run had {len(result.workers)} workers that can use the engine {result.engine}; its point has "
            f"{workers}: give a cluster with as many"
        )
    came = set(result.leases_by_worker) - {worker.name for worker in result.workers}
    if came:
        raise ExecutionError(
            f"worker {min(came)} came while the run went on, so that its time says nothing; "
            "keep the cluster as it is during an experiment"
        )


class _FirstWorkers:
    """An executor that hides all but its first workers, and else is the one that it was made from."""

    def __init__(self, executor: Executor, workers: int) -> None:
        self._executor = executor
        self._n_workers = workers

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The first workers, of those with a GPU if there are any."""
        known = self._executor.workers
        return tuple(sorted(known, key=lambda worker: not worker.can_gpu))[: self._n_workers]

    def live_workers(self) -> dict[str, str]:
        """Return the status of those of the first workers that there are: no other one joins a run."""
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

    The directory is on a file system that all nodes see; the array of ``spec`` names the points. InputError when the
    specification makes no sense. EngineUnavailableError without sbatch. ClusterError when Slurm refuses.
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
        "Slurm refuses the jobs of the experiment",
        "change the options",
        folder=folder,
    )
    return answer.strip().split(";")[0]
