"""Task functions that misbehave on purpose; importable by worker processes."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from distributed import Worker

import papilio
from papilio.errors import StoreError
from papilio.tasks.job import LeaseTask
from papilio.tasks.run import LeaseResult, run_lease
from papilio.tasks.worker import Seat


def report_interval(task: LeaseTask, seat: Seat) -> tuple[int, int, str, int]:
    """Return what the task was called with."""
    return task.start, task.stop, seat.worker, seat.threads


def shift_interval(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Answer other items than those asked for."""
    result = run_lease(task, seat)
    return replace(result, start=result.start + 1)


def repeat_interval(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Answer the first items, whatever is asked."""
    return replace(run_lease(task, seat), start=0)


def raise_value_error(task: LeaseTask, seat: Seat) -> None:
    """Fail as a bug would."""
    raise ValueError(f"bug at {task.start}")


def raise_store_error(task: LeaseTask, seat: Seat) -> None:
    """Fail as Papilio does."""
    raise StoreError("row group 3 is gone")


def raise_memory_error(task: LeaseTask, seat: Seat) -> None:
    """Run out of memory."""
    raise MemoryError("no 8 EiB")


def kill_worker(task: LeaseTask, seat: Seat) -> None:
    """Take the worker process down."""
    os._exit(7)


def kill_first_attempt(task: LeaseTask, seat: Seat) -> tuple[int, int]:
    """Take the worker process down, once, for one of the tasks."""
    if task.start == 0 and task.attempt == 0:
        os._exit(7)
    return task.start, task.attempt


def wait_long(task: LeaseTask, seat: Seat) -> None:
    """Run for longer than a test waits."""
    time.sleep(5)


def set_version(version: str, dask_worker: Worker) -> None:
    """Make a worker process say that it has another version of Papilio."""
    papilio.__version__ = version
