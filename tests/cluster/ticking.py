"""How long other threads of a process wait while a kernel runs; importable by worker processes."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from distributed import Scheduler

import papilio
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.motifs import Granularity
from papilio.registry import load_engine

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


def tick_during_run(engine_name: EngineName, side: int, per: Granularity, least_s: float) -> tuple[float, float]:
    """Count items of a complete graph in one call of the engine, as many as take ``least_s``, or all.

    Returns the seconds of the call, and the longest gap between ticks of another thread meanwhile.
    """
    ids = np.arange(side, dtype=np.int32)
    graph = BipartiteGraph(side, side, np.repeat(ids, side), np.tile(ids, side))
    engine = load_engine(papilio.Butterfly(), engine_name, 1)
    prepared = engine.prepare(graph, papilio.Butterfly(), per)
    done = np.cumsum(engine.work(prepared))
    engine.run(prepared, 0, 1)
    wanted, seconds, stop = done[-1] // 20, 0.0, 0
    while seconds < least_s and stop < prepared.n_items:
        stop = min(prepared.n_items, int(np.searchsorted(done, wanted)) + 1)
        with largest_gap() as gap:
            started = time.perf_counter()
            partial = engine.run(prepared, 0, stop)
            seconds = time.perf_counter() - started
        assert partial.work == done[stop - 1]
        wanted = done[stop - 1] * max(1.2, 1.2 * least_s / seconds)
    return seconds, gap[0]


def last_heartbeats(dask_scheduler: Scheduler) -> dict[str, float]:
    """Return when each worker was last heard of, seconds since 1970."""
    return {address: worker.last_seen for address, worker in dask_scheduler.workers.items()}
