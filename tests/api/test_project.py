"""Projections as users ask for them: rows, files, stores, jobs, the command line, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy

import papilio
from papilio.cluster.events import Event, LeaseFinished, RowsKnown
from papilio.cluster.executor import Executor
from papilio.errors import CapacityError, ExecutionError, InputError, StoreError, UnsupportedError
from papilio.kernels.project import sampled
from papilio.motifs import motif_to_json
from papilio.storage.store import open_store
from papilio.tasks import leases as lease_policy
from tests.tools.commands import Run
from tests.tools.listings import write_many, write_women

HYPER = "hypergeometric"


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    """The Southern Women graph, with women and events as labels."""
    return write_women(example_data, tmp_path_factory.mktemp("women"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many(tmp_path_factory.mktemp("many"))


def as_networkx(path: Path) -> tuple[nx.Graph, dict[str, list[Any]]]:
    """Return a bipartite graph of NetworkX, and the vertices of each layer."""
    graph = nx.Graph()
    opened = papilio.read(path)
    labels: dict[str, Any] = {layer: opened.held.labels(layer) for layer in ("u", "v")}  # type: ignore[arg-type]
    edges: Any = open_store(path).read()
    ends = [labels[layer][ids].tolist() for layer, ids in (("u", edges.u), ("v", edges.v))]
    graph.add_edges_from(zip(*ends, strict=True))
    return graph, {layer: each.tolist() for layer, each in labels.items()}


def pairs_of(rows: Any) -> dict[frozenset[Any], Any]:
    return {frozenset(row[:2]): row[2:] for row in rows}


@pytest.mark.parametrize("layer", ["u", "v"])
def test_weights_are_those_of_networkx(women: Path, layer: Any) -> None:
    graph, vertices = as_networkx(women)
    bipartite = nx.bipartite
    plain = bipartite.weighted_projected_graph(graph, vertices[layer])
    common = {frozenset((a, b)): (n,) for a, b, n in plain.edges(data="weight")}
    assert pairs_of(papilio.project(women, layer, min_common=1)) == common
    for weighting, projected in (
        ("jaccard", bipartite.overlap_weighted_projected_graph(graph, vertices[layer])),
        ("hyperbolic", bipartite.collaboration_weighted_projected_graph(graph, vertices[layer])),
    ):
        found = pairs_of(papilio.project(women, layer, min_common=1, weighting=weighting))
        assert found.keys() == common.keys()
        for a, b, weight in projected.edges(data="weight"):
            assert found[frozenset((a, b))][1] == pytest.approx(weight, rel=1e-14)


def by_definition(path: Path, layer: Any, min_common: int, fdr: float) -> dict[frozenset[Any], Any]:
    """Return common neighbours, p and q by Benjamini and Hochberg over all pairs of a layer, with SciPy's p-values."""
    graph, vertices = as_networkx(path)
    own, n_other = vertices[layer], len(vertices["v" if layer == "u" else "u"])
    pairs, p_values = [], []
    for i, a in enumerate(own):
        for b in own[:i]:
            n = len(set(graph[a]) & set(graph[b]))
            p = scipy.stats.hypergeom.sf(n - 1, n_other, graph.degree(a), graph.degree(b)) if n >= min_common else 1.0
            pairs.append((frozenset((a, b)), n))
            p_values.append(p)
    q_values = scipy.stats.false_discovery_control(p_values, method="bh")
    return {
        pair: (n, p, q)
        for (pair, n), p, q in zip(pairs, p_values, q_values, strict=True)
        if n >= min_common and q <= fdr
    }


