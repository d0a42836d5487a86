"""Directories that are not, or no longer, the partition that was written: each gives a clear error."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papilio.errors import StoreError
from papilio.graph import UnipartiteGraph
from papilio.partitioning.partition import FORMAT_VERSION, PartitionManifest, open_partition, write_partition
from papilio.parts import CliquePart, MaximalPart, RootPart
from tests.partitioning.helpers import manifest_of, root_part, write_wedges
from tests.tools.tampering import replace_sealed, reseal

ENTRIES = "blocks/s0/entries.parquet"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A partition of two parts."""
    write_wedges(tmp_path / "p", 2)
    return tmp_path / "p"


def change(path: Path, **values: Any) -> None:
    """Change, or with ``...`` remove, keys of the manifest, with the digest of what it says then."""
    reseal(path / "partition.json", **values)


def replace_file(path: Path, name: str, table: pa.Table, block: str = "s0") -> None:
    """Replace a file of a block, and record its new size and digest so that only the content is wrong."""
    file = path / "blocks" / block / name
    digest, size = replace_sealed(file, table), file.stat().st_size
    manifest = PartitionManifest.from_json((path / "partition.json").read_text(), "partition.json")
    blocks = [
        replace(each, files=[replace(f, n_bytes=size, digest=digest) if f.name == name else f for f in each.files])
        if each.name == block
        else each
        for each in manifest.blocks
    ]
    (path / "partition.json").write_text(replace(manifest, blocks=tuple(blocks)).to_json())


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere has no partition.json: it is not a partition"):
        open_partition(tmp_path / "nowhere")


def test_a_file_and_a_foreign_directory(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("0 1\n")
    with pytest.raises(StoreError, match=r"has no partition.json: it is not a partition"):
        open_partition(tmp_path / "x")
    (tmp_path / "d").mkdir()
    with pytest.raises(StoreError, match=r"has no partition.json: it is not a partition"):
        open_partition(tmp_path / "d")


@pytest.mark.parametrize("text", ["", "{", "\xff"])
def test_manifest_is_not_json(path: Path, text: str) -> None:
    (path / "partition.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match=r"partition.json is not valid JSON"):
        open_partition(path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "papilio-graph", "format_version": 1}'])
def test_manifest_of_something_else(path: Path, text: str) -> None:
    (path / "partition.json").write_text(text)
    with pytest.raises(StoreError, match="does not describe a partition"):
        open_partition(path)


def test_newer_version(path: Path) -> None:
    change(path, format_version=FORMAT_VERSION + 1)
    with pytest.raises(StoreError, match=f"reads up to {FORMAT_VERSION}: upgrade it"):
        open_partition(path)
    change(path, format_version="1")
    with pytest.raises(StoreError, match="format_version '1'; expected an integer"):
        open_partition(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"parts": ...}, "lacks parts"),
        ({"n_edges": -1}, "n_edges is -1"),
        ({"n_u": "3"}, "n_u is '3'"),
        ({"family": "stars"}, "family is 'stars'"),
        ({"per": "face"}, "per is 'face'"),
        ({"layer": "w"}, "layer is 'w'"),
        ({"hash": "12"}, "hash is '12'"),
        ({"parts": [3]}, r"parts\[0\] is 3; expected an object"),
        ({"parts": [{"index": 0}]}, r"parts\[0\] lacks blocks, layer, n_items"),
        ({"blocks": {}}, "blocks is {}; expected a list"),
        ({"blocks": []}, "which do not match wedges"),
        ({"blocks": [{"name": "s0"}]}, r"blocks\[0\] lacks edges, files, kind, layer"),
        (
            {"blocks": [{"name": "../x", "kind": "starts", "layer": "u", "edges": False, "files": []}]},
            "a file outside the partition",
        ),
    ],
)
def test_manifest_breaks_an_invariant(path: Path, values: dict[str, Any], message: str) -> None:
    change(path, **values)
    with pytest.raises(StoreError, match=message):
        open_partition(path)


