"""Run one task, on a worker or in this process: read, prepare (once per process), count an interval.

A process runs one engine call at a time: the CPU engine already uses all threads of its worker, and two jobs on one GPU
would only slow each other down. Other tasks of the same process wait for the lock.

Leases end early in the process that runs them, on request or by the clock. A request may come while its lease runs,
before it begins, or after it has ended: it is only recorded, and the lease looks it up.
"""

from __future__ import annotations

import resource
import sys
import threading
from asyncio import sleep
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic, perf_counter, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ClusterError, LeaseTooLargeError
from papilio.kernels.announce import get_passed, run_clock, say_passed
from papilio.kernels.device.discovery import held_device_bytes, used_device_bytes
from papilio.kernels.engine import Partial, SharedCut
from papilio.motifs import EngineOptions
from papilio.signals import requested
from papilio.storage.answers import write_partial_shard
from papilio.storage.files import await_paths
from papilio.storage.listings import ListingShard, ListingWriter
from papilio.tasks.job import (
    JobSpec,
    LeaseResult,
    LeaseTask,
    Movement,
    PrepareReport,
    PrepareTask,
    ShardRef,
    open_job_partition,
)
from papilio.tasks.leases import MAX_LEASE_S
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.probe_statistics import ProbeResult, ProbeTask, walk_slice
from papilio.tasks.worker_state import (
    PreparedGraph,
    engine_of,
    foresee_run,
    forget_others,
    prepare_graph,
    prepare_part,
    run_alone,
    warm_up,
)

_REMEMBERED = 4096
"""Requests that a process stores; the oldest are dropped first, as their leases have ended long ago."""

_requests: OrderedDict[str, None] = OrderedDict()
_lock = threading.Lock()


def request_cuts(keys: Iterable[str]) -> None:
    """Ask the leases of these task keys to end at the next bound, or not to begin; returns at once."""
    with _lock:
        for key in keys:
            _requests[key] = None
        while len(_requests) > _REMEMBERED:
            _requests.popitem(last=False)


def is_cut(key: str) -> bool:
    """Return whether the lease of this task key, or this process, was asked to end."""
    return key in _requests or requested()


LEAST_LEFT_S = 0.05
"""Give half of a run to another worker only if the run has this long left by its own pace: sharing takes some ms."""

UNHEARD_S = 0.5
"""End a run whose engine has not checked for a sharing request for this long: it may not be able to share."""

_running: dict[str, CutWatch] = {}
"""The leases that run in this process."""


