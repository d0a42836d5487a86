"""k-cliques on the CPU: the policy around :mod:`papilio.kernels.clique.loops` and ``pivot_loops``.

Maximal cliques on the CPU: the policy around :mod:`papilio.kernels.clique.maximal_loops`.

What the CPU engines of cliques share: their items are roots, heaviest first, which threads take in chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique import loops, pivot_loops
from papilio.kernels.clique.loops import Rows, begin_chunk, make_rows
from papilio.kernels.clique.maximal_loops import (
    Earlier,
    MaximalSearch,
    list_earlier,
    make_maximal_search,
    search_maximal,
)
from papilio.kernels.clique.order import (
    Later,
    order_by_degeneracy,
    order_by_degree,
    orient,
    orient_part,
)
from papilio.kernels.clique.question import (
    choose_algorithm,
    expand_leaves,
    list_choices,
    predict_maximal_work,
    predict_work,
    require_part_order,
    size_range,
)
from papilio.kernels.engine import (
    Cut,
    Partial,
    never_cut,
    require_request,
)
from papilio.kernels.exact import mix
from papilio.kernels.threads import CpuEngine
from papilio.motifs import Clique, Granularity, MaximalClique, Motif
from papilio.parts import CliquePart, Part

SERIAL_COST = 1 << 16
"""Below this many predicted set operations (about a millisecond) threads cost more than they bring."""


def heaviest_first(
    roots: NDArray[np.int64], costs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return roots and costs by falling cost, equal ones by rank."""
    order = np.argsort(-costs, kind="stable")
    return roots[order], costs[order]


class RootsCpu(CpuEngine):
    """Base of the engines of cliques, whose items are roots with a cost each."""

    def work(self, prepared: PreparedCliqueCpu | PreparedMaximalCliqueCpu) -> NDArray[np.int64]:
        return prepared.costs


_PER = {"total": loops.TOTAL, "vertex": loops.PER_VERTEX, "edge": loops.PER_EDGE}


@dataclass(frozen=True, eq=False)
class PreparedCliqueCpu:
    """A graph ready for :meth:`CliqueCpu.run`."""

    later: Later
    roots: NDArray[np.int64]  # by item
    costs: NDArray[np.int64]  # by item, falling
    motif: Clique
    per: Granularity
    n_edges: int
    algorithm: str  # orient or pivot
    decisions: tuple[tuple[str, str], ...]

    @property
    def n_items(self) -> int:
        """Number of work items: the vertices that have enough later neighbours."""
        return int(self.roots.size)

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return sum(array.nbytes for array in (*self.later, self.roots, self.costs))

    @property
    def sizes(self) -> tuple[int, int]:
        """The least and the most vertices of a clique that is counted."""
        return size_range(self.motif, self.most_later)

    @property
    def most_later(self) -> int:
        """Most later neighbours of a vertex."""
        return int(np.diff(self.later.indptr).max(initial=0))


class CliqueCpu(RootsCpu):
    """The CPU engine of :class:`~papilio.motifs.Clique`; holds no graph, safe to share between threads.

    Parameters
    ----------
    threads : int, optional
        Threads of one run; by default the processors that this process may use.
    algorithm : {"auto", "orient", "pivot"}
        ``orient`` takes vertices in order, ``pivot`` counts many cliques at a leaf (Almasri et al., ICS'22, sections
        3.1 and 3.2).
    order : {"auto", "degeneracy", "degree"}
        What the graph is oriented by; ``auto`` is the degeneracy.

    Raises
    ------
    InputError
        For a number of threads below 1.
    """

    def __init__(self, threads: int | None = None, algorithm: str = "auto", order: str = "auto") -> None:
        super().__init__(threads)
        self.algorithm, self.order = algorithm, order

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedCliqueCpu:
        """Order the vertices and orient the graph, a part of it as it is; O(n_edges log n_edges).

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity, for ``orient`` where it cannot count what is asked, and for
            an order that a part has not.
        """
        require_request("cpu clique", Clique, graph, motif, per, CliquePart, UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph | CliquePart)
        assert isinstance(motif, Clique)
        algorithm, reason = choose_algorithm(motif, per, self.algorithm, self.name)
        later, by_degree = self._orient(graph)
        out = np.diff(later.indptr)
        if isinstance(graph, CliquePart):
            roots = graph.roots.astype(np.int64)
            costs = predict_work(out[roots])
        else:
            roots = np.flatnonzero(out + 1 >= (motif.k or 1))
            roots, costs = heaviest_first(roots, predict_work(out[roots]))
        ordered = f"by {'degree' if by_degree else 'degeneracy'}: at most {int(out.max(initial=0))} later neighbours"
        return PreparedCliqueCpu(
            later, roots, costs, motif, per, int(later.ids.size), algorithm,
            (("order", ordered), ("algorithm", f"{algorithm}: {reason}")),
        )  # fmt: skip

    def _orient(self, graph: UnipartiteGraph | CliquePart) -> tuple[Later, bool]:
        """Return the later neighbours, and whether they are those of the order by degree."""
        if isinstance(graph, CliquePart):
            require_part_order(self.order)
            return orient_part(graph), True
        by_degree = self.order == "degree"
        return orient(graph, order_by_degree(graph) if by_degree else order_by_degeneracy(graph)), by_degree

    def run(
        self,
        prepared: PreparedCliqueCpu,
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
        per, later, roots = _PER[prepared.per], prepared.later, prepared.roots
        least, most = prepared.sizes
        choose = np.zeros(1, np.uint64)
        if per != loops.TOTAL and prepared.n_items:
            choose = list_choices(prepared.most_later + 1, most)

        def count(search: loops.Search, begin: int, end: int) -> None:
            if prepared.algorithm == "orient":
                loops.count_oriented(later, search, roots, begin, end, most)
            else:
                pivot_loops.count_pivots(later, search, roots, begin, end, least, most, choose, per)

        n_items, searches = self._run_items(
            prepared.costs, (start, stop), len(bounds) + 1, cut,
            lambda: loops.make_search(later, prepared.most_later, per, prepared.n_edges), count, SERIAL_COST,
        )  # fmt: skip
        cells: dict[tuple[int, ...], int] = {}
        total, work = 0, 0
        for search in searches:
            total += int(search.total[0]) + (int(search.total[1]) << 64)
            work += int(search.total[2])
            expand_leaves(search.leaves, prepared.most_later + 2, least, most, cells)
        total += sum(cells.values())
        vectors = _vectors_of(prepared, searches)
        return Partial(n_items, total, work, vectors, cells if prepared.motif.is_table else {})


def _vectors_of(
    prepared: PreparedCliqueCpu, searches: Sequence[loops.Search]
) -> dict[str, NDArray[np.uint64]]:
    if prepared.per == "total":
        return {}
    name, size = (
        ("n", prepared.later.indptr.size - 1) if prepared.per == "vertex" else ("edge", prepared.n_edges)
    )
    vector = np.zeros(size, np.uint64)
    for search in searches:
        vector += search.vertex_sums if prepared.per == "vertex" else search.edge_sums
    return {name: vector}


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

        n_items, threads = self._run_items(
            prepared.costs,
            (start, stop),
            len(bounds) + 1,
            cut,
            lambda: _make_thread(prepared),
            count,
            SERIAL_COST,
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
