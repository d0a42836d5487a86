"""Reading edges from NumPy ``.npy`` arrays and from Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.storage.column_choice import choose_columns
from papilio.storage.formats import LabelType, ReadOptions, SourceInfo, describe_columns, raw_schema

_CHUNK_ROWS = 1 << 20
"""Rows read at a time."""


class _NpyFile:
    """The header of a ``.npy`` file of integers, and reads of its rows that do not load the rest."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                version = npy_format.read_magic(file)
                read = (
                    npy_format.read_array_header_1_0
                    if version == (1, 0)
                    else npy_format.read_array_header_2_0
                )
                self.shape, self._fortran, self._dtype = read(file)
                self._offset = file.tell()
        except Exception as error:  # NumPy tokenizes and evaluates the header: a damaged one raises anything
            raise InputError(f"{name} is not a readable .npy file ({error!r}); write it again") from error
        if self._dtype.kind not in "iu":
            raise InputError(f"{name} has dtype {self._dtype}; expected integers")
        if not 1 <= len(self.shape) <= 2 or min(self.shape) < 0:
            raise InputError(f"{name} has shape {self.shape}; expected (k, 2), or two arrays of shape (k,)")
        expected = self._offset + prod(self.shape) * self._dtype.itemsize
        if path.stat().st_size < expected:
            raise InputError(f"{name} has {path.stat().st_size} bytes and needs {expected}: it is truncated")

    @property
    def columns(self) -> int:
        return self.shape[1] if len(self.shape) == 2 else 1

    def read(self, start: int, count: int) -> list[NDArray[Any]]:
        """Return ``count`` rows from ``start`` on, one array of shape (count,) per column."""
        width = self._dtype.itemsize
        if self._fortran or self.columns == 1:
            places = [
                self._offset + (column * self.shape[0] + start) * width for column in range(self.columns)
            ]
            return [np.fromfile(self.path, self._dtype, count, offset=place) for place in places]
        place = self._offset + start * self.columns * width
        rows = np.fromfile(self.path, self._dtype, count * self.columns, offset=place)
        return list(rows.reshape(count, self.columns).T)


