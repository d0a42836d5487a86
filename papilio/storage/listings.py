"""Listings: directories of Parquet files whose rows are motifs, and the shards of single leases.

    _listing.json         the question, the number of rows, the files with their digests; marks a listing
    part-00000.parquet    columns u and v, or n for a unipartite graph: lists of fixed or variable length, the names of
    the
                          vertices of one motif in each row; of pairs with numbers source and target, and the numbers

A listing is written into a temporary sibling and renamed into place: it is whole or absent. The Parquet metadata of
every file holds the content hash of the graph (``papilio.graph_hash``), the motif (``papilio.motif``, JSON) and the
limits of the listing (``papilio.listing``, JSON).

Files of rows of motifs: Parquet, a row group for each block of rows, whose labels readers see as lists.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from papilio.errors import GraphError, StoreError
from papilio.graph import RowColumn
from papilio.motifs import Listing, Motif
from papilio.storage.edge_files import numbers_of
from papilio.storage.files import atomic_directory, atomic_file
from papilio.storage.parquet_lists import MAGIC, Group, ListPacker, Packed, make_footer
from papilio.storage.records import (
    digest_file,
    read_json,
    read_record,
    require_digest,
    require_format,
    seal_json,
)
from papilio.storage.sealed import unreadable_named
from papilio.storage.vertex_names import LayerNames
from papilio.system_errors import explain
from papilio.version import __version__

RowSizes = Mapping[str, int | None]
"""Columns of a listing, and the number of vertices of each in a row; None for a variable number."""


Numbers = Mapping[str, str]
"""Columns of numbers of pairs, and their Arrow types."""

PAIR_COLUMNS = ["source", "target"]
"""Columns of the two vertices of a pair with numbers, as NetworkX and Papilio find them in a table."""


def row_schema(
    names: LayerNames, sizes: RowSizes, question: Mapping[str, Any], numbers: Numbers | None = None
) -> pa.Schema:
    """Return the schema that readers see; of ``names`` only the types count. ``question`` is the job's."""
    # Text of a column is short enough for ``string``, the text of all names may be not.
    kinds = {layer: pa.string() if names[layer].type == pa.large_string() else names[layer].type for layer in sizes}
    if numbers:
        (layer,) = sizes
        fields = _pair_fields(kinds[layer], numbers)
    else:
        fields = [_list_field(layer, kinds[layer], size) for layer, size in sizes.items()]
    metadata = {
        "papilio.graph_hash": question["graph"],
        "papilio.motif": json.dumps(question["motif"], sort_keys=True),
        "papilio.listing": json.dumps(question["listing"], sort_keys=True),
    }
    return pa.schema(fields, metadata=metadata)


def _pair_fields(kind: pa.DataType, numbers: Numbers) -> list[pa.Field]:
    types = dict.fromkeys(PAIR_COLUMNS, kind) | {name: pa.type_for_alias(of) for name, of in numbers.items()}
    return [pa.field(name, of, nullable=False) for name, of in types.items()]


NEIGHBOURS = "neighbours"
"""Column of the common neighbours of a pair."""


def pair_schema(names: NDArray[Any], numbers: Numbers, others: NDArray[Any] | None = None) -> pa.Schema:
    """Return the schema of pairs of vertices called ``names``, with numbers; errors as :func:`list_schema`.

    ``others`` are the names of the common neighbours, if they are listed.
    """
    fields = _pair_fields(_element_type(names), numbers)
    return pa.schema(fields if others is None else [*fields, neighbours_field(others)])


def neighbours_field(names: NDArray[Any]) -> pa.Field:
    """Return the field of lists of common neighbours called ``names``; errors as :func:`list_schema`."""
    return _list_field(NEIGHBOURS, _element_type(names), None)


def pair_batch(
    names: NDArray[Any], columns: Sequence[Any], schema: pa.Schema, others: NDArray[Any] | None = None
) -> pa.RecordBatch:
    """Return pairs, two columns of positions in the names and numbers, as Arrow arrays of :func:`pair_schema`.

    With ``others`` the last column has offsets, and positions in these names.
    """
    source, target, *numbers = columns
    lists = [] if others is None else [_list_array(others, numbers.pop(), schema.field(NEIGHBOURS))]
    flat = zip((names[source], names[target], *numbers), schema, strict=not lists)
    arrays = [pa.array(each, field.type) for each, field in flat]
    return pa.RecordBatch.from_arrays([*arrays, *lists], schema=schema)


