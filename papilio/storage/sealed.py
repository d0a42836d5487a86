"""Parquet files whose every byte is checked before use.

A sealed file has the digest of its footer, and the footer has the byte range and the digest of every row group. So a
part of a file can be read separately, and exactly the checked bytes are decoded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from pyarrow import fs as arrow_fs

from papilio.errors import StoreError
from papilio.storage.records import digest_of, require_digest
from papilio.system_errors import code_of, explain

DECODING_ERRORS = (
    pa.ArrowException, OSError, ValueError, ArithmeticError, LookupError, TypeError, MemoryError
)  # fmt: skip
"""Exceptions of pyarrow for damaged Parquet files; for example, ValueError if text of the footer is not UTF-8."""

_ROW_GROUPS = b"papilio.row_groups"
"""Key of the footer for ``[[begin, end, digest], ...]``: the bytes of each row group."""

_RELEASE_S = 5.0
"""Longest wait for Arrow's threads to release the bytes of a row group; they take microseconds."""

_TAIL_BYTES = 8
"""The length of the footer and the magic number: the end of a Parquet file."""


@contextmanager
def unreadable_named(name: str, advice: str) -> Iterator[None]:
    """Turn pyarrow's errors about a Parquet file into a StoreError with its name and advice."""
    try:
        yield
    except FileNotFoundError as error:
        raise StoreError(f"{name} is missing; {advice}") from error
    except DECODING_ERRORS as error:
        if isinstance(error, OSError) and code_of(error) is not None:
            raise StoreError(f"{name} cannot be read {explain(error)}") from error
        raise StoreError(f"{name} cannot be read as Parquet ({error}); {advice}") from error


def schema_of(types: Mapping[str, pa.DataType], metadata: Mapping[str, str] | None = None) -> pa.Schema:
    """Return the schema of columns without nulls."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()], metadata)


class _Sink:
    """A new file, and the digest of the bytes written since the last call of :meth:`cut`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._hash = xxhash.xxh3_128()
        self._begin = self._end = 0
        self.is_given_up = False

    closed = False

    def write(self, data: Any) -> int:
        if not self.is_given_up:
            self._file.write(data)
            self._hash.update(data)
            self._end += len(data)
        return len(data)

    def tell(self) -> int:
        return self._end

    def flush(self) -> None:
        self._file.flush()

    def cut(self) -> tuple[int, int, str]:
        found = self._begin, self._end, self._hash.hexdigest()
        self._begin = self._end
        self._hash = xxhash.xxh3_128()
        return found

    def close(self) -> None:
        self.closed = True
        self._file.close()


class SealedWriter:
    """Writes a sealed Parquet file, one row group per table; a context manager.

    ``options`` are passed to ``pyarrow.parquet.ParquetWriter``. :attr:`digest` is set once the file is closed. After an
    exception in the block the file has no footer.
    """

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        self.path, self.rows, self.digest = path, 0, ""
        self._groups: list[tuple[int, int, str]] = []
        self._sink = _Sink(path)
        try:
            self._writer = pq.ParquetWriter(self._sink, schema, **options)
        except BaseException:
            self._sink.close()
            raise

    def write(self, table: pa.Table) -> None:
        """Add a row group."""
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._groups.append(self._sink.cut())
        self.rows += table.num_rows

    def close(self) -> None:
        """Write the footer and close the file; raise OSError, with the file closed, if it cannot be written."""
        try:
            self._writer.add_key_value_metadata({_ROW_GROUPS: json.dumps(self._groups)})
            self._writer.close()
            self._sink.close()
        except BaseException:
            self.give_up()
            raise
        self.digest = footer_digest(self.path)

    def give_up(self) -> None:
        """Close the file without a footer."""
        self._sink.is_given_up = True
        with suppress(*DECODING_ERRORS):
            self._writer.close()
        with suppress(OSError):
            self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.give_up()


