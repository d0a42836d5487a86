"""What compiled probes of every search share: random numbers, and draws of children; see :mod:`papilio.kernels.probe`.

The GPU draws the same in ``probe.cuh``, bit for bit: every draw is a hash, every product is rounded by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.exact import mix
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.probe import STEP
from papilio.kernels.tree.bits import Words

Floats = NDArray[np.float64]

_mix = compiled(mix)


@compiled
def draw(state: Words, n: int) -> Any:
    """Return a number below n (less than 2^32), and go on to the next state."""
    state[0] += STEP
    return np.int64(((_mix(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@compiled
def draw_wide(state: Words, n: int) -> Any:
    """Return a number below n, at least 1 and far below 2^63, and go on to the next state."""
    state[0] += STEP
    return np.int64(_mix(state[0]) % np.uint64(n))


@compiled
def draw_least(state: Words, n: int, take: int) -> Any:
    """Return the least of ``take`` numbers below n."""
    first = n
    for _ in range(take):
        first = min(first, draw(state, n))
    return first


@compiled
def power_gap(a: int, b: int, n: int, take: int) -> float:
    """Return (a / n)^take - (b / n)^take."""
    above = below = 1.0
    for _ in range(take):
        above *= a / n
        below *= b / n
    return above - below


@compiled
def draw_child(state: Words, places: Ints, n: int, bounds: tuple[Floats, Floats], chances: Floats) -> int:
    """Return one of n children, drawn by one of two bounds; -1 where there is none to draw.

    ``places`` are those of the children in ``bounds``, -1 for children that are not drawn. ``chances`` (3) are the
    probabilities of the path by the first bounds and by the second, and which of them this probe goes by, 0 or 1: as
    each is taken by half of the probes, the weight of what is found is 2 / (chances[0] + chances[1]) (Veach and
    Guibas, SIGGRAPH 1995), never more than twice that of the better bounds.
    """
    first, second = bounds
    one = two = 0.0
    for i in range(n):
        if places[i] >= 0:
            one += first[places[i]]
            two += second[places[i]]
    if one == 0.0:
        return -1
    state[0] += STEP
    unit = np.float64(_mix(state[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    taken = first if chances[2] == 0.0 else second
    goal, until, chosen = unit * (one if chances[2] == 0.0 else two), 0.0, -1
    for i in range(n):
        if places[i] >= 0:
            chosen = i
            until += taken[places[i]]
            if goal < until:
                break
    chances[0] *= first[places[chosen]] / one
    chances[1] *= second[places[chosen]] / two
    return chosen


@compiled
def begin_probe(state: Words, seed: np.uint64, chances: Floats) -> None:
    """Stand at a root, with the bounds drawn that the probe goes by; see :func:`draw_child`."""
    state[0] = seed
    chances[0], chances[1], chances[2] = 1.0, 1.0, np.float64(draw(state, 2))
