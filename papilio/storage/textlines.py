"""Reading the lines of a text file, in parallel, with Arrow's parser.

The file is cut into blocks at line ends. Worker threads parse a block each; the batches come back in the
order of the file. A block that Arrow refuses, or that may hold comments, is gone through line by line once:
its malformed lines are named or skipped, and what remains is parsed by Arrow again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from papilio.errors import InputError, MalformedLineError
from papilio.storage.compression import InputFile
from papilio.storage.detection import Head, detect_layout
from papilio.storage.formats import ReadOptions, TextLayout
from papilio.storage.lineparser import LineParser, ParsedBlock
from papilio.storage.sources import SourceInfo, raw_schema

__all__ = ["TextSource"]

BLOCK_BYTES = 4 << 20
"""Text of one block: large enough to amortise a task, small enough that a few in flight take 100 MB."""

_HEAD_BYTES = 1 << 20
_MAX_LINE_BYTES = 64 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_TIME_TYPES = {"integer": pa.int64(), "number": pa.float64(), "text": pa.string()}


class TextSource:
    """The edges of a text file; see :class:`papilio.storage.sources.EdgeSource`.

    Parameters
    ----------
    file : InputFile
        At its beginning.
    options : ReadOptions
    threads : int
        Blocks parsed at a time.
    on_read : callable, optional
        Called with the bytes of the stored file taken so far.
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
        head = file.peek(_HEAD_BYTES)
        complete = len(head) < _HEAD_BYTES
        self.layout = detect_layout(Head(file.name, head, complete, file.n_bytes), options)
        timed = options.sign is not None and self.layout.time_column is not None
        self.info = SourceInfo(
            self.layout.format,
            self.layout.labels,
            _TIME_TYPES[self.layout.time] if timed else None,
            self.layout.declared,
            _describe(self.layout, options),
            list(self.layout.notes),
        )
        if options.sign is None and self.layout.n_columns > 2:
            self.info.notes.append(
                "columns after the second are not used; a sign rule makes the graph signed"
            )
        self._parser = LineParser(self.layout, options, raw_schema(self.info, options.sign is not None))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in file order.

        Raises
        ------
        MalformedLineError
            At the first malformed line, unless they are skipped.
        InputError
            When the file is truncated or does not have the declared number of lines.
        """
        line = self.layout.skip_lines
        rows = 0
        for parsed in self._parsed_blocks():
            if parsed.problem is not None and not self._options.skip_malformed:
                text = parsed.problem.text.decode("utf-8", errors="replace")
                shown = text if len(text) <= 200 else text[:200] + "..."
                raise MalformedLineError(
                    f"{self._file.path}, line {line + parsed.problem.line + 1}: {shown!r}: "
                    f"{parsed.problem.reason}; correct it, or skip malformed lines"
                )
            line += parsed.n_lines
            rows += parsed.n_data
            self.info.malformed += parsed.malformed
            if parsed.batch is not None:
                yield parsed.batch
            if self._on_read is not None:
                self._on_read(self._file.position_bytes())
        self._check_lines(rows)

    def _check_lines(self, rows: int) -> None:
        declared = self.layout.declared
        found = rows + self.info.malformed
        if declared is not None and declared.n_lines is not None and declared.n_lines != found:
            raise InputError(
                f"{self._file.path} declares {declared.n_lines} edges and holds {found} lines of them: it is "
                f"truncated, or not of the format {self.layout.format} (force another, such as edges)"
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

    def _blocks(self) -> Iterator[bytes]:
        """Cut the file, from its first line of data on, at line ends."""
        rest = _skip_lines(
            self._file.read(_HEAD_BYTES).removeprefix(_BYTE_ORDER_MARK), self.layout.skip_lines
        )
        while True:
            data = self._file.read(BLOCK_BYTES)
            if not data:
                break
            cut = data.rfind(b"\n") + 1
            if cut:
                yield rest + data[:cut]
                rest = data[cut:]
            else:
                rest += data
            if len(rest) > _MAX_LINE_BYTES:
                raise MalformedLineError(
                    f"{self._file.path}: a line is longer than {_MAX_LINE_BYTES} bytes; this is not an edge list"
                )
        if rest:
            yield rest


def _skip_lines(data: bytes, count: int) -> bytes:
    start = 0
    for _ in range(count):
        end = data.find(b"\n", start)
        if end < 0:
            return b""
        start = end + 1
    return data[start:]


def _describe(layout: TextLayout, options: ReadOptions) -> dict[str, object]:
    described: dict[str, object] = {
        "delimiter": layout.delimiter.decode() or "blanks",
        "columns": layout.n_columns,
        "labels": list(layout.labels),
    }
    if layout.names:
        described["names"] = list(layout.names)
    if layout.mirror != "none":
        described["symmetry"] = layout.mirror
    if layout.time_column is not None and options.sign is not None:
        described["time_column"] = layout.time_column + 1
    return described
