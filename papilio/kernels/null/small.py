"""Samples of small bipartite graphs, drawn and counted many at a time in one compiled call.

The samples are those of :class:`papilio.kernels.null.cpu.RowTrades`, bit for bit. A sample of a small graph takes
microseconds, and preparing an engine for it many times as long.

Pairs of rows of one layer are counted row by row: each row with all rows before it. The rows of the other layer are
filled meanwhile, so that they hold just the rows before.

Motifs that a :class:`LinearForm` makes of butterflies and paths of three edges are counted in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.null.cpu import Randomizer, RowTrades, sample_keys
from papilio.kernels.null.loops import LayerRows, Vertices, trade_rows, turn_rows
from papilio.kernels.offsets import offsets_of
from papilio.kernels.search.bits import Words
from papilio.parts import Layer

FEW_WEDGES = 1 << 18
"""Wedges up to which a graph is small: from 400,000 on, preparing and running an engine is faster (0.7 to 1.2 ms).

A sample has fewer butterflies, and fewer paths of three edges, than the square of its wedges or of its edges, so that
their sums fit 64 bits."""


TIMED = 16
"""Samples that a forecast times: one is over before the clock notices."""


class SmallState(NamedTuple):
    """Rows of a thread, and a counter for each row of the layer whose pairs are counted, zero between rows."""

    u: LayerRows
    v: LayerRows
    counters: Vertices


class PairRows(NamedTuple):
    """Pairs of rows by their later row, and how many neighbours they share in the graph itself."""

    offsets: Ints  # pairs before each row, and of all
    ends: Vertices  # the earlier row of each
    common: Vertices
    places: Ints  # of each pair in the order of the caller

    @classmethod
    def of(cls, pairs: Vertices, common: Vertices, n_rows: int) -> PairRows:
        """Arrange pairs of ids, the lesser first, of shape (n_pairs, 2), of a layer with ``n_rows`` vertices."""
        places = np.argsort(pairs[:, 1], kind="stable")
        offsets = offsets_of(np.bincount(pairs[:, 1], minlength=n_rows))
        return cls(offsets, pairs[places, 0], common[places], places)


class LinearForm(NamedTuple):
    """A count as a sum of butterflies, paths of three edges and a constant, see ``Engine.in_butterflies``."""

    butterflies: int
    paths: int
    constant: int


ONE_EACH = LinearForm(1, 0, 0)
"""Of butterflies themselves."""


@compiled
def _draw(u: LayerRows, v: LayerRows, columns: Vertices, key: np.uint64, begin: int, end: int) -> None:
    """Make the global trades ``[begin, end)``; the first one begins at the graph, whose rows of U are ``columns``."""
    if begin == 0:
        for at in range(len(columns)):
            u.columns[at] = columns[at]
    trade_rows(u, v, key, begin, end)


@compiled
def _open(u: LayerRows, v: LayerRows, is_v: bool) -> None:
    """Make the rows whose pairs are counted right, and those of the other layer empty."""
    if is_v:
        turn_rows(u.offsets, u.columns, v.offsets, v.places, v.columns)
    other = u if is_v else v
    for middle in range(len(other.places)):
        other.places[middle] = other.offsets[middle]


@compiled
def _meet_row(own: LayerRows, other: LayerRows, row: Index, counters: Vertices) -> int:
    """Count the neighbours that a row shares with each row before it; return the butterflies of these pairs."""
    butterflies = 0
    for at in range(own.offsets[row], own.offsets[row + 1]):
        middle = own.columns[at]
        for to in range(other.offsets[middle], other.places[middle]):
            met = other.columns[to]
            butterflies += counters[met]
            counters[met] += 1
    return butterflies


@compiled
def _close_row(own: LayerRows, other: LayerRows, row: Index, counters: Vertices) -> None:
    """Clear the counters, and enter the row in those of the other layer."""
    for at in range(own.offsets[row], own.offsets[row + 1]):
        middle = own.columns[at]
        end = other.places[middle]
        for to in range(other.offsets[middle], end):
            counters[other.columns[to]] = 0
        other.columns[end] = row
        other.places[middle] = end + 1


@compiled
def _count_shared(offsets: Ints, one: Vertices, other: Vertices) -> int:
    """Count the edges that two graphs with the same degrees share, by the sorted rows of U."""
    shared = 0
    for row in range(len(offsets) - 1):
        end = offsets[row + 1]
        i = j = offsets[row]
        while i < end and j < end:
            shared += one[i] == other[j]
            is_left, is_right = one[i] <= other[j], other[j] <= one[i]
            i += is_left
            j += is_right
    return shared


@compiled
def _count_paths(u: LayerRows, v: LayerRows) -> int:
    """Count the paths of three edges by their middle edge."""
    paths = 0
    for row in range(len(u.places)):
        further = 0
        for at in range(u.offsets[row], u.offsets[row + 1]):
            column = u.columns[at]
            further += v.offsets[column + 1] - v.offsets[column] - 1
        paths += (u.offsets[row + 1] - u.offsets[row] - 1) * further
    return paths


@compiled
def _count_samples(
    state: SmallState, is_v: bool, columns: Vertices, keys: Words, trades: Ints, form: LinearForm, counts: Ints,
    shared: Ints,
) -> None:  # fmt: skip
    """Fill the count in the sample of each key after each of these numbers of trades; rows by key.

    ``shared``, unless empty, gets the number of edges that the graph has too.
    """
    u, v, counters = state
    own, other = (v, u) if is_v else (u, v)
    for sample in range(len(keys)):
        done = 0
        for stop in range(len(trades)):
            _draw(u, v, columns, keys[sample], done, trades[stop])
            done = trades[stop]
            if shared.size:
                shared[sample, stop] = _count_shared(u.offsets, u.columns, columns)
            paths = _count_paths(u, v) if form.paths else 0
            _open(u, v, is_v)
            butterflies = 0
            for row in range(len(own.places)):
                butterflies += _meet_row(own, other, row, counters)
                _close_row(own, other, row, counters)
            counts[sample, stop] = form.butterflies * butterflies + form.paths * paths + form.constant


@compiled
def _compare_samples(
    state: SmallState, is_v: bool, columns: Vertices, keys: Words, trades: int, pairs: PairRows, reached: Vertices
) -> None:
    """Add 1 for each sample in which a pair shares at least as many neighbours as in the graph."""
    u, v, counters = state
    own, other = (v, u) if is_v else (u, v)
    for sample in range(len(keys)):
        _draw(u, v, columns, keys[sample], 0, trades)
        _open(u, v, is_v)
        for row in range(len(own.places)):
            begin, end = pairs.offsets[row], pairs.offsets[row + 1]
            if begin < end:
                _meet_row(own, other, row, counters)
                for pair in range(begin, end):
                    reached[pairs.places[pair]] += counters[pairs.ends[pair]] >= pairs.common[pair]
            _close_row(own, other, row, counters)


def _count_wedges(degrees: NDArray[np.int64]) -> int:
    return int((degrees * (degrees - 1) // 2).sum())


@dataclass(frozen=True, eq=False)
class SmallSamples:
    """Draws samples of a small graph, and counts in them."""

    randomizer: RowTrades
    columns: Vertices  # of the rows of U in the graph
    is_v: bool  # whether pairs of V are counted
    n_wedges: int  # with ends in the layer of the pairs, in the graph and in every sample
    form: LinearForm

    @classmethod
    def of(cls, randomizer: Randomizer, layer: Layer | None = None, form: LinearForm = ONE_EACH) -> SmallSamples | None:
        """Return what counts the pairs of a layer, by default of the one with fewer wedges between its vertices.

        None if the samples are other ones, or the graph is not small.
        """
        if type(randomizer) is not RowTrades or randomizer.graph.n_edges > FEW_WEDGES:
            return None
        graph = randomizer.graph
        wedges: dict[Layer, int] = {"u": _count_wedges(graph.degree_v), "v": _count_wedges(graph.degree_u)}
        chosen = layer or ("u" if wedges["u"] <= wedges["v"] else "v")
        if wedges[chosen] > FEW_WEDGES:
            return None
        return cls(randomizer, graph.v.copy(), chosen == "v", wedges[chosen], form)

    @property
    def decision(self) -> tuple[str, str]:
        """What a plan shows."""
        return "samples at once", f"each has {self.n_wedges:,} wedges, too few to prepare it for a count"

    def make_state(self) -> SmallState:
        """Return the working memory of a thread."""
        u, v = self.randomizer.make_rows()
        return SmallState(u, v, np.zeros((v if self.is_v else u).places.size, np.int32))

    def count(self, state: SmallState, seed: int, first: int, n: int, stops: Sequence[int]) -> NDArray[np.int64]:
        """Return the counts in n samples after these numbers of steps, which rise; shape (n, n_stops)."""
        return self._count(state, seed, first, n, stops, np.empty((0, 0), np.int64))

    def follow(self, seed: int, n: int, stops: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the edges that the first n samples share with the graph, and their counts; as :meth:`count`."""
        shared = np.empty((n, len(stops)), np.int64)
        return shared, self._count(self.make_state(), seed, 0, n, stops, shared)

    def _count(
        self, state: SmallState, seed: int, first: int, n: int, stops: Sequence[int], shared: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        counts = np.empty((n, len(stops)), np.int64)
        trades = np.array(stops, np.int64) * self.randomizer.trades_per_step
        keys = sample_keys(seed, first, n)
        _count_samples(state, self.is_v, self.columns, keys, trades, self.form, counts, shared)
        return counts

    def compare(
        self, state: SmallState, seed: int, first: int, n: int, pairs: PairRows, reached: NDArray[np.int32]
    ) -> None:
        """Add 1 to ``reached`` for each of n samples in which a pair shares as many neighbours, or more."""
        randomizer = self.randomizer
        trades = randomizer.model.steps * randomizer.trades_per_step
        keys = sample_keys(seed, first, n)
        _compare_samples(state, self.is_v, self.columns, keys, trades, pairs, reached)
