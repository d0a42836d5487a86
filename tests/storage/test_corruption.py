"""Directories that are not, or no longer, the store that was written: each gives a clear error."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as arrow_fs

from papilio.errors import StoreError
from papilio.graph import BipartiteGraph
from papilio.storage.edge_files import FORMAT_VERSION
from papilio.storage.records import MAX_JSON_BYTES
from papilio.storage.sealed import SealedReader
from papilio.storage.store import Manifest, open_store, write_store
from tests.tools.tampering import replace_sealed, reseal

EDGES = "edges/part-00000.parquet"


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """A small labelled store."""
    u, v = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    graph = BipartiteGraph.from_edges(u, v)
    write_store(tmp_path / "g", graph, provenance={"source": "x"}, labels_u=np.arange(40) + 1)
    return tmp_path / "g"


def change(path: Path, **values: Any) -> None:
    """Change, or with ``...`` remove, keys of the manifest, with the digest of what it says then."""
    reseal(path / "graph.json", **values)


def replace_edges(path: Path, table: pa.Table, **options: Any) -> None:
    """Replace the edge file, and record its new size and digest so that only the content is wrong."""
    digest = replace_sealed(path / EDGES, table, **options)
    size = (path / EDGES).stat().st_size
    n_edges = json.loads((path / "graph.json").read_text())["n_edges"]
    change(path, edge_files=[{"name": EDGES, "n_edges": n_edges, "n_bytes": size, "digest": digest}])


def edge_table(path: Path) -> pa.Table:
    return pq.read_table(path / EDGES)


def test_a_closed_reader_waits_for_threads_that_hold_its_bytes(store_path: Path) -> None:
    """As Arrow's threads do after a read; if they let go while Python shuts down, it aborts."""
    digest = json.loads((store_path / "graph.json").read_text())["edge_files"][0]["digest"]
    with SealedReader(arrow_fs.LocalFileSystem(), str(store_path / EDGES), digest, "") as reader:
        assert reader.read(0).num_rows == 200
        held = memoryview(reader._buffer)
        Timer(0.05, held.release).start()
    with pytest.raises(ValueError, match="released memoryview"):
        len(held)
    reader = SealedReader(arrow_fs.LocalFileSystem(), str(store_path / EDGES), digest, "")
    reader._groups[0] = (*reader._groups[0][:2], "0" * 32)
    with pytest.raises(StoreError, match="row group 0"), reader:
        reader.read(0)
    assert not reader._buffer, "an error holds no bytes"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere does not exist; use the path of a graph store"):
        open_store(tmp_path / "nowhere")


def test_a_file_instead_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("0 1\n")
    with pytest.raises(StoreError, match=r"edges.txt is a file; a graph store is a directory"):
        open_store(tmp_path / "edges.txt")


def test_missing_manifest(store_path: Path) -> None:
    (store_path / "graph.json").unlink()
    with pytest.raises(StoreError, match=r"has no graph.json: it is not a graph store"):
        open_store(store_path)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "\xff"])
