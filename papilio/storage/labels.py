"""Labels of vertices: dense ids from integer labels, label files, and translation between ids and labels.

Files ``labels_u.parquet`` and ``labels_v.parquet`` map dense id -> original label. No vertex becomes a Python object.

Ids follow the numerical order of integer labels, without a join. While edges are read, a table of marks records which
labels occur. Then one of two maps is used:

* an offset, if the labels are an interval, or lie within the sizes declared by a header (declared vertices without an
  edge are kept, isolated);
* a table of ranks, if there are gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio.errors import CapacityError, GraphError, InputError, StoreError
from papilio.graph import MAX_VERTICES
from papilio.storage.edge_files import STORE_ADVICE
from papilio.storage.sealed import SealedReader, SealedWriter, schema_of

if TYPE_CHECKING:
    from papilio.storage.formats import Declared


BYTES_PER_LABEL = 5
"""A mark of one byte and a rank of four, for every integer up to the largest label."""

_CHUNK_LABELS = 1 << 20


class LabelTracker:
    """The integer labels that occur in a layer; ``max_labels`` is the size of the largest table.

    Of larger labels and negative ones, only the range is recorded.
    """

    def __init__(self, max_labels: int) -> None:
        self._max_labels = min(max_labels, 2**31 - 1)
        self.smallest: int | None = None
        self.largest: int | None = None
        self.marks: NDArray[np.bool_] | None = np.zeros(1024, np.bool_)

    def add(self, labels: NDArray[np.int64]) -> None:
        """Record labels, shape (k,)."""
        if not labels.size:
            return
        low, high = int(labels.min()), int(labels.max())
        self.smallest = low if self.smallest is None else min(self.smallest, low)
        self.largest = high if self.largest is None else max(self.largest, high)
        if self.marks is None:
            return
        if low < 0 or high >= self._max_labels:
            self.marks = None
            return
        if high >= self.marks.size:
            marks = np.zeros(min(max(high + 1, 2 * self.marks.size), self._max_labels), np.bool_)
            marks[: self.marks.size] = self.marks
            self.marks = marks
        self.marks[labels] = True


@dataclass(frozen=True)
class OffsetMap:
    """Labels that start at ``base``, the label of vertex 0: id = label - base."""

    base: int
    size: int
    nbytes = 0

    @property
    def is_identity(self) -> bool:
        return self.base == 0

    def describe(self) -> str:
        """Return how ids are derived from labels, for the provenance."""
        return "labels" if self.base == 0 else f"labels minus {self.base}"

    def ids(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        return labels if self.base == 0 else labels - np.int32(self.base)

    def label(self, vertex: int) -> int:
        return vertex + self.base

    def labels(self) -> Iterator[NDArray[np.int64]]:
        """Yield all labels in id order, in parts."""
        for start in range(0, self.size, _CHUNK_LABELS):
            stop = min(start + _CHUNK_LABELS, self.size)
            yield np.arange(start + self.base, stop + self.base, dtype=np.int64)


class TableMap:
    """Labels with gaps: the id of a label is its rank among the labels marked in ``marks``."""

    is_identity = False

    def __init__(self, marks: NDArray[np.bool_]) -> None:
        self._marks = marks
        self._rank = np.cumsum(marks, dtype=np.int32)
        self._rank -= 1
        self.size = int(self._rank[-1]) + 1 if marks.size else 0
        self.nbytes = self._rank.nbytes + marks.nbytes

    def describe(self) -> str:
        return "ranks of integer labels"

    def ids(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        return self._rank[labels]

    def label(self, vertex: int) -> int:
        return int(np.searchsorted(self._rank, vertex))

    def labels(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, self._marks.size, _CHUNK_LABELS):
            yield np.flatnonzero(self._marks[start : start + _CHUNK_LABELS]) + start


IdMap = OffsetMap | TableMap
"""Dense ids of integer labels, in numerical order; arrays of labels and ids have shape (k,)."""


def dense_map(tracker: LabelTracker) -> IdMap | None:
    """Return the map without gaps between the labels seen, or None if they are too widespread."""
    if tracker.smallest is None or tracker.largest is None:
        return OffsetMap(0, 0)
    if tracker.marks is None:
        return None
    marks = tracker.marks[: tracker.largest + 1]
    count = int(np.count_nonzero(marks))
    if count == tracker.largest - tracker.smallest + 1:
        return OffsetMap(tracker.smallest, count)
    return TableMap(marks)


def declared_maps(
    name: str, declared: Declared, trackers: tuple[LabelTracker, LabelTracker]
) -> tuple[OffsetMap, OffsetMap] | None:
    """Return the maps that keep all labels within the declared sizes, or None if some label does not fit.

    Both layers count from the same base, the first of ``declared.bases`` that fits. Raises InputError instead of
    returning None if the sizes are binding.
    """
    sizes = (declared.n_u, declared.n_v)
    for base in declared.bases:
        if all(
            t.smallest is None or t.largest is None or (t.smallest >= base and t.largest < base + size)
            for t, size in zip(trackers, sizes, strict=True)
        ):
            return OffsetMap(base, sizes[0]), OffsetMap(base, sizes[1])
    if not declared.binding:
        return None
    found = " and ".join(f"{t.smallest} to {t.largest}" for t in trackers)
    raise InputError(
        f"{name} declares {sizes[0]} and {sizes[1]} vertices and holds ids {found}; correct the header, "
        "or force another format, such as edges, if its first line is an edge"
    )


_ROW_GROUP_LABELS = 1 << 20
"""Labels of a row group; limits memory while writing."""


def label_file(layer: str) -> str:
    """Return the name of the label file of layer ``"u"`` or ``"v"``."""
    return f"labels_{layer}.parquet"


def label_type(labels: NDArray[Any]) -> pa.DataType:
    """Return the Arrow type that stores labels, int64 or string; raise GraphError if they are neither."""
    kind = labels.dtype.kind
    if kind in "iu" and not (labels.dtype == np.uint64 and labels.size and int(labels.max()) >= 2**63):
        return pa.int64()
    if kind in "US" or (kind == "O" and all(isinstance(label, str) for label in labels)):
        return pa.string()
    raise GraphError(
        f"labels have dtype {labels.dtype}, and a store can only hold integers below 2^63 or strings: convert them "
        "to strings first"
    )


def write_labels(path: Path, batches: Iterable[NDArray[Any] | pa.Array], kind: pa.DataType) -> int:
    """Write batches of labels, shape (k,), in id order; return the number of labels."""
    schema = schema_of({"id": pa.int32(), "label": kind})
    encoding = {"id": "DELTA_BINARY_PACKED"}
    if kind == pa.int64():
        encoding["label"] = "DELTA_BINARY_PACKED"
    count = 0
    with SealedWriter(path, schema, compression="zstd", use_dictionary=False, column_encoding=encoding) as writer:
        writer.write(schema.empty_table())
        for batch in batches:
            for start in range(0, len(batch), _ROW_GROUP_LABELS):
                if count + len(batch) > MAX_VERTICES:
                    raise CapacityError(f"{path.name} has more than {MAX_VERTICES} labels; ids are int32")
                part = batch[start : start + _ROW_GROUP_LABELS]
                ids = pa.array(np.arange(count, count + len(part), dtype=np.int32))
                values = part.cast(kind) if isinstance(part, pa.Array) else pa.array(part, type=kind)
                writer.write(pa.Table.from_arrays([ids, values], schema=schema))
                count += len(part)
    return count


def read_label(path: Path, vertex: int) -> Any:
    """Return one label of a label file, an int or a str; reads only the row groups that can contain its id."""
    return pq.read_table(path, columns=["label"], filters=[("id", "=", vertex)]).column(0)[0].as_py()


def read_label_column(
    filesystem: arrow_fs.FileSystem, root: str, layer: str, size: int, digest: str
) -> pa.ChunkedArray:
    """Read the labels of a layer of ``size`` vertices, in id order: int64 or string.

    Raises StoreError if the file is missing, was changed, or has another size.
    """
    with SealedReader(filesystem, f"{root}/{label_file(layer)}", digest, STORE_ADVICE) as file:
        table = pa.concat_tables([file.schema.empty_table(), *file])
    if table.column_names != ["id", "label"] or table.num_rows != size:
        raise StoreError(
            f"{file.name} has columns {', '.join(table.column_names)} and {table.num_rows} rows; "
            f"expected id, label and {size} rows: {STORE_ADVICE}"
        )
    return table.column("label")


_MAX_TEXT_BYTES = 2**31 - 1
"""Largest array of type ``string``: its offsets are int32."""


def join_labels(column: pa.ChunkedArray) -> pa.Array:
    """Return labels as one array, from which rows are taken without copying all of them.

    Text too long for an array of ``string`` becomes ``large_string``.
    """
    if column.type == pa.string() and column.nbytes > _MAX_TEXT_BYTES:
        column = column.cast(pa.large_string())
    return column.combine_chunks()


def take_labels(labels: pa.Array, ids: pa.Array) -> pa.Array:
    """Return the labels of some vertices; ``large_string`` becomes ``string`` if an array of that type holds them."""
    taken = labels.take(ids)
    is_short = taken.type == pa.large_string() and taken.nbytes <= _MAX_TEXT_BYTES
    return taken.cast(pa.string()) if is_short else taken
