"""Durable jobs through the command line: killed, refused, filled up, tampered with; the count stays exact."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.arguments import show_share
from papilio.storage.answers import read_partial_shard, write_partial_shard
from papilio.storage.ledger import read_ledger
from papilio.storage.store import open_store, write_store
from papilio.tasks import leases as lengths
from tests.conftest import ROOT
from tests.tools.commands import call_command
from tests.tools.numba_cache import compile_here
from tests.tools.strategies import skewed_graph
from tests.tools.tampering import reseal

SIDE = 1000
BUTTERFLIES = comb(SIDE, 2) ** 2

POLICY = {"SHORTEST_LEASE_S": 0.03, "MAX_LEASE_S": 0.03, "VECTOR_OVERHEAD": 1e9}
"""Leases of 30 ms: a job of a second has many."""

SHORT_LEASES = f"""
import papilio.tasks.leases as policy
vars(policy).update({POLICY})
from papilio.cli import main
main()
"""
"""The command with such leases, in a process that can be killed."""


def command(*args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SHORT_LEASES, *map(str, args)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def call(*args: object, code: int = 0) -> tuple[str, str]:
    """Run the command to its end in this process, with short leases too, and return what it wrote."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in POLICY.items():
            patch.setattr(lengths, name, value)
        done = call_command(*args)
    assert done.exit_code == code, done.stderr
    return done.stdout, done.stderr


def call_json(*args: object) -> Any:
    return json.loads(call(*args, "--json")[0])


def lease_records(job: Path) -> list[dict[str, Any]]:
    path = job / "ledger.jsonl"
    if not path.exists():
        return []
    return [record for record in read_ledger(path).records if record["type"] == "lease"]


