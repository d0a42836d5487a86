"""Probes of (p,q)-bicliques, on the host; see :mod:`.choice` and :mod:`.probe_loops`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.choice import Children, Measure
from papilio.kernels.biclique.index import BicliqueIndex
from papilio.kernels.biclique.items import BicliqueItems
from papilio.kernels.biclique.local import LeftGraph
from papilio.kernels.biclique.probe_loops import (
    Near,
    NearOf,
    measure_counts,
    measure_probes,
    rows_near,
    weigh_pieces,
)
from papilio.kernels.probe import Found, Prober, Rates, join_lots

COUNT_SHARE = 0.75
"""Share of the draws of items by their expected bicliques; the others, by cost, meet items that hold far more.

With a quarter by cost and :data:`~papilio.kernels.biclique.probe_loops.EVEN`, a probe deviates 13 times the mean from
it on marvel, (8,8), 10 on youtube-groupmemberships, (8,8), and 1.36 on movielens-100k, (6,6). Without either it
deviates 30 times or more, 14 and 1.2 times.
"""


class BicliqueProber(Prober):
    """Probes of an index; ``near_of`` and ``load`` return some of its rows, and all, on the host."""

    def __init__(
        self,
        index: BicliqueItems,
        algorithm: str,
        near_of: NearOf,
        load: Callable[[], tuple[BicliqueIndex, LeftGraph]],
        rates: Rates,
        threads: int,
    ) -> None:
        super().__init__(index.work, threads, rates, index.closed_total)
        self._index, self._algorithm, self._near_of, self._load = index, algorithm, near_of, load

    @property
    def lots(self) -> NDArray[np.float64]:
        return self._index.lots

    @cached_property
    def _whole(self) -> tuple[BicliqueIndex, LeftGraph]:
        return self._load()

    @cached_property
    def count_lots(self) -> NDArray[np.float64]:
        wanted = self._index.sum_pieces(weigh_pieces(self._whole[0]))
        return join_lots(np.where(wanted > 0.0, self.costs, 0), wanted, COUNT_SHARE)

    def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        walks = (self._algorithm,)
        return measure_probes(self._index, self._near_of, items, seeds, walks, self.threads)[self._algorithm]

    def count(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> NDArray[np.float64]:
        return measure_counts(*self._whole, items, seeds, self.threads)


def measure_with(near_of: Callable[[Any, Children], Near], threads: int) -> Measure[Any]:
    """Return the function that probes an index, for the choice of the search."""

    def measure(
        index: BicliqueItems, items: NDArray[np.int64], seeds: NDArray[np.uint64], walks: tuple[str, ...]
    ) -> Mapping[str, Found]:
        return measure_probes(index, partial(near_of, index), items, seeds, walks, threads)

    return measure


def probe_here(index: BicliqueIndex, graph: LeftGraph, algorithm: str, rates: Rates, threads: int) -> BicliqueProber:
    """Return the prober of an index on the host."""
    return BicliqueProber(index, algorithm, partial(rows_near, graph), lambda: (index, graph), rates, threads)
