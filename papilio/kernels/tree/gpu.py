"""The GPU engines of searches, their launches and their memory; a family says what they search.

A warp owns a work item and keeps what it needs in its part of the block's shared memory; what does not fit goes to
its part of a slab of device memory (``memory.cuh``). Warps without items take sub-trees that others leave to them in a
bounded queue (``tree_queue.cuh``). Slabs and queues are as large as free device memory allows. Where it is short,
launches follow each other in one stream, then blocks have one warp, blocks are fewer, and a queue has fewer slots or
none: :func:`explain_layout` says so in the plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from threading import Event
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError
from papilio.kernels.announce import say_passed
from papilio.kernels.device.constants import QUEUE_END_WORDS, QUEUE_PENDING, QUEUE_STATE_WORDS
from papilio.kernels.device.protocol import Device, Kernel, Module, stage_part
from papilio.kernels.engine import (
    Choice,
    Engine,
    EngineName,
    Loadable,
    Partial,
    SharedCut,
    StopCheck,
    never_cut,
    require_interval,
    shared_cut,
)
from papilio.kernels.tree.layout import TreeClass, explain_layout, join_classes, lay_out, make_classes
from papilio.kernels.tuning import TreeTuning, tree_tuning


class TreeEngine(Engine):
    """Base of the GPU engines whose work items are searched by ``search.cuh``.

    ``tuning`` are launch constants, by default those of ``stem``, the source of the kernel, for the device.

    Work is in words of 64 bits intersected.
    """

    name: EngineName = "gpu"
    stem: ClassVar[str]
    least_slice_s = 0.25

    def __init__(self, device: Device, tuning: TreeTuning | None) -> None:
        self.device, self.tuning = device, tuning or tree_tuning(self.stem, device.max_shared_bytes)
        self._bounds: NDArray[np.int64] = np.zeros(0, np.int64)  # of the run under way
        self.block_words = np.zeros(0, dtype=np.uint64)
        """Words of 32 bits that each block of threads intersected in the last launches: the balance of its work."""

    def stage(self, block: Loadable) -> Loadable:
        """Return a part with its edges on the device; other blocks are of no search and stay as they are."""
        return stage_part(self.device, block)

    def run(
        self, prepared: Any, start: int, stop: int, bounds: Sequence[int] = (), cut: StopCheck = never_cut
    ) -> Partial:
        """Count, heavy slices in launches of their own; the run can be cut at any item. See :meth:`Engine.run`."""
        require_interval(start, stop, prepared.n_items)
        self.block_words = np.zeros(0, dtype=np.uint64)
        self._bounds = np.asarray(bounds, np.int64)
        with self.device.guard():
            return self._count(prepared, start, stop, cut)

    @abstractmethod
    def _count(self, prepared: Any, start: int, stop: int, cut: StopCheck) -> Partial:
        """Count the items [start, stop), of which there may be none, or the first of them; see :meth:`run`."""

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
        pieces: Pieces,
        costs: NDArray[np.int64],
        cut: StopCheck,
        first: tuple[Any, ...],
        last: tuple[Any, ...],
    ) -> Pieces:
        """Search pieces; return those that were searched, see :meth:`TreeLauncher.run`."""
        launcher = TreeLauncher(self.device, search, classes, pieces, costs, pieces.starts_of(self._bounds))
        searched = launcher.run(cut, first, last)
        self.block_words = self.device.to_host(launcher.block_words)
        return searched

    def _work_done(self) -> int:
        return (int(self.block_words.sum()) + 1) // 2


@dataclass(frozen=True, eq=False)
class _Memory:
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


@dataclass(frozen=True, eq=False)
class Pieces:
    """What a run launches of its work items, each of which is one piece or several.

    ``starts`` are the pieces at which the items from ``first`` on begin, and where the last one ends: int64, rising,
    shape (n_items + 1,).
    """

    first: int
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, start: int, stop: int) -> Pieces:
        """Return those of the items [start, stop) where each is a piece."""
        return cls(start, np.arange(start, stop + 1))

    def starts_of(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pieces at which those of some items begin that lie inside the run, int64."""
        inside = items[(items > self.first) & (items < self.stop)]
        return self.starts[inside - self.first]

    @property
    def stop(self) -> int:
        """Item at which the run ends."""
        return self.first + self.starts.size - 1

    @property
    def span(self) -> tuple[int, int]:
        """The first piece, and where the last one ends."""
        return int(self.starts[0]), int(self.starts[-1])

    def until(self, piece: int) -> Pieces:
        """Return those of the first items that have all pieces below ``piece``, and of one item at least."""
        n_items = max(1, int(np.searchsorted(self.starts, piece)))
        return Pieces(self.first, self.starts[: n_items + 1])


