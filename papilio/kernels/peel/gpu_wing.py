"""Wing numbers on the GPU (``wing.cu``): the blooms of a graph, the coarse phase, and a block for each range.

The coarse phase is a launch for each range, whose rounds wait for each other on the device; the host chooses the bounds
of the ranges from a histogram of the supports. The fine phase is one launch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.constants import PEEL_GROUP
from papilio.kernels.device.protocol import Device, Module, check_fits
from papilio.kernels.peel.gpu_rounds import (
    THREADS,
    Cut,
    PeelTuning,
    bounds_by_range,
    cut_ranges,
    entries_of,
    plan_fine,
    read_counters,
    starts_of,
)
from papilio.kernels.peel.phases import Peeled, Report, ignore_report
from papilio.kernels.tuning import wedge_tuning
from papilio.kernels.wedge.gpu_graph import build_wedge_graph, choose_grid

__all__ = ["BloomsGpu", "LinkedWedges", "index_wing_gpu", "peel_wing_gpu"]

_BYTES_PER_WEDGE = 56
"""Device memory at the peak of indexing: keys, order and sorted keys, both edges, and a copy while sorting."""

_RANGE_BITS = np.uint64(32)
_LAST_RANGE = 2**31 - 1
"""A range, in the keys by which the wedges of a bloom are ordered: ranges are int32, and so are blooms."""


@dataclass(frozen=True, eq=False)
class LinkedWedges:
    """Wedges by segment, and the links of their edges; all on the device.

    Attributes
    ----------
    offsets : device array of int64, shape (n_segments + 1,)
    one, other : device array of int32, shape (n_wedges,)
        Edges of each wedge; -1 for an edge of a higher range.
    left : device array of int32, shape (n_segments,)
        Wedges of the segment, and of its bloom in higher ranges.
    link_offsets : device array of int64, shape (n_edges + 1,)
    link_segment, link_twin : device array of int32, shape (n_links,)
    supports : device array of int64, shape (n_edges,)
    """

    offsets: Any
    one: Any
    other: Any
    left: Any
    link_offsets: Any
    link_segment: Any
    link_twin: Any
    supports: Any


@dataclass(frozen=True, eq=False)
class BloomsGpu:
    """The blooms of a graph on the device, linked to its edges.

    Attributes
    ----------
    n_edges : int
    bloom_of : device array of int32, shape (n_wedges,)
        Bloom of each wedge.
    wedges : LinkedWedges
        With a bloom for each segment.
    """

    n_edges: int
    bloom_of: Any
    wedges: LinkedWedges

    @property
    def n_blooms(self) -> int:
        """Number of blooms."""
        return int(self.wedges.left.size)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        arrays = (getattr(self.wedges, field.name) for field in fields(self.wedges))
        return int(self.bloom_of.nbytes) + sum(int(array.nbytes) for array in arrays)


def index_wing_gpu(device: Device, graph: BipartiteGraph) -> BloomsGpu:
    """List the blooms of a graph on the device and link its edges to them.

    Raises
    ------
    CapacityError
        For more than 2^31 - 1 edges or blooms, or more wedges than fit the device; known before they are listed.
    """
    check_fits("the number of edges", graph.n_edges, 2**31 - 1, "edges")
    module = device.load("wing", {})
    keys, one, other = _list_wedges(device, module, graph)
    xp = device.xp
    order = xp.argsort(keys)
    keys = keys[order]
    heads = xp.ones(keys.size + 1, dtype=bool)
    heads[1:-1] = keys[1:] != keys[:-1]
    del keys
    shared = ~(heads[:-1] & heads[1:])
    order, heads = order[shared], heads[:-1][shared]
    one, other = one[order], other[order]
    offsets = _offsets_of(xp, heads)
    check_fits("the number of blooms", int(offsets.size) - 1, 2**31 - 1, "blooms")
    bloom_of = (xp.cumsum(heads, dtype=np.int64) - 1).astype(np.int32)
    left = (offsets[1:] - offsets[:-1]).astype(np.int32)
    linked = _link(device, module, graph.n_edges, (offsets, one, other, left), bloom_of)
    return BloomsGpu(graph.n_edges, bloom_of, linked)


def _offsets_of(xp: Any, heads: Any) -> Any:
    """Return where each run begins, and the last one ends; int64."""
    size = xp.full(1, heads.size, dtype=np.int64)
    return xp.concatenate((xp.flatnonzero(heads).astype(np.int64), size))


def _list_wedges(device: Device, module: Module, graph: BipartiteGraph) -> tuple[Any, Any, Any]:
    """Return (keys of the pairs of ends, edge, other edge) of all counted wedges."""
    xp = device.xp
    if graph.n_edges == 0:
        none = xp.zeros(0, dtype=np.int32)
        return none.astype(np.uint64), none, none
    built = build_wedge_graph(device, graph, wedge_tuning(device.max_shared_bytes))
    first_wedge = starts_of(xp, built.prefix)
    n_wedges = int(first_wedge[-1])
    needed, room = _BYTES_PER_WEDGE * n_wedges, device.free_bytes()
    if needed > room:
        raise CapacityError(
            f"wing numbers of this graph need about {needed / 2**30:.2f} GiB of device memory ({n_wedges} wedges); "
            f"there are {room / 2**30:.2f} GiB: use a device with more memory, or --engine cpu"
        )
    n = 2 * graph.n_edges
    edge_of = xp.empty(n, dtype=np.int32)
    n_u = np.int32(built.n_u)
    module.get_function("name_entries")(
        choose_grid(device, graph.n_edges),
        (THREADS,),
        (
            device.to_device(graph.u), device.to_device(graph.v), np.int64(graph.n_edges), built.rank_u,
            built.rank_v, built.indptr, built.adjacency, n_u, edge_of,
        ),
    )  # fmt: skip
    places = xp.arange(n, dtype=np.int64)
    row_of = (xp.searchsorted(built.indptr, places, side="right") - 1).astype(np.int32)
    keys = xp.empty(n_wedges, dtype=np.uint64)
    one, other = xp.empty(n_wedges, dtype=np.int32), xp.empty(n_wedges, dtype=np.int32)
    if n_wedges:
        module.get_function("list_wedges")(
            choose_grid(device, PEEL_GROUP * n),
            (THREADS,),
            (
                built.indptr, built.adjacency, built.prefix, row_of, first_wedge, edge_of, np.int64(n), n_u,
                keys, one, other,
            ),
        )  # fmt: skip
    return keys, one, other


def _link(
    device: Device, module: Module, n_edges: int, segments: tuple[Any, Any, Any, Any], segment_of: Any
) -> LinkedWedges:
    """Link the edges of the wedges of all segments, (offsets, one, other, left), and sum up their supports."""
    xp = device.xp
    offsets, one, other, left = segments
    n_wedges = int(one.size)
    degree, supports = xp.zeros(n_edges, dtype=np.uint64), xp.zeros(n_edges, dtype=np.uint64)
    grid = choose_grid(device, n_wedges)
    if n_wedges:
        module.get_function("count_links")(
            grid, (THREADS,), (one, other, segment_of, left, np.int64(n_wedges), degree, supports)
        )
    link_offsets = starts_of(xp, degree)
    n_links = int(link_offsets[-1])
    link_segment, link_twin = xp.empty(n_links, dtype=np.int32), xp.empty(n_links, dtype=np.int32)
    if n_links:
        cursor = link_offsets[:-1].astype(np.uint64)
        module.get_function("fill_links")(
            grid,
            (THREADS,),
            (one, other, segment_of, np.int64(n_wedges), cursor, link_segment, link_twin),
        )
    return LinkedWedges(
        offsets, one, other, left, link_offsets, link_segment, link_twin, supports.astype(np.int64)
    )


def peel_wing_gpu(
    device: Device,
    index: BloomsGpu,
    report: Report = ignore_report,
    n_ranges: int | None = None,
    tuning: PeelTuning | None = None,
) -> Peeled:
    """Return the wing number of every edge.

    Parameters
    ----------
    device : Device
    index : BloomsGpu
        Is left as it is.
    report : callable
        Told how far it is.
    n_ranges : int, optional
        Ranges of the coarse phase, if all were equally heavy; with 1 there is one. By default as many as pay.
    tuning : PeelTuning, optional
    """
    if index.n_edges == 0:
        return Peeled(np.zeros(0, np.uint64), 0, 0, 0, 0, {"coarse": 0.0, "fine": 0.0})
    chosen = PeelTuning() if tuning is None else tuning
    module = device.load("wing", {})
    began = perf_counter()
    coarse = _Coarse(device, module, index)
    cut = cut_ranges(device, module.get_function("weigh_edges"), coarse, chosen, n_ranges, report)
    del coarse
    middle = perf_counter()
    numbers, rounds, updates = _peel_fine(device, module, index, cut, chosen)
    seconds = {"coarse": middle - began, "fine": perf_counter() - middle}
    report("fine", 1, 1)
    return Peeled(numbers, cut.n, cut.rounds, rounds, cut.updates + updates, seconds)


class _Changing:
    """What peeling changes of linked wedges, and room for the list of segments."""

    def __init__(self, device: Device, n_edges: int, wedges: LinkedWedges) -> None:
        xp = device.xp
        sizes = wedges.offsets[1:] - wedges.offsets[:-1]
        self.entries = entries_of(sizes)
        self.room = int(self.entries.sum()) if int(sizes.size) else 0
        self.left, self.supports = wedges.left.copy(), wedges.supports.copy()
        self.lost = xp.zeros(2 * int(sizes.size), dtype=np.int32)
        self.gone = xp.zeros(n_edges, dtype=np.uint8)
        self.stamp = xp.full(n_edges, 2**31 - 1, dtype=np.int32)
        self.touched = xp.empty(2 * self.room, dtype=np.uint64)


class _Coarse:
    """The blooms in the coarse phase; see :class:`papilio.kernels.peel.gpu_rounds.Coarse`."""

    def __init__(self, device: Device, module: Module, index: BloomsGpu) -> None:
        self._kernel, self._wedges = module.get_function("wing_coarse"), index.wedges
        self._state = _Changing(device, index.n_edges, index.wedges)
        self.supports, self.gone = self._state.supports, self._state.gone
        self.link_offsets = index.wedges.link_offsets

    def launch(self, grid: tuple[int, ...], block: tuple[int, ...], lists: tuple[Any, ...], own: Any) -> None:
        """Launch a range."""
        wedges, state = self._wedges, self._state
        items, going, going_room, counters, arrivals = lists
        self._kernel(
            grid,
            block,
            (
                items, np.int64(items.size), wedges.link_offsets, wedges.link_segment, wedges.link_twin,
                wedges.offsets, wedges.one, wedges.other, np.int64(wedges.left.size), state.left, state.lost,
                state.supports, state.gone, state.stamp, going, going_room, state.touched,
                np.int64(state.room), counters, arrivals, *own,
            ),
            together=True,
        )  # fmt: skip


def _peel_fine(
    device: Device, module: Module, index: BloomsGpu, cut: Cut, tuning: PeelTuning
) -> tuple[NDArray[np.uint64], int, int]:
    """Order the wedges by range and peel the ranges; return (numbers, rounds, updates)."""
    xp = device.xp
    numbers = cut.known_numbers(xp)
    if bool(cut.is_exact().all()):
        return device.to_host(numbers), 0, 0
    wedges, segment_ranges = _link_ranges(device, module, index, cut)
    state = _Changing(device, index.n_edges, wedges)
    by_range = xp.argsort(segment_ranges)
    touched_bounds = starts_of(xp, state.entries[by_range])[
        bounds_by_range(xp, segment_ranges[by_range], cut.n)
    ]
    plan = plan_fine(device, cut, wedges.link_offsets[1:] - wedges.link_offsets[:-1])
    module.get_function("wing_fine")(
        (plan.n_blocks,),
        (tuning.fine_threads,),
        (
            plan.order, plan.items, plan.item_bounds, wedges.link_offsets, wedges.link_segment,
            wedges.link_twin, wedges.offsets, wedges.one, wedges.other, np.int64(wedges.left.size), state.left,
            state.lost, state.supports, state.gone, state.stamp, plan.going, plan.going_bounds, state.touched,
            touched_bounds, plan.counters, numbers,
        ),
    )  # fmt: skip
    return device.to_host(numbers), *read_counters(device, plan.counters)


def _link_ranges(device: Device, module: Module, index: BloomsGpu, cut: Cut) -> tuple[LinkedWedges, Any]:
    """Return the wedges by bloom and falling range, linked within their ranges, and the range of each segment.

    Ranges that are exact, and segments whose bloom has no other wedge so high, are left out.
    """
    xp, wedges = device.xp, index.wedges
    lower = xp.minimum(cut.of[wedges.one], cut.of[wedges.other])
    falling = (_LAST_RANGE - lower).astype(np.uint64)
    keys = (index.bloom_of.astype(np.uint64) << _RANGE_BITS) | falling
    order = xp.argsort(keys)
    keys, lower = keys[order], lower[order]
    heads = xp.ones(keys.size, dtype=bool)
    heads[1:] = keys[1:] != keys[:-1]
    offsets = _offsets_of(xp, heads)
    blooms = (keys[offsets[:-1]] >> _RANGE_BITS).astype(np.int64)
    before = offsets[1:] - wedges.offsets[blooms]
    ranges = lower[offsets[:-1]]
    kept = (before > 1) & ~device.to_device(cut.is_exact())[ranges]
    stays = kept[xp.cumsum(heads, dtype=np.int64) - 1]
    order, heads, lower = order[stays], heads[stays], lower[stays]
    one, other = (
        xp.where(cut.of[edges] == lower, edges, np.int32(-1))
        for edges in (wedges.one[order], wedges.other[order])
    )
    segment_of = (xp.cumsum(heads, dtype=np.int64) - 1).astype(np.int32)
    segments = (_offsets_of(xp, heads), one, other, before[kept].astype(np.int32))
    return _link(device, module, index.n_edges, segments, segment_of), ranges[kept]
