"""Words and rows of words: the sets and the table of leaves of searches on bit matrices.

A set of local numbers below n is a row of ``words_of(n)`` words of 64 bits: number i is bit ``i % 64`` of word ``i //
64``. To intersect one row with many others at once, rows are stored by *columns of words*: word w of row i is
``columns[w * stride + i]``. Neighbouring rows then lie in neighbouring words, and compiled loops take as many of them
at a time as a vector of the processor holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Instruction, Ints, compiled, inlined

Words = NDArray[np.uint64]

ONE = np.uint64(1)
_ALL = np.uint64(2**64 - 1)

popcount = cast(Callable[[np.uint64], int], Instruction("popcount"))
"""Number of bits set in a word (uint64), as int64: one instruction."""


@compiled
def lowest_bit(word: np.uint64) -> int:
    """Return the number of the lowest set bit, or 64 for an empty word. One instruction once compiled."""
    return popcount(~word & (word - ONE))


@inlined
def spread_bit(word: np.uint64, bit: np.uint64) -> np.uint64:
    """Return a word of all ones if a bit of ``word`` is set, or 0."""
    return ~(word >> bit & ONE) + ONE


@compiled
def words_of(n: int) -> int:
    """Return the number of words of a set of numbers below n."""
    return (n + 63) >> 6


@compiled
def span_mask(n: int) -> np.uint64:
    """Return the word with the lowest n bits set; n is 0 to 64."""
    return _ALL if n >= 64 else (ONE << np.uint64(n)) - ONE


@compiled
def fill_span(row: Words, n: int) -> None:
    """Make a row the set of all numbers below n."""
    for word in range(words_of(n)):
        row[word] = span_mask(n - 64 * word)


@inlined
def first_bit(row: Words, begin: int, n_words: int) -> int:
    """Return the lowest number of a set whose words begin at a place of a row; -1 if it is empty."""
    first = -1
    for word in range(n_words):
        if row[begin + word]:
            first = word * 64 + lowest_bit(row[begin + word])
            break
    return first


@compiled
def lay_columns(rows: Words, n_words: int, columns: Words) -> None:
    """Store consecutive rows by columns, with their number as stride."""
    n = rows.size // n_words
    for w in range(n_words):
        column = columns[w * n : (w + 1) * n]
        for i in range(n):
            column[i] = rows[i * n_words + w]


@compiled
def share_columns(columns: Words, stride: int, n_words: int, row: int, first: int, sizes: Ints) -> None:
    """Write to ``sizes`` the number of bits that each row from ``first`` on shares with ``row``.

    Empty words of ``row`` are skipped, the others are taken four at a time.
    """
    sizes[:] = 0
    n = sizes.size
    w = 0
    while w < n_words:
        taken = 0
        one = two = three = four = columns[0] ^ columns[0]
        at_one = at_two = at_three = at_four = first
        while w < n_words and taken < 4:
            word = columns[w * stride + row]
            if word:
                four, three, two, one = three, two, one, word
                at_four, at_three, at_two, at_one = at_three, at_two, at_one, w * stride + first
                taken += 1
            w += 1
        a, b = columns[at_one : at_one + n], columns[at_two : at_two + n]
        if taken > 2:
            c, d = columns[at_three : at_three + n], columns[at_four : at_four + n]
            for i in range(n):
                sizes[i] += popcount(one & a[i]) + popcount(two & b[i]) + popcount(three & c[i]) + popcount(four & d[i])
        elif taken == 2:
            for i in range(n):
                sizes[i] += popcount(one & a[i]) + popcount(two & b[i])
        elif taken == 1:
            for i in range(n):
                sizes[i] += popcount(one & a[i])


_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)


class LeafTable(NamedTuple):
    """Counts by key: slot s holds the key ``(one[s], two[s])`` and ``counts[s]`` leaves, if ``counts[s]`` is not 0.

    A search multiplies nothing: it counts its leaves by key, and the host computes their worth. The hash table has
    open addressing and a power of two as its size. It takes no new key when half full: the item is then undone
    (:func:`clear_leaves`), the host doubles the table (:func:`grow_leaves`), and the item is searched again. No leaf is
    lost or counted twice.

    ``used`` lists the occupied slots; ``size[0]`` is their number.
    """

    one: Words
    two: Words
    counts: Words
    used: Ints
    size: Ints


def make_leaves(n_slots: int) -> LeafTable:
    """Return an empty table of ``n_slots`` slots, a power of two."""
    one, two, counts = (np.zeros(n_slots, np.uint64) for _ in range(3))
    return LeafTable(one, two, counts, np.empty(n_slots // 2, np.int64), np.zeros(1, np.int64))


@compiled
def add_leaves(table: LeafTable, one: np.uint64, two: np.uint64, count: np.uint64) -> bool:
    """Add ``count`` leaves, at least 1, of a key. Return False, adding nothing, if the table has no room for it."""
    mask = table.counts.size - 1
    mixed = (one * _FIRST) ^ (two * _SECOND)
    slot = np.int64((mixed ^ (mixed >> _SHIFT)) & np.uint64(mask))
    while table.counts[slot]:
        if table.one[slot] == one and table.two[slot] == two:
            table.counts[slot] += count
            return True
        slot = (slot + 1) & mask
    size = table.size[0]
    if size == table.used.size:
        return False
    table.one[slot], table.two[slot], table.counts[slot] = one, two, count
    table.used[size] = slot
    table.size[0] = size + 1
    return True


@compiled
def clear_leaves(table: LeafTable) -> None:
    """Empty the table; O(keys)."""
    for i in range(table.size[0]):
        table.counts[table.used[i]] = 0
    table.size[0] = 0


@compiled
def merge_leaves(table: LeafTable, more: LeafTable) -> bool:
    """Add the leaves of ``more``. Return False, adding nothing, unless ``table`` has room for as many new keys."""
    if table.size[0] + more.size[0] > table.used.size:
        return False
    for i in range(more.size[0]):
        slot = more.used[i]
        add_leaves(table, more.one[slot], more.two[slot], more.counts[slot])
    return True


def grow_leaves(table: LeafTable) -> LeafTable:
    """Return a table of twice as many slots with the same leaves."""
    grown = make_leaves(2 * table.counts.size)
    merge_leaves(grown, table)
    return grown


def list_leaves(table: LeafTable) -> list[tuple[int, int, int]]:
    """Return (one, two, count) of every key."""
    slots = table.used[: table.size[0]]
    columns = (table.one[slots], table.two[slots], table.counts[slots])
    return list(zip(*(column.tolist() for column in columns), strict=True))
