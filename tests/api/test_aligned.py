"""Values beside the rows, edges and labels that they belong to, whatever the graph was read from."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import papilio
from papilio.errors import InputError
from papilio.storage.interop import LabelledGraph, from_networkx, from_numpy, from_pandas
from papilio.storage.store import write_store
from tests.conftest import share_of_examples
from tests.tools.oracle import count_butterflies

# Random tables look like anything.
pytestmark = pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")

laws = settings(max_examples=share_of_examples(40), deadline=None, derandomize=True, database=None)

LABELS: dict[str, Callable[[int], Any]] = {
    "int": lambda i: 40 - 7 * i,
    "negative": lambda i: i - 3,
    "str": lambda i: f"n{9 - i}",
    "numeric text": lambda i: f"{i:03}",
    "mixed": lambda i: i if i % 2 else str(i),
    "tuple": lambda i: (i % 3, i),
    "bool and int": lambda i: [True, False, 2, 3, 4, 5, 6, 7][i],
    "date": lambda i: datetime.date(2020, 1, 9 - i),
    "time": lambda i: pd.Timestamp(2020, 1, 9 - i),
}

Row = tuple[Any, Any]


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Draw rows of labels in any order, with duplicates; labels of the layers may be equal."""
    us, vs = (LABELS[draw(st.sampled_from(sorted(LABELS)))] for _ in "uv")
    ends = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=30))
    return [(us(i), vs(j)) for i, j in ends]


def column(values: list[Any]) -> pd.Series[Any]:
    """A column of the type that pandas finds, without taking tuples apart."""
    held = pd.Series([None] * len(values), dtype=object)
    for i, value in enumerate(values):
        held[i] = value
    return held.infer_objects()


def expected(rows: list[Row]) -> tuple[list[int], Counter[Any], Counter[Any]]:
    """Butterflies of each row, and of each label of both layers, by definition."""
    right = count_butterflies(sorted(set(enumerated(rows))))
    ids_u, ids_v = ids(rows)
    by_row = [right.edge[ids_u[u], ids_v[v]] for u, v in rows]
    of_u = Counter({u: right.vertex["u", i] for u, i in ids_u.items()})
    return by_row, of_u, Counter({v: right.vertex["v", i] for v, i in ids_v.items()})


def ids(rows: list[Row]) -> tuple[dict[Any, int], dict[Any, int]]:
    return tuple({label: i for i, label in enumerate(dict.fromkeys(row[at] for row in rows))} for at in (0, 1))  # type: ignore[return-value]


def enumerated(rows: list[Row]) -> list[tuple[int, int]]:
    ids_u, ids_v = ids(rows)
    return [(ids_u[u], ids_v[v]) for u, v in rows]


def frame_of(rows: list[Row]) -> pd.DataFrame:
    frame = pd.DataFrame({"user": column([row[0] for row in rows]), "item": column([row[1] for row in rows])})
    frame.index = pd.Index([f"row {i * 7 % max(len(rows), 1)}.{i}" for i in range(len(rows))])
    return frame


@laws
@given(tables())
def test_columns_of_a_data_frame_are_right_row_by_row(rows: list[Row]) -> None:
    frame = frame_of(rows)
    by_row, of_u, of_v = expected(rows)
    edges = papilio.count(frame, papilio.Butterfly(), per="edge", engine="cpu")
    frame["support"] = edges.vectors.aligned("edge")
    assert frame["support"].tolist() == by_row
    vertices = papilio.count(frame[["user", "item"]], papilio.Butterfly(), per="vertex", engine="cpu")
    frame["of_user"] = frame["user"].map(vertices.vectors.aligned("u"))
    frame["of_item"] = frame["item"].map(vertices.vectors.aligned("v"))
    assert frame["of_user"].tolist() == [of_u[u] for u, _ in rows]
    assert frame["of_item"].tolist() == [of_v[v] for _, v in rows]
    # The index makes it right for a frame that was sorted, or of which rows were taken, meanwhile.
    other = frame.iloc[::-2].copy()
    other["again"] = edges.vectors.aligned("edge")
    assert other["again"].tolist() == by_row[::-2]


