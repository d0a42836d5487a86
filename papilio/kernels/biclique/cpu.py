"""(p,q)-bicliques on the CPU: the policy around :mod:`papilio.kernels.biclique.search`.

Balanced ones are bicliques of another graph, see :mod:`papilio.kernels.biclique.signed_cover`.
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
from papilio.kernels.biclique.forms import (
    Cells,
    add_cells,
    expand_leaves,
    expand_sizes,
    turn,
)
from papilio.kernels.biclique.index import (
    BicliqueIndex,
    build_biclique_index,
    halve_index,
    lay_graph,
)
from papilio.kernels.biclique.local import Around, LeftGraph, make_around
from papilio.kernels.biclique.question import ask_bicliques
from papilio.kernels.biclique.signed_cover import fold_vectors
from papilio.kernels.biclique.vertices import VertexCounts, make_vertex_counts, search_item_vertices
from papilio.kernels.engine import Choice, Cut, Partial, never_cut, require_interval
from papilio.kernels.exact import choose_modulo
from papilio.kernels.threads import ChunkRunner, CpuEngine, cut_by_cost
from papilio.kernels.tree.bits import grow_leaves, list_leaves, make_leaves
from papilio.kernels.tree.pivot import MatrixStack, make_matrix_stack
from papilio.kernels.tree.subset import Levels, make_levels
from papilio.motifs import Biclique, Granularity, Motif
from papilio.parts import Part

JOB_SLOTS = 1 << 14
"""Slots of a thread's leaf table at first."""

SERIAL_COST = 1 << 14
"""Below this many estimated set operations (a millisecond to ten) threads cost more than they bring."""

CHILD_SLOTS = 1 << 9
"""Slots of the table of one child at first: few enough to stay in the first-level cache."""


@dataclass(frozen=True, eq=False)
class PreparedBicliqueCpu:
    """A graph ready for :meth:`BicliqueCpu.run`."""

    index: BicliqueIndex
    graph: LeftGraph  # The arrays of the index that a search reads, and the rows of the right layer
    motif: Biclique
    per: Granularity
    algorithm: str  # What runs; ``auto`` here is the race of both, child by child
    counts_triples: (
        bool  # Whether left sides have three vertices, which few functions count: fewer to compile
    )
    # Most room that a child needs, see :func:`~papilio.kernels.biclique.search.measure_rooms`
    rooms: tuple[int, int, int, int]
    layers: tuple[int, int]  # Sizes of U and V, of the cover for balanced bicliques
    stars: dict[str, NDArray[np.uint64]]  # The answer for every vertex where p or q is 1; else empty
    decisions: tuple[Choice, ...]  # What was decided, and why

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return self.index.n_items

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        extra = (*self.graph.rights, self.graph.after)
        return self.index.nbytes + sum(array.nbytes for array in extra)


@dataclass(eq=False)
class _Worker:
    """What one thread has of its own."""

    around: Around
    stack: MatrixStack
    levels: Levels
    counts: search.Counts


_CODES = {"enumerate": search.ENUMERATE, "pivot": search.PIVOT, "auto": search.RACE}


