"""Cut a graph into parts that fit in memory: as a separate command, or if a count needs it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Unpack

from papilio.api.read import AskedOptions, Graph, ask
from papilio.arguments import Bytes, Threads, checked
from papilio.cluster.driver import run_directory
from papilio.cluster.events import Listener, PhaseAdvanced, PhaseStarted
from papilio.cluster.executor import Executor, choose_engine
from papilio.cluster.progress import shows_share
from papilio.errors import CapacityError, InputError
from papilio.kernels.engine import EngineChoice, EngineName
from papilio.motifs import Granularity, Motif
from papilio.partitioning.cut_request import CutProgress, CutRequest, Strategy
from papilio.partitioning.cut_run import PLANNED_SHARE
from papilio.partitioning.cutters import cutter_of
from papilio.partitioning.partition import Partition, open_partition
from papilio.question import Question
from papilio.storage.files import is_url, local_path, release_memory
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.job import Budget, JobSpec, PartitionRef, job_of
from papilio.tasks.machine import WorkerInfo, describe_worker, free_memory_bytes
from papilio.tasks.memory import PROCESS_BYTES, needs_parts, part_limit, unlimit, with_least_budget

CUTTING_SHARE = 0.5
"""Default share of the free memory of this machine for cutting."""


@checked
@shows_share("cutting into parts")
def partition(
    graph: Any,
    output: str | os.PathLike[str],
    motif: Motif | str,
    *,
    per: Granularity = "total",
    device_memory: Bytes | None = None,
    host_memory: Bytes | None = None,
    strategy: Strategy = "auto",
    options: Mapping[str, str] | None = None,
    threads: Threads | None = None,
    temp_dir: str | os.PathLike[str] | None = None,
    progress: CutProgress | bool | None = None,
    **asked: Unpack[AskedOptions],
) -> Partition:
    """Cut a stored graph into self-contained parts, each small enough for one worker, and store them.

    Parameters
    ----------
    graph : Graph or path
        As for :func:`papilio.count`; a graph in memory is saved first (:meth:`papilio.Graph.save`).
    output : path-like
        Directory of the partition, which must not exist.
    motif : Motif
        Motif to count: ``Butterfly()``, or a ``Biclique``, ``MaximalBiclique``, ``Clique`` or ``MaximalClique``, whose
        parts also support all larger sizes.
    per : {"total", "vertex", "edge"}
        Finest granularity of counts that the parts support.
    device_memory : int, optional
        Bytes that a worker with a GPU may use on its device. If set, the parts are for the gpu engine.
    host_memory : int, optional
        Bytes that a worker may use on its host, and that cutting may use here. At least one of the two is required.
    strategy : {"auto", "bcpar", "pair_blocks"}
        Grouping of starts or roots; ``auto`` compares the bytes that each strategy moves.
    options : mapping of str to str, optional
        Options of the motif. ``anchor`` and ``algorithm`` of bicliques choose the layer of the roots, which applies to
        all counts from these parts.
    threads : int, optional
        Number of threads, for cutting and for the cpu workers of the parts; by default all processors.
    temp_dir : path-like, optional
        Directory for scratch files; by default the directory of ``output``.
    progress : bool or callable, optional
        True for a progress bar, on a terminal or in a notebook; a function is called with the share of completed work,
        from 0 to 1.
    **asked
        As for :func:`papilio.count`.

    Returns
    -------
    Partition
        ``manifest`` contains the strategy, decisions, sizes and replication.

    Raises
    ------
    PapilioError
        InputError, StoreError or UnsupportedError for wrong arguments; CapacityError, before anything is written, if
        even the smallest part does not fit.
    """
    graph, question = ask(graph, motif, asked, lambda motif: Question.of(motif, per, options))
    store = graph.store
    if store is None:
        raise InputError(
            "a partition needs a stored graph, but this one is in memory; write it with papilio.Graph.save"
        )
    if device_memory is None and host_memory is None:
        raise InputError("a partition needs a memory limit; set device_memory, host_memory or both")
    budget = Budget.of(device_memory, host_memory)
    job = replace(job_of(store, question), budget=budget)
    engine: EngineName = "cpu" if device_memory is None else "gpu"
    worker = _planned_worker(budget, threads)
    how: Any = {"strategy": strategy, "temp_dir": None if temp_dir is None else local_path(temp_dir)}
    target = local_path(output)
    report: CutProgress | None = progress if callable(progress) else None

    def require(tried: Budget) -> None:
        _try_cut(job, tried, engine, (worker,), worker.threads, target, **how)

    try:
        return _cut(job, engine, (worker,), worker.threads, budget.host_bytes, target, report, **how)
    except CapacityError as error:
        (planned,) = unlimit((worker,))
        if budget.host_bytes is None:
            planned = replace(planned, memory_bytes=worker.memory_bytes)
        raise with_least_budget(
            error, require, budget, engine, (planned,), most_host_bytes=free_memory_bytes()
        ) from None


def _planned_worker(budget: Budget, threads: Threads | None) -> WorkerInfo:
    worker = describe_worker("planned", threads)
    return replace(
        worker,
        memory_bytes=budget.host_bytes or worker.memory_bytes,
        gpu_memory_bytes=budget.device_bytes or 0,
        gpu_missing=None,
    )


class Fitted(Protocol):
    """A call whose job must fit in a budget; see :class:`papilio.api.call.Call`."""

    graph: Graph
    budget: Budget
    engine: EngineChoice
    target: Path | None
    listener: Listener
    stack: ExitStack

    @property
    def kept_parts(self) -> Path | None: ...

    def stored(self, parent: Path) -> GraphStore: ...


def fit_job(call: Fitted, job: JobSpec, executor: Executor) -> JobSpec:
    """Return the job of a call within its budget: on the whole graph if it fits, else on parts of it.

    Existing parts are used; others are cut next to the output, or where all workers can read them. Temporary parts are
    removed at the end of the call. Raises CapacityError if even the smallest part does not fit, StoreError if existing
    parts cannot be read, UnsupportedError if they belong to another graph or question.
    """
    stack, budget, directory = call.stack, call.budget, call.kept_parts
    job = replace(job, budget=budget)
    if directory is not None and directory.exists():
        return _with_parts(job, open_partition(directory))
    name, _, workers = choose_engine(executor, call.engine)
    threads = describe_worker("here").threads
    parent = _scratch_parent(executor, call.graph, call.target)

    def store_job() -> JobSpec:
        return replace(job, source=call.stored(parent).path)

    def require(tried: Budget) -> None:
        if needs_parts(replace(job, budget=tried), name, unlimit(workers)):
            place = Path(stack.enter_context(run_directory(parent))) / "partition"
            _try_cut(store_job(), tried, name, workers, threads, place)

    try:
        if not needs_parts(job, name, workers):
            return job
        call.listener(PhaseStarted("cut"))
        if directory is None:
            directory = Path(stack.enter_context(run_directory(parent))) / "partition"
        job = store_job()
        with _parent_of(directory):
            found = _cut(
                job, name, workers, threads, budget.host_bytes, directory,
                lambda share: call.listener(PhaseAdvanced(share)),
            )  # fmt: skip
    except CapacityError as error:
        raise with_least_budget(error, require, budget, name, workers, most_host_bytes=free_memory_bytes()) from None
    release_memory()
    return _with_parts(job, found)


def _scratch_parent(executor: Executor, graph: Graph, target: Path | None) -> Path:
    """Return a directory for temporary parts of a count that all workers can access.

    Next to the output, else next to the store; the directory of temporary files, which may be small, comes last.
    """
    if target is not None:
        return target.parent
    if graph.path is not None and not is_url(graph.path):
        beside = Path(graph.path).parent
        if executor.name == "existing" or os.access(beside, os.W_OK):
            return beside
    return Path.cwd() if executor.name == "existing" else Path(tempfile.gettempdir())


@contextmanager
def _parent_of(directory: Path) -> Iterator[None]:
    """Create the parent directory, such as a new job directory, and remove it if the block fails."""
    made = not directory.parent.exists()
    directory.parent.mkdir(exist_ok=True)
    try:
        yield
    except BaseException:
        if made:
            with suppress(OSError):
                directory.parent.rmdir()
        raise


def _with_parts(job: JobSpec, found: Partition) -> JobSpec:
    found.require_graph(job.graph_hash)
    found.require_serves(job.motif, job.per)
    return replace(job, partition=PartitionRef(os.path.abspath(found.path), found.hash))


class _Planned(Exception): ...


def _stop_when_planned(share: float) -> None:
    """Raised to end a cut after its parts are planned, before any is written."""
    if share >= PLANNED_SHARE:
        raise _Planned


def _try_cut(
    job: JobSpec,
    budget: Budget,
    engine: EngineName,
    workers: Sequence[WorkerInfo],
    threads: int,
    output: Path,
    **how: Any,
) -> None:
    """Plan the parts of a job within another budget, without writing them; CapacityError if they do not fit."""
    own = job.budget.host_bytes and budget.host_bytes
    with suppress(_Planned):
        _cut(
            replace(job, budget=budget),
            engine,
            unlimit(workers),
            threads,
            own,
            output,
            _stop_when_planned,
            **how,
        )


def _cut(
    job: JobSpec,
    engine: EngineName,
    workers: Sequence[WorkerInfo],
    threads: int,
    host_bytes: int | None,
    output: Path,
    progress: CutProgress | None,
    strategy: Strategy = "auto",
    temp_dir: Path | None = None,
) -> Partition:
    """Cut a stored graph into parts for these workers; this process may have ``host_bytes``."""
    part_bytes, limit_bytes = part_limit(job, engine, workers)
    assert job.row.parted is not None, "it has a limit"
    free = int(free_memory_bytes() * CUTTING_SHARE)
    if host_bytes is not None:
        free = host_bytes - PROCESS_BYTES["cpu"]
    request = CutRequest(
        per=job.per,
        part_bytes=part_bytes,
        limit_bytes=limit_bytes,
        host_bytes=free,
        threads=threads,
        strategy=strategy,
        scratch=temp_dir,
    )
    cut = cutter_of(job.row.parted.kind)
    return cut(open_store(job.source), output, job.motif, dict(job.options), request, progress)
