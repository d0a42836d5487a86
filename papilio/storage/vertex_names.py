"""Names of the vertices of a store: read by id, found by label."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.storage.labels import join_labels, take_labels
from papilio.storage.store import GraphStore

_SHOWN = 3
"""Number of labels shown as examples in a message."""


LayerNames = Mapping[str, pa.Array]
"""The names of the vertices of each layer (``u`` and ``v``, or ``n`` if unipartite): labels (int64 or string), else ids
(int32).
"""


def read_names(store: GraphStore, ids: Mapping[str, NDArray[np.int32]]) -> LayerNames:
    """Return the names of vertices by layer, in the order of the given ids."""
    names: dict[str, pa.Array] = {}
    for layer, chosen in ids.items():
        column = store.label_column("v" if layer == "v" else "u")
        ids_of = pa.array(chosen)
        names[layer] = ids_of if column is None else take_labels(join_labels(column), ids_of)
    return names


def find_ids(store: GraphStore, layer: Literal["u", "v"], labels: Iterable[str | int]) -> tuple[int, ...]:
    """Return the ids of the vertices of a layer with these labels, ascending and distinct.

    If the labels are integers, or there are none and ids are given instead, an integer may be written as text. Raises
    InputError, naming the first label without a vertex.
    """
    given = list(dict.fromkeys(labels))
    if not given:
        return ()
    found = _look_up(store, layer, given)
    for label, place in zip(given, found, strict=True):
        if place is None:
            raise InputError(_not_there(store, layer, label))
    return tuple(sorted({place for place in found if place is not None}))


def find_held(
    store: GraphStore,
    containing: Iterable[str | int],
    with_u: Iterable[str | int],
    with_v: Iterable[str | int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that a listing's motifs must contain: of U (or of a unipartite graph), and of V.

    ``containing`` has labels of vertices of any layer. Raises InputError as :func:`find_ids`, and if both layers have a
    vertex with that label.
    """
    labels_u, labels_v, given = [*with_u], [*with_v], list(dict.fromkeys(containing))
    if store.kind == "unipartite" and labels_v:
        raise InputError(
            f"{store.path} is unipartite and has no layer V for {labels_v[0]!r}; use containing (--containing)"
        )
    if store.kind == "unipartite" or not given:
        return find_ids(store, "u", [*labels_u, *given]), find_ids(store, "v", labels_v)
    for label, in_u, in_v in zip(given, _look_up(store, "u", given), _look_up(store, "v", given), strict=True):
        if in_u is not None and in_v is not None:
            raise InputError(
                f"both layers of {store.path} have a vertex {label!r}; choose one by with_u (--with-u) or with_v "
                f"(--with-v)"
            )
        if in_u is None and in_v is None:
            raise InputError(f"{_not_there(store, 'u', label)}, and {_not_there(store, 'v', label)}")
        (labels_v if in_u is None else labels_u).append(label)
    return find_ids(store, "u", labels_u), find_ids(store, "v", labels_v)


def _look_up(store: GraphStore, layer: Literal["u", "v"], labels: list[str | int]) -> list[int | None]:
    column = store.label_column(layer)
    if column is None:
        size = store.n_u if layer == "u" else store.n_v
        numbers = [_integer(label) for label in labels]
        return [number if number is not None and 0 <= number < size else None for number in numbers]
    import pyarrow.compute as pc  # takes a tenth of a second; a count without labels does not need it

    wanted: list[Any] = [str(label) if column.type == pa.string() else _integer(label) for label in labels]
    found: list[int | None] = pc.index_in(pa.array(wanted, column.type), value_set=column, skip_nulls=True).to_pylist()
    return found


def _not_there(store: GraphStore, layer: Literal["u", "v"], label: str | int) -> str:
    where = store.path if store.kind == "unipartite" else f"layer {layer.upper()} of {store.path}"
    column = store.label_column(layer)
    if column is None:
        size = store.n_u if layer == "u" else store.n_v
        return f"{where} has no vertex {label!r}: it has no labels, and ids 0 to {size - 1}"
    shown = ", ".join(repr(name) for name in column.slice(0, _SHOWN).to_pylist())
    return f"{where} has no vertex with the label {label!r}; its labels look like {shown}"


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
