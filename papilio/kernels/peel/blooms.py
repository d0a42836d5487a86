"""Blooms: the butterflies of a graph by pairs of vertices, linked to their edges. Wings are peeled from them.

A *bloom* is a pair of ends (u, w) of the wedge engine (:mod:`papilio.kernels.rows.index`) with at least two counted
wedges. Any two wedges of a bloom form a butterfly, and every butterfly of the graph is in exactly one bloom: the bloom
in the layer of its first vertex. A wedge has two edges, each the *twin* of the other. An edge in a bloom of k wedges is
in k - 1 of its butterflies. When the edge is removed, its twin loses those k - 1, and every other edge of the bloom
loses one. This is the BE-index of Wang et al. (ICDE 2020); its size is the number of counted wedges.

Tips are peeled from pairs of vertices of one layer with at least two common neighbours (:class:`PairGraph`). Peeling
removes vertices of one layer and leaves the other layer whole, so the number c of common neighbours of a pair never
changes: the pair is in C(c, 2) butterflies until one of its vertices is removed. The pairs are counted once, and
peeling only walks over rows of numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.exact import require_room
from papilio.kernels.jit import EdgeIds, Ids, Index, Ints, compiled, fetch_add
from papilio.kernels.offsets import offsets_of
from papilio.kernels.peel.phases import MAX_EDGES, Layer, check_wing_edges
from papilio.kernels.rows.index import WedgeIndex, WedgeRows
from papilio.kernels.threads import ChunkRunner, cut_by_cost

Edges = NDArray[np.int32]


class BloomIndex(NamedTuple):
    """The blooms of a graph, and the links from edges to them. All arrays are on the host."""

    offsets: Ints
    """Wedges of bloom b are ``[offsets[b], offsets[b + 1])`` of the next two arrays, shape (n_blooms + 1,)."""
    first: Edges
    second: Edges
    """Ids of the two edges of each wedge, shape (n_wedges,)."""
    link_offsets: Ints
    """Links of edge e are ``[link_offsets[e], link_offsets[e + 1])`` of the next two, shape (n_edges + 1,)."""
    link_bloom: Edges
    link_twin: Edges
    """A bloom of the edge, and the other edge of its wedge there, shape (2 * n_wedges,)."""

    @property
    def n_blooms(self) -> int:
        return int(self.offsets.size) - 1

    @property
    def n_wedges(self) -> int:
        return int(self.first.size)


def bloom_bytes(n_wedges: int, n_blooms: int, n_edges: int) -> int:
    """Return the bytes of an index of these sizes."""
    return 24 * n_wedges + 8 * (n_blooms + n_edges)


@compiled
def _count_row(rows: WedgeRows, row: Index, counters: Ids) -> None:
    """Count the wedges of one start by their other end."""
    middles = rows.n_u if row < rows.n_u else 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        begin = rows.offsets[middles + np.int64(rows.ids[at])]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            counters[rows.ids[to]] += np.uint32(1)


@compiled
def _measure_blooms(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, counters: Ids, blooms: Ints, wedges: Ints
) -> None:
    """Write the blooms of each item and their wedges; leave the counters zero."""
    for item in range(start, stop):
        row = items[item]
        _count_row(rows, row, counters)
        middles = rows.n_u if row < rows.n_u else 0
        for at in range(rows.offsets[row], rows.offsets[row + 1]):
            begin = rows.offsets[middles + np.int64(rows.ids[at])]
            for to in range(begin, begin + np.int64(rows.prefix[at])):
                count = np.int64(counters[rows.ids[to]])
                counters[rows.ids[to]] = np.uint32(0)
                if count > 1:
                    blooms[item] += 1
                    wedges[item] += count


@compiled
def _fill_blooms(
    rows: WedgeRows,
    edge_ids: EdgeIds,
    items: Ints,
    start: Index,
    stop: Index,
    counters: Ids,
    cursors: Ints,
    blooms: Ints,
    wedges: Ints,
    offsets: Ints,
    first: Edges,
    second: Edges,
    degrees: Ints,
) -> None:
    """Write the blooms of each item, from bloom ``blooms[item]`` and wedge ``wedges[item]`` on.

    Several threads may add to ``degrees[e]``, the number of links of each edge.
    """
    for item in range(start, stop):
        row = items[item]
        _count_row(rows, row, counters)
        bloom, wedge = blooms[item], wedges[item]
        middles = rows.n_u if row < rows.n_u else 0
        for at in range(rows.offsets[row], rows.offsets[row + 1]):
            begin = rows.offsets[middles + np.int64(rows.ids[at])]
            for to in range(begin, begin + np.int64(rows.prefix[at])):
                end = rows.ids[to]
                if counters[end] > 1:
                    offsets[bloom] = wedge
                    cursors[end] = wedge
                    wedge += np.int64(counters[end])
                    bloom += 1
                    counters[end] = np.uint32(0)
                elif counters[end] == 1:
                    cursors[end] = -1
                    counters[end] = np.uint32(0)
                place = cursors[end]
                if place >= 0:
                    cursors[end] = place + 1
                    one, other = np.int64(edge_ids[at]), np.int64(edge_ids[to])
                    first[place], second[place] = one, other
                    fetch_add(degrees, one, np.int64(1))
                    fetch_add(degrees, other, np.int64(1))


@compiled
def _link_edges(
    offsets: Ints,
    first: Edges,
    second: Edges,
    start: Index,
    stop: Index,
    cursors: Ints,
    link_bloom: Edges,
    link_twin: Edges,
) -> None:
    """Write the links of the blooms ``[start, stop)``, in any order within an edge."""
    for bloom in range(start, stop):
        for wedge in range(offsets[bloom], offsets[bloom + 1]):
            one, other = first[wedge], second[wedge]
            at = fetch_add(cursors, one, np.int64(1))
            link_bloom[at], link_twin[at] = bloom, other
            at = fetch_add(cursors, other, np.int64(1))
            link_bloom[at], link_twin[at] = bloom, one


def index_blooms(index: WedgeIndex, threads: int, memory_bytes: int | None = None) -> BloomIndex:
    """List the blooms of a graph and link its edges to them. Takes two traversals of all counted wedges.

    The index has edge ids. ``memory_bytes`` is room for the blooms and, in equal measure, for peeling them. Sizes are
    checked before arrays are allocated; at most 2^31 - 1 edges and blooms.
    """
    n_edges, n_items = index.n_edges, int(index.items.size)
    check_wing_edges(n_edges)
    rows, items = index.rows, index.items
    n_ranks = max(index.n_u, index.n_v)
    blooms, wedges = np.zeros(n_items, np.int64), np.zeros(n_items, np.int64)
    chunks = cut_by_cost(index.costs, threads)

    def measure(counters: Ids, start: int, stop: int) -> None:
        _measure_blooms(rows, items, start, stop, counters, blooms, wedges)

    ChunkRunner(lambda: np.zeros(n_ranks, np.uint32), threads).run(chunks, measure)
    bloom_starts, wedge_starts = offsets_of(blooms), offsets_of(wedges)
    n_blooms, n_wedges = int(bloom_starts[-1]), int(wedge_starts[-1])
    if n_blooms > MAX_EDGES:
        raise CapacityError(f"the graph has {n_blooms} blooms; the maximum for wing numbers is {MAX_EDGES}")
    needed = 2 * bloom_bytes(n_wedges, n_blooms, n_edges)
    what = f"wing numbers of {n_wedges} wedges in {n_blooms} blooms need"
    require_room(what, needed, memory_bytes, "use a machine with more memory")

    offsets = np.empty(n_blooms + 1, np.int64)
    offsets[n_blooms] = n_wedges
    first, second = np.empty(n_wedges, np.int32), np.empty(n_wedges, np.int32)
    degrees = np.zeros(n_edges, np.int64)

    def fill(state: tuple[Ids, Ints], start: int, stop: int) -> None:
        _fill_blooms(
            rows, index.edge_ids, items, start, stop, *state, bloom_starts, wedge_starts,
            offsets, first, second, degrees,
        )  # fmt: skip

    ChunkRunner(lambda: (np.zeros(n_ranks, np.uint32), np.empty(n_ranks, np.int64)), threads).run(chunks, fill)
    link_offsets = offsets_of(degrees)
    cursors = link_offsets[:-1].copy()
    link_bloom, link_twin = np.empty(2 * n_wedges, np.int32), np.empty(2 * n_wedges, np.int32)

    def link(_: None, start: int, stop: int) -> None:
        _link_edges(offsets, first, second, start, stop, cursors, link_bloom, link_twin)

    ChunkRunner(lambda: None, threads).run(cut_by_cost(np.diff(offsets), threads), link)
    return BloomIndex(offsets, first, second, link_offsets, link_bloom, link_twin)


Items = NDArray[np.int32]


class PairGraph(NamedTuple):
    """The pairs of one layer, in both directions, on the host; vertices by id within the layer."""

    offsets: Ints
    """Pairs of vertex i are ``[offsets[i], offsets[i + 1])`` of the next two arrays, shape (n + 1,)."""
    others: Items
    """The other vertex of each pair, shape (2 * n_pairs,)."""
    common: Ids
    """Common neighbours of the pair, at least 2, of the same shape."""

    @property
    def n(self) -> int:
        return int(self.offsets.size) - 1


def pair_bytes(n_pairs: int, n: int) -> int:
    """Return the bytes of a layer of ``n`` vertices with ``n_pairs`` pairs."""
    return 16 * n_pairs + 8 * n


@compiled
def _count_before(rows: WedgeRows, row: Index, first: Index, middles: Index, counters: Ids, met: Ids) -> Index:
    """Count the wedges from a row to earlier rows of its layer. Return the number of rows met."""
    rank = row - first
    n_met = 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        middle = middles + np.int64(rows.ids[at])
        for to in range(rows.offsets[middle], rows.offsets[middle + 1]):
            end = rows.ids[to]
            if end >= rank:
                break
            if counters[end] == 0:
                met[n_met] = end
                n_met += 1
            counters[end] += np.uint32(1)
    return n_met


@compiled
def _measure_pairs(
    rows: WedgeRows,
    first: Index,
    middles: Index,
    order: Items,
    start: Index,
    stop: Index,
    counters: Ids,
    met: Ids,
    degrees: Ints,
) -> None:
    """Add the pairs of the ranks ``[start, stop)`` with earlier ones to both degrees; several threads may run it."""
    for rank in range(start, stop):
        found = np.int64(0)
        for place in range(_count_before(rows, first + rank, first, middles, counters, met)):
            end = met[place]
            if counters[end] > 1:
                found += 1
                fetch_add(degrees, np.int64(order[end]), np.int64(1))
            counters[end] = np.uint32(0)
        fetch_add(degrees, np.int64(order[rank]), found)


@compiled
def _fill_pairs(
    rows: WedgeRows,
    first: Index,
    middles: Index,
    order: Items,
    start: Index,
    stop: Index,
    counters: Ids,
    met: Ids,
    cursors: Ints,
    others: Items,
    common: Ids,
) -> None:
    """Write the pairs of the ranks ``[start, stop)`` with earlier ones, both ways; several threads may run it."""
    for rank in range(start, stop):
        own = order[rank]
        for place in range(_count_before(rows, first + rank, first, middles, counters, met)):
            end = met[place]
            count = counters[end]
            counters[end] = np.uint32(0)
            if count > 1:
                other = order[end]
                to = fetch_add(cursors, np.int64(own), np.int64(1))
                others[to], common[to] = other, count
                to = fetch_add(cursors, np.int64(other), np.int64(1))
                others[to], common[to] = own, count


@compiled
def _two_hops(rows: WedgeRows, first: Index, middles: Index, costs: Ints) -> None:
    """Write an upper bound of the wedges from each rank to earlier ones, plus one."""
    for rank in range(costs.size):
        cost = np.int64(1)
        for at in range(rows.offsets[first + rank], rows.offsets[first + rank + 1]):
            middle = middles + np.int64(rows.ids[at])
            cost += min(rows.offsets[middle + 1] - rows.offsets[middle], rank)
        costs[rank] = cost


def index_pairs(index: WedgeIndex, layer: Layer, threads: int, memory_bytes: int | None = None) -> PairGraph:
    """Count the common neighbours of all pairs of a layer. Takes two traversals of the wedges between its vertices.

    ``memory_bytes`` is room for the pairs and for the arrays of peeling.
    """
    rows = index.rows
    n, first, middles, order = (
        (index.n_u, 0, index.n_u, index.order_u) if layer == "u" else (index.n_v, index.n_u, 0, index.order_v)
    )
    costs = np.empty(n, np.int64)
    _two_hops(rows, first, middles, costs)
    chunks = cut_by_cost(costs, threads)
    runner = ChunkRunner(lambda: (np.zeros(n, np.uint32), np.empty(n, np.uint32)), threads)
    degrees = np.zeros(n, np.int64)

    def measure(state: tuple[Ids, Ids], start: int, stop: int) -> None:
        _measure_pairs(rows, first, middles, order, start, stop, *state, degrees)

    runner.run(chunks, measure)
    offsets = offsets_of(degrees)
    size = int(offsets[-1])
    needed = pair_bytes(size // 2, 6 * n)
    what = f"tip numbers of layer {layer}, with {size // 2} pairs of two common neighbours or more, need"
    require_room(what, needed, memory_bytes, "choose the other layer, or use a machine with more memory")
    others, common = np.empty(size, np.int32), np.empty(size, np.uint32)
    cursors = offsets[:-1].copy()

    def fill(state: tuple[Ids, Ids], start: int, stop: int) -> None:
        _fill_pairs(rows, first, middles, order, start, stop, *state, cursors, others, common)

    runner.run(chunks, fill)
    return PairGraph(offsets, others, common)
