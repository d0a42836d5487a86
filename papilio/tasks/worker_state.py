"""State of a worker process: its engines, prepared graphs and parts, kept between leases."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray

from papilio.arguments import read_bytes, show_bytes
from papilio.errors import CapacityError, ExecutionError, LeaseTooLargeError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.device.discovery import list_gpus
from papilio.kernels.engine import ENGINES, CostTable, Engine, EngineName, find_breakpoints
from papilio.kernels.probe import Prober
from papilio.motifs import Listing
from papilio.question import Question
from papilio.settings import KEEP_MEMORY
from papilio.storage.files import release_memory
from papilio.storage.store import open_store
from papilio.storage.vertex_names import LayerNames, read_names
from papilio.tasks.forecast import NS, Forecast, Pace, predict
from papilio.tasks.job import JobSpec, LeaseTask, is_in_memory, open_job_partition, read_job_graph
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.memory import PROCESS_BYTES, device_room, host_room, part_memory, predict_memory
from papilio.tasks.parts import PartLoader

Made = TypeVar("Made")


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class PreparedCache:
    """A bounded map from requests to prepared objects.

    Thread-safe: when several threads request the same key at the same time, one prepares the object and the others
    wait. The lock is held for bookkeeping only, never during preparation. An evicted object stays alive while a running
    task uses it.

    ``budget_bytes``, which may be changed between calls, covers the kept objects and the next one to be made. Older
    objects are evicted first; one is always kept, however large.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, size_hint_bytes: int, make: Callable[[], _Sized]) -> Any:
        """Return the object of ``key``, made by ``make`` unless it is cached.

        When ``make`` raises, every thread that waits for this key gets the same error and nothing is cached.
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

    def forget(self, chosen: Callable[[Any], bool]) -> int:
        """Forget the objects whose key is chosen; return their number."""
        with self._lock:
            gone = [key for key in self._entries if chosen(key)]
            for key in gone:
                del self._entries[key]
        return len(gone)

    def try_forget(self, graph_hash: str) -> bool:
        """Forget the objects of a graph without waiting; return whether the lock was free."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            for key in [key for key in self._entries if key[0] == graph_hash]:  # type: ignore[index]
                del self._entries[key]
        finally:
            self._lock.release()
        return True


CACHE_SHARE = 0.5
"""Share of the memory that prepared graphs may keep; temporaries of the next run use the other half."""

MAX_ENGINES = 16
"""Most recently used engines that a process keeps, each for one motif; compiled kernels belong to the device."""

MAX_STEPS = 1 << 18
"""Cost breakpoints that a process keeps for the bounds of slices: 4 MiB."""


