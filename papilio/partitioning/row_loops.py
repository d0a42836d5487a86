"""Serial kernels that rank and sort the rows of a graph whose edges do not fit in memory.

Edges come in batches and leave as 64-bit words, grouped by ranges of their vertices, so each group can be spilled to
its place or added to its sums while these are in the cache. Threads run the kernels at once: everything that a kernel
writes belongs to one batch, one range or one range of rows.

    row words     rank of the row's vertex in the upper 32 bits, rank of the neighbour in the lower
    sum words     summand in the upper 32 bits, its vertex in the lower
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.jit import Bools, Index, Sums, compiled
from papilio.kernels.offsets import offsets_of
from papilio.partitioning import Ids, Ints

_TABLE = 1 << 16
"""Entries of a table of :class:`Ranges`: 256 KiB, within the second-level cache."""

_INSERTION = 48
"""Longest rows sorted by insertion; the counters of a radix pass cost as much as sorting these."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class Ranges(NamedTuple):
    """Consecutive ranges that cover ``[0, n)``, with tables that find the range of a number."""

    starts: Ints  # (n_ranges + 1,): range k is ``[starts[k], starts[k + 1])``; none is empty
    # the range of each of the first numbers: if numbers are ranks, these are hubs, with many small ranges
    head: Ids
    tail: Ids  # the range of every multiple of ``2 ** shift``
    shift: int


def make_ranges(starts: Ints) -> Ranges:
    """Make the tables of consecutive ranges from their starts: 0 first, the end of the last range last."""
    n = int(starts[-1])
    shift = max(0, n.bit_length() - _TABLE.bit_length() + 1)
    head = np.searchsorted(starts, np.arange(min(n, _TABLE)), side="right") - 1
    tail = np.searchsorted(starts, np.arange((n >> shift) + 1) << shift, side="right") - 1
    return Ranges(starts, head.astype(np.int32), tail.astype(np.int32), shift)


class Words(NamedTuple):
    """Space for 64-bit words, each with an optional edge id, by range: the words of range k end at ``ends[k]``."""

    ranges: Ranges
    words: Sums
    edges: Ints
    ends: Ints


@compiled
def _find_range(ranges: Ranges, number: Index) -> Index:
    if number < ranges.head.size:
        return np.int64(ranges.head[number])
    found = np.int64(ranges.tail[number >> ranges.shift])
    while number >= ranges.starts[found + 1]:
        found += 1
    return found


@compiled
def _begin_ranges(counts: Ints) -> None:
    """Turn the counts of all ranges into their beginnings."""
    at = np.int64(0)
    for k in range(counts.size):
        size = counts[k]
        counts[k] = at
        at += size


@compiled
def count_batch(u: Ids, v: Ids, keep_u: Bools, keep_v: Bools, degree_u: Ints, border: Ints, out: Words) -> int:
    """Count the kept edges of sorted edges at each u, and write words that count the edges at each v.

    ``keep_u`` and ``keep_v`` mark the kept vertices; if empty, all are kept. Counts are added to ``degree_u`` for all u
    but the first and the last, which other batches may also contain: ``border`` is set to the counts of these two, or
    to one count and 0 if they are the same. ``out`` is set to one sum word for each kept edge, by range of v.

    Returns the place of the first edge that is out of its layer or out of order, or -1.
    """
    n_u, n_v = degree_u.size, out.ranges.starts[out.ranges.starts.size - 1]
    ends = out.ends
    ends[:] = 0
    border[:] = 0
    for i in range(u.size):
        if u[i] < 0 or u[i] >= n_u or v[i] < 0 or v[i] >= n_v:
            return i
        if i > 0 and (u[i] < u[i - 1] or (u[i] == u[i - 1] and v[i] <= v[i - 1])):
            return i
        if (keep_u.size == 0 or keep_u[u[i]]) and (keep_v.size == 0 or keep_v[v[i]]):
            ends[_find_range(out.ranges, v[i])] += 1
            if u[i] == u[0]:
                border[0] += 1
            elif u[i] == u[u.size - 1]:
                border[1] += 1
            else:
                degree_u[u[i]] += 1
    _begin_ranges(ends)
    one = np.uint64(1) << _HALF
    for i in range(u.size):
        if (keep_u.size == 0 or keep_u[u[i]]) and (keep_v.size == 0 or keep_v[v[i]]):
            k = _find_range(out.ranges, v[i])
            out.words[ends[k]] = one | np.uint64(v[i])
            ends[k] += 1
    return -1


