"""Memory needed by motif families: a row of terms for each, for whole graphs and for parts.

The terms sum the arrays alive at the peak, with the widths that the engines use. The sums are upper bounds, tested
against measured peaks, and too high by less than a factor of two on graphs that matter. The exception is pairs of
vertices with enough common neighbours, whose number does not follow from any size of a graph: :data:`PAIRS_PER_EDGE`
are assumed, and the engines raise an error as soon as they find more than fit. The sums exclude the memory of a process
before it prepares anything: interpreter, imported libraries, compiled kernels, the context of a driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import Any, NamedTuple, Protocol

from papilio.kernels.engine import EngineName
from papilio.kernels.null.models import MAX_CLASSES
from papilio.motifs import (
    Biclique,
    Clique,
    FourCycle,
    Granularity,
    Listing,
    MaximalBiclique,
    MaximalClique,
    Motif,
    Projection,
)
from papilio.parts import Layer, PartBytes

ID, OFFSET, COUNT = 4, 8, 8
"""Bytes of a vertex or edge id, of an offset and of a count."""

MAX_ROWS = 2**31 - 2**20
"""Most vertices of a whole graph on a GPU: rows, and the counters that hand out items, are int32, and every warp may
step past the last item once."""

MAX_EDGES = 2**32 - 2**13
"""Most edges of a whole graph on a GPU: a warp numbers the wedges of 32 entries in 32 bits (wedges.cuh).

Their middles are 32 rows of one layer, so these wedges are at most the edges; beyond the last one a warp looks ahead by
at most 4 windows of 32 warps: 2^12 wedges.
"""

PAIRS_PER_EDGE = 16
"""Assumed pairs per edge of a graph, or of a root; measured: 0.5 to 15."""

_DEVICE_PART_BYTES = 48 << 20
"""Device memory of any part: tables of one slice of the schedule, and the rounding of the pool."""

_DEVICE_PART_SEARCH_BYTES = 64 << 20
"""Minimum device memory to search a part whose roots have few pairs: matrices, stacks and tables."""

_SEARCH_BYTES, _PART_SEARCH_BYTES = 32 << 20, 16 << 20
"""Memory in which one thread searches a whole graph, or a part: the neighbourhood of a root, lists of candidates,
tables of leaves. For cliques, enough for about 1,400 and 1,000 later neighbours."""

_PINNED_BYTES = 97 << 20
"""Host memory of any part of wedges counted on a device: buffers for copying large arrays, and small items."""

_FEW_THREADS = 4
"""Up to this many threads, one set of vectors per thread is counted; beyond, the memory that limits their number."""

_ROWS_BYTES = {"cpu": 32 << 20, "gpu": 80 << 20}
"""Memory of one thread of a listing: blocks of rows, their names, and the file it writes. A block holds a million
vertices on a CPU, four million on a GPU."""

_DEVICE_ROWS_BYTES = 256 << 20
"""Device memory in which the rows of a listing are made; its buffer takes a share of the remaining free memory."""

TAIL_BYTES = 256 << 20
"""Host memory for the p-values of a projection."""

_PAIR_BYTES = 28
"""One row of a projection."""

LEAST_ROOM, ROOM_PER_EDGE = 1 << 20, 8
"""Most pairs that a projection with random graphs keeps at a time: for any graph, and per edge of a larger one."""

_ROOM_BYTES = 64
"""Of such a pair: its row, weight, p-value and counter, and places while these are made; besides 4 of each thread."""

DEVICE_PAIR_BYTES = 48
"""Device memory of a pair while pairs are sorted: word and common neighbours, order, and the copies of the sort."""

_NAME_BYTES = 24
"""Name of a vertex in a listing, and the column of labels it is read from."""

_SOLVER_MATRICES = 5
"""Matrices of 8 bytes, by classes of degrees, that are alive while expected degrees are solved."""

_NOTHING = PartBytes(0, 0, 0, 0, 0)


def available_bytes() -> int:
    """Return half of this machine's memory, the limit for the pairs of an index, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


