"""List motifs on a GPU: searches write records to a buffer (``records.cuh``), which become rows.

A search of some items reports the number of records found and their words. If they exceed the buffer, the search is
repeated in parts: of fewer items, or, for one item, of the records of one hash each. Records that fit are sorted by an
order that depends on the records alone, turned into rows on the device, and copied to the host, whose threads write the
rows of some chunks while the device makes the next.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import RowColumn
from papilio.kernels.device.constants import LENGTH_BITS, LONG_ROW
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.engine import (
    Engine,
    EngineName,
    Partial,
    Prepared,
    StopCheck,
    never_cut,
    require_interval,
)
from papilio.kernels.exact import mix
from papilio.kernels.listing import RowWriters
from papilio.kernels.search.gpu import TreeEngine
from papilio.kernels.threads import Outlet, RowSink, drop_rows
from papilio.motifs import Listing

_WORDS_PER_RECORD = 8
"""Words of the buffer for each record that it has room for: sorting the records takes about eight words each."""

_ROOM_FRACTION = 0.125
"""Maximum share of free device memory for the buffer; the search and its rows need memory, too."""

_FIRST_PARTS = 16
"""Number of parts, of equal cost, into which the items are cut; the first search of a run takes one part."""

_SPARE = 1.25
"""Factor by which parts should stay below the capacity."""

_MOST_PARTS = 1 << 20
"""Maximum searches of one item; an item with more would take unacceptably long."""


class RaggedOnDevice(NamedTuple):
    """Store rows of any length on the device: row offsets, int64, and positions, int32."""

    offsets: Any
    host_offsets: NDArray[np.int64]
    values: Any
    longest: int  # upper bound of the vertices of a row


class Records(NamedTuple):
    """Store records on the device, in order: ``places`` (uint64) as in records.cuh, ``words`` (int32)."""

    places: Any
    words: Any

    @property
    def begins(self) -> Any:
        """Return the first word of each record, int64."""
        return (self.places >> np.uint64(LENGTH_BITS)).astype(np.int64)

    @property
    def lengths(self) -> Any:
        """Return the number of words of each record, int64."""
        return (self.places & np.uint64((1 << LENGTH_BITS) - 1)).astype(np.int64)


class RecordBuffer(NamedTuple):
    """Collect the selected records of a search on the device."""

    ends: Any
    places: Any
    words: Any

    def arguments(self, window: int, n_windows: int, enough: int) -> tuple[Any, ...]:
        """Return RECORD_PARAMETERS of records.cuh."""
        return (
            self.ends, self.places, np.int64(self.places.size), self.words, np.int64(self.words.size),
            np.uint32(window), np.uint32(n_windows), np.int64(enough),
        )  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """Select the items of one search, which writes the records whose hash is ``window`` modulo ``n_windows``."""

    start: int
    stop: int
    window: int = 0
    n_windows: int = 1

    def split(self, n: int, costs: NDArray[np.int64]) -> list[_Part]:
        """Cut this part into about ``n`` parts; ``costs`` are the costs of all items."""
        if self.stop - self.start == 1:
            return [
                _Part(self.start, self.stop, self.window + each * self.n_windows, n * self.n_windows)
                for each in range(n)
            ]
        ends = np.cumsum(costs[self.start : self.stop], dtype=np.float64)
        inner = self.start + np.searchsorted(ends, ends[-1] * np.arange(1, n) / n) + 1
        cuts = np.unique(np.concatenate(([self.start], inner[inner < self.stop], [self.stop]))).tolist()
        if len(cuts) == 2:
            cuts.insert(1, self.start + 1)
        return [_Part(a, b) for a, b in pairwise(cuts)]


class TreeListing(Prepared):
    """Base of the prepared listings on GPUs. Its items are the items of ``searched``, the graph to search.

    ``hashes`` are the hashes of the vertices of each column, by position, uint64 on the device.
    """

    searched: Any
    hashes: Any

    @property
    def work(self) -> NDArray[np.int64]:
        work: NDArray[np.int64] = self.searched.work
        return work


class TreeLister(Engine):
    """Base of the listers on GPUs; ``engine`` is the counting engine, whose kernel is compiled to list."""

    name: EngineName = "gpu"
    max_words = 1 << 30
    """Words of the buffer, 4 GiB."""
    chunk_values = 1 << 22
    """Approximate number of vertices of the rows made at a time."""
    has_checksum = True
    """Whether partials have the sum of the hashes of all motifs."""

    def __init__(self, listing: Listing, engine: TreeEngine) -> None:
        self.listing, self.engine = listing, engine

    @property
    def device(self) -> Device:
        return self.engine.device

    def _groups(self, prepared: Any, start: int, stop: int) -> Iterator[tuple[Any, tuple[int, int]]]:
        """Yield the device data that the search of some items needs, with the first item and the end."""
        yield None, (start, stop)

    def _search(
        self,
        prepared: Any,
        group: Any,
        span: tuple[int, int],
        cut: StopCheck,
        record_arguments: tuple[Any, ...],
    ) -> int:
        """Search items, or the first of them if cut. Return the end of the searched items."""
        engine: Any = self.engine
        end: int = engine.leave_records(prepared.searched, span, cut, record_arguments)
        return end

    @abstractmethod
    def _keys_of(self, prepared: Any) -> tuple[int, Any]:
        """Return the number of words before the ids of a record, and the positions of the ids, int32 on the device."""

    @abstractmethod
    def _expand(
        self, prepared: Any, group: Any, records: Records, most_rows: int | None
    ) -> Iterator[Sequence[RaggedOnDevice]]:
        """Yield the rows of records, all or the first ``most_rows``, in chunks: columns of unsorted positions."""

    def _list_closed(self, prepared: Any) -> tuple[Iterable[Sequence[RowColumn]], int]:
        """Return the rows that need no search, which belong to the first item, and the sum of their hashes."""
        return (), 0

    def _row_sizes(self, prepared: Any) -> Sequence[int | None]:
        """Return the number of vertices that each column has in a row. None for any number."""
        return [None] * len(prepared.hashes)

    def run(
        self,
        prepared: Any,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
        sink: RowSink = drop_rows,
    ) -> Partial:
        """List exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``sink`` gets every row once, in blocks, from any thread; an exception in it ends the run. ``bounds`` has no
        effect: the run can be cut at any item.
        """
        require_interval(start, stop, prepared.n_items)
        self.engine.block_words = np.zeros(0, dtype=np.uint64)
        end, outlet = start, Outlet(sink, self.listing.limit)
        run = _Run(self, prepared, outlet, lambda: cut())
        ends = np.cumsum(self.work(prepared)[start:stop], dtype=np.float64)
        width = float(ends[-1]) / _FIRST_PARTS if start < stop else 0.0
        try:
            with self.device.guard():
                for group, (at, last) in self._groups(prepared, start, stop) if start < stop else ():
                    while at < last and not run.is_full and not (end > start and cut()):
                        done = ends[at - start - 1] if at > start else 0.0
                        wanted = start + 1 + int(np.searchsorted(ends, done + width))
                        part = _Part(at, min(last, max(wanted, at + 1)))
                        n_parts, at = run.list_items(group, part)
                        end, width = at, 2 * width if n_parts == 1 else width / n_parts
                        if at < part.stop:
                            break
                    if at < last:
                        break
            if start == 0 < end:
                run.pass_closed_on()
        finally:
            run.writers.close()
        return outlet.answer(stop - start, Partial(end - start, 0, run.work, checksum=run.checksum))


class _Run:
    """Run a lister once: holds its buffer and the results so far."""

    def __init__(self, lister: TreeLister, prepared: Any, outlet: Outlet, cut: StopCheck) -> None:
        self.lister, self.prepared, self.outlet, self._cut = lister, prepared, outlet, cut
        self.writers = RowWriters(outlet.take)
        self.work = self.rows = self._closed = 0
        device = lister.device
        self._hashes = device.xp.zeros(1, dtype=np.uint64)  # sum of the hashes of the rows made
        room = int(_ROOM_FRACTION * device.free_bytes()) // 4
        self._n_words = max(1, min(lister.max_words, room))

    def list_items(self, group: Any, part: _Part) -> tuple[int, int]:
        """List the items of a part, repeatedly in smaller parts if they find too much.

        Return the number of parts and the end of the listed items, which is before the end of the part if the run was
        cut.
        """
        xp, costs = self.lister.device.xp, self.lister.work(self.prepared)
        n_records = max(1, self._n_words // _WORDS_PER_RECORD)
        n_parts, end, waiting = 0, part.stop, [part]
        while waiting:
            part = waiting.pop()
            buffer = RecordBuffer(
                xp.zeros(2, dtype=np.uint64),
                xp.full(n_records, np.uint64(2**64 - 1), dtype=np.uint64),
                xp.empty(self._n_words, dtype=np.int32),
            )
            left = self._rows_left()
            enough = 2**62 if left is None else left
            arguments = buffer.arguments(part.window, part.n_windows, enough)
            cut = self._cut if part.n_windows == 1 else never_cut
            stop = self.lister._search(self.prepared, group, (part.start, part.stop), cut, arguments)
            if stop < part.stop:
                part, end = replace(part, stop=stop), stop
                waiting.clear()
            self.work += self.lister.engine._work_done()
            found, found_words = self.lister.device.to_host(buffer.ends).tolist()
            fits = found <= n_records and found_words <= self._n_words
            places = buffer.places[: min(found, n_records)]
            if not fits:
                places = places[places != np.uint64(2**64 - 1)]
            if fits or (left is not None and places.size >= left):
                n_parts += 1
                self._pass_on(group, Records(places, buffer.words))
                if self.is_full:
                    break
                continue
            n = int(_SPARE * max(found / n_records, found_words / self._n_words)) + 1
            if n * part.n_windows > _MOST_PARTS:
                raise CapacityError(
                    f"{found} motifs, or leaves of the search, were found in one work item; device memory holds "
                    f"{n_records}: use a device with more memory, --limit, or --engine cpu"
                )
            waiting += reversed(part.split(max(2, n), costs))
        return n_parts, end

    @property
    def checksum(self) -> int:
        """Return the sum of the hashes of the rows, each part modulo 2^64."""
        return self._closed + int(self.lister.device.to_host(self._hashes)[0])

    @property
    def is_full(self) -> bool:
        return self._rows_left() == 0

    def pass_closed_on(self) -> None:
        """Pass on the wanted rows that need no search."""
        blocks, checksum = self.lister._list_closed(self.prepared)
        self._closed += checksum
        if not self.is_full:
            for block in blocks:
                self.writers.write(block)

    def _rows_left(self) -> int | None:
        limit = self.lister.listing.limit
        return None if limit is None else limit - self.rows

    def _pass_on(self, group: Any, records: Records) -> None:
        if not records.places.size:
            return
        lister, prepared, device = self.lister, self.prepared, self.lister.device
        ordered = self._order(records)
        for columns in lister._expand(prepared, group, ordered, self._rows_left()):
            n_rows = columns[0].host_offsets.size - 1
            row_hashes = device.xp.zeros(n_rows, dtype=np.uint64)
            rows = [
                _sort_rows(device, column, hashes, row_hashes, size)
                for column, hashes, size in zip(columns, prepared.hashes, lister._row_sizes(prepared), strict=True)
            ]
            if lister.has_checksum:
                self._hashes += mix(row_hashes).sum(dtype=np.uint64)
            self.rows += n_rows
            self.writers.write(rows)

    def _order(self, records: Records) -> Records:
        """Return the records by their keys; see records.cu."""
        device, n = self.lister.device, int(records.places.size)
        xp, keys = device.xp, device.xp.empty((3, n), dtype=np.uint64)
        n_head, positions = self.lister._keys_of(self.prepared)
        bits = max(1, int(positions.size).bit_length())
        launch_over(
            device, device.load("records", {}), "record_keys", 32 * n, records.places, np.int64(n), records.words,
            np.int32(n_head), positions, np.int32(bits), keys,
        )  # fmt: skip
        order = xp.argsort(keys[2], kind="stable")
        for key in (keys[1], keys[0]):
            order = order[xp.argsort(key[order], kind="stable")]
        return Records(records.places[order], records.words)


def _sort_rows(device: Device, column: RaggedOnDevice, hashes: Any, row_hashes: Any, size: int | None) -> RowColumn:
    """Return a column on the host, its rows sorted. Add the hashes of their vertices to the hashes of the rows."""
    ends = column.host_offsets
    n_rows, made = ends.size - 1, device.xp.empty_like(column.values)
    launch_over(
        device, device.load("records", {}), "sort_rows", 32 * n_rows, column.offsets, np.int64(n_rows), column.values,
        hashes, made, row_hashes,
    )  # fmt: skip
    rows = device.to_host(made).astype(np.int32, copy=False)
    if column.longest > LONG_ROW:
        for row in np.flatnonzero(np.diff(ends) > LONG_ROW).tolist():
            rows[ends[row] : ends[row + 1]].sort()
    return (ends, rows) if size is None else rows.reshape(n_rows, size)
