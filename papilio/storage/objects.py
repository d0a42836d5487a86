"""Objects of other libraries that hold a matrix, groups or neighbours, and the choice of their rows.

What an object shows is put into the same evidence as for files, and :func:`papilio.storage.layout.decide` decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import GraphError, InputError
from papilio.graph import GraphKind
from papilio.storage.column_choice import are_named_ends, pick_ends, plain_name
from papilio.storage.evidence import (
    TOTALS,
    Evidence,
    Layout,
    Missing,
    entry_of,
    has_value,
    is_missing_word,
    is_number,
    note_values,
)
from papilio.storage.labelled import (
    LabelledGraph,
    MatrixEntries,
    Origin,
    assemble,
    assemble_columns,
    label_array,
    read_signs,
)
from papilio.storage.layout import Plan, decide, zero_weights
from papilio.storage.two_colours import two_colours
from papilio.storage.where import Condition, arrow_column, has_zero

_SAMPLE_ROWS = 2000
_SAMPLE_CELLS = 1 << 18


@dataclass(frozen=True)
class Sheet:
    """A two-dimensional object: its columns, and the names of its rows and columns, if it has any."""

    what: str  # in messages
    columns: Sequence[Any]  # NumPy arrays or lists, shape (n,) each
    names: tuple[Any, ...] = ()
    row_names: Any = None
    is_matrix: bool = False
    are_pairs: bool = False
    are_floats: bool = False
    is_cross: bool = False  # a cross table, whatever its names are
    is_text: bool = False  # an array of text
    is_whole: bool = True  # whether these are all rows

    @property
    def n_rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def cell(self, value: Any) -> Any:
        """Return a value as a cell; in an array of text a number is one, as in a file."""
        if not self.is_text:
            return cell_of_object(value)
        from papilio.storage.formats import cell_of  # slow to import, and only needed for text

        return cell_of(value.encode())

    def sample(self) -> list[list[Any]]:
        """Return the first rows as plain cells."""
        width = max(1, len(self.columns))
        n = min(self.n_rows, _SAMPLE_ROWS, max(20, _SAMPLE_CELLS // width))
        columns = [[self.cell(value) for value in _listed(_first(column, n))] for column in self.columns]
        return [list(row) for row in zip(*columns, strict=True)]


def _first(column: Any, n: int) -> Any:
    """Return the first n values of a column."""
    return column.iloc[:n] if hasattr(column, "iloc") else column[:n]


def _listed(column: Any) -> list[Any]:
    take = next((take for name in ("tolist", "to_list", "to_pylist") if (take := getattr(column, name, None))), None)
    found: list[Any] = list(column) if take is None else take()
    return found


def cell_of_object(value: Any) -> Any:
    """Return a value of an object as a cell: missing values and words for them are None."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str):
        return None if is_missing_word(value) else value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return None if value != value else int(value) if float(value).is_integer() else float(value)
    return str(value)


def sheet_of(obj: Any) -> Sheet | None:
    """Return a two-dimensional object as a sheet, or None for an object of another form."""
    package = type(obj).__module__.partition(".")[0]
    if isinstance(obj, np.ndarray):
        if np.ma.is_masked(obj) or obj.ndim != 2 or not obj.shape[1] or obj.dtype.kind not in "biufOU":
            return None
        array = np.asarray(obj)
        ends = array[:, :2] if array.shape[1] == 3 else array  # a third column may be a weight
        is_float = array.dtype.kind == "f" and not bool((np.isfinite(ends) & (ends == np.rint(ends))).all())
        wide = array.shape[1] > 3 and array.shape[0] != 2 and array.dtype.kind not in "OU"
        is_matrix = array.dtype.kind == "b" or is_float or wide
        kind = array.dtype.kind
        return Sheet("the array", list(array.T), is_matrix=is_matrix, are_floats=kind == "f", is_text=kind == "U")
    if package == "pandas" and type(obj).__name__ == "DataFrame":
        return _frame_sheet(obj)
    if package == "pyarrow" and hasattr(obj, "column"):
        names = sorted(obj.schema.names, key=lambda name: name not in _index_names(obj.schema))
        return Sheet("the table", [obj.column(obj.schema.names.index(name)) for name in names], tuple(names))
    if package == "polars" and hasattr(obj, "get_columns"):
        return Sheet("the table", obj.get_columns(), tuple(obj.columns))
    return None


