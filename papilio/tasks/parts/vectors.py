"""Counts per vertex or edge of a partitioned graph: sums of the vectors of parts, at the ids of the whole graph."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError, StoreError
from papilio.partitioning.block_ids import read_vector_ids
from papilio.storage.array_file import SLICE_ENTRIES, file_vector, release_memory, release_pages
from papilio.tasks.graphs import open_job_partition
from papilio.tasks.job import JobSpec
from papilio.tasks.memory import fold_bytes

_KEPT_BYTES = 64 << 20
"""Ids of parts that are kept for the next leases of these where no budget is set; else those of the last part alone."""


@dataclass(frozen=True, eq=False)
class _Places:
    ids: NDArray[Any]  # in the whole graph
    # places by the slice of the whole, and where each slice begins; for a sum in a file
    order: NDArray[np.int64] | None = None
    cuts: NDArray[np.int64] | None = None

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes) + (0 if self.order is None else int(self.order.nbytes))


class PartVectors:
    """The sums of the vectors of all parts of a job.

    They are in memory, or, where the host budget of the job does not leave room for that, in files without a name (in
    ``directory``, by default that for temporary files), of which a slice is in memory at a time.
    """

    def __init__(self, job: JobSpec, directory: Path | None = None) -> None:
        self._job = job
        self._partition = open_job_partition(job)
        limit = job.budget.host_bytes
        self._in_files = limit is not None and fold_bytes(job, limit) < 8 * job.vector_entries
        self._kept: OrderedDict[int, dict[str, _Places]] = OrderedDict()
        self._kernels: Any = import_module("papilio.partitioning.scatter")
        if self._in_files:
            place = directory or Path(tempfile.gettempdir())
            self.vectors = {name: file_vector(place, size) for name, size in job.vector_sizes.items()}
        else:
            self.vectors = zero_vectors(job)

    def add(self, index: int, vectors: dict[str, NDArray[np.uint64]], worker: str) -> None:
        """Add the vectors of some items of a part.

        ExecutionError when they are not of the shape that the part has. StoreError when the ids of the part cannot be
        read, or are not those of the graph.
        """
        places = self._places(index)
        expected = {name: each.ids.shape for name, each in places.items()}
        found = {name: vector.shape for name, vector in vectors.items()}
        if found != expected:
            raise ExecutionError(f"worker {worker} answered vectors {found}; part {index} needs {expected}")
        for name, place in places.items():
            if place.order is None:
                self._kernels.scatter_add(self.vectors[name], place.ids, vectors[name])
            else:
                self._add_by_slices(self.vectors[name], place, vectors[name])

    def require_unchanged(self) -> None:
        """Check that the ids were all read from the partition that the leases counted.

        StoreError when another one is in its place by now.
        """
        open_job_partition(self._job)

    def _add_by_slices(self, whole: NDArray[np.uint64], place: _Places, values: NDArray[np.uint64]) -> None:
        assert place.cuts is not None, "it comes with the order"
        for number, (first, last) in enumerate(pairwise(place.cuts)):
            if first < last:
                base = number * SLICE_ENTRIES
                part = np.asarray(whole[base : base + SLICE_ENTRIES])
                self._kernels.scatter_add_ordered(part, base, place.ids, values, place.order, first, last)
                release_pages(whole)

    def _places(self, index: int) -> dict[str, _Places]:
        if index in self._kept:
            self._kept.move_to_end(index)
            return self._kept[index]
        if self._job.budget.host_bytes is not None:
            self._kept.clear()
            release_memory()
        read = read_vector_ids(self._partition, index, self._job.per)
        for name, ids in read.items():
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < self.vectors[name].size:
                raise StoreError(
                    f"part {index} of {self._partition.path} has the id {int(ids.max())} in the vector {name!r}, "
                    f"which has {self.vectors[name].size} entries; make the partition again"
                )
        places = {name: self._order(name, ids) for name, ids in read.items()}
        self._kept[index] = places
        while len(self._kept) > 1 and self._kept_bytes() > _KEPT_BYTES:
            self._kept.popitem(last=False)
        return places

    def _order(self, name: str, ids: NDArray[Any]) -> _Places:
        if not self._in_files:
            return _Places(ids)
        return _Places(ids, *self._kernels.order_by_slice(ids, self.vectors[name].size, SLICE_ENTRIES))

    def _kept_bytes(self) -> int:
        return sum(each.nbytes for places in self._kept.values() for each in places.values())


def zero_vectors(job: JobSpec) -> dict[str, NDArray[np.uint64]]:
    """Return the vectors of a job in memory, all 0."""
    return {name: np.zeros(size, dtype=np.uint64) for name, size in job.vector_sizes.items()}
