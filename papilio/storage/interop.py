"""Graphs from and to the objects of other libraries.

NetworkX, igraph, graph-tool, SciPy sparse, pandas, pyarrow and other Arrow tables (polars, DuckDB), NumPy, pairs.

Every ``from_*`` function returns a :class:`LabelledGraph`: dense ids, the original labels of both layers, counts of
dropped entries, and the edge of each row. Of duplicate edges the first is kept; self loops of a unipartite graph are
dropped. No library is imported to read its objects. Every ``to_*`` function takes a graph, or a :class:`LabelledGraph`
whose labels then replace the ids, and imports the library that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import checked
from papilio.errors import GraphError, InputError
from papilio.extras import import_extra
from papilio.graph import BipartiteGraph, GraphKind
from papilio.storage.column_choice import pick_ends
from papilio.storage.evidence import Evidence, Layout, Missing, note_unused, note_values
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
from papilio.storage.layout import decide
from papilio.storage.objects import (
    adjacency_graph,
    value_mask,
)
from papilio.storage.vertices import Vertices, from_vertices
from papilio.storage.where import Condition

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


def pairs_to_networkx(
    vertices: Sequence[Any], names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> networkx.Graph[Any]:
    """Return a NetworkX graph whose nodes are these vertices, and whose edges are pairs of them.

    A row has two vertices, then the attributes of their edge, called ``names``.
    """
    network: networkx.Graph[Any] = import_extra("networkx", "to_networkx needs").Graph()
    network.add_nodes_from(vertices)
    network.add_edges_from((a, b, dict(zip(names, numbers, strict=True))) for a, b, *numbers in rows)
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
    names = pick_columns("data frame", list(frame.columns), u, v, sign)
    columns = [frame[name] for name in names]
    origin = FrameRows(index=frame.index)
    found = assemble_columns(columns, names, origin, kind, labels, n_u, n_v, positive_from, missing=missing)
    return replace(found, notes=_note_others(list(frame.columns), names))


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
        table = as_table(table)
    names = pick_columns("table", list(table.schema.names), u, v, sign)
    columns = [table.column(name) for name in names]
    origin: Origin = PolarsRows("polars data frame") if is_polars else ArrowRows("pyarrow table")
    found = assemble_columns(columns, names, origin, kind, labels, n_u, n_v, positive_from, missing=missing)
    return replace(found, notes=_note_others(table.schema.names, names))


def _note_others(present: Sequence[Any], used: Sequence[Any]) -> tuple[str, ...]:
    """Return a note on the columns that are not used, if the graph has no signs."""
    others = [str(name) for name in present if name not in used]
    return (note_unused(others),) if others and len(used) == 2 else ()


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
    n_stored = entries.nnz
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
    n_repeated = n_stored - entries.nnz
    notes = () if signed else note_values(int(np.count_nonzero(entries.data[present] != 1)))
    origin = SparseEntries(format=matrix.format)
    seen = Evidence("the sparse matrix", (), is_matrix=True, shape=(n_u, n_v), places=(u, v))
    plan = decide(seen, layout, bipartite=kind == "bipartite")
    if plan.layout == "adjacency" and kind == "bipartite":
        found = adjacency_graph("the sparse matrix", u, v, signs, (n_u, n_v), kind, None, None, origin)
        return replace(found, notes=(*plan.notes, *notes), dropped={**found.dropped, "duplicates": n_repeated})
    result = assemble(kind, u, v, signs, n_u, n_v)
    # This format pads its blocks with zeros.
    dropped = {"zeros": 0 if matrix.format == "bsr" else int(present.size - np.count_nonzero(present))}
    dropped["duplicates"] = n_repeated
    if kind == "unipartite":
        dropped["self_loops"] = result.dropped["self_loops"]
    return LabelledGraph(result.graph, dropped=dropped, origin=origin, notes=notes)


def pick_columns(
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


def as_table(obj: Any) -> Any:
    import pyarrow

    try:
        return pyarrow.table(obj)
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        kind_of = f"{type(obj).__module__}.{type(obj).__qualname__}"
        raise InputError(
            f"a {kind_of} cannot be converted to an Arrow table ({error}); expected one edge per row"
        ) from error
