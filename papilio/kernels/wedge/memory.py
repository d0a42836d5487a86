"""Memory that counting butterflies takes: on a whole graph, and on a part of it.

The figures are upper bounds, tested against measured peaks. They leave out what a process has before it prepares
anything: interpreter, imported libraries, compiled kernels, the context of a driver.
"""

from __future__ import annotations

from papilio.kernels.engine import EngineName
from papilio.kernels.memory import COUNT, DEVICE_PART_BYTES, ID, OFFSET, CountedGraph
from papilio.motifs import Granularity, Motif
from papilio.parts import Layer, PartBytes

_THREAD_BYTES = 1 << 20
"""Of a thread of the CPU engine: what its allocator keeps, and its stack as far as it is used."""

_FEW_THREADS = 4
"""Up to here the vectors of all threads are counted, beyond it the memory that bounds their number."""

_PINNED_BYTES = 97 << 20
"""Of any part on the host of a device: buffers through which large arrays are copied, and what is small."""

_SIGNED_COUNTERS = 4
"""Counters of a pair of vertices by the signs at their common neighbours."""


def predict_graph(job: CountedGraph, engine: EngineName, threads: int) -> tuple[int, int]:
    """Return the peak of host and of device memory, in bytes, with the whole graph in memory.

    graph (host)  2 ids and perhaps a sign byte per edge
    prepared      both directions: id and prefix length per entry, an edge id for supports; 2 offsets, an order, an
                  item and its cost per vertex, and as much again while it is built
    counters      an id-wide counter and its touch list per vertex of the larger layer and thread; four of them for
                  signed motifs, which need edge ids while they are prepared
    vectors       one count per vertex and thread, or per edge, with the kept starts of each edge

    The gpu engine holds on the device what the cpu engine holds on the host, and the keys of a sort.
    """
    vertices, edges, signed = job.n_vertices, job.n_edges, job.motif.needs_signs
    graph = edges * (2 * ID + (1 if job.signed else 0))
    entry = 2 * ID + (ID if job.per == "edge" or signed else 0)
    prepared = 2 * edges * entry + vertices * 2 * (2 * OFFSET + ID + 2 * OFFSET)
    vectors = job.vector_entries * COUNT
    if engine == "gpu":
        sort_keys = 2 * edges * 2 * OFFSET
        return graph + 2 * vectors, graph + prepared + sort_keys + 2 * vectors
    counters = threads * max(job.n_u, job.n_v) * 2 * COUNT * (_SIGNED_COUNTERS if signed else 1)
    per_thread = threads * vectors if job.per == "vertex" else vectors
    kept = 2 * edges * ID if job.per == "edge" else 0
    return graph + prepared + counters + per_thread + vectors + kept, 0


def part_arrays(per: Granularity) -> PartBytes:
    """Return the bytes of the arrays of a :class:`~papilio.parts.WedgePart` on the host; an end counts as a middle."""
    edge = 8 if per == "edge" else 0
    return PartBytes(16, 24, 4 + edge, 16, 4 + edge)


def staged_part() -> PartBytes:
    """Return the bytes of a staged part on the device; ids, edge ids and work stay on the host."""
    return PartBytes(6 << 9, 12, 4, 12, 4)


def predict_part(
    motif: Motif, engine: EngineName, per: Granularity, threads: int, *, layer: Layer | None = None
) -> tuple[PartBytes, PartBytes]:
    """Return the most host and device memory that preparing and running one part takes, without the part itself.

    ``threads`` are those of the cpu engine; ``motif`` and ``layer`` do not matter here.
    """
    edge = 8 if per == "edge" else 0
    vertex = 8 if per == "vertex" else 0
    if engine == "gpu":
        host = PartBytes(_PINNED_BYTES, 8 + vertex, edge, vertex, edge)
        return host, PartBytes(DEVICE_PART_BYTES, 120 + vertex, 8 + edge, 12 + vertex, edge)
    # Threads have vectors of their own: few threads, or as many as 8 bytes per entry allow.
    few = threads <= _FEW_THREADS
    rows = vertex * (threads + 1 if few else 2)
    more = 0 if few else vertex
    # A middle has an offset and two entries of the table that finds it, an end two counters of each thread.
    each = max(16, 5 * threads)
    host = PartBytes(_THREAD_BYTES * threads, 56 + rows, 8 + edge + more, each + rows, edge + more)
    return host, PartBytes(0, 0, 0, 0, 0)
