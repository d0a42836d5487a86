"""What a source shows of its layout: its first rows, names, types, and places of entries; words and their meanings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from papilio.storage.column_choice import INDEXES, OTUS, is_extra, is_known_name, plain_name

Layout = Literal["edges", "matrix", "adjacency", "groups"]


LAYOUTS: tuple[Layout, ...] = get_args(Layout)


Missing = Literal["drop", "label"]
"""What becomes of missing values: they are left out, or are labels."""


Cell = bool | int | float | str | None
"""A cell as read: None if it is empty or a word for a missing value."""


MISSING = frozenset({"NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "NAN", "\\N", "<NA>", "#N/A", "NaT"})
"""Words that stand for a missing value."""


ABSENT = frozenset({"false", "no", "n", "f", "absent"})


PRESENT = frozenset({"true", "yes", "y", "t", "present", "x", "✓", "✔", "+"})
"""Words of a matrix, in small letters."""


TOTALS = frozenset({"total", "totals", "all", "sum", "grandtotal", "gesamt", "summe", "somme", "suma", "totale"})


NAMES_OF_ROWS = frozenset(
    {"site", "sites", "plot", "plots", "sample", "samples", "species", "plant", "plants", "otu", "taxon", "taxa", "x"}
    | {"station", "quadrat", "location", "patient", "subject", "respondent", "participant", "case", "name", "no", "nr"}
    | {"number", "code", "year", "date", "actor", "woman", "firm", "country"}
)
"""Usual names of columns that name the rows of a matrix, besides the usual names of ends and ids."""


_ATTRIBUTES = frozenset({"taxonomy", "consensuslineage", "lineage"})
"""Columns of words at the end of a matrix that belong to its rows, in tables of OTUs."""


_LEAST_RAGGED, _RAGGED_SHARE = 2, 0.2


def is_missing_word(text: str) -> bool:
    """Return whether a text stands for a missing value."""
    return not text or text in MISSING


def is_number(cell: Cell) -> bool:
    """Return whether a cell holds a number; a truth value is one."""
    return isinstance(cell, int | float)


def entry_of(cell: Cell) -> bool | None:
    """Return whether a cell of a matrix is an entry; None if it is missing or a word without this meaning."""
    if isinstance(cell, str):
        word = cell.lower()
        return True if word in PRESENT else False if word in ABSENT else None
    return None if cell is None or cell != cell else bool(cell)


VALUED = "entries other than 0 and 1"
"""Beginning of the note on a matrix whose entries have values."""


def has_value(cell: Cell) -> bool:
    """Return whether an entry of a matrix is a number other than 0 and 1; edges have no numbers."""
    return is_number(cell) and cell == cell and cell not in (0, 1)


def note_values(n: int) -> tuple[str, ...]:
    """Return the note on ``n`` entries with values."""
    return (f"{VALUED}, read as edges without their values: {n:,}",) if n else ()


_SHOWN_COLUMNS = 6
"""Number of columns listed in a note."""


def note_unused(columns: Sequence[str]) -> str:
    """Return the note on columns, or attributes of edges, that are not used."""
    shown = ", ".join(columns[:_SHOWN_COLUMNS]) + (" ..." if len(columns) > _SHOWN_COLUMNS else "")
    return f"not used: {shown}; a sign rule makes the graph signed"


@dataclass(frozen=True)
class Evidence:
    """What a source shows of its layout; ``rows`` are all rows or the first ones."""

    source: str  # in messages
    rows: Sequence[Sequence[Cell]]
    names: tuple[str, ...] = ()  # of the columns, if they have any
    row_names: Sequence[Any] | None = None  # beside the columns, if the rows have any
    complete: bool = True  # whether these are all rows
    n_rows: int | None = None  # number of all rows, if known
    is_matrix: bool = False  # known by its type: truth values, a cross table
    are_pairs: bool = False  # known by its type: tuples
    are_groups: bool = False  # known by its type: a dictionary, whose rows are a key and its members
    # Shape of a sparse matrix, and the places (rows, columns) of its entries in place of ``rows``.
    shape: tuple[int, int] | None = None
    places: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    has_blanks: bool = False  # whether blanks separate the fields
    are_floats: bool = False  # whether whole numbers are floats by their type, as those of a matrix
    ends: tuple[int, int] | None = None  # the columns of the ends if it is read as edges; None if they are not clear
    are_named_ends: bool = False  # whether both ends have usual names
    are_asked_ends: bool = False  # whether the user chose the columns of both ends
    weight: int | None = None  # the column of weights, if one is named
    signed: bool = False  # whether a column gives the signs
    filtered: bool = False  # whether rows are chosen by their values
    is_asked: bool = False  # whether the user chose the layout

    @cached_property
    def width(self) -> int:
        """The usual number of columns."""
        counts = Counter(map(len, self.rows))
        return max(counts, key=lambda width: (counts[width], width), default=len(self.names))

    @cached_property
    def is_ragged(self) -> bool:
        """Whether rows have different lengths, beyond a few malformed lines."""
        odd = sum(len(row) != self.width for row in self.rows)
        return odd >= _LEAST_RAGGED and odd > _RAGGED_SHARE * len(self.rows) and not self.names

    @cached_property
    def columns(self) -> list[list[Cell]]:
        """The cells by column, of the rows of the usual length."""
        rows = [row for row in self.rows if len(row) == self.width]
        return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in self.names]

    def name(self, at: int) -> str:
        """Return the name of a column, empty if it has none: a header may be shorter than the rows."""
        return self.names[at] if at < len(self.names) else ""

    @property
    def key(self) -> int | None:
        """The column that names the rows of a matrix, or None."""
        at, is_sure = self._found_key
        return at if is_sure else None

    @property
    def has_doubtful_key(self) -> bool:
        """Whether the first column may name the rows of a matrix, or hold entries."""
        return not self._found_key[1]

    @cached_property
    def _found_key(self) -> tuple[int | None, bool]:
        """The column that may name the rows of a matrix, and whether it certainly does (or is certainly none)."""
        if self.row_names is not None or self.width < 2:
            return None, True
        at = 1 if self._counts_named_rows else 0
        first, name = self.columns[at], self.name(at)
        if at:
            return at, True
        is_distinct = len(set(map(str, first))) == len(first) and None not in first
        if not is_distinct or not self._is_value_table(range(1, self.width)):
            return None, True
        is_index = bool(self.names) and plain_name(name) in INDEXES | OTUS | {"index"}
        is_mixed = any(isinstance(cell, str) for cell in first) and (bool(self.names) or self.width > 2)
        if is_mixed or all(isinstance(cell, str) for cell in first):
            are_marks = {str(cell).lower() for cell in first} <= ABSENT | PRESENT
            is_key = bool(self.names) or not are_marks or any(is_number(cell) for cell in self.columns[1])
            return (0 if is_key else None), True
        if not is_index and not all(isinstance(cell, int) and not isinstance(cell, bool) for cell in first):
            return None, True
        if not self.names:
            others = self.columns[1:]
            with_zeros = sum(0 in column for column in others)
            counts = [cell for column in others for cell in column if isinstance(cell, int)]
            is_above = max(cell for cell in first if isinstance(cell, int)) > max(counts, default=0)
            may_name = 0 not in first or (len(first) > 2 and (is_above or is_counted(first)))
            are_more = len(others) > 1 or any(isinstance(cell, float) for cell in others[0])
            return None, not (are_more and len(first) > 1 and may_name and (with_zeros or len(others) == 1))
        if not (self.is_asked or self._has_value_names()) or is_number(as_number(name)):
            return None, True
        if is_index:
            return 0, True
        if self.width == 2 and not self.is_asked and all(isinstance(cell, int) for cell in self.columns[1]):
            return None, True
        stem = name.rstrip("0123456789")
        if stem != name and all(each.startswith(stem) and each[len(stem) :].isdigit() for each in self.names):
            return None, True  # V1, V2, V3
        counts_rows = len(first) > 3 and is_counted(first)
        is_named = is_known_name(name) and not is_extra(name) and plain_name(name) not in ("u", "v")
        return 0, counts_rows or is_named or plain_name(name) in NAMES_OF_ROWS

    @cached_property
    def _counts_named_rows(self) -> bool:
        """Whether an index that counts the rows is before the column of their names."""
        if self.width < 3 or not self.names or plain_name(self.name(0)) not in INDEXES | {"index"}:
            return False
        first, second = self.columns[:2]
        if not is_counted(first) or len(set(map(str, second))) < len(second) or None in second:
            return False
        words = {cell.lower() for cell in second if isinstance(cell, str)}
        are_words = all(isinstance(cell, str) for cell in second) and not words <= ABSENT | PRESENT
        is_named = plain_name(self.name(1)) in NAMES_OF_ROWS | OTUS and all(type(cell) is int for cell in second)
        return (are_words or is_named) and self._is_value_table(range(2, self.width))

    def _has_value_names(self) -> bool:
        """Return whether most columns after the first have no usual names of ends, values or times."""
        names = [name for name in self.names[1:] if is_known_name(name) and plain_name(name) not in ("u", "v")]
        return 2 * len(names) < len(self.names) - 1

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The columns of the entries of a matrix."""
        start = 0 if self.key is None else self.key + 1
        columns: Sequence[int] = range(start, self.width)
        if self.names:  # without columns of no name and no cell, behind the last delimiter
            columns = [at for at in columns if self.name(at) or any(cell is not None for cell in self.columns[at])]
        if self.names and len(columns) > 1 and plain_name(self.names[-1]) in _ATTRIBUTES:
            columns = columns[:-1]
        return tuple(columns)

    def _is_value_table(self, places: Sequence[int]) -> bool:
        """Return whether columns hold numbers, truth values, or one word for presence."""
        found = [at for at in places if plain_name(self.name(at)) not in _ATTRIBUTES]
        words = {cell.lower() for at in found for cell in self.columns[at] if isinstance(cell, str)}
        numbers = any(is_number(cell) for at in found for cell in self.columns[at])
        if not words:
            return numbers
        return not numbers and words <= ABSENT | PRESENT and (len(found) > 1 or bool(self.names))

    @cached_property
    def is_value_table(self) -> bool:
        """Whether the cells, without the names of the rows, may be the entries of a matrix."""
        return bool(self.values) and self._is_value_table(self.values)

    @cached_property
    def entries(self) -> list[bool | None]:
        return [entry_of(cell) for at in self.values for cell in self.columns[at]]

    @cached_property
    def marks_entries(self) -> bool:
        """Whether only entries are written, all as the same word or 1, and other cells are blank."""
        cells = {cell for at in self.values for cell in self.columns[at] if cell is not None}
        return (
            len(cells) == 1
            and all(entry_of(cell) for cell in cells)
            and all(isinstance(cell, str) or cell == 1 for cell in cells)
        )

    @cached_property
    def filled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the entries of a matrix: rows and columns, shape (k,) each."""
        if self.places is not None:
            return self.places
        states = [[entry_of(cell) is True for cell in self.columns[at]] for at in self.values]
        v, u = np.nonzero(np.array(states, bool).reshape(len(self.values), -1))
        return u, v

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of rows and columns of a matrix."""
        return (len(self.columns[0]) if self.columns else 0, len(self.values)) if self.shape is None else self.shape

    @cached_property
    def zero_share(self) -> float:
        return sum(entry is False for entry in self.entries) / max(1, len(self.entries))

    @property
    def size(self) -> int:
        return len(self.rows) if self.n_rows is None else self.n_rows


def is_counted(cells: Sequence[Cell]) -> bool:
    """Return whether cells count the rows, from 0 or from 1 on."""
    return [*cells] in ([*range(len(cells))], [*range(1, len(cells) + 1)])


def as_number(text: str) -> Cell:
    try:
        return float(text)
    except ValueError:
        return text
