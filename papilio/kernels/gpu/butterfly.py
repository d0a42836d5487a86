"""Butterflies on the GPU: the policy that gives each work item of ``butterfly.cu`` its schedule, and the launches.

The total of a start is the sum over its ends u of C(c(u, w), 2), so ends can be counted by different schedules
as long as each end has one: ends among the hub columns go through the bit matrix (when the start has enough of
them, and only a total is asked for), all others through a counter table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import MAX_START_COUNT, check_part_vertices, check_vertices
from papilio.kernels.engine import (
    Cut,
    EngineName,
    Loadable,
    Partial,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.gpu.device import Device
from papilio.kernels.gpu.wedge_graph import WedgeGraph, build_wedge_graph, fill_hub_rows, gather_edges
from papilio.kernels.gpu.wedge_part import WedgePartGraph, build_wedge_part, stage_wedges
from papilio.kernels.tuning import DENSE_BITS, TableClass, WedgeTuning, wedge_tuning
from papilio.motifs import GRANULARITIES, Butterfly, Granularity, Motif
from papilio.parts import Part, RootPart, WedgePart

__all__ = ["ButterflyGpu", "PreparedButterflyGpu"]

_SHIFT = np.uint64(32)
_LOW_MASK = np.uint64(0xFFFFFFFF)
_BIT_MATRIX_DEGREE = 1 << 20
"""Degrees from which the planes of the bit matrix would not do."""

_PART_ITEMS = 1 << 18
"""Items of a part that are given their schedules at once: what that takes for a while, about 40 MiB, is bounded."""


@dataclass(frozen=True)
class _Launch:
    """One schedule: the kernel, its launch and the position of its argument after the items."""

    kernel: str
    threads: int
    shared_bytes: int
    argument: int | None


@dataclass(frozen=True, eq=False)
class PreparedButterflyGpu:
    """A graph or part ready for :meth:`ButterflyGpu.run`, on the device.

    Attributes
    ----------
    source : BipartiteGraph or None
        The graph as given, on the host; None for a part.
    per : {"total", "vertex", "edge"}
        What is counted.
    graph : WedgeGraph, WedgePartGraph or None
        The graph in rank space, or the part; None for a graph without edges.
    items : device array of int32, shape (n_items,)
        Start row of each work item.
    costs : device array of uint64, shape (n_items,)
        Wedges of each work item; falling, but for a part.
    uses_hubs : device array of uint8, shape (n_start_rows,)
        1 for starts whose hub ends go through the bit matrix.
    hub_rows : device array of uint32 or None
        The bit matrix; None when no start uses it.
    launches : tuple of _Launch
        The schedules in use.
    scheduled : device array of uint64
        (schedule << 32 | item), ascending: the items of each schedule.
    """

    source: BipartiteGraph | None
    per: Granularity
    graph: WedgeGraph | WedgePartGraph | None
    items: Any
    costs: Any
    uses_hubs: Any
    hub_rows: Any
    launches: tuple[_Launch, ...]
    scheduled: Any

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return int(self.items.size)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        arrays = (self.items, self.costs, self.uses_hubs, self.hub_rows, self.scheduled)
        held = sum(int(array.nbytes) for array in arrays if array is not None)
        return held + (self.graph.nbytes if self.graph is not None else 0)


class ButterflyGpu:
    """The GPU engine of :class:`~papilio.motifs.Butterfly` on one device.

    Parameters
    ----------
    device : Device
        Where to run.
    tuning : WedgeTuning, optional
        Launch constants; by default those of the device.
    """

    name: EngineName = "gpu"

    def __init__(self, device: Device, tuning: WedgeTuning | None = None) -> None:
        self.device = device
        self.tuning = tuning if tuning is not None else wedge_tuning(device.max_shared_bytes)

    def stage(self, block: Loadable) -> Loadable:
        """Return a block with its large arrays on the device, copied beside the kernels of other threads.

        Raises
        ------
        UnsupportedError
            For a part of another engine.
        """
        if isinstance(block, RootPart):
            raise UnsupportedError("the butterfly engine cannot count in a RootPart")
        with self.device.guard(), self.device.staging():
            return stage_wedges(self.device, block)

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyGpu:
        """Rank, relabel and build both CSR directions on the device, or join the blocks of a part; then schedule.

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or part, or granularity.
        CapacityError
            When the graph or one of its counts passes what the kernels are proven for.
        """
        require_request("butterfly", Butterfly, graph, motif, per, WedgePart)
        if isinstance(graph, WedgePart):
            with self.device.guard():
                return self._prepare_part(graph, per)
        assert isinstance(graph, BipartiteGraph)
        if graph.n_edges == 0:
            none = self.device.xp.zeros(0, dtype=np.int32)
            return PreparedButterflyGpu(graph, per, None, none, none, none, None, (), none)
        with self.device.guard():
            return self._prepare(graph, per)

    def _prepare(self, graph: BipartiteGraph, per: Granularity) -> PreparedButterflyGpu:
        built = build_wedge_graph(self.device, graph, self.tuning)
        if per == "vertex":
            check_vertices(graph, int(built.degree.max()))
        items, costs = _order_items(self.device.xp, built)
        return self._schedule_items(graph, per, built, items, costs, int(items.size))

    def _prepare_part(self, part: WedgePart, per: Granularity) -> PreparedButterflyGpu:
        xp, sizes = self.device.xp, part.sizes
        built = build_wedge_part(self.device, part, self.tuning)
        if per == "vertex" and sizes.roots:
            widest = int(built.degree.max())
            check_part_vertices(sizes.root_entries, sizes.entries, widest, built.widest_middle)
        starts = xp.arange(sizes.roots, dtype=np.uint64)
        work = self.device.to_device(part.starts.work).astype(np.uint64)
        items = _order_falling(xp, work, starts).astype(np.int32)
        del starts, work
        return self._schedule_items(None, per, built, items, built.wedges[items], _PART_ITEMS)

    def _schedule_items(
        self,
        source: BipartiteGraph | None,
        per: Granularity,
        graph: WedgeGraph | WedgePartGraph,
        items: Any,
        costs: Any,
        at_once: int,
    ) -> PreparedButterflyGpu:
        """Give every item its schedules, so many items at once."""
        xp = self.device.xp
        n_items = int(items.size)
        uses_hubs = xp.zeros(graph.n_start_rows, dtype=np.uint8)
        if not n_items or not int(costs.max()):
            none = xp.zeros(0, dtype=np.uint64)
            return PreparedButterflyGpu(source, per, graph, items, costs, uses_hubs, None, (), none)
        _check_start_bound(xp, costs, graph.degree[items])
        slices = [slice(at, min(at + at_once, n_items)) for at in range(0, n_items, at_once)]
        if self._has_room_for_hubs(graph, per):
            for each in slices:
                self._choose_hub_starts(graph, items[each], uses_hubs)
        hub_rows = fill_hub_rows(self.device, graph.hub_lists, self.tuning) if bool(uses_hubs.any()) else None
        found = [self._schedule(graph, items[each], uses_hubs, each.start) for each in slices]
        scheduled = found[0] if len(found) == 1 else xp.concatenate(found)
        del found
        scheduled.sort()
        launches = self._launches()
        return PreparedButterflyGpu(
            source, per, graph, items, costs, uses_hubs, hub_rows, launches, scheduled
        )

    def work(self, prepared: PreparedButterflyGpu) -> NDArray[np.int64]:
        """Wedges of each work item, int64 of shape (n_items,), host; falling, but for a part."""
        return self.device.to_host(prepared.costs).astype(np.int64)

    def slice_work(self, prepared: PreparedButterflyGpu) -> int:
        """A slice costs its launches alone, which run while the slice before still does."""
        return 1

    def run(
        self,
        prepared: PreparedButterflyGpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
    ) -> Partial:
        """Count the butterflies of the items ``[start, stop)``, or of the first of them if the run is cut.

        Raises
        ------
        InputError
            When the interval does not lie in ``[0, n_items]``.
        DeviceLostError
            When a kernel failed and the device is lost to this process.
        """
        require_interval(start, stop, prepared.n_items)
        with self.device.guard():
            total = self.device.xp.zeros(2, dtype=np.uint64)
            result, end = self._empty_result(prepared), start
            if start < stop and not prepared.launches:
                end = stop
            elif start < stop:
                end = self._run_slices(prepared, [start, *bounds, stop], cut, total, result)
            low, high = (int(part) for part in self.device.to_host(total))
            work = int(prepared.costs[start:end].sum()) if start < end else 0
            return Partial(end - start, low + (high << 32), work, self._vectors(prepared, result))

    def _has_room_for_hubs(self, graph: WedgeGraph | WedgePartGraph, per: Granularity) -> bool:
        """Whether a total is asked for, and the bit matrix takes no more than its share of the free memory."""
        matrix_bytes = int(graph.hub_count.size) * 128 * self.tuning.hub_words
        return per == "total" and matrix_bytes <= self.tuning.hub_memory_fraction * self.device.free_bytes()

    def _choose_hub_starts(self, graph: WedgeGraph | WedgePartGraph, items: Any, uses_hubs: Any) -> None:
        """Mark the starts whose hub wedges repay reading a row of the bit matrix for each of their entries."""
        degree = graph.degree[items].astype(np.int64)
        repaid = graph.hub_wedges[items].astype(np.int64) >= self.tuning.hub_min_wedges * degree
        uses_hubs[items] = repaid & (degree < _BIT_MATRIX_DEGREE) & (graph.wedges[items] > 0)

    def _schedule(self, graph: WedgeGraph | WedgePartGraph, items: Any, uses_hubs: Any, first: int) -> Any:
        """Give each item its schedule for the hub columns, if any, and for the other ends, if any.

        Returns the entries of ``PreparedButterflyGpu.scheduled``, in no order, of items numbered from ``first`` on.
        """
        xp, tuning = self.device.xp, self.tuning
        degree = graph.degree[items].astype(np.int64)
        rank = graph.ranks_of(items).astype(np.int64)
        by_hubs = uses_hubs[items] != 0
        far = graph.wedges[items].astype(np.int64) - xp.where(
            by_hubs, graph.hub_wedges[items].astype(np.int64), 0
        )
        ends = rank - xp.where(by_hubs, 1024 * tuning.hub_words, 0)

        table_bytes = xp.zeros(items.size, dtype=np.int64)
        for below, bits in reversed(DENSE_BITS):
            table_bytes = xp.where(degree < below, (ends * bits + 7) // 8, table_bytes)
        fits = [
            (far <= tuning.match_max_wedges) & (degree <= 32),
            *(
                (far <= table.max_wedges) & ((table.kernel == "hash") | (table_bytes <= table.table_bytes))
                for table in tuning.tables
            ),
        ]
        fits[-1] = xp.ones(items.size, dtype=bool)
        table_class = xp.argmax(xp.stack(fits), axis=0).astype(np.uint64)

        hub_class = len(fits) + (degree < tuning.large_degree).astype(np.uint64)
        hub_class += (degree < tuning.block_degree).astype(np.uint64)

        index = xp.arange(first, first + items.size, dtype=np.uint64)
        return xp.concatenate(
            (
                ((table_class << _SHIFT) | index)[far > 0],
                ((hub_class.astype(np.uint64) << _SHIFT) | index)[by_hubs],
            )
        )

    def _launches(self) -> tuple[_Launch, ...]:
        """Return the schedules: the tables, in the order in which they are tried, then those of the hub columns."""
        tuning = self.tuning
        row_bytes = 128 * tuning.hub_words
        large, block = tuning.large_threads, tuning.block_threads
        return (
            _Launch("butterfly_match", 256, 0, tuning.warp_items),
            *(_table_launch(table) for table in tuning.tables),
            _Launch("butterfly_hubs_large", large, large // 64 * 20 * row_bytes, None),
            _Launch("butterfly_hubs_block", block, block // 64 * 16 * row_bytes, None),
            _Launch("butterfly_hubs_warp", 256, 0, tuning.warp_items),
        )

    def _run_slices(
        self, prepared: PreparedButterflyGpu, bounds: Sequence[int], cut: Cut, total: Any, result: Any
    ) -> int:
        """Launch slice after slice, one ahead of the one that runs; return the item at which the run ended."""
        launches = prepared.launches
        found = self._find_bounds(prepared, bounds)
        rows = [
            prepared.items[(prepared.scheduled[ends[0] : ends[-1]] & _LOW_MASK).astype(np.int64)]
            for ends in found
        ]
        counters = self.device.xp.zeros((len(bounds), len(launches)), dtype=np.int32)
        marks: list[list[Any]] = []
        stream = 0
        for at in range(len(bounds) - 1):
            marks.append([])
            for number in reversed(range(len(launches))):
                first, last = (int(end - found[number][0]) for end in found[number][at : at + 2])
                if first < last:
                    with self.device.stream(stream):
                        counter = counters[at, number : number + 1]
                        self._launch(
                            prepared, launches[number], rows[number][first:last], counter, total, result
                        )
                        marks[at].append(self.device.mark())
                    stream += 1
            if at + 2 == len(bounds):
                break
            for mark in marks[at - 1] if at else []:
                self.device.wait(mark)
            if cut():
                return bounds[at + 1]
        return bounds[-1]

    def _find_bounds(self, prepared: PreparedButterflyGpu, bounds: Sequence[int]) -> NDArray[np.int64]:
        """Return where the items of ``bounds`` stand in ``scheduled``: shape (schedules, bounds), host."""
        schedules = np.arange(len(prepared.launches), dtype=np.uint64) << _SHIFT
        keys = schedules[:, np.newaxis] + np.asarray(bounds, dtype=np.uint64)
        xp = self.device.xp
        found = self.device.to_host(
            xp.searchsorted(prepared.scheduled, xp.asarray(keys.ravel()), side="left")
        )
        return found.reshape(keys.shape).astype(np.int64)

    def _launch(
        self,
        prepared: PreparedButterflyGpu,
        launch: _Launch,
        rows: Any,
        counter: Any,
        total: Any,
        result: Any,
    ) -> None:
        graph, tuning, n_rows = prepared.graph, self.tuning, int(rows.size)
        assert graph is not None
        module = self.device.load(
            "butterfly",
            {"PER": GRANULARITIES.index(prepared.per), "HUB_WORDS": tuning.hub_words, **graph.defines},
        )
        graph_args = graph.arguments(prepared.uses_hubs)
        by_warp = launch.kernel in ("butterfly_match", "butterfly_hubs_warp")
        per_block = launch.threads // 32 * tuning.warp_items if by_warp else 1
        blocks = min((n_rows + per_block - 1) // per_block, tuning.blocks_per_sm * self.device.sm_count)
        hub_args = (prepared.hub_rows,) if launch.kernel.startswith("butterfly_hubs") else ()
        own = () if launch.argument is None else (np.int32(launch.argument),)
        module.get_function(launch.kernel)(
            (blocks,),
            (launch.threads,),
            (*graph_args, *hub_args, rows, np.int32(n_rows), counter, *own, total, result),
            shared_mem=launch.shared_bytes,
        )

    def _empty_result(self, prepared: PreparedButterflyGpu) -> Any:
        size = 1 if prepared.graph is None else prepared.graph.result_size(prepared.per)
        return self.device.xp.zeros(size, dtype=np.uint64)

    def _vectors(self, prepared: PreparedButterflyGpu, result: Any) -> dict[str, NDArray[np.uint64]]:
        """Bring a result from rank space to original ids, on the host."""
        source, graph = prepared.source, prepared.graph
        if isinstance(graph, WedgePartGraph):
            return graph.vectors(self.device, prepared.per, result)
        if prepared.per == "total":
            return {}
        assert source is not None
        if graph is None:
            sizes = {"u": source.n_u, "v": source.n_v} if prepared.per == "vertex" else {"edge": 0}
            return {name: np.zeros(size, dtype=np.uint64) for name, size in sizes.items()}
        if prepared.per == "vertex":
            return {
                "u": self.device.to_host(result[graph.rank_u]),
                "v": self.device.to_host(result[graph.n_u :][graph.rank_v]),
            }
        return {"edge": self.device.to_host(gather_edges(self.device, graph, source, self.tuning, result))}


def _table_launch(table: TableClass) -> _Launch:
    if table.kernel == "hash":
        return _Launch(
            "butterfly_hash", table.threads, table.table_bytes, (table.table_bytes // 8).bit_length() - 1
        )
    return _Launch("butterfly_dense", table.threads, table.table_bytes, table.table_bytes // 4)


def _order_items(xp: Any, graph: WedgeGraph) -> tuple[Any, Any]:
    """Return (start rows, wedges) of the work items: wedges falling, then priority."""
    rows = xp.nonzero((graph.degree >= 2) & (graph.wedges > 0))[0]
    wedges, priority = graph.wedges[rows], graph.priority[rows].astype(np.uint64)
    row_at = xp.empty(graph.n_rows, dtype=np.int32)
    row_at[graph.priority] = xp.arange(graph.n_rows, dtype=np.int32)
    rows = row_at[_order_falling(xp, wedges, priority)]
    return rows, graph.wedges[rows]


def _order_falling(xp: Any, costs: Any, ties: Any) -> Any:
    """Return ``ties``, distinct and below 2^32, in the order of falling costs and then their own; as int64."""
    if costs.size and int(costs.max()) > 0xFFFFFFFF:
        order = xp.lexsort(xp.stack((ties, np.uint64(2**64 - 1) - costs)))
        return ties[order].astype(np.int64)
    keys = ((_LOW_MASK - costs) << _SHIFT) | ties
    keys.sort()
    return (keys & _LOW_MASK).astype(np.int64)


def _check_start_bound(xp: Any, wedges: Any, degree: Any) -> None:
    """Refuse a graph on which the butterflies of one start could pass the 64 bits of one sum.

    A start meets each end at most ``degree`` times, so it owns at most ``wedges * (degree - 1) / 2``.
    """
    if int(wedges.max()) * int(degree.max()) <= 2 * MAX_START_COUNT:
        return
    allowed = np.uint64(2 * MAX_START_COUNT) // degree.astype(np.uint64)
    if bool((wedges > allowed).any()):
        raise CapacityError(
            f"one vertex could own more than {MAX_START_COUNT} butterflies; the gpu engine adds them in 64 bits"
        )
