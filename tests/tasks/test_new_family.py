"""A family that the package knows nothing of passes every layer by its row; its laws are in ``tests/families``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.cli.report import plan_lines, report_result
from papilio.errors import ExecutionError, InputError, UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.kernels.engine import LargestMotif
from papilio.motifs import MOTIFS
from papilio.registry import MOTIF_ROWS
from papilio.storage.store import GraphStore, write_store
from tests.tools.little_cliques import ROW, LittleClique, all_cliques
from tests.tools.tampering import reseal

ALL, TRIANGLES = LittleClique(), LittleClique(3)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MOTIFS, LittleClique.name, LittleClique)
    monkeypatch.setitem(MOTIF_ROWS, LittleClique.name, ROW)


@pytest.fixture
def graph() -> UnipartiteGraph:
    u, v = np.triu_indices(40, 1)
    kept = np.random.default_rng(3).random(u.size) < 0.25
    return UnipartiteGraph.from_edges(u[kept], v[kept], n=42)


@pytest.fixture
def store(graph: UnipartiteGraph, tmp_path: Path) -> GraphStore:
    labels = np.array([f"v{i}" for i in range(graph.n)], object)
    return write_store(tmp_path / "graph", graph, provenance={}, labels_u=labels)


@pytest.mark.parametrize("per", ["vertex", "edge"])
def test_vectors_have_one_layer(per: papilio.motifs.Granularity, store: GraphStore, tmp_path: Path) -> None:
    graph = store.read()
    assert isinstance(graph, UnipartiteGraph)
    cliques = all_cliques(graph, TRIANGLES)
    result = papilio.count(store, TRIANGLES, per=per, output=tmp_path / "counts.parquet")
    written = pq.read_table(tmp_path / "counts.parquet").to_pydict()
    if per == "vertex":
        by_vertex = Counter(vertex for each in cliques for vertex in each)
        expected = [by_vertex[vertex] for vertex in range(graph.n)]
        assert result.vectors["n"].tolist() == written["count"] == expected
        assert {entry.place for entry in result.largest} == {"n"}
        assert [entry.count for entry in result.top()] == sorted(expected, reverse=True)[:10]
        assert result.top()[0].labels == (f"v{result.top()[0].ids[0]}",)
    else:
        expected = [
            sum({u, v} <= set(each) for each in cliques)
            for u, v in zip(graph.u.tolist(), graph.v.tolist(), strict=True)
        ]
        assert result.vectors["edge"].tolist() == written["support"] == expected


def test_the_largest_are_those_of_the_whole_graph(graph: UnipartiteGraph) -> None:
    best = sorted((-sum(each), (each,)) for each in all_cliques(graph, ALL))[:7]
    result = papilio.count(graph, LittleClique(best=7))
    assert result.best == tuple(LargestMotif(-value, members) for value, members in best)
    assert result.to_dict()["best"][0] == {"value": -best[0][0], "members": best[0][1]}


@pytest.mark.parametrize("name", ["checksum", "best"])
def test_an_answer_that_the_leases_do_not_give_is_refused(name: str, store: GraphStore, tmp_path: Path) -> None:
    papilio.count(store, LittleClique(best=5), job=tmp_path / "job")
    file = tmp_path / "job" / "result.json"
    answer = json.loads(file.read_text())
    changed = {"checksum": answer["result"]["checksum"] ^ 1, "best": answer["result"]["best"][1:]}
    answer["result"][name] = changed[name]
    reseal(file, **answer)
    with pytest.raises(ExecutionError, match=r"checksum|largest motifs"):
        papilio.verify_job(tmp_path / "job")


def rows_of(path: Path) -> list[tuple[str, ...]]:
    return sorted(tuple(row) for file in sorted(path.glob("*.parquet")) for row in pq.read_table(file)["n"].to_pylist())


@pytest.mark.parametrize("motif", [ALL, TRIANGLES], ids=str)
def test_listings_have_rows_of_any_length(motif: LittleClique, store: GraphStore, tmp_path: Path) -> None:
    graph = store.read()
    assert isinstance(graph, UnipartiteGraph)
    expected = sorted(tuple(f"v{i}" for i in each) for each in all_cliques(graph, motif))
    listed = papilio.enumerate(store, motif, output=tmp_path / "rows", limit=None)
    assert (listed.rows, listed.checked) == (len(expected), True)
    assert rows_of(tmp_path / "rows") == expected
    held = papilio.enumerate(store, motif, output=tmp_path / "held", with_u=["v3"], limit=None)
    assert rows_of(tmp_path / "held") == [each for each in expected if "v3" in each]
    assert not held.checked
    few = papilio.enumerate(store, motif, output=tmp_path / "few", limit=11)
    assert few.limit_reached
    assert len(rows_of(tmp_path / "few")) == 11


def test_what_it_cannot_do_is_refused(store: GraphStore, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="whole graphs only"):
        papilio.partition(store, tmp_path / "parts", TRIANGLES, host_memory="8GiB")
    with pytest.raises(InputError, match="is unipartite and has no layer V"):
        papilio.enumerate(store, ALL, output=tmp_path / "rows", with_v=["1"], limit=None)


def test_plans_files_and_text(store: GraphStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = papilio.plan(store, ALL)
    assert len(made.leases) == 1
    assert any("42 vertices" in line for line in plan_lines(made))
    result = papilio.count(store, ALL, output=tmp_path / "table.csv")
    assert [line.replace('"', "").split(",")[:2] for line in (tmp_path / "table.csv").read_text().splitlines()] == [
        ["k", "count"], ["2", str(result.table[2,])], ["3", str(result.table[3,])],
    ]  # fmt: skip
    report_result(papilio.count(store, ALL))
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["k", "count"], ["2", str(result.table[2,])], ["3", str(result.table[3,])],
    ]  # fmt: skip
    assert "in 42 vertices" in err
