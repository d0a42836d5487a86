"""Memory that counting cliques takes, on a whole graph."""

from __future__ import annotations

from papilio.kernels.engine import EngineName
from papilio.kernels.memory import COUNT, ID, OFFSET, CountedGraph, listing_bytes

_SEARCH_BYTES = 32 << 20
"""What one thread searches the later neighbours of a root in, up to some 1,400 of them."""

_DEVICE_SEARCH_BYTES = 256 << 20
"""What a device searches in: queues, matrices and stacks of all its blocks, which take less where memory is short."""


def predict_graph(job: CountedGraph, engine: EngineName, threads: int) -> tuple[int, int]:
    """Return the peak of host and of device memory, in bytes, with the whole graph in memory.

    edges      by later end and by earlier one, with the place that each came from; neighbours both ways for the peeling
    vertices   offsets, ranks and lists of the peeling
    search     what is around one root, and a vector, for each thread
    listing    the graph of what goes with required vertices; rows on their way to a file for each thread, names
    """
    graph = job.n_edges * 2 * ID
    edges = job.n_edges * 5 * OFFSET
    vertices = job.n_vertices * (8 * OFFSET)
    vectors = job.vector_entries * COUNT
    if engine == "gpu":
        edges = job.n_edges * (4 * ID + 4 * OFFSET)
        return (
            graph + job.n_vertices * 4 * OFFSET + 2 * vectors,
            edges + vertices + _DEVICE_SEARCH_BYTES + 2 * vectors,
        )
    listed = 0
    if job.listing is not None:
        listed = graph + job.n_vertices * 3 * ID + listing_bytes(job.n_vertices, threads)
    return listed + graph + edges + vertices + threads * (
        _SEARCH_BYTES + job.n_vertices * OFFSET + vectors
    ) + vectors, 0