@pytest.mark.parametrize(("layer", "min_common", "fdr"), [("u", 2, 0.4), ("u", 1, 0.36), ("v", 2, 0.05), ("v", 3, 1.0)])
def test_q_values_are_over_all_pairs_of_the_layer(
    women: Path, tmp_path: Path, layer: Any, min_common: int, fdr: float
) -> None:
    expected = by_definition(women, layer, min_common, fdr)
    assert expected
    asked: Any = {"min_common": min_common, "significance": HYPER, "fdr": fdr}
    rows = papilio.project(women, layer, **asked)
    assert rows.columns == ("source", "target", "common", "p", "q")
    result = papilio.project(women, layer, output=tmp_path / "out", **asked)
    table = result.to_arrow().to_pylist()
    for found in (pairs_of(rows), pairs_of(tuple(row.values()) for row in table)):
        assert found.keys() == expected.keys()
        for pair, numbers in found.items():
            assert numbers == pytest.approx(expected[pair], rel=1e-11)
    assert result.rows == len(expected) == len(table)
    assert result.checked
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_same_rows_however_they_are_taken(women: Path, tmp_path: Path) -> None:
    asked: Any = {"min_common": 3, "weighting": "cosine"}
    rows = papilio.project(women, "u", **asked)
    expected = sorted(rows)
    assert expected[0] == ("woman 0", "woman 1", 6, pytest.approx(6 / np.sqrt(8 * 7)))
    assert sorted(map(tuple, rows.to_pandas().values.tolist())) == expected
    assert rows.to_arrow().schema.equals(rows.schema)
    assert rows.schema.names == ["source", "target", "common", "weight"] == [*rows.columns]
    assert [str(field.type) for field in rows.schema] == ["string", "string", "int32", "double"]
    assert len(rows.head(3)) == 3
    for name in ("x.parquet", "x.csv", "x.jsonl", "rows"):
        result = papilio.project(women, "u", output=tmp_path / name, **asked)
        assert (result.rows, result.engine) == (len(expected), "cpu")
    found = [tuple(row.values()) for row in pq.read_table(tmp_path / "x.parquet").to_pylist()]
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()]
    listed = pq.read_table(tmp_path / "rows")
    assert listed.schema.equals(rows.schema)
    assert sorted(found) == sorted(tuple(line.values()) for line in lines) == expected
    assert sorted(tuple(row.values()) for row in listed.to_pylist()) == expected
    assert (tmp_path / "x.csv").read_text(encoding="utf-8").startswith('"source","target","common","weight"\n"woman ')
    assert result.top(1)[0][2] == max(row[2] for row in expected)
    assert "common" in repr(result)
    graph = nx.from_pandas_edgelist(rows.to_pandas(), edge_attr=True)
    assert graph["woman 0"]["woman 1"]["common"] == 6


def test_integers_and_ids_stay_integers(women: Path, many: Path, tmp_path: Path) -> None:
    result = papilio.project(women, "v", output=tmp_path / "labels")
    assert {str(field.type) for field in result.to_arrow().schema} == {"int64", "int32"}
    assert min(min(row[:2]) for row in papilio.project(women, "v")) >= 100
    assert str(papilio.project(many, "u").schema.field("source").type) == "int32"
    in_memory = papilio.read(np.array([[5, 1], [5, 2], [9, 1], [9, 2], [7, 2]]))
    assert papilio.project(in_memory, "u").head() == [(5, 9, 2)]


def test_a_store_holds_the_projection(women: Path, tmp_path: Path) -> None:
    store = papilio.project(women, "u", min_common=4, output=tmp_path / "store", as_store=True)
    graph, vertices = as_networkx(women)
    projected = nx.bipartite.weighted_projected_graph(graph, vertices["u"])
    kept = nx.Graph((a, b) for a, b, n in projected.edges(data="weight") if n >= 4)
    assert (store.kind, store.n_edges) == ("unipartite", kept.number_of_edges())
    triangles = sum(nx.triangles(kept).values()) // 3
    assert papilio.count(store, papilio.Clique(3)).count == triangles > 0
    maximal = papilio.enumerate(store, papilio.MaximalClique(2))
    assert {frozenset(row) for row in maximal} == set(map(frozenset, nx.find_cliques(kept)))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    described = open_store(store.path).manifest.provenance
    assert described["projection"] == motif_to_json(papilio.Projection("u", 4))
    assert described["source_hash"] == open_store(women).hash
    assert described["source"] == open_store(women).manifest.provenance.get("source")
    assert not {"format", "source_bytes", "doubt"} & described.keys()
    assert str(tmp_path) not in json.dumps(described)
    with pytest.raises(StoreError, match="store"):
        papilio.project(women, "u", output=tmp_path / "store", as_store=True)
    with pytest.raises(InputError, match="needs an edge"):
        papilio.project(women, "u", min_common=15, output=tmp_path / "none", as_store=True)
    with pytest.raises(InputError, match="needs output"):
        papilio.project(women, "u", as_store=True)


