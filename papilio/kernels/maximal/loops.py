"""Compiled loops of the CPU engine of maximal bicliques: the search below a child, on bit rows over its columns.

A node holds the rows taken and the columns that they share. Its frame has the candidates, which may be taken next, and
the excluded rows: a biclique that an excluded row extends is found elsewhere or is not maximal. Both are restricted to
the columns of the node. A frame keeps these invariants, so that taking any candidate yields a maximal biclique:

* No row has all columns of the node: such a candidate is taken with the node, and such an excluded row ends it.
* No candidate lies inside an excluded row, which could extend every biclique with that candidate. A new frame filters
  such candidates.
* A candidate whose branch is done is excluded, and the candidates inside it are dropped (GMBE, SC'23, theorem 4.1:
  their neighbourhood within the node does not shrink).

Rows with fewer columns than required are dropped. Columns are renumbered when that halves the words of a row.

The search counts, ranks or lists maximal bicliques. Stars need no search (:mod:`papilio.kernels.maximal.stars`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Ids32, Rows, make_rows
from papilio.kernels.exact import mix
from papilio.kernels.jit import Bools, Ints, Sums, compiled, inlined
from papilio.kernels.listing import RowBlock, end_row, has_room
from papilio.kernels.maximal.stars import RaggedColumn, Stars, ask_centres, ask_sizes, make_stars
from papilio.kernels.offsets import offsets_of
from papilio.kernels.search.bits import ONE, Words, lowest_bit, popcount, words_of
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart

_mix = cast(Callable[[np.uint64], np.uint64], compiled(mix))
"""Mixes one value."""

CHECKSUM, WORDS, BRANCHES = range(3)
"""Places in ``LeafSink.sums``."""

EDGES, BALANCED = 1, 2
"""Ranks of maximal bicliques: by edges, or by vertices of the smaller side; 0 is no ranking."""


class Limits(NamedTuple):
    """Minimum and maximum rows and columns of the bicliques to count, and their ranking."""

    least_rows: int
    most_rows: int
    min_columns: int
    max_columns: int
    by: int


class LeafSink(NamedTuple):
    """Hold the results of one thread.

    ``histogram`` counts by size: ``cell_at[rows] + columns`` is the place of a size. ``sums`` has the checksum, the
    number of words intersected, and the number of branches searched.

    When listing, ``row_places`` and ``column_places`` are the positions of all vertices in the ids of the listing;
    otherwise they are empty. ``longest`` (2) is the maximum number of vertices on each side; ``rows`` and ``columns``
    are the output blocks.

    When ranking, only bicliques of value ``bound[0]`` or more count. ``heap`` (n + 1) has the number of its values,
    then the largest values of this thread as a heap with the smallest at the top. Its size is 0 if the bound is fixed;
    otherwise all threads share the bound, which is raised above any value that n bicliques are known to reach.
    """

    cell_at: Ints
    histogram: Sums
    sums: Sums
    row_places: Ids32
    column_places: Ids32
    longest: Ints
    rows: RowBlock
    columns: RowBlock
    bound: Ints
    heap: Ints


@compiled
def _value(by: int, rows: int, columns: int) -> int:
    return rows * columns if by == EDGES else min(rows, columns)


@compiled
def _push(heap: Ints, bound: Ints, value: int) -> None:
    """Keep a value if it is among the largest."""
    n, room = heap[0], heap.size - 1
    if n < room:
        n += 1
        at = n
        while at > 1 and heap[at // 2] > value:
            heap[at] = heap[at // 2]
            at //= 2
        heap[at], heap[0] = value, n
    elif value > heap[1]:
        at = 1
        while 2 * at <= n:
            child = 2 * at
            child += child < n and heap[child + 1] < heap[child]
            if heap[child] >= value:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = value
    if n == room:
        bound[0] = max(bound[0], heap[1] + 1)


@compiled
def _write_row(block: RowBlock, places: Ids32, ids: Ids32, n: int) -> None:
    at = block.offsets[block.size[0]]
    for i in range(n):
        block.values[at + i] = places[ids[i]]
    end_row(block, n)


@compiled
def _rank(found: LeafSink, by: int, rows: int, columns: int) -> bool:
    """Return whether a biclique of this size is listed by its value. Keep the value unless the bound is fixed."""
    value = _value(by, rows, columns)
    if value < found.bound[0]:
        return False
    if found.heap.size:
        _push(found.heap, found.bound, value)
        return False
    return True


@compiled
def _write(found: LeafSink, taken: Ids32, rows: int, shared: Ids32, columns: int) -> bool:
    """Append a row to the output; return whether there is room for another one."""
    _write_row(found.rows, found.row_places, taken, rows)
    _write_row(found.columns, found.column_places, shared, columns)
    return has_room(found.rows, found.longest[0]) and has_room(found.columns, found.longest[1])


@inlined
def is_asked(limits: Limits, rows: int, columns: int) -> bool:
    """Return whether this size is wanted; it has at least the minimum number of columns."""
    return limits.least_rows <= rows <= limits.most_rows and columns <= limits.max_columns


@inlined
def report(
    found: LeafSink, limits: Limits, taken: Ids32, rows: int, shared: Ids32, columns: int, sides: np.uint64
) -> bool:
    """Count and list a maximal biclique if it is wanted. Return whether there is room for another one.

    Its vertices are the first ``rows`` of ``taken`` and the first ``columns`` of ``shared``; ``sides`` is the sum of
    their hashes.
    """
    room = True
    if is_asked(limits, rows, columns) and (limits.by == 0 or _rank(found, limits.by, rows, columns)):
        found.histogram[found.cell_at[rows] + columns] += ONE
        found.sums[CHECKSUM] += _mix(sides)
        if found.row_places.size:
            room = _write(found, taken, rows, shared, columns)
    return room


@inlined
def are_enough(limits: Limits, taken: int, candidates: int) -> bool:
    """Return whether adding candidate rows can reach a wanted size."""
    rows = taken + candidates
    return candidates > 0 and taken < limits.most_rows and rows >= limits.least_rows


@inlined
def can_extend(found: LeafSink, limits: Limits, taken: int, candidates: int, columns: int) -> bool:
    """Return whether adding candidate rows can reach a wanted size with fewer columns."""
    enough = are_enough(limits, taken, candidates)
    return enough and (limits.by == 0 or _value(limits.by, taken + candidates, columns - 1) >= found.bound[0])


# Fields of a frame: its first word, number of candidates left, first excluded row, number of all rows, words of a row,
# place and number of its columns, number of rows taken. Candidates are the first rows and are taken last to first.
BEGIN, CANDIDATES, EXCLUDED, ROWS, WIDTH, COLUMNS, N_COLUMNS, TAKEN = range(8)


class BicliqueStack(NamedTuple):
    """Hold the working memory of one thread, sized for c (maximum columns of a root) and n (maximum rows around it).

    ``frames`` (c + 2, 8) and ``hash_at`` (c + 2): by level. ``columns`` (3 c + 128): ids of the columns, by frame.
    ``taken`` (n + 2): rows taken; ``shared`` (c + 1): columns of the last biclique found. ``row_hashes``,
    ``column_hashes``: of all vertices. ``cursor``: where to resume the search, by the constants below.
    """

    frames: Ints
    hash_at: Sums
    columns: Ids32
    taken: Ids32
    shared: Ids32
    row_hashes: Sums
    column_hashes: Sums
    cursor: Ints


ITEM, KID, LEVEL, ROOT_TAKEN, NEED = range(5)
"""Fields of a cursor: the current item; the next child, -1 before the root is opened; the current level of the search
below the last child, -1 when it is done; the number of rows taken with the root; the words that the stack must have to
resume, if it has too few."""


class Stack(NamedTuple):
    """Store the rows of all frames one after the other: row r of a frame begins at ``words[begin + r * width]``.

    ``ids[begin + r]`` is the vertex of a candidate.
    """

    words: Words
    ids: Ids32


_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Multiplier of a hash whose high bits are used: 2^64 divided by the golden ratio."""


