"""Graphs from and to other libraries: round trips, labels, signs, what is dropped, what is refused."""

from __future__ import annotations

import subprocess
import sys
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
from papilio.errors import CapacityError, GraphError, InputError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.any_object import from_any, label_any
from papilio.storage.interop import (
    LabelledGraph,
    from_arrow,
    from_networkx,
    from_numpy,
    from_pandas,
    from_scipy,
    to_arrow,
    to_networkx,
    to_numpy,
    to_pandas,
    to_scipy,
)
from papilio.storage.sides import _Labels
from tests.conftest import share_of_examples

laws = settings(max_examples=share_of_examples(60), deadline=None, derandomize=True, database=None)


@st.composite
def labelled_graphs(draw: st.DrawFn) -> LabelledGraph:
    """Draw a small graph of either kind, signed or not, with labels (distinct across the layers) or without."""
    bipartite, signed = draw(st.booleans()), draw(st.booleans())
    n_u = draw(st.integers(0, 8))
    n_v = draw(st.integers(0, 8)) if bipartite else n_u
    allowed = [(u, v) for u in range(n_u) for v in range(n_v) if bipartite or u < v]
    pairs = sorted(draw(st.sets(st.sampled_from(allowed)))) if allowed else []
    u = np.array([pair[0] for pair in pairs], dtype=np.int32)
    v = np.array([pair[1] for pair in pairs], dtype=np.int32)
    sign = None
    if signed:
        drawn = draw(st.lists(st.sampled_from([-1, 1]), min_size=len(pairs), max_size=len(pairs)))
        sign = np.array(drawn, dtype=np.int8)
    n_labels = n_u + (n_v if bipartite else 0)
    label = draw(st.sampled_from([st.integers(-(2**40), 2**40), st.text(max_size=4)]))
    labels = draw(st.lists(label, min_size=n_labels, max_size=n_labels, unique=True))
    if not draw(st.booleans()):
        return LabelledGraph(BipartiteGraph(n_u, n_v, u, v, sign) if bipartite else UnipartiteGraph(n_u, u, v, sign))
    whole = np.array(labels, dtype=np.int64 if labels and isinstance(labels[0], int) else object)
    if bipartite:
        return LabelledGraph(BipartiteGraph(n_u, n_v, u, v, sign), whole[:n_u], whole[n_u:])
    return LabelledGraph(UnipartiteGraph(n_u, u, v, sign), whole)


def same(a: BipartiteGraph | UnipartiteGraph, b: BipartiteGraph | UnipartiteGraph) -> bool:
    sizes_a = (a.n_u, a.n_v) if isinstance(a, BipartiteGraph) else (a.n,)
    sizes_b = (b.n_u, b.n_v) if isinstance(b, BipartiteGraph) else (b.n,)
    edges = np.array_equal(a.u, b.u) and np.array_equal(a.v, b.v)
    signs = a.signed == b.signed and (a.sign is None or np.array_equal(a.sign, b.sign))  # type: ignore[arg-type]
    return type(a) is type(b) and sizes_a == sizes_b and edges and signs


def named_edges(labelled: LabelledGraph) -> set[tuple[Any, ...]]:
    """The edges by their labels; those of a unipartite graph in no order."""
    graph = labelled.graph
    labels_v = labelled.labels_v if labelled.kind == "bipartite" else labelled.labels_u
    signs = [0] * graph.n_edges if graph.sign is None else graph.sign.tolist()
    edges = set()
    for u, v, sign in zip(graph.u.tolist(), graph.v.tolist(), signs, strict=True):
        ends = (
            u if labelled.labels_u is None else labelled.labels_u[u],
            v if labels_v is None else labels_v[v],
        )
        edges.add(((*ends,) if labelled.kind == "bipartite" else frozenset(ends), sign))
    return edges


@laws
@given(labelled_graphs())
def test_ids_survive_numpy_pandas_arrow_and_scipy(drawn: LabelledGraph) -> None:
    graph = drawn.graph
    sizes = {"n_u": graph.n_u, "n_v": graph.n_v} if isinstance(graph, BipartiteGraph) else {"n_u": graph.n}
    kind = drawn.kind
    assert same(from_numpy(to_numpy(graph), kind=kind, **sizes).graph, graph)
    assert same(from_pandas(to_pandas(graph), kind=kind, labels="id", **sizes).graph, graph)
    assert same(from_arrow(to_arrow(graph), kind=kind, labels="id", **sizes).graph, graph)
    for format in ("csr", "csc", "coo", "lil", "dok", "bsr"):
        matrix = to_scipy(graph, format=format)
        back = from_scipy(matrix, kind=kind, sign=graph.signed, layout="matrix")
        assert same(back.graph, graph)
        assert not any(back.dropped.values())


