"""What compiled probes of every search share: random numbers, and draws of children; see :mod:`papilio.kernels.probe`.

The GPU draws the same in ``probe.cuh``, bit for bit: every draw is a hash, every product is rounded by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.constants import LOT_BITS
from papilio.kernels.exact import mix
from papilio.kernels.jit import compiled
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
def add_by_lanes(values: Floats, n: int, sums: Floats) -> Any:
    """Return the sum of n values as a warp adds them up; ``sums`` is room for 32."""
    sums[:] = 0.0
    for i in range(n):
        sums[i & 31] += values[i]
    step = 16
    while step:
        for lane in range(step):
            sums[lane] += sums[lane + step]
        step >>= 1
    return sums[0]


@compiled
def draw_weighted(weights: Floats, n: int, state: Words) -> tuple[int, float]:
    """Draw one of n (at least one) about in proportion to finite weights; return it and 1 / its probability.

    None has no chance: each has one lot more than its share of the largest weight, in units of 2^-LOT_BITS.
    """
    most = 0.0
    for i in range(n):
        most = max(most, weights[i])
    unit = float(1 << LOT_BITS)
    total = 0
    for i in range(n):
        total += int(weights[i] / most * unit) + 1 if most > 0.0 else 1
    at = draw_wide(state, total)
    i = lots = 0
    while True:
        lots = int(weights[i] / most * unit) + 1 if most > 0.0 else 1
        if at < lots:
            return i, total / lots
        at -= lots
        i += 1
