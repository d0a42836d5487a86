"""Rows that engines list: blocks that threads fill, and threads that write the rows of a device; for all motifs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import RowColumn
from papilio.kernels.jit import Ints, compiled, inlined
from papilio.kernels.threads import RowSink, available_threads

BLOCK_VALUES = 1 << 20
"""Vertices in a block of rows: 4 MiB, and one row group of a file."""

_WRITERS = 32
"""Maximum number of threads that write the rows of a device."""


class RowBlock(NamedTuple):
    """Column of rows of any length: row i is ``values[offsets[i]:offsets[i + 1]]``; ``size`` (1) counts the rows."""

    values: NDArray[np.int32]
    offsets: Ints
    size: Ints


def make_row_block(longest: int, limit: int | None) -> RowBlock:
    """Return a block for at most ``limit`` rows, of at most ``longest`` vertices each."""
    most_rows = max(1, BLOCK_VALUES // 4) if limit is None else max(1, min(limit, BLOCK_VALUES // 4))
    n_values = max(longest, min(BLOCK_VALUES, most_rows * longest))
    return RowBlock(np.zeros(n_values, np.int32), np.zeros(most_rows + 1, np.int64), np.zeros(1, np.int64))


@compiled
def sort_span(values: NDArray[np.int32], begin: int, end: int) -> None:
    """Sort ``values[begin:end]`` in place by Shell's method, with gaps that shrink to 5/11 (Gonnet 1984)."""
    gap = end - begin
    while gap > 1:
        gap = (5 * gap - 1) // 11 if gap > 4 else 1
        for at in range(begin + gap, end):
            value, to = values[at], at
            while to >= begin + gap and values[to - gap] > value:
                values[to] = values[to - gap]
                to -= gap
            values[to] = value


@inlined
def has_room(block: RowBlock, length: int) -> bool:
    """Whether another row of that length fits."""
    n = block.size[0]
    return bool(n + 1 < block.offsets.size and block.offsets[n] + length <= block.values.size)


@inlined
def end_row(block: RowBlock, length: int) -> None:
    """Sort the vertices written after the last row, and add them as a row."""
    n = block.size[0]
    begin = block.offsets[n]
    sort_span(block.values, begin, begin + length)
    block.offsets[n + 1] = begin + length
    block.size[0] = n + 1


def empty_block(block: RowBlock, row_size: int | None) -> RowColumn:
    """Return the rows as a column, with ``row_size`` vertices each if given, and empty the block."""
    n = int(block.size[0])
    block.size[0] = 0
    values = block.values[: block.offsets[n]]
    return (block.offsets[: n + 1], values) if row_size is None else values.reshape(n, row_size)


def cut_blocks(columns: Sequence[RowColumn]) -> Iterator[list[RowColumn]]:
    """Cut rows into blocks of at most BLOCK_VALUES vertices, or numbers, in all columns together, or of one row."""
    ends = np.sum([_offsets_of(column) for column in columns], axis=0)
    begin, n_rows = 0, ends.size - 1
    while begin < n_rows:
        below = int(np.searchsorted(ends, ends[begin] + BLOCK_VALUES, side="right"))
        end = max(begin + 1, below - 1)
        yield [_cut_rows(column, begin, end) for column in columns]
        begin = end


def _offsets_of(column: RowColumn) -> NDArray[np.int64]:
    if isinstance(column, tuple):
        return column[0]
    n_rows, size = len(column), column[:1].size
    offsets: NDArray[np.int64] = size * np.arange(n_rows + 1)
    return offsets


def _cut_rows(column: RowColumn, begin: int, end: int) -> RowColumn:
    if isinstance(column, tuple):
        offsets, values = column
        return offsets[begin : end + 1] - offsets[begin], values[offsets[begin] : offsets[end]]
    return column[begin:end]


def cut_chunks(xp: Any, ends: Any, most: int) -> Iterator[tuple[int, int]]:
    """Yield intervals of rows with at most ``most`` vertices, or of one row; ``ends`` (n_rows + 1) rise from 0."""
    begin, n_rows = 0, int(ends.size) - 1
    while begin < n_rows:
        below = xp.searchsorted(ends, ends[begin : begin + 1] + most, side="right")
        end = min(n_rows, max(begin + 1, int(below[0]) - 1))
        yield begin, end
        begin = end


class RowWriters:
    """Run threads that pass rows on, each by its own ``part``; each writes one block of rows while others wait.

    The first blocks are small, so that all threads soon have one. Later blocks are whole chunks: the work in Python
    takes as long for a small block as for a large one, and the thread of the device needs Python's lock, too.
    """

    def __init__(self, take: RowSink) -> None:
        self._take = take
        self._pools = [ThreadPoolExecutor(1, "papilio-rows") for _ in range(min(_WRITERS, available_threads()))]
        self._most = 3 * len(self._pools) // 2 + 1
        self._under_way: deque[Future[None]] = deque()
        self._n_passed = 0

    def write(self, columns: Sequence[RowColumn]) -> None:
        """Pass the rows of a chunk to the threads by turns; wait if more than half as many blocks are queued."""
        is_early = self._n_passed < 2 * len(self._pools)
        for block in cut_blocks(columns) if is_early else [columns]:
            if len(self._under_way) == self._most:
                self._under_way.popleft().result()
            turn = self._n_passed % len(self._pools)
            self._under_way.append(self._pools[turn].submit(self._take, *block, part=turn))
            self._n_passed += 1

    def close(self) -> None:
        """Wait for all threads; raise any exception of a thread here."""
        try:
            while self._under_way:
                self._under_way.popleft().result()
        finally:
            for pool in self._pools:
                pool.shutdown(cancel_futures=True)
