"""What every executor offers, and the choice of an engine for its workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

from papilio.cluster.devices import check_devices
from papilio.cluster.task_source import AnyTask, TaskSource
from papilio.errors import CapacityError, ClusterError, EngineUnavailableError, UnsupportedError, WorkerError
from papilio.families import EngineChoice
from papilio.kernels.engine import EngineName
from papilio.tasks.job import JobSpec
from papilio.tasks.worker import Seat, WorkerInfo
from papilio.version import __version__

Result = TypeVar("Result")
TaskFunction = Callable[[AnyTask, Seat], Result]
"""A function of a task and of where it runs."""


class Executor(Protocol):
    """Where tasks run, one job at a time; entering it starts it, leaving closes what it started."""

    # ``inline``, ``local``, ``cuda``, ``slurm`` or ``existing``.
    name: str
    # Whether tasks run in this very process, so that vectors need no files.
    in_process: bool
    # Why the gpu engine is not offered, whatever the workers have; None when it is.
    gpu_refusal: str | None = None
    # Why the cluster was taken where none was named; empty where one was.
    why_chosen: str = ""

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The workers; at least one once started."""

    def refresh(self) -> None:
        """Take note of workers that came and went."""
        return

    def check_source(self, job: JobSpec, workers: Sequence[WorkerInfo]) -> None:
        """Refuse with a ClusterError unless every worker given finds the graph of the job, as this process does."""
        return

    def run(
        self,
        function: TaskFunction[AnyTask, Result],
        source: TaskSource[AnyTask, Result],
        workers: Sequence[WorkerInfo],
        in_flight: int,
    ) -> Iterator[Result]:
        """Run tasks on the workers given, as these come free, until the source has none; yield the results.

        The function is importable on the workers, the source is told how each task ended before its result is yielded,
        and one worker is handed ``in_flight`` tasks at a time.
        """

    def close(self) -> None:
        """Stop what was started; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


@contextmanager
def machine_errors_named(where: str) -> Iterator[None]:
    """Name what the machine refuses to the worker and task ``where``: memory, open files, room on a disk.

    It is a CapacityError when memory ran out, a WorkerError for an error of the operating system that no part of
    Papilio has explained.
    """
    try:
        yield
    except MemoryError as error:
        raise CapacityError(f"{where}: out of memory ({error}); use workers with more memory") from None
    except OSError as error:
        raise WorkerError(
            f"{where}: the machine refuses what it needs ({type(error).__name__}: {error}); make room (open files: "
            "ulimit -n; disk: df), ask papilio doctor, then count again"
        ) from error


def check_versions(workers: Sequence[WorkerInfo]) -> None:
    """Refuse, with a ClusterError, workers of another version of Papilio: their items or partials could differ."""
    for worker in workers:
        if worker.version != __version__:
            raise ClusterError(
                f"worker {worker.name} on {worker.host} has papilio {worker.version}; this process has "
                f"{__version__}: install the same version on both"
            )


def choose_engine(executor: Executor, choice: EngineChoice) -> tuple[EngineName, str, tuple[WorkerInfo, ...]]:
    """Return the engine, the reason for it, and the workers that will run it.

    An explicit ``gpu`` is never replaced by ``cpu``. ClusterError when two processes would share a GPU.
    UnsupportedError for ``gpu`` on an executor that does not offer it. EngineUnavailableError when ``gpu`` is asked for
    and no worker can run it.
    """
    workers = executor.workers
    able = tuple(worker for worker in workers if worker.can_gpu)
    if choice == "gpu":
        if executor.gpu_refusal is not None:
            raise UnsupportedError(executor.gpu_refusal)
        if not able:
            raise EngineUnavailableError(
                f"engine gpu was asked for and worker {workers[0].name} on {workers[0].host} cannot run it: "
                f"{workers[0].gpu_missing}; use the engine cpu, or workers with a GPU"
            )
        check_devices(able)
        return "gpu", f"asked for; {len(able)} of {len(workers)} workers have a GPU", able
    if choice == "cpu":
        return "cpu", "asked for", workers
    if executor.gpu_refusal is None and able:
        check_devices(able)
        return "gpu", f"{len(able)} of {len(workers)} workers have a GPU ({able[0].gpu})", able
    if executor.gpu_refusal is not None:
        return "cpu", f"the {executor.name} cluster runs CPU workers", workers
    return "cpu", f"no worker can use a GPU: {workers[0].gpu_missing}", workers
