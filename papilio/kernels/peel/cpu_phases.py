"""Peeling on CPU threads, whatever is peeled; see :mod:`papilio.kernels.peel.phases` for the two phases.

The coarse phase runs each round over all threads, with atomic additions where they meet. In the fine phase each range
is peeled exactly by one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ints, Place
from papilio.kernels.peel.phases import N_BINS, Peeled, Report
from papilio.kernels.peel.ranges import (
    NO_BOUND,
    Items,
    Numbers,
    States,
    Window,
    choose_bound,
    collect_below,
    keep_alive,
)
from papilio.kernels.threads import ChunkRunner

SLICE_EFFORT = 1 << 24
"""Updates and items looked at after which the peeling of a range tells how far it is: about a second at worst."""

SERIAL_LINKS = 1 << 20
"""Fewer links than these are peeled in one range, within a fraction of a second."""

FEW_THREADS = 2
"""So few peel one range: cutting into ranges takes as many updates again, and spares only waiting for each other."""

RANGES_PER_THREAD = 16
"""Enough that the ranges, heaviest first, end at about the same time."""

Slice = Callable[[Ints, int], bool]
"""``peel_slice(stats, most)`` goes on with a range until about ``most`` updates are done, adds its rounds and updates
to ``stats``, and returns whether the range is done with."""


class Peeling(Protocol):
    """Items that are peeled, with what they are peeled from."""

    supports: Ints
    states: States
    link_offsets: Ints
    """Where the links of each item begin, and the last ones end: the differences weigh the items."""

    @property
    def updates(self) -> int:
        """Supports that the rounds have changed so far."""
        ...

    def run_round(self, going: Items, bound: int, following: Items) -> int:
        """Take items away; write those that thereby fall below the bound, and return how many they are."""
        ...

    def deal(self, ranges: Ranges) -> Ints:
        """Lay the ranges out for the fine phase; return the weight of each."""
        ...

    def open_range(self, number: int, numbers: Numbers) -> tuple[Window, Slice]:
        """Begin with a range; its slices write the numbers of its items. Called by several threads."""
        ...


@dataclass(frozen=True, eq=False)
class Ranges:
    """The items by range; none is empty."""

    of: Items
    """Range of each item."""
    n: int
    order: Items
    """Items by range, then id; those of range r are ``order[bounds[r]:bounds[r + 1]]``."""
    bounds: Ints
    limits: list[int]
    """The numbers of range r are in ``[limits[r], limits[r + 1])``."""
    rounds: int
    """Rounds that cutting took."""

    def items(self, number: int) -> Items:
        """Return the items of a range."""
        return self.order[self.bounds[number] : self.bounds[number + 1]]

    def is_open(self) -> NDArray[np.bool_]:
        """Return which ranges hold more than one number, shape (n,): the others need not be peeled again."""
        return np.array([high - low > 1 for low, high in pairwise(self.limits)], np.bool_)

    def least_numbers(self) -> Numbers:
        """Return the least number of the range of each item: its own where the range is not open."""
        return np.array(self.limits[:-1], np.uint64)[self.of]


def choose_ranges(n_items: int, n_links: int, threads: int) -> int:
    """Return how many ranges to ask for, for so many items with so many links."""
    if n_links < SERIAL_LINKS or threads <= FEW_THREADS:
        return 1
    return min(RANGES_PER_THREAD * threads, n_items)


def peel(peeling: Peeling, threads: int, report: Report, n_ranges: int | None) -> Peeled:
    """Return the numbers of all items; the parameters are those of :func:`papilio.kernels.peel.tip.peel_tip`."""
    began = perf_counter()
    if n_ranges is None:
        n_ranges = choose_ranges(peeling.states.size, int(peeling.link_offsets[-1]), threads)
    ranges = _cut_ranges(peeling, n_ranges, report)
    middle = perf_counter()
    numbers = ranges.least_numbers()
    rounds, updates = _peel_ranges(peeling, ranges, threads, numbers, report)
    seconds = {"coarse": middle - began, "fine": perf_counter() - middle}
    return Peeled(numbers, ranges.n, ranges.rounds, rounds, peeling.updates + updates, seconds)


def _cut_ranges(peeling: Peeling, wanted: int, report: Report) -> Ranges:
    """Run the coarse phase: give every item its range, ``wanted`` of them if all were equally heavy; 1 gives one."""
    supports, states, weight_starts = peeling.supports, peeling.states, peeling.link_offsets
    n_items = states.size
    ranges = np.zeros(n_items, np.int32)
    alive = np.arange(n_items, dtype=np.int32)
    going, following = np.empty(n_items, np.int32), np.empty(n_items, np.int32)
    share = max(1, (int(weight_starts[-1]) + n_items) // wanted)
    n_ranges, rounds, limits, weights = 0, 0, [0], np.empty(N_BINS, np.int64)
    n_alive: Place = n_items
    while n_alive:
        bound: Place = NO_BOUND
        if wanted > 1:
            bound = choose_bound(alive[:n_alive], supports, weight_starts, limits[-1], share, weights)
        n_going: Place = collect_below(alive[:n_alive], supports, bound, going)
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


def _peel_ranges(
    peeling: Peeling, ranges: Ranges, threads: int, numbers: Numbers, report: Report
) -> tuple[int, int]:
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