def _read_footer(source: pa.NativeFile, size: int) -> bytes:
    """Return the footer and the last bytes of the file, which contain its length."""
    tail: bytes = source.read_at(min(_TAIL_BYTES, size), max(0, size - _TAIL_BYTES))
    length = min(int.from_bytes(tail[:4], "little") + _TAIL_BYTES, size)
    footer: bytes = source.read_at(length, size - length)
    return footer


def footer_digest(path: Path) -> str:
    """Return the digest of a sealed file that this process has just written."""
    with pa.OSFile(os.fspath(path)) as source:
        return digest_of(_read_footer(source, source.size()))


class _Window:
    """Some bytes of a file, at their original positions; reading any other byte is an error."""

    closed = False

    def __init__(self, size: int) -> None:
        self._size, self._begin, self._data = size, 0, memoryview(b"")
        self._at = 0  # Arrow locks the file while it seeks and reads

    def show(self, begin: int, data: memoryview) -> None:
        self._begin, self._data = begin, data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, n_bytes: int) -> memoryview:
        start = self._at - self._begin
        if start < 0 or start + n_bytes > len(self._data):
            raise ValueError(f"the bytes from {self._at} belong to no row group")
        self._at += n_bytes
        return self._data[start : start + n_bytes]

    def close(self) -> None:
        self.closed = True


class SealedReader:
    """Reads the row groups of a sealed Parquet file; a context manager. One thread at a time.

    ``digest`` is the digest of :class:`SealedWriter`, ``advice`` the remedy if the file is missing or changed. Opening
    checks the footer, and :meth:`read` the row group; both raise StoreError, naming the file and the damage.
    """

    def __init__(self, filesystem: arrow_fs.FileSystem, path: str, digest: str, advice: str) -> None:
        self.name, self.advice = path, advice
        self._buffer = bytearray()  # reused for each row group: Arrow copies decoded values
        with unreadable_named(path, advice):
            if isinstance(filesystem, arrow_fs.LocalFileSystem) and not os.path.isfile(path):
                raise FileNotFoundError(path)
            self._source = filesystem.open_input_file(path)
        try:
            with unreadable_named(path, advice):
                size = self._source.size()
                footer = _read_footer(self._source, size)
            require_digest(digest_of(footer), digest, path, advice)
            with unreadable_named(path, advice):
                self.metadata: pq.FileMetaData = pq.read_metadata(pa.BufferReader(footer))
                self._groups: list[tuple[int, int, str]] = json.loads(self.metadata.metadata[_ROW_GROUPS])
                self._window = _Window(size)
                self._file = pq.ParquetFile(pa.PythonFile(self._window, "r"), metadata=self.metadata, pre_buffer=False)
                self.schema: pa.Schema = self._file.schema_arrow
        except BaseException:
            self._source.close()
            raise

    def read(self, index: int, *, use_threads: bool = True) -> pa.Table:
        """Return a row group."""
        begin, end, digest = self._groups[index]
        name = f"{self.name}, row group {index}"
        if len(self._buffer) < end - begin:
            self._release()
            self._buffer = bytearray(end - begin)
        with unreadable_named(name, self.advice):
            self._source.seek(begin)
            with memoryview(self._buffer)[: end - begin] as room:
                n_bytes = self._source.readinto(room)
        with memoryview(self._buffer)[:n_bytes] as data:
            require_digest(digest_of(data), digest, name, self.advice)
            self._window.show(begin, data)
            with unreadable_named(name, self.advice):
                return self._file.read_row_group(index, use_threads=use_threads)

    def _release(self) -> None:
        """Free the buffer once Arrow's threads hold no part of it.

        A thread may release its part shortly after a read. If Python is shutting down by then, the process aborts.
        """
        self._window.show(0, memoryview(b""))
        deadline = monotonic() + _RELEASE_S
        while monotonic() < deadline:
            with suppress(BufferError):  # a thread holds a part
                return self._buffer.clear()
            sleep(1e-4)

    def __iter__(self) -> Iterator[pa.Table]:
        return (self.read(index) for index in range(self.metadata.num_row_groups))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._source.close()
        self._release()
