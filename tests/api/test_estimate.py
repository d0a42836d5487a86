"""Estimates as users ask for them: the Python function, the command, and what is refused."""

from __future__ import annotations

import csv
import itertools
import json
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio.api.estimate import Estimate, EstimateCall
from papilio.cluster import estimate_job as estimating
from papilio.cluster.estimate_job import Goal
from papilio.cluster.executor import Executor, InlineExecutor
from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.motifs import Biclique, Butterfly, Clique, Motif
from papilio.storage.store import write_store
from papilio.tasks import probe_statistics
from papilio.tasks.probe_statistics import SLICE
from tests.tools.commands import Run
from tests.tools.pairs import all_pairs
from tests.tools.strategies import skewed_graph

GRAPH = skewed_graph(3, 120, 90, 1500)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("estimate") / "graph"
    write_store(path, GRAPH, provenance={})
    return path


def sample(graph: Any, motif: Motif, goal: Goal, seed: int = 0, cluster: Any = None, **how: Any) -> Estimate:
    """Estimate, however quickly the motifs could be counted."""
    call = EstimateCall(graph, motif, goal, seed, cluster=cluster, engine="cpu", **how)
    return call.estimate(may_count=False)


def never_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimate what could be counted in less time."""
    monkeypatch.setattr(EstimateCall, "estimate", partialmethod(EstimateCall.estimate, may_count=False))


def facts_of(estimate: Estimate) -> dict[str, Any]:
    """What does not depend on where an estimate was made."""
    facts = estimate.to_dict()
    return {name: facts[name] for name in facts if name not in ("cluster", "seconds", "graph", "engine")}


@pytest.mark.parametrize(
    ("motif", "error"),
    all_pairs([Biclique(3, 3), Biclique(4, 3), Biclique(3, None, max_q=4), Butterfly()], [0.2, 0.02], share=2),
    ids=str,
)
def test_estimates_reach_the_error(motif: Motif, error: float) -> None:
    exact = papilio.count(GRAPH, motif, engine="cpu").count
    found = sample(GRAPH, motif, Goal(error, 0.99, None))
    low, high = found.interval
    assert low <= exact <= high
    assert low <= found.count <= high
    assert found.relative_error <= error
    assert (found.exact, found.is_reliable, found.warning) == (None, True, "")
    assert found.motif == motif


@pytest.mark.slow
def test_the_seed_decides(store: Path) -> None:
    """Neither the workers nor the form of the graph do."""
    goal = Goal(0.01, 0.95, None)
    one = facts_of(sample(GRAPH, Biclique(4, 3), goal, 7))
    assert one == facts_of(sample(GRAPH, Biclique(4, 3), goal, 7, InlineExecutor(threads=1)))
    assert one == facts_of(sample(store, Biclique(4, 3), goal, 7))
    assert one["count"] != facts_of(sample(GRAPH, Biclique(4, 3), goal, 8))["count"]
    cluster: Executor
    with papilio.open_cluster("local", workers=2) as cluster:
        assert one == facts_of(sample(store, Biclique(4, 3), goal, 7, cluster))


def test_what_is_counted_quickly_is_counted() -> None:
    found = papilio.estimate(GRAPH, Biclique(4, 3), engine="cpu")
    exact = papilio.count(GRAPH, Biclique(4, 3), engine="cpu").count
    assert (found.exact, found.count, found.interval) == (exact, exact, (exact, exact))
    assert (found.std_error, found.relative_error, found.probes) == (0, 0, 0)
    assert found.kind == "exact"
    assert "counted, because counting takes no longer than estimating" in repr(found)
    for motif in (Biclique(2, 3), Biclique(1, 4)):  # nothing is left to search
        found = sample(GRAPH, motif, Goal(0.1, 0.95, None))
        assert found.exact == papilio.count(GRAPH, motif, engine="cpu").count
    with pytest.raises(CapacityError, match="exceeds 1e308"):
        papilio.estimate(papilio.BipartiteGraph.from_edges([0] * 1100, range(1100)), Biclique(1, None))


def test_the_time_ends_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of a second passes whenever the time is read."""
    clock = itertools.count()
    for module in (estimating, probe_statistics):
        monkeypatch.setattr(module, "run_clock", lambda: next(clock) / 100)
    found = sample(GRAPH, Biclique(4, 3), Goal(0.0001, 0.95, 0.2))
    assert 0.2 <= found.seconds["probe"] < 0.5
    assert found.is_reliable
    assert found.relative_error > 0.0001
    assert found.warning.endswith(", not ±0.01%: allow more seconds")


