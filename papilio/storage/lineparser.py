"""Parsing a block of lines into a batch of edges: by Arrow, or line by line to name or skip malformed lines.

A block that Arrow refuses is gone through line by line once: its malformed lines are counted and the first is named;
what remains is parsed by Arrow again. Integers that Arrow would read too kindly (0x1f, 007, 7.0) are read as text and
checked before they are numbers; nothing that is a label goes through a float.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from papilio.storage.column_choice import show_column
from papilio.storage.formats import (
    NOT_A_NUMBER,
    ReadOptions,
    TextLayout,
    fields_of,
    has_leading_zero,
    is_integer,
    time_type,
    whole_part,
)

ANY_DIGITS = r"^-?[0-9]+$"
"""Pattern of a number in a matrix, or a time: zeros before it say nothing."""
PLAIN = r"^-?(0|[1-9][0-9]*)$"
"""Pattern of a label."""
WHOLE = r"^-?(0|[1-9][0-9]*)(\.0*)?$"
"""Pattern of a label in a column that is written as decimals, such as 7.0."""

_ZERO = ord("0")
"""Signs, points, quotes and separators (but for ; and |) come before it, digits and letters after."""
_WINDOW_BYTES = 1 << 16
"""Text looked at at a time: its masks stay in the cache."""


def has_odd_zeros(text: bytes, separator: str) -> bool:
    """Tell whether a field may begin with 0 and go on, as 007, -07 and 0x1f do, which Arrow reads as integers.

    What is told of lines of fields is safe where there are other marks than digits: a date may be one of them.
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
    """Return texts that match a pattern as int64, or None when one does not, or does not fit 64 bits."""
    texts = pc.utf8_trim_whitespace(texts)
    if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
        return None
    if pattern == WHOLE:
        texts = pc.replace_substring_regex(texts, r"\.0*$", "")
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


_TABS = bytes.maketrans(b"\t", b" ")
_COMMENT = "a comment after the first line of data, where comments end"


@dataclass(frozen=True)
class Problem:
    """The first malformed line of a block, by its 0-based number there."""

    line: int
    text: bytes
    reason: str


@dataclass(frozen=True)
class ParsedBlock:
    """The edges of a block and its counts of lines; no batch without edges, or where a malformed line ends all."""

    batch: pa.RecordBatch | None
    n_lines: int  # lines of any kind
    n_data: int = 0  # lines of data that are well formed
    malformed: int = 0
    marked: int = 0  # lines of data that begin as comments do
    problem: Problem | None = None


