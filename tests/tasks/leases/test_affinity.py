"""Workers stay with their partitions: whatever happens each item is counted once, and few bytes are read."""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.kernels.engine import CostTable
from papilio.tasks.forecast import NS
from papilio.tasks.job import LeaseResult, LeaseTask
from papilio.tasks.lease_scheduler import LeaseScheduler, PartAffinity
from papilio.tasks.plan import CountPlan, PartitionPlan
from tests.conftest import share_of_examples
from tests.tasks.fakes import plan_of

BLOCK_BYTES = 100


def grid_plan(n_starts: int, n_ends: int, part_s: float, n_workers: int) -> CountPlan:
    """Return the plan of a grid of start and end blocks; each part takes about ``part_s`` of one worker."""
    items = 40
    table = CostTable.from_costs(np.full(items, int(part_s * NS / items), dtype=np.int64))
    cells = [(f"s{start}", f"e{end}") for start in range(n_starts) for end in range(n_ends)]
    parts = tuple(PartitionPlan(i, table, cell, 2 * BLOCK_BYTES) for i, cell in enumerate(cells))
    return replace(plan_of(np.array([1]), n_workers), partitions=parts)


class Replay:
    """Workers in simulated time, each of which keeps the blocks of two parts."""

    def __init__(self, plan: CountPlan, n_workers: int, *, blind: bool = False, lost: int | None = None) -> None:
        self.counter = LeaseScheduler(plan, "run", None)
        if blind:
            self.counter._affinity = PartAffinity([()] * len(plan.partitions))
            self.counter._affinity.choose_partition = lambda worker, left, *least: next(iter(left), None)  # type: ignore[method-assign]
            self.counter._affinity.expect = lambda worker, left: None  # type: ignore[method-assign]
        self.plan, self.n_workers, self.lost = plan, n_workers, lost
        self.kept: dict[str, OrderedDict[str, None]] = {}
        self.read_bytes = self.right = self.hints = 0
        self.items: list[tuple[int, int]] = []
        self.hint: dict[str, tuple[int | None, int]] = {}
        self.chance = random.Random(1)

    def run(self) -> None:
        queue: list[tuple[float, int, str, LeaseTask]] = []
        for number in range(self.n_workers):
            self.begin(queue, 0.0, f"w{number}")
        answered = 0
        while queue:
            now, _, worker, task = heapq.heappop(queue)
            if answered == self.lost:
                self.lost = None
                self.counter.lose(task, worker, was_running=True)
                self.begin(queue, now, f"{worker}-again")
                continue
            answered += 1
            self.items += [(task.partition, item) for item in range(task.start, task.stop)]
            seconds = {"run": task.work / NS}
            self.counter.answer(
                task,
                LeaseResult(task.partition, task.start, task.stop, 0, task.work, worker, "cpu", seconds, 1),
            )
            self.begin(queue, now, worker)

    def begin(self, queue: list[tuple[float, int, str, LeaseTask]], now: float, worker: str) -> None:
        task = self.counter.take(self.n_workers, worker)
        if task is None:
            return
        hint, held = self.hint.get(worker, (None, -1))
        if hint is not None and task.partition != held:
            self.hints += 1
            self.right += hint == task.partition
        self.hint[worker] = task.next_partition, task.partition
        kept = self.kept.setdefault(worker, OrderedDict())
        for name in self.plan.partitions[task.partition].blocks:
            self.read_bytes += 0 if name in kept else BLOCK_BYTES
            kept[name] = None
            kept.move_to_end(name)
        while len(kept) > 4:
            kept.popitem(last=False)
        spent = task.work / NS * self.chance.uniform(0.7, 1.3)
        heapq.heappush(queue, (now + spent, task.sequence, worker, task))


@pytest.mark.parametrize(
    ("n_workers", "part_s", "gain"), [(1, 1.0, 1.1), (4, 1.0, 1.1), (4, 40.0, 2.0), (16, 5.0, 1.4)]
)
def test_workers_read_less_when_they_stay_with_their_blocks(n_workers: int, part_s: float, gain: float) -> None:
    plan = grid_plan(12, 8, part_s, n_workers)
    near, blind = Replay(plan, n_workers), Replay(plan, n_workers, blind=True)
    for replay in (near, blind):
        replay.run()
        assert sorted(replay.items) == [(part, item) for part in range(96) for item in range(40)]
    # Every part needs a start block that the worker has not; the end block stays for a column of the grid.
    least = 96 * BLOCK_BYTES
    assert near.read_bytes <= 1.4 * least
    assert blind.read_bytes >= gain * near.read_bytes
    assert near.right >= 0.85 * near.hints > 0


