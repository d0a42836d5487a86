"""Decompositions as directories of Parquet files: the number of every item, and the forest of components.

    _decomposition.json   what was decomposed and how many items and nodes there are; makes it a decomposition
    edges.parquet         of wings: columns u, v (ids), wing, node; a row for each edge, in the order of the store
    vertices.parquet      of tips: columns id, label (where the store has labels), tip, node; a row for each vertex
    nodes.parquet         columns node, level, parent (null for a root), members, size; a row for each node

A directory is written into a temporary sibling and renamed into place: it is whole or absent. The Parquet metadata of
every file holds the content hash of the graph (``papilio.graph_hash``) and what was asked (``papilio.api.decompose``,
JSON).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from papilio.storage.location import atomic_directory, check_replaceable, local_path
from papilio.storage.results import write_edge_columns
from papilio.storage.store import GraphStore
from papilio.storage.tables import schema_of

__all__ = ["DECOMPOSITION_NAME", "check_decomposition_path", "write_decomposition"]

DECOMPOSITION_NAME = "_decomposition.json"

_ROW_GROUP = 1 << 20
"""Rows of a row group; a bound of memory while writing."""

_NODE_FIELDS = (
    pa.field("node", pa.int32(), nullable=False),
    pa.field("level", pa.uint64(), nullable=False),
    pa.field("parent", pa.int32()),
    pa.field("members", pa.int64(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
)


def check_decomposition_path(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """Return the directory to write, before anything is computed; StoreError when nothing may be made there."""
    target = local_path(path)
    check_replaceable(target, overwrite, DECOMPOSITION_NAME)
    return target


def write_decomposition(
    path: str | os.PathLike[str],
    store: GraphStore,
    *,
    kind: Literal["wing", "tip"],
    layer: Literal["u", "v"] | None,
    numbers: NDArray[np.uint64],
    item_nodes: NDArray[np.int32] | None,
    nodes: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]] | None,
    overwrite: bool = False,
) -> None:
    """Write the numbers of all items, uint64 of shape (n_items,), and the forest where there is one.

    Parameters
    ----------
    layer : {"u", "v"} or None
        Of tips.
    item_nodes : ndarray of int32, shape (n_items,), host, or None
        Node of each item, -1 for none (null in the file); without it there is no such column.
    nodes : tuple of ndarray, host, or None
        Levels, parents (-1 for none), members and sizes, each of shape (n_nodes,).

    Raises
    ------
    StoreError
        When the directory cannot be written or the store not be read.
    """
    asked = {"kind": kind, "layer": layer}
    metadata = {
        "papilio.graph_hash": store.hash,
        "papilio.api.decompose": json.dumps(asked, sort_keys=True),
    }
    with atomic_directory(path, overwrite, DECOMPOSITION_NAME) as scratch:
        if kind == "wing":
            columns: dict[str, NDArray[Any]] = {"wing": numbers}
            if item_nodes is not None:
                columns["node"] = np.ma.array(item_nodes, mask=item_nodes < 0, copy=False)
            write_edge_columns(scratch / "edges.parquet", store, columns, metadata)
        else:
            assert layer is not None
            _write_vertices(scratch / "vertices.parquet", store, layer, numbers, item_nodes, metadata)
        if nodes is not None:
            _write_nodes(scratch / "nodes.parquet", nodes, metadata)
        described = {
            **asked,
            "graph_hash": store.hash,
            "items": int(numbers.size),
            "nodes": None if nodes is None else int(nodes[0].size),
        }
        (scratch / DECOMPOSITION_NAME).write_text(json.dumps(described) + "\n", encoding="utf-8")


def _write_vertices(
    path: Path,
    store: GraphStore,
    layer: Literal["u", "v"],
    numbers: NDArray[np.uint64],
    item_nodes: NDArray[np.int32] | None,
    metadata: dict[str, str],
) -> None:
    labels = store.label_column(layer)
    types = {"id": pa.int32()} | ({} if labels is None else {"label": labels.type}) | {"tip": pa.uint64()}
    schema = schema_of(types, metadata)
    if item_nodes is not None:
        schema = schema.append(pa.field("node", pa.int32()))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in _parts(numbers.size):
            columns: list[Any] = [pa.array(np.arange(rows.start, rows.stop, dtype=np.int32))]
            if labels is not None:
                columns.append(labels.slice(rows.start, rows.stop - rows.start).combine_chunks())
            columns.append(pa.array(numbers[rows]))
            if item_nodes is not None:
                columns.append(pa.array(item_nodes[rows], mask=item_nodes[rows] < 0))
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _write_nodes(
    path: Path,
    nodes: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],
    metadata: dict[str, str],
) -> None:
    levels, parents, members, sizes = nodes
    schema = pa.schema(list(_NODE_FIELDS), metadata=metadata)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        writer.write_table(schema.empty_table())
        for rows in _parts(levels.size):
            columns = [
                pa.array(np.arange(rows.start, rows.stop, dtype=np.int32)),
                pa.array(levels[rows]),
                pa.array(parents[rows], mask=parents[rows] < 0),
                pa.array(members[rows]),
                pa.array(sizes[rows]),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _parts(n: int) -> Iterator[slice]:
    """Cut rows into row groups."""
    for start in range(0, n, _ROW_GROUP):
        yield slice(start, min(start + _ROW_GROUP, n))
