"""Answers as files and as Arrow tables: numbers per vertex, edge and pair, tables of counts; partials of leases.

Counts are ``uint64``. See :mod:`papilio.storage.tables` for the formats; the metadata of Parquet and Arrow contains the
content hash of the graph (``papilio.graph_hash``) and the motif (``papilio.motif``, JSON).

A decomposition is a directory, whole or absent; its files have the question (``papilio.api.decompose``, JSON) in place
of the motif.

    _decomposition.json   the question, and the number of items and nodes; marks a decomposition
    edges.parquet         of wings: columns u, v (ids), u_label, v_label, wing, node; a row for each edge of the store
    vertices.parquet      of tips: columns id, label (if the store has labels), tip, node; a row for each vertex. Of
                          cores core in place of tip; of two layers first layer, u or v
    nodes.parquet         columns node, level, parent (null for a root), members, size; a row for each node
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from itertools import islice
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio import charts
from papilio.arguments import plural
from papilio.errors import InputError, StoreError
from papilio.extras import import_extra
from papilio.motifs import Cell, CensusClass
from papilio.storage.edge_files import numbers_of
from papilio.storage.files import (
    atomic_directory,
    atomic_file,
    check_replaceable,
    local_path,
    os_errors_named,
    release_pages,
    slices_of,
)
from papilio.storage.labelled import FrameRows, LabelledGraph, plain_labels
from papilio.storage.labels import join_labels, take_labels
from papilio.storage.records import seal_json
from papilio.storage.sealed import SealedReader, SealedWriter, schema_of
from papilio.storage.sides import object_array
from papilio.storage.store import GraphStore, open_store
from papilio.storage.tables import integer_field, is_integer_field, write_tables

if TYPE_CHECKING:
    from papilio.charts import Axes
    from papilio.storage.foreign import ArrowTable, PandasFrame, PolarsFrame

ColumnType = Literal["int", "float", "text"]

_TYPES = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}


def write_rows(
    path: str | os.PathLike[str], columns: Mapping[str, ColumnType], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write one row per mapping to a Parquet file, whole or not at all; missing values and None become null.

    ``columns`` has names and types, in order; integers have 64 bits, and other keys are left out. Raises StoreError if
    the file cannot be written.
    """
    given = list(rows)
    arrays = [[row.get(name) for row in given] for name in columns]
    write_tables(path, pa.schema({name: _TYPES[kind] for name, kind in columns.items()}), [arrays], overwrite=True)


_ROW_GROUP = 1 << 20
"""Rows of a row group; limits the memory for writing."""

_TABLE_ROWS = 1 << 14
"""Rows of a row group of a table of big integers."""

Columns = Mapping[str, NDArray[Any]]
"""Numbers by column name, all of one length; NaN and masked values become null."""


def file_metadata(graph_hash: str, **asked: Any) -> dict[str, str]:
    """Return the metadata of a file of answers: the hash of the graph, and the question as JSON."""
    return {"papilio.graph_hash": graph_hash, **question_metadata(**asked)}


def question_metadata(**asked: Any) -> dict[str, str]:
    """Return the metadata of a file of answers about several graphs: the question as JSON."""
    return {f"papilio.{name}": json.dumps(value, sort_keys=True) for name, value in asked.items()}


def write_columns(
    path: str | os.PathLike[str],
    store: GraphStore,
    columns: Mapping[str, Columns],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = False,
    names_layer: bool = True,
) -> None:
    """Write a row for each vertex of some layers, by layer, then id; or for each ``edge``, in the order of the store.

    Vertices have the columns layer ('u' or 'v', where ``names_layer``), id (int32), label (if the store has labels
    of these layers), then the given columns, with the same names and types for every layer. Edges have u, v (int32),
    u_label and v_label (if the store has labels), then the given columns; the edges are read again, one row group at a
    time. ``overwrite`` and errors as :func:`write_tables`; StoreError if the store cannot be read.
    """
    schema, rows = _rows_of(store, columns, names_layer)
    write_tables(path, schema.with_metadata(dict(metadata)), rows, overwrite=overwrite)


Source = GraphStore | LabelledGraph

Labels = Mapping[str, pa.ChunkedArray | None]


