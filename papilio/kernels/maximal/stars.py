"""Maximal bicliques with a single vertex on a side: found for each vertex separately, without a search.

A vertex and all of its neighbours form one if no other vertex has all of these neighbours. An edge whose ends have no
other neighbour is found at both ends, and belongs to the end in U.

In a part of a graph, the centres are the roots, and the vertices adjacent to a root and to no excluded vertex: then no
earlier part has the star.

This module holds the stars and finds them on the device; :mod:`papilio.kernels.maximal.loops` finds them on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.forms import Cells
from papilio.kernels.biclique.gpu_index import DeviceEdges
from papilio.kernels.device.arrays import (
    find_least,
    low_halves,
    make_offsets,
    sum_row_hashes,
    take,
    turn_rows,
)
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart

_Bools = NDArray[np.bool_]

RaggedColumn = tuple[NDArray[np.int64], NDArray[np.int32]]
"""The :data:`~papilio.graph.RowColumn` of rows of any length."""


@dataclass(frozen=True, eq=False)
class Stars:
    """All requested stars: ``of_u`` and ``of_v`` are columns of U and of V, for centres in U and in V."""

    of_u: tuple[RaggedColumn, RaggedColumn]
    of_v: tuple[RaggedColumn, RaggedColumn]
    cells: Cells
    checksum: int


def ask_sizes(motif: MaximalBiclique) -> tuple[tuple[int, int | None] | None, ...]:
    """Return the minimum and maximum neighbours of centres in U, and in V. None if no such stars are requested."""
    (_, least_u, most_u), (_, least_v, most_v) = motif.bounds

    def ask(min_own: int, least: int, most: int | None) -> tuple[int, int | None] | None:
        return None if min_own > 1 or (most is not None and most < least) else (least, most)

    return ask(least_u, least_v, most_v), ask(least_v, max(least_u, 2), most_u)


def ask_centres(
    part: MaximalPart | None, n_u: int, n_v: int, u: NDArray[np.int32], v: NDArray[np.int32]
) -> tuple[_Bools, _Bools]:
    """Return masks of the vertices of U and of V that can be centres. For a part with these edges, in any order."""
    if part is None:
        return np.ones(n_u, np.bool_), np.ones(n_v, np.bool_)
    own, other, n_own, n_other = (u, v, n_u, n_v) if part.layer == "u" else (v, u, n_v, n_u)
    is_root, is_excluded = np.zeros((2, n_own), np.bool_)
    is_root[part.roots], is_excluded[part.excluded] = True, True
    n_roots, n_excluded = (np.bincount(other[each[own]], minlength=n_other) for each in (is_root, is_excluded))
    others = (n_roots > 0) & (n_excluded == 0)
    return (is_root, others) if part.layer == "u" else (others, is_root)


def make_stars(
    of_u: tuple[RaggedColumn, RaggedColumn],
    of_v: tuple[RaggedColumn, RaggedColumn],
    part: MaximalPart | None,
    checksum: int | None = None,
) -> Stars:
    """Return all stars, given each centre and its neighbours, and the checksum if it is known.

    Stars of a part have their ids in the whole graph.
    """
    of_v = of_v[::-1]
    if part is not None:
        of_u, of_v = (((u[0], part.ids_u[u[1]]), (v[0], part.ids_v[v[1]])) for u, v in (of_u, of_v))
    cells: Cells = {}
    for at, sizes in enumerate((np.diff(of_u[1][0]), np.diff(of_v[0][0]))):
        for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
            cells[(1, int(size)) if at == 0 else (int(size), 1)] = int(count)
    if checksum is None:
        checksum = sum(sum_hashes(hash_rows(*columns)) for columns in (of_u, of_v))
    return Stars(of_u, of_v, cells, checksum % (1 << 64))


_MAX_INT = 2**31 - 1


def find_stars_on_device(
    device: Device, edges: DeviceEdges, motif: MaximalBiclique, part: MaximalPart | None = None
) -> Stars:
    """Find stars as :func:`~papilio.kernels.maximal.loops.find_stars`, given the sorted edges, U left."""
    n_u, n_v = int(edges.degree_left.size), int(edges.degree_right.size)
    rows = make_offsets(device, edges.degree_left), edges.rights
    columns = turn_rows(device, *rows, n_v)
    on_host = (None, None) if part is None else (device.to_host(edges.lefts), device.to_host(edges.rights))
    can_be = ask_centres(part, n_u, n_v, *on_host)
    found, checksum = [], 0
    for layer, own, other, degree, asked, wanted in zip(
        (0, 1), (rows, columns), (columns, rows), (edges.degree_left, edges.degree_right), can_be,
        ask_sizes(motif), strict=True,
    ):  # fmt: skip
        centres = device.to_device(np.zeros(asked.size, np.int32))
        if wanted is not None:
            launch_over(
                device, device.load("maximal_rows", {}), "find_uncovered", 32 * asked.size, *own, *other,
                np.int32(asked.size), device.to_device(asked.astype(np.int32)), np.int32(wanted[0]),
                np.int32(_MAX_INT if wanted[1] is None else min(wanted[1], _MAX_INT)), centres,
            )  # fmt: skip
        stars, hashes = _take_rows(device, layer, own, degree, find_least(device, centres, 1))
        found.append(stars)
        checksum += hashes
    return make_stars(found[0], found[1], part, checksum if part is None else None)


def _take_rows(
    device: Device, layer: int, rows: tuple[Any, Any], degree: Any, centres: Any
) -> tuple[tuple[RaggedColumn, RaggedColumn], int]:
    """Return the centres with their neighbours, and the checksum of these stars."""
    xp, n = device.xp, int(centres.size)
    offsets = make_offsets(device, take(device, degree, centres))
    ends, order = device.to_host(offsets), low_halves(device, centres.view(np.uint64))
    taken = xp.empty(int(ends[-1]), dtype=np.int32)
    launch_over(
        device, device.load("biclique_index", {}), "copy_rows", 32 * n, *rows, order, offsets,
        np.int32(n), taken,
    )  # fmt: skip
    checksum = sum_row_hashes(device, order, offsets, taken, layer)
    return ((np.arange(n + 1), device.to_host(order)), (ends, device.to_host(taken))), checksum
