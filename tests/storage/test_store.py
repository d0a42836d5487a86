"""Graph stores: round trips, ranges, hashes, labels, and writes that are whole or absent."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError, GraphError, StoreError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage import edge_files
from papilio.storage.store import GraphStore, StoreWriter, open_store, write_store


def random_graph(
    n_u: int = 500, n_v: int = 300, n_edges: int = 9000, seed: int = 1, signed: bool = False
) -> BipartiteGraph:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, n_u, n_edges), rng.integers(0, n_v, n_edges)
    return BipartiteGraph.from_edges(u, v, n_u, n_v, rng.choice([-1, 1], n_edges) if signed else None)


@pytest.fixture
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of 1000 edges and files of 3000, so that small graphs have many of both."""
    monkeypatch.setattr(edge_files, "ROW_GROUP_EDGES", 1000)
    monkeypatch.setattr(edge_files, "FILE_EDGES", 3000)


@pytest.mark.parametrize("signed", [False, True])
def test_bipartite_round_trip(tmp_path: Path, signed: bool) -> None:
    graph = random_graph(signed=signed)
    written = write_store(tmp_path / "g", graph, provenance={"source": "test"})
    store = open_store(tmp_path / "g")
    assert store.manifest == written.manifest
    assert (store.kind, store.n_u, store.n_v, store.n_edges) == ("bipartite", 500, 300, graph.n_edges)
    assert store.signed is signed
    assert store.manifest.provenance == {"source": "test"}
    assert store.read() == graph
    store.verify()
    assert store.labels("u") is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g"]


def test_unipartite_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    graph = UnipartiteGraph.from_edges(rng.integers(0, 90, 800), rng.integers(0, 90, 800), 100)
    store = write_store(tmp_path / "g", graph, provenance={})
    back = store.read()
    assert isinstance(back, UnipartiteGraph)
    assert back.n == 100
    np.testing.assert_array_equal(back.u, graph.u)
    np.testing.assert_array_equal(back.v, graph.v)
    store.verify()


@pytest.mark.parametrize(("n_u", "n_v"), [(0, 0), (4, 0), (3, 5)])
def test_graph_without_edges(tmp_path: Path, n_u: int, n_v: int) -> None:
    graph = BipartiteGraph.from_edges([], [], n_u, n_v)
    write_store(tmp_path / "g", graph, provenance={})
    store = open_store(tmp_path / "g")
    assert store.read() == graph
    assert store.row_groups == ()
    store.verify()


def test_columns_and_row_groups(tmp_path: Path, small_row_groups: None) -> None:
    graph = random_graph(signed=True)
    store = write_store(tmp_path / "g", graph, provenance={})
    files = store.manifest.edge_files
    assert [f.n_edges for f in files[:-1]] == [3000] * (len(files) - 1)
    with pq.ParquetFile(tmp_path / "g" / files[0].name) as file:
        assert [(f.name, str(f.type)) for f in file.schema_arrow] == [
            ("u", "int32"),
            ("v", "int32"),
            ("sign", "int8"),
        ]
        assert file.metadata.num_row_groups == 3
        assert file.metadata.row_group(0).column(0).statistics.has_min_max
    groups = store.row_groups
    assert [g.first_edge for g in groups] == list(range(0, graph.n_edges, 1000))
    assert [g.u_min for g in groups] == [int(graph.u[g.first_edge]) for g in groups]
    assert store.read() == graph


def test_full_row_groups_hold_about_a_million_edges(tmp_path: Path) -> None:
    n_edges = edge_files.ROW_GROUP_EDGES + 5
    u = np.arange(n_edges, dtype=np.int32) // 4
    v = np.arange(n_edges, dtype=np.int32) % 4
    with StoreWriter(tmp_path / "g", kind="bipartite", n_u=n_edges, n_v=4, signed=False, provenance={}) as writer:
        writer.append(u, v)
    assert [g.n_edges for g in writer.store.row_groups] == [1 << 20, 5]


def test_range_reads_only_its_row_groups(
    tmp_path: Path, small_row_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph()
    store = write_store(tmp_path / "g", graph, provenance={})
    read: list[int] = []
    original = pq.ParquetFile.read_row_group

    def counting(self: pq.ParquetFile, index: int, *args: Any, **kwargs: Any) -> Any:
        read.append(index)
        return original(self, index, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counting)
    for start, stop in [(0, 10), (200, 201), (120, 260), (499, 500), (7, 7), (0, 500)]:
        read.clear()
        part = store.read(start, stop)
        inside = (graph.u >= start) & (graph.u < stop)
        touched = {at // 1000 for at in np.flatnonzero(inside)}
        assert len(read) == len(store.select(start, stop))
        assert touched <= {g.first_edge // 1000 for g in store.select(start, stop)}
        assert len(read) <= len(touched) + 2
        assert part == BipartiteGraph(500, 300, graph.u[inside], graph.v[inside])
    assert len(store.row_groups) == 9


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4), (0, 501)])
def test_range_outside_the_layer(tmp_path: Path, start: int, stop: int) -> None:
    store = write_store(tmp_path / "g", random_graph(), provenance={})
    with pytest.raises(StoreError, match=r"range of u .* not within \[0, 500\)"):
        store.read(start, stop)


