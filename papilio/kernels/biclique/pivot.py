"""All complete sub-matrices of a bit matrix, by pivoting: each leaf represents many of them. For any motif.

A node is a set of rows and a set of columns that may still be taken, and the numbers of rows and columns that are
*held* (in every sub-matrix below) or *free* (optional). Rows that have all the columns become free, and columns that
have all the rows. Otherwise the row or column with the fewest gaps is the pivot: one branch takes only what the pivot
has, and the pivot is free in it; each further branch holds one of its gaps and leaves out the gaps before it. Every
complete sub-matrix is in exactly one branch. A node with nothing left to take is a leaf, counted by (held rows, free
rows) and (held columns, free columns): the scheme of EPivoter (SIGMOD 2023).

A matrix of at most 64 rows and 64 columns has one word each. In larger matrices, rows and columns are rows of words;
nodes branch in the same way until at most 64 rows and 64 columns may be taken. These are renumbered and searched in
single words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from papilio.kernels.jit import Ints, compiled
from papilio.kernels.search.bits import (
    ONE,
    LeafTable,
    Words,
    add_leaves,
    lowest_bit,
    popcount,
    span_mask,
    words_of,
)

TABLE_FULL = -2

_ROWS = 0
_COLUMNS = 1
_UPPER = np.uint64(32)
_ZERO = np.uint64(0)
_NONE = 1 << 20

Limits = tuple[int, int, int, int]
"""Minimum and maximum rows, minimum and maximum columns of the sub-matrices to find."""

Taken = tuple[int, int, int, int]
"""Held rows, free rows, held columns, free columns."""


class PivotStack(NamedTuple):
    """Scratch of one thread."""

    # shape (64,): the matrix, by rows and by columns
    rows: Words
    columns: Words
    words: Words  # shape (65, 3): frames: rest of either side (without the gaps), the gaps still to hold
    taken: Ints  # shape (65, 5): frames: the side of the pivot, and the numbers taken before it


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
    """Count one leaf; return False if the table has no room for its key."""
    one = (np.uint64(held) << _UPPER) | np.uint64(free)
    two = (np.uint64(held_columns) << _UPPER) | np.uint64(free_columns)
    return add_leaves(table, one, two, ONE)


@compiled
def _scan_word(rows: Words, columns: Words, left: np.uint64, right: np.uint64) -> tuple[Any, Any, int, int]:
    """Take out the rows and columns without gaps. Return the remaining ones, and the pivot: its side and number.

    Rows without gaps are in every column, and columns without gaps in every row, so one round finds all. The minimum of
    (gaps, side, number) in one word is the pivot, without branches that could be mispredicted.
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
) -> int:
    """Count the leaves of the matrix ``stack.rows``, ``stack.columns`` below a node.

    ``left`` and ``right`` are the rows and columns that may be taken. Leaves that hold only sub-matrices outside the
    limits may be left out. Returns the words intersected, or ``TABLE_FULL`` if the table holds only a part of the
    leaves.
    """
    min_left, max_left, min_right, max_right = limits
    hl, pl, hr, pr = taken
    depth, work = -1, 0
    while True:
        n_left, n_right = popcount(left), popcount(right)
        wanted = hl <= max_left and hl + pl + n_left >= min_left
        if wanted and hr <= max_right and hr + pr + n_right >= min_right:
            work += n_left + n_right
            if hl == max_left:
                left, pl, n_left = _ZERO, 0, 0
            elif hr == max_right:
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
            if not add_key(table, hl, pl, hr, 0 if hr == max_right else pr):
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


WORD = 64
"""Most rows and columns of a small matrix."""

_NO_PIVOT = 2**62
"""Gaps of a pivot that does not exist."""


class MatrixStack(NamedTuple):
    """Scratch of one thread, for matrices up to a given size."""

    small: PivotStack  # For sets that fit in single words
    columns: Words  # The matrix by columns: column j begins at word ``j * words_of(n_rows)``
    # Rows and columns of the current node; then, per frame, the ones that the pivot's branch keeps, and the gaps
    # still to hold
    words: Words
    taken: Ints  # shape (frames, 5): per frame, the side of the pivot, and the numbers taken before it
    numbers: Ints  # shape (2, 64): rows and columns of the matrix, by row and column of the small one


@compiled
def frame_words(n_rows: int, n_columns: int) -> int:
    """Return the words of ``MatrixStack.words`` that a matrix of this size needs."""
    left, right = words_of(n_rows), words_of(n_columns)
    return (min(n_rows, n_columns) + 2) * (left + right + max(left, right))


