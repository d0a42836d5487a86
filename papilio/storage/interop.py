"""Graphs from and to the objects of other libraries.

NetworkX, igraph, graph-tool, SciPy sparse, pandas, pyarrow and whatever else gives Arrow tables (polars, DuckDB),
NumPy, pairs.

Every ``from_*`` function returns a :class:`LabelledGraph`: dense ids, the original labels of both layers, what
was left out, and which edge each row became. Of duplicate edges the first is kept; self loops of a unipartite
graph are dropped. No library is imported to read its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import checked
from papilio.errors import GraphError, InputError
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.storage.column_choice import pick_ends
from papilio.storage.export import to_arrow, to_networkx, to_numpy, to_pandas, to_scipy
from papilio.storage.labelled import (
    ArrayRows,
    ArrowRows,
    FrameRows,
    LabelledGraph,
    PairRows,
    SparseEntries,
    assemble,
    assemble_columns,
    label_array,
    read_signs,
)
from papilio.storage.networks import from_graph_tool, from_igraph, from_networkx

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = [
    "LabelledGraph",
    "from_any",
    "from_arrow",
    "from_graph_tool",
    "from_igraph",
    "from_networkx",
    "from_numpy",
    "from_pairs",
    "from_pandas",
    "from_scipy",
    "label_any",
    "to_arrow",
    "to_networkx",
    "to_numpy",
    "to_pandas",
    "to_scipy",
]

Graph = BipartiteGraph | UnipartiteGraph


@checked
def from_numpy(
    edges: NDArray[Any],
    *,
    kind: GraphKind = "bipartite",
    relabel: bool | None = None,
    n_u: int | None = None,
    n_v: int | None = None,
    positive_from: float | None = None,
) -> LabelledGraph:
    """Read an array of edges, of shape (k, 2), or (k, 3) with the value that gives the sign in the third column.

    Parameters
    ----------
    relabel : bool, optional
        Whether the entries are labels to be given dense ids, rather than dense 0-based ids themselves. By
        default numbers are ids and anything else is a label.
    n_u, n_v : int, optional
        Layer sizes where the entries are ids (``n_u`` alone if unipartite); by default one more than the largest.
    positive_from : float, optional
        Values of at least this are positive, others negative. By default the sign is that of the value.

    Raises
    ------
    InputError
        For another shape, or options that do not fit.
    GraphError, CapacityError
        For ids out of range, labels or signs that cannot be read.
    """
    try:
        array = np.asarray(edges)
    except ValueError as error:
        raise InputError(f"edges are no array ({error}); give one of shape (k, 2) or (k, 3)") from error
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InputError(f"an edge array has shape (k, 2) or (k, 3); this one has shape {array.shape}")
    relabel = array.dtype.kind not in "iuf" if relabel is None else relabel
    return assemble_columns(
        list(array.T), ArrayRows(), kind=kind, relabel=relabel, n_u=n_u, n_v=n_v, positive_from=positive_from
    )


@checked
def from_pandas(
    frame: pandas.DataFrame,
    *,
    u: Hashable | None = None,
    v: Hashable | None = None,
    sign: Hashable | None = None,
    kind: GraphKind = "bipartite",
    relabel: bool = True,
    n_u: int | None = None,
    n_v: int | None = None,
    positive_from: float | None = None,
) -> LabelledGraph:
    """Read a data frame of one edge per row; parameters and errors as :func:`from_numpy`.

    Entries are labels unless ``relabel`` is False. InputError also for a column that is not there, or missing values.

    Parameters
    ----------
    u, v : hashable, optional
        Columns of the two ends. By default ``u`` and ``v`` (then with ``sign``, where there is such a column);
        else those that :mod:`papilio.storage.column_choice` tells by their names.
    sign : hashable, optional
        Column of the value that gives the sign.
    """
    names = _pick_columns(list(frame.columns), u, v, sign)
    for name in names:
        if frame[name].ndim != 1:
            raise InputError(f"the data frame has several columns {name!r}; rename them")
    columns = [frame[name].to_numpy() for name in names]
    origin = FrameRows(frame.index)
    return assemble_columns(
        columns,
        origin,
        kind=kind,
        relabel=relabel,
        n_u=n_u,
        n_v=n_v,
        positive_from=positive_from,
        names=names,
    )


@checked
def from_arrow(
    table: pyarrow.Table | Any,
    *,
    u: str | None = None,
    v: str | None = None,
    sign: str | None = None,
    kind: GraphKind = "bipartite",
    relabel: bool = True,
    n_u: int | None = None,
    n_v: int | None = None,
    positive_from: float | None = None,
) -> LabelledGraph:
    """Read a pyarrow table, or any object with ``__arrow_c_stream__`` (of polars, DuckDB, ...), of one edge per row.

    Parameters and errors as :func:`from_pandas`.
    """
    if not hasattr(table, "column"):
        from papilio.storage.frames import to_arrow_table

        table = to_arrow_table(table)
    names = _pick_columns(list(table.schema.names), u, v, sign)
    columns = []
    for name in names:
        if table.schema.names.count(name) != 1:
            raise InputError(f"the table has several columns {name!r}; rename them")
        columns.append(table.column(name).to_numpy(zero_copy_only=False))
    return assemble_columns(
        columns,
        ArrowRows(),
        kind=kind,
        relabel=relabel,
        n_u=n_u,
        n_v=n_v,
        positive_from=positive_from,
        names=names,
    )


@checked
def from_pairs(
    pairs: Any,
    *,
    kind: GraphKind = "bipartite",
    positive_from: float | None = None,
) -> LabelledGraph:
    """Read pairs of labels, one per edge, or triples with the value that gives the sign.

    Parameters
    ----------
    pairs : iterable of sequences
        Of lists or tuples, all of two or all of three entries. Numbers are labels, too.

    Raises
    ------
    InputError
        For an entry of another form.
    GraphError
        For labels or signs that cannot be read.
    """
    rows = list(pairs)
    width = len(rows[0]) if rows and isinstance(rows[0], list | tuple) else 2
    for i, row in enumerate(rows):
        if not isinstance(row, list | tuple) or len(row) != width or width not in (2, 3):
            raise InputError(
                f"entry {i} is {row!r}; an edge is a pair (u, v), or a triple (u, v, sign), the same for all edges"
            )
    columns = [label_array([row[i] for row in rows]) for i in range(width)]
    return assemble_columns(columns, PairRows(), kind=kind, relabel=True, positive_from=positive_from)


@checked
def from_scipy(
    matrix: Any, *, kind: GraphKind = "bipartite", sign: bool = False, positive_from: float | None = None
) -> LabelledGraph:
    """Read a SciPy sparse matrix or array of any format: every entry other than zero is an edge.

    Rows are U and columns V. Unipartite: square; an entry on either side of the diagonal is the edge. Repeated entries
    add up first, as everywhere in SciPy. With ``sign``, or from ``positive_from`` on, the entries give the signs.
    InputError for a matrix of the wrong shape. GraphError for entries that have no sign, or two sides of a diagonal
    that differ in sign.
    """
    if len(matrix.shape) != 2:
        raise InputError(f"a sparse matrix of shape {matrix.shape} is no graph; expected two dimensions")
    n_u, n_v = (int(size) for size in matrix.shape)
    if kind == "unipartite" and n_u != n_v:
        raise InputError(f"an adjacency matrix is square; this one has shape {matrix.shape}")
    entries = matrix.tocoo(copy=True)
    entries.sum_duplicates()
    present = entries.data != 0
    u, v = entries.row[present].astype(np.int64), entries.col[present].astype(np.int64)
    signed = sign or positive_from is not None
    signs = read_signs(entries.data[present], positive_from) if signed else None
    if kind == "unipartite" and signs is not None:
        _check_symmetric_signs(u, v, signs)
    result = assemble(kind, u, v, signs, n_u, n_v)
    dropped = {"zeros": int(present.size - np.count_nonzero(present))}
    if kind == "unipartite":
        dropped["self_loops"] = result.dropped["self_loops"]
    return LabelledGraph(result.graph, dropped=dropped, origin=SparseEntries(matrix.format))


def _pick_columns(
    present: list[Any], u: Hashable | None, v: Hashable | None, sign: Hashable | None
) -> list[Any]:
    if (u is None) != (v is None):
        raise InputError(f"u is {u!r} and v is {v!r}; name both columns or neither")
    if u is None:
        if sign is None and {"u", "v", "sign"} <= set(present):
            sign = "sign"
        ends = pick_ends(list(map(str, present)), [present.index(sign)] if sign in present else ())
        u, v = (None, None) if ends is None else (present[ends[0]], present[ends[1]])
    names = [u, v] if sign is None else [u, v, sign]
    for name in names:
        if name is None or name not in present:
            missing = "which columns are the ends" if name is None else f"no column {name!r}"
            raise InputError(f"{missing}: there are {', '.join(map(repr, present))}; name two as u and v")
    return names


def _check_symmetric_signs(u: NDArray[np.int64], v: NDArray[np.int64], sign: NDArray[np.int8]) -> None:
    keys = (np.minimum(u, v) << 32) | np.maximum(u, v)
    _, first, edge = np.unique(keys, return_index=True, return_inverse=True)
    differs = sign != sign[first[edge]]
    if bool(differs.any()):
        at = int(np.argmax(differs))
        raise GraphError(
            f"entries ({u[at]}, {v[at]}) and ({v[at]}, {u[at]}) differ in sign; they are one edge"
        )


_READERS: dict[tuple[str, str], Callable[..., LabelledGraph]] = {
    ("networkx", "Graph"): from_networkx,
    ("pandas", "DataFrame"): from_pandas,
    ("pyarrow", "Table"): from_arrow,
    ("pyarrow", "RecordBatch"): from_arrow,
    ("numpy", "ndarray"): from_numpy,
    ("igraph", "Graph"): from_igraph,
    ("graph_tool", "Graph"): from_graph_tool,
}
"""Readers by package and class; SciPy's sparse classes are many, and told by their module."""