def test_manifest_is_not_json(store_path: Path, text: str) -> None:
    (store_path / "graph.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match=r"graph.json is not valid JSON"):
        open_store(store_path)


@pytest.mark.parametrize("text", ["[]", "3", "{}", '{"format": "other", "format_version": 1}'])
def test_manifest_of_another_program(store_path: Path, text: str) -> None:
    (store_path / "graph.json").write_text(text)
    with pytest.raises(StoreError, match="does not describe a graph store"):
        open_store(store_path)


def test_newer_version(store_path: Path) -> None:
    change(store_path, format_version=FORMAT_VERSION + 1, kind="hypergraph")
    with pytest.raises(StoreError, match=rf"format_version {FORMAT_VERSION + 1}.*reads up to {FORMAT_VERSION}"):
        open_store(store_path)


@pytest.mark.parametrize("version", [0, -1, "1", None, 1.5])
def test_impossible_version(store_path: Path, version: Any) -> None:
    change(store_path, format_version=version)
    with pytest.raises(StoreError, match="expected an integer from 1"):
        open_store(store_path)


@pytest.mark.parametrize("key", ["kind", "n_u", "n_edges", "signed", "hash", "dropped", "edge_files"])
def test_missing_key(store_path: Path, key: str) -> None:
    change(store_path, **{key: ...})
    with pytest.raises(StoreError, match=f"graph.json lacks {key}"):
        open_store(store_path)


WRONG_VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"kind": "tripartite"}, "kind is 'tripartite'"),
    "negative size": ({"n_u": -1}, "n_u is -1"),
    "fraction": ({"n_v": 1.5}, "n_v is 1.5"),
    "boolean size": ({"n_edges": True}, "n_edges is True"),
    "beyond int32": ({"n_u": 2**31}, "2147483648 vertices"),
    "two sizes": ({"kind": "unipartite"}, "n_u = 40 and n_v = 5"),
    "signed": ({"signed": "yes"}, "signed is 'yes'"),
    "hash": ({"hash": "abc"}, "hash is 'abc'"),
    "edges": ({"n_edges": 7}, "n_edges is 7 and edge_files disagree"),
    "files": ({"edge_files": [{"name": EDGES}]}, r"edge_files\[0\] lacks digest, n_bytes, n_edges"),
    "outside": (
        {"edge_files": [{"name": "edges/../../x", "n_edges": 200, "n_bytes": 1, "digest": "0" * 32}]},
        r"edge_files has 'edges/../../x', which is not a file in the directory edges",
    ),
    "labels": ({"labels": {"w": "0" * 32}}, "labels has w; allowed are u, v"),
    "digest": ({"labels": {"u": "0"}}, "labels.u is '0'; expected 32 hexadecimal digits"),
    "dropped": ({"dropped": []}, "dropped is"),
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_wrong_value(store_path: Path, name: str) -> None:
    values, message = WRONG_VALUES[name]
    change(store_path, **values)
    with pytest.raises(StoreError, match=message):
        open_store(store_path)


def test_missing_edge_file(store_path: Path) -> None:
    (store_path / EDGES).unlink()
    with pytest.raises(StoreError, match=r"part-00000.parquet is missing"):
        open_store(store_path)


def test_edge_file_lost_after_opening(store_path: Path) -> None:
    store = open_store(store_path)
    shutil.rmtree(store_path / "edges")
    with pytest.raises(StoreError, match=r"part-00000.parquet is missing"):
        store.read()


def test_truncated_edge_file(store_path: Path) -> None:
    data = (store_path / EDGES).read_bytes()
    (store_path / EDGES).write_bytes(data[:-10])
    with pytest.raises(StoreError, match=rf"has {len(data) - 10} bytes, but the manifest has {len(data)}"):
        open_store(store_path)


@pytest.mark.parametrize("damage", ["footer", "pages"])
def test_damaged_edge_file(store_path: Path, damage: str) -> None:
    data = bytearray((store_path / EDGES).read_bytes())
    where = slice(len(data) - 60, len(data)) if damage == "footer" else slice(4, 60)
    data[where] = b"\xa5" * (where.stop - where.start)
    (store_path / EDGES).write_bytes(bytes(data))
    store = open_store(store_path)
    with pytest.raises(StoreError, match=r"part-00000.parquet.* has digest .* it was changed, convert"):
        store.verify()


def test_rows_disagree(store_path: Path) -> None:
    replace_edges(store_path, edge_table(store_path).slice(0, 199))
    with pytest.raises(StoreError, match="199 rows, but the manifest has 200"):
        open_store(store_path).read()


def test_columns_disagree(store_path: Path) -> None:
    replace_edges(store_path, edge_table(store_path).rename_columns(["a", "b"]))
    with pytest.raises(StoreError, match="has columns a int32, b int32; expected u int32, v int32"):
        open_store(store_path).read()


def test_no_statistics(store_path: Path) -> None:
    replace_edges(store_path, edge_table(store_path), write_statistics=False)
    with pytest.raises(StoreError, match="row group 0 has no statistics"):
        open_store(store_path).read()


def test_unsorted_edges(store_path: Path) -> None:
    table = edge_table(store_path)
    replace_edges(store_path, table.take(pa.array([1, 0, *range(2, 200)])))
    with pytest.raises(StoreError, match=r"row group 0: edge \(0, 0\) comes after \(0, 1\)"):
        open_store(store_path).read()


