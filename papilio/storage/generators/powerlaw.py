"""Configuration-model edges in sorted blocks, by a permutation of stubs that is computed, not stored.

Vertex i owns as many consecutive stubs as its degree. A keyed pseudo-random permutation of all stubs matches
them, and can be evaluated at any stub alone: a block takes the stubs of consecutive vertices u, finds their
partners and the vertices that own these, and has all edges of its vertices; only the degrees are in memory.
In a unipartite graph the partner of x is the stub whose image differs from that of x in the lowest bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from papilio.storage.generators.blocks import BLOCK_EDGES, DRAW_BYTES, EdgeBlock, deduplicate
from papilio.storage.generators.models import PowerLaw
from papilio.storage.generators.randomness import Permutation, stream

_DEGREE_KEY, _MATCH_KEY = 0x6465, 0x6D61
_DEGREE_BLOCK = 1 << 20
_FRACTION_BITS = 53
_LN2 = 0.6931471805599453


def portable_power(base: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """Return ``base ** exponent`` of positive numbers from additions, multiplications and divisions alone.

    Relative error about 1e-14, and the same bits on every IEEE machine, unlike ``numpy.power``.
    """
    mantissa, exponent2 = np.frexp(base)
    low = mantissa < 0.7071067811865476
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, series = s * s, np.zeros_like(s)
    for term in range(27, 0, -2):
        series = series * square + 1.0 / term
    logarithm = 2.0 * s * series + (exponent2 - low) * _LN2
    scaled = logarithm * exponent
    whole = np.rint(scaled / _LN2)
    rest, result = scaled - whole * _LN2, np.ones_like(s)
    for term in range(18, 0, -1):
        result = result * rest / term + 1.0
    return np.asarray(np.ldexp(result, whole.astype(np.int64)))


def draw_degrees(
    n: int, exponent: float, min_degree: int, max_degree: int, seed: int, layer: int
) -> NDArray[np.int64]:
    """Return the stub offsets of a layer, shape (n + 1,): vertex i owns stubs [offsets[i], offsets[i + 1]).

    Degrees are floors of a Pareto variable truncated to [min_degree, max_degree + 1).
    """
    tails = portable_power(np.arange(min_degree, max_degree + 2, dtype=np.float64), 1.0 - exponent)
    survival = (tails[1:-1] - tails[-1]) / (tails[0] - tails[-1])
    table = np.floor(survival[::-1] * float(1 << _FRACTION_BITS)).astype(np.int64)
    offsets = np.zeros(n + 1, dtype=np.int64)
    for block, start in enumerate(range(0, n, _DEGREE_BLOCK)):
        stop = min(start + _DEGREE_BLOCK, n)
        words: NDArray[np.uint64] = stream(seed, _DEGREE_KEY, layer, block).random_raw(stop - start)
        fraction = (words >> np.uint64(64 - _FRACTION_BITS)).astype(np.int64)
        above = table.size - np.searchsorted(table, fraction, side="right")
        np.cumsum(min_degree + above, out=offsets[start + 1 : stop + 1])
        offsets[start + 1 : stop + 1] += offsets[start]
    return offsets


class PowerLawSource:
    """Sorted blocks of a configuration model; see :class:`papilio.storage.generators.blocks.EdgeSource`."""

    def __init__(self, model: PowerLaw, seed: int) -> None:
        self._unipartite = model.n_v is None
        self.n_u = model.n_u
        self.n_v = model.n_u if model.n_v is None else model.n_v
        self.state_bytes = self.state_bytes_of(model)
        self.block_bytes = DRAW_BYTES * (BLOCK_EDGES + model.max_degree_u)
        self._offsets_u = draw_degrees(
            self.n_u, model.exponent_u, model.min_degree_u, model.max_degree_u, seed, 0
        )
        self._offsets_v = (
            self._offsets_u
            if self._unipartite
            else draw_degrees(self.n_v, model.exponent_v, model.min_degree_v, model.max_degree_v, seed, 1)
        )
        self._stubs_u, self._stubs_v = int(self._offsets_u[-1]), int(self._offsets_v[-1])
        self._matching = Permutation(max(self._stubs_u, self._stubs_v, 1), stream(seed, _MATCH_KEY))
        self.total_draws = self._stubs_u
        unmatched = self._stubs_u % 2 if self._unipartite else abs(self._stubs_u - self._stubs_v)
        self.dropped = {"unmatched_stubs": unmatched}

    @staticmethod
    def state_bytes_of(model: PowerLaw) -> int:
        """Host bytes of the stub offsets and, while they are drawn, of the distribution's table."""
        n_v = 0 if model.n_v is None else model.n_v
        return 8 * (model.n_u + n_v) + DRAW_BYTES * max(model.max_degree_u, model.max_degree_v, _DEGREE_BLOCK)

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        """Yield the blocks in ascending (u, v), as calls that draw them."""
        cuts = np.searchsorted(self._offsets_u, np.arange(0, self._stubs_u, BLOCK_EDGES))
        bounds = [*np.unique(cuts).tolist(), self.n_u]
        for start, stop in pairwise(bounds):
            if start < stop:
                yield partial(self._draw, start, stop)

    def _draw(self, start: int, stop: int) -> EdgeBlock:
        offsets = self._offsets_u[start : stop + 1]
        stubs = np.arange(offsets[0], offsets[-1], dtype=np.int64)
        u = np.repeat(np.arange(start, stop, dtype=np.int64), np.diff(offsets))
        partner = self._matching.forward(stubs)
        if self._unipartite:
            partner ^= 1
            matched = partner < self._stubs_u
            u, partner = u[matched], self._matching.inverse(partner[matched])
        elif self._stubs_u > self._stubs_v:
            matched = partner < self._stubs_v
            u, partner = u[matched], partner[matched]
        v = self._owners(partner)
        dropped = {}
        if self._unipartite:
            dropped["self_loops"] = int(np.count_nonzero(u == v)) // 2
            upward = u < v
            u, v = u[upward], v[upward]
        u <<= 32
        u |= v
        keys = deduplicate(u)
        return EdgeBlock(keys, stubs.size, {**dropped, "duplicates": v.size - keys.size})

    def _owners(self, stubs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the vertices of layer V that own ``stubs``, shape (k,); searched in order, for the cache."""
        order = np.argsort(stubs)
        owners = np.empty(stubs.size, dtype=np.int64)
        owners[order] = np.searchsorted(self._offsets_v, stubs[order], side="right") - 1
        return owners
