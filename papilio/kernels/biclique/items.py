"""The work items of (p,q)-bicliques, as both engines list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.forms import Cells


@dataclass(frozen=True)
class SizeRange:
    """What the search counts: left sides of ``least_left`` to ``most_left`` vertices, right sides likewise.

    All are at least 2. ``most_*`` is the size of the layer where nothing else bounds it.
    """

    least_left: int
    most_left: int
    least_right: int
    most_right: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to search for."""
        return self.most_left < self.least_left or self.most_right < self.least_right


@dataclass(frozen=True, eq=False, kw_only=True)
class BicliqueItems:
    """What an index knows of its work items, wherever its rows are. All arrays are C-contiguous, on the host.

    The search is cut into *pieces*: a root and a range of its children. Of a whole graph each piece is a work item. Of
    a part the work items are its roots, and an item has any number of pieces.
    """

    swapped: bool  # The left, anchored layer is V
    sizes: SizeRange  # What the search counts, by left and right
    # Vertices in the core
    n_left: int
    n_right: int
    # shape (n_pieces,): first left vertex; -1 for the piece of a job that is all closed forms
    item_root: NDArray[np.int32]
    # shape (n_pieces,): children ``[first, last)``, as places in ``hop``
    item_first: NDArray[np.int64]
    item_last: NDArray[np.int64]
    # shape (n_pieces,): estimated set operations of each piece, falling, within an item of a part; ties by root,
    # then by first child
    costs: NDArray[np.int64]
    # Counts that need no search, by (p, q) of U and V; they belong to item 0
    closed_cells: Cells = field(default_factory=dict)
    # shape (n_items + 1,): item i of a part has the pieces ``[item_ptr[i], item_ptr[i + 1])``; None for a whole
    # graph
    item_ptr: NDArray[np.int64] | None = None

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return int(self.item_root.size if self.item_ptr is None else self.item_ptr.size - 1)

    @property
    def work(self) -> NDArray[np.int64]:
        """Estimated set operations of each item, at least 1, shape (n_items,); falling for a whole graph."""
        if self.item_ptr is None:
            return self.costs
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.costs)))
        return np.maximum(np.diff(ends[self.item_ptr]), 1)

    def pieces_at(self, items: Sequence[int]) -> list[int]:
        """Return the first piece of each item, and where the pieces end for the end of the items."""
        if self.item_ptr is None:
            return [int(item) for item in items]
        found: list[int] = self.item_ptr[np.asarray(items, np.int64)].tolist()
        return found

    def item_over(self, piece: int) -> int:
        """Return the first item that begins at this piece or after it, or the end of the items."""
        if self.item_ptr is None:
            return piece
        return int(np.searchsorted(self.item_ptr, piece))

    @property
    def closed_total(self) -> int:
        """Sum of the closed forms."""
        return sum(self.closed_cells.values())

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held by the arrays."""
        values = (getattr(self, item.name) for item in fields(self))
        return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def number_roots(roots: NDArray[np.int32], n_vertices: int) -> NDArray[np.int32]:
    """Return the item of each vertex of the anchored layer of a part, -1 for those that are no roots."""
    item = np.full(n_vertices, -1, np.int32)
    item[roots] = np.arange(roots.size, dtype=np.int32)
    return item


def place_roots(items: NDArray[np.int32], n_items: int) -> NDArray[np.int64]:
    """Return ``item_ptr`` for pieces in the order of their items, given the item of each piece."""
    return np.searchsorted(items, np.arange(n_items + 1)).astype(np.int64)
