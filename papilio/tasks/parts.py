"""The blocks of a partition in one process: read, copied to the device, kept, and read ahead, within the budget.

While a lease runs, a separate thread reads the blocks of the next part (disk -> host), and copies them to the device
(host -> device). Two limits, on the host and on the device, cover the arrays of the running part, then the temporaries
of its engine, and only then other blocks. The least recently used blocks are dropped before anything new is read.

Counts per vertex or edge of a partitioned graph: sums of the vectors of parts, at the ids of the whole graph.
"""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError, PapilioError, StoreError
from papilio.kernels.engine import Engine
from papilio.partitioning.partition import PartInfo, Partition
from papilio.parts import Part, PartBytes, PartSizes, join_blocks
from papilio.storage.files import SLICE_ENTRIES, file_vector, release_memory, release_pages
from papilio.tasks.job import JobSpec, Movement, open_job_partition
from papilio.tasks.memory import PartMemory, fold_bytes


class _Shelf:
    """Blocks in one memory, by name; the least recently used is dropped first."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._blocks: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._blocks

    def get(self, name: str) -> Any | None:
        if name not in self._blocks:
            return None
        self._blocks.move_to_end(name)
        return self._blocks[name][0]

    def put(self, name: str, block: Any, n_bytes: int) -> None:
        self.held_bytes += n_bytes - self._blocks.pop(name, (None, 0))[1]
        self._blocks[name] = (block, n_bytes)

    def make_room(self, needed_bytes: int, keep: Collection[str]) -> bool:
        """Drop blocks, but none of ``keep``, until there is room; return whether there is."""
        for name in [name for name in self._blocks if name not in keep]:
            if self.held_bytes + needed_bytes <= self.limit_bytes:
                break
            self.held_bytes -= self._blocks.pop(name)[1]
        return self.held_bytes + needed_bytes <= self.limit_bytes


class PartLoader:
    """Load the parts of a partition for one process, and read ahead.

    :meth:`load`, :meth:`read_ahead` and :meth:`keep_only` are called by one thread at a time, which runs the engine.
    ``host_bytes`` and ``device_bytes`` (None for an engine that runs on the host) are for the arrays of parts and for
    the temporaries of the engine. ``speed`` is the work units per second of the last lease; 0 before the first one.
    """

    def __init__(
        self,
        partition: Partition,
        engine: Engine,
        memory: PartMemory,
        host_bytes: int,
        device_bytes: int | None,
    ) -> None:
        self.speed = 0.0
        self.partition = partition
        self._engine, self._memory = engine, memory
        self._host = _Shelf(host_bytes)
        self._device = None if device_bytes is None else _Shelf(device_bytes)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="papilio-read-ahead")
        self._closed = False
        self._wanted: int | None = None
        self._under_way: Future[None] | None = None
        self._lock = threading.Lock()
        self._moved = Movement()

    def load(self, index: int) -> Part:
        """Return a part, staged where the engine runs; waits if it is being read ahead.

        StoreError if it cannot be read.
        """
        started = perf_counter()
        if self._wanted != index:
            self._wanted = None
        self._settle()
        info = self.partition.manifest.parts[index]
        names = set(info.blocks)
        self._host.make_room(self._memory.host.of(info.sizes), names)
        if self._device is not None:
            self._device.make_room(self._memory.device.of(info.sizes), names)
        blocks: list[Any] = [self._fetch(info, place, info, names, must=True) for place in range(len(info.blocks))]
        self._note(waited_s=perf_counter() - started)
        return join_blocks(blocks)

    def read_ahead(self, running: int, index: int) -> None:
        """Begin to read a part, and to copy it to the device, as far as there is room besides the running part."""
        if self._closed or index in (running, self._wanted):
            return
        self._wanted = None
        self._settle()
        self._wanted = index
        self._under_way = self._thread.submit(self._go_ahead, running, index)

    def keep_only(self, index: int) -> None:
        """Drop all blocks except the blocks of one part: for when memory runs out."""
        self._wanted = None
        self._settle()
        names = set(self.partition.manifest.parts[index].blocks)
        for shelf in self._shelves():
            shelf.make_room(shelf.limit_bytes + 1, names)

    def take_movement(self) -> Movement:
        """Return the data moved since the last call."""
        with self._lock:
            moved, self._moved = self._moved, Movement()
        return moved

    def close(self) -> None:
        """Drop everything; a part that is loaded afterwards is read without reading ahead."""
        self._closed = True
        self._wanted = None
        self._settle()
        self._thread.shutdown()
        for shelf in self._shelves():
            shelf.make_room(shelf.limit_bytes + 1, ())

    @property
    def held_bytes(self) -> tuple[int, int]:
        """Predicted bytes of the blocks that are kept on the host, and on the device."""
        return self._host.held_bytes, 0 if self._device is None else self._device.held_bytes

    def _shelves(self) -> Iterator[_Shelf]:
        yield self._host
        if self._device is not None:
            yield self._device

    def _settle(self) -> None:
        """Wait until nothing is read ahead; errors are raised again when the part is needed."""
        if self._under_way is not None:
            self._under_way.exception()
            self._under_way = None

    def _go_ahead(self, running: int, index: int) -> None:
        parts = self.partition.manifest.parts
        keep = {*parts[running].blocks, *parts[index].blocks}
        with suppress(PapilioError, MemoryError):
            for place in range(len(parts[index].blocks)):
                if self._wanted != index:
                    return
                self._fetch(parts[index], place, parts[running], keep, must=False)

    def _fetch(self, info: PartInfo, place: int, running: PartInfo, keep: Collection[str], *, must: bool) -> Any | None:
        """Return a block where the engine runs, or None when there is no room and it is not required."""
        name, memory = info.blocks[place], self._memory
        if self._device is None:
            return self._read(info, place, running, keep, must=must)
        block = self._device.get(name)
        if block is not None:
            return block
        block = self._read(info, place, running, keep, must=must)
        needed = self._bytes_of(memory.staged, info, place)
        if block is None:
            return None
        if not self._device.make_room(needed + memory.device.of(running.sizes), keep) and not must:
            return None
        started = perf_counter()
        staged = self._engine.stage(block)
        self._note(staged_bytes=needed, stage_s=perf_counter() - started)
        self._device.put(name, staged, needed)
        return staged

    def _read(self, info: PartInfo, place: int, running: PartInfo, keep: Collection[str], *, must: bool) -> Any | None:
        """Return a block on the host, or None when there is no room and it is not required."""
        name = info.blocks[place]
        block = self._host.get(name)
        if block is not None:
            return block
        needed = self._bytes_of(self._memory.raw, info, place)
        room = self._host.make_room(needed + self._memory.host.of(running.sizes), keep)
        if not (room or must):
            return None
        started = perf_counter()
        block = self.partition.read_block(name)
        self._note(read_bytes=int(block.nbytes), load_s=perf_counter() - started)
        self._host.put(name, block, int(block.nbytes))
        return block

    def _bytes_of(self, bytes_of: PartBytes, info: PartInfo, place: int) -> int:
        """Return the bytes of one block of a part: of its starts, of its ends, or of the whole."""
        sizes = info.sizes
        if len(info.blocks) == 1:
            return bytes_of.of(sizes)
        ends, starts = (0, 0, sizes.vertices, sizes.entries), (sizes.roots, sizes.root_entries, 0, 0)
        return bytes_of.of(PartSizes(*(ends if place else starts)))

    def _note(self, **moved: float) -> None:
        with self._lock:
            self._moved += Movement(**moved)  # type: ignore[arg-type]


_KEPT_BYTES = 64 << 20
"""Ids of parts that are kept for their next leases if no budget is set; else only the ids of the last part."""


@dataclass(frozen=True, eq=False)
class _Places:
    ids: NDArray[Any]  # in the whole graph
    # places by slice of the whole vector, and the start of each slice; for a sum in a file
    order: NDArray[np.int64] | None = None
    cuts: NDArray[np.int64] | None = None

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes) + (0 if self.order is None else int(self.order.nbytes))


class PartVectors:
    """The sums of the vectors of all parts of a job.

    They are in memory or, if the host budget of the job is too small for that, in unnamed files (in ``directory``, by
    default the directory for temporary files), one slice in memory at a time.
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
            self.vectors = zero_vectors(job.vector_sizes)

    def add(self, index: int, vectors: dict[str, NDArray[np.uint64]], worker: str) -> None:
        """Add the vectors of some items of a part.

        ExecutionError if their shapes do not match the part. StoreError if the ids of the part cannot be read,
        or are not ids of the graph.
        """
        places = self._places(index)
        expected = {name: each.ids.shape for name, each in places.items()}
        found = {name: vector.shape for name, vector in vectors.items()}
        if found != expected:
            raise ExecutionError(f"worker {worker} returned vectors {found}; part {index} needs {expected}")
        for name, place in places.items():
            if place.order is None:
                self._kernels.scatter_add(self.vectors[name], place.ids, vectors[name])
            else:
                self._add_by_slices(self.vectors[name], place, vectors[name])

    def require_unchanged(self) -> None:
        """Check that the ids were all read from the partition that the leases counted.

        StoreError if it has been replaced.
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
        read = self._partition.read_vector_ids(index, self._job.per)
        for name, ids in read.items():
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < self.vectors[name].size:
                raise StoreError(
                    f"part {index} of {self._partition.path} has the id {int(ids.max())} in the vector {name!r}, "
                    f"which has {self.vectors[name].size} entries; create the partition again"
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


def zero_vectors(sizes: Mapping[str, int]) -> dict[str, NDArray[np.uint64]]:
    """Return vectors of these sizes in memory, all 0."""
    return {name: np.zeros(size, dtype=np.uint64) for name, size in sizes.items()}