def wait_for_leases(job: Path, number: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 600
    while len(lease_records(job)) < number:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete graph, whose count is known."""
    path = tmp_path_factory.mktemp("jobs") / "complete"
    papilio.generate(papilio.storage.graph_models.Complete(SIDE, SIDE), path)
    compile_here(path, "total")
    return path


@pytest.fixture(scope="module")
def finished(store: Path) -> Path:
    """A finished job with vectors."""
    job = store.parent / "finished"
    call("count", "butterfly", store, "--per", "vertex", "--cluster", "inline", "--job", job)
    return job


def copy_of(job: Path, tmp_path: Path) -> Path:
    target = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(job), str(target)], check=True)
    return target


@pytest.mark.parametrize(
    ("seed", "per", "cluster", "then"),
    [
        (1, "total", "inline", ("--cluster", "local", "--workers", 2)),
        pytest.param(2, "vertex", "local", ("--workers", 2), marks=pytest.mark.slow),
        pytest.param(3, "total", "local", ("--cluster", "inline"), marks=pytest.mark.slow),
    ],
)
def test_a_killed_client_resumes_to_the_exact_count(
    store: Path, tmp_path: Path, seed: int, per: str, cluster: str, then: tuple[object, ...]
) -> None:
    job = tmp_path / "job"
    asked = ("count", "butterfly", store, "--per", per, "--cluster", cluster, "--engine", "cpu", "--job", job)
    source = random.Random(seed)
    kept: list[dict[str, Any]] = []
    kills = 2 if cluster == "inline" else 1
    for _ in range(kills):
        process = command(*asked)
        wait_for_leases(job, len(kept) + source.randrange(1, 6), process)
        time.sleep(source.random() * 0.06)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (job / "result.json").exists()
        now = lease_records(job)
        assert now[: len(kept)] == kept
        kept = now
    status = call_json("status", job)
    assert (status["state"], status["leases"], status["holder"]) == ("interrupted", len(kept), None)
    assert 0 < status["share"] < 1

    result = call_json("resume", job, *then)
    leases = lease_records(job)
    assert result["count"] == BUTTERFLIES
    assert leases[: len(kept)] == kept, "what was finished before the kill was counted again"
    work_before = sum(lease["work"] for lease in kept)
    assert result["job"] == {
        "path": str(job),
        "leases_before": len(kept),
        "work_before": work_before,
        "reused": False,
    }
    rate = (result["work"]["wedges"] - work_before) / result["seconds"]["run"]
    assert result["work"]["wedges_per_second"] == pytest.approx(rate, rel=1e-3)
    assert sum(worker["leases"] for worker in result["worker_details"]) == len(leases) - len(kept)
    assert sum(int(lease["total"]) for lease in leases) == BUTTERFLIES
    assert sum(lease["stop"] - lease["start"] for lease in leases) == result["items"]
    assert {lease["session"] for lease in leases} == set(range(1, kills + 2))
    for name, vector in papilio.open_job(job).result().vectors.items():
        assert vector.size == SIDE, name
        assert np.all(vector == (SIDE - 1) * comb(SIDE, 2))
    checked = call_json("verify", job, "--sample", 2, "--engine", "cpu")
    assert (checked["count"], checked["recount"]["leases"]) == (BUTTERFLIES, 2)
    assert checked["shards"] == (0 if per == "total" else len(leases))


def test_a_killed_comparison_resumes_to_the_same_samples(tmp_path: Path) -> None:
    """The answer depends on the seed alone, however often its process died."""
    store, job = tmp_path / "graph", tmp_path / "job"
    write_store(store, skewed_graph(3, 300, 200, 4000), provenance={})
    words = ("significance", "butterfly", store, "--samples", 300, "--seed", 5, "--per", "vertex")
    where = ("--cluster", "inline", "--engine", "cpu")
    whole = call_json(*words, *where)
    for number in (1, 3):
        process = command(*words, *where, "--job", job)
        wait_for_leases(job, number, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (job / "result.json").exists()
    kept = lease_records(job)
    assert call_json("status", job)["state"] == "interrupted"
    resumed = call_json("resume", job, *where)
    assert lease_records(job)[: len(kept)] == kept
    assert resumed["job"]["leases_before"] == len(kept) >= 3
    for name in ("count", "samples", "mixing", "z", "quantiles", "warning"):
        assert resumed[name] == whole[name]
    scores = papilio.open_job(job).result()
    assert isinstance(scores, papilio.SignificanceResult)
    again = papilio.significance(str(store), "butterfly", samples=300, seed=5, per="vertex", cluster="inline")
    for layer in "uv":
        assert np.array_equal(scores.scores[layer], again.scores[layer], equal_nan=True)


def test_one_rate_and_one_share_everywhere(store: Path, tmp_path: Path) -> None:
    """The rate is work units over the seconds of the phase run; a finished job that is asked again has none."""
    job = tmp_path / "job"
    asked = ("count", "butterfly", store, "--cluster", "inline", "--engine", "cpu", "--job", job)
    said = call(*asked)[1]
    result = papilio.open_job(job).result()
    assert result.work_per_second == pytest.approx(result.work / result.seconds["run"])
    rate = f"{result.work_per_second:,.0f}"
    told = re.search(rf"^{result.work:,} wedges: ([\d,]+) per second of the phase run$", said, re.MULTILINE)
    assert told is not None
    assert int(told[1].replace(",", "")) == pytest.approx(result.work_per_second, rel=1e-4)
    again = call(*asked)[1]
    assert f"{result.work:,} wedges\n" in again
    assert "per second" not in again
    assert call_json(*asked)["work"] == {"wedges": result.work}
    call("report", job, "--no-figures")
    page = (job / "report" / "report.html").read_text("utf-8").replace("<wbr />", "")
    assert rate in page
    assert "wedges per second of the phase run" in page
    lines = call("status", job)[0].splitlines()
    assert next(line for line in lines if line.startswith("progress")).split(";")[0] == (
        "progress    100.0% of the predicted work"
    )
    assert sum(line.count("%") for line in lines) == 1


def test_only_a_whole_is_a_hundred_percent() -> None:
    shares = (0, 0.0004, 0.29, 0.5, 0.57, 0.9989, 0.99999, 1.0)
    shown = ["0.0%", "0.0%", "29.0%", "50.0%", "57.0%", "99.8%", "99.9%", "100.0%"]
    assert [show_share(each) for each in shares] == shown


def test_a_running_job_shows_its_progress_and_refuses_a_second_client(store: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    asked = ("count", "butterfly", store, "--cluster", "inline", "--job", job)
    process = command(*asked)
    wait_for_leases(job, 1, process)
    process.send_signal(signal.SIGSTOP)
    try:
        status = call_json("status", job)
        assert (status["state"], status["holder"]["pid"]) == ("running", process.pid)
        assert 0 < status["items_done"] < status["items"]
        error = call("resume", job, code=3)[1]
        assert f"is being written by process {process.pid} on " in error
        listed = call("jobs", tmp_path)[0]
        assert listed.startswith("running ")
        assert listed.endswith(f"{job}\n")
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.communicate()[0] == f"{BUTTERFLIES}\n"


def test_a_finished_job_is_not_counted_again(finished: Path, store: Path, tmp_path: Path) -> None:
    before = (finished / "ledger.jsonl").read_bytes()
    output = tmp_path / "counts.parquet"
    out, error = call(
        "count", "butterfly", store, "--per", "vertex", "--job", finished, "--output", output, "--cluster", "none"
    )  # fmt: skip
    assert out == f"{BUTTERFLIES}\n"
    assert f"job {finished}: was already finished; nothing was counted now" in error
    assert output.is_file()
    assert (finished / "ledger.jsonl").read_bytes() == before
    status = call("status", finished)[0]
    assert "state       finished\n" in status
    assert f"count       {BUTTERFLIES:,}\n" in status


def test_another_question_is_refused_with_both_hashes(finished: Path, store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    made = papilio.generate(papilio.storage.graph_models.Complete(5, 6), other)
    error = call("count", "butterfly", other, "--per", "vertex", "--job", finished, code=2)[1]
    assert f"in graph {open_store(store).hash})" in error
    assert f"in graph {made.hash})" in error
    error = call("count", "butterfly", store, "--per", "edge", "--job", finished, code=2)[1]
    assert "per vertex in graph" in error
    assert "per edge in graph" in error
    call("count", "butterfly", store, "--job", other, code=2)
    assert "is not a job directory" in call("status", other, code=3)[1]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process's files")
def test_a_full_disk_ends_the_run_and_loses_nothing(store: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    process = command("count", "butterfly", store, "--cluster", "inline", "--job", job)
    wait_for_leases(job, 3, process)
    limit = (job / "ledger.jsonl").stat().st_size + 700
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    _, error = process.communicate(timeout=600)
    assert process.returncode == 3, error
    assert f"{job / 'ledger.jsonl'}: cannot append a record of" in error
    assert "(File too large); raise the limit on the size of files (ulimit -f), then resume" in error
    kept = lease_records(job)
    assert len(kept) >= 3
    result = call_json("resume", job)
    assert (result["count"], result["job"]["leases_before"]) == (BUTTERFLIES, len(kept))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_shards_on_a_full_file_system_end_the_run_and_resume(store: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        job = disk / "job"
        filler = disk / "filler"
        filler.write_bytes(bytes(344 << 10))
        error = call("count", "butterfly", store, "--per", "vertex", "--cluster", "inline", "--job", job, code=3)[1]
        assert "No space left on device" in error
        kept = len(lease_records(job))
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        result = call_json("resume", job)
        assert (result["count"], result["job"]["leases_before"]) == (BUTTERFLIES, kept)
        assert call_json("verify", job)["count"] == BUTTERFLIES
    finally:
        gc.collect()  # the error of the first call holds the file that it could not write
        subprocess.run(["umount", str(disk)], check=True)


def test_a_tampered_lease_is_found(finished: Path, tmp_path: Path) -> None:
    job = copy_of(finished, tmp_path)
    path = job / "ledger.jsonl"
    path.write_text(path.read_text().replace('"work":', '"work":1', 1))
    assert f"{path}, line 2 " in call("verify", job, code=3)[1]


def test_a_removed_last_record_is_found(finished: Path, tmp_path: Path) -> None:
    job = copy_of(finished, tmp_path)
    path = job / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert "it was changed later" in call("verify", job, code=3)[1]


def test_a_tampered_answer_is_found(finished: Path, tmp_path: Path) -> None:
    job = copy_of(finished, tmp_path)
    answer = json.loads((job / "result.json").read_text())
    answer["result"]["count"] += 1
    (job / "result.json").write_text(json.dumps(answer))
    assert "result.json has digest" in call("verify", job, code=3)[1]
    reseal(job / "result.json", **answer)
    assert (
        f"the leases sum to count {BUTTERFLIES}, but the answer has {BUTTERFLIES + 1}" in call("verify", job, code=1)[1]
    )


def test_a_tampered_or_missing_shard_is_found(finished: Path, tmp_path: Path) -> None:
    job = copy_of(finished, tmp_path)
    reference = lease_records(job)[0]["shard"]
    shard = job / reference["path"]
    vectors = {name: vector.copy() for name, vector in read_partial_shard(shard, reference["digest"]).items()}
    vectors["u"][3] += np.uint64(1)
    write_partial_shard(shard, vectors)
    assert str(shard) in call("verify", job, code=3)[1]
    vectors["u"][3] -= np.uint64(1)
    write_partial_shard(shard, vectors)
    assert call("verify", job)[0] == f"{BUTTERFLIES}\n"
    os.truncate(shard, shard.stat().st_size - 1)
    assert f"{shard} has {reference['n_bytes'] - 1} bytes, but the ledger records" in call("verify", job, code=3)[1]
    shard.unlink()
    assert f"{shard} is missing" in call("verify", job, code=3)[1]


def test_a_wrong_engine_is_found_by_the_sample(finished: Path, tmp_path: Path) -> None:
    """A ledger whose checksums, sums and tiling are all right, but whose leases were counted wrongly."""
    job = copy_of(finished, tmp_path)
    lines = [json.loads(line)["record"] for line in (job / "ledger.jsonl").read_text().splitlines()]
    first, second = [record for record in lines if record["type"] == "lease"][:2]
    first["total"], second["total"] = str(int(first["total"]) + 7), str(int(second["total"]) - 7)
    (job / "ledger.jsonl").unlink()
    with papilio.storage.ledger.Ledger(job / "ledger.jsonl") as ledger:
        for record in lines:
            ledger.append(record)
        tip = ledger.tip
    answer = json.loads((job / "result.json").read_text())
    answer["ledger"]["tip"] = tip
    reseal(job / "result.json", **answer)
    assert call("verify", job)[0] == f"{BUTTERFLIES}\n"
    error = call("verify", job, "--sample", len(lines), "--engine", "cpu", code=1)[1]
    assert "the ledger has total" in error
    assert read_partial_shard(job / first["shard"]["path"], first["shard"]["digest"]).keys() == {"u", "v"}


def test_damaged_and_unplanned_directories_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "job.json").write_text("{")
    listed = json.loads(call("jobs", tmp_path, "--json")[0])["jobs"]
    assert [row["path"] for row in listed] == [str(tmp_path / "a")]
    assert "job.json is not valid JSON" in listed[0]["problem"]
    assert call("jobs", tmp_path)[0].startswith("damaged ")
