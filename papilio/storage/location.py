"""Paths and URLs to read from; files and directories that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pyarrow import ArrowInvalid
from pyarrow import fs as arrow_fs

from papilio.errors import InputError, StoreError
from papilio.extras import missing_package
from papilio.interrupts import held, removed_at_end
from papilio.storage.records import require_size

MANIFEST_NAME = "graph.json"
"""The file that makes a directory a graph store; written last."""


@contextmanager
def os_errors_named(
    path: str | os.PathLike[str], advice: str = "see that it is there and has room"
) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError that names the file that the system refused (else ``path``)."""
    try:
        yield
    except OSError as error:
        where = os.fspath(path)
        named = "" if error.filename is None or str(error.filename) == where else f" at {error.filename}"
        raise StoreError(
            f"{where}: the system refuses it ({error.strerror or error}{named}); {advice}"
        ) from error


def is_url(path: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(path)


def filesystem_of(path: str | os.PathLike[str]) -> tuple[arrow_fs.FileSystem, str]:
    """Return the filesystem of ``path`` and the path within it: pyarrow's, else that of fsspec (https and many more).

    StoreError for a URL that cannot be reached, MissingPackageError for one of https where its extra is not installed.
    """
    text = os.fspath(path)
    if not is_url(text):
        return arrow_fs.LocalFileSystem(), os.path.abspath(text)
    try:
        filesystem, inner = arrow_fs.FileSystem.from_uri(text)
    except (ArrowInvalid, OSError) as error:
        if "Unrecognized filesystem type" not in str(error):
            raise _unreachable(text, error) from error
        filesystem, inner = _fsspec_of(text)
    return filesystem, inner.rstrip("/")


def _fsspec_of(url: str) -> tuple[arrow_fs.FileSystem, str]:
    from fsspec.core import url_to_fs  # slow to import, and only needed for such URLs

    try:
        filesystem, inner = url_to_fs(url)
    except ImportError as error:
        if url.startswith(("http://", "https://")):
            raise missing_package(f"reading {url} needs", "aiohttp", "use a local path") from error
        raise _unreachable(url, error) from error
    except (ValueError, OSError) as error:
        raise _unreachable(url, error) from error
    return arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(filesystem)), inner


def _unreachable(url: str, error: Exception) -> StoreError:
    return StoreError(f"{url}: cannot be reached ({error}); use a local path or another URL")


def read_file(filesystem: arrow_fs.FileSystem, path: str) -> bytes:
    """Return the content of a JSON file without waiting for a pipe or a device; OSError when there is none.

    StoreError when it is larger than any that Papilio writes.
    """
    info = filesystem.get_file_info(path)
    if info.type == arrow_fs.FileType.Unknown:
        raise OSError("it is no regular file")
    require_size(info.size or 0, path, "give another directory")
    with filesystem.open_input_stream(path) as stream:
        content: bytes = stream.read()
    return content


