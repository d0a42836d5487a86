"""Probes of the searches for (p,q)-bicliques on the device, ``biclique_probe.cu``; see :mod:`.probe`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.probe import (
    WALKS,
    draw_children,
    draw_pieces,
    make_count_tables,
    name_found,
)
from papilio.kernels.device.arrays import take
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.probe import FIELDS, Found, count_ways
from papilio.kernels.tree.gpu_probe import launch_probes

_SEARCHED = ("indptr", "columns", "hop_indptr", "hop", "right_indptr", "right_rows")
"""Arrays of the index that every kernel of this module takes."""


def measure_probes(
    device: Device,
    index: BicliqueDeviceIndex,
    items: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    walks: tuple[str, ...],
) -> dict[str, Found]:
    """Probe items of an index with some of the :data:`~papilio.kernels.biclique.probe.WALKS`."""
    xp, sizes, arrays = device.xp, index.sizes, index.arrays
    children = draw_children(index, items, seeds)
    is_searched = children.roots >= 0
    roots, places = (each[is_searched] for each in (children.roots, children.places))
    at = device.to_device(roots.astype(np.int64))
    ends = device.to_host(take(device, arrays["hop_indptr"], at + 1))
    common = device.to_host(take(device, arrays["hop_common"], device.to_device(places))).astype(np.int64)
    later = ends - places
    degree = device.to_host(take(device, arrays["indptr"], at + 1) - take(device, arrays["indptr"], at))
    row_words, column_words = (common + 31) // 32, (later + 31) // 32
    given = [device.to_device(each) for each in children]
    ways = device.to_device(count_ways(int(common.max(initial=0)), sizes.min_right, sizes.max_right))
    found = {name: xp.zeros((items.size * (name in walks), FIELDS), dtype=np.float64) for name in WALKS}
    if roots.size:
        matrices = later * row_words, common * column_words
        sets = row_words, row_words, column_words, np.maximum(row_words, column_words)
        launch_probes(
            device,
            device.load("biclique_probe", {}).get_function("biclique_probe"),
            items.size,
            (degree, common, *matrices, *sets),
            (*(arrays[name] for name in _SEARCHED), *given),
            (
                *(sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right), ways,
                sum(1 << bit for bit, name in enumerate(WALKS) if name in walks), *found.values(),
            ),
        )  # fmt: skip
    return {name: name_found(device.to_host(found[name]), sizes) for name in walks}


def weigh_pieces(device: Device, index: BicliqueDeviceIndex) -> NDArray[np.float64]:
    """Weigh pieces as :func:`papilio.kernels.biclique.probe_loops.weigh_pieces`."""
    arrays, n_pieces = index.arrays, index.item_root.size
    lots = device.xp.zeros(n_pieces, dtype=np.float64)
    tables = make_count_tables(index.sizes, int(index.item_common.max(initial=0)))
    names = ("hop_indptr", "hop_common", "item_root", "item_first", "item_last")
    launch_over(
        device, device.load("biclique_probe", {}), "biclique_lots", 32 * n_pieces,
        *(arrays[name] for name in names), np.int32(n_pieces), device.to_device(tables.children),
        np.int32(tables.law), lots,
    )  # fmt: skip
    return device.to_host(lots)


def measure_counts(
    device: Device, index: BicliqueDeviceIndex, items: NDArray[np.int64], seeds: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Estimate counts as :func:`papilio.kernels.biclique.probe_loops.measure_counts`."""
    xp, sizes, arrays = device.xp, index.sizes, index.arrays
    pieces, weights = draw_pieces(index, items, seeds)
    if not index.item_root.size or not items.size:
        return np.zeros(items.size)
    later, common, degree = (each[pieces] for each in (index.item_later, index.item_common, index.item_degree))
    row_words = (common + 31) // 32
    tables = make_count_tables(sizes, int(index.item_common.max(initial=0)))
    roots = np.where(weights > 0.0, index.item_root[pieces], -1).astype(np.int32)
    given = roots, index.item_first[pieces], index.item_last[pieces], seeds
    found = xp.zeros(items.size, dtype=np.float64)
    launch_probes(
        device,
        device.load("biclique_probe", {}).get_function("biclique_counts"),
        items.size,
        (degree, common, later * row_words, later * row_words, row_words),
        (*(arrays[name] for name in (*_SEARCHED, "hop_common")), *(device.to_device(each) for each in given)),
        (
            *(sizes.min_left, sizes.max_left, sizes.min_right),
            *(device.to_device(table) for table in tables[:3]), tables.law, found,
        ),
    )  # fmt: skip
    return device.to_host(found) * weights
