"""Files that hold a table: Parquet, CSV or JSON, by their suffix; whole or absent, and never in the place of another.

Measurements and timelines are tables of plain rows, in Parquet.

CSV has a line of names, text in quotes, and nothing for null. JSON is an array with an object for each row. Integers
are written in full in all of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
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


def write_tables(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    tables: Iterable[Any],
    *,
    overwrite: bool = False,
    integers: tuple[str, ...] = (),
) -> None:
    """Write the rows of tables, each a list of columns, to a new file: whole or not at all.

    The suffix says whether Parquet, CSV or JSON is written; Parquet alone keeps the metadata of the schema.
    ``integers`` are columns of integers that are text in Parquet, having too many digits. StoreError or InputError
    when the file cannot be written, or is there already.
    """
    target = check_table_file(path, overwrite)
    rows = (pa.table(columns, schema=schema) for columns in tables)
    try:
        with atomic_file(target, overwrite) as scratch:
            if target.suffix.lower() == ".json":
                _write_json(scratch, rows, integers)
            elif target.suffix.lower() == ".csv":
                with pa_csv.CSVWriter(scratch, schema) as writer:
                    for table in rows:
                        writer.write_table(table)
            else:
                with pq.ParquetWriter(scratch, schema, compression="zstd") as writer:
                    writer.write_table(schema.empty_table())  # older versions of Arrow need a row group
                    for table in rows:
                        writer.write_table(table)
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(
            f"{target}: cannot be written ({reason}); make room or choose another file"
        ) from error


def _write_json(scratch: Path, tables: Iterable[pa.Table], integers: tuple[str, ...]) -> None:
    with scratch.open("w", encoding="utf-8") as file:
        separator = "[\n"
        for batch in (each for table in tables for each in table.to_batches(_JSON_ROWS)):
            for row in batch.to_pylist():
                plain: dict[str, Any] = row | {name: int(row[name]) for name in integers}
                file.write(separator + json.dumps(plain, ensure_ascii=False))
                separator = ",\n"
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
    given = list(rows)
    arrays = [[row.get(name) for row in given] for name in columns]
    write_tables(
        path, pa.schema({name: _TYPES[kind] for name, kind in columns.items()}), [arrays], overwrite=True
    )


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the rows of a table of :func:`write_rows`; StoreError when the file is missing or damaged."""
    with unreadable_named(os.fspath(path), "write it again"):
        rows: list[dict[str, Any]] = pq.read_table(os.fspath(path)).to_pylist()
    return rows
