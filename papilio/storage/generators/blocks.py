"""What every model's source gives: sorted blocks of edges, in order, each drawn alone.

A source cuts the edges of its graph into blocks by ranges of (u, v). The cut depends on the model and the
seed only, never on memory, threads or time, and every block draws from its own stream: blocks may be drawn
anywhere, in any order, again and again, and are always the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_EDGES", "DRAW_BYTES", "EdgeBlock", "EdgeSource", "deduplicate", "run_blocks"]

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