def _index_names(schema: Any) -> list[str]:
    """Return the columns of an Arrow schema that were the index of a data frame, which come last there."""
    held = (schema.metadata or {}).get(b"pandas")
    named = json.loads(held).get("index_columns", ()) if held else ()
    return [name for name in named if isinstance(name, str)]


def _frame_sheet(frame: Any) -> Sheet:
    columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
    index = frame.index
    is_numeric = all(map(are_numbers, columns))
    has_words = index.nlevels == 1 and index.size > 0 and all(isinstance(each, str) for each in index[:_SAMPLE_ROWS])
    is_cross = frame.columns.name is not None and frame.columns.nlevels == 1
    is_plain = type(index).__name__ == "RangeIndex" and index.name is None
    row_names = index if has_words or is_cross or (index.name is not None and not is_plain) else None
    return Sheet(
        "the data frame",
        columns,
        tuple(frame.columns),
        row_names,
        is_matrix=is_numeric and index.nlevels == 1 and bool(columns) and has_words,
        is_cross=is_numeric and index.nlevels == 1 and bool(columns) and is_cross,
    )


def are_numbers(column: Any) -> bool:
    """Return whether the first values of a column are numbers, or missing."""
    cells = [cell_of_object(each) for each in _listed(_first(column, _SAMPLE_ROWS))]
    return all(isinstance(cell, int | float) or cell is None for cell in cells)


def choose_layout(sheet: Sheet, asked: Layout | None, options: Mapping[str, Any], *, kind: GraphKind) -> Plan:
    """Return how to read a sheet; raises as :func:`papilio.storage.layout.decide`."""
    names = tuple(map(str, sheet.names))
    given = options.get("u"), options.get("v")
    ends: tuple[int, int] | None = (0, 1) if len(sheet.columns) in (2, 3) and not names else None
    if names:
        ends = pick_ends(names)
        if all(each in sheet.names for each in given) and None not in given:
            ends = sheet.names.index(given[0]), sheet.names.index(given[1])
    chosen = None not in given or options.get("sign") not in (None, True) or options.get("labels") is not None
    chosen = chosen or any(options.get(size) is not None for size in ("n_u", "n_v"))
    weight = options.get("weight")
    is_flat = sheet.n_rows == 2 and not names and len(sheet.columns) > 2 and not sheet.is_matrix
    third = [cell_of_object(each) for each in _listed(sheet.columns[2])] if is_flat else ()
    if asked is None and not chosen and all(map(is_number, third)) and any(abs(each) != 1 for each in third):
        _refuse_transposed(sheet)
    rows = sheet.sample()
    _refuse_lists(sheet)
    seen = Evidence(
        sheet.what,
        rows,
        names,
        sheet.row_names if sheet.row_names is None else list(sheet.row_names[:_SAMPLE_ROWS]),
        complete=sheet.is_whole and sheet.n_rows == len(rows),
        n_rows=sheet.n_rows,
        is_matrix=sheet.is_cross or (sheet.is_matrix and not are_named_ends(names, ends)),
        are_pairs=sheet.are_pairs,
        are_floats=sheet.are_floats,
        ends=ends,
        are_named_ends=chosen or are_named_ends(names, ends),
        are_asked_ends=chosen,
        weight=sheet.names.index(weight) if weight in sheet.names else None,
        signed=options.get("sign") is not None or options.get("positive_from") is not None,
        filtered=options.get("where") is not None,
    )
    plan = decide(seen, asked, bipartite=kind == "bipartite")
    fractions = (cell for row in rows for cell in row[:2] if isinstance(cell, float) and not cell.is_integer())
    if sheet.is_text and plan.layout == "edges" and (fraction := next(fractions, None)) is not None:
        raise InputError(
            f"{sheet.what} holds text such as '{fraction}', no label; if it is a matrix, use .astype(float)"
        )
    if plan.weight is not None and has_zero(arrow_column(sheet.columns[plan.weight])):
        later = f"rows after the first {len(rows):,}"
        raise InputError(zero_weights(sheet.what, seen.name(plan.weight), plan.weight, 0, later))
    return plan


