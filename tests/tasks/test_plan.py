"""Plans: leases tile, decisions are numbered, keys do not depend on workers, JSON round trip."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from papilio.cli.report import plan_lines
from papilio.errors import CapacityError, TilingError
from papilio.motifs import Biclique, Listing
from papilio.tasks.forecast import NS, Forecast, Range
from papilio.tasks.leases import SHORTEST_LEASE_S, VECTOR_OVERHEAD
from papilio.tasks.memory import predict_memory, require_memory
from papilio.tasks.plan import VECTOR_BYTES_PER_S, CountPlan, Lease, make_plan
from tests.tasks.fakes import make_job, make_report, make_worker, plan_of

HEAVY = np.full(20_000, 2_500_000, dtype=np.int64)
"""20,000 items of 2.5 ms each: 50 s."""


def test_small_job_is_one_lease() -> None:
    plan = plan_of(np.array([5, 4, 1], dtype=np.int64), n_workers=8)
    assert plan.leases == (Lease(0, 0, 3, 10),)


def test_empty_job_has_no_leases_and_is_valid() -> None:
    plan = plan_of(np.array([], dtype=np.int64))
    assert plan.leases == ()
    plan.validate()


def test_every_worker_gets_an_equal_share() -> None:
    plan = plan_of(HEAVY, n_workers=4)
    plan.validate()
    works = [lease.work for lease in plan.leases]
    assert works == pytest.approx([HEAVY.sum() / 4] * 4, rel=0.01)
    assert sum(works) == plan.predicted_ns == int(HEAVY.sum())
    assert plan.predicted_run_s == pytest.approx(12.5)


@pytest.mark.parametrize(("share", "n_leases"), [(0.9, 1), (1.1, 2), (4.1, 4)])
def test_a_job_too_short_for_all_workers_takes_some(share: float, n_leases: int) -> None:
    plan = plan_of(np.full(1000, int(2 * share * SHORTEST_LEASE_S * NS / 1000)), n_workers=4)
    assert len(plan.leases) == n_leases
    said = [each.reason for each in plan.decisions if each.what.endswith(" of 4 at first")]
    assert len(said) == (n_leases < 4)
    assert all("takes longer than it saves" in reason for reason in said)


def test_leases_of_vector_jobs_are_long_compared_with_passing_the_vector_on() -> None:
    for n_edges in (10**6, 10**8):
        vector_s = 8 * n_edges / VECTOR_BYTES_PER_S
        plan = plan_of(np.tile(HEAVY, 70), 2, make_job(per="edge", n_edges=n_edges))
        assert len(plan.leases) > 2
        assert min(lease.work for lease in plan.leases) >= 0.999 * vector_s / VECTOR_OVERHEAD * NS


def test_every_worker_gets_a_lease_of_a_vector_job_that_lasts() -> None:
    for n_workers in (2, 3, 8):
        plan = plan_of(np.tile(HEAVY, 10), n_workers, make_job(per="edge", n_edges=10**9))
        works = [lease.work for lease in plan.leases]
        assert len(works) == n_workers
        assert max(works) < 1.2 * min(works)


def test_decisions_are_numbered_with_reasons() -> None:
    plan = plan_of(HEAVY)
    assert [decision.number for decision in plan.decisions] == [1, 2, 3, 4]
    assert all(decision.what and decision.reason for decision in plan.decisions)


def test_key_is_the_question_not_the_workers() -> None:
    assert plan_of(HEAVY, 1).key == plan_of(HEAVY, 7).key
    assert plan_of(HEAVY).key != plan_of(HEAVY[1:]).key
    assert plan_of(HEAVY).key != plan_of(HEAVY, job=make_job(per="edge")).key


def test_json_round_trip_and_tampering() -> None:
    plan = plan_of(HEAVY, 3, make_job(per="edge"))
    data = json.loads(json.dumps(plan.to_dict()))
    assert CountPlan.from_dict(data) == plan
    data["costs_digest"] = "e" * 32
    with pytest.raises(TilingError, match="plan again"):
        CountPlan.from_dict(data)


def test_validate_refuses_a_gap() -> None:
    plan = plan_of(HEAVY, 4)
    with pytest.raises(TilingError, match="never finished"):
        replace(plan, leases=plan.leases[1:]).validate()


def test_a_job_that_cannot_fit_names_worker_need_and_limit() -> None:
    job = make_job(n_u=10**8, n_v=10**8, n_edges=2 * 10**9)
    workers = (make_worker("roomy", memory_bytes=1 << 42), make_worker("tight", memory_bytes=8 << 30))
    with pytest.raises(CapacityError, match=r"worker tight on h has 8\.00 GiB of host memory; .* needs about"):
        require_memory(job, "cpu", workers)
    assert require_memory(job, "cpu", workers[:1]).host_bytes > 8 << 30


def test_device_memory_is_checked_too() -> None:
    worker = make_worker(memory_bytes=1 << 42, gpu="GPU", gpu_memory_bytes=1 << 30, gpu_missing=None)
    with pytest.raises(CapacityError, match="of device memory"):
        require_memory(make_job(n_edges=10**9), "gpu", (worker,))


def test_memory_grows_with_what_is_asked() -> None:
    sizes = {"n_u": 10**6, "n_v": 10**6, "n_edges": 10**7}
    total, vertex, edge = (
        predict_memory(make_job(**sizes, per=per), "cpu", 2).host_bytes for per in ("total", "vertex", "edge")
    )
    assert total < vertex < edge
    assert predict_memory(make_job(**sizes), "gpu").device_bytes > 10**7 * 24


def test_what_the_engine_decided_is_among_the_decisions() -> None:
    report = replace(make_report(HEAVY), decisions=(("layer U anchored", "asked for"),))
    job = make_job()
    plan = make_plan(job, "cpu", "", (make_worker(),), report, predict_memory(job, "cpu"))
    assert ("layer U anchored", "asked for") in [(each.what, each.reason) for each in plan.decisions]
    assert [each.number for each in plan.decisions] == list(range(1, len(plan.decisions) + 1))


FORECAST = Forecast(512, "", Range(60.0, 30.0, 120.0), Range(1e6, 8e5, 1.5e6), Range(5e6, 4e6, 8e6))


def forecast_plan(forecast: Forecast, n_workers: int = 1, **job: Any) -> CountPlan:
    asked = make_job(**{"motif": Biclique(2, 3), **job})
    report = replace(make_report(HEAVY), forecast=forecast)
    workers = tuple(make_worker(f"w{i}") for i in range(n_workers))
    return make_plan(asked, "cpu", "", workers, report, predict_memory(asked, "cpu"))


def test_the_time_of_a_plan_is_that_of_what_is_left_on_all_workers() -> None:
    plan = forecast_plan(FORECAST, 4)
    assert plan.run_s == Range(15.0, 7.5, 30.0)
    half = replace(plan, finished=((0, 0, HEAVY.size // 2),))
    assert half.run_s == Range(7.5, 3.75, 15.0)
    assert (plan.listing_rows, plan.listing_bytes) == (None, None)
    assert "15 s (7.5 s to 30 s), 60 s (30 s to 120 s) on one worker" in "\n".join(plan_lines(plan))


@pytest.mark.parametrize("limit", [None, 10**6])
def test_a_plan_of_a_listing_has_rows_and_bytes(limit: int | None) -> None:
    plan = forecast_plan(FORECAST, listing=Listing(limit=limit))
    rows, n_bytes = plan.listing_rows, plan.listing_bytes
    assert rows == FORECAST.rows if limit is None else rows == Range(1e6, 8e5, 1e6)
    assert rows is not None
    assert n_bytes is not None
    assert n_bytes.low <= 1.2 * rows.low
    assert n_bytes.high > 3.6 * rows.high
    assert n_bytes.value == 2.4 * rows.value
    assert plan.run_s == (FORECAST.seconds if limit is None else Range(60.0, 20.0, 120.0))
    written = json.loads(json.dumps(plan.to_dict()))
    assert written["listing_rows"]["high"] == rows.high
    assert CountPlan.from_dict(written) == plan
    assert "rows        about 1e+06" in "\n".join(plan_lines(plan))


def test_a_listing_of_a_few_rows_ends_early() -> None:
    plan = forecast_plan(FORECAST, listing=Listing(limit=1000))
    assert plan.run_s is not None
    assert plan.run_s.high == pytest.approx(0.15)
    assert plan.run_s.value == pytest.approx(0.06)


@pytest.mark.parametrize(
    ("forecast", "what", "reason"),
    [
        (FORECAST, "about 60 s (30 s to 120 s) on one worker", "512 probes of the search predict it"),
        (Forecast(64, "", Range(6, 1, 90)), "about 6 s", "a few of them dominate the estimate, which can be far off"),
        (Forecast(0, "no probes", None), "time not predicted", "no probes; .* can take a thousand times as long"),
        (Forecast(0, "the work is known exactly", Range(1, 1, 1)), "about 1 s", "the work is known exactly, .* at"),
    ],
)  # fmt: skip
def test_a_plan_explains_its_forecast(forecast: Forecast, what: str, reason: str) -> None:
    plan = forecast_plan(forecast)
    (said,) = [each for each in plan.decisions if each.what.startswith(what)]
    assert re.search(reason, said.reason)
    lines = "\n".join(plan_lines(plan))
    assert ("not predicted; " in lines) == (forecast.seconds is None)
