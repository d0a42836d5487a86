"""Wing numbers on the CPU: the two phases of peeling edges, over threads.

The coarse phase runs each round over all threads, with atomic additions where they meet. The wedges of the blooms are
then dealt out to the ranges, and each range is peeled exactly by one thread. See :mod:`papilio.kernels.peel.phases` for
the phases and :mod:`papilio.kernels.peel.wing_loops` for the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.peel import cpu_phases as phases
from papilio.kernels.peel import wing_loops as kernels
from papilio.kernels.peel.blooms import BloomIndex, index_blooms
from papilio.kernels.peel.cpu_phases import Ranges, choose_ranges, cut_ranges, peel_ranges
from papilio.kernels.peel.phases import Peeled, Report, ignore_report
from papilio.kernels.peel.ranges import GOING, GONE, make_window, set_states
from papilio.kernels.threads import ChunkRunner, available_threads, cut_by_cost
from papilio.kernels.wedge.graph import index_wedges

__all__ = ["index_wing", "peel_wing"]

DEALS_PER_THREAD = 8
"""Parts in which the wedges are dealt out to the ranges, for each thread."""


def index_wing(
    graph: BipartiteGraph, threads: int | None = None, memory_bytes: int | None = None
) -> BloomIndex:
    """Return the blooms of a graph, from which its wings are peeled.

    Raises
    ------
    CapacityError
        As :func:`~papilio.kernels.peel.blooms.index_blooms`.
    """
    chosen = available_threads() if threads is None else threads
    return index_blooms(index_wedges(graph, with_edge_ids=True), chosen, memory_bytes)


def peel_wing(
    index: BloomIndex, threads: int | None = None, report: Report = ignore_report, n_ranges: int | None = None
) -> Peeled:
    """Return the wing number of every edge.

    Parameters
    ----------
    index : BloomIndex
        The order of the wedges within each bloom changes; nothing else does.
    threads : int, optional
        By default the processors that this process may use.
    report : callable
        Told how far it is.
    n_ranges : int, optional
        Ranges of the coarse phase, if all were equally heavy; with 1 there is one. By default as many as pay.
    """
    chosen = available_threads() if threads is None else threads
    n_edges = int(index.link_offsets.size) - 1
    if n_ranges is None:
        n_ranges = choose_ranges(n_edges, index.link_twin.size, chosen)
    began = perf_counter()
    coarse = _Coarse(index, chosen)
    ranges = cut_ranges(
        coarse.supports, coarse.states, index.link_offsets, n_ranges, coarse.run_round, report
    )
    middle = perf_counter()
    numbers = ranges.least_numbers()
    rounds, updates = _peel_fine(index, ranges, chosen, numbers, report)
    seconds = {"coarse": middle - began, "fine": perf_counter() - middle}
    return Peeled(numbers, ranges.n, ranges.rounds, rounds, coarse.updates + updates, seconds)


class _Coarse:
    """The edges and blooms that are left in the coarse phase."""

    def __init__(self, index: BloomIndex, threads: int) -> None:
        n_edges = int(index.link_offsets.size) - 1
        self.supports, self.states = np.empty(n_edges, np.int64), np.zeros(n_edges, np.uint8)
        self._index, self._threads = index, threads
        self._links = np.diff(index.link_offsets)
        self._ends, self._left = index.offsets[1:].copy(), np.diff(index.offsets)
        self._touched = np.empty(index.n_blooms, np.int32)
        self._runner = ChunkRunner(lambda: np.zeros(1, np.int64), threads)

        def add(_: NDArray[np.int64], start: int, stop: int) -> None:
            kernels.sum_supports(
                index.offsets, index.link_offsets, index.link_bloom, start, stop, self.supports
            )

        self._runner.run(cut_by_cost(self._links, threads), add)

    @property
    def updates(self) -> int:
        """Supports that were changed so far."""
        return sum(int(state[0]) for state in self._runner.states)

    def run_round(self, going: NDArray[np.int32], bound: int, following: NDArray[np.int32]) -> int:
        """Take the edges ``going`` away; write those that fall below the bound, and return how many they are."""
        index, states = self._index, self.states
        set_states(going, states, GOING)
        n_touched, n_following = np.zeros(1, np.int64), np.zeros(1, np.int64)

        def take(_: NDArray[np.int64], start: int, stop: int) -> None:
            kernels.take_wedges(
                going, start, stop, states, index.link_offsets, index.link_bloom, index.link_twin,
                index.offsets, self._ends, self._left, self._touched, n_touched,
            )  # fmt: skip

        self._runner.run(cut_by_cost(self._links[going], self._threads), take)
        touched = self._touched[: int(n_touched[0])]

        def spread(updates: NDArray[np.int64], start: int, stop: int) -> None:
            kernels.spread_losses(
                touched, start, stop, states, index.offsets, self._ends, self._left, index.first, index.second,
                self.supports, np.int64(bound), following, n_following, updates,
            )  # fmt: skip

        costs = self._ends[touched] - index.offsets[touched]
        self._runner.run(cut_by_cost(costs, self._threads), spread)
        set_states(going, states, GONE)
        return int(n_following[0])


def _peel_fine(
    index: BloomIndex, ranges: Ranges, threads: int, numbers: NDArray[np.uint64], report: Report
) -> tuple[int, int]:
    """Deal the wedges out to the ranges and peel each of them; return (rounds, updates)."""
    bounds, starts, counts, one, other = _deal(index, ranges, threads)
    local = np.empty(ranges.of.size, np.int32)
    for number in range(ranges.n):
        items = ranges.items(number)
        local[items] = np.arange(items.size, dtype=np.int32)

    def peel(number: int, stats: NDArray[np.int64], tell: Callable[[int], None]) -> None:
        begin, end = bounds[number], bounds[number + 1]
        items = ranges.items(number)
        part = kernels.enter_range(
            number, items.size, local, ranges.of, starts[begin : end + 1], counts[begin:end], one, other
        )
        window = make_window(np.arange(items.size, dtype=np.int32))
        touched = np.empty(end - begin, np.int32)
        done = False
        while not done:
            done = kernels.peel_wing_slice(part, window, touched, items, numbers, stats, phases.SLICE_EFFORT)
            tell(int(window.places[3]))

    return peel_ranges(ranges, starts[bounds[1:]] - starts[bounds[:-1]], threads, peel, report)


def _deal(
    index: BloomIndex, ranges: Ranges, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return (bounds of the segments of each range, their starts, their counts, edges of their wedges, twins)."""
    n_ranges = ranges.n
    sizes = np.diff(index.offsets)
    ends = np.cumsum(sizes)
    n_deals = DEALS_PER_THREAD * threads
    cuts = np.searchsorted(ends, np.arange(n_deals + 1) * (index.n_wedges // n_deals), side="left")
    cuts[0], cuts[-1] = 0, index.n_blooms
    measured = np.zeros((n_deals, 2, n_ranges), np.int64)
    arrays = (index.offsets, index.first, index.second, ranges.of, ranges.is_open())
    deals = [(i, i + 1) for i in range(n_deals)]

    def measure(_: None, at: int, _end: int) -> None:
        measured[at] = kernels.measure_segments(*arrays, cuts[at], cuts[at + 1])

    runner = ChunkRunner(lambda: None, threads)
    runner.run(deals, measure)
    # Ranges one after the other, and in each the deals: where each deal begins there.
    by_range = measured.transpose(1, 2, 0).reshape(2, -1)
    places = np.zeros((2, by_range.shape[1] + 1), np.int64)
    np.cumsum(by_range, axis=1, out=places[:, 1:])
    n_segments, n_wedges = int(places[0, -1]), int(places[1, -1])
    bounds = places[0, ::n_deals].copy()
    starts, counts = np.empty(n_segments + 1, np.int64), np.empty(n_segments, np.int64)
    starts[n_segments] = n_wedges
    one, other = np.empty(n_wedges, np.int32), np.empty(n_wedges, np.int32)
    begins = places[:, :-1].reshape(2, n_ranges, n_deals)

    def fill(_: None, at: int, _end: int) -> None:
        own = np.ascontiguousarray(begins[:, :, at])
        kernels.fill_segments(*arrays, cuts[at], cuts[at + 1], own, starts, counts, one, other)

    runner.run(deals, fill)
    return bounds, starts, counts, one, other
