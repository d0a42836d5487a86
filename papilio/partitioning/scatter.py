"""Add the counts of one part to the counts of the whole graph, modulo 2^64; ids may repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ints, Sums, compiled

Ids = NDArray[Any]
"""int32 or int64, each from 0 to the size of the whole - 1."""


@compiled
def scatter_add(out: Sums, ids: Ids, values: Sums) -> None:
    """Add ``values[i]`` to ``out[ids[i]]`` for every i."""
    for i in range(ids.size):
        out[ids[i]] += values[i]


@compiled
def scatter_add_ordered(out: Sums, base: int, ids: Ids, values: Sums, order: Ints, first: int, last: int) -> None:
    """Add ``values[i]`` to ``out[ids[i] - base]`` for every i of ``order[first:last]``."""
    for place in range(first, last):
        i = order[place]
        out[ids[i] - base] += values[i]


def order_by_slice(ids: Ids, size: int, entries: int) -> tuple[Ints, Ints]:
    """Return the places of ids by the slice of the whole that contains them; O(k).

    ``size`` is the size of the whole, ``entries`` the size of a slice. Returns the places in ``ids``, ascending within
    each slice, and the beginning of each slice among them, shape (slices + 1,).
    """
    cuts = np.zeros((size + entries - 1) // entries + 1, np.int64)
    order, at = np.empty(ids.size, np.int64), np.empty_like(cuts)
    _order_by_slice(ids, entries, cuts, at, order)
    return order, cuts


@compiled
def _order_by_slice(ids: Ids, entries: int, cuts: Ints, at: Ints, order: Ints) -> None:
    for i in range(ids.size):
        cuts[ids[i] // entries + 1] += 1
    at[0] = 0
    for number in range(cuts.size - 1):
        cuts[number + 1] += cuts[number]
        at[number + 1] = cuts[number + 1]
    for i in range(ids.size):
        number = ids[i] // entries
        order[at[number]] = i
        at[number] += 1
