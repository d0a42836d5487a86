"""The stars among maximal bicliques, found on the device (:mod:`papilio.kernels.maximal.stars`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.kernels.biclique.gpu_index import DeviceEdges
from papilio.kernels.device.arrays import find_least, low_halves, make_offsets, take, turn_rows
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.maximal.stars import RaggedColumn, Stars, ask_centres, ask_sizes, make_stars
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart

_MAX_INT = 2**31 - 1


def find_stars_on_device(
    device: Device, edges: DeviceEdges, motif: MaximalBiclique, part: MaximalPart | None = None
) -> Stars:
    """Do as :func:`~papilio.kernels.maximal.star_loops.find_stars`, with sorted edges, U left, of a graph or a part."""
    n_u, n_v = int(edges.degree_left.size), int(edges.degree_right.size)
    rows = make_offsets(device, edges.degree_left), edges.rights
    columns = turn_rows(device, *rows, n_v)
    on_host = (None, None) if part is None else (device.to_host(edges.lefts), device.to_host(edges.rights))
    can_be = ask_centres(part, n_u, n_v, *on_host)
    found = []
    for own, other, degree, asked, wanted in zip(
        (rows, columns), (columns, rows), (edges.degree_left, edges.degree_right), can_be, ask_sizes(motif),
        strict=True,
    ):  # fmt: skip
        centres = device.to_device(np.zeros(asked.size, np.int32))
        if wanted is not None:
            launch_over(
                device, device.load("maximal_rows", {}), "find_uncovered", 32 * asked.size, *own, *other,
                np.int32(asked.size), device.to_device(asked.astype(np.int32)), np.int32(wanted[0]),
                np.int32(_MAX_INT if wanted[1] is None else min(wanted[1], _MAX_INT)), centres,
            )  # fmt: skip
        found.append(_take_rows(device, *own, degree, find_least(device, centres, 1)))
    return make_stars(found[0], found[1], part)


def _take_rows(
    device: Device, indptr: Any, ids: Any, degree: Any, centres: Any
) -> tuple[RaggedColumn, RaggedColumn]:
    """Return the centres, given by their places, and their rows, as columns of a listing."""
    xp, n = device.xp, int(centres.size)
    offsets = make_offsets(device, take(device, degree, centres))
    ends, order = device.to_host(offsets), low_halves(device, centres.view(np.uint64))
    taken = xp.empty(int(ends[-1]), dtype=np.int32)
    launch_over(
        device, device.load("biclique_index", {}), "copy_rows", 32 * n, indptr, ids, order, offsets,
        np.int32(n), taken,
    )  # fmt: skip
    return (np.arange(n + 1), device.to_host(order)), (ends, device.to_host(taken))
