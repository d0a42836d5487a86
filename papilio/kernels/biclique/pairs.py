"""Pairs of left vertices that share enough right ones: the second level of every (p,q)-biclique search.

A biclique with two left vertices or more has all of its left vertices pairwise in these pairs. They are found in
one pass over the wedges, under a provisional numbering, and laid into rows once the final one is known: row x
holds the later vertices that share enough with x, ascending.

Where two left vertices are all that is asked for, the pass itself is the count: a pair that shares c stands for C(c, q)
bicliques, and only how many pairs share how much is kept (:func:`count_pairs`).
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.biclique.core import Ids32, Rows, transpose_rows
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.offsets import add_counts, count_ids, offsets_of
from papilio.kernels.threads import ChunkRunner, cut_by_cost

PAIR_BYTES = 24
"""A pair while rows are laid: once as found, once by its later vertex, once in its row; two int32 each."""


class Pairs(NamedTuple):
    """Pairs as rows: those of row x are ``[indptr[x], indptr[x + 1])`` of ``others`` and of ``common``.

    ``others`` are the vertices paired with x, each pair in one row only, and ``common`` how many right vertices
    the two share.
    """

    indptr: Ints
    others: Ids32
    common: Ids32


class _Counters(NamedTuple):
    """What one thread counts in: zero between rows, and the vertices met, in the order of meeting."""

    counts: Ids32
    met: Ids32


def available_bytes() -> int:
    """Return half of this machine's memory, in bytes: what the pairs may take."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@compiled
def _place_after(lefts: Rows, rights: Rows, cursor: Ints, after: Ints, wedges: Ints) -> None:
    for left in range(wedges.size):
        for at in range(lefts.indptr[left], lefts.indptr[left + 1]):
            right = lefts.ids[at]
            cursor[right] += 1
            after[at] = cursor[right]
            wedges[left] += rights.indptr[right + 1] - cursor[right]


def places_after(lefts: Rows, rights: Rows) -> tuple[Ints, Ints]:
    """Return, per entry of the left rows, where the later vertices begin in the right row; wedges per left row."""
    after, wedges = np.empty(lefts.ids.size, np.int64), np.zeros(lefts.indptr.size - 1, np.int64)
    _place_after(lefts, rights, rights.indptr[:-1].copy(), after, wedges)
    return after, wedges


@compiled
def _meet(lefts: Rows, rights: Rows, after: Ints, left: int, counters: _Counters) -> int:
    """Count what one left vertex shares with each later one; return how many it meets."""
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
    least_common: int,
    counters: _Counters,
    sizes: Ints,
    others: Ids32,
    common: Ids32,
) -> int:
    """Write the pairs of the left rows ``[begin, end)``; return how many there are."""
    counts, met = counters
    to = 0
    for left in range(begin, end):
        first = to
        for i in range(_meet(lefts, rights, after, left, counters)):
            count = counts[met[i]]
            counts[met[i]] = 0
            if count >= least_common:
                others[to] = met[i]
                common[to] = count
                to += 1
        sizes[left] = to - first
    return to


@compiled
def _count_rows(
    lefts: Rows, rights: Rows, after: Ints, begin: int, end: int, counters: _Counters, histogram: Ints
) -> None:
    """Count the pairs of the left rows ``[begin, end)`` by what they share."""
    counts, met = counters
    for left in range(begin, end):
        for i in range(_meet(lefts, rights, after, left, counters)):
            histogram[counts[met[i]]] += 1
            counts[met[i]] = 0


def _make_counters(n_left: int) -> _Counters:
    return _Counters(np.zeros(n_left, np.int32), np.empty(n_left + 1, np.int32))


def count_pairs(lefts: Rows, n_right: int, threads: int, n_roots: int) -> dict[int, int]:
    """Return how many pairs of left vertices share exactly so many right ones, from 1 on; O(wedges), none is kept.

    One vertex of a pair is among the first ``n_roots`` rows.
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


def find_pairs(
    lefts: Rows, n_right: int, least_common: int, threads: int, limit_bytes: int, n_roots: int
) -> Pairs:
    """Return all pairs that share at least ``least_common`` right vertices; O(wedges).

    The pairs of a row are those with later rows, in no particular order; only the first ``n_roots`` rows have any.
    """
    rights = transpose_rows(lefts, n_right)
    after, wedges = places_after(lefts, rights)
    n_left = wedges.size
    most = np.minimum(wedges // least_common, np.arange(n_left)[::-1])
    sizes = np.zeros(n_left + 1, np.int64)
    found: dict[int, tuple[Ids32, Ids32]] = {}
    n_found = 0

    def pair(counters: _Counters, begin: int, end: int) -> None:
        nonlocal n_found
        room = int(most[begin:end].sum())
        others, common = np.empty(room, np.int32), np.empty(room, np.int32)
        size = _pair_rows(lefts, rights, after, begin, end, least_common, counters, sizes[1:], others, common)
        n_found += size
        if n_found * PAIR_BYTES > limit_bytes:
            raise CapacityError(
                f"more than {n_found} pairs of vertices of the anchored layer share {least_common} neighbours; "
                f"{limit_bytes} bytes have room for {limit_bytes // PAIR_BYTES} ({PAIR_BYTES} bytes each): "
                "anchor the other layer, ask for larger p and q, or use a machine with more memory"
            )
        found[begin] = others[:size].copy(), common[:size].copy()

    cuts = cut_by_cost(wedges[:n_roots], max(threads, 2))
    ChunkRunner(lambda: _make_counters(n_left), threads).run(cuts, pair)
    chunks = [found[begin] for begin in sorted(found)]
    others = np.concatenate([chunk[0] for chunk in chunks] or [np.empty(0, np.int32)])
    common = np.concatenate([chunk[1] for chunk in chunks] or [np.empty(0, np.int32)])
    return Pairs(np.cumsum(sizes), others, common)


def count_partners(pairs: Pairs) -> Ints:
    """Return how many pairs each vertex is in, earlier or later."""
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
    """Return rows of the later vertex by rank, which hold the earlier ones, rising if the rows of ``pairs`` come so."""
    counts = np.zeros(pairs.indptr.size - 1, np.int64)
    _count_later(pairs, rank, counts)
    laid = Pairs(offsets_of(counts), np.empty_like(pairs.others), np.empty_like(pairs.common))
    _list_earlier(pairs, rank, laid.indptr[:-1].copy(), laid.others, laid.common)
    return laid


@compiled
def _transpose(pairs: Pairs, cursor: Ints, others: Ids32, common: Ids32) -> None:
    for row in range(pairs.indptr.size - 1):
        for at in range(pairs.indptr[row], pairs.indptr[row + 1]):
            to = cursor[pairs.others[at]]
            cursor[pairs.others[at]] += 1
            others[to] = row
            common[to] = pairs.common[at]


def _by_earlier(pairs: Pairs) -> Pairs:
    """Return rows of the earlier vertex, which hold the later ones, ascending."""
    indptr = offsets_of(count_ids(pairs.others, pairs.indptr.size - 1))
    laid = Pairs(indptr, np.empty_like(pairs.others), np.empty_like(pairs.common))
    _transpose(pairs, indptr[:-1].copy(), laid.others, laid.common)
    return laid


def lay_pairs(pairs: Pairs, order: NDArray[np.int64]) -> Pairs:
    """Return the pairs under the numbering in which ``order[i]`` is vertex i: rows of later vertices, ascending."""
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return _by_earlier(list_earlier(pairs, rank))
