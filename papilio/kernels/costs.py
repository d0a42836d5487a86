"""Ranges of work items and what they cost, from the costs of all items at a few breakpoints.

Items are ordered heaviest first. Everything here is a pure function of integers, the same on every machine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError

Interval = tuple[int, int]
"""Work items [start, stop)."""

MAX_TABLE_ENTRIES = 16_384
"""Entries of a cost table: 32 leases for each of 512 workers, and about 400 KiB when it travels."""

LEAST_TABLE_ENTRIES = 8
"""Entries of the table of a part of a graph, at least, however many parts there are."""

_MAX_WORK = 2**62


@dataclass(frozen=True)
class CostTable:
    """Cumulative cost of the work items at a few breakpoints.

    Attributes
    ----------
    items : tuple of int
        Breakpoints, strictly rising, from 0 to the number of items; at most ``MAX_TABLE_ENTRIES + 1``.
    work : tuple of int
        ``work[i]`` is the cost of all items before ``items[i]``, in work units; ``work[0]`` is 0.
    """

    items: tuple[int, ...]
    work: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.items) != len(self.work) or not self.items or (self.items[0], self.work[0]) != (0, 0):
            raise ValueError("a cost table starts at item 0 with work 0 and pairs each item with its work")
        if any(a >= b for a, b in zip(self.items, self.items[1:], strict=False)):
            raise ValueError("the items of a cost table rise strictly")
        if any(a > b for a, b in zip(self.work, self.work[1:], strict=False)):
            raise ValueError("the work of a cost table never falls")

    @classmethod
    def from_costs(cls, costs: NDArray[np.int64], max_entries: int = MAX_TABLE_ENTRIES) -> CostTable:
        """Summarise the costs of all items; parameters and errors of :func:`find_breakpoints`."""
        items, work = find_breakpoints(costs, max_entries)
        return cls(tuple(items.tolist()), tuple(work.tolist()))

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return self.items[-1]

    @property
    def total(self) -> int:
        """Cost of all items, in work units."""
        return self.work[-1]

    def work_between(self, start: int, stop: int) -> int:
        """Cost of the items [start, stop): exact between breakpoints, in proportion to the items elsewhere."""
        return self._work_before(stop) - self._work_before(start)

    def _work_before(self, item: int) -> int:
        index = bisect_left(self.items, item)
        if self.items[index] == item:
            return self.work[index]
        first, last = self.items[index - 1], self.items[index]
        below, above = self.work[index - 1], self.work[index]
        return below + (above - below) * (item - first) // (last - first)

    def advance(self, start: int, work: int) -> int:
        """Return the first breakpoint after ``start`` by which ``work`` more units are done, or the last one."""
        first = bisect_right(self.items, start)
        index = bisect_left(self.work, self._work_before(start) + work, lo=first)
        return self.items[min(index, len(self.items) - 1)]


def find_breakpoints(
    costs: NDArray[np.int64], max_entries: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return breakpoints of the items and the cost of all items before each; O(n_items).

    Breakpoints lie at equal steps of the work, so that no step between two of them holds more than one heavy
    item, or more than ``1 / max_entries`` of the work. They begin with 0 and end with ``n_items``; both arrays are of
    int64 and one shape.

    Raises
    ------
    CapacityError
        When the total passes 2^62 units.
    """
    n_items = int(costs.size)
    if n_items == 0:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    if float(costs.sum(dtype=np.float64)) > _MAX_WORK:
        raise CapacityError(f"the predicted work is above {_MAX_WORK} units; such a job cannot be planned")
    cumulative = np.cumsum(costs, dtype=np.int64)
    total = int(cumulative[-1])
    if n_items <= max_entries:
        ends = np.arange(1, n_items + 1)
    else:
        steps = np.array([total * k // max_entries for k in range(1, max_entries + 1)], dtype=np.int64)
        ends = np.unique(np.searchsorted(cumulative, steps, side="left") + 1)
        ends[-1] = n_items
    return np.concatenate(([0], ends)), np.concatenate(([0], cumulative[ends - 1]))
