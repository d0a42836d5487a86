"""Compiled probes of the search for maximal bicliques: one random branch each.

A probe draws a child of its root, lays out the rows around it as the search does, and descends from node to node. At a
node it checks all candidates: each one that lies inside no later candidate is the branch of a maximal biclique, and
these are all counted, each divided by the probability of its node. The probe continues below one of them, drawn by one
of two bounds of the search below it.

Nodes are branches of the search. Words are the words of candidates and excluded rows that it intersects, and of
comparisons to drop candidates inside excluded rows. On the first level they represent finding the rows around the root
and a child. Operations that take longer than a word count as several.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.core import Ids32, share_row
from papilio.kernels.jit import Index, Ints, compiled, inlined
from papilio.kernels.maximal.loops import (
    Limits,
    Stack,
    are_enough,
    drop_covered,
    is_asked,
    is_inside,
    largest_excluded,
    make_stack,
)
from papilio.kernels.maximal.roots import Roots
from papilio.kernels.probe import FIELDS, NODES, WORDS, Found, unpack_found
from papilio.kernels.search.bits import ONE, Words, popcount, words_of
from papilio.kernels.search.probe_loops import Floats, begin_probe, draw_child, weigh
from papilio.kernels.threads import ChunkRunner, cut_by_cost

PROBE_SIDE = 64
"""Maximum rows or columns, whichever are fewer, that count in the bounds of a child."""

PROBE_GROWTH = 1.7
"""Factor by which one more candidate raises the second bound of the search below a child.

