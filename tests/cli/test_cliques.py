"""Cliques as users ask for them: the command line, Python, jobs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import papilio
from papilio.errors import InputError, PapilioError, UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.storage.store import write_store
from tests.tools.commands import Run

INLINE = ("--cluster", "inline", "--engine", "cpu")


@pytest.fixture(scope="module")
def graph() -> UnipartiteGraph:
    """Two triangles that share an edge, a vertex beside them, and an edge beside that: 1, 2, 3, 4 / 0 / 5, 6."""
    return UnipartiteGraph.from_edges([1, 1, 2, 2, 3, 5], [2, 3, 3, 4, 4, 6], 7)


@pytest.fixture(scope="module")
def store(graph: UnipartiteGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cliques") / "graph"
    write_store(path, graph, provenance={})
    return path


def test_one_size(store: Path, run: Run) -> None:
    assert run("count", "clique", store, "-k", 3, *INLINE)[:2] == (0, "2\n")
    for flags in (
        ("--algorithm", "pivot"),
        ("--algorithm", "orient", "--order", "degree"),
    ):
        code, out, _ = run("count", "clique", store, "-k", 3, *flags, "--json", *INLINE)
        assert code == 0
        assert json.loads(out)["count"] == 2


def test_every_size_is_a_table(store: Path, run: Run) -> None:
    code, out, _ = run("count", "clique", store, "--all-k", "--json", *INLINE)
    assert code == 0
    answer = json.loads(out)
    assert (answer["count"], answer["table"]) == (15, [[1, "7"], [2, "6"], [3, "2"]])
    code, out, _ = run("count", "clique", store, "--all-k", "--max-k", 2, *INLINE)
    assert out.split() == ["k", "count", "1", "7", "2", "6"]


def test_maximal_cliques_by_size_with_their_checksum(store: Path, run: Run) -> None:
    code, out, _ = run("count", "maximal-clique", store, "--json", *INLINE)
    assert code == 0
    answer = json.loads(out)
    offsets, ids = np.array([0, 3, 6, 7, 9]), np.array([1, 2, 3, 2, 3, 4, 0, 5, 6])
    assert answer["table"] == [[1, "1"], [2, "1"], [3, "2"]]
    assert answer["checksum"] == sum_hashes(hash_rows((offsets, ids)))
    code, out, _ = run("count", "maximal-clique", store, "--min-size", 3, *INLINE)
    assert out.split() == ["k", "count", "3", "2"]


def test_a_vertex_without_edges_is_a_clique_of_one(tmp_path: Path, run: Run) -> None:
    """It is one of one vertex, maximal, and the largest of that vertex, whoever asks."""
    lone = UnipartiteGraph.from_edges([1], [2], 5)
    path = tmp_path / "graph"
    write_store(path, lone, provenance={})
    for graph in (lone, path):
        assert papilio.count(graph, papilio.Clique()).table == {(1,): 5, (2,): 1}
        assert papilio.count(graph, papilio.Clique(1), per="vertex").vectors["n"].tolist() == [1] * 5
        assert papilio.count(graph, papilio.Clique(2), per="vertex").vectors["n"].tolist() == [0, 1, 1, 0, 0]
        assert papilio.count(graph, papilio.MaximalClique()).table == {(1,): 3, (2,): 1}
        assert papilio.count(graph, papilio.MaximalClique(2)).table == {(2,): 1}
        assert papilio.maximum_clique(graph, per="vertex").sizes["n"].tolist() == [1, 2, 2, 1, 1]
    edgeless = UnipartiteGraph.from_edges([], [], 3)
    assert papilio.count(edgeless, papilio.Clique()).table == {(1,): 3}
    assert papilio.count(edgeless, papilio.MaximalClique()).table == {(1,): 3}
    listed = papilio.enumerate(lone, papilio.MaximalClique(), output=tmp_path / "rows", limit=None)
    assert (listed.rows, listed.checked) == (4, True)
    assert run("count", "maximal-clique", path, *INLINE)[1].split() == ["k", "count", "1", "3", "2", "1"]


def test_vertices_and_edges(graph: UnipartiteGraph, store: Path, tmp_path: Path, run: Run) -> None:
    result = papilio.count(graph, papilio.Clique(3), per="vertex")
    assert result.vectors["n"].tolist() == [0, 1, 2, 2, 1, 0, 0]
    assert papilio.count(store, papilio.Clique(3), per="edge").vectors["edge"].tolist() == [1, 1, 2, 1, 1, 0]
    output = tmp_path / "edges.csv"
    assert run("count", "clique", store, "-k", 3, "--per", "edge", "--output", output, *INLINE)[0] == 0
    assert output.read_text().splitlines()[1] == "1,2,1"


def test_what_is_refused(graph: UnipartiteGraph, store: Path, run: Run) -> None:
    bipartite = papilio.BipartiteGraph.from_edges([0], [0])
    for motif in (papilio.Clique(3), papilio.MaximalClique()):
        with pytest.raises(PapilioError, match="is defined on unipartite graphs"):
            papilio.count(bipartite, motif)
        with pytest.raises(PapilioError, match="gpu"):
            papilio.count(graph, motif, engine="gpu")
    with pytest.raises(PapilioError, match="is defined on bipartite graphs"):
        papilio.count(graph, papilio.Butterfly())
    with pytest.raises(InputError, match="k 3 and max_k 4"):
        papilio.Clique(3, 4)
    with pytest.raises(UnsupportedError, match="k-clique cannot be listed; bicliques of one p and one q, cliques"):
        papilio.enumerate(graph, papilio.Clique(), output="x", limit=1)
    with pytest.raises(UnsupportedError, match="orient"):
        papilio.count(graph, papilio.Clique(), options={"algorithm": "orient"})
    assert run("count", "clique", store, "-k", 0, *INLINE)[0] == 2
    assert run("count", "clique", store, *INLINE)[0] != 0