def make_matrix_stack(column_words: int, words: int, frames: int) -> MatrixStack:
    """Return scratch, given maxima: words of a matrix by columns, :func:`frame_words`, min(rows, columns) + 1."""
    return MatrixStack(
        make_pivot_stack(),
        np.empty(column_words, np.uint64),
        np.empty(words, np.uint64),
        np.zeros((frames, 5), np.int64),
        np.zeros((2, WORD), np.int64),
    )


@compiled
def transpose_bits(rows: Words, n_rows: int, n_columns: int, columns: Words) -> None:
    """Write rows of bits by columns: column j begins at word ``j * words_of(n_rows)``."""
    right, left = words_of(n_columns), words_of(n_rows)
    columns[: n_columns * left] = 0
    for i in range(n_rows):
        bit = ONE << np.uint64(i & 63)
        for w in range(right):
            rest = rows[i * right + w]
            while rest:
                columns[(w * WORD + lowest_bit(rest)) * left + (i >> 6)] |= bit
                rest &= rest - ONE


@compiled
def count_bits(words: Words, begin: int, end: int) -> int:
    """Return the bits set in the words ``[begin, end)``."""
    size = 0
    for w in range(begin, end):
        size += popcount(words[w])
    return size


@compiled
def _list_members(words: Words, begin: int, end: int, numbers: Ints) -> int:
    n = 0
    for w in range(begin, end):
        rest = words[w]
        while rest:
            numbers[n] = (w - begin) * WORD + lowest_bit(rest)
            n += 1
            rest &= rest - ONE
    return n


@compiled
def _renumber(stack: MatrixStack, rows: Words, left: int, right: int) -> tuple[int, int]:
    """Write the current node as a small matrix; return its numbers of rows and columns."""
    n_rows = _list_members(stack.words, 0, left, stack.numbers[0])
    n_columns = _list_members(stack.words, left, left + right, stack.numbers[1])
    small = stack.small
    small.columns[:n_columns] = 0
    for i in range(n_rows):
        at = stack.numbers[0, i] * right
        row = np.uint64(0)
        for j in range(n_columns):
            column = stack.numbers[1, j]
            if rows[at + (column >> 6)] >> np.uint64(column & 63) & ONE:
                row |= ONE << np.uint64(j)
                small.columns[j] |= ONE << np.uint64(i)
        small.rows[i] = row
    return n_rows, n_columns


@compiled
def _scan(lines: Words, words: Words, own: int, n_own: int, other: int, n_other: int) -> tuple[int, int]:
    """Take out the members of one side that have all of the other. Return the fewest gaps of the others, and whose."""
    best, pivot = _NO_PIVOT, 0
    for w in range(n_own):
        rest = words[own + w]
        while rest:
            i = w * WORD + lowest_bit(rest)
            bit = rest & (~rest + ONE)
            rest ^= bit
            gaps = 0
            for v in range(n_other):
                gaps += popcount(words[other + v] & ~lines[i * n_other + v])
            if gaps == 0:
                words[own + w] ^= bit
            elif gaps < best:
                best, pivot = gaps, i
    return best, pivot


@compiled
def _branch(
    lines: Words,
    words: Words,
    frame: int,
    pivot: int,
    own: int,
    n_own: int,
    other: int,
    n_other: int,
    gaps: int,
) -> None:
    """Reduce the current node to the pivot's branch, and write that branch to the frame, with the gaps.

    ``own`` and ``other`` are the starts of the pivot's side and the other side in the node, and in the frame after it.
    """
    words[own + (pivot >> 6)] ^= ONE << np.uint64(pivot & 63)
    for w in range(n_own):
        words[frame + own + w] = words[own + w]
    for w in range(n_other):
        gap = words[other + w] & ~lines[pivot * n_other + w]
        words[other + w] ^= gap
        words[frame + other + w] = words[other + w]
        words[gaps + w] = gap


@compiled
def _hold_gap(
    lines: Words, words: Words, frame: int, own: int, n_own: int, other: int, n_other: int, gaps: int
) -> bool:
    """Replace the current node by the branch of the next gap of a frame. Return False if no gap is left.

    ``lines`` are the lines of the gap's side.
    """
    for w in range(n_other):
        if words[gaps + w]:
            i = w * WORD + lowest_bit(words[gaps + w])
            words[gaps + w] &= words[gaps + w] - ONE
            for v in range(n_own):
                words[own + v] = words[frame + own + v] & lines[i * n_own + v]
            for v in range(n_other):
                words[other + v] = words[frame + other + v] | words[gaps + v]
            return True
    return False


