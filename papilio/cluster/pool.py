"""Base of the Dask executors: a client, the descriptions of its workers, and the dispatch of tasks."""

from __future__ import annotations

import logging
import os
import signal
from abc import abstractmethod
from asyncio import AbstractEventLoop, CancelledError, run_coroutine_threadsafe
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep
from typing import Any, Self

from distributed import Client, Nanny

from papilio.cluster.dispatcher import WATCH_S, Dispatcher
from papilio.cluster.executor import AnyTask, Executor, Result, TaskFunction, TaskSource, check_versions
from papilio.cluster.on_worker import (
    COMPILING_TOPIC,
    describe_dask_worker,
    find_store_problem,
    forward_compiling,
    name_process,
)
from papilio.cluster.silence import Silences, read_seconds, waiting_named
from papilio.errors import ClusterError, InputError, PapilioError, StoreError
from papilio.kernels.announce import say_compiling
from papilio.settings import JOIN_SECONDS
from papilio.storage.reading import is_cached
from papilio.system_errors import explain
from papilio.tasks.job import JobSpec
from papilio.tasks.machine import WorkerInfo, read_worker
from papilio.tasks.run import work_underway


@contextmanager
def quiet_dask() -> Iterator[None]:
    """Silence the loggers of Dask in this process until the block ends."""
    names = ["distributed", *(n for n in logging.root.manager.loggerDict if n.startswith("distributed."))]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def open_client(stack: ExitStack, target: Any, **options: Any) -> Client:
    """Return a client that ``stack`` closes, of an address or a cluster; what it leaves behind is silent.

    Connections that time out while it closes keep errors that nobody waits for; asyncio would print them whenever
    they are collected, even after the answer.
    """
    client = stack.enter_context(Client(target, set_as_default=False, **options))
    client.loop.asyncio_loop.set_exception_handler(_report_to_asyncio)
    return client


