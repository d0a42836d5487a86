"""Tables in every format, in files and on streams: what is read back is what was written."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from papilio.arguments import TABLE_FORMATS, TABLE_SUFFIXES
from papilio.errors import InputError, StoreError
from papilio.storage.tables import integer_field, write_batches, write_tables

SCHEMA = pa.schema(
    [
        pa.field("label", pa.string()),
        pa.field("id", pa.uint64()),
        pa.field("share", pa.float64()),
        integer_field("count"),
        pa.field("u", pa.list_(pa.int64(), 2)),
        pa.field("v", pa.list_(pa.string())),
    ]
)

ROWS: list[dict[str, Any]] = [
    {
        "label": "a",
        "id": 2**64 - 1,
        "share": 0.1,
        "count": str(10**30 + 1),
        "u": [1, 2],
        "v": ["x", "y", "z"],
    },
    {"label": None, "id": 0, "share": None, "count": "7", "u": [-3, 4], "v": []},
    {
        "label": 'tab\tand "quotes",\nand a line',
        "id": 1,
        "share": 1e300,
        "count": "0",
        "u": [5, 6],
        "v": ["é"],
    },
    {"label": "", "id": 5, "share": -0.5, "count": "12", "u": [7, 8], "v": ["a,b"]},
]


def batches(rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield the rows, one at a time, as a batch or as a table with chunks that are empty."""
    for at, row in enumerate(rows):
        batch = pa.RecordBatch.from_pylist([row], SCHEMA)
        yield batch if at % 2 else pa.Table.from_batches([batch.slice(0, 0), batch, batch.slice(0, 0)])


def read_back(data: bytes, format: str, is_stream: bool) -> list[dict[str, Any]]:
    """The rows of a table as they were given."""
    if format in ("csv", "tsv"):
        frame = pd.read_csv(io.BytesIO(data), sep="," if format == "csv" else "\t", dtype=str, keep_default_na=False)
        assert [*frame.columns] == ["label", "id", "share", "count", "u1", "u2", "v"]
        return [
            {
                "label": row["label"] or None, "id": int(row["id"]), "share": float(row["share"] or "nan"),
                "count": row["count"], "u": [int(row["u1"]), int(row["u2"])], "v": json.loads(row["v"]),
            }
            for row in frame.to_dict("records")
        ]  # fmt: skip
    if format in ("json", "jsonl"):
        rows = json.loads(data) if format == "json" else [json.loads(line) for line in data.splitlines()]
        assert all(type(row["count"]) is int for row in rows)
        return [row | {"count": str(row["count"])} for row in rows]
    source = pa.BufferReader(data)
    if format == "parquet":
        return pq.read_table(source).to_pylist()
    reader = pyarrow.ipc.open_stream(source) if is_stream else pyarrow.ipc.open_file(source)
    return reader.read_all().to_pylist()


def plain(rows: list[dict[str, Any]], format: str) -> list[str]:
    """The rows as text that can be compared; CSV does not tell null from nothing."""
    if format in ("csv", "tsv"):
        nothing: dict[Any, Any] = {"": None}
        rows = [row | {"label": nothing.get(row["label"], row["label"])} for row in rows]
        rows = [row | {"share": None if row["share"] != row["share"] else row["share"]} for row in rows]
    return [json.dumps(row) for row in rows]


@pytest.mark.parametrize(("format", "is_stream", "n"), [*product(TABLE_FORMATS, (False, True), (0, 1, 4))])
def test_what_is_written_is_read_back(format: str, is_stream: bool, n: int, tmp_path: Path) -> None:
    if is_stream:
        stream = io.BytesIO()
        write_batches(stream, SCHEMA, batches(ROWS[:n]), format)  # type: ignore[arg-type]
        assert not stream.closed
        data = stream.getvalue()
    else:
        write_batches(tmp_path / "x", SCHEMA, batches(ROWS[:n]), format)  # type: ignore[arg-type]
        data = (tmp_path / "x").read_bytes()
    assert plain(read_back(data, format, is_stream), format) == plain(ROWS[:n], format)


@pytest.mark.parametrize("suffix", TABLE_SUFFIXES)
def test_a_suffix_is_a_format(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix.upper()}"
    write_batches(path, SCHEMA, batches(ROWS))
    format = TABLE_SUFFIXES[suffix]
    assert plain(read_back(path.read_bytes(), format, False), format) == plain(ROWS, format)


class Pipe(io.RawIOBase):
    """A stream that can do nothing but take bytes, and that tells how many it was given at each flush."""

    def __init__(self, most: int = 10**9) -> None:
        self.data, self.flushed, self.most = bytearray(), [0], most

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        raise io.UnsupportedOperation("a pipe has no place")

    def write(self, data: Any) -> int:
        if len(self.data) >= self.most:
            raise BrokenPipeError(32, "nobody reads")
        self.data += bytes(data)
        return len(data)

    def flush(self) -> None:
        self.flushed.append(len(self.data))


@pytest.mark.parametrize("format", TABLE_FORMATS)
def test_rows_reach_a_pipe_as_they_come(format: Any) -> None:
    pipe, seen = Pipe(), []

    def rows() -> Iterator[Any]:
        for batch in batches(ROWS):
            seen.append((len(pipe.data), pipe.flushed[-1]))
            yield batch

    write_batches(pipe, SCHEMA, rows(), format)
    assert all(given == flushed for given, flushed in seen)
    if format != "parquet":  # which keeps what belongs to a row group
        assert len({given for given, _ in seen}) == len(ROWS)
    assert plain(read_back(bytes(pipe.data), format, True), format) == plain(ROWS, format)


@pytest.mark.parametrize("format", TABLE_FORMATS)
def test_a_pipe_that_nobody_reads_is_no_failure_of_papilio(format: Any) -> None:
    with pytest.raises(BrokenPipeError):
        write_batches(Pipe(most=1), SCHEMA, batches(ROWS), format)


@pytest.mark.parametrize("format", TABLE_FORMATS)
def test_a_file_is_whole_or_absent(format: Any, tmp_path: Path) -> None:
    def failing() -> Iterator[Any]:
        yield from batches(ROWS)
        raise OSError("the disk is full")

    with pytest.raises(StoreError, match="the disk is full"):
        write_batches(tmp_path / "x", SCHEMA, failing(), format)
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "x").write_text("mine")
    with pytest.raises(StoreError, match="already exists"):
        write_batches(tmp_path / "x", SCHEMA, batches(ROWS), format)
    assert (tmp_path / "x").read_text() == "mine"


def test_without_a_format() -> None:
    with pytest.raises(InputError, match=r"suffix '' of output 'x': use a name ending in .parquet, .csv"):
        write_tables("x", SCHEMA, [])
    with pytest.raises(InputError, match="a stream has no suffix: choose its format, csv, tsv"):
        write_batches(io.BytesIO(), SCHEMA, [])


def test_tsv_has_quotes_only_where_text_needs_them() -> None:
    stream = io.BytesIO()
    schema = pa.schema({"a b": pa.string(), "n": pa.int64()})
    table = pa.table([["x, y", "z"], [1, None]], schema=schema)
    write_batches(stream, schema, [schema.empty_table(), table], "tsv")
    assert stream.getvalue() == b"a b\tn\nx, y\t1\nz\t\n"
