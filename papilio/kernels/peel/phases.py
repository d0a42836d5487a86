"""The results of peeling on any engine: the number of every item, and the forest of their components.

Peeling repeatedly removes the items (edges of a graph for wings, vertices of one layer for tips) with the least
support, the number of butterflies that they are still in. The *number* of an item is the largest least support up to
its removal. Peeling has two phases, after PBNG (Lakhotia et al., arXiv 2110.12511):

* the *coarse* phase cuts the numbers into ranges: all items with a support below a bound are removed together, round by
round, until no such items are left, and then the next bound is chosen;
* the *fine* phase peels each range exactly. It needs only the items of the range and of higher ones, and changes only
the items of the range: the ranges are independent of each other.

Both phases are exact in 64-bit integers: a support only falls, and never below 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError

PeelingKind = Literal["wing", "tip", "core"]
Layer = Literal["u", "v"]

Report = Callable[[str, int, int], None]
"""Called with a phase (``index``, ``coarse``, ``fine``, ``hierarchy``), the units done and the total units."""


MAX_EDGES = 2**31 - 1
"""Largest number of edges of a graph whose wings are peeled, and of its blooms: their ids are int32."""


def check_wing_edges(n_edges: int) -> None:
    """Raise CapacityError for a graph with too many edges."""
    if n_edges > MAX_EDGES:
        raise CapacityError(f"the graph has {n_edges} edges; the maximum for wing numbers is {MAX_EDGES}")


BIN_BITS = 5
"""Supports are binned by their leading six bits: a bound is at most 3 % from the intended one."""

GROWTH_SHIFT = 3
"""A range that begins at n ends at n + n / 8 at the latest."""

N_BINS = (64 - BIN_BITS) << BIN_BITS


def bin_end(place: int) -> int:
    """Return the first support after a bin.

    Bins increase with supports, and each of the first 64 supports has its own; each engine has a ``bin_of`` that
    returns the bin of a support.
    """
    shift = max(0, (place >> BIN_BITS) - 1)
    return ((place - (shift << BIN_BITS)) + 1) << shift


def bin_start(place: int) -> int:
    """Return the first support of a bin."""
    return bin_end(place - 1) if place > 0 else 0


def next_limit(low: int) -> int:
    """Return the farthest bound of a range that begins at ``low``: the range then has few rounds.

    Supports are a poor guide to much larger numbers. Without this limit, a range of all items below a bound and all
    items that thereby fall below it can be nearly everything.
    """
    return low + max(1, min(low >> GROWTH_SHIFT, 2**63 - 1 - low))


def ignore_report(phase: str, done: int, total: int) -> None:
    """Ignore all reports."""


@dataclass(frozen=True, eq=False)
class Peeled:
    """The numbers of all items."""

    numbers: NDArray[np.uint64]  # shape (n_items,): by edge id, or by id within the layer
    ranges: int  # Ranges of the coarse phase
    # Rounds, summed over all ranges
    coarse_rounds: int
    fine_rounds: int
    updates: int  # Supports that were changed, both phases together
    seconds: dict[str, float]  # Wall time of the phases ``coarse`` and ``fine``


@dataclass(frozen=True, eq=False)
class Forest:
    """The components of the items numbered k or more, for every k above 0.

    A node is a component that differs from the one at the next higher number. The component of an item at any number k
    is the highest node above it, itself included, with a level of at least k.
    """

    # shape (n_items,): node of each item, whose level is the item's number; -1 for items of number 0
    item_nodes: NDArray[np.int32]
    # shape (n_nodes,): the highest k at which the node is a component; ascending, then by the least item
    levels: NDArray[np.uint64]
    # shape (n_nodes,): node that absorbs it at a lower level, always an earlier one; -1 for the root of a tree
    parents: NDArray[np.int32]
    members: NDArray[np.int64]  # shape (n_nodes,): items whose node it is
    # shape (n_nodes,): items of the component: members of the node and of all nodes below it
    sizes: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        return int(self.levels.size)

    def components_at(self, level: int) -> NDArray[np.int32]:
        """Return the component node of each item at ``level`` (above 0), -1 for items of lower number."""
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