def _report_to_asyncio(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle an error that no code of an event loop handles; one of the network is dropped."""
    if not isinstance(context.get("exception"), OSError | CancelledError):
        loop.default_exception_handler(context)


def kill_workers(cluster: Any) -> None:
    """Kill a cluster's worker processes on this machine, so that closing it does not wait for them.

    A worker that is asked to end first finishes its task, which may take longer than a user waits after Ctrl-C. Only
    workers with nannies are killed; the nannies reap them and start no others.
    """
    for nanny in tuple(cluster.workers.values()):
        if isinstance(nanny, Nanny):
            nanny.close_gracefully()
            with suppress(OSError):
                if nanny.pid:
                    os.kill(nanny.pid, signal.SIGKILL)


JOIN_S = 60.0
"""How long to wait for each further worker; starting many processes takes some 20 s on a slow disk, and minutes on a
file system that many nodes share."""


def join_seconds() -> float:
    """Return how long to wait for each further worker; InputError if the environment sets no such time."""
    return read_seconds(JOIN_SECONDS, JOIN_S)


UNDERWAY_S = 1.0
"""Time limit for all workers to report the progress of their leases."""

_POLL_S = 0.05
"""Polling interval while workers join."""

ANSWER_S = 5.0
"""Time limit for an answer that takes a worker milliseconds."""


class DaskPool(Executor):
    """Base of the executors that run on Dask; a subclass connects in :meth:`_connect`.

    Once started, it has at least ``n_workers`` workers. Set ``inside_worker`` if this process is a worker of the
    cluster, whose own messages must not be silenced. ``interrupt`` is called about once a second while leases run and
    none finishes; its exceptions end the run.
    """

    name: str
    in_process = False
    workers: tuple[WorkerInfo, ...] = ()  # as found at the start or the last refresh
    remedy = (
        "a worker that ends at once may have run out of memory; check memory (free), processes (ulimit -u), open files "
        "(ulimit -n) and the directory of temporary files (df, TMPDIR), run papilio doctor, or use --cluster inline"
    )
    """Advice for a cluster that does not start."""

    def __init__(self, n_workers: int, *, inside_worker: bool = False) -> None:
        if n_workers < 1:
            raise InputError(f"workers is {n_workers}; the minimum is 1")
        self.interrupt: Callable[[], None] = lambda: None
        self._inside_worker = inside_worker
        self._n_workers = n_workers
        self._stack = ExitStack()
        self._client: Any = None
        self._silences = Silences()

    @abstractmethod
    def _connect(self, stack: ExitStack) -> Any:
        """Return a connected client; ``stack`` closes it and its cluster with the executor."""

    @property
    def client(self) -> Any:
        if self._client is None:
            raise ClusterError(f"the {self.name} cluster is not started; use it in a with block")
        return self._client

    def refresh(self) -> None:
        """Describe the workers anew if they changed; ClusterError if all have gone, or one cannot run Papilio."""
        self._wait_for_workers(1)
        if set(self.live_workers()) != {worker.name for worker in self.workers}:
            self.workers = self._describe_all(1)

    def __enter__(self) -> Self:
        with start_errors_named(self.name, self.remedy), ExitStack() as stack:
            if not self._inside_worker:
                stack.enter_context(quiet_dask())
            self._client = self._connect(stack)
            self._wait_for_workers(self._n_workers)
            self.workers = self._describe_all(self._n_workers)
            self._hear_compiling()
            self._stack = stack.pop_all()
        return self

    def close(self) -> None:
        """Stop the cluster, or disconnect; safe to call twice."""
        self._client = None
        self._stack.close()

    def _hear_compiling(self) -> None:
        """Announce here when workers compile; those that join later are silent."""
        self._client.subscribe_topic(COMPILING_TOPIC, lambda event: say_compiling())
        self.ask_all(forward_compiling, name_process(), addresses=None, patience_s=ANSWER_S)

    def _wait_for_workers(self, n_workers: int) -> None:
        """Wait until ``n_workers`` run; ClusterError if no other worker joins within :func:`join_seconds`.

        Dask's own wait makes a cluster in this process forget a lost worker before its loss is reported; the cluster
        then fails at the report, and when it is closed.
        """
        joined, patience_s, began = 0, join_seconds(), monotonic()
        deadline = began + patience_s
        while list((live := self.live_workers()).values()).count("running") < n_workers:
            now = monotonic()
            if len(live) > joined:
                joined, deadline = len(live), now + patience_s
            elif now > deadline:
                raise ClusterError(
                    f"{joined} of {n_workers} workers joined the {self.name} cluster in {now - began:.0f} s, none in "
                    f"the last {patience_s:g} s (the limit, which {JOIN_SECONDS.name} sets); start workers, or request "
                    f"fewer"
                )
            sleep(_POLL_S)

    def task_priority(self) -> int:
        """Return the priority in Dask of a lease that is dispatched now; larger goes first."""
        return 0

    def live_workers(self) -> dict[str, str]:
        """Return the status of every worker that the scheduler hears, by address; raises as :attr:`interrupt` does.

        ClusterError if the scheduler does not answer.
        """
        self.interrupt()
        with scheduler_errors_named(self.client), waiting_named():
            known = find_workers(self.client)
        heard = known.keys() - self._silences.look({each: worker["last_seen"] for each, worker in known.items()})
        return {each: str(worker.get("status", "running")) for each, worker in known.items() if each in heard}

    def ask_all(
        self, function: Callable[..., Any], *args: Any, addresses: Sequence[str] | None, patience_s: float
    ) -> dict[str, Any]:
        """Call a short function in some or all worker processes, and return their answers by address.

        A worker that is stopped, or about to leave, has no answer after ``patience_s`` seconds. Callable from any
        thread.
        """

        async def call() -> Any:
            return await self.client.run(function, *args, workers=addresses, on_error="ignore")

        try:
            answers: dict[str, Any] = self.client.sync(call, callback_timeout=patience_s)
        except (OSError, TimeoutError, ValueError):
            return {}
        return answers

    def _ask_each(self, function: Callable[..., Any], *args: Any, addresses: Iterable[str]) -> dict[str, Any]:
        """Call a function in worker processes at the same time; return their answers, or exceptions, by address.

        A worker that is lost or becomes silent meanwhile has a TimeoutError.
        """

        async def ask(address: str) -> Any:
            answers = await self.client.run(function, *args, workers=[address], on_error="return")
            return answers[address]

        loop = self.client.loop.asyncio_loop
        with scheduler_errors_named(self.client):
            asked = {address: run_coroutine_threadsafe(ask(address), loop) for address in addresses}
            while unanswered := wait(asked.values(), timeout=WATCH_S).not_done:
                live = self.live_workers()
                for address, future in asked.items():
                    if future in unanswered and address not in live:
                        future.cancel()
            return {
                address: TimeoutError(f"no answer from {address}") if future.cancelled() else future.result()
                for address, future in asked.items()
            }

    def work_underway(self, run_id: str) -> int:
        return sum(self.ask_all(work_underway, run_id, addresses=None, patience_s=UNDERWAY_S).values())

    def describe(self, addresses: Sequence[str]) -> tuple[WorkerInfo, ...]:
        """Return descriptions of the workers that answer."""
        answers = (
            self.ask_all(describe_dask_worker, addresses=[address], patience_s=ANSWER_S)
            for address in addresses  # one by one: a joint call waits for a stopped worker
        )
        return tuple(read_worker(found) for answer in answers for found in answer.values())

    def _describe_all(self, n_workers: int) -> tuple[WorkerInfo, ...]:
        """Describe all workers; waits for replacements of lost workers, up to ``n_workers``."""
        deadline = monotonic() + join_seconds()
        while True:
            answers = self._ask_each(describe_dask_worker, addresses=self.live_workers())
            gone = not answers or any(isinstance(answer, OSError) for answer in answers.values())
            if not gone or monotonic() > deadline:
                break
            sleep(_POLL_S)
            self._wait_for_workers(n_workers)
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                raise ClusterError(
                    f"worker {address} cannot run Papilio ({type(answer).__name__}: {answer}); "
                    "install the same version of papilio there"
                )
        workers = map(read_worker, answers.values())
        found = tuple(sorted(workers, key=lambda worker: (worker.host, worker.name)))
        check_versions(found)
        return found

    def check_source(self, job: JobSpec, workers: Sequence[WorkerInfo]) -> None:
        """Raise ClusterError if a worker does not find the store with the hash that this process found.

        A lost worker is skipped: the dispatch detects it.
        """
        addresses = [worker.name for worker in workers]
        answers = self._ask_each(find_store_problem, job.source, job.graph_hash, addresses=addresses)
        hosts = {worker.name: worker.host for worker in workers}
        for address, problem in answers.items():
            if problem is not None and not isinstance(problem, OSError):
                where = "it must be where every worker can read it"
                if is_cached(job.source):
                    where += ": set PAPILIO_CACHE, the directory of converted files, to one that all workers share"
                raise ClusterError(f"worker {address} on {hosts[address]} cannot use the store: {problem} ({where})")

    def run(
        self,
        function: TaskFunction[AnyTask, Result],
        source: TaskSource[AnyTask, Result],
        workers: Sequence[WorkerInfo],
        in_flight: int,
    ) -> Iterator[Result]:
        return iter(Dispatcher(self, function, source, workers, in_flight))


@contextmanager
def scheduler_errors_named(client: Any) -> Iterator[None]:
    """Turn a lost connection and a time-out in calls of the scheduler into a ClusterError."""
    lost, again = "lost the connection to the scheduler", "restart it if it has ended, then count again"
    if client.status != "running":
        raise ClusterError(f"{lost}; {again}")
    try:
        yield
    except OSError as error:
        raise ClusterError(f"{lost} {explain(error, again)}") from error
    if client.status != "running":
        raise ClusterError(f"{lost}; {again}")


@contextmanager
def start_errors_named(cluster: str, remedy: str) -> Iterator[None]:
    """Report the problem that keeps a cluster from starting, in one line with its first cause and a remedy.

    Errors of Dask and the system, and a directory that cannot be made, become ClusterErrors. Other errors of Papilio
    are already clear.
    """
    try:
        yield
    except (Exception, CancelledError) as error:
        if isinstance(error, PapilioError) and not isinstance(error, StoreError):
            raise
        raise ClusterError(f"the {cluster} cluster does not start: {_first_cause(error)}; {remedy}") from error


def _first_cause(error: BaseException) -> str:
    """Return kind and message, in one line, of the innermost cause of ``error`` that has a message."""
    found, seen, inner = type(error).__name__, set[int](), error
    while id(inner) not in seen:
        seen.add(id(inner))
        if text := " ".join(str(inner).split()):
            found = f"{type(inner).__name__}: {text}"
        inner = inner.__cause__ or (None if inner.__suppress_context__ else inner.__context__) or inner
    return found


def find_workers(client: Any) -> dict[str, dict[str, Any]]:
    """Return the scheduler's descriptions of its workers, by address; thread-safe.

    ``client.scheduler_info`` is not: the client itself requests a list without workers every two seconds, and the
    call may return that answer.
    """
    workers: dict[str, dict[str, Any]] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return workers
