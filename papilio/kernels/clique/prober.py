"""Probes of k-cliques and maximal cliques on the host; see :mod:`.probe_loops`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.maximal_loops import Earlier
from papilio.kernels.clique.order import Later
from papilio.kernels.clique.probe_loops import bound_roots, count_edges, probe_cliques, probe_maximal
from papilio.kernels.clique.question import Narrowing, weigh_maximal_roots
from papilio.kernels.probe import Found, Prober, Rates, join_lots

Roots = NDArray[np.int64]


COUNT_SHARE = 0.75
"""Share of the draws of roots by the cliques that may be below, from the neighbours that each two have in common; the
others go by cost.

A probe then deviates 0.3 times the mean from it for the 7-cliques of hidden-cliques (benchmarks/cases.py), 3.4 times
for the 18-cliques of email-Eu-core, 1.3 times for the 8-cliques of soc-Epinions1, 0.01 times for all of ca-AstroPh.
Where half of the draws went by the cliques expected with random edges, it deviated 4.8, 10, 2.2 and 0.02 times.
"""


class CliqueProber(Prober):
    """Probes of k-cliques; ``rows_of`` returns the later neighbours of some roots and of these neighbours, on the host.

    ``roots`` (n_items,) is the root of each item, ``limits`` the least and most vertices, ``per`` a code of
    :mod:`.loops`, ``max_later`` the most later neighbours of any vertex, ``narrowing`` when matrices are narrowed.
    """

    def __init__(
        self,
        costs: NDArray[np.int64],
        roots: Roots,
        rows_of: Callable[[Roots], Later],
        limits: tuple[int, int],
        oriented: bool,
        per: int,
        max_later: int,
        narrowing: Narrowing,
        rates: Rates,
        threads: int,
    ) -> None:
        super().__init__(costs, threads, rates)
        self._roots, self._rows_of, self._limits, self._narrowing = roots, rows_of, limits, narrowing
        self._search, self._max_later = (oriented, limits, per, max_later), max_later

    @cached_property
    def count_lots(self) -> NDArray[np.float64]:
        wanted = bound_roots(self._rows_of(self._roots), self._roots, self._limits, self._max_later, self.threads)
        return join_lots(np.where(wanted > 0.0, self.costs, 0), wanted, COUNT_SHARE)

    def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        roots = self._roots[items]
        return probe_cliques(self._rows_of(roots), roots, seeds, *self._search, self.threads, self._narrowing)


class MaximalCliqueProber(Prober):
    """Probes of maximal cliques of at least ``least`` vertices; ``rows_of`` returns the earlier neighbours, too."""

    def __init__(
        self,
        costs: NDArray[np.int64],
        roots: Roots,
        rows_of: Callable[[Roots], tuple[Later, Earlier]],
        least: int,
        max_later: int,
        rates: Rates,
        threads: int,
    ) -> None:
        super().__init__(costs, threads, rates)
        self._roots, self._rows_of, self._search = roots, rows_of, (least, max_later)

    @cached_property
    def count_lots(self) -> NDArray[np.float64]:
        later, _ = self._rows_of(self._roots)
        edges = count_edges(later, self._roots, self.threads)
        return weigh_maximal_roots(self.costs, np.diff(later.indptr)[self._roots], edges)

    def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        roots = self._roots[items]
        return probe_maximal(*self._rows_of(roots), roots, seeds, *self._search, self.threads)
