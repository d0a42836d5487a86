"""The interface of executors, and the choice of an engine for their workers.

The inline executor runs every task in this process, one after the other.

There is one process per GPU: two on one GPU would share its memory and slow each other down.

An executor takes tasks from its source one by one, so that the remaining work can be divided again at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Generic, Protocol, Self, TypeVar

from papilio.errors import (
    CapacityError,
    ClusterError,
    EngineUnavailableError,
    InputError,
    PapilioError,
    UnsupportedError,
    WorkerError,
    fault_of,
)
from papilio.extras import how_to_install
from papilio.kernels.device.discovery import missing_for_gpu
from papilio.kernels.engine import EngineChoice, EngineName
from papilio.signals import requested
from papilio.system_errors import explain, place_of
from papilio.tasks.job import JobSpec, LeaseTask, PrepareTask
from papilio.tasks.lease_scheduler import MAX_ATTEMPTS
from papilio.tasks.machine import WorkerInfo, describe_worker
from papilio.tasks.probe_statistics import ProbeTask
from papilio.tasks.run import work_underway
from papilio.tasks.worker_state import forget_graphs
from papilio.version import __version__

ONE_WORKER_PER_GPU = (
    "start one worker per GPU: 'dask cuda worker', or one CUDA_VISIBLE_DEVICES for each, or use --engine cpu"
)
"""Advice for a GPU with several workers."""


def find_shared_gpu(users: Iterable[tuple[str, str]]) -> tuple[str, list[str]] | None:
    """Return the first GPU that several users name, and these users; None when each has its own.

    Each user comes with the UUID of its GPU; users with an empty one are ignored.
    """
    found: dict[str, list[str]] = {}
    for uuid, user in users:
        if uuid:
            found.setdefault(uuid, []).append(user)
    return next(((uuid, names) for uuid, names in found.items() if len(names) > 1), None)


def check_devices(workers: Sequence[WorkerInfo]) -> None:
    """Raise ClusterError for two processes on one GPU, by its UUID; several workers of one process may share it."""
    processes = {(worker.host, worker.pid): worker for worker in workers}
    named = ((w.gpu_uuid, f"{w.name} (process {w.pid} on {w.host})") for w in processes.values())
    shared = find_shared_gpu(named)
    if shared is not None:
        uuid, users = shared
        raise ClusterError(f"workers {' and '.join(users)} use the same GPU, {uuid}; {ONE_WORKER_PER_GPU}")


def missing_for_cuda() -> str | None:
    """Return what a cluster of this machine's GPUs lacks, or None when it can be started."""
    missing = missing_for_gpu()
    if missing is None and find_spec("dask_cuda") is None:
        return f"dask-cuda is not installed: {how_to_install('dask_cuda')}"
    return missing


OWN_CLUSTERS = ("auto", "inline", "local", "cuda", "slurm")
"""Clusters that a run starts, and that end with it."""

AnyTask = TypeVar("AnyTask", PrepareTask, ProbeTask, LeaseTask)
ListedTask = TypeVar("ListedTask", PrepareTask, ProbeTask)
Result_contra = TypeVar("Result_contra", contravariant=True)


class TaskSource(Protocol[AnyTask, Result_contra]):
    """A source of tasks, taken one by one; :class:`papilio.tasks.lease_scheduler.LeaseScheduler` gives leases."""

    @property
    def has_more(self) -> bool:
        """Whether a task can be taken, provided that no worker holds one."""

    def take(self, n_workers: int, worker: str) -> AnyTask | None:
        """Return the next task for ``worker``, one of ``n_workers``; None when there is no task now."""

    def answer(self, task: AnyTask, result: Result_contra) -> None:
        """Record a result; unfinished items can be taken again."""

    def share(self, task: AnyTask, stop: int) -> bool:
        """Take back the items of a task from ``stop`` on; False when it has been answered, or has fewer items."""

    def lose(self, task: AnyTask, worker: str, *, was_running: bool) -> None:
        """Put back the task of a lost worker; it is a suspect when it was running there."""

    def fail(self, task: AnyTask, error: Exception) -> None:
        """Put back, or give up, a task that raised; raises ``error`` when the run cannot continue."""

    def predict_s(self, task: AnyTask, worker: str) -> float | None:
        """Return the predicted time of the task on the worker, or None when it cannot be cut or shared."""


class TaskList(Generic[ListedTask]):
    """A fixed list of tasks, each for the next free worker."""

    def __init__(self, tasks: Iterable[ListedTask]) -> None:
        self._pending: deque[ListedTask] = deque(tasks)

    @property
    def has_more(self) -> bool:
        return bool(self._pending)

    def take(self, n_workers: int, worker: str) -> ListedTask | None:
        return self._pending.popleft() if self._pending else None

    def answer(self, task: ListedTask, result: Any) -> None: ...

    def share(self, task: ListedTask, stop: int) -> bool:
        """Such tasks have no items."""
        return False

    def lose(self, task: ListedTask, worker: str, *, was_running: bool) -> None:
        """Put a task first again, under a new key; ClusterError if it has already crashed too many workers."""
        if task.attempt + 1 >= MAX_ATTEMPTS:
            raise ClusterError(
                f"{task} ended {MAX_ATTEMPTS} workers, the last one {worker}; see its log: it most likely ran out of "
                f"memory"
            )
        self._pending.appendleft(replace(task, attempt=task.attempt + 1))

    def fail(self, task: ListedTask, error: Exception) -> None:
        """Raise: a task that fails on one worker fails on all."""
        raise error

    def predict_s(self, task: ListedTask, worker: str) -> None:
        """Such tasks cannot be cut."""