@laws
@given(tables())
def test_the_largest_counts_have_the_labels_of_the_caller(rows: list[Row]) -> None:
    by_row, of_u, of_v = expected(rows)
    frame = frame_of(rows)
    best = papilio.top_butterflies(frame, per="edge", n=5, engine="cpu").top(5)
    assert {entry.labels: entry.count for entry in best}.items() <= dict(zip(rows, by_row, strict=True)).items()
    positive = {row: n for row, n in zip(rows, by_row, strict=True) if n}
    assert [entry.count for entry in best] == sorted(positive.values(), reverse=True)[:5]
    for result in (
        papilio.count(frame, papilio.Butterfly(), per="vertex", engine="cpu"),
        papilio.top_butterflies(frame, per="vertex", engine="cpu"),
    ):
        for layer, right in (("u", of_u), ("v", of_v)):
            found = {entry.labels[0]: entry.count for entry in result.largest if entry.place == layer}
            assert found == {label: n for label, n in right.items() if n}
        assert result.to_dict()["top"] == [entry.to_dict() for entry in result.largest]


@laws
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=30))
def test_arrays_tables_and_matrices(rows: list[tuple[int, int]]) -> None:
    by_row, of_u, of_v = expected(rows)
    array = np.array(rows, dtype=np.int64).reshape(-1, 2)
    ask: dict[str, Any] = {"per": "edge", "engine": "cpu"}
    counted = papilio.count(array, papilio.Butterfly(), **ask, layout="edges")
    assert counted.vectors.aligned("edge").tolist() == by_row
    table = pa.table({"a": [f"x{9 - u}" for u, _ in rows], "b": [v for _, v in rows]})
    found = papilio.count(table, papilio.Butterfly(), **ask, layout="edges").vectors.aligned("edge")
    assert found.type == pa.uint64() or not rows
    assert table.append_column("support", found)["support"].to_pylist() == by_row
    matrix = sparse.coo_array((np.ones(len(rows)), (array[:, 0], array[:, 1])), shape=(6, 5))
    for form in ("csr", "csc", "coo", "lil"):
        values = papilio.count(matrix.asformat(form), papilio.Butterfly(), **ask).vectors.aligned("edge")
        assert values.format == form
        dense = values.toarray()
        assert [dense[u, v] for u, v in rows] == by_row
        assert dense.sum() == sum(dict(zip(rows, by_row, strict=True)).values())
    vertices = papilio.count(matrix, papilio.Butterfly(), per="vertex", engine="cpu").vectors
    assert vertices["u"].tolist() == vertices.aligned("u").tolist() == [of_u[u] for u in range(6)]
    assert vertices["v"].tolist() == [of_v[v] for v in range(5)]


@laws
@given(tables(), st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]), st.data())
def test_edges_and_nodes_of_networkx(rows: list[Row], kind: Any, data: st.DataObject) -> None:
    named = [(("u", u), ("v", v)) for u, v in rows]
    graph = kind()
    graph.add_nodes_from((u for u, _ in named), bipartite=0)
    graph.add_nodes_from((v for _, v in named), bipartite=1)
    turned = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    graph.add_edges_from((v, u) if turn else (u, v) for (u, v), turn in zip(named, turned, strict=True))
    by_row, of_u, of_v = expected(named)
    right = dict(zip(named, by_row, strict=True))
    result = papilio.count(graph, papilio.Butterfly(), per="edge", engine="cpu")
    nx.set_edge_attributes(graph, result.vectors.aligned("edge"), "support")
    for a, b, found in graph.edges(data="support"):
        assert found == right[(a, b) if a[0] == "u" else (b, a)]
    vertices = papilio.count(graph, papilio.Butterfly(), per="vertex", engine="cpu").vectors
    nx.set_node_attributes(graph, vertices.aligned("u"), "butterflies")
    nx.set_node_attributes(graph, vertices.aligned("v"), "butterflies")
    assert dict(graph.nodes(data="butterflies")) == dict(of_u) | dict(of_v)


ROWS = [("b", 7), ("a", 9), ("a", 7), ("b", 7), ("b", 9), ("c", 9)]
"""One butterfly, of a and b; a duplicate; not in the order of the labels."""


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["user", "item"])


