"""Layers by their names: of columns, of values of a node attribute; ``u`` and ``v`` always work, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import papilio
from papilio.errors import InputError
from papilio.storage.store import open_store
from tests.tools.commands import Run

EDGES = [("rosa", "apis"), ("rosa", "vespa"), ("salvia", "apis"), ("salvia", "vespa"), ("viola", "apis")]
SIGNS = [1, -1, 1, 1, 1]
pytestmark = pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")

HERE = ("--cluster", "inline", "--engine", "cpu")


def as_file(path: Path) -> Any:
    rows = [f"{u},{v},{s}" for (u, v), s in zip(EDGES, SIGNS, strict=True)]
    path.write_text("\n".join(["plant,insect,stars", *rows]) + "\n", "utf-8")
    return papilio.read(path, u="plant", v="insect", sign="stars")


def as_frame(path: Path) -> Any:
    frame = pytest.importorskip("pandas").DataFrame(EDGES, columns=["plant", "insect"])
    return papilio.read(frame.assign(stars=SIGNS), u="plant", v="insect", sign="stars")


def as_network(path: Path) -> Any:
    graph = nx.Graph()
    for (u, v), sign in zip(EDGES, SIGNS, strict=True):
        graph.add_node(u, kind="plant")
        graph.add_node(v, kind="insect")
        graph.add_edge(u, v, stars=sign)
    return papilio.read(graph, sign="stars")


def as_store(path: Path) -> Any:
    return as_frame(path).save(path.with_suffix(".graph"))


def as_converted(path: Path) -> Any:
    as_file(path)
    store = papilio.convert(path, path.with_suffix(".store"), u="plant", v="insect", sign="stars")
    return papilio.read(store.path)


@pytest.fixture(params=[as_file, as_frame, as_network, as_store, as_converted])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "visits.csv")


def test_a_graph_has_the_names_of_its_columns(graph: Any) -> None:
    assert graph.layer_names == {"u": "plant", "v": "insect"}
    assert [graph.layer(word) for word in ("plant", "insect", "u", "v")] == ["u", "v", "u", "v"]
    assert set(graph.labels("insect")) == {"apis", "vespa"}
    with pytest.raises(InputError, match=r"layer is 'plants'; did you mean 'plant'\?; expected u, v, plant or insect"):
        graph.layer("plants")


@pytest.mark.parametrize(
    "ask",
    [
        lambda graph, layer: papilio.project(graph, layer, min_common=1).head(9),
        lambda graph, layer: list(papilio.enumerate(graph, "projection", layer=layer, min_common=1)),
        lambda graph, layer: papilio.count(graph, "projection", layer=layer, min_common=1).count,
        lambda graph, layer: (
            papilio.decompose(graph, "tip", layer=layer, engine="cpu").vectors.by_id("number").tolist()
        ),
        lambda graph, layer: (
            papilio.latapy_clustering(graph, layer=layer).values.by_id(layer_of(layer))["dot"].tolist()
        ),
        lambda graph, layer: papilio.census(graph, layer, engine="cpu").classes,
        lambda graph, layer: papilio.census_pairs(graph, layer, by="conflicting", engine="cpu").pairs,
        lambda graph, layer: papilio.census_vertices(graph, layer, engine="cpu").top(3),
        lambda graph, layer: papilio.count(graph, "balanced-butterfly", k=3, pair_side=layer, engine="cpu").count,
        lambda graph, layer: papilio.plan(graph, "balanced-butterfly", k=3, pair_side=layer, engine="cpu").n_items,
    ],
)
def test_every_verb_takes_the_name_of_a_layer(ask: Any, tmp_path: Path) -> None:
    graph = as_frame(tmp_path / "visits.csv")
    for name, layer in (("plant", "u"), ("insect", "v")):
        assert ask(graph, name) == ask(graph, layer)
    with pytest.raises(InputError, match="layer is 'w'; expected u, v, plant or insect"):
        ask(graph, "w")


def layer_of(word: str) -> str:
    return {"plant": "u", "insect": "v"}.get(word, word)


def test_names_of_layers_on_the_command_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    as_file(path)
    asked = (path, "--u", "plant", "--v", "insect")
    run("project", *asked, "--layer", "v")
    by_letter = run("project", *asked, "--layer", "v", "--min-common", "1")
    by_name = run("project", *asked, "--layer", "insect", "--min-common", "1")
    assert by_name == by_letter
    assert by_name[1].splitlines()[1].split("\t") == ["apis", "vespa", "2"]
    code, said, err = run("decompose", "tip", *asked, "--layer", "plant", "--engine", "cpu")
    assert (code, said) == (0, "1\n")
    assert "tip numbers of 3 vertices of layer U (plant) in 3 plant x 2 insect vertices" in err
    code, said, err = run("count", "butterfly", *asked, *HERE)
    assert "butterfly: 1 in 3 plant x 2 insect vertices, 5 edges" in err
    signed = (*asked, "--sign", "stars", *HERE)
    assert (
        run("count", "census", *signed, "--pair-side", "plant")[:2]
        == run("count", "census", *signed, "--pair-side", "u")[:2]
    )
    code, said, err = run("count", "projection", *asked, "--layer", "plants", *HERE)
    assert code != 0
    assert "layer is 'plants'; did you mean 'plant'?" in err


def test_graphs_without_names_have_only_u_and_v(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("1 2\n1 3\n2 3\n", "utf-8")
    for graph in (papilio.read(path, kind="bipartite"), papilio.read([(1, 2), (1, 3)])):
        assert graph.layer_names == {}
        with pytest.raises(InputError, match="layer is 'plant'; expected u or v"):
            papilio.project(graph, "plant")
    friends = papilio.read(path, kind="unipartite")
    with pytest.raises(InputError, match="a unipartite graph, without layers"):
        friends.layer("plant")
    store = papilio.read([(1, 2), (1, 3)]).save(tmp_path / "store")
    assert "layers" not in open_store(store.path).manifest.provenance
