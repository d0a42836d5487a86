"""Join the blocks of a part into the form that the wedge kernels scan; edges of a part.

Rows are the starts in the order of their block, then, after an unused row, the middles. Ends stay as the block lists
them: an end is a place in that list, and the ends that precede a start come first. The ends of the counted wedges of a
start and a middle are therefore a prefix of the middle's row, found by binary search. No edge is sorted or copied: a
part costs two numbers of four bytes for every edge of a start.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Counters, Ids, Index, Ints, Sums, compiled, fetch_add
from papilio.kernels.offsets import lower_bound
from papilio.kernels.rows.index import ONE_KIND, WedgeRows, order_falling
from papilio.kernels.threads import ChunkRunner
from papilio.kernels.wedge.loops import Tables, add_to_sums, clear_start, for_each_start, scan_start
from papilio.parts import WedgePart

_CHUNKS_PER_THREAD = 16
_SERIAL_ENTRIES = 1 << 16
"""Below this many entries (about a millisecond) threads cost more than they gain."""

_BATCH_ENTRIES = 512
"""Entries with middles looked up together: their two numbers stay in the first-level cache."""

_VECTOR_BYTES = 8
"""Memory per entry that the vectors of additional threads may take."""

Ranks = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class WedgePartIndex:
    """A part in the form that the wedge engine scans. Arrays are C-contiguous, on the host."""

    layer: str  # Layer of the starts and ends; ``n`` in a unipartite graph, for the middles, too
    # Sizes
    n_starts: int
    n_middles: int
    n_ends: int
    # shape (n_starts + n_middles + 2,): begins of the rows of starts in ``ids`` and ``prefix`` and their end, then
    # begins and end of the middles in ``ends``
    offsets: NDArray[np.int64]
    # shape (root_entries,): middle of each entry of a start, as its place in the block of ends
    ids: NDArray[np.uint32]
    # shape (root_entries,): number of counted wedges with this start and middle; 0 for all middles of a start that
    # shares fewer than two of them with ends
    prefix: NDArray[np.uint32]
    ends: NDArray[np.uint32]  # shape (entries,): ends of each middle, the array of the block
    items: NDArray[np.int64]  # shape (n_starts,): starts by descending work in the whole graph, ties by rank
    costs: NDArray[np.int64]  # shape (n_starts,): number of counted wedges of each item
    # Entries of the longest row of a start, and of a middle
    max_degree: int
    widest_middle: int

    @property
    def rows(self) -> WedgeRows:
        middles = self.n_starts + 1
        ends_at = middles + self.n_middles + 1
        return WedgeRows(middles, self.offsets, self.ids, self.prefix, self.ends, ends_at, ONE_KIND)

    @property
    def n_rows(self) -> int:
        """Return the length of a count vector: starts, middles and ends, with an unused entry between each two."""
        return self.rows.ends_at + self.n_ends

    @property
    def n_counters(self) -> int:
        return self.n_ends

    @property
    def most_vectors(self) -> int:
        """Return the number of count vectors, one per thread, that fit: one, and more within 8 bytes per entry."""
        return 1 + _VECTOR_BYTES * (self.ids.size + self.ends.size) // (8 * self.n_rows)

    def vertex_vectors(self, counts: NDArray[np.uint64]) -> dict[str, NDArray[np.uint64]]:
        """Return counts per row, shape (n_rows,), as the vectors of a partial."""
        rows = self.rows
        own = np.concatenate((counts[: self.n_starts], counts[rows.ends_at :]))
        other = counts[rows.n_u : rows.n_u + self.n_middles].copy()
        if self.layer == "n":
            return {"n": np.concatenate((own, other))}
        return {"u": own, "v": other} if self.layer == "u" else {"u": other, "v": own}


class _Blocks(NamedTuple):
    """The arrays of both joined blocks, and the lookup table of middles."""

    start_rank: Ranks
    start_indptr: Ints
    middles: Ranks
    end_rank: Ranks
    middle_rank: Ranks
    end_indptr: Ints
    ends: Ids
    shift: int
    first: Ranks
    """First middle with a rank of ``base + (b << shift)`` or more, for each b, then the number of middles.

    ``base`` is the rank of the first middle.
    """


@compiled
def _fill_first(middle_rank: Ranks, shift: int, first: Ranks) -> None:
    """Fill the table of :class:`_Blocks`; there is at least one middle."""
    at = np.int64(0)
    for bucket in range(first.size):
        bound = np.int64(middle_rank[0]) + (np.int64(bucket) << shift)
        while at < middle_rank.size and middle_rank[at] < bound:
            at += 1
        first[bucket] = at


@compiled
def _find_middles(blocks: _Blocks, begin: Index, stop: Index, ids: Ids, prefix: Ids) -> None:
    """Write, for the entries ``[begin, stop)``, the place of the middle and its number of ends, or 0 and 0.

    Each loop does one kind of access, so that the misses of neighbouring entries overlap.
    """
    lowest, last = np.int64(blocks.middle_rank[0]), np.int64(blocks.middle_rank[-1])
    direct = blocks.shift == 0
    for at in range(begin, stop):
        rank = np.int64(blocks.middles[at])
        inside = (rank >= lowest) & (rank <= last)
        bucket = ((rank if inside else lowest) - lowest) >> blocks.shift
        low, high = np.int64(blocks.first[bucket]), np.int64(blocks.first[bucket + 1])
        if not direct:
            low = np.int64(lower_bound(blocks.middle_rank, low, high, rank))
            inside &= low < high and np.int64(blocks.middle_rank[low]) == rank
        else:
            inside &= low < high
        ids[at] = low if inside else 0
        prefix[at] = inside
    for at in range(begin, stop):
        middle = ids[at]
        prefix[at] *= np.uint32(blocks.end_indptr[middle + 1] - blocks.end_indptr[middle])


@compiled
def _count_before(ends: Ids, begin: Index, length: Index, bound: Index) -> Index:
    """Return the number of ``ends[begin : begin + length]``, ascending, at least one, that are below ``bound``."""
    at, left = begin, length
    while left > 1:
        half = left >> 1
        at += half if np.int64(ends[at + half - 1]) < bound else 0
        left -= half
    return at - begin + (np.int64(ends[at]) < bound)


@compiled
def _join_starts(blocks: _Blocks, begin: Index, stop: Index, ids: Ids, prefix: Ids, wedges: Ints) -> None:
    """Fill ``ids``, ``prefix`` and ``wedges`` for the starts ``[begin, stop)``."""
    n_ends = blocks.end_rank.size
    preceding = np.int64(lower_bound(blocks.end_rank, 0, n_ends, np.int64(blocks.start_rank[begin])))
    found_upto = np.int64(blocks.start_indptr[begin])
    for start in range(begin, stop):
        first, last = blocks.start_indptr[start], blocks.start_indptr[start + 1]
        if last > found_upto:
            upto = min(max(last, found_upto + _BATCH_ENTRIES), blocks.start_indptr[stop])
            _find_middles(blocks, found_upto, upto, ids, prefix)
            found_upto = upto
        while preceding < n_ends and blocks.end_rank[preceding] < blocks.start_rank[start]:
            preceding += 1
        joined, total = np.int64(0), np.int64(0)
        for at in range(first, last):
            length = np.int64(prefix[at])
            if length > 0 and preceding < n_ends:
                length = np.int64(_count_before(blocks.ends, blocks.end_indptr[np.int64(ids[at])], length, preceding))
                prefix[at] = length
            total += length
            joined += length > 0
        if joined < 2 and total > 0:
            prefix[first:last] = 0
            total = np.int64(0)
        wedges[start] = total


@compiled
def _longest_row(indptr: Ints) -> Index:
    longest = np.int64(0)
    for row in range(indptr.size - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    return longest


def _table_of_middles(middle_rank: Ranks) -> tuple[int, Ranks]:
    """Return ``shift`` and ``first`` of :class:`_Blocks`: at most twice as many entries as middles, plus one.

    With ``shift`` 0, if at least every second rank is a middle, the table holds the answers themselves.
    """
    if middle_rank.size == 0:
        return 0, np.zeros(0, np.int32)
    span = int(middle_rank[-1]) - int(middle_rank[0]) + 1
    shift = 0
    while ((span - 1) >> shift) + 1 > 2 * middle_rank.size:
        shift += 1
    first = np.empty(((span - 1) >> shift) + 2, np.int32)
    _fill_first(middle_rank, shift, first)
    return shift, first


def index_wedge_part(part: WedgePart, threads: int, layer: str | None = None) -> WedgePartIndex:
    """Find the middles and prefixes of every start; O(root_entries log(ends of a middle)), in ``threads`` threads.

    ``layer`` is that of the index, by default that of the part.
    """
    starts, ends = part.starts, part.ends
    n_starts, n_middles, n_ends = starts.rank.size, ends.middle_rank.size, ends.rank.size
    ids, prefix = np.empty(starts.middles.size, np.uint32), np.empty(starts.middles.size, np.uint32)
    wedges = np.empty(n_starts, np.int64)
    end_places = ends.ends.view(np.uint32)
    if n_middles and n_starts:
        blocks = _Blocks(
            starts.rank,
            starts.indptr,
            starts.middles,
            ends.rank,
            ends.middle_rank,
            ends.indptr,
            end_places,
            *_table_of_middles(ends.middle_rank),
        )
        n_chunks = 1 if ids.size < _SERIAL_ENTRIES else threads * _CHUNKS_PER_THREAD
        targets = np.arange(n_chunks + 1) * (ids.size // n_chunks)
        cuts = np.unique(np.searchsorted(starts.indptr[:-1], targets[1:-1], side="left"))
        bounds = [0, *(int(cut) for cut in cuts if 0 < cut < n_starts), n_starts]
        ChunkRunner(lambda: None, threads).run(
            list(pairwise(bounds)),
            lambda _, begin, stop: _join_starts(blocks, begin, stop, ids, prefix, wedges),
        )
    else:
        for array in (ids, prefix, wedges):
            array.fill(0)
    items = order_falling(starts.work)
    return WedgePartIndex(
        layer=layer or part.layer,
        n_starts=n_starts,
        n_middles=n_middles,
        n_ends=n_ends,
        offsets=np.concatenate((starts.indptr, ends.indptr)),
        ids=ids,
        prefix=prefix,
        ends=end_places,
        items=items,
        costs=wedges[items],
        max_degree=int(_longest_row(starts.indptr)),
        widest_middle=int(_longest_row(ends.indptr)),
    )


@compiled
def _part_edges_of_start(
    rows: WedgeRows, row: Index, counters: Counters, tables: Tables, state: tuple[Sums, Sums]
) -> None:
    own, sums, (of_starts, of_ends) = tables.own, tables.sums, state
    own[:] = 0
    top, wedges = scan_start(rows, row, counters, own)
    if own[0] > 0 or own[1] > 0:
        sums[1] += own[1]
        add_to_sums(sums, own[0])
        for at in range(rows.offsets[row], rows.offsets[row + 1]):
            begin = rows.offsets[rows.n_u + np.int64(rows.ids[at])]
            given = np.uint64(0)
            for to in range(begin, begin + np.int64(rows.prefix[at])):
                others = np.uint64(counters[rows.ends[to]]) - np.uint64(1)
                if others:
                    fetch_add(of_ends, to, others)
                    given += others
            of_starts[at] += given
    clear_start(rows, row, counters, top, wedges)


@compiled
def count_part_edges(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, of_starts: Sums, of_ends: Sums
) -> None:
    """Add the butterflies of ``items[start:stop]`` to the sums and to both edges of each of their wedges.

    All threads share ``of_starts`` (per entry of ``rows.ids``) and ``of_ends`` (per entry of ``rows.ends``): no other
    item writes the entries of a start, and additions to ends are atomic. Most wedges are alone between their ends, and
    write nothing.
    """
    for_each_start(rows, items, start, stop, tables, _part_edges_of_start, (of_starts, of_ends))
