"""Result files: counts per vertex and per edge, tables of counts, and the vector partials of single leases.

Every file is written under a temporary name and renamed. Counts are ``uint64``. Results are Parquet, CSV or JSON by
the suffix of their file (:mod:`papilio.storage.tables`); the Parquet metadata of one holds the content hash of the
graph (``papilio.graph_hash``) and the motif (``papilio.motif``, JSON).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from papilio.errors import GraphError, StoreError
from papilio.motifs import CensusClass, Motif, motif_to_json
from papilio.storage.columns import ROW_GROUP, Columns, write_edge_columns, write_vertex_columns
from papilio.storage.file_vectors import slices_of
from papilio.storage.location import atomic_file
from papilio.storage.store import GraphStore
from papilio.storage.tables import open_table

__all__ = [
    "read_partial_shard",
    "write_census",
    "write_edge_counts",
    "write_partial_shard",
    "write_table",
    "write_vertex_counts",
]

_ROW_GROUP = ROW_GROUP
"""Rows of a row group of a result file."""


_TABLE_ROWS = 1 << 14
"""Rows of a row group of a table of big integers."""


def _metadata(store: GraphStore, motif: Motif) -> dict[str, str]:
    return {
        "papilio.graph_hash": store.hash,
        "papilio.motif": json.dumps(motif_to_json(motif), sort_keys=True),
    }


def _check_counts(name: str, counts: NDArray[np.uint64], size: int) -> None:
    if counts.shape != (size,) or counts.dtype != np.uint64:
        raise GraphError(
            f"{name} has shape {counts.shape} and dtype {counts.dtype}; expected shape ({size},), uint64"
        )


def write_vertex_counts(
    path: str | os.PathLike[str],
    store: GraphStore,
    counts_u: NDArray[np.uint64],
    counts_v: NDArray[np.uint64] | None = None,
    *,
    motif: Motif,
    overwrite: bool = False,
) -> None:
    """Write counts per vertex, uint64 of shapes (n_u,) and (n_v,), layer U before V, by id.

    Columns: layer ('u' or 'v'), id (int32), label (if the store has labels), count (uint64). ``counts_v`` is None for
    a unipartite graph. GraphError for arrays of another shape or dtype; other errors as :func:`open_table`.
    """
    layers: list[tuple[Literal["u", "v"], NDArray[np.uint64]]] = [("u", counts_u)]
    _check_counts("counts_u", counts_u, store.n_u)
    if store.kind == "bipartite":
        if counts_v is None:
            raise GraphError("counts_v is missing; a bipartite graph has counts for both layers")
        _check_counts("counts_v", counts_v, store.n_v)
        layers.append(("v", counts_v))
    columns: dict[Literal["u", "v"], Columns] = {layer: {"count": counts} for layer, counts in layers}
    write_vertex_columns(
        path, store, columns, _metadata(store, motif), overwrite=overwrite, row_group=_ROW_GROUP
    )


def write_edge_counts(
    path: str | os.PathLike[str],
    store: GraphStore,
    counts: NDArray[np.uint64],
    *,
    motif: Motif,
    overwrite: bool = False,
) -> None:
    """Write counts per edge, uint64 of shape (n_edges,): columns u, v (int32) and support, in the order of the store.

    GraphError for an array of another shape or dtype; other errors as :func:`write_edge_columns`.
    """
    _check_counts("counts", counts, store.n_edges)
    write_edge_columns(path, store, {"support": counts}, _metadata(store, motif), overwrite=overwrite)


def write_table(
    path: str | os.PathLike[str],
    store: GraphStore,
    table: Mapping[tuple[int, int], int],
    *,
    motif: Motif,
    overwrite: bool = False,
) -> None:
    """Write counts by (p, q), all above 0, by p, then q; errors as :func:`open_table`.

    Columns p, q (int32), count (string, all digits; in JSON an integer) and log10 (float64) of the count.
    """
    schema = pa.schema(
        [
            pa.field("p", pa.int32(), nullable=False),
            pa.field("q", pa.int32(), nullable=False),
            pa.field("count", pa.string(), nullable=False),
            pa.field("log10", pa.float64(), nullable=False),
        ],
        metadata=_metadata(store, motif),
    )
    with open_table(path, schema, overwrite=overwrite, integers=("count",)) as write:
        rows = sorted(table.items())
        for start in range(0, len(rows), _TABLE_ROWS):
            cells = rows[start : start + _TABLE_ROWS]
            columns = [
                pa.array([p for (p, _), _ in cells], pa.int32()),
                pa.array([q for (_, q), _ in cells], pa.int32()),
                pa.array([str(count) for _, count in cells], pa.string()),
                pa.array([log10(count) for _, count in cells], pa.float64()),
            ]
            write(pa.Table.from_arrays(columns, schema=schema))


def write_census(
    path: str | os.PathLike[str],
    store: GraphStore,
    rows: Sequence[tuple[CensusClass, int, float]],
    *,
    motif: Motif,
    overwrite: bool = False,
) -> None:
    """Write the rows of a census: columns class and group (string), count (string, all digits) and share (float64).

    In JSON the counts are integers. Errors as :func:`open_table`.
    """
    types = {"class": pa.string(), "group": pa.string(), "count": pa.string(), "share": pa.float64()}
    fields = [pa.field(name, kind, nullable=False) for name, kind in types.items()]
    schema = pa.schema(fields, metadata=_metadata(store, motif))
    columns = zip(*((each.name, each.group, str(count), share) for each, count, share in rows), strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
    with open_table(path, schema, overwrite=overwrite, integers=("count",)) as write:
        write(pa.Table.from_arrays(arrays, schema=schema))


def _shard_checksum(vectors: Mapping[str, NDArray[np.uint64]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(vectors):
        digest.update(json.dumps([name, int(vectors[name].size)]).encode())
        for part in slices_of(vectors[name]):
            digest.update(np.ascontiguousarray(part, dtype="<u8").data)
    return digest.hexdigest()


def write_partial_shard(path: str | os.PathLike[str], vectors: Mapping[str, NDArray[np.uint64]]) -> str:
    """Write the vectors of one partial, uint64 of shape (k,), and return their checksum, 32 hexadecimal digits.

    GraphError for vectors that are not one-dimensional uint64.
    """
    for name, vector in vectors.items():
        _check_counts(name, vector, vector.size)
    sizes = {name: int(vectors[name].size) for name in sorted(vectors)}
    schema = pa.schema(
        [pa.field("value", pa.uint64(), nullable=False)], metadata={"papilio.vectors": json.dumps(sizes)}
    )
    with (
        atomic_file(path) as scratch,
        pq.ParquetWriter(scratch, schema, compression="zstd", use_dictionary=False) as writer,
    ):
        for part in _parts(vectors):
            writer.write_table(pa.Table.from_arrays([pa.array(part)], schema=schema))
    return _shard_checksum(vectors)


def _parts(vectors: Mapping[str, NDArray[np.uint64]]) -> Iterator[NDArray[np.uint64]]:
    yield np.empty(0, np.uint64)  # a file without any row group is not readable by all versions of Arrow
    for name in sorted(vectors):
        yield from slices_of(vectors[name], _ROW_GROUP)


def read_partial_shard(path: str | os.PathLike[str], checksum: str) -> dict[str, NDArray[np.uint64]]:
    """Read what :func:`write_partial_shard` wrote.

    StoreError when the file is missing, unreadable, or its content does not have ``checksum``.
    """
    name = os.fspath(path)
    try:
        with pq.ParquetFile(name) as file:
            sizes = json.loads(file.schema_arrow.metadata[b"papilio.vectors"])
            values, at = np.empty(file.metadata.num_rows, np.uint64), 0
            for group in range(file.num_row_groups):
                part = file.read_row_group(group).column("value").to_numpy()
                values[at : at + part.size] = part
                at += part.size
    except FileNotFoundError as error:
        raise StoreError(f"{name} does not exist; run the lease again") from error
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{name} is not a readable shard ({error!r}); run the lease again") from error
    bounds = np.cumsum([0, *sizes.values()])
    vectors = {key: values[bounds[i] : bounds[i + 1]] for i, key in enumerate(sizes)}
    found = _shard_checksum(vectors)
    if found != checksum or values.size != bounds[-1]:
        raise StoreError(f"{name} has checksum {found}; expected {checksum}: run the lease again")
    return vectors
