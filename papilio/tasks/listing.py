"""Put the listings of leases together, in whatever order they come."""

from __future__ import annotations

from papilio.errors import ExecutionError, TilingError, UnsupportedError
from papilio.kernels.engine import Partial
from papilio.storage.listings import ListingShard, check_listing_shard
from papilio.tasks.fold import PartialFold
from papilio.tasks.job import EngineChoice
from papilio.tasks.leases import LeaseBook
from papilio.tasks.plan import CountPlan
from papilio.tasks.run import LeaseResult

__all__ = ["ListingFold", "make_fold", "require_cpu", "shard_of"]


def require_cpu(engine: EngineChoice) -> None:
    """Refuse to list on anything but CPUs.

    Raises
    ------
    UnsupportedError
        For the engine ``gpu``, or one that there is not.
    """
    if engine not in ("auto", "cpu"):
        raise UnsupportedError(
            f"bicliques are listed on CPUs, and engine is {engine!r}; give 'cpu' or 'auto'"
        )


def shard_of(result: LeaseResult) -> ListingShard | None:
    """Return the file of what a lease listed; None when it listed nothing."""
    if result.shard is None:
        return None
    return ListingShard(result.shard.path, result.shard.checksum, result.total)


class ListingFold:
    """Collects the shards of a listing, each item exactly once, until it has as many rows as are asked for.

    Parameters
    ----------
    plan : CountPlan
        Of the job.
    """

    def __init__(self, plan: CountPlan) -> None:
        assert plan.job.listing is not None, "the job counts"
        self._limit = plan.job.listing.limit
        self._n_items = plan.n_items
        self._book = LeaseBook([partition.n_items for partition in plan.partitions])
        self._shards: dict[tuple[int, int], ListingShard] = {}
        self._rows = self._work = self._done = 0

    @property
    def is_full(self) -> bool:
        """Whether there are as many rows as are asked for, so that no further lease is needed."""
        return self._limit is not None and self._rows >= self._limit

    @property
    def shards(self) -> tuple[ListingShard, ...]:
        """The files, in the order of the items."""
        return tuple(shard for _, shard in sorted(self._shards.items()))

    def add(self, result: LeaseResult) -> None:
        """Add one result.

        Raises
        ------
        TilingError
            When its interval overlaps what was added before, or passes the items.
        ExecutionError
            When its file is missing, or it ended before its end without having reached the limit.
        StoreError
            When its file is unreadable, or not what was written.
        """
        shard = shard_of(result)
        if (shard is None) != (result.total == 0):
            raise ExecutionError(
                f"worker {result.worker} listed {result.total} motifs and gave "
                f"{'no file' if shard is None else f'the file {shard.path}'}"
            )
        if result.capped and result.total != self._limit:
            raise ExecutionError(
                f"worker {result.worker} ended a lease at {result.total} motifs; the limit is {self._limit}"
            )
        if shard is not None:
            check_listing_shard(shard)
        self._book.record(result.partition, result.start, result.stop)
        if shard is not None:
            self._shards[result.partition, result.start] = shard
        self._rows += result.total
        self._work += result.work
        self._done += result.stop - result.start

    def finish(self) -> Partial:
        """Return the number of rows, at most the limit, and the work done.

        Raises
        ------
        TilingError
            Unless the limit was reached, or the results tile every partition exactly.
        """
        if not self.is_full:
            self._book.require_complete()
            if self._done != self._n_items:
                raise TilingError(f"{self._done} items were added of {self._n_items}")
        rows = self._rows if self._limit is None else min(self._rows, self._limit)
        return Partial(self._done, rows, self._work, capped=self.is_full)


def make_fold(plan: CountPlan, *, keep_shards: bool) -> PartialFold | ListingFold:
    """Return what puts the results of a job together.

    Parameters
    ----------
    plan : CountPlan
    keep_shards : bool
        Whether shards of vectors stay once they are added; those of a listing do.
    """
    return PartialFold(plan, keep_shards=keep_shards) if plan.job.listing is None else ListingFold(plan)
