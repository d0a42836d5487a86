"""Kernels hold no interpreter lock: a worker answers and sends heartbeats while one runs for seconds."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import Any

import pytest

from papilio.cluster.executor import Executor
from papilio.cluster.own_cluster import LocalExecutor
from papilio.kernels.device.discovery import missing_for_gpu
from tests.cluster import ticking

HEARTBEAT_S = 1.0
"""Between two heartbeats of a worker, as the scheduler asks of a small cluster."""

RUN_S = 2.0
"""Of a kernel. One that held the lock of the interpreter would delay threads and heartbeats by as long as it runs."""


@pytest.fixture(scope="module")
def one() -> Any:
    with LocalExecutor(1) as executor:
        yield executor


def watch(executor: Any, engine: str, side: int, per: str) -> tuple[float, float, float, float]:
    """Run a kernel as a task of the first worker, and talk to that worker meanwhile; it is compiled before.

    Returns the seconds of the kernel, the longest gap between ticks of a thread beside it, the longest time that
    the event loop of the worker took to answer, and the longest time between two of its heartbeats.
    """
    client, address = executor.client, executor.workers[0].name
    client.submit(ticking.tick_during_run, engine, 400, per, 1e-6, workers=[address]).result()
    future = client.submit(ticking.tick_during_run, engine, side, per, RUN_S, workers=[address])
    slowest, heard = 0.0, set()
    while not future.done():
        asked = time.perf_counter()
        client.run(os.getpid, workers=[address])
        slowest = max(slowest, time.perf_counter() - asked)
        heard.add(client.run_on_scheduler(ticking.last_heartbeats)[address])
        time.sleep(0.02)
    seconds, gap = future.result()
    times = sorted(heard)
    assert len(times) > 2, "no heartbeats"
    return seconds, gap, slowest, max(b - a for a, b in pairwise(times))


def test_a_held_lock_is_noticed(one: Executor) -> None:
    assert one.client.submit(ticking.hold_interpreter, 0.7).result() > 0.6  # type: ignore[attr-defined]


def test_a_long_cpu_kernel_delays_no_thread_and_no_heartbeat(one: Executor) -> None:
    seconds, gap, answer, heartbeat = watch(one, "cpu", 2600, "total")
    assert seconds >= RUN_S
    assert gap < seconds / 2
    assert answer < seconds / 2
    assert heartbeat < HEARTBEAT_S + seconds / 2


@pytest.mark.gpu
@pytest.mark.skipif(missing_for_gpu() is not None, reason=f"no gpu engine: {missing_for_gpu()}")
def test_a_long_gpu_kernel_delays_no_thread_and_no_heartbeat(one: Executor) -> None:
    """A GPU does in half a second what fits its memory: a held lock would show as a gap as long as the run."""
    seconds, gap, answer, heartbeat = watch(one, "gpu", 8000, "edge")
    assert seconds > 0.1
    assert gap < seconds / 2
    assert answer < max(0.5, seconds / 2)
    assert heartbeat < HEARTBEAT_S + max(0.5, seconds / 2)
