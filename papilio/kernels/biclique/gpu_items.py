"""The work items of bicliques on the device: those that :mod:`papilio.kernels.biclique.index` cuts on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.gpu_pairs import Pairs
from papilio.kernels.biclique.items import ITEMS_PER_JOB, LEAST_ITEM_COST, make_root_items
from papilio.kernels.device.arrays import make_offsets, order_falling, take
from papilio.kernels.device.protocol import Device, Module, launch_over


def cut_items(
    device: Device, module: Module, pairs: Pairs, deep: bool, items: Any
) -> tuple[Any, Any, Any, Any]:
    """Return root, first and last child, and cost of each piece, in their order.

    ``items`` of a part are those of the left vertices, -1 for those that are no roots; None for a whole graph.
    """
    xp = device.xp
    n_left = pairs.indptr.size - 1
    n_threads, n_rows = 32 * n_left, np.int32(n_left)
    ends = _sum_child_costs(device, module, pairs, deep)
    most = np.int64(max(LEAST_ITEM_COST, int(device.to_host(ends[-1:])[0]) // ITEMS_PER_JOB))
    n_items = xp.empty(n_left, dtype=np.int32)
    launch_over(device, module, "count_items", n_threads, pairs.indptr, ends, n_rows, most, n_items)
    places = make_offsets(device, n_items)
    n = int(device.to_host(places[-1:])[0])
    roots = xp.empty(n, dtype=np.int32)
    firsts, lasts, costs = (xp.empty(n, dtype=np.int64) for _ in range(3))
    launch_over(
        device, module, "write_items", n_threads, pairs.indptr, ends, n_rows, most, places, roots, firsts,
        lasts, costs,
    )  # fmt: skip
    order = order_falling(device, costs)
    if items is not None:
        order = order[xp.argsort(items[roots[order]], kind="stable")]
    roots, firsts, lasts, costs = (take(device, each, order) for each in (roots, firsts, lasts, costs))
    return roots, firsts, lasts, costs


def _sum_child_costs(device: Device, module: Module, pairs: Pairs, deep: bool) -> Any:
    """Return the cost of all children up to each one, int64."""
    n_left = pairs.indptr.size - 1
    child_costs = device.xp.empty(pairs.others.size, dtype=np.int64)
    launch_over(
        device, module, "estimate_children", 32 * n_left, pairs.indptr, pairs.common, np.int32(n_left),
        np.int32(deep), child_costs,
    )  # fmt: skip
    return device.xp.cumsum(child_costs)


def measure_items(
    device: Device, module: Module, pairs: Pairs, indptr: Any, pieces: tuple[Any, Any, Any]
) -> NDArray[np.int64]:
    """Return ``item_later``, ``item_degree`` and ``item_common`` of pieces (root, first, last); shape (3, n_pieces)."""
    roots, firsts, lasts = pieces
    measures = device.xp.empty(3 * roots.size, dtype=np.int64)
    launch_over(
        device, module, "measure_items", 32 * roots.size, roots, firsts, lasts, np.int64(roots.size), indptr,
        pairs.indptr, pairs.common, measures,
    )  # fmt: skip
    return device.to_host(measures).reshape(3, -1)


def list_roots(
    device: Device, module: Module, pairs: Pairs, deep: bool, items: NDArray[np.int32], n_items: int
) -> tuple[Any, Any, Any, Any]:
    """Return what :func:`cut_items` does with each root of a part as one item; ``items`` are on the host."""
    indptr = device.to_host(pairs.indptr)
    before = np.zeros_like(indptr)
    if pairs.others.size:
        ends = _sum_child_costs(device, module, pairs, deep)
        before[indptr > 0] = device.to_host(ends[device.to_device(indptr[indptr > 0] - 1)])
    made = make_root_items(indptr, before, items, n_items)
    roots, firsts, lasts, costs = (device.to_device(each) for each in made)
    return roots, firsts, lasts, costs
