"""What the GPU engines of searches share: kernels are compiled and launched here; a family says what they search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.decisions import Choice
from papilio.kernels.device.protocol import Device, stage_part
from papilio.kernels.engine import Cut, EngineName, Loadable, Partial, never_cut, require_interval
from papilio.kernels.tree.launch import TreeLauncher, TreeSearch
from papilio.kernels.tree.layout import TreeClass, explain_layout, make_classes
from papilio.kernels.tuning import TreeTuning


class TreeEngine(ABC):
    """Base of the GPU engines whose work items are searched by ``search.cuh``; ``tuning`` are launch constants.

    A prepared graph has ``n_items``, and in ``work`` the estimated set operations of each item, int64, host.
    """

    name: EngineName = "gpu"

    def __init__(self, device: Device, tuning: TreeTuning) -> None:
        self.device, self.tuning = device, tuning
        self.block_words = np.zeros(0, dtype=np.uint64)
        """Words of 32 bits that each block of threads intersected in the last launches: the balance of its work."""

    def stage(self, block: Loadable) -> Loadable:
        """Return a part with its edges on the device; other blocks are of no search and stay as they are."""
        return stage_part(self.device, block)

    def work(self, prepared: Any) -> NDArray[np.int64]:
        """Estimated set operations of each item, int64 of shape (n_items,), host; falling, but for a part."""
        work: NDArray[np.int64] = prepared.work
        return work

    def slice_work(self, prepared: Any) -> int:
        """A slice costs its launches alone, which run while the slice before still does."""
        return 1

    def run(
        self, prepared: Any, start: int, stop: int, bounds: Sequence[int] = (), cut: Cut = never_cut
    ) -> Partial:
        """Count the motifs of the items ``[start, stop)``, or of the first of them if the run is cut.

        Work is in words of 64 bits intersected.

        Raises
        ------
        InputError
            When the interval does not lie in ``[0, n_items]``.
        LeaseTooLargeError
            When the device has no room for what these items need or find, or for the search of one block.
        DeviceLostError
            When a kernel failed and the device is lost to this process.
        """
        require_interval(start, stop, prepared.n_items)
        self.block_words = np.zeros(0, dtype=np.uint64)
        with self.device.guard():
            return self._count(prepared, [start, *bounds, stop], cut)

    @abstractmethod
    def _count(self, prepared: Any, bounds: Sequence[int], cut: Cut) -> Partial:
        """Count the items between the bounds, whose first and last may be equal; see :meth:`run`."""

    def _make_ready(
        self, search: TreeSearch, need_words: NDArray[np.int64]
    ) -> tuple[tuple[TreeClass, ...], tuple[Choice, ...]]:
        """Return the classes of the items, and in which ways memory is too short for them; compile the kernel.

        No lease waits for the compiler then.
        """
        classes = make_classes(need_words, search.tuning)
        if classes:
            search.kernel_on(self.device)
        return classes, explain_layout(
            self.device, search.tuning, classes, search.fixed_words, search.blocks_per_sm
        )

    def _launch(
        self,
        search: TreeSearch,
        classes: Sequence[TreeClass],
        bounds: Sequence[int],
        costs: NDArray[np.int64],
        cut: Cut,
        first: tuple[Any, ...],
        last: tuple[Any, ...],
    ) -> int:
        """Launch the slices between the bounds; return how many, see :meth:`TreeLauncher.run`."""
        launcher = TreeLauncher(self.device, search, classes, bounds, costs)
        n_slices = launcher.run(cut, first, last)
        self.block_words = self.device.to_host(launcher.block_words)
        return n_slices

    def _work_done(self) -> int:
        return (int(self.block_words.sum()) + 1) // 2