def test_manifest_changed_after_it_was_written(path: Path) -> None:
    """Whatever says what to count: a part less, other numbers of items, blocks of other parts."""
    manifest = open_partition(path).manifest
    parts = json.loads(manifest.to_json())["parts"]
    change(path, parts=parts[:1])
    with pytest.raises(StoreError, match=f"hash is {manifest.hash}, but the content has .*create it again"):
        open_partition(path)
    change(path, parts=parts, reason="told otherwise", seconds={})
    assert open_partition(path).hash == manifest.hash
    change(path, parts=[parts[0], {**parts[1], "blocks": parts[0]["blocks"]}])
    with pytest.raises(StoreError, match="2 parts have 1 different blocks; some would be counted twice"):
        open_partition(path)


def test_missing_and_truncated_files(path: Path) -> None:
    data = (path / ENTRIES).read_bytes()
    (path / ENTRIES).unlink()
    with pytest.raises(StoreError, match=f"{ENTRIES} is missing; the partition is incomplete"):
        open_partition(path)
    (path / ENTRIES).write_bytes(data[:-10])
    with pytest.raises(StoreError, match=f"has {len(data) - 10} bytes, but the manifest has {len(data)}"):
        open_partition(path)


def test_files_that_vanish_later(path: Path) -> None:
    partition = open_partition(path)
    (path / ENTRIES).unlink()
    with pytest.raises(StoreError, match=r"entries.parquet is missing"):
        partition.read_block("s0")


def test_a_flipped_bit(path: Path) -> None:
    partition = open_partition(path)
    data = bytearray((path / ENTRIES).read_bytes())
    values = partition.read_block("s0").middles.tobytes()
    at = bytes(data).index(values)
    data[at + 5] ^= 4
    (path / ENTRIES).write_bytes(data)
    with pytest.raises(StoreError, match=r"entries.parquet, row group 0 has digest .* it was changed"):
        open_partition(path).read_block("s0")


def test_a_flipped_bit_of_an_id_is_seen_by_the_fold(path: Path) -> None:
    """Counts at other vertices have the same sum."""
    partition = open_partition(path)
    name = path / "blocks/s0/starts.parquet"
    assert partition.read_vector_ids(0, "vertex")["u"].size > 0
    data = bytearray(name.read_bytes())
    ids = partition.read_block("s0").ids.tobytes()
    data[bytes(data).index(ids)] ^= 1
    name.write_bytes(data)
    with pytest.raises(StoreError, match=r"starts.parquet, row group 0 has digest .* it was changed"):
        partition.read_vector_ids(0, "vertex")


def test_not_parquet(path: Path) -> None:
    size = (path / ENTRIES).stat().st_size
    (path / ENTRIES).write_bytes(b"x" * size)
    with pytest.raises(StoreError, match=r"entries.parquet has digest .*create it again"):
        open_partition(path).read_block("s0")


def test_other_columns_and_rows(path: Path) -> None:
    table = pq.read_table(path / ENTRIES)
    replace_file(path, "entries.parquet", table.slice(1))
    with pytest.raises(StoreError, match=rf"holds {table.num_rows - 1} rows of middle int32"):
        open_partition(path).read_block("s0")
    replace_file(path, "entries.parquet", table.rename_columns(["edge"]))
    with pytest.raises(StoreError, match=rf"holds {table.num_rows} rows of edge int32"):
        open_partition(path).read_block("s0")


def test_ranges_of_a_file_that_were_exchanged(path: Path) -> None:
    """Sums of words are the same: 800,125 butterflies became 821,804."""
    data = (path / ENTRIES).read_bytes()
    at = data.index(open_partition(path).read_block("s0").middles.tobytes())
    for size in (4, 8, 16):
        for first in range(at, at + 40 - 2 * size, 4):
            second = first + size
            swapped = data[first:second], data[second : second + size]
            if swapped[0] != swapped[1]:
                (path / ENTRIES).write_bytes(data[:first] + swapped[1] + swapped[0] + data[second + size :])
                with pytest.raises(StoreError, match=r"entries.parquet, row group 0 has digest"):
                    open_partition(path).read_block("s0")


