"""The largest clique of a graph and of every vertex: against the definition, closed forms, and on the command line."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import papilio
from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.storage.store import write_store
from tests.kernels.clique.test_clique import (
    cocktail_party,
    complete,
    edges_of,
    graphs,
    laws,
    make,
    random_graph,
    read,
    union,
)
from tests.tools.commands import Run
from tests.tools.oracle_clique import cliques_of


def largest_by_definition(graph: UnipartiteGraph) -> list[int]:
    """The size of the largest clique of every vertex."""
    sizes = [0] * graph.n
    for clique in cliques_of(graph.n, edges_of(graph)):
        for vertex in clique:
            sizes[vertex] = max(sizes[vertex], len(clique))
    return sizes


def require_clique(graph: UnipartiteGraph, result: papilio.MaximumClique) -> None:
    edges = set(edges_of(graph))
    assert len(result.members) == result.size
    assert list(result.members) == sorted(set(result.members))
    assert all(pair in edges for pair in combinations(result.members, 2))


def test_the_largest_follow_the_definition() -> None:
    @laws(120)
    @given(graphs(), st.integers(1, 2))
    def law(graph: UnipartiteGraph, threads: int) -> None:
        sizes = largest_by_definition(graph)
        one = papilio.maximum_clique(graph, threads=threads)
        every = papilio.maximum_clique(graph, per="vertex", threads=threads)
        assert one.size == every.size == max(sizes)
        assert one.members == every.members
        assert every.sizes["n"].tolist() == sizes
        require_clique(graph, one)

    law()


@pytest.mark.parametrize(("n", "share"), [(70, 0.5), (100, 0.4)])
def test_graphs_of_more_than_a_word(n: int, share: float) -> None:
    graph = random_graph(n, n, share)
    result = papilio.maximum_clique(graph)
    require_clique(graph, result)
    assert result.size == max(len(clique) for clique in _cliques_of_complement(graph))
    assert papilio.maximum_clique(graph, threads=2).members == result.members


def _cliques_of_complement(graph: UnipartiteGraph) -> list[list[int]]:
    """A largest clique by the weighted search of NetworkX."""
    made = nx.Graph(edges_of(graph))
    made.add_nodes_from(range(graph.n))
    return [nx.max_weight_clique(made, weight=None)[0]]


@pytest.mark.parametrize(("n", "share"), [(60, 0.5), (130, 0.2)])
def test_vertices_of_graphs_of_more_than_a_word(n: int, share: float) -> None:
    graph = random_graph(n + 1, n, share)
    made = nx.Graph(edges_of(graph))
    made.add_nodes_from(range(n))
    expected = [0] * n
    for clique in nx.find_cliques(made):
        for vertex in clique:
            expected[vertex] = max(expected[vertex], len(clique))
    assert papilio.maximum_clique(graph, per="vertex", threads=2).sizes["n"].tolist() == expected


def test_closed_forms() -> None:
    for graph, size in (
        (complete(1), 1),
        (complete(65), 65),
        (complete(130), 130),
        (cocktail_party(40), 40),
        (make(4, []), 1),
        (make(3, [(0, 1)]), 2),
        (UnipartiteGraph(0, np.zeros(0, np.int32), np.zeros(0, np.int32)), 0),
        (make(30, [(a, b) for a, b in combinations(range(30), 2) if a // 3 != b // 3]), 10),
    ):
        result = papilio.maximum_clique(graph, per="vertex")
        assert result.size == len(result.members) == size
        if graph.n != 3 and size > 1:
            assert set(result.sizes["n"].tolist()) == {size}


def test_unions_take_the_larger_and_joins_the_sum() -> None:
    @laws(25)
    @given(graphs(8), graphs(8))
    def law(a: UnipartiteGraph, b: UnipartiteGraph) -> None:
        one, two = (papilio.maximum_clique(graph, per="vertex").sizes["n"] for graph in (a, b))
        beside = papilio.maximum_clique(union(a, b, joined=False), per="vertex")
        assert beside.sizes["n"].tolist() == [*one.tolist(), *two.tolist()]
        joined = papilio.maximum_clique(union(a, b, joined=True), per="vertex")
        assert joined.sizes["n"].tolist() == [*(one + two.max()).tolist(), *(two + one.max()).tolist()]

    law()


LARGEST = {"email-Eu-core": 18, "wiki-Vote": 17, "ca-HepPh": 239, "ca-AstroPh": 57, "soc-Epinions1": 23}


SLOW = {"soc-Epinions1", "ca-AstroPh"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in LARGEST]
)
def test_real_graphs(shared_data: Path, name: str) -> None:
    graph = read(shared_data, name)
    result = papilio.maximum_clique(graph, per="vertex", threads=2)
    require_clique(graph, result)
    assert result.size == int(result.sizes["n"].max()) == LARGEST[name]
    assert papilio.maximum_clique(graph, threads=1).members == result.members
    # A vertex is in a clique of k vertices exactly where its number of k-cliques is not 0.
    for k in (3, 5):
        counted = papilio.count(graph, papilio.Clique(k), per="vertex", engine="cpu").vectors["n"]
        assert ((result.sizes["n"] >= k) == (counted > 0)).all()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A triangle, an edge at it, and a vertex beside them."""
    path = tmp_path_factory.mktemp("maximum") / "graph"
    names = np.array(["ada", "bob", "cyd", "dot", "eve"], object)
    write_store(path, make(5, [(0, 1), (0, 2), (1, 2), (2, 3)]), provenance={}, labels_u=names)
    return path


def test_the_command(store: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run("measure", "maximum-clique", store)
    assert (code, out) == (0, "3\nada\tbob\tcyd\n"), err
    code, out, err = run("measure", "maximum-clique", store, "--per", "vertex", "--output", tmp_path / "x.parquet")
    assert (code, out.splitlines()[2:]) == (
        0,
        ["size  vertices", "   1         1", "   2         1", "   3         3"],
    )
    assert f"values: {tmp_path / 'x.parquet'}" in err
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.to_pydict() == {
        "id": [0, 1, 2, 3, 4], "label": ["ada", "bob", "cyd", "dot", "eve"], "size": [3, 3, 3, 2, 1],
    }  # fmt: skip
    assert json.loads(table.schema.metadata[b"papilio.measure"]) == "maximum-clique"
    code, out, err = run("measure", "maximum-clique", store, "--per", "vertex", "--json", "--threads", 1)
    answer = json.loads(out)
    assert (answer["size"], answer["members"], answer["labels"]) == (3, [0, 1, 2], ["ada", "bob", "cyd"])
    assert (answer["sizes"], answer["graph"]["n_edges"]) == ([[1, 1], [2, 1], [3, 3]], 4)
    assert json.loads(run("measure", "maximum-clique", store, "--json")[1])["sizes"] is None


def test_what_is_refused(store: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match="the maximum clique is defined on unipartite graphs"):
        papilio.maximum_clique(papilio.BipartiteGraph.from_edges([0], [0]))
    with pytest.raises(InputError, match="files are for counts per vertex"):
        papilio.maximum_clique(store, output=tmp_path / "x.csv")
    assert run("measure", "maximum-clique", store, "--output", tmp_path / "x.xlsx")[0] == 2
    monkeypatch.setattr("papilio.measures.values.free_memory_bytes", lambda: 100)
    with pytest.raises(CapacityError, match=r"4 edges, whose order needs, with 1 threads, about"):
        papilio.maximum_clique(store, threads=1)
