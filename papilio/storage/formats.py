"""The kinds of input, and the layout of text files, which is detected from their beginning.

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
| ``parquet`` | columns chosen as in :mod:`papilio.storage.column_choice` |
| ``graphml`` and others | files of graphs, see :mod:`papilio.storage.graph_files` |

A first line of numbers may be sizes or an edge; the whole file decides, by arithmetic. A line ``n m`` is a header if m
lines follow it and no id exceeds n. It is held back while the file is read, and becomes an edge if the arithmetic
fails.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc

from papilio.errors import CapacityError, InputError
from papilio.graph import MAX_VERTICES
from papilio.storage.column_choice import (
    USUAL,
    ColumnRef,
    Columns,
    Decimal,
    SignRule,
    WantedColumns,
    choose_columns,
    find_column,
    show_column,
)
from papilio.storage.evidence import MISSING, Cell, Layout, Missing, note_unused
from papilio.storage.layout import Plan
from papilio.storage.quotes import iter_records, split_record
from papilio.storage.where import Condition

FormatName = Literal[
    "konect", "snap", "sizes", "movielens", "mtx", "dimacs", "csv", "tsv", "edges", "npy", "parquet",
    "graphml", "gexf", "gml", "pajek", "dl", "lgl", "ncol", "adjlist", "multiline-adjlist", "networkx-edges", "graph6",
    "sparse6", "hif", "sif", "metis",
]  # fmt: skip
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
"""Every format that ``convert`` reads, by name."""

LabelType = Literal["integer", "text"]

BLANKS = b" \t"
"""Characters stripped from both ends of a field; other white space, such as a no-break space, is text."""

_INTEGER = re.compile(rb"-?[0-9]{1,19}\Z")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_LEADING_ZERO = re.compile(rb"-?0[0-9]")
_WHOLE = re.compile(rb"(-?[0-9]+)\.0*\Z")
NOT_A_NUMBER = ("nan", "NaN", "NAN")
"""Common spellings of a missing number; not a label unless labels are declared as text."""


def is_integer(field_text: bytes) -> bool:
    return bool(_INTEGER.match(field_text)) and -(2**63) <= int(field_text) < 2**63


def is_number(field_text: bytes) -> bool:
    """Return whether a field is a number of any kind, including NaN."""
    return bool(_NUMBER.match(field_text)) or field_text.decode(errors="replace") in NOT_A_NUMBER


def has_leading_zero(field_text: bytes) -> bool:
    """Return whether a number is a code such as 0042, whose zeros belong to the label."""
    return bool(_LEADING_ZERO.match(field_text))


def whole_part(field_text: bytes) -> bytes | None:
    """Return the integer value of a decimal such as 7.0, as text, or None if it is not whole."""
    found = _WHOLE.match(field_text)
    return None if found is None else found[1]


def time_type(field_text: bytes) -> Literal["integer", "number", "text"]:
    """Return how to compare a time: as an integer, as a number, or as text (ISO dates)."""
    if is_integer(field_text):
        return "integer"
    return "number" if _NUMBER.match(field_text) else "text"


MAX_MALFORMED = 0.05
"""Share of lines that may be malformed, unless the user allows more: above it, a file is of another kind."""


@dataclass(frozen=True)
class ReadOptions:
    """The user's options for reading an input."""

    format: FormatName | None = None  # None to detect it
    bipartite: bool = True  # whether the two columns are two layers, or vertices of one
    sign: SignRule | None = None
    columns: WantedColumns = field(default_factory=WantedColumns)
    labels: LabelType | None = None  # None to infer from the first line of data
    header: bool | None = None  # whether the first line holds names or sizes; None to infer from the content
    skip_malformed: bool = False  # count malformed lines instead of ending the conversion
    encoding: str | None = None  # encoding of text; None for UTF-8, or UTF-16 with a byte order mark
    quotes: bool | None = (
        None  # whether fields may be quoted; None for csv, and tsv with a quoted first line or doubled quotes
    )
    layout: Layout | None = None  # what a line is; None for the content to decide
    decimal: Decimal | None = None  # decimal point of numbers; None: commas only where they do not separate fields
    missing: Missing | None = None  # what becomes of missing values; None for an error
    where: tuple[Condition, ...] = ()  # conditions that all lines meet
    max_malformed: float = MAX_MALFORMED  # share of the lines that may be skipped as malformed
    like: TextLayout | None = None  # layout of the first of several files, which applies to all

    @property
    def may_hold_sizes(self) -> bool:
        """Whether a first line of numbers may be sizes; in a later file, only if the first file had sizes."""
        return self.like is None or self.like.ambiguous is not None


