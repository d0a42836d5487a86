"""Prepared graphs that one process keeps between leases."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Protocol


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class PreparedCache:
    """A bounded map from what was asked to what was prepared.

    Safe for several threads: of those that ask for the same key at the same time one prepares and the others wait for
    it. The lock is held for bookkeeping only, never while something is prepared. What is evicted stays alive for as
    long as a running task still uses it.

    ``budget_bytes``, which may be changed between calls, is for the kept objects and the next one to be made. Older
    ones go first; one object is always kept, however large.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, size_hint_bytes: int, make: Callable[[], _Sized]) -> Any:
        """Return the object of ``key``, made by ``make`` unless it is kept already.

        When ``make`` raises, every thread that waits for this key sees the same error and nothing is kept.
        """
        with self._lock:
            entry = self._entries.get(key)
            mine = entry is None
            if entry is None:
                self._make_room(size_hint_bytes)
                entry = self._entries[key] = Future()
            self._entries.move_to_end(key)
        if mine:
            try:
                entry.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._entries.get(key) is entry:
                        del self._entries[key]
                entry.set_exception(error)
        return entry.result()

    def _make_room(self, needed_bytes: int) -> None:
        finished = [key for key, entry in self._entries.items() if entry.done()]
        held = sum(self._entries[key].result().nbytes for key in finished)
        for key in finished:
            if held + needed_bytes <= self.budget_bytes:
                return
            held -= self._entries.pop(key).result().nbytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def forget(self, chosen: Callable[[Any], bool]) -> None:
        """Forget the objects whose key is chosen."""
        with self._lock:
            for key in [key for key in self._entries if chosen(key)]:
                del self._entries[key]
