"""Leases for what earlier sessions of a job left over: guided over the missing items as if they were one row."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from papilio.partitioning.root_ranges import CostTable, Interval, split_guided

__all__ = ["split_remaining", "work_between"]


def _work_before(table: CostTable, item: int) -> int:
    """Return the cost of all items before ``item``: exact at a breakpoint, in proportion between two."""
    index = bisect_left(table.items, item)
    if table.items[index] == item:
        return table.work[index]
    first, last = table.items[index - 1], table.items[index]
    below, above = table.work[index - 1], table.work[index]
    return below + (above - below) * (item - first) // (last - first)


def work_between(table: CostTable, start: int, stop: int) -> int:
    """Return the cost of the items [start, stop): exact between breakpoints, else by proportion."""
    return _work_before(table, stop) - _work_before(table, start)


def split_remaining(
    table: CostTable, gaps: Sequence[Interval], n_workers: int, min_work: int, max_work: int | None = None
) -> list[tuple[int, int, int]]:
    """Cut the missing items into leases, large first and shrinking.

    Parameters
    ----------
    table : CostTable
        Costs of all items of the partition.
    gaps : sequence of (start, stop)
        The missing items, in rising order, disjoint; their ends need not be breakpoints.
    n_workers, min_work, max_work : int
        As for :func:`papilio.partitioning.root_ranges.split_guided`.

    Returns
    -------
    list of (start, stop, work)
        Intervals in rising order that tile the gaps. A lease that would reach over the end of a gap is cut
        there, and may then be smaller than ``min_work``.
    """
    items, work = [0], [0]
    offsets: list[tuple[int, int]] = []
    for start, stop in gaps:
        offsets.append((items[-1], start))
        inside = table.items[bisect_right(table.items, start) : bisect_left(table.items, stop)]
        shift, base = items[-1] - start, work[-1] - _work_before(table, start)
        for item in (*inside, stop):
            items.append(item + shift)
            work.append(_work_before(table, item) + base)
    leases = []
    ends = [begin for begin, _ in offsets[1:]] + [items[-1]]
    for low, high in split_guided(CostTable(tuple(items), tuple(work)), n_workers, min_work, max_work):
        for (begin, start), end in zip(offsets, ends, strict=True):
            first, last = max(low, begin), min(high, end)
            if first < last:
                interval = (first - begin + start, last - begin + start)
                leases.append((*interval, work_between(table, *interval)))
    return leases
