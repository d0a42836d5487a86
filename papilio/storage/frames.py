"""Answers as Arrow tables: counts by vertex, edge or size, under the names of what was counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import InputError, StoreError
from papilio.extras import import_extra
from papilio.motifs import Cell
from papilio.storage.files import os_errors_named
from papilio.storage.labelled import FrameRows, LabelledGraph
from papilio.storage.store import GraphStore

Source = GraphStore | LabelledGraph


class Tabular(ABC):
    """An answer that is a table: ``to_arrow`` makes it, and here it becomes a frame."""

    source: Source | None

    @abstractmethod
    def to_arrow(self) -> pa.Table: ...

    def _has_edge_rows(self) -> bool:
        """Whether a row of the table is an edge of the graph."""
        return False

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a ``pandas.DataFrame``: edges with the index of a frame given, counts in full."""
        import_extra("pandas", "to_pandas needs")
        table, source = self.to_arrow(), self.source
        origin = source.origin if isinstance(source, LabelledGraph) and self._has_edge_rows() else None
        frame = table.to_pandas()
        if "count" in frame and table.schema.field("count").type == pa.string():
            frame["count"] = np.array([int(count) for count in frame["count"]], dtype=object)
        return frame.set_axis(origin.index, axis=0) if isinstance(origin, FrameRows) else frame

    def to_polars(self) -> Any:
        """Return :meth:`to_arrow` as a ``polars.DataFrame``."""
        return import_extra("polars", "to_polars needs").from_arrow(self.to_arrow())


def vertex_table(source: Source, layers: Mapping[str, Mapping[str, NDArray[Any]]]) -> pa.Table:
    """Return a row for each vertex of some layers: columns layer, id, label (where there are labels), then values.

    Parameters
    ----------
    source : GraphStore or LabelledGraph
        Where the labels come from.
    layers : mapping of str to mapping of str to ndarray
        By ``u`` and ``v``, or ``n`` of a unipartite graph: values by id, of the shape of the layer, by name of column.
    """
    tables = []
    labels = {layer: _label_column(source, "v" if layer == "v" else "u") for layer in layers}
    are_labelled = any(each is not None for each in labels.values())
    for layer, columns in layers.items():
        size = next(iter(columns.values())).size
        ids = pa.array(np.arange(size, dtype=np.int32))
        given: dict[str, Any] = {"layer": pa.array([layer] * size), "id": ids}
        if are_labelled:
            given["label"] = ids if labels[layer] is None else labels[layer]
        tables.append(pa.table(given | {name: pa.array(values) for name, values in columns.items()}))
    return pa.concat_tables(_of_one_label_type(tables))


def edge_table(source: Source, columns: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Return a row for each edge: columns u, v, u_label, v_label (where there are labels), then values.

    The rows are those of the table or array that the graph was read from, in its order, so that they can be put beside
    it; a self loop that was left out has nulls. Other graphs have their edges sorted by (u, v).
    """
    graph = source.read() if isinstance(source, GraphStore) else source.graph
    ends: dict[str, Any] = {"u": pa.array(graph.u), "v": pa.array(graph.v)}
    layers: tuple[Literal["u", "v"], ...] = ("u", "v")
    for layer in layers:
        labels = _label_column(source, layer)
        if labels is not None:
            ends[f"{layer}_label"] = labels.take(ends[layer])
    table = pa.table(ends | {name: pa.array(values) for name, values in columns.items()})
    if isinstance(source, GraphStore) or source.origin is None or source.row_keys is None:
        return table
    rows = source.edge_of_row
    return table.take(pa.array(rows, mask=rows < 0))


def cell_table(key: Sequence[str], table: Mapping[Cell, int]) -> pa.Table:
    """Return a row for each cell of a table, by rising key: the key, and count.

    Counts are uint64 where all fit, else text with all digits: Arrow has no larger integers.
    """
    rows = sorted(table.items())
    columns = {name: pa.array([cell[i] for cell, _ in rows], pa.int32()) for i, name in enumerate(key)}
    counts = [count for _, count in rows]
    if max(counts, default=0) < 2**64:
        return pa.table(columns | {"count": pa.array(counts, pa.uint64())})
    return pa.table(columns | {"count": pa.array(map(str, counts), pa.string())})


def class_table(rows: Sequence[tuple[Any, int, float]]) -> pa.Table:
    """Return a row for each class of a census: columns class, group, count (as in :func:`cell_table`) and share."""
    counts = cell_table(("row",), {(i,): count for i, (_, count, _) in enumerate(rows)}).column("count")
    names = {"class": [each.name for each, _, _ in rows], "group": [each.group for each, _, _ in rows]}
    return pa.table({**names, "count": counts, "share": [share for _, _, share in rows]})


def listing_table(directory: str) -> pa.Table:
    """Return the rows of a listing; StoreError when its files cannot be read."""
    return pa.Table.from_batches(listing_batches(directory), _open_listing(directory).schema)


def listing_batches(directory: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a listing, some after the others; errors as :func:`listing_table`."""
    try:
        with os_errors_named(directory):
            yield from _open_listing(directory).to_batches()
    except pa.ArrowException as error:
        raise StoreError(f"{directory}: cannot be read as Parquet ({error}); list again") from error


def _open_listing(directory: str) -> Any:
    from pyarrow import dataset as pa_dataset  # slow to import, and seldom needed

    return pa_dataset.dataset(directory, format="parquet")


def to_arrow_table(stream: Any) -> pa.Table:
    """Return what an object with ``__arrow_c_stream__`` gives; InputError when it is no table."""
    try:
        return pa.table(stream)
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = f"{type(stream).__module__}.{type(stream).__qualname__}"
        raise InputError(
            f"a {kind} gives no Arrow table ({error}); give a table of one edge per row"
        ) from error


def _label_column(source: Source, layer: Literal["u", "v"]) -> pa.ChunkedArray | None:
    """Labels of a layer in id order; of a graph in memory those that are neither text nor integers as text."""
    if isinstance(source, GraphStore):
        return source.label_column(layer)
    labels = source.labels(layer)
    if labels is None:
        return None
    if labels.dtype.kind == "O":
        are_integers = all(type(label) is int and -(2**63) <= label < 2**63 for label in labels)
        labels = labels if are_integers else np.array([str(label) for label in labels], dtype=object)
        return pa.chunked_array([pa.array(labels, pa.int64() if are_integers else pa.string())])
    return pa.chunked_array([pa.array(labels)])


def _of_one_label_type(tables: list[pa.Table]) -> list[pa.Table]:
    if len({table.schema for table in tables}) == 1:
        return tables
    at = tables[0].schema.get_field_index("label")
    return [table.set_column(at, "label", table.column("label").cast(pa.string())) for table in tables]
