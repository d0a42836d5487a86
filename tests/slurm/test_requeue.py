"""Batch jobs that lose time, nodes or workers, and the layout of GPU workers, on a real Slurm."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import papilio
from papilio.cluster.sbatch import parse_time
from papilio.storage.store import GraphStore
from tests.conftest import ROOT
from tests.slurm.conftest import START, Slurm, assert_nothing_is_left, run_slurm
from tests.tools.fake_driver import build_driver, fake_uuid

pytestmark = pytest.mark.slurm

SENATE = 25_666_956

SIDE = 2600
BUTTERFLIES = math.comb(SIDE, 2) ** 2

MEMORY = ("--memory", "3GiB")

TELLING = "tests.cluster.telling_leases"

NOTE = """#!/usr/bin/env bash
[[ $1 != worker ]] || echo "$SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $(taskset -cp $$)" \\
    >"$0-$SLURM_JOB_ID-$SLURM_PROCID"
exec {dask} "$@"
"""
"""In place of the command dask: a worker says first where it runs and what it may use."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A complete graph, whose count takes several seconds."""
    path = tmp_path_factory.mktemp("slurm requeue") / "graph"
    command = [sys.executable, "-m", "papilio", "generate", "complete", str(path)]
    command += ["--n-u", str(SIDE), "--n-v", str(SIDE)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return str(path)


def status(job_folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "papilio", "status", str(job_folder), "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return dict(json.loads(answer.stdout)) if answer.returncode == 0 else {"items_done": 0}


def wait_for_lease(slurm: Slurm, job: str) -> None:
    slurm.wait(job, lambda _: status(slurm.folder / "durable job")["items_done"] > 0, 300)


def limit_time(job: str, minutes: int) -> None:
    """Change the time limit of a job, unless it has ended."""
    subprocess.run(["scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}"], check=False, timeout=120)


def answer_of(slurm: Slurm, job: str) -> dict[str, Any]:
    """Return the last answer: a run that was ended while it left has given one, and the next one gives it again."""
    return dict(json.loads((slurm.folder / f"papilio-butterfly-{job}.out").read_text().splitlines()[-1]))


def tasks_of(job: str, node: str) -> list[psutil.Process]:
    """Return the processes that Slurm started for the workers of a job on a node, and all below them."""
    found = []
    for process in psutil.process_iter():
        try:
            variables = process.environ()
        except psutil.Error:
            continue
        place = [variables.get(f"SLURM{name}") for name in ("_JOB_ID", "_STEP_ID", "D_NODENAME")]
        if place == [job, "0", node]:
            found.append(process)
    return found


@pytest.fixture(scope="module", autouse=True)
def hung(
    slurm_daemons: None, store: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Slurm, dict[str, Any]]]:
    """A durable count whose workers hang after some leases, and its state then; it waits for its time limit.

    The limit is set when the workers hang, so that no machine is too slow to come to that. Slurm looks at time limits
    every half minute only, so the other tests run in between.
    """
    for slurm in run_slurm(tmp_path_factory.mktemp("hung")):
        flags = ["--job", str(slurm.folder / "durable job"), "--requeue", "100", "--json", "--time", "60"]
        job = slurm.submit(slurm.render(store, *flags, "--grace", "80", *MEMORY))
        wait_for_lease(slurm, job)
        for process in tasks_of(job, "one"):
            process.suspend()
        limit_time(job, parse_time(slurm.show(job)["RunTime"]) // 60 + 2)
        yield slurm, status(slurm.folder / "durable job")


@pytest.mark.slow
def test_the_loss_of_a_node_costs_time_only(slurm: Slurm, store: str) -> None:
    """The step's daemon on one of two nodes is killed with all that it started, as when a node goes down."""
    job_folder = slurm.folder / "durable job"
    flags = ["--nodes", "2", "--time", "60", "--json", "--job", str(job_folder)]
    job = slurm.submit(slurm.render(store, *flags, *MEMORY))
    wait_for_lease(slurm, job)
    lost = tasks_of(job, "two")
    assert lost, "no worker on the second node"
    daemon = next(p for p in lost[0].parents() if "slurmstepd" in (p.name(), " ".join(p.cmdline())[:10]))
    for process in [daemon, *daemon.children(recursive=True)]:
        process.kill()
    before = status(job_folder)
    assert 0 < before["items_done"] < before["items"]
    end = slurm.wait_end(job, 300)
    assert (end["JobState"], end["ExitCode"], end["Restarts"]) == ("COMPLETED", "0:0", "0"), slurm.output()
    answer = answer_of(slurm, job)
    assert (answer["count"], answer["workers"]) == (BUTTERFLIES, 2)
    assert status(job_folder)["items_done"] == before["items"]
    assert_nothing_is_left(slurm)


ENDS = {
    "cancelled": ["scancel"],
    "requeued": ["scontrol", "requeue"],
    "preempted": ["sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--wrap=sleep 1"],
}
"""Commands that let Slurm send TERM to all processes of a job, given its id; the last one to its workers first."""


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_job_that_slurm_ends_keeps_its_running_leases(end: str, slurm: Slurm, store: str, tmp_path: Path) -> None:
    """Both workers have begun a lease, and none has ended; a preempted one may end the count within its grace."""
    begun, job_folder = tmp_path / "begun", slurm.folder / "durable job"
    begun.touch()
    setup = f"export PYTHONPATH={ROOT} PAPILIO_TEST_LEASES={begun} DASK_DISTRIBUTED__WORKER__PRELOAD={TELLING}"
    flags = ["--nodes", "2", "--time", "60", "--json", "--job", str(job_folder), "--requeue", "1", "--setup", setup]
    job = slurm.submit(slurm.render(store, *flags, *MEMORY), "--partition=patient")
    slurm.wait(job, lambda _: len(begun.read_text().splitlines()) >= 2, 300)
    subprocess.run(ENDS[end] + ([] if end == "preempted" else [job]), cwd=slurm.folder, check=True, timeout=120)
    fields, ended = slurm.wait_end(job, 300), status(job_folder)
    assert f"STEP {job}.0 ON one CANCELLED" in Path(os.environ["SLURM_CONF"]).with_name("slurmd-one.log").read_text()
    assert ended["leases"] >= len(begun.read_text().splitlines()), slurm.output()
    if end == "cancelled":
        assert (fields["JobState"], ended["sessions"][0]["outcome"]) == ("CANCELLED", "SIGTERM")
        assert papilio.resume_job(job_folder, cluster="inline").count == BUTTERFLIES
    else:
        ends = ("COMPLETED", "TIMEOUT") if end == "preempted" else ("COMPLETED",)  # Slurm's word for the end of a grace
        assert (fields["JobState"] in ends, fields["ExitCode"]) == (True, "0:0"), slurm.output()
        assert answer_of(slurm, job)["count"] == BUTTERFLIES
    assert_nothing_is_left(slurm)


def fail_node(job: str, node: str) -> None:
    """Kill the daemon of a node and all of a job on it, and let the controller notice, as when a node goes down."""
    daemon = Path(os.environ["SLURM_CONF"]).with_name(f"slurmd-{node}.pid")
    psutil.Process(int(daemon.read_text())).kill()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            variables = process.environ()
            if (variables.get("SLURM_JOB_ID"), variables.get("SLURMD_NODENAME")) == (job, node):
                process.kill()
    down = ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"]
    subprocess.run(down, check=True, timeout=120)


@pytest.fixture
def mended() -> Iterator[None]:
    """Start the nodes again that a test let fail."""
    yield
    folder = Path(os.environ["SLURM_CONF"]).parent
    for node in ("one", "two"):
        if not psutil.pid_exists(int((folder / f"slurmd-{node}.pid").read_text())):
            subprocess.run([str(START), "node", str(folder), node], check=True, timeout=180)


@pytest.mark.slow
@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize(("node", "n_nodes"), [("two", 2), ("one", 1)], ids=["of workers", "of the scheduler"])
def test_a_node_that_goes_down_costs_time_only(node: str, n_nodes: int, slurm: Slurm, store: str) -> None:
    """The job goes on without a node of workers; Slurm queues it again when it loses the node of the script."""
    job_folder = slurm.folder / "durable job"
    flags = ["--nodes", str(n_nodes), "--time", "60", "--json", "--job", str(job_folder), "--requeue", "1"]
    job = slurm.submit(slurm.render(store, *flags, *MEMORY))
    wait_for_lease(slurm, job)
    assert slurm.show(job)["BatchHost"] == "one"
    fail_node(job, node)
    before = status(job_folder)
    assert 0 < before["items_done"] < before["items"]
    end = slurm.wait_end(job, 300)
    assert (end["JobState"], end["ExitCode"], end["Restarts"]) == ("COMPLETED", "0:0", str(2 - n_nodes)), slurm.output()
    answer = answer_of(slurm, job)
    assert answer["count"] == BUTTERFLIES
    assert n_nodes == 2 or answer["job"]["leases_before"] >= before["leases"]
    assert_nothing_is_left(slurm)


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two workers are bound to a processor each")
def test_each_gpu_worker_has_its_device_and_its_processor(slurm: Slurm, votes: GraphStore, tmp_path: Path) -> None:
    """The whole script, with a driver library in place of GPUs and the cpu engine in place of kernels."""
    build_driver(tmp_path)
    note = tmp_path / "dask"
    note.write_text(NOTE.format(dask=Path(sys.executable).with_name("dask")))
    note.chmod(0o755)
    flags = ["--partition", "gpu", "--gpus-per-node", "test:2", "--json", "--time", "60", *MEMORY]
    flags += ["--setup", f"export LD_LIBRARY_PATH={tmp_path} PATH={tmp_path}:$PATH"]
    script = slurm.render(votes.path, *flags)
    text = script.read_text()
    assert text.count("--engine=gpu") == 1
    script.write_text(text.replace("--engine=gpu", "--engine=cpu"))
    job = slurm.submit(script)
    assert slurm.wait_end(job, 300)["ExitCode"] == "0:0", slurm.output()
    answer = answer_of(slurm, job)
    assert (answer["count"], answer["workers"]) == (SENATE, 2)
    assert {worker["gpu_uuid"] for worker in answer["worker_details"]} == {fake_uuid(0), fake_uuid(1)}
    seen = [path.read_text().split() for path in sorted(tmp_path.glob(f"dask-{job}-*"))]
    assert [words[:3] for words in seen] == [["0", "bound", "0"], ["1", "bound", "1"]]
    processors = [words[-1] for words in seen]
    assert all(one.isdigit() for one in processors), "a worker may use several processors"
    assert processors[0] != processors[1]
    assert_nothing_is_left(slurm)


@pytest.mark.slow
def test_gpu_workers_that_share_a_gpu_end_the_job(slurm: Slurm, votes: GraphStore, tmp_path: Path) -> None:
    """Both virtual nodes give their first GPU, which is the same one: they are one machine."""
    build_driver(tmp_path)
    flags = ["--nodes", "2", "--gpus-per-node", "1", "--time", "60", *MEMORY]
    job = slurm.submit(slurm.render(votes.path, *flags, "--setup", f"export LD_LIBRARY_PATH={tmp_path}"))
    end = slurm.wait_end(job, 300)
    assert (end["JobState"], end["ExitCode"]) == ("FAILED", "6:0"), slurm.output()
    assert f"use the same GPU, {fake_uuid(0)}; start one worker per GPU" in slurm.output()


@pytest.mark.slow
def test_a_job_that_reaches_its_time_limit_resumes_by_itself(hung: tuple[Slurm, dict[str, Any]]) -> None:
    """Time limit, signal, requeue, resume: nobody does anything, and the workers do not answer."""
    slurm, before = hung
    job, job_folder = slurm.jobs[0], slurm.folder / "durable job"
    assert 0 < before["items_done"] < before["items"]
    slurm.wait(job, lambda fields: int(fields["Restarts"]) > 0, 300)
    # On a busy machine runs after the first may have reached the limit too; each goes on where the one before ended.
    limit_time(job, 60)
    end = slurm.wait_end(job, 600)
    assert (end["JobState"], end["ExitCode"]) == ("COMPLETED", "0:0"), slurm.output()
    assert "the time limit is near; ending the count" in slurm.output()
    assert "queued again; the next run resumes from what is finished" in slurm.output()
    answer = answer_of(slurm, job)
    assert answer["count"] == BUTTERFLIES
    assert answer["job"]["leases_before"] >= before["leases"] > 0
    after = status(job_folder)
    sessions = after["sessions"]
    assert sessions[-1]["outcome"] == "finished"
    assert sessions[0]["leases"] == before["leases"]
    assert sum(session["leases"] for session in sessions) == after["leases"]
    assert_nothing_is_left(slurm)
