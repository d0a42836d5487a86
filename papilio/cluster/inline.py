"""The inline executor: every task runs in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papilio.cluster.executor import Executor, Result, TaskFunction, machine_errors_named
from papilio.cluster.task_source import AnyTask, TaskSource
from papilio.errors import InputError, PapilioError, fault_of
from papilio.interrupts import requested
from papilio.tasks.prepared import forget_graphs
from papilio.tasks.worker import WorkerInfo, describe_worker


class InlineExecutor(Executor):
    """Runs tasks in the calling thread; the engine uses all processors, or the first visible GPU.

    The CPU engine has ``threads`` threads, by default for the processors that this process may use.
    """

    name = "inline"
    in_process = True
    workers: tuple[WorkerInfo, ...] = ()

    def __init__(self, n_workers: int | None = None, threads: int | None = None) -> None:
        if n_workers not in (None, 1):
            raise InputError(
                f"workers is {n_workers}; the inline cluster is one worker: use the local cluster"
            )
        self._worker = describe_worker("inline", threads)
        self.workers = (self._worker,)

    def run(
        self,
        function: TaskFunction[AnyTask, Result],
        source: TaskSource[AnyTask, Result],
        workers: Sequence[WorkerInfo],
        in_flight: int,
    ) -> Iterator[Result]:
        """Run the tasks in order, until a signal comes; one that fails is tried again, in parts, as the source decides.

        An error ends the run when another lease would fare no better in this process: its GPU is lost, the store is
        gone, the disk is full; see :data:`papilio.errors.FAULTS`.
        """
        while not requested() and (task := source.take(1, self._worker.name)) is not None:
            try:
                with machine_errors_named(f"this process, {task}"):
                    result = function(task, self._worker.seat)
            except PapilioError as error:
                if fault_of(error) not in ("lease", "size"):
                    raise
                source.fail(task, error)
                continue
            source.answer(task, result)
            yield result

    def close(self) -> None:
        """Forget the prepared graphs of this process."""
        forget_graphs()
