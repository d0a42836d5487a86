"""Probes of the searches for (p,q)-bicliques on the device, ``biclique_probe.cu``; see :mod:`.probe`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.probe import (
    FIELDS,
    WALKS,
    count_ways,
    draw_children,
    draw_pieces,
    make_count_tables,
    unpack_found,
)
from papilio.kernels.device.arrays import take
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.probe import Found

_WARPS = 4
"""Of a block."""

_NEAR_WORDS = 1024
"""Of shared memory of a warp."""

_SLAB_FRACTION = 0.25
"""Largest share of free device memory for the matrices of all warps."""

_SEARCHED = ("indptr", "columns", "hop_indptr", "hop", "right_indptr", "right_rows")
"""Arrays of the index that every kernel here takes."""

_MAX_INT = 2**31 - 1

_SPARE_WORDS = 64
"""What rounding up takes."""


def measure_probes(
    device: Device,
    index: BicliqueDeviceIndex,
    items: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    walks: tuple[str, ...],
) -> dict[str, Found]:
    """Probe items of an index by some of the :data:`~papilio.kernels.biclique.probe.WALKS`."""
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
    need = degree + common + later * row_words + common * column_words + 3 * (row_words + column_words)
    far_words, blocks = _fit_slab(device, need, items.size)
    ways = count_ways(int(common.max(initial=0)), sizes.min_right, sizes.max_right)
    found = {name: xp.zeros(FIELDS * items.size * (name in walks), dtype=np.float64) for name in WALKS}
    limits = (sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right)
    if roots.size:
        device.load("biclique_probe", {}).get_function("biclique_probe")(
            (blocks,),
            (32 * _WARPS,),
            (
                *(arrays[name] for name in _SEARCHED), *(device.to_device(each) for each in children),
                np.int32(items.size), np.int32(_NEAR_WORDS), xp.empty(blocks * _WARPS * far_words, dtype=np.uint32),
                np.int64(far_words), *(np.int32(min(limit, _MAX_INT)) for limit in limits), device.to_device(ways),
                np.int32(sum(1 << bit for bit, name in enumerate(WALKS) if name in walks)),
                *(found[name] for name in WALKS),
            ),
            shared_mem=_WARPS * 4 * _NEAR_WORDS,
        )  # fmt: skip
    return {name: unpack_found(device.to_host(found[name]).reshape(-1, FIELDS), sizes) for name in walks}


def weigh_pieces(device: Device, index: BicliqueDeviceIndex) -> NDArray[np.float64]:
    """Do as :func:`papilio.kernels.biclique.probe_loops.weigh_pieces`."""
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
    """Do as :func:`papilio.kernels.biclique.probe_loops.measure_counts`."""
    xp, sizes, arrays = device.xp, index.sizes, index.arrays
    pieces, weights = draw_pieces(index, items, seeds)
    if not index.item_root.size or not items.size:
        return np.zeros(items.size)
    later, common, degree = (
        each[pieces] for each in (index.item_later, index.item_common, index.item_degree)
    )
    row_words = (common + 31) // 32
    far_words, blocks = _fit_slab(device, degree + (2 * later + 1) * row_words, items.size)
    tables = make_count_tables(sizes, int(index.item_common.max(initial=0)))
    roots = np.where(weights > 0.0, index.item_root[pieces], -1).astype(np.int32)
    given = roots, index.item_first[pieces], index.item_last[pieces], seeds
    found = xp.zeros(items.size, dtype=np.float64)
    limits = (sizes.min_left, sizes.max_left, sizes.min_right)
    device.load("biclique_probe", {}).get_function("biclique_counts")(
        (blocks,),
        (32 * _WARPS,),
        (
            *(arrays[name] for name in (*_SEARCHED, "hop_common")), *(device.to_device(each) for each in given),
            np.int32(items.size), np.int32(_NEAR_WORDS), xp.empty(blocks * _WARPS * far_words, dtype=np.uint32),
            np.int64(far_words), *(np.int32(min(limit, _MAX_INT)) for limit in limits),
            *(device.to_device(table) for table in tables[:3]), np.int32(tables.law), found,
        ),
        shared_mem=_WARPS * 4 * _NEAR_WORDS,
    )  # fmt: skip
    return device.to_host(found) * weights


def _fit_slab(device: Device, need: NDArray[np.int64], n_probes: int) -> tuple[int, int]:
    """Return the words of device memory of each warp, and how many blocks there is room for."""
    far_words = (int(need.max(initial=0)) + _SPARE_WORDS) // 4 * 4
    room = int(_SLAB_FRACTION * device.free_bytes()) // (4 * _WARPS * far_words)
    return far_words, max(1, min(-(-n_probes // _WARPS), room))
