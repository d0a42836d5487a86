"""Graphs from and to the objects of other libraries.

NetworkX, igraph, graph-tool, SciPy sparse, pandas, pyarrow and other Arrow tables (polars, DuckDB), NumPy, pairs.

Every ``from_*`` function returns a :class:`LabelledGraph`: dense ids, the original labels of both layers, counts of
dropped entries, and the edge of each row. Of duplicate edges the first is kept; self loops of a unipartite graph are
dropped. No library is imported to read its objects. Every ``to_*`` function takes a graph, or a :class:`LabelledGraph`
whose labels then replace the ids, and imports the library that it needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import checked
from papilio.errors import GraphError, InputError
from papilio.extras import import_extra
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.storage.column_choice import find_column, is_known_name, pick_ends, plain_name
from papilio.storage.labelled import (
    ArrowRows,
    FrameRows,
    Graph,
    LabelledGraph,
    LabelsAs,
    Origin,
    PolarsRows,
    SparseEntries,
    assemble,
    assemble_columns,
    label_array,
    read_signs,
    sparse_array,
)
from papilio.storage.layout import Evidence, Layout, Missing, Plan, decide
from papilio.storage.objects import (
    Sheet,
    adjacency_graph,
    are_numbers,
    cell_of_object,
    choose_layout,
    entries_of,
    groups_graph,
    matrix_graph,
    rows_of_groups,
    sheet_of,
    value_mask,
)
from papilio.storage.vertices import Vertices, from_vertices
from papilio.storage.where import Condition, arrow_column, read_conditions

if TYPE_CHECKING:
    import networkx
    import pandas
    import pyarrow


@checked
def from_networkx(
    graph: networkx.Graph[Any],
    *,
    kind: GraphKind = "bipartite",
    u: str | Collection[Hashable] | None = None,
    sign: str | None = None,
    positive_from: float | None = None,
    where: Sequence[Condition] = (),
) -> LabelledGraph:
    """Read a NetworkX graph; directions and parallel edges are merged, isolated nodes are kept.

    Parameters
    ----------
    u : str or collection of nodes, optional
        ``ATTRIBUTE=VALUE`` of the nodes of layer U, such as ``kind=plant``, or these nodes. By default nodes whose
        attribute ``bipartite`` (or ``type``) is 0; else the layers are found as in :mod:`papilio.storage.layers`.
    sign : str, optional
        Edge attribute whose value determines the sign.
    positive_from : float, optional
        As :func:`from_numpy`.
    where : sequence of :class:`papilio.storage.where.Condition`
        Conditions on attributes of the edges. All edges show the layers; all nodes are kept.

    Raises
    ------
    GraphError
        For a graph that is not bipartite, a node of no layer, an edge within a layer, or an edge without a sign.
    InputError
        For an attribute or a value that no node has.
    """
    return from_vertices(Vertices.of_networkx(graph), kind, u, sign, positive_from, where)


@checked
def from_igraph(
    graph: Any,
    *,
    kind: GraphKind = "bipartite",
    u: str | Collection[Hashable] | None = None,
    sign: str | None = None,
    positive_from: float | None = None,
    where: Sequence[Condition] = (),
) -> LabelledGraph:
    """Read an igraph graph; the attribute ``name`` becomes the labels. Layers are found as in :func:`from_networkx`.

    Vertices without the attribute ``name`` have their igraph ids as labels. Directions and parallel edges are merged.

    Parameters
    ----------
    u : str or collection, optional
        ``ATTRIBUTE=VALUE`` of the vertices of layer U, or their labels. By default vertices whose attribute ``type`` is
        false.
    sign : str, optional
        Edge attribute whose value determines the sign.

    Raises
    ------
    GraphError, InputError
        As :func:`from_networkx`.
    """
    return from_vertices(Vertices.of_igraph(graph), kind, u, sign, positive_from, where)


@checked
def from_graph_tool(
    graph: Any,
    *,
    kind: GraphKind = "bipartite",
    u: str | Collection[Hashable] | None = None,
    sign: str | None = None,
    positive_from: float | None = None,
    where: Sequence[Condition] = (),
) -> LabelledGraph:
    """Read a graph-tool graph or view by its internal property maps; parameters and errors as :func:`from_igraph`.

    Labels are the property ``name``, else the vertex indices; the other properties may define the layers.
    """
    return from_vertices(Vertices.of_graph_tool(graph), kind, u, sign, positive_from, where)


def _labelled(graph: Graph | LabelledGraph) -> LabelledGraph:
    return graph if isinstance(graph, LabelledGraph) else LabelledGraph(graph)


def _columns(labelled: LabelledGraph) -> dict[str, NDArray[Any]]:
    """Return the columns u, v and, if signed, sign, each of shape (n_edges,)."""
    graph = labelled.graph
    labels_v = labelled.labels_u if labelled.kind == "unipartite" else labelled.labels_v
    columns: dict[str, NDArray[Any]] = {
        "u": graph.u.astype(np.int64) if labelled.labels_u is None else labelled.labels_u[graph.u],
        "v": graph.v.astype(np.int64) if labels_v is None else labels_v[graph.v],
    }
    if graph.sign is not None:
        columns["sign"] = graph.sign
    return columns


def to_numpy(graph: Graph | LabelledGraph) -> NDArray[np.int64]:
    """Return the edges as ids (without labels), shape (n_edges, 2), or (n_edges, 3) with signs."""
    bare = _labelled(graph).graph
    return np.stack([bare.u, bare.v] + ([] if bare.sign is None else [bare.sign]), axis=1).astype(np.int64)


def to_pandas(graph: Graph | LabelledGraph) -> pandas.DataFrame:
    """Return a data frame with columns ``u``, ``v`` and, for a signed graph, ``sign``; one row per edge.

    Isolated vertices do not appear.
    """
    frame: pandas.DataFrame = import_extra("pandas", "to_pandas needs").DataFrame(_columns(_labelled(graph)))
    return frame


def to_arrow(graph: Graph | LabelledGraph) -> pyarrow.Table:
    """Return a pyarrow table with columns ``u``, ``v`` and, for a signed graph, ``sign``; one row per edge.

    Isolated vertices do not appear. Raises GraphError for labels that have no Arrow type, such as a mixture of integers
    and strings.
    """
    import pyarrow

    try:
        return pyarrow.table(_columns(_labelled(graph)))
    except pyarrow.ArrowException as error:
        raise GraphError(
            f"the labels have no common Arrow type ({error}); use to_pandas, or convert them to strings first"
        ) from error


def to_polars(graph: Graph | LabelledGraph) -> Any:
    """Return a polars data frame, as :func:`to_arrow`."""
    return import_extra("polars", "to_polars needs").from_arrow(to_arrow(graph))


def to_scipy(graph: Graph | LabelledGraph, *, format: str = "csr") -> Any:
    """Return a SciPy sparse array of int64, with 1 or the sign at each edge, in any format of ``coo_array.asformat``.

    For a bipartite graph, the biadjacency matrix, shape (n_u, n_v); for a unipartite one, the symmetric adjacency
    matrix, shape (n, n). Labels are not used.
    """
    bare = _labelled(graph).graph
    data = np.ones(bare.n_edges, np.int64) if bare.sign is None else bare.sign.astype(np.int64)
    return sparse_array(bare, data, format)


def to_networkx(graph: Graph | LabelledGraph) -> networkx.Graph[Any]:
    """Return a NetworkX graph; all vertices become nodes, isolated ones too.

    Nodes are the labels, or the ids; in a bipartite graph without labels, V's ids follow U's, from ``n_u`` on. Nodes of
    a bipartite graph have the attribute ``bipartite``, 0 for U and 1 for V; edges of a signed graph have the attribute
    ``sign``. Raises GraphError if two vertices have the same label.
    """
    labelled = _labelled(graph)
    bare, result = labelled.graph, import_extra("networkx", "to_networkx needs").Graph()
    n_u, n_v = (bare.n_u, bare.n_v) if isinstance(bare, BipartiteGraph) else (bare.n, 0)
    nodes_u = list(range(n_u)) if labelled.labels_u is None else labelled.labels_u.tolist()
    if isinstance(bare, BipartiteGraph):
        nodes_v = list(range(n_u, n_u + n_v)) if labelled.labels_v is None else labelled.labels_v.tolist()
        result.add_nodes_from(nodes_u, bipartite=0)
        result.add_nodes_from(nodes_v, bipartite=1)
    else:
        nodes_v = nodes_u
        result.add_nodes_from(nodes_u)
    if result.number_of_nodes() != n_u + n_v:
        raise GraphError(
            f"{n_u + n_v} vertices have {result.number_of_nodes()} different labels, and NetworkX nodes are their "
            "labels; make the labels of both layers distinct, or leave them out"
        )
    signs = [None] * bare.n_edges if bare.sign is None else bare.sign.tolist()
    for u, v, sign in zip(bare.u.tolist(), bare.v.tolist(), signs, strict=True):
        result.add_edge(nodes_u[u], nodes_v[v], **({} if sign is None else {"sign": sign}))
    network: networkx.Graph[Any] = result
    return network


@checked
def from_numpy(
    edges: NDArray[Any],
    *,
    kind: GraphKind = "bipartite",
    labels: LabelsAs | None = None,
    n_u: int | None = None,
    n_v: int | None = None,
    sign: bool | None = None,
    positive_from: float | None = None,
    missing: Missing | None = None,
) -> LabelledGraph:
    """Read an array of edges, of shape (k, 2), or (k, 3) with a weight or the value of the sign in the third column.

    Parameters
    ----------
    labels : {"integer", "text", "id"}, optional
        ``id``: the entries are dense ids, from 0 on. ``integer``, ``text``: they are labels, and get ids. By default
        numbers are ids and all other entries are labels.
    n_u, n_v : int, optional
        Layer sizes if the entries are ids (only ``n_u`` if unipartite); by default one more than the largest id.
    sign : bool, optional
        Whether the third column gives the signs; by default if it holds negative values or ones only, or with
        ``positive_from``. Otherwise it is a weight, and not used.
    positive_from : float, optional
        Values of at least this are positive, others negative. By default the sign of the value counts.
    missing : {"drop", "label"}, optional
        What becomes of rows without an end, and of words such as NA as ends; by default they are an error.

    Raises
    ------
    InputError
        For another shape, or options that do not fit.
    GraphError, CapacityError
        For ids out of range, labels or signs that cannot be read.
    """
    if np.ma.is_masked(edges):
        raise GraphError("the array has masked entries; drop their rows, or fill them")
    try:
        array = np.asarray(edges)
    except ValueError as error:
        raise InputError(f"edges are not an array ({error}); expected shape (k, 2) or (k, 3)") from error
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InputError(f"an edge array has shape (k, 2) or (k, 3); this one has shape {array.shape}")
    if labels is None and array.dtype.kind in "iuf":
        labels = "id"
    columns, notes = _without_weights(list(array.T), sign, positive_from)
    origin = Origin("NumPy array")
    return replace(
        assemble_columns(columns, (), origin, kind, labels, n_u, n_v, positive_from, missing=missing),
        notes=notes,
    )


def _without_weights(
    columns: list[NDArray[Any]], sign: bool | None, positive_from: float | None
) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """Return the columns without the third one if that is a weight and no sign, and a note about it."""
    if len(columns) < 3 or positive_from is not None or (sign is not None and sign):
        return columns, ()
    values = columns[2]
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return columns, ()  # the reader says what is wrong
    if sign is None and bool((numbers < 0).any() or np.isin(numbers, (-1, 1)).all()):
        return columns, ()
    return columns[:2], ("not used: column 3; sign=3 makes it the sign, and where='3 > 0' leaves out zeros",)


@checked
def from_pandas(
    frame: pandas.DataFrame,
    *,
    u: Hashable | None = None,
    v: Hashable | None = None,
    sign: Hashable | None = None,
    kind: GraphKind = "bipartite",
    labels: LabelsAs | None = None,
    n_u: int | None = None,
    n_v: int | None = None,
    positive_from: float | None = None,
    missing: Missing | None = None,
) -> LabelledGraph:
    """Read a data frame of one edge per row; parameters and errors as :func:`from_numpy`.

    Entries are labels unless ``labels`` is ``id``. Also raises InputError for a missing column or missing values.

    Parameters
    ----------
    u, v : hashable, optional
        Columns of the two ends. By default ``u`` and ``v`` (with ``sign``, if there is such a column); else the
        columns that :mod:`papilio.storage.column_choice` identifies by their names.
    sign : hashable, optional
        Column of the value that determines the sign.
    """
    names = _pick_columns("data frame", list(frame.columns), u, v, sign)
    columns = [frame[name] for name in names]
    origin = FrameRows(index=frame.index)
    return assemble_columns(columns, names, origin, kind, labels, n_u, n_v, positive_from, missing=missing)


@checked
def from_arrow(
    table: pyarrow.Table | Any,
    *,
    u: str | None = None,
    v: str | None = None,
    sign: str | None = None,
    kind: GraphKind = "bipartite",
    labels: LabelsAs | None = None,
    n_u: int | None = None,
    n_v: int | None = None,
    positive_from: float | None = None,
    missing: Missing | None = None,
) -> LabelledGraph:
    """Read a pyarrow table, or any object with ``__arrow_c_stream__`` (of polars, DuckDB, ...), of one edge per row.

    Parameters and errors as :func:`from_pandas`.
    """
    is_polars = type(table).__module__.partition(".")[0] == "polars"
    if not hasattr(table, "column"):
        import pyarrow

        try:
            table = pyarrow.table(table)
        except (TypeError, ValueError, pyarrow.ArrowException) as error:
            kind_of = f"{type(table).__module__}.{type(table).__qualname__}"
            raise InputError(
                f"a {kind_of} cannot be converted to an Arrow table ({error}); expected one edge per row"
            ) from error
    names = _pick_columns("table", list(table.schema.names), u, v, sign)
    columns = [table.column(name) for name in names]
    origin: Origin = PolarsRows("polars data frame") if is_polars else ArrowRows("pyarrow table")
    return assemble_columns(columns, names, origin, kind, labels, n_u, n_v, positive_from, missing=missing)


@checked
def from_pairs(
    pairs: Any,
    *,
    kind: GraphKind = "bipartite",
    sign: bool | None = None,
    positive_from: float | None = None,
    missing: Missing | None = None,
) -> LabelledGraph:
    """Read pairs of labels, one per edge, or triples whose third entry is a weight or determines the sign.

    Parameters
    ----------
    pairs : iterable of sequences
        Lists or tuples, all with two or all with three entries. Numbers are labels, too.

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
    origin = Origin("list of pairs", "pairs")
    columns, notes = _without_weights(columns, sign, positive_from)
    return replace(
        assemble_columns(columns, (), origin, kind, None, None, None, positive_from, missing=missing),
        notes=notes,
    )


