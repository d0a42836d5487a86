"""What goes wrong on a cluster: every failure ends quickly, in one error that says where and what to do."""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from distributed import Future, LocalCluster
from distributed.comm import CommClosedError

import papilio
from papilio.cluster import dispatcher, driver, existing
from papilio.cluster.events import Event, LeaseFinished, PlanMade
from papilio.cluster.executor import Executor
from papilio.cluster.existing import ExistingExecutor
from papilio.cluster.own_cluster import LocalExecutor
from papilio.cluster.pool import quiet_dask
from papilio.errors import (
    CapacityError,
    ClusterError,
    ExecutionError,
    PapilioError,
    StoreError,
    TilingError,
)
from papilio.question import Question
from papilio.storage.store import GraphStore
from papilio.tasks import leases as lease_policy
from papilio.tasks.job import LeaseTask, job_of
from papilio.tasks.lease_scheduler import LeaseScheduler
from tests.cluster import functions
from tests.cluster.conftest import dask_processes
from tests.tasks.fakes import make_job


def tasks(n: int, run_id: str) -> list[LeaseTask]:
    return [LeaseTask(make_job(), "cpu", "plan", run_id, 0, k, k + 1, 1, "costs") for k in range(n)]


class FixedLeases:
    """A source of leases of one item each, tried three times."""

    def __init__(self, n: int, run_id: str) -> None:
        self._pending = deque(tasks(n, run_id))

    @property
    def has_more(self) -> bool:
        return bool(self._pending)

    def take(self, n_workers: int, worker: str = "") -> LeaseTask | None:
        return self._pending.popleft() if self._pending else None

    def answer(self, task: LeaseTask, result: Any) -> None:
        pass

    def lose(self, task: LeaseTask, worker: str, *, was_running: bool) -> None:
        if task.attempt == 2:
            raise ClusterError(f"{task} ended 3 workers")
        attempt = task.attempt + was_running
        self._pending.appendleft(replace(task, attempt=attempt, sequence=task.sequence + 1))

    def fail(self, task: LeaseTask, error: Exception) -> None:
        raise error

    def predict_s(self, task: LeaseTask, worker: str) -> None:
        pass


def run(executor: Any, function: Any, n: int, run_id: str, in_flight: int = 2) -> list[Any]:
    return list(executor.run(function, FixedLeases(n, run_id), executor.workers, in_flight))


def test_tasks_go_to_workers_as_these_come_free(local: Executor) -> None:
    answers = run(local, functions.report_interval, 9, "free")
    assert sorted(answer[:2] for answer in answers) == [(k, k + 1) for k in range(9)]
    assert {answer[2] for answer in answers} == {worker.name for worker in local.workers}


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (functions.raise_value_error, ExecutionError, r"(?s)items \[\d, \d\).*ValueError: bug at"),
        (functions.raise_store_error, StoreError, "row group 3 is gone"),
        (functions.raise_memory_error, CapacityError, "out of memory"),
    ],
)
def test_errors_inside_tasks_name_the_worker(
    local: Executor, function: Any, kind: type[PapilioError], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        run(local, function, 3, function.__name__)
    assert any(worker.name in str(caught.value) for worker in local.workers)


@pytest.mark.parametrize("function", [functions.shift_interval, functions.repeat_interval])
def test_tampered_intervals_are_refused(
    function: Any, local: Executor, senate: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "run_lease", function)
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 2e-5)
    with pytest.raises(TilingError, match="its task was items"):
        papilio.count(senate, papilio.Butterfly(), cluster=local)


def test_leases_that_never_come_back_are_noticed(
    local: Executor, senate: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 2e-5)
    whole = LeaseScheduler.take
    total = papilio.plan(senate, papilio.Butterfly()).n_items

    def take_all_but_the_last(counter: LeaseScheduler, n_workers: int, worker: str) -> LeaseTask | None:
        task = whole(counter, n_workers, worker)
        return None if task is None or task.stop == total else task

    monkeypatch.setattr(LeaseScheduler, "take", take_all_but_the_last)
    with pytest.raises(TilingError, match="never finished"):
        papilio.count(senate, papilio.Butterfly(), cluster=local)


def test_a_lost_worker_costs_time_only(senate: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 2e-5)
    monkeypatch.setattr(lease_policy, "VECTOR_OVERHEAD", 1e9)
    finished: list[LeaseFinished] = []

    with LocalExecutor(2) as executor:

        def listener(event: Event) -> None:
            if isinstance(event, PlanMade):
                os.kill(executor.workers[0].pid, signal.SIGKILL)
            elif isinstance(event, LeaseFinished):
                finished.append(event)

        result = papilio.count(senate, papilio.Butterfly(), per="vertex", cluster=executor, progress=listener)
        assert result.count == 25_666_956
        assert int(result.vectors["u"].sum()) == 2 * result.count
        assert len(finished) == result.leases


