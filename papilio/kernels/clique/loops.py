"""The loops of the CPU engine of k-cliques: one call per chunk of roots, without the interpreter lock.

Input: the later neighbours of every vertex in an order (:mod:`papilio.kernels.clique.order`). Each clique is found
once, at its first vertex, the root: the search runs on the graph that the root's later neighbours induce, as a square
matrix of bits.

``count_oriented`` takes vertices in their order and counts the last level by popcounts (Almasri et al., ICS'22, section
3.1); the pivot search is in :mod:`papilio.kernels.clique.pivot_loops`. ``list_cliques`` lists k-cliques, each at its
first vertex with the others in order. ``RowBuffer`` holds the state that listing adds to a search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.order import Later
from papilio.kernels.jit import Ints, Sums, compiled, inlined
from papilio.kernels.listing import RowBlock, end_row, has_room, make_row_block
from papilio.kernels.search.bits import ONE, Words, fill_span, first_bit, lowest_bit, popcount, words_of

TOTAL, PER_VERTEX, PER_EDGE = 0, 1, 2
_TWO, _THREE, _FOUR = np.uint64(2), np.uint64(3), np.uint64(4)


class CliqueStack(NamedTuple):
    """Memory of one thread; d is the largest number of later neighbours, w its words.

    ``rows`` is the matrix (d * w), with space for the matrices of its parts, one below the other: ``frames`` has a row
    for each, from the root on (:data:`ROWS_AT`). ``numbers`` are the rows of the root that are its rows. ``names`` (d)
    is the vertex of each row of the root; ``edge_at`` (d * d) has edge ids if edges are counted. ``sets`` and ``rest``
    ((d + 1) * w) are, by level, the candidates and the ones still to branch on; ``pivot_of``, ``held_at`` and
    ``pivots_at`` (d + 1) are the initial state of a level. ``held`` and ``pivots`` are the path. ``leaves`` ((d + 2) *
    (d + 2)) counts by held * (d + 2) + pivots. ``sums`` (d) and ``pair_sums`` (d * d) belong to the current root,
    ``root_sum`` to the root vertex itself; ``vertex_sums`` (n) and ``edge_sums`` (n_edges) are of all. ``place`` (n) is
    -1 and ``near`` (n) 0 between roots. ``total`` has the two halves of a 128-bit sum, then the words intersected.
    """

    rows: Words
    frames: Ints
    numbers: Ints
    names: NDArray[np.int32]
    edge_at: Ints
    sets: Words
    rest: Words
    pivot_of: Ints
    held_at: Ints
    pivots_at: Ints
    held: Ints
    pivots: Ints
    leaves: Sums
    sums: Sums
    pair_sums: Sums
    vertex_sums: Sums
    edge_sums: Sums
    place: Ints
    near: NDArray[np.uint8]
    root_sum: Sums
    total: Sums


ROWS_AT, NUMBERS_AT, WIDTH, BEGUN = 0, 1, 2, 3
"""Columns of a frame: where its rows and numbers begin, words of a row, and the level that it was made for."""


def make_search(later: Later, most: int, per: int, n_edges: int) -> CliqueStack:
    """Return the memory of a thread, for roots with at most ``most`` later neighbours."""
    n, w = later.indptr.size - 1, (most + 63) >> 6
    pairs = most * most if per == PER_EDGE else 0
    widths = [w >> i for i in range(w.bit_length())]
    return CliqueStack(
        rows=np.zeros(sum(64 * width * width for width in widths), np.uint64),
        frames=np.zeros((len(widths) or 1, 4), np.int64),
        numbers=np.arange(sum(64 * width for width in widths)),
        names=np.zeros(most, np.int32),
        edge_at=np.zeros(pairs, np.int64),
        sets=np.zeros((most + 1) * w, np.uint64),
        rest=np.zeros((most + 1) * w, np.uint64),
        pivot_of=np.zeros(most + 1, np.int64),
        held_at=np.zeros(most + 1, np.int64),
        pivots_at=np.zeros(most + 1, np.int64),
        held=np.zeros(most + 1, np.int64),
        pivots=np.zeros(most + 1, np.int64),
        leaves=np.zeros((most + 2) * (most + 2), np.uint64),
        sums=np.zeros(most, np.uint64),
        pair_sums=np.zeros(pairs, np.uint64),
        vertex_sums=np.zeros(n if per == PER_VERTEX else 0, np.uint64),
        edge_sums=np.zeros(n_edges if per == PER_EDGE else 0, np.uint64),
        place=np.full(n, -1, np.int64),
        near=np.zeros(n, np.uint8),
        root_sum=np.zeros(1, np.uint64),
        total=np.zeros(3, np.uint64),
    )


@compiled
def open_root(later: Later, search: CliqueStack, root: int, oriented: bool) -> int:
    """Fill the matrix of a root and return its number of later neighbours; see :func:`fill_matrix`."""
    begin, end = later.indptr[root], later.indptr[root + 1]
    d = int(end - begin)
    for i in range(d):
        search.names[i] = later.ids[begin + i]
    fill_matrix(later, search.names, search.place, search.rows, search.edge_at, d, oriented)
    return d


@compiled
def fill_matrix(
    later: Later, names: NDArray[np.int32], place: Ints, rows: Words, edge_at: Ints, d: int, oriented: bool
) -> None:
    """Fill the matrix of d named vertices, if oriented with later ones only; ``edge_at`` may be empty."""
    w = words_of(d)
    rows[: d * w] = 0
    for i in range(d):
        place[names[i]] = i
    for i in range(d):
        name = names[i]
        for at in range(later.indptr[name], later.indptr[name + 1]):
            j = place[later.ids[at]]
            if j >= 0:
                rows[i * w + (j >> 6)] |= ONE << np.uint64(j & 63)
                if not oriented:
                    rows[j * w + (i >> 6)] |= ONE << np.uint64(i & 63)
                if edge_at.size:
                    edge_at[i * d + j] = later.edges[at]
    for i in range(d):
        place[names[i]] = -1


@compiled
def _add_wide(total: Sums, value: np.uint64) -> None:
    """Add to a 128-bit sum."""
    total[0] += value
    if total[0] < value:
        total[1] += ONE


@compiled
def _count_near(near: NDArray[np.uint8], ids: NDArray[np.int32], begin: int, end: int) -> int:
    """Return the sum of the marks of ids; four at a time, without the test for negative places."""
    first, second = 0, 0
    at, stop = np.uint64(begin), np.uint64(end)
    while at + _THREE < stop:
        first += near[np.uint32(ids[at])] + near[np.uint32(ids[at + ONE])]
        second += near[np.uint32(ids[at + _TWO])] + near[np.uint32(ids[at + _THREE])]
        at += _FOUR
    while at < stop:
        first += near[np.uint32(ids[at])]
        at += ONE
    return first + second


@compiled
def _count_triangles(later: Later, search: CliqueStack, root: int) -> None:
    """Count the edges among the later neighbours of a root, without a matrix."""
    begin, end = later.indptr[root], later.indptr[root + 1]
    for at in range(begin, end):
        search.near[later.ids[at]] = 1
    count, work = 0, 0
    for at in range(begin, end - 1):
        name = later.ids[at]
        count += _count_near(search.near, later.ids, later.indptr[name], later.indptr[name + 1])
        work += later.indptr[name + 1] - later.indptr[name]
    for at in range(begin, end):
        search.near[later.ids[at]] = 0
    _add_wide(search.total, np.uint64(count))
    search.total[2] += np.uint64(work)


@inlined
def take_candidate(search: CliqueStack, at: int, w: int, chosen: int) -> int:
    """Take a chosen candidate of a level. Lay out the next level and return its number of candidates."""
    search.rest[at + (chosen >> 6)] &= ~(ONE << np.uint64(chosen & 63))
    size = 0
    for word in range(w):
        common = search.sets[at + word] & search.rows[chosen * w + word]
        search.sets[at + w + word] = common
        search.rest[at + w + word] = common
        size += popcount(common)
    return size


@compiled
def count_oriented(later: Later, search: CliqueStack, roots: Ints, begin: int, end: int, k: int) -> None:
    """Count the cliques of k vertices, at least 3, with their first vertex among the roots of a chunk."""
    for place in range(begin, end):
        root = roots[place]
        if later.indptr[root + 1] - later.indptr[root] + 1 < k:
            continue
        if k == 3:
            _count_triangles(later, search, root)
            continue
        d = open_root(later, search, root, True)
        w = words_of(d)
        fill_span(search.sets, d)
        fill_span(search.rest, d)
        # Find `left` more vertices among the candidates of a level; the last two at once.
        level, work = 0, 0
        while level >= 0:
            at, left = level * w, k - 1 - level
            if left == 2:
                count = 0
                for word in range(w):
                    bits = search.rest[at + word]
                    while bits:
                        u = word * 64 + lowest_bit(bits)
                        bits &= bits - ONE
                        for x in range(word, w):
                            count += popcount(search.sets[at + x] & search.rows[u * w + x])
                        work += w - word
                _add_wide(search.total, np.uint64(count))
                level -= 1
                continue
            chosen = first_bit(search.rest, at, w)
            if chosen < 0:
                level -= 1
                continue
            size = take_candidate(search, at, w, chosen)
            work += w
            if size >= left - 1:
                level += 1
        search.total[2] += np.uint64(work)


PLACE, LEVEL = 0, 1
"""Entries of a cursor: the place of the current root, and the level of its search, -1 before it begins."""


class RowBuffer(NamedTuple):
    """The rows of one thread; ``positions`` is empty if cliques are only counted.

    ``positions`` (n) is the position of each rank in the ids of the listing. ``held`` has the positions, and
    ``held_hash`` (1) the sum of the hashes, of the vertices added to every clique. ``longest`` (1) is the maximum
    number of vertices of a row. ``path`` is the current clique, as ranks; ``cursor`` (2) is where the search resumes.
    """

    positions: NDArray[np.int32]
    held: NDArray[np.int32]
    held_hash: Sums
    longest: Ints
    path: NDArray[np.int32]
    cursor: Ints
    block: RowBlock


def make_rows(
    longest: int,
    positions: NDArray[np.int32] | None = None,
    held: NDArray[np.int32] | None = None,
    held_hash: int = 0,
    limit: int | None = 1,
) -> RowBuffer:
    """Return the rows of one thread, of at most ``longest`` searched vertices; by default for a count."""
    nothing = np.zeros(0, np.int32)
    positions, held = nothing if positions is None else positions, nothing if held is None else held
    longest += held.size
    return RowBuffer(
        positions=positions,
        held=held,
        held_hash=np.array([held_hash], np.uint64),
        longest=np.array([longest], np.int64),
        path=np.zeros(longest + 1, np.int32),
        cursor=np.array([0, -1], np.int64),
        block=make_row_block(longest if positions.size else 0, limit),
    )


def begin_chunk(rows: RowBuffer, place: int) -> None:
    """Set the cursor to the root at a place."""
    rows.cursor[PLACE], rows.cursor[LEVEL] = place, -1


@inlined
def add_clique(rows: RowBuffer, size: int) -> bool:
    """Write the first ranks of the path as a row. Return whether another one surely fits."""
    block = rows.block
    at = block.offsets[block.size[0]]
    for i in range(size):
        block.values[at + i] = rows.positions[rows.path[i]]
    for i in range(rows.held.size):
        block.values[at + size + i] = rows.held[i]
    end_row(block, size + rows.held.size)
    return has_room(block, rows.longest[0])


@compiled
def _list_root(search: CliqueStack, rows: RowBuffer, d: int, k: int) -> int:
    """List the cliques of one root, from the level of the cursor on. Return the words intersected."""
    w, level, work = words_of(d), rows.cursor[LEVEL], 0
    while level >= 0:
        # Take `left` vertices from this level on.
        at, left = level * w, k - 1 - level
        chosen = first_bit(search.rest, at, w)
        if chosen < 0:
            level -= 1
            continue
        rows.path[level + 1] = search.names[chosen]
        if left == 1:
            search.rest[at + (chosen >> 6)] &= ~(ONE << np.uint64(chosen & 63))
            search.total[0] += ONE
            if not add_clique(rows, k):
                break
            continue
        size = take_candidate(search, at, w, chosen)
        work += w
        if size >= left - 1:
            level += 1
    rows.cursor[LEVEL] = level
    return work


@compiled
def list_cliques(later: Later, search: CliqueStack, rows: RowBuffer, roots: Ints, end: int, k: int) -> bool:
    """List the k-cliques with their first vertex among the roots below a place, from the cursor on.

    Returns whether the end was reached; if not, the block is full.
    """
    while rows.cursor[PLACE] < end:
        root = roots[rows.cursor[PLACE]]
        d = int(later.indptr[root + 1] - later.indptr[root])
        if rows.cursor[LEVEL] < 0:
            rows.path[0] = root
            if k == 1:
                rows.cursor[PLACE] += 1
                search.total[0] += ONE
                if not add_clique(rows, 1):
                    return False
                continue
            open_root(later, search, root, True)
            fill_span(search.sets, d)
            fill_span(search.rest, d)
            rows.cursor[LEVEL] = 0
        search.total[2] += np.uint64(_list_root(search, rows, d, k))
        if rows.cursor[LEVEL] >= 0:
            return False
        rows.cursor[PLACE] += 1
    return True
