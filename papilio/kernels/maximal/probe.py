"""Probes of the search for maximal bicliques: their results, the speed of the search, and probes on the device.

A probe draws a child of a work item, and descends one random branch of the search below it. All maximal bicliques one
step away from this branch are counted, each divided by the probability of its node. Nodes are branches of the search.
Words are the words of candidates and excluded rows that it intersects, and of comparisons to drop candidates inside
excluded rows. On the first level they represent finding the rows around the root and a child. Operations that take
longer than a word count as several (see :mod:`papilio.kernels.device.constants`).

:mod:`papilio.kernels.maximal.probe_loops` and ``maximal_probe.cu`` give the same results, bit for bit.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import EngineName
from papilio.kernels.maximal.gpu_roots import MaximalRoots, root_arguments
from papilio.kernels.probe import FIELDS, Found, Rates, unpack_found
from papilio.kernels.tree.gpu_probe import launch_probes

SEARCH_RATES: dict[EngineName, Rates] = {
    "cpu": Rates(inf, 1.1e7, 2.6e9),
    "gpu": Rates(9e10, 5.9e8, 1.2e12, 0.0014),
}
"""Speed of the search. One thread, whose items take no time besides their children: fitted to bonanza, marvel, senate,
youtube-groupmemberships and yelp2018, all sizes and large ones. One H200: fitted to ten graphs, of 1 to 380 ms; each
predicted time is 0.66 to 1.2 times the measured one."""


def probe_on_device(
    device: Device,
    index: BicliqueDeviceIndex,
    roots: MaximalRoots,
    items: NDArray[np.int64],
    seeds: NDArray[np.uint64],
) -> Found:
    """Walk probes of work items."""
    arrays, sizes = index.arrays, index.sizes
    found = device.xp.zeros((items.size, FIELDS), dtype=np.float64)
    if not items.size or not index.n_pairs:
        return unpack_found(device.to_host(found))
    at, common = index.item_root[items], index.item_common[items]
    n_rows, words = roots.n_rows[at], (common + 31) // 32
    given = at, index.item_first[items], index.item_last[items], seeds
    matrix = n_rows * words  # allocated as two parts, each rounded up
    launch_probes(
        device,
        device.load("maximal_probe", {}).get_function("maximal_probe"),
        items.size,
        (common, common, matrix + 4, matrix, n_rows, 2 * n_rows, words),
        (
            *root_arguments(index, roots), arrays["hop_common"],
            roots.right_indptr, roots.right_rows,
            *(device.to_device(each) for each in given),
        ),
        (sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right, found),
    )  # fmt: skip
    return unpack_found(device.to_host(found))
