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
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from papilio.storage.location import atomic_directory, check_replaceable, local_path
from papilio.storage.results import write_columns, write_edge_columns, write_vertex_columns
from papilio.storage.store import GraphStore

__all__ = ["DECOMPOSITION_NAME", "check_decomposition_path", "write_decomposition"]

DECOMPOSITION_NAME = "_decomposition.json"


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
    metadata = {"papilio.graph_hash": store.hash, "papilio.api.decompose": json.dumps(asked, sort_keys=True)}
    with atomic_directory(path, overwrite, DECOMPOSITION_NAME) as scratch:
        columns: dict[str, NDArray[Any]] = {kind: numbers}
        if item_nodes is not None:
            columns["node"] = _known(item_nodes)
        if layer is None:
            write_edge_columns(scratch / "edges.parquet", store, columns, metadata)
        else:
            write_vertex_columns(
                scratch / "vertices.parquet", store, {layer: columns}, metadata, names_layer=False
            )
        if nodes is not None:
            _write_nodes(scratch / "nodes.parquet", nodes, metadata)
        described = {
            **asked,
            "graph_hash": store.hash,
            "items": int(numbers.size),
            "nodes": None if nodes is None else int(nodes[0].size),
        }
        (scratch / DECOMPOSITION_NAME).write_text(json.dumps(described) + "\n", encoding="utf-8")


def _write_nodes(
    path: Path,
    nodes: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],
    metadata: dict[str, str],
) -> None:
    levels, parents, members, sizes = nodes
    columns: dict[str, NDArray[Any]] = {
        "node": np.arange(levels.size, dtype=np.int32),
        "level": levels,
        "parent": _known(parents),
        "members": members,
        "size": sizes,
    }
    write_columns(path, columns, metadata)


def _known(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Mask what is -1, for none."""
    return np.ma.array(ids, mask=ids < 0, copy=False)
