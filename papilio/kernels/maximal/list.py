"""Listing maximal bicliques on the CPU: the counting search also passes its results on as rows.

The largest maximal bicliques take two searches: the first finds the value they reach, the second lists them.

The first search keeps only the largest values. Its threads share a bound, a value that n bicliques are known to reach,
and skip everything that cannot exceed it. The second lists all bicliques that reach the value of the n-th, with the
bound fixed, and selects by value and then by the ids of the vertices, so the result is deterministic.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, RowColumn
from papilio.kernels.biclique.core import Ids32
from papilio.kernels.biclique.list import restrict_to_common
from papilio.kernels.engine import LargestMotif, choose_best, require_request
from papilio.kernels.listing import cut_blocks, empty_block, make_row_block
from papilio.kernels.maximal.cpu import (
    MaximalBicliqueCpu,
    PreparedMaximalCpu,
    Worker,
    count_only,
    make_worker,
)
from papilio.kernels.maximal.loops import BALANCED, EDGES
from papilio.kernels.maximal.stars import RaggedColumn, Stars
from papilio.kernels.threads import ChunkRunner, Outlet, cut_by_cost
from papilio.motifs import Granularity, Listing, MaximalBiclique, Motif
from papilio.parts import Layer, Part


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedMaximalListing(PreparedMaximalCpu):
    """A graph ready for :meth:`MaximalBicliqueLister.run`."""

    places: tuple[Ids32, Ids32]  # positions of its rows and columns in the ids below
    ids_u: Ids32  # ids of all vertices that can be in a row, ascending
    ids_v: Ids32


class MaximalBicliqueLister(MaximalBicliqueCpu):
    """Lists the maximal bicliques of a ``listing``; other parameters are as for the engine."""

    def __init__(self, threads: int | None, listing: Listing, anchor: str = "auto") -> None:
        super().__init__(threads, anchor)
        self.listing: Listing = listing

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedMaximalListing:
        """Prepare as the engine, for the vertices compatible with the required ones."""
        require_request("listing", MaximalBiclique, graph, motif, per)
        assert isinstance(graph, BipartiteGraph)
        left = restrict_to_common(graph, self.listing)
        searched = super().prepare(left, motif, per)
        index = searched.index
        places, ids_u, ids_v = place_sides(left, index.anchor, (index.left_ids, index.right_ids))
        made = vars(searched) | {"decisions": (*explain_restriction(graph, left), *searched.decisions)}
        return PreparedMaximalListing(**made, places=places, ids_u=ids_u, ids_v=ids_v)

    def _make_state(self, prepared: PreparedMaximalCpu) -> Worker:
        assert isinstance(prepared, PreparedMaximalListing)
        graph, (row_places, column_places) = prepared.roots.graph, prepared.places
        longest = [int(np.diff(side.indptr).max(initial=0)) for side in (graph.rights, graph.lefts)]
        found = count_only(prepared)._replace(
            row_places=row_places,
            column_places=column_places,
            longest=np.array(longest, np.int64),
            rows=make_row_block(longest[0], self.listing.limit),
            columns=make_row_block(longest[1], self.listing.limit),
        )
        return make_worker(prepared, found)

    def _pass_on(self, prepared: PreparedMaximalListing, state: Worker, outlet: Outlet) -> None:
        sides = empty_block(state.found.rows, None), empty_block(state.found.columns, None)
        outlet.take(*(sides if prepared.index.anchor == "u" else sides[::-1]))

    def _closed_rows(self, prepared: PreparedMaximalListing) -> Iterator[list[RowColumn]]:
        return list_stars(prepared.stars, prepared.ids_u, prepared.ids_v)


def explain_restriction(graph: BipartiteGraph, left: BipartiteGraph) -> tuple[tuple[str, str], ...]:
    """Return the decisions made by restricting a graph, with reasons."""
    if left is graph:
        return ()
    what = f"search among {left.n_edges} edges"
    return ((what, "only these are compatible with the required vertices"),)


def place_sides(
    graph: BipartiteGraph, anchor: Layer, ids: tuple[Ids32, Ids32]
) -> tuple[tuple[Ids32, Ids32], Ids32, Ids32]:
    """Return the positions of rows and columns among the ids that can be in a row, and these, ascending."""
    ids_u, ids_v = (np.flatnonzero(degrees).astype(np.int32) for degrees in (graph.degree_u, graph.degree_v))
    of_rows, of_columns = (ids_u, ids_v) if anchor == "u" else (ids_v, ids_u)
    places = np.searchsorted(of_rows, ids[0]), np.searchsorted(of_columns, ids[1])
    return (places[0].astype(np.int32), places[1].astype(np.int32)), ids_u, ids_v


def list_stars(stars: Stars, ids_u: Ids32, ids_v: Ids32) -> Iterator[list[RowColumn]]:
    """Yield the stars in blocks of rows: columns of U and of V, as positions in ``ids_u`` and ``ids_v``."""
    for of_u, of_v in (stars.of_u, stars.of_v):
        columns = [
            (offsets, np.searchsorted(ids, found).astype(np.int32))
            for (offsets, found), ids in ((of_u, ids_u), (of_v, ids_v))
        ]
        yield from cut_blocks(columns)


RANKINGS = {"edges": EDGES, "balanced": BALANCED}
"""Rankings by number of edges, and by number of vertices of the smaller side."""


class _Reaching(MaximalBicliqueLister):
    """Lists bicliques that reach a fixed value, and all stars."""

    def __init__(self, threads: int, by: str, value: int) -> None:
        super().__init__(threads, Listing())
        self.by, self.value = RANKINGS[by], value

    def _make_state(self, prepared: PreparedMaximalCpu) -> Worker:
        state = super()._make_state(prepared)
        state.found = state.found._replace(bound=np.array([self.value], np.int64))
        return state

    def _search(self, prepared: PreparedMaximalCpu, state: Worker, end: int) -> bool:
        return state.search_items(prepared, prepared.limits(self.by), end)


def find_best(prepared: PreparedMaximalListing, by: str, n: int, threads: int) -> tuple[LargestMotif, ...]:
    """Return the ``n`` (at least 1) largest requested maximal bicliques, or all; ids of U, then of V.

    ``prepared`` is made by :class:`MaximalBicliqueLister`; ``by`` is ``edges`` or ``balanced``, see :data:`RANKINGS`.
    """
    bound = _find_bound(prepared, by, n, threads)
    best: tuple[LargestMotif, ...] = ()
    lock = threading.Lock()

    def keep(u: RaggedColumn, v: RaggedColumn) -> None:
        nonlocal best
        values = _values(by, np.diff(u[0]), np.diff(v[0]))
        found = []
        for row in np.flatnonzero(values >= bound).tolist():
            members = tuple(
                tuple(ids[places[ends[row] : ends[row + 1]]].tolist())
                for ids, (ends, places) in ((prepared.ids_u, u), (prepared.ids_v, v))
            )
            found.append(LargestMotif(int(values[row]), members))
        with lock:
            best = choose_best((*best, *found), n)

    _Reaching(threads, by, bound).run(prepared, 0, prepared.n_items, sink=keep)
    return best


def _values(by: str, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows * columns if by == "edges" else np.minimum(rows, columns)


def _find_bound(prepared: PreparedMaximalListing, by: str, n: int, threads: int) -> int:
    """Return the value of the n-th largest, or of the smallest if there are fewer; 0 without any."""
    stars = (prepared.stars.of_u, prepared.stars.of_v)
    values = [_values(by, np.diff(u[0]), np.diff(v[0])) for u, v in stars]
    largest = np.sort(np.concatenate(values))[::-1][:n]
    shared = np.array([largest[-1] + 1 if largest.size == n else 0], np.int64)
    limits = prepared.limits(RANKINGS[by])

    def search(worker: Worker, begin: int, end: int) -> None:
        worker.begin(begin)
        worker.search_items(prepared, limits, end)

    found = count_only(prepared)
    runner = ChunkRunner(
        lambda: make_worker(prepared, found._replace(bound=shared, heap=np.zeros(n + 1, np.int64))), threads
    )
    runner.run(cut_by_cost(prepared.index.costs, threads, serial_cost=MaximalBicliqueCpu.serial_cost), search)
    heaps = [worker.found.heap for worker in runner.states]
    every = np.sort(np.concatenate([largest, *(heap[1 : 1 + heap[0]] for heap in heaps)]))[::-1][:n]
    return int(every[-1]) if every.size else 0
