"""The work items of (p,q)-bicliques, as both engines list them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.forms import Cells, expand_sizes, turn
from papilio.kernels.biclique.signed_cover import choose_half, halve_cells
from papilio.kernels.engine import add_cells, deal_items
from papilio.kernels.offsets import offsets_of
from papilio.motifs import Granularity
from papilio.parts import Layer

ITEMS_PER_JOB = 8192
"""A root with more than 1 / ITEMS_PER_JOB of the job's cost is cut into several items, if it has enough children."""

ITEM_S, MOST_ITEMS = 0.05, 1 << 18
"""CPU thread time of an item of a long search, in seconds, and the maximum items that it is divided into for this."""

VERTEX_TIMES = 4
"""Counts per vertex are divided into so many times more items: warps of a GPU do not share their sub-trees. With three
left vertices there are none.

The heaviest of 4,577 items of (4,6) of youtube-groupmemberships takes a thread 0.1 s, and a warp the 0.96 s of the run.
"""

SHORT_S, LONG_S = 0.002, 0.2
"""Predicted CPU thread time below which a search gains nothing from threads, and from which it is divided."""

LEAST_ITEM_COST = 1 << 14
"""Minimum cost worth cutting an item for: some ten microseconds."""

_Rows = tuple[Any, Any, Any]
"""Offsets, other vertices and numbers of shared vertices of pairs."""

_Ids = NDArray[np.int32]
_Ints = NDArray[np.int64]


class PieceArrays(NamedTuple):
    """Root (int32), first and last child, and cost (int64) of pieces, as in BicliqueItems; on the host or a device."""

    item_root: Any
    item_first: Any
    item_last: Any
    costs: Any


@dataclass(frozen=True)
class SizeRange:
    """Sizes of the search: left sides of ``min_left`` to ``max_left`` vertices, right sides likewise.

    All are at least 2. If there is no other bound, the maximum is the size of the layer.
    """

    min_left: int
    max_left: int
    min_right: int
    max_right: int

    @property
    def is_empty(self) -> bool:
        return self.max_left < self.min_left or self.max_right < self.min_right


