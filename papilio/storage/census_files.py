"""Files of pairs of vertices with their classes of butterflies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from papilio.storage.tables import open_table

__all__ = ["write_pairs"]


def write_pairs(
    path: str | os.PathLike[str],
    ids: Sequence[tuple[int, int]],
    labels: Sequence[tuple[Any, Any]],
    columns: Mapping[str, Sequence[int]],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = False,
) -> None:
    """Write a row for each pair: columns first, second (int32), first_label, second_label, then those given (uint64).

    Labels are int64 if all are integers, else text. ``overwrite`` and errors as :func:`open_table`.
    """
    flat = [label for pair in labels for label in pair]
    are_integers = all(type(label) is int and -(2**63) <= label < 2**63 for label in flat)
    label_type, form = (pa.int64(), int) if are_integers else (pa.string(), str)
    arrays: dict[str, Any] = {}
    for place, name in enumerate(("first", "second")):
        arrays[name] = pa.array([pair[place] for pair in ids], pa.int32())
        arrays[f"{name}_label"] = pa.array([form(pair[place]) for pair in labels], label_type)
    arrays |= {name: pa.array(numbers, pa.uint64()) for name, numbers in columns.items()}
    fields = [pa.field(name, array.type, nullable=False) for name, array in arrays.items()]
    schema = pa.schema(fields, metadata=dict(metadata))
    with open_table(path, schema, overwrite=overwrite) as write:
        write(pa.Table.from_arrays(list(arrays.values()), schema=schema))
