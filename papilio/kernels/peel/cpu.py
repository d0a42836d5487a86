"""Peel any items on CPU threads; see :mod:`papilio.kernels.peel.phases` for the two phases.

The coarse phase runs each round over all threads, with atomic additions where they meet. In the fine phase one thread
peels each range exactly.

The state of an item is one of :data:`ALIVE`, :data:`GOING` (removed in this round) and :data:`GONE`. Docstrings mark
the functions that several threads run at once on the same arrays; all others belong to one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled, fetch_add
from papilio.kernels.peel.phases import BIN_BITS, N_BINS, Peeled, Report, bin_end, next_limit
from papilio.kernels.threads import ChunkRunner

SLICE_EFFORT = 1 << 24
"""Updates and checked items between two progress reports of a range: about a second at worst."""

SERIAL_LINKS = 1 << 20
"""Below this many links everything is peeled in one range, within a fraction of a second."""

FEW_THREADS = 2
"""Up to this many threads peel one range: cutting doubles the updates, and only saves waiting."""

RANGES_PER_THREAD = 16
"""Enough ranges to end at about the same time, heaviest first."""

Slice = Callable[[Ints, int], bool]
"""Peel a range by slices: ``peel_slice(stats, most)``.

A call resumes the range until about ``most`` updates are done, adds its rounds and updates to ``stats``, and returns
whether the range is finished.
"""


class Peeling(Protocol):
    """The items to peel, and their links."""

    supports: Ints
    states: States
    link_offsets: Ints
    """Start of the links of each item, and the end of the last ones: the differences weigh the items."""

    @property
    def updates(self) -> int: ...

    def run_round(self, going: Items, bound: int, following: Items) -> int:
        """Remove items; write the items that thereby fall below the bound, and return their number."""
        ...

    def deal(self, ranges: Ranges) -> Ints:
        """Lay the ranges out for the fine phase; return the weight of each."""
        ...

    def open_range(self, number: int, numbers: Numbers) -> tuple[Window, Slice]:
        """Open a range; its slices write the numbers of its items. Called by several threads."""
        ...


@dataclass(frozen=True, eq=False)
class Ranges:
    """The items by range; ranges are not empty."""

    of: Items
    """Range of each item."""
    n: int
    order: Items
    """Items by range, then id; range r has ``order[bounds[r]:bounds[r + 1]]``."""
    bounds: Ints
    limits: list[int]
    """The numbers of range r are in ``[limits[r], limits[r + 1])``."""
    rounds: int
    """Rounds of the coarse phase."""

    def items(self, number: int) -> Items:
        """Return the items of a range."""
        return self.order[self.bounds[number] : self.bounds[number + 1]]

    def is_open(self) -> NDArray[np.bool_]:
        """Return a mask of the ranges with more than one number, shape (n,). Others are not peeled again."""
        return np.array([high - low > 1 for low, high in pairwise(self.limits)], np.bool_)

    def min_numbers(self) -> Numbers:
        """Return the minimum number of the range of each item: its own number unless the range is open."""
        return np.array(self.limits[:-1], np.uint64)[self.of]


def choose_ranges(n_items: int, n_links: int, threads: int) -> int:
    """Return the number of ranges to request."""
    if n_links < SERIAL_LINKS or threads <= FEW_THREADS:
        return 1
    return min(RANGES_PER_THREAD * threads, n_items)


def peel(peeling: Peeling, threads: int, report: Report, n_ranges: int | None) -> Peeled:
    """Return the numbers of all items; the parameters are as in :func:`papilio.kernels.peel.tip.peel_tip`."""
    began = perf_counter()
    if n_ranges is None:
        n_ranges = choose_ranges(peeling.states.size, int(peeling.link_offsets[-1]), threads)
    ranges = _cut_ranges(peeling, n_ranges, report)
    middle = perf_counter()
    numbers = ranges.min_numbers()
    rounds, updates = _peel_ranges(peeling, ranges, threads, numbers, report)
    seconds = {"coarse": middle - began, "fine": perf_counter() - middle}
    return Peeled(numbers, ranges.n, ranges.rounds, rounds, peeling.updates + updates, seconds)


def _cut_ranges(peeling: Peeling, wanted: int, report: Report) -> Ranges:
    """Run the coarse phase into ranges, ``wanted`` if all were equally heavy; 1 gives one range."""
    supports, states, weight_starts = peeling.supports, peeling.states, peeling.link_offsets
    n_items = states.size
    ranges = np.zeros(n_items, np.int32)
    alive = np.arange(n_items, dtype=np.int32)
    going, following = np.empty(n_items, np.int32), np.empty(n_items, np.int32)
    share = max(1, (int(weight_starts[-1]) + n_items) // wanted)
    n_ranges, rounds, limits, weights = 0, 0, [0], np.empty(N_BINS, np.int64)
    n_alive: Index = n_items
    while n_alive:
        bound: Index = NO_BOUND
        if wanted > 1:
            bound = choose_bound(alive[:n_alive], supports, weight_starts, limits[-1], share, weights)
        n_going: Index = collect_below(alive[:n_alive], supports, bound, going)
        while n_going:
            ranges[going[:n_going]] = n_ranges
            n_following = peeling.run_round(going[:n_going], int(bound), following)
            going, following = following, going
            n_going = n_following
            rounds += 1
        n_alive = keep_alive(alive[:n_alive], states)
        n_ranges += 1
        limits.append(int(bound))
        report("coarse", n_items - int(n_alive), n_items)
    order = np.argsort(ranges, kind="stable").astype(np.int32)
    bounds = np.searchsorted(ranges[order], np.arange(n_ranges + 1))
    return Ranges(ranges, n_ranges, order, bounds, limits, rounds)


def _peel_ranges(peeling: Peeling, ranges: Ranges, threads: int, numbers: Numbers, report: Report) -> tuple[int, int]:
    """Run the fine phase on the open ranges, heaviest first; return (rounds, updates)."""
    weights = peeling.deal(ranges)
    heaviest = np.argsort(-weights, kind="stable")
    heaviest = heaviest[ranges.is_open()[heaviest]]
    total, done = int(weights[heaviest].sum()), np.zeros(weights.size, np.int64)

    def run(stats: Ints, start: int, _stop: int) -> None:
        number = int(heaviest[start])
        n_items = int(ranges.bounds[number + 1] - ranges.bounds[number])
        window, peel_slice = peeling.open_range(number, numbers)
        is_done = False
        while not is_done:
            is_done = peel_slice(stats, SLICE_EFFORT)
            done[number] = int(weights[number]) * int(window.places[3]) // n_items
            report("fine", int(done.sum()), total)

    runner = ChunkRunner(lambda: np.zeros(2, np.int64), threads)
    runner.run([(at, at + 1) for at in range(heaviest.size)], run)
    report("fine", total, total)
    return sum(int(stats[0]) for stats in runner.states), sum(int(stats[1]) for stats in runner.states)


Items = NDArray[np.int32]
States = NDArray[np.uint8]
Numbers = NDArray[np.uint64]

ALIVE, GOING, GONE = 0, 1, 2

NO_BOUND = np.iinfo(np.int64).max
"""A value above every support."""

_WINDOW_SHARE = 32
_WINDOW_ITEMS = 512
"""Minimum items of a window, which otherwise holds a share of the items.

