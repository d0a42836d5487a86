"""Graphs in memory with the names of their vertices, and values of their vertices and edges.

Graphs are assembled from columns of labels, ids and sign values. Values are returned by id, or in the form, names and
order of the object that the graph was read from.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import GraphError, InputError
from papilio.extras import import_extra
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph, check_layer, unique_edges
from papilio.storage.edge_files import numbers_of
from papilio.storage.evidence import MISSING, is_missing_word
from papilio.storage.layers import Layers
from papilio.storage.sides import Sides, object_array

Graph = BipartiteGraph | UnipartiteGraph

LabelsAs = Literal["integer", "text", "id"]
"""Meaning of the entries of arrays and tables: labels, or ids from 0 on."""


def plain_labels(labels: NDArray[Any]) -> list[Any]:
    """Return labels as Python objects; times keep their NumPy type."""
    return list(labels) if labels.dtype.kind in "mM" else labels.tolist()


def sparse_array(graph: Graph, values: NDArray[Any], format: str) -> Any:
    """Return a SciPy sparse array with the value of each edge at its place, at both places if unipartite."""
    sparse = import_extra("scipy.sparse", "a sparse array needs")
    u, v = graph.u, graph.v
    if graph.kind == "unipartite":
        u, v, values = np.concatenate((u, v)), np.concatenate((v, u)), np.concatenate((values, values))
    return sparse.coo_array((values, (u, v)), shape=(graph.n_u, graph.n_v)).asformat(format)


def by_row(edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> NDArray[Any]:
    """Return the value of the edge of each row; 0 for a dropped self loop (-1), which is in no motif."""
    padded = np.append(values, np.zeros(1, values.dtype))
    return padded[edge_of_row]


@dataclass(frozen=True, eq=False)
class Origin:
    """The object that a graph was read from: edges in their own order, vertices under their labels."""

    name: str  # in messages
    rows: str = "rows"

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        """Return values of the edges of ``graph``, shape (n_edges,), one for each row."""
        return by_row(edge_of_row, values)

    def vertices(self, labels: NDArray[Any], values: NDArray[Any]) -> Any:
        """Return values of vertices by their labels, both of shape (n,)."""
        return dict(zip(plain_labels(labels), values.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class FrameRows(Origin):
    """A data frame: values of edges become a Series with its index, values of vertices a Series by label."""

    name: str = "data frame"
    index: Any = None

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        pandas = import_extra("pandas", "a Series needs")
        return pandas.Series(by_row(edge_of_row, values), index=self.index)

    def vertices(self, labels: NDArray[Any], values: NDArray[Any]) -> Any:
        pandas = import_extra("pandas", "a Series needs")
        return pandas.Series(values, index=pandas.Index(labels))


class ArrowRows(Origin):
    """A pyarrow table: values of edges become a pyarrow array with an entry for each row."""

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        import pyarrow

        return pyarrow.array(by_row(edge_of_row, values))


class PolarsRows(Origin):
    """A polars data frame: values of edges become a polars Series with an entry for each row."""

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        return import_extra("polars", "a Series needs").Series(by_row(edge_of_row, values))


@dataclass(frozen=True, eq=False)
class NetworkEdges(Origin):
    """A NetworkX or igraph graph: values of edges become a dictionary by its edges, parallel ones included."""

    name: str = "graph"
    rows: str = "edges"
    names: Sequence[tuple[Hashable, ...]] = ()

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        return dict(zip(self.names, by_row(edge_of_row, values).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class SparseEntries(Origin):
    """A SciPy sparse matrix: values of edges become a sparse array of the same shape and format."""

    name: str = "sparse matrix"
    rows: str = "entries"
    format: str = "csr"

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        return sparse_array(graph, values, self.format)


@dataclass(frozen=True, eq=False)
class MatrixEntries(Origin):
    """A matrix: values of edges become a matrix of the same shape, with the names of its rows and columns."""

    name: str = "matrix"
    rows: str = "entries"
    index: Any = None
    columns: Any = None

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        dense = np.zeros((graph.n_u, graph.n_v), values.dtype)
        dense[graph.u, graph.v] = values
        if graph.kind == "unipartite":
            dense[graph.v, graph.u] = values
        if self.columns is None:
            return dense
        return import_extra("pandas", "a data frame needs").DataFrame(dense, self.index, self.columns)


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph with the original names of its vertices."""

    graph: BipartiteGraph | UnipartiteGraph
    # By id, shape (n_u,); None if the ids are the labels. A unipartite graph has only these.
    labels_u: NDArray[Any] | None = None
    labels_v: NDArray[Any] | None = None  # shape (n_v,)
    dropped: dict[str, int] = field(default_factory=dict)  # number of entries left out: duplicates, self_loops, zeros
    origin: Origin | None = field(default=None, repr=False)
    row_keys: NDArray[np.int64] | None = field(default=None, repr=False)
    sides: Sides = field(default_factory=Sides, repr=False)  # evidence for the other kind of graph
    layers: Layers = field(default_factory=Layers, repr=False)  # how the layers were found
    notes: tuple[str, ...] = ()  # remarks on the reading for the user

    @property
    def kind(self) -> GraphKind:
        return self.graph.kind

    @cached_property
    def edge_of_row(self) -> NDArray[np.int64]:
        """Edge id of every original row, shape (n_rows,); -1 for a dropped self loop."""
        if self.row_keys is None:
            return np.arange(self.graph.n_edges)
        keys = (self.graph.u.astype(np.int64) << 32) | self.graph.v
        if not keys.size:
            return np.full(self.row_keys.size, -1)
        edges = np.searchsorted(keys, self.row_keys)
        found = keys[np.minimum(edges, keys.size - 1)] == self.row_keys
        return np.where(found, edges, -1)

    def labels(self, layer: str) -> NDArray[Any] | None:
        """Return the labels of a layer in id order; None if the ids are the labels."""
        return self.labels_v if layer == "v" and self.kind == "bipartite" else self.labels_u

    def ends(self, edges: Sequence[int]) -> list[tuple[int, int]]:
        """Return the ids of both ends of edges."""
        return [(int(self.graph.u[edge]), int(self.graph.v[edge])) for edge in edges]

    def align(self, place: str, values: NDArray[Any]) -> Any:
        """Return values by id of ``u``, ``v`` or ``edge`` in the form of the :class:`Origin`."""
        if self.origin is None:
            return values
        if place == "edge":
            return self.origin.edges(self.graph, self.edge_of_row, values)
        labels = self.labels(place)
        return values if labels is None else self.origin.vertices(labels, values)


