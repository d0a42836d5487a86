"""Parquet files with a row for each vertex or each edge of a stored graph, and columns of numbers beside their names.

Every file is written under a temporary name and renamed, one row group in memory at a time. Numbers of floats that are
NaN are null.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from papilio.storage.file_vectors import release_pages
from papilio.storage.location import atomic_file
from papilio.storage.store import GraphStore

__all__ = ["ROW_GROUP", "Columns", "write_edge_columns", "write_vertex_columns"]

ROW_GROUP = 1 << 20
"""Rows of a row group; a bound of memory while writing."""

Columns = Mapping[str, NDArray[Any]]
"""Numbers by the name of their column, all of one length."""


def write_vertex_columns(
    path: str | os.PathLike[str],
    store: GraphStore,
    layers: Mapping[Literal["u", "v"], Columns],
    metadata: Mapping[str, str],
    *,
    row_group: int = ROW_GROUP,
) -> None:
    """Write a row for each vertex of some layers, by layer, then id.

    Columns: layer ('u' or 'v'), id (int32), label (if the store has labels of these layers), then those given.

    Parameters
    ----------
    path : path-like
        A local file to write or replace.
    store : GraphStore
        Where the labels come from.
    layers : mapping of {"u", "v"} to Columns
        At least one, all with the same names and types.
    metadata : mapping of str to str
        Of the file.
    row_group : int
        Rows of a row group.

    Raises
    ------
    StoreError
        When the file cannot be written.
    """
    labels = {layer: store.labels(layer) for layer in layers}
    fields = [pa.field("layer", pa.string(), nullable=False), pa.field("id", pa.int32(), nullable=False)]
    label_type = _common_label_type(list(labels.values()))
    if label_type is not None:
        fields.append(pa.field("label", label_type, nullable=False))
    schema = pa.schema([*fields, *_fields_of(next(iter(layers.values())))], metadata=dict(metadata))
    with atomic_file(path) as scratch, pq.ParquetWriter(scratch, schema, compression="zstd") as writer:
        for layer, columns in layers.items():
            size = next(iter(columns.values())).size
            for start in range(0, size, row_group):
                rows = slice(start, min(start + row_group, size))
                ids = pa.array(np.arange(rows.start, rows.stop, dtype=np.int32))
                arrays = [pa.repeat(layer, rows.stop - start), ids]
                if label_type is not None:
                    given = labels[layer]
                    arrays.append((ids if given is None else pa.array(given[rows])).cast(label_type))
                writer.write_table(pa.Table.from_arrays(arrays + _arrays_of(columns, rows), schema=schema))


def _common_label_type(labels: list[NDArray[Any] | None]) -> pa.DataType | None:
    """Return the type of the label column: none without labels, integers if all are, else strings."""
    given = [each for each in labels if each is not None]
    if not given:
        return None
    return pa.int64() if all(each.dtype.kind == "i" for each in given) else pa.string()


def write_edge_columns(
    path: str | os.PathLike[str], store: GraphStore, columns: Columns, metadata: Mapping[str, str]
) -> None:
    """Write a row for each edge, in the order of the store: columns u, v (int32), then those given.

    Parameters
    ----------
    path : path-like
        A local file to write or replace.
    store : GraphStore
        Its edges are read again, one row group at a time.
    columns : Columns
        Of as many rows as the store has edges.
    metadata : mapping of str to str
        Of the file.

    Raises
    ------
    StoreError
        When the file cannot be written or the store not be read.
    """
    ends = [pa.field("u", pa.int32(), nullable=False), pa.field("v", pa.int32(), nullable=False)]
    schema = pa.schema([*ends, *_fields_of(columns)], metadata=dict(metadata))
    at = 0
    with atomic_file(path) as scratch, pq.ParquetWriter(scratch, schema, compression="zstd") as writer:
        for u, v, _ in store.batches():
            arrays = [pa.array(u), pa.array(v), *_arrays_of(columns, slice(at, at + u.size))]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            at += u.size


def _fields_of(columns: Columns) -> list[pa.Field]:
    return [
        pa.field(name, pa.from_numpy_dtype(values.dtype), nullable=values.dtype.kind == "f")
        for name, values in columns.items()
    ]


def _arrays_of(columns: Columns, rows: slice) -> list[pa.Array]:
    """Return these rows of the columns, as Arrow has them; the pages of those in files are released."""
    arrays = []
    for values in columns.values():
        arrays.append(pa.array(values[rows], from_pandas=values.dtype.kind == "f"))
        release_pages(values)
    return arrays
