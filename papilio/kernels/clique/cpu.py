"""Count cliques on the CPU: the policy around the compiled loops.

k-cliques use :mod:`papilio.kernels.clique.loops` and ``pivot_loops``, maximal cliques
:mod:`papilio.kernels.clique.maximal_loops`. Work items are roots, heaviest first; threads take them in chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique import loops, pivot_loops
from papilio.kernels.clique.loops import PLACE, RowBuffer, begin_chunk, make_rows
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
from papilio.kernels.clique.prober import CliqueProber, MaximalCliqueProber
from papilio.kernels.clique.question import (
    FRAMES,
    choose_algorithm,
    choose_probed,
    expand_leaves,
    find_rates,
    list_choices,
    predict_maximal_work,
    predict_work,
    require_part_order,
    size_range,
)
from papilio.kernels.engine import Choice, Partial, Prepared, deal_items, require_request
from papilio.kernels.exact import mix
from papilio.kernels.probe import Prober
from papilio.kernels.threads import SearchEngine
from papilio.motifs import Clique, Granularity, MaximalClique, Motif
from papilio.parts import CliquePart, Part


def order_roots(
    roots: NDArray[np.int64], costs: NDArray[np.int64], hands: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return roots and costs by descending cost, dealt in hands; ties are broken by rank."""
    order = np.argsort(-costs, kind="stable")[deal_items(costs.size, hands)]
    return roots[order], costs[order]


class PreparedRoots(Prepared):
    """Base of the prepared graphs; items are vertices, or edges, with enough later neighbours."""

    later: Later
    roots: NDArray[np.int64]  # by item

    @property
    def max_later(self) -> int:
        return int(np.diff(self.later.indptr).max(initial=0))


class RootsCpu(SearchEngine):
    """Base of the clique engines. The state of a thread is its search memory and its rows, which hold the position."""

    serial_cost = 1 << 16
    """In predicted set operations: about a millisecond."""

    def _make_rows(self, prepared: PreparedRoots) -> RowBuffer:
        return make_rows(prepared.max_later + 1)

    def _begin(self, state: tuple[Any, RowBuffer], item: int) -> None:
        begin_chunk(state[1], item)


_PER = {"total": loops.TOTAL, "vertex": loops.PER_VERTEX, "edge": loops.PER_EDGE}


