"""All subsets of a given number of bit rows that share enough, counted by size of the intersection.

Depth first with an explicit stack. A level holds the rows that may still be taken, already intersected with the rows
taken before, side by side. Taking a row intersects the later ones with it and keeps the results that are large enough.
The last two rows of a subset are not taken: pairs of rows are intersected and counted by size, and nothing is
stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.jit import Ints, compiled
from papilio.kernels.search.bits import Words, lay_columns, popcount, share_columns

_FEW_ROWS = 24
"""Minimum rows of several words for which pairs are not counted one by one."""


class Levels(NamedTuple):
    """The stack: ``rows`` of all levels in order; per level the start, the number and the next row.

    Also holds the scratch for counting pairs: the rows of a level by columns, the sizes that one row shares with the
    others, and four histograms. The next pair often has the same size as the last, and additions to one place wait for
    each other.
    """

    rows: Words
    begin: Ints
    size: Ints
    next: Ints
    columns: Words
    sizes: Ints
    bins: Ints


def make_levels(n_words: int, depth: int, max_shared: int = 0) -> Levels:
    """Return a stack of ``n_words`` words and ``depth`` levels, whose rows share at most ``max_shared`` numbers."""
    begin, size, following = (np.zeros(depth + 1, np.int64) for _ in range(3))
    rows, columns = (np.empty(n_words, np.uint64) for _ in range(2))
    bins = np.zeros(4 * max(65, max_shared + 1), np.int64)
    return Levels(rows, begin, size, following, columns, np.empty(n_words, np.int64), bins)


@compiled
def _count_pairs(levels: Levels, n_words: int, begin: int, n: int) -> None:
    rows = levels.rows[begin : begin + n * n_words]
    if n_words == 1:
        _count_words(rows, levels.bins)
    elif n < _FEW_ROWS:
        for i in range(n - 1):
            for j in range(i + 1, n):
                size = 0
                for w in range(n_words):
                    size += popcount(rows[i * n_words + w] & rows[j * n_words + w])
                levels.bins[size] += 1
    else:
        lay_columns(rows, n_words, levels.columns)
        for i in range(n - 1):
            sizes = levels.sizes[: n - i - 1]
            share_columns(levels.columns, n, n_words, i, i + 1, sizes)
            count_sizes(sizes, levels.bins)


@compiled
def _count_words(rows: Words, bins: Ints) -> None:
    wide = bins.size // 4
    two, three, four = bins[wide:], bins[2 * wide :], bins[3 * wide :]
    for i in range(rows.size - 1):
        row, later = rows[i], rows[i + 1 :]
        j = 0
        while j + 4 <= later.size:
            bins[popcount(row & later[j])] += 1
            two[popcount(row & later[j + 1])] += 1
            three[popcount(row & later[j + 2])] += 1
            four[popcount(row & later[j + 3])] += 1
            j += 4
        while j < later.size:
            bins[popcount(row & later[j])] += 1
            j += 1


@compiled
def count_sizes(sizes: Ints, bins: Ints) -> None:
    """Count sizes, alternating between the histograms."""
    wide = bins.size // 4
    two, three, four = bins[wide:], bins[2 * wide :], bins[3 * wide :]
    j = 0
    while j + 4 <= sizes.size:
        bins[sizes[j]] += 1
        two[sizes[j + 1]] += 1
        three[sizes[j + 2]] += 1
        four[sizes[j + 3]] += 1
        j += 4
    while j < sizes.size:
        bins[sizes[j]] += 1
        j += 1


@compiled
def fold_bins(bins: Ints, most: int, histogram: Ints) -> None:
    """Add the histograms, of sizes up to ``most``, to ``histogram``, and reset them to 0."""
    wide = bins.size // 4
    for size in range(min(most + 1, histogram.size, wide)):
        for at in range(size, bins.size, wide):
            histogram[size] += bins[at]
            bins[at] = 0


@compiled
def _intersect(rows: Words, n_words: int, begin: int, n: int, i: int, least: int, to: int) -> int:
    """Write the intersections of row i with later rows that have at least ``least`` numbers. Return their number."""
    kept = 0
    if n_words == 1:
        row = rows[begin + i]
        for j in range(begin + i + 1, begin + n):
            word = row & rows[j]
            rows[to + kept] = word
            kept += popcount(word) >= least
        return kept
    at = begin + i * n_words
    for j in range(i + 1, n):
        other = begin + j * n_words
        place = to + kept * n_words
        size = 0
        for w in range(n_words):
            word = rows[at + w] & rows[other + w]
            rows[place + w] = word
            size += popcount(word)
        kept += size >= least
    return kept


@compiled
def count_subsets(levels: Levels, n_words: int, n: int, take: int, least: int) -> int:
    """Count the subsets of ``take`` (at least 2) of n rows by the size of their intersection.

    The n rows, each of at least ``least`` numbers, are the first of the levels, and stay unchanged. There must be room
    for one row more than ``take - 1`` levels have. Intersections smaller than ``least`` may be counted or left out.
    Returns the words intersected; the counts are in the histograms of the levels (:func:`fold_bins`).
    """
    rows = levels.rows
    levels.begin[0], levels.size[0], levels.next[0] = 0, n, 0
    depth, work = 0, 0
    while depth >= 0:
        begin, count, i, more = levels.begin[depth], levels.size[depth], levels.next[depth], take - depth
        if more == 2:
            work += count * (count - 1) // 2 * n_words
            _count_pairs(levels, n_words, begin, count)
            depth -= 1
        elif count - i < more:
            depth -= 1
        else:
            levels.next[depth] = i + 1
            work += (count - i - 1) * n_words
            to = begin + count * n_words
            kept = _intersect(rows, n_words, begin, count, i, least, to)
            if kept >= more - 1:
                depth += 1
                levels.begin[depth], levels.size[depth], levels.next[depth] = to, kept, 0
    return work
