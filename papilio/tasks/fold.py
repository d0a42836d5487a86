"""Fold the partials of a job, or the files of a listing, into its answer, in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, ExecutionError, TilingError
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import Cell
from papilio.question import Question
from papilio.storage.answers import read_partial_shard
from papilio.storage.files import slices_of
from papilio.storage.listings import ListingShard, check_listing_shards
from papilio.tasks.job import JobSpec, LeaseResult
from papilio.tasks.leases import FinishedIntervals
from papilio.tasks.parts import PartVectors, zero_vectors
from papilio.tasks.plan import CountPlan


class Fold:
    """Add up lease results, each item exactly once; a listing only until it reaches its limit of rows.

    A result is recorded as finished before it is added: an interval that overlaps another, or that passes the items,
    raises and changes nothing.

    Vectors are sums modulo 2^64 until the end. Each motif adds its number of members (p in U and q in V for a biclique,
    4 edges for a butterfly) to the sum of all entries, so the exact sums show whether an entry wrapped. Vectors of
    parts are added at the ids of the whole graph, in files in ``directory`` if they do not fit the host budget. Shards
    are removed once added unless ``keep_shards``; the files of a listing stay.
    """

    def __init__(self, plan: CountPlan, *, keep_shards: bool = False, directory: str | Path | None = None) -> None:
        self._keep_shards = keep_shards
        self._job = plan.job
        self._limit = None if plan.job.listing is None else plan.job.listing.limit
        self._n_items = plan.n_items
        self._done = FinishedIntervals([partition.n_items for partition in plan.partitions])
        self._listed: dict[tuple[int, int], tuple[ListingShard, ...]] = {}
        self._parts: PartVectors | None = None
        if plan.job.partition is not None and plan.job.vector_entries:
            self._parts = PartVectors(plan.job, None if directory is None else Path(directory))
        vectors = {} if self._parts is not None else zero_vectors(plan.job.vector_sizes)
        self._partial = Partial(0, 0, 0, vectors, n_best=plan.job.motif.n_best)

    @property
    def is_full(self) -> bool:
        """Whether no further lease is needed: a listing has reached its limit of rows."""
        return self._limit is not None and self._partial.total >= self._limit

    @property
    def listed(self) -> tuple[ListingShard, ...]:
        """The files of a listing, in the order of the items."""
        return tuple(shard for _, shards in sorted(self._listed.items()) for shard in shards)

    def add(self, result: LeaseResult) -> None:
        """Add one result.

        TilingError if its interval overlaps an earlier one, or passes the items. ExecutionError if vectors are
        missing or of another granularity; when cells do not sum to the total, or were not requested; when the number of
        rows in its files is wrong, or it stopped early without reaching the limit. StoreError if a file cannot be
        read or does not match its digest.
        """
        vectors = result.vectors
        if result.shard is not None:
            vectors = read_partial_shard(result.shard.path, result.shard.digest)
        if self._parts is None:
            self._require_shapes(vectors, result.worker)
        if self._job.listing is not None:
            self._require_rows(result)
        elif wrong := find_wrong_cell(self._job, result.cells, result.total):
            raise ExecutionError(f"worker {result.worker} answered {wrong}")
        self._done.record(result.partition, result.start, result.stop)
        self._listed[result.partition, result.start] = result.listed
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
            raise ExecutionError(f"worker {worker} returned vectors {found}; the job needs {expected}")

    def _require_rows(self, result: LeaseResult) -> None:
        rows = sum(shard.rows for shard in result.listed)
        if rows != result.total:
            raise ExecutionError(f"worker {result.worker} listed {result.total} motifs, but its files have {rows} rows")
        if result.capped and result.total != self._limit:
            raise ExecutionError(
                f"worker {result.worker} ended a lease at {result.total} motifs; the limit is {self._limit}"
            )
        check_listing_shards(result.listed)

    def finish(self) -> Partial:
        """Return the folded partial of all items; for a listing at its limit, of the items that it needed.

        TilingError unless the results tile every partition exactly. CapacityError if a count of bicliques per vertex
        passed 2^64 - 1. ExecutionError if the vectors do not sum to the total. StoreError if the partition was
        replaced while its vectors were added.
        """
        partial = self._partial
        if self.is_full:
            assert self._limit is not None
            return replace(partial, total=self._limit, capped=True)
        self._done.require_complete()
        if partial.n_items != self._n_items:
            raise TilingError(f"{partial.n_items} of {self._n_items} items were added")
        if self._parts is not None:
            self._parts.require_unchanged()
            partial = replace(partial, vectors=self._parts.vectors)
        _check_sums(self._job, partial)
        return partial


def find_wrong_cell(question: Question, cells: Mapping[Cell, int], total: int) -> str | None:
    """Return the problem with the cells of a partial of ``question``, or None.

    Cells exist only for a motif with a table: they were requested, are above 0, and sum to ``total``. With random
    graphs all counts are in cells, and the cells of the original graph sum to ``total``.
    """
    motif, ensemble = question.motif, question.ensemble
    if ensemble is None and not motif.is_table:
        return f"{len(cells)} cells; the job needs none" if cells else None
    are_right = ensemble is None and motif.has_cells(cells) and min(cells.values(), default=1) >= 1
    for cell, count in () if are_right else cells.items():
        known = motif.has_cell(cell) if ensemble is None else ensemble.has_cell(motif, cell)
        if count < 1 or not known:
            return f"{count} in cell {cell}; the job needs {question.title}"
    sum_ = sum(count for cell, count in cells.items() if ensemble is None or cell[0] == ensemble.given)
    return None if sum_ == total else f"cells that sum to {sum_}, and the total {total}"


def _check_sums(job: JobSpec, partial: Partial) -> None:
    if not partial.vectors:
        return
    motif = job.motif
    sums = job.row.vector_sums(motif, partial.total, {} if job.ensemble else partial.cells)
    for name, expected in sums.items():
        if name not in partial.vectors:
            continue
        found = exact_sum(partial.vectors[name])
        if found == expected:
            continue
        if partial.total >= 1 << 64:
            raise CapacityError(
                f"there are {partial.total} of {motif.title}, and one vertex of layer {name} is in more than "
                f"{(1 << 64) - 1}, the maximum of a count per vertex; count in total, or use larger or smaller sides"
            )
        raise ExecutionError(
            f"the counts of layer {name} sum to {found}; {partial.total} of {motif.title} need {expected}"
        )


def exact_sum(vector: NDArray[np.uint64]) -> int:
    """Return the exact sum as a Python integer; a slice holds at most 2^32 entries."""
    total = 0
    for part in slices_of(vector):
        high, low = part >> np.uint64(32), part & np.uint64(0xFFFFFFFF)
        total += (int(high.sum()) << 32) + int(low.sum())
    return total
