"""Opening what is converted: the reader of its format, and text files one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import fs as arrow_fs

from papilio.errors import InputError
from papilio.storage.arrays import NpySource
from papilio.storage.compression import Compression, InputFile
from papilio.storage.formats import (
    BLANKS,
    Declared,
    EdgeSource,
    FormatName,
    LineCounts,
    ReadOptions,
    SourceInfo,
    fields_of,
    unify_line_ends,
)
from papilio.storage.parquet_source import ParquetSource
from papilio.storage.places import Place
from papilio.storage.text import TextSource

OnRead = Callable[[int], None]
"""Told the bytes of the stored files taken so far."""

_LINE_BYTES = 1 << 16
"""Beginning of a file that tells whether there is more than a line of names."""

_MAGIC: tuple[tuple[bytes, FormatName], ...] = ((b"\x93NUMPY", "npy"), (b"PAR1", "parquet"))


def open_source(
    places: Sequence[Place],
    options: ReadOptions,
    scratch: Path,
    threads: int,
    on_read: OnRead,
    stack: ExitStack,
) -> tuple[EdgeSource, Compression]:
    """Return the reader of the input, by its first bytes or the forced format, and the compression of the first file.

    What the reader holds open is closed with ``stack``; ``scratch`` is a directory for what has to be unpacked.
    """
    first = stack.enter_context(InputFile(places[0]))
    chosen = options.format or _kind_of(first)
    if chosen == "parquet":
        return _open_parquet(first, places, options, scratch, on_read), first.compression
    if chosen == "npy":
        return _open_npy(first, places, options, scratch, on_read), first.compression
    return JoinedText(first, places[1:], options, threads, on_read), first.compression


def _kind_of(file: InputFile) -> FormatName | None:
    """Return the format of a file that is no text."""
    return next((name for magic, name in _MAGIC if file.peek(8).startswith(magic)), None)


def _open_npy(
    first: InputFile, places: Sequence[Place], options: ReadOptions, scratch: Path, on_read: OnRead
) -> NpySource:
    names = [place.name for place in places]
    if len(places) > 2:
        raise InputError(
            f"{len(places)} .npy files were given; convert reads one, or two of one endpoint each"
        )
    return NpySource(_spool(first, places, scratch), names, options, on_read)


def _open_parquet(
    first: InputFile, places: Sequence[Place], options: ReadOptions, scratch: Path, on_read: OnRead
) -> ParquetSource:
    """Read Parquet files where they are, if they are not compressed as a whole."""
    filesystem, root = places[0].filesystem, places[0].root
    paths = [place.path for place in places]
    if (
        filesystem is None
        or first.compression != "none"
        or any(each.filesystem != filesystem for each in places)
    ):
        filesystem, root = arrow_fs.LocalFileSystem(), ""
        paths = list(map(str, _spool(first, places, scratch)))
    root = root if all(place.root == root for place in places) else ""
    n_bytes = sum(place.n_bytes for place in places)
    return ParquetSource(filesystem, paths, [place.name for place in places], options, root, n_bytes, on_read)


def _spool(first: InputFile, places: Sequence[Place], scratch: Path) -> list[Path]:
    """Return local uncompressed files with the content of all."""
    paths = []
    for at, place in enumerate(places):
        (scratch / str(at)).mkdir()
        with first if at == 0 else InputFile(place) as file:
            paths.append(file.spool(scratch / str(at)))
    return paths


class JoinedText:
    """The edges of text files, one after the other; all are read as the first is, each line of names for itself."""

    def __init__(
        self,
        first: InputFile,
        others: Sequence[Place],
        options: ReadOptions,
        threads: int,
        on_read: OnRead,
    ) -> None:
        self._options = options
        self._threads = threads
        self._others = others
        self._on_read = on_read
        self._n_first = first.n_bytes
        self._first = self._open(first, options, 0)
        self.info = self._first.info

    def _open(self, file: InputFile, options: ReadOptions, before: int) -> TextSource:
        return TextSource(file, options, self._threads, lambda done: self._on_read(before + done))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in the order of the files; errors as :meth:`TextSource.batches`."""
        yield from self._first.batches()
        options = replace(self._options, like=self._first.layout)
        before = self._n_first
        for place in self._others:
            with InputFile(place) as file:
                if kind := _kind_of(file):
                    raise InputError(
                        f"{place.name} is of the format {kind}, and the first file is text: convert one format"
                    )
                empty = self._lines_of_empty(file)
                if empty is not None:
                    self.info.lines.add(empty)
                else:
                    source = self._open(file, options, before)
                    yield from source.batches()
                    _add(self.info, source.info, place.name)
            before += place.n_bytes

    def _lines_of_empty(self, file: InputFile) -> LineCounts | None:
        """Return the lines of a file without data, or with the line of names alone as Spark writes it; else None."""
        file.decode(self._options.encoding)
        text = unify_line_ends(file.peek(_LINE_BYTES).removeprefix(b"\xef\xbb\xbf"))
        if len(text) >= _LINE_BYTES // 2:
            return None
        lines = text.removesuffix(b"\n").split(b"\n") if text else []
        filled = [line for line in lines if line.strip(BLANKS)]
        blank = len(lines) - len(filled)
        if not filled:
            return LineCounts(len(lines), blank=blank)
        layout = self._first.layout
        names = [field.decode(errors="replace") for field in fields_of(layout, filled[0])]
        if len(filled) > 1 or not layout.names or sorted(names) != sorted(layout.names):
            return None
        return LineCounts(len(lines), blank=blank, header=1)


def _add(info: SourceInfo, more: SourceInfo, name: str) -> None:
    """Add what was found in another file."""
    info.lines.add(more.lines)
    info.notes += [f"{name}: {note}" for note in more.notes if note not in info.notes]
    info.declared = _both(info.declared, more.declared)


def _both(one: Declared | None, other: Declared | None) -> Declared | None:
    """Return the sizes that two files declare together; None where one declares none, or counts from another number."""
    if one is None or other is None:
        return None
    bases = tuple(base for base in one.bases if base in other.bases)
    if not bases:
        return None
    return Declared(
        max(one.n_u, other.n_u), max(one.n_v, other.n_v), None, bases, one.binding and other.binding
    )
