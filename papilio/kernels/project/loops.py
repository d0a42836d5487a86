"""The loops of projections on the CPU: serial, without the interpreter lock, one call per chunk of items.

Input: the rows of :class:`~papilio.kernels.rows.index.WedgeIndex` in which the layer of the pairs comes first in the
total order. A start w then counts its common neighbours with every vertex of its layer that precedes it, so that each
pair is met once, at its later vertex. After the scan of a start every counter is read once, and zeroed: the pair is a
row where it has enough common neighbours and, with a test, a p-value that is small enough.

Weights that are sums over the common neighbours (Newman, Phys. Rev. E 64, 016132, 2001; Zhou et al., Phys. Rev. E 76,
046115, 2007) are added in the order of the ranks of these neighbours, by rising terms: neither the threads nor the
split of the work change a bit of them.

P-values are those of :mod:`papilio.kernels.project.tails`.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Counters, Index, Ints, Sums, compiled, inlined
from papilio.kernels.project.tails import TailQuestion, TailRoom, find_p_value, make_room
from papilio.kernels.rows.index import WedgeRows
from papilio.kernels.search.probe_loops import Floats
from papilio.kernels.wedge.loops import (
    NARROW_LIMIT,
    Tables,
    clear_start,
    first_middle,
    make_tables,
    scan_start,
)

Ids32 = NDArray[np.int32]

WEIGHTINGS = (None, "jaccard", "cosine", "checkerboards", "togetherness", "hyperbolic", "resource")
"""Weights of pairs; a question holds the place of its weight here."""

_JACCARD, _COSINE, _CHECKERBOARDS, _TOGETHERNESS = 1, 2, 3, 4

SUMMED = 5
"""First of the weights that are sums over the common neighbours."""

_SPAN_PER_WEDGE = 16
"""Reading all counters in order, 8 bytes at a time, is chosen up to this many counters for each wedge."""


class PairQuestion(NamedTuple):
    """The question about each pair, as compiled code takes it."""

    first: int  # row of the first vertex of the layer
    order: NDArray[np.int32]  # ids of the layer by rank
    n_others: int  # vertices of the other layer
    min_common: int
    masks: Sums  # by the bytes of a counter: bits of 8 bytes of counters, one of which each that is large enough has
    weighting: int  # place in :data:`WEIGHTINGS`
    terms: Floats  # of each middle, by rank, for weights that are sums; else empty
    tail: TailQuestion
    max_p: float

    @property
    def test(self) -> int:
        """0 without a test of the pairs."""
        return self.tail.test


class PairBlock(NamedTuple):
    """Rows: ids of both vertices, the lesser first, common neighbours, weights and p-values.

    Arrays that the question does not need are empty; in a run that only counts all of them are.
    """

    pairs: NDArray[np.int32]
    common: NDArray[np.int32]
    weights: Floats
    p_values: Floats
    size: Ints  # rows in the block, and rows found in all; shape (2,)


class PairState(NamedTuple):
    """Tables and rows of one thread."""

    narrow: NDArray[np.uint8]
    wide: Counters
    narrow_words: Sums  # the same memory, 8 bytes at a time
    wide_words: Sums
    old: Sums  # overwritten: what the scans of the counting engine add up
    sums: Floats  # weights of the pairs of a start, zero between starts; or empty
    room: TailRoom
    cursor: Ints  # the item at which the thread stands
    block: PairBlock


def mask_counters(min_common: int) -> Sums:
    """Return the masks of :class:`PairQuestion`, shape (5,): large counters have a bit above a power of two."""
    masks = np.zeros(5, np.uint64)
    for n_bytes in (1, 2, 4):
        bits = 8 * n_bytes
        high = (1 << bits) - (1 << min(min_common.bit_length() - 1, bits - 1))
        masks[n_bytes] = sum(high << at for at in range(0, 64, bits))
    return masks


def make_state(question: PairQuestion, max_degree: int, block: PairBlock) -> PairState:
    """Return the state of a thread."""
    n = -(-question.order.size // 8) * 8
    tables = make_tables(n, max_degree)
    return PairState(
        tables.narrow, tables.wide, tables.narrow.view(np.uint64), tables.wide.view(np.uint64), tables.sums,
        np.zeros(n if question.weighting >= SUMMED else 0),
        make_room(question.tail), np.zeros(1, np.int64), block,
    )  # fmt: skip


def make_block(question: PairQuestion, n_rows: int) -> PairBlock:
    """Return an empty block with room for ``n_rows`` rows."""
    weights, tests = (n_rows if asked else 0 for asked in (question.weighting, question.test))
    return PairBlock(
        np.empty((n_rows, 2), np.int32), np.empty(n_rows, np.int32), np.empty(weights), np.empty(tests),
        np.zeros(2, np.int64),
    )  # fmt: skip


@inlined
def _weigh_pair(question: PairQuestion, common: Index, degree: Index, other: Index, sums: Floats, at: Index) -> float:
    """Return the weight of a pair; of a weighting that is a sum, the entry of ``sums``."""
    if question.weighting == _JACCARD:
        return float(common / (degree + other - common))
    if question.weighting == _COSINE:
        return float(common / sqrt(float(degree) * float(other)))
    if question.weighting == _CHECKERBOARDS:
        return float((degree - common) * (other - common))
    if question.weighting == _TOGETHERNESS:
        return float(common * (question.n_others - degree - other + common))
    return float(sums[at])


@inlined
def _take_pair(
    rows: WedgeRows, question: PairQuestion, state: PairState, table: Floats, row: Index, degree: Index, end: Index,
    common: Index,
) -> None:  # fmt: skip
    """Make a row of a pair of at least ``min_common`` common neighbours, unless its p-value is too large."""
    row_of_end, block, p_value = question.first + end, state.block, 0.0
    other = rows.offsets[row_of_end + 1] - rows.offsets[row_of_end]
    if question.tail.test:
        p_value = find_p_value(question.tail, table, state.room, common, degree, other)
        if p_value > question.max_p:
            return
    block.size[1] += 1
    if block.common.size == 0:
        return
    at = block.size[0]
    block.size[0] = at + 1
    own, met = question.order[row - question.first], question.order[end]
    block.pairs[at, 0], block.pairs[at, 1] = min(own, met), max(own, met)
    block.common[at] = common
    if question.weighting:
        block.weights[at] = _weigh_pair(question, common, degree, other, state.sums, end)
    if question.tail.test:
        block.p_values[at] = p_value


@compiled
def number_pairs(question: PairQuestion, degrees: Ints, block: PairBlock, table: Floats, room: TailRoom) -> int:
    """Complete rows whose pairs, common neighbours and sums a device has found, and move those that stay to the front.

    ``degrees`` are those of the layer, by id. Of ``block.size`` the first entry is how many stay, the second how many
    are done. With a test it ends at the first row whose lower degree is not that of the row it begins at, to which
    ``table`` belongs, and returns that degree; else -1.
    """
    begin, first = block.size[1], np.int64(-1)
    for row in range(begin, block.common.size):
        common = np.int64(block.common[row])
        one, two = degrees[block.pairs[row, 0]], degrees[block.pairs[row, 1]]
        degree, other = max(one, two), min(one, two)
        if question.tail.test:
            if row == begin:
                first = other
            if other != first:
                return int(other)
        block.size[1] = row + 1
        at = block.size[0]
        if question.tail.test:
            p_value = find_p_value(question.tail, table, room, common, other, degree)
            if p_value > question.max_p:
                continue
            block.p_values[at] = p_value
        if question.weighting:
            block.weights[at] = _weigh_pair(question, common, degree, other, block.weights, row)
        block.pairs[at, 0], block.pairs[at, 1] = block.pairs[row, 0], block.pairs[row, 1]
        block.common[at] = block.common[row]
        block.size[0] = at + 1
    return -1


@compiled
def _add_terms(rows: WedgeRows, row: Index, terms: Floats, sums: Floats) -> None:
    """Add the term of each middle of a start to the sum of each end that it leads to."""
    middles = first_middle(rows, row)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        rank = np.int64(rows.ids[at])
        begin = rows.offsets[middles + rank]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            sums[rows.ends[to]] += terms[rank]


@compiled
def _take_start(
    rows: WedgeRows, question: PairQuestion, state: PairState, table: Floats, row: Index, counters: Counters,
    words: Sums,
) -> None:  # fmt: skip
    """Make rows of the pairs of one start, for which the block has room."""
    degree = rows.offsets[row + 1] - rows.offsets[row]
    top, wedges = scan_start(rows, row, counters, state.old)
    if question.weighting >= SUMMED:
        _add_terms(rows, row, question.terms, state.sums)
    if top <= _SPAN_PER_WEDGE * wedges:
        lanes = 8 // counters.itemsize
        for word in range((top + lanes - 1) // lanes):
            if words[word] & question.masks[counters.itemsize]:
                for place in range(word * lanes, word * lanes + lanes):
                    if counters[place] >= question.min_common:
                        _take_pair(rows, question, state, table, row, degree, place, np.int64(counters[place]))
            words[word] = 0
        if question.weighting >= SUMMED:
            state.sums[:top] = 0.0
        return
    middles = first_middle(rows, row)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        begin = rows.offsets[middles + np.int64(rows.ids[at])]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            end = np.int64(rows.ends[to])
            if counters[end] >= question.min_common:
                _take_pair(rows, question, state, table, row, degree, end, np.int64(counters[end]))
            counters[end] = 0
            if question.weighting >= SUMMED:
                state.sums[end] = 0.0


@compiled
def take_items(
    rows: WedgeRows, items: Ints, most_pairs: Ints, stop: Index, question: PairQuestion, state: PairState,
    table: Floats,
) -> bool:  # fmt: skip
    """Make rows of the pairs of the items from the cursor on; False at the first one that may find no room.

    An item has at most ``most_pairs`` pairs. With a test all items have the degree of ``table``.
    """
    block = state.block
    while state.cursor[0] < stop:
        item = state.cursor[0]
        row = items[item]
        if block.common.size and block.common.size - block.size[0] < most_pairs[item]:
            return False
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _take_start(rows, question, state, table, row, state.narrow, state.narrow_words)
        else:
            _take_start(rows, question, state, table, row, state.wide, state.wide_words)
        state.cursor[0] = item + 1
    return True


@compiled
def count_pairs(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, question: PairQuestion, state: PairState, found: Ints
) -> None:  # fmt: skip
    """Fill the number of pairs of each item of ``[start, stop)``, without a test; the block has no room."""
    for item in range(start, stop):
        state.cursor[0], before = item, state.block.size[1]
        take_items(rows, items, found, item + 1, question, state, question.terms)
        found[item] = state.block.size[1] - before


@compiled
def _reach_start(
    rows: WedgeRows, row: Index, begin: Index, end: Index, ends: Ids32, common: Ids32, counters: Counters, sums: Sums,
    reached: Ids32,
) -> None:  # fmt: skip
    top, wedges = scan_start(rows, row, counters, sums)
    for pair in range(begin, end):
        reached[pair] += np.int64(counters[ends[pair]]) >= common[pair]
    clear_start(rows, row, counters, top, wedges)


@compiled
def count_reached(
    rows: WedgeRows, starts: Ints, offsets: Ints, ends: Ids32, common: Ids32, tables: Tables, reached: Ids32
) -> None:  # fmt: skip
    """Add 1 for each pair with at least ``common`` neighbours in these rows.

    The pairs of start i are ``[offsets[i], offsets[i + 1])``; ``ends`` are the ranks of their other vertices.
    """
    for i in range(len(starts)):
        row, begin, end = starts[i], offsets[i], offsets[i + 1]
        if begin == end:
            continue
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _reach_start(rows, row, begin, end, ends, common, tables.narrow, tables.sums, reached)
        else:
            _reach_start(rows, row, begin, end, ends, common, tables.wide, tables.sums, reached)