class CutWatch(SharedCut):
    """Decide whether one run of a lease must end; called from any thread.

    ``limit_s`` limits the run, None for no limit. The clock starts at the first call, so the first slice always runs,
    whatever time is spent before it: a lease that is cut by the clock always has a result.

    Other threads ask the run to leave half of its remaining items to another worker (:meth:`want_half`); the run leaves
    all items from ``left_at`` on.
    """

    def __init__(
        self,
        key: str,
        limit_s: float | None,
        times_of: Callable[[int, int], NDArray[np.float64]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._times_of = times_of
        self._key, self._limit_s, self._clock = key, limit_s, clock
        self._began_at: float | None = None
        self._wanted_at: float | None = None
        self.left_at: int | None = None

    def __call__(self) -> bool:
        if is_cut(self._key):
            return True
        now = self._clock()
        if self._began_at is None:
            self._began_at = now
        wanted_at = self._wanted_at
        is_deaf = wanted_at is not None and now - wanted_at >= UNHEARD_S
        return is_deaf or (self._limit_s is not None and now - self._began_at >= self._limit_s)

    def want_half(self) -> None:
        """Ask the run to leave half of its remaining work, or more, to another worker."""
        self._wanted_at = self._clock()

    def is_wanted(self) -> bool:
        return self._wanted_at is not None

    def is_worth(self, done: float, left: float) -> bool:
        ran_s = 0.0 if self._began_at is None else self._clock() - self._began_at
        is_worth = done > 0 and ran_s * left / done >= LEAST_LEFT_S
        if not is_worth:
            self.leave(None)
        return is_worth

    def times_of(self, start: int, stop: int) -> NDArray[np.float64]:
        return self._times_of(start, stop)

    def leave(self, stop: int | None) -> None:
        if stop is not None:
            self.left_at = stop
        self._wanted_at = None

    @property
    def has_left(self) -> bool:
        return self.left_at is not None


_POLL_S = 0.002
"""Interval at which a sharing request is polled for an answer."""


async def leave_half(key: str) -> int | None:
    """Have the lease of a task key leave half of its remaining items; return the first item that it leaves.

    None when it does not run here, has too little left, or does not answer within twice :data:`UNHEARD_S`.
    """
    watch = _running.get(key)
    if watch is None:
        return None
    before, ends_at = watch.left_at, monotonic() + 2 * UNHEARD_S
    watch.want_half()
    while watch.is_wanted() and _running.get(key) is watch and monotonic() < ends_at:
        await sleep(_POLL_S)
    return None if watch.left_at == before else watch.left_at


SLICE_S = 0.03
"""Predicted time between two points at which a lease can be cut, if the engine asks for no longer slices."""

SLICES = 8
"""Otherwise the longest time of a lease has at most this many slices: each may be a launch with a tail of its own."""

LEAST_TIMED_S = 0.005
"""Shorter runs do not measure the speed of a worker."""

_CUT_WATCH_S = 0.05
"""Interval at which a lease that waits for the lock checks whether it was cut."""

LATE_DIRECTORY_S = 10.0
"""How long the directory of a run may be missing on a worker; it is also missing when the run has ended."""

_engine_lock = threading.Lock()

_underway: tuple[PreparedGraph, LeaseTask] | None = None
"""The lease that runs in this process."""


def work_underway(run_id: str) -> int:
    """Return the predicted nanoseconds of work that the current lease of a run has done here; from any thread."""
    underway = _underway
    if underway is None or underway[1].run_id != run_id:
        return 0
    graph, task = underway
    items, share = get_passed()
    first = task.start + items
    return int(graph.work_between(task.start, first) + graph.work_within(first, task.stop, share))


def peak_memory_bytes() -> int:
    """Return the largest resident size that this process has had.

    On Linux only since the current program started: ``ru_maxrss`` begins with the size of the parent process.
    """
    try:
        with open("/proc/self/status", "rb", buffering=0) as file:
            return int(file.read(1 << 13).partition(b"VmHWM:")[2].split(maxsplit=1)[0]) * 1024
    except (OSError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run_prepare(task: PrepareTask, worker: WorkerInfo) -> PrepareReport:
    """Prepare the graph of a job in this process and describe its items.

    For a partition no part is read: this worker finds the directory, and loads its kernels.
    """
    job, seconds = task.job, {"read": 0.0, "prepare": 0.0}
    decisions: tuple[tuple[str, str], ...] = ()
    settled: EngineOptions = ()
    if job.partition is not None:
        started = perf_counter()
        parts = open_job_partition(job).manifest.parts
        seconds["read"] = perf_counter() - started
        started = perf_counter()
        with _engine_lock:
            warm_up(job, task.engine, worker.threads)
        seconds["prepare"] = perf_counter() - started
        n_items, work = sum(part.n_items for part in parts), sum(part.work for part in parts)
        table, digest, n_bytes, forecast = None, job.partition.hash, 0, None
    else:
        with _engine_lock:
            engine = engine_of(job, task.engine, worker.threads)
            graph = prepare_graph(job, engine, worker, seconds)
            if task.predict:
                foresee_run(job, engine, graph, worker, seconds, task.limit_s)
            prepared, digest, forecast = graph.prepared, graph.costs_digest, graph.forecast
            table = graph.table_of(engine) if task.slot == 0 else None
        n_items, work = graph.n_items, graph.total_work
        n_bytes, decisions, settled = int(prepared.nbytes), prepared.decisions, prepared.settled
    return PrepareReport(
        worker=worker.name,
        engine=task.engine,
        n_items=n_items,
        total_work=work,
        costs_digest=digest,
        table=table,
        forecast=forecast,
        prepared_bytes=n_bytes,
        seconds=seconds,
        peak_bytes=peak_memory_bytes(),
        decisions=decisions,
        settled=settled,
    )


def prepare_rows(job: JobSpec, worker: WorkerInfo) -> tuple[Any, PreparedGraph]:
    """Return the engine that lists the motifs of a job on the CPUs of this process, and the prepared graph."""
    with _engine_lock:
        engine = engine_of(job, "cpu", worker.threads)
        return engine, prepare_graph(job, engine, worker, {"read": 0.0, "prepare": 0.0})


def run_probes(task: ProbeTask, worker: WorkerInfo) -> ProbeResult:
    """Walk a slice of probes in this process, where the graph is prepared.

    ClusterError if this worker has other items than the plan.
    """
    with _engine_lock:
        engine = engine_of(task.job, task.engine, worker.threads)
        graph = prepare_graph(task.job, engine, worker, {"read": 0.0, "prepare": 0.0})
        _require_items(graph, task, worker)
        prober = graph.prober_of(engine)
        moments = walk_slice(prober, task.shares, task.seed, task.number, task.limit_s)
        return ProbeResult(task.number, moments, prober.known, worker.name)


def run_lease(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Count the interval of a task or, when it is cut, its first items.

    Vectors, if any, are written to a shard when the task names a directory. Raises LeaseTooLargeError if memory runs
    out with no other graph prepared, StoreError if the shard cannot be written, ClusterError if this worker has other
    items than the plan.
    """
    seconds = {"read": 0.0, "prepare": 0.0, "run": 0.0}
    began_at, partial, moved = time(), Partial(0, 0, 0), Movement()
    listed: tuple[ListingShard, ...] = ()
    if task.shard_dir is not None:
        await_paths([task.shard_dir], LATE_DIRECTORY_S)
    if _await_turn(task.key):
        try:
            began_at = time()
            partial, listed, moved = _run_items(task, worker, seconds)
        finally:
            _engine_lock.release()
    stop = task.start + partial.n_items
    started = perf_counter()
    shard, vectors = None, partial.vectors if partial.n_items else {}
    if vectors and task.shard_dir is not None:
        name = f"{task.partition}-{task.start}-{stop}-{task.sequence}.parquet"
        path = Path(task.shard_dir) / name
        digest = write_partial_shard(path, vectors)
        shard, vectors = ShardRef(str(path), digest, path.stat().st_size), {}
    seconds["write"] = perf_counter() - started
    if task.job.partition is not None:
        seconds |= {"load": moved.load_s, "stage": moved.stage_s}
    on_device = task.engine == "gpu"
    return LeaseResult(
        partition=task.partition,
        start=task.start,
        stop=stop,
        total=int(partial.total),
        work=int(partial.work),
        worker=worker.name,
        engine=task.engine,
        seconds=seconds,
        peak_bytes=peak_memory_bytes(),
        shard=shard,
        vectors=vectors,
        began_at=began_at,
        ended_at=time(),
        cells=partial.cells if task.job.listing is None else {},
        checksum=partial.checksum,
        best=partial.best if task.job.listing is None else (),
        listed=listed,
        capped=partial.capped,
        device_peak_bytes=held_device_bytes() if on_device else 0,
        device_used_bytes=used_device_bytes() if on_device else 0,
        read_bytes=moved.read_bytes,
        staged_bytes=moved.staged_bytes,
    )


def _require_items(graph: PreparedGraph, task: LeaseTask | ProbeTask, worker: WorkerInfo) -> None:
    """Raise ClusterError unless the graph that this worker prepared has the items of the plan, in their order."""
    if graph.costs_digest != task.costs_digest:
        raise ClusterError(
            f"worker {worker.name} orders the work items of {task.job.source} differently from the plan; check that "
            f"all workers have the same versions of numpy, numba and papilio"
        )


def _await_turn(key: str) -> bool:
    """Take the engine lock and return True, or return False without it when the lease was cut before."""
    while not _engine_lock.acquire(timeout=_CUT_WATCH_S):
        if is_cut(key):
            return False
    if is_cut(key):
        _engine_lock.release()
        return False
    return True


def _run_items(
    task: LeaseTask, worker: WorkerInfo, seconds: dict[str, float]
) -> tuple[Partial, tuple[ListingShard, ...], Movement]:
    """Run a lease once this process has the lock; add the seconds, and return the data read from parts meanwhile."""
    global _underway
    job = task.job
    engine = engine_of(job, task.engine, worker.threads)
    if job.partition is None:
        graph = prepare_graph(job, engine, worker, seconds)
        _require_items(graph, task, worker)
    else:
        graph = prepare_part(task, engine, worker, seconds)
    least_s = engine.least_slice_s
    slice_s = max(least_s, (task.limit_s or MAX_LEASE_S) / SLICES) if least_s else SLICE_S
    slice_work = max(int(slice_s * graph.speed), int(graph.work_of_units(engine.slice_work(graph.prepared))))
    watch = CutWatch(task.key, task.limit_s, graph.times_of)

    def run() -> tuple[Partial, tuple[ListingShard, ...]]:
        stop = task.stop if watch.left_at is None else watch.left_at
        arguments = graph.prepared, task.start, stop, graph.bounds(task.start, stop, slice_work), watch
        if job.listing is None or task.shard_dir is None:
            return engine.run(*arguments), ()
        return _write_listing(task, engine, graph, arguments)

    started, ran_s = perf_counter(), run_clock()
    say_passed()
    _underway, _running[task.key] = (graph, task), watch
    try:
        partial, listed = run_alone(run, lambda: forget_others(job, engine.name, task.partition))
    except (MemoryError, LeaseTooLargeError) as error:
        raise LeaseTooLargeError(
            f"items [{task.start}, {task.stop}) do not fit in the memory left by the prepared graph ({error}); use "
            f"workers with more memory"
        ) from None
    finally:
        _underway = None
        del _running[task.key]
    seconds["run"] = perf_counter() - started
    ran_s = run_clock() - ran_s  # compiling is no part of the speed
    if ran_s >= LEAST_TIMED_S and partial.n_items:
        graph.speed = graph.work_between(task.start, task.start + partial.n_items) / ran_s
        if graph.loader is not None:
            graph.loader.speed = graph.speed
    return partial, listed, Movement() if graph.loader is None else graph.loader.take_movement()


def _write_listing(
    task: LeaseTask, engine: Any, graph: PreparedGraph, arguments: tuple[Any, ...]
) -> tuple[Partial, tuple[ListingShard, ...]]:
    job = task.job
    assert graph.names is not None
    stem = Path(str(task.shard_dir)) / f"{task.partition}-{task.start}-{task.sequence}"
    numbers = job.row.numbers(job.motif)
    with ListingWriter(stem, graph.names, job.row.columns(job.motif), job.identity, numbers) as writer:
        partial = engine.run(*arguments, writer.write)
    return partial, writer.shards
