"""Blocks of a partition as Parquet files; the parts of :mod:`papilio.parts` consist of blocks.

A block is a directory with one file for each kind of row:

    starts block    starts.parquet: rank, id, work, stop    entries.parquet: middle (and edge)
    ends block      ends.parquet: rank, id    middles.parquet: rank, id, stop    entries.parquet: end (and edge)
    roots block     u.parquet: id    v.parquet: id    edges.parquet: u, v    roots.parquet: root, work
    maximal block   the files of a roots block    excluded.parquet: row
    cliques block   n.parquet: id    edges.parquet: u, v (and edge)    roots.parquet: root, work

``stop`` is the end of a row's entries in ``entries.parquet``; they begin at the previous row's ``stop``. Columns are
plain and uncompressed, so reading is copying: several threads read row groups straight into the arrays of the block.
Files are sealed (:mod:`papilio.storage.sealed`): a change is detected before the changed bytes are used. Kernels index
memory with these numbers unchecked, so places and offsets are compared with the block's sizes while a row group is in
the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio.errors import StoreError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.parts import Block, CliquePart, EndBlock, Layer, MaximalPart, RootPart, StartBlock
from papilio.storage.edge_files import numbers_of
from papilio.storage.sealed import SealedReader, SealedWriter

PARTITION_ADVICE = "the partition is damaged; create it again"

BlockKind = Literal["starts", "ends", "roots", "maximal", "cliques"]

_KINDS: dict[type[Block], BlockKind] = {
    StartBlock: "starts",
    EndBlock: "ends",
    RootPart: "roots",
    MaximalPart: "maximal",
    CliquePart: "cliques",
}

_ROOTS = {
    "u": {"id": "ids_u"},
    "v": {"id": "ids_v"},
    "edges": {"u": "graph.u", "v": "graph.v"},
    "roots": {"root": "roots", "work": "work"},
}

_LAYOUT: dict[BlockKind, dict[str, dict[str, str]]] = {
    "starts": {
        "starts": {"rank": "rank", "id": "ids", "work": "work", "stop": "indptr"},
        "entries": {"middle": "middles", "edge": "edges"},
    },
    "ends": {
        "ends": {"rank": "rank", "id": "ids"},
        "middles": {"rank": "middle_rank", "id": "middle_ids", "stop": "indptr"},
        "entries": {"end": "ends", "edge": "edges"},
    },
    "roots": _ROOTS,
    "maximal": {**_ROOTS, "excluded": {"row": "excluded"}},
    "cliques": {
        "n": {"id": "ids_n"},
        "edges": {"u": "graph.u", "v": "graph.v", "edge": "edges"},
        "roots": {"root": "roots", "work": "work"},
    },
}
"""The files of each kind of block; for each column of a file, the field of the block stored in it."""

_PLACES_IN: dict[tuple[str, str], str] = {
    ("entries", "end"): "ends",
    ("edges", "u"): "u",
    ("edges", "v"): "v",
}
"""The file that a column's places refer to; in a block of cliques ``n`` stands for both layers. ``root`` and ``row``
refer to the file of the roots' layer.
"""

_LONG = ("work", "stop", "edge")
"""Columns of int64; all others are int32."""

_ROW_GROUP = 1 << 18
"""Rows of a row group, read by one thread at a time: 1 or 2 MB per column. Larger ones only take more memory."""

_FEW_GROUPS = 4
"""Minimum number of row groups per reading thread."""

_PAGE_BYTES = 8 << 20
"""Size of a page; larger pages have fewer headers to read."""

_PAGE_ROWS: dict[str, int] = (
    {"max_rows_per_page": _ROW_GROUP} if "max_rows_per_page" in signature(pq.ParquetWriter).parameters else {}
)
"""Pyarrow versions that limit pages to 20,000 rows by default read such pages at 2.1 GB/s on one core, and full-size
pages at 2.7 GB/s.
"""

_READ_THREADS = 8
"""Maximum number of threads that read one file; more would only wait for memory."""


@dataclass(frozen=True)
class BlockFile:
    """One Parquet file of a block."""

    name: str  # within the directory of the block, such as ``entries.parquet``
    n_rows: int
    n_bytes: int
    digest: str


@dataclass(frozen=True)
class BlockInfo:
    """A block in the manifest; ``name`` is its directory in ``blocks``."""

    name: str
    kind: BlockKind
    layer: Layer
    edges: bool  # whether edge ids are kept
    files: tuple[BlockFile, ...]


def _dtype(column: str) -> type[np.signedinteger[Any]]:
    return np.int64 if column in _LONG else np.int32


def write_block(directory: Path, name: str, block: Block) -> BlockInfo:
    """Write the files of a block into the existing ``directory``; return its manifest entry."""
    kind = _KINDS[type(block)]
    has_edges = not isinstance(block, RootPart) and bool(block.edges.size)
    files = []
    for file, columns in _LAYOUT[kind].items():
        values = {
            column: attrgetter(field)(block)[1 if column == "stop" else 0 :]
            for column, field in columns.items()
            if has_edges or column != "edge"
        }
        files.append(_write_file(directory, file, values))
    return BlockInfo(name, kind, block.layer, has_edges, tuple(files))


def _write_file(directory: Path, name: str, columns: Mapping[str, NDArray[Any]]) -> BlockFile:
    schema = pa.schema([pa.field(key, pa.from_numpy_dtype(v.dtype), nullable=False) for key, v in columns.items()])
    path = directory / f"{name}.parquet"
    n_rows = int(next(iter(columns.values())).size)
    with SealedWriter(
        path,
        schema,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        column_encoding="PLAIN",
        data_page_size=_PAGE_BYTES,
        **_PAGE_ROWS,
    ) as writer:
        for start in range(0, n_rows, _ROW_GROUP):
            pieces = [np.ascontiguousarray(values[start : start + _ROW_GROUP]) for values in columns.values()]
            writer.write(pa.Table.from_arrays([pa.array(piece) for piece in pieces], schema=schema))
    return BlockFile(path.name, n_rows, path.stat().st_size, writer.digest)


class BlockReader:
    """Reads the files of a block of the partition at ``root`` and checks them against the manifest."""

    def __init__(self, filesystem: arrow_fs.FileSystem, root: str, info: BlockInfo) -> None:
        self._filesystem, self._root, self._info = filesystem, f"{root}/blocks/{info.name}", info

    def read_block(self) -> Block:
        """Read the whole block; raises as :meth:`read`."""
        info = self._info
        with_edges = any("edge" in columns for columns in _LAYOUT[info.kind].values())
        fields: dict[str, NDArray[Any]] = {"edges": np.empty(0, np.int64)} if with_edges else {}
        n_rows, ends = 0, {}
        for file, columns in _LAYOUT[info.kind].items():
            found = self.read(file)
            fields |= {columns[column]: values for column, values in found.items()}
            n_rows = int(next(iter(found.values())).size)
            if "stop" in found:
                ends[file] = int(found["stop"][-1])
        for file, end in ends.items():
            if end != n_rows:  # ``end`` of the entries, which come last
                raise self.problem(f"{file}.parquet", f"rows end at entry {end} of {n_rows}")
        if info.kind == "starts":
            return StartBlock(info.layer, **fields)
        if info.kind == "ends":
            return EndBlock(info.layer, **fields)
        u, v = fields.pop("graph.u"), fields.pop("graph.v")
        if info.kind == "cliques":
            return CliquePart(UnipartiteGraph(int(fields["ids_n"].size), u, v), **fields)
        graph = BipartiteGraph(int(fields["ids_u"].size), int(fields["ids_v"].size), u, v)
        part_type = MaximalPart if info.kind == "maximal" else RootPart
        return part_type(info.layer, graph, **fields)

    def problem(self, name: str, what: object) -> StoreError:
        return StoreError(f"{self._root}/{name}: {what}; {PARTITION_ADVICE}")

    def _open(self, entry: BlockFile) -> SealedReader:
        return SealedReader(self._filesystem, f"{self._root}/{entry.name}", entry.digest, PARTITION_ADVICE)

    def _entry(self, name: str) -> BlockFile:
        try:
            return next(file for file in self._info.files if file.name == f"{name}.parquet")
        except StopIteration as error:
            raise self.problem(f"{name}.parquet", "the manifest does not list this file") from error

    def _limit(self, name: str, column: str) -> int | None:
        """Return the number of rows that a column's places refer to; None for a column of ranks, ids or costs."""
        places = self._info.layer if column in ("root", "row") else _PLACES_IN.get((name, column))
        if places is None:
            return None
        return self._entry("n" if self._info.kind == "cliques" else places).n_rows

    def read(self, name: str, only: str | None = None) -> dict[str, NDArray[Any]]:
        """Return the columns of a file, or one of them.

        A column ``stop`` of n rows is returned with a leading zero, as an ``indptr``. Raises StoreError if the file is
        missing, was changed, or contains numbers that are invalid in its block.
        """
        entry, columns = self._entry(name), _LAYOUT[self._info.kind][name]
        types = {key: _dtype(key) for key in columns if self._info.edges or key != "edge"}
        arrays = {
            key: np.empty(entry.n_rows + (key == "stop"), dtype) for key, dtype in types.items() if only in (None, key)
        }
        if "stop" in arrays:
            arrays["stop"][0] = 0
        outputs = [arrays[key][int(key == "stop") :] if key in arrays else None for key in types]
        limits = [self._limit(name, key) for key in types]
        with self._open(entry) as file:
            expected = [pa.from_numpy_dtype(dtype) for dtype in types.values()]
            n_rows, schema = file.metadata.num_rows, file.schema
            if schema.names != list(types) or schema.types != expected or n_rows != entry.n_rows:
                found = ", ".join(f"{field.name} {field.type}" for field in schema)
                raise self.problem(entry.name, f"holds {n_rows} rows of {found}")
            self._read_groups(file, entry, outputs, limits)
        for key in arrays.keys() & {"stop", "rank"}:
            before, after = arrays[key][:-1], arrays[key][1:]
            falls = after < before if key == "stop" else after <= before
            if bool(falls.any()):
                raise self.problem(entry.name, f"the column {key} does not rise at row {int(falls.argmax())}")
        return arrays

    def _read_groups(
        self,
        first: SealedReader,
        entry: BlockFile,
        outputs: list[NDArray[Any] | None],
        limits: list[int | None],
    ) -> None:
        """Read the row groups of an open file in several threads; each thread opens the file again."""
        n_groups = first.metadata.num_row_groups
        starts = np.cumsum([0, *(first.metadata.row_group(index).num_rows for index in range(n_groups))])
        n_threads = max(1, min(_READ_THREADS, pa.cpu_count(), n_groups // _FEW_GROUPS))

        def read_some(thread: int) -> None:
            with nullcontext(first) if thread == 0 else self._open(entry) as file:
                for index in range(thread, n_groups, n_threads):
                    table = file.read(index, use_threads=False)
                    for column, output, limit in zip(table.columns, outputs, limits, strict=True):
                        values = numbers_of(column)
                        if limit is not None and values.size and int(values.view(np.uint32).max()) >= limit:
                            raise self.problem(
                                entry.name,
                                f"holds {values.min()} to {values.max()}; expected 0 to {limit - 1}",
                            )
                        if output is not None:
                            output[starts[index] : starts[index + 1]] = values

        if n_threads == 1:
            return read_some(0)
        with ThreadPoolExecutor(n_threads, thread_name_prefix="papilio-read") as pool:
            list(pool.map(read_some, range(n_threads)))
