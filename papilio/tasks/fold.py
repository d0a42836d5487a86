"""Fold the partials of a job into its answer, in whatever order they come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError, TilingError
from papilio.kernels.engine import Partial, fold_partials
from papilio.storage.results import read_partial_shard
from papilio.tasks.job import JobSpec
from papilio.tasks.leases import LeaseBook
from papilio.tasks.plan import CountPlan
from papilio.tasks.run import LeaseResult

__all__ = ["PartialFold"]


class PartialFold:
    """Adds up lease results, each item exactly once.

    A result is recorded in the lease book before it is added: an interval that overlaps another, or that
    passes the items, is refused and changes nothing.

    Parameters
    ----------
    plan : CountPlan
        Of the job.
    keep_shards : bool
        Whether shards stay once they are added.
    """

    def __init__(self, plan: CountPlan, *, keep_shards: bool = False) -> None:
        self._keep_shards = keep_shards
        self._n_items = plan.n_items
        self._book = LeaseBook([partition.n_items for partition in plan.partitions])
        self._partial = Partial(0, 0, 0, _zero_vectors(plan.job))

    def add(self, result: LeaseResult) -> None:
        """Add one result.

        Raises
        ------
        TilingError
            When its interval overlaps what was added before, or passes the items.
        ExecutionError
            When its vectors are missing, or those of another granularity.
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
        self._book.record(result.partition, result.start, result.stop)
        partial = Partial(result.stop - result.start, result.total, result.work, vectors)
        self._partial = fold_partials(self._partial, partial)
        if result.shard is not None and not self._keep_shards:
            Path(result.shard.path).unlink(missing_ok=True)

    def finish(self) -> Partial:
        """Return the folded partial of all items.

        Raises
        ------
        TilingError
            Unless the results tile every partition exactly.
        """
        self._book.require_complete()
        if self._partial.n_items != self._n_items:
            raise TilingError(f"{self._partial.n_items} items were added of {self._n_items}")
        return self._partial


def _zero_vectors(job: JobSpec) -> dict[str, NDArray[np.uint64]]:
    sizes = {"total": {}, "vertex": {"u": job.n_u, "v": job.n_v}, "edge": {"edge": job.n_edges}}[job.per]
    return {name: np.zeros(size, dtype=np.uint64) for name, size in sizes.items()}
