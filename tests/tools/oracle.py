"""Answers by definition, for small graphs; shares no code with the package's engines.

A butterfly is two vertices of U and two of V with all four edges; here each one is visited.
:func:`work_items` spells out the work items of the wedge engine one wedge at a time.
:func:`sparse_counts` is a second way, for larger graphs, by sparse matrix products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import scipy.sparse

Edge = tuple[int, int]
Vertex = tuple[str, int]


@dataclass
class Counts:
    """Butterflies of a set: in all, of each vertex ("u" or "v", id), of each edge (u, v)."""

    total: int = 0
    vertex: Counter[Vertex] = field(default_factory=Counter)
    edge: Counter[Edge] = field(default_factory=Counter)

    def add(self, u1: int, u2: int, v1: int, v2: int) -> None:
        """Take in one butterfly."""
        self.total += 1
        self.vertex.update([("u", u1), ("u", u2), ("v", v1), ("v", v2)])
        self.edge.update([(u1, v1), (u1, v2), (u2, v1), (u2, v2)])


@dataclass
class Item:
    """One work item: its start vertex, its counted wedges and the butterflies it answers for."""

    start: Vertex
    cost: int
    counts: Counts


def neighbour_sets(edges: Iterable[Edge]) -> dict[Vertex, set[Vertex]]:
    """Return the neighbours of every vertex that has any."""
    neighbours: dict[Vertex, set[Vertex]] = {}
    for u, v in edges:
        neighbours.setdefault(("u", u), set()).add(("v", v))
        neighbours.setdefault(("v", v), set()).add(("u", u))
    return neighbours


def count_butterflies(edges: Iterable[Edge]) -> Counts:
    """Visit every butterfly."""
    neighbours = neighbour_sets(edges)
    counts = Counts()
    layer = sorted(vertex for vertex in neighbours if vertex[0] == "u")
    for a, b in combinations(layer, 2):
        for c, d in combinations(sorted(neighbours[a] & neighbours[b]), 2):
            counts.add(a[1], b[1], c[1], d[1])
    return counts


def work_items(edges: Iterable[Edge]) -> list[Item]:
    """List the work items in their order, with what each answers for.

    One total order of the vertices: falling degree, ties by layer (U first), then by id. A wedge (a, m, w)
    counts for its end w when its other end a comes before m and before w. Items are the vertices w of degree
    at least 2 with at least one such wedge, by falling number of them, ties in the total order.
    """
    neighbours = neighbour_sets(edges)
    order = sorted(neighbours, key=lambda vertex: (-len(neighbours[vertex]), vertex))
    place = {vertex: at for at, vertex in enumerate(order)}
    items = []
    for start in order:
        wedges = list(_wedges_from(start, neighbours, place))
        if len(neighbours[start]) < 2 or not wedges:
            continue
        counts = Counts()
        for end in {end for end, _ in wedges}:
            middles = sorted(middle for other, middle in wedges if other == end)
            for one, two in combinations(middles, 2):
                ends, sides = (start[1], end[1]), (one[1], two[1])
                counts.add(*(ends + sides if start[0] == "u" else sides + ends))
        items.append(Item(start, len(wedges), counts))
    return sorted(items, key=lambda item: (-item.cost, place[item.start]))


def _wedges_from(
    start: Vertex, neighbours: dict[Vertex, set[Vertex]], place: dict[Vertex, int]
) -> Iterator[tuple[Vertex, Vertex]]:
    for middle in neighbours[start]:
        for end in neighbours[middle]:
            if place[end] < min(place[middle], place[start]):
                yield end, middle


@dataclass
class SparseCounts:
    """Butterflies of a graph: in all, per vertex of each layer, per edge in the order given."""

    total: int
    u: np.ndarray
    v: np.ndarray
    edge: np.ndarray


def sparse_counts(n_u: int, n_v: int, u: np.ndarray, v: np.ndarray) -> SparseCounts:
    """Count through A A^T: two vertices with c common neighbours span C(c, 2) butterflies.

    All intermediate sums must stay below 2^63.
    """
    ones = np.ones(u.size, np.int64)
    matrix = scipy.sparse.csr_matrix((ones, (u, v)), shape=(n_u, n_v))
    per_u, shared_u = _pairs_of_rows(matrix)
    per_v, _ = _pairs_of_rows(matrix.T.tocsr())
    # Edge (u, v): each other neighbour u' of v closes c(u, u') - 1 butterflies with it.
    shared_u.data -= 1
    support = (shared_u @ matrix).tocsr()
    edge = np.asarray(support[u, v]).ravel() if u.size else np.zeros(0, np.int64)
    return SparseCounts(sum(per_u.tolist()) // 2, per_u, per_v, edge)


def _pairs_of_rows(matrix: scipy.sparse.csr_matrix) -> tuple[np.ndarray, scipy.sparse.csr_matrix]:
    """Return butterflies per row, and the common neighbours of each pair of different rows."""
    shared = (matrix @ matrix.T).tocoo()
    apart = shared.row != shared.col
    row, col, common = shared.row[apart], shared.col[apart], shared.data[apart]
    per_row = np.zeros(matrix.shape[0], np.int64)
    np.add.at(per_row, row, common * (common - 1) // 2)
    return per_row, scipy.sparse.csr_matrix((common, (row, col)), shape=shared.shape)
