"""All subsets of a given number of bit rows that share enough, counted by what they share; knows of no motif.

Depth first with an explicit stack. A level holds the rows that may still be taken, already intersected with those
taken before, side by side; taking one of them intersects the later ones with it and keeps those that are large
enough. The last two rows of a subset are not taken: pairs of rows are intersected, their sizes counted, and nothing
is stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.jit import Ints, compiled
from papilio.kernels.tree.bits import Words, popcount

NO_BUDGET = 2**62
"""More set operations than any search can do."""


class Levels(NamedTuple):
    """The stack: ``rows`` of all levels one after the other; per level where they begin, their number, the next."""

    rows: Words
    begin: Ints
    size: Ints
    next: Ints


def make_levels(n_words: int, depth: int) -> Levels:
    """Return a stack for ``n_words`` words in all and ``depth`` levels."""
    return Levels(np.empty(n_words, np.uint64), *(np.zeros(depth + 1, np.int64) for _ in range(3)))


@compiled
def _count_pairs(rows: Words, n_words: int, begin: int, n: int, histogram: Ints) -> None:
    """Count the pairs of n rows by what they share."""
    if n_words == 1:
        for i in range(begin, begin + n - 1):
            row = rows[i]
            for j in range(i + 1, begin + n):
                histogram[popcount(row & rows[j])] += 1
        return
    for i in range(n - 1):
        at = begin + i * n_words
        for j in range(i + 1, n):
            other = begin + j * n_words
            size = 0
            for w in range(n_words):
                size += popcount(rows[at + w] & rows[other + w])
            histogram[size] += 1


@compiled
def _intersect(rows: Words, n_words: int, begin: int, n: int, i: int, least: int, to: int) -> int:
    """Write what row i shares with the later rows, where that is at least ``least``; return how many are kept."""
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
def count_subsets(
    levels: Levels, n_words: int, n: int, take: int, least: int, histogram: Ints, budget: int
) -> int:
    """Count the subsets of ``take`` (at least 2) of n rows by the size of what they share, within a budget of words.

    The n rows, each of at least ``least`` numbers, are the first of the levels, and are kept as they are. There must be
    room for one row more than those of ``take - 1`` levels. Smaller shared sets may be counted or left out. Returns the
    words intersected, or -1 when they would be more than the budget: then the histogram is up by an unknown part.
    """
    rows = levels.rows
    levels.begin[0], levels.size[0], levels.next[0] = 0, n, 0
    depth, work = 0, 0
    while depth >= 0:
        begin, count, i, more = levels.begin[depth], levels.size[depth], levels.next[depth], take - depth
        if more == 2:
            work += count * (count - 1) // 2 * n_words
            if work > budget:
                return -1
            _count_pairs(rows, n_words, begin, count, histogram)
            depth -= 1
        elif count - i < more:
            depth -= 1
        else:
            levels.next[depth] = i + 1
            work += (count - i - 1) * n_words
            if work > budget:
                return -1
            to = begin + count * n_words
            kept = _intersect(rows, n_words, begin, count, i, least, to)
            if kept >= more - 1:
                depth += 1
                levels.begin[depth], levels.size[depth], levels.next[depth] = to, kept, 0
    return work