def _refuse_lists(sheet: Sheet) -> None:
    """Raise InputError for a column of lists: each entry stands for several edges."""
    for at, column in enumerate(sheet.columns):
        if any(isinstance(each, list | set | frozenset | np.ndarray) for each in _listed(_first(column, _SAMPLE_ROWS))):
            name = repr(sheet.names[at]) if sheet.names else str(at + 1)
            raise InputError(
                f"{sheet.what}: column {name} holds lists; write one edge a row, as explode({name}) of a pandas or "
                "polars frame does"
            )


def _refuse_transposed(sheet: Sheet) -> None:
    """Raise InputError for an array of two rows, which may be the ends of edges."""
    n = len(sheet.columns)
    rows = [[column[at] for column in sheet.columns] for at in (0, 1)]
    raise InputError(
        f"{sheet.what} has shape (2, {n}): as edges, transposed: {len(set(rows[0])):,} x {len(set(rows[1])):,} "
        f"vertices, {len(set(zip(*rows, strict=True))):,} edges; as a matrix: 2 x {n:,}. Transpose it (array.T) if the "
        "two rows are the ends of edges, or set layout='matrix'"
    )


def matrix_graph(
    sheet: Sheet,
    plan: Plan,
    *,
    kind: GraphKind,
    missing: str | None,
    sign: Any = None,
    positive_from: float | None = None,
    where: Sequence[Condition] = (),
) -> LabelledGraph:
    """Return the graph of a matrix or an adjacency matrix; conditions are on its entries, as ``value``.

    Raises GraphError for missing entries, equal names, or entries that are neither numbers nor words for them.
    """
    if not plan.values:
        raise InputError(f"{sheet.what} is no matrix; use layout='edges'")
    found = [entries_of(sheet, at, plan, missing) for at in plan.values]
    mask = np.stack(found, axis=1) if found else np.zeros((sheet.n_rows, 0), bool)
    for condition in where:
        mask &= np.stack([value_mask(sheet.what, condition, sheet.columns[at]) for at in plan.values], axis=1)
    u, v = (each.astype(np.int64) for each in np.nonzero(mask))
    labels_u = sheet.row_names if plan.key is None else sheet.columns[plan.key]
    labels_v = [sheet.names[at] for at in plan.values] if sheet.names else None
    names_u = None if labels_u is None else label_array(_listed(np.asarray(labels_u, object)))
    names_v = None if labels_v is None else label_array([_plain(each) for each in labels_v])
    for what, labels in (("rows", names_u), ("columns", names_v)):
        _require_names(sheet.what, what, labels)
    if plan.layout == "matrix" and not plan.is_asked:  # the first rows may not have shown that it is symmetric
        names = tuple(map(str, labels_v or ()))
        seen = Evidence(
            sheet.what, (), names, None if labels_u is None else _listed(labels_u), is_matrix=True, shape=mask.shape,
            places=(u, v),
        )  # fmt: skip
        plan = replace(plan, layout=decide(seen, None, bipartite=kind == "bipartite").layout)
    signs, notes = None, tuple[str, ...]()
    if sign is None and positive_from is None:
        notes = note_values(sum(count_values(sheet.columns[at], mask[:, i]) for i, at in enumerate(plan.values)))
    else:
        values = np.stack([np.asarray(sheet.columns[at], float) for at in plan.values], axis=1)
        signs = read_signs(values[u, v], positive_from)
    if plan.layout == "adjacency" or kind == "unipartite":
        shape = sheet.n_rows, len(plan.values)
        return replace(adjacency_graph(sheet.what, u, v, signs, shape, kind, names_u, names_v), notes=notes)
    result = assemble("bipartite", u, v, signs, sheet.n_rows, len(plan.values))
    origin = MatrixEntries(index=sheet.row_names, columns=labels_v)
    return replace(result, labels_u=names_u, labels_v=names_v, origin=origin, notes=notes)


