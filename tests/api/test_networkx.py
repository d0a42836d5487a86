"""Papilio as a backend of NetworkX: the same answers, and NetworkX's own tests of these functions."""

from __future__ import annotations

import os
import subprocess
import sys
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
    graph.add_edges_from(
        draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=18))
    )
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
    found = list(Backend.enumerate_all_cliques(converted))
    assert [len(clique) for clique in found] == sorted(len(clique) for clique in found)
    assert as_set(found) == as_set(nx.enumerate_all_cliques(graph))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    assert Backend.triangles(backend.convert_from_nx(graph)) == nx.triangles(graph)


@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(10, 14)), max_size=20))
@laws
def test_clustering_is_that_of_networkx(edges: list[tuple[int, int]]) -> None:
    graph: nx.Graph[Any] = nx.Graph(edges)
    graph.add_nodes_from([0, 12])
    converted = backend.convert_from_nx(graph)
    assert Backend.robins_alexander_clustering(converted) == nx.bipartite.robins_alexander_clustering(graph)
    for mode in ("dot", "min", "max"):
        found, right = (
            Backend.latapy_clustering(converted, mode=mode),
            nx.bipartite.clustering(graph, mode=mode),
        )
        assert found.keys() == right.keys()
        assert all(abs(found[node] - right[node]) < 1e-12 for node in right)


def test_what_is_not_the_same_is_left_to_networkx() -> None:
    women = nx.davis_southern_women_graph()
    assert backend.can_run("find_cliques", (women,), {}) is True
    assert backend.can_run("triangles", (), {"G": nx.complete_graph(3)}) is True
    assert backend.can_run("find_cliques", (nx.MultiGraph(),), {}) is not True
    assert backend.can_run("find_cliques", (nx.DiGraph(),), {}) is not True
    assert backend.can_run("robins_alexander_clustering", (nx.complete_graph(3),), {}) is not True
    assert backend.should_run("find_cliques", (women,), {}) == f"89 edges are fewer than {MIN_EDGES}"
    assert backend.should_run("find_cliques", (Graph(nx.complete_graph(200)),), {}) is True
    with pytest.raises(ValueError, match="do not form a clique"):
        Backend.find_cliques(Graph(nx.path_graph(3)), [0, 2])


def test_the_backend_is_registered() -> None:
    if "papilio" not in nx.utils.backends.backends:
        pytest.skip("this environment was installed before Papilio was a backend; install it again")
    women = nx.davis_southern_women_graph()
    found = nx.bipartite.robins_alexander_clustering(women, backend="papilio")
    assert found == nx.bipartite.robins_alexander_clustering(women, backend="networkx")
    assert set(get_info()["functions"]) == {
        "enumerate_all_cliques", "find_cliques", "latapy_clustering", "robins_alexander_clustering", "triangles",
    }  # fmt: skip


@pytest.mark.slow
def test_the_tests_of_networkx_pass(tmp_path: Path) -> None:
    if "papilio" not in nx.utils.backends.backends:
        pytest.skip("this environment was installed before Papilio was a backend; install it again")
    modules = ["bipartite.tests.test_cluster", "tests.test_clique", "tests.test_cluster"]
    names = [f"networkx.algorithms.{module}" for module in modules]
    asked = {"NETWORKX_TEST_BACKEND": "papilio", "NETWORKX_FALLBACK_TO_NX": "True"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", "--pyargs", *names],
        capture_output=True, text=True, timeout=900, cwd=tmp_path, env=os.environ | asked,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
