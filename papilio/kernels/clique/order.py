"""The order of the vertices, and the graph oriented by it: every clique is found at its first vertex.

The degeneracy order peels in synchronous rounds at rising degree, and ranks by (round, id): it does not depend on
threads, and no vertex has more later neighbours than the degeneracy (Matula & Beck 1983). The degree order ranks by
(degree, id). All but the sorts of rounds and of degrees takes O(n + n_edges).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.offsets import row_sizes
from papilio.parts import CliquePart

Ids32 = NDArray[np.int32]


class Later(NamedTuple):
    """The later neighbours of every vertex, by rank: row r is ``ids[indptr[r]:indptr[r + 1]]``, rising.

    ``edges`` holds the edge id of each entry, ``vertices`` the original id of each rank.
    """

    indptr: Ints
    ids: Ids32
    edges: Ints
    vertices: Ids32


@compiled
def _adjacency(n: int, u: Ids32, v: Ids32) -> tuple[Ints, Ids32]:
    indptr = np.zeros(n + 1, np.int64)
    for at in range(u.size):
        indptr[u[at] + 1] += 1
        indptr[v[at] + 1] += 1
    for vertex in range(n):
        indptr[vertex + 1] += indptr[vertex]
    ids = np.empty(2 * u.size, np.int32)
    to = indptr[:-1].copy()
    for at in range(u.size):
        ids[to[u[at]]] = v[at]
        ids[to[v[at]]] = u[at]
        to[u[at]] += 1
        to[v[at]] += 1
    return indptr, ids


@compiled
def _peel(indptr: Ints, ids: Ids32) -> Ids32:
    """Return the vertices in the order of their rounds, those of a round by id.

    The vertices are kept by what they have left, in bins; those of a round are the ones of the least bin, and whoever
    falls to it in the course of a round stands behind them, for the next (after Batagelj and Zaversnik 2003).
    """
    n = indptr.size - 1
    left = row_sizes(indptr)
    begin = np.zeros(np.max(left) + 2 if n else 2, np.int64)
    for vertex in range(n):
        begin[left[vertex] + 1] += 1
    for bin_ in range(begin.size - 1):
        begin[bin_ + 1] += begin[bin_]
    order, place, to = np.empty(n, np.int32), np.empty(n, np.int32), begin.copy()
    for vertex in range(n):
        place[vertex] = to[left[vertex]]
        order[place[vertex]] = vertex
        to[left[vertex]] += 1
    done = 0
    while done < n:
        degree = left[order[done]]
        while done < begin[degree + 1]:
            end = begin[degree + 1]
            order[done:end].sort()
            for at in range(done, end):
                for entry in range(indptr[order[at]], indptr[order[at] + 1]):
                    other = ids[entry]
                    if left[other] > degree:
                        first = begin[left[other]]
                        moved = order[first]
                        order[first], order[place[other]] = other, moved
                        place[moved], place[other] = place[other], first
                        begin[left[other]] += 1
                        left[other] -= 1
            done = end
    return order


def order_by_degeneracy(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (round of peeling, id), shape (n,)."""
    return _peel(*_adjacency(graph.n, graph.u, graph.v))


def order_by_degree(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (degree, id), shape (n,)."""
    return np.lexsort((np.arange(graph.n), graph.degree)).astype(np.int32)


@compiled
def _orient(u: Ids32, v: Ids32, rank: Ids32) -> tuple[Ints, Ids32, Ints]:
    """Return offsets, ids and edges of :class:`Later`: the edges by later end, then by earlier one."""
    n, m = rank.size, u.size
    indptr, by_second = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for edge in range(m):
        a, b = rank[u[edge]], rank[v[edge]]
        indptr[min(a, b) + 1] += 1
        by_second[max(a, b) + 1] += 1
    for r in range(n):
        indptr[r + 1] += indptr[r]
        by_second[r + 1] += by_second[r]
    sorted_ = np.empty(m, np.int64)
    for edge in range(m):
        second = max(rank[u[edge]], rank[v[edge]])
        sorted_[by_second[second]] = edge
        by_second[second] += 1
    ids, edges, to = np.empty(m, np.int32), np.empty(m, np.int64), indptr[:-1].copy()
    for placed in sorted_:
        a, b = rank[u[placed]], rank[v[placed]]
        first = min(a, b)
        ids[to[first]], edges[to[first]] = max(a, b), placed
        to[first] += 1
    return indptr, ids, edges


def orient_part(part: CliquePart) -> Later:
    """Return the later neighbours of each vertex of a part, whose ids are in the order already; O(n)."""
    graph = part.graph
    edges = np.arange(part.edges.size, dtype=np.int64)
    return Later(graph.indptr, graph.v, edges, np.arange(graph.n, dtype=np.int32))


def orient(graph: UnipartiteGraph, vertices: NDArray[np.int32]) -> Later:
    """Return the later neighbours of each vertex in an order; O(n + n_edges)."""
    rank = np.empty(graph.n, np.int32)
    rank[vertices] = np.arange(graph.n, dtype=np.int32)
    return Later(*_orient(graph.u, graph.v, rank), vertices)
