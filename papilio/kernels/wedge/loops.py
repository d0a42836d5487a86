"""The loops of the CPU wedge engine: serial, without the interpreter lock, one call per chunk of items.

Input: the rows of :class:`~papilio.kernels.rows.index.WedgeIndex`. A start w counts the wedges that end in u in the
counter of u. Each increment reads the old value; the values 0 + 1 + ... + (c - 1) sum to C(c, 2), the butterflies of
the pair, so the total needs no second sweep. A second scan of the same prefixes reads the final c: each wedge lies in c
- 1 butterflies.

Signed rows hold entries ``2 * rank + (1 for a negative edge)``. A pair of ends then has a counter for each kind of
common neighbour, and a wedge increments one of them; a signed count therefore costs as much as an unsigned one over
more ends:

* two kinds: ``entry of the end ^ sign of the start's edge`` is 2 * rank for neighbours on which the ends agree, else 2
* rank + 1;
* four kinds: ``2 * entry of the end + sign of the start's edge`` encodes both signs.

Without signs there is one kind, entries are ranks, and every sign is 0.

State of a thread: two counter tables, zero between starts. ``narrow`` (uint8) serves starts of degree up to 255,
``wide`` (uint16 or uint32, by the largest degree of the graph) the others. All counters of a pair together are at most
d(w), so none can wrap.

Exactness: a prefix holds fewer than 2^31 entries and meets old values below 2^31, so it adds less than 2^62. ``sums``
is a pair (low, high) that represents low + 2^63 * high: low is below 2^63 before each prefix and below 2^63 + 2^62
after it, and its top bit moves to high. The high word grows by one per 2^63 butterflies at most once per prefix, hence
stays below the number of prefixes. Entries of ``vertex`` vectors are bounded when the graph is prepared. A butterfly of
the edge (u, v) is given by its opposite edge, so a support is below the number of edges; a 4-cycle of a unipartite
graph also by the direction of that edge, which doubles the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Bools, Counters, EdgeIds, Ids, Index, Ints, Sums, compiled, inlined
from papilio.kernels.rows.index import ONE_KIND, Kinds, WedgeRows

NARROW_LIMIT = np.iinfo(np.uint8).max
"""Largest degree with counts that fit the narrow table."""

_LOW_BITS = np.uint64(2**63 - 1)
_CARRY_SHIFT = np.uint64(63)
_ONE, _TWO = np.uint64(1), np.uint64(2)
_POSITIVE = np.uint32(0)

_CLEAR_BYTES_PER_WEDGE = 16
"""Maximum bytes per wedge for which a span of the table is zeroed as a whole.

A vector store clears 32 bytes in the time the other method, a second walk over the prefixes, stores one counter.
"""


State = Any
"""Further arguments of a compiled function that is given to another one."""

Work = Callable[[Any, Any, Any, Any, State], None]
"""Compiled: rows, start row, counters, tables, state."""

Visit = Callable[[Any, Any, State], None]
"""Compiled: counters, place, state."""


class Tables(NamedTuple):
    """Count tables of one thread."""

    narrow: NDArray[np.uint8]
    """Counters of starts (or hubs) of degree up to 255, shape (kinds * ranks,); zero between starts."""
    wide: Counters
    """Counters of the other starts, of the same shape."""
    sums: Sums
    """Butterflies so far, as the pair (low, high) explained above."""
    own: Sums
    """Butterflies of one start, in the same form."""


def make_tables(n_counters: int, max_degree: int) -> Tables:
    """Return zeroed tables of ``n_counters`` counters for counts up to ``max_degree``."""
    wide_type = np.uint16 if max_degree < 2**16 else np.uint32
    sums, own = np.zeros((2, 2), np.uint64)
    return Tables(np.zeros(n_counters, np.uint8), np.zeros(n_counters, wide_type), sums, own)


def join_sums(sums: Sums) -> int:
    """Return the integer of a pair of :class:`Tables`."""
    return (int(sums[1]) << 63) + int(sums[0])


@compiled
def counter_of(end: np.uint32, sign: np.uint32, kinds: Kinds) -> np.uint64:
    """Return the counter of a wedge, by the entry of its end and the sign of the start's edge."""
    if len(kinds) == 1:
        return np.uint64(end)
    if len(kinds) == 2:
        return np.uint64(end ^ sign)
    return np.uint64(end) * _TWO + np.uint64(sign)