@compiled
def add_words(words: Sums, sums: Ints) -> None:
    """Add sum words to the sums of their vertices."""
    for word in words:
        sums[word & _LOW] += np.int64(word >> _HALF)


def rank_vertices(order: Ids, degree: Ints) -> tuple[Ids, Ints]:
    """Return the rank of every vertex, -1 if not in ``order`` (vertices by rank), and row offsets by rank."""
    rank = np.full(degree.size, -1, np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return rank, offsets_of(degree[order])


@compiled
def rank_batch(
    rows: Ids,
    others: Ids,
    rank_rows: Ids,
    rank_others: Ids,
    turn: int,
    first_edge: int,
    keys: Sums,
    out: Words,
) -> int:
    """Write the row words of the kept edges of a batch, by range of the rank of the row.

    ``rows`` are the ends of the edges in the layer whose rows are made, ``others`` the ends in the other layer.
    ``rank_rows`` and ``rank_others`` rank every vertex, -1 if it is not kept. ``turn`` is 0 for two layers; in a
    unipartite graph, the row is the end of lower rank if ``turn`` is 1, the other end if it is -1. ``out`` is set;
    ``keys`` is overwritten.

    Returns the place of the first edge that is out of its layer, or -1.
    """
    ends = out.ends
    ends[:] = 0
    for i in range(rows.size):
        row, other = rows[i], others[i]
        if row < 0 or row >= rank_rows.size or other < 0 or other >= rank_others.size:
            return i
        rank, rank_other = rank_rows[row], rank_others[other]
        if turn * rank > turn * rank_other:
            rank, rank_other = rank_other, rank
        if rank >= 0 and rank_other >= 0:
            keys[i] = (np.uint64(rank) << _HALF) | np.uint64(rank_other)
            ends[_find_range(out.ranges, rank)] += 1
        else:
            keys[i] = _LOW
    _begin_ranges(ends)
    for i in range(rows.size):
        if keys[i] & _LOW != _LOW:
            k = _find_range(out.ranges, np.int64(keys[i] >> _HALF))
            out.words[ends[k]] = keys[i]
            if out.edges.size:
                out.edges[ends[k]] = first_edge + i
            ends[k] += 1
    return -1


@compiled
def place_words(words: Sums, word_edges: Ints, first: int, indptr: Ints, filled: Ids, ids: Ids, edges: Ints) -> bool:
    """Put the neighbours of some rows side by side, unordered within a row; return whether they fill the rows exactly.

    ``words`` are all row words of these rows in any order, with optional edge ids; ``indptr`` has the offsets of these
    rows and need not begin with 0. ``filled``, int32 (n_rows,), is overwritten; ``ids`` and ``edges`` are set.
    """
    filled[:] = 0
    for i in range(words.size):
        row = np.int64(words[i] >> _HALF) - first
        if row < 0 or row >= filled.size or filled[row] >= indptr[row + 1] - indptr[row]:
            return False
        at = indptr[row] - indptr[0] + filled[row]
        filled[row] += 1
        ids[at] = np.int32(words[i] & _LOW)
        if edges.size:
            edges[at] = word_edges[i]
    return words.size == ids.size


@compiled
def _sort_by_insertion(ids: Ids, edges: Ints) -> None:
    for i in range(1, ids.size):
        value = ids[i]
        edge = edges[i] if edges.size else np.int64(0)
        at = i
        while at > 0 and ids[at - 1] > value:
            ids[at] = ids[at - 1]
            if edges.size:
                edges[at] = edges[at - 1]
            at -= 1
        ids[at] = value
        if edges.size:
            edges[at] = edge


@compiled
def _sort_by_radix(ids: Ids, edges: Ints, spare_ids: Ids, spare_edges: Ints, bits: int, starts: Ints) -> None:
    source, target, source_edges, target_edges = ids, spare_ids, edges, spare_edges
    passes = (bits + 7) // 8
    for digit in range(passes):
        shift = 8 * digit
        starts[:] = 0
        for i in range(ids.size):
            starts[((source[i] >> shift) & 255) + 1] += 1
        for k in range(256):
            starts[k + 1] += starts[k]
        for i in range(ids.size):
            k = (source[i] >> shift) & 255
            target[starts[k]] = source[i]
            if edges.size:
                target_edges[starts[k]] = source_edges[i]
            starts[k] += 1
        source, target = target, source
        source_edges, target_edges = target_edges, source_edges
    if passes % 2:
        for i in range(ids.size):
            ids[i] = spare_ids[i]
        for i in range(edges.size):
            edges[i] = spare_edges[i]


def sort_rows(indptr: Ints, ids: Ids, edges: Ints, spare_ids: Ids, spare_edges: Ints, n_others: int) -> None:
    """Sort the neighbours of every row, below ``n_others``, with their edge ids.

    The spare arrays are overwritten; they are at least as large as the others.
    """
    _sort_rows(indptr, ids, edges, spare_ids, spare_edges, n_others, np.empty(257, np.int64))


@compiled
def _sort_rows(
    indptr: Ints, ids: Ids, edges: Ints, spare_ids: Ids, spare_edges: Ints, n_others: int, starts: Ints
) -> None:
    bits = 1
    while n_others >> bits:
        bits += 1
    for row in range(indptr.size - 1):
        begin, end = indptr[row] - indptr[0], indptr[row + 1] - indptr[0]
        row_edges = edges[begin:end] if edges.size else edges
        if end - begin <= _INSERTION:
            _sort_by_insertion(ids[begin:end], row_edges)
        else:
            _sort_by_radix(ids[begin:end], row_edges, spare_ids, spare_edges, bits, starts)


@compiled
def _first_not_above(indptr: Ints, degree: Index) -> Index:
    """Return the first row with at most ``degree`` entries, of rows of decreasing length."""
    low, high = 0, indptr.size - 1
    while low < high:
        middle = (low + high) // 2
        if indptr[middle + 1] - indptr[middle] > degree:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def split_rows(first: int, indptr: Ints, ids: Ids, indptr_others: Ints, others_first: bool, split: Ids) -> None:
    """Set ``split`` to the number of neighbours of each row that precede its vertex in the order of both layers.

    ``indptr`` has the offsets of these rows and need not begin with 0; ``ids`` are their neighbours, ascending in each
    row. ``indptr_others`` has the offsets of all rows of the other layer. ``others_first``: whether the other layer's
    vertices precede this layer's at equal degree. If there is one layer, ``first`` is the rank of the first row,
    otherwise -1.
    """
    ahead: Index = np.int64(0)
    known: Index = np.int64(-1)
    for row in range(split.size):
        degree = indptr[row + 1] - indptr[row]
        if first >= 0:
            ahead = first + row
        elif degree != known:
            known = degree
            ahead = _first_not_above(indptr_others, degree - 1 if others_first else degree)
        begin = indptr[row] - indptr[0]
        low, high = begin, begin + degree
        while low < high:
            middle = (low + high) // 2
            if ids[middle] < ahead:
                low = middle + 1
            else:
                high = middle
        split[row] = low - begin


@compiled
def work_words(indptr: Ints, ids: Ids, split: Ids, out: Words) -> None:
    """Write words that sum, for each neighbour in some rows, the wedges that it starts with the row's vertex as middle.

    The number of these wedges is the number of neighbours that precede it in the row, up to the row's split. Parameters
    are as in :func:`split_rows`; ``out`` is set, by range of the neighbour.
    """
    ends = out.ends
    ends[:] = 0
    for row in range(split.size):
        if split[row] > 0:
            for at in range(indptr[row] - indptr[0] + 1, indptr[row + 1] - indptr[0]):
                ends[_find_range(out.ranges, ids[at])] += 1
    _begin_ranges(ends)
    for row in range(split.size):
        if split[row] > 0:
            begin = indptr[row] - indptr[0]
            for at in range(begin + 1, indptr[row + 1] - indptr[0]):
                k = _find_range(out.ranges, ids[at])
                value = np.uint64(min(at - begin, np.int64(split[row])))
                out.words[ends[k]] = (value << _HALF) | np.uint64(ids[at])
                ends[k] += 1
