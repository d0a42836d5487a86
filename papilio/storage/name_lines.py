"""Whether the first line of a table in text has names of columns: its words against those of the lines below."""

from __future__ import annotations

import re
from collections import Counter

from papilio.storage.column_choice import INDEXES, OTUS, are_names, plain_name
from papilio.storage.evidence import ABSENT, NAMES_OF_ROWS, PRESENT
from papilio.storage.formats import cell_of, has_leading_zero, time_type

DECIMAL_COMMA = re.compile(rb"[+-]?\d+,\d+")


def is_header(first: list[bytes], second: list[bytes]) -> bool:
    """Return whether the first of two rows contains names; ``second`` may be empty.

    It does if every column that is numeric in the second row (at least one) is not numeric in the first, or if its
    fields are usual column names.
    """
    names = [part.decode(errors="replace") for part in first]
    if are_names(names) or (len(names) > 1 and plain_name(names[0]) in OTUS):
        return True
    if len(first) != len(second):
        return False
    numeric = [at for at, part in enumerate(second) if is_numeric(part)]
    return bool(numeric) and not any(is_numeric(first[at]) for at in numeric)


def is_numeric(part: bytes) -> bool:
    return time_type(part) != "text" or DECIMAL_COMMA.fullmatch(part) is not None


def is_numbered(first: list[bytes], second: list[bytes]) -> bool:
    """Return whether the first line has numbers as names, after the usual name of an index, often none."""
    if len(first) < 2 or len(first) != len(second) or not second[0]:
        return False
    if plain_name(first[0].decode(errors="replace")) not in INDEXES:
        return False
    return all(map(is_numeric, first[1:])) and len(set(first)) == len(first)


def names_rows(first: list[bytes], second: list[bytes]) -> bool:
    """Return whether a line of four fields or more begins with a usual name of a column that names the rows."""
    if not 3 < len(first) == len(second) or not second[0]:
        return False
    is_name = plain_name(first[0].decode(errors="replace")) in NAMES_OF_ROWS
    return is_name and first[0] != second[0] and len(set(first)) == len(first)


def is_above_numbers(first: list[bytes], rows: list[list[bytes]]) -> bool:
    """Return whether the first line has a word where all other lines (at least two) have numbers."""
    columns = [*zip(*(row for row in rows if len(row) == len(first) and row != first), strict=True)]
    if not columns:
        return False
    filled = [[part for part in column if cell_of(part) is not None] for column in columns]
    numeric = [at for at, parts in enumerate(filled) if parts and len(columns[0]) > 1 and all(map(is_numeric, parts))]
    if any(isinstance(cell_of(first[at]), str) and not is_numeric(first[at]) for at in numeric):
        return True
    marks = [at for at, column in enumerate(columns) if any(column) and all(map(_is_mark, column))]
    if len(columns[0]) > 1 and len(marks) >= len(first) - 1 and not all(_is_mark(first[at]) for at in marks):
        return True
    # Codes such as 007 over numbers, after a word over words.
    above = [first[at] for at in numeric]
    are_codes = (
        len(first) - 1 == len(above) > 1 and any(map(has_leading_zero, above)) and all(map(bytes.isdigit, above))
    )
    return are_codes and not any(has_leading_zero(field) for at in numeric for field in columns[at])


def occurs_again(first: list[bytes], rows: list[list[bytes]]) -> bool:
    """Return whether a word of a first line, or one of two labels, occurs again in its column."""
    alike = [row for row in rows if len(row) == len(first) and row != first]
    labels = [at for at, part in enumerate(first) if not _is_mark(part) and (len(first) == 2 or not is_numeric(part))]
    return any(row[at] == first[at] for row in alike for at in labels)


def are_ends(first: list[bytes], rows: list[list[bytes]]) -> bool:
    """Return whether both fields of a first line stand in other lines, too, in either column: they name vertices."""
    others = {part for row in rows if row != first for part in row}
    return len(first) == 2 and len(rows) > 3 and others.issuperset(first)


def is_above_one_row(first: list[bytes], rows: list[list[bytes]]) -> bool:
    """Return whether a line of words is above a single row, of numbers alone, or of a name and words for entries."""
    if len(rows) != 1 or not len(first) == len(rows[0]) > 2 or not any(rows[0][1:]):
        return False
    if all(map(is_numeric, rows[0])):
        return not all(map(is_numeric, first))
    return all(map(_is_mark, rows[0][1:])) and not all(map(_is_mark, first[1:]))


def _is_mark(part: bytes) -> bool:
    """Return whether a field is a word of a matrix for an entry or none, or empty."""
    return not part or part.decode(errors="replace").lower() in ABSENT | PRESENT


def is_apart(first: list[bytes], rows: list[list[bytes]]) -> bool:
    """Return whether a first line of words is apart from all others: no word of it occurs again in its column."""
    if not rows or sum(map(bool, first)) < 2 or any(part and is_numeric(part) for part in first):
        return False
    if Counter(map(len, rows)).most_common(1)[0][0] != len(first):
        return False
    if all(map(_is_mark, first)):
        return False
    others = [row for row in rows if row != first]
    if not others:
        return False
    again = {(at, part) for row in others for at, part in enumerate(row)}
    return not any(part and (at, part) in again for at, part in enumerate(first))
