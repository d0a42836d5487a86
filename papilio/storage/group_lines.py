"""Whether lines of one length may be groups and their members: what edges with weights and times seldom show."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from papilio.storage.evidence import Cell, Evidence

ARROWS = frozenset({"->", "-->", "<->", "--", "-", "→", ":", "=>", "|"})
_FEW_ROWS = 3
"""Rows up to which labels that three columns share are as likely members of groups as weights."""
_DATE = re.compile(r"\d+[-:/.][-\d:/.TZ+ ]*\Z")


def is_like_groups(seen: Evidence) -> bool:
    """Return whether rows of one length may be groups: their entries differ, and all columns share their labels."""
    if seen.names or len(seen.rows) < 2 or seen.ends != (0, 1) or seen.width > 64:
        return False
    if any(cell is None for row in seen.rows for cell in row):
        return False
    if len(seen.rows) == 2:  # too few to tell attributes from members
        is_open = seen.width > 2 and not (seen.has_blanks or seen.are_asked_ends or seen.signed)
        return is_open and _are_words([cell for row in seen.rows for cell in row])
    labels = [set(column) for column in seen.columns]
    if seen.width == 2:
        rows = list(map(tuple, seen.rows))
        again = len(rows) - len(set(rows))
        rising = all(rises(row) for row in rows)
        return rising and 4 * again >= len(rows) and bool(labels[0] & labels[1])
    if any(len(set(row)) < len(row) for row in seen.rows):
        return False
    before = set().union(*labels[:2])
    shared = all(2 * len(each & before) >= max(1, len(each)) for each in labels[2:])
    last = set().union(*labels[2:])
    rising = all(rises(row) for row in seen.rows)
    are_few = len(seen.rows) <= _FEW_ROWS
    return shared and (are_few or rising or 2 * len(last & before) >= len(before)) and len(last) > 1


def is_like_named_groups(seen: Evidence) -> bool:
    """Return whether rows of one length may be groups behind their names: all words, and no two begin alike."""
    if seen.names or len(seen.rows) < 2 or seen.width < 3 or seen.ends != (0, 1) or seen.are_asked_ends:
        return False
    first, *others = seen.columns
    cells = [cell for column in others for cell in column]
    if not _are_words(cells) or not all(first_fields(seen)):
        return False
    # Names that hold blanks have an error of their own.
    cells = [*first, *cells]
    return not (seen.has_blanks and any(str(cell).isalpha() or str(cell).startswith('"') for cell in cells))


def is_wide_and_bare(seen: Evidence) -> bool:
    """Return whether rows without names are long, as edges seldom are.

    They have four columns or more, with words behind the first two, or five or more that are not all numbers.
    """
    if seen.names or seen.width < 4 or seen.ends != (0, 1) or seen.are_asked_ends or seen.signed or seen.filtered:
        return False
    if any(cell in ARROWS for column in seen.columns[1:] for cell in column):
        return False
    extra = [cell for column in seen.columns[2:] for cell in column]
    are_dates = all(_DATE.match(str(cell)) for cell in seen.columns[0])  # then the others are no times
    return seen.width > 4 or any(isinstance(cell, str) and (are_dates or not _DATE.match(cell)) for cell in extra)


def _are_words(cells: Sequence[Cell]) -> bool:
    """Return whether all cells are words but no arrows, or numbers among codes such as 007."""
    are_codes = any(isinstance(cell, str) and cell.isdigit() for cell in cells)
    return all(cell not in ARROWS if isinstance(cell, str) else are_codes and isinstance(cell, int) for cell in cells)


def repeats_one_line(seen: Evidence) -> bool:
    """Return whether rows without names differ in their first cell only, which edges to one vertex seldom do."""
    if seen.names or seen.width < 3 or seen.ends != (0, 1) or seen.are_asked_ends or seen.signed:
        return False
    if len(seen.columns[0]) < 2:
        return False
    _, second, *others = map(set, seen.columns)
    one = [*second, *set().union(*others)]
    is_same = len(second) == 1 == max(map(len, others)) and len(set(one)) == seen.width - 1
    return is_same and not {1, None} & set(one) and not any(cell in ARROWS for cell in one)


def is_keyed_without_repeats(seen: Evidence) -> bool:
    """Return whether rows behind their names never hold a number twice: groups of one size, or a matrix of counts."""
    if seen.names or seen.key is None or seen.row_names is not None or len(seen.rows) < 2 or len(seen.values) < 2:
        return False
    rows = [row[seen.key + 1 :] for row in seen.rows if len(row) == seen.width]
    return all(type(cell) is int for row in rows for cell in row) and all(len(set(row)) == len(row) for row in rows)


def rises(row: Sequence[Any]) -> bool:
    try:
        return all(a < b for a, b in itertools.pairwise(row))
    except TypeError:
        return False


def is_in_order(cells: Sequence[Any]) -> bool:
    return rises(cells) or rises(cells[::-1])


def first_fields(seen: Evidence) -> tuple[bool, bool]:
    """Return whether the first fields of all lines differ, and whether none of them occurs in another place."""
    firsts = [row[0] for row in seen.rows if row]
    others = {cell for row in seen.rows for cell in row[1:]}
    return len(set(firsts)) == len(firsts), not others & set(firsts)
