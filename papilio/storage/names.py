"""Labels and ids of vertices, one from the other, without a Python object for each vertex."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.storage.store import GraphStore

_SHOWN = 3
"""Labels that a message shows as examples."""


LayerNames = Mapping[str, pa.Array]
"""What the vertices of each layer (``u`` and ``v``, or ``n`` of a unipartite graph) are called: labels (int64 or
string) or, where there are none, ids (int32)."""


def read_names(store: GraphStore, ids: Mapping[str, NDArray[np.int32]]) -> LayerNames:
    """Return the names of vertices by layer, in the order of the ids given."""
    names: dict[str, pa.Array] = {}
    for layer, chosen in ids.items():
        column = store.label_column("v" if layer == "v" else "u")
        names[layer] = pa.array(chosen) if column is None else column.take(pa.array(chosen)).combine_chunks()
    return names


def find_ids(store: GraphStore, layer: Literal["u", "v"], labels: Iterable[str | int]) -> tuple[int, ...]:
    """Return the ids of the vertices of a layer that have these labels, rising; each once.

    Where the labels are integers, or there are none and the ids are meant, an integer may be written as text.
    InputError names the first label that no vertex has.
    """
    given = list(dict.fromkeys(labels))
    if not given:
        return ()
    column = store.label_column(layer)
    where = f"layer {layer.upper()} of {store.path}"
    if column is None:
        size = store.n_u if layer == "u" else store.n_v
        numbers = [_integer(label) for label in given]
        for label, number in zip(given, numbers, strict=True):
            if number is None or not 0 <= number < size:
                raise InputError(
                    f"{where} has no vertex {label!r}: it has no labels, and ids 0 to {size - 1}"
                )
        return tuple(sorted({number for number in numbers if number is not None}))
    import pyarrow.compute as pc  # takes a tenth of a second, which a count without labels saves

    wanted: list[Any] = [str(label) if column.type == pa.string() else _integer(label) for label in given]
    found = pc.index_in(pa.array(wanted, column.type), value_set=column, skip_nulls=True).to_pylist()
    for label, place in zip(given, found, strict=True):
        if place is None:
            shown = ", ".join(repr(name) for name in column.slice(0, _SHOWN).to_pylist())
            raise InputError(
                f"{where} has no vertex with the label {label!r}; its labels are such as {shown}"
            )
    return tuple(sorted(set(found)))


def _integer(label: str | int) -> int | None:
    try:
        number = int(label)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None


def hash_labels(store: GraphStore) -> str:
    """Return 32 hexadecimal digits that identify the labels of both layers; O(bytes)."""
    import pyarrow.compute as pc

    lengths, values = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for layer in ("u", "v"):
        column = store.label_column("u" if layer == "u" else "v")
        lengths.update(f"{layer} {None if column is None else column.type}".encode())
        for chunk in () if column is None else column.chunks:
            if chunk.type == pa.string():
                lengths.update(pc.binary_length(chunk).to_numpy())
                values.update("".join(chunk.to_pylist()).encode())
            else:
                values.update(np.ascontiguousarray(chunk.to_numpy(), "<i8").data)
    lengths.update(values.digest())
    return lengths.hexdigest()
