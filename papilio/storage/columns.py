"""Files with a row for each vertex or each edge of a stored graph, and columns of numbers beside their names.

They are tables of :mod:`papilio.storage.tables`, written one row group at a time. Floats that are NaN are null.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.storage.file_vectors import release_pages
from papilio.storage.store import GraphStore
from papilio.storage.tables import is_parquet, open_table

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
    overwrite: bool = False,
    row_group: int = ROW_GROUP,
) -> None:
    """Write a row for each vertex of some layers, by layer, then id; ``overwrite`` and errors as :func:`open_table`.

    Columns: layer ('u' or 'v'), id (int32), label (if the store has labels of these layers), then those given, which
    have the same names and types for every layer.
    """
    labels = {layer: store.labels(layer) for layer in layers}
    fields = [pa.field("layer", pa.string(), nullable=False), pa.field("id", pa.int32(), nullable=False)]
    label_type = _common_label_type(list(labels.values()))
    if label_type is not None:
        fields.append(pa.field("label", label_type, nullable=False))
    schema = pa.schema([*fields, *_fields_of(next(iter(layers.values())))], metadata=dict(metadata))
    with open_table(path, schema, overwrite=overwrite) as write:
        for layer, columns in layers.items():
            size = next(iter(columns.values())).size
            for start in range(0, size, row_group):
                rows = slice(start, min(start + row_group, size))
                ids = pa.array(np.arange(rows.start, rows.stop, dtype=np.int32))
                arrays = [pa.repeat(layer, rows.stop - start), ids]
                if label_type is not None:
                    given = labels[layer]
                    arrays.append((ids if given is None else pa.array(given[rows])).cast(label_type))
                write(pa.Table.from_arrays(arrays + _arrays_of(columns, rows), schema=schema))


def _common_label_type(labels: list[NDArray[Any] | None]) -> pa.DataType | None:
    """Return the type of the label column: none without labels, integers if all are, else strings."""
    given = [each for each in labels if each is not None]
    if not given:
        return None
    return pa.int64() if all(each.dtype.kind == "i" for each in given) else pa.string()


def write_edge_columns(
    path: str | os.PathLike[str],
    store: GraphStore,
    columns: Columns,
    metadata: Mapping[str, str],
    *,
    overwrite: bool = False,
) -> None:
    """Write a row for each edge, in the order of the store: columns u, v (int32), then those given.

    In CSV and JSON u_label and v_label stand behind u and v, where the store has labels. The edges are read again, one
    row group at a time. ``overwrite`` and errors as :func:`open_table`; StoreError when the store cannot be read.
    """
    fields = [pa.field("u", pa.int32(), nullable=False), pa.field("v", pa.int32(), nullable=False)]
    labels = (None, None) if is_parquet(path) else (store.label_column("u"), store.label_column("v"))
    fields += [
        pa.field(f"{layer}_label", given.type, nullable=False)
        for layer, given in zip("uv", labels, strict=True)
        if given is not None
    ]
    schema = pa.schema([*fields, *_fields_of(columns)], metadata=dict(metadata))
    at = 0
    with open_table(path, schema, overwrite=overwrite) as write:
        for u, v, _ in store.batches():
            ends = [pa.array(u), pa.array(v)]
            ends += [given.take(ids) for ids, given in zip(ends, labels, strict=True) if given is not None]
            write(pa.table([*ends, *_arrays_of(columns, slice(at, at + u.size))], schema=schema))
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
