"""Compiled probes of the searches for (p,q)-bicliques: one random branch for each; see :mod:`.choice`.

Below a child the candidates are the later children of its root that share enough columns with both. Enumeration takes
``take`` of them: at each level it intersects every row with the later ones, and it ends at pairs of rows. A probe takes
one row: the first of as many independently drawn rows as remain to be taken, since early rows have more below them.
Pivoting has a branch without gaps and one for each gap, drawn in the same way. Estimates of counts instead draw a child
and rows below it by the columns that they share (:func:`measure_counts`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from papilio.kernels.biclique.choice import (
    WALKS,
    Children,
    draw_children,
    draw_pieces,
    make_count_tables,
    name_found,
)
from papilio.kernels.biclique.core import Ids32, Rows
from papilio.kernels.biclique.index import BicliqueIndex
from papilio.kernels.biclique.items import BicliqueItems
from papilio.kernels.biclique.local import LeftGraph
from papilio.kernels.biclique.pivot import count_bits, transpose_bits
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.offsets import lower_bound
from papilio.kernels.probe import FIELDS, NODES, WORDS, Found, count_ways
from papilio.kernels.search.bits import ONE, Words, fill_span, lowest_bit, popcount, words_of
from papilio.kernels.search.probe_loops import (
    Floats,
    draw,
    draw_least,
    draw_weighted,
    power_gap,
)
from papilio.kernels.threads import ChunkRunner, cut_by_cost

PROBE_PAIRS = 32
"""Pairs of rows that represent all pairs of a list in a probe."""

_CHUNK_COST = 1 << 19
"""Least entries of rows that a thread reads: about a millisecond."""

PROBE_REPEATS = 4
"""Sets of rows drawn below a child, as most of the time goes into opening it."""

EVEN = 7.0
"""One in EVEN + 1 draws of a child takes all of them as equal, in case the weights of some are far too low."""


class NearGraph(NamedTuple):
    """The rows that probes read, all ascending.

    Without ``has_rows`` only roots and drawn children have rows in ``lefts``.
    """

    lefts: Rows
    rights: Rows
    hop: Ids32
    has_rows: bool


@compiled
def _open_rows(
    graph: NearGraph, root: int, child: int, end: int, number: Ids32, place: Ids32, rows: Words, shared: Ints
) -> int:
    """Write the rows of all later children of a child over the columns it shares with the root; return these columns.

    The child is a place in ``hop``, where the children of the root end at ``end``. Walks the columns or the rows of
    the children, whichever have fewer entries. ``number`` and ``place`` are 0 before and after; ``shared`` gets each
    column, and its first entry after the child.
    """
    lefts, rights, kid = graph.lefts, graph.rights, graph.hop[child]
    for at in range(lefts.indptr[root], lefts.indptr[root + 1]):
        number[lefts.ids[at]] = 1
    common = by_columns = by_rows = 0
    for at in range(lefts.indptr[kid], lefts.indptr[kid + 1]):
        if number[lefts.ids[at]]:
            column = lefts.ids[at]
            first = lower_bound(rights.ids, rights.indptr[column], rights.indptr[column + 1], kid + 1)
            shared[2 * common], shared[2 * common + 1] = column, first
            common += 1
            by_columns += rights.indptr[column + 1] - first
    for at in range(lefts.indptr[root], lefts.indptr[root + 1]):
        number[lefts.ids[at]] = 0
    n_words = words_of(common)
    rows[: (end - child - 1) * n_words] = 0
    for later in range(child + 1, end):
        by_rows += lefts.indptr[graph.hop[later] + 1] - lefts.indptr[graph.hop[later]]
    if not graph.has_rows or by_columns + (end - child) < by_rows:
        for later in range(child + 1, end):
            place[graph.hop[later]] = later - child
        for j in range(common):
            for at in range(shared[2 * j + 1], rights.indptr[shared[2 * j] + 1]):
                row = place[rights.ids[at]]
                if row:
                    rows[(row - 1) * n_words + (j >> 6)] |= ONE << np.uint64(j & 63)
        for later in range(child + 1, end):
            place[graph.hop[later]] = 0
    else:
        for j in range(common):
            number[shared[2 * j]] = j + 1
        for later in range(child + 1, end):
            other = graph.hop[later]
            for at in range(lefts.indptr[other], lefts.indptr[other + 1]):
                j = number[lefts.ids[at]] - 1
                if j >= 0:
                    rows[(later - child - 1) * n_words + (j >> 6)] |= ONE << np.uint64(j & 63)
        for j in range(common):
            number[shared[2 * j]] = 0
    return common


@compiled
def _keep_rows(rows: Words, n: int, n_words: int, least: int) -> int:
    """Keep the rows with at least ``least`` columns; return their number."""
    kept = 0
    for row in range(n):
        size = 0
        for w in range(n_words):
            word = rows[row * n_words + w]
            rows[kept * n_words + w] = word
            size += popcount(word)
        kept += size >= least
    return kept


@compiled
def probe_subsets(
    rows: Words,
    n: int,
    n_columns: int,
    take: int,
    least: int,
    weight: float,
    state: Words,
    ways: Floats,
    found: Floats,
) -> None:
    """Add the tree of sets of ``take`` of n rows, which are overwritten. ``ways`` is by shared columns."""
    n_words = words_of(n_columns)
    if take == 0:
        found[0] = weight * ways[n_columns]
        return
    while take > 2:
        if n < take:
            return
        pairs = n * (n - 1) // 2 - (take - 1) * (take - 2) // 2
        found[WORDS] += weight * (pairs * n_words)
        found[NODES] += weight * (n - take + 1)
        first = draw_least(state, n, take)
        if first > n - take:
            return
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
        return
    sets = n
    if take == 2:
        sets = n * (n - 1) // 2
        found[WORDS] += weight * (sets * n_words)
    total = 0.0
    for _ in range(PROBE_PAIRS):
        one = draw(state, n)
        two = one
        if take == 2:
            two = draw(state, n - 1)
            two += two >= one
        size = 0
        for w in range(n_words):
            size += popcount(rows[one * n_words + w] & rows[two * n_words + w])
        total += ways[size]
    found[0] = weight * sets * (total / PROBE_PAIRS)


@compiled
def sum_choices(free: int, low: int, high: int) -> float:
    """Return the number of sets of ``low`` to ``high`` of ``free`` vertices."""
    if low > free:
        return 0.0
    ways = 1.0
    for taken in range(low):
        ways = ways * (free - taken) / (taken + 1)
    total = ways
    for taken in range(low, min(high, free)):
        ways = ways * (free - taken) / (taken + 1)
        total += ways
    return total


@compiled
def _scan(lines: Words, n: int, n_words: int, own: Words, other: Words) -> int:
    """Take the lines without gaps out of ``own``. Return the fewest gaps of the others << 32 | their line, or -1."""
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
    """Cut the sets to a branch of the pivot, a line of ``own``: 0 takes the pivot's own, i holds the i-th gap.

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
    """Draw a branch of a pivot with gaps among n lines. Return it and its probability.

    Of ``take`` independently drawn lines, branch 0 has none in a gap; otherwise the first gap is held. One time in
    eight all branches are equally likely, so that each can be drawn.
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
    sizes: tuple[int, int, int, int],
    weight: float,
    state: Words,
    left: Words,
    right: Words,
    found: Floats,
) -> None:
    """Add the tree below a root, a child and n rows. ``sizes``: minimum and maximum left, then right."""
    transpose_bits(rows, n, n_columns, columns)
    n_left, n_right = words_of(n), words_of(n_columns)
    fill_span(left, n)
    fill_span(right, n_columns)
    hl, pl, hr, pr = 2, 0, 0, 0
    min_left, max_left, min_right, max_right = sizes
    while True:
        lefts, rights = count_bits(left, 0, n_left), count_bits(right, 0, n_right)
        if hl > max_left or hr > max_right or hl + pl + lefts < min_left or hr + pr + rights < min_right:
            return
        if hl == max_left:
            pl, lefts = 0, 0
            left[:n_left] = 0
        if hr == max_right:
            pr, rights = 0, 0
            right[:n_right] = 0
        found[WORDS] += weight * (lefts * n_right + rights * n_left)
        found[NODES] += weight
        by_row = _scan(rows, n, n_right, left, right)
        by_column = _scan(columns, n_columns, n_left, right, left)
        pl += lefts - count_bits(left, 0, n_left)
        pr += rights - count_bits(right, 0, n_right)
        if by_row < 0:
            of_left = sum_choices(pl, max(min_left - hl, 0), max_left - hl)
            found[0] = weight * of_left * sum_choices(pr, max(min_right - hr, 0), max_right - hr)
            return
        is_row = by_row >> 32 <= by_column >> 32
        best = by_row if is_row else by_column
        others = count_bits(right, 0, n_right) if is_row else count_bits(left, 0, n_left)
        take = max(min_right - hr if is_row else min_left - hl, 1)
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
    graph: NearGraph,
    children: tuple[Ids32, Ints, Ints, Floats, Words],
    begin: int,
    end: int,
    sizes: tuple[int, int, int, int],
    ways: Floats,
    room: tuple[Ids32, Ids32, Ints, Words, Words, Words, Words, Words],
    found: tuple[Floats, Floats],
) -> None:
    roots, places, ends, weights, seeds = children
    number, place, shared, rows, columns, left, right, state = room
    by_sets, by_pivots = found
    for probe in range(begin, end):
        if roots[probe] < 0:
            continue
        child, end = places[probe], ends[probe]
        common = _open_rows(graph, roots[probe], child, end, number, place, rows, shared)
        n = _keep_rows(rows, end - child - 1, words_of(common), sizes[2])
        if n < sizes[0] - 2:
            continue
        if by_pivots.size:
            state[0] = seeds[probe]
            probe_pivots(
                rows, columns, n, common, sizes, weights[probe], state, left, right, by_pivots[probe]
            )  # fmt: skip
        if by_sets.size:
            state[0] = ~seeds[probe]
            probe_subsets(
                rows, n, common, sizes[0] - 2, sizes[2], weights[probe], state, ways, by_sets[probe]
            )  # fmt: skip


class Near(NamedTuple):
    """Where the probes of some children begin.

    ``places`` and ``ends`` (n_probes,) are the place of each child in ``graph.hop``, and the end of the children of its
    root; ``common`` (n_probes,) is the number of columns that it shares with its root. All are 0 without a root.
    """

    graph: NearGraph
    places: Ints
    ends: Ints
    common: Ints


NearOf = Callable[[Children], Near]
"""Returns the rows that probes read, wherever the index is."""


def rows_near(graph: LeftGraph, children: Children) -> Near:
    """Return the rows of a graph on the host, which are all there."""
    has_root = children.roots >= 0
    roots, places = np.where(has_root, children.roots, 0), np.where(has_root, children.places, 0)
    ends, common = (np.zeros(roots.size, np.int64) for _ in range(2))
    ends[has_root] = graph.hop_indptr[roots[has_root] + 1]
    common[has_root] = graph.hop_common[places[has_root]]
    return Near(_all_rows(graph), places, ends, common)


def _all_rows(graph: LeftGraph) -> NearGraph:
    return NearGraph(graph.lefts, graph.rights, graph.hop, True)


def measure_probes(
    index: BicliqueItems, near_of: NearOf, items: Ints, seeds: Words, walks: tuple[str, ...], threads: int
) -> dict[str, Found]:
    """Probe items of an index with some of the :data:`~papilio.kernels.biclique.choice.WALKS`."""
    sizes, children = index.sizes, draw_children(index, items, seeds)
    near = near_of(children)
    later = near.ends - near.places
    words, wide = (near.common + 63) // 64, (later + 63) // 64
    ways = count_ways(int(near.common.max(initial=0)), sizes.min_right, sizes.max_right)
    found = {name: np.zeros((items.size if name in walks else 0, FIELDS)) for name in WALKS}
    given = children.roots, near.places, near.ends, children.weights, children.seeds
    limits = sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right

    def make_room() -> Any:
        rows, columns = int((later * words).max(initial=0)), int((near.common * wide).max(initial=0))
        widest = int(words.max(initial=0))
        lengths = rows + widest, columns, int(wide.max(initial=0)), widest, 1
        marks = np.zeros(index.n_right, np.int32), np.zeros(index.n_left, np.int32)
        shared = np.empty(2 * int(near.common.max(initial=0)), np.int64)
        return *marks, shared, *(np.empty(n, np.uint64) for n in lengths)

    def walk(room: Any, begin: int, end: int) -> None:
        results = found["enumerate"], found["pivot"]
        _probe_all(near.graph, given, begin, end, limits, ways, room, results)

    column = near.graph.rights.ids.size // max(int(np.count_nonzero(np.diff(near.graph.rights.indptr))), 1)
    costs = later * (1 + words) + near.common * column
    # Few chunks: a call takes as long as some probes.
    chunks = cut_by_cost(costs, 1, serial_cost=max(_CHUNK_COST, int(costs.sum()) // threads))
    ChunkRunner(make_room, threads).run(chunks, walk)
    return {name: name_found(found[name], sizes) for name in walks}


@compiled
def weigh_child(common: int, later: int, law: int, by_common: Floats) -> Any:
    """Return the weight of a child with this many later children in a draw. See make_count_tables."""
    if law == 0:
        return by_common[common]
    if law == 1:
        return later * by_common[common]
    if law == 2:
        return later * np.sqrt(float(later)) * by_common[common]
    return (later + 1) * by_common[common]


@compiled
def _weigh_children(
    hop_common: Ids32, first: int, last: int, end: int, law: int, by_common: Floats, weights: Floats
) -> None:
    """Write the weights of the children ``[first, last)`` of a root whose children end at ``end``."""
    total = 0.0
    for at in range(first, last):
        weights[at - first] = weigh_child(hop_common[at], end - at - 1, law, by_common)
        total += weights[at - first]
    for i in range(last - first):
        weights[i] += total / (EVEN * (last - first))


@compiled
def _weigh_pieces(
    hop_indptr: Ints,
    hop_common: Ids32,
    pieces: tuple[Ids32, Ints, Ints],
    law: int,
    by_common: Floats,
    weights: Floats,
    lots: Floats,
) -> None:
    roots, firsts, lasts = pieces
    for piece in range(roots.size):
        if roots[piece] >= 0:
            first, last, end = firsts[piece], lasts[piece], hop_indptr[roots[piece] + 1]
            _weigh_children(hop_common, first, last, end, law, by_common, weights)
            lots[piece] = weights[: last - first].sum()


def weigh_pieces(index: BicliqueIndex) -> Floats:
    """Return the weights of pieces in the draws for estimates of counts, shape (n_pieces,)."""
    tables = make_count_tables(index.sizes, int(index.hop_common.max(initial=0)))
    lots, pieces = np.zeros(index.item_root.size), (index.item_root, index.item_first, index.item_last)
    room = np.empty(int((index.item_last - index.item_first).max(initial=0)))
    _weigh_pieces(index.hop_indptr, index.hop_common, pieces, tables.law, tables.children, room, lots)
    return lots


@compiled
def _cut_rows(rows: Words, n: int, n_words: int, taken: int, least: int, kept: Words, sizes: Ints) -> int:
    """Intersect the rows with row ``taken``, all columns if -1, and drop that row. Return the number of rows left.

    ``kept`` may be ``rows``, with room for one more row.
    """
    mask = n * n_words
    for w in range(n_words):
        kept[mask + w] = rows[taken * n_words + w] if taken >= 0 else ~np.uint64(0)
    left = 0
    for i in range(n):
        size = 0
        for w in range(n_words):
            word = kept[mask + w] & rows[i * n_words + w]
            kept[left * n_words + w] = word
            size += popcount(word)
        sizes[left] = size
        left += size >= least and i != taken
    return left


@compiled
def _count_sets(
    rows: Words,
    n: int,
    n_words: int,
    sizes: tuple[int, int, int],
    tables: tuple[Floats, Floats],
    state: Words,
    room: tuple[Words, Ints, Floats],
) -> float:
    """Return an estimate of the bicliques of a root, its child and one or more of n rows; the rows are kept.

    Rows are drawn one after the other from all remaining ones, so each set occurs in every order of its rows. The last
    row is not drawn: the bicliques of all rows are added up.
    """
    min_left, max_left, least = sizes
    ways, by_columns = tables
    kept, shared, weights = room
    weight, total = 1.0, 0.0
    n = _cut_rows(rows, n, n_words, -1, least, kept, shared)
    for size in range(3, max_left + 1):
        if n < max(min_left - size, 0) + 1:
            break
        if size >= min_left:
            for i in range(n):
                weights[i] = ways[shared[i]]
            total += weight * weights[:n].sum() / (size - 2)
        if size == max_left:
            break
        for i in range(n):
            weights[i] = by_columns[shared[i]]
        taken, times = draw_weighted(weights, n, state)
        weight = weight * times / (size - 2)
        n = _cut_rows(kept, n, n_words, taken, least, kept, shared)
    return total


@compiled
def _probe_counts(
    graph: LeftGraph,
    opened: NearGraph,
    pieces: tuple[Ids32, Ints, Ints],
    begin: int,
    end: int,
    sizes: tuple[int, int, int],
    tables: tuple[Floats, Floats, Floats, int],
    seeds: Words,
    room: tuple[Ids32, Ids32, Words, Ints, Words, Ints, Floats, Words],
    found: Floats,
) -> None:
    """Estimate the bicliques of pieces."""
    roots, firsts, lasts = pieces
    ways, by_columns, by_common, law = tables
    number, place, rows, shared, kept, kept_sizes, weights, state = room
    min_left, max_left, least = sizes
    for probe in range(begin, end):
        root, first, last = roots[probe], firsts[probe], lasts[probe]
        if root < 0:
            continue
        state[0] = seeds[probe]
        stop = graph.hop_indptr[root + 1]
        _weigh_children(graph.hop_common, first, last, stop, law, by_common, weights)
        drawn, weight = draw_weighted(weights, last - first, state)
        child = first + drawn
        total = ways[graph.hop_common[child]] if min_left <= 2 else 0.0
        n = stop - child - 1
        if max_left > 2 and n >= max(min_left - 2, 1):
            n_words = words_of(_open_rows(opened, root, child, stop, number, place, rows, shared))
            n = _cut_rows(rows, n, n_words, -1, least, rows, kept_sizes)
            repeats = PROBE_REPEATS if max_left > 3 else 1
            below = 0.0
            for _ in range(repeats):
                room_of_sets = kept, kept_sizes, weights
                below += _count_sets(rows, n, n_words, sizes, (ways, by_columns), state, room_of_sets)
            total += below / repeats
        found[probe] = weight * total


def measure_counts(index: BicliqueIndex, graph: LeftGraph, items: Ints, seeds: Words, threads: int) -> Floats:
    """Estimate the bicliques of items of an index by sets of their rows, drawn one after the other."""
    pieces, stands_for = draw_pieces(index, items, seeds)
    if not index.item_root.size:
        return np.zeros(items.size)
    roots = np.where(stands_for > 0.0, index.item_root[pieces], np.int32(-1))
    given = roots, index.item_first[pieces], index.item_last[pieces]
    later, most, sizes = index.item_later[pieces], int(index.hop_common.max(initial=0)), index.sizes
    tables, found = (*make_count_tables(sizes, most),), np.zeros(items.size)

    def make_room() -> Any:
        longest = int(later.max(initial=0)) + 2
        n_words = longest * words_of(most)
        return (
            np.zeros(index.n_right, np.int32), np.zeros(index.n_left, np.int32), np.empty(n_words, np.uint64),
            np.empty(2 * most, np.int64), np.empty(n_words, np.uint64), np.empty(longest, np.int64),
            np.empty(longest), np.empty(1, np.uint64),
        )  # fmt: skip

    def walk(room: Any, begin: int, end: int) -> None:
        limits = sizes.min_left, sizes.max_left, sizes.min_right
        _probe_counts(graph, _all_rows(graph), given, begin, end, limits, tables, seeds, room, found)

    ChunkRunner(make_room, threads).run(cut_by_cost(later + 1, threads, serial_cost=1 << 14), walk)
    return found * stands_for
