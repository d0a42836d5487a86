"""The graph of any object: its kind is found by the names of its classes, its layout by what it shows.

Lazy frames and relations are collected, matrices and groups are read here, and edges by a reader of
:mod:`papilio.storage.interop`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np

from papilio.errors import InputError
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.storage.column_choice import find_column, is_known_name, pick_ends, plain_name
from papilio.storage.evidence import Evidence, Layout, Missing, has_value, note_values
from papilio.storage.interop import (
    as_table,
    from_arrow,
    from_graph_tool,
    from_igraph,
    from_networkx,
    from_numpy,
    from_pairs,
    from_pandas,
    from_scipy,
    pick_columns,
)
from papilio.storage.labelled import (
    Graph,
    LabelledGraph,
    Origin,
    assemble_columns,
)
from papilio.storage.layout import Plan, decide
from papilio.storage.objects import (
    Sheet,
    are_numbers,
    cell_of_object,
    choose_layout,
    count_values,
    entries_of,
    groups_graph,
    matrix_graph,
    rows_of_groups,
    sheet_of,
    value_mask,
)
from papilio.storage.where import Condition, arrow_column, read_conditions


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
                    wanted = pick_columns("table", names, *chosen)
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
        "NetworkX, igraph, graph-tool, SciPy sparse, pandas (DataFrame, Series), Arrow (pyarrow, polars, DuckDB), "
        "NumPy (array), a dictionary of sets, or pairs"
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
        rows = rows_of_groups("the dictionary", obj.items(), missing)
        values = (value for of in obj.values() if isinstance(of, Mapping) for value in of.values())
        notes = note_values(sum(has_value(cell_of_object(each)) for each in values))
        found = groups_graph("the dictionary", rows, kind, layout, missing)
        return replace(found, notes=(*found.notes, *notes))
    package, name = type(obj).__module__.partition(".")[0], type(obj).__name__
    if package == "pandas" and name == "Series":
        return _read_series(obj, kind, layout, missing, where)
    if any(base.__module__.startswith("scipy.sparse") for base in type(obj).__mro__):
        return obj, rest | ({"where": where} if where else {})
    if _is_graph(obj):
        return obj, rest | ({"where": where} if where else {})
    is_stream = hasattr(obj, "__arrow_c_stream__") and package not in ("pandas", "polars")
    if is_stream and not hasattr(obj, "column"):
        obj = as_table(obj)
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
            f"a Series with {series.index.nlevels} levels of names cannot be read as {layout or 'a graph'}; expected "
            "two levels, such as plant and bee, with a number each, or one level with a set or list each"
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
    notes = note_values(count_values(series, found))
    return replace(result, dropped={**result.dropped, "zeros": int((~found).sum())}, notes=notes)


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
