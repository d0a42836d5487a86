"""The children of a root: the start of the search for maximal bicliques.

Around a root are the rows that share enough columns with it, earlier ones first; these are excluded. A child is a later
one. The columns it shares with all others are found as for (p,q)-bicliques (:mod:`papilio.kernels.biclique.local`).

A later row that has all columns of the root is *full*. It is taken with the root, and with every child; it is no child
and never excluded. An earlier row that has all columns of the root ends the root.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.biclique.core import Ids32, Pairs, list_earlier
from papilio.kernels.biclique.index import BicliqueIndex, lay_graph
from papilio.kernels.biclique.local import (
    LeftGraph,
    RootGraph,
    make_around,
    meet_densely,
    open_root,
    set_bits,
)
from papilio.kernels.jit import Bools, Ints, compiled
from papilio.kernels.maximal.loops import (
    BEGIN,
    BRANCHES,
    CANDIDATES,
    COLUMNS,
    EXCLUDED,
    ITEM,
    KID,
    LEVEL,
    N_COLUMNS,
    NEED,
    ROOT_TAKEN,
    ROWS,
    TAKEN,
    WIDTH,
    WORDS,
    BicliqueStack,
    LeafSink,
    Limits,
    Stack,
    can_extend,
    drop_covered,
    largest_excluded,
    report,
    search_frames,
)
from papilio.kernels.search.bits import ONE, words_of


class Roots(NamedTuple):
    """A graph in the form that the search reads, and its work items.

    ``graph.hop`` lists the earlier rows of a root, ``n_earlier`` of them, then the later ones. Children are numbered in
    this order; the children of item i are ``first[i]`` to ``last[i]`` among the later rows of all roots, and
    ``later_at`` holds the start of each root's later rows.
    """

    graph: LeftGraph
    n_earlier: Ints
    later_at: Ints
    root: Ids32
    first: Ints
    last: Ints


_NO_CHILD = np.iinfo(np.int64).max
"""A number after all children."""


class Dominated(NamedTuple):
    """A thread's marks around its root, besides the lists: the rows that can extend no remaining biclique."""

    around: RootGraph
    useless: Bools
    excluded: Ids32


@compiled
def _copy_pairs(pairs: Pairs, starts: Ints, others: Ids32, common: Ids32) -> None:
    for row in range(pairs.indptr.size - 1):
        begin, to = pairs.indptr[row], starts[row]
        for at in range(begin, pairs.indptr[row + 1]):
            others[to + at - begin], common[to + at - begin] = pairs.others[at], pairs.common[at]


def _join_pairs(earlier: Pairs, later: Pairs) -> Pairs:
    """Return the rows of both, earlier ones first."""
    indptr = earlier.indptr + later.indptr
    others, common = np.empty((2, int(indptr[-1])), np.int32)
    _copy_pairs(earlier, indptr, others, common)
    _copy_pairs(later, indptr[:-1] + np.diff(earlier.indptr), others, common)
    return Pairs(indptr, others, common)


def lay_roots(index: BicliqueIndex) -> Roots:
    """Return the arrays of an index that the search reads."""
    graph = lay_graph(index)
    later = Pairs(index.hop_indptr, index.hop, index.hop_common)
    earlier = list_earlier(later, np.arange(index.n_left))
    if index.excluded is not None:
        earlier = _join_pairs(earlier, index.excluded)
    near = _join_pairs(earlier, later)
    whole = graph._replace(
        after=graph.rights.indptr[graph.lefts.ids],
        hop_indptr=near.indptr,
        hop=near.others,
        hop_common=near.common,
    )
    return Roots(whole, np.diff(earlier.indptr), index.hop_indptr, index.item_root, index.item_first, index.item_last)


def make_near(roots: Roots) -> Dominated:
    """Return the memory of a thread."""
    most = int(np.diff(roots.graph.hop_indptr).max(initial=0))
    return Dominated(make_around(roots.graph), np.zeros(most, np.bool_), np.empty(most, np.int32))


