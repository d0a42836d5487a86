"""Nestedness of a bipartite graph: the neighbours that each vertex shares with vertices of more neighbours.

NODF (Almeida-Neto et al., Oikos 117, 2008) is the mean over all pairs of vertices of a layer of 100 c / d, for c common
neighbours and the lesser degree d; pairs of equal degrees, or with a degree of 0, have 0. The sum of c over the pairs
in which a vertex w is the lesser one needs no pairs: a neighbour of w adds its neighbours of more than d(w), which are
the first ones of its row, by falling degree. All numbers are integers, and the time is O(n_u + n_v + n_edges).
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Ids, Ints, compiled
from papilio.kernels.rows.index import index_wedges

Sums = dict[str, NDArray[np.uint64]]


@compiled
def _add_overlaps(n_u: int, offsets: Ints, ids: Ids, sums: Ints) -> None:
    """Add to each row, of shape (n_rows,), the entries of its neighbours' rows that have more neighbours."""
    for middle in range(len(sums)):
        begin, first = offsets[middle], n_u if middle < n_u else 0
        larger, degree = np.int64(0), np.int64(0)
        for at in range(begin, offsets[middle + 1]):
            row = first + np.int64(ids[at])
            own = offsets[row + 1] - offsets[row]
            if own != degree:
                larger, degree = at - begin, own
            sums[row] += larger


def sum_overlaps(graph: BipartiteGraph) -> Sums:
    """Return for each vertex the common neighbours with all vertices of larger degree, by layer and id."""
    index = index_wedges(graph)
    sums = np.zeros(index.n_rows, np.int64)
    _add_overlaps(index.n_u, index.offsets, index.ids, sums)
    return index.vertex_vectors(sums.view(np.uint64))


def add_shares(degrees: NDArray[np.int64], sums: NDArray[np.uint64]) -> Fraction:
    """Return the sum of sums / degree over all vertices with neighbours."""
    known, places = np.unique(degrees, return_inverse=True)
    totals = np.zeros(known.size, np.uint64)
    np.add.at(totals, places, sums)
    found = [(degree, total) for degree, total in zip(known.tolist(), totals.tolist(), strict=True) if total]
    whole = lcm(*(degree for degree, _ in found))
    return Fraction(sum(total * (whole // degree) for degree, total in found), whole)
