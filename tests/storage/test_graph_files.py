"""Files of graphs with their vertices, written by NetworkX, igraph or by hand, and read as users do."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import papilio
from papilio.errors import GraphError, InputError, MalformedLineError
from papilio.storage.graph_files import find_graph_format
from papilio.storage.store import open_store

igraph = pytest.importorskip("igraph")

pytestmark = pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")


def random_graph(seed: int, *, isolated: bool = True) -> Any:
    """Plants and insects, with names that hold blanks; every edge leads from a plant to an insect."""
    draw = random.Random(seed)
    plants = [f"plant {at}" for at in range(draw.randint(1, 6))]
    insects = [f"insect é{at}" for at in range(draw.randint(1, 6))]
    graph = nx.DiGraph()
    for plant in plants:
        for insect in draw.sample(insects, draw.randint(1, len(insects))):
            graph.add_edge(plant, insect, weight=draw.randint(1, 9))
    if isolated:
        graph.add_nodes_from((*plants, *insects, "plant alone", "insect alone"))
    for node in graph:
        graph.nodes[node]["bipartite"] = int(node.startswith("insect"))
    return graph


def as_text(write: Any) -> Callable[[Any, Path], None]:
    return lambda graph, path: write(graph, str(path))


def by_igraph(method: str, **options: Any) -> Callable[[Any, Path], None]:
    def write(graph: Any, path: Path) -> None:
        nodes = list(graph)
        made = igraph.Graph(len(nodes), [(nodes.index(a), nodes.index(b)) for a, b in graph.edges()])
        made.vs["name"] = nodes
        made.vs["type"] = [bool(graph.nodes[node]["bipartite"]) for node in nodes]
        made.es["weight"] = [weight for *_, weight in graph.edges(data="weight")]
        getattr(made, method)(str(path), **options)

    return write


def write_pajek(graph: Any, path: Path) -> None:
    nodes = sorted(graph, key=lambda node: graph.nodes[node]["bipartite"])
    n_u = sum(not graph.nodes[node]["bipartite"] for node in nodes)
    lines = [
        f"*Vertices {len(nodes)} {n_u}",
        *(f'{at + 1} "{node}"' for at, node in enumerate(nodes)),
        "*Edges",
    ]
    path.write_text("\n".join([*lines, *(f"{nodes.index(a) + 1} {nodes.index(b) + 1}" for a, b in graph.edges())]))


def write_hif(graph: Any, path: Path) -> None:
    rows = [{"edge": b, "node": a, "attrs": {"weight": w}} for a, b, w in graph.edges(data="weight")]
    plants = [{"node": node} for node, side in graph.nodes(data="bipartite") if not side]
    insects = [{"edge": node} for node, side in graph.nodes(data="bipartite") if side]
    path.write_text(json.dumps({"network-type": "undirected", "incidences": rows, "nodes": plants, "edges": insects}))


def write_sif(graph: Any, path: Path) -> None:
    rows = ["\t".join([plant, "visits", *graph[plant]]) for plant in graph if graph[plant]]
    path.write_text("\n".join([*rows, ""]), "utf-8")


WITH_LAYERS: dict[str, Callable[[Any, Path], None]] = {
    "a.graphml": as_text(nx.write_graphml),
    "igraph.graphml": by_igraph("write_graphml"),
    "a.gml": as_text(nx.write_gml),
    "a.gexf": as_text(nx.write_gexf),
    "a.hif.json": write_hif,
    "a.net": write_pajek,
}
"""Formats that hold the layers and vertices without edges."""

BY_DIRECTION: dict[str, Callable[[Any, Path], None]] = {
    "a.sif": write_sif,
    "a.adjlist": lambda graph, path: nx.write_adjlist(plain(graph), path),
    "a.multiadj": lambda graph, path: nx.write_multiline_adjlist(plain(graph), path),
    "a.edgelist": lambda graph, path: nx.write_edgelist(plain(graph), path),
    "a.ncol": lambda graph, path: path.write_text("".join(f"{a} {b} 2\n" for a, b in plain(graph).edges())),
    "a.lgl": lambda graph, path: path.write_text(
        "".join(f"# {a}\n" + "".join(f"{b} 2\n" for b in of) for a, of in plain(graph).adj.items() if of)
    ),
}
"""Formats of edges alone, from plants to insects."""


def plain(graph: Any) -> Any:
    """The graph with names without blanks, as such formats require."""
    return nx.relabel_nodes(graph, {node: node.replace(" ", "_") for node in graph})


def edges_of(read: Any) -> set[tuple[str, str]]:
    frame = read.to_arrow()
    return {
        (str(u).replace("_", " "), str(v).replace("_", " "))
        for u, v in zip(frame["u"].to_pylist(), frame["v"].to_pylist(), strict=True)
    }


@pytest.mark.parametrize("name", [*WITH_LAYERS, *BY_DIRECTION])
@pytest.mark.parametrize("seed", range(4))
def test_every_format_gives_the_same_graph(tmp_path: Path, name: str, seed: int) -> None:
    graph = random_graph(seed, isolated=name in WITH_LAYERS)
    path = tmp_path / name
    {**WITH_LAYERS, **BY_DIRECTION}[name](graph, path)
    for place in (path, tmp_path / f"{name}.gz"):
        if place is not path:
            place.write_bytes(gzip.compress(path.read_bytes()))
        read = papilio.read(place)
        assert edges_of(read) == set(graph.edges())
        insects = sum(side for _, side in graph.nodes(data="bipartite"))
        assert (read.n_u, read.n_v) == (len(graph) - insects, insects)
        assert not read.layers.are_open
        assert read.reading["notes"] == []


@pytest.mark.parametrize("name", ["a.graphml", "a.gml", "a.gexf", "a.net", "a.hif.json", "a.edgelist"])
def test_the_content_tells_the_format_where_the_name_does_not(tmp_path: Path, name: str) -> None:
    graph, path = random_graph(0, isolated=False), tmp_path / "graph.txt"
    {**WITH_LAYERS, **BY_DIRECTION}[name](graph, path)
    assert edges_of(papilio.read(path)) == set(graph.edges())
    store = papilio.convert(path, tmp_path / "store")
    assert store.manifest.provenance["format"] == papilio.read(path).reading["format"]


def test_names_of_edge_lists_do_not_make_them_other_files() -> None:
    for name, head in (
        ("a.net", b"1 2\n2 3\n"),
        ("a.dl", b"1 2\n"),
        ("dl.txt", b"dl nb\n"),
        ("a.gml", b"a,b\n"),
    ):
        assert find_graph_format(name, head) is None
    assert find_graph_format("a.hif.json", b'{"metadata": "long"') == "hif"
    assert find_graph_format("a.txt", b"graph theory\nbook shelf\n") is None


def test_signs_and_layers_of_a_file_are_those_of_its_attributes(tmp_path: Path) -> None:
    graph, path = random_graph(3), tmp_path / "a.graphml"
    for node in graph:
        graph.nodes[node]["kind"] = ("plant", "insect")[graph.nodes[node].pop("bipartite")]
    nx.write_graphml(graph, path)
    read = papilio.read(path, u="kind=insect", sign="weight", positive_from=5)
    assert read.layer_names == {"u": "insect", "v": "plant"}
    found = read.to_arrow().to_pylist()
    assert {(row["v"], row["u"]): row["sign"] for row in found} == {
        (a, b): 1 if weight >= 5 else -1 for a, b, weight in graph.edges(data="weight")
    }
    assert papilio.read(path).layer_names == {"u": "plant", "v": "insect"}
    assert papilio.project(path, "insect", min_common=1).head(1) == papilio.project(path, "v", min_common=1).head(1)
    for options, message in (
        ({"u": 1}, "has no columns; expected ATTRIBUTE=VALUE"),
        ({"u": "sort=plant"}, "the nodes have the attributes: 'kind'"),
        ({"header": True}, r"header cannot be used with a\.graphml, a graphml file"),
        ({"v": "kind"}, r"v cannot be used with a\.graphml"),
        ({"sign": "stars"}, "no attribute 'stars'; they have 'weight'"),
    ):
        with pytest.raises(InputError, match=message):
            papilio.read(path, **options)


def test_layers_that_a_file_leaves_open_stay_open_in_its_store(tmp_path: Path) -> None:
    path = tmp_path / "a.graphml"
    nx.write_graphml(nx.Graph([("a", "x"), ("b", "x"), ("c", "y")]), path)
    store = papilio.convert(path, tmp_path / "store")
    assert papilio.count(store, "butterfly").count == 0
    for graph in (path, store, open_store(store.path)):
        with pytest.raises(InputError, match="either side of each of its 2 components"):
            papilio.count(graph, "biclique", p=1, q=2)
    assert "U has the first node of each of 2 components" in papilio.read(path).reading["notes"][0]


def test_graphs_of_one_set_of_vertices(tmp_path: Path) -> None:
    path = tmp_path / "k6.g6"
    nx.write_graph6(nx.complete_graph(6), path)
    assert papilio.count(path, "clique", k=3).count == 20
    with pytest.raises(GraphError, match=r"k6\.g6: the graph is not bipartite.*kind='unipartite'"):
        papilio.count(path, "butterfly")
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(InputError, match="holds 2 graphs; expected one"):
        papilio.read(path, kind="unipartite")
    sparse = tmp_path / "k6.s6"
    nx.write_sparse6(nx.complete_graph(6), sparse)
    assert papilio.read(sparse, kind="unipartite").n_edges == 15
    social = tmp_path / "a.dl"
    social.write_text("DL n=3\nformat = fullmatrix\nlabels:\nann,bob,cho\ndata:\n0 1 1\n1 0 1\n1 1 0\n")
    assert papilio.count(social, "clique", k=3).count == 1
    metis = tmp_path / "a.metis"
    metis.write_text("% triangle with weights\n3 3 11\n7 2 1 3 1\n7 1 1 3 1\n7 1 1 2 1\n")
    assert papilio.count(metis, "clique", k=3).count == 1
    assert papilio.read(metis, kind="unipartite").reading["dropped"] == {"self_loops": 0, "duplicates": 0}


BROKEN: dict[str, tuple[str, str, type[Exception]]] = {
    "xml": ("a.graphml", "<?xml version='1.0'?>\n<graphml>\n", InputError),
    "gml": ("a.gml", "graph [\n  node [\n", InputError),
    "gexf": ("a.gexf", "<gexf><graph><nodes><node/></nodes></graph></gexf>", InputError),
    "pajek": ("a.net", "*Vertices 3\n1 a\n*Edges\n1 9\n", InputError),
    "two modes": ("a.dl", "dl nr=2, nc=3, format = fullmatrix\ndata:\n1 0 1\n1 1 0\n", InputError),
    "ncol": ("a.ncol", "a b\nc d e f\n", InputError),
    "sif": ("a.sif", "a visits b\na visits\n", MalformedLineError),
    "metis edges": ("a.metis", "2 2\n2\n1\n", InputError),
    "metis ends": ("a.metis", "3 2\n2 3\n1\n2\n", InputError),
    "metis words": ("a.metis", "2 1\n2\nx\n", MalformedLineError),
    "metis lines": ("a.metis", "3 1\n2\n1\n", InputError),
    "hif": ("a.hif", '{"incidences": [{"node": 1}]}', InputError),
    "hif text": ("a.hif", '{"incidences": [', InputError),
    "dot": ("a.dot", "digraph g {\n a -> b\n}\n", InputError),
}
MESSAGES = {
    "pajek": r"Invalid vertex ID \(9\)",
    "two modes": "two-mode DL file.*as a matrix in CSV",
    "sif": r"a\.sif, line 2: 'a visits' has 2 fields",
    "metis edges": "2 neighbours; 2 edges have 4",
    "metis ends": "vertices 1 and 3 do not list each other",
    "metis words": r"a\.metis, line 3: 'x'; expected integers",
    "metis lines": "2 lines of neighbours; its header declares 3 vertices",
    "hif text": "is not readable JSON",
    "hif": r"incidences\[0\] has edge None",
    "dot": "DOT file of Graphviz.*read_dot",
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str) -> None:
    called, text, kind = BROKEN[name]
    path = tmp_path / called
    path.write_text(text)
    with pytest.raises(kind, match=MESSAGES.get(name, "is not a readable")) as error:
        papilio.read(path)
    assert called in str(error.value)
    assert not re.search(r"src/io|\.c:\d", str(error.value))


def test_labels_are_names_or_ids_and_integers_where_all_are(tmp_path: Path) -> None:
    path = tmp_path / "a.gml"
    path.write_text('graph [ node [ id 5 label "x" ] node [ id 7 label "x" ] edge [ source 5 target 7 ] ]')
    assert papilio.read(path).labels("u").tolist() == [5]  # type: ignore[union-attr]
    path.write_text('graph [ node [ id 5 label "x" ] node [ id 7 label "07" ] edge [ source 5 target 7 ] ]')
    assert papilio.read(path).labels("v").tolist() == ["07"]  # type: ignore[union-attr]


def test_options_of_edge_lists_do_not_apply(tmp_path: Path) -> None:
    path = tmp_path / "a.sif"
    path.write_text("a r b\n")
    with pytest.raises(InputError, match="duplicates='last' cannot be used"):
        papilio.read(path, duplicates="last")
    with pytest.raises(InputError, match="several files cannot be used"):
        papilio.read([path, path])
    with pytest.raises(InputError, match="skip_malformed cannot be used"):
        papilio.read(path, skip_malformed=True)
    assert papilio.read(path, format="sif").n_edges == 1
