"""Counting in random graphs: an engine whose work items are the graphs of an ensemble.

It wraps the engine of a motif, which prepares and counts each graph. The items are listed in
:class:`papilio.kernels.null.ensemble.Ensemble`: chains, the graph as given, samples. The count of each, or its table,
has separate cells, so that leases fold by addition as in any count. Per vertex the sums of the counts and of
their squares are kept, as digits to base 2^32 that are added up each for itself: exact, whatever the order.

What an item gives depends on the graph, the seed and the number of the item alone. On CPUs each thread draws and counts
its own graphs; a GPU counts one after the other, and draws the next one meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from math import ceil
from threading import Lock
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.announce import silent_runs
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Engine, Partial, Prepared, StopCheck, never_cut, require_interval
from papilio.kernels.null.cpu import ChainRandomizer, Randomizer, make_randomizer
from papilio.kernels.null.ensemble import MOMENTS, RANKS, Ensemble, moments_of
from papilio.kernels.null.mixing import PILOT_CHAINS, run_pilot
from papilio.kernels.null.models import NullModel
from papilio.kernels.null.small import TIMED, LinearForm, SmallSamples, SmallState
from papilio.kernels.probe import Prober, TimedProber
from papilio.kernels.threads import ChunkRunner, cut_by_cost, items_in
from papilio.motifs import Cell, Granularity, Motif

Value = TypeVar("Value")

MOST_NOTED = 10**9
"""Largest bias that an answer notes, in thousandths of a standard deviation."""


class OnFirstCall(Generic[Value]):
    """A value that one thread computes on first use."""

    def __init__(self, compute: Callable[[], Value]) -> None:
        self._compute, self._lock, self._values = compute, Lock(), list[Value]()

    def __call__(self) -> Value:
        with self._lock:
            if not self._values:
                self._values.append(self._compute())
            return self._values[0]


@dataclass(frozen=True, eq=False)
class PreparedSamples(Prepared):
    """A graph, and what draws random graphs like it."""

    graph: BipartiteGraph | UnipartiteGraph
    motif: Motif
    per: Granularity
    randomizer: Randomizer
    costs: NDArray[np.int64]
    given: OnFirstCall[Partial]  # the count in the graph itself
    notes: dict[Cell, int]  # cells of the graph as given besides its count
    small: SmallSamples | None  # counts many samples in one call; None where each is counted like any graph
    decisions: tuple[tuple[str, str], ...]


@dataclass(eq=False)
class _Found:
    """The counts of one thread; ``vectors`` are of shape (n,) for a layer of n vertices."""

    state: SmallState | None
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    cells: dict[Cell, int] = field(default_factory=dict)
    work: int = 0
    given: Partial | None = None  # the count in the graph as given, where this thread has counted it


class SampleEngine(Engine):
    """Counts a motif in the graphs of an ensemble.

    Parameters
    ----------
    engine : Engine
        Of the motif, of one thread on CPUs.
    ensemble : Ensemble
    threads : int
        On CPUs; each thread counts its own graphs.
    """

    def __init__(self, engine: Engine, ensemble: Ensemble, threads: int) -> None:
        self.name = engine.name
        self._engine, self.ensemble = engine, ensemble
        self._device: Device | None = getattr(engine, "device", None)
        self._threads = threads if self._device is None else 1

    @property
    def drawing_device(self) -> Device | None:
        """The device that draws samples and keeps them; None if they are drawn on the host."""
        return self._device if self._engine.takes_device_graphs else None

    def prepare(self, graph: BipartiteGraph | UnipartiteGraph, motif: Motif, per: Granularity) -> PreparedSamples:
        """Prepare the graph as given once, for the cost of each item; signs that no motif needs are left out.

        Raises what :func:`make_randomizer` and the engine of the motif raise.
        """
        if not motif.needs_signs and graph.sign is not None:
            graph = replace(graph, sign=None)
        ensemble = self.ensemble
        model = ensemble.model
        randomizer = self._make_randomizer(graph, model)
        prepared = self._engine.prepare(graph, motif, per)
        count_cost = int(self._engine.work(prepared).sum())
        given = OnFirstCall(lambda: self._engine.run(prepared, 0, prepared.n_items))
        small = None
        form = self._engine.in_butterflies(prepared)
        if self._device is None and form is not None and per == "total":
            small = SmallSamples.of(randomizer, form=LinearForm(*form))
        notes: dict[Cell, int] = {}
        trades, decisions = 0, prepared.decisions
        if isinstance(randomizer, ChainRandomizer):
            notes, why = self._choose_trades(randomizer, given, motif, small)
            trades = randomizer.trades_per_step
            decisions += ((randomizer.steps_in_words, why),)
        draw_cost = (1 + ensemble.steps * trades) * graph.n_edges
        costs = np.full(ensemble.n_items, 1 + count_cost + draw_cost, np.int64)
        costs[: ensemble.chains] = 1 + len(ensemble.stops) * count_cost + 2 * draw_cost
        if ensemble.chains:
            chains = f"{ensemble.chains} chains of {2 * ensemble.steps} steps"
            decisions += ((chains, "their mean count shows whether the steps of a sample are enough"),)
        if randomizer.has_one_realisation():
            why = f"null model {model.name} allows only the given graph: std is 0, z undefined"
            decisions += (("one realisation", why),)
        if small is not None:
            decisions += (small.decision,)
        return PreparedSamples(graph, motif, per, randomizer, costs, given, notes, small, decisions)

    def _choose_trades(
        self, randomizer: ChainRandomizer, given: OnFirstCall[Partial], motif: Motif, small: SmallSamples | None
    ) -> tuple[dict[Cell, int], str]:
        """Set the trades of a step; return what the answer says about them, and the reason."""
        ensemble, why = self.ensemble, "from the graph to a sample; sparse graphs with hubs need more trades in a step"
        notes = {ensemble.trades_cell: randomizer.trades_per_step}
        if not ensemble.pilot or randomizer.has_one_realisation():
            return notes, why

        def count(graph: Any) -> int:
            made = self._engine.prepare(graph, motif, "total")
            return self._engine.run(made, 0, made.n_items).total

        device = self.drawing_device
        with silent_runs(), nullcontext() if self._device is None else self._device.guard():
            xp = np if device is None else device.xp
            found = run_pilot(randomizer, count, given().total, xp, small, self._threads)
        bias = min(ceil(1000 * found.bias), MOST_NOTED)
        notes = {ensemble.trades_cell: randomizer.trades_per_step, ensemble.bias_cell: bias}
        why = f"from the graph to a sample; {PILOT_CHAINS} chains predict a bias of {found.bias:.2g} std"
        return {cell: number for cell, number in notes.items() if number}, why

    def _make_randomizer(self, graph: Any, model: NullModel) -> Randomizer:
        if self._device is None:
            return make_randomizer(graph, model)
        from papilio.kernels.null.gpu import make_randomizer_gpu

        with self._device.guard():
            return make_randomizer_gpu(self._device, graph, model, stays=self._engine.takes_device_graphs)

    def prober(self, prepared: PreparedSamples) -> Prober:
        return TimedProber(prepared.costs, lambda: self._time(prepared))

    def _time(self, prepared: PreparedSamples) -> float:
        """Draw and count the first samples; all items take as long in proportion to their costs."""
        first = self.ensemble.given + 1
        end = first + 1 if prepared.small is None else min(first + TIMED, prepared.n_items)
        began = perf_counter()
        self.run(prepared, first, end)
        return (perf_counter() - began) * float(prepared.costs.sum()) / float(prepared.costs[first:end].sum())

    def run(
        self,
        prepared: PreparedSamples,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
    ) -> Partial:
        """Count in the graphs of the items; ``total`` is the count in the graph as given, where that is an item."""
        require_interval(start, stop, prepared.n_items)
        small = prepared.small
        runner = ChunkRunner(lambda: _Found(None if small is None else small.make_state()), self._threads)
        guard = nullcontext if self._device is None else self._device.guard
        samples = _SamplesAhead(self, prepared, stop)

        def count(found: _Found, begin: int, end: int) -> None:
            with silent_runs(), guard():
                for item in self._count_small(prepared, found, begin, end):
                    self._count_item(prepared, found, item, samples)

        costs = prepared.costs[start:stop]
        cuts = [(item, item + 1) for item in range(costs.size)]
        if small is not None:
            cuts = cut_by_cost(costs, self._threads, len(bounds) + 1)
        chunks = [(start + begin, start + end) for begin, end in cuts]
        n_items = items_in(cuts, runner.run(chunks, count, cut, tells=True))
        given = next((each.given for each in runner.states if each.given is not None), Partial(0, 0, 0))
        cells = {cell: number for each in runner.states for cell, number in each.cells.items()}
        work = sum(each.work for each in runner.states)
        vectors = self._add_up(prepared, [each.vectors for each in runner.states])
        return replace(given, n_items=n_items, work=work, vectors=vectors, cells=cells)

    def _count_small(self, prepared: PreparedSamples, found: _Found, begin: int, end: int) -> Iterable[int]:
        """Count in the graphs of many items at once; return the other items."""
        ensemble, small, given = self.ensemble, prepared.small, self.ensemble.given
        if small is None or found.state is None:
            return range(begin, end)
        if begin < given:
            stops, n = ensemble.stops, min(end, given) - begin
            counts = small.count(found.state, ensemble.seed, ensemble.samples + begin, n, stops)
            found.work += counts.size * small.n_wedges
            for item, totals in enumerate(counts.tolist(), begin):
                found.cells |= {(item, steps): total for steps, total in zip(stops, totals, strict=True) if total}
        first = max(begin, given + 1)
        if first < end:
            counts = small.count(found.state, ensemble.seed, first - given - 1, end - first, (ensemble.steps,))
            found.work += counts.size * small.n_wedges
            found.cells |= {(item,): total for item, total in enumerate(counts[:, 0].tolist(), first) if total}
        return (given,) if begin <= given < end else ()

    def _count_item(self, prepared: PreparedSamples, found: _Found, item: int, samples: _SamplesAhead) -> None:
        ensemble, randomizer = self.ensemble, prepared.randomizer
        if item < ensemble.given:
            graphs = randomizer.chain(ensemble.seed, ensemble.samples + item, ensemble.stops)
            for steps, graph in zip(ensemble.stops, graphs, strict=True):
                total = self._count(prepared, found, graph, "total").total
                found.cells |= {(item, steps): total} if total else {}
            return
        is_given = item == ensemble.given
        if is_given:
            partial = prepared.given()
            found.work += partial.work
        else:
            partial = self._count(prepared, found, samples.take(item), prepared.per)
        counts = partial.cells if prepared.motif.is_table else {(): partial.total}
        found.cells |= {(item, *cell): number for cell, number in counts.items() if number}
        for layer, vector in partial.vectors.items():
            if is_given:
                found.vectors[layer] = vector
                continue
            given = prepared.given().vectors[layer]
            ranks = ((vector >= given).astype(np.uint64), (vector <= given).astype(np.uint64))
            for name, digits in zip((*MOMENTS, *RANKS), (*moments_of(vector), *ranks), strict=True):
                _add_to(found.vectors, f"{layer}.{name}", digits)
        if is_given:
            found.given = partial
            found.cells |= prepared.notes

    def _count(self, prepared: PreparedSamples, found: _Found, graph: Any, per: Granularity) -> Partial:
        made = self._engine.prepare(graph, prepared.motif, per)
        partial = self._engine.run(made, 0, made.n_items)
        found.work += partial.work
        return partial

    def _add_up(
        self, prepared: PreparedSamples, parts: Sequence[dict[str, NDArray[np.uint64]]]
    ) -> dict[str, NDArray[np.uint64]]:
        """Return the sums of the vectors of all threads, with zeros where none of them has any."""
        if prepared.per != "vertex":
            return {}
        graph = prepared.graph
        sizes = {"n": graph.n_u} if graph.kind == "unipartite" else {"u": graph.n_u, "v": graph.n_v}
        sums = {
            name: np.zeros(size, np.uint64)
            for layer, size in sizes.items()
            for name in (layer, *(f"{layer}.{each}" for each in (*MOMENTS, *RANKS)))
        }
        for vectors in parts:
            for name, vector in vectors.items():
                sums[name] += vector
        return sums


class _SamplesAhead:
    """The samples of a run, taken in their order.

    A device that keeps them draws one while the one before is counted.
    """

    def __init__(self, engine: SampleEngine, prepared: PreparedSamples, stop: int) -> None:
        self._ensemble, self._randomizer, self._stop = engine.ensemble, prepared.randomizer, stop
        self._device = engine.drawing_device
        self._next: tuple[int, Any, Any] | None = None  # item, graph and the event at its end

    def take(self, item: int) -> Any:
        """Return the sample of an item."""
        if self._device is None:
            return self._sample(item)
        begun = self._next if self._next is not None and self._next[0] == item else self._begin(item)
        self._next = self._begin(item + 1) if item + 1 < self._stop else None
        self._device.wait(begun[2])
        return begun[1]

    def _begin(self, item: int) -> tuple[int, Any, Any]:
        assert self._device is not None
        with self._device.aside():
            return item, self._sample(item), self._device.mark()

    def _sample(self, item: int) -> Any:
        return self._randomizer.sample(self._ensemble.seed, item - self._ensemble.given - 1)


def _add_to(sums: dict[str, NDArray[np.uint64]], name: str, digits: NDArray[np.uint64]) -> None:
    if name in sums:
        sums[name] += digits
    else:
        sums[name] = digits.copy()
