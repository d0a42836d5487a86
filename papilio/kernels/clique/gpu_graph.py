"""Order and orient a graph and make its work items on the device (``clique_order.cu``).

The order and the items match the CPU engines (``order.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph
from papilio.kernels.device.arrays import (
    find_least,
    low_halves,
    make_offsets,
    order_falling,
    order_rising,
    place_of,
    take,
    turn_rows,
)
from papilio.kernels.device.protocol import Device, Module, launch_over
from papilio.kernels.engine import deal_items
from papilio.kernels.peel.core import NONE_FIXED
from papilio.kernels.peel.core_gpu import count_degrees, index_rows, peel_rows, require_size
from papilio.parts import CliquePart


@dataclass(frozen=True, eq=False)
class DeviceLater:
    """The later neighbours of every vertex, by rank, on the device: as :class:`~papilio.kernels.clique.order.Later`.

    ``indptr`` int64 (n + 1,), ``ids`` int32 (n_edges,), ``vertices`` int32 (n,): the original id of each rank; ``out``
    int32 (n,): the number of later neighbours; ``edges`` int64 (n_edges,): the edge id of each entry, if requested.
    """

    indptr: Any
    ids: Any
    vertices: Any
    out: Any
    edges: Any


def orient_on_device(
    device: Device, graph: UnipartiteGraph | CliquePart, by_degree: bool, with_edges: bool = False
) -> DeviceLater:
    """Order the vertices by degeneracy, or by degree, and orient the graph. One sort of the edges.

    A part is left unchanged: its ids are in degree order. A graph has at most 2^32 - 2^13 edges and 2^31 - 2^20
    vertices.
    """
    if isinstance(graph, CliquePart):
        return _take_part(device, graph)
    xp, n, n_edges = device.xp, graph.n, graph.n_edges
    module = device.load("clique_order", {})
    edges, degree = count_degrees(device, module, graph)
    first = degree if by_degree or n_edges == 0 else _find_rounds(device, module, edges, degree)
    vertices = order_rising(device, first)
    rank, out = place_of(device, vertices), xp.zeros(n, dtype=np.int32)
    keys, places = xp.empty(n_edges, dtype=np.uint64), None
    if n_edges:
        launch_over(device, module, "later_keys", n_edges, *edges[:3], rank, keys, out)
    if with_edges:
        places = xp.argsort(keys)
        keys = take(device, keys, places)
    else:
        keys.sort()
    return DeviceLater(make_offsets(device, out), low_halves(device, keys), vertices, out, places)


def _find_rounds(device: Device, module: Module, edges: tuple[Any, ...], degree: Any) -> Any:
    """Return the peeling round of each vertex, int32 of shape (n,)."""
    return peel_rows(device, module, index_rows(device, module, edges, degree), NONE_FIXED, True)[0]


def _take_part(device: Device, part: CliquePart) -> DeviceLater:
    xp, n, n_edges = device.xp, part.graph.n, part.graph.n_edges
    require_size(n, n_edges)
    first, ids = device.to_device(part.graph.u), device.to_device(part.graph.v)
    indptr = xp.searchsorted(first, xp.arange(n + 1, dtype=np.int32)).astype(np.int64)
    edges = xp.arange(part.edges.size, dtype=np.int64)
    return DeviceLater(indptr, ids, xp.arange(n, dtype=np.int32), xp.diff(indptr).astype(np.int32), edges)


def list_earlier_on_device(device: Device, later: DeviceLater) -> tuple[Any, Any]:
    """Return the earlier neighbours of every vertex, by rank: offsets int64 (n + 1,), ids int32; one sort."""
    return turn_rows(device, later.indptr, later.ids, int(later.out.size))


@dataclass(frozen=True, eq=False)
class DeviceItems:
    """By item: the root (int32), and the begin and end of its part of the later neighbours (int64).

    ``sizes`` (int64) holds the number of candidates, ``costs`` the predicted set operations, both on the host.
    """

    roots: Any
    first: Any
    last: Any
    sizes: NDArray[np.int64]
    costs: NDArray[np.int64]


def roots_on_host(device: Device, items: DeviceItems) -> NDArray[np.int64]:
    """Return the root of each item, shape (n_items,)."""
    with device.guard():
        return device.to_host(items.roots).astype(np.int64)


def list_items(
    device: Device,
    later: DeviceLater,
    least: int,
    roots: NDArray[np.int32] | None,
    back: Any = None,
    hands: int = 1,
) -> DeviceItems:
    """Return the items: ``roots`` in their order, or all vertices with ``least`` - 1 later neighbours, dealt in hands.

    ``back`` counts the earlier neighbours of each vertex, int32, for maximal cliques; None for k-cliques.
    """
    xp, module = device.xp, device.load("clique_order", {})
    chosen = find_least(device, later.out, least - 1) if roots is None else device.to_device(roots.astype(np.int64))
    n = int(chosen.size)
    costs, count = xp.empty(n, dtype=np.int64), np.int64(n)
    is_maximal, given = np.int32(back is not None), later.out if back is None else back
    launch_over(device, module, "item_costs", n, chosen, count, later.out, is_maximal, given, costs)
    order = order_falling(device, costs) if roots is None else xp.arange(n, dtype=np.int64)
    if hands > 1 and roots is None:
        order = take(device, order, device.to_device(deal_items(n, hands)))
    own_roots = xp.empty(n, dtype=np.int32)
    first, last, sizes = (xp.empty(n, dtype=np.int64) for _ in range(3))
    launch_over(device, module, "place_items", n, order, count, chosen, later.indptr, own_roots, first, last, sizes)
    costs = take(device, costs, order)
    return DeviceItems(own_roots, first, last, device.to_host(sizes), device.to_host(costs))
