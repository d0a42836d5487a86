"""Detecting the layout of a text file from its beginning; :mod:`papilio.storage.formats` lists the formats.

Layouts of csv, tsv, edges and snap files: labels of any type, optionally a line of names, optionally one of sizes.
Input that is not an edge list is rejected with advice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from papilio.errors import InputError
from papilio.storage.column_choice import (
    INDEXES,
    USUAL,
    Columns,
    Decimal,
    are_named_ends,
    are_names,
    choose_columns,
    is_known_name,
    pick_ends,
    plain_name,
    show_column,
)
from papilio.storage.formats import (
    BLANKS,
    Declared,
    FormatName,
    Head,
    LabelType,
    ReadOptions,
    TextLayout,
    cell_of,
    check_declared,
    fields_of,
    first_data,
    has_leading_zero,
    hold_line,
    is_integer,
    is_number,
    modal_row,
    time_type,
    whole_part,
    with_columns,
)
from papilio.storage.layout import ABSENT, HEADER_NOTE, NAMES_OF_ROWS, PRESENT, Cell, Evidence, Layout, Plan, decide
from papilio.storage.r_tables import is_quoted_table, is_tabbed_table, names_with_rows

_STARTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"<"), "XML or HTML (GraphML, GEXF)"),
    (re.compile(rb"(?i)\*(vertices|network|arcs|edges)"), "a Pajek file"),
    (re.compile(rb"(?i)(strict\s+)?(di)?graph(\s+\w+)?\s*[\[{]|Creator\s+\""), "GML or DOT"),
)
_DECIMAL_COMMA = re.compile(rb"[+-]?\d+,\d+")
_SEPARATOR = re.compile(rb'"?sep=(.)"?\s*\Z', re.IGNORECASE)
"""First line of a table that declares its separator, as Excel understands it."""
_COMMA_OF_TEXT = re.compile(rb"(?<!\d),|,(?!\d)")
_SAMPLE_LINES = 2000
"""Number of neighbour lists examined."""
_SAMPLE_CELLS = 1 << 18
"""Number of cells that show the layout."""
_LEAST_ROWS = 20


def refuse_documents(name: str, first: bytes) -> None:
    """Raise InputError for documents that are not edge lists, by their first line."""
    line = first.strip()
    if _is_json(line):
        raise InputError(
            f"{name} contains JSON, which is not an edge list; write two fields a line, for example by "
            "jq -r '[.user, .item] | @csv'"
        )
    for start, what in _STARTS:
        if start.match(line):
            raise InputError(
                f"{name} looks like {what}, which is not an edge list; export it as lines 'u v' (or CSV), or set the "
                f"format if it is an edge list"
            )


def _is_json(line: bytes) -> bool:
    if line in (b"{", b"[", b"[{", b"[["):
        return True
    if not line.startswith((b"{", b"[")):
        return False
    try:
        return isinstance(json.loads(line.removesuffix(b",")), dict | list)
    except ValueError:
        return line.startswith((b'{"', b'[{"', b"[["))


def refuse_neighbour_lists(name: str, header: list[bytes], lines: Sequence[bytes], complete: bool) -> None:
    """Raise InputError for a METIS graph: a header ``n m``, then line i lists the neighbours of vertex i.

    ``header`` has the fields of the first line of data; ``lines`` are the available lines after it, ``complete`` if
    all.
    """
    if not 2 <= len(header) <= 4 or not all(part.isdigit() for part in header):
        return
    complete = complete and len(lines) <= _SAMPLE_LINES
    rows = [line.split() for line in lines[:_SAMPLE_LINES]]
    if complete and rows and not rows[-1]:
        rows.pop()
    n = int(header[0])
    if len(rows) > n or (complete and len(rows) != n) or not rows:
        return
    if not all(part.isdigit() and 1 <= int(part) <= n for row in rows for part in row):
        return
    lists = [set(map(int, row)) for row in rows]
    pairs = [(at, other) for at, row in enumerate(lists, 1) for other in row if other <= len(lists)]
    if pairs and all(at != other and at in lists[other - 1] for at, other in pairs):
        raise InputError(
            f"{name} looks like a METIS graph, in which line i lists the neighbours of vertex i; convert reads one "
            "edge a line: write the pairs, or set the format to edges if these are edges"
        )


MARKS = (b",", b";", b"|")
"""Delimiters of csv files, the most usual first."""


def read_table(head: Head, chosen: FormatName, options: ReadOptions) -> TextLayout:
    """Return the layout of a table: of one edge per line, or of a matrix or groups.

    Raises InputError if the file has no data, or its layout is not clear.
    """
    declared = _declared_mark(head)
    comments: tuple[bytes, ...] = (b"#", b"%") if chosen in ("edges", "snap") else (b"#",)
    comments += (head.lines[0],) if declared else ()
    data = [line for _, line in head.data_lines(comments)]
    quotes = options.quotes
    if quotes is None:
        quotes = chosen == "csv" or (chosen == "tsv" and _are_quoted(data))
    delimiter = b"\t" if chosen == "tsv" else _mark(head, comments, quotes) if chosen == "csv" else b""
    delimiter = declared or delimiter
    if quotes:
        head = head.of_records(delimiter)
        data = [line for _, line in head.data_lines(comments)]
    point: Decimal = options.decimal or ("." if delimiter == b"," else ",")
    layout = TextLayout(chosen, delimiter, comments, quotes=quotes, point=point)
    layout, first = first_data(head, layout)
    if not first:
        raise InputError(f"{head.name} has no line of data; it needs an edge, or a header with sizes")
    is_first = options.like is None
    if is_first and options.format is None and options.header is None and options.layout is None:
        refuse_neighbour_lists(
            head.name, fields_of(layout, data[0]), head.lines_from(layout.skip_lines + 1), head.complete
        )
    before = layout
    layout, first = _skip_header(head, layout, data, first, options)
    if chosen in ("csv", "tsv"):
        before, layout = replace(before, comments=()), replace(layout, comments=())
    rows = [fields_of(layout, line) for _, line in head.data_lines((), layout.skip_lines)]
    if is_first:
        seen = _seen(head, layout, _evident(head, layout, rows), options)
        plan = decide(seen, _asked_layout(options), bipartite=options.bipartite)
        _refuse_numbers_as_names(head, layout, seen, plan, options)
        if plan.layout != "edges":
            before = layout if layout.held is None else before
            return _grid(head, before, replace(seen, rows=seen.rows[:1]), plan, options)
        layout = replace(layout, plan=plan, notes=layout.notes + plan.notes)
        if plan.ends is not None:
            options = replace(options, columns=replace(options.columns, u=plan.ends[0] + 1, v=plan.ends[1] + 1))
    try:
        layout = with_columns(head.name, layout, first, options)
    except InputError as error:
        if layout.guessed and len(first) > 2:
            raise InputError(
                f"{error}; line {layout.skip_lines} was read as names: --no-header (header=False) if it is an edge"
            ) from None
        raise
    layout = _with_labels(head, layout, first, options) if is_first else layout
    asked = options.columns
    if is_first and not layout.delimiter and asked.u is None and asked.v is None:
        _refuse_blanks(head, layout, first, options)
    return replace(layout, notes=layout.notes + _notes(layout, rows, options))


def _declared_mark(head: Head) -> bytes:
    """Return the separator that a first line ``sep=;`` declares, or nothing."""
    found = _SEPARATOR.match(head.lines[0]) if head.lines else None
    return b"" if found is None else found[1]


def _are_quoted(data: Sequence[bytes]) -> bool:
    """Return whether all fields of a first line are quoted, and no field has other quotes: then they are no text."""
    rows = [[field.strip(BLANKS) for field in line.split(b"\t")] for line in data]
    fields = [field for row in rows for field in row if b'"' in field]
    return bool(rows) and all(map(_QUOTED.match, rows[0])) and all(map(_QUOTED.match, fields))


_QUOTED = re.compile(rb'"([^"]|"")*"\Z')


def _evident(head: Head, layout: TextLayout, rows: list[list[bytes]]) -> list[list[bytes]]:
    """Return the lines that show the layout: without a first line that may be sizes, with one that cannot be."""
    held = layout.held
    if held is None:
        return rows
    rest = rows if held.skipped else rows[1:]
    ids = [int(part) for row in rest if len(row) > 1 for part in row[:2] if is_integer(part)]
    sizes = held.numbers
    fits = len(sizes) == 1 or len(rest) in sizes
    if len(sizes) == 3 and held.is_edge:
        fits = False
    elif len(sizes) == 2 and held.is_edge:
        fits = sizes[1] == len(rest) and bool(ids) and min(ids) >= 0 and sizes[0] >= max(ids) + (min(ids) == 0)
    if fits or not head.complete:
        return rest
    return [fields_of(layout, held.text), *rest]


def _refuse_numbers_as_names(head: Head, layout: TextLayout, seen: Evidence, plan: Plan, options: ReadOptions) -> None:
    """Raise InputError if the first row of a matrix without names may be names that are numbers, such as years."""
    if layout.names or options.header is not None or len(seen.rows) < 2 or len(seen.rows[0]) != seen.width:
        return
    first = [seen.rows[0][at] for at in plan.values or range(seen.width)]
    if not plan.values and (plan.layout != "edges" or first != [*range(len(first))] or len(first) < 4):
        return
    if not all(map(is_plain_number, first)) or len(set(first)) < len(first):
        return
    numbers = range(len(first))
    if plan.key is None:
        others = [row[at] for row in seen.rows[1:] if len(row) == seen.width for at in plan.values]
        are_floats = all(isinstance(cell, float) for cell in others) and all(isinstance(cell, int) for cell in first)
        is_doubtful = are_floats or (len(first) > 2 and first in ([*numbers], [at + 1 for at in numbers]))
    else:
        corner = plain_name(str(seen.rows[0][plan.key]))
        is_usual = corner in NAMES_OF_ROWS | INDEXES | {"index"} or is_known_name(corner)
        is_doubtful = is_usual or 0 not in first or first == [*numbers]
    if is_doubtful:
        shown = ", ".join(map(str, seen.rows[0][:6]))
        raise InputError(
            f"{head.name}, line {layout.skip_lines + 1}: {shown}: names of columns, or a row of the matrix; --header "
            "(header=True) if it contains names, else --no-header (header=False)"
        )


def is_plain_number(cell: Cell) -> bool:
    """Return whether a cell is a number and no truth value."""
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _asked_layout(options: ReadOptions) -> Layout | None:
    return "edges" if options.layout is None and options.format == "edges" else options.layout


def _seen(head: Head, layout: TextLayout, rows: list[list[bytes]], options: ReadOptions) -> Evidence:
    """Return what the first lines show of the layout."""
    asked = options.columns
    width = max(map(len, rows), default=1)
    chosen = {asked.sign, asked.time} - {None} or (isinstance(asked.u, str) and isinstance(asked.v, str))
    sample = rows[: max(_LEAST_ROWS, _SAMPLE_CELLS // width)]
    cells = [[cell_of(part, layout.point) for part in row] for row in sample]
    ends, weight = None, None
    count = len(layout.names) or Counter(map(len, cells)).most_common(1)[0][0]
    with suppress(InputError):
        found = choose_columns(head.name, layout.names, count, replace(asked, signed=False))
        ends = (found.u, found.v) if max(found.u, found.v) < count else None
        weight = found.sign
    return Evidence(
        head.name,
        cells,
        layout.names,
        complete=head.complete and len(sample) == len(rows) < head.sample_lines,
        ends=ends,
        are_named_ends=bool(chosen) or are_named_ends(layout.names, ends),
        are_asked_ends=asked.u is not None and asked.v is not None,
        weight=weight,
        has_blanks=not layout.delimiter,
        signed=options.sign is not None,
        filtered=bool(options.where),
    )


def _grid(head: Head, layout: TextLayout, seen: Evidence, plan: Plan, options: ReadOptions) -> TextLayout:
    """Return the layout of a file that is no list of edges."""
    labels: list[LabelType] = ["integer", "integer"]
    rows = [fields_of(layout, line) for _, line in head.data_lines((), layout.skip_lines)]
    usual = modal_row(rows)
    start = 0 if plan.key is None else plan.key + 1 + plan.skipped

    def is_text(fields: Iterable[bytes]) -> bool:
        return not all(is_integer(part) and not has_leading_zero(part) for part in fields if cell_of(part) is not None)

    if plan.key is not None and is_text(row[plan.key] for row in rows if len(row) > plan.key):
        labels[0] = "text"
    if plan.values:
        names = [layout.names[at].encode() for at in plan.values] if layout.names else []
        labels[1] = "text" if names and is_text(names) else "integer"
        if names and labels[1] == "integer" and list(map(int, names)) != list(range(1, len(names) + 1)):
            labels[1] = "text"
        if len(set(names)) < len(names):
            raise InputError(f"{head.name}: several columns of the matrix have one name; make them distinct")
    elif is_text(part for row in rows for part in row[start:] if part):
        labels[1] = "text"
    if plan.layout == "adjacency":
        kind: LabelType = "text" if "text" in (labels[1], labels[0] if not plan.values else "integer") else "integer"
        labels = [kind, kind]
    if not options.bipartite and plan.layout != "adjacency":
        raise InputError(
            f"{head.name} is read as {plan.layout}, two layers, but a unipartite graph has one; a square matrix and "
            "lists of neighbours are layout='adjacency' (--layout adjacency)"
        )
    if options.sign is not None and not plan.values:
        raise InputError(
            f"{head.name} is read as {plan.layout}, whose lines hold no values, so there are no signs; leave out sign, "
            "positive_from and sign_values, or use layout='edges' (--layout edges)"
        )
    _refuse_options(head.name, plan.layout, options)
    n_columns = len(layout.names) or (max(plan.values) + 1 if plan.values else len(usual))
    return replace(
        layout,
        n_columns=n_columns,
        labels=(labels[0], labels[1]),
        plan=plan,
        held=None,
        notes=layout.notes + plan.notes,
    )


def _refuse_options(name: str, layout: str, options: ReadOptions) -> None:
    """Raise InputError for options that choose columns of an edge list."""
    columns = options.columns
    given = [each for each in ("u", "v", "time") if getattr(columns, each) is not None]
    given += ["where"] if options.where else []
    if given:
        raise InputError(
            f"{name} is read as {layout}, so {', '.join(given)} cannot be used; they are for layout='edges' "
            "(--layout edges)"
        )


def _mark(head: Head, comments: tuple[bytes, ...], quotes: bool) -> bytes:
    """Return the delimiter: one that all lines contain equally often, else the first one found."""
    data = [line for _, line in head.data_lines(comments)]
    if is_quoted_table(data):
        return b" "
    present = [mark for mark in MARKS if data and mark in data[0]]
    if len(present) < 2:
        return present[0] if present else b","
    rows = {}
    for mark in present:
        records = head.of_records(mark) if quotes else head
        layout = TextLayout("csv", mark, quotes=quotes)
        rows[mark] = [fields_of(layout, line) for _, line in records.data_lines(comments)]
    regular = [mark for mark in present if len(set(map(len, rows[mark]))) == 1]
    if b";" in regular and not any(map(_COMMA_OF_TEXT.search, data)):
        return b";"  # all commas are decimal points
    whole = [mark for mark in regular if all(map(is_integer, rows[mark][0][:2]))]
    return (whole or regular or present)[0]


def _skip_header(
    head: Head, layout: TextLayout, data: list[bytes], first: list[bytes], options: ReadOptions
) -> tuple[TextLayout, list[bytes]]:
    """Return the layout after a first line of names or sizes, and a typical line of data."""
    line = fields_of(layout, data[0])
    after = replace(layout, comments=())
    after, second = first_data(head, after, layout.skip_lines + 1)
    numbers = all(part.isdigit() for part in line)
    has_names = False if options.layout == "groups" and options.header is None else options.header
    rows = [] if has_names is False else [fields_of(layout, row) for row in data[1:]]
    with_rows = names_with_rows(line, rows, quoted=layout.delimiter == b" ")
    if with_rows:
        line, has_names = with_rows, True
    like = options.like
    if like is not None and like.names:
        names = tuple(part.decode(errors="replace") for part in line)
        has_names = sorted(names) == sorted(like.names) or _is_header(line, second)
        if not has_names and len(first) == len(like.names):
            return replace(layout, names=like.names), first
    guessed = False
    if has_names is None:
        has_names = _is_header(line, second) or _is_numbered(line, second) or _is_above_numbers(line, rows)
        if not has_names and layout.format in ("csv", "tsv"):
            guessed = has_names = _is_apart(line, [fields_of(layout, other) for other in data[1:]])
    if has_names and not numbers and like is not None and not like.names:
        raise InputError(f"{head.name} has a line of names, but the first file has none; convert them one by one")
    if not has_names:
        names = _named_by_comment(head, layout, first)
        if names:
            return replace(layout, names=names), first
        asked = options.columns
        may_hold = options.header is None and options.may_hold_sizes and options.labels != "text"
        if may_hold and asked.u is None and asked.v is None:
            return hold_first_line(head, layout, first)
        return layout, first
    shown = ", ".join(part.decode(errors="replace") for part in line)
    if not second:
        raise InputError(f"{head.name} has names ({shown}) and no line of data")
    after = replace(after, comments=layout.comments)
    if numbers:
        return replace(after, notes=(*after.notes, f"line {layout.skip_lines + 1} is a header: {shown}")), second
    if len(line) == len(second):
        names = tuple(part.decode(errors="replace") for part in line)
        notes = (
            (f"{HEADER_NOTE}line {layout.skip_lines + 1} ({shown}); --no-header if it is an edge",) if guessed else ()
        )
        return replace(after, names=names, guessed=guessed, notes=(*after.notes, *notes)), second
    if not (isinstance(options.columns.u, int) and isinstance(options.columns.v, int)):
        raise InputError(
            f"{head.name}, line {layout.skip_lines + 1}: {len(line)} names ({shown}) for {len(second)} columns; set "
            f"u and v (--u and --v) to the numbers of the endpoint columns, from 1"
        )
    return after, second


def hold_first_line(head: Head, layout: TextLayout, first: list[bytes]) -> tuple[TextLayout, list[bytes]]:
    """Return the layout that holds back a first line that may be sizes, and a typical line of data."""
    data = head.data_lines((), layout.skip_lines)
    line = fields_of(layout, data[0][1]) if data else []
    rest = modal_row([fields_of(layout, other) for _, other in data[1:]])
    if not all(is_integer(part) and not has_leading_zero(part) for part in rest[:2]):
        return layout, first
    held = hold_line(layout.skip_lines, data[0][1] if data else b"", line, len(data) - 1, len(rest))
    if held is None:
        return layout, first
    return replace(layout, held=held, skip_lines=layout.skip_lines + held.skipped), rest


def _named_by_comment(head: Head, layout: TextLayout, first: list[bytes]) -> tuple[str, ...]:
    """Return the column names in the last comment before the data, or none unless it names all columns."""
    before = [line for line in head.lines_before(layout.skip_lines) if line.startswith(layout.comments)]
    if not before:
        return ()
    fields = fields_of(layout, before[-1].lstrip(b"#% "))
    names = tuple(part.decode(errors="replace") for part in fields)
    if len(names) != len(first):
        return ()
    is_table = layout.format in ("csv", "tsv") and len(names) > 2
    return names if is_table or (are_names(names) and pick_ends(names) is not None) else ()


def _is_header(first: list[bytes], second: list[bytes]) -> bool:
    """Return whether the first of two rows contains names; ``second`` may be empty.

    It does if every column that is numeric in the second row (at least one) is not numeric in the first, or if its
    fields are usual column names.
    """
    if are_names([part.decode(errors="replace") for part in first]):
        return True
    if len(first) != len(second):
        return False
    numeric = [at for at, part in enumerate(second) if _is_numeric(part)]
    return bool(numeric) and not any(_is_numeric(first[at]) for at in numeric)


def _is_numeric(part: bytes) -> bool:
    return time_type(part) != "text" or _DECIMAL_COMMA.fullmatch(part) is not None


def _is_numbered(first: list[bytes], second: list[bytes]) -> bool:
    """Return whether the first line has numbers as names, after a first one without a name, as pandas writes them."""
    if len(first) < 2 or len(first) != len(second) or first[0] or not second[0]:
        return False
    return all(map(_is_numeric, first[1:])) and len(set(first)) == len(first)


def _is_above_numbers(first: list[bytes], rows: list[list[bytes]]) -> bool:
    """Return whether the first line has a word where all other lines (at least two) have numbers."""
    columns = [*zip(*(row for row in rows if len(row) == len(first)), strict=True)]
    if not columns:
        return False
    filled = [[part for part in column if cell_of(part) is not None] for column in columns]
    numeric = [at for at, parts in enumerate(filled) if parts and len(columns[0]) > 1 and all(map(_is_numeric, parts))]
    if any(isinstance(cell_of(first[at]), str) and not _is_numeric(first[at]) for at in numeric):
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


def _is_mark(part: bytes) -> bool:
    """Return whether a field is a word of a matrix for an entry or none, or empty."""
    return not part or part.decode(errors="replace").lower() in ABSENT | PRESENT


def _is_apart(first: list[bytes], rows: list[list[bytes]]) -> bool:
    """Return whether a first line of words is apart from all others: no word of it occurs again in its column."""
    if not rows or sum(map(bool, first)) < 2 or any(part and _is_numeric(part) for part in first):
        return False
    if Counter(map(len, rows)).most_common(1)[0][0] != len(first):
        return False
    if all(map(_is_mark, first)):
        return False
    again = {(at, part) for row in rows if row != first for at, part in enumerate(row)}
    return not any(part and (at, part) in again for at, part in enumerate(first))


def _with_labels(head: Head, layout: TextLayout, first: list[bytes], options: ReadOptions) -> TextLayout:
    ends = (layout.columns.u, layout.columns.v)
    decimal = tuple(whole_part(first[at]) is not None for at in ends)
    if options.labels is None:
        kinds = [_label_type(head, layout, first, at) for at in ends]
        if not options.bipartite and "text" in kinds:
            kinds = ["text", "text"]
        layout = replace(layout, labels=(kinds[0], kinds[1]))
    return replace(
        layout,
        decimal=(decimal[0] and layout.labels[0] == "integer", decimal[1] and layout.labels[1] == "integer"),
    )


def _label_type(head: Head, layout: TextLayout, first: list[bytes], at: int) -> LabelType:
    part = first[at]
    if (is_integer(part) or whole_part(part) is not None) and not has_leading_zero(part):
        return "integer"
    if cell_of(part) is None:
        rows = [fields_of(layout, line) for _, line in head.data_lines((), layout.skip_lines)]
        others = [row[at] for row in rows if len(row) == len(first) and cell_of(row[at]) is not None]
        if others:
            return _label_type(head, layout, others[0:1] * len(first), at)
    is_decimal = layout.point == "," and _DECIMAL_COMMA.fullmatch(part) is not None
    if (is_number(part) or is_decimal) and not part.lstrip(b"+-").isdigit():
        raise InputError(
            f"{head.name}, line {_line_of(head, layout, first)}: {part.decode()!r} in "
            f"{show_column(layout.names, at)} is not a label; expected integers or words (if these are labels, set "
            f"labels to text)"
        )
    return "text"


def _line_of(head: Head, layout: TextLayout, row: list[bytes]) -> int:
    data = head.data_lines((), layout.skip_lines)
    return next((at + 1 for at, line in data if fields_of(layout, line) == row), layout.skip_lines + 1)


def _refuse_blanks(head: Head, layout: TextLayout, first: list[bytes], options: ReadOptions) -> None:
    if "text" not in layout.labels or options.labels == "text":
        return
    where = f"{head.name}, line {_line_of(head, layout, first)}: {b' '.join(first).decode(errors='replace')[:80]!r}"
    columns = layout.columns
    if any(first[at].startswith(b'"') for at in (columns.u, columns.v)):
        raise InputError(
            f"{where} has quotes in a file separated by blanks; separate the fields by tabs or commas, or set labels "
            f"to text if the quotes belong to them"
        )
    others = set(range(len(first))) - {columns.u, columns.v, columns.sign, columns.time}
    if not layout.names and any(first[at].decode(errors="replace").isalpha() for at in others):
        raise InputError(
            f"{where}: {len(first)} words; if names hold blanks, separate the fields by tabs or commas; else choose "
            f"the endpoints by u and v (--u 1 --v 2)"
        )


def _notes(layout: TextLayout, rows: list[list[bytes]], options: ReadOptions) -> tuple[str, ...]:
    notes = []
    ends = (layout.columns.u, layout.columns.v)
    unsure = options.header is None and options.like is None
    if unsure and not layout.names and layout.held is None and "text" in layout.labels:
        fields = rows[0]
        again = len(fields) > max(ends) and any(row[at : at + 1] == [fields[at]] for row in rows[1:] for at in ends)
        if not again:
            shown = b" ".join(fields).decode(errors="replace")[:80]
            notes.append(f"line {layout.skip_lines + 1} read as an edge: {shown}; use --header if it contains names")
    asked = options.columns
    counted = [row[0] for row in rows]
    bare = (asked.u, asked.v, layout.names) == (None, None, ()) and layout.n_columns > 2
    if bare and len(rows) > 4 and is_integer(counted[0]):
        start = int(counted[0])
        if counted == [b"%d" % (start + at) for at in range(len(rows))]:
            notes.append("column 1 counts the lines; if it is an index: --u 2 --v 3")
    return tuple(notes)


_DIMACS = re.compile(rb"p\s+([A-Za-z]+)((?:\s+\d+){2,3})\s*\Z")
_DIMACS_KINDS = (b"edge", b"edges", b"col", b"sp", b"tw", b"ocr", b"max", b"asn")
_FIXED = ("konect", "sizes", "mtx", "dimacs")
"""Formats that define the columns of the endpoints."""


def detect_layout(head: Head, options: ReadOptions) -> TextLayout:
    """Return the layout of the file.

    Raises InputError if it has no data, contradicts the forced format or the options, or cannot be an edge list.
    """
    first = next((line for line in head.lines if line.strip(BLANKS)), b"")
    if b"\0" in first:
        raise InputError(
            f"{head.name} is not a text file, nor NumPy or Parquet; convert reads only edge lists (if it is text, "
            f"set its encoding)"
        )
    if options.format is None:
        refuse_documents(head.name, first)
    chosen = options.format or (options.like.format if options.like else _sniff(head, first, options))
    if chosen in _FIXED and (options.columns.u, options.columns.v) != (None, None):
        raise InputError(
            f"{head.name}: the format {chosen} defines the endpoint columns; leave out u and v, or use another "
            f"format, such as edges"
        )
    if options.quotes and chosen not in ("csv", "tsv"):
        raise InputError(
            f"{head.name}: quotes=True (--quotes) is for the formats csv and tsv, but this file has the format "
            f"{chosen}; set the format to csv or tsv if it is one"
        )
    if chosen == "mtx":
        return _matrix_market(head, options)
    if chosen == "konect":
        return _konect(head, options)
    if chosen == "sizes":
        return _sizes(head, options)
    if chosen == "dimacs":
        return _dimacs(head, options)
    if chosen == "movielens":
        return _movielens(head, options)
    return read_table(head, chosen, options)


def _sniff(head: Head, first: bytes, options: ReadOptions) -> FormatName:
    if first.lower().startswith(b"%%matrixmarket"):
        return "mtx"
    dimacs = first[:1] in (b"c", b"p") and first[1:2] in (b"", b" ", b"\t")
    if dimacs and any(_DIMACS.match(line) for line in head.lines):
        return "dimacs"
    percent = first.startswith(b"%")
    if declared := _declared_mark(head):
        return "tsv" if declared == b"\t" else "csv"
    data = [line for _, line in head.data_lines((b"%",) if percent else (b"#",))]
    is_edges = options.layout in (None, "edges")
    if is_edges and options.header is not False and not (percent and _konect_kind(head)) and _has_sizes(head, data):
        return "sizes"
    if percent:
        return "konect"
    if not data:
        return "snap" if first.startswith(b"#") else "edges"
    if b"::" in data[0] or head.name.startswith("u.data") or "_u.data" in head.name:
        return "movielens"
    tabs = (
        _is_regular(data, b"\t") or is_tabbed_table(data) or (_is_tabbed(data) and all(b"\t" in line for line in data))
    )
    if is_quoted_table(data):
        return "csv"
    if any(mark in data[0] for mark in MARKS):
        return "tsv" if tabs and not _is_marked(data) else "csv"
    if first.startswith(b"#"):
        return "tsv" if tabs and _is_named_table(head, data) else "snap"
    return "tsv" if tabs or _is_tabbed(data) else "edges"


def _is_named_table(head: Head, data: list[bytes]) -> bool:
    """Return whether the last comment before the data names more than two columns, separated by tabs."""
    at = next((at for at, line in enumerate(head.lines) if line == data[0]), 0)
    n_tabs = data[0].count(b"\t")
    return at > 0 and n_tabs > 1 and head.lines[at - 1].count(b"\t") == n_tabs


def _is_tabbed(data: list[bytes]) -> bool:
    """Return whether lines of different lengths are separated by tabs: groups."""
    counts = [line.count(b"\t") for line in data]
    return len(data) > 1 and 2 * sum(map(bool, counts)) >= len(data) and max(counts) > 2 and len(set(counts)) > 1


def _is_regular(data: list[bytes], mark: bytes) -> bool:
    counts = {line.count(mark) for line in data}
    return len(counts) == 1 and counts != {0}


def _is_marked(data: list[bytes]) -> bool:
    """Return whether lines with regular tabs are separated by a csv delimiter; if not, it is part of their text."""
    regular = [mark for mark in MARKS if _is_regular(data, mark)]
    parts = [part.strip(BLANKS) for part in data[0].split(b"\t")]
    return any(part.startswith(mark) or part.endswith(mark) for mark in regular for part in parts)


def _has_sizes(head: Head, data: list[bytes]) -> bool:
    """Return whether the first line of data contains n_u, n_v and the number of lines after it."""
    layout = TextLayout("sizes", next((mark for mark in MARKS if data and mark in data[0]), b""))
    header = layout.split(data[0]) if data else []
    if len(header) != 3 or not all(map(bytes.isdigit, header)):
        return False
    n_u, n_v, n_lines = map(int, header)
    rest = [row for row in map(layout.split, data[1:]) if len(row) > 1 and is_integer(row[0])]
    if not rest:
        return n_lines == 0 and head.complete
    if 0 in (n_u, n_v) or any(int(row[0]) > n_u or (is_integer(row[1]) and int(row[1]) > n_v) for row in rest):
        return False
    if len(rest[0]) != 3:
        return True
    if head.complete and len(data) < head.sample_lines:
        return n_lines == len(data) - 1
    if not head.n_bytes:  # the length of the input is unknown
        return n_lines >= len(data) - 1
    return head.n_bytes / 200 < n_lines < head.n_bytes * 20


def _complete(head: Head, layout: TextLayout, first: list[bytes], options: ReadOptions) -> TextLayout:
    if first:
        return with_columns(head.name, layout, first, options)
    if layout.declared is None:
        raise InputError(f"{head.name} has no line of data; it needs an edge, or a header with sizes")
    return layout


def _konect(head: Head, options: ReadOptions) -> TextLayout:
    headers = [line[1:].split() for line in head.lines if line.startswith(b"%")]
    kind = _konect_kind(head)
    if kind == "bip" and not options.bipartite:
        raise InputError(
            f"{head.name} is bipartite by its header (% bip): reading it as unipartite would mix up the vertices of "
            f"its two layers; convert it as bipartite"
        )
    notes = []
    if kind in ("sym", "asym") and options.bipartite:
        notes.append(
            f"the header says unipartite (% {kind}); read as bipartite: column 1 is U, column 2 is V; --unipartite "
            "(in Python kind='unipartite') for one set of vertices"
        )
    declared = None
    sizes = headers[1] if len(headers) > 1 and all(map(bytes.isdigit, headers[1])) else []
    if len(sizes) in (2, 3) and kind:
        n_u, n_v = int(sizes[1]), int(sizes[-1])
        if not options.bipartite:
            n_u = n_v = max(n_u, n_v)
        declared = check_declared(head.name, Declared(n_u, n_v, None, (1, 0), binding=False))
    used = (kind != "") + (declared is not None)
    layout = TextLayout(
        "konect",
        comments=(b"%",),
        n_comments=-used,
        columns=replace(USUAL, time=3),
        declared=declared,
        notes=tuple(notes),
    )
    layout, first = first_data(head, layout)
    if not kind and options.header is not False and options.may_hold_sizes and options.labels != "text":
        layout, first = hold_first_line(head, layout, first)
    return _complete(head, layout, first, options)


def _konect_kind(head: Head) -> str:
    words = next((line[1:].split() for line in head.lines if line.startswith(b"%")), [])
    kind = words[0].decode(errors="replace") if words else ""
    return kind if kind in ("bip", "sym", "asym") else ""


def _sizes(head: Head, options: ReadOptions) -> TextLayout:
    comments = (b"#", b"%")
    data = head.data_lines(comments)
    delimiter = next((mark for mark in MARKS if data and mark in data[0][1]), b"")
    layout = TextLayout("sizes", delimiter, comments)
    header = layout.split(data[0][1]) if data else []
    if len(header) != 3 or not all(map(bytes.isdigit, header)):
        raise InputError(f"{head.name}: the first line of data is not 'n_u n_v m', as in the format sizes")
    n_u, n_v, n_lines = map(int, header)
    if not options.bipartite and n_u != n_v:
        raise InputError(
            f"{head.name} declares {n_u} and {n_v} vertices: two layers, but a unipartite graph has one; convert it "
            f"as bipartite"
        )
    declared = check_declared(head.name, Declared(n_u, n_v, n_lines, (0, 1), binding=True))
    layout, _ = first_data(head, replace(layout, declared=declared))
    layout, first = first_data(head, layout, data[0][0] + 1)
    return _complete(head, layout, first, options)


def _movielens(head: Head, options: ReadOptions) -> TextLayout:
    data = head.data_lines(())
    mark = b"::" if data and b"::" in data[0][1] else b"\t"
    return _complete(head, *first_data(head, TextLayout("movielens", mark, columns=replace(USUAL, time=3))), options)


def _matrix_market(head: Head, options: ReadOptions) -> TextLayout:
    words = [word.decode(errors="replace").lower() for word in head.lines[0].split()]
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise InputError(f"{head.name}, line 1: expected '%%MatrixMarket matrix coordinate FIELD SYMMETRY'")
    storage, values, symmetry = words[2:]
    if storage != "coordinate":
        raise InputError(f"{head.name} is a dense matrix ({storage}); convert reads the coordinate format")
    if symmetry not in ("general", "symmetric", "skew-symmetric", "hermitian"):
        raise InputError(f"{head.name}, line 1: unknown symmetry {symmetry!r}")
    columns = {"pattern": 2, "real": 3, "double": 3, "integer": 3, "unsigned-integer": 3, "complex": 4}
    if values not in columns:
        raise InputError(f"{head.name}, line 1: unknown field {values!r}; known: {', '.join(columns)}")
    if symmetry == "skew-symmetric" and options.sign is not None and options.sign.threshold is not None:
        raise InputError(f"{head.name} is skew-symmetric: signs follow from values above 0, not from a threshold")
    if options.labels == "text":
        raise InputError(f"{head.name} is a matrix, whose labels are row and column numbers: leave out labels text")
    data = head.data_lines((b"%",))
    header = data[0][1].split() if data else []
    if len(header) != 3 or not all(map(bytes.isdigit, header)):
        raise InputError(f"{head.name}: expected a line 'rows columns entries' after the comments")
    rows, cols, entries = map(int, header)
    if rows != cols and (symmetry != "general" or not options.bipartite):
        raise InputError(f"{head.name} is {rows} x {cols}; a unipartite graph or symmetric matrix is square")
    layout = TextLayout(
        "mtx",
        comments=(b"%",),
        n_comments=-1,
        n_columns=columns[values],
        declared=check_declared(head.name, Declared(rows, cols, entries, (1,), binding=True)),
        mirror="none"
        if symmetry == "general" or not options.bipartite
        else "skew"
        if symmetry == "skew-symmetric"
        else "symmetric",
    )
    layout, _ = first_data(head, layout)
    layout, first = first_data(head, layout, data[0][0] + 1)
    expected = layout.n_columns
    layout = _complete(head, layout, first, options)
    return replace(layout, n_columns=expected)


def _dimacs(head: Head, options: ReadOptions) -> TextLayout:
    """Return the layout of DIMACS and PACE graphs: ``c`` comments, ``p`` line, then ``e u v``, ``a u v w``, ``u v``."""
    comments = (b"c", b"p")
    at, line = next(((at, line) for at, line in enumerate(head.lines) if line.startswith(b"p")), (0, b""))
    header = _DIMACS.match(line)
    if header is None or header[1] not in _DIMACS_KINDS:
        raise InputError(
            f"{head.name}, line {at + 1}: {line.decode(errors='replace')[:80]!r} is not 'p KIND n m' with one of the "
            f"kinds {b', '.join(_DIMACS_KINDS).decode()}"
        )
    sizes = [int(number) for number in header[2].split()]
    notes: tuple[str, ...] = ()
    declared = None
    if len(sizes) == 2:
        declared = check_declared(head.name, Declared(sizes[0], sizes[0], sizes[1], (1,), binding=False))
        if options.bipartite:
            notes = (
                f"DIMACS files hold one set of vertices (p {header[1].decode()}); read as bipartite; --unipartite "
                "(in Python kind='unipartite') for one set of vertices",
            )
    if options.labels == "text":
        raise InputError(f"{head.name}: labels in DIMACS files are numbers: leave out labels text")
    layout = TextLayout("dimacs", comments=comments, n_comments=-1, declared=declared, notes=notes)
    layout, first = first_data(head, layout)
    if first and first[0].isalpha():
        layout = replace(layout, tag=first[0], columns=Columns(1, 2, 3))
        if len(first) < 3:
            raise InputError(f"{head.name}, line {layout.skip_lines + 1}: expected '{first[0].decode()} u v'")
    return _complete(head, layout, first, options)
