"""Classes of work items by memory on a GPU, and the division of free memory among launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    # Work items, ascending; host.
    items: NDArray[np.int32]

    @property
    def far_words(self) -> int:
        """Words of device memory per warp, a multiple of 4; 0 without items."""
        return -(-int(self.need_words.max(initial=0)) // 4) * 4

    def between(self, first: int, last: int) -> TreeClass:
        """Return the part of this class within the work items ``[first, last)``."""
        begin, end = np.searchsorted(self.items, (first, last))
        return TreeClass(self.need_words[begin:end], self.items[begin:end])


def make_classes(need_words: NDArray[np.int64], tuning: TreeTuning) -> tuple[TreeClass, ...]:
    """Class work items by the words that a warp needs, so that large ones do not limit the others."""
    number = np.searchsorted(np.asarray(tuning.far_words), need_words)
    made = []
    for at in range(len(tuning.far_words) + 1):
        items = np.flatnonzero(number == at).astype(np.int32)
        if items.size:
            made.append(TreeClass(need_words[items], items))
    return tuple(made)


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
    device: Device,
    tuning: TreeTuning,
    classes: Sequence[TreeClass],
    fixed_words: int,
    blocks_per_sm: int,
    by_blocks: bool = False,
) -> TreeLayout:
    """Divide the free memory of a device among the launches of a run, whose items are in ``classes``.

    Each warp has ``fixed_words`` of shared memory besides ``tuning.near_words``; a multiprocessor has registers for
    ``blocks_per_sm`` blocks. With ``by_blocks`` an item takes the memory of all warps of a block.
    """
    free_bytes = device.free_bytes()
    n_streams, n_warps = _choose_warps(tuning, classes, free_bytes, by_blocks)
    shared_bytes = n_warps * 4 * (fixed_words + tuning.near_words)
    per_sm = (device.max_shared_bytes + _RESERVED_BYTES) // (shared_bytes + _RESERVED_BYTES)
    by_registers = blocks_per_sm * (tuning.threads // 32) // n_warps
    resident = max(1, min(per_sm, by_registers)) * device.sm_count
    room_bytes = _slab_room(tuning, free_bytes, n_streams)
    blocks = tuple(
        min(resident, max(1, room_bytes // max(1, 4 * one.far_words * n_warps))) for one in classes
    )
    return TreeLayout(
        n_streams, n_warps, _choose_slots(tuning, free_bytes, n_streams), shared_bytes, resident, blocks
    )


def join_classes(
    classes: Sequence[TreeClass], layout: TreeLayout
) -> tuple[tuple[TreeClass, ...], TreeLayout]:
    """Return nonempty classes, joined unless memory limits them, and the layout for them.

    One launch spreads their work over all warps; successive launches would each wait for their last item.
    """
    n = layout.blocks.count(layout.resident)
    if n < 2:
        return tuple(classes), layout
    items = np.concatenate([one.items for one in classes[:n]])
    need_words = np.concatenate([one.need_words for one in classes[:n]])
    order = np.argsort(items, kind="stable")  # merges ascending runs
    joined = TreeClass(need_words[order], items[order])
    return (joined, *classes[n:]), replace(layout, blocks=layout.blocks[n - 1 :])


def explain_layout(
    device: Device,
    tuning: TreeTuning,
    classes: Sequence[TreeClass],
    fixed_words: int,
    blocks_per_sm: int,
    by_blocks: bool = False,
) -> tuple[Choice, ...]:
    """Return the effects of a shortage of device memory on launches, with reasons. Empty without shortage.

    Parameters are as for :func:`lay_out`.
    """
    free_bytes = device.free_bytes()
    team, word_bytes = ("block", 4 * (tuning.threads // 32)) if by_blocks else ("warp", 4)
    try:
        made = lay_out(device, tuning, classes, fixed_words, blocks_per_sm, by_blocks)
    except LeaseTooLargeError as error:
        room_bytes = _slab_room(tuning, free_bytes, 1)
        n = sum(int(np.count_nonzero(word_bytes * one.need_words > room_bytes)) for one in classes)
        return ((f"{n} work items do not fit on the device", str(error)),)
    far_bytes = word_bytes * max((one.far_words for one in classes), default=0)
    reason = f"a {team} needs up to {far_bytes} bytes of device memory; {free_bytes} bytes are free"
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


def _choose_warps(
    tuning: TreeTuning, classes: Sequence[TreeClass], free_bytes: int, by_blocks: bool
) -> tuple[int, int]:
    """Return the number of streams, and of warps of a block, that fit in memory."""
    warps = tuning.threads // 32
    fewest = warps if by_blocks else 1
    far_words = max((one.far_words for one in classes), default=0)
    for n_streams, n_warps in ((N_STREAMS, warps), (1, warps), (1, fewest)):
        if 4 * far_words * n_warps <= _slab_room(tuning, free_bytes, n_streams):
            return n_streams, n_warps
    raise LeaseTooLargeError(
        f"the search around one vertex needs {4 * far_words * fewest} bytes of device memory; "
        f"{_slab_room(tuning, free_bytes, 1)} bytes are available: use a device with more memory, or --engine cpu"
    )


def _choose_slots(tuning: TreeTuning, free_bytes: int, n_streams: int) -> int:
    """Return the slots of the queue of a stream: fewer if memory is short, a power of two or none."""
    room_bytes = int(tuning.slab_fraction * free_bytes) // (2 * n_streams)
    n_slots = tuning.slots
    while n_slots and 4 * n_slots * tuning.slot_words > room_bytes:
        n_slots = n_slots // 2 if n_slots > _LEAST_SLOTS else 0
    return n_slots
