"""Probes of the wedge engine: one random wedge of a start, and the wedges that its two ends share.

All wedges of a start are equally likely to be drawn. With c wedges between the same two ends, the motifs of these ends
divided by c, times the wedges of the start, are an unbiased estimate of the motifs of the start. Signed motifs count
the wedges on which the ends agree separately from the others; every butterfly is in some class of a census.

:mod:`papilio.kernels.wedge.probe_loops` and ``wedge_probe.cu`` give the same results, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.wedge.gpu_graph import WedgeGraph, WedgePartGraph
from papilio.motifs import BalancedButterfly, Motif

_MOST_SIZES = 1029
"""Neighbours with about as many subsets as floating point can represent; larger sizes add nothing."""


def weigh_pairs(motif: Motif, most: int) -> NDArray[np.float64]:
    """Return motifs per wedge of two ends, by their number of wedges, shape (most + 1,).

    Sums over sizes beyond the range of floating point are infinite.
    """
    shared = np.arange(most + 1, dtype=np.float64)
    worth = np.zeros(most + 1)
    first, last = 2, 2
    if isinstance(motif, BalancedButterfly):
        first, last = motif.k or 2, motif.k or motif.max_k or most
    ways = np.ones(most + 1)
    with np.errstate(over="ignore"):
        for size in range(1, min(last, most, _MOST_SIZES) + 1):
            ways *= np.maximum(shared - (size - 1), 0) / size
            if size >= first:
                worth += ways
        worth[1:] /= shared[1:]
    return worth


def probe_wedges_on_device(
    device: Device,
    graph: WedgeGraph | WedgePartGraph | None,
    motif: Motif,
    starts: Any,
    wedges: NDArray[np.int64],
    seeds: NDArray[np.uint64],
) -> NDArray[np.float64]:
    """Probe these starts (int32, on the device), with ``wedges`` wedges each; return their motifs."""
    found = device.xp.zeros(wedges.size, dtype=np.float64)
    if graph is not None and wedges.size:
        defines = {name: value for name, value in graph.defines.items() if name in ("KINDS", "PART")}
        worth = device.to_device(weigh_pairs(motif, int(graph.degree.max())))
        launch_over(
            device, device.load("wedge_probe", defines), "wedge_probe", 32 * wedges.size,
            *graph.arguments(), starts, device.to_device(wedges), device.to_device(seeds),
            np.int32(wedges.size), worth, found,
        )  # fmt: skip
    return device.to_host(found)
