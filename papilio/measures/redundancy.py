"""Redundancy of vertices: pairs of their neighbours that have another neighbour in common, on CPU threads.

The redundancy of a vertex of degree d is the share of its d (d - 1) / 2 pairs of neighbours that stay together in the
projection without it (Latapy, Magnien and Del Vecchio, Social Networks 30(1), 2008). A pair has another common
neighbour if it has at least two. Each vertex of the other layer walks its wedges twice: it counts the common
neighbours with every vertex that it meets, then adds to the middle of each wedge whose ends have two of them.
O(wedges of the other layer) time, without a list of pairs.
"""

from __future__ import annotations

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Ids, Index, Ints, compiled
from papilio.kernels.rows.index import WedgeIndex, WedgeRows, index_wedges
from papilio.measures.clustering import layer_of, run_reported, wedge_costs
from papilio.parts import Layer


@compiled
def _add_wedges(rows: WedgeRows, first: Index, start: Index, stop: Index, counters: Ids, met: Ids, pairs: Ints) -> None:
    """Add to ``pairs``, by rank of the other layer, the redundant pairs whose smaller rank is in ``[start, stop)``.

    ``counters`` are zero between ranks.
    """
    middles = rows.n_u if first < rows.n_u else 0
    for rank in range(start, stop):
        n_met = 0
        begin, end = rows.offsets[first + rank], rows.offsets[first + rank + 1]
        for at in range(begin, end):
            middle = middles + np.int64(rows.ids[at])
            for to in range(rows.offsets[middle], rows.offsets[middle + 1]):
                other = rows.ids[to]
                if other > rank:
                    if counters[other] == 0:
                        met[n_met] = other
                        n_met += 1
                    counters[other] += np.uint32(1)
        for at in range(begin, end):
            middle = middles + np.int64(rows.ids[at])
            for to in range(rows.offsets[middle], rows.offsets[middle + 1]):
                other = rows.ids[to]
                if other > rank and counters[other] > 1:
                    pairs[middle - middles] += 1
        for place in range(n_met):
            counters[met[place]] = np.uint32(0)


def count_redundant_pairs(graph: BipartiteGraph, threads: int | None = None) -> dict[str, Ints]:
    """Return, by layer and id, the pairs of neighbours with another common neighbour; signs are ignored."""
    index = index_wedges(graph)
    return {"u": _count_layer(index, "u", threads), "v": _count_layer(index, "v", threads)}


def _count_layer(index: WedgeIndex, layer: Layer, threads: int | None) -> Ints:
    of, ends = layer_of(index, layer), layer_of(index, "v" if layer == "u" else "u")

    def add(state: tuple[Ids, Ids, Ints], start: int, stop: int) -> None:
        _add_wedges(index.rows, ends.first, start, stop, *state)

    def make_state() -> tuple[Ids, Ids, Ints]:
        return np.zeros(ends.n, np.uint32), np.empty(ends.n, np.uint32), np.zeros(of.n, np.int64)

    states = run_reported(wedge_costs(index.rows, ends), threads, make_state, add, lambda share: None)
    pairs = np.empty(of.n, np.int64)
    pairs[of.order] = sum((found for *_, found in states), np.zeros(of.n, np.int64))
    return pairs
