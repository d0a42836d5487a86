"""What all that lists motifs shares: rows leave a run through one outlet, and at most as many as were asked for.

Rows that engines list: the blocks that threads fill, and the one way out of a run; knows of no motif.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import RowColumn
from papilio.kernels.engine import Cut, EngineName, Partial, never_cut, require_interval
from papilio.kernels.jit import Ints, compiled, inlined
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost, items_in
from papilio.motifs import Listing

BLOCK_VALUES = 1 << 20
"""Vertices in a block of rows: 4 MiB, and a row group of a file."""

RowSink = Callable[..., None]
"""Takes rows, one motif in each, as a :data:`~papilio.graph.RowColumn` for each column of the listing: positions in the
ids that ``prepared.ids_<layer>`` has, rising in each row. Called by any thread; the arrays are used again after the
call. ``part`` may name the file that they go to, by a number from 0 on: then it does not depend on which thread is
first."""


def drop_rows(*columns: RowColumn, part: int | None = None) -> None:
    """Take rows and keep none of them: whoever runs only wants to know how many there are."""


class RowBlock(NamedTuple):
    """A column of rows of any length: row i is ``values[offsets[i]:offsets[i + 1]]``; ``size`` (1) counts the rows."""

    values: NDArray[np.int32]
    offsets: Ints
    size: Ints


def make_row_block(longest: int, limit: int | None) -> RowBlock:
    """Return a block for rows of at most ``longest`` vertices, and for no more of them than ``limit``."""
    most_rows = max(1, BLOCK_VALUES // 4) if limit is None else max(1, min(limit, BLOCK_VALUES // 4))
    n_values = max(longest, min(BLOCK_VALUES, most_rows * longest))
    return RowBlock(np.zeros(n_values, np.int32), np.zeros(most_rows + 1, np.int64), np.zeros(1, np.int64))


@compiled
def sort_span(values: NDArray[np.int32], begin: int, end: int) -> None:
    """Sort ``values[begin:end]`` in place: Shell's method, by gaps that shrink to 5/11 (Gonnet 1984)."""
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
    """Whether a further row of that length fits."""
    n = block.size[0]
    return bool(n + 1 < block.offsets.size and block.offsets[n] + length <= block.values.size)


@inlined
def end_row(block: RowBlock, length: int) -> None:
    """Sort the vertices that were written behind the last row, and make them a row."""
    n = block.size[0]
    begin = block.offsets[n]
    sort_span(block.values, begin, begin + length)
    block.offsets[n + 1] = begin + length
    block.size[0] = n + 1


def empty_block(block: RowBlock, row_size: int | None) -> RowColumn:
    """Return the rows as a column, of ``row_size`` vertices each where that is given, and begin anew."""
    n = int(block.size[0])
    block.size[0] = 0
    values = block.values[: block.offsets[n]]
    return (block.offsets[: n + 1], values) if row_size is None else values.reshape(n, row_size)


class Outlet:
    """Where the threads of one run leave their rows; at most ``limit`` of them pass, and then it is full."""

    def __init__(self, sink: RowSink, limit: int | None) -> None:
        self.rows, self.full = 0, False
        self._sink, self._limit = sink, limit
        self._lock = threading.Lock()

    def take(self, *columns: RowColumn, part: int | None = None) -> None:
        """Pass rows on, the first of them where the limit cuts; ``part`` is as for a :data:`RowSink`."""
        first = columns[0]
        n = len(first[0]) - 1 if isinstance(first, tuple) else len(first)
        with self._lock:
            if self._limit is not None:
                n = min(n, self._limit - self.rows)
            self.rows += n
            self.full = self.rows == self._limit
        if n:
            given = {} if part is None else {"part": part}
            self._sink(*(_first_rows(column, n) for column in columns), **given)


def _first_rows(column: RowColumn, n: int) -> RowColumn:
    if isinstance(column, tuple):
        offsets, values = column
        return offsets[: n + 1], values[: offsets[n]]
    return column[:n]


def cut_blocks(columns: Sequence[RowColumn]) -> Iterator[list[RowColumn]]:
    """Cut rows into blocks of at most BLOCK_VALUES vertices in all columns together, or of one row."""
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
    n_rows, size = column.shape
    offsets: NDArray[np.int64] = size * np.arange(n_rows + 1)
    return offsets


