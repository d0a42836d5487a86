"""Tables as R's ``write.table`` writes them: quoted words separated by blanks, and names of rows without a title.

The line of names has a field less than the others, whose first column holds the names of the rows. In other tables such
a line might lack the name of the last column: there, the rows must be numbered from 1 on and end with words, or be
words before numbers, under names that are none of ends or values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from papilio.storage.column_choice import is_known_name

_FIELD = rb'(?:"[^"]*"|[^" \t]+)'
_LINE = re.compile(_FIELD + rb"(?: " + _FIELD + rb")+")
_NUMBER = re.compile(rb"[-+.,\deE]+")

_LEAST_ROWS = 2
"""A single line has no row names: it may just be longer."""


def is_quoted_table(lines: Sequence[bytes]) -> bool:
    """Return whether all lines consist of fields separated by single blanks, and begin with a quoted one."""
    if len(lines) <= _LEAST_ROWS:
        return False
    names, *rows = (line.rstrip() for line in lines)
    are_fields = all(line[:1] == b'"' and _LINE.fullmatch(line) for line in rows)
    is_name = re.fullmatch(rb'"[^"]+"', names) and all(_NUMBER.fullmatch(row.rpartition(b" ")[2]) for row in rows)
    return are_fields and bool(is_name or (names[:1] == b'"' and _LINE.fullmatch(names)))


def is_tabbed_table(lines: Sequence[bytes]) -> bool:
    """Return whether all lines have the same number of tabs, except a first one with one tab less."""
    counts = [line.count(b"\t") for line in lines]
    return len(lines) > _LEAST_ROWS and set(counts[1:]) == {counts[0] + 1}


def names_with_rows(names: Sequence[bytes], rows: Sequence[Sequence[bytes]], *, quoted: bool) -> list[bytes]:
    """Return the names of the columns, with an empty one for the names of the rows; empty for any other table.

    ``rows`` are the fields of the lines after the names; ``quoted``: whether it is one of :func:`is_quoted_table`.
    """
    width, first = len(names) + 1, [row[0] for row in rows if row]
    if len(rows) < _LEAST_ROWS or not names or any(len(row) != width for row in rows):
        return []
    if len(set(first)) < len(rows) or (not quoted and any(map(_NUMBER.fullmatch, names))):
        return []
    is_numbered = first == [b"%d" % at for at in range(1, len(rows) + 1)]
    ends_in_words = not any(not row[-1] or _NUMBER.fullmatch(row[-1]) for row in rows)
    is_matrix = (
        len(names) > 1
        and not any(map(_NUMBER.fullmatch, first))
        and not any(is_known_name(name.decode("latin-1")) for name in names)
    )
    is_matrix = is_matrix and all(_NUMBER.fullmatch(field) for row in rows for field in row[1:])
    return [b"", *names] if quoted or is_matrix or (is_numbered and ends_in_words) else []
