"""Offsets of the rows of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled


@compiled
def add_counts(ids: NDArray[Any], counts: Ints) -> None:
    """Add to each count the number of occurrences of its id."""
    for at in range(ids.size):
        counts[ids[at]] += 1


def count_ids(ids: NDArray[Any], n: int) -> Ints:
    """Return the number of occurrences of each of ``n`` ids, shape (n,)."""
    counts = np.zeros(n, np.int64)
    add_counts(ids, counts)
    return counts


def offsets_of(sizes: Ints) -> Ints:
    """Return the start of each row, and the end of the last, shape (n_rows + 1,)."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


@compiled
def lower_bound(values: NDArray[Any], begin: Index, stop: Index, bound: Index) -> Index:
    """Return the first place in ``[begin, stop)`` with a value of at least ``bound``, or ``stop``."""
    while begin < stop:
        middle = (begin + stop) >> 1
        if np.int64(values[middle]) < bound:
            begin = middle + 1
        else:
            stop = middle
    return begin


@compiled
def _fill_incident(
    u: NDArray[np.int32], v: NDArray[np.int32], of_u: NDArray[Any], of_v: NDArray[Any], to: Ints, found: NDArray[Any]
) -> None:
    for at in range(u.size):
        found[to[u[at]]] = of_u[at]
        found[to[v[at]]] = of_v[at]
        to[u[at]] += 1
        to[v[at]] += 1


def list_incident(
    offsets: Ints, u: NDArray[np.int32], v: NDArray[np.int32], of_u: NDArray[Any], of_v: NDArray[Any]
) -> NDArray[Any]:
    """Return a value for each edge of each vertex of a unipartite graph, given the offsets of the vertices.

    Edge e has the value ``of_u[e]`` at u and ``of_v[e]`` at v. The edges of a vertex keep their order.
    """
    found = np.empty(2 * u.size, of_u.dtype)
    _fill_incident(u, v, of_u, of_v, offsets[:-1].copy(), found)
    return found


def list_neighbours(
    degree: Ints, u: NDArray[np.int32], v: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the neighbours of each vertex of a unipartite graph, given its degrees and edges; O(n + n_edges).

    Those of i are ``ids[offsets[i] : offsets[i + 1]]``, in the order of the edges; offsets and ids are returned.
    """
    offsets = offsets_of(degree)
    return offsets, list_incident(offsets, u, v, v, u)
