"""What commands say beside the answer: nothing, the usual, or all; bars on terminals; completion in shells."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from queue import Queue
from time import perf_counter, sleep
from types import SimpleNamespace
from typing import Any

import pytest
from click.shell_completion import BashComplete, FishComplete, ZshComplete
from rich.console import Console

import papilio
from papilio.cli.app import cli
from papilio.cluster import driver, progress
from papilio.cluster.events import LeasesStarted, Noted, PhaseStarted, PlanMade
from papilio.kernels.announce import COMPILING, begin_compiling, end_compiling, say_compiling
from papilio.storage.graph_models import Complete
from papilio.tasks.forecast import Range
from tests.conftest import ROOT
from tests.tools.commands import Run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speech") / "complete"
    papilio.generate(Complete(60, 70), path)
    return path


def test_quiet_commands_say_the_answer_and_errors(store: Path, tmp_path: Path, run: Run) -> None:
    for words in (("--quiet", "count", "butterfly", store), ("count", "butterfly", store, "--quiet")):
        assert run(*words, "--cluster", "inline") == (0, "4274550\n", "")
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("u,v\n1,2\n")
    assert run("count", "butterfly", ratings, "--quiet") == (0, "0\n", ""), "converted without a word"
    assert run("convert", ratings, tmp_path / "g", "--quiet") == (0, f"{tmp_path / 'g'}\n", "")
    code, out, err = run("--quiet", "info", tmp_path / "nothing")
    assert (code, out) == (3, "")
    assert err.startswith("papilio: ")


def test_verbose_commands_say_what_they_do_when(store: Path, tmp_path: Path, run: Run) -> None:
    said = run("count", "butterfly", store, "--cluster", "inline", "--verbose").stderr
    lines = [line.split(" s  ", 1)[1] for line in said.splitlines() if " s  " in line]
    assert [line for line in lines if line in ("starting", "reading and planning", "counting", "writing")] == [
        "starting", "reading and planning", "counting", "writing",
    ]  # fmt: skip
    assert any(line.startswith("engine cpu: ") for line in lines)
    (tmp_path / "a.txt").write_text("1 2\n")
    said = run("--verbose", "convert", tmp_path / "a.txt", tmp_path / "g").stderr
    assert [line.split(" s  ")[1] for line in said.splitlines()[:2]] == ["reading", "sorting and writing"]


def test_both_at_once_contradict_each_other(store: Path, run: Run) -> None:
    code, _, err = run("count", "--quiet", "butterfly", store, "--verbose")
    assert (code, "contradict" in err) == (2, True)
    assert run("count", "butterfly", "--", "--quiet").exit_code == 3, "a store of that name"


def test_a_bar_says_what_goes_on_how_much_of_it_and_what_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    bar = progress.ProgressBar()
    drawn: Any = bar._bar
    clock = iter(range(1000))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(clock)))
    drawn.live.console = console = Console(file=io.StringIO(), width=120)

    def shown() -> str:
        console.file = io.StringIO()
        console.print(drawn.get_renderable())
        return " ".join(console.file.getvalue().split())

    bar._begin("starting")
    assert "starting" in shown()
    bar._planned = 0, 4_000_000
    bar(PhaseStarted("run"))
    assert "counting" in shown()
    done = [0]
    bar(LeasesStarted(lambda: done[-1]))
    assert "left" not in shown()
    seen = []
    for work in (1_000_000, 2_000_000, 1_500_000):
        done.append(work)
        bar._looked_at = 0.0
        seen.append(shown())
    assert "25.0% in 0:00:" in seen[0]
    assert all("50.0% in 0:00:" in text and text.endswith(" left") for text in seen[1:]), "it never goes back"
    bar._finished = 3_000_000
    bar._looked_at = 0.0
    assert "100.0%" in shown(), "what is finished, and of what runs, together"
    bar(PhaseStarted("write"))
    assert "%" not in shown(), "how much there is to write is not known"
    show = bar.follow({"read": ("reading", "bytes")})
    show("read", 12_300_000, 45_600_000)
    assert "reading" in shown()
    assert "26.9% (12.3 MB of 45.6 MB)" in shown()
    show("read", 12_300_000, 0)


def plan_of(seconds: float, finished: int = 0) -> Any:
    """What a bar reads of a plan."""
    return SimpleNamespace(
        job=SimpleNamespace(listing=None), work_finished=finished, predicted_ns=100, decisions=(),
        run_s=Range(seconds, seconds / 2, seconds * 2),
    )  # fmt: skip


def test_a_long_run_is_announced_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    bar = progress.ProgressBar()
    bar(PlanMade(plan_of(9)))
    bar(PlanMade(plan_of(150, finished=95)))
    assert capsys.readouterr().err == "", "9 s, and 7.5 of 150 s that are left, are not long"
    bar(PlanMade(plan_of(150, finished=50)))
    bar(Noted("the motifs are counted"))
    said = "counting is predicted to take about 75 s (37.5 s to 150 s)\nthe motifs are counted\n"
    assert capsys.readouterr() == ("", said)
    quiet = progress.ProgressBar(quiet=True)
    quiet(PlanMade(plan_of(150)))
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_lines_say_how_far_a_long_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run waits for its lines, and the clock stands still."""
    monkeypatch.setattr(progress, "LONG_S", 1e-3)
    monkeypatch.setattr(progress, "monotonic", lambda: 7.0)
    written: Queue[str] = Queue()
    with progress.ProgressBar() as bar:
        monkeypatch.setattr(bar, "_write", written.put)
        show = bar.follow({"read": ("reading", "bytes")})
        show("read", 12_300_000, 45_600_000)
        while "26.9%" not in (line := written.get(timeout=60)):
            assert line in ("starting: in 0:00:00", "reading: in 0:00:00")
    assert line.startswith("reading: 26.9% (12.3 MB of 45.6 MB) in 0:00:00")


