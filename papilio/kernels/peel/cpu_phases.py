"""The two phases of peeling on CPU threads, whatever is peeled; see :mod:`papilio.kernels.peel.phases`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Place
from papilio.kernels.peel.phases import Report
from papilio.kernels.peel.ranges import NO_BOUND, choose_bound, collect_below, keep_alive
from papilio.kernels.threads import ChunkRunner

__all__ = ["Ranges", "choose_ranges", "cut_ranges", "peel_ranges"]

SLICE_EFFORT = 1 << 24
"""Updates and items looked at after which the peeling of a range tells how far it is: about a second at worst."""

SERIAL_LINKS = 1 << 20
"""Fewer links than these are peeled in one range, within a fraction of a second."""

FEW_THREADS = 2
"""So few peel one range: cutting into ranges takes as many updates again, and spares only waiting for each other."""

RANGES_PER_THREAD = 16
"""Enough that the ranges, heaviest first, end at about the same time."""

Round = Callable[[NDArray[np.int32], int, NDArray[np.int32]], int]
"""``run_round(going, bound, following)`` takes items away, and writes those that thereby fall below the bound."""


Peel = Callable[[int, NDArray[np.int64], Callable[[int], None]], None]


@dataclass(frozen=True, eq=False)
class Ranges:
    """The items by range.

    Attributes
    ----------
    of : ndarray of int32, shape (n_items,)
        Range of each item.
    n : int
        Number of ranges, none of them empty.
    order : ndarray of int32, shape (n_items,)
        Items by range, then id.
    bounds : ndarray of int64, shape (n + 1,)
        Those of range r are ``order[bounds[r]:bounds[r + 1]]``.
    limits : list of int
        The numbers of range r are in ``[limits[r], limits[r + 1])``.
    rounds : int
        Rounds that cutting took.
    """

    of: NDArray[np.int32]
    n: int
    order: NDArray[np.int32]
    bounds: NDArray[np.int64]
    limits: list[int]
    rounds: int

    def items(self, number: int) -> NDArray[np.int32]:
        """Return the items of a range."""
        return self.order[self.bounds[number] : self.bounds[number + 1]]

    def is_open(self) -> NDArray[np.bool_]:
        """Return which ranges hold more than one number, shape (n,): the others need not be peeled again."""
        return np.array([high - low > 1 for low, high in pairwise(self.limits)], np.bool_)

    def least_numbers(self) -> NDArray[np.uint64]:
        """Return the least number of the range of each item: its own where the range is not open."""
        return np.array(self.limits[:-1], np.uint64)[self.of]


def choose_ranges(n_items: int, n_links: int, threads: int) -> int:
    """Return how many ranges to ask for, for so many items with so many links."""
    if n_links < SERIAL_LINKS or threads <= FEW_THREADS:
        return 1
    return min(RANGES_PER_THREAD * threads, n_items)


def cut_ranges(
    supports: NDArray[np.int64],
    states: NDArray[np.uint8],
    weight_starts: NDArray[np.int64],
    wanted: int,
    run_round: Round,
    report: Report,
) -> Ranges:
    """Run the coarse phase: give every item its range.

    Parameters
    ----------
    supports : ndarray of int64, shape (n_items,)
    states : ndarray of uint8, shape (n_items,)
        All alive; a round makes those that it takes away gone.
    weight_starts : ndarray of int64, shape (n_items + 1,)
        Of which the differences weigh the items: the ranges are to be equally heavy.
    wanted : int
        How many ranges there were if all were equally heavy; with 1 there is one.
    run_round : callable
    report : callable
    """
    n_items = states.size
    ranges = np.zeros(n_items, np.int32)
    alive = np.arange(n_items, dtype=np.int32)
    going, following = np.empty(n_items, np.int32), np.empty(n_items, np.int32)
    share = max(1, (int(weight_starts[-1]) + n_items) // wanted)
    n_ranges, rounds, limits = 0, 0, [0]
    n_alive: Place = n_items
    while n_alive:
        bound: Place = NO_BOUND
        if wanted > 1:
            bound = choose_bound(alive[:n_alive], supports, weight_starts, limits[-1], share)
        n_going: Place = collect_below(alive[:n_alive], supports, bound, going)
        while n_going:
            ranges[going[:n_going]] = n_ranges
            n_following = run_round(going[:n_going], int(bound), following)
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


def peel_ranges(
    ranges: Ranges,
    weights: NDArray[np.int64],
    threads: int,
    peel: Peel,
    report: Report,
) -> tuple[int, int]:
    """Run the fine phase on the open ranges, heaviest first; return (rounds, updates).

    Parameters
    ----------
    ranges : Ranges
    weights : ndarray of int64, shape (n_ranges,)
    threads : int
    peel : callable
        ``peel(number, stats, tell)`` peels a range, adds its rounds and updates to ``stats`` and calls
        ``tell(gone)`` with the number of its items that are gone, again and again; run by several threads.
    report : callable
        Called from any of them.
    """
    heaviest = np.argsort(-weights, kind="stable")
    heaviest = heaviest[ranges.is_open()[heaviest]]
    total, done = int(weights[heaviest].sum()), np.zeros(weights.size, np.int64)

    def run(stats: NDArray[np.int64], start: int, _stop: int) -> None:
        number = int(heaviest[start])
        n_items = int(ranges.bounds[number + 1] - ranges.bounds[number])

        def tell(gone: int) -> None:
            done[number] = int(weights[number]) * gone // n_items
            report("fine", int(done.sum()), total)

        peel(number, stats, tell)

    runner = ChunkRunner(lambda: np.zeros(2, np.int64), threads)
    runner.run([(at, at + 1) for at in range(heaviest.size)], run)
    report("fine", total, total)
    return sum(int(stats[0]) for stats in runner.states), sum(int(stats[1]) for stats in runner.states)
