"""The command line: translates flags to the calls of the Python interface and answers to text or JSON.

Signals are listened for before anything heavy is imported.
"""

from __future__ import annotations

from papilio.interrupts import listen_during

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from papilio.cli.app import cli

__all__ = ["cli", "main"]


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with one of the documented codes; no traceback for expected errors."""
    listen_during(lambda: _run(args))


def _run(args: list[str] | None) -> None:
    from papilio.cli.app import run

    run(args)


def __getattr__(name: str) -> Any:
    if name != "cli":
        raise AttributeError(f"module 'papilio.cli' has no attribute {name!r}")
    from papilio.cli.app import cli

    return cli
