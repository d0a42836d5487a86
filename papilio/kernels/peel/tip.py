"""Tip numbers on the CPU: the vertices of one layer are peeled from its pairs.

See :mod:`papilio.kernels.peel.cpu` for the phases. A pair with c common neighbours is in C(c, 2) butterflies; one of
its vertices loses them when the other is removed. Two vertices removed in the same round do not affect each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.exact import check_vertices
from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.peel.blooms import PairGraph, index_pairs
from papilio.kernels.peel.cpu import (
    ALIVE,
    GOING,
    GONE,
    Items,
    Numbers,
    Ranges,
    Round,
    Slice,
    States,
    Window,
    begin_round,
    end_round,
    lower_support,
    make_window,
    peel,
    set_states,
    take_least,
)
from papilio.kernels.peel.phases import Layer, Peeled, Report, ignore_report
from papilio.kernels.rows.index import index_wedges
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost


def index_tip(
    graph: BipartiteGraph, layer: Layer, threads: int | None = None, memory_bytes: int | None = None
) -> PairGraph:
    """Return the pairs of a layer of a graph, from which its tips are peeled."""
    index = index_wedges(graph)
    check_vertices(graph, index.max_degree)
    return index_pairs(index, layer, choose_threads(threads), memory_bytes)


def peel_tip(
    pairs: PairGraph, threads: int | None = None, report: Report = ignore_report, n_ranges: int | None = None
) -> Peeled:
    """Return the tip number of every vertex of the layer of the pairs, which are not changed.

    ``n_ranges`` is the number of ranges of the coarse phase if all were equally heavy; 1 gives one. The defaults are as
    many ranges as pay, and the threads available to this process.
    """
    chosen = choose_threads(threads)
    return peel(_Tips(pairs, chosen), chosen, report, n_ranges)


class _Tips:
    """The vertices of a layer during peeling; the vertices of a range stay in place."""

    def __init__(self, pairs: PairGraph, threads: int) -> None:
        self.supports, self.states = np.zeros(pairs.n, np.int64), np.zeros(pairs.n, np.uint8)
        self.link_offsets = pairs.offsets
        self._pairs, self._threads, self._degrees = pairs, threads, np.diff(pairs.offsets)
        self._runner = ChunkRunner(lambda: np.zeros(1, np.int64), threads)
        everything, no_ranges = np.arange(pairs.n, dtype=np.int32), np.zeros(pairs.n, np.int32)

        def add(_: Ints, start: int, stop: int) -> None:
            sum_pairs(everything, pairs, no_ranges, start, stop, self.supports)

        self._runner.run(cut_by_cost(self._degrees, threads), add)

    @property
    def updates(self) -> int:
        return sum(int(state[0]) for state in self._runner.states)

    def run_round(self, going: Items, bound: int, following: Items) -> int:
        set_states(going, self.states, GOING)
        round_ = Round(self.states, self.supports, bound, following, np.zeros(1, np.int64))

        def spread(updates: Ints, start: int, stop: int) -> None:
            spread_pairs(going, start, stop, self._pairs, round_, updates)

        self._runner.run(cut_by_cost(self._degrees[going], self._threads), spread)
        set_states(going, self.states, GONE)
        return int(round_.n_following[0])

    def deal(self, ranges: Ranges) -> Ints:
        weights = [int(self._degrees[ranges.items(number)].sum()) for number in range(ranges.n)]
        self._ranges = ranges
        return np.array(weights, np.int64)

    def open_range(self, number: int, numbers: Numbers) -> tuple[Window, Slice]:
        items, of = self._ranges.items(number), self._ranges.of
        sum_pairs(items, self._pairs, of, 0, items.size, self.supports)
        set_states(items, self.states, ALIVE)
        part = TipRange(number, self._pairs, of, self.supports, self.states)
        window = make_window(items)
        return window, lambda stats, most: peel_tip_slice(part, window, numbers, stats, most)


class TipRange(NamedTuple):
    """One range during peeling. The arrays cover all vertices, but only the range's entries are written."""

    number: int
    pairs: PairGraph
    ranges: Items
    supports: Ints
    states: States


@compiled
def _butterflies_of(common: np.uint32) -> np.int64:
    c = np.int64(common)
    return c * (c - 1) // 2


@compiled
def sum_pairs(items: Items, pairs: PairGraph, ranges: Items, start: Index, stop: Index, supports: Ints) -> None:
    """Write the butterflies of ``items[start:stop]`` with vertices of their own range or a higher one."""
    for place in range(start, stop):
        item = items[place]
        total = np.int64(0)
        for at in range(pairs.offsets[item], pairs.offsets[item + 1]):
            if ranges[pairs.others[at]] >= ranges[item]:
                total += _butterflies_of(pairs.common[at])
        supports[item] = total


@compiled
def spread_pairs(going: Items, start: Index, stop: Index, pairs: PairGraph, round_: Round, updates: Ints) -> None:
    """Lower the supports of the remaining vertices that are paired with ``going[start:stop]``.

    Run by several threads at once, each with its own vertices; ``updates`` belongs to the thread.
    """
    for place in range(start, stop):
        item = going[place]
        for at in range(pairs.offsets[item], pairs.offsets[item + 1]):
            other = pairs.others[at]
            if round_.states[other] == ALIVE:
                lower_support(round_, other, _butterflies_of(pairs.common[at]))
                updates[0] += 1


@compiled
def _spread(part: TipRange, going: Items, level: Index, window: Window, following: Items) -> tuple[Index, int]:
    """Lower the supports of the range's remaining vertices that are paired with removed ones.

    Writes items that reach the level to ``following``; the window holds the items that fall below its bound. Returns
    (number that follow, updates).
    """
    pairs = part.pairs
    n_following: Index = 0
    n_held, bound = window.places[1], window.places[2]
    updates = 0
    for item in going:
        for at in range(pairs.offsets[item], pairs.offsets[item + 1]):
            other = pairs.others[at]
            if part.ranges[other] != part.number or part.states[other] != ALIVE:
                continue
            updates += 1
            lost = _butterflies_of(pairs.common[at])
            before = part.supports[other]
            after = before - lost
            part.supports[other] = after
            if after <= level < before:
                following[n_following] = other
                n_following += 1
            elif level < after < bound <= before:
                window.held[n_held] = other
                n_held += 1
    window.places[1] = n_held
    return n_following, updates


@compiled
def peel_tip_slice(part: TipRange, window: Window, numbers: Numbers, stats: Ints, most: int) -> bool:
    """Peel a range until about ``most`` updates are done; return whether it is finished.

    ``window`` holds its vertices; rounds and updates are added to ``stats``.
    """
    effort: Index = 0
    while effort < most:
        n_going, level = take_least(window, part.states, part.supports)
        if n_going == 0:
            return True
        going, following = window.going, window.following
        effort += window.places[1] + n_going
        while n_going > 0:
            begin_round(going[:n_going], part.states, numbers, level)
            n_following, updates = _spread(part, going[:n_going], level, window, following)
            end_round(going[:n_going], part.states, window, stats, updates)
            effort += updates
            going, following = following, going
            n_going = n_following
    return False
