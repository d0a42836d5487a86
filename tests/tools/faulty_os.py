"""Files and directories whose every call to the operating system can be made to fail, one after the other."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.ESTALE)

_BY_PATH = ("open", "stat", "lstat", "mkdir", "rmdir", "rename", "replace", "unlink", "scandir", "link")
_BY_DESCRIPTOR = ("write", "pwrite", "pread", "fsync", "ftruncate", "fstat", "close")
_OF_FILE = ("write", "flush", "read")
_OF_PARQUET = ((pq.ParquetWriter, ("__init__", "write_table", "close")), (pq.ParquetFile, ("__init__",)))


class FaultyOs:
    """Counts the calls that concern what lies at or below a path, and makes one of them fail, or all from it on.

    Parameters
    ----------
    root : Path
    at : int
        Number of the call that fails, from 0 on; -1 for none.
    forever : bool
        Whether all later ones fail too.

    Attributes
    ----------
    calls : list of (str, str)
        What was called, and where in the package.
    """

    def __init__(self, root: Path, at: int = -1, *, forever: bool = False) -> None:
        self.calls: list[tuple[str, str]] = []
        self._root, self._at, self._forever = str(root), at, forever
        self._descriptors: set[int] = set()

    def concerns(self, path: Any) -> bool:
        """Whether a path, or an open file, lies at or below the root."""
        if isinstance(path, int):
            return path in self._descriptors
        try:
            return str(os.fspath(path)).startswith(self._root)
        except TypeError:
            return False

    def note(self, name: str, path: Any) -> None:
        """Count a call, and raise when it is its turn."""
        frame = sys._getframe()
        while "/papilio/" not in frame.f_code.co_filename and frame.f_back is not None:
            frame = frame.f_back
        where = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
        number = len(self.calls)
        self.calls.append((name, where))
        if 0 <= self._at <= number if self._forever else number == self._at:
            code = ERRORS[number % len(ERRORS)]
            raise OSError(code, os.strerror(code), None if isinstance(path, int) else str(path))

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the module ``os`` that may fail; one that closes has closed even then."""

        def call(first: Any, *args: Any, **options: Any) -> Any:
            if not self.concerns(first):
                return real(first, *args, **options)
            if name == "close":
                self._descriptors.discard(first)
                real(first)
                return self.note(name, first)
            self.note(name, first)
            result = real(first, *args, **options)
            if name == "open":
                self._descriptors.add(result)
            return result

        return call

    def open_file(self, path: Any, *args: Any, **options: Any) -> Any:
        """Stand in for ``io.open``."""
        if not self.concerns(path):
            return _open(path, *args, **options)
        self.note("open", path)
        file = _open(path, *args, **options)
        self._descriptors.add(file.fileno())
        return _FaultyFile(self, path, file)


class _FaultyFile:
    """An open file whose calls may fail."""

    def __init__(self, faults: FaultyOs, path: Any, file: Any) -> None:
        self._faults, self._path, self._file = faults, path, file

    def __getattr__(self, name: str) -> Any:
        if name in _OF_FILE:
            self._faults.note(name, self._path)
        return getattr(self._file, name)

    def __enter__(self) -> _FaultyFile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._faults._descriptors.discard(self._file.fileno())
        self._file.close()


_open = io.open


@contextmanager
def faulty_os(root: Path, at: int = -1, *, forever: bool = False) -> Iterator[FaultyOs]:
    """Let the calls of this process below ``root`` fail as :class:`FaultyOs` says, until the block ends."""
    faults = FaultyOs(root, at, forever=forever)

    def of_parquet(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            where = args[0] if name == "__init__" else getattr(self, "where", None)
            if name == "close":
                real(self, *args, **options)
            if faults.concerns(where):
                faults.note(f"parquet {name}", where)
            return None if name == "close" else real(self, *args, **options)

        return call

    with (
        patch.multiple(os, **{name: faults.wrap(name, getattr(os, name)) for name in (*_BY_PATH, *_BY_DESCRIPTOR)}),
        patch.object(fcntl, "flock", faults.wrap("flock", fcntl.flock)),
        patch.object(io, "open", faults.open_file),
    ):
        patches = [
            patch.object(kind, name, of_parquet(name, getattr(kind, name)))
            for kind, names in _OF_PARQUET
            for name in names
        ]
        for each in patches:
            each.start()
        try:
            yield faults
        finally:
            for each in patches:
                each.stop()
