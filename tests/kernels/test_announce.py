"""Who waits for a compiler is told so, once it takes long: on a terminal and in a notebook, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

import papilio
from papilio.cluster.progress import ProgressBar
from papilio.kernels import announce, jit
from papilio.kernels.announce import COMPILING, PATIENCE_S, PAUSE_S, Compilations, silent_compiling
from papilio.storage.store import write_store
from tests.conftest import ROOT
from tests.tools.commands import Run


class Clock:
    """A clock that stands still until it is moved, and timers that go by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def timer(self, seconds: float, call: Callable[[], None]) -> Any:
        """Return a timer as of the module threading."""
        entry = (self.now + seconds, call)
        return SimpleNamespace(
            start=lambda: self._due.append(entry),
            cancel=lambda: self._due.remove(entry) if entry in self._due else None,
        )

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        for entry in [each for each in self._due if each[0] <= self.now]:
            self._due.remove(entry)
            entry[1]()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def compilations(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Compilations:
    """Those of a process that has compiled nothing, in the place of this one's."""
    made = Compilations(lambda: clock.now, clock.timer)
    for name, method in (
        ("tell_compiling_by", made.tell_by), ("forget_compiling", made.forget), ("begin_compiling", made.begin),
        ("end_compiling", made.end),
    ):  # fmt: skip
        monkeypatch.setattr(announce, name, method)
        monkeypatch.setattr("papilio.cluster.progress." + name, method, raising=False)
    return made


def compile_for(compilations: Compilations, clock: Clock, seconds: float) -> None:
    """Compile a function, and one that it calls."""
    compilations.begin()
    compilations.begin()
    clock.move(seconds / 2)
    compilations.end()
    clock.move(seconds / 2)
    compilations.end()


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([PATIENCE_S * 0.9], 0),
        ([PATIENCE_S * 2], 1),
        ([PATIENCE_S * 0.6] * 4, 1),
        ([PATIENCE_S * 0.6, -2 * PAUSE_S, PATIENCE_S * 0.6], 0),
        ([PATIENCE_S * 2, -2 * PAUSE_S, PATIENCE_S * 2], 2),
        ([PATIENCE_S * 2, -PAUSE_S / 2, PATIENCE_S * 2], 1),
    ],
)
def test_compilations_are_announced_once_when_they_take_long(
    steps: list[float], told: int, compilations: Compilations, clock: Clock
) -> None:
    """Positive steps compile, negative ones do not."""
    heard: list[str] = []
    compilations.tell_by(heard.append)
    for step in steps:
        if step > 0:
            compile_for(compilations, clock, step)
        else:
            clock.move(-step)
    assert heard == [COMPILING] * told
    assert compilations.seconds() == pytest.approx(sum(step for step in steps if step > 0))


