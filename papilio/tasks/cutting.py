"""What ends leases early, in the process that runs them: requests, and the clock.

A request may come while its lease runs, before it begins, or after it ended: it is only remembered, and the
lease looks for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import monotonic

from papilio.interrupts import requested

_REMEMBERED = 4096
"""Requests that a process keeps; the oldest ones, long answered, go first."""

_requests: OrderedDict[str, None] = OrderedDict()
_lock = threading.Lock()


def request_cuts(keys: Iterable[str]) -> None:
    """Ask the leases of these task keys to end at the next bound, or not to begin; returns at once."""
    with _lock:
        for key in keys:
            _requests[key] = None
        while len(_requests) > _REMEMBERED:
            _requests.popitem(last=False)


def is_cut(key: str) -> bool:
    """Return whether the lease of this task key, or this process, was asked to end."""
    return key in _requests or requested()


class CutWatch:
    """Tells one run of a lease, each time that it is called, whether to end; from any thread.

    ``limit_s`` is for the run, None for no limit. The time counts from the first call, so that whatever comes before
    the first slice, that slice is run: a lease that is cut by the clock always answers something.
    """

    def __init__(self, key: str, limit_s: float | None, clock: Callable[[], float] = monotonic) -> None:
        self._key, self._limit_s, self._clock = key, limit_s, clock
        self._ends_at: float | None = None

    def __call__(self) -> bool:
        """Return whether the lease was asked to end, or has had its time."""
        if is_cut(self._key):
            return True
        if self._limit_s is None:
            return False
        now = self._clock()
        if self._ends_at is None:
            self._ends_at = now + self._limit_s
        return now >= self._ends_at