def _find_reader(obj: Any) -> Callable[..., LabelledGraph]:
    for base in type(obj).__mro__:
        if base.__module__.startswith("scipy.sparse"):
            return from_scipy
        reader = _READERS.get((base.__module__.partition(".")[0], base.__name__))
        if reader is not None:
            return reader
    if hasattr(obj, "__arrow_c_stream__"):
        return from_arrow
    if isinstance(obj, Iterable) and not isinstance(obj, Mapping | str | bytes):
        return from_pairs
    raise InputError(
        f"cannot read a graph from {type(obj).__module__}.{type(obj).__qualname__}; expected a graph of Papilio, "
        "NetworkX, igraph, graph-tool, SciPy sparse, pandas (DataFrame), Arrow (pyarrow, polars, DuckDB), NumPy "
        "(array), or pairs"
    )


def label_any(obj: Any, **options: Any) -> LabelledGraph:
    """Read any object that a ``from_*`` function reads; ``options`` are that function's.

    The type is told by the names of its classes, so nothing is imported. InputError for an object of another library;
    other errors as the reader.
    """
    if isinstance(obj, LabelledGraph):
        return obj
    if isinstance(obj, BipartiteGraph | UnipartiteGraph):
        return LabelledGraph(obj)
    return _find_reader(obj)(obj, **options)


@overload
def from_any(obj: Any, *, kind: Literal["bipartite"] = "bipartite", **options: Any) -> BipartiteGraph: ...


@overload
def from_any(obj: Any, *, kind: Literal["unipartite"], **options: Any) -> UnipartiteGraph: ...


def from_any(obj: Any, *, kind: GraphKind = "bipartite", **options: Any) -> Graph:
    """Return the graph of any object that :func:`label_any` reads, without its labels; errors as there.

    InputError also for a graph of Papilio that is not of this ``kind``.
    """
    is_graph = isinstance(obj, LabelledGraph | BipartiteGraph | UnipartiteGraph)
    graph = (label_any(obj) if is_graph else label_any(obj, kind=kind, **options)).graph
    if graph.kind != kind:
        raise InputError(f"a {kind} graph is wanted; this one is a {type(graph).__name__}")
    return graph
