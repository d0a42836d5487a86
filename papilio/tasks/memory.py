"""Whether a job fits its workers: with the whole graph on each of them, or part by part within a budget.

A worker that counts parts holds at most the part that it runs, in the form of the engine and as it was read, and the
part that it reads ahead; the budget pays, beside them, for the process itself and for the context of a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from papilio.errors import CapacityError
from papilio.kernels.engine import EngineName
from papilio.partitioning.manifest import PartInfo, PartitionManifest
from papilio.partitioning.store import open_partition
from papilio.parts import PartBytes, PartSizes
from papilio.tasks.budget import Budget
from papilio.tasks.forecast import (
    CONTEXT_BYTES,
    PROCESS_BYTES,
    MemoryForecast,
    fold_part,
    part_memory,
    predict_memory,
)
from papilio.tasks.job import JobSpec
from papilio.tasks.worker import WorkerInfo
from papilio.wording import show_bytes

FOLD_SHARE = 8
"""Vectors of a whole graph stay in memory as long as they take at most this part of the host memory."""

_TERMS = ("root", "root_entry", "vertex", "entry")
"""Those of :class:`papilio.parts.PartBytes` that grow with a part."""


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


@dataclass(frozen=True)
class MemoryChoice:
    """Whether a job runs on the whole graph or on parts of it."""

    strategy: Literal["replicate", "partition"]
    reason: str  # with what the whole graph needs, and what a worker may use
    forecast: MemoryForecast  # of the whole graph on the worker that needs most


def require_memory(job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo]) -> MemoryForecast:
    """Refuse a job that cannot fit, before anything runs; return the largest forecast of the workers.

    CapacityError naming the worker with the least room, what it may use and what the job, or its largest part, needs.
    StoreError when the partition of the job cannot be opened.
    """
    if job.partition is not None:
        return _require_parts_fit(job, engine, workers, open_partition(job.partition.path).manifest)
    worst, problem = _forecast_whole(job, engine, workers)
    if problem is not None:
        raise CapacityError(
            f"{problem}: "
            + (
                "raise the budget, or count part by part"
                if job.budget.is_set
                else "use workers with more memory, or fewer workers per machine"
            )
        )
    return worst


def choose_memory(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], budget: Budget
) -> MemoryChoice:
    """Decide whether a job needs parts, by the sizes of the graph alone; whatever budget it has is not looked at.

    CapacityError when neither the whole graph nor even an empty part fits the budget.
    """
    asked = replace(job, budget=budget)
    forecast, problem = _forecast_whole(asked, engine, workers)
    if problem is None:
        needs = f"{show_bytes(forecast.host_bytes)} of host memory"
        if engine == "gpu":
            needs = f"{show_bytes(forecast.device_bytes)} of device and {needs}"
        return MemoryChoice(
            "replicate", f"the whole graph needs about {needs}, which every worker has", forecast
        )
    if job.listing is not None:
        raise CapacityError(
            f"{problem}; {job.motif.name}s are listed on the whole graph only: raise the budget"
        )
    if job.family.parted is None:
        raise CapacityError(
            f"{problem}; {job.motif.title} is counted on the whole graph only: raise the budget"
        )
    part_limit(asked, engine, workers, budget)
    return MemoryChoice("partition", problem, forecast)


def part_limit(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], budget: Budget
) -> tuple[PartBytes, int]:
    """Return what a part takes of a worker by its sizes, and what it may take at most: for the cutters.

    That is the part in the form of the engine, as it was read, and a next one of its size that is read ahead. Host
    and device of the gpu engine are joined into one sum that bounds both: the host's, scaled to the limit of the
    device, or the device's, whichever is more in each term.

    Parameters and errors are those of :func:`choose_memory`.
    """
    asked = replace(job, budget=budget)
    threads = max(worker.threads for worker in workers)
    memory = part_memory(asked, engine, threads)
    host_limit = min(host_room(asked, engine, worker.memory_bytes) for worker in workers)
    if engine == "cpu":
        needed, limit, kinds = memory.raw + memory.raw + memory.host, host_limit, "host"
        _require_some(needed, limit, kinds)
        return needed, limit
    device_limit = min(device_room(budget, worker.gpu_memory_bytes) for worker in workers)
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
    """Refuse a limit that not even a part of one edge fits."""
    least = needed.of(PartSizes(1, 1, 2, 1))
    if least > limit:
        raise CapacityError(
            f"the budget leaves {show_bytes(max(limit, 0))} of {kind} memory for parts of the graph, beside the "
            f"process and its context, and a part of one edge needs {show_bytes(least)}: raise the budget of {kind} "
            "memory"
        )


def _forecast_whole(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo]
) -> tuple[MemoryForecast, str | None]:
    """Return the largest forecast of the workers for the whole graph, and which of them has no room for it."""
    worst, problem = MemoryForecast(0, 0, 0), None
    for worker in workers:
        forecast = predict_memory(job, engine, worker.threads)
        for kind, needed, given, has in (
            ("host", forecast.host_bytes, job.budget.of_host(worker.memory_bytes), worker.memory_bytes),
            (
                "device",
                forecast.device_bytes,
                job.budget.of_device(worker.gpu_memory_bytes),
                worker.gpu_memory_bytes,
            ),
        ):
            if needed > given and problem is None:
                verb = "has" if given == has else "may use"
                problem = (
                    f"worker {worker.name} on {worker.host} {verb} {show_bytes(given)} of {kind} memory; counting per "
                    f"{job.per} in {job.source} ({job.n_edges} edges) on the {engine} engine needs about "
                    f"{show_bytes(needed)}"
                )
        worst = max(worst, forecast, key=lambda each: (each.device_bytes, each.host_bytes))
    return worst, problem


def _require_parts_fit(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], manifest: PartitionManifest
) -> MemoryForecast:
    """Refuse a job on parts that cannot fit, before anything is read; return the largest forecast of the workers.

    The forecast holds the part that is read ahead, where there is room for it.
    """
    worst = MemoryForecast(0, 0, 0)
    for worker in workers:
        memory = part_memory(job, engine, worker.threads, manifest.layer)
        host = _Kind(
            "host", memory.raw + memory.host, memory.raw, host_room(job, engine, worker.memory_bytes)
        )
        kinds = [host]
        if engine == "gpu":
            room = device_room(job.budget, worker.gpu_memory_bytes)
            kinds.append(_Kind("device", memory.staged + memory.device, memory.staged, room))
        peaks = [kind.peak(job, worker, manifest) for kind in kinds]
        limit = job.budget.of_host(worker.memory_bytes)
        base = PROCESS_BYTES[engine] + fold_bytes(job, limit)
        forecast = MemoryForecast(
            base + peaks[0],
            CONTEXT_BYTES + peaks[1] if engine == "gpu" else 0,
            PROCESS_BYTES["cpu"] + fold_bytes(job, limit) + _largest(manifest, fold_part(job.per))[0],
        )
        worst = max(worst, forecast, key=lambda each: (each.device_bytes, each.host_bytes))
    return worst


@dataclass(frozen=True)
class _Kind:
    """One kind of memory of a worker: what a part needs of it, its arrays alone, and what there is."""

    name: str
    needed: PartBytes
    raw: PartBytes
    room: int

    def peak(self, job: JobSpec, worker: WorkerInfo, manifest: PartitionManifest) -> int:
        """Return the largest predicted use, reading ahead included; refuse what does not fit."""
        needed, part = _largest(manifest, self.needed)
        if needed > self.room:
            number = "" if part is None else f" {part.index}"
            raise CapacityError(
                f"part{number} of {job.partition.path if job.partition else job.source} needs about "
                f"{show_bytes(needed)} of {self.name} memory on worker {worker.name} on {worker.host}, where "
                f"{show_bytes(max(self.room, 0))} are left for parts beside the process: raise the budget, or make a "
                "partition with a smaller one"
            )
        return min(needed + _largest(manifest, self.raw)[0], self.room)


def _largest(manifest: PartitionManifest, bytes_of: PartBytes) -> tuple[int, PartInfo | None]:
    """Return the largest need of a part, and the part; the fixed part of the sum where there is none."""
    if not manifest.parts:
        return bytes_of.fixed, None
    worst = max(manifest.parts, key=lambda part: bytes_of.of(part.sizes))
    return bytes_of.of(worst.sizes), worst
