"""What a search for (p,q)-bicliques will cost: probes of its trees, and the anchor and algorithm that they choose.

A probe goes down one random branch of a search tree. Dividing each node by the probability of reaching it makes the
mean over probes an unbiased estimate of any sum over the tree: the words intersected, and the count itself (Knuth,
Math. Comp. 29, 1975). Children of roots are drawn in proportion to the cost of their work items, at equal
steps from a random start, so that heavy items are met for certain.

:mod:`papilio.kernels.biclique.probe_loops` and ``biclique_probe.cu`` walk the same branches: every draw is a hash of
seed, probe and step, and every weight a product in double precision that both round alike.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.biclique.items import BicliqueItems
from papilio.kernels.biclique.question import BicliqueQuestion
from papilio.kernels.engine import Choice
from papilio.kernels.exact import mix

Index = TypeVar("Index", bound=BicliqueItems)

SEED = 0x70A9
"""Seed of the probes that choose: every worker of a job decides alike."""

STEP = np.uint64(0x9E3779B97F4A7C15)
"""Between two states of a probe, whose hash is its next random number (SplitMix64)."""


class Probes(NamedTuple):
    """Children of roots to begin at; arrays of shape (n_probes,)."""

    roots: NDArray[np.int32]
    children: NDArray[np.int64]  # places in ``hop``
    weights: NDArray[np.float64]  # children that each stands for
    seeds: NDArray[np.uint64]


class Measured(NamedTuple):
    """What probes found, each already weighted: float64, shape (n_probes,).

    Words are 64-bit words of the columns that a root shares with its child. Nodes are the lists that enumeration makes
    below those of the children, and the nodes of pivot trees.
    """

    enumerate_words: NDArray[np.float64]
    enumerate_nodes: NDArray[np.float64]
    enumerate_count: NDArray[np.float64]
    pivot_words: NDArray[np.float64]
    pivot_nodes: NDArray[np.float64]
    pivot_count: NDArray[np.float64]


class Rates(NamedTuple):
    """Speed of a processor below the children, right within a factor of two, to choose between algorithms."""

    words_s: float  # 64-bit words intersected a second
    lists_s: float  # lists made by enumeration a second
    nodes_s: float  # nodes of pivot trees a second
    pivot_s: float  # seconds of the table of leaves, beside the search

    def seconds_of(self, found: Measured) -> dict[str, float]:
        """Return the predicted seconds of each algorithm below the children, from what probes found."""
        words, lists, _, pivot_words, pivot_nodes, _ = (float(each.sum()) for each in found)
        return {
            "enumerate": words / self.words_s + lists / self.lists_s,
            "pivot": self.pivot_s + pivot_words / self.words_s + pivot_nodes / self.nodes_s,
        }


CPU_RATES = Rates(1.5e9, 3e7, 1.3e7, 0.0)
"""Of one thread with vectors of 512 bits, fitted to senate, marvel, youtube-groupmemberships, bonanza and yelp2018,
(4,4) to (9,4). On every engine they choose the layer, which work items depend on."""

GPU_RATES = Rates(3e11, 2e9, 1.3e9, 0.006)
"""Of one H100, fitted to the same graphs."""

COSTS_S, EDGES_S, WEDGES_S = 1.5e9, 2e7, 1e8
"""A second, beside :data:`CPU_RATES`: costs of the items searched, and edges and wedges between pairs of a graph while
its index is made."""

LEAST_S = 0.02
"""A search that takes one thread this long is not worth a look at the other layer."""

PROBES, MORE_PROBES = 64, 512
"""Branches that are drawn of each tree at first, and where the search takes ten times :data:`LEAST_S` by these."""


class Prediction(NamedTuple):
    """What probes predict of the search of one index."""

    algorithm: str  # the fastest on the engine
    seconds: float  # of the fastest on one thread of a CPU
    reason: str


def draw_probes(index: BicliqueItems, n_probes: int, seed: int) -> Probes:
    """Draw children of roots in proportion to the costs of their work items; the same on CPU and GPU."""
    costs = index.costs.astype(np.float64)
    ends = np.cumsum(costs)
    hashes = mix(np.arange(2 * n_probes + 1, dtype=np.uint64) * STEP + np.uint64(seed))
    start = float(hashes[-1] >> np.uint64(11)) / 2.0**53
    at = (np.arange(n_probes) + start) * (ends[-1] / n_probes)
    pieces = np.minimum(np.searchsorted(ends, at, side="right"), costs.size - 1)
    firsts = index.item_first[pieces]
    sizes = index.item_last[pieces] - firsts
    drawn = (hashes[:n_probes] >> np.uint64(32)) * sizes.astype(np.uint64) >> np.uint64(32)
    weights = ends[-1] / n_probes / costs[pieces] * sizes
    return Probes(
        index.item_root[pieces], firsts + drawn.astype(np.int64), weights, hashes[n_probes : 2 * n_probes]
    )


def count_ways(size: int, most: int) -> NDArray[np.float64]:
    """Return C(free, size - held) in double precision, shape (size + 1, most + 1): rows are held, columns free."""
    free, ways = np.arange(most + 1, dtype=np.float64), np.empty((size + 1, most + 1))
    ways[size] = 1.0
    for taken in range(1, size + 1):
        ways[size - taken] = ways[size - taken + 1] * np.maximum(free - (taken - 1), 0.0) / taken
    return ways


class Chosen(NamedTuple):
    """The index to search, and why."""

    index: Any
    algorithm: str
    layer_reason: str  # empty where there was no choice
    algorithm_reason: str


def choose_search(
    index: Index,
    algorithms: tuple[str, ...],
    measure: Callable[[Index, Probes], Measured],
    build_other: Callable[[], Index] | None,
    other_size: Callable[[], tuple[int, int]],
    rates: Rates,
) -> Chosen:
    """Choose the layer to anchor and the algorithm, for one size of either side.

    Probes predict the time that the index takes. Where that is more than finding the pairs of the other layer takes,
    the index of that layer is built and probed, too, and the faster one is searched. Every engine takes the same layer,
    by the time of one thread of a CPU, and the algorithm that is faster on itself.

    Parameters
    ----------
    index : BicliqueItems
        The index of the layer whose pairs have fewer wedges.
    algorithms : tuple of str
        Those to choose from, of ``enumerate`` and ``pivot``.
    measure : callable
        Walks probes of an index.
    build_other : callable, optional
        Builds the index of the other layer; None where the layer is given. CapacityError where it does not fit.
    other_size : callable
        Returns the edges of the graph, and the wedges between pairs of the other layer.
    rates : Rates
        Of the engine.
    """
    mine = predict(index, algorithms, measure, rates)
    name = "V" if index.swapped else "U"
    if build_other is None:
        return Chosen(index, mine.algorithm, "", mine.reason)
    few_wedges = "pairs of its vertices have no more wedges than those of the other layer"
    if mine.seconds <= LEAST_S:
        return Chosen(index, mine.algorithm, few_wedges, mine.reason)
    n_edges, n_wedges = other_size()
    build_s = n_edges / EDGES_S + n_wedges / WEDGES_S
    if mine.seconds <= build_s:
        reason = (
            f"{few_wedges}, which take about {build_s:.2g} s to find, and the search {mine.seconds:.2g} s"
        )
        return Chosen(index, mine.algorithm, reason, mine.reason)
    try:
        other = build_other()
    except CapacityError:
        return Chosen(index, mine.algorithm, "pairs of the other layer do not fit the memory", mine.reason)
    theirs = predict(other, algorithms, measure, rates)
    seconds = f"probes predict {mine.seconds:.2g} s of a CPU thread with {name}, {theirs.seconds:.2g} s with the other"
    if theirs.seconds < mine.seconds:
        return Chosen(other, theirs.algorithm, seconds, theirs.reason)
    return Chosen(index, mine.algorithm, seconds, mine.reason)


def settle_search(
    question: BicliqueQuestion,
    index: Index,
    measure: Callable[[Index, Probes], Measured],
    build: Callable[[str], Index],
    rates: Rates,
) -> tuple[Index, str, tuple[Choice, ...]]:
    """Return the index to search for a question, the algorithm, and both with their reasons.

    ``build`` returns the index with a layer anchored; ``index`` is that of the layer that the rules of
    :func:`~papilio.kernels.biclique.question.choose_anchor` take. The other parameters are those of
    :func:`choose_search`.
    """
    algorithms = question.algorithms(index)
    if not algorithms:
        algorithm = question.choose_algorithm(index)
        return index, algorithm, question.explain(index, algorithm)
    chosen = choose_search(
        index,
        algorithms,
        measure,
        (lambda: build("u" if index.swapped else "v")) if question.may_turn(index) else None,
        lambda: (question.searched.n_edges, question.wedges_of(not index.swapped)),
        rates,
    )
    reasons = chosen.layer_reason, chosen.algorithm_reason
    return chosen.index, chosen.algorithm, question.explain(chosen.index, chosen.algorithm, reasons)


def predict(
    index: Index,
    algorithms: tuple[str, ...],
    measure: Callable[[Index, Probes], Measured],
    rates: Rates,
) -> Prediction:
    """Return the fastest of some algorithms on an index, and the seconds that a thread of a CPU takes."""
    sizes, cost = index.sizes, float(index.costs.sum())
    if sizes.is_empty or not index.item_root.size or index.item_root[0] < 0:
        return Prediction(algorithms[0], 0.0, "nothing is left to search")
    opened_s = cost / COSTS_S
    if sizes.max_left == 3 and "enumerate" in algorithms:
        return Prediction("enumerate", opened_s, "below a pair the search is one level deep")
    sets = comb(index.n_left, sizes.max_left - 3)
    if "enumerate" in algorithms and cost * sets <= LEAST_S * CPU_RATES.words_s:
        return Prediction("enumerate", LEAST_S, "all sets of its vertices are few")
    for n_probes in (PROBES, MORE_PROBES):
        found = measure(index, draw_probes(index, n_probes, SEED))
        on_cpu = CPU_RATES.seconds_of(found)
        seconds = opened_s + min(on_cpu[name] for name in algorithms)
        if seconds <= 10 * LEAST_S:
            break
    here = rates.seconds_of(found)
    best = min(algorithms, key=lambda name: here[name])
    reason = f"{n_probes} probes predict {here['enumerate']:.2g} s to enumerate and {here['pivot']:.2g} s with pivots"
    return Prediction(best, seconds, reason)
