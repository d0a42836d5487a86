"""(p,q)-bicliques on the CPU: the policy around :mod:`papilio.kernels.biclique.search`.

Balanced bicliques are bicliques of another graph, see :mod:`papilio.kernels.biclique.signed_cover`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique import search
from papilio.kernels.biclique.choice import RUN_RATES, plan_search
from papilio.kernels.biclique.forms import (
    Cells,
    count_choices,
    expand_leaves,
    expand_sizes,
    turn,
)
from papilio.kernels.biclique.index import BicliqueIndex, build_biclique_index, lay_graph
from papilio.kernels.biclique.items import SHORT_S, deal_index, divide_index, halve_index
from papilio.kernels.biclique.local import LeftGraph, RootGraph, make_around
from papilio.kernels.biclique.pivot import (
    WORD,
    MatrixStack,
    PivotStack,
    make_matrix_stack,
    make_pivot_stack,
)
from papilio.kernels.biclique.probe_loops import rows_near
from papilio.kernels.biclique.prober import measure_with, probe_here
from papilio.kernels.biclique.question import ask_bicliques
from papilio.kernels.biclique.signed_cover import fold_vectors
from papilio.kernels.biclique.subset import Levels, make_levels
from papilio.kernels.engine import Choice, Partial, Prepared, StopCheck, add_cells
from papilio.kernels.probe import Prober
from papilio.kernels.search.bits import grow_leaves, list_leaves, make_leaves
from papilio.kernels.threads import SERIAL_COST, ChunkRunner, SearchEngine, cut_by_cost
from papilio.motifs import Biclique, EngineOptions, Granularity, Motif
from papilio.parts import Layer, Part

JOB_SLOTS = 1 << 14
"""Initial slots of a thread's leaf table."""

CHILD_SLOTS = 1 << 9
"""Initial slots of the table of one child: few enough to stay in the first-level cache."""


@dataclass(frozen=True, eq=False)
class PreparedBicliqueCpu(Prepared):
    """A graph ready for :meth:`BicliqueCpu.run`."""

    index: BicliqueIndex
    graph: LeftGraph  # The arrays of the index that a search reads, and the rows of the right layer
    motif: Biclique
    per: Granularity
    algorithm: str  # ``enumerate`` or ``pivot``
    # Whether left sides have three vertices, which few functions count. Each way to count is compiled alone.
    counts_triples: bool
    # Maximum room that a child needs, see :func:`~papilio.kernels.biclique.search.measure_rooms`
    rooms: tuple[int, int, int, int]
    layers: tuple[int, int]  # Sizes of U and V, of the cover for balanced bicliques
    # For counts per vertex, by the number of columns that a left set shares; see count_choices of the forms
    choices: tuple[NDArray[np.uint64], ...]
    stars: dict[str, NDArray[np.uint64]]  # Counts per vertex if p or q is 1; else empty
    decisions: tuple[Choice, ...]  # Decisions and their reasons
    settled: EngineOptions  # The layer, if probes chose it

    @property
    def work(self) -> NDArray[np.int64]:
        return self.index.work

    @property
    def items(self) -> search.Items:
        return search.Items(self.index.item_root, self.index.item_first, self.index.item_last)


@dataclass(eq=False)
class _Worker:
    """State of one thread; ``place`` is the next piece."""

    around: RootGraph
    small: PivotStack
    stack: MatrixStack | None  # None where all matrices are small
    levels: Levels
    counts: search.Counts
    place: int = 0


@dataclass(eq=False)
class _VertexWorker:
    """State of one thread for counts per vertex."""

    around: RootGraph
    levels: Levels
    counts: search.VertexCounts
    place: int = 0


