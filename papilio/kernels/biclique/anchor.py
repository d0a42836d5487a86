"""Which layer of a graph is anchored, and what is then left to search for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.kernels.biclique.forms import Layers
from papilio.kernels.biclique.items import SizeRange
from papilio.motifs import Biclique

ANCHORS = ("auto", "u", "v")

MANY_TIMES = 4
"""A layer of given size is enumerated, and pivoting on the other one beats that where there are many more wedges: 0.1 s
against 45 s for four vertices of V in marvel (21 times the wedges), 0.8 s against 41 s for four of U in
youtube-groupmemberships (17 times)."""


def choose_sizes(graph: Layers, motif: Biclique, swapped: bool) -> SizeRange:
    """Return what is left to search for: sizes 1 have closed forms."""

    def bounds(size: int | None, most: int | None, n: int) -> tuple[int, int]:
        if size is not None:
            return max(size, 2), size
        return 2, n if most is None else min(most, n)

    of_u = bounds(motif.p, motif.max_p, graph.n_u)
    of_v = bounds(motif.q, motif.max_q, graph.n_v)
    return SizeRange(*of_v, *of_u) if swapped else SizeRange(*of_u, *of_v)


def count_wedges(graph: Layers) -> tuple[int, int]:
    """Return the wedges between pairs of U and between pairs of V."""

    def between(degrees: NDArray[np.int64]) -> int:
        return int((degrees * (degrees - 1) // 2).sum())

    return between(graph.degree_v), between(graph.degree_u)


def read_anchor(anchor: str) -> bool | None:
    """Return whether V is asked for, None for ``auto``; InputError for an unknown anchor."""
    if anchor not in ANCHORS:
        raise InputError(f"anchor is {anchor!r}; known: {', '.join(ANCHORS)}")
    return None if anchor == "auto" else anchor == "v"


def choose_anchor(graph: Layers, motif: Biclique, anchor: str) -> bool:
    """Return whether V is anchored: as asked for, or for ``auto`` by the first of these that decides:

    1. the layer of which only two vertices are taken,
    2. the one of a given size, where the other has none, unless its pairs have :data:`MANY_TIMES` the wedges,
    3. the one whose pairs have fewer wedges.

    Raises
    ------
    InputError
        For an unknown anchor.
    """
    asked = read_anchor(anchor)
    if asked is not None:
        return asked
    two_u, two_v = (choose_sizes(graph, motif, swapped).most_left == 2 for swapped in (False, True))
    if two_u != two_v:
        return two_v
    of_u, of_v = count_wedges(graph)
    if motif.p is not None and motif.q is None:
        return of_u > MANY_TIMES * of_v
    if motif.p is None and motif.q is not None:
        return of_v <= MANY_TIMES * of_u
    return of_v < of_u
