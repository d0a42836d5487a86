"""How rows of motifs lie in Parquet: the schema that readers see, what is written for it, and one file of rows.

Rows of one length repeat in long runs, which zstd finds: a (3,3)-biclique takes 1 to 4 bytes, with dictionaries of its
labels 3 to 6. Rows of any length take 10 to 20 ns for each vertex with lz4, and 27 to 31 with zstd, which needs more
room for the long rows of dense graphs, too. Text among them is written as a dictionary, in half of the time; readers
see the same either way.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from papilio.graph import RowColumn
from papilio.storage.location import atomic_file
from papilio.storage.names import LayerNames

RowSizes = Mapping[str, int | None]
"""Columns of a listing, and how many vertices each has in a row; None for any number."""

_MOST_DICTIONARY_BYTES = 1 << 20
"""Up to here a row group, of a million vertices, has all labels in its dictionary; above, those that occur in it."""


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


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return how a file of this schema is written, see :class:`pyarrow.parquet.ParquetWriter`."""
    return {
        "compression": "lz4" if any(map(_is_ragged, schema.types)) else "zstd",
        "use_dictionary": [f"{field.name}.list.element" for field in schema if _is_ragged_text(field.type)],
        "dictionary_pagesize_limit": _MOST_DICTIONARY_BYTES,
        "write_statistics": False,
    }


def _is_ragged(rows: pa.DataType) -> bool:
    return not pa.types.is_fixed_size_list(rows)


def _is_ragged_text(rows: pa.DataType) -> bool:
    return _is_ragged(rows) and rows.value_type == pa.string()


class RowEncoding:
    """Makes tables of rows of places in ``names``; safe to share between threads."""

    def __init__(self, names: LayerNames, sizes: RowSizes, question: Mapping[str, Any]) -> None:
        self._names = [names[layer] for layer in sizes]
        seen = row_schema(names, sizes, question)
        # What is written has other types than what readers are to see: the Arrow schema in the file is of the latter.
        self.options = parquet_options(seen) | {"store_schema": False}
        self.metadata = {**seen.metadata, b"ARROW:schema": base64.b64encode(seen.serialize())}
        fields = [
            field.with_type(_with_dictionary(field.type))
            if _is_ragged_text(field.type) and names.nbytes <= _MOST_DICTIONARY_BYTES
            else field
            for field, names in zip(seen, self._names, strict=True)
        ]
        self.schema = pa.schema(fields)

    def table(self, rows: Sequence[RowColumn]) -> pa.Table:
        """Return rows, one column for each of the sizes, with their labels."""
        columns = [
            _make_column(names, places, field.type)
            for names, places, field in zip(self._names, rows, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _with_dictionary(rows: pa.DataType) -> pa.DataType:
    return pa.list_(rows.value_field.with_type(pa.dictionary(pa.int32(), rows.value_type)))


def _make_column(names: pa.Array, places: RowColumn, kind: pa.DataType) -> pa.Array:
    if not isinstance(places, tuple):
        return pa.FixedSizeListArray.from_arrays(names.take(pa.array(places.ravel())), type=kind)
    offsets, values = places
    is_dictionary = pa.types.is_dictionary(kind.value_type)
    taken = pa.array(values)
    labels = pa.DictionaryArray.from_arrays(taken, names) if is_dictionary else names.take(taken)
    # The type of offsets is that of lists of up to 2^31 values, more than a block of rows has.
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), labels, type=kind)


def hash_file(path: Path) -> str:
    """Return 32 hexadecimal digits that identify the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=16)).hexdigest()


class RowFile:
    """One file that is being written, by one thread at a time; it appears when it is sealed and published."""

    def __init__(self, path: Path, encoding: RowEncoding) -> None:
        self.path, self.rows = path, 0
        self._stack = ExitStack()
        self._scratch = self._stack.enter_context(atomic_file(path))
        try:
            self._writer = pq.ParquetWriter(self._scratch, encoding.schema, **encoding.options)
            self._writer.add_key_value_metadata(encoding.metadata)
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise

    def write(self, table: pa.Table) -> None:
        """Add rows, as a row group."""
        self._writer.write_table(table)
        self.rows += table.num_rows

    def seal(self) -> str:
        """End the file; return the hash of its bytes."""
        self._writer.close()
        return hash_file(self._scratch)

    def publish(self) -> None:
        """Make the file appear."""
        self._stack.close()

    def drop(self) -> None:
        """Leave nothing; safe after the other methods, whether they failed or not."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(_Dropped), self._stack:
            raise _Dropped
        self.path.unlink(missing_ok=True)


class _Dropped(Exception):
    """Ends the block that would make a file appear."""