@compiled
def _take_all(words: Words, begin: int, n: int) -> None:
    for w in range(words_of(n)):
        words[begin + w] = span_mask(min(WORD, n - w * WORD))


@compiled
def _next_branch(stack: MatrixStack, rows: Words, left: int, right: int, depth: int) -> int:
    """Replace the current node by the next branch of the deepest frame that has one. Return its depth, or -1."""
    words, both = stack.words, left + right
    while depth >= 0:
        frame = both + depth * (both + max(left, right))
        if stack.taken[depth, 0] == _ROWS:
            found = _hold_gap(stack.columns, words, frame, 0, left, left, right, frame + both)
        else:
            found = _hold_gap(rows, words, frame, left, right, 0, left, frame + both)
        if found:
            break
        depth -= 1
    return depth


@compiled
def _search_small(
    stack: MatrixStack,
    rows: Words,
    left: int,
    right: int,
    taken: Taken,
    limits: Limits,
    table: LeafTable,
) -> int:
    n_rows, n_columns = _renumber(stack, rows, left, right)
    return pivot_word(stack.small, span_mask(n_rows), span_mask(n_columns), taken, limits, table)


@compiled
def pivot_small(
    stack: PivotStack,
    rows: Words,
    n_rows: int,
    n_columns: int,
    taken: Taken,
    limits: Limits,
    table: LeafTable,
) -> int:
    """Count the leaves of a matrix of at most 64 rows and 64 columns, as :func:`pivot_matrix`."""
    for i in range(n_rows):
        stack.rows[i] = rows[i]
    transpose_bits(rows, n_rows, n_columns, stack.columns)
    return pivot_word(stack, span_mask(n_rows), span_mask(n_columns), taken, limits, table)


@compiled
def pivot_matrix(
    stack: MatrixStack,
    rows: Words,
    n_rows: int,
    n_columns: int,
    taken: Taken,
    limits: Limits,
    table: LeafTable,
) -> int:
    """Count the leaves of a matrix of bits; row i begins at word ``i * words_of(n_columns)``.

    Otherwise as :func:`~papilio.kernels.biclique.pivot.pivot_word`.
    """
    if n_rows <= WORD and n_columns <= WORD:
        return pivot_small(stack.small, rows, n_rows, n_columns, taken, limits, table)
    min_left, max_left, min_right, max_right = limits
    left, right = words_of(n_rows), words_of(n_columns)
    both, step = left + right, left + right + max(left, right)
    words, columns = stack.words, stack.columns
    transpose_bits(rows, n_rows, n_columns, columns)
    _take_all(words, 0, n_rows)
    _take_all(words, left, n_columns)
    hl, pl, hr, pr = taken
    depth, work = -1, 0
    while True:
        n_left, n_right = count_bits(words, 0, left), count_bits(words, left, both)
        wanted = hl <= max_left and hl + pl + n_left >= min_left
        if wanted and hr <= max_right and hr + pr + n_right >= min_right:
            if hl == max_left or hr == max_right:
                free = (0, pr + n_right) if hl == max_left else (pl + n_left, 0)
                if not add_key(table, hl, free[0], hr, 0 if hr == max_right else free[1]):
                    return TABLE_FULL
            elif n_left <= WORD and n_right <= WORD:
                more = _search_small(stack, rows, left, right, (hl, pl, hr, pr), limits, table)
                if more < 0:
                    return more
                work += more + n_left
            else:
                work += n_left * right + n_right * left
                best, pivot = _scan(rows, words, 0, left, left, right)
                best_column, pivot_column = _scan(columns, words, left, right, 0, left)
                pl += n_left - count_bits(words, 0, left)
                pr += n_right - count_bits(words, left, both)
                if best == _NO_PIVOT:
                    if not add_key(table, hl, pl, hr, pr):
                        return TABLE_FULL
                else:
                    depth += 1
                    kept, frame = stack.taken[depth], both + depth * step
                    side = _ROWS if best <= best_column else _COLUMNS
                    kept[0], kept[1], kept[2], kept[3], kept[4] = side, hl, pl, hr, pr
                    if side == _ROWS:
                        _branch(rows, words, frame, pivot, 0, left, left, right, frame + both)
                        pl += 1
                    else:
                        _branch(columns, words, frame, pivot_column, left, right, 0, left, frame + both)
                        pr += 1
                    continue
        depth = _next_branch(stack, rows, left, right, depth)
        if depth < 0:
            return work
        kept = stack.taken[depth]
        side, hl, pl, hr, pr = kept[0], kept[1], kept[2], kept[3], kept[4]
        hl, hr = (hl, hr + 1) if side == _ROWS else (hl + 1, hr)
