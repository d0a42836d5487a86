"""Submit and leave: the cluster finishes the job, whatever becomes of the client and of the coordinator."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from distributed import Client

import papilio
from papilio.cluster import submit as submit_module
from papilio.cluster.existing import LAG_S, ExistingExecutor
from papilio.cluster.submit import dataset_name
from papilio.errors import ClusterError, InputError, JobBusyError, JobUnfinishedError
from papilio.motifs import Granularity
from papilio.question import Question
from papilio.storage.graph_models import Complete
from papilio.storage.ledger import read_ledger
from papilio.storage.store import open_store, write_store
from papilio.tasks.job import job_of
from papilio.tasks.job_state import Priority, Submission
from papilio.tasks.session import JobSession
from tests.cluster import submit_functions
from tests.cluster.conftest import dask_processes
from tests.conftest import ROOT
from tests.tools.numba_cache import compile_here
from tests.tools.strategies import skewed_graph

SIDE = 1300
BUTTERFLIES = comb(SIDE, 2) ** 2

TIMEOUT_S = 300

OPTIONS = ("--nthreads", "1", "--preload", "tests.cluster.short_leases")


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The scheduler file of two workers of one thread each, which their nannies start again when they die."""
    with dask_processes(tmp_path_factory.mktemp("submit"), 2, *OPTIONS) as (path, _):
        yield path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, scheduler: Path) -> Iterator[Path]:
    """A complete graph, which the workers keep prepared because somebody uses it all the time."""
    path = tmp_path_factory.mktemp("store") / "complete"
    papilio.generate(Complete(SIDE, SIDE), path)
    with ExistingExecutor(scheduler, 2) as executor:
        job = job_of(open_store(path), Question(papilio.Butterfly(), "total"))
        executor.check_source(job, executor.workers)
        yield path


