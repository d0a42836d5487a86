"""Blocks of starts and ends of wedges, from slabs of rows: the work per edge of the cutter of wedge parts.

The first ``split`` entries of a row precede its vertex in the total order of :mod:`papilio.kernels.rows.index`. So if
a vertex is an end, its middles are the entries of its row from ``split`` on; if it is a middle, its ends are the
first ``split`` entries.

All functions take C-contiguous arrays on the host and release the interpreter lock; each thread has separate outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.jit import compiled
from papilio.partitioning import Ids, Ints


class Slab(NamedTuple):
    """Consecutive rows of one layer."""

    first: int  # rank of the first row
    offsets: Ints
    columns: Ids  # ranks in the other layer, ascending in each row
    edges: Ints  # edge ids of ``columns``, or (0,)
    split: Ids  # entries of each row that precede its vertex


NO_END = np.iinfo(np.int32).max
"""First end of a middle without ends."""


@compiled
def find_first_ends(slab: Slab, first_end: Ids, useful: Ids) -> None:
    """Record the first end of every middle, and how many middles of every start have an end before it.

    Slabs come in ascending order of rank. ``first_end``, int32 (n_other,), is updated: ``NO_END`` until an end is
    found. ``useful``, int32 (n_rows,), is written.
    """
    offsets, columns = slab.offsets, slab.columns
    for i in range(offsets.size - 1):
        rank = slab.first + i
        count = 0
        ends_from = offsets[i] + slab.split[i]
        for at in range(offsets[i], offsets[i + 1]):
            middle = columns[at]
            if first_end[middle] < rank:
                count += 1
            elif at >= ends_from and first_end[middle] == NO_END:
                first_end[middle] = rank
        useful[i] = count


@compiled
def add_ends(slab: Slab, n_ends: Ids) -> None:
    """Add the ends in a slab to the number of ends of each middle."""
    for i in range(slab.split.size):
        for at in range(slab.offsets[i] + slab.split[i], slab.offsets[i + 1]):
            n_ends[slab.columns[at]] += 1


def grow_end_blocks(
    slab: Slab, vertex_bytes: float, entry_bytes: float, limit_bytes: float, stamp: Ids, state: Ints
) -> Ints:
    """Fill blocks with ends in ascending order of rank, each as full as the limit allows, with at least one end.

    Slabs come in ascending order. ``vertex_bytes`` is the size of an end or middle, ``entry_bytes`` of an entry.
    ``stamp``, int32 (n_other,), has the number of the last block with each middle, initially -1. ``state``, int64 (5,),
    describes the open block: its number, first rank, ends, middles, entries, initially all 0. Both are updated.

    Returns first rank, ends, middles and entries of the blocks that this slab closed, shape (n_closed, 4).
    """
    closed = np.empty((slab.offsets.size, 4), np.int64)
    return closed[: _grow_end_blocks(slab, vertex_bytes, entry_bytes, limit_bytes, stamp, state, closed)].copy()


@compiled
def _grow_end_blocks(
    slab: Slab,
    vertex_bytes: float,
    entry_bytes: float,
    limit_bytes: float,
    stamp: Ids,
    state: Ints,
    closed: Ints,
) -> int:
    offsets, columns = slab.offsets, slab.columns
    n_closed = 0
    for i in range(offsets.size - 1):
        begin = offsets[i] + slab.split[i]
        n_entries = offsets[i + 1] - begin
        if n_entries == 0:
            continue
        n_new = 0
        for at in range(begin, offsets[i + 1]):
            if stamp[columns[at]] != state[0]:
                n_new += 1
        needed = vertex_bytes * (state[2] + 1 + state[3] + n_new) + entry_bytes * (state[4] + n_entries)
        if state[2] > 0 and needed > limit_bytes:
            for each in range(4):
                closed[n_closed, each] = state[1 + each]
            n_closed += 1
            state[0] += 1
            state[1] = slab.first + i
            state[2:] = 0
            n_new = n_entries
        for at in range(begin, offsets[i + 1]):
            stamp[columns[at]] = state[0]
        state[2] += 1
        state[3] += n_new
        state[4] += n_entries
    return n_closed


@compiled
def fill_starts(
    slab: Slab, rows: Ints, ranks: Ids, first_end: Ids, indptr: Ints, middles: Ids, middle_edges: Ints
) -> None:
    """Copy the middles of starts that have an end before the start.

    ``rows`` are the rows of the slab that are starts, ``ranks`` their ranks; ``first_end`` is the result of
    :func:`find_first_ends`. ``middles`` and ``middle_edges``, which may be (0,), are written from ``indptr[0]`` on; all
    of ``indptr``, int64 (n_starts + 1,), is computed beforehand.
    """
    with_edges = middle_edges.size > 0
    for i in range(rows.size):
        to = indptr[i]
        for at in range(slab.offsets[rows[i]], slab.offsets[rows[i] + 1]):
            if first_end[slab.columns[at]] < ranks[i]:
                middles[to] = slab.columns[at]
                if with_edges:
                    middle_edges[to] = slab.edges[at]
                to += 1


@compiled
def mark_middles(slab: Slab, places: Ids) -> None:
    """Mark the middles of the ends of a slab: ``places[middle]`` becomes 0 where it was -1."""
    for i in range(slab.split.size):
        for at in range(slab.offsets[i] + slab.split[i], slab.offsets[i + 1]):
            places[slab.columns[at]] = 0


def number_marked(places: Ids) -> Ids:
    """Number the entries of ``places`` other than -1, in place, and return their indices, ascending."""
    marked = np.flatnonzero(places >= 0).astype(np.int32)
    places[marked] = np.arange(marked.size, dtype=np.int32)
    return marked


@compiled
def count_entries(slab: Slab, places: Ids, indptr: Ints) -> None:
    """Add the entries of the ends of a slab to ``indptr[place of the middle + 1]``."""
    for i in range(slab.split.size):
        for at in range(slab.offsets[i] + slab.split[i], slab.offsets[i + 1]):
            indptr[places[slab.columns[at]] + 1] += 1


@compiled
def fill_ends(place: int, slab: Slab, places: Ids, cursor: Ints, ends: Ids, end_edges: Ints) -> int:
    """Write the entries of the ends of a slab into the rows of their middles; return the place after the last end.

    ``place`` is the place in the block of the first end of the slab; rows without entries of an end do not count as
    ends. ``places``, int32 (n_other,), has the place of each middle in the block; ``cursor``, int64 (n_middles,), has
    the position of its next entry and is updated. ``ends`` and ``end_edges``, which may be (0,), are written.
    """
    offsets, with_edges = slab.offsets, end_edges.size > 0
    for i in range(offsets.size - 1):
        begin = offsets[i] + slab.split[i]
        if begin == offsets[i + 1]:
            continue
        for at in range(begin, offsets[i + 1]):
            middle = places[slab.columns[at]]
            to = cursor[middle]
            cursor[middle] = to + 1
            ends[to] = place
            if with_edges:
                end_edges[to] = slab.edges[at]
        place += 1
    return place


@compiled
def renumber(values: Ids, places: Ids) -> None:
    """Replace each value by its place, in place."""
    for i in range(values.size):
        values[i] = places[values[i]]


@compiled
def gather_ends(slab: Slab, rows: Ints, low: int, high: int, lengths: Ints, ends: Ids, end_edges: Ints) -> int:
    """Copy the ends of some middles of a slab whose ranks are in [low, high); return their number.

    The slab contains rows of middles; ``rows``, int64 (n_wanted,), selects some of them. ``lengths``, int64
    (n_wanted,), is set to the number of entries taken from each row. ``ends`` and ``end_edges``, at least as long as
    the slab (or (0,)), are set to the ranks of the ends and their edge ids.
    """
    with_edges = end_edges.size > 0
    to = 0
    for i in range(rows.size):
        at = slab.offsets[rows[i]]
        stop = at + slab.split[rows[i]]
        above = stop
        while at < above:  # the first rank that is not below
            middle = (at + above) // 2
            if slab.columns[middle] < low:
                at = middle + 1
            else:
                above = middle
        before = to
        while at < stop and slab.columns[at] < high:
            ends[to] = slab.columns[at]
            if with_edges:
                end_edges[to] = slab.edges[at]
            to += 1
            at += 1
        lengths[i] = to - before
    return to
