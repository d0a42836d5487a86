"""Compiled probes of the wedge engine: one random wedge for each; see :mod:`papilio.kernels.wedge.probe`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.probe import VertexFound
from papilio.kernels.threads import ChunkRunner, cut_by_cost
from papilio.kernels.tree.bits import Words
from papilio.kernels.tree.probe_loops import Floats, Shares, add_share, draw_wide, make_shares, walk_groups
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
def _count_shared(rows: WedgeRows, row: Index, end: np.uint32, sign: np.uint32, value: float, shares: Shares) -> int:
    """Return the wedges of a start with an end. With two kinds, only those with the same agreement.

    Adds the value to the share of the middle of each.
    """
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
                add_share(shares, middle, value)
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
    weights: Floats,
    shares: Shares,
) -> None:
    """Run probes; ``weights`` are the factors of the probes in the shares, if there are any."""
    starts, wedges, seeds = probes
    for probe in range(begin, end):
        if wedges[probe]:
            state[0] = seeds[probe]
            other, sign = _find_wedge(rows, starts[probe], draw_wide(state, wedges[probe]))
            start, at = starts[probe], np.int64(other) >> np.int64(len(rows.kinds) > 1)
            shared = _count_shared(rows, start, other, sign, 0.0, shares)
            found[probe] = wedges[probe] * worth[shared]
            if shares.sums.size:
                value = weights[probe] * found[probe]
                add_share(shares, start, value)
                add_share(shares, at + (rows.ends_at if start < rows.n_u else rows.n_u), value)
                _count_shared(rows, start, other, sign, value * 2.0 / shared, shares)


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
        _probe_all(rows, (starts, wedges, seeds), worth, begin, end, state, found, np.empty(0), make_shares(0))

    degrees = index.offsets[starts + 1] - index.offsets[starts]
    ChunkRunner(_make_room, threads).run(cut_by_cost(16 * degrees, threads), walk)
    return found


def probe_wedge_vertices(
    index: WedgeIndex,
    motif: Motif,
    items: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    weights: Floats,
    groups: Ints,
    threads: int,
) -> VertexFound:
    """Run the same probes for motifs of four vertices, and divide each result among its vertices."""
    rows, starts, wedges = index.rows, index.items[items], index.costs[items]
    worth, found = weigh_pairs(motif, index.max_degree), np.zeros(items.size)

    def walk(state: Words, shares: Shares, begin: int, end: int) -> None:
        _probe_all(rows, (starts, wedges, seeds), worth, begin, end, state, found, weights, shares)

    names = np.concatenate((index.order_u, index.n_u + index.order_v)).astype(np.int64)
    met = walk_groups(walk, _make_room, groups, names, threads)
    return VertexFound(found, {"u": index.n_u, "v": index.n_v}, met)


def _make_room() -> Words:
    return np.empty(1, np.uint64)
