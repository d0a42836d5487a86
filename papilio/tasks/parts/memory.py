"""Memory of a job that counts part by part: what fits a worker, how large a part may be, and whether parts are needed.

A worker holds at most the part that it runs, in the form of the engine and as it was read, and the part that it
reads ahead. What these take follows from their sizes (:mod:`papilio.kernels.wedge.part_bytes`); the budget pays, beside
them, for the process itself and for the context of a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from papilio.errors import CapacityError, UnsupportedError
from papilio.kernels.engine import EngineName
from papilio.kernels.wedge import part_bytes
from papilio.motifs import Biclique, Butterfly
from papilio.partitioning.manifest import PartInfo, PartitionManifest
from papilio.parts import Layer, PartBytes, PartSizes
from papilio.tasks.budget import Budget
from papilio.tasks.forecast import CONTEXT_BYTES, PROCESS_BYTES, MemoryForecast, gib
from papilio.tasks.job import JobSpec
from papilio.tasks.worker import WorkerInfo

__all__ = ["PartMemory", "device_room", "fold_bytes", "host_room", "part_memory", "require_parts_fit"]

FOLD_SHARE = 8
"""Vectors of a whole graph stay in memory as long as they take at most this part of the host memory."""

_FOLD_ENTRY_BYTES = 32
"""What the process that folds needs for each entry of the vector of one part: its count, its id and its place."""

_NONE = PartBytes(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class PartMemory:
    """What a part takes on a worker, beside the process and the context of a device.

    Attributes
    ----------
    raw : PartBytes
        The arrays of a part on the host.
    staged : PartBytes
        The same on a device; 0 for the cpu engine.
    host, device : PartBytes
        The most that preparing and running it takes besides.
    """

    raw: PartBytes
    staged: PartBytes
    host: PartBytes
    device: PartBytes

    def host_bytes(self, sizes: PartSizes) -> int:
        """Return the host memory to run a part, without reading ahead."""
        return (self.raw + self.host).of(sizes)

    def device_bytes(self, sizes: PartSizes) -> int:
        """Return the device memory to run a part, without reading ahead."""
        return (self.staged + self.device).of(sizes)


def part_memory(job: JobSpec, engine: EngineName, threads: int, layer: Layer | None = None) -> PartMemory:
    """Return what the parts of a job take on a worker.

    Parameters
    ----------
    job : JobSpec
    engine : {"cpu", "gpu"}
    threads : int
        Of the cpu engine.
    layer : {"u", "v"}, optional
        Layer of the roots, as the manifest says; by default the one that the options of the job name.

    Raises
    ------
    UnsupportedError
        For a motif that is not counted in parts.
    """
    if isinstance(job.motif, Butterfly):
        raw, staged = part_bytes.raw_wedge_part(job.per), part_bytes.staged_wedge_part()
        host, device = part_bytes.predict_wedge_part(engine, job.per, threads)
    else:
        if not isinstance(job.motif, Biclique) or job.motif.needs_signs:
            raise UnsupportedError(f"{job.motif.title} is counted on whole graphs only, not in parts")
        raw, staged = part_bytes.raw_root_part(), part_bytes.staged_root_part()
        anchor = dict(job.options).get("anchor")
        anchored: Layer | None = "u" if anchor == "u" else "v" if anchor == "v" else layer
        host, device = part_bytes.predict_root_part(engine, job.motif, job.per, threads, layer=anchored)
    if engine == "cpu":
        staged, device = _NONE, _NONE
    return PartMemory(raw, staged, host + _fold_part(job.per), device)


def _fold_part(per: str) -> PartBytes:
    """Return what folding a vector of one part takes; in the worker itself where that folds."""
    vertex, edge = (_FOLD_ENTRY_BYTES if per == each else 0 for each in ("vertex", "edge"))
    return PartBytes(0, vertex, edge, vertex, edge)


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


def require_parts_fit(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], manifest: PartitionManifest
) -> MemoryForecast:
    """Refuse a job on parts that cannot fit, before anything is read; return the largest forecast of the workers.

    The forecast holds the part that is read ahead, where there is room for it.

    Raises
    ------
    CapacityError
        Naming the part, what it needs and what the worker may use.
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
            PROCESS_BYTES["cpu"] + fold_bytes(job, limit) + _largest(manifest, _fold_part(job.per))[0],
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
                f"part{number} of {job.partition.path if job.partition else job.source} needs about {gib(needed)} of "
                f"{self.name} memory on worker {worker.name} on {worker.host}, where {gib(max(self.room, 0))} are "
                "left for parts beside the process: raise the budget, or make a partition with a smaller one"
            )
        return min(needed + _largest(manifest, self.raw)[0], self.room)


def _largest(manifest: PartitionManifest, bytes_of: PartBytes) -> tuple[int, PartInfo | None]:
    """Return the largest need of a part, and the part; the fixed part of the sum where there is none."""
    if not manifest.parts:
        return bytes_of.fixed, None
    worst = max(manifest.parts, key=lambda part: bytes_of.of(part.sizes))
    return bytes_of.of(worst.sizes), worst
