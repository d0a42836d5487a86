"""Cut a graph into parts that fit a memory: asked for by itself, or where a count needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from papilio.api.call import GraphInput, scratch_parent
from papilio.arguments import Bytes, Threads, checked
from papilio.cluster.driver import run_directory
from papilio.cluster.events import Listener, PhaseAdvanced, PhaseStarted
from papilio.cluster.executor import Executor, choose_engine
from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.families import EngineChoice, resolve
from papilio.kernels.engine import EngineName
from papilio.motifs import Granularity, Motif, choose_options, read_motif
from papilio.partitioning.cut_request import CutProgress, CutRequest, Strategy
from papilio.partitioning.cut_run import PLANNED_SHARE
from papilio.partitioning.store import Partition, open_partition
from papilio.storage.files import local_path, os_errors_named, release_memory
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.job import Budget, JobSpec, PartitionRef, job_of_store, require_kind
from papilio.tasks.machine import WorkerInfo, describe_worker, free_memory_bytes
from papilio.tasks.memory import PROCESS_BYTES, choose_memory, part_limit, unlimit, with_least_budget

CUTTING_SHARE = 0.5
"""Share of the free memory of this machine that cutting takes where nothing else is said."""


@checked
def partition(
    graph: str | os.PathLike[str] | GraphStore,
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
    progress: CutProgress | None = None,
) -> Partition:
    """Cut a stored graph into self-contained parts, each small enough for one worker, and store them.

    Parameters
    ----------
    output : path-like
        Directory of the partition, which must not exist.
    motif : Motif
        What will be counted: ``Butterfly()``, or a ``Biclique``, ``MaximalBiclique``, ``Clique`` or ``MaximalClique``,
        whose parts serve all larger sizes as well.
    per : {"total", "vertex", "edge"}
        The finest counts that the parts are to serve.
    device_memory : int, optional
        Bytes that a worker with a GPU may use on its device. Given, the parts are made for the gpu engine.
    host_memory : int, optional
        Bytes that a worker may use on its host, and that cutting may use here. At least one of both is given.
    strategy : {"auto", "bcpar", "pair_blocks"}
        How starts or roots are grouped; ``auto`` compares what each moves.
    options : mapping of str to str, optional
        Those of the motif. ``anchor`` and ``algorithm`` of bicliques choose the layer of the roots, which is that of
        all counts from these parts.
    threads : int, optional
        Of cutting, and of the cpu workers that the parts are made for; by default all processors.
    temp_dir : path-like, optional
        Directory for scratch files; by default that of ``output``.
    progress : callable, optional
        Called with the share that is done, from 0 to 1.

    Returns
    -------
    Partition
        ``manifest`` says strategy, decisions, sizes and replication.

    Raises
    ------
    PapilioError
        InputError, StoreError or UnsupportedError for what is given; CapacityError, before anything is written, when
        even the smallest part does not fit.
    """
    motif = read_motif(motif)
    store = graph if isinstance(graph, GraphStore) else open_store(graph)
    require_kind(motif, store.kind, store.path)
    if device_memory is None and host_memory is None:
        raise InputError("a partition is made for a memory; give device_memory, host_memory or both")
    budget = Budget.of(device_memory, host_memory)
    engine: EngineName = "cpu" if device_memory is None else "gpu"
    worker = _planned_worker(budget, threads)
    job = job_of_store(store, motif, per, choose_options(motif, options or {}))
    how: Any = {"strategy": strategy, "temp_dir": temp_dir}
    target = local_path(output)

    def require(tried: Budget) -> None:
        host_bytes = budget.host_bytes and tried.host_bytes
        request = _make_request(job, engine, unlimit((worker,)), tried, worker.threads, host_bytes, **how)
        _try_cut(store, target, job, request)

    try:
        request = _make_request(job, engine, (worker,), budget, worker.threads, budget.host_bytes, **how)
        return _cut(store, target, job, request, progress)
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


class Fitting(NamedTuple):
    """What a call says about memory and parts."""

    budget: Budget
    parts: str | os.PathLike[str] | None = None
    job: str | os.PathLike[str] | None = None

    @property
    def _directory(self) -> Path | None:
        """Where the parts are or are to be; None for a directory that does not stay."""
        if self.parts is not None:
            return local_path(self.parts)
        return None if self.job is None else local_path(self.job) / "partition"

    @property
    def is_asked(self) -> bool:
        """Whether parts may be needed: there is a budget, or there are parts."""
        kept = self._directory
        if self.budget.is_set or self.parts is not None:
            return True
        if kept is None:
            return False
        with os_errors_named(kept):
            return kept.exists()

    def fit(
        self,
        stack: ExitStack,
        source: GraphInput,
        job: JobSpec,
        executor: Executor,
        engine: EngineChoice,
        target: Path | None,
        listener: Listener,
    ) -> JobSpec:
        """Return the job within the budget: on the whole graph where that fits, else on parts of it.

        Parts that are there are taken, others are cut beside ``target``, or where all workers see them; those that do
        not stay are removed when ``stack`` ends.

        Raises
        ------
        CapacityError
            When even the smallest part does not fit.
        StoreError
            When the parts there cannot be read.
        UnsupportedError
            When they are those of another graph, or serve another question.
        """
        if not self.is_asked:
            return job
        directory, parent = self._directory, scratch_parent(executor, source, target)
        job = replace(job, budget=self.budget)
        if directory is not None and directory.exists():
            return _with_parts(job, open_partition(directory))
        name, _, workers = choose_engine(executor, job.settle_engine(engine)[0])
        threads = describe_worker("here").threads

        def require(tried: Budget) -> None:
            if choose_memory(job, name, unlimit(workers), tried).strategy == "partition":
                store = source.stored(stack, parent)
                asked = replace(job_of_store(store, job.motif, job.per, job.options), budget=tried)
                host_bytes = self.budget.host_bytes and tried.host_bytes
                request = _make_request(asked, name, unlimit(workers), tried, threads, host_bytes)
                place = Path(stack.enter_context(run_directory(parent))) / "partition"
                _try_cut(store, place, asked, request)

        try:
            if choose_memory(job, name, workers, self.budget).strategy == "replicate":
                return job
            listener(PhaseStarted("cut"))
            if directory is None:
                directory = Path(stack.enter_context(run_directory(parent))) / "partition"
            store = source.stored(stack, parent)
            cut = replace(job_of_store(store, job.motif, job.per, job.options), budget=self.budget)
            request = _make_request(cut, name, workers, self.budget, threads, self.budget.host_bytes)
            with _parent_of(directory):
                found = _cut(store, directory, cut, request, lambda share: listener(PhaseAdvanced(share)))
        except CapacityError as error:
            raise with_least_budget(
                error, require, self.budget, name, workers, most_host_bytes=free_memory_bytes()
            ) from None
        release_memory()
        return _with_parts(cut, found)


@contextmanager
def _parent_of(directory: Path) -> Iterator[None]:
    """Make the directory above, such as a job's that does not exist yet, and remove it when the block fails."""
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