Every level scans the window; making a window scans all items.
"""


@compiled
def _bin_of(support: Index) -> Index:
    """Return the bin of a support; bins increase with supports, and each of the first 64 supports has its own."""
    shift = np.int64(0)
    while (support >> shift) >= (2 << BIN_BITS):
        shift += 1
    return (shift << BIN_BITS) + (support >> shift)


_bin_end, _next_limit = compiled(bin_end), compiled(next_limit)


@compiled
def choose_bound(alive: Items, supports: Ints, weight_starts: Ints, low: Index, share: Index, weights: Ints) -> Index:
    """Return the bound of a range from ``low`` on: items below it weigh about ``share``, or it is the limit.

    The weight of item i is ``weight_starts[i + 1] - weight_starts[i]``, plus one. ``weights`` is room for the weight of
    each bin.
    """
    weights[:] = 0
    least: Index = np.int64(NO_BOUND)
    for i in alive:
        weights[_bin_of(supports[i])] += weight_starts[i + 1] - weight_starts[i] + 1
        least = min(least, supports[i])
    limit = _next_limit(int(max(low, least)))
    total = np.int64(0)
    for place in range(weights.size):
        total += weights[place]
        if total >= share and place < N_BINS - 1:
            return min(_bin_end(place), limit)
    return limit


@compiled
def keep_alive(alive: Items, states: States) -> Index:
    """Keep, in order and in place, the items that are alive; return their number."""
    n = 0
    for i in alive:
        if states[i] == ALIVE:
            alive[n] = i
            n += 1
    return n


@compiled
def collect_below(alive: Items, supports: Ints, bound: Index, going: Items) -> Index:
    """Write the items with a support below the bound to ``going``; return their number."""
    n = 0
    for i in alive:
        if supports[i] < bound:
            going[n] = i
            n += 1
    return n


@compiled
def set_states(items: Items, states: States, state: int) -> None:
    """Give all the items a state."""
    for i in items:
        states[i] = state


class Round(NamedTuple):
    """A round of the coarse phase: all threads together remove the items below the bound."""

    states: States
    supports: Ints
    bound: int
    """Items with a support below it follow in the next round."""
    following: Items
    n_following: Ints
    """Number of items that follow so far, shape (1,)."""


@compiled
def lower_support(round_: Round, item: Index, lost: Index) -> None:
    """Lower a support, by atomics; the thread that crosses the bound queues the item."""
    before = fetch_add(round_.supports, item, -lost)
    if before >= round_.bound and before - lost < round_.bound:
        round_.following[fetch_add(round_.n_following, 0, np.int64(1))] = item


class Window(NamedTuple):
    """The remaining items of one range, and the ones with the least supports."""

    alive: Items
    """Remaining items, and some that are gone."""
    held: Items
    """Items with a support below the bound of the window, and some that are gone."""
    going: Items
    following: Items
    """Room for the items of a round, and of the next."""
    places: Ints
    """Items in ``alive``, items in ``held``, bound of the window, items gone; shape (4,)."""
    counts: Ints
    """Room for the number of items in each bin."""


def make_window(items: Items) -> Window:
    """Return a window of these items, not yet opened."""
    places = np.array([items.size, 0, 0, 0], np.int64)
    held, going, following = (np.empty_like(items) for _ in range(3))
    return Window(items.copy(), held, going, following, places, np.empty(N_BINS, np.int64))


@compiled
def _open_window(window: Window, states: States, supports: Ints) -> None:
    """Hold the items of minimum support; all items below the bound are held."""
    n = keep_alive(window.alive[: window.places[0]], states)
    share = max(_WINDOW_ITEMS, n // _WINDOW_SHARE)
    bound: Index = np.int64(NO_BOUND)
    if n > share:
        counts = window.counts
        counts[:] = 0
        for i in window.alive[:n]:
            counts[_bin_of(supports[i])] += 1
        total, place = counts[0], 0
        while total < share:
            place += 1
            total += counts[place]
        bound = _bin_end(place) if place < N_BINS - 1 else np.int64(NO_BOUND)
    window.places[0] = n
    window.places[1] = collect_below(window.alive[:n], supports, bound, window.held)
    window.places[2] = bound


@compiled
def take_least(window: Window, states: States, supports: Ints) -> tuple[Index, Index]:
    """Write the items of the minimum support to ``window.going``; return (their number, their support).

    The number is 0 if no item is left.
    """
    while True:
        n: Index = 0
        taken: Index = 0
        least: Index = np.int64(NO_BOUND)
        for at in range(window.places[1]):
            i = window.held[at]
            if states[i] == ALIVE:
                window.held[n] = i
                n += 1
                if supports[i] < least:
                    least = supports[i]
                    taken = 0
                if supports[i] == least:
                    window.going[taken] = i
                    taken += 1
        window.places[1] = n
        if taken > 0:
            return taken, least
        _open_window(window, states, supports)
        if window.places[0] == 0:
            return 0, least


@compiled
def begin_round(going: Items, states: States, numbers: Numbers, level: Index) -> None:
    """Set the number of the items to remove."""
    for item in going:
        states[item] = GOING
        numbers[item] = np.uint64(level)


@compiled
def end_round(going: Items, states: States, window: Window, stats: Ints, updates: int) -> None:
    """Mark the items as gone; ``stats`` are rounds and updates."""
    set_states(going, states, GONE)
    window.places[3] += going.size
    stats[0] += 1
    stats[1] += updates
