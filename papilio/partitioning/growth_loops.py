"""Groups of roots whose closures overlap, grown greedily under a limit: BCPar, Algorithm 3 of the GBC paper.

Input: rows of roots. The row of a root lists its *columns*, the data needed to work on it, each with a cost. A group
costs the sum of its roots and of the distinct columns of their rows. Every root is in exactly one group.

A group starts with the root of highest mean column cost. Then the root that shares most with the group joins it, over
and over, from a max-heap of all roots that share anything. The key is the shared cost (the paper), or the shared
fraction of the root's closure, which leads to two to four times fewer copies on skewed graphs: the paper's key prefers
large closures to closures that cost the group little.

A new column of the group is added once to the shared cost of each of its holders, so the added cost of a root is known
without reading its row. The work is one visit of each holder of each column of each group: at most replication x
entries. Roots that already have a group are removed from the lists of holders during these walks.

Costs may shrink: with an entry cost above 0, a column costs that much less for each of its roots in earlier groups, as
in parts that hold no roots of earlier parts. Costs are constant within a group.

Costs are integers; a share is one division of doubles; ties are broken by root number. No function takes the
interpreter lock: many chunks of roots may be grown at a time, with results that depend on the chunk alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, compiled
from papilio.partitioning import Ids, Ints

NO_GROUP = -1
"""Group of a root that is not yet in a group."""

MISSES = 256
"""Number of consecutive candidates that do not fit, after which a group is closed. One large root must not end a group
that still has room for hundreds of small ones, and a full group must not try every root of the graph.
"""

_SHARED, _CLOSURE, _PLACE, _GROUP = 0, 1, 2, 3
"""State of a root, stored side by side because a visit of a root is one cache miss: the cost of its columns that the
group has; an upper bound of the cost of all its columns; its place on the heap; its group.
"""

_UNTOUCHED, _TAKEN = -2, -1
"""Places of roots outside the heap: nothing shared with the group; taken off, and nothing shared since."""


class ByteCosts(NamedTuple):
    """Costs of roots and columns, and the limit of a group, in one unit such as bytes.

    ``column`` is overwritten where ``entry`` is not 0. ``closure`` is the cost of the columns of each root, or more.
    """

    column: Ints
    root: Ints
    closure: Ints
    entry: int
    limit: int
    by_share: bool


class HeldRows(NamedTuple):
    """Rows of roots and, transposed, the holders of each column.

    The first ``held`` holders of each column are still without a group.
    """

    indptr: Ints
    columns: Ids
    starts: Ints
    holders: Ids
    held: Ints


class Heap(NamedTuple):
    """Roots by decreasing key, ties by number: a binary heap of ``size[0]`` nodes with their keys."""

    nodes: Ids
    keys: NDArray[np.float64]
    size: Ints


class Group(NamedTuple):
    """The growing group; its columns carry its number as a stamp.

    ``state``: its number, its cost, its number of roots, the number of roots that share something with it or joined it.
    """

    state: Ints
    members: Ids
    touched: Ids
    stamp: Ids


def sum_closures(indptr: Ints, columns: Ids, column_cost: Ints) -> Ints:
    """Return the cost of the columns of each root, int64, shape (n_roots,)."""
    closure = np.zeros(indptr.size - 1, np.int64)
    _add_closures(indptr, columns, column_cost, closure)
    return closure


@compiled
def _add_closures(indptr: Ints, columns: Ids, column_cost: Ints, closure: Ints) -> None:
    for root in range(closure.size):
        for i in range(indptr[root], indptr[root + 1]):
            closure[root] += column_cost[columns[i]]


@compiled
def _shrink(indptr: Ints, columns: Ids, costs: ByteCosts, roots: NDArray[np.signedinteger[Any]]) -> None:
    """Lower the cost of the columns of roots in an earlier group."""
    for root in roots:
        for i in range(indptr[root], indptr[root + 1]):
            costs.column[columns[i]] -= costs.entry


@compiled
def _rise(heap: Heap, roots: Ints, at: Index, root: Index, key: float) -> None:
    """Insert a root with its key at a place of the heap, and move it up to its level."""
    while at > 0:
        parent = (at - 1) >> 1
        above = heap.nodes[parent]
        if heap.keys[parent] > key or (heap.keys[parent] == key and above < root):
            break
        heap.nodes[at] = above
        heap.keys[at] = heap.keys[parent]
        roots[above, _PLACE] = at
        at = parent
    heap.nodes[at] = root
    heap.keys[at] = key
    roots[root, _PLACE] = at


@compiled
def _pop(heap: Heap, roots: Ints) -> Index:
    """Remove the first root from the heap, which must not be empty."""
    top = heap.nodes[0]
    roots[top, _PLACE] = _TAKEN
    heap.size[0] -= 1
    size = heap.size[0]
    if size == 0:
        return int(top)
    node, key = heap.nodes[size], heap.keys[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size:
            gain = heap.keys[child + 1] - heap.keys[child]
            if gain > 0 or (gain == 0 and heap.nodes[child + 1] < heap.nodes[child]):
                child += 1
        below = heap.nodes[child]
        if heap.keys[child] < key or (heap.keys[child] == key and node < below):
            break
        heap.nodes[at] = below
        heap.keys[at] = heap.keys[child]
        roots[below, _PLACE] = at
        at = child
    heap.nodes[at] = node
    heap.keys[at] = key
    roots[node, _PLACE] = at
    return int(top)


@compiled
def _share(rows: HeldRows, costs: ByteCosts, roots: Ints, heap: Heap, group: Group, column: Index) -> None:
    """Update the holders of a column that is new in the group; drop the holders that have a group."""
    first = rows.starts[column]
    kept = first
    cost = costs.column[column]
    for i in range(first, first + rows.held[column]):
        root = rows.holders[i]
        if roots[root, _GROUP] != NO_GROUP:
            continue
        rows.holders[kept] = root
        kept += 1
        roots[root, _SHARED] += cost
        key = float(roots[root, _SHARED])
        if costs.by_share:
            key /= max(roots[root, _CLOSURE], 1)
        at = roots[root, _PLACE]
        if at < 0:
            if at == _UNTOUCHED:
                group.touched[group.state[3]] = root
                group.state[3] += 1
            at = heap.size[0]
            heap.size[0] += 1
        _rise(heap, roots, at, root, key)
    rows.held[column] = kept - first


@compiled
def _join(rows: HeldRows, costs: ByteCosts, roots: Ints, heap: Heap, group: Group, root: Index) -> None:
    """Add a root, which is not on the heap, to the group."""
    roots[root, _GROUP] = group.state[0]
    group.members[group.state[2]] = root
    group.state[2] += 1
    group.state[1] += costs.root[root]
    for i in range(rows.indptr[root], rows.indptr[root + 1]):
        column = rows.columns[i]
        if group.stamp[column] != group.state[0]:
            group.stamp[column] = group.state[0]
            group.state[1] += costs.column[column]
            _share(rows, costs, roots, heap, group, column)


@compiled
def _close(rows: HeldRows, costs: ByteCosts, roots: Ints, heap: Heap, group: Group) -> None:
    """Clear the shares; lower the costs of the members' columns; empty the group and number the next."""
    for i in range(group.state[3]):
        roots[group.touched[i], _SHARED] = 0
        roots[group.touched[i], _PLACE] = _UNTOUCHED
    heap.size[0] = 0
    if costs.entry > 0:
        _shrink(rows.indptr, rows.columns, costs, group.members[: group.state[2]])
    group.state[0] += 1
    group.state[1:] = 0


