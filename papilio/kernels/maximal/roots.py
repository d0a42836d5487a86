"""The children of a root: where the search for maximal bicliques begins.

Around a root are the rows that share enough columns with it, the earlier ones first: these are excluded. A child is a
later one. What it shares with all others is found as for (p,q)-bicliques (:mod:`papilio.kernels.biclique.local`).

A later row that has all columns of the root is *full*. It is taken with the root, and with every child; it is no child
and never excluded. An earlier row that has all of them ends the root.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.biclique.core import Ids32
from papilio.kernels.biclique.index import BicliqueIndex, lay_graph
from papilio.kernels.biclique.local import Around, LeftGraph, make_around, open_root, set_bits
from papilio.kernels.biclique.pairs import Pairs, list_earlier
from papilio.kernels.jit import Bools, Ints, compiled
from papilio.kernels.maximal.loops import (
    BEGIN,
    CANDIDATES,
    COLUMNS,
    EXCLUDED,
    N_COLUMNS,
    ROWS,
    TAKEN,
    WIDTH,
    Found,
    Limits,
    Search,
    Stack,
    count_found,
    drop_covered,
    make_room,
    search_frames,
)
from papilio.kernels.tree.bits import popcount, words_of


class Roots(NamedTuple):
    """A graph as the search reads it, and its work items.

    ``graph.hop`` lists the earlier rows of a root, ``n_earlier`` of them, then the later ones. Children are numbered
    so; those of item i are ``first[i]`` to ``last[i]`` among the later ones of all roots, where ``later_at`` says where
    a root's begin.
    """

    graph: LeftGraph
    n_earlier: Ints
    later_at: Ints
    root: Ids32
    first: Ints
    last: Ints


class Near(NamedTuple):
    """What one thread knows around its root, beside the lists: which of the rows can extend nothing that is left."""

    around: Around
    useless: Bools
    excluded: Ids32


@compiled
def _join_pairs(earlier: Pairs, later: Pairs) -> Pairs:
    """Return rows of both: the earlier ones first."""
    n = earlier.indptr.size - 1
    indptr = earlier.indptr + later.indptr
    others, common = np.empty(indptr[n], np.int32), np.empty(indptr[n], np.int32)
    for row in range(n):
        to = indptr[row]
        for pairs in (earlier, later):
            begin, end = pairs.indptr[row], pairs.indptr[row + 1]
            others[to : to + end - begin] = pairs.others[begin:end]
            common[to : to + end - begin] = pairs.common[begin:end]
            to += end - begin
    return Pairs(indptr, others, common)


def lay_roots(index: BicliqueIndex) -> Roots:
    """Return the arrays of an index that the search reads."""
    graph = lay_graph(index)
    later = Pairs(index.hop_indptr, index.hop, index.hop_common)
    earlier = list_earlier(later, np.arange(index.n_left))
    near = _join_pairs(earlier, later)
    whole = graph._replace(
        after=graph.rights.indptr[graph.lefts.ids],
        hop_indptr=near.indptr,
        hop=near.others,
        hop_common=near.common,
    )
    return Roots(
        whole, np.diff(earlier.indptr), index.hop_indptr, index.item_root, index.item_first, index.item_last
    )


def make_near(roots: Roots) -> Near:
    """Return the memory of a thread."""
    most = int(np.diff(roots.graph.hop_indptr).max(initial=0))
    return Near(make_around(roots.graph), np.zeros(most, np.bool_), np.empty(most, np.int32))


@compiled
def _seek(around: Around, kid: int, n_kids: int) -> tuple[int, int]:
    """Count what all rows around the root share with one; return how many are met, itself too, and the work."""
    n, width = 0, around.dense[0]
    if width:
        row = kid * width
        for other in range(n_kids):
            size = 0
            for word in range(width):
                size += popcount(around.bits[row + word] & around.bits[other * width + word])
            around.met[n] = other
            around.shared[other] = size
            n += size > 0
        return n, n_kids * width
    work = 0
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
def _forget(around: Around, n: int) -> None:
    """Count what the first of those met share as 0 again."""
    for i in range(n):
        around.shared[around.met[i]] = 0


@compiled
def _sort_met(
    near: Near, common: Ids32, degree: int, kid: int, n_met: int, least: int, taken: Ids32, n_taken: int
) -> tuple[int, int, int]:
    """Tell candidates from excluded rows and from those that are taken with a child.

    Returns the candidates, which ``met`` begins with, the candidates and excluded rows together, and the rows taken; -1
    for the first of these where an excluded row has all columns of the child. What is in neither list counts 0 again.
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
    around.met[n : n + n_excluded] = excluded[:n_excluded]
    if ended:
        useless[kid] = True
        _forget(around, n + n_excluded)
        return -1, 0, 0
    return n, n + n_excluded, n_taken


