"""Drive a job through an executor: prepare everywhere, plan, dispatch leases, fold.

Also counts or lists a sample of a job's leases again, in this process and on a chosen engine, and compares exactly.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np

from papilio.cluster.events import (
    LeaseFinished,
    LeasesStarted,
    Listener,
    Noted,
    PhaseStarted,
    PlanMade,
    ignore_events,
    is_shown,
)
from papilio.cluster.executor import Executor, InlineExecutor, TaskList, choose_engine
from papilio.errors import ExecutionError, InputError, StoreError, TilingError
from papilio.kernels.announce import compiled_seconds
from papilio.kernels.engine import EngineChoice, EngineName, Partial
from papilio.motifs import EngineOptions
from papilio.signals import check, finishing, removed_at_end, uninterrupted
from papilio.storage.answers import read_partial_shard
from papilio.storage.files import await_paths
from papilio.storage.labelled import Vectors
from papilio.storage.listings import ListingShard, count_missing_rows
from papilio.system_errors import explain
from papilio.tasks.fold import Fold
from papilio.tasks.job import (
    JobSpec,
    LeaseResult,
    LeaseTask,
    Movement,
    PrepareReport,
    PrepareTask,
    choose_hands,
    open_job_partition,
)
from papilio.tasks.lease_scheduler import LeaseScheduler
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.memory import require_memory
from papilio.tasks.plan import CountPlan, make_plan
from papilio.tasks.result import CountResult, ListingResult
from papilio.tasks.run import run_lease, run_prepare
from papilio.tasks.significance import SignificanceResult
from papilio.tasks.worker_state import forget_graphs

if TYPE_CHECKING:
    from papilio.tasks.directory import JobDirectory
    from papilio.tasks.session import JobSession

TOLD_EDGES = 200_000
"""To draw and count a random graph with so many edges takes seconds."""

LEASES_IN_FLIGHT = 2
"""Leases that a worker holds: it runs one while the next is on its way."""

_REMOVAL_ATTEMPTS, _REMOVAL_PAUSE_S = 20, 0.05
"""An open file of a worker can keep a directory from being removed, on a shared file system for about a second."""


class JobOutcome(NamedTuple):
    """The answer of a job, before it is written."""

    # without a description of the graph; its seconds cover the phases from ``plan`` to ``fold``
    result: CountResult
    plan: CountPlan
    partial: Partial  # folded over all items
    listed: tuple[ListingShard, ...]  # files of the leases of a listing, in the order of the items


@contextmanager
def run_directory(parent: Path, *, private: bool = False) -> Iterator[str]:
    """Yield a directory for the shards of one run under ``parent``, removed when the block ends in any way.

    Only this user can enter it when it is ``private``, or when ``parent`` holds the temporary files of all users. Its
    name is known before it exists, so that an interrupt at any moment finds it for removal. Running workers may write
    into it during its removal, but not afterwards. StoreError if it cannot be created.
    """
    path = parent / f".papilio-run-{uuid4().hex}"
    with removed_at_end(path):
        try:
            path.mkdir(mode=0o700 if private or parent == Path(gettempdir()) else 0o777)
            yield str(path)
        except OSError as error:
            if path.is_dir():
                raise
            raise StoreError(
                f"{parent}: cannot create a directory for partial results "
                f"{explain(error, 'or choose an output in a directory that this process and all workers can write to')}"
            ) from error
        finally:
            for _ in range(_REMOVAL_ATTEMPTS):
                shutil.rmtree(path, ignore_errors=True)
                if not path.exists():
                    break
                sleep(_REMOVAL_PAUSE_S)


def plan_job(
    executor: Executor,
    job: JobSpec,
    engine: EngineChoice,
    listener: Listener,
    run_id: str | None = None,
    *,
    everywhere: bool = False,
    kept: bool = False,
    predict: bool = True,
    finished: Iterable[tuple[int, int, int]] = (),
    hands: int | None = None,
    limit_s: float | None = None,
) -> tuple[CountPlan, tuple[WorkerInfo, ...], PrepareReport]:
    """Prepare the graph on one worker, or on all of them at the same time, and plan the job from the first report.

    The other workers may still be preparing when this returns: their leases wait for that, and a job that is too short
    for them does not. Each task checks that its worker has the items of the plan. For a partitioned graph, the workers
    and this process read only the manifest of the partition.

    The graph is read where the engine is: this process needs neither the graph nor a GPU. Prepared graphs stay in the
    workers' caches. The plan leaves out the ``finished`` intervals. Set ``kept`` if the leases will be kept, and
    ``predict`` to probe the items for the time of the run, for ``limit_s`` at most. ``hands`` are those of earlier
    sessions, or 1 for probes alone. CapacityError, before anything is read, when the job cannot fit a worker's memory.
    ClusterError if a worker does not find the store.
    """
    executor.refresh()
    choice, rule = job.settle_engine(engine)
    name, reason, workers = choose_engine(executor, choice)
    job = replace(job, hands=hands or choose_hands(job, len(workers)))
    manifest = None if job.partition is None else open_job_partition(job).manifest
    memory = require_memory(job, name, workers, manifest)
    listener(PhaseStarted("plan"))
    if predict and job.ensemble is not None and job.n_edges >= TOLD_EDGES:
        listener(Noted("one random graph is drawn and counted first, to predict the time of the others"))
    executor.check_source(job, workers)
    run_id = run_id or uuid4().hex
    n_slots = len(workers) if everywhere else 1
    tasks = [PrepareTask(job, name, run_id, slot, predict=predict, limit_s=limit_s) for slot in range(n_slots)]
    reports = executor.run(run_prepare, TaskList(tasks), workers, in_flight=1)
    report = next(each for each in reports if manifest is not None or each.table is not None)
    del reports  # what has not begun is cancelled
    cluster = (executor.name, executor.why_chosen) if executor.why_chosen else None
    plan = make_plan(job, name, rule or reason, workers, report, memory, finished, manifest, kept=kept, cluster=cluster)
    plan.validate()
    return plan, workers, report


def count_job(
    executor: Executor,
    job: JobSpec,
    engine: EngineChoice,
    shard_parent: Path | None,
    listener: Listener,
    session: JobSession | None = None,
    accept: Callable[[CountPlan], None] | None = None,
) -> JobOutcome:
    """Plan a job and run it to its answer; a listing only until it reaches its limit of rows.

    The vectors of partials pass through ``shard_parent``, which is None when the executor runs in this process; leases
    of a listing without a session write there, and the caller owns their files. A session registers finished leases;
    leases finished in earlier sessions do not run again. TilingError if the results do not tile the items exactly.
    FailedItemsError if work items fail wherever they run; with a session, all others are finished and kept.
    PapilioError as the tasks raise; with the worker named. Exceptions that ``accept`` raises for the plan end the run
    before it begins.
    """
    run_id = uuid4().hex
    started, compiled_s = perf_counter(), compiled_seconds()
    before = () if session is None else session.finished_intervals
    kept = session is not None
    begun = None if session is None else session.begun
    job = job if begun is None else replace(job, settled=begun.settled)
    # A run in this process without a listener has one lease, and needs no prediction.
    predict = kept or not executor.in_process or accept is not None or is_shown(listener)
    plan, workers, report = plan_job(
        executor, job, engine, listener, run_id, everywhere=True, kept=kept, predict=predict, finished=before,
        hands=None if begun is None else begun.hands,
    )  # fmt: skip
    seconds = {
        "plan": max(0.0, perf_counter() - started - sum(report.seconds.values())),
        **report.seconds,
    }
    seconds = _without_compiling(seconds, compiled_seconds() - compiled_s, ("prepare", "plan"))
    listener(PlanMade(plan))
    if accept is not None:
        accept(plan)
    usage = _Usage(Counter({worker.name: 0 for worker in workers}), report.peak_bytes)
    started, compiled_s = perf_counter(), compiled_seconds()
    shards = _shard_directory(executor, plan, shard_parent, session, report.settled)
    with shards as directory:
        fold = Fold(plan, keep_shards=kept, directory=directory or shard_parent)
        for result in () if session is None else session.finished_leases:
            fold.add(result)
        listener(PhaseStarted("run"))
        listener(LeasesStarted(partial(executor.work_underway, run_id)))
        scheduler = LeaseScheduler(plan, run_id, directory, kept=kept)
        if not fold.is_full:
            _fold_leases(executor, scheduler, workers, plan, fold, usage, listener, session)
        check()
        if executor.in_process and job.partition is not None:
            # The next steps, up to writing the answer, need the memory of the parts.
            forget_graphs({job.graph_hash})
        if not fold.is_full:
            scheduler.require_all()
    folded = fold.finish()
    seconds |= {"run": perf_counter() - started - usage.fold_s, "fold": usage.fold_s}
    seconds = _without_compiling(seconds, compiled_seconds() - compiled_s, ("run",))
    counted = _make_result(plan, folded, usage, executor.name, workers, seconds, session)
    return JobOutcome(counted, plan, folded, fold.listed)


def _without_compiling(seconds: dict[str, float], compiled_s: float, phases: tuple[str, ...]) -> dict[str, float]:
    """Return the phases with the time for compiling kernels in this process as a separate phase, ``compile``."""
    if not compiled_s:
        return seconds
    found = {**seconds, "compile": seconds.get("compile", 0.0)}
    for phase in phases:
        taken = min(compiled_s, found[phase])
        found[phase], compiled_s = found[phase] - taken, compiled_s - taken
        found["compile"] += taken
    return found


@dataclass
class _Usage:
    """Resources of the leases of a session, in addition to time."""

    by_worker: Counter[str]  # leases
    peak_bytes: int
    device_peak_bytes: int = 0
    device_used_bytes: int = 0
    moved: Movement = field(default_factory=Movement)
    fold_s: float = 0.0  # in this process

    def add(self, result: LeaseResult) -> None:
        """Add one lease."""
        self.by_worker[result.worker] += 1
        self.peak_bytes = max(self.peak_bytes, result.peak_bytes)
        self.device_peak_bytes = max(self.device_peak_bytes, result.device_peak_bytes)
        self.device_used_bytes = max(self.device_used_bytes, result.device_used_bytes)
        self.moved += result.movement


def _fold_leases(
    executor: Executor,
    scheduler: LeaseScheduler,
    workers: tuple[WorkerInfo, ...],
    plan: CountPlan,
    fold: Fold,
    usage: _Usage,
    listener: Listener,
    session: JobSession | None,
) -> None:
    """Run the leases of a scheduler, and fold and register each as it finishes, until the fold is full."""
    results = executor.run(run_lease, scheduler, workers, LEASES_IN_FLIGHT)
    with nullcontext() if session is None else finishing():
        try:
            for result in _with_files(results):
                if result.start == result.stop:
                    continue
                started = perf_counter()
                with uninterrupted():
                    fold.add(result)
                    if session is not None:
                        session.record(result)
                usage.fold_s += perf_counter() - started
                usage.add(result)
                table = plan.partitions[result.partition].table
                listener(LeaseFinished(result, table.work_between(result.start, result.stop)))
                if fold.is_full:
                    break
        finally:
            del results


def _with_files(results: Iterable[LeaseResult]) -> Iterator[LeaseResult]:
    """Yield results once this machine finds their files; others overtake those whose files are late."""
    late: list[LeaseResult] = []
    for result in results:
        waiting, late = [*late, result], []
        for each in waiting:
            if all(map(os.path.exists, each.files)):
                yield each
            else:
                late.append(each)
    for result in late:
        await_paths(result.files)
        yield result


def _make_result(
    plan: CountPlan,
    folded: Partial,
    usage: _Usage,
    cluster: str,
    workers: tuple[WorkerInfo, ...],
    seconds: dict[str, float],
    session: JobSession | None,
) -> CountResult:
    """Return the answer of a job, without a description of the graph."""
    job, before = plan.job, () if session is None else session.finished_leases
    kind: Callable[..., CountResult] = CountResult
    if job.listing is not None:
        kind = partial(ListingResult, listing=job.listing, limit_reached=folded.capped)
    elif job.ensemble is not None:
        kind = partial(SignificanceResult, ensemble=job.ensemble)
    return kind(
        motif=job.motif,
        per=job.per,
        count=folded.total,
        engine=plan.engine,
        cluster=cluster,
        workers=workers,
        leases_by_worker=dict(usage.by_worker),
        items=plan.n_items,
        leases=usage.by_worker.total() + len(before),
        plan_key=plan.key,
        seconds=seconds,
        work=folded.work,
        work_unit=plan.work_unit,
        graph={},
        peak_memory_bytes=usage.peak_bytes,
        decisions=plan.decisions,
        table=dict(sorted(folded.cells.items())),
        vectors=Vectors(folded.vectors),
        leases_before=len(before),
        work_before=sum(lease.work for lease in before),
        strategy=plan.strategy,
        replication=plan.replication,
        moved=usage.moved,
        peak_device_bytes=usage.device_peak_bytes,
        used_device_bytes=usage.device_used_bytes,
        checksum=folded.checksum if job.row.has_checksum and not folded.capped else None,
        best=folded.best,
    )


def _shard_directory(
    executor: Executor,
    plan: CountPlan,
    shard_parent: Path | None,
    session: JobSession | None,
    settled: EngineOptions,
) -> AbstractContextManager[str | None]:
    """Yield the directory for the vectors of leases: the job's, one of this run alone, or none."""
    if session is not None:
        return nullcontext(session.begin_leases(plan, executor.name, settled))
    if plan.job.listing is not None:
        return nullcontext(str(shard_parent))
    if executor.in_process or not plan.job.vector_entries:
        return nullcontext()
    if shard_parent is None:
        raise ExecutionError("vectors of workers in other processes need a directory for their shards")
    return run_directory(shard_parent)