def label_array(labels: list[Any]) -> NDArray[Any]:
    """Return labels as int64 if all are integers that fit, else as objects; shape (k,)."""
    if all(isinstance(label, int | np.integer) and not isinstance(label, bool) for label in labels):
        try:
            return np.array(labels, dtype=np.int64)
        except OverflowError:
            pass
    return object_array(labels)


def _is_missing(label: Any) -> bool:
    """Return whether an object is a missing value: None, a NaN, or NA and NaT of pandas."""
    if type(label) is str or type(label) is int:
        return False
    if label is None or type(label).__name__ == "NAType":
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):
        return False


def find_missing(values: NDArray[Any]) -> int | None:
    """Return the place of the first missing value, shape (k,); the text NaN is an ordinary label."""
    if values.dtype.kind == "O":
        return next((at for at, label in enumerate(values.tolist()) if _is_missing(label)), None)
    if values.dtype.kind not in "fcmM":
        return None
    missing = values != values
    return int(np.argmax(missing)) if bool(missing.any()) else None


def read_signs(values: NDArray[Any], positive_from: float | None) -> NDArray[np.int8]:
    """Return +1 or -1 per value, shape (k,): positive from ``positive_from`` on, else by the sign of the value.

    Raises GraphError for values that are not real numbers, are missing, or are 0 without ``positive_from``.
    """
    try:
        numbers = np.asarray(values).astype(np.float64, casting="unsafe" if values.dtype == object else "same_kind")
    except (TypeError, ValueError) as error:
        raise GraphError(f"sign values are not numbers ({error})") from error
    if bool(np.isnan(numbers).any()):
        raise GraphError(f"the sign value of edge {int(np.argmax(np.isnan(numbers)))} is missing")
    if positive_from is not None:
        return np.where(numbers >= positive_from, 1, -1).astype(np.int8)
    if bool((numbers == 0).any()):
        at = int(np.argmax(numbers == 0))
        raise GraphError(f"the sign value of edge {at} is 0, neither positive nor negative; set positive_from")
    return np.sign(numbers).astype(np.int8)