def test_random_graphs_of_the_same_degrees(
    women: Path, tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture, two_workers: Executor
) -> None:
    asked: Any = {"significance": "degrees", "samples": 400, "seed": 3, "fdr": 0.7}
    rows = papilio.project(women, "v", **asked)
    assert rows.columns == ("source", "target", "common", "p", "q")
    expected = sorted(rows)
    _, vertices = as_networkx(women)
    n_tests = len(vertices["v"]) * (len(vertices["v"]) - 1) // 2
    every = {row[:2]: row[3] for row in papilio.project(women, "v", **{**asked, "fdr": 1.0})}
    p_values = [*every.values(), *[1.0] * (n_tests - len(every))]
    q_values = scipy.stats.false_discovery_control(p_values, method="bh")[: len(every)]
    assert {row[:2]: row[4] for row in expected} == pytest.approx(
        {pair: q for pair, q in zip(every, q_values, strict=True) if q <= 0.7}, rel=1e-12
    )
    assert 0 < len(expected) < len(every)
    assert {round(p * 401, 9) % 1 for p in every.values()} == {0.0}
    result = papilio.project(women, "v", output=tmp_path / "there", cluster=two_workers, **asked)
    assert sorted(tuple(row.values()) for row in result.to_arrow().to_pylist()) == expected
    assert not result.checked
    job = tmp_path / "job"
    listed = papilio.project(women, "v", output=tmp_path / "out", job=job, **asked)
    assert listed.rows == len(expected)
    assert papilio.resume_job(job).reused
    assert papilio.verify_job(job, sample=1)[0].count == listed.count
    with pytest.raises(InputError, match=r'"samples": 400, "seed": 3} .* choose another directory'):
        papilio.project(women, "v", output=tmp_path / "more", job=job, **{**asked, "seed": 4})
    words = ("--significance", "degrees", "--samples", 400, "--seed", 3, "--fdr", 0.7, "--format", "csv")
    lines = run("project", women, "--layer", "v", *words).stdout.splitlines()
    assert sorted(int(line.split(",")[0]) for line in lines[1:]) == [row[0] for row in expected]
    counted = run("count", "projection", women, "--layer", "v", *words[:8])
    assert int(counted.stdout) == sum(p <= 0.7 for p in every.values())
    beside = run("significance", "projection", women, "--layer", "v", "--samples", 5, "--seed", 1, "--json")
    assert len(json.loads(beside.stdout)["samples"]) == 5  # these flags are those of the command there
    plan = papilio.plan(women, papilio.Projection("v", **asked))
    assert (plan.n_items, plan.job.title) == (
        1, "pair of V with 2 or more in common, degrees q up to 0.7 (400 random graphs, seed 3) per total"
    )  # fmt: skip
    assert plan.run_s is not None
    assert plan.memory.host_bytes > papilio.plan(women, papilio.Projection("v")).memory.host_bytes
    assert not caplog.records


