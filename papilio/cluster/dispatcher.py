"""Dispatch tasks to free Dask workers, share the last tasks, and notice lost workers or schedulers.

Each task is bound to one worker, so that none can wait for a worker that never comes. When a worker is idle and no task
is left, the worker with the most remaining work is asked to leave half of it to others. A watch checks the cluster once
a second while nothing finishes, gives the tasks of a lost worker to others, and ends the run when no worker is left.
When the process is asked to end, all running leases are cut, and their results collected.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Generic, Protocol

from distributed import Future
from distributed.client import FutureCancelledError

from papilio.cluster.executor import AnyTask, Result, TaskFunction, TaskSource
from papilio.cluster.on_worker import call_task
from papilio.errors import ClusterError, DeviceLostError, ExecutionError, PapilioError, fault_of
from papilio.signals import requested, waking, wrap_up_s
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.run import leave_half, request_cuts


class Pool(Protocol):
    """What the dispatch needs to know of the workers of a cluster; see :class:`papilio.cluster.pool.DaskPool`."""

    @property
    def client(self) -> Any: ...

    def task_priority(self) -> int: ...

    def live_workers(self) -> dict[str, str]: ...

    def ask_all(
        self, function: Callable[..., Any], *args: Any, addresses: Sequence[str] | None, patience_s: float
    ) -> dict[str, Any]: ...

    def describe(self, addresses: Sequence[str]) -> tuple[WorkerInfo, ...]: ...


WATCH_S = 1.0
"""Time without a result after which the cluster is checked."""

TAIL_WATCH_S = 0.02
"""Time without a result after which idle workers look for work to share."""

COLLECT_S = 5.0
"""How long to wait for the small result of a finished task: a worker that died since will not send it."""

MOST_COLLECTED = 16
"""Results to collect at the same time: each one makes its way from its worker through the scheduler."""

LEAST_RUN_S = 0.05
"""A worker is asked to share only after it has held its task this long and, if it had too little to share, again only
after this time."""

MOST_CUTS = 16
"""Largest number of workers to ask at the same time: handling more shares keeps the client busy, and more workers idle
than it helps. It matters on hundreds of workers."""

CUT_ANSWER_S = 3.0
"""Time limit for a worker to answer a request to share."""

MAX_DECLINED = 16
"""Workers that may decline the remaining work at one result; the next offer starts with the others. Offering it to
thousands of workers at each result would take longer than a lease."""

RANK_S = 3e-5
"""Time per busy worker for which their order by remaining work is used: sorting them takes about a tenth of this."""

OVERRUN_SHARE = 0.25
"""A task that takes longer than predicted is assumed to need this share of its time so far in addition."""

REPLACEMENT_S = 30.0
"""How long a run without any worker waits for one: a nanny restarts a worker in about 3 s."""

MAX_LOSSES = 3
"""Workers, per available worker, that may fail or lose their GPU in a row with nothing finished in between."""

STALL_S = 120.0
"""How long a run may wait for workers that have all paused for lack of memory."""

_LOG = logging.getLogger("papilio")


@dataclass
class _Submitted(Generic[AnyTask]):
    future: Future
    task: AnyTask
    is_finished: bool = False  # its result is on the way


@dataclass
class _Place(Generic[AnyTask]):
    """A worker: its tasks in the order in which it runs them, and when it began the first one."""

    tasks: dict[str, _Submitted[AnyTask]] = field(default_factory=dict)
    began_at: float = 0.0
    is_asked: bool = False  # to leave half of its only task
    asked_at: float = 0.0  # when it last had nothing to leave

    @property
    def holds_suspect(self) -> bool:
        """Whether it holds a task that failed before: a second task would make the cause of a loss ambiguous."""
        return any(each.task.attempt for each in self.tasks.values())

    @property
    def has_failed(self) -> bool:
        """Whether a task ended in an error that is still to be settled; it says why the worker went."""
        return any(each.future.status == "error" for each in self.tasks.values())


@dataclass(frozen=True)
class _Answer(Generic[Result]):
    """The result of a future that has ended, or the error of collecting it."""

    future: Future
    result: Result | None
    error: Exception | None


@dataclass(frozen=True)
class _Left:
    """A worker's answer to a request to leave half of a task: the first item that it leaves, or None."""

    address: str
    key: str
    stop: int | None


