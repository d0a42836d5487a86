"""The limit of the wedge engine, measured in the same run as what is compared with it.

A wedge costs at least one id read and one counter advanced. On a GPU that is an id from L2 and a returning
atomic in shared memory (``limits.cu``); on a CPU an id and a counter from the first-level cache, per thread.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["wedge_limit_cpu", "wedge_limit_gpu"]

_COUNTERS = 8192
_REPEATS = 5


def wedge_limit_gpu() -> float:
    """Wedges per second that one GPU can count when nothing but the atomics and the ids bound it."""
    import cupy

    source = (Path(__file__).parent / "limits.cu").read_text(encoding="utf-8")
    kernel = cupy.RawModule(code=source, options=("-std=c++17",)).get_function("wedge_limit")
    n, rounds = 1 << 20, 64
    ids = cupy.asarray(np.random.default_rng(0).integers(0, _COUNTERS, n, dtype=np.int32))
    blocks = 2 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    sums = cupy.zeros(1, dtype=np.uint64)
    best = float("inf")
    for _ in range(_REPEATS):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel(
            (blocks,),
            (1024,),
            (ids, np.int32(n // 4), np.int32(rounds), np.int32(_COUNTERS), sums),
            shared_mem=4 * _COUNTERS,
        )
        end.record()
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(begin, end) * 1e-3)
    return float(n * rounds * blocks / best)


@njit(nogil=True)
def _count(ids: NDArray[np.uint32], counters: NDArray[np.uint32], rounds: int) -> int:
    total = 0
    for _ in range(rounds):
        for i in ids:
            total += counters[i]
            counters[i] += 1
    return total


def wedge_limit_cpu() -> float:
    """Wedges per second that all processors of this process can count from their first-level caches."""
    threads = len(os.sched_getaffinity(0))
    rounds = 4096
    parts = [np.random.default_rng(seed).integers(0, 2048, 4096, dtype=np.uint32) for seed in range(threads)]
    _count(parts[0], np.zeros(2048, np.uint32), 1)
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_REPEATS):
            started = perf_counter()
            list(pool.map(lambda ids: _count(ids, np.zeros(2048, np.uint32), rounds), parts))
            best = min(best, perf_counter() - started)
    return threads * rounds * 4096 / best
