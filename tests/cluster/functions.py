"""Task functions that misbehave on purpose; importable by worker processes."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from distributed import Scheduler, Worker

import papilio
from papilio.errors import StoreError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import EngineName, load_engine
from papilio.motifs import Granularity
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


TICK_S = 0.005


@contextmanager
def largest_gap() -> Iterator[list[float]]:
    """Tick in a thread of this process; afterwards the list holds the longest time between two ticks."""
    gap, ended = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not ended.wait(TICK_S):
            now = time.perf_counter()
            gap[0], last = max(gap[0], now - last), now

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield gap
    finally:
        time.sleep(2 * TICK_S)
        ended.set()
        thread.join()


def hold_interpreter(seconds: float) -> float:
    """Sleep with the interpreter lock held, as a kernel must not; return the longest gap between ticks."""
    with largest_gap() as gap:
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return gap[0]


def tick_during_run(
    engine_name: EngineName, side: int, per: Granularity, wanted_s: float
) -> tuple[float, float]:
    """Count items of a complete graph in one call of the engine that takes about ``wanted_s``.

    Returns its seconds, and the longest gap between ticks of another thread meanwhile.
    """
    ids = np.arange(side, dtype=np.int32)
    graph = BipartiteGraph(side, side, np.repeat(ids, side), np.tile(ids, side))
    engine = load_engine(papilio.Butterfly(), engine_name, 1)
    prepared = engine.prepare(graph, papilio.Butterfly(), per)
    done = np.cumsum(engine.work(prepared))
    engine.run(prepared, 0, 1)
    started = time.perf_counter()
    first = int(np.searchsorted(done, done[-1] // 50))
    engine.run(prepared, 0, first)
    rate = done[first - 1] / (time.perf_counter() - started)
    stop = min(prepared.n_items, int(np.searchsorted(done, rate * wanted_s)) + 1)
    with largest_gap() as gap:
        started = time.perf_counter()
        partial = engine.run(prepared, 0, stop)
        seconds = time.perf_counter() - started
    assert partial.work == done[stop - 1]
    return seconds, gap[0]


def last_heartbeats(dask_scheduler: Scheduler) -> dict[str, float]:
    """Return when each worker was last heard of, seconds since 1970."""
    return {address: worker.last_seen for address, worker in dask_scheduler.workers.items()}