@compiled
def _seek(around: RootGraph, kid: int, n_kids: int) -> tuple[int, int]:
    """Count the columns that rows around the root share with ``kid``. Return the rows met, with it, and the work."""
    if around.dense[0]:
        return meet_densely(around, kid, 0, 1), n_kids * around.dense[0]
    n, work = 0, 0
    for at in range(around.kid_ptr[kid], around.kid_ptr[kid + 1]):
        column = around.kid_columns[at]
        begin, end = around.column_ptr[column], around.column_ptr[column + 1]
        work += end - begin
        for place in range(begin, end):
            other = around.column_kids[place]
            count = around.shared[other]
            around.met[n] = other
            n += count == 0
            around.shared[other] = count + 1
    return n, work


@compiled
def _forget(around: RootGraph, n: int) -> None:
    """Reset the counts of the first n rows met."""
    for i in range(n):
        around.shared[around.met[i]] = 0


@compiled
def _sort_met(
    near: Dominated, common: Ids32, degree: int, kid: int, n_met: int, least: int, taken: Ids32, n_taken: int
) -> tuple[int, int, int]:
    """Separate candidates from excluded rows and from rows taken with a child.

    Returns the number of candidates, which come first in ``met``, of candidates and excluded rows together, and of rows
    taken; -1 for the first if an excluded row has all columns of the child. Resets the counts of rows in neither list.
    """
    around, useless, excluded = near
    n, n_excluded, size, ended = 0, 0, common[kid], False
    for i in range(n_met):
        other = around.met[i]
        count = around.shared[other]
        if other == kid or useless[other] or count < least or common[other] == degree:
            around.shared[other] = 0
            continue
        if other > kid and count == common[other]:
            useless[other] = True
        if count == size:
            around.shared[other] = 0
            ended |= other < kid
            taken[n_taken] = other
            n_taken += 1
        elif other < kid:
            excluded[n_excluded] = other
            n_excluded += 1
        else:
            around.met[n] = other
            n += 1
    for each in range(n_excluded):
        around.met[n + each] = excluded[each]
    if ended:
        useless[kid] = True
        _forget(around, n + n_excluded)
        return -1, 0, 0
    return n, n + n_excluded, n_taken


@compiled
def _open_child(
    roots: Roots,
    near: Dominated,
    stack: Stack,
    search: BicliqueStack,
    found: LeafSink,
    limits: Limits,
    root: int,
    kid: int,
) -> bool:
    """Take a child, given the rows of its root: report it, and write the frame below it as level 0.

    Returns whether ``found`` and the stack have room; the level of the cursor is 0 if there is a frame.
    """
    graph, around, n_taken = roots.graph, near.around, search.cursor[ROOT_TAKEN]
    base, top = graph.hop_indptr[root], graph.lefts.indptr[root]
    common = graph.hop_common[base : graph.hop_indptr[root + 1]]
    size, degree = common[kid], graph.lefts.indptr[root + 1] - top
    n_met, work = _seek(around, kid, common.size)
    width = words_of(size)
    if n_met * (width + 4) > stack.words.size:
        _forget(around, n_met)
        search.cursor[KID], search.cursor[NEED] = kid, n_met * (width + 4)
        return False
    found.sums[WORDS] += np.uint64(work)
    found.sums[BRANCHES] += ONE
    search.taken[n_taken] = kid
    n, rows, taken = _sort_met(near, common, degree, kid, n_met, limits.min_columns, search.taken, n_taken + 1)
    if n < 0:
        return True
    sides = np.uint64(0)
    for i in range(size):
        column = graph.lefts.ids[top + around.kid_columns[around.kid_ptr[kid] + i]]
        search.columns[i], search.shared[i] = column, column
        sides += search.column_hashes[column]
    of_rows = np.uint64(0)
    for i in range(taken):
        if i >= n_taken:
            search.taken[i] = graph.hop[base + search.taken[i]]
        of_rows += search.row_hashes[search.taken[i]]
    room = report(found, limits, search.taken, taken, search.shared, size, of_rows + sides)
    if not can_extend(found, limits, taken, n, size):
        _forget(around, rows)
        return room
    set_bits(around, kid, rows, width, stack.words)
    for i in range(n):
        stack.ids[i] = graph.hop[base + around.met[i]]
    if width == 1:
        rows = n + largest_excluded(stack.words[n:], rows - n)
    left = drop_covered(stack, 0, n, rows, width)
    if can_extend(found, limits, taken, left, size):
        frame = search.frames[0]
        frame[BEGIN], frame[CANDIDATES], frame[EXCLUDED], frame[ROWS] = 0, left, n, rows
        frame[WIDTH], frame[COLUMNS], frame[N_COLUMNS], frame[TAKEN] = width, 0, size, taken
        search.hash_at[0] = of_rows
        search.cursor[LEVEL] = 0
    return room


