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
from papilio.storage.listings import ListingWriter
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


@pytest.mark.parametrize("kind", LABELS)
def test_the_same_rows_are_the_same_bytes(tmp_path: Path, kind: str) -> None:
    contents = [write_rows(tmp_path / name, LABELS[kind], None)[0].read_bytes() for name in ("a", "b")]
    assert contents[0] == contents[1]
