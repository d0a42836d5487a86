"""Sums at ids that repeat, in memory and in files of which a slice is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import StoreError
from papilio.graph import BipartiteGraph
from papilio.partitioning.scatter import order_by_slice, scatter_add, scatter_add_ordered
from papilio.storage.answers import read_partial_shard, write_partial_shard
from papilio.storage.files import SLICE_ENTRIES, file_vector, release_pages, slices_of
from papilio.storage.labelled import LabelledGraph
from papilio.tasks.result import find_top
from tests.conftest import share_of_examples
from tests.tools.caches import cache_folder


@settings(max_examples=share_of_examples(60), deadline=None)
@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 2**64 - 1)), max_size=80))
def test_counts_are_added_at_ids_that_repeat(size: int, entries: list[tuple[int, int]]) -> None:
    chosen = [(at % size, count) for at, count in entries]
    expected = [0] * size
    for at, count in chosen:
        expected[at] = (expected[at] + count) % 2**64
    values = np.array([count for _, count in chosen], np.uint64)
    for kind in (np.int32, np.int64):
        ids = np.array([at for at, _ in chosen], kind)
        out = np.zeros(size, np.uint64)
        scatter_add(out, ids, values)
        assert out.tolist() == expected
        order, cuts = order_by_slice(ids, size, 7)
        assert sorted(order.tolist()) == list(range(ids.size))
        assert (cuts[0], cuts[-1], cuts.size) == (0, ids.size, (size + 6) // 7 + 1)
        out[:] = 0
        for number in range(cuts.size - 1):
            part = out[7 * number : 7 * number + 7]
            scatter_add_ordered(part, 7 * number, ids, values, order, cuts[number], cuts[number + 1])
        assert out.tolist() == expected


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder that is not in memory, as ``tmp_path`` may be."""
    with TemporaryDirectory(dir=cache_folder("scratch")) as folder:
        yield Path(folder)


def test_a_vector_in_a_file_leaves_memory_and_keeps_its_counts(on_disk: Path) -> None:
    def resident() -> int:
        status = Path("/proc/self/status").read_text().split("RssFile:")[1]
        return int(status.split()[0]) << 10

    before = resident()
    vector = file_vector(on_disk, 1 << 21)
    assert not list(on_disk.iterdir())
    vector[:] = 7
    assert resident() - before > 12 << 20
    release_pages(vector)
    assert resident() - before < 4 << 20
    parts = [int(part.sum()) for part in slices_of(vector, 1 << 18)]
    assert parts == [7 << 18] * 8
    assert resident() - before < 4 << 20
    assert file_vector(on_disk, 0).size == 0
    release_pages(np.ones(4))


def test_a_vector_that_the_disk_has_no_room_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot hold a vector of"):
        file_vector(tmp_path, 1 << 55)


def test_the_largest_counts_and_files_of_a_vector_of_several_slices(tmp_path: Path) -> None:
    size = 2 * SLICE_ENTRIES + 5
    vector = file_vector(tmp_path, size)
    vector[:] = np.random.default_rng(3).integers(0, 1000, size)
    vector[[7, SLICE_ENTRIES, size - 1]] = 1 << 63, 2000, 2000
    memory = np.array(vector)
    unnamed = LabelledGraph(BipartiteGraph.from_edges([0], [0]))
    expected = np.argsort(~memory, kind="stable")[:20].tolist()
    assert [entry.ids[0] for entry in find_top({"u": vector}, unnamed, 20)] == expected
    digest = write_partial_shard(tmp_path / "shard.parquet", {"u": vector})
    read = read_partial_shard(tmp_path / "shard.parquet", digest)
    assert np.array_equal(read["u"], memory)
    assert write_partial_shard(tmp_path / "again.parquet", {"u": memory}) == digest
