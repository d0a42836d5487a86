"""Build the blooms of a graph (``wing.cu``) and the pairs of a layer (``tip.cu``) on the GPU, to peel wings and tips.

:mod:`papilio.kernels.peel.gpu` peels their items. This module also finds the heaviest spanning forest of the items of a
decomposition (``forest.cu``). Its pairs, fewer than the items, replace all pairs: they have the same components at
every level, so :func:`papilio.kernels.peel.forest.build_pair_forest` builds the hierarchy from them on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.device.arrays import (
    fill_ints,
    lengths_of,
    load_arrays,
    low_halves,
    make_offsets,
    order_falling,
    place_of,
    rows_of,
    take,
    value_starts,
)
from papilio.kernels.device.constants import PEEL_GROUP
from papilio.kernels.device.protocol import THREADS, Device, Module, check_fits, launch_over
from papilio.kernels.exact import check_vertices, require_room
from papilio.kernels.peel.gpu import Cut, PeeledItems, count_entries
from papilio.kernels.peel.phases import MAX_EDGES, Layer, PeelingKind, check_wing_edges
from papilio.kernels.rows.gpu_index import WedgeGraph, build_wedge_graph
from papilio.kernels.tuning import wedge_tuning

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
        """Copy the arrays that peeling changes; ``share`` sizes the teams' lists from the entries of each segment."""
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
    check_wing_edges(graph.n_edges)
    module = device.load("wing", {})
    load_arrays(device)  # compiled, like the kernels of wings, while the graph is built
    keys, one, other = _list_wedges(device, module, graph)
    offsets, one, other, bloom_of = _join_blooms(device, module, keys, one, other)
    check_fits("the number of blooms", int(offsets.size) - 1, MAX_EDGES, "blooms")
    left = lengths_of(device, offsets)
    return BloomsGpu(
        graph.n_edges, bloom_of, _link(device, module, graph.n_edges, (offsets, one, other, left), bloom_of)
    )


def _join_blooms(device: Device, module: Module, keys: Any, one: Any, other: Any) -> tuple[Any, Any, Any, Any]:
    """Return the start of each bloom and the end of the last, and both edges and the bloom of each wedge."""
    xp, n = device.xp, np.int64(keys.size)
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
    """Replace marks, int64, by their inclusive sums; return the totals."""
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
    return LinkedWedges(offsets, one, other, left, link_offsets, link_segment, link_twin, supports.view(np.int64))


def _link_ranges(device: Device, index: BloomsGpu, cut: Cut) -> tuple[LinkedWedges, Any]:
    """Return the wedges by bloom and descending range, linked within their ranges, and the range of each segment.

    Leaves out exact ranges, and segments whose bloom has no other wedge in that range or a higher one.
    """
    xp, wedges, module = device.xp, index.wedges, device.load("wing", {})
    n = np.int64(wedges.one.size)
    keys = xp.empty(int(n), dtype=np.uint64)
    launch_over(device, module, "range_keys", int(n), wedges.one, wedges.other, index.bloom_of, cut.of, n, keys)
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
    return _link(device, module, index.n_items, segments, segment_of), ranges


_TABLE_SHARE = 8
"""The counting tables of blocks take 1 / _TABLE_SHARE of the free memory; there is at least one."""

_BLOCKS_PER_SM = 4

_BYTES_PER_ENTRY = 12
"""Device memory of a pair in one direction: the other vertex, the common neighbours, and its part of the lists."""


