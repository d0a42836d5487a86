"""Ranges of work items: from the costs of the items to the leases that workers take one after the other.

Items are ordered heaviest first. Leases are guided: each takes a fixed share of the work that is still left,
so that they are long at the start (little overhead) and short at the end (all workers finish together).
Everything here is a pure function of integers, the same on every machine.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError

__all__ = ["MAX_TABLE_ENTRIES", "CostTable", "Interval", "split_guided"]

Interval = tuple[int, int]
"""Work items [start, stop)."""

MAX_TABLE_ENTRIES = 4096
"""Entries of a cost table: 64 leases for each of 64 workers, and about 100 KiB when it travels."""

GUIDED_SHARE = 2
"""A lease takes 1 / (GUIDED_SHARE * workers) of the work left: with 2, a first lease that runs twice as
long as predicted still ends before the rest does."""

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
        """Summarise the costs of all items; O(n_items).

        Breakpoints lie at equal steps of the work, so that no step between two of them holds more than one
        heavy item, or more than ``1 / max_entries`` of the work.

        Parameters
        ----------
        costs : ndarray of int64, shape (n_items,), host
            Cost of each item, at least 0.
        max_entries : int
            Largest number of steps, at least 1.

        Raises
        ------
        CapacityError
            When the total passes 2^62 units.
        """
        n_items = int(costs.size)
        if n_items == 0:
            return cls((0,), (0,))
        if float(costs.sum(dtype=np.float64)) > _MAX_WORK:
            raise CapacityError(
                f"the predicted work is above {_MAX_WORK} units; such a job cannot be planned"
            )
        cumulative = np.cumsum(costs, dtype=np.int64)
        total = int(cumulative[-1])
        if n_items <= max_entries:
            ends = np.arange(1, n_items + 1)
        else:
            steps = np.array([total * k // max_entries for k in range(1, max_entries + 1)], dtype=np.int64)
            ends = np.unique(np.searchsorted(cumulative, steps, side="left") + 1)
            ends[-1] = n_items
        return cls(
            (0, *(int(end) for end in ends)),
            (0, *(int(work) for work in cumulative[ends - 1])),
        )

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return self.items[-1]

    @property
    def total(self) -> int:
        """Cost of all items, in work units."""
        return self.work[-1]

    def work_of(self, start: int, stop: int) -> int:
        """Cost of the items [start, stop), both of which must be breakpoints."""
        return self.work[self._index(stop)] - self.work[self._index(start)]

    def _index(self, item: int) -> int:
        index = bisect_left(self.items, item)
        if index == len(self.items) or self.items[index] != item:
            raise ValueError(f"item {item} is no breakpoint of the cost table")
        return index

    def to_json(self) -> dict[str, Any]:
        """Return ``{"items": [...], "work": [...]}``."""
        return {"items": list(self.items), "work": list(self.work)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CostTable:
        """Rebuild a table from :meth:`to_json`'s form."""
        return cls(tuple(data["items"]), tuple(data["work"]))


def split_guided(
    table: CostTable, n_workers: int, min_work: int, max_work: int | None = None
) -> tuple[Interval, ...]:
    """Cut all items into leases, large first and shrinking.

    Parameters
    ----------
    table : CostTable
        Costs of the items; leases end at its breakpoints.
    n_workers : int
        Workers that will take leases, at least 1.
    min_work : int
        No lease is smaller than this, except the only one of a job that is; a rest below it joins the last
        lease.
    max_work : int, optional
        No lease aims higher than this (a single item may still cost more).

    Returns
    -------
    tuple of (start, stop)
        Intervals in rising order that tile [0, n_items): no gap, no overlap, none empty. At least one for
        each worker when the work is at least ``2 * n_workers * min_work`` and no single item is heavier than
        ``1 / (2 * n_workers)`` of it.
    """
    if n_workers < 1:
        raise ValueError(f"n_workers is {n_workers}; at least 1")
    leases: list[Interval] = []
    at, last = 0, len(table.items) - 1
    while at < last:
        left = table.total - table.work[at]
        aim = max(left // (GUIDED_SHARE * n_workers), min_work, 1)
        if max_work is not None:
            aim = min(aim, max(max_work, min_work, 1))
        end = min(bisect_left(table.work, table.work[at] + aim, lo=at + 1), last)
        if table.total - table.work[end] < min_work:
            end = last
        leases.append((table.items[at], table.items[end]))
        at = end
    return tuple(leases)
