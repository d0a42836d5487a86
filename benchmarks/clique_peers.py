"""kClist and Pivoter, serial, after their papers: the peers of counts of cliques on CPUs.

kClist (Danisch, Balalau and Sozio, WWW 2018) descends an oriented graph level by level: labels mark the vertices in the
subgraph of a level, and the neighbours that are in it are moved to the front of their list. Pivoter (Jain and
Seshadhri, WSDM 2020) builds the succinct clique tree on partitioned arrays (as Eppstein, Löffler and Strash list
maximal cliques), and adds binomials to the counts of all sizes at each leaf. Both order the vertices by degeneracy
(Batagelj and Zaversnik 2003). Counts of Pivoter are floats of 64 bits, as in its program.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numba import njit
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph
from papilio.kernels.jit import Ints

__all__ = ["count_by_kclist", "count_by_pivoter"]

Floats = NDArray[np.float64]

plain = njit(nogil=True)
"""Plain Numba, compiled anew by every process: recursive functions break when loaded from its cache."""


@plain
def _list_neighbours(n: int, u: NDArray[np.int32], v: NDArray[np.int32]) -> tuple[Ints, Ints]:
    indptr = np.zeros(n + 1, np.int64)
    for at in range(u.size):
        indptr[u[at] + 1] += 1
        indptr[v[at] + 1] += 1
    for vertex in range(n):
        indptr[vertex + 1] += indptr[vertex]
    ids, to = np.empty(2 * u.size, np.int64), indptr[:-1].copy()
    for at in range(u.size):
        ids[to[u[at]]], ids[to[v[at]]] = v[at], u[at]
        to[u[at]] += 1
        to[v[at]] += 1
    return indptr, ids


@plain
def _order(indptr: Ints, ids: Ints) -> Ints:
    """Return the rank of each vertex: always one of least degree is taken off."""
    n = indptr.size - 1
    degree = np.diff(indptr)
    most = degree.max() if n else 0
    begin = np.zeros(most + 2, np.int64)
    for vertex in range(n):
        begin[degree[vertex] + 1] += 1
    for d in range(most + 1):
        begin[d + 1] += begin[d]
    place, order, to = np.empty(n, np.int64), np.empty(n, np.int64), begin.copy()
    for vertex in range(n):
        place[vertex] = to[degree[vertex]]
        order[place[vertex]] = vertex
        to[degree[vertex]] += 1
    for i in range(n):
        vertex = order[i]
        for at in range(indptr[vertex], indptr[vertex + 1]):
            other = ids[at]
            if degree[other] > degree[vertex]:
                first = begin[degree[other]]
                moved = order[first]
                if moved != other:
                    order[first], order[place[other]] = other, moved
                    place[moved], place[other] = place[other], first
                begin[degree[other]] += 1
                degree[other] -= 1
    return place


@plain
def _orient(indptr: Ints, ids: Ints, rank: Ints) -> tuple[Ints, Ints]:
    """Return the later neighbours of every vertex, by rank."""
    n = rank.size
    later = np.zeros(n + 1, np.int64)
    for vertex in range(n):
        for at in range(indptr[vertex], indptr[vertex + 1]):
            later[rank[vertex] + 1] += rank[ids[at]] > rank[vertex]
    for r in range(n):
        later[r + 1] += later[r]
    found, to = np.empty(later[n], np.int64), later[:-1].copy()
    for vertex in range(n):
        for at in range(indptr[vertex], indptr[vertex + 1]):
            if rank[ids[at]] > rank[vertex]:
                found[to[rank[vertex]]] = rank[ids[at]]
                to[rank[vertex]] += 1
    return later, found


@plain
def _descend(level: int, begin: Ints, adjacent: Ints, degree: Ints, members: Ints, size: Ints, label: Ints) -> int:
    """Count the cliques of ``level`` vertices in the subgraph of a level; ``degree`` and ``members`` are by level."""
    count = 0
    if level == 2:
        for i in range(size[2]):
            count += degree[2, members[2, i]]
        return count
    for i in range(size[level]):
        vertex, below = members[level, i], level - 1
        size[below] = 0
        for at in range(begin[vertex], begin[vertex] + degree[level, vertex]):
            other = adjacent[at]
            if label[other] == level:
                label[other] = below
                members[below, size[below]] = other
                size[below] += 1
                degree[below, other] = 0
        for j in range(size[below]):
            other = members[below, j]
            at, end = begin[other], begin[other] + degree[level, other]
            while at < end:
                if label[adjacent[at]] == below:
                    degree[below, other] += 1
                    at += 1
                else:
                    end -= 1
                    adjacent[at], adjacent[end] = adjacent[end], adjacent[at]
        count += _descend(below, begin, adjacent, degree, members, size, label)
        for j in range(size[below]):
            label[members[below, j]] = level
    return count


def count_by_kclist(graph: UnipartiteGraph, k: int) -> int:
    """Count the cliques of k vertices, at least 3, with 64 bits."""
    indptr, ids = _list_neighbours(graph.n, graph.u, graph.v)
    begin, adjacent = _orient(indptr, ids, _order(indptr, ids))
    degree, members = np.zeros((k + 1, graph.n), np.int64), np.zeros((k + 1, graph.n), np.int64)
    degree[k], members[k] = np.diff(begin), np.arange(graph.n)
    size, label = np.zeros(k + 1, np.int64), np.full(graph.n, k, np.int64)
    size[k] = graph.n
    return int(_descend(k, begin, adjacent, degree, members, size, label))


@plain
def _count_in(sets: Ints, place: Ints, near: Ints, n_near: Ints, vertex: int, begin: int, end: int) -> int:
    """Return how many of its neighbours are in [begin, end); they are in front of its list."""
    most = min(end - begin, n_near[vertex])
    count = 0
    while count < most and begin <= place[near[vertex, count]] < end:
        count += 1
    return count


@plain
def _grow(
    sets: Ints,
    place: Ints,
    near: Ints,
    n_near: Ints,
    begin: int,
    end: int,
    held: int,
    pivots: int,
    choose: Floats,
    counts: Floats,
    most: int,
) -> None:
    """Go through the tree below: candidates are ``sets[begin:end]``."""
    if begin == end or held > most:
        for i in range(pivots + 1):
            if held + i <= most:
                counts[held + i] += choose[pivots, i]
        return
    pivot, shared = -1, -1
    for at in range(begin, end):
        count = _count_in(sets, place, near, n_near, sets[at], begin, end)
        if count > shared:
            pivot, shared = sets[at], count
            if count == end - begin - 1:
                break
    branches = np.empty(end - begin - shared, np.int64)
    is_near = np.zeros(end - begin, np.bool_)
    for i in range(shared):
        is_near[place[near[pivot, i]] - begin] = True
    branches[0], n_branches = pivot, 1
    for at in range(begin, end):
        if not is_near[at - begin] and sets[at] != pivot:
            branches[n_branches] = sets[at]
            n_branches += 1
    for i in range(n_branches):
        vertex = branches[i]
        # The vertex goes behind the candidates, and its neighbours before the others of them. Neighbours of a candidate
        # that are candidates are in front of its list, so that no list is passed over beyond their number.
        max_near = end - begin
        end -= 1
        last, at = sets[end], place[vertex]
        sets[at], sets[end], place[last], place[vertex] = last, vertex, at, end
        inner = begin
        for j in range(min(max_near, n_near[vertex])):
            other = near[vertex, j]
            if begin <= place[other] < end:
                moved, at = sets[inner], place[other]
                sets[at], sets[inner], place[moved], place[other] = moved, other, at, inner
                inner += 1
        for at in range(begin, inner):
            other, front = sets[at], 0
            for j in range(min(max_near, n_near[other])):
                third = near[other, j]
                if begin <= place[third] < inner:
                    near[other, j] = near[other, front]
                    near[other, front] = third
                    front += 1
        is_pivot = 1 if vertex == pivot else 0
        _grow(
            sets,
            place,
            near,
            n_near,
            begin,
            inner,
            held + 1 - is_pivot,
            pivots + is_pivot,
            choose,
            counts,
            most,
        )
        # The lists of the candidates that are left get their own in front again.
        for at in range(begin, end):
            other, front = sets[at], 0
            for j in range(min(max_near, n_near[other])):
                third = near[other, j]
                if begin <= place[third] < end:
                    near[other, j] = near[other, front]
                    near[other, front] = third
                    front += 1


@plain
def _count_pivoter(later: Ints, ids: Ints, choose: Floats, counts: Floats, most: int, d: int) -> None:
    n = later.size - 1
    local = np.full(n, -1, np.int64)
    sets, place, n_near, near = (
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty((d, d), np.int64),
    )
    for root in range(n):
        size = later[root + 1] - later[root]
        for i in range(size):
            local[ids[later[root] + i]] = i
            sets[i], place[i], n_near[i] = i, i, 0
        for i in range(size):
            name = ids[later[root] + i]
            for at in range(later[name], later[name + 1]):
                j = local[ids[at]]
                if j >= 0:
                    near[i, n_near[i]], near[j, n_near[j]] = j, i
                    n_near[i] += 1
                    n_near[j] += 1
        for i in range(size):
            local[ids[later[root] + i]] = -1
        _grow(sets, place, near, n_near, 0, size, 1, 0, choose, counts, most)


def count_by_pivoter(graph: UnipartiteGraph, most: int | None = None) -> Floats:
    """Count the cliques of every size up to ``most``, by size; rounded beyond 2^53."""
    indptr, ids = _list_neighbours(graph.n, graph.u, graph.v)
    later, found = _orient(indptr, ids, _order(indptr, ids))
    d = int(np.diff(later).max(initial=0))
    choose = np.array([[float(comb(i, j)) for j in range(d + 2)] for i in range(d + 2)])
    counts = np.zeros(d + 3)
    _count_pivoter(later, found, choose, counts, d + 1 if most is None else most, max(d, 1))
    return counts