def test_a_lost_worker_leaves_its_part_to_the_others() -> None:
    replay = Replay(grid_plan(4, 4, 30.0, 3), 3, lost=5)
    replay.run()
    assert sorted(replay.items) == [(part, item) for part in range(16) for item in range(40)]


def test_a_part_is_shared_only_when_no_other_is_left() -> None:
    affinity = PartAffinity([("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")])
    left = dict.fromkeys(range(4), 10)
    assert [affinity.choose_partition(worker, left) for worker in ("w0", "w1", "w0", "w1")] == [0, 2, 0, 2]
    assert affinity.expect("w0", left) == 1
    assert affinity.expect("w0", {0: 10}) is None
    assert affinity.expect("w0", {0: 10, 2: 10}) is None, "others have it"
    del left[0]
    assert affinity.expect("w0", left) == 1
    assert affinity.choose_partition("w2", left) == 3
    assert affinity.choose_partition("w0", left) == 1
    left = {1: 5, 3: 20}
    assert affinity.choose_partition("w1", left) == 3
    affinity.forget("w0")
    assert affinity.choose_partition("w3", left) == 1
    assert affinity.choose_partition("w3", {}) is None


def test_a_part_that_a_worker_expects_is_given_to_others_last() -> None:
    affinity = PartAffinity([("a",), ("b",), ("c",)])
    assert affinity.choose_partition("w0", {0: 9, 1: 8, 2: 7}) == 0
    assert affinity.expect("w0", {1: 8, 2: 7}) == 1
    assert affinity.choose_partition("w1", {1: 8, 2: 7}) == 2
    assert affinity.choose_partition("w2", {1: 8}) == 1
    assert affinity.choose_partition("w0", {}) is None


def test_a_worker_helps_only_where_it_pays() -> None:
    plan = grid_plan(1, 1, 40.0, 2)
    counter = LeaseScheduler(plan, "run", None)

    def answer(task: LeaseTask, worker: str, prepare_s: float, left: int = 0) -> None:
        seconds = {"run": task.work / NS, "prepare": prepare_s, "read": 0.0, "load": 1.0, "stage": 1.0}
        stop = task.stop - left
        counter.answer(task, LeaseResult(0, task.start, stop, 0, task.work, worker, "cpu", seconds, 1))

    first = counter.take(2, "w0")
    assert first is not None
    answer(first, "w0", 3.0)
    second = counter.take(2, "w0")
    third = counter.take(2, "w1")
    assert second is not None
    assert third is not None, "10 s are left, and a part is begun in 5 s"
    assert counter.share(second, second.stop - 4)
    assert counter.take(2, "w2") is None, "4 s are left"
    answer(second, "w0", 0.0, left=4)
    rest = counter.take(2, "w0")
    assert rest is not None
    assert rest.stop - rest.start == 4
    assert counter.predict_s(rest, "w0") is None


def test_what_is_left_when_nothing_runs_is_given_to_anybody() -> None:
    counter = LeaseScheduler(grid_plan(1, 1, 1.0, 2), "run", None)
    task = counter.take(1, "w0")
    assert task is not None
    seconds = {"run": 0.5, "prepare": 100.0, "read": 0.0, "load": 0.0, "stage": 0.0}
    counter.answer(task, LeaseResult(0, 0, 10, 0, 1, "w0", "cpu", seconds, 1))
    assert counter.take(1, "w1") is not None


@settings(max_examples=share_of_examples(60), deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32).map(random.Random))
def test_any_grid_is_counted_once(n_starts: int, n_ends: int, n_workers: int, chance: random.Random) -> None:
    plan = grid_plan(n_starts, n_ends, chance.choice([0.001, 0.3, 50.0]), n_workers)
    replay = Replay(plan, n_workers, lost=chance.randrange(20))
    replay.run()
    assert sorted(replay.items) == [(p, item) for p in range(n_starts * n_ends) for item in range(40)]