@checked
def from_scipy(
    matrix: Any,
    *,
    kind: GraphKind = "bipartite",
    sign: bool = False,
    positive_from: float | None = None,
    layout: Layout | None = None,
    missing: Missing | None = None,
    where: Sequence[Condition] = (),
) -> LabelledGraph:
    """Read a SciPy sparse matrix or array of any format: every non-zero entry is an edge.

    Rows are U and columns V. A unipartite graph needs a square matrix; an entry on either side of the diagonal is the
    edge. Repeated entries are summed first, as usual in SciPy. With ``sign`` or ``positive_from``, the entries
    determine the signs. Stored zeros are no edges. NaN is an error, or no edge with ``missing="drop"``. A symmetric
    matrix with an empty diagonal is the adjacency matrix of a graph, unless ``layout`` is "matrix". Raises InputError
    for a matrix of the wrong shape, and GraphError for entries without a sign, or entries on both sides of the diagonal
    that differ in sign.
    """
    if len(matrix.shape) != 2:
        raise InputError(f"a sparse matrix of shape {matrix.shape} is not a graph; expected two dimensions")
    n_u, n_v = (int(size) for size in matrix.shape)
    if kind == "unipartite" and n_u != n_v:
        raise InputError(f"an adjacency matrix is square; this one has shape {matrix.shape}")
    entries = matrix.tocoo(copy=True)
    entries.sum_duplicates()
    present = entries.data != 0
    absent = entries.data != entries.data
    if bool(absent.any()):
        if missing != "drop":
            at = int(np.argmax(absent))
            raise GraphError(
                f"{int(absent.sum()):,} entries of the sparse matrix are missing (NaN), the first at "
                f"({entries.row[at]}, {entries.col[at]}); missing='drop' reads missing entries as no edge"
            )
        present &= ~absent
    for condition in where:
        present &= value_mask("the sparse matrix", condition, entries.data)
    u, v = entries.row[present].astype(np.int64), entries.col[present].astype(np.int64)
    signed = sign or positive_from is not None
    signs = read_signs(entries.data[present], positive_from) if signed else None
    if kind == "unipartite" and signs is not None:
        _check_symmetric_signs(u, v, signs)
    origin = SparseEntries(format=matrix.format)
    seen = Evidence("the sparse matrix", (), is_matrix=True, shape=(n_u, n_v), places=(u, v))
    plan = decide(seen, layout, bipartite=kind == "bipartite")
    if plan.layout == "adjacency" and kind == "bipartite":
        found = adjacency_graph("the sparse matrix", u, v, signs, (n_u, n_v), kind, None, None, origin)
        return replace(found, notes=plan.notes)
    result = assemble(kind, u, v, signs, n_u, n_v)
    # This format pads its blocks with zeros.
    dropped = {"zeros": 0 if matrix.format == "bsr" else int(present.size - np.count_nonzero(present))}
    if kind == "unipartite":
        dropped["self_loops"] = result.dropped["self_loops"]
    return LabelledGraph(result.graph, dropped=dropped, origin=origin)