def _rows_of(
    source: Source, columns: Mapping[str, Columns], names_layer: bool
) -> tuple[pa.Schema, Iterator[list[Any]]]:
    labels = {layer: label_column(source, layer) for layer in (("u", "v") if "edge" in columns else columns)}
    if "edge" in columns:
        types = {"u": pa.int32(), "v": pa.int32()}
        types |= {f"{layer}_label": each.type for layer, each in labels.items() if each is not None}
        rows = _edge_rows(source, columns["edge"], labels)
    else:
        types = ({"layer": pa.string()} if names_layer else {}) | {"id": pa.int32()}
        label_type = _label_type(labels)
        types |= {} if label_type is None else {"label": label_type}
        rows = _vertex_rows(columns, labels, label_type, names_layer)
    return pa.schema([*schema_of(types), *_fields_of(next(iter(columns.values())))]), rows


def _label_type(labels: Labels) -> pa.DataType | None:
    """Return the type of a column of labels of some layers, or of ids for layers without labels."""
    types = {pa.int64() if each is None else each.type for each in labels.values()}
    if all(each is None for each in labels.values()):
        return None
    return types.pop() if len(types) == 1 else pa.string()


def _vertex_rows(
    layers: Mapping[str, Columns], labels: Labels, label_type: pa.DataType | None, names_layer: bool
) -> Iterator[list[Any]]:
    for layer, columns in layers.items():
        for rows in _row_groups(next(iter(columns.values())).size):
            ids = pa.array(np.arange(rows.start, rows.stop, dtype=np.int32))
            arrays = [pa.repeat(layer, len(ids)), ids] if names_layer else [ids]
            if label_type is not None:
                given = labels[layer]
                arrays.append((ids if given is None else given[rows]).cast(label_type))
            yield arrays + _arrays_of(columns, rows)


def _edge_rows(source: Source, columns: Columns, labels: Labels) -> Iterator[list[Any]]:
    at, whole = 0, [None if each is None else join_labels(each) for each in labels.values()]
    for u, v in _ends_of(source):
        ends = [pa.array(u), pa.array(v)]
        ends += [take_labels(of, ids) for ids, of in zip(ends, whole, strict=True) if of is not None]
        yield ends + _arrays_of(columns, slice(at, at + u.size))
        at += u.size