@dataclass(frozen=True)
class Recount:
    """Number of leases that were counted again, chosen at random without repetition; their work items and work
    units."""

    engine: EngineName
    seed: int
    leases: int
    items: int
    work: int


def recount_leases(directory: JobDirectory, sample: int, engine: EngineChoice, seed: int) -> Recount:
    """Count ``sample`` random finished leases again, or all if there are fewer.

    ExecutionError naming the first lease whose total, cells, vectors or rows differ, or whose work differs if engines
    do the same work. TilingError if the engine finds other work items. InputError if the graph was in memory.
    """
    if directory.source is None:
        raise InputError(f"the graph of {directory.root} was in memory; its leases cannot be counted again")
    job = replace(directory.job, source=directory.source)
    leases = directory.history().leases
    chosen = random.Random(seed).sample(leases, min(sample, len(leases)))
    chosen.sort(key=lambda lease: (lease.partition, lease.start))
    with ExitStack() as stack:
        executor = stack.enter_context(InlineExecutor())
        plan, (worker,), _ = plan_job(executor, job, engine, ignore_events, predict=False, hands=job.hands)
        if plan.key != directory.plan_key:
            raise TilingError(
                f"{directory.root} has the plan {directory.plan_key}, but the {plan.engine} engine makes the plan "
                f"{plan.key} here, with other work items"
            )
        run_id = uuid4().hex
        shards = None if job.listing is None else stack.enter_context(TemporaryDirectory())
        for number, lease in enumerate(chosen):
            task = LeaseTask(
                job, plan.engine, plan.key, run_id, lease.partition, lease.start, lease.stop, lease.work,
                plan.costs_digest, shards, sequence=number,
            )  # fmt: skip
            again = run_lease(task, worker)
            _compare(lease, again, job.row.same_work)
            if shards is not None:
                _compare_rows(lease, again)
    return Recount(
        engine=plan.engine,
        seed=seed,
        leases=len(chosen),
        items=sum(lease.stop - lease.start for lease in chosen),
        work=sum(lease.work for lease in chosen),
    )