@dataclass(frozen=True, eq=False)
class PairsGpu:
    """The pairs of one layer with at least two common neighbours, in both directions, on the device.

    ``offsets``, int64 of shape (n + 1,), has the pairs of each vertex by id within the layer; ``others``, int32, and
    ``common``, uint32, have the shape (2 * n_pairs,).
    """

    offsets: Any
    others: Any
    common: Any
    kind: PeelingKind = "tip"

    @property
    def n_items(self) -> int:
        return int(self.offsets.size) - 1

    @property
    def is_empty(self) -> bool:
        return bool(self.others.size == 0)

    def open(self, device: Device) -> PeeledItems:
        supports = self._sum_pairs(device, device.xp.zeros(self.n_items, dtype=np.int32))
        return PeeledItems(self.offsets, supports, (self.others, self.common))

    def open_ranges(self, device: Device, cut: Cut) -> PeeledItems:
        own = (self.others, self.common, cut.of)
        return PeeledItems(self.offsets, self._sum_pairs(device, cut.of), own)

    def _sum_pairs(self, device: Device, ranges: Any) -> Any:
        """Return the butterflies of each vertex within its range and higher ones; int64 on the device."""
        n = self.n_items
        supports = device.xp.empty(n, dtype=np.int64)
        launch_over(
            device, device.load("tip", {}), "sum_pairs", 32 * n, self.offsets, self.others, self.common,
            ranges, np.int32(n), supports,
        )  # fmt: skip
        return supports


def index_tip_gpu(device: Device, graph: BipartiteGraph, layer: Layer) -> PairsGpu:
    """Count the common neighbours of all pairs of a layer on the device."""
    xp = device.xp
    n = graph.n_u if layer == "u" else graph.n_v
    if graph.n_edges == 0:
        none = xp.zeros(0, dtype=np.int32)
        return PairsGpu(xp.zeros(n + 1, dtype=np.int64), none, none.astype(np.uint32))
    load_arrays(device)
    built = build_wedge_graph(device, graph, wedge_tuning(device.max_shared_bytes))
    check_vertices(graph, int(built.degree.max()))
    cursor = xp.zeros(n, dtype=np.uint64)
    nothing = xp.zeros(1, dtype=np.int32)
    _walk_pairs(device, 0, built, layer, cursor, nothing, nothing.view(np.uint32))
    offsets = make_offsets(device, cursor.view(np.int64))
    size = int(offsets[-1])
    what = f"tip numbers of layer {layer}, with {size // 2} pairs of two common neighbours or more, need"
    remedy = "choose the other layer, use a device with more memory, or use --engine cpu"
    require_room(what, _BYTES_PER_ENTRY * size, device.free_bytes(), remedy, "device memory")
    others, common = xp.empty(size, dtype=np.int32), xp.empty(size, dtype=np.uint32)
    if size:
        cursor = offsets[:-1].copy().view(np.uint64)
        _walk_pairs(device, 1, built, layer, cursor, others, common)
    return PairsGpu(offsets, others, common)


