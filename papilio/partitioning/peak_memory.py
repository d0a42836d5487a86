"""Resident memory of this process while something runs, by sampling."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil

_PERIOD_S = 0.01
"""Seconds between samples: each takes 20 microseconds, and nothing here allocates and frees a block faster."""


class PeakMemory:
    """Samples the resident memory of the process in a thread of its own; a context manager.

    The kernel's own figure (``ru_maxrss``) never falls, so that it tells nothing of a second run in one process.
    A peak that lasts for less than the period between samples may be missed.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="papilio-peak", daemon=True)
        self._first = self._most = 0

    def _sample(self) -> int:
        return int(self._process.memory_info().rss)

    def _watch(self) -> None:
        while not self._stop.wait(_PERIOD_S):
            self._most = max(self._most, self._sample())

    def __enter__(self) -> Self:
        self._first = self._most = self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._most = max(self._most, self._sample())

    @property
    def now_bytes(self) -> int:
        """How far the resident memory is above what it was at the beginning."""
        return self._sample() - self._first

    @property
    def grown_bytes(self) -> int:
        """How far the resident memory rose above what it was at the beginning, until now or the end."""
        return max(self._most, self._sample() if self._thread.is_alive() else 0) - self._first
