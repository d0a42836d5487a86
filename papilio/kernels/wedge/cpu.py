"""Butterflies on the CPU: the policy around :mod:`papilio.kernels.wedge.loops`.

A work item is a start vertex, of either layer, with its counted wedges (see
:mod:`papilio.kernels.wedge.graph`); items come heaviest first and are the same on every engine. For the pair
of ends (u, w) with c counted wedges there are C(c, 2) butterflies whose vertex that is first in the total
order is u (then both middles come after u) and whose other vertex of that layer is w: each butterfly belongs
to one item. The items of a part are all its starts, in the order of their wedges in the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_part_vertices, check_vertices
from papilio.kernels.engine import (
    Cut,
    EngineName,
    Loadable,
    Partial,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost, items_in
from papilio.kernels.wedge import loops as kernels
from papilio.kernels.wedge.graph import WedgeIndex, index_wedges
from papilio.kernels.wedge.loops import KeptStarts, Tables
from papilio.kernels.wedge.part import WedgePartIndex, count_part_edges, index_wedge_part
from papilio.motifs import Butterfly, Granularity, Motif
from papilio.parts import Part, WedgePart

__all__ = ["ButterflyCpu", "PreparedButterflyCpu"]

SLICE_WEDGES_PER_EDGE = 80
"""A pass over the kept starts costs about four wedges an edge: at this slice, a twentieth of its work."""


@dataclass(frozen=True, eq=False)
class PreparedButterflyCpu:
    """A graph or part ready for :meth:`ButterflyCpu.run`.

    Attributes
    ----------
    index : WedgeIndex or WedgePartIndex
        The graph by rank, with edge ids when ``per`` is ``edge``; or the part.
    per : {"total", "vertex", "edge"}
        What is counted.
    """

    index: WedgeIndex | WedgePartIndex
    per: Granularity

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return int(self.index.items.size)

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return self.index.nbytes


class ButterflyCpu:
    """The CPU engine of :class:`~papilio.motifs.Butterfly`; holds no graph, safe to share between threads.

    Parameters
    ----------
    threads : int, optional
        Threads of one run; by default the processors that this process may use.
    """

    name: EngineName = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = choose_threads(threads)

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyCpu:
        """Rank, index and cost the graph, O(n_u + n_v + n_edges), or join the blocks of a part, in all threads.

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or part, or granularity.
        CapacityError
            When ``per`` is ``vertex`` and a count could pass 2^63 - 1.
        """
        require_request("butterfly", Butterfly, graph, motif, per, WedgePart)
        if isinstance(graph, WedgePart):
            part = index_wedge_part(graph, self.threads)
            if per == "vertex":
                sizes = graph.sizes
                check_part_vertices(sizes.root_entries, sizes.entries, part.max_degree, part.widest_middle)
            return PreparedButterflyCpu(part, per)
        assert isinstance(graph, BipartiteGraph)
        index = index_wedges(graph, with_edge_ids=per == "edge")
        if per == "vertex":
            check_vertices(graph, index.max_degree)
        return PreparedButterflyCpu(index, per)

    def stage(self, block: Loadable) -> Loadable:
        """Return the block: it is on the host, where the engine runs."""
        return block

    def work(self, prepared: PreparedButterflyCpu) -> NDArray[np.int64]:
        """Return the counted wedges of each item, shape (n_items,); heaviest first, but for a part."""
        return prepared.index.costs

    def slice_work(self, prepared: PreparedButterflyCpu) -> int:
        """Per edge, every slice passes over all edges of both layers of a whole graph; else slices cost nothing."""
        if prepared.per == "edge" and isinstance(prepared.index, WedgeIndex):
            return SLICE_WEDGES_PER_EDGE * prepared.index.n_edges
        return 1

    def run(
        self,
        prepared: PreparedButterflyCpu,
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
        require_interval(start, stop, prepared.n_items)
        index = prepared.index
        if prepared.per == "edge" and isinstance(index, WedgePartIndex):
            return self._run_part_edges(index, start, stop, len(bounds) + 1, cut)
        if prepared.per == "edge" and isinstance(index, WedgeIndex):
            return self._run_edges(index, [start, *bounds, stop], cut)
        if prepared.per == "vertex":
            return self._run_vertices(index, start, stop, len(bounds) + 1, cut)
        return self._run_total(index, start, stop, len(bounds) + 1, cut)

    def _run_total(
        self, index: WedgeIndex | WedgePartIndex, start: int, stop: int, n_slices: int, cut: Cut
    ) -> Partial:
        rows, items = index.rows, index.items[start:stop]

        def count(tables: Tables, begin: int, end: int) -> None:
            kernels.count_total(rows, items, begin, end, tables)

        runner = ChunkRunner(_tables_of(index), self.threads)
        chunks = cut_by_cost(index.costs[start:stop], self.threads, n_slices)
        n_items = items_in(chunks, runner.run(chunks, count, cut))
        work = int(index.costs[start : start + n_items].sum())
        return Partial(n_items, _sum_tables(runner.states), work)

    def _run_vertices(
        self, index: WedgeIndex | WedgePartIndex, start: int, stop: int, n_slices: int, cut: Cut
    ) -> Partial:
        rows, items = index.rows, index.items[start:stop]
        n_rows = index.n_rows
        make_tables = _tables_of(index)

        def make_state() -> tuple[Tables, NDArray[np.uint64]]:
            return make_tables(), np.zeros(n_rows, np.uint64)

        def count(state: tuple[Tables, NDArray[np.uint64]], begin: int, end: int) -> None:
            kernels.count_vertices(rows, items, begin, end, *state)

        threads = min(self.threads, index.most_vectors)
        runner = ChunkRunner(make_state, threads)
        chunks = cut_by_cost(index.costs[start:stop], threads, n_slices)
        n_items = items_in(chunks, runner.run(chunks, count, cut))
        counts = runner.states[0][1]
        for _, more in runner.states[1:]:
            counts += more
        total = _sum_tables([tables for tables, _ in runner.states])
        work = int(index.costs[start : start + n_items].sum())
        return Partial(n_items, total, work, index.vertex_vectors(counts))

    def _run_part_edges(
        self, index: WedgePartIndex, start: int, stop: int, n_slices: int, cut: Cut
    ) -> Partial:
        """Each start writes its own edges; those of ends are added to by all threads, atomically."""
        rows, items = index.rows, index.items[start:stop]
        support = np.zeros(index.ids.size + index.ends.size, np.uint64)
        of_starts, of_ends = support[: index.ids.size], support[index.ids.size :]

        def count(tables: Tables, begin: int, end: int) -> None:
            count_part_edges(rows, items, begin, end, tables, of_starts, of_ends)

        runner = ChunkRunner(_tables_of(index), self.threads)
        chunks = cut_by_cost(index.costs[start:stop], self.threads, n_slices)
        n_items = items_in(chunks, runner.run(chunks, count, cut))
        work = int(index.costs[start : start + n_items].sum())
        return Partial(n_items, _sum_tables(runner.states), work, {"edge": support})

    def _run_edges(self, index: WedgeIndex, bounds: Sequence[int], cut: Cut) -> Partial:
        """Run, in every slice, starts, then hubs, of one layer after the other: each edge has one writer."""
        support = np.zeros(index.n_edges, np.uint64)
        layer_u, layer_v = (0, index.n_u), (index.n_u, index.n_u + index.n_v)
        starts_runner = ChunkRunner(_tables_of(index), self.threads)
        hubs_runner = ChunkRunner(_tables_of(index), self.threads)
        begin = end = bounds[0]
        for stop in bounds[1:]:
            if cut():
                break
            items, costs = index.items[end:stop], index.costs[end:stop]
            for layer, other in ((layer_u, layer_v), (layer_v, layer_u)):
                chosen = (items >= layer[0]) & (items < layer[1])
                if bool(chosen.any()):
                    self._run_edge_starts(index, items[chosen], costs[chosen], support, starts_runner)
                    starts = self._keep_starts(index, items[chosen], layer, other)
                    self._run_edge_hubs(index, starts, layer, support, hubs_runner)
            end = stop
        work = int(index.costs[begin:end].sum())
        return Partial(end - begin, _sum_tables(starts_runner.states), work, {"edge": support})

    def _run_edge_starts(
        self,
        index: WedgeIndex,
        items: NDArray[np.int64],
        costs: NDArray[np.int64],
        support: NDArray[np.uint64],
        runner: ChunkRunner[Tables],
    ) -> None:
        rows = index.rows

        def count(tables: Tables, begin: int, end: int) -> None:
            kernels.count_start_edges(rows, index.edge_ids, items, begin, end, tables, support)

        runner.run(cut_by_cost(costs, self.threads), count)

    def _keep_starts(
        self, index: WedgeIndex, items: NDArray[np.int64], layer: tuple[int, int], other: tuple[int, int]
    ) -> KeptStarts:
        rows = index.rows
        member = np.zeros(layer[1] - layer[0], np.bool_)
        member[items - layer[0]] = True
        kept = np.empty(index.n_edges, np.uint32)
        starts = KeptStarts(int(index.offsets[other[0]]), kept, np.empty_like(kept))

        def keep(_: None, begin: int, end: int) -> None:
            kernels.keep_members(rows, member, other[0] + begin, other[0] + end, starts)

        degrees = np.diff(index.offsets[other[0] : other[1] + 1])
        ChunkRunner(lambda: None, self.threads).run(cut_by_cost(degrees, self.threads), keep)
        return starts

    def _run_edge_hubs(
        self,
        index: WedgeIndex,
        starts: KeptStarts,
        layer: tuple[int, int],
        support: NDArray[np.uint64],
        runner: ChunkRunner[Tables],
    ) -> None:
        rows = index.rows

        def count(tables: Tables, begin: int, end: int) -> None:
            hubs = (layer[0] + begin, layer[0] + end)
            kernels.count_hub_edges(rows, index.split, index.edge_ids, starts, *hubs, tables, support)

        behind = np.diff(index.offsets[layer[0] : layer[1] + 1]) - index.split[layer[0] : layer[1]]
        runner.run(cut_by_cost(behind, self.threads), count)


def _tables_of(index: WedgeIndex | WedgePartIndex) -> Callable[[], Tables]:
    """Return the maker of one thread's tables."""
    n_ranks, max_degree = index.n_ranks, index.max_degree
    return lambda: kernels.make_tables(n_ranks, max_degree)


def _sum_tables(tables: list[Tables]) -> int:
    return sum(kernels.join_sums(table.sums) for table in tables)
