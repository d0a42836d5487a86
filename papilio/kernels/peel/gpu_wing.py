"""The blooms of a graph on the GPU (``wing.cu``), from which :mod:`papilio.kernels.peel.gpu_rounds` peels edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.constants import PEEL_GROUP
from papilio.kernels.device.protocol import Device, Module, check_fits, launch_over
from papilio.kernels.peel.gpu_rounds import Cut, PeeledItems, bounds_by_range, entries_of
from papilio.kernels.peel.phases import PeelingKind
from papilio.kernels.tuning import wedge_tuning
from papilio.kernels.wedge.gpu_graph import build_wedge_graph, make_offsets

_BYTES_PER_WEDGE = 56
"""Device memory at the peak of indexing: keys, order and sorted keys, both edges, and a copy while sorting."""

_RANGE_BITS = np.uint64(32)
_LAST_RANGE = 2**31 - 1
"""A range, in the keys by which the wedges of a bloom are ordered: ranges are int32, and so are blooms."""


@dataclass(frozen=True, eq=False)
class LinkedWedges:
    """Wedges by segment, and the links of their edges; all on the device."""

    offsets: Any  # wedges of each segment: int64, shape (n_segments + 1,)
    one: Any  # edges of each wedge, -1 for one of a higher range: int32, shape (n_wedges,)
    other: Any
    left: Any  # wedges of each segment, and of its bloom in higher ranges: int32, shape (n_segments,)
    link_offsets: Any  # links of each edge: int64, shape (n_edges + 1,)
    link_segment: Any  # int32, shape (n_links,)
    link_twin: Any
    supports: Any  # int64, shape (n_edges,)


@dataclass(frozen=True, eq=False)
class BloomsGpu:
    """The blooms of a graph on the device, linked to its edges."""

    n_items: int  # edges
    bloom_of: Any  # bloom of each wedge: int32, shape (n_wedges,)
    wedges: LinkedWedges  # with a bloom for each segment
    kind: PeelingKind = "wing"

    @property
    def n_blooms(self) -> int:
        """Number of blooms."""
        return int(self.wedges.left.size)

    @property
    def is_empty(self) -> bool:
        """Whether there is no edge."""
        return self.n_items == 0

    def open(self, device: Device) -> PeeledItems:
        """Return all edges, for the coarse phase."""
        return self._open(device, self.wedges, lambda entries: np.int64(int(entries.sum())))

    def open_ranges(self, device: Device, cut: Cut) -> PeeledItems:
        """Return all edges with their wedges by range, for the fine phase."""
        wedges, ranges = _link_ranges(device, self, cut)
        by_range = device.xp.argsort(ranges)
        bounds = bounds_by_range(device.xp, ranges[by_range], cut.n)
        return self._open(device, wedges, lambda entries: make_offsets(device.xp, entries[by_range])[bounds])

    def _open(self, device: Device, wedges: LinkedWedges, share: Callable[[Any], Any]) -> PeeledItems:
        """Copy what peeling changes; ``share`` gives the room of the teams in a list of so many entries by segment."""
        xp, n_segments = device.xp, int(wedges.left.size)
        entries = entries_of(wedges.offsets[1:] - wedges.offsets[:-1])
        lost = xp.zeros(2 * n_segments, dtype=np.int32)
        stamp = xp.full(self.n_items, 2**31 - 1, dtype=np.int32)
        touched = xp.empty(2 * int(entries.sum()), dtype=np.uint64)
        own = (
            wedges.link_segment, wedges.link_twin, wedges.offsets, wedges.one, wedges.other,
            np.int64(n_segments), wedges.left.copy(), lost, stamp, touched, share(entries),
        )  # fmt: skip
        return PeeledItems(wedges.link_offsets, wedges.supports.copy(), own)


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
    first_wedge = make_offsets(xp, built.prefix)
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
    launch_over(
        device, module, "name_entries", graph.n_edges, device.to_device(graph.u), device.to_device(graph.v),
        np.int64(graph.n_edges), built.rank_u, built.rank_v, built.indptr, built.adjacency, n_u, edge_of,
    )  # fmt: skip
    places = xp.arange(n, dtype=np.int64)
    row_of = (xp.searchsorted(built.indptr, places, side="right") - 1).astype(np.int32)
    keys = xp.empty(n_wedges, dtype=np.uint64)
    one, other = xp.empty(n_wedges, dtype=np.int32), xp.empty(n_wedges, dtype=np.int32)
    if n_wedges:
        launch_over(
            device, module, "list_wedges", PEEL_GROUP * n, built.indptr, built.adjacency, built.prefix,
            row_of, first_wedge, edge_of, np.int64(n), n_u, keys, one, other,
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
    if n_wedges:
        launch_over(
            device, module, "count_links", n_wedges, one, other, segment_of, left, np.int64(n_wedges), degree,
            supports,
        )  # fmt: skip
    link_offsets = make_offsets(xp, degree.astype(np.int64))
    n_links = int(link_offsets[-1])
    link_segment, link_twin = xp.empty(n_links, dtype=np.int32), xp.empty(n_links, dtype=np.int32)
    if n_links:
        cursor = link_offsets[:-1].astype(np.uint64)
        launch_over(
            device, module, "fill_links", n_wedges, one, other, segment_of, np.int64(n_wedges), cursor,
            link_segment, link_twin,
        )  # fmt: skip
    return LinkedWedges(
        offsets, one, other, left, link_offsets, link_segment, link_twin, supports.astype(np.int64)
    )


def _link_ranges(device: Device, index: BloomsGpu, cut: Cut) -> tuple[LinkedWedges, Any]:
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
    return _link(device, device.load("wing", {}), index.n_items, segments, segment_of), ranges[kept]
