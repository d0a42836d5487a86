"""Removal of isolated vertices from a generated graph, in two passes over its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from papilio.storage.generators.blocks import EdgeBlock, EdgeSource, run_blocks

__all__ = ["CompactSource"]

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