def _pick_columns(
    what: str, present: list[Any], u: Hashable | None, v: Hashable | None, sign: Hashable | None
) -> list[Any]:
    if (u is None) != (v is None):
        raise InputError(f"u is {u!r} and v is {v!r}; name both columns or neither")
    if u is None:
        if sign is None and {"u", "v", "sign"} <= set(present):
            sign = "sign"
        ends = pick_ends(list(map(str, present)), [present.index(sign)] if sign in present else ())
        u, v = (None, None) if ends is None else (present[ends[0]], present[ends[1]])
    names = [u, v] if sign is None else [u, v, sign]
    there = ", ".join(map(repr, present)) or "none"
    if u is None:
        advice = "name two as u and v" if len(present) > 1 else "a graph needs two"
        raise InputError(f"the endpoint columns of the {what} are unknown: it has {there}; {advice}")
    for name in names:
        if name not in present:
            raise InputError(f"no column {name!r}: there are {there}; name two as u and v")
        if present.count(name) != 1:
            raise InputError(f"the {what} has several columns {name!r}; rename them")
    if names[0] == names[1]:
        raise InputError(f"the column {u!r} cannot be both u and v")
    return names


def _check_symmetric_signs(u: NDArray[np.int64], v: NDArray[np.int64], sign: NDArray[np.int8]) -> None:
    keys = (np.minimum(u, v) << 32) | np.maximum(u, v)
    _, first, edge = np.unique(keys, return_index=True, return_inverse=True)
    differs = sign != sign[first[edge]]
    if bool(differs.any()):
        at = int(np.argmax(differs))
        raise GraphError(f"entries ({u[at]}, {v[at]}) and ({v[at]}, {u[at]}) differ in sign; they are one edge")