def make_stack(n_words: int) -> Stack:
    """Return an empty stack."""
    return Stack(np.empty(n_words, np.uint64), np.empty(n_words, np.int32))


def grow_stack(stack: Stack, n_words: int) -> Stack:
    """Return a stack of ``n_words`` words with the contents of the old one."""
    larger = make_stack(n_words)
    larger.words[: stack.words.size] = stack.words
    larger.ids[: stack.ids.size] = stack.ids
    return larger


@compiled
def _read_columns(search: BicliqueStack, words: Words, at: int, width: int, columns: int) -> tuple[int, np.uint64]:
    """List the columns of a row in ``shared``. Return their number and the sum of their hashes."""
    n, hashes = 0, np.uint64(0)
    for word in range(width):
        bits = words[at + word]
        while bits:
            column = search.columns[columns + word * 64 + lowest_bit(bits)]
            search.shared[n] = column
            hashes += search.column_hashes[column]
            bits &= bits - ONE
            n += 1
    return n, hashes


@compiled
def is_inside(words: Words, a: int, b: int, width: int) -> bool:
    """Return whether row b has all columns of row a."""
    outside = np.uint64(0)
    for word in range(width):
        outside |= words[a + word] & ~words[b + word]
    return bool(outside == 0)


@compiled
def largest_excluded(words: Words, n: int) -> int:
    """Deduplicate n rows of one word and drop rows inside others; return the number left.

    Below the children of yelp2018 this saves three of four set operations; below other nodes it costs as much as it
    saves. The rows must be followed by room for a hash table: four times as many words.
    """
    size = 1
    while size < 2 * n:
        size *= 2
    rows, table = words[:n], words[n : n + size]
    table[:] = 0
    shift = np.uint64(64 - popcount(np.uint64(size - 1)))
    distinct = 0
    for row in range(n):
        word = rows[row]
        slot = np.int64(word * _SPREAD >> shift) if size > 1 else 0
        while table[slot] != 0 and table[slot] != word:
            slot = (slot + 1) & (size - 1)
        if table[slot] == 0:
            table[slot] = word
            rows[distinct] = word
            distinct += 1
    every, kept = rows[:distinct], 0
    for row in range(distinct):
        word, covers = every[row], 0
        for other in range(distinct):
            covers += (word & ~every[other]) == 0
        rows[kept] = word
        kept += covers == 1
    return kept