def count_values(column: Any, mask: NDArray[np.bool_]) -> int:
    """Return how many chosen entries of a column are numbers other than 1."""
    array = np.asarray(column)
    if array.dtype.kind in "iuf":
        return int(np.count_nonzero(mask & (array != 1)))
    return sum(has_value(cell_of_object(each)) for each in array[mask].tolist())


def value_mask(what: str, condition: Condition, values: Any) -> NDArray[np.bool_]:
    """Return which entries of a matrix meet a condition on ``value``; raise InputError for another column."""
    if condition.column != "value":
        raise InputError(
            f"{what} is a matrix: where={condition.text!r} is about a column {condition.column!r}, but its entries are "
            "called value, as in where='value >= 2'"
        )
    found = condition.mask(arrow_column(values))
    if found is None:
        raise InputError(f"{what}: the entries are no numbers, so where={condition.text!r} does not apply")
    return found


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _require_names(what: str, layer: str, labels: NDArray[Any] | None) -> None:
    if labels is None:
        return
    listed = labels.tolist()
    if len(set(listed)) < len(listed):
        again = next(label for at, label in enumerate(listed) if label in listed[:at])
        raise GraphError(f"{what}: several {layer} of the matrix have the name {again!r}; make them distinct")
    for label in listed:
        if isinstance(label, str) and plain_name(label) in TOTALS:
            raise GraphError(
                f"{what}: the name {label!r} of the {layer} seems to be one of totals, which are no vertex; leave it "
                "out (pandas.crosstab: margins=False), or give it another name"
            )


def entries_of(sheet: Sheet, at: int, plan: Plan, missing: str | None) -> NDArray[np.bool_]:
    """Return which cells of a column are entries."""
    column = sheet.columns[at]
    array = column.to_numpy(allow_copy=True) if type(column).__module__.startswith("polars") else np.asarray(column)
    if array.dtype.kind in "biu":
        return np.asarray(array != 0)
    name = sheet.names[at] if sheet.names else at
    if array.dtype.kind == "f":
        absent = np.isnan(array)
        found: NDArray[np.bool_] = (array != 0) & ~absent
    else:
        cells = [cell_of_object(each) for each in _listed(array)]
        states = [entry_of(cell) for cell in cells]
        absent = np.array([cell is None for cell in cells], bool)
        wrong = next(
            (cell for cell, state in zip(cells, states, strict=True) if state is None and cell is not None),
            None,
        )
        if wrong is not None:
            raise GraphError(f"{sheet.what}: {wrong!r} in column {name!r} is no entry of a matrix")
        found = np.array([bool(state) for state in states], bool)
        if plan.blanks:
            return found
    if absent.any() and missing != "drop":
        row = int(np.argmax(absent))
        raise GraphError(
            f"{sheet.what}: {int(absent.sum()):,} entries of column {name!r} of the matrix are missing (NaN), the "
            f"first in row {row}; missing='drop' reads missing entries as no edge"
        )
    return found


