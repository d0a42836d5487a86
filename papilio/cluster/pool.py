"""What the Dask executors share: a client, the descriptions of its workers, and the flow of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from papilio.cluster.executor import Result, TaskFunction, check_versions
from papilio.cluster.flow import TaskFlow
from papilio.cluster.quiet import kill_workers, quiet_dask
from papilio.cluster.remote import describe_dask_worker, find_store_problem
from papilio.cluster.task_source import AnyTask, TaskSource
from papilio.errors import ClusterError, PapilioError, StoreError
from papilio.tasks.job import JobSpec
from papilio.tasks.worker import WorkerInfo, read_worker

__all__ = ["DaskPool", "find_workers", "start_errors_named"]

JOIN_S = 60.0
"""How long to wait for another of the workers asked for; starting many processes on a slow disk takes some 20 s, on
a file system that many nodes share minutes for all of them."""

ANSWER_S = 5.0
"""How long a worker has to answer what takes it milliseconds."""


class DaskPool(ABC):
    """Base of the executors that run on Dask; a subclass connects in :meth:`_connect`.

    Parameters
    ----------
    n_workers : int, optional
        Workers to wait for; by default one.
    inside_worker : bool
        Whether this process is a worker of the cluster, whose own messages must not be silenced.

    Attributes
    ----------
    interrupt : callable
        Called about once a second while leases run and none finishes; what it raises ends the run.
    """

    name: str
    in_process = False
    prefers_gpu = True
    gpu_refusal: str | None = None
    owns_processes = False
    """Whether the workers are processes that this one has started, and may kill."""
    remedy = (
        "a worker that ends at once was perhaps killed for lack of memory; make room (memory: free; processes: "
        "ulimit -u; open files: ulimit -n; temporary files: df, another TMPDIR), ask papilio doctor, or use --cluster "
        "inline"
    )
    """What to do when the cluster does not start."""

    def __init__(self, n_workers: int | None = None, *, inside_worker: bool = False) -> None:
        self.interrupt: Callable[[], None] = _go_on
        self._inside_worker = inside_worker
        self._n_workers = n_workers
        self._stack = ExitStack()
        self._client: Any = None
        self._workers: tuple[WorkerInfo, ...] = ()
        self._graph_hashes: set[str] = set()

    @abstractmethod
    def _connect(self, stack: ExitStack) -> Any:
        """Return a connected client; what ends with the executor goes on ``stack``."""

    @property
    def client(self) -> Any:
        """The Dask client."""
        if self._client is None:
            raise ClusterError(f"the {self.name} cluster is not started; use it in a with block")
        return self._client

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The workers found when the executor was started, or last refreshed."""
        return self._workers

    def refresh(self) -> None:
        """Describe the workers anew if others are there than before.

        Raises
        ------
        ClusterError
            When there is none, or one cannot run Papilio.
        """
        self._wait_for_workers(1)
        if set(self.live_workers()) != {worker.name for worker in self._workers}:
            self._workers = self._describe_all()
            check_versions(self._workers)

    def __enter__(self) -> Self:
        with start_errors_named(self.name, self.remedy), ExitStack() as stack:
            if not self._inside_worker:
                stack.enter_context(quiet_dask())
            self._client = self._connect(stack)
            self._wait_for_workers(self._n_workers or 1)
            self._workers = self._describe_all()
            check_versions(self._workers)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        if interrupted and self.owns_processes and self._client is not None:
            kill_workers(self._client.cluster)
        self.close()

    def close(self) -> None:
        """Stop what was started; safe to call twice."""
        self._client = None
        self._stack.close()

    def _wait_for_workers(self, n_workers: int) -> None:
        joined = 0
        while True:
            try:
                self._client.wait_for_workers(n_workers, timeout=JOIN_S)
                return
            except TimeoutError as error:
                before, joined = joined, len(self.live_workers())
                if joined <= before:
                    raise ClusterError(
                        f"{joined} of {n_workers} workers joined the {self.name} cluster, none of them in the last "
                        f"{JOIN_S:.0f} s; start workers, or ask for fewer"
                    ) from error

    def task_priority(self) -> int:
        """Return the priority in Dask of a lease that is handed out now; larger goes first."""
        return 0

    def live_workers(self) -> dict[str, str]:
        """Return the status of every worker that the scheduler knows, by address.

        Raises
        ------
        ClusterError
            When the scheduler does not answer.
        PapilioError
            As :attr:`interrupt` raises.
        """
        self.interrupt()
        lost = "the connection to the scheduler was lost; start it again, then count again"
        if self.client.status != "running":
            raise ClusterError(lost)
        try:
            known = find_workers(self.client)
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"{lost} ({error})") from error
        if self.client.status != "running":
            raise ClusterError(lost)
        return {address: str(worker.get("status", "running")) for address, worker in known.items()}

    def ask(self, function: Callable[..., Any], *args: Any, address: str, patience_s: float) -> Any:
        """Call a short function in a worker process and return its answer; None when there is none in time."""
        return self.ask_all(function, *args, addresses=[address], patience_s=patience_s).get(address)

    def ask_all(
        self, function: Callable[..., Any], *args: Any, addresses: Sequence[str], patience_s: float
    ) -> dict[str, Any]:
        """Call a short function in worker processes, all at once, and return their answers.

        A worker that is stopped, or about to go, does not answer: there is none after ``patience_s`` seconds. May be
        called from any thread.
        """

        async def call() -> Any:
            return await self.client.run(function, *args, workers=list(addresses), on_error="ignore")

        try:
            answers: dict[str, Any] = self.client.sync(call, callback_timeout=patience_s)
        except (OSError, TimeoutError, ValueError):
            return {}
        return answers

    def describe(self, addresses: Sequence[str]) -> tuple[WorkerInfo, ...]:
        """Return descriptions of the workers; those that do not answer are left out."""
        answers = (
            self.ask(describe_dask_worker, address=address, patience_s=ANSWER_S) for address in addresses
        )
        return tuple(read_worker(answer) for answer in answers if answer is not None)

    def _describe_all(self) -> tuple[WorkerInfo, ...]:
        answers = self._client.run(describe_dask_worker, on_error="return")
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                raise ClusterError(
                    f"worker {address} cannot run Papilio ({type(answer).__name__}: {answer}); "
                    "install the same version of papilio there"
                )
        infos = (read_worker(answer) for answer in answers.values())
        return tuple(sorted(infos, key=lambda info: (info.host, info.name)))

    def check_source(self, job: JobSpec, workers: Sequence[WorkerInfo]) -> None:
        """Refuse unless every worker given finds the store with the hash that this process found.

        Raises
        ------
        ClusterError
            Naming the first worker that does not.
        """
        self._graph_hashes.add(job.graph_hash)
        addresses = [worker.name for worker in workers]
        answers = self.client.run(
            find_store_problem, job.source, job.graph_hash, workers=addresses, on_error="return"
        )
        hosts = {worker.name: worker.host for worker in workers}
        for address, problem in answers.items():
            if problem is not None:
                raise ClusterError(
                    f"worker {address} on {hosts[address]} cannot use the store: {problem} "
                    "(it must lie where every worker can read it)"
                )

    def run(
        self,
        function: TaskFunction[AnyTask, Result],
        source: TaskSource[AnyTask, Result],
        workers: Sequence[WorkerInfo],
        in_flight: int,
    ) -> Iterator[Result]:
        """Run tasks on the workers; see :class:`papilio.cluster.flow.TaskFlow`."""
        return iter(TaskFlow(self, function, source, workers, in_flight))