@laws
@given(labelled_graphs())
def test_labels_survive_pandas_arrow_and_networkx(drawn: LabelledGraph) -> None:
    sign = "sign" if drawn.graph.signed else None
    for back in (
        from_pandas(to_pandas(drawn), kind=drawn.kind, missing="label"),
        from_arrow(to_arrow(drawn), kind=drawn.kind, missing="label"),
        from_networkx(to_networkx(drawn), kind=drawn.kind, sign=sign),
    ):
        back.graph.validate()
        if drawn.labels_u is not None:
            assert named_edges(back) == named_edges(drawn)
        assert back.graph.n_edges == drawn.graph.n_edges
        assert not any(back.dropped.values())
    isolated_too = from_networkx(to_networkx(drawn), kind=drawn.kind, sign=sign)
    assert same(isolated_too.graph, drawn.graph)
    if drawn.labels_u is not None:
        assert isolated_too.labels_u is not None
        assert isolated_too.labels_u.tolist() == drawn.labels_u.tolist()


@laws
@given(labelled_graphs())
def test_dispatch_by_type(drawn: LabelledGraph) -> None:
    graph, kind = drawn.graph, drawn.kind
    sizes = {"n_u": graph.n_u, "n_v": graph.n_v} if isinstance(graph, BipartiteGraph) else {"n_u": graph.n}
    assert from_any(graph, kind=kind) is graph
    assert from_any(drawn, kind=kind) is graph
    assert same(from_any(to_numpy(graph), kind=kind, **sizes), graph)
    assert same(from_any(to_pandas(graph), kind=kind, labels="id", **sizes), graph)
    assert same(from_any(to_arrow(graph), kind=kind, labels="id", **sizes), graph)
    assert same(from_any(to_scipy(graph), kind=kind, sign=graph.signed, layout="matrix"), graph)
    sign = "sign" if graph.signed else None
    assert same(from_any(to_networkx(graph), kind=kind, sign=sign), graph)


def test_numpy_labels_duplicates_and_loops() -> None:
    names = np.array([["b", "x"], ["a", "y"], ["b", "x"], ["b", "y"]])
    bipartite = from_numpy(names)
    assert bipartite.labels_u is not None
    assert bipartite.labels_v is not None
    assert (bipartite.labels_u.tolist(), bipartite.labels_v.tolist()) == (["a", "b"], ["x", "y"])
    assert to_numpy(bipartite).tolist() == [[0, 1], [1, 0], [1, 1]]
    assert bipartite.dropped == {"duplicates": 1}
    looped = from_numpy(np.array([[1, 1], [2, 0], [0, 2], [0, 1]]), kind="unipartite")
    assert to_numpy(looped).tolist() == [[0, 1], [0, 2]]
    assert looped.dropped == {"self_loops": 1, "duplicates": 1}
    assert from_numpy(np.array([[0.0, 3.0]])).graph.n_edges == 1
    relabelled = from_numpy(np.array([[70, 10], [-5, 10]]), labels="integer")
    assert relabelled.labels_u is not None
    assert relabelled.labels_u.tolist() == [-5, 70]


def test_signs_of_duplicates_and_of_ratings() -> None:
    rated = np.array([[0, 0, 5], [0, 0, 1], [1, 0, 3], [1, 1, 4]])
    assert to_numpy(from_numpy(rated, positive_from=4)).tolist() == [[0, 0, 1], [1, 0, -1], [1, 1, 1]]
    by_sign = from_numpy(np.array([[0, 0, -2.5], [1, 0, 0.5]]))
    assert to_numpy(by_sign).tolist() == [[0, 0, -1], [1, 0, 1]]
    frame = pd.DataFrame({"who": ["p", "q"], "what": ["x", "x"], "stars": [2, 5]})
    liked = from_pandas(frame, u="who", v="what", sign="stars", positive_from=3)
    assert liked.graph.sign is not None
    assert liked.graph.sign.tolist() == [-1, 1]
    assert not from_pandas(frame, u="who", v="what").graph.signed


def test_pandas_column_types() -> None:
    for u in (
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series(["b", "a", "b"], dtype="string"),
        pd.Series([9, 7, 9], dtype="Int64"),
        pd.Series([9.0, 7.0, 9.0]),
        pd.Series(pd.to_datetime(["2024-05-02", "2024-05-01", "2024-05-02"])),
        pd.Series([("t", 2), ("t", 1), ("t", 2)]),
        pd.Series([1, "one", 1], dtype=object),
    ):
        result = from_pandas(pd.DataFrame({"from": u, "to": [1, 1, 2]}))
        assert result.labels_u is not None
        assert result.graph.n_edges == 3
        named = sorted(str(result.labels_u[i]) for i in result.graph.u)
        assert len(set(named)) == 2
    mixed = from_pandas(pd.DataFrame({"u": ["a", 1], "v": [1, 2]}), kind="unipartite")
    assert mixed.labels_u is not None
    assert set(mixed.labels_u.tolist()) == {"a", 1, 2}