class Dispatcher(Generic[AnyTask, Result]):
    """One pass of tasks through a pool; iterate once.

    The function is called on a worker for each task. Workers that join later take tasks too if they are like the given
    workers. One worker holds ``in_flight`` tasks at a time: 2 hide the scheduler's latency.
    """

    def __init__(
        self,
        pool: Pool,
        function: TaskFunction[AnyTask, Result],
        source: TaskSource[AnyTask, Result],
        workers: Sequence[WorkerInfo],
        in_flight: int,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._pool, self._in_flight, self._clock = pool, in_flight, clock
        self._source: TaskSource[AnyTask, Result] = source
        self._function: TaskFunction[AnyTask, Result] = function
        self._places: dict[str, _Place[AnyTask]] = {}
        # The same places by the number of their tasks; at each number, the next to be offered one is first.
        self._by_load: list[OrderedDict[str, _Place[AnyTask]]] = [OrderedDict() for _ in range(in_flight + 1)]
        for worker in workers:
            self._add(worker.name)
        self._n_asked = 0  # places that are asked for half of their task
        # Busy workers and their only tasks, the most remaining work last, until a time.
        self._ranked: list[tuple[str, str]] = []
        self._ranked_until = 0.0
        self._known = set(self._places)
        self._like = workers[0]
        self._most_places = len(self._places)
        self._losses: list[PapilioError] = []
        self._worker_of: dict[str, str] = {}
        self._finished: SimpleQueue[_Answer[Result] | _Left | None] = SimpleQueue()
        self._ends = False
        self._progress_at = self._watched_at = clock()
        self._messenger = ThreadPoolExecutor(MOST_CUTS, thread_name_prefix="papilio-cut")
        self._collector = ThreadPoolExecutor(MOST_COLLECTED, thread_name_prefix="papilio-collect")

    def __iter__(self) -> Iterator[Result]:
        with waking(lambda: self._finished.put(None)):
            yield from self._run()

    def _run(self) -> Iterator[Result]:
        try:
            waiting = self._hand_out()
            while self._worker_of or waiting:
                if requested() and not self._ends:
                    self._end_early()
                try:
                    answer = self._finished.get(timeout=TAIL_WATCH_S if self._by_load[0] else WATCH_S)
                except Empty:
                    if not self._ends and self._clock() - max(self._progress_at, self._watched_at) >= WATCH_S:
                        self._watch()
                    waiting = self._hand_out()
                    continue
                if isinstance(answer, _Left):
                    self._take_left(answer)
                    waiting = self._hand_out()
                    continue
                address = None if answer is None else self._worker_of.get(answer.future.key)
                if (
                    answer is None
                    or address is None
                    or self._places[address].tasks[answer.future.key].future is not answer.future
                ):
                    continue
                result = self._settle(answer, address)
                waiting = self._hand_out()
                if result is not None:
                    yield result
        finally:
            for threads in (self._messenger, self._collector):
                threads.shutdown(wait=False, cancel_futures=True)
            for place in self._places.values():
                for each in place.tasks.values():
                    each.future.cancel()

    def _hand_out(self) -> bool:
        """Give tasks to all workers, evenly; return whether a task is left that no worker can take.

        A worker may decline the remaining work, such as a part that others will finish before it has read it. If all
        decline while no worker is busy, nothing would change that: raises ExecutionError. O(1) in the workers, except
        for tasks that they take.
        """
        if self._ends:
            return False
        declined = False
        for level in range(self._in_flight):
            offered, n_declined = self._by_load[level], 0
            for _ in range(len(offered)):
                if not self._source.has_more or (n_declined >= MAX_DECLINED and self._worker_of):
                    break
                address, place = offered.popitem(last=False)
                task = None if place.holds_suspect else self._source.take(len(self._places), address)
                if task is not None:
                    self._submit(task, address, place)
                else:
                    offered[address] = place
                    n_declined += not place.holds_suspect
            declined |= n_declined > 0
        if declined or not self._source.has_more:
            self._share_tail()
        waiting = not self._worker_of and self._source.has_more
        if waiting and self._places:
            raise ExecutionError(
                f"none of {len(self._places)} idle workers can be given the remaining work; count again, and report "
                f"this as a bug in papilio"
            )
        return waiting

    def _submit(self, task: AnyTask, address: str, place: _Place[AnyTask]) -> None:
        future = self._pool.client.submit(
            call_task,
            self._function,
            task,
            key=task.key,
            workers=[address],
            pure=False,
            priority=self._pool.task_priority(),
        )
        if not place.tasks:
            place.began_at = self._clock()
        place.tasks[task.key] = submitted = _Submitted(future, task)
        self._by_load[len(place.tasks)][address] = place
        self._worker_of[task.key] = address

        def collect_later(ended: Future) -> None:
            submitted.is_finished = ended.status == "finished"
            with suppress(RuntimeError):  # the run is over
                self._collector.submit(self._collect, ended)

        future.add_done_callback(collect_later)

    def _collect(self, future: Future) -> None:
        """Collect a result in another thread: waiting for one after the other would keep many workers idle."""
        result, error = None, None
        try:
            if future.status != "error":
                result = future.result(timeout=COLLECT_S)
        except Exception as caught:
            error = caught
        self._finished.put(_Answer(future, result, error))

    def _settle(self, answer: _Answer[Result], address: str) -> Result | None:
        """Take a finished task from its worker and inform the source; None when it has no result, or not yet."""
        future, result = answer.future, answer.result
        place = self._places[address]
        task = place.tasks[future.key].task
        error = None
        try:
            if answer.error is not None:
                raise answer.error
        except FutureCancelledError as dropped:
            self._pool.live_workers()  # a lost scheduler cancels all tasks: this raises then
            raise ClusterError(
                f"the scheduler dropped {task} of worker {address} ({future.status}); "
                "the worker may have been stopped or restarted, or the task cancelled: count again"
            ) from dropped
        except (TimeoutError, OSError):
            if address in self._pool.live_workers():
                self._collector.submit(self._collect, future)
                return None
        except Exception:
            # It succeeded, and failed only once its result was gone.
            if future.status != "error":
                raise
        if future.status == "error":
            error = self._error_of(future, task, address)
        del self._by_load[len(place.tasks)][address]
        place.tasks.pop(future.key)
        del self._worker_of[future.key]
        self._by_load[len(place.tasks)][address] = place
        self._by_load[len(place.tasks)].move_to_end(address, last=False)
        place.began_at = self._progress_at = self._clock()
        if error is not None and fault_of(error) == "worker":
            self._retire(address, task, error)
        elif error is not None:
            self._source.fail(task, error)
        elif result is not None:
            self._losses.clear()
            self._source.answer(task, result)
        else:
            # It finished, and its worker was lost with the result.
            future.cancel()
            self._source.lose(task, address, was_running=False)
        return result

    def _error_of(self, future: Future, task: AnyTask, address: str) -> PapilioError:
        """Return the error of a task that may be tried again, here or elsewhere; raise any other one."""
        error = future.exception()
        if not isinstance(error, PapilioError):
            return ExecutionError(
                f"worker {address}, {task} failed: {type(error).__name__}: {error}; see the worker's log"
            )
        if fault_of(error) == "run":
            raise error
        return error

    def _retire(self, address: str, task: AnyTask, error: PapilioError) -> None:
        """Stop giving tasks to a failed worker, and put its tasks back.

        A process that lost its GPU ends, and its nanny starts a new worker. The running task may be the cause, as for
        any lost worker; if a worker lacks anything else, no task is to blame. The error is raised when no other worker
        is left or comes, or too many workers failed in a row.
        """
        self._losses.append(error)
        ends = isinstance(error, DeviceLostError)
        if len(self._losses) >= MAX_LOSSES * self._most_places or (not ends and len(self._places) == 1):
            raise error
        self._source.lose(task, address, was_running=ends)
        self._drop(address, n_suspects=0)

    def _share_tail(self) -> None:
        """Ask one busy worker to share per idle one, up to a limit; those with most work left first."""
        most = min(len(self._by_load[0]), MOST_CUTS) - self._n_asked
        if most <= 0:
            return
        if self._clock() >= self._ranked_until:
            self._rank()
        while most > 0 and self._ranked:
            address, key = self._ranked.pop()
            place = self._by_load[1].get(address)
            if place is not None and key in place.tasks and not place.is_asked:
                self._ask_for_half(address)
                most -= 1

    def _rank(self) -> None:
        """Order the workers with one task by their remaining work; O(workers), so not at every result."""
        now, busy = self._clock(), self._by_load[1]
        left = {
            address: self._left_s(address, place)
            for address, place in busy.items()
            if not place.is_asked and now - max(place.began_at, place.asked_at) >= LEAST_RUN_S
        }
        ranked = sorted(left, key=left.__getitem__, reverse=True)
        self._ranked = [(each, next(iter(busy[each].tasks))) for each in reversed(ranked) if left[each] > 0]
        self._ranked_until = now + RANK_S * len(busy)

    def _ask_for_half(self, address: str) -> None:
        place = self._places[address]
        place.is_asked = True
        self._n_asked += 1
        (key,) = place.tasks

        def ask() -> None:
            stop = None
            try:
                answers = self._pool.ask_all(leave_half, key, addresses=[address], patience_s=CUT_ANSWER_S)
                stop = answers.get(address)
            finally:
                self._finished.put(_Left(address, key, stop if isinstance(stop, int) else None))

        self._messenger.submit(ask)

    def _take_left(self, left: _Left) -> None:
        """Take back the items that a worker leaves to others."""
        place = self._places.get(left.address)
        if place is None:
            return
        self._n_asked -= place.is_asked
        place.is_asked, place.asked_at = False, self._clock()
        submitted = place.tasks.get(left.key)
        if submitted is not None and left.stop is not None and self._source.share(submitted.task, left.stop):
            place.asked_at = 0.0

    def _left_s(self, address: str, place: _Place[AnyTask]) -> float:
        """Return the seconds that a worker still needs for its only task; 0 when this is not worth sharing."""
        (submitted,) = place.tasks.values()
        predicted, elapsed = self._source.predict_s(submitted.task, address), self._clock() - place.began_at
        return 0.0 if predicted is None else max(predicted - elapsed, OVERRUN_SHARE * elapsed)

    def _send_cuts(self, addresses: list[str], patience_s: float) -> None:
        """Ask workers to end their leases early; a silent worker is lost, which the watch detects, or only slow."""
        keys = [key for address in addresses for key in self._places[address].tasks]
        self._messenger.submit(self._pool.ask_all, request_cuts, keys, addresses=addresses, patience_s=patience_s)

    def _end_early(self) -> None:
        """Stop dispatching, and ask every worker to end its lease early."""
        self._ends = True
        self._send_cuts([address for address, place in self._places.items() if place.tasks], wrap_up_s())

    def _watch(self) -> None:
        self._watched_at = self._clock()
        live = self._pool.live_workers()
        self._known.intersection_update(live)
        gone = [each for each, place in self._places.items() if each not in live and not place.has_failed]
        for address in gone:
            self._drop(address, n_suspects=1)
        if gone and not self._places:
            _LOG.warning("papilio: no worker is left; waiting %.0f s for another one", REPLACEMENT_S)
        fresh = [address for address in live if address not in self._known]
        for info in self._pool.describe(fresh):
            self._known.add(info.name)
            if self._fits(info):
                self._add(info.name)
        self._most_places = max(self._most_places, len(self._places))
        waited = self._clock() - self._progress_at
        if not self._places and waited > REPLACEMENT_S:
            last = f"; the last one: {self._losses[-1]}" if self._losses else ""
            raise ClusterError(
                f"all workers are gone and none returned within {REPLACEMENT_S:.0f} s; check the workers' logs (out "
                f"of memory?) and restart the cluster{last}"
            )
        paused = self._places and all(live.get(address) == "paused" for address in self._places)
        if paused and waited > STALL_S:
            raise ClusterError(
                f"all {len(self._places)} workers have been paused at their memory limit for {STALL_S:.0f} s; use "
                f"workers with more memory"
            )

    def _add(self, address: str) -> None:
        place: _Place[AnyTask] = _Place()
        self._places[address] = place
        self._by_load[0][address] = place

    def _fits(self, info: WorkerInfo) -> bool:
        return info.version == self._like.version and (info.can_gpu or not self._like.can_gpu)

    def _drop(self, address: str, n_suspects: int) -> None:
        """Forget a worker and put its tasks back; the first ``n_suspects`` without a result were running."""
        place = self._places.pop(address)
        del self._by_load[len(place.tasks)][address]
        self._n_asked -= place.is_asked
        for each in place.tasks.values():
            was_running = n_suspects > 0 and not each.is_finished
            n_suspects -= was_running
            del self._worker_of[each.task.key]
            each.future.cancel()
            self._source.lose(each.task, address, was_running=was_running)
        self._progress_at = self._clock()
