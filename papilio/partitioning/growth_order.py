"""Passes over blocks of rows for :mod:`papilio.partitioning.growth_chunks`: values of columns, and rows of chunks."""

from __future__ import annotations

import numpy as np

from papilio.kernels.jit import compiled
from papilio.partitioning.arrays import Ids, Ints


@compiled
def add_to_columns(indptr: Ints, columns: Ids, values: Ints, sums: Ints) -> None:
    """Add the value of each row of a block, int64 (n_rows,), to its columns; ``columns`` starts at ``indptr[0]``."""
    for row in range(values.size):
        for i in range(indptr[row] - indptr[0], indptr[row + 1] - indptr[0]):
            sums[columns[i]] += values[row]


@compiled
def smooth_rows(indptr: Ints, columns: Ids, column_values: Ints, values: Ints, sums: Ints) -> None:
    """Give each row of a block the mean of its columns, rounded down, and add it to their sums."""
    for row in range(values.size):
        first, last = indptr[row] - indptr[0], indptr[row + 1] - indptr[0]
        total = np.int64(0)
        for i in range(first, last):
            total += column_values[columns[i]]
        values[row] = total // max(last - first, 1)
        for i in range(first, last):
            sums[columns[i]] += values[row]


@compiled
def scatter_rows(indptr: Ints, columns: Ids, slots: Ids, at: Ints, out: Ids) -> None:
    """Copy each row of a block to ``out`` at the place of its slot, and move that on; rows of slot -1 stay behind."""
    for row in range(slots.size):
        slot = slots[row]
        if slot < 0:
            continue
        for i in range(indptr[row] - indptr[0], indptr[row + 1] - indptr[0]):
            out[at[slot]] = columns[i]
            at[slot] += 1