def test_measures_and_decompositions_are_aligned_too(frame: pd.DataFrame) -> None:
    edges = papilio.local_clustering(frame, per="edge", engine="cpu")
    assert edges.butterflies.aligned("edge").tolist() == [1, 1, 1, 1, 1, 0]
    assert edges.three_paths.aligned("edge").tolist() == [1, 2, 1, 1, 2, 0]
    closed = edges.values.aligned("edge")["closed"]
    assert closed.tolist()[:5] == [1.0, 0.5, 1.0, 1.0, 0.5]
    assert np.isnan(closed.iloc[5])
    wings = papilio.decompose(frame, "wing", engine="cpu")
    frame["wing"] = wings.vectors.aligned("number")
    frame["node"] = wings.vectors.aligned("node")
    assert frame["wing"].tolist() == [1, 1, 1, 1, 1, 0]
    assert (frame["node"] >= 0).tolist() == [True] * 5 + [False]
    assert wings.max_number == 1
    tips = papilio.decompose(frame[["user", "item"]], "tip", layer="u", engine="cpu")
    assert tips.vectors.aligned("number").to_dict() == {"a": 1, "b": 1, "c": 0}
    latapy = papilio.latapy_clustering(frame[["user", "item"]])
    assert latapy.partners.aligned("u").to_dict() == {"a": 2, "b": 2, "c": 2}
    assert latapy.values.aligned("v")["min"].to_dict() == {7: 1.0, 9: 1.0}
    frame["sign"] = [1, -1, 1, 1, 1, 1]
    signed = from_pandas(frame, u="user", v="item", sign="sign")
    census = papilio.census_vertices(signed, "u", engine="cpu")
    assert census.classes.aligned("++/+-").to_dict() == {"a": 1, "b": 1, "c": 0}
    assert census.groups.aligned("mixed").to_dict() == {"a": 1, "b": 1, "c": 0}
    pairs = papilio.census_pairs(signed, "u", by="conflicting", engine="cpu").pairs
    assert [pair.labels for pair in pairs] == [("a", "b")]


def test_values_by_id_are_not_given_for_other_orders_and_names(frame: pd.DataFrame) -> None:
    def count(graph: Any, per: Any) -> Any:
        return papilio.count(graph, papilio.Butterfly(), per=per, engine="cpu").vectors

    numbers = np.array([[1, 2], [1, 1], [2, 1], [2, 2]])
    women = nx.complete_bipartite_graph(2, 2)
    others: list[Any] = [
        frame,
        pa.Table.from_pandas(frame),
        numbers,
        women,
        sparse.eye_array(3),
        from_pandas(frame),
    ]
    for given_graph in others:
        with pytest.raises(
            InputError, match=r"not in the order of the (rows|edges|entries) of the .*aligned\('edge'\)"
        ):
            count(given_graph, "edge")["edge"]
        assert count(given_graph, "edge").by_id("edge").dtype == np.uint64
    for labelled in (frame, women, from_numpy(np.array([["a", "x"]]))):
        with pytest.raises(InputError, match=r"layer U have labels.*aligned\('u'\)"):
            count(labelled, "vertex")["u"]
    assert count(numbers, "vertex")["u"].tolist() == [0, 1, 1]
    for refused in (
        lambda: papilio.decompose(frame, "wing", engine="cpu").numbers,
        lambda: papilio.local_clustering(frame, per="edge", engine="cpu").values["edge"],
        lambda: papilio.local_clustering(frame, per="edge", engine="cpu").three_paths["edge"],
        lambda: papilio.latapy_clustering(frame).partners["v"],
        lambda: dict(count(frame, "edge")),
        lambda: count(frame, "edge").get("edge"),
    ):
        with pytest.raises(InputError, match="aligned"):
            refused()
    with pytest.raises(InputError, match="there are no values 'edge'; there are 'u', 'v'"):
        count(frame, "vertex").aligned("edge")
    with pytest.raises(InputError, match="no values per vertex or edge"):
        count(frame, "total").aligned("edge")


def test_graphs_of_papilio_and_stores_are_in_their_own_order(frame: pd.DataFrame, tmp_path: Path) -> None:
    labelled = from_pandas(frame)
    store = write_store(
        tmp_path / "g", labelled.graph, provenance={}, labels_u=labelled.labels_u, labels_v=labelled.labels_v
    )
    for given_graph in (labelled.graph, store, store.path, LabelledGraph(labelled.graph)):
        vectors = papilio.count(given_graph, papilio.Butterfly(), per="edge", engine="cpu").vectors
        assert vectors["edge"].tolist() == vectors.aligned("edge").tolist() == [1, 1, 1, 1, 0]
        assert dict(vectors).keys() == {"edge"}


def test_an_answer_that_a_job_held_already_is_aligned_as_well(frame: pd.DataFrame, tmp_path: Path) -> None:
    for shuffled in (frame, frame.iloc[::-1]):
        result = papilio.count(
            shuffled, papilio.Butterfly(), per="edge", engine="cpu", job=tmp_path / "job", cluster="inline"
        )
        assert result.vectors.aligned("edge").tolist() == ([1] * 5 + [0])[:: 1 if shuffled is frame else -1]
        assert result.top()[0].labels == ("a", 7)
    assert result.reused


def test_rows_that_are_no_edges_are_known() -> None:
    pairs = np.array([[2, 1], [1, 1], [1, 2], [0, 2]])
    assert from_numpy(pairs, kind="unipartite").edge_of_row.tolist() == [1, -1, 1, 0]
    loops = from_numpy(np.array([[1, 1]]), kind="unipartite")
    assert loops.edge_of_row.tolist() == [-1]
    path = from_networkx(nx.path_graph(3), kind="unipartite")
    assert path.align("edge", np.array([5, 6])) == {(0, 1): 5, (1, 2): 6}


