"""Fold the partials of a job into its answer, in whatever order they come.

Put the listings of leases together, in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, ExecutionError, TilingError
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import Cell, Motif
from papilio.storage.answers import read_partial_shard
from papilio.storage.files import slices_of
from papilio.storage.listings import ListingShard, check_listing_shards
from papilio.tasks.job import JobSpec
from papilio.tasks.leases import LeaseBook
from papilio.tasks.parts import PartVectors, zero_vectors
from papilio.tasks.plan import CountPlan
from papilio.tasks.reports import LeaseResult


class PartialFold:
    """Adds up lease results, each item exactly once.

    A result is recorded in the lease book before it is added: an interval that overlaps another, or that passes the
    items, is refused and changes nothing.

    Vectors are sums modulo 2^64 until the end. Each motif adds as much to the sum of all entries as it has members (a
    biclique p in U and q in V, a butterfly 4 to that of the edges), so that the sums, taken with all their digits, show
    whether an entry wrapped. Vectors of the parts of a graph are added at the ids of the whole, in files of
    ``directory`` where they do not fit the host budget. Shards go once they are added unless ``keep_shards``.
    """

    def __init__(
        self, plan: CountPlan, *, keep_shards: bool = False, directory: str | Path | None = None
    ) -> None:
        self._keep_shards = keep_shards
        self._job = plan.job
        self._n_items = plan.n_items
        self._book = LeaseBook([partition.n_items for partition in plan.partitions])
        self._parts: PartVectors | None = None
        if plan.job.partition is not None and plan.job.vector_entries:
            self._parts = PartVectors(plan.job, None if directory is None else Path(directory))
        vectors = {} if self._parts is not None else zero_vectors(plan.job)
        self._partial = Partial(0, 0, 0, vectors, n_best=plan.job.motif.n_best)

    @property
    def is_full(self) -> bool:
        """Whether no further lease is needed: a count needs all of them."""
        return False

    def add(self, result: LeaseResult) -> None:
        """Add one result.

        TilingError when its interval overlaps what was added before, or passes the items. ExecutionError when its
        vectors are missing, or those of another granularity; when its cells do not sum to its total, or were not asked
        for. StoreError when its shard cannot be read or does not have its digest.
        """
        vectors = result.vectors
        if result.shard is not None:
            vectors = read_partial_shard(result.shard.path, result.shard.digest)
        if self._parts is None:
            self._require_shapes(vectors, result.worker)
        wrong = find_wrong_cell(self._job.motif, result.cells, result.total)
        if wrong is not None:
            raise ExecutionError(f"worker {result.worker} answered {wrong}")
        self._book.record(result.partition, result.start, result.stop)
        if self._parts is not None:
            self._parts.add(result.partition, vectors, result.worker)
            vectors = {}
        partial = Partial(
            result.stop - result.start,
            result.total,
            result.work,
            vectors,
            result.cells,
            checksum=result.checksum,
            best=result.best,
        )
        self._partial = fold_partials(self._partial, partial)
        if result.shard is not None and not self._keep_shards:
            Path(result.shard.path).unlink(missing_ok=True)

    def _require_shapes(self, vectors: dict[str, NDArray[np.uint64]], worker: str) -> None:
        expected = {name: vector.shape for name, vector in self._partial.vectors.items()}
        found = {name: vector.shape for name, vector in vectors.items()}
        if found != expected:
            raise ExecutionError(f"worker {worker} answered vectors {found}; the job needs {expected}")

    def finish(self) -> Partial:
        """Return the folded partial of all items.

        TilingError unless the results tile every partition exactly. CapacityError when a count of bicliques per vertex
        passed 2^64 - 1. ExecutionError when the vectors do not sum to the total. StoreError when the partition was
        replaced while its vectors were added.
        """
        self._book.require_complete()
        if self._partial.n_items != self._n_items:
            raise TilingError(f"{self._partial.n_items} items were added of {self._n_items}")
        partial = self._partial
        if self._parts is not None:
            self._parts.require_unchanged()
            partial = replace(partial, vectors=self._parts.vectors)
        _check_sums(self._job, partial)
        return partial


def find_wrong_cell(motif: Motif, cells: Mapping[Cell, int], total: int) -> str | None:
    """Say what is wrong with the cells of a partial of ``motif``, or return None.

    A motif that is no table has none; a table has cells that were asked for, above 0, whose sum is ``total``.
    """
    if not motif.is_table:
        return f"{len(cells)} cells; the job needs none" if cells else None
    for cell, count in cells.items():
        if count < 1 or not motif.has_cell(cell):
            return f"{count} in cell {cell}; the job needs {motif.title}"
    sum_ = sum(cells.values())
    return None if sum_ == total else f"cells that sum to {sum_}, and the total {total}"


def _check_sums(job: JobSpec, partial: Partial) -> None:
    motif = job.motif
    sums = job.family.vector_sums(motif, partial.total, partial.cells)
    for name, vector in partial.vectors.items():
        found, expected = exact_sum(vector), sums[name]
        if found == expected:
            continue
        if partial.total >= 1 << 64:
            raise CapacityError(
                f"there are {partial.total} of {motif.title}, and one vertex of layer {name} is in more than "
                f"{(1 << 64) - 1}, which a count per vertex cannot hold; count in all, or larger or smaller sides"
            )
        raise ExecutionError(
            f"the counts of layer {name} sum to {found}; {partial.total} of {motif.title} need {expected}"
        )


def exact_sum(vector: NDArray[np.uint64]) -> int:
    """Return the sum with all its digits; 2^32 entries at most in a slice."""
    total = 0
    for part in slices_of(vector):
        high, low = part >> np.uint64(32), part & np.uint64(0xFFFFFFFF)
        total += (int(high.sum()) << 32) + int(low.sum())
    return total


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
