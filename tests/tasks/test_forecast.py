"""Forecasts: intervals that hold the truth, tables in time, and as few probes as a run is worth."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.arguments import plural
from papilio.kernels.announce import Compilations
from papilio.kernels.engine import CostTable, Prepared
from papilio.kernels.exact import mix
from papilio.kernels.probe import STEP, Found, Prober, Rates, count_ways
from papilio.storage.records import read_record, write_record
from papilio.tasks.forecast import NS, Forecast, Pace, Range, _Sums, find_slow, predict, predict_bytes
from tests.tasks.fakes import FakeEngine

RATES = Rates(costs_s=1e9, nodes_s=1e6, words_s=1e12)


@dataclass
class ProbedEngine(FakeEngine):
    """An engine whose item i has ``trees[i]`` nodes and a tenth of the motifs; probes find a multiple of them."""

    trees: Any = ()
    spread: float = 1.0  # of the logarithm of what a probe finds by the truth
    probe_s: float = 0.0
    clock_s: float = 0.0
    probed: list[int] = field(default_factory=list)
    known: int = 7

    def prober(self, prepared: Any) -> Prober:
        prober = Prober(self.work(prepared), 1, RATES, self.known)
        prober.walk = self.walk  # type: ignore[method-assign]
        return prober

    def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        self.probed.append(items.size)
        self.clock_s += self.probe_s * items.size
        uniform = [(mix(seeds + step) >> np.uint64(11)) / 2.0**53 for step in (STEP, STEP >> np.uint64(1))]
        normal = np.sqrt(-2 * np.log1p(-uniform[0])) * np.cos(2 * np.pi * uniform[1])
        found = np.asarray(self.trees)[items] * np.exp(self.spread * normal - self.spread**2 / 2)
        return Found(found / 10, found, found, np.zeros_like(found))


class Items(Prepared):
    def __init__(self, costs: NDArray[np.int64]) -> None:
        self.costs = costs


def forecast_of(engine: FakeEngine, costs: NDArray[np.int64], threads: int = 1) -> tuple[Forecast, Pace]:
    return predict(engine, Items(costs), threads, Pace.even(costs.sum(), 1e8), same_work=False)


COSTS = np.sort(np.random.default_rng(1).pareto(1.5, 5000) * 100 + 1).astype(np.int64)[::-1].copy()
TREES = COSTS.astype(float) * np.linspace(50, 1, COSTS.size)
"""Heavy items have more below them than their costs say."""


@pytest.mark.parametrize("spread", [0.5, 1.5])
def test_intervals_hold_the_truth_in_nine_cases_of_ten(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, held = [], 0
    for seed in range(300):
        monkeypatch.setattr("papilio.tasks.forecast.SEED", 1000 * seed)
        engine = ProbedEngine(trees=TREES / 100, spread=spread)
        monkeypatch.setattr("papilio.tasks.forecast.run_clock", lambda of=engine: of.clock_s)
        forecast, _ = forecast_of(engine, COSTS)
        assert forecast.rows is not None
        rows.append(forecast.rows.value - 7)
        held += forecast.rows.low <= TREES.sum() / 1000 + 7 <= forecast.rows.high
    error = np.std(rows) / np.sqrt(len(rows))
    assert abs(np.mean(rows) - TREES.sum() / 1000) < 4 * error
    assert 0.8 < held / 300 < 0.97


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_share_the_time(threads: int) -> None:
    engine = ProbedEngine(trees=TREES)
    forecast, pace = forecast_of(engine, COSTS, threads)
    seconds = (COSTS.sum() / RATES.costs_s + TREES.sum() / RATES.nodes_s) / threads
    assert forecast.seconds is not None
    assert forecast.seconds.low < seconds < forecast.seconds.high < 5 * forecast.seconds.low
    assert forecast.probes == engine.probed[-1]
    assert pace.time_table(COSTS).total == pytest.approx(forecast.seconds.value * NS, rel=1e-6)


def test_items_pass_in_their_own_time() -> None:
    """Half of the time is over where half of the trees are, not half of the costs."""
    _, pace = forecast_of(ProbedEngine(trees=TREES), COSTS)
    table, true = pace.time_table(COSTS), np.cumsum(TREES) / TREES.sum()
    for item in (5, 50, 500, 2500, 4500):
        assert table.work_between(0, item) / table.total == pytest.approx(true[item - 1], rel=0.15)
    assert CostTable.from_costs(COSTS).items == table.items


def test_short_runs_are_probed_once_and_long_ones_as_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    for scale, spread, least, most in ((1e-7, 0.3, 64, 64), (1e-2, 0.1, 500, 530), (1.0, 2.5, 1000, 4200)):
        engine = ProbedEngine(trees=TREES * scale, spread=spread)
        monkeypatch.setattr("papilio.tasks.forecast.run_clock", lambda of=engine: of.clock_s)
        forecast, _ = forecast_of(engine, COSTS)
        assert len(engine.probed) == 2 + (least > 64)
        assert least <= forecast.probes == engine.probed[-1] <= most
        assert forecast.seconds is not None
        assert forecast.seconds.high > 3 * forecast.seconds.low


@pytest.mark.parametrize(("probe_s", "most"), [(0.25, 64), (2e-3, 1200), (1e-6, 4096)])
def test_probes_take_a_small_share_of_the_run(probe_s: float, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow probes are as few as the predicted run of some 40 s is worth."""
    engine = ProbedEngine(trees=TREES, spread=2.5, probe_s=probe_s)
    monkeypatch.setattr("papilio.tasks.forecast.run_clock", lambda: engine.clock_s)
    forecast, _ = forecast_of(engine, COSTS)
    first = [1, 64] if probe_s < 0.02 else [1, 16, 64]
    assert engine.probed[: len(first)] == first
    assert all(2 * before <= after for before, after in pairwise(engine.probed[1:]))
    assert sum(engine.probed[len(first) :]) * probe_s < 0.1 * 40
    assert most / 3 < forecast.probes == engine.probed[-1] < 1.1 * most


