"""Reading edges from Parquet files: one, or those of a table that Spark, Dask or Hive wrote into a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs

from papilio.errors import InputError
from papilio.storage.column_choice import choose_columns
from papilio.storage.formats import LabelType, ReadOptions, SourceInfo, describe_columns, raw_schema
from papilio.storage.sealed import DECODING_ERRORS

_CHUNK_ROWS = 1 << 20
"""Rows read at a time."""


class ParquetSource:
    """The edges of Parquet files, from the columns that :mod:`papilio.storage.column_choice` finds.

    Integer columns give integer labels; strings (plain or dictionary-encoded) give text. A column with a usual name of
    times orders duplicates. Directories of the form ``year=2024`` below ``root`` are columns, too. ``names`` are for
    messages; ``on_read`` is told the fraction read so far, times the size of the files in bytes.
    """

    def __init__(
        self,
        filesystem: arrow_fs.FileSystem,
        paths: Sequence[str],
        names: Sequence[str],
        options: ReadOptions,
        root: str = "",
        n_bytes: int = 0,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self._names = dict(zip(paths, names, strict=True))
        self._name = names[0]
        self._options = options
        self._n_bytes = n_bytes
        self._on_read = on_read
        self._fragments = _fragments(filesystem, paths, self._names, root)
        self._schema = self._unified()
        self._columns = self._choose(self._schema)
        kinds = [self._label_type(self._schema.field(column)) for column in self._columns[:2]]
        if not options.bipartite and "text" in kinds:
            kinds = ["text", "text"]
        self.info = SourceInfo("parquet", (kinds[0], kinds[1]), self._time_type(self._schema))
        self.info.layout = {"columns": list(self._columns)}
        describe_columns(
            self.info, self._schema.names, len(self._schema.names), self._chosen, options.sign is not None
        )

    def _unified(self) -> pa.Schema:
        """Return the columns of all files; InputError for a file whose columns are not those of the others."""
        first = self._fragments[0][1]
        found = first
        for fragment, schema in self._fragments[1:]:
            name = self._names[fragment.path]
            missing = [column for column in first.names if column not in schema.names]
            if missing:
                raise InputError(
                    f"{name} has no column {missing[0]}, which {self._name} has; convert it by itself"
                )
            try:
                found = pa.unify_schemas([found, schema], promote_options="permissive")
            except pa.ArrowException as error:
                raise InputError(f"{name} and {self._name} do not go together ({error})") from error
        return found

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
        rows = sum(fragment.metadata.num_rows for fragment, _ in self._fragments)
        done = 0
        for fragment, _ in self._fragments:
            name, before = self._names[fragment.path], done
            said = pads.get_partition_keys(fragment.partition_expression)
            held = [column for column in self._columns if column in fragment.physical_schema.names]
            with _damage_named(name):
                file = pq.ParquetFile(
                    fragment.path, filesystem=fragment.filesystem, page_checksum_verification=True
                )
            with file:
                batches = file.iter_batches(_CHUNK_ROWS, columns=held)
                while True:
                    with _damage_named(name, f"cannot be read from row {done - before} on"):
                        batch = next(batches, None)
                        if batch is None:
                            break
                        columns = [
                            batch.column(column)
                            if column in held
                            else pa.repeat(
                                pa.scalar(said[column], self._schema.field(column).type), batch.num_rows
                            )
                            for column in self._columns
                        ]
                        edges = self._edges(columns, name, done - before)
                    yield edges
                    done += batch.num_rows
                    if self._on_read is not None:
                        self._on_read(self._n_bytes * done // max(rows, 1))

    def _edges(self, columns: list[pa.Array], name: str, start: int) -> pa.RecordBatch:
        """Return the edges of rows of a file, from the row ``start`` on, given their columns."""
        for title, column in zip(self._columns, columns, strict=True):
            column.validate(full=True)  # text of damaged files may be no UTF-8
            if column.null_count:
                raise InputError(
                    f"{name}: column {title} has {column.null_count} missing values "
                    f"in rows {start} to {start + len(column) - 1}; remove them"
                )
        if self._options.sign is not None:
            columns[2] = self._signs(columns[2])
        schema = raw_schema(self.info, self._options.sign is not None)
        arrays = [column.cast(f.type) for column, f in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

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


def _fragments(
    filesystem: arrow_fs.FileSystem, paths: Sequence[str], names: dict[str, str], root: str
) -> list[tuple[pads.ParquetFileFragment, pa.Schema]]:
    """Return the files with their columns, those that their directories say included."""
    with _damage_named(names[paths[0]]):
        dataset = pads.dataset(
            list(paths),
            format="parquet",
            filesystem=filesystem,
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
    """Turn what pyarrow raises about a damaged file into an InputError."""
    try:
        yield
    except DECODING_ERRORS as error:
        raise InputError(f"{name} {what} ({error})") from error