_LOOK_S = 0.01
"""How often a run looks whether it should end early."""

_LOOKS_TOLD = 25
"""Looks after which others are told how far the run is."""

_NO_LIMIT = 2**31 - 1

_MIXED_LAUNCHES = 32
"""Parts of a run whose pieces do not come in one launch in their order: one part is ended where the run is cut."""


@dataclass(frozen=True, eq=False)
class _Launched:
    """A launch: pieces of one class in the order in which warps take them."""

    number: int  # of the class
    pieces: NDArray[np.int32]
    blocks: int
    can_end: bool  # whether pieces are skipped; not where several blocks share each of them
    state: Any  # int32 on the device, as the queue has it
    skipped: Any  # int32 on the device: of each piece whether it was left out

    def end_of_taken(self, state: NDArray[np.int32]) -> int:
        """Return a piece above all that had been taken when the state was read, 0 for none."""
        n_taken = min(int(state[0]), self.pieces.size)
        return int(self.pieces[:n_taken].max(initial=-1)) + 1


class _Ending:
    """Ends the launches of a run early: a thread looks whether to, while another one waits for them.

    ``limit`` is what the kernel reads. ``promised`` is the piece from which on nothing is searched.
    """

    def __init__(
        self,
        device: Device,
        launched: Sequence[_Launched],
        pieces: Pieces,
        costs: NDArray[np.int64],
        limit: Any,
        cut: StopCheck,
    ) -> None:
        self._device, self._launched, self._pieces, self._costs = device, launched, pieces, costs
        self._limit, self._cut = limit, cut
        self._is_over = Event()
        self._first, self.promised = pieces.span
        self.is_early = False

    def watch(self, submit: Callable[[], Sequence[Any]]) -> None:
        """Submit the launches and wait for them; ``submit`` returns what to wait for."""
        if self._cut():
            self._end()
            submit()
            return
        with ThreadPoolExecutor(1, "papilio-ending") as pool:
            looking = pool.submit(self._look)
            try:
                for mark in submit():
                    self._device.wait(mark)
            finally:
                self._is_over.set()
            looking.result()

    def _look(self) -> None:
        looks = 0
        while not self._is_over.wait(_LOOK_S):
            if self._cut():
                self._end()
                return
            looks += 1
            if looks % _LOOKS_TOLD == 0:
                say_passed(int(np.searchsorted(self._pieces.starts, self._find_taken(), side="right")) - 1)
            shared = shared_cut(self._cut)
            if shared is not None:
                self._share(shared)

    def _end(self) -> None:
        """Have everything skipped that is taken from now on."""
        self.is_early = True
        self._device.write_beside(self._limit, self._first)

    def _share(self, shared: SharedCut) -> None:
        """Leave the last half of what nobody has taken, by cost, or what the warps have not taken meanwhile."""
        if not all(each.can_end for each in self._launched):
            shared.leave(None)
            return
        taken = self._find_taken()
        done, left = (
            float(self._costs[begin:end].sum())
            for begin, end in ((self._first, taken), (taken, self.promised))
        )
        if not shared.is_worth(done, left):
            return
        costs = np.cumsum(self._costs[taken : self.promised], dtype=np.float64)
        half = taken + int(np.searchsorted(costs, left / 2)) + 1
        wanted = self._pieces.until(half)
        if wanted.span[1] >= self.promised:
            wanted = self._pieces.until(taken)
        if wanted.span[1] >= self.promised:
            shared.leave(None)
            return
        self.is_early = True
        self._device.write_beside(self._limit, wanted.span[1])
        ended = self._pieces.until(max(wanted.span[1], self._find_taken()))
        self.promised = ended.span[1]
        shared.leave(ended.stop)

    def _find_taken(self) -> int:
        """Return a piece above all that were taken."""
        ends = (each.end_of_taken(self._device.read_beside(each.state)) for each in self._launched)
        return max(self._first, *ends)