It is 2 in a crown graph, complete without a matching, where every set of candidates has a branch. With this bound
beside the first, a probe deviates 2.7 times the mean from it in a crown graph of 40 (before: 172; with 1.5: 10), 4.5
times on senate (11; 5.2), 9.7 times on youtube-groupmemberships (9.5; 7.0), 3.1 times on marvel (2.6; 3.2).
"""

PROBE_ENTRY_WORDS, PROBE_ROW_WORDS, PROBE_WIDE_WORDS = 8, 16, 16
"""Words that the search for maximal bicliques intersects in the time it takes for an entry around a root or child,
for a row, and for a word of rows with several words."""


class ProbeRoom(NamedTuple):
    """The memory of a thread, for at most n rows around a root and c columns of it."""

    place: Ids32  # shape (n_left,): 1 + number of each row around the root; all 0 between probes
    common: Ids32  # shape (n,): columns that each row shares with the child
    slot: Ids32  # shape (n,): place of the row in the stack, or -1
    shared: Ids32  # shape (c,): columns that the child shares with the root
    stack: Stack  # rows of the node, candidates first
    own: Words  # words of one row
    over: Ids32  # shape (n,): the last candidate that has all columns of each candidate, or -1
    places: Ints  # shape (n,): number of each child, or -1 if nothing is below it
    bounds: tuple[Floats, Floats]  # shape (n,) each: of the search below each child, see _set_bounds
    chances: Floats  # shape (3,): of the path, see draw_child
    state: Words  # of the random numbers


@compiled
def _take_root(roots: Roots, root: int) -> int:
    """Return the number of rows taken with a root, including it; 0 if an earlier row ends it."""
    graph, n = roots.graph, 1
    degree = graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
    base = graph.hop_indptr[root]
    for at in range(base, graph.hop_indptr[root + 1]):
        if graph.hop_common[at] == degree:
            if at - base < roots.n_earlier[root]:
                return 0
            n += 1
    return n


@inlined
def _set_bounds(room: ProbeRoom, growth: Floats, child: Index, rows: Index, columns: Index) -> None:
    """Write the weights for drawing a child with so many candidates: they grow faster than these, as trees do.

    The first suits most trees, the second those in which nearly every set of candidates has a branch.
    """
    room.places[child] = child if rows * columns > 0 else -1
    side = min(rows, columns, PROBE_SIDE)
    room.bounds[0][child] = float(rows * columns * side)
    room.bounds[1][child] = growth[side]


@compiled
def _bound_kids(roots: Roots, item: int, growth: Floats, room: ProbeRoom) -> int:
    """Write the bounds of the children of an item, none for full rows. Return the number of children."""
    graph, root = roots.graph, roots.root[item]
    degree = graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
    n = roots.last[item] - roots.first[item]
    at = graph.hop_indptr[root] + roots.n_earlier[root] + roots.first[item] - roots.later_at[root]
    later = graph.hop_indptr[root + 1] - at
    for kid in range(n):
        common = graph.hop_common[at + kid]
        _set_bounds(room, growth, kid, later - kid if common < degree else 0, common)
    return int(n)


@compiled
def _meet(roots: Roots, root: int, n_columns: int, room: ProbeRoom) -> int:
    """Count the columns that every row around a root shares with the child. Return the equivalent in words."""
    graph = roots.graph
    base, end = graph.hop_indptr[root], graph.hop_indptr[root + 1]
    for at in range(base, end):
        room.place[graph.hop[at]] = at - base + 1
        room.common[at - base] = 0
    entries = rows = 0
    for j in range(n_columns):
        column = room.shared[j]
        for at in range(graph.rights.indptr[column], graph.rights.indptr[column + 1]):
            row = room.place[graph.rights.ids[at]]
            if row:
                rows += room.common[row - 1] == 0
                entries += 1
                room.common[row - 1] += 1
    return PROBE_ENTRY_WORDS * entries + PROBE_ROW_WORDS * rows


@compiled
def _set_bits(roots: Roots, n_columns: int, n_words: int, n_rows: int, room: ProbeRoom) -> None:
    """Write the rows that have a slot over the columns of the child."""
    rights, words = roots.graph.rights, room.stack.words
    words[: n_rows * n_words] = 0
    for j in range(n_columns):
        column = room.shared[j]
        for at in range(rights.indptr[column], rights.indptr[column + 1]):
            row = room.place[rights.ids[at]]
            if row and room.slot[row - 1] >= 0:
                words[room.slot[row - 1] * n_words + (j >> 6)] |= ONE << np.uint64(j & 63)


@compiled
def _sort_rows(
    roots: Roots, root: int, kid: int, first: int, size: int, least: int, room: ProbeRoom
) -> tuple[int, int, int]:
    """Assign slots to the candidates below a child, then to the excluded rows.

    Returns the numbers of both, and the number of rows taken with the child: -1 if an excluded row has all of its
    columns, -2 if a child of its item (from ``first`` on) has.
    """
    graph = roots.graph
    base, n_around = graph.hop_indptr[root], graph.hop_indptr[root + 1] - graph.hop_indptr[root]
    degree = graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
    n, joined, end = 0, 0, -1
    for row in range(n_around):
        room.slot[row] = -1
        if row != kid and room.common[row] >= least and graph.hop_common[base + row] < degree:
            if room.common[row] < size:
                room.slot[row] = n
                n += row > kid
            elif row > kid:
                joined += 1
            else:
                end = row
    if end >= 0:
        return 0, 0, -2 if end >= first else -1
    n_excluded = 0
    for row in range(kid):
        if room.slot[row] >= 0:
            room.slot[row] = n + n_excluded
            n_excluded += 1
    return n, n_excluded, joined


@compiled
def _find_covers(words: Words, n: int, width: int, over: Ids32) -> None:
    """Write, for each of n candidates, the last other candidate that has all of its columns, or -1."""
    for row in range(n - 1, -1, -1):
        over[row] = -1
        for other in range(n - 1, row, -1):
            if over[other] < 0 and is_inside(words, row * width, other * width, width):
                over[row] = other
                break


@compiled
def _look_at(words: Words, row: int, width: int, least: int, over: Ids32) -> tuple[int, int, int, int]:
    """Return a candidate's number of columns, and of earlier candidates: with all of them, kept below, and in total."""
    size, joined, kept, left = 0, 0, 0, 0
    for word in range(width):
        size += popcount(words[row * width + word])
    for other in range(row):
        if over[other] > row:
            continue
        left += 1
        common = 0
        for word in range(width):
            common += popcount(words[row * width + word] & words[other * width + word])
        joined += common == size
        kept += least <= common < size
    return size, joined, kept, left


