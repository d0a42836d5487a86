"""Pairs of a projection compared with random graphs with the same degrees, on the CPU: the fixed degree sequence model.

The p-value of a pair is (r + 1) / (n + 1): in r of n random graphs it has at least as many common neighbours as in the
graph itself (Zweig and Kaufmann, Soc. Netw. Anal. Min. 1, 2011). Random graphs are the samples of
:class:`papilio.kernels.null.cpu.RowTrades`.

A work item is a group of starts whose pairs fit in memory. Its pairs are gathered once; then every sample counts the
common neighbours of these pairs alone. Ranks depend on the degrees alone, so that a pair has the same start and the
same counter in every sample. Each thread draws whole samples, and has a number for each pair; these are added up.
Samples of small graphs are drawn and compared many at a time (:mod:`papilio.kernels.null.small`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import plural
from papilio.graph import BipartiteGraph
from papilio.kernels.announce import run_clock, say_passed, silent_runs
from papilio.kernels.engine import Partial, Prepared, StopCheck, never_cut, require_interval
from papilio.kernels.memory import LEAST_ROOM, ROOM_PER_EDGE
from papilio.kernels.null.cpu import ChainRandomizer, RowTrades
from papilio.kernels.null.ensemble import LEAST_SAMPLES
from papilio.kernels.null.mixing import PILOT_CHAINS, run_pilot
from papilio.kernels.null.models import NullModel
from papilio.kernels.null.small import TIMED, PairRows, SmallSamples
from papilio.kernels.probe import Prober, TimedProber
from papilio.kernels.project.cpu import BLOCK_ROWS, PreparedProjection, ProjectionCpu
from papilio.kernels.project.loops import Ids32, PairState, count_pairs, count_reached
from papilio.kernels.rows.index import WedgeRows, index_wedges
from papilio.kernels.threads import ChunkRunner, CpuEngine, RowSink, cut_by_cost, drop_rows
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.kernels.wedge.loops import Tables, count_total, make_tables
from papilio.motifs import Butterfly, Granularity, Listing, Motif, Projection


@dataclass(frozen=True, eq=False)
class PreparedSampled(Prepared):
    """A graph ready for :meth:`SampledProjectionCpu.run`."""

    plain: PreparedProjection  # of the same pairs without a test
    motif: Projection
    randomizer: ChainRandomizer
    small: SmallSamples | None  # compares many samples in one call; None where each is indexed like any graph
    ranks: Ids32  # of each vertex of the layer
    ends: NDArray[np.int64]  # pairs of all starts before each one, and of all; shape (n_starts + 1,)
    bounds: NDArray[np.int64]  # starts at which groups begin, and their number; shape (n_items + 1,)
    costs: NDArray[np.int64]
    decisions: tuple[tuple[str, str], ...]

    @property
    def ids_u(self) -> Ids32:
        return self.plain.ids_u

    @property
    def ids_v(self) -> Ids32:
        return self.plain.ids_v

    @property
    def n_samples(self) -> int:
        assert self.motif.samples is not None, "set with the test"
        return self.motif.samples

    def sample(self, index: int) -> WedgeRows:
        """Return the rows of a random graph."""
        assert self.motif.seed is not None, "set with the test"
        drawn = self.randomizer.sample(self.motif.seed, index)
        assert isinstance(drawn, BipartiteGraph)
        return index_wedges(drawn, first_layer=self.motif.layer).rows

    def tables(self) -> Tables:
        return make_tables(self.plain.index.n_counters, self.plain.index.max_degree)


class SampledProjectionCpu(CpuEngine):
    """Counts the pairs of a projection whose p-value is small enough; with a ``listing`` it lists them.

    The rows have the columns of :class:`papilio.kernels.project.cpu.ProjectionCpu`.
    """

    def __init__(self, threads: int | None = None, listing: Listing | None = None) -> None:
        super().__init__(threads)
        self._plain = ProjectionCpu(1, listing or Listing())

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> PreparedSampled:
        """Rank and index the graph, count the pairs of each start, and group the starts; O(wedges)."""
        assert isinstance(motif, Projection)
        plain = self._plain.prepare(graph, motif.plain, per)
        index, question = plain.index, plain.question
        found = np.zeros(index.items.size, np.int64)

        def count(state: PairState, begin: int, end: int) -> None:
            count_pairs(index.rows, index.items, begin, end, question, state, found)

        runner = ChunkRunner(lambda: ProjectionCpu(1)._make_state(plain), self.threads)
        runner.run(cut_by_cost(index.costs, self.threads), count)
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(found)))
        room, bounds = max(LEAST_ROOM, ROOM_PER_EDGE * graph.n_edges), [0]
        while bounds[-1] < found.size:
            reached = int(np.searchsorted(ends, ends[bounds[-1]] + room, side="right")) - 1
            bounds.append(max(reached, bounds[-1] + 1))
        randomizer = RowTrades(graph, NullModel("degrees"))
        small = SmallSamples.of(randomizer, motif.layer)
        chosen = self._choose_trades(randomizer, small, motif.samples)
        trades = randomizer.model.steps * randomizer.trades_per_step
        wedges = np.add.reduceat(index.costs, bounds[:-1]) if found.size else index.costs
        assert motif.samples is not None, "set with the test"
        costs = motif.samples * ((1 + trades) * graph.n_edges + wedges)
        groups = plural(len(bounds) - 1, "group")
        decisions: tuple[tuple[str, str], ...] = (
            (f"{groups} of pairs", f"a group has up to {room:,} pairs, and draws all random graphs"),
            chosen,
        )
        if small is not None:
            decisions += (small.decision,)
        order = question.order
        ranks = np.empty(order.size, np.int32)
        ranks[order] = np.arange(order.size, dtype=np.int32)
        cuts = np.array(bounds, np.int64)
        return PreparedSampled(plain, motif, randomizer, small, ranks, ends, cuts, costs, decisions)

    def _choose_trades(self, randomizer: RowTrades, small: SmallSamples | None, samples: int | None) -> tuple[str, str]:
        """Set the trades of a step by a pilot of butterflies, sums of C(c, 2) over pairs; return the decision."""
        if randomizer.has_one_realisation():
            return "one realisation", "the degrees allow no other graph: all p-values are 1"
        if samples is None or samples < LEAST_SAMPLES:
            return randomizer.steps_in_words, f"no pilot looks whether they are enough below {LEAST_SAMPLES} samples"
        engine, motif = ButterflyCpu(1), Butterfly()

        def count(graph: Any) -> int:
            made = engine.prepare(graph, motif, "total")
            return engine.run(made, 0, made.n_items).total

        with silent_runs():
            found = run_pilot(randomizer, count, count(randomizer.graph), np, small, self.threads)
        why = f"{PILOT_CHAINS} chains predict a bias of the butterflies of {found.bias:.2g} std"
        return randomizer.steps_in_words, why

    def prober(self, prepared: PreparedSampled) -> Prober:
        return TimedProber(prepared.costs, lambda: self._time(prepared))

    def _time(self, prepared: PreparedSampled) -> float:
        """Draw a sample and count its wedges: all items take as long for each sample, but for their shares of these.

        Of a small graph some samples are compared with the pairs of the first item.
        """
        if prepared.small is not None:
            pairs, common, *_ = self._gather(prepared, 0)
            make_tables, compare = self._comparison(prepared, 0, pairs, common)
            state = make_tables(), np.zeros(len(pairs), np.int32)
            compare(*state, 0, 1)  # loads the code
            began = run_clock()
            compare(*state, 0, TIMED)
            return prepared.n_items * prepared.n_samples * (run_clock() - began) / TIMED
        items, tables = prepared.plain.index.items, prepared.tables()
        count_total(prepared.plain.index.rows, items, 0, 0, tables)  # loads the code
        began = run_clock()
        rows = prepared.sample(0)
        drawn_s = run_clock() - began
        count_total(rows, items, 0, items.size, tables)
        counted_s = run_clock() - began - drawn_s
        return prepared.n_samples * (prepared.n_items * drawn_s + counted_s)

    def run(
        self,
        prepared: PreparedSampled,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
        sink: RowSink = drop_rows,
    ) -> Partial:
        """Count, or list, the pairs of the groups; ``cut`` is looked at between groups."""
        require_interval(start, stop, prepared.n_items)
        total, end = 0, start
        while end < stop and not cut():
            pairs, *numbers = self._gather(prepared, end)
            reached = self._compare(prepared, end, pairs, numbers[0], (start, stop))
            p_values = (1 + reached) / (1 + prepared.n_samples)
            kept = np.flatnonzero(p_values <= float(prepared.motif.fdr or 0))
            total += kept.size
            for at in range(0, kept.size, BLOCK_ROWS):
                rows = kept[at : at + BLOCK_ROWS]
                sink(*(each[rows] for each in (pairs, *numbers, p_values)))
            end += 1
        return Partial(end - start, total, int(prepared.costs[start:end].sum()))

    def _gather(self, prepared: PreparedSampled, group: int) -> list[NDArray[Any]]:
        """Return the pairs of a group, their common neighbours and weights, by start."""
        plain, (begin, end) = prepared.plain, prepared.bounds[group : group + 2].tolist()
        n, at = int(prepared.ends[end] - prepared.ends[begin]), 0
        room: list[NDArray[Any]] = [np.empty((n, 2), np.int32), np.empty(n, np.int32)]
        if plain.question.weighting:
            room.append(np.empty(n))

        def keep(*columns: NDArray[Any], part: int | None = None) -> None:
            nonlocal at
            for own, column in zip(room, columns, strict=True):
                own[at : at + len(column)] = column
            at += len(columns[0])

        with silent_runs():
            self._plain.run(plain, begin, end, sink=keep)
        assert at == n, "they were counted"
        return room

    def _compare(
        self, prepared: PreparedSampled, group: int, pairs: Ids32, common: Ids32, span: tuple[int, int]
    ) -> NDArray[np.int64]:
        """Return in how many samples each pair has as many common neighbours, or more; shape (n_pairs,)."""
        make_tables, compare = self._comparison(prepared, group, pairs, common)
        n_samples, finished = prepared.n_samples, list[None]()
        chunks = [(index, index + 1) for index in range(n_samples)]
        if prepared.small is not None:
            chunks = cut_by_cost(np.full(n_samples, prepared.costs[group] // n_samples), self.threads)

        def compare_some(state: tuple[Any, Ids32], first: int, last: int) -> None:
            compare(*state, first, last)
            finished.append(None)
            say_passed(group - span[0], len(finished) / (len(chunks) * (span[1] - group)))

        runner = ChunkRunner(lambda: (make_tables(), np.zeros(len(pairs), np.int32)), self.threads)
        runner.run(chunks if len(pairs) else [], compare_some)
        total = np.zeros(len(pairs), np.int64)
        for _, reached in runner.states:
            total += reached
        return total

    def _comparison(
        self, prepared: PreparedSampled, group: int, pairs: Ids32, common: Ids32
    ) -> tuple[Callable[[], Any], Callable[[Any, Ids32, int, int], None]]:
        """Return what makes the tables of a thread, and what compares the pairs of a group with samples.

        The latter takes tables, a number for each pair, to which it adds, and the first sample and the end.
        """
        small, seed = prepared.small, prepared.motif.seed
        if small is not None:
            assert seed is not None, "set with the test"
            rows = PairRows.of(pairs, common, max(prepared.ids_u.size, prepared.ids_v.size))

            def compare_small(state: Any, reached: Ids32, first: int, last: int) -> None:
                small.compare(state, seed, first, last - first, rows, reached)

            return small.make_state, compare_small
        begin, end = prepared.bounds[group : group + 2].tolist()
        starts = prepared.plain.index.items[begin:end]
        offsets = prepared.ends[begin : end + 1] - prepared.ends[begin]
        ends = np.minimum(prepared.ranks[pairs[:, 0]], prepared.ranks[pairs[:, 1]])  # the start is the later one

        def compare(tables: Tables, reached: Ids32, first: int, last: int) -> None:
            for index in range(first, last):
                count_reached(prepared.sample(index), starts, offsets, ends, common, tables, reached)

        return prepared.tables, compare