class BicliqueCpu(CpuEngine):
    """The CPU engine of :class:`~papilio.motifs.Biclique`; holds no graph, safe to share between threads.

    ``threads`` of one run are by default the processors that this process may use. For ``algorithm`` see
    :meth:`~papilio.kernels.biclique.question.BicliqueQuestion.choose_algorithm`, for ``anchor``
    :func:`~papilio.kernels.biclique.question.choose_anchor`.
    """

    def __init__(self, threads: int | None = None, algorithm: str = "auto", anchor: str = "auto") -> None:
        if algorithm not in _CODES:
            raise InputError(f"algorithm is {algorithm!r}; known: auto, enumerate, pivot")
        super().__init__(threads)
        self.algorithm, self.anchor = algorithm, anchor

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedBicliqueCpu:
        """Build the index; see :func:`~papilio.kernels.biclique.index.build_biclique_index`.

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity, where ``enumerate`` cannot count what is asked, for a part
            of another layer than the one to be anchored, and for balanced bicliques of a part.
        CapacityError
            When the pairs of left vertices do not fit the memory.
        """
        question = ask_bicliques(graph, motif, per, self.anchor, self.algorithm)
        motif, searched = question.motif, question.searched
        index = build_biclique_index(
            searched,
            motif,
            self.threads,
            question.anchor,
            keep_pairs=question.keep_pairs,
            roots=question.roots,
        )
        if motif.needs_signs:
            index = halve_index(index)
        algorithm = question.choose_algorithm(index)
        levels = 1 if algorithm == "pivot" else index.sizes.most_left - (1 if per == "vertex" else 2)
        triples = per == "total" and algorithm == "enumerate" and index.sizes.most_left == 3
        searches = not triples and index.hop.size > 0
        return PreparedBicliqueCpu(
            index=index,
            graph=lay_graph(index),
            motif=motif,
            per=per,
            algorithm=algorithm,
            counts_triples=triples,
            rooms=search.measure_rooms(index.hop_indptr, index.hop_common, levels)
            if searches
            else (0, 0, 0, 0),
            layers=(searched.n_u, searched.n_v),
            stars=question.star_vectors(question.source) if per == "vertex" and index.closed_cells else {},
            decisions=question.explain(index, algorithm),
        )

    def work(self, prepared: PreparedBicliqueCpu) -> NDArray[np.int64]:
        """Return the estimated set operations of each item, shape (n_items,); heaviest first, but for a part."""
        return prepared.index.work

    def run(
        self,
        prepared: PreparedBicliqueCpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
    ) -> Partial:
        """Count exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        Raises
        ------
        InputError
            When the interval is not within ``[0, n_items]``.
        """
        require_interval(start, stop, prepared.n_items)
        span, n_slices = (start, stop), len(bounds) + 1
        if prepared.per == "vertex":
            return self._run_vertices(prepared, span, n_slices, cut)
        index, sizes = prepared.index, prepared.index.sizes
        items = search.Items(index.item_root, index.item_first, index.item_last)
        limits = (sizes.least_left, sizes.most_left, sizes.least_right, sizes.most_right)
        code = _CODES[prepared.algorithm]

        def count(worker: _Worker, begin: int, end: int) -> None:
            if not index.hop.size:
                return
            if prepared.counts_triples:
                counts = search.TripleCounts(worker.counts.histogram, worker.levels.bins, worker.counts.work)
                search.count_triples(
                    prepared.graph, worker.around, items, begin, end, sizes.least_right, counts
                )
                return
            status, item, child = search.JOB_TABLE_FULL, begin, 0
            while status != search.DONE:
                status, item, child = search.search_items(
                    prepared.graph, worker.around, worker.stack, worker.levels, worker.counts,
                    items, item, end, child, limits, code,
                )  # fmt: skip
                worker.counts = _with_room(worker.counts, status)

        runner = ChunkRunner(lambda: _make_worker(prepared), self.threads)
        n_items = self._run_pieces(runner, index, span, n_slices, count, cut)
        counts = [worker.counts for worker in runner.states]
        cells = _expand(index, counts)
        if start == 0 and n_items:
            cells = add_cells(cells, index.closed_cells)
        work = sum(int(one.work[0]) for one in counts)
        return Partial(n_items, sum(cells.values()), work, {}, cells if prepared.motif.is_table else {})

    def _run_pieces(
        self,
        runner: ChunkRunner[Any],
        index: BicliqueIndex,
        span: tuple[int, int],
        n_slices: int,
        count: Callable[[Any, int, int], None],
        cut: Cut,
    ) -> int:
        """Search the pieces of the items ``span``, or, when cut, of the first of them; return how many items."""
        start, stop = span
        first, last = index.pieces_at(span)
        costs = index.costs[first:last]
        chunks = [(first + a, first + b) for a, b in cut_by_cost(costs, self.threads, n_slices, SERIAL_COST)]
        n_chunks = runner.run(chunks, count, cut)
        if n_chunks == len(chunks):
            return stop - start
        if n_chunks == 0:
            return 0
        reached = chunks[n_chunks - 1][1]
        end = index.item_over(reached)
        (whole,) = index.pieces_at([end])
        rest = [(a, min(b, whole)) for a, b in chunks[n_chunks:] if a < whole]
        runner.run(rest, count)
        return end - start

    def _run_vertices(
        self, prepared: PreparedBicliqueCpu, span: tuple[int, int], n_slices: int, cut: Cut
    ) -> Partial:
        index = prepared.index
        items = search.Items(index.item_root, index.item_first, index.item_last)
        least_left, least_right = index.sizes.least_left, index.sizes.least_right
        most = int(index.hop_common.max(initial=0))
        sets = choose_modulo(most, least_right)
        members = np.zeros_like(sets)
        members[1:] = choose_modulo(most, least_right - 1)[:-1]
        kids = int(np.diff(index.hop_indptr).max(initial=0))
        words = prepared.rooms[0]

        def make_worker() -> tuple[Around, Levels, VertexCounts]:
            counts = make_vertex_counts(
                (index.n_left, index.n_right), sets, members, (words, least_left, kids)
            )
            return make_around(prepared.graph), make_levels(words, least_left), counts

        def count(worker: tuple[Around, Levels, VertexCounts], begin: int, end: int) -> None:
            search_item_vertices(prepared.graph, *worker, items, begin, end, least_left - 2, least_right)

        runner = ChunkRunner(make_worker, self.threads)
        n_items = self._run_pieces(runner, index, span, n_slices, count, cut)
        closed = span[0] == 0 and n_items > 0 and bool(index.closed_cells)
        vectors = _vertex_vectors(prepared, [counts for _, _, counts in runner.states], closed)
        total = index.closed_total if closed else 0
        for _, _, counts in runner.states:
            shared = {int(n): int(counts.histogram[n]) for n in np.flatnonzero(counts.histogram)}
            total += sum(expand_sizes(shared, least_left, range(least_right, least_right + 1)).values())
        work = sum(int(counts.work[0]) for _, _, counts in runner.states)
        return Partial(n_items, total, work, vectors)