FindLists = Callable[..., Iterator[tuple[slice, tuple[NDArray[np.int64], NDArray[np.int32]]]]]
"""Returns common neighbours of pairs: see :class:`papilio.kernels.project.common.CommonNeighbours`."""


def add_neighbours(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    labels: pa.ChunkedArray | None,
    others: NDArray[Any],
    find: FindLists,
) -> Iterator[pa.RecordBatch]:
    """Yield pairs with the lists of their common neighbours, called ``others``, in a last column of this schema.

    ``labels`` are those of the vertices by id, None if the pairs have ids.
    """
    for batch in batches:
        ends = [_ids_of(batch.column(name), labels) for name in PAIR_COLUMNS]
        for part, lists in find(*ends, batch.column("common").to_numpy()):
            rows = batch.slice(part.start, part.stop - part.start)
            column = _list_array(others, lists, schema.field(NEIGHBOURS))
            yield pa.RecordBatch.from_arrays([*rows.columns, column], schema=schema)


def _ids_of(column: pa.Array, labels: pa.ChunkedArray | None) -> NDArray[np.int32]:
    """Return the ids of vertices; StoreError for a label that no vertex has."""
    if labels is None:
        return numbers_of(column)
    import pyarrow.compute as pc  # slow to import, and only needed for labels

    places = pc.index_in(column, value_set=labels)
    if places.null_count:
        raise StoreError("the graph has lost labels of listed vertices while it was read; read it again")
    return numbers_of(places)


def _list_field(layer: str, kind: pa.DataType, size: int | None) -> pa.Field:
    element = pa.field("element", kind, nullable=False)
    return pa.field(layer, pa.list_(element) if size is None else pa.list_(element, size), nullable=False)


def _element_type(names: NDArray[Any]) -> pa.DataType:
    try:
        return pa.array(names[:1] if names.dtype.kind != "O" else names.tolist()).type if names.size else pa.int32()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise GraphError(f"labels have no common Arrow type ({error}); iterate the rows instead") from error


def list_schema(layers: Sequence[str], names: Sequence[Any], sizes: Sequence[int | None]) -> pa.Schema:
    """Return the schema of rows whose vertices have ``names``: arrays of labels or ids; GraphError as below."""
    return pa.schema(
        [_list_field(layer, _element_type(of), size) for layer, of, size in zip(layers, names, sizes, strict=True)]
    )


