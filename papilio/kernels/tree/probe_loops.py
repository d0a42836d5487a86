"""What compiled probes of every search share: random numbers, and draws of children; see :mod:`papilio.kernels.probe`.

The GPU draws the same in ``probe.cuh``, bit for bit: every draw is a hash, every product is rounded by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
