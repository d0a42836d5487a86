"""Listing (p,q)-bicliques on the CPU: what to search for, the work items, and threads that hand out blocks of rows.

The part of a graph in which bicliques that must hold given vertices lie.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import listing as rows
from papilio.kernels.biclique.core import Ids32, Rows, reduce_to_core
from papilio.kernels.biclique.index import build_biclique_index, cut_items, lay_graph
from papilio.kernels.biclique.items import ITEMS_PER_JOB, LEAST_ITEM_COST
from papilio.kernels.biclique.list_loops import (
    Block,
    Cursor,
    Positions,
    list_items,
    list_stars,
    make_block,
    make_cursor,
    start_items,
)
from papilio.kernels.biclique.local import Around, LeftGraph, make_around
from papilio.kernels.biclique.question import explain_choices
from papilio.kernels.biclique.search import Items, measure_rooms
from papilio.kernels.engine import Choice, require_request
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.listing import CpuLister, Outlet
from papilio.kernels.tree.subset import Levels, make_levels
from papilio.motifs import Biclique, Granularity, Listing, Motif


class Restricted(NamedTuple):
    """What is left to search for once the vertices that every biclique must hold are set aside."""

    # The edges between the vertices that can go with all of them; the layers keep their sizes
    graph: BipartiteGraph
    # Sizes of the bicliques searched for there, at least 1
    p: int
    q: int
    # Ids that are added to each of them
    held_u: Ids32
    held_v: Ids32


def _common(graph: BipartiteGraph, ids: Ids32, of_u: bool) -> NDArray[np.bool_]:
    """Return which vertices of the other layer are neighbours of all of ``ids``; O(n_edges)."""
    own, others, n = (graph.u, graph.v, graph.n_v) if of_u else (graph.v, graph.u, graph.n_u)
    if not ids.size:
        return np.ones(n, np.bool_)
    met: NDArray[np.bool_] = np.bincount(others[np.isin(own, ids)], minlength=n) == ids.size
    return met


def restrict_graph(graph: BipartiteGraph, p: int, q: int, with_u: Ids32, with_v: Ids32) -> Restricted:
    """Restrict the graph to what can go with the vertices of ``with_u`` and ``with_v``.

    These are left out themselves, except for one where they fill their side, so that both sizes stay at least 1.
    """
    if not with_u.size and not with_v.size:
        return Restricted(graph, p, q, with_u, with_v)
    kept_u, kept_v = _common(graph, with_v, of_u=False), _common(graph, with_u, of_u=True)
    complete = kept_u[with_u].all() and kept_v[with_v].all()
    sides = []
    for kept, ids, size in ((kept_u, with_u, p), (kept_v, with_v, q)):
        kept[ids] = False
        if ids.size == size:
            kept[:] = False
            kept[ids[:1]] = True
            ids = ids[1:]
        sides.append((size - ids.size, ids))
    edges = kept_u[graph.u] & kept_v[graph.v] & complete
    restricted = BipartiteGraph(graph.n_u, graph.n_v, graph.u[edges], graph.v[edges])
    return Restricted(restricted, sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def restrict_to_common(graph: BipartiteGraph, with_u: Ids32, with_v: Ids32) -> BipartiteGraph:
    """Return the edges between what can go with all of ``with_u`` and ``with_v``, these vertices included.

    Every maximal biclique of the graph returned holds them all, and is one of the whole graph: what would extend it
    there goes with all of them, too. There is no edge where they cannot go together.
    """
    if not with_u.size and not with_v.size:
        return graph
    kept_u, kept_v = _common(graph, with_v, of_u=False), _common(graph, with_u, of_u=True)
    complete = bool(kept_u[with_u].all() and kept_v[with_v].all())
    edges = kept_u[graph.u] & kept_v[graph.v] & complete
    return BipartiteGraph(graph.n_u, graph.n_v, graph.u[edges], graph.v[edges])


MOST_ROWS = 1 << 31
"""Rows below one child or entry that its cost tells: sums of costs stay below 2^63."""


@dataclass(frozen=True, eq=False)
class PreparedListing:
    """A graph ready for :meth:`BicliqueLister.run`."""

    graph: LeftGraph | Rows  # As the search needs it; rows alone where the left side is a single vertex
    items: Items
    costs: NDArray[np.int64]  # shape (n_items,): estimated set operations and rows of each item, falling
    sizes: tuple[int, int]  # Left and right vertices that are searched for
    swapped: bool  # Left is V
    positions: Positions
    held_right: Ids32  # Positions that are added to each right side
    # Ids of all vertices that can be in a row, rising: a position is a place in these
    ids_u: NDArray[np.int32]
    ids_v: NDArray[np.int32]
    n_words: int  # Room for the levels of the search
    decisions: tuple[Choice, ...] = ()  # What was decided, and why

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return int(self.costs.size)

    @property
    def work(self) -> NDArray[np.int64]:
        """Estimated set operations and rows of each item, falling."""
        return self.costs

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        arrays: list[NDArray[Any]] = [*self.items, self.costs, *self.positions, self.ids_u, self.ids_v]
        if isinstance(self.graph, Rows):
            arrays += self.graph
        else:
            graph = self.graph
            arrays += [*graph.lefts, *graph.rights, graph.after]
            arrays += [graph.hop_indptr, graph.hop, graph.hop_common]
        return sum(array.nbytes for array in arrays)


def _choose(most: int, size: int) -> NDArray[np.int64]:
    """Return C(n, size) for n up to ``most``, at most ``MOST_ROWS``; shape (most + 1,)."""
    ways = np.zeros(most + 1, np.int64)
    exact = 1
    for n in range(size, most + 1):
        if exact > MOST_ROWS:
            ways[n:] = MOST_ROWS
            break
        ways[n] = exact
        exact = exact * (n + 1) // (n + 1 - size)
    return ways


@compiled
def _child_costs(indptr: Ints, common: Ids32, ways: Ints, deep: bool, costs: Ints) -> None:
    """Estimate what is below each child: the search among the later children, and the rows of one left set."""
    for root in range(indptr.size - 1):
        end = indptr[root + 1]
        for at in range(indptr[root], end):
            words = (common[at] + 63) // 64
            costs[at] = ways[common[at]] + (words * (end - at) + common[at] if deep else 1)


def _entry_costs(indptr: Ints, ways: Ints) -> Ints:
    """Return the stars of each entry of the rows, as the first right vertex; and one for looking at it."""
    behind: Ints = np.repeat(indptr[1:], np.diff(indptr)) - np.arange(1, indptr[-1] + 1)
    return 1 + ways[behind]


def _make_items(indptr: Ints, child_costs: Ints) -> tuple[Items, NDArray[np.int64]]:
    """Cut the children of all roots into items; return them with their costs, heaviest first."""
    most = max(LEAST_ITEM_COST, int(child_costs.sum()) // ITEMS_PER_JOB)
    roots, firsts, lasts, costs = cut_items(indptr, child_costs, most)
    order = np.argsort(-costs, kind="stable")
    return Items(roots[order], firsts[order], lasts[order]), costs[order]


class _Worker(NamedTuple):
    """What one thread has of its own; ``around`` and ``levels`` are None for stars."""

    around: Around | None
    levels: Levels | None
    cursor: Cursor
    block: Block


class BicliqueLister(CpuLister):
    """Lists the bicliques of one size; holds no graph, safe to share between threads.

    Parameters
    ----------
    threads : int, optional
        Threads of one run; by default the processors that this process may use.
    with_u, with_v : collection of int
        Ids of vertices that each biclique must hold.
    limit : int, optional
        Most rows of one run.
    """

    def __init__(
        self,
        threads: int | None = None,
        anchor: str = "auto",
        with_u: Collection[int] = (),
        with_v: Collection[int] = (),
        limit: int | None = None,
    ) -> None:
        super().__init__(threads, Listing(limit, tuple(sorted(with_u)), tuple(sorted(with_v))))
        self.anchor = anchor

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> PreparedListing:
        """Set aside what must be held, reduce to the core, order and cut; see :class:`PreparedListing`.

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity.
        CapacityError
            When the pairs of left vertices do not fit the memory.
        """
        require_request("listing", Biclique, graph, motif, per)
        assert isinstance(motif, Biclique)
        assert motif.p is not None
        assert motif.q is not None
        with_u, with_v = (np.array(ids, np.int32) for ids in (self.listing.with_u, self.listing.with_v))
        search = restrict_graph(graph, motif.p, motif.q, with_u, with_v)
        if 1 in (search.p, search.q):
            prepared, layer = _prepare_stars(search), "U" if search.p == 1 else "V"
            chosen: Choice = f"layer {layer} anchored", "one of its vertices is all that is searched for"
        else:
            prepared, chosen = self._prepare_pairs(search)
        decisions = (*self._explain_restriction(search), chosen)
        return replace(prepared, decisions=decisions)

    def _explain_restriction(self, search: Restricted) -> tuple[Choice, ...]:
        if not self.listing.with_u and not self.listing.with_v:
            return ()
        what = f"search for ({search.p}, {search.q}) among {search.graph.n_edges} edges"
        return ((what, "only these go with what every biclique must hold"),)

    def _prepare_pairs(self, search: Restricted) -> tuple[PreparedListing, Choice]:
        motif = Biclique(search.p, search.q)
        index = build_biclique_index(search.graph, motif, self.threads, self.anchor)
        graph = lay_graph(index)
        sizes = (search.q, search.p) if index.swapped else (search.p, search.q)
        ways = _choose(int(index.hop_common.max(initial=0)), sizes[1])
        costs = np.empty(index.hop_common.size, np.int64)
        _child_costs(index.hop_indptr, index.hop_common, ways, sizes[0] > 2, costs)
        n_words, *_ = measure_rooms(index.hop_indptr, index.hop_common, sizes[0] - 1)
        items = _make_items(index.hop_indptr, costs)
        ids = index.left_ids, index.right_ids
        asked = self.anchor, "enumerate"
        chosen, *_ = explain_choices(motif, "total", index.sizes, index.swapped, asked, "enumerate")
        return _finish_prepared(search, graph, items, sizes, index.swapped, ids, n_words), chosen

    def _make_worker(self, prepared: PreparedListing) -> _Worker:
        return _make_worker(prepared, self.listing.limit)

    def _begin(self, worker: _Worker, item: int) -> None:
        start_items(worker.cursor, item)

    def _list_some(self, prepared: PreparedListing, worker: _Worker, end: int) -> bool:
        around, levels, cursor, block = worker
        items = prepared.items
        if isinstance(prepared.graph, Rows):
            return list_stars(prepared.graph, prepared.positions, cursor, block, items, end)
        assert around is not None
        assert levels is not None
        return list_items(prepared.graph, around, levels, prepared.positions, cursor, block, items, end)

    def _pass_on(self, prepared: PreparedListing, worker: _Worker, outlet: Outlet) -> None:
        block, held = worker.block, prepared.held_right
        n = int(block.size[0])
        block.size[0] = 0
        lefts, rights = block.lefts[:n], block.rights[:n]
        if held.size:
            rights = np.sort(np.hstack((rights, np.broadcast_to(held, (n, held.size)))), axis=1)
        outlet.take(*((rights, lefts) if prepared.swapped else (lefts, rights)))

    def _finish(
        self, prepared: PreparedListing, span: tuple[int, int], workers: Sequence[_Worker], outlet: Outlet
    ) -> tuple[int, int]:
        cursors = [worker.cursor for worker in workers]
        work = sum(int(cursor.work[0]) for cursor in cursors)
        if outlet.full:
            return work, 0
        expected = _expect_rows(prepared, span, cursors)
        if outlet.rows != expected:
            start, stop = span
            raise ExecutionError(
                f"{outlet.rows} bicliques of the items [{start}, {stop}) were listed; there are {expected}"
            )
        return work, 0


def make_lister(
    threads: int | None, listing: Listing, algorithm: str = "auto", anchor: str = "auto"
) -> BicliqueLister:
    """Return the lister of what is asked for.

    Raises
    ------
    UnsupportedError
        For an algorithm that only counts.
    """
    if algorithm == "pivot":
        raise UnsupportedError(
            "algorithm 'pivot' counts without visiting every biclique; list with 'enumerate'"
        )
    return BicliqueLister(threads, anchor, listing.with_u, listing.with_v, listing.limit)


def _prepare_stars(search: Restricted) -> PreparedListing:
    """Prepare bicliques with a single vertex on one side: that side is left, its rows are what is searched."""
    swapped = search.p != 1
    sizes = (search.q, search.p) if swapped else (search.p, search.q)
    core = reduce_to_core(search.graph, swapped, 1, sizes[1])
    degrees = np.diff(core.rows.indptr)
    costs = _entry_costs(core.rows.indptr, _choose(int(degrees.max(initial=0)), sizes[1] - 1))
    items = _make_items(core.rows.indptr, costs)
    return _finish_prepared(search, core.rows, items, sizes, swapped, (core.left_ids, core.right_ids), 0)


def _finish_prepared(
    search: Restricted,
    graph: LeftGraph | Rows,
    items: tuple[Items, NDArray[np.int64]],
    sizes: tuple[int, int],
    swapped: bool,
    ids: tuple[Ids32, Ids32],
    n_words: int,
) -> PreparedListing:
    """Number the vertices that can be in a row by rising id."""
    helds = (search.held_v, search.held_u) if swapped else (search.held_u, search.held_v)
    kept = [np.union1d(own, held).astype(np.int32) for own, held in zip(ids, helds, strict=True)]
    places = [np.searchsorted(all_, own).astype(np.int32) for all_, own in zip(kept, ids, strict=True)]
    held = [np.searchsorted(all_, own).astype(np.int32) for all_, own in zip(kept, helds, strict=True)]
    return PreparedListing(
        graph=graph,
        items=items[0],
        costs=items[1],
        sizes=sizes,
        swapped=swapped,
        positions=Positions(places[0], places[1], held[0]),
        held_right=held[1],
        ids_u=kept[1 if swapped else 0],
        ids_v=kept[0 if swapped else 1],
        n_words=n_words,
    )


def _make_worker(prepared: PreparedListing, limit: int | None) -> _Worker:
    (left, right), held = prepared.sizes, prepared.positions.held.size
    n_rows = max(1, rows.BLOCK_VALUES // (left + held + right))
    if limit is not None:
        n_rows = min(n_rows, max(limit, 1))
    block = make_block(n_rows, left + held, right)
    graph = prepared.graph
    if isinstance(graph, Rows):
        most = int(np.diff(graph.indptr).max(initial=0))
        return _Worker(None, None, make_cursor(prepared.sizes, held, most, 0), block)
    most = int(graph.hop_common.max(initial=0))
    cursor = make_cursor(prepared.sizes, held, most, prepared.n_words)
    return _Worker(make_around(graph), make_levels(prepared.n_words, left), cursor, block)


def _expect_rows(prepared: PreparedListing, span: tuple[int, int], cursors: list[Cursor]) -> int:
    """Return the bicliques of finished items, from the leaves of the search or the lengths of the rows."""
    right = prepared.sizes[1]
    if not isinstance(prepared.graph, Rows):
        leaves = sum((cursor.leaves for cursor in cursors[1:]), cursors[0].leaves) if cursors else np.zeros(1)
        return sum(int(leaves[n]) * comb(int(n), right) for n in np.flatnonzero(leaves))
    # The stars of a row whose first right vertex is at a place of [first, last) are C(n - first, right) less
    # C(n - last, right), where n is the end of the row.
    roots, firsts, lasts = (each[slice(*span)] for each in prepared.items)
    ends = prepared.graph.indptr[roots + 1]
    below: dict[int, int] = {}
    for places, sign in ((ends - firsts, 1), (ends - lasts, -1)):
        for n, times in zip(*np.unique(places, return_counts=True), strict=True):
            below[int(n)] = below.get(int(n), 0) + sign * int(times)
    return sum(times * comb(n, right) for n, times in below.items())
