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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
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
from papilio.kernels.biclique.forms import (
    Cells,
    closed_cells,
    find_root_stars,
    needs_stars,
)
from papilio.kernels.biclique.items import (
    ITEMS_PER_JOB,
    LEAST_ITEM_COST,
    BicliqueItems,
    SizeRange,
    add_pairs,
    deal_pieces,
    divide_pieces,
    make_root_items,
    make_star_item,
    number_roots,
    place_roots,
    split_pairs,
)
from papilio.kernels.biclique.local import LeftGraph
from papilio.kernels.biclique.question import (
    anchor_part,
    choose_anchor,
    choose_maximal_anchor,
    choose_maximal_sizes,
    choose_sizes,
)
from papilio.kernels.biclique.signed_cover import choose_half, halve_cells
from papilio.kernels.exact import mix
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.memory import available_bytes
from papilio.motifs import Biclique, MaximalBiclique
from papilio.parts import MaximalPart


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


def cut_items(indptr: Ints, child_costs: Ints, most: int) -> tuple[Ids32, Ints, Ints, Ints]:
    """Cut the children of every root into items of at most cost ``most`` or of one child; no child, no item.

    Returns root, first and last child, and cost of each.
    """

    def make_items(n: int) -> tuple[Ids32, Ints, Ints, Ints]:
        return np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)

    items = make_items(_cut_items(indptr, child_costs, most, *make_items(0)))
    _cut_items(indptr, child_costs, most, *items)
    return items


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


