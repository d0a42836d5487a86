"""Dynamic scheduling of serial, lock-free kernels over Python threads.

The kernels release the interpreter lock, so plain threads run them at once. Numba's own parallel loops are
not used: their worker pool must not be entered by several threads of one process, which is what the threads
of a Dask worker do.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["available_threads", "cut_by_cost", "run_chunks"]

State = TypeVar("State")

CHUNKS_PER_THREAD = 32
"""Enough that the last chunk to end is a few percent of a thread's share, at some 5 us per chunk."""

SERIAL_COST = 1 << 20
"""Below this many units of work (about a millisecond) threads cost more than they bring."""


def available_threads() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cut_by_cost(costs: NDArray[np.int64], threads: int) -> list[tuple[int, int]]:
    """Cut ``[0, len(costs))`` into consecutive intervals of about equal cost, for ``threads`` threads.

    Parameters
    ----------
    costs : ndarray of int64, shape (n,)
        Non-negative costs; their sum is below 2^63.
    threads : int
        One interval is returned when the work is too small to share.
    """
    if costs.size == 0:
        return []
    ends = np.cumsum(costs)
    total = int(ends[-1])
    n_chunks = 1 if threads == 1 or total < SERIAL_COST else threads * CHUNKS_PER_THREAD
    targets = np.arange(1, n_chunks, dtype=np.int64) * (total // n_chunks)
    inner = np.searchsorted(ends, targets, side="left") + 1
    cuts = np.unique(np.concatenate(([0], np.minimum(inner, costs.size), [costs.size])))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def run_chunks(
    chunks: list[tuple[int, int]],
    make_state: Callable[[], State],
    kernel: Callable[[State, int, int], Any],
    threads: int,
) -> list[State]:
    """Run ``kernel(state, start, stop)`` once for every chunk and return the states that were used.

    Each thread makes one state and takes chunks, first to last, as it comes free. With one thread or one
    chunk everything runs in the caller. An exception in any thread drops the chunks not yet begun and is
    raised here.
    """
    queue = deque(chunks)

    def drain() -> State:
        state = make_state()
        try:
            while True:
                try:
                    start, stop = queue.popleft()
                except IndexError:
                    return state
                kernel(state, start, stop)
        except BaseException:
            queue.clear()
            raise

    n_workers = min(threads, len(chunks))
    if n_workers <= 1:
        return [drain()]
    with ThreadPoolExecutor(n_workers, thread_name_prefix="papilio-cpu") as pool:
        futures = [pool.submit(drain) for _ in range(n_workers)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            queue.clear()
            raise
