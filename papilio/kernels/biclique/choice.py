"""Predict the cost of a search for (p,q)-bicliques: probes of its items choose the anchor and the algorithm.

A probe of an item (:mod:`papilio.kernels.probe`) draws a child of its root, and then one random branch below it.
:mod:`papilio.kernels.biclique.probe_loops` walks the branches. Estimates of counts have other probes, which draw the
child themselves, with the tables made here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import comb, sqrt
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.biclique.items import MAX_POWER, BicliqueItems, SizeRange, count_wanted, power
from papilio.kernels.biclique.question import LESS_TREE, BicliqueQuestion
from papilio.kernels.engine import Choice, EngineName
from papilio.kernels.exact import mix
from papilio.kernels.probe import (
    N_STRATA,
    SEED,
    STEP,
    Found,
    Rates,
    count_ways,
    cut_strata,
    draw_items,
    unpack_found,
)
from papilio.motifs import EngineOptions, Granularity

Index = TypeVar("Index", bound=BicliqueItems)

WALKS = ("enumerate", "pivot")
"""Algorithms for the search below a child."""


class Children(NamedTuple):
    """Hold the starting points of probes; arrays of shape (n_probes,)."""

    roots: NDArray[np.int32]  # -1 if the item has nothing to search
    places: NDArray[np.int64]  # places of the children in ``hop``
    weights: NDArray[np.float64]  # number of children of the item that each represents
    seeds: NDArray[np.uint64]


Measure = Callable[[Index, NDArray[np.int64], NDArray[np.uint64], tuple[str, ...]], Mapping[str, Found]]
"""Probes items of an index by some of the :data:`WALKS`."""

CPU_RATES = {"enumerate": Rates(4e8, 3e7, 1.5e9), "pivot": Rates(4e8, 1.3e7, 1.5e9)}
"""Rates of one thread with vectors of 512 bits, fitted to senate, marvel, youtube-groupmemberships, bonanza and
yelp2018, (4,4) to (9,4). Nodes are the lists that enumeration makes below the lists of the children, and the nodes of
pivot trees."""

GPU_RATES = {
    "enumerate": Rates(3.2e11, 1e9, 9.4e11, 0.0018),
    "pivot": Rates(3.2e11, 1.3e9, 3e11, 0.006),
}
"""Rates of one H200, fitted to 26 runs on nine graphs: each predicted time is 0.36 to 1.4 times the measured one."""

CPU_VERTEX_RATES = {"enumerate": Rates(1.9e8, 3e7, 2e8)}
"""Rates of one thread for counts per vertex, fitted to 27 runs on nine graphs: runs of 0.3 s or more are predicted at
0.5 to 2.2 times their time, with 20 us for an item."""

GPU_VERTEX_RATES = {"enumerate": Rates(3.5e10, 1.4e8, 6.3e10, 0.0012)}
"""Rates of one H200 for counts per vertex, fitted to 44 runs on ten graphs: of 20 runs of 9 ms or more, the predicted
times are 0.4 to 1.7 times the measured ones. Seven on small graphs, which wait for one item, take 3 to 25 times as
long, at most 0.11 s."""

RUN_RATES = {
    **{walk: rates._replace(costs_s=9e8, items_s=5e4) for walk, rates in CPU_RATES.items()},
    "vertices": CPU_VERTEX_RATES["enumerate"]._replace(items_s=5e4),
}
"""Rates of a whole run; totals: fitted to (3,3) to (8,8) of movielens-100k and yelp2018: an item takes 20 us to open.

