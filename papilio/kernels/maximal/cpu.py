"""Maximal bicliques on the CPU: the policy around :mod:`papilio.kernels.maximal.roots`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.forms import Cells, turn
from papilio.kernels.biclique.index import BicliqueIndex, build_maximal_index, hash_sides
from papilio.kernels.biclique.items import deal_index
from papilio.kernels.biclique.question import explain_anchor
from papilio.kernels.engine import Choice, Partial, Prepared, add_cells, require_request
from papilio.kernels.listing import make_row_block
from papilio.kernels.maximal.loops import (
    CHECKSUM,
    NEED,
    WORDS,
    BicliqueStack,
    LeafSink,
    Limits,
    Stack,
    find_stars,
    grow_stack,
    make_stack,
)
from papilio.kernels.maximal.prober import SEARCH_RATES, MaximalProber
from papilio.kernels.maximal.roots import Dominated, Roots, lay_roots, make_near, search_items
from papilio.kernels.maximal.stars import Stars
from papilio.kernels.probe import Prober
from papilio.kernels.threads import SearchEngine
from papilio.motifs import Granularity, MaximalBiclique, Motif
from papilio.parts import MaximalPart, Part

STACK_WORDS = 1 << 16
"""Initial words of a thread's stack."""


@dataclass(frozen=True, eq=False)
class PreparedMaximalCpu(Prepared):
    """A graph ready for :meth:`MaximalBicliqueCpu.run`."""

    index: BicliqueIndex
    roots: Roots
    hashes: tuple[NDArray[np.uint64], NDArray[np.uint64]]  # of rows and columns
    stars: Stars
    cell_at: NDArray[np.int64]  # see :class:`~papilio.kernels.maximal.loops.Found`
    decisions: tuple[Choice, ...]

    @property
    def work(self) -> NDArray[np.int64]:
        return self.index.work

    def limits(self, by: int = 0) -> Limits:
        """Return the sizes to count, and the ranking."""
        sizes = self.index.sizes
        return Limits(sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right, by)


@dataclass(eq=False)
class Worker:
    """State of one thread."""

    near: Dominated
    stack: Stack
    search: BicliqueStack
    found: LeafSink

    def begin(self, item: int) -> None:
        """Go on at an item."""
        self.search.cursor[:] = (item, -1, -1, 0, 0)

    def search_items(self, prepared: PreparedMaximalCpu, limits: Limits, end: int) -> bool:
        """Search up to an item. Return whether it was reached, or the blocks of rows are full."""
        cursor = self.search.cursor
        while True:
            done = search_items(prepared.roots, self.near, self.stack, self.search, self.found, limits, end)
            if not cursor[NEED]:
                return done
            self.stack = grow_stack(self.stack, 2 * int(cursor[NEED]))
            cursor[NEED] = 0


class MaximalBicliqueCpu(SearchEngine):
    """The CPU engine of :class:`~papilio.motifs.MaximalBiclique`; holds no graph, safe to share between threads.

    ``threads`` defaults to the number of processors available to this process. For ``anchor`` see
    :func:`~papilio.kernels.biclique.question.choose_maximal_anchor`.
    """

    serial_cost = 1 << 14
    """In estimated set operations: one to ten milliseconds."""

    def __init__(self, threads: int | None = None, anchor: str = "auto") -> None:
        super().__init__(threads)
        self.anchor = anchor

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedMaximalCpu:
        require_request("cpu maximal-biclique", MaximalBiclique, graph, motif, per, MaximalPart)
        assert isinstance(graph, BipartiteGraph | MaximalPart)
        assert isinstance(motif, MaximalBiclique)
        part = graph if isinstance(graph, MaximalPart) else None
        source = graph.graph if isinstance(graph, MaximalPart) else graph
        stars = find_stars(source, motif, part)
        index = build_maximal_index(source, motif, self.threads, self.anchor, bool(stars.cells), part=part)
        index = deal_index(index, self.hands if part is None else 1)
        roots = lay_roots(index)
        return PreparedMaximalCpu(
            index=index,
            roots=roots,
            hashes=hash_sides(index),
            stars=stars,
            cell_at=place_cells(roots),
            decisions=(explain_anchor(index.anchor, self.anchor, part),),
        )

    def prober(self, prepared: PreparedMaximalCpu) -> Prober:
        known, limits = sum(prepared.stars.cells.values()), prepared.limits()
        rates, roots = SEARCH_RATES[self.name], prepared.roots
        return MaximalProber(prepared.work, known, lambda items: roots, limits, rates, self.threads)

    def _make_state(self, prepared: PreparedMaximalCpu) -> Worker:
        return make_worker(prepared, count_only(prepared))

    def _begin(self, state: Worker, item: int) -> None:
        state.begin(item)

    def _search(self, prepared: PreparedMaximalCpu, state: Worker, end: int) -> bool:
        return state.search_items(prepared, prepared.limits(), end)

    def _fold(self, prepared: PreparedMaximalCpu, span: tuple[int, int], states: Sequence[Worker]) -> Partial:
        cells = turn(_read_cells(prepared, states), prepared.index.anchor)
        checksum = sum(int(worker.found.sums[CHECKSUM]) for worker in states)
        if span[0] == 0 < span[1]:
            cells, checksum = add_cells(cells, prepared.stars.cells), checksum + prepared.stars.checksum
        work = sum(int(worker.found.sums[WORDS]) for worker in states)
        return Partial(span[1] - span[0], sum(cells.values()), work, {}, cells, checksum=checksum % (1 << 64))


