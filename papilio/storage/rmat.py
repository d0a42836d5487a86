"""R-MAT edges drawn directly in sorted blocks, without sorting out of core.

The draws are independent, so the number of draws below a prefix of u is multinomial: a tree of exact binomials over the
bits of u gives each prefix its number of draws, down to blocks of about a million. At the levels of its prefix, a block
draws the bits of v given the bits of u; at all other levels it draws both jointly, several levels per table look-up
(Walker's alias method). Blocks come in order of u; sorting and deduplicating one block at a time sorts and deduplicates
the graph.

A unipartite edge is stored as (min, max), so its blocks are by prefixes of the smaller end. The ends share their bits
until the first level where one has 0 and the other 1. Draws are counted by *stratum*: the level at which the ends part,
and whether the draw came as (max, min), which exchanges b and c below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np
from numpy.random import PCG64
from numpy.typing import NDArray

from papilio.graph import deduplicate
from papilio.storage.graph_models import Rmat
from papilio.storage.random_edges import (
    BLOCK_EDGES,
    DRAW_BYTES,
    EdgeBlock,
    EdgeSource,
    draw_binomial,
    draw_words32,
    stream,
    to_fixed64,
)

_LEVELS = 6
"""Levels per look-up: 4096 cells, with tables of 80 KB that stay in the second-level cache."""

_PIECE = 1 << 15
"""Draws per vectorised step: the working arrays stay in the second-level cache."""

_MERGE_BYTES = 32
"""Host bytes per edge while the edges of a hub are merged: old and new keys, sorted and deduplicated."""

_LOW = np.int64(0xFFFFFFFF)
_TREE_KEY, _BLOCK_KEY = 0x7265, 0x626C

Stratum = tuple[int, bool]
"""(number of leading bits of v that u's prefix settles, whether the draw was (max, min))."""

_BIPARTITE: Stratum = (0, False)
_TOGETHER: Stratum = (-1, False)
"""The ends have had the same bits so far (unipartite only)."""


class AliasTable:
    """Draws one of 2^k cells per 32-bit word (Walker's alias method, probabilities to 2^-32).

    A draw appends ``shift`` bits, the value of the drawn cell, to v (and to u, if ``values`` extend beyond bit 32).
    """

    def __init__(self, shift: int, probabilities: list[float], values: list[int]) -> None:
        cells = len(probabilities)
        index_bits = cells.bit_length() - 1
        scaled, other = [p * cells for p in probabilities], list(range(cells))
        small = [i for i, p in enumerate(scaled) if p < 1.0]
        large = [i for i, p in enumerate(scaled) if p >= 1.0]
        while small and large:
            i, j = small.pop(), large[-1]
            other[i] = j
            scaled[j] = (scaled[j] + scaled[i]) - 1.0
            if scaled[j] < 1.0:
                small.append(large.pop())
        for i in small + large:
            scaled[i] = 1.0
        top = 1 << (32 - index_bits)
        self._shift = shift
        self._index_bits, self._index_mask = np.uint32(index_bits), np.uint32(cells - 1)
        self._threshold = np.array([min(int(p * top), top) for p in scaled], dtype=np.uint32)
        self._values = np.array([(values[j], values[i]) for i, j in enumerate(other)], dtype=np.int64).ravel()

    def append(self, keys: NDArray[np.int64], source: PCG64) -> None:
        """Shift ``keys``, shape (k,), and put a drawn cell's value into the freed bits; in place."""
        words = draw_words32(source, keys.size)
        position = (words & self._index_mask).astype(np.intp)
        own = (words >> self._index_bits) < self._threshold.take(position)
        position *= 2
        position += own
        np.left_shift(keys, self._shift, out=keys)
        np.bitwise_or(keys, self._values.take(position), out=keys)


def _table(levels: list[list[tuple[float, int]]]) -> AliasTable:
    """Return the table of independent levels, each a list of (probability, digit)."""
    cells: list[tuple[float, int]] = [(1.0, 0)]
    for choices in levels:
        cells = [(p * q, (value << 1) | digit) for p, value in cells for q, digit in choices]
    return AliasTable(len(levels), [p for p, _ in cells], [value for _, value in cells])


@lru_cache(maxsize=1024)
def _joint_table(quadrants: tuple[float, float, float, float], levels: int) -> AliasTable:
    """Return the table of both ends: quadrants (0, 0), (0, 1), (1, 0), (1, 1) of ``levels`` levels."""
    digits = (0, 1, 1 << 32, (1 << 32) | 1)
    return _table([list(zip(quadrants, digits, strict=True))] * levels)


@lru_cache(maxsize=4096)
def _bit_table(ones: tuple[float, ...]) -> AliasTable:
    """Return the table of one end, given the probability of a 1 at each level."""
    return _table([[(1.0 - one, 0), (one, 1)] for one in ones])


def _ratio(part: float, whole: float) -> float:
    return min(part / whole, 1.0) if whole > 0.0 else 0.0


class RmatSource(EdgeSource):
    """Sorted blocks of an R-MAT graph."""

    def __init__(self, model: Rmat, seed: int) -> None:
        self._seed = seed
        self._unipartite = model.kind == "unipartite"
        self._scale_u = model.scale_u
        self._scale_v = model.scale_u if model.scale_v is None else model.scale_v
        self._joint = min(self._scale_u, self._scale_v)
        upright = (model.a, model.b, model.c, model.d)
        self._quadrants = {False: upright, True: (model.a, model.c, model.b, model.d)}
        super().__init__(1 << self._scale_u, 1 << self._scale_v)
        self.total_draws = model.edges
        self.block_bytes = DRAW_BYTES * min(model.edges, BLOCK_EDGES) + self._hub_bytes(model)

    def _hub_bytes(self, model: Rmat) -> int:
        """Return the host bytes to merge the edges of the largest hub, if it has more than a block draws at once."""
        margin = max(model.a + model.b, model.c + model.d)
        draws = model.edges * margin**self._scale_u
        if self._unipartite:
            draws += model.edges * max(model.a + model.c, model.b + model.d) ** self._scale_u
        degree = min(draws, self.n_v)
        return int(_MERGE_BYTES * degree) if degree > BLOCK_EDGES else 0

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        root = _TOGETHER if self._unipartite else _BIPARTITE
        pending: list[tuple[int, int, dict[Stratum, int]]] = [(0, 0, {root: self.total_draws})]
        while pending:
            depth, prefix, counts = pending.pop()
            total = sum(counts.values())
            if total and (total <= BLOCK_EDGES or depth == self._scale_u):
                yield partial(self._draw, depth, prefix, counts)
            elif total:
                zeros, ones = self._split(depth, prefix, counts)
                pending.append((depth + 1, 2 * prefix + 1, ones))
                pending.append((depth + 1, 2 * prefix, zeros))

    def _split(
        self, depth: int, prefix: int, counts: dict[Stratum, int]
    ) -> tuple[dict[Stratum, int], dict[Stratum, int]]:
        """Divide the draws below a prefix of u between the two values of the next bit."""
        source = stream(self._seed, _TREE_KEY, depth, prefix)
        zeros: dict[Stratum, int] = {}
        ones: dict[Stratum, int] = {}
        for stratum, n in counts.items():
            a, b, c, d = self._quadrants[stratum[1]]
            if stratum == _TOGETHER:
                ones[_TOGETHER] = draw_binomial(source, n, to_fixed64(d))
                rest = n - ones[_TOGETHER]
                zeros[depth + 1, False] = draw_binomial(source, rest, to_fixed64(_ratio(b, a + b + c)))
                rest -= zeros[depth + 1, False]
                zeros[depth + 1, True] = draw_binomial(source, rest, to_fixed64(_ratio(c, a + c)))
                zeros[_TOGETHER] = rest - zeros[depth + 1, True]
            else:
                ones[stratum] = draw_binomial(source, n, to_fixed64(c + d))
                zeros[stratum] = n - ones[stratum]
        return zeros, ones

    def _draw(self, depth: int, prefix: int, counts: dict[Stratum, int]) -> EdgeBlock:
        source = stream(self._seed, _BLOCK_KEY, depth, prefix)
        total = sum(counts.values())
        merged = np.empty(0, dtype=np.int64)
        loops = 0
        buffer = np.empty(min(total, BLOCK_EDGES), dtype=np.int64)
        filled = 0
        for stratum, n in counts.items():
            left = n
            while left:
                if filled == buffer.size:
                    merged, filled = deduplicate(np.concatenate((merged, buffer))), 0
                piece = buffer[filled : filled + min(left, _PIECE)]
                left -= piece.size
                self._fill(piece, source, depth, prefix, stratum)
                kept = self._orient(piece) if stratum == _TOGETHER else piece.size
                loops += piece.size - kept
                filled += kept
        keys = deduplicate(np.concatenate((merged, buffer[:filled])) if merged.size else buffer[:filled])
        dropped = {"duplicates": total - loops - keys.size}
        if self._unipartite:
            dropped["self_loops"] = loops
        return EdgeBlock(keys, total, dropped)

    def _fill(self, keys: NDArray[np.int64], source: PCG64, depth: int, prefix: int, stratum: Stratum) -> None:
        """Draw keys ``u << 32 | v`` of one stratum below a prefix of ``depth`` bits of u, in place."""
        settled, flipped = stratum
        a, b, c, d = self._quadrants[flipped]
        if stratum == _TOGETHER:
            keys[:] = (prefix << 32) | prefix
        else:
            keys[:] = (prefix >> (depth - settled + 1) << 1) | 1 if settled else 0
            for level in range(settled, min(depth, self._joint), _LEVELS):
                stop = min(level + _LEVELS, depth, self._joint)
                bits = [prefix >> (depth - 1 - i) & 1 for i in range(level, stop)]
                ones = tuple(_ratio(d, c + d) if bit else _ratio(b, a + b) for bit in bits)
                _bit_table(ones).append(keys, source)
            keys |= prefix << 32
        for level in range(depth, self._joint, _LEVELS):
            _joint_table((a, b, c, d), min(_LEVELS, self._joint - level)).append(keys, source)
        self._fill_tail(keys, source, max(depth, self._joint))

    def _fill_tail(self, keys: NDArray[np.int64], source: PCG64, level: int) -> None:
        """Draw the levels that only the larger layer has, in place."""
        _, b, c, d = self._quadrants[False]
        for start in range(level, max(self._scale_u, self._scale_v), _LEVELS):
            width = min(_LEVELS, max(self._scale_u, self._scale_v) - start)
            tail = np.zeros(keys.size, dtype=np.int64)
            if self._scale_u > self._scale_v:
                _bit_table((c + d,) * width).append(tail, source)
                keys[:] = ((keys >> 32 << width | tail) << 32) | (keys & _LOW)
            else:
                _bit_table((b + d,) * width).append(tail, source)
                keys[:] = (keys & ~_LOW) | ((keys & _LOW) << width) | tail

    @staticmethod
    def _orient(keys: NDArray[np.int64]) -> int:
        """Make ``keys`` (min, max) and move self loops to the end; return the number of the others."""
        u, v = keys >> 32, keys & _LOW
        keys[:] = (np.minimum(u, v) << 32) | np.maximum(u, v)
        proper = keys[u != v]
        keys[: proper.size] = proper
        return int(proper.size)
