"""The ids of the vectors of a part, without the rest of its blocks: what folding needs of a partition.

The other columns of a file with ids are read along, a row group at a time, for the checksum of the file: counts at
wrong ids would have the right sum.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from papilio.errors import StoreError
from papilio.motifs import Granularity
from papilio.partitioning.blocks import sum_words
from papilio.partitioning.store import Partition
from papilio.storage.columns import numbers_of
from papilio.storage.location import filesystem_of


def read_vector_ids(partition: Partition, index: int, per: Granularity) -> dict[str, NDArray[Any]]:
    """Return, by name of the vector, what ``vector_ids`` of the part gives, reading the files with ids alone.

    StoreError when a file is missing, not readable or changed.
    """
    part = partition.manifest.parts[index]
    if per == "total":
        return {}
    if partition.manifest.family == "roots":
        block = part.blocks[0]
        return {layer: _read_columns(partition, [(block, layer, "id")], np.int32) for layer in ("u", "v")}
    starts, ends = part.blocks
    if per == "edge":
        places = [(name, "entries", "edge") for name in (starts, ends)]
        return {"edge": _read_columns(partition, places, np.int64)}
    own = [(starts, "starts", "id"), (ends, "ends", "id")]
    other = "v" if part.layer == "u" else "u"
    return {
        part.layer: _read_columns(partition, own, np.int32),
        other: _read_columns(partition, [(ends, "middles", "id")], np.int32),
    }


def _read_columns(
    partition: Partition, places: list[tuple[str, str, str]], dtype: type[np.signedinteger[Any]]
) -> NDArray[Any]:
    """Return columns of files of blocks, one after the other; a row group is in memory beside them at a time."""
    filesystem, root = filesystem_of(partition.path)
    with ExitStack() as stack:
        files: list[tuple[str, pq.ParquetFile, str, int]] = []
        for block, file, column in places:
            path = f"{root}/blocks/{block}/{file}.parquet"
            try:
                source = stack.enter_context(filesystem.open_input_file(path))
                opened = stack.enter_context(pq.ParquetFile(source))
            except (pa.ArrowException, OSError) as error:
                raise StoreError(f"{path}: cannot be read ({error})") from error
            expected = partition.find_file(block, f"{file}.parquet").checksum
            files.append((path, opened, column, expected))
        values = np.empty(sum(opened.metadata.num_rows for _, opened, *_ in files), dtype)
        at = 0
        for path, opened, column, expected in files:
            found = 0
            try:
                for group in range(opened.num_row_groups):
                    table = opened.read_row_group(group, use_threads=False)
                    found += sum(sum_words(numbers_of(each)) for each in table.columns)
                    values[at : at + table.num_rows] = numbers_of(table.column(column))
                    at += table.num_rows
            except (pa.ArrowException, OSError, KeyError) as error:
                raise StoreError(f"{path}: its column {column} cannot be read ({error})") from error
            if found % 2**64 != expected:
                raise StoreError(
                    f"{path}: has checksum {found % 2**64}; expected {expected}; the partition is corrupt, "
                    "make it again"
                )
    return values
