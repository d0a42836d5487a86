"""Clustering of vertices by the pairs that they make with others of their layer, on CPU threads.

Two vertices of a layer of degrees d and e with c common neighbours, c at least 1, overlap by c / (d + e - c), by c /
min(d, e), or by c / max(d, e); the clustering of a vertex is the mean over all vertices with a common neighbour
(Latapy, Magnien and Del Vecchio, Social Networks 30(1), 2008). Each vertex walks its wedges, counts the common
neighbours with every vertex that it meets, and adds up the overlaps: O(wedges of the layer) time, without a list of
pairs.

Exactness: c, d, e and the number of vertices met are integers. Each overlap is one division, correctly rounded; their
sum carries its rounding errors along (Neumaier 1974), so that the mean differs from the exact one by less than
2^-50 of it, whatever the order. The vertices are independent: their values do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Ids, Index, Ints, compiled
from papilio.kernels.rows.index import WedgeIndex, WedgeRows, index_wedges
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost
from papilio.parts import Layer

MODES = ("dot", "min", "max")
"""Divisors of the common neighbours of a pair: the neighbours of either, the lesser degree, the larger degree."""

Means = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairMeans:
    """The clustering of every vertex of a layer, by id."""

    partners: NDArray[np.int64]  # vertices of the layer with which each shares a neighbour; shape (n,)
    means: dict[str, Means]  # by mode, the mean overlap with these, NaN without any; shape (n,)


@compiled
def _add(sums: Means, at: Index, value: np.float64) -> None:
    """Add to ``sums[at]``, and the rounding error of that to ``sums[at + 1]``."""
    old = sums[at]
    new = old + value
    sums[at + 1] += (old - new) + value if old >= value else (value - new) + old
    sums[at] = new


@compiled
def _measure_rows(
    rows: WedgeRows,
    first: Index,
    start: Index,
    stop: Index,
    counters: Ids,
    met: Ids,
    sums: Means,
    partners: Ints,
    means: Means,
) -> None:
    """Write the partners and the three means of the ranks ``[start, stop)``; ``counters`` are zero between ranks.

    ``sums``, float64 (6,), are overwritten.
    """
    middles = rows.n_u if first < rows.n_u else 0
    for rank in range(start, stop):
        n_met = 0
        begin, end = rows.offsets[first + rank], rows.offsets[first + rank + 1]
        for at in range(begin, end):
            middle = middles + np.int64(rows.ids[at])
            for to in range(rows.offsets[middle], rows.offsets[middle + 1]):
                other = rows.ids[to]
                if counters[other] == 0:
                    met[n_met] = other
                    n_met += 1
                counters[other] += np.uint32(1)
        sums[:] = 0.0
        for place in range(n_met):
            other = np.int64(met[place])
            common = np.int64(counters[other])
            counters[other] = np.uint32(0)
            if other != rank:
                degree = end - begin
                other_degree = rows.offsets[first + other + 1] - rows.offsets[first + other]
                _add(sums, 0, common / (degree + other_degree - common))
                _add(sums, 2, common / min(degree, other_degree))
                _add(sums, 4, common / max(degree, other_degree))
        partners[rank] = max(n_met - 1, 0)
        for mode in range(3):
            means[mode, rank] = np.nan if n_met < 2 else (sums[2 * mode] + sums[2 * mode + 1]) / (n_met - 1)


def cluster_pairs(
    graph: BipartiteGraph,
    layers: tuple[Layer, ...],
    threads: int | None = None,
    report: Report = lambda share: None,
) -> dict[Layer, PairMeans]:
    """Return the clustering of every vertex of some layers; signs are ignored."""
    index = index_wedges(graph)
    costs = {layer: wedge_costs(index.rows, layer_of(index, layer)) for layer in layers}
    total = sum(int(each.sum()) for each in costs.values())
    before, found = 0, {}
    for layer, own in costs.items():
        walked = int(own.sum())
        found[layer] = _cluster_layer(index, layer, own, threads, _report_part(report, before, walked, total))
        before += walked
    return found


def _report_part(report: Report, before: int, walked: int, total: int) -> Report:
    """Return a report of one layer's share that counts the other layers' wedges, too."""
    return lambda share: report((before + share * walked) / total)


def _cluster_layer(index: WedgeIndex, layer: Layer, costs: Ints, threads: int | None, report: Report) -> PairMeans:
    rows = index.rows
    n, first, order = layer_of(index, layer)
    partners, means = np.zeros(n, np.int64), np.empty((len(MODES), n), np.float64)

    def measure(state: tuple[Ids, Ids, Means], start: int, stop: int) -> None:
        _measure_rows(rows, first, start, stop, *state, partners, means)

    def make_state() -> tuple[Ids, Ids, Means]:
        return np.zeros(n, np.uint32), np.empty(n, np.uint32), np.empty(6)

    run_reported(costs, threads, make_state, measure, report)
    by_id = np.empty_like(order)
    by_id[order] = np.arange(n, dtype=order.dtype)
    return PairMeans(partners[by_id], {mode: means[i][by_id] for i, mode in enumerate(MODES)})


State = TypeVar("State")

Report = Callable[[float], None]
"""Called with the share of the work done, from 0 to 1, from any thread."""


class IndexedLayer(NamedTuple):
    """Position of a layer in a wedge index."""

    n: int
    first: int  # its first row
    order: NDArray[np.int32]  # its ids by rank, shape (n,)


def layer_of(index: WedgeIndex, layer: Layer) -> IndexedLayer:
    """Return the position of a layer."""
    if layer == "u":
        return IndexedLayer(index.n_u, 0, index.order_u)
    return IndexedLayer(index.n_v, index.n_u, index.order_v)


@compiled
def _add_costs(rows: WedgeRows, first: Index, costs: Ints) -> None:
    middles = rows.n_u if first < rows.n_u else 0
    for rank in range(costs.size):
        for at in range(rows.offsets[first + rank], rows.offsets[first + rank + 1]):
            middle = middles + np.int64(rows.ids[at])
            costs[rank] += rows.offsets[middle + 1] - rows.offsets[middle]


def wedge_costs(rows: WedgeRows, layer: IndexedLayer) -> Ints:
    """Return the number of wedges that start at each rank, including wedges back to itself, plus 1; int64, shape
    (n,)."""
    costs = np.ones(layer.n, np.int64)
    _add_costs(rows, layer.first, costs)
    return costs


def run_reported(
    costs: Ints,
    threads: int | None,
    make_state: Callable[[], State],
    work: Callable[[State, int, int], None],
    report: Report,
) -> list[State]:
    """Call ``work(state, start, stop)`` for intervals of all items, and report; return the states of the threads.

    ``costs`` are at least 1 each; ``threads`` are by default the processors that this process may use.
    """
    ends = np.concatenate(([0], np.cumsum(costs)))
    done: list[int] = []

    def step(state: State, start: int, stop: int) -> None:
        work(state, start, stop)
        done.append(int(ends[stop] - ends[start]))
        report(sum(done) / int(ends[-1]))

    chosen = choose_threads(threads)
    runner = ChunkRunner(make_state, chosen)
    runner.run(cut_by_cost(costs, chosen), step)
    return runner.states
