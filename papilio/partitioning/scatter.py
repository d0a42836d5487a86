"""Add the counts of one part to those of the whole graph: sums at ids, of which each may come more than once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ints, Sums, compiled

__all__ = ["order_by_slice", "scatter_add", "scatter_add_ordered"]


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
    ids, values
        As for :func:`scatter_add`.
    order : ndarray of int64, shape (k,), host
        Places in ``ids``.
    """
    _scatter_ordered(out, np.int64(base), ids, values, order, np.int64(first), np.int64(last))


def order_by_slice(ids: NDArray[Any], size: int, entries: int) -> tuple[Ints, Ints]:
    """Return the places of ids by the slice of the whole that they are in; O(k).

    Parameters
    ----------
    ids : ndarray of int32 or int64, shape (k,), host
        Each from 0 to ``size - 1``.
    size, entries : int
        Of the whole, and of a slice.

    Returns
    -------
    order : ndarray of int64, shape (k,), host
        Places in ``ids``, rising within each slice.
    cuts : ndarray of int64, shape (slices + 1,), host
        Where in ``order`` each slice begins.
    """
    slices = -(-size // entries)
    return _order(ids, np.int64(slices), np.int64(entries))


@compiled
def _order(ids: NDArray[Any], slices: np.int64, entries: np.int64) -> tuple[Ints, Ints]:
    cuts = np.zeros(slices + 1, np.int64)
    for i in range(ids.size):
        cuts[ids[i] // entries + 1] += 1
    for number in range(slices):
        cuts[number + 1] += cuts[number]
    ends = cuts[:-1].copy()
    order = np.empty(ids.size, np.int64)
    for i in range(ids.size):
        number = ids[i] // entries
        order[ends[number]] = i
        ends[number] += 1
    return order, cuts


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
