"""The graph around one root, and the bit rows around one child: where every (p,q)-biclique search begins.

Around a root: its children by place, and for each of its columns (right vertices) the children there, ascending.
Around a child: its own columns, renumbered from 0 (mostly few enough for one or two words), and its *candidates*: the
later children that share at least the minimum right size with it and the root. Walking the columns of the child counts
the columns shared with each later child; only children that share enough get bits.

Around a *dense* root, whose columns have enough of the children, walking meets every child again and again. There each
child gets a bit row over the columns of the root, and one pass over the words counts the columns shared with all
others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.biclique.core import Ids32, Rows
from papilio.kernels.jit import Ints, compiled, inlined
from papilio.kernels.search.bits import ONE, Words, share_columns, spread_bit, words_of

DENSE_GAIN, DENSE_WORDS = 8, 3
"""Words intersected in the time of an entry walked, and extra words per pair besides its rows: a root is dense if bit
rows save time. Measured with vectors of 512 bits: 16 and 3."""


class LeftGraph(NamedTuple):
    """The arrays of :class:`~papilio.kernels.biclique.index.BicliqueIndex` that a search reads.

    ``rights`` holds the rows of the other layer; ``after``, per entry of ``lefts``, the start of the later left
    vertices in the right row.
    """

    lefts: Rows
    rights: Rows
    after: Ints
    hop_indptr: Ints
    hop: Ids32
    hop_common: Ids32


class RootGraph(NamedTuple):
    """One thread's data around its root; array sizes are maxima over all roots."""

    # shape (n_left,): 1 + number of each child of the root, 0 for other vertices; all 0 between roots
    place: Ids32
    # shape (largest degree + 1,): column c holds the children ``column_kids[column_ptr[c]:column_ptr[c + 1]]``;
    # those from ``cursor[c]`` on are not before the current child
    column_ptr: Ints
    cursor: Ints
    column_kids: Ids32  # shape (largest sum of shared columns,)
    # shape (maximum children + 1,): child i has the columns ``kid_columns[kid_ptr[i]:kid_ptr[i + 1]]``, ascending
    kid_ptr: Ints
    kid_columns: Ids32  # shape (largest sum of shared columns,)
    # shape (maximum children,): columns that a later child shares with the current child; all 0 between children
    shared: Ids32
    # shape (maximum children,): children met; and 1 + number of each among the candidates, 0 for others
    met: Ids32
    slot: Ids32
    # shape (largest degree + 1,): 1 + number of each column among the columns of the current child, 0 for others
    number: Ids32
    # shape (half of the largest sum of shared columns + 1,): around a dense root, the columns of each child, in the
    # layout of :mod:`papilio.kernels.search.bits`
    columns: Words
    # shape (3,): words of such a row, or 0 around another root; the first child with a row, whose row comes first;
    # the number of children
    dense: Ints
    # shape (maximum children,): columns shared by each child and the current one; words of candidates
    sizes: Ints
    words: Words
    gathered: Words


