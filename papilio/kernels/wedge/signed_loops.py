"""The loops of the CPU engine of signed motifs: serial, without the interpreter lock, one call per chunk of items.

Input: the rows of :func:`index_signed`, in which each entry is ``2 * rank + (1 for a negative edge)``. A pair of ends
has one counter for each kind of common neighbour, and a wedge increments one of them, so that a signed count costs what
a count without signs over more ends would:

* two kinds: ``entry of the end ^ sign of the start's edge`` is 2 * rank for neighbours at which the ends agree, else
  2 * rank + 1;
* four kinds: ``2 * entry of the end + sign of the start's edge`` tells both signs.

State of a thread: the tables of :mod:`papilio.kernels.wedge.loops`, with as many counters for a rank, zero
between starts. Counters and sums are exact by what is said there: all counters of a pair together are at most the
degree of the start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Counters, Ids, Ints, Place, Sums, compiled
from papilio.kernels.wedge.graph import WedgeIndex, WedgeRows, index_wedges
from papilio.kernels.wedge.loops import CLEAR_BYTES_PER_WEDGE, NARROW_LIMIT, Tables, add_to_sums
from papilio.parts import Layer

__all__ = [
    "FOUR_KINDS",
    "TWO_KINDS",
    "count_census",
    "count_histogram",
    "count_signed_total",
    "count_signed_vertices",
    "index_signed",
]

TWO_KINDS, FOUR_KINDS = 2, 4
"""Counters of a pair of ends."""

_ONE, _TWO = np.uint64(1), np.uint64(2)


@compiled
def _add_signs(ids: Ids, edge_ids: Ids, sign: NDArray[np.int8]) -> None:
    """Turn ranks into entries of signed rows."""
    for at in range(ids.size):
        ids[at] = 2 * ids[at] + (sign[edge_ids[at]] < 0)


def index_signed(graph: BipartiteGraph, first_layer: Layer | None) -> WedgeIndex:
    """Return the index of :func:`index_wedges` with signs in its rows: ``ids`` are twice the ranks, plus 1 for ``-``.

    Parameters
    ----------
    graph : BipartiteGraph
        Signed.
    first_layer : {"u", "v"}, optional
        As for :func:`index_wedges`.
    """
    assert graph.sign is not None
    index = index_wedges(graph, with_edge_ids=True, first_layer=first_layer)
    _add_signs(index.ids, index.edge_ids, graph.sign)
    return replace(index, edge_ids=np.empty(0, index.edge_ids.dtype))


@compiled
def _place(end: np.uint32, sign: np.uint32, kinds: int) -> np.uint64:
    """Return the counter of a wedge, by the entry of its end and the sign of the start's edge."""
    if kinds == TWO_KINDS:
        return np.uint64(end ^ sign)
    return np.uint64(end) * _TWO + np.uint64(sign)


@compiled
def _increment(
    ends: Ids, begin: Place, stop: Place, sign: np.uint32, kinds: int, counters: Counters
) -> np.uint64:
    """Add one to the counter of each wedge; return the sum of the old values. Two kinds have a loop of their own."""
    olds = np.uint64(0)
    if kinds == TWO_KINDS:
        for at in range(begin, stop):
            agreeing = ends[at] ^ sign
            old = counters[agreeing]
            olds += np.uint64(old)
            counters[agreeing] = old + 1
        return olds
    for at in range(begin, stop):
        place = _place(ends[at], sign, kinds)
        old = counters[place]
        olds += np.uint64(old)
        counters[place] = old + 1
    return olds


@compiled
def _scan(rows: WedgeRows, row: Place, kinds: int, counters: Counters, sums: Sums) -> tuple[Place, Place]:
    """Count the wedges of one start; return (touched counters lie below this place, number of wedges)."""
    middles = rows.n_u if row < rows.n_u else 0
    top = np.int64(0)
    wedges = np.int64(0)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        length = np.int64(rows.prefix[at])
        if length:
            middle = rows.ids[at]
            begin = rows.offsets[middles + np.int64(middle >> 1)]
            sign = np.uint32(middle & 1)
            add_to_sums(sums, _increment(rows.ends, begin, begin + length, sign, kinds, counters))
            wedges += length
            top = max(top, kinds * (np.int64(rows.ends[begin + length - 1] >> 1) + 1))
    return top, wedges


