"""The model of leases: hand-made schedules, conservation, determinism; and the study that uses it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import lease_simulation
from benchmarks.lease_model import Machine, Outcome, simulate, split_equal, split_with_share
from benchmarks.lease_simulation import JOBS_S, Workload, run_experiments
from papilio.partitioning.root_ranges import CostTable, Interval
from papilio.partitioning.work_pool import GUIDED_SHARE, split_guided
from papilio.tasks.leases import LeaseBook

COSTS = np.sort(np.random.default_rng(7).pareto(1.5, 3000) * 1000).astype(np.int64)[::-1] + 1
"""Skewed, heaviest first."""


def ideal(
    n_workers: int, *, latency_s: float = 0.0, in_flight: int = 1, cut_s: float | None = None
) -> Machine:
    """Workers of equal speed whose leases take what they cost."""
    return Machine(n_workers, latency_s, in_flight, lease_noise=0.0, worker_noise=0.0, cut_s=cut_s)


def play(seconds: list[float], machine: Machine) -> Outcome:
    """Simulate one lease for each item."""
    cumulative = np.concatenate(([0.0], np.cumsum(seconds)))
    return simulate(cumulative, [(k, k + 1) for k in range(len(seconds))], machine)


def assert_tiled(outcome: Outcome, n_items: int) -> None:
    book = LeaseBook([n_items])
    for start, stop in outcome.intervals:
        book.record(0, start, stop)
    book.require_complete()


def test_known_schedules() -> None:
    # 5 | 4 then 3 | 3: ends at 5, 7 and 3 + 3.
    assert play([5, 4, 3, 3, 3], ideal(3)).makespan_s == pytest.approx(7)
    # The first requests are answered at 1 and 2, the third (asked at 5) at 6.
    outcome = play([4, 4, 4], ideal(2, latency_s=1))
    assert outcome.makespan_s == pytest.approx(10)
    assert outcome.efficiency == pytest.approx(12 / 20)
    assert outcome.scheduler_share == pytest.approx(3 / 10)
    # With two in flight the third is answered at 3, before the first lease ends.
    assert play([4, 4, 4], ideal(2, latency_s=1, in_flight=2)).makespan_s == pytest.approx(9)


def test_a_lease_that_waits_at_a_busy_worker_is_not_taken_back_without_cutting() -> None:
    seconds = [10, 1, 1, 1]
    # Worker 0 holds items 0 and 2, worker 1 holds 1 and 3.
    assert play(seconds, ideal(2, in_flight=2)).makespan_s == pytest.approx(11)
    assert play(seconds, ideal(2, in_flight=2, cut_s=0.5)).makespan_s == pytest.approx(10)


def test_a_long_lease_is_cut_between_items() -> None:
    cumulative = np.arange(13.0)
    leases: list[Interval] = [(0, 10), (10, 12)]
    assert simulate(cumulative, leases, ideal(2)).makespan_s == pytest.approx(10)
    outcome = simulate(cumulative, leases, ideal(2, cut_s=2.5))
    # At 2 the first worker has 8 left: 4 stay and 4 go.
    assert outcome.makespan_s == pytest.approx(6)
    assert (outcome.cuts, outcome.efficiency) == (1, pytest.approx(1))
    assert sorted(outcome.intervals) == [(0, 6), (6, 10), (10, 12)]


def test_one_item_is_never_cut() -> None:
    outcome = play([8, 1], ideal(2, cut_s=0.1))
    assert (outcome.makespan_s, outcome.cuts) == (pytest.approx(8), 0)


@pytest.mark.parametrize("cut_s", [None, 0.05])
@pytest.mark.parametrize("n_workers", [1, 3, 16, 200])
def test_every_item_is_run_once(n_workers: int, cut_s: float | None) -> None:
    load = Workload(COSTS, 100.0)
    leases = split_guided(CostTable.from_costs(COSTS), n_workers, load.units(0.1))
    machine = Machine(n_workers, lease_noise=0.3, slow_every=4, cut_s=cut_s, seed=5)
    outcome = simulate(load.cumulative_s(), leases, machine)
    assert_tiled(outcome, COSTS.size)
    assert 0 < outcome.efficiency <= 1
    assert (outcome.cuts > 0) == (cut_s is not None and n_workers > 1)


def test_one_worker_is_efficient_up_to_the_latency() -> None:
    load = Workload(COSTS, 50.0)
    leases = split_guided(CostTable.from_costs(COSTS), 1, load.units(0.5))
    assert simulate(load.cumulative_s(), leases, ideal(1)).efficiency == pytest.approx(1)
    waiting = simulate(load.cumulative_s(), leases, ideal(1, latency_s=0.002))
    assert waiting.makespan_s == pytest.approx(50 + 0.002 * len(leases))
    ahead = simulate(load.cumulative_s(), leases, ideal(1, latency_s=0.002, in_flight=2))
    assert ahead.makespan_s == pytest.approx(50.002)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 12))
def test_more_workers_never_finish_later_in_the_ideal_model(seconds: list[int], n_workers: int) -> None:
    some = play([float(s) for s in seconds], ideal(n_workers))
    more = play([float(s) for s in seconds], ideal(n_workers + 1))
    assert more.makespan_s <= some.makespan_s + 1e-9
    assert some.makespan_s >= max(sum(seconds) / n_workers, max(seconds)) - 1e-9
    assert some.makespan_s <= sum(seconds) / n_workers + max(seconds)


def test_the_same_seed_gives_the_same_schedule() -> None:
    load = Workload(COSTS, 100.0)
    leases = split_guided(CostTable.from_costs(COSTS), 8, load.units(0.5))
    runs = [simulate(load.cumulative_s(), leases, Machine(8, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].makespan_s != runs[2].makespan_s


def test_nobody_and_nothing() -> None:
    with pytest.raises(ValueError, match="n_workers is 0"):
        simulate(np.zeros(1), [], Machine(0))
    assert simulate(np.zeros(1), [], Machine(3, cut_s=1.0)).makespan_s == 0


def test_splits_tile_the_items() -> None:
    table = CostTable.from_costs(COSTS, 500)
    for leases in (
        split_equal(table, table.total // 40),
        split_equal(table, 1),
        split_equal(table, 2 * table.total),
        split_with_share(table, 4, 3, 1, table.total),
    ):
        assert [start for start, _ in leases] == [0, *(stop for _, stop in leases[:-1])]
        assert leases[-1][1] == COSTS.size
    assert split_with_share(table, 4, GUIDED_SHARE, 9, 10**9) == split_guided(table, 4, 9, 10**9)
    with pytest.raises(ValueError, match="no multiple"):
        split_with_share(table, 1, GUIDED_SHARE + 1, 1, 1)


def test_work_is_scaled_to_the_job() -> None:
    load = Workload(COSTS, 60.0)
    seconds = load.cumulative_s()
    assert (seconds[0], seconds[-1]) == (0, pytest.approx(60))
    assert np.all(np.diff(seconds) > 0)
    assert load.units(60) == pytest.approx(int(COSTS.sum()), abs=1)


def test_the_study_compares_all_policies() -> None:
    panels = run_experiments(COSTS, workers=(1, 16), seeds=1, say=lambda text: None)
    rows = {(name, row["variant"], row["workers"]): row for name in panels for row in panels[name]["rows"]}
    assert all(("jobs", job, n) in rows for job in JOBS_S for n in (1, 16))
    assert all(0 < row["efficiency"] <= 1 for row in rows.values())
    guided = rows["policy", "guided", 16]["efficiency"]
    assert guided > rows["policy", "one per worker", 16]["efficiency"]
    assert rows["jobs", "100 h", 1]["efficiency"] > 0.99
    json.dumps(panels)


def test_the_command_writes_table_data_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the plots need matplotlib: install papilio[benchmark]")
    monkeypatch.setattr(lease_simulation, "load_costs", lambda store: (COSTS, "a test"))
    monkeypatch.setattr(lease_simulation, "SEEDS", 1)
    lease_simulation.main(["--output", str(tmp_path), "--max-workers", "4"])
    table = (tmp_path / "lease-simulation.md").read_text()
    assert f"| workers | {' | '.join(JOBS_S)} |" in table
    assert json.loads((tmp_path / "lease-simulation.json").read_text())["graph"] == "a test"
    assert (tmp_path / "lease-simulation.png").read_bytes().startswith(b"\x89PNG")
    assert "efficiency" in (tmp_path / "lease-simulation.svg").read_text()
    assert "wrote" in capsys.readouterr().out
