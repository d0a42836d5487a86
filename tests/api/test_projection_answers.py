"""Pairs of a projection as graphs of NetworkX and as charts, with their common neighbours, and what is noted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import papilio
from papilio.errors import InputError
from tests.tools.listings import write_many, write_women


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    return write_women(example_data, tmp_path_factory.mktemp("women"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many(tmp_path_factory.mktemp("many"))


def layer_of(graph: nx.Graph, layer: str) -> list[Any]:
    return [node for node, side in graph.nodes(data="bipartite") if side == "uv".index(layer)]


def edges_of(graph: nx.Graph, name: str) -> dict[frozenset[Any], Any]:
    return {frozenset((a, b)): value for a, b, value in graph.edges(data=name)}


@pytest.mark.parametrize("layer", ["u", "v"])
@pytest.mark.parametrize("has_labels", [True, False])
def test_graphs_of_networkx_equal_its_own_projections(
    women: Path, many: Path, tmp_path: Path, layer: str, has_labels: bool
) -> None:
    path = women if has_labels else many
    graph = papilio.read(path).to_networkx()
    own, first = layer_of(graph, layer), 0 if has_labels or layer == "u" else papilio.read(path).n_u
    expected = nx.bipartite.weighted_projected_graph(graph, own)
    if not has_labels:
        expected = nx.relabel_nodes(expected, lambda node: node - first)
    rows = papilio.project(path, layer, min_common=1, weighting="jaccard")
    listed = papilio.project(path, layer, min_common=1, weighting="jaccard", output=tmp_path / "pairs")
    for found in (rows.to_networkx(), listed.to_networkx()):
        assert type(found) is nx.Graph
        assert [*found] == sorted(expected) if not has_labels else {*found} == {*expected}
        assert edges_of(found, "common") == edges_of(expected, "weight")
        assert all(edge.keys() == {"common", "weight"} for _, _, edge in found.edges(data=True))
    plain = nx.bipartite.projected_graph(graph, own)
    assert rows.to_networkx().number_of_edges() == plain.number_of_edges() > 0


def test_vertices_without_pairs_are_nodes_under_their_own_labels(tmp_path: Path) -> None:
    edges = [("a", 1), ("a", "x"), (2, 1), (2, "x"), (3.0, 1)]
    found = papilio.project(edges, "u").to_networkx()
    assert [*map(repr, sorted(found, key=repr))] == ["'a'", "2", "3.0"]
    assert [*found.edges(data=True)] in ([("a", 2, {"common": 2})], [(2, "a", {"common": 2})])
    many = papilio.enumerate(
        [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")], "biclique", p=2, q=2, output=tmp_path / "b"
    )
    with pytest.raises(InputError, match="are no edges: to_networkx is for projections"):
        many.to_networkx()


def test_pairs_are_drawn_by_common_neighbours(women: Path) -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (papilio[report])")
    axes = figure.Figure().add_subplot()
    asked: Any = {"min_common": 2, "significance": "hypergeometric", "fdr": 0.4}
    rows = papilio.project(women, "u", **asked)
    assert rows.plot(axes) is axes
    lines = {line.get_label(): dict(line.get_xydata().tolist()) for line in axes.lines}
    every = Counter(row[2] for row in papilio.project(women, "u"))
    kept = Counter(row[2] for row in rows)
    assert lines["pairs"] == every
    assert {common: n for common, n in lines["kept, q up to 0.4"].items() if n} == kept
    assert 0 < kept.total() < every.total()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("common neighbours", "pairs")
    assert axes.get_title().startswith("rows (source, target, common, p, q) of pair of U with 2 or more in common")
    alone = figure.Figure().add_subplot()
    papilio.project(women, "u", min_common=15).plot(alone)
    assert [line.get_label() for line in alone.lines] == ["pairs"]
