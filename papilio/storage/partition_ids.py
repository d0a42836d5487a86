"""The ids of the vectors of a part, without the rest of its blocks: what folding needs of a partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from papilio.errors import StoreError
from papilio.motifs import Granularity
from papilio.storage.location import filesystem_of
from papilio.storage.partitions import Partition

__all__ = ["read_vector_ids"]


def read_vector_ids(partition: Partition, index: int, per: Granularity) -> dict[str, NDArray[Any]]:
    """Return, by name of the vector, what ``vector_ids`` of the part gives, reading the columns of ids alone.

    Parameters
    ----------
    partition : Partition
    index : int
        Of the part.
    per : {"total", "vertex", "edge"}

    Returns
    -------
    dict of str to ndarray of int32 or int64, host

    Raises
    ------
    StoreError
        When a file is missing or not readable.
    """
    part = partition.manifest.parts[index]
    if per == "total":
        return {}
    if partition.manifest.family == "roots":
        return {layer: _read_column(partition, part.blocks[0], layer, "id") for layer in ("u", "v")}
    starts, ends = part.blocks
    if per == "edge":
        columns = [_read_column(partition, name, "entries", "edge") for name in (starts, ends)]
        return {"edge": np.concatenate(columns)}
    own = [_read_column(partition, starts, "starts", "id"), _read_column(partition, ends, "ends", "id")]
    other = "v" if part.layer == "u" else "u"
    return {part.layer: np.concatenate(own), other: _read_column(partition, ends, "middles", "id")}


def _read_column(partition: Partition, block: str, file: str, column: str) -> NDArray[Any]:
    filesystem, root = filesystem_of(partition.path)
    path = f"{root}/blocks/{block}/{file}.parquet"
    try:
        table = pq.read_table(path, columns=[column], filesystem=filesystem, memory_map=False)
        values: NDArray[Any] = table.column(column).to_numpy()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StoreError(f"{path}: its column {column} cannot be read ({error})") from error
    return values
