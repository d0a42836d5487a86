"""The command line: translates flags to calls of the Python interface, and answers to text or JSON.

Signal handlers are installed before any heavy import. Numba and Arrow import cffi, pandas and SciPy if installed, which
takes a second; no command needs them, so a process of the command line hides them.
"""

from __future__ import annotations

import gc
import sys
from contextvars import copy_context

from papilio.cli.early import begin_driver, begin_workers
from papilio.signals import listen_during

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from papilio.cli.app import cli

__all__ = ["cli", "main"]


_UNUSED = ("cffi", "pandas", "scipy")


class _Unused:
    """Makes the libraries that no command uses impossible to import."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in _UNUSED:
            raise ModuleNotFoundError(f"{name} is not used by the command line", name=name)


_NEW_OBJECTS = 20_000
"""Number of new objects before a garbage collection. Most objects of a short command belong to modules and stay: at the
default of 700, counting in a small graph spends a tenth of its time in the collector."""


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with one of the documented codes; no traceback for expected errors.

    Without ``args``, this process belongs to the command.
    """
    if args is None:
        sys.meta_path.insert(0, _Unused)
        gc.set_threshold(_NEW_OBJECTS)
    # Command lines that end while they are parsed may leave context variables set; here they end with the copy.
    listen_during(lambda: copy_context().run(_run, args))


def _run(args: list[str] | None) -> None:
    if args is None:
        begin_driver(sys.argv[1:])
        begin_workers(sys.argv[1:])
    from papilio.cli.app import run

    run(args)


def __getattr__(name: str) -> Any:
    if name != "cli":
        raise AttributeError(f"module 'papilio.cli' has no attribute {name!r}")
    from papilio.cli.app import cli

    return cli
