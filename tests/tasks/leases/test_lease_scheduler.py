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
from papilio.kernels.engine import EngineName
from papilio.motifs import Clique
from papilio.tasks.forecast import NS
from papilio.tasks.job import LeaseResult, LeaseTask
from papilio.tasks.lease_scheduler import MAX_ATTEMPTS, LeaseScheduler
from papilio.tasks.leases import (
    FIRST_LIMIT_S,
    KEPT_LEASE_S,
    LATE,
    MAX_LEASE_S,
    SHORTEST_LEASE_S,
    VECTOR_OVERHEAD,
)
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
    while True:
        while len(held) < 3 and (task := counter.take(n_workers)) is not None:
            assert task.key not in keys
            keys.add(task.key)
            held.append(task)
        if not held:
            break
        task = held.pop(chance.randrange(len(held)))
        items = range(task.start, task.stop)
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
            stop = chance.randint(task.start, task.stop)
            counter.answer(task, result_of(task, stop))
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
        with pytest.raises(TilingError, match="it was handed"):
            counter_of_same(task).answer(task, wrong)
    counter.answer(task, result_of(task))
    with pytest.raises(TilingError, match="not handed out"):
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
    task = slow.take(2)
    assert task is not None
    assert slow.predict_s(task, "w0") == pytest.approx(10 * task.work / NS)
    assert slow.predict_s(task, "another") == pytest.approx(10 * task.work / NS)

    def least(counter: LeaseScheduler) -> int:
        works = []
        while (lease := counter.take(2)) is not None:
            works.append(lease.work)
        return min(works)

    assert least(slow) < least(fast) / 5


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
    """What a cut gives back is shared by all that wait for it, down to what its vector costs."""
    job = make_job(per="edge", n_edges=10**6)
    plan = plan_of(np.full(200_000, NS // 30), 4, job)
    counter = LeaseScheduler(plan, "run", "/nowhere")
    works: list[float] = []
    left = plan.predicted_ns / NS
    usual_s = plan.vector_s / VECTOR_OVERHEAD
    while (task := counter.take(4)) is not None:
        seconds = task.work / NS
        least_s = usual_s if left >= 4 * usual_s else plan.vector_s
        assert seconds >= 0.99 * least_s
        works.append(seconds)
        left -= seconds
    assert min(works) < 0.5 * usual_s


def test_leases_of_a_ledger_are_short_and_end_by_the_clock() -> None:
    """Of a job of many minutes; before the first answer as after it, and only where what is finished is kept."""
    costs = np.full(200_000, NS // 100, dtype=np.int64)
    for kept, longest_s in ((False, MAX_LEASE_S), (True, KEPT_LEASE_S)):
        counter = counter_of(costs, 1, kept=kept)
        for limit_s in (FIRST_LIMIT_S, LATE * longest_s, LATE * longest_s):
            task = counter.take(1)
            assert task is not None
            assert task.work / NS == pytest.approx(longest_s, rel=0.05)
            assert task.limit_s == (limit_s if kept else None)
            counter.answer(task, result_of(task, seconds=task.work / NS))


def play(counter: LeaseScheduler, n_workers: int, seconds_each: float) -> list[float]:
    """Return when each worker ends, of workers that hold two leases and take so long for an item; nothing is cut."""
    ends = [0.0] * n_workers
    held: list[list[LeaseTask]] = [[] for _ in ends]
    while True:
        for _ in range(2):
            for worker in held:
                if len(worker) < 2 and (task := counter.take(n_workers)) is not None:
                    worker.append(task)
        busy = [
            (ends[i] + seconds_each * (each[0].stop - each[0].start), i)
            for i, each in enumerate(held)
            if each
        ]
        if not busy:
            return ends
        ends[min(busy)[1]], at = min(busy)
        task = held[at].pop(0)
        counter.answer(
            task, replace(result_of(task, seconds=seconds_each * (task.stop - task.start)), worker=f"w{at}")
        )


@pytest.mark.parametrize("seconds_each", [1e-7, 1e-3, 10.0])
def test_a_search_is_shared_however_wrong_its_prediction_is(seconds_each: float) -> None:
    """Ten milliseconds of predicted work, in 10,000 items, of which each worker has its share all the same."""
    plan = plan_of(np.full(10_000, 8), 4, make_job(motif=Clique(9), kind="unipartite"))
    assert plan.predicted_run_s < 0.01
    ends = play(LeaseScheduler(plan, "run", None), 4, seconds_each)
    ideal = 10_000 * seconds_each / 4
    assert max(ends) < max(1.1 * ideal, SHORTEST_LEASE_S)


@pytest.mark.parametrize(
    ("engine", "n_workers", "kept", "is_whole"),
    [("gpu", 1, False, True), ("gpu", 1, True, False), ("gpu", 2, False, False), ("cpu", 1, False, False)],
)
def test_a_gpu_that_searches_alone_is_leased_all_at_once(
    engine: EngineName, n_workers: int, kept: bool, is_whole: bool
) -> None:
    """Each lease of a search on a GPU ends with few of its blocks busy; a rest can be shared, or what is done kept."""
    job = make_job(motif=Clique(9), kind="unipartite")
    plan = replace(plan_of(np.full(10_000, 8), n_workers, job), engine=engine)
    task = LeaseScheduler(plan, "run", None, kept=kept).take(n_workers)
    assert task is not None
    assert ((task.start, task.stop) == (0, 10_000)) == is_whole


def test_work_that_is_known_is_leased_at_once() -> None:
    task = LeaseScheduler(plan_of(np.full(10_000, 8), 4), "run", None).take(4)
    assert task is not None
    assert (task.start, task.stop) == (0, 10_000)


def test_a_search_whose_leases_have_large_vectors_is_not_tried() -> None:
    job = make_job(motif=Clique(9), kind="unipartite", per="vertex", n_u=10**8, n_v=10**8)
    plan = plan_of(np.full(10_000, 8), 4, job)
    assert plan.vector_s > SHORTEST_LEASE_S
    task = LeaseScheduler(plan, "run", "/nowhere").take(4)
    assert task is not None
    assert (task.start, task.stop) == (0, 10_000)


def test_the_rest_of_a_lease_that_the_clock_cut_is_shared_by_the_speed_found() -> None:
    """A worker that is ten times slower than predicted: the first lease is cut, the next ones fit it."""
    counter = counter_of(np.full(10_000, NS // 100, dtype=np.int64), 1, kept=True)
    first = counter.take(1)
    assert first is not None
    assert first.limit_s is not None
    done = first.start + (first.stop - first.start) // 10
    counter.answer(first, result_of(first, done, seconds=first.limit_s))
    second = counter.take(1)
    assert second is not None
    assert second.start == done
    slow = (done - first.start) / first.limit_s
    assert (second.stop - second.start) / slow <= 1.1 * KEPT_LEASE_S