def _collected(obj: Any, options: Mapping[str, Any], choice: Mapping[str, Any]) -> Any:
    """Return the columns to read of a lazy polars or Dask frame, a dataset or a relation; else the object.

    These are the ends of edges and what conditions need; all columns if there are few, or their layout is not clear.
    """
    package = type(obj).__module__.partition(".")[0]
    for base in type(obj).__mro__:
        if found := _COLLECTORS.get((package, base.__name__)):
            names_of, collect = found
            names = [*names_of(obj)]
            wanted = names
            if len(names) > _FEW_COLUMNS:
                chosen = (options.get(name) for name in ("u", "v", "sign"))
                with suppress(InputError):
                    wanted = _pick_columns("table", names, *chosen)
                    needed = [each.column for each in read_conditions(choice["where"])]
                    wanted += [name for name in names if name in needed and name not in wanted]
            return collect(obj, wanted)
    return obj


_FEW_COLUMNS = 4
"""Columns that are all read to decide the layout."""

_COLLECTORS: dict[tuple[str, str], tuple[Callable[[Any], Any], Callable[[Any, list[Any]], Any]]] = {
    ("polars", "LazyFrame"): (
        lambda frame: frame.collect_schema().names(),
        lambda frame, ends: frame.select(ends).collect(),
    ),
    ("dask", "DataFrame"): (lambda frame: frame.columns, lambda frame, ends: frame[ends].compute()),
    ("pyarrow", "Dataset"): (
        lambda dataset: dataset.schema.names,
        lambda dataset, ends: dataset.to_table(columns=ends),
    ),
    ("pyarrow", "Scanner"): (
        lambda scanner: scanner.projected_schema.names,
        lambda scanner, ends: scanner.to_table().select(ends),
    ),
    ("_duckdb", "DuckDBPyRelation"): (
        lambda relation: relation.columns,
        lambda relation, ends: relation.select(*('"' + name.replace('"', '""') + '"' for name in ends)),
    ),
}
"""How to get the names of all columns, and only some columns, of lazy sources, by package and class."""


