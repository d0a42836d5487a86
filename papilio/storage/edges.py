"""Parquet edge lists: how the files ``edges/part-*.parquet`` are written and their row groups found and read.

Columns ``u``, ``v`` (int32) and, for signed graphs, ``sign`` (int8), sorted by (u, v). Sorted ids have small
differences, so both columns are delta-encoded and not compressed: measured on 8 million R-MAT-like edges,
2.8 bytes per edge against 3.2 for plain zstd, read at 285 against 129 million edges per second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio.errors import StoreError
from papilio.storage.manifest import EdgeFile, Manifest

__all__ = [
    "ROW_GROUP_EDGES",
    "EdgeBatch",
    "EdgeFilesWriter",
    "RowGroup",
    "list_row_groups",
    "read_row_groups",
]

ROW_GROUP_EDGES = 1 << 20
"""Edges of a full row group: the unit that reading a range of u touches."""

FILE_EDGES = 64 * ROW_GROUP_EDGES
"""Edges of a full file: about 200 to 500 MB, and a footer that is read in a millisecond."""

EdgeBatch = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int8] | None]
"""u, v and sign (None for unsigned) of consecutive edges, each of shape (k,), host."""


def edge_schema(signed: bool) -> pa.Schema:
    fields = [pa.field("u", pa.int32(), nullable=False), pa.field("v", pa.int32(), nullable=False)]
    return pa.schema(fields + ([pa.field("sign", pa.int8(), nullable=False)] if signed else []))


class EdgeFilesWriter:
    """Writes consecutive edges into ``directory/edges/part-*.parquet``, in full row groups."""

    def __init__(self, directory: Path, signed: bool) -> None:
        self._directory = directory
        self._schema = edge_schema(signed)
        self._columns = [
            np.empty(ROW_GROUP_EDGES, np.int8 if f.name == "sign" else np.int32) for f in self._schema
        ]
        self._filled = 0
        self._writer: pq.ParquetWriter | None = None
        self._rows_in_file = 0
        self.files: list[EdgeFile] = []
        (directory / "edges").mkdir()

    def append(self, columns: list[NDArray[np.int32] | NDArray[np.int8]]) -> None:
        """Add edges: one array of shape (k,) per column of the schema."""
        start, size = 0, columns[0].size
        while start < size:
            count = min(size - start, ROW_GROUP_EDGES - self._filled)
            for buffer, column in zip(self._columns, columns, strict=True):
                buffer[self._filled : self._filled + count] = column[start : start + count]
            self._filled += count
            start += count
            if self._filled == ROW_GROUP_EDGES:
                self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._directory / self._next_name(),
                self._schema,
                compression={"u": "none", "v": "none", "sign": "snappy"},
                use_dictionary=["sign"],
                column_encoding={"u": "DELTA_BINARY_PACKED", "v": "DELTA_BINARY_PACKED"},
                write_statistics=True,
            )
        arrays = [pa.array(column[: self._filled]) for column in self._columns]
        self._writer.write_table(
            pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=ROW_GROUP_EDGES
        )
        self._rows_in_file += self._filled
        self._filled = 0
        if self._rows_in_file >= FILE_EDGES:
            self._end_file()

    def _next_name(self) -> str:
        return f"edges/part-{len(self.files):05d}.parquet"

    def _end_file(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        name = self._next_name()
        self.files.append(EdgeFile(name, self._rows_in_file, (self._directory / name).stat().st_size))
        self._writer = None
        self._rows_in_file = 0

    def close(self) -> None:
        """Write what is buffered and end the last file."""
        if self._filled or not self.files:
            self._flush()
        self._end_file()

    def abort(self) -> None:
        """Close the open file without finishing the list."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


@dataclass(frozen=True)
class RowGroup:
    """One row group of a store: position, size and range of u."""

    file: str  # path within the store
    index: int  # number of the row group in its file
    first_edge: int
    n_edges: int
    u_min: int  # from the Parquet statistics
    u_max: int


def _open_file(filesystem: arrow_fs.FileSystem, root: str, name: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(filesystem.open_input_file(f"{root}/{name}"))
    except FileNotFoundError as error:
        raise StoreError(f"{root}/{name} is missing; the store is corrupt, write it again") from error
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"{root}/{name} is not readable as Parquet ({error}); write the store again"
        ) from error


def list_row_groups(filesystem: arrow_fs.FileSystem, root: str, manifest: Manifest) -> tuple[RowGroup, ...]:
    """Read the footers of all edge files of the store at ``root``.

    StoreError when a file is missing, unreadable, or disagrees with the manifest in columns or rows.
    """
    groups: list[RowGroup] = []
    first_edge = 0
    for entry in manifest.edge_files:
        with _open_file(filesystem, root, entry.name) as file:
            expected = edge_schema(manifest.signed)
            if file.schema_arrow.names != expected.names or file.schema_arrow.types != expected.types:
                found = ", ".join(f"{f.name} {f.type}" for f in file.schema_arrow)
                wanted = ", ".join(f"{f.name} {f.type}" for f in expected)
                raise StoreError(f"{root}/{entry.name} has columns {found}; expected {wanted}")
            if file.metadata.num_rows != entry.n_edges:
                raise StoreError(
                    f"{root}/{entry.name} has {file.metadata.num_rows} rows and the manifest says "
                    f"{entry.n_edges}; the store is corrupt, write it again"
                )
            for index in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(index)
                statistics = group.column(0).statistics
                if not group.num_rows:
                    continue
                if statistics is None or not statistics.has_min_max:
                    raise StoreError(
                        f"{root}/{entry.name}: row group {index} has no statistics of u; write it again"
                    )
                u_min, u_max = int(statistics.min), int(statistics.max)
                groups.append(RowGroup(entry.name, index, first_edge, group.num_rows, u_min, u_max))
                first_edge += group.num_rows
    return tuple(groups)


def read_row_groups(
    filesystem: arrow_fs.FileSystem, root: str, groups: tuple[RowGroup, ...]
) -> Iterator[EdgeBatch]:
    """Read row groups one after the other; StoreError when a file is missing or its data cannot be decoded."""
    file: pq.ParquetFile | None = None
    name = ""
    try:
        for group in groups:
            if file is None or name != group.file:
                if file is not None:
                    file.close()
                file, name = _open_file(filesystem, root, group.file), group.file
            try:
                table = file.read_row_group(group.index)
            except (pa.ArrowException, OSError) as error:
                raise StoreError(
                    f"{root}/{name}: row group {group.index} cannot be read ({error}); write the store again"
                ) from error
            arrays = [column.to_numpy() for column in table.columns]
            yield arrays[0], arrays[1], arrays[2] if len(arrays) == 3 else None
    finally:
        if file is not None:
            file.close()
