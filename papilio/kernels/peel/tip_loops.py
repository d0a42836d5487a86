"""The loops that peel tips: rounds of the coarse phase, and the exact peeling of one range.

Input: a :class:`~papilio.kernels.peel.pair_graph.PairGraph`. A pair with c common neighbours is in C(c, 2) butterflies,
which are lost to one of its vertices when the other goes. Of two that go in one round neither matters to the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ids, Ints, Place, compiled
from papilio.kernels.peel.ranges import (
    ALIVE,
    GOING,
    GONE,
    Items,
    States,
    Window,
    lower_support,
    set_states,
    take_least,
)

__all__ = ["peel_tip_slice", "spread_pairs", "sum_pairs"]

Numbers = NDArray[np.uint64]


@compiled
def _butterflies_of(common: np.uint32) -> np.int64:
    """Return C(c, 2)."""
    c = np.int64(common)
    return c * (c - 1) // 2


@compiled
def sum_pairs(
    items: Items,
    offsets: Ints,
    others: Items,
    common: Ids,
    ranges: Items,
    start: Place,
    stop: Place,
    supports: Ints,
) -> None:
    """Write the butterflies of ``items[start:stop]`` with vertices of their own range or a higher one."""
    for place in range(start, stop):
        item = items[place]
        total = np.int64(0)
        for at in range(offsets[item], offsets[item + 1]):
            if ranges[others[at]] >= ranges[item]:
                total += _butterflies_of(common[at])
        supports[item] = total


@compiled
def spread_pairs(
    going: Items,
    start: Place,
    stop: Place,
    states: States,
    offsets: Ints,
    others: Items,
    common: Ids,
    supports: Ints,
    bound: Place,
    following: Items,
    n_following: Ints,
    updates: Ints,
) -> None:
    """Lower the supports of the vertices left that are paired with ``going[start:stop]``.

    Run by several threads at once, each with its own vertices; ``updates`` belongs to the thread.
    """
    for place in range(start, stop):
        item = going[place]
        for at in range(offsets[item], offsets[item + 1]):
            if states[others[at]] == ALIVE:
                lost = _butterflies_of(common[at])
                lower_support(supports, others[at], lost, bound, following, n_following)
                updates[0] += 1


@compiled
def _spread(
    number: int,
    going: Items,
    ranges: Items,
    states: States,
    offsets: Ints,
    others: Items,
    common: Ids,
    supports: Ints,
    level: Place,
    window: Window,
    following: Items,
) -> tuple[Place, int]:
    """Lower the supports of the vertices of the range that are left and paired with those that go.

    Vertices that come to the level are written to ``following``, those that fall below the bound are held by the
    window; returns (how many follow, updates).
    """
    n_following: Place = 0
    n_held, bound = window.places[1], window.places[2]
    updates = 0
    for item in going:
        for at in range(offsets[item], offsets[item + 1]):
            other = others[at]
            if ranges[other] != number or states[other] != ALIVE:
                continue
            updates += 1
            before = supports[other]
            after = before - _butterflies_of(common[at])
            supports[other] = after
            if after <= level < before:
                following[n_following] = other
                n_following += 1
            elif level < after < bound <= before:
                window.held[n_held] = other
                n_held += 1
    window.places[1] = n_held
    return n_following, updates


@compiled
def peel_tip_slice(
    number: int,
    window: Window,
    ranges: Items,
    offsets: Ints,
    others: Items,
    common: Ids,
    supports: Ints,
    states: States,
    numbers: Numbers,
    stats: Ints,
    most: int,
) -> bool:
    """Peel the range ``number`` until about ``most`` updates are done; return whether it is done with.

    ``window`` is of its vertices; ``supports``, ``states`` and ``numbers`` are written to at these alone, and rounds
    and updates are added to ``stats``.
    """
    effort: Place = 0
    while effort < most:
        n_going, level = take_least(window, states, supports)
        if n_going == 0:
            return True
        going, following = window.going, window.following
        effort += window.places[1] + n_going
        while n_going > 0:
            set_states(going[:n_going], states, GOING)
            for item in going[:n_going]:
                numbers[item] = np.uint64(level)
            n_following, updates = _spread(
                number, going[:n_going], ranges, states, offsets, others, common, supports, level, window,
                following,
            )  # fmt: skip
            set_states(going[:n_going], states, GONE)
            window.places[3] += n_going
            stats[0] += 1
            stats[1] += updates
            effort += updates
            going, following = following, going
            n_going = n_following
    return False
