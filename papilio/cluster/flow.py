"""Hand tasks to Dask workers as these come free, and notice when a worker or the scheduler goes away.

Each task is bound to one worker, so that none can wait for a worker that never comes: a watch looks at the
cluster once a second while nothing finishes, gives the tasks of a lost worker to the others, and ends the run
when no worker is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Generic, Protocol

from distributed import Future

from papilio.cluster.executor import AnyTask, Result, TaskFunction
from papilio.cluster.remote import call_task
from papilio.errors import ClusterError, ExecutionError, PapilioError
from papilio.tasks.worker import WorkerInfo

__all__ = ["TaskFlow"]

WATCH_S = 1.0
"""Time without a result after which the cluster is looked at."""

REPLACEMENT_S = 30.0
"""How long a run without any worker waits for one: a nanny restarts a worker in about 3 s."""

STALL_S = 120.0
"""How long a run may wait for workers that have all paused for lack of memory."""

MAX_ATTEMPTS = 3
"""Workers that one task may lose before the task is held to be the cause."""


class Pool(Protocol):
    """What the flow needs of a cluster; see :class:`papilio.cluster.pool.DaskPool`."""

    @property
    def client(self) -> Any:
        """The Dask client."""
        ...

    def live_workers(self) -> dict[str, str]:
        """Status of every worker that the scheduler knows, by address."""
        ...

    def describe(self, addresses: Sequence[str]) -> tuple[WorkerInfo, ...]:
        """Descriptions of workers; those that cannot answer are left out."""
        ...


class TaskFlow(Generic[AnyTask, Result]):
    """One pass of tasks through a pool; iterate once.

    Parameters
    ----------
    pool : Pool
    function : callable
        Called on the worker for each task.
    tasks : sequence of tasks
        Handed out in this order.
    workers : sequence of WorkerInfo
        Those that take tasks; workers that join later and are like them take tasks too.
    in_flight : int
        Tasks that one worker holds at a time: 2 hide the scheduler's latency.
    """

    def __init__(
        self,
        pool: Pool,
        function: TaskFunction[AnyTask, Result],
        tasks: Sequence[AnyTask],
        workers: Sequence[WorkerInfo],
        in_flight: int,
    ) -> None:
        self._pool, self._in_flight = pool, in_flight
        self._function: TaskFunction[AnyTask, Result] = function
        self._pending: deque[AnyTask] = deque(tasks)
        self._workers = [worker.name for worker in workers]
        self._known = {worker.name for worker in workers}
        self._like = workers[0]
        self._running: dict[str, tuple[Future, AnyTask, str]] = {}
        self._finished: SimpleQueue[Future] = SimpleQueue()
        self._progress_at = monotonic()

    def __iter__(self) -> Iterator[Result]:
        try:
            self._hand_out()
            while self._running or self._pending:
                try:
                    future = self._finished.get(timeout=WATCH_S)
                except Empty:
                    self._watch()
                    continue
                entry = self._running.get(future.key)
                if entry is None or entry[0] is not future:
                    continue
                del self._running[future.key]
                result = self._result_of(future, entry[1], entry[2])
                self._progress_at = monotonic()
                self._hand_out()
                yield result
        finally:
            for future, _, _ in self._running.values():
                future.cancel()

    def _hand_out(self) -> None:
        held = dict.fromkeys(self._workers, 0)
        for _, _, address in self._running.values():
            held[address] += 1
        for level in range(self._in_flight):
            for address in self._workers:
                if self._pending and held[address] <= level:
                    self._submit(self._pending.popleft(), address)
                    held[address] += 1

    def _submit(self, task: AnyTask, address: str) -> None:
        future = self._pool.client.submit(
            call_task, self._function, task, key=task.key, workers=[address], pure=False
        )
        self._running[task.key] = (future, task, address)
        future.add_done_callback(self._finished.put)

    def _result_of(self, future: Future, task: AnyTask, address: str) -> Result:
        if future.status == "finished":
            result: Result = future.result()
            return result
        if future.status != "error":
            raise ClusterError(
                f"the scheduler dropped {task} of worker {address} ({future.status}); "
                "was it stopped, restarted, or the task cancelled? count again"
            )
        error = future.exception()
        if isinstance(error, PapilioError):
            raise error
        raise ExecutionError(
            f"worker {address}, {task} failed: {type(error).__name__}: {error}; see the worker's log"
        ) from error

    def _watch(self) -> None:
        live = self._pool.live_workers()
        for address in [each for each in self._workers if each not in live]:
            self._drop(address)
        fresh = [address for address in live if address not in self._known]
        if fresh:
            self._known.update(fresh)
            self._workers += [info.name for info in self._pool.describe(fresh) if self._fits(info)]
        self._hand_out()
        waited = monotonic() - self._progress_at
        if not self._workers and waited > REPLACEMENT_S:
            raise ClusterError(
                f"all workers are gone and none came back within {REPLACEMENT_S:.0f} s; "
                "see the workers' logs (memory?) and start the cluster again"
            )
        paused = self._workers and all(live[address] == "paused" for address in self._workers)
        if paused and waited > STALL_S:
            raise ClusterError(
                f"all {len(self._workers)} workers are paused by their memory limit for {STALL_S:.0f} s; "
                "give them more memory"
            )

    def _fits(self, info: WorkerInfo) -> bool:
        return info.version == self._like.version and (info.can_gpu or not self._like.can_gpu)

    def _drop(self, address: str) -> None:
        """Forget a lost worker and put its tasks first in line again, under new keys."""
        self._workers.remove(address)
        lost = [entry for entry in self._running.values() if entry[2] == address]
        for future, task, _ in lost:
            del self._running[task.key]
            future.cancel()
            if task.attempt + 1 >= MAX_ATTEMPTS:
                raise ClusterError(
                    f"{task} took {MAX_ATTEMPTS} workers down, the last one {address}; "
                    "see that worker's log: it most likely ran out of memory"
                )
            self._pending.appendleft(replace(task, attempt=task.attempt + 1))
        self._progress_at = monotonic()