_READERS: dict[tuple[str, str], Callable[..., LabelledGraph]] = {
    ("networkx", "Graph"): from_networkx,
    ("pandas", "DataFrame"): from_pandas,
    ("pyarrow", "Table"): from_arrow,
    ("pyarrow", "RecordBatch"): from_arrow,
    ("numpy", "ndarray"): from_numpy,
    ("igraph", "Graph"): from_igraph,
    ("graph_tool", "Graph"): from_graph_tool,
}
"""Readers by package and class; SciPy's many sparse classes are identified by their module."""


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


def holds_triples(obj: Any) -> bool:
    """Return whether an object is an array or a list whose third entries are signs for motifs that need them."""
    if isinstance(obj, np.ndarray):
        return obj.ndim == 2 and obj.shape[1] == 3
    return isinstance(obj, list) and bool(obj) and all(isinstance(row, tuple | list) and len(row) == 3 for row in obj)


def label_any(obj: Any, **options: Any) -> LabelledGraph:
    """Read any object that a ``from_*`` function reads; ``options`` are passed to that function.

    The type is recognised by its class names, so nothing is imported. Raises InputError for an object of another
    library; other errors as the reader.
    """
    if isinstance(obj, LabelledGraph):
        return obj
    if isinstance(obj, BipartiteGraph | UnipartiteGraph):
        return LabelledGraph(obj)
    choice = {name: options.pop(name, None) for name in ("layout", "where", "missing")}
    arranged = _arranged(_collected(obj, options, choice), options, choice)
    if isinstance(arranged, LabelledGraph):
        return arranged
    obj, options = arranged
    reader = _find_reader(obj)
    known = inspect.signature(reader).parameters
    unfit = [name for name in options if name not in known]
    if unfit:
        raise InputError(
            f"{', '.join(unfit)} cannot be used with a {type(obj).__name__}, which takes {', '.join([*known][1:])}"
        )
    return reader(obj, **options)


