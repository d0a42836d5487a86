"""Count butterflies and signed motifs on the CPU: the policy around :mod:`papilio.kernels.wedge.loops`.

A work item is a start vertex, of either layer, with its counted wedges (see :mod:`papilio.kernels.rows.index`). Items
come heaviest first and are the same on every engine. A pair of ends (u, w) with c counted wedges has C(c, 2)
butterflies with u as the first vertex in the total order (both middles then come after u) and w as the other vertex of
its layer, so each butterfly belongs to one item. The items of a part are all its starts, in the order of their wedges
in the whole graph.

Balanced butterflies and the census count every butterfly in the same way, from the pair with its first vertex in the
total order. Balanced (2,k)-bicliques need all common neighbours of every pair of one layer: that layer then comes first
in the total order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.announce import say_passed
from papilio.kernels.engine import (
    Loadable,
    Partial,
    Prepared,
    StopCheck,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.exact import check_part_vertices, check_vertices
from papilio.kernels.probe import Prober
from papilio.kernels.rows.index import FOUR_KINDS, TWO_KINDS, WedgeIndex, index_wedges
from papilio.kernels.threads import ChunkRunner, CpuEngine, cut_by_cost, items_in
from papilio.kernels.wedge import loops as kernels
from papilio.kernels.wedge.loops import KeptStarts, Tables, join_sums
from papilio.kernels.wedge.part import WedgePartIndex, count_part_edges, index_wedge_part
from papilio.kernels.wedge.probe_loops import WedgeProber
from papilio.kernels.wedge.signed_forms import census_cells, needs_all_neighbours, size_cells
from papilio.kernels.wedge.signed_loops import count_census, count_histogram, index_signed
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Butterfly, Census, Granularity, Motif
from papilio.parts import Part, WedgePart

SLICE_WEDGES_PER_EDGE = 80
"""Wedges per edge that repay a slice: a pass over the kept starts costs about four, a twentieth of the work."""


@dataclass(frozen=True, eq=False)
class PreparedButterflyCpu(Prepared):
    """A graph (with edge ids when ``per`` is ``edge``) or a part, ready for :meth:`ButterflyCpu.run`."""

    index: WedgeIndex | WedgePartIndex
    motif: Motif
    per: Granularity

    @property
    def work(self) -> NDArray[np.int64]:
        return self.index.costs


State = tuple[Any, ...]
"""Memory of one thread: its tables and, if the kernel adds to more than their sums, an array."""


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of all threads of a run."""

    n_items: int
    work: int
    states: Sequence[State]

    @property
    def total(self) -> int:
        return sum(kernels.join_sums(state[0].sums) for state in self.states)

    def add_up(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Return the sum of the arrays of all threads."""
        whole = np.zeros(shape, np.uint64)
        for _, counted in self.states:
            whole += counted
        return whole


class ButterflyCpu(CpuEngine):
    """The CPU engine of :class:`~papilio.motifs.Butterfly`; holds no graph, safe to share between threads."""

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyCpu:
        """Rank, index and cost the graph, O(n_u + n_v + n_edges), or join the blocks of a part, in all threads."""
        require_request("butterfly", Butterfly, graph, motif, per, WedgePart)
        if isinstance(graph, WedgePart):
            return self._prepare_part(graph, motif, per)
        assert isinstance(graph, BipartiteGraph)
        index = index_wedges(graph, with_edge_ids=per == "edge")
        if per == "vertex":
            check_vertices(graph, index.max_degree)
        return PreparedButterflyCpu(index, motif, per)

    def _prepare_part(
        self, part: WedgePart, motif: Motif, per: Granularity, layer: str | None = None
    ) -> PreparedButterflyCpu:
        index = index_wedge_part(part, self.threads, layer)
        if per == "vertex":
            sizes = part.sizes
            check_part_vertices(sizes.root_entries, sizes.entries, index.max_degree, index.widest_middle)
        return PreparedButterflyCpu(index, motif, per)

    def slice_work(self, prepared: PreparedButterflyCpu) -> int:
        """Return the minimum work of a slice: slices are free, except per edge, as each scans a whole graph."""
        if prepared.per == "edge" and isinstance(prepared.index, WedgeIndex):
            return SLICE_WEDGES_PER_EDGE * prepared.index.n_edges
        return 1

    def in_butterflies(self, prepared: PreparedButterflyCpu) -> tuple[int, int, int] | None:
        return (1, 0, 0) if type(prepared.motif) is Butterfly else None

    def prober(self, prepared: PreparedButterflyCpu) -> Prober:
        index = prepared.index
        return WedgeProber(index.costs, prepared.motif, lambda: (index.rows, index.items), self.threads)

    def run(
        self,
        prepared: PreparedButterflyCpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
    ) -> Partial:
        require_interval(start, stop, prepared.n_items)
        if prepared.per == "edge" and isinstance(prepared.index, WedgeIndex):
            return self._run_edges(prepared.index, [start, *bounds, stop], cut)
        return self._run_span(prepared, (start, stop), len(bounds) + 1, cut)

    def _run_span(
        self, prepared: PreparedButterflyCpu, span: tuple[int, int], n_slices: int, cut: StopCheck
    ) -> Partial:
        """Count the items ``span``, or the first of them if cut, in chunks that end anywhere."""
        index, vectors = prepared.index, {}
        if prepared.per == "edge":
            assert isinstance(index, WedgePartIndex)
            vectors["edge"] = np.zeros(index.ids.size + index.ends.size, np.uint64)
            halves = vectors["edge"][: index.ids.size], vectors["edge"][index.ids.size :]
            counted = self._count(index, span, n_slices, cut, count_part_edges, shared=halves)
        elif prepared.per == "vertex":
            own, threads = (index.n_rows,), min(self.threads, index.most_vectors)
            counted = self._count(index, span, n_slices, cut, kernels.count_vertices, own, threads=threads)
            vectors = index.vertex_vectors(counted.add_up(own))
        else:
            counted = self._count(index, span, n_slices, cut, kernels.count_total)
        return Partial(counted.n_items, counted.total, counted.work, vectors)

    def _count(
        self,
        index: WedgeIndex | WedgePartIndex,
        span: tuple[int, int],
        n_slices: int,
        cut: StopCheck,
        kernel: Callable[..., None],
        own: tuple[int, ...] | None = None,
        shared: Sequence[Any] = (),
        threads: int | None = None,
    ) -> Counted:
        """Run ``kernel(rows, items, begin, end, tables, *own, *shared)`` over chunks of the items of ``span``.

        Every thread has its own tables and, if ``own`` is a shape, its own array of that shape.
        """
        start, stop = span
        rows, items, costs = index.rows, index.items[start:stop], index.costs[start:stop]
        n_counters, max_degree = index.n_counters, index.max_degree
        n_threads = self.threads if threads is None else threads

        def make_state() -> State:
            tables = kernels.make_tables(n_counters, max_degree)
            return (tables,) if own is None else (tables, np.zeros(own, np.uint64))

        def count(state: State, begin: int, end: int) -> None:
            kernel(rows, items, begin, end, *state, *shared)

        runner = ChunkRunner(make_state, n_threads)
        chunks = cut_by_cost(costs, n_threads, n_slices)
        n_items = items_in(chunks, runner.run(chunks, count, cut, lambda at: start + at, tells=True))
        return Counted(n_items, int(costs[:n_items].sum()), runner.states)

    def _run_edges(self, index: WedgeIndex, bounds: Sequence[int], cut: StopCheck) -> Partial:
        """Run each slice's starts, then hubs, one layer after the other: each edge id has one writer."""
        support = np.zeros(index.n_supports, np.uint64)
        n_counters, max_degree = index.n_counters, index.max_degree
        runner = ChunkRunner(lambda: kernels.make_tables(n_counters, max_degree), self.threads)
        begin = end = bounds[0]
        for stop in bounds[1:]:
            if cut():
                break
            items, costs = index.items[end:stop], index.costs[end:stop]
            for layer, other in index.sides:
                chosen = (items >= layer.start) & (items < layer.stop)
                if bool(chosen.any()):
                    self._run_edge_starts(index, items[chosen], costs[chosen], support, runner)
                    starts = self._keep_starts(index, items[chosen], layer, other)
                    self._run_edge_hubs(index, starts, layer, support, runner)
            end = stop
            say_passed(end - begin)
        work = int(index.costs[begin:end].sum())
        total = sum(kernels.join_sums(tables.sums) for tables in runner.states)
        return Partial(end - begin, total, work, {"edge": index.edge_vector(support)})

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

    def _keep_starts(self, index: WedgeIndex, items: NDArray[np.int64], layer: range, other: range) -> KeptStarts:
        rows = index.rows
        member = np.zeros(len(layer), np.bool_)
        member[items - layer.start] = True
        first, last = int(index.offsets[other.start]), int(index.offsets[other.stop])
        kept = np.empty(last - first, np.uint32)
        starts = KeptStarts(first, kept, np.empty_like(kept))

        def keep(_: None, begin: int, end: int) -> None:
            kernels.keep_members(rows, member, other.start + begin, other.start + end, starts)

        degrees = np.diff(index.offsets[other.start : other.stop + 1])
        ChunkRunner(lambda: None, self.threads).run(cut_by_cost(degrees, self.threads), keep)
        return starts

    def _run_edge_hubs(
        self,
        index: WedgeIndex,
        starts: KeptStarts,
        layer: range,
        support: NDArray[np.uint64],
        runner: ChunkRunner[Tables],
    ) -> None:
        rows = index.rows

        def count(tables: Tables, begin: int, end: int) -> None:
            hubs = (layer.start + begin, layer.start + end)
            kernels.count_hub_edges(rows, index.split, index.edge_ids, starts, *hubs, tables, support)

        behind = np.diff(index.offsets[layer.start : layer.stop + 1]) - index.split[layer.start : layer.stop]
        runner.run(cut_by_cost(behind, self.threads), count)


class BalancedButterflyCpu(ButterflyCpu):
    """The CPU engine of :class:`~papilio.motifs.BalancedButterfly` and :class:`~papilio.motifs.Census`."""

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyCpu:
        """Rank, index and cost the graph, O(n_u + n_v + n_edges)."""
        require_request("balanced-butterfly", (BalancedButterfly, Census), graph, motif, per)
        assert isinstance(motif, BalancedButterfly | Census)
        assert isinstance(graph, BipartiteGraph)
        first_layer = motif.pair_side if needs_all_neighbours(motif) else None
        kinds = FOUR_KINDS if isinstance(motif, Census) else TWO_KINDS
        index = index_signed(graph, first_layer, kinds)
        if per == "vertex":
            check_vertices(graph, index.max_degree, has_edges=False)
        return PreparedButterflyCpu(index, motif, per)

    def stage(self, block: Loadable) -> Loadable:
        """Raise UnsupportedError: only whole graphs are counted."""
        raise UnsupportedError(f"signed motifs can be counted on whole graphs only, not in a {type(block).__name__}")

    def _run_span(
        self, prepared: PreparedButterflyCpu, span: tuple[int, int], n_slices: int, cut: StopCheck
    ) -> Partial:
        index, motif = prepared.index, prepared.motif
        if isinstance(motif, Census):
            own, side = (len(CENSUS_CLASSES), 2), "uv".index(motif.pair_side)
            counted = self._count(index, span, n_slices, cut, count_census, own, (side,))
            classes = [sums for _, sums in counted.states]
            cells = census_cells([sum(map(join_sums, sums)) for sums in zip(*classes, strict=True)])
            return Partial(counted.n_items, sum(cells.values()), counted.work, cells=cells)
        assert isinstance(motif, BalancedButterfly)
        if needs_all_neighbours(motif):
            shape = (index.max_degree + 1,)
            counted = self._count(index, span, n_slices, cut, count_histogram, shape)
            histogram = counted.add_up(shape)
            times = {size: int(histogram[size]) for size in np.flatnonzero(histogram).tolist()}
            cells = size_cells(motif, times)
            table = cells if motif.is_table else {}
            return Partial(counted.n_items, sum(cells.values()), counted.work, cells=table)
        return super()._run_span(prepared, span, n_slices, cut)