@contextmanager
def start_errors_named(cluster: str, remedy: str) -> Iterator[None]:
    """Name what keeps a cluster from starting, in one line that has the first cause of all.

    Parameters
    ----------
    cluster : str
        Its name.
    remedy : str
        What to do.

    Raises
    ------
    ClusterError
        For all that Dask and the system raise, and for a directory that cannot be made. Other errors of Papilio say
        already what is wrong.
    """
    try:
        yield
    except (Exception, CancelledError) as error:
        if isinstance(error, PapilioError) and not isinstance(error, StoreError):
            raise
        raise ClusterError(
            f"the {cluster} cluster does not start: {_first_cause(error)}; {remedy}"
        ) from error


def _first_cause(error: BaseException) -> str:
    """Return kind and message, in one line, of the innermost error with a message that led to ``error``."""
    found, seen, inner = type(error).__name__, set[int](), error
    while id(inner) not in seen:
        seen.add(id(inner))
        if text := " ".join(str(inner).split()):
            found = f"{type(inner).__name__}: {text}"
        inner = inner.__cause__ or (None if inner.__suppress_context__ else inner.__context__) or inner
    return found


def find_workers(client: Any) -> dict[str, dict[str, Any]]:
    """Return what the scheduler knows of all its workers, by address; safe for several threads.

    ``client.scheduler_info`` is not: the client asks for no workers every two seconds, and that answer may be
    the one that it returns.
    """
    workers: dict[str, dict[str, Any]] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return workers


def _go_on() -> None:
    """Let a run go on."""
