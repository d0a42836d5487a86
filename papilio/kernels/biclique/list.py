"""List (p,q)-bicliques on the CPU: sizes to search for, work items, blocks of rows.

Also the restriction of a graph to bicliques that contain given vertices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import listing as rows
from papilio.kernels.biclique.choice import RUN_RATES
from papilio.kernels.biclique.core import Ids32, Rows, reduce_to_core
from papilio.kernels.biclique.index import (
    BicliqueIndex,
    bound_choices,
    build_biclique_index,
    lay_graph,
    make_pieces,
)
from papilio.kernels.biclique.items import choose_most
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
from papilio.kernels.biclique.local import LeftGraph, RootGraph, make_around
from papilio.kernels.biclique.prober import probe_here
from papilio.kernels.biclique.question import explain_layer
from papilio.kernels.biclique.search import Items, measure_rooms
from papilio.kernels.biclique.subset import Levels, make_levels
from papilio.kernels.engine import Choice, Partial, Prepared, require_request
from papilio.kernels.jit import Ints
from papilio.kernels.probe import Prober, RowProber
from papilio.kernels.threads import Outlet, SearchEngine
from papilio.motifs import Biclique, Granularity, Listing, Motif
from papilio.parts import Layer


class Restricted(NamedTuple):
    """The remaining search after setting aside the vertices that every biclique must contain."""

    # The edges between the vertices adjacent to all of these; the layers keep their sizes
    graph: BipartiteGraph
    # Sizes of the bicliques to search for, at least 1
    p: int
    q: int
    # Ids added to each biclique
    required_u: Ids32
    required_v: Ids32


def _common(graph: BipartiteGraph, ids: Ids32, of_u: bool) -> NDArray[np.bool_]:
    """Return a mask of the vertices of the other layer adjacent to all of ``ids``; O(n_edges)."""
    own, others, n = (graph.u, graph.v, graph.n_v) if of_u else (graph.v, graph.u, graph.n_u)
    if not ids.size:
        return np.ones(n, np.bool_)
    met: NDArray[np.bool_] = np.bincount(others[np.isin(own, ids)], minlength=n) == ids.size
    return met


def restrict_to_common(graph: BipartiteGraph, listing: Listing) -> BipartiteGraph:
    """Return the edges between vertices compatible with all required vertices, including these.

    Every maximal biclique of the result contains the required vertices and is maximal in the whole graph: a vertex
    that extends it there is compatible with them, too. The result has no edges if they are in no common biclique.
    """
    with_u, with_v = (np.array(ids, np.int32) for ids in (listing.with_u, listing.with_v))
    if not with_u.size and not with_v.size:
        return graph
    kept_u, kept_v = _common(graph, with_v, of_u=False), _common(graph, with_u, of_u=True)
    complete = bool(kept_u[with_u].all() and kept_v[with_v].all())
    edges = kept_u[graph.u] & kept_v[graph.v] & complete
    return BipartiteGraph(graph.n_u, graph.n_v, graph.u[edges], graph.v[edges])


def restrict_graph(graph: BipartiteGraph, p: int, q: int, listing: Listing) -> Restricted:
    """Restrict the graph to the vertices compatible with all required vertices.

    The required vertices are left out, except for one if they fill their side, so both sizes stay at least 1.
    """
    common = restrict_to_common(graph, listing)
    sides = []
    for n, with_ids, size in ((graph.n_u, listing.with_u, p), (graph.n_v, listing.with_v, q)):
        kept, ids = np.ones(n, np.bool_), np.array(with_ids, np.int32)
        kept[ids] = False
        if ids.size == size:
            kept[:] = False
            kept[ids[:1]] = True
            ids = ids[1:]
        sides.append((kept, size - ids.size, ids))
    (kept_u, left_p, required_u), (kept_v, left_q, required_v) = sides
    if common is not graph:
        edges = kept_u[common.u] & kept_v[common.v]
        common = BipartiteGraph(graph.n_u, graph.n_v, common.u[edges], common.v[edges])
    return Restricted(common, left_p, left_q, required_u, required_v)


@dataclass(frozen=True, eq=False)
class PreparedListing(Prepared):
    """A graph ready for :meth:`BicliqueLister.run`."""

    graph: LeftGraph | Rows  # As the search needs it; only rows if the left side is a single vertex
    items: Items
    costs: NDArray[np.int64]  # shape (n_items,): estimated set operations and rows of each item, descending
    sizes: tuple[int, int]  # Numbers of left and right vertices to search for
    anchor: Layer  # The left layer
    positions: Positions
    required_right: Ids32  # Positions added to each right side
    # Ids of all vertices that can be in a row, ascending: a position is an index into these
    ids_u: NDArray[np.int32]
    ids_v: NDArray[np.int32]
    n_words: int  # Room for the levels of the search
    index: BicliqueIndex | None  # None if the left side is a single vertex
    decisions: tuple[Choice, ...]


class _Searched(NamedTuple):
    """Data to search, as in :class:`PreparedListing`; ``pieces`` holds root, first and last child, and cost of each."""

    graph: LeftGraph | Rows
    pieces: tuple[Ids32, Ints, Ints, Ints]
    anchor: Layer
    ids: tuple[Ids32, Ids32]  # of the left and of the right vertices
    n_words: int
    biclique_index: BicliqueIndex | None
    chosen: Choice


class _Worker(NamedTuple):
    """State of one thread; ``around`` and ``levels`` are None for stars."""

    around: RootGraph | None
    levels: Levels | None
    cursor: Cursor
    block: Block


class BicliqueLister(SearchEngine):
    """Lists the bicliques of one size; ``anchor`` is as for the counting engine."""

    listing: Listing

    def __init__(self, threads: int | None, listing: Listing, algorithm: str = "auto", anchor: str = "auto") -> None:
        super().__init__(threads)
        if algorithm == "pivot":
            raise UnsupportedError(
                "algorithm 'pivot' counts without visiting every biclique; use 'enumerate' to list them"
            )
        self.listing, self.anchor = listing, anchor

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> PreparedListing:
        """Set aside the required vertices, reduce to the core, order and cut; see :class:`PreparedListing`."""
        require_request("listing", Biclique, graph, motif, per)
        assert isinstance(motif, Biclique)
        assert motif.p is not None
        assert motif.q is not None
        search = restrict_graph(graph, motif.p, motif.q, self.listing)
        decisions: tuple[Choice, ...] = ()
        if search.graph is not graph:
            what = f"search for ({search.p}, {search.q}) among {search.graph.n_edges} edges"
            decisions = ((what, "only these are compatible with the required vertices"),)
        searched = _find_stars(search) if 1 in (search.p, search.q) else self._find_pairs(search)
        anchors_u = searched.anchor == "u"
        required = (search.required_u, search.required_v) if anchors_u else (search.required_v, search.required_u)
        named = [np.union1d(*each).astype(np.int32) for each in zip(searched.ids, required, strict=True)]
        places = [np.searchsorted(*each).astype(np.int32) for each in zip(named, searched.ids, strict=True)]
        added = [np.searchsorted(*each).astype(np.int32) for each in zip(named, required, strict=True)]
        return PreparedListing(
            graph=searched.graph,
            items=Items(*searched.pieces[:3]),
            costs=searched.pieces[3],
            sizes=(search.p, search.q) if anchors_u else (search.q, search.p),
            anchor=searched.anchor,
            positions=Positions(places[0], places[1], added[0]),
            required_right=added[1],
            ids_u=named[0 if anchors_u else 1],
            ids_v=named[1 if anchors_u else 0],
            n_words=searched.n_words,
            index=searched.biclique_index,
            decisions=(*decisions, searched.chosen),
        )

    def prober(self, prepared: PreparedListing) -> Prober:
        index, graph = prepared.index, prepared.graph
        if index is None:
            raise UnsupportedError("cannot probe stars, bicliques with one vertex on a side")
        assert isinstance(graph, LeftGraph)
        n_required = prepared.positions.required.size + prepared.required_right.size
        searched = probe_here(index, graph, "enumerate", RUN_RATES["enumerate"], self.threads)
        return RowProber(searched, n_required, leaves=False)

    def _find_pairs(self, search: Restricted) -> _Searched:
        motif = Biclique(search.p, search.q)
        index = build_biclique_index(search.graph, motif, self.threads, self.anchor, lists=True)
        size = search.p if index.anchor == "u" else search.q
        n_words, *_ = measure_rooms(index.hop_indptr, index.hop_common, size - 1)
        pieces = index.item_root, index.item_first, index.item_last, index.costs
        ids = index.left_ids, index.right_ids
        chosen = explain_layer(index.sizes, index.anchor, index.why_anchored)
        return _Searched(lay_graph(index), pieces, index.anchor, ids, n_words, index, chosen)

    def _make_state(self, prepared: PreparedListing) -> _Worker:
        (left, right), n_required, graph = prepared.sizes, prepared.positions.required.size, prepared.graph
        n_rows, limit = max(1, rows.BLOCK_VALUES // (left + n_required + right)), self.listing.limit
        block = make_block(n_rows if limit is None else min(n_rows, limit), left + n_required, right)
        if isinstance(graph, Rows):
            most = int(np.diff(graph.indptr).max(initial=0))
            return _Worker(None, None, make_cursor(prepared.sizes, n_required, most, 0), block)
        most = int(graph.hop_common.max(initial=0))
        cursor = make_cursor(prepared.sizes, n_required, most, prepared.n_words)
        return _Worker(make_around(graph), make_levels(prepared.n_words, left), cursor, block)

    def _begin(self, state: _Worker, item: int) -> None:
        start_items(state.cursor, item)

    def _search(self, prepared: PreparedListing, state: _Worker, end: int) -> bool:
        around, levels, cursor, block = state
        items = prepared.items
        if isinstance(prepared.graph, Rows):
            return list_stars(prepared.graph, prepared.positions, cursor, block, items, end)
        assert around is not None
        assert levels is not None
        return list_items(prepared.graph, around, levels, prepared.positions, cursor, block, items, end)

    def _pass_on(self, prepared: PreparedListing, state: _Worker, outlet: Outlet) -> None:
        block, required = state.block, prepared.required_right
        n = int(block.size[0])
        block.size[0] = 0
        lefts, rights = block.lefts[:n], block.rights[:n]
        if required.size:
            rights = np.sort(np.hstack((rights, np.broadcast_to(required, (n, required.size)))), axis=1)
        outlet.take(*((lefts, rights) if prepared.anchor == "u" else (rights, lefts)))

    def _fold(self, prepared: PreparedListing, span: tuple[int, int], states: Sequence[_Worker]) -> Partial:
        cursors = [state.cursor for state in states]
        work = sum(int(cursor.work[0]) for cursor in cursors)
        return Partial(span[1] - span[0], _expect_rows(prepared, span, cursors), work)


def _find_stars(search: Restricted) -> _Searched:
    """Return the rows of the side with a single vertex, which is left; their entries are the first right vertices."""
    anchor: Layer = "u" if search.p == 1 else "v"
    size = search.q if anchor == "u" else search.p
    core = reduce_to_core(search.graph, anchor, 1, size)
    indptr = core.rows.indptr
    behind = np.repeat(indptr[1:], np.diff(indptr)) - np.arange(1, indptr[-1] + 1)
    costs = 1 + bound_choices(int(np.diff(indptr).max(initial=0)), size - 1)[behind]
    chosen = f"layer {anchor.upper()} anchored", "only one of its vertices is taken"
    ids = core.left_ids, core.right_ids
    return _Searched(core.rows, make_pieces(indptr, costs, choose_most(int(costs.sum()))), anchor, ids, 0, None, chosen)


def _expect_rows(prepared: PreparedListing, span: tuple[int, int], cursors: list[Cursor]) -> int:
    """Return the number of bicliques of finished items, from the leaves of the search or the lengths of the rows."""
    right = prepared.sizes[1]
    if not isinstance(prepared.graph, Rows):
        leaves = sum((cursor.leaves for cursor in cursors[1:]), cursors[0].leaves) if cursors else np.zeros(1)
        return sum(int(leaves[n]) * comb(int(n), right) for n in np.flatnonzero(leaves))
    # The stars of a row whose first right vertex is at a place of [first, last) number C(n - first, right) minus
    # C(n - last, right), where n is the end of the row.
    roots, firsts, lasts = (each[slice(*span)] for each in prepared.items)
    ends = prepared.graph.indptr[roots + 1]
    below: dict[int, int] = {}
    for places, sign in ((ends - firsts, 1), (ends - lasts, -1)):
        for n, times in zip(*np.unique(places, return_counts=True), strict=True):
            below[int(n)] = below.get(int(n), 0) + sign * int(times)
    return sum(times * comb(n, right) for n, times in below.items())