def test_store_is_read_from_a_url_and_after_pickling(tmp_path: Path) -> None:
    graph = random_graph()
    write_store(tmp_path / "g", graph, provenance={})
    store = open_store((tmp_path / "g").as_uri())
    assert store.read() == graph
    assert pickle.loads(pickle.dumps(store)).read() == graph


@pytest.mark.parametrize("path", ["nosuchscheme://bucket/graph", "s3x:///x"])
def test_url_without_filesystem(path: str) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        open_store(path)


def test_urls_are_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="only on local paths"):
        write_store((tmp_path / "g").as_uri(), random_graph(), provenance={})


def test_hash_depends_on_content_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(signed=True)
    base = write_store(tmp_path / "a", graph, provenance={"source": "a"}).hash
    monkeypatch.setattr(edge_files, "ROW_GROUP_EDGES", 700)
    monkeypatch.setattr(edge_files, "FILE_EDGES", 1400)
    labels = np.arange(500) * 3
    again = write_store(tmp_path / "b", graph, provenance={}, labels_u=labels)
    assert again.hash == base
    assert len(again.manifest.edge_files) > 1
    with StoreWriter(tmp_path / "c", kind="bipartite", n_u=500, n_v=300, signed=True, provenance={}) as writer:
        for start in range(0, graph.n_edges, 37):
            part = slice(start, start + 37)
            assert graph.sign is not None
            writer.append(graph.u[part], graph.v[part], graph.sign[part])
    assert writer.store.hash == base


def test_hash_tells_graphs_apart(tmp_path: Path) -> None:
    graph = random_graph(signed=True)
    assert graph.sign is not None
    flipped = graph.sign.copy()
    flipped[17] = -flipped[17]
    others = [
        graph,
        BipartiteGraph(501, 300, graph.u, graph.v, graph.sign),
        BipartiteGraph(500, 301, graph.u, graph.v, graph.sign),
        BipartiteGraph(500, 300, graph.u, graph.v),
        BipartiteGraph(500, 300, graph.u, graph.v, flipped),
        BipartiteGraph(500, 300, graph.u[1:], graph.v[1:], graph.sign[1:]),
        graph.swap_layers(),
        UnipartiteGraph(4, np.array([0], np.int32), np.array([1], np.int32)),
        BipartiteGraph(4, 4, np.array([0], np.int32), np.array([1], np.int32)),
    ]
    hashes = [write_store(tmp_path / str(i), g, provenance={}).hash for i, g in enumerate(others)]
    assert len(set(hashes)) == len(others)


@settings(max_examples=25, deadline=None)
@given(
    edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
def test_hash_is_independent_of_batches(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]], cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("store")
    graph = BipartiteGraph.from_edges([e[0] for e in edges], [e[1] for e in edges], 10, 8)
    bounds = [0, *sorted(min(c, graph.n_edges) for c in cuts), graph.n_edges]
    with StoreWriter(path / "g", kind="bipartite", n_u=10, n_v=8, signed=False, provenance={}) as writer:
        for start, stop in pairwise(bounds):
            writer.append(graph.u[start:stop], graph.v[start:stop])
    assert writer.store.hash == write_store(path / "h", graph, provenance={}).hash
    assert open_store(path / "g").read() == graph


def test_labels_of_integers_and_strings(tmp_path: Path) -> None:
    graph = random_graph()
    words = np.array([f"vertex {i} \N{GREEK SMALL LETTER PI}" for i in range(300)])
    write_store(tmp_path / "g", graph, provenance={}, labels_u=np.arange(500) * 7 - 3, labels_v=words)
    store = open_store(tmp_path / "g")
    assert list(store.manifest.labels) == ["u", "v"]
    labels_u, labels_v = store.labels("u"), store.labels("v")
    assert labels_u is not None
    assert labels_u.dtype == np.int64
    np.testing.assert_array_equal(labels_u, np.arange(500) * 7 - 3)
    assert labels_v is not None
    assert list(labels_v) == list(words)
    table = pq.read_table(tmp_path / "g" / "labels_u.parquet")
    assert table.column_names == ["id", "label"]
    store.verify()


def test_unipartite_labels_serve_both_columns(tmp_path: Path) -> None:
    graph = UnipartiteGraph.from_edges([0, 1], [1, 2])
    store = write_store(tmp_path / "g", graph, provenance={}, labels_u=["a", "b", "c"])
    labels_u, labels_v = store.labels("u"), store.labels("v")
    assert labels_u is not None
    assert labels_v is not None
    assert list(labels_u) == list(labels_v) == ["a", "b", "c"]


@pytest.mark.parametrize("labels", [np.arange(3), np.array([1.5] * 500), np.array([None] * 500)])
def test_wrong_labels_are_refused(tmp_path: Path, labels: Any) -> None:
    with pytest.raises(GraphError, match="labels"):
        write_store(tmp_path / "g", random_graph(), provenance={}, labels_u=labels)
    assert list(tmp_path.iterdir()) == []


