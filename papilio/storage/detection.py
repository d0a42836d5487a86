"""Detecting the layout of a text file from its beginning; :mod:`papilio.storage.formats` lists the formats."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from itertools import islice

from papilio.errors import InputError
from papilio.storage.formats import (
    Declared,
    FormatName,
    LabelType,
    ReadOptions,
    TextLayout,
    check_declared,
    is_integer,
    time_type,
    with_columns,
)

__all__ = ["Head", "detect_layout"]

_SAMPLE_LINES = 1000
"""Lines of data that detection looks at."""

_ENDPOINT_NAMES = frozenset(
    {
        "user",
        "user_id",
        "userid",
        "item",
        "item_id",
        "itemid",
        "movie",
        "movie_id",
        "movieid",
        "source",
        "target",
    }
    | {"src", "dst", "from", "to", "fromnodeid", "tonodeid", "left", "right", "row", "col", "column"}
    | {"node", "node1", "node2", "id", "id1", "id2"}
)
_TIME_NAMES = frozenset({"time", "timestamp", "date", "datetime"})


class Head:
    """The first lines of a file.

    Parameters
    ----------
    name : str
        Of the file.
    data : bytes
        Its beginning, decompressed.
    complete : bool
        Whether ``data`` is the whole file.
    n_bytes : int
        Size of the file as stored, in bytes.
    """

    def __init__(self, name: str, data: bytes, complete: bool, n_bytes: int) -> None:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        if not complete and len(lines) > 1:
            lines.pop()
        self.name = name
        self.complete = complete
        self.n_bytes = n_bytes
        self.lines = [line.removesuffix(b"\r") for line in lines]

    def data_lines(self, comments: tuple[bytes, ...], start: int = 0) -> list[tuple[int, bytes]]:
        """Return up to 1000 pairs (0-based number, line) from ``start`` on, without blanks and comments."""
        found = (
            (at, line)
            for at, line in enumerate(self.lines)
            if at >= start and line.strip() and not line.startswith(comments)
        )
        return list(islice(found, _SAMPLE_LINES))


def detect_layout(head: Head, options: ReadOptions) -> TextLayout:
    """Return how the file is to be read.

    Raises
    ------
    InputError
        When the file holds no data, contradicts the forced format or the options, or cannot be an edge list.
    """
    first = next((line for line in head.lines if line.strip()), b"")
    if b"\0" in first:
        raise InputError(
            f"{head.name} is not a text file, nor NumPy or Parquet; convert reads edge lists only"
        )
    chosen = options.format or _sniff(head, first)
    if chosen == "mtx":
        return _matrix_market(head, options)
    if chosen == "konect":
        return _konect(head, options)
    if chosen == "sizes":
        return _sizes(head, options)
    if chosen == "movielens":
        return _movielens(head, options)
    return _plain(head, chosen, options)


def _sniff(head: Head, first: bytes) -> FormatName:
    if first.lower().startswith(b"%%matrixmarket"):
        return "mtx"
    if first.startswith(b"%"):
        return "konect"
    data = [line for _, line in head.data_lines((b"#",))]
    if not data:
        return "snap" if first.startswith(b"#") else "edges"
    if b"::" in data[0] or head.name.startswith("u.data") or "_u.data" in head.name:
        return "movielens"
    if any(mark in data[0] for mark in (b",", b";", b"|")):
        return "csv"
    if first.startswith(b"#"):
        return "snap"
    if _has_sizes(head, data):
        return "sizes"
    tabs = {line.count(b"\t") for line in data}
    return "tsv" if len(tabs) == 1 and tabs != {0} else "edges"


def _has_sizes(head: Head, data: list[bytes]) -> bool:
    """Tell whether the first line of data holds n_u, n_v and the number of lines after it."""
    header = data[0].split()
    if len(header) != 3 or not all(map(bytes.isdigit, header)):
        return False
    n_u, n_v, n_lines = map(int, header)
    rest = [row for row in (line.split() for line in data[1:]) if len(row) > 1 and is_integer(row[0])]
    if not rest:
        return n_lines == 0 and head.complete
    if any(int(row[0]) > n_u or (is_integer(row[1]) and int(row[1]) > n_v) for row in rest):
        return False
    if len(rest[0]) != 3:
        return True
    if head.complete and len(data) < _SAMPLE_LINES:
        return n_lines == len(data) - 1
    return head.n_bytes / 200 < n_lines < head.n_bytes * 20


def _first_data(head: Head, layout: TextLayout, start: int = 0) -> tuple[TextLayout, list[bytes]]:
    """Return the layout that skips to the first line of data, and the fields of a typical line, or ``[]``.

    Typical is the first line that has as many fields as most: a malformed line does not decide the layout.
    """
    data = head.data_lines(layout.comments, start)
    if not data:
        return replace(layout, skip_lines=len(head.lines)), []
    rows = [_fields(layout, line) for _, line in data]
    counts = Counter(map(len, rows))
    usual = max(counts, key=lambda count: (count > 1, counts[count]))
    return replace(layout, skip_lines=data[0][0]), next(row for row in rows if len(row) == usual)


def _complete(head: Head, layout: TextLayout, first: list[bytes], options: ReadOptions) -> TextLayout:
    if first:
        return with_columns(head.name, layout, first, options)
    if layout.declared is None:
        raise InputError(f"{head.name} holds no line of data; it needs an edge, or a header with sizes")
    return layout


def _konect(head: Head, options: ReadOptions) -> TextLayout:
    headers = [line[1:].split() for line in head.lines if line.startswith(b"%")]
    words = headers[0] if headers else []
    kind = words[0].decode(errors="replace") if words else ""
    if kind == "bip" and not options.bipartite:
        raise InputError(
            f"{head.name} says that it is bipartite (% bip): read as unipartite, the vertices of its two layers "
            "would be mixed up; convert it as bipartite"
        )
    notes = []
    if kind in ("sym", "asym") and options.bipartite:
        notes.append(
            f"the header says unipartite (% {kind}); read as bipartite: column 1 is U, column 2 is V"
        )
    declared = None
    sizes = headers[1] if len(headers) > 1 and all(map(bytes.isdigit, headers[1])) else []
    if len(sizes) in (2, 3) and kind in ("bip", "sym", "asym"):
        n_u, n_v = int(sizes[1]), int(sizes[-1])
        if not options.bipartite:
            n_u = n_v = max(n_u, n_v)
        declared = check_declared(head.name, Declared(n_u, n_v, None, (1, 0), binding=False))
    layout = TextLayout("konect", comments=(b"%",), time_column=3, declared=declared, notes=tuple(notes))
    return _complete(head, *_first_data(head, layout), options)


def _sizes(head: Head, options: ReadOptions) -> TextLayout:
    comments = (b"#", b"%")
    data = head.data_lines(comments)
    header = data[0][1].split() if data else []
    if len(header) != 3 or not all(map(bytes.isdigit, header)):
        raise InputError(f"{head.name}: the first line of data is not 'n_u n_v m', as in the format sizes")
    n_u, n_v, n_lines = map(int, header)
    if not options.bipartite and n_u != n_v:
        raise InputError(
            f"{head.name} declares {n_u} and {n_v} vertices: two layers, which a unipartite graph has not; "
            "convert it as bipartite"
        )
    declared = check_declared(head.name, Declared(n_u, n_v, n_lines, (0, 1), binding=True))
    layout = TextLayout("sizes", comments=comments, declared=declared)
    layout, first = _first_data(head, layout, data[0][0] + 1)
    return _complete(head, layout, first, options)


def _movielens(head: Head, options: ReadOptions) -> TextLayout:
    data = head.data_lines(())
    mark = b"::" if data and b"::" in data[0][1] else b"\t"
    return _complete(head, *_first_data(head, TextLayout("movielens", mark, time_column=3)), options)


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
        raise InputError(
            f"{head.name} is skew-symmetric: signs follow from values above 0, not from a threshold"
        )
    if options.labels == "text":
        raise InputError(
            f"{head.name} is a matrix, whose labels are row and column numbers: leave out labels text"
        )
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
        n_columns=columns[values],
        declared=check_declared(head.name, Declared(rows, cols, entries, (1,), binding=True)),
        mirror="none"
        if symmetry == "general" or not options.bipartite
        else "skew"
        if symmetry == "skew-symmetric"
        else "symmetric",
    )
    layout, first = _first_data(head, layout, data[0][0] + 1)
    expected = layout.n_columns
    layout = _complete(head, layout, first, options)
    return replace(layout, n_columns=expected)


def _plain(head: Head, chosen: FormatName, options: ReadOptions) -> TextLayout:
    """Layouts of csv, tsv, edges and snap: labels of any type, perhaps a line of names."""
    comments = (b"#", b"%") if chosen in ("edges", "snap") else (b"#",)
    data = head.data_lines(comments)
    delimiter = b"\t" if chosen == "tsv" else b""
    if chosen == "csv":
        delimiter = next((mark for mark in (b",", b";", b"|") if data and mark in data[0][1]), b",")
    layout = TextLayout(chosen, delimiter, comments)
    layout, first = _first_data(head, layout)
    if not first:
        return _complete(head, layout, first, options)
    after = replace(
        layout, names=tuple(name.decode(errors="replace") for name in _fields(layout, data[0][1]))
    )
    after, second = _first_data(head, after, data[0][0] + 1)
    has_names = options.header
    if has_names is None:
        has_names = _is_header(_fields(layout, data[0][1]), second)
    if has_names:
        layout, first, names = after, second, after.names
        times = [at for at, name in enumerate(names) if at > 1 and name.lower() in _TIME_NAMES]
        layout = replace(layout, time_column=times[0] if times else None)
        if not first:
            raise InputError(f"{head.name} holds names ({', '.join(names)}) and no line of data")
    if chosen in ("csv", "tsv"):
        layout = replace(layout, comments=())
    labels: list[LabelType] = ["integer" if _is_plain_integer(part) else "text" for part in first[:2]]
    if len(labels) == 2:
        both = not options.bipartite and "text" in labels
        layout = replace(layout, labels=("text", "text") if both else (labels[0], labels[1]))
    return _complete(head, layout, first, options)


def _fields(layout: TextLayout, line: bytes) -> list[bytes]:
    """Return the fields of a line, without the quotes of csv; what csv refuses the parser names."""
    if layout.format != "csv":
        return layout.split(line)
    text = line.decode("utf-8", errors="surrogateescape")
    try:
        row = next(csv.reader([text], delimiter=layout.delimiter.decode()))
    except csv.Error:
        return layout.split(line)
    return [part.strip().encode("utf-8", errors="surrogateescape") for part in row]


def _is_plain_integer(part: bytes) -> bool:
    """Tell an integer from a code such as 0042, whose zeros belong to the label."""
    digits = part.removeprefix(b"-")
    return is_integer(part) and (len(digits) == 1 or not digits.startswith(b"0"))


def _is_header(first: list[bytes], second: list[bytes]) -> bool:
    """Tell whether the first of two rows holds names; ``second`` is empty where there is none.

    It does when every column that is numeric in the second row (at least one) is not in the first, or when
    its first two fields are usual names of endpoints.
    """
    endpoints = [part.decode(errors="replace").lower() for part in first[:2]]
    if endpoints == ["u", "v"] or (len(endpoints) == 2 and _ENDPOINT_NAMES.issuperset(endpoints)):
        return True
    if len(first) != len(second):
        return False
    numeric = [at for at, part in enumerate(second) if time_type(part) != "text"]
    return bool(numeric) and all(time_type(first[at]) == "text" for at in numeric)
