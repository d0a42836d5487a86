"""Files of rows: what readers see does not depend on how labels are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papilio.graph import RowColumn
from papilio.storage.listings import ListingWriter, write_listing
from papilio.storage.row_files import RowSizes, row_schema

QUESTION = {"graph": "abc", "motif": {"name": "maximal-clique"}, "listing": {"limit": None}}
N_ROWS, N_LABELS = 70, 40
LABELS: dict[str, pa.Array] = {
    "text": pa.array([f"vertex {number}" for number in range(N_LABELS)]),
    "long text": pa.array([f"{number} " + 40_000 * "x" for number in range(N_LABELS)]),
    "numbers": pa.array([number << 40 for number in range(N_LABELS)], pa.int64()),
    "ids": pa.array(range(N_LABELS), pa.int32()),
}
"""Labels of each kind; those of long text are too large for a dictionary of their own."""


def draw_rows(size: int | None) -> RowColumn:
    """Return rows of places in the labels; of any length there are empty ones, too."""
    random = np.random.default_rng(3)
    if size is not None:
        return random.integers(0, N_LABELS, (N_ROWS, size)).astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(random.integers(0, 9, N_ROWS))))
    return offsets, random.integers(0, N_LABELS, int(offsets[-1])).astype(np.int32)


def write_rows(path: Path, names: pa.Array, size: int | None) -> tuple[Path, list[list[Any]]]:
    """Write rows in two blocks; return the file, and the labels that it should have."""
    sizes: RowSizes = {"n": size}
    rows = draw_rows(size)
    labels = names.to_pylist()
    cut = rows if size is not None else np.split(rows[1], rows[0][1:-1])
    expected = [[labels[place] for place in row] for row in cut]
    first: RowColumn = rows[:50] if not isinstance(rows, tuple) else (rows[0][:51], rows[1][: rows[0][50]])
    rest: RowColumn = (
        rows[50:] if not isinstance(rows, tuple) else (rows[0][50:] - rows[0][50], rows[1][rows[0][50] :])
    )
    with ListingWriter(path, {"n": names}, sizes, QUESTION) as writer:
        writer.write(first)
        writer.write(rest)
    return Path(writer.shards[0].path), expected


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("kind", LABELS)
def test_every_reader_sees_the_labels(tmp_path: Path, kind: str, size: int | None) -> None:
    names = LABELS[kind]
    path, expected = write_rows(tmp_path / "x", names, size)
    table = pq.read_table(path)
    assert table.schema.equals(row_schema({"n": names}, {"n": size}, QUESTION), check_metadata=True)
    assert table.column("n").to_pylist() == expected
    assert [list(row) for row in pd.read_parquet(path)["n"]] == expected
    with duckdb.connect() as connection:
        found = connection.execute("SELECT n FROM read_parquet(?)", [str(path)]).fetchall()
    assert [row for (row,) in found] == expected
    polars = pytest.importorskip("polars", reason="needs Polars")
    assert [list(row) for row in polars.read_parquet(path)["n"]] == expected


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("kind", LABELS)
def test_text_in_rows_of_any_length_is_a_dictionary(tmp_path: Path, kind: str, size: int | None) -> None:
    path, _ = write_rows(tmp_path / "x", LABELS[kind], size)
    metadata = pq.read_metadata(path)
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(0)
        assert ("RLE_DICTIONARY" in column.encodings) == ("text" in kind and size is None)
        assert column.compression == ("ZSTD" if size else "LZ4")
    assert metadata.num_row_groups == 2


@pytest.mark.parametrize("kind", LABELS)
def test_the_same_rows_are_the_same_bytes(tmp_path: Path, kind: str) -> None:
    contents = [write_rows(tmp_path / name, LABELS[kind], None)[0].read_bytes() for name in ("a", "b")]
    assert contents[0] == contents[1]


@pytest.mark.parametrize("kind", LABELS)
def test_a_file_that_a_limit_cuts_is_written_alike(tmp_path: Path, kind: str) -> None:
    names = LABELS[kind]
    with ListingWriter(tmp_path / "x", {"n": names}, {"n": None}, QUESTION) as writer:
        writer.write(draw_rows(None))
    (shard,) = writer.shards
    whole, encodings = (
        pq.read_table(shard.path),
        pq.read_metadata(shard.path).row_group(0).column(0).encodings,
    )
    write_listing(
        tmp_path / "out", [shard], question=QUESTION, names={"n": names}, sizes={"n": None}, limit=9,
        limit_reached=True, keep_shards=True,
    )  # fmt: skip
    part = tmp_path / "out" / "part-00000.parquet"
    assert pq.read_table(part).equals(whole.slice(0, 9), check_metadata=True)
    assert set(pq.read_metadata(part).row_group(0).column(0).encodings) == set(encodings)