def test_the_upper_end_allows_for_trees_that_no_probe_met() -> None:
    """Of trees this unlike, a few probes see less than half, and their standard error does not show it."""
    one, probes = np.zeros(64, np.int64), np.array([64])
    held = narrow = 0
    for seed in range(200):
        found = np.random.default_rng(seed).lognormal(-4.5, 3.0, 64)  # of mean 1
        sums = _Sums.of(found / 64, one, probes)
        held += sums.range().high >= 1
        narrow += sums._replace(seen=1.0).range().high >= 1
    assert narrow < 130 < 150 < held
    alike = np.random.default_rng(1).lognormal(0.0, 0.3, 64)
    assert _Sums.of(alike, one, probes).seen > 0.95


def test_more_motifs_than_double_precision_holds_do_not_hide_the_time() -> None:
    """The bicliques of every size of a large complete graph, of which some probes see infinitely many."""

    class Endless(ProbedEngine):
        def walk(self, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
            found = super().walk(items, seeds)
            return found._replace(motifs=found.motifs * np.inf, members=found.members * np.inf)

    forecast, pace = forecast_of(Endless(trees=TREES), COSTS)
    known, usual = forecast_of(ProbedEngine(trees=TREES), COSTS)
    assert forecast.seconds == known.seconds
    assert pace.ns == pytest.approx(usual.ns)
    assert forecast.rows is not None
    assert forecast.rows.high == 1e300


def test_sets_beyond_double_precision_are_counted_as_many() -> None:
    ways = count_ways(3000, 2, 3000)
    assert np.isfinite(ways).all()
    assert ways[:4].tolist() == [0.0, 0.0, 1.0, 4.0]
    assert ways[-1] >= 1e300


def test_without_probes_the_rate_stands_and_the_time_is_not_predicted() -> None:
    forecast, pace = forecast_of(FakeEngine(), COSTS)
    assert (forecast.probes, forecast.seconds, forecast.rows) == (0, None, None)
    assert "cannot probe" in forecast.reason
    assert pace.time_table(COSTS).total == pytest.approx(COSTS.sum() / 1e8 * NS, rel=1e-6)
    exact, _ = predict(ProbedEngine(), Items(COSTS), 1, Pace.even(COSTS.sum(), 1e8), same_work=True)
    assert exact.seconds is not None
    assert exact.seconds.value == pytest.approx(COSTS.sum() / 1e8)


@pytest.mark.parametrize("costs", [np.zeros(0, np.int64), np.zeros(5, np.int64)])
def test_nothing_to_search_takes_no_time(costs: NDArray[np.int64]) -> None:
    engine = ProbedEngine(trees=np.ones(5))
    forecast, pace = forecast_of(engine, costs)
    assert engine.probed == []
    assert forecast.rows == Range(7.0, 7.0, 7.0)
    assert pace.time_table(costs).total == 0


def test_centuries_fit_the_table() -> None:
    _, pace = forecast_of(ProbedEngine(trees=TREES * 1e30), COSTS)
    table = pace.time_table(COSTS)
    assert 2**60 < table.total <= 2**61
    assert np.diff(table.work).min() >= 0


@pytest.mark.parametrize("scale", [1e150, 1e290, 1e303])
def test_counts_beyond_double_precision_are_cut_off(scale: float) -> None:
    forecast, _ = forecast_of(ProbedEngine(trees=TREES / TREES.max() * scale), COSTS)
    assert forecast.rows is not None
    assert forecast.seconds is not None
    for each in (forecast.rows, forecast.seconds):
        assert 0 < each.low <= each.value <= each.high <= 1e300
    huge = ProbedEngine(trees=TREES, known=10**400)
    assert forecast_of(huge, COSTS)[0].rows == Range(1e300, 1e300, 1e300)


def test_an_end_that_no_probe_met_is_no_division_by_zero() -> None:
    forecast, _ = forecast_of(ProbedEngine(trees=np.zeros(COSTS.size)), COSTS)
    assert forecast.rows == Range(7.0, 7.0, 7.0)


def test_ranges_and_forecasts_survive_json() -> None:
    forecast, _ = forecast_of(ProbedEngine(trees=TREES), COSTS)
    assert read_record(Forecast, json.loads(json.dumps(write_record(forecast))), "a plan", "") == forecast
    rows = Range(100.0, 50.0, 200.0)
    assert rows.at_most(80) == Range(80, 50, 80)
    assert rows.at_most(None) == rows
    assert rows.show("s") == "100 s (50 s to 200 s)"
    assert Range(7, 7, 7).show() == "7"
    fixed, ragged = predict_bytes(rows, [2, 2]), predict_bytes(rows, [None, None])
    assert fixed.value < ragged.value
    assert fixed.low < 1.2 * 100 < 3.6 * 100 < fixed.high * 1.5


@pytest.mark.parametrize(("probe_s", "probed"), [(6.0, [1]), (40.0, [1]), (0.4, [1, 16])])
def test_a_search_whose_probes_take_seconds_is_not_predicted(
    probe_s: float, probed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papilio.tasks.forecast.SLOW_PROBES_S", 5.0)
    engine = ProbedEngine(trees=TREES, probe_s=probe_s)
    monkeypatch.setattr("papilio.tasks.forecast.run_clock", lambda: engine.clock_s)
    forecast, pace = forecast_of(engine, COSTS)
    assert engine.probed == probed
    assert (forecast.probes, forecast.seconds) == (0, None)
    took = f"{plural(probed[-1], 'probe')} of the search took {probe_s * probed[-1]:.1f} s"
    assert forecast.reason == took
    assert pace.work[-1] == COSTS.sum()
    engine.probe_s, engine.probed = 0.3, []
    assert forecast_of(engine, COSTS)[0].seconds is not None
    assert engine.probed[:3] == [1, 16, 64]


@pytest.mark.parametrize("probe_s", [0.0, 0.3])
def test_compiling_makes_no_probe_slow(probe_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it count in the pace of the probes; whichever number of probes is the first to need a kernel."""
    monkeypatch.setattr("papilio.tasks.forecast.SLOW_PROBES_S", 5.0)
    engine = ProbedEngine(trees=TREES, probe_s=probe_s)
    compilations = Compilations(lambda: engine.clock_s, lambda *_: Mock())

    def compile_first(*args: Any) -> Found:
        if args[0].size not in engine.probed:
            compilations.begin()
            engine.clock_s += 100.0
            compilations.end()
        return ProbedEngine.walk(engine, *args)

    monkeypatch.setattr("papilio.tasks.forecast.run_clock", lambda: engine.clock_s)
    usual = forecast_of(engine, COSTS)[0]
    probed, engine.probed, engine.clock_s = engine.probed, [], 0.0
    monkeypatch.setattr(engine, "walk", compile_first)
    monkeypatch.setattr("papilio.tasks.forecast.run_clock", compilations.run_clock)
    assert forecast_of(engine, COSTS)[0] == usual
    assert engine.probed == probed
    assert engine.clock_s > 200


def test_probes_of_a_prediction_end_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.tasks.forecast.QUICK_PROBE_S", 1.0)
    taken_s = {}
    for limit_s in (None, 1.0, 1e-4):
        engine = ProbedEngine(trees=TREES * 1e6, spread=3.0, probe_s=1e-3)
        monkeypatch.setattr("papilio.tasks.forecast.run_clock", lambda engine=engine: engine.clock_s)
        even = Pace.even(COSTS.sum(), 1e8)
        found, _ = predict(engine, Items(COSTS), 1, even, same_work=False, limit_s=limit_s)
        assert (found.seconds is None) == (limit_s == 1e-4)
        taken_s[limit_s] = engine.clock_s
    assert taken_s[1e-4] < taken_s[1.0] < 1.1 < taken_s[None]


def test_some_of_the_probes_need_no_code_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code is for arrays that lie without gaps."""
    monkeypatch.setattr("papilio.tasks.forecast.QUICK_PROBE_S", 0.0)
    gaps = []

    def probe(items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> None:
        gaps.extend(each.strides != (8,) for each in (items, seeds))

    assert find_slow(probe, np.arange(640), np.arange(640, dtype=np.uint64), (64, 8)) is None
    assert gaps == [False] * 6
