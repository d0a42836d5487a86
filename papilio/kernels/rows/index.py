"""Wedges from their highest end: the graph form that every CPU kernel of the wedge engine scans.

All vertices of both layers have one total order: descending degree, ties by layer (U before V), then by id; the first
is the largest hub. A wedge (u, v, w) with ends u, w and middle v is counted if u precedes both v and w. Each wedge with
a fixed pair of ends then belongs to exactly one start, its later end w, and the work is O(sum over edges of min(d(u),
d(v))) (BFC-VP++, PVLDB 2019).

The *rank* of a vertex is its place among its layer's vertices in that order. The rows of :class:`WedgeIndex` hold the
neighbours of each vertex by rank, ascending. Hence, for a start w and a middle v, the ends u of counted wedges are the
first ``min(place of w in the row of v, number of entries of that row that precede v)`` entries of the row of v: a
contiguous prefix, with its length stored next to v in the row of w. The transposition that builds the rows yields the
places without a search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, array_bytes
from papilio.kernels.jit import EdgeIds, Ids, Ints, compiled
from papilio.kernels.offsets import count_ids, offsets_of
from papilio.parts import Layer

Kinds = tuple[int, ...]
"""Kinds of common neighbours with a counter for each pair of ends; see :mod:`papilio.kernels.wedge.loops`.

The length of the tuple is part of its type, so that loops are compiled for each number of kinds.
"""

ONE_KIND, TWO_KINDS, FOUR_KINDS = (0,), (0, 1), (0, 1, 2, 3)

_DIGIT_BITS = 11
"""Bits per pass of the radix sort: 2048 buckets of 8 bytes stay in the first-level cache."""


class WedgeRows(NamedTuple):
    """Arrays of a wedge scan, in the form that compiled code takes.

    The middles of a start row x are ``ids[offsets[x] : offsets[x + 1]]``. The ends of its middle m
    are the first of ``ends[offsets[n_u + m] :]`` for rows below ``n_u``, and of ``ends[offsets[m] :]`` for rows of the
    second layer.
    """

    n_u: int
    offsets: Ints
    ids: Ids
    prefix: Ids
    ends: Ids
    """The array ``ids`` if starts and ends are rows of one graph."""
    ends_at: int
    """Row of end 0 of a start row below ``n_u``; it is ``n_u`` for the other starts."""
    kinds: Kinds
    """With one kind entries are ranks, else ``2 * rank + (1 for a negative edge)``."""


@dataclass(frozen=True, eq=False)
class WedgeIndex:
    """A bipartite graph by rank, with its wedge counts.

    Vertices of both layers share one numbering of rows: U by rank in ``[0, n_u)``, then V by rank in ``[n_u, n_u +
    n_v)``. All arrays are C-contiguous, on the host.
    """

    # Sizes of the layers
    n_u: int
    n_v: int
    # shape (n_u + n_v + 1,): row x is ``[offsets[x], offsets[x + 1])`` of the next three arrays
    offsets: NDArray[np.int64]
    # shape (2 * n_edges,): ranks of the neighbours within their layer, ascending in each row
    ids: NDArray[np.uint32]
    # shape (2 * n_edges,): number of counted wedges with the row's vertex as start and the neighbour as middle
    prefix: NDArray[np.uint32]
    edge_ids: EdgeIds  # shape (2 * n_edges,), or (0,): edge id of each entry; empty unless requested
    # shape (n_u + n_v,): number of neighbours that precede the row's vertex in the total order
    split: NDArray[np.int64]
    # shape (n_u,) and (n_v,): original id of each rank
    order_u: NDArray[np.int32]
    order_v: NDArray[np.int32]
    # shape (n_items,): rows that are work items, with enough neighbours and at least one counted wedge, by falling
    # cost, ties by place in the total order
    items: NDArray[np.int64]
    costs: NDArray[np.int64]  # shape (n_items,): number of counted wedges that start at each item
    kinds: Kinds = ONE_KIND

    @property
    def n_edges(self) -> int:
        return int(self.ids.size) // 2

    @property
    def rows(self) -> WedgeRows:
        return WedgeRows(self.n_u, self.offsets, self.ids, self.prefix, self.ids, 0, self.kinds)

    @property
    def n_rows(self) -> int:
        return self.n_u + self.n_v

    @property
    def n_counters(self) -> int:
        """Return the number of counters that a start can touch."""
        return len(self.kinds) * max(self.n_u, self.n_v)

    @property
    def most_vectors(self) -> int:
        """Return the number of count vectors, one per thread, that take at most twice the memory of the index."""
        return max(1, 2 * array_bytes(self) // (8 * self.n_rows + 1))

    @property
    def sides(self) -> tuple[tuple[range, range], ...]:
        """Return the rows of starts and the rows of their middles, for each layer of starts."""
        rows_u, rows_v = range(self.n_u), range(self.n_u, self.n_rows)
        return (rows_u, rows_v), (rows_v, rows_u)

    @property
    def n_supports(self) -> int:
        """Return the number of different edge ids."""
        return self.n_edges

    def edge_vector(self, supports: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return counts by edge id, shape (n_supports,), as the vector of a partial."""
        return supports

    def vertex_vectors(self, counts: NDArray[np.uint64]) -> dict[str, NDArray[np.uint64]]:
        """Return counts per row, shape (n_rows,), as the vectors of a partial."""
        vector_u, vector_v = np.empty(self.n_u, np.uint64), np.empty(self.n_v, np.uint64)
        vector_u[self.order_u] = counts[: self.n_u]
        vector_v[self.order_v] = counts[self.n_u :]
        return {"u": vector_u, "v": vector_v}

    @property
    def max_degree(self) -> int:
        """Return the largest degree of either layer; 0 without edges."""
        heads = (row for row, size in ((0, self.n_u), (self.n_u, self.n_v)) if size)
        return max((int(self.offsets[row + 1] - self.offsets[row]) for row in heads), default=0)


