"""Reading the lines of a text file, in parallel, with Arrow's parser.

The file is cut into blocks between records: at line ends, in CSV only outside quoted fields. Worker threads parse a
block each; the batches are returned in file order. Whether a first line holds sizes is decided at the end.

Lines are counted when the file is read, and again from the parser's results; the two counts must agree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from papilio.errors import InputError, MalformedLineError
from papilio.graph import MAX_VERTICES
from papilio.storage.evidence import note_values
from papilio.storage.formats import (
    BLANKS,
    AmbiguousHeader,
    Declared,
    Head,
    LineCounts,
    ReadOptions,
    SeenIds,
    SourceInfo,
    TextLayout,
    describe_columns,
    judge,
    unify_line_ends,
)
from papilio.storage.grid_block import GridParser, GridRows
from papilio.storage.inputs import InputFile
from papilio.storage.layout import HEADER_NOTE, zero_weights
from papilio.storage.quotes import Block, count_ends, cut_records
from papilio.storage.text_block import LineParser, ParsedBlock
from papilio.storage.text_format import detect_layout

BLOCK_BYTES = 4 << 20
"""Text of one block: large enough to amortise a task, small enough that a few blocks in flight take 100 MB."""

_HEAD_BYTES = 1 << 20
_MAX_LINE_BYTES = 64 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_TIME_TYPES = {"integer": pa.int64(), "number": pa.float64(), "text": pa.string()}


@dataclass
class _Found:
    """What the blocks so far hold besides edges."""

    marked: int = 0
    header: int = 0
    missing: int = 0
    first_missing: int = 0  # 0-based line
    valued: int = 0  # entries of a matrix other than 0 and 1
    zero_weight: tuple[int, str] | None = None  # 0-based line of the first weight of 0, and its text
    longest: tuple[int, int] = (0, 1)
    is_unsure: bool = False

    def add(self, parsed: ParsedBlock, line: int) -> None:
        """Add a block that begins at a 0-based line."""
        if parsed.longest[1] > self.longest[1]:
            self.longest = (line + parsed.longest[0], parsed.longest[1])
        if parsed.missing and not self.missing:
            self.first_missing = line + parsed.first_missing
        if parsed.zero_weight is not None and self.zero_weight is None:
            self.zero_weight = line + parsed.zero_weight[0], parsed.zero_weight[1]
        self.missing += parsed.missing
        self.valued += parsed.valued
        self.marked += parsed.marked
        self.header += parsed.lines.header
        self.is_unsure |= parsed.is_unsure


class TextSource:
    """The edges of a text file; see :class:`papilio.storage.formats.EdgeSource`.

    ``file`` is at its beginning; ``threads`` blocks are parsed at a time; ``on_read`` is called with the bytes of the
    stored file read so far.
    """

    def __init__(
        self,
        file: InputFile,
        options: ReadOptions,
        threads: int,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self._file = file
        self._options = options
        self._threads = threads
        self._on_read = on_read
        file.decode(options.encoding)
        head = file.peek(_HEAD_BYTES)
        complete = len(head) < _HEAD_BYTES
        first = Head(file.name, head, complete, file.n_bytes)
        self.layout = detect_layout(first, options)
        layout = self.layout
        signed = options.sign is not None
        self.info = SourceInfo(
            layout.format,
            layout.labels,
            signed,
            _TIME_TYPES[layout.time] if signed and layout.columns.time is not None else None,
            layout.declared,
            _describe(layout, options),
            list(layout.notes),
            lines=_before_data(first, layout),
        )
        self._end = b"\n"  # the last character of the file so far
        self._grid: GridRows | None = None
        self._parser: LineParser | GridParser
        if layout.plan.layout == "edges":
            describe_columns(self.info, layout.names, layout.n_columns, layout.columns, bool(layout.tag))
            self._parser = LineParser(layout, options, self.info.schema)
        else:
            self._grid = GridRows(file.path, layout, options, self.info.schema)
            self._parser = GridParser(layout, options, self.info.schema)
        self._seen = SeenIds()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in file order.

        Raises MalformedLineError at the first malformed line, unless malformed lines are skipped; InputError if the
        file is truncated or does not have the declared number of lines.
        """
        lines = self.info.lines
        header = self.layout.ambiguous
        found = _Found()
        line = self.layout.skip_lines
        for parsed in self._parsed_blocks():
            if parsed.problem is not None and not self._options.skip_malformed:
                raise self._malformed(line + parsed.problem.line, parsed.problem.text, parsed.problem.reason)
            found.add(parsed, line)
            line += parsed.lines.physical
            parsed.lines.physical = 0  # already counted on reading
            lines.add(parsed.lines)
            batch = parsed.batch if self._grid is None else self._grid.place(parsed)
            if batch is not None:
                if header is not None:
                    self._seen.add(batch)
                yield batch
            if self._on_read is not None:
                self._on_read(self._file.position_bytes())
        lines.physical += self._end != b"\n"
        self._check_missing(found)
        self._check_weights(found)
        self._add_notes(found)
        n_data = lines.records + lines.malformed + lines.missing + lines.zeros + lines.filtered
        self._check_malformed(n_data + (header is not None and header.skipped))
        self._check_lines(n_data)
        if header is not None:
            yield from self._judge_header(header, n_data)
        if self._grid is not None:
            yield from self._grid.finish(self.info)
        if self.layout.guessed and found.is_unsure:
            yield from self._read_names_as_edge()
        lines.check(self._file.path)

    def _check_missing(self, found: _Found) -> None:
        """Raise InputError for missing ends, unless the user says what becomes of them."""
        if not found.missing or self._options.missing is not None:
            return
        what = "entries of the matrix" if self.layout.plan.values else "ends of edges"
        drop = "no edge" if self.layout.plan.values else "leave out their lines"
        label = "" if self.layout.plan.values else "; missing='label' (--missing label): they are names"
        raise InputError(
            f"{self._file.path}: {found.missing:,} {what} are missing (NA, NULL, NaN ...), the first in line "
            f"{found.first_missing + 1:,}; missing='drop' (--missing drop): {drop}{label}"
        )

    def _check_weights(self, found: _Found) -> None:
        """Raise InputError for a weight of 0 after the lines that were seen when the layout was decided."""
        at = self.layout.plan.weight
        if at is not None and found.zero_weight is not None:
            line, said = found.zero_weight
            name = self.layout.names[at] if self.layout.names else ""
            cell = said if said.isalpha() else 0
            raise InputError(zero_weights(self._file.path, name, at, cell, f"line {line + 1:,}"))

    def _check_malformed(self, n_lines: int) -> None:
        """Raise MalformedLineError if more lines were skipped than a damaged file has."""
        n_skipped, most = self.info.lines.malformed, self._options.max_malformed
        if n_skipped > max(1, most * n_lines):  # one odd line says nothing
            raise MalformedLineError(
                f"{self._file.path}: {n_skipped:,} of {n_lines:,} lines cannot be read as {self.layout.format}; this "
                f"may be a file of another kind. The share of lines that may be skipped is {most:g}; set another by "
                "max_malformed (--max-malformed)"
            )

    def _read_names_as_edge(self) -> Iterator[pa.RecordBatch]:
        """Yield the first line as an edge: a word of it turned out to be a label."""
        names, columns = self.layout.names, self.layout.columns
        ends = [names[at] for at in (columns.u, columns.v)]
        if self.info.lines.header > 1 or self.info.schema.names != ["u", "v"]:
            return
        self.info.lines.header -= 1
        self.info.lines.records += 1
        self.info.notes[:] = [note for note in self.info.notes if not note.startswith(HEADER_NOTE)]
        self.info.notes.append(
            f"line 1 read as an edge, because its words occur in other lines, too: {', '.join(names)}; --header if it "
            "contains names"
        )
        arrays = [pa.array([end]).cast(kind.type) for end, kind in zip(ends, self.info.schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=self.info.schema)

    def _add_notes(self, found: _Found) -> None:
        lines, notes = self.info.lines, self.info.notes
        if found.marked:
            marks = " or ".join(mark.decode() for mark in self.layout.comments)
            before = f" (but {lines.comments:,} before the data as comments)" if lines.comments else ""
            notes.append(f"lines of data that begin with {marks}, read as edges: {found.marked:,}{before}")
        if found.header:
            notes.append(f"lines equal to the line of names, left out: {found.header:,}")
        if lines.zeros:
            notes.append(f"entries that are 0, no edges: {lines.zeros:,}")
        notes.extend(note_values(found.valued))
        if lines.filtered:
            notes.append(f"lines that do not meet the conditions, left out: {lines.filtered:,}")
        if found.missing and self._options.missing == "drop":
            notes.append(f"missing values, left out: {found.missing:,}")
        if lines.continuation:
            first, n_lines = found.longest
            notes.append(
                f"quoted fields hold {lines.continuation:,} line ends; the longest record is lines {first + 1:,} to "
                f"{first + n_lines:,} (use --no-quotes if quotes belong to the text)"
            )

    def _malformed(self, line: int, data: bytes, reason: str) -> MalformedLineError:
        text = data.decode("utf-8", errors="replace")
        shown = text if len(text) <= 200 else text[:200] + "..."
        return MalformedLineError(
            f"{self._file.path}, line {line + 1}: {shown!r}: {reason}; correct it, or skip malformed lines"
        )

    def _judge_header(self, header: AmbiguousHeader, n_lines: int) -> Iterator[pa.RecordBatch]:
        """Decide on the first line of numbers, and yield it if it is an edge that was left out."""
        verdict = judge(header, self._seen, n_lines - (not header.skipped))
        if verdict.note is not None:
            self.info.notes.append(verdict.note)
        if verdict.kind == "malformed":
            if not self._options.skip_malformed:
                n_fields, expected = len(header.numbers), self.layout.n_columns
                reason = f"{n_fields} fields; expected {expected} (use --header if it contains sizes)"
                raise self._malformed(header.number, header.text, reason)
            self.info.lines.malformed += 1
        if verdict.kind != "header":
            self.info.lines.header -= header.skipped  # where it was counted provisionally
        if verdict.kind == "edge":
            self.layout = replace(self.layout, ambiguous=None)
            self.info.lines.records += header.skipped
        if verdict.kind == "edge" and header.skipped:
            schema = self.info.schema
            ends = zip(header.numbers, schema, strict=True)
            yield pa.record_batch([pa.array([number]).cast(kind.type) for number, kind in ends], schema=schema)
        n = verdict.n_vertices
        if n is not None and n <= MAX_VERTICES and not self._options.bipartite:
            self.info.declared = Declared(n, n, None, (0, 1), binding=False)

    def _check_lines(self, rows: int) -> None:
        declared = self.layout.declared
        found = rows
        if declared is None or declared.n_lines is None or declared.n_lines == found:
            return
        if not declared.binding:
            self.info.notes.append(f"the header declares {declared.n_lines:,} edges; {found:,} lines hold them")
            return
        raise InputError(
            f"{self._file.path} declares {declared.n_lines} edges but has {found} lines: it is truncated, or not in "
            f"the format {self.layout.format} (use another, such as edges)"
        )

    def _parsed_blocks(self) -> Iterator[ParsedBlock]:
        pending: deque[Future[ParsedBlock]] = deque()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="papilio-parse") as pool:
            try:
                for block in self._blocks():
                    pending.append(pool.submit(self._parser.parse, block))
                    if len(pending) > self._threads + 1:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _blocks(self) -> Iterator[Block]:
        """Cut the file, from its first line of data on, between records."""
        layout, rest = self.layout, b""
        for number, data in enumerate(self._chunks()):
            if number == 0:
                data = _skip_lines(data, layout.skip_lines)
            if layout.quotes and (b'"' in rest or b'"' in data):
                rest += data
                while True:
                    block, rest = cut_records(rest, layout.delimiter, final=False)
                    if block.text:
                        yield block
                    if len(rest) <= _MAX_LINE_BYTES or b"\n" not in rest:
                        break
                    # A quote that is never closed: its line is malformed.
                    first, _, rest = rest.partition(b"\n")
                    yield Block(b"\n", ((0, first),))
            elif end := data.rfind(b"\n") + 1:
                yield Block(rest + data[:end])
                rest = data[end:]
            else:
                rest += data
            if len(rest) > _MAX_LINE_BYTES:
                line = self.info.lines.physical - rest.count(b"\n") + 1
                raise MalformedLineError(
                    f"{self._file.path}, line {line}: longer than {_MAX_LINE_BYTES} bytes; this is not an edge list"
                )
        if rest:
            yield cut_records(rest, layout.delimiter, final=True)[0] if layout.quotes else Block(rest)

    def _chunks(self) -> Iterator[bytes]:
        """Yield the text with line feeds at all line ends, beginning with the text already seen by detection."""
        data = self._file.read(_HEAD_BYTES).removeprefix(_BYTE_ORDER_MARK)
        while data:
            # The line feed of a Windows line end may be the first byte of the next chunk.
            while data.endswith(b"\r") and (more := self._file.read(1)):
                data += more
            text = unify_line_ends(data)
            self.info.lines.physical += count_ends(text)
            self._end = text[-1:]
            yield text
            data = self._file.read(BLOCK_BYTES)


def _skip_lines(data: bytes, count: int) -> bytes:
    start = 0
    for _ in range(count):
        end = data.find(b"\n", start)
        if end < 0:
            return b""
        start = end + 1
    return data[start:]


def _before_data(head: Head, layout: TextLayout) -> LineCounts:
    blank = sum(not line.strip(BLANKS) for line in head.lines[: layout.skip_lines])
    header = layout.skip_lines - blank - layout.n_comments
    return LineCounts(blank=blank, comments=layout.n_comments, header=header)


def _describe(layout: TextLayout, options: ReadOptions) -> dict[str, object]:
    described: dict[str, object] = {
        "delimiter": layout.delimiter.decode() or "blanks",
        "columns": layout.n_columns,
        "labels": list(layout.labels),
    }
    if layout.plan.layout != "edges":
        described["layout"] = layout.plan.layout
    if layout.names:
        described["names"] = list(layout.names)
    if layout.mirror != "none":
        described["symmetry"] = layout.mirror
    if layout.columns.time is not None and options.sign is not None:
        described["time_column"] = layout.columns.time + 1
    return described