def test_arrow_dictionary_chunks_and_batches() -> None:
    column = pa.chunked_array([pa.array(["b", "a"]), pa.array(["b"])])
    table = pa.table({"u": column.dictionary_encode(), "v": pa.array([3, 3, 1], pa.uint8())})
    result = from_arrow(table)
    assert result.labels_u is not None
    assert result.labels_u.tolist() == ["a", "b"]
    assert to_numpy(result).tolist() == [[0, 1], [1, 0], [1, 1]]
    batch = pa.RecordBatch.from_pydict({"u": [0, 1], "v": [1, 0]})
    assert to_numpy(from_any(batch)).tolist() == [[0, 1], [1, 0]]


def test_scipy_zeros_sums_and_triangles() -> None:
    matrix = sparse.coo_array(([1, 0, 2, 1, -1], ([0, 0, 1, 1, 2], [0, 1, 1, 1, 0])), shape=(4, 3))
    result = from_scipy(matrix)
    assert isinstance(result.graph, BipartiteGraph)
    assert (result.graph.n_u, result.graph.n_v, to_numpy(result).tolist()) == (4, 3, [[0, 0], [1, 1], [2, 0]])
    assert result.dropped == {"zeros": 1, "duplicates": 1}
    assert matrix.nnz == 5
    assert from_scipy(matrix, sign=True).graph.sign.tolist() == [1, 1, -1]  # type: ignore[union-attr]
    assert from_scipy(matrix, positive_from=2).graph.sign.tolist() == [-1, 1, -1]  # type: ignore[union-attr]
    cancelled = sparse.coo_array(([1, -1], ([0, 0], [0, 0])), shape=(1, 1))
    assert from_scipy(cancelled).graph.n_edges == 0
    triangle = sparse.csr_matrix(np.array([[1, 1, 0], [0, 0, 1], [1, 0, 0]]))
    looped = from_scipy(triangle, kind="unipartite")
    assert to_numpy(looped).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert looped.dropped == {"zeros": 0, "duplicates": 0, "self_loops": 1}
    assert from_scipy(sparse.csr_array(np.array([[True, False]]))).graph.n_edges == 1


def test_networkx_layers_directions_and_multigraphs() -> None:
    davis = nx.davis_southern_women_graph()
    result = from_networkx(davis)
    assert isinstance(result.graph, BipartiteGraph)
    assert (result.graph.n_u, result.graph.n_v, result.graph.n_edges) == (18, 14, 89)
    assert result.labels_u is not None
    assert result.labels_u[0] == "Evelyn Jefferson"
    multi = nx.MultiDiGraph([("e1", "w1"), ("w1", "e1"), ("w1", "e1"), ("w2", "e1")])
    merged = from_networkx(multi, u=["w1", "w2"])
    assert named_edges(merged) == {(("w1", "e1"), 0), (("w2", "e1"), 0)}
    assert merged.dropped == {"duplicates": 2}
    loops = from_networkx(nx.Graph([(0, 0), (0, 1)]), kind="unipartite")
    assert loops.dropped == {"self_loops": 1, "duplicates": 0}
    assert from_any(davis).n_edges == 89
    nx.set_edge_attributes(davis, 2.5, "weight")
    assert named_edges(label_any(davis, sign="weight")) == {(edge, 1) for edge, _ in named_edges(result)}
    back = to_networkx(result)
    assert {frozenset(edge) for edge in back.edges} == {frozenset(edge) for edge in davis.edges}
    assert nx.bipartite.is_bipartite_node_set(back, result.labels_u.tolist())


