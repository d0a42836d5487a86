"""Benjamini and Hochberg's procedure over the p-values of pairs, most of them never seen.

The q-value of a p-value is the least of m p' / r' over all p' that are not below p, where r' of all m p-values are at
most p' (Benjamini and Hochberg, J. R. Stat. Soc. B 57(1), 1995). As r' is at most m, a p-value above the largest
requested q-value changes no q-value up to it: only the smaller ones are kept, each different one once, with
how many there are of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PENDING = 1 << 22
"""P-values that are gathered before they are counted: 32 MiB."""


class FalseDiscovery:
    """The q-values of tests: first all p-values up to ``fdr`` are added, then each one is looked up.

    All other tests of ``n_tests`` have larger p-values. One thread adds at a time; any number look up.
    """

    def __init__(self, n_tests: int, fdr: float) -> None:
        self._n_tests, self._fdr = n_tests, fdr
        self._values, self._counts = np.empty(0), np.empty(0, np.int64)
        self._pending: list[Floats] = []
        self._q_values: Floats | None = None

    def add(self, p_values: Floats) -> None:
        """Add the p-values of some tests."""
        self._pending.append(np.array(p_values))
        if sum(each.size for each in self._pending) >= _PENDING:
            self._count()

    def _count(self) -> None:
        values, counts = np.unique(np.concatenate((np.empty(0), *self._pending)), return_counts=True)
        self._pending.clear()
        whole, places = np.unique(np.concatenate((self._values, values)), return_inverse=True)
        sums = np.zeros(whole.size, np.int64)
        np.add.at(sums, places, np.concatenate((self._counts, counts)))
        self._values, self._counts = whole, sums

    def settle(self) -> None:
        """Compute the q-values of the added p-values."""
        self._count()
        ranks = np.cumsum(self._counts)
        # n_tests / ranks is at least 1, so that no rounding makes a q-value less than its p-value
        ratios = self._values * (float(self._n_tests) / ranks)
        self._q_values = np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0)

    def count(self, p_value: float) -> int:
        """Return how many of the settled p-values are equal to one."""
        return int(self._counts[self._values == p_value].sum())

    @property
    def n_kept(self) -> int:
        """Tests whose settled q-values are at most ``fdr``."""
        assert self._q_values is not None, "they are settled first"
        return int(self._counts[self._q_values <= self._fdr].sum())

    def q_values(self, p_values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the q-values of p-values that were added, and which are at most ``fdr``."""
        assert self._q_values is not None, "they are settled first"
        found = self._q_values[np.searchsorted(self._values, p_values)]
        return found, found <= self._fdr
