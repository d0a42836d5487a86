"""Tip numbers on the CPU: the two phases of peeling the vertices of one layer, over threads.

See :mod:`papilio.kernels.peel.phases` for the phases and :mod:`papilio.kernels.peel.tip_loops` for the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_vertices
from papilio.kernels.peel import cpu_phases as phases
from papilio.kernels.peel import tip_loops as kernels
from papilio.kernels.peel.cpu_phases import choose_ranges, cut_ranges, peel_ranges
from papilio.kernels.peel.pair_graph import PairGraph, index_pairs
from papilio.kernels.peel.phases import Layer, Peeled, Report, ignore_report
from papilio.kernels.peel.ranges import ALIVE, GOING, GONE, make_window, set_states
from papilio.kernels.threads import ChunkRunner, available_threads, cut_by_cost
from papilio.kernels.wedge.graph import index_wedges

__all__ = ["index_tip", "peel_tip"]


def index_tip(
    graph: BipartiteGraph,
    layer: Layer,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> PairGraph:
    """Return the pairs of a layer of a graph, from which its tips are peeled.

    Raises
    ------
    CapacityError
        As :func:`~papilio.kernels.peel.pair_graph.index_pairs`, and when a count could pass 2^63 - 1.
    """
    chosen = available_threads() if threads is None else threads
    index = index_wedges(graph)
    check_vertices(graph, index.max_degree)
    return index_pairs(index, layer, chosen, memory_bytes)


def peel_tip(
    pairs: PairGraph, threads: int | None = None, report: Report = ignore_report, n_ranges: int | None = None
) -> Peeled:
    """Return the tip number of every vertex of the layer of the pairs.

    Parameters
    ----------
    pairs : PairGraph
        Is left as it is.
    threads : int, optional
        By default the processors that this process may use.
    report : callable
        Told how far it is.
    n_ranges : int, optional
        Ranges of the coarse phase, if all were equally heavy; with 1 there is one. By default as many as pay.
    """
    chosen = available_threads() if threads is None else threads
    if n_ranges is None:
        n_ranges = choose_ranges(pairs.n, pairs.others.size, chosen)
    began = perf_counter()
    supports, states = np.zeros(pairs.n, np.int64), np.zeros(pairs.n, np.uint8)
    rows = (pairs.offsets, pairs.others, pairs.common)
    degrees = np.diff(pairs.offsets)
    everything, no_ranges = np.arange(pairs.n, dtype=np.int32), np.zeros(pairs.n, np.int32)
    runner = ChunkRunner(lambda: np.zeros(1, np.int64), chosen)

    def add(_: NDArray[np.int64], start: int, stop: int) -> None:
        kernels.sum_pairs(everything, *rows, no_ranges, start, stop, supports)

    def run_round(going: NDArray[np.int32], bound: int, following: NDArray[np.int32]) -> int:
        set_states(going, states, GOING)
        n_following = np.zeros(1, np.int64)

        def spread(updates: NDArray[np.int64], start: int, stop: int) -> None:
            kernels.spread_pairs(
                going, start, stop, states, *rows, supports, np.int64(bound), following, n_following, updates
            )

        runner.run(cut_by_cost(degrees[going], chosen), spread)
        set_states(going, states, GONE)
        return int(n_following[0])

    runner.run(cut_by_cost(degrees, chosen), add)
    ranges = cut_ranges(supports, states, pairs.offsets, n_ranges, run_round, report)
    middle = perf_counter()
    numbers = ranges.least_numbers()

    def peel(number: int, stats: NDArray[np.int64], tell: Callable[[int], None]) -> None:
        items = ranges.items(number)
        kernels.sum_pairs(items, *rows, ranges.of, 0, items.size, supports)
        set_states(items, states, ALIVE)
        window = make_window(items)
        done = False
        while not done:
            done = kernels.peel_tip_slice(
                number, window, ranges.of, *rows, supports, states, numbers, stats, phases.SLICE_EFFORT
            )
            tell(int(window.places[3]))

    weights = np.array([int(degrees[ranges.items(number)].sum()) for number in range(ranges.n)], np.int64)
    rounds, updates = peel_ranges(ranges, weights, chosen, peel, report)
    updates += sum(int(state[0]) for state in runner.states)
    seconds = {"coarse": middle - began, "fine": perf_counter() - middle}
    return Peeled(numbers, ranges.n, ranges.rounds, rounds, updates, seconds)
