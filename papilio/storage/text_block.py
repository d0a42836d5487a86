"""Parsing a block of records into a batch of edges: with Arrow, or one by one to name or skip malformed ones.

One-by-one parsing is the definition: it decides which lines are malformed and which values the others contain. Arrow is
for speed. Its batch is used only if it has a row for every line of the block, and no part of the block is known to be
read differently by Arrow (0x1f, 007, 7.0, labels over several lines ...). Integers that it would read too leniently are
read as text and checked before conversion. Otherwise the block is parsed one by one. Labels are never converted through
floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from papilio.storage.column_choice import show_column
from papilio.storage.evidence import MISSING, is_missing_word
from papilio.storage.formats import (
    BLANKS,
    LineCounts,
    ReadOptions,
    TextLayout,
    fields_of,
    has_leading_zero,
    time_type,
)
from papilio.storage.quotes import BROKEN_QUOTES, Block, count_ends, count_inner, iter_records
from papilio.storage.where import has_zero

ANY_DIGITS = r"-?[0-9]+"
"""Pattern of a number in a matrix, or a time: leading zeros are ignored."""
PLAIN = r"-?(0|[1-9][0-9]*)"
"""Pattern of a label."""
WHOLE = r"-?(0|[1-9][0-9]*)(\.0*)?"
"""Pattern of a label in a column written as decimals, such as 7.0."""

_ZERO = ord("0")
"""In ASCII, signs, points, quotes and separators (except ; and |) come before it, digits and letters after."""
_WINDOW_BYTES = 1 << 16
"""Text examined at a time, so that its masks stay in the cache."""


def has_odd_zeros(text: bytes, separator: str) -> bool:
    """Return whether a field may begin with 0 and more characters, as 007, -07 and 0x1f, which Arrow reads as integers.

    True may be a false alarm if fields contain other characters than digits: in a date, for example.
    """
    if separator > "0":
        text = text.replace(separator.encode(), b",")
    data = np.frombuffer(text, np.uint8)
    if text.startswith(b"0") and bool((data[1:2] >= _ZERO).any()):
        return True
    for start in range(0, len(text), _WINDOW_BYTES):
        window = data[start : start + _WINDOW_BYTES + 2]
        mark = window < _ZERO
        odd = np.greater(mark[:-2], mark[2:])
        odd &= window[1:-1] == _ZERO
        if odd.any() and bool((odd & (window[:-2] != ord("."))).any()):
            return True
    return False


def integers_of(texts: pa.Array, pattern: str) -> pa.Array | None:
    """Return texts that match a pattern as int64, or None if one does not match, or does not fit in 64 bits."""
    texts = trimmed(texts)
    if not pc.all(pc.match_substring_regex(texts, f"^({pattern})$")).as_py():
        return None
    if pattern == WHOLE:
        texts = pc.replace_substring_regex(texts, r"\.0*$", "")
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def trimmed(texts: pa.Array) -> pa.Array:
    """Return texts without the blanks and tabs around them; numbers are unchanged."""
    return texts if texts.type != pa.string() else pc.utf8_trim(texts, BLANKS.decode())


_TABS = bytes.maketrans(b"\t", b" ")
_COMMENT = "a comment after the first line of data, where comments end"


_STAND_IN = b"\x1f"
"""Replaces a delimiter of two characters, which Arrow does not support."""


@dataclass(frozen=True)
class Problem:
    """A malformed line of a block, by its 0-based number there."""

    line: int
    text: bytes
    reason: str


@dataclass
class ParsedBlock:
    """The edges of a block and the kinds of its lines; no batch if a malformed line ends the conversion."""

    lines: LineCounts
    batch: pa.RecordBatch | None = None
    problem: Problem | None = None  # the first malformed line
    marked: int = 0  # records that begin like comments
    longest: tuple[int, int] = (0, 0)  # first line and number of lines of the record with most lines
    missing: int = 0  # missing values
    first_missing: int = 0  # line of the first of them
    valued: int = 0  # entries of a matrix other than 0 and 1
    is_unsure: bool = False  # whether a word of the line of names is a label, too
    zero_weight: tuple[int, str] | None = None  # line of the first weight of 0, and its text
    row_names: list[Any] = field(default_factory=list)  # of a matrix, or of groups

    def add_missing(self, line: int) -> None:
        """Count a missing value in a line, by its 0-based number in the block."""
        if not self.missing:
            self.first_missing = line
        self.missing += 1


class Malformed(Exception):
    """The reason why a record is not an edge."""


class _LeftOut(Exception):
    """A record that is left out, and its kind in the counts of lines."""

    def __init__(self, kind: Literal["missing", "zeros", "filtered"]) -> None:
        super().__init__(kind)
        self.kind = kind


_MISSING_WORDS = pa.array(sorted(MISSING))


def records_of(layout: TextLayout, text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield every record of a block, without its line end, with the 0-based number of its first line."""
    if not (layout.quotes and b'"' in text):
        yield from enumerate(text.removesuffix(b"\n").split(b"\n"))
        return
    line = 0
    for start, stop, _ in iter_records(text, layout.delimiter, final=True):
        record = text[start:stop]
        yield line, record
        line += record.count(b"\n") + 1


