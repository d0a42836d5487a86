"""What is searched for maximal bicliques: the index of :mod:`papilio.kernels.biclique.index`, without closed forms.

The anchored layer is left; its vertices are *rows* of the search, taken one after the other. Those of the other layer
are *columns*. A maximal biclique of two rows and two columns or more belongs to the item of its first two rows, where
rows that hold all columns of the first one count as the last. Those of one row or one column are stars, and are found
without a search (:mod:`papilio.kernels.maximal.stars`).

Of a part (:class:`~papilio.parts.MaximalPart`) each root is an item, and the excluded vertices near it come before its
later ones: they are rows that are never taken.

The core is taken for the least sizes that are asked for, 2 or more. A vertex that extends a biclique of these sizes
is in the core too, so that what is maximal there is maximal in the graph.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.index import BicliqueIndex, build_index
from papilio.kernels.biclique.items import make_star_item
from papilio.kernels.biclique.question import anchor_part
from papilio.kernels.checksum import mix
from papilio.kernels.maximal.anchor import choose_anchor, choose_sizes
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart


def build_maximal_index(
    graph: BipartiteGraph,
    motif: MaximalBiclique,
    threads: int,
    anchor: str = "auto",
    has_stars: bool = False,
    part: MaximalPart | None = None,
) -> BicliqueIndex:
    """Build the index; where there are stars, it has an item even if nothing is searched.

    Parameters
    ----------
    part : MaximalPart, optional
        The graph is that of this part, whose layer is anchored. Vertices have their ids in the whole graph then.

    Raises
    ------
    InputError
        For an unknown anchor.
    CapacityError
        When there are more pairs than the memory has room for.
    """
    swapped = choose_anchor(graph, anchor if part is None else anchor_part(part, anchor))
    sizes = choose_sizes(graph, motif, swapped)
    if part is not None:
        index = build_index(graph, swapped, sizes, threads, roots=part.roots, excluded=part.excluded)
        of_left, of_right = (part.ids_v, part.ids_u) if swapped else (part.ids_u, part.ids_v)
        return replace(index, left_ids=of_left[index.left_ids], right_ids=of_right[index.right_ids])
    index = build_index(graph, swapped, sizes, threads)
    if index.n_items or not has_stars:
        return index
    root, first, last, costs = make_star_item()
    return replace(index, item_root=root, item_first=first, item_last=last, costs=costs)


def hash_sides(index: BicliqueIndex) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the hashes of the rows and of the columns, by their ids in the index."""
    lefts, rights = (ids.astype(np.uint64) for ids in (index.left_ids, index.right_ids))
    of_v = np.uint64(1 << 32)
    return (mix(lefts | of_v), mix(rights)) if index.swapped else (mix(lefts), mix(rights | of_v))
