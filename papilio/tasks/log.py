"""The log of a job directory: one line per event, with the time, for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

FOLLOW_PAUSE_S = 0.5
"""How often a log that is followed is looked at."""


class JobLog:
    """Appends lines to ``coordinator.log``; may be used by several threads and processes.

    A line that cannot be written is dropped: the log must not end a job that the ledger still has room for.
    """

    def __init__(self, root: Path) -> None:
        self.path = root / "coordinator.log"

    def write(self, text: str) -> None:
        """Append ``text``, each of its lines with the time before it."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        lines = "".join(f"{at}  {line}\n" for line in text.splitlines())
        with suppress(OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(lines)


def read_log(root: Path, follow_while: Callable[[], bool] | None = None) -> Iterator[str]:
    """Yield the log in pieces: all that there is, and with ``follow_while`` what comes until that is false."""
    offset = 0
    path = JobLog(root).path
    while True:
        going_on = follow_while is not None and follow_while()
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as file:
                file.seek(offset)
                text, offset = file.read(), file.tell()
            if text:
                yield text
        if not going_on:
            return
        time.sleep(FOLLOW_PAUSE_S)