@dataclass(frozen=True, eq=False, kw_only=True)
class BicliqueItems(ABC):
    """The work items of an index, wherever its rows are. All arrays are C-contiguous, on the host.

    The search is cut into *pieces*: a root and a range of its children. For a whole graph each piece is a work item.
    For a part the work items are its roots, and an item has any number of pieces.
    """

    anchor: Layer  # The left layer
    sizes: SizeRange  # Sizes of the search, left and right
    # Vertices in the core
    n_left: int
    n_right: int
    # shape (n_pieces,): first left vertex; -1 for the piece of a job that has only closed forms
    item_root: NDArray[np.int32]
    # shape (n_pieces,): children ``[first, last)``, as places in ``hop``
    item_first: NDArray[np.int64]
    item_last: NDArray[np.int64]
    # shape (n_pieces,): children of the root from the first one of the piece on; 0 without a root
    item_later: NDArray[np.int64]
    # shape (n_pieces,): estimated set operations of each piece, descending, within an item of a part; ties by root,
    # then by first child
    costs: NDArray[np.int64]
    why_anchored: str = ""  # the reason for the anchored layer, if the index chose it
    # Counts that need no search, by (p, q) of U and V; they belong to item 0
    closed_cells: Cells = field(default_factory=dict)
    # shape (n_items + 1,): item i of a part has the pieces ``[item_ptr[i], item_ptr[i + 1])``; None for a whole
    # graph
    item_ptr: NDArray[np.int64] | None = None
    # Time of a CPU thread for the search that probes predict, in seconds; 0 without probes
    seconds: float = 0.0

    @property
    def n_items(self) -> int:
        return int(self.item_root.size if self.item_ptr is None else self.item_ptr.size - 1)

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """Estimated set operations of each item, at least 1, shape (n_items,); descending for a whole graph."""
        if self.item_ptr is None:
            return self.costs
        return np.maximum(np.diff(offsets_of(self.costs)[self.item_ptr]), 1)

    @cached_property
    def lots(self) -> NDArray[np.float64]:
        """Weights by which probes draw items, shape (n_items,): half by cost, half as if all sets were bicliques.

        In a dense graph, a root with many children has nearly all sets of many vertices, whatever its cost.
        """
        take = min(max(self.sizes.min_left - 1, 1), MAX_POWER)
        most = max(int(self.item_later.max(initial=0)), 1)
        first = self.item_later - (self.item_last - self.item_first)
        sets = power(self.item_later / most, take) - power(first / most, take)
        sets *= self.costs.sum() / max(float(sets.sum()), 1e-300)
        return self.work + self.sum_pieces(sets)

    def sum_pieces(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums over each item of nonnegative values of the pieces."""
        if self.item_ptr is None:
            return values
        ends = np.concatenate((np.zeros(1), np.cumsum(values)))
        sums: NDArray[np.float64] = np.maximum(np.diff(ends[self.item_ptr]), 0.0)
        return sums

    def pieces_at(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first piece of each item. For the end of the items, the end of the pieces."""
        return items if self.item_ptr is None else self.item_ptr[items]

    def item_over(self, piece: int) -> int:
        """Return the first item that begins at or after this piece, or the end of the items."""
        if self.item_ptr is None:
            return piece
        return int(np.searchsorted(self.item_ptr, piece))

    @property
    def closed_total(self) -> int:
        return sum(self.closed_cells.values())

    @property
    @abstractmethod
    def host_ids(self) -> NDArray[np.int32]:
        """Original ids of the left vertices, on the host, shape (n_left,)."""

    @abstractmethod
    def with_ids(self, left_ids: NDArray[np.int32], right_ids: NDArray[np.int32]) -> Self:
        """Return the index of a part with the vertices' ids in the whole graph, given by their ids in the part."""

    def with_pieces(self, pieces: dict[str, Any], parents: NDArray[Any]) -> Self:
        """Return the index with other pieces, by name of their arrays.

        ``parents`` is the present piece that contains each, or a mask of the pieces that stay; empty for a star item.
        """
        return replace(self, **pieces)


MAX_POWER = 64
"""Maximum exponent of the distributions by which items and children are drawn."""


def power(base: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Return base^times by products, which are rounded in the same way everywhere."""
    product = base
    for _ in range(times - 1):
        product = product * base
    return product


def count_wanted(seconds: float, per: Granularity, max_left: int) -> int:
    """Return the items to divide a search into that takes a CPU thread ``seconds``; 0 to leave it as it is."""
    if seconds < LONG_S or (per == "vertex" and max_left == 3):
        return 0
    times = VERTEX_TIMES if per == "vertex" else 1
    return int(min(times * max(seconds / ITEM_S, ITEMS_PER_JOB), MOST_ITEMS))


Index = TypeVar("Index", bound=BicliqueItems)


def halve_index(index: Index) -> Index:
    """Return the index of a whole cover with the items and closed forms of one of every two mirror images."""
    half = choose_half(index.item_root, index.host_ids)
    halved = index.with_pieces({name: getattr(index, name)[half] for name in _OF_PIECES}, half)
    return replace(halved, closed_cells=halve_cells(index.closed_cells))


def divide_index(index: Index, wanted: int) -> Index:
    """Divide the pieces of a whole graph into more items, as far as children allow, by :attr:`BicliqueItems.lots`.

    Heaviest come first. The index is unchanged if there are already enough, or no root. This serves searches whose
    costs omit most of the work: a few roots of a dense graph would keep a device waiting, and a run that is cut
    finishes the items that its warps have begun. ``wanted`` is the number of items, see :func:`count_wanted`.
    """
    if index.item_ptr is not None or index.n_items > wanted // 2 or index.item_root.max(initial=-1) < 0:
        return index
    n_children = index.item_last - index.item_first
    share = index.lots / float(index.lots.sum()) * wanted
    n_each = np.clip(np.ceil(share).astype(np.int64), 1, np.maximum(n_children, 1))
    parent = np.repeat(np.arange(n_each.size), n_each)
    place = np.arange(parent.size) - np.repeat(np.cumsum(n_each) - n_each, n_each)
    of, n = n_children[parent], n_each[parent]
    begin, end = of * place // n, of * (place + 1) // n
    costs = np.maximum(index.costs[parent] * (end - begin) // np.maximum(of, 1), 1)
    order = np.argsort(-costs, kind="stable")
    parent, begin, end = parent[order], begin[order], end[order]
    pieces = {
        "item_root": index.item_root[parent],
        "item_first": index.item_first[parent] + begin,
        "item_last": index.item_first[parent] + end,
        "item_later": index.item_later[parent] - begin,
        "costs": costs[order],
    }
    return index.with_pieces(pieces, parent)


def deal_index(index: Index, hands: int) -> Index:
    """Return the index of a whole graph with its items dealt in hands."""
    if index.item_root.size <= hands or hands == 1:
        return index
    order = deal_items(index.item_root.size, hands)
    return index.with_pieces({name: getattr(index, name)[order] for name in _OF_PIECES}, order)


_OF_PIECES = ("item_root", "item_first", "item_last", "item_later", "costs")
"""Arrays with an entry for each piece."""


def choose_most(total: int) -> int:
    """Return the maximum cost of a piece with more than one child, given the cost of all children."""
    return max(LEAST_ITEM_COST, total // ITEMS_PER_JOB)


def number_roots(roots: NDArray[np.int32], n_vertices: int) -> NDArray[np.int32]:
    """Return the item of each vertex of the anchored layer, -1 for vertices that are not roots."""
    item = np.full(n_vertices, -1, np.int32)
    item[roots] = np.arange(roots.size, dtype=np.int32)
    return item


def place_roots(items: NDArray[np.int32], n_items: int) -> NDArray[np.int64]:
    """Return ``item_ptr`` for pieces in the order of their items, given the item of each piece."""
    return np.searchsorted(items, np.arange(n_items + 1)).astype(np.int64)


def split_pairs(indptr: Any, others: Any, common: Any, is_excluded: Any) -> tuple[_Rows, _Rows]:
    """Return the pairs with vertices that are not excluded, and the others. On the host or a device."""
    apart = is_excluded[others]
    n_apart = apart.astype(np.int64).cumsum()
    before = indptr * 0
    before[indptr > 0] = n_apart[indptr[indptr > 0] - 1]
    return (indptr - before, others[~apart], common[~apart]), (before, others[apart], common[apart])


def make_root_items(indptr: _Ints, costs_before: _Ints, items: _Ids, n_items: int) -> PieceArrays:
    """Return the items of a part.

    An item is a root with all of its children. ``indptr`` holds the offsets of the children, ``costs_before`` the total
    cost of all vertices before each left vertex, and ``items`` the item of each, -1 for none. The root of an item
    without children is -1.
    """
    roots, (firsts, lasts) = np.full(n_items, -1, np.int32), np.zeros((2, n_items), np.int64)
    costs = np.ones(n_items, np.int64)
    lefts = np.flatnonzero(np.diff(indptr))
    at = items[lefts]
    roots[at], firsts[at], lasts[at] = lefts, indptr[lefts], indptr[lefts + 1]
    costs[at] = np.maximum(costs_before[lefts + 1] - costs_before[lefts], 1)
    return PieceArrays(roots, firsts, lasts, costs)


def make_star_item() -> PieceArrays:
    """Return the only item of a job of closed forms."""
    return PieceArrays(np.array([-1], np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64))


def add_pairs(closed: Cells, shared: dict[int, int], sizes: SizeRange, anchor: Layer) -> Cells:
    """Return ``closed`` with the bicliques of two left vertices, from the numbers of pairs by shared right vertices."""
    cells = expand_sizes(shared, 2, range(sizes.min_right, sizes.max_right + 1))
    return add_cells(closed, turn(cells, anchor))
