"""Inputs: the files of paths, URLs, patterns, directories and ``-``, and their bytes, decompressed and decoded.

Files are plain or compressed with gzip, bzip2 or zstd, detected from their first bytes, or one file in an archive
(:mod:`papilio.storage.archives`); ``-`` is standard input.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa
from pyarrow import ArrowInvalid
from pyarrow import fs as arrow_fs

from papilio.errors import InputError, InputNotFoundError
from papilio.storage.archives import TAR_HEAD_BYTES, Member, TarMember, ZipMember, is_tar
from papilio.storage.files import MANIFEST_NAME, filesystem_of, is_pipe, is_url, require_text
from papilio.system_errors import code_of, explain

InputPath = str | os.PathLike[str]

STANDARD_INPUT = "-"

_LEFT_OUT = ("_", ".")
"""Prefixes of the names of files and directories without data: ``_SUCCESS``, ``.part-0.crc``."""


@dataclass(frozen=True)
class InputLocation:
    """Location of a file."""

    name: str  # the path or the URL, for messages
    filesystem: arrow_fs.FileSystem | None  # None for standard input and for a named pipe
    path: str = ""  # within the file system; of the pipe
    n_bytes: int = 0  # stored size; 0 if unknown
    root: str = ""  # the given directory that contains it


def expand_inputs(given: InputPath | Sequence[InputPath]) -> list[InputLocation]:
    """Return the input files, in the given order; in a directory or a pattern, part-2 comes before part-10.

    Raises InputError for an input that does not exist or contains no file.
    """
    several = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    if not several:
        raise InputError("no file was given; convert needs at least one")
    if [os.fspath(each) for each in several].count(STANDARD_INPUT) > 1:
        raise InputError("standard input (-) was given twice; it can be read once")
    return [place for each in several for place in _find(os.fspath(each))]


def _find(given: str) -> list[InputLocation]:
    if given == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input (-) is closed; name a file")
        return [InputLocation("standard input", None)]
    filesystem, path = filesystem_of(given)
    try:
        if not is_url(given) and is_pipe(given):
            return [InputLocation(given, None, path)]
        info = filesystem.get_file_info(path)
        if info.is_file:
            return [InputLocation(given, filesystem, path, info.size or 0)]
        if info.type == arrow_fs.FileType.Directory:
            return _below(given, filesystem, path)
        if info.type != arrow_fs.FileType.NotFound:
            raise InputError(f"{given} is not a file")
        pattern = "*" if is_url(given) else "*?["
        if not any(mark in given for mark in pattern):
            unknown = ", or cannot be reached" if is_url(given) else ""
            raise InputNotFoundError(f"{given} does not exist{unknown}")
        found = _matches(filesystem, path)
        root = path[: min(path.find(mark) for mark in pattern if mark in path)].rpartition("/")[0]
        places = [
            place
            for info in filesystem.get_file_info(sorted(found, key=_by_number))
            for place in (
                _below(_called(given, info.path), filesystem, info.path)
                if info.type == arrow_fs.FileType.Directory
                else [_place(_called(given, info.path), filesystem, info, root)]
            )
        ]
    except (OSError, ArrowInvalid, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{given} cannot be read {explain(error)}") from error
    if not places:
        raise InputNotFoundError(f"{given} matches no file")
    return places


def _place(name: str, filesystem: arrow_fs.FileSystem, info: arrow_fs.FileInfo, root: str) -> InputLocation:
    return InputLocation(name, filesystem, info.path, info.size or 0, root)


def _below(given: str, filesystem: arrow_fs.FileSystem, root: str) -> list[InputLocation]:
    """Return all files below a directory, without the markers that Spark and others write."""
    found = {}
    try:
        infos = filesystem.get_file_info(arrow_fs.FileSelector(root, recursive=True))
        names = [info.path for info in infos]
    except UnicodeError as error:
        raise InputError(f"{given} has a file whose name is not UTF-8 ({error}); rename it") from error
    for info, path in zip(infos, names, strict=True):
        inner = path[len(root) :].strip("/")
        if info.is_file and not any(part.startswith(_LEFT_OUT) for part in inner.split("/")):
            found[inner] = info
    if MANIFEST_NAME in found:
        raise InputError(f"{given} is already a graph store; use it directly, or copy it")
    if not found:
        raise InputError(f"{given} is a directory without an edge list")
    name = given.rstrip("/")
    return [_place(f"{name}/{inner}", filesystem, found[inner], root) for inner in sorted(found, key=_by_number)]


def _matches(filesystem: arrow_fs.FileSystem, pattern: str) -> list[str]:
    handler = getattr(filesystem, "handler", None)
    if handler is not None:
        return list(handler.fs.glob(pattern))
    # Slow to import, and only needed for patterns.
    if isinstance(filesystem, arrow_fs.LocalFileSystem):
        from fsspec.implementations.local import LocalFileSystem

        found = list(LocalFileSystem().glob(pattern))
        for path in found:
            require_text(path)
        return found
    from fsspec.implementations.arrow import ArrowFSWrapper

    return list(ArrowFSWrapper(filesystem).glob(pattern))


def _called(given: str, path: str) -> str:
    if is_url(given):
        return path if is_url(path) else f"{given.partition('://')[0]}://{path}"
    return path if os.path.isabs(given) else os.path.relpath(path)


def _by_number(path: str) -> list[tuple[int, str]]:
    """Return a sort key by which ``part.2`` comes before ``part.10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", path)]


