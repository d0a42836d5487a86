"""The blooms of a graph on the GPU (``wing.cu``), from which :mod:`papilio.kernels.peel.gpu` peels edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.device.arrays import fill_ints, lengths_of, load_arrays, make_offsets, take, value_starts
from papilio.kernels.device.constants import PEEL_GROUP
from papilio.kernels.device.protocol import Device, Module, check_fits, launch_over
from papilio.kernels.exact import require_room
from papilio.kernels.peel.gpu import Cut, PeeledItems, count_entries
from papilio.kernels.peel.phases import PeelingKind
from papilio.kernels.tuning import wedge_tuning
from papilio.kernels.wedge.gpu_graph import build_wedge_graph

_BYTES_PER_WEDGE = 56
"""Device memory at the peak of indexing: keys, order and sorted keys, both edges, and a copy while sorting."""


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
        return int(self.wedges.left.size)

    @property
    def is_empty(self) -> bool:
        return self.n_items == 0

    def open(self, device: Device) -> PeeledItems:
        return self._open(device, self.wedges, lambda entries: np.int64(int(entries.sum())))

    def open_ranges(self, device: Device, cut: Cut) -> PeeledItems:
        wedges, ranges = _link_ranges(device, self, cut)
        by_range = device.xp.argsort(ranges)
        bounds = value_starts(device, take(device, ranges, by_range), cut.n)
        return self._open(
            device,
            wedges,
            lambda entries: take(device, make_offsets(device, take(device, entries, by_range)), bounds),
        )

    def _open(self, device: Device, wedges: LinkedWedges, share: Callable[[Any], Any]) -> PeeledItems:
        """Copy what peeling changes; ``share`` gives the room of the teams in a list of so many entries by segment."""
        xp, n_segments = device.xp, int(wedges.left.size)
        entries = count_entries(device, self.kind, wedges.offsets)
        lost = xp.zeros(2 * n_segments, dtype=np.int32)
        stamp = fill_ints(device, self.n_items, 2**31 - 1)
        touched = xp.empty(2 * int(entries.sum()), dtype=np.uint64)
        own = (
            wedges.link_segment, wedges.link_twin, wedges.offsets, wedges.one, wedges.other,
            np.int64(n_segments), wedges.left.copy(), lost, stamp, touched, share(entries),
        )  # fmt: skip
        return PeeledItems(wedges.link_offsets, wedges.supports.copy(), own)


def index_wing_gpu(device: Device, graph: BipartiteGraph) -> BloomsGpu:
    """List the blooms of a graph on the device and link its edges to them.

    Sizes are checked before wedges are listed; at most 2^31 - 1 edges and blooms.
    """
    check_fits("the number of edges", graph.n_edges, 2**31 - 1, "edges")
    module = device.load("wing", {})
    load_arrays(device)  # compiled, as the kernels of wings, while the graph is built
    keys, one, other = _list_wedges(device, module, graph)
    offsets, one, other, bloom_of = _join_blooms(device, keys, one, other)
    check_fits("the number of blooms", int(offsets.size) - 1, 2**31 - 1, "blooms")
    left = lengths_of(device, offsets)
    return BloomsGpu(
        graph.n_edges, bloom_of, _link(device, module, graph.n_edges, (offsets, one, other, left), bloom_of)
    )


def _join_blooms(device: Device, keys: Any, one: Any, other: Any) -> tuple[Any, Any, Any, Any]:
    """Return where each bloom begins and the last one ends, and both edges and the bloom of their wedges."""
    xp, n, module = device.xp, np.int64(keys.size), device.load("wing", {})
    order = xp.argsort(keys)
    upto, runs = xp.empty(keys.size, dtype=np.int64), xp.empty(keys.size, dtype=np.int64)
    launch_over(device, module, "mark_blooms", int(n), take(device, keys, order), n, upto, runs)
    n_kept, n_blooms = _sum_marks(device, upto, runs)
    one_of, other_of, bloom_of = (xp.empty(n_kept, dtype=np.int32) for _ in range(3))
    offsets = xp.zeros(n_blooms + 1, dtype=np.int64)
    launch_over(
        device, module, "take_blooms", int(n), order, upto, runs, n, one, other, one_of, other_of, bloom_of,
        offsets,
    )  # fmt: skip
    return offsets, one_of, other_of, bloom_of


def _sum_marks(device: Device, *marks: Any) -> tuple[int, ...]:
    """Replace marks, int64, by their inclusive sums; return how many there are."""
    for each in marks:
        device.xp.cumsum(each, out=each)
    return tuple(int(each[-1]) if each.size else 0 for each in marks)


def _list_wedges(device: Device, module: Module, graph: BipartiteGraph) -> tuple[Any, Any, Any]:
    """Return (keys of the pairs of ends, edge, other edge) of all counted wedges."""
    xp = device.xp
    if graph.n_edges == 0:
        none = xp.zeros(0, dtype=np.int32)
        return none.astype(np.uint64), none, none
    built = build_wedge_graph(device, graph, wedge_tuning(device.max_shared_bytes))
    first_wedge = make_offsets(device, built.prefix)
    n_wedges = int(first_wedge[-1])
    what, remedy = f"wing numbers of {n_wedges} wedges need", "use a device with more memory, or --engine cpu"
    require_room(what, _BYTES_PER_WEDGE * n_wedges, device.free_bytes(), remedy, "device memory")
    n = 2 * graph.n_edges
    edge_of, row_of = xp.empty(n, dtype=np.int32), xp.empty(n, dtype=np.int32)
    n_u = np.int32(built.n_u)
    launch_over(
        device, module, "name_entries", graph.n_edges, device.to_device(graph.u), device.to_device(graph.v),
        np.int64(graph.n_edges), built.rank_u, built.rank_v, built.indptr, built.adjacency, n_u, edge_of,
        row_of,
    )  # fmt: skip
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
    link_offsets = make_offsets(device, degree.view(np.int64))
    n_links = int(link_offsets[-1])
    link_segment, link_twin = xp.empty(n_links, dtype=np.int32), xp.empty(n_links, dtype=np.int32)
    if n_links:
        cursor = link_offsets[:-1].copy().view(np.uint64)
        launch_over(
            device, module, "fill_links", n_wedges, one, other, segment_of, np.int64(n_wedges), cursor,
            link_segment, link_twin,
        )  # fmt: skip
    return LinkedWedges(
        offsets, one, other, left, link_offsets, link_segment, link_twin, supports.view(np.int64)
    )


def _link_ranges(device: Device, index: BloomsGpu, cut: Cut) -> tuple[LinkedWedges, Any]:
    """Return the wedges by bloom and falling range, linked within their ranges, and the range of each segment.

    Ranges that are exact, and segments whose bloom has no other wedge so high, are left out.
    """
    xp, wedges, module = device.xp, index.wedges, device.load("wing", {})
    n = np.int64(wedges.one.size)
    keys = xp.empty(int(n), dtype=np.uint64)
    launch_over(
        device, module, "range_keys", int(n), wedges.one, wedges.other, index.bloom_of, cut.of, n, keys
    )
    order = xp.argsort(keys)
    keys = take(device, keys, order)
    upto, runs = xp.empty(int(n), dtype=np.int64), xp.empty(int(n), dtype=np.int64)
    is_exact = device.to_device(cut.is_exact().astype(np.uint8))
    launch_over(device, module, "mark_ranges", int(n), keys, n, is_exact, upto, runs)
    n_kept, n_segments = _sum_marks(device, upto, runs)
    one, other, segment_of = (xp.empty(n_kept, dtype=np.int32) for _ in range(3))
    ranges, before = (xp.empty(n_segments, dtype=np.int32) for _ in range(2))
    offsets = xp.zeros(n_segments + 1, dtype=np.int64)
    launch_over(
        device, module, "take_ranges", int(n), keys, order, upto, runs, n, wedges.one, wedges.other, cut.of,
        wedges.offsets, one, other, segment_of, offsets, ranges, before,
    )  # fmt: skip
    segments = (offsets, one, other, before)
    return _link(device, device.load("wing", {}), index.n_items, segments, segment_of), ranges
