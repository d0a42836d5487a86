"""The flow's choice of workers to cut, without a cluster."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest

from papilio.cluster import flow
from papilio.cluster.flow import MOST_CUTS, TaskFlow
from tests.tasks.fakes import make_worker


@dataclass
class Task:
    key: str


class Source:
    """Tasks that need 100 s, the later ones longer."""

    def __init__(self, n_tasks: int) -> None:
        self.tasks = deque(Task(str(number)) for number in range(n_tasks))

    def take(self, n_workers: int, worker: str) -> Task | None:
        return self.tasks.popleft() if self.tasks else None

    def predict_s(self, task: Task, worker: str) -> float:
        return 100.0 + int(task.key)


class Future:
    def __init__(self, key: str) -> None:
        self.key, self.status = key, "pending"

    def add_done_callback(self, function: Any) -> None:
        """It never ends."""


class Pool:
    """Remembers who was asked to cut."""

    def __init__(self) -> None:
        self.client = self
        self.asked: list[str] = []

    def submit(self, *args: Any, key: str, **options: Any) -> Future:
        return Future(key)

    def task_priority(self) -> int:
        return 0

    def ask(self, function: Any, keys: list[str], address: str, patience_s: float) -> None:
        self.asked += keys


@pytest.mark.parametrize(("n_idle", "n_cut"), [(0, 0), (3, 3), (100, MOST_CUTS)])
def test_those_with_most_left_are_cut(n_idle: int, n_cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "LEAST_RUN_S", 0.0)
    n_busy = 2 * MOST_CUTS
    pool, source = Pool(), Source(n_busy)
    workers = [make_worker(f"w{number}") for number in range(n_busy + n_idle)]
    tasks: Any = TaskFlow(pool, print, source, workers, 1)
    for _ in range(2):
        tasks._hand_out()
    tasks._messenger.shutdown(wait=True)
    assert pool.asked == [str(number) for number in reversed(range(n_busy - n_cut, n_busy))]
