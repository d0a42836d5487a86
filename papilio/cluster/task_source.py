"""Where an executor gets its tasks: as they are needed, so that what is left can be shared anew at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from papilio.errors import ClusterError
from papilio.tasks.job import LeaseTask, PrepareTask
from papilio.tasks.leases.counter import MAX_ATTEMPTS

AnyTask = TypeVar("AnyTask", PrepareTask, LeaseTask)
Result_contra = TypeVar("Result_contra", contravariant=True)


class TaskSource(Protocol[AnyTask, Result_contra]):
    """Tasks to be had one by one; :class:`papilio.tasks.leases.counter.RootCounter` is one of leases."""

    @property
    def has_more(self) -> bool:
        """Whether a task can be taken; when no other one is held, by any worker."""

    def take(self, n_workers: int, worker: str) -> AnyTask | None:
        """Return the next task for ``worker``, one of ``n_workers``; None when there is none for it now."""

    def answer(self, task: AnyTask, result: Result_contra) -> None:
        """Take note of a result; what it leaves undone can be taken again."""

    def lose(self, task: AnyTask, worker: str, *, was_running: bool) -> None:
        """Put back the task of a worker that is gone; it is a suspect when it was running there."""

    def fail(self, task: AnyTask, error: Exception) -> None:
        """Put back, or give up, a task that raised; raises ``error`` when the run cannot go on."""

    def predict_s(self, task: AnyTask, worker: str) -> float | None:
        """Return how long the task takes on the worker, or None when it cannot be cut."""


class TaskList:
    """A fixed list of preparations, each for whichever worker comes next."""

    def __init__(self, tasks: Iterable[PrepareTask]) -> None:
        self._pending = deque(tasks)

    @property
    def has_more(self) -> bool:
        return bool(self._pending)

    def take(self, n_workers: int, worker: str) -> PrepareTask | None:
        """Return the next one, whoever asks."""
        return self._pending.popleft() if self._pending else None

    def answer(self, task: PrepareTask, result: Any) -> None:
        """Every answer is whole."""

    def lose(self, task: PrepareTask, worker: str, *, was_running: bool) -> None:
        """Put a task first in line again, under a new key, unless it has taken too many workers down (ClusterError)."""
        if task.attempt + 1 >= MAX_ATTEMPTS:
            raise ClusterError(
                f"{task} took {MAX_ATTEMPTS} workers down, the last one {worker}; "
                "see that worker's log: it most likely ran out of memory"
            )
        self._pending.appendleft(replace(task, attempt=task.attempt + 1))

    def fail(self, task: PrepareTask, error: Exception) -> None:
        """Raise: a graph that cannot be prepared on one worker cannot be counted."""
        raise error

    def predict_s(self, task: PrepareTask, worker: str) -> None:
        """Preparing cannot be cut."""
