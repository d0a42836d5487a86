"""Tables in text, of one edge a line, or of a matrix or groups: their delimiter, line of names, layout and labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from papilio.errors import InputError
from papilio.storage.column_choice import (
    INDEXES,
    OTUS,
    Decimal,
    are_named_ends,
    are_names,
    choose_columns,
    is_known_name,
    pick_ends,
    plain_name,
    show_column,
)
from papilio.storage.evidence import NAMES_OF_ROWS, Cell, Evidence, Layout, is_counted
from papilio.storage.formats import (
    BLANKS,
    FormatName,
    Head,
    LabelType,
    ReadOptions,
    TextLayout,
    cell_of,
    fields_of,
    first_data,
    has_leading_zero,
    hold_line,
    is_integer,
    is_number,
    modal_row,
    whole_part,
    with_columns,
)
from papilio.storage.layout import HEADER_NOTE, Plan, decide
from papilio.storage.name_lines import (
    DECIMAL_COMMA,
    are_ends,
    is_above_numbers,
    is_above_one_row,
    is_apart,
    is_header,
    is_numbered,
    names_rows,
    occurs_again,
)
from papilio.storage.r_tables import is_quoted_table, names_with_rows

_SEPARATOR = re.compile(rb'"?sep=(.)"?\s*\Z', re.IGNORECASE)
"""First line of a table that declares its separator, as Excel understands it."""


_COMMA_OF_TEXT = re.compile(rb"(?<!\d),|,(?!\d)")


_SAMPLE_LINES = 2000
"""Number of neighbour lists examined."""


_SAMPLE_CELLS = 1 << 18
"""Number of cells that show the layout."""


_LEAST_ROWS = 20


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
    declared = declared_mark(head)
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
        _refuse_lone_line(seen, plan)
        if plan.layout == "groups" and not delimiter and options.layout is options.format is None:
            _refuse_marks_in_groups(head.name, data)
        if plan.layout != "edges":
            before = layout if layout.ambiguous is None else before
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


def _refuse_marks_in_groups(name: str, data: Sequence[bytes]) -> None:
    """Raise InputError for groups whose fields blanks separate, with another separator in a few lines."""
    for mark in (*MARKS, b"\t"):
        line = next((line for line in data if mark in line.strip(BLANKS)), None)
        if line is not None and any(b" " in part.strip(BLANKS) for other in data for part in other.split(mark)):
            shown = mark.decode()
            how = "format='tsv' (--format tsv)" if mark == b"\t" else f"a first line 'sep={shown}'"
            raise InputError(
                f"{name}: blanks or {shown!r} separate the members of groups, as in {line.decode(errors='replace')!r}; "
                f"set layout='groups' (--layout groups), with {how} if {shown!r} does, without it if blanks do"
            )


def declared_mark(head: Head) -> bytes:
    """Return the separator that a first line ``sep=;`` declares, or nothing."""
    found = _SEPARATOR.match(head.lines[0]) if head.lines else None
    return b"" if found is None else found[1]


def marks_of(data: Sequence[bytes]) -> list[bytes]:
    """Return the delimiters of csv files in the first line, else those of most lines, if blanks separate none."""
    present = [mark for mark in MARKS if data and mark in data[0]]
    if present or len({len(line.split()) for line in data}) < 2:
        return present
    return [mark for mark in MARKS if 2 * sum(mark in line for line in data) >= len(data)]


def _are_quoted(data: Sequence[bytes]) -> bool:
    """Return whether quotes are no text: all of a first line are quoted, or quotes are doubled, and all have pairs."""
    rows = [[field.strip(BLANKS) for field in line.split(b"\t")] for line in data]
    fields = [field for row in rows for field in row if b'"' in field]
    is_sure = bool(rows) and (all(map(_QUOTED.match, rows[0])) or any(b'""' in field[1:-1] for field in fields))
    return is_sure and all(map(_QUOTED.match, fields))


_QUOTED = re.compile(rb'"([^"]|"")*"\Z')


def _evident(head: Head, layout: TextLayout, rows: list[list[bytes]]) -> list[list[bytes]]:
    """Return the lines that show the layout: without a first line that may be sizes, with one that cannot be."""
    header = layout.ambiguous
    if header is None:
        return rows
    rest = rows if header.skipped else rows[1:]
    ids = [int(part) for row in rest if len(row) > 1 for part in row[:2] if is_integer(part)]
    sizes = header.numbers
    fits = len(sizes) == 1 or len(rest) in sizes
    if len(sizes) == 3 and header.is_edge:
        fits = False
    elif len(sizes) == 2 and header.is_edge:
        fits = sizes[1] == len(rest) > 1 and bool(ids) and min(ids) >= 0 and sizes[0] >= max(ids) + (min(ids) == 0)
    if fits or not head.complete:
        return rest
    return [fields_of(layout, header.text), *rest]


def _refuse_numbers_as_names(head: Head, layout: TextLayout, seen: Evidence, plan: Plan, options: ReadOptions) -> None:
    """Raise InputError if the first row of a matrix without names may be names that are numbers, such as years."""
    if layout.names or options.header is not None or len(seen.rows) < 2 or len(seen.rows[0]) != seen.width:
        return
    if _are_codes_above_numbers(seen.rows):
        raise InputError(_doubtful_names(head, layout, seen.rows[0], "a row of data"))
    first = [seen.rows[0][at] for at in plan.values or range(seen.width)]
    if not plan.values and (plan.layout != "edges" or first != [*range(len(first))] or len(first) < 4):
        return
    if not all(map(is_plain_number, first)) or len(set(first)) < len(first):
        return
    numbers = range(len(first))
    if plan.key is None:
        others = [[row[at] for at in plan.values] for row in seen.rows[1:] if len(row) == seen.width]
        are_floats = all(isinstance(cell, float) for row in others for cell in row)
        repeat = [len({*row}) < len(row) for row in others]
        are_zeros = 0 not in first and all(0 in row or twice for row, twice in zip(others, repeat, strict=True))
        is_apart = len(others) > 1 and (are_zeros or (len(first) > 4 and all(repeat)))
        is_doubtful = (are_floats or (len(first) > 2 and is_apart)) and all(isinstance(cell, int) for cell in first)
        is_doubtful = is_doubtful or (len(first) > 2 and is_counted(first))
    else:
        corner = plain_name(str(seen.rows[0][plan.key]))
        is_usual = corner in NAMES_OF_ROWS | INDEXES | {"index"} or is_known_name(corner)
        is_doubtful = is_usual or 0 not in first or first == [*numbers]
    if is_doubtful:
        raise InputError(_doubtful_names(head, layout, seen.rows[0], "a row of the matrix"))


def _refuse_lone_line(seen: Evidence, plan: Plan) -> None:
    """Raise InputError for one line, or one column, of numbers without names: a matrix, a group, or a name and more."""
    if plan.layout != "matrix" or plan.is_asked or seen.names or seen.key is not None or not seen.complete:
        return
    is_line = all(row == seen.rows[0] for row in seen.rows) and len(set(seen.rows[0])) == seen.width > 2
    if is_line or len(seen.rows) == 1 or seen.width == 1:
        what = "column" if seen.width == 1 else "line" if len(seen.rows) == 1 else "line again and again"
        raise InputError(
            f"{seen.source} is one {what}, of {max(seen.width, len(seen.rows)):,} numbers; set layout='matrix' "
            "(--layout matrix) if these are entries, layout='groups' (--layout groups) for members of a group"
        )


def _doubtful_names(head: Head, layout: TextLayout, first: Sequence[Cell], other: str) -> str:
    shown = ", ".join(map(str, first[:6]))
    return (
        f"{head.name}, line {layout.skip_lines + 1}: {shown}: names of columns, or {other}; --header (header=True) if "
        "it contains names, else --no-header (header=False)"
    )


def _are_codes_above_numbers(rows: Sequence[Sequence[Cell]]) -> bool:
    """Return whether only the first of the rows has codes such as 007, and others numbers of other lengths."""
    if len(rows) < 3:
        return False
    for first, *others in zip(*(row for row in rows if len(row) == len(rows[0])), strict=True):
        is_code = isinstance(first, str) and first.isdigit() and all(map(is_plain_number, others))
        if is_code and any(isinstance(cell, float) or len(str(cell)) != len(str(first)) for cell in others):
            return True
    return False


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
        if b"" in names:
            raise InputError(
                f"{head.name}, line {layout.skip_lines}: column {plan.values[names.index(b'')] + 1} has no name; if "
                "this line is a title, remove it"
            )
        if any("\ufffd" in name for name in layout.names):
            raise InputError(
                f"{head.name}, line {layout.skip_lines}: names are not UTF-8; give its encoding (--encoding)"
            )
        labels[1] = "text" if names and is_text(names) else "integer"
        if names and labels[1] == "integer" and list(map(int, names)) != list(range(1, len(names) + 1)):
            labels[1] = "text"
        if len(set(names)) < len(names):
            again = next(name for name in names if names.count(name) > 1).decode(errors="replace")
            raise InputError(
                f"{head.name}: several columns of the matrix are called {again!r}; make their names distinct"
            )
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
        ambiguous=None,
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
    present = marks_of(data)
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
    found = whole or regular or present
    return max(found, key=lambda mark: len(rows[mark][0])) if len(data) == 1 else found[0]


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
        line, has_names, numbers = with_rows, True, False
    like = options.like
    if like is not None and like.names:
        names = tuple(part.decode(errors="replace") for part in line)
        has_names = sorted(names) == sorted(like.names) or is_header(line, second)
        if not has_names and len(first) == len(like.names):
            return replace(layout, names=like.names), first
    guessed = False
    if has_names is None:
        by_two = is_header(line, second) or is_numbered(line, second) or names_rows(line, second)
        has_names = by_two or is_above_numbers(line, rows)
        again = occurs_again(line, rows)
        if has_names and are_ends(line, rows):
            has_names = by_two = False
        elif has_names and again and not are_names([part.decode(errors="replace") for part in line]):
            raise InputError(_doubtful_names(head, layout, [part.decode(errors="replace") for part in line], "an edge"))
        if not has_names and layout.format in ("csv", "tsv"):
            is_doubtful = len(line) == 2 and line[1].isdigit()
            if is_doubtful and plain_name(line[0].decode(errors="replace")) in NAMES_OF_ROWS | {"id"}:
                raise InputError(_doubtful_names(head, layout, [part.decode() for part in line], "an edge"))
            if is_above_one_row(line, rows):
                raise InputError(_doubtful_names(head, layout, [part.decode() for part in line], "an edge"))
            guessed = has_names = is_apart(line, [fields_of(layout, other) for other in data[1:]])
    if has_names and not numbers and like is not None and not like.names:
        raise InputError(f"{head.name} has a line of names, but the first file has none; convert them one by one")
    names = () if has_names and not guessed else _named_by_comment(head, layout, first)
    if names and plain_name(names[0]) in OTUS:
        has_names = False
    if not has_names:
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
    is_title = len(line) > 1 and bool(line[0]) and not any(line[1:])
    if is_title and len(line) == len(second) and any(any(row[1:]) for row in rows):
        raise InputError(
            f"{head.name}, line {layout.skip_lines + 1}: {shown}: one name for {len(second)} columns; if this line is "
            "a title, remove it"
        )
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
    header = hold_line(layout.skip_lines, data[0][1] if data else b"", line, len(data) - 1, len(rest))
    if header is None:
        return layout, first
    return replace(layout, ambiguous=header, skip_lines=layout.skip_lines + header.skipped), rest


def _named_by_comment(head: Head, layout: TextLayout, first: list[bytes]) -> tuple[str, ...]:
    """Return the column names in the last comment before the data, or none unless it names all columns."""
    before = [line for line in head.lines_before(layout.skip_lines) if line.startswith(layout.comments)]
    if not before:
        return ()
    fields = fields_of(layout, before[-1].lstrip(b"#% "))
    names = tuple(part.decode(errors="replace") for part in fields)
    if len(names) != len(first):
        return ()
    is_table = plain_name(names[0]) in OTUS or (layout.format in ("csv", "tsv") and len(names) > 2)
    return names if is_table or (are_names(names) and pick_ends(names) is not None) else ()


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
    is_decimal = layout.point == "," and DECIMAL_COMMA.fullmatch(part) is not None
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
    if unsure and not layout.names and layout.ambiguous is None and "text" in layout.labels:
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