@compiled
def _sort_falling(keys: Ints, order: Ints, spare: Ints, starts: Ints, shift: int) -> None:
    """Sort ``order`` into ``spare`` by the digit of the keys from the bit ``shift`` on, descending; stable."""
    mask = starts.size - 2
    for digit in range(starts.size):
        starts[digit] = 0
    for i in range(keys.size):
        starts[mask - ((keys[i] >> shift) & mask) + 1] += 1
    for digit in range(mask + 1):
        starts[digit + 1] += starts[digit]
    for i in range(keys.size):
        digit = mask - ((keys[order[i]] >> shift) & mask)
        spare[starts[digit]] = order[i]
        starts[digit] += 1


def order_falling(keys: Ints) -> Ints:
    """Return the permutation (int64) that sorts non-negative int64 keys in descending order; stable, linear time."""
    order, spare = np.arange(keys.size), np.empty(keys.size, np.int64)
    starts = np.empty((1 << _DIGIT_BITS) + 1, np.int64)
    for shift in range(0, int(keys.max(initial=0)).bit_length(), _DIGIT_BITS):
        _sort_falling(keys, order, spare, starts, shift)
        order, spare = spare, order
    return order


def _count_ahead(falling_u: Ints, falling_v: Ints) -> Ints:
    """Return the number of rows of the other layer that precede each row, from the degrees by rank."""
    of_u = np.searchsorted(-falling_v, -falling_u, side="left")
    of_v = np.searchsorted(-falling_u, -falling_v, side="right")
    return np.concatenate((of_u, of_v))


@compiled
def _fill_rows_v(
    v: NDArray[np.int32],
    starts: Ints,
    order_u: NDArray[np.int32],
    cursor: Ints,
    ids: Ids,
    edge_ids: EdgeIds,
) -> None:
    """Write the rows of V: each gets the ranks of its U neighbours, ascending (edges are sorted by u).

    ``starts`` has the first edge of each u, ``cursor`` the start of the row of each v, and is overwritten.
    """
    with_edges = edge_ids.size > 0
    for r in range(order_u.size):
        u = order_u[r]
        for edge in range(starts[u], starts[u + 1]):
            at = cursor[v[edge]]
            cursor[v[edge]] = at + 1
            ids[at] = r
            if with_edges:
                edge_ids[at] = edge


