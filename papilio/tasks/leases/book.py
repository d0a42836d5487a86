"""Which intervals are finished: each item of each partition exactly once, or no answer."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from papilio.errors import TilingError
from papilio.kernels.costs import Interval


class LeaseBook:
    """Finished intervals of every partition of one job, in memory; not safe for several threads at once."""

    def __init__(self, n_items: Sequence[int]) -> None:
        self._n_items = tuple(n_items)
        self._finished: list[list[Interval]] = [[] for _ in self._n_items]

    def record(self, partition: int, start: int, stop: int) -> None:
        """Note that [start, stop) of ``partition`` is finished; O(log) search, O(leases) insertion.

        TilingError when the interval is empty, passes the items, or overlaps one that is already finished.
        """
        if not 0 <= partition < len(self._n_items):
            raise TilingError(f"partition {partition} was finished; the plan has {len(self._n_items)}")
        n_items = self._n_items[partition]
        name = f"items [{start}, {stop}) of partition {partition}"
        if not 0 <= start < stop <= n_items:
            raise TilingError(f"{name} were finished; the partition has items [0, {n_items})")
        finished = self._finished[partition]
        at = bisect_left(finished, (start, stop))
        for other in finished[max(at - 1, 0) : at + 1]:
            if other[0] < stop and start < other[1]:
                raise TilingError(f"{name} overlap the finished items [{other[0]}, {other[1]})")
        insort(finished, (start, stop))

    def missing(self, partition: int) -> tuple[Interval, ...]:
        """Return the intervals of ``partition`` that no record covers, in rising order."""
        gaps: list[Interval] = []
        at = 0
        for start, stop in [*self._finished[partition], (self._n_items[partition], self._n_items[partition])]:
            if at < start:
                gaps.append((at, start))
            at = stop
        return tuple(gaps)

    def finished(self, partition: int) -> tuple[Interval, ...]:
        """Return the recorded intervals of ``partition``, in rising order."""
        return tuple(self._finished[partition])

    @property
    def n_finished(self) -> int:
        return sum(len(finished) for finished in self._finished)

    def require_complete(self) -> None:
        """Refuse to go on unless the records tile every partition exactly. TilingError naming the first gap."""
        for partition in range(len(self._n_items)):
            gaps = self.missing(partition)
            if gaps:
                raise TilingError(
                    f"items [{gaps[0][0]}, {gaps[0][1]}) of partition {partition} were never finished "
                    f"({len(gaps)} gaps in {self._n_items[partition]} items); the count would be wrong"
                )
