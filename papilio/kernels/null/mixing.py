"""How many trades a sample needs: a pilot of a few chains, before any sample is drawn.

A chain begins at the graph, whose count may be hundreds of standard deviations from the mean: what is left of that
after the steps of a sample is a bias of every sample. Two things show how fast it fades: the share of the edges of the
graph that a chain still has (Neal, arXiv 2305.04937: a check that does not depend on the motif), and the count itself.
Both fall about geometrically to their level, which is read at the end of the chains. Their last values that stand out
from the noise among the chains, carried on to the end, predict the bias. The steps double until it is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum, inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from papilio.kernels.null.cpu import ChainRandomizer
from papilio.kernels.null.ensemble import MOST_BIAS, MOST_DOUBLINGS
from papilio.kernels.null.small import SmallSamples
from papilio.kernels.threads import ChunkRunner

PILOT_CHAINS = 16
"""With 16 chains, a count that is 0.6 standard deviations from its level stands out."""

PILOT_SEED = 0x70A9
"""Of the chains of every pilot: the steps depend on the graph and the motif alone."""

_STOPS = (0.25, 0.5, 1.0)
"""Shares of the first steps after which chains are looked at, and doublings of the last one after that."""

_NOISE = 2.5
"""Standard errors from which on a value stands out."""

_SLOW = 0.75
"""Ratio over half of a chain from which on values do not fall."""


class Pilot(NamedTuple):
    """What a pilot has found."""

    doublings: int  # of the trades of a step
    bias: float  # predicted bias of the count after the steps of a sample, in standard deviations


def run_pilot(
    randomizer: ChainRandomizer,
    count: Callable[[Any], int],
    given: int,
    xp: Any,
    small: SmallSamples | None = None,
    threads: int = 1,
) -> Pilot:
    """Double the trades of a step until the predicted bias of a sample is at most :data:`MOST_BIAS`.

    Parameters
    ----------
    randomizer : ChainRandomizer
        Its model gives the steps of a sample; its ``trades_per_step`` are doubled.
    count : callable
        The count in a graph.
    given : int
        The count in the graph itself.
    xp : module
        Of the arrays of the graphs: NumPy, or CuPy.
    small : SmallSamples, optional
        Counts the same in many samples at once.
    threads : int
        Number of chains at a time.
    """
    steps, edges = randomizer.model.steps, xp.sort(_keys(xp, randomizer.graph))
    for doublings in range(MOST_DOUBLINGS + 1):
        stops = [max(1, round(share * steps)) for share in _STOPS] + [steps << each for each in range(1, doublings + 1)]
        if small is None:
            shared, counts = _follow(randomizer, count, edges, stops, xp, threads)
        else:
            shared, counts = (each.tolist() for each in small.follow(PILOT_SEED, PILOT_CHAINS, stops))
        shares = [[each / max(int(edges.size), 1) for each in chain] for chain in shared]
        bias = _predict_bias(shares, counts, given, stops)
        if bias <= MOST_BIAS:
            break
    randomizer.trades_per_step <<= doublings
    return Pilot(doublings, bias)


def _keys(xp: Any, graph: Any) -> Any:
    return xp.asarray(graph.u).astype(np.int64) << 32 | xp.asarray(graph.v)


def _count_shared(xp: Any, edges: Any, keys: Any) -> int:
    """Return how many of the edges, sorted, are among the others."""
    places = xp.minimum(xp.searchsorted(edges, keys), max(edges.size - 1, 0))
    return int((edges[places] == keys).sum())


def _follow(
    randomizer: ChainRandomizer, count: Callable[[Any], int], edges: Any, stops: Sequence[int], xp: Any, threads: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each chain the number of edges that it shares with the graph, and the counts, at the stops."""
    shared: list[list[int]] = [[] for _ in range(PILOT_CHAINS)]
    counts: list[list[int]] = [[] for _ in range(PILOT_CHAINS)]

    def follow(_: None, begin: int, end: int) -> None:
        for chain in range(begin, end):
            for graph in randomizer.chain(PILOT_SEED, chain, stops):
                shared[chain].append(_count_shared(xp, edges, _keys(xp, graph)))
                counts[chain].append(count(graph))

    ChunkRunner(lambda: None, threads).run([(chain, chain + 1) for chain in range(PILOT_CHAINS)], follow)
    return shared, counts


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    mean = fsum(values) / len(values)
    return mean, sqrt(fsum((each - mean) ** 2 for each in values) / (len(values) * (len(values) - 1)))


def _predict_bias(shares: list[list[float]], counts: list[list[int]], given: int, stops: Sequence[int]) -> float:
    """Return the predicted bias of the count at the last stop, in standard deviations of at least one motif."""
    mean, error = _mean_and_error([float(each[-1]) for each in counts])
    deviation = max(error * sqrt(PILOT_CHAINS), 1.0)
    begin = abs(given - mean) / deviation
    level = fsum(each[-1] for each in shares) / PILOT_CHAINS
    return max(
        begin * _carry_on(1.0, _fall(shares, max(1.0 - level, 1e-9)), stops),
        _carry_on(begin, _fall(counts, deviation), stops),
    )


def _fall(values: Sequence[Sequence[float]], unit: float) -> list[tuple[float, float]]:
    """Return at each stop but the last how far the mean of the chains is from their end, and the noise of that."""
    found = []
    for at in range(len(values[0]) - 1):
        mean, error = _mean_and_error([(each[at] - each[-1]) / unit for each in values])
        found.append((abs(mean), _NOISE * error))
    return found


def _carry_on(begin: float, values: Sequence[tuple[float, float]], stops: Sequence[int]) -> float:
    """Return the value at the last stop, from the last one that stands out and the one before, or ``begin`` at 0."""
    at = len(values) - 1
    while at >= 0 and values[at][0] <= values[at][1]:
        at -= 1
    if at < 0:
        return 0.0
    value = values[at][0]
    before, from_step = (values[at - 1][0], stops[at - 1]) if at else (begin, 0)
    ratio, span = value / before if before > 0 else inf, stops[at] - from_step
    if ratio >= _SLOW:
        return value
    for _ in range((stops[-1] - stops[at]) // span):
        value *= ratio
    return value
