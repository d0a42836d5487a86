"""Balanced bicliques as bicliques of the signed double cover, which is unsigned.

A biclique is balanced if every cycle in it has an even number of negative edges, that is, if the sign vectors of its
vertices of U are all equal or opposite, so that its signs are products a(u) b(v) of signs of its vertices. In the
*cover* every vertex x becomes two, x+ and x-, and an edge (u, v) becomes two edges: a positive edge joins u+ to v+ and
u- to v-, a negative edge u+ to v- and u- to v+. Then

* x+ and x- have no common neighbour, so no biclique contains both;
* a biclique of the cover assigns signs a and b to its vertices whose products are the signs of its edges, so the
  biclique below it is balanced;
* a and b of a balanced biclique can be chosen in two ways, with all signs flipped: it is below two bicliques of the
  cover, its *mirror images*, and no unbalanced biclique is below any.

The cover therefore has twice as many bicliques of any size as the graph has balanced ones. A search visits one of each
two: in the order of left vertices x+ and x- are adjacent, so the first left vertices of mirror images are x+ and x-,
and the items whose root is some x- are left out. Below a root u+ the rows of w+ and w- are the columns at which w
agrees with u, and the columns at which it does not: every further vertex splits the columns in this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import MAX_VERTICES, BipartiteGraph
from papilio.kernels.biclique.forms import Cells
from papilio.kernels.engine import Choice

COVER_CHOICE: Choice = (
    "signed double cover searched, half of its roots",
    "each balanced biclique is two mirror images there",
)
"""The decision, for the plan."""


def make_cover(graph: BipartiteGraph) -> BipartiteGraph:
    """Return the unsigned cover of a signed graph: x+ is 2x, x- is 2x + 1; O(n_edges).

    Raises CapacityError for a layer of more than 2^30 - 1 vertices.
    """
    for layer, size in (("U", graph.n_u), ("V", graph.n_v)):
        if 2 * size > MAX_VERTICES:
            raise CapacityError(
                f"layer {layer} has {size} vertices; the maximum for balanced bicliques is {MAX_VERTICES // 2}"
            )
    assert graph.sign is not None
    u, v = np.empty(2 * graph.n_edges, np.int32), np.empty(2 * graph.n_edges, np.int32)
    places = np.arange(graph.n_edges)
    negative = (graph.sign < 0).astype(np.int32)
    for half, ends in enumerate((graph.indptr[:-1], graph.indptr[1:])):
        at = ends[graph.u] + places
        u[at] = 2 * graph.u + half
        v[at] = 2 * graph.v + (negative ^ half)
    return BipartiteGraph(2 * graph.n_u, 2 * graph.n_v, u, v)


def choose_half(roots: NDArray[np.int32], left_ids: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return a mask of the pieces to search, from their roots. Root -1 marks closed forms."""
    signs = np.append(left_ids & 1, np.int32(0))
    chosen: NDArray[np.bool_] = signs[roots] == 0
    return chosen


def halve_cells(cells: Cells) -> Cells:
    """Return balanced bicliques by (p, q) from the bicliques of the whole cover."""
    return {cell: count // 2 for cell, count in cells.items()}


def fold_vectors(vectors: dict[str, Any]) -> dict[str, Any]:
    """Return the sums of both copies of every vertex, modulo 2^64, by layer."""
    return {layer: vector.reshape(-1, 2).sum(axis=1, dtype=np.uint64) for layer, vector in vectors.items()}
