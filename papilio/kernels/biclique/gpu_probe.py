"""Probes of the searches for (p,q)-bicliques on the device, ``biclique_probe.cu``; see :mod:`.probe`."""

from __future__ import annotations

import numpy as np

from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.probe import Measured, Probes, count_ways
from papilio.kernels.device.arrays import take
from papilio.kernels.device.protocol import Device

_WARPS = 4
"""Of a block."""

_NEAR_WORDS = 1024
"""Of shared memory of a warp."""

_SLAB_FRACTION = 0.25
"""Largest share of free device memory for the matrices of all warps."""

_MAX_INT = 2**31 - 1

_SPARE_WORDS = 64
"""What rounding up takes."""


def measure_probes(device: Device, index: BicliqueDeviceIndex, probes: Probes) -> Measured:
    """Walk the probes of an index whose left sides have one size, 3 or more."""
    xp, sizes, arrays = device.xp, index.sizes, index.arrays
    roots, children, weights, seeds = (device.to_device(each) for each in probes)
    next_roots = device.to_device(probes.roots.astype(np.int64) + 1)
    ends = device.to_host(take(device, arrays["hop_indptr"], next_roots))
    common = device.to_host(take(device, arrays["hop_common"], children)).astype(np.int64)
    later = ends - probes.children
    degree = device.to_host(take(device, arrays["indptr"], next_roots))
    degree = degree - device.to_host(
        take(device, arrays["indptr"], device.to_device(probes.roots.astype(np.int64)))
    )
    row_words, column_words = (common + 31) // 32, (later + 31) // 32
    need = degree + common + later * row_words + common * column_words + 3 * (row_words + column_words)
    far_words = (int(need.max(initial=0)) + _SPARE_WORDS) // 4 * 4
    room = int(_SLAB_FRACTION * device.free_bytes()) // (4 * _WARPS * far_words)
    blocks = max(1, min(-(-probes.roots.size // _WARPS), room))
    max_later, max_common = int(later.max(initial=0)), int(common.max(initial=0))
    lefts, rights = (
        device.to_device(count_ways(sizes.min_left, max_later)),
        device.to_device(count_ways(sizes.min_right, max_common)),
    )
    found = xp.zeros(6 * probes.roots.size, dtype=np.float64)
    names = ("indptr", "columns", "hop_indptr", "hop", "right_indptr", "right_rows")
    device.load("biclique_probe", {}).get_function("biclique_probe")(
        (blocks,),
        (32 * _WARPS,),
        (
            *(arrays[name] for name in names), roots, children, weights, seeds, np.int32(probes.roots.size),
            np.int32(_NEAR_WORDS), xp.empty(blocks * _WARPS * far_words, dtype=np.uint32), np.int64(far_words),
            np.int32(sizes.min_left), np.int32(sizes.min_right),
            np.int32(min(sizes.max_right, _MAX_INT)), rights[0], lefts.reshape(-1),
            np.int32(max_later + 1), rights.reshape(-1), np.int32(max_common + 1), found,
        ),
        shared_mem=_WARPS * 4 * _NEAR_WORDS,
    )  # fmt: skip
    return Measured(*device.to_host(found).reshape(6, -1))
