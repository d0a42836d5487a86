"""What every reader of an input gives: batches of raw edges, and what it left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from papilio.storage.column_choice import Columns, show_column
from papilio.storage.formats import Declared, FormatName, LabelType

__all__ = ["EdgeSource", "SourceInfo", "describe_columns", "raw_schema"]

_SHOWN_COLUMNS = 6
"""Columns that a note lists."""


@dataclass
class SourceInfo:
    """What is known of an input; the counters grow while its batches are taken."""

    format: FormatName
    labels: tuple[LabelType, LabelType] = ("integer", "integer")  # types of the two columns of endpoints
    time: pa.DataType | None = None  # type of the time column, if edges are ordered by time
    declared: Declared | None = None  # sizes from a header
    layout: dict[str, Any] = field(default_factory=dict)  # delimiter, columns and so on, for the provenance
    notes: list[str] = field(default_factory=list)  # what the user should know of the reading
    malformed: int = 0  # malformed lines skipped so far
    comments: int = 0  # lines of comments before the data
    sign_column: str = ""  # the column of the values that signs follow from, in words


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


def describe_columns(
    info: SourceInfo, names: Sequence[str], count: int, columns: Columns, signed: bool, tagged: bool = False
) -> None:
    """Note which of ``count`` columns is read as what, for the provenance, and which are not used.

    The layout and the notes of ``info`` are added to. ``names`` is empty where columns have none; ``signed`` says
    whether signs and times are read, ``tagged`` whether the first column says only what kind of line it is.
    """
    read = {"u": columns.u, "v": columns.v}
    if signed and columns.sign is not None:
        read["sign"] = columns.sign
        info.sign_column = show_column(names, columns.sign)
        if columns.time is not None:
            read["time"] = columns.time
    info.layout["read"] = {role: show_column(names, at) for role, at in read.items()}
    unused = [show_column(names, at) for at in range(int(tagged), count) if at not in read.values()]
    if unused and not signed:
        shown = ", ".join(unused[:_SHOWN_COLUMNS]) + (" ..." if len(unused) > _SHOWN_COLUMNS else "")
        info.notes.append(f"not used: {shown}; a sign rule makes the graph signed")
