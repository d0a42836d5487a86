"""Compiled probes of the wedge engine: one random wedge for each; see :mod:`papilio.kernels.wedge.probe`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.threads import ChunkRunner, cut_by_cost
from papilio.kernels.tree.bits import Words
from papilio.kernels.tree.probe_loops import Floats, draw_wide
from papilio.kernels.wedge.graph import WedgeIndex, WedgeRows
from papilio.kernels.wedge.loops import counter_of, first_middle, open_middle
from papilio.kernels.wedge.part import WedgePartIndex, lower_bound
from papilio.kernels.wedge.probe import weigh_pairs
from papilio.motifs import Motif


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


def probe_wedges(
    index: WedgeIndex | WedgePartIndex,
    motif: Motif,
    items: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    threads: int,
) -> Floats:
    """Return the motifs that each probe finds; O(entries of the start x log of the longest row) each."""
    rows, starts, wedges = index.rows, index.items[items], index.costs[items]
    worth, found = weigh_pairs(motif, index.max_degree), np.zeros(items.size)

    def walk(state: Words, begin: int, end: int) -> None:
        _probe_all(rows, (starts, wedges, seeds), worth, begin, end, state, found)

    degrees = index.offsets[starts + 1] - index.offsets[starts]
    ChunkRunner(lambda: np.empty(1, np.uint64), threads).run(cut_by_cost(16 * degrees, threads), walk)
    return found