def lazy_polars(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(frame).lazy()


def dask_frame(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)


@pytest.mark.parametrize("make", [lazy_polars, dask_frame])
def test_frames_that_are_computed_later_are_read_as_others(make: Any) -> None:
    frame = pd.DataFrame(
        {"note": list("abcdef"), "user": list("aabbca"), "film": list("xyxyxx"), "stars": [5, 1, 4, 2, 3, 5]}
    )
    found = label_any(make(frame), u="user", v="film", sign="stars", positive_from=3)
    assert named_edges(found) == named_edges(from_pandas(frame, u="user", v="film", sign="stars", positive_from=3))
    assert papilio.read(make(frame), u="film", v="user").n_u == 2
    with pytest.raises(InputError, match="no column 'artist'"):
        papilio.read(make(frame), u="artist", v="user")
    with pytest.raises(InputError, match=r"header cannot be used with a .*Frame, which takes u, v, sign"):
        papilio.read(make(frame), header=True)


@pytest.mark.parametrize("make", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_layers_of_networkx_without_an_attribute_are_those_that_networkx_infers(make: Any) -> None:
    graph = make([("u0", "v0"), ("v1", "u0"), ("u1", "v1"), ("v0", "u1"), ("u1", "v2")])
    result = from_networkx(graph)
    assert result.labels_u is not None
    assert set(result.labels_u) == nx.bipartite.sets(graph)[0] == {"u0", "u1"}
    assert papilio.count(graph, "butterfly").count == 1
    assert papilio.count(graph, "biclique", p=2, q=3).count == 0
    graph.add_edge("far", "away")
    assert from_networkx(graph).layers.n_free == 2
    with pytest.raises(InputError, match="either side of each of its 2 components could be U"):
        papilio.count(graph, "biclique", p=2, q=3)
    assert papilio.count(graph, "butterfly", u=["u0", "u1", "far"]).count == 1
    with pytest.raises(GraphError, match=r"not bipartite.*kind='unipartite'"):
        from_networkx(make([(0, 1), (1, 2), (2, 0)]))
    assert from_networkx(make()).graph.n_u == 0


LOOSE = nx.Graph()
LOOSE.add_node("x", bipartite=2)
INSIDE = nx.Graph([("a", "b")])
UNSIGNED = nx.Graph([("a", "b")])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: from_numpy(np.zeros((3, 4))), InputError, r"shape \(3, 4\)"),
        (lambda: from_numpy(np.array([[0, -1]])), GraphError, "ids -1 to -1"),
        (lambda: from_numpy(np.array([[0, 1]]), n_v=1), GraphError, "expected 0 to 0"),
        (lambda: from_numpy(np.array([[0.5, 1]])), GraphError, "u holds fractions"),
        (lambda: from_numpy(np.array([[0, 2**31]])), CapacityError, "at most 2147483647"),
        (
            lambda: from_numpy(np.array([[0, 0, 0]]), sign=True),
            GraphError,
            "0, neither positive nor negative",
        ),
        (
            lambda: from_numpy(np.array([[0, 0, np.nan]]), sign=True),
            GraphError,
            "column 'sign' has a missing value in row 0",
        ),
        (lambda: from_numpy(np.array([["a", "b", "c"]])), GraphError, "not numbers"),
        (lambda: from_numpy(np.array([["a", "b"]]), labels="id"), GraphError, "use labels=.text"),
        (lambda: from_numpy(np.array([["a", "b"]]), n_u=4), InputError, "n_u and n_v are for ids"),
        (lambda: from_numpy(np.array([[0, 1]]), positive_from=1), InputError, "no column of values"),
        (lambda: from_numpy(np.array([[0, 1]]), kind="tripartite"), InputError, "kind is 'tripartite'"),  # type: ignore[arg-type]
        (lambda: from_numpy(np.array([[0, 1]]), kind="unipartite", n_v=3), InputError, "n_v is 3"),
        (lambda: from_pandas(pd.DataFrame({"a": [1], "b": [2], "c": [3]})), InputError, "'a', 'b', 'c'"),
        (lambda: from_pandas(pd.DataFrame({"a": [1]}), u="a", v="z"), InputError, "no column 'z'"),
        (lambda: from_pandas(pd.DataFrame({"a": [1]}), u="a"), InputError, "name both"),
        (
            lambda: from_pandas(pd.DataFrame({"u": [1, None], "v": [1, 2]})),
            InputError,
            "missing value in row 1",
        ),
        (lambda: from_pandas(pd.DataFrame({"u": [0.5], "v": [1]})), GraphError, "labels are fractions"),
        (lambda: from_pandas(pd.DataFrame({"u": [[1]], "v": [1]})), GraphError, "hashable"),
        (
            lambda: from_pandas(pd.DataFrame([[1, 2, 3]], columns=["u", "v", "v"])),
            InputError,
            "several columns 'v'",
        ),
        (lambda: from_arrow(pa.table({"u": [1, None], "v": [1, 2]})), InputError, "missing value in row 1"),
        (lambda: from_scipy(sparse.eye_array(2, 3), kind="unipartite"), InputError, r"shape \(2, 3\)"),
        (
            lambda: from_scipy(sparse.csr_array([[0, 1], [-1, 0]]), kind="unipartite", sign=True),
            GraphError,
            "differ in sign",
        ),
        (lambda: from_networkx(LOOSE), GraphError, "bipartite=2"),
        (lambda: from_networkx(INSIDE, u=["a", "b"]), GraphError, "two nodes of layer U"),
        (lambda: from_networkx(INSIDE, u=[]), GraphError, "two nodes of layer V"),
        (lambda: from_networkx(INSIDE, u=["c"]), GraphError, "'c', which is not a node"),
        (lambda: from_networkx(UNSIGNED, u=["a"], sign="s"), GraphError, "no attribute 's'"),
        (
            lambda: from_any(UnipartiteGraph(0, *np.zeros((2, 0), np.int32))),
            InputError,
            "expected a bipartite graph",
        ),
    ],
)
def test_refusals_say_why(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_labels_that_cannot_leave() -> None:
    ids = np.zeros(1, np.int32)
    graph = BipartiteGraph(1, 1, ids, ids)
    clash = LabelledGraph(graph, np.array(["a"], object), np.array(["a"], object))
    with pytest.raises(GraphError, match="2 vertices have 1 different labels"):
        to_networkx(clash)
    two = BipartiteGraph(2, 1, np.array([0, 1], np.int32), np.zeros(2, np.int32))
    with pytest.raises(GraphError, match="no common Arrow type"):
        to_arrow(LabelledGraph(two, np.array(["a", 1], object), np.array(["b"], object)))


def test_nothing_is_imported_to_tell_types() -> None:
    code = (
        "import sys; from papilio.storage.any_object import from_any; import numpy as np;"
        "assert from_any(np.array([[0, 1]])).n_edges == 1;"
        "assert not {'networkx', 'scipy', 'pandas'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_labels_of_one_side_are_found_by_table_or_by_search() -> None:
    """Near and far apart, and at both ends of the integers."""
    rng = np.random.default_rng(3)
    ends = np.array([-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1])
    for low, high in (
        (-50, 60),
        (0, 2**17),
        (-(2**40), 2**40),
        (2**62 - 30, 2**62 + 30),
        (-(2**63), -(2**63) + 9),
    ):
        held = rng.integers(low, high, 500, np.int64)
        asked = np.concatenate((held[:50], rng.integers(low, high, 500, np.int64), ends, [low, high, 0]))
        labels = _Labels(held)
        assert labels.ordered.tolist() == sorted({*held.tolist()})
        right = [each in {*held.tolist()} for each in asked.tolist()]
        assert labels.holds(asked).tolist() == right
        assert labels.count(asked) == sum(right)


@pytest.mark.parametrize("n_rows", [60, 3000, 300_000])
@pytest.mark.parametrize("as_text", [False, True])
def test_the_kind_that_rows_look_like(n_rows: int, as_text: bool) -> None:
    """Users and items, then friends, who have each other."""
    rng = np.random.default_rng(n_rows)
    size = max(40, n_rows // 20)

    def read(u: Any, v: Any) -> LabelledGraph:
        frame = pd.DataFrame({"x": u, "y": v})
        return from_pandas(frame.astype(str) if as_text else frame)

    bought = read(rng.integers(1, size, n_rows), rng.integers(1, size, n_rows) + 10_000_000)
    assert bought.sides.doubt("bipartite") == ""
    assert bought.sides.doubt("unipartite") == "no label is in both columns"
    a, b = rng.integers(0, size, n_rows) * 5 + 3, rng.integers(0, size, n_rows) * 5 + 3
    friends = read(np.append(a, b), np.append(b, a))
    integers = (
        "nearly every edge occurs in both directions",
        "labels with the same gaps are in both columns",
    )
    assert friends.sides.doubt("bipartite") in (("most labels are in both columns",) if as_text else integers)
    assert friends.sides.doubt("unipartite") == ""


def test_edges_in_both_directions_are_recognized_without_gaps() -> None:
    """Ids without gaps on both sides: only the edges tell; one in five that is not turned is too many."""
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, 2000, 4000), rng.integers(0, 2000, 4000)
    turned = from_numpy(np.stack((np.append(a, b), np.append(b, a)), axis=1))
    assert turned.sides.doubt("bipartite") == "nearly every edge occurs in both directions"
    c, d = rng.integers(0, 2000, 2000), rng.integers(0, 2000, 2000)
    fewer = from_numpy(np.stack((np.concatenate((a, b, c)), np.concatenate((b, a, d))), axis=1))
    assert fewer.sides.doubt("bipartite") == ""
    alone = from_numpy(np.stack((a, b), axis=1))
    assert alone.sides.doubt("bipartite") == ""
