"""The hierarchy of a decomposition: a forest of components, one tree for each component of the lowest level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Forest:
    """The components of the items numbered k or more, for every k above 0.

    A node is a component that is not the same at the next higher number. The component of an item at any number k is
    the highest node above it, itself included, whose level is at least k.
    """

    # shape (n_items,): node of each item, of which the level is the item's number; -1 for items of number 0
    item_nodes: NDArray[np.int32]
    # shape (n_nodes,): the highest k at which the node is a component; rising, then by the least item
    levels: NDArray[np.uint64]
    # shape (n_nodes,): node that takes it in at a lower level, always an earlier one; -1 for the root of a tree
    parents: NDArray[np.int32]
    members: NDArray[np.int64]  # shape (n_nodes,): items whose node it is
    # shape (n_nodes,): items of the component: members of the node and of all below it
    sizes: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.levels.size)

    def components_at(self, level: int) -> NDArray[np.int32]:
        """Return, for each item, the node that is its component at ``level`` (above 0), -1 below that number."""
        top = np.arange(self.n_nodes, dtype=np.int32)
        for node in range(self.n_nodes):
            parent = self.parents[node]
            if parent >= 0 and int(self.levels[parent]) >= level:
                top[node] = top[parent]
        top[self.levels < np.uint64(level)] = -1
        found = np.full(self.item_nodes.size, -1, np.int32)
        placed = self.item_nodes >= 0
        found[placed] = top[self.item_nodes[placed]]
        return found