Result = TypeVar("Result")
TaskFunction = Callable[[AnyTask, WorkerInfo], Result]
"""A function of a task and of the worker that runs it."""


class Executor(Protocol):
    """Runs tasks, one job at a time; entering starts it, leaving closes everything that it started."""

    # ``inline``, ``local``, ``cuda``, ``slurm`` or ``existing``.
    name: str
    # Whether tasks run in this very process, so that vectors need no files.
    in_process: bool
    # Why the gpu engine is not offered, whatever the workers have; None when it is.
    gpu_refusal: str | None = None
    # Why the cluster was chosen, if none was named; otherwise empty.
    why_chosen: str = ""

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The workers; at least one once started."""

    def refresh(self) -> None:
        """Update the list of workers."""
        return

    def check_source(self, job: JobSpec, workers: Sequence[WorkerInfo]) -> None:
        """Raise ClusterError unless every given worker finds the graph of the job, as this process does."""
        return

    def work_underway(self, run_id: str) -> int:
        """Return the predicted nanoseconds done so far by the leases of a run; from any thread, within a second."""
        return work_underway(run_id)

    def run(
        self,
        function: TaskFunction[AnyTask, Result],
        source: TaskSource[AnyTask, Result],
        workers: Sequence[WorkerInfo],
        in_flight: int,
    ) -> Iterator[Result]:
        """Run tasks on the given workers as they become free, until the source is empty; yield the results.

        The function is importable on the workers, the source receives the outcome of each task before its result is
        yielded, and one worker holds ``in_flight`` tasks at a time.
        """

    def close(self) -> None:
        """Stop the executor; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


@contextmanager
def machine_errors_named(where: str) -> Iterator[None]:
    """Add worker and task ``where`` to errors of the machine: memory, open files, room on a disk.

    Raises CapacityError if memory ran out, WorkerError for an error of the operating system that no part of Papilio
    has explained.
    """
    try:
        yield
    except MemoryError as error:
        raise CapacityError(f"{where}: out of memory ({error}); use workers with more memory") from None
    except OSError as error:
        raise WorkerError(
            f"{where}: the system reports an error{place_of(error)} "
            f"{explain(error, 'run papilio doctor there, then count again')}"
        ) from error


def check_versions(workers: Sequence[WorkerInfo]) -> None:
    """Raise ClusterError for workers of another version of Papilio: their items or partials could differ."""
    for worker in workers:
        if worker.version != __version__:
            raise ClusterError(
                f"worker {worker.name} on {worker.host} has papilio {worker.version}; this process has "
                f"{__version__}: install the same version on both"
            )


def choose_engine(executor: Executor, choice: EngineChoice) -> tuple[EngineName, str, tuple[WorkerInfo, ...]]:
    """Return the engine, why it was chosen, and the workers that can run it.

    An explicit ``gpu`` is never replaced by ``cpu``. ClusterError if two processes would share a GPU.
    UnsupportedError for ``gpu`` on an executor that does not offer it. EngineUnavailableError for ``gpu`` when no
    worker can run it.
    """
    workers = executor.workers
    able = tuple(worker for worker in workers if worker.can_gpu)
    if choice == "gpu":
        if executor.gpu_refusal is not None:
            raise UnsupportedError(executor.gpu_refusal)
        if not able:
            raise EngineUnavailableError(
                f"worker {workers[0].name} on {workers[0].host} cannot run the engine gpu: {workers[0].gpu_missing}; "
                f"use the engine cpu, or workers with a GPU"
            )
        check_devices(able)
        return "gpu", f"requested; {len(able)} of {len(workers)} workers have a GPU", able
    if choice == "cpu":
        return "cpu", "requested", workers
    if executor.gpu_refusal is None and able:
        check_devices(able)
        return "gpu", f"{len(able)} of {len(workers)} workers have a GPU ({able[0].gpu})", able
    if executor.gpu_refusal is not None:
        return "cpu", f"the {executor.name} cluster runs CPU workers", workers
    return "cpu", f"no worker can use a GPU: {workers[0].gpu_missing}", workers


class InlineExecutor(Executor):
    """Run tasks in the calling thread; the engine uses all processors, or the first visible GPU.

    The CPU engine has ``threads`` threads, by default one for each processor that this process may use.
    """

    name = "inline"
    in_process = True
    workers: tuple[WorkerInfo, ...] = ()

    def __init__(self, n_workers: int | None = None, threads: int | None = None) -> None:
        if n_workers not in (None, 1):
            raise InputError(f"workers is {n_workers}; the inline cluster has one worker: use the local cluster")
        self.workers = (describe_worker("inline", threads),)

    def run(
        self,
        function: TaskFunction[AnyTask, Result],
        source: TaskSource[AnyTask, Result],
        workers: Sequence[WorkerInfo],
        in_flight: int,
    ) -> Iterator[Result]:
        """Run the tasks in order, until a signal comes; a failed task is retried in parts, as the source decides.

        An error ends the run when any other lease would fail, too, in this process: its GPU is lost, the store is gone,
        the disk is full; see :data:`papilio.errors.FAULTS`.
        """
        (worker,) = self.workers
        while not requested() and (task := source.take(1, worker.name)) is not None:
            try:
                with machine_errors_named(f"this process, {task}"):
                    result = function(task, worker)
            except PapilioError as error:
                if fault_of(error) not in ("lease", "size"):
                    raise
                source.fail(task, error)
                continue
            source.answer(task, result)
            yield result

    def close(self) -> None:
        """Forget the prepared graphs of this process, except graphs that a :class:`papilio.Graph` keeps."""
        forget_graphs(kept=True)
