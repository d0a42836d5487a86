"""The layers of graphs whose vertices come in one list: by attributes, by direction, by a colouring."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import papilio
from papilio.errors import GraphError, InputError
from papilio.kernels.null.ensemble import Ensemble
from papilio.motifs import MOTIFS, Listing
from papilio.question import Question
from papilio.storage.any_object import from_any
from papilio.storage.interop import from_igraph, from_networkx
from papilio.storage.layers import Layers, find_layers

HERE: dict[str, Any] = {"engine": "cpu"}


def butterflies_of(graph: Any) -> int:
    """Count by the matrix of common neighbours."""
    matrix = np.zeros((graph.n_u, graph.n_v), np.int64)
    matrix[graph.u, graph.v] = 1
    common = (matrix @ matrix.T)[np.triu_indices(graph.n_u, 1)]
    return int((common * (common - 1) // 2).sum())


def two_parts() -> Any:
    """K(3,3), K(2,4) and a node without edges, without layers."""
    graph = nx.disjoint_union(nx.complete_bipartite_graph(3, 3), nx.complete_bipartite_graph(2, 4))
    graph.add_node(12)
    for node in graph:
        graph.nodes[node].pop("bipartite", None)
    return graph


def women_as(name: str, values: tuple[Any, Any]) -> Any:
    """The Southern women, with another attribute in place of ``bipartite``; the first node is a woman."""
    graph = nx.davis_southern_women_graph()
    for node in graph:
        graph.nodes[node][name] = values[graph.nodes[node].pop("bipartite")]
    return graph


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ((0, 1), None),
        ((False, True), None),
        (("0", "1"), None),
        ((0.0, 1.0), None),
        (("top", "bottom"), None),
        (("woman", "event"), ("woman", "event")),
        ((7, 3), ("7", "3")),
    ],
)
@pytest.mark.parametrize("name", ["bipartite", "type", "mode", "colour of the node"])
def test_any_attribute_of_two_values_names_the_layers(name: str, values: Any, names: Any) -> None:
    found = from_networkx(women_as(name, values))
    assert (found.graph.n_u, found.graph.n_v) == (18, 14)
    assert found.layers.names == names
    assert not found.layers.are_open


def test_layers_are_chosen_by_the_value_of_an_attribute_or_by_their_nodes() -> None:
    women = women_as("kind", ("woman", "event"))
    events = [node for node, kind in women.nodes(data="kind") if kind == "event"]
    for u in ("kind=event", events, iter(events)):
        assert from_any(women, u=u).n_u == 14
    assert from_networkx(women, u="kind=woman").layers.names == ("woman", "event")
    with pytest.raises(InputError, match="choose one of kind=event, kind=woman"):
        from_networkx(women, u="kind=man")
    with pytest.raises(InputError, match="without its value"):
        from_networkx(women, u="kind")
    with pytest.raises(InputError, match="the nodes have the attributes: 'kind'"):
        from_networkx(women, u="sex=f")
    with pytest.raises(GraphError, match="'Zoe', which is not a node"):
        from_networkx(women, u=["Zoe"])
    with pytest.raises(GraphError, match="joins two nodes of layer V"):
        from_networkx(women, u=events[:3])
    with pytest.raises(InputError, match="a unipartite graph has no layers"):
        from_networkx(women, u="kind=woman", kind="unipartite")


def test_igraph_has_the_same_choices() -> None:
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph.from_networkx(women_as("type", ("woman", "event")))
    assert from_igraph(graph).graph.n_u == 18
    assert from_igraph(graph, u="type=event").graph.n_u == 14
    assert from_igraph(graph, u=range(18)).graph.n_u == 18
    del graph.vs["type"]
    assert papilio.count(graph, "butterfly", **HERE).count == 341
    with pytest.raises(GraphError, match="'not there', which is not a node"):
        from_igraph(graph, u=["not there"])


def test_answers_that_do_not_depend_on_the_layers_need_none() -> None:
    graph, known = two_parts(), two_parts()
    sides = {node: int(node in (3, 4, 5, 8, 9, 10, 11)) for node in graph}
    nx.set_node_attributes(known, sides, "bipartite")
    assert papilio.count(graph, "butterfly", **HERE).count == 15
    for per in ("vertex", "edge"):
        places = ("u", "v") if per == "vertex" else ("edge",)
        found, right = (papilio.count(each, "butterfly", per=per, **HERE) for each in (graph, known))
        merged: list[dict[Any, int]] = [{}, {}]
        for at, result in enumerate((found, right)):
            for place in places:
                merged[at] |= result.vectors.aligned(place)
        assert merged[0] == merged[1]
    assert papilio.decompose(graph, "wing", **HERE).max_number == 4
    assert papilio.robins_alexander(graph, **HERE).value == 1
    assert {name: each.size for name, each in papilio.local_clustering(graph, **HERE).summaries().items()} == {"n": 13}
    assert list(papilio.latapy_clustering(graph).summaries()) == ["n"]
    assert list(papilio.latapy_clustering(known).summaries()) == ["u", "v"]
    assert papilio.count(graph, "maximal-biclique", **HERE).table == {(2, 4): 1, (3, 3): 1}
    assert papilio.count(graph, "biclique", p=2, q=2, **HERE).count == 15
    assert len(list(papilio.enumerate(graph, "biclique", p=2, q=2))) == 15
    table = papilio.count(graph, papilio.Biclique(None, None), **HERE).table
    right = papilio.count(known, papilio.Biclique(None, None), **HERE).table
    for p, q in table:
        assert table[p, q] == right.get((p, q), 0) + (right.get((q, p), 0) if p != q else 0)
    assert papilio.read(graph).reading["notes"][0].startswith("the nodes have no attribute for their layers")


@pytest.mark.parametrize(
    "ask",
    [
        lambda graph: papilio.count(graph, "biclique", p=2, q=3),
        lambda graph: papilio.count(graph, papilio.Biclique(3, None)),
        lambda graph: papilio.count(graph, "maximal-biclique", min_u=2),
        lambda graph: papilio.enumerate(graph, "biclique", p=2, q=2, with_u=[0]),
        lambda graph: papilio.project(graph, "u"),
        lambda graph: papilio.decompose(graph, "tip", layer="v"),
        lambda graph: papilio.significance(graph, "butterfly", samples=2),
        lambda graph: papilio.latapy_clustering(graph, layer="u"),
        lambda graph: papilio.cohesion_profile(graph),
        lambda graph: papilio.top_butterflies(graph),
        lambda graph: papilio.estimate(graph, "biclique", p=2, q=3),
    ],
)
def test_answers_that_depend_on_the_layers_name_what_to_set(ask: Any, tmp_path: Path) -> None:
    graph = two_parts()
    with pytest.raises(InputError, match=r"depends on which vertices are layer U.*attribute bipartite"):
        ask(graph)
    for node in graph:
        graph.nodes[node]["kind"] = "plant" if node in (0, 1, 2, 6, 7, 12) else "insect"
        graph.nodes[node]["side"] = "left" if node in (0, 1, 2, 8, 9, 10, 11) else "right"
    del graph.nodes[12]["kind"]
    graph.nodes[12]["kind"], graph.nodes[12]["side"] = "plant", "left"
    with pytest.raises(InputError, match="Set u='side=left' or u='kind=plant'"):
        ask(graph)
    stored = papilio.read(graph).save(tmp_path / "graph")
    with pytest.raises(InputError, match="Set u='side=left' or u='kind=plant'"):
        ask(stored)


def test_the_question_decides_whether_the_layers_matter() -> None:
    """By its mirror image: no list of motifs."""
    of_a_layer = ("census", "projection", "togetherness")
    alike = {name: kind().mirrored == kind() for name, kind in MOTIFS.items() if name not in of_a_layer}
    assert alike == dict.fromkeys(alike, True)
    assert papilio.Biclique(2, 3).mirrored == papilio.Biclique(3, 2)
    assert papilio.Biclique(2, None, max_q=5).mirrored == papilio.Biclique(None, 2, max_p=5)
    assert papilio.MaximalBiclique(2, 3, 4).mirrored == papilio.MaximalBiclique(3, 2, None, 4)
    assert papilio.Projection("u").mirrored == papilio.Projection("v")
    assert papilio.Togetherness("u").mirrored == papilio.Togetherness("v")
    assert papilio.BalancedButterfly(3).mirrored == papilio.BalancedButterfly(3, pair_side="v")
    butterflies, signed = papilio.Butterfly(), papilio.BalancedButterfly()
    assert Question(butterflies, "edge").of_layers == ""
    assert Question(papilio.Biclique(2, 2), "total", listing=Listing(with_v=(1,))).of_layers
    for null, motif in (("degrees", butterflies), ("edges", butterflies), ("signs", signed)):
        asked = Question(motif, "total", ensemble=Ensemble.of(null, 2, 0, None))
        assert bool(asked.of_layers) == (null != "signs")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=25), st.randoms())
def test_symmetric_counts_are_the_same_for_every_choice_of_layers(edges: Any, random: Any) -> None:
    """By brute force over the choices: exchange the layers of any components."""
    graph = nx.Graph((("u", u), ("v", v)) for u, v in edges)
    found = from_networkx(graph)
    parts = [sorted(part) for part in nx.connected_components(graph)]
    counts = set()
    for turned in list(product((False, True), repeat=len(parts)))[:8]:
        u = [node for part, turn in zip(parts, turned, strict=True) for node in part if (node[0] == "u") != turn]
        counts.add(butterflies_of(from_any(graph, u=u)))
    assert counts == {butterflies_of(found.graph)}
    assert found.layers.n_free == len(parts) or not edges


def test_layers_of_some_vertices_follow_from_their_neighbours() -> None:
    graph = nx.davis_southern_women_graph()
    for node in list(graph)[1:]:
        del graph.nodes[node]["bipartite"]
    found = from_networkx(graph)
    assert (found.graph.n_u, found.graph.n_v, found.layers.n_free) == (18, 14, 0)
    graph.add_edge("far", "away")
    assert from_networkx(graph).layers.n_free == 2
    graph.nodes["E1"]["bipartite"] = 0
    with pytest.raises(GraphError, match=r"two nodes of layer U|contradicts the layers"):
        from_networkx(graph)


def test_directed_edges_from_one_set_to_another_define_the_layers() -> None:
    graph = nx.DiGraph([("b", "x"), ("a", "y")])
    found = from_networkx(graph)
    assert found.labels_u.tolist() == ["b", "a"]  # type: ignore[union-attr]
    assert not found.layers.are_open
    graph.add_node(12)
    assert from_networkx(graph).layers.n_free == 2
    graph.add_edge("x", "c")
    assert from_networkx(graph).layers.n_free == 3


def test_attributes_of_other_kinds_are_no_layers() -> None:
    graph = nx.Graph([("a", "x"), ("b", "y")])
    for at, node in enumerate(graph):
        graph.nodes[node].update(place=np.arange(2), tags=["a"], number=at, type=np.zeros(3), missing=float("nan"))
    assert from_networkx(graph).layers.n_free == 2
    assert from_networkx(graph).layers.choices == ()


def test_a_colouring_finds_odd_cycles() -> None:
    for n in range(3, 9):
        ends = np.array([(at, (at + 1) % n) for at in range(n)])
        if n % 2:
            with pytest.raises(GraphError, match=r"odd number of edges.*kind='unipartite'"):
                find_layers(range(n), ends, {})
        else:
            in_v, layers = find_layers(range(n), ends, {})
            assert in_v.tolist() == [bool(at % 2) for at in range(n)]
            assert layers.n_free == 1
    with pytest.raises(GraphError, match="kind='unipartite'"):
        papilio.count(nx.karate_club_graph(), "butterfly")


def test_layers_survive_json() -> None:
    for layers in (Layers(), Layers(("a", "b"), "so", 3, ("x=1",))):
        assert Layers.from_dict(layers.to_dict()) == layers