def _answers(lease: LeaseResult, again: LeaseResult, same_work: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield the answers of a lease by name, as in the ledger and as recounted; for a vector the first difference."""
    yield "total", lease.total, again.total
    if same_work:
        yield "work", lease.work, again.work
    yield "checksum", lease.checksum, again.checksum
    yield "best", lease.best, again.best
    for cell in sorted(lease.cells.keys() | again.cells.keys()):
        yield f"cell {cell}", lease.cells.get(cell, 0), again.cells.get(cell, 0)
    if lease.shard is None or not again.vectors:
        return
    vectors = read_partial_shard(lease.shard.path, lease.shard.digest)
    for key, vector in again.vectors.items():
        if not np.array_equal(vectors[key], vector):
            entry = int(np.flatnonzero(vectors[key] != vector)[0])
            yield f"entry {entry} of vector {key!r}", int(vectors[key][entry]), int(vector[entry])


def _compare(lease: LeaseResult, again: LeaseResult, same_work: bool) -> None:
    for what, recorded, counted in _answers(lease, again, same_work):
        if recorded != counted:
            raise ExecutionError(
                f"items [{lease.start}, {lease.stop}) of partition {lease.partition}: the ledger has {what}: "
                f"{recorded}, from engine {lease.engine}; engine {again.engine} counts {counted}"
            )


def _compare_rows(lease: LeaseResult, again: LeaseResult) -> None:
    """Raise for rows that were not listed again, as many times; the choice of rows before a limit may differ."""
    if lease.capped or not lease.listed:
        return
    missing = count_missing_rows(*([shard.path for shard in each.listed] for each in (lease, again)))
    if missing:
        raise ExecutionError(
            f"items [{lease.start}, {lease.stop}) of partition {lease.partition}: {missing} of the {lease.total} "
            f"rows of {lease.listed[0].path} ... are missing from the new listing"
        )
