"""The order of the vertices, and the graph oriented by it: every clique is found at its first vertex.

The degeneracy order peels in synchronous rounds at ascending degree, and ranks by (round, id): it does not depend on
threads, and no vertex has more later neighbours than the degeneracy (Matula & Beck 1983). The degree order ranks by
(degree, id). Everything but the sorts of rounds and of degrees takes O(n + n_edges).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.listing import sort_span
from papilio.kernels.offsets import count_ids, list_neighbours, offsets_of
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


_LONG_ROUND = 512
"""Minimum vertices of a round that NumPy sorts faster than compiled code, including the calls there and back."""


@compiled
def _peel(
    indptr: Ints, ids: Ids32, left: Ints, begin: Ints, order: Ids32, place: Ids32, done: int, sorted_: int
) -> tuple[int, int]:
    """Sort the vertices from the place ``done`` on by round, and by id within a round.

    The vertices are kept in bins by ``left``, their remaining degree; ``begin`` has the start of each bin in the order.
    A round takes the lowest bin; vertices that fall to it during the round go behind it, into the next round (after
    Batagelj and Zaversnik 2003). ``place`` is the position of each vertex.

    The caller must sort a long round: its (begin, end) is returned, with everything before it done. Call again with its
    end as ``sorted_``. Begin and end are equal when everything is done.
    """
    while done < order.size:
        degree = left[order[done]]
        while done < begin[degree + 1]:
            end = begin[degree + 1]
            if end > sorted_:
                if end - done > _LONG_ROUND:
                    return done, end
                sort_span(order, done, end)
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
    return done, done


def order_by_degeneracy(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (round of peeling, id), shape (n,)."""
    left = graph.degree.astype(np.int64)
    indptr, ids = list_neighbours(left, graph.u, graph.v)
    begin = offsets_of(np.bincount(left))
    order = np.argsort(left, kind="stable").astype(np.int32)
    place = np.empty(graph.n, np.int32)
    place[order] = np.arange(graph.n, dtype=np.int32)
    done, end = _peel(indptr, ids, left, begin, order, place, 0, 0)
    while done < end:
        order[done:end].sort()
        done, end = _peel(indptr, ids, left, begin, order, place, done, end)
    return order


def order_by_degree(graph: UnipartiteGraph) -> NDArray[np.int32]:
    """Return the vertices by (degree, id), shape (n,)."""
    return np.lexsort((np.arange(graph.n), graph.degree)).astype(np.int32)


@compiled
def _sort_edges(seconds: Ids32, to: Ints, order: Ints) -> None:
    for edge in range(seconds.size):
        order[to[seconds[edge]]] = edge
        to[seconds[edge]] += 1


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
    by_second = np.empty(firsts.size, np.int64)
    _sort_edges(seconds, offsets_of(count_ids(seconds, graph.n)), by_second)
    indptr = offsets_of(count_ids(firsts, graph.n))
    ids, edges = np.empty_like(firsts), np.empty_like(by_second)
    _fill_later(firsts, seconds, by_second, indptr[:-1].copy(), ids, edges)
    return Later(indptr, ids, edges, vertices)
