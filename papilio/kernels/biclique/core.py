"""The core of a graph that can hold (p,q)-bicliques, by rows of either layer, and the pairs of its left vertices.

A vertex of the left layer with fewer than q neighbours, or of the right layer with fewer than p, is in no biclique. The
core remains after repeated removal of such vertices. Left and right are U and V, or V and U.

The pairs of left vertices that share enough right ones are the second level of every search: any two left vertices of a
biclique are such a pair. One pass over the wedges finds the pairs under a provisional numbering. Once the final
numbering is known, they are laid out in rows: row x holds the later vertices that share enough with x, ascending. If
all left sides have two vertices, the pass itself is the count: a pair with c shared vertices is in C(c, q) bicliques,
and only the number of pairs by shared vertices is kept (:func:`count_pairs`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Bools, Ints, compiled
from papilio.kernels.offsets import add_counts, count_ids, offsets_of
from papilio.kernels.threads import ChunkRunner, cut_by_cost
from papilio.parts import Layer

Ids32 = NDArray[np.int32]


class Rows(NamedTuple):
    """Rows of ascending ids: row x is ``ids[indptr[x]:indptr[x + 1]]``."""

    indptr: Ints
    ids: Ids32


class Core(NamedTuple):
    """The core of a graph, in the order of the original ids.

    ``rows`` holds the right ids of every left vertex; ``left_ids`` and ``right_ids`` are the original ids.
    """

    rows: Rows
    left_ids: Ids32
    right_ids: Ids32


@compiled
def _transpose(rows: Rows, cursor: Ints, ids: Ids32) -> None:
    for row in range(rows.indptr.size - 1):
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            column = rows.ids[at]
            ids[cursor[column]] = row
            cursor[column] += 1


def transpose_rows(rows: Rows, n_columns: int) -> Rows:
    """Return the rows of the other layer; O(entries)."""
    indptr, ids = offsets_of(count_ids(rows.ids, n_columns)), np.empty_like(rows.ids)
    _transpose(rows, indptr[:-1].copy(), ids)
    return Rows(indptr, ids)


@compiled
def _peel(
    rows: Rows,
    columns: Rows,
    min_row: int,
    min_column: int,
    row_degree: Ints,
    column_degree: Ints,
    row_kept: Bools,
    column_kept: Bools,
    queue: Ints,
) -> None:
    """Mark the vertices outside the core, in which rows have at least ``min_row`` entries; O(entries)."""
    n_rows, n_columns = rows.indptr.size - 1, columns.indptr.size - 1
    begin, end = 0, 0
    for row in range(n_rows):
        if row_degree[row] < min_row:
            row_kept[row] = False
            queue[end] = row
            end += 1
    for column in range(n_columns):
        if column_degree[column] < min_column:
            column_kept[column] = False
            queue[end] = n_rows + column
            end += 1
    while begin < end:
        vertex = queue[begin]
        begin += 1
        if vertex < n_rows:
            for at in range(rows.indptr[vertex], rows.indptr[vertex + 1]):
                column = rows.ids[at]
                column_degree[column] -= 1
                if column_kept[column] and column_degree[column] < min_column:
                    column_kept[column] = False
                    queue[end] = n_rows + column
                    end += 1
        else:
            vertex -= n_rows
            for at in range(columns.indptr[vertex], columns.indptr[vertex + 1]):
                row = columns.ids[at]
                row_degree[row] -= 1
                if row_kept[row] and row_degree[row] < min_row:
                    row_kept[row] = False
                    queue[end] = row
                    end += 1


@compiled
def _keep(rows: Rows, lefts: Ids32, column_kept: Bools, new: Ints, indptr: Ints, ids: Ids32) -> None:
    end = 0
    for i in range(lefts.size):
        for at in range(rows.indptr[lefts[i]], rows.indptr[lefts[i] + 1]):
            if column_kept[rows.ids[at]]:
                ids[end] = new[rows.ids[at]]
                end += 1
        indptr[i + 1] = end


def _keep_rows(rows: Rows, lefts: Ids32, column_kept: Bools) -> Rows:
    """Return the kept entries of some rows, with rows and columns renumbered in their order."""
    indptr, ids = np.zeros(lefts.size + 1, np.int64), np.empty_like(rows.ids)
    _keep(rows, lefts, column_kept, np.cumsum(column_kept) - 1, indptr, ids)
    return Rows(indptr, ids[: indptr[-1]].copy())


@compiled
def _copy_rows(rows: Rows, order: Ints, indptr: Ints, ids: Ids32) -> None:
    for i in range(order.size):
        begin, end = rows.indptr[order[i]], rows.indptr[order[i] + 1]
        for at in range(begin, end):
            ids[indptr[i] + at - begin] = rows.ids[at]


def order_rows(rows: Rows, order: Ints) -> Rows:
    """Return the rows in the given order: row i is the old row ``order[i]``."""
    indptr, ids = offsets_of(np.diff(rows.indptr)[order]), np.empty_like(rows.ids)
    _copy_rows(rows, order, indptr, ids)
    return Rows(indptr, ids)


def make_rows(graph: BipartiteGraph, layer: Layer) -> Rows:
    """Return the rows of a layer; O(n_edges)."""
    rows = Rows(graph.indptr, graph.v)
    return rows if layer == "u" else transpose_rows(rows, graph.n_v)


def reduce_to_core(graph: BipartiteGraph, anchor: Layer, min_left: int, min_right: int) -> Core:
    """Remove vertices in no biclique of ``min_left`` anchored and ``min_right`` other vertices; O(n_edges)."""
    of_u, of_v = make_rows(graph, "u"), make_rows(graph, "v")
    lefts, rights = (of_u, of_v) if anchor == "u" else (of_v, of_u)
    return reduce_rows(lefts, rights, min_left, min_right)


def reduce_rows(lefts: Rows, rights: Rows, min_left: int, min_right: int) -> Core:
    """Reduce a graph, given by the rows of both layers, like :func:`reduce_to_core`."""
    degrees = np.diff(lefts.indptr), np.diff(rights.indptr)
    left_kept, right_kept = (np.ones(each.size, np.bool_) for each in degrees)
    queue = np.empty(left_kept.size + right_kept.size, np.int64)
    _peel(lefts, rights, min_right, min_left, *degrees, left_kept, right_kept, queue)
    left_ids = np.flatnonzero(left_kept).astype(np.int32)
    right_ids = np.flatnonzero(right_kept).astype(np.int32)
    if not left_ids.size or not right_ids.size:
        return Core(Rows(np.zeros(1, np.int64), left_ids[:0]), left_ids[:0], right_ids[:0])
    return Core(_keep_rows(lefts, left_ids, right_kept), left_ids, right_ids)


PAIR_BYTES = 24
"""Bytes of a pair during layout: as found, by its later vertex, and in its row; two int32 each."""


class Pairs(NamedTuple):
    """Pairs as rows: row x is ``[indptr[x], indptr[x + 1])`` of ``others`` and of ``common``.

    ``others`` holds the vertices paired with x, each pair in one row only, and ``common`` the number of right vertices
    that the two share.
    """

    indptr: Ints
    others: Ids32
    common: Ids32


class _Counters(NamedTuple):
    """Counters of one thread: zero between rows; and the vertices met, in order."""

    counts: Ids32
    met: Ids32


@compiled
def share_row(rows: Rows, one: int, other: int, shared: Ids32) -> int:
    """List the ids that two ascending rows share; return their number."""
    a, a_end, b, b_end, n = rows.indptr[one], rows.indptr[one + 1], rows.indptr[other], rows.indptr[other + 1], 0
    while a < a_end and b < b_end:
        first, second = rows.ids[a], rows.ids[b]
        if first == second:
            shared[n] = first
            n += 1
        a += first <= second
        b += second <= first
    return n


@compiled
def _place_after(lefts: Rows, rights: Rows, cursor: Ints, after: Ints, wedges: Ints) -> None:
    for left in range(wedges.size):
        for at in range(lefts.indptr[left], lefts.indptr[left + 1]):
            right = lefts.ids[at]
            cursor[right] += 1
            after[at] = cursor[right]
            wedges[left] += rights.indptr[right + 1] - cursor[right]


def places_after(lefts: Rows, rights: Rows) -> tuple[Ints, Ints]:
    """Return the start of the later vertices in the right row, per left entry; and wedges per left row."""
    after, wedges = np.empty(lefts.ids.size, np.int64), np.zeros(lefts.indptr.size - 1, np.int64)
    _place_after(lefts, rights, rights.indptr[:-1].copy(), after, wedges)
    return after, wedges


@compiled
def _meet(lefts: Rows, rights: Rows, after: Ints, left: int, counters: _Counters) -> int:
    """Count the right vertices that a left vertex shares with each later one. Return the number of vertices met."""
    counts, met = counters
    n_met = 0
    for at in range(lefts.indptr[left], lefts.indptr[left + 1]):
        for place in range(after[at], rights.indptr[lefts.ids[at] + 1]):
            other = rights.ids[place]
            count = counts[other]
            met[n_met] = other
            n_met += count == 0
            counts[other] = count + 1
    return n_met


@compiled
def _pair_rows(
    lefts: Rows,
    rights: Rows,
    after: Ints,
    begin: int,
    end: int,
    min_common: int,
    counters: _Counters,
    sizes: Ints,
    others: Ids32,
    common: Ids32,
) -> int:
    """Write the pairs of the left rows ``[begin, end)``; return their number."""
    counts, met = counters
    to = 0
    for left in range(begin, end):
        first = to
        for i in range(_meet(lefts, rights, after, left, counters)):
            count = counts[met[i]]
            counts[met[i]] = 0
            if count >= min_common:
                others[to] = met[i]
                common[to] = count
                to += 1
        sizes[left] = to - first
    return to


@compiled
def _count_rows(
    lefts: Rows, rights: Rows, after: Ints, begin: int, end: int, counters: _Counters, histogram: Ints
) -> None:
    """Count the pairs of the left rows ``[begin, end)`` by the number of shared vertices."""
    counts, met = counters
    for left in range(begin, end):
        for i in range(_meet(lefts, rights, after, left, counters)):
            histogram[counts[met[i]]] += 1
            counts[met[i]] = 0


def _make_counters(n_left: int) -> _Counters:
    return _Counters(np.zeros(n_left, np.int32), np.empty(n_left + 1, np.int32))


def count_pairs(lefts: Rows, n_right: int, threads: int, n_roots: int) -> dict[int, int]:
    """Return the number of pairs of left vertices by number of shared right ones; O(wedges).

    Numbers of shared vertices are 1 or more. No pair is kept. One vertex of each pair is among the first ``n_roots``
    rows.
    """
    rights = transpose_rows(lefts, n_right)
    after, wedges = places_after(lefts, rights)
    most = int(np.diff(lefts.indptr).max(initial=0))

    def make_state() -> tuple[_Counters, Ints]:
        return _make_counters(wedges.size), np.zeros(most + 1, np.int64)

    def count(state: tuple[_Counters, Ints], begin: int, end: int) -> None:
        _count_rows(lefts, rights, after, begin, end, *state)

    runner = ChunkRunner(make_state, threads)
    runner.run(cut_by_cost(wedges[:n_roots], threads), count)
    histogram = sum((counted for _, counted in runner.states), np.zeros(most + 1, np.int64))
    return {int(shared): int(histogram[shared]) for shared in np.flatnonzero(histogram)}


def find_pairs(lefts: Rows, n_right: int, min_common: int, threads: int, limit_bytes: int, n_roots: int) -> Pairs:
    """Return all pairs that share at least ``min_common`` right vertices; O(wedges).

    The pairs of a row are with later rows, in no particular order; only the first ``n_roots`` rows have any. Raises
    CapacityError if the pairs exceed ``limit_bytes``.
    """
    rights = transpose_rows(lefts, n_right)
    after, wedges = places_after(lefts, rights)
    n_left = wedges.size
    most = np.minimum(wedges // min_common, np.arange(n_left)[::-1])
    sizes = np.zeros(n_left + 1, np.int64)
    found: dict[int, tuple[Ids32, Ids32]] = {}
    n_found = 0

    def pair(counters: _Counters, begin: int, end: int) -> None:
        nonlocal n_found
        room = int(most[begin:end].sum())
        others, common = np.empty(room, np.int32), np.empty(room, np.int32)
        size = _pair_rows(lefts, rights, after, begin, end, min_common, counters, sizes[1:], others, common)
        n_found += size
        if n_found * PAIR_BYTES > limit_bytes:
            raise CapacityError(
                f"more than {n_found} pairs of vertices of the anchored layer share {min_common} neighbours; "
                f"{limit_bytes} bytes hold {limit_bytes // PAIR_BYTES} ({PAIR_BYTES} bytes each): "
                "anchor the other layer, choose larger p and q, count in parts (--host-memory), or use more memory"
            )
        found[begin] = others[:size].copy(), common[:size].copy()

    cuts = cut_by_cost(wedges[:n_roots], max(threads, 2))
    ChunkRunner(lambda: _make_counters(n_left), threads).run(cuts, pair)
    chunks = [found[begin] for begin in sorted(found)]
    others = np.concatenate([chunk[0] for chunk in chunks] or [np.empty(0, np.int32)])
    common = np.concatenate([chunk[1] for chunk in chunks] or [np.empty(0, np.int32)])
    return Pairs(np.cumsum(sizes), others, common)


def count_partners(pairs: Pairs) -> Ints:
    """Return the number of pairs of each vertex, with earlier or later vertices."""
    partners = np.diff(pairs.indptr)
    add_counts(pairs.others, partners)
    return partners


@compiled
def _count_later(pairs: Pairs, rank: Ints, counts: Ints) -> None:
    for row in range(pairs.indptr.size - 1):
        for at in range(pairs.indptr[row], pairs.indptr[row + 1]):
            counts[max(rank[row], rank[pairs.others[at]])] += 1


@compiled
def _list_earlier(pairs: Pairs, rank: Ints, cursor: Ints, others: Ids32, common: Ids32) -> None:
    for row in range(pairs.indptr.size - 1):
        for at in range(pairs.indptr[row], pairs.indptr[row + 1]):
            one, two = rank[row], rank[pairs.others[at]]
            to = cursor[max(one, two)]
            cursor[max(one, two)] += 1
            others[to] = min(one, two)
            common[to] = pairs.common[at]


def list_earlier(pairs: Pairs, rank: Ints) -> Pairs:
    """Return rows by the later vertex in rank, with the earlier ones, ascending if the rows of ``pairs`` are."""
    counts = np.zeros(pairs.indptr.size - 1, np.int64)
    _count_later(pairs, rank, counts)
    laid = Pairs(offsets_of(counts), np.empty_like(pairs.others), np.empty_like(pairs.common))
    _list_earlier(pairs, rank, laid.indptr[:-1].copy(), laid.others, laid.common)
    return laid


@compiled
def _transpose_pairs(pairs: Pairs, cursor: Ints, others: Ids32, common: Ids32) -> None:
    for row in range(pairs.indptr.size - 1):
        for at in range(pairs.indptr[row], pairs.indptr[row + 1]):
            to = cursor[pairs.others[at]]
            cursor[pairs.others[at]] += 1
            others[to] = row
            common[to] = pairs.common[at]


def _by_earlier(pairs: Pairs) -> Pairs:
    """Return rows by the earlier vertex, with the later ones, ascending."""
    indptr = offsets_of(count_ids(pairs.others, pairs.indptr.size - 1))
    laid = Pairs(indptr, np.empty_like(pairs.others), np.empty_like(pairs.common))
    _transpose_pairs(pairs, indptr[:-1].copy(), laid.others, laid.common)
    return laid


def lay_pairs(pairs: Pairs, order: NDArray[np.int64]) -> Pairs:
    """Return the pairs renumbered, with ``order[i]`` as vertex i: rows of later vertices, ascending."""
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return _by_earlier(list_earlier(pairs, rank))
