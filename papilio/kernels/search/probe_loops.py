"""Functions for the compiled probes of every search: random numbers, and draws of children.

See :mod:`papilio.kernels.probe`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.exact import mix
from papilio.kernels.jit import Index, Ints, compiled, inlined
from papilio.kernels.probe import STEP
from papilio.kernels.search.bits import Words

Floats = NDArray[np.float64]

_mix = compiled(mix)

LOT_BITS = 24
"""The heaviest element of a weighted draw has 2^24 lots."""


@compiled
def draw(state: Words, n: int) -> Any:
    """Return a number below n (less than 2^32), and advance the state."""
    state[0] += STEP
    return np.int64(((_mix(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@compiled
def draw_wide(state: Words, n: Index) -> Any:
    """Return a number below n, at least 1 and far below 2^63, and advance the state."""
    state[0] += STEP
    return np.int64(_mix(state[0]) % np.uint64(n))


@compiled
def draw_least(state: Words, n: int, take: int) -> Any:
    """Return the minimum of ``take`` numbers below n."""
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
    """Return one of n children, drawn by one of two bounds; -1 if no child can be drawn.

    ``places`` holds the places of the children in ``bounds``, -1 for children that are not drawn. ``chances`` (3) holds
    the probabilities of the path by the first bounds and by the second, and the bounds that this probe uses, 0 or 1. As
    half of the probes use each, results have the weight of :func:`weigh` (Veach and Guibas, SIGGRAPH 1995), at most
    twice the weight by the better bounds.
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
def weigh(chances: Floats) -> float:
    """Return the weight of the results at a node; finite, however small the probabilities are."""
    total = chances[0] + chances[1]
    return 2.0 / total if total > 2e-300 else 1e300


@compiled
def begin_probe(state: Words, seed: np.uint64, chances: Floats) -> None:
    """Start at a root, and draw the bounds that the probe uses; see :func:`draw_child`."""
    state[0] = seed
    chances[0], chances[1], chances[2] = 1.0, 1.0, np.float64(draw(state, 2))


@inlined
def _lots_of(weight: float, most: float) -> int:
    return int(weight / most * float(1 << LOT_BITS)) + 1 if most > 0.0 else 1


@compiled
def draw_weighted(weights: Floats, n: int, state: Words) -> tuple[int, float]:
    """Draw one of n (at least one) about in proportion to finite weights. Return it and 1 / its probability.

    Each can be drawn: it has one lot more than its share of the largest weight, in units of 2^-LOT_BITS.
    """
    most = 0.0
    for i in range(n):
        most = max(most, weights[i])
    total = 0
    for i in range(n):
        total += _lots_of(weights[i], most)
    at, i = draw_wide(state, total), 0
    while at >= _lots_of(weights[i], most):
        at -= _lots_of(weights[i], most)
        i += 1
    return i, total / _lots_of(weights[i], most)