@dataclass(eq=False)
class PreparedGraph:
    """A prepared graph and the data that its leases need besides."""

    prepared: Any  # of the engine
    pace: Pace  # by the rate of the engine, or by probes
    items: NDArray[np.int64]  # breakpoints of the items
    costs: NDArray[np.int64]  # cost of all items before each
    speed: float = float(NS)  # predicted nanoseconds of work done in a second, by the last lease
    forecast: Forecast | None = None  # None until requested
    names: LayerNames | None = None  # labels of the vertices in a listing
    loader: PartLoader | None = None  # of the partition that a part belongs to
    costs_digest: str = ""  # hash of the costs of all items of a whole graph, as in the plan
    hands: int = 1  # in which the items are dealt

    def __post_init__(self) -> None:
        self.work = self.pace.ns_of(self.costs)
        self._places = self.items.astype(np.float64)  # as np.interp reads them
        self._table: CostTable | None = None
        self._prober: Prober | None = None

    def prober_of(self, engine: Engine) -> Prober:
        """Return the prober of the prepared graph, which keeps what estimates read."""
        if self._prober is None:
            self._prober = engine.prober(self.prepared)
        return self._prober

    def foresee(self, forecast: Forecast, pace: Pace, costs: NDArray[np.int64]) -> None:
        """Take over a prediction of the items, which have these costs."""
        self.forecast = forecast
        if forecast.seconds is not None:
            self.pace, self.work = pace, pace.ns_at(self.items, self.costs, costs, self.hands)
            self._table = None

    def table_of(self, engine: Engine) -> CostTable:
        """Return the table of the predicted nanoseconds of the items."""
        if self._table is None:
            self._table = self.pace.time_table(engine.work(self.prepared), self.hands)
        return self._table

    @property
    def n_items(self) -> int:
        return int(self.items[-1])

    @property
    def total_work(self) -> int:
        """Cost of all items, in the engine's units of work."""
        return int(self.costs[-1])

    @property
    def nbytes(self) -> int:
        named = 0 if self.names is None else sum(each.nbytes for each in self.names.values())
        return int(self.prepared.nbytes) + named

    def work_between(self, start: int, stop: int) -> float:
        """Return the predicted nanoseconds of the items [start, stop)."""
        before, after = np.interp((start, stop), self._places, self.work)
        return float(after - before)

    def times_of(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the predicted nanoseconds of each of the items [start, stop)."""
        ends: NDArray[np.float64] = np.interp(np.arange(start, stop + 1), self._places, self.work)
        return np.diff(ends)

    def work_within(self, start: int, stop: int, share: float) -> float:
        """Return the predicted nanoseconds of the first items of [start, stop) that make up ``share`` of the cost."""
        first, last = np.interp((start, stop), self._places, self.costs)
        before, after = np.interp((first, first + share * (last - first)), self.costs, self.work)
        return float(after - before)

    def work_of_units(self, units: int) -> float:
        """Return the predicted nanoseconds of a number of units of cost, at the mean pace."""
        return units * float(self.work[-1]) / max(float(self.costs[-1]), 1.0)

    def bounds(self, start: int, stop: int, slice_work: int) -> list[int]:
        """Return breakpoints inside (start, stop) about ``slice_work`` nanoseconds apart, ascending."""
        if self.work_between(start, stop) < slice_work:
            return []
        first = int(np.searchsorted(self.items, start, side="right"))
        last = int(np.searchsorted(self.items, stop, side="left"))
        work = self.work[first:last] - self.work[first - 1]
        slices = work // max(slice_work, 1)
        chosen = np.flatnonzero(np.diff(slices, prepend=0))
        return [int(item) for item in self.items[first + chosen]]


class WorkerState:
    """Prepared graphs by kind of engine, the loader of one partition, and the memory limit set on the device.

    ``lock`` protects the loader and its key.
    """

    def __init__(self) -> None:
        self.graphs: dict[EngineName, PreparedCache] = {name: PreparedCache(0) for name in ENGINES}
        self.lock = threading.Lock()
        self.key: tuple[Any, ...] | None = None
        self.loader: PartLoader | None = None
        self.device_limit: int | None = None

    def close_parts(self) -> None:
        if self.loader is not None:
            self.loader.close()
        self.key = self.loader = None

    def forget(self, chosen: Callable[[Any], bool]) -> int:
        """Drop the prepared graphs and parts whose key is chosen; return their number."""
        return sum(graphs.forget(chosen) for graphs in self.graphs.values())


worker_state = WorkerState()
"""The state of this process."""


_engines: OrderedDict[Hashable, Engine] = OrderedDict()
"""The engines of this process, the least recently used first."""

_engines_lock = threading.RLock()


def engine_for(question: Question, name: EngineName, threads: int, memory_bytes: int | None, hands: int = 1) -> Engine:
    """Return the engine of a question in this process, made once."""
    key = (*question.engine_key, name, threads, memory_bytes, hands)
    with _engines_lock:
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = question.load_engine(name, threads, memory_bytes)
            engine.hands = hands
            if len(_engines) > MAX_ENGINES:
                _engines.popitem(last=False)
        _engines.move_to_end(key)
        return engine


def engine_of(job: JobSpec, name: EngineName, threads: int) -> Engine:
    """Return the engine of a job in this process, and limit its device to the budget of the job."""
    return engine_for(job, name, threads, _limit_device(job, name), job.hands)


def _limit_device(job: JobSpec, name: EngineName) -> int | None:
    """Return the device memory for the arrays of a job; None for all of it, if no job has set a limit so far."""
    if name == "cpu" or (job.budget.device_bytes is None and worker_state.device_limit is None):
        return None
    total = list_gpus()[0].memory_bytes
    limit = total if job.budget.device_bytes is None else device_room(job.budget, total)
    if limit != worker_state.device_limit:
        # The limit belongs to the process, and is set when an engine is made.
        _engines.clear()
        worker_state.device_limit = limit
    return limit


_owners: dict[str, weakref.WeakSet[Any]] = {}
"""The owners that want the graph of each hash kept."""


def keep_graph(owner: Any, graph_hash: str) -> None:
    """Keep the data of a graph in this process until its owners are gone or memory runs out."""
    owners = _owners.setdefault(graph_hash, weakref.WeakSet())
    if owner not in owners:
        owners.add(owner)
        weakref.finalize(owner, _release, graph_hash).atexit = False


_released: deque[str] = deque()


def _release(graph_hash: str) -> None:
    _released.append(graph_hash)
    drop_released()


def kept_bytes(memory_bytes: int) -> int:
    """Return how much of a memory prepared graphs may keep; InputError if the setting is not a size."""
    share, most = int(CACHE_SHARE * memory_bytes), read_bytes(KEEP_MEMORY.name, KEEP_MEMORY.value or None)
    return share if most is None else min(share, most)


def drop_released() -> None:
    """Forget graphs whose owners are gone; if their cache is locked now, at the next call.

    Owners may end wherever Python collects garbage, even while a lock of this module is held, so nothing waits here.
    """
    for _ in range(len(_released)):
        graph_hash = _released.popleft()
        if any(True for _ in _owners.get(graph_hash, ())):
            continue
        _owners.pop(graph_hash, None)
        if not all(cache.try_forget(graph_hash) for cache in worker_state.graphs.values()):
            _released.append(graph_hash)


def forget_graphs(graph_hashes: Collection[str] | None = None, *, kept: bool = False) -> None:
    """Forget the prepared graphs and parts of some graphs, or all, in this process; on the host and on the device.

    With ``kept``, graphs that :func:`keep_graph` keeps are not forgotten.
    """
    state, spared = worker_state, frozenset(_owners) if kept else frozenset()
    with state.lock:
        if graph_hashes is None or (state.key is not None and state.key[0] in graph_hashes):
            state.close_parts()
    chosen = state.forget(lambda key: (graph_hashes is None or key[0] in graph_hashes) and key[0] not in spared)
    if chosen or not spared:
        release_memory()


def forget_others(job: JobSpec, engine: EngineName, partition: int) -> None:
    """Forget all prepared graphs and parts but one, and all blocks that this part does not use: for lack of memory."""
    kept = _cache_key(job, partition)
    worker_state.graphs[engine].forget(lambda key: key != kept)
    if job.partition is not None and worker_state.loader is not None:
        worker_state.loader.keep_only(partition)


def run_alone(run: Callable[[], Made], forget: Callable[[], None]) -> Made:
    """Run; when memory runs out, drop everything else with ``forget`` and run again."""
    try:
        return run()
    except (MemoryError, LeaseTooLargeError):
        pass  # from here on its frames hold no arrays
    forget()
    release_memory()
    return run()


def warm_up(job: JobSpec, name: EngineName, threads: int) -> None:
    """Load an engine's kernels by running it once on a tiny graph, while the real graph is read."""
    listing = None if job.listing is None else Listing()
    ensemble = None if job.ensemble is None else replace(job.ensemble, samples=2, chains=0)
    question = Question(job.motif, job.per, job.engine_options, listing, ensemble)
    warm_engine(question, name, threads, _limit_device(job, name))


@lru_cache(maxsize=MAX_ENGINES)
def warm_engine(question: Question, name: EngineName, threads: int, memory_bytes: int | None, side: int = 4) -> None:
    """Load the kernels of an engine by running it on the complete graph of ``side`` vertices in each layer."""
    engine = engine_for(question, name, threads, memory_bytes)
    few = complete_graph(question.row.graph_kind, side, signed=question.motif.needs_signs)
    prepared = engine.prepare(few, question.motif, question.per)
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
    return (job.graph_hash, job.engine_key, job.per, job.hands, parts)


def make_prepared(job: JobSpec, engine: Engine, prepared: Any, worker: WorkerInfo, **others: Any) -> PreparedGraph:
    """Return a prepared graph or part whose items take the time given by the engine's rate."""
    items, costs = find_breakpoints(engine.work(prepared), MAX_STEPS)
    pace = Pace.even(float(costs[-1]), job.support.rates[engine.name].speed(engine.name, job.per, worker.threads))
    return PreparedGraph(prepared, pace, items, costs, hands=job.hands, **others)


def foresee_run(
    job: JobSpec,
    engine: Engine,
    graph: PreparedGraph,
    worker: WorkerInfo,
    seconds: dict[str, float],
    limit_s: float | None = None,
) -> None:
    """Predict the run of all items of a prepared graph or part on a worker, once; add the seconds this takes.

    Probes end after ``limit_s``.
    """
    if graph.forecast is None:
        started = perf_counter()
        threads = worker.threads if engine.name == "cpu" else 1
        found = predict(
            engine, graph.prepared, threads, graph.pace,
            same_work=job.row.same_work and job.ensemble is None, lists=job.listing is not None,
            hands=graph.hands, limit_s=limit_s,
        )  # fmt: skip
        graph.foresee(*found, engine.work(graph.prepared))
        seconds["prepare"] += perf_counter() - started


def prepare_graph(job: JobSpec, engine: Engine, worker: WorkerInfo, seconds: dict[str, float]) -> PreparedGraph:
    """Return the prepared graph of a job from the cache, or read and prepare it, adding the seconds of each.

    Raises CapacityError if it does not fit in memory with nothing else kept.
    """

    def make() -> PreparedGraph:
        try:
            return run_alone(build, lambda: forget_others(job, engine.name, 0))
        except MemoryError as error:
            raise CapacityError(
                f"{job.source}: its {job.n_edges} edges cannot be prepared in the free memory ({error}), although "
                f"{show_bytes(needed)} were predicted: use workers with more memory"
                + ("" if job.ensemble is not None else ", or count in parts (--device-memory, --host-memory)")
            ) from None

    def build() -> PreparedGraph:
        with worker_state.lock:
            worker_state.close_parts()
        started = perf_counter()
        with ThreadPoolExecutor(1) as pool:
            warm = pool.submit(warm_up, job, engine.name, worker.threads)
            graph: Any = read_job_graph(job)
            seconds["read"] = perf_counter() - started
            started = perf_counter()
        warm.result()
        prepared = engine.prepare(graph, job.motif, job.per)
        costs = np.ascontiguousarray(engine.work(prepared), dtype=np.int64)
        dealt = b"" if job.hands == 1 else f"{job.hands} hands".encode()  # equal costs do not show the order
        costs_digest = hashlib.blake2b(costs.data, digest_size=16, person=dealt).hexdigest()
        seconds["prepare"] = perf_counter() - started
        names = None
        if job.listing is not None and not is_in_memory(job.source):
            ids = {layer: getattr(prepared, f"ids_{layer}") for layer in job.row.columns(job.motif)}
            names = read_names(open_store(job.source), ids)
        return make_prepared(job, engine, prepared, worker, names=names, costs_digest=costs_digest)

    drop_released()
    forecast = predict_memory(job, engine.name, worker.threads)
    needed, limit = forecast.host_bytes, job.budget.of_host(worker.memory_bytes)
    if engine.name == "gpu":
        needed, limit = forecast.device_bytes, job.budget.of_device(list_gpus()[0].memory_bytes)
    cache = worker_state.graphs[engine.name]
    cache.budget_bytes = kept_bytes(limit)
    graph: PreparedGraph = cache.get(_cache_key(job, 0), needed, make)
    return graph


def part_loader(job: JobSpec, engine: Engine, worker: WorkerInfo) -> PartLoader:
    """Return the partition loader of a job; a process has one, and closes the loader of another job.

    Raises PapilioError like :func:`papilio.tasks.job.open_job_partition`.
    """
    assert job.partition is not None, "the job is on the whole graph"
    key = (job.graph_hash, job.partition, job.engine_key, job.per, job.budget, id(engine), worker.threads)
    with worker_state.lock:
        if worker_state.loader is None or worker_state.key != key:
            worker_state.close_parts()
            worker_state.forget(lambda key: True)
            partition = open_job_partition(job)
            memory = part_memory(job, engine.name, worker.threads, partition.manifest.layer)
            room = host_room(job, engine.name, worker.memory_bytes)
            if job.budget.host_bytes is not None:
                room -= max(0, int(psutil.Process().memory_info().rss) - PROCESS_BYTES[engine.name])
            device = None
            if engine.name == "gpu":
                device = device_room(job.budget, list_gpus()[0].memory_bytes)
            worker_state.loader = PartLoader(partition, engine, memory, room, device)
            worker_state.key = key
        return worker_state.loader


def prepare_part(task: LeaseTask, engine: Engine, worker: WorkerInfo, seconds: dict[str, float]) -> PreparedGraph:
    """Return the prepared part of a lease, and start reading the next part of this worker.

    One prepared part is kept at a time. Adds the seconds of waiting and preparing to ``seconds``. Raises CapacityError
    when the part does not fit in memory with nothing else kept, ExecutionError if its items differ from its
    manifest.
    """
    job, index = task.job, task.partition
    loader = part_loader(job, engine, worker)

    def make() -> PreparedGraph:
        prepared = _load_part(task, engine, loader, seconds)
        n_items = int(engine.work(prepared).size)
        expected = loader.partition.manifest.parts[index].n_items
        if n_items != expected:
            raise ExecutionError(
                f"part {index} of {loader.partition.path} has {expected} items in its manifest, but the "
                f"{engine.name} engine finds {n_items}: create the partition again"
            )
        made = make_prepared(job, engine, prepared, worker, loader=loader)
        foresee_run(job, engine, made, worker, seconds)
        if loader.speed:
            made.speed = loader.speed
        return made

    cache = worker_state.graphs[engine.name]
    cache.budget_bytes = 0
    graph: PreparedGraph = cache.get(_cache_key(job, index), 0, make)
    if task.next_partition is not None:
        loader.read_ahead(index, task.next_partition)
    return graph


def _load_part(task: LeaseTask, engine: Engine, loader: PartLoader, seconds: dict[str, float]) -> Any:
    def load() -> Any:
        started = perf_counter()
        part = loader.load(task.partition)
        loaded = perf_counter()
        prepared = engine.prepare(part, task.job.motif, task.job.per)
        seconds["read"] += loaded - started
        seconds["prepare"] += perf_counter() - loaded
        return prepared

    if task.job.budget.host_bytes is not None:
        release_memory()
    try:
        return run_alone(load, lambda: loader.keep_only(task.partition))
    except MemoryError as error:
        raise CapacityError(
            f"part {task.partition} of {loader.partition.path} cannot be prepared in the free memory "
            f"({error}): use workers with more memory, or create a partition with a smaller budget"
        ) from None
