"""Estimates as users ask for them: the Python function, the command, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.api.estimate import Estimate, EstimateCall
from papilio.cluster import estimating
from papilio.cluster.estimating import Goal
from papilio.cluster.executor import Executor, InlineExecutor
from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.motifs import BalancedBiclique, BalancedButterfly, Biclique, Butterfly, Clique, Motif
from papilio.storage.store import write_store
from tests.conftest import share_of_examples
from tests.kernels.clique.test_clique import random_graph
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


SIGNED = BipartiteGraph.from_edges(
    GRAPH.u, GRAPH.v, sign=np.where(np.arange(GRAPH.n_edges) % 5 < 2, -1, 1).astype(np.int8)
)
FRIENDS = random_graph(2, 60, 0.5)


def flat(found: Estimate, name: str) -> Any:
    return np.concatenate([columns[name] for columns in found.vertices.values()])


@pytest.mark.parametrize(
    ("graph", "motif"),
    [
        (GRAPH, Butterfly()), (GRAPH, Biclique(2, 3)), (GRAPH, Biclique(3, 3)),
        pytest.param(GRAPH, Biclique(3, 2), marks=pytest.mark.slow),
        (SIGNED, BalancedButterfly()), (SIGNED, BalancedBiclique(3, 3)), (FRIENDS, Clique(3)), (FRIENDS, Clique(5)),
    ],
)  # fmt: skip
def test_estimates_of_vertices_are_unbiased_and_their_intervals_hold(graph: Any, motif: Motif) -> None:
    vectors = papilio.count(graph, motif, per="vertex", engine="cpu").vectors
    exact = np.concatenate([vectors[layer] for layer in vectors]).astype(float)
    goal, seeds, held, reliable = Goal(0.3, 0.95, None), share_of_examples(60), [], []
    wider = math.sqrt(60 / seeds)
    total, in_all = np.zeros(exact.size), papilio.count(graph, motif, engine="cpu").count
    for seed in range(seeds):
        found = sample(graph, motif, goal, seed, per="vertex")
        assert found.top_error is not None
        assert found.top_error <= 0.3
        values, low, high = (flat(found, name) for name in ("estimate", "low", "high"))
        is_good = flat(found, "reliable")
        assert not values[exact == 0].any(), "no motif, no share"
        held.append(((low <= exact) & (exact <= high))[is_good])
        reliable.append(is_good[exact > 0].mean())
        total += values
        members = values.sum() / found.count
        assert members == pytest.approx(exact.sum() / in_all)
    assert abs(np.concatenate(held).mean() - 0.95) <= 0.025 * wider
    assert np.mean(reliable) > 0.5
    top = np.argsort(-exact)[:30]
    assert np.abs(total / seeds - exact)[top].max() < 0.06 * wider * exact[top].min()


def test_the_seed_decides_estimates_of_vertices(store: Path) -> None:
    goal = Goal(0.2, 0.95, None)
    one = sample(GRAPH, Biclique(3, 3), goal, 7, per="vertex")
    with papilio.open_cluster("local", workers=2) as cluster:
        others = [
            sample(GRAPH, Biclique(3, 3), goal, 7, InlineExecutor(threads=1), per="vertex"),
            sample(store, Biclique(3, 3), goal, 7, cluster, per="vertex"),
        ]
    for other in others:
        for name in ("estimate", "std_error", "low", "high", "reliable"):
            np.testing.assert_array_equal(flat(one, name), flat(other, name))
    assert (flat(one, "estimate") != flat(sample(GRAPH, Biclique(3, 3), goal, 8, per="vertex"), "estimate")).any()


def test_vertices_that_no_probe_met_have_no_error() -> None:
    found = sample(GRAPH, Biclique(3, 3), Goal(0.2, 0.95, None), per="vertex")
    values, high = flat(found, "estimate"), flat(found, "high")
    assert (values == 0).any()
    np.testing.assert_array_equal(np.isnan(high), values == 0)
    np.testing.assert_array_equal(np.isnan(flat(found, "std_error")), values == 0)
    assert not flat(found, "reliable")[values == 0].any()


def test_files_of_vertices(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = papilio.estimate(store, Biclique(3, 3), per="vertex", output=tmp_path / "counts.parquet")
    exact = papilio.count(store, Biclique(3, 3), per="vertex")
    assert counted.exact == exact.count
    table = pq.read_table(tmp_path / "counts.parquet")
    assert table.column_names == ["layer", "id", "count"]
    assert table["count"].to_pylist() == [*exact.vectors["u"].tolist(), *exact.vectors["v"].tolist()]
    never_count(monkeypatch)
    found = papilio.estimate(
        store, Biclique(3, 3), per="vertex", error=0.9, engine="cpu", output=tmp_path / "estimates.parquet"
    )
    assert found.exact is None
    table = pq.read_table(tmp_path / "estimates.parquet")
    assert table.column_names == ["layer", "id", "estimate", "std_error", "low", "high", "reliable"]
    assert table["estimate"].to_pylist() == flat(found, "estimate").tolist()
    assert table["high"].null_count == int((flat(found, "estimate") == 0).sum())
    largest = found.top(1)[0]
    assert largest.estimate == max(found.vertices["u"]["estimate"])
    assert found.vertices["u"]["estimate"][largest.ids[0]] == largest.estimate
    assert largest.low <= largest.estimate <= largest.high


def test_what_is_counted_quickly_is_counted() -> None:
    found = papilio.estimate(GRAPH, Biclique(4, 3), engine="cpu")
    exact = papilio.count(GRAPH, Biclique(4, 3), engine="cpu").count
    assert (found.exact, found.count, found.interval) == (exact, exact, (exact, exact))
    assert (found.std_error, found.relative_error, found.probes) == (0, 0, 0)
    assert "exactly" in repr(found)
    for motif in (Biclique(2, 3), Biclique(1, 4)):  # nothing is left to search
        found = sample(GRAPH, motif, Goal(0.1, 0.95, None))
        assert found.exact == papilio.count(GRAPH, motif, engine="cpu").count
    with pytest.raises(CapacityError, match="exceeds 1e308"):
        papilio.estimate(papilio.BipartiteGraph.from_edges([0] * 1100, range(1100)), Biclique(1, None))


def test_the_time_ends_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of a second passes whenever the time is read."""
    clock = itertools.count()
    monkeypatch.setattr(estimating, "perf_counter", lambda: next(clock) / 100)
    found = sample(GRAPH, Biclique(4, 3), Goal(0.0001, 0.95, 0.2))
    assert 0.2 <= found.seconds["probe"] < 0.5
    assert found.is_reliable
    assert found.relative_error > 0.0001
    assert found.warning.endswith(", not ±0.01%: allow more seconds")


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
    with pytest.raises(UnsupportedError, match="per is 'edge'; counts per edge cannot be estimated"):
        papilio.estimate(GRAPH, Butterfly(), per="edge")
    with pytest.raises(UnsupportedError, match="counts per vertex are estimated on CPUs"):
        papilio.estimate(GRAPH, Biclique(3, 3), per="vertex", engine="gpu")
    with pytest.raises(UnsupportedError, match="a table of counts cannot be counted per vertex"):
        papilio.estimate(GRAPH, Biclique(3, None), per="vertex")
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


