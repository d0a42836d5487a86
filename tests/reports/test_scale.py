"""Experiments through the command line: measured, interrupted, refused, tampered with."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import papilio
from papilio.cli import cli
from papilio.cluster import dispatcher
from papilio.cluster.sbatch import SbatchSpec, render_count
from papilio.errors import ExecutionError, InputError, PapilioError, StoreError
from papilio.motifs import Butterfly
from papilio.reports.experiment import ExperimentDirectory, begin_scaling
from papilio.reports.measure import run_experiment
from papilio.reports.page import write_report
from papilio.storage.ledger import Ledger, read_ledger
from papilio.storage.store import GraphStore
from papilio.tasks import leases as lengths
from tests.conftest import ROOT
from tests.reports.conftest import SENATE, call, call_json, repetitions
from tests.tools.tampering import reseal


def fails(*args: object) -> str:
    """Return the message that a command ends with."""
    with pytest.raises(PapilioError) as caught:
        CliRunner().invoke(cli, [*map(str, args)], catch_exceptions=False, standalone_mode=False)
    return str(caught.value)


def scale(store: GraphStore | str, output: Path, *flags: object) -> tuple[object, ...]:
    """Return an experiment in this process, which starts no workers."""
    path = store.path if isinstance(store, GraphStore) else store
    common = (
        "--cluster",
        "inline",
        "--workers",
        1,
        "--repeat",
        1,
        "--output",
        output,
        "--no-figures",
        "--no-warm-up",
    )
    return ("scale", "count", "butterfly", path, *common, *flags)


def run_records(directory: Path, workers: int) -> list[tuple[str, int]]:
    records = read_ledger(directory / "points" / f"w{workers}.jsonl").records
    return [(record["type"], record["repeat"]) for record in records]


def test_strong_scaling_on_local_workers(measured: Path) -> None:
    results = json.loads((measured / "report" / "results.json").read_text())
    assert results["state"] == "finished"
    assert [(run["workers"], run["repeat"], run["count"]) for run in results["runs"]] == [
        (workers, repeat, str(SENATE)) for workers, repeat in product((1, 2), range(1, repetitions() + 1))
    ]
    rows = pq.read_table(measured / "report" / "runs.parquet").to_pylist()
    assert rows == results["runs"]
    for row in rows:
        assert row["seconds_total"] >= row["seconds_start"] + row["seconds_counting"]
        assert row["seconds_start"] > 0
        assert row["lease_overhead"] < 1
        assert row["balance"] >= 1
        assert row["peak_memory_bytes"] > 2**20
    first, second = results["points"]
    assert (first["speedup"], first["efficiency"]) == (1, 1)
    assert second["efficiency"] == pytest.approx(second["speedup"] / 2)
    threads = {
        detail["threads"]
        for path in measured.glob("jobs/*/result.json")
        for detail in json.loads(path.read_text())["result"]["workers"]
    }
    assert len(threads) == 1


def test_the_timeline_holds_every_work_item_once(measured: Path) -> None:
    spans = pq.read_table(measured / "report" / "leases.parquet").to_pylist()
    for workers, repeat in product((1, 2), range(1, repetitions() + 1)):
        own = sorted((e["start"], e["stop"]) for e in spans if (e["workers"], e["repeat"]) == (workers, repeat))
        assert own[0][0] == 0
        assert all(before[1] == after[0] for before, after in pairwise(own))
        result = papilio.open_job(measured / "jobs" / f"w{workers}-r{repeat}").result()
        assert own[-1][1] == result.items


def test_every_run_is_a_job_that_can_be_verified(measured: Path) -> None:
    checked, _ = papilio.verify_job(measured / "jobs" / f"w2-r{repetitions()}")
    assert checked.count == SENATE


def test_the_same_command_runs_nothing_again_and_more_repetitions_only_those(votes: GraphStore, tmp_path: Path) -> None:
    output = tmp_path / "x"
    call_json(*scale(votes, output))
    again = call(*scale(votes, output))
    assert "1 worker, run 1 of 1: finished before" in again.stderr
    assert run_records(output, 1) == [("run", 1), ("end", 1)]
    call(*scale(votes, output, "--repeat", 2))
    assert run_records(output, 1) == [("run", 1), ("end", 1), ("run", 2), ("end", 2)]


@pytest.mark.slow
def test_a_killed_experiment_goes_on_and_measures_the_killed_run_anew(votes: GraphStore, tmp_path: Path) -> None:
    output = tmp_path / "x"
    arguments = ["scale", "count", "butterfly", votes.path, "--cluster", "local", "--workers", "1", "--repeat",
                 "3", "--output", str(output), "--no-figures", "--no-warm-up"]  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "papilio", *arguments], cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while not (output / "jobs" / "w1-r2" / "job.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = run_records(output, 1)
    assert before[:3] == [("run", 1), ("end", 1), ("run", 2)]
    report = call("report", output, "--no-figures")
    assert "unfinished" in (output / "report" / "report.html").read_text()
    assert "efficiency" in report.stdout
    results = call_json(*arguments)
    assert results["state"] == "finished"
    after = run_records(output, 1)
    assert after[: len(before)] == before
    assert after.count(("run", 1)) == 1
    assert after.count(("run", 2)) == (2 if before.count(("end", 2)) == 0 else 1)
    for run in results["runs"]:
        assert papilio.open_job(output / run["job"]).answer().result["leases_before"] == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--per", "edge"), "per total, not edge"),
        (("--engine", "cpu"), "engine auto, not cpu"),
        (("--cluster", "local"), "cluster inline, not local"),
    ],
)
def test_another_experiment_in_the_same_directory_is_refused(
    votes: GraphStore, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [1], repeat=1, cluster="inline")
    assert f"is an experiment with {message}" in fails(*scale(votes, tmp_path / "x", *flags))


def test_points_and_repetitions_may_be_added(votes: GraphStore, tmp_path: Path) -> None:
    common: dict[str, Any] = {"cluster": "local", "threads": 1}
    begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [2], repeat=3, **common)
    added = begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [4, 1], repeat=2, **common)
    assert (added.experiment.workers, added.experiment.repeat) == ((1, 2, 4), 3)
    assert ExperimentDirectory(tmp_path / "x").experiment == added.experiment
    with pytest.raises(InputError, match="threads 1, not 2"):
        begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [2], cluster="local", threads=2)


def test_a_store_that_was_replaced_is_not_measured(votes: GraphStore, tmp_path: Path) -> None:
    path = tmp_path / "graph"
    shutil.copytree(votes.path, path)
    directory = begin_scaling(tmp_path / "x", Butterfly(), [path], [1], repeat=1, cluster="inline")
    call("generate", "complete", path, "--n-u", 3, "--n-v", 3, "--overwrite")
    with pytest.raises(ExecutionError, match=f", but the experiment began with {votes.hash}"):
        run_experiment(directory, warm_up=False)
    assert not directory.job_path(1, 1).exists()


def test_generated_graphs_are_made_once(tmp_path: Path) -> None:
    common: dict[str, Any] = {"weak": True, "model": "complete:n_u=6,n_v=4", "cluster": "inline"}
    first = begin_scaling(tmp_path / "x", Butterfly(), [], [2, 4], **common)
    manifest = tmp_path / "x" / "graphs" / "w4" / "graph.json"
    written = manifest.stat().st_mtime_ns
    assert [graph.n_u for graph in first.experiment.graphs] == [6, 12]
    begin_scaling(tmp_path / "x", Butterfly(), [], [2, 4], **common)
    assert manifest.stat().st_mtime_ns == written
    with pytest.raises(StoreError, match="is not the requested complete graph"):
        begin_scaling(tmp_path / "x", Butterfly(), [], [2, 4], **{**common, "model": "complete:n_u=7,n_v=4"})
    with pytest.raises(InputError, match="workers is 3, not a multiple of the smallest number, 2"):
        begin_scaling(tmp_path / "y", Butterfly(), [], [2, 3], **common)
    assert not (tmp_path / "y").exists()


def test_another_graph_is_refused(votes: GraphStore, tmp_path: Path) -> None:
    begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [1], repeat=1, cluster="inline")
    call("generate", "complete", tmp_path / "other", "--n-u", 3, "--n-v", 3)
    assert f"is an experiment with graph {votes.hash}" in fails(*scale(str(tmp_path / "other"), tmp_path / "x"))
    # Nor for a point of its own in strong scaling.
    assert votes.hash in fails(*scale(str(tmp_path / "other"), tmp_path / "x", "--workers", "2"))


def test_what_makes_no_sense_is_refused(votes: GraphStore, tmp_path: Path) -> None:
    output = tmp_path / "x"
    assert "workers is 1,1" in fails(*scale(votes, output, "--workers", "1,1"))
    assert "0 is not in the range 1<=x<=1000000" in call(*scale(votes, output, "--repeat", 0), code=2).stderr
    with pytest.raises(InputError, match="repeat is 0"):
        begin_scaling(output, Butterfly(), [votes.path], [1], repeat=0, cluster="inline")
    assert "takes one store" in fails(*scale(votes, output, "--model", "complete:n_u=3"))
    assert "was given 1 stores" in fails(*scale(votes, output, "--weak", "--workers", "1,2"))
    assert "stores or a model" in fails(*scale(votes, output, "--weak", "--model", "complete:n_u=3,n_v=3"))
    assert "only workers of the local cluster" in fails(*scale(votes, output, "--threads", 2))
    assert "time describes the jobs of --slurm" in fails(*scale(votes, output, "--time", "5"))
    assert "--slurm needs --time and --memory" in fails(*scale(votes, output, "--slurm"))
    assert "no such store" in fails(*scale("no such store", output))
    output.mkdir()
    (output / "thesis.tex").write_text("mine")
    assert "contains thesis.tex and is not a scaling experiment" in fails(*scale(votes, output))
    assert [path.name for path in output.iterdir()] == ["thesis.tex"]


@pytest.mark.slow
def test_weak_scaling_over_generated_graphs(tmp_path: Path) -> None:
    results = call_json(
        "scale", "count", "butterfly", "--weak", "--model", "complete:n_u=60,n_v=40", "--workers", "1,2",
        "--repeat", 1, "--output", tmp_path / "x", "--no-figures", "--no-warm-up", "--cluster", "local",
    )  # fmt: skip
    pairs = {1: 60 * 59 // 2, 2: 120 * 119 // 2}
    assert {run["workers"]: run["count"] for run in results["runs"]} == {
        workers: str(number * (40 * 39 // 2)) for workers, number in pairs.items()
    }
    first, second = results["runs"]
    first_s, second_s = (each["work"] / each["seconds_counting"] for each in (first, second))
    speed = second_s / first_s
    assert results["points"][1]["speedup"] == pytest.approx(speed)
    assert call_json("info", tmp_path / "x" / "graphs" / "w2")["n_u"] == 120


def test_a_run_that_fails_is_reported_and_the_others_go_on(votes: GraphStore, tmp_path: Path) -> None:
    output = tmp_path / "x"
    done = call(*scale(votes, output, "--workers", "1,2"), code=1)
    assert "2 workers, run 1 of 1: FAILED, workers is 2" in done.stderr
    assert "1 of the runs failed; repeat the command to run them again. First: 2 workers, repetition 1" in done.stderr
    assert [run.workers for run in ExperimentDirectory(output).finished_runs()] == [1]
    page = (output / "report" / "report.html").read_text()
    assert "the inline cluster has one worker" in page
    assert "1 of 2 runs finished" in page


def test_a_point_that_another_process_runs_is_left_alone(votes: GraphStore, tmp_path: Path) -> None:
    directory = begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [1], repeat=1, cluster="inline")
    with Ledger(directory.point_path(1)), pytest.raises(StoreError, match="is being written by process"):
        run_experiment(directory, warm_up=False)
    assert not directory.job_path(1, 1).exists()


def test_counts_that_differ_end_the_experiment(votes: GraphStore, tmp_path: Path, measured: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(measured, copy)
    job = copy / "jobs" / "w2-r1"
    answer: dict[str, Any] = json.loads((job / "result.json").read_text())
    records = read_ledger(job / "ledger.jsonl").records
    first = next(record for record in records if record["type"] == "lease")
    first["total"] = str(int(first["total"]) + 1)
    (job / "ledger.jsonl").unlink()
    with Ledger(job / "ledger.jsonl") as ledger:
        for record in records:
            ledger.append(record)
        answer["ledger"]["tip"] = ledger.tip
    answer["result"]["count"] += 1
    reseal(job / "result.json", **answer)
    with pytest.raises(ExecutionError, match=f"differ: {SENATE} in jobs/w1-r1, {SENATE + 1} in jobs/w2-r1"):
        write_report(copy, figures=False)
    directory = ExperimentDirectory(copy)
    with Ledger(directory.point_path(1)) as ledger:
        ledger.append({"type": "end", "repeat": 1, "outcome": "tried again"})
    with pytest.raises(ExecutionError, match=f"differ: {SENATE} in jobs/w1-r1, {SENATE + 1} in jobs/w2-r1"):
        run_experiment(directory, warm_up=False)


def test_a_cluster_with_more_workers_than_the_point_uses_as_many_as_asked(
    votes: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are no workers that came while it ran, however long nothing ends."""
    monkeypatch.setattr(dispatcher, "WATCH_S", 0.0)
    monkeypatch.setattr(lengths, "SHORTEST_LEASE_S", 0.0)
    monkeypatch.setattr(lengths, "MAX_LEASE_S", 1e-4)
    directory = begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [1], repeat=1, cluster="sbatch")
    with papilio.open_cluster("local:insecure", workers=2) as cluster:
        address = cluster.client.scheduler.address
        run_experiment(directory, cluster=address, warm_up=False)
    job = papilio.open_job(directory.job_path(1, 1))
    result, workers = job.result(), {lease.worker for lease in job.history().leases}
    assert (result.count, len(result.workers), len(workers)) == (SENATE, 1, 1)
    assert result.leases > 4


