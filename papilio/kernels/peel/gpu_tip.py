"""The pairs of a layer on the GPU (``tip.cu``), from which :mod:`papilio.kernels.peel.gpu_rounds` peels vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_vertices, require_room
from papilio.kernels.device.arrays import load_arrays, make_offsets, place_of
from papilio.kernels.device.protocol import THREADS, Device, launch_over
from papilio.kernels.peel.gpu_rounds import Cut, PeeledItems
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
        """Vertices of the layer."""
        return int(self.offsets.size) - 1

    @property
    def is_empty(self) -> bool:
        """Whether there is no pair."""
        return bool(self.others.size == 0)

    def open(self, device: Device) -> PeeledItems:
        """Return all vertices, for the coarse phase."""
        supports = self._sum_pairs(device, device.xp.zeros(self.n_items, dtype=np.int32))
        return PeeledItems(self.offsets, supports, (self.others, self.common))

    def open_ranges(self, device: Device, cut: Cut) -> PeeledItems:
        """Return all vertices, for the fine phase."""
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
    """Count the common neighbours of all pairs of a layer on the device.

    Raises
    ------
    CapacityError
        When the pairs do not fit the device, known before they are listed, or a count could pass 2^63 - 1.
    """
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
