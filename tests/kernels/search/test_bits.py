"""Rows of bits by columns of words: what rows share, and pairs by what they share, against integers of Python."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from papilio.kernels.biclique.subset import count_subsets, fold_bins, make_levels
from papilio.kernels.search.bits import lay_columns, share_columns


def draw_rows(n: int, n_words: int, density: float) -> list[int]:
    """Return rows of bits, some words of which are empty."""
    random = np.random.default_rng(n + n_words)
    bits = random.random((n, n_words, 64)) < density
    bits[random.random((n, n_words)) < 0.3] = False
    return [int("".join(str(int(bit)) for bit in row.ravel()), 2) for row in bits]


def as_words(rows: list[int], n_words: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the words of all rows, one row after the other."""
    return np.frombuffer(b"".join(row.to_bytes(8 * n_words, "little") for row in rows), np.uint64).copy()


@pytest.mark.parametrize("n_words", [1, 2, 3, 4, 5, 9])
def test_rows_share_what_integers_share(n_words: int) -> None:
    rows = draw_rows(37, n_words, 0.3)
    columns = np.zeros(37 * n_words, np.uint64)
    lay_columns(as_words(rows, n_words), n_words, columns)
    for row, first in ((0, 1), (5, 0), (36, 36), (20, 21)):
        sizes = np.full(37 - first, -1, np.int64)
        share_columns(columns, 37, n_words, row, first, sizes)
        assert sizes.tolist() == [(rows[row] & other).bit_count() for other in rows[first:]]


@pytest.mark.parametrize("n", [2, 23, 24, 61])
@pytest.mark.parametrize("n_words", [1, 3])
def test_pairs_are_counted_by_what_they_share(n: int, n_words: int) -> None:
    """Few rows and many, of one word and of more; twice, as the bins are used again."""
    rows = draw_rows(n, n_words, 0.4)
    wanted = np.bincount([(a & b).bit_count() for a, b in combinations(rows, 2)], minlength=200)
    levels = make_levels(n * n_words, 1, 199)
    levels.rows[:] = as_words(rows, n_words)
    histogram = np.zeros(200, np.int64)
    for times in (1, 2):
        assert count_subsets(levels, n_words, n, 2, 0) == n * (n - 1) // 2 * n_words
        fold_bins(levels.bins, 199, histogram)
        assert histogram.tolist() == (times * wanted).tolist()
