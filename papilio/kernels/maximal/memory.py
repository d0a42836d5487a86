"""Memory that maximal bicliques take: what (p,q)-bicliques take, and rows of the earlier and the excluded vertices."""

from __future__ import annotations

from papilio.kernels.biclique import memory
from papilio.kernels.engine import EngineName
from papilio.kernels.memory import DEVICE_PART_BYTES, ID, CountedGraph
from papilio.motifs import Granularity, MaximalBiclique
from papilio.parts import Layer, PartBytes

staged_part = memory.staged_part

_PART_SEARCH_BYTES = 16 << 20
"""What one thread searches a part in: what is around a root, frames, bits of rows, the table of sizes."""

_DEVICE_PART_SEARCH_BYTES = 64 << 20
"""What a device searches a part in, at least: matrices of some roots, stacks, the table of sizes."""


def predict_graph(job: CountedGraph, engine: EngineName, threads: int) -> tuple[int, int]:
    """Return the peak of host and of device memory, in bytes, with the whole graph in memory.

    Beside the index, and one search for each thread or device, every pair is kept from both of its ends; on the host of
    a GPU there is none, as the index is built on the device.
    """
    host, device = memory.predict_graph(job, engine, threads)
    pairs = 2 * memory.PAIRS_PER_EDGE * job.n_edges * 2 * ID
    return (host + pairs, 0) if engine == "cpu" else (host, device + pairs)


def part_arrays(per: Granularity) -> PartBytes:
    """Return the bytes of the arrays of a :class:`~papilio.parts.MaximalPart` on the host."""
    return memory.part_arrays(per) + PartBytes(0, 0, 0, ID, 0)


def predict_part(
    motif: MaximalBiclique,
    engine: EngineName,
    per: Granularity,
    threads: int,
    *,
    layer: Layer | None = None,
) -> tuple[PartBytes, PartBytes]:
    """Return the most host and device memory that preparing and running one part takes, without the part itself.

    A root has pairs with earlier vertices, too: for each of its edges twice as many are assumed as ``PAIRS_PER_EDGE``
    of :mod:`papilio.kernels.biclique.memory`. While they are laid out each takes three times its vertex and what is
    shared, on a device a key more. Stars are found on the host: rows of both layers, a bit and a count for each vertex.
    ``threads`` are those of the cpu engine; ``layer`` does not matter here.
    """
    pairs = 2 * memory.PAIRS_PER_EDGE
    stars = PartBytes(0, 32, 24, 32, 24)
    if engine == "gpu":
        host = stars + PartBytes(16 << 20, 150, 0, 24, 0)
        fixed = DEVICE_PART_BYTES + _DEVICE_PART_SEARCH_BYTES
        return host, PartBytes(fixed, 170, 52 + 6 * pairs * 2 * ID, 110, 52)
    vertex = 40 + 16 * threads
    searched = PartBytes(_PART_SEARCH_BYTES * threads, vertex + 60, 40 + 3 * pairs * 2 * ID, vertex, 40)
    return stars + searched, PartBytes(0, 0, 0, 0, 0)
