"""Offsets of the rows of sparse matrices: what all families do with them."""

from __future__ import annotations

import numpy as np

from papilio.kernels.jit import Ints, compiled


@compiled
def row_sizes(indptr: Ints) -> Ints:
    """Return the number of entries of each row; NumPy's ``diff`` takes four seconds to compile."""
    sizes = np.empty(indptr.size - 1, np.int64)
    for row in range(sizes.size):
        sizes[row] = indptr[row + 1] - indptr[row]
    return sizes
