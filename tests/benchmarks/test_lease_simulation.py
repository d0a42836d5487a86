"""The model of leases: known schedules, conservation, wrong predictions; and the study that uses it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import lease_simulation
from benchmarks.lease_model import Machine, Outcome, Policy, simulate
from benchmarks.lease_simulation import JOBS_S, Search, Workload, run_experiments
from papilio.kernels.engine import CostTable
from papilio.tasks.forecast import NS
from papilio.tasks.leases import FinishedIntervals

COSTS = np.sort(np.random.default_rng(7).pareto(3.0, 30_000) * 1000).astype(np.int64)[::-1] + 1
"""Skewed, heaviest first."""

SEARCH = Search(COSTS, tuple(np.linspace(0.7, 1.3, 16).tolist()), "a test")
"""Light items take longer than predicted."""


def ideal(n_workers: int, latency_s: float = 0.0) -> Machine:
    """Workers of equal speed whose leases take what they cost, and a client that needs time for leases alone."""
    others = dict.fromkeys(("collect_s", "scheduler_s", "message_s", "lease_noise", "worker_noise"), 0.0)
    return Machine(n_workers, latency_s, record_s=0.0, **others)


def times(seconds: list[float]) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(seconds)))


def play(seconds: list[float], machine: Machine, policy: Policy | None = None) -> Outcome:
    """Simulate items that take what the planner believes."""
    table = CostTable.from_costs((np.array(seconds) * NS).astype(np.int64))
    return simulate(times(seconds), table, machine, policy)


def assert_tiled(outcome: Outcome, n_items: int) -> None:
    done = FinishedIntervals([n_items])
    for start, stop in outcome.intervals:
        done.record(0, start, stop)
    done.require_complete()


def test_known_schedules() -> None:
    alone = Policy(asked_at_once=0)
    # Shares of 6 s; an item is never split.
    assert play([5, 4, 3, 3, 3], ideal(3), alone).makespan_s == pytest.approx(9)
    # Leases come at 1 and 2, one after the other, and are answered at 5 and 6.
    outcome = play([4, 4], ideal(2, latency_s=1), alone)
    assert outcome.makespan_s == pytest.approx(6)
    assert outcome.efficiency == pytest.approx(8 / 12)
    assert outcome.client_share == pytest.approx(2 / 6)
    # The clock ends leases after 20 s.
    outcome = play([1.0] * 50, ideal(1), alone)
    assert outcome.intervals == ((0, 20), (20, 40), (40, 50))
    assert play([1.0] * 5, ideal(1), Policy(kept=True)).intervals == ((0, 2), (2, 4), (4, 5))


def test_a_worker_that_is_idle_gets_half_of_the_rest() -> None:
    # Worker 0 gets 100 items that take three times as long as predicted, worker 1 as many that take a third of it.
    seconds = times([0.15] * 100 + [0.0167] * 100)
    table = CostTable.from_costs(np.full(200, NS // 20, dtype=np.int64))
    alone = simulate(seconds, table, ideal(2), Policy(asked_at_once=0))
    assert alone.makespan_s == pytest.approx(15)
    outcome = simulate(seconds, table, ideal(2))
    assert outcome.shares >= 1
    assert outcome.makespan_s < 1.05 * seconds[-1] / 2
    # Asked soon after 1.67 s: 12 of 100 items are begun, and half of the others are left.
    assert (56, 100) in outcome.intervals or (55, 100) in outcome.intervals
    assert_tiled(outcome, 200)


@pytest.mark.parametrize("n_workers", [2, 4, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wrong", [1.0, 4.0, 10.0])
def test_wrong_predictions_cost_little(n_workers: int, wrong: float) -> None:
    """Each section of the items takes up to ten times longer or shorter than predicted, the whole job as well."""
    for seed in range(5):
        load = Workload(SEARCH, 10.0 * n_workers, wrong, seed)
        for predicted in (1.0, wrong, 1 / wrong):
            outcome = simulate(load.cumulative_s(), load.table(predicted), ideal(n_workers, 0.003))
            assert outcome.makespan_s < 1.1 * 10.0
            assert_tiled(outcome, COSTS.size)


@pytest.mark.parametrize(
    "policy", [Policy(asked_at_once=0), Policy(), Policy(asked_at_once=2), Policy(in_flight=3, kept=True)]
)
@pytest.mark.parametrize("n_workers", [1, 3, 16, 200])
def test_every_item_is_run_once(n_workers: int, policy: Policy) -> None:
    machine = Machine(n_workers, lease_noise=0.3, slow_every=4, seed=5)
    load = Workload(SEARCH, 100.0, 3.0)
    outcome = simulate(load.cumulative_s(), load.table(), machine, policy)
    assert_tiled(outcome, COSTS.size)
    assert 0 < outcome.efficiency <= 1
    assert outcome.leases >= len(outcome.intervals)
    if n_workers == 1 or policy.asked_at_once == 0:
        assert outcome.shares == 0


def test_sharing_helps_where_a_worker_is_slow() -> None:
    load = Workload(SEARCH, 300.0)
    machine = Machine(16, slow_every=16)
    shared = simulate(load.cumulative_s(), load.table(), machine)
    without = simulate(load.cumulative_s(), load.table(), machine, Policy(asked_at_once=0))
    assert shared.efficiency > without.efficiency + 0.1


def test_one_worker_loses_latency_alone() -> None:
    load = Workload(SEARCH, 50.0)
    assert simulate(load.cumulative_s(), load.table(), ideal(1)).efficiency == pytest.approx(1)
    one = simulate(load.cumulative_s(), load.table(), ideal(1, latency_s=0.002), Policy(in_flight=1))
    assert one.makespan_s == pytest.approx(50 + 0.002 * one.leases)
    two = simulate(load.cumulative_s(), load.table(), ideal(1, latency_s=0.002))
    assert two.makespan_s == pytest.approx(50, abs=0.005)


def test_the_same_seed_gives_the_same_schedule() -> None:
    load = Workload(SEARCH, 100.0)
    runs = [simulate(load.cumulative_s(), load.table(), Machine(8, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].makespan_s != runs[2].makespan_s


def test_nobody_and_nothing() -> None:
    empty = CostTable((0,), (0,))
    with pytest.raises(ValueError, match="n_workers is 0"):
        simulate(np.zeros(1), empty, Machine(0))
    with pytest.raises(ValueError, match="5 times of a table of 0 items"):
        simulate(np.zeros(5), empty, Machine(1))
    assert simulate(np.zeros(1), empty, Machine(3)).makespan_s == 0


def test_work_is_scaled_to_the_job() -> None:
    load = Workload(SEARCH, 60.0, 4.0)
    seconds = load.cumulative_s()
    assert (seconds[0], seconds[-1]) == (0, pytest.approx(60))
    assert np.all(np.diff(seconds) > 0)
    assert load.table(0.5).total == 30 * NS


@pytest.mark.slow
def test_the_study_compares_all_policies() -> None:
    panels = run_experiments(SEARCH, workers=(1, 16), seeds=1, say=lambda text: None)
    rows = {(name, row["variant"], row["workers"]): row for name in panels for row in panels[name]["rows"]}
    assert all((name, job, n) in rows for name in ("jobs", "slow_jobs") for job in JOBS_S for n in (1, 16))
    assert all(0 < row["efficiency"] <= 1 for row in rows.values())
    assert rows["policy", "shares, halved", 16]["efficiency"] > rows["policy", "shares", 16]["efficiency"]
    assert rows["jobs", "10 h", 1]["efficiency"] > 0.99
    json.dumps(panels)


@pytest.mark.slow
def test_the_command_writes_table_data_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the plots need matplotlib: install papilio[benchmark]")
    monkeypatch.setattr(lease_simulation, "measure_search", lambda store: SEARCH)
    monkeypatch.setattr(lease_simulation, "SEEDS", 1)
    panels = {"jobs": lease_simulation._panels()["jobs"]}
    monkeypatch.setattr(lease_simulation, "_panels", lambda: panels)
    lease_simulation.main(["--output", str(tmp_path), "--max-workers", "4"])
    table = (tmp_path / "lease-simulation.md").read_text()
    assert f"| workers | {' | '.join(JOBS_S)} |" in table
    data = json.loads((tmp_path / "lease-simulation.json").read_text())
    assert data["search"] == "a test"
    assert len(data["panels"]["jobs"]["rows"]) == 2 * len(JOBS_S)
    assert (tmp_path / "lease-simulation.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote" in capsys.readouterr().out
