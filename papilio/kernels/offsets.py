"""Offsets of the rows of sparse matrices: what all families do with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ints, compiled


@compiled
def add_counts(ids: NDArray[Any], counts: Ints) -> None:
    """Add to each count how often its id comes."""
    for at in range(ids.size):
        counts[ids[at]] += 1


def count_ids(ids: NDArray[Any], n: int) -> Ints:
    """Return how often each of ``n`` ids comes, shape (n,)."""
    counts = np.zeros(n, np.int64)
    add_counts(ids, counts)
    return counts


def offsets_of(sizes: Ints) -> Ints:
    """Return where each row begins and the last one ends, shape (n_rows + 1,)."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
