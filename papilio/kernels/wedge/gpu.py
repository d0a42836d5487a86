"""Count butterflies, signed motifs and 4-cycles on the GPU: prepared graphs and the launches of ``butterfly.cu``.

Butterflies are counted in whole graphs and in parts. Signed motifs share their kernels, schedules and work items;
``wedges.cuh`` describes the effect of signs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.device.arrays import copy_arrays
from papilio.kernels.device.protocol import Device, Launch, Module, launch_slices
from papilio.kernels.engine import (
    Choice,
    Engine,
    EngineName,
    Loadable,
    Partial,
    Prepared,
    StopCheck,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.exact import check_part_vertices, check_run_wedges, check_vertices
from papilio.kernels.probe import Prober
from papilio.kernels.rows.gpu_index import (
    UNSIGNED,
    Counting,
    WedgeGraph,
    WedgePartGraph,
    build_wedge_graph,
    build_wedge_part,
    fill_hub_rows,
    gather_edges,
    stage_wedges,
)
from papilio.kernels.rows.index import WedgeRows
from papilio.kernels.threads import choose_threads
from papilio.kernels.tuning import WedgeTuning, wedge_tuning
from papilio.kernels.wedge.gpu_schedule import (
    NOT_SCHEDULED,
    SCHEDULE_SHIFT,
    Schedule,
    SplitStarts,
    check_start_bound,
    choose_split_starts,
    launch_split_starts,
    make_schedules,
    mark_hub_starts,
    measure_costs,
    order_falling,
    order_items,
    schedule_items,
    take_scheduled,
)
from papilio.kernels.wedge.probe_loops import WedgeProber
from papilio.kernels.wedge.signed_forms import census_cells, needs_all_neighbours, size_cells
from papilio.motifs import (
    CENSUS_CLASSES,
    GRANULARITIES,
    BalancedButterfly,
    Butterfly,
    Census,
    FourCycle,
    Granularity,
    Motif,
)
from papilio.parts import Layer, Part, RootPart, WedgePart


@dataclass(frozen=True, eq=False)
class PreparedButterflyGpu(Prepared):
    """A graph or part ready for :meth:`ButterflyGpu.run`, on the device."""

    motif: Motif
    # The original graph, on the host; None for a part.
    source: BipartiteGraph | UnipartiteGraph | None
    per: Granularity
    # The graph in rank space, or the part; None for a graph without edges.
    graph: WedgeGraph | WedgePartGraph | None
    # Start row of each work item, int32, and its wedges, uint64; descending, except in a part.
    items: Any
    costs: Any
    # The bit matrix, uint32; None if no start uses it.
    hub_rows: Any = None
    schedules: tuple[Schedule, ...] = ()
    # (schedule << 32 | item), ascending: the items of each schedule; padded with all ones. uint64.
    scheduled: Any = None
    # Start row of each entry: minus 2^31 if its hub ends go through the bit matrix, -1 for none: int32.
    scheduled_rows: Any = None
    # Items shared by blocks, outside every schedule.
    split: SplitStarts | None = None
    # Slower choices forced by too little device memory, and the reasons.
    decisions: tuple[Choice, ...] = ()


class ButterflyGpu(Engine):
    """The GPU engine of :class:`~papilio.motifs.Butterfly`; ``tuning`` defaults to the constants of the device."""

    name: EngineName = "gpu"
    takes_device_graphs = True

    def __init__(self, device: Device, tuning: WedgeTuning | None = None) -> None:
        self.device = device
        self.tuning = tuning if tuning is not None else wedge_tuning(device.max_shared_bytes)

    def stage(self, block: Loadable) -> Loadable:
        """Copy the large arrays of a block to the device, while kernels of other threads run."""
        if isinstance(block, RootPart):
            raise UnsupportedError("the butterfly engine cannot count a RootPart")
        with self.device.guard(), self.device.staging():
            return stage_wedges(self.device, block)

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyGpu:
        require_request("butterfly", Butterfly, graph, motif, per, WedgePart)
        if isinstance(graph, WedgePart):
            with self.device.guard():
                return self._prepare_part(graph, motif, per)
        assert isinstance(graph, BipartiteGraph)
        return self._prepare_graph(graph, motif, per)

    def _prepare_graph(
        self,
        graph: BipartiteGraph | UnipartiteGraph,
        motif: Motif,
        per: Granularity,
        counting: Counting = UNSIGNED,
        first_layer: Layer | None = None,
        min_degree: int = 2,
        *,
        by_degree: bool = False,
    ) -> PreparedButterflyGpu:
        """Prepare a whole graph; ``counting`` and ``first_layer`` are as in :func:`build_wedge_graph`.

        Vertices with fewer than ``min_degree`` neighbours are not items. ``by_degree``: see :func:`order_items`.
        """
        if graph.n_edges == 0:
            none = self.device.xp.zeros(0, dtype=np.int32)
            return PreparedButterflyGpu(motif, graph, per, None, none, none)
        with self.device.guard():
            self._load(per, counting.defines)
            tiles = self.tuning.hub_tiles // counting.signs if per == "vertex" and not counting.gives else 1
            built = build_wedge_graph(self.device, graph, self.tuning, counting, first_layer, tiles)
            if per == "vertex":
                check_vertices(graph, int(built.degree.max()), has_edges="edge" in motif.granularities)
            items, costs, most = order_items(self.device, built, min_degree, by_degree=by_degree)
            return self._schedule_items(PreparedButterflyGpu(motif, graph, per, built, items, costs), built, most)

    def _prepare_part(
        self, part: WedgePart, motif: Motif, per: Granularity, layer: str | None = None
    ) -> PreparedButterflyGpu:
        xp, sizes = self.device.xp, part.sizes
        built = build_wedge_part(self.device, part, self.tuning, layer)
        if per == "vertex" and sizes.roots:
            widest = int(built.degree.max())
            check_part_vertices(sizes.root_entries, sizes.entries, widest, built.widest_middle)
        starts = xp.arange(sizes.roots, dtype=np.uint64)
        work = self.device.to_device(part.starts.work).astype(np.uint64)
        items = order_falling(xp, work, starts).astype(np.int32)
        del starts, work
        unscheduled = PreparedButterflyGpu(motif, None, per, built, items, built.wedges[items])
        most = int(unscheduled.costs.max()) if sizes.roots else 0
        return self._schedule_items(unscheduled, built, most)

    def _schedule_items(
        self, prepared: PreparedButterflyGpu, graph: WedgeGraph | WedgePartGraph, most: int
    ) -> PreparedButterflyGpu:
        """Choose how each item is counted; none has more than ``most`` wedges."""
        items = prepared.items
        if not most:
            return prepared
        # 1 for starts with hub ends in the bit matrix
        uses_hubs = self.device.xp.zeros(graph.n_start_rows, dtype=np.uint8)
        check_start_bound(self.device.xp, most, graph.widest, prepared.costs, items, graph.degree)
        decisions: tuple[Choice, ...] = ()
        per = prepared.per
        wants_hubs = per == "total" or (per == "vertex" and self.tuning.hub_tiles > 0)
        if wants_hubs and graph.counting.gives == 0:
            mark_hub_starts(self.device, self.tuning, graph, items, uses_hubs, per)
            decisions = self._drop_hubs_without_room(graph, uses_hubs)
        costs = measure_costs(self.device, self.tuning, graph, items, uses_hubs, per)
        if costs.at_hubs < self.tuning.hub_least_wedges:
            uses_hubs[:] = 0
        split = choose_split_starts(self.device, self.tuning, graph, items, uses_hubs, costs)
        hub_rows = None
        if costs.at_hubs >= self.tuning.hub_least_wedges and int(uses_hubs.max()):
            hub_rows = fill_hub_rows(self.device, graph, self.tuning)
        scheduled = schedule_items(self.device, self.tuning, graph, items, uses_hubs, per)
        if split.items.size:
            scheduled[self.device.to_device(split.items)] = NOT_SCHEDULED
        scheduled.sort()
        schedules = make_schedules(self.tuning, graph.counting, per)
        self._load(per, graph.defines).get_function(schedules[0].kernel)
        if split.items.size:
            self._load(per, graph.defines, "butterfly_split").get_function("butterfly_split")
        return replace(
            prepared,
            hub_rows=hub_rows,
            schedules=schedules,
            scheduled=scheduled,
            scheduled_rows=take_scheduled(self.device, scheduled, items, uses_hubs),
            split=split,
            decisions=decisions,
        )

    def work(self, prepared: PreparedButterflyGpu) -> NDArray[np.int64]:
        """Return the wedges of each work item, int64 of shape (n_items,), host."""
        return self.device.to_host(prepared.costs).astype(np.int64)

    def prober(self, prepared: PreparedButterflyGpu) -> Prober:
        graph, costs = prepared.graph, self.work(prepared)
        if isinstance(graph, WedgePartGraph):
            raise UnsupportedError("parts of a graph cannot be probed on a GPU")
        return WedgeProber(costs, prepared.motif, lambda: self._copy_rows(prepared), choose_threads(None))

    def _copy_rows(self, prepared: PreparedButterflyGpu) -> tuple[WedgeRows, NDArray[np.int64]]:
        """Copy the rows of a whole graph, and the start of each item, to the host."""
        graph = prepared.graph
        assert isinstance(graph, WedgeGraph)
        arrays = {"offsets": graph.indptr, "ids": graph.adjacency, "prefix": graph.prefix, "items": prepared.items}
        with self.device.guard():
            found = copy_arrays(self.device, "the graph of the probes", arrays)
        ids, prefix = (found[name].view(np.uint32) for name in ("ids", "prefix"))
        kinds = tuple(range(graph.counting.kinds))
        rows = WedgeRows(graph.n_u, found["offsets"], ids, prefix, ids, 0, kinds)
        return rows, found["items"].astype(np.int64)

    def run(
        self,
        prepared: PreparedButterflyGpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
    ) -> Partial:
        require_interval(start, stop, prepared.n_items)
        with self.device.guard():
            work = int(prepared.costs[start:stop].sum()) if start < stop else 0
            check_run_wedges(work, stop - start)
            results, end = self._make_results(prepared), start
            if start < stop and not prepared.schedules:
                end = stop
            elif start < stop:
                end = self._run_slices(prepared, [start, *bounds, stop], cut, results)
            if end < stop:
                work = int(prepared.costs[start:end].sum()) if start < end else 0
            return self._answer(prepared, Partial(end - start, 0, work), *results[:2])

    def _answer(self, prepared: PreparedButterflyGpu, counted: Partial, total: Any, result: Any) -> Partial:
        low, high = (int(part) for part in self.device.to_host(total))
        return replace(counted, total=low + (high << 32), vectors=self._vectors(prepared, result))

    def _drop_hubs_without_room(self, graph: WedgeGraph | WedgePartGraph, uses_hubs: Any) -> tuple[Choice, ...]:
        """Clear ``uses_hubs`` if the bit matrix exceeds its share of the free memory; report it, or fewer columns."""
        matrix_bytes = (int(graph.hub_count.size) + 1) * graph.counting.signs * graph.hub_columns // 8
        room_bytes = int(self.tuning.hub_memory_fraction * self.device.free_bytes())
        if not int(uses_hubs.max()):
            return ()
        if matrix_bytes <= room_bytes:
            wanted, used = graph.wanted_columns, graph.hub_columns
            reason = f"the bit matrix of {wanted} exceeds its share of the device memory"
            return ((f"{used} hub columns", reason),) if used < wanted else ()
        uses_hubs[:] = 0
        reason = f"their bit matrix takes {matrix_bytes} bytes of device memory; {room_bytes} bytes are available"
        return (("no hub columns, only counter tables", reason),)

    def _run_slices(
        self, prepared: PreparedButterflyGpu, bounds: Sequence[int], cut: StopCheck, results: tuple[Any, ...]
    ) -> int:
        """Launch the slices, with ``results`` as the last arguments; return the item at which the run ended."""
        found = self._find_bounds(prepared, bounds)
        counters = self.device.xp.zeros((len(bounds), len(prepared.schedules)), dtype=np.int32)

        def launches(at: int) -> Iterator[Launch]:
            yield from self._launch_split(prepared, bounds[at], bounds[at + 1], results)
            for number, schedule in reversed(list(enumerate(prepared.schedules))):
                first, last = (int(end) for end in found[number][at : at + 2])
                if first < last:
                    counter = counters[at, number : number + 1]
                    rows = prepared.scheduled_rows[first:last]
                    yield partial(self._launch, prepared, schedule, rows, counter, results)

        return launch_slices(self.device, bounds, launches, cut)

    def _find_bounds(self, prepared: PreparedButterflyGpu, bounds: Sequence[int]) -> NDArray[np.int64]:
        """Return the places of the items ``bounds`` in ``scheduled``: shape (schedules, bounds), host."""
        schedules = np.arange(len(prepared.schedules), dtype=np.uint64) << SCHEDULE_SHIFT
        keys = schedules[:, np.newaxis] + np.asarray(bounds, dtype=np.uint64)
        xp = self.device.xp
        found = self.device.to_host(xp.searchsorted(prepared.scheduled, xp.asarray(keys.ravel()), side="left"))
        return found.reshape(keys.shape).astype(np.int64)

    def _launch(
        self,
        prepared: PreparedButterflyGpu,
        schedule: Schedule,
        rows: Any,
        counter: Any,
        results: tuple[Any, ...],
        stream: int,
    ) -> None:
        graph, tuning, n_rows = prepared.graph, self.tuning, int(rows.size)
        assert graph is not None
        threads = schedule.threads_for(n_rows, tuning.sm_threads * self.device.sm_count)
        by_warp = schedule.kernel in ("butterfly_match", "butterfly_hubs_warp")
        # Take as many at once as possible while leaving some for every warp
        argument, per_block = schedule.argument, 1
        if by_warp:
            argument = max(1, min(tuning.warp_items, n_rows // (tuning.warp_share * self.device.sm_count)))
            per_block = threads // 32 * argument
        blocks = min((n_rows + per_block - 1) // per_block, tuning.blocks_per_sm * self.device.sm_count)
        hub_rows: tuple[Any, ...] = ()
        if schedule.kernel.startswith("butterfly_hubs"):
            no_row = graph.counting.signs * int(graph.hub_count.size)
            tiles = graph.hub_columns // tuning.tile_columns
            hub_rows = prepared.hub_rows, np.int32(no_row), np.int32(tiles)
        of_rows = (graph.wedges, graph.hub_wedges) if schedule.kernel == "butterfly_hash" else ()
        own = () if argument is None else (np.int32(argument),)
        self._load(prepared.per, graph.defines).get_function(schedule.kernel)(
            (blocks,),
            (threads,),
            (
                *graph.arguments(), *hub_rows, rows, np.int32(n_rows), counter, *of_rows,
                *own, *results,
            ),
            shared_mem=schedule.shared_bytes + threads // 64 * schedule.pair_bytes,
        )  # fmt: skip

    def _launch_split(
        self, prepared: PreparedButterflyGpu, start: int, stop: int, results: tuple[Any, ...]
    ) -> Iterator[Launch]:
        """Yield the launch of the items ``[start, stop)`` that blocks share, if there are any."""
        graph = prepared.graph
        assert graph is not None
        assert prepared.split is not None
        starts = prepared.split.select(start, stop)
        if starts.items.size:
            module = self._load(prepared.per, graph.defines, "butterfly_split")
            gives = prepared.per != "total"
            yield launch_split_starts(self.device, self.tuning, module, starts, graph.arguments(), gives, results)

    def _load(self, per: Granularity, defines: Mapping[str, int], stem: str = "butterfly") -> Module:
        """Load the counting kernels. The first call is while the graph is built, so that they compile meanwhile."""
        given = {"PER": GRANULARITIES.index(per), "HUB_WORDS": self.tuning.hub_words}
        return self.device.load(stem, {**given, **defines})

    def _make_results(self, prepared: PreparedButterflyGpu) -> tuple[Any, ...]:
        return self.device.xp.zeros(2, dtype=np.uint64), self._empty_result(prepared)

    def _empty_result(self, prepared: PreparedButterflyGpu) -> Any:
        size = 1 if prepared.graph is None else prepared.graph.result_size(prepared.per)
        return self.device.xp.zeros(size, dtype=np.uint64)

    def _vectors(self, prepared: PreparedButterflyGpu, result: Any) -> dict[str, NDArray[np.uint64]]:
        """Convert a result from rank space to original ids, on the host."""
        source, graph = prepared.source, prepared.graph
        if isinstance(graph, WedgePartGraph):
            return graph.vectors(self.device, prepared.per, result)
        if prepared.per == "total":
            return {}
        assert source is not None
        is_layer = isinstance(source, UnipartiteGraph)
        if graph is None:
            of_vertices = {"n": source.n_u} if is_layer else {"u": source.n_u, "v": source.n_v}
            sizes = of_vertices if prepared.per == "vertex" else {"edge": 0}
            return {name: np.zeros(size, dtype=np.uint64) for name, size in sizes.items()}
        if prepared.per == "vertex":
            if is_layer:
                return {"n": self.device.to_host(result[graph.rank_v])}
            return {
                "u": self.device.to_host(result[graph.rank_u]),
                "v": self.device.to_host(result[graph.n_u :][graph.rank_v]),
            }
        return {"edge": self.device.to_host(gather_edges(self.device, graph, source, self.tuning, result))}


class FourCycleGpu(ButterflyGpu):
    """The GPU engine of :class:`~papilio.motifs.FourCycle`: the kernels of butterflies, over the rows of one layer."""

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedButterflyGpu:
        require_request("four-cycle", FourCycle, graph, motif, per, WedgePart, UnipartiteGraph)
        if isinstance(graph, WedgePart):
            with self.device.guard():
                return self._prepare_part(graph, motif, per, "n")
        assert isinstance(graph, UnipartiteGraph)
        return self._prepare_graph(graph, motif, per)


_SUM, _HISTOGRAM, _CENSUS, PAIRS = 0, 1, 2, 3
"""Result of the kernels: ``GIVES`` of ``butterfly.cuh``."""


class BalancedButterflyGpu(ButterflyGpu):
    """The GPU engine of :class:`~papilio.motifs.BalancedButterfly` and :class:`~papilio.motifs.Census`."""

    def stage(self, block: Loadable) -> Loadable:
        raise UnsupportedError(f"signed motifs can be counted on whole graphs only, not in a {type(block).__name__}")

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyGpu:
        require_request("balanced-butterfly", (BalancedButterfly, Census), graph, motif, per)
        assert isinstance(motif, BalancedButterfly | Census)
        assert isinstance(graph, BipartiteGraph)
        counting, first_layer = Counting(2, _SUM), None
        if isinstance(motif, Census):
            counting = Counting(4, _CENSUS, "uv".index(motif.pair_side))
        elif needs_all_neighbours(motif):
            counting, first_layer = Counting(2, _HISTOGRAM), motif.pair_side
        return self._prepare_graph(graph, motif, per, counting, first_layer)

    def _empty_result(self, prepared: PreparedButterflyGpu) -> Any:
        graph = prepared.graph
        if graph is None or graph.counting.gives == _SUM:
            return super()._empty_result(prepared)
        histogram = graph.counting.gives == _HISTOGRAM
        size = int(graph.degree.max()) + 1 if histogram else 2 * len(CENSUS_CLASSES)
        return self.device.xp.zeros(size, dtype=np.uint64)

    def _answer(self, prepared: PreparedButterflyGpu, counted: Partial, total: Any, result: Any) -> Partial:
        graph, motif = prepared.graph, prepared.motif
        if graph is None or graph.counting.gives == _SUM:
            return super()._answer(prepared, counted, total, result)
        found = [int(each) for each in self.device.to_host(result)]
        if isinstance(motif, Census):
            sums = [low + (high << 32) for low, high in zip(found[::2], found[1::2], strict=True)]
            cells = census_cells(sums)
        else:
            assert isinstance(motif, BalancedButterfly)
            cells = size_cells(motif, {size: times for size, times in enumerate(found) if times})
        table = cells if motif.is_table else {}
        return Partial(counted.n_items, sum(cells.values()), counted.work, cells=table)