@compiled
def _drop_narrow(words: Words, ids: Ids32, n: int, end: int) -> int:
    """Drop rows like :func:`drop_covered`, for rows of one word. The loop over excluded rows is vectorized."""
    excluded = words[n:end]
    kept = 0
    for row in range(n):
        word, covers = words[row], 0
        for other in range(excluded.size):
            covers += (word & ~excluded[other]) == 0
        words[kept], ids[kept] = word, ids[row]
        kept += covers == 0
    return kept


@compiled
def drop_covered(stack: Stack, begin: int, n: int, end: int, width: int) -> int:
    """Drop the rows before n that lie inside one of the rows from n to ``end``; return the number left."""
    words, ids = stack
    if width == 1:
        return _drop_narrow(words[begin : begin + end], ids[begin : begin + end], n, end)
    kept = 0
    for row in range(n):
        at = begin + row * width
        covered = False
        for other in range(n, end):
            if is_inside(words, at, begin + other * width, width):
                covered = True
                break
        if not covered:
            to = begin + kept * width
            for word in range(width):
                words[to + word] = words[at + word]
            ids[begin + kept] = ids[begin + row]
            kept += 1
    return kept


@compiled
def _take_narrow(stack: Stack, frame: Ints, least: int, to: int, taken: Ids32) -> tuple[int, int, int]:
    """Take a candidate like :func:`_take_last`, for rows of one word."""
    words, ids = stack
    begin, n_taken, last = frame[BEGIN], frame[TAKEN] + 1, frame[CANDIDATES] - 1
    chosen = words[begin + last]
    kept, left = 0, 0
    for row in range(begin, begin + last):
        other, vertex = words[row], ids[row]
        shared = other & chosen
        words[to + kept], ids[to + kept] = shared, vertex
        if shared == chosen:
            taken[n_taken] = vertex
            n_taken += 1
        else:
            kept += popcount(shared) >= least
        words[begin + left], ids[begin + left] = other, vertex
        left += shared != other
    return kept, n_taken, left


