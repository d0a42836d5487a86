"""Counts on a real Slurm of two virtual nodes: exact answers, exit codes, limits, nothing left behind."""

from __future__ import annotations

import json
import math
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio.errors import ClusterError, EngineUnavailableError, InputError
from papilio.storage.store import GraphStore
from tests.cluster.intruder import intrude
from tests.slurm.conftest import Slurm, assert_nothing_is_left, processes_with

pytestmark = pytest.mark.slurm

SENATE, COMPLETE = 25_666_956, math.comb(1900, 2) ** 2

SMALL = ("--time", "60", "--memory", "3GiB")


def test_a_rendered_script_counts_exactly_on_two_nodes(slurm: Slurm, votes: GraphStore) -> None:
    counts = slurm.folder / "vertex counts.parquet"
    flags = ["--per", "vertex", "--counts", str(counts), "--json", "--nodes", "2", "--workers-per-node", "1"]
    job = slurm.submit(slurm.render(votes.path, *flags, *SMALL))
    end = slurm.wait_end(job, 600)
    assert (end["JobState"], end["ExitCode"]) == ("COMPLETED", "0:0"), slurm.output()
    answer = json.loads((slurm.folder / f"papilio-butterfly-{job}.out").read_text())
    assert answer["count"] == SENATE
    assert answer["workers"] == 2
    assert counts.is_file()
    assert_nothing_is_left(slurm)


def test_each_gpu_worker_sees_one_gpu(slurm: Slurm, votes: GraphStore) -> None:
    script = slurm.render(votes.path, "--nodes", "2", "--gpus-per-node", "2", *SMALL)
    lines = script.read_text()
    seen = slurm.folder / "seen"
    seen.mkdir()
    # In place of the worker, each task says what it sees; the count is left out.
    begin, end = lines.index("dask worker"), lines.index("step=$!")
    note = f"""bash -c 'echo "$CUDA_VISIBLE_DEVICES" >"{seen}/$SLURM_PROCID-$SLURMD_NODENAME"'\nexit 0\n"""
    script.write_text(lines[:begin] + note + lines[end:])
    assert slurm.wait_end(slurm.submit(script), 600)["ExitCode"] == "0:0", slurm.output()
    devices = {path.name: path.read_text().strip() for path in seen.iterdir()}
    assert devices == {"0-one": "0", "1-one": "1", "2-two": "0", "3-two": "1"}


def test_a_failing_count_gives_the_job_its_exit_code(slurm: Slurm) -> None:
    job = slurm.submit(slurm.render("no such store", *SMALL))
    end = slurm.wait_end(job, 600)
    assert (end["JobState"], end["ExitCode"]) == ("FAILED", "3:0"), slurm.output()
    assert "no such store" in slurm.output()
    assert f"failed with exit code 3; logs of the scheduler and the workers are in {slurm.folder}" in slurm.output()
    logs = {path.name for path in (slurm.folder / f"papilio-run-{job}").iterdir()}
    assert {"scheduler.log", "workers.log"} <= logs


@pytest.mark.slow
def test_an_array_runs_one_count_for_each_number_of_workers(slurm: Slurm, votes: GraphStore) -> None:
    flags = ["--array", "1,2", "--workers-per-node", "2", "--json"]
    job = slurm.submit(slurm.render(votes.path, *flags, *SMALL))
    for n_workers in (1, 2):
        end = slurm.wait_end(f"{job}_{n_workers}", 600)
        assert end["ExitCode"] == "0:0", slurm.output()
        path = slurm.folder / f"papilio-butterfly-{job}-{n_workers}.out"
        answer = json.loads(path.read_text())
        assert (answer["count"], answer["workers"]) == (SENATE, n_workers)
    assert_nothing_is_left(slurm)


@pytest.mark.slow
def test_an_array_of_scaling_runs_measures_every_point(slurm: Slurm, votes: GraphStore) -> None:
    output = slurm.folder / "scaling experiment"
    command = [sys.executable, "-m", "papilio", "scale", "count", "butterfly", votes.path, "--workers", "1,2"]
    command += ["--repeat", "2", "--output", str(output), "--slurm", "--workers-per-node", "2", *SMALL]
    command += ["--setup", f"export PATH={Path(sys.executable).parent}:$PATH"]

    def submit() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)

    job = submit().stdout.strip()
    slurm.jobs.append(job)
    for n_workers in (1, 2):
        end = slurm.wait_end(f"{job}_{n_workers}", 600)
        logs = "\n".join(path.read_text() for path in (output / "slurm").glob("*.[oe][ur][tr]"))
        assert (end["JobState"], end["ExitCode"]) == ("COMPLETED", "0:0"), logs
    results = json.loads((output / "report" / "results.json").read_text())
    assert results["state"] == "finished"
    assert [(run["workers"], run["repeat"], run["count"]) for run in results["runs"]] == [
        (1, 1, str(SENATE)), (1, 2, str(SENATE)), (2, 1, str(SENATE)), (2, 2, str(SENATE)),
    ]  # fmt: skip
    assert {run["cluster"] for run in results["runs"]} == {"existing"}
    assert (output / "report" / "report.html").read_text().count("data:image/svg+xml;base64,") == 5
    assert "nothing was submitted" in submit().stderr
    assert_nothing_is_left(slurm)
    assert list((output / "slurm").glob("papilio-run-*")) == []


