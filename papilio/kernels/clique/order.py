"""The order of the vertices, and the graph oriented by it: every clique is found at its first vertex.

The degeneracy order peels in synchronous rounds at rising degree, and ranks by (round, id): it does not depend on
threads, and no vertex has more later neighbours than the degeneracy (Matula & Beck 1983). The degree order ranks by
(degree, id). Both are computed in O(n + n_edges) but for one sort.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph
from papilio.kernels.jit import Ints, compiled

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
    """Return the vertices in the order of their rounds, those of a round by id."""
    n = indptr.size - 1
    left = np.diff(indptr)
    gone = np.zeros(n, np.bool_)
    order = np.empty(n, np.int32)
    # Lists of vertices by what they had left: of the entries of a vertex the last one counts.
    head = np.full(np.max(left) + 2 if n else 1, -1, np.int64)
    following = np.empty(n + ids.size, np.int64)
    owner = np.empty(n + ids.size, np.int32)
    n_entries = 0
    for vertex in range(n):
        owner[n_entries] = vertex
        following[n_entries] = head[left[vertex]]
        head[left[vertex]] = n_entries
        n_entries += 1
    done, degree = 0, 0
    while done < n:
        begin = done
        for lower in range(degree + 1):
            entry = head[lower]
            head[lower] = -1
            while entry >= 0:
                vertex = owner[entry]
                if not gone[vertex] and left[vertex] <= degree:
                    gone[vertex] = True
                    order[done] = vertex
                    done += 1
                entry = following[entry]
        if done == begin:
            degree += 1
            continue
        order[begin:done].sort()
        for place in range(begin, done):
            for at in range(indptr[order[place]], indptr[order[place] + 1]):
                other = ids[at]
                if not gone[other]:
                    left[other] -= 1
                    owner[n_entries] = other
                    following[n_entries] = head[left[other]]
                    head[left[other]] = n_entries
                    n_entries += 1
    return order


def order_by_degeneracy(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (round of peeling, id), shape (n,)."""
    return _peel(*_adjacency(graph.n, graph.u, graph.v))


def order_by_degree(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (degree, id), shape (n,)."""
    return np.lexsort((np.arange(graph.n), graph.degree)).astype(np.int32)


def orient(graph: UnipartiteGraph, vertices: NDArray[np.int32]) -> Later:
    """Return the later neighbours of each vertex in an order; one sort of the edges."""
    rank = np.empty(graph.n, np.int64)
    rank[vertices] = np.arange(graph.n)
    a, b = rank[graph.u], rank[graph.v]
    first, second = np.minimum(a, b), np.maximum(a, b)
    edges = np.lexsort((second, first))
    indptr = np.zeros(graph.n + 1, np.int64)
    np.cumsum(np.bincount(first, minlength=graph.n), out=indptr[1:])
    return Later(indptr, second[edges].astype(np.int32), edges.astype(np.int64), vertices)
