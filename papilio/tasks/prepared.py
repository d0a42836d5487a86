"""What one process keeps between leases: engines, prepared graphs and parts, and the blocks that parts are made of.

Prepared graphs that one process keeps between leases.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import psutil
from numpy.typing import NDArray

from papilio.arguments import show_bytes
from papilio.errors import CapacityError, ExecutionError
from papilio.families import family_of, load_engine
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.device.discovery import list_gpus
from papilio.kernels.engine import ENGINES, Engine, EngineName, find_breakpoints
from papilio.motifs import EngineOptions, Granularity, Listing
from papilio.storage.files import release_memory
from papilio.storage.names import LayerNames, read_names
from papilio.storage.store import open_store
from papilio.tasks.job import JobSpec, LeaseTask, open_job_partition, read_job_graph
from papilio.tasks.machine import Seat
from papilio.tasks.memory import PROCESS_BYTES, device_room, host_room, part_memory, predict_memory
from papilio.tasks.parts import PartLoader


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class PreparedCache:
    """A bounded map from what was asked to what was prepared.

    Safe for several threads: of those that ask for the same key at the same time one prepares and the others wait for
    it. The lock is held for bookkeeping only, never while something is prepared. What is evicted stays alive for as
    long as a running task still uses it.

    ``budget_bytes``, which may be changed between calls, is for the kept objects and the next one to be made. Older
    ones go first; one object is always kept, however large.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, size_hint_bytes: int, make: Callable[[], _Sized]) -> Any:
        """Return the object of ``key``, made by ``make`` unless it is kept already.

        When ``make`` raises, every thread that waits for this key sees the same error and nothing is kept.
        """
        with self._lock:
            entry = self._entries.get(key)
            mine = entry is None
            if entry is None:
                self._make_room(size_hint_bytes)
                entry = self._entries[key] = Future()
            self._entries.move_to_end(key)
        if mine:
            try:
                entry.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._entries.get(key) is entry:
                        del self._entries[key]
                entry.set_exception(error)
        return entry.result()

    def _make_room(self, needed_bytes: int) -> None:
        finished = [key for key, entry in self._entries.items() if entry.done()]
        held = sum(self._entries[key].result().nbytes for key in finished)
        for key in finished:
            if held + needed_bytes <= self.budget_bytes:
                return
            held -= self._entries.pop(key).result().nbytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def forget(self, chosen: Callable[[Any], bool]) -> None:
        """Forget the objects whose key is chosen."""
        with self._lock:
            for key in [key for key in self._entries if chosen(key)]:
                del self._entries[key]


CACHE_SHARE = 0.5
"""Share of the memory that prepared graphs may keep: the rest is for the temporaries of the next run."""

MAX_ENGINES = 16
"""Engines that a process keeps, those used last. Each is of one motif; what is compiled for a GPU is its device's."""

MAX_STEPS = 1 << 18
"""Breakpoints of the costs that a process keeps for the bounds of slices: 4 MiB."""

FIRST_SLICES = 16
"""The first slice of a lease has one of so many parts of its work as long as the speed is not known."""


@dataclass(eq=False)
class PreparedGraph:
    """A prepared graph with what its leases need beside it."""

    prepared: Any  # of the engine
    items: NDArray[np.int64]  # breakpoints of the items and the cost of all items before each
    work: NDArray[np.int64]
    speed: float  # predicted work units per second: by the rate of the engine, later by the time of the last lease
    # Whether that is by the time of a lease, or the predicted work is what is done: a search can take any time.
    is_speed_known: bool
    names: LayerNames | None = None  # what a listing calls the vertices

    @property
    def nbytes(self) -> int:
        named = 0 if self.names is None else sum(each.nbytes for each in self.names.values())
        return int(self.prepared.nbytes) + named

    def work_between(self, start: int, stop: int) -> float:
        """Return the predicted work units of the items [start, stop)."""
        before, after = np.interp((start, stop), self.items, self.work)
        return float(after - before)

    def bounds(self, start: int, stop: int, slice_work: int) -> list[int]:
        """Return breakpoints inside (start, stop) about ``slice_work`` units apart, rising.

        As long as the speed is not known, no slice has more than all before it, but the first one: a lease that takes
        a thousand times as long as predicted can be cut before half of it is done.
        """
        first = int(np.searchsorted(self.items, start, side="right"))
        last = int(np.searchsorted(self.items, stop, side="left"))
        work = self.work[first:last] - self.work[first - 1]
        slices = work // max(slice_work, 1)
        if not self.is_speed_known:
            slices += np.frexp(work / max(self.work_between(start, stop) / FIRST_SLICES, 1.0))[1].clip(0)
        chosen = np.flatnonzero(np.diff(slices, prepend=0))
        return [int(item) for item in self.items[first + chosen]]


@cache
def prepared_cache(engine: EngineName) -> PreparedCache:
    """Return the prepared graphs and parts of this process for one kind of engine."""
    return PreparedCache(0)


