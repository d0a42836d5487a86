"""Fold the partials of a job into its answer, in whatever order they come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, ExecutionError, TilingError
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import Biclique
from papilio.storage.results import read_partial_shard
from papilio.tasks.cells import find_wrong_cell
from papilio.tasks.job import JobSpec
from papilio.tasks.leases import LeaseBook
from papilio.tasks.plan import CountPlan
from papilio.tasks.run import LeaseResult

__all__ = ["PartialFold"]


class PartialFold:
    """Adds up lease results, each item exactly once.

    A result is recorded in the lease book before it is added: an interval that overlaps another, or that
    passes the items, is refused and changes nothing.

    Counts of bicliques per vertex are sums modulo 2^64 until the end. Each biclique adds p to the sum of all
    entries of U and q to that of V, so that the sums, taken with all their digits, show whether an entry wrapped.

    Parameters
    ----------
    plan : CountPlan
        Of the job.
    keep_shards : bool
        Whether shards stay once they are added.
    """

    def __init__(self, plan: CountPlan, *, keep_shards: bool = False) -> None:
        self._keep_shards = keep_shards
        self._job = plan.job
        self._n_items = plan.n_items
        self._book = LeaseBook([partition.n_items for partition in plan.partitions])
        self._partial = Partial(0, 0, 0, _zero_vectors(plan.job))

    @property
    def is_full(self) -> bool:
        """Whether no further lease is needed: a count needs all of them."""
        return False

    def add(self, result: LeaseResult) -> None:
        """Add one result.

        Raises
        ------
        TilingError
            When its interval overlaps what was added before, or passes the items.
        ExecutionError
            When its vectors are missing, or those of another granularity; when its cells do not sum to its total,
            or were not asked for.
        StoreError
            When its shard cannot be read or does not match its checksum.
        """
        vectors = result.vectors
        if result.shard is not None:
            vectors = read_partial_shard(result.shard.path, result.shard.checksum)
        expected = {name: vector.shape for name, vector in self._partial.vectors.items()}
        found = {name: vector.shape for name, vector in vectors.items()}
        if found != expected:
            raise ExecutionError(f"worker {result.worker} answered vectors {found}; the job needs {expected}")
        wrong = find_wrong_cell(self._job.motif, result.cells, result.total)
        if wrong is not None:
            raise ExecutionError(f"worker {result.worker} answered {wrong}")
        self._book.record(result.partition, result.start, result.stop)
        partial = Partial(result.stop - result.start, result.total, result.work, vectors, result.cells)
        self._partial = fold_partials(self._partial, partial)
        if result.shard is not None and not self._keep_shards:
            Path(result.shard.path).unlink(missing_ok=True)

    def finish(self) -> Partial:
        """Return the folded partial of all items.

        Raises
        ------
        TilingError
            Unless the results tile every partition exactly.
        CapacityError
            When a count of bicliques per vertex passed 2^64 - 1.
        ExecutionError
            When the vectors do not sum to the total.
        """
        self._book.require_complete()
        if self._partial.n_items != self._n_items:
            raise TilingError(f"{self._partial.n_items} items were added of {self._n_items}")
        if self._partial.vectors and isinstance(self._job.motif, Biclique):
            _check_sums(self._job.motif, self._partial)
        return self._partial


def _check_sums(motif: Biclique, partial: Partial) -> None:
    """Refuse vectors of which an entry wrapped, or that are not those of the total."""
    for name, size in (("u", motif.p), ("v", motif.q)):
        assert size is not None, "tables have no vectors"
        found, expected = _exact_sum(partial.vectors[name]), size * partial.total
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


def _exact_sum(vector: NDArray[np.uint64]) -> int:
    """Return the sum with all its digits; 2^32 entries at most."""
    high, low = vector >> np.uint64(32), vector & np.uint64(0xFFFFFFFF)
    return (int(high.sum()) << 32) + int(low.sum())


def _zero_vectors(job: JobSpec) -> dict[str, NDArray[np.uint64]]:
    sizes = {"total": {}, "vertex": {"u": job.n_u, "v": job.n_v}, "edge": {"edge": job.n_edges}}[job.per]
    return {name: np.zeros(size, dtype=np.uint64) for name, size in sizes.items()}
