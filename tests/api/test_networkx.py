"""Papilio as a backend of NetworkX: the same answers, and NetworkX's own tests of these functions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.networkx_backend import MIN_EDGES, Backend, Graph, backend, get_info

laws = settings(max_examples=15, deadline=None, derandomize=True, database=None)


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph[Any]:
    """Draw a small graph whose nodes have names of several types, in any order, with loops."""
    names = [3, "b", (1, 2), 7.5, frozenset({1}), "a"]
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(draw(st.permutations(names)))
    graph.add_edges_from(draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=18)))
    return graph


def as_set(cliques: Any) -> set[frozenset[Any]]:
    listed = [frozenset(clique) for clique in cliques]
    assert len(set(listed)) == len(listed)
    return set(listed)


@given(graph=graphs())
@laws
def test_cliques_are_those_of_networkx(graph: nx.Graph[Any]) -> None:
    converted = backend.convert_from_nx(graph)
    assert as_set(Backend.find_cliques(converted)) == as_set(nx.find_cliques(graph))
    for a, b in list(graph.edges())[:2]:
        if a != b:
            assert as_set(Backend.find_cliques(converted, [a, b])) == as_set(nx.find_cliques(graph, [a, b]))
    assert Backend.square_clustering(converted) == nx.square_clustering(graph)
    assert Backend.square_clustering(converted, ["b", 3, "absent"]) == nx.square_clustering(graph, ["b", 3, "absent"])
    assert Backend.square_clustering(converted, (1, 2)) == nx.square_clustering(graph, (1, 2))
    found = list(Backend.enumerate_all_cliques(converted))
    assert [len(clique) for clique in found] == sorted(len(clique) for clique in found)
    assert as_set(found) == as_set(nx.enumerate_all_cliques(graph))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    assert Backend.triangles(backend.convert_from_nx(graph)) == nx.triangles(graph)


def butterflies_of(graph: nx.Graph[Any], node: Any) -> int:
    """Count by definition: another node of the layer, and two common neighbours."""
    return sum(
        graph.has_edge(node, b) and graph.has_edge(a, b) and graph.has_edge(node, c) and graph.has_edge(a, c)
        for a in graph
        if a != node
        for b, c in combinations(graph, 2)
    )


@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(10, 14)), max_size=20), turned=st.booleans())
@laws
def test_bipartite_functions_are_those_of_networkx(edges: list[tuple[int, int]], turned: bool) -> None:
    graph: nx.Graph[Any] = nx.Graph((v, u) if turned else (u, v) for u, v in edges)
    graph.add_nodes_from([0, 12, "alone"], bipartite=7)  # attributes mean nothing to NetworkX
    converted = backend.convert_from_nx(graph)
    assert Backend.robins_alexander_clustering(converted) == nx.bipartite.robins_alexander_clustering(graph)
    counts = Backend.butterflies(converted)
    assert list(counts.items()) == [(node, butterflies_of(graph, node)) for node in graph]
    assert Backend.butterflies(converted, [12, "absent", 0]) == {12: counts[12], 0: counts[0]}
    assert Backend.butterflies(converted, 0) == {0: counts[0]}
    if hasattr(nx.bipartite, "butterflies"):  # NetworkX 3.7
        assert counts == nx.bipartite.butterflies(graph, backend="networkx")
    for mode in ("dot", "min", "max"):
        for nodes in (None, [12, "alone"], {0}):
            found = Backend.latapy_clustering(converted, nodes, mode)
            right = nx.bipartite.clustering(graph, nodes, mode)
            assert list(found) == list(right)
            assert all(abs(found[node] - right[node]) < 1e-12 for node in right)
            average = nx.bipartite.average_clustering(graph, nodes, mode)
            assert abs(Backend.bipartite_average_clustering(converted, nodes, mode) - average) < 1e-12


def test_errors_are_those_of_networkx() -> None:
    odd, path = Graph(nx.complete_graph(3)), Graph(nx.path_graph(4))
    for function in (Backend.latapy_clustering, Backend.bipartite_average_clustering):
        with pytest.raises(nx.NetworkXError, match="not bipartite"):
            function(odd, mode="foo")
        with pytest.raises(nx.NetworkXError, match="must be: dot, min or max"):
            function(path, mode="foo")
        with pytest.raises(KeyError):
            function(path, ["absent"])
    with pytest.raises(ZeroDivisionError):
        Backend.bipartite_average_clustering(path, [])


def test_what_is_not_the_same_is_left_to_networkx() -> None:
    women, odd = nx.davis_southern_women_graph(), nx.complete_graph(3)
    assert backend.can_run("find_cliques", (women,), {}) is True
    assert backend.can_run("triangles", (), {"G": odd}) is True
    assert backend.can_run("find_cliques", (nx.MultiGraph(),), {}) is not True
    assert backend.can_run("find_cliques", (nx.DiGraph(),), {}) is not True
    for name in ("butterflies", "robins_alexander_clustering"):
        assert backend.can_run(name, (Graph(women),), {}) is True
        assert backend.can_run(name, (odd,), {}) is not True
    assert backend.should_run("find_cliques", (women,), {}) == f"89 edges are fewer than {MIN_EDGES}"
    large = nx.complete_graph(200)
    assert backend.should_run("find_cliques", (Graph(large),), {}) is True
    assert backend.should_run("find_cliques", (large, [3, 4]), {}) is True
    assert backend.should_run("triangles", (large, 3), {}) == "only 1 of 200 nodes are requested"
    assert backend.should_run("triangles", (large,), {"nodes": range(19)}) is not True
    assert backend.should_run("triangles", (large,), {"nodes": range(20)}) is True
    assert backend.should_run("triangles", (large, iter([3])), {}) is True
    with pytest.raises(ValueError, match="do not form a clique"):
        Backend.find_cliques(Graph(nx.path_graph(3)), [0, 2])


def test_the_backend_is_registered() -> None:
    if "papilio" not in nx.utils.backends.backends:
        pytest.skip("this environment was installed before Papilio was a backend; install it again")
    names = ["robins_alexander_clustering", "average_clustering"]
    for name in names + ["butterflies"] * hasattr(nx.bipartite, "butterflies"):
        function = getattr(nx.bipartite, name)
        women = nx.davis_southern_women_graph()  # of which NetworkX has no converted one
        assert function(women, backend="papilio") == pytest.approx(function(women, backend="networkx"))
    assert set(get_info()["functions"]) == {
        "bipartite_average_clustering", "butterflies", "enumerate_all_cliques", "find_cliques", "latapy_clustering",
        "robins_alexander_clustering", "square_clustering", "triangles",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("modules", "functions"),
    [
        (
            ["bipartite.tests.test_cluster"],
            ["bipartite_average_clustering", "latapy_clustering", "robins_alexander_clustering"]
            + ["butterflies"] * hasattr(nx.bipartite, "butterflies"),
        ),
        pytest.param(
            ["tests.test_clique", "tests.test_cluster"],
            ["enumerate_all_cliques", "find_cliques", "square_clustering", "triangles"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["bipartite", "cliques"],
)
def test_the_tests_of_networkx_pass(tmp_path: Path, modules: list[str], functions: list[str]) -> None:
    if "papilio" not in nx.utils.backends.backends:
        pytest.skip("this environment was installed before Papilio was a backend; install it again")
    names = [f"networkx.algorithms.{module}" for module in modules]
    asked = {"NETWORKX_TEST_BACKEND": "papilio", "NETWORKX_FALLBACK_TO_NX": "True"}
    quiet = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:benchmark"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, "--log-level=DEBUG", "-rP", "--pyargs", *names],
        capture_output=True, text=True, timeout=900, cwd=tmp_path, env=os.environ | asked,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]
    used = set(re.findall(r"Using backend 'papilio' for call to '(\w+)'", run.stdout))
    assert used >= set(functions)
