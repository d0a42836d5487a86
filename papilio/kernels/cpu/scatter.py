"""Add the counts of one part to those of the whole graph: sums at ids, of which each may come more than once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.cpu.jit import Ints, Sums, compiled

__all__ = ["scatter_add", "scatter_add_ordered"]


def scatter_add(out: Sums, ids: NDArray[Any], values: Sums) -> None:
    """Add ``values[i]`` to ``out[ids[i]]`` for every i, modulo 2^64.

    Parameters
    ----------
    out : ndarray of uint64, shape (n,), host
    ids : ndarray of int32 or int64, shape (k,), host
        Each from 0 to n - 1; may repeat.
    values : ndarray of uint64, shape (k,), host
    """
    _scatter(out, ids, values)


def scatter_add_ordered(
    out: Sums, base: int, ids: NDArray[Any], values: Sums, order: Ints, first: int, last: int
) -> None:
    """Add ``values[i]`` to ``out[ids[i] - base]`` for every i of ``order[first:last]``, modulo 2^64.

    Parameters
    ----------
    out : ndarray of uint64, host
        Entries from ``base`` on of the whole.
    base : int
    ids, values
        As for :func:`scatter_add`.
    order : ndarray of int64, shape (k,), host
        Places in ``ids``.
    first, last : int
    """
    _scatter_ordered(out, np.int64(base), ids, values, order, np.int64(first), np.int64(last))


@compiled
def _scatter(out: Sums, ids: NDArray[Any], values: Sums) -> None:
    for i in range(ids.size):
        out[ids[i]] += values[i]


@compiled
def _scatter_ordered(
    out: Sums, base: np.int64, ids: NDArray[Any], values: Sums, order: Ints, first: np.int64, last: np.int64
) -> None:
    for place in range(first, last):
        i = order[place]
        out[ids[i] - base] += values[i]
