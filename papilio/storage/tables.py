"""Tables as files and as streams: one writer for Parquet, CSV, TSV, JSON, JSON lines and Arrow.

A file is written under a temporary name and renamed; its suffix determines its format, unless a format is given. A
stream receives the rows batch by batch, and is flushed after each.

CSV and TSV have a line of names, and an empty field for null. Text is quoted in CSV, and in TSV only if it must be. A
column of lists of one length becomes as many columns (``u1``, ``u2``, ...); other lists are JSON arrays in their cells.
JSON is an array with an object for each row, JSON lines (``jsonl``) an object on each line. Arrow is an IPC file (also
Feather's), on a stream an IPC stream. Integers are written in full in all formats.
"""

from __future__ import annotations

import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.csv as pa_csv

from papilio.arguments import TABLE_FORMATS, TABLE_SUFFIXES, TableFormat
from papilio.errors import InputError, StoreError
from papilio.storage.files import atomic_file, check_file
from papilio.system_errors import explain

_JSON_ROWS = 1 << 16
"""Number of rows converted to Python objects at a time."""

_TYPE, _INTEGER = b"papilio.type", b"integer"


def integer_field(name: str) -> pa.Field:
    """Return the field of a column of integers stored as text because they have too many digits; integers in JSON."""
    return pa.field(name, pa.string(), nullable=False, metadata={_TYPE: _INTEGER})


def is_integer_field(field: pa.Field) -> bool:
    """Return whether a field is one of :func:`integer_field`."""
    found: bytes | None = (field.metadata or {}).get(_TYPE)
    return found == _INTEGER


def format_of(path: str | os.PathLike[str]) -> TableFormat:
    """Return the format of a file's suffix; raise InputError if it has none."""
    found = TABLE_SUFFIXES.get(Path(path).suffix.lower())
    if found is None:
        *names, last = TABLE_SUFFIXES
        raise InputError(
            f"cannot infer a format from the suffix {Path(path).suffix!r} of output {os.fspath(path)!r}: use a name "
            f"ending in {', '.join(names)} or {last}"
        )
    return found


def check_table_file(path: str | os.PathLike[str], overwrite: bool, format: TableFormat | None = None) -> Path:
    """Check a file to write before the computation, and return it.

    Raises as :func:`check_file` and :func:`format_of`.
    """
    target = check_file(path, overwrite)
    if format is None:
        format_of(path)
    return target


Columns = Iterable[Any]
"""The columns of a table, as many as its schema has fields."""


def write_tables(
    path: str | os.PathLike[str], schema: pa.Schema, tables: Iterable[Columns], *, overwrite: bool = False
) -> None:
    """Write the rows of tables, each a list of columns, to a new file; as :func:`write_batches`."""
    rows = (pa.table([*columns], schema=schema) for columns in tables)
    write_batches(path, schema, rows, overwrite=overwrite)


def write_batches(
    target: str | os.PathLike[str] | BinaryIO,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch | pa.Table],
    format: TableFormat | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write rows to a new file, completely or not at all, or to a binary stream, which is flushed after each batch.

    Parameters
    ----------
    target : path or binary stream
        A stream stays open.
    format : {"csv", "tsv", "json", "jsonl", "parquet", "arrow"}, optional
        By default the format of the file's suffix. Required for a stream.
    overwrite : bool
        Replace an existing file.

    Raises
    ------
    InputError
        If the format is neither given nor determined by the suffix.
    StoreError
        If the file cannot be written, or exists. OSError of a stream is passed on: a closed pipe is no failure.
    """
    if not isinstance(target, str | os.PathLike):
        if format is None:
            raise InputError(f"a stream has no suffix: choose its format, {', '.join(TABLE_FORMATS)}")
        _write(target, schema, batches, format, is_stream=True)
        return
    path = check_table_file(target, overwrite, format)
    try:
        with atomic_file(path, overwrite) as scratch, scratch.open("wb") as file:
            _write(file, schema, batches, format or format_of(path), is_stream=False)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path}: cannot be written {explain(error, 'or choose another file')}") from error


def _write(
    stream: BinaryIO,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch | pa.Table],
    format: TableFormat,
    is_stream: bool,
) -> None:
    writer = _WRITERS[format](stream, schema, is_stream)
    try:
        stream.flush()
        for batch in batches:
            writer.write(pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch)
            stream.flush()
        writer.end()
    except BaseException:
        writer.give_up()
        raise
    stream.flush()


class _Writer(ABC):
    def __init__(self, stream: BinaryIO, schema: pa.Schema, is_stream: bool) -> None:
        self.stream, self.schema, self.is_stream = stream, schema, is_stream
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Write the header, before all rows."""

    @abstractmethod
    def write(self, table: pa.Table) -> None: ...

    def end(self) -> None:
        """Write the footer, after all rows."""
        return

    def give_up(self) -> None:
        """Release the stream without writing more."""
        return