@compiled
def _fits(rows: HeldRows, costs: ByteCosts, roots: Ints, group: Group, root: Index) -> bool:
    """Return whether a root fits; updates its closure, which may have shrunk, if that decides."""
    room = costs.limit - group.state[1] - costs.root[root] + roots[root, _SHARED]
    if roots[root, _CLOSURE] > room and costs.entry > 0:
        own = np.int64(0)
        for i in range(rows.indptr[root], rows.indptr[root + 1]):
            own += costs.column[rows.columns[i]]
        roots[root, _CLOSURE] = own
    return bool(roots[root, _CLOSURE] <= room)


def grow(indptr: Ints, columns: Ids, starts: Ints, holders: Ids, costs: ByteCosts, order: Ints) -> tuple[Ids, Index]:
    """Group the roots; see the module.

    ``order`` lists the roots as possible starts of a group, int64, shape (n_roots,). ``holders`` lists the roots that
    hold each column, at the offsets ``starts``. Returns the group of each root, and -1 or a root that fits in no group;
    in the latter case the groups are unfinished.
    """
    n_roots, n_columns = costs.root.size, costs.column.size
    rows = HeldRows(indptr, columns, starts, holders, starts[1:] - starts[:-1])
    roots = np.zeros((n_roots, 4), np.int64)
    roots[:, _CLOSURE] = costs.closure
    roots[:, _PLACE] = _UNTOUCHED
    roots[:, _GROUP] = NO_GROUP
    heap = Heap(np.empty(n_roots, np.int32), np.empty(n_roots, np.float64), np.zeros(1, np.int64))
    group = Group(
        np.zeros(4, np.int64),
        np.empty(n_roots, np.int32),
        np.empty(n_roots, np.int32),
        np.full(n_columns, NO_GROUP, np.int32),
    )
    refused = _grow(rows, costs, roots, heap, group, order)
    return roots[:, _GROUP].astype(np.int32), refused