LOOPS = [("a", "b"), ("c", "c"), ("b", "c"), ("d", "d"), ("a", "c"), ("b", "a")]
"""A triangle, one of its edges twice, and two self loops."""


def give(form: str) -> tuple[Any, type]:
    """Return the same rows in the form of a library, and the type of values of their edges."""
    frame = pd.DataFrame(LOOPS, columns=["u", "v"])
    table = pa.Table.from_pandas(frame)
    if form == "dask":
        dataframe = pytest.importorskip("dask.dataframe", reason="dask is not installed")
        return dataframe.from_pandas(frame, npartitions=2), pd.Series
    if form == "duckdb":
        return pytest.importorskip("duckdb", reason="duckdb is not installed").from_arrow(table), pa.Array
    if form in ("polars", "lazy polars"):
        polars = pytest.importorskip("polars", reason="polars is not installed")
        given = polars.from_pandas(frame)
        return (given if form == "polars" else given.lazy()), polars.Series
    of_memory: dict[str, tuple[Any, type]] = {
        "pandas": (frame, pd.Series),
        "pyarrow": (table, pa.Array),
        "pairs": (LOOPS, np.ndarray),
        "numpy": (frame.to_numpy(), np.ndarray),
    }
    return of_memory[form]


@pytest.mark.parametrize("form", ["pandas", "pyarrow", "pairs", "numpy", "dask", "duckdb", "polars", "lazy polars"])
def test_values_have_the_type_that_was_given_and_loops_have_none(form: str) -> None:
    graph, kind = give(form)
    result = papilio.count(graph, "clique", k=3, per="edge", kind="unipartite", engine="cpu")
    values = result.vectors.aligned("edge")
    assert isinstance(values, kind)
    plain = values.to_pylist() if isinstance(values, pa.Array) else list(values)
    assert plain == [1, 0, 1, 0, 1, 1]
    only = pd.DataFrame(LOOPS[1:2], columns=["u", "v"])
    loops = papilio.count(only, "clique", k=3, per="edge", kind="unipartite", engine="cpu")
    assert loops.vectors.aligned("edge").tolist() == [0]


@pytest.mark.parametrize("name", sorted(LABELS))
def test_tables_hold_the_labels_that_were_given(name: str) -> None:
    label = LABELS[name]
    rows = [(label(i), f"v{j}") for i in range(5) for j in range(3)]
    given = papilio.read(pd.DataFrame({"who": column([u for u, _ in rows]), "what": [v for _, v in rows]}))
    for per in ("vertex", "edge"):
        made = papilio.count(given, "butterfly", per=per, cluster="inline", engine="cpu").to_pandas()
        if per == "vertex":
            counts = dict(made[made["layer"] == "u"].set_index("label")["count"].items())
            assert counts == {label(i): 12 for i in range(5)}
            assert set(made[made["layer"] == "v"]["label"]) == {"v0", "v1", "v2"}
        else:
            assert [*zip(made["u_label"], made["v_label"], strict=True)] == rows


@pytest.mark.parametrize(
    "values",
    [
        pa.array([datetime.date(2020, 1, i) for i in (3, 1, 2)]),
        pa.array([datetime.datetime(2020, 1, i) for i in (3, 1, 2)], pa.timestamp("ms", "Europe/Berlin")),
        pa.array([datetime.timedelta(i) for i in (3, 1, 2)]),
        pa.array([True, False, True]),
        pa.array([3, 1, 2**64 - 1], pa.uint64()),
        pa.array([3, 1, 2], pa.int8()),
    ],
    ids=lambda values: str(values.type),
)
def test_arrow_labels_are_the_values_of_the_table(values: pa.Array) -> None:
    table = pa.table({"who": values, "what": ["a", "a", "a"]})
    ends = {"u": "who", "v": "what"}  # three truth values may be entries
    result = papilio.count(table, "butterfly", per="vertex", cluster="inline", engine="cpu", **ends)
    assert set(result.vectors.aligned("u")) == {row["who"] for row in table.to_pylist()}


def test_numbers_of_two_widths_stay_numbers() -> None:
    table = pa.table({"who": pa.array([3, 1], pa.int8()), "what": pa.array([5, 2], pa.uint64())})
    made = papilio.count(table, "butterfly", per="vertex", cluster="inline", engine="cpu").to_arrow()
    assert made["label"].to_pylist() == [1, 3, 2, 5]
