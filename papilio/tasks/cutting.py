"""Requests to end leases early, in the process that runs them.

A request may come while its lease runs, before it begins, or after it ended: it is only remembered, and the
lease looks for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

__all__ = ["is_cut", "request_cuts"]

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
    """Return whether the lease of this task key was asked to end."""
    return key in _requests
