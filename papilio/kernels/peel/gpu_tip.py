"""Tip numbers on the GPU (``tip.cu``): the pairs of a layer, the coarse phase, and a block for each range."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_vertices
from papilio.kernels.device.protocol import Device, Module
from papilio.kernels.peel.gpu_rounds import (
    THREADS,
    Cut,
    PeelTuning,
    cut_ranges,
    plan_fine,
    read_counters,
    starts_of,
)
from papilio.kernels.peel.phases import Layer, Peeled, Report, ignore_report
from papilio.kernels.tuning import wedge_tuning
from papilio.kernels.wedge.gpu_graph import WedgeGraph, build_wedge_graph, choose_grid

__all__ = ["PairsGpu", "index_tip_gpu", "peel_tip_gpu"]

_TABLE_SHARE = 8
"""The tables in which blocks count take one part in so many of the free memory, and there is one at least."""

_BLOCKS_PER_SM = 4

_BYTES_PER_ENTRY = 12
"""Device memory of a pair in one direction: the other vertex, the common neighbours, and its part of the lists."""


@dataclass(frozen=True, eq=False)
class PairsGpu:
    """The pairs of one layer with at least two common neighbours, in both directions; all on the device.

    Attributes
    ----------
    offsets : device array of int64, shape (n + 1,)
        Pairs of each vertex, by id within the layer.
    others : device array of int32, shape (2 * n_pairs,)
    common : device array of uint32, shape (2 * n_pairs,)
    """

    offsets: Any
    others: Any
    common: Any

    @property
    def n(self) -> int:
        """Vertices of the layer."""
        return int(self.offsets.size) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        return int(self.offsets.nbytes + self.others.nbytes + self.common.nbytes)


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
    built = build_wedge_graph(device, graph, wedge_tuning(device.max_shared_bytes))
    check_vertices(graph, int(built.degree.max()))
    cursor = xp.zeros(n, dtype=np.uint64)
    nothing = xp.zeros(1, dtype=np.int32)
    _walk_pairs(
        device, device.load("tip", {"FILL": 0}), built, layer, cursor, nothing, nothing.view(np.uint32)
    )
    offsets = starts_of(xp, cursor)
    size = int(offsets[-1])
    needed, room = _BYTES_PER_ENTRY * size, device.free_bytes()
    if needed > room:
        raise CapacityError(
            f"tip numbers of layer {layer} of this graph need about {needed / 2**30:.2f} GiB of device memory "
            f"({size // 2} pairs of vertices with two common neighbours or more); there are "
            f"{room / 2**30:.2f} GiB: take the other layer, a device with more memory, or --engine cpu"
        )
    others, common = xp.empty(size, dtype=np.int32), xp.empty(size, dtype=np.uint32)
    if size:
        cursor = offsets[:-1].astype(np.uint64)
        _walk_pairs(device, device.load("tip", {"FILL": 1}), built, layer, cursor, others, common)
    return PairsGpu(offsets, others, common)


def _walk_pairs(
    device: Device, module: Module, built: WedgeGraph, layer: Layer, cursor: Any, others: Any, common: Any
) -> None:
    """Count the pairs of each vertex, or write them from the cursors on."""
    xp = device.xp
    n, first_row, first_middle, rank = (
        (built.n_u, 0, built.n_u, built.rank_u) if layer == "u" else (built.n_v, built.n_u, 0, built.rank_v)
    )
    order = xp.empty(n, dtype=np.int32)
    order[rank] = xp.arange(n, dtype=np.int32)
    n_tables = max(
        1, min(_BLOCKS_PER_SM * device.sm_count, n, device.free_bytes() // _TABLE_SHARE // (4 * n))
    )
    module.get_function("tip_pairs")(
        (int(n_tables),),
        (THREADS,),
        (
            built.indptr, built.adjacency, np.int32(first_row), np.int32(first_middle), np.int32(n), order,
            xp.zeros(int(n_tables) * n, dtype=np.uint32), xp.zeros(1, dtype=np.int32), cursor, others, common,
        ),
    )  # fmt: skip


def peel_tip_gpu(
    device: Device,
    pairs: PairsGpu,
    report: Report = ignore_report,
    n_ranges: int | None = None,
    tuning: PeelTuning | None = None,
) -> Peeled:
    """Return the tip number of every vertex of the layer of the pairs.

    Parameters
    ----------
    device : Device
    pairs : PairsGpu
        Is left as it is.
    report : callable
        Told how far it is.
    n_ranges : int, optional
        Ranges of the coarse phase, if all were equally heavy; with 1 there is one. By default as many as pay.
    tuning : PeelTuning, optional
    """
    if pairs.others.size == 0:
        return Peeled(np.zeros(pairs.n, np.uint64), 0, 0, 0, 0, {"coarse": 0.0, "fine": 0.0})
    chosen = PeelTuning() if tuning is None else tuning
    module = device.load("tip", {"FILL": 0})
    began = perf_counter()
    coarse = _Coarse(device, module, pairs)
    cut = cut_ranges(device, module.get_function("weigh_vertices"), coarse, chosen, n_ranges, report)
    middle = perf_counter()
    numbers, rounds, updates = _peel_fine(device, module, pairs, cut, chosen)
    seconds = {"coarse": middle - began, "fine": perf_counter() - middle}
    report("fine", 1, 1)
    return Peeled(numbers, cut.n, cut.rounds, rounds, cut.updates + updates, seconds)


def _sum_pairs(device: Device, module: Module, pairs: PairsGpu, ranges: Any) -> Any:
    """Return the butterflies of each vertex with those of its own range or a higher one; int64 on the device."""
    supports = device.xp.empty(pairs.n, dtype=np.int64)
    module.get_function("sum_pairs")(
        choose_grid(device, 32 * pairs.n),
        (THREADS,),
        (pairs.offsets, pairs.others, pairs.common, ranges, np.int32(pairs.n), supports),
    )
    return supports


class _Coarse:
    """The pairs in the coarse phase; see :class:`papilio.kernels.peel.gpu_rounds.Coarse`."""

    def __init__(self, device: Device, module: Module, pairs: PairsGpu) -> None:
        xp = device.xp
        self._kernel, self._pairs = module.get_function("tip_coarse"), pairs
        self.supports = _sum_pairs(device, module, pairs, xp.zeros(pairs.n, dtype=np.int32))
        self.gone = xp.zeros(pairs.n, dtype=np.uint8)
        self.link_offsets = pairs.offsets

    def launch(self, grid: tuple[int, ...], block: tuple[int, ...], lists: tuple[Any, ...], own: Any) -> None:
        """Launch a range."""
        pairs = self._pairs
        items, going, going_room, counters, arrivals = lists
        self._kernel(
            grid,
            block,
            (
                items, np.int64(items.size), pairs.offsets, pairs.others, pairs.common, self.supports, self.gone,
                going, going_room, counters, arrivals, *own,
            ),
            together=True,
        )  # fmt: skip


def _peel_fine(
    device: Device, module: Module, pairs: PairsGpu, cut: Cut, tuning: PeelTuning
) -> tuple[NDArray[np.uint64], int, int]:
    """Peel the ranges; return (numbers, rounds, updates)."""
    xp = device.xp
    numbers = cut.known_numbers(xp)
    plan = plan_fine(device, cut, pairs.offsets[1:] - pairs.offsets[:-1])
    if plan.n_blocks:
        supports = _sum_pairs(device, module, pairs, cut.of)
        module.get_function("tip_fine")(
            (plan.n_blocks,),
            (tuning.fine_threads,),
            (
                plan.order, plan.items, plan.item_bounds, pairs.offsets, pairs.others, pairs.common, cut.of,
                supports, xp.zeros(pairs.n, dtype=np.uint8), plan.going, plan.going_bounds, plan.counters,
                numbers,
            ),
        )  # fmt: skip
    return device.to_host(numbers), *read_counters(device, plan.counters)
