"""Signed counts other than butterflies: histograms of pairs, and the classes of the census.

Uses the loops of :mod:`papilio.kernels.wedge.loops` on signed rows; serial, without the interpreter lock, one call per
chunk of items.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Counters, Ids, Index, Ints, Sums, compiled, inlined
from papilio.kernels.rows.index import TWO_KINDS, Kinds, WedgeIndex, WedgeRows, index_wedges
from papilio.kernels.wedge.loops import (
    Tables,
    add_to_sums,
    for_each_start,
    scan_start,
    take_pairs,
    visit_ends,
)
from papilio.parts import Layer

_ONE = np.uint64(1)


@compiled
def _add_signs(ids: Ids, edge_ids: Ids, sign: NDArray[np.int8]) -> None:
    """Turn ranks into entries of signed rows."""
    for at in range(ids.size):
        ids[at] = 2 * ids[at] + (sign[edge_ids[at]] < 0)


def index_signed(
    graph: BipartiteGraph, first_layer: Layer | None, kinds: Kinds = TWO_KINDS, min_degree: int = 2
) -> WedgeIndex:
    """Return :func:`index_wedges` of a signed graph, for counts of these kinds of common neighbours."""
    assert graph.sign is not None
    index = index_wedges(graph, with_edge_ids=True, first_layer=first_layer, min_degree=min_degree)
    _add_signs(index.ids, index.edge_ids, graph.sign)
    return replace(index, kinds=kinds, edge_ids=np.empty(0, index.edge_ids.dtype))


@inlined
def _bin_end(counters: Counters, place: Index, histogram: Sums) -> None:
    if counters[place] > 1:
        histogram[counters[place]] += _ONE


@compiled
def _histogram_of_start(rows: WedgeRows, row: Index, counters: Counters, tables: Tables, histogram: Sums) -> None:
    top, wedges = scan_start(rows, row, counters, tables.sums)
    visit_ends(rows, row, counters, top, wedges, _bin_end, histogram)


@compiled
def count_histogram(rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, histogram: Sums) -> None:
    """Count the pairs of ``items[start:stop]`` that agree, or disagree, on exactly n neighbours, n >= 2.

    ``histogram`` (one entry more than the largest degree) belongs to the calling thread.
    """
    for_each_start(rows, items, start, stop, tables, _histogram_of_start, histogram)


@inlined
def _classify_end(counters: Counters, place: Index, state: tuple[Sums, bool]) -> None:
    """Add the butterflies of one pair to the sums of their classes.

    ``own_side`` is true if the pair is in the layer that defines the class; see
    :mod:`papilio.kernels.wedge.signed_forms`.
    """
    classes, own_side = state
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


@compiled
def _census_of_start(
    rows: WedgeRows, row: Index, counters: Counters, tables: Tables, state: tuple[Sums, Index]
) -> None:
    classes, side = state
    top, wedges = scan_start(rows, row, counters, tables.sums)
    visit_ends(rows, row, counters, top, wedges, _classify_end, (classes, (row < rows.n_u) == (side == 0)))


@compiled
def count_census(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, classes: Sums, side: int
) -> None:
    """Add the butterflies of ``items[start:stop]`` to the sums of their classes.

    ``classes`` belongs to the calling thread: pairs (low, high), in the order of :data:`papilio.motifs.CENSUS_CLASSES`.
    ``side`` is the layer that defines the class, 0 for U, 1 for V.
    """
    for_each_start(rows, items, start, stop, tables, _census_of_start, (classes, side))
