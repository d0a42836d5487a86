"""The pairs of a layer on the GPU (``tip.cu``), from which :mod:`papilio.kernels.peel.gpu` peels vertices.

Also the heaviest spanning forest of the items of a decomposition (``forest.cu``). Its pairs, fewer than there are
items, stand for all pairs: they have the same components at every level, so that
:func:`papilio.kernels.peel.forest.build_tip_forest` makes the hierarchy of them on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.device import arrays
from papilio.kernels.device.arrays import load_arrays, make_offsets, place_of
from papilio.kernels.device.protocol import THREADS, Device, launch_over
from papilio.kernels.exact import check_vertices, require_room
from papilio.kernels.peel.gpu import Cut, PeeledItems
from papilio.kernels.peel.gpu_wing import BloomsGpu
from papilio.kernels.peel.phases import Layer, PeelingKind
from papilio.kernels.tuning import wedge_tuning
from papilio.kernels.wedge.gpu_graph import WedgeGraph, build_wedge_graph

_TABLE_SHARE = 8
"""The tables in which blocks count take one part in so many of the free memory, and there is one at least."""

_BLOCKS_PER_SM = 4

_BYTES_PER_ENTRY = 12
"""Device memory of a pair in one direction: the other vertex, the common neighbours, and its part of the lists."""


@dataclass(frozen=True, eq=False)
class PairsGpu:
    """The pairs of one layer with at least two common neighbours, in both directions, on the device.

    ``offsets``, int64 of shape (n + 1,), are the pairs of each vertex by id within the layer; ``others``, int32, and
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
        """Return the butterflies of each vertex with those of its own range or a higher one; int64 on the device."""
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
    remedy = "take the other layer, a device with more memory, or --engine cpu"
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
    n_tables = max(
        1, min(_BLOCKS_PER_SM * device.sm_count, n, device.free_bytes() // _TABLE_SHARE // (4 * n))
    )
    device.load("tip", {"FILL": fill}).get_function("tip_pairs")(
        (int(n_tables),),
        (THREADS,),
        (
            built.indptr, built.adjacency, np.int32(first_row), np.int32(first_middle), np.int32(n), order,
            xp.zeros(int(n_tables) * n, dtype=np.uint32), xp.zeros(1, dtype=np.int32), cursor, others, common,
        ),
    )  # fmt: skip


_BYTES_PER_ITEM, _BYTES_PER_BLOOM = 96, 8
"""Device memory: what a round needs for each item, and the tops of blooms."""

_WARP = 32

_Spanning = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]


def span_wings(device: Device, blooms: BloomsGpu, numbers: NDArray[np.uint64]) -> _Spanning | None:
    """Return the pairs of edges that are taken, by edge, as a PairGraph has them; None without memory for it.

    Behind them are the edges by falling number, then id, as :func:`~papilio.kernels.peel.forest.build_tip_forest` takes
    them.
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

    def take(above: Any, best: Any, *taking: Any) -> None:
        given = (one, other, blooms.bloom_of, ranks, tops, above, best)
        launch_over(device, module, "take_wedges", blooms.n_items, *given, *taking)

    return *_span(device, blooms.n_items, offer, take), _order_falling(device, numbers)


def span_tips(device: Device, pairs: PairsGpu, numbers: NDArray[np.uint64]) -> _Spanning | None:
    """Return the pairs of vertices that are taken, as :func:`span_wings`."""
    if not _has_room(device, pairs.n_items, 0):
        return None
    n = pairs.n_items
    ranks, module = _rank(device, numbers), device.load("forest", {})

    def offer(above: Any, best: Any) -> None:
        launch_over(
            device, module, "offer_pairs", _WARP * n, pairs.offsets, pairs.others, np.int32(n), ranks, above,
            best,
        )  # fmt: skip

    def take(above: Any, best: Any, *taking: Any) -> None:
        launch_over(device, module, "take_listed", n, pairs.offsets, pairs.others, above, best, *taking)

    return *_span(device, n, offer, take), _order_falling(device, numbers)


def _has_room(device: Device, n_items: int, n_blooms: int) -> bool:
    return n_items > 0 and _BYTES_PER_ITEM * n_items + _BYTES_PER_BLOOM * n_blooms <= device.free_bytes()


def _order_falling(device: Device, numbers: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the items by falling number, below 2^63, then id; on the host."""
    order = arrays.order_falling(device, device.to_device(numbers).view(np.int64))
    return device.to_host(arrays.low_halves(device, order.view(np.uint64)))


def _rank(device: Device, numbers: NDArray[np.uint64]) -> Any:
    """Return the place of the number of each item among the different ones, int32; 0 for the number 0, else above."""
    xp, n, module = device.xp, np.int64(numbers.size), device.load("forest", {})
    values = device.to_device(numbers)
    order = xp.argsort(values)
    steps, ranks = xp.empty(numbers.size, dtype=np.int64), xp.empty(numbers.size, dtype=np.int32)
    launch_over(device, module, "mark_steps", int(n), values, order, n, steps)
    xp.cumsum(steps, out=steps)
    launch_over(device, module, "place_ranks", int(n), order, steps, n, ranks)
    return ranks


def _span(
    device: Device, n: int, offer: Callable[..., None], take: Callable[..., None]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the pairs that ``n`` items take in rounds, until no component is offered another; both directions.

    ``offer(above, best)`` finds the best pair of each root; ``take(above, best, n, hook, taken, n_taken)`` takes them.
    """
    xp = device.xp
    above, hook = arrays.fill_ints(device, n, 0, 1), xp.empty(n, dtype=np.int32)
    taken, n_taken = xp.empty(n, dtype=np.uint64), xp.zeros(1, dtype=np.uint64)
    found, before = 0, -1
    while found > before:
        best = xp.zeros(n, dtype=np.uint64)
        offer(above, best)
        take(above, best, np.int32(n), hook, taken, n_taken)
        before, found = found, int(device.to_host(n_taken)[0])
        root = hook
        for _ in range(n.bit_length() if found > before else 0):
            root = arrays.take(device, root, root)
        above = arrays.take(device, root, above)
    return _both_ways(device, n, taken[:found])


def _both_ways(device: Device, n: int, pairs: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return pairs, one in each half of a word, by their first items and by their second; on the host."""
    both = device.xp.empty(2 * pairs.size, dtype=np.uint64)
    launch_over(
        device, device.load("forest", {}), "turn_pairs", pairs.size, pairs, np.int64(pairs.size), both
    )
    offsets, others = arrays.rows_of(device, both, n)
    return device.to_host(offsets), device.to_host(others)