def place_cells(roots: Roots) -> NDArray[np.int64]:
    """Return the start of the counts of bicliques of r rows, shape (maximum rows + 2,): by columns from 0 on.

    If two rows or more share c columns, each pair does, and all are near the first. For r rows with c columns each, at
    least r rows have at least c columns, and c columns have at least r rows.
    """
    graph = roots.graph
    of_rows, of_columns = (np.diff(side.indptr) for side in (graph.lefts, graph.rights))
    max_near, max_shared = int(np.diff(graph.hop_indptr).max(initial=-1)), graph.hop_common.max(initial=0)
    most = min(int(of_columns.max(initial=0)), max_near + 1)
    falling = np.minimum(np.sort(of_rows)[::-1][:most], max_shared)
    enough = np.searchsorted(np.sort(of_columns), np.arange(1, falling.size + 1))
    columns = np.minimum(falling, of_columns.size - enough)
    return np.concatenate((np.zeros(2, np.int64), np.cumsum(columns + 1)))


def make_worker(prepared: PreparedMaximalCpu, found: LeafSink) -> Worker:
    """Return the state of one thread."""
    hops = prepared.roots.graph
    columns = int(np.diff(hops.lefts.indptr).max(initial=0))
    rows = int(np.diff(hops.hop_indptr).max(initial=0))
    search = BicliqueStack(
        frames=np.zeros((columns + 2, 8), np.int64),
        hash_at=np.zeros(columns + 2, np.uint64),
        columns=np.empty(3 * columns + 128, np.int32),
        taken=np.empty(rows + 2, np.int32),
        shared=np.empty(columns + 1, np.int32),
        row_hashes=prepared.hashes[0],
        column_hashes=prepared.hashes[1],
        cursor=np.zeros(5, np.int64),
    )
    return Worker(make_near(prepared.roots), make_stack(STACK_WORDS), search, found)


def count_only(prepared: PreparedMaximalCpu) -> LeafSink:
    """Return the results of a thread that only counts."""
    nothing, block = np.empty(0, np.int32), make_row_block(0, 1)
    return LeafSink(
        cell_at=prepared.cell_at,
        histogram=np.zeros(int(prepared.cell_at[-1]), np.uint64),
        sums=np.zeros(3, np.uint64),
        row_places=nothing,
        column_places=nothing,
        longest=np.zeros(2, np.int64),
        rows=block,
        columns=block,
        bound=np.zeros(1, np.int64),
        heap=np.zeros(0, np.int64),
    )


def _read_cells(prepared: PreparedMaximalCpu, workers: Sequence[Worker]) -> Cells:
    counted = sum((worker.found.histogram for worker in workers), np.zeros(int(prepared.cell_at[-1]), np.uint64))
    places = np.flatnonzero(counted)
    rows = np.searchsorted(prepared.cell_at, places, side="right") - 1
    columns = places - prepared.cell_at[rows]
    return dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), counted[places].tolist(), strict=True))