@pytest.mark.slow
def test_a_requeued_job_resumes_what_was_finished(slurm: Slurm, complete: str) -> None:
    job_folder = slurm.folder / "durable job"
    flags = ["--job", str(job_folder), "--requeue", "1", "--json"]
    job = slurm.submit(slurm.render(complete, *flags, *SMALL))

    def status() -> dict[str, Any]:
        command = [sys.executable, "-m", "papilio", "status", str(job_folder), "--json"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
        return dict(json.loads(answer.stdout)) if answer.returncode == 0 else {"items_done": 0}

    slurm.wait(job, lambda fields: fields["JobState"] == "RUNNING" and status()["items_done"] > 0, 600)
    subprocess.run(["scontrol", "requeue", job], check=True, timeout=300)
    slurm.wait(job, lambda fields: fields["Restarts"] == "1" and fields["JobState"] == "RUNNING", 600)
    before = status()
    assert before["items_done"] > 0
    end = slurm.wait_end(job, 600)
    assert (end["JobState"], end["ExitCode"]) == ("COMPLETED", "0:0"), slurm.output()
    answer = json.loads((slurm.folder / f"papilio-butterfly-{job}.out").read_text().splitlines()[-1])
    assert answer["count"] == COMPLETE
    after = status()
    assert [session["outcome"] for session in after["sessions"]][1:] == ["finished"]
    assert sum(session["leases"] for session in after["sessions"]) == after["leases"]
    assert_nothing_is_left(slurm)


def test_cancelling_a_job_leaves_nothing(slurm: Slurm, complete: str) -> None:
    job = slurm.submit(slurm.render(complete, *SMALL))
    slurm.wait(job, lambda fields: len(processes_with("-- butterfly " + complete)) > 0, 600)
    run = slurm.folder / f"papilio-run-{job}"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (run, run / "credentials")] == [0o700, 0o700]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (run / "credentials").iterdir()} == {0o600}
    address = json.loads((run / "scheduler.json").read_text())["address"]
    assert address.startswith("tls://")
    assert all(answer.startswith("refused: ") for answer in intrude([address]).values())
    subprocess.run(["scancel", job], check=True, timeout=300)
    assert slurm.wait_end(job, 600)["JobState"] == "CANCELLED"
    deadline = time.monotonic() + 120
    while left := processes_with(str(slurm.folder)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.mark.slow
def test_workers_that_are_jobs_of_their_own(
    slurm: Slurm, votes: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed (papilio[slurm])")
    cluster = f"slurm:cores=1,memory=2GiB,time=5,logs={slurm.folder.parent}/logs"
    shared = tmp_path / "shared by nodes"
    shared.mkdir()
    monkeypatch.chdir(shared)
    with papilio.open_cluster(cluster, workers=2) as executor:
        (folder,) = shared.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in (folder / "credentials").iterdir()} == {0o600}
        places = [executor.client.scheduler.address, *(worker.name for worker in executor.workers)]
        assert all(place.startswith("tls://") for place in places)
        assert all(answer.startswith("refused: ") for answer in intrude(places).values())
        result = papilio.count(votes, papilio.Butterfly(), cluster=executor)
    assert (result.count, result.cluster, len(result.workers)) == (SENATE, "slurm", 2)
    assert list(shared.iterdir()) == []
    deadline = time.monotonic() + 120
    mine = ["squeue", "--noheader", "--name=dask-worker"]
    while subprocess.run(mine, check=True, capture_output=True, timeout=300).stdout:
        assert time.monotonic() < deadline, "jobs of the workers are left"
        time.sleep(0.1)


@pytest.mark.parametrize("options", ["cores=1,memory=1GiB,partition=nowhere", "cores=64,memory=1GiB"])
def test_jobs_that_slurm_refuses(slurm: Slurm, votes: GraphStore, options: str) -> None:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed (papilio[slurm])")
    with pytest.raises(ClusterError, match="Slurm rejects the jobs of the workers"):
        papilio.count(votes, papilio.Butterfly(), cluster=f"slurm:{options}")


def test_a_cluster_without_cores_and_memory(votes: GraphStore) -> None:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed (papilio[slurm])")
    with pytest.raises(InputError, match="needs cores per worker; set them as in slurm:cores=4"):
        papilio.count(votes, papilio.Butterfly(), cluster="slurm")
    with pytest.raises(InputError, match="needs memory per worker"):
        papilio.count(votes, papilio.Butterfly(), cluster="slurm:cores=1")


def test_a_machine_without_sbatch(votes: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed (papilio[slurm])")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineUnavailableError, match="needs sbatch"):
        papilio.count(votes, papilio.Butterfly(), cluster="slurm:cores=1,memory=1GiB")


@pytest.mark.slow
def test_the_time_limit_ends_the_count_before_slurm_kills_it(limited: Slurm) -> None:
    end = limited.wait_end(limited.jobs[0], 600)
    assert (end["JobState"], end["ExitCode"]) == ("FAILED", "143:0"), limited.output()
    assert "the time limit is near; ending the count" in limited.output()
    assert_nothing_is_left(limited)
