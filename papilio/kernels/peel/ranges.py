"""What peeling wings and tips share on the CPU: bounds of ranges, items by support, windows of the least supports.

The state of an item is one of :data:`ALIVE`, :data:`GOING` (it goes in this round) and :data:`GONE`. Functions that
several threads run at once on the same arrays say so; all others belong to one thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.atomics import fetch_add
from papilio.kernels.jit import Ints, Place, compiled
from papilio.kernels.peel.phases import BIN_BITS, N_BINS, bin_end, next_limit

Items = NDArray[np.int32]
States = NDArray[np.uint8]
Numbers = NDArray[np.uint64]

ALIVE, GOING, GONE = 0, 1, 2

NO_BOUND = np.iinfo(np.int64).max
"""Above every support."""

_WINDOW_SHARE = 32
_WINDOW_ITEMS = 512
"""A window holds a share of the items, and at least so many: it is passed over at every level, and all items are when
it is made."""


@compiled
def _bin_of(support: Place) -> Place:
    """Return the bin of a support; bins rise with supports, and each of the first 64 supports has its own."""
    shift = np.int64(0)
    while (support >> shift) >= (2 << BIN_BITS):
        shift += 1
    return (shift << BIN_BITS) + (support >> shift)


_bin_end, _next_limit = compiled(bin_end), compiled(next_limit)


@compiled
def choose_bound(
    alive: Items, supports: Ints, weight_starts: Ints, low: Place, share: Place, weights: Ints
) -> Place:
    """Return the bound of a range that begins at ``low``: below it the items weigh about ``share``, or all that it may.

    The weight of item i is ``weight_starts[i + 1] - weight_starts[i]``, and one more. ``weights`` is room for that of
    each bin.
    """
    weights[:] = 0
    least: Place = np.int64(NO_BOUND)
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
def keep_alive(alive: Items, states: States) -> Place:
    """Keep, in order and in place, the items that are alive; return how many."""
    n = 0
    for i in alive:
        if states[i] == ALIVE:
            alive[n] = i
            n += 1
    return n


@compiled
def collect_below(alive: Items, supports: Ints, bound: Place, going: Items) -> Place:
    """Write the items whose support is below the bound to ``going``; return how many."""
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
    """A round of the coarse phase: items that go are taken away by all threads at once."""

    states: States
    supports: Ints
    bound: int
    """Items whose support falls below it follow in the next round."""
    following: Items
    n_following: Ints
    """Number of them so far, shape (1,)."""


@compiled
def lower_support(round_: Round, item: Place, lost: Place) -> None:
    """Lower a support beside other threads; whoever takes it below the bound adds the item to those that follow."""
    before = fetch_add(round_.supports, item, -lost)
    if before >= round_.bound and before - lost < round_.bound:
        round_.following[fetch_add(round_.n_following, 0, np.int64(1))] = item


class Window(NamedTuple):
    """The items of one range that are left, and those of them with the least supports."""

    alive: Items
    """Items left, and some that are gone."""
    held: Items
    """Those whose support is below the bound of the window, and some that are gone."""
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
    """Hold the items of least support; all items below the bound are held."""
    n = keep_alive(window.alive[: window.places[0]], states)
    share = max(_WINDOW_ITEMS, n // _WINDOW_SHARE)
    bound: Place = np.int64(NO_BOUND)
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
def take_least(window: Window, states: States, supports: Ints) -> tuple[Place, Place]:
    """Write the items of the least support to ``window.going``; return (how many, their support).

    There are none when no item is left.
    """
    while True:
        n: Place = 0
        taken: Place = 0
        least: Place = np.int64(NO_BOUND)
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
def begin_round(going: Items, states: States, numbers: Numbers, level: Place) -> None:
    """Give the items that go their number."""
    for item in going:
        states[item] = GOING
        numbers[item] = np.uint64(level)


@compiled
def end_round(going: Items, states: States, window: Window, stats: Ints, updates: int) -> None:
    """Note that the items are gone; ``stats`` are rounds and updates."""
    set_states(going, states, GONE)
    window.places[3] += going.size
    stats[0] += 1
    stats[1] += updates
