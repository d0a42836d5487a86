"""Groups of roots whose closures overlap, grown greedily under a limit: BCPar, Algorithm 3 of the GBC paper.

Input: rows of roots, the row of a root listing its *columns*: what must be at hand to work on it, each with a cost.
A group costs what its roots cost and, once each, the columns of its rows. Every root goes into exactly one group.

A group starts with the root whose columns cost most on average. Then the root that shares most with the group joins
it, again and again, from a max-heap of all roots that share anything. A column that comes into a group adds its cost
once to the score of every root that holds it, so the score of a root is exactly what it saves, and what it would add
is known without a look at its row. The work is one visit of each holder of each column of each group:
replication x entries, at most. Roots that have a group already leave the lists of holders as these are walked.

Costs may shrink: with ``entry_cost`` above 0, a column costs ``entry_cost`` less for each of its roots that earlier
groups have, as where a group holds nothing of roots before it. Within a group costs stand still.

Everything is decided by integers, ties by root, and nothing takes the interpreter lock: many chunks of roots may be
grown at a time, with results that depend on the chunk alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.cpu.jit import Ints, Place, compiled

__all__ = ["NO_GROUP", "add_closures", "fill_groups", "grow", "sum_closures", "transpose_rows"]

NO_GROUP = -1
"""Group of a root that has none yet."""

MISSES = 256
"""Candidates in a row that do not fit, after which a group is closed: one large root does not end a group that still
has room for hundreds of small ones, and a full group is not offered every root of the graph."""

_ABSENT = -1

Numbers = NDArray[np.int32]


class Rows(NamedTuple):
    """Rows of roots and, transposed, the holders of each column; ``held`` of each list are still without a group."""

    indptr: Ints
    columns: Numbers
    starts: Ints
    holders: Numbers
    held: Ints


class Heap(NamedTuple):
    """Roots by falling score, ties by number: a binary heap with the place of each root (or ``_ABSENT``)."""

    nodes: Numbers
    place: Numbers
    score: Ints
    size: Ints


class Group(NamedTuple):
    """The group that grows. ``state``: its number, its cost, how many roots it has, how many roots it has touched."""

    state: Ints
    members: Numbers
    touched: Numbers
    seen: NDArray[np.bool_]
    stamp: Numbers


@compiled
def transpose_rows(indptr: Ints, columns: Numbers, n_columns: Place) -> tuple[Ints, Numbers]:
    """Return the offsets, int64 (n_columns + 1,), and the holders, int32 (n_entries,), of each column; ascending."""
    starts = np.zeros(n_columns + 1, np.int64)
    for i in range(columns.size):
        starts[columns[i] + 1] += 1
    for column in range(n_columns):
        starts[column + 1] += starts[column]
    at = starts[:-1].copy()
    holders = np.empty(columns.size, np.int32)
    for root in range(indptr.size - 1):
        for i in range(indptr[root], indptr[root + 1]):
            holders[at[columns[i]]] = root
            at[columns[i]] += 1
    return starts, holders


@compiled
def sum_closures(indptr: Ints, columns: Numbers, column_cost: Ints) -> Ints:
    """Return what the columns of each root cost together, int64, shape (n_roots,)."""
    closure = np.zeros(indptr.size - 1, np.int64)
    for root in range(closure.size):
        for i in range(indptr[root], indptr[root + 1]):
            closure[root] += column_cost[columns[i]]
    return closure


@compiled
def _precedes(heap: Heap, first: Place, second: Place) -> bool:
    gain = heap.score[first] - heap.score[second]
    return gain > 0 or (gain == 0 and first < second)


@compiled
def _rise(heap: Heap, at: Place) -> None:
    node = heap.nodes[at]
    while at > 0:
        parent = (at - 1) >> 1
        above = heap.nodes[parent]
        if not _precedes(heap, node, above):
            break
        heap.nodes[at] = above
        heap.place[above] = at
        at = parent
    heap.nodes[at] = node
    heap.place[node] = at


@compiled
def _pop(heap: Heap) -> Place:
    """Take the first root off the heap, which must not be empty."""
    top = heap.nodes[0]
    heap.place[top] = _ABSENT
    heap.size[0] -= 1
    size = heap.size[0]
    if size == 0:
        return top
    node = heap.nodes[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _precedes(heap, heap.nodes[child + 1], heap.nodes[child]):
            child += 1
        below = heap.nodes[child]
        if not _precedes(heap, below, node):
            break
        heap.nodes[at] = below
        heap.place[below] = at
        at = child
    heap.nodes[at] = node
    heap.place[node] = at
    return top


@compiled
def _raise_scores(rows: Rows, heap: Heap, group: Group, groups: Numbers, column: Place, cost: Place) -> None:
    """Add ``cost`` to the score of each holder of a column that is new in the group; drop those that have a group."""
    first = rows.starts[column]
    kept = first
    for i in range(first, first + rows.held[column]):
        root = rows.holders[i]
        if groups[root] != NO_GROUP:
            continue
        rows.holders[kept] = root
        kept += 1
        if not group.seen[root]:
            group.seen[root] = True
            group.touched[group.state[3]] = root
            group.state[3] += 1
        heap.score[root] += cost
        at = np.int64(heap.place[root])
        if at == _ABSENT:
            at = heap.size[0]
            heap.nodes[at] = root
            heap.size[0] += 1
        _rise(heap, at)
    rows.held[column] = kept - first


@compiled
def _join(
    rows: Rows, heap: Heap, group: Group, groups: Numbers, root: Place, column_cost: Ints, root_cost: Ints
) -> None:
    """Take a root, which is not on the heap, into the group."""
    groups[root] = group.state[0]
    group.members[group.state[2]] = root
    group.state[2] += 1
    group.state[1] += root_cost[root]
    for i in range(rows.indptr[root], rows.indptr[root + 1]):
        column = rows.columns[i]
        if group.stamp[column] != group.state[0]:
            group.stamp[column] = group.state[0]
            group.state[1] += column_cost[column]
            _raise_scores(rows, heap, group, groups, column, column_cost[column])


@compiled
def _close(rows: Rows, heap: Heap, group: Group, column_cost: Ints, entry_cost: Place) -> None:
    """Forget all scores; let the columns of the members cost less; empty the group and number the next."""
    for i in range(group.state[3]):
        root = group.touched[i]
        heap.score[root] = 0
        heap.place[root] = _ABSENT
        group.seen[root] = False
    heap.size[0] = 0
    if entry_cost > 0:
        for member in range(group.state[2]):
            root = group.members[member]
            for i in range(rows.indptr[root], rows.indptr[root + 1]):
                column_cost[rows.columns[i]] -= entry_cost
    group.state[0] += 1
    group.state[1:] = 0


@compiled
def _fits(
    rows: Rows,
    heap: Heap,
    group: Group,
    root: Place,
    closure: Ints,
    column_cost: Ints,
    cost: Place,
    limit: Place,
) -> bool:
    """Whether a root of own cost ``cost`` fits; brings its closure, which may have shrunk, up to date if in doubt."""
    room = limit - group.state[1] - cost + heap.score[root]
    if closure[root] <= room:
        return True
    own = np.int64(0)
    for i in range(rows.indptr[root], rows.indptr[root + 1]):
        own += column_cost[rows.columns[i]]
    closure[root] = own
    return own <= room


@compiled
def grow(
    indptr: Ints,
    columns: Numbers,
    column_cost: Ints,
    root_cost: Ints,
    limit: Place,
    entry_cost: Place,
    closure: Ints,
    order: Ints,
) -> tuple[Numbers, Ints, Place]:
    """Group the roots; see the module.

    Parameters
    ----------
    indptr, columns : ndarray of int64, shape (n_roots + 1,), and of int32, shape (n_entries,)
        Rows without repetition.
    column_cost : ndarray of int64, shape (n_columns,)
        Overwritten where ``entry_cost`` is not 0.
    root_cost : ndarray of int64, shape (n_roots,)
    limit, entry_cost : int
    closure : ndarray of int64, shape (n_roots,)
        Cost of the columns of each root, or more; overwritten.
    order : ndarray of int64, shape (n_roots,)
        Roots in the order in which they may start a group.

    Returns
    -------
    groups : ndarray of int32, shape (n_roots,)
    costs : ndarray of int64, shape (n_groups,)
    refused : int
        -1, or a root that fits no group; ``groups`` is unfinished then.
    """
    n_roots, n_columns = root_cost.size, column_cost.size
    starts, holders = transpose_rows(indptr, columns, n_columns)
    rows = Rows(indptr, columns, starts, holders, starts[1:] - starts[:-1])
    heap = Heap(
        np.empty(n_roots, np.int32),
        np.full(n_roots, _ABSENT, np.int32),
        np.zeros(n_roots, np.int64),
        np.zeros(1, np.int64),
    )
    group = Group(
        np.zeros(4, np.int64),
        np.empty(n_roots, np.int32),
        np.empty(n_roots, np.int32),
        np.zeros(n_roots, np.bool_),
        np.full(n_columns, NO_GROUP, np.int32),
    )
    groups = np.full(n_roots, NO_GROUP, np.int32)
    costs = np.empty(n_roots, np.int64)
    first, place, misses = 0, 0, 0
    while True:
        while first < n_roots and groups[order[first]] != NO_GROUP:
            first += 1
        if first == n_roots:
            costs[group.state[0]] = group.state[1]
            return groups, costs[: group.state[0] + (n_roots > 0)].copy(), -1
        if heap.size[0] > 0:
            root = np.int64(_pop(heap))
        else:
            place = max(place, first)
            while place < n_roots and groups[order[place]] != NO_GROUP:
                place += 1
            root = order[place] if place < n_roots else np.int64(-1)
            place += 1
        if root >= 0 and _fits(rows, heap, group, root, closure, column_cost, root_cost[root], limit):
            _join(rows, heap, group, groups, root, column_cost, root_cost)
            misses = 0
            continue
        misses += 1
        if group.state[2] == 0 and root >= 0:
            continue
        if group.state[2] == 0:
            return groups, costs[: group.state[0]].copy(), order[first]
        if misses >= MISSES or root < 0:
            costs[group.state[0]] = group.state[1]
            _close(rows, heap, group, column_cost, entry_cost)
            place, misses = 0, 0


@compiled
def fill_groups(
    indptr: Ints,
    columns: Numbers,
    column_cost: Ints,
    root_cost: Ints,
    limit: Place,
    entry_cost: Place,
    order: Ints,
    label: Numbers,
) -> tuple[Numbers, Ints, Place]:
    """Group the roots in a given order: a group ends before a root that does not fit, and where the label changes.

    Parameters and returns as for :func:`grow`; ``label`` is int32, shape (n_roots,), by root.
    """
    n_roots = root_cost.size
    groups = np.full(n_roots, NO_GROUP, np.int32)
    costs = np.zeros(n_roots, np.int64)
    stamp = np.full(column_cost.size, NO_GROUP, np.int32)
    group, begun = 0, 0
    for place in range(n_roots):
        root = order[place]
        row = columns[indptr[root] : indptr[root + 1]]
        added = root_cost[root]
        for column in row:
            if stamp[column] != group:
                added += column_cost[column]
        is_split = place > begun and label[root] != label[order[place - 1]]
        if place > begun and (is_split or costs[group] + added > limit):
            for member in range(begun, place):
                done = order[member]
                for i in range(indptr[done], indptr[done + 1]):
                    column_cost[columns[i]] -= entry_cost
            group, begun = group + 1, place
            added = root_cost[root]
            for column in row:
                added += column_cost[column]
        if added > limit and place == begun:
            return groups, costs[:group].copy(), root
        stamp[row] = group
        costs[group] += added
        groups[root] = group
    return groups, costs[: group + (n_roots > 0)].copy(), -1


@compiled
def add_closures(
    indptr: Ints,
    columns: Numbers,
    column_cost: Ints,
    entry_cost: Place,
    order: Ints,
    groups: Numbers,
    n_groups: Place,
) -> tuple[Ints, Ints]:
    """Return what the columns of each group cost, and how many they are; both int64, shape (n_groups,).

    ``order`` lists the roots by group; ``column_cost`` is overwritten where ``entry_cost`` is not 0.
    """
    costs = np.zeros(n_groups, np.int64)
    counts = np.zeros(n_groups, np.int64)
    stamp = np.full(column_cost.size, NO_GROUP, np.int32)
    begun = 0
    for place in range(order.size):
        group = groups[order[place]]
        for i in range(indptr[order[place]], indptr[order[place] + 1]):
            column = columns[i]
            if stamp[column] != group:
                stamp[column] = group
                costs[group] += column_cost[column]
                counts[group] += 1
        if entry_cost > 0 and (place + 1 == order.size or groups[order[place + 1]] != group):
            for done in range(begun, place + 1):
                for i in range(indptr[order[done]], indptr[order[done] + 1]):
                    column_cost[columns[i]] -= entry_cost
            begun = place + 1
    return costs, counts
