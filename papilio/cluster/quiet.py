"""Keep Dask's own machinery away from the user: its messages, the keyboard's interrupts, and how long its end takes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

from distributed import Nanny

from papilio.interrupts import held

_TRACKER_QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"


@contextmanager
def quiet_dask() -> Iterator[None]:
    """Silence the loggers of Dask in this process until the block ends."""
    names = ["distributed", *(n for n in logging.root.manager.loggerDict if n.startswith("distributed."))]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Start worker processes that a Ctrl-C does not reach; one that comes meanwhile is delivered afterwards.

    A terminal sends the interrupt to all processes of the group. The signal mask of the thread that starts a
    process is inherited, by threads and by processes, so workers that a nanny restarts later have it too. This
    process alone then decides what an interrupt means. The resource tracker of multiprocessing clears the mask
    of the thread that starts it, so it is started first; what it cleans up after a process that was ended it does
    without a word.
    """
    sys.warnoptions.append(_TRACKER_QUIET)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(_TRACKER_QUIET)
    with held():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_workers(cluster: Any) -> None:
    """Kill the worker processes of this machine that a cluster has, so that closing it waits for none.

    Asked to end, a worker first ends what it runs, which may take longer than whoever pressed Ctrl-C waits. Only
    workers with nannies are killed, which see that they go and start no others.
    """
    for nanny in tuple(cluster.workers.values()):
        if isinstance(nanny, Nanny):
            nanny.close_gracefully()
            with suppress(OSError):
                if nanny.pid:
                    os.kill(nanny.pid, signal.SIGKILL)
