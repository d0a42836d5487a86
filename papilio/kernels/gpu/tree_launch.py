"""Launches of the bitmap-tree engine: size classes, shared memory, slabs, queues of sub-trees, slices.

A warp owns a work item and keeps what it needs in its part of the block's shared memory; what does not fit goes to
its part of a slab of device memory (``arena.cuh``). Warps without items take sub-trees that others leave to them in
a bounded queue (``tree_queue.cuh``). Nothing here knows what is searched for.

Slabs and queues are as large as free device memory allows: where it is short, launches follow each other in one
stream, blocks have one warp, and a queue has fewer slots or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.engine import Cut
from papilio.kernels.gpu.device import N_STREAMS, Device, Kernel
from papilio.kernels.tuning import TreeTuning

__all__ = ["TreeClass", "TreeLauncher", "make_classes"]

_STATE_WORDS = 96
_PENDING = 32
"""As in tree_queue.cuh."""

_RESERVED_BYTES = 1024
"""Of shared memory, per block, taken by the system."""

_LEAST_SLOTS = 2
"""Of a queue that is not empty."""

_SHORT_FRACTION = 0.75
"""Largest share of free device memory for the slab where there is only one."""

Arguments = tuple[Any, ...]
MakeArguments = Callable[[Any, np.int32, Arguments, Any], Arguments]
"""(items, their number, arguments of the schedule, words by block) to all arguments of the kernel."""


@dataclass(frozen=True, eq=False)
class TreeClass:
    """Work items that are launched together.

    Attributes
    ----------
    far_words : int
        Words of device memory per warp.
    items : ndarray of int32, shape (n,), host
        Work items, ascending.
    """

    far_words: int
    items: NDArray[np.int32]


def make_classes(need_words: NDArray[np.int64], tuning: TreeTuning) -> tuple[TreeClass, ...]:
    """Class the work items by the memory that a warp needs, so that a few large ones do not bound the rest.

    Parameters
    ----------
    need_words : ndarray of int64, shape (n_items,)
        Words of everything that a warp has at once, at most.
    tuning : TreeTuning
    """
    number = np.searchsorted(np.asarray(tuning.far_words), need_words)
    made = []
    for at in range(len(tuning.far_words) + 1):
        items = np.flatnonzero(number == at).astype(np.int32)
        if items.size:
            made.append(TreeClass(-(-int(need_words[items].max()) // 4) * 4, items))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class _Memory:
    """Of the launches of one stream, which follow each other."""

    slab: Any
    ends: Any
    tickets: Any
    slots: Any


class TreeLauncher:
    """All launches of one kernel in one run.

    Parameters
    ----------
    device : Device
    tuning : TreeTuning
    kernel : callable
    classes : tuple of TreeClass
    costs : ndarray of int64, shape (n_items,)
        Estimated cost of each work item.
    fixed_words : int
        Words of shared memory that each warp has beside ``near_words``.
    blocks_per_sm : int
        Blocks that a multiprocessor has registers for.

    Raises
    ------
    CapacityError
        When the device has no room for the search of one block.
    """

    def __init__(
        self,
        device: Device,
        tuning: TreeTuning,
        kernel: Kernel,
        classes: Sequence[TreeClass],
        costs: NDArray[np.int64],
        fixed_words: int,
        blocks_per_sm: int,
    ) -> None:
        self.device, self.tuning, self.kernel, self.classes = device, tuning, kernel, tuple(classes)
        self.costs = costs
        self._free_bytes = device.free_bytes()
        self._n_streams, self._warps = self._choose_warps()
        self._n_slots = self._choose_slots()
        self._shared_bytes = self._warps * 4 * (fixed_words + tuning.near_words)
        self._items: list[Any] = []
        self._blocks = [self._most_blocks(one, blocks_per_sm) for one in self.classes]
        self._memory: dict[int, _Memory] = {}
        self.block_words = device.xp.zeros(max(self._blocks, default=1), dtype=np.uint64)
        """Words that the blocks of each number intersected, in all launches, device."""

    def run(self, bounds: Sequence[int], cut: Cut, arguments: MakeArguments) -> int:
        """Launch slice after slice, one ahead of the one that runs; return how many slices were launched.

        Parameters
        ----------
        bounds : sequence of int
            Where slices begin and end, rising.
        cut : callable
            Once it is true no further slice begins.
        arguments : callable
            See :data:`MakeArguments`.
        """
        n_slices, n_classes = len(bounds) - 1, len(self.classes)
        found = [np.searchsorted(one.items, np.asarray(bounds)) for one in self.classes]
        state = np.zeros((n_slices, n_classes, _STATE_WORDS), dtype=np.int32)
        for number, ends in enumerate(found):
            state[:, number, _PENDING] = np.diff(ends)
        states = self.device.xp.asarray(state)
        self._items = self._order_items(found)
        marks: list[list[Any]] = []
        stream = 0
        for at in range(n_slices):
            marks.append([])
            for number in reversed(range(n_classes)):
                first, last = (int(end) for end in found[number][at : at + 2])
                if first == last:
                    continue
                memory = self._memory_of(stream % self._n_streams)
                with self.device.stream(stream % self._n_streams):
                    self._launch(number, first, last, states[at, number], memory, arguments)
                    marks[at].append(self.device.mark())
                stream += 1
            if at + 1 == n_slices:
                break
            for mark in marks[at - 1] if at else []:
                self.device.wait(mark)
            if cut():
                return at + 1
        return n_slices

    def _launch(
        self, number: int, first: int, last: int, state: Any, memory: _Memory, arguments: MakeArguments
    ) -> None:
        one, tuning = self.classes[number], self.tuning
        cost = int(self.costs[one.items[first:last]].sum()) if self._n_slots else 0
        wanted = max(-(-(last - first) // self._warps), cost // (tuning.share_cost * self._warps))
        schedule = (
            np.int32(tuning.near_words),
            memory.slab,
            np.int64(one.far_words),
            state,
            memory.ends,
            memory.tickets,
            memory.slots,
            np.uint32(self._n_slots),
            np.int32(tuning.slot_words),
            np.int32(tuning.check_steps),
        )
        items, n_items = self._items[number][first:last], np.int32(last - first)
        self.kernel(
            (min(wanted, self._blocks[number]),),
            (32 * self._warps,),
            arguments(items, n_items, schedule, self.block_words),
            shared_mem=self._shared_bytes,
        )

    def _order_items(self, found: Sequence[NDArray[np.int64]]) -> list[Any]:
        """Return the items of each class on the device, those of a slice heaviest first; ``found`` are the slices."""
        falls = bool((np.diff(self.costs) <= 0).all())
        made = []
        for one, ends in zip(self.classes, found, strict=True):
            items = one.items
            if not falls:
                number = np.searchsorted(ends, np.arange(items.size), side="right")
                items = items[np.lexsort((-self.costs[items], number))]
            made.append(self.device.xp.asarray(items))
        return made

    def _room_bytes(self, n_streams: int) -> int:
        """Return what the slab of a stream may take."""
        fraction = self.tuning.slab_fraction if n_streams > 1 else _SHORT_FRACTION
        return int(fraction * self._free_bytes) // n_streams

    def _choose_warps(self) -> tuple[int, int]:
        """Return streams and warps of a block, as many as there is memory for."""
        warps = self.tuning.threads // 32
        far_words = max((one.far_words for one in self.classes), default=0)
        for n_streams, n_warps in ((N_STREAMS, warps), (1, warps), (1, 1)):
            if 4 * far_words * n_warps <= self._room_bytes(n_streams):
                return n_streams, n_warps
        raise CapacityError(
            f"the search around one vertex needs {4 * far_words} bytes of device memory; {self._room_bytes(1)} bytes "
            "are free for it: use a device with more memory, or --engine cpu"
        )

    def _choose_slots(self) -> int:
        """Return the slots of the queue of a stream: fewer where memory is short, a power of two or none."""
        room_bytes = int(self.tuning.slab_fraction * self._free_bytes) // (2 * self._n_streams)
        n_slots = self.tuning.slots
        while n_slots and 4 * n_slots * self.tuning.slot_words > room_bytes:
            n_slots = n_slots // 2 if n_slots > _LEAST_SLOTS else 0
        return n_slots

    def _most_blocks(self, one: TreeClass, blocks_per_sm: int) -> int:
        """Return how many blocks can be resident, as far as the slab has room for their warps."""
        device = self.device
        per_sm = (device.max_shared_bytes + _RESERVED_BYTES) // (self._shared_bytes + _RESERVED_BYTES)
        most = blocks_per_sm * (self.tuning.threads // 32) // self._warps
        resident = max(1, min(per_sm, most)) * device.sm_count
        block_bytes = 4 * one.far_words * self._warps
        return min(resident, max(1, self._room_bytes(self._n_streams) // max(1, block_bytes)))

    def _memory_of(self, stream: int) -> _Memory:
        if stream not in self._memory:
            xp, n_slots = self.device.xp, self._n_slots
            words = max(
                blocks * self._warps * one.far_words
                for blocks, one in zip(self._blocks, self.classes, strict=True)
            )
            self._memory[stream] = _Memory(
                slab=xp.empty(max(4, words), dtype=np.uint32),
                ends=xp.zeros(64, dtype=np.uint32),
                tickets=xp.arange(max(1, n_slots), dtype=np.uint32),
                slots=xp.empty(max(1, n_slots * self.tuning.slot_words), dtype=np.uint32),
            )
        return self._memory[stream]
