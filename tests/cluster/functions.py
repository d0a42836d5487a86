"""Task functions that misbehave on purpose; importable by worker processes."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

from distributed import Worker

import papilio.tasks.machine
from papilio.errors import DeviceLostError, ExecutionError, LeaseTooLargeError, StoreError
from papilio.tasks.job import LeaseTask
from papilio.tasks.machine import Seat
from papilio.tasks.reports import LeaseResult
from papilio.tasks.run import is_cut, run_lease


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


def _die() -> None:
    """Take the worker process down; Dask replaces none that goes before its nanny has seen it start."""
    time.sleep(1.0)
    os._exit(7)


def kill_worker(task: LeaseTask, seat: Seat) -> None:
    """Take the worker process down."""
    _die()


def kill_first_attempt(task: LeaseTask, seat: Seat) -> tuple[int, int]:
    """Take the worker process down, once, for one of the tasks."""
    if task.start == 0 and task.attempt == 0:
        _die()
    return task.start, task.attempt


POISONED = 7


def raise_at_poisoned_item(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Fail as a kernel with a bug would, whenever one item is among those asked for."""
    if task.start <= POISONED < task.stop:
        raise ValueError(f"bug at item {POISONED}")
    return run_lease(task, seat)


def report_poisoned_item(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Fail as an engine does that knows what is wrong."""
    if task.start <= POISONED < task.stop:
        raise ExecutionError(f"{task}: bug at item {POISONED}")
    return run_lease(task, seat)


def stop_after_some_items(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Answer the first half of a lease, as if it was cut; nothing at every fifth one."""
    if task.sequence % 5 == 0:
        return replace(run_lease(replace(task, stop=task.start + 1), seat), stop=task.start, shard=None)
    return run_lease(replace(task, stop=(task.start + task.stop + 1) // 2), seat)


def process_id() -> int:
    """Return the process that runs this."""
    return os.getpid()


def die_at_poisoned_item(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Take the worker process down whenever one item is among those asked for."""
    if task.start <= POISONED < task.stop:
        _die()
    return run_lease(task, seat)


def refuse_large_leases(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Run out of memory with more than 3 items."""
    if task.stop - task.start > 3:
        raise LeaseTooLargeError("5 items do not fit")
    return run_lease(task, seat)


def refuse_all_leases(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Run out of memory with any item."""
    raise LeaseTooLargeError(f"items [{task.start}, {task.stop}) do not fit")


def lose_device_once(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Lose the GPU at the first attempt of the first lease."""
    if task.start == 0 and task.attempt == 0:
        raise DeviceLostError("a kernel failed")
    return run_lease(task, seat)


ITEM_S = 0.01


def sleep_through(task: LeaseTask, seat: Seat) -> LeaseResult:
    """Take 10 ms for each item, on the worker whose port is even four times that; can be cut after any."""
    pause = ITEM_S * (4 if int(seat.worker.rpartition(":")[2]) % 2 == 0 else 1)
    began, at = time.time(), task.start
    while at < task.stop and not is_cut(task.key):
        time.sleep(pause)
        at += 1
    n, seconds = at - task.start, {"run": time.time() - began}
    return LeaseResult(
        0, task.start, at, n, n, seat.worker, "cpu", seconds, 1, began_at=began, ended_at=time.time()
    )


def die_after_answer(task: LeaseTask, seat: Seat) -> int:
    """Answer, and take the worker process down before the answer can be fetched, or right after."""
    if task.start == 0 and task.sequence == 0:
        threading.Thread(target=os._exit, args=(7,)).start()
    return task.start


def wait_long(task: LeaseTask, seat: Seat) -> None:
    """Run for longer than a test waits."""
    time.sleep(5)


def set_version(version: str, dask_worker: Worker) -> None:
    """Make a worker process say that it has another version of Papilio."""
    vars(papilio.tasks.machine)["__version__"] = version
