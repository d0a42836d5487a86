"""The loops that peel wings: rounds of the coarse phase, and the exact peeling of one range.

Input: a :class:`~papilio.kernels.peel.blooms.BloomIndex`. In a bloom, wedges with both edges left come before the
wedges that have lost one; ``ends`` is where the latter begin, so ``ends - offsets`` is the number k of remaining
wedges. In a round all edges are removed at once. A bloom that loses r of k wedges in it takes r butterflies from each
edge of the wedges that stay, and k - 1 from an edge whose twin is removed.

If both edges of a wedge go in one round, the one with the greater id removes the wedge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.jit import Bools, Index, Ints, compiled, fetch_add
from papilio.kernels.offsets import offsets_of
from papilio.kernels.peel.blooms import BloomIndex
from papilio.kernels.peel.cpu import (
    GOING,
    GONE,
    Items,
    Numbers,
    Round,
    States,
    Window,
    begin_round,
    end_round,
    lower_support,
    take_least,
)


class LeftBlooms(NamedTuple):
    """Remaining wedges of the blooms in the coarse phase."""

    ends: Ints
    """End of the wedges with both edges left, for each bloom, shape (n_blooms,)."""
    left: Ints
    """Current number of wedges of each bloom."""
    touched: Items
    """Blooms that lose wedges in the current round."""
    n_touched: Ints
    """Number of them, shape (1,)."""


@compiled
def sum_supports(blooms: BloomIndex, start: Index, stop: Index, supports: Ints) -> None:
    """Write the supports of the edges ``[start, stop)``: an edge has k - 1 butterflies in a bloom of k wedges."""
    for edge in range(start, stop):
        total = np.int64(0)
        for at in range(blooms.link_offsets[edge], blooms.link_offsets[edge + 1]):
            bloom = blooms.link_bloom[at]
            total += blooms.offsets[bloom + 1] - blooms.offsets[bloom] - 1
        supports[edge] = total


@compiled
def take_wedges(going: Items, start: Index, stop: Index, states: States, blooms: BloomIndex, rest: LeftBlooms) -> None:
    """Take the wedges of the edges ``going[start:stop]`` from ``left``, and list each bloom when first touched.

    Run by several threads at once, each with its own edges.
    """
    for place in range(start, stop):
        edge = going[place]
        for at in range(blooms.link_offsets[edge], blooms.link_offsets[edge + 1]):
            twin = blooms.link_twin[at]
            if states[twin] == GONE or (states[twin] == GOING and twin > edge):
                continue
            bloom = blooms.link_bloom[at]
            if fetch_add(rest.left, bloom, np.int64(-1)) == rest.ends[bloom] - blooms.offsets[bloom]:
                rest.touched[fetch_add(rest.n_touched, 0, np.int64(1))] = bloom


@compiled
def spread_losses(
    start: Index, stop: Index, blooms: BloomIndex, rest: LeftBlooms, round_: Round, updates: Ints
) -> None:
    """Lower the supports of the edges of the blooms ``touched[start:stop]``, and move their lost wedges to the end.

    Run by several threads at once, each with its own blooms; ``updates`` belongs to the thread.
    """
    first, second, states = blooms.first, blooms.second, round_.states
    for place in range(start, stop):
        bloom = rest.touched[place]
        begin, end = blooms.offsets[bloom], rest.ends[bloom]
        twin_loss = end - begin - 1
        loss = end - begin - rest.left[bloom]
        at = begin
        while at < end:
            one, other = first[at], second[at]
            one_goes, other_goes = states[one] == GOING, states[other] == GOING
            if not one_goes and not other_goes:
                lower_support(round_, one, loss)
                lower_support(round_, other, loss)
                updates[0] += 2
                at += 1
                continue
            if not one_goes:
                lower_support(round_, one, twin_loss)
                updates[0] += 1
            elif not other_goes:
                lower_support(round_, other, twin_loss)
                updates[0] += 1
            end -= 1
            first[at], second[at] = first[end], second[end]
            first[end], second[end] = one, other
        rest.ends[bloom] = end


@compiled
def measure_segments(
    blooms: BloomIndex,
    ranges: Items,
    is_open: Bools,
    start: Index,
    stop: Index,
    counts: Ints,
    met: Ints,
    sizes: Ints,
) -> None:
    """Count the segments and wedges of each range in the blooms ``[start, stop)``: ``sizes``, (2, n_ranges).

    The range of a wedge is the lower one of its edges. The wedges of one bloom in one open range form a segment, unless
    the bloom has no other wedge in that range or a higher one. ``counts``, all 0, and ``met`` have room for a number
    per range.
    """
    for bloom in range(start, stop):
        n_met = _count_ranges(blooms, ranges, bloom, counts, met)
        higher = np.int64(0)
        for place in range(n_met):
            count = counts[met[place]]
            counts[met[place]] = 0
            higher += count
            if higher > 1 and is_open[met[place]]:
                sizes[0, met[place]] += 1
                sizes[1, met[place]] += count


@compiled
def _count_ranges(blooms: BloomIndex, ranges: Items, bloom: Index, counts: Ints, met: Ints) -> int:
    """Count the wedges of a bloom by range. Write the ranges met, descending, and return their number."""
    n = 0
    for at in range(blooms.offsets[bloom], blooms.offsets[bloom + 1]):
        lower = min(ranges[blooms.first[at]], ranges[blooms.second[at]])
        if counts[lower] == 0:
            place = n
            while place > 0 and met[place - 1] < lower:
                met[place] = met[place - 1]
                place -= 1
            met[place] = lower
            n += 1
        counts[lower] += 1
    return n


@compiled
def fill_segments(
    blooms: BloomIndex,
    ranges: Items,
    is_open: Bools,
    start: Index,
    stop: Index,
    places: Ints,
    segment_starts: Ints,
    segment_counts: Ints,
    one: Items,
    other: Items,
    counts: Ints,
    met: Ints,
    cursors: Ints,
) -> None:
    """Write the segments of the blooms ``[start, stop)`` from ``places`` (as measured: segments, wedges) on.

    ``segment_counts`` has the wedges of the bloom in the range or higher ones. ``counts``, all 0, ``met`` and
    ``cursors`` have room for a number per range.
    """
    for bloom in range(start, stop):
        n_met = _count_ranges(blooms, ranges, bloom, counts, met)
        higher = np.int64(0)
        for place in range(n_met):
            lower = met[place]
            count = counts[lower]
            counts[lower] = 0
            higher += count
            cursors[lower] = -1
            if higher > 1 and is_open[lower]:
                segment_starts[places[0, lower]] = places[1, lower]
                segment_counts[places[0, lower]] = higher
                cursors[lower] = places[1, lower]
                places[0, lower] += 1
                places[1, lower] += count
        for at in range(blooms.offsets[bloom], blooms.offsets[bloom + 1]):
            lower = min(ranges[blooms.first[at]], ranges[blooms.second[at]])
            to = cursors[lower]
            if to >= 0:
                one[to], other[to] = blooms.first[at], blooms.second[at]
                cursors[lower] = to + 1


class WingRange(NamedTuple):
    """One range during peeling. Its edges have local ids; in wedges, -1 is an edge of a higher range."""

    starts: Ints
    """Start of the wedges of each segment in ``one`` and ``other``, shape (n_segments + 1,)."""
    ends: Ints
    """End of the wedges with both edges left."""
    counts: Ints
    """Wedges of each segment before the round, with the wedges of higher ranges."""
    left: Ints
    """Current number of wedges of each segment."""
    one: Items
    other: Items
    link_offsets: Ints
    link_segment: Items
    link_twin: Items
    supports: Ints
    states: States


@compiled
def _link_range(starts: Ints, one: Items, other: Items, cursors: Ints, segments: Items, twins: Items) -> None:
    for segment in range(starts.size - 1):
        for at in range(starts[segment], starts[segment + 1]):
            a, b = one[at], other[at]
            if a >= 0:
                segments[cursors[a]], twins[cursors[a]] = segment, b
                cursors[a] += 1
            if b >= 0:
                segments[cursors[b]], twins[cursors[b]] = segment, a
                cursors[b] += 1


@compiled
def _enter_range(
    number: int, local: Items, ranges: Items, starts: Ints, counts: Ints, one: Items, other: Items,
    supports: Ints, links: Ints,
) -> None:  # fmt: skip
    for segment in range(starts.size - 1):
        for at in range(starts[segment], starts[segment + 1]):
            for edges in (one, other):
                edge = edges[at]
                if ranges[edge] == number:
                    edges[at] = local[edge]
                    supports[local[edge]] += counts[segment] - 1
                    links[local[edge]] += 1
                else:
                    edges[at] = -1


def enter_range(
    number: int, n: int, local: Items, ranges: Items, starts: Ints, counts: Ints, one: Items, other: Items
) -> WingRange:
    """Give the ``n`` edges of a range their local ids in its wedges, sum up their supports and link them."""
    supports, links = np.zeros((2, n), np.int64)
    _enter_range(number, local, ranges, starts, counts, one, other, supports, links)
    offsets = offsets_of(links)
    segments, twins = np.empty((2, int(offsets[-1])), np.int32)
    _link_range(starts, one, other, offsets[:-1].copy(), segments, twins)
    return WingRange(
        starts, starts[1:].copy(), counts, counts.copy(), one, other, offsets, segments, twins, supports,
        np.zeros(n, np.uint8),
    )  # fmt: skip


@compiled
def _take(part: WingRange, going: Items, touched: Items) -> Index:
    """Take the wedges of the removed edges from ``left``. List the touched segments, and return their number."""
    n = 0
    for edge in going:
        for at in range(part.link_offsets[edge], part.link_offsets[edge + 1]):
            twin = part.link_twin[at]
            if twin >= 0 and (part.states[twin] == GONE or (part.states[twin] == GOING and twin > edge)):
                continue
            segment = part.link_segment[at]
            if part.left[segment] == part.counts[segment]:
                touched[n] = segment
                n += 1
            part.left[segment] -= 1
    return n


@compiled
def _spread(part: WingRange, touched: Items, level: Index, window: Window, following: Items) -> tuple[Index, int]:
    """Lower the supports of the edges of the touched segments, and move their lost wedges to the end.

    Writes items that reach the level to ``following``; the window holds the items that fall below its bound. Returns
    (number that follow, updates).
    """
    n_following: Index = 0
    n_held, bound = window.places[1], window.places[2]
    updates = 0
    for segment in touched:
        loss = part.counts[segment] - part.left[segment]
        twin_loss = part.counts[segment] - 1
        part.counts[segment] = part.left[segment]
        at, end = part.starts[segment], part.ends[segment]
        while at < end:
            a, b = part.one[at], part.other[at]
            a_goes, b_goes = a >= 0 and part.states[a] == GOING, b >= 0 and part.states[b] == GOING
            goes = a_goes or b_goes
            lost = twin_loss if goes else loss
            for edge, stays in ((a, not a_goes), (b, not b_goes)):
                if edge < 0 or not stays:
                    continue
                updates += 1
                before = part.supports[edge]
                after = before - lost
                part.supports[edge] = after
                if after <= level < before:
                    following[n_following] = edge
                    n_following += 1
                elif level < after < bound <= before:
                    window.held[n_held] = edge
                    n_held += 1
            if goes:
                end -= 1
                part.one[at], part.other[at] = part.one[end], part.other[end]
            else:
                at += 1
        part.ends[segment] = end
    window.places[1] = n_held
    return n_following, updates


@compiled
def peel_wing_slice(part: WingRange, window: Window, touched: Items, numbers: Numbers, stats: Ints, most: int) -> bool:
    """Peel a range until about ``most`` updates are done; return whether it is finished.

    ``window`` and ``numbers`` cover its local edges, ``touched`` is room for its segments; rounds and updates are added
    to ``stats``.
    """
    effort: Index = 0
    while effort < most:
        n_going, level = take_least(window, part.states, part.supports)
        if n_going == 0:
            return True
        going, following = window.going, window.following
        effort += window.places[1] + n_going
        while n_going > 0:
            begin_round(going[:n_going], part.states, numbers, level)
            n_touched = _take(part, going[:n_going], touched)
            n_following, updates = _spread(part, touched[:n_touched], level, window, following)
            end_round(going[:n_going], part.states, window, stats, updates)
            effort += updates
            going, following = following, going
            n_going = n_following
    return False