def test_the_command_estimates_vertices(store: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "estimate", "biclique", store, "-p", 3, "-q", 3, "--per", "vertex", "--error", "90%"
    largest = papilio.count(store, Biclique(3, 3), per="vertex").top(10)
    code, out, err = run(*words)
    assert (code, out.splitlines()[1:]) == (0, [f"{e.place}\t{e.labels[0]}\t{e.count}" for e in largest])
    assert "largest estimates" not in err
    never_count(monkeypatch)
    found = papilio.estimate(store, Biclique(3, 3), error=0.9, per="vertex", engine="cpu")
    assert found.exact is None
    code, out, err = run(*words)
    rows = [f"{e.place}\t{e.ids[0]}\t{e.estimate:.6g}\t{e.low:.6g}\t{e.high:.6g}" for e in found.top()]
    assert (code, out.splitlines()[1:]) == (0, rows)
    assert f"largest estimates of vertices: ±{found.top_error:.2%}, as a root mean square" in err
    code, out, _ = run(*words, "--json")
    answer = json.loads(out)
    assert (answer["per"], answer["top_error"]) == ("vertex", found.top_error)
    assert answer["top"] == [entry.to_dict() for entry in found.top()]
    code, out, _ = run(*words, "--format", "tsv")
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == ["layer", "id", "estimate", "std_error", "low", "high", "reliable"]
    assert len(lines) == 1 + GRAPH.n_u + GRAPH.n_v
    assert [float(line[2]) for line in lines[1:]] == pytest.approx(flat(found, "estimate"))
    code, out, err = run(*words, "--output", tmp_path / "vertices.parquet")
    assert (code, len(out.splitlines())) == (0, 1)
    assert f"estimates per vertex: {tmp_path / 'vertices.parquet'}" in err
    assert pq.read_table(tmp_path / "vertices.parquet").to_pydict() == found.to_arrow().to_pydict()
    code, out, err = run(*words[:-4], "--output", tmp_path / "total.csv")
    assert (code, len(out.splitlines())) == (0, 1)
    assert f"row: {tmp_path / 'total.csv'}" in err
