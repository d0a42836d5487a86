"""Workers that the scheduler knows but no longer hears, and a scheduler that does not answer.

A worker that is stopped, or whose link is cut, remains in the scheduler's list until a connection breaks (30 s after a
cut) or Dask's ``worker-ttl`` is over (5 min); then Dask ends it. Papilio gives its work to others earlier, without
ending it, and includes it again when it is heard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from time import monotonic

from distributed.scheduler import heartbeat_interval

from papilio.errors import InputError
from papilio.settings import SILENCE_SECONDS, Variable

SILENCE_S = 10.0
"""Time without a heartbeat after which others do the work of a worker. In clusters of up to 10 workers, each sends two
heartbeats a second. ``PAPILIO_SILENCE_SECONDS`` sets another."""

SILENT_BEATS = 10
"""Heartbeats that a worker of a large cluster, where they are seldom, may miss."""

MOST_LOOK_S = 2.0
"""Silence that a look at the workers can add: this process may have been stopped since the last one."""

NONE_HEARD = (
    "papilio: no worker has answered for %.0f s; waiting until one does. The run ends when Dask has given up all of "
    "them (after distributed.scheduler.worker-ttl, by default 5 minutes) and no other one comes; a job directory keeps "
    "completed work"
)

_LOG = logging.getLogger("papilio")


def read_seconds(variable: Variable, default: float) -> float:
    """Return the seconds that an environment variable sets; InputError if it sets something else."""
    text = variable.value
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{variable.name} is {text!r}; set it to a number of seconds")
    return seconds


@contextmanager
def waiting_named() -> Iterator[None]:
    """Warn if the block, a call of the scheduler, takes as long as a silence."""
    text = f"papilio: the scheduler has not answered for {SILENCE_S:.0f} s; waiting for it"
    timer = Timer(SILENCE_S, _LOG.warning, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Silences:
    """How long each worker has been silent, by the clock of this process; look about once a second."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._looked_at = clock, clock()
        self._limit_s = read_seconds(SILENCE_SECONDS, SILENCE_S)
        self._silent: set[str] = set()
        self._hears_none = False
        self._heard: dict[str, tuple[float, float]] = {}  # time of the last heartbeat, and the silence seen since

    def look(self, heard_at: Mapping[str, float]) -> set[str]:
        """Return the silent workers, given when each was last heard by the clock of the scheduler; warn of new ones.

        If no worker is heard, a warning gives the waiting time, and none is returned as silent: nobody could take
        over, and the scheduler itself may be busy.
        """
        now = self._clock()
        looked_s, self._looked_at = min(now - self._looked_at, MOST_LOOK_S), now
        before, self._heard = self._heard, {}
        for address, last in heard_at.items():
            known, silent_s = before.get(address, (None, 0.0))
            self._heard[address] = last, silent_s + looked_s if known == last else 0.0
        limit_s = max(self._limit_s, SILENT_BEATS * heartbeat_interval(len(heard_at)))
        silent = {address for address, (_, silent_s) in self._heard.items() if silent_s >= limit_s}
        hears_none = 0 < len(silent) == len(heard_at)
        if hears_none != self._hears_none:
            self._hears_none = hears_none
            _LOG.warning(NONE_HEARD % limit_s if hears_none else "papilio: a worker answers again")
        if hears_none:
            return set()
        for address in silent - self._silent:
            _LOG.warning(
                "papilio: worker %s has not answered for %.0f s; the others do its work until it does", address, limit_s
            )
        for address in (self._silent - silent) & heard_at.keys():
            _LOG.warning("papilio: worker %s answers again", address)
        self._silent = silent
        return silent