class LineParser:
    """Turns a block of lines into a batch; holds no state, so that threads share it."""

    def __init__(self, layout: TextLayout, options: ReadOptions, schema: pa.Schema) -> None:
        self._layout = layout
        self._sign = options.sign
        self._skip = options.skip_malformed
        self._any_text = options.labels == "text"
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
        delimiter = {b"": " ", b"::": "\t"}.get(layout.delimiter) or layout.delimiter.decode()
        self._read = arrow_csv.ReadOptions(
            use_threads=False, block_size=1 << 30, column_names=[f"c{i}" for i in range(layout.n_columns)]
        )
        self._parse = arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char='"' if layout.format == "csv" else False
        )
        self._convert = _convert_options(types)
        declared = layout.declared
        self._range = declared if layout.format == "mtx" else None
        ends = zip((self._u, self._v), layout.labels, layout.decimal, strict=True)
        plain = ANY_DIGITS if self._range is not None else PLAIN
        self._patterns = {name: WHOLE if dec else plain for name, kind, dec in ends if kind == "integer"}
        if self._time is not None and types[f"c{self._time}"] == pa.int64():
            self._patterns.setdefault(f"c{self._time}", ANY_DIGITS)
        as_text = {name: pa.string() if name in self._patterns else kind for name, kind in types.items()}
        self._convert_as_text = _convert_options(as_text)

    def parse(self, block: bytes) -> ParsedBlock:
        """Parse one block, by lines if need be."""
        n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
        found = self._parse_fast(block)
        if found is not None:
            batch, marked = found
            return ParsedBlock(self._mirrored(batch), n_lines, batch.num_rows, 0, marked)
        kept, malformed, problem = self._filter(block)
        if problem is not None and not self._skip:
            return ParsedBlock(None, n_lines, 0, malformed, 0, problem)
        if not kept:
            return ParsedBlock(None, n_lines, 0, malformed)
        found = self._parse_fast(kept)
        if found is None:
            reason = f"one of the {n_lines} lines from here on cannot be parsed"
            return ParsedBlock(None, n_lines, 0, malformed, 0, Problem(0, block.split(b"\n", 1)[0], reason))
        batch, marked = found
        return ParsedBlock(self._mirrored(batch), n_lines, batch.num_rows, malformed, marked)

    def _parse_fast(self, block: bytes) -> tuple[pa.RecordBatch, int] | None:
        """Parse a block with Arrow; None when some line is not, or may not be, a line of data.

        The number tells how many of the lines begin as comments do.
        """
        text = self._normalise(block)
        if not text.strip():
            return None
        as_text = bool(self._patterns) and (
            any(self._layout.decimal) or has_odd_zeros(text, self._parse.delimiter)
        )
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(text),
                read_options=self._read,
                parse_options=self._parse,
                convert_options=self._convert_as_text if as_text else self._convert,
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return None
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        for name, pattern in self._patterns.items() if as_text else ():
            numbers = integers_of(columns[name], pattern)
            if numbers is None:
                return None
            columns[name] = numbers
        u, v = (_trimmed(columns[name]) for name in (self._u, self._v))
        marked = self._marked(columns.get("c0"))
        if marked is None or not self._labels_fit(u, v, quoted=b'"' in text):
            return None
        arrays = [u, v]
        if self._sign is not None:
            signs = self._sign.apply(columns[f"c{self._layout.columns.sign}"])
            if signs is None:
                return None
            arrays.append(pa.array(signs))
        if self._time is not None:
            arrays.append(columns[f"c{self._time}"])
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), marked

    def _marked(self, lead: pa.Array | None) -> int | None:
        """Return how many first fields begin as comments do; None when one is a comment, or lacks the tag."""
        layout = self._layout
        if lead is None or lead.type != pa.string():
            return 0
        if layout.tag:
            return 0 if pc.all(pc.equal(lead, layout.tag.decode())).as_py() else None
        marked = 0
        for mark in map(bytes.decode, layout.comments):
            begins = pc.sum(pc.starts_with(lead, mark)).as_py() or 0
            if begins and pc.any(pc.equal(lead, mark)).as_py():
                return None
            marked += begins
        return marked

    def _normalise(self, block: bytes) -> bytes:
        """Return the block with single-character delimiters and no blanks at the ends of lines."""
        if self._layout.delimiter == b"::":
            return block.replace(b"::", b"\t")
        if self._layout.delimiter:
            return block
        if b"\t" in block:
            block = block.translate(_TABS)
        while b"  " in block:
            block = block.replace(b"  ", b" ")
        if b" \n" in block:
            block = block.replace(b" \n", b"\n")
        if b"\n " in block:
            block = block.replace(b"\n ", b"\n")
        return block.strip(b" ")

    def _labels_fit(self, u: pa.Array, v: pa.Array, quoted: bool) -> bool:
        """Tell whether what Arrow took for labels may be: not empty, not NaN, in one line, within a matrix."""
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
            if not self._any_text and pc.any(pc.is_in(labels, pa.array(NOT_A_NUMBER))).as_py():
                return False
            if quoted and pc.any(pc.match_substring(labels, "\n")).as_py():
                return False
        return True

    def _mirrored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of matrix entries with the entries that symmetry implies."""
        if self._layout.mirror == "none":
            return batch
        off = batch.filter(pc.not_equal(batch.column("u"), batch.column("v")))
        arrays = {name: off.column(name) for name in off.schema.names}
        arrays["u"], arrays["v"] = arrays["v"], arrays["u"]
        if "sign" in arrays and self._layout.mirror == "skew":
            arrays["sign"] = pc.negate(arrays["sign"])
        both = [pa.concat_arrays(pair) for pair in zip(batch.columns, arrays.values(), strict=True)]
        return pa.RecordBatch.from_arrays(both, schema=batch.schema)

    def _filter(self, block: bytes) -> tuple[bytes, int, Problem | None]:
        """Return the lines of data of a block, how many lines are malformed, and the first of them."""
        kept: list[bytes] = []
        malformed = 0
        first: Problem | None = None
        for at, line in enumerate(block.split(b"\n")):
            if not line.strip():
                continue
            reason = self._problem(line)
            if reason is None:
                kept.append(line)
                continue
            malformed += 1
            if first is None:
                first = Problem(at, line, reason)
        return b"\n".join(kept), malformed, first

    def _problem(self, line: bytes) -> str | None:
        layout = self._layout
        if layout.comments and line.startswith(layout.comments):
            alone = line.split(None, 1)[0] in layout.comments
            if alone or (layout.labels[0] == "integer" and layout.columns.u == 0):
                return _COMMENT
        try:
            fields = fields_of(layout, line, strict=True)
        except csv.Error as error:
            return str(error)
        if len(fields) != layout.n_columns:
            blanks = not layout.delimiter and "text" in layout.labels and len(fields) > layout.n_columns
            hint = "; if names hold blanks, separate the fields by tabs or commas" if blanks else ""
            return f"{len(fields)} fields; expected {layout.n_columns}{hint}"
        if layout.tag and fields[0] != layout.tag:
            return f"the line begins with {fields[0].decode(errors='replace')!r}; expected {layout.tag.decode()!r}"
        reason = self._labels_problem(fields)
        if reason:
            return reason
        at = layout.columns.sign
        if self._sign is not None and at is not None:
            reason = self._sign.problem(fields[at].decode("utf-8", errors="replace"))
            if reason:
                return f"{show_column(layout.names, at)} {reason}"
        if self._time is not None and layout.time != "text":
            text = fields[self._time]
            if not (is_integer(text) or (layout.time == "number" and time_type(text) == "number")):
                return f"the time {text.decode(errors='replace')!r} is not a number"
        return None

    def _labels_problem(self, fields: list[bytes]) -> str | None:
        layout = self._layout
        sizes = (None, None) if self._range is None else (self._range.n_u, self._range.n_v)
        ends = (layout.columns.u, layout.columns.v)
        for at, kind, decimal, size in zip(ends, layout.labels, layout.decimal, sizes, strict=True):
            text = fields[at]
            if kind == "text" and not self._any_text and text.decode(errors="replace") in NOT_A_NUMBER:
                return f"a label is {text.decode()} (if labels may be so, ask for labels of type text)"
            if kind == "integer" and self._range is None and has_leading_zero(text):
                return f"{text.decode()!r} begins with 0, as codes do (ask for labels of type text)"
            reason = _label_problem((whole_part(text) or text) if decimal else text, kind, size)
            if reason:
                return reason
        return None


def _convert_options(types: dict[str, pa.DataType]) -> arrow_csv.ConvertOptions:
    return arrow_csv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
    )


def _trimmed(labels: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(labels) if labels.type == pa.string() else labels


def _label_problem(text: bytes, kind: str, size: int | None) -> str | None:
    if kind == "text":
        if not text:
            return "a label is empty"
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return "a label is not UTF-8 (say the encoding, such as latin-1)"
        return None
    if not is_integer(text):
        shown = text.decode("utf-8", errors="replace")
        return f"{shown!r} is not a 64-bit integer (if labels are words, ask for labels of type text)"
    if size is not None and not 1 <= int(text) <= size:
        return f"{int(text)} is outside the matrix; expected 1 to {size}"
    return None
