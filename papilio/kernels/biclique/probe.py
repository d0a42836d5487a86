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
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.biclique.items import BicliqueItems
from papilio.kernels.engine import Choice
from papilio.kernels.exact import mix

Index = TypeVar("Index", bound=BicliqueItems)

PROBES = 512
"""Branches that are drawn of each tree: enough to tell costs apart that differ by a factor of two."""

SEED = 0x70A9
"""Seed of the probes that choose: every worker of a job decides alike."""

_STEP = np.uint64(0x9E3779B97F4A7C15)


class Probes(NamedTuple):
    """Children of roots to begin at; arrays of shape (n_probes,)."""

    roots: NDArray[np.int32]
    children: NDArray[np.int64]  # places in ``hop``
    weights: NDArray[np.float64]  # children that each stands for
    seeds: NDArray[np.uint64]


class Measured(NamedTuple):
    """What probes found, each already weighted: float64, shape (n_probes,).

    Words are 64-bit words of the columns that a root shares with its child.
    """

    enumerate_words: NDArray[np.float64]
    enumerate_count: NDArray[np.float64]
    pivot_words: NDArray[np.float64]
    pivot_count: NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Speed of one kind of processor, for choices between searches: they need be right within a factor of two."""

    enumerate_words_s: float  # 64-bit words a second
    pivot_words_s: float
    pair_wedges_s: float  # wedges a second, while the pairs of an index are found
    least_s: float  # a search this short is not worth a look at the other layer


CPU_RATES = Rates(2.5e9, 2.5e8, 1.0e8, 0.01)
"""Of one thread; two cores of an x86 server with vectors of 512 bits."""

GPU_RATES = Rates(3.0e11, 6.0e9, 2.0e10, 0.004)
"""Of one H100 or H200."""


@dataclass(frozen=True)
class Estimate:
    """The work below the children of an index, by either algorithm, with standard errors of the means."""

    enumerate_words: float
    enumerate_error: float
    pivot_words: float
    pivot_error: float

    @classmethod
    def of(cls, found: Measured) -> Estimate:
        """Return the sums over all probes, and their standard errors."""

        def error(values: NDArray[np.float64]) -> float:
            return float(values.std() * np.sqrt(values.size))

        words, pivots = found.enumerate_words, found.pivot_words
        return cls(float(words.sum()), error(words), float(pivots.sum()), error(pivots))


def draw_probes(index: BicliqueItems, n_probes: int, seed: int) -> Probes:
    """Draw children of roots in proportion to the costs of their work items; the same on CPU and GPU."""
    costs = index.costs.astype(np.float64)
    ends = np.cumsum(costs)
    hashes = mix(np.arange(2 * n_probes + 1, dtype=np.uint64) * _STEP + np.uint64(seed))
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


@dataclass(frozen=True)
class Search:
    """An index, the algorithm to search it by, and the seconds that this is predicted to take."""

    index: BicliqueItems
    algorithm: str
    seconds: float
    estimate: Estimate


def choose_search(
    index: Index,
    measure: Callable[[Index, Probes], Measured],
    build_other: Callable[[], Index] | None,
    other_wedges: int,
    rates: Rates,
    algorithm: str,
) -> tuple[Index, str, tuple[Choice, ...]]:
    """Choose the layer to anchor and the algorithm by probes.

    The other layer is looked at where searching the index given takes longer, as predicted, than finding the pairs of
    that layer.

    Parameters
    ----------
    index : BicliqueItems
        The index by the layer whose pairs have fewer wedges; one size of left sides, of 4 vertices or more, or a layer
        that ``build_other`` can replace.
    measure : callable
        Walks probes of an index.
    build_other : callable, optional
        Builds the index of the other layer; None where the layer is given.
    other_wedges : int
        Wedges between pairs of the other layer.
    rates : Rates
        Of the processor, all threads together.
    algorithm : {"auto", "enumerate", "pivot"}
        As asked for.

    Returns
    -------
    index, algorithm, choices
        The index to search, the algorithm, and the reasons.
    """
    mine = _best_of(index, measure, rates, algorithm)
    build_s = other_wedges / rates.pair_wedges_s
    if build_other is None or mine.seconds <= max(rates.least_s, build_s):
        return index, mine.algorithm, _explain(mine, None, rates)
    try:
        other = build_other()
    except CapacityError:
        return index, mine.algorithm, _explain(mine, None, rates)
    theirs = _best_of(other, measure, rates, algorithm)
    if theirs.seconds < mine.seconds:
        return other, theirs.algorithm, _explain(theirs, mine, rates)
    return index, mine.algorithm, _explain(mine, theirs, rates)


def _best_of(
    index: Index, measure: Callable[[Index, Probes], Measured], rates: Rates, algorithm: str
) -> Search:
    if index.sizes.is_empty or index.item_root.size == 0 or index.item_root[0] < 0:
        return Search(index, "enumerate" if algorithm == "auto" else algorithm, 0.0, Estimate(0, 0, 0, 0))
    estimate = Estimate.of(measure(index, draw_probes(index, PROBES, SEED)))
    opened_s = float(index.costs.sum()) / rates.enumerate_words_s
    by_enumeration = opened_s + estimate.enumerate_words / rates.enumerate_words_s
    by_pivots = opened_s + estimate.pivot_words / rates.pivot_words_s
    if algorithm == "auto":
        algorithm = "enumerate" if by_enumeration <= by_pivots else "pivot"
    return Search(index, algorithm, by_enumeration if algorithm == "enumerate" else by_pivots, estimate)


def _explain(chosen: Search, other: Search | None, rates: Rates) -> tuple[Choice, ...]:
    estimate = chosen.estimate
    words = (
        f"{PROBES} probes predict {estimate.enumerate_words:.2g} words by enumeration and "
        f"{estimate.pivot_words:.2g} by pivots"
    )
    if other is None:
        return ((f"about {chosen.seconds:.2g} s of searching", words),)
    layer = "V" if other.index.swapped else "U"
    return (
        (
            f"about {chosen.seconds:.2g} s of searching",
            f"{words}; {other.seconds:.2g} s anchored at layer {layer}",
        ),
    )
