"""Answers as tables of Arrow and pandas: the labels and the rows of what was given."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import papilio
from papilio.errors import InputError
from papilio.storage import answers
from papilio.storage.any_object import from_any
from papilio.storage.store import open_store
from tests.api.test_aligned import Row, column, expected, tables

# Random frames look like anything.
pytestmark = pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")

laws = settings(max_examples=30, deadline=None, derandomize=True, database=None)


@given(rows=tables())
@laws
def test_edges_stand_beside_the_rows_of_the_frame(rows: list[Row]) -> None:
    frame = pd.DataFrame({"u": column([a for a, _ in rows]), "v": column([b for _, b in rows])})
    frame.index = pd.RangeIndex(100, 100 + len(rows))
    found = papilio.count(frame, papilio.Butterfly(), per="edge").to_pandas()
    by_row, _, _ = expected(rows)
    assert found["support"].tolist() == by_row
    assert found.index.equals(frame.index)
    for layer in "uv":
        assert found[f"{layer}_label"].map(str).tolist() == frame[layer].map(str).tolist()


@given(rows=tables())
@laws
def test_vertices_have_their_labels(rows: list[Row]) -> None:
    frame = pd.DataFrame({"u": column([a for a, _ in rows]), "v": column([b for _, b in rows])})
    found = papilio.count(frame, papilio.Butterfly(), per="vertex").to_pandas()
    _, of_u, of_v = expected(rows)
    for layer, right in (("u", of_u), ("v", of_v)):
        part = found[found["layer"] == layer]
        given_labels = frame[layer].drop_duplicates()
        assert Counter(dict(zip(part["label"].map(str), part["count"], strict=True))) == Counter(
            {str(each): right[each] for each in given_labels}
        )


def test_files_of_a_store_hold_the_same_columns(tmp_path: Path) -> None:
    women = nx.davis_southern_women_graph()
    frame = pd.DataFrame(women.edges(), columns=["u", "v"])
    frame.to_csv(tmp_path / "women.csv", index=False)
    store = papilio.convert(tmp_path / "women.csv", tmp_path / "women")
    for per in ("vertex", "edge"):
        file = tmp_path / f"{per}.parquet"
        result = papilio.count(store, papilio.Butterfly(), per=per, output=file)
        written = pq.read_table(file)
        assert result.to_arrow().to_pylist() == written.to_pylist()
        assert result.to_arrow().num_rows == (32 if per == "vertex" else 89)
    assert open_store(store.path).hash == store.hash


def test_edges_of_a_graph_in_memory_come_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    women = nx.davis_southern_women_graph()
    result = papilio.count(women, "butterfly", per="edge")
    whole = result.to_arrow()
    monkeypatch.setattr(answers, "_ROW_GROUP", 10)
    pieces = result.to_arrow()
    assert pieces.equals(whole)
    assert (whole["u_label"].num_chunks, pieces["u_label"].num_chunks) == (2, 10)  # with an empty one
    papilio.count(women, "butterfly", per="edge", output=tmp_path / "edges.parquet")
    assert pq.read_table(tmp_path / "edges.parquet")["support"].to_pylist() == whole["support"].to_pylist()
    assert papilio.count(nx.Graph(), "clique", k=3, per="edge").to_arrow().num_rows == 0


def test_tables_are_exact_however_long() -> None:
    side = 80
    frame = papilio.count(np.argwhere(np.ones((side, side))), papilio.Biclique(None, None)).to_pandas()
    row = frame[(frame["p"] == 40) & (frame["q"] == 40)]
    from math import comb

    assert row["count"].item() == comb(80, 40) ** 2 > 2**64
    assert type(row["count"].item()) is int
    small = papilio.count([(0, 1), (1, 2), (0, 2)], papilio.Biclique(None, None)).to_arrow()
    assert small.schema.field("count").type == pa.uint64()


def test_census_has_its_classes(tmp_path: Path) -> None:
    edges = np.array([[u, v, 1 if (u + v) % 3 else -1] for u in range(4) for v in range(4)])
    frame = papilio.count(edges, papilio.Census("u")).to_pandas()
    assert frame["count"].sum() == 36
    assert set(frame.columns) == {"class", "group", "count", "share"}


def test_listings_are_tables(tmp_path: Path) -> None:
    complete = [(f"u{u}", v) for u in range(3) for v in range(3)]
    found = papilio.enumerate(complete, papilio.Biclique(2, 3), output=tmp_path / "all", limit=None)
    assert sorted(map(str, found.to_arrow().to_pylist())) == sorted(
        str({"u": [f"u{a}", f"u{b}"], "v": [0, 1, 2]}) for a, b in ((0, 1), (0, 2), (1, 2))
    )


class _Stream:
    """An object of a library that Papilio does not know, which gives Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_whatever_gives_arrow_is_read() -> None:
    women = nx.davis_southern_women_graph()
    table = pa.table({"woman": [a for a, _ in women.edges()], "event": [b for _, b in women.edges()]})
    result = papilio.count(_Stream(table), "butterfly", per="edge")
    assert result.count == 341
    assert result.to_arrow()["u_label"].to_pylist() == table["woman"].to_pylist()