def _walk_pairs(
    device: Device, fill: int, built: WedgeGraph, layer: Layer, cursor: Any, others: Any, common: Any
) -> None:
    """Count the pairs of each vertex, or, with ``fill``, write them from the cursors on."""
    xp = device.xp
    n, first_row, first_middle, rank = (
        (built.n_u, 0, built.n_u, built.rank_u) if layer == "u" else (built.n_v, built.n_u, 0, built.rank_v)
    )
    order = place_of(device, rank)
    n_tables = max(1, min(_BLOCKS_PER_SM * device.sm_count, n, device.free_bytes() // _TABLE_SHARE // (4 * n)))
    device.load("tip", {"FILL": fill}).get_function("tip_pairs")(
        (int(n_tables),),
        (THREADS,),
        (
            built.indptr, built.adjacency, np.int32(first_row), np.int32(first_middle), np.int32(n), order,
            xp.zeros(int(n_tables) * n, dtype=np.uint32), xp.zeros(1, dtype=np.int32), cursor, others, common,
        ),
    )  # fmt: skip


_BYTES_PER_ITEM, _BYTES_PER_BLOOM = 96, 8
"""Device memory of a round for each item, and of the tops of blooms."""

_WARP = 32

_Spanning = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]


def span_wings(device: Device, blooms: BloomsGpu, numbers: NDArray[np.uint64]) -> _Spanning | None:
    """Return the chosen pairs of edges, by edge, in the form of a PairGraph. None without memory for it.

    Also returns the edges by descending number, then id, the form of
    :func:`~papilio.kernels.peel.forest.build_pair_forest`.
    """
    if not _has_room(device, blooms.n_items, blooms.n_blooms):
        return None
    xp, wedges = device.xp, blooms.wedges
    one, other, n_wedges = wedges.one, wedges.other, np.int64(wedges.one.size)
    ranks, tops = _rank(device, numbers), xp.zeros(blooms.n_blooms, dtype=np.uint64)
    module = device.load("forest", {})
    shared = (one, other, blooms.bloom_of, n_wedges, ranks, tops)
    if n_wedges:
        launch_over(device, module, "find_tops", int(n_wedges), *shared)

    def offer(above: Any, best: Any) -> None:
        if n_wedges:
            launch_over(device, module, "offer_wedges", int(n_wedges), *shared, above, best)

    def take_best(above: Any, best: Any, *taking: Any) -> None:
        given = (one, other, blooms.bloom_of, ranks, tops, above, best)
        launch_over(device, module, "take_wedges", blooms.n_items, *given, *taking)

    return *_span(device, blooms.n_items, offer, take_best), _order_falling(device, numbers)


def span_pairs(device: Device, offsets: Any, others: Any, numbers: NDArray[np.uint64]) -> _Spanning | None:
    """Return the chosen pairs of vertices, as :func:`span_wings` does for edges; the pairs are listed both ways."""
    n = int(offsets.size) - 1
    if not _has_room(device, n, 0):
        return None
    ranks, module = _rank(device, numbers), device.load("forest", {})

    def offer(above: Any, best: Any) -> None:
        launch_over(device, module, "offer_pairs", _WARP * n, offsets, others, np.int32(n), ranks, above, best)

    def take_best(above: Any, best: Any, *taking: Any) -> None:
        launch_over(device, module, "take_listed", n, offsets, others, above, best, *taking)

    return *_span(device, n, offer, take_best), _order_falling(device, numbers)


def _has_room(device: Device, n_items: int, n_blooms: int) -> bool:
    return n_items > 0 and _BYTES_PER_ITEM * n_items + _BYTES_PER_BLOOM * n_blooms <= device.free_bytes()


def _order_falling(device: Device, numbers: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the items by descending number, below 2^63, then id; on the host."""
    order = order_falling(device, device.to_device(numbers).view(np.int64))
    return device.to_host(low_halves(device, order.view(np.uint64)))


def _rank(device: Device, numbers: NDArray[np.uint64]) -> Any:
    """Return the place of each item's number among the distinct numbers, int32; 0 only for number 0."""
    xp, n, module = device.xp, np.int64(numbers.size), device.load("forest", {})
    values = device.to_device(numbers)
    order = xp.argsort(values)
    steps, ranks = xp.empty(numbers.size, dtype=np.int64), xp.empty(numbers.size, dtype=np.int32)
    launch_over(device, module, "mark_steps", int(n), values, order, n, steps)
    xp.cumsum(steps, out=steps)
    launch_over(device, module, "place_ranks", int(n), order, steps, n, ranks)
    return ranks


def _span(
    device: Device, n: int, offer: Callable[..., None], take_best: Callable[..., None]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the pairs that ``n`` items take in rounds, until no component gets an offer. Both directions.

    ``offer(above, best)`` finds the best pair of each root; ``take_best(above, best, n, hook, taken, n_taken)`` takes
    them.
    """
    xp = device.xp
    above, hook = fill_ints(device, n, 0, 1), xp.empty(n, dtype=np.int32)
    taken, n_taken = xp.empty(n, dtype=np.uint64), xp.zeros(1, dtype=np.uint64)
    found, before = 0, -1
    while found > before:
        best = xp.zeros(n, dtype=np.uint64)
        offer(above, best)
        take_best(above, best, np.int32(n), hook, taken, n_taken)
        before, found = found, int(device.to_host(n_taken)[0])
        root = hook
        for _ in range(n.bit_length() if found > before else 0):
            root = take(device, root, root)
        above = take(device, root, above)
    return _both_ways(device, n, taken[:found])


def _both_ways(device: Device, n: int, pairs: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return pairs, one in each half of a word, by their first and by their second items; on the host."""
    both = device.xp.empty(2 * pairs.size, dtype=np.uint64)
    launch_over(device, device.load("forest", {}), "turn_pairs", pairs.size, pairs, np.int64(pairs.size), both)
    offsets, others = rows_of(device, both, n)
    return device.to_host(offsets), device.to_host(others)
