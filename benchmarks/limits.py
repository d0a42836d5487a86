"""The limits of the engines, measured in the same run as the results that they are compared with.

A wedge costs at least one id read and one counter advanced. On a GPU that is an id from L2 and a returning
atomic in shared memory (``limits.cu``); on a CPU an id and a counter from the first-level cache, per thread. A set
operation of the bitmap-tree engine costs an AND and a popcount of a word in shared memory.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["popcount_limit_gpu", "wedge_limit_cpu", "wedge_limit_gpu"]

_COUNTERS = 8192
_REPEATS = 5


def wedge_limit_gpu() -> float:
    """Wedges per second that one GPU can count when nothing but the atomics and the ids bound it."""
    import cupy

    n, rounds = 1 << 20, 64
    ids = cupy.asarray(np.random.default_rng(0).integers(0, _COUNTERS, n, dtype=np.int32))
    blocks = 2 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    arguments = (ids, np.int32(n // 4), np.int32(rounds), np.int32(_COUNTERS))
    return n * rounds * blocks / _best_seconds("wedge_limit", blocks, 1024, arguments, 4 * _COUNTERS)


def popcount_limit_gpu() -> float:
    """Words of 32 bits per second that one GPU can intersect and count when nothing else bounds it."""
    import cupy

    n, rounds, threads = 4096, 256, 256
    words = cupy.asarray(np.random.default_rng(0).integers(0, 1 << 32, n, dtype=np.uint32))
    blocks = 8 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    arguments = (words, np.int32(n // 4), np.int32(rounds))
    return n * rounds * threads * blocks / _best_seconds("popcount_limit", blocks, threads, arguments, 4 * n)


def _best_seconds(name: str, blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int) -> float:
    """Return the shortest time of a kernel of ``limits.cu``, whose last argument is a sum."""
    import cupy

    source = (Path(__file__).parent / "limits.cu").read_text(encoding="utf-8")
    kernel = cupy.RawModule(code=source, options=("-std=c++17",)).get_function(name)
    sums = cupy.zeros(1, dtype=np.uint64)
    best = float("inf")
    for _ in range(_REPEATS):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel((blocks,), (threads,), (*arguments, sums), shared_mem=shared_bytes)
        end.record()
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(begin, end) * 1e-3)
    return best


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