@inlined
def _cut(words: Words, row: int, own: Words, size: int, least: int, width: int, to: int) -> int:
    """Write the intersection of a row and one of ``size`` columns. Return 1 if it is large enough, but smaller."""
    common = 0
    for word in range(width):
        shared = words[row * width + word] & own[word]
        words[to * width + word] = shared
        common += popcount(shared)
    return int(least <= common < size)


@compiled
def _go_down(
    room: ProbeRoom, chosen: int, size: int, n: int, excluded: int, n_excluded: int, width: int, least: int
) -> tuple[int, int]:
    """Cut the rows of a node to those below a candidate of ``size`` columns, in place; return candidates and others.

    There are n candidates. Excluded rows begin at row ``excluded``, and follow the candidates afterwards.
    """
    words, own, over = room.stack.words, room.own, room.over
    for word in range(width):
        own[word] = words[chosen * width + word]
    kept = 0
    for row in range(chosen):
        if over[row] <= chosen:
            kept += _cut(words, row, own, size, least, width, kept)
    below = kept
    for row in range(chosen + 1, n):
        if over[row] < 0:
            kept += _cut(words, row, own, size, least, width, kept)
    for row in range(excluded, excluded + n_excluded):
        kept += _cut(words, row, own, size, least, width, kept)
    return below, kept - below


@compiled
def _walk(
    limits: Limits,
    room: ProbeRoom,
    n: int,
    n_excluded: int,
    taken: int,
    size: int,
    growth: Floats,
    found: Floats,
) -> None:
    """Descend from the node of a child with n candidates, followed by excluded rows."""
    words, width = room.stack.words, words_of(size)
    shrunk, least = width, limits.min_columns
    excluded = n
    while True:
        weight = weigh(room.chances)
        row_words = 1 if shrunk == 1 else PROBE_WIDE_WORDS * shrunk
        covers = n * n_excluded * row_words
        found[WORDS] += weight * covers
        n = drop_covered(room.stack, 0, n, excluded + n_excluded, width)
        if not are_enough(limits, taken, n):
            return
        _find_covers(words, n, width, room.over)
        nodes, shared, motifs, members = 0, 0, 0, 0
        for row in range(n - 1, -1, -1):
            room.places[row] = -1
            if room.over[row] >= 0:
                continue
            columns, joined, kept, left = _look_at(words, row, width, least, room.over)
            rows = taken + 1 + joined
            if is_asked(limits, rows, columns):
                motifs += 1
                members += rows + columns
            shared += (n_excluded + nodes + 1 + left) * row_words
            nodes += 1
            if are_enough(limits, rows, kept):
                _set_bounds(room, growth, row, kept, columns)
        found[0] += weight * motifs
        found[1] += weight * members
        found[NODES] += weight * nodes
        found[WORDS] += weight * shared
        chosen = draw_child(room.state, room.places, n, room.bounds, room.chances)
        if chosen < 0:
            return
        size, joined, _, _ = _look_at(words, chosen, width, least, room.over)
        n, n_excluded = _go_down(room, chosen, size, n, excluded, n_excluded, width, least)
        excluded, taken = n, taken + 1 + joined
        if 2 * words_of(size) <= shrunk:
            shrunk = words_of(size)