def test_the_time_ends_a_slow_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes whenever the time is read, so that the first slice does not end before it is over."""
    clock = itertools.count()
    for module in (estimating, probe_statistics):
        monkeypatch.setattr(module, "run_clock", lambda: float(next(clock)))
    found = sample(GRAPH, Biclique(4, 3), Goal(0.0001, 0.95, 12.0))
    assert found.seconds["probe"] <= 18
    assert 64 <= found.probes < SLICE
    with pytest.raises(CapacityError, match="allow more seconds"):
        sample(GRAPH, Biclique(4, 3), Goal(0.0001, 0.95, 4.0))
    with pytest.raises(CapacityError, match="allow more seconds"):  # nor is it counted, which takes longer than that
        papilio.estimate(GRAPH, Biclique(4, 3), seconds=1e-6, engine="cpu")


def carried_by_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_statistics, "GOOD_PROBES", 1e9)


def test_what_few_probes_carry_has_no_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    carried_by_few(monkeypatch)
    found = sample(GRAPH, Biclique(4, 3), Goal(0.1, 0.95, None))
    exact = papilio.count(GRAPH, Biclique(4, 3), engine="cpu").count
    low, high = found.interval
    assert 0 < low <= exact < high == found.relative_error == float("inf")
    assert (found.kind, found.is_reliable) == ("at_least", False)
    assert found.warning.startswith("few probes dominate the estimate")
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (facts["kind"], facts["reliable"], facts["interval"]) == ("at_least", False, [low, None])
    table = found.to_arrow()
    assert table.schema.field("high").type == table.schema.field("low").type
    assert table.select(["kind", "low", "high"]).to_pylist() == [{"kind": "at_least", "low": low, "high": None}]
    assert f"at least {low:.4g} with 0.975 confidence" in repr(found)
    assert found.plot() is not None


def test_the_command_prints_the_lower_end_alone(
    store: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    never_count(monkeypatch)
    carried_by_few(monkeypatch)
    words = "estimate", "biclique", store, "-p", 4, "-q", 3, "--error", "50%", "--engine", "cpu"
    code, out, err = run(*words)
    assert (code, out.startswith(">= "), len(out.split())) == (9, True, 2)
    assert float(out.split()[1]) <= papilio.count(GRAPH, Biclique(4, 3)).count
    assert "warning: few probes dominate the estimate" in err
    code, out, _ = run(*words, "--json")
    assert (code, json.loads(out)["interval"][1]) == (9, None)
    code, out, _ = run(*words, "--format", "csv")
    (row,) = csv.DictReader(out.splitlines())
    assert (code, row["kind"], row["high"]) == (9, "at_least", "")


def test_nothing_found_is_doubted() -> None:
    """A graph whose only (6,6)-biclique lies where few probes go."""
    found = sample(GRAPH, Biclique(9, 9), Goal(0.1, 0.95, 0.5))
    assert found.count == papilio.count(GRAPH, Biclique(9, 9)).count == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": 0}, "error is 0; expected a share between 0 and 1, such as 0.01 for 1 %"),
        ({"error": 1}, "error is 1; expected a share between 0 and 1, such as 0.01 for 1 %"),
        ({"error": float("nan")}, "error is nan; expected a number"),
        ({"confidence": 1}, "confidence is 1; expected a probability between 0 and 1, such as 0.95"),
        ({"confidence": 1 - 2**-53}, "confidence is 1; expected a probability between 0 and 1, such as 0.95"),
        ({"confidence": 0.0}, "confidence is 0; expected a probability between 0 and 1, such as 0.95"),
        ({"seconds": 0}, "seconds is 0; expected a time above 0, or leave it out"),
        ({"seed": -1}, "seed is -1; the minimum is 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        papilio.estimate(GRAPH, Biclique(3, 3), **options)
    assert str(caught.value) == message


def test_questions_without_estimates_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="unipartite"):
        papilio.estimate(GRAPH, Clique(3))


def test_the_command(store: Path, run: Run) -> None:
    exact = str(papilio.count(GRAPH, Biclique(4, 3)).count)
    code, out, err = run("estimate", "biclique", store, "-p", 4, "-q", 3, "--engine", "cpu")
    assert (code, out.strip()) == (0, exact)
    assert "counted, because counting takes no longer than estimating" in err
    code, out, _ = run("estimate", "biclique", store, "-p", 4, "-q", 3, "--error", "2%", "--json")
    answer = json.loads(out)
    assert (code, answer["exact"], answer["error"], answer["confidence"]) == (0, int(exact), 0.02, 0.95)
    code, _, err = run("estimate", "biclique", store, "-p", 4, "-q", 3, "--error", "0%")
    assert (code, err.splitlines()[-1]) == (
        2,
        "papilio: error is 0; expected a share between 0 and 1, such as 0.01 for 1 %",
    )
    code, _, err = run("estimate", "biclique", store, "-p", 4, "-q", 3, "--confidence", "most")
    assert code == 2
    assert "'most' is not a share; write 1% or 0.01" in err


def test_the_command_prints_an_interval(store: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    never_count(monkeypatch)
    code, out, err = run("estimate", "biclique", store, "-p", 4, "-q", 3, "--error", "50%", "--engine", "cpu")
    assert code == 0
    estimate, low, high = map(float, out.split())
    assert low < papilio.count(GRAPH, Biclique(4, 3)).count < high
    assert low < estimate < high
    assert "probes, equivalent to" in err


def test_the_command_writes_a_row(store: Path, run: Run, tmp_path: Path) -> None:
    words = "estimate", "biclique", store, "-p", 3, "-q", 3
    code, out, err = run(*words, "--output", tmp_path / "total.csv")
    assert (code, len(out.splitlines())) == (0, 1)
    assert f"rows: {tmp_path / 'total.csv'}" in err
    with (tmp_path / "total.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (int(row["exact"]), row["engine"]) == (papilio.count(store, Biclique(3, 3)).count, "cpu")
