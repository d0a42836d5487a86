"""Listing maximal bicliques on the CPU: the search that counts them passes what it finds on as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Ids32
from papilio.kernels.biclique.restrict import restrict_to_common
from papilio.kernels.engine import require_request
from papilio.kernels.lister import CpuLister
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
from papilio.kernels.rows import BLOCK_VALUES, Outlet, empty_block, make_row_block
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
        checksum = list_stars(prepared, outlet) if span[0] == 0 < span[1] else 0
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
