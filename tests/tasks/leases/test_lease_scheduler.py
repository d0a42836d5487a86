"""The root counter: every item is answered exactly once, or proven to fail, whatever happens to its leases."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError, ExecutionError, FailedItemsError, LeaseTooLargeError, TilingError
from papilio.motifs import Butterfly, Clique, Motif
from papilio.registry import motif_row
from papilio.tasks.forecast import NS
from papilio.tasks.job import LeaseResult, LeaseTask
from papilio.tasks.lease_scheduler import MAX_ATTEMPTS, LeaseScheduler
from papilio.tasks.leases import KEPT_LEASE_S, MAX_LEASE_S, SHORTEST_LEASE_S, VECTOR_OVERHEAD
from tests.conftest import share_of_examples
from tests.tasks.fakes import make_job, plan_of


def counter_of(costs: Any, n_workers: int = 2, **options: Any) -> LeaseScheduler:
    return LeaseScheduler(plan_of(np.array(costs, dtype=np.int64), n_workers), "run", None, **options)


def result_of(task: LeaseTask, stop: int | None = None, seconds: float = 1.0) -> LeaseResult:
    stop = task.stop if stop is None else stop
    return LeaseResult(task.partition, task.start, stop, 0, task.work, "w0", "cpu", {"run": seconds}, 1)


@settings(max_examples=share_of_examples(200), deadline=None)
@given(
    st.lists(st.integers(0, 10**10), min_size=1, max_size=120),
    st.sets(st.integers(0, 119), max_size=3),
    st.integers(1, 5),
    st.integers(0, 2**32).map(random.Random),
)
def test_items_are_answered_once_or_proven_to_fail(
    costs: list[int], poisoned: set[int], n_workers: int, chance: random.Random
) -> None:
    costs = sorted(costs, reverse=True)
    counter = counter_of(costs, kept=True)
    answered: list[int] = []
    held: list[LeaseTask] = []
    keys: set[str] = set()
    ends: dict[str, int] = {}  # of what a worker has not left to others
    while True:
        while len(held) < 3 and (task := counter.take(n_workers, f"w{chance.randrange(n_workers)}")) is not None:
            assert task.key not in keys
            keys.add(task.key)
            held.append(task)
            ends[task.key] = task.stop
        if not held:
            break
        if chance.random() < 0.3:
            task = chance.choice(held)
            stop = chance.randint(task.start, task.stop)
            if counter.share(task, stop):
                assert task.start < stop < ends[task.key]
                ends[task.key] = stop
            continue
        task = held.pop(chance.randrange(len(held)))
        end = ends[task.key]
        items = range(task.start, end)
        fate = chance.random()
        if poisoned & set(items):
            if fate < 0.5:
                counter.fail(task, ExecutionError("bug"))
            else:
                counter.lose(task, "w", was_running=True)
        elif fate < 0.2:
            counter.lose(task, "w", was_running=False)
        elif fate < 0.3 and len(items) > 1:
            counter.fail(task, LeaseTooLargeError("large"))
        else:
            stop = chance.randint(task.start, end)
            counter.answer(task, result_of(task, stop))
            assert not counter.share(task, task.start + 1)
            answered += range(task.start, stop)
    failing = poisoned & set(range(len(costs)))
    assert sorted(answered) == [item for item in range(len(costs)) if item not in failing]
    assert {each.item for each in counter.failed} == failing
    if failing:
        with pytest.raises(FailedItemsError, match=f"{len(failing)} of {len(costs)} work items"):
            counter.require_all()
    else:
        counter.require_all()


def test_innocent_leases_are_not_blamed_for_their_worker() -> None:
    counter = counter_of([5])
    for _ in range(20):
        task = counter.take(1)
        assert task is not None
        assert task.attempt == 0
        counter.lose(task, "w", was_running=False)


def test_a_lease_is_tried_before_it_is_bisected() -> None:
    counter = counter_of([3] * 8)
    for attempt in range(MAX_ATTEMPTS):
        task = counter.take(1)
        assert task is not None
        assert (task.start, task.stop, task.attempt) == (0, 8, attempt)
        counter.fail(task, ExecutionError("bug"))
    task = counter.take(1)
    assert task is not None
    assert (task.start, task.stop) == (0, 4)


def test_an_item_that_fails_ends_a_run_that_keeps_nothing() -> None:
    counter = counter_of([3])
    for _ in range(MAX_ATTEMPTS - 1):
        task = counter.take(1)
        assert task is not None
        counter.fail(task, ExecutionError("bug"))
    task = counter.take(1)
    assert task is not None
    with pytest.raises(FailedItemsError, match=r"item 0 of partition 0 \(bug\)"):
        counter.fail(task, ExecutionError("bug"))


def test_a_single_item_that_does_not_fit_is_an_error() -> None:
    counter = counter_of([3])
    task = counter.take(1)
    assert task is not None
    with pytest.raises(CapacityError, match="too large"):
        counter.fail(task, LeaseTooLargeError("too large"))


def test_answers_to_other_questions_are_refused() -> None:
    counter = counter_of([3] * 8)
    task = counter.take(1)
    assert task is not None
    for start, stop in ((1, 8), (0, 9)):
        wrong = LeaseResult(0, start, stop, 0, 0, "w", "cpu", {}, 1)
        with pytest.raises(TilingError, match="its task was"):
            counter_of_same(task).answer(task, wrong)
    counter.answer(task, result_of(task))
    with pytest.raises(TilingError, match="not a task in progress"):
        counter.answer(task, result_of(task))


def counter_of_same(task: LeaseTask) -> LeaseScheduler:
    """Return a fresh counter that has handed out an equal task."""
    counter = counter_of([3] * 8)
    assert counter.take(1) == task
    return counter


def test_measured_speeds_size_leases_and_predict_them() -> None:
    """Ten times slower than predicted: leases hold a tenth of the work."""
    item = NS // 250
    fast, slow = counter_of([item] * 100_000), counter_of([item] * 100_000)
    first = slow.take(2)
    assert first is not None
    assert slow.predict_s(first, "w0") == pytest.approx(first.work / NS)
    slow.answer(first, result_of(first, seconds=10 * first.work / NS))
    task, usual = slow.take(2), fast.take(2)
    assert task is not None
    assert usual is not None
    assert slow.predict_s(task, "w0") == pytest.approx(10 * task.work / NS)
    assert slow.predict_s(task, "another") == pytest.approx(10 * task.work / NS)
    assert task.work == pytest.approx(usual.work / 10, rel=0.01)


def test_speeds_are_in_predicted_work_whatever_an_engine_reports() -> None:
    """Engines whose work is only estimated may report other units of it."""
    item = NS // 250
    plain, odd = counter_of([item] * 100_000), counter_of([item] * 100_000)
    for counter, reported in ((plain, 1), (odd, 1000)):
        first = counter.take(2)
        assert first is not None
        answer = replace(result_of(first, seconds=3.0), work=first.work * reported)
        counter.answer(first, answer)
    one, other = plain.take(2), odd.take(2)
    assert one is not None
    assert one == other
    assert plain.predict_s(one, "w0") == odd.predict_s(one, "w0") > 0


def test_leases_of_vectors_get_short_at_the_end_only() -> None:
    """What a worker leaves is shared by all that wait for it, down to what its vector costs."""
    job = make_job(per="edge", n_edges=10**6)
    plan = plan_of(np.full(1000, NS // 30), 4, job)
    counter = LeaseScheduler(plan, "run", "/nowhere")
    first = counter.take(4, "w0")
    assert first is not None
    assert first.work / NS == pytest.approx(plan.predicted_run_s, rel=0.02)
    while (task := counter.take(4, "w1")) is not None:
        counter.answer(task, replace(result_of(task, seconds=task.work / NS), worker="w1"))
    counter.answer(first, result_of(first, first.stop - 30, first.work / NS - 1))
    shares = [counter.take(4, f"w{number}") for number in range(4)]
    assert [task.work / NS for task in shares if task] == pytest.approx([0.25] * 4, rel=0.1)
    assert plan.vector_s < 0.25 < plan.vector_s / VECTOR_OVERHEAD
    assert counter.predict_s(first, "w9") is not None
    assert all(counter.predict_s(task, "w9") is None for task in shares if task), "their vectors take as long"


@pytest.mark.parametrize(("kept", "longest_s"), [(False, MAX_LEASE_S), (True, KEPT_LEASE_S)])
def test_leases_of_long_jobs_end_by_the_clock(kept: bool, longest_s: float) -> None:
    """Before the first answer as after it."""
    counter = counter_of(np.full(200_000, NS // 100, dtype=np.int64), 1, kept=kept)
    for _ in range(3):
        task = counter.take(1)
        assert task is not None
        assert task.work / NS == pytest.approx(longest_s, rel=0.05)
        assert task.limit_s == longest_s
        counter.answer(task, result_of(task, seconds=task.work / NS))


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
@pytest.mark.parametrize("motif", [Clique(9), Butterfly()])
def test_every_worker_gets_its_share_at_once(n_workers: int, motif: Motif) -> None:
    job = make_job(motif=motif, kind=motif_row(motif).graph_kind)
    plan = plan_of(np.full(100_000, NS // 10_000), n_workers, job)
    counter = LeaseScheduler(plan, "run", None)
    tasks = [counter.take(n_workers, f"w{number}") for number in range(n_workers)]
    assert [task.work for task in tasks if task] == pytest.approx([plan.predicted_ns / n_workers] * n_workers, rel=0.01)
    assert not counter.has_more


def test_a_job_too_short_for_two_is_one_lease() -> None:
    counter = counter_of(np.full(1000, int(1.9 * SHORTEST_LEASE_S * NS / 1000)), 2)
    task = counter.take(2, "w0")
    assert task is not None
    assert (task.start, task.stop, counter.has_more) == (0, 1000, False)


def test_what_a_worker_leaves_is_for_those_that_are_idle() -> None:
    counter = counter_of(np.full(1000, NS // 100), 3)
    first, *others = (counter.take(3, f"w{number}") for number in range(3))
    assert first is not None
    for number, task in enumerate(others, start=1):
        assert task is not None
        counter.answer(task, replace(result_of(task), worker=f"w{number}"))
    assert counter.take(3, "w1") is None
    assert counter.share(first, 100)
    halves = counter.take(3, "w1"), counter.take(3, "w2")
    assert [(task.start, task.stop) for task in halves if task] == [(100, 217), (217, first.stop)]
    assert counter.predict_s(first, "w0") == pytest.approx(0.3, rel=0.01)
    with pytest.raises(TilingError, match="its task was items"):
        counter.answer(first, result_of(first, 101))


def test_the_rest_of_a_lease_that_the_clock_cut_is_shared_by_the_speed_found() -> None:
    """A worker that is ten times slower than predicted: the first lease is cut, the next ones fit it."""
    counter = counter_of(np.full(10_000, NS // 100, dtype=np.int64), 1, kept=True)
    first = counter.take(1)
    assert first is not None
    assert first.limit_s is not None
    assert first.limit_s == KEPT_LEASE_S
    done = first.start + (first.stop - first.start) // 10
    counter.answer(first, result_of(first, done, seconds=first.limit_s))
    second = counter.take(1)
    assert second is not None
    assert second.start == done
    slow = (done - first.start) / first.limit_s
    assert (second.stop - second.start) / slow <= 1.1 * KEPT_LEASE_S
