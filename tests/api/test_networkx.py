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

FUNCTIONS = {
    "bipartite.tests.test_cluster": [
        "bipartite_average_clustering", "latapy_clustering", "robins_alexander_clustering"
    ],
    "bipartite.tests.test_project": [
        "collaboration_weighted_projected_graph", "generic_weighted_projected_graph",
        "overlap_weighted_projected_graph", "projected_graph", "weighted_projected_graph",
    ],
    "bipartite.tests.test_redundancy": ["node_redundancy"],
    "community.tests.test_kclique": ["k_clique_communities"],
    "tests.test_clique": ["enumerate_all_cliques", "find_cliques", "find_cliques_recursive", "node_clique_number"],
    "tests.test_cluster": [
        "average_clustering", "clustering", "generalized_degree", "square_clustering", "transitivity", "triangles"
    ],
    "tests.test_core": ["core_number"],
    "tests.test_max_weight_clique": ["max_weight_clique"],
}  # fmt: skip
"""NetworkX's modules of tests, and the functions that they call here."""

NAMES = {name for names in FUNCTIONS.values() for name in names}

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
    found = list(Backend.enumerate_all_cliques(converted))
    assert [len(clique) for clique in found] == sorted(len(clique) for clique in found)
    assert as_set(found) == as_set(nx.enumerate_all_cliques(graph))
    for nodes in (None, [(1, 2), "a"], 7.5):
        assert Backend.node_clique_number(converted, nodes) == nx.node_clique_number(graph, nodes)
    clique, size = Backend.max_weight_clique(converted, None)
    assert all(graph.has_edge(a, b) for a, b in combinations(clique, 2))
    assert len(set(clique)) == size == nx.max_weight_clique(graph, None)[1]
    for k in (2, 3, 4):
        expected = list(nx.community.k_clique_communities(graph, k, backend="networkx"))
        assert sorted(map(hash, Backend.k_clique_communities(converted, k))) == sorted(map(hash, expected))


@given(graph=graphs())
@laws
def test_triangles_are_those_of_networkx(graph: nx.Graph[Any]) -> None:
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    if graph.number_of_edges() > 9:
        graph.add_edge("a", "a")  # NetworkX ignores loops in all of these
    converted = backend.convert_from_nx(graph)
    for nodes in (None, [frozenset({1}), "absent", 3], "b", (1, 2)):
        for name in ("triangles", "clustering", "square_clustering", "generalized_degree"):
            found, right = (getattr(of, name)(on, nodes) for of, on in ((Backend, converted), (nx, graph)))
            assert found == right
            assert name not in ("triangles", "clustering") or repr(found) == repr(right)
    assert Backend.transitivity(converted) == nx.transitivity(graph)
    graph.remove_edges_from([("a", "a")])
    assert list(Backend.core_number(Graph(graph)).items()) == list(nx.core_number(graph).items())
    for nodes in (None, [3, "b", "a"]):
        assert Backend.average_clustering(converted, nodes) == nx.average_clustering(graph, nodes)
    if any(nx.triangles(graph).values()):
        found = Backend.average_clustering(converted, count_zeros=False)
        assert found == nx.average_clustering(graph, count_zeros=False)


@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(10, 14)), max_size=20))
@laws
def test_projections_are_those_of_networkx(edges: list[tuple[int, int]]) -> None:
    graph: nx.Graph[Any] = nx.Graph(edges, name="visits")
    graph.add_nodes_from([0, 12, "alone"], kind="known")
    nodes = [node for node in graph if node == "alone" or node < 10]
    converted = backend.convert_from_nx(graph)
    for name, options in (
        ("projected_graph", {}),
        ("weighted_projected_graph", {"ratio": False}),
        ("weighted_projected_graph", {"ratio": True}),
        ("overlap_weighted_projected_graph", {"jaccard": True}),
        ("overlap_weighted_projected_graph", {"jaccard": False}),
        ("collaboration_weighted_projected_graph", {}),
        ("generic_weighted_projected_graph", {}),
    ):
        assert backend.can_run(name, (converted, nodes), options) is True
        found = getattr(Backend, name)(converted, nodes, **options)
        right = getattr(nx.bipartite, name)(graph, nodes, **options)
        assert type(found) is nx.Graph
        assert (found.graph, list(found.nodes(data=True))) == (right.graph, list(right.nodes(data=True)))
        assert {frozenset(edge) for edge in found.edges} == {frozenset(edge) for edge in right.edges}
        for a, b, data in found.edges(data=True):
            exact = "collaboration" not in name  # NetworkX adds these in the order of a set
            assert data == right[a][b] if exact else data == pytest.approx(right[a][b])
            assert {type(value) for value in data.values()} == {type(value) for value in right[a][b].values()}
    several = [node for node in graph if len(graph[node]) > 1]
    assert Backend.node_redundancy(converted, several) == nx.bipartite.node_redundancy(graph, several)


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


