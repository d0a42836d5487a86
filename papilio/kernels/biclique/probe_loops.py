"""Compiled probes of the searches for (p,q)-bicliques: one random branch for each; see :mod:`.probe`.

Below a child the candidates are the later children of its root that share enough columns with both. Enumeration takes
``take`` of them: at each level it intersects every row with the later ones, and pairs of rows end it. A probe takes one
row: the first of as many as are still to be taken, drawn alone, since early rows have more below them. Pivoting has a
branch without gaps and one for each gap, which a probe draws in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.kernels.biclique.core import Ids32, Rows
from papilio.kernels.biclique.index import BicliqueIndex
from papilio.kernels.biclique.probe import Measured, Probes, count_ways
from papilio.kernels.device.constants import PROBE_PAIRS
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.threads import ChunkRunner, cut_by_cost
from papilio.kernels.tree.bits import ONE, Words, fill_span, lowest_bit, popcount, words_of
from papilio.kernels.tree.pivot import count_bits, transpose_bits
from papilio.kernels.tree.probe_loops import Floats, draw, draw_least, power_gap


@compiled
def open_child(
    lefts: Rows, hop_indptr: Ints, hop: Ids32, root: int, child: int, least: int, number: Ids32, rows: Words
) -> tuple[int, int]:
    """Write the rows of the candidates of a child; return how many there are, and of how many columns."""
    for at in range(lefts.indptr[root], lefts.indptr[root + 1]):
        number[lefts.ids[at]] = -1
    common = 0
    kid = hop[child]
    for at in range(lefts.indptr[kid], lefts.indptr[kid + 1]):
        if number[lefts.ids[at]] == -1:
            common += 1
            number[lefts.ids[at]] = common
    n_words, n = words_of(common), 0
    for later in range(child + 1, hop_indptr[root + 1]):
        other, size = hop[later], 0
        row = rows[n * n_words : (n + 1) * n_words]
        row[:] = 0
        for at in range(lefts.indptr[other], lefts.indptr[other + 1]):
            place = number[lefts.ids[at]]
            if place > 0:
                row[(place - 1) >> 6] |= ONE << np.uint64((place - 1) & 63)
                size += 1
        n += size >= least
    for at in range(lefts.indptr[root], lefts.indptr[root + 1]):
        number[lefts.ids[at]] = 0
    return n, common


@compiled
def probe_subsets(
    rows: Words, n: int, n_words: int, take: int, least: int, weight: float, state: Words, ways: Floats
) -> tuple[float, float, float]:
    """Return words, lists and bicliques below a list of n rows, which is used up; ``take`` is 1 or more."""
    words = lists = 0.0
    while take > 2:
        if n < take:
            return words, lists, 0.0
        pairs = n * (n - 1) // 2 - (take - 1) * (take - 2) // 2
        words += weight * (pairs * n_words)
        lists += weight * (n - take + 1)
        first = draw_least(state, n, take)
        if first > n - take:
            return words, lists, 0.0
        weight /= power_gap(n - first, n - first - 1, n, take)
        kept = 0
        last = n * n_words
        for w in range(n_words):
            rows[last + w] = rows[first * n_words + w]
        for other in range(first + 1, n):
            size = 0
            for w in range(n_words):
                word = rows[last + w] & rows[other * n_words + w]
                rows[kept * n_words + w] = word
                size += popcount(word)
            kept += size >= least
        n = kept
        take -= 1
    if n < take:
        return words, lists, 0.0
    sets = n
    if take == 2:
        sets = n * (n - 1) // 2
        words += weight * (sets * n_words)
    found = 0.0
    for _ in range(PROBE_PAIRS):
        one = draw(state, n)
        two = one
        if take == 2:
            two = draw(state, n - 1)
            two += two >= one
        size = 0
        for w in range(n_words):
            size += popcount(rows[one * n_words + w] & rows[two * n_words + w])
        found += ways[size]
    return words, lists, weight * sets * (found / PROBE_PAIRS)


@compiled
def _scan(lines: Words, n: int, n_words: int, own: Words, other: Words) -> int:
    """Take the lines without gaps out of ``own``; return the fewest gaps of the others << 32 | whose, or -1."""
    best = -1
    for i in range(n):
        if own[i >> 6] >> np.uint64(i & 63) & ONE:
            gaps = 0
            for w in range(n_words):
                gaps += popcount(other[w] & ~lines[i * n_words + w])
            if gaps == 0:
                own[i >> 6] ^= ONE << np.uint64(i & 63)
            elif best < 0 or gaps << 32 | i < best:
                best = gaps << 32 | i
    return best


@compiled
def _branch(
    lines: Words, n_own: int, n_other: int, own: Words, other: Words, pivot: int, branch: int, across: Words
) -> None:
    """Cut the sets to a branch of the pivot, a line of ``own``: 0 takes what the pivot has, i holds the i-th gap.

    ``across`` are the lines of the other side.
    """
    own[pivot >> 6] &= ~(ONE << np.uint64(pivot & 63))
    seen, held = 0, -1
    for w in range(n_other):
        gaps = other[w] & ~lines[pivot * n_other + w]
        rest = gaps
        while rest:
            bit = rest & (~rest + ONE)
            seen += 1
            if branch == 0 or seen <= branch:
                other[w] &= ~bit
            if seen == branch:
                held = w * 64 + lowest_bit(bit)
            rest ^= bit
    if held >= 0:
        for w in range(n_own):
            own[w] &= across[held * n_own + w]


@compiled
def _choose_branch(state: Words, n_gaps: int, n: int, take: int) -> tuple[int, float]:
    """Draw a branch of a pivot with gaps among n lines; return it and its probability.

    Of ``take`` lines drawn alike, none in a gap is the branch 0, and the first gap is held otherwise. One time in
    eight all branches are alike: none is out of reach.
    """
    if draw(state, 8) == 0:
        branch = draw(state, n_gaps + 1)
    else:
        first = draw_least(state, n, take)
        branch = first + 1 if first < n_gaps else 0
    chance = power_gap(n - branch + 1, n - branch, n, take) if branch else power_gap(n - n_gaps, 0, n, take)
    return branch, chance * 0.875 + 0.125 / (n_gaps + 1)


@compiled
def probe_pivots(
    rows: Words,
    columns: Words,
    n: int,
    n_columns: int,
    left_size: int,
    right_sizes: tuple[int, int],
    weight: float,
    state: Words,
    left: Words,
    right: Words,
    left_ways: Floats,
    right_ways: Floats,
) -> tuple[float, float, float]:
    """Return words, nodes and bicliques of the least right size below a root, a child and a matrix of n rows.

    ``left_ways[held, free]`` are the ways to choose what is missing of the left side, ``right_ways`` of the right one.
    """
    transpose_bits(rows, n, n_columns, columns)
    n_left, n_right = words_of(n), words_of(n_columns)
    fill_span(left, n)
    fill_span(right, n_columns)
    hl, pl, hr, pr = 2, 0, 0, 0
    words = nodes = 0.0
    right_size, max_right = right_sizes
    while True:
        lefts, rights = count_bits(left, 0, n_left), count_bits(right, 0, n_right)
        if hl > left_size or hr > max_right or hl + pl + lefts < left_size or hr + pr + rights < right_size:
            return words, nodes, 0.0
        if hl == left_size:
            pl, lefts = 0, 0
            left[:n_left] = 0
        if hr == max_right:
            pr, rights = 0, 0
            right[:n_right] = 0
        words += weight * (lefts * n_right + rights * n_left)
        nodes += weight
        by_row = _scan(rows, n, n_right, left, right)
        by_column = _scan(columns, n_columns, n_left, right, left)
        pl += lefts - count_bits(left, 0, n_left)
        pr += rights - count_bits(right, 0, n_right)
        if by_row < 0:
            return words, nodes, weight * left_ways[hl, pl] * right_ways[hr, pr] if hr <= right_size else 0.0
        is_row = by_row >> 32 <= by_column >> 32
        best = by_row if is_row else by_column
        others = count_bits(right, 0, n_right) if is_row else count_bits(left, 0, n_left)
        take = max(right_size - hr, 1) if is_row else left_size - hl
        branch, chance = _choose_branch(state, best >> 32, others, take)
        weight /= chance
        pivot = best & 0xFFFFFFFF
        if is_row:
            _branch(rows, n_left, n_right, left, right, pivot, branch, columns)
            pl, hr = pl + (branch == 0), hr + (branch > 0)
        else:
            _branch(columns, n_right, n_left, right, left, pivot, branch, rows)
            pr, hl = pr + (branch == 0), hl + (branch > 0)


@compiled
def _probe_all(
    graph: tuple[Rows, Ints, Ids32],
    probes: tuple[Ids32, Ints, Floats, Words],
    begin: int,
    end: int,
    sizes: tuple[int, int, int],
    ways: tuple[Floats, Floats, Floats],
    room: tuple[Ids32, Words, Words, Words, Words, Words],
    found: Floats,
) -> None:
    lefts, hop_indptr, hop = graph
    roots, children, weights, seeds = probes
    left_size, right_size, max_right = sizes
    by_size, left_ways, right_ways = ways
    number, rows, columns, left, right, state = room
    for probe in range(begin, end):
        n, common = open_child(
            lefts, hop_indptr, hop, roots[probe], children[probe], right_size, number, rows
        )
        if n < left_size - 2:
            continue
        weight, n_words = weights[probe], words_of(common)
        state[0] = seeds[probe]
        found[3, probe], found[4, probe], found[5, probe] = probe_pivots(
            rows,
            columns,
            n,
            common,
            left_size,
            (right_size, max_right),
            weight,
            state,
            left,
            right,
            left_ways,
            right_ways,
        )
        state[0] = ~seeds[probe]
        found[0, probe], found[1, probe], found[2, probe] = probe_subsets(
            rows, n, n_words, left_size - 2, right_size, weight, state, by_size
        )


def measure_probes(index: BicliqueIndex, probes: Probes, threads: int) -> Measured:
    """Walk the probes of an index whose left sides have one size, 3 or more."""
    sizes = index.sizes
    later = index.hop_indptr[probes.roots + 1] - probes.children
    common = index.hop_common[probes.children].astype(np.int64)
    words, wide = (common + 63) // 64, (later + 63) // 64
    max_later, max_common = int(later.max(initial=0)), int(common.max(initial=0))
    ways = count_ways(sizes.min_left, max_later), count_ways(sizes.min_right, max_common)
    found = np.zeros((6, probes.roots.size))
    graph = Rows(index.indptr, index.columns), index.hop_indptr, index.hop
    drawn = probes.roots, probes.children, probes.weights, probes.seeds

    def make_room() -> Any:
        rows, columns = int((later * words).max(initial=0)), int((common * wide).max(initial=0))
        lengths = (
            rows + int(words.max(initial=0)),
            columns,
            int(wide.max(initial=0)),
            int(words.max(initial=0)),
            1,
        )
        return np.zeros(index.n_right, np.int32), *(np.empty(n, np.uint64) for n in lengths)

    def walk(room: Any, begin: int, end: int) -> None:
        _probe_all(
            graph, drawn, begin, end,
            (sizes.min_left, sizes.min_right, sizes.max_right), (ways[1][0], *ways), room, found,
        )  # fmt: skip

    costs = later * (1 + words)
    ChunkRunner(make_room, threads).run(cut_by_cost(costs, threads), walk)
    return Measured(*found)