@compiled
def _probe_child(
    roots: Roots,
    limits: Limits,
    room: ProbeRoom,
    item: int,
    kid: int,
    n_taken: int,
    growth: Floats,
    found: Floats,
) -> None:
    """Probe below a child of an item, numbered among the rows around the root."""
    graph, root = roots.graph, roots.root[item]
    base = graph.hop_indptr[root]
    size = share_row(graph.lefts, root, graph.hop[base + kid], room.shared)
    met = _meet(roots, root, size, room)
    first = roots.n_earlier[root] + roots.first[item] - roots.later_at[root]
    n, n_excluded, joined = _sort_rows(roots, root, kid, first, size, limits.min_columns, room)
    weight = weigh(room.chances)
    if joined > -2:
        found[NODES] += weight
        found[WORDS] += weight * met
    taken = n_taken + 1 + joined
    if joined >= 0 and is_asked(limits, taken, size):
        found[0] += weight
        found[1] += weight * (taken + size)
    width = words_of(size)
    goes_on = joined >= 0 and are_enough(limits, taken, n)
    if goes_on:
        _set_bits(roots, size, width, n + n_excluded, room)
    for at in range(base, graph.hop_indptr[root + 1]):
        room.place[graph.hop[at]] = 0
    if goes_on:
        if width == 1:
            n_excluded = largest_excluded(room.stack.words[n:], n_excluded)
        _walk(limits, room, n, n_excluded, taken, size, growth, found)


@compiled
def _probe_item(roots: Roots, limits: Limits, room: ProbeRoom, item: int, growth: Floats, found: Floats) -> None:
    graph, root = roots.graph, roots.root[item]
    if root < 0:
        return
    n_taken = _take_root(roots, root)
    if n_taken == 0 or n_taken > limits.most_rows:
        return
    degree = graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
    first = roots.first[item] - roots.later_at[root]
    if first == 0 and n_taken > 1 and is_asked(limits, n_taken, degree):
        found[0] += 1
        found[1] += n_taken + degree
    later = graph.hop_indptr[root + 1] - graph.hop_indptr[root] - roots.n_earlier[root]
    if degree <= limits.min_columns or not are_enough(limits, 1, later - first):
        return
    entries = np.int64(0)
    for at in range(graph.lefts.indptr[root], graph.lefts.indptr[root + 1]):
        column = graph.lefts.ids[at]
        entries += graph.rights.indptr[column + 1] - graph.rights.indptr[column]
    found[WORDS] += float(PROBE_ENTRY_WORDS * entries)
    kid = draw_child(room.state, room.places, _bound_kids(roots, item, growth, room), room.bounds, room.chances)
    if kid >= 0:
        _probe_child(roots, limits, room, item, roots.n_earlier[root] + first + kid, n_taken, growth, found)


@compiled
def _probe_all(
    roots: Roots,
    limits: Limits,
    items: Ints,
    seeds: Words,
    begin: int,
    end: int,
    growth: Floats,
    room: ProbeRoom,
    found: Floats,
) -> None:
    for probe in range(begin, end):
        begin_probe(room.state, seeds[probe], room.chances)
        _probe_item(roots, limits, room, items[probe], growth, found[probe])


def probe_bicliques(
    roots: Roots, limits: Limits, items: NDArray[np.int64], seeds: NDArray[np.uint64], threads: int
) -> Found:
    """Walk probes of work items."""
    graph = roots.graph
    n_around, degrees = np.diff(graph.hop_indptr), np.diff(graph.lefts.indptr)
    most, columns = int(n_around.max(initial=0)), int(degrees.max(initial=0))
    found, growth = np.zeros((items.size, FIELDS)), np.cumprod(np.full(PROBE_SIDE + 1, PROBE_GROWTH))

    def make_room() -> ProbeRoom:
        widest = int((n_around * ((degrees + 63) // 64)).max(initial=0))
        common, slot, over = np.empty((3, most), np.int32)
        return ProbeRoom(
            place=np.zeros(degrees.size, np.int32),
            common=common,
            slot=slot,
            shared=np.empty(columns, np.int32),
            stack=make_stack(widest + 4 * most),
            own=np.empty(columns // 64 + 1, np.uint64),
            over=over,
            places=np.empty(most, np.int64),
            bounds=(np.empty(most), np.empty(most)),
            chances=np.empty(3),
            state=np.empty(1, np.uint64),
        )

    def walk(room: ProbeRoom, begin: int, end: int) -> None:
        _probe_all(roots, limits, items, seeds, begin, end, growth, room, found)

    ChunkRunner(make_room, threads).run(cut_by_cost(np.full(items.size, 1 << 14), threads), walk)
    return unpack_found(found)
