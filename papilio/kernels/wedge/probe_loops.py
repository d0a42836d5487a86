"""Probes of the wedge engine: one random wedge of a start, and the wedges that its two ends share.

All wedges of a start are equally likely to be drawn. With c wedges between the same two ends, the motifs of these ends
divided by c, times the wedges of the start, are an unbiased estimate of the motifs of the start. Signed motifs count
the wedges on which the ends agree separately from the others; every butterfly is in some class of a census.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.offsets import lower_bound
from papilio.kernels.probe import Prober
from papilio.kernels.rows.index import WedgeRows
from papilio.kernels.search.bits import Words
from papilio.kernels.search.probe_loops import Floats, draw_wide
from papilio.kernels.threads import ChunkRunner, cut_by_cost
from papilio.kernels.wedge.loops import counter_of, first_middle, open_middle
from papilio.motifs import BalancedButterfly, Motif

_MOST_SIZES = 1029
"""Neighbours with about as many subsets as floating point can represent; larger sizes add nothing."""


@compiled
def _find_wedge(rows: WedgeRows, row: Index, number: Index) -> tuple[np.uint32, np.uint32]:
    """Return the entry of the end and the sign of the start's edge, for a numbered wedge of a start."""
    at, before = rows.offsets[row], np.int64(0)
    while number - before >= np.int64(rows.prefix[at]):
        before += np.int64(rows.prefix[at])
        at += 1
    middle, sign = open_middle(rows, first_middle(rows, row), at)
    return rows.ends[rows.offsets[middle] + number - before], sign


@compiled
def _count_shared(rows: WedgeRows, row: Index, end: np.uint32, sign: np.uint32) -> int:
    """Return the wedges of a start with an end. With two kinds, only those with the same agreement."""
    signed = np.int64(len(rows.kinds) > 1)
    other, counter = np.int64(end) >> signed, counter_of(end, sign, rows.kinds)
    middles, shared = first_middle(rows, row), 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        length = np.int64(rows.prefix[at])
        if length:
            middle, own = open_middle(rows, middles, at)
            begin = rows.offsets[middle]
            to = lower_bound(rows.ends, begin, begin + length, other << signed)
            if (
                to < begin + length
                and np.int64(rows.ends[to]) >> signed == other
                and (len(rows.kinds) != 2 or counter_of(rows.ends[to], own, rows.kinds) == counter)
            ):
                shared += 1
    return shared


@compiled
def _probe_all(
    rows: WedgeRows,
    probes: tuple[Ints, Ints, Words],
    worth: Floats,
    begin: int,
    end: int,
    state: Words,
    found: Floats,
) -> None:
    starts, wedges, seeds = probes
    for probe in range(begin, end):
        if wedges[probe]:
            state[0] = seeds[probe]
            other, sign = _find_wedge(rows, starts[probe], draw_wide(state, wedges[probe]))
            found[probe] = wedges[probe] * worth[_count_shared(rows, starts[probe], other, sign)]


def weigh_pairs(motif: Motif, most: int) -> NDArray[np.float64]:
    """Return motifs per wedge of two ends, by their number of wedges, shape (most + 1,).

    Sums over sizes beyond the range of floating point are infinite.
    """
    shared = np.arange(most + 1, dtype=np.float64)
    worth = np.zeros(most + 1)
    first, last = 2, 2
    if isinstance(motif, BalancedButterfly):
        first, last = motif.k or 2, motif.k or motif.max_k or most
    ways = np.ones(most + 1)
    with np.errstate(over="ignore"):
        for size in range(1, min(last, most, _MOST_SIZES) + 1):
            ways *= np.maximum(shared - (size - 1), 0) / size
            if size >= first:
                worth += ways
        worth[1:] /= shared[1:]
    return worth


class WedgeProber(Prober):
    """Probes of the wedges of all items; ``load`` returns the rows, and the start of each item, on the host."""

    def __init__(
        self, costs: NDArray[np.int64], motif: Motif, load: Callable[[], tuple[WedgeRows, Ints]], threads: int
    ) -> None:
        super().__init__(costs, threads)
        self._motif, self._load = motif, load

    @cached_property
    def _whole(self) -> tuple[WedgeRows, Ints, Floats]:
        rows, starts = self._load()
        return rows, starts, weigh_pairs(self._motif, int(np.diff(rows.offsets).max(initial=0)))

    def count(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Floats:
        """Estimate the motifs of items; O(entries of the start x log of the longest row) each."""
        if not items.size:  # perhaps no graph
            return np.zeros(0)
        rows, starts, worth = self._whole
        starts, wedges, found = starts[items], self.costs[items], np.zeros(items.size)

        def walk(state: Words, begin: int, end: int) -> None:
            _probe_all(rows, (starts, wedges, seeds), worth, begin, end, state, found)

        degrees = rows.offsets[starts + 1] - rows.offsets[starts]
        runner = ChunkRunner(lambda: np.empty(1, np.uint64), self.threads)
        runner.run(cut_by_cost(16 * degrees, self.threads), walk)
        return found
