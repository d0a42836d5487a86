"""Signals end the command within seconds, with one line and its exit code; jobs keep what they have counted."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from math import comb
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio import signals as interrupts
from papilio.signals import Stopped
from papilio.storage.graph_models import Complete
from papilio.storage.ledger import read_ledger
from tests.conftest import ROOT

SIDE = 1200
BUTTERFLIES = comb(SIDE, 2) ** 2

SIGNALS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]

PATIENT = """
import os
from papilio import signals as interrupts
if "PAPILIO_TEST_LEASES" in os.environ:
    import tests.cluster.telling_leases
interrupts.WRAP_UP_S, interrupts.LIMIT_S = 100, 10
from papilio.cli import main
if __name__ == "__main__":
    from papilio.tasks import leases as lease_policy
    lease_policy.KEPT_LEASE_S = 0.5
    main()
"""
"""The command on a machine that may be busy, where what takes long is waited for; with short leases."""

TIGHT = """
import os, subprocess, sys, time
from papilio import signals as interrupts
interrupts.LIMIT_S, interrupts.WRAP_UP_S = 0.3, 0.2
"""


def start(code: str, *args: object, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *map(str, args)],
        cwd=ROOT, env={**os.environ, **variables},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n", process.communicate()


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return exit code, and what is left to read of both streams."""
    assert process.stdout is not None
    assert process.stderr is not None
    last = threading.Timer(600, process.kill)
    last.start()
    with process:
        out, error = process.stdout.read(), process.stderr.read()
    last.cancel()
    return process.returncode, out, error


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> interrupts._Listener:
    """One that has heard a signal, and hears no other."""
    monkeypatch.setattr(interrupts, "_keep_quiet", lambda listener: None)
    made = interrupts._Listener()
    made.signum, made.heard = signal.SIGINT, 1
    return made


def test_all_that_follows_a_signal_is_bounded() -> None:
    assert interrupts.WRAP_UP_S + interrupts.LIMIT_S + interrupts._REMINDER_S + interrupts.REMOVAL_S < 3


