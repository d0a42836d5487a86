"""Wing numbers on the CPU: the edges of a graph are peeled from its blooms.

The fine phase divides the wedges of the blooms among the ranges. See :mod:`papilio.kernels.peel.cpu` for the phases and
:mod:`papilio.kernels.peel.wing_loops` for the loops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Ints
from papilio.kernels.peel import wing_loops as kernels
from papilio.kernels.peel.blooms import BloomIndex, index_blooms
from papilio.kernels.peel.cpu import (
    GOING,
    GONE,
    Items,
    Numbers,
    Ranges,
    Round,
    Slice,
    Window,
    make_window,
    peel,
    set_states,
)
from papilio.kernels.peel.phases import Peeled, Report, ignore_report
from papilio.kernels.rows.index import index_wedges
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost

DEALS_PER_THREAD = 8
"""Number of parts per thread in which the wedges are divided among the ranges."""


def index_wing(graph: BipartiteGraph, threads: int | None = None, memory_bytes: int | None = None) -> BloomIndex:
    """Return the blooms of a graph, from which its wings are peeled."""
    return index_blooms(index_wedges(graph, with_edge_ids=True), choose_threads(threads), memory_bytes)


def peel_wing(
    index: BloomIndex, threads: int | None = None, report: Report = ignore_report, n_ranges: int | None = None
) -> Peeled:
    """Return the wing number of every edge. The order of the wedges within each bloom of the index changes.

    The parameters are as in :func:`~papilio.kernels.peel.tip.peel_tip`.
    """
    chosen = choose_threads(threads)
    return peel(_Wings(index, chosen), chosen, report, n_ranges)


class _Segments(NamedTuple):
    """The wedges of the blooms by range; see :func:`~papilio.kernels.peel.wing_loops.measure_segments`."""

    bounds: Ints
    """Segments of range r are ``[bounds[r], bounds[r + 1])`` of the next two, shape (n_ranges + 1,)."""
    starts: Ints
    """Start of the wedges of each segment, and the end of the last ones."""
    counts: Ints
    """Wedges of the segment's bloom in its range or higher ones."""
    one: Items
    other: Items
    """Edges of each wedge."""


class _Wings:
    """The edges of a graph during peeling. A range has local ids, in segments of the blooms."""

    def __init__(self, index: BloomIndex, threads: int) -> None:
        n_edges = index.link_offsets.size - 1
        self.supports, self.states = np.empty(n_edges, np.int64), np.zeros(n_edges, np.uint8)
        self.link_offsets = index.link_offsets
        self._index, self._threads = index, threads
        self._links = np.diff(index.link_offsets)
        self._rest = kernels.LeftBlooms(
            ends=index.offsets[1:].copy(),
            left=np.diff(index.offsets),
            touched=np.empty(index.n_blooms, np.int32),
            n_touched=np.zeros(1, np.int64),
        )
        self._runner = ChunkRunner(lambda: np.zeros(1, np.int64), threads)

        def add(_: Ints, start: int, stop: int) -> None:
            kernels.sum_supports(index, start, stop, self.supports)

        self._runner.run(cut_by_cost(self._links, threads), add)

    @property
    def updates(self) -> int:
        return sum(int(state[0]) for state in self._runner.states)

    def run_round(self, going: Items, bound: int, following: Items) -> int:
        index, states, rest = self._index, self.states, self._rest
        round_ = Round(states, self.supports, bound, following, np.zeros(1, np.int64))
        set_states(going, states, GOING)
        rest.n_touched[0] = 0

        def take(_: Ints, start: int, stop: int) -> None:
            kernels.take_wedges(going, start, stop, states, index, rest)

        self._runner.run(cut_by_cost(self._links[going], self._threads), take)
        touched = rest.touched[: int(rest.n_touched[0])]

        def spread(updates: Ints, start: int, stop: int) -> None:
            kernels.spread_losses(start, stop, index, rest, round_, updates)

        costs = rest.ends[touched] - index.offsets[touched]
        self._runner.run(cut_by_cost(costs, self._threads), spread)
        set_states(going, states, GONE)
        return int(round_.n_following[0])

    def deal(self, ranges: Ranges) -> Ints:
        self._ranges, self._segments = ranges, _deal(self._index, ranges, self._threads)
        self._local = np.empty(ranges.of.size, np.int32)
        for number in range(ranges.n):
            items = ranges.items(number)
            self._local[items] = np.arange(items.size, dtype=np.int32)
        bounds, starts = self._segments.bounds, self._segments.starts
        weights: Ints = starts[bounds[1:]] - starts[bounds[:-1]]
        return weights

    def open_range(self, number: int, numbers: Numbers) -> tuple[Window, Slice]:
        bounds, starts, counts, one, other = self._segments
        begin, end = bounds[number], bounds[number + 1]
        items = self._ranges.items(number)
        part = kernels.enter_range(
            number,
            items.size,
            self._local,
            self._ranges.of,
            starts[begin : end + 1],
            counts[begin:end],
            one,
            other,
        )
        window, own = make_window(np.arange(items.size, dtype=np.int32)), np.zeros(items.size, np.uint64)
        touched = np.empty(end - begin, np.int32)

        def peel_slice(stats: Ints, most: int) -> bool:
            is_done = kernels.peel_wing_slice(part, window, touched, own, stats, most)
            if is_done:
                numbers[items] = own
            return is_done

        return window, peel_slice


def _deal(index: BloomIndex, ranges: Ranges, threads: int) -> _Segments:
    n_ranges = ranges.n
    sizes = np.diff(index.offsets)
    ends = np.cumsum(sizes)
    n_deals = DEALS_PER_THREAD * threads
    cuts = np.searchsorted(ends, np.arange(n_deals + 1) * (index.n_wedges // n_deals), side="left")
    cuts[0], cuts[-1] = 0, index.n_blooms
    measured = np.zeros((n_deals, 2, n_ranges), np.int64)
    arrays = (index, ranges.of, ranges.is_open())
    deals = [(i, i + 1) for i in range(n_deals)]

    def measure(rooms: tuple[Ints, ...], at: int, _end: int) -> None:
        counts, met, _ = rooms
        kernels.measure_segments(*arrays, cuts[at], cuts[at + 1], counts, met, measured[at])

    runner = ChunkRunner(lambda: tuple(np.zeros((3, n_ranges), np.int64)), threads)
    runner.run(deals, measure)
    # Ranges one after another, and in each the deals: where each deal begins there.
    by_range = measured.transpose(1, 2, 0).reshape(2, -1)
    places = np.zeros((2, by_range.shape[1] + 1), np.int64)
    np.cumsum(by_range, axis=1, out=places[:, 1:])
    n_segments, n_wedges = int(places[0, -1]), int(places[1, -1])
    bounds = places[0, ::n_deals].copy()
    starts, counts = np.empty(n_segments + 1, np.int64), np.empty(n_segments, np.int64)
    starts[n_segments] = n_wedges
    one, other = np.empty(n_wedges, np.int32), np.empty(n_wedges, np.int32)
    begins = places[:, :-1].reshape(2, n_ranges, n_deals)

    def fill(rooms: tuple[Ints, ...], at: int, _end: int) -> None:
        own = np.ascontiguousarray(begins[:, :, at])
        kernels.fill_segments(*arrays, cuts[at], cuts[at + 1], own, starts, counts, one, other, *rooms)

    runner.run(deals, fill)
    return _Segments(bounds, starts, counts, one, other)
