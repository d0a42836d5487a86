"""Result files and partial shards: columns, metadata, digests, nothing partial left."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from papilio.errors import InputError, StoreError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage import answers as results
from papilio.storage.answers import file_metadata, read_partial_shard, write_columns, write_partial_shard
from papilio.storage.store import GraphStore, write_store

GRAPH = BipartiteGraph.from_edges([0, 0, 1, 2], [0, 1, 1, 0], 3, 2)
COUNTS_U = np.array([2**64 - 1, 5, 0], np.uint64)
COUNTS_V = np.array([2**63, 7], np.uint64)


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    return write_store(tmp_path / "g", GRAPH, provenance={})


def write_vertex_counts(path: Path, store: GraphStore, *counts: NDArray[np.uint64]) -> None:
    columns = {layer: {"count": each} for layer, each in zip("uv", counts, strict=False)}
    write_columns(path, store, columns, file_metadata(store.hash, motif={"name": "butterfly"}))


def write_edge_counts(path: Path | str, store: GraphStore, counts: NDArray[np.uint64], overwrite: bool = False) -> None:
    metadata = file_metadata(store.hash, motif={"name": "butterfly"})
    write_columns(path, store, {"edge": {"support": counts}}, metadata, overwrite=overwrite)


def files(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def test_vertex_counts(store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_ROW_GROUP", 2)
    write_vertex_counts(tmp_path / "v.parquet", store, COUNTS_U, COUNTS_V)
    table = pq.read_table(tmp_path / "v.parquet")
    assert {f.name: str(f.type) for f in table.schema} == {
        "layer": "string",
        "id": "int32",
        "count": "uint64",
    }
    assert table.column("layer").to_pylist() == ["u", "u", "u", "v", "v"]
    assert table.column("id").to_pylist() == [0, 1, 2, 0, 1]
    assert table.column("count").to_pylist() == [2**64 - 1, 5, 0, 2**63, 7]
    metadata = table.schema.metadata
    assert metadata[b"papilio.graph_hash"].decode() == store.hash
    assert json.loads(metadata[b"papilio.motif"]) == {"name": "butterfly"}
    assert files(tmp_path) == ["g", "v.parquet"]


def test_vertex_counts_with_labels(tmp_path: Path) -> None:
    numbers = write_store(tmp_path / "a", GRAPH, provenance={}, labels_u=[30, 10, 20])
    write_vertex_counts(tmp_path / "a.parquet", numbers, COUNTS_U, COUNTS_V)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["layer", "id", "label", "count"]
    assert table.column("label").to_pylist() == [30, 10, 20, 0, 1]
    words = write_store(tmp_path / "b", GRAPH, provenance={}, labels_u=[30, 10, 20], labels_v=["x", "y"])
    write_vertex_counts(tmp_path / "b.parquet", words, COUNTS_U, COUNTS_V)
    assert pq.read_table(tmp_path / "b.parquet").column("label").to_pylist() == ["30", "10", "20", "x", "y"]


def test_vertex_counts_of_a_unipartite_graph(tmp_path: Path) -> None:
    store = write_store(tmp_path / "g", UnipartiteGraph.from_edges([0, 1], [1, 2]), provenance={})
    write_vertex_counts(tmp_path / "v.parquet", store, COUNTS_U)
    assert pq.read_table(tmp_path / "v.parquet").column("layer").to_pylist() == ["u"] * 3


def test_edge_counts(store: GraphStore, tmp_path: Path) -> None:
    counts = np.array([1, 2**64 - 1, 3, 4], np.uint64)
    write_edge_counts(tmp_path / "e.parquet", store, counts)
    table = pq.read_table(tmp_path / "e.parquet")
    assert table.to_pydict() == {"u": [0, 0, 1, 2], "v": [0, 1, 1, 0], "support": [1, 2**64 - 1, 3, 4]}
    assert str(table.schema.field("support").type) == "uint64"
    assert table.schema.metadata[b"papilio.graph_hash"].decode() == store.hash


def test_failure_keeps_the_old_file(store: GraphStore, tmp_path: Path) -> None:
    target = tmp_path / "e.parquet"
    write_edge_counts(target, store, np.ones(4, np.uint64))
    before = target.read_bytes()
    (tmp_path / "g" / "edges" / "part-00000.parquet").unlink()
    broken = GraphStore(store.path, store.manifest)
    with pytest.raises(StoreError, match="missing"):
        write_edge_counts(target, broken, np.zeros(4, np.uint64), overwrite=True)
    assert target.read_bytes() == before
    assert files(tmp_path) == ["e.parquet", "g"]


@pytest.mark.parametrize(
    ("where", "kind", "message"),
    [
        ("no/x.parquet", StoreError, "does not exist"),
        ("g", InputError, "is a directory"),
        ("s3://b/x", StoreError, "local paths"),
        ("x.xlsx", InputError, r"suffix '.xlsx'.*ending in .parquet, .csv, .*or .feather"),
    ],
)
def test_targets_that_cannot_be_written(
    store: GraphStore, tmp_path: Path, where: str, kind: type[Exception], message: str
) -> None:
    target = where if "://" in where else tmp_path / where
    with pytest.raises(kind, match=message):
        write_edge_counts(target, store, np.ones(4, np.uint64))


def test_partial_shard_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_ROW_GROUP", 4)
    vectors = {
        "v": np.array([2**64 - 1, 0], np.uint64),
        "u": np.arange(11, dtype=np.uint64),
        "w": np.empty(0, np.uint64),
    }
    digest = write_partial_shard(tmp_path / "s.parquet", vectors)
    back = read_partial_shard(tmp_path / "s.parquet", digest)
    assert back.keys() == vectors.keys()
    for name, vector in vectors.items():
        assert back[name].dtype == np.uint64
        np.testing.assert_array_equal(back[name], vector)
    assert files(tmp_path) == ["s.parquet"]


def test_partial_shard_without_vectors(tmp_path: Path) -> None:
    digest = write_partial_shard(tmp_path / "s.parquet", {})
    assert read_partial_shard(tmp_path / "s.parquet", digest) == {}


def test_digest_tells_names_sizes_and_values_apart(tmp_path: Path) -> None:
    one, two = np.array([1, 2], np.uint64), np.array([1, 3], np.uint64)
    shards = [{"u": one}, {"v": one}, {"u": two}, {"u": one[:1], "v": one[1:]}, {"u": one, "v": one[:0]}]
    digests = {write_partial_shard(tmp_path / "s.parquet", shard) for shard in shards}
    assert len(digests) == len(shards)


def test_partial_shard_that_is_not_the_one_written(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    digest = write_partial_shard(path, {"u": np.arange(9, dtype=np.uint64)})
    write_partial_shard(path, {"u": np.arange(1, 10, dtype=np.uint64)})
    with pytest.raises(StoreError, match=f"expected {digest}: it was changed, run the lease again"):
        read_partial_shard(path, digest)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"s.parquet has digest"):
        read_partial_shard(path, digest)
    path.unlink()
    with pytest.raises(StoreError, match="is missing"):
        read_partial_shard(path, digest)
    write_edge_counts(path, write_store(tmp_path / "g", GRAPH, provenance={}), np.ones(4, np.uint64))
    with pytest.raises(StoreError, match=r"s.parquet has digest"):
        read_partial_shard(path, digest)