@compiled
def _grow(rows: HeldRows, costs: ByteCosts, roots: Ints, heap: Heap, group: Group, order: Ints) -> Index:
    """Group the roots; return -1 or a root that fits in no group."""
    n_roots = order.size
    first, place, misses, refused = 0, 0, 0, np.int64(-1)
    while True:
        while first < n_roots and roots[order[first], _GROUP] != NO_GROUP:
            first += 1
        if first == n_roots:
            break
        root: Index = np.int64(-1)
        if heap.size[0] > 0:
            root = np.int64(_pop(heap, roots))
        else:
            place = max(place, first)
            while place < n_roots and roots[order[place], _GROUP] != NO_GROUP:
                place += 1
            if place < n_roots:
                root = order[place]
                place += 1
        if root >= 0 and _fits(rows, costs, roots, group, root):
            _join(rows, costs, roots, heap, group, root)
            misses = 0
            continue
        misses += 1
        is_empty = group.state[2] == 0
        if is_empty and root < 0:
            refused = order[first]
            break
        if not is_empty and (root < 0 or misses >= MISSES):
            _close(rows, costs, roots, heap, group)
            place, misses = 0, 0
    return refused


def add_closures(indptr: Ints, columns: Ids, costs: ByteCosts, order: Ints, groups: Ids, n_groups: Index) -> Ints:
    """Return the cost of the columns of each group, int64, shape (n_groups,); ``order`` lists the roots by group."""
    sums = np.zeros(n_groups, np.int64)
    stamp = np.full(costs.column.size, NO_GROUP, np.int32)
    _add_by_group(indptr, columns, costs, order, groups, stamp, sums)
    return sums


@compiled
def _add_by_group(
    indptr: Ints, columns: Ids, costs: ByteCosts, order: Ints, groups: Ids, stamp: Ids, sums: Ints
) -> None:
    begun = 0
    for place in range(order.size):
        group = groups[order[place]]
        for i in range(indptr[order[place]], indptr[order[place] + 1]):
            column = columns[i]
            if stamp[column] != group:
                stamp[column] = group
                sums[group] += costs.column[column]
        if costs.entry > 0 and (place + 1 == order.size or groups[order[place + 1]] != group):
            _shrink(indptr, columns, costs, order[begun : place + 1])
            begun = place + 1


@compiled
def add_to_columns(indptr: Ints, columns: Ids, values: Ints, sums: Ints) -> None:
    """Add the value of each row of a block, int64 (n_rows,), to its columns; ``columns`` starts at ``indptr[0]``."""
    for row in range(values.size):
        for i in range(indptr[row] - indptr[0], indptr[row + 1] - indptr[0]):
            sums[columns[i]] += values[row]


@compiled
def smooth_rows(indptr: Ints, columns: Ids, column_values: Ints, values: Ints, sums: Ints) -> None:
    """Give each row of a block the mean of its columns, rounded down, and add it to their sums."""
    for row in range(values.size):
        first, last = indptr[row] - indptr[0], indptr[row + 1] - indptr[0]
        total = np.int64(0)
        for i in range(first, last):
            total += column_values[columns[i]]
        values[row] = total // max(last - first, 1)
        for i in range(first, last):
            sums[columns[i]] += values[row]


@compiled
def scatter_rows(indptr: Ints, columns: Ids, slots: Ids, at: Ints, out: Ids) -> None:
    """Copy each row of a block to ``out`` at the place of its slot and advance that place; skip rows of slot -1."""
    for row in range(slots.size):
        slot = slots[row]
        if slot < 0:
            continue
        for i in range(indptr[row] - indptr[0], indptr[row + 1] - indptr[0]):
            out[at[slot]] = columns[i]
            at[slot] += 1