def _read_ids(name: str, values: NDArray[Any], size: int | None) -> tuple[NDArray[np.int64], int]:
    if values.dtype.kind not in "iuf":
        raise GraphError(f"{name} has dtype {values.dtype}; ids are integers: use labels='text' for labels")
    if values.dtype.kind == "f" and not bool((np.isfinite(values) & (values == np.rint(values))).all()):
        raise GraphError(f"{name} holds fractions or missing values; ids are integers")
    low, high = (int(values.min()), int(values.max())) if values.size else (0, -1)
    n = high + 1 if size is None else size
    if low < 0 or high >= n:
        expected = "0 or more" if size is None else f"0 to {n - 1}"
        raise GraphError(
            f"{name} holds ids {low} to {high}; expected {expected}, or labels='integer' if these are labels"
        )
    return values.astype(np.int64), n


def _factorize(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct labels, sorted if possible, and the dense id of each value."""
    if values.dtype.kind == "f":
        if not bool((np.isfinite(values) & (values == np.rint(values))).all()):
            raise GraphError("labels are fractions or missing values; expected integers or strings")
        if bool((np.abs(values) >= 2**53).any()):
            raise GraphError("labels are floats of 2^53 or more, which may be rounded; use integers or strings")
        values = values.astype(np.int64)
    encoded = _as_arrow(values)
    if encoded is not None:
        return _encode(encoded)
    if values.dtype.kind != "O":
        labels, ids = np.unique(values, return_inverse=True)
        return labels, ids.astype(np.int64)
    items = values.tolist()
    try:
        distinct = list(dict.fromkeys(items))
    except TypeError as error:
        raise GraphError(f"labels must be hashable ({error})") from error
    try:
        distinct.sort()
    except TypeError:
        distinct = list(dict.fromkeys(items))
    fraction = next((each for each in distinct if isinstance(each, float) and not each.is_integer()), None)
    if fraction is not None:
        raise GraphError(f"{fraction!r} is no label of a vertex; expected integers or strings")
    position = {label: i for i, label in enumerate(distinct)}
    return label_array(distinct), np.fromiter((position[item] for item in items), np.int64, len(items))


def _wrap(values: NDArray[Any]) -> pa.Array:
    """Return integers as an Arrow array, without ``pyarrow.array``, which imports pandas."""
    plain = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), plain.size, [None, pa.py_buffer(plain)])


def _as_arrow(column: Any) -> pa.Array | None:
    """Return a column of integers or text as an Arrow array, missing values as nulls; None for any other type."""
    try:
        if isinstance(column, pa.ChunkedArray):
            array = column.combine_chunks()
        elif isinstance(column, np.ndarray) and column.dtype.kind in "iu":
            array = _wrap(column)
        elif isinstance(column, np.ndarray) and sys.modules.get("pandas") is None:
            return None
        else:
            array = pa.array(column, from_pandas=True)
            array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        return array.cast(kind)
    return array


def _encode_within(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """As :func:`_encode`, by a table of all integers from the smallest to the largest; None if that is too long."""
    if not values.size:
        return values, values.astype(np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= _TABLE_ENTRIES * values.size + _LEAST_TABLE:
        return None
    wide = np.uint64 if values.dtype.kind == "u" else np.int64
    places = values.astype(wide)
    places -= wide(low)
    places = places.view(np.int64)
    is_there = np.zeros(high - low + 1, bool)
    is_there[places] = True
    present = np.flatnonzero(is_there)
    rank = np.cumsum(is_there, dtype=np.int64) - 1
    labels = (present.astype(np.uint64) + np.uint64(low % 2**64)).astype(values.dtype)
    return labels, rank[places]


_MANY_ROWS = 1 << 16
"""Rows from which a second thread pays."""

_TABLE_ENTRIES, _LEAST_TABLE = 4, 1 << 16
"""Maximum entries of a table of integers: a number per value, plus a constant."""


def _encode(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values of a column without nulls, sorted, and the place of each value among them."""
    if pa.types.is_integer(column.type):
        values = numbers_of(column)
        found = _encode_within(values)
        if found is not None:
            return found
    import pyarrow.compute as pc  # slow to import, and only needed for labels

    return _encode_by(pc, column)


def _encode_by(pc: Any, column: pa.Array) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """As :func:`_encode`, by the functions of ``pyarrow.compute``."""
    given = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    once = given.dictionary.dictionary_encode()  # a given dictionary may contain a value twice
    ids = numbers_of(once.indices)[numbers_of(given.indices)]
    used = np.zeros(len(once.dictionary), bool)
    used[ids] = True
    order = numbers_of(pc.sort_indices(once.dictionary)).astype(np.int64)
    order = order[used[order]]
    rank = np.empty(used.size, np.int64)
    rank[order] = np.arange(order.size)
    labels = pc.take(once.dictionary, _wrap(order))
    if pa.types.is_integer(labels.type):
        return numbers_of(labels).copy(), rank[ids]
    return object_array(labels.to_pylist()), rank[ids]


def _from_arrow(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of other values than integers and text; dates and times as Python objects, in their zone."""
    if pa.types.is_temporal(column.type):
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        with suppress(ValueError):  # nanoseconds, without pandas
            distinct: NDArray[Any] = object_array(encoded.dictionary.to_pylist())
            of_row: NDArray[Any] = distinct[numbers_of(encoded.indices)]
            return of_row
    plain: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return plain


def _as_column(name: Any, column: Any, labels: LabelsAs | None) -> pa.Array | NDArray[Any]:
    """Return a column of integers or text as Arrow, any other as NumPy; raise GraphError for a missing value."""
    found = _as_arrow(column)
    if found is None:
        plain = _from_arrow(column) if isinstance(column, pa.ChunkedArray) else np.asarray(column)
        row = find_missing(plain)
    else:
        row = found.is_null().to_pylist().index(True) if found.null_count else None
    if row is not None:
        raise GraphError(
            f"column {name!r} has a missing value in row {row}; fill it, or leave out its row (missing='drop')"
        )
    if labels == "text":
        if found is not None:
            return found.cast(pa.large_string())
        return object_array([str(each) for each in plain.tolist()])
    is_text = plain.dtype.kind in "US" if found is None else not pa.types.is_integer(found.type)
    if labels == "integer" and is_text:
        raise GraphError(f"column {name!r} holds text; labels='integer' is for integers")
    if found is None:
        return plain
    return numbers_of(found) if labels == "id" and pa.types.is_integer(found.type) else found


def _as_numbers(column: pa.Array | NDArray[Any]) -> NDArray[Any]:
    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return numbers_of(column) if pa.types.is_integer(column.type) else object_array(column.to_pylist())


def _factorize_any(column: pa.Array | NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    return _factorize(column) if isinstance(column, np.ndarray) else _encode(column)


def _factorize_both(
    u: pa.Array | NDArray[Any], v: pa.Array | NDArray[Any]
) -> Iterable[tuple[NDArray[Any], NDArray[np.int64]]]:
    """As :func:`_factorize`, for two columns; many rows are factorized in two threads."""
    if len(u) < _MANY_ROWS or isinstance(u, np.ndarray) or isinstance(v, np.ndarray):
        return _factorize_any(u), _factorize_any(v)
    with ThreadPoolExecutor(1, thread_name_prefix="papilio-labels") as pool:
        if pa.types.is_integer(v.type):
            within = pool.submit(_encode_within, numbers_of(v))
            return _encode(u), within.result() or _encode(v)
        import pyarrow.compute as pc

        encoded = pool.submit(_encode_by, pc, v)
        return _encode(u), encoded.result()


def _joined(u: pa.Array | NDArray[Any], v: pa.Array | NDArray[Any]) -> pa.Array | NDArray[Any]:
    """Return the concatenated values of two columns."""
    if isinstance(u, pa.Array) and isinstance(v, pa.Array):
        plain = [each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in (u, v)]
        # Text of two arrays may be too long for one array of the type string, whose offsets are int32.
        plain = [each.cast(pa.large_string()) if pa.types.is_string(each.type) else each for each in plain]
        if plain[0].type == plain[1].type:
            return pa.concat_arrays(plain)
    first, second = _as_numbers(u), _as_numbers(v)
    if first.dtype.kind != second.dtype.kind:
        first, second = first.astype(object), second.astype(object)
    return np.concatenate((first, second))


def assemble(
    kind: GraphKind,
    u: NDArray[np.int64],
    v: NDArray[np.int64],
    sign: NDArray[np.int8] | None,
    n_u: int,
    n_v: int,
) -> LabelledGraph:
    """Sort and deduplicate dense ids of shape (k,) within their layers; of duplicates the first is kept.

    Raises CapacityError for a layer of more than 2^31 - 1 vertices.
    """
    check_layer("n_u", n_u)
    check_layer("n_v", n_v)
    dropped = {}
    if kind == "unipartite":
        u, v = np.minimum(u, v), np.maximum(u, v)
    rows = (u << 32) | v
    if kind == "unipartite":
        kept = u != v
        u, v = u[kept], v[kept]
        dropped["self_loops"] = rows.size - u.size
        sign = None if sign is None else sign[kept]
    low, high, sign = unique_edges(u, v, n_u, n_v, sign)
    dropped["duplicates"] = u.size - low.size
    graph: BipartiteGraph | UnipartiteGraph = (
        UnipartiteGraph(n_u, low, high, sign) if kind == "unipartite" else BipartiteGraph(n_u, n_v, low, high, sign)
    )
    is_sorted = rows.size == low.size and bool((rows[1:] > rows[:-1]).all())
    return LabelledGraph(graph, dropped=dropped, row_keys=None if is_sorted else rows)


def assemble_columns(
    columns: Sequence[Any],
    names: Sequence[Any],
    origin: Origin,
    kind: GraphKind,
    labels: LabelsAs | None,
    n_u: int | None,
    n_v: int | None,
    positive_from: float | None,
    missing: Literal["drop", "label"] | None = None,
) -> LabelledGraph:
    """Assemble a graph from two columns of labels or ids, shape (k,) each, and optionally one of sign values.

    ``names`` is empty if columns have none; see :func:`.interop.from_numpy` for the other parameters. Raises InputError
    for options that contradict each other; GraphError or CapacityError for ids out of range, or labels or signs that
    cannot be read.
    """
    called = names or ("u", "v", "sign")
    kept = None
    if missing == "drop":
        kept = ~(_missing_rows(columns[0]) | _missing_rows(columns[1]))
        columns = columns if bool(kept.all()) else [_rows_of(each, kept) for each in columns]
    u, v = (_as_column(name, each, labels) for name, each in zip(called, columns[:2], strict=False))
    values = _as_numbers(_as_column(called[2], columns[2], None)) if len(columns) == 3 else None
    if labels != "id" and (n_u is not None or n_v is not None):
        raise InputError("n_u and n_v are for ids (labels='id'); labels give the sizes themselves")
    if positive_from is not None and values is None:
        raise InputError(f"positive_from is {positive_from}, but no column of values was given")
    if kind == "unipartite" and n_v is not None:
        raise InputError(f"n_v is {n_v}; a unipartite graph has n_u vertices only")
    sign = None if values is None else read_signs(values, positive_from)
    labels_u = labels_v = None
    if kind == "unipartite":
        both = _joined(u, v)
        if labels != "id":
            labels_u, ids = _factorize_any(both)
            size_u = labels_u.size
        else:
            ids, size_u = _read_ids("u or v", _as_numbers(both), n_u)
        ids_u, ids_v, size_v = ids[: len(u)], ids[len(u) :], size_u
    elif labels != "id":
        (labels_u, ids_u), (labels_v, ids_v) = _factorize_both(u, v)
        size_u, size_v = labels_u.size, labels_v.size
    else:
        ids_u, size_u = _read_ids("u", _as_numbers(u), n_u)
        ids_v, size_v = _read_ids("v", _as_numbers(v), n_v)
    if missing is None:
        for name, labels_of, ids_of in ((called[0], labels_u, ids_u), (called[1], labels_v, ids_v)):
            _refuse_missing_words(name, labels_of, ids_of)
    result = assemble(kind, ids_u, ids_v, sign, size_u, size_v)
    if kept is not None and not kept.all():
        result = _with_dropped_rows(result, kept, ids_u, ids_v)
    sides = Sides(names)
    if labels_v is not None and labels_u is not None and sides.takes_labels(labels_u, labels_v):
        sides.add_labels(labels_u, labels_v)
    else:
        sides.add(u, v)
    return replace(result, labels_u=labels_u, labels_v=labels_v, origin=origin, sides=sides)


def _missing_rows(column: Any) -> NDArray[np.bool_]:
    """Return in which rows a column has a missing value, or a word for one."""
    found = _as_arrow(column)
    if found is None:
        plain = _from_arrow(column) if isinstance(column, pa.ChunkedArray) else np.asarray(column)
        if plain.dtype.kind in "fc":
            return np.asarray(plain != plain)
        return np.array([_is_missing(each) or _is_missing_text(each) for each in plain.tolist()], bool)
    absent = found.is_null().to_numpy(zero_copy_only=False)
    kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
    if pa.types.is_integer(kind):
        return np.asarray(absent)
    import pyarrow.compute as pc

    words = pc.is_in(found.cast(pa.large_string()), pa.array(["", *MISSING], pa.large_string()))
    return np.asarray(absent | words.to_numpy(zero_copy_only=False))


def _is_missing_text(label: Any) -> bool:
    return isinstance(label, str) and is_missing_word(label)


def _rows_of(column: Any, kept: NDArray[np.bool_]) -> Any:
    if isinstance(column, pa.ChunkedArray | pa.Array):
        # Views of strings, as polars hands them on, have no filter.
        column = column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
        return column.filter(pa.array(kept))
    return column[kept]


def _refuse_missing_words(name: Any, labels: NDArray[Any] | None, ids: NDArray[np.int64]) -> None:
    """Raise GraphError for words such as NA among the labels of a column."""
    if labels is None or labels.dtype.kind not in "OU":
        return
    words = np.array([_is_missing_text(label) and label != "" for label in labels.tolist()], bool)
    if not words.any():
        return
    rows = words[ids]
    at = int(np.argmax(rows))
    raise GraphError(
        f"column {name!r} has {int(rows.sum()):,} words for missing values, the first, {labels[ids[at]]!r}, in row "
        f"{at}; missing='drop' leaves out these rows, missing='label' takes the words as names"
    )


def _with_dropped_rows(
    result: LabelledGraph, kept: NDArray[np.bool_], u: NDArray[np.int64], v: NDArray[np.int64]
) -> LabelledGraph:
    """Return a graph read from some rows of an object, with places of its edges for all rows."""
    if result.kind == "unipartite":
        u, v = np.minimum(u, v), np.maximum(u, v)
    keys = np.full(kept.size, -1)
    keys[kept] = (u << 32) | v
    dropped = {**result.dropped, "missing": int(kept.size - np.count_nonzero(kept))}
    return replace(result, row_keys=keys, dropped=dropped)


T = TypeVar("T")


class Vectors(Mapping[str, T]):
    """Values by place: of the vertices of layer ``u`` or ``v`` by id, or of every ``edge`` sorted by (u, v).

    A graph read from an object of another library (pandas, pyarrow, NumPy, SciPy, NetworkX) has its edges in another
    order than that object, and may have labels in place of ids. For its edges and labelled layers, ``[place]`` raises
    InputError, because it would invite pairing values with the wrong rows; use :meth:`aligned` or, deliberately,
    :meth:`by_id`. ``place`` is the common place of all values if their names do not give it.
    """

    def __init__(
        self,
        values: Mapping[str, T] | None = None,
        graph: LabelledGraph | None = None,
        place: str | None = None,
    ) -> None:
        self._values: dict[str, T] = dict(values or {})
        self._graph, self._place = graph, place

    def __getitem__(self, name: str) -> T:
        values = self._values[name]
        place, graph = self._place or name, self._graph
        origin = None if graph is None else graph.origin
        if graph is not None and origin is not None and (place == "edge" or graph.labels(place) is not None):
            given = f"the {origin.name} that was given"
            why = f"the edges are not in the order of the {origin.rows} of {given}"
            if place != "edge":
                why = f"the vertices of layer {place.upper()} have labels in {given}, and no ids"
            raise InputError(
                f"{why}; use .aligned({name!r}) for values in its order and names, or .by_id({name!r}) for those in "
                "Papilio's own order"
            )
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __repr__(self) -> str:
        return f"Vectors({', '.join(map(repr, self._values))})"

    def like(self, values: Mapping[str, T]) -> Vectors[T]:
        """Return other values of the same graph and place."""
        return Vectors(values, self._graph, self._place)

    def by_id(self, name: str) -> T:
        """Return the values of vertices by id, or of edges sorted by (u, v); raise InputError for an unknown name."""
        if name not in self._values:
            known = ", ".join(map(repr, self._values)) or "none: the answer has no values per vertex or edge"
            raise InputError(f"there are no values {name!r}; there are {known}")
        return self._values[name]

    def aligned(self, name: str) -> Any:
        """Return the values in the form, order and names of the object that the graph was read from.

        For edges: a pandas Series with the index of the data frame, a polars Series, a pyarrow or NumPy array with an
        entry for each row, a dictionary by edge of a NetworkX graph, a SciPy sparse array of the same shape and format;
        equal rows have equal values, self loops 0. For vertices with labels: a pandas Series by label, else a
        dictionary. All other values, also for stored graphs, are by id. Raises as :meth:`by_id`.
        """
        values: Any = self.by_id(name)
        if self._graph is None:
            return values
        place = self._place or name
        if isinstance(values, Mapping):
            return {each: self._graph.align(place, of) for each, of in values.items()}
        return self._graph.align(place, values)