def adjacency_graph(
    what: str,
    u: NDArray[np.int64],
    v: NDArray[np.int64],
    signs: NDArray[np.int8] | None,
    shape: tuple[int, int],
    kind: GraphKind,
    names_u: NDArray[Any] | None,
    names_v: NDArray[Any] | None,
    origin: Origin | None = None,
) -> LabelledGraph:
    """Return the graph of the entries of an adjacency matrix, from ids of rows and columns, shape (k,) each."""
    if shape[0] != shape[1]:
        raise InputError(f"{what}: an adjacency matrix is square; this one has shape {shape}")
    if names_u is not None and names_v is not None and list(map(str, names_u)) != list(map(str, names_v)):
        raise InputError(
            f"{what}: the rows and columns of an adjacency matrix have the same names in the same order; use "
            "layout='matrix' if they are two layers"
        )
    names = names_u if names_v is None else names_v
    origin = MatrixEntries() if origin is None else origin
    if kind == "unipartite":
        result = assemble("unipartite", u, v, signs, shape[0], shape[0])
        return replace(result, labels_u=names, origin=origin)
    turned = np.array(two_colours(what, u.tolist(), v.tolist()), bool)
    from_u, to_v = np.where(turned, v, u), np.where(turned, u, v)
    # The row that comes first is in U.
    ids_u, u = np.unique(from_u, return_inverse=True)
    ids_v, v = np.unique(to_v, return_inverse=True)
    result = assemble("bipartite", u.astype(np.int64), v.astype(np.int64), signs, ids_u.size, ids_v.size)
    names = np.arange(shape[0]) if names is None else names
    return replace(result, labels_u=names[ids_u], labels_v=names[ids_v], origin=Origin(what, "entries"))


def rows_of_groups(what: str, groups: Iterable[tuple[Any, Any]], missing: str | None) -> list[list[Any]]:
    """Return keys and their collections as rows: a key, and its members.

    Raises InputError for a value that is no collection, and GraphError for members that cannot be labels.
    """
    rows: list[list[Any]] = []
    for key, members in groups:
        if isinstance(members, Mapping):
            members = [member for member, value in members.items() if _is_entry(what, key, member, value, missing)]
        elif not _is_collection(members):
            raise InputError(
                f"{what} has {members!r} at {key!r}; expected a set or list of the vertices that {key!r} is joined to"
            )
        rows.append([key, *members])
        try:
            set(rows[-1])
        except TypeError as error:
            raise GraphError(f"{what} has members at {key!r} that cannot be names of vertices ({error})") from error
    return rows


def _is_collection(value: Any) -> bool:
    return not isinstance(value, str) and isinstance(value, Mapping | Sequence | AnySet | np.ndarray)


def holds_graphs(obj: Any) -> bool:
    """Return whether an object is a dictionary of graphs by name.

    It has none of the values of a dictionary that is a graph: collections of vertices, and numbers.
    """
    return (
        isinstance(obj, Mapping)
        and bool(obj)
        and not any(value is None or isinstance(value, Number) or _is_collection(value) for value in obj.values())
    )


def groups_graph(
    what: str, rows: Sequence[Sequence[Any]], kind: GraphKind, asked: Layout | None, missing: Missing | None
) -> LabelledGraph:
    """Return the graph of groups, or of lists of neighbours, from rows of a key and its members.

    Raises as :func:`papilio.storage.layout.decide`.
    """
    seen = Evidence(what, rows, are_groups=True)
    plan = decide(seen, asked, bipartite=kind == "bipartite")
    u = [key for key, *members in rows for _ in members]
    v = [member for _, *members in rows for member in members]
    if plan.layout == "adjacency" and kind == "bipartite":
        turned = two_colours(what, u, v)
        u, v = ([b if turn else a for a, b, turn in zip(x, y, turned, strict=True)] for x, y in ((u, v), (v, u)))
    columns = [label_array(u), label_array(v)]
    found = assemble_columns(columns, (), Origin(what, "members"), kind, None, None, None, None, missing=missing)
    return replace(found, notes=plan.notes if plan.layout == "adjacency" else ())


def _is_entry(what: str, key: Any, member: Any, value: Any, missing: str | None) -> bool:
    """Return whether the value of a nested dictionary is an entry; attributes of an edge are one."""
    if isinstance(value, Mapping):
        return True
    cell = cell_of_object(value)
    if cell is None and missing != "drop":
        raise GraphError(
            f"{what} has no value at [{key!r}][{member!r}]; missing='drop' reads missing entries as no edge"
        )
    return cell is not None and entry_of(cell) is not False