def test_row_groups_out_of_order(store_path: Path) -> None:
    table = edge_table(store_path)
    replace_edges(store_path, pa.concat_tables([table.slice(100), table.slice(0, 100)]), rows=100)
    with pytest.raises(StoreError, match=r"row group 1: edge \(0, 0\) comes after \(39, 4\)"):
        open_store(store_path).read()


def test_ids_outside_the_layer(store_path: Path) -> None:
    change(store_path, n_u=39)
    with pytest.raises(StoreError, match="u holds ids 0 to 39; expected 0 to 38"):
        open_store(store_path).read()


def test_hash_mismatch(store_path: Path) -> None:
    table = edge_table(store_path)
    v = table.column("v").to_numpy().copy()
    v[-1] = 5
    change(store_path, n_v=6)
    replace_edges(store_path, table.set_column(1, "v", pa.array(v)))
    store = open_store(store_path)
    for read in (store.read, store.verify, lambda: list(store.batches())):
        with pytest.raises(StoreError, match=r"content hash is .*, but the manifest has"):
            read()


def test_labels_missing_or_short(store_path: Path) -> None:
    labels = store_path / "labels_u.parquet"
    digest = replace_sealed(labels, pq.read_table(labels).slice(1))
    change(store_path, labels={"u": digest})
    with pytest.raises(StoreError, match="39 rows; expected id, label and 40 rows"):
        open_store(store_path).verify()
    labels.write_bytes(b"PAR1")
    with pytest.raises(StoreError, match=r"labels_u.parquet has digest"):
        open_store(store_path).labels("u")
    (store_path / "labels_u.parquet").unlink()
    with pytest.raises(StoreError, match=r"labels_u.parquet is missing"):
        open_store(store_path).labels("u")


def test_unreadable_manifest(store_path: Path) -> None:
    (store_path / "graph.json").unlink()
    (store_path / "graph.json").mkdir()
    with pytest.raises(StoreError, match=r"graph.json cannot be read"):
        open_store(store_path)


def test_manifest_round_trip(store_path: Path) -> None:
    manifest = open_store(store_path).manifest
    assert Manifest.from_json(manifest.to_json(), "graph.json") == manifest


def test_untouched_store_passes(store_path: Path) -> None:
    open_store(store_path).verify()


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Change one bit of a file; ``at`` may count from its end."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_every_byte_of_the_footers_and_row_groups_counts(store_path: Path) -> None:
    """A bit of the statistics of u used to hide a row group from a full read, and from ``verify``."""
    path = store_path / EDGES
    data = path.read_bytes()
    for at in range(4, len(data)):  # before them is a magic number that nothing reads
        flip(path, at, at % 8)
        with pytest.raises(StoreError, match=r"part-00000.parquet.* (has digest|cannot be read)"):
            open_store(store_path).verify()
        path.write_bytes(data)
    open_store(store_path).verify()