def _arranged(obj: Any, options: dict[str, Any], choice: dict[str, Any]) -> LabelledGraph | tuple[Any, dict[str, Any]]:
    """Return the graph of an object that is no list of edges; else the rows of edges to read, and the options."""
    layout, missing = choice["layout"], choice["missing"]
    kind: GraphKind = options.get("kind", "bipartite")
    where = read_conditions(choice["where"])
    rest = options | {name: choice[name] for name in ("layout", "missing") if choice[name] is not None}
    if isinstance(obj, Mapping) and not _is_graph(obj):
        _refuse_unused("dictionary", where, options)
        return groups_graph(
            "the dictionary", rows_of_groups("the dictionary", obj.items(), missing), kind, layout, missing
        )
    package, name = type(obj).__module__.partition(".")[0], type(obj).__name__
    if package == "pandas" and name == "Series":
        return _read_series(obj, kind, layout, missing, where)
    if any(base.__module__.startswith("scipy.sparse") for base in type(obj).__mro__):
        return obj, rest | ({"where": where} if where else {})
    if _is_graph(obj):
        return obj, rest | ({"where": where} if where else {})
    is_stream = hasattr(obj, "__arrow_c_stream__") and package not in ("pandas", "polars")
    if is_stream and not hasattr(obj, "column"):
        obj = _as_table(obj)
    sheet = sheet_of(obj)
    if sheet is None and not isinstance(obj, np.ndarray) and not hasattr(obj, "__arrow_c_stream__"):
        listed = _listed_rows(obj, kind, layout, missing)
        if isinstance(listed, LabelledGraph):
            return listed
        obj, sheet = listed
    if sheet is None:
        return obj, rest
    plan = choose_layout(sheet, layout, options | {"where": choice["where"]}, kind=kind)
    if plan.layout == "groups" or (plan.layout == "adjacency" and not plan.values):
        return _listed_groups(sheet.what, [*zip(*sheet.columns, strict=True)], plan, kind, missing)
    if plan.layout != "edges":
        _refuse_unused(
            "matrix",
            (),
            {name: options[name] for name in ("u", "v", "labels", "n_u", "n_v") if name in options},
        )
        return matrix_graph(
            sheet, plan, kind=kind, missing=missing, sign=options.get("sign"),
            positive_from=options.get("positive_from"), where=where,
        )  # fmt: skip
    options = options | ({} if missing is None else {"missing": missing})
    _refuse_index_of_ends(obj, sheet, options)
    if where:
        obj = _rows_where(obj, sheet, where)
    return obj, options