class BicliqueCpu(SearchEngine):
    """The CPU engine of :class:`~papilio.motifs.Biclique`; holds no graph, safe to share between threads.

    ``threads`` defaults to the number of processors available to this process. For ``algorithm`` see
    :meth:`~papilio.kernels.biclique.question.BicliqueQuestion.choose_algorithm`, for ``anchor``
    :func:`~papilio.kernels.biclique.question.choose_anchor`.
    """

    serial_cost = 1 << 14
    """In estimated set operations: one to ten milliseconds."""

    def __init__(self, threads: int | None = None, algorithm: str = "auto", anchor: str = "auto") -> None:
        if algorithm not in ("auto", "enumerate", "pivot"):
            raise InputError(f"algorithm is {algorithm!r}; expected one of auto, enumerate, pivot")
        super().__init__(threads)
        self.algorithm, self.anchor = algorithm, anchor

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedBicliqueCpu:
        question = ask_bicliques(graph, motif, per, self.anchor, self.algorithm)
        motif, searched = question.motif, question.searched

        def build(anchor: str) -> BicliqueIndex:
            index = build_biclique_index(
                searched, motif, self.threads, anchor, keep_pairs=question.keep_pairs, roots=question.roots
            )
            return halve_index(index) if motif.needs_signs else index

        graphs: dict[Layer, LeftGraph] = {}

        def graph_of(index: BicliqueIndex) -> LeftGraph:
            if index.anchor not in graphs:
                graphs[index.anchor] = lay_graph(index)
            return graphs[index.anchor]

        index, algorithm, decisions, settled = plan_search(
            question,
            build(question.anchor),
            measure_with(lambda index, children: rows_near(graph_of(index), children), self.threads),
            build,
            divide_index,
            lambda index: np.diff(index.indptr),
            self.name,
        )
        index = deal_index(index, self.hands if question.part is None else 1)
        levels = 1 if algorithm == "pivot" else index.sizes.max_left - (1 if per == "vertex" else 2)
        triples = per == "total" and algorithm == "enumerate" and index.sizes.max_left == 3
        searches = not triples and index.hop.size > 0
        choices: tuple[NDArray[np.uint64], ...] = ()
        if per == "vertex":
            choices = count_choices(int(index.hop_common.max(initial=0)), index.sizes.min_right)
        return PreparedBicliqueCpu(
            index=index,
            graph=graph_of(index),
            motif=motif,
            per=per,
            algorithm=algorithm,
            counts_triples=triples,
            rooms=search.measure_rooms(index.hop_indptr, index.hop_common, levels) if searches else (0, 0, 0, 0),
            layers=(searched.n_u, searched.n_v),
            choices=choices,
            stars=question.star_vectors(question.source) if per == "vertex" and index.closed_cells else {},
            decisions=decisions,
            settled=settled,
        )

    def prober(self, prepared: PreparedBicliqueCpu) -> Prober:
        rates = RUN_RATES["vertices" if prepared.per == "vertex" else prepared.algorithm]
        return probe_here(prepared.index, prepared.graph, prepared.algorithm, rates, self.threads)

    def _run_chunks(
        self,
        prepared: Any,
        runner: ChunkRunner[Any],
        span: tuple[int, int],
        n_slices: int,
        search: Callable[[Any, int, int], None],
        cut: StopCheck,
    ) -> int:
        """Search pieces; if the run is cut, the current item is finished."""
        index = prepared.index
        first, last = index.pieces_at(np.array(span)).tolist()
        costs = index.costs[first:last]
        serial_cost = SERIAL_COST if 0 < index.seconds < SHORT_S else self.serial_cost
        cuts = cut_by_cost(costs, self.threads, n_slices, serial_cost)
        chunks = [(first + a, first + b) for a, b in cuts]
        n_chunks = runner.run(chunks, search, cut, index.item_over, tells=True)
        if n_chunks == len(chunks):
            return span[1]
        if n_chunks == 0:
            return span[0]
        end: int = index.item_over(chunks[n_chunks - 1][1])
        (whole,) = index.pieces_at(np.array([end])).tolist()
        rest = [(a, min(b, whole)) for a, b in chunks[n_chunks:] if a < whole]
        runner.run(rest, search)
        return end

    def _make_state(self, prepared: Any) -> Any:
        return _make_vertex_worker(prepared) if prepared.per == "vertex" else _make_worker(prepared)

    def _begin(self, state: Any, item: int) -> None:
        state.place = item

    def _search(self, prepared: Any, state: Any, end: int) -> bool:
        index, sizes, graph, around = prepared.index, prepared.index.sizes, prepared.graph, state.around
        if isinstance(state, _VertexWorker):
            search.search_item_vertices(
                graph, around, state.levels, state.counts, prepared.items, state.place, end,
                sizes.min_left - 2, sizes.min_right,
            )  # fmt: skip
        elif prepared.counts_triples and index.hop.size:
            counts = search.TripleCounts(state.counts.histogram, state.levels.bins, state.counts.work)
            search.count_triples(graph, around, prepared.items, state.place, end, sizes.min_right, counts)
        elif index.hop.size:
            limits = (sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right)
            levels, items = state.levels, prepared.items
            if prepared.algorithm == "enumerate":
                search.enumerate_items(graph, around, levels, state.counts, items, state.place, end, limits)
                return True
            status, item, child = search.JOB_TABLE_FULL, state.place, 0
            while status != search.DONE:
                status, item, child = search.pivot_items(
                    graph,
                    around,
                    state.small,
                    state.stack,
                    levels,
                    state.counts,
                    items,
                    item,
                    end,
                    child,
                    limits,
                )
                state.counts = _with_room(state.counts, status)
        return True

    def _fold(self, prepared: Any, span: tuple[int, int], states: Sequence[Any]) -> Partial:
        index, n_items, counts = prepared.index, span[1] - span[0], [state.counts for state in states]
        is_first = span[0] == 0 < span[1]
        work = sum(int(one.work[0]) for one in counts)
        if prepared.per == "vertex":
            vectors = _vertex_vectors(prepared, counts, is_first and bool(index.closed_cells))
            total, min_right = index.closed_total if is_first else 0, index.sizes.min_right
            for one in counts:
                shared = {int(n): int(one.histogram[n]) for n in np.flatnonzero(one.histogram)}
                cells = expand_sizes(shared, index.sizes.min_left, range(min_right, min_right + 1))
                total += sum(cells.values())
            return Partial(n_items, total, work, vectors)
        cells = _expand(index, counts)
        if is_first:
            cells = add_cells(cells, index.closed_cells)
        return Partial(n_items, sum(cells.values()), work, {}, cells if prepared.motif.is_table else {})


