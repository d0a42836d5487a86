"""Launches of the kernels of ``search.cuh``, slice by slice, and their memory; nothing here knows what is searched for.

A warp owns a work item and keeps what it needs in its part of the block's shared memory; what does not fit goes to
its part of a slab of device memory (``arena.cuh``). Warps without items take sub-trees that others leave to them in
a bounded queue (``tree_queue.cuh``). ``layout.py`` says how large all that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.constants import QUEUE_END_WORDS, QUEUE_PENDING, QUEUE_STATE_WORDS
from papilio.kernels.device.protocol import Device, Kernel, Launch, Module, launch_slices
from papilio.kernels.engine import Cut
from papilio.kernels.tree.layout import TreeClass, join_classes, lay_out
from papilio.kernels.tuning import TreeTuning


@dataclass(frozen=True, eq=False)
class _Memory:
    """What the launches of one stream use one after the other."""

    slab: Any
    ends: Any
    tickets: Any
    slots: Any


@dataclass(frozen=True)
class TreeSearch:
    """A kernel that searches, and how it is launched."""

    stem: str  # of its source
    kernel: str
    defines: Mapping[str, int]  # beside MIN_BLOCKS
    tuning: TreeTuning
    fixed_words: int  # of shared memory of each warp, beside ``tuning.near_words``
    blocks_per_sm: int  # that a multiprocessor has registers for
    by_blocks: bool = (
        False  # whether a block owns an item, and blocks beyond the items of a launch share them
    )

    def load_on(self, device: Device) -> Module:
        """Return the module of the kernel; called where a graph is prepared, so that it is compiled meanwhile."""
        return device.load(self.stem, {"MIN_BLOCKS": self.blocks_per_sm, **self.defines})

    def kernel_on(self, device: Device) -> Kernel:
        """Return the kernel, once it is compiled."""
        return self.load_on(device).get_function(self.kernel)


class TreeLauncher:
    """All launches of one kernel in one run.

    ``classes`` are those of all work items; memory is shared among the items of the run alone, whose slices begin and
    end at ``bounds``. ``costs`` is the estimated cost of each work item, int64 on the host.

    Raises
    ------
    LeaseTooLargeError
        When the device has no room for the search of one block.
    """

    def __init__(
        self,
        device: Device,
        search: TreeSearch,
        classes: Sequence[TreeClass],
        bounds: Sequence[int],
        costs: NDArray[np.int64],
    ) -> None:
        self.device, self.tuning, self.kernel, self.costs = (
            device,
            search.tuning,
            search.kernel_on(device),
            costs,
        )
        self._by_blocks = search.by_blocks
        self._bounds = bounds
        within = [one.between(bounds[0], bounds[-1]) for one in classes]
        within = [one for one in within if one.items.size]
        layout = lay_out(device, search.tuning, within, search.fixed_words, search.blocks_per_sm)
        self.classes, self.layout = join_classes(within, layout)
        self._memory: dict[int, _Memory] = {}
        self.block_words = device.xp.zeros(max(self.layout.blocks, default=1), dtype=np.uint64)
        """Words that the blocks of each number intersected, in all launches, device."""

    def run(self, cut: Cut, first: tuple[Any, ...], last: tuple[Any, ...]) -> int:
        """Launch slice after slice, one ahead of the one that runs; return how many slices were launched.

        ``first`` and ``last`` are the arguments of the kernel before and behind those that every search has, which are
        SEARCH_PARAMETERS of ``search.cuh`` from ``items`` on. Once ``cut`` is true no further slice begins.
        """
        n_slices, n_classes = len(self._bounds) - 1, len(self.classes)
        found = [np.searchsorted(one.items, np.asarray(self._bounds)) for one in self.classes]
        sizes = np.array([np.diff(ends) for ends in found]).reshape(n_classes, n_slices)
        state = np.zeros((n_slices, n_classes, QUEUE_STATE_WORDS), dtype=np.int32)
        state[:, :, QUEUE_PENDING] = sizes.T
        states = self.device.xp.asarray(state)
        items = self._order_items(found)
        n_streams = min(self.layout.n_streams, int(np.count_nonzero(sizes)))
        self._memory = {stream: self._make_memory() for stream in range(n_streams)}

        def launches(at: int) -> Iterator[Launch]:
            for number in reversed(range(n_classes)):
                begin, end = (int(place) for place in found[number][at : at + 2])
                if begin < end:
                    of_slice = items[number][begin:end]
                    yield partial(self._launch, number, begin, of_slice, states[at, number], first, last)

        return launch_slices(self.device, n_slices, launches, cut, self.layout.n_streams)

    def _launch(
        self,
        number: int,
        begin: int,
        items: Any,
        state: Any,
        first: tuple[Any, ...],
        last: tuple[Any, ...],
        stream: int,
    ) -> None:
        one, tuning, layout, memory = self.classes[number], self.tuning, self.layout, self._memory[stream]
        n_items = int(items.size)
        is_shared = self._by_blocks or layout.n_slots
        cost = int(self.costs[one.items[begin : begin + n_items]].sum()) if is_shared else 0
        least = n_items if self._by_blocks else -(-n_items // layout.n_warps)
        wanted = max(least, cost // (tuning.share_cost * layout.n_warps))
        self.kernel(
            (min(wanted, layout.blocks[number]),),
            (32 * layout.n_warps,),
            (
                *first, items, np.int32(n_items), np.int32(tuning.near_words), memory.slab,
                np.int64(one.far_words), state, memory.ends, memory.tickets, memory.slots,
                np.uint32(layout.n_slots), np.int32(tuning.slot_words), np.int32(tuning.check_steps),
                self.block_words, *last,
            ),
            shared_mem=layout.shared_bytes,
        )  # fmt: skip

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

    def _make_memory(self) -> _Memory:
        xp, n_slots = self.device.xp, self.layout.n_slots
        far_words = (one.far_words for one in self.classes)
        words = max(
            blocks * self.layout.n_warps * each
            for blocks, each in zip(self.layout.blocks, far_words, strict=True)
        )
        return _Memory(
            slab=xp.empty(max(4, words), dtype=np.uint32),
            ends=xp.zeros(QUEUE_END_WORDS, dtype=np.uint32),
            tickets=self.device.to_device(np.arange(max(1, n_slots), dtype=np.uint32)),
            slots=xp.empty(max(1, n_slots * self.tuning.slot_words), dtype=np.uint32),
        )
