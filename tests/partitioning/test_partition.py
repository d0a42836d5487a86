"""Partitions written and read back: blocks of every kind, the manifest, its hash, and what it serves."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papilio.errors import StoreError, UnsupportedError
from papilio.motifs import Biclique, Butterfly
from papilio.partitioning import blocks as partition_blocks
from papilio.partitioning.partition import (
    PartInfo,
    PartitionManifest,
    open_partition,
    write_partition,
)
from papilio.parts import PartSizes, RootPart, WedgePart
from tests.partitioning.helpers import (
    GRAPH_HASH,
    end_block,
    manifest_of,
    part_info,
    root_part,
    start_block,
    write_wedges,
)


def assert_same(found: Any, expected: Any) -> None:
    """Compare two blocks field by field, dtypes included."""
    assert type(found) is type(expected)
    for item in fields(expected):
        a, b = getattr(found, item.name), getattr(expected, item.name)
        if isinstance(b, np.ndarray):
            assert a.dtype == b.dtype
            assert a.flags.c_contiguous
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("n_rows", [0, 1, 17, 3000])
def test_blocks_come_back(tmp_path: Path, edges: bool, n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_blocks, "_ROW_GROUP", 128)
    starts, ends = start_block(n_rows, edges=edges), end_block(n_rows, edges=edges)
    with write_partition(tmp_path / "p") as writer:
        writer.write_block("s", starts)
        writer.write_block("e", ends)
        parts = (part_info(0, ("s", "e"), WedgePart(starts, ends)),) if n_rows else ()
        writer.finish(manifest_of(*parts, per="edge" if edges else "vertex"))
    partition = open_partition(tmp_path / "p")
    assert_same(partition.read_block("s"), starts)
    assert_same(partition.read_block("e"), ends)
    if n_rows:
        part = partition.read_part(0)
        assert isinstance(part, WedgePart)
        assert part.sizes == partition.manifest.parts[0].sizes
        assert part.nbytes == partition.manifest.parts[0].nbytes


def test_root_parts_come_back(tmp_path: Path) -> None:
    part = root_part()
    with write_partition(tmp_path / "p") as writer:
        writer.write_block("r0", part)
        info = PartInfo(0, ("r0",), "u", PartSizes(2, 4, 4, 2), 2, 5, {"items": [0, 2], "work": [0, 5]}, part.nbytes)
        writer.finish(manifest_of(info, family="roots", layer="u"))
    found = open_partition(tmp_path / "p").read_part(0)
    assert isinstance(found, RootPart)
    assert found.graph == part.graph
    assert found.nbytes == part.nbytes
    assert_same(replace(found, graph=part.graph), part)


def test_manifest_comes_back_and_is_filled_in(tmp_path: Path) -> None:
    partition = write_wedges(tmp_path / "p", 4)
    manifest = partition.manifest
    assert open_partition(tmp_path / "p").manifest == manifest
    assert PartitionManifest.from_json(manifest.to_json(), "x") == manifest
    starts, ends = start_block(9), end_block(9)
    assert manifest.stored_edges == 4 * (starts.middles.size + ends.ends.size)
    assert manifest.replication == manifest.stored_edges / manifest.n_edges
    assert len(manifest.hash) == 32
    assert partition.hash == manifest.hash
    assert sorted(os.listdir(tmp_path)) == ["p"]


def test_hash_is_of_what_was_cut(tmp_path: Path) -> None:
    first = write_wedges(tmp_path / "a", 2).hash
    assert write_wedges(tmp_path / "b", 2, seconds={"cut": 3.0}, peak_bytes=7, reason="other").hash == first
    assert write_wedges(tmp_path / "c", 2, strategy="other").hash != first
    assert write_wedges(tmp_path / "d", 2, change=1).hash != first


def test_blocks_are_written_by_several_threads(tmp_path: Path) -> None:
    blocks = [(start_block(50 + i), end_block(40 + i)) for i in range(12)]
    with write_partition(tmp_path / "p") as writer:

        def write(i: int) -> PartInfo:
            writer.write_block(f"s{i}", blocks[i][0])
            writer.write_block(f"e{i}", blocks[i][1])
            return part_info(i, (f"s{i}", f"e{i}"), WedgePart(*blocks[i]))

        with ThreadPoolExecutor(4) as pool:
            writer.finish(manifest_of(*pool.map(write, range(12))))
    partition = open_partition(tmp_path / "p")
    with ThreadPoolExecutor(4) as pool:
        for i, part in enumerate(pool.map(partition.read_part, range(12))):
            assert isinstance(part, WedgePart)
            assert_same(part.starts, blocks[i][0])
            assert_same(part.ends, blocks[i][1])


def test_nothing_is_left_on_failure(tmp_path: Path) -> None:

    def interrupted() -> None:
        with write_partition(tmp_path / "p") as writer:
            writer.write_block("s", start_block(5))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []
    with pytest.raises(StoreError, match="was not finished"), write_partition(tmp_path / "p") as writer:
        writer.write_block("s", start_block(5))
    assert os.listdir(tmp_path) == []


def test_an_existing_partition_is_replaced_only_on_request(tmp_path: Path) -> None:
    write_wedges(tmp_path / "p", 1)
    with pytest.raises(StoreError, match="already exists"):
        write_wedges(tmp_path / "p", 2)
    assert len(write_wedges(tmp_path / "p", 2, overwrite=True).manifest.parts) == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="not of the same kind"):
        write_wedges(tmp_path / "other", 1, overwrite=True)


def test_manifest_must_agree_with_the_blocks(tmp_path: Path) -> None:
    starts, ends = start_block(5), end_block(5)
    good = part_info(0, ("s", "e"), WedgePart(starts, ends))
    wrong = [
        (replace(good, blocks=("s", "x")), "has blocks s, x, which do not match wedges"),
        (replace(good, blocks=("e", "s")), "has blocks e, s, which do not match wedges"),
        (replace(good, index=1), "part 0 is recorded as part 1"),
        (replace(good, n_items=4), "has 4 items and 5 starts or roots"),
        (replace(good, work=good.work + 1), "table that does not end at item 5"),
    ]

    def write(part: PartInfo) -> None:
        with write_partition(tmp_path / "p") as writer:
            writer.write_block("s", starts)
            writer.write_block("e", ends)
            writer.finish(manifest_of(part))

    for part, message in wrong:
        with pytest.raises(StoreError, match=message):
            write(part)
        assert os.listdir(tmp_path) == []


def test_what_it_serves(tmp_path: Path) -> None:
    wedges = write_wedges(tmp_path / "w", 1, per="vertex")
    wedges.require_serves(Butterfly(), "total")
    wedges.require_serves(Butterfly(), "vertex")
    with pytest.raises(UnsupportedError, match="created for counts per vertex, not per edge"):
        wedges.require_serves(Butterfly(), "edge")
    with pytest.raises(UnsupportedError, match=r"has parts for butterfly, not for biclique \(2, 3\)"):
        wedges.require_serves(Biclique(2, 3), "total")
    wedges.require_graph(GRAPH_HASH)
    with pytest.raises(UnsupportedError, match=f"partition of the graph {GRAPH_HASH}, but this graph is ff"):
        wedges.require_graph("ff" * 16)


def test_which_bicliques_it_serves(tmp_path: Path) -> None:
    part = root_part()
    with write_partition(tmp_path / "p") as writer:
        writer.write_block("r0", part)
        info = PartInfo(0, ("r0",), "u", PartSizes(2, 4, 4, 2), 2, 5, {"items": [0, 2], "work": [0, 5]}, part.nbytes)
        roots = writer.finish(manifest_of(info, family="roots", layer="u", least_p=2, least_q=3))
    roots.require_serves(Biclique(2, 3), "total")
    roots.require_serves(Biclique(4, 9), "vertex")
    for motif in (Biclique(1, 3), Biclique(2, 2), Biclique(None, 3), Biclique(2)):
        with pytest.raises(UnsupportedError, match="supports p >= 2 and q >= 3"):
            roots.require_serves(motif, "total")
    with pytest.raises(UnsupportedError, match="has parts for biclique, not for butterfly"):
        roots.require_serves(Butterfly(), "total")


def test_unknown_blocks(tmp_path: Path) -> None:
    partition = write_wedges(tmp_path / "p", 1)
    with pytest.raises(StoreError, match="no block named nowhere"):
        partition.read_block("nowhere")


def test_read_from_a_url(tmp_path: Path) -> None:
    partition = write_wedges(tmp_path / "p", 1)
    found = open_partition(f"file://{tmp_path}/p").read_part(0)
    expected = partition.read_part(0)
    assert isinstance(found, WedgePart)
    assert isinstance(expected, WedgePart)
    assert_same(found.starts, expected.starts)
