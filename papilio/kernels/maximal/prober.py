"""Probes of maximal bicliques on the host; see :mod:`.probe_loops`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.engine import EngineName
from papilio.kernels.maximal.loops import Limits
from papilio.kernels.maximal.probe_loops import probe_bicliques
from papilio.kernels.maximal.roots import Roots
from papilio.kernels.probe import Found, Prober, Rates

SEARCH_RATES: dict[EngineName, Rates] = {
    "cpu": Rates(inf, 1.1e7, 2.6e9),
    "gpu": Rates(9e10, 5.9e8, 1.2e12, 0.0014),
}
"""Speed of the search. One thread, whose items take no time besides their children: fitted to bonanza, marvel, senate,
youtube-groupmemberships and yelp2018, all sizes and large ones. One H200: fitted to ten graphs, of 1 to 380 ms; each
predicted time is 0.66 to 1.2 times the measured one."""


class MaximalProber(Prober):
    """Probes of maximal bicliques; ``rows_of`` returns the rows that the probes of some items read, on the host."""

    def __init__(
        self,
        costs: NDArray[np.int64],
        known: int,
        rows_of: Callable[[NDArray[np.int64]], Roots],
        limits: Limits,
        rates: Rates,
        threads: int,
    ) -> None:
        super().__init__(costs, threads, rates, known)
        self._rows_of, self._limits = rows_of, limits

    def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        return probe_bicliques(self._rows_of(items), self._limits, items, seeds, self.threads)