@compiled
def _take_root(roots: Roots, near: Dominated, search: BicliqueStack, root: int) -> int:
    """Take a root and its full rows. Return their number, or 0 if an earlier row ends it."""
    graph = roots.graph
    begin, end = graph.hop_indptr[root], graph.hop_indptr[root + 1]
    degree = graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
    n = 1
    search.taken[0] = root
    for at in range(begin, end):
        near.useless[at - begin] = False
        if graph.hop_common[at] == degree:
            if at - begin < roots.n_earlier[root]:
                return 0
            search.taken[n] = graph.hop[at]
            n += 1
    return n


@compiled
def _open_item(
    roots: Roots, near: Dominated, search: BicliqueStack, found: LeafSink, limits: Limits, item: int
) -> bool:
    """Open the root of an item, and report it with its first item. Return whether ``found`` has room.

    The cursor is then at the first child, or after the last one if nothing can be found.
    """
    graph, cursor, root = roots.graph, search.cursor, roots.root[item]
    cursor[KID] = _NO_CHILD
    if root < 0:
        return True
    n = _take_root(roots, near, search, root)
    if n == 0 or n > limits.most_rows:
        return True
    cursor[ROOT_TAKEN] = n
    first, top = roots.first[item] - roots.later_at[root], graph.lefts.indptr[root]
    degree, room = graph.lefts.indptr[root + 1] - top, True
    if first == 0 and n > 1:
        sides = np.uint64(0)
        for i in range(degree):
            search.shared[i] = graph.lefts.ids[top + i]
            sides += search.column_hashes[search.shared[i]]
        for i in range(n):
            sides += search.row_hashes[search.taken[i]]
        room = report(found, limits, search.taken, n, search.shared, degree, sides)
    later = graph.hop_indptr[root + 1] - graph.hop_indptr[root] - roots.n_earlier[root]
    if degree > limits.min_columns and can_extend(found, limits, 1, later - first, degree):
        open_root(graph, near.around, root, graph.hop_indptr[root])
        cursor[KID] = roots.n_earlier[root] + first
    return room


@compiled
def search_items(
    roots: Roots,
    near: Dominated,
    stack: Stack,
    search: BicliqueStack,
    found: LeafSink,
    limits: Limits,
    end: int,
) -> bool:
    """Find the maximal bicliques of the work items from the cursor on, up to ``end``.

    Returns whether the end was reached; if not, ``found`` is full, or the stack, in which case the cursor has the
    needed words.
    """
    graph, cursor = roots.graph, search.cursor
    while cursor[ITEM] < end:
        item = cursor[ITEM]
        if cursor[KID] < 0 and not _open_item(roots, near, search, found, limits, item):
            return False
        root = roots.root[item]
        last = roots.last[item] - roots.later_at[root] + roots.n_earlier[root]
        while cursor[KID] < last or cursor[LEVEL] >= 0:
            if cursor[LEVEL] >= 0:
                search_frames(stack, search, found, limits)
                if cursor[LEVEL] >= 0:
                    return False
                continue
            kid = cursor[KID]
            cursor[KID] = kid + 1
            degree = graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
            ends_here = near.useless[kid] or graph.hop_common[graph.hop_indptr[root] + kid] >= degree
            if not ends_here and not _open_child(roots, near, stack, search, found, limits, root, kid):
                return False
        cursor[ITEM], cursor[KID] = item + 1, -1
    return True
