"""Listing maximal bicliques on the CPU: the search that counts them passes what it finds on as rows.

The largest maximal bicliques: one search finds how large they are, another one lists those that are as large.

The first keeps the largest values alone. Its threads share a bound, what n of them are known to reach, and leave out
what cannot pass it. The second lists what reaches the value of the n-th, with the bound fixed, and chooses by value and
then by the ids of the vertices, so that the answer is always the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, RowColumn
from papilio.kernels.biclique.core import Ids32
from papilio.kernels.biclique.list import restrict_to_common
from papilio.kernels.engine import Best, choose_best, require_request
from papilio.kernels.listing import CpuLister, Outlet, cut_blocks, empty_block, make_row_block
from papilio.kernels.maximal.cpu import (
    SERIAL_COST,
    MaximalBicliqueCpu,
    PreparedMaximalCpu,
    Worker,
    count_only,
    make_worker,
)
from papilio.kernels.maximal.found import BALANCED, CHECKSUM, EDGES, WORDS, Found
from papilio.kernels.maximal.stars import RaggedColumn, Stars
from papilio.kernels.threads import ChunkRunner, cut_by_cost
from papilio.motifs import Granularity, Listing, MaximalBiclique, Motif


@dataclass(frozen=True, eq=False)
class PreparedMaximalListing:
    """A graph ready for :meth:`MaximalBicliqueLister.run`."""

    searched: PreparedMaximalCpu  # the graph that is left to search
    places: tuple[Ids32, Ids32]  # positions of its rows and columns in the ids below
    ids_u: Ids32  # ids of all vertices that can be in a row, rising
    ids_v: Ids32
    decisions: tuple[tuple[str, str], ...]

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return self.searched.n_items

    @property
    def work(self) -> NDArray[np.int64]:
        """Estimated set operations of each work item; falling."""
        return self.searched.index.work

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        arrays = (*self.places, self.ids_u, self.ids_v)
        return self.searched.nbytes + sum(array.nbytes for array in arrays)


class MaximalBicliqueLister(CpuLister):
    """Lists maximal bicliques; holds no graph, safe to share between threads.

    Parameters
    ----------
    threads : int, optional
        Threads of one run; by default the processors that this process may use.
    listing : Listing
        Which are listed.
    anchor : {"auto", "u", "v"}
        The layer whose vertices are searched one after the other.
    """

    serial_cost = SERIAL_COST

    def __init__(self, threads: int | None, listing: Listing, anchor: str = "auto") -> None:
        super().__init__(threads, listing)
        self.anchor = anchor

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> PreparedMaximalListing:
        """Restrict the graph to what goes with the vertices that must be held, find the stars, build the index.

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity.
        CapacityError
            When the pairs of rows do not fit the memory.
        """
        require_request("listing", MaximalBiclique, graph, motif, per)
        left = restrict(graph, self.listing)
        searched = MaximalBicliqueCpu(self.threads, self.anchor).prepare(left, motif, per)
        index = searched.index
        sides = place_sides(left, index.swapped, (index.left_ids, index.right_ids))
        decisions = (*explain_restriction(graph, left), *searched.decisions)
        return PreparedMaximalListing(searched, *sides, decisions)

    def _make_worker(self, prepared: PreparedMaximalListing) -> Worker:
        return make_worker(prepared.searched, list_found(prepared, self.listing.limit))

    def _begin(self, worker: Worker, item: int) -> None:
        worker.begin(item)

    def _list_some(self, prepared: PreparedMaximalListing, worker: Worker, end: int) -> bool:
        return worker.search_items(prepared.searched, prepared.searched.limits(), end)

    def _pass_on(self, prepared: PreparedMaximalListing, worker: Worker, outlet: Outlet) -> None:
        pass_on(prepared.searched, worker, outlet)

    def _finish(
        self,
        prepared: PreparedMaximalListing,
        span: tuple[int, int],
        workers: Sequence[Worker],
        outlet: Outlet,
    ) -> tuple[int, int]:
        stars, checksum = prepared.searched.stars, 0
        if span[0] == 0 < span[1]:
            checksum = stars.checksum
            for block in list_stars(stars, prepared.ids_u, prepared.ids_v):
                if not outlet.full:
                    outlet.take(*block)
        found = [worker.found.sums for worker in workers]
        return sum(int(sums[WORDS]) for sums in found), checksum + sum(int(sums[CHECKSUM]) for sums in found)


def list_found(prepared: PreparedMaximalListing, limit: int | None) -> Found:
    """Return what a thread finds, with blocks of rows."""
    graph = prepared.searched.roots.graph
    longest = [int(np.diff(side.indptr).max(initial=0)) for side in (graph.rights, graph.lefts)]
    row_places, column_places = prepared.places
    return count_only(prepared.searched)._replace(
        row_places=row_places,
        column_places=column_places,
        longest=np.array(longest, np.int64),
        rows=make_row_block(longest[0], limit),
        columns=make_row_block(longest[1], limit),
    )


def pass_on(searched: PreparedMaximalCpu, worker: Worker, outlet: Outlet) -> None:
    """Empty the blocks of a thread into the outlet."""
    sides = empty_block(worker.found.rows, None), empty_block(worker.found.columns, None)
    outlet.take(*(sides[::-1] if searched.index.swapped else sides))


def restrict(graph: BipartiteGraph, listing: Listing) -> BipartiteGraph:
    """Return what goes with the vertices that must be held."""
    with_u, with_v = (np.array(ids, np.int32) for ids in (listing.with_u, listing.with_v))
    return restrict_to_common(graph, with_u, with_v)


def explain_restriction(graph: BipartiteGraph, left: BipartiteGraph) -> tuple[tuple[str, str], ...]:
    """Return what was decided as a graph was restricted, and why."""
    if left is graph:
        return ()
    what = f"search among {left.n_edges} edges"
    return ((what, "only these go with what every biclique must hold"),)


def place_sides(
    graph: BipartiteGraph, swapped: bool, ids: tuple[Ids32, Ids32]
) -> tuple[tuple[Ids32, Ids32], Ids32, Ids32]:
    """Return the positions of rows and columns in the ids of U and V that can be in a row, and these, rising."""
    ids_u, ids_v = (np.flatnonzero(degrees).astype(np.int32) for degrees in (graph.degree_u, graph.degree_v))
    of_rows, of_columns = (ids_v, ids_u) if swapped else (ids_u, ids_v)
    places = np.searchsorted(of_rows, ids[0]), np.searchsorted(of_columns, ids[1])
    return (places[0].astype(np.int32), places[1].astype(np.int32)), ids_u, ids_v


def list_stars(stars: Stars, ids_u: Ids32, ids_v: Ids32) -> Iterator[list[RowColumn]]:
    """Yield the stars in blocks of rows: columns of U and of V, as positions in the ids that can be in a row."""
    for of_u, of_v in (stars.of_u, stars.of_v):
        columns = [
            (offsets, np.searchsorted(ids, found).astype(np.int32))
            for (offsets, found), ids in ((of_u, ids_u), (of_v, ids_v))
        ]
        yield from cut_blocks(columns)


RANKINGS = {"edges": EDGES, "balanced": BALANCED}
"""By the number of edges, or by the vertices of the smaller side."""


def find_best(prepared: PreparedMaximalListing, by: str, n: int, threads: int) -> tuple[Best, ...]:
    """Return the ``n`` largest of the maximal bicliques that are asked for, or all; ids of U, then of V.

    Parameters
    ----------
    prepared : PreparedMaximalListing
        Made by :class:`~papilio.kernels.maximal.list.MaximalBicliqueLister`.
    by : {"edges", "balanced"}
        See :data:`RANKINGS`.
    n : int
        At least 1.
    """
    bound = _find_bound(prepared, by, n, threads)
    best: tuple[Best, ...] = ()
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
            found.append(Best(int(values[row]), members))
        with lock:
            best = choose_best((*best, *found), n)

    searched, outlet = prepared.searched, Outlet(keep, None)
    limits, fixed = searched.limits(RANKINGS[by]), np.array([bound], np.int64)

    def list_chunk(worker: Worker, begin: int, end: int) -> None:
        worker.begin(begin)
        while not worker.search_items(searched, limits, end):
            pass_on(searched, worker, outlet)

    runner = ChunkRunner(
        lambda: make_worker(searched, list_found(prepared, None)._replace(bound=fixed)), threads
    )
    runner.run(cut_by_cost(searched.index.costs, threads, serial_cost=SERIAL_COST), list_chunk)
    for worker in runner.states:
        pass_on(searched, worker, outlet)
    for block in list_stars(searched.stars, prepared.ids_u, prepared.ids_v):
        outlet.take(*block)
    return best


def _values(by: str, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows * columns if by == "edges" else np.minimum(rows, columns)


def _find_bound(prepared: PreparedMaximalListing, by: str, n: int, threads: int) -> int:
    """Return the value of the n-th largest, or of the least where there are fewer; 0 where there is none."""
    searched = prepared.searched
    stars = (searched.stars.of_u, searched.stars.of_v)
    values = [_values(by, np.diff(u[0]), np.diff(v[0])) for u, v in stars]
    largest = np.sort(np.concatenate(values))[::-1][:n]
    shared = np.array([largest[-1] + 1 if largest.size == n else 0], np.int64)
    limits = searched.limits(RANKINGS[by])

    def search(worker: Worker, begin: int, end: int) -> None:
        worker.begin(begin)
        worker.search_items(searched, limits, end)

    found = count_only(searched)
    runner = ChunkRunner(
        lambda: make_worker(searched, found._replace(bound=shared, heap=np.zeros(n + 1, np.int64))), threads
    )
    runner.run(cut_by_cost(searched.index.costs, threads, serial_cost=SERIAL_COST), search)
    heaps = [worker.found.heap for worker in runner.states]
    every = np.sort(np.concatenate([largest, *(heap[1 : 1 + heap[0]] for heap in heaps)]))[::-1][:n]
    return int(every[-1]) if every.size else 0
