"""Dynamic scheduling of serial, lock-free kernels over Python threads, and the run of every CPU engine.

The kernels release the interpreter lock, so plain threads run in parallel. Numba's own parallel loops are not used:
several threads of one process must not enter their worker pool, but the threads of a Dask worker would.
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError, InputError
from papilio.graph import RowColumn
from papilio.kernels.announce import say_passed
from papilio.kernels.engine import (
    Engine,
    EngineName,
    Partial,
    StopCheck,
    never_cut,
    require_interval,
    shared_cut,
)
from papilio.kernels.jit import make_ready
from papilio.motifs import Listing

State = TypeVar("State")

CHUNKS_PER_THREAD = 32
"""Enough that the last chunk to end takes a few percent of a thread's share."""

THREADS_PER_SERIAL_COST = 16
"""A chunk costs at least the serial cost times the threads over this: it begins with 0.1 ms under the interpreter lock,
for which the others wait. A host of 16 processors, 16 threads, runs in ms, with 32 chunks for each thread and now:
movielens-100k, butterflies, 91 and 11; movielens-1m 127 and 69; facebook_combined, 5-cliques, 172 and 40; ca-AstroPh,
maximal cliques, 167 and 63; marvel, maximal bicliques, 199 and 61. With two threads they take as long as before."""

MOST_CHUNKS = 1 << 12
"""Maximum chunks that a run gets for its cost alone, so that even a long run ends soon after a cut."""

SERIAL_COST = 1 << 20
"""Below this many wedges (about a millisecond) threads cost more than they save."""


def available_threads() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_threads(threads: int | None) -> int:
    """Return ``threads``, or the processors available to this process if None; prepare compiled functions."""
    make_ready()
    if threads is None:
        return available_threads()
    if threads < 1:
        raise InputError(f"threads is {threads}; expected at least 1")
    return threads