def test_a_directory_that_is_no_experiment(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a scaling experiment"):
        ExperimentDirectory(tmp_path)
    with pytest.raises(StoreError, match="neither a job directory nor a scaling experiment"):
        write_report(tmp_path, figures=False)
    (tmp_path / "scale.json").write_text('{"format": "papilio-scaling", "format_version": 9}')
    with pytest.raises(StoreError, match="version 9; this version of Papilio reads up to 2"):
        ExperimentDirectory(tmp_path)


def test_a_slurm_experiment_runs_only_where_it_is_told(votes: GraphStore, tmp_path: Path) -> None:
    directory = begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [1], repeat=1, cluster="sbatch")
    assert "was started with --slurm" in fails("scale", "run", directory.root, "--no-figures")
    with pytest.raises(InputError, match="workers is 3; the experiment has points with 1 workers"):
        run_experiment(directory, workers=[3])


def test_a_warm_up_is_run_once_and_leaves_nothing(
    votes: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = begin_scaling(tmp_path / "x", Butterfly(), [votes.path], [1, 2], repeat=2, cluster="inline")
    counted: list[str] = []
    count = papilio.api.count.count

    def note(*args: Any, **options: Any) -> Any:
        counted.append(Path(options["job"]).name)
        return count(*args, **options)

    monkeypatch.setattr(papilio.api.count, "count", note)
    # With two workers, which the inline cluster refuses, the warm-up passes over the error.
    run_experiment(directory, workers=[1])
    assert counted == [".warm-up-w1", "w1-r1", "w1-r2"]
    run_experiment(directory, workers=[1])
    assert len(counted) == 3
    with pytest.raises(ExecutionError, match="2 of the runs failed"):
        run_experiment(directory)
    assert sorted(path.name for path in (directory.root / "jobs").iterdir()) == ["w1-r1", "w1-r2"]


def test_the_jobs_of_an_experiment_are_an_array() -> None:
    with pytest.raises(InputError, match="the jobs of a scaling experiment are an array"):
        render_count(SbatchSpec("butterfly", "graph", "60", 2**30, experiment="x"))


def test_the_jobs_of_slurm_run_the_points_that_are_not_finished(
    votes: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "an experiment"
    flags = ("--workers", "1,2", "--slurm", "--gpus-per-node", 2, "--time", 5, "--memory", "4GiB")
    arguments = [word for word in scale(votes, output, *flags) if word not in ("--cluster", "inline")]
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\necho '42;cluster'\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "needs sbatch" in fails(*arguments)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:/bin:/usr/bin")
    done = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert done.stdout == "42\n"
    script = (output / "slurm" / "points.sbatch").read_text()
    assert "papilio scale run --no-figures " in script
    assert f"-- '{output}' &" in script
    assert "#SBATCH --array=1,2" in script
    assert ExperimentDirectory(output).experiment.engine == "gpu"
    sbatch.write_text("#!/bin/sh\necho 'no such partition' >&2\nexit 1\n")
    assert "Slurm rejects the jobs of the experiment: no such partition" in fails(*arguments)