@compiled
def _search_child(
    roots: Roots, near: Near, stack: Stack, search: Search, found: Found, limits: Limits, root: int, kid: int,
    n_taken: int, of_rows: np.uint64,
) -> Stack:  # fmt: skip
    """Find what takes a child: the ``n_taken`` rows of its root, with the sum ``of_rows`` of hashes, are taken."""
    graph, around = roots.graph, near.around
    base, top = graph.hop_indptr[root], graph.lefts.indptr[root]
    common = graph.hop_common[base : graph.hop_indptr[root + 1]]
    n_met, work = _seek(around, kid, common.size)
    found.sums[1] += np.uint64(work)
    search.taken[n_taken] = kid
    degree = graph.lefts.indptr[root + 1] - top
    n, rows, taken = _sort_met(
        near, common, degree, kid, n_met, limits.least_columns, search.taken, n_taken + 1
    )
    found.sums[2] += np.uint64(1)
    if n < 0:
        return stack
    of_columns = np.uint64(0)
    for i in range(common[kid]):
        search.columns[i] = graph.lefts.ids[top + around.kid_columns[around.kid_ptr[kid] + i]]
        of_columns += search.column_hashes[search.columns[i]]
    for i in range(n_taken, taken):
        search.taken[i] = graph.hop[base + search.taken[i]]
        of_rows += search.row_hashes[search.taken[i]]
    count_found(found, limits, taken, common[kid], of_rows + of_columns)
    if n == 0 or taken >= limits.most_rows or taken + n < limits.least_rows:
        _forget(around, rows)
        return stack
    width = words_of(common[kid])
    stack = make_room(stack, rows * width)
    set_bits(around, kid, rows, width, stack.words)
    for i in range(n):
        stack.ids[i] = graph.hop[base + around.met[i]]
    left = drop_covered(stack, 0, n, rows, width)
    if left == 0 or taken + left < limits.least_rows:
        return stack
    frame = search.frames[0]
    frame[BEGIN], frame[CANDIDATES], frame[EXCLUDED], frame[ROWS] = 0, left, n, rows
    frame[WIDTH], frame[COLUMNS], frame[N_COLUMNS], frame[TAKEN] = width, 0, common[kid], taken
    search.hash_at[0] = of_rows
    return search_frames(stack, search, found, limits)


@compiled
def _take_root(roots: Roots, near: Near, search: Search, root: int) -> tuple[int, np.uint64]:
    """Take a root and its full rows; return how many and the sum of their hashes, or 0 where an earlier row ends it."""
    graph = roots.graph
    begin, end = graph.hop_indptr[root], graph.hop_indptr[root + 1]
    degree = graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
    n_taken, of_rows = 1, search.row_hashes[root]
    search.taken[0] = root
    for at in range(begin, end):
        near.useless[at - begin] = False
        if graph.hop_common[at] == degree:
            if at - begin < roots.n_earlier[root]:
                return 0, of_rows
            search.taken[n_taken] = graph.hop[at]
            of_rows += search.row_hashes[graph.hop[at]]
            n_taken += 1
    return n_taken, of_rows


@compiled
def search_items(
    roots: Roots, near: Near, stack: Stack, search: Search, found: Found, limits: Limits, begin: int, end: int
) -> Stack:
    """Find the maximal bicliques of the work items ``[begin, end)``; return the stack, which may have grown."""
    graph = roots.graph
    for item in range(begin, end):
        root = roots.root[item]
        if root < 0:
            continue
        n_taken, of_rows = _take_root(roots, near, search, root)
        if n_taken == 0 or n_taken > limits.most_rows:
            continue
        top, degree = graph.lefts.indptr[root], graph.lefts.indptr[root + 1] - graph.lefts.indptr[root]
        first, last = roots.first[item] - roots.later_at[root], roots.last[item] - roots.later_at[root]
        if first == 0 and n_taken > 1:
            sides = of_rows
            for at in range(top, top + degree):
                sides += search.column_hashes[graph.lefts.ids[at]]
            count_found(found, limits, n_taken, degree, sides)
        if degree == limits.least_columns:
            continue
        open_root(graph, near.around, root, graph.hop_indptr[root])
        common_at, n_earlier = graph.hop_indptr[root], roots.n_earlier[root]
        for kid in range(n_earlier + first, n_earlier + last):
            if graph.hop_common[common_at + kid] < degree and not near.useless[kid]:
                stack = _search_child(roots, near, stack, search, found, limits, root, kid, n_taken, of_rows)
    return stack
