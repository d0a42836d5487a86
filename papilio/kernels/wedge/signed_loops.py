"""Signed counts other than butterflies: histograms of pairs, and the classes of the census.

Uses the loops of :mod:`papilio.kernels.wedge.loops` on signed rows; serial, without the interpreter lock, one call per
chunk of items.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Counters, Ids, Index, Ints, Sums, compiled
from papilio.kernels.wedge.graph import TWO_KINDS, Kinds, WedgeIndex, WedgeRows, index_wedges
from papilio.kernels.wedge.loops import (
    NARROW_LIMIT,
    Tables,
    add_to_sums,
    counter_of,
    first_middle,
    is_span_cheaper,
    open_middle,
    scan_start,
    take_pairs,
)
from papilio.parts import Layer

_ONE = np.uint64(1)


@compiled
def _add_signs(ids: Ids, edge_ids: Ids, sign: NDArray[np.int8]) -> None:
    """Turn ranks into entries of signed rows."""
    for at in range(ids.size):
        ids[at] = 2 * ids[at] + (sign[edge_ids[at]] < 0)


def index_signed(graph: BipartiteGraph, first_layer: Layer | None, kinds: Kinds = TWO_KINDS) -> WedgeIndex:
    """Return :func:`index_wedges` of a signed graph, for counts of these kinds of common neighbours."""
    assert graph.sign is not None
    index = index_wedges(graph, with_edge_ids=True, first_layer=first_layer)
    _add_signs(index.ids, index.edge_ids, graph.sign)
    return replace(index, kinds=kinds, edge_ids=np.empty(0, index.edge_ids.dtype))


@compiled
def _histogram_of_start(rows: WedgeRows, row: Index, counters: Counters, sums: Sums, histogram: Sums) -> None:
    """Process one start of :func:`count_histogram`: count, take every counter of at least 2 once, and clear."""
    top, wedges = scan_start(rows, row, counters, sums)
    if is_span_cheaper(counters, top, wedges):
        for place in range(top):
            if counters[place] > 1:
                histogram[counters[place]] += _ONE
        counters[:top] = 0
        return
    middles = first_middle(rows, row)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        middle, sign = open_middle(rows, middles, at)
        begin = rows.offsets[middle]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            touched = counter_of(rows.ends[to], sign, rows.kinds)
            if counters[touched] > 1:
                histogram[counters[touched]] += _ONE
            counters[touched] = 0


@compiled
def count_histogram(rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, histogram: Sums) -> None:
    """Count the pairs of ``items[start:stop]`` that agree, or disagree, on exactly n neighbours, n >= 2.

    ``histogram`` (one entry more than the largest degree) belongs to the calling thread.
    """
    for item in range(start, stop):
        row = items[item]
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _histogram_of_start(rows, row, tables.narrow, tables.sums, histogram)
        else:
            _histogram_of_start(rows, row, tables.wide, tables.sums, histogram)


@compiled
def _classify_end(counters: Counters, place: Index, own_side: bool, classes: Sums) -> None:
    """Add the butterflies of one pair to the sums of their classes, and zero its four counters.

    ``own_side`` is true if the pair is in the layer that defines the class; see
    :mod:`papilio.kernels.wedge.signed_forms`.
    """
    a, y = np.uint64(counters[place]), np.uint64(counters[place + 1])
    x, b = np.uint64(counters[place + 2]), np.uint64(counters[place + 3])
    if a + b + x + y > _ONE:
        split, same = a * b, take_pairs(x) + take_pairs(y)
        add_to_sums(classes[0], take_pairs(a))
        add_to_sums(classes[1], split if own_side else same)
        add_to_sums(classes[2], take_pairs(b))
        add_to_sums(classes[3], (same if own_side else split) + x * y)
        add_to_sums(classes[4], a * (x + y))
        add_to_sums(classes[5], b * (x + y))
    counters[place : place + 4] = 0


@compiled
def _census_of_start(
    rows: WedgeRows, row: Index, own_side: bool, counters: Counters, sums: Sums, classes: Sums
) -> None:
    """Process one start of :func:`count_census`: count, classify every pair once, and clear."""
    top, wedges = scan_start(rows, row, counters, sums)
    if is_span_cheaper(counters, top, wedges):
        for place in range(0, top, 4):
            _classify_end(counters, place, own_side, classes)
        return
    middles = first_middle(rows, row)
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        middle, _ = open_middle(rows, middles, at)
        begin = rows.offsets[middle]
        for to in range(begin, begin + np.int64(rows.prefix[at])):
            _classify_end(counters, 4 * np.int64(rows.ends[to] >> 1), own_side, classes)


@compiled
def count_census(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, classes: Sums, side: int
) -> None:
    """Add the butterflies of ``items[start:stop]`` to the sums of their classes.

    ``classes`` belongs to the calling thread: pairs (low, high), in the order of :data:`papilio.motifs.CENSUS_CLASSES`.
    ``side`` is the layer that defines the class, 0 for U, 1 for V.
    """
    for item in range(start, stop):
        row = items[item]
        own_side = (row < rows.n_u) == (side == 0)
        if rows.offsets[row + 1] - rows.offsets[row] <= NARROW_LIMIT:
            _census_of_start(rows, row, own_side, tables.narrow, tables.sums, classes)
        else:
            _census_of_start(rows, row, own_side, tables.wide, tables.sums, classes)
