"""Files of rows of motifs: Parquet, a row group for each block of rows, whose labels readers see as lists."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from papilio.errors import StoreError
from papilio.graph import RowColumn
from papilio.storage.list_pages import MAGIC, Group, ListPacker, make_footer
from papilio.storage.location import atomic_file
from papilio.storage.names import LayerNames

RowSizes = Mapping[str, int | None]
"""Columns of a listing, and how many vertices each has in a row; None for any number."""


def row_schema(names: LayerNames, sizes: RowSizes, question: Mapping[str, Any]) -> pa.Schema:
    """Return the schema that readers see; of ``names`` only the types count. ``question`` is that of the job."""
    fields = []
    for layer, size in sizes.items():
        element = pa.field("element", names[layer].type, nullable=False)
        rows = pa.list_(element) if size is None else pa.list_(element, size)
        fields.append(pa.field(layer, rows, nullable=False))
    metadata = {
        "papilio.graph_hash": question["graph"],
        "papilio.motif": json.dumps(question["motif"], sort_keys=True),
        "papilio.listing": json.dumps(question["listing"], sort_keys=True),
    }
    return pa.schema(fields, metadata=metadata)


class RowFile:
    """One file that is being written, by one thread at a time; it appears when it is sealed and published."""

    def __init__(self, path: Path, names: Sequence[pa.Array], schema: pa.Schema) -> None:
        self.path, self.rows = path, 0
        self._names, self._schema = names, schema
        self._packer, self._groups = ListPacker(), list[Group]()
        self._hash, self._size = xxhash.xxh3_128(), 0
        with ExitStack() as stack:
            self._file = stack.enter_context(stack.enter_context(atomic_file(path)).open("wb"))
            self._append(MAGIC)
            self._stack = stack.pop_all()

    def write(self, rows: Sequence[RowColumn]) -> None:
        """Add rows, one column for each of the schema, of places in the names; as a row group."""
        ragged = [_with_offsets(column) for column in rows]
        begin, chunks = self._size, []
        for names, (offsets, places) in zip(self._names, ragged, strict=True):
            parts, sizes = self._packer.pack(names, places, offsets)
            for part in parts:
                self._append(part)
            chunks.append(sizes)
        n_rows = len(ragged[0][0]) - 1
        self._groups.append(Group(begin, n_rows, chunks))
        self.rows += n_rows

    def _append(self, part: bytes | pa.Buffer) -> None:
        self._file.write(part)
        self._hash.update(part)
        self._size += len(part)

    def seal(self) -> str:
        """End the file; return its digest."""
        # As pyarrow writes it: what tells its readers which Arrow types the columns have.
        arrow = {b"ARROW:schema": base64.b64encode(self._schema.serialize())}
        self._append(make_footer(self._schema, self._groups, {**self._schema.metadata, **arrow}))
        self._file.flush()
        return self._hash.hexdigest()

    def publish(self) -> None:
        """Make the file appear."""
        self._stack.close()

    def drop(self) -> None:
        """Leave nothing; safe after the other methods, whether they failed or not."""
        with suppress(_Dropped, StoreError), self._stack:
            raise _Dropped
        self.path.unlink(missing_ok=True)


def _with_offsets(column: RowColumn) -> Any:
    if isinstance(column, tuple):
        return column
    n_rows, size = column.shape
    return np.arange(n_rows + 1, dtype=np.int64) * size, column.ravel()


class _Dropped(Exception):
    """Ends the block that would make a file appear."""
