"""Pairs of vertices of a layer by the signs at their common neighbours, on CPU threads.

The walk of the census (:mod:`papilio.kernels.wedge.loops`) meets every pair once, with its common neighbours of each
kind: ``++`` (both edges positive), ``+-`` (different signs) and ``--``. The six classes of the pair are products of
these three numbers, computed at once, without a list of pairs. The best pairs of a thread are in a heap of at most
``k`` rows; pairs are totally ordered (more butterflies first, then the lesser ids), so the best of all threads together
do not depend on the assignment of pairs to threads.

Exactness: the three numbers of a pair of degrees d and e sum to at most min(d, e) < 2^31, so its classes together are
below 2^61. The sums over pairs are kept as in :mod:`papilio.kernels.wedge.loops`; the sums of a vertex are bounded when
the graph is indexed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.exact import check_vertices
from papilio.kernels.jit import Counters, Index, Ints, Sums, compiled, fetch_add, inlined
from papilio.kernels.rows.index import FOUR_KINDS, WedgeIndex, WedgeRows
from papilio.kernels.wedge.loops import (
    Tables,
    add_to_sums,
    for_each_start,
    join_sums,
    make_tables,
    scan_start,
    visit_ends,
)
from papilio.kernels.wedge.signed_loops import index_signed
from papilio.measures.clustering import Report, layer_of, run_reported
from papilio.motifs import CENSUS_CLASSES
from papilio.parts import Layer

_CLASSES = len(CENSUS_CLASSES)

_HEAP_COLUMNS = 6
"""Butterflies of the chosen classes, lesser id, larger id; common neighbours ``++``, ``--``, ``+-``."""

_INDEX_BYTES_PER_EDGE, _INDEX_BYTES_PER_VERTEX = 48, 104
"""Host memory of the graph and its index, while they are made."""

_SIDE_BYTES_PER_VERTEX, _THREAD_BYTES_PER_VERTEX = 144, 20
"""Additional host memory per vertex of the pair side: its classes and costs, and counters of each thread."""


class _Pair(NamedTuple):
    """The numbers of one pair, overwritten by the next one."""

    common: Ints  # shape (3,): common neighbours ++, --, +-
    classes: Ints  # shape (6,)


@inlined
def _take(counters: Counters, place: Index, pair: _Pair) -> bool:
    """Write the common neighbours ``++``, ``--``, ``+-`` of a pair and its six classes, if it has a butterfly.

    Its counters are for ``++``, ``+-``, ``-+`` and ``--``.
    """
    common, classes = pair
    a, b = np.int64(counters[place]), np.int64(counters[place + 3])
    t = np.int64(counters[place + 1]) + np.int64(counters[place + 2])
    if a + t + b < 2:
        return False
    common[0], common[1], common[2] = a, b, t
    classes[0] = a * (a - 1) // 2
    classes[1] = a * b
    classes[2] = b * (b - 1) // 2
    classes[3] = t * (t - 1) // 2
    classes[4] = a * t
    classes[5] = b * t
    return True


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


class _Best(NamedTuple):
    """The search of one thread for pairs."""

    first: int  # first row of the layer
    order: NDArray[np.int32]  # ids of the layer by rank
    chosen: NDArray[np.bool_]  # classes whose butterflies order the pairs
    pair: _Pair
    heap: Ints
    size: Ints  # kept pairs, shape (1,)
    sums: Sums  # of the classes of all pairs


@inlined
def _offer_end(counters: Counters, place: Index, state: tuple[_Best, Index]) -> None:
    """Add the classes of a pair to the sums, and offer it to the heap."""
    best, row = state
    if not _take(counters, place, best.pair):
        return
    common, classes = best.pair
    heap, last, asked = best.heap, best.heap.shape[0] - 1, np.int64(0)
    for each in range(_CLASSES):
        add_to_sums(best.sums[each], np.uint64(classes[each]))
        if best.chosen[each]:
            asked += classes[each]
    if asked > 0 and (best.size[0] < last or asked >= heap[0, 0]):
        own, other = best.order[row - best.first], best.order[place >> 2]
        heap[last, 0] = asked
        heap[last, 1] = min(own, other)
        heap[last, 2] = max(own, other)
        for each in range(common.size):
            heap[last, 3 + each] = common[each]
        _offer(heap, best.size)


@compiled
def _offer_start(rows: WedgeRows, row: Index, counters: Counters, tables: Tables, best: _Best) -> None:
    top, wedges = scan_start(rows, row, counters, tables.sums)
    visit_ends(rows, row, counters, top, wedges, _offer_end, (best, row))


@compiled
def _find_pairs(rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, best: _Best) -> None:
    """Add the classes of the pairs of ``items[start:stop]`` to the sums, and offer each pair to the heap."""
    for_each_start(rows, items, start, stop, tables, _offer_start, best)


@inlined
def _sum_end(counters: Counters, place: Index, state: tuple[_Pair, Ints, Ints, Index]) -> None:
    """Add the classes of a pair to ``own`` and to its end, a rank of ``n``."""
    pair, own, counts, n = state
    if _take(counters, place, pair):
        for each in range(_CLASSES):
            if pair.classes[each]:
                own[each] += pair.classes[each]
                fetch_add(counts, each * n + (place >> 2), pair.classes[each])


@compiled
def _sum_start(
    rows: WedgeRows, row: Index, counters: Counters, tables: Tables, state: tuple[_Pair, Ints, Ints, Index, Index]
) -> None:
    pair, own, counts, n, first = state
    own[:] = 0
    top, wedges = scan_start(rows, row, counters, tables.sums)
    visit_ends(rows, row, counters, top, wedges, _sum_end, (pair, own, counts, n))
    for each in range(_CLASSES):
        if own[each]:
            fetch_add(counts, each * n + row - first, own[each])


@compiled
def _sum_vertices(
    rows: WedgeRows, items: Ints, start: Index, stop: Index, tables: Tables, pair: _Pair, own: Ints, counts: Ints,
    n: Index, first: Index,
) -> None:  # fmt: skip
    """Add the classes of the pairs of ``items[start:stop]`` to ``counts``, by class and rank, of both vertices.

    All threads share the counts; ``own``, int64 (6,), is overwritten.
    """
    for_each_start(rows, items, start, stop, tables, _sum_start, (pair, own, counts, n, first))


def bytes_of_pairs(n_vertices: int, n_side: int, n_edges: int, threads: int, k: int) -> int:
    """Return an upper bound on the host memory, in bytes, of the functions below, with the graph.

    ``n_side`` is the number of vertices of the pair side, ``n_vertices`` of both layers; ``k`` pairs are kept.
    """
    per_side = _SIDE_BYTES_PER_VERTEX + _THREAD_BYTES_PER_VERTEX * threads
    heaps = 2 * threads * 8 * _HEAP_COLUMNS * min(k, n_side * n_side)
    return _INDEX_BYTES_PER_EDGE * n_edges + _INDEX_BYTES_PER_VERTEX * n_vertices + per_side * n_side + heaps


def _make_state(index: WedgeIndex, n: int) -> tuple[Tables, _Pair]:
    pair = _Pair(np.empty(3, np.int64), np.empty(_CLASSES, np.int64))
    return make_tables(len(index.kinds) * n, index.max_degree), pair


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
    index = index_signed(graph, side, FOUR_KINDS)
    rows, items = index.rows, index.items
    n, first, order = layer_of(index, side)
    held = min(k, n * (n - 1) // 2) + 1
    mask = np.array(chosen, np.bool_)

    def make_state() -> tuple[Tables, _Best]:
        tables, pair = _make_state(index, n)
        heap = np.empty((held, _HEAP_COLUMNS), np.int64)
        sums = np.zeros((_CLASSES, 2), np.uint64)
        return tables, _Best(first, order, mask, pair, heap, np.zeros(1, np.int64), sums)

    def find(state: tuple[Tables, _Best], start: int, stop: int) -> None:
        _find_pairs(rows, items, start, stop, *state)

    states = run_reported(index.costs, threads, make_state, find, report)
    found = [np.empty((0, _HEAP_COLUMNS), np.int64), *(best.heap[: best.size[0]] for _, best in states)]
    pairs = np.concatenate(found)
    best = np.lexsort((pairs[:, 2], pairs[:, 1], -pairs[:, 0]))[:k]
    totals = (sum(join_sums(state.sums[each]) for _, state in states) for each in range(_CLASSES))
    return pairs[best], tuple(totals)


def sum_vertices(
    graph: BipartiteGraph, side: Layer, threads: int | None = None, report: Report = lambda share: None
) -> NDArray[np.uint64]:
    """Return the butterflies of each class that each vertex of a signed layer is in, by pairs of this layer.

    The counts, uint64 of shape (6, n), are by class, in the order of ``CENSUS_CLASSES``, and id.
    CapacityError if a vertex could be in more than 2^63 - 1 butterflies.
    """
    index = index_signed(graph, side, FOUR_KINDS)
    check_vertices(graph, index.max_degree, has_edges=False)
    n, first, order = layer_of(index, side)
    rows, items, counts = index.rows, index.items, np.zeros((_CLASSES, n), np.int64)
    shared = counts.reshape(-1)

    def make_state() -> tuple[Tables, _Pair, Ints]:
        return *_make_state(index, n), np.empty(_CLASSES, np.int64)

    def add(state: tuple[Tables, _Pair, Ints], start: int, stop: int) -> None:
        _sum_vertices(rows, items, start, stop, *state, shared, n, first)

    run_reported(index.costs, threads, make_state, add, report)
    by_id = np.empty((_CLASSES, n), np.uint64)
    by_id[:, order] = counts
    return by_id
