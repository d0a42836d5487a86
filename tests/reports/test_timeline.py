"""Overhead, tail and balance of hand-made timelines."""

from __future__ import annotations

import pytest

from papilio.reports.job import LeaseSpan, measure_timeline, span_rows, spans_of
from papilio.tasks.reports import LeaseResult


def span(worker: str, began_at: float, ended_at: float, run_s: float | None = None) -> LeaseSpan:
    """Return a lease that was in the engine all the time, unless it says otherwise."""
    return LeaseSpan(
        worker, 0, 0, 1, began_at, ended_at, ended_at - began_at if run_s is None else run_s, 10, 100
    )


def test_two_even_workers_lose_nothing() -> None:
    found = measure_timeline([span("a", 0, 5), span("b", 0, 5), span("a", 5, 10), span("b", 5, 10)], 2)
    assert (found.wall_s, found.busy_s, found.overhead) == (10, 20, 0)
    assert (found.tail_s, found.balance) == (0, 1)
    assert [(load.worker, load.leases, load.work) for load in found.loads] == [("a", 2, 20), ("b", 2, 20)]


def test_a_long_last_lease_is_the_tail() -> None:
    found = measure_timeline([span("a", 100, 104), span("b", 100, 110)], 2)
    assert found.tail_s == 6
    assert found.overhead == pytest.approx(1 - 14 / 20)
    assert found.balance == pytest.approx(10 / 7)


def test_the_wall_time_given_holds_what_the_leases_do_not_show() -> None:
    found = measure_timeline([span("a", 1, 5), span("b", 2, 5)], 2, wall_s=5)
    assert found.overhead == pytest.approx(1 - 7 / 10)
    assert found.tail_s == 0


def test_only_seconds_in_the_engine_are_busy() -> None:
    found = measure_timeline([span("a", 0, 10, run_s=4)], 1)
    assert (found.busy_s, found.overhead, found.balance) == (4, 0.6, 1)


def test_a_worker_without_a_lease_is_idle_from_the_first_lease_on() -> None:
    found = measure_timeline([span("a", 3, 5), span("b", 3, 7)], 3)
    assert found.tail_s == 4
    assert found.balance == 2
    assert found.overhead == 0.5


def test_no_leases_at_all() -> None:
    found = measure_timeline([], 4)
    assert (found.loads, found.n_workers, found.overhead, found.tail_s) == ((), 4, 0, 0)


def test_spans_of_leases_and_their_rows() -> None:
    leases = [
        LeaseResult(0, 5, 9, 1, 7, "b", "cpu", {"run": 0.5}, 11, began_at=1.0, ended_at=2.0),
        LeaseResult(0, 0, 5, 1, 8, "a", "cpu", {"run": 0.25}, 12, began_at=1.5, ended_at=2.5),
    ]
    spans = spans_of(leases)
    assert [(each.worker, each.start, each.run_s, each.work) for each in spans] == [
        ("a", 0, 0.25, 8),
        ("b", 5, 0.5, 7),
    ]
    rows = list(span_rows(spans, session=3))
    assert rows[0]["session"] == 3
    assert rows[0]["ended_at"] == 2.5
