"""Predicted peaks of a job on one worker, from sizes alone, before anything is read: on a whole graph or part by part.

The formulas are those of the ``memory`` modules of the motif families; the process and the context of a device come
on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from papilio.errors import UnsupportedError
from papilio.kernels.engine import EngineName
from papilio.kernels.memory import COUNT
from papilio.parts import Layer, PartBytes, PartSizes
from papilio.tasks.job import JobSpec

PROCESS_BYTES = {"cpu": 350 << 20, "gpu": 900 << 20}
"""An idle worker after its imports (Python, NumPy, Arrow, Dask, and Numba or CuPy with a CUDA context)."""

CONTEXT_BYTES = 768 << 20
"""Device memory of a CUDA context with its modules."""

_FOLD_ENTRY_BYTES = 32
"""What the process that folds needs for each entry of the vector of one part: its count, its id and its place."""


@dataclass(frozen=True)
class MemoryForecast:
    """Predicted peak of one worker that runs one lease at a time, in bytes."""

    host_bytes: int
    device_bytes: int  # 0 for the cpu engine
    client_bytes: int  # host memory of the process that folds


def predict_memory(job: JobSpec, engine: EngineName, threads: int = 1) -> MemoryForecast:
    """Predict the peaks of a job on the whole graph; ``threads`` are those of the cpu engine."""
    host, device = import_module(job.family.memory).predict_graph(job, engine, threads)
    client = PROCESS_BYTES["cpu"] + 3 * job.vector_entries * COUNT
    return MemoryForecast(
        PROCESS_BYTES[engine] + host, CONTEXT_BYTES + device if engine == "gpu" else 0, client
    )


@dataclass(frozen=True)
class PartMemory:
    """What a part takes on a worker, beside the process and the context of a device."""

    raw: PartBytes  # its arrays on the host
    staged: PartBytes  # its arrays on a device; 0 for the cpu engine
    host: PartBytes  # the most that preparing and running it takes besides
    device: PartBytes

    def host_bytes(self, sizes: PartSizes) -> int:
        """Return the host memory to run a part, without reading ahead."""
        return (self.raw + self.host).of(sizes)

    def device_bytes(self, sizes: PartSizes) -> int:
        """Return the device memory to run a part, without reading ahead."""
        return (self.staged + self.device).of(sizes)


def part_memory(job: JobSpec, engine: EngineName, threads: int, layer: Layer | None = None) -> PartMemory:
    """Return what the parts of a job take on a worker. UnsupportedError for a motif that is not counted in parts.

    ``threads`` are those of the cpu engine. ``layer`` is that of the roots, as the manifest says; by default the one
    that the options of the job name.
    """
    if job.family.parted is None:
        raise UnsupportedError(f"{job.motif.title} is counted on whole graphs only, not in parts")
    formulas = import_module(job.family.memory)
    anchor = dict(job.options).get("anchor")
    host, device = formulas.predict_part(
        job.motif, engine, job.per, threads, layer=anchor if anchor in ("u", "v") else layer
    )
    raw, staged = formulas.part_arrays(job.per), formulas.staged_part()
    if engine == "cpu":
        staged = device = PartBytes(0, 0, 0, 0, 0)
    return PartMemory(raw, staged, host + fold_part(job.per), device)


def fold_part(per: str) -> PartBytes:
    """Return what folding a vector of one part takes; in the worker itself where that folds."""
    vertex, edge = (_FOLD_ENTRY_BYTES if per == each else 0 for each in ("vertex", "edge"))
    return PartBytes(0, vertex, edge, vertex, edge)
