"""Keep Dask's own machinery away from the user: its messages, and the keyboard's interrupts from its processes."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

__all__ = ["hold_interrupts", "quiet_dask"]


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
    of the thread that starts it, so it is started first.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