Compression = Literal["none", "gzip", "bzip2", "zstd"]

_MAGIC: tuple[tuple[re.Pattern[bytes], Compression], ...] = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd"),
)
_CODEC = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}
_UNSUPPORTED = (
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x04\x22\x4d\x18", "an lz4 file"),
)
_WORKBOOK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = b"PK\x03\x04"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class _Ahead:
    """A stream read from its beginning that returns the peeked bytes again; a file object for Arrow."""

    closed = False

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.ahead = b""
        self._taken = 0

    def peek(self, n_bytes: int) -> bytes:
        """Return the next bytes without consuming them; fewer only at the end."""
        while len(self.ahead) < n_bytes and (data := self._read(n_bytes - len(self.ahead))):
            self.ahead += data
        return self.ahead[:n_bytes]

    def read(self, n_bytes: int) -> bytes:
        data, self.ahead = self.ahead[:n_bytes], self.ahead[n_bytes:]
        data = data or self._read(n_bytes)
        self._taken += len(data)
        return data

    def tell(self) -> int:
        return self._taken

    def close(self) -> None:
        """Leave the stream open; its opener closes it."""


def known_encoding(encoding: str | None) -> str | None:
    """Return the usual name of an encoding of text; raise InputError if Python has no such encoding."""
    if encoding is None:
        return None
    try:
        bytes(4).decode(encoding, "replace")  # not all codecs decode text
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise InputError(f"unknown encoding {encoding!r}; known are utf-8, utf-16, latin-1, cp1252 ...") from None