@compiled
def _take_last(stack: Stack, frame: Ints, least: int, to: int, taken: Ids32) -> tuple[int, int, int]:
    """Take the last candidate of a frame: write the remaining candidates below it.

    Returns the number of these, the number of rows taken together with the candidate because they have all of its
    columns, and the number of candidates left beside it; candidates inside it are dropped.
    """
    width = frame[WIDTH]
    taken[frame[TAKEN]] = stack.ids[frame[BEGIN] + frame[CANDIDATES] - 1]
    if width == 1:
        return _take_narrow(stack, frame, least, to, taken)
    words, ids = stack
    begin, n_taken, last = frame[BEGIN], frame[TAKEN] + 1, frame[CANDIDATES] - 1
    chosen = begin + last * width
    kept, left = 0, 0
    for row in range(last):
        at, below, beside = begin + row * width, to + kept * width, begin + left * width
        vertex = ids[begin + row]
        size, covers, covered = 0, True, True
        for word in range(width):
            other = words[at + word]
            shared = other & words[chosen + word]
            words[below + word] = shared
            size += popcount(shared)
            covers &= shared == words[chosen + word]
            covered &= shared == other
            words[beside + word] = other
        ids[to + kept], ids[begin + left] = vertex, vertex
        if covers:
            taken[n_taken] = vertex
            n_taken += 1
        else:
            kept += size >= least
        left += not covered
    return kept, n_taken, left


@compiled
def _exclude(words: Words, frame: Ints, chosen: int, least: int, to: int) -> int:
    """Write the intersections of the excluded rows with a row if they are large enough. Return their number."""
    width, kept = frame[WIDTH], 0
    if width == 1:
        for row in range(frame[BEGIN] + frame[EXCLUDED], frame[BEGIN] + frame[ROWS]):
            shared = words[row] & words[chosen]
            words[to + kept] = shared
            kept += popcount(shared) >= least
        return kept
    for row in range(frame[EXCLUDED], frame[ROWS]):
        at, below, size = frame[BEGIN] + row * width, to + kept * width, 0
        for word in range(width):
            shared = words[at + word] & words[chosen + word]
            words[below + word] = shared
            size += popcount(shared)
        kept += size >= least
    return kept


@compiled
def _renumber(words: Words, frame: Ints, chosen: int, size: int, columns: Ids32) -> None:
    """Renumber the columns of a frame to the ``size`` columns of the row ``chosen``. Rows become shorter."""
    width, narrow = frame[WIDTH], words_of(size)
    fresh = frame[COLUMNS] + frame[N_COLUMNS]
    to = fresh
    for word in range(width):
        bits = words[chosen + word]
        while bits:
            columns[to] = columns[frame[COLUMNS] + word * 64 + lowest_bit(bits)]
            bits &= bits - ONE
            to += 1
    for row in range(frame[ROWS]):
        at, to = frame[BEGIN] + row * width, frame[BEGIN] + row * narrow
        before, place, made = 0, 0, np.uint64(0)
        for word in range(width):
            mask, bits = words[chosen + word], words[at + word]
            while bits:
                rest = bits & (bits - ONE)
                number = before + popcount(mask & ((bits ^ rest) - ONE))
                while number >> 6 > place:
                    words[to + place] = made
                    made = np.uint64(0)
                    place += 1
                made |= ONE << np.uint64(number & 63)
                bits = rest
            before += popcount(mask)
        while place < narrow:
            words[to + place] = made
            made = np.uint64(0)
            place += 1
    frame[WIDTH], frame[COLUMNS], frame[N_COLUMNS] = narrow, fresh, size


@compiled
def _open_frame(
    stack: Stack, search: BicliqueStack, found: LeafSink, limits: Limits, level: int, excluded: int, chosen: int,
    size: int, n: int, taken: int,
) -> bool:  # fmt: skip
    """Finish the frame below a level, after its n candidates are written. Return whether to search it.

    The excluded rows of the level begin at ``excluded``. ``chosen`` is the first word of the row taken, which has
    ``size`` columns.
    """
    frame, below = search.frames[level], search.frames[level + 1]
    width = frame[WIDTH]
    begin = frame[BEGIN] + frame[ROWS] * width
    for field in range(frame.size):
        below[field] = frame[field]
    below[EXCLUDED] = excluded
    rows = n + _exclude(stack.words, below, chosen, limits.min_columns, begin + n * width)
    left = drop_covered(stack, begin, n, rows, width)
    if not can_extend(found, limits, taken, left, size):
        return False
    below[BEGIN], below[CANDIDATES], below[EXCLUDED], below[ROWS], below[TAKEN] = begin, left, n, rows, taken
    if width > 1 and 2 * words_of(size) <= width:
        _renumber(stack.words, below, chosen, size, search.columns)
    return True


