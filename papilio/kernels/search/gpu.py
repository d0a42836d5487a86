"""Base of the GPU engines that search trees: their launches and their memory. A family supplies the search.

A warp owns a work item and keeps its working set in its part of the block's shared memory; the overflow goes to its
part of a slab of device memory (``memory.cuh``). Idle warps take sub-trees that busy warps leave in a bounded queue
(``tree_queue.cuh``). Slabs and queues are as large as free device memory allows. If memory is short, the launches share
one stream, then blocks have one warp, there are fewer blocks, and a queue has fewer slots or none;
:func:`explain_layout` reports this in the plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from threading import Event
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

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
from papilio.kernels.search.layout import TreeClass, TreeLayout, explain_layout, join_classes, lay_out, make_classes
from papilio.kernels.tuning import TreeTuning, tree_tuning


class TreeEngine(Engine):
    """Base of the GPU engines whose work items are searched by ``search.cuh``.

    ``tuning`` holds the launch constants, by default the device's row for ``stem``, the source of the kernel.

    Work is in intersected words of 64 bits.
    """

    name: EngineName = "gpu"
    stem: ClassVar[str]
    least_slice_s = 0.25

    def __init__(self, device: Device, tuning: TreeTuning | None) -> None:
        self.device, self.tuning = device, tuning or tree_tuning(self.stem, device.max_shared_bytes)
        self._bounds: NDArray[np.int64] = np.zeros(0, np.int64)  # of the current run
        self._plans = WeakKeyDictionary[TreeClass, LaunchPlan]()  # of the last run of each prepared graph
        self.block_words = np.zeros(0, dtype=np.uint64)
        """32-bit words that each block of threads intersected in the last launches: the balance of its work."""

    def stage(self, block: Loadable) -> Loadable:
        """Return a part with its edges on the device. Other blocks are not searched and stay unchanged."""
        return stage_part(self.device, block)

    def run(
        self, prepared: Any, start: int, stop: int, bounds: Sequence[int] = (), cut: StopCheck = never_cut
    ) -> Partial:
        """Count, with heavy slices in separate launches; the run can be cut at any item. See :meth:`Engine.run`."""
        require_interval(start, stop, prepared.n_items)
        self.block_words = np.zeros(0, dtype=np.uint64)
        self._bounds = np.asarray(bounds, np.int64)
        with self.device.guard():
            return self._count(prepared, start, stop, cut)

    @abstractmethod
    def _count(self, prepared: Any, start: int, stop: int, cut: StopCheck) -> Partial:
        """Count the items [start, stop), possibly none, or only the first of them if cut. See :meth:`run`."""

    def _make_ready(
        self,
        search: TreeSearch,
        need_words: NDArray[np.int64],
        block_words: NDArray[np.int64] | None = None,
    ) -> tuple[tuple[TreeClass, ...], tuple[Choice, ...]]:
        """Compile the kernel. Return the classes of the items and the effects of a memory shortage.

        Compiling here keeps leases from waiting for the compiler. The needs are as for :func:`make_classes`.
        """
        classes = make_classes(need_words, search.tuning, block_words)
        if classes:
            search.kernel_on(self.device)
        return classes, explain_layout(self.device, search.tuning, classes, search.fixed_words, search.blocks_per_sm)

    def _launch(
        self,
        search: TreeSearch,
        classes: Sequence[TreeClass],
        pieces: Pieces,
        costs: Callable[[], NDArray[np.int64]],
        cut: StopCheck,
        first: tuple[Any, ...],
        last: tuple[Any, ...],
    ) -> Pieces:
        """Search pieces, whose ``costs`` a new plan needs; return the pieces searched. See :meth:`TreeLauncher.run`."""
        if not classes or pieces.span[0] == pieces.span[1]:
            return pieces
        launcher = TreeLauncher(self.device, search, self._plan(search, classes, pieces, costs), pieces)
        searched = launcher.run(cut, first, last)
        self.block_words = self.device.to_host(launcher.block_words)
        return searched

    def _plan(
        self, search: TreeSearch, classes: Sequence[TreeClass], pieces: Pieces, costs: Callable[[], NDArray[np.int64]]
    ) -> LaunchPlan:
        """Return the launches of these pieces: those of the last run of the same graph, if they are the same."""
        bounds = pieces.starts_of(self._bounds)
        within = [one.between(*pieces.span) for one in classes]
        within = [one for one in within if one.items.size]
        layout = lay_out(self.device, search.tuning, within, search.fixed_words, search.blocks_per_sm)
        key = (search, pieces.span, bounds.tobytes(), layout)
        plan = self._plans.get(classes[0])
        if plan is None or plan.key != key:
            plan = self._plans[classes[0]] = plan_launches(self.device, key, within, costs(), bounds)
        return plan

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
    """Describe a search kernel and how to launch it."""

    stem: str  # the source's
    kernel: str
    defines: Mapping[str, int]  # in addition to MIN_BLOCKS
    tuning: TreeTuning
    fixed_words: int  # shared memory of each warp, in addition to ``tuning.near_words``
    blocks_per_sm: int  # resident blocks that the registers of a multiprocessor allow
    by_blocks: bool = False  # whether a block owns an item; blocks without one then help others

    def load_on(self, device: Device) -> Module:
        """Return the module of the kernel; called during preparation, so that it compiles in the background."""
        return device.load(self.stem, {"MIN_BLOCKS": self.blocks_per_sm, **self.defines})

    def kernel_on(self, device: Device) -> Kernel:
        """Return the kernel; wait until it is compiled."""
        return self.load_on(device).get_function(self.kernel)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Select the work items of a run; an item has one or more pieces.

    ``starts`` holds the first piece of each item from ``first`` on, and the end of the last one: int64, ascending,
    shape (n_items + 1,).
    """

    first: int
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, start: int, stop: int) -> Pieces:
        """Return the items [start, stop) of one piece each."""
        return cls(start, np.arange(start, stop + 1))

    def starts_of(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first pieces of those ``items`` that begin inside the run, int64."""
        inside = items[(items > self.first) & (items < self.stop)]
        return self.starts[inside - self.first]

    @property
    def stop(self) -> int:
        """Return the item at which the run ends."""
        return self.first + self.starts.size - 1

    @property
    def span(self) -> tuple[int, int]:
        """Return the first piece and the end of the last one."""
        return int(self.starts[0]), int(self.starts[-1])

    def until(self, piece: int) -> Pieces:
        """Return the first items whose pieces are all below ``piece``, at least one item."""
        n_items = max(1, int(np.searchsorted(self.starts, piece)))
        return Pieces(self.first, self.starts[: n_items + 1])


_LOOK_S = 0.01
"""Interval at which a run checks whether to end early."""

_LOOKS_TOLD = 25
"""Number of checks between progress reports."""

_NO_LIMIT = 2**31 - 1

_LEAST_HAND = 16
"""Mean number of pieces with descending costs, one after the other, from which they stay in their order."""

_MIXED_LAUNCHES = 32
"""Parts of a run whose pieces need several launches or another order; a cut ends only one part."""


_MOST_FINISHED = 10
"""Slices that a run which is cut may finish: 2.5 s of the shortest ones."""


@dataclass(frozen=True, eq=False)
class _Launched:
    """A launch of a run."""

    launch: Launch
    state: Any  # int32 on the device, laid out like the queue's
    skipped: Any  # int32 on the device: 1 for each skipped piece

    @property
    def pieces(self) -> NDArray[np.int32]:
        return self.launch.pieces

    def end_of_taken(self, state: NDArray[np.int32]) -> int:
        """Return a piece above all taken when the state was read, 0 for none."""
        return int(self.pieces[: int(state[0])].max(initial=-1)) + 1


@cache
def _lookers() -> ThreadPoolExecutor:
    """Return the threads that watch runs; starting one for each run would take as long as a short kernel."""
    return ThreadPoolExecutor(thread_name_prefix="papilio-ending")


class _Ending:
    """End the launches of a run early: one thread checks for a cut while another one waits for the launches.

    An exception while it waits, such as that of Ctrl-C, ends them, too. The kernel reads ``limit``. Nothing from the
    piece ``promised`` on is searched.
    """

    def __init__(
        self,
        device: Device,
        launched: Sequence[_Launched],
        pieces: Pieces,
        limit: Any,
        cut: StopCheck,
    ) -> None:
        self._device, self._launched, self._pieces = device, launched, pieces
        self._limit, self._cut = limit, cut
        self._is_over = Event()
        self._first, self.promised = pieces.span
        self.is_early = False

    def watch(self, submit: Callable[[], Sequence[Any]]) -> None:
        """Submit the launches and wait for the objects that ``submit`` returns."""
        if self._cut():
            self._end()
            submit()
            return
        looking = _lookers().submit(self._look)
        try:
            for mark in submit():
                self._device.wait(mark)
        except BaseException:
            with suppress(Exception):
                self._end()
                self._device.synchronize()
            raise
        finally:
            self._is_over.set()
            wait([looking])
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
        """Skip every piece that is taken from now on."""
        self.is_early = True
        self._device.write_beside(self._limit, self._first)

    def _share(self, shared: SharedCut) -> None:
        """Give up the last half, by predicted time, of the pieces not yet taken, minus pieces taken in the meantime."""
        taken, starts = self._find_taken(), self._pieces.starts
        times = np.concatenate(([0.0], np.cumsum(shared.times_of(self._pieces.first, self._pieces.stop))))
        done, end = np.interp((taken, self.promised), starts, times)
        # The heaviest items come first, and how much lighter the last ones are is an estimate.
        by_time = (end - done) / max(done, 1e-300)
        by_number = (self.promised - taken) / max(taken - self._first, 1)
        if not shared.is_worth(1.0, float(np.sqrt(by_time * by_number))):
            return
        half = int(np.interp((done + end) / 2, times, starts)) + 1
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
        """Return a piece above all taken."""
        ends = (each.end_of_taken(self._device.read_beside(each.state)) for each in self._launched)
        return max(self._first, *ends)


@dataclass(frozen=True, eq=False)
class Launch:
    """Describe a launch: pieces of one class in the order in which warps take them."""

    pieces: NDArray[np.int32]
    items: Any  # the same on the device
    blocks: int
    far_words: int  # of device memory for each warp


@dataclass(frozen=True, eq=False)
class LaunchPlan:
    """The launches of a run, which further runs of the same pieces repeat; holds no graph."""

    key: tuple[TreeSearch, tuple[int, int], bytes, TreeLayout]  # search, pieces, bounds of slices, free memory
    layout: TreeLayout
    launches: list[Launch]
    # words of the slab of a stream
    slab_words: int
    tickets: Any  # of an empty queue, on the device


def plan_launches(
    device: Device,
    key: tuple[TreeSearch, tuple[int, int], bytes, TreeLayout],
    within: Sequence[TreeClass],
    costs: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> LaunchPlan:
    """Return the launches that search some pieces; they share memory with nothing else.

    ``within`` are the classes of these pieces alone, and ``costs`` the estimated cost of every piece, int64 on the
    host. ``bounds`` are pieces inside the run, ascending, at which slices end.
    """
    search, (begin, end), _, layout = key
    classes, layout = join_classes(within, layout)
    cuts = _cut_heavy_slices(search, layout, begin, bounds)
    far_words = [one.far_words(layout.n_warps) for one in classes]
    launches = []
    for number, pieces in _list_launches(classes, costs, cuts, begin, end):
        blocks = layout.blocks[number]
        if not cuts.size:
            blocks = min(_count_blocks(search, layout, pieces, costs), blocks)
        launches.append(Launch(pieces, device.xp.asarray(pieces), blocks, far_words[number]))
    slab_words = max(blocks * layout.n_warps * words for blocks, words in zip(layout.blocks, far_words, strict=True))
    tickets = device.to_device(np.arange(max(1, layout.n_slots), dtype=np.uint32))
    return LaunchPlan(key, layout, launches, slab_words, tickets)


def _list_launches(
    classes: Sequence[TreeClass], costs: NDArray[np.int64], cuts: NDArray[np.int64], begin: int, end: int
) -> list[tuple[int, NDArray[np.int32]]]:
    """Return class and pieces of each launch, in the order in which warps take them.

    Pieces of one class with descending costs need one launch, apart from heavy slices, and so do hands
    (:func:`~papilio.kernels.engine.deal_items`), one after the other. Otherwise each part of the run has separate
    launches.
    """
    n_rises = int((np.diff(costs[begin:end]) > 0).sum())
    in_order = len(classes) == 1 and n_rises * _LEAST_HAND <= end - begin
    if not in_order:
        ends = np.cumsum(costs[begin:end], dtype=np.float64)
        parts = np.searchsorted(ends, ends[-1] * np.arange(1, _MIXED_LAUNCHES) / _MIXED_LAUNCHES) + begin
        cuts = np.concatenate((cuts, parts))
    made = []
    for low, high in pairwise(np.unique(np.concatenate(([begin], cuts, [end]))).tolist()):
        for number in reversed(range(len(classes))):
            pieces = classes[number].between(low, high).items
            if not in_order:
                pieces = pieces[np.argsort(-costs[pieces], kind="stable")]
            if pieces.size:
                made.append((number, pieces))
    return made


def _cut_heavy_slices(
    search: TreeSearch, layout: TreeLayout, begin: int, bounds: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the bounds of slices with few pieces, if warps share pieces.

    Each slice has a separate launch, because a run that is cut finishes what its warps have begun. In a single launch
    that would be more than ``_MOST_FINISHED`` slices. A launch takes at least as long as its longest piece.
    """
    if search.by_blocks or not layout.n_slots:
        return bounds[:0]
    n_pieces = np.diff(bounds, prepend=begin)
    return bounds[_MOST_FINISHED * n_pieces < layout.resident * layout.n_warps]


def _count_blocks(search: TreeSearch, layout: TreeLayout, pieces: NDArray[np.int32], costs: NDArray[np.int64]) -> int:
    """Return the number of blocks that some pieces can use."""
    n_items, n_warps = pieces.size, layout.n_warps
    is_shared = search.by_blocks or layout.n_slots
    cost = int(costs[pieces].sum()) if is_shared else 0
    least = n_items if search.by_blocks else -(-n_items // n_warps)
    return max(least, cost // (search.tuning.share_cost * n_warps))


class TreeLauncher:
    """Launch one kernel as planned, any number of times in one run."""

    def __init__(self, device: Device, search: TreeSearch, plan: LaunchPlan, pieces: Pieces) -> None:
        self.device, self.tuning, self.kernel = device, search.tuning, search.kernel_on(device)
        self._plan, self.layout, self._pieces, self._by_blocks = plan, plan.layout, pieces, search.by_blocks
        self._memory: dict[int, _Memory] = {}
        self.block_words = device.xp.zeros(max(self.layout.blocks, default=1), dtype=np.uint64)
        """Words that the blocks of each number intersected in all launches, on the device."""
        self._limit = device.xp.full(1, _NO_LIMIT, dtype=np.int32)

    def run(self, cut: StopCheck, first: tuple[Any, ...], last: tuple[Any, ...]) -> Pieces:
        """Search the pieces, or only the pieces taken before ``cut`` became true. Return the pieces searched.

        ``first`` and ``last`` are the arguments of the kernel before and after the common ones, which are
        SEARCH_PARAMETERS of ``search.cuh`` from ``items`` on. Whole items are searched, at least one: if the cut
        skipped some pieces of an item, further launches search them.
        """
        launched = self._make_launches(self._plan.launches)
        if cut is never_cut:
            self._submit(launched, first, last)
            return self._pieces
        ending = _Ending(self.device, launched, self._pieces, self._limit, cut)
        ending.watch(lambda: self._submit(launched, first, last))
        if not ending.is_early:
            return self._pieces
        skipped = [self.device.to_host(each.skipped) == 1 for each in launched]
        n_searched = max(
            int(each.pieces[~left].max(initial=-1)) + 1 for each, left in zip(launched, skipped, strict=True)
        )
        if n_searched > ending.promised:
            raise ExecutionError(
                f"this run searched piece {n_searched - 1}, although it had left all pieces from {ending.promised} on "
                "to another worker; the count would be wrong"
            )
        searched = self._pieces.until(n_searched)
        missing = [
            (each.launch, each.pieces[left & (each.pieces < searched.span[1])])
            for each, left in zip(launched, skipped, strict=True)
        ]
        self._limit[...] = _NO_LIMIT
        again = [replace(one, pieces=left, items=self.device.xp.asarray(left)) for one, left in missing if left.size]
        self._submit(self._make_launches(again), first, last)
        return searched

    def _make_launches(self, launches: Sequence[Launch]) -> list[_Launched]:
        xp = self.device.xp
        state = np.zeros((len(launches), QUEUE_STATE_WORDS), dtype=np.int32)
        state[:, QUEUE_PENDING] = [each.pieces.size for each in launches]
        states, skipped = xp.asarray(state), xp.zeros(sum(each.pieces.size for each in launches), dtype=np.int32)
        ends = np.cumsum([0, *(each.pieces.size for each in launches)]).tolist()
        return [
            _Launched(each, states[at], skipped[low:high])
            for at, (each, (low, high)) in enumerate(zip(launches, pairwise(ends), strict=True))
        ]

    def _submit(self, launched: Sequence[_Launched], first: tuple[Any, ...], last: tuple[Any, ...]) -> list[Any]:
        """Launch, alternating between the streams; return the objects to wait for."""
        n_streams = min(self.layout.n_streams, len(launched))
        for stream in range(n_streams):
            if stream not in self._memory:
                self._memory[stream] = self._make_memory()
        marks = []
        for at, each in enumerate(launched):
            with self.device.stream(at % n_streams):
                self._launch(each, first, last, at % n_streams)
                marks.append(self.device.mark())
        return marks

    def _launch(self, launched: _Launched, first: tuple[Any, ...], last: tuple[Any, ...], stream: int) -> None:
        one, tuning, layout, memory = launched.launch, self.tuning, self.layout, self._memory[stream]
        # Units of each item that warps have taken: blocks without an item help others.
        taken = (self.device.xp.zeros(one.pieces.size, dtype=np.int32),) if self._by_blocks else ()
        self.kernel(
            (one.blocks,),
            (32 * layout.n_warps,),
            (
                *first, one.items, np.int32(one.pieces.size), self._limit, launched.skipped,
                np.int32(tuning.near_words), memory.slab, np.int64(one.far_words), launched.state, memory.ends,
                memory.tickets, memory.slots,
                np.uint32(layout.n_slots), np.int32(tuning.slot_words), np.int32(tuning.check_steps),
                self.block_words, *last, *taken,
            ),
            shared_mem=layout.shared_bytes,
        )  # fmt: skip

    def _make_memory(self) -> _Memory:
        xp, n_slots = self.device.xp, self.layout.n_slots
        return _Memory(
            slab=xp.empty(max(4, self._plan.slab_words), dtype=np.uint32),
            ends=xp.zeros(QUEUE_END_WORDS, dtype=np.uint32),
            tickets=self._plan.tickets.copy(),
            slots=xp.empty(max(1, n_slots * self.tuning.slot_words), dtype=np.uint32),
        )