class NpySource:
    """The edges of one uncompressed ``.npy`` array of shape (k, c), c >= 2, or of two of shape (k,).

    ``names`` are for messages; ``on_read`` is told the fraction read so far, times the size of the files in bytes.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        names: Sequence[str],
        options: ReadOptions,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self._files = [_NpyFile(path, name) for path, name in zip(paths, names, strict=True)]
        self._names = names
        self._options = options
        self._on_read = on_read
        first = self._files[0]
        if len(self._files) == 1 and (len(first.shape) != 2 or first.columns < 2):
            raise InputError(
                f"{names[0]} has shape {first.shape}; expected (k, 2): one row per edge "
                "(transpose it, or give two arrays of shape (k,))"
            )
        if len(self._files) == 2 and any(f.shape != (first.shape[0],) for f in self._files):
            shapes = " and ".join(str(f.shape) for f in self._files)
            raise InputError(f"{' and '.join(names)} have shapes {shapes}; expected the same (k,)")
        columns = sum(f.columns for f in self._files)
        self._columns = choose_columns(names[0], (), columns, options.columns)
        timed = options.sign is not None and self._columns.time is not None
        self.info = SourceInfo("npy", time=pa.int64() if timed else None, layout={"columns": columns})
        describe_columns(self.info, (), columns, self._columns, options.sign is not None)
        if options.labels == "text":
            self.info.labels = ("text", "text")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in order."""
        schema = raw_schema(self.info, self._options.sign is not None)
        rows = self._files[0].shape[0]
        total = sum(file.path.stat().st_size for file in self._files)
        for start in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - start)
            columns = [column for file in self._files for column in file.read(start, count)]
            chosen = self._columns
            arrays = [_integers(self._names[0], columns[at]) for at in (chosen.u, chosen.v)]
            if self._options.sign is not None and chosen.sign is not None:
                signs = self._options.sign.from_numbers(columns[chosen.sign])
                if signs is None:
                    raise InputError(f"{self._names[0]} holds numbers; sign_values are for words")
                arrays.append(pa.array(signs))
            if self.info.time is not None and chosen.time is not None:
                arrays.append(_integers(self._names[0], columns[chosen.time]))
            fields = [array.cast(f.type) for array, f in zip(arrays, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(fields, schema=schema)
            if self._on_read is not None:
                self._on_read(total * (start + count) // rows)


def _integers(name: str, column: NDArray[Any]) -> pa.Array:
    if column.dtype == np.uint64 and column.size and int(column.max()) >= 2**63:
        raise InputError(f"{name} holds {column.max()}; integers go up to 2^63 - 1")
    return pa.array(column.astype(np.int64))


class ParquetSource:
    """The edges of a Parquet file, from the columns that :mod:`papilio.storage.column_choice` finds.

    Integer columns give integer labels; strings (plain or dictionary-encoded) give text. A column with a usual name of
    times orders duplicates. ``name`` and ``on_read`` are as for :class:`NpySource`.
    """

    def __init__(
        self, path: Path, name: str, options: ReadOptions, on_read: Callable[[int], None] | None = None
    ) -> None:
        self._path = path
        self._name = name
        self._options = options
        self._on_read = on_read
        try:
            with pq.ParquetFile(path) as file:
                schema = file.schema_arrow
                self._rows = file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{name} is not a readable Parquet file ({error})") from error
        self._columns = self._choose(schema)
        kinds = [self._label_type(schema.field(column)) for column in self._columns[:2]]
        if not options.bipartite and "text" in kinds:
            kinds = ["text", "text"]
        self.info = SourceInfo("parquet", (kinds[0], kinds[1]), self._time_type(schema))
        self.info.layout = {"columns": list(self._columns)}
        describe_columns(self.info, schema.names, len(schema.names), self._chosen, options.sign is not None)

    def _choose(self, schema: pa.Schema) -> list[str]:
        """Return the names of the columns u, v, then the sign's and the time's where they are needed."""
        names = list(schema.names)
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(
                f"{self._name} has columns {', '.join(names)}; expected two or more, all different"
            )
        unfit = [at for at, field in enumerate(schema) if _label_kind(field.type) is None]
        self._chosen = choose_columns(self._name, names, len(names), self._options.columns, unfit=unfit)
        chosen = [self._chosen.u, self._chosen.v]
        if self._options.sign is not None:
            chosen += [at for at in (self._chosen.sign, self._chosen.time) if at is not None]
        return [names[at] for at in chosen]

    def _label_type(self, column: pa.Field) -> LabelType:
        kind = _label_kind(column.type)
        if kind is not None:
            return "text" if self._options.labels == "text" else kind
        raise InputError(
            f"{self._name}: column {column.name} has type {column.type}; expected integers or strings"
        )

    def _time_type(self, schema: pa.Schema) -> pa.DataType | None:
        if len(self._columns) < 4:
            return None
        kind = schema.field(self._columns[3]).type
        if pa.types.is_floating(kind):
            return pa.float64()
        if pa.types.is_date(kind):
            return kind
        return pa.string() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else pa.int64()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in order; InputError for missing values, values without a sign, and damaged data."""
        schema = raw_schema(self.info, self._options.sign is not None)
        size = self._path.stat().st_size
        done = 0
        with pq.ParquetFile(self._path) as file:
            try:
                for batch in file.iter_batches(_CHUNK_ROWS, columns=self._columns):
                    columns = [batch.column(name) for name in self._columns]
                    for name, column in zip(self._columns, columns, strict=True):
                        if column.null_count:
                            raise InputError(
                                f"{self._name}: column {name} has {column.null_count} missing values "
                                f"in rows {done} to {done + batch.num_rows - 1}; remove them"
                            )
                    if self._options.sign is not None:
                        columns[2] = self._signs(columns[2])
                    arrays = [column.cast(f.type) for column, f in zip(columns, schema, strict=True)]
                    done += batch.num_rows
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                    if self._on_read is not None:
                        self._on_read(size * done // max(self._rows, 1))
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{self._name}: rows from {done} on cannot be read ({error})") from error

    def _signs(self, column: pa.Array) -> pa.Array:
        rule = self._options.sign
        if rule is None:
            return column
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            signs = rule.from_numbers(column.cast(pa.float64(), safe=False).to_numpy())
        elif pa.types.is_boolean(column.type):
            signs = rule.from_numbers(column.cast(pa.int64()).to_numpy())
        else:
            signs = rule.apply(column.cast(pa.string()))
        if signs is None:
            examples = ", ".join(map(str, pc.unique(column)[:5].to_pylist()))
            raise InputError(
                f"{self._name}: the rule ({self.info.sign_column}: {rule.describe()}) "
                f"gives some of {examples}... no sign"
            )
        return pa.array(signs)


def _label_kind(kind: pa.DataType) -> LabelType | None:
    """Return the type of labels that a column of a type gives, or None for none."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "integer"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None
