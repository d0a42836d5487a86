"""Leases that fail wherever they run, that do not fit, and that outlive the rest."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.cluster import dispatcher, driver
from papilio.cluster.executor import Executor, InlineExecutor
from papilio.cluster.own_cluster import LocalExecutor
from papilio.errors import CapacityError, FailedItemsError
from papilio.storage.store import GraphStore
from papilio.tasks.job import LeaseResult
from papilio.tasks.lease_scheduler import LeaseScheduler
from tests.cluster import functions
from tests.tasks.fakes import plan_of

BUTTERFLIES = 25_666_956


def finished_items(job: Path) -> set[int]:
    leases = papilio.open_job(job).history().leases
    return {item for lease in leases for item in range(lease.start, lease.stop)}


@pytest.mark.parametrize("inside", [True, False])
def test_the_item_that_always_fails_is_named_and_the_rest_is_finished(
    inside: bool, local: Executor, senate: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tmp_path / "job"
    function = functions.report_poisoned_item if inside else functions.raise_at_poisoned_item
    executor = InlineExecutor() if inside else local
    n_items = papilio.plan(senate, papilio.Butterfly()).n_items
    with monkeypatch.context() as patch:
        patch.setattr(driver, "run_lease", function)
        with pytest.raises(FailedItemsError, match=rf"1 of {n_items} work items fail .*: item 7 of partition 0"):
            papilio.count(senate, papilio.Butterfly(), cluster=executor, job=job)
    assert finished_items(job) == set(range(n_items)) - {functions.POISONED}
    result = papilio.count(senate, papilio.Butterfly(), cluster=local, job=job)
    assert result.count == BUTTERFLIES
    assert result.leases == result.leases_before + 1


def test_without_a_job_directory_the_first_item_that_fails_ends_the_run(
    local: Executor, senate: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "run_lease", functions.raise_at_poisoned_item)
    with pytest.raises(FailedItemsError, match=r"(?s)item 7 of partition 0 .*ValueError: bug at item 7"):
        papilio.count(senate, papilio.Butterfly(), cluster=local)


@pytest.mark.slow
def test_the_item_that_kills_every_worker_is_named_and_the_rest_is_finished(
    women: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "REPLACEMENT_S", 300.0)
    job = tmp_path / "job"
    with LocalExecutor(2) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(driver, "run_lease", functions.die_at_poisoned_item)
            with pytest.raises(FailedItemsError, match=r"item 7 of partition 0 \(its workers ended"):
                papilio.count(women, papilio.Butterfly(), cluster=executor, job=job)
        result = papilio.count(women, papilio.Butterfly(), cluster=executor, job=job)
    assert result.count == 341
    assert result.leases == result.leases_before + 1


def test_a_lease_that_does_not_fit_is_split(
    local: Executor, women: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "run_lease", functions.refuse_large_leases)
    result = papilio.count(women, papilio.Butterfly(), per="vertex", cluster=local)
    assert result.count == 341
    assert result.leases >= result.items / 3


def test_an_item_that_does_not_fit_is_an_error_that_names_it(
    local: Executor, women: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "run_lease", functions.refuse_all_leases)
    with pytest.raises(CapacityError, match=r"items \[\d+, \d+\) do not fit"):
        papilio.count(women, papilio.Butterfly(), cluster=local)


def test_a_worker_that_loses_its_device_is_replaced(senate: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "REPLACEMENT_S", 300.0)
    monkeypatch.setattr(driver, "run_lease", functions.lose_device_once)
    with LocalExecutor(1) as executor:
        before = executor.workers[0].pid
        assert papilio.count(senate, papilio.Butterfly(), cluster=executor).count == BUTTERFLIES
        deadline = time.monotonic() + 600
        while not (pids := executor.client.run(functions.process_id, on_error="ignore").values()) or before in pids:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_the_tail_is_cut_and_shared(local: Executor) -> None:
    """One of two workers is four times slower than predicted: the fast one takes over what it holds."""
    n_items = 400
    plan = plan_of(np.full(n_items, int(4 * 5e8 * functions.ITEM_S), dtype=np.int64), 2)
    counter = LeaseScheduler(plan, f"cut-{time.time()}", None)
    workers = list(local.workers)
    results: list[LeaseResult] = list(local.run(functions.sleep_through, counter, workers, 2))
    done = sorted((each.start, each.stop) for each in results if each.start < each.stop)
    assert done[0][0] == 0
    assert done[-1][1] == n_items
    assert all(a[1] == b[0] for a, b in pairwise(done))
    ends: dict[str, float] = {}
    for each in results:
        ends[each.worker] = max(ends.get(each.worker, 0.0), each.ended_at)
    assert len(ends) == 2
    took = max(ends.values()) - min(each.began_at for each in results)
    assert max(ends.values()) - min(ends.values()) < 0.3 * took


def test_a_cut_lease_is_no_loss(local: Executor, senate: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that all are cut after their first item, or before it, still tile the job."""
    monkeypatch.setattr(driver, "run_lease", functions.stop_after_some_items)
    result: Any = papilio.count(senate, papilio.Butterfly(), per="edge", cluster=local)
    assert result.count == BUTTERFLIES
    assert int(result.vectors["edge"].sum()) == 4 * BUTTERFLIES
    assert result.leases > 4
