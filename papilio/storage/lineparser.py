"""Parsing a block of lines into a batch of edges: by Arrow, or line by line to name or skip malformed lines.

A block that Arrow refuses, or that may hold comments, is gone through line by line once: its malformed lines
are counted and the first is named; what remains is parsed by Arrow again.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from papilio.storage.formats import ReadOptions, TextLayout, is_integer, time_type

__all__ = ["LineParser", "ParsedBlock", "Problem"]

_TABS = bytes.maketrans(b"\t", b" ")
_HEXADECIMAL = re.compile(rb"0[xX]")
"""Arrow would read 0x1f as the integer 31; here it is malformed."""


@dataclass(frozen=True)
class Problem:
    """The first malformed line of a block.

    Attributes
    ----------
    line : int
        0-based number within the block.
    text : bytes
    reason : str
        What is wrong with it.
    """

    line: int
    text: bytes
    reason: str


@dataclass(frozen=True)
class ParsedBlock:
    """What a block holds.

    Attributes
    ----------
    batch : pyarrow.RecordBatch or None
        Its edges; None when there are none, or when lines are malformed and not to be skipped.
    n_lines : int
        Lines of any kind.
    n_data : int
        Lines of data that are well formed.
    malformed : int
        Malformed lines.
    problem : Problem or None
        The first of them.
    """

    batch: pa.RecordBatch | None
    n_lines: int
    n_data: int = 0
    malformed: int = 0
    problem: Problem | None = None


class LineParser:
    """Turns a block of lines into a batch; holds no state, so that threads share it."""

    def __init__(self, layout: TextLayout, options: ReadOptions, schema: pa.Schema) -> None:
        self._layout = layout
        self._sign = options.sign
        self._skip = options.skip_malformed
        self._schema = schema
        names = [f"c{i}" for i in range(layout.n_columns)]
        types = {"c0": schema.field("u").type, "c1": schema.field("v").type}
        if self._sign is not None:
            types[f"c{self._sign.column}"] = pa.string()
        self._time = f"c{layout.time_column}" if "time" in schema.names else None
        if self._time is not None:
            types.setdefault(self._time, schema.field("time").type)
        delimiter = {b"": " ", b"::": "\t"}.get(layout.delimiter) or layout.delimiter.decode()
        self._read = arrow_csv.ReadOptions(use_threads=False, block_size=1 << 30, column_names=names)
        self._parse = arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char='"' if layout.format == "csv" else False
        )
        self._convert = arrow_csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
        )
        declared = layout.declared
        self._range = declared if layout.format == "mtx" else None
        self._all_integers = layout.labels == ("integer", "integer")

    def parse(self, block: bytes) -> ParsedBlock:
        """Parse one block, by lines if need be."""
        n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
        batch = self._parse_fast(block)
        if batch is not None:
            return ParsedBlock(self._mirrored(batch), n_lines, batch.num_rows)
        kept, malformed, problem = self._filter(block)
        if problem is not None and not self._skip:
            return ParsedBlock(None, n_lines, 0, malformed, problem)
        if not kept:
            return ParsedBlock(None, n_lines, 0, malformed)
        batch = self._parse_fast(kept, filtered=True)
        if batch is None:
            reason = f"one of the {n_lines} lines from here on cannot be parsed"
            return ParsedBlock(None, n_lines, 0, malformed, Problem(0, block.split(b"\n", 1)[0], reason))
        return ParsedBlock(self._mirrored(batch), n_lines, batch.num_rows, malformed)

    def _parse_fast(self, block: bytes, filtered: bool = False) -> pa.RecordBatch | None:
        """Parse a block with Arrow; None when some line is not, or may not be, a line of data."""
        text = self._normalise(block)
        if not text.strip() or (self._all_integers and not filtered and _HEXADECIMAL.search(text)):
            return None
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(text),
                read_options=self._read,
                parse_options=self._parse,
                convert_options=self._convert,
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return None
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        u, v = (_trimmed(columns[name]) for name in ("c0", "c1"))
        if not self._labels_fit(u, v):
            return None
        arrays = [u, v]
        if self._sign is not None:
            signs = self._sign.apply(columns[f"c{self._sign.column}"])
            if signs is None:
                return None
            arrays.append(pa.array(signs))
        if self._time is not None:
            arrays.append(columns[self._time])
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _normalise(self, block: bytes) -> bytes:
        """Return the block with single-character delimiters and no blanks at the ends of lines."""
        if self._layout.delimiter == b"::":
            return block.replace(b"::", b"\t")
        if self._layout.delimiter:
            return block
        if b"\t" in block:
            block = block.translate(_TABS)
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        while b"  " in block:
            block = block.replace(b"  ", b" ")
        if b" \n" in block:
            block = block.replace(b" \n", b"\n")
        if b"\n " in block:
            block = block.replace(b"\n ", b"\n")
        return block.strip(b" \r")

    def _labels_fit(self, u: pa.Array, v: pa.Array) -> bool:
        """Tell whether what Arrow took for labels may be: not empty, no comment, within a matrix."""
        if u.null_count or v.null_count:
            return False
        if self._range is not None and len(u):
            for labels, size in ((u, self._range.n_u), (v, self._range.n_v)):
                limits = pc.min_max(labels)
                if limits["min"].as_py() < 1 or limits["max"].as_py() > size:
                    return False
        for labels in (u, v):
            if labels.type == pa.string() and pc.any(pc.equal(pc.binary_length(labels), 0)).as_py():
                return False
        if u.type == pa.string():
            return not any(pc.any(pc.starts_with(u, mark.decode())).as_py() for mark in self._layout.comments)
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
            line = line.removesuffix(b"\r")
            if self._layout.is_comment(line):
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
        """Return what is wrong with a line, or None."""
        try:
            fields = self._fields(line)
        except csv.Error as error:
            return "a carriage return outside quotes" if b"\r" in line else str(error)
        if len(fields) != self._layout.n_columns:
            return f"{len(fields)} fields; expected {self._layout.n_columns}"
        sizes = (None, None) if self._range is None else (self._range.n_u, self._range.n_v)
        for text, kind, size in zip(fields[:2], self._layout.labels, sizes, strict=True):
            reason = _label_problem(text, kind, size)
            if reason:
                return reason
        if self._sign is not None:
            reason = self._sign.problem(fields[self._sign.column].decode("utf-8", errors="replace"))
            if reason:
                return reason
        if self._time is not None and self._layout.time != "text":
            text = fields[int(self._time[1:])]
            if not (is_integer(text) or (self._layout.time == "number" and time_type(text) == "number")):
                return f"the time {text.decode(errors='replace')!r} is not a number"
        return None

    def _fields(self, line: bytes) -> list[bytes]:
        if self._layout.format != "csv":
            return self._layout.split(line)
        text = line.decode("utf-8", errors="surrogateescape")
        row = next(csv.reader([text], delimiter=self._layout.delimiter.decode(), strict=True))
        return [part.strip().encode("utf-8", errors="surrogateescape") for part in row]


def _trimmed(labels: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(labels) if labels.type == pa.string() else labels


def _label_problem(text: bytes, kind: str, size: int | None) -> str | None:
    if kind == "text":
        if not text:
            return "a label is empty"
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return "a label is not UTF-8"
        return None
    if not is_integer(text):
        shown = text.decode("utf-8", errors="replace")
        return f"{shown!r} is not a 64-bit integer (if labels are words, ask for labels of type text)"
    if size is not None and not 1 <= int(text) <= size:
        return f"{int(text)} is outside the matrix; expected 1 to {size}"
    return None
