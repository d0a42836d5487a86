"""The work items of bicliques on the device: those that :mod:`papilio.kernels.biclique.index` cuts on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.gpu_pairs import Pairs
from papilio.kernels.biclique.items import ITEMS_PER_JOB, LEAST_ITEM_COST, make_root_items
from papilio.kernels.device.protocol import Device, Module, launch_over
from papilio.kernels.wedge.gpu_graph import make_offsets


def cut_items(
    device: Device, module: Module, pairs: Pairs, deep: bool, items: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Return root, first and last child, cost and most shared columns of each piece, in their order.

    ``items`` of a part are those of the left vertices, -1 for those that are no roots; None for a whole graph.
    """
    xp = device.xp
    n_left = pairs.indptr.size - 1
    n_threads, n_rows = 32 * n_left, np.int32(n_left)
    ends = _sum_child_costs(device, module, pairs, deep)
    most = np.int64(max(LEAST_ITEM_COST, int(device.to_host(ends[-1:])[0]) // ITEMS_PER_JOB))
    n_items = xp.empty(n_left, dtype=np.int32)
    launch_over(device, module, "count_items", n_threads, pairs.indptr, ends, n_rows, most, n_items)
    places = make_offsets(xp, n_items)
    n = int(device.to_host(places[-1:])[0])
    roots = xp.empty(n, dtype=np.int32)
    firsts, lasts, costs = (xp.empty(n, dtype=np.int64) for _ in range(3))
    launch_over(
        device, module, "write_items", n_threads, pairs.indptr, ends, n_rows, most, places, roots, firsts,
        lasts, costs,
    )  # fmt: skip
    order = xp.argsort(-costs, kind="stable")
    if items is not None:
        order = order[xp.argsort(items[roots[order]], kind="stable")]
    roots, firsts, lasts, costs = (each[order] for each in (roots, firsts, lasts, costs))
    return roots, firsts, lasts, costs, _find_widest(device, module, pairs, firsts, lasts)


def _sum_child_costs(device: Device, module: Module, pairs: Pairs, deep: bool) -> Any:
    """Return the cost of all children up to each one, int64."""
    n_left = pairs.indptr.size - 1
    child_costs = device.xp.empty(pairs.others.size, dtype=np.int64)
    launch_over(
        device, module, "estimate_children", 32 * n_left, pairs.indptr, pairs.common, np.int32(n_left),
        np.int32(deep), child_costs,
    )  # fmt: skip
    return device.xp.cumsum(child_costs)


def _find_widest(device: Device, module: Module, pairs: Pairs, firsts: Any, lasts: Any) -> Any:
    """Return most shared columns of a child of each piece, int32."""
    widest = device.xp.zeros(firsts.size, dtype=np.int32)
    count = np.int64(firsts.size)
    launch_over(device, module, "widest_child", 32 * firsts.size, firsts, lasts, count, pairs.common, widest)
    return widest


def list_roots(
    device: Device, module: Module, pairs: Pairs, deep: bool, items: NDArray[np.int32], n_items: int
) -> tuple[Any, Any, Any, Any, Any]:
    """Return what :func:`cut_items` does with each root of a part as one item; ``items`` are on the host."""
    indptr = device.to_host(pairs.indptr)
    before = np.zeros_like(indptr)
    if pairs.others.size:
        ends = _sum_child_costs(device, module, pairs, deep)
        before[indptr > 0] = device.to_host(ends[device.to_device(indptr[indptr > 0] - 1)])
    made = [device.to_device(each) for each in make_root_items(indptr, before, items, n_items)]
    roots, firsts, lasts, costs = made
    if not pairs.others.size:
        return roots, firsts, lasts, costs, firsts.astype(np.int32)
    return roots, firsts, lasts, costs, _find_widest(device, module, pairs, firsts, lasts)
