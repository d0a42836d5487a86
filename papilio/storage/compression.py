"""Input files, plain or compressed with gzip, bzip2 or zstd; told apart by their first bytes."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self

import pyarrow as pa
from pyarrow import fs as arrow_fs

from papilio.errors import InputError
from papilio.storage.location import filesystem_of

Compression = Literal["none", "gzip", "bzip2", "zstd"]

_MAGIC: tuple[tuple[re.Pattern[bytes], Compression], ...] = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd"),
)
_CODEC = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}
_UNSUPPORTED = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x04\x22\x4d\x18", "an lz4 file"),
)


class InputFile:
    """A file to convert, read once from its beginning, decompressed on the way; a context manager.

    ``name`` is without directories, for messages and provenance; ``n_bytes`` is the size as stored. InputError when
    the file does not exist, cannot be read, or is of an archive format that is not supported.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.name = self.path.rstrip("/").rsplit("/", 1)[-1]
        self._stack = ExitStack()
        try:
            self._filesystem, self._inner = filesystem_of(self.path)
            info = self._filesystem.get_file_info(self._inner)
            if not info.is_file:
                missing = info.type == arrow_fs.FileType.NotFound
                raise InputError(f"{self.path} {'does not exist' if missing else 'is not a file'}")
            self.n_bytes = int(info.size)
            self._raw = self._stack.enter_context(self._filesystem.open_input_file(self._inner))
            magic = self._raw.read(10)
            self._raw.seek(0)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read ({error})") from error
        for start, what in _UNSUPPORTED:
            if magic.startswith(start):
                self.close()
                raise InputError(f"{self.path} is {what}; unpack it first (gzip, bzip2 and zstd are read)")
        self.compression: Compression = next((c for start, c in _MAGIC if start.match(magic)), "none")
        self._peeked = b""
        self._stream = self._raw
        if self.compression != "none":
            self._stream = pa.CompressedInputStream(self._raw, _CODEC[self.compression])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def peek(self, n_bytes: int) -> bytes:
        """Return the next decompressed bytes, at most ``n_bytes``, without taking them; errors as :meth:`read`."""
        while len(self._peeked) < n_bytes and (data := self._decompress(n_bytes - len(self._peeked))):
            self._peeked += data
        return self._peeked[:n_bytes]

    def read(self, n_bytes: int) -> bytes:
        """Return the next decompressed bytes, at most ``n_bytes``; empty at the end.

        InputError when compressed data end too early or are corrupt.
        """
        if self._peeked:
            data, self._peeked = self._peeked[:n_bytes], self._peeked[n_bytes:]
            return data
        return self._decompress(n_bytes)

    def _decompress(self, n_bytes: int) -> bytes:
        try:
            data: bytes = self._stream.read(n_bytes)
        except OSError as error:
            message = f"{self.path}: the {self.compression} data are truncated or corrupt ({error})"
            raise InputError(message) from error
        return data

    def position_bytes(self) -> int:
        """Return how many bytes of the stored file have been taken, for progress."""
        return min(int(self._raw.tell()), self.n_bytes)

    def spool(self, directory: Path) -> Path:
        """Return a local uncompressed file with this file's content, for formats that need random access."""
        if self.compression == "none" and self._filesystem.type_name == "local":
            return Path(self._inner)
        target = directory / "input"
        with target.open("wb") as out:
            while block := self.read(1 << 22):
                out.write(block)
        return target