class InputFile:
    """A file to convert, read once from its beginning and decompressed on the way; a context manager.

    ``name`` is without directories, for messages and provenance; ``n_bytes`` is the stored size, 0 if unknown. The file
    in an archive is read instead of the archive; ``member`` is its name. Raises InputError if the file cannot be read,
    or is of an unsupported archive format.
    """

    def __init__(self, place: InputLocation) -> None:
        self.place = place
        self.path = place.name
        self.name = self.path.rstrip("/").rsplit("/", 1)[-1]
        self.n_bytes = place.n_bytes
        self._stack = ExitStack()
        try:
            if place.filesystem is None:
                stream = sys.stdin.buffer
                if place.path:
                    stream = self._stack.enter_context(open(place.path, "rb"))  # noqa: SIM115
            else:
                stream = self._stack.enter_context(place.filesystem.open_input_stream(place.path, compression=None))
            self._raw = _Ahead(stream.read)
            magic = self._raw.peek(10)
        except OSError as error:
            self.close()
            raise InputError(f"{self.path} cannot be read {explain(error)}") from error
        self.member: str | None = None
        self._stream, self._text = self._raw, self._raw
        self.compression: Compression = "none"
        self._decoder: codecs.IncrementalDecoder | None = None
        try:
            self._refuse(magic)
            if magic.startswith(_ZIP):
                self._open_member(ZipMember(self._random_access(), self.path))
            else:
                self._unpack(self._raw)
        except BaseException:
            self.close()
            raise

    def _refuse(self, magic: bytes) -> None:
        if magic.startswith(_WORKBOOK):
            raise InputError(
                f"{self.path} is a workbook of Excel; save the sheet as CSV, or read it with pandas.read_excel and "
                "pass the frame"
            )
        for start, what in _UNSUPPORTED:
            if magic.startswith(start):
                raise InputError(
                    f"{self.path} is {what}; unpack it first (gzip, bzip2 and zstd, tar and zip are supported)"
                )

    def _random_access(self) -> Any:
        place = self.place
        if place.filesystem is None:
            raise InputError(f"{self.path} is a zip archive, which cannot be read from a pipe; name the file")
        try:
            return self._stack.enter_context(place.filesystem.open_input_file(place.path))
        except OSError as error:
            raise InputError(f"{self.path} cannot be read {explain(error)}") from error

    def _open_member(self, member: Member) -> None:
        """Read the file in an archive from here on; it may be compressed, too."""
        self.member, self.name = member.name, member.name.rsplit("/", 1)[-1]
        self._unpack(_Ahead(member.read))

    def _unpack(self, stream: _Ahead) -> None:
        """Set the stream of the data, decompressed; in a tar file, of the member with the data."""
        magic = stream.peek(10)
        kind: Compression = next((c for start, c in _MAGIC if start.match(magic)), "none")
        packed: Any = stream
        if kind != "none":
            packed = pa.CompressedInputStream(pa.PythonFile(stream, "r"), _CODEC[kind])
            self.compression = kind
        self._stream = _Ahead(partial(self._decompress, packed, "data" if kind == "none" else f"{kind} data"))
        self._text = _Ahead(self._decode)
        if self.member is None and is_tar(self._stream.peek(TAR_HEAD_BYTES)):
            self._open_member(TarMember(self._stream.read, self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    @property
    def is_plain(self) -> bool:
        """Whether the data are the file itself: not compressed, and not in an archive."""
        return self.compression == "none" and self.member is None

    def peek(self, n_bytes: int) -> bytes:
        """Return the next decompressed bytes, at most ``n_bytes``, without consuming them; raises as :meth:`read`."""
        return self._text.peek(n_bytes)

    def read(self, n_bytes: int) -> bytes:
        """Return the next decompressed bytes, at most ``n_bytes``; empty at the end.

        Raises InputError if compressed data are truncated or corrupt.
        """
        return self._text.read(n_bytes)

    def decode(self, encoding: str | None) -> None:
        """Convert text to UTF-8 from here on; without an encoding, only UTF-16 with a byte order mark.

        Nothing but a beginning may have been peeked at before. A second call has no effect.
        """
        if self._decoder is not None:
            return
        if encoding is None and self.peek(4).startswith(_UTF_16) and not self.peek(4).endswith(b"\0\0"):
            encoding = "utf-16"
        if encoding is None or encoding == "utf-8":
            return
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._text.ahead = self._decoded(self._text.ahead)

    def _decompress(self, packed: Any, what: str, n_bytes: int) -> bytes:
        try:
            data: bytes = packed.read(n_bytes)
        except OSError as error:
            if code_of(error) is not None:
                raise InputError(f"{self.path} cannot be read {explain(error)}") from error
            raise InputError(f"{self.path}: the {what} are truncated or corrupt ({error})") from error
        return data

    def _decode(self, n_bytes: int) -> bytes:
        data = self._stream.read(n_bytes)
        while self._decoder is not None:
            text = self._decoded(data)
            if text or not data:
                return text
            data = self._stream.read(n_bytes)
        return data

    def _decoded(self, data: bytes) -> bytes:
        assert self._decoder is not None
        try:
            return str(self._decoder.decode(data, final=not data)).encode()
        except UnicodeError as error:
            raise InputError(f"{self.path} is not text in this encoding ({error}); use another") from error

    def position_bytes(self) -> int:
        """Return the number of bytes of the stored file read so far, for progress."""
        return self._raw.tell()

    def spool(self, directory: Path) -> Path:
        """Return a local uncompressed file with this file's content, for formats that need random access."""
        if self.is_plain and isinstance(self.place.filesystem, arrow_fs.LocalFileSystem):
            return Path(self.place.path)
        target = directory / "input"
        with target.open("wb") as out:
            while block := self.read(1 << 22):
                out.write(block)
        return target