@pytest.mark.parametrize(("text", "seconds"), [("20", 20.0), ("", 1.5), ("soon", 1.5)])
def test_the_environment_sets_the_time_for_leases_to_end(
    text: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAPILIO_WRAP_UP_SECONDS", text)
    assert interrupts.wrap_up_s() == seconds


def test_a_signal_is_raised_once(listener: interrupts._Listener) -> None:
    with pytest.raises(Stopped) as caught:
        listener.answer()
    assert (caught.value.code, str(caught.value)) == (130, "SIGINT")
    listener.answer()


@pytest.mark.parametrize(("heard", "late"), [(2, False), (1, True)])
def test_a_job_is_interrupted_by_a_second_signal_or_when_its_time_is_over(
    listener: interrupts._Listener, heard: int, late: bool
) -> None:
    listener.n_finishing = 1
    listener.answer()
    listener.heard, listener._late = heard, late
    listener.n_uninterrupted = 1
    listener.answer()
    listener.n_uninterrupted = 0
    with pytest.raises(Stopped):
        listener.answer()


@pytest.mark.parametrize(("number", "insists"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_only_a_second_interrupt_insists(number: signal.Signals, insists: bool, listener: interrupts._Listener) -> None:
    listener.signum, listener.heard, listener.n_finishing = 0, 0, 1
    listener.on_signal(number, None)
    with pytest.raises(Stopped) if insists else nullcontext():
        listener.on_signal(number, None)


def test_nothing_is_asked_for_where_nobody_listens() -> None:
    with interrupts.uninterrupted(), interrupts.finishing(), interrupts.waking(print):
        interrupts.check()
        interrupts.set_advice("none")
    assert not interrupts.requested()


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_the_command_hears_signals_while_it_imports(number: signal.Signals, code: int, word: str) -> None:
    slow_import = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print("ready", flush=True)
            time.sleep(100)
sys.meta_path.insert(0, Slow())
from papilio.cli import main
assert "numpy" not in sys.modules
main(["count", "butterfly", "nowhere"])
"""
    process = start(slow_import)
    wait_for_line(process, "ready")
    process.send_signal(number)
    assert end_of(process) == (code, "", f"papilio: {word}\n")


def test_a_process_that_cannot_be_interrupted_ends_the_hard_way(tmp_path: Path) -> None:
    """The main thread is deaf, as in a library that computes; a process that it started and a directory go too."""
    code = (
        TIGHT
        + """
import psutil, shutil, signal
def run():
    with interrupts.removed_at_end(sys.argv[1]):
        os.mkdir(sys.argv[1])
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with interrupts.uninterrupted():
            print(child.pid, flush=True)
            while True:
                time.sleep(1000)
interrupts.set_advice("?")
interrupts.listen_during(run)
"""
    )
    process = start(code, tmp_path / "scratch")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGINT)
    assert end_of(process) == (130, "", "papilio: interrupted\n")
    assert not (tmp_path / "scratch").exists()
    for _ in until(600):
        stat = Path(f"/proc/{child}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
    pytest.fail(f"process {child} is left")


def until(seconds: float) -> Iterator[None]:
    """Yield until the time is over, at intervals."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.01)


def test_what_a_destructor_swallows_is_raised_again() -> None:
    code = (
        TIGHT
        + """
interrupts.LIMIT_S = 100
class Swallows:
    def __del__(self):
        print("ready", flush=True)
        time.sleep(1000)
def run():
    Swallows()
    time.sleep(1000)
interrupts.listen_during(run)
"""
    )
    process = start(code)
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGTERM)
    assert end_of(process) == (143, "", "papilio: terminated\n")


@pytest.mark.parametrize("twice", [False, True])
def test_a_block_that_finishes_is_told_and_ends_by_itself(twice: bool) -> None:
    code = (
        PATIENT.replace("from papilio.cli import main", "").partition("if __name__")[0]
        + """
import sys, threading, time
woken = threading.Event()
def run():
    with interrupts.finishing(), interrupts.waking(woken.set):
        print("ready", flush=True)
        woken.wait()
        assert interrupts.requested()
        print("told", flush=True)
        if sys.argv[1] == "True":
            time.sleep(1000)
        print("done", flush=True)
    print("never", flush=True)
interrupts.listen_during(run)
"""
    )
    process = start(code, twice)
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    wait_for_line(process, "told")
    if twice:
        process.send_signal(signal.SIGINT)
    assert end_of(process) == (130, "" if twice else "done\n", "papilio: interrupted\n")


def is_gone(group: int) -> bool:
    """Wait until no process of the group is left."""
    try:
        for _ in until(600):
            os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete graph, whose count takes some seconds."""
    path = tmp_path_factory.mktemp("interrupts") / "complete"
    papilio.generate(Complete(SIDE, SIDE), path)
    return path


def test_an_error_that_a_library_makes_of_a_signal_is_no_error() -> None:
    """As DuckDB does, whose query ends with an error of its own."""
    code = """
import time, papilio
def convert(*args, **options):
    try:
        print("ready", flush=True)
        time.sleep(1000)
    except BaseException:
        raise RuntimeError("Query interrupted")
papilio.convert = convert
from papilio.cli import main
main(["convert", "a", "b"])
"""
    process = start(code)
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    assert end_of(process) == (130, "", "papilio: interrupted\n")


WHEREVER: list[tuple[str, list[str], str]] = [
    ("converting", ["convert", "-", "out"], "reading"),
    ("decomposing", ["decompose", "wing", "STORE", "--output", "out"], "listing pairs of vertices"),
    ("planning", ["count", "butterfly", "STORE", "--cluster", "inline"], "reading and planning"),
    ("counting", ["count", "butterfly", "STORE", "--output", "a.csv", "--per", "edge"], "counting"),
    ("starting a cluster", ["count", "butterfly", "STORE", "--cluster", "local", "--workers", "2"], "starting"),
    ("counting on a cluster", ["count", "butterfly", "STORE", "--cluster", "local", "--workers", "2"], "counting"),
    # All rows would not fit on the disk.
    ("listing", ["enumerate", "biclique", "STORE", "-p", "3", "-q", "3", "--limit", "2000000000", "--output", "out"],
     "listing"),
    ("measuring", ["measure", "robins-alexander", "STORE"], "counting"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "phase"),
    [
        pytest.param(words, phase, id=name, marks=[] if at < 2 else [pytest.mark.slow])
        for at, (name, words, phase) in enumerate(WHEREVER)
    ],
)
def test_wherever_a_command_is_it_ends(words: list[str], phase: str, store: Path, tmp_path: Path) -> None:
    """The whole group hears the signal, as from a terminal; what is read from standard input never ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "papilio", *(str(store) if word == "STORE" else word for word in words), "--verbose"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    if "-" in words:
        process.stdin.write("1 2\n")
        process.stdin.flush()
    said = []
    last = threading.Timer(600, process.kill)
    last.start()
    for line in process.stderr:
        said.append(line)
        if line.rstrip().endswith(f" s  {phase}"):
            break
    last.cancel()
    os.killpg(process.pid, signal.SIGINT)
    code, out, err = end_of(process)
    assert (code, out) == (130, ""), (said, err)
    assert err.splitlines()[-1] == "papilio: interrupted"
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert is_gone(process.pid)


def leases_of(job: Path) -> list[dict[str, Any]]:
    if not (job / "ledger.jsonl").exists():
        return []
    return [record for record in read_ledger(job / "ledger.jsonl").records if record["type"] == "lease"]


@pytest.mark.parametrize(
    ("cluster", "per", "number", "code", "word"),
    [
        ("inline", "total", *SIGNALS[0]),
        ("local", "vertex", *SIGNALS[1]),
        pytest.param("inline", "vertex", *SIGNALS[1], marks=pytest.mark.slow),
        pytest.param("local", "total", *SIGNALS[0], marks=pytest.mark.slow),
    ],
)
def test_a_job_keeps_what_its_leases_have_counted(
    cluster: str, per: str, number: signal.Signals, code: int, word: str, store: Path, tmp_path: Path
) -> None:
    """Every lease that had begun is registered: the one that ran was cut, and its items are not counted again.

    The signal comes to all processes of the group.
    """
    job, begun = tmp_path / "a job", tmp_path / "begun"
    begun.touch()
    process = start(
        PATIENT, "count", "butterfly", store, "--per", per, "--cluster", cluster, "--engine", "cpu", "--job", job,
        PAPILIO_TEST_LEASES=str(begun), DASK_DISTRIBUTED__WORKER__PRELOAD="tests.cluster.telling_leases",
        PYTHONPATH=str(ROOT),
    )  # fmt: skip
    for _ in until(600):
        assert process.poll() is None, process.communicate()
        if 0 < len(leases_of(job)) < len(begun.read_text().splitlines()):
            break
    os.killpg(process.pid, number)
    advice = f"completed work is kept; to continue: papilio resume {shlex.quote(str(job))}"
    assert end_of(process) == (code, "", f"papilio: {word}; {advice}\n")
    leases = leases_of(job)
    assert len(leases) >= len(begun.read_text().splitlines()), "what a lease counted was lost"
    status = papilio.open_job(job).status()
    assert (status.state, status.sessions[0].outcome) == ("interrupted", number.name)
    assert 0 < status.items_done < status.items
    resumed = papilio.resume_job(job, cluster="inline")
    assert (resumed.count, resumed.leases_before) == (BUTTERFLIES, len(leases))
    assert is_gone(process.pid)
