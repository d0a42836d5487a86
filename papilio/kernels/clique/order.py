"""The order of the vertices, and the graph oriented by it: every clique is found at its first vertex.

The degeneracy order ranks by (round of peeling, id): it does not depend on threads, and no vertex has more later
neighbours than the degeneracy (Matula & Beck 1983). The degree order ranks by (degree, id).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.offsets import count_ids, list_neighbours, offsets_of
from papilio.kernels.peel.core import NONE_FIXED, peel_by_degree
from papilio.parts import CliquePart

Ids32 = NDArray[np.int32]


class Later(NamedTuple):
    """The later neighbours of every vertex, by rank: row r is ``ids[indptr[r]:indptr[r + 1]]``, ascending.

    ``edges`` holds the edge id of each entry, ``vertices`` the original id of each rank.
    """

    indptr: Ints
    ids: Ids32
    edges: Ints
    vertices: Ids32


def order_by_degeneracy(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (round of peeling, id), shape (n,)."""
    degree = graph.degree
    rounds, n_rounds = peel_by_degree(*list_neighbours(degree, graph.u, graph.v), degree, NONE_FIXED, True)
    return _sort_ids(rounds, n_rounds).astype(np.int32)


def order_by_degree(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (degree, id), shape (n,)."""
    return np.lexsort((np.arange(graph.n), graph.degree)).astype(np.int32)


@compiled
def _place_ids(ids: Ids32, to: Ints, order: Ints) -> None:
    for at in range(ids.size):
        order[to[ids[at]]] = at
        to[ids[at]] += 1


def _sort_ids(ids: Ids32, n: int) -> Ints:
    """Return the order of ascending ``ids``, which are below ``n``, ties by place; O(n + number of ids)."""
    order = np.empty(ids.size, np.int64)
    _place_ids(ids, offsets_of(count_ids(ids, n)), order)
    return order


@compiled
def _fill_later(firsts: Ids32, seconds: Ids32, order: Ints, to: Ints, ids: Ids32, edges: Ints) -> None:
    for at in range(order.size):
        edge = order[at]
        place = to[firsts[edge]]
        ids[place], edges[place] = seconds[edge], edge
        to[firsts[edge]] = place + 1


def orient_part(part: CliquePart) -> Later:
    """Return the later neighbours of each vertex of a part, whose ids are already in order; O(n)."""
    graph = part.graph
    edges = np.arange(part.edges.size, dtype=np.int64)
    return Later(graph.indptr, graph.v, edges, np.arange(graph.n, dtype=np.int32))


def orient(graph: UnipartiteGraph, vertices: NDArray[np.int32]) -> Later:
    """Return the later neighbours of each vertex in an order; O(n + n_edges)."""
    rank = np.empty(graph.n, np.int32)
    rank[vertices] = np.arange(graph.n, dtype=np.int32)
    of_u, of_v = rank[graph.u], rank[graph.v]
    firsts, seconds = np.minimum(of_u, of_v), np.maximum(of_u, of_v)
    by_second = _sort_ids(seconds, graph.n)
    indptr = offsets_of(count_ids(firsts, graph.n))
    ids, edges = np.empty_like(firsts), np.empty_like(by_second)
    _fill_later(firsts, seconds, by_second, indptr[:-1].copy(), ids, edges)
    return Later(indptr, ids, edges, vertices)
