"""The loops that peel tips: rounds of the coarse phase, and the exact peeling of one range.

Input: a :class:`~papilio.kernels.peel.pair_graph.PairGraph`. A pair with c common neighbours is in C(c, 2) butterflies,
which are lost to one of its vertices when the other goes. Of two that go in one round neither matters to the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.jit import Ints, Place, compiled
from papilio.kernels.peel.pair_graph import PairGraph
from papilio.kernels.peel.ranges import (
    ALIVE,
    Items,
    Numbers,
    Round,
    States,
    Window,
    begin_round,
    end_round,
    lower_support,
    take_least,
)


class TipRange(NamedTuple):
    """One range as it is peeled; the arrays are of all vertices, and written to at those of the range alone."""

    number: int
    pairs: PairGraph
    ranges: Items
    supports: Ints
    states: States


@compiled
def _butterflies_of(common: np.uint32) -> np.int64:
    """Return C(c, 2)."""
    c = np.int64(common)
    return c * (c - 1) // 2


@compiled
def sum_pairs(
    items: Items, pairs: PairGraph, ranges: Items, start: Place, stop: Place, supports: Ints
) -> None:
    """Write the butterflies of ``items[start:stop]`` with vertices of their own range or a higher one."""
    for place in range(start, stop):
        item = items[place]
        total = np.int64(0)
        for at in range(pairs.offsets[item], pairs.offsets[item + 1]):
            if ranges[pairs.others[at]] >= ranges[item]:
                total += _butterflies_of(pairs.common[at])
        supports[item] = total


@compiled
def spread_pairs(
    going: Items, start: Place, stop: Place, pairs: PairGraph, round_: Round, updates: Ints
) -> None:
    """Lower the supports of the vertices left that are paired with ``going[start:stop]``.

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
def _spread(
    part: TipRange, going: Items, level: Place, window: Window, following: Items
) -> tuple[Place, int]:
    """Lower the supports of the vertices of the range that are left and paired with those that go.

    Items that come to the level are written to ``following``, those that fall below the bound are held by the window;
    returns (how many follow, updates).
    """
    pairs = part.pairs
    n_following: Place = 0
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
    """Peel a range until about ``most`` updates are done; return whether it is done with.

    ``window`` is of its vertices; rounds and updates are added to ``stats``.
    """
    effort: Place = 0
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