@compiled
def _clear(rows: WedgeRows, row: Place, counters: Counters, top: Place, wedges: Place) -> None:
    """Zero every counter of two kinds that the start has touched, the cheaper way."""
    if top * counters.itemsize <= wedges * CLEAR_BYTES_PER_WEDGE:
        counters[:top] = 0
        return
    middles = rows.n_u if row < rows.n_u else 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        middle = rows.ids[at]
        begin = rows.offsets[middles + np.int64(middle >> 1)]
        sign = np.uint32(middle & 1)
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            counters[_place(rows.ends[to], sign, TWO_KINDS)] = 0


@compiled
def count_signed_total(rows: WedgeRows, items: Ints, start: Place, stop: Place, tables: Tables) -> None:
    """Add the balanced butterflies of ``items[start:stop]`` to the sums."""
    for item in range(start, stop):
        row = items[item]
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            top, wedges = _scan(rows, row, TWO_KINDS, tables.narrow, tables.sums)
            _clear(rows, row, tables.narrow, top, wedges)
        else:
            top, wedges = _scan(rows, row, TWO_KINDS, tables.wide, tables.sums)
            _clear(rows, row, tables.wide, top, wedges)


@compiled
def _take_pairs(count: np.uint64) -> np.uint64:
    """Return C(count, 2)."""
    return count * (count - _ONE) // _TWO if count else count


@compiled
def _vertices_of_start(rows: WedgeRows, row: Place, counters: Counters, sums: Sums, counts: Sums) -> None:
    """One start of :func:`count_signed_vertices`: count, give to middles, give to ends and clear."""
    first_end, middles = (rows.ends_at, rows.n_u) if row < rows.n_u else (rows.n_u, 0)
    own = np.zeros(2, np.uint64)
    top, wedges = _scan(rows, row, TWO_KINDS, counters, own)
    if own[0] == 0:
        _clear(rows, row, counters, top, wedges)
        return
    counts[row] += own[0]
    add_to_sums(sums, own[0])
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        length = np.int64(rows.prefix[at])
        if length:
            entry = rows.ids[at]
            middle = middles + np.int64(entry >> 1)
            sign = np.uint32(entry & 1)
            begin = rows.offsets[middle]
            of_middle = np.uint64(0)
            for to in range(begin, begin + length):
                of_middle += np.uint64(counters[_place(rows.ends[to], sign, TWO_KINDS)]) - _ONE
            counts[middle] += of_middle
    if top * counters.itemsize <= wedges * CLEAR_BYTES_PER_WEDGE:
        for place in range(top):
            counts[first_end + (place >> 1)] += _take_pairs(np.uint64(counters[place]))
        counters[:top] = 0
        return
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        entry = rows.ids[at]
        begin = rows.offsets[middles + np.int64(entry >> 1)]
        sign = np.uint32(entry & 1)
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            touched = _place(rows.ends[to], sign, TWO_KINDS)
            counts[first_end + np.int64(rows.ends[to] >> 1)] += _take_pairs(np.uint64(counters[touched]))
            counters[touched] = 0


@compiled
def count_signed_vertices(
    rows: WedgeRows, items: Ints, start: Place, stop: Place, tables: Tables, counts: Sums
) -> None:
    """Add the balanced butterflies of ``items[start:stop]`` to the sums and to each of their vertices.

    ``counts`` (one entry per row) belongs to the calling thread; it is bounded when the graph is prepared.
    """
    for item in range(start, stop):
        row = items[item]
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _vertices_of_start(rows, row, tables.narrow, tables.sums, counts)
        else:
            _vertices_of_start(rows, row, tables.wide, tables.sums, counts)


