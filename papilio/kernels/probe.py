"""Probes: estimates of the cost and contents of work items, from random branches.

A probe of an item descends one random branch of its tree. Dividing the values at each node by the probability of
reaching it makes the mean over probes an unbiased estimate of any sum over the tree: nodes, words, and the count
itself (Knuth, Math. Comp. 29, 1975). Within each stratum, items are drawn in proportion to their lots
(:attr:`Prober.lots`), at equal steps from a random start, so that an item with at least as many
lots as a step is always drawn (strata as in Chen, SIAM J. Comput. 21, 1992). Intervals need independent draws instead.

The threads of the host walk them, whichever engine searches (:class:`Prober`): results depend on the graph, the items
and the seeds alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.kernels.exact import mix

N_STRATA = 16
"""Maximum number of strata of the work items."""

SEED = 0x70A9
"""Seed of the probes for decisions and predictions, fixed so that every worker of a job decides alike."""

STEP = np.uint64(0x9E3779B97F4A7C15)
"""Increment of the state of a probe, whose hash is its next random number (SplitMix64)."""


class Found(NamedTuple):
    """Results of probes: each entry is an unbiased estimate for its item alone; float64, shape (n_probes,)."""

    motifs: NDArray[np.float64]  # in all cells, for a table
    members: NDArray[np.float64]  # vertices in the rows of a listing
    nodes: NDArray[np.float64]  # of the tree
    words: NDArray[np.float64]  # 64-bit words that the search intersects


MAX_FOUND = 1e300
"""Larger numbers of sets, and larger estimates, are capped here: an infinite one times zero would be no number."""

NODES, WORDS, FIELDS = 2, 3, 4
"""Places of nodes and words among the numbers of a probe, in the order of :class:`Found`, and the number of fields."""


def unpack_found(found: NDArray[np.float64]) -> Found:
    """Return the results of probes, shape (n_probes, FIELDS), by name."""
    return Found(*found.T)


class Rates(NamedTuple):
    """Speed of a search on one thread of a CPU or on one device, correct within a factor of two."""

    costs_s: float  # estimated costs per second: the work for each item before its tree is entered
    nodes_s: float
    words_s: float
    begin_s: float = 0.0  # fixed seconds of a run
    items_s: float = inf  # items opened per second, regardless of their cost

    def seconds_of(self, costs: NDArray[np.int64], found: Found) -> NDArray[np.float64]:
        """Return the estimated seconds of the probed items, shape (n_probes,), given their ``costs``."""
        below = found.nodes / self.nodes_s + found.words / self.words_s
        seconds: NDArray[np.float64] = 1 / self.items_s + costs / self.costs_s + below
        return seconds


class Prober:
    """Random branches of one prepared search, walked by the threads of this host, whichever engine searches.

    ``costs`` is the work of every item, ``known`` the motifs that need no search, which probes omit; ``rates`` are the
    speeds of the engine, which convert results to seconds.
    """

    def __init__(self, costs: NDArray[np.int64], threads: int, rates: Rates | None = None, known: int = 0) -> None:
        self.costs, self.threads, self.known, self._rates = costs, threads, known, rates

    @property
    def rates(self) -> Rates:
        """Speeds of one thread, or of the device; UnsupportedError if only counts can be estimated."""
        if self._rates is None:
            raise UnsupportedError("the time of this count cannot be probed")
        return self._rates

    @property
    def lots(self) -> NDArray[Any]:
        """Weights by which :meth:`walk` draws items, shape (n_items,); by default their costs."""
        return self.costs

    @cached_property
    def count_lots(self) -> NDArray[Any]:
        """Weights by which :meth:`count` draws items; by default :attr:`lots`."""
        return self.lots

    def time(self) -> float | None:
        """Run one item; return the predicted seconds of all, on one thread or the device, or None (usual)."""
        return None

    def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        """Descend one random branch of the search tree of each given item, with its own seed.

        ``items`` and ``seeds`` have shape (n_probes,).
        """
        raise UnsupportedError("this count cannot be probed")

    def count(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return an unbiased estimate of the number of motifs of each given item, shape (n_probes,).

        See :meth:`walk`. A family may have a better estimator than branches of the tree.
        """
        return self.walk(items, seeds).motifs


class TimedProber(Prober):
    """Runs one item by ``run``, which returns the predicted seconds of all: for items that are alike."""

    def __init__(self, costs: NDArray[np.int64], run: Callable[[], float]) -> None:
        super().__init__(costs, 1)
        self._run = run

    def time(self) -> float:
        return self._run()