def _refuse_index_of_ends(obj: Any, sheet: Sheet, options: Mapping[str, Any]) -> None:
    """Raise InputError for a data frame of edges whose index may be one of their ends."""
    index: Any = getattr(obj, "index", None)
    if sheet.row_names is None or getattr(index, "name", None) is None or options.get("u") is not None:
        return
    ends = pick_ends(list(map(str, sheet.names)))
    is_end = is_known_name(str(index.name)) and not plain_name(str(index.name)).endswith("id")
    has_values = ends is None or any(are_numbers(sheet.columns[at]) for at in ends)
    if is_end or not index.is_unique or (has_values and not are_numbers(index)):
        raise InputError(
            f"{sheet.what} has the index {index.name!r}, which may be one of the two ends: make it a column "
            "(frame.reset_index()), or name the columns of the ends by u and v"
        )


def _is_graph(obj: Any) -> bool:
    return any((base.__module__.partition(".")[0], base.__name__) in _GRAPHS for base in type(obj).__mro__)


_GRAPHS = {("networkx", "Graph"), ("igraph", "Graph"), ("graph_tool", "Graph")}


def _refuse_unused(what: str, where: Sequence[Condition], options: Mapping[str, Any]) -> None:
    names = [name for name in options if name != "kind"] + (["where"] if where else [])
    if names:
        raise InputError(f"{', '.join(names)} cannot be used with a {what}")


def _as_table(obj: Any) -> Any:
    import pyarrow

    try:
        return pyarrow.table(obj)
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        kind_of = f"{type(obj).__module__}.{type(obj).__qualname__}"
        raise InputError(
            f"a {kind_of} cannot be converted to an Arrow table ({error}); expected one edge per row"
        ) from error


def _read_series(
    series: Any, kind: GraphKind, layout: Layout | None, missing: Missing | None, where: Sequence[Condition]
) -> LabelledGraph:
    """Read a pandas Series: entries of a matrix under pairs of names, or groups under theirs."""
    if series.index.nlevels == 1:
        _refuse_unused("Series of groups", where, {})
        rows = rows_of_groups("the Series", zip(series.index, series, strict=True), missing)
        return groups_graph("the Series", rows, kind, layout, missing)
    if series.index.nlevels != 2 or layout not in (None, "matrix", "edges"):
        raise InputError(
            f"a Series with {series.index.nlevels} levels of names is no graph; expected two levels, or collections"
        )
    if layout == "edges":
        frame = series.index.to_frame(index=False)
        return from_pandas(frame, u=frame.columns[0], v=frame.columns[1], kind=kind, missing=missing)
    plan = Plan("matrix", values=(0,))
    sheet = Sheet("the Series", [series], ())
    found = entries_of(sheet, 0, plan, missing)
    for condition in where:
        found &= value_mask(sheet.what, condition, series)
    index = series.index[found]
    u, v = (np.asarray(index.get_level_values(at)) for at in (0, 1))
    result = assemble_columns([u, v], (), Origin("Series", "entries"), kind, None, None, None, None, missing=missing)
    return replace(result, dropped={**result.dropped, "zeros": int((~found).sum())})


