"""Ranges of consecutive rows with few entries: what is read, sorted or cut at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["span_rows"]


def span_rows(
    indptr: NDArray[np.int64], first: int, stop: int, max_entries: int
) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that tile [first, stop), each of at most so many entries, or of one row.

    Parameters
    ----------
    indptr : ndarray of int64, shape (n_rows + 1,)
        Row i has the entries ``[indptr[i], indptr[i + 1])``.
    first, stop : int
    max_entries : int
    """
    while first < stop:
        last = int(np.searchsorted(indptr, indptr[first] + max_entries, side="right")) - 1
        last = min(max(last, first + 1), stop)
        yield first, last
        first = last
