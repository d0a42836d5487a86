"""Put the listings of leases together, in whatever order they come."""

from __future__ import annotations

from pathlib import Path

from papilio.errors import ExecutionError, TilingError
from papilio.kernels.engine import Partial
from papilio.storage.listings import ListingShard, check_listing_shards
from papilio.tasks.fold import PartialFold
from papilio.tasks.leases.book import LeaseBook
from papilio.tasks.plan import CountPlan
from papilio.tasks.reports import LeaseResult


class ListingFold:
    """Collects the shards of a listing, each item exactly once, until it has as many rows as are asked for."""

    def __init__(self, plan: CountPlan) -> None:
        assert plan.job.listing is not None, "the job counts"
        self._limit = plan.job.listing.limit
        self._n_items = plan.n_items
        self._book = LeaseBook([partition.n_items for partition in plan.partitions])
        self._shards: dict[tuple[int, int], tuple[ListingShard, ...]] = {}
        self._rows = self._work = self._done = self._checksum = 0

    @property
    def is_full(self) -> bool:
        """Whether there are as many rows as are asked for, so that no further lease is needed."""
        return self._limit is not None and self._rows >= self._limit

    @property
    def shards(self) -> tuple[ListingShard, ...]:
        """The files, in the order of the items."""
        return tuple(shard for _, shards in sorted(self._shards.items()) for shard in shards)

    def add(self, result: LeaseResult) -> None:
        """Add one result.

        TilingError when its interval overlaps what was added before, or passes the items. ExecutionError when its files
        do not have its rows, or it ended before its end without having reached the limit. StoreError when a file is
        unreadable, or not what was written.
        """
        rows = sum(shard.rows for shard in result.listed)
        if rows != result.total:
            raise ExecutionError(
                f"worker {result.worker} listed {result.total} motifs and gave files of {rows} rows"
            )
        if result.capped and result.total != self._limit:
            raise ExecutionError(
                f"worker {result.worker} ended a lease at {result.total} motifs; the limit is {self._limit}"
            )
        check_listing_shards(result.listed)
        self._book.record(result.partition, result.start, result.stop)
        self._shards[result.partition, result.start] = result.listed
        self._rows += result.total
        self._work += result.work
        self._checksum = (self._checksum + result.checksum) % (1 << 64)
        self._done += result.stop - result.start

    def finish(self) -> Partial:
        """Return the number of rows, at most the limit, and the work done.

        TilingError unless the limit was reached, or the results tile every partition exactly.
        """
        if not self.is_full:
            self._book.require_complete()
            if self._done != self._n_items:
                raise TilingError(f"{self._done} items were added of {self._n_items}")
        rows = self._rows if self._limit is None else min(self._rows, self._limit)
        return Partial(self._done, rows, self._work, capped=self.is_full, checksum=self._checksum)


def make_fold(
    plan: CountPlan, *, keep_shards: bool, directory: str | Path | None = None
) -> PartialFold | ListingFold:
    """Return what puts the results of a job together; options as for :class:`PartialFold`."""
    if plan.job.listing is not None:
        return ListingFold(plan)
    return PartialFold(plan, keep_shards=keep_shards, directory=directory)