def call(*args: object, code: int = 0) -> tuple[str, str]:
    """Run the command in a process of its own, which is gone when this returns."""
    done = subprocess.run(
        [sys.executable, "-m", "papilio", *map(str, args)],
        cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def submit(store: Path, scheduler: Path, job: Path, priority: Priority = "normal", per: Granularity = "total") -> None:
    """Submit from this process, whose client is closed when this returns."""
    papilio.submit(store, papilio.Butterfly(), cluster=scheduler, job=job, priority=priority, per=per)


def status(job: Path) -> Any:
    return papilio.open_job(job).status()


def lease_records(job: Path) -> list[dict[str, Any]]:
    path = job / "ledger.jsonl"
    records = read_ledger(path).records if path.exists() else ()
    return [record for record in records if record["type"] == "lease"]


def wait_until(reached: Any, what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def wait_for_leases(job: Path, number: int, gate: Path | None = None) -> list[dict[str, Any]]:
    """Return the leases once there are so many, and others left; no more than these pass the gate, or one more."""

    def reached() -> bool:
        found = len(lease_records(job))
        if gate is not None and found < number and not any(gate.iterdir()):
            (gate / uuid4().hex).touch()
        return found >= number

    wait_until(reached, f"{number} leases")
    assert not (job / "result.json").exists()
    return lease_records(job)


@contextmanager
def gate_of(scheduler: Path) -> Iterator[Path]:
    """Stop the leases on the workers of a scheduler until the block ends, however slow this process is."""
    gate = scheduler.parent / "gate"
    gate.mkdir()
    try:
        yield gate
    finally:
        shutil.rmtree(gate, ignore_errors=True)


@contextmanager
def another_worker(folder: Path, scheduler: Path) -> Iterator[None]:
    """Run one more worker without a nanny until the block ends."""
    command = [
        sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(scheduler), "--no-nanny",
        "--no-dashboard", "--local-directory", str(folder), *OPTIONS,
    ]  # fmt: skip
    environment = os.environ | {"PAPILIO_TEST_GATE": str(scheduler.parent / "gate")}
    with (
        (folder / "log2").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def log_of(job: Path) -> str:
    return "".join(papilio.read_job_log(job))


def test_the_cluster_finishes_what_a_client_left(scheduler: Path, tmp_path: Path) -> None:
    store, job, output = tmp_path / "graph", tmp_path / "job", tmp_path / "counts.parquet"
    papilio.generate(Complete(300, 300), store)
    compile_here(store, "vertex")
    butterflies = comb(300, 2) ** 2
    asked = ("count", "butterfly", store, "--per", "vertex", "--output", output, "--job", job)
    out, error = call("submit", *asked, "--cluster", scheduler)
    assert out == f"{job}\n"
    assert f"papilio cancel {job}" in error
    assert status(job).state in ("submitted", "waiting", "running")
    out, error = call("wait", job)
    assert out.startswith(f"{butterflies}\n")
    counts = pq.read_table(output).column("count").to_numpy()
    assert counts.size == 600
    assert set(counts) == {299 * comb(300, 2)}
    found = status(job)
    assert (found.state, found.coordinator.state, found.coordinator.attempt) == ("finished", "finished", 1)
    assert call("count", "butterfly", store, "--per", "vertex", "--job", job)[0].startswith(f"{butterflies}\n")
    log = call("logs", job, "--follow")[0]
    for text in (
        "coordinator 1 of submission",
        f"plan {found.plan_key}",
        "phase run",
        f"count {butterflies}",
    ):
        assert text in log
    text = call("status", job)[0]
    assert "state       finished\n" in text
    assert f"; coordinator 1 on worker {found.coordinator.worker} " in text
    assert "already finished; nothing was submitted" in call("submit", *asked, "--cluster", scheduler)[1]
    with Client(str(json.loads(scheduler.read_text())["address"]), set_as_default=False) as client:
        wait_until(lambda: dataset_name(job) not in client.list_datasets(), "the task is let go")


@pytest.mark.slow
@pytest.mark.parametrize("victims", ["coordinator", "all"])
def test_another_coordinator_goes_on_from_the_ledger(
    store: Path, scheduler: Path, tmp_path: Path, victims: str
) -> None:
    job = tmp_path / "job"
    with gate_of(scheduler) as gate:
        submit(store, scheduler, job)
        kept = wait_for_leases(job, 6, gate)
        first = status(job).coordinator
        with ExistingExecutor(scheduler, 2) as executor:
            pids = [worker.pid for worker in executor.workers]
        assert first.pid in pids
        for pid in [first.pid] if victims == "coordinator" else pids:
            os.kill(pid, signal.SIGKILL)
    out, _ = call("wait", job)
    assert out.startswith(f"{BUTTERFLIES}\n")
    leases, found = lease_records(job), status(job)
    assert leases[: len(kept)] == kept
    assert [each.number for each in found.sessions] == [1, 2], "two coordinators counted"
    assert found.coordinator.attempt == 2
    assert found.coordinator.pid != first.pid
    assert found.coordinator.losses == 0, "a finished lease makes up for a loss"
    items = sorted((lease["start"], lease["stop"]) for lease in leases)
    assert [start for start, _ in items] == [0, *(stop for _, stop in items[:-1])], "an item counted twice"
    again = [lease for lease in leases if lease["session"] == 2]
    assert len(again) < len(leases)
    assert papilio.verify_job(job)[0].count == BUTTERFLIES
    assert f"process {first.pid} on {first.host}, was lost" in log_of(job)


@pytest.mark.slow
def test_a_cancelled_job_keeps_its_leases_and_goes_on(store: Path, scheduler: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    with gate_of(scheduler) as gate:
        submit(store, scheduler, job)
        wait_for_leases(job, 3, gate)
        began = time.monotonic()
        assert "asked to stop" in call("cancel", job)[1]
    assert f"the job of {job} was cancelled" in call("wait", job, code=7)[1]
    assert time.monotonic() - began < 60
    assert "was already asked to stop" in call("cancel", job)[1]
    wait_until(lambda: status(job).coordinator.state == "cancelled", "the coordinator notes it")
    found = status(job)
    assert (found.state, found.holder, found.sessions[-1].outcome) == ("cancelled", None, "cancelled")
    kept = lease_records(job)
    submit(store, scheduler, job)
    assert papilio.wait_job(job, timeout_s=TIMEOUT_S).leases_before >= len(kept)
    assert lease_records(job)[: len(kept)] == kept
    assert "is already finished" in call("cancel", job, code=2)[1]


@pytest.mark.slow
def test_a_second_submission_is_refused_while_the_first_runs(
    store: Path, scheduler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papilio.storage.ledger.LOCK_WAIT_S", 0.05)
    job = tmp_path / "job"
    with gate_of(scheduler) as gate:
        submit(store, scheduler, job)
        with pytest.raises(papilio.PapilioError, match=r"is already submitted to|is being written by"):
            submit(store, scheduler, job)
        wait_for_leases(job, 1, gate)
        with pytest.raises(JobUnfinishedError, match="is running after 0 s"):
            papilio.wait_job(job, timeout_s=0)
        with pytest.raises(JobBusyError, match="is being written by process"):
            submit(store, scheduler, job)
    assert papilio.wait_job(job, timeout_s=TIMEOUT_S).count == BUTTERFLIES
    assert len(status(job).sessions) == 1


def test_a_failed_job_says_why_and_can_be_submitted_again(scheduler: Path, tmp_path: Path) -> None:
    store, job = tmp_path / "graph", tmp_path / "job"
    papilio.generate(Complete(20, 30), store)
    edges = next((store / "edges").iterdir())
    whole = edges.read_bytes()
    edges.write_bytes(bytes(len(whole)))
    submit(store, scheduler, job)
    error = call("wait", job, code=1)[1]
    assert f"the job of {job} failed: " in error
    found = status(job)
    assert found.state == "failed"
    assert str(store) in found.reason
    assert f"failed: {found.reason}" in log_of(job)
    assert "state       failed: " in call("status", job)[0]
    assert "is failed and no process is running it" in call("cancel", job, code=2)[1]
    edges.write_bytes(whole)
    submit(store, scheduler, job)
    assert papilio.wait_job(job, timeout_s=TIMEOUT_S).count == comb(20, 2) * comb(30, 2)


@pytest.mark.slow
def test_a_submission_that_the_scheduler_lost_can_be_repeated(scheduler: Path, tmp_path: Path) -> None:
    papilio.generate(Complete(20, 30), tmp_path / "graph")
    job = tmp_path / "job"
    with JobSession(
        job,
        job_of(open_store(tmp_path / "graph"), Question(papilio.Butterfly(), "total")),
        str(tmp_path / "graph"),
        {"cluster": None, "engine": "cpu", "workers": None, "output": None},
    ):
        pass
    address = str(json.loads(scheduler.read_text())["address"])
    elsewhere = Submission("1", "tcp://elsewhere:8786", "auto", None, "normal", None, "h", time.time())
    papilio.open_job(job).control.write(elsewhere)
    assert f"the job of {job} is submitted after 0 s" in call("wait", job, "--timeout", 0, code=8)[1]
    with pytest.raises(InputError, match="is already submitted to tcp://elsewhere:8786"):
        submit(tmp_path / "graph", scheduler, job)
    papilio.open_job(job).control.write(replace(elsewhere, cluster=address))
    submit(tmp_path / "graph", scheduler, job)
    assert papilio.wait_job(job, timeout_s=TIMEOUT_S).count == comb(20, 2) * comb(30, 2)


@pytest.mark.slow
def test_two_coordinators_of_one_job_count_nothing_twice(tmp_path: Path) -> None:
    """The first is cut off but alive: the scheduler gives the job to another worker, which finds it locked."""
    store, job = tmp_path / "graph", tmp_path / "job"
    papilio.generate(Complete(SIDE, SIDE), store)
    with (
        dask_processes(tmp_path, 1, *OPTIONS, "--no-nanny") as (scheduler, _),
        another_worker(tmp_path, scheduler),
        ExistingExecutor(scheduler, 2) as executor,
    ):
        with gate_of(scheduler) as gate:
            submit(store, scheduler, job)
            wait_for_leases(job, 3, gate)
            first = status(job).coordinator
            os.kill(first.pid, signal.SIGSTOP)
        try:
            executor.client.run_on_scheduler(submit_functions.give_up, first.worker)
            wait_until(lambda: status(job).coordinator.attempt == 2, "another coordinator")
            wait_until(lambda: f"waits: process {first.pid} on" in log_of(job), "it finds the lock taken")
            kept = lease_records(job)
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert papilio.wait_job(job, timeout_s=TIMEOUT_S).count == BUTTERFLIES
        assert lease_records(job)[: len(kept)] == kept
        assert papilio.verify_job(job)[0].count == BUTTERFLIES


@pytest.mark.slow
def test_jobs_share_the_workers_by_priority_and_none_starves(store: Path, scheduler: Path, tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    submit(store, scheduler, low, "low")
    wait_for_leases(low, 1)
    submit(store, scheduler, high, "high")
    for job in (high, low):
        assert papilio.wait_job(job, timeout_s=TIMEOUT_S).count == BUTTERFLIES
    began = {job: sorted(lease["began_at"] for lease in lease_records(job)) for job in (low, high)}
    during = [at for at in began[low] if began[high][0] <= at <= began[high][-1]]
    assert 1 <= len(during) < len(began[high]) / 2, "lower leases wait, but not for the end of the others"
    assert began[high][-1] < began[low][-1]


def test_a_directory_that_workers_do_not_see_is_refused(
    store: Path, scheduler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit_module, "find_folder_problem", submit_functions.look_elsewhere)
    job = tmp_path / "job"
    with pytest.raises(ClusterError, match=rf"worker tcp://\S+ cannot use the job: .*{job} does not exist there"):
        submit(store, scheduler, job)
    assert list(tmp_path.iterdir()) == []
    job.mkdir()
    with pytest.raises(ClusterError, match="does not exist there"):
        submit(store, scheduler, job)
    assert list(job.iterdir()) == []


def test_a_folder_is_tried_by_reading_and_writing(tmp_path: Path) -> None:
    (tmp_path / "probe").write_text("probe")
    assert submit_module.find_folder_problem(str(tmp_path), "probe") is None
    assert [path.name for path in tmp_path.iterdir()] == ["probe"]
    (tmp_path / "probe").write_text("another")
    assert "a different directory" in str(submit_module.find_folder_problem(str(tmp_path), "probe"))
    assert "does not exist there" in str(submit_module.find_folder_problem(str(tmp_path / "no"), "probe"))


def test_clusters_that_end_with_the_client_are_refused(store: Path, tmp_path: Path) -> None:
    for cluster in ("local", "inline", "auto", "slurm:cores=2"):
        with pytest.raises(InputError, match="submit to a permanent scheduler"):
            papilio.submit(store, papilio.Butterfly(), cluster=cluster, job=tmp_path / "job")
    assert list(tmp_path.iterdir()) == []


def test_the_number_in_dask_is_the_time_at_which_a_lease_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.cluster.existing.time.time", lambda: 1000.0)
    numbers = {name: ExistingExecutor("tcp://127.0.0.1:9", priority=name).task_priority() for name in LAG_S}
    assert numbers == {"high": -1_000_000, "normal": -1_060_000, "low": -1_600_000}
    with pytest.raises(InputError, match="priority is 'urgent'"):
        ExistingExecutor("tcp://127.0.0.1:9", priority="urgent")  # type: ignore[arg-type]


@pytest.mark.slow
def test_graphs_stay_while_another_job_uses_them(scheduler: Path, tmp_path: Path) -> None:
    papilio.generate(Complete(20, 30), tmp_path / "graph")
    job = job_of(open_store(tmp_path / "graph"), Question(papilio.Butterfly(), "total"))

    def held(executor: Any) -> list[int]:
        return list(executor.client.run(submit_functions.count_prepared, job.graph_hash).values())

    with ExistingExecutor(scheduler, 2) as other:
        with ExistingExecutor(scheduler, 2) as executor:
            other.check_source(job, other.workers)
            papilio.count(tmp_path / "graph", papilio.Butterfly(), cluster=executor)
            assert max(held(executor)) == 1
        assert max(held(other)) == 1
        with ExistingExecutor(scheduler, 2) as executor:
            other.close()
            assert max(held(executor)) == 0


def test_random_graphs_are_counted_by_the_cluster(store: Path, scheduler: Path, tmp_path: Path) -> None:
    """A submitted comparison gives what this process finds; its samples are leases of the workers."""
    graph, job, file = tmp_path / "graph", tmp_path / "job", tmp_path / "samples.csv"
    write_store(graph, skewed_graph(3, 120, 90, 1500), provenance={})
    words = (graph, "--samples", 120, "--seed", 3, "--cluster", scheduler, "--job", job, "--output", file)
    here = papilio.significance(str(graph), "butterfly", samples=120, seed=3, cluster="inline", engine="cpu")
    call("submit", "significance", "butterfly", *words)
    found = papilio.wait_job(job, timeout_s=TIMEOUT_S)
    assert isinstance(found, papilio.SignificanceResult)
    assert (found.count, found.samples, found.z) == (here.count, here.samples, here.z)
    assert len(file.read_text().splitlines()) == 121
    with pytest.raises(InputError, match="null is 'edges', which is for random graphs: set samples, too"):
        papilio.submit(graph, "butterfly", cluster=scheduler, job=tmp_path / "other", null="edges")
    with pytest.raises(InputError, match=r"parts is .*: leave it out"):
        papilio.submit(graph, "butterfly", cluster=scheduler, job=tmp_path / "other", samples=9, parts="parts")