@pytest.mark.slow
def test_a_task_that_takes_its_workers_down_is_tried_three_times() -> None:
    with LocalExecutor(2) as executor:
        lost = run(executor, functions.kill_first_attempt, 6, "once")
        assert sorted(dict(lost)) == list(range(6))
        assert dict(lost)[0] == 1
        with pytest.raises(ClusterError, match=r"items \[0, 1\) of partition 0 ended 3 workers"):
            run(executor, functions.kill_worker, 1, "always")


def test_an_answer_that_is_lost_with_its_worker_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "COLLECT_S", 0.5)
    with LocalExecutor(2) as executor:
        assert sorted(run(executor, functions.die_after_answer, 6, "answered")) == list(range(6))


class Threads(LocalExecutor):
    """A cluster whose workers are threads of this process."""

    def _make_cluster(self, **common: Any) -> Any:
        return LocalCluster(n_workers=self._n_workers, threads_per_worker=1, processes=False, **common)


def test_news_of_a_lost_worker_that_comes_late_is_no_error(senate: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler answers already without the worker when the cluster is told that it is lost."""
    with Threads(2, insecure=True) as executor:
        cluster = executor.client.cluster
        news, late = cluster.scheduler.plugins["worker-status"].bcomm, list[Any]()
        with monkeypatch.context() as patch:
            patch.setattr(news, "send", late.append)
            lost = executor.workers[0].name
            cluster.sync(cluster.scheduler.remove_worker, address=lost, stimulus_id="test")
            executor.refresh()
            assert [worker.name for worker in executor.workers] == [executor.workers[0].name] != [lost]
        assert ["remove", lost] in late

        async def tell() -> None:
            for each in late:
                cluster._update_worker_status(*each)

        cluster.sync(tell)
        assert papilio.count(senate, papilio.Butterfly(), cluster=executor, engine="cpu").count == 25_666_956


def test_a_worker_that_goes_while_it_is_asked_is_passed_over(
    senate: GraphStore, local: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, whole = local.workers[0].name, local.client.run  # type: ignore[attr-defined]
    asked: list[str] = []

    async def lose_one(function: Any, *args: Any, **options: Any) -> Any:
        answers = await whole(function, *args, **options)
        if function.__name__ not in asked and gone in answers:
            asked.append(function.__name__)
            answers[gone] = CommClosedError("in <TLS>: Stream is closed")
        return answers

    monkeypatch.setattr(local.client, "run", lose_one)  # type: ignore[attr-defined]
    local.workers = local.workers[1:]  # others than the scheduler knows
    assert papilio.count(senate, papilio.Butterfly(), cluster=local, engine="cpu").count == 25_666_956
    # A worker that has nothing left may ask the others for half of what they have; it depends on who is done first.
    assert [name for name in asked if name != "leave_half"] == ["describe_dask_worker", "find_store_problem"]
    assert gone in [worker.name for worker in local.workers]


def test_no_worker_left_ends_the_run(scheduler_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "REPLACEMENT_S", 1.0)
    with ExistingExecutor(scheduler_file) as executor:
        monkeypatch.setattr(executor, "live_workers", dict)
        with pytest.raises(ClusterError, match="all workers are gone"):
            list(_blocked(executor))


def _blocked(executor: Any) -> Any:
    """Bind a task to a worker that does not exist."""
    gone = [replace(executor.workers[0], name="tcp://127.0.0.1:9")]
    return executor.run(functions.report_interval, FixedLeases(1, "gone"), gone, 2)


def test_a_lost_scheduler_ends_the_run(tmp_path: Path) -> None:
    with dask_processes(tmp_path, 1) as (path, scheduler), ExistingExecutor(path) as executor:
        Timer(0.5, scheduler.kill).start()
        with pytest.raises(ClusterError, match="lost the connection to the scheduler"):
            run(executor, functions.wait_long, 1, "lost")


def test_tasks_that_someone_cancels_end_the_run(scheduler_file: Path) -> None:
    with ExistingExecutor(scheduler_file) as executor:
        future = Future(tasks(1, "cancelled")[0].key, executor.client)
        Timer(0.5, future.cancel, kwargs={"force": True}).start()
        with pytest.raises(ClusterError, match=r"the scheduler dropped items \[0, 1\)"):
            run(executor, functions.wait_long, 1, "cancelled")


def test_paused_workers_end_the_run(scheduler_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "STALL_S", 0.5)
    with ExistingExecutor(scheduler_file) as executor:
        monkeypatch.setattr(executor, "live_workers", lambda: {"tcp://127.0.0.1:9": "paused"})
        with pytest.raises(ClusterError, match="paused at their memory limit"):
            list(_blocked(executor))


@pytest.mark.parametrize("target", ["tcp://127.0.0.1:9", "tcp://no-such-host.invalid:8786", "nonsense://x"])
def test_bad_addresses_fail_quickly(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask itself would try for 30 s."""
    tried, connect = list[float](), existing.connect

    def listen(address: str, timeout: float, **options: Any) -> Any:
        tried.append(timeout)
        return connect(address, timeout=timeout, **options)

    monkeypatch.setattr(existing, "connect", listen)
    monkeypatch.setattr(existing, "CONNECT_S", 1.0)
    with pytest.raises(ClusterError, match="no Dask scheduler answers at"), ExistingExecutor(target):
        pass
    assert tried == [1.0]


def test_a_scheduler_file_that_is_being_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing, "WRITE_S", 300.0)
    path = tmp_path / "scheduler.json"
    path.touch()
    whole = existing.read_json

    def read_then_write(*args: Any) -> Any:
        try:
            return whole(*args)
        finally:
            path.write_text('{"address": "tcp://127.0.0.1:9", "id": "Scheduler"}')

    monkeypatch.setattr(existing, "read_json", read_then_write)
    assert existing._address_in(path) == "tcp://127.0.0.1:9"


