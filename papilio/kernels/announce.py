"""What engines tell while they work: that kernels are compiled, which takes seconds, and how far a run is.

An engine works on one run at a time in a process, and whoever wants to know looks at it from another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, local
from time import perf_counter
from typing import NamedTuple

_listeners: list[Callable[[], None]] = []


def on_compiling(tell: Callable[[], None]) -> None:
    """Call ``tell``, from any thread, when a kernel begins to be compiled; once."""
    _listeners.append(tell)


def forget_compiling(tell: Callable[[], None]) -> None:
    """Call ``tell`` no more, where it was not called yet."""
    with suppress(ValueError):
        _listeners.remove(tell)


def say_compiling() -> None:
    """Tell those who want to know that a kernel is compiled."""
    with suppress(IndexError):
        while True:
            _listeners.pop()()


_compiling = 0
_compiling_since = 0.0
_compiled_s = 0.0
_lock = Lock()


def begin_compiling() -> None:
    """Tell that a kernel begins to be compiled, in any thread; compilations may lie within others."""
    global _compiling, _compiling_since
    with _lock:
        if not _compiling:
            _compiling_since = perf_counter()
        _compiling += 1
    say_compiling()


def end_compiling() -> None:
    """Tell that a kernel was compiled."""
    global _compiling, _compiled_s
    with _lock:
        _compiling -= 1
        if not _compiling:
            _compiled_s += perf_counter() - _compiling_since


def compiled_seconds() -> float:
    """Return the seconds in which this process compiled kernels so far, in one thread or several."""
    with _lock:
        return _compiled_s + (perf_counter() - _compiling_since if _compiling else 0.0)


class Passed(NamedTuple):
    """How far a run is: the first of its items, and beyond them a share of the cost of the others."""

    items: int = 0
    share: float = 0.0


_passed = Passed()


_silence = local()


@contextmanager
def silent_runs() -> Iterator[None]:
    """Let the runs of this thread that lie within another run tell nothing."""
    _silence.on = True
    try:
        yield
    finally:
        _silence.on = False


def say_passed(items: int = 0, share: float = 0.0) -> None:
    """Tell how far the run of this process is: the items done, the share of the cost that is done, or both."""
    global _passed
    if not getattr(_silence, "on", False):
        _passed = Passed(items, share)


def get_passed() -> Passed:
    """Return how far the run of this process is, as far as its engine tells."""
    return _passed