class CountedGraph(Protocol):
    """The properties of a job that determine its memory."""

    @property
    def n_u(self) -> int: ...

    @property
    def n_v(self) -> int: ...

    @property
    def n_vertices(self) -> int: ...

    @property
    def n_edges(self) -> int: ...

    @property
    def signed(self) -> bool: ...

    @property
    def motif(self) -> Motif: ...

    @property
    def per(self) -> Granularity: ...

    @property
    def listing(self) -> Listing | None: ...

    @property
    def vector_entries(self) -> int: ...


def solver_bytes(job: CountedGraph) -> int:
    """Return the most that solving expected degrees takes: k different degrees have a sum of k (k - 1) / 2 or more."""
    is_bipartite = job.n_vertices > job.n_u
    most = isqrt(2 * (1 if is_bipartite else 2) * job.n_edges) + 1
    layers = ((job.n_u, job.n_v), (job.n_v, job.n_u)) if is_bipartite else ((job.n_u, job.n_u),)
    n_classes = sum(min(own, other + 1, most) for own, other in layers)
    return 8 * _SOLVER_MATRICES * min(MAX_CLASSES, n_classes) ** 2


class Terms(NamedTuple):
    """Bytes per element of a whole graph, for each of its sizes."""

    fixed: int = 0
    edge: int = 0
    sign: int = 0  # for each edge of a signed graph
    vertex: int = 0
    widest: int = 0  # for each vertex of the larger layer
    vector: int = 0  # for each entry of the counted vectors

    def of(self, job: CountedGraph) -> int:
        sizes = (
            1, job.n_edges, job.n_edges * job.signed, job.n_vertices, max(job.n_u, job.n_v), job.vector_entries
        )  # fmt: skip
        return sum(term * size for term, size in zip(self, sizes, strict=True))


class GraphMemory(NamedTuple):
    """Terms of a whole graph. The host is the host of the cpu engine, or of a device."""

    host: Terms
    device: Terms
    thread: Terms  # for each thread of the cpu engine
    copies: int = 1  # of each vertex, in the graph that is searched
    listing: Terms = Terms()  # on the host, besides rows and names


@dataclass(frozen=True)
class Memory:
    """Row of one family; families counted only on whole graphs have only the first term.

    ``raw`` covers the host arrays of a part, with an end counted as a middle, and ``staged`` its device arrays.
    ``part`` implements :meth:`predict_part`.
    """

    graph: Callable[[Any, Granularity, EngineName], GraphMemory]
    raw: Callable[[Granularity], PartBytes] = lambda per: _NOTHING
    staged: PartBytes = _NOTHING
    part: Callable[..., tuple[PartBytes, PartBytes]] = lambda *asked: (_NOTHING, _NOTHING)

    def predict_graph(self, job: CountedGraph, engine: EngineName, threads: int) -> tuple[int, int]:
        """Return the peaks of host and device memory with the whole graph in memory, in bytes."""
        terms = self.graph(job.motif, job.per, engine)
        host, device = terms.host.of(job), terms.device.of(job)
        if job.listing is not None:
            n_vertices = terms.copies * job.n_vertices
            host += terms.listing.of(job) + threads * _ROWS_BYTES[engine] + 2 * n_vertices * _NAME_BYTES
            device += _DEVICE_ROWS_BYTES + n_vertices * (2 * ID + COUNT)
        return (host, device) if engine == "gpu" else (host + threads * terms.thread.of(job), 0)

    def predict_part(
        self,
        motif: Motif,
        engine: EngineName,
        per: Granularity,
        threads: int,
        *,
        layer: Layer | None = None,
        pairs_per_edge: float = PAIRS_PER_EDGE,
    ) -> tuple[PartBytes, PartBytes]:
        """Return the maximum host and device memory to prepare and run one part, in bytes.

        The part itself is not included. ``threads`` is the number of threads of the cpu engine. ``layer`` is the layer
        of the roots of bicliques; by default, the layer from which exactly two vertices are taken, if there is one. On
        a device the search takes the memory that is left.
        """
        return self.part(motif, engine, per, threads, layer, pairs_per_edge)


