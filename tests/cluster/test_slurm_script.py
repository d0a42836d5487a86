"""What a rendered script does after the signal before the time limit, with commands that stand in for the real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from papilio.cluster.sbatch import SbatchSpec, render_count

COMMANDS = {
    "dask": """
while [[ $# -gt 0 ]]; do [[ $1 != --scheduler-file ]] || echo '{}' >"$2"; shift; done
trap 'touch closed; exit' TERM
while :; do sleep 0.02; done
""",
    "srun": "[[ -z $EARLY ]] || kill -USR1 $PPID; while [[ ! -e closed ]]; do sleep 0.02; done",
    "scontrol": 'echo "$*" >>scontrol.calls',
    "papilio": """
[[ $1 != slurm ]] || exit 0
trap 'printf "%s" "$AT_END" >>job/ledger.jsonl; exit 143' TERM
mkdir -p job
printf "%s" "$AT_START" >>job/ledger.jsonl
echo "$PAPILIO_WRAP_UP_SECONDS" >ready
while :; do sleep 0.02; done
""",
}
"""Scheduler, workers, Slurm, and a count that writes to its ledger at its start and when it is ended."""

LEASE = '{"record":{"type":"lease","session":1},"checksum":"1"}\n'


def session(began_at: float) -> str:
    return f'{{"record":{{"type":"session","session":1,"began_at":{began_at}}},"checksum":"0"}}\n'


def run_script(
    folder: Path, *, at_start: str, at_end: str, time_limit: str = "2", grace_s: int = 60, early: bool = False
) -> tuple[str, str]:
    """Signal a job when its count runs, or its workers start; return what it says, and the calls of scontrol."""
    (folder / "bin").mkdir()
    for name, text in COMMANDS.items():
        path = folder / "bin" / name
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    spec = SbatchSpec("butterfly", "graph", time_limit, 2**30, job="job", max_requeues=9, grace_s=grace_s)
    (folder / "script").write_text(render_count(spec))
    environment = {
        **os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "AT_START": at_start,
        "AT_END": at_end, "EARLY": "yes" if early else "",
    }  # fmt: skip
    script = subprocess.Popen(
        ["bash", "script"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (folder / "ready").exists() and script.poll() is None:
        time.sleep(0.02)
    if not early:
        script.send_signal(signal.SIGUSR1)
    _, said = script.communicate(timeout=600)
    assert script.returncode == 143, said
    calls = folder / "scontrol.calls"
    return said, calls.read_text() if calls.exists() else ""


@pytest.mark.parametrize("before", ["", LEASE], ids=["first run", "later run"])
def test_a_run_that_recorded_a_lease_is_queued_again(before: str, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "ledger.jsonl").write_text(before)
    said, calls = run_script(tmp_path, at_start=session(time.time()), at_end=LEASE)
    assert calls == "requeue 7\n"
    assert "queued again; the next run resumes from what is finished" in said
    assert (tmp_path / "ready").read_text() == "15\n"


def test_a_run_that_recorded_nothing_is_not_queued_again_and_says_what_would_do(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "ledger.jsonl").write_text(LEASE)
    said, calls = run_script(tmp_path, at_start=session(time.time() + 30), at_end="", time_limit="4", grace_s=180)
    assert calls == ""
    assert "not queued again: this run recorded nothing in" in said
    start = 31
    need = start + 20 + 60
    assert any(f"need {need + late} s: render the script again with --time 5 or more" in said for late in range(-2, 60))
    assert "or with --grace 1" in said


def test_a_run_whose_leases_did_not_begin_says_so(tmp_path: Path) -> None:
    said, calls = run_script(tmp_path, at_start="", at_end="", time_limit="1:20")
    assert calls == ""
    assert "in which its leases did not begin" in said
    assert "render the script again with --time 3 or more" in said
    assert "--grace" not in said


def test_a_signal_before_the_count_ends_the_run(tmp_path: Path) -> None:
    said, calls = run_script(tmp_path, at_start="", at_end="", early=True)
    assert calls == ""
    assert "the time limit is near; ending the count" in said
    assert "in which its leases did not begin" in said


def test_parts_of_the_graph_are_something_recorded(tmp_path: Path) -> None:
    """The next run finds them, and begins to count sooner."""
    (tmp_path / "job" / "partition").mkdir(parents=True)
    script = COMMANDS["papilio"].replace('echo "$PAPILIO', 'touch job/partition/partition.json; echo "$PAPILIO')
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(COMMANDS, "papilio", script)
        _, calls = run_script(tmp_path, at_start="", at_end="")
    assert calls == "requeue 7\n"