def _cut_rows(column: RowColumn, begin: int, end: int) -> RowColumn:
    if isinstance(column, tuple):
        offsets, values = column
        return offsets[begin : end + 1] - offsets[begin], values[offsets[begin] : offsets[end]]
    return column[begin:end]


class Found(NamedTuple):
    """What a run found: of how many items, with how many steps of the search, and the sum of the hashes."""

    n_items: int
    work: int
    checksum: int


class Lister(ABC):
    """Base of the listers; ``listing`` says which motifs are listed, ``with_u`` and ``with_v`` by their ids.

    A prepared graph has ``n_items``, and in ``work`` the estimated set operations of each item, falling.
    """

    name: EngineName

    def __init__(self, listing: Listing) -> None:
        self.listing = listing

    def work(self, prepared: Any) -> NDArray[np.int64]:
        """Return the estimated set operations of each item, shape (n_items,); heaviest first."""
        work: NDArray[np.int64] = prepared.work
        return work

    def slice_work(self, prepared: Any) -> int:
        """Slices cost nothing."""
        return 1

    def run(
        self,
        prepared: Any,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
        sink: RowSink = drop_rows,
    ) -> Partial:
        """List exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``sink`` gets every row once, in blocks, from any thread; what it raises ends the run. ``total`` is the number
        of rows. A partial that is capped has as many as the limit, and all items of the run, which may have more.

        Raises
        ------
        InputError
            When the interval is not within ``[0, n_items]``.
        LeaseTooLargeError
            When a device has no room for what these items need or find.
        ExecutionError
            When the rows are not as many as the search has counted.
        """
        require_interval(start, stop, prepared.n_items)
        outlet = Outlet(sink, self.listing.limit)
        found = self._list(prepared, [start, *bounds, stop], cut, outlet)
        work = outlet.rows + found.work
        if outlet.full:
            return Partial(stop - start, outlet.rows, work, capped=True)
        return Partial(found.n_items, outlet.rows, work, checksum=found.checksum % (1 << 64))

    @abstractmethod
    def _list(self, prepared: Any, bounds: Sequence[int], cut: Cut, outlet: Outlet) -> Found:
        """List the items between the bounds, whose first and last may be equal; see :meth:`run`."""


class CpuLister(Lister):
    """Base of the listers on CPUs; ``threads`` of one run are by default the processors that this process may use.

    They hold no graph, and are safe to share between threads.
    """

    name: EngineName = "cpu"
    serial_cost: int | None = None
    """Below this cost one thread lists alone; see :func:`~papilio.kernels.threads.cut_by_cost`."""

    def __init__(self, threads: int | None, listing: Listing) -> None:
        super().__init__(listing)
        self.threads = choose_threads(threads)

    def _list(self, prepared: Any, bounds: Sequence[int], cut: Cut, outlet: Outlet) -> Found:
        start, stop = bounds[0], bounds[-1]
        costs = self.work(prepared)[start:stop]
        chunks = cut_by_cost(costs, self.threads, len(bounds) - 1, self.serial_cost)

        def list_chunk(worker: Any, first: int, end: int) -> None:
            self._begin(worker, start + first)
            while not (outlet.full or runner.failed) and not self._list_some(prepared, worker, start + end):
                self._pass_on(prepared, worker, outlet)

        runner = ChunkRunner(lambda: self._make_worker(prepared), self.threads)
        n_items = items_in(chunks, runner.run(chunks, list_chunk, lambda: outlet.full or cut()))
        for worker in runner.states:
            self._pass_on(prepared, worker, outlet)
        work, checksum = self._finish(prepared, (start, start + n_items), runner.states, outlet)
        return Found(n_items, work, checksum)

    @abstractmethod
    def _make_worker(self, prepared: Any) -> Any:
        """Return what one thread has of its own."""

    @abstractmethod
    def _begin(self, worker: Any, item: int) -> None:
        """Put a worker at the first item of a chunk."""

    @abstractmethod
    def _list_some(self, prepared: Any, worker: Any, end: int) -> bool:
        """Fill the block of a worker; return whether the items below an end are all listed."""

    @abstractmethod
    def _pass_on(self, prepared: Any, worker: Any, outlet: Outlet) -> None:
        """Empty the block of a worker into the outlet."""

    @abstractmethod
    def _finish(
        self, prepared: Any, span: tuple[int, int], workers: Sequence[Any], outlet: Outlet
    ) -> tuple[int, int]:
        """Return the words intersected for the items of a span, and the sum of the hashes of what was found."""
