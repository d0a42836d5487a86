"""Blocks of a partition as Parquet files: what the parts of :mod:`papilio.parts` are made of.

A block is a directory of a few files, one for each kind of row that it has:

    starts block    starts.parquet: rank, id, work, stop    entries.parquet: middle (and edge)
    ends block      ends.parquet: rank, id    middles.parquet: rank, id, stop    entries.parquet: end (and edge)
    roots block     u.parquet: id    v.parquet: id    edges.parquet: u, v    roots.parquet: root, work

``stop`` is where the entries of a row end in ``entries.parquet``; they begin where those of the row before end.
The columns are plain and not compressed, so that reading is copying: several threads read row groups straight into
the arrays of the block. Each file has a checksum, the sum of its 64-bit words, which costs little beside the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio.errors import StoreError
from papilio.graph import BipartiteGraph
from papilio.parts import EndBlock, Layer, RootPart, StartBlock

__all__ = [
    "BlockFile",
    "BlockInfo",
    "BlockKind",
    "read_end_block",
    "read_root_part",
    "read_start_block",
    "sum_words",
    "write_end_block",
    "write_root_part",
    "write_start_block",
]

BlockKind = Literal["starts", "ends", "roots"]

Columns = Mapping[str, NDArray[Any]]
"""Columns of one file by name, of one length, int32 or int64."""

_ROW_GROUP = 1 << 18
"""Rows of a row group: 1 or 2 MB a column, what one thread reads at a time; larger ones only take more memory."""

_FEW_GROUPS = 4
"""Least row groups for each thread that reads."""

_PAGE_BYTES = 8 << 20
"""Size of a page; larger ones need fewer headers to be read."""

_PAGE_ROWS: dict[str, int] = (
    {"max_rows_per_page": _ROW_GROUP} if "max_rows_per_page" in signature(pq.ParquetWriter).parameters else {}
)
"""Pyarrow that limits the rows of a page to 20,000 unless told otherwise reads these at 2.1 GB/s on one core; pages of
the full size at 2.7."""

_READ_THREADS = 8
"""Largest number of threads that read one file; more than these only wait for memory."""


@dataclass(frozen=True)
class BlockFile:
    """One Parquet file of a block.

    Attributes
    ----------
    name : str
        Name within the directory of the block, such as ``entries.parquet``.
    n_rows : int
    n_bytes : int
        Size of the file in bytes.
    checksum : int
        Sum of the 64-bit words of its columns, modulo 2^64.
    """

    name: str
    n_rows: int
    n_bytes: int
    checksum: int


@dataclass(frozen=True)
class BlockInfo:
    """What a manifest says of a block.

    Attributes
    ----------
    name : str
        Name of its directory in ``blocks``.
    kind : {"starts", "ends", "roots"}
    layer : {"u", "v"}
    edges : bool
        Whether edge ids are kept.
    files : tuple of BlockFile
    """

    name: str
    kind: BlockKind
    layer: Layer
    edges: bool
    files: tuple[BlockFile, ...]


def sum_words(values: NDArray[Any]) -> int:
    """Return the sum of the 64-bit words of a contiguous array, the last one filled up with zeros."""
    raw = values.view(np.uint8)
    whole = raw.size // 8 * 8
    total = int(raw[:whole].view(np.uint64).sum(dtype=np.uint64))
    return (total + int.from_bytes(raw[whole:].tobytes(), "little")) % 2**64


def _row_groups(n_rows: int) -> list[tuple[int, int]]:
    return [(start, min(start + _ROW_GROUP, n_rows)) for start in range(0, n_rows, _ROW_GROUP)]


def _write_file(directory: Path, name: str, columns: Columns) -> BlockFile:
    schema = pa.schema(
        [pa.field(key, pa.from_numpy_dtype(v.dtype), nullable=False) for key, v in columns.items()]
    )
    path = directory / f"{name}.parquet"
    n_rows = {int(values.size) for values in columns.values()}
    if len(n_rows) != 1:
        raise ValueError(f"the columns of {path} have different lengths: {sorted(n_rows)}")
    checksum = 0
    with pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        column_encoding="PLAIN",
        data_page_size=_PAGE_BYTES,
        **_PAGE_ROWS,
    ) as writer:
        for start, stop in _row_groups(n_rows.pop()):
            chunks = [np.ascontiguousarray(values[start:stop]) for values in columns.values()]
            checksum = (checksum + sum(map(sum_words, chunks))) % 2**64
            table = pa.Table.from_arrays([pa.array(chunk) for chunk in chunks], schema=schema)
            writer.write_table(table, row_group_size=_ROW_GROUP)
    return BlockFile(path.name, int(next(iter(columns.values())).size), path.stat().st_size, checksum)


class _BlockReader:
    """Reads the files of one block and checks them against the manifest."""

    def __init__(self, filesystem: arrow_fs.FileSystem, root: str, info: BlockInfo) -> None:
        self._filesystem, self._root, self._info = filesystem, f"{root}/blocks/{info.name}", info

    def _problem(self, name: str, what: object) -> StoreError:
        return StoreError(f"{self._root}/{name}: {what}; the partition is corrupt, make it again")

    def _open(self, name: str, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
        source = self._filesystem.open_input_file(f"{self._root}/{name}")
        return pq.ParquetFile(source, metadata=metadata, pre_buffer=False)

    def read(self, name: str, types: Mapping[str, type[np.signedinteger[Any]]]) -> dict[str, NDArray[Any]]:
        """Return the columns of a file; a column ``stop`` of n rows comes with a zero before it, as an ``indptr``.

        Raises
        ------
        StoreError
            When the file is missing, not readable, or not what the manifest says.
        """
        try:
            entry = next(file for file in self._info.files if file.name == f"{name}.parquet")
        except StopIteration as error:
            raise self._problem(f"{name}.parquet", "the manifest does not list this file") from error
        arrays = {key: np.empty(entry.n_rows + (key == "stop"), dtype=dtype) for key, dtype in types.items()}
        outputs = [array[1:] if key == "stop" else array for key, array in arrays.items()]
        if "stop" in arrays:
            arrays["stop"][0] = 0
        try:
            with self._open(entry.name) as file:
                metadata, schema = file.metadata, file.schema_arrow
            expected = [pa.from_numpy_dtype(dtype) for dtype in types.values()]
            if schema.names != list(types) or schema.types != expected or metadata.num_rows != entry.n_rows:
                found = ", ".join(f"{field.name} {field.type}" for field in schema)
                raise self._problem(entry.name, f"holds {metadata.num_rows} rows of {found}")
            found_sum = self._read_groups(entry.name, metadata, outputs)
        except (pa.ArrowException, OSError) as error:
            raise self._problem(entry.name, f"cannot be read ({error})") from error
        if found_sum != entry.checksum:
            raise self._problem(entry.name, f"has checksum {found_sum}; expected {entry.checksum}")
        return arrays

    def _read_groups(self, name: str, metadata: pq.FileMetaData, outputs: list[NDArray[Any]]) -> int:
        n_groups = metadata.num_row_groups
        starts = np.cumsum([0, *(metadata.row_group(index).num_rows for index in range(n_groups))])
        n_threads = max(1, min(_READ_THREADS, pa.cpu_count(), n_groups // _FEW_GROUPS))

        def read_some(thread: int) -> int:
            checksum = 0
            with self._open(name, metadata) as file:
                for index in range(thread, n_groups, n_threads):
                    table = file.read_row_group(index, use_threads=False)
                    for column, output in zip(table.columns, outputs, strict=True):
                        part = output[starts[index] : starts[index + 1]]
                        part[:] = column.to_numpy()
                        checksum += sum_words(part)
            return checksum

        if n_threads == 1:
            return read_some(0) % 2**64
        with ThreadPoolExecutor(n_threads, thread_name_prefix="papilio-read") as pool:
            return sum(pool.map(read_some, range(n_threads))) % 2**64

    def check_rows(self, name: str, indptr: NDArray[np.int64], n_entries: int) -> None:
        """Check that the rows of ``name`` cover the entries."""
        if int(indptr[-1]) != n_entries:
            raise self._problem(f"{name}.parquet", f"rows end at entry {indptr[-1]} of {n_entries}")


def _entry_types(name: str, edges: bool) -> dict[str, type[np.signedinteger[Any]]]:
    return {name: np.int32, "edge": np.int64} if edges else {name: np.int32}


def _entry_columns(name: str, ids: NDArray[np.int32], edges: NDArray[np.int64]) -> Columns:
    return {name: ids, "edge": edges} if edges.size else {name: ids}


def write_start_block(directory: Path, name: str, block: StartBlock) -> BlockInfo:
    """Write the files of a block of starts into ``directory``, which exists, and return what to record."""
    starts: Columns = {"rank": block.rank, "id": block.ids, "work": block.work, "stop": block.indptr[1:]}
    files = (
        _write_file(directory, "starts", starts),
        _write_file(directory, "entries", _entry_columns("middle", block.middles, block.edges)),
    )
    return BlockInfo(name, "starts", block.layer, bool(block.edges.size), files)


def read_start_block(filesystem: arrow_fs.FileSystem, root: str, info: BlockInfo) -> StartBlock:
    """Read a block of starts of the partition at ``root``.

    Raises
    ------
    StoreError
        When a file is missing, not readable, or not what the manifest says.
    """
    reader = _BlockReader(filesystem, root, info)
    starts = reader.read("starts", {"rank": np.int32, "id": np.int32, "work": np.int64, "stop": np.int64})
    entries = reader.read("entries", _entry_types("middle", info.edges))
    reader.check_rows("starts", starts["stop"], entries["middle"].size)
    edges = entries.get("edge", np.empty(0, np.int64))
    return StartBlock(
        info.layer, starts["rank"], starts["id"], starts["work"], starts["stop"], entries["middle"], edges
    )


def write_end_block(directory: Path, name: str, block: EndBlock) -> BlockInfo:
    """Write the files of a block of ends into ``directory``, which exists, and return what to record."""
    middles: Columns = {"rank": block.middle_rank, "id": block.middle_ids, "stop": block.indptr[1:]}
    files = (
        _write_file(directory, "ends", {"rank": block.rank, "id": block.ids}),
        _write_file(directory, "middles", middles),
        _write_file(directory, "entries", _entry_columns("end", block.ends, block.edges)),
    )
    return BlockInfo(name, "ends", block.layer, bool(block.edges.size), files)


def read_end_block(filesystem: arrow_fs.FileSystem, root: str, info: BlockInfo) -> EndBlock:
    """Read a block of ends of the partition at ``root``; errors as :func:`read_start_block`."""
    reader = _BlockReader(filesystem, root, info)
    ends = reader.read("ends", {"rank": np.int32, "id": np.int32})
    middles = reader.read("middles", {"rank": np.int32, "id": np.int32, "stop": np.int64})
    entries = reader.read("entries", _entry_types("end", info.edges))
    reader.check_rows("middles", middles["stop"], entries["end"].size)
    return EndBlock(
        info.layer,
        ends["rank"],
        ends["id"],
        middles["rank"],
        middles["id"],
        middles["stop"],
        entries["end"],
        entries.get("edge", np.empty(0, np.int64)),
    )


def write_root_part(directory: Path, name: str, part: RootPart) -> BlockInfo:
    """Write the files of a part of roots into ``directory``, which exists, and return what to record."""
    files = (
        _write_file(directory, "u", {"id": part.ids_u}),
        _write_file(directory, "v", {"id": part.ids_v}),
        _write_file(directory, "edges", {"u": part.graph.u, "v": part.graph.v}),
        _write_file(directory, "roots", {"root": part.roots, "work": part.work}),
    )
    return BlockInfo(name, "roots", part.layer, False, files)


def read_root_part(filesystem: arrow_fs.FileSystem, root: str, info: BlockInfo) -> RootPart:
    """Read a part of roots of the partition at ``root``; errors as :func:`read_start_block`."""
    reader = _BlockReader(filesystem, root, info)
    ids_u, ids_v = (reader.read(layer, {"id": np.int32})["id"] for layer in ("u", "v"))
    edges = reader.read("edges", {"u": np.int32, "v": np.int32})
    roots = reader.read("roots", {"root": np.int32, "work": np.int64})
    graph = BipartiteGraph(int(ids_u.size), int(ids_v.size), edges["u"], edges["v"])
    return RootPart(info.layer, graph, ids_u, ids_v, roots["root"], roots["work"])