def make_pieces(indptr: Ints, child_costs: Ints) -> tuple[Ids32, Ints, Ints, Ints]:
    """Cut the children of all roots into pieces. Return root, first and last child, and cost, heaviest first."""
    most = max(LEAST_ITEM_COST, int(child_costs.sum()) // ITEMS_PER_JOB)
    roots, firsts, lasts, costs = cut_items(indptr, child_costs, most)
    order = _sort_rising(-costs)
    return roots[order], firsts[order], lasts[order], costs[order]


def order_left(rows: Rows, pairs: Pairs) -> NDArray[np.int64]:
    """Return the left vertices in search order: by increasing number of pairs, ties in the given order."""
    return _sort_rising(count_partners(pairs))


def build_biclique_index(
    graph: BipartiteGraph,
    motif: Biclique,
    threads: int,
    anchor: str = "auto",
    keep_pairs: bool = True,
    roots: NDArray[np.int32] | None = None,
    lists: bool = False,
) -> BicliqueIndex:
    """Choose the anchor, count the stars, and build the index; see :func:`build_index`."""
    swapped = choose_anchor(graph, motif, anchor)
    sizes = choose_sizes(graph, motif, swapped)
    stars = None
    if roots is not None and needs_stars(motif):
        stars = find_root_stars(graph, "v" if swapped else "u", roots)
    closed = closed_cells(graph, motif, stars)
    return build_index(graph, swapped, sizes, threads, closed, keep_pairs, roots, lists=lists)


def build_index(
    graph: BipartiteGraph,
    swapped: bool,
    sizes: SizeRange,
    threads: int,
    closed: Cells | None = None,
    keep_pairs: bool = True,
    roots: NDArray[np.int32] | None = None,
    excluded: NDArray[np.int32] | None = None,
    lists: bool = False,
) -> BicliqueIndex:
    """Reduce, order, pair and cut; O(edges + wedges of the core whose middles are right).

    ``swapped`` is true if V is anchored; ``sizes`` are the sizes to search; ``closed`` are counts that need no search.
    ``keep_pairs`` keeps the pairs even if nothing is searched below them; otherwise they are counted as closed forms.
    With ``roots``, of the anchored layer, the graph is the graph of a part. ``excluded`` are vertices of that layer
    that are no children: pairs with them are kept apart, and each root is one item. With ``lists``, costs are for a
    listing and include the rows.
    """
    closed, nothing = closed or {}, np.empty(0, np.int32)
    if sizes.is_empty:
        core = Core(Rows(np.zeros(1, np.int64), nothing), nothing, nothing)
    else:
        core = reduce_to_core(graph, swapped, sizes.min_left, sizes.min_right)
    items = None if roots is None else number_roots(roots, graph.n_v if swapped else graph.n_u)[core.left_ids]
    n_roots = core.left_ids.size if items is None else int(np.count_nonzero(items >= 0))
    by_degree = _roots_first(_sort_rising(np.diff(core.rows.indptr)), items)
    rows = order_rows(core.rows, by_degree)
    n_right = core.right_ids.size
    if sizes.max_left == 2 and not keep_pairs:
        closed = add_pairs(closed, count_pairs(rows, n_right, threads, n_roots), sizes, swapped)
        found = Pairs(np.zeros(rows.indptr.size, np.int64), nothing, nothing)
    else:
        found = find_pairs(rows, n_right, sizes.min_right, threads, available_bytes(), n_roots)
    order = order_left(rows, found)
    if items is not None:
        order = _roots_first(order, items[by_degree])
        items = items[by_degree[order]]
    pairs = lay_pairs(found, order)
    rows, left_ids = order_rows(rows, order), core.left_ids[by_degree[order]]
    apart = None
    if excluded is not None:
        pairs, apart = (Pairs(*each) for each in split_pairs(*pairs, np.isin(left_ids, excluded)))
    pieces, item_ptr = _cut_pieces(pairs, sizes, items, roots, excluded is None, lists)
    if closed and roots is None and not pieces[0].size:
        pieces = make_star_item()
    return BicliqueIndex(
        swapped=swapped,
        sizes=sizes,
        n_left=core.left_ids.size,
        n_right=n_right,
        indptr=rows.indptr,
        columns=rows.ids,
        left_ids=left_ids,
        right_ids=core.right_ids,
        hop_indptr=pairs.indptr,
        hop=pairs.others,
        hop_common=pairs.common,
        excluded=apart,
        item_root=pieces[0],
        item_first=pieces[1],
        item_last=pieces[2],
        item_later=np.where(pieces[0] >= 0, pairs.indptr[pieces[0] + 1] - pieces[1], 0),
        costs=pieces[3],
        closed_cells=closed,
        item_ptr=item_ptr,
    )


def lay_graph(index: BicliqueIndex) -> LeftGraph:
    """Return the arrays of the index that a search reads, with the rows of the right layer."""
    lefts = Rows(index.indptr, index.columns)
    rights = transpose_rows(lefts, index.n_right)
    after, _ = places_after(lefts, rights)
    return LeftGraph(lefts, rights, after, index.hop_indptr, index.hop, index.hop_common)


def halve_index(index: BicliqueIndex) -> BicliqueIndex:
    """Return the index of a whole cover with the items and closed forms of one of every two mirror images."""
    half = choose_half(index.item_root, index.left_ids)
    return replace(
        index,
        item_root=index.item_root[half],
        item_first=index.item_first[half],
        item_last=index.item_last[half],
        item_later=index.item_later[half],
        costs=index.costs[half],
        closed_cells=halve_cells(index.closed_cells),
    )


def divide_index(index: BicliqueIndex, wanted: int) -> BicliqueIndex:
    """Return the index with more items; see :func:`~papilio.kernels.biclique.items.divide_pieces`."""
    divided = divide_pieces(index, wanted)
    return index if divided is None else replace(index, **divided[0])


def deal_index(index: BicliqueIndex, hands: int) -> BicliqueIndex:
    """Return the index of a whole graph with its items dealt in hands."""
    return index if hands == 1 else replace(index, **deal_pieces(index, hands)[0])


def _cut_pieces(
    pairs: Pairs, sizes: SizeRange, items: Ids32 | None, roots: Ids32 | None, finer: bool, lists: bool
) -> tuple[tuple[Ids32, Ints, Ints, Ints], Ints | None]:
    """Return root, first and last child, and cost of each piece, in order, and ``item_ptr``. See BicliqueItems.

    ``items`` is the item of each left vertex of a part, -1 for vertices that are not roots; None for a whole graph. If
    ``finer``, an item of a part may have several pieces.
    """
    child_costs, n_items = np.empty(pairs.others.size, np.int64), 0 if roots is None else roots.size
    of_rows = np.zeros(0, np.int64)
    if lists:
        of_rows = bound_choices(int(pairs.common.max(initial=0)), sizes.min_right)
    _child_costs(pairs, sizes.max_left > 2, of_rows, child_costs)
    if items is not None and not finer:
        before = np.append(0, np.cumsum(child_costs))[pairs.indptr]
        return make_root_items(pairs.indptr, before, items, n_items), None
    pieces = make_pieces(pairs.indptr, child_costs)
    if items is None:
        return pieces, None
    order = _sort_rising(items[pieces[0]])
    roots, firsts, lasts, costs = pieces
    ordered = roots[order], firsts[order], lasts[order], costs[order]
    return ordered, place_roots(items[ordered[0]], n_items)


def _roots_first(order: NDArray[np.int64], items: Ids32 | None) -> NDArray[np.int64]:
    """Return the order with the vertices that have an item first; unchanged if ``items`` is None."""
    return order if items is None else order[np.argsort(items[order] < 0, kind="stable")]


def _sort_rising(keys: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.argsort(keys, kind="stable")


def build_maximal_index(
    graph: BipartiteGraph,
    motif: MaximalBiclique,
    threads: int,
    anchor: str = "auto",
    has_stars: bool = False,
    part: MaximalPart | None = None,
) -> BicliqueIndex:
    """Build the index. If there are stars, it has an item even if nothing is searched.

    With ``part``, whose layer is anchored, the graph is the graph of the part, and vertices have their ids in the whole
    graph.
    """
    swapped = choose_maximal_anchor(graph, anchor if part is None else anchor_part(part, anchor))
    sizes = choose_maximal_sizes(graph, motif, swapped)
    if part is not None:
        index = build_index(graph, swapped, sizes, threads, roots=part.roots, excluded=part.excluded)
        of_left, of_right = (part.ids_v, part.ids_u) if swapped else (part.ids_u, part.ids_v)
        return replace(index, left_ids=of_left[index.left_ids], right_ids=of_right[index.right_ids])
    index = build_index(graph, swapped, sizes, threads)
    if index.n_items or not has_stars:
        return index
    root, first, last, costs = make_star_item()
    return replace(index, item_root=root, item_first=first, item_last=last, item_later=first, costs=costs)


def hash_sides(index: BicliqueIndex) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the hashes of the rows and of the columns, by their ids in the index."""
    lefts, rights = (ids.astype(np.uint64) for ids in (index.left_ids, index.right_ids))
    of_v = np.uint64(1 << 32)
    return (mix(lefts | of_v), mix(rights)) if index.swapped else (mix(lefts), mix(rights | of_v))
