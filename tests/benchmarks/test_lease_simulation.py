"""The model of leases: hand-made schedules, the code's own decisions, conservation; and the study that uses it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks import lease_simulation
from benchmarks.lease_model import Counter, Machine, Outcome, Policy, simulate
from benchmarks.lease_simulation import JOBS_S, Workload, run_experiments
from papilio.kernels.engine import CostTable
from papilio.tasks import leases as lease_policy
from papilio.tasks import leases as work_pool
from papilio.tasks.forecast import NS
from papilio.tasks.job import LeaseResult
from papilio.tasks.lease_scheduler import LeaseScheduler
from papilio.tasks.leases import FinishedIntervals
from tests.conftest import share_of_examples
from tests.tasks.fakes import plan_of

COSTS = np.sort(np.random.default_rng(7).pareto(1.5, 3000) * 1000).astype(np.int64)[::-1] + 1
"""Skewed, heaviest first."""

ONE_BY_ONE = Policy(
    guided_share=10**6, min_lease_s=0.0, shortest_lease_s=0.0, fair_parts=10**9, in_flight=1, cuts_at_once=0
)
"""Every item is a lease."""


def ideal(n_workers: int, latency_s: float = 0.0, mispredicted: float = 1.0) -> Machine:
    """Workers of equal speed whose leases take what they cost, and a client that needs time for leases alone."""
    return Machine(
        n_workers, latency_s, ask_s=0.0, look_s=0.0, left_s=0.0, lease_noise=0.0, worker_noise=0.0,
        mispredicted=mispredicted,
    )  # fmt: skip


def times(seconds: list[float]) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(seconds)))


def play(seconds: list[float], machine: Machine, policy: Policy = ONE_BY_ONE) -> Outcome:
    """Simulate items that take what the planner believes."""
    costs = (np.array(seconds) * 1000).astype(np.int64)
    return simulate(times(seconds), CostTable.from_costs(costs), machine, policy)


def assert_tiled(outcome: Outcome, n_items: int) -> None:
    done = FinishedIntervals([n_items])
    for start, stop in outcome.intervals:
        done.record(0, start, stop)
    done.require_complete()


def test_known_schedules() -> None:
    # 5 | 4 then 3 | 3: ends at 5, 7 and 3 + 3.
    assert play([5, 4, 3, 3, 3], ideal(3)).makespan_s == pytest.approx(7)
    # The first leases come at 1 and 2; the third is asked for at 5 and comes at 6.
    outcome = play([4, 4, 4], ideal(2, latency_s=1))
    assert outcome.makespan_s == pytest.approx(10)
    assert outcome.efficiency == pytest.approx(12 / 20)
    assert outcome.scheduler_share == pytest.approx(3 / 10)
    # With two in flight the third comes at 3, before the first lease ends.
    ahead = play([4, 4, 4], ideal(2, latency_s=1), replace(ONE_BY_ONE, in_flight=2))
    assert ahead.makespan_s == pytest.approx(9)


def test_a_lease_that_waits_goes_to_an_idle_worker_only_by_cutting() -> None:
    # Worker 0 holds items 0 and 2, worker 1 items 1 and 3; at 2 worker 1 is idle and items 0 and 2 are cut: the
    # first one cannot be, for it is a single item. Item 2 comes back at 10, goes out again, and is asked for in vain.
    seconds = [10.0, 1, 1, 1]
    stuck = replace(ONE_BY_ONE, in_flight=2)
    assert play(seconds, ideal(2), stuck).makespan_s == pytest.approx(11)
    outcome = play(seconds, ideal(2), replace(stuck, cuts_at_once=100))
    assert (outcome.cuts, outcome.makespan_s) == (2, pytest.approx(11))
    assert_tiled(outcome, 4)


def test_a_running_lease_answers_a_cut_after_two_slices() -> None:
    # Each lease is half of what is left: worker 0 gets 100 items, which take three times as long as predicted, and
    # worker 1 all others, one lease after the other, until 10 s.
    seconds = times([0.3] * 100 + [0.1] * 100)
    table = CostTable.from_costs(np.full(200, 1000, dtype=np.int64))
    halves = replace(ONE_BY_ONE, guided_share=1, slice_s=1.0)
    alone = simulate(seconds, table, ideal(2), halves)
    assert alone.makespan_s == pytest.approx(30)
    outcome = simulate(seconds, table, ideal(2), replace(halves, cuts_at_once=100))
    first = min(outcome.intervals)
    # Asked soon after 10 s, within slice 10: it ends at 12 s, with its fortieth item of 0.3 s.
    assert first[0] == 0
    assert 39 <= first[1] <= 41
    assert outcome.cuts >= 1
    assert outcome.makespan_s < alone.makespan_s - 5
    assert_tiled(outcome, 200)


def test_equal_parts_are_equal() -> None:
    policy = Policy(equal_parts=3, in_flight=1, cuts_at_once=0)
    for n_workers in (2, 5, 16):
        outcome = play([1.0] * 2400, ideal(n_workers), policy)
        lengths = [stop - start for start, stop in outcome.intervals]
        assert len(lengths) == 3 * n_workers
        assert max(lengths) < 1.1 * 2400 / len(lengths)


@pytest.mark.parametrize(("tenfold", "kept"), [(10.0, False), (0.1, False), (10.0, True)])
def test_the_counter_is_that_of_the_code(tenfold: float, kept: bool) -> None:
    """The same leases as a root counter hands out that hears the same answers, some of them cut short."""
    costs = np.full(100_000, 2_000_000, dtype=np.int64)
    plan = plan_of(costs, 3)
    real = LeaseScheduler(plan, "run", None, kept=kept)
    counter = Counter(CostTable.from_costs(costs), NS, 3, Policy(kept=kept))
    chance = np.random.default_rng(3)
    n_leases = 0
    while (taken := counter.take()) is not None:
        task = real.take(3)
        assert task is not None
        start, stop, work = taken
        assert (task.start, task.stop, task.work) == (start, stop, work)
        end = stop if chance.random() < 0.7 else int(chance.integers(start, stop + 1))
        done = plan.partitions[0].table.work_between(start, end)
        seconds = tenfold * done / NS
        worker = int(chance.integers(3))
        counter.answer(worker, start, end, stop, seconds)
        real.answer(task, LeaseResult(0, start, end, 0, done, f"w{worker}", "cpu", {"run": seconds}, 1))
        expected = [real.predict_s(task, f"w{n}") for n in range(3)]
        assert list(work / counter.speeds()) == pytest.approx(expected)
        n_leases += 1
    assert real.take(3) is None
    assert n_leases > 20


@pytest.mark.parametrize(
    "policy", [Policy(cuts_at_once=0), Policy(), Policy(cuts_at_once=2), Policy(in_flight=3)]
)
@pytest.mark.parametrize("n_workers", [1, 3, 16, 200])
def test_every_item_is_run_once(n_workers: int, policy: Policy) -> None:
    machine = Machine(n_workers, lease_noise=0.3, slow_every=4, seed=5)
    load = Workload(COSTS, 100.0)
    outcome = simulate(load.cumulative_s(), CostTable.from_costs(COSTS), machine, policy)
    assert_tiled(outcome, COSTS.size)
    assert 0 < outcome.efficiency <= 1
    assert outcome.leases >= len(outcome.intervals)
    if n_workers == 1 or policy.cuts_at_once == 0:
        assert outcome.cuts == 0


def test_cutting_helps_where_a_worker_is_slow() -> None:
    load, table = Workload(COSTS, 600.0), CostTable.from_costs(COSTS)
    machine = Machine(16, slow_every=16)
    with_cuts = simulate(load.cumulative_s(), table, machine)
    without = simulate(load.cumulative_s(), table, machine, Policy(cuts_at_once=0))
    assert with_cuts.efficiency > without.efficiency + 0.1


def test_few_cuts_at_a_time_help_more_than_many() -> None:
    """On many workers the client would be busy with the rests of leases that are cut all at once."""
    costs = np.full(100_000, 1000, dtype=np.int64)
    load, table = Workload(costs, 36_000.0), CostTable.from_costs(costs)
    few, many = (
        simulate(load.cumulative_s(), table, Machine(1024), Policy(cuts_at_once=most)) for most in (16, 1024)
    )
    assert few.cuts < many.cuts
    assert few.efficiency > many.efficiency + 0.01


def test_speeds_are_learnt_after_a_wrong_prediction() -> None:
    load, table = Workload(COSTS, 3600.0), CostTable.from_costs(COSTS)
    played = [simulate(load.cumulative_s(), table, ideal(4, 0.002, times)) for times in (0.1, 1.0, 10.0)]
    assert min(outcome.efficiency for outcome in played) > 0.95
    # Believed ten times as fast, the first leases aim at 200 s instead of 20 s.
    assert played[2].leases < played[1].leases


def test_one_worker_loses_latency_alone() -> None:
    load, table = Workload(COSTS, 50.0), CostTable.from_costs(COSTS)
    assert simulate(load.cumulative_s(), table, ideal(1)).efficiency == pytest.approx(1)
    one = simulate(load.cumulative_s(), table, ideal(1, latency_s=0.002), Policy(in_flight=1))
    assert one.makespan_s == pytest.approx(50 + 0.002 * one.leases)
    two = simulate(load.cumulative_s(), table, ideal(1, latency_s=0.002))
    assert two.makespan_s == pytest.approx(50.002)


@settings(max_examples=share_of_examples(60), deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 12))
def test_more_workers_never_finish_later_in_the_ideal_model(seconds: list[int], n_workers: int) -> None:
    some = play([float(s) for s in seconds], ideal(n_workers))
    more = play([float(s) for s in seconds], ideal(n_workers + 1))
    assert more.makespan_s <= some.makespan_s + 1e-9
    assert some.makespan_s >= max(sum(seconds) / n_workers, max(seconds)) - 1e-9
    assert some.makespan_s <= sum(seconds) / n_workers + max(seconds)


def test_the_same_seed_gives_the_same_schedule() -> None:
    load, table = Workload(COSTS, 100.0), CostTable.from_costs(COSTS)
    runs = [simulate(load.cumulative_s(), table, Machine(8, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].makespan_s != runs[2].makespan_s


def test_nobody_and_nothing() -> None:
    empty = CostTable((0,), (0,))
    with pytest.raises(ValueError, match="n_workers is 0"):
        simulate(np.zeros(1), empty, Machine(0))
    with pytest.raises(ValueError, match="5 times of a table of 0 items"):
        simulate(np.zeros(5), empty, Machine(1))
    assert simulate(np.zeros(1), empty, Machine(3)).makespan_s == 0


def test_a_policy_leaves_the_constants_as_they_were() -> None:
    before = lease_policy.MIN_LEASE_S, lease_policy.FAIR_PARTS, work_pool.GUIDED_SHARE
    with Policy(min_lease_s=7, fair_parts=5, guided_share=9).applied():
        assert (lease_policy.MIN_LEASE_S, lease_policy.FAIR_PARTS, work_pool.GUIDED_SHARE) == (7, 5, 9)
    assert before == (lease_policy.MIN_LEASE_S, lease_policy.FAIR_PARTS, work_pool.GUIDED_SHARE)


def test_work_is_scaled_to_the_job() -> None:
    seconds = Workload(COSTS, 60.0).cumulative_s()
    assert (seconds[0], seconds[-1]) == (0, pytest.approx(60))
    assert np.all(np.diff(seconds) > 0)


def test_the_study_compares_all_policies() -> None:
    panels = run_experiments(COSTS, workers=(1, 16), seeds=1, say=lambda text: None)
    rows = {(name, row["variant"], row["workers"]): row for name in panels for row in panels[name]["rows"]}
    assert all((name, job, n) in rows for name in ("jobs", "slow_jobs") for job in JOBS_S for n in (1, 16))
    assert all(0 < row["efficiency"] <= 1 for row in rows.values())
    guided = rows["policy", "guided", 16]["efficiency"]
    assert guided > rows["policy", "one lease per worker", 16]["efficiency"]
    assert rows["jobs", "100 h", 1]["efficiency"] > 0.99
    json.dumps(panels)


def test_the_command_writes_table_data_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the plots need matplotlib: install papilio[benchmark]")
    monkeypatch.setattr(lease_simulation, "load_costs", lambda store: (COSTS, "a test"))
    monkeypatch.setattr(lease_simulation, "SEEDS", 1)
    panels = {"jobs": lease_simulation._panels()["jobs"]}
    monkeypatch.setattr(lease_simulation, "_panels", lambda: panels)
    lease_simulation.main(["--output", str(tmp_path), "--max-workers", "4"])
    table = (tmp_path / "lease-simulation.md").read_text()
    assert f"| workers | {' | '.join(JOBS_S)} |" in table
    data = json.loads((tmp_path / "lease-simulation.json").read_text())
    assert data["graph"] == "a test"
    assert len(data["panels"]["jobs"]["rows"]) == 2 * len(JOBS_S)
    assert (tmp_path / "lease-simulation.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote" in capsys.readouterr().out
