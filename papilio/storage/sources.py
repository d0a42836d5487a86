"""What every reader of an input gives: batches of raw edges, and what it left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from papilio.storage.formats import Declared, FormatName, LabelType

__all__ = ["EdgeSource", "SourceInfo", "raw_schema"]


@dataclass
class SourceInfo:
    """What is known of an input; the counters grow while its batches are taken.

    Attributes
    ----------
    format : FormatName
    labels : tuple of two LabelType
        Types of the two columns of endpoints.
    time : pyarrow.DataType or None
        Type of the time column, if edges are ordered by time.
    declared : Declared or None
        Sizes from a header.
    layout : dict
        Delimiter, columns and so on, for the provenance.
    notes : list of str
        What the user should know of the reading.
    malformed : int
        Malformed lines skipped so far.
    """

    format: FormatName
    labels: tuple[LabelType, LabelType] = ("integer", "integer")
    time: pa.DataType | None = None
    declared: Declared | None = None
    layout: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    malformed: int = 0


class EdgeSource(Protocol):
    """An input, read once."""

    info: SourceInfo

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield edges in input order; columns as :func:`raw_schema` says."""
        ...


def raw_schema(info: SourceInfo, signed: bool) -> pa.Schema:
    """Return the columns of raw edges: u, v (int64 or string), sign (int8) if signed, time if there is one."""
    kinds = {"integer": pa.int64(), "text": pa.string()}
    fields = [pa.field(name, kinds[kind]) for name, kind in zip(("u", "v"), info.labels, strict=True)]
    if signed:
        fields.append(pa.field("sign", pa.int8()))
    if info.time is not None:
        fields.append(pa.field("time", info.time))
    return pa.schema(fields)