def make_around(graph: LeftGraph) -> RootGraph:
    """Return the arrays of one thread."""
    n_left = graph.hop_indptr.size - 1
    degree = int(np.diff(graph.lefts.indptr).max(initial=0))
    of_roots = np.diff(graph.hop_indptr)
    shared = np.add.reduceat(graph.hop_common, graph.hop_indptr[:-1][of_roots > 0], dtype=np.int64)
    kids, entries = int(of_roots.max(initial=0)), int(shared.max(initial=0))
    return RootGraph(
        np.zeros(n_left, np.int32),
        np.zeros(degree + 1, np.int64),
        np.zeros(degree + 1, np.int64),
        np.empty(entries, np.int32),
        np.zeros(kids + 1, np.int64),
        np.empty(entries, np.int32),
        np.zeros(kids, np.int32),
        np.empty(kids + 1, np.int32),
        np.zeros(kids, np.int32),
        np.zeros(degree + 1, np.int32),
        np.empty(entries // 2 + 1, np.uint64),
        np.zeros(3, np.int64),
        np.empty(kids, np.int64),
        np.empty(kids, np.uint64),
        np.empty(kids, np.uint64),
    )


@compiled
def open_root(graph: LeftGraph, around: RootGraph, root: int, first: int) -> None:
    """Lay out the children from place ``first`` of the root on, by number and by column; O(wedges of the root)."""
    begin, end = graph.hop_indptr[root], graph.hop_indptr[root + 1]
    around.kid_ptr[first - begin] = 0
    for at in range(first, end):
        around.place[graph.hop[at]] = at - begin + 1
        around.kid_ptr[at - begin + 1] = around.kid_ptr[at - begin] + graph.hop_common[at]
    to = 0
    top = graph.lefts.indptr[root]
    for at in range(top, graph.lefts.indptr[root + 1]):
        around.column_ptr[at - top] = to
        for place in range(graph.after[at], graph.rights.indptr[graph.lefts.ids[at] + 1]):
            kid = around.place[graph.rights.ids[place]]
            if kid:
                around.column_kids[to] = kid - 1
                to += 1
                around.kid_columns[around.kid_ptr[kid - 1]] = at - top
                around.kid_ptr[kid - 1] += 1
        around.cursor[at - top] = around.column_ptr[at - top]
        around.column_ptr[at - top + 1] = to
    for at in range(end - 1, first - 1, -1):
        around.place[graph.hop[at]] = 0
        around.kid_ptr[at - begin] -= graph.hop_common[at]
    _lay_columns(around, first - begin, end - begin, graph.lefts.indptr[root + 1] - top)


@compiled
def _lay_columns(around: RootGraph, first: int, n_kids: int, n_columns: int) -> None:
    """Lay out the bit rows of the children from ``first`` on, if the root is dense and there is room.

    Walking takes half of the sum of squares of the columns' children; intersecting takes half of the square of the
    number of children for each word of a row.
    """
    n_words, n = words_of(n_columns), n_kids - first
    walked = 0
    for column in range(n_columns):
        kids = around.column_ptr[column + 1] - around.column_ptr[column]
        walked += kids * kids
    around.dense[0], around.dense[1], around.dense[2] = 0, first, n_kids
    if DENSE_GAIN * walked <= n * n * (n_words + DENSE_WORDS) or n * n_words > around.columns.size:
        return
    around.dense[0] = n_words
    around.columns[: n * n_words] = 0
    for kid in range(first, n_kids):
        for at in range(around.kid_ptr[kid], around.kid_ptr[kid + 1]):
            column = around.kid_columns[at]
            around.columns[(column >> 6) * n + kid - first] |= ONE << np.uint64(column & 63)


@compiled
def seek_candidates(around: RootGraph, kid: int, least: int) -> tuple[int, int]:
    """Count the columns that later children share with ``kid``; children must be requested in order.

    Returns the number of later children that share at least ``least`` columns (the candidates, listed in ``met``), and
    the number of entries walked or words intersected.
    """
    if around.dense[0]:
        return meet_densely(around, kid, kid + 1, least), around.dense[0] * (around.dense[2] - kid - 1)
    n_met, walked = 0, 0
    for at in range(around.kid_ptr[kid], around.kid_ptr[kid + 1]):
        column = around.kid_columns[at]
        begin, end = around.cursor[column] + 1, around.column_ptr[column + 1]
        around.cursor[column] = begin
        walked += end - begin
        for place in range(begin, end):
            other = around.column_kids[place]
            count = around.shared[other]
            around.met[n_met] = other
            n_met += count == 0
            around.shared[other] = count + 1
    n = 0
    for i in range(n_met):
        other = around.met[i]
        if around.shared[other] >= least:
            around.met[n] = other
            n += 1
        else:
            around.shared[other] = 0
    return n, walked


@inlined
def share_densely(around: RootGraph, kid: int, first: int) -> int:
    """Write the shared columns of ``kid`` and each child from ``first`` on to ``sizes``. Return their number."""
    n_words, begin, n_kids = around.dense
    n = int(n_kids - first)
    share_columns(around.columns, n_kids - begin, n_words, kid - begin, first - begin, around.sizes[:n])
    return n


@inlined
def meet_densely(around: RootGraph, kid: int, first: int, least: int) -> int:
    """List the children from ``first`` on that share at least ``least`` columns with ``kid``. Return their number."""
    sizes = around.sizes
    n = 0
    for i in range(share_densely(around, kid, first)):
        around.met[n] = first + i
        n += sizes[i] >= least
    for i in range(n):
        around.shared[around.met[i]] = sizes[around.met[i] - first]
    return n


@compiled
def set_bits(around: RootGraph, kid: int, n: int, n_words: int, rows: Words) -> None:
    """Write the row of each candidate: bit j for the j-th column of ``kid``. Reset the counts to 0.

    Walks the columns of the child or of the candidates, whichever have fewer entries. Around a dense root the bits come
    from the existing rows.
    """
    first, end = around.kid_ptr[kid], around.kid_ptr[kid + 1]
    if around.dense[0]:
        _set_from_columns(around, first, end, n, n_words, rows)
        return
    rows[: n * n_words] = 0
    walked = 0
    for at in range(first, end):
        column = around.kid_columns[at]
        walked += around.column_ptr[column + 1] - around.cursor[column]
    for i in range(n):
        kid_at = around.met[i]
        around.shared[kid_at] = 0
        walked -= around.kid_ptr[kid_at + 1] - around.kid_ptr[kid_at]
    if walked > 0:
        _set_by_candidate(around, first, end, n, n_words, rows)
    else:
        _set_by_column(around, first, end, n, n_words, rows)


@inlined
def _gather_words(around: RootGraph, word: int, n: int) -> None:
    """Write one word of the rows of the candidates, around a dense root, to ``gathered``."""
    at = word * (around.dense[2] - around.dense[1]) - around.dense[1]
    for i in range(n):
        around.gathered[i] = around.columns[at + around.met[i]]


@inlined
def _set_from_columns(around: RootGraph, first: int, end: int, n: int, n_words: int, rows: Words) -> None:
    words, gathered = around.words[:n], around.gathered[:n]
    for i in range(n):
        around.shared[around.met[i]] = 0
    last = -1
    for at in range(first, end):
        column, bit = around.kid_columns[at], (at - first) & 63
        if column >> 6 != last:
            last = column >> 6
            _gather_words(around, last, n)
        if bit == 0:
            words[:] = 0
        shift, to = np.uint64(column & 63), np.uint64(bit)
        for i in range(n):
            words[i] |= (gathered[i] >> shift & ONE) << to
        if bit == 63 or at + 1 == end:
            for i in range(n):
                rows[i * n_words + ((at - first) >> 6)] = words[i]


@compiled
def add_worths(around: RootGraph, kid: int, n: int, by_shared: Words, columns: Words) -> int:
    """Add to each column of ``kid`` the worth of its candidates, by what these share with ``kid``. Reset the counts.

    ``columns`` is by place among the columns of ``kid``. Returns the entries walked.
    """
    first, end = around.kid_ptr[kid], around.kid_ptr[kid + 1]
    if around.dense[0]:
        return _add_from_columns(around, first, end, n, by_shared, columns)
    walked = 0
    for at in range(first, end):
        column = around.kid_columns[at]
        worth = np.uint64(0)
        for place in range(around.cursor[column], around.column_ptr[column + 1]):
            worth += by_shared[around.shared[around.column_kids[place]]]
        columns[at - first] += worth
        walked += around.column_ptr[column + 1] - around.cursor[column]
    for i in range(n):
        around.shared[around.met[i]] = 0
    return walked


@inlined
def _add_from_columns(around: RootGraph, first: int, end: int, n: int, by_shared: Words, columns: Words) -> int:
    worths, gathered = around.words[:n], around.gathered[:n]
    for i in range(n):
        worths[i] = by_shared[around.shared[around.met[i]]]
        around.shared[around.met[i]] = 0
    last = -1
    for at in range(first, end):
        column = around.kid_columns[at]
        if column >> 6 != last:
            last = column >> 6
            _gather_words(around, last, n)
        shift, worth = np.uint64(column & 63), np.uint64(0)
        for i in range(n):
            worth += worths[i] & spread_bit(gathered[i], shift)
        columns[at - first] += worth
    return n * (end - first)


@compiled
def _set_by_candidate(around: RootGraph, first: int, end: int, n: int, n_words: int, rows: Words) -> None:
    for at in range(first, end):
        around.number[around.kid_columns[at]] = at - first + 1
    for i in range(n):
        other = around.met[i]
        for at in range(around.kid_ptr[other], around.kid_ptr[other + 1]):
            number = around.number[around.kid_columns[at]]
            if number:
                rows[i * n_words + ((number - 1) >> 6)] |= ONE << np.uint64((number - 1) & 63)
    for at in range(first, end):
        around.number[around.kid_columns[at]] = 0


@compiled
def _set_by_column(around: RootGraph, first: int, end: int, n: int, n_words: int, rows: Words) -> None:
    for i in range(n):
        around.slot[around.met[i]] = i + 1
    for at in range(first, end):
        column = around.kid_columns[at]
        word, bit = (at - first) >> 6, ONE << np.uint64((at - first) & 63)
        for place in range(around.cursor[column], around.column_ptr[column + 1]):
            slot = around.slot[around.column_kids[place]]
            if slot:
                rows[(slot - 1) * n_words + word] |= bit
    for i in range(n):
        around.slot[around.met[i]] = 0
