"""What is searched for maximal bicliques: the index of :mod:`papilio.kernels.biclique.index`, without closed forms.

The anchored layer is left; its vertices are *rows* of the search, taken one after the other. Those of the other layer
are *columns*. A maximal biclique of two rows and two columns or more belongs to the item of its first two rows, where
rows that hold all columns of the first one count as the last. Those of one row or one column are stars, and are found
without a search (:mod:`papilio.kernels.maximal.stars`).

The core is taken for the least sizes that are asked for, 2 or more. A vertex that extends a biclique of these sizes
is in the core too, so that what is maximal there is maximal in the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.forms import Layers
from papilio.kernels.biclique.index import BicliqueIndex, build_index, check_anchor, make_star_item
from papilio.kernels.biclique.items import SizeRange
from papilio.kernels.checksum import mix
from papilio.motifs import MaximalBiclique


def choose_sizes(graph: Layers, motif: MaximalBiclique, swapped: bool) -> SizeRange:
    """Return what is searched for: stars are found without."""
    of_u, of_v = (
        (max(least, 2), n if most is None else min(most, n))
        for (_, least, most), n in zip(motif.bounds, (graph.n_u, graph.n_v), strict=True)
    )
    return SizeRange(*of_v, *of_u) if swapped else SizeRange(*of_u, *of_v)


def choose_anchor(graph: Layers, anchor: str) -> bool:
    """Return whether V is anchored: as asked for, or for ``auto`` where its pairs have fewer wedges.

    Raises
    ------
    InputError
        For an unknown anchor.
    """
    check_anchor(anchor)
    if anchor != "auto":
        return anchor == "v"
    of_u, of_v = (int((degrees * (degrees - 1)).sum()) for degrees in (graph.degree_v, graph.degree_u))
    return of_v < of_u


def build_maximal_index(
    graph: BipartiteGraph,
    motif: MaximalBiclique,
    threads: int,
    anchor: str = "auto",
    has_stars: bool = False,
    limit_bytes: int | None = None,
) -> BicliqueIndex:
    """Build the index; where there are stars, it has an item even if nothing is searched.

    Parameters
    ----------
    limit_bytes : int, optional
        What the pairs may take; by default half of this machine's memory.

    Raises
    ------
    InputError
        For an unknown anchor.
    CapacityError
        When there are more pairs than the memory has room for.
    """
    swapped = choose_anchor(graph, anchor)
    index = build_index(graph, swapped, choose_sizes(graph, motif, swapped), threads, limit_bytes=limit_bytes)
    if index.n_items or not has_stars:
        return index
    root, first, last, costs = make_star_item()
    return replace(index, item_root=root, item_first=first, item_last=last, costs=costs)


def hash_sides(index: BicliqueIndex) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the hashes of the rows and of the columns, by their ids in the index."""
    return hash_ids(index.left_ids, index.right_ids, index.swapped)


def hash_ids(left_ids: Any, right_ids: Any, swapped: bool) -> tuple[Any, Any]:
    """Return the hashes of vertices of both layers, given by their original ids, on the host or on a device."""
    lefts, rights = (ids.astype(np.uint64) for ids in (left_ids, right_ids))
    of_v = np.uint64(1 << 32)
    return (mix(lefts | of_v), mix(rights)) if swapped else (mix(lefts), mix(rights | of_v))
