"""Leaves of a search counted by a key of two words; knows of no motif.

A search multiplies nothing: it counts its leaves by key, and what they stand for is worked out on the host. The
table is a hash table with open addressing whose size is a power of two. It takes no new key when it is half full:
what was being counted is undone (:func:`clear_leaves`), the host doubles the table (:func:`grow_leaves`), and the
search that did not fit is run again. No leaf is lost and none is counted twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.jit import Ints, compiled
from papilio.kernels.tree.bits import Words

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)


class LeafTable(NamedTuple):
    """Counts by key: slot s holds the key ``(one[s], two[s])`` and ``counts[s]`` leaves, if ``counts[s]`` is not 0.

    ``used`` lists the occupied slots; ``size[0]`` says how many there are.
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
    """Add ``count`` leaves, at least 1, of a key; False, and nothing added, when the table has no room for it."""
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
    """Add the leaves of ``more``; False, and nothing added, unless ``table`` has room for as many new keys."""
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
