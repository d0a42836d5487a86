"""One task's run, on a worker or in this process: read, prepare (once per process), count an interval.

A process works on one engine call at a time: the CPU engine uses all threads of its worker by itself, and two
jobs on one GPU would only slow each other down. Further tasks of the same process wait for the lock.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from time import perf_counter, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError, StoreError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import (
    ENGINES,
    Engine,
    EngineName,
    Partial,
    decisions_of,
    load_engine,
    load_lister,
)
from papilio.kernels.gpu.discovery import held_device_bytes, list_gpus
from papilio.motifs import Biclique, EngineOptions, Granularity, Listing
from papilio.partitioning.rates import predict_speed
from papilio.partitioning.root_ranges import CostTable, find_breakpoints
from papilio.storage.listings import ListingShard, ListingWriter
from papilio.storage.names import LayerNames, read_names
from papilio.storage.results import write_partial_shard
from papilio.storage.store import open_store
from papilio.tasks.cache import PreparedCache
from papilio.tasks.cells import cells_from_json, cells_to_json
from papilio.tasks.cutting import is_cut
from papilio.tasks.job import JobSpec, LeaseTask, PrepareTask
from papilio.tasks.memory import predict_memory
from papilio.tasks.sources import read_job_graph
from papilio.tasks.worker import Seat

__all__ = [
    "LeaseResult",
    "PrepareReport",
    "ShardRef",
    "forget_graphs",
    "peak_memory_bytes",
    "run_lease",
    "run_prepare",
]

CACHE_SHARE = 0.5
"""Share of the memory that prepared graphs may keep: the rest is for the temporaries of the next run."""

SLICE_S = 0.03
"""Predicted time between two moments at which a lease can be cut."""

MAX_STEPS = 1 << 18
"""Breakpoints of the costs that a process keeps for the bounds of slices: 4 MiB."""

LEAST_TIMED_S = 0.005
"""Shorter runs say nothing about the speed of a worker."""

_CUT_WATCH_S = 0.05
"""How often a lease that waits for its turn looks whether it was cut."""

_engine_lock = threading.Lock()


@dataclass(eq=False)
class ReadyGraph:
    """A prepared graph with what its leases need beside it.

    Attributes
    ----------
    prepared : Prepared
        Of the engine.
    items, work : ndarray of int64, host
        Breakpoints of the items and the cost of all items before each.
    speed : float
        Predicted work units per second: by the rate of the engine, later by the time of the last lease.
    names : LayerNames or None
        What a listing calls the vertices.
    """

    prepared: Any
    items: NDArray[np.int64]
    work: NDArray[np.int64]
    speed: float
    names: LayerNames | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the prepared graph holds."""
        named = 0 if self.names is None else self.names.u.nbytes + self.names.v.nbytes
        return int(self.prepared.nbytes) + named

    def work_between(self, start: int, stop: int) -> float:
        """Return the predicted work units of the items [start, stop)."""
        before, after = np.interp((start, stop), self.items, self.work)
        return float(after - before)

    def bounds(self, start: int, stop: int, slice_work: int) -> list[int]:
        """Return breakpoints inside (start, stop) about ``slice_work`` units apart, rising."""
        first = int(np.searchsorted(self.items, start, side="right"))
        last = int(np.searchsorted(self.items, stop, side="left"))
        slices = (self.work[first:last] - self.work[first - 1]) // max(slice_work, 1)
        chosen = np.flatnonzero(np.diff(slices, prepend=0))
        return [int(item) for item in self.items[first + chosen]]


@dataclass(frozen=True)
class ShardRef:
    """The vectors of one partial, in a file.

    Attributes
    ----------
    path : str
    checksum : str
        As :func:`papilio.storage.results.write_partial_shard` returned it.
    """

    path: str
    checksum: str


