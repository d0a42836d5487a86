"""The readers of all kinds of input: NumPy arrays, Parquet files, text files one after the other.

Parquet input is one file, or the files of a table that Spark, Dask or Hive wrote into a directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio.errors import InputError
from papilio.storage.column_choice import SignRule, choose_columns
from papilio.storage.evidence import MISSING
from papilio.storage.formats import (
    BLANKS,
    Declared,
    EdgeSource,
    FormatName,
    LabelType,
    LineCounts,
    ReadOptions,
    SourceInfo,
    describe_columns,
    fields_of,
    find_conditions,
    unify_line_ends,
)
from papilio.storage.inputs import InputFile, InputLocation
from papilio.storage.layout import Plan, zero_weights
from papilio.storage.matrix_source import read_matrix
from papilio.storage.objects import sheet_of
from papilio.storage.sealed import DECODING_ERRORS
from papilio.storage.text import TextSource
from papilio.storage.where import has_zero

OnRead = Callable[[int], None]
"""Called with the bytes of the stored files read so far."""

_CHUNK_ROWS = 1 << 20
"""Rows read at a time."""


class _NpyFile:
    """The header of a ``.npy`` file of integers; reads ranges of its rows without loading the whole file."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                version = npy_format.read_magic(file)
                read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
                self.shape, self._fortran, self._dtype = read(file)
                self._offset = file.tell()
        except Exception as error:  # NumPy tokenizes and evaluates the header: a damaged one may raise any exception
            raise InputError(f"{name} is not a readable .npy file ({error!r}); write it again") from error
        if self._dtype.kind not in "iu":
            raise InputError(f"{name} has dtype {self._dtype}; expected integers")
        if not 1 <= len(self.shape) <= 2 or min(self.shape) < 0:
            raise InputError(f"{name} has shape {self.shape}; expected (k, 2), or two arrays of shape (k,)")
        expected = self._offset + prod(self.shape) * self._dtype.itemsize
        if path.stat().st_size != expected:
            raise InputError(
                f"{name} has {path.stat().st_size} bytes, but its header describes {expected}: write it again"
            )

    @property
    def columns(self) -> int:
        return self.shape[1] if len(self.shape) == 2 else 1

    def read(self, start: int, count: int) -> list[NDArray[Any]]:
        """Return ``count`` rows from ``start`` on, one array of shape (count,) per column."""
        width = self._dtype.itemsize
        if self._fortran or self.columns == 1:
            places = [self._offset + (column * self.shape[0] + start) * width for column in range(self.columns)]
            return [np.fromfile(self.path, self._dtype, count, offset=place) for place in places]
        place = self._offset + start * self.columns * width
        rows = np.fromfile(self.path, self._dtype, count * self.columns, offset=place)
        return list(rows.reshape(count, self.columns).T)


