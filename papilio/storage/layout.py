"""One decision about what a source holds: edges, a matrix, an adjacency, or groups; the same for every kind of source.

| layout | a line or row is |
|---|---|
| ``edges`` | one edge: two ends, and perhaps a weight or other columns |
| ``matrix`` | a vertex of U; its entries other than 0 join it to the columns, which are V |
| ``adjacency`` | a vertex and its neighbours, all of one set: a square, symmetric matrix, or a list after the vertex |
| ``groups`` | a group (U) and its members (V) |

Readers describe what they see in an :class:`Evidence`; :func:`decide` answers with a :class:`Plan`. If two layouts are
possible and would give different graphs, it raises an InputError that shows both in numbers.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from papilio.errors import InputError
from papilio.storage.column_choice import INDEXES, OTUS, are_names, is_extra, is_known_name, plain_name
from papilio.storage.evidence import (
    NAMES_OF_ROWS,
    Cell,
    Evidence,
    Layout,
    as_number,
    entry_of,
    is_number,
)
from papilio.storage.group_lines import (
    ARROWS,
    first_fields,
    is_in_order,
    is_keyed_without_repeats,
    is_like_groups,
    is_like_named_groups,
    is_wide_and_bare,
    repeats_one_line,
)
from papilio.storage.two_colours import are_two_colours

_RATINGS = frozenset({"rating", "ratings", "stars", "score", "scores", "vote", "votes", "sign"})
"""Columns of values whose 0 is a value as others."""

HEADER_NOTE = "line of names: "
"""Beginning of the note on a first line that was taken for names, only because its words occur nowhere else."""

_MANY_ROWS, _SORTED_ROWS = 50, 8
_LEAST_VERBS = 4
"""Lines from which the same word between two others is a verb: groups of a few lines may share a member."""
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([, '\u00a0\u202f]\d{3})+\Z")
_LEAST_TIME = 10**8
"""Seconds since 1970 from which a number is a time."""
_ZERO_SHARE = 0.15
"""Share of zeros from which two or three columns of many numbers may be a matrix: ids from 0 on hold few zeros."""


@dataclass(frozen=True)
class Plan:
    """How to read a source."""

    layout: Layout
    key: int | None = None  # column that names the rows of a matrix, a group, or a vertex
    values: tuple[int, ...] = ()  # columns of the entries of a matrix
    skipped: int = 0  # columns between the name of a group and its members
    blanks: bool = False  # whether a blank cell of a matrix is no entry, because only entries are written
    ends: tuple[int, int] | None = None  # other columns of the ends than by place
    notes: tuple[str, ...] = field(default=())
    is_asked: bool = False  # whether the user chose the layout
    is_sample: bool = False  # whether only the first rows were seen
    weight: int | None = None  # column of weights, of which a later 0 would be an error, see zero_weights


def decide(seen: Evidence, asked: Layout | None, *, bipartite: bool = True) -> Plan:
    """Return how to read a source; ``asked`` is the user's choice.

    Raises InputError if two layouts are possible, or the source does not have the layout that was asked for.
    """
    if asked is not None:
        return _as_asked(seen, asked)
    _refuse_braces(seen)
    if seen.are_groups or seen.is_ragged:
        return replace(_decide_lists(seen, bipartite), is_sample=not seen.complete)
    found = _possible(seen)
    if len(found) > 1:
        raise InputError(ambiguous(seen, *found))
    plan = replace(plan_of(seen, found[0]), is_sample=not seen.complete)
    if plan.layout == "edges":
        _refuse_lists_in_cells(seen)
        return replace(plan, weight=_refuse_complete_weights(seen))
    if plan.layout == "groups":
        return plan
    _refuse_full_rows(seen)
    _refuse_doubtful_key(seen)
    if not _is_symmetric(seen):
        return plan
    if bipartite and not _is_clear_adjacency(seen):
        raise InputError(ambiguous(seen, "matrix", "adjacency"))
    note = "the matrix is symmetric, with an empty diagonal, and was read as an adjacency matrix"
    plan = plan_of(seen, "adjacency")
    return replace(plan, notes=(*plan.notes, note))


def _as_asked(seen: Evidence, asked: Layout) -> Plan:
    """Return how to read a source in a chosen layout; raise InputError if its type rules that out."""
    possible: tuple[Layout, ...] = ()
    if seen.places is not None:
        possible = ("matrix", "adjacency")
    elif seen.are_groups:
        possible = ("groups", "adjacency")
    if possible and asked not in possible:
        raise InputError(f"layout is {asked!r}, but {seen.source} can be read as {' or '.join(possible)} only")
    if asked == "matrix" and not (seen.is_value_table or seen.is_matrix):
        raise InputError(
            f"{seen.source} is no matrix: its cells are no numbers ({_shown_row(seen)}); use another layout (--layout)"
        )
    return replace(plan_of(replace(seen, is_asked=True), asked), is_asked=True)


def plan_of(seen: Evidence, layout: Layout) -> Plan:
    """Return how a source is read in a layout."""
    if layout == "edges":
        return _plan_edges(seen)
    are_lists = seen.are_groups or (seen.places is None and not _is_square(seen))
    if layout == "groups" or (layout == "adjacency" and are_lists):
        return _plan_lists(seen, layout)
    notes = () if seen.key is None else (f"column {seen.key + 1} names the rows of the {layout}",)
    return Plan(layout, seen.key, seen.values, blanks=seen.marks_entries, notes=notes)


def _plan_edges(seen: Evidence) -> Plan:
    """Return the edges of two columns, past a constant one between the ends, such as ``a visits b``."""
    if seen.width < 3 or seen.names or not seen.columns[0] or seen.ends != (0, 1) or seen.signed:
        return Plan("edges")
    if seen.are_asked_ends:
        return Plan("edges")
    second, third = set(seen.columns[1]), set(seen.columns[2])
    (word, *others) = second
    if others or not isinstance(word, str):
        return Plan("edges")
    is_arrow = word in ARROWS
    if seen.width > 3 and not is_arrow:
        return Plan("edges")
    if '"' in f"{word}{seen.columns[2][0]}":
        return Plan("edges")  # quotes in a file separated by blanks have an error of their own
    are_few = seen.complete and len(seen.rows) < _LEAST_VERBS
    if not is_arrow and (are_few or len(third) < 2 or any(is_number(cell) for cell in third)):
        what = "column 3 holds numbers" if any(map(is_number, third)) else f"column 3 always {seen.columns[2][0]!r}"
        what = what if len(third) < 2 or not are_few else f"there are only {len(seen.rows)} lines"
        raise InputError(
            f"{seen.source}: column 2 is always {word!r}, and {what}; name the columns of the ends, "
            f"u=1 and v=2 or v=3 (--u 1 --v 3); for a group a line, set layout='groups' (--layout groups)"
        )
    return Plan("edges", ends=(0, 2), notes=(f"column 2 is always {word!r}; U is column 1, V is column 3",))


def _possible(seen: Evidence) -> list[Layout]:
    """Return the possible layouts of a table whose rows have one length, the likelier one first."""
    if seen.are_pairs:
        return ["edges"]
    if seen.is_matrix:
        return ["matrix"]
    if seen.names and plain_name(seen.name(0)) in OTUS and seen.is_value_table and not seen.are_asked_ends:
        return ["matrix"]
    are_layers = seen.are_named_ends and seen.names[:2] == ("u", "v")
    if (seen.are_named_ends and (are_layers or not _are_truth_values(seen))) or seen.width < 1:
        is_keyed = seen.key is not None and isinstance(seen.columns[seen.key][0], str) and not seen.are_asked_ends
        may_be_wide = is_keyed and (len(seen.values) > 3 or _holds_one_pair(seen))
        return ["edges", "matrix"] if may_be_wide and _may_be_matrix(seen) else ["edges"]
    are_extra = [name for name in seen.names if is_extra(name) and plain_name(name) not in INDEXES]
    if len(are_extra) > 1 and not _are_truth_values(seen):
        return ["edges"]  # a value and a time
    if not seen.names and seen.source.lower().endswith(".gmt"):
        return ["groups"]
    if not seen.is_value_table:
        _refuse_numbers_as_text(seen)
        _refuse_thousands(seen)
        if _are_truth_values(seen):
            return ["edges"] if seen.are_asked_ends and seen.width == 2 else ["edges", "matrix"]
        are_groups = is_like_groups(seen) or is_like_named_groups(seen) or is_wide_and_bare(seen)
        are_groups = are_groups or repeats_one_line(seen)
        return ["edges", "groups"] if are_groups else ["edges"]
    is_short = seen.complete and len(seen.rows) <= 2 and not seen.names and seen.key is None
    if is_short and len(seen.rows) == 2 and seen.width > 3:
        return ["edges", "matrix"]  # perhaps the ends of edges, transposed
    if is_short and seen.width == 3 and not seen.are_asked_ends and any(isinstance(x, float) for x in seen.columns[1]):
        return ["edges", "matrix"]  # V with points
    if not _may_be_edges(seen):
        is_bare = bool(seen.names) and seen.key is None and seen.row_names is None
        if is_bare and seen.width == 2 and {cell for column in seen.columns for cell in column} <= {0, 1}:
            return ["edges", "matrix"]  # few edges over and over, or a matrix of zeros and ones
        if is_bare and _are_truth_values(seen):
            return ["edges", "matrix"]
        if is_bare and not all(0 in seen.columns[at] for at in seen.values):
            return ["edges"]  # a table of properties, whose ends nobody can tell
        if _may_be_matrix(seen):
            if is_bare and seen.width == 3:
                return ["edges", "matrix"]  # perhaps ids and a weight
            return ["matrix", "groups"] if is_keyed_without_repeats(seen) else ["matrix"]
        if not seen.names and seen.key is None and seen.width > 4:
            return ["matrix"] if all(seen.entries) else ["edges", "matrix"]
        has_names = seen.key is not None and not isinstance(seen.columns[seen.key][0], int)
        has_names = (has_names and seen.ends is not None) or _has_names_of_matrix(seen)
        return ["edges", "matrix"] if has_names else ["edges"]
    found: list[Layout] = ["edges"]
    is_keyed = seen.key is not None and seen.complete and not isinstance(seen.columns[seen.key][0], int)
    is_keyed = is_keyed and not any(is_known_name(seen.name(at)) and not is_extra(seen.name(at)) for at in seen.values)
    is_keyed = is_keyed or _has_names_of_matrix(seen)
    is_bare = not seen.names and seen.width == 4 and seen.complete and not seen.are_asked_ends and not _has_times(seen)
    if seen.are_floats or is_bare or (is_keyed and (bool(seen.names) or len(seen.values) > 1)) or _may_be_matrix(seen):
        found.append("matrix")
    elif is_like_groups(seen) or repeats_one_line(seen):
        found.append("groups")
    return found


def _has_names_of_matrix(seen: Evidence) -> bool:
    """Return whether numbers stand below names that edges seldom have: a number, or none over words or ids."""
    if not seen.names or seen.ends is None or seen.are_asked_ends or not seen.is_value_table:
        return False
    if any(is_number(as_number(seen.name(at))) for at in seen.values):
        return True
    is_index = seen.key is not None and plain_name(seen.name(seen.key)) in INDEXES
    has_gaps = any(None in seen.columns[at] for at in seen.values)
    return is_index and (seen.width == 2 or has_gaps or not is_in_order(seen.columns[0]))


def _are_truth_values(seen: Evidence) -> bool:
    """Return whether an end is always true or false."""
    ends = [seen.columns[at] for at in seen.ends or () if at < len(seen.columns)]
    return any(end and {str(cell).lower() for cell in end} <= {"true", "false"} for end in ends)


def _holds_one_pair(seen: Evidence) -> bool:
    """Return whether several rows have the same ends."""
    assert seen.ends is not None
    return len(seen.rows) > 1 and all(len(set(seen.columns[at])) == 1 for at in seen.ends)


def _refuse_numbers_as_text(seen: Evidence) -> None:
    """Raise InputError for a table with names of rows whose cells are numbers written as text."""
    cells = [cell for column in seen.columns for cell in column]
    if (
        seen.row_names is not None
        and cells
        and all(isinstance(cell, str) and is_number(as_number(cell)) for cell in cells)
    ):
        raise InputError(
            f"{seen.source} has names of rows, and numbers written as text: convert them (in pandas, "
            "frame.astype(float)) for a matrix, or set layout='edges' if they are labels"
        )


def _refuse_thousands(seen: Evidence) -> None:
    """Raise InputError for a column of numbers whose thousands are marked, such as 1,869: they are no labels."""
    for at, column in enumerate(seen.columns):
        words = [cell for cell in column if isinstance(cell, str)]
        if words and all(map(_THOUSANDS.match, words)):
            raise InputError(
                f"{seen.source}: {seen.name(at) or f'column {at + 1}'} holds numbers with marked thousands, such as "
                f"{words[0]!r}; write them without marks, or set layout='edges' (--layout edges) if they are labels"
            )


def _has_times(seen: Evidence) -> bool:
    """Return whether the fourth column holds times: seconds since 1970, or numbers that never fall."""
    times = [cell for cell in seen.columns[3] if isinstance(cell, int | float)]
    rise = len(times) >= _SORTED_ROWS and len(set(times)) > 1 and all(a <= b for a, b in itertools.pairwise(times))
    return rise or len(times) < len(seen.columns[3]) or all(time >= _LEAST_TIME for time in times)


def _may_be_matrix(seen: Evidence) -> bool:
    """Return whether a table of numbers may be a matrix: it holds zeros, as nearly every matrix does."""
    if any(isinstance(cell, str | bool) for at in seen.values for cell in seen.columns[at]):
        return True
    if (len(seen.rows) < 2 and seen.width < 4 and seen.key is None) or True not in seen.entries:
        return False
    cells = {cell for at in seen.values for cell in seen.columns[at]}
    if not seen.zero_share:
        return cells == {1} and len(seen.rows) > 1
    if seen.width > 3 and cells <= {0, 1}:
        return True
    if any(_is_negative(cell) for at in seen.values for cell in seen.columns[at]) and seen.width < 4:
        return False
    if seen.key is not None or seen.row_names is not None:
        return len(seen.values) == 1 or _zeros_in_half(seen)
    if seen.width > 3:
        return _zeros_in_half(seen)
    if seen.ends is not None and _is_sorted_list(seen):
        return False
    is_short = seen.complete and len(seen.rows) <= _MANY_ROWS
    return seen.zero_share >= _ZERO_SHARE or (is_short and not _are_ids(seen))


def _zeros_in_half(seen: Evidence) -> bool:
    with_zeros = sum(0 in seen.columns[at] or False in map(entry_of, seen.columns[at]) for at in seen.values)
    return 2 * with_zeros >= len(seen.values) or seen.zero_share > 0.1


def _may_be_edges(seen: Evidence) -> bool:
    """Return whether a table of numbers may be edges."""
    if seen.ends is None:
        return False
    if seen.row_names is not None:
        return False
    u, v = (seen.columns[at] for at in seen.ends)
    numbers = [cell for end in (u, v) if not any(isinstance(cell, str) for cell in end) for cell in end]
    if any(isinstance(cell, bool) or (isinstance(cell, float) and cell != int_or_none(cell)) for cell in numbers):
        return False
    if _are_truth_values(seen):
        return False
    if seen.key is not None:
        if seen.key not in seen.ends:
            return isinstance(seen.columns[seen.key][0], int)  # else names of rows before two columns of numbers
        has_words = isinstance(seen.columns[seen.key][0], str) and not is_number(as_number(seen.name(seen.key)))
        if has_words and seen.names and all(is_number(as_number(seen.name(at))) for at in seen.values):
            return False  # numbers as names of columns
        # A name for each row, then numbers: an edge list would name some vertex of U twice.
        return len(seen.rows) < 2 or len(seen.values) <= 2
    pairs = list(zip(u, v, strict=True))
    cells = {*u, *v}
    if cells <= {0, 1} and len(pairs) > 4:
        return False  # at most four edges, over and over
    if seen.width > 3 and all(0 in seen.columns[at] for at in seen.values):
        return False  # an id, a weight and a time that are all 0 at times
    return seen.width <= 4 or (bool(seen.names) and not _may_be_matrix(seen))


def int_or_none(cell: float) -> int | None:
    """Return a whole number as an integer."""
    return int(cell) if abs(cell) < 2**62 and cell == int(cell) else None


def _is_negative(cell: Cell) -> bool:
    return isinstance(cell, int | float) and cell < 0


def _is_sorted_list(seen: Evidence) -> bool:
    """Return whether rows are different edges sorted by their first end, as programs write them.

    A few rows may be in order by chance: they must be sorted by both ends, with ids that leave no gap.
    """
    assert seen.ends is not None
    pairs: list[Any] = list(zip(*(seen.columns[at] for at in seen.ends), strict=True))
    if not all(isinstance(cell, int | float) and cell == int_or_none(cell) for pair in pairs for cell in pair):
        return False
    if len(set(pairs)) < len(pairs):
        return False
    if any(pair[0] > after[0] for pair, after in itertools.pairwise(pairs)):
        return False
    if len(pairs) < 2 or len(pairs) >= _SORTED_ROWS:
        return True
    if any(pair > after for pair, after in itertools.pairwise(pairs)):
        return False
    ends = [set(column) for column in zip(*pairs, strict=True)]
    is_dense = all(max(ids) - min(ids) < len(ids) for ids in ends)
    only_bits = all(cell in (0, 1) for at in seen.values for cell in seen.columns[at])
    return is_dense and (len(pairs) == 4 or not only_bits)


def _are_ids(seen: Evidence) -> bool:
    """Return whether the ends of a few rows are ids, no counts: rows differ, and no id up to 7 or more is left out.

    Counts of such different sizes leave gaps, or repeat rows.
    """
    if seen.ends is None:
        return False
    pairs = [*zip(*(seen.columns[at] for at in seen.ends), strict=True)]
    ends: list[set[Any]] = [set(seen.columns[at]) for at in seen.ends]
    if len(set(pairs)) < len(pairs) or not all(isinstance(cell, int) for ids in ends for cell in ids):
        return False
    return all(min(ids) in (0, 1) and max(ids) - min(ids) + 1 == len(ids) for ids in ends) and max(map(max, ends)) >= 7


def _is_square(seen: Evidence) -> bool:
    n_rows, n_columns = seen.sizes
    is_whole = seen.places is not None or (seen.is_value_table and seen.complete and n_rows == seen.size)
    return is_whole and n_rows == n_columns > 0


_LEAST_ADJACENCY, _CLEAR_ADJACENCY = 3, 5
"""Vertices from which a symmetric matrix with an empty diagonal may be an adjacency matrix, and is none by chance."""


def _is_symmetric(seen: Evidence) -> bool:
    """Return whether a matrix is the adjacency matrix of a simple graph: symmetric, with an empty diagonal."""
    if not _is_square(seen) or seen.sizes[0] < _LEAST_ADJACENCY:
        return False
    rows = seen.row_names if seen.key is None else seen.columns[seen.key]
    if rows is not None and seen.names and list(map(str, rows)) != [seen.name(at) for at in seen.values]:
        return False  # the rows are other vertices than the columns
    u, v = seen.filled
    if not u.size or bool((u == v).any()) or int(max(u.max(), v.max())) + 1 < _LEAST_ADJACENCY:
        return False
    return np.array_equal(np.sort((u << 32) | v), np.sort((v << 32) | u))


def _is_clear_adjacency(seen: Evidence) -> bool:
    """Return whether a symmetric matrix has two layers as an adjacency matrix, and is not one by chance."""
    u, v = seen.filled
    return seen.sizes[0] >= _CLEAR_ADJACENCY and are_two_colours(u.tolist(), v.tolist())


def _decide_lists(seen: Evidence, bipartite: bool) -> Plan:
    """Decide between groups and neighbour lists, for lines of different lengths."""
    differ, apart = first_fields(seen)
    if seen.are_groups:
        _refuse_columns(seen)
    if differ and not apart and not bipartite:
        return _plan_lists(seen, "adjacency")
    if seen.are_groups and apart:
        return _plan_lists(seen, "groups")
    if differ and not apart:
        raise InputError(ambiguous(seen, "groups", "adjacency"))
    if not differ and any(row and isinstance(row[0], str) for row in seen.rows) and _share_of_shorts(seen) > 0.5:
        raise InputError(
            f"{seen.source}: most lines hold two fields, others more or fewer; if they are groups, a line each, set "
            "layout='groups' (--layout groups); if they are edges, layout='edges'"
        )
    lone = next((row[0] for row in seen.rows if len(row) == 1), None)
    if differ and lone is not None and not seen.are_groups:
        raise InputError(
            f"{seen.source}: a line holds {lone!r} alone: a member if lines are groups without names, or the name of a "
            "group without members; remove such lines, or begin all lines with the name of their group"
        )
    second = {row[1] for row in seen.rows if len(row) > 1}
    if differ and not _has_descriptions(seen) and len(second) == 1:
        raise InputError(
            f"{seen.source}: field 2 of all lines is {next(iter(second))!r}; if it describes the groups, as in GMT "
            "files, name the file .gmt; if it is a member of all of them, set layout='groups' (--layout groups)"
        )
    return _plan_lists(seen, "groups")


def _refuse_braces(seen: Evidence) -> None:
    """Raise InputError for cells that are braces, as in lists of neighbours with attributes, or in code."""
    if any(
        isinstance(cell, str) and (cell == "{}" or (seen.is_ragged and cell[:1] in "{}"))
        for row in seen.rows
        for cell in row
        if cell
    ):
        raise InputError(f"{seen.source}: lines with braces are no edge list, nor groups; write one edge a line")


def _refuse_columns(seen: Evidence) -> None:
    """Raise InputError for a dictionary of columns: its keys are usual names of ends, or members repeat."""
    keys, members = [str(row[0]) for row in seen.rows], [row[1:] for row in seen.rows]
    are_usual = are_names(keys) or any(plain_name(key) in NAMES_OF_ROWS for key in keys)
    repeats = any(len(set(each)) < len(each) for each in members)
    if 2 <= len(keys) <= 4 and len(set(map(len, members))) == 1 and (are_usual or repeats):
        raise InputError(
            f"{seen.source} has the keys {', '.join(keys)}, each with a list of {len(members[0]):,}: if these are "
            "columns whose rows are edges, pass pandas.DataFrame(...) of it; if they are groups and their members, set "
            "layout='groups'"
        )


def _share_of_shorts(seen: Evidence) -> float:
    return sum(len(row) == 2 for row in seen.rows) / len(seen.rows)


def _plan_lists(seen: Evidence, layout: Layout) -> Plan:
    if layout == "adjacency":
        return Plan(layout, 0, notes=("field 1 of a line is a vertex, the others are its neighbours",))
    differ, apart = first_fields(seen)
    if not seen.are_groups and not _is_described(seen) and not (differ and apart and len(seen.rows) > 1):
        return Plan(layout, notes=("a line is a group; groups are numbered by their lines",))
    if _has_descriptions(seen):
        notes = ("field 1 of a line names a group, field 2 describes it, as in GMT files",)
        return Plan(layout, 0, skipped=1, notes=notes)
    return Plan(layout, 0, notes=("field 1 of a line names a group, the others are its members",))


def _is_described(seen: Evidence) -> bool:
    """Return whether the name of a file says that second fields are descriptions."""
    is_named = not seen.are_groups and seen.source.lower().endswith((".gmt", ".sif"))
    return is_named and all(len(row) > 1 for row in seen.rows)


def _has_descriptions(seen: Evidence) -> bool:
    """Return whether the second fields are descriptions: by the name of the file, or as addresses."""
    if _is_described(seen):
        return True
    if seen.are_groups or len(seen.rows) < 2 or any(len(row) < 2 for row in seen.rows):
        return False
    return all(isinstance(row[1], str) and "://" in row[1] for row in seen.rows)


_COUNTERS: dict[Layout, Callable[[Evidence], str]]


def ambiguous(seen: Evidence, *layouts: Layout) -> str:
    """Return the message about a source that has several layouts."""
    counts = "; ".join(f"as {_NOUNS[each]}: {_COUNTERS[each](seen)}" for each in layouts)
    names = " or ".join(f"layout={each!r}" for each in layouts)
    flags = " or ".join(f"--layout {each}" for each in layouts)
    part = "" if seen.complete else f" (in the first {len(seen.rows):,} rows)"
    return f"{seen.source} can be read in {len(layouts)} ways{part}: {counts}. Choose {names} ({flags})"


_NOUNS: dict[Layout, str] = {
    "edges": "edges", "matrix": "a matrix", "adjacency": "neighbours of one set of vertices", "groups": "groups",
}  # fmt: skip


def _sized(n_u: int, n_v: int, n_edges: int) -> str:
    return f"{n_u:,} x {n_v:,} vertices, {n_edges:,} {'edge' if n_edges == 1 else 'edges'}"


def _count_edges(seen: Evidence) -> str:
    u, v = seen.ends or (0, 1)
    pairs = {(row[u], row[v]) for row in seen.rows if len(row) > max(u, v)}
    return _sized(len({a for a, _ in pairs}), len({b for _, b in pairs}), len(pairs))


def _count_matrix(seen: Evidence) -> str:
    return _sized(*seen.sizes, seen.filled[0].size)


def _count_adjacency(seen: Evidence) -> str:
    if _is_square(seen):
        return f"{seen.sizes[0]:,} vertices, {seen.filled[0].size // 2:,} edges"
    lines = {(row[0], cell) for row in seen.rows for cell in row[1:]}
    both = {frozenset(pair) for pair in lines if pair[0] != pair[1]}
    return f"{len({cell for row in seen.rows for cell in row}):,} vertices, {len(both):,} edges"


def _count_groups(seen: Evidence) -> str:
    skip = _plan_lists(seen, "groups")
    start = 0 if skip.key is None else 1 + skip.skipped
    pairs = {(at, cell) for at, row in enumerate(seen.rows) for cell in row[start:] if cell is not None}
    return _sized(len(seen.rows), len({member for _, member in pairs}), len(pairs))


_COUNTERS = {
    "edges": _count_edges, "matrix": _count_matrix, "adjacency": _count_adjacency, "groups": _count_groups,
}  # fmt: skip


def _refuse_lists_in_cells(seen: Evidence) -> None:
    """Raise InputError for ends that are lists, such as ``g1|g2``, whose parts are the vertices."""
    for at in () if seen.ends is None or seen.filtered else seen.ends:
        if at >= len(seen.columns):
            return
        words = [cell for cell in seen.columns[at] if isinstance(cell, str)]
        for mark in "|;":
            lists = [set(word.split(mark)) for word in words if mark in word]
            parts = Counter(part for each in lists for part in each)
            if len(lists) > 1 and 2 * len(lists) >= len(words) and max(parts.values()) > 1:
                name = seen.name(at) or f"column {at + 1}"
                raise InputError(
                    f"{seen.source}: {name} holds lists separated by {mark!r}, such as {words[0]!r}; write one edge a "
                    f"row (in pandas, frame.assign(x=frame.x.str.split({mark!r})).explode('x')), or set "
                    "layout='edges' (--layout edges) if these are names"
                )


def _refuse_full_rows(seen: Evidence) -> None:
    """Raise InputError for rows of numbers without names and zeros: perhaps ends, a weight and a time."""
    has_names = bool(seen.names) or seen.key is not None or seen.row_names is not None
    if has_names or len(seen.rows) < 2 or not all(seen.entries):
        return
    cells = {cell for at in seen.values for cell in seen.columns[at]}
    if cells == {1} or any(isinstance(cell, bool) for cell in cells):
        return
    raise InputError(
        f"{seen.source} has {seen.width} columns of numbers without names, and no zero: as a matrix, each row is "
        "joined to all columns. If two columns are the ends of edges, name them and set layout='edges' (--u 1 --v 2 "
        "--layout edges; of an array, pass array[:, :2]); else set layout='matrix' (--layout matrix)"
    )


def _refuse_doubtful_key(seen: Evidence) -> None:
    """Raise InputError for a first column of different numbers: names of the rows of a matrix, or its entries."""
    if seen.has_doubtful_key:
        called = f" ({seen.name(0)})" if seen.name(0) else ""
        raise InputError(
            f"{seen.source}: column 1{called} holds another number in each row, which may be names of the rows or "
            "entries of the matrix; if they are names, call the column id; if they are entries, set layout='matrix' "
            "(--layout matrix)"
        )


def _refuse_complete_weights(seen: Evidence) -> int | None:
    """Raise InputError for a table of all pairs with a weight each, some of them 0: a matrix written as a list.

    Returns the column of weights if there is no 0 so far, and rows after these may hold one.
    """
    if seen.ends is None or seen.signed or seen.filtered:
        return None
    at = seen.weight if seen.weight is not None else _weight_of(seen)
    if at is None or at in seen.ends or at >= seen.width:
        return None
    weights = seen.columns[at]
    zeros = sum(entry_of(cell) is False for cell in weights)
    has_own_zero = plain_name(seen.name(at)) in _RATINGS or any(map(_is_negative, weights))
    if not zeros:
        return None if seen.complete or has_own_zero else at
    u, v = (seen.columns[end] for end in seen.ends)
    n_pairs, n_all = len(set(zip(u, v, strict=True))), len(set(u)) * len(set(v))
    only_bits = all(entry_of(cell) is not None and (isinstance(cell, str) or cell in (0, 1)) for cell in weights)
    if n_pairs < n_all and has_own_zero and not only_bits and seen.weight is None:
        return None
    said = next(cell for cell in weights if entry_of(cell) is False)
    n_left = len({pair for pair, cell in zip(zip(u, v, strict=True), weights, strict=True) if entry_of(cell)})
    part = "" if seen.complete else f" of the first {len(seen.rows):,}"
    raise InputError(
        zero_weights(
            seen.source, seen.name(at), at, said, f"{zeros:,}{part} rows",
            f"with all rows as edges: {_sized(len(set(u)), len(set(v)), n_pairs)}; without zeros: {n_left:,} edges. ",
        )
    )  # fmt: skip


def zero_weights(source: str, name: str, at: int, said: Cell, where: str, counts: str = "") -> str:
    """Return the message about weights of 0 in a list of edges, in the column ``at``."""
    ref = name or f"{at + 1}"
    wanted = f"{ref} > 0" if is_number(said) and not isinstance(said, bool) else f"{ref} != {said}"
    return (
        f"{source}: {name or f'column {at + 1}'} is {said} in {where}, as in a matrix written as a list; {counts}"
        f'Choose where="{wanted}" (--where "{wanted}"), or layout=\'edges\' (--layout edges) for all rows'
    )


def _weight_of(seen: Evidence) -> int | None:
    """Return the column of weights: the only other column, if it holds numbers or truth values."""
    assert seen.ends is not None
    left = [at for at in range(seen.width) if at not in seen.ends]
    if seen.names:
        left = [at for at in left if not (at == 0 and plain_name(seen.name(at)) in ("", "index", "unnamed0"))]
    if len(left) != 1 or not seen.columns[left[0]]:
        return None
    cells = [cell for cell in seen.columns[left[0]] if cell is not None]
    return left[0] if cells and all(entry_of(cell) is not None for cell in cells) else None


def _shown_row(seen: Evidence) -> str:
    row = next((row for row in seen.rows if any(entry_of(cell) is None for cell in row)), ())
    return ", ".join(map(str, row[:6]))
