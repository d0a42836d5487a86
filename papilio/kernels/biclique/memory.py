"""Memory that counting and listing bicliques takes: on a whole graph, and on a part of it.

The figures are upper bounds, tested against measured peaks, but for the pairs of vertices with enough common
neighbours: no size of a graph tells how many these are. :data:`PAIRS_PER_EDGE` for each edge are assumed, and the
engines refuse more than memory has room for as they find them. What a process has before it prepares anything is
left out.
"""

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
from papilio.motifs import Biclique, Granularity
from papilio.parts import Layer, PartBytes

PAIRS_PER_EDGE = 16
"""Pairs that each edge of a graph, or of a root, is assumed to bring; measured: 0.5 to 15."""

_PAIR_BYTES = 24
_DEVICE_PAIR_BYTES = 36
"""A pair while they are laid into rows, on the host; while they are sorted, on a device, with what that leaves free."""

_SEARCH_BYTES = 32 << 20
"""What one thread searches the whole graph in."""

_DEVICE_SEARCH_BYTES = 2 << 30
"""What a device searches the whole graph in: local matrices, stacks and tables of all its blocks."""

_PART_SEARCH_BYTES = 16 << 20
"""What one thread searches a part in: what is around a root, lists of candidates, tables of leaves."""


def predict_graph(job: CountedGraph, engine: EngineName, threads: int) -> tuple[int, int]:
    """Return the peak of host and of device memory, in bytes, with the whole graph in memory.

    cover      of balanced ones: a graph of twice as many vertices and edges is searched
    index      both directions, and a place in the other row per entry, twice while the core is cut out; an order, an
               offset and a count for each vertex; the pairs twice while they are laid out
    search     tables and a stack for each thread, or once on a device
    listing    rows on their way to a file for each thread, a name for each vertex; on a device rows that are made
    """
    copies = 2 if job.motif.needs_signs else 1
    vertices, edges = copies * job.n_vertices, copies * job.n_edges
    graph = job.n_edges * (2 * ID + (1 if job.signed else 0)) + (edges * 2 * ID if copies > 1 else 0)
    index = 2 * edges * (2 * ID + OFFSET) + vertices * 2 * (2 * OFFSET + 2 * ID + COUNT)
    pairs = 2 * PAIRS_PER_EDGE * edges * 2 * ID
    vectors = job.vector_entries * COUNT
    host = graph + index + pairs
    listed = 0
    if job.listing is not None:
        host += listing_bytes(vertices, threads, engine)
        listed = listing_device_bytes(vertices)
    if engine == "gpu":
        device = graph + index + pairs // 2 + _DEVICE_SEARCH_BYTES + 2 * vectors
        return host + 2 * vectors, device + listed
    return host + threads * (_SEARCH_BYTES + vectors) + vectors, 0


def part_arrays(per: Granularity) -> PartBytes:
    """Return the bytes of the arrays of a :class:`~papilio.parts.RootPart` on the host, the same for any ``per``."""
    return PartBytes(0, 16, 8, 4, 8)


def staged_part() -> PartBytes:
    """Return the bytes of a staged part on the device: its edges."""
    return PartBytes(2 << 9, 0, 8, 0, 8)


def predict_part(
    motif: Biclique,
    engine: EngineName,
    per: Granularity,
    threads: int,
    *,
    layer: Layer | None = None,
    pairs_per_edge: float = PAIRS_PER_EDGE,
) -> tuple[PartBytes, PartBytes]:
    """Return the most host and device memory that preparing and running one part takes, without the part itself.

    ``threads`` are those of the cpu engine. ``layer`` is that of the roots, by default the one of which two vertices
    are taken, if there is one. On a device the search takes what is left.
    """
    pairs = pairs_per_edge if _keeps_pairs(motif, per, layer) else 0
    vector = 8 if per == "vertex" else 0
    if engine == "gpu":
        host = PartBytes(
            16 << 20, 150 + 2 * vector, 16 if vector else 0, 24 + 2 * vector, 16 if vector else 0
        )
        vertex = 100 + vector
        device = PartBytes(DEVICE_PART_BYTES, vertex + 60, 52 + pairs * _DEVICE_PAIR_BYTES, vertex, 52)
        return host, device
    vertex = 30 + 12 * threads + vector * (1 + threads)
    host = PartBytes(_PART_SEARCH_BYTES * threads, vertex + 60, 40 + pairs * _PAIR_BYTES, vertex, 40)
    return host, PartBytes(0, 0, 0, 0, 0)


def _keeps_pairs(motif: Biclique, per: Granularity, layer: Layer | None) -> bool:
    """Return whether pairs of roots and others are kept: not where stars are all, or pairs that are only counted."""
    most_p, most_q = motif.p or motif.max_p, motif.q or motif.max_q
    if 1 in (most_p, most_q):
        return False
    of_two = [most == 2 for most, side in ((most_p, "u"), (most_q, "v")) if layer in (None, side)]
    return per == "vertex" or not any(of_two)
