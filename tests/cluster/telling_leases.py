"""Preloaded by workers, or imported by a command: each lease that is under way adds a line to a file.

The file is named by the environment variable ``PAPILIO_TEST_LEASES``.
"""

from __future__ import annotations

import os
from typing import Any

from papilio.tasks import run

SLICES = 3
"""A lease is under way once it has looked this often whether it is cut."""


class TellingWatch(run.CutWatch):
    """A watch that tells."""

    looks = 0

    def __call__(self) -> bool:
        self.looks += 1
        if self.looks == SLICES:
            with open(os.environ["PAPILIO_TEST_LEASES"], "a", encoding="ascii") as file:
                file.write(f"{self._key}\n")
        return super().__call__()


run.CutWatch = TellingWatch  # type: ignore[misc]


def dask_setup(worker: Any) -> None:
    """Do nothing more: the module is imported before the worker begins."""
