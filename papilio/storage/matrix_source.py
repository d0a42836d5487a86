"""Files of arrays and tables that hold a matrix: read into memory, and handed on as edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.graph import GraphKind
from papilio.storage.formats import Declared, FormatName, LabelType, ReadOptions, SourceInfo
from papilio.storage.labelled import LabelledGraph
from papilio.storage.layout import Plan
from papilio.storage.objects import Sheet, choose_layout, matrix_graph

_CHUNK_ROWS = 1 << 20


class MatrixSource:
    """The edges of a graph in memory; see :class:`papilio.storage.formats.EdgeSource`."""

    def __init__(self, format: FormatName, labelled: LabelledGraph, layout: str, notes: tuple[str, ...]) -> None:
        graph = labelled.graph
        self._u, kind_u = _labels_of(labelled.labels_u, graph.u)
        labels_v = labelled.labels_u if labelled.kind == "unipartite" else labelled.labels_v
        self._v, kind_v = _labels_of(labels_v, graph.v)
        self._sign = graph.sign
        self.info = SourceInfo(format, (kind_u, kind_v), graph.sign is not None, layout={"layout": layout})
        self.info.notes += [*notes, *labelled.notes, f"read as a matrix: {graph.n_u:,} x {graph.n_v:,}"]
        if labelled.labels_u is None and labels_v is None:
            self.info.declared = Declared(graph.n_u, graph.n_v, None, (0,), binding=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in order."""
        schema = self.info.schema
        for start in range(0, len(self._u), _CHUNK_ROWS):
            part = slice(start, start + _CHUNK_ROWS)
            columns = [self._u[part], self._v[part], *(() if self._sign is None else (self._sign[part],))]
            arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _labels_of(labels: NDArray[Any] | None, ids: NDArray[np.int32]) -> tuple[Any, LabelType]:
    if labels is None:
        return ids.astype(np.int64), "integer"
    if labels.dtype.kind in "iu":
        return labels[ids].astype(np.int64), "integer"
    return [str(labels[at]) for at in ids.tolist()], "text"


def read_matrix(sheet: Sheet, format: FormatName, options: ReadOptions) -> MatrixSource | Plan:
    """Return the edges of a file that holds a matrix, or how to read its edges; raises as the readers of objects."""
    columns = options.columns
    wanted = {"u": columns.u, "v": columns.v, "sign": columns.sign, "weight": None}
    if options.labels is not None and options.layout is None and not sheet.names:
        wanted["labels"] = options.labels
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if sheet.names:
        given = {
            name: sheet.names[at - 1] if isinstance(at, int) and 0 < at <= len(sheet.names) else at
            for name, at in given.items()
        }
    given |= {"where": options.where} if options.where else {}
    given |= {"positive_from": True} if options.sign is not None else {}
    kind: GraphKind = "bipartite" if options.bipartite else "unipartite"
    plan: Plan = choose_layout(sheet, options.layout, given, kind=kind)
    if plan.layout not in ("matrix", "adjacency"):
        return plan
    threshold = None if options.sign is None else options.sign.threshold
    signed = True if options.sign is not None else None
    labelled = matrix_graph(
        sheet,
        plan,
        kind=kind,
        missing=options.missing,
        sign=signed,
        positive_from=threshold,
        where=options.where,
    )
    return MatrixSource(format, labelled, plan.layout, plan.notes)