def test_too_few_random_graphs_for_any_q_value(women: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """91 pairs of events are tests, and 57 of them have two women or more in common."""
    asked: Any = {"significance": "degrees", "samples": 20, "fdr": 0.05}
    text = "papilio: 20 random graphs are too few for q-values up to 0.05: the smallest p-value is 1 / 21, and "
    assert papilio.project(women, "v", output=tmp_path / "out", **asked).rows == 0
    assert [each.getMessage() for each in caplog.records] == [
        f"{text}57 of 91 pairs can have it; give at least 31 samples"
    ]
    caplog.clear()
    smallest = [row for row in papilio.project(women, "v", **{**asked, "fdr": 1.0}) if row[3] == 1 / 21]
    assert 0 < len(smallest) < 57
    needed = int(np.ceil(91 / (len(smallest) * 0.05))) - 1
    assert not [*papilio.project(women, "v", **asked)]
    assert [each.getMessage() for each in caplog.records] == [
        f"{text}{len(smallest)} of 91 pairs can have it; give at least {needed} samples"
    ]
    for given, message in (
        ({"samples": 9}, "samples is 9, and significance is None, which draws no random graphs"),
        ({"seed": 0, "significance": HYPER}, "seed is 0, and significance is 'hypergeometric'"),
        ({**asked, "samples": 1}, "samples"),
        ({**asked, "seed": -1}, "seed"),
    ):
        with pytest.raises(InputError, match=message):
            papilio.project(women, "v", **given)


class Stopped(Exception):
    """Ends a listing after a lease."""


def stop_after(n_leases: int) -> Callable[[Event], None]:
    seen: list[Event] = []

    def listen(event: Event) -> None:
        seen.append(event)
        if sum(isinstance(each, LeaseFinished) for each in seen) == n_leases:
            raise Stopped

    return listen


@pytest.mark.parametrize("significance", [None, HYPER, "degrees"])
def test_a_killed_job_goes_on(many: Path, tmp_path: Path, significance: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Any = {"weighting": "resource", "significance": significance}
    if significance == "degrees":
        asked |= {"samples": 20, "fdr": 1.0}
        monkeypatch.setattr(sampled, "LEAST_ROOM", 100)
        monkeypatch.setattr(sampled, "ROOM_PER_EDGE", 0)
    whole = papilio.project(many, "u", output=tmp_path / "whole", **asked)
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-5)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 1e-5)
    with pytest.raises(Stopped):
        papilio.project(many, "u", output=tmp_path / "out", job=tmp_path / "job", progress=stop_after(3), **asked)
    assert not (tmp_path / "out").exists()
    result = papilio.resume_job(tmp_path / "job")
    assert result.leases_before >= 3
    assert result.leases > result.leases_before
    assert result.rows == whole.rows > 100  # type: ignore[attr-defined]
    order = [("source", "ascending"), ("target", "ascending")]
    tables = [pq.read_table(tmp_path / name).sort_by(order) for name in ("out", "whole")]
    assert tables[0].equals(tables[1])
    again = papilio.resume_job(tmp_path / "job")
    assert again.reused
    check, recount = papilio.verify_job(tmp_path / "job", sample=3)
    assert recount is not None
    assert recount.leases == 3
    assert check.count == result.count
    (tmp_path / "out" / "part-00000.parquet").unlink()
    assert papilio.resume_job(tmp_path / "job").rows == whole.rows  # type: ignore[attr-defined]
    assert pq.read_table(tmp_path / "out").num_rows == whole.rows


def test_workers_in_other_processes_find_the_same(many: Path, tmp_path: Path, two_workers: Executor) -> None:
    asked: Any = {"weighting": "hyperbolic", "significance": HYPER}
    here = papilio.project(many, "v", output=tmp_path / "here.parquet", **asked)
    there = papilio.project(many, "v", output=tmp_path / "there.parquet", cluster=two_workers, **asked)
    order = [("source", "ascending"), ("target", "ascending")]
    tables = [pq.read_table(tmp_path / f"{name}.parquet").sort_by(order) for name in ("here", "there")]
    assert here.rows == there.rows > 0
    assert tables[0].equals(tables[1])


