"""Where things lie: paths and URLs to read from; files and directories that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import ArrowInvalid
from pyarrow import fs as arrow_fs

from papilio.errors import StoreError

__all__ = [
    "MANIFEST_NAME",
    "atomic_directory",
    "atomic_file",
    "check_replaceable",
    "filesystem_of",
    "is_url",
    "local_path",
]

MANIFEST_NAME = "graph.json"
"""The file that makes a directory a graph store; written last."""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Tell a URL (``s3://bucket/graph``) from a local path."""
    return "://" in os.fspath(path)


def filesystem_of(path: str | os.PathLike[str]) -> tuple[arrow_fs.FileSystem, str]:
    """Return the pyarrow filesystem of ``path`` and the path within it.

    Raises
    ------
    StoreError
        When ``path`` is a URL that pyarrow has no filesystem for.
    """
    text = os.fspath(path)
    if not is_url(text):
        return arrow_fs.LocalFileSystem(), os.path.abspath(text)
    try:
        filesystem, inner = arrow_fs.FileSystem.from_uri(text)
    except (ArrowInvalid, OSError) as error:
        raise StoreError(f"{text}: cannot be reached ({error}); use a local path or another URL") from error
    return filesystem, inner.rstrip("/")


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as a local path to write to.

    Raises
    ------
    StoreError
        For a URL (only local writes are atomic) or when the parent directory does not exist.
    """
    text = os.fspath(path)
    if is_url(text):
        raise StoreError(f"{text}: writing is atomic on local paths only; write locally, then copy it there")
    target = Path(os.path.abspath(text))
    if not target.parent.is_dir():
        raise StoreError(f"{text}: the directory {target.parent} does not exist; create it first")
    return target


def _sibling(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}-{os.getpid()}-{secrets.token_hex(4)}")


def check_replaceable(target: Path, overwrite: bool, marker: str = MANIFEST_NAME) -> None:
    """Check that a directory may appear at ``target``: nothing is there, or one that may be overwritten.

    That is a directory of its kind, which holds a file ``marker``: by default a graph store.

    Raises
    ------
    StoreError
        When something else is there.
    """
    if not os.path.lexists(target):
        return
    if target.is_dir() and not any(target.iterdir()):
        return
    if not overwrite:
        raise StoreError(f"{target} exists already; choose another path or ask to overwrite it")
    if not (target / marker).is_file():
        kind = "a graph store" if marker == MANIFEST_NAME else "of the same kind"
        raise StoreError(f"{target} is not {kind} (no {marker}): not overwritten; remove it")


@contextmanager
def atomic_directory(
    path: str | os.PathLike[str], overwrite: bool = False, marker: str = MANIFEST_NAME
) -> Iterator[Path]:
    """Give a temporary sibling directory that becomes ``path`` when the block ends well, or is removed.

    What may be overwritten is said by ``marker``, see :func:`check_replaceable`.

    Raises
    ------
    StoreError
        When ``path`` cannot be created, exists already, or is something of another kind while ``overwrite`` is
        set.
    """
    target = local_path(path)
    check_replaceable(target, overwrite, marker)
    scratch = _sibling(target, "new")
    try:
        scratch.mkdir()
    except OSError as error:
        raise StoreError(f"{target.parent}: cannot create a directory there ({error.strerror})") from error
    try:
        yield scratch
        check_replaceable(target, overwrite, marker)
        _replace_directory(scratch, target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _replace_directory(scratch: Path, target: Path) -> None:
    if not target.is_dir() or not any(target.iterdir()):
        scratch.rename(target)
        return
    old = _sibling(target, "old")
    target.rename(old)
    try:
        scratch.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary sibling file that replaces ``path`` when the block ends well, or is removed.

    Raises
    ------
    StoreError
        When ``path`` is a URL, is a directory, or lies in a directory that does not exist.
    """
    target = local_path(path)
    if target.is_dir():
        raise StoreError(f"{target} is a directory; give the name of a file")
    scratch = _sibling(target, "new")
    try:
        yield scratch
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
