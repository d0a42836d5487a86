"""What engines tell while they work: that kernels are compiled, which takes seconds, and how far a run is.

An engine works on one run at a time in a process, and whoever wants to know looks at it from another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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


class Passed(NamedTuple):
    """How far a run is: the first of its items, and beyond them a share of the cost of the others."""

    items: int = 0
    share: float = 0.0


_passed = Passed()


def say_passed(items: int = 0, share: float = 0.0) -> None:
    """Tell how far the run of this process is: the items done, the share of the cost that is done, or both."""
    global _passed
    _passed = Passed(items, share)


def get_passed() -> Passed:
    """Return how far the run of this process is, as far as its engine tells."""
    return _passed
