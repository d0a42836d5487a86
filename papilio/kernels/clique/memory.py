"""Memory that counting cliques takes: on a whole graph, and on a part of it."""

from __future__ import annotations

from papilio.kernels.engine import EngineName
from papilio.kernels.memory import (
    COUNT,
    DEVICE_PART_BYTES,
    ID,
    OFFSET,
    CountedGraph,
    listing_bytes,
    listing_device_bytes,
)
from papilio.motifs import Clique, Granularity, MaximalClique
from papilio.parts import Layer, PartBytes

_SEARCH_BYTES = 32 << 20
"""What one thread searches the later neighbours of a root in, up to some 1,400 of them."""

_PART_SEARCH_BYTES = 16 << 20
"""The same of a part, up to some 1,000 of them."""

_HOST_BYTES = 16 << 20
"""On the host of a device, for any part: tables of its items, and of leaves."""

_DEVICE_PART_SEARCH_BYTES = 64 << 20
"""What a device searches a part in, at least."""

_DEVICE_SEARCH_BYTES = 256 << 20
"""What a device searches in: queues, matrices and stacks of all its blocks, which take less where memory is short."""


def predict_graph(job: CountedGraph, engine: EngineName, threads: int) -> tuple[int, int]:
    """Return the peak of host and of device memory, in bytes, with the whole graph in memory.

    edges      by later end and by earlier one, with the place that each came from; neighbours both ways for the peeling
    vertices   offsets, ranks and lists of the peeling
    search     what is around one root, and a vector, for each thread
    listing    the graph of what goes with required vertices; rows on their way to a file for each thread, names; on a
               device rows that are made
    """
    graph = job.n_edges * 2 * ID
    edges = job.n_edges * 5 * OFFSET
    vertices = job.n_vertices * (8 * OFFSET)
    vectors = job.vector_entries * COUNT
    listed = on_device = 0
    if job.listing is not None:
        listed = graph + job.n_vertices * 3 * ID + listing_bytes(job.n_vertices, threads, engine)
        on_device = listing_device_bytes(job.n_vertices)
    if engine == "gpu":
        edges = job.n_edges * (4 * ID + 4 * OFFSET)
        return (
            listed + graph + job.n_vertices * 4 * OFFSET + 2 * vectors,
            on_device + edges + vertices + _DEVICE_SEARCH_BYTES + 2 * vectors,
        )
    return listed + graph + edges + vertices + threads * (
        _SEARCH_BYTES + job.n_vertices * (OFFSET + 1) + vectors
    ) + vectors, 0


def part_arrays(per: Granularity) -> PartBytes:
    """Return the bytes of the arrays of a :class:`~papilio.parts.CliquePart` on the host."""
    entry = 2 * ID + (OFFSET if per == "edge" else 0)
    return PartBytes(0, 2 * ID + OFFSET, entry, ID, entry)


def staged_part() -> PartBytes:
    """Return the bytes of a staged part on the device: its edges."""
    return PartBytes(2 << 9, 0, 2 * ID, 0, 2 * ID)


def predict_part(
    motif: Clique | MaximalClique,
    engine: EngineName,
    per: Granularity,
    threads: int,
    *,
    layer: Layer | None = None,
) -> tuple[PartBytes, PartBytes]:
    """Return the most host and device memory that preparing and running one part takes, without the part itself.

    ``threads`` are those of the cpu engine; ``layer`` does not matter here. For maximal cliques the edges are sorted by
    their later ends. On a device the search takes what is left.
    """
    edge, vertex = (COUNT if per == each else 0 for each in ("edge", "vertex"))
    is_maximal = isinstance(motif, MaximalClique)
    if engine == "gpu":
        host = PartBytes(_HOST_BYTES, 4 * OFFSET + 2 * vertex, 2 * edge, 2 * vertex, 2 * edge)
        entry = 2 * edge + OFFSET + (4 * OFFSET + ID if is_maximal else 0)
        each = 6 * OFFSET + 2 * vertex
        return host, PartBytes(
            DEVICE_PART_BYTES + _DEVICE_PART_SEARCH_BYTES, each + 8 * OFFSET, entry, each, entry
        )
    # Offsets and places of each vertex; the edge of each entry, or the earlier end and the order of the edges by it.
    each = 6 * OFFSET + threads * (OFFSET + vertex) + vertex
    entry = edge * (2 + threads) + (3 * OFFSET + ID if is_maximal else 0)
    return PartBytes(_PART_SEARCH_BYTES * threads, each + 4 * OFFSET, entry, each, entry), PartBytes(
        0, 0, 0, 0, 0
    )