class _Keeper:
    """The one partition whose blocks a process keeps, and the limit that its device was given."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.key: tuple[Any, ...] | None = None
        self.loader: PartLoader | None = None
        self.device_limit: int | None = None

    def close(self) -> None:
        """Give the blocks up."""
        if self.loader is not None:
            self.loader.close()
        self.key = self.loader = None


_keeper = _Keeper()


@lru_cache(maxsize=MAX_ENGINES)
def _engine_of(
    motif: Any,
    options: EngineOptions,
    listing: Listing | None,
    name: EngineName,
    threads: int,
    memory_bytes: int | None,
) -> Engine:
    return load_engine(motif, name, threads, memory_bytes=memory_bytes, listing=listing, **dict(options))


def engine_of(job: JobSpec, name: EngineName, threads: int) -> Engine:
    """Return the engine of a job in this process; its device holds no more than the budget of the job from now on."""
    return _engine_of(job.motif, job.options, job.listing, name, threads, _limit_device(job, name))


def _limit_device(job: JobSpec, name: EngineName) -> int | None:
    """Return the device memory for the arrays of a job; None for whatever there is, as long as no job had a limit."""
    if name == "cpu" or (job.budget.device_bytes is None and _keeper.device_limit is None):
        return None
    total = list_gpus()[0].memory_bytes
    limit = total if job.budget.device_bytes is None else device_room(job.budget, total)
    if limit != _keeper.device_limit:
        # The limit is that of the process, and is set as an engine is made.
        _engine_of.cache_clear()
        _keeper.device_limit = limit
    return limit


def forget_graphs(graph_hashes: Collection[str] | None = None) -> None:
    """Forget the prepared forms and parts of some graphs in this process, or of all; on the host and on the device."""
    with _keeper.lock:
        if graph_hashes is None or (_keeper.key is not None and _keeper.key[0] in graph_hashes):
            _keeper.close()
    for engine in ENGINES:
        prepared_cache(engine).forget(lambda key: graph_hashes is None or key[0] in graph_hashes)
    release_memory()


def forget_others(job: JobSpec, engine: EngineName, partition: int) -> None:
    """Forget all prepared graphs and parts but one, and the blocks of all parts but that: when memory runs out."""
    kept = _cache_key(job, partition)
    prepared_cache(engine).forget(lambda key: key != kept)
    if job.partition is not None and _keeper.loader is not None:
        _keeper.loader.keep_only(partition)


def warm_up(job: JobSpec, name: EngineName, threads: int) -> None:
    """Load the kernels of an engine by running it on a graph of a few edges, once, while the real one is read."""
    listing = None if job.listing is None else Listing()
    warm_engine(job.motif, job.options, listing, name, threads, _limit_device(job, name), job.per)


@lru_cache(maxsize=MAX_ENGINES)
def warm_engine(
    motif: Any,
    options: EngineOptions,
    listing: Listing | None,
    name: EngineName,
    threads: int,
    memory_bytes: int | None,
    per: Granularity,
    side: int = 4,
) -> None:
    """Load the kernels of an engine by running it on the complete graph of ``side`` vertices in each layer."""
    engine = _engine_of(motif, options, listing, name, threads, memory_bytes)
    few = complete_graph(family_of(motif).graph_kind, side, signed=motif.needs_signs)
    prepared = engine.prepare(few, motif, per)
    engine.run(prepared, 0, prepared.n_items)


def complete_graph(kind: str, side: int, *, signed: bool = False) -> BipartiteGraph | UnipartiteGraph:
    """Return the complete graph of a kind with ``side`` vertices in each layer; all signs are positive."""
    u, v = np.indices((side, side), np.int64).reshape(2, -1)
    if kind == "bipartite":
        return BipartiteGraph.from_edges(u, v, sign=np.ones(u.size) if signed else None)
    once = u < v
    return UnipartiteGraph.from_edges(u[once], v[once])


def _cache_key(job: JobSpec, partition: int) -> tuple[Any, ...]:
    parts = None if job.partition is None else (job.partition.hash, partition)
    return (job.graph_hash, job.motif, job.per, job.options, job.listing, parts)


def prepare_graph(job: JobSpec, engine: Engine, seat: Seat, seconds: dict[str, float]) -> PreparedGraph:
    """Return the prepared graph of a job from the cache, or read and prepare it, adding the seconds of either.

    CapacityError when it does not fit the memory, with nothing else kept.
    """

    def make() -> PreparedGraph:
        try:
            return build()
        except MemoryError:
            forget_others(job, engine.name, 0)
            release_memory()
        try:
            return build()
        except MemoryError as error:
            raise CapacityError(
                f"{job.source}: its {job.n_edges} edges cannot be prepared in the free memory ({error}), although "
                f"{show_bytes(needed)} were predicted: use workers with more memory, or count in parts "
                "(--device-memory, --host-memory)"
            ) from None

    def build() -> PreparedGraph:
        with _keeper.lock:
            _keeper.close()
        started = perf_counter()
        with ThreadPoolExecutor(1) as pool:
            warm = pool.submit(warm_up, job, engine.name, seat.threads)
            graph: Any = read_job_graph(job)
            seconds["read"] = perf_counter() - started
            started = perf_counter()
        warm.result()
        prepared = engine.prepare(graph, job.motif, job.per)
        steps = find_breakpoints(np.ascontiguousarray(engine.work(prepared), dtype=np.int64), MAX_STEPS)
        speed = job.rate(engine.name).speed(engine.name, job.per, seat.threads)
        seconds["prepare"] = perf_counter() - started
        names = None
        if job.listing is not None:
            ids = {layer: getattr(prepared, f"ids_{layer}") for layer in job.family.columns(job.motif)}
            names = read_names(open_store(job.source), ids)
        return PreparedGraph(prepared, *steps, speed, job.family.same_work, names)

    forecast = predict_memory(job, engine.name, seat.threads)
    needed, limit = forecast.host_bytes, job.budget.of_host(seat.memory_bytes)
    if engine.name == "gpu":
        needed, limit = forecast.device_bytes, job.budget.of_device(list_gpus()[0].memory_bytes)
    kept = prepared_cache(engine.name)
    kept.budget_bytes = int(CACHE_SHARE * limit)
    held: PreparedGraph = kept.get(_cache_key(job, 0), needed, make)
    return held


def part_loader(job: JobSpec, engine: Engine, seat: Seat) -> PartLoader:
    """Return the loader of the partition of a job; a process has one, and gives up that of another job.

    PapilioError as :func:`papilio.tasks.job.open_job_partition`.
    """
    assert job.partition is not None, "the job is on the whole graph"
    key = (
        job.graph_hash,
        job.partition,
        job.motif,
        job.per,
        job.budget,
        engine.name,
        id(engine),
        seat.threads,
    )
    with _keeper.lock:
        if _keeper.loader is None or _keeper.key != key:
            _keeper.close()
            for name in ENGINES:
                prepared_cache(name).forget(lambda held: True)
            partition = open_job_partition(job)
            memory = part_memory(job, engine.name, seat.threads, partition.manifest.layer)
            room = host_room(job, engine.name, seat.memory_bytes)
            if job.budget.host_bytes is not None:
                room -= max(0, int(psutil.Process().memory_info().rss) - PROCESS_BYTES[engine.name])
            device = None
            if engine.name == "gpu":
                device = device_room(job.budget, list_gpus()[0].memory_bytes)
            _keeper.loader = PartLoader(partition, engine, memory, room, device)
            _keeper.key = key
        return _keeper.loader


def prepare_part(task: LeaseTask, engine: Engine, seat: Seat, seconds: dict[str, float]) -> PreparedGraph:
    """Return the prepared part of a lease, and begin to read the next one that this worker will need.

    One prepared part is kept at a time. ``seconds`` gets what it was waited for, and preparing. CapacityError when it
    does not fit the memory, with nothing else kept. ExecutionError when it has other items than its manifest says.
    """
    job, index = task.job, task.partition
    loader = part_loader(job, engine, seat)

    def make() -> PreparedGraph:
        prepared = _begin_part(task, engine, loader, seconds)
        costs = np.ascontiguousarray(engine.work(prepared), dtype=np.int64)
        expected = loader.partition.manifest.parts[index].n_items
        if costs.size != expected:
            raise ExecutionError(
                f"part {index} of {loader.partition.path} has {expected} items in its manifest, and the "
                f"{engine.name} engine finds {costs.size}: make the partition again"
            )
        speed = loader.speed or job.rate(engine.name).speed(engine.name, job.per, seat.threads)
        is_known = loader.speed > 0 or job.family.same_work
        return PreparedGraph(prepared, *find_breakpoints(costs, MAX_STEPS), speed, is_known)

    kept = prepared_cache(engine.name)
    kept.budget_bytes = 0
    held: PreparedGraph = kept.get(_cache_key(job, index), 0, make)
    if task.next_partition is not None:
        loader.read_ahead(index, task.next_partition)
    return held


def _begin_part(task: LeaseTask, engine: Engine, loader: PartLoader, seconds: dict[str, float]) -> Any:
    """Return a part in the form of the engine; when memory runs out, once more with nothing else kept."""
    if task.job.budget.host_bytes is not None:
        release_memory()
    try:
        return _load_part(task, engine, loader, seconds)
    except MemoryError:
        pass
    loader.keep_only(task.partition)
    release_memory()
    try:
        return _load_part(task, engine, loader, seconds)
    except MemoryError as error:
        raise CapacityError(
            f"part {task.partition} of {loader.partition.path} cannot be prepared in the free memory "
            f"({error}): use workers with more memory, or make a partition with a smaller budget"
        ) from None


def _load_part(task: LeaseTask, engine: Engine, loader: PartLoader, seconds: dict[str, float]) -> Any:
    started = perf_counter()
    part = loader.load(task.partition)
    loaded = perf_counter()
    prepared = engine.prepare(part, task.job.motif, task.job.per)
    seconds["read"] += loaded - started
    seconds["prepare"] += perf_counter() - loaded
    return prepared
