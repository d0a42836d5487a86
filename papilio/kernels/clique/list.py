"""Listing cliques on the CPU: the searches that count them pass what they find on as rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.kernels.clique.cpu import (
    SERIAL_COST,
    CliqueCpu,
    MaximalCliqueCpu,
    PreparedCliqueCpu,
    PreparedMaximalCliqueCpu,
    search_roots,
)
from papilio.kernels.clique.loops import (
    TOTAL,
    Rows,
    Search,
    begin_chunk,
    list_cliques,
    make_rows,
    make_search,
)
from papilio.kernels.clique.maximal_loops import MaximalSearch, make_maximal_search
from papilio.kernels.clique.question import Restricted, restrict_graph
from papilio.kernels.engine import require_request
from papilio.kernels.exact import mix
from papilio.kernels.listing import CpuLister, Outlet, empty_block
from papilio.motifs import Clique, Granularity, Listing, MaximalClique, Motif

Searched = PreparedCliqueCpu | PreparedMaximalCliqueCpu


@dataclass(frozen=True, eq=False)
class PreparedListing:
    """A graph ready for the ``run`` of a lister."""

    searched: Searched  # the graph that is left to search
    row_size: int | None  # vertices of a row; None for any number
    positions: NDArray[np.int32]  # in ``ids_n``, of every rank
    held: NDArray[np.int32]  # positions that are added to each clique
    held_hash: int  # sum of the hashes of these vertices
    ids_n: NDArray[np.int32]  # ids of all vertices that can be in a row, rising
    decisions: tuple[tuple[str, str], ...]

    @property
    def work(self) -> NDArray[np.int64]:
        """Predicted set operations of each item, falling."""
        return self.searched.costs

    @property
    def n_items(self) -> int:
        """Number of work items: the vertices that have enough later neighbours."""
        return self.searched.n_items

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return self.searched.nbytes + self.positions.nbytes + self.held.nbytes + self.ids_n.nbytes


def _finish(
    graph: UnipartiteGraph, left: Restricted, searched: Searched, row_size: int | None
) -> PreparedListing:
    ids = np.union1d(left.ids, left.held).astype(np.int32)
    decisions = searched.decisions[:1]
    if left.graph is not graph:
        decisions = (left.reason, *decisions)
    return PreparedListing(
        searched,
        row_size,
        np.searchsorted(ids, left.ids[searched.later.vertices]).astype(np.int32),
        np.searchsorted(ids, left.held).astype(np.int32),
        int(mix(left.held.astype(np.uint64)).sum(dtype=np.uint64)),
        ids,
        decisions,
    )


def refuse_counting(algorithm: str) -> None:
    """Reject the algorithm that only counts."""
    if algorithm == "pivot":
        raise UnsupportedError("algorithm 'pivot' counts without visiting every clique; list with 'orient'")


class _Lister(CpuLister):
    """Base of the listers; a worker is a search, and its rows."""

    serial_cost = SERIAL_COST

    def _make_worker(self, prepared: PreparedListing) -> tuple[Any, Rows]:
        search, longest = self._make_search(prepared.searched)
        rows = make_rows(longest, prepared.positions, prepared.held, prepared.held_hash, self.listing.limit)
        return search, rows

    def _begin(self, worker: tuple[Any, Rows], item: int) -> None:
        begin_chunk(worker[1], item)

    def _pass_on(self, prepared: PreparedListing, worker: tuple[Any, Rows], outlet: Outlet) -> None:
        outlet.take(empty_block(worker[1].block, prepared.row_size))

    @abstractmethod
    def _make_search(self, searched: Any) -> tuple[Any, int]:
        """Return what one thread searches in, and the most vertices that it finds for a row."""


class CliqueLister(_Lister):
    """Lists the cliques of one k; holds no graph, safe to share between threads.

    Parameters
    ----------
    threads : int, optional
        Threads of one run; by default the processors that this process may use.
    listing : Listing
        Which are listed.
    algorithm, order
        As for :class:`~papilio.kernels.clique.cpu.CliqueCpu`; ``pivot`` cannot list.

    Raises
    ------
    UnsupportedError
        For an algorithm that only counts.
    """

    def __init__(
        self,
        threads: int | None,
        listing: Listing,
        algorithm: str = "auto",
        order: str = "auto",
    ) -> None:
        super().__init__(threads, listing)
        refuse_counting(algorithm)
        self.order = order

    def prepare(self, graph: UnipartiteGraph, motif: Motif, per: Granularity) -> PreparedListing:
        """Set aside what must be held, order the vertices and orient the graph.

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity.
        """
        require_request("listing", Clique, graph, motif, per, graph_type=UnipartiteGraph)
        assert isinstance(motif, Clique)
        assert motif.k is not None
        left = restrict_graph(graph, np.array(self.listing.with_u, np.int32), motif.k)
        size = Clique(max(motif.k - left.held.size, 1))
        searched = CliqueCpu(self.threads, order=self.order).prepare(left.graph, size, per)
        return _finish(graph, left, searched, motif.k)

    def _make_search(self, searched: PreparedCliqueCpu) -> tuple[Search, int]:
        search = make_search(searched.later, searched.most_later, TOTAL, 0)
        return search, min(searched.sizes[0], searched.most_later + 1)

    def _list_some(self, prepared: PreparedListing, worker: tuple[Search, Rows], end: int) -> bool:
        searched = prepared.searched
        assert isinstance(searched, PreparedCliqueCpu)
        return list_cliques(searched.later, *worker, searched.roots, end, searched.sizes[0])

    def _finish(
        self, prepared: Any, span: tuple[int, int], workers: Sequence[tuple[Search, Rows]], outlet: Outlet
    ) -> tuple[int, int]:
        return sum(int(search.total[2]) for search, _ in workers), 0


class MaximalCliqueLister(_Lister):
    """Lists maximal cliques; holds no graph, safe to share between threads. Parameters as for a k."""

    def prepare(self, graph: UnipartiteGraph, motif: Motif, per: Granularity) -> PreparedListing:
        """Set aside what must be held, order the vertices and orient the graph.

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity.
        """
        require_request("listing", MaximalClique, graph, motif, per, graph_type=UnipartiteGraph)
        assert isinstance(motif, MaximalClique)
        left = restrict_graph(graph, np.array(self.listing.with_u, np.int32), None)
        size = MaximalClique(max(motif.min_size - left.held.size, 1))
        searched = MaximalCliqueCpu(self.threads).prepare(left.graph, size, per)
        ids = left.ids[searched.later.vertices]
        return _finish(graph, left, replace(searched, hashes=mix(ids.astype(np.uint64))), None)

    def _make_search(self, searched: PreparedMaximalCliqueCpu) -> tuple[MaximalSearch, int]:
        return make_maximal_search(searched.later, searched.earlier), searched.longest

    def _list_some(self, prepared: PreparedListing, worker: tuple[MaximalSearch, Rows], end: int) -> bool:
        assert isinstance(prepared.searched, PreparedMaximalCliqueCpu)
        return search_roots(prepared.searched, *worker, end)

    def _finish(
        self,
        prepared: Any,
        span: tuple[int, int],
        workers: Sequence[tuple[MaximalSearch, Rows]],
        outlet: Outlet,
    ) -> tuple[int, int]:
        found = [search.sums for search, _ in workers]
        return sum(int(sums[1]) for sums in found), sum(int(sums[0]) for sums in found)