def test_redundancy_of_every_node() -> None:
    graph = nx.disjoint_union(nx.complete_bipartite_graph(2, 3), nx.cycle_graph(6))
    graph.add_edge(1, 6)
    found = Backend.node_redundancy(Graph(graph))
    assert list(found.items()) == list(nx.bipartite.node_redundancy(graph).items())
    assert set(found.values()) == {0, 0.5, 1}


def test_errors_are_those_of_networkx() -> None:
    odd, path = Graph(nx.complete_graph(3)), Graph(nx.path_graph(4))
    for function in (Backend.latapy_clustering, Backend.bipartite_average_clustering):
        with pytest.raises(nx.NetworkXError, match="not bipartite"):
            function(odd, mode="foo")
        with pytest.raises(nx.NetworkXError, match="must be: dot, min or max"):
            function(path, mode="foo")
        with pytest.raises(KeyError):
            function(path, ["absent"])
    with pytest.raises(nx.NetworkXError, match="k=1, k must be greater than 1"):
        list(Backend.k_clique_communities(path, 1))
    with pytest.raises(ZeroDivisionError):
        Backend.bipartite_average_clustering(path, [])
    for function in (Backend.node_redundancy, nx.bipartite.node_redundancy):
        with pytest.raises(nx.NetworkXError, match="fewer than two neighbors"):
            function(path if function is Backend.node_redundancy else path.nx)
    for graph, functions in ((odd, Backend), (odd.nx, nx)):
        with pytest.raises(ValueError, match="do not form a clique"):
            list(functions.find_cliques(graph, ["absent"]))
        with pytest.raises(nx.NodeNotFound, match="absent"):
            functions.node_clique_number(graph, [0, "absent"])


def test_what_is_not_the_same_is_left_to_networkx() -> None:
    women, odd = nx.davis_southern_women_graph(), nx.complete_graph(3)
    assert backend.can_run("find_cliques", (women,), {}) is True
    assert backend.can_run("triangles", (), {"G": odd}) is True
    assert backend.can_run("k_clique_communities", (odd, 3), {"cliques": None}) is True
    assert backend.can_run("k_clique_communities", (odd, 3, [[0, 1, 2]]), {}) is not True
    assert backend.can_run("k_clique_communities", (odd, 3), {"cliques": [[0, 1, 2]]}) is not True
    assert backend.can_run("find_cliques", (nx.MultiGraph(),), {}) is not True
    assert backend.can_run("find_cliques", (nx.DiGraph(),), {}) is not True
    for name in ("butterflies", "node_redundancy", "robins_alexander_clustering"):
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
    assert backend.can_run("core_number", (odd,), {}) is True
    assert "loops" in str(backend.can_run("core_number", (nx.Graph([(0, 0)]),), {}))


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("clustering", {"weight": "w"}, "weight is 'w': weights are left to NetworkX"),
        ("average_clustering", {"weight": "w"}, "weight is 'w': weights are left to NetworkX"),
        ("max_weight_clique", {}, "weight is 'weight': weights are left to NetworkX"),
        ("node_clique_number", {"cliques": [[0, 1]]}, "cliques is [[0, 1]]: nothing is left to search"),
        ("projected_graph", {"nodes": [0, 2], "multigraph": True}, "multigraph is True: parallel edges are left"),
        ("generic_weighted_projected_graph", {"nodes": [0, 2], "weight_function": max}, "Python functions are left"),
        ("weighted_projected_graph", {"nodes": [0, 1]}, "nodes are not a layer"),
        ("weighted_projected_graph", {"nodes": [0]}, "nodes are not a layer"),
        ("weighted_projected_graph", {"nodes": [0, 2, 2]}, "nodes are not a collection of distinct nodes"),
        ("weighted_projected_graph", {"nodes": [0, 2, 4]}, "nodes are not a collection of distinct nodes"),
        ("weighted_projected_graph", {"nodes": iter([0, 2])}, "nodes are not a collection of distinct nodes"),
    ],
)
def test_arguments_with_another_meaning_are_left_to_networkx(name: str, options: dict[str, Any], reason: str) -> None:
    assert reason in str(backend.can_run(name, (nx.path_graph(4),), options))
    right = {"nodes": [0, 2]} if "nodes" in options else {"weight": None} if name.startswith("max") else {}
    assert backend.can_run(name, (nx.path_graph(4),), right) is True