@dataclass(frozen=True, eq=False)
class PreparedCliqueCpu(PreparedRoots):
    """A graph ready for :meth:`CliqueCpu.run`."""

    later: Later
    roots: NDArray[np.int64]  # by item
    costs: NDArray[np.int64]  # by item, descending
    motif: Clique
    per: Granularity
    n_edges: int
    algorithm: str  # orient or pivot
    probed: str  # the same for probes, which do not depend on the engine
    choices: NDArray[np.uint64]  # see list_choices; none for a total
    decisions: tuple[Choice, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        return size_range(self.motif, self.max_later)


class CliqueCpu(RootsCpu):
    """The CPU engine of :class:`~papilio.motifs.Clique`; holds no graph, safe to share between threads.

    Parameters
    ----------
    threads : int, optional
        Threads of one run; by default the processors available to this process.
    algorithm : {"auto", "orient", "pivot"}
        ``orient`` takes vertices in order, ``pivot`` counts many cliques at a leaf (Almasri et al., ICS'22, sections
        3.1 and 3.2).
    order : {"auto", "degeneracy", "degree"}
        The order that orients the graph; ``auto`` is the degeneracy.
    """

    def __init__(self, threads: int | None = None, algorithm: str = "auto", order: str = "auto") -> None:
        super().__init__(threads)
        self.algorithm, self.order = algorithm, order

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedCliqueCpu:
        """Order the vertices and orient the graph, leaving a part unchanged; O(n_edges log n_edges)."""
        require_request("cpu clique", Clique, graph, motif, per, CliquePart, UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph | CliquePart)
        assert isinstance(motif, Clique)
        algorithm, reason = choose_algorithm(motif, per, self.algorithm, self.name)
        later, by_degree = self._orient(graph)
        out = np.diff(later.indptr)
        max_later = int(out.max(initial=0))
        if isinstance(graph, CliquePart):
            roots = graph.roots.astype(np.int64)
            costs = predict_work(out[roots])
        else:
            roots = np.flatnonzero(out + 1 >= (motif.k or 1))
            roots, costs = order_roots(roots, predict_work(out[roots]), self.hands)
        choices = np.zeros(1, np.uint64)
        if per != "total" and roots.size:
            choices = list_choices(max_later + 1, size_range(motif, max_later)[1])
        ordered = f"by {'degree' if by_degree else 'degeneracy'}: at most {max_later} later neighbours"
        return PreparedCliqueCpu(
            later, roots, costs, motif, per, int(later.ids.size), algorithm,
            choose_probed(motif, per, self.algorithm), choices,
            (("order", ordered), ("algorithm", f"{algorithm}: {reason}")),
        )  # fmt: skip

    def _orient(self, graph: UnipartiteGraph | CliquePart) -> tuple[Later, bool]:
        """Return the later neighbours, and whether the order is by degree."""
        if isinstance(graph, CliquePart):
            require_part_order(self.order)
            return orient_part(graph), True
        by_degree = self.order == "degree"
        return orient(graph, order_by_degree(graph) if by_degree else order_by_degeneracy(graph)), by_degree

    def prober(self, prepared: PreparedCliqueCpu) -> Prober:
        rates = find_rates(self.name, prepared.probed, prepared.per, prepared.motif.k)
        search = prepared.sizes, prepared.probed == "orient", _PER[prepared.per], prepared.max_later, FRAMES
        return CliqueProber(prepared.costs, prepared.roots, lambda roots: prepared.later, *search, rates, self.threads)

    def _make_state(self, prepared: PreparedCliqueCpu) -> tuple[loops.CliqueStack, RowBuffer]:
        per = _PER[prepared.per]
        search = loops.make_search(prepared.later, prepared.max_later, per, prepared.n_edges)
        return search, self._make_rows(prepared)

    def _search(self, prepared: PreparedCliqueCpu, state: tuple[loops.CliqueStack, RowBuffer], end: int) -> bool:
        (search, rows), (least, most) = state, prepared.sizes
        items = prepared.roots, int(rows.cursor[PLACE]), end
        if prepared.algorithm == "orient":
            loops.count_oriented(prepared.later, search, *items, most)
        else:
            per = _PER[prepared.per]
            pivot_loops.count_pivots(prepared.later, search, *items, least, most, prepared.choices, per)
        return True

    def _fold(
        self,
        prepared: PreparedCliqueCpu,
        span: tuple[int, int],
        states: Sequence[tuple[loops.CliqueStack, RowBuffer]],
    ) -> Partial:
        least, most = prepared.sizes
        cells: dict[tuple[int, ...], int] = {}
        total, work = 0, 0
        for search, _ in states:
            total += int(search.total[0]) + (int(search.total[1]) << 64)
            work += int(search.total[2])
            expand_leaves(search.leaves, prepared.max_later + 2, least, most, cells)
        total += sum(cells.values())
        vectors = _vectors_of(prepared, [search for search, _ in states])
        return Partial(span[1] - span[0], total, work, vectors, cells if prepared.motif.is_table else {})


def _vectors_of(prepared: PreparedCliqueCpu, searches: Sequence[loops.CliqueStack]) -> dict[str, NDArray[np.uint64]]:
    if prepared.per == "total":
        return {}
    name, size = ("n", prepared.later.indptr.size - 1) if prepared.per == "vertex" else ("edge", prepared.n_edges)
    vector = np.zeros(size, np.uint64)
    for search in searches:
        vector += search.vertex_sums if prepared.per == "vertex" else search.edge_sums
    return {name: vector}


@dataclass(frozen=True, eq=False)
class PreparedMaximalCliqueCpu(PreparedRoots):
    """A graph ready for :meth:`MaximalCliqueCpu.run`."""

    later: Later
    earlier: Earlier
    hashes: NDArray[np.uint64]  # of the vertices, by rank
    roots: NDArray[np.int64]  # by item
    costs: NDArray[np.int64]  # by item, descending
    least: int
    decisions: tuple[Choice, ...]


class MaximalCliqueCpu(RootsCpu):
    """The CPU engine of :class:`~papilio.motifs.MaximalClique`; holds no graph, safe to share between threads.

    ``threads`` is the number of threads of one run; by default the processors available to this process.
    """

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedMaximalCliqueCpu:
        """Order by degeneracy and orient the graph, leaving a part unchanged; O(n_edges log n_edges)."""
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
            roots, costs = order_roots(roots, work[roots], self.hands)
        return PreparedMaximalCliqueCpu(
            later, earlier, mix(ids.astype(np.uint64)), roots, costs, motif.min_size,
            (("order", f"by {order}: at most {int(out.max(initial=0))} later neighbours"),),
        )  # fmt: skip

    def prober(self, prepared: PreparedMaximalCliqueCpu) -> Prober:
        rates, rows = find_rates(self.name, "maximal"), (prepared.later, prepared.earlier)
        search = prepared.least, prepared.max_later
        return MaximalCliqueProber(prepared.costs, prepared.roots, lambda roots: rows, *search, rates, self.threads)

    def _make_state(self, prepared: PreparedMaximalCliqueCpu) -> tuple[MaximalSearch, RowBuffer]:
        return make_maximal_search(prepared.later, prepared.earlier), self._make_rows(prepared)

    def _search(self, prepared: PreparedMaximalCliqueCpu, state: tuple[MaximalSearch, RowBuffer], end: int) -> bool:
        later, earlier, (search, rows) = prepared.later, prepared.earlier, state
        return search_maximal(later, earlier, search, rows, prepared.hashes, prepared.roots, end, prepared.least)

    def _fold(
        self,
        prepared: PreparedMaximalCliqueCpu,
        span: tuple[int, int],
        states: Sequence[tuple[MaximalSearch, RowBuffer]],
    ) -> Partial:
        cells: dict[tuple[int, ...], int] = {}
        checksum = work = 0
        for search, _ in states:
            checksum += int(search.sums[0])
            work += int(search.sums[1])
            for size in np.flatnonzero(search.histogram).tolist():
                cells[(size,)] = cells.get((size,), 0) + int(search.histogram[size])
        total = sum(cells.values())
        return Partial(span[1] - span[0], total, work, {}, cells, checksum=checksum % (1 << 64))
