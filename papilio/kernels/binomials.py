"""Binomial coefficients modulo 2^64, for counts of vertices and edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def choose_modulo(most: int, size: int) -> NDArray[np.uint64]:
    """Return C(n, size) modulo 2^64 for n up to ``most``, shape (most + 1,)."""
    ways = np.zeros(most + 1, np.uint64)
    exact = 1
    for n in range(size, most + 1):
        ways[n] = exact % (1 << 64)
        exact = exact * (n + 1) // (n + 1 - size)
    return ways
