"""Task functions that misbehave on purpose; importable by worker processes."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

from distributed import Worker

import papilio.tasks.machine
from papilio.errors import DeviceLostError, ExecutionError, LeaseTooLargeError, StoreError
from papilio.tasks.job import LeaseResult, LeaseTask
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.run import is_cut, run_lease


def report_interval(task: LeaseTask, worker: WorkerInfo) -> tuple[int, int, str, int]:
    """Return what the task was called with."""
    return task.start, task.stop, worker.name, worker.threads


def shift_interval(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Answer other items than those asked for."""
    result = run_lease(task, worker)
    return replace(result, start=result.start + 1)


def repeat_interval(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Answer the first items, whatever is asked."""
    return replace(run_lease(task, worker), start=0)


def raise_value_error(task: LeaseTask, worker: WorkerInfo) -> None:
    """Fail as a bug would."""
    raise ValueError(f"bug at {task.start}")


def raise_store_error(task: LeaseTask, worker: WorkerInfo) -> None:
    """Fail as Papilio does."""
    raise StoreError("row group 3 is gone")


def raise_memory_error(task: LeaseTask, worker: WorkerInfo) -> None:
    """Run out of memory."""
    raise MemoryError("no 8 EiB")


def _die() -> None:
    """Take the worker process down; Dask replaces none that goes before its nanny has seen it start."""
    time.sleep(1.0)
    os._exit(7)


def kill_worker(task: LeaseTask, worker: WorkerInfo) -> None:
    """Take the worker process down."""
    _die()


def kill_first_attempt(task: LeaseTask, worker: WorkerInfo) -> tuple[int, int]:
    """Take the worker process down, once, for one of the tasks."""
    if task.start == 0 and task.attempt == 0:
        _die()
    return task.start, task.attempt


POISONED = 7


def raise_at_poisoned_item(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Fail as a kernel with a bug would, whenever one item is among those asked for."""
    if task.start <= POISONED < task.stop:
        raise ValueError(f"bug at item {POISONED}")
    return run_lease(task, worker)


def report_poisoned_item(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Fail as an engine does that knows what is wrong."""
    if task.start <= POISONED < task.stop:
        raise ExecutionError(f"{task}: bug at item {POISONED}")
    return run_lease(task, worker)


def stop_after_some_items(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Answer the first half of a lease, as if it was cut; nothing at every fifth one."""
    if task.sequence % 5 == 0:
        return replace(run_lease(replace(task, stop=task.start + 1), worker), stop=task.start, shard=None)
    return run_lease(replace(task, stop=(task.start + task.stop + 1) // 2), worker)


def process_id() -> int:
    """Return the process that runs this."""
    return os.getpid()


def die_at_poisoned_item(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Take the worker process down whenever one item is among those asked for."""
    if task.start <= POISONED < task.stop:
        _die()
    return run_lease(task, worker)


def refuse_large_leases(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Run out of memory with more than 3 items."""
    if task.stop - task.start > 3:
        raise LeaseTooLargeError("5 items do not fit")
    return run_lease(task, worker)


def refuse_all_leases(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Run out of memory with any item."""
    raise LeaseTooLargeError(f"items [{task.start}, {task.stop}) do not fit")


def lose_device_once(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Lose the GPU at the first attempt of the first lease."""
    if task.start == 0 and task.attempt == 0:
        raise DeviceLostError("a kernel failed")
    return run_lease(task, worker)


ITEM_S = 0.01


def sleep_through(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    """Take 10 ms for each item, on the worker whose port is even four times that; can be cut after any."""
    pause = ITEM_S * (4 if int(worker.name.rpartition(":")[2]) % 2 == 0 else 1)
    began, at = time.time(), task.start
    while at < task.stop and not is_cut(task.key):
        time.sleep(pause)
        at += 1
    n, seconds = at - task.start, {"run": time.time() - began}
    return LeaseResult(0, task.start, at, n, n, worker.name, "cpu", seconds, 1, began_at=began, ended_at=time.time())


def die_after_answer(task: LeaseTask, worker: WorkerInfo) -> int:
    """Answer, and take the worker process down before the answer can be fetched, or right after."""
    if task.start == 0 and task.sequence == 0:
        threading.Thread(target=os._exit, args=(7,)).start()
    return task.start


def wait_long(task: LeaseTask, worker: WorkerInfo) -> None:
    """Run for longer than a test waits."""
    time.sleep(5)


def set_version(version: str, dask_worker: Worker) -> None:
    """Make a worker process say that it has another version of Papilio."""
    vars(papilio.tasks.machine)["__version__"] = version


def wait_for_file(path: str) -> None:
    """Keep a worker busy until a file appears."""
    while not os.path.exists(path):
        time.sleep(0.01)
