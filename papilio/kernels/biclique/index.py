"""Define the form of a graph for counting (p,q)-bicliques on both engines: core, order, pairs, work items.

One layer is *anchored* and called left; the other is right. The search for a biclique takes its left vertices one after
the other, in a fixed order. A work item is a *root*, the first left vertex, and a range of its *children*, the second:
later left vertices that share enough right ones with it. Every biclique with two left vertices or more belongs to the
item of its first two. Stars (p = 1 or q = 1) have closed forms and belong to the first item.

If only two left vertices are wanted, finding the pairs is all the work, and nothing remains to search. The pass over
the wedges then counts pairs without keeping them: for totals of (2, q), (p, 2) and tables with such a bound, the index
holds no pairs, and the counts are among its closed forms. On yelp2018 with two threads, (2, 3) takes 0.24 s, as long as
the butterflies; with 9.4 million pairs kept, laid out and counted it took 0.9 s and 230 MB.

Left vertices are sorted by increasing number of pairs (the number of 2-hop neighbours that share enough), so that the
many pairs of a hub are in the rows of the others, and the remaining rows stay short.

For a part of a graph (:class:`~papilio.parts.RootPart`) the roots come first, by the same rule, then the other left
vertices. Only pairs with a root are found, and only roots are searched: a biclique with a root has a root as its first
vertex. A work item is then a root with all of its children, in the order in which the part lists the roots. Otherwise a
whole graph is like a part with every left vertex as a root.

Maximal bicliques use the same index, without closed forms.

The anchored layer is left; its vertices are *rows* of the search, taken one after the other. Vertices of the other
layer are *columns*. A maximal biclique of at least two rows and two columns belongs to the item of its first two rows,
except that rows with all columns of the first row come last. Maximal bicliques of one row or one column are stars,
which are found without a search (:mod:`papilio.kernels.maximal.stars`).

For a part (:class:`~papilio.parts.MaximalPart`) each root is an item. The excluded vertices near it come before its
later ones: they are rows that are never taken.

The core is computed for the minimum sizes, 2 or more. A vertex that extends a biclique of these sizes is in the core
too, so that a biclique that is maximal in the core is maximal in the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.build import build_bicliques, build_maximal
from papilio.kernels.biclique.core import (
    Core,
    Ids32,
    Pairs,
    Rows,
    count_pairs,
    count_partners,
    find_pairs,
    lay_pairs,
    order_rows,
    places_after,
    reduce_to_core,
    transpose_rows,
)
from papilio.kernels.biclique.forms import RootStars, find_root_stars
from papilio.kernels.biclique.items import BicliqueItems, PieceArrays, split_pairs
from papilio.kernels.biclique.local import LeftGraph
from papilio.kernels.exact import mix
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.memory import available_bytes
from papilio.kernels.offsets import offsets_of
from papilio.motifs import Biclique, MaximalBiclique
from papilio.parts import Layer, MaximalPart


@dataclass(frozen=True, eq=False, kw_only=True)
class BicliqueIndex(BicliqueItems):
    """A graph ready for both algorithms. All arrays are C-contiguous, on the host."""

    indptr: NDArray[np.int64]  # shape (n_left + 1,): row x of ``columns`` is ``[indptr[x], indptr[x + 1])``
    columns: NDArray[np.int32]  # shape (n_edges of the core,): right ids of each left vertex, ascending
    # shape (n_left,) and (n_right,): original ids within their layers
    left_ids: NDArray[np.int32]
    right_ids: NDArray[np.int32]
    # shape (n_left + 1,): row x of the next two is ``[hop_indptr[x], hop_indptr[x + 1])``
    hop_indptr: NDArray[np.int64]
    # shape (n_pairs,): the later left vertices that share at least ``sizes.min_right`` right ones, ascending; and the
    # number of right vertices shared
    hop: NDArray[np.int32]
    hop_common: NDArray[np.int32]
    # for a part with excluded vertices: the pairs of each root with them, which are not in ``hop``
    excluded: Pairs | None = None

    @property
    def host_ids(self) -> NDArray[np.int32]:
        return self.left_ids

    def with_ids(self, left_ids: NDArray[np.int32], right_ids: NDArray[np.int32]) -> Self:
        return replace(self, left_ids=left_ids[self.left_ids], right_ids=right_ids[self.right_ids])


@compiled
def _child_costs(pairs: Pairs, deep: bool, rows: Ints, costs: Ints) -> None:
    """Estimate the work below each child: set operations among the later children, and the rows of a left set.

    ``rows`` is by the number of shared columns; empty if nothing is listed.
    """
    for root in range(pairs.indptr.size - 1):
        end = pairs.indptr[root + 1]
        for at in range(pairs.indptr[root], end):
            words = (pairs.common[at] + 63) // 64
            costs[at] = words * (end - at) + pairs.common[at] if deep else 1
            if rows.size:
                costs[at] += rows[pairs.common[at]]


@compiled
def _cut_items(indptr: Ints, child_costs: Ints, most: int, roots: Ids32, firsts: Ints, lasts: Ints, costs: Ints) -> int:
    """Return the number of items, and write them if there is room for any."""
    n_items = 0
    for root in range(indptr.size - 1):
        first, cost = indptr[root], 0
        for at in range(indptr[root], indptr[root + 1]):
            cost += child_costs[at]
            if at + 1 == indptr[root + 1] or cost + child_costs[at + 1] > most:
                if roots.size:
                    roots[n_items], costs[n_items] = root, cost
                    firsts[n_items], lasts[n_items] = first, at + 1
                n_items += 1
                first, cost = at + 1, 0
    return n_items


def cut_items(indptr: Ints, child_costs: Ints, most: int) -> PieceArrays:
    """Cut the children of every root into items of at most cost ``most`` or of one child; no child, no item."""

    def make_items(n: int) -> tuple[Ids32, Ints, Ints, Ints]:
        return np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)

    items = make_items(_cut_items(indptr, child_costs, most, *make_items(0)))
    _cut_items(indptr, child_costs, most, *items)
    return PieceArrays(*items)


MOST_ROWS = 1 << 31
"""Limit of the rows below one child or entry in its cost: sums of costs stay below 2^63."""


def bound_choices(most: int, size: int) -> Ints:
    """Return C(n, size) for n up to ``most``, capped at ``MOST_ROWS``; shape (most + 1,)."""
    ways = np.zeros(most + 1, np.int64)
    exact = 1
    for n in range(size, most + 1):
        if exact > MOST_ROWS:
            ways[n:] = MOST_ROWS
            break
        ways[n] = exact
        exact = exact * (n + 1) // (n + 1 - size)
    return ways


def make_pieces(indptr: Ints, child_costs: Ints, most: int) -> PieceArrays:
    """Cut the children of all roots into pieces, as :func:`cut_items`, heaviest first."""
    pieces = cut_items(indptr, child_costs, most)
    order = _sort_rising(-pieces.costs)
    return PieceArrays(*(each[order] for each in pieces))


def order_left(rows: Rows, pairs: Pairs) -> NDArray[np.int64]:
    """Return the left vertices in search order: by increasing number of pairs, ties in the given order."""
    return _sort_rising(count_partners(pairs))


class HostRows:
    """A graph on the host as a :class:`~papilio.kernels.biclique.build.RowStore`; Numba's work.

    With ``lists``, costs are for a listing and include the rows.
    """

    def __init__(self, graph: BipartiteGraph, threads: int, lists: bool = False) -> None:
        nothing = np.empty(0, np.int32)
        self.layers, self._threads, self._lists = graph, threads, lists
        self._core = Core(Rows(np.zeros(1, np.int64), nothing), nothing, nothing)
        self._items: Ids32 | None = None  # of the left vertices
        self._n_roots = 0
        self._pairs = Pairs(np.zeros(1, np.int64), nothing, nothing)
        self._apart: Pairs | None = None
        self._least = 0
        self._costs = np.empty(0, np.int64)

    @property
    def n_pairs(self) -> int:
        return self._pairs.others.size

    def find_stars(self, layer: Layer, roots: Ids32) -> RootStars:
        return find_root_stars(self.layers, layer, roots)

    def reduce(self, anchor: Layer, min_left: int, min_right: int) -> bool:
        self._core = reduce_to_core(self.layers, anchor, min_left, min_right)
        return self._core.left_ids.size > 0

    def rank(self, items: Ids32 | None) -> None:
        rows, left_ids, _ = self._core
        self._items = None if items is None else items[left_ids]
        self._n_roots = left_ids.size if self._items is None else int(np.count_nonzero(self._items >= 0))
        self._order(_sort_rising(np.diff(rows.indptr)))
        self._pairs = Pairs(np.zeros(left_ids.size + 1, np.int64), left_ids[:0], left_ids[:0])

    def _order(self, order: Ints) -> Ints:
        """Put the left vertices in this order, roots first; return the order."""
        if self._items is not None:
            order = order[np.argsort(self._items[order] < 0, kind="stable")]
            self._items = self._items[order]
        self._core = self._core._replace(rows=order_rows(self._core.rows, order), left_ids=self._core.left_ids[order])
        return order

    def count_pairs(self, least: int) -> dict[int, int]:
        return count_pairs(self._core.rows, self._core.right_ids.size, self._threads, self._n_roots)

    def find_pairs(self, least: int) -> None:
        rows, n_right, self._least = self._core.rows, self._core.right_ids.size, least
        found = find_pairs(rows, n_right, least, self._threads, available_bytes(), self._n_roots)
        self._pairs = lay_pairs(found, self._order(order_left(rows, found)))

    def arrange(self, excluded: Ids32 | None) -> None:
        if excluded is not None:
            kept, apart = split_pairs(*self._pairs, np.isin(self._core.left_ids, excluded))
            self._pairs, self._apart = Pairs(*kept), Pairs(*apart)

    def weigh(self, deep: bool) -> None:
        self._costs, of_rows = np.empty(self.n_pairs, np.int64), np.zeros(0, np.int64)
        if self._lists:
            of_rows = bound_choices(int(self._pairs.common.max()), self._least)
        _child_costs(self._pairs, deep, of_rows, self._costs)

    def sum_costs(self) -> int:
        return int(self._costs.sum())

    def cut(self, most: int) -> tuple[PieceArrays, Ids32 | None]:
        pieces, items = make_pieces(self._pairs.indptr, self._costs, most), self._items
        if items is None:
            return pieces, None
        order = _sort_rising(items[pieces.item_root])
        pieces = PieceArrays(*(each[order] for each in pieces))
        return pieces, items[pieces.item_root]

    def cost_rows(self) -> tuple[Ints, Ints, Ids32]:
        assert self._items is not None
        return self._pairs.indptr, offsets_of(self._costs)[self._pairs.indptr], self._items

    def make_index(self, pieces: PieceArrays, **fields: Any) -> BicliqueIndex:
        (rows, left_ids, right_ids), pairs, roots = self._core, self._pairs, pieces.item_root
        later = np.where(roots >= 0, pairs.indptr[roots + 1] - pieces.item_first, 0)
        return BicliqueIndex(
            n_left=left_ids.size,
            n_right=right_ids.size,
            indptr=rows.indptr,
            columns=rows.ids,
            left_ids=left_ids,
            right_ids=right_ids,
            hop_indptr=pairs.indptr,
            hop=pairs.others,
            hop_common=pairs.common,
            excluded=self._apart,
            item_later=later,
            **pieces._asdict(),
            **fields,
        )


def build_biclique_index(
    graph: BipartiteGraph,
    motif: Biclique,
    threads: int,
    anchor: str = "auto",
    keep_pairs: bool = True,
    roots: NDArray[np.int32] | None = None,
    lists: bool = False,
) -> BicliqueIndex:
    """Return the index as :func:`~papilio.kernels.biclique.build.build_bicliques`; see :class:`HostRows`."""
    return build_bicliques(HostRows(graph, threads, lists), motif, anchor, keep_pairs, roots)


def build_maximal_index(
    graph: BipartiteGraph,
    motif: MaximalBiclique,
    threads: int,
    anchor: str = "auto",
    has_stars: bool = False,
    part: MaximalPart | None = None,
) -> BicliqueIndex:
    """Return the index as :func:`~papilio.kernels.biclique.build.build_maximal`."""
    return build_maximal(HostRows(graph, threads), motif, anchor, has_stars, part)


def lay_graph(index: BicliqueIndex) -> LeftGraph:
    """Return the arrays of the index that a search reads, with the rows of the right layer."""
    lefts = Rows(index.indptr, index.columns)
    rights = transpose_rows(lefts, index.n_right)
    after, _ = places_after(lefts, rights)
    return LeftGraph(lefts, rights, after, index.hop_indptr, index.hop, index.hop_common)


def _sort_rising(keys: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.argsort(keys, kind="stable")


def hash_sides(index: BicliqueIndex) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the hashes of the rows and of the columns, by their ids in the index."""
    lefts, rights = (ids.astype(np.uint64) for ids in (index.left_ids, index.right_ids))
    of_v = np.uint64(1 << 32)
    return (mix(lefts), mix(rights | of_v)) if index.anchor == "u" else (mix(lefts | of_v), mix(rights))