@compiled
def _increment(ends: Ids, begin: Index, stop: Index, sign: np.uint32, kinds: Kinds, counters: Counters) -> np.uint64:
    """Add one to the counter of each wedge; return the sum of the old values."""
    olds = np.uint64(0)
    for at in range(begin, stop):
        place = counter_of(ends[at], sign, kinds)
        old = counters[place]
        olds += np.uint64(old)
        counters[place] = old + 1
    return olds


@compiled
def _sum_counters(ends: Ids, begin: Index, stop: Index, sign: np.uint32, kinds: Kinds, counters: Counters) -> np.uint64:
    """Return the sum of (c - 1) over the wedges, whose counters c are at least 1."""
    total = np.uint64(0)
    for at in range(begin, stop):
        total += np.uint64(counters[counter_of(ends[at], sign, kinds)])
    return total - np.uint64(stop - begin)


@compiled
def take_pairs(count: np.uint64) -> np.uint64:
    """Return C(count, 2)."""
    return count * (count - _ONE) // _TWO if count else count


@compiled
def first_middle(rows: WedgeRows, row: Index) -> Index:
    """Return the row of middle 0 of a start."""
    return rows.n_u if row < rows.n_u else 0


@compiled
def open_middle(rows: WedgeRows, middles: Index, at: Index) -> tuple[Index, np.uint32]:
    """Return the row of the middle of an entry of a start, and the sign of that edge."""
    entry, signed = np.int64(rows.ids[at]), np.int64(len(rows.kinds) > 1)
    return middles + (entry >> signed), np.uint32(entry & signed)


@compiled
def is_span_cheaper(counters: Counters, top: Index, wedges: Index) -> bool:
    """Return whether clearing the first ``top`` counters is cheaper than walking the wedges again."""
    return bool(top * counters.itemsize <= wedges * _CLEAR_BYTES_PER_WEDGE)


@compiled
def add_to_sums(sums: Sums, amount: np.uint64) -> None:
    """Add an amount below 2^63 to the pair."""
    low = sums[0] + amount
    sums[1] += low >> _CARRY_SHIFT
    sums[0] = low & _LOW_BITS


@compiled
def scan_start(rows: WedgeRows, row: Index, counters: Counters, sums: Sums) -> tuple[Index, Index]:
    """Count the wedges of one start; return (end of the touched counters, number of wedges)."""
    middles, signed = first_middle(rows, row), np.int64(len(rows.kinds) > 1)
    top = np.int64(0)
    wedges = np.int64(0)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        length = np.int64(rows.prefix[at])
        if length:
            middle, sign = open_middle(rows, middles, at)
            begin = rows.offsets[middle]
            add_to_sums(sums, _increment(rows.ends, begin, begin + length, sign, rows.kinds, counters))
            wedges += length
            last = np.int64(rows.ends[begin + length - 1]) >> signed
            top = max(top, len(rows.kinds) * (last + 1))
    return top, wedges


@inlined
def for_each_start(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, work: Work, state: State
) -> None:
    """Call ``work(rows, row, counters, tables, state)`` for the items, with counters wide enough for the row."""
    for item in range(start, stop):
        row = items[item]
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            work(rows, row, tables.narrow, tables, state)
        else:
            work(rows, row, tables.wide, tables, state)


@inlined
def visit_ends(
    rows: WedgeRows, row: Index, counters: Counters, top: Index, wedges: Index, visit: Visit, state: State
) -> None:
    """Call ``visit(counters, place, state)`` for the counters of a start, and zero them, by the cheaper method.

    ``place`` is a counter, or with four kinds the first of an end's counters; these may be zero. ``top`` and ``wedges``
    are the results of :func:`scan_start`.
    """
    group = 4 if len(rows.kinds) == 4 else 1
    if is_span_cheaper(counters, top, wedges):
        for place in range(0, top, group):
            visit(counters, place, state)
        for place in range(top):
            counters[place] = 0
        return
    middles = first_middle(rows, row)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        middle, sign = open_middle(rows, middles, at)
        begin = rows.offsets[middle]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            touched = np.int64(counter_of(rows.ends[to], sign, rows.kinds)) & -group
            visit(counters, touched, state)
            for each in range(group):
                counters[touched + each] = 0


