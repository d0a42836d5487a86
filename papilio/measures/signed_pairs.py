"""Pairs of vertices of a layer by the signs at their common neighbours, on CPU threads.

A vertex walks its wedges and counts, for every vertex that it meets, the common neighbours of each kind: ``++`` (both
edges positive), ``+-`` (different signs) and ``--``. The six classes of the pair are products of these three numbers,
computed at once, without a list of pairs. The best pairs of a thread are in a heap of at most ``k`` rows; pairs are
totally ordered (more butterflies first, then the lesser ids), so the best of all threads together do not depend on the
assignment of pairs to threads.

Exactness: the three numbers of a pair of degrees d and e sum to at most min(d, e) < 2^31, so its classes together are
below 2^61. The sums over pairs are kept as in :mod:`papilio.kernels.wedge.loops`; the sums of a vertex are bounded when
the graph is indexed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.exact import check_vertices
from papilio.kernels.jit import Ids, Index, Ints, Sums, compiled
from papilio.kernels.wedge.graph import WedgeRows
from papilio.kernels.wedge.loops import add_to_sums, join_sums
from papilio.kernels.wedge.signed_loops import index_signed
from papilio.measures.clustering import Report, layer_of, run_reported, wedge_costs
from papilio.motifs import CENSUS_CLASSES
from papilio.parts import Layer

_KINDS = 3
"""Counters of a vertex met: for ``++``, ``+-`` and ``--``, by the number of negative edges."""

_CLASSES = len(CENSUS_CLASSES)

_HEAP_COLUMNS = 6
"""Butterflies of the chosen classes, lesser id, larger id; common neighbours ``++``, ``--``, ``+-``."""

_INDEX_BYTES_PER_EDGE, _INDEX_BYTES_PER_VERTEX = 48, 104
"""Host memory of the graph and its index, while they are made."""

_SIDE_BYTES_PER_VERTEX, _THREAD_BYTES_PER_VERTEX = 144, 16
"""Additional host memory per vertex of the pair side: its classes and costs, and counters of each thread."""

_Met = tuple[Ids, Ids, Ints, Ints]
"""Counters of the vertices met, zero between starts, and the ids of these; room for the numbers of one pair."""


@compiled
def _meet(rows: WedgeRows, row: Index, whole: bool, counters: Ids, met: Ids) -> int:
    """Count the common neighbours of a row with others of its layer; return the number of others in ``met``.

    With ``whole`` these are all others and the row itself, else only the rows that precede it.
    """
    middles = rows.n_u if row < rows.n_u else 0
    n_met = 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        entry = np.int64(rows.ids[at])
        middle = middles + (entry >> 1)
        begin = rows.offsets[middle]
        stop = rows.offsets[middle + 1] if whole else begin + np.int64(rows.prefix[at])
        for to in range(begin, stop):
            other = np.int64(rows.ids[to])
            place = _KINDS * (other >> 1)
            if counters[place] == 0 and counters[place + 1] == 0 and counters[place + 2] == 0:
                met[n_met] = other >> 1
                n_met += 1
            counters[place + (entry & 1) + (other & 1)] += np.uint32(1)
    return n_met


@compiled
def _take(counters: Ids, end: Index, common: Ints, classes: Ints) -> None:
    """Write the common neighbours ``++``, ``--``, ``+-`` of a pair and its six classes; zero its counters."""
    place = _KINDS * end
    a, t, b = np.int64(counters[place]), np.int64(counters[place + 1]), np.int64(counters[place + 2])
    counters[place : place + _KINDS] = 0
    common[0], common[1], common[2] = a, b, t
    classes[0] = a * (a - 1) // 2
    classes[1] = a * b
    classes[2] = b * (b - 1) // 2
    classes[3] = t * (t - 1) // 2
    classes[4] = a * t
    classes[5] = b * t


@compiled
def _follows(heap: Ints, one: Index, other: Index) -> bool:
    """Return whether a row comes after another: fewer butterflies, then larger ids."""
    if heap[one, 0] != heap[other, 0]:
        return bool(heap[one, 0] < heap[other, 0])
    if heap[one, 1] != heap[other, 1]:
        return bool(heap[one, 1] > heap[other, 1])
    return bool(heap[one, 2] > heap[other, 2])


@compiled
def _swap(heap: Ints, one: Index, other: Index) -> None:
    for column in range(_HEAP_COLUMNS):
        heap[one, column], heap[other, column] = heap[other, column], heap[one, column]


@compiled
def _offer(heap: Ints, size: Ints) -> None:
    """Keep the pair in the last row of the heap if it is among the best; the worst kept pair is on top.

    The heap has one row more than the kept pairs, for the new pair.
    """
    last = heap.shape[0] - 1
    if size[0] < last:
        at = size[0]
        _swap(heap, at, last)
        size[0] += 1
        while at > 0 and _follows(heap, at, (at - 1) // 2):
            _swap(heap, at, (at - 1) // 2)
            at = (at - 1) // 2
        return
    if not _follows(heap, 0, last):
        return
    _swap(heap, 0, last)
    at = 0
    while True:
        worst = at
        for child in range(2 * at + 1, min(2 * at + 3, last)):
            if _follows(heap, child, worst):
                worst = child
        if worst == at:
            return
        _swap(heap, at, worst)
        at = worst


@compiled
def _find_pairs(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, first: Index, order: NDArray[np.int32],
    chosen: NDArray[np.bool_], counters: Ids, met: Ids, common: Ints, classes: Ints, heap: Ints, size: Ints, sums: Sums,
) -> None:  # fmt: skip
    """Add the classes of the pairs of ``items[start:stop]`` to the sums, and offer each pair to the heap.

    ``chosen`` selects the classes whose butterflies order the pairs; ``first`` is the first row of the layer,
    ``order`` its ids by rank.
    """
    last = heap.shape[0] - 1
    for item in range(start, stop):
        row = items[item]
        own = order[row - first]
        for place in range(_meet(rows, row, False, counters, met)):
            end = np.int64(met[place])
            _take(counters, end, common, classes)
            asked = np.int64(0)
            for each in range(_CLASSES):
                add_to_sums(sums[each], np.uint64(classes[each]))
                if chosen[each]:
                    asked += classes[each]
            if asked > 0 and (size[0] < last or asked >= heap[0, 0]):
                heap[last, 0] = asked
                heap[last, 1] = min(own, order[end])
                heap[last, 2] = max(own, order[end])
                for each in range(common.size):
                    heap[last, 3 + each] = common[each]
                _offer(heap, size)


@compiled
def _sum_vertices(
    rows: WedgeRows, start: Index, stop: Index, first: Index, counters: Ids, met: Ids, common: Ints, classes: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    """Write the classes of all pairs of each rank of ``[start, stop)`` to ``counts[:, rank]``."""
    for rank in range(start, stop):
        for place in range(_meet(rows, first + rank, True, counters, met)):
            end = np.int64(met[place])
            _take(counters, end, common, classes)
            if end != rank:
                for each in range(_CLASSES):
                    counts[each, rank] += classes[each]


def bytes_of_pairs(n_vertices: int, n_side: int, n_edges: int, threads: int, k: int) -> int:
    """Return an upper bound on the host memory, in bytes, of the functions below, with the graph.

    ``n_side`` is the number of vertices of the pair side, ``n_vertices`` of both layers; ``k`` pairs are kept.
    """
    per_side = _SIDE_BYTES_PER_VERTEX + _THREAD_BYTES_PER_VERTEX * threads
    heaps = 2 * threads * 8 * _HEAP_COLUMNS * min(k, n_side * n_side)
    return _INDEX_BYTES_PER_EDGE * n_edges + _INDEX_BYTES_PER_VERTEX * n_vertices + per_side * n_side + heaps


def _make_met(size: int) -> _Met:
    counters, met = np.zeros(_KINDS * size, np.uint32), np.empty(size, np.uint32)
    return counters, met, np.empty(_KINDS, np.int64), np.empty(_CLASSES, np.int64)


def find_pairs(
    graph: BipartiteGraph,
    side: Layer,
    chosen: Sequence[bool],
    k: int,
    threads: int | None = None,
    report: Report = lambda share: None,
) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Return the pairs of a layer that have the most butterflies of some classes, and the census of all pairs.

    ``chosen`` selects among ``CENSUS_CLASSES``; pairs without any such butterfly are left out, and at most ``k``
    returned. The rows, int64 of shape (n, 6), are butterflies of the chosen classes, lesser id, larger id, common
    neighbours ``++``, ``--`` and ``+-``; by decreasing butterflies, then ids.
    """
    index = index_signed(graph, side)
    rows, items = index.rows, index.items
    n, first, order = layer_of(index, side)
    held = min(k, n * (n - 1) // 2) + 1
    mask = np.array(chosen, np.bool_)

    def make_state() -> tuple[_Met, Ints, Ints, Sums]:
        heap = np.empty((held, _HEAP_COLUMNS), np.int64)
        return _make_met(n), heap, np.zeros(1, np.int64), np.zeros((_CLASSES, 2), np.uint64)

    def find(state: tuple[_Met, Ints, Ints, Sums], start: int, stop: int) -> None:
        met, heap, size, sums = state
        _find_pairs(rows, items, start, stop, first, order, mask, *met, heap, size, sums)

    states = run_reported(index.costs, threads, make_state, find, report)
    found = [np.empty((0, _HEAP_COLUMNS), np.int64), *(heap[: size[0]] for _, heap, size, _ in states)]
    pairs = np.concatenate(found)
    best = np.lexsort((pairs[:, 2], pairs[:, 1], -pairs[:, 0]))[:k]
    totals = (sum(join_sums(sums[each]) for *_, sums in states) for each in range(_CLASSES))
    return pairs[best], tuple(totals)


def sum_vertices(
    graph: BipartiteGraph, side: Layer, threads: int | None = None, report: Report = lambda share: None
) -> NDArray[np.uint64]:
    """Return the butterflies of each class that each vertex of a signed layer is in, by pairs of this layer.

    The counts, uint64 of shape (6, n), are by class, in the order of ``CENSUS_CLASSES``, and id.
    CapacityError if a vertex could be in more than 2^63 - 1 butterflies.
    """
    index = index_signed(graph, side)
    check_vertices(graph, index.max_degree, has_edges=False)
    layer = layer_of(index, side)
    rows, counts = index.rows, np.zeros((_CLASSES, layer.n), np.int64)

    def add(state: _Met, start: int, stop: int) -> None:
        _sum_vertices(rows, start, stop, layer.first, *state, counts)

    costs = wedge_costs(rows, layer, signed=True)
    run_reported(costs, threads, lambda: _make_met(layer.n), add, report)
    by_id = np.empty((_CLASSES, layer.n), np.uint64)
    by_id[:, layer.order] = counts
    return by_id