@dataclass(frozen=True)
class PrepareReport:
    """What preparing found.

    Attributes
    ----------
    worker : str
    engine : str
    n_items : int
        Number of work items.
    total_work : int
        Their cost, in work units.
    costs_digest : str
        Hash of all costs; equal on every worker, or the workers would not share one list of items.
    table : CostTable or None
        The costs at breakpoints; from slot 0 alone.
    prepared_bytes : int
        Memory that the prepared graph keeps.
    seconds : dict of str to float
        ``read`` and ``prepare``; 0 when the graph was prepared already.
    peak_bytes : int
        Largest host memory of the process so far.
    decisions : tuple of (str, str)
        What the engine decided, and why.
    """

    worker: str
    engine: EngineName
    n_items: int
    total_work: int
    costs_digest: str
    table: CostTable | None
    prepared_bytes: int
    seconds: dict[str, float]
    peak_bytes: int
    decisions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class LeaseResult:
    """The partial of one interval, with its proof of work.

    Attributes
    ----------
    partition, start, stop : int
        The interval that was run: the first items of the lease, all of them unless it was cut.
    total : int
        Motifs that its items answer for.
    work : int
        Work units done.
    worker : str
    engine : str
    seconds : dict of str to float
        ``read``, ``prepare`` (both 0 when the graph was prepared already), ``run``, ``write``.
    peak_bytes : int
        Largest host memory of the process so far.
    shard : ShardRef or None
        Where the vectors of the partial are.
    vectors : dict of str to ndarray of uint64, host
        The vectors themselves, when they need not leave the process.
    began_at, ended_at : float
        By the clock of the worker, seconds since 1970.
    cells : dict of (int, int) to int
        Counts by (p, q), for a motif whose answer is a table.
    listed : tuple of ListingShard
        Files of what a listing listed; ``total`` rows in all.
    capped : bool
        Whether a listing ended with this lease, which listed as many as were asked for and left the rest.
    device_peak_bytes : int
        Largest device memory that the process has held so far for arrays; 0 without a GPU.
    """

    partition: int
    start: int
    stop: int
    total: int
    work: int
    worker: str
    engine: EngineName
    seconds: dict[str, float]
    peak_bytes: int
    shard: ShardRef | None = None
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    began_at: float = 0.0
    ended_at: float = 0.0
    cells: dict[tuple[int, int], int] = field(default_factory=dict)
    listed: tuple[ListingShard, ...] = ()
    capped: bool = False
    device_peak_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return everything but the vectors as a JSON object; the inverse of :meth:`from_json`."""
        fields = asdict(replace(self, vectors={}, cells={}))
        del fields["vectors"]
        return {**fields, "cells": cells_to_json(self.cells)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LeaseResult:
        """Rebuild a result from :meth:`to_json`'s form."""
        shard = data.get("shard")
        cells = cells_from_json(data.get("cells", ()))
        listed = tuple(ListingShard(**each) for each in data.get("listed", ()))
        reference = None if shard is None else ShardRef(**shard)
        return cls(**{**data, "shard": reference, "cells": cells, "listed": listed})