def _vertex_vectors(
    prepared: PreparedBicliqueCpu, counts: list[VertexCounts], closed: bool
) -> dict[str, NDArray[np.uint64]]:
    """Add up what the threads counted, by original id; with the stars when ``closed``."""
    index, (n_u, n_v) = prepared.index, prepared.layers
    if closed:
        return {layer: vector.copy() for layer, vector in prepared.stars.items()}
    left, right = ("v", "u") if index.swapped else ("u", "v")
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
        child_histogram=np.zeros(shared, np.int64),
        leaves=make_leaves(JOB_SLOTS if pivots else 2),
        child_leaves=make_leaves(CHILD_SLOTS if pivots else 2),
        work=np.zeros(1, np.int64),
    )
    enumerates = prepared.algorithm != "pivot"
    return _Worker(
        make_around(prepared.graph),
        make_matrix_stack(columns, words, frames) if pivots else make_matrix_stack(0, 0, 0),
        make_levels(levels, prepared.index.sizes.most_left if enumerates else 1, shared),
        counts,
    )


def _with_room(counts: search.Counts, status: int) -> search.Counts:
    """Return the counts with the table that was full doubled."""
    if status == search.JOB_TABLE_FULL:
        return counts._replace(leaves=grow_leaves(counts.leaves))
    if status == search.CHILD_TABLE_FULL:
        return counts._replace(child_leaves=grow_leaves(counts.child_leaves))
    return counts


def _expand(index: BicliqueIndex, counts: list[search.Counts]) -> Cells:
    """Turn what the threads counted into bicliques by (p, q)."""
    sizes = index.sizes
    if sizes.is_empty or not counts:
        return {}
    lefts = range(sizes.least_left, sizes.most_left + 1)
    rights = range(sizes.least_right, sizes.most_right + 1)
    histogram = sum((one.histogram for one in counts), np.zeros_like(counts[0].histogram))
    shared = np.flatnonzero(histogram).tolist()
    cells = expand_sizes({size: int(histogram[size]) for size in shared}, lefts.start, rights)
    leaves: dict[tuple[int, int, int, int], int] = {}
    for one in counts:
        for left, right, count in list_leaves(one.leaves):
            key = left >> 32, left & 0xFFFFFFFF, right >> 32, right & 0xFFFFFFFF
            leaves[key] = leaves.get(key, 0) + count
    return turn(add_cells(cells, expand_leaves(leaves, lefts, rights)), index.swapped)
