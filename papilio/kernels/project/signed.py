"""Pairs of a signed layer that agree, or disagree, at more common neighbours than expected, on the CPU.

A common neighbour of a pair is concordant if both signs there are equal, else discordant. Of c common neighbours, let
one vertex be positive at a, and the other at b. If the signs are placed at random, the number X of those where both are
positive is hypergeometric, with the mean a b / c, and c - a - b + 2 X are concordant: Fisher's exact test of the 2 x 2
table of the signs (Statistical Methods for Research Workers, 5th ed., 1934). The p-value is the tail on the side of the
number found: as many concordant or more, or as many discordant or more. At the mean it is 1.

The census has the same rows and counters: four for each vertex, by both signs at a common neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Prepared, require_request
from papilio.kernels.jit import Counters, Index, Ints, compiled, inlined
from papilio.kernels.project.cpu import ProjectionCpu
from papilio.kernels.project.loops import Ids32
from papilio.kernels.project.tails import hypergeometric_tail
from papilio.kernels.rows.index import FOUR_KINDS, WedgeIndex, WedgeRows
from papilio.kernels.search.probe_loops import Floats
from papilio.kernels.threads import Outlet
from papilio.kernels.wedge.loops import Tables, for_each_start, make_tables, scan_start, visit_ends
from papilio.kernels.wedge.signed_loops import index_signed
from papilio.motifs import Granularity, Motif, Projection


class _Question(NamedTuple):
    """The question about each pair, as compiled code takes it."""

    first: int  # row of the first vertex of the layer
    order: Ids32  # ids of the layer by rank
    min_common: int
    max_p: float


class _Block(NamedTuple):
    """Rows: ids of both vertices, the lesser first, common, concordant, discordant, sign, and p-value.

    In a run that only counts all arrays but the last are empty.
    """

    pairs: Ids32
    numbers: Ids32  # shape (4, n_rows)
    p_values: Floats
    size: Ints  # rows in the block, and rows found in all; shape (2,)


class _State(NamedTuple):
    """Tables and rows of one thread."""

    tables: Tables
    cursor: Ints  # the item at which the thread stands
    block: _Block


@dataclass(frozen=True, eq=False)
class PreparedSigned(Prepared):
    """A graph ready for :meth:`SignedProjectionCpu.run`."""

    index: WedgeIndex
    question: _Question
    most_pairs: NDArray[np.int64]  # of each item, an upper bound
    # Ids of all vertices: a position is an id
    ids_u: Ids32
    ids_v: Ids32

    @property
    def work(self) -> NDArray[np.int64]:
        """Wedges of each item."""
        return self.index.costs


class SignedProjectionCpu(ProjectionCpu):
    """Counts the pairs whose p-value is small enough; with a ``listing`` it lists them.

    Rows are the two ids, the lesser first, the common neighbours, the concordant and the discordant ones, the sign (1
    if more are concordant than expected, -1 if more are discordant, else 0) and the p-value.
    """

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> PreparedSigned:  # type: ignore[override]
        """Rank, index and cost the graph with the layer of the pairs first, O(n_u + n_v + n_edges)."""
        require_request("projection", Projection, graph, motif, per)
        assert isinstance(motif, Projection)
        assert motif.fdr is not None, "set with the test"
        is_u = motif.layer == "u"
        index = index_signed(graph, motif.layer, FOUR_KINDS, motif.min_common)
        first, order = (0, index.order_u) if is_u else (index.n_u, index.order_v)
        question = _Question(first, order, motif.min_common, motif.fdr)
        ids, none = np.arange(order.size, dtype=np.int32), np.empty(0, np.int32)
        most = np.minimum(index.items - first, index.costs)
        return PreparedSigned(index, question, most, *((ids, none) if is_u else (none, ids)))

    def _make_state(self, prepared: PreparedSigned) -> _State:  # type: ignore[override]
        n_rows = self._room(prepared.most_pairs)
        size = np.zeros(2, np.int64)
        block = _Block(np.empty((n_rows, 2), np.int32), np.empty((4, n_rows), np.int32), np.empty(n_rows), size)
        n_counters = len(FOUR_KINDS) * prepared.question.order.size
        return _State(make_tables(n_counters, prepared.index.max_degree), np.zeros(1, np.int64), block)

    def _search(self, prepared: PreparedSigned, state: _State, end: int) -> bool:  # type: ignore[override]
        index = prepared.index
        return take_signed(index.rows, index.items, prepared.most_pairs, end, prepared.question, state)

    def _pass_on(self, prepared: PreparedSigned, state: _State, outlet: Outlet) -> None:  # type: ignore[override]
        block = state.block
        n = int(block.size[0])
        block.size[0] = 0
        outlet.take(block.pairs[:n], *(each[:n] for each in block.numbers), block.p_values[:n])


@inlined
def _test_end(counters: Counters, place: Index, state: tuple[_Question, _Block, Index]) -> None:
    """Make a row of a pair with enough common neighbours, unless its p-value is too large."""
    question, block, row = state
    both, neither = np.int64(counters[place]), np.int64(counters[place + 3])
    met, own = both + np.int64(counters[place + 1]), both + np.int64(counters[place + 2])  # positive ones of either
    common = met + own - both + neither
    if common < question.min_common:
        return
    more, less = max(met, own), min(met, own)  # the same bits, whichever vertex is the start
    excess = both * common - met * own
    sign, p_value = np.int64(0), 1.0
    if excess > 0:
        sign, p_value = np.int64(1), hypergeometric_tail(both, more, less, common)
    elif excess < 0:
        sign, p_value = np.int64(-1), hypergeometric_tail(more - both, more, common - less, common)
    if p_value > question.max_p:
        return
    block.size[1] += 1
    if block.p_values.size == 0:
        return
    at = block.size[0]
    block.size[0] = at + 1
    one, other = question.order[row - question.first], question.order[place >> 2]
    block.pairs[at, 0], block.pairs[at, 1] = min(one, other), max(one, other)
    block.numbers[0, at] = common
    block.numbers[1, at] = both + neither
    block.numbers[2, at] = common - both - neither
    block.numbers[3, at] = sign
    block.p_values[at] = p_value


@compiled
def _test_start(
    rows: WedgeRows, row: Index, counters: Counters, tables: Tables, state: tuple[_Question, _Block]
) -> None:
    question, block = state
    top, wedges = scan_start(rows, row, counters, tables.sums)
    visit_ends(rows, row, counters, top, wedges, _test_end, (question, block, row))


@compiled
def take_signed(
    rows: WedgeRows, items: Ints, most_pairs: Ints, stop: Index, question: _Question, state: _State
) -> bool:  # fmt: skip
    """Make rows of the pairs of the items from the cursor on; False at the first one that may find no room.

    An item has at most ``most_pairs`` pairs.
    """
    block = state.block
    while state.cursor[0] < stop:
        item = state.cursor[0]
        if block.p_values.size and block.p_values.size - block.size[0] < most_pairs[item]:
            return False
        for_each_start(rows, items, item, item + 1, state.tables, _test_start, (question, block))
        state.cursor[0] = item + 1
    return True