def test_polars_is_read_and_given() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame({"u": ["a", "a", "b", "b"], "v": [1, 2, 1, 2]})
    result = papilio.count(frame, "butterfly", per="edge").to_polars()
    assert result["support"].to_list() == [1] * 4
    assert result["u_label"].to_list() == frame["u"].to_list()


def test_what_gives_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be converted to an Arrow table"):
        papilio.count(_Stream(pa.chunked_array([[1, 2]])), "butterfly")


def test_pairs_are_read() -> None:
    women = nx.davis_southern_women_graph()
    result = papilio.count((pair for pair in women.edges()), "butterfly", per="edge")
    assert result.count == 341
    assert len(result.vectors.aligned("edge")) == 89
    signed = papilio.count([(u, v, -1 if u == v else 1) for u in "ab" for v in "ab"], "balanced-butterfly")
    assert signed.count == 1
    for wrong in ([("a", "b"), ("c",)], [("a", "b"), ("a", "b", 1)], [("a", "b", 1, 2)]):
        with pytest.raises(InputError, match="an edge is a pair"):
            papilio.count(wrong, "butterfly")
    with pytest.raises(InputError, match=r"of an array, pass array\[:, :2\]"):
        papilio.count([(1, 2, 3, 4), (1, 3, 4, 5), (2, 3, 1, 1)], "butterfly")


def test_graphs_of_igraph_are_read() -> None:
    igraph = pytest.importorskip("igraph", reason="igraph is not installed")
    women = nx.davis_southern_women_graph()
    graph = igraph.Graph.from_networkx(women)
    graph.vs["name"] = graph.vs["_nx_name"]
    graph.vs["type"] = [bool(side) for side in graph.vs["bipartite"]]
    result = papilio.count(graph, "butterfly", per="vertex")
    right = papilio.count(women, "butterfly", per="vertex")
    assert result.vectors.aligned("u") == right.vectors.aligned("u")
    assert result.vectors.aligned("v") == right.vectors.aligned("v")
    with pytest.raises(papilio.PapilioError, match=r"not bipartite.*kind='unipartite'"):
        papilio.count(igraph.Graph.Full(4), "butterfly")


class _GraphTool:
    """What graph-tool documents of its graphs, as far as it is asked for; told by its name as the real one is."""

    vertex_index = edge_index = None

    def __init__(self, edges: list[tuple[int, int]], n: int, **properties: list[Any]) -> None:
        self._edges, self._vertices = edges, range(n)
        self.edge_properties = {name: values for name, values in properties.items() if name == "stars"}
        self.vertex_properties = {k: each for k, each in properties.items() if k not in self.edge_properties}

    def iter_vertices(self, maps: list[Any]) -> Any:
        return ([v, *(v if each is None else each[v] for each in maps)] for v in self._vertices)

    def iter_edges(self, maps: list[Any]) -> Any:
        return ([u, v, *(e if each is None else each[e] for each in maps)] for e, (u, v) in enumerate(self._edges))


_GraphTool.__name__, _GraphTool.__module__ = "Graph", "graph_tool"


@pytest.mark.parametrize("attribute", ["type", "bipartite"])
def test_graphs_of_graph_tool_are_read(attribute: str) -> None:
    women = nx.davis_southern_women_graph()
    nodes = list(women)
    edges = [(nodes.index(a), nodes.index(b)) for a, b in women.edges()]
    sides = {attribute: [women.nodes[node]["bipartite"] for node in nodes]}
    graph = _GraphTool([(b, a) for a, b in edges], len(nodes), name=nodes, stars=[1] * len(edges), **sides)
    result = papilio.count(graph, "butterfly", per="vertex")
    right = papilio.count(women, "butterfly", per="vertex")
    assert result.vectors.aligned("u") == right.vectors.aligned("u")
    assert from_any(graph, sign="stars", positive_from=2).sign.tolist() == [-1] * 89
    triangle = _GraphTool([(0, 1), (1, 2), (2, 0)], 4)
    assert papilio.count(triangle, papilio.Clique(3)).count == 1
    assert papilio.count(triangle, "maximal-clique").table == {(1,): 1, (3,): 1}
    with pytest.raises(papilio.PapilioError, match=r"not bipartite.*kind='unipartite'"):
        papilio.count(triangle, "butterfly")


def test_wings_and_tips_stand_beside_what_was_given() -> None:
    frame = pd.DataFrame(nx.davis_southern_women_graph().edges(), columns=["woman", "event"]).sample(
        frac=1, random_state=1
    )
    result = papilio.decompose(frame, "wing")
    wings = result.to_pandas()
    assert wings.index.equals(frame.index)
    assert wings["u_label"].tolist() == frame["woman"].tolist()
    assert wings["number"].tolist() == result.vectors.aligned("number").tolist()
    assert repr(result).startswith(f"<wing numbers of 89 edges: up to {result.max_number}")
    tips = papilio.decompose(frame, "tip", layer="u", hierarchy=False).to_pandas()
    assert tips.columns.tolist() == ["layer", "id", "label", "number"]
    assert dict(zip(tips["label"], tips["number"], strict=True)) == dict(
        papilio.decompose(frame, "tip", layer="u").vectors.aligned("number")
    )