class NpySource:
    """The edges of one uncompressed local ``.npy`` array of shape (k, c), c >= 2, or of two of shape (k,).

    ``on_read`` is called with the fraction read so far, times the size of the files in bytes.
    """

    def __init__(self, places: Sequence[InputLocation], options: ReadOptions, on_read: OnRead) -> None:
        names = [place.name for place in places]
        self._files = [_NpyFile(Path(place.path), place.name) for place in places]
        self._name = names[0]
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
        signed = options.sign is not None
        time = pa.int64() if signed and self._columns.time is not None else None
        self.info = SourceInfo("npy", signed=signed, time=time, layout={"columns": columns})
        describe_columns(self.info, (), columns, self._columns)
        self._conditions = find_conditions(names[0], (), columns, options.where)
        if options.labels == "text":
            self.info.labels = ("text", "text")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in order."""
        schema = self.info.schema
        rows = self._files[0].shape[0]
        total = sum(file.path.stat().st_size for file in self._files)
        for start in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - start)
            columns = [column for file in self._files for column in file.read(start, count)]
            chosen = self._columns
            kept = np.ones(count, bool)
            for at, condition in self._conditions:
                found = condition.mask(pa.array(columns[at]))
                if found is None:
                    raise InputError(f"{self._name} holds numbers; where={condition.text!r} compares words")
                kept &= found
            if not kept.all():
                self.info.lines.filtered += int(count - np.count_nonzero(kept))
                columns = [column[kept] for column in columns]
            arrays = [_integers(self._name, columns[at]) for at in (chosen.u, chosen.v)]
            if self._options.sign is not None and chosen.sign is not None:
                signs = self._options.sign.from_numbers(columns[chosen.sign])
                if signs is None:
                    raise InputError(f"{self._name} holds numbers; sign_values are for words")
                arrays.append(pa.array(signs))
            if self.info.time is not None and chosen.time is not None:
                arrays.append(_integers(self._name, columns[chosen.time]))
            fields = [array.cast(f.type) for array, f in zip(arrays, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(fields, schema=schema)
            self._on_read(total * (start + count) // rows)


def _integers(name: str, column: NDArray[Any]) -> pa.Array:
    if column.dtype == np.uint64 and column.size and int(column.max()) >= 2**63:
        raise InputError(f"{name} holds {column.max()}; integers go up to 2^63 - 1")
    return pa.array(column.astype(np.int64))


class ParquetSource:
    """The edges of Parquet files, from the columns that :mod:`papilio.storage.column_choice` chooses.

    Integer columns give integer labels; strings (plain or dictionary-encoded) give text. A column with a usual name of
    times orders duplicates. Directories of the form ``year=2024`` below the root of all places are columns, too.
    ``on_read`` is called with the fraction read so far, times the size of the files in bytes.
    """

    def __init__(
        self, places: Sequence[InputLocation], options: ReadOptions, on_read: OnRead, weight: str = ""
    ) -> None:
        self._names = {place.path: place.name for place in places}
        self._name = places[0].name
        self._options = options
        self._n_bytes = sum(place.n_bytes for place in places)
        self._on_read = on_read
        self._weight = weight  # a column that must not hold 0, or nothing
        self._fragments = _fragments(places)
        self._schema = schema = self._unified()
        names = list(schema.names)
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(f"{self._name} has columns {', '.join(names)}; expected two or more, all different")
        unfit = [at for at, field in enumerate(schema) if _label_kind(field.type) is None]
        signed = options.sign is not None
        chosen = choose_columns(self._name, names, len(names), options.columns, unfit=unfit)
        read = [chosen.u, chosen.v, *((chosen.sign, chosen.time) if signed else ())]
        self._columns = [names[at] for at in read if at is not None]
        self._conditions = [
            (names[at], each) for at, each in find_conditions(self._name, names, len(names), options.where)
        ]
        kinds = [self._label_type(schema.field(column)) for column in self._columns[:2]]
        if not options.bipartite and "text" in kinds:
            kinds = ["text", "text"]
        time = _time_type(schema.field(self._columns[3]).type) if len(self._columns) == 4 else None
        self.info = SourceInfo("parquet", (kinds[0], kinds[1]), signed, time, layout={"columns": list(self._columns)})
        describe_columns(self.info, names, len(names), chosen)

    def _unified(self) -> pa.Schema:
        """Return the columns of all files; raise InputError if the columns of a file differ."""
        first = self._fragments[0][1]
        found = first
        for fragment, schema in self._fragments[1:]:
            name = self._names[fragment.path]
            missing = [column for column in first.names if column not in schema.names]
            if missing:
                raise InputError(f"{name} has no column {missing[0]}, unlike {self._name}; convert it separately")
            try:
                found = pa.unify_schemas([found, schema], promote_options="permissive")
            except pa.ArrowException as error:
                raise InputError(f"{name} and {self._name} do not match ({error})") from error
        return found

    def _label_type(self, column: pa.Field) -> LabelType:
        kind = _label_kind(column.type)
        if kind is not None:
            return "text" if self._options.labels == "text" else kind
        raise InputError(f"{self._name}: column {column.name} has type {column.type}; expected integers or strings")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in order; raise InputError for missing values, values without a sign, and damaged data."""
        rows = sum(fragment.metadata.num_rows for fragment, _ in self._fragments)
        done = 0
        for fragment, _ in self._fragments:
            name, before = self._names[fragment.path], done
            said = pads.get_partition_keys(fragment.partition_expression)
            weights = [self._weight] if self._weight else []
            needed = list(dict.fromkeys([*self._columns, *(name for name, _ in self._conditions), *weights]))
            held = [column for column in needed if column in fragment.physical_schema.names]
            with _damage_named(name):
                file = pq.ParquetFile(fragment.path, filesystem=fragment.filesystem, page_checksum_verification=True)
            with file:
                batches = file.iter_batches(_CHUNK_ROWS, columns=held)
                while True:
                    with _damage_named(name, f"cannot be read from row {done - before}"):
                        batch = next(batches, None)
                        if batch is None:
                            break
                        of = {
                            column: batch.column(column)
                            if column in held
                            else pa.repeat(pa.scalar(said[column], self._schema.field(column).type), batch.num_rows)
                            for column in needed
                        }
                        if self._weight and has_zero(of[self._weight]):
                            rows_of = f"rows {done - before:,} to {done - before + batch.num_rows - 1:,}"
                            raise InputError(zero_weights(name, self._weight, 0, 0, rows_of))
                        kept = self._kept(of, name, done - before)
                        columns = [of[column] for column in self._columns]
                        if not kept.all():
                            columns = [column.filter(pa.array(kept)) for column in columns]
                        edges = self._edges(columns, name, done - before)
                    yield edges
                    done += batch.num_rows
                    self._on_read(self._n_bytes * done // max(rows, 1))

    def _kept(self, columns: dict[str, pa.Array], name: str, start: int) -> NDArray[np.bool_]:
        """Return which rows meet the conditions and have both ends; raise InputError for words such as NA as ends."""
        kept = np.ones(len(next(iter(columns.values()))), bool)
        for title, condition in self._conditions:
            found = condition.mask(columns[title])
            if found is None:
                raise InputError(
                    f"{name}: column {title} does not hold numbers only, so where={condition.text!r} does not apply"
                )
            kept &= found
        self.info.lines.filtered += int(kept.size - np.count_nonzero(kept))
        if self._options.missing == "label":
            return kept
        for title, kind in zip(self._columns[:2], self.info.labels, strict=True):
            column = columns[title]
            absent = column.is_null().to_numpy(zero_copy_only=False) & (self._options.missing == "drop")
            if kind == "text":
                words = pc.is_in(column.cast(pa.large_string()), pa.array(sorted(MISSING), pa.large_string()))
                absent |= words.to_numpy(zero_copy_only=False)
            absent &= kept
            if absent.any() and self._options.missing is None:
                raise InputError(
                    f"{name}: column {title} has {int(absent.sum()):,} words for missing values in rows {start} to "
                    f"{start + len(column) - 1}; missing='drop' (--missing drop) leaves them out, missing='label' "
                    "takes them as names"
                )
            self.info.lines.missing += int(absent.sum())
            kept &= ~absent
        return kept

    def _edges(self, columns: list[pa.Array], name: str, start: int) -> pa.RecordBatch:
        for title, column in zip(self._columns, columns, strict=True):
            column.validate(full=True)  # text of damaged files may be invalid UTF-8
            if column.null_count:
                raise InputError(
                    f"{name}: column {title} has {column.null_count} missing values "
                    f"in rows {start} to {start + len(column) - 1}; fill them, or leave them out (missing='drop', "
                    "--missing drop)"
                )
        if self._options.sign is not None:
            columns[2] = self._signs(self._options.sign, columns[2])
        schema = self.info.schema
        arrays = [column.cast(f.type) for column, f in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _signs(self, rule: SignRule, column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            signs = rule.from_numbers(column.cast(pa.float64(), safe=False).to_numpy())
        else:
            signs = rule.apply(column.cast(pa.string()))
        if signs is None:
            examples = ", ".join(map(str, pc.unique(column)[:5].to_pylist()))
            raise InputError(
                f"{self._name}: the rule ({self.info.sign_column}: {rule.describe()}) "
                f"gives some of {examples}... no sign"
            )
        return pa.array(signs)


def _time_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_date(kind):
        return kind
    return pa.string() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else pa.int64()


def _label_kind(kind: pa.DataType) -> LabelType | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "integer"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None


def _fragments(places: Sequence[InputLocation]) -> list[tuple[pads.ParquetFileFragment, pa.Schema]]:
    names = {place.path: place.name for place in places}
    root = places[0].root if len({place.root for place in places}) == 1 else ""
    with _damage_named(places[0].name):
        dataset = pads.dataset(
            [place.path for place in places],
            format="parquet",
            filesystem=places[0].filesystem,
            partitioning="hive" if root else None,
            partition_base_dir=root or None,
        )
    found = []
    for fragment in dataset.get_fragments():
        with _damage_named(names[fragment.path]):
            schema = fragment.physical_schema
            held = set(schema.names)
            for column in pads.get_partition_keys(fragment.partition_expression):
                if column not in held:
                    schema = schema.append(dataset.schema.field(column))
        found.append((fragment, schema))
    return found


@contextmanager
def _damage_named(name: str, what: str = "is not a readable Parquet file") -> Iterator[None]:
    """Turn pyarrow's errors about a damaged file into an InputError."""
    try:
        yield
    except DECODING_ERRORS as error:
        raise InputError(f"{name} {what} ({error})") from error


_LINE_BYTES = 1 << 16
"""Beginning of a file that shows whether it has more than a line of names."""

_MAGIC: tuple[tuple[bytes, FormatName], ...] = ((b"\x93NUMPY", "npy"), (b"PAR1", "parquet"))


def open_source(
    first: InputFile,
    places: Sequence[InputLocation],
    options: ReadOptions,
    scratch: Path,
    threads: int,
    on_read: OnRead,
) -> EdgeSource:
    """Return the reader of the input, by its first bytes or the forced format; ``first`` is the first of ``places``.

    Unpacked files lie in the directory ``scratch``.
    """
    chosen = options.format or _kind_of(first)
    if chosen == "parquet":
        # Files that are not compressed as a whole are read in place.
        system = places[0].filesystem
        is_plain = system is not None and all(place.filesystem == system for place in places)
        if not first.is_plain or not is_plain:
            places = _spool(first, places, scratch)
        table = _matrix_of_table(places, options)
        return ParquetSource(places, options, on_read, table) if isinstance(table, str) else table
    if chosen == "npy":
        if len(places) > 2:
            raise InputError(f"{len(places)} .npy files were given; convert reads one, or two with one endpoint each")
        places = _spool(first, places, scratch)
        matrix = _matrix_of_array(places, options) if len(places) == 1 else None
        return NpySource(places, options, on_read) if matrix is None else matrix
    return JoinedText(first, places[1:], options, threads, on_read)


_MATRIX_ROWS = 2000


def _matrix_of_array(places: Sequence[InputLocation], options: ReadOptions) -> EdgeSource | None:
    """Return the edges of an array that is a matrix; None if it has edges, or its reader says what is wrong."""
    path = Path(places[0].path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # the reader of edges reports damage
        return None
    sheet = sheet_of(array)
    source = None if sheet is None else read_matrix(replace(sheet, what=places[0].name), "npy", options)
    return None if isinstance(source, Plan) else source


def _matrix_of_table(places: Sequence[InputLocation], options: ReadOptions) -> EdgeSource | str:
    """Return the edges of a Parquet table that is a matrix; a text if it has edges, or its reader says what is wrong.

    The text is the column of weights that must not hold 0, or nothing.
    """
    try:
        dataset = pads.dataset([place.path for place in places], format="parquet", filesystem=places[0].filesystem)
        table = dataset.head(_MATRIX_ROWS)
        is_whole = table.num_rows < _MATRIX_ROWS
        if not is_whole:
            is_whole = len(table.schema.names) > 3 or options.layout not in (None, "edges")
            is_whole = is_whole and _is_wide_table(table)
            table = dataset.to_table() if is_whole else table
    except Exception:  # the reader of edges reports damage
        return ""
    sheet = sheet_of(table)
    assert sheet is not None
    source = read_matrix(replace(sheet, what=places[0].name, is_whole=is_whole), "parquet", options)
    if not isinstance(source, Plan):
        return source
    return "" if source.weight is None else str(sheet.names[source.weight])


def _is_wide_table(table: pa.Table) -> bool:
    numbers = [pa.types.is_floating(t) or pa.types.is_integer(t) or pa.types.is_boolean(t) for t in table.schema.types]
    return len([each for each in numbers if each]) >= len(numbers) - 1


def _kind_of(file: InputFile) -> FormatName | None:
    return next((name for magic, name in _MAGIC if file.peek(8).startswith(magic)), None)


def _spool(first: InputFile, places: Sequence[InputLocation], scratch: Path) -> list[InputLocation]:
    spooled = []
    for at, place in enumerate(places):
        (scratch / str(at)).mkdir()
        with first if at == 0 else InputFile(place) as file:
            path = str(file.spool(scratch / str(at)))
            spooled.append(replace(place, filesystem=arrow_fs.LocalFileSystem(), path=path, root=""))
    return spooled


class JoinedText:
    """The edges of consecutive text files, with the layout of the first; each file may have a line of names."""

    def __init__(
        self,
        first: InputFile,
        others: Sequence[InputLocation],
        options: ReadOptions,
        threads: int,
        on_read: OnRead,
    ) -> None:
        self._options = options
        self._threads = threads
        self._others = others
        self._on_read = on_read
        self._n_first = first.n_bytes
        self._first = self._open(first, options, 0)
        self.info = self._first.info

    def _open(self, file: InputFile, options: ReadOptions, before: int) -> TextSource:
        return TextSource(file, options, self._threads, lambda done: self._on_read(before + done))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in the order of the files; raises as :meth:`TextSource.batches`."""
        if self._others and self._first.layout.plan.layout != "edges":
            raise InputError(
                f"{self._first.info.layout['layout']} is the layout of the first of several files; give one such file "
                "at a time"
            )
        yield from self._first.batches()
        options = replace(self._options, like=self._first.layout)
        before = self._n_first
        for place in self._others:
            with InputFile(place) as file:
                if kind := _kind_of(file):
                    raise InputError(
                        f"{place.name} is of the format {kind}, and the first file is text: convert one format"
                    )
                empty = self._lines_of_empty(file)
                if empty is not None:
                    self.info.lines.add(empty)
                else:
                    source = self._open(file, options, before)
                    yield from source.batches()
                    _add(self.info, source.info, place.name)
            before += place.n_bytes

    def _lines_of_empty(self, file: InputFile) -> LineCounts | None:
        """Return the lines of a file without data, or with only a line of names as Spark writes it; else None."""
        file.decode(self._options.encoding)
        text = unify_line_ends(file.peek(_LINE_BYTES).removeprefix(b"\xef\xbb\xbf"))
        if len(text) >= _LINE_BYTES // 2:
            return None
        lines = text.removesuffix(b"\n").split(b"\n") if text else []
        filled = [line for line in lines if line.strip(BLANKS)]
        blank = len(lines) - len(filled)
        if not filled:
            return LineCounts(len(lines), blank=blank)
        layout = self._first.layout
        names = [field.decode(errors="replace") for field in fields_of(layout, filled[0])]
        if len(filled) > 1 or not layout.names or sorted(names) != sorted(layout.names):
            return None
        return LineCounts(len(lines), blank=blank, header=1)


def _add(info: SourceInfo, more: SourceInfo, name: str) -> None:
    info.lines.add(more.lines)
    info.notes += [f"{name}: {note}" for note in more.notes if note not in info.notes]
    info.declared = _both(info.declared, more.declared)


def _both(one: Declared | None, other: Declared | None) -> Declared | None:
    """Return the sizes that two files declare together; None if one declares none, or their bases differ."""
    if one is None or other is None:
        return None
    bases = tuple(base for base in one.bases if base in other.bases)
    if not bases:
        return None
    return Declared(max(one.n_u, other.n_u), max(one.n_v, other.n_v), None, bases, one.binding and other.binding)
