"""Listing maximal bicliques on the CPU: the search that counts them passes what it finds on as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Ids32
from papilio.kernels.biclique.restrict import restrict_to_common
from papilio.kernels.engine import Cut, EngineName, Partial, never_cut, require_interval, require_request
from papilio.kernels.maximal.cpu import (
    SERIAL_COST,
    MaximalBicliqueCpu,
    PreparedMaximalCpu,
    Worker,
    count_only,
    make_worker,
)
from papilio.kernels.maximal.found import CHECKSUM, WORDS, Found
from papilio.kernels.maximal.stars import RaggedColumn
from papilio.kernels.rows import (
    BLOCK_VALUES,
    Outlet,
    RowSink,
    drop_rows,
    empty_block,
    list_chunks,
    make_row_block,
)
from papilio.kernels.threads import choose_threads, cut_by_cost, items_in
from papilio.motifs import Granularity, MaximalBiclique, Motif
from papilio.questions import Listing


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
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        arrays = (*self.places, self.ids_u, self.ids_v)
        return self.searched.nbytes + sum(array.nbytes for array in arrays)


class MaximalBicliqueLister:
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

    name: EngineName = "cpu"

    def __init__(self, threads: int | None, listing: Listing, anchor: str = "auto") -> None:
        self.threads = choose_threads(threads)
        self.listing, self.anchor = listing, anchor

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
        with_u, with_v = (np.array(ids, np.int32) for ids in (self.listing.with_u, self.listing.with_v))
        left = restrict_to_common(graph, with_u, with_v)
        searched = MaximalBicliqueCpu(self.threads, self.anchor).prepare(left, motif, per)
        ids_u, ids_v = (
            np.flatnonzero(degrees).astype(np.int32) for degrees in (left.degree_u, left.degree_v)
        )
        of_rows, of_columns = (ids_v, ids_u) if searched.index.swapped else (ids_u, ids_v)
        decisions = searched.decisions
        if left is not graph:
            what = f"search among {left.n_edges} edges"
            decisions = (what, "only these go with what every biclique must hold"), *decisions
        places = (
            np.searchsorted(of_rows, searched.index.left_ids).astype(np.int32),
            np.searchsorted(of_columns, searched.index.right_ids).astype(np.int32),
        )
        return PreparedMaximalListing(searched, places, ids_u, ids_v, decisions)

    def work(self, prepared: PreparedMaximalListing) -> NDArray[np.int64]:
        """Return the estimated set operations of each item, shape (n_items,); heaviest first."""
        return prepared.searched.index.work

    def slice_work(self, prepared: PreparedMaximalListing) -> int:
        """Slices cost nothing."""
        return 1

    def run(
        self,
        prepared: PreparedMaximalListing,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
        sink: RowSink = drop_rows,
    ) -> Partial:
        """List exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``sink`` gets every row once, in blocks, from any thread; what it raises ends the run. ``total`` is the number
        of rows. A partial that is capped has as many as the limit, and all items of the run, which may have more.

        Raises
        ------
        InputError
            When the interval is not within ``[0, n_items]``.
        """
        require_interval(start, stop, prepared.n_items)
        outlet = Outlet(sink, self.listing.limit)
        searched = prepared.searched
        limits = searched.limits()
        costs = searched.index.costs[start:stop]
        chunks = cut_by_cost(costs, self.threads, len(bounds) + 1, SERIAL_COST)
        n_chunks, workers = list_chunks(
            outlet, chunks, self.threads,
            make_worker=lambda: make_worker(searched, list_found(prepared, self.listing.limit)),
            begin=lambda worker, first: worker.begin(start + first),
            list_some=lambda worker, end: worker.search_items(searched, limits, start + end),
            pass_on=lambda worker: pass_on(searched, worker, outlet),
            cut=cut,
        )  # fmt: skip
        n_items = items_in(chunks, n_chunks)
        checksum = list_stars(prepared, outlet) if start == 0 < n_items else 0
        work = outlet.rows + sum(int(worker.found.sums[WORDS]) for worker in workers)
        if outlet.full:
            return Partial(stop - start, outlet.rows, work, capped=True)
        checksum += sum(int(worker.found.sums[CHECKSUM]) for worker in workers)
        return Partial(n_items, outlet.rows, work, checksum=checksum % (1 << 64))


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


def list_stars(prepared: PreparedMaximalListing, outlet: Outlet) -> int:
    """Pass the stars on; return their checksum."""
    stars = prepared.searched.stars
    for of_u, of_v in (stars.of_u, stars.of_v):
        for u, v in zip(_cut_rows(of_u, of_v), _cut_rows(of_v, of_u), strict=True):
            if outlet.full:
                return 0
            outlet.take(
                (u[0], np.searchsorted(prepared.ids_u, u[1]).astype(np.int32)),
                (v[0], np.searchsorted(prepared.ids_v, v[1]).astype(np.int32)),
            )
    return stars.checksum


def _cut_rows(column: RaggedColumn, other: RaggedColumn) -> Iterator[RaggedColumn]:
    """Yield the rows of a column in blocks, which are the same for the other column."""
    offsets, values = column
    both = offsets + other[0]
    begin = 0
    while begin + 1 < len(offsets):
        end = max(begin + 1, int(np.searchsorted(both, both[begin] + BLOCK_VALUES, side="right")) - 1)
        yield offsets[begin : end + 1] - offsets[begin], values[offsets[begin] : offsets[end]]
        begin = end
