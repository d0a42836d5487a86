"""Input files, plain or compressed with gzip, bzip2 or zstd; told apart by their first bytes."""

from __future__ import annotations

import codecs
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa
from pyarrow import fs as arrow_fs

from papilio.errors import InputError
from papilio.storage.places import Place

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
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class _Ahead:
    """A stream that is read from its beginning and gives back what was read ahead; a file object for Arrow."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._ahead = b""
        self._taken = 0

    def peek(self, n_bytes: int) -> bytes:
        """Return the next bytes without taking them: fewer at the end only."""
        while len(self._ahead) < n_bytes and (data := self._stream.read(n_bytes - len(self._ahead))):
            self._ahead += data
        return self._ahead

    def read(self, n_bytes: int) -> bytes:
        data, self._ahead = self._ahead[:n_bytes], self._ahead[n_bytes:]
        data = data or self._stream.read(n_bytes)
        self._taken += len(data)
        return data

    def tell(self) -> int:
        return self._taken

    def close(self) -> None:
        """Leave the stream open, which another opened."""


def known_encoding(encoding: str | None) -> str | None:
    """Return an encoding of text that Python knows, by its usual name; InputError for another name."""
    if encoding is None:
        return None
    try:
        bytes(4).decode(encoding, "replace")  # not all codecs are of text
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise InputError(
            f"unknown encoding {encoding!r}; known are utf-8, utf-16, latin-1, cp1252 ..."
        ) from None


class InputFile:
    """A file to convert, read once from its beginning, decompressed on the way; a context manager.

    ``name`` is without directories, for messages and provenance; ``n_bytes`` is the size as stored, 0 where nothing
    tells. InputError when the file cannot be read, or is of an archive format that is not supported.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.path = place.name
        self.name = self.path.rstrip("/").rsplit("/", 1)[-1]
        self.n_bytes = place.n_bytes
        self._stack = ExitStack()
        try:
            if place.filesystem is None:
                stream = sys.stdin.buffer
            else:
                stream = self._stack.enter_context(
                    place.filesystem.open_input_stream(place.path, compression=None)
                )
            self._raw = _Ahead(stream)
            magic = self._raw.peek(10)
        except OSError as error:
            self.close()
            raise InputError(f"{self.path} cannot be read ({error})") from error
        for start, what in _UNSUPPORTED:
            if magic.startswith(start):
                self.close()
                raise InputError(f"{self.path} is {what}; unpack it first (gzip, bzip2 and zstd are read)")
        self.compression: Compression = next((c for start, c in _MAGIC if start.match(magic)), "none")
        self._peeked = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._stream: Any = self._raw
        if self.compression != "none":
            self._stream = pa.CompressedInputStream(pa.PythonFile(self._raw, "r"), _CODEC[self.compression])

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

    def decode(self, encoding: str | None) -> None:
        """Read text of an encoding, of UTF-16 if None and its mark is there, as UTF-8 from here on.

        Nothing but a beginning may have been peeked at. A second call has no effect.
        """
        if self._decoder is not None:
            return
        if encoding is None and self.peek(4).startswith(_UTF_16) and not self.peek(4).endswith(b"\0\0"):
            encoding = "utf-16"
        if encoding is None or encoding == "utf-8":
            return
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._peeked = self._decoded(self._peeked)

    def _decompress(self, n_bytes: int) -> bytes:
        try:
            data: bytes = self._stream.read(n_bytes)
            while self._decoder is not None:
                text = self._decoded(data)
                if text or not data:
                    return text
                data = self._stream.read(n_bytes)
        except OSError as error:
            what = "data" if self.compression == "none" else f"{self.compression} data"
            raise InputError(f"{self.path}: the {what} are truncated or corrupt ({error})") from error
        return data

    def _decoded(self, data: bytes) -> bytes:
        assert self._decoder is not None
        try:
            return str(self._decoder.decode(data, final=not data)).encode()
        except UnicodeError as error:
            raise InputError(f"{self.path} is not text in its encoding ({error}); name another") from error

    def position_bytes(self) -> int:
        """Return how many bytes of the stored file have been taken, for progress."""
        return self._raw.tell()

    def spool(self, directory: Path) -> Path:
        """Return a local uncompressed file with this file's content, for formats that need random access."""
        if self.compression == "none" and isinstance(self.place.filesystem, arrow_fs.LocalFileSystem):
            return Path(self.place.path)
        target = directory / "input"
        with target.open("wb") as out:
            while block := self.read(1 << 22):
                out.write(block)
        return target
