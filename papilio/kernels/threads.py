"""Dynamic scheduling of serial, lock-free kernels over Python threads.

The kernels release the interpreter lock, so plain threads run them at once. Numba's own parallel loops are
not used: their worker pool must not be entered by several threads of one process, which is what the threads
of a Dask worker do.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.kernels.engine import Cut, EngineName, Loadable, never_cut, require_interval

State = TypeVar("State")

CHUNKS_PER_THREAD = 32
"""Enough that the last chunk to end is a few percent of a thread's share, at some 5 us per chunk."""

SERIAL_COST = 1 << 20
"""Below this many wedges (about a millisecond) threads cost more than they bring."""


def available_threads() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_threads(threads: int | None) -> int:
    """Return the threads asked for, or, for None, those that this process may use.

    Raises
    ------
    InputError
        For a number below 1.
    """
    if threads is None:
        return available_threads()
    if threads < 1:
        raise InputError(f"threads is {threads}; at least 1 is needed")
    return threads


def cut_by_cost(
    costs: NDArray[np.int64], threads: int, n_slices: int = 1, serial_cost: int | None = None
) -> list[tuple[int, int]]:
    """Cut ``[0, len(costs))`` into consecutive intervals of about equal cost, for ``threads`` threads.

    Costs are not negative, and their sum is below 2^63. Each of ``n_slices`` slices of a run is worth a chunk for every
    thread at least. Below ``serial_cost`` in all (by default that of wedges) there is one interval.
    """
    if costs.size == 0:
        return []
    ends = np.cumsum(costs)
    total = int(ends[-1])
    least_shared = SERIAL_COST if serial_cost is None else serial_cost
    per_thread = n_slices if threads == 1 else max(CHUNKS_PER_THREAD, n_slices)
    n_chunks = 1 if total < least_shared else threads * per_thread
    targets = np.arange(1, n_chunks, dtype=np.int64) * (total // n_chunks)
    inner = np.searchsorted(ends, targets, side="left") + 1
    cuts = np.unique(np.concatenate(([0], np.minimum(inner, costs.size), [costs.size])))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def items_in(chunks: Sequence[tuple[int, int]], n_chunks: int) -> int:
    """Return the number of items in the first ``n_chunks`` chunks, which begin at 0."""
    return chunks[n_chunks - 1][1] if n_chunks else 0


class ChunkRunner(Generic[State]):
    """Threads that take chunks, first to last, as they come free; each with a state of its own.

    States are used again by later calls of :meth:`run`. With one thread, or one chunk, everything runs in the caller.
    ``failed``: a thread raised, or the caller was interrupted; a kernel that takes long may end at once then.
    """

    def __init__(self, make_state: Callable[[], State], threads: int) -> None:
        self.states: list[State] = []
        self.failed = False
        self._make_state, self._threads = make_state, threads
        self._idle: deque[State] = deque()

    def run(
        self,
        chunks: Sequence[tuple[int, int]],
        kernel: Callable[[State, int, int], Any],
        cut: Cut = never_cut,
    ) -> int:
        """Run ``kernel(state, start, stop)`` once for every chunk and return how many of them were run.

        Those are the first ones: all, unless ``cut`` became true. An exception in any thread drops the chunks
        not yet begun and is raised here.
        """
        queue = deque(chunks)

        def drain() -> int:
            state = self._take_state()
            done = 0
            try:
                while not cut():
                    try:
                        start, stop = queue.popleft()
                    except IndexError:
                        break
                    kernel(state, start, stop)
                    done += 1
                return done
            except BaseException:
                self.failed = True
                queue.clear()
                raise
            finally:
                self._idle.append(state)

        n_threads = min(self._threads, len(chunks))
        if n_threads <= 1:
            return drain()
        with ThreadPoolExecutor(n_threads, thread_name_prefix="papilio-cpu") as pool:
            futures = [pool.submit(drain) for _ in range(n_threads)]
            try:
                return sum(future.result() for future in futures)
            except BaseException:
                self.failed = True
                queue.clear()
                raise

    def _take_state(self) -> State:
        try:
            return self._idle.popleft()
        except IndexError:
            state = self._make_state()
            self.states.append(state)
            return state


class CpuEngine:
    """Base of the engines on CPUs; ``threads`` of one run are by default the processors that this process may use."""

    name: EngineName = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = choose_threads(threads)

    def stage(self, block: Loadable) -> Loadable:
        return block

    def slice_work(self, prepared: Any) -> int:
        return 1

    def _run_items(
        self,
        costs: NDArray[np.int64],
        span: tuple[int, int],
        n_slices: int,
        cut: Cut,
        make_state: Callable[[], State],
        count: Callable[[State, int, int], Any],
        serial_cost: int,
    ) -> tuple[int, list[State]]:
        """Count the items ``span``, or the first of them if cut; return how many, and the states of the threads."""
        start, stop = span
        require_interval(start, stop, costs.size)
        chunks = cut_by_cost(costs[start:stop], self.threads, n_slices, serial_cost)
        runner = ChunkRunner(make_state, self.threads)
        done = runner.run([(start + a, start + b) for a, b in chunks], count, cut)
        return items_in(chunks, done), runner.states
