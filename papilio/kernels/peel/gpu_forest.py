"""The heaviest spanning forest of the items of a decomposition, on the GPU (``forest.cu``).

Its pairs, fewer than there are items, stand for all pairs: they have the same components at every level, so that
:func:`papilio.kernels.peel.forest.build_tip_forest` makes the hierarchy of them on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.constants import SPAN_PAIR_BITS
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.peel.gpu_tip import PairsGpu
from papilio.kernels.peel.gpu_wing import BloomsGpu

_PAIR_MASK = np.uint64((1 << SPAN_PAIR_BITS) - 1)
"""Of a key, the number of a pair; above it is the rank (forest.cu)."""

_WEDGE_MASK = np.uint64(2**32 - 1)
_HALF = np.uint64(32)

_BYTES_PER_ITEM, _BYTES_PER_BLOOM = 96, 8
"""Device memory: what a round needs for each item, and the tops of blooms."""

_WARP = 32


def span_wings(
    device: Device, blooms: BloomsGpu, numbers: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """Return the pairs of edges that are taken, by edge, as a PairGraph has them; None without memory for it."""
    if not _has_room(device, blooms.n_items, blooms.n_blooms):
        return None
    xp, wedges = device.xp, blooms.wedges
    one, other, n_wedges = wedges.one, wedges.other, np.int64(wedges.one.size)
    ranks, tops = _rank(device, numbers), xp.zeros(blooms.n_blooms, dtype=np.uint64)
    module = device.load("forest", {})
    shared = (one, other, blooms.bloom_of, n_wedges, ranks, tops)
    if n_wedges:
        launch_over(device, module, "find_tops", int(n_wedges), *shared)

    def offer(above: Any, best: Any) -> None:
        if n_wedges:
            launch_over(device, module, "offer_wedges", int(n_wedges), *shared, above, best)

    def ends(pair: Any) -> tuple[Any, Any]:
        wedge, which = (pair >> np.uint64(2)).astype(np.int64), pair & np.uint64(3)
        top = (tops[blooms.bloom_of[wedge]] & _WEDGE_MASK).astype(np.int64)
        a, b = one[wedge], other[wedge]
        is_first = ranks[a] <= ranks[b]
        with_top = xp.where(which == 1, one[top], other[top])
        return xp.where(is_first, a, b), xp.where(which == 0, xp.where(is_first, b, a), with_top)

    return _span(device, blooms.n_items, offer, ends)


def span_tips(
    device: Device, pairs: PairsGpu, numbers: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """Return the pairs of vertices that are taken, as :func:`span_wings`."""
    if not _has_room(device, pairs.n_items, 0):
        return None
    xp, n = device.xp, pairs.n_items
    ranks, module = _rank(device, numbers), device.load("forest", {})

    def offer(above: Any, best: Any) -> None:
        launch_over(
            device, module, "offer_pairs", _WARP * n, pairs.offsets, pairs.others, np.int32(n), ranks, above,
            best,
        )  # fmt: skip

    def ends(pair: Any) -> tuple[Any, Any]:
        at = pair.astype(np.int64)
        return (xp.searchsorted(pairs.offsets, at, side="right") - 1).astype(np.int32), pairs.others[at]

    return _span(device, n, offer, ends)


def _has_room(device: Device, n_items: int, n_blooms: int) -> bool:
    return n_items > 0 and _BYTES_PER_ITEM * n_items + _BYTES_PER_BLOOM * n_blooms <= device.free_bytes()


def _rank(device: Device, numbers: NDArray[np.uint64]) -> Any:
    """Return the place of the number of each item among the different ones, int32; 0 for the number 0, else above."""
    xp = device.xp
    values = device.to_device(numbers)
    order = xp.argsort(values)
    values = values[order]
    steps = xp.ones(values.size, dtype=np.int32)
    steps[1:] = values[1:] != values[:-1]
    steps[:1] = values[:1] != 0
    ranks = xp.empty(values.size, dtype=np.int32)
    ranks[order] = xp.cumsum(steps, dtype=np.int32)
    return ranks


def _span(
    device: Device,
    n: int,
    offer: Callable[[Any, Any], None],
    ends: Callable[[Any], tuple[Any, Any]],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the pairs that ``n`` items take in rounds, until no component is offered another; both directions."""
    xp = device.xp
    above = xp.arange(n, dtype=np.int32)
    taken: list[Any] = [xp.zeros(0, dtype=np.uint64)]
    while True:
        best = xp.zeros(n, dtype=np.uint64)
        offer(above, best)
        roots = xp.flatnonzero(best).astype(np.int32)
        if not roots.size:
            return _both_ways(device, n, xp.concatenate(taken))
        keys = best[roots]
        a, b = ends(keys & _PAIR_MASK)
        target = xp.where(above[a] == roots, above[b], above[a])
        # Of two components that take the same pair the first one stays.
        goes = (best[target] != keys) | (roots > target)
        taken.append(a[goes].astype(np.uint64) << _HALF | b[goes].astype(np.uint64))
        hook = xp.arange(n, dtype=np.int32)
        hook[roots[goes]] = target[goes]
        for _ in range(n.bit_length()):
            hook = hook[hook]
        above = hook[above]


def _both_ways(device: Device, n: int, pairs: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return pairs, one in each half of a word, by their first items and by their second; on the host."""
    xp = device.xp
    keys = xp.sort(xp.concatenate((pairs, pairs >> _HALF | pairs << _HALF)))
    starts = xp.arange(n + 1, dtype=np.uint64) << _HALF
    offsets = xp.searchsorted(keys, starts).astype(np.int64)
    return device.to_host(offsets), device.to_host((keys & _WEDGE_MASK).astype(np.int32))