def _of_wedges(motif: Motif, per: Granularity, engine: EngineName) -> GraphMemory:
    # Both directions, with the length of each entry's prefix, and its edge if edges are counted or signed;
    # offsets, an order, an item and its cost per vertex, and the same again during construction.
    signed = motif.needs_signs
    edge = 2 * ID + 2 * (2 * ID + (ID if per == "edge" or signed else 0))
    both = Terms(edge=edge, sign=1, vertex=2 * (4 * OFFSET + ID), vector=2 * COUNT)
    if engine == "gpu":
        host = Terms(edge=2 * ID, sign=1, vector=2 * COUNT)
        return GraphMemory(host, both._replace(edge=edge + 4 * OFFSET), Terms())  # The keys of a sort
    # Counters and a list of touched ones, four of each by the signs at a common neighbour; the kept starts of an edge.
    thread = Terms(widest=2 * COUNT * (4 if signed else 1), vector=COUNT if per == "vertex" else 0)
    if per == "edge":
        # Those of a unipartite graph are in both directions of an edge, as its counts.
        ways = 2 if isinstance(motif, FourCycle) else 1
        both = both._replace(edge=edge + ways * 2 * ID, vector=(1 + ways) * COUNT)
    return GraphMemory(both._replace(vector=COUNT) if per == "vertex" else both, Terms(), thread)


def _of_submatrices(motif: Motif, per: Granularity, engine: EngineName) -> GraphMemory:
    # Besides wedges: both degrees, and per vertex wedges, further ones and sums.
    terms = _of_wedges(motif, per, engine)
    host = terms.host._replace(vertex=terms.host.vertex + 2 * COUNT)
    return terms._replace(host=host._replace(vector=5 * COUNT + host.vector) if per == "vertex" else host)


def _of_projections(motif: Motif, per: Granularity, engine: EngineName) -> GraphMemory:
    # Besides wedges: a sum for each counter, and a block of rows, one for each vertex that a start can meet.
    terms = _of_wedges(motif, per, engine)
    has_tails = isinstance(motif, Projection) and motif.significance in ("hypergeometric", "expected-degrees")
    tails = TAIL_BYTES if has_tails else 0
    if engine == "gpu":
        # An order of the ids, degrees, costs and bounds of the pairs on the host; terms on the device.
        host = terms.host._replace(fixed=tails, vertex=4 * COUNT)
        device = terms.device._replace(vertex=terms.device.vertex + ID + COUNT, widest=DEVICE_PAIR_BYTES)
        return terms._replace(host=host, device=device)
    thread = terms.thread._replace(widest=terms.thread.widest + COUNT + _PAIR_BYTES)
    if not isinstance(motif, Projection) or motif.samples is None:
        return terms._replace(host=terms.host._replace(fixed=tails), thread=thread)
    # Each thread indexes a random graph of its own, drawn from rows of both layers.
    host = terms.host._replace(fixed=LEAST_ROOM * _ROOM_BYTES, edge=terms.host.edge + ROOM_PER_EDGE * _ROOM_BYTES)
    drawn = terms.host.edge + 4 * ID + ROOM_PER_EDGE * ID
    return terms._replace(
        host=host, thread=thread._replace(fixed=LEAST_ROOM * ID, edge=drawn, vertex=2 * terms.host.vertex)
    )


def _part_of_wedges(
    motif: Motif, engine: EngineName, per: Granularity, threads: int, layer: Layer | None, pairs: float
) -> tuple[PartBytes, PartBytes]:
    edge, vertex = (COUNT if per == each else 0 for each in ("edge", "vertex"))
    if engine == "gpu":
        host = PartBytes(_PINNED_BYTES, 8 + vertex, edge, vertex, edge)
        return host, PartBytes(_DEVICE_PART_BYTES, 120 + vertex, 8 + edge, 12 + vertex, edge)
    # Each thread has its own vectors: few threads, or as many as 8 bytes per entry allow.
    few = threads <= _FEW_THREADS
    rows, more = vertex * (threads + 1 if few else 2), 0 if few else vertex
    # A middle has an offset and two entries of the table that finds it; an end has two counters per thread; a thread
    # has the memory its allocator keeps, and the used part of its stack.
    each = max(16, 5 * threads)
    return PartBytes(threads << 20, 56 + rows, 8 + edge + more, each + rows, edge + more), _NOTHING