@compiled
def search_frames(stack: Stack, search: BicliqueStack, found: LeafSink, limits: Limits) -> None:
    """Find the maximal bicliques below the frame at level 0, resuming at the level of the cursor.

    The level is -1 at the end; any other level means that ``found`` or the stack is full.
    """
    level, room, words = search.cursor[LEVEL], True, stack.words
    while level >= 0 and room:
        frame = search.frames[level]
        if frame[CANDIDATES] == 0:
            level -= 1
            continue
        width, n, excluded = frame[WIDTH], frame[CANDIDATES], frame[EXCLUDED]
        to = frame[BEGIN] + frame[ROWS] * width
        if to + frame[ROWS] * width > words.size:
            search.cursor[NEED] = to + frame[ROWS] * width
            break
        kept, taken, left = _take_last(stack, frame, limits.min_columns, to, search.taken)
        chosen, last = frame[BEGIN] + (excluded - 1) * width, frame[BEGIN] + (n - 1) * width
        for word in range(width):
            words[chosen + word] = words[last + word]
        frame[CANDIDATES], frame[EXCLUDED] = left, excluded - 1
        of_rows = search.hash_at[level]
        for i in range(frame[TAKEN], taken):
            of_rows += search.row_hashes[search.taken[i]]
        columns, of_columns = _read_columns(search, words, chosen, width, frame[COLUMNS])
        found.sums[WORDS] += np.uint64((frame[ROWS] - excluded + n) * width)
        found.sums[BRANCHES] += ONE
        room = report(found, limits, search.taken, taken, search.shared, columns, of_rows + of_columns)
        if can_extend(found, limits, taken, kept, columns) and _open_frame(
            stack, search, found, limits, level, excluded, chosen, columns, kept, taken
        ):
            search.hash_at[level + 1] = of_rows
            level += 1
    search.cursor[LEVEL] = level


@compiled
def _has(rows: Rows, row: int, column: int) -> bool:
    low, high = rows.indptr[row], rows.indptr[row + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if rows.ids[middle] < column:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and rows.ids[low] == column)


@compiled
def _is_covered(rows: Rows, columns: Rows, row: int) -> bool:
    """Return whether another row has all entries of this one. Search the rows of its shortest column."""
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    shortest = rows.ids[begin]
    for at in range(begin, end):
        column = rows.ids[at]
        if columns.indptr[column + 1] - columns.indptr[column] < (
            columns.indptr[shortest + 1] - columns.indptr[shortest]
        ):
            shortest = column
    for place in range(columns.indptr[shortest], columns.indptr[shortest + 1]):
        other = columns.ids[place]
        if other == row or rows.indptr[other + 1] - rows.indptr[other] < end - begin:
            continue
        at = begin
        while at < end and _has(rows, other, rows.ids[at]):
            at += 1
        if at == end:
            return True
    return False


@compiled
def _find_uncovered(rows: Rows, columns: Rows, least: int, most: int, found: Bools) -> None:
    """Keep the rows in ``found`` that are centres of stars and have ``least`` (at least 1) to ``most`` entries."""
    for row in range(found.size):
        size = rows.indptr[row + 1] - rows.indptr[row]
        found[row] = found[row] and least <= size <= most and not _is_covered(rows, columns, row)


def _take_rows(rows: Rows, centres: Ids32) -> tuple[RaggedColumn, RaggedColumn]:
    sizes = np.diff(rows.indptr)[centres]
    offsets = offsets_of(sizes)
    at = np.arange(offsets[-1]) + np.repeat(rows.indptr[centres] - offsets[:-1], sizes)
    return (np.arange(centres.size + 1), centres), (offsets, rows.ids[at])


def find_stars(graph: BipartiteGraph, motif: MaximalBiclique, part: MaximalPart | None = None) -> Stars:
    """Return the wanted maximal bicliques with one vertex of U or of V.

    With a ``part``, ``graph`` is the graph of the part, on the host, and stars have their ids in the whole graph.

    O(n_edges) at most for each vertex of the shortest row of the other layer that contains a vertex.
    """
    rows, columns = make_rows(graph, "u"), make_rows(graph, "v")
    can_be = ask_centres(part, graph.n_u, graph.n_v, graph.u, graph.v)
    found = []
    for own, other, asked, wanted in zip((rows, columns), (columns, rows), can_be, ask_sizes(motif), strict=True):
        centres = np.empty(0, np.int32)
        if wanted is not None:
            least, most = wanted
            _find_uncovered(own, other, least, other.indptr.size if most is None else most, asked)
            centres = np.flatnonzero(asked).astype(np.int32)
        found.append(_take_rows(own, centres))
    return make_stars(found[0], found[1], part)
