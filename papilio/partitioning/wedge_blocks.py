"""Blocks of starts and ends of wedges, read from the rows of a graph on disk."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from papilio.kernels.offsets import offsets_of
from papilio.partitioning import Ids, Ints
from papilio.partitioning.rows import LayerRows, RowPair, span_rows
from papilio.partitioning.wedge_loops import (
    NO_END,
    Slab,
    count_entries,
    fill_ends,
    fill_starts,
    find_first_ends,
    gather_ends,
    mark_middles,
    number_marked,
    renumber,
)
from papilio.parts import EndBlock, StartBlock

_NO_EDGES = np.empty(0, np.int64)

_GAP_ENTRIES = 16_384
"""Shorter gaps of unwanted middle rows are read rather than skipped: 64 KiB, about the cost of one more read."""


def read_slab(rows: LayerRows, first: int, stop: int, *, with_edges: bool = False) -> Slab:
    """Read the rows [first, stop) of a layer."""
    edges = rows.read_edges(first, stop) if with_edges else _NO_EDGES
    offsets = rows.indptr[first : stop + 1] - rows.indptr[first]
    return Slab(first, offsets, rows.read(first, stop), edges, rows.split[first:stop])


@dataclass(frozen=True, eq=False)
class LayerSurvey:
    """The rows of a graph seen from the layer of the starts, with the results of one pass over them."""

    rows: RowPair
    first_end: Ids  # (n_other,): first end of each middle, or ``NO_END``
    useful: Ids  # (n_rows,): number of middles of each start that have an end before it
    starts: Ids  # (n_starts,): ranks of the starts that can have butterflies: with at least two such middles

    @property
    def n_middles(self) -> int:
        """Number of middles that have an end."""
        return int(np.count_nonzero(self.first_end != NO_END))


def survey_layer(rows: RowPair, slab_entries: int) -> LayerSurvey:
    """Find the starts, their useful middles, and the first end of every middle; one pass over the rows."""
    first_end = np.full(rows.other.n_rows, NO_END, np.int32)
    useful = np.zeros(rows.own.n_rows, np.int32)
    for first, stop in span_rows(rows.own.indptr, 0, rows.own.n_rows, slab_entries):
        slab = read_slab(rows.own, first, stop)
        find_first_ends(slab, first_end, useful[first:stop])
    return LayerSurvey(rows, first_end, useful, np.flatnonzero(useful >= 2).astype(np.int32))


def build_starts(survey: LayerSurvey, starts: Ids, slab_entries: int, *, with_edges: bool) -> StartBlock:
    """Read the block of some starts: ascending ranks, each in ``survey.starts``.

    At most ``slab_entries`` are read at a time, unless a row is longer.
    """
    rows = survey.rows.own
    indptr = offsets_of(survey.useful[starts].astype(np.int64))
    middles = np.empty(int(indptr[-1]), np.int32)
    edges = np.empty(middles.size if with_edges else 0, np.int64)
    for first, stop in _runs(starts, rows.indptr, slab_entries):
        slab = read_slab(rows, first, stop, with_edges=with_edges)
        low, high = np.searchsorted(starts, (first, stop))
        places = starts[low:high].astype(np.int64) - first
        fill_starts(slab, places, starts[low:high], survey.first_end, indptr[low : high + 1], middles, edges)
    return StartBlock(rows.layer, starts, rows.order[starts], rows.work[starts], indptr, middles, edges)


def _runs(wanted: Ids, indptr: Ints, slab_entries: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that contain all wanted ones, without long stretches of others."""
    if not wanted.size:
        return
    gaps = indptr[wanted[1:]] - indptr[wanted[:-1].astype(np.int64) + 1]
    breaks = np.flatnonzero(gaps > _GAP_ENTRIES) + 1
    for low, high in zip([0, *breaks.tolist()], [*breaks.tolist(), wanted.size], strict=True):
        yield from span_rows(indptr, int(wanted[low]), int(wanted[high - 1]) + 1, slab_entries)


