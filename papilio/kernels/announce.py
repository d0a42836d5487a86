"""Progress of engines: whether a kernel is being compiled, and how far a run has come.

Compiling takes seconds. A process has one run at a time; other threads read its progress from here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Timer, local
from time import perf_counter
from typing import Any, NamedTuple

COMPILING = "compiling kernels for this machine (first use; `papilio doctor --warm` compiles all of them ahead)"

PATIENCE_S, PAUSE_S = 0.5, 2.0
"""Seconds of compiling before it is announced, and seconds without compiling before it is announced again."""

Tell = Callable[[str], None]
"""Called from any thread with a line for the user."""


def in_notebook() -> bool:
    """Return whether standard error is shown by a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def can_draw() -> bool:
    """Return whether a line on standard error that is not part of the answer has a reader: a person, not a file."""
    return (sys.stderr is not None and sys.stderr.isatty()) or in_notebook()


def _print(line: str) -> None:
    if can_draw():
        print(line, file=sys.stderr, flush=True)


class Compilations:
    """The compilations of a process: their time, and their announcement once they have lasted a while.

    Those with less than :data:`PAUSE_S` between them are announced once. All methods are callable from any thread.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter, timer: Callable[..., Any] = Timer) -> None:
        self._clock, self._make_timer = clock, timer
        self._lock = Lock()
        self._tells: list[Tell] = [_print]
        self._depth = 0
        self._since_s = self._seconds = 0.0
        self._last_s = -PAUSE_S
        self._waited_s, self._is_told = 0.0, False
        self._timer: Any = None

    def tell_by(self, tell: Tell) -> None:
        """Announce the next compilations by ``tell``, by default a line on standard error, until it is forgotten."""
        with self._lock:
            self._tells.append(tell)
            self._waited_s, self._is_told = 0.0, False

    def forget(self, tell: Tell) -> None:
        """Announce as before ``tell``."""
        with self._lock, suppress(ValueError):
            self._tells.remove(tell)

    def begin(self) -> None:
        """Record that the compilation of a kernel begins; compilations may nest."""
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._since_s = self._clock()
            self._begin_anew(self._since_s)
            if not self._is_told:
                self._timer = self._make_timer(max(0.0, PATIENCE_S - self._waited_s), self.announce)
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """Record that the compilation of a kernel has ended."""
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._last_s = self._clock()
            self._seconds += self._last_s - self._since_s
            self._waited_s += self._last_s - self._since_s

    def seconds(self) -> float:
        """Return the seconds so far in which any thread compiled."""
        with self._lock:
            return self._seconds_until(self._clock())

    def run_clock(self) -> float:
        """Return the seconds of a clock that stands still while any thread compiles."""
        with self._lock:
            now_s = self._clock()
            return now_s - self._seconds_until(now_s)

    def _seconds_until(self, now_s: float) -> float:
        return self._seconds + (now_s - self._since_s if self._depth else 0.0)

    def announce(self) -> None:
        """Tell that a compilation goes on, unless this was told since the last pause."""
        with self._lock:
            if not self._depth:
                self._begin_anew(self._clock())
                self._last_s = self._clock()
            if self._is_told:
                return
            self._is_told, tell = True, self._tells[-1]
        tell(COMPILING)

    def _begin_anew(self, now_s: float) -> None:
        """Forget earlier compilations if they ended long ago."""
        if now_s - self._last_s >= PAUSE_S:
            self._waited_s, self._is_told = 0.0, False


_compilations = Compilations()

tell_compiling_by = _compilations.tell_by
forget_compiling = _compilations.forget
begin_compiling = _compilations.begin
end_compiling = _compilations.end
compiled_seconds = _compilations.seconds
run_clock = _compilations.run_clock
say_compiling = _compilations.announce


@contextmanager
def compiling() -> Iterator[None]:
    """Record a compilation during the block."""
    begin_compiling()
    try:
        yield
    finally:
        end_compiling()


@contextmanager
def silent_compiling() -> Iterator[None]:
    """Announce no compilation during the block."""

    def ignore(line: str) -> None: ...

    tell_compiling_by(ignore)
    try:
        yield
    finally:
        forget_compiling(ignore)


class Passed(NamedTuple):
    """Progress of a run: items done, and the share of the cost of the others done."""

    items: int = 0
    share: float = 0.0


_passed = Passed()


_silence = local()


@contextmanager
def silent_runs() -> Iterator[None]:
    """Suppress the progress of runs of this thread that are part of another run."""
    _silence.on = True
    try:
        yield
    finally:
        _silence.on = False


def say_passed(items: int = 0, share: float = 0.0) -> None:
    """Record the progress of this process's run: items done, share of the cost done, or both."""
    global _passed
    if not getattr(_silence, "on", False):
        _passed = Passed(items, share)


def get_passed() -> Passed:
    """Return the last recorded progress of the run of this process."""
    return _passed
