"""Parquet files of pairs of vertices with their classes of butterflies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from papilio.storage.location import atomic_file

__all__ = ["write_pairs"]


def write_pairs(
    path: str | os.PathLike[str],
    ids: Sequence[tuple[int, int]],
    labels: Sequence[tuple[str | int, str | int]],
    columns: Mapping[str, Sequence[int]],
    metadata: Mapping[str, str],
) -> None:
    """Write a row for each pair: columns first, second (int32), first_label, second_label, then those given (uint64).

    Parameters
    ----------
    path : path-like
        A local file to write or replace.
    ids : sequence of (int, int)
        The vertices of each pair, in the order of the rows.
    labels : sequence of (label, label)
        Theirs: int64 if all are integers, else strings.
    columns : mapping of str to sequence of int
        As many numbers as there are pairs.
    metadata : mapping of str to str
        Of the file.

    Raises
    ------
    StoreError
        When the file cannot be written.
    """
    flat = [label for pair in labels for label in pair]
    label_type = pa.int64() if all(isinstance(label, int) for label in flat) else pa.string()
    arrays: dict[str, Any] = {}
    for place, name in enumerate(("first", "second")):
        arrays[name] = pa.array([pair[place] for pair in ids], pa.int32())
        arrays[f"{name}_label"] = pa.array([pair[place] for pair in labels], label_type)
    arrays |= {name: pa.array(numbers, pa.uint64()) for name, numbers in columns.items()}
    fields = [pa.field(name, array.type, nullable=False) for name, array in arrays.items()]
    schema = pa.schema(fields, metadata=dict(metadata))
    with atomic_file(path) as scratch, pq.ParquetWriter(scratch, schema, compression="zstd") as writer:
        writer.write_table(pa.Table.from_arrays(list(arrays.values()), schema=schema))
