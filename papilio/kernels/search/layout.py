"""Classes of work items by memory on a GPU, and the division of free memory among launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError
from papilio.kernels.device.protocol import N_STREAMS, Device
from papilio.kernels.engine import Choice
from papilio.kernels.tuning import TreeTuning

_RESERVED_BYTES = 1024
"""Shared memory that the system takes per block."""

_LEAST_SLOTS = 2
"""Minimum slots of a queue that is not empty."""

_SHORT_FRACTION = 0.75
"""Maximum share of free device memory for the slab if there is only one."""


@dataclass(frozen=True, eq=False)
class TreeClass:
    """Work items launched together."""

    # Maximum words that a warp holds at once for each item; host.
    need_words: NDArray[np.int64]
    # Words that the warps of a block hold together for each item; host. None if each warp has items of its own.
    block_words: NDArray[np.int64] | None
    # Work items, ascending; host.
    items: NDArray[np.int32]
    # What :meth:`far_words` returned, by its argument.
    _far_words: dict[int, int] = field(default_factory=dict, repr=False)

    def needs(self, n_warps: int) -> NDArray[np.int64]:
        """Return the words of device memory per warp of a block for each item."""
        if self.block_words is None:
            return self.need_words
        return self.need_words + -(-self.block_words // n_warps)

    def far_words(self, n_warps: int) -> int:
        """Return the words that suffice for all items, a multiple of 4; 0 without items."""
        if n_warps not in self._far_words:
            self._far_words[n_warps] = -(-int(self.needs(n_warps).max(initial=0)) // 4) * 4
        return self._far_words[n_warps]

    def take(self, at: slice | NDArray[Any]) -> TreeClass:
        """Return the items at some places of this class."""
        together = None if self.block_words is None else self.block_words[at]
        return TreeClass(self.need_words[at], together, self.items[at])

    def between(self, first: int, last: int) -> TreeClass:
        """Return the part of this class within the work items ``[first, last)``."""
        begin, end = np.searchsorted(self.items, (first, last)).tolist()
        return self if (begin, end) == (0, self.items.size) else self.take(slice(begin, end))


def make_classes(
    need_words: NDArray[np.int64], tuning: TreeTuning, block_words: NDArray[np.int64] | None = None
) -> tuple[TreeClass, ...]:
    """Class work items by the words that a warp needs, so that large ones do not limit the others.

    ``block_words`` are those that the warps of a block need together, if they share an item.
    """
    whole = TreeClass(need_words, block_words, np.arange(need_words.size, dtype=np.int32))
    number = np.searchsorted(np.asarray(tuning.far_words), whole.needs(tuning.threads // 32))
    made = (whole.take(np.flatnonzero(number == at)) for at in range(len(tuning.far_words) + 1))
    return tuple(one for one in made if one.items.size)


def add_aligned(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the sum of the parts, each rounded up to a multiple of four words, as the arena does."""
    total: NDArray[np.int64] = np.sum([(part + 3) // 4 * 4 for part in parts], axis=0)
    return total


@dataclass(frozen=True)
class TreeLayout:
    """Resources of the launches of one run."""

    n_streams: int  # in use, each with a slab
    n_warps: int  # of a block
    n_slots: int  # of the queue of each stream, a power of two; 0 for none
    shared_bytes: int  # of a block
    resident: int  # blocks that the device holds at once, limited by registers and shared memory
    # Blocks of each class: at most the resident ones, limited by the room of the slab for their warps.
    blocks: tuple[int, ...]


def lay_out(
    device: Device, tuning: TreeTuning, classes: Sequence[TreeClass], fixed_words: int, blocks_per_sm: int
) -> TreeLayout:
    """Divide the free memory of a device among the launches of a run, whose items are in ``classes``.

    Each warp has ``fixed_words`` of shared memory besides ``tuning.near_words``; a multiprocessor has registers for
    ``blocks_per_sm`` blocks.
    """
    free_bytes = device.free_bytes()
    n_streams, n_warps = _choose_warps(tuning, classes, free_bytes)
    shared_bytes = n_warps * 4 * (fixed_words + tuning.near_words)
    per_sm = (device.max_shared_bytes + _RESERVED_BYTES) // (shared_bytes + _RESERVED_BYTES)
    by_registers = blocks_per_sm * (tuning.threads // 32) // n_warps
    resident = max(1, min(per_sm, by_registers)) * device.sm_count
    room_bytes = _slab_room(tuning, free_bytes, n_streams)
    blocks = tuple(min(resident, max(1, room_bytes // max(1, 4 * one.far_words(n_warps) * n_warps))) for one in classes)
    return TreeLayout(n_streams, n_warps, _choose_slots(tuning, free_bytes, n_streams), shared_bytes, resident, blocks)


def join_classes(classes: Sequence[TreeClass], layout: TreeLayout) -> tuple[tuple[TreeClass, ...], TreeLayout]:
    """Return nonempty classes, joined unless memory limits them, and the layout for them.

    One launch spreads their work over all warps; successive launches would each wait for their last item.
    """
    n = layout.blocks.count(layout.resident)
    if n < 2:
        return tuple(classes), layout
    first = classes[:n]
    need_words, items = (np.concatenate([getattr(one, name) for one in first]) for name in ("need_words", "items"))
    together = [one.block_words for one in first if one.block_words is not None]
    joined = TreeClass(need_words, np.concatenate(together) if together else None, items)
    joined = joined.take(np.argsort(items, kind="stable"))  # merges ascending runs
    return (joined, *classes[n:]), replace(layout, blocks=layout.blocks[n - 1 :])


def explain_layout(
    device: Device, tuning: TreeTuning, classes: Sequence[TreeClass], fixed_words: int, blocks_per_sm: int
) -> tuple[Choice, ...]:
    """Return the effects of a shortage of device memory on launches, with reasons. Empty without shortage.

    Parameters are as for :func:`lay_out`.
    """
    free_bytes = device.free_bytes()
    try:
        made = lay_out(device, tuning, classes, fixed_words, blocks_per_sm)
    except LeaseTooLargeError as error:
        room_bytes = _slab_room(tuning, free_bytes, 1)
        n = sum(int(np.count_nonzero(4 * one.needs(1) > room_bytes)) for one in classes)
        return ((f"{n} work items do not fit on the device", str(error)),)
    far_bytes = 4 * max((one.far_words(made.n_warps) for one in classes), default=0)
    reason = f"a warp needs up to {far_bytes} bytes of device memory; {free_bytes} bytes are free"
    said: list[Choice] = []
    if made.n_streams < N_STREAMS:
        said.append(("launches follow each other in one stream", reason))
    if made.n_warps < tuning.threads // 32:
        said.append(("blocks of one warp", reason))
    fewest = min(made.blocks, default=made.resident)
    if fewest < made.resident:
        said.append((f"{fewest} blocks at a time, not {made.resident}, for the heaviest work items", reason))
    if made.n_slots < tuning.slots:
        what = f"queues of {made.n_slots} sub-trees, not {tuning.slots}"
        slot_bytes = 4 * tuning.slot_words
        said.append(
            (
                what if made.n_slots else "no sub-trees are shared with waiting warps",
                f"a slot of a queue takes {slot_bytes} bytes of device memory; {free_bytes} bytes are free",
            )
        )
    return tuple(said)


def _slab_room(tuning: TreeTuning, free_bytes: int, n_streams: int) -> int:
    """Return the limit of the slab of a stream, in bytes."""
    fraction = tuning.slab_fraction if n_streams > 1 else _SHORT_FRACTION
    return int(fraction * free_bytes) // n_streams


def _choose_warps(tuning: TreeTuning, classes: Sequence[TreeClass], free_bytes: int) -> tuple[int, int]:
    """Return the number of streams, and of warps of a block, that fit in memory."""
    warps = tuning.threads // 32
    for n_streams, n_warps in ((N_STREAMS, warps), (1, warps), (1, 1)):
        far_words = max((one.far_words(n_warps) for one in classes), default=0)
        if 4 * far_words * n_warps <= _slab_room(tuning, free_bytes, n_streams):
            return n_streams, n_warps
    raise LeaseTooLargeError(
        f"the search around one vertex needs {4 * far_words} bytes of device memory; "
        f"{_slab_room(tuning, free_bytes, 1)} bytes are available: use a device with more memory, or --engine cpu"
    )


def _choose_slots(tuning: TreeTuning, free_bytes: int, n_streams: int) -> int:
    """Return the slots of the queue of a stream: fewer if memory is short, a power of two or none."""
    room_bytes = int(tuning.slab_fraction * free_bytes) // (2 * n_streams)
    n_slots = tuning.slots
    while n_slots and 4 * n_slots * tuning.slot_words > room_bytes:
        n_slots = n_slots // 2 if n_slots > _LEAST_SLOTS else 0
    return n_slots
