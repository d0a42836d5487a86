"""The same job on every executor: the same exact answer, nothing large on the wire, nothing left behind."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import numpy as np
import psutil
import pytest
from distributed import Client

import papilio
from papilio.cluster.events import Event, LeaseFinished, PlanMade
from papilio.cluster.executor import Executor, InlineExecutor
from papilio.cluster.existing import FORGET_S, ExistingExecutor
from papilio.cluster.own_cluster import LocalExecutor
from papilio.cluster.pool import DaskPool
from papilio.errors import ClusterError, InputError
from papilio.storage.store import GraphStore
from papilio.tasks import leases as lease_policy
from papilio.tasks.lease_scheduler import LeaseScheduler
from tests.conftest import START_METHOD, read_edges

BUTTERFLIES = 25_666_956


LONGEST_S = {"total": 1e-4, "vertex": 2e-4, "edge": 4e-4}
"""Of the leases of each question, which cut even a small job into dozens."""


@pytest.fixture(scope="module")
def address(scheduler_file: Path) -> str:
    return str(json.loads(scheduler_file.read_text())["address"])


@pytest.fixture(params=["inline", "local", "address", "scheduler-file", "client", "dask-cluster"])
def make_cluster(
    request: pytest.FixtureRequest, local: Executor, scheduler_file: Path, address: str
) -> Iterator[Callable[[], Any]]:
    """Return what a user would give as ``cluster``."""
    if request.param == "client":
        with Client(address, set_as_default=False) as client:
            yield lambda: client
        return
    if request.param == "dask-cluster":
        with dask.config.set({START_METHOD: "spawn"}), LocalExecutor(2) as executor:  # as in a user's program
            yield lambda: executor.client.cluster
        return
    yield {
        "inline": lambda: "inline",
        "local": lambda: local,
        "address": lambda: address,
        "scheduler-file": lambda: str(scheduler_file),
    }[request.param]


@pytest.fixture(scope="module")
def expected(senate: GraphStore) -> dict[str, papilio.CountResult]:
    """The answers of the inline executor."""
    return {per: papilio.count(senate, papilio.Butterfly(), per=per) for per in ("total", "vertex", "edge")}


def test_all_executors_give_the_same_answer(
    make_cluster: Callable[[], Any],
    senate: GraphStore,
    expected: dict[str, papilio.CountResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "VECTOR_OVERHEAD", 1e9)
    folder = Path(senate.path).parent
    before = sorted(folder.iterdir())
    for per, right in expected.items():
        monkeypatch.setattr(lease_policy, "MAX_LEASE_S", LONGEST_S[per])
        events: list[Event] = []
        result = papilio.count(
            senate.path,
            papilio.Butterfly(),
            per=per,
            cluster=make_cluster(),
            engine="cpu",
            progress=events.append,
        )
        assert result.count == right.count == BUTTERFLIES
        assert result.plan_key == right.plan_key
        assert result.work == right.work
        assert result.vectors.keys() == right.vectors.keys()
        for name, vector in right.vectors.items():
            assert np.array_equal(result.vectors[name], vector)
        assert result.largest == right.largest
        finished = [event for event in events if isinstance(event, LeaseFinished)]
        plans = [event.plan for event in events if isinstance(event, PlanMade)]
        assert len(finished) == result.leases == sum(result.leases_by_worker.values())
        assert sum(event.work for event in finished) == plans[0].predicted_ns
        if result.cluster != "inline":
            assert len(result.workers) == 2
            assert result.leases > 2
            assert all(count > 0 for count in result.leases_by_worker.values())
            assert max(len(pickle.dumps(event.result)) for event in finished) < 2000
            assert len(pickle.dumps(LeaseScheduler(plans[0], "run", "/tmp").take(2))) < 2000
    assert sorted(folder.iterdir()) == before


def test_laws_of_the_sums_hold_for_vectors(expected: dict[str, papilio.CountResult]) -> None:
    vertex, edge = expected["vertex"].vectors, expected["edge"].vectors
    assert int(vertex["u"].sum()) == int(vertex["v"].sum()) == 2 * BUTTERFLIES
    assert int(edge["edge"].sum()) == 4 * BUTTERFLIES


def test_a_second_count_on_a_cluster_reads_nothing_again(local: Executor, senate: GraphStore) -> None:
    papilio.count(senate, papilio.Butterfly(), cluster=local)
    again = papilio.count(senate, papilio.Butterfly(), cluster=local)
    assert again.count == BUTTERFLIES
    assert (again.seconds["read"], again.seconds["prepare"]) == (0.0, 0.0)


def test_outputs_are_written_whole_and_shards_removed(local: Executor, senate: GraphStore, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for per, column in (("vertex", "count"), ("edge", "support")):
        target = tmp_path / f"{per}.parquet"
        result = papilio.count(senate, papilio.Butterfly(), per=per, cluster=local, output=target)
        assert result.output == str(target)
        assert sum(pq.read_table(target).column(column).to_pylist()) == 4 * BUTTERFLIES
    assert {path.name for path in tmp_path.iterdir()} == {"vertex.parquet", "edge.parquet"}


def test_graph_in_memory_travels_through_a_temporary_store(
    local: Executor, example_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    graph = read_edges(example_data / "southern-women.txt.gz")
    result = papilio.count(graph, papilio.Butterfly(), per="vertex", cluster=local)
    assert result.count == 341
    assert result.graph["path"] is None
    assert list(tmp_path.iterdir()) == []


def test_plan_on_a_cluster_counts_its_workers(local: Executor, senate: GraphStore) -> None:
    plan = papilio.plan(senate, papilio.Butterfly(), cluster=local)
    assert plan.n_workers == 2
    assert plan.key == papilio.plan(senate, papilio.Butterfly()).key


def test_engine_threads_are_the_threads_of_the_worker(scheduler_file: Path) -> None:
    with ExistingExecutor(scheduler_file) as executor:
        assert [worker.threads for worker in executor.workers] == [2, 2]
        assert all(worker.memory_bytes > 0 for worker in executor.workers)


def test_an_existing_cluster_keeps_no_graph_after_the_run(scheduler_file: Path, senate: GraphStore) -> None:
    for _ in range(2):
        with ExistingExecutor(scheduler_file) as executor:
            first, second = (
                papilio.count(senate, papilio.Butterfly(), cluster=executor, engine="cpu") for _ in range(2)
            )
            assert first.seconds["read"] > 0
            assert second.seconds["read"] == 0.0


def test_a_stopped_worker_does_not_keep_the_client(scheduler_file: Path, senate: GraphStore) -> None:
    with ExistingExecutor(scheduler_file) as executor:
        papilio.count(senate, papilio.Butterfly(), cluster=executor)
        stopped = psutil.Process(executor.workers[0].pid)
        stopped.suspend()
        started = time.monotonic()
        try:
            executor.close()
        finally:
            stopped.resume()
        assert time.monotonic() - started < FORGET_S + 60


def test_executor_can_be_closed_twice_and_started_again() -> None:
    executor = InlineExecutor(threads=1)
    executor.close()
    with executor:
        assert executor.workers[0].threads == 1


def test_numbers_of_workers_that_make_no_sense_are_refused(local: Executor, senate: GraphStore) -> None:
    with pytest.raises(InputError, match="the inline cluster has one worker"):
        InlineExecutor(2)
    with pytest.raises(InputError, match="workers is 0"):
        papilio.open_cluster("local", workers=0)
    with pytest.raises(InputError, match="workers cannot be combined with an executor"):
        papilio.count(senate, papilio.Butterfly(), cluster=local, workers=2)
    with pytest.raises(InputError, match="cluster is a int"):
        papilio.open_cluster(7)


@pytest.mark.parametrize(("place", "advised"), [("conversions/a.csv-1/graph", True), ("graph", False)])
def test_workers_that_do_not_see_a_conversion_need_a_shared_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, advised: bool
) -> None:
    monkeypatch.setenv("PAPILIO_CACHE", str(tmp_path))
    pool = ExistingExecutor("tcp://nowhere:8786")
    monkeypatch.setattr(pool, "_ask_each", lambda *_, **__: {"tcp://other:1": f"{place} does not exist"})
    job: Any = SimpleNamespace(source=str(tmp_path / place), graph_hash="0" * 32)
    worker: Any = SimpleNamespace(name="tcp://other:1", host="other")
    with pytest.raises(ClusterError, match="worker tcp://other:1 on other cannot use the store") as caught:
        DaskPool.check_source(pool, job, (worker,))
    assert ("set PAPILIO_CACHE" in str(caught.value)) == advised