def peak_memory_bytes() -> int:
    """Return the largest resident size that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@cache
def _prepared_cache(engine: EngineName) -> PreparedCache:
    return PreparedCache(0)


@cache
def _engine_of(
    motif: Any, options: EngineOptions, listing: Listing | None, name: EngineName, threads: int
) -> Engine:
    if listing is not None:
        return load_lister(motif, listing, name, threads, **dict(options))
    return load_engine(motif, name, threads, memory_bytes=None, **dict(options))


def forget_graphs(graph_hashes: Collection[str] | None = None) -> None:
    """Forget the prepared forms of some graphs in this process, or of all; on the host and on the device."""
    for engine in ENGINES:
        _prepared_cache(engine).forget(lambda key: graph_hashes is None or key[0] in graph_hashes)


@cache
def _warm_up(
    motif: Any,
    options: EngineOptions,
    listing: Listing | None,
    name: EngineName,
    threads: int,
    per: Granularity,
) -> None:
    """Load the kernels of an engine by running it on a graph of a few edges, once, while the real one is read."""
    if motif.graph_kind == "bipartite":
        engine = _engine_of(motif, options, listing, name, threads)
        few = BipartiteGraph.from_edges(*np.indices((4, 4), np.int64).reshape(2, -1))
        prepared = engine.prepare(few, motif, per)
        engine.run(prepared, 0, prepared.n_items)


def _prepare(job: JobSpec, engine: Engine, seat: Seat, seconds: dict[str, float]) -> ReadyGraph:
    """Return the prepared graph from the cache, or read and prepare it, adding the seconds of either."""

    def make() -> ReadyGraph:
        started = perf_counter()
        with ThreadPoolExecutor(1) as pool:
            listing = None if job.listing is None else Listing()
            warm = pool.submit(_warm_up, job.motif, job.options, listing, engine.name, seat.threads, job.per)
            graph: Any = read_job_graph(job)
            seconds["read"] = perf_counter() - started
            started = perf_counter()
        warm.result()
        prepared = engine.prepare(graph, job.motif, job.per)
        steps = find_breakpoints(np.ascontiguousarray(engine.work(prepared), dtype=np.int64), MAX_STEPS)
        speed = predict_speed(job.rate_name, engine.name, job.per, seat.threads)
        seconds["prepare"] = perf_counter() - started
        names = None
        if job.listing is not None:
            names = read_names(open_store(job.source), prepared.ids_u, prepared.ids_v)
        return ReadyGraph(prepared, *steps, speed, names)

    forecast = predict_memory(job, engine.name, seat.threads)
    needed, limit = forecast.host_bytes, seat.memory_bytes
    if engine.name == "gpu":
        needed, limit = forecast.device_bytes, list_gpus()[0].memory_bytes
    cache = _prepared_cache(engine.name)
    cache.budget_bytes = int(CACHE_SHARE * limit)
    ready: ReadyGraph = cache.get(_cache_key(job), needed, make)
    return ready


def run_prepare(task: PrepareTask, seat: Seat) -> PrepareReport:
    """Prepare the graph of a job in this process and describe its items.

    Parameters
    ----------
    task : PrepareTask
    seat : Seat
        The worker that runs this.
    """
    seconds = {"read": 0.0, "prepare": 0.0}
    with _engine_lock:
        engine = _engine_of(task.job.motif, task.job.options, task.job.listing, task.engine, seat.threads)
        prepared = _prepare(task.job, engine, seat, seconds).prepared
        costs = np.ascontiguousarray(engine.work(prepared), dtype=np.int64)
    table = CostTable.from_costs(costs)
    return PrepareReport(
        worker=seat.worker,
        engine=task.engine,
        n_items=table.n_items,
        total_work=table.total,
        costs_digest=hashlib.blake2b(costs.data, digest_size=16).hexdigest(),
        table=table if task.slot == 0 else None,
        prepared_bytes=int(prepared.nbytes),
        seconds=seconds,
        peak_bytes=peak_memory_bytes(),
        decisions=decisions_of(prepared),
    )


def run_lease(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Count the interval of a task, or, when it is cut, the first items of it.

    The vectors of what was counted, if any, go to a shard when the task names a directory. Parameters are those
    of :func:`run_prepare`.

    Raises
    ------
    LeaseTooLargeError
        When memory runs out, even with no other graph prepared.
    StoreError
        When the shard cannot be written.
    """
    seconds = {"read": 0.0, "prepare": 0.0, "run": 0.0}
    began_at, partial = time(), Partial(0, 0, 0)
    listed: tuple[ListingShard, ...] = ()
    if _await_turn(task.key):
        try:
            began_at = time()
            engine = _engine_of(task.job.motif, task.job.options, task.job.listing, task.engine, seat.threads)
            ready = _prepare(task.job, engine, seat, seconds)
            started = perf_counter()
            partial, listed = _run_items(task, engine, ready)
            seconds["run"] = perf_counter() - started
            if seconds["run"] >= LEAST_TIMED_S and partial.n_items:
                ready.speed = ready.work_between(task.start, task.start + partial.n_items) / seconds["run"]
        finally:
            _engine_lock.release()
    stop = task.start + partial.n_items
    started = perf_counter()
    shard, vectors = None, partial.vectors if partial.n_items else {}
    if vectors and task.shard_dir is not None:
        name = f"{task.partition}-{task.start}-{stop}-{task.sequence}.parquet"
        shard, vectors = _write_shard(str(Path(task.shard_dir) / name), vectors), {}
    seconds["write"] = perf_counter() - started
    return LeaseResult(
        partition=task.partition,
        start=task.start,
        stop=stop,
        total=int(partial.total),
        work=int(partial.work),
        worker=seat.worker,
        engine=task.engine,
        seconds=seconds,
        peak_bytes=peak_memory_bytes(),
        shard=shard,
        vectors=vectors,
        began_at=began_at,
        ended_at=time(),
        cells=partial.cells,
        listed=listed,
        capped=partial.capped,
        device_peak_bytes=held_device_bytes() if task.engine == "gpu" else 0,
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
    task: LeaseTask, engine: Engine, ready: ReadyGraph
) -> tuple[Partial, tuple[ListingShard, ...]]:
    slice_work = max(int(SLICE_S * ready.speed), engine.slice_work(ready.prepared))
    bounds = ready.bounds(task.start, task.stop, slice_work)

    def run() -> tuple[Partial, tuple[ListingShard, ...]]:
        arguments = ready.prepared, task.start, task.stop, bounds, lambda: is_cut(task.key)
        if task.job.listing is None or task.shard_dir is None:
            return engine.run(*arguments), ()
        return _write_listing(task, engine, ready, arguments)

    try:
        return run()
    except MemoryError:
        _prepared_cache(engine.name).forget(lambda key: key != _cache_key(task.job))
    try:
        return run()
    except MemoryError as error:
        raise LeaseTooLargeError(
            f"items [{task.start}, {task.stop}) do not fit the memory that the prepared graph leaves ({error}); "
            "use workers with more memory"
        ) from None


def _cache_key(job: JobSpec) -> tuple[Any, ...]:
    return (job.graph_hash, job.motif, job.per, job.options, job.listing)


def _write_shard(path: str, vectors: dict[str, NDArray[np.uint64]]) -> ShardRef:
    try:
        return ShardRef(path, write_partial_shard(path, vectors))
    except OSError as error:
        raise StoreError(
            f"{path}: cannot write the vectors of a lease ({error.strerror or error}); make room there"
        ) from error


def _write_listing(
    task: LeaseTask, engine: Any, ready: ReadyGraph, arguments: tuple[Any, ...]
) -> tuple[Partial, tuple[ListingShard, ...]]:
    """Run a lease of a listing, and write what it lists as it comes."""
    motif = task.job.motif
    assert isinstance(motif, Biclique)
    assert motif.p is not None
    assert motif.q is not None
    assert ready.names is not None
    stem = Path(str(task.shard_dir)) / f"{task.partition}-{task.start}-{task.sequence}"
    with ListingWriter(stem, ready.names, (motif.p, motif.q), task.job.question) as writer:
        partial = engine.run(*arguments, writer.write)
    return partial, writer.shards