def build_ends(rows: RowPair, first: int, stop: int, slab_entries: int, *, with_edges: bool) -> EndBlock:
    """Read the block of the ends of ranks [first, stop); their rows are read twice if they are many."""
    slabs = list(span_rows(rows.own.indptr, first, stop, slab_entries))
    kept = [read_slab(rows.own, *slabs[0], with_edges=with_edges)] if len(slabs) == 1 else None

    def each(edges: bool) -> Iterator[Slab]:
        return iter(kept) if kept else (read_slab(rows.own, *slab, with_edges=edges) for slab in slabs)

    rank = (first + np.flatnonzero(rows.own.end_entries(first, stop))).astype(np.int32)
    places = np.full(rows.other.n_rows, -1, np.int32)
    for slab in each(False):
        mark_middles(slab, places)
    middles = number_marked(places)
    indptr = np.zeros(middles.size + 1, np.int64)
    for slab in each(False):
        count_entries(slab, places, indptr)
    np.cumsum(indptr, out=indptr)
    ends = np.empty(int(indptr[-1]), np.int32)
    edges = np.empty(ends.size if with_edges else 0, np.int64)
    cursor = indptr[:-1].copy()
    place = 0
    for slab in each(with_edges):
        place = fill_ends(place, slab, places, cursor, ends, edges)
    return _end_block(rows, rank, middles, indptr, ends, edges)


def gather_end_block(rows: RowPair, first: int, stop: int, reader: EndReader) -> EndBlock:
    """Read the block of the ends of ranks [first, stop) as :func:`build_ends` does, from the rows of all middles.

    Reads more, but in order and in all threads of the reader: for blocks that are a large share of a layer.
    """
    middles = np.flatnonzero(rows.other.split).astype(np.int32)
    lengths, ends, edges = reader.gather(rows, middles, first, stop)
    kept = np.flatnonzero(lengths)
    has_entries = rows.own.end_entries(first, stop) > 0
    rank = (first + np.flatnonzero(has_entries)).astype(np.int32)
    ends -= np.int32(first)
    renumber(ends, (np.cumsum(has_entries) - 1).astype(np.int32))
    return _end_block(rows, rank, middles[kept], offsets_of(lengths[kept]), ends, edges)


def build_closure(rows: RowPair, starts: StartBlock, reader: EndReader) -> EndBlock:
    """Read the block of all ends that precede the last of some starts and are adjacent to any of their middles."""
    middles = distinct_ranks(starts.middles, rows.other.n_rows)[0]
    lengths, ends, edges = reader.gather(rows, middles, 0, int(starts.rank[-1]))
    rank, number = distinct_ranks(ends, rows.own.n_rows)
    renumber(ends, number)
    return _end_block(rows, rank, middles, offsets_of(lengths), ends, edges)


def _end_block(rows: RowPair, rank: Ids, middles: Ids, indptr: Ints, ends: Ids, edges: Ints) -> EndBlock:
    ids, middle_ids = rows.own.order[rank], rows.other.order[middles]
    return EndBlock(rows.own.layer, rank, ids, middles, middle_ids, indptr, ends, edges)


@dataclass(frozen=True)
class EndReader:
    """Reads ends from the rows of their middles."""

    slab_entries: int  # maximum number of entries read at a time, unless a row is longer
    with_edges: bool  # whether to keep edge ids
    threads: int = 1

    def gather(self, rows: RowPair, middles: Ids, low: int, high: int) -> tuple[Ints, Ids, Ints]:
        """Return the number of ends of ranks [low, high) of each middle, these ends, and their edge ids."""
        lengths = np.zeros(middles.size, np.int64)

        def read(run: tuple[int, int]) -> tuple[Ids, Ints]:
            first, stop = run
            slab = read_slab(rows.other, first, stop, with_edges=self.with_edges)
            begin, end = np.searchsorted(middles, run)
            places = middles[begin:end].astype(np.int64) - first
            kept, kept_edges = np.empty(slab.columns.size, np.int32), np.empty(slab.edges.size, np.int64)
            n_kept = gather_ends(slab, places, low, high, lengths[begin:end], kept, kept_edges)
            return kept[:n_kept].copy(), kept_edges[: n_kept if self.with_edges else 0].copy()

        runs = _runs(middles, rows.other.indptr, self.slab_entries)
        if self.threads == 1:
            pieces = [read(run) for run in runs]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                pieces = list(pool.map(read, runs))
        ends = np.concatenate([np.empty(0, np.int32), *(piece[0] for piece in pieces)])
        return lengths, ends, np.concatenate([_NO_EDGES, *(piece[1] for piece in pieces)])


def distinct_ranks(ranks: Ids, n_ranks: int) -> tuple[Ids, Ids]:
    """Return the distinct ranks, ascending, and the place of each among them (-1 for all other ranks)."""
    places = np.full(n_ranks, -1, np.int32)
    places[ranks] = 0
    return number_marked(places), places
