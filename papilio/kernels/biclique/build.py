"""Build the index of (p,q)-bicliques: the decisions, once, for rows on the host and on a device.

A :class:`RowStore` holds the graph and does all that takes time; two of them exist
(:class:`~papilio.kernels.biclique.index.HostRows`, :class:`~papilio.kernels.biclique.gpu_index.DeviceRows`), with equal
results. The index is defined in :mod:`papilio.kernels.biclique.index`.

The store also cuts the roots into pieces: on movielens-1m, (3,3), the roots that are cut have 12 of 15 million
children, too many to copy to the host.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.forms import Cells, Layers, RootStars, closed_cells, needs_stars
from papilio.kernels.biclique.items import (
    BicliqueItems,
    PieceArrays,
    SizeRange,
    add_pairs,
    choose_most,
    make_root_items,
    make_star_item,
    number_roots,
    place_roots,
)
from papilio.kernels.biclique.question import (
    anchor_part,
    choose_anchor,
    choose_maximal_anchor,
    choose_maximal_sizes,
    choose_sizes,
)
from papilio.motifs import Biclique, MaximalBiclique
from papilio.parts import Layer, MaximalPart

_Ids = NDArray[np.int32]
_Ints = NDArray[np.int64]

Index = TypeVar("Index", bound=BicliqueItems, covariant=True)


class RowStore(Protocol[Index]):
    """A graph, its core, pairs and pieces, on the host or a device; used for one index. Empty at first."""

    @property
    def layers(self) -> Layers:
        """Sizes and degrees of both layers, on the host."""

    @property
    def n_pairs(self) -> int:
        """Number of pairs found."""

    def find_stars(self, layer: Layer, roots: _Ids) -> RootStars:
        """Return the stars of the roots of a part, on the host; before the core is made."""

    def reduce(self, anchor: Layer, min_left: int, min_right: int) -> bool:
        """Keep the core, in which the anchored layer is left; return whether it has a vertex."""

    def rank(self, items: _Ids | None) -> None:
        """Number the left vertices by degree; with ``items``, by id, those with an item come first. It is -1 for none.

        Only vertices with an item, or all, are roots of pairs.
        """

    def count_pairs(self, least: int) -> dict[int, int]:
        """Return the number of pairs that share at least ``least`` right vertices, by number shared. Keep none."""

    def find_pairs(self, least: int) -> None:
        """Find these pairs; order the roots by their number of pairs, then the other left vertices likewise."""

    def arrange(self, excluded: _Ids | None) -> None:
        """Put the rows in the final order; keep pairs with ``excluded`` left vertices apart."""

    def weigh(self, deep: bool) -> None:
        """Set the costs of all children, at least one; ``deep`` if more is searched below them."""

    def sum_costs(self) -> int:
        """Return the sum of the costs of all children."""

    def cut(self, most: int) -> tuple[PieceArrays, _Ids | None]:
        """Cut the children of each root into pieces of at most cost ``most`` or of one child; heaviest first.

        With items, return also the item of each piece, on the host; pieces then come by item.
        """

    def cost_rows(self) -> tuple[_Ints, _Ints, _Ids]:
        """Return, on the host, offsets of the children, costs before each left vertex and the end, and items."""

    def make_index(self, pieces: PieceArrays, **fields: Any) -> Index:
        """Return the index with these pieces, of the store or the host, and other fields of BicliqueItems."""


def build_bicliques(
    store: RowStore[Index],
    motif: Biclique,
    anchor: str = "auto",
    keep_pairs: bool = True,
    roots: _Ids | None = None,
) -> Index:
    """Choose the anchor, count the stars, and build the index; see :func:`build_index`; signs are ignored.

    ``anchor`` is the layer whose vertices are searched one after the other: ``auto``, ``u`` or ``v``.
    """
    layer, why = choose_anchor(store.layers, motif, anchor)
    sizes = choose_sizes(store.layers, motif, layer)
    stars = None
    if roots is not None and needs_stars(motif):
        stars = store.find_stars(layer, roots)
    index = build_index(store, layer, sizes, closed_cells(store.layers, motif, stars), keep_pairs, roots)
    return replace(index, why_anchored=why)


def build_index(
    store: RowStore[Index],
    anchor: Layer,
    sizes: SizeRange,
    closed: Cells | None = None,
    keep_pairs: bool = True,
    roots: _Ids | None = None,
    excluded: _Ids | None = None,
) -> Index:
    """Reduce, order, pair and cut; O(edges + wedges of the core whose middles are right).

    ``sizes`` are the sizes to search; ``closed`` are counts that need no search.
    ``keep_pairs`` keeps the pairs even if nothing is searched below them; otherwise they are counted as closed forms.
    With ``roots``, of the anchored layer, the graph is the graph of a part. ``excluded`` are vertices of that layer
    that are no children: pairs with them are kept apart, and each root is one item. Ids are int32, on the host.
    """
    closed = closed or {}
    if not sizes.is_empty and store.reduce(anchor, sizes.min_left, sizes.min_right):
        n_anchored = store.layers.n_u if anchor == "u" else store.layers.n_v
        store.rank(None if roots is None else number_roots(roots, n_anchored))
        if sizes.max_left == 2 and not keep_pairs:
            closed = add_pairs(closed, store.count_pairs(sizes.min_right), sizes, anchor)
        else:
            store.find_pairs(sizes.min_right)
    store.arrange(excluded)
    star, nothing = make_star_item(), np.empty(0, np.int32)
    items: _Ids | None = nothing
    pieces = PieceArrays(*(each[: int(bool(closed) and roots is None)] for each in star))
    if store.n_pairs:
        store.weigh(sizes.max_left > 2)
        if excluded is None:
            pieces, items = store.cut(choose_most(store.sum_costs()))
    item_ptr = None
    if excluded is not None:
        assert roots is not None
        start = np.zeros(1, np.int64)
        pieces = make_root_items(*(store.cost_rows() if store.n_pairs else (start, start, nothing)), roots.size)
    elif roots is not None:
        assert items is not None
        item_ptr = place_roots(items, roots.size)
    return store.make_index(pieces, anchor=anchor, sizes=sizes, closed_cells=closed, item_ptr=item_ptr)


def build_maximal(
    store: RowStore[Index],
    motif: MaximalBiclique,
    anchor: str = "auto",
    has_stars: bool = False,
    part: MaximalPart | None = None,
) -> Index:
    """Build the index. If there are stars, it has an item even if nothing is searched.

    With ``part``, whose layer is anchored, the graph is the graph of the part, and vertices have their ids in the whole
    graph.
    """
    layer = choose_maximal_anchor(store.layers, anchor if part is None else anchor_part(part, anchor))
    sizes = choose_maximal_sizes(store.layers, motif, layer)
    if part is not None:
        index = build_index(store, layer, sizes, roots=part.roots, excluded=part.excluded)
        return index.with_ids(*((part.ids_u, part.ids_v) if layer == "u" else (part.ids_v, part.ids_u)))
    index = build_index(store, layer, sizes)
    if index.n_items or not has_stars:
        return index
    star = make_star_item()
    return index.with_pieces({**star._asdict(), "item_later": star.item_first}, np.empty(0, np.int64))