@dataclass(frozen=True)
class Declared:
    """Sizes declared by a header.

    If they are binding, labels outside the sizes, or another number of lines, are an error; otherwise such labels are
    made dense, and the number of lines is noted.
    """

    n_u: int
    n_v: int
    n_lines: int | None  # lines of data, if the format declares them
    bases: tuple[int, ...]  # possible labels of the first vertex, 0 or 1, the usual one first
    binding: bool


@dataclass(frozen=True)
class AmbiguousHeader:
    """A first line of numbers that may be sizes instead of an edge; the whole file decides.

    If skipped, it is left out of the lines of data until the decision; otherwise it is an edge, and only a note is
    pending.
    """

    number: int  # line number, 0-based
    text: bytes
    numbers: tuple[int, ...]  # its one to three fields
    is_edge: bool  # whether it may be an edge: it has as many fields as the lines of data
    skipped: bool = True


_SIZE = re.compile(rb"(0|[1-9][0-9]{0,17})\Z")
_LEAST_LINES = 2
"""A line ``2 1`` before a single edge is as likely an edge."""


def hold_line(number: int, text: bytes, fields: list[bytes], n_rows: int, width: int) -> AmbiguousHeader | None:
    """Return the first line of data if it may hold sizes, or None if it is certainly an edge or certainly not one.

    ``n_rows`` lines of data after it were sampled; a typical one has ``width`` fields.
    """
    if not 1 <= len(fields) <= 3 or not all(map(_SIZE.match, fields)):
        return None
    numbers = tuple(map(int, fields))
    is_edge = len(fields) == width
    if not n_rows or width < 2 or (is_edge and max(numbers) < n_rows):
        return None
    return AmbiguousHeader(number, text, numbers, is_edge, skipped=not is_edge or len(fields) == 2)


@dataclass
class SeenIds:
    """The number of lines of data and the range of ids in their columns, seen so far."""

    rows: int = 0
    low: int = 2**63
    high_u: int = -1
    high_v: int = -1

    def add(self, batch: pa.RecordBatch) -> None:
        """Record the edges of a batch with integer labels."""
        if not batch.num_rows:
            return
        u, v = (pc.min_max(batch.column(name)) for name in ("u", "v"))
        self.rows += batch.num_rows
        self.low = min(self.low, u["min"].as_py(), v["min"].as_py())
        self.high_u = max(self.high_u, u["max"].as_py())
        self.high_v = max(self.high_v, v["max"].as_py())

    def fits(self, size: int) -> bool:
        """Return whether ``size`` vertices cover all ids, counted from 0 or from 1."""
        return self.low >= 0 and size >= max(self.high_u, self.high_v) + (self.low == 0)


@dataclass(frozen=True)
class Verdict:
    """The meaning of a first line of numbers; ``n_vertices`` is the declared size, for one set of vertices."""

    kind: Literal["header", "edge", "malformed"]
    note: str | None = None
    n_vertices: int | None = None


