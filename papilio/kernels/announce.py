"""Progress of engines: whether a kernel is being compiled, and how far a run has come.

Compiling takes seconds. A process has one run at a time; other threads read its progress from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, local
from time import perf_counter
from typing import NamedTuple

_listeners: list[Callable[[], None]] = []


def on_compiling(tell: Callable[[], None]) -> None:
    """Call ``tell`` once, from any thread, when the compilation of a kernel begins."""
    _listeners.append(tell)


def forget_compiling(tell: Callable[[], None]) -> None:
    """Cancel ``tell`` if it has not been called yet."""
    with suppress(ValueError):
        _listeners.remove(tell)


def say_compiling() -> None:
    """Call and remove all listeners."""
    with suppress(IndexError):
        while True:
            _listeners.pop()()


_compiling = 0
_compiling_since = 0.0
_compiled_s = 0.0
_lock = Lock()


def begin_compiling() -> None:
    """Record, from any thread, that the compilation of a kernel begins; compilations may nest."""
    global _compiling, _compiling_since
    with _lock:
        if not _compiling:
            _compiling_since = perf_counter()
        _compiling += 1
    say_compiling()


def end_compiling() -> None:
    """Record that the compilation of a kernel has ended."""
    global _compiling, _compiled_s
    with _lock:
        _compiling -= 1
        if not _compiling:
            _compiled_s += perf_counter() - _compiling_since


def compiled_seconds() -> float:
    """Return the seconds so far in which any thread of this process compiled."""
    with _lock:
        return _compiled_s + (perf_counter() - _compiling_since if _compiling else 0.0)


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