def _listed_rows(
    obj: Any, kind: GraphKind, layout: Layout | None, missing: Missing | None
) -> LabelledGraph | tuple[Any, Sheet | None]:
    """Return the rows of an iterable as a sheet if they have one length, or the graph of its groups."""
    if not isinstance(obj, Iterable) or isinstance(obj, str | bytes):
        return obj, None
    rows = list(obj)
    if rows and all(isinstance(row, set | frozenset) for row in rows):
        named = rows_of_groups("the list", enumerate(rows), missing)
        return groups_graph("the list", named, kind, layout or "groups", missing)
    if not rows or not all(isinstance(row, list | tuple) for row in rows):
        return rows, None
    widths = set(map(len, rows))
    if len(widths) > 1 and all(isinstance(row, list) for row in rows):
        cells = [[cell_of_object(cell) for cell in row] for row in rows]
        plan = decide(Evidence("the list", cells), layout, bipartite=kind == "bipartite")
        if plan.layout in ("groups", "adjacency"):
            return _listed_groups("the list", rows, plan, kind, missing)
        return rows, None
    if len(widths) != 1 or widths == {0}:
        return rows, None
    are_pairs = all(isinstance(row, tuple) for row in rows) and widths <= {2, 3}
    columns = [list(column) for column in zip(*rows, strict=True)]
    sheet = Sheet("the list", columns, are_pairs=are_pairs, is_matrix=_is_table_of_numbers(columns))
    return rows, sheet


def _listed_groups(
    what: str, rows: Sequence[Sequence[Any]], plan: Plan, kind: GraphKind, missing: Missing | None
) -> LabelledGraph:
    """Return the graph of rows that are groups or lists of neighbours; groups without names have their places."""
    named = enumerate(rows) if plan.key is None else ((row[0], row[1 + plan.skipped :]) for row in rows)
    return groups_graph(what, rows_of_groups(what, named, missing), kind, plan.layout, missing)


def _is_table_of_numbers(columns: list[list[Any]]) -> bool:
    """Return whether lists are a matrix by their form: truth values, or numbers in more than three columns."""
    cells = [cell for column in columns for cell in column]
    if any(isinstance(cell, bool) for cell in cells):
        return True
    return len(columns) > 3 and len(columns[0]) != 2 and all(isinstance(cell, int | float) for cell in cells)


def _rows_where(obj: Any, sheet: Sheet, where: Sequence[Condition]) -> Any:
    """Return the rows of an object that meet all conditions."""
    mask = np.ones(sheet.n_rows, bool)
    names = tuple(map(str, sheet.names))
    for condition in where:
        at = find_column(sheet.what, names, len(sheet.columns), condition.column, "where")
        found = condition.mask(arrow_column(sheet.columns[at]))
        if found is None:
            raise InputError(
                f"{sheet.what}: the column {condition.column!r} does not hold numbers only, so "
                f"where={condition.text!r} does not apply"
            )
        mask &= found
    if isinstance(obj, list):
        return [row for row, holds in zip(obj, mask, strict=True) if holds]
    if isinstance(obj, np.ndarray) or type(obj).__module__.startswith("pandas"):
        return obj[mask]
    if type(obj).__module__.startswith("polars"):
        return obj.filter(mask)
    import pyarrow

    return obj.filter(pyarrow.array(mask))


@overload
def from_any(obj: Any, *, kind: Literal["bipartite"] = "bipartite", **options: Any) -> BipartiteGraph: ...


@overload
def from_any(obj: Any, *, kind: Literal["unipartite"], **options: Any) -> UnipartiteGraph: ...


def from_any(obj: Any, *, kind: GraphKind = "bipartite", **options: Any) -> Graph:
    """Return the graph of any object that :func:`label_any` reads, without its labels; raises the same errors.

    Also raises InputError for a Papilio graph of another ``kind``.
    """
    is_graph = isinstance(obj, LabelledGraph | BipartiteGraph | UnipartiteGraph)
    graph = (label_any(obj) if is_graph else label_any(obj, kind=kind, **options)).graph
    if graph.kind != kind:
        raise InputError(f"expected a {kind} graph; this one is a {type(graph).__name__}")
    return graph