def test_bad_scheduler_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing, "WRITE_S", 0.0)
    with pytest.raises(ClusterError, match="an existing scheduler file"), ExistingExecutor("no-such-file"):
        pass
    for text in ("{", "{}", "[]"):
        (tmp_path / "file").write_text(text)
        with (
            pytest.raises(ClusterError, match="is not a scheduler file"),
            ExistingExecutor(tmp_path / "file"),
        ):
            pass


def test_too_few_workers_are_an_error(scheduler_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.cluster.pool.JOIN_S", 0.5)
    with pytest.raises(ClusterError, match="2 of 3 workers joined"), ExistingExecutor(scheduler_file, 3):
        pass


def test_a_worker_of_another_version_is_refused(scheduler_file: Path) -> None:
    with ExistingExecutor(scheduler_file) as executor:
        try:
            executor.client.run(functions.set_version, "0.0.1", workers=[executor.workers[1].name])
            with (
                pytest.raises(ClusterError, match=r"has papilio 0\.0\.1; this process has"),
                ExistingExecutor(scheduler_file),
            ):
                pass
        finally:
            executor.client.run(functions.set_version, papilio.__version__)


def test_a_store_that_workers_do_not_find_is_refused(
    local: Executor, senate: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(senate, Question(papilio.Butterfly(), "total"))
    for changed, text in (
        (replace(job, source="/no/such/store"), "does not exist"),
        (replace(job, graph_hash="f" * 32), "is a different graph"),
    ):
        with pytest.raises(ClusterError, match=text):
            local.check_source(changed, local.workers)


def test_workers_that_order_items_differently_are_refused(
    local: Executor, senate: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = type(local).run

    def run_and_alter(*args: Any, **options: Any) -> Any:
        for report in whole(*args, **options):
            yield replace(report, costs_digest="0" * 32)

    monkeypatch.setattr(type(local), "run", run_and_alter)
    with pytest.raises(ClusterError, match=r"orders the work items of .* differently from the plan"):
        papilio.count(senate, papilio.Butterfly(), cluster=local)
    with pytest.raises(ClusterError, match=r"orders the work items of .* differently from the plan"):
        papilio.estimate(senate, papilio.Biclique(5, 5), cluster=local, error=0.5)


def test_a_plan_waits_for_one_worker_only(local: LocalExecutor, senate: GraphStore, tmp_path: Path) -> None:
    """A busy worker holds up neither the plan nor a job that another worker can do alone."""
    alone = papilio.count(senate, papilio.Butterfly(), cluster="inline")
    end = tmp_path / "end"
    busy = local.client.submit(
        functions.wait_for_file, str(end), workers=[local.workers[-1].name], pure=False, priority=1
    )
    try:
        assert papilio.count(senate, papilio.Butterfly(), cluster=local).count == alone.count
        assert not busy.done()
    finally:
        end.touch()
        busy.result(timeout=60)


def test_an_executor_that_is_not_started_says_so() -> None:
    with pytest.raises(ClusterError, match="is not started"):
        _ = LocalExecutor(1).client


def test_dask_is_quiet_and_gets_its_levels_back() -> None:
    logger = logging.getLogger("distributed.client")
    before = logger.level
    with quiet_dask():
        assert not logger.isEnabledFor(logging.CRITICAL)
    assert logger.level == before