def batch_of(names: Sequence[NDArray[Any]], columns: Sequence[RowColumn], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of positions in the names of each column as Arrow arrays of the schema of :func:`list_schema`."""
    arrays = []
    for of, column, field in zip(names, columns, schema, strict=True):
        if isinstance(column, tuple):
            arrays.append(_list_array(of, column, field))
        else:
            values = pa.array(of[column.ravel()], field.type.value_type)
            arrays.append(pa.FixedSizeListArray.from_arrays(values, type=field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _list_array(names: NDArray[Any], column: tuple[NDArray[Any], NDArray[Any]], field: pa.Field) -> pa.ListArray:
    """Return lists of names, given by offsets and positions."""
    offsets, places = column
    values = pa.array(names[places], field.type.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, field.type)


def table_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return batches as one table."""
    return pa.Table.from_batches(batches, schema)


class RowFile:
    """A file written by one thread at a time; it becomes visible when it is sealed and published."""

    def __init__(self, path: Path, names: Sequence[pa.Array | None], schema: pa.Schema) -> None:
        self.path, self.rows = path, 0
        self._names, self._schema = names, schema
        self._packer, self._groups = ListPacker(), list[Group]()
        self._hash, self._size = xxhash.xxh3_128(), 0
        with ExitStack() as stack:
            self._file = stack.enter_context(stack.enter_context(atomic_file(path)).open("wb"))
            self._append(MAGIC)
            self._stack = stack.pop_all()

    def write(self, rows: Sequence[RowColumn], names: Sequence[pa.Array | None] | None = None) -> None:
        """Add a row group, with a column of positions in the names or of numbers for each column of the schema.

        By default ``names`` are the names of the file.
        """
        begin, chunks = self._size, []
        for names_of, column in zip(names or self._names, rows, strict=True):
            parts, sizes = self._pack(names_of, column)
            for part in parts:
                self._append(part)
            chunks.append(sizes)
        n_rows = count_rows(rows[0])
        self._groups.append(Group(begin, n_rows, chunks))
        self.rows += n_rows

    def _pack(self, names: pa.Array | None, column: RowColumn) -> Packed:
        if isinstance(column, tuple) or column.ndim == 2:
            offsets, places = _with_offsets(column)
            return self._packer.pack(names, places, offsets)
        if column.dtype.kind == "f":
            return self._packer.pack_values(column)
        if names is None:
            low = min(int(column.min(initial=0)), 0)
            names = pa.array(np.arange(low, int(column.max(initial=0)) + 1, dtype=np.int32))
            return self._packer.pack(names, column - np.int32(low))
        return self._packer.pack(names, column)

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
        """Make the file visible."""
        self._stack.close()

    def drop(self) -> None:
        """Remove all remains; safe after the other methods, even if they failed."""
        with suppress(_Dropped, StoreError), self._stack:
            raise _Dropped
        self.path.unlink(missing_ok=True)


def count_rows(column: RowColumn) -> int:
    """Return the number of rows of a column."""
    return len(column[0]) - 1 if isinstance(column, tuple) else len(column)


def _with_offsets(column: RowColumn) -> Any:
    if isinstance(column, tuple):
        return column
    n_rows, size = column.shape
    return np.arange(n_rows + 1, dtype=np.int64) * size, column.ravel()


def flat_pairs(rows: Sequence[RowColumn]) -> Sequence[Any]:
    """Return pairs with numbers as a column for each vertex, and the numbers."""
    pairs, *numbers = rows
    assert not isinstance(pairs, tuple), "a pair has two vertices"
    return pairs[:, 0], pairs[:, 1], *numbers


class _Dropped(Exception):
    """Raised to end the block before it makes a file visible."""


LISTING_NAME = "_listing.json"

FORMAT, FORMAT_VERSION = "papilio-listing", 2

_ADVICE = "the listing is damaged: remove it, or choose another directory"


@dataclass(frozen=True)
class ListingShard:
    """A file of rows, with the ``digest`` of its bytes."""

    path: str
    digest: str
    rows: int
    n_bytes: int


@dataclass(frozen=True)
class _File:
    name: str
    rows: int
    bytes: int
    digest: str


@dataclass(frozen=True)
class _Description:
    may_grow: ClassVar[bool] = True

    version: str
    graph: str
    motif: Motif
    listing: Listing
    rows: int
    limit_reached: bool
    files: tuple[_File, ...]


class ListingWriter:
    """Writes rows to one file per writing thread, a row group for each block; a context manager.

    The files ``<stem>-0.parquet``, ``<stem>-1.parquet`` ..., in an existing local directory, become visible if the
    block succeeds; else nothing is left. Any number of threads may write at once. ``names`` has the names for the
    positions in a row, ``question`` is the question of the job, see ``JobSpec.identity``. With ``numbers``, rows are
    pairs of one layer, and each number has a column.
    """

    def __init__(
        self,
        stem: str | os.PathLike[str],
        names: LayerNames,
        sizes: RowSizes,
        question: Mapping[str, Any],
        numbers: Numbers | None = None,
    ) -> None:
        self.shards: tuple[ListingShard, ...] = ()
        self._stem, self._names = Path(stem), [names[layer] for layer in sizes]
        self._schema = row_schema(names, sizes, question, numbers)
        self._flat = bool(numbers)
        if numbers:
            self._names = [*self._names, *self._names, *(None for _ in numbers)]
        self._files: dict[int, RowFile] = {}
        self._idle: deque[RowFile] = deque()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def write(self, *rows: RowColumn, part: int | None = None) -> None:
        """Add rows, with a column of positions in the names for each of the sizes.

        They go to the file with number ``part``, used by one thread at a time, or to any free file. Raises StoreError
        if they cannot be written or the directory is gone, because the reader of the rows has ended.
        """
        if not self._stem.parent.is_dir():
            raise StoreError(f"{self._stem.parent} does not exist; its listing has ended")
        try:
            file = self._file(part)
            file.write(flat_pairs(rows) if self._flat else rows)
        except OSError as error:
            raise StoreError(_cannot_write(self._stem, error)) from error
        if part is None:
            self._idle.append(file)

    def _file(self, number: int | None) -> RowFile:
        with self._lock:
            if number is None and self._idle:
                return self._idle.popleft()
            number = len(self._files) if number is None else number
            if number not in self._files:
                path = self._stem.with_name(f"{self._stem.name}-{number}.parquet")
                self._files[number] = RowFile(path, self._names, self._schema)
            return self._files[number]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        files = [file for _, file in sorted(self._files.items())]
        try:
            if error is None:
                digests = [file.seal() for file in files]
                for file in files:
                    file.publish()
                self.shards = tuple(
                    ListingShard(str(file.path), digest, file.rows, file.path.stat().st_size)
                    for file, digest in zip(files, digests, strict=True)
                )
        except OSError as problem:
            raise StoreError(_cannot_write(self._stem, problem)) from problem
        finally:
            if not self.shards:
                for file in files:
                    file.drop()


def _cannot_write(stem: Path, error: OSError) -> str:
    return f"{stem}: rows cannot be written {explain(error)}"


_CHECK_THREADS = 8
"""Maximum number of files read at once for a check."""


def check_listing_shards(shards: Sequence[ListingShard]) -> None:
    """Check files as :func:`check_listing_shard` does, several at once."""
    if shards:
        with ThreadPoolExecutor(min(len(shards), _CHECK_THREADS)) as pool:
            list(pool.map(check_listing_shard, shards))


def check_listing_shard(shard: ListingShard) -> None:
    """Check that a file is unchanged and complete; reads it once.

    Raises StoreError if the file is missing or unreadable, or its digest or number of rows differs.
    """
    path, advice = Path(shard.path), "run the lease again"
    with unreadable_named(shard.path, advice):
        require_digest(digest_file(path), shard.digest, shard.path, advice)
        rows = pq.read_metadata(path).num_rows
    if rows != shard.rows:
        raise StoreError(f"{path} has {rows} rows; expected {shard.rows}: {advice}")


def count_missing_rows(paths: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of rows of ``paths`` missing from ``others``, as multisets."""
    query = "SELECT count(*) FROM (SELECT * FROM read_parquet(?) EXCEPT ALL SELECT * FROM read_parquet(?))"
    import duckdb  # machines that only count have none

    from papilio.storage.disk_sort import connect

    try:
        with connect() as connection:
            row = connection.execute(query, [list(paths), list(others)]).fetchone()
    except duckdb.Error as error:
        raise StoreError(f"{paths[0]} ... cannot be compared with {others[0]} ... ({error})") from error
    assert row is not None
    return int(row[0])


def read_listing(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return ``_listing.json`` of a listing, or None if ``path`` is not a listing.

    Raises StoreError if it cannot be read, was changed, or has another version.
    """
    name = Path(path) / LISTING_NAME
    try:
        data = read_json(name, _ADVICE)
    except FileNotFoundError:
        return None
    listing = require_format(data, str(name), FORMAT, FORMAT_VERSION, "a listing", _ADVICE)
    read_record(_Description, listing, str(name), _ADVICE)
    return listing


def check_listing(path: str | os.PathLike[str], listing: Mapping[str, Any]) -> None:
    """Check the files that a listing at ``path`` describes; errors as :func:`check_listing_shard`."""
    check_listing_shards(
        [
            ListingShard(str(Path(path, each["name"])), each["digest"], each["rows"], each["bytes"])
            for each in listing["files"]
        ]
    )


def write_listing(
    path: str | os.PathLike[str],
    shards: Sequence[ListingShard],
    *,
    question: Mapping[str, Any],
    names: LayerNames,
    sizes: RowSizes,
    limit: int | None,
    limit_reached: bool,
    keep_shards: bool,
    overwrite: bool = False,
    numbers: Numbers | None = None,
) -> dict[str, Any]:
    """Make a listing of the first ``limit`` rows of shards; return its ``_listing.json``.

    ``path`` does not exist, or is empty; or it is a listing, with ``overwrite``. The shards become the files of the
    listing, moved, or linked (copied, from another file system) where ``keep_shards``. The file with the last row is
    rewritten if the limit cuts it. ``question``, ``names``, ``sizes`` and ``numbers`` are as for
    :class:`ListingWriter`; only the types of ``names`` matter. Raises StoreError if it cannot be written or ``path`` is
    occupied; then nothing is left, but shards may have been moved.
    """
    rows = 0
    files: list[dict[str, Any]] = []
    with atomic_directory(path, overwrite, LISTING_NAME) as scratch:
        try:
            for shard in shards:
                wanted = shard.rows if limit is None else min(shard.rows, limit - rows)
                if wanted == 0:
                    break
                part = scratch / f"part-{len(files):05d}.parquet"
                digest = shard.digest
                if wanted < shard.rows:
                    digest = _copy_rows(Path(shard.path), part, wanted)
                else:
                    _place(Path(shard.path), part, keep_shards)
                files.append(_describe(part, wanted, digest))
                rows += wanted
            if not files:
                part = scratch / "part-00000.parquet"
                pq.write_table(row_schema(names, sizes, question, numbers).empty_table(), part)
                files.append(_describe(part, 0, digest_file(part)))
            listing = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "version": __version__,
                **question,
                "rows": rows,
                "limit_reached": limit_reached,
                "files": files,
            }
            (scratch / LISTING_NAME).write_text(seal_json(listing, indent=2), encoding="utf-8")
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{os.fspath(path)}: the listing cannot be written {explain(error)}") from error
    return listing


def _describe(part: Path, rows: int, digest: str) -> dict[str, Any]:
    return {"name": part.name, "rows": rows, "bytes": part.stat().st_size, "digest": digest}


def _place(shard: Path, part: Path, keep: bool) -> None:
    if not keep:
        shard.rename(part)
        return
    try:
        part.hardlink_to(shard)
    except OSError:
        shutil.copyfile(shard, part)


def read_numbers(shards: Sequence[ListingShard], name: str) -> Iterator[NDArray[Any]]:
    """Yield a column of numbers of shards in batches; StoreError if a file cannot be read."""
    for shard in shards:
        with unreadable_named(shard.path, "run the lease again"), pq.ParquetFile(shard.path) as file:
            for batch in file.iter_batches(columns=[name]):
                yield batch.column(0).to_numpy()


def _read_groups(path: str) -> Iterator[pa.Table]:
    """Yield the row groups of a shard, text as dictionaries."""
    with (
        unreadable_named(path, "run the lease again"),
        pq.ParquetFile(path, read_dictionary=PAIR_COLUMNS) as file,
    ):
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)


