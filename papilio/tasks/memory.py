"""Whether a job fits its workers: with the whole graph on each of them, or part by part within a budget.

A worker that counts parts holds at most the running part, in the form of the engine and as it was read, and the part
that it reads ahead. The budget also covers the process itself and the context of a device.

Predicts the peaks of a job on one worker from sizes alone, before anything is read: on a whole graph or part by part.

The formulas are in the ``memory`` modules of the motif families; the process and the context of a device are added
here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from time import monotonic

from papilio.arguments import show_bytes, show_mebibytes
from papilio.errors import CapacityError, UnsupportedError
from papilio.kernels.engine import EngineName
from papilio.kernels.memory import COUNT, MAX_EDGES, MAX_ROWS, solver_bytes
from papilio.partitioning.partition import PartInfo, PartitionManifest
from papilio.parts import Layer, PartBytes, PartSizes
from papilio.tasks.job import Budget, JobSpec
from papilio.tasks.machine import WorkerInfo

PROCESS_BYTES = {"cpu": 350 << 20, "gpu": 900 << 20}
"""Memory of an idle worker after its imports (Python, NumPy, Arrow, Dask, and Numba or CuPy with a CUDA context)."""

_TRADE_BYTES = 64
"""Largest device memory per edge for drawing a random graph."""

CONTEXT_BYTES = 768 << 20
"""Device memory of a CUDA context with its modules."""

_FOLD_ENTRY_BYTES = 32
"""Memory per vector entry of one part in the process that folds: its count, its id and its place."""


@dataclass(frozen=True)
class MemoryForecast:
    """Predicted peak of one worker that runs one lease at a time, in bytes."""

    host_bytes: int
    device_bytes: int  # 0 for the cpu engine
    client_bytes: int  # host memory of the process that folds


def predict_memory(job: JobSpec, engine: EngineName, threads: int = 1) -> MemoryForecast:
    """Predict the peaks of a job on the whole graph; ``threads`` is the number of threads of the cpu engine.

    With random graphs, each thread holds its own graph, and the original is kept as well; expected degrees are solved
    once, before.
    """
    n_graphs = threads if job.ensemble is not None and engine == "cpu" else 1
    host, device = job.row.memory.predict_graph(job, engine, threads // n_graphs)
    if job.ensemble is not None:
        host = (n_graphs + 1) * host
        device += _TRADE_BYTES * job.n_edges
    null = getattr(job.motif, "significance", None) if job.ensemble is None else job.ensemble.null
    if null == "expected-degrees":
        host += solver_bytes(job)
    client = PROCESS_BYTES["cpu"] + 3 * job.vector_entries * COUNT
    return MemoryForecast(PROCESS_BYTES[engine] + host, CONTEXT_BYTES + device if engine == "gpu" else 0, client)


@dataclass(frozen=True)
class PartMemory:
    """Memory of a part on a worker, in addition to the process and the context of a device."""

    raw: PartBytes  # its arrays on the host
    staged: PartBytes  # its arrays on a device; 0 for the cpu engine
    host: PartBytes  # the most that preparing and running it takes in addition
    device: PartBytes

    def host_bytes(self, sizes: PartSizes) -> int:
        """Return the host memory to run a part, without reading ahead."""
        return (self.raw + self.host).of(sizes)

    def device_bytes(self, sizes: PartSizes) -> int:
        """Return the device memory to run a part, without reading ahead."""
        return (self.staged + self.device).of(sizes)


def part_memory(job: JobSpec, engine: EngineName, threads: int, layer: Layer | None = None) -> PartMemory:
    """Return the memory of the parts of a job on a worker. UnsupportedError for a motif that is not counted in parts.

    ``threads`` is the number of threads of the cpu engine. ``layer`` is the layer of the roots, as in the manifest; by
    default the one that the options of the job name.
    """
    if job.row.parted is None:
        raise UnsupportedError(f"{job.motif.title} is counted on whole graphs only, not in parts")
    predicted = job.row.memory
    anchors: dict[str | None, Layer] = {"u": "u", "v": "v"}
    anchor = anchors.get(dict(job.options).get("anchor"), layer)
    host, device = predicted.predict_part(job.motif, engine, job.per, threads, layer=anchor)
    raw, staged = predicted.raw(job.per), predicted.staged
    if engine == "cpu":
        staged = device = PartBytes(0, 0, 0, 0, 0)
    return PartMemory(raw, staged, host + fold_part(job.per), device)


def fold_part(per: str) -> PartBytes:
    """Return the memory for folding a vector of one part; in the worker itself if it folds."""
    vertex, edge = (_FOLD_ENTRY_BYTES if per == each else 0 for each in ("vertex", "edge"))
    return PartBytes(0, vertex, edge, vertex, edge)


_LOG = logging.getLogger("papilio")

FOLD_SHARE = 8
"""Vectors of a whole graph stay in memory if they take at most the host memory divided by this."""

_UNLIMITED_BYTES = 1 << 50

_SEARCH_S = 20.0
"""Longest search for the least working budget; each step of it may plan the parts of a graph."""

_MIB = 1 << 20

_TERMS = ("root", "root_entry", "vertex", "entry")
"""The terms of :class:`papilio.parts.PartBytes` that grow with a part."""


def fold_bytes(job: JobSpec, host_bytes: int) -> int:
    """Return the memory for the vectors of the whole graph in a process that may use ``host_bytes``."""
    return min(8 * job.vector_entries, host_bytes // FOLD_SHARE)


def host_room(job: JobSpec, engine: EngineName, memory_bytes: int) -> int:
    """Return the host memory that parts may take on a worker that has ``memory_bytes``; may be below 0."""
    limit = job.budget.of_host(memory_bytes)
    return limit - PROCESS_BYTES[engine] - fold_bytes(job, limit)


def device_room(budget: Budget, memory_bytes: int) -> int:
    """Return the device memory that arrays may take on a device of ``memory_bytes``; may be below 0."""
    return budget.of_device(memory_bytes) - CONTEXT_BYTES


def require_memory(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], manifest: PartitionManifest | None = None
) -> MemoryForecast:
    """Raise if a job cannot fit, before anything runs; return the largest forecast of the workers.

    Logs a warning for a budget of device memory where the cpu engine runs. CapacityError naming the worker with the
    least room, its limit, the need of the job or of its largest part, and the least budget that works. ``manifest``
    describes the job's partition.
    """
    if engine == "cpu" and job.budget.device_bytes is not None:
        _LOG.warning(
            "papilio: the budget of device memory, %s, has no effect: the count runs on the cpu engine",
            show_bytes(job.budget.device_bytes),
        )

    def require(job: JobSpec, workers: Sequence[WorkerInfo]) -> MemoryForecast:
        if manifest is not None:
            return _require_parts_fit(job, engine, workers, manifest)
        return _require_whole_fits(job, engine, workers)

    try:
        return require(job, workers)
    except CapacityError as error:
        instead = "create a partition with a smaller budget" if manifest is not None else ""
        if manifest is None and job.row.parted is not None and not (job.listing or job.ensemble):
            instead = "count part by part"
        unlimited = unlimit(workers)
        raise with_least_budget(
            error,
            lambda budget: require(replace(job, budget=budget), unlimited),
            job.budget,
            engine,
            workers,
            instead,
        ) from None


def unlimit(workers: Sequence[WorkerInfo]) -> tuple[WorkerInfo, ...]:
    """Return the workers with more memory than any job needs, so that budgets alone limit a job."""
    return tuple(replace(each, memory_bytes=_UNLIMITED_BYTES, gpu_memory_bytes=_UNLIMITED_BYTES) for each in workers)


def with_least_budget(
    error: CapacityError,
    require: Callable[[Budget], object],
    budget: Budget,
    engine: EngineName,
    workers: Sequence[WorkerInfo],
    instead: str = "",
    most_host_bytes: int = _UNLIMITED_BYTES,
) -> CapacityError:
    """Return the error with the least budget that works, found by trying.

    ``require`` raises CapacityError for a worker budget that is too small; the memory of ``workers`` is ignored.
    ``instead`` is another remedy, for the message; ``most_host_bytes`` the largest budget of host memory to try.
    """
    has = Budget(
        min(worker.gpu_memory_bytes for worker in workers) if engine == "gpu" else None,
        min(worker.memory_bytes for worker in workers),
    )
    may_use = Budget(
        None if has.device_bytes is None else budget.of_device(has.device_bytes),
        budget.of_host(has.host_bytes or 0),
    )
    found = _find_least_budget(require, may_use, Budget(_UNLIMITED_BYTES, most_host_bytes))
    advice = []
    if found is not None:
        least_budget, is_exact = found
        for kind, least, given, own, taken in (
            ("device", least_budget.device_bytes, may_use.device_bytes, has.device_bytes, CONTEXT_BYTES),
            ("host", least_budget.host_bytes, may_use.host_bytes, has.host_bytes, PROCESS_BYTES[engine]),
        ):
            if least is not None and own is not None and least != given:
                advice.append(_advise(kind, least, own, taken, is_exact=is_exact))
    remedies = [each for each in (" and ".join(advice), instead) if each]
    return CapacityError(f"{error}; {', or '.join(remedies) or 'no budget up to the free memory works'}")


def _find_least_budget(require: Callable[[Budget], object], given: Budget, most: Budget) -> tuple[Budget, bool] | None:
    """Return the least budget that ``require`` accepts, where ``given`` is too small, and whether it is exact.

    The budget is in whole MiB, and not exact if the search ended early. One kind of memory is raised if that is enough,
    else both; a kind that ``given`` leaves out stays out. None if no budget up to ``most`` works.
    """
    search = _Search(require)
    device, host = given.device_bytes, given.host_bytes
    most_device, most_host = most.device_bytes or 0, most.host_bytes or 0
    found = None
    if host is not None and (least := search.least(lambda each: Budget(device, each), host, most_host)):
        found = Budget(device, least)
    elif device is not None:
        if least := search.least(lambda each: Budget(each, host), device, most_device):
            found = Budget(least, host)
        elif host is not None and (both := search.least(lambda each: Budget(each, most_host), device, most_device)):
            least = search.least(lambda each: Budget(both, each), host, most_host)
            found = None if least is None else Budget(both, least)
    return None if found is None else (found, search.is_exact)


class _Search:
    def __init__(self, require: Callable[[Budget], object]) -> None:
        self._require, self._ends_s, self.is_exact = require, monotonic() + _SEARCH_S, True

    def _accepts(self, budget: Budget) -> bool:
        try:
            self._require(budget)
        except CapacityError:
            return False
        return True

    def least(self, make: Callable[[int], Budget], low_bytes: int, most_bytes: int) -> int | None:
        """Return the least bytes that work, above ``low_bytes``, which do not; None if ``most_bytes`` do not either."""
        low, most = low_bytes // _MIB, most_bytes // _MIB
        step = max(1, low // 16)
        high = low
        while True:
            if high >= most or monotonic() > self._ends_s:
                return None
            low, high = high, min(high + step, most)
            if self._accepts(make(high * _MIB)):
                break
            step *= 2
        while high - low > 1:
            if monotonic() > self._ends_s:
                self.is_exact = False
                break
            middle = (low + high) // 2
            if self._accepts(make(middle * _MIB)):
                high = middle
            else:
                low = middle
        return high * _MIB


def _advise(kind: str, least: int, own: int, taken: int, *, is_exact: bool) -> str:
    of_process = f"{show_mebibytes(taken)} of it for the {'process' if kind == 'host' else 'context of CUDA'}"
    amount = f"{'at least ' if is_exact else ''}{show_mebibytes(least)}"
    of_process += "" if is_exact else " (less may do)"
    if least > own:
        return f"use workers with {amount} of {kind} memory, {of_process}"
    return f"raise --{kind}-memory to {amount}, {of_process}"


def needs_parts(job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo]) -> bool:
    """Return whether a job needs parts, by the sizes of the graph alone.

    CapacityError if neither the whole graph nor even an empty part fits the budget.
    """
    try:
        _require_whole_fits(job, engine, workers)
        return False
    except CapacityError as error:
        if job.listing is not None:
            raise CapacityError(f"{error}; {job.motif.name}s are listed on the whole graph only") from None
        if job.row.parted is None:
            raise CapacityError(f"{error}; {job.motif.title} is counted on the whole graph only") from None
    part_limit(job, engine, workers)
    return True


def part_limit(job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo]) -> tuple[PartBytes, int]:
    """Return the memory of a part by its sizes, and the most that it may take on a worker: for the cutters.

    The memory covers the part in the form of the engine, the part as it was read, and a next part of its size that is
    read ahead. For the gpu engine, host and device are joined into one sum that bounds both: in each term the larger of
    the host's, scaled to the limit of the device, and the device's.

    Parameters and errors are as for :func:`needs_parts`.
    """
    threads = max(worker.threads for worker in workers)
    memory = part_memory(job, engine, threads)
    host_limit = min(host_room(job, engine, worker.memory_bytes) for worker in workers)
    if engine == "cpu":
        needed, limit, kinds = memory.raw + memory.raw + memory.host, host_limit, "host"
        _require_some(needed, limit, kinds)
        return needed, limit
    device_limit = min(device_room(job.budget, worker.gpu_memory_bytes) for worker in workers)
    on_host = memory.raw + memory.raw + memory.host
    on_device = memory.staged + memory.staged + memory.device
    _require_some(on_host, host_limit, "host")
    _require_some(on_device, device_limit, "device")
    return _bound_both(on_device, on_host, device_limit / host_limit), device_limit


def _bound_both(first: PartBytes, second: PartBytes, scale: float) -> PartBytes:
    """Return a sum that is, term by term, at least ``first`` and at least ``second`` times ``scale``."""
    return PartBytes(
        max(first.fixed, ceil(second.fixed * scale)),
        *(max(getattr(first, name), getattr(second, name) * scale) for name in _TERMS),
    )


def _require_some(needed: PartBytes, limit: int, kind: str) -> None:
    least = needed.of(PartSizes(1, 1, 2, 1))
    if least > limit:
        raise CapacityError(
            f"the budget leaves {show_bytes(max(limit, 0))} of {kind} memory for parts of the graph, besides the "
            f"process and its context, but a part of one edge needs {show_bytes(least)}"
        )


def _require_whole_fits(job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo]) -> MemoryForecast:
    """Raise if a whole graph does not fit on a worker; return the largest forecast of the workers."""
    if engine == "gpu" and (job.n_edges > MAX_EDGES or job.n_vertices > MAX_ROWS):
        raise CapacityError(
            f"{job.source} has {job.n_edges} edges and {job.n_vertices} vertices; a whole graph on the gpu engine has "
            f"at most {MAX_EDGES} edges and {MAX_ROWS} vertices"
        )
    worst, budget = MemoryForecast(0, 0, 0), job.budget
    for worker in workers:
        forecast = predict_memory(job, engine, worker.threads)
        for kind, needed, has, limit_of in (
            ("host", forecast.host_bytes, worker.memory_bytes, budget.of_host),
            ("device", forecast.device_bytes, worker.gpu_memory_bytes, budget.of_device),
        ):
            limit = limit_of(has)
            if needed > limit:
                verb = "has" if limit == has else "may use"
                raise CapacityError(
                    f"worker {worker.name} on {worker.host} {verb} {show_bytes(limit)} of {kind} memory; counting per "
                    f"{job.per} in {job.source} ({job.n_edges} edges) on the {engine} engine needs about "
                    f"{show_bytes(needed)}"
                )
        worst = max(worst, forecast, key=lambda each: (each.device_bytes, each.host_bytes))
    return worst


def _require_parts_fit(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], manifest: PartitionManifest
) -> MemoryForecast:
    """Raise if a job on parts cannot fit, before anything is read; return the largest forecast of the workers.

    The forecast includes the part that is read ahead, if it fits.
    """
    worst = MemoryForecast(0, 0, 0)
    for worker in workers:
        memory, device = part_memory(job, engine, worker.threads, manifest.layer), 0
        peak = partial(_peak_of_parts, job, worker, manifest)
        host = peak("host", memory.raw, memory.host, host_room(job, engine, worker.memory_bytes))
        if engine == "gpu":
            room = device_room(job.budget, worker.gpu_memory_bytes)
            device = CONTEXT_BYTES + peak("device", memory.staged, memory.device, room)
        fold = fold_bytes(job, job.budget.of_host(worker.memory_bytes))
        client = PROCESS_BYTES["cpu"] + fold + _largest(manifest, fold_part(job.per))[0]
        forecast = MemoryForecast(PROCESS_BYTES[engine] + fold + host, device, client)
        worst = max(worst, forecast, key=lambda each: (each.device_bytes, each.host_bytes))
    return worst


def _peak_of_parts(
    job: JobSpec,
    worker: WorkerInfo,
    manifest: PartitionManifest,
    kind: str,
    raw: PartBytes,
    besides: PartBytes,
    room: int,
) -> int:
    """Return the largest predicted use of a kind of memory, with reading ahead; raise for a part beyond ``room``."""
    needed, part = _largest(manifest, raw + besides)
    if needed > room:
        number = "" if part is None else f" {part.index}"
        raise CapacityError(
            f"part{number} of {job.partition.path if job.partition else job.source} needs about "
            f"{show_bytes(needed)} of {kind} memory on worker {worker.name} on {worker.host}, where "
            f"{show_bytes(max(room, 0))} are left for parts besides the process"
        )
    return min(needed + _largest(manifest, raw)[0], room)


def _largest(manifest: PartitionManifest, bytes_of: PartBytes) -> tuple[int, PartInfo | None]:
    if not manifest.parts:
        return bytes_of.fixed, None
    worst = max(manifest.parts, key=lambda part: bytes_of.of(part.sizes))
    return bytes_of.of(worst.sizes), worst