class _Csv(_Writer):
    delimiter: ClassVar[str] = ","

    def begin(self) -> None:
        header = pa.schema([field for each in self.schema for field in _flat_fields(each)]).empty_table()
        pa_csv.write_csv(header, self.stream, pa_csv.WriteOptions(delimiter=self.delimiter))

    def write(self, table: pa.Table) -> None:
        flat = [(field, each) for at, of in enumerate(self.schema) for field, each in _flat(of, table.column(at))]
        rows = pa.table([each for _, each in flat], schema=pa.schema([field for field, _ in flat]))
        for batch in rows.to_batches():
            if batch.num_rows:  # without quotes Arrow writes a buffer of zeros for an empty one
                self.write_flat(batch)

    def write_flat(self, rows: pa.RecordBatch) -> None:
        pa_csv.write_csv(rows, self.stream, pa_csv.WriteOptions(include_header=False))


class _Tsv(_Csv):
    delimiter = "\t"

    def begin(self) -> None:
        names = [field.name for each in self.schema for field in _flat_fields(each)]
        self.stream.write(("\t".join(names) + "\n").encode())

    def write_flat(self, rows: pa.RecordBatch) -> None:
        """Write the rows without quotes; if a batch needs some, all its text is quoted."""
        options = {"include_header": False, "delimiter": "\t"}
        plain = io.BytesIO()
        try:
            pa_csv.write_csv(rows, plain, pa_csv.WriteOptions(quoting_style="none", **options))
        except pa.ArrowInvalid:
            pa_csv.write_csv(rows, self.stream, pa_csv.WriteOptions(**options))
        else:
            self.stream.write(plain.getvalue())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _flat_fields(field: pa.Field) -> list[pa.Field]:
    """Return the fields that a column has in CSV."""
    kind = field.type
    if pa.types.is_fixed_size_list(kind):
        return [pa.field(f"{field.name}{at + 1}", kind.value_type) for at in range(kind.list_size)]
    return [pa.field(field.name, pa.string() if _is_list(kind) else kind)]


def _flat(field: pa.Field, column: pa.ChunkedArray) -> list[tuple[pa.Field, Any]]:
    """Return a column in CSV form: lists of one length as one column per entry, other lists as JSON."""
    fields, kind = _flat_fields(field), field.type
    if pa.types.is_fixed_size_list(kind):
        array = column.combine_chunks()
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
        entries, size = array.flatten(), kind.list_size
        rows = len(array)
        return [
            (each, entries.take(pa.array(range(at, rows * size, size), pa.int64()))) for at, each in enumerate(fields)
        ]
    if _is_list(kind):
        return [(fields[0], pa.array([_json(each) for each in column.to_pylist()], pa.string()))]
    return [(fields[0], column)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class _JsonLines(_Writer):
    def begin(self) -> None:
        self._integers = [field.name for field in self.schema if is_integer_field(field)]

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(_JSON_ROWS):
            for row in batch.to_pylist():
                plain: dict[str, Any] = row | {name: int(row[name]) for name in self._integers}
                self.write_object(_json(plain))

    def write_object(self, text: str) -> None:
        self.stream.write((text + "\n").encode())


class _Json(_JsonLines):
    def begin(self) -> None:
        super().begin()
        self._before = "[\n"

    def write_object(self, text: str) -> None:
        self.stream.write((self._before + text).encode())
        self._before = ",\n"

    def end(self) -> None:
        self.stream.write(b"[]\n" if self._before == "[\n" else b"\n]\n")


class _Parquet(_Writer):
    def begin(self) -> None:
        import pyarrow.parquet as pq  # slow to import, and not needed for text

        self._writer = pq.ParquetWriter(self.stream, self.schema, compression="zstd")
        self.write(self.schema.empty_table())  # older versions of Arrow need a row group

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def end(self) -> None:
        self._writer.close()

    def give_up(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._writer.is_open = False  # else it is closed again by the garbage collector


class _Arrow(_Writer):
    def begin(self) -> None:
        self._writer = (pa.ipc.new_stream if self.is_stream else pa.ipc.new_file)(self.stream, self.schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def end(self) -> None:
        self._writer.close()


_WRITERS: Mapping[TableFormat, type[_Writer]] = {
    "csv": _Csv, "tsv": _Tsv, "json": _Json, "jsonl": _JsonLines, "parquet": _Parquet, "arrow": _Arrow,
}  # fmt: skip