def _make_request(
    job: JobSpec,
    engine: EngineName,
    workers: Sequence[WorkerInfo],
    budget: Budget,
    threads: int,
    host_bytes: int | None,
    strategy: Strategy = "auto",
    temp_dir: str | os.PathLike[str] | None = None,
) -> CutRequest:
    """Return the request for parts for these workers; the process that cuts may have ``host_bytes``."""
    part_bytes, limit_bytes = part_limit(job, engine, workers, budget)
    free = int(free_memory_bytes() * CUTTING_SHARE)
    if host_bytes is not None:
        free = host_bytes - PROCESS_BYTES["cpu"]
    return CutRequest(
        per=job.per,
        part_bytes=part_bytes,
        limit_bytes=limit_bytes,
        host_bytes=free,
        threads=threads,
        strategy=strategy,
        scratch=None if temp_dir is None else local_path(temp_dir),
    )


class _Planned(Exception):
    """The parts are planned; nothing of them is written yet."""


def _try_cut(store: GraphStore, output: Path, job: JobSpec, request: CutRequest) -> None:
    """Plan the parts of a graph and write none. CapacityError where that needs more memory."""

    def stop_when_planned(share: float) -> None:
        if share >= PLANNED_SHARE:
            raise _Planned

    with suppress(_Planned):
        _cut(store, output, job, request, stop_when_planned)


def _cut(
    store: GraphStore, output: Path, job: JobSpec, request: CutRequest, progress: CutProgress | None
) -> Partition:
    parted = job.family.parted
    if parted is None:
        raise UnsupportedError(f"{job.motif.title} is counted on whole graphs only")
    found: Partition = resolve(parted.cutter)(store, output, job.motif, dict(job.options), request, progress)
    return found
