"""Detecting the layout of a text file from its beginning; :mod:`papilio.storage.formats` lists the formats.

Layouts of csv, tsv, edges and snap files: labels of any type, optionally a line of names, optionally one of sizes.
Input that is not an edge list is rejected with advice.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from papilio.errors import InputError
from papilio.storage.column_choice import OTUS, USUAL, Columns, plain_name
from papilio.storage.formats import (
    BLANKS,
    Declared,
    FormatName,
    Head,
    ReadOptions,
    TextLayout,
    check_declared,
    first_data,
    has_leading_zero,
    is_integer,
    with_columns,
)
from papilio.storage.r_tables import is_quoted_table, is_tabbed_table
from papilio.storage.text_table import MARKS, declared_mark, hold_first_line, marks_of, read_table

_STARTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"<"), "XML or HTML (GraphML, GEXF)"),
    (re.compile(rb"(?i)\*(vertices|network|arcs|edges)"), "a Pajek file"),
    (re.compile(rb"(?i)(strict\s+)?(di)?graph(\s+\w+)?\s*[\[{]|Creator\s+\""), "GML or DOT"),
)


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


_MARKDOWN = re.compile(rb"\|?[ \t]*:?-{3,}:?[ \t]*(\|[ \t]*:?-{3,}:?[ \t]*)+\|?[ \t]*\Z")
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
        if any(map(_MARKDOWN.match, head.lines[:3])):
            raise InputError(f"{head.name} is a table in Markdown; write it as CSV, without the line of dashes")
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
    if declared := declared_mark(head):
        return "tsv" if declared == b"\t" else "csv"
    data = [line for _, line in head.data_lines((b"%",) if percent else (b"#",))]
    is_edges = options.layout in (None, "edges") and not (data and _is_named_table(head, data))
    if is_edges and options.header is not False and not (percent and _konect_kind(head)) and _has_sizes(head, data):
        return "sizes"
    if percent:
        return "konect"
    if not data:
        return "snap" if first.startswith(b"#") else "edges"
    if b"::" in data[0] or head.name.startswith("u.data") or "_u.data" in head.name:
        return "movielens"
    tabs = _is_regular(data, b"\t") or is_tabbed_table(data) or _has_tabbed_words(data)
    if is_quoted_table(data):
        return "csv"
    if marks_of(data):
        return "tsv" if tabs and not _is_marked(data) else "csv"
    if first.startswith(b"#"):
        return "tsv" if tabs and _is_named_table(head, data) else "snap"
    return "tsv" if tabs or _is_tabbed(data) else "edges"


def _is_named_table(head: Head, data: list[bytes]) -> bool:
    """Return whether the last comment before the data names columns: more than two of a table by tabs, or of OTUs."""
    at = next((at for at, line in enumerate(head.lines) if line == data[0]), 0)
    names = head.lines[at - 1] if at else b""
    n_tabs = data[0].count(b"\t")
    first = re.split(rb"[\t,;|]", names)[0].decode(errors="replace")
    return n_tabs == names.count(b"\t") > 1 or plain_name(first) in OTUS


def _is_tabbed(data: list[bytes]) -> bool:
    """Return whether lines of different lengths are separated by tabs: groups."""
    counts = [line.count(b"\t") for line in data]
    return len(data) > 1 and 2 * sum(map(bool, counts)) >= len(data) and max(counts) > 2 and len(set(counts)) > 1


_WORDS = re.compile(rb"[^\s\d] +[^\s\d]")


def _has_tabbed_words(data: list[bytes]) -> bool:
    """Return whether tabs separate groups: all lines contain them, or most do and fields are words with blanks."""
    n_tabbed = sum(b"\t" in line for line in data)
    if n_tabbed == len(data) and _is_tabbed(data):
        return True
    have_blanks = any(_WORDS.search(part) for line in data for part in line.split(b"\t"))
    return 2 * n_tabbed >= len(data) and have_blanks and len({len(line.split()) for line in data}) > 1


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
    if len(header) != 3 or not all(map(bytes.isdigit, header)) or any(map(has_leading_zero, header)):
        return False
    n_u, n_v, n_lines = map(int, header)
    rest = [row for row in map(layout.split, data[1:]) if len(row) > 1 and is_integer(row[0])]
    if not rest:
        return n_lines == 0 and head.complete
    pairs = [(int(row[0]), int(row[1])) for row in rest if is_integer(row[1])]
    from_zero = any(0 in pair for pair in pairs)
    if 0 in (n_u, n_v) or any(u + from_zero > n_u or v + from_zero > n_v for u, v in pairs):
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
