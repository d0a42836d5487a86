"""The work items of the GPU engines of cliques, made on the device: those of the CPU engines, in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.gpu_order import DeviceLater
from papilio.kernels.clique.question import predict_maximal_work, predict_work
from papilio.kernels.device.arrays import find_least, order_falling, take
from papilio.kernels.device.protocol import Device, launch_over


@dataclass(frozen=True, eq=False)
class DeviceItems:
    """By item, heaviest first: the root (int32), and where its part of the later neighbours begins and ends (int64).

    ``sizes`` (int64) are the candidates, at most, and ``costs`` the predicted set operations, both on the host. Where
    edges are items, the first entry is that of the edge, or -1 for a root alone.
    """

    roots: Any
    first: Any
    last: Any
    sizes: NDArray[np.int64]
    costs: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        return sum(int(array.nbytes) for array in (self.roots, self.first, self.last))


def choose_vertices(device: Device, later: DeviceLater, least: int, most: int) -> DeviceItems:
    """Return the vertices that have enough later neighbours for cliques of ``least``."""
    kept = find_least(device, later.out, least - 1)
    return _make_items(device, later, kept, None)


def follow_roots(device: Device, later: DeviceLater, back: Any, roots: NDArray[np.int32]) -> DeviceItems:
    """Return the roots of a part in their order.

    ``back`` counts the earlier neighbours of each vertex, int32; None for cliques of one k.
    """
    on_device = device.to_device(roots)
    out = later.out[on_device].astype(np.int64)
    costs = predict_work(out) if back is None else predict_maximal_work(out, back[on_device].astype(np.int64))
    first = later.indptr[on_device]
    return DeviceItems(on_device, first, first + out, device.to_host(out), device.to_host(costs))


def choose_edges(device: Device, later: DeviceLater, least: int, most: int) -> DeviceItems:
    """Return the edges that can be the first two vertices of a clique, and vertices alone where these are counted."""
    xp, n, n_edges = device.xp, int(later.out.size), int(later.ids.size)
    entries, none = xp.arange(n_edges, dtype=np.int64), xp.full(n, -1, dtype=np.int64)
    roots = later.list_roots(xp)
    behind = later.indptr[roots + 1] - entries - 1
    sizes = xp.minimum(behind, later.out[later.ids].astype(np.int64))
    kept = xp.flatnonzero((sizes + 2 >= least) & (most >= 2))
    roots, entries, sizes = roots[kept], entries[kept], sizes[kept]
    costs = predict_work(sizes) + later.out[roots] + later.out[later.ids[entries]]
    if least == 1:
        roots, entries = xp.concatenate((roots, xp.arange(n))), xp.concatenate((entries, none))
        sizes, costs = (
            xp.concatenate((sizes, xp.zeros_like(none))),
            xp.concatenate((costs, xp.ones_like(none))),
        )
    order = order_falling(device, costs)
    first = entries[order]
    return DeviceItems(
        roots[order].astype(np.int32),
        first,
        first,
        device.to_host(sizes[order]),
        device.to_host(costs[order]),
    )


def choose_maximal(device: Device, later: DeviceLater, back: Any, least: int) -> DeviceItems:
    """Return the vertices that can be the first of a maximal clique; ``back`` counts their earlier neighbours."""
    kept = find_least(device, later.out, least - 1)
    return _make_items(device, later, kept, back)


def _make_items(device: Device, later: DeviceLater, roots: Any, back: Any) -> DeviceItems:
    """Return the items of roots, int64, heaviest first; ``back`` as :func:`follow_roots`."""
    xp, n, module = device.xp, roots.size, device.load("clique_order", {})
    costs, count = xp.empty(n, dtype=np.int64), np.int64(n)
    is_maximal, given = np.int32(back is not None), later.out if back is None else back
    launch_over(device, module, "item_costs", n, roots, count, later.out, is_maximal, given, costs)
    order = order_falling(device, costs)
    own_roots = xp.empty(n, dtype=np.int32)
    first, last, sizes = (xp.empty(n, dtype=np.int64) for _ in range(3))
    launch_over(
        device, module, "place_items", n, order, count, roots, later.indptr, own_roots, first, last, sizes
    )
    costs = take(device, costs, order)
    return DeviceItems(own_roots, first, last, device.to_host(sizes), device.to_host(costs))