@compiled
def _fill_rows_u(
    n_u: int,
    n_v: int,
    offsets: Ints,
    ahead: Ints,
    ids: Ids,
    edge_ids: EdgeIds,
    prefix: Ids,
    split: Ints,
    rows_u: Ints,
) -> None:
    """Transpose the rows of V into the rows of U. The places in both rows yield all prefix lengths.

    The entry of u in the row of v has place ``i`` there and is written to place ``j`` of the row of u. Start u with
    middle v scans ``min(i, split[v])`` entries, start v with middle u ``min(j, split[u])``. When an entry is met, both
    splits are final as far as the minimum is concerned, because both rows are walked in ascending rank. ``rows_u``
    keeps the data of a row of U together, as the walk meets these rows in no order: its begin, the place of its next
    entry, the rows ahead of it, and its split.
    """
    with_edges = edge_ids.size > 0
    for s in range(n_v):
        row_v = n_u + s
        begin = offsets[row_v]
        split_v = np.int64(0)
        for at in range(begin, offsets[row_v + 1]):
            r = np.int64(ids[at])
            to = rows_u[r, 1]
            rows_u[r, 1] = to + 1
            place_v, place_u = at - begin, to - rows_u[r, 0]
            if r < ahead[row_v]:
                split_v = place_v + 1
            if s < rows_u[r, 2]:
                rows_u[r, 3] = place_u + 1
            ids[to] = s
            prefix[to] = min(place_v, split_v)
            prefix[at] = min(place_u, rows_u[r, 3])
            if with_edges:
                edge_ids[to] = edge_ids[at]
        split[row_v] = split_v


@compiled
def _sum_rows(offsets: Ints, prefix: Ids, costs: Ints) -> None:
    for row in range(costs.size):
        total = np.int64(0)
        for at in range(offsets[row], offsets[row + 1]):
            total += np.int64(prefix[at])
        costs[row] = total


def _select_items(n_u: int, offsets: Ints, ahead: Ints, costs: Ints, min_degree: int) -> Ints:
    """Return the rows that are work items, in the total order."""
    n_rows = costs.size
    own = np.arange(n_rows)
    own[n_u:] -= n_u
    row_at = np.empty(n_rows, np.int64)
    row_at[own + ahead] = np.arange(n_rows)
    is_item = (costs > 0) & (np.diff(offsets) >= min_degree)
    return row_at[is_item[row_at]]


def index_wedges(
    graph: BipartiteGraph,
    *,
    with_edge_ids: bool = False,
    first_layer: Layer | None = None,
    min_degree: int = 2,
) -> WedgeIndex:
    """Rank both layers, build the rows and count the wedges of every start; signs are ignored.

    Takes O(n_u + n_v + n_edges). With a ``first_layer`` all its vertices come first in the total order. Both ends of
    every counted wedge are then in this layer, and the wedges of a pair of ends are all its common neighbours. Vertices
    with fewer than ``min_degree`` neighbours are not items.
    """
    n_u, n_v, n_edges = graph.n_u, graph.n_v, graph.n_edges
    degree_u, degree_v = count_ids(graph.u, n_u), count_ids(graph.v, n_v)
    order_u = order_falling(degree_u).astype(np.int32)
    order_v = order_falling(degree_v).astype(np.int32)
    falling = degree_u[order_u], degree_v[order_v]
    offsets, ahead = offsets_of(np.concatenate(falling)), _count_ahead(*falling)
    if first_layer is not None:
        ahead[:n_u], ahead[n_u:] = (0, n_u) if first_layer == "u" else (n_v, 0)
    ids = np.empty(2 * n_edges, np.uint32)
    prefix = np.empty(2 * n_edges, np.uint32)
    edge_type = np.uint32 if n_edges < 2**32 else np.int64
    edge_ids = np.empty(2 * n_edges if with_edge_ids else 0, edge_type)
    cursor = np.empty(n_v, np.int64)
    cursor[order_v] = offsets[n_u:-1]
    _fill_rows_v(graph.v, offsets_of(degree_u), order_u, cursor, ids, edge_ids)
    rows_u = np.zeros((n_u, 4), np.int64)
    rows_u[:, 0] = rows_u[:, 1] = offsets[:n_u]
    rows_u[:, 2] = ahead[:n_u]
    split, costs = np.zeros(n_u + n_v, np.int64), np.empty(n_u + n_v, np.int64)
    _fill_rows_u(n_u, n_v, offsets, ahead, ids, edge_ids, prefix, split, rows_u)
    split[:n_u] = rows_u[:, 3]
    _sum_rows(offsets, prefix, costs)
    rows = _select_items(n_u, offsets, ahead, costs, min_degree)
    row_costs = costs[rows]
    by_cost = order_falling(row_costs)
    items, item_costs = rows[by_cost], row_costs[by_cost]
    return WedgeIndex(n_u, n_v, offsets, ids, prefix, edge_ids, split, order_u, order_v, items, item_costs)
