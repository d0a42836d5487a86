"""Speed-up and efficiency of hand-made runs, models that grow, and tables of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from papilio.errors import ExecutionError, InputError
from papilio.reports.experiment import grow_model, parse_model
from papilio.reports.measure import Run, gather_points, rows_of
from papilio.reports.timeline import lease_rows, measure_timeline, timeline_of
from papilio.storage.answers import write_rows
from papilio.storage.graph_models import Blocks, Complete, Planted, PowerLaw, Rmat
from papilio.tasks.job import LeaseResult


def run(workers: int, repeat: int, counting_s: float, work: int = 1000, **changed: Any) -> Run:
    """Return a run whose time after start and reading is as given."""
    fields: dict[str, Any] = {
        "workers": workers, "repeat": repeat, "count": 6, "work": work, "work_unit": "wedges", "leases": 3,
        "seconds": {"start": 3.0, "read": 2.0, "run": counting_s, "total": counting_s + 5.0},
        "measures": measure_timeline([], workers), "peak_bytes": 5, "graph_hash": "g", "n_edges": 9,
        "engine": "cpu", "cluster": "local", "hosts": ("h",), "began_at": 1.0, "versions": {"papilio": "1"},
        "job": f"jobs/w{workers}-r{repeat}",
    }  # fmt: skip
    return Run(**{**fields, **changed})


def test_strong_scaling_is_the_ratio_of_median_times() -> None:
    runs = [run(4, 1, 3.0), run(1, 1, 8.0), run(1, 2, 10.0), run(1, 3, 9.0), run(2, 1, 5.0)]
    one, two, four = gather_points(runs)
    assert [point.workers for point in (one, two, four)] == [1, 2, 4]
    assert (one.seconds_min, one.seconds_median, one.seconds_max) == (8, 9, 10)
    assert one.middle.repeat == 3
    assert (one.speedup, one.efficiency) == (1, 1)
    assert (two.speedup, two.efficiency) == (pytest.approx(1.8), pytest.approx(0.9))
    assert (four.speedup, four.efficiency, four.ideal) == (pytest.approx(3), pytest.approx(0.75), 4)
    assert one.to_dict()["runs"] == ["jobs/w1-r1", "jobs/w1-r2", "jobs/w1-r3"]


def test_an_even_number_of_runs_gives_the_ratio_of_median_times() -> None:
    one, two = gather_points([run(1, 1, 8.0), run(1, 2, 2.0), run(2, 1, 2.0), run(2, 2, 3.0)])
    assert (one.speedup, one.middle.repeat) == (1, 2)
    assert two.speedup == pytest.approx(5 / 2.5)


def test_the_smallest_number_of_workers_need_not_be_one() -> None:
    two, eight = gather_points([run(8, 1, 3.0), run(2, 1, 9.0)])
    assert (two.ideal, eight.ideal) == (1, 4)
    assert eight.efficiency == pytest.approx(0.75)


def test_a_graph_without_work_scales_by_its_times() -> None:
    _, two = gather_points([run(1, 1, 4.0, 0), run(2, 1, 2.0, 0)])
    assert (two.speedup, two.speedups, two.efficiency) == (2, (2,), 1)


def test_weak_scaling_compares_work_per_second() -> None:
    runs = [run(1, 1, 10.0, 1000, graph_hash="a", count=1), run(2, 1, 11.0, 2200, graph_hash="b", count=2)]
    _, two = gather_points(runs)
    assert (two.speedup, two.efficiency) == (pytest.approx(2), pytest.approx(1))


def test_counts_that_differ_are_loud() -> None:
    with pytest.raises(ExecutionError, match="the counts of graph g differ: 6 in jobs/w1-r1, 7 in jobs/w2-r1"):
        gather_points([run(1, 1, 1.0), run(2, 1, 1.0, count=7)])


def test_rows_have_the_speedup_of_each_run() -> None:
    rows = rows_of(gather_points([run(1, 1, 8.0), run(2, 1, 4.0), run(2, 2, 5.0)]))
    assert [(row["workers"], row["repeat"], row["speedup"]) for row in rows] == [
        (1, 1, 1), (2, 1, 2), (2, 2, pytest.approx(1.6)),
    ]  # fmt: skip
    assert rows[1]["efficiency"] == 1
    assert (rows[1]["seconds_counting"], rows[1]["seconds_total"]) == (4, 9)
    assert gather_points([]) == ()


def test_rows_survive_parquet(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_rows(path, {"a": "int", "b": "float", "c": "text"}, [{"a": 1, "b": 0.5, "c": "x", "d": 2}, {"a": None}])
    assert pq.read_table(path).to_pylist() == [
        {"a": 1, "b": 0.5, "c": "x"},
        {"a": None, "b": None, "c": None},
    ]


def test_models_are_parsed_and_grow() -> None:
    assert parse_model("complete:n_u=5,n-v=7") == Complete(5, 7)
    assert parse_model("rmat:scale_u=5,scale_v=4,edges=1e3,compact=true") == Rmat(5, 4, 1000, compact=True)
    assert parse_model("blocks:shapes=3*5x7+1x9") == Blocks("3*5x7+1x9")
    assert parse_model("blocks:shapes=50") == Blocks("50")
    assert grow_model(Complete(5, 7), 3) == Complete(15, 7)
    assert grow_model(Blocks("3*5x7+1x9"), 2) == Blocks("6*5x7+2*1x9")
    assert grow_model(Rmat(5, 4, 100), 4) == Rmat(7, 4, 400)
    assert grow_model(PowerLaw(10, 20, exponent_u=2.2), 2) == PowerLaw(20, 40, exponent_u=2.2)
    assert grow_model(Planted(10, 20, 3, 4, 5, 6), 2) == Planted(20, 40, 6, 4, 5, 12)
    assert grow_model(PowerLaw(10, None), 2) == PowerLaw(20, None)
    with pytest.raises(InputError, match="cannot grow 3 times"):
        grow_model(Rmat(5, 4, 100), 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("star:n=5", "model is 'star'; known: rmat, power-law"),
        ("complete:n_u=5,sides=2", "'sides=2' is not a parameter of the model complete"),
        ("complete", "needs n_u"),
        ("complete:n_u=two", "n_u is 'two'; expected an integer"),
        ("complete:name=2", "'name=2' is not a parameter of the model complete; known: n_u, n_v"),
        ("rmat:scale_u=5,edges=1,compact=maybe", "compact is 'maybe'; expected True or False"),
        ("complete:n_u=2.5", "n_u is 2.5; expected an integer"),
    ],
)
def test_models_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_model(text)


def span(worker: str, began_at: float, ended_at: float, run_s: float | None = None) -> LeaseResult:
    """Return a lease that was in the engine all the time, unless it says otherwise."""
    seconds = {"run": ended_at - began_at if run_s is None else run_s}
    return LeaseResult(0, 0, 1, 1, 10, worker, "cpu", seconds, 100, began_at=began_at, ended_at=ended_at)


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


def test_the_timeline_of_leases_and_its_rows() -> None:
    leases = [
        LeaseResult(0, 5, 9, 1, 7, "b", "cpu", {"run": 0.5}, 11, began_at=1.0, ended_at=2.0),
        LeaseResult(0, 0, 5, 1, 8, "a", "cpu", {"run": 0.25}, 12, began_at=1.5, ended_at=2.5),
    ]
    rows = list(lease_rows(timeline_of(leases), session=3))
    assert [(row["worker"], row["start"], row["run_s"], row["work"]) for row in rows] == [
        ("a", 0, 0.25, 8),
        ("b", 5, 0.5, 7),
    ]
    assert rows[0]["session"] == 3
    assert rows[0]["ended_at"] == 2.5
