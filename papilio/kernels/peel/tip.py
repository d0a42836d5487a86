"""Tip numbers on the CPU: the vertices of one layer are peeled from its pairs.

See :mod:`papilio.kernels.peel.cpu_phases` for the phases and :mod:`papilio.kernels.peel.tip_loops` for the loops.
"""

from __future__ import annotations

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_vertices
from papilio.kernels.jit import Ints
from papilio.kernels.peel import tip_loops as kernels
from papilio.kernels.peel.cpu_phases import Ranges, Slice, peel
from papilio.kernels.peel.pair_graph import PairGraph, index_pairs
from papilio.kernels.peel.phases import Layer, Peeled, Report, ignore_report
from papilio.kernels.peel.ranges import (
    ALIVE,
    GOING,
    GONE,
    Items,
    Numbers,
    Round,
    Window,
    make_window,
    set_states,
)
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost
from papilio.kernels.wedge.graph import index_wedges


def index_tip(
    graph: BipartiteGraph, layer: Layer, threads: int | None = None, memory_bytes: int | None = None
) -> PairGraph:
    """Return the pairs of a layer of a graph, from which its tips are peeled.

    Raises
    ------
    CapacityError
        As :func:`~papilio.kernels.peel.pair_graph.index_pairs`, and when a count could pass 2^63 - 1.
    """
    index = index_wedges(graph)
    check_vertices(graph, index.max_degree)
    return index_pairs(index, layer, choose_threads(threads), memory_bytes)


def peel_tip(
    pairs: PairGraph, threads: int | None = None, report: Report = ignore_report, n_ranges: int | None = None
) -> Peeled:
    """Return the tip number of every vertex of the layer of the pairs, which are left as they are.

    Parameters
    ----------
    threads : int, optional
        By default the processors that this process may use.
    n_ranges : int, optional
        Ranges of the coarse phase, if all were equally heavy; with 1 there is one. By default as many as pay.
    """
    chosen = choose_threads(threads)
    return peel(_Tips(pairs, chosen), chosen, report, n_ranges)


class _Tips:
    """The vertices of a layer as they are peeled: those of a range where they are."""

    def __init__(self, pairs: PairGraph, threads: int) -> None:
        self.supports, self.states = np.zeros(pairs.n, np.int64), np.zeros(pairs.n, np.uint8)
        self.link_offsets = pairs.offsets
        self._pairs, self._threads, self._degrees = pairs, threads, np.diff(pairs.offsets)
        self._runner = ChunkRunner(lambda: np.zeros(1, np.int64), threads)
        everything, no_ranges = np.arange(pairs.n, dtype=np.int32), np.zeros(pairs.n, np.int32)

        def add(_: Ints, start: int, stop: int) -> None:
            kernels.sum_pairs(everything, pairs, no_ranges, start, stop, self.supports)

        self._runner.run(cut_by_cost(self._degrees, threads), add)

    @property
    def updates(self) -> int:
        return sum(int(state[0]) for state in self._runner.states)

    def run_round(self, going: Items, bound: int, following: Items) -> int:
        set_states(going, self.states, GOING)
        round_ = Round(self.states, self.supports, bound, following, np.zeros(1, np.int64))

        def spread(updates: Ints, start: int, stop: int) -> None:
            kernels.spread_pairs(going, start, stop, self._pairs, round_, updates)

        self._runner.run(cut_by_cost(self._degrees[going], self._threads), spread)
        set_states(going, self.states, GONE)
        return int(round_.n_following[0])

    def deal(self, ranges: Ranges) -> Ints:
        weights = [int(self._degrees[ranges.items(number)].sum()) for number in range(ranges.n)]
        self._ranges = ranges
        return np.array(weights, np.int64)

    def open_range(self, number: int, numbers: Numbers) -> tuple[Window, Slice]:
        items, of = self._ranges.items(number), self._ranges.of
        kernels.sum_pairs(items, self._pairs, of, 0, items.size, self.supports)
        set_states(items, self.states, ALIVE)
        part = kernels.TipRange(number, self._pairs, of, self.supports, self.states)
        window = make_window(items)
        return window, lambda stats, most: kernels.peel_tip_slice(part, window, numbers, stats, most)
