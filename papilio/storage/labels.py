"""Label files ``labels_u.parquet`` and ``labels_v.parquet``: dense id -> original label."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio.errors import CapacityError, GraphError, StoreError
from papilio.graph import MAX_VERTICES
from papilio.storage.manifest import STORE_ADVICE
from papilio.storage.sealed import SealedReader, SealedWriter
from papilio.storage.tables import schema_of

_ROW_GROUP_LABELS = 1 << 20
"""Labels of a row group; a bound of memory while writing."""


def label_file(layer: str) -> str:
    """Return the name of the label file of layer ``"u"`` or ``"v"``."""
    return f"labels_{layer}.parquet"


def label_type(labels: NDArray[Any]) -> pa.DataType:
    """Return the Arrow type in which labels are kept, int64 or string; GraphError when they are neither."""
    kind = labels.dtype.kind
    if kind in "iu" and not (labels.dtype == np.uint64 and labels.size and int(labels.max()) >= 2**63):
        return pa.int64()
    if kind in "US" or (kind == "O" and all(isinstance(label, str) for label in labels)):
        return pa.string()
    raise GraphError(f"labels have dtype {labels.dtype}; expected integers below 2^63 or strings")


def write_labels(path: Path, batches: Iterable[NDArray[Any] | pa.Array], kind: pa.DataType) -> int:
    """Write consecutive labels, which come in batches of shape (k,), in id order and return how many there are."""
    schema = schema_of({"id": pa.int32(), "label": kind})
    encoding = {"id": "DELTA_BINARY_PACKED"}
    if kind == pa.int64():
        encoding["label"] = "DELTA_BINARY_PACKED"
    count = 0
    with SealedWriter(
        path, schema, compression="zstd", use_dictionary=False, column_encoding=encoding
    ) as writer:
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
    """Return one label of a label file, an int or a str; reads the row groups that can hold its id."""
    return pq.read_table(path, columns=["label"], filters=[("id", "=", vertex)]).column(0)[0].as_py()


def read_label_column(
    filesystem: arrow_fs.FileSystem, root: str, layer: str, size: int, digest: str
) -> pa.ChunkedArray:
    """Read the labels of a layer of ``size`` vertices, in id order: int64 or string.

    StoreError when the file is missing, was changed, or is of another size.
    """
    with SealedReader(filesystem, f"{root}/{label_file(layer)}", digest, STORE_ADVICE) as file:
        table = pa.concat_tables([file.schema.empty_table(), *file])
    if table.column_names != ["id", "label"] or table.num_rows != size:
        raise StoreError(
            f"{file.name} has columns {', '.join(table.column_names)} and {table.num_rows} rows; "
            f"expected id, label and {size} rows: {STORE_ADVICE}"
        )
    return table.column("label")