The choice of the layer has other rates because small graphs open items faster. At 20 us per item, probes predict 30 ms
for bonanza (3,4) and 37 ms for marvel (4,6), which take 2 and 9 ms. The index of the other layer would then be
considered, or even built, without need. On six graphs, (3,3) to (8,8), the two sets choose alike in 94 of 96 cases.
"""


def find_rates(engine: EngineName, per: Granularity) -> Mapping[str, Rates]:
    """Return the rates of an engine by algorithm: one thread of a CPU, or one device."""
    if per == "vertex":
        return GPU_VERTEX_RATES if engine == "gpu" else CPU_VERTEX_RATES
    return GPU_RATES if engine == "gpu" else CPU_RATES


class IndexRates(NamedTuple):
    """Rates per second of making and probing an index, and when that is worth a try."""

    edges_s: float  # of the graph
    core_edges_s: float
    wedges_s: float  # between pairs of the core
    begin_s: float = 0.0  # seconds for any index
    least: float = 1.0  # how many times longer than this a search must take that the other layer may shorten

    def seconds_of(self, n_edges: int, degrees: NDArray[np.int64]) -> float:
        """Return the seconds for a graph of ``n_edges`` whose core has vertices of these ``degrees``."""
        wedges = float((degrees * (degrees - 1) // 2).sum())
        core_s = float(degrees.sum()) / self.core_edges_s + wedges / self.wedges_s
        return self.begin_s + n_edges / self.edges_s + core_s


CPU_INDEX = IndexRates(3e7, 2e7, 2.8e8)
"""Rates of one thread, fitted to 90 indices of nine graphs: each predicted time is 0.36 to 1.4 times the measured one.
"""

GPU_INDEX = IndexRates(3.6e8, 1e9, 1e12, 0.0065, 2.0)
"""Rates of one H200, fitted to 60 indices of eleven graphs, and 3 ms for their probes. Searches of milliseconds are
predicted within 0.36 to 1.4 times, so one that only seems as long does not pay."""

LEAST_S = 0.02
"""Time on one thread below which a search does not justify probing the other layer."""

CLEAR = 10.0
"""Factor between two predicted times at which few probes suffice to choose."""

PROBES, MORE_PROBES = 64, 512
"""Number of branches drawn of each tree at first, and if these predict ten times :data:`LEAST_S`, or a fifth of that
with no algorithm :data:`CLEAR` times ahead: a few probes seldom meet the heavy branches of a pivot tree. A layer that
is that far behind gets no more probes."""


class Prediction(NamedTuple):
    """Hold the predicted search of one index."""

    algorithm: str  # fastest on the engine
    seconds: float  # time of the fastest on one thread of a CPU
    here: float  # time of the fastest on the engine
    reason: str
    is_doubtful: bool = False  # whether more probes may change it


def draw_children(index: BicliqueItems, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Children:
    """Draw a child of each item; on the host, the same for CPU and GPU.

    Early children have more below them. If x children of the root remain from a child on, it has x^m - (x - 1)^m lots,
    where m vertices are to be taken below it. One time in eight all children have equal chances, so that each can be
    drawn.
    """
    if not index.item_root.size:
        return Children(np.full(items.size, -1, np.int32), items, np.zeros(items.size), seeds)
    state = mix(seeds)
    pieces, weights = draw_pieces(index, items, seeds)
    roots, last = np.where(weights > 0.0, index.item_root[pieces], -1), index.item_later[pieces]
    first = last - (index.item_last[pieces] - index.item_first[pieces])
    m = min(max(index.sizes.min_left - 2, 1), MAX_POWER)
    scale = np.maximum(last, 1).astype(np.float64)
    lots = 1.0 - power(first / scale, m)
    at, below, drawn = 1.0 - lots + _randoms(state, 1) * lots, first, last
    for _ in range(int((last - first).max(initial=0)).bit_length()):
        middle = (below + drawn) // 2
        is_over = power(middle / scale, m) > at
        below, drawn = np.where(is_over, below, middle), np.where(is_over, middle, drawn)
    even = 8.0 * _randoms(state, 2)
    drawn = np.where(even < 1.0, last - (even * (last - first)).astype(np.int64), drawn)
    lots, n = np.where(roots >= 0, lots, 1.0), np.where(roots >= 0, last - first, 1)
    chances = 0.875 * ((power(drawn / scale, m) - power((drawn - 1) / scale, m)) / lots) + 0.125 / n
    places = index.item_first[pieces] + (last - drawn)
    return Children(roots.astype(np.int32), places, weights / chances, seeds)


def draw_pieces(
    index: BicliqueItems, items: NDArray[np.int64], seeds: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw a piece of each item in proportion to its cost. Return it and its weight, 0 if the item has none."""
    if index.item_ptr is None:
        return items, np.ones(items.size)
    random = _randoms(mix(seeds), 3)
    ends = np.concatenate(([0.0], np.cumsum(index.costs, dtype=np.float64)))
    first, last = index.item_ptr[items], index.item_ptr[items + 1]
    work = ends[last] - ends[first]
    drawn = np.searchsorted(ends, ends[first] + random * work, side="right") - 1
    pieces = np.clip(drawn, np.minimum(first, index.costs.size - 1), np.maximum(last - 1, 0))
    return pieces, np.where(last > first, work / index.costs[pieces], 0.0)


def _randoms(state: NDArray[np.uint64], number: int) -> NDArray[np.float64]:
    """Return random numbers below 1, different for each number."""
    hashes = mix(state + np.uint64(number * int(STEP) % 2**64))
    return np.asarray((hashes >> np.uint64(11)).astype(np.float64) / 2.0**53)