def _vertex_vectors(
    prepared: PreparedBicliqueCpu, counts: list[search.VertexCounts], closed: bool
) -> dict[str, NDArray[np.uint64]]:
    """Add up the counts of the threads, by original id; with the stars if ``closed``."""
    index, (n_u, n_v) = prepared.index, prepared.layers
    if closed:
        return {layer: vector.copy() for layer, vector in prepared.stars.items()}
    left, right = ("u", "v") if index.anchor == "u" else ("v", "u")
    vectors = {"u": np.zeros(n_u, np.uint64), "v": np.zeros(n_v, np.uint64)}
    for one in counts:
        vectors[left][index.left_ids] += one.left
        vectors[right][index.right_ids] += one.right
    return fold_vectors(vectors) if prepared.motif.needs_signs else vectors


def _make_worker(prepared: PreparedBicliqueCpu) -> _Worker:
    levels, columns, words, frames = prepared.rooms
    shared = int(prepared.index.hop_common.max(initial=0)) + 1
    pivots = prepared.algorithm != "enumerate"
    counts = search.Counts(
        histogram=np.zeros(shared, np.int64),
        leaves=make_leaves(JOB_SLOTS if pivots else 2),
        child_leaves=make_leaves(CHILD_SLOTS if pivots else 2),
        work=np.zeros(1, np.int64),
    )
    enumerates = prepared.algorithm != "pivot"
    stack = make_matrix_stack(columns, words, frames) if pivots and _has_wide(prepared.index) else None
    return _Worker(
        make_around(prepared.graph),
        make_pivot_stack() if stack is None else stack.small,
        stack,
        make_levels(levels, prepared.index.sizes.max_left if enumerates else 1, shared),
        counts,
    )


def _has_wide(index: BicliqueIndex) -> bool:
    """Return whether the matrix of a child may be wider than a word; its rows are the later children."""
    return bool(max(np.diff(index.hop_indptr).max(initial=0) - 1, index.hop_common.max(initial=0)) > WORD)


def _make_vertex_worker(prepared: PreparedBicliqueCpu) -> _VertexWorker:
    index, words, (sets, members) = prepared.index, prepared.rooms[0], prepared.choices
    depth = index.sizes.min_left
    counts = search.VertexCounts(
        left=np.zeros(index.n_left, np.uint64),
        right=np.zeros(index.n_right, np.uint64),
        sets=sets,
        members=members,
        histogram=np.zeros(sets.size, np.int64),
        ids=np.empty(words, np.int32),
        sums=np.zeros(depth + 1, np.uint64),
        kids=np.zeros(int(np.diff(index.hop_indptr).max(initial=0)), np.uint64),
        columns=np.zeros(sets.size, np.uint64),
        work=np.zeros(1, np.int64),
    )
    return _VertexWorker(make_around(prepared.graph), make_levels(words, depth), counts)


def _with_room(counts: search.Counts, status: int) -> search.Counts:
    if status == search.JOB_TABLE_FULL:
        return counts._replace(leaves=grow_leaves(counts.leaves))
    if status == search.CHILD_TABLE_FULL:
        return counts._replace(child_leaves=grow_leaves(counts.child_leaves))
    return counts


def _expand(index: BicliqueIndex, counts: list[search.Counts]) -> Cells:
    sizes = index.sizes
    if sizes.is_empty or not counts:
        return {}
    lefts = range(sizes.min_left, sizes.max_left + 1)
    rights = range(sizes.min_right, sizes.max_right + 1)
    histogram = sum((one.histogram for one in counts), np.zeros_like(counts[0].histogram))
    shared = np.flatnonzero(histogram).tolist()
    cells = expand_sizes({size: int(histogram[size]) for size in shared}, lefts.start, rights)
    leaves: dict[tuple[int, int, int, int], int] = {}
    for one in counts:
        for left, right, count in list_leaves(one.leaves):
            key = left >> 32, left & 0xFFFFFFFF, right >> 32, right & 0xFFFFFFFF
            leaves[key] = leaves.get(key, 0) + count
    return turn(add_cells(cells, expand_leaves(leaves, lefts, rights)), index.anchor)
