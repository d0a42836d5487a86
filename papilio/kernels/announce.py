"""Whom to tell that kernels are compiled, which takes seconds the first time on a machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

_listeners: list[Callable[[], None]] = []


def on_compiling(tell: Callable[[], None]) -> None:
    """Call ``tell``, from any thread, when a kernel begins to be compiled; once."""
    _listeners.append(tell)


def say_compiling() -> None:
    """Tell those who want to know that a kernel is compiled."""
    with suppress(IndexError):
        while True:
            _listeners.pop()()
