"""What kinds of input there are, and how the layout of a text file is detected from its beginning.

| format | lines |
|---|---|
| ``konect`` | ``%`` comments, then ``u v [weight [time]]`` from 1; ``% m n_u n_v`` gives the sizes |
| ``snap`` | ``#`` comments, then ``a b`` |
| ``sizes`` | ``n_u n_v m``, then m lines ``u v [value]`` |
| ``movielens`` | ``user item rating time``, separated by tabs or ``::`` |
| ``mtx`` | Matrix Market coordinate format; rows are U, columns are V |
| ``csv`` | fields separated by ``,``, ``;`` or ``|``, optionally quoted, with or without a line of names |
| ``tsv`` | fields separated by single tabs, with or without a line of names |
| ``edges`` | fields separated by blanks, with or without a line of names |
| ``npy`` | a NumPy integer array of shape (k, 2), or two of shape (k,) |
| ``parquet`` | columns ``u`` and ``v``, or the first two |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from papilio.errors import CapacityError, InputError
from papilio.graph import MAX_VERTICES
from papilio.storage.signs import SignRule

__all__ = [
    "FORMATS",
    "Declared",
    "FormatName",
    "LabelType",
    "ReadOptions",
    "TextLayout",
    "check_declared",
    "is_integer",
    "time_type",
    "with_columns",
]

FormatName = Literal["konect", "snap", "sizes", "movielens", "mtx", "csv", "tsv", "edges", "npy", "parquet"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
"""Every format that ``convert`` reads, by the name that forces it."""

LabelType = Literal["integer", "text"]

_INTEGER = re.compile(rb"-?[0-9]{1,19}\Z")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")


def is_integer(field_text: bytes) -> bool:
    """Tell whether a field is an integer that fits 64 bits."""
    return bool(_INTEGER.match(field_text)) and -(2**63) <= int(field_text) < 2**63


def time_type(field_text: bytes) -> Literal["integer", "number", "text"]:
    """Return how a time is compared: as an integer, as a number, or as text (ISO dates)."""
    if is_integer(field_text):
        return "integer"
    return "number" if _NUMBER.match(field_text) else "text"


@dataclass(frozen=True)
class ReadOptions:
    """What the user asks of the reading of an input.

    Attributes
    ----------
    format : FormatName or None
        None to detect it.
    bipartite : bool
        Whether the two columns are two layers, or vertices of one.
    sign : SignRule or None
        None for an unsigned graph.
    labels : LabelType or None
        None to decide by the first line of data.
    header : bool or None
        Whether the first line holds names; None to decide by content.
    time_column : int or None
        0-based; None for what the format says.
    skip_malformed : bool
        Whether malformed lines are counted instead of ending the conversion.
    """

    format: FormatName | None = None
    bipartite: bool = True
    sign: SignRule | None = None
    labels: LabelType | None = None
    header: bool | None = None
    time_column: int | None = None
    skip_malformed: bool = False


@dataclass(frozen=True)
class Declared:
    """Sizes that a header declares.

    Attributes
    ----------
    n_u, n_v : int
        Vertices of the layers.
    n_lines : int or None
        Lines of data, where the format makes that binding.
    bases : tuple of int
        What the first vertex may be called, 0 or 1, the usual one first.
    binding : bool
        Whether labels outside the sizes are an error; otherwise labels are then made dense.
    """

    n_u: int
    n_v: int
    n_lines: int | None
    bases: tuple[int, ...]
    binding: bool


@dataclass(frozen=True)
class TextLayout:
    """How the lines of a text file are to be read.

    Attributes
    ----------
    format : FormatName
    delimiter : bytes
        Between fields; empty for any run of blanks and tabs.
    comments : tuple of bytes
        Beginnings of lines that are skipped anywhere in the file.
    skip_lines : int
        Lines before the first line of data.
    n_columns : int
        Fields of every line of data.
    labels : tuple of two LabelType
        Types of the first two columns.
    time_column : int or None
        0-based.
    time : {"integer", "number", "text"}
        How times are compared.
    declared : Declared or None
        Sizes from a header.
    mirror : {"none", "symmetric", "skew"}
        Whether an entry (i, j) stands for (j, i) too, with the same or the opposite value.
    names : tuple of str
        Names of the columns, if a line of names was found.
    notes : tuple of str
        What the user should know of the reading.
    """

    format: FormatName
    delimiter: bytes = b""
    comments: tuple[bytes, ...] = ()
    skip_lines: int = 0
    n_columns: int = 2
    labels: tuple[LabelType, LabelType] = ("integer", "integer")
    time_column: int | None = None
    time: Literal["integer", "number", "text"] = "integer"
    declared: Declared | None = None
    mirror: Literal["none", "symmetric", "skew"] = "none"
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def split(self, line: bytes) -> list[bytes]:
        """Return the fields of a line without its end; quotes are left as they are."""
        if not self.delimiter:
            return line.split()
        return [part.strip() for part in line.split(self.delimiter)]

    def is_comment(self, line: bytes) -> bool:
        """Tell whether a line is blank or a comment."""
        return not line.strip() or line.startswith(self.comments)


def check_declared(name: str, declared: Declared) -> Declared:
    """Return ``declared`` if its sizes are possible.

    Raises
    ------
    CapacityError
        For a layer of more than 2^31 - 1 vertices.
    """
    if max(declared.n_u, declared.n_v) > MAX_VERTICES:
        raise CapacityError(
            f"{name} declares {declared.n_u} and {declared.n_v} vertices; "
            f"a layer has at most {MAX_VERTICES} (ids are int32)"
        )
    return declared


def with_columns(name: str, layout: TextLayout, first: list[bytes], options: ReadOptions) -> TextLayout:
    """Complete a layout with what the first line of data shows and the options ask for.

    Raises
    ------
    InputError
        When there are fewer columns than needed.
    """
    count = len(first)
    if count < 2:
        shown = b" ".join(first).decode(errors="replace")[:80]
        raise InputError(
            f"{name}, line {layout.skip_lines + 1}: {shown!r} has {count} column as {layout.format}; "
            "an edge needs two: force another format"
        )
    if options.sign is not None and options.sign.column >= count:
        column = options.sign.column + 1
        raise InputError(f"{name} has {count} columns; there is no column {column} for signs")
    time_column = options.time_column if options.time_column is not None else layout.time_column
    if time_column is not None and options.sign is not None and time_column == options.sign.column:
        time_column = None
    if time_column is not None and time_column >= count:
        if options.time_column is not None:
            raise InputError(f"{name} has {count} columns; there is no column {time_column + 1} for times")
        time_column = None
    labels = layout.labels
    if options.labels is not None:
        labels = (options.labels, options.labels)
    return replace(
        layout,
        n_columns=count,
        labels=labels,
        time_column=time_column,
        time="integer" if time_column is None else time_type(first[time_column]),
    )
