"""Calls of the command line in this process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import NamedTuple

import pytest

from papilio.cli import main

__all__ = ["Result", "Run", "run_command"]


class Result(NamedTuple):
    """What one call of the command did."""

    exit_code: int
    stdout: str
    stderr: str


Run = Callable[..., Result]


def run_command(capsys: pytest.CaptureFixture[str], *args: object) -> Result:
    """Call the command, which must exit by itself, and leave the handling of signals as it was."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        main([str(arg) for arg in args])
    signal.signal(signal.SIGTERM, before)
    written = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return Result(caught.value.code, written.out, written.err)