class LineParser:
    """Turns a block of records into a batch; stateless, so threads share it."""

    def __init__(self, layout: TextLayout, options: ReadOptions, schema: pa.Schema) -> None:
        self._layout = layout
        self._sign = options.sign
        self._skip = options.skip_malformed
        self._missing = options.missing
        self._schema = schema
        columns = layout.columns
        self._u, self._v = f"c{columns.u}", f"c{columns.v}"
        types = {self._u: schema.field("u").type, self._v: schema.field("v").type}
        if columns.sign is not None and self._sign is not None:
            types[f"c{columns.sign}"] = pa.string()
        self._time = None if "time" not in schema.names else columns.time
        if self._time is not None:
            types.setdefault(f"c{self._time}", schema.field("time").type)
        if layout.tag or layout.comments:
            types.setdefault("c0", pa.string())
        for at, _ in layout.conditions:
            types.setdefault(f"c{at}", pa.string())
        # The values of a matrix, whose zeros are no edges.
        self._values = [f"c{at}" for at in range(2, layout.n_columns)] if layout.format == "mtx" else []
        for value in self._values:
            types.setdefault(value, pa.float64())
        # The weights of edges, of which a 0 says that the lines are a matrix.
        self._weight = layout.plan.weight
        if self._weight is not None:
            types.setdefault(f"c{self._weight}", pa.string())
        names = [layout.names[at] for at in (columns.u, columns.v)] if layout.names else []
        self._header = [name.encode() for name in layout.names]
        self._names = names if "text" in layout.labels else []
        delimiter = {b"": b" ", b"::": _STAND_IN}.get(layout.delimiter, layout.delimiter).decode()
        self._delimiter = delimiter
        self._read = arrow_csv.ReadOptions(
            use_threads=False, block_size=1 << 30, column_names=[f"c{i}" for i in range(layout.n_columns)]
        )
        self._parse = arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False)
        self._parse_quoted = arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char='"', double_quote=True, newlines_in_values=True
        )
        self._convert = _convert_options(types)
        self._range = layout.declared if layout.format == "mtx" else None
        ends = zip((self._u, self._v), layout.labels, layout.decimal, strict=True)
        plain = ANY_DIGITS if self._range is not None else PLAIN
        self._patterns = {name: WHOLE if dec else plain for name, kind, dec in ends if kind == "integer"}
        if self._time is not None and types[f"c{self._time}"] == pa.int64():
            self._patterns.setdefault(f"c{self._time}", ANY_DIGITS)
        as_text = {name: pa.string() if name in self._patterns else kind for name, kind in types.items()}
        self._convert_as_text = _convert_options(as_text)

    def parse(self, block: Block) -> ParsedBlock:
        """Parse one block, one by one if necessary."""
        fast = self._parse_fast(block) if self._skip or not block.broken else None
        return self._parse_slowly(block) if fast is None else fast

    def _parse_fast(self, block: Block) -> ParsedBlock | None:
        """Parse a block with Arrow; return None if some line is not, or may not be, a line of data."""
        text = self._normalised(block.text)
        if text is None or not text.strip(BLANKS + b"\n"):
            return None
        quoted = self._layout.quotes and b'"' in text
        as_text = bool(self._patterns) and (any(self._layout.decimal) or has_odd_zeros(text, self._delimiter))
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(text),
                read_options=self._read,
                parse_options=self._parse_quoted if quoted else self._parse,
                convert_options=self._convert_as_text if as_text else self._convert,
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return None
        continuation, empty, longest = 0, 0, (0, 0)
        if quoted or b"\n\n" in text or text.startswith(b"\n"):
            continuation, empty, longest = count_inner(text)
        n_lines = _count_lines(text)
        if table.num_rows != n_lines - continuation - empty:
            return None
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        for name, pattern in self._patterns.items() if as_text else ():
            numbers = integers_of(columns[name], pattern)
            if numbers is None:
                return None
            columns[name] = numbers
        u, v = (trimmed(columns[name]) for name in (self._u, self._v))
        if self._weight is not None and has_zero(columns[f"c{self._weight}"]):
            return None
        marked = self._marked(columns.get("c0"))
        if marked is None or not self._labels_fit(u, v, quoted) or self._has_words(u, v):
            return None
        arrays = [u, v]
        if self._sign is not None:
            signs = self._sign.apply(columns[f"c{self._layout.columns.sign}"])
            if signs is None:
                return None
            arrays.append(pa.array(signs))
        if self._time is not None:
            time = trimmed(columns[f"c{self._time}"])
            if time.type == pa.float64() and not pc.all(pc.is_finite(time)).as_py():
                return None
            arrays.append(time)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        n_zeros = n_filtered = 0
        if self._values or self._layout.conditions:
            masks = self._masks(columns)
            if masks is None:
                return None
            nonzero, wanted = masks
            n_zeros = int(np.count_nonzero(~nonzero))
            n_filtered = int(np.count_nonzero(nonzero & ~wanted))
            if n_zeros or n_filtered:
                batch = batch.filter(pa.array(nonzero & wanted))
        if not block.text.endswith(b"\n") and not self._layout.delimiter:
            n_lines = _count_lines(block.text)  # only blanks, without a line end, are a line too
        n_rows, n_broken = table.num_rows, len(block.broken)
        lines = LineCounts(
            n_lines,
            batch.num_rows,
            continuation,
            n_lines - n_rows - continuation - n_broken,
            malformed=n_broken,
            zeros=n_zeros,
            filtered=n_filtered,
        )
        return ParsedBlock(lines, self._mirrored(batch), None, marked, longest)

    def _has_words(self, u: pa.Array, v: pa.Array) -> bool:
        """Return whether a label may be missing, or from a second line of names: such a block is read slowly."""
        for labels, name in zip((u, v), self._names or ("", ""), strict=True):
            if labels.type != pa.string():
                continue
            if self._missing != "label" and pc.any(pc.is_in(labels, _MISSING_WORDS)).as_py():
                return True
            if name and pc.any(pc.equal(labels, name)).as_py():
                return True
        return False

    def _masks(self, columns: dict[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Return which lines are no zeros of a matrix, and which meet the conditions; None if that is not clear."""
        n_rows = len(columns[self._u])
        nonzero, wanted = np.ones(n_rows, bool), np.ones(n_rows, bool)
        if self._values:
            nonzero[:] = False
            for name in self._values:
                try:
                    numbers = trimmed(columns[name]).cast(pa.float64()).to_numpy(zero_copy_only=False)
                except pa.ArrowInvalid:
                    return None
                if np.isnan(numbers).any():
                    return None
                nonzero |= numbers != 0
        for at, condition in self._layout.conditions:
            found = condition.mask(columns[f"c{at}"])
            if found is None:
                return None
            wanted &= found
        return nonzero, wanted

    def _marked(self, lead: pa.Array | None) -> int | None:
        """Return the number of first fields that begin like comments; None if one is a comment, or lacks the tag."""
        layout = self._layout
        if lead is None or lead.type != pa.string():
            return 0
        if layout.tag:
            return 0 if pc.all(pc.equal(lead, layout.tag.decode())).as_py() else None
        marked = 0
        for mark in map(bytes.decode, layout.comments):
            begins = pc.sum(pc.starts_with(lead, mark)).as_py() or 0
            if begins and pc.any(pc.equal(trimmed(lead), mark)).as_py():
                return None
            marked += begins
        return marked

    def _normalised(self, text: bytes) -> bytes | None:
        """Return the text with delimiters of one character and no blanks at the ends of lines; None if impossible."""
        if self._layout.delimiter == b"::":
            return None if _STAND_IN in text else text.replace(b"::", _STAND_IN)
        if self._layout.delimiter:
            return text
        if b"\t" in text:
            text = text.translate(_TABS)
        while b"  " in text:
            text = text.replace(b"  ", b" ")
        if b" \n" in text:
            text = text.replace(b" \n", b"\n")
        if b"\n " in text:
            text = text.replace(b"\n ", b"\n")
        return text.strip(b" ")

    def _labels_fit(self, u: pa.Array, v: pa.Array, quoted: bool) -> bool:
        """Return whether Arrow's labels are valid: not empty, on one line, within a matrix."""
        if u.null_count or v.null_count:
            return False
        if self._range is not None and len(u):
            for labels, size in ((u, self._range.n_u), (v, self._range.n_v)):
                limits = pc.min_max(labels)
                if limits["min"].as_py() < 1 or limits["max"].as_py() > size:
                    return False
        for labels in (u, v):
            if labels.type != pa.string():
                continue
            if pc.any(pc.equal(pc.binary_length(labels), 0)).as_py():
                return False
            if quoted and pc.any(pc.match_substring(labels, "\n")).as_py():
                return False
        return True

    def _mirrored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._layout.mirror == "none":
            return batch
        off = batch.filter(pc.not_equal(batch.column("u"), batch.column("v")))
        arrays = {name: off.column(name) for name in off.schema.names}
        arrays["u"], arrays["v"] = arrays["v"], arrays["u"]
        if "sign" in arrays and self._layout.mirror == "skew":
            arrays["sign"] = pc.negate(arrays["sign"])
        both = [pa.concat_arrays(pair) for pair in zip(batch.columns, arrays.values(), strict=True)]
        return pa.RecordBatch.from_arrays(both, schema=batch.schema)

    def _parse_slowly(self, block: Block) -> ParsedBlock:
        """Parse a block one by one; unless malformed lines are skipped, stop at the first one."""
        broken = dict(block.broken)
        parsed = ParsedBlock(LineCounts())
        counts = parsed.lines
        rows: list[tuple[Any, ...]] = []
        for line, record in records_of(self._layout, block.text):
            n_lines = record.count(b"\n") + 1
            counts.physical += n_lines
            counts.continuation += n_lines - 1
            if n_lines > parsed.longest[1]:
                parsed.longest = (line, n_lines)
            if line not in broken and not record.strip(BLANKS):
                counts.blank += 1
                continue
            try:
                if line in broken:
                    raise Malformed(BROKEN_QUOTES)
                fields = fields_of(self._layout, record)
                if fields == self._header:
                    counts.header += 1
                    continue
                row = self._edge(fields)
                if self._weight is not None and parsed.zero_weight is None and _ZERO_TEXT.match(fields[self._weight]):
                    parsed.zero_weight = line, fields[self._weight].decode()
                parsed.is_unsure |= bool(self._names) and (row[0] == self._names[0] or row[1] == self._names[1])
            except _LeftOut as reason:
                setattr(counts, reason.kind, getattr(counts, reason.kind) + 1)
                if reason.kind == "missing":
                    parsed.add_missing(line)
                continue
            except Malformed as malformed:
                counts.malformed += 1
                if parsed.problem is None:
                    parsed.problem = Problem(line, broken.get(line, record), str(malformed))
                if not self._skip:
                    return parsed
                continue
            counts.records += 1
            parsed.marked += bool(self._layout.comments) and fields[0].startswith(self._layout.comments)
            rows.append(row)
        columns = list(zip(*rows, strict=True)) or [()] * len(self._schema)
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, self._schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        parsed.batch = self._mirrored(batch)
        return parsed

    def _edge(self, fields: list[bytes]) -> tuple[Any, ...]:
        layout = self._layout
        if layout.comments and fields[0].startswith(layout.comments):
            alone = fields[0] in layout.comments
            if alone or (layout.labels[0] == "integer" and layout.columns.u == 0):
                raise Malformed(_COMMENT)
        if len(fields) != layout.n_columns:
            blanks = not layout.delimiter and "text" in layout.labels and len(fields) > layout.n_columns
            hint = "; if names hold blanks, separate the fields by tabs or commas" if blanks else ""
            raise Malformed(f"{len(fields)} fields; expected {layout.n_columns}{hint}")
        if layout.tag and fields[0] != layout.tag:
            shown = fields[0].decode(errors="replace")
            raise Malformed(f"the line begins with {shown!r}; expected {layout.tag.decode()!r}")
        columns = layout.columns
        self._require_wanted(fields)
        row = [self._label(fields[at], at == columns.v) for at in (columns.u, columns.v)]
        if self._sign is not None and columns.sign is not None:
            text = fields[columns.sign].decode("utf-8", errors="replace")
            problem = self._sign.problem(text)
            if problem:
                raise Malformed(f"{show_column(layout.names, columns.sign)} {problem}")
            row.append(self._sign.sign_of(text))
        if self._time is not None:
            row.append(self._time_of(fields[self._time]))
        return tuple(row)

    def _require_wanted(self, fields: list[bytes]) -> None:
        """Raise _LeftOut for a line without an end, a zero of a matrix, or a line that does not meet the conditions."""
        layout = self._layout
        ends = [fields[at].decode(errors="replace") for at in (layout.columns.u, layout.columns.v)]
        if self._missing != "label" and any(is_missing_word(text) and text for text in ends):
            raise _LeftOut("missing")
        if self._missing == "drop" and not all(ends):
            raise _LeftOut("missing")
        if self._values and all(_is_zero(fields[int(name[1:])]) for name in self._values):
            raise _LeftOut("zeros")
        for at, condition in layout.conditions:
            holds = condition.holds(fields[at].decode(errors="replace"))
            if holds is None:
                shown = f"{show_column(layout.names, at)} is {fields[at].decode(errors='replace')!r}"
                raise Malformed(f"{shown}, not a number (where={condition.text!r})")
            if not holds:
                raise _LeftOut("filtered")

    def _time_of(self, text: bytes) -> Any:
        kind, shown = self._layout.time, text.decode(errors="replace")
        if kind == "text":
            return decoded(text, "the time is not UTF-8")
        if kind == "integer" and re.fullmatch(ANY_DIGITS.encode(), text) and (number := _int64(text)) is not None:
            return number
        if kind == "number" and time_type(text) != "text" and math.isfinite(float(text)):
            return float(text)
        raise Malformed(f"the time {shown!r} is not a number")

    def _label(self, text: bytes, is_v: bool) -> Any:
        layout = self._layout
        if layout.labels[is_v] == "text":
            if not text:
                raise Malformed("a label is empty")
            if b"\n" in text:
                raise Malformed("a label contains a line end")
            return decoded(text, "a label is not UTF-8")
        shown = text.decode("utf-8", errors="replace")
        if self._range is None and has_leading_zero(text):
            raise Malformed(f"{shown!r} begins with 0, like a code (set labels to text)")
        if not re.fullmatch(self._patterns[self._v if is_v else self._u].encode(), text):
            raise Malformed(f"{shown!r} is not a 64-bit integer (if labels are words, set labels to text)")
        number = _int64(text.partition(b".")[0])
        if number is None:
            raise Malformed(f"{shown!r} is not a 64-bit integer (if labels are codes, set labels to text)")
        if self._range is not None:
            size = self._range.n_v if is_v else self._range.n_u
            if not 1 <= number <= size:
                raise Malformed(f"{number} is outside the matrix; expected 1 to {size}")
        return number


_ZERO_TEXT = re.compile(rb"[+-]?(0+([.,]0*)?|[.,]0+)\Z|(?i:false)\Z")


def _is_zero(text: bytes) -> bool:
    """Return whether an entry of a matrix is 0; raise Malformed if it is missing."""
    try:
        number = float(text)
    except ValueError:
        raise Malformed(f"the entry {text.decode(errors='replace')!r} is not a number") from None
    if math.isnan(number):
        raise Malformed("the entry is missing (NaN)")
    return number == 0


def _convert_options(types: dict[str, pa.DataType]) -> arrow_csv.ConvertOptions:
    return arrow_csv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
    )


def _int64(digits: bytes) -> int | None:
    """Return the integer value of digits with an optional minus sign, or None beyond 64 bits."""
    if len(digits.lstrip(b"-").lstrip(b"0")) > 19:
        return None
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else None


def _count_lines(text: bytes) -> int:
    return count_ends(text) + (text[-1:] not in (b"", b"\n"))


def decoded(text: bytes, problem: str) -> str:
    """Return text of UTF-8; raise Malformed with the problem if it is none."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed(f"{problem} (set the encoding, such as latin-1)") from None