def test_files_of_another_block_and_of_another_partition(path: Path, tmp_path: Path) -> None:
    write_wedges(tmp_path / "q", 2, change=1)
    data = (path / ENTRIES).read_bytes()
    for other in (tmp_path / "q" / ENTRIES, path / "blocks/s0/starts.parquet"):
        (path / ENTRIES).write_bytes(other.read_bytes()[: len(data)].ljust(len(data), b"\0"))
        with pytest.raises(StoreError, match=r"entries.parquet.* has digest"):
            open_partition(path).read_block("s0")


@pytest.mark.parametrize(
    ("block", "name", "column", "at", "value", "message"),
    [
        ("e0", "entries", "end", 3, 7, "holds 0 to 7; expected 0 to 6"),
        ("e0", "entries", "end", 3, -1, "holds -1 to 6; expected 0 to 6"),
        ("e0", "entries", "end", 3, 2**31 - 1, "holds 0 to 2147483647; expected 0 to 6"),
        ("s0", "starts", "stop", 3, 0, "the column stop does not rise at row 3"),
        ("s0", "starts", "stop", 0, -5, "the column stop does not rise at row 0"),
        ("s0", "starts", "stop", 8, 10**12, "rows end at entry 1000000000000 of"),
        ("e0", "middles", "rank", 3, 1, "the column rank does not rise at row 2"),
    ],
)
def test_places_that_no_kernel_may_follow(
    path: Path, block: str, name: str, column: str, at: int, value: int, message: str
) -> None:
    """Digests find what was changed; a partition that was written so must not read beyond its arrays either."""
    table = pq.read_table(path / "blocks" / block / f"{name}.parquet")
    values = table.column(column).to_numpy().copy()
    values[at] = value
    place = table.schema.get_field_index(column)
    field = table.schema.field(column)
    replace_file(path, f"{name}.parquet", table.set_column(place, field, pa.array(values, field.type)), block)
    with pytest.raises(StoreError, match=message):
        open_partition(path).read_block(block)


@pytest.mark.parametrize("kind", [RootPart, MaximalPart, CliquePart])
def test_places_of_parts_of_roots(kind: type[Any], tmp_path: Path) -> None:
    roots = root_part()
    part: Any = roots
    if kind is MaximalPart:
        part = MaximalPart(*(getattr(roots, f.name) for f in fields(roots)), excluded=np.array([1], np.int32))
    if kind is CliquePart:
        graph = UnipartiteGraph.from_edges([0, 0, 1], [1, 2, 2])
        none = np.empty(0, np.int64)
        part = CliquePart(graph, roots.ids_u, none, roots.roots, roots.work)
    wrong: list[Any] = [
        replace(part, roots=np.array([1, 3], np.int32)),
        replace(part, roots=np.array([-1, 0], np.int32)),
        replace(part, graph=with_ends(part.graph, u=9)),
        replace(part, graph=with_ends(part.graph, v=-1)),
    ]
    if kind is MaximalPart:
        wrong.append(replace(part, excluded=np.array([4], np.int32)))
    for number, each in enumerate([part, *wrong]):
        with write_partition(tmp_path / str(number)) as writer:
            writer.write_block("r0", each)
            writer.finish(manifest_of())
        partition = open_partition(tmp_path / str(number))
        if number == 0:
            assert type(partition.read_block("r0")) is kind
            continue
        with pytest.raises(StoreError, match="; expected 0 to 2"):
            partition.read_block("r0")


def with_ends(graph: Any, **last: int) -> Any:
    """Return a graph whose last edge has another end."""
    changed = copy(graph)
    for name, value in last.items():
        ends = getattr(graph, name).copy()
        ends[-1] = value
        object.__setattr__(changed, name, ends)
    return changed


def test_a_partition_of_version_1(path: Path) -> None:
    change(path, format_version=1)
    with pytest.raises(StoreError, match=r"format_version 1, without digests .* create it again"):
        open_partition(path)
