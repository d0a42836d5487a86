"""Files of rows: whole or absent, named by labels, cut at the limit, checked, compared; labels and ids."""

from __future__ import annotations

import json
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papilio.errors import InputError, StoreError
from papilio.graph import BipartiteGraph
from papilio.storage.listings import (
    ListingShard,
    ListingWriter,
    RowFile,
    check_listing_shard,
    count_missing_rows,
    read_listing,
    write_listing,
)
from papilio.storage.store import GraphStore, write_store
from papilio.storage.vertex_names import find_ids, hash_labels, read_names

QUESTION = {"graph": "abc", "motif": {"name": "biclique", "p": 2, "q": 1}, "listing": {"limit": None}}
NAMES = {"u": pa.array(["a", "b", "c"]), "v": pa.array([10, 20, 30], pa.int64())}
SIZES = {"u": 2, "v": 1}


def write_rows(path: Path, *blocks: int) -> ListingShard:
    """Write blocks of so many rows, all different as long as they are fewer than nine."""
    rows = np.arange(sum(blocks), dtype=np.int32)
    with ListingWriter(path, NAMES, SIZES, QUESTION) as writer:
        for part in np.split(rows, np.cumsum(blocks)[:-1]):
            writer.write(np.stack((part % 3, part // 3 % 3), axis=1), part[:, None] % 3)
    (shard,) = writer.shards
    assert shard.rows == sum(blocks)
    assert shard.path == f"{path}-0.parquet"
    return shard


def write_all(path: Path, shards: list[ListingShard], **changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"limit": None, "limit_reached": False, "keep_shards": False}
    return write_listing(path, shards, question=QUESTION, names=NAMES, sizes=SIZES, **{**settings, **changes})


def small_store(path: Path, labels_u: Any = None, labels_v: Any = None) -> GraphStore:
    graph = BipartiteGraph.from_edges([0, 1, 2], [0, 1, 1])
    return write_store(path, graph, provenance={}, labels_u=labels_u, labels_v=labels_v)


def test_rows_are_written_with_names_and_what_they_answer(tmp_path: Path) -> None:
    shard = write_rows(tmp_path / "x", 3, 2)
    table = pq.read_table(shard.path)
    assert table.to_pylist()[:2] == [{"u": ["a", "a"], "v": [10]}, {"u": ["b", "a"], "v": [20]}]
    assert str(table.schema.field("u").type).startswith("fixed_size_list<element: string not null>[2]")
    assert table.schema.metadata[b"papilio.graph_hash"] == b"abc"
    assert json.loads(table.schema.metadata[b"papilio.motif"]) == QUESTION["motif"]
    assert pq.read_metadata(shard.path).num_row_groups == 2
    check_listing_shard(shard)


def test_threads_write_files_of_their_own(tmp_path: Path) -> None:
    barrier = threading.Barrier(3, timeout=600)

    def write(worker: int) -> None:
        rows = np.full((5, 1), worker, np.int32)
        for _ in range(4):
            writer.write(np.hstack((rows, rows)), rows)

    slow = RowFile.write

    def wait(self: RowFile, rows: Any) -> None:
        if not barrier.broken:
            with suppress(threading.BrokenBarrierError):
                barrier.wait()
            barrier.abort()
        slow(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowFile, "write", wait)
        with ListingWriter(tmp_path / "x", NAMES, SIZES, QUESTION) as writer, ThreadPoolExecutor(3) as pool:
            list(pool.map(write, range(3)))
    assert len(writer.shards) == 3
    for shard in writer.shards:
        check_listing_shard(shard)
    tables = [pq.read_table(shard.path) for shard in writer.shards]
    assert sorted(pa.concat_tables(tables).column("v").to_pylist()) == [[10]] * 20 + [[20]] * 20 + [[30]] * 20
    assert len(list(tmp_path.iterdir())) == 3


def test_nothing_is_left_without_rows_or_after_a_failure(tmp_path: Path) -> None:
    with ListingWriter(tmp_path / "x", NAMES, SIZES, QUESTION) as writer:
        pass
    assert writer.shards == ()
    row = np.zeros((1, 2), np.int32), np.zeros((1, 1), np.int32)

    def fail() -> None:
        with ListingWriter(tmp_path / "x", NAMES, SIZES, QUESTION) as writer:
            writer.write(*row)
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_writer_whose_directory_went_stops(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    row = np.zeros((1, 2), np.int32), np.zeros((1, 1), np.int32)
    writer = ListingWriter(run / "x", NAMES, SIZES, QUESTION)

    def write() -> None:
        with writer:
            writer.write(*row)
            run.rename(tmp_path / "gone")
            writer.write(*row)

    with pytest.raises(StoreError, match="does not exist; its listing"):
        write()


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    def write() -> None:
        with ListingWriter(tmp_path / "x", {"n": pa.array(range(1 << 16))}, {"n": 2}, QUESTION) as writer:
            for _ in range(9):
                writer.write(np.random.default_rng(1).integers(0, 1 << 16, (1 << 12, 2), np.int32))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(
            StoreError, match=r"x: rows cannot be written \(File too large\); raise the limit on the size of files"
        ):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_shards_are_checked(tmp_path: Path) -> None:
    shard = write_rows(tmp_path / "x", 3)
    with pytest.raises(StoreError, match="has 3 rows; expected 4"):
        check_listing_shard(replace(shard, rows=4))
    content = bytearray(Path(shard.path).read_bytes())
    content[10] ^= 1
    Path(shard.path).write_bytes(content)
    with pytest.raises(StoreError, match="has digest"):
        check_listing_shard(shard)
    Path(shard.path).unlink()
    with pytest.raises(StoreError, match="is missing"):
        check_listing_shard(shard)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("limit", "files"), [(None, [5, 2]), (6, [5, 1]), (5, [5]), (4, [4]), (1, [1]), (9, [5, 2])])
def test_a_listing_has_the_first_rows_of_its_shards(
    tmp_path: Path, keep: bool, limit: int | None, files: list[int]
) -> None:
    (tmp_path / "shards").mkdir()
    shards = [
        write_rows(tmp_path / "shards" / "1", 3, 2),
        write_rows(tmp_path / "shards" / "2", 2),
    ]
    every = pq.read_table(shards[0].path).to_pylist() + pq.read_table(shards[1].path).to_pylist()
    out = tmp_path / "out"
    written = write_all(out, shards, limit=limit, keep_shards=keep)
    assert [file["rows"] for file in written["files"]] == files
    assert written["rows"] == sum(files)
    assert read_listing(out) == written
    for file in written["files"]:
        check_listing_shard(ListingShard(str(out / file["name"]), file["digest"], file["rows"], file["bytes"]))
        assert (out / file["name"]).stat().st_size == file["bytes"]
    assert pq.read_table(out).to_pylist() == every[: sum(files)]
    if keep:
        for shard in shards:
            check_listing_shard(shard)


def test_a_listing_of_nothing_has_its_columns(tmp_path: Path) -> None:
    write_all(tmp_path / "out", [])
    table = pq.read_table(tmp_path / "out")
    assert (table.num_rows, table.column_names) == (0, ["u", "v"])


def test_a_listing_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    shard = write_rows(tmp_path / "shards" / "1", 3)
    lost = ListingShard(str(tmp_path / "shards" / "2"), "", 3, 9)
    with pytest.raises(StoreError, match="the listing cannot be written"):
        write_all(tmp_path / "out", [shard, lost])
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_a_listing_replaces_only_a_listing(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    write_all(tmp_path / "out", [])
    shard = write_rows(tmp_path / "shards" / "1", 3)
    with pytest.raises(StoreError, match="already exists"):
        write_all(tmp_path / "out", [shard], keep_shards=True)
    write_all(tmp_path / "out", [shard], keep_shards=True, overwrite=True)
    assert pq.read_table(tmp_path / "out").num_rows == 3
    with pytest.raises(StoreError, match=r"not of the same kind \(no _listing.json\)"):
        write_all(tmp_path / "shards", [shard], keep_shards=True, overwrite=True)
    assert read_listing(tmp_path / "shards") is None
    assert read_listing(tmp_path / "none") is None
    (tmp_path / "out" / "_listing.json").write_text('{"format": "papilio-listing", "format_version": 9}')
    with pytest.raises(StoreError, match="format_version 9"):
        read_listing(tmp_path / "out")
    (tmp_path / "out" / "_listing.json").write_text("{")
    with pytest.raises(StoreError, match="not valid JSON"):
        read_listing(tmp_path / "out")


def test_rows_are_compared_as_often_as_they_come(tmp_path: Path) -> None:
    once = write_rows(tmp_path / "once", 9)
    other_order = write_rows(tmp_path / "other", 4, 5)
    twice = write_rows(tmp_path / "twice", 9, 9)
    assert count_missing_rows([once.path], [other_order.path]) == 0
    assert count_missing_rows([once.path, other_order.path], [once.path]) == 9
    assert count_missing_rows([twice.path], [once.path]) == 9
    assert count_missing_rows([once.path], [twice.path]) == 0
    with pytest.raises(StoreError, match="cannot be compared"):
        count_missing_rows([once.path], [str(tmp_path / "none.parquet")])


def test_labels_become_ids_and_names(tmp_path: Path) -> None:
    store = small_store(tmp_path / "g", ["x", "7", "y"], [30, 10])
    assert find_ids(store, "u", ["y", "x", "y", 7]) == (0, 1, 2)
    assert find_ids(store, "v", ["10"]) == find_ids(store, "v", [10]) == (1,)
    names = read_names(store, {"u": np.array([2, 0], np.int32), "v": np.array([1], np.int32)})
    assert (names["u"].to_pylist(), names["v"].to_pylist()) == (["y", "x"], [10])
    assert read_names(store, {"u": np.empty(0, np.int32)})["u"].type == pa.string()
    with pytest.raises(InputError, match=r"layer U of .* label 'z'; its labels look like 'x', '7', 'y'"):
        find_ids(store, "u", ["x", "z"])
    for wrong in ("ten", 2**70, 11):
        with pytest.raises(InputError, match=f"with the label {wrong!r}"):
            find_ids(store, "v", [wrong])


def test_without_labels_ids_are_meant(tmp_path: Path) -> None:
    store = small_store(tmp_path / "g")
    assert find_ids(store, "u", ["2", 0]) == (0, 2)
    names = read_names(store, {"u": np.array([2], np.int32), "v": np.array([1, 0], np.int32)})
    assert (names["u"].to_pylist(), names["v"].to_pylist()) == ([2], [1, 0])
    assert names["u"].type == pa.int32()
    for wrong in ("x", -1, 3):
        with pytest.raises(InputError, match=f"no vertex {wrong!r}: it has no labels, and ids 0 to 2"):
            find_ids(store, "u", [wrong])


def test_the_hash_tells_labels_apart(tmp_path: Path) -> None:
    labels: list[tuple[Any, Any]] = [
        (None, None),
        (["ab", "c", "d"], None),
        (["a", "bc", "d"], None),
        (["a", "bc", "d"], ["a", "b"]),
        ([1, 2, 3], None),
        (["1", "2", "3"], None),
        ([1, 2, 4], None),
    ]
    hashes = [hash_labels(small_store(tmp_path / f"g{i}", *each)) for i, each in enumerate(labels)]
    assert len(set(hashes)) == len(labels)
    assert hashes[1] == hash_labels(small_store(tmp_path / "again", *labels[1]))