@compiled
def _histogram_of_start(rows: WedgeRows, row: Place, counters: Counters, sums: Sums, histogram: Sums) -> None:
    """One start of :func:`count_histogram`: count, take every counter of at least 2 once, and clear."""
    top, wedges = _scan(rows, row, TWO_KINDS, counters, sums)
    if top * counters.itemsize <= wedges * CLEAR_BYTES_PER_WEDGE:
        for place in range(top):
            if counters[place] > 1:
                histogram[counters[place]] += _ONE
        counters[:top] = 0
        return
    middles = rows.n_u if row < rows.n_u else 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        entry = rows.ids[at]
        begin = rows.offsets[middles + np.int64(entry >> 1)]
        sign = np.uint32(entry & 1)
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            touched = _place(rows.ends[to], sign, TWO_KINDS)
            if counters[touched] > 1:
                histogram[counters[touched]] += _ONE
            counters[touched] = 0


@compiled
def count_histogram(
    rows: WedgeRows, items: Ints, start: Place, stop: Place, tables: Tables, histogram: Sums
) -> None:
    """Count how often pairs of ``items[start:stop]`` agree, or do not agree, at exactly so many neighbours, 2 or more.

    ``histogram`` (one entry more than the largest degree) belongs to the calling thread.
    """
    for item in range(start, stop):
        row = items[item]
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _histogram_of_start(rows, row, tables.narrow, tables.sums, histogram)
        else:
            _histogram_of_start(rows, row, tables.wide, tables.sums, histogram)


@compiled
def _classify_end(counters: Counters, place: Place, own_side: bool, classes: Sums) -> None:
    """Add the butterflies of one pair to the sums of their classes, and zero its four counters.

    ``own_side`` says whether the pair is of the layer whose pairs make the class; see
    :mod:`papilio.kernels.wedge.signed_forms`.
    """
    a, y = np.uint64(counters[place]), np.uint64(counters[place + 1])
    x, b = np.uint64(counters[place + 2]), np.uint64(counters[place + 3])
    if a + b + x + y > _ONE:
        split, same = a * b, _take_pairs(x) + _take_pairs(y)
        add_to_sums(classes[0], _take_pairs(a))
        add_to_sums(classes[1], split if own_side else same)
        add_to_sums(classes[2], _take_pairs(b))
        add_to_sums(classes[3], (same if own_side else split) + x * y)
        add_to_sums(classes[4], a * (x + y))
        add_to_sums(classes[5], b * (x + y))
    counters[place : place + 4] = 0


@compiled
def _census_of_start(
    rows: WedgeRows, row: Place, own_side: bool, counters: Counters, sums: Sums, classes: Sums
) -> None:
    """One start of :func:`count_census`: count, classify every pair once, and clear."""
    top, wedges = _scan(rows, row, FOUR_KINDS, counters, sums)
    if top * counters.itemsize <= wedges * CLEAR_BYTES_PER_WEDGE:
        for place in range(0, top, FOUR_KINDS):
            _classify_end(counters, place, own_side, classes)
        return
    middles = rows.n_u if row < rows.n_u else 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        begin = rows.offsets[middles + np.int64(rows.ids[at] >> 1)]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            _classify_end(counters, FOUR_KINDS * np.int64(rows.ends[to] >> 1), own_side, classes)


@compiled
def count_census(
    rows: WedgeRows, items: Ints, start: Place, stop: Place, tables: Tables, classes: Sums, side: int
) -> None:
    """Add the butterflies of ``items[start:stop]`` to the sums of their classes.

    ``classes`` belongs to the calling thread: pairs (low, high), in the order of
    :data:`papilio.motifs.CENSUS_CLASSES`. ``side`` is the layer whose pairs make the class, 0 for U, 1 for V.
    """
    for item in range(start, stop):
        row = items[item]
        own_side = (row < rows.n_u) == (side == 0)
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _census_of_start(rows, row, own_side, tables.narrow, tables.sums, classes)
        else:
            _census_of_start(rows, row, own_side, tables.wide, tables.sums, classes)
