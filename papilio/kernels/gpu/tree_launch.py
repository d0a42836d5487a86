"""Launches of the bitmap-tree engine: size classes, shared memory, slabs, queues of sub-trees, slices.

A warp owns a work item and keeps what it needs in its part of the block's shared memory; what does not fit goes to
its part of a slab of device memory (``arena.cuh``). Warps without items take sub-trees that others leave to them in
a bounded queue (``tree_queue.cuh``). Nothing here knows what is searched for.
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
        self._warps = tuning.threads // 32
        self._shared_bytes = self._warps * 4 * (fixed_words + tuning.near_words)
        self._items = [device.xp.asarray(one.items) for one in self.classes]
        self._blocks = [self._most_blocks(one, blocks_per_sm) for one in self.classes]
        self._memory: dict[int, _Memory] = {}
        self.block_words = device.xp.zeros(max(self._blocks, default=1), dtype=np.uint64)
        """Words that the blocks of each number intersected, in all launches, device."""

    def run(self, bounds: Sequence[int], cut: Cut, arguments: MakeArguments) -> int:
        """Launch slice after slice, one ahead of the one that runs; return the item at which the run ended.

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
        marks: list[list[Any]] = []
        stream = 0
        for at in range(n_slices):
            marks.append([])
            for number in reversed(range(n_classes)):
                first, last = (int(end) for end in found[number][at : at + 2])
                if first == last:
                    continue
                memory = self._memory_of(stream % N_STREAMS)
                with self.device.stream(stream):
                    self._launch(number, first, last, states[at, number], memory, arguments)
                    marks[at].append(self.device.mark())
                stream += 1
            if at + 1 == n_slices:
                break
            for mark in marks[at - 1] if at else []:
                self.device.wait(mark)
            if cut():
                return int(bounds[at + 1])
        return int(bounds[-1])

    def _launch(
        self, number: int, first: int, last: int, state: Any, memory: _Memory, arguments: MakeArguments
    ) -> None:
        one, tuning = self.classes[number], self.tuning
        cost = int(self.costs[one.items[first:last]].sum()) if tuning.slots else 0
        wanted = max(-(-(last - first) // self._warps), cost // (tuning.share_cost * self._warps))
        schedule = (
            np.int32(tuning.near_words),
            memory.slab,
            np.int64(one.far_words),
            state,
            memory.ends,
            memory.tickets,
            memory.slots,
            np.uint32(tuning.slots),
            np.int32(tuning.slot_words),
            np.int32(tuning.check_steps),
        )
        items, n_items = self._items[number][first:last], np.int32(last - first)
        self.kernel(
            (min(wanted, self._blocks[number]),),
            (tuning.threads,),
            arguments(items, n_items, schedule, self.block_words),
            shared_mem=self._shared_bytes,
        )

    def _most_blocks(self, one: TreeClass, blocks_per_sm: int) -> int:
        """Return how many blocks can be resident, as far as the slab has room for their warps."""
        device = self.device
        per_sm = (device.max_shared_bytes + _RESERVED_BYTES) // (self._shared_bytes + _RESERVED_BYTES)
        resident = max(1, min(per_sm, blocks_per_sm)) * device.sm_count
        room_bytes = int(self.tuning.slab_fraction * device.free_bytes()) // N_STREAMS
        block_bytes = 4 * one.far_words * self._warps
        if block_bytes > room_bytes:
            raise CapacityError(
                f"the search around one vertex needs {block_bytes} bytes of device memory for {self._warps} warps; "
                f"{room_bytes} bytes are free for it: use --engine cpu"
            )
        return min(resident, max(1, room_bytes // max(1, block_bytes)))

    def _memory_of(self, stream: int) -> _Memory:
        if stream not in self._memory:
            xp, n_slots = self.device.xp, self.tuning.slots
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
