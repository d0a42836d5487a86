"""Projections on the CPU: which pairs of one layer are rows, counted or listed.

A work item is a vertex of the layer with the wedges to the vertices that precede it by falling degree, ties by id; the
costs are these wedges, exactly. Vertices of fewer neighbours than a pair must share are no items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Partial, Prepared, require_request
from papilio.kernels.memory import TAIL_BYTES
from papilio.kernels.null.fitness import solve_chances
from papilio.kernels.null.models import MAX_CLASSES
from papilio.kernels.project.loops import (
    WEIGHTINGS,
    Ids32,
    PairQuestion,
    PairState,
    make_block,
    make_state,
    mask_counters,
    take_items,
)
from papilio.kernels.project.tails import TESTS, PValues, TailQuestion
from papilio.kernels.rows.index import WedgeIndex, index_wedges
from papilio.kernels.search.probe_loops import Floats
from papilio.kernels.threads import Outlet, SearchEngine
from papilio.motifs import Granularity, Listing, Motif, Projection

BLOCK_ROWS = 1 << 17
"""Rows that a thread passes on at a time, at least where there are as many: 3.5 MiB."""


@dataclass(frozen=True, eq=False)
class PreparedProjection(Prepared):
    """A graph ready for :meth:`ProjectionCpu.run`."""

    index: WedgeIndex
    question: PairQuestion
    p_values: PValues
    ends: NDArray[np.int64]  # with a test, the last item of each degree; else empty
    most_pairs: NDArray[np.int64]  # of each item, an upper bound
    # Ids of all vertices: a position is an id
    ids_u: NDArray[np.int32]
    ids_v: NDArray[np.int32]

    @property
    def work(self) -> NDArray[np.int64]:
        """Wedges of each item."""
        return self.index.costs


def _terms_of(weighting: str | None, degrees: NDArray[np.int64]) -> Floats:
    """Return what a common neighbour of each degree adds to the weight of a pair."""
    if weighting == "hyperbolic":
        return 1.0 / np.maximum(degrees - 1, 1)  # of degree 1 it is in no pair
    return 1.0 / np.maximum(degrees, 1) if weighting == "resource" else np.empty(0)


def _ask_tails(graph: BipartiteGraph, motif: Projection) -> TailQuestion:
    """Return the test of the pairs.

    Raises
    ------
    CapacityError
        For "expected-degrees", if there are too many different degrees.
    """
    is_u, none = motif.layer == "u", np.empty(0, np.int64)
    if motif.significance is None:
        return TailQuestion.of(0, 0, none, np.empty((0, 0)), none)
    degrees, n_choices = (graph.degree_u, graph.n_v) if is_u else (graph.degree_v, graph.n_u)
    test = TailQuestion.of(TESTS.index(motif.significance), n_choices, np.unique(degrees), np.empty((0, 0)), none)
    if motif.significance != "expected-degrees":
        return test
    n_classes = sum(np.unique(each).size for each in (graph.degree_u, graph.degree_v))
    if n_classes > MAX_CLASSES:
        raise CapacityError(
            f"the graph has {n_classes} different degrees; expected degrees are solved for at most {MAX_CLASSES}: use "
            "significance 'hypergeometric'"
        )
    found = solve_chances(graph)
    of_u, of_v = slice(None, found.n_u_classes), slice(found.n_u_classes, None)
    own, other = (of_u, of_v) if is_u else (of_v, of_u)
    # Vertices of higher degrees have higher chances: in the order of falling degrees rows fall
    chances, sizes = found.chances[own, other][:, ::-1], np.diff(found.offsets)[other][::-1]
    return test._replace(chances=np.ascontiguousarray(chances), sizes=np.ascontiguousarray(sizes))


def ask_pairs(
    graph: BipartiteGraph, motif: Projection, first: int, order: Ids32, degrees: NDArray[np.int64]
) -> PairQuestion:
    """Return the question of a projection; ``degrees`` are those of the other layer by rank, falling."""
    return PairQuestion(
        first,
        order,
        degrees.size,
        motif.min_common,
        mask_counters(motif.min_common),
        WEIGHTINGS.index(motif.weighting),
        _terms_of(motif.weighting, degrees),
        _ask_tails(graph, motif),
        1.0 if motif.fdr is None else motif.fdr,
    )


def refuse_held(listing: Listing | None) -> None:
    """Raise UnsupportedError for a listing of the pairs of some vertices alone."""
    if listing is not None and (listing.with_u or listing.with_v):
        raise UnsupportedError("a projection lists the pairs of all vertices; leave out the required ones")


class ProjectionCpu(SearchEngine):
    """Counts the pairs of a projection; with a ``listing`` it lists them.

    Rows are the two ids, the lesser first, the common neighbours and, depending on the question, weight and p-value.
    """

    def __init__(self, threads: int | None = None, listing: Listing | None = None) -> None:
        super().__init__(threads)
        refuse_held(listing)
        self.listing = listing

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> PreparedProjection:
        """Rank, index and cost the graph with the layer of the pairs first, O(n_u + n_v + n_edges)."""
        require_request("projection", Projection, graph, motif, per)
        assert isinstance(motif, Projection)
        is_u = motif.layer == "u"
        index = index_wedges(graph, first_layer=motif.layer, min_degree=motif.min_common)
        n_own, n_other = (index.n_u, index.n_v) if is_u else (index.n_v, index.n_u)
        first, begin = (0, index.n_u) if is_u else (index.n_u, 0)
        degrees = np.diff(index.offsets[begin : begin + n_other + 1])
        question = ask_pairs(graph, motif, first, index.order_u if is_u else index.order_v, degrees)
        ends = np.empty(0, np.int64)
        if question.test:  # one degree after the other: each has its table of p-values
            by_degree = np.argsort(-np.diff(index.offsets)[index.items], kind="stable")
            index = replace(index, items=index.items[by_degree], costs=index.costs[by_degree])
            ends = np.flatnonzero(np.diff(np.diff(index.offsets)[index.items], append=0))
        ids = np.arange(n_own, dtype=np.int32)
        none = np.empty(0, np.int32)
        most = np.minimum(index.items - first, index.costs)
        tails = PValues.shared(question.tail, TAIL_BYTES)
        return PreparedProjection(index, question, tails, ends, most, *((ids, none) if is_u else (none, ids)))

    def _make_state(self, prepared: PreparedProjection) -> PairState:
        block = make_block(prepared.question, self._room(prepared.most_pairs))
        return make_state(prepared.question, prepared.index.max_degree, block)

    def _room(self, most_pairs: NDArray[np.int64]) -> int:
        """Return the number of rows of a block; none in a run that only counts."""
        if self.listing is None:
            return 0
        return max(1, int(most_pairs.max(initial=0)), min(BLOCK_ROWS, int(most_pairs.sum())))

    def _begin(self, state: PairState, item: int) -> None:
        state.cursor[0] = item

    def _search(self, prepared: PreparedProjection, state: PairState, end: int) -> bool:
        index, question = prepared.index, prepared.question
        asked = index.rows, index.items, prepared.most_pairs
        if not question.test:
            return take_items(*asked, end, question, state, question.terms)
        while (at := int(state.cursor[0])) < end:
            row, last = index.items[at], int(prepared.ends[np.searchsorted(prepared.ends, at)])
            table = prepared.p_values.find_table(int(index.offsets[row + 1] - index.offsets[row]))
            if not take_items(*asked, min(end, last + 1), question, state, table):
                return False
        return True

    def _pass_on(self, prepared: PreparedProjection, state: PairState, outlet: Outlet) -> None:
        block = state.block
        n = int(block.size[0])
        block.size[0] = 0
        numbers = (each[:n] for each in (block.weights, block.p_values) if each.size)
        outlet.take(block.pairs[:n], block.common[:n], *numbers)

    def _fold(self, prepared: PreparedProjection, span: tuple[int, int], states: Sequence[PairState]) -> Partial:
        found = sum(int(state.block.size[1]) for state in states)
        return Partial(span[1] - span[0], found, int(prepared.index.costs[slice(*span)].sum()))
