"""Complete graphs, and planted bicliques or cliques over uniform noise, in sorted blocks.

The pairs of vertices that an edge may join are numbered in (u, v) order, so that a block is a range of
numbers. Noise is divided among ranges by exact binomials; a planted block adds the pairs of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from papilio.storage.generators.blocks import BLOCK_EDGES, DRAW_BYTES, EdgeBlock, deduplicate
from papilio.storage.generators.models import Complete, Planted, count_pairs
from papilio.storage.generators.randomness import Permutation, draw_below, draw_binomial, stream

_TREE_KEY, _NOISE_KEY, _MEMBER_KEY = 0x7472, 0x6E6F, 0x6D65


class PairSpace:
    """All pairs that an edge may join, numbered 0 .. ``size`` - 1 in (u, v) order; without ``n_v`` those u < v."""

    def __init__(self, n_u: int, n_v: int | None) -> None:
        self._n_u, self._n_v = n_u, n_v
        self.size = count_pairs(n_u, n_v)

    def keys(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pairs as ``u << 32 | v``, shape (k,)."""
        if self._n_v is not None:
            u = numbers // self._n_v
            return (u << 32) | (numbers - u * self._n_v)
        back = self.size - 1 - numbers
        row = ((np.sqrt(8.0 * back + 1.0) - 1.0) / 2.0).astype(np.int64)
        row -= row * (row + 1) // 2 > back
        row += (row + 1) * (row + 2) // 2 <= back
        u = self._n_u - 2 - row
        v = self._n_u - 1 - (back - row * (row + 1) // 2)
        return np.asarray((u << 32) | v, dtype=np.int64)

    def key(self, number: int) -> int:
        """Return one pair as ``u << 32 | v``."""
        return int(self.keys(np.array([number], dtype=np.int64))[0])


class CompleteSource:
    """Sorted blocks of K(n_u, n_v) or K(n); see :class:`papilio.storage.generators.blocks.EdgeSource`."""

    def __init__(self, model: Complete) -> None:
        self.n_u = model.n_u
        self.n_v = model.n_u if model.n_v is None else model.n_v
        self._pairs = PairSpace(model.n_u, model.n_v)
        self.total_draws = self._pairs.size
        self.state_bytes = 0
        self.block_bytes = DRAW_BYTES * min(self.total_draws, BLOCK_EDGES)
        self.dropped: dict[str, int] = {}

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        """Yield the blocks in ascending (u, v), as calls that make them."""
        for start in range(0, self.total_draws, BLOCK_EDGES):
            yield partial(self._draw, start, min(start + BLOCK_EDGES, self.total_draws))

    def _draw(self, start: int, stop: int) -> EdgeBlock:
        return EdgeBlock(self._pairs.keys(np.arange(start, stop, dtype=np.int64)), stop - start)


class PlantedSource:
    """Sorted blocks of planted bicliques or cliques over noise; an ``EdgeSource``."""

    def __init__(self, model: Planted, seed: int) -> None:
        self._seed = seed
        self._unipartite = model.n_v is None
        self.n_u = model.n_u
        self.n_v = model.n_u if model.n_v is None else model.n_v
        self._pairs = PairSpace(model.n_u, model.n_v)
        self._noise = model.noise
        self._width = model.size_u if model.size_v is None else model.size_v
        per_block = model.size_u * (self._width - 1) // 2 if self._unipartite else model.size_u * self._width
        self.total_draws = model.noise + model.count * per_block
        self.state_bytes = self.state_bytes_of(model)
        self.block_bytes = DRAW_BYTES * (min(self.total_draws, BLOCK_EDGES) + 2 * self._width)
        self.dropped: dict[str, int] = {}
        members = self._draw_members(model.count, model.size_u, self.n_u, 0)
        self._members_v = (
            members if self._unipartite else self._draw_members(model.count, self._width, self.n_v, 1)
        )
        order = np.argsort(members, axis=None, kind="stable")
        self._member_u = members.ravel()[order]
        self._member_block = order // max(model.size_u, 1)

    @staticmethod
    def state_bytes_of(model: Planted) -> int:
        """Host bytes of the lists of planted vertices."""
        return model.count * (16 * model.size_u + 4 * (0 if model.size_v is None else model.size_v))

    def _draw_members(self, count: int, size: int, n: int, layer: int) -> NDArray[np.int32]:
        members = np.empty((count, size), dtype=np.int32)
        if not size:
            return members
        first = np.arange(size, dtype=np.int64)
        for block in range(count):
            members[block] = Permutation(n, stream(self._seed, _MEMBER_KEY, layer, block)).forward(first)
        return members

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        """Yield the blocks in ascending (u, v), as calls that draw them."""
        pending = [(0, self._pairs.size, self._noise)] if self.total_draws else []
        while pending:
            start, stop, noise = pending.pop()
            load = noise + self._planted_within(start, stop)
            if not load:
                continue
            if load <= BLOCK_EDGES or stop - start == 1:
                yield partial(self._draw, start, stop, noise)
                continue
            middle = (start + stop) // 2
            source = stream(self._seed, _TREE_KEY, start, stop)
            left = draw_binomial(source, noise, ((middle - start) << 64) // (stop - start))
            pending += [(middle, stop, noise - left), (start, middle, left)]

    def _memberships(self, start: int, stop: int) -> slice:
        """Planted vertices u of the pairs [start, stop): a slice of ``_member_u`` and ``_member_block``."""
        ends = np.array([self._pairs.key(start) >> 32, (self._pairs.key(stop - 1) >> 32) + 1])
        low, high = np.searchsorted(self._member_u, ends)
        return slice(int(low), int(high))

    def _planted_within(self, start: int, stop: int) -> int:
        chosen = self._memberships(start, stop)
        n_members: int = chosen.stop - chosen.start
        return min(n_members * self._width, stop - start)

    def _draw(self, start: int, stop: int, noise: int) -> EdgeBlock:
        chosen = self._memberships(start, stop)
        u = np.repeat(self._member_u[chosen].astype(np.int64), self._width)
        planted = (u << 32) | self._members_v[self._member_block[chosen]].ravel()
        low, high = self._pairs.key(start), self._pairs.key(stop - 1)
        inside = (planted >= low) & (planted <= high)
        if self._unipartite:
            inside &= (planted & 0xFFFFFFFF) > u
        planted = planted[inside]
        source = stream(self._seed, _NOISE_KEY, start, stop)
        numbers = draw_below(source, min(noise, 1) if stop - start == 1 else noise, stop - start)
        numbers += start
        keys = deduplicate(np.concatenate((planted, self._pairs.keys(numbers))))
        drawn = int(planted.size) + noise
        return EdgeBlock(keys, drawn, {"duplicates": drawn - keys.size})