def _of_bicliques(motif: Motif, per: Granularity, engine: EngineName) -> GraphMemory:
    # Balanced bicliques are searched in a cover of twice as many vertices and edges. Both directions, and a place in
    # the other row per entry, twice while the core is cut out; an order, an offset and a count for each vertex; the
    # pairs, twice while they are laid out on a host.
    copies = 2 if motif.needs_signs else 1
    graph = 2 * ID + (copies * 2 * ID if copies > 1 else 0)
    pairs, index = copies * 2 * PAIRS_PER_EDGE * 2 * ID, copies * 2 * (2 * ID + OFFSET)
    vertex = copies * 2 * (2 * OFFSET + 2 * ID + COUNT)
    vector = (2 if engine == "gpu" else 1) * COUNT
    return GraphMemory(
        Terms(edge=graph + index + pairs, sign=1, vertex=vertex, vector=vector),
        # Local matrices, stacks and tables of all blocks
        Terms(2 << 30, graph + index + pairs // 2, 1, vertex, vector=vector),
        Terms(_SEARCH_BYTES, vector=COUNT),
        copies,
    )


def _part_of_bicliques(
    motif: Biclique, engine: EngineName, per: Granularity, threads: int, layer: Layer | None, pairs: float
) -> tuple[PartBytes, PartBytes]:
    pairs = pairs if _keeps_pairs(motif, per, layer) else 0
    vector = COUNT if per == "vertex" else 0
    if engine == "gpu":
        host = PartBytes(16 << 20, 150 + 2 * vector, 2 * vector, 24 + 2 * vector, 2 * vector)
        # A pair during the sort of the pairs, with the memory freed by it
        return host, PartBytes(_DEVICE_PART_BYTES, 160 + vector, 52 + pairs * 36, 100 + vector, 52)
    vertex = 30 + 12 * threads + vector * (1 + threads)
    # A pair while pairs are laid out in rows
    return PartBytes(_PART_SEARCH_BYTES * threads, vertex + 60, 40 + pairs * 24, vertex, 40), _NOTHING


def _keeps_pairs(motif: Biclique, per: Granularity, layer: Layer | None) -> bool:
    """Return whether pairs of roots and other vertices are kept: not for stars, nor for pairs that are only counted."""
    most_p, most_q = motif.p or motif.max_p, motif.q or motif.max_q
    if 1 in (most_p, most_q):
        return False
    of_two = [most == 2 for most, side in ((most_p, "u"), (most_q, "v")) if layer in (None, side)]
    return per == "vertex" or not any(of_two)


def _of_maximal_bicliques(motif: Motif, per: Granularity, engine: EngineName) -> GraphMemory:
    # Every pair is kept from both ends; the host of a GPU has none of these, as the device builds the index, and keeps
    # the rows of the right layer for the matrices.
    terms, pairs = _of_bicliques(motif, per, engine), 2 * PAIRS_PER_EDGE * 2 * ID
    host, device = terms.host, terms.device
    if engine == "cpu":
        return terms._replace(host=host._replace(edge=host.edge + pairs))
    return terms._replace(device=device._replace(edge=device.edge + pairs + ID, vertex=device.vertex + OFFSET))


def _part_of_maximal_bicliques(
    motif: MaximalBiclique,
    engine: EngineName,
    per: Granularity,
    threads: int,
    layer: Layer | None,
    pairs: float,
) -> tuple[PartBytes, PartBytes]:
    # A root also has pairs with earlier vertices: twice as many. During the layout each takes three times its vertex
    # and its number of shared neighbours, on a device also a key. Stars are found on the host: rows of both layers, a
    # bit and a count for each vertex.
    laid, stars = 3 * 2 * pairs * 2 * ID, PartBytes(0, 32, 24, 32, 24)
    if engine == "gpu":
        device = PartBytes(_DEVICE_PART_BYTES + _DEVICE_PART_SEARCH_BYTES, 178, 56 + 2 * laid, 118, 56)
        return stars + PartBytes(16 << 20, 150, 0, 24, 0), device
    vertex = 40 + 16 * threads
    return stars + PartBytes(_PART_SEARCH_BYTES * threads, vertex + 60, 40 + laid, vertex, 40), _NOTHING


def _of_cliques(motif: Motif, per: Granularity, engine: EngineName) -> GraphMemory:
    # Edges by later end and by earlier end, with their original places, and neighbours in both directions for the
    # peeling; offsets, ranks and lists of the peeling. The host of a device has the graph and offsets.
    host = Terms(edge=2 * ID + 5 * OFFSET, vertex=8 * OFFSET, vector=COUNT)
    if engine == "gpu":
        host = Terms(edge=2 * ID, vertex=4 * OFFSET, vector=2 * COUNT)
    return GraphMemory(
        host,
        # Queues, matrices and stacks of all blocks, which take less if memory is short
        Terms(256 << 20, 4 * ID + 4 * OFFSET, vertex=8 * OFFSET, vector=2 * COUNT),
        Terms(_SEARCH_BYTES, vertex=OFFSET + 1, vector=COUNT),
        listing=Terms(edge=2 * ID, vertex=3 * ID),  # The graph next to the required vertices
    )


def _part_of_cliques(
    motif: Clique | MaximalClique,
    engine: EngineName,
    per: Granularity,
    threads: int,
    layer: Layer | None,
    pairs: float,
) -> tuple[PartBytes, PartBytes]:
    edge, vertex = (COUNT if per == each else 0 for each in ("edge", "vertex"))
    is_maximal = isinstance(motif, MaximalClique)  # Their edges are sorted by the later ends
    if engine == "gpu":
        host = PartBytes(16 << 20, 4 * OFFSET + 2 * vertex, 2 * edge, 2 * vertex, 2 * edge)
        entry = 2 * edge + OFFSET + (4 * OFFSET + ID if is_maximal else 0)
        each, fixed = 6 * OFFSET + 2 * vertex, _DEVICE_PART_BYTES + _DEVICE_PART_SEARCH_BYTES
        return host, PartBytes(fixed, each + 8 * OFFSET, entry, each, entry)
    # Offsets and places of each vertex; the edge of each entry, or the earlier end and the order of the edges by it.
    each = 6 * OFFSET + threads * (OFFSET + vertex) + vertex
    entry = edge * (2 + threads) + (3 * OFFSET + ID if is_maximal else 0)
    return PartBytes(_PART_SEARCH_BYTES * threads, each + 4 * OFFSET, entry, each, entry), _NOTHING


def _wedge_arrays(per: Granularity) -> PartBytes:
    edge = 8 if per == "edge" else 0
    return PartBytes(16, 24, 4 + edge, 16, 4 + edge)


def _clique_arrays(per: Granularity) -> PartBytes:
    entry = 2 * ID + (OFFSET if per == "edge" else 0)
    return PartBytes(0, 2 * ID + OFFSET, entry, ID, entry)


_EDGES = PartBytes(2 << 9, 0, 2 * ID, 0, 2 * ID)

WEDGES = Memory(_of_wedges, _wedge_arrays, PartBytes(6 << 9, 12, 4, 12, 4), _part_of_wedges)
BICLIQUES = Memory(_of_bicliques, lambda per: PartBytes(0, 16, 8, 4, 8), _EDGES, _part_of_bicliques)
MAXIMAL_BICLIQUES = Memory(
    _of_maximal_bicliques, lambda per: PartBytes(0, 16, 8, 8, 8), _EDGES, _part_of_maximal_bicliques
)
PROJECTIONS = Memory(_of_projections)
SUBMATRICES = Memory(_of_submatrices)
CLIQUES = Memory(_of_cliques, _clique_arrays, _EDGES, _part_of_cliques)
