"""Maximal cliques on the CPU: the policy around :mod:`papilio.kernels.clique.maximal_loops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.checksum import mix
from papilio.kernels.clique.maximal_loops import (
    Earlier,
    MaximalSearch,
    list_earlier,
    make_maximal_search,
    search_maximal,
)
from papilio.kernels.clique.order import Later, order_by_degeneracy, orient, orient_part
from papilio.kernels.clique.question import predict_maximal_work
from papilio.kernels.clique.roots import RootsCpu, heaviest_first
from papilio.kernels.clique.rows import Rows, begin_chunk, make_rows
from papilio.kernels.engine import (
    Cut,
    Partial,
    never_cut,
    require_request,
)
from papilio.motifs import Granularity, MaximalClique, Motif
from papilio.parts import CliquePart, Part


@dataclass(frozen=True, eq=False)
class PreparedMaximalCliqueCpu:
    """A graph ready for :meth:`MaximalCliqueCpu.run`."""

    later: Later
    earlier: Earlier
    hashes: NDArray[np.uint64]  # of the vertices, by rank
    roots: NDArray[np.int64]  # by item
    costs: NDArray[np.int64]  # by item, falling
    least: int
    decisions: tuple[tuple[str, str], ...]

    @property
    def n_items(self) -> int:
        """Number of work items: the vertices that have enough later neighbours."""
        return int(self.roots.size)

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return sum(a.nbytes for a in (*self.later, *self.earlier, self.hashes, self.roots, self.costs))

    @property
    def longest(self) -> int:
        """Most vertices that a clique can have."""
        return int(np.diff(self.later.indptr).max(initial=0)) + 1


class MaximalCliqueCpu(RootsCpu):
    """The CPU engine of :class:`~papilio.motifs.MaximalClique`; holds no graph, safe to share between threads.

    ``threads`` are those of one run; by default the processors that this process may use.
    """

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedMaximalCliqueCpu:
        """Order the vertices by degeneracy and orient the graph, a part of it as it is; O(n_edges log n_edges).

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity.
        """
        require_request("cpu maximal-clique", MaximalClique, graph, motif, per, CliquePart, UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph | CliquePart)
        assert isinstance(motif, MaximalClique)
        if isinstance(graph, CliquePart):
            order, later, ids = "degree", orient_part(graph), graph.ids_n
        else:
            order, later = "degeneracy", orient(graph, order_by_degeneracy(graph))
            ids = later.vertices
        earlier = list_earlier(later)
        out, back = np.diff(later.indptr), np.diff(earlier.indptr)
        work = predict_maximal_work(out, back)
        if isinstance(graph, CliquePart):
            roots = graph.roots.astype(np.int64)
            costs = work[roots]
        else:
            roots = np.flatnonzero(out + 1 >= motif.min_size)
            roots, costs = heaviest_first(roots, work[roots])
        return PreparedMaximalCliqueCpu(
            later, earlier, mix(ids.astype(np.uint64)), roots, costs, motif.min_size,
            (("order", f"by {order}: at most {int(out.max(initial=0))} later neighbours"),),
        )  # fmt: skip

    def run(
        self,
        prepared: PreparedMaximalCliqueCpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
    ) -> Partial:
        """Count exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        Raises
        ------
        InputError
            When the interval is not within ``[0, n_items]``.
        """

        def count(thread: tuple[MaximalSearch, Rows], begin: int, end: int) -> None:
            begin_chunk(thread[1], begin)
            search_roots(prepared, *thread, end)

        n_items, threads = self._run_roots(
            prepared, (start, stop), len(bounds) + 1, cut, lambda: _make_thread(prepared), count
        )
        cells: dict[tuple[int, ...], int] = {}
        checksum = work = 0
        for search, _ in threads:
            checksum += int(search.sums[0])
            work += int(search.sums[1])
            for size in np.flatnonzero(search.histogram).tolist():
                cells[(size,)] = cells.get((size,), 0) + int(search.histogram[size])
        total = sum(cells.values())
        return Partial(n_items, total, work, {}, cells, checksum=checksum % (1 << 64))


def _make_thread(prepared: PreparedMaximalCliqueCpu) -> tuple[MaximalSearch, Rows]:
    return make_maximal_search(prepared.later, prepared.earlier), make_rows(prepared.longest)


def search_roots(prepared: PreparedMaximalCliqueCpu, search: MaximalSearch, rows: Rows, end: int) -> bool:
    """Search the items below ``end``, from the cursor on; return whether they are done, else the block is full."""
    return search_maximal(
        prepared.later, prepared.earlier, search, rows, prepared.hashes, prepared.roots, end, prepared.least
    )
