"""Degrees and paths of three edges, by passes over the edges in pieces: memory O(n_u + n_v).

A path of three edges has a middle edge (u, v), and an end beside each of u and v: there are (d(u) - 1)(d(v) - 1) with
that middle edge. With w(x), the sum of d(y) - 1 over the neighbours y of x, there are (d(x) - 1) w(x) whose middle edge
ends in x. All numbers are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.storage.statistics import add_degrees

__all__ = ["Degrees", "EdgePass", "count_degrees", "count_three_paths", "count_wedges", "edge_three_paths"]

EdgePass = Callable[[], Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]]
"""Gives all edges in order, in pieces (u, v), each sorted by u; can be called again."""

_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Degrees:
    """Degrees of both layers: ndarrays of int64, shapes (n_u,) and (n_v,)."""

    u: NDArray[np.int64]
    v: NDArray[np.int64]


def count_degrees(n_u: int, n_v: int, edges: EdgePass) -> Degrees:
    """Return the degrees; one pass."""
    degrees = Degrees(np.zeros(n_u, np.int64), np.zeros(n_v, np.int64))
    for u, v in edges():
        add_degrees(u, v, degrees.u, degrees.v)
    return degrees


def edge_three_paths(degrees: Degrees, u: NDArray[np.int32], v: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return the paths of three edges with each of these edges in the middle, below 2^62; shape of ``u``."""
    return (degrees.u[u] - 1).astype(np.uint64) * (degrees.v[v] - 1).astype(np.uint64)


def count_three_paths(degrees: Degrees, edges: EdgePass) -> int:
    """Return the paths of three edges in all, a Python integer of any size; one pass."""
    total = 0
    for u, v in edges():
        paths = edge_three_paths(degrees, u, v)
        # Halves of 32 bits: the sum of fewer than 2^31 of them fits.
        high, low = paths >> _HALF, paths & np.uint64(2**32 - 1)
        total += (int(high.sum()) << 32) + int(low.sum())
    return total


def count_wedges(degrees: Degrees, edges: EdgePass) -> Degrees:
    """Return w(x) of every vertex x, the wedges that start there; one pass."""
    wedges = Degrees(np.zeros_like(degrees.u), np.zeros_like(degrees.v))
    for u, v in edges():
        np.add.at(wedges.u, u, degrees.v[v] - 1)
        np.add.at(wedges.v, v, degrees.u[u] - 1)
    return wedges
