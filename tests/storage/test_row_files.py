"""Files of rows: what every reader sees is what was written, whatever the labels and the rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.graph import RowColumn
from papilio.storage.listings import (
    ListingWriter,
    RowSizes,
    check_listing_shards,
    choose_rows,
    row_schema,
)
from tests.conftest import share_of_examples

QUESTION = {"graph": "abc", "motif": {"name": "maximal-clique"}, "listing": {"limit": None}}
LABELS: dict[str, pa.Array] = {
    "text": pa.array(["", "é", *(f"vertex {number}" for number in range(70_000))]),
    "numbers": pa.array(np.arange(70_000, dtype=np.int64) * -(1 << 45)),
    "ids": pa.array(np.arange(70_000, dtype=np.int32)),
}


def write_blocks(path: Path, names: dict[str, pa.Array], sizes: RowSizes, *blocks: Any) -> Path:
    """Write blocks of rows to one file."""
    with ListingWriter(path, names, sizes, QUESTION) as writer:
        for block in blocks:
            writer.write(*block)
    return Path(writer.shards[0].path)


def ragged(rows: list[list[int]]) -> RowColumn:
    """Return rows of places as a column."""
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
    return offsets, np.array([place for row in rows for place in row], np.int32)


def draw_rows(n_rows: int, n_labels: int, longest: int) -> list[list[int]]:
    """Return rows of any length up to the longest, empty ones among them."""
    random = np.random.default_rng(n_labels)
    return [random.integers(0, n_labels, size).tolist() for size in random.integers(0, longest + 1, n_rows)]


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("size", [None, 3])
def test_every_reader_sees_the_labels(tmp_path: Path, kind: str, size: int | None) -> None:
    names = LABELS[kind]
    labels = names.slice(0, 500).to_pylist()
    rows = draw_rows(90, 500, 9) if size is None else np.random.default_rng(1).integers(0, 500, (90, 3)).tolist()
    make: Any = ragged if size is None else lambda rows: np.array(rows, np.int32)
    path = write_blocks(tmp_path / "x", {"n": names}, {"n": size}, *([make(rows[at : at + 30])] for at in (0, 30, 60)))
    expected = [[labels[place] for place in row] for row in rows]
    table = pq.read_table(path)
    assert table.schema.equals(row_schema({"n": names}, {"n": size}, QUESTION), check_metadata=True)
    assert table.column("n").to_pylist() == expected
    assert [list(row) for row in pd.read_parquet(path)["n"]] == expected
    with duckdb.connect() as connection:
        found = connection.execute("SELECT n FROM read_parquet(?)", [str(path)]).fetchall()
        assert [row for (row,) in found] == expected
        (counted,) = connection.execute("SELECT sum(len(n)) FROM read_parquet(?)", [str(path)]).fetchall()
    assert counted == (sum(map(len, rows)),)
    polars = pytest.importorskip("polars", reason="needs Polars")
    assert [list(row) for row in polars.read_parquet(path)["n"]] == expected


@pytest.mark.parametrize("kind", LABELS)
def test_any_rows_come_back(tmp_path: Path, kind: str) -> None:
    names = {"u": LABELS[kind], "v": LABELS["ids"]}
    places = st.sampled_from([0, 1, 2, 7, 255, 256, 257, 4095, 4096, 65_535, 65_536, 69_999])
    rows = st.lists(st.tuples(st.lists(places, max_size=9), st.lists(places, max_size=9)), min_size=1, max_size=30)

    @settings(max_examples=share_of_examples(25), deadline=None, derandomize=True, database=None)
    @given(st.lists(rows, min_size=1, max_size=3))
    def run(blocks: list[list[tuple[list[int], list[int]]]]) -> None:
        columns = [[ragged(list(side)) for side in zip(*block, strict=True)] for block in blocks]
        path = write_blocks(tmp_path / "x", names, {"u": None, "v": None}, *columns)
        with pq.ParquetFile(path) as file:
            assert file.num_row_groups == len(blocks)
            for number, block in enumerate(blocks):
                for layer, side in (("u", 0), ("v", 1)):
                    found = file.read_row_group(number, columns=[layer]).column(layer)
                    expected = [names[layer].take(pa.array(row[side], pa.int32())).to_pylist() for row in block]
                    assert found.to_pylist() == expected

    run()


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("n_labels", [1, 2, 256, 257, 4096, 4097, 65_536, 65_537])
def test_numbers_of_every_width_come_back(tmp_path: Path, kind: str, n_labels: int) -> None:
    names = LABELS[kind].slice(3, n_labels)
    every = np.concatenate([np.random.default_rng(2).permutation(n_labels)] * (1 + 70_000 // n_labels)).astype(np.int32)
    offsets = np.append(np.arange(0, every.size, 7, dtype=np.int64), every.size)
    path = write_blocks(tmp_path / "x", {"n": names}, {"n": None}, [(offsets, every)])
    found = pq.read_table(path).column("n").combine_chunks()
    assert found.offsets.to_numpy().tolist() == offsets.tolist()
    assert found.values.equals(names.take(pa.array(every)))


def test_the_metadata_add_up(tmp_path: Path) -> None:
    names = {"u": LABELS["text"], "v": LABELS["numbers"]}
    blocks = [[ragged(draw_rows(40, 300, 5)), ragged(draw_rows(40, 200, 7))] for _ in range(20)]
    path = write_blocks(tmp_path / "x", names, {"u": None, "v": None}, *blocks)
    metadata = pq.read_metadata(path)
    assert (metadata.num_rows, metadata.num_row_groups, metadata.created_by[:15]) == (
        800,
        20,
        "papilio version",
    )
    end = 4
    for number in range(20):
        group = metadata.row_group(number)
        columns = [group.column(place) for place in range(group.num_columns)]
        assert group.total_byte_size == sum(column.total_uncompressed_size for column in columns)
        for column, block in zip(columns, blocks[number], strict=True):
            assert column.num_values == sum(max(1, length) for length in np.diff(block[0]))
            assert column.dictionary_page_offset == end
            end += column.total_compressed_size
    assert ds.dataset(path).count_rows() == 800


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    rows = ragged(draw_rows(50, 60_000, 9))
    contents = [write_blocks(tmp_path / name, {"n": LABELS["text"]}, {"n": None}, [rows]).read_bytes() for name in "ab"]
    assert contents[0] == contents[1]


@pytest.mark.parametrize("kind", LABELS)
def test_every_reader_sees_pairs_and_their_numbers(tmp_path: Path, kind: str) -> None:
    """Blocks of few and of many labels, whose numbers have 8, 16 and 32 bits."""
    names, random = LABELS[kind], np.random.default_rng(5)
    numbers = {"common": "int32", "weight": "double"}
    blocks = []
    for rows, labels, most in ((1, 1, 2), (500, 9, 70_000), (3000, 70_000, 3), (70_000, 300, 300)):
        pairs, common = random.integers(0, labels, (rows, 2)), random.integers(1, most, rows)
        blocks.append((pairs.astype(np.int32), common.astype(np.int32), random.random(rows)))
    with ListingWriter(tmp_path / "x", {"u": names}, {"u": 2}, QUESTION, numbers) as writer:
        for block in blocks:
            writer.write(*block)
    path = writer.shards[0].path
    pairs, common, weights = (np.concatenate(each) for each in zip(*blocks, strict=True))
    expected = {
        "source": names.take(pa.array(pairs[:, 0])).to_pylist(),
        "target": names.take(pa.array(pairs[:, 1])).to_pylist(),
        "common": common.tolist(),
        "weight": weights.tolist(),
    }
    table = pq.read_table(path)
    assert table.schema.equals(row_schema({"u": names}, {"u": 2}, QUESTION, numbers), check_metadata=True)
    assert table.to_pydict() == expected
    assert pd.read_parquet(path).to_dict("list") == expected
    with duckdb.connect() as connection:
        found = connection.execute("SELECT * FROM read_parquet(?)", [path]).fetchnumpy()
    assert {name: column.tolist() for name, column in found.items()} == expected
    odd = choose_rows(
        writer.shards, tmp_path, "common", "half", lambda values: (values / 2, values % 2 == 1), threads=2
    )
    kept = pq.read_table(odd[0].path)
    assert odd[0].rows == kept.num_rows == int((common % 2).sum())
    assert kept.schema.names == [*expected, "half"]
    assert kept.column("half").to_pylist() == (common[common % 2 == 1] / 2).tolist()
    assert kept.column("target").to_pylist() == [
        label for label, n in zip(expected["target"], expected["common"], strict=True) if n % 2
    ]
    check_listing_shards(odd)
    assert choose_rows(writer.shards, tmp_path, "common", "x", lambda of: (of / 2, of < 0), threads=1) == []