def test_the_time_left_follows_from_the_speed_until_the_last_advance() -> None:
    left = progress.time_left
    assert left(0, 0, 100, 0.0, 5.0) is None
    assert left(50, 50.4, 100, 5.0, 5.0) is None, "less than a hundredth of what was left at the start"
    assert left(0, 25, 100, 5.0, 5.0) == 15
    assert left(0, 25, 100, 5.0, 8.0) == 12, "a heavy item moves nothing until it ends"
    assert left(50, 75, 100, 5.0, 5.0) == 5
    assert left(0, 25, 100, 5.0, 40.0) == 35, "nor is an end near that does not come"


def test_a_prediction_steadies_the_time_left_at_first() -> None:
    left = progress.time_left
    assert left(0, 50, 100, 5.0, 5.0, 10.0) == pytest.approx(5), "as predicted"
    slow, later = left(0, 5, 100, 10.0, 10.0, 100.0), left(0, 50, 100, 100.0, 100.0, 100.0)
    assert slow == pytest.approx(95 * 15 / 10), "first items take twice as long as predicted"
    assert later == pytest.approx(50 * 105 / 55), "a tenth of this in the middle"
    assert left(0, 0.5, 100, 1.0, 1.0, 100.0) is None


@pytest.mark.parametrize("words", [("count", "butterfly", "STORE"), ("info", "STORE", "--json"), ("count", "--help")])
def test_a_reader_that_ends_first_is_no_error(words: tuple[str, ...], store: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run(
        [sys.executable, "-m", "papilio", *(str(store) if word == "STORE" else word for word in words)],
        cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=300,
    )  # fmt: skip
    os.close(writing)
    assert (found.returncode, found.stderr) == (141, b"")


@pytest.mark.slow
def test_a_terminal_is_left_as_it_was(store: Path) -> None:
    """The bar is drawn on a terminal, and gone in the end; a quiet command draws none."""
    for flags, drawn in (([], True), (["--quiet"], False)):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "papilio", "count", "butterfly", str(store), *flags],
            cwd=ROOT, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
            stdout=subprocess.PIPE, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        written = b""
        with suppress(OSError):  # how a terminal ends
            while chunk := os.read(ours, 4096):
                written += chunk
        assert process.communicate()[0] == b"4274550\n"
        os.close(ours)
        assert (b"reading and planning" in written) is drawn
        assert (b"\x1b[?25h" in written) is drawn, "the cursor is back"


@pytest.mark.parametrize("shell", [BashComplete, ZshComplete, FishComplete])
def test_shells_complete_commands_motifs_and_flags(shell: type[Any]) -> None:
    made = shell(cli, {}, "papilio", "_PAPILIO_COMPLETE")
    assert "_PAPILIO_COMPLETE" in made.source()

    def completed(words: list[str], incomplete: str) -> list[str]:
        return [item.value for item in made.get_completions(words, incomplete)]

    assert completed([], "de") == ["decompose"]
    assert completed(["count"], "max") == ["maximal-biclique", "maximal-clique"]
    assert completed(["enumerate"], "c") == ["clique"]
    assert completed(["submit", "count"], "bi") == ["biclique"]
    assert completed(["count", "biclique"], "--max") == ["--max-p", "--max-q", "--max-malformed"]
    assert "--verbose" in completed([], "--")


def test_compilations_are_no_part_of_the_speed(store: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that takes a second to compile: a phase of its own, and the same work per second."""

    def compile_and_run(*given: Any, **named: Any) -> Any:
        begin_compiling()
        begin_compiling()  # a function that it calls
        sleep(0.5)
        end_compiling()
        sleep(0.5)
        say_compiling()
        end_compiling()
        return run_lease(*given, **named)

    command = ("count", "butterfly", store, "--cluster", "inline", "--engine", "cpu")
    assert run(*command).exit_code == 0  # what it takes is compiled now
    run_lease = driver.run_lease
    monkeypatch.setattr(driver, "run_lease", compile_and_run)
    began = perf_counter()
    code, said, err = run(*command, "--json")
    took = perf_counter() - began
    assert code == 0, err
    assert COMPILING not in err, "nobody watches a pipe"
    facts = json.loads(said)
    assert facts["seconds"]["compile"] >= 1.0
    assert facts["seconds"]["compile"] + facts["seconds"]["run"] <= took, "no second counts twice"
    assert facts["work"]["wedges_per_second"] == pytest.approx(
        facts["work"]["wedges"] / facts["seconds"]["run"], rel=0.05
    )
    assert run(*command, "--verbose").stderr.count(COMPILING) == 1
    assert COMPILING not in run(*command, "--quiet").stderr
