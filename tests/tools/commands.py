"""Calls of the command line in this process."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from papilio.cli import main

__all__ = ["Result", "Run", "call_command", "run_command"]


class Result(NamedTuple):
    """What one call of the command did."""

    exit_code: int
    stdout: str
    stderr: str


Run = Callable[..., Result]


def run_command(capsys: pytest.CaptureFixture[str], *args: object) -> Result:
    """Call the command, which must exit by itself, and leave the handling of signals as it was."""
    code = _exit_code(args)
    written = capsys.readouterr()
    return Result(code, written.out, written.err)


def call_command(*args: object) -> Result:
    """Call the command as :func:`run_command` does, where there is no ``capsys``."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        code = _exit_code(args)
    return Result(code, out.getvalue(), error.getvalue())


def _exit_code(args: tuple[object, ...]) -> int:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        main([str(arg) for arg in args])
    signal.signal(signal.SIGTERM, before)
    assert isinstance(caught.value.code, int)
    return caught.value.code