def judge(line: AmbiguousHeader, seen: SeenIds, n_lines: int) -> Verdict:
    """Decide between header and edge by the ids in all lines of data (without the line itself if it was skipped).

    ``n_lines`` counts the lines of data after it, malformed ones included.
    """
    shown = line.text.decode(errors="replace").strip()
    numbers = line.numbers
    where = f"line {line.number + 1}"
    if len(numbers) == 1 or not line.is_edge:
        size = numbers[0] if len(numbers) == 1 and seen.rows and seen.fits(numbers[0]) else None
        # Of three numbers, the lines are the first (KONECT) or the last, and the others cover the ids.
        is_sized = n_lines in (numbers[0], numbers[-1]) and seen.rows > 0 and seen.low >= 0
        orders = {numbers[1:], numbers[:2]} if is_sized else set()
        are_sizes = len(numbers) < 3 or any(a >= seen.high_u and b >= seen.high_v for a, b in orders)
        if (n_lines not in numbers and size is None) or not are_sizes:
            return Verdict("malformed")
        if len(numbers) == 2:
            size = numbers[0] if numbers[1] == n_lines else numbers[1]
            if not seen.fits(size):
                return Verdict("malformed")
        meaning = f"{n_lines:,} lines follow" if n_lines in numbers else "the number of vertices"
        return Verdict("header", f"{where} is a header: {shown} ({meaning})", size)
    if len(numbers) == 2:
        n, m = numbers
        if m == n_lines >= _LEAST_LINES and seen.fits(n):
            note = f"{where} is a header: {shown} ({n:,} vertices, {m:,} lines follow); --no-header if it is an edge"
            return Verdict("header", note, n)
    doubtful = _like_two_sizes(numbers, seen, n_lines) if len(numbers) == 2 else _like_three(numbers, seen, n_lines)
    return Verdict("edge", f"{where} read as an edge: {shown}; use --header if it contains sizes" if doubtful else None)


def _like_two_sizes(numbers: tuple[int, ...], seen: SeenIds, n_lines: int) -> bool:
    """Return whether two numbers may be sizes although the counts of vertices and lines disagree."""
    a, b = numbers
    from_zero = seen.low == 0
    if a == seen.high_u + from_zero and b == seen.high_v + from_zero:
        return True
    return any(
        (m == n_lines and n > 1 and m <= n * n) or (seen.fits(n) and n_lines <= 2 * m) for n, m in ((a, b), (b, a))
    )


def _like_three(numbers: tuple[int, ...], seen: SeenIds, n_lines: int) -> bool:
    """Return whether three numbers, read as an edge, may be ``n_u n_v m``, or ``n m`` and a third number."""
    a, b, c = numbers
    if b == n_lines and a >= max(seen.high_u, 2):
        return True
    fits = a >= seen.high_u and b >= seen.high_v and n_lines <= 2 * c
    return min(a, b) > 1 and c <= a * b and (fits or c == n_lines)


EDGES = Plan("edges")
"""A line is an edge."""


@dataclass(frozen=True)
class TextLayout:
    """The layout of the lines of a text file."""

    format: FormatName
    delimiter: bytes = b""  # delimiter of fields; empty for any run of blanks and tabs
    comments: tuple[bytes, ...] = ()  # prefixes of comment lines, skipped before the first line of data
    n_comments: int = 0  # comment lines skipped
    quotes: bool = False  # whether fields may be quoted, see papilio.storage.quotes
    point: Decimal = "."  # the decimal point of numbers
    skip_lines: int = 0  # lines before the first line of data
    n_columns: int = 2  # fields of every line of data
    columns: Columns = USUAL
    labels: tuple[LabelType, LabelType] = ("integer", "integer")  # label types of u and v
    # whether integers of u and v are written as decimals, such as 7.0.
    decimal: tuple[bool, bool] = (False, False)
    tag: bytes = b""  # constant content of the first column; empty if it is an ordinary column
    time: Literal["integer", "number", "text"] = "integer"  # how times are compared
    declared: Declared | None = None
    # Whether an entry (i, j) stands for (j, i) too, with the same or the opposite value.
    mirror: Literal["none", "symmetric", "skew"] = "none"
    names: tuple[str, ...] = ()  # names of the columns, if a line of names was found
    # Whether the line of names was told from an edge only by its words, which occur nowhere else.
    guessed: bool = False
    ambiguous: AmbiguousHeader | None = None  # the first line, if only the whole file tells what it is
    plan: Plan = EDGES  # what a line is
    conditions: tuple[tuple[int, Condition], ...] = ()  # each with its column, 0-based
    notes: tuple[str, ...] = ()  # remarks on the reading for the user

    def split(self, line: bytes) -> list[bytes]:
        """Return the fields of a line without its line end; quotes are kept."""
        if not self.delimiter:
            return [part for part in line.replace(b"\t", b" ").split(b" ") if part]
        return [part.strip(BLANKS) for part in line.split(self.delimiter)]


