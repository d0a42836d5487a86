"""Sorted blocks of edges, in order, each drawn alone: the form in which every model's source gives its graph.

A source cuts the edges of its graph into blocks by ranges of (u, v). The cut depends on the model and the seed only,
never on memory, threads or time, and every block draws from its own stream: blocks may be drawn anywhere, in any
order, again and again, and are always the same. Isolated vertices are removed in two passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK_EDGES = 1 << 20
"""Edges drawn for one block, at most, wherever a source can cut finer."""

DRAW_BYTES = 64
"""Host bytes per edge at the peak of drawing and sorting one block (keys, words, table positions, sort)."""


@dataclass(frozen=True)
class EdgeBlock:
    """Edges of one range of (u, v), each once, as ascending keys ``u << 32 | v``."""

    keys: NDArray[np.int64]  # int64, shape (k,), host
    drawn: int  # units of progress this block stands for
    dropped: dict[str, int] = field(default_factory=dict)  # what was drawn and erased, by reason


class EdgeSource(Protocol):
    """A graph as a sequence of blocks."""

    n_u: int
    n_v: int  # equals n_u if unipartite
    total_draws: int  # sum of ``drawn`` over all blocks
    state_bytes: int  # host bytes that the source itself holds
    block_bytes: int  # host bytes that drawing one block takes at its peak
    dropped: dict[str, int]  # what is erased before any block is drawn, by reason

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        """Yield the blocks in ascending (u, v), as calls that draw them."""
        ...


def deduplicate(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort ``keys`` in place and return them without repetition."""
    keys.sort()
    if keys.size < 2:
        return keys
    first = np.empty(keys.size, dtype=bool)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if bool(first.all()) else keys[first]


def run_blocks(source: EdgeSource, workers: int) -> Iterator[EdgeBlock]:
    """Draw the blocks of ``source`` on ``workers`` threads and yield them in order.

    At most ``2 * workers`` blocks are drawn ahead of the one being used. NumPy releases the interpreter lock
    while it draws, looks up and sorts.
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
"""A flag while looking, then an int32."""


class CompactSource:
    """The blocks of another source with vertices renumbered; itself an ``EdgeSource``.

    Making one draws every block once, to see which vertices have an edge; new ids keep the order of the old.
    ``workers`` threads draw, and ``on_block`` is told the ``drawn`` of each block.
    """

    def __init__(
        self, source: EdgeSource, *, unipartite: bool, workers: int, on_block: Callable[[int], None]
    ) -> None:
        used_u = np.zeros(source.n_u, dtype=bool)
        used_v = used_u if unipartite else np.zeros(source.n_v, dtype=bool)
        for block in run_blocks(source, workers):
            used_u[block.keys >> 32] = True
            used_v[block.keys & 0xFFFFFFFF] = True
            on_block(block.drawn)
        self._source = source
        self._new_u = _new_ids(used_u)
        self._new_v = self._new_u if unipartite else _new_ids(used_v)
        self.n_u, self.n_v = int(np.count_nonzero(used_u)), int(np.count_nonzero(used_v))
        self.total_draws, self.block_bytes = source.total_draws, source.block_bytes
        self.state_bytes = source.state_bytes + self.extra_bytes(source)
        isolated = source.n_u - self.n_u + (0 if unipartite else source.n_v - self.n_v)
        self.dropped = {**source.dropped, "isolated_vertices": isolated}

    @staticmethod
    def extra_bytes(source: EdgeSource) -> int:
        """Host bytes that renumbering the vertices of ``source`` takes, at most."""
        return _STATE_BYTES_PER_VERTEX * (source.n_u + source.n_v)

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        """Yield the blocks in ascending (u, v), as calls that draw and renumber them."""
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
