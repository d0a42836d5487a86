"""Tables of plain rows as Parquet: measurements, timelines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from papilio.errors import StoreError
from papilio.storage.location import atomic_file

__all__ = ["ColumnType", "read_rows", "write_rows"]

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
    try:
        rows: list[dict[str, Any]] = pq.read_table(os.fspath(path)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{os.fspath(path)}: cannot be read as Parquet ({error})") from error
    return rows
