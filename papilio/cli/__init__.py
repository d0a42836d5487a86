"""The command line: translates flags to the calls of the Python interface and answers to text or JSON.

Signals are listened for before anything heavy is imported. Numba and Arrow import cffi, pandas and SciPy where they
find them, which takes a second; no command needs these, so that a process of the command line has none of them.
"""

from __future__ import annotations

import gc
import sys

from papilio.cli.early import begin_driver
from papilio.interrupts import listen_during

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from papilio.cli.app import cli

__all__ = ["cli", "main"]


_UNUSED = ("cffi", "pandas", "scipy")


class _Unused:
    """Finds the libraries that no command uses nowhere."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in _UNUSED:
            raise ModuleNotFoundError(f"{name} is not used by the command line", name=name)


_NEW_OBJECTS = 20_000
"""Python looks for garbage after so many new objects. Nearly all that a short command makes are modules, which stay: at
the usual 700 a count of a small graph spends a tenth of its time looking."""


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with one of the documented codes; no traceback for expected errors.

    Without ``args`` this process is that of the command.
    """
    if args is None:
        sys.meta_path.insert(0, _Unused)
        gc.set_threshold(_NEW_OBJECTS)
    listen_during(lambda: _run(args))


def _run(args: list[str] | None) -> None:
    if args is None:
        begin_driver(sys.argv[1:])
    from papilio.cli.app import run

    run(args)


def __getattr__(name: str) -> Any:
    if name != "cli":
        raise AttributeError(f"module 'papilio.cli' has no attribute {name!r}")
    from papilio.cli.app import cli

    return cli