def require_files(
    filesystem: arrow_fs.FileSystem,
    root: str,
    name: str,
    sizes: Sequence[tuple[str, int]],
    what: str,
    remedy: str,
) -> None:
    """Check that files below ``root``, which users call ``name``, have the sizes in bytes that a manifest says.

    StoreError for one that is missing or of another size.
    """
    files = filesystem.get_file_info([f"{root}/{inner}" for inner, _ in sizes])
    for (inner, n_bytes), found in zip(sizes, files, strict=True):
        if found.type != arrow_fs.FileType.File:
            raise StoreError(f"{name}/{inner} is missing; the {what} is incomplete, {remedy}")
        if found.size != n_bytes:
            raise StoreError(
                f"{name}/{inner} has {found.size} bytes and the manifest says {n_bytes}; "
                f"the {what} is truncated or changed, {remedy}"
            )


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as a local path to write to.

    StoreError for a URL (only local writes are atomic) or when the parent directory does not exist.
    """
    text = os.fspath(path)
    if is_url(text):
        raise StoreError(f"{text}: writing is atomic on local paths only; write locally, then copy it there")
    with os_errors_named(text):
        target = Path(os.path.abspath(text))
        is_there = target.parent.is_dir()
    if not is_there:
        raise StoreError(f"{text}: the directory {target.parent} does not exist; create it first")
    return target


def _sibling(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}-{os.getpid()}-{secrets.token_hex(4)}")


def check_replaceable(target: Path, overwrite: bool, marker: str = MANIFEST_NAME) -> None:
    """Check that a directory may appear at ``target``: nothing is there, or one that may be overwritten.

    That is a directory of its kind, which holds a file ``marker``. StoreError when something else is there.
    """
    with os_errors_named(target):
        if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
            return
        is_marked = (target / marker).is_file()
    if not overwrite:
        raise StoreError(_occupied(target))
    if not is_marked:
        kind = "a graph store" if marker == MANIFEST_NAME else "of the same kind"
        raise StoreError(f"{target} is not {kind} (no {marker}): not overwritten; remove it")


@contextmanager
def atomic_directory(
    path: str | os.PathLike[str], overwrite: bool = False, marker: str = MANIFEST_NAME
) -> Iterator[Path]:
    """Make a temporary sibling directory that becomes ``path`` when the block ends well, or is removed.

    ``marker`` says what may be overwritten, see :func:`check_replaceable`. StoreError when ``path`` cannot be created,
    or is there and may not be overwritten.
    """
    target = local_path(path)
    check_replaceable(target, overwrite, marker)
    scratch = _sibling(target, "new")
    try:
        scratch.mkdir()
    except OSError as error:
        raise StoreError(f"{target.parent}: cannot create a directory there ({error.strerror})") from error
    with removed_at_end(scratch):
        try:
            with os_errors_named(target, "see that its directory is there and has room"):
                yield scratch
                check_replaceable(target, overwrite, marker)
                with held():
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


def check_file(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """Return the file to write, before anything is computed: nothing is there, or a file that may be replaced.

    InputError for a directory, a device or the like, and in a directory that cannot be written to; StoreError for a
    URL, in a directory that does not exist, and where something is that may not be replaced.
    """
    target = local_path(path)
    with os_errors_named(target):
        if target.is_dir():
            raise InputError(f"output {target} is a directory; give the name of a file")
        if target.exists() and not target.is_file():
            raise InputError(f"output {target} is no regular file; give the name of a new one")
        if os.path.lexists(target) and not overwrite:
            raise StoreError(_occupied(target))
        folder = local_path(os.path.realpath(target)).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"output {target} lies in a directory that this process cannot write to")
    return target


def _occupied(target: Path) -> str:
    return f"{target} exists already; choose another name, or have it replaced (--overwrite, in Python overwrite=True)"


@contextmanager
def atomic_file(path: str | os.PathLike[str], overwrite: bool = True) -> Iterator[Path]:
    """Name a temporary sibling file that becomes ``path`` when the block ends well, or is removed.

    Where ``path`` is a symbolic link, the file that it leads to is written. With ``overwrite`` a file that is there by
    then is replaced. StoreError when ``path`` is a URL, is a directory, lies in a directory that does not exist, or is
    there and is not to be replaced; for an OSError of the block.
    """
    target = local_path(os.path.realpath(local_path(path)))
    scratch = _sibling(target, "new")
    with removed_at_end(scratch), os_errors_named(target, "see that its directory is there and has room"):
        if target.is_dir():
            raise StoreError(f"{target} is a directory; give the name of a file")
        try:
            yield scratch
            if overwrite:
                scratch.replace(target)
            else:
                _place(scratch, target)
        except BaseException:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)
            raise


def _place(scratch: Path, target: Path) -> None:
    """Give a file its name, unless something has it by now."""
    try:
        target.hardlink_to(scratch)
    except FileExistsError:
        raise StoreError(_occupied(target)) from None
    except OSError:
        # A file system without hard links: there is a moment between looking and renaming.
        if os.path.lexists(target):
            raise StoreError(_occupied(target)) from None
        scratch.rename(target)
    else:
        scratch.unlink()
