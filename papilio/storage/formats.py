"""What kinds of input there are, and how the layout of a text file is detected from its beginning.

| format | lines |
|---|---|
| ``konect`` | ``%`` comments, then ``u v [weight [time]]`` from 1; ``% m n_u n_v`` gives the sizes |
| ``snap`` | ``#`` comments, then ``a b`` |
| ``sizes`` | ``n_u n_v m``, then m lines ``u v [value]`` |
| ``movielens`` | ``user item rating time``, separated by tabs or ``::`` |
| ``mtx`` | Matrix Market coordinate format; rows are U, columns are V |
| ``dimacs`` | ``c`` comments, ``p KIND n m``, then ``e u v`` or ``a u v value``, or bare ``u v``, from 1 |
| ``csv`` | fields separated by ``,``, ``;`` or ``|``, optionally quoted, with or without a line of names |
| ``tsv`` | fields separated by single tabs, with or without a line of names |
| ``edges`` | fields separated by blanks, with or without a line of names |
| ``npy`` | a NumPy integer array of shape (k, 2), or two of shape (k,) |
| ``parquet`` | columns chosen as :mod:`papilio.storage.column_choice` says |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from papilio.errors import CapacityError, InputError
from papilio.graph import MAX_VERTICES
from papilio.storage.column_choice import USUAL, Columns, WantedColumns, choose_columns
from papilio.storage.signs import SignRule

__all__ = [
    "FORMATS",
    "NOT_A_NUMBER",
    "Declared",
    "FormatName",
    "HeldLine",
    "LabelType",
    "ReadOptions",
    "TextLayout",
    "check_declared",
    "has_leading_zero",
    "is_integer",
    "is_number",
    "time_type",
    "whole_part",
    "with_columns",
]

FormatName = Literal[
    "konect", "snap", "sizes", "movielens", "mtx", "dimacs", "csv", "tsv", "edges", "npy", "parquet"
]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
"""Every format that ``convert`` reads, by the name that forces it."""

LabelType = Literal["integer", "text"]

_INTEGER = re.compile(rb"-?[0-9]{1,19}\Z")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_LEADING_ZERO = re.compile(rb"-?0[0-9]")
_WHOLE = re.compile(rb"(-?[0-9]+)\.0*\Z")
NOT_A_NUMBER = ("nan", "NaN", "NAN")
"""What programs write where a number is missing; no label unless labels are said to be text."""


def is_integer(field_text: bytes) -> bool:
    """Tell whether a field is an integer that fits 64 bits."""
    return bool(_INTEGER.match(field_text)) and -(2**63) <= int(field_text) < 2**63


def is_number(field_text: bytes) -> bool:
    """Tell whether a field is a number of any kind, or says that it is none (NaN)."""
    return bool(_NUMBER.match(field_text)) or field_text.decode(errors="replace") in NOT_A_NUMBER


def has_leading_zero(field_text: bytes) -> bool:
    """Tell an integer from a code such as 0042, whose zeros belong to the label."""
    return bool(_LEADING_ZERO.match(field_text))


def whole_part(field_text: bytes) -> bytes | None:
    """Return the integer that a decimal such as 7.0 is, as text, or None where it is none."""
    found = _WHOLE.match(field_text)
    return None if found is None else found[1]


def time_type(field_text: bytes) -> Literal["integer", "number", "text"]:
    """Return how a time is compared: as an integer, as a number, or as text (ISO dates)."""
    if is_integer(field_text):
        return "integer"
    return "number" if _NUMBER.match(field_text) else "text"


@dataclass(frozen=True)
class ReadOptions:
    """What the user asks of the reading of an input."""

    format: FormatName | None = None  # None to detect it
    bipartite: bool = True  # whether the two columns are two layers, or vertices of one
    sign: SignRule | None = None
    columns: WantedColumns = field(default_factory=WantedColumns)
    labels: LabelType | None = None  # None to decide by the first line of data
    header: bool | None = None  # whether the first line holds names or sizes; None to decide by content
    skip_malformed: bool = False  # count malformed lines instead of ending the conversion


@dataclass(frozen=True)
class Declared:
    """Sizes that a header declares.

    Where they are binding, labels outside the sizes, and another number of lines, are an error; otherwise labels are
    then made dense, and the number of lines is noted.
    """

    n_u: int
    n_v: int
    n_lines: int | None  # lines of data, where the format says
    bases: tuple[int, ...]  # what the first vertex may be called, 0 or 1, the usual one first
    binding: bool


@dataclass(frozen=True)
class HeldLine:
    """A first line of numbers that may be sizes instead of an edge; the whole file decides.

    Where it is skipped it is left out of the lines of data until the decision; else it is an edge, and only a note is
    in question.
    """

    number: int  # of the line, 0-based
    text: bytes
    numbers: tuple[int, ...]  # its one to three fields
    is_edge: bool  # whether it has as many fields as the lines of data, so that it may be an edge
    skipped: bool = True


@dataclass(frozen=True)
class TextLayout:
    """How the lines of a text file are to be read."""

    format: FormatName
    delimiter: bytes = b""  # between fields; empty for any run of blanks and tabs
    comments: tuple[bytes, ...] = ()  # beginnings of lines that are skipped before the first line of data
    n_comments: int = 0  # lines skipped so
    skip_lines: int = 0  # lines before the first line of data
    n_columns: int = 2  # fields of every line of data
    columns: Columns = USUAL
    labels: tuple[LabelType, LabelType] = ("integer", "integer")  # of u and v
    # Whether integers of u and v are written as decimals, such as 7.0.
    decimal: tuple[bool, bool] = (False, False)
    tag: bytes = b""  # what the first column holds in every line; empty where it is a column like others
    time: Literal["integer", "number", "text"] = "integer"  # how times are compared
    declared: Declared | None = None
    # Whether an entry (i, j) stands for (j, i) too, with the same or the opposite value.
    mirror: Literal["none", "symmetric", "skew"] = "none"
    names: tuple[str, ...] = ()  # names of the columns, if a line of names was found
    held: HeldLine | None = None
    notes: tuple[str, ...] = ()  # what the user should know of the reading

    def split(self, line: bytes) -> list[bytes]:
        """Return the fields of a line without its end; quotes are left as they are."""
        if not self.delimiter:
            return line.split()
        return [part.strip() for part in line.split(self.delimiter)]


def check_declared(name: str, declared: Declared) -> Declared:
    """Return ``declared`` if its sizes are possible; CapacityError for a layer of more than 2^31 - 1 vertices."""
    if max(declared.n_u, declared.n_v) > MAX_VERTICES:
        raise CapacityError(
            f"{name} declares {declared.n_u} and {declared.n_v} vertices; "
            f"a layer has at most {MAX_VERTICES} (ids are int32)"
        )
    return declared


def with_columns(name: str, layout: TextLayout, first: list[bytes], options: ReadOptions) -> TextLayout:
    """Complete a layout with what the first line of data shows and the options ask for.

    InputError when there are fewer columns than needed.
    """
    count = len(first)
    if count < 2:
        shown = b" ".join(first).decode(errors="replace")[:80]
        raise InputError(
            f"{name}, line {layout.skip_lines + 1}: {shown!r} has {count} column as {layout.format}; "
            "an edge needs two: force another format"
        )
    columns = choose_columns(name, layout.names, count, options.columns, usual=layout.columns)
    labels = layout.labels
    if options.labels is not None:
        labels = (options.labels, options.labels)
    return replace(
        layout,
        n_columns=count,
        columns=columns,
        labels=labels,
        time="integer" if columns.time is None else time_type(first[columns.time]),
    )