def _ends_of(source: Source) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Yield the ends of all edges, some at a time: the labels of all of them may be too long for one array."""
    if isinstance(source, GraphStore):
        yield from ((u, v) for u, v, _ in source.batches())
    else:
        graph = source.graph
        yield from ((graph.u[rows], graph.v[rows]) for rows in _row_groups(graph.n_edges))


def _row_groups(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, _ROW_GROUP):
        yield slice(start, min(start + _ROW_GROUP, n_rows))


def _fields_of(columns: Columns) -> list[pa.Field]:
    return [
        pa.field(name, pa.from_numpy_dtype(values.dtype), nullable=_has_nulls(values))
        for name, values in columns.items()
    ]


def _has_nulls(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "f" or np.ma.isMaskedArray(values)


def _arrays_of(columns: Columns, rows: slice) -> list[pa.Array]:
    """Return these rows of the columns as Arrow arrays; releases the pages of columns in files."""
    arrays = []
    for values in columns.values():
        arrays.append(pa.array(values[rows], from_pandas=values.dtype.kind == "f"))
        release_pages(values)
    return arrays


def write_table(
    path: str | os.PathLike[str],
    table: Mapping[Cell, int],
    metadata: Mapping[str, str],
    *,
    key: Sequence[str] = ("p", "q"),
    overwrite: bool = False,
) -> None:
    """Write counts by size, all above 0, by increasing key; errors as :func:`write_tables`.

    Columns: the key (int32), count (string, all digits; in JSON an integer) and log10 (float64) of the count.
    """
    sizes, log10s = schema_of(dict.fromkeys(key, pa.int32())), schema_of({"log10": pa.float64()})
    rows = sorted(table.items())
    groups = (rows[start : start + _TABLE_ROWS] for start in range(0, len(rows), _TABLE_ROWS))
    columns = (
        list(zip(*((*cell, str(count), log10(count)) for cell, count in cells), strict=True)) for cells in groups
    )
    schema = pa.schema([*sizes, integer_field("count"), *log10s], metadata)
    write_tables(path, schema, columns, overwrite=overwrite)


def write_census(
    path: str | os.PathLike[str],
    rows: Sequence[tuple[CensusClass, int, float]],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = False,
) -> None:
    """Write the rows of a census: columns class and group (string), count (string, all digits) and share (float64).

    In JSON the counts are integers. Errors as :func:`write_tables`.
    """
    names, shares = (
        schema_of({"class": pa.string(), "group": pa.string()}),
        schema_of({"share": pa.float64()}),
    )
    columns = zip(*((each.name, each.group, str(count), share) for each, count, share in rows), strict=True)
    schema = pa.schema([*names, integer_field("count"), *shares], metadata)
    write_tables(path, schema, [list(columns)], overwrite=overwrite)


def write_arrow(
    path: str | os.PathLike[str], table: pa.Table, metadata: Mapping[str, str], *, overwrite: bool = False
) -> None:
    """Write a table with this metadata; errors as :func:`write_tables`."""
    schema = table.schema.with_metadata(dict(metadata))
    write_tables(path, schema, [table.columns], overwrite=overwrite)


def write_partial_shard(path: str | os.PathLike[str], vectors: Mapping[str, NDArray[np.uint64]]) -> str:
    """Write the vectors of one partial, uint64 of shape (k,), and return the digest of the file."""
    sizes = {name: int(vectors[name].size) for name in sorted(vectors)}
    schema = schema_of({"value": pa.uint64()}, {"papilio.vectors": json.dumps(sizes)})
    with (
        atomic_file(path) as scratch,
        SealedWriter(scratch, schema, compression="zstd", use_dictionary=False) as writer,
    ):
        writer.write(schema.empty_table())
        for name in sizes:
            for part in slices_of(vectors[name], _ROW_GROUP):
                writer.write(pa.table([pa.array(part)], schema=schema))
    return writer.digest


def read_partial_shard(path: str | os.PathLike[str], digest: str) -> dict[str, NDArray[np.uint64]]:
    """Read the file of :func:`write_partial_shard`; StoreError if it is missing or its digest differs."""
    with SealedReader(arrow_fs.LocalFileSystem(), os.fspath(path), digest, "run the lease again") as file:
        sizes = json.loads(file.schema.metadata[b"papilio.vectors"])
        values, at = np.empty(file.metadata.num_rows, np.uint64), 0
        for table in file:
            part = numbers_of(table.column("value"))
            values[at : at + part.size] = part
            at += part.size
    bounds = np.cumsum([0, *sizes.values()])
    return {key: values[bounds[i] : bounds[i + 1]] for i, key in enumerate(sizes)}


def pairs_table(
    ids: Sequence[tuple[int, int]], labels: Sequence[tuple[Any, Any]], columns: Mapping[str, Sequence[int]]
) -> pa.Table:
    """Return a row for each pair: columns first, second (int32), first_label, second_label, then the given columns
    (uint64).

    Labels are int64 if all are integers, else text.
    """
    flat = _label_array([label for pair in labels for label in pair])
    arrays: dict[str, Any] = {}
    for place, name in enumerate(("first", "second")):
        arrays[name] = pa.array([pair[place] for pair in ids], pa.int32())
        arrays[f"{name}_label"] = flat[place::2]
    arrays |= {name: pa.array(numbers, pa.uint64()) for name, numbers in columns.items()}
    return pa.table([*arrays.values()], schema=schema_of({name: each.type for name, each in arrays.items()}))


def _label_array(labels: Sequence[Any]) -> pa.Array:
    """Return labels as int64 if all are Python integers that fit, in the Arrow type of their only type, or as text."""
    kinds = {type(label) for label in labels}
    if kinds <= {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return pa.array(labels, pa.int64())
    if len(kinds) == 1 and not kinds & {str, bytes}:
        with suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
            array = pa.array(labels)
            if not pa.types.is_nested(array.type):
                return array
    return pa.array([str(label) for label in labels], pa.string())


DECOMPOSITION_NAME = "_decomposition.json"


def check_decomposition_path(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """Return the output directory, before anything is computed; StoreError if it cannot be created."""
    target = local_path(path)
    check_replaceable(target, overwrite, DECOMPOSITION_NAME)
    return target


def write_decomposition(
    path: str | os.PathLike[str],
    store: GraphStore,
    asked: Mapping[str, Any],
    places: Mapping[str, Columns],
    nodes: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]] | None,
    *,
    overwrite: bool = False,
) -> None:
    """Write the numbers of all items, uint64 of shape (n_items,), and the forest if there is one.

    ``places`` has the columns of the vertices of each layer, or of the edges: the number, and ``node``, the node of
    each item, -1 for none (null in the file). ``nodes`` are levels, parents (-1 for none), members and sizes, each of
    shape (n_nodes,). Raises StoreError if the directory cannot be written or the store cannot be read.
    """
    metadata = file_metadata(store.hash, **{"api.decompose": asked})
    with atomic_directory(path, overwrite, DECOMPOSITION_NAME) as scratch:
        columns = {
            place: {name: _known(each) if name == "node" else each for name, each in of.items()}
            for place, of in places.items()
        }
        name = "edges" if "edge" in places else "vertices"
        write_columns(scratch / f"{name}.parquet", store, columns, metadata, names_layer=len(places) > 1)
        if nodes is not None:
            levels, parents, members, sizes = nodes
            ids = np.arange(levels.size, dtype=np.int32)
            table: Columns = {
                "node": ids,
                "level": levels,
                "parent": _known(parents),
                "members": members,
                "size": sizes,
            }
            rows = (_arrays_of(table, rows) for rows in _row_groups(levels.size))
            schema = pa.schema(_fields_of(table), metadata=metadata)
            write_tables(scratch / "nodes.parquet", schema, rows)
        described = {
            **asked,
            "graph_hash": store.hash,
            "items": sum(int(next(iter(of.values())).size) for of in places.values()),
            "nodes": None if nodes is None else int(nodes[0].size),
        }
        (scratch / DECOMPOSITION_NAME).write_text(seal_json(described), encoding="utf-8")


def _known(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.ma.array(ids, mask=ids < 0, copy=False)


class Described(ABC):
    """An object with a dictionary form and a text form."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON object; integers in full."""

    def to_json(self) -> str:
        """Return :meth:`to_dict` as one JSON object in text; integers in full."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


_SHOWN_ROWS = 16
"""Number of rows of a table in a terminal or notebook."""


@dataclass(frozen=True)
class Preview:
    """The displayed rows of an answer: column names, cells as text, and the number of all rows."""

    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    n_rows: int = 0

    @property
    def more(self) -> str:
        """Text for the omitted rows; empty if all are shown."""
        left = self.n_rows - len(self.rows)
        return f"... and {plural(left, 'more row')}" if left > 0 else ""


def preview(head: Sequence[str], rows: Iterable[Sequence[Any]], n_rows: int | None = None) -> Preview:
    """Return the first rows for display; ``n_rows`` is the number of all rows, by default the number given."""
    given = [*rows] if n_rows is None else [*islice(rows, _SHOWN_ROWS)]
    shown = [[_show(cell) for cell in row] for row in given[:_SHOWN_ROWS]]
    return Preview(head, shown, len(given) if n_rows is None else n_rows)


def _show(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    text = ", ".join(map(str, cell)) if isinstance(cell, list | tuple) else str(cell)
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


class Previewed(ABC):
    """An object shown as a headline and a few rows, in a terminal and as HTML in a notebook."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The object in one line."""

    def _preview(self) -> Preview:
        """Return the table shown below the headline; none by default."""
        return Preview()

    def __repr__(self) -> str:
        shown = self._preview()
        if not shown.rows:
            return f"<{self.headline}>"
        widths = [max(map(len, column)) for column in zip(shown.head, *shown.rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (shown.head, *shown.rows)
        ]
        return "\n".join([f"<{self.headline}>", *lines, *filter(None, [shown.more])])

    def _repr_html_(self) -> str:
        shown = self._preview()
        text = f"<p>{escape(self.headline)}</p>"
        if not shown.rows:
            return text
        rows = [
            "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
            for tag, row in [("th", shown.head), *(("td", row) for row in shown.rows)]
        ]
        more = f"<p>{escape(shown.more)}</p>" if shown.more else ""
        return f"{text}<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>{more}"


class Tabular(ABC):
    """An answer with ``to_arrow``, converted to data frames."""

    source: Source | None = None

    @abstractmethod
    def to_arrow(self) -> ArrowTable:
        """Return the answer as a :class:`pyarrow.Table`."""

    def _has_edge_rows(self) -> bool:
        return False

    def to_pandas(self) -> PandasFrame:
        """Return :meth:`to_arrow` as a :class:`pandas.DataFrame`: edges with the index of the input frame,
        counts in full.

        Labels keep their types, which Arrow can only mix as text.
        """
        import_extra("pandas", "to_pandas needs")
        table, source = self.to_arrow(), self.source
        origin = source.origin if isinstance(source, LabelledGraph) and self._has_edge_rows() else None
        frame = table.to_pandas()
        for field in table.schema:
            if is_integer_field(field):
                frame[field.name] = np.array([int(count) for count in frame[field.name]], dtype=object)
        for name, labels in {} if source is None else _original_labels(frame, table.schema, source).items():
            frame[name] = labels
        return frame.set_axis(origin.index, axis=0) if isinstance(origin, FrameRows) else frame

    def to_polars(self) -> PolarsFrame:
        """Return :meth:`to_arrow` as a :class:`polars.DataFrame`."""
        return import_extra("polars", "to_polars needs").from_arrow(self.to_arrow())


_CIRCUMSTANCES = re.compile(r" \((?:[^()]|\([^()]*\))*\)( in .*)?$")
"""The end of a headline that chart titles omit: engine, workers, seconds."""

_TITLE = 90
"""Maximum length of a chart's title, in characters; longer numbers are shown only in the chart."""


class Drawn(Previewed):
    """An object with a headline, drawn with matplotlib."""

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the answer with matplotlib, under its headline unless the axes have a title.

        Returns the axes, by default of a new figure: ``result.plot().figure.savefig("counts.png")``. Raises
        MissingPackageError if matplotlib is not installed.
        """
        return self._draw_on(axes, self._draw)

    def _draw_on(self, axes: Axes | None, draw: Callable[[Axes], None]) -> Axes:
        axes = charts.axes_or_new(axes)
        draw(axes)
        if not axes.get_title():
            title = _CIRCUMSTANCES.sub("", self.headline)
            axes.set_title(title if len(title) <= _TITLE else title.partition(":")[0], fontsize="medium", wrap=True)
        return axes

    @abstractmethod
    def _draw(self, axes: Any) -> None:
        """Draw the answer on axes of matplotlib."""


class Answer(Drawn, Tabular, Described):
    """An answer: as a dictionary, a table, a chart, a few lines or HTML, with its largest values."""

    def top(self, n: int = 10) -> Sequence[Any]:
        """Return the ``n`` largest values with the labels of their vertices or edges; InputError if there are none."""
        raise InputError(
            f"the answer has no values per vertex or edge: {self.headline}; to_pandas() returns its values"
        )

    @property
    def held(self) -> Source:
        """The graph of the question; InputError if it was in memory and is gone, StoreError if its store is gone."""
        if self.source is not None:
            return self.source
        path = getattr(self, "graph", {}).get("path")
        if path is None:
            raise InputError("the graph was in memory and is not stored with the answer")
        return open_store(path)


def rows_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> pa.Table:
    """Return a table of rows, all with the same keys; ``names`` has the columns if there are no rows.

    Integers are int64, uint64 or, if they need more bits, text with all digits. Lists contain labels.
    """
    columns = [_column(name, [row[name] for row in rows]) for name in (rows[0] if rows else names)]
    return pa.table([array for _, array in columns], schema=pa.schema([field for field, _ in columns]))


def integer_table(columns: Columns) -> pa.Table:
    """Return a table of columns of integers; masked values become null."""
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def stack_tables(name: str, tables: Mapping[Any, pa.Table]) -> pa.Table:
    """Return the rows of all tables, with the key of each in a first column of this name.

    Columns that have several types become text; a table without one of them has null there.
    """
    fields = [field for table in tables.values() for field in table.schema]
    types = {
        each: {field.type for field in fields if field.name == each} for each in dict.fromkeys(f.name for f in fields)
    }
    cast = [
        table.cast(pa.schema([f.with_type(pa.string()) if len(types[f.name]) > 1 else f for f in table.schema]))
        for table in tables.values()
    ]
    stacked = pa.concat_tables(cast, promote_options="default").select([*types])
    _, keys = _column(name, [*tables])
    places = np.repeat(np.arange(len(cast)), [table.num_rows for table in cast])
    return stacked.add_column(0, name, keys.take(pa.array(places)))


def _column(name: str, values: Sequence[Any]) -> tuple[pa.Field, pa.Array]:
    known = [each for each in values if each is not None]
    if known and all(isinstance(each, list | tuple) for each in known):
        flat = _label_array([label for each in known for label in each])
        kind = pa.list_(flat.type)
        array = pa.array([[_as_label(label, flat.type) for label in each] for each in values], kind)
    elif known and all(type(each) is int for each in known):
        if max(known) >= 2**64 or min(known) < -(2**63):
            return integer_field(name), pa.array([str(each) for each in values], pa.string())
        array = pa.array(values, pa.int64() if max(known) < 2**63 else pa.uint64())
    elif known and all(isinstance(each, bool | float | int) for each in known):
        array = pa.array(values)
    else:
        array = pa.array([None if each is None else str(each) for each in values], pa.string())
    return pa.field(name, array.type), array


def _as_label(label: Any, kind: pa.DataType) -> Any:
    return str(label) if pa.types.is_string(kind) else label


def columns_table(source: Source, columns: Mapping[str, Columns], *, names_layer: bool = True) -> pa.Table:
    """Return a row for each vertex of some layers, or for each ``edge``; columns as :func:`write_columns`.

    Layers are ``u`` and ``v``, or ``n`` for a unipartite graph. Rows of edges follow the table or array that the graph
    was read from, so that the two can be joined by position; dropped self loops have nulls. For other graphs, edges are
    sorted by (u, v).
    """
    schema, rows = _rows_of(source, columns, names_layer)
    schema = pa.schema([field.with_nullable(True) for field in schema])
    table = pa.concat_tables([schema.empty_table(), *(pa.table(each, schema=schema) for each in rows)])
    if "edge" not in columns or isinstance(source, GraphStore) or source.origin is None or source.row_keys is None:
        return table
    edges = source.edge_of_row
    return table.take(pa.array(edges, mask=edges < 0))


def members_table(
    source: Source, group: str, members: Mapping[str, tuple[NDArray[Any], NDArray[np.int32]]], columns: Columns
) -> pa.Table:
    """Return a row for each vertex of each group, by group, layer and id.

    Columns: the number of the group, the given ``columns`` of the group, layer ('u' or 'v', if there are two), id
    (int32), and label (if the graph has labels). ``members`` has by layer the bounds of each group and its ids.
    """
    labels = {layer: label_column(source, layer) for layer in members}
    label_type = _label_type(labels)
    groups = [np.repeat(np.arange(offsets.size - 1), np.diff(offsets)) for offsets, _ in members.values()]
    layers = np.repeat([*members], [each.size for each in groups])
    order = np.argsort(np.concatenate(groups), kind="stable")
    at = np.concatenate(groups)[order]
    arrays = {group: pa.array(at.astype(np.int32))} | {name: pa.array(each[at]) for name, each in columns.items()}
    if len(members) > 1:
        arrays["layer"] = pa.array(layers[order])
    ids = {layer: pa.array(each) for layer, (_, each) in members.items()}
    arrays["id"] = pa.chunked_array([*ids.values()], pa.int32()).take(pa.array(order))
    if label_type is not None:
        taken = [
            (each if given is None else take_labels(join_labels(given), each)).cast(label_type)
            for each, given in zip(ids.values(), labels.values(), strict=True)
        ]
        arrays["label"] = pa.chunked_array(taken, label_type).take(pa.array(order))
    return pa.table(arrays)


def cell_table(key: Sequence[str], table: Mapping[Cell, int]) -> pa.Table:
    """Return a row for each cell of a table, by increasing key: the key, and count.

    Counts are uint64 if all fit, else text with all digits: Arrow has no larger integers.
    """
    rows = sorted(table.items())
    fields = [pa.field(name, pa.int32()) for name in key]
    sizes = [pa.array([cell[i] for cell, _ in rows], pa.int32()) for i in range(len(key))]
    field, counts = _count_column([count for _, count in rows])
    return pa.table([*sizes, counts], schema=pa.schema([*fields, field]))


def _count_column(counts: Sequence[int]) -> tuple[pa.Field, pa.Array]:
    if max(counts, default=0) < 2**64:
        return pa.field("count", pa.uint64()), pa.array(counts, pa.uint64())
    return integer_field("count"), pa.array(map(str, counts), pa.string())


def class_table(rows: Sequence[tuple[Any, int, float]]) -> pa.Table:
    """Return a row for each class of a census: columns class, group, count (as in :func:`cell_table`) and share."""
    field, counts = _count_column([count for _, count, _ in rows])
    names = [[each.name for each, _, _ in rows], [each.group for each, _, _ in rows]]
    fields = [
        pa.field("class", pa.string()),
        pa.field("group", pa.string()),
        field,
        pa.field("share", pa.float64()),
    ]
    return pa.table([*names, counts, [share for _, _, share in rows]], schema=pa.schema(fields))


def listing_table(directory: str) -> pa.Table:
    """Return the rows of a listing; StoreError if its files cannot be read."""
    return pa.Table.from_batches(listing_batches(directory), listing_schema(directory))


def listing_schema(directory: str) -> pa.Schema:
    """Return the columns of a listing; errors as :func:`listing_table`."""
    with _listing_errors_named(directory):
        return _open_listing(directory).schema


def listing_batches(directory: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a listing in batches; errors as :func:`listing_table`."""
    with _listing_errors_named(directory):
        yield from _open_listing(directory).to_batches()


@contextmanager
def _listing_errors_named(directory: str) -> Iterator[None]:
    try:
        with os_errors_named(directory):
            yield
    except pa.ArrowException as error:
        raise StoreError(f"{directory}: cannot be read as Parquet ({error}); repeat the listing") from error


def _open_listing(directory: str) -> Any:
    from pyarrow import dataset as pa_dataset  # slow to import, and seldom needed

    return pa_dataset.dataset(directory, format="parquet")


def label_column(source: Source, layer: str) -> pa.ChunkedArray | None:
    """Labels of a layer in id order; for a graph in memory, labels of mixed types become text."""
    if isinstance(source, GraphStore):
        return source.label_column("v" if layer == "v" else "u")
    labels = source.labels(layer)
    if labels is None:
        return None
    if labels.dtype.kind in "iu" and (not labels.size or int(labels.max()) < 2**63):
        labels = labels.astype(np.int64, copy=False)
    known = labels.dtype.kind in "biuU" or labels.dtype.str[4:] in ("[s]", "[ms]", "[us]", "[ns]")
    return pa.chunked_array([pa.array(labels) if known else _label_array(labels.tolist())])


_LABEL_COLUMNS = {"label": "id", "u_label": "u", "v_label": "v"}
"""Columns of labels, and the columns of their ids."""


def _original_labels(frame: Any, schema: pa.Schema, source: Source) -> dict[str, NDArray[Any]]:
    """Return the columns of a data frame whose labels have become text, with the labels themselves."""
    found: dict[str, NDArray[Any]] = {}
    for name, ids in _LABEL_COLUMNS.items():
        if name not in frame or not pa.types.is_string(schema.field(name).type):
            continue
        if "layer" not in frame and name == "label" and source.kind == "bipartite":
            continue
        layers = frame["layer"].to_numpy() if "layer" in frame else np.full(len(frame), name[0])
        labels = {layer: source.labels("v" if layer == "v" else "u") for layer in set(layers.tolist())}
        if all(of is not None and _are_text(of) for of in labels.values()):
            continue
        values, at = np.full(len(frame), None, object), frame[ids].to_numpy(np.float64, na_value=np.nan)
        for layer, of in labels.items():
            rows = np.flatnonzero((layers == layer) & ~np.isnan(at))
            places = at[rows].astype(np.int64)
            values[rows] = places if of is None else object_array(plain_labels(of))[places]
        found[name] = values
    return found


def _are_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind == "U" or all(isinstance(label, str) for label in labels.tolist())