@compiled
def clear_start(rows: WedgeRows, row: Index, counters: Counters, top: Index, wedges: Index) -> None:
    """Zero every counter that the start has touched, by the cheaper method."""
    if is_span_cheaper(counters, top, wedges):
        for place in range(top):
            counters[place] = 0
        return
    middles = first_middle(rows, row)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        middle, sign = open_middle(rows, middles, at)
        begin = rows.offsets[middle]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            counters[counter_of(rows.ends[to], sign, rows.kinds)] = 0


@compiled
def _count_start(rows: WedgeRows, row: Index, counters: Counters, tables: Tables, state: None) -> None:
    top, wedges = scan_start(rows, row, counters, tables.sums)
    clear_start(rows, row, counters, top, wedges)


@compiled
def count_total(rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables) -> None:
    """Add the butterflies of ``items[start:stop]`` to the sums."""
    for_each_start(rows, items, start, stop, tables, _count_start, None)


@inlined
def _credit_end(counters: Counters, place: Index, state: tuple[Sums, Index, Index]) -> None:
    """Add C(c, 2) of a counter c to its end, a row from ``first_end`` on."""
    counts, first_end, signed = state
    if counters[place] > 1:
        counts[first_end + (place >> signed)] += take_pairs(np.uint64(counters[place]))


@compiled
def _vertices_of_start(rows: WedgeRows, row: Index, counters: Counters, tables: Tables, counts: Sums) -> None:
    middles, own = first_middle(rows, row), tables.own
    own[:] = 0
    top, wedges = scan_start(rows, row, counters, own)
    if own[0] == 0:
        clear_start(rows, row, counters, top, wedges)
        return
    counts[row] += own[0]
    add_to_sums(tables.sums, own[0])
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        length = np.int64(rows.prefix[at])
        if length:
            middle, sign = open_middle(rows, middles, at)
            begin = rows.offsets[middle]
            counts[middle] += _sum_counters(rows.ends, begin, begin + length, sign, rows.kinds, counters)
    first_end = rows.ends_at if row < rows.n_u else rows.n_u
    visit_ends(rows, row, counters, top, wedges, _credit_end, (counts, first_end, np.int64(len(rows.kinds) > 1)))


@compiled
def count_vertices(rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, counts: Sums) -> None:
    """Add the butterflies of ``items[start:stop]`` to the sums and to each of their vertices.

    ``counts`` (one entry per row) belongs to the calling thread. The butterflies of one start are among the butterflies
    of one vertex, below 2^63 by the check at preparation.
    """
    for_each_start(rows, items, start, stop, tables, _vertices_of_start, counts)


@compiled
def _edges_of_start(
    rows: WedgeRows, row: Index, counters: Counters, tables: Tables, state: tuple[EdgeIds, Sums]
) -> None:
    middles, (edge_ids, support) = first_middle(rows, row), state
    top, wedges = scan_start(rows, row, counters, tables.sums)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        length = np.int64(rows.prefix[at])
        if length:
            begin = rows.offsets[middles + np.int64(rows.ids[at])]
            support[edge_ids[at]] += _sum_counters(rows.ends, begin, begin + length, _POSITIVE, ONE_KIND, counters)
    clear_start(rows, row, counters, top, wedges)


@compiled
def count_start_edges(
    rows: WedgeRows, edge_ids: EdgeIds, items: Ints, start: Index, stop: Index, tables: Tables, support: Sums
) -> None:
    """Add the butterflies of ``items[start:stop]`` to the sums and to the edges (middle, start) of their wedges.

    The rows have no signs. The items are in one layer, so no other item writes the edge ids in the row of a start: all
    threads share ``support`` (one entry per edge id).
    """
    for_each_start(rows, items, start, stop, tables, _edges_of_start, (edge_ids, support))


