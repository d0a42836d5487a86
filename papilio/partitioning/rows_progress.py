"""How far the rows of a graph are on disk, as one share, from the phases that the writer tells of."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["follow_phases"]

PHASES = 5
"""Degrees; for each layer its rows and their sort."""


def follow_phases(report: Callable[[float], None], share: float) -> Callable[[str, int, int], None]:
    """Return what :func:`~papilio.partitioning.disk_rows.write_disk_rows` is to call with its progress.

    Parameters
    ----------
    report : callable
        Called with shares from 0 to ``share``, never falling, by one thread at a time.
    share : float
        What all phases are of the whole work.
    """
    lock = threading.Lock()
    phases: list[str] = []
    last = 0.0

    def follow(phase: str, done: int, total: int) -> None:
        nonlocal last
        with lock:
            if phase not in phases:
                phases.append(phase)
            phases_done = phases.index(phase) + done / max(total, 1)
            last = max(last, share * min(phases_done / PHASES, 1.0))
            report(last)

    return follow