def check_declared(name: str, declared: Declared) -> Declared:
    """Return ``declared`` if its sizes are possible; raise CapacityError for a layer of more than 2^31 - 1 vertices."""
    if max(declared.n_u, declared.n_v) > MAX_VERTICES:
        raise CapacityError(
            f"{name} declares {declared.n_u} and {declared.n_v} vertices; "
            f"a layer has at most {MAX_VERTICES} (ids are int32)"
        )
    return declared


def with_columns(name: str, layout: TextLayout, first: list[bytes], options: ReadOptions) -> TextLayout:
    """Complete a layout from the first line of data and the options.

    Raises InputError if there are fewer columns than needed.
    """
    count = len(first)
    if count < 2:
        shown = b" ".join(first).decode(errors="replace")[:80]
        raise InputError(
            f"{name}, line {layout.skip_lines + 1}: {shown!r} has {count} column as {layout.format}; "
            "an edge needs two: use another format"
        )
    layout = replace(layout, conditions=find_conditions(name, layout.names, count, options.where))
    like = options.like
    wanted = options.columns if like is None else _same_columns(like)
    columns = choose_columns(name, layout.names, count, wanted, usual=layout.columns)
    if like is not None:
        time = columns.time if like.columns.time is not None else None
        columns, kinds = replace(columns, time=time), (like.labels, like.decimal)
        return replace(layout, n_columns=count, columns=columns, labels=kinds[0], decimal=kinds[1], time=like.time)
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


def find_conditions(
    name: str, names: Sequence[str], count: int, where: Sequence[Condition]
) -> tuple[tuple[int, Condition], ...]:
    """Return each condition with its 0-based column; raise InputError for one that does not exist."""
    return tuple((find_column(name, names, count, each.column, "where"), each) for each in where)


def _same_columns(like: TextLayout) -> WantedColumns:
    """Return the columns of a layout, by name if they have one."""

    def ref(at: int | None) -> ColumnRef | None:
        named = at is not None and bool(like.names) and like.names.count(like.names[at]) == 1 and like.names[at]
        return named or (None if at is None else at + 1)

    read = like.columns
    return WantedColumns(ref(read.u), ref(read.v), ref(read.sign), ref(read.time))


_SAMPLE_LINES = 1000
"""Number of data lines examined by detection."""
_MAX_RECORDS = 4000
"""Maximum number of records assembled from the first lines of a quoted file."""


