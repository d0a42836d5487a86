"""Signed motifs on the CPU: the policy around :mod:`papilio.kernels.wedge.signed_loops`.

Work items are those of butterflies, starts with their counted wedges. Balanced butterflies and the census count every
butterfly from the pair with its vertex that is first in the total order, as :mod:`papilio.kernels.wedge.cpu` does.
Balanced (2,k)-bicliques need all common neighbours of every pair of one layer: there that layer comes first in the
total order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_vertices
from papilio.kernels.engine import (
    Cut,
    EngineName,
    Loadable,
    Partial,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost, items_in
from papilio.kernels.wedge import signed_loops as kernels
from papilio.kernels.wedge.graph import WedgeIndex
from papilio.kernels.wedge.loops import Tables, join_sums, make_tables
from papilio.kernels.wedge.signed_forms import census_cells, needs_all_neighbours, size_cells
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Census, Granularity, Motif
from papilio.parts import Part

__all__ = ["BalancedButterflyCpu", "PreparedSignedCpu"]

_Counted = tuple[Tables, NDArray[np.uint64]]
"""What one thread counts in: its tables, and what it adds to beside their sums."""

_Kernel = Callable[..., None]


@dataclass(frozen=True, eq=False)
class PreparedSignedCpu:
    """A graph ready for :meth:`BalancedButterflyCpu.run`.

    Attributes
    ----------
    index : WedgeIndex
        The graph by rank, with signs in its rows.
    motif : BalancedButterfly or Census
    per : {"total", "vertex"}
    """

    index: WedgeIndex
    motif: BalancedButterfly | Census
    per: Granularity

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return int(self.index.items.size)

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return self.index.nbytes


class BalancedButterflyCpu:
    """The CPU engine of :class:`~papilio.motifs.BalancedButterfly` and :class:`~papilio.motifs.Census`.

    Holds no graph, safe to share between threads.

    Parameters
    ----------
    threads : int, optional
        Threads of one run; by default the processors that this process may use.
    """

    name: EngineName = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = choose_threads(threads)

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedSignedCpu:
        """Rank, index and cost the graph, O(n_u + n_v + n_edges).

        Raises
        ------
        UnsupportedError
            For another motif, a graph without signs, a part, or another granularity.
        CapacityError
            When ``per`` is ``vertex`` and a count could pass 2^63 - 1.
        """
        require_request("balanced-butterfly", (BalancedButterfly, Census), graph, motif, per)
        assert isinstance(motif, BalancedButterfly | Census)
        assert isinstance(graph, BipartiteGraph)
        index = kernels.index_signed(graph, motif.pair_side if needs_all_neighbours(motif) else None)
        if per == "vertex":
            check_vertices(graph, index.max_degree)
        return PreparedSignedCpu(index, motif, per)

    def stage(self, block: Loadable) -> Loadable:
        """Refuse: only whole graphs are counted.

        Raises
        ------
        UnsupportedError
            Always.
        """
        raise UnsupportedError(f"signed motifs are counted on whole graphs, not in a {type(block).__name__}")

    def work(self, prepared: PreparedSignedCpu) -> NDArray[np.int64]:
        """Return the counted wedges of each item, shape (n_items,); heaviest first."""
        return prepared.index.costs

    def slice_work(self, prepared: PreparedSignedCpu) -> int:
        """Slices cost nothing."""
        return 1

    def run(
        self,
        prepared: PreparedSignedCpu,
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
        index, motif = prepared.index, prepared.motif
        kernel, shape, kinds = _choose_kernel(prepared)
        side = ["uv".index(motif.pair_side)] if isinstance(motif, Census) else []
        threads = min(self.threads, index.most_vectors) if prepared.per == "vertex" else self.threads
        rows, items = index.rows, index.items[start:stop]
        n_counters, max_degree = kinds * index.n_ranks, index.max_degree

        def make_state() -> _Counted:
            return make_tables(n_counters, max_degree), np.zeros(shape, np.uint64)

        def count(state: _Counted, begin: int, end: int) -> None:
            tables, counted = state
            kernel(rows, items, begin, end, tables, *([counted] if shape else []), *side)

        runner = ChunkRunner(make_state, threads)
        chunks = cut_by_cost(index.costs[start:stop], threads, len(bounds) + 1)
        n_items = items_in(chunks, runner.run(chunks, count, cut))
        work = int(index.costs[start : start + n_items].sum())
        if isinstance(motif, Census):
            classes = [counted for _, counted in runner.states]
            cells = census_cells([sum(map(join_sums, sums)) for sums in zip(*classes, strict=True)])
            return Partial(n_items, sum(cells.values()), work, cells=cells)
        if needs_all_neighbours(motif):
            cells = size_cells(motif, _join_histograms(runner.states))
            return Partial(n_items, sum(cells.values()), work, cells=cells if motif.is_table else {})
        total = sum(join_sums(tables.sums) for tables, _ in runner.states)
        vectors = {}
        if prepared.per == "vertex":
            counts = sum((counted for _, counted in runner.states), np.zeros(shape, np.uint64))
            vectors = index.vertex_vectors(counts)
        return Partial(n_items, total, work, vectors)


def _choose_kernel(prepared: PreparedSignedCpu) -> tuple[_Kernel, tuple[int, ...], int]:
    """Return what counts, the shape of what it adds to beside the tables, and the counters of a pair."""
    index = prepared.index
    if isinstance(prepared.motif, Census):
        return kernels.count_census, (len(CENSUS_CLASSES), 2), kernels.FOUR_KINDS
    if needs_all_neighbours(prepared.motif):
        return kernels.count_histogram, (index.max_degree + 1,), kernels.TWO_KINDS
    if prepared.per == "vertex":
        return kernels.count_signed_vertices, (index.n_rows,), kernels.TWO_KINDS
    return kernels.count_signed_total, (), kernels.TWO_KINDS


def _join_histograms(states: Sequence[_Counted]) -> dict[int, int]:
    """Return the histogram of all threads, without what is 0."""
    if not states:
        return {}
    histogram = np.sum([counted for _, counted in states], axis=0)
    return {size: int(histogram[size]) for size in np.flatnonzero(histogram).tolist()}
