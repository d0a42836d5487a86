"""Probe the clique searches on the device, ``clique_probe.cu``; see :mod:`.probe_loops`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.gpu_graph import DeviceItems, DeviceLater
from papilio.kernels.clique.question import WHOLE, list_maximal_bounds, list_probe_tables
from papilio.kernels.device.arrays import take
from papilio.kernels.device.protocol import Device
from papilio.kernels.probe import FIELDS, Found, unpack_found
from papilio.kernels.tree.gpu_probe import launch_probes


def probe_cliques(
    device: Device,
    later: DeviceLater,
    items: DeviceItems,
    chosen: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    oriented: bool,
    limits: tuple[int, int],
    per: int,
    max_later: int,
    whole: int = WHOLE.whole,
) -> Found:
    """Probe each chosen item once, for cliques from the least to the most vertices.

    Words of roots with more than ``whole`` neighbours are those of a search whose nodes have matrices of their own.
    """
    tables = list_probe_tables(*limits, max_later)
    given = int(oriented), per, *limits, whole, tables.ways, *tables.bounds
    nothing = device.xp.zeros(1, dtype=np.int64), device.xp.zeros(1, dtype=np.int32)
    back = np.zeros(chosen.size, np.int64)
    return _launch(device, 0, later, nothing, items, chosen, seeds, back, given, tables.ways.shape)


def count_edges(device: Device, later: DeviceLater, items: DeviceItems, max_later: int) -> NDArray[np.float64]:
    """Return the edges among the later neighbours of the root of each item."""
    every, seeds = np.arange(items.sizes.size), np.zeros(items.sizes.size, np.uint64)
    return probe_cliques(device, later, items, every, seeds, True, (3, 3), 0, max_later).motifs


def probe_maximal(
    device: Device,
    later: DeviceLater,
    earlier: tuple[Any, Any],
    items: DeviceItems,
    chosen: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    least: int,
    max_later: int,
) -> Found:
    """Probe each chosen item once, for maximal cliques of at least ``least`` vertices."""
    bounds = list_maximal_bounds(max_later)
    roots = take(device, items.roots, device.to_device(chosen)).astype(np.int64)
    back = device.to_host(take(device, earlier[0], roots + 1)) - device.to_host(take(device, earlier[0], roots))
    given = 0, 0, least, 0, 0, np.zeros(1), *bounds
    return _launch(device, 1, later, earlier, items, chosen, seeds, back, given, (1, bounds[0].size))


def _launch(
    device: Device,
    maximal: int,
    later: DeviceLater,
    earlier: tuple[Any, Any],
    items: DeviceItems,
    chosen: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    back: NDArray[np.int64],
    given: tuple[Any, ...],
    shape: tuple[int, ...],
) -> Found:
    """Launch the kernel; ``back`` counts the earlier neighbours of the roots, ``shape`` is the shape of the tables."""
    found = device.xp.zeros((chosen.size, FIELDS), dtype=np.float64)
    if chosen.size:
        sizes = items.sizes[chosen]
        words, rows = (sizes + 31) // 32, sizes + back
        *numbers, ways, first, second = given
        launch_probes(
            device,
            device.load("clique_probe", {"MAXIMAL": maximal}).get_function("clique_probe"),
            chosen.size,
            (sizes, words, words, words, sizes, sizes + 1, rows * words, rows),
            (
                later.indptr, later.ids, *earlier, take(device, items.roots, device.to_device(chosen)),
                device.to_device(seeds),
            ),
            (*numbers, *map(device.to_device, (ways.ravel(), first, second)), *shape, found),
        )  # fmt: skip
    return unpack_found(device.to_host(found))
