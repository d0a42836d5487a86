"""Sorted blocks of edges, in order, each drawn independently: the output of every model's source.

A source cuts the edges of its graph into blocks by ranges of (u, v). The cut depends only on the model and the seed,
never on memory, threads or time, and every block draws from a separate stream. So blocks may be drawn anywhere, in any
order, repeatedly, and are always the same. Isolated vertices are removed in two passes.

Randomness is the same on every machine. NumPy guarantees the raw streams of its bit generators, but not the output of
``Generator`` methods, and the last digits of ``log`` or ``pow`` differ between processors. Therefore only raw 64-bit
words of keyed PCG64 streams, integer arithmetic and exactly rounded IEEE operations are used here. A stream is
identified by the seed and a key of integers (purpose, block), so no result depends on the order in which threads draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.random import PCG64, SeedSequence
from numpy.typing import NDArray

BLOCK_EDGES = 1 << 20
"""Maximum edges drawn for one block, if the source can cut finely enough."""

DRAW_BYTES = 64
"""Peak host bytes per edge while one block is drawn and sorted (keys, words, table positions, sort)."""


@dataclass(frozen=True)
class EdgeBlock:
    """Edges of one range of (u, v), each once, as ascending keys ``u << 32 | v``."""

    keys: NDArray[np.int64]  # int64, shape (k,), host
    drawn: int  # units of progress of this block
    dropped: dict[str, int] = field(default_factory=dict)  # number of edges drawn and erased, by reason


class EdgeSource(ABC):
    """A graph as a sequence of blocks; without ``n_v`` it is unipartite, and both sizes are ``n_u``."""

    total_draws: int  # sum of ``drawn`` over all blocks
    block_bytes: int  # peak host bytes of drawing one block
    state_bytes = 0  # host bytes held by the source

    def __init__(self, n_u: int, n_v: int | None) -> None:
        self.n_u, self.n_v = n_u, n_u if n_v is None else n_v
        self.dropped: dict[str, int] = {}  # number of edges erased before any block is drawn, by reason

    @staticmethod
    def state_bytes_of(model: Any) -> int:
        """Return the host bytes of the vertices of a model, before its source is made."""
        return 0

    @abstractmethod
    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        """Yield the blocks in ascending (u, v), as functions that draw them."""


def run_blocks(source: EdgeSource, workers: int) -> Iterator[EdgeBlock]:
    """Draw the blocks of ``source`` on ``workers`` threads and yield them in order.

    At most ``2 * workers`` blocks are drawn ahead of the block in use. NumPy releases the interpreter lock while it
    draws, looks up and sorts.
    """
    with ThreadPoolExecutor(workers, thread_name_prefix="papilio-generate") as pool:
        ahead: deque[Future[EdgeBlock]] = deque()
        try:
            for draw in source.blocks():
                ahead.append(pool.submit(draw))
                if len(ahead) > 2 * workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


_STATE_BYTES_PER_VERTEX = 5
"""A flag during the search, then an int32."""


class CompactSource(EdgeSource):
    """The blocks of another source with vertices renumbered.

    Its constructor draws every block once to find the vertices that have an edge; new ids keep the order of the old
    ones. ``workers`` threads draw, and ``on_block`` is called with the ``drawn`` of each block.
    """

    def __init__(self, source: EdgeSource, *, unipartite: bool, workers: int, on_block: Callable[[int], None]) -> None:
        used_u = np.zeros(source.n_u, dtype=bool)
        used_v = used_u if unipartite else np.zeros(source.n_v, dtype=bool)
        for block in run_blocks(source, workers):
            used_u[block.keys >> 32] = True
            used_v[block.keys & 0xFFFFFFFF] = True
            on_block(block.drawn)
        self._source = source
        self._new_u = _new_ids(used_u)
        self._new_v = self._new_u if unipartite else _new_ids(used_v)
        super().__init__(int(np.count_nonzero(used_u)), int(np.count_nonzero(used_v)))
        self.total_draws, self.block_bytes = source.total_draws, source.block_bytes
        self.state_bytes = source.state_bytes + self.extra_bytes(source)
        isolated = source.n_u - self.n_u + (0 if unipartite else source.n_v - self.n_v)
        self.dropped = {**source.dropped, "isolated_vertices": isolated}

    @staticmethod
    def extra_bytes(source: EdgeSource) -> int:
        """Return the maximum host bytes of renumbering the vertices of ``source``."""
        return _STATE_BYTES_PER_VERTEX * (source.n_u + source.n_v)

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        for draw in self._source.blocks():
            yield partial(self._renumber, draw)

    def _renumber(self, draw: Callable[[], EdgeBlock]) -> EdgeBlock:
        block = draw()
        u = self._new_u[block.keys >> 32].astype(np.int64)
        return EdgeBlock((u << 32) | self._new_v[block.keys & 0xFFFFFFFF], block.drawn, block.dropped)


def _new_ids(used: NDArray[np.bool_]) -> NDArray[np.int32]:
    ids = np.cumsum(used, dtype=np.int32)
    ids -= 1
    return ids


_ONE = 1 << 64
_COUNT_WORDS = 1 << 16
_ROUNDS = 4
_SIGN_KEY = 0x5169


def stream(seed: int, *key: int) -> PCG64:
    """Return the stream of raw words named by ``seed`` and ``key`` (integers of at least 0)."""
    return PCG64(SeedSequence(seed, spawn_key=key))


def to_fixed64(probability: float) -> int:
    """Return ``floor(probability * 2^64)``, exactly, for a probability of 0 to 1."""
    return int(Fraction(min(max(probability, 0.0), 1.0)) * _ONE)


def draw_words32(source: PCG64, n: int) -> NDArray[np.uint32]:
    """Draw ``n`` 32-bit words, shape (n,), the low half of each raw word first."""
    raw: NDArray[np.uint64] = source.random_raw((n + 1) // 2)
    return raw.astype("<u8", copy=False).view("<u4")[:n]


def draw_below(source: PCG64, n: int, bound: int) -> NDArray[np.int64]:
    """Draw ``n`` integers uniform in [0, ``bound``), shape (n,), by masked rejection; ``bound`` <= 2^63."""
    if bound == 1:
        return np.zeros(n, dtype=np.int64)
    shift = np.uint64(64 - (bound - 1).bit_length())
    out = np.empty(n, dtype=np.int64)
    filled = 0
    while filled < n:
        words: NDArray[np.uint64] = source.random_raw(n - filled) >> shift
        kept = words[words < np.uint64(bound)]
        out[filled : filled + kept.size] = kept.astype(np.int64)
        filled += kept.size
    return out


def _count_ones(source: PCG64, n_bits: int) -> int:
    ones = 0
    while n_bits > 0:
        n_words = min(-(-n_bits // 64), _COUNT_WORDS)
        words: NDArray[np.uint64] = source.random_raw(n_words)
        if n_words * 64 > n_bits:
            words[-1] >>= np.uint64(n_words * 64 - n_bits)
        ones += int(np.bitwise_count(words).sum(dtype=np.int64))
        n_bits -= n_words * 64
    return ones


def draw_binomial(source: PCG64, trials: int, probability: int) -> int:
    """Draw an exact binomial: successes in ``trials`` at ``probability`` / 2^64.

    Each trial compares a uniform 64-bit word with the probability, most significant bit first. All trials proceed
    together, one popcount per bit, and half of the undecided ones drop out at every bit. About ``2 * trials`` random
    bits are used.
    """
    if probability >= _ONE:
        return trials
    successes, undecided = 0, trials
    for bit in range(63, -1, -1):
        if undecided == 0 or probability & ((1 << (bit + 1)) - 1) == 0:
            break
        ones = _count_ones(source, undecided)
        if probability >> bit & 1:
            successes += undecided - ones
            undecided = ones
        else:
            undecided -= ones
    return successes


class Permutation:
    """A keyed pseudo-random permutation of [0, ``size``) that needs no memory per element; ``size`` is 1 to 2^62.

    Rounds of an odd multiplication, an addition and a xor-shift permute the next power of two; values outside [0, size)
    are permuted again (cycle walking), fewer than two times on average.
    """

    def __init__(self, size: int, source: PCG64) -> None:
        self.size = size
        bits = max((size - 1).bit_length(), 1)
        self._mask = np.uint64((1 << bits) - 1)
        self._shift = np.uint64((bits + 1) // 2)
        constants = [int(word) for word in source.random_raw(2 * _ROUNDS)]
        self._rounds = [
            (np.uint64(a | 1), np.uint64(b), np.uint64(pow(a | 1, -1, _ONE)))
            for a, b in zip(constants[::2], constants[1::2], strict=True)
        ]

    def _step(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        for multiplier, addend, _ in self._rounds:
            x = (x * multiplier + addend) & self._mask
            x ^= x >> self._shift
        return x

    def _step_back(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        for _, addend, inverse in reversed(self._rounds):
            x = x ^ (x >> self._shift)
            x = ((x - addend) * inverse) & self._mask
        return x

    def forward(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the images of ``x``, shape (k,)."""
        return self._walk(x, back=False)

    def inverse(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the elements whose images are ``x``, shape (k,)."""
        return self._walk(x, back=True)

    def _walk(self, x: NDArray[np.int64], *, back: bool) -> NDArray[np.int64]:
        step = self._step_back if back else self._step
        out = step(x.astype(np.uint64))
        outside = np.flatnonzero(out >= np.uint64(self.size))
        while outside.size:
            walked = step(out[outside])
            out[outside] = walked
            outside = outside[walked >= np.uint64(self.size)]
        return out.astype(np.int64)


def edge_signs(keys: NDArray[np.int64], positive: float, seed: int) -> NDArray[np.int8]:
    """Return +1 with probability ``positive``, else -1, int8 of shape (k,), by hashing (u, v, seed).

    The sign of an edge ``u << 32 | v`` in ``keys`` does not depend on other edges.
    """
    offset = SeedSequence(seed, spawn_key=(_SIGN_KEY,)).generate_state(1, np.uint64)[0]
    z = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + offset
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    threshold = to_fixed64(positive)
    if threshold >= _ONE:
        return np.ones(keys.size, dtype=np.int8)
    return np.where(z < np.uint64(threshold), 1, -1).astype(np.int8)