def test_networkx_logs_which_ran_and_why_not(caplog: pytest.LogCaptureFixture) -> None:
    if "papilio" not in nx.utils.backends.backends:
        pytest.skip("this environment was installed before Papilio was a backend; install it again")
    caplog.set_level("DEBUG", "networkx.utils.backends")
    graph, both = nx.complete_graph(150), nx.complete_bipartite_graph(100, 100)
    before = nx.config.backend_priority
    nx.config.backend_priority = {"algos": ["papilio"], "generators": ["papilio"]}
    try:
        assert nx.transitivity(graph) == 1
        assert nx.clustering(both, weight="w")[0] == 0
        assert nx.triangles(graph, 3) == 149 * 148 / 2
        assert nx.number_of_cliques(graph.copy()) == dict.fromkeys(graph, 1)  # by find_cliques
        assert nx.bipartite.weighted_projected_graph(both, range(100))[3][4] == {"weight": 100}
        assert nx.transitivity(nx.complete_graph(3)) == 1
    finally:
        nx.config.backend_priority = before
    used = re.findall(r"Using backend 'papilio' for call to '(\w+)'", caplog.text)
    assert used == ["transitivity", "find_cliques", "weighted_projected_graph"]
    for name, verb, reason in (
        ("clustering", "can't", "weight is 'w': weights are left to NetworkX"),
        ("triangles", "shouldn't", "only 1 of 150 nodes are requested"),
        ("transitivity", "shouldn't", "3 edges are fewer than 10000"),
    ):
        assert re.search(f"Backend 'papilio' {verb} run `{name}` with arguments: .* because: {reason}", caplog.text)


def test_the_backend_is_registered() -> None:
    if "papilio" not in nx.utils.backends.backends:
        pytest.skip("this environment was installed before Papilio was a backend; install it again")
    names = ["robins_alexander_clustering", "average_clustering"]
    for name in names + ["butterflies"] * hasattr(nx.bipartite, "butterflies"):
        function = getattr(nx.bipartite, name)
        women = nx.davis_southern_women_graph()  # of which NetworkX has no converted one
        assert function(women, backend="papilio") == pytest.approx(function(women, backend="networkx"))
    assert set(get_info()["functions"]) == NAMES | {"butterflies"}


def test_the_tests_of_networkx_pass(tmp_path: Path) -> None:
    if "papilio" not in nx.utils.backends.backends:
        pytest.skip("this environment was installed before Papilio was a backend; install it again")
    names = [f"networkx.algorithms.{module}" for module in FUNCTIONS]
    asked = {"NETWORKX_TEST_BACKEND": "papilio", "NETWORKX_FALLBACK_TO_NX": "True"}
    quiet = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:benchmark"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, "--log-level=DEBUG", "-rP", "--pyargs", *names],
        capture_output=True, text=True, timeout=900, cwd=tmp_path, env=os.environ | asked,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]
    used = set(re.findall(r"Using backend 'papilio' for call to '(\w+)'", run.stdout))
    assert used - {"butterflies"} == NAMES
