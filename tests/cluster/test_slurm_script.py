"""What a rendered script does after a signal, with commands that stand in for those of Slurm, and mostly for all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from math import comb
from pathlib import Path

import pytest

import papilio
from papilio.cluster.sbatch import SbatchSpec, render_count
from papilio.storage.graph_models import Complete
from papilio.storage.ledger import read_ledger
from tests.conftest import ROOT

COMMANDS = {
    # A shell could not catch INT: scripts start their commands with it ignored.
    "dask": f"""
exec {sys.executable} -c '
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, signal.SIG_DFL)
pathlib.Path(sys.argv[sys.argv.index("--scheduler-file") + 1]).write_text("{{}}")
signal.sigwait([signal.SIGINT])
pathlib.Path("closed").touch()' "$@"
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


def start_script(folder: Path, spec: SbatchSpec, commands: dict[str, str], **variables: str) -> subprocess.Popen[str]:
    """Start a rendered script in a group of its own, as job 7, with some commands replaced."""
    (folder / "bin").mkdir()
    for name, text in commands.items():
        path = folder / "bin" / name
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    (folder / "script").write_text(render_count(spec))
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", **variables}
    return subprocess.Popen(
        ["bash", "script"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def run_script(
    folder: Path, *, at_start: str, at_end: str, time_limit: str = "2", grace_s: int = 60, early: bool = False
) -> tuple[str, str]:
    """Signal a job when its count runs, or its workers start; return what it says, and the calls of scontrol."""
    spec = SbatchSpec("butterfly", "graph", time_limit, 2**30, job="job", max_requeues=9, grace_s=grace_s)
    script = start_script(folder, spec, COMMANDS, AT_START=at_start, AT_END=at_end, EARLY="yes" if early else "")
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


SRUN = """
while [[ $1 == --* ]]; do [[ $1 != --ntasks=* ]] || n_tasks=${1#*=}; shift; done
trap : TERM
for ((task = 0; task < n_tasks; task++)); do "$@" & done
while [[ -n $(jobs -pr) ]]; do wait; done
"""
"""Starts the tasks on this machine, and outlives a TERM."""


@pytest.mark.slow
def test_a_signal_to_all_processes_loses_no_running_lease(tmp_path: Path) -> None:
    """As scancel, preemption and scontrol requeue send it: to the script, the scheduler, the workers and the count."""
    side, begun = 1500, tmp_path / "begun"
    begun.touch()
    papilio.generate(Complete(side, side), tmp_path / "graph")
    spec = SbatchSpec("butterfly", "graph", "60", 2**30, workers_per_node=2, job="job", max_requeues=9)
    script = start_script(
        tmp_path, spec, {"srun": SRUN, "scontrol": COMMANDS["scontrol"]},
        PATH=f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}", PYTHONPATH=str(ROOT),
        PAPILIO_TEST_LEASES=str(begun), DASK_DISTRIBUTED__WORKER__PRELOAD="tests.cluster.telling_leases",
    )  # fmt: skip
    while len(begun.read_text().splitlines()) < 2:
        assert script.poll() is None, script.communicate()
        time.sleep(0.02)
    os.killpg(script.pid, signal.SIGTERM)
    _, said = script.communicate(timeout=600)
    assert (script.returncode, "Slurm ends the job; ending the count" in said) == (143, True), said
    leases = [each for each in read_ledger(tmp_path / "job" / "ledger.jsonl").records if each["type"] == "lease"]
    assert len(leases) >= len(begun.read_text().splitlines()), f"what a lease counted was lost: {said}"
    assert len({each["worker"] for each in leases}) == 2
    resumed = papilio.resume_job(tmp_path / "job", cluster="inline")
    assert (resumed.count, resumed.leases_before) == (comb(side, 2) ** 2, len(leases))