def name_found(found: NDArray[np.float64], sizes: SizeRange) -> Found:
    """Return the results of a walk, shape (n_probes, FIELDS), with the vertices of motifs of one size."""
    named = unpack_found(found)
    return named._replace(members=(sizes.min_left + sizes.min_right) * named.motifs)


class CountTables(NamedTuple):
    """Tables of estimates of counts by the number of shared columns, shape (most + 1,) each, float64."""

    ways: NDArray[np.float64]  # bicliques of a left side with this many shared columns
    rows: NDArray[np.float64]  # relative weight of a row when drawing
    children: NDArray[np.float64]  # the same for a child, without the factor for its x later children:
    law: int  # 0: nothing, 1: x, 2: x^(3/2), 3: x + 1


def make_count_tables(sizes: SizeRange, most: int) -> CountTables:
    """Return the tables of an index; powers use square roots, which are rounded alike everywhere.

    The more vertices are still to be taken below a row or a child, the less its columns predict the columns that all
    share. Fitted to senate, marvel, movielens-100k and youtube-groupmemberships, (3,3) to (9,7).
    """
    ways = count_ways(most, sizes.min_right, sizes.max_right)
    finite = np.minimum(ways, _MOST_WAYS)
    root = np.sqrt(finite)
    deep = root * np.sqrt(root)
    if sizes.min_left < sizes.max_left:
        return CountTables(ways, deep, deep, 3)
    take = sizes.max_left - 2
    return CountTables(ways, deep, finite if take <= 1 else deep if take == 2 else root, min((take + 1) // 2, 2))


_MOST_WAYS = 1e280
"""Limit of the entries of tables of lots: sums of their products stay finite."""


class Chosen(NamedTuple):
    """Hold the index to search and the reasons."""

    index: Any
    prediction: Prediction
    layer_reason: str  # empty if there was no choice


def choose_search(
    index: Index,
    algorithms: tuple[str, ...],
    measure: Measure[Index],
    build_other: Callable[[], Index] | None,
    compare: Callable[[], tuple[float, float]],
    rates: Mapping[str, Rates],
    thread_rates: Mapping[str, Rates] = CPU_RATES,
) -> Chosen:
    """Choose the layer to anchor and the algorithm, for one size of either side.

    Probes predict the time for the index. If that is long beside the time of making the index of the other layer, that
    index is made and probed, too, and the faster one is searched. How long depends on how much longer the other search
    seems by wedges and sides: the square root of that many times. Each engine goes by its own times.

    ``index`` belongs to the layer chosen by rules; ``algorithms`` are the candidates, of ``enumerate`` and ``pivot``.
    ``measure`` probes items of an index, by item, seed and algorithm. ``build_other`` builds the index of the other
    layer, and is None if the layer is given; it raises CapacityError if that index does not fit. ``compare`` returns
    the seconds that the search must take for that, and the other layer's :func:`weigh_tree` by this one's. ``rates``
    are those of the engine, by algorithm, ``thread_rates`` those of one thread of a CPU.
    """

    def look(index: Index) -> Prediction:
        return predict(index, algorithms, measure, rates, PROBES, thread_rates)

    def look_again(index: Index, found: Prediction) -> Prediction:
        if not found.is_doubtful:
            return found
        return predict(index, algorithms, measure, rates, MORE_PROBES, thread_rates)

    mine = look(index)
    name = index.anchor.upper()
    if build_other is None:
        return Chosen(index, look_again(index, mine), "")
    if mine.seconds <= LEAST_S:
        return Chosen(index, mine, LESS_TREE)
    build_s, times = compare()
    enough_s = build_s * sqrt(max(times, 1.0))
    if mine.here <= CLEAR * enough_s:
        mine = look_again(index, mine)
    if mine.here <= enough_s:
        said = f"the search takes {mine.here:.2g} s; the other index pays from {enough_s:.2g} s on"
        return Chosen(index, mine, f"{LESS_TREE}; {said}")
    try:
        other = build_other()
    except CapacityError:
        return Chosen(index, look_again(index, mine), "pairs of the other layer do not fit in memory")
    theirs = look(other)
    if theirs.here < CLEAR * mine.here:
        theirs = look_again(other, theirs)
    if mine.here < CLEAR * theirs.here:
        mine = look_again(index, mine)
    said = f"probes predict {mine.here:.2g} s with {name}, {theirs.here:.2g} s with the other"
    best, found = (other, theirs) if theirs.here < mine.here else (index, mine)
    return Chosen(best, look_again(best, found), said)


def plan_search(
    question: BicliqueQuestion,
    index: Index,
    measure: Measure[Index],
    build: Callable[[str], Index],
    divide: Callable[[Index, int], Index],
    degrees_of: Callable[[Index], NDArray[np.int64]],
    engine: EngineName,
) -> tuple[Index, str, tuple[Choice, ...], EngineOptions]:
    """Return the index to search for a question, the algorithm, both reasons, and the layer if probes chose it.

    ``build`` returns the index with a layer anchored; ``index`` belongs to the layer chosen by the rules of
    :func:`~papilio.kernels.biclique.question.choose_anchor`. ``divide`` divides it into a number of items if the search
    is long; ``degrees_of`` returns the degrees of its left vertices in the core. The other parameters are as in
    :func:`choose_search`.
    """

    def compare() -> tuple[float, float]:
        build_s = index_rates.seconds_of(question.searched.n_edges, degrees_of(index))
        return index_rates.least * build_s, question.compare_trees(index.anchor)

    index_rates = GPU_INDEX if engine == "gpu" else CPU_INDEX
    algorithms = question.algorithms(index)
    if not algorithms:
        algorithm = question.choose_algorithm(index)
        return index, algorithm, question.explain(index, algorithm), ()
    chosen = choose_search(
        index,
        algorithms,
        measure,
        (lambda: build("v" if index.anchor == "u" else "u")) if question.may_turn(index) else None,
        compare,
        find_rates(engine, question.per),
        find_rates("cpu", question.per),
    )
    prediction, searched = chosen.prediction, chosen.index
    if wanted := count_wanted(prediction.seconds, question.per, searched.sizes.max_left):
        searched = divide(searched, wanted)
    searched = replace(searched, seconds=prediction.seconds)
    settled = (("anchor", searched.anchor),) if chosen.layer_reason else ()
    explained = question.explain(searched, prediction.algorithm, (chosen.layer_reason, prediction.reason))
    return searched, prediction.algorithm, explained, settled


def predict(
    index: Index,
    algorithms: tuple[str, ...],
    measure: Measure[Index],
    rates: Mapping[str, Rates],
    n_probes: int = PROBES,
    thread_rates: Mapping[str, Rates] = CPU_RATES,
) -> Prediction:
    """Return the fastest of some algorithms on an index, and its time on one thread of a CPU and on the engine.

    Time and doubts on a CPU determine the items, which are the same for every engine with this layer anchored.
    """
    sizes, cost = index.sizes, float(index.costs.sum())
    if sizes.is_empty or index.item_root.max(initial=-1) < 0:
        return Prediction(algorithms[0], 0.0, 0.0, "nothing is left to search")
    if sizes.max_left == 3 and "enumerate" in algorithms:
        on_cpu_s, here_s = (cost / of["enumerate"].costs_s for of in (thread_rates, rates))
        return Prediction("enumerate", on_cpu_s, here_s, "below a pair the search is one level deep")
    sets = min(comb(index.n_left, sizes.max_left - 3), 10**200)  # in the range of floating point
    most_s, most_here_s = (cost * sets / of["enumerate"].words_s for of in (thread_rates, rates))
    if "enumerate" in algorithms and most_s <= LEAST_S:
        return Prediction("enumerate", most_s, most_here_s, "all sets of its vertices are few")
    bounds = cut_strata(index.lots)
    drawn = draw_items(index.lots, bounds, np.full(bounds.size - 1, n_probes // N_STRATA), SEED)
    found = measure(index, drawn.items, drawn.seeds, algorithms)
    costs = index.work[drawn.items]
    on_cpu, here = (
        {name: of[name].begin_s + float(drawn.weights @ of[name].seconds_of(costs, found[name])) for name in algorithms}
        for of in (thread_rates, rates)
    )
    least, most = min(on_cpu.values()), max(on_cpu.values())
    is_clear = least <= 2 * LEAST_S or (least <= 10 * LEAST_S and most > CLEAR * least)
    best = min(algorithms, key=lambda name: here[name])
    said = " and ".join(f"{here[name]:.2g} s {_MANNERS[name]}" for name in algorithms)
    return Prediction(
        best, least, here[best], f"{n_probes} probes predict {said}", n_probes < MORE_PROBES and not is_clear
    )


_MANNERS = {"enumerate": "to enumerate", "pivot": "with pivots"}
