"""The blocks of a partition in one process: read, copied to the device, kept, and read ahead, within the budget.

While a lease runs, a thread of its own reads the blocks of the part that comes next (disk -> host), and copies them
to the device (host -> device). What is kept at any time stays below two limits: on the host and on the device there
is room for the arrays of the part that runs, for what its engine needs beside them, and only then for other blocks.
Blocks that were not used for the longest time go first, before anything new is read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter
from typing import Any

from papilio.errors import PapilioError
from papilio.kernels.engine import Engine
from papilio.partitioning.store import PartInfo, Partition
from papilio.parts import Part, PartBytes, PartSizes, join_blocks
from papilio.tasks.forecast import PartMemory
from papilio.tasks.reports import Movement


class _Shelf:
    """Blocks in one memory, by name; the one used last is the last to go."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._blocks: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._blocks

    def get(self, name: str) -> Any | None:
        """Return a block and remember that it was used; None when it is not here."""
        if name not in self._blocks:
            return None
        self._blocks.move_to_end(name)
        return self._blocks[name][0]

    def put(self, name: str, block: Any, n_bytes: int) -> None:
        """Keep a block, which takes the place of one of its name."""
        self.held_bytes += n_bytes - self._blocks.pop(name, (None, 0))[1]
        self._blocks[name] = (block, n_bytes)

    def make_room(self, needed_bytes: int, keep: Collection[str]) -> bool:
        """Give up blocks, but none of ``keep``, until there is room; return whether there is."""
        for name in [name for name in self._blocks if name not in keep]:
            if self.held_bytes + needed_bytes <= self.limit_bytes:
                break
            self.held_bytes -= self._blocks.pop(name)[1]
        return self.held_bytes + needed_bytes <= self.limit_bytes


class PartLoader:
    """Gives the parts of a partition to one process, and reads ahead.

    :meth:`load`, :meth:`read_ahead` and :meth:`keep_only` are called by one thread at a time, which runs the engine.
    ``host_bytes`` and ``device_bytes`` (None for an engine that runs on the host) are for the arrays of parts and for
    what the engine needs beside them. ``speed`` is the work units per second of the last lease; 0 before the first one.
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
        """Return a part, staged where the engine runs; waits for what was read ahead of it.

        StoreError when it cannot be read.
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
        blocks: list[Any] = [
            self._fetch(info, place, info, names, must=True) for place in range(len(info.blocks))
        ]
        self._note(waited_s=perf_counter() - started)
        return join_blocks(blocks)

    def read_ahead(self, running: int, index: int) -> None:
        """Begin to read a part, and to copy it to the device, as far as there is room beside the one that runs."""
        if self._closed or index in (running, self._wanted):
            return
        self._wanted = None
        self._settle()
        self._wanted = index
        self._under_way = self._thread.submit(self._go_ahead, running, index)

    def keep_only(self, index: int) -> None:
        """Give up all blocks but those of one part: for when memory runs out."""
        self._wanted = None
        self._settle()
        names = set(self.partition.manifest.parts[index].blocks)
        for shelf in self._shelves():
            shelf.make_room(shelf.limit_bytes + 1, names)

    def take_movement(self) -> Movement:
        """Return what was moved since the last call."""
        with self._lock:
            moved, self._moved = self._moved, Movement()
        return moved

    def close(self) -> None:
        """Give up everything; a part that is loaded afterwards is read without another one ahead of it."""
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
        """Wait until nothing is read ahead; what went wrong with it goes wrong again when the part is needed."""
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

    def _fetch(
        self, info: PartInfo, place: int, running: PartInfo, keep: Collection[str], *, must: bool
    ) -> Any | None:
        """Return a block where the engine runs, or None when there is no room and it need not be."""
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

    def _read(
        self, info: PartInfo, place: int, running: PartInfo, keep: Collection[str], *, must: bool
    ) -> Any | None:
        """Return a block on the host, or None when there is no room and it need not be."""
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