def test_compilations_of_a_gpu_are_announced_once(compilations: Compilations, clock: Clock) -> None:
    """They tell of themselves, several at the same time."""
    heard: list[str] = []
    compilations.tell_by(heard.append)
    for seconds in (0.1, 0.1, PAUSE_S):
        compilations.announce()
        clock.move(seconds)
    compilations.announce()
    assert heard == [COMPILING] * 2
    assert compilations.seconds() == 0


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Put standard error on a pseudo-terminal; yields a function that returns what has been written there."""
    ours, theirs = pty.openpty()
    chunks: SimpleQueue[bytes] = SimpleQueue()

    def receive() -> None:  # all the time: a terminal that nobody reads blocks
        with suppress(OSError):  # how a terminal ends
            while chunk := os.read(ours, 4096):
                chunks.put(chunk)

    def read() -> str:
        stream.write("<end>")
        stream.flush()
        text = b""
        while not text.endswith(b"<end>"):
            text += chunks.get()
        return text.removesuffix(b"<end>").decode()

    receiver = Thread(target=receive)
    receiver.start()
    try:
        with open(theirs, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            yield read
    finally:
        receiver.join()
        os.close(ours)


def test_a_terminal_shows_a_line(compilations: Compilations, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as written:
        compile_for(compilations, clock, 1)
        assert written() == f"{COMPILING}\r\n"
        clock.move(PAUSE_S)
        with silent_compiling():
            compile_for(compilations, clock, 1)
        assert written() == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_shows_a_line_above_the_bar(
    quiet: bool, compilations: Compilations, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    with terminal(monkeypatch) as written:
        with ProgressBar(quiet=quiet):
            compile_for(compilations, clock, 1)
        assert written().count(COMPILING) == (not quiet)
        clock.move(PAUSE_S)
        compile_for(compilations, clock, 1)
        assert written() == f"{COMPILING}\r\n", "the bar is gone"


@pytest.mark.parametrize("shell", [None, "TerminalInteractiveShell", "ZMQInteractiveShell"])
def test_a_notebook_shows_a_line_and_a_pipe_none(
    shell: str | None, compilations: Compilations, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shell is not None:
        made = type(shell, (), {})()
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: made))
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    compile_for(compilations, clock, 1)
    assert written.getvalue() == (f"{COMPILING}\n" if shell == "ZMQInteractiveShell" else "")


def double(x: int) -> int:
    return 2 * x


def test_a_function_is_compiled_when_its_code_is_not_there(
    compilations: Compilations, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from papilio.kernels import compiling

    compile_code = compiling.compile_code

    def compile_slowly(*given: Any, **named: Any) -> bytes:
        clock.move(3)
        return compile_code(*given, **named)

    monkeypatch.setattr(compiling, "compile_code", compile_slowly)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        assert jit.compiled(double)(4) == 8
        assert compilations.seconds() == 3


GRAPH = papilio.BipartiteGraph.from_edges([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 1, 2])

CALLS: dict[str, Callable[[], Any]] = {
    "count": lambda: papilio.count(GRAPH, "butterfly", engine="cpu"),
    "plan": lambda: papilio.plan(GRAPH, "butterfly", engine="cpu"),
    "enumerate": lambda: list(papilio.enumerate(GRAPH, "maximal-biclique", engine="cpu")),
    "estimate": lambda: papilio.estimate(GRAPH, papilio.Biclique(2, 2), engine="cpu"),
    "significance": lambda: papilio.significance(GRAPH, "butterfly", samples=2, engine="cpu"),
    "decompose": lambda: papilio.decompose(GRAPH, "wing", engine="cpu"),
    "measure": lambda: papilio.robins_alexander(GRAPH),
    "project": lambda: list(papilio.project(GRAPH, "u", engine="cpu")),
}

COMMANDS = (
    "count butterfly STORE", "plan butterfly STORE", "enumerate maximal-biclique STORE",
    "estimate biclique STORE -p 2 -q 2", "significance butterfly STORE --samples 2", "decompose wing STORE",
    "measure robins-alexander STORE", "project STORE --layer u",
)  # fmt: skip


@pytest.fixture
def slow_kernels(compilations: Compilations, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every call of a compiled function from Python wait a second for the compiler."""
    call = jit._Compiled.__call__

    def compile_and_call(self: Any, *given: Any, **named: Any) -> Any:
        compile_for(compilations, clock, 1)
        return call(self, *given, **named)

    monkeypatch.setattr(jit._Compiled, "__call__", compile_and_call)


@pytest.mark.usefixtures("slow_kernels")
@pytest.mark.parametrize("name", CALLS)
def test_every_call_that_compiles_says_so_on_a_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as written:
        CALLS[name]()
        assert written().count(COMPILING) == 1


@pytest.mark.usefixtures("slow_kernels")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_compiles_says_so_on_a_terminal(
    command: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    write_store(tmp_path / "store", GRAPH, provenance={})
    words = [str(tmp_path / "store") if word == "STORE" else word for word in command.split()]
    with terminal(monkeypatch) as written:
        assert run(*words).exit_code == 0
        assert written().count(COMPILING) == 1
        clock.move(PAUSE_S)
        assert run(*words, "--quiet").exit_code == 0
        assert COMPILING not in written()
    clock.move(PAUSE_S)
    done = run(*words)
    assert (done.exit_code, COMPILING in done.stdout + done.stderr) == (0, False), "nobody watches a pipe"


def test_workers_tell_their_clients(compilations: Compilations, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    from papilio.cluster import on_worker

    monkeypatch.setattr(on_worker, "tell_compiling_by", compilations.tell_by)
    told: list[tuple[str, str]] = []
    worker: Any = SimpleNamespace(log_event=lambda topic, line: told.append((topic, line)))
    on_worker.forward_compiling(on_worker.name_process(), worker)
    compile_for(compilations, clock, 1)
    assert told == [], "a worker in the process of the client"
    for _ in range(2):  # of two clients
        on_worker.forward_compiling(("elsewhere", 1), worker)
    clock.move(PAUSE_S)
    compile_for(compilations, clock, 1)
    assert told == [(on_worker.COMPILING_TOPIC, COMPILING)]


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "told"), [((), 1), (("--workers", "2", "--cluster", "local"), 1), (("--quiet",), 0)])
def test_a_first_count_says_that_it_compiles(flags: tuple[str, ...], told: int, tmp_path: Path) -> None:
    """In this process or in two workers, above the bar, once."""
    write_store(tmp_path / "store", GRAPH, provenance={})
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "papilio", "count", "butterfly", str(tmp_path / "store"), *flags], cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "NUMBA_CACHE_DIR": str(tmp_path / "compiled")},
        stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    with suppress(OSError):  # how a terminal ends
        while chunk := os.read(ours, 4096):
            written += chunk
    assert process.communicate()[0] == b"1\n"
    os.close(ours)
    assert written.decode().count(COMPILING) == told
