"""The loops of the CPU (p,q)-biclique engine: one call per chunk of work items, without the interpreter lock.

Input: the arrays of :class:`~papilio.kernels.biclique.index.BicliqueIndex`, in the terms of
:mod:`papilio.kernels.biclique.local`. Every biclique is counted once: its first two left vertices in the order
are the root and the child, the others are candidates of that child.

Left sides have three vertices or more, except if pivoting counts several sizes at once; pairs alone are counted during
the construction of the index. For three vertices the third is any candidate (:func:`count_triples`). ``enumerate``
takes left vertices one after the other (:mod:`papilio.kernels.biclique.subset`) and counts a histogram of shared
columns. ``pivot`` counts leaves by key (:mod:`papilio.kernels.biclique.pivot`). Both are exact, so the result does not
depend on the choice.

Bicliques per vertex, for one p and one q, are enumerated while keeping the path. A left set of the requested size that
shares n right vertices represents C(n, q) bicliques of each of its vertices, and C(n - 1, q - 1) of each of the n. The
sums are kept modulo 2^64; sets are also counted by n, so the total is exact and shows whether a sum could have wrapped.
The bicliques below a vertex on the path are added to it when the search leaves it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from papilio.kernels.biclique.core import Ids32
from papilio.kernels.biclique.local import (
    LeftGraph,
    RootGraph,
    add_worths,
    open_root,
    seek_candidates,
    set_bits,
    share_densely,
)
from papilio.kernels.biclique.pivot import (
    TABLE_FULL,
    Limits,
    MatrixStack,
    PivotStack,
    frame_words,
    pivot_matrix,
    pivot_small,
)
from papilio.kernels.biclique.subset import Levels, count_sizes, count_subsets, fold_bins
from papilio.kernels.jit import Ints, compiled, inlined
from papilio.kernels.search.bits import (
    ONE,
    LeafTable,
    Words,
    clear_leaves,
    lay_columns,
    lowest_bit,
    merge_leaves,
    popcount,
    share_columns,
    spread_bit,
    words_of,
)

BITS_GAIN, BITS_EXTRA = 8, 16
"""Rows that are tested for a column while one bit is added up, and rows that a column costs in addition. With 4 to 32
and 8 to 32, (4,4) of movielens-100k, yelp2018 and an R-MAT graph take the same time within 15 %."""

DONE, CHILD_TABLE_FULL, JOB_TABLE_FULL = 0, -1, -2


class Items(NamedTuple):
    """Root, first and end of the children of each work item."""

    roots: Ids32
    firsts: Ints
    lasts: Ints


class Counts(NamedTuple):
    """Counters of one thread."""

    # shape (maximum shared columns + 1,): left sets of the requested size by number of shared columns
    histogram: Ints
    # Leaves of pivot trees: in total, and of the current child
    leaves: LeafTable
    child_leaves: LeafTable
    work: Ints  # shape (1,): set operations: words intersected and entries walked


class TripleCounts(NamedTuple):
    """Counters of one thread if left sides have three vertices."""

    # shape (maximum shared columns + 1,): left sets by number of shared columns
    histogram: Ints
    bins: Ints  # shape (4 * (maximum shared columns + 1),): parts of the histogram
    work: Ints  # shape (1,): words intersected and entries walked


@compiled
def measure_rooms(hop_indptr: Ints, hop_common: Ids32, take: int) -> tuple[int, int, int, int]:
    """Return the maximum room that a child needs: words of levels, of columns and of frames, and frames."""
    levels, columns, words, frames = 0, 0, 0, 0
    for root in range(hop_indptr.size - 1):
        for at in range(hop_indptr[root], hop_indptr[root + 1]):
            n, common = int(hop_indptr[root + 1] - at - 1), int(hop_common[at])
            levels = max(levels, n * words_of(common) * max(1, min(take - 1, n)) + words_of(common))
            columns = max(columns, common * words_of(n))
            words = max(words, frame_words(n, common))
            frames = max(frames, min(n, common) + 1)
    return levels, columns, words, frames


@compiled
def count_triples(
    graph: LeftGraph, around: RootGraph, items: Items, begin: int, end: int, least: int, counts: TripleCounts
) -> None:
    """Count the items ``[begin, end)`` if left sides have three vertices: each candidate of a child is one.

    ``least`` is the right size.
    """
    histogram, bins, work = counts
    roots, firsts, lasts = items
    for item in range(begin, end):
        root, most = roots[item], 0
        if root < 0:
            continue
        open_root(graph, around, root, firsts[item])
        top = graph.hop_indptr[root]
        for at in range(firsts[item], lasts[item]):
            most = max(most, graph.hop_common[at])
            if around.dense[0]:
                n = share_densely(around, at - top, at - top + 1)
                work[0] += n * around.dense[0]
                count_sizes(around.sizes[:n], bins)
                continue
            n, walked = seek_candidates(around, at - top, least)
            work[0] += walked
            for i in range(n):
                histogram[around.shared[around.met[i]]] += 1
                around.shared[around.met[i]] = 0
        fold_bins(bins, most, histogram)


@compiled
def _forget(around: RootGraph, n: int) -> None:
    """Drop the candidates: they are too few to count."""
    for i in range(n):
        around.shared[around.met[i]] = 0


@compiled
def _enumerate_children(
    around: RootGraph,
    levels: Levels,
    histogram: Ints,
    hop_common: Ids32,
    span: tuple[int, int, int],
    limits: Limits,
) -> int:
    """Count below the children of a root one after the other; return the work.

    ``span`` holds the start of the root's children, and the first and the end of those to count, as places in ``hop``.
    """
    top, first, last = span
    take, least = limits[0] - 2, limits[2]
    work, most = 0, 0
    for at in range(first, last):
        most = max(most, hop_common[at])
        n, walked = seek_candidates(around, at - top, least)
        work += walked
        if n < take:
            _forget(around, n)
        else:
            n_words = words_of(hop_common[at])
            set_bits(around, at - top, n, n_words, levels.rows)
            work += count_subsets(levels, n_words, n, take, least)
    fold_bins(levels.bins, most, histogram)
    return work


@compiled
def _search_child(
    around: RootGraph,
    small: PivotStack,
    stack: MatrixStack | None,
    levels: Levels,
    counts: Counts,
    child: tuple[int, int, int],
    limits: Limits,
) -> int:
    """Count below one child by pivots: its number, its columns and its candidates, already found.

    Returns the work, or a negative status if nothing was counted.
    """
    kid, common, n = child
    if n < limits[0] - 2:
        _forget(around, n)
        return 0
    set_bits(around, kid, n, words_of(common), levels.rows)
    if stack is None:
        work = pivot_small(small, levels.rows, n, common, (2, 0, 0, 0), limits, counts.child_leaves)
    else:
        work = pivot_matrix(stack, levels.rows, n, common, (2, 0, 0, 0), limits, counts.child_leaves)
    if work == TABLE_FULL:
        clear_leaves(counts.child_leaves)
        return CHILD_TABLE_FULL
    if not merge_leaves(counts.leaves, counts.child_leaves):
        clear_leaves(counts.child_leaves)
        return JOB_TABLE_FULL
    clear_leaves(counts.child_leaves)
    return work


@compiled
def enumerate_items(
    graph: LeftGraph,
    around: RootGraph,
    levels: Levels,
    counts: Counts,
    items: Items,
    begin: int,
    end: int,
    limits: Limits,
) -> None:
    """Count the items ``[begin, end)`` by enumeration."""
    roots, firsts, lasts = items
    for item in range(begin, end):
        root = roots[item]
        if root < 0:
            continue
        open_root(graph, around, root, firsts[item])
        span = graph.hop_indptr[root], firsts[item], lasts[item]
        counts.work[0] += _enumerate_children(around, levels, counts.histogram, graph.hop_common, span, limits)


@compiled
def pivot_items(
    graph: LeftGraph,
    around: RootGraph,
    small: PivotStack,
    stack: MatrixStack | None,
    levels: Levels,
    counts: Counts,
    items: Items,
    begin: int,
    end: int,
    child: int,
    limits: Limits,
) -> tuple[int, int, int]:
    """Count the items ``[begin, end)`` by pivots, the first from the place ``child`` of its children on.

    Without a ``stack`` all matrices are small, and the search of larger ones, half of the code, is not compiled.

    Returns (status, item, child): ``DONE``, or which table is full. In the latter case, enlarge it and call again with
    that item and child: all children before it are fully counted, and it is not.
    """
    roots, firsts, lasts = items
    for item in range(begin, end):
        root, first = roots[item], max(child, firsts[item])
        child = 0
        if root < 0:
            continue
        open_root(graph, around, root, first)
        top = graph.hop_indptr[root]
        for at in range(first, lasts[item]):
            n, work = seek_candidates(around, at - top, limits[2])
            counts.work[0] += work
            kid = at - top, int(graph.hop_common[at]), n
            work = _search_child(around, small, stack, levels, counts, kid, limits)
            if work < 0:
                return work, item, at
            counts.work[0] += work
    return DONE, end, 0


class VertexCounts(NamedTuple):
    """Counters of one thread per vertex."""

    # shape (n_left,) and (n_right,): bicliques of each vertex, modulo 2^64
    left: Words
    right: Words
    # shape (maximum shared columns + 1,): C(n, q) and C(n - 1, q - 1) modulo 2^64, by n
    sets: Words
    members: Words
    histogram: Ints  # shape (maximum shared columns + 1,): left sets by number of shared columns
    ids: Ids32  # shape (words of the levels,): candidate of each row of the levels
    sums: Words  # shape (levels + 1,): bicliques below each level
    # Sums of the candidates and the columns of the current child; all 0 between children
    kids: Words
    columns: Words
    work: Ints  # shape (1,): set operations: words intersected and entries walked


@compiled
def _close_list(levels: Levels, depth: int, n_words: int, least: int, worths: Words, counts: VertexCounts) -> Any:
    """Count all pairs of rows of a level. Return their bicliques.

    ``sizes`` hold what a row shares with each later one, and then the places of the sets.
    """
    begin, n, ids = levels.begin[depth], levels.size[depth], counts.ids
    columns = levels.rows[begin : begin + n * n_words]
    if n_words > 1:
        lay_columns(columns, n_words, levels.columns)
        columns = levels.columns
    counts.work[0] += n * (n - 1) // 2 * n_words
    total = np.uint64(0)
    for i in range(n - 1):
        sizes = levels.sizes[: n - i - 1]
        share_columns(columns, n, n_words, i, i + 1, sizes)
        below, live, bits = np.uint64(0), 0, 0
        for j in range(sizes.size):
            size = sizes[j]
            worths[j] = 0
            if size >= least:
                counts.histogram[size] += 1
                counts.kids[ids[begin + (i + 1 + j) * n_words]] += counts.sets[size]
                below += counts.sets[size]
                worths[j] = counts.members[size]
                sizes[live] = j
                live += 1
                bits += size
        counts.kids[ids[begin + i * n_words]] += below
        total += below
        if live:
            for w in range(n_words):
                later = columns[w * n + i + 1 : w * n + n]
                _add_word(columns[w * n + i], later, worths, sizes[:live], bits, n_words, counts.columns[64 * w :])
    return total


@inlined
def _add_word(row: np.uint64, later: Words, worths: Words, live: Ints, bits: int, n_words: int, columns: Words) -> None:
    """Add the worths of ``later`` rows to the columns of one word that they share with ``row``.

    Column by column, eight rows at a time, or set by set if the sets, at the places ``live``, have few ``bits``.
    """
    rest = row
    if BITS_GAIN * bits < n_words * popcount(row) * (later.size + BITS_EXTRA):
        for at in range(live.size):
            rest = row & later[live[at]]
            while rest:
                columns[lowest_bit(rest)] += worths[live[at]]
                rest &= rest - ONE
        return
    while rest:
        bit = lowest_bit(rest)
        shift, worth = np.uint64(bit), np.uint64(0)
        for j in range(later.size):
            worth += worths[j] & spread_bit(later[j], shift)
        columns[bit] += worth
        rest &= rest - ONE


@compiled
def take_row(levels: Levels, ids: Ids32, depth: int, i: int, n_words: int, least: int) -> int:
    """Write the next level, row i intersected with the later rows of its level. Return the number of rows kept."""
    rows, begin, n = levels.rows, levels.begin[depth], levels.size[depth]
    to = begin + n * n_words
    kept = 0
    for j in range(i + 1, n):
        place = to + kept * n_words
        size = 0
        for w in range(n_words):
            word = rows[begin + i * n_words + w] & rows[begin + j * n_words + w]
            rows[place + w] = word
            size += popcount(word)
        ids[place] = ids[begin + j * n_words]
        kept += size >= least
    levels.begin[depth + 1], levels.size[depth + 1], levels.next[depth + 1] = to, kept, 0
    return kept


@compiled
def _count_subsets(
    levels: Levels, n_words: int, n: int, take: int, least: int, worths: Words, counts: VertexCounts
) -> None:
    """Count all sets of ``take`` of n rows, at least two; ``sums[0]`` becomes the number of bicliques."""
    sums, ids = counts.sums, counts.ids
    levels.begin[0], levels.size[0], levels.next[0] = 0, n, 0
    for i in range(n):
        ids[i * n_words] = i
    sums[0] = 0
    depth = 0
    while depth >= 0:
        size, i, more = levels.size[depth], levels.next[depth], take - depth
        if more > 2 and size - i >= more:
            levels.next[depth] = i + 1
            counts.work[0] += (size - i - 1) * n_words
            if take_row(levels, ids, depth, i, n_words, least) >= more - 1:
                depth += 1
                sums[depth] = 0
            continue
        if more == 2:
            sums[depth] = _close_list(levels, depth, n_words, least, worths, counts)
        depth -= 1
        if depth >= 0:
            taken = levels.begin[depth] + (levels.next[depth] - 1) * n_words
            counts.kids[ids[taken]] += sums[depth + 1]
            sums[depth] += sums[depth + 1]


@compiled
def _count_thirds(around: RootGraph, kid: int, n: int, counts: VertexCounts) -> None:
    """Count each of n candidates as the third of its set; ``sums[0]`` becomes the number of bicliques."""
    counts.sums[0] = 0
    for i in range(n):
        shared = around.shared[around.met[i]]
        counts.histogram[shared] += 1
        counts.kids[i] = counts.sets[shared]
        counts.sums[0] += counts.sets[shared]
    counts.work[0] += add_worths(around, kid, n, counts.members, counts.columns)


@compiled
def _close_child(
    graph: LeftGraph, around: RootGraph, counts: VertexCounts, root: int, kid: int, n: int, below: np.uint64
) -> None:
    top, first = graph.hop_indptr[root], around.kid_ptr[kid]
    counts.left[root] += below
    counts.left[graph.hop[top + kid]] += below
    for i in range(n):
        counts.left[graph.hop[top + around.met[i]]] += counts.kids[i]
        counts.kids[i] = 0
    for at in range(first, around.kid_ptr[kid + 1]):
        right = graph.lefts.ids[graph.lefts.indptr[root] + around.kid_columns[at]]
        counts.right[right] += counts.columns[at - first]
        counts.columns[at - first] = 0


@compiled
def search_item_vertices(
    graph: LeftGraph,
    around: RootGraph,
    levels: Levels,
    counts: VertexCounts,
    items: Items,
    begin: int,
    end: int,
    take: int,
    least: int,
) -> None:
    """Count the items ``[begin, end)``; ``take`` left vertices follow a child, ``least`` is the right size."""
    roots, firsts, lasts = items
    for item in range(begin, end):
        root = roots[item]
        if root < 0:
            continue
        open_root(graph, around, root, firsts[item])
        for at in range(firsts[item], lasts[item]):
            kid, common = int(at - graph.hop_indptr[root]), int(graph.hop_common[at])
            n_words = words_of(common)
            n = 0
            if take == 0:
                each = counts.members[common]
                counts.histogram[common] += 1
                for column in range(common):
                    counts.columns[column] += each
                counts.sums[0] = counts.sets[common]
                counts.work[0] += 1
            else:
                n, walked = seek_candidates(around, kid, least)
                counts.work[0] += walked
                if take == 1:
                    _count_thirds(around, kid, n, counts)
                else:
                    set_bits(around, kid, n, n_words, levels.rows)
                    _count_subsets(levels, n_words, n, take, least, around.words, counts)
            _close_child(graph, around, counts, root, kid, n, counts.sums[0])
