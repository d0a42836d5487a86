"""Measures as users ask for them: equal to NetworkX and to definitions, laws, closed forms, files, what is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.algorithms import bipartite

import papilio
from papilio.cluster.events import PhaseAdvanced, PhaseStarted
from papilio.errors import CapacityError, InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.store import open_store, write_store
from tests.conftest import read_edges, share_of_examples
from tests.tools.commands import Run
from tests.tools.listings import write_women
from tests.tools.oracle import count_butterflies, neighbour_sets
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, relabelled

MODES = ("dot", "min", "max")
EMPTY = BipartiteGraph.from_edges(np.zeros(0, int), np.zeros(0, int), 4, 3)
NOTHING = BipartiteGraph.from_edges(np.zeros(0, int), np.zeros(0, int), 0, 0)


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    return write_women(example_data, tmp_path_factory.mktemp("women"))


@pytest.fixture
def unipartite(tmp_path: Path) -> Path:
    write_store(tmp_path / "one", UnipartiteGraph.from_edges([0, 1], [1, 2]), provenance={})
    return tmp_path / "one"


def networkx_of(graph: BipartiteGraph) -> nx.Graph[Any]:
    other: nx.Graph[Any] = nx.Graph()
    other.add_nodes_from([("u", i) for i in range(graph.n_u)] + [("v", i) for i in range(graph.n_v)])
    other.add_edges_from((("u", u), ("v", v)) for u, v in edge_list(graph))
    return other


def walks(graph: BipartiteGraph) -> list[list[tuple[str, int]]]:
    """List every path of three edges once, from its end in V to its end in U."""
    sets = neighbour_sets(edge_list(graph))
    return [
        [("v", a), ("u", u), ("v", v), ("u", b)]
        for u, v in edge_list(graph)
        for _, a in sets["u", u]
        for _, b in sets["v", v]
        if a != v and b != u
    ]


def closed_walks(graph: BipartiteGraph) -> list[list[tuple[str, int]]]:
    edges = set(edge_list(graph))
    return [path for path in walks(graph) if (path[3][1], path[0][1]) in edges]


def share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


@settings(max_examples=share_of_examples(40), deadline=None)
@given(bipartite_graphs(max_side=8))
def test_robins_alexander_is_the_share_of_closed_paths(graph: BipartiteGraph) -> None:
    found = papilio.robins_alexander(graph, engine="cpu")
    paths = walks(graph)
    assert found.three_paths == len(paths)
    assert 4 * found.butterflies == len(closed_walks(graph))
    if paths:
        assert found.fraction == Fraction(len(closed_walks(graph)), len(paths))
        assert found.value == pytest.approx(bipartite.robins_alexander_clustering(networkx_of(graph)), rel=1e-15)
    else:
        assert found.fraction is None
        assert found.value is None


@settings(max_examples=share_of_examples(40), deadline=None)
@given(bipartite_graphs(max_side=8))
def test_local_clustering_of_vertices(graph: BipartiteGraph) -> None:
    found = papilio.local_clustering(graph, engine="cpu")
    squares = nx.square_clustering(networkx_of(graph))
    paths, closed = walks(graph), closed_walks(graph)
    for layer, n in (("u", graph.n_u), ("v", graph.n_v)):
        for i in range(n):
            own = sum((layer, i) in path[1:3] for path in paths)
            shut = sum((layer, i) in path[1:3] for path in closed)
            assert found.three_paths[layer][i] == own
            assert 2 * int(found.butterflies[layer][i]) == shut
            assert found.values[layer]["closed"][i] == pytest.approx(share(shut, own), rel=1e-15, nan_ok=True)
            square = found.values[layer]["square"][i]
            assert (square if own else 0) == pytest.approx(squares[layer, i], rel=1e-15)
            assert np.isnan(square) == (own == 0)


@settings(max_examples=share_of_examples(40), deadline=None)
@given(bipartite_graphs(max_side=8))
def test_local_clustering_of_edges(graph: BipartiteGraph) -> None:
    found = papilio.local_clustering(graph, per="edge", engine="cpu")
    support = count_butterflies(edge_list(graph)).edge
    paths, closed = walks(graph), closed_walks(graph)
    for i, (u, v) in enumerate(edge_list(graph)):
        own = sum(path[1:3] == [("u", u), ("v", v)] for path in paths)
        shut = sum(path[1:3] == [("u", u), ("v", v)] for path in closed)
        assert (found.three_paths["edge"][i], found.butterflies["edge"][i]) == (own, shut) == (own, support[u, v])
        assert found.values["edge"]["closed"][i] == pytest.approx(share(shut, own), rel=1e-15, nan_ok=True)


@settings(max_examples=share_of_examples(25), deadline=None)
@given(bipartite_graphs(max_side=9), st.integers(0, 2**32 - 1))
def test_relabelling_and_swapping_layers(graph: BipartiteGraph, seed: int) -> None:
    renamed, new_u, new_v = relabelled(graph, seed)
    swapped = graph.swap_layers()
    one = papilio.robins_alexander(graph, engine="cpu").fraction
    assert papilio.robins_alexander(renamed, engine="cpu").fraction == one
    assert papilio.robins_alexander(swapped, engine="cpu").fraction == one
    local = papilio.local_clustering(graph, engine="cpu").values
    moved = papilio.local_clustering(renamed, engine="cpu").values
    turned = papilio.local_clustering(swapped, engine="cpu").values
    for layer, other, new in (("u", "v", new_u), ("v", "u", new_v)):
        for name, values in local[layer].items():
            np.testing.assert_array_equal(moved[layer][name][new], values)
            np.testing.assert_array_equal(turned[other][name], values)
    levels = papilio.cohesion_profile(graph, engine="cpu").levels
    assert papilio.cohesion_profile(renamed, engine="cpu").levels == levels
    for level, turned_level in zip(levels, papilio.cohesion_profile(swapped, engine="cpu").levels, strict=True):
        assert (level.n_u, level.n_v) == (turned_level.n_v, turned_level.n_u)
        assert (level.least, level.components) == (turned_level.least, turned_level.components)


@settings(max_examples=share_of_examples(40), deadline=None)
@given(bipartite_graphs())
def test_the_cohesion_profile(graph: BipartiteGraph) -> None:
    found = papilio.cohesion_profile(graph, engine="cpu")
    whole = networkx_of(graph)
    counts = count_butterflies(edge_list(graph)).vertex
    assert [level.least for level in found.levels] == sorted(
        {1 << counts[vertex].bit_length() - 1 if counts[vertex] else 0 for vertex in whole}
    )
    for level in found.levels:
        inside = whole.subgraph([vertex for vertex in whole if counts[vertex] >= level.least])
        parts = [len(part) for part in nx.connected_components(inside)]
        assert level.n_u == sum(vertex[0] == "u" for vertex in inside)
        assert (level.n_u + level.n_v, level.n_edges) == (len(inside), inside.size())
        assert (level.components, level.largest) == (len(parts), max(parts))
        assert level.least_degree == min(degree for _, degree in inside.degree)
        if len(inside) > 1:
            connectivity = nx.edge_connectivity(inside)
            assert connectivity <= level.cut_at_most
            assert (connectivity == 0) == (level.cut_at_most == 0)


@pytest.mark.parametrize(("m", "n"), [(1, 4), (2, 2), (3, 5)])
def test_complete_graphs(m: int, n: int) -> None:
    graph = complete_graph(m, n)
    butterflies = math.comb(m, 2) * math.comb(n, 2)
    found = papilio.robins_alexander(graph, engine="cpu")
    assert (found.butterflies, found.three_paths) == (butterflies, m * n * (m - 1) * (n - 1))
    assert found.value == (None if m == 1 else 1.0)
    expected = math.nan if m == 1 else 1.0
    for per in ("vertex", "edge"):
        local = papilio.local_clustering(graph, per=per, engine="cpu")
        for values in local.values.values():
            for each in values.values():
                np.testing.assert_array_equal(each, np.full(each.size, expected))
    levels = papilio.cohesion_profile(graph, engine="cpu").levels
    assert levels[0].cut_at_most == min(m, n)
    assert all((level.components, level.n_edges) == (1, m * n) for level in levels[:1])


def test_the_women_of_the_south(women: Path) -> None:
    found = papilio.robins_alexander(women, engine="cpu")
    graph = open_store(women).read()
    assert isinstance(graph, BipartiteGraph)
    other = networkx_of(graph)
    assert round(bipartite.robins_alexander_clustering(other), 12) == round(found.value or 0, 12)
    assert (found.butterflies, found.three_paths, found.fraction) == (341, 2916, Fraction(341, 729))
    latapy = papilio.latapy_clustering(women)
    for mode in MODES:
        for layer in ("u", "v"):
            nodes = [node for node in other if node[0] == layer]
            mean = latapy.summaries()[layer].mean_of_all[mode]
            assert mean == pytest.approx(bipartite.average_clustering(other, nodes, mode=mode), rel=1e-14)
    levels = papilio.cohesion_profile(women, engine="cpu").levels
    assert (levels[0].n_u, levels[0].n_v, levels[0].n_edges, levels[0].components) == (18, 14, 89, 1)


def test_the_senate_votes(example_data: Path) -> None:
    graph = read_edges(example_data / "senate-votes.txt.gz")
    found = papilio.robins_alexander(graph, engine="cpu")
    degree_u, degree_v = np.bincount(graph.u).tolist(), np.bincount(graph.v).tolist()
    paths = sum((degree_u[u] - 1) * (degree_v[v] - 1) for u, v in edge_list(graph))
    assert (found.butterflies, found.three_paths) == (25_666_956, paths)
    local = papilio.local_clustering(graph, engine="cpu")
    for layer in ("u", "v"):
        # The mean, weighted by the paths of each vertex, is that of the whole graph.
        assert sum(local.three_paths[layer].tolist()) == paths
        assert 2 * sum(local.butterflies[layer].tolist()) == 4 * found.butterflies


@pytest.mark.parametrize("graph", [EMPTY, NOTHING], ids=["no edges", "no vertices"])
def test_nothing_is_undefined(graph: BipartiteGraph) -> None:
    found = papilio.robins_alexander(graph, engine="cpu").to_dict()
    assert (found["butterflies"], found["three_paths"], found["fraction"], found["value"]) == (
        0,
        0,
        None,
        None,
    )
    nothing = dict.fromkeys(MODES)
    zero = dict.fromkeys(MODES, 0.0) if graph.n_u else nothing
    summary = papilio.latapy_clustering(graph).to_dict()["layers"]["u"]
    assert summary == {"size": graph.n_u, "defined": 0, "mean": nothing, "mean_of_all": zero}
    for per in ("vertex", "edge"):
        local = papilio.local_clustering(graph, per=per, engine="cpu").to_dict()
        assert all(place["defined"] == 0 for place in local["places"].values())
    levels = papilio.cohesion_profile(graph, engine="cpu").levels
    sizes = {
        "n_u": 4,
        "n_v": 3,
        "n_edges": 0,
        "components": 7,
        "largest": 1,
        "least_degree": 0,
        "cut_at_most": 0,
    }
    assert [level.to_dict() for level in levels] == [{"least": 0, **sizes}] * (graph.n_u > 0)
    assert papilio.top_butterflies(graph, per="edge", engine="cpu").top() == ()


def test_top_vertices_and_edges_with_their_labels(women: Path) -> None:
    graph = open_store(women).read()
    assert isinstance(graph, BipartiteGraph)
    counts = count_butterflies(edge_list(graph))
    found = papilio.top_butterflies(women, n=3, engine="cpu").largest
    assert [entry.place for entry in found] == ["u"] * 3 + ["v"] * 3
    best = sorted(((-n, i) for (layer, i), n in counts.vertex.items() if layer == "u"))[:3]
    assert [(entry.labels, entry.count) for entry in found[:3]] == [((f"woman {i}",), -n) for n, i in best]
    edges = papilio.top_butterflies(women, per="edge", n=20, engine="cpu").top(20)
    order = sorted((-n, u, v) for (u, v), n in counts.edge.items())[:20]
    assert [(e.labels, e.count) for e in edges] == [((f"woman {u}", v + 100), -n) for n, u, v in order]


def test_top_edges_of_a_graph_in_memory_have_their_labels() -> None:
    other: nx.Graph[Any] = nx.Graph()
    other.add_nodes_from("abc", bipartite=0)
    other.add_nodes_from([10, 20, 30], bipartite=1)
    other.add_edges_from([("a", 10), ("a", 20), ("b", 10), ("b", 20), ("c", 30)])
    found = papilio.top_butterflies(other, per="edge", n=2, engine="cpu")
    assert [(entry.labels, entry.count) for entry in found.top(2)] == [(("a", 10), 1), (("a", 20), 1)]
    assert found.graph["path"] is None


def test_files_of_values_have_labels_and_nulls(women: Path, tmp_path: Path) -> None:
    local = papilio.local_clustering(women, output=tmp_path / "local.parquet", engine="cpu")
    table = pq.read_table(tmp_path / "local.parquet")
    assert table.column_names == ["layer", "id", "label", "butterflies", "three_paths", "closed", "square"]
    assert table.column("label").to_pylist()[:2] == ["woman 0", "woman 1"]
    assert table.column("butterflies").to_pylist() == [*local.butterflies["u"], *local.butterflies["v"]]
    assert table.schema.metadata[b"papilio.graph_hash"].decode() == open_store(women).hash
    graph = BipartiteGraph.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 1, 2], 4, 3)
    papilio.local_clustering(graph, output=tmp_path / "l.parquet", engine="cpu")
    assert pq.read_table(tmp_path / "l.parquet").column("closed").to_pylist() == [
        1,
        1,
        None,
        None,
        1,
        1,
        None,
    ]
    papilio.local_clustering(graph, per="edge", output=tmp_path / "e.parquet", engine="cpu")
    assert pq.read_table(tmp_path / "e.parquet").to_pydict() == {
        "u": graph.u.tolist(),
        "v": graph.v.tolist(),
        "butterflies": [1, 1, 1, 1, 0],
        "three_paths": [1, 1, 1, 1, 0],
        "closed": [1, 1, 1, 1, None],
    }
    found = papilio.latapy_clustering(graph, layer="v", output=tmp_path / "p.parquet", threads=1)
    assert found.output == str(tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet").to_pydict() == {
        "layer": ["v"] * 3,
        "id": [0, 1, 2],
        "partners": [1, 1, 0],
        **{mode: [1, 1, None] for mode in MODES},
    }
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".parquet"] * 4


def test_a_job_directory_keeps_the_count(women: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    assert not papilio.local_clustering(women, job=job, engine="cpu").counted.reused
    again = papilio.top_butterflies(women, n=20, job=job, engine="cpu")
    assert again.reused
    assert len([entry for entry in again.largest if entry.place == "u"]) == 18


def test_progress_goes_through_the_phases(women: Path) -> None:
    seen: list[Any] = []
    papilio.cohesion_profile(women, engine="cpu", progress=seen.append)
    papilio.latapy_clustering(women, progress=seen.append)
    phases = [event.name for event in seen if isinstance(event, PhaseStarted)]
    assert phases == ["start", "plan", "run", "write", "levels", "read", "pairs"]
    shares = [event.share for event in seen if isinstance(event, PhaseAdvanced)]
    assert shares[-1] == 1.0
    assert 1.0 in shares[:-1]


def test_a_unipartite_graph_is_refused(unipartite: Path) -> None:
    for measure, name in (
        (papilio.robins_alexander, "Robins-Alexander clustering"),
        (papilio.latapy_clustering, "Latapy's clustering"),
        (papilio.cohesion_profile, "the cohesion profile"),
        (papilio.top_butterflies, "the number of butterflies"),
    ):
        with pytest.raises(UnsupportedError, match=f"{name} is defined on bipartite graphs; .*one is unipartite"):
            measure(unipartite)


@pytest.mark.parametrize(
    ("measure", "options", "error", "message"),
    [
        (papilio.latapy_clustering, {"layer": "w"}, InputError, "layer is 'w'"),
        (papilio.latapy_clustering, {"threads": 0}, InputError, "threads is 0"),
        (papilio.local_clustering, {"per": "total"}, InputError, "expected vertex or edge"),
        (papilio.top_butterflies, {"n": 0}, InputError, "n is 0"),
        (papilio.top_butterflies, {"per": "pair"}, InputError, "per is 'pair'"),
        (papilio.local_clustering, {"output": "no/such/file"}, StoreError, "no/such"),
    ],
)
def test_questions_that_make_no_sense(measure: Any, options: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        measure(complete_graph(3, 3), **options)


def test_pairs_too_large_for_the_memory_are_refused_before_the_graph_is_read(
    women: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papilio.measures.values.free_memory_bytes", lambda: 1000)
    with pytest.raises(CapacityError, match=r"89 edges, whose pairs need, with 2 threads, about"):
        papilio.latapy_clustering(women, threads=2)


def test_the_command_for_a_whole_graph(women: Path, run: Run, tmp_path: Path) -> None:
    job = tmp_path / "job"
    args = ("measure", "robins-alexander", women, "--engine", "cpu", "--cluster", "inline", "--job", job)
    code, said, err = run(*args)
    assert (code, said) == (0, "0.46776406035665297\n"), err
    assert "4 * 341 butterflies / 2916 paths of three edges = 341/729" in err
    assert "counted by engine cpu (inline)" in err
    code, said, err = run(*args)
    assert (code, said) == (0, "0.46776406035665297\n"), err
    assert "taken from the job" in err
    code, said, err = run(*args, "--json")
    data = json.loads(said)
    assert (data["butterflies"], data["three_paths"], data["fraction"]) == (341, 2916, [341, 729])
    assert data["count"]["job"]["path"] == str(job)


def test_the_command_says_undefined(run: Run, tmp_path: Path) -> None:
    write_store(tmp_path / "star", complete_graph(1, 4), provenance={})
    cpu = ("--engine", "cpu", "--cluster", "inline")
    code, said, err = run("measure", "robins-alexander", tmp_path / "star", *cpu)
    assert (code, said) == (0, "undefined\n"), err
    code, said, err = run("measure", "local", tmp_path / "star", *cpu)
    assert code == 0, err
    assert said.splitlines()[1].split() == ["u", "1", "0", "defined", "undefined", "undefined"]
    assert said.splitlines()[4].split() == ["v", "4", "0", "all", "0.0", "0.0"]
    code, said, err = run("measure", "robins-alexander", tmp_path / "star", *cpu, "--json")
    assert json.loads(said)["value"] is None


def test_the_commands_for_vertices_and_edges(women: Path, run: Run, tmp_path: Path) -> None:
    cpu = ("--engine", "cpu", "--cluster", "inline")
    code, said, err = run("measure", "latapy", women, "--layer", "v", "--output", tmp_path / "p.parquet")
    assert code == 0, err
    lines = [line.split() for line in said.splitlines()]
    assert lines[0] == ["of", "size", "defined", "mean", *MODES]
    assert lines[1][:4] == ["v", "14", "14", "defined"]
    assert f"values: {tmp_path / 'p.parquet'}" in err
    code, said, err = run("measure", "latapy", women, "--threads", "1", "--json")
    assert list(json.loads(said)["layers"]) == ["u", "v"], err
    code, said, err = run("measure", "local", women, "--per", "edge", *cpu, "--json")
    assert json.loads(said)["places"]["edge"]["defined"] == 89, err
    code, said, err = run("measure", "cohesion", women, *cpu)
    assert code == 0, err
    assert said.splitlines()[1].split() == ["2", "18", "14", "89", "1", "32", "2", "2"]
    code, said, err = run("measure", "cohesion", women, *cpu, "--json")
    assert json.loads(said)["levels"][0]["cut_at_most"] == 2, err
    code, said, err = run("measure", "top", women, "-n", "2", *cpu)
    assert (code, said) == (0, "u\twoman 2\t91\nu\twoman 0\t75\nv\t107\t143\nv\t106\t86\n"), err
    code, said, err = run("measure", "top", women, "--per", "edge", "-n", "1", *cpu, "--json")
    assert json.loads(said)["top"] == [{"place": "edge", "ids": [2, 7], "labels": ["woman 2", 107], "count": 35}], err


def test_the_commands_say_what_is_wrong(women: Path, unipartite: Path, run: Run, tmp_path: Path) -> None:
    for args, expected, message in (
        (("robins-alexander", unipartite), 4, "defined on bipartite graphs"),
        (("top", women, "-n", "0"), 2, "n is 0; the minimum is 1"),
        (("latapy", women, "--threads", "0"), 2, "threads is 0"),
        (("local", women, "--output", tmp_path / "no" / "x"), 3, "does not exist"),
        (("local", women, "--per", "total"), 2, "'total' is not one of"),
        (("cohesion", tmp_path / "none"), 3, "does not exist"),
    ):
        code, said, err = run("measure", *args)
        assert (code, said) == (expected, ""), err
        assert message in err