class KeptStarts(NamedTuple):
    """The rows of one layer's middles, compacted to the current starts.

    Entry ``at`` of the rows is entry ``at - first`` here.
    """

    first: int
    """Offset of the layer's first row in the index."""
    kept: Ids
    """Ranks kept, from the place of each row on, shape (entries of the layer,)."""
    upto: Ids
    """Number kept among the entries of a row up to and including each one, of the same shape."""


@compiled
def keep_members(rows: WedgeRows, member: Bools, start: Index, stop: Index, starts: KeptStarts) -> None:
    """Fill ``starts`` for the middles of rows ``[start, stop)``; ``member[rank]`` marks the starts to keep."""
    for row in range(start, stop):
        begin = rows.offsets[row] - starts.first
        count = np.int64(0)
        for at in range(begin, rows.offsets[row + 1] - starts.first):
            rank = rows.ids[at + starts.first]
            if member[rank]:
                starts.kept[begin + count] = rank
                count += 1
            starts.upto[at] = count


@compiled
def _starts_behind(rows: WedgeRows, starts: KeptStarts, at: Index, middle: Index) -> tuple[Index, Index]:
    """Return the interval of ``starts.kept`` behind a hub in the row of ``middle``.

    ``at`` is the entry of the middle in the row of the hub. The hub is at ``prefix[at]`` in the row of the middle,
    since it precedes the middle and so do all entries before it.
    """
    begin = rows.offsets[middle] - starts.first
    last = rows.offsets[middle + 1] - starts.first - 1
    behind = np.int64(starts.upto[begin + np.int64(rows.prefix[at])])
    return begin + behind, begin + np.int64(starts.upto[last])


@compiled
def _edges_of_hub(
    rows: WedgeRows,
    split: Ints,
    edge_ids: EdgeIds,
    starts: KeptStarts,
    row: Index,
    counters: Counters,
    support: Sums,
) -> None:
    """Process one hub of :func:`count_hub_edges`: count, read back and clear over the same lists."""
    middles = first_middle(rows, row)
    begin, end = rows.offsets[row] + split[row], rows.offsets[row + 1]
    bottom, top = np.int64(counters.size), np.int64(0)
    wedges = np.int64(0)
    for at in range(begin, end):
        low, high = _starts_behind(rows, starts, at, middles + np.int64(rows.ids[at]))
        if low < high:
            _increment(starts.kept, low, high, _POSITIVE, ONE_KIND, counters)
            wedges += high - low
            bottom = min(bottom, np.int64(starts.kept[low]))
            top = max(top, np.int64(starts.kept[high - 1]) + 1)
    for at in range(begin, end):
        low, high = _starts_behind(rows, starts, at, middles + np.int64(rows.ids[at]))
        support[edge_ids[at]] += _sum_counters(starts.kept, low, high, _POSITIVE, ONE_KIND, counters)
    if is_span_cheaper(counters, top - bottom, wedges):
        counters[bottom : max(top, bottom)] = 0
        return
    for at in range(begin, end):
        low, high = _starts_behind(rows, starts, at, middles + np.int64(rows.ids[at]))
        for to in range(low, high):
            counters[starts.kept[to]] = 0


@compiled
def count_hub_edges(
    rows: WedgeRows,
    split: Ints,
    edge_ids: EdgeIds,
    starts: KeptStarts,
    begin: Index,
    end: Index,
    tables: Tables,
    support: Sums,
) -> None:
    """Add to the edges (hub, middle) of the wedges from the hubs ``[begin, end)`` to the current starts.

    The rows are the rows of the starts' layer. The roles of the ends are swapped: for a hub u and each middle v that u
    precedes, the starts are the kept entries behind u in the row of v. The counts c(u, w) are the same, and no other
    hub writes the edges of this one.
    """
    for row in range(begin, end):
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _edges_of_hub(rows, split, edge_ids, starts, row, tables.narrow, support)
        else:
            _edges_of_hub(rows, split, edge_ids, starts, row, tables.wide, support)
