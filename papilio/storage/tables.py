"""Files that hold a table: Parquet, CSV or JSON, by their suffix; whole or absent, and never in the place of another.

Measurements and timelines are tables of plain rows, in Parquet.

CSV has a line of names, text in quotes, and nothing for null. JSON is an array with an object for each row. Integers
are written in full in all of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from papilio.errors import InputError, StoreError
from papilio.storage.files import atomic_file, check_file
from papilio.storage.sealed import unreadable_named

TABLE_SUFFIXES = (".parquet", ".csv", ".json")

_JSON_ROWS = 1 << 16
"""Rows that are Python objects at a time."""

TableSink = Callable[[pa.Table], None]
"""Takes the rows of a table, some after the others."""


def schema_of(types: Mapping[str, pa.DataType], metadata: Mapping[str, str] | None = None) -> pa.Schema:
    """Return the schema of columns that hold no nulls."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()], metadata)


def check_suffix(path: str | os.PathLike[str]) -> None:
    """Check that the name of a file says which kind of table it is to hold; InputError when it does not."""
    if Path(path).suffix.lower() not in TABLE_SUFFIXES:
        raise InputError(
            f"output {os.fspath(path)!r} has the suffix {Path(path).suffix!r}, which says what is written; give a name "
            f"that ends in {', '.join(TABLE_SUFFIXES[:-1])} or {TABLE_SUFFIXES[-1]}"
        )


def check_table_file(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """Return the file to write, before anything is computed; errors as :func:`check_file` and :func:`check_suffix`."""
    target = check_file(path, overwrite)
    check_suffix(path)
    return target


@contextmanager
def open_table(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    *,
    overwrite: bool = False,
    integers: tuple[str, ...] = (),
) -> Iterator[TableSink]:
    """Open a new file for the rows of a table; it is there when the block ends well, and else is not.

    The suffix says whether Parquet, CSV or JSON is written; Parquet alone keeps the metadata of the schema.
    ``integers`` are columns of integers that are text in Parquet, having too many digits. StoreError or InputError
    when the file cannot be written, or is there already.
    """
    target = check_table_file(path, overwrite)
    opened = {".parquet": _open_parquet, ".csv": _open_csv, ".json": _open_json}[target.suffix.lower()]
    try:
        with atomic_file(target, overwrite) as scratch, opened(scratch, schema, integers) as sink:
            yield sink
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(
            f"{target}: cannot be written ({reason}); make room or choose another file"
        ) from error


@contextmanager
def open_parquet(path: Path, schema: pa.Schema, **options: Any) -> Iterator[TableSink]:
    """Open a Parquet file for the rows of a table; ``options`` are those of ``pyarrow.parquet.ParquetWriter``.

    Its first row group is empty: a file without any is not readable by all versions of Arrow.
    """
    with pq.ParquetWriter(path, schema, compression="zstd", **options) as writer:
        writer.write_table(schema.empty_table())
        yield writer.write_table


def _open_parquet(
    scratch: Path, schema: pa.Schema, integers: tuple[str, ...]
) -> AbstractContextManager[TableSink]:
    return open_parquet(scratch, schema)


@contextmanager
def _open_csv(scratch: Path, schema: pa.Schema, integers: tuple[str, ...]) -> Iterator[TableSink]:
    with pa_csv.CSVWriter(scratch, schema) as writer:
        yield writer.write_table


@contextmanager
def _open_json(scratch: Path, schema: pa.Schema, integers: tuple[str, ...]) -> Iterator[TableSink]:
    with scratch.open("w", encoding="utf-8") as file:
        separator = "[\n"

        def write(table: pa.Table) -> None:
            nonlocal separator
            for start in range(0, table.num_rows, _JSON_ROWS):
                for row in table.slice(start, _JSON_ROWS).to_pylist():
                    plain: dict[str, Any] = row | {name: int(row[name]) for name in integers}
                    file.write(separator + json.dumps(plain, ensure_ascii=False))
                    separator = ",\n"

        yield write
        file.write("[]\n" if separator == "[\n" else "\n]\n")


ColumnType = Literal["int", "float", "text"]

_TYPES = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}


def write_rows(
    path: str | os.PathLike[str], columns: Mapping[str, ColumnType], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write one row per mapping to a Parquet file, whole or not at all; a missing value or None is null.

    ``columns`` gives names and types, in order; integers have 64 bits, and keys that are no columns are left out.
    StoreError when the file cannot be written.
    """
    held = list(rows)
    arrays = [pa.array([row.get(name) for row in held], _TYPES[kind]) for name, kind in columns.items()]
    try:
        with atomic_file(path) as scratch:
            pq.write_table(pa.Table.from_arrays(arrays, names=list(columns)), scratch, compression="zstd")
    except OSError as error:
        raise StoreError(f"{os.fspath(path)}: cannot be written ({error.strerror or error})") from error


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the rows of a table of :func:`write_rows`; StoreError when the file is missing or damaged."""
    with unreadable_named(os.fspath(path), "write it again"):
        rows: list[dict[str, Any]] = pq.read_table(os.fspath(path)).to_pylist()
    return rows