class RowProber(Prober):
    """Probes of a search whose motifs are rows of a listing, with ``held`` more vertices each.

    If rows are ``leaves``, the search visits each of them, and does not count many together.
    """

    def __init__(self, searched: Prober, held: int, *, leaves: bool, rates: Rates | None = None) -> None:
        super().__init__(searched.costs, searched.threads, rates or searched.rates, searched.known)
        self._searched, self._held, self._leaves = searched, held, leaves

    @property
    def lots(self) -> NDArray[Any]:
        return self._searched.lots

    def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        found = self._searched.walk(items, seeds)
        members, nodes = found.members + self._held * found.motifs, found.nodes + self._leaves * found.motifs
        return found._replace(members=members, nodes=nodes)


class Draws(NamedTuple):
    """Items to probe, each with its own seed; arrays of shape (n_probes,).

    The sum of weight x estimate over the probes of a stratum estimates the sum over its items.
    """

    items: NDArray[np.int64]
    weights: NDArray[np.float64]
    strata: NDArray[np.int64]  # stratum number of each
    seeds: NDArray[np.uint64]


def join_lots(costs: NDArray[np.int64], wanted: NDArray[np.float64], share: float = 0.5) -> NDArray[np.float64]:
    """Return lots by which this share of the draws is in proportion to ``wanted``, the others to the costs."""
    wanted = wanted / max(float(wanted.max(initial=0.0)), 1e-300)
    total = float(np.cumsum(wanted)[-1]) if wanted.size else 0.0
    factor = share / (1 - share) * float(costs.sum())
    lots: NDArray[np.float64] = costs + wanted * (factor / max(total, 1e-300))
    return lots


def cut_strata(lots: NDArray[Any], n_strata: int = N_STRATA) -> NDArray[np.int64]:
    """Return the bounds of strata, runs of items with about equal lots; shape (at most n_strata + 1,).

    ``lots`` is as in :func:`draw_items`. Items are heaviest first, so the items of a stratum are alike. No stratum is
    empty.
    """
    if not lots.size:
        return np.zeros(1, np.int64)
    ends = np.cumsum(lots, dtype=np.float64)
    steps = ends[-1] * np.arange(1, n_strata) / n_strata
    inner = np.searchsorted(ends, steps, side="left") + 1
    return np.unique(np.concatenate(([0], inner, [lots.size]))).astype(np.int64)


def draw_items(
    lots: NDArray[Any],
    bounds: NDArray[np.int64],
    n_probes: NDArray[np.int64],
    seed: int,
    *,
    independent: bool = False,
) -> Draws:
    """Draw items of every stratum in proportion to their lots. Pure, with the same result everywhere.

    ``lots``, shape (n_items,), holds the weights of all items (:attr:`Prober.lots`), above 0 if
    an item has anything to search; ``bounds`` comes from :func:`cut_strata`; ``n_probes``, int64 (n_strata,), is the
    number of probes of each stratum. ``independent`` draws every item independently, as intervals require, instead of
    at equal steps.
    """
    ends = np.concatenate(([0.0], np.cumsum(lots, dtype=np.float64)))
    total = int(n_probes.sum())
    hashes = mix(np.arange(total + n_probes.size, dtype=np.uint64) * STEP + np.uint64(seed))
    starts = (hashes[total:] >> np.uint64(11)).astype(np.float64) / 2.0**53
    strata = np.repeat(np.arange(n_probes.size), n_probes)
    place = np.arange(total) - np.repeat(np.cumsum(n_probes) - n_probes, n_probes)
    work = ends[bounds[1:]] - ends[bounds[:-1]]
    step = work / np.maximum(n_probes, 1)
    within = place + starts[strata]
    if independent:
        drawn = mix(np.arange(total, 2 * total, dtype=np.uint64) * STEP + ~np.uint64(seed))
        within = (drawn >> np.uint64(11)).astype(np.float64) / 2.0**53 * n_probes[strata]
    at = ends[bounds[:-1]][strata] + within * step[strata]
    items = np.clip(np.searchsorted(ends, at, side="right") - 1, bounds[strata], bounds[strata + 1] - 1)
    has_lots = lots[items] > 0
    weights = np.where(has_lots, step[strata] / np.where(has_lots, lots[items], 1), 0.0)
    return Draws(items, weights, strata, hashes[:total])


def count_ways(most: int, low: int, high: int) -> NDArray[np.float64]:
    """Return the number of sets of ``low`` to ``high`` of n elements, float64, for n up to ``most``; (most + 1,)."""
    n = np.arange(most + 1, dtype=np.float64)
    ways = np.ones(most + 1)
    for taken in range(low):
        ways = np.minimum(ways * np.maximum(n - taken, 0.0) / (taken + 1), MAX_FOUND)
    total = ways
    for taken in range(low, min(high, most)):
        ways = np.minimum(ways * np.maximum(n - taken, 0.0) / (taken + 1), MAX_FOUND)
        total = total + ways
    return total
