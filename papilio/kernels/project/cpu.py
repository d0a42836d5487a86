"""Projections on the CPU: which pairs of one layer are rows, counted or listed.

A work item is a vertex of the layer with the wedges to the vertices that precede it by falling degree, ties by id; the
costs are these wedges, exactly. Vertices of fewer neighbours than a pair must share are no items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Partial, Prepared, require_request
from papilio.kernels.null.fitness import solve_chances
from papilio.kernels.null.models import MAX_CLASSES
from papilio.kernels.project.loops import (
    TESTS,
    WEIGHTINGS,
    Floats,
    Ids32,
    PairQuestion,
    PairState,
    make_block,
    make_state,
    mask_counters,
    take_items,
)
from papilio.kernels.rows.index import WedgeIndex, index_wedges
from papilio.kernels.threads import Outlet, SearchEngine
from papilio.motifs import Granularity, Listing, Motif, Projection

BLOCK_ROWS = 1 << 17
"""Rows that a thread passes on at a time, at least where there are as many: 3.5 MiB."""


@dataclass(frozen=True, eq=False)
class PreparedProjection(Prepared):
    """A graph ready for :meth:`ProjectionCpu.run`."""

    index: WedgeIndex
    question: PairQuestion
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


_NO_MEANS: tuple[Ids32, Floats] = np.empty(0, np.int32), np.empty((0, 0))


def _expect_common(graph: BipartiteGraph, is_u: bool) -> tuple[Ids32, Floats]:
    """Return the expected common neighbours of two vertices of a layer by classes of degrees, and these by degree."""
    n_classes = sum(np.unique(each).size for each in (graph.degree_u, graph.degree_v))
    if n_classes > MAX_CLASSES:
        raise CapacityError(
            f"the graph has {n_classes} different degrees; expected degrees are solved for at most {MAX_CLASSES}: use "
            "significance 'hypergeometric'"
        )
    found = solve_chances(graph)
    of_u, of_v = slice(None, found.n_u_classes), slice(found.n_u_classes, None)
    own, other = (of_u, of_v) if is_u else (of_v, of_u)
    chances, sizes = found.chances[own, other], np.diff(found.offsets)[other]
    degrees = found.degrees[own]
    classes = np.zeros(int(degrees.max(initial=0)) + 1, np.int32)
    classes[degrees] = np.arange(degrees.size)
    # One thread adds in one order: no library that has its own decides on a bit
    means = np.array([(chances * row * sizes).sum(axis=1) for row in chances]).reshape(degrees.size, degrees.size)
    return classes, means


def ask_pairs(
    graph: BipartiteGraph, motif: Projection, first: int, order: Ids32, degrees: NDArray[np.int64]
) -> PairQuestion:
    """Return the question of a projection; ``degrees`` are those of the other layer by rank, falling."""
    is_u = motif.layer == "u"
    return PairQuestion(
        first,
        order,
        motif.min_common,
        mask_counters(motif.min_common),
        WEIGHTINGS.index(motif.weighting),
        _terms_of(motif.weighting, degrees),
        TESTS.index(motif.significance),
        degrees.size,
        *(_expect_common(graph, is_u) if motif.significance == "expected-degrees" else _NO_MEANS),
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
        ids = np.arange(n_own, dtype=np.int32)
        none = np.empty(0, np.int32)
        most = np.minimum(index.items - first, index.costs)
        return PreparedProjection(index, question, most, *((ids, none) if is_u else (none, ids)))

    def _make_state(self, prepared: PreparedProjection) -> PairState:
        n_rows = 0
        if self.listing is not None:
            n_rows = max(1, int(prepared.most_pairs.max(initial=0)), min(BLOCK_ROWS, int(prepared.most_pairs.sum())))
        block = make_block(prepared.question, n_rows)
        return make_state(prepared.question, prepared.index.max_degree, block)

    def _begin(self, state: PairState, item: int) -> None:
        state.cursor[0] = item

    def _search(self, prepared: PreparedProjection, state: PairState, end: int) -> bool:
        index = prepared.index
        return take_items(index.rows, index.items, prepared.most_pairs, end, prepared.question, state)

    def _pass_on(self, prepared: PreparedProjection, state: PairState, outlet: Outlet) -> None:
        block = state.block
        n = int(block.size[0])
        block.size[0] = 0
        numbers = (each[:n] for each in (block.weights, block.p_values) if each.size)
        outlet.take(block.pairs[:n], block.common[:n], *numbers)

    def _fold(self, prepared: PreparedProjection, span: tuple[int, int], states: Sequence[PairState]) -> Partial:
        found = sum(int(state.block.size[1]) for state in states)
        return Partial(span[1] - span[0], found, int(prepared.index.costs[slice(*span)].sum()))