def _take_kept(column: pa.ChunkedArray, kept: NDArray[np.bool_]) -> tuple[NDArray[Any], pa.Array | None]:
    """Return the kept numbers of a column; for labels, their kept positions and the labels."""
    array = column.combine_chunks()
    if column.type in (pa.string(), pa.int64()):
        array = array.dictionary_encode()
    if not pa.types.is_dictionary(array.type):
        return array.to_numpy()[kept], None
    return array.indices.to_numpy()[kept], array.dictionary


def choose_rows(
    shards: Sequence[ListingShard],
    directory: Path,
    by: str,
    name: str,
    choose: Callable[[NDArray[Any]], tuple[NDArray[np.float64], NDArray[np.bool_]]],
    threads: int,
) -> list[ListingShard]:
    """Write selected rows of shards to new files in a directory, with one row group of each in memory.

    ``choose`` receives distinct values of the column ``by``, and returns the values of an additional column ``name``
    and whether to keep their rows; any thread may call it. Raises StoreError if a file cannot be read or written.
    """

    def rewrite(number: int) -> ListingShard | None:
        target, schema = directory / f"chosen-{number}.parquet", pq.read_schema(shards[number].path)
        schema = schema.append(pa.field(name, pa.float64(), nullable=False))
        written = RowFile(target, [None] * len(schema), schema)
        try:
            for table in _read_groups(shards[number].path):
                encoded = table.column(by).combine_chunks().dictionary_encode()
                values, kept = (each[encoded.indices] for each in choose(encoded.dictionary.to_numpy()))
                columns, labels = zip(*(_take_kept(column, kept) for column in table.columns), strict=True)
                if columns[0].size:
                    written.write((*columns, values[kept]), (*labels, None))
            digest = written.seal()
            written.publish()
        except OSError as error:
            raise StoreError(_cannot_write(target, error)) from error
        finally:
            if not target.exists():
                written.drop()
        return ListingShard(str(target), digest, written.rows, target.stat().st_size) if written.rows else None

    with ThreadPoolExecutor(threads) as pool:
        return [shard for shard in pool.map(rewrite, range(len(shards))) if shard is not None]


def _copy_rows(shard: Path, part: Path, wanted: int) -> str:
    """Write the first rows of a shard to another file, one row group in memory; return its digest."""
    with (
        pq.ParquetFile(shard) as file,
        pq.ParquetWriter(part, file.schema_arrow, compression="zstd") as writer,
    ):
        group = 0
        while wanted:
            table = file.read_row_group(group).slice(0, wanted)
            writer.write_table(table)
            wanted -= table.num_rows
            group += 1
    return digest_file(part)
