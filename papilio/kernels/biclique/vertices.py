"""(p,q)-bicliques of every vertex, for one p and one q: the enumeration of the CPU engine with a memory of its path.

A left set of the size asked for that shares n right vertices stands for C(n, q) bicliques of each of its vertices, and
for C(n - 1, q - 1) of each of the n. The sums are kept modulo 2^64; sets are also counted by n, so that the total
is exact and tells whether a sum could have wrapped. What is below a vertex on the path is added to it when the
search leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.biclique.core import Ids32
from papilio.kernels.biclique.local import Around, LeftGraph, open_root, seek_candidates, set_bits
from papilio.kernels.biclique.search import Items
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.tree.bits import ONE, Words, lowest_bit, popcount, words_of
from papilio.kernels.tree.subset import Levels


class VertexCounts(NamedTuple):
    """What one thread counts."""

    # shape (n_left,) and (n_right,): bicliques of each vertex, modulo 2^64
    left: Words
    right: Words
    # shape (most shared columns + 1,): C(n, q) and C(n - 1, q - 1) modulo 2^64, by n
    sets: Words
    members: Words
    histogram: Ints  # shape (most shared columns + 1,): left sets by the columns that they share
    ids: Ids32  # shape (words of the levels,): candidate of each row of the levels
    sums: Words  # shape (levels + 1,): bicliques below each level
    # Sums of the candidates and the columns of the child at hand; all 0 between children
    kids: Words
    columns: Words
    work: Ints  # shape (1,): set operations: words intersected and entries walked


def make_vertex_counts(
    layers: tuple[int, int], sets: Words, members: Words, rooms: tuple[int, int, int]
) -> VertexCounts:
    """Return what one thread counts in; ``rooms`` are the words and number of levels, and the most children."""
    words, depth, kids = rooms
    return VertexCounts(
        left=np.zeros(layers[0], np.uint64),
        right=np.zeros(layers[1], np.uint64),
        sets=sets,
        members=members,
        histogram=np.zeros(sets.size, np.int64),
        ids=np.empty(words, np.int32),
        sums=np.zeros(depth + 1, np.uint64),
        kids=np.zeros(kids, np.uint64),
        columns=np.zeros(sets.size, np.uint64),
        work=np.zeros(1, np.int64),
    )


@compiled
def _count_row(rows: Words, begin: int, n_words: int, counts: VertexCounts) -> int:
    """Count one left set by the row of columns that it shares; return how many these are."""
    size = 0
    for w in range(n_words):
        size += popcount(rows[begin + w])
    counts.histogram[size] += 1
    each = counts.members[size]
    for w in range(n_words):
        rest = rows[begin + w]
        while rest:
            counts.columns[w * 64 + lowest_bit(rest)] += each
            rest &= rest - ONE
    return size


@compiled
def take_row(levels: Levels, ids: Ids32, depth: int, i: int, n_words: int, least: int) -> int:
    """Write the next level: what row i shares with the later rows of its level; return how many are kept."""
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
def _count_subsets(levels: Levels, n_words: int, n: int, take: int, least: int, counts: VertexCounts) -> None:
    """Count all sets of ``take`` of n rows, at least one; ``sums[0]`` becomes the number of bicliques."""
    sums, ids = counts.sums, counts.ids
    levels.begin[0], levels.size[0], levels.next[0] = 0, n, 0
    for i in range(n):
        ids[i * n_words] = i
    sums[0] = 0
    depth = 0
    while depth >= 0:
        begin, size, i, more = levels.begin[depth], levels.size[depth], levels.next[depth], take - depth
        if more > 1 and size - i >= more:
            levels.next[depth] = i + 1
            counts.work[0] += (size - i - 1) * n_words
            if take_row(levels, ids, depth, i, n_words, least) >= more - 1:
                depth += 1
                sums[depth] = 0
            continue
        if more == 1:
            for j in range(size):
                at = begin + j * n_words
                each = counts.sets[_count_row(levels.rows, at, n_words, counts)]
                counts.kids[ids[at]] += each
                sums[depth] += each
        depth -= 1
        if depth >= 0:
            taken = levels.begin[depth] + (levels.next[depth] - 1) * n_words
            counts.kids[ids[taken]] += sums[depth + 1]
            sums[depth] += sums[depth + 1]


@compiled
def _close_child(
    graph: LeftGraph, around: Around, counts: VertexCounts, root: int, kid: int, n: int, below: np.uint64
) -> None:
    """Add the sums of one child to the vertices of the graph."""
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
    around: Around,
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
                set_bits(around, kid, n, n_words, levels.rows)
                _count_subsets(levels, n_words, n, take, least, counts)
            _close_child(graph, around, counts, root, kid, n, counts.sums[0])
