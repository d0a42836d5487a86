"""Closed forms and the expansion of what the (p,q)-biclique kernels count; Python integers of any size.

The kernels never multiply: they count stars by degree, leaves by the size of their right set, and leaves of pivot
trees by how many vertices are held and how many are free on either side. Here those become numbers of bicliques.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique

__all__ = ["Cells", "closed_cells", "count_stars"]

Cells = dict[tuple[int, int], int]
"""Counts by (p, q), without those that are 0."""


def count_stars(degrees: NDArray[np.int64], least: int, most: int) -> dict[int, int]:
    """Return, for every size k in ``[least, most]``, the sum of C(degree, k), without those that are 0.

    Parameters
    ----------
    degrees : ndarray of int64, shape (n,)
    least, most : int
        ``most`` may be larger than any degree.
    """
    stars: dict[int, int] = {}
    sizes, times = np.unique(degrees, return_counts=True)
    for degree, count in zip(sizes.tolist(), times.tolist(), strict=True):
        ways = comb(degree, least) * count
        for size in range(least, min(degree, most) + 1):
            stars[size] = stars.get(size, 0) + ways
            ways = ways * (degree - size) // (size + 1)
    return stars


def closed_cells(graph: BipartiteGraph, motif: Biclique) -> Cells:
    """Return the counts that ``motif`` asks for with p = 1 or q = 1: stars, by (p, q)."""
    cells: Cells = {}
    if motif.p in (None, 1):
        most = motif.q or motif.max_q or graph.n_v
        stars = count_stars(graph.degree_u, motif.q or 1, most)
        cells.update({(1, size): count for size, count in stars.items()})
    if motif.q in (None, 1):
        most = motif.p or motif.max_p or graph.n_u
        stars = count_stars(graph.degree_v, motif.p or 1, most)
        cells.update({(size, 1): count for size, count in stars.items()})
    return cells
