"""All complete sub-matrices of a bit matrix, by pivoting: leaves of which each stands for many; knows of no motif.

A node is a set of rows and a set of columns that may still be taken, and how many of either side are *held* (in
every sub-matrix below) or *free* (in it or not, at will). Rows that have all the columns become free, and columns
that have all the rows. Else the row or column with the fewest gaps is the pivot: one branch takes only what the
pivot has, and the pivot is free in it; then one branch for each of its gaps, which holds that one and leaves out the
gaps before it. Every complete sub-matrix is in exactly one branch; where nothing is left to take is a leaf, counted
by (held rows, free rows) and (held columns, free columns): the scheme of EPivoter (SIGMOD 2023).

Here a matrix has at most 64 rows and 64 columns, one word each; :mod:`papilio.kernels.tree.pivot_matrix` brings larger
ones down to that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from papilio.kernels.jit import Ints, compiled
from papilio.kernels.tree.bits import ONE, Words, lowest_bit, popcount
from papilio.kernels.tree.leaves import LeafTable, add_leaves

OVER_BUDGET = -1
TABLE_FULL = -2

_ROWS = 0
_COLUMNS = 1
_UPPER = np.uint64(32)
_ZERO = np.uint64(0)
_NONE = 1 << 20

Limits = tuple[int, int, int, int]
"""Least and most rows, least and most columns of the sub-matrices that matter."""

Taken = tuple[int, int, int, int]
"""Held rows, free rows, held columns, free columns."""


class PivotStack(NamedTuple):
    """Scratch of one thread."""

    # shape (64,): the matrix, by rows and by columns
    rows: Words
    columns: Words
    words: Words  # shape (65, 3): frames: what either side keeps (without the gaps), the gaps still to hold
    taken: Ints  # shape (65, 5): frames: the side of the pivot, and what was taken before it


def make_pivot_stack() -> PivotStack:
    """Return the scratch of one thread."""
    return PivotStack(
        np.zeros(64, np.uint64),
        np.zeros(64, np.uint64),
        np.zeros((65, 3), np.uint64),
        np.zeros((65, 5), np.int64),
    )


@compiled
def add_key(table: LeafTable, held: int, free: int, held_columns: int, free_columns: int) -> bool:
    """Count one leaf; False when the table has no room for its key."""
    one = (np.uint64(held) << _UPPER) | np.uint64(free)
    two = (np.uint64(held_columns) << _UPPER) | np.uint64(free_columns)
    return add_leaves(table, one, two, ONE)


@compiled
def _scan_word(rows: Words, columns: Words, left: np.uint64, right: np.uint64) -> tuple[Any, Any, int, int]:
    """Take out the rows and columns without gaps; return what remains, and the pivot: its side and number.

    Rows without gaps are in every column, and columns without gaps in every row, so that one round finds all. The
    least of (gaps, side, number) in one word is the pivot: there are no branches to be mispredicted.
    """
    best = _NONE
    kept_left, rest = left, left
    while rest:
        i = lowest_bit(rest)
        bit = rest & (~rest + ONE)
        rest ^= bit
        gaps = popcount(right & ~rows[np.uint64(i)])
        kept_left ^= bit if gaps == 0 else _ZERO
        best = min(best, _NONE if gaps == 0 else gaps << 7 | i)
    kept_right, rest = right, right
    while rest:
        i = lowest_bit(rest)
        bit = rest & (~rest + ONE)
        rest ^= bit
        gaps = popcount(left & ~columns[np.uint64(i)])
        kept_right ^= bit if gaps == 0 else _ZERO
        best = min(best, _NONE if gaps == 0 else gaps << 7 | _COLUMNS << 6 | i)
    return kept_left, kept_right, best >> 6 & 1, best & 63


@compiled
def pivot_word(
    stack: PivotStack,
    left: np.uint64,
    right: np.uint64,
    taken: Taken,
    limits: Limits,
    table: LeafTable,
    budget: int,
) -> int:
    """Count the leaves of the matrix ``stack.rows``, ``stack.columns`` below a node, within a budget of words.

    ``left`` and ``right`` are the rows and columns that may be taken. Leaves that hold only sub-matrices outside of the
    limits may be left out. Returns the words intersected; ``OVER_BUDGET`` or ``TABLE_FULL`` when the table holds only a
    part of the leaves.
    """
    least_left, most_left, least_right, most_right = limits
    hl, pl, hr, pr = taken
    depth, work = -1, 0
    while True:
        n_left, n_right = popcount(left), popcount(right)
        wanted = hl <= most_left and hl + pl + n_left >= least_left
        if wanted and hr <= most_right and hr + pr + n_right >= least_right:
            work += n_left + n_right
            if work > budget:
                return OVER_BUDGET
            if hl == most_left:
                left, pl, n_left = _ZERO, 0, 0
            elif hr == most_right:
                right, pr, n_right = _ZERO, 0, 0
            left, right, side, pivot = _scan_word(stack.rows, stack.columns, left, right)
            pl += n_left - popcount(left)
            pr += n_right - popcount(right)
            if left:
                depth += 1
                kept = stack.taken[depth]
                kept[0], kept[1], kept[2], kept[3], kept[4] = side, hl, pl, hr, pr
                if side == _ROWS:
                    left ^= ONE << np.uint64(pivot)
                    gap = right & ~stack.rows[pivot]
                    right ^= gap
                    pl += 1
                else:
                    right ^= ONE << np.uint64(pivot)
                    gap = left & ~stack.columns[pivot]
                    left ^= gap
                    pr += 1
                frame = stack.words[depth]
                frame[0], frame[1], frame[2] = left, right, gap
                continue
            if not add_key(table, hl, pl, hr, 0 if hr == most_right else pr):
                return TABLE_FULL
        while depth >= 0 and stack.words[depth, 2] == _ZERO:
            depth -= 1
        if depth < 0:
            return work
        frame, kept = stack.words[depth], stack.taken[depth]
        gap = frame[2]
        i = lowest_bit(gap)
        gap &= gap - ONE
        frame[2] = gap
        side, hl, pl, hr, pr = kept[0], kept[1], kept[2], kept[3], kept[4]
        if side == _ROWS:
            left, right, hr = frame[0] & stack.columns[i], frame[1] | gap, hr + 1
        else:
            left, right, hl = frame[0] | gap, frame[1] & stack.rows[i], hl + 1