class TreeLauncher:
    """All launches of one kernel in one run.

    ``classes`` are those of all pieces; memory is shared among those of the run alone. ``costs`` is the estimated cost
    of each piece, int64 on the host. ``bounds`` are pieces inside the run, rising: where slices end.
    """

    def __init__(
        self,
        device: Device,
        search: TreeSearch,
        classes: Sequence[TreeClass],
        pieces: Pieces,
        costs: NDArray[np.int64],
        bounds: NDArray[np.int64],
    ) -> None:
        self.device, self.tuning, self.kernel, self.costs = (
            device,
            search.tuning,
            search.kernel_on(device),
            costs,
        )
        self._by_blocks = search.by_blocks
        self._pieces = pieces
        within = [one.between(*pieces.span) for one in classes]
        within = [one for one in within if one.items.size]
        layout = lay_out(device, search.tuning, within, search.fixed_words, search.blocks_per_sm)
        self.classes, self.layout = join_classes(within, layout)
        self._memory: dict[int, _Memory] = {}
        self.block_words = device.xp.zeros(max(self.layout.blocks, default=1), dtype=np.uint64)
        """Words that the blocks of each number intersected, in all launches, device."""
        self._limit = device.xp.full(1, _NO_LIMIT, dtype=np.int32)
        self._cuts = self._cut_heavy_slices(bounds)

    def run(self, cut: StopCheck, first: tuple[Any, ...], last: tuple[Any, ...]) -> Pieces:
        """Search the pieces, or, once ``cut`` is true, no more than were taken by then; return those searched.

        ``first`` and ``last`` are the arguments of the kernel before and behind those that every search has, which are
        SEARCH_PARAMETERS of ``search.cuh`` from ``items`` on. The pieces of whole items are searched, of one at least:
        those of them that were skipped as the run was cut are searched in further launches.
        """
        if self._pieces.span[0] == self._pieces.span[1]:
            return self._pieces
        launched = self._make_launches(self._list_launches())
        if cut is never_cut:
            self._submit(launched, first, last)
            return self._pieces
        ending = _Ending(self.device, launched, self._pieces, self.costs, self._limit, cut)
        ending.watch(lambda: self._submit(launched, first, last))
        if not ending.is_early:
            return self._pieces
        skipped = [self.device.to_host(each.skipped) != 0 for each in launched]
        n_searched = max(
            int(each.pieces[~left].max(initial=-1)) + 1 for each, left in zip(launched, skipped, strict=True)
        )
        if n_searched > ending.promised:
            raise ExecutionError(
                f"piece {n_searched - 1} was searched, although those from {ending.promised} on were left to others; "
                "the count would be wrong"
            )
        searched = self._pieces.until(n_searched)
        missing = [
            (each.number, each.pieces[left & (each.pieces < searched.span[1])])
            for each, left in zip(launched, skipped, strict=True)
        ]
        self._limit[...] = _NO_LIMIT
        self._submit(self._make_launches([each for each in missing if each[1].size]), first, last)
        return searched

    def _list_launches(self) -> list[tuple[int, NDArray[np.int32]]]:
        """Return class and pieces of each launch, the heaviest pieces first.

        Costs that fall, of one class, need one launch, but for heavy slices. Otherwise each part of the run has
        launches.
        """
        begin, end = self._pieces.span
        cuts = self._cuts
        if len(self.classes) > 1 or bool((np.diff(self.costs[begin:end]) > 0).any()):
            ends = np.cumsum(self.costs[begin:end], dtype=np.float64)
            parts = np.searchsorted(ends, ends[-1] * np.arange(1, _MIXED_LAUNCHES) / _MIXED_LAUNCHES) + begin
            cuts = np.concatenate((cuts, parts))
        made = []
        for low, high in pairwise(np.unique(np.concatenate(([begin], cuts, [end]))).tolist()):
            for number in reversed(range(len(self.classes))):
                pieces = self.classes[number].between(low, high).items
                if pieces.size:
                    made.append((number, pieces[np.argsort(-self.costs[pieces], kind="stable")]))
        return made

    def _cut_heavy_slices(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bounds of slices with fewer pieces than there are warps, where warps share pieces.

        Each is a launch of its own: a run that is cut ends with the slices under way. In one launch every warp would
        begin another piece, and all of these take as long as many slices.
        """
        if self._by_blocks or not self.layout.n_slots:
            return bounds[:0]
        n_pieces = np.diff(bounds, prepend=self._pieces.span[0])
        return bounds[n_pieces < self.layout.resident * self.layout.n_warps]

    def _make_launches(self, chosen: Sequence[tuple[int, NDArray[np.int32]]]) -> list[_Launched]:
        xp, made = self.device.xp, []
        state = np.zeros((len(chosen), QUEUE_STATE_WORDS), dtype=np.int32)
        state[:, QUEUE_PENDING] = [pieces.size for _, pieces in chosen]
        states = xp.asarray(state)
        for at, (number, pieces) in enumerate(chosen):
            blocks = self._count_blocks(number, pieces)
            can_end = not self._by_blocks or blocks < 2 * pieces.size
            skipped = xp.zeros(pieces.size, dtype=np.int32)
            made.append(_Launched(number, pieces, blocks, can_end, states[at], skipped))
        return made

    def _count_blocks(self, number: int, pieces: NDArray[np.int32]) -> int:
        if self._cuts.size:
            return self.layout.blocks[number]
        n_items, n_warps = pieces.size, self.layout.n_warps
        is_shared = self._by_blocks or self.layout.n_slots
        cost = int(self.costs[pieces].sum()) if is_shared else 0
        least = n_items if self._by_blocks else -(-n_items // n_warps)
        wanted = max(least, cost // (self.tuning.share_cost * n_warps))
        return min(wanted, self.layout.blocks[number])

    def _submit(
        self, launched: Sequence[_Launched], first: tuple[Any, ...], last: tuple[Any, ...]
    ) -> list[Any]:
        """Launch, in streams by turns; return what to wait for."""
        n_streams = min(self.layout.n_streams, len(launched))
        items = [self.device.xp.asarray(each.pieces) for each in launched]
        for stream in range(n_streams):
            if stream not in self._memory:
                self._memory[stream] = self._make_memory()
        marks = []
        for at, (each, of_launch) in enumerate(zip(launched, items, strict=True)):
            with self.device.stream(at % n_streams):
                self._launch(each, of_launch, first, last, at % n_streams)
                marks.append(self.device.mark())
        return marks

    def _launch(
        self, launched: _Launched, items: Any, first: tuple[Any, ...], last: tuple[Any, ...], stream: int
    ) -> None:
        one, tuning, layout, memory = (
            self.classes[launched.number],
            self.tuning,
            self.layout,
            self._memory[stream],
        )
        self.kernel(
            (launched.blocks,),
            (32 * layout.n_warps,),
            (
                *first, items, np.int32(items.size), self._limit, launched.skipped, np.int32(tuning.near_words),
                memory.slab, np.int64(one.far_words), launched.state, memory.ends, memory.tickets, memory.slots,
                np.uint32(layout.n_slots), np.int32(tuning.slot_words), np.int32(tuning.check_steps),
                self.block_words, *last,
            ),
            shared_mem=layout.shared_bytes,
        )  # fmt: skip

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