def test_the_number_of_pairs_comes_first(women: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = papilio.count(women, papilio.Projection("u", 3)).count
    assert pairs == len([*papilio.project(women, "u", min_common=3)])
    from papilio.api import listing_call

    monkeypatch.setattr(listing_call, "_MANY_ROWS", 1)
    seen: list[Event] = []
    papilio.project(women, "u", min_common=3, output=tmp_path / "out", progress=seen.append)
    assert [each.rows for each in seen if isinstance(each, RowsKnown)] == [pairs]
    monkeypatch.setattr(listing_call.shutil, "disk_usage", lambda place: type("Usage", (), {"free": 10}))
    with pytest.raises(CapacityError, match=f"predicted to have {pairs} rows"):
        papilio.project(women, "u", min_common=3, output=tmp_path / "more")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_rows_that_are_not_as_many_as_counted_are_refused(
    women: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from papilio.api import projection_call

    counted = projection_call.count_job

    def miscount(*given: Any) -> Any:
        found = counted(*given)
        object.__setattr__(found.result, "count", found.result.count + 1)
        return found

    monkeypatch.setattr(projection_call, "count_job", miscount)
    with pytest.raises(ExecutionError, match=r"95 of pair of U .* were listed .* 96 are counted"):
        papilio.project(women, "u", output=tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_limits_and_what_is_refused(women: Path, tmp_path: Path) -> None:
    result = papilio.project(women, "u", limit=7, output=tmp_path / "some")
    assert (result.rows, result.limit_reached, result.checked) == (7, True, False)
    assert len([*papilio.project(women, "u", limit=7)]) == 7
    with pytest.raises(InputError, match="q-values need all pairs"):
        papilio.project(women, "u", limit=7, significance=HYPER)
    with pytest.raises(InputError, match="set both or neither"):
        papilio.project(women, "u", fdr=0.1)
    with pytest.raises(InputError, match=r"to list elsewhere, as a job or on a GPU"):
        papilio.project(women, "u", engine="gpu")
    with pytest.raises(UnsupportedError, match="bipartite graphs"):
        papilio.project(np.array([[0, 1], [1, 2]]), "u", kind="unipartite")
    with pytest.raises(UnsupportedError, match="leave out the required ones"):
        papilio.enumerate(women, papilio.Projection("u"), with_u=["woman 1"]).head()


def test_the_command(women: Path, tmp_path: Path, run: Run) -> None:
    rows = run("project", women, "--layer", "u", "--min-common", 6, "--format", "csv")
    assert rows.exit_code == 0
    assert sorted(rows.stdout.splitlines())[:2] == ['"source","target","common"', '"woman 0","woman 1",6']
    asked = ("project", women, "--layer", "u", "--significance", HYPER, "--fdr", "40%")
    found = run(*asked, "--output", tmp_path / "pairs", "--json")
    answer = json.loads(found.stdout)
    assert answer["rows"] == pq.read_table(tmp_path / "pairs").num_rows < answer["count"]
    assert (
        run(*asked, "--output", tmp_path / "again")
        .stderr.splitlines()[0]
        .endswith(f": {answer['rows']} kept of {answer['count']} in 1 file")
    )
    lines = run(*asked, "--weighting", "jaccard", "--format", "tsv").stdout.splitlines()
    assert lines[0].split("\t") == ["source", "target", "common", "weight", "p", "q"]
    assert len(lines) == 1 + answer["rows"]
    assert run("project", women, "--layer", "v", "--output", tmp_path / "store", "--as-store").exit_code == 0
    assert (
        run("count", "clique", tmp_path / "store", "-k", 2).stdout
        == f"{papilio.count(women, 'projection', layer='v').count}\n"
    )
    missing = run("project", women)
    assert (missing.exit_code, "Missing option '--layer'" in missing.stderr) == (2, True)
    assert run("project", women, "--layer", "u", "--json").exit_code == 2