def unify_line_ends(data: bytes) -> bytes:
    """Return text with the line ends of Windows and old Macs replaced by line feeds."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


class Head:
    """The first lines of a file, from the decompressed beginning of its text; ``n_bytes`` is its stored size.

    ``numbers`` are the 0-based numbers of ``lines`` in the file.
    """

    def __init__(self, name: str, data: bytes, complete: bool, n_bytes: int) -> None:
        self._text = unify_line_ends(data.removeprefix(b"\xef\xbb\xbf"))
        lines = self._text.split(b"\n")
        if not complete and len(lines) > 1:
            lines.pop()
        self.name = name
        self.complete = complete
        self.n_bytes = n_bytes
        self.lines = lines
        self.numbers: Sequence[int] = range(len(lines))
        self.sample_lines = _SAMPLE_LINES

    def of_records(self, delimiter: bytes) -> Head:
        """Return the head with CSV records as lines, including line ends within quoted fields."""
        if b'"' not in self._text:
            return self
        head = Head(self.name, self._text, self.complete, self.n_bytes)
        found = islice(iter_records(self._text, delimiter, final=self.complete), _MAX_RECORDS + 1)
        places = [(start, stop) for start, stop, _ in found]
        if len(places) > _MAX_RECORDS:
            head.complete = False
        if not places:
            return self
        numbers, line, before = [], 0, 0
        for start, _ in places:
            line += self._text.count(b"\n", before, start)
            numbers.append(line)
            before = start
        head.lines = [self._text[start:stop] for start, stop in places]
        head.numbers = numbers
        return head

    def data_lines(self, comments: tuple[bytes, ...], start: int = 0) -> list[tuple[int, bytes]]:
        """Return up to 1000 pairs (0-based number, line) from the number ``start`` on, without blank lines.

        Comments are skipped before the first line of data; from there on, all lines are data.
        """
        found: list[tuple[int, bytes]] = []
        for at in range(bisect_left(self.numbers, start), len(self.lines)):
            line = self.lines[at]
            if line.strip(BLANKS) and (found or not line.startswith(comments)):
                found.append((self.numbers[at], line))
                if len(found) == _SAMPLE_LINES:
                    break
        return found

    def lines_before(self, number: int) -> list[bytes]:
        """Return the lines with smaller numbers."""
        return self.lines[: bisect_left(self.numbers, number)]

    def lines_from(self, number: int) -> list[bytes]:
        """Return the line with this number and all lines after it."""
        return self.lines[bisect_left(self.numbers, number) :]

    @property
    def n_lines(self) -> int:
        """The number after the last line; empty text after the last line end is no line."""
        return self.numbers[-1] + self.lines[-1].count(b"\n") + (self.lines[-1] != b"" or not self.complete)


def fields_of(layout: TextLayout, line: bytes) -> list[bytes]:
    """Return the fields of a line or record without surrounding blanks, unquoted if the quotes are valid."""
    fields = split_record(line, layout.delimiter) if layout.quotes else None
    return layout.split(line) if fields is None else [part.strip(BLANKS) for part in fields]


_COMMA_NUMBER = re.compile(rb"[+-]?\d+,\d+\Z")


def cell_of(text: bytes, decimal: Decimal = ".") -> Cell:
    """Return a field as a number, a word, or None for a missing value; a code such as 007 is a word.

    With a decimal comma, numbers with a point are numbers, too.
    """
    if decimal == "," and _COMMA_NUMBER.match(text):
        text = text.replace(b",", b".")
    shown = text.decode(errors="replace")
    if not shown or shown in MISSING:
        return None
    if has_leading_zero(text):
        return shown
    if is_integer(text):
        return int(text)
    return float(text) if _NUMBER.match(text) else shown


def modal_row(rows: Sequence[list[bytes]]) -> list[bytes]:
    """Return the first row with the most common number of fields, or ``[]``: malformed lines decide nothing."""
    counts = Counter(map(len, rows))
    usual = max(counts, key=lambda count: (count > 1, counts[count]), default=0)
    return next((row for row in rows if len(row) == usual), [])


def first_data(head: Head, layout: TextLayout, start: int = 0) -> tuple[TextLayout, list[bytes]]:
    """Return the layout that skips to the first line of data, and the fields of a typical line, or ``[]``."""
    data = head.data_lines(layout.comments, start)
    end = data[0][0] if data else head.n_lines
    before = head.lines_before(end)[len(head.lines_before(start)) :]
    comments = sum(line.startswith(layout.comments) for line in before if line.strip(BLANKS))
    layout = replace(layout, skip_lines=end, n_comments=layout.n_comments + comments)
    return layout, modal_row([fields_of(layout, line) for _, line in data])


@dataclass
class LineCounts:
    """The lines of text inputs, counted by kind."""

    physical: int = 0  # line ends, plus a last line without one
    records: int = 0  # lines of data read, without counting quoted line ends
    continuation: int = 0  # continuation lines of quoted fields with line ends
    blank: int = 0
    comments: int = 0
    header: int = 0  # lines of names, of sizes, or of a format's preamble
    malformed: int = 0  # skipped lines of data
    missing: int = 0  # lines left out because an end is missing
    zeros: int = 0  # entries of a matrix that are 0
    filtered: int = 0  # lines that do not meet the conditions

    def add(self, more: LineCounts) -> None:
        """Add the lines of another part."""
        for name, number in asdict(more).items():
            setattr(self, name, getattr(self, name) + number)

    def describe(self) -> dict[str, int]:
        """Return the counts, without the kinds of lines that most inputs have none of."""
        kinds = asdict(self)
        return {kind: n for kind, n in kinds.items() if n or kind not in ("missing", "zeros", "filtered")}

    def check(self, name: str) -> None:
        """Raise InputError unless every line is of one kind; ``name`` is the input, for the message."""
        kinds = asdict(self)
        physical = kinds.pop("physical")
        if physical != sum(kinds.values()):
            shown = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
            raise InputError(
                f"{name} has {physical} lines, and {sum(kinds.values())} of them are accounted for ({shown}): this is "
                "a defect of Papilio, please report it"
            )


@dataclass
class SourceInfo:
    """Facts about an input; the counters grow as batches are read."""

    format: FormatName
    labels: tuple[LabelType, LabelType] = ("integer", "integer")  # types of the two columns of endpoints
    signed: bool = False
    time: pa.DataType | None = None  # type of the time column, if edges are ordered by time
    declared: Declared | None = None  # sizes from a header
    layout: dict[str, Any] = field(default_factory=dict)  # delimiter, columns and so on, for the provenance
    notes: list[str] = field(default_factory=list)  # remarks on the reading for the user
    lines: LineCounts = field(default_factory=LineCounts)  # lines of text read so far
    sign_column: str = ""  # the column of the values that determine signs, in words

    @property
    def left_out(self) -> dict[str, int]:
        """The lines left out that most inputs have none of, by reason."""
        counts = {"missing": self.lines.missing, "zeros": self.lines.zeros, "filtered": self.lines.filtered}
        return {reason: number for reason, number in counts.items() if number}

    @property
    def schema(self) -> pa.Schema:
        """Columns of raw edges: u, v (int64 or string), sign (int8) if signed, and time if present."""
        types = {name: _LABEL_TYPES[kind] for name, kind in zip(("u", "v"), self.labels, strict=True)}
        types |= {"sign": pa.int8()} if self.signed else {}
        return pa.schema(types | ({} if self.time is None else {"time": self.time}))


_LABEL_TYPES = {"integer": pa.int64(), "text": pa.string()}


class EdgeSource(Protocol):
    """An input, read once."""

    info: SourceInfo

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield edges in input order; columns as in the schema of ``info``."""
        ...


def describe_columns(
    info: SourceInfo, names: Sequence[str], count: int, columns: Columns, tagged: bool = False
) -> None:
    """Record the role of each of ``count`` columns for the provenance, and the unused ones.

    Updates the layout and the notes of ``info``. ``names`` is empty if columns have none; ``tagged``: whether the first
    column contains only the kind of the line.
    """
    read = {"u": columns.u, "v": columns.v}
    if info.signed and columns.sign is not None:
        read["sign"] = columns.sign
        info.sign_column = show_column(names, columns.sign)
        if columns.time is not None:
            read["time"] = columns.time
    info.layout["read"] = {role: show_column(names, at) for role, at in read.items()}
    unused = [show_column(names, at) for at in range(int(tagged), count) if at not in read.values()]
    if unused and not info.signed:
        info.notes.append(note_unused(unused))