BAD_BATCHES = {
    "unsorted": ([([1, 0], [0, 0], None)], "sorted"),
    "duplicate": ([([1, 1], [0, 0], None)], "without duplicates"),
    "unsorted across batches": ([([1], [1], None), ([1], [0], None)], "sorted"),
    "duplicate across batches": ([([1], [1], None), ([1], [1], None)], "sorted"),
    "u too large": ([([9], [0], None)], "u holds ids 9 to 9; expected 0 to 3"),
    "v negative": ([([0], [-1], None)], "v holds ids -1"),
    "sign not asked for": ([([0], [0], [1])], "signs are required"),
    "different lengths": ([([0, 1], [0], None)], "different lengths"),
    "floats": ([([0.5], [0], None)], "integers"),
    "too large for int32": ([([2**40], [0], None)], "u holds 1099511627776"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_writer_refuses_bad_batches_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    batches, message = BAD_BATCHES[name]

    def write() -> None:
        with StoreWriter(tmp_path / "g", kind="bipartite", n_u=4, n_v=4, signed=False, provenance={}) as writer:
            for batch in batches:
                writer.append(*batch)

    with pytest.raises(GraphError, match=message):
        write()
    assert list(tmp_path.iterdir()) == []


def test_writer_refuses_wrong_signs_and_loops(tmp_path: Path) -> None:
    with (
        pytest.raises(GraphError, match="sign holds 0"),
        StoreWriter(tmp_path / "g", kind="bipartite", n_u=2, n_v=2, signed=True, provenance={}) as writer,
    ):
        writer.append([0], [0], [0])
    with (
        pytest.raises(GraphError, match="u >= v"),
        StoreWriter(tmp_path / "g", kind="unipartite", n_u=2, n_v=2, signed=False, provenance={}) as writer,
    ):
        writer.append([1], [1])
    with pytest.raises(GraphError, match="n_u = n_v"):
        StoreWriter(tmp_path / "g", kind="unipartite", n_u=2, n_v=3, signed=False, provenance={})
    with pytest.raises(CapacityError, match="2147483647"):
        StoreWriter(tmp_path / "g", kind="bipartite", n_u=2**31, n_v=3, signed=False, provenance={})
    with pytest.raises(GraphError, match="n_v is -1"):
        StoreWriter(tmp_path / "g", kind="bipartite", n_u=2, n_v=-1, signed=False, provenance={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_crash_in_the_middle_leaves_nothing(tmp_path: Path, small_row_groups: None, error: type[BaseException]) -> None:
    graph = random_graph()

    def write() -> None:
        with StoreWriter(tmp_path / "g", kind="bipartite", n_u=500, n_v=300, signed=False, provenance={}) as writer:
            writer.append(graph.u, graph.v)
            assert len(list(tmp_path.iterdir())) == 1
            assert not (tmp_path / "g").exists()
            raise error

    with pytest.raises(error):
        write()
    assert list(tmp_path.iterdir()) == []


def test_manifest_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_store(tmp_path / "g", random_graph(), provenance={"source": object()})
    assert list(tmp_path.iterdir()) == []


def test_unfinished_writer_has_no_store(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "g", kind="bipartite", n_u=1, n_v=1, signed=False, provenance={})
    with pytest.raises(StoreError, match="not finished"):
        _ = writer.store


def test_overwrite_replaces_stores_only(tmp_path: Path) -> None:
    first, second = random_graph(seed=1), random_graph(seed=2)
    write_store(tmp_path / "g", first, provenance={})
    with pytest.raises(StoreError, match="already exists"):
        write_store(tmp_path / "g", second, provenance={})
    assert open_store(tmp_path / "g").read() == first
    write_store(tmp_path / "g", second, provenance={}, overwrite=True)
    assert open_store(tmp_path / "g").read() == second
    assert [p.name for p in tmp_path.iterdir()] == ["g"]
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear").write_text("sir")
    with pytest.raises(StoreError, match="not a graph store"):
        write_store(tmp_path / "letters", second, provenance={}, overwrite=True)
    (tmp_path / "note").write_text("x")
    with pytest.raises(StoreError, match="not a graph store"):
        write_store(tmp_path / "note", second, provenance={}, overwrite=True)
    assert (tmp_path / "letters" / "dear").read_text() == "sir"


def test_failed_overwrite_keeps_the_old_store(tmp_path: Path) -> None:
    graph = random_graph()
    write_store(tmp_path / "g", graph, provenance={})
    with pytest.raises(TypeError):
        write_store(tmp_path / "g", random_graph(seed=2), provenance={"x": object()}, overwrite=True)
    assert open_store(tmp_path / "g").read() == graph
    assert [p.name for p in tmp_path.iterdir()] == ["g"]


def test_empty_directory_may_become_a_store(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    write_store(tmp_path / "g", random_graph(), provenance={})
    open_store(tmp_path / "g").verify()


def test_parent_must_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist; create it first"):
        write_store(tmp_path / "no" / "g", random_graph(), provenance={})


def test_repr_names_the_graph(tmp_path: Path) -> None:
    store = write_store(tmp_path / "g", random_graph(), provenance={})
    assert isinstance(store, GraphStore)
    assert "n_u=500" in repr(store)