def test_a_full_read_takes_all_row_groups_whatever_their_statistics_say(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, store = open_store(store_path).read(), open_store(store_path)
    wrong = tuple(replace(group, u_min=50, u_max=60) for group in store.row_groups)
    monkeypatch.setitem(store.__dict__, "row_groups", wrong)
    assert store.read() == graph
    assert store.read(0, 5).n_edges == 0


def test_a_bit_of_a_label(tmp_path: Path) -> None:
    labels = [f"us\N{LATIN SMALL LETTER E WITH ACUTE}r{number}" for number in range(40)]
    graph = BipartiteGraph.from_edges(np.arange(40), np.zeros(40, int))
    write_store(tmp_path / "g", graph, provenance={}, labels_u=labels)
    path = tmp_path / "g" / "labels_u.parquet"
    for at in range(4, path.stat().st_size):
        flip(path, at)
        with pytest.raises(StoreError, match=r"labels_u.parquet.* (has digest|cannot be read)"):
            open_store(tmp_path / "g").labels("u")
        flip(path, at)
    assert list(open_store(tmp_path / "g").labels("u")) == labels  # type: ignore[arg-type]


def test_label_files_of_the_other_layer_and_of_another_store(tmp_path: Path) -> None:
    graph = BipartiteGraph.from_edges(np.arange(9), np.arange(9))
    for name, first in (("g", 0), ("h", 100)):
        write_store(tmp_path / name, graph, provenance={}, labels_u=np.arange(9) + first, labels_v=np.arange(9) + 50)
    own = tmp_path / "g" / "labels_u.parquet"
    for other in ("g/labels_v.parquet", "h/labels_u.parquet"):
        shutil.copyfile(tmp_path / other, own)
        with pytest.raises(StoreError, match=r"labels_u.parquet has digest"):
            open_store(tmp_path / "g").labels("u")


def test_the_edge_files_of_another_store(tmp_path: Path) -> None:
    """Of the same sizes, so that nothing but their content differs."""
    for name, ends in (("g", [0, 1, 3]), ("h", [0, 2, 3])):
        write_store(tmp_path / name, BipartiteGraph.from_edges([0, 1, 2], ends, 3, 4), provenance={})
    shutil.copyfile(tmp_path / "h" / EDGES, tmp_path / "g" / EDGES)
    with pytest.raises(StoreError, match=r"part-00000.parquet has digest"):
        open_store(tmp_path / "g").read()


@pytest.mark.parametrize("change", [{"dropped": {"duplicates": 3}}, {"provenance": {}}, {"n_v": 6}, {"labels": {}}])
def test_a_manifest_that_was_changed(store_path: Path, change: dict[str, Any]) -> None:
    data = json.loads((store_path / "graph.json").read_text())
    (store_path / "graph.json").write_text(json.dumps(data | change))
    with pytest.raises(StoreError, match=r"graph.json has digest .* it was changed, convert the graph again"):
        open_store(store_path)
    (store_path / "graph.json").write_text(json.dumps(data, indent=7))
    open_store(store_path).verify()
    del data["digest"]
    (store_path / "graph.json").write_text(json.dumps(data))
    with pytest.raises(StoreError, match=r"graph.json has no digest"):
        open_store(store_path)


def test_the_content_hash_of_a_store_of_version_2_is_checked(store_path: Path) -> None:
    """Whole stores of that version are among the directories of ``tests/data/written-before.tar.gz``."""
    change(store_path, format_version=2)
    with pytest.raises(StoreError, match="the edges were changed"):
        open_store(store_path).read()


def test_a_store_of_version_1(store_path: Path) -> None:
    change(store_path, format_version=1)
    with pytest.raises(StoreError, match=r"format_version 1, without digests .* convert the graph again"):
        open_store(store_path)


def test_a_manifest_with_very_many_keys_is_refused_at_once(store_path: Path) -> None:
    """The message on a key given twice took 45 s for 60,000 keys; it is linear, as is the one on unknown keys."""
    whole = json.loads((store_path / "graph.json").read_text())
    keys = ", ".join(f'"key {number}": 0' for number in range(60_000))
    began = time.process_time()
    for last in ('"key 59999": 1', '"last": 1'):
        (store_path / "graph.json").write_text(f"{{{keys}, {last}}}")
        with pytest.raises(StoreError, match=r"'key 59999' is given twice|does not describe a graph store"):
            open_store(store_path)
    (store_path / "graph.json").write_text(json.dumps(whole))
    change(store_path, **{f"key {number}": 0 for number in range(60_000)})
    open_store(store_path)
    assert time.process_time() - began < 10


def test_a_manifest_larger_than_any(store_path: Path) -> None:
    with (store_path / "graph.json").open("r+b") as file:
        file.truncate(MAX_JSON_BYTES + 1)
    with pytest.raises(StoreError, match=rf"has {MAX_JSON_BYTES + 1} bytes; at most {MAX_JSON_BYTES} are read"):
        open_store(store_path)


def test_a_store_at_a_url_is_checked_too(store_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(store_path), "/papilio-sealed", recursive=True)
    try:
        store = open_store("memory://papilio-sealed")
        assert store.read() == open_store(store_path).read()
        assert store.labels("u") is not None
        data = bytearray(memory.cat(f"/papilio-sealed/{EDGES}"))
        data[100] ^= 1
        memory.pipe(f"/papilio-sealed/{EDGES}", bytes(data))
        with pytest.raises(StoreError, match=r"part-00000.parquet, row group 0 has digest"):
            open_store("memory://papilio-sealed").read()
    finally:
        memory.rm("/papilio-sealed", recursive=True)