def cut_by_cost(
    costs: NDArray[np.int64], threads: int, n_slices: int = 1, serial_cost: int | None = None
) -> list[tuple[int, int]]:
    """Cut ``[0, len(costs))`` into consecutive intervals of about equal cost, for ``threads`` threads.

    Costs are not negative, and their sum is below 2^63. Each of ``n_slices`` slices of a run gets at least one chunk
    per thread; as costs may be far from the truth, there are up to MOST_CHUNKS chunks of ``serial_cost`` each. Below a
    total of ``serial_cost`` (by default, :data:`SERIAL_COST`) there is one interval. More chunks than that are
    made only if they cost enough, see :data:`THREADS_PER_SERIAL_COST`.
    """
    if costs.size == 0:
        return []
    ends = np.cumsum(costs)
    total = int(ends[-1])
    min_shared = SERIAL_COST if serial_cost is None else serial_cost
    per_thread = n_slices if threads == 1 else max(CHUNKS_PER_THREAD, n_slices)
    n_chunks = 1
    if total >= min_shared:
        least = max(min_shared * threads // THREADS_PER_SERIAL_COST, 1)
        by_cost = min(total // max(min_shared, least), MOST_CHUNKS)
        n_chunks = max(threads * n_slices, min(threads * per_thread, total // least), by_cost)
    targets = np.arange(1, n_chunks, dtype=np.int64) * (total // n_chunks)
    inner = np.searchsorted(ends, targets, side="left") + 1
    cuts = np.unique(np.concatenate(([0], np.minimum(inner, costs.size), [costs.size])))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def items_in(chunks: Sequence[tuple[int, int]], n_chunks: int) -> int:
    """Return the number of items in the first ``n_chunks`` chunks, which begin at 0."""
    return chunks[n_chunks - 1][1] if n_chunks else 0


class ChunkRunner(Generic[State]):
    """Pool of threads that take chunks in order as they become free. Each thread has its own state.

    Later calls of :meth:`run` reuse the states. With one thread, or one chunk, everything runs in the caller.
    ``failed`` means that a thread raised, or that the caller was interrupted; long kernels may then stop early.
    """

    def __init__(self, make_state: Callable[[], State], threads: int) -> None:
        self.states: list[State] = []
        self.failed = False
        self._make_state, self._threads = make_state, threads
        self._idle: deque[State] = deque()
        self._sharing = threading.Lock()

    def run(
        self,
        chunks: Sequence[tuple[int, int]],
        kernel: Callable[[State, int, int], Any],
        cut: StopCheck = never_cut,
        item_of: Callable[[int], int] = int,
        *,
        tells: bool = False,
    ) -> int:
        """Run ``kernel(state, start, stop)`` once for every chunk and return the number of chunks run.

        These are the first chunks: all, unless ``cut`` returned true or another worker took half of the waiting chunks.
        ``item_of`` maps the start of a chunk to the item at which a shared run ends. An exception in any thread
        discards the chunks that have not begun and is raised here. ``tells`` marks the chunks, which cost about the
        same, as the run of an engine, whose progress is recorded.
        """
        queue = deque(chunks)
        finished: list[None] = []

        def share() -> None:
            with self._sharing:
                shared, left = shared_cut(cut), len(queue)
                if shared is None or not shared.is_worth(len(chunks) - left, left):
                    return
                begin = None
                for _ in range((left + 1) // 2):
                    try:
                        begin, _ = queue.pop()
                    except IndexError:
                        break
                shared.leave(None if begin is None else item_of(begin))

        def drain() -> int:
            state = self._take_state()
            done = 0
            try:
                while not cut():
                    share()
                    try:
                        start, stop = queue.popleft()
                    except IndexError:
                        break
                    kernel(state, start, stop)
                    done += 1
                    if tells:
                        finished.append(None)
                        say_passed(share=len(finished) / len(chunks))
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


RowSink = Callable[..., None]
"""Takes rows, one motif each, as a :data:`~papilio.graph.RowColumn` per column of the listing: positions in
``prepared.ids_<layer>``, ascending in each row. Called by any thread; the arrays are reused after the call. ``part``
may number the file that the rows go to, from 0, so that the file does not depend on which thread is first."""


def drop_rows(*columns: RowColumn, part: int | None = None) -> None:
    """Discard rows, for runs that only count them."""


class Outlet:
    """Collects the rows of the threads of one run. It passes on at most ``limit`` rows, and then is full."""

    def __init__(self, sink: RowSink, limit: int | None) -> None:
        self.rows, self.full = 0, False
        self._sink, self._limit = sink, limit
        self._lock = threading.Lock()

    def take(self, *columns: RowColumn, part: int | None = None) -> None:
        """Pass rows on, up to the limit; ``part`` is as for a :data:`RowSink`."""
        first = columns[0]
        n = len(first[0]) - 1 if isinstance(first, tuple) else len(first)
        with self._lock:
            if self._limit is not None:
                n = min(n, self._limit - self.rows)
            self.rows += n
            self.full = self.rows == self._limit
        if n:
            given = {} if part is None else {"part": part}
            self._sink(*(_first_rows(column, n) for column in columns), **given)

    def answer(self, n_items: int, partial: Partial) -> Partial:
        """Return the partial of a listing of ``n_items`` items, whose search returned ``partial``.

        A capped partial has as many rows as the limit, and covers all items of the run, which may have more rows.
        """
        work = self.rows + partial.work
        if self.full:
            return Partial(n_items, self.rows, work, capped=True)
        return Partial(partial.n_items, self.rows, work, checksum=partial.checksum % (1 << 64))


def _first_rows(column: RowColumn, n: int) -> RowColumn:
    if isinstance(column, tuple):
        offsets, values = column
        return offsets[: n + 1], values[: offsets[n]]
    return column[:n]


class CpuEngine(Engine):
    """Base of the CPU engines; ``threads`` defaults to the number of processors available to this process.

    The engines hold no graph, and may be shared between threads.
    """

    name: EngineName = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = choose_threads(threads)


class SearchEngine(CpuEngine):
    """Base of the CPU engines whose threads search. With a ``listing`` they also pass on the motifs as rows.

    The state of a thread points to an item. A search ends at the end of a chunk or when a block of rows is full.
    """

    serial_cost: int | None = None
    """Below this cost one thread works alone; see :func:`cut_by_cost`."""
    listing: Listing | None = None

    def run(
        self,
        prepared: Any,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
        sink: RowSink = drop_rows,
    ) -> Partial:
        """Count, or list, exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``sink`` gets every row of a listing once, in blocks, from any thread; an exception that it raises ends the run.
        Raises ExecutionError if the numbers of listed rows and counted motifs differ.
        """
        require_interval(start, stop, prepared.n_items)
        outlet = Outlet(sink, None if self.listing is None else self.listing.limit)

        def search(state: Any, begin: int, end: int) -> None:
            self._begin(state, begin)
            while not (outlet.full or runner.failed) and not self._search(prepared, state, end):
                self._pass_on(prepared, state, outlet)

        runner = ChunkRunner(lambda: self._make_state(prepared), self.threads)
        span, n_slices = (start, stop), len(bounds) + 1
        # Listings are not shared with other workers: a listing that reaches its limit answers for all items.
        check = cut if self.listing is None else lambda: outlet.full or cut()
        end = self._run_chunks(prepared, runner, span, n_slices, search, check)
        partial = self._fold(prepared, (start, end), runner.states)
        if self.listing is None:
            return partial
        for state in runner.states:
            self._pass_on(prepared, state, outlet)
        for block in self._closed_rows(prepared) if start == 0 < end else ():
            if not outlet.full:
                outlet.take(*block)
        if not outlet.full and outlet.rows != partial.total:
            raise ExecutionError(
                f"the search listed {outlet.rows} rows of items [{start}, {end}) but counted {partial.total}"
            )
        return outlet.answer(stop - start, partial)

    def _run_chunks(
        self,
        prepared: Any,
        runner: ChunkRunner[Any],
        span: tuple[int, int],
        n_slices: int,
        search: Callable[[Any, int, int], None],
        cut: StopCheck,
    ) -> int:
        """Search the items ``span``, or the first of them if cut. Return the end of the searched items."""
        start, stop = span
        chunks = cut_by_cost(prepared.work[start:stop], self.threads, n_slices, self.serial_cost)
        return start + items_in(
            chunks, runner.run([(start + a, start + b) for a, b in chunks], search, cut, tells=True)
        )

    @abstractmethod
    def _make_state(self, prepared: Any) -> Any:
        """Return the state of one thread."""

    @abstractmethod
    def _begin(self, state: Any, item: int) -> None:
        """Put a state at the first item of a chunk."""

    @abstractmethod
    def _search(self, prepared: Any, state: Any, end: int) -> bool:
        """Continue the search. Return True if the items below ``end`` are done, False if the block is full."""

    @abstractmethod
    def _fold(self, prepared: Any, span: tuple[int, int], states: Sequence[Any]) -> Partial:
        """Return the result for the items ``span``: the counts of the states, and motifs that need no search."""

    def _pass_on(self, prepared: Any, state: Any, outlet: Outlet) -> None:
        """Pass the rows of a state's block on to the outlet and empty the block."""

    def _closed_rows(self, prepared: Any) -> Iterable[Sequence[RowColumn]]:
        """Yield blocks of the rows that need no search; they belong to the first item."""
        return ()
