"""Paths and URLs to read from; files and directories that appear complete or not at all.

One-dimensional arrays in scratch files, larger than memory; returning memory to the system.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from pyarrow import ArrowInvalid
from pyarrow import fs as arrow_fs

from papilio.errors import InputError, PapilioError, StoreError, StoreNotFoundError
from papilio.extras import missing_package
from papilio.signals import removed_at_end, uninterrupted
from papilio.storage.records import require_size
from papilio.system_errors import explain, place_of

_LOG = logging.getLogger("papilio")

MANIFEST_NAME = "graph.json"
"""The file that makes a directory a graph store; written last."""


@contextmanager
def os_errors_named(path: str | os.PathLike[str], after: str = "") -> Iterator[None]:
    """Turn an OSError of the block into a StoreError that names ``path`` and the file; ``after`` follows its remedy."""
    try:
        yield
    except PapilioError:
        raise
    except (OSError, ArrowInvalid) as error:
        where = os.fspath(path)
        named = "" if getattr(error, "filename", None) == where else place_of(error)
        raise StoreError(f"{where}: the system reports an error{named} {explain(error, after)}") from error


def is_url(path: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(path)


def require_text(path: str) -> str:
    """Return a path; InputError if it is not text in UTF-8, which Arrow and the files of Papilio need."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError(f"the name of {os.fsencode(path)!r} is not UTF-8; rename it") from None
    return path


_KERNEL_FILES = ("/proc/", "/sys/")
"""Directories whose regular files may wait for an event for ever."""

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)


def _kind_of_file(path: str) -> str:
    """Return what is at a local path, as ``a pipe``; empty for a regular file or nothing. Raises OSError."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if stat.S_ISREG(mode):
        return "a file of the kernel" if os.path.realpath(path).startswith(_KERNEL_FILES) else ""
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "not a regular file")


def is_pipe(path: str) -> bool:
    """Return whether a local path is a pipe; InputError for what is neither that nor a file or a directory."""
    with os_errors_named(path):
        kind = _kind_of_file(path)
    if kind not in ("", "a directory", "a pipe"):
        raise InputError(f"{path} is {kind}; only files, pipes and standard input (-) are read")
    return kind == "a pipe"


def filesystem_of(path: str | os.PathLike[str]) -> tuple[arrow_fs.FileSystem, str]:
    """Return the filesystem of ``path`` and the path within it: by pyarrow, else by fsspec (https and many more).

    Raises StoreError for an unreachable URL, MissingPackageError for an https URL if its extra is not installed.
    """
    text = os.fspath(path)
    require_text(text)
    if not is_url(text):
        return arrow_fs.LocalFileSystem(), require_text(os.path.abspath(text))
    if "::" in text:  # chained, as in zip://member::archive.zip
        filesystem, inner = _fsspec_of(text)
        return filesystem, inner.rstrip("/")
    try:
        filesystem, inner = arrow_fs.FileSystem.from_uri(text)
    except (ArrowInvalid, OSError) as error:
        if "Unrecognized filesystem type" not in str(error):
            raise _unreachable(text, error) from error
        filesystem, inner = _fsspec_of(text)
    if not inner and not isinstance(filesystem, arrow_fs.LocalFileSystem):
        raise InputError(f"{text} is not a whole URL; name the bucket or host, and the path in it")
    return filesystem, inner.rstrip("/")


def _fsspec_of(url: str) -> tuple[arrow_fs.FileSystem, str]:
    from fsspec.core import url_to_fs  # slow to import, and only needed for such URLs

    try:
        filesystem, inner = url_to_fs(url)
    except ImportError as error:
        if url.startswith(("http://", "https://")):
            raise missing_package(f"reading {url} needs", "aiohttp", "use a local path") from error
        raise _unreachable(url, error) from error
    except Exception as error:  # each of many file systems has its own
        raise _unreachable(url, error) from error
    return arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(filesystem)), inner


def _unreachable(url: str, error: Exception) -> StoreError:
    return StoreError(f"{url}: cannot be reached {explain(error, 'use a local path or another URL')}")


def read_file(filesystem: arrow_fs.FileSystem, path: str) -> bytes:
    """Return the content of a JSON file without waiting for a pipe or a device.

    Raises OSError if there is no such file, StoreError if it is larger than any file that Papilio writes.
    """
    try:
        info = filesystem.get_file_info(path)
    except (ArrowInvalid, ValueError) as error:
        raise OSError(str(error)) from error
    if info.type == arrow_fs.FileType.Unknown:
        raise OSError("it is no regular file")
    require_size(info.size or 0, path, "choose another directory")
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
    """Check that files below ``root``, which users call ``name``, have the sizes in bytes given by a manifest.

    Raises StoreError if a file is missing or has another size.
    """
    files = filesystem.get_file_info([f"{root}/{inner}" for inner, _ in sizes])
    for (inner, n_bytes), found in zip(sizes, files, strict=True):
        if found.type != arrow_fs.FileType.File:
            raise StoreError(f"{name}/{inner} is missing; the {what} is incomplete, {remedy}")
        if found.size != n_bytes:
            raise StoreError(
                f"{name}/{inner} has {found.size} bytes, but the manifest has {n_bytes}; the {what} is truncated or "
                f"changed, {remedy}"
            )


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as a local path to write to.

    Raises StoreError for a URL (only local writes are atomic), StoreNotFoundError if its parent does not exist.
    """
    text = os.fspath(path)
    if is_url(text):
        raise StoreError(f"{text}: writing is atomic only on local paths; write locally, then copy it there")
    with os_errors_named(text):
        target = Path(require_text(os.path.abspath(text)))
        is_there = target.parent.is_dir()
    if not is_there:
        raise StoreNotFoundError(f"{text}: the directory {target.parent} does not exist; create it first")
    return target


def _sibling(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}-{os.getpid()}-{secrets.token_hex(4)}")


def check_replaceable(target: Path, overwrite: bool, marker: str = MANIFEST_NAME) -> None:
    """Check that a directory may appear at ``target``: nothing exists there, or a directory that may be overwritten.

    Only a directory that contains a file ``marker`` may be overwritten. Raises StoreError for anything else.
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
    """Make a temporary sibling directory that becomes ``path`` if the block succeeds, and is removed otherwise.

    ``marker`` determines which directory may be overwritten, see :func:`check_replaceable`. Raises StoreError if
    ``path`` cannot be created, or exists and may not be overwritten.
    """
    target = local_path(path)
    check_replaceable(target, overwrite, marker)
    scratch = _sibling(target, "new")
    try:
        scratch.mkdir()
    except OSError as error:
        raise StoreError(f"{target.parent}: cannot create a directory there {explain(error)}") from error
    with removed_at_end(scratch):
        try:
            with os_errors_named(target):
                yield scratch
                check_replaceable(target, overwrite, marker)
                with uninterrupted():
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
    """Check a file to write before the computation, and return it: it does not exist, or may be replaced.

    Raises InputError for a directory, a device or the like, or if the directory is not writable. Raises StoreError for
    a URL, if the directory does not exist, or if something exists that may not be replaced.
    """
    target = local_path(path)
    with os_errors_named(target):
        if target.is_dir():
            raise InputError(f"output {target} is a directory; choose a file name")
        if target.exists() and not target.is_file():
            raise InputError(f"output {target} is not a regular file; choose a new name")
        if os.path.lexists(target) and not overwrite:
            raise StoreError(_occupied(target))
        folder = local_path(os.path.realpath(target)).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"output {target} is in a directory that this process cannot write to")
    return target


def _occupied(target: Path) -> str:
    return f"{target} already exists; choose another name, or replace it (--overwrite, in Python overwrite=True)"


@contextmanager
def atomic_file(path: str | os.PathLike[str], overwrite: bool = True) -> Iterator[Path]:
    """Name a temporary sibling file that becomes ``path`` if the block succeeds, and is removed otherwise.

    If ``path`` is a symbolic link, its target is written. With ``overwrite`` a file that exists by then is replaced.
    Raises StoreError if ``path`` is a URL or a directory, lies in a directory that does not exist, or exists and may
    not be replaced; also for an OSError of the block.
    """
    target = local_path(os.path.realpath(local_path(path)))
    scratch = _sibling(target, "new")
    with (
        removed_at_end(scratch),
        os_errors_named(target),
    ):
        if target.is_dir():
            raise StoreError(f"{target} is a directory; choose a file name")
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
    """Rename a file into place, unless the name is taken by now."""
    try:
        target.hardlink_to(scratch)
    except FileExistsError:
        raise StoreError(_occupied(target)) from None
    except OSError:
        # A file system without hard links: the check and the renaming are not atomic.
        if os.path.lexists(target):
            raise StoreError(_occupied(target)) from None
        scratch.rename(target)
    else:
        scratch.unlink()


def empty_pages(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros in separate pages, which return to the system with the array.

    Memory that ``np.empty`` takes for arrays below 32 MB stays with the process after they are freed. With one such
    array per thread, the memory of one phase would add to the memory of the next.
    """
    n_bytes = size * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, n_bytes), dtype) if n_bytes else np.empty(0, dtype)


class ArrayFile:
    """A new file of ``size`` values of one type, initially zero.

    Reads and writes copy, so only the caller's arrays are resident. Threads may read and write at once; if two write to
    the same place, either value may remain. Every method raises StoreError on system errors.
    """

    def __init__(self, path: Path, dtype: DTypeLike, size: int) -> None:
        self.path, self.dtype, self.size = path, np.dtype(dtype), size
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._problem("made", error) from error
        try:
            os.ftruncate(self._file, size * self.dtype.itemsize)
        except OSError as error:
            self.remove()
            raise self._problem("made", error) from error

    def _problem(self, what: str, error: OSError) -> StoreError:
        n_bytes = self.size * self.dtype.itemsize
        return StoreError(
            f"{self.path} ({n_bytes} bytes) cannot be {what} {explain(error, 'or use another scratch directory')}"
        )

    def _check(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"{self.path}: [{start}, {stop}) is not within [0, {self.size})")

    def write(self, start: int, values: NDArray[Any]) -> None:
        """Write contiguous values of the file's type from place ``start`` on."""
        self._check(start, start + values.size)
        if values.dtype != self.dtype:
            raise ValueError(f"{self.path} holds {self.dtype}; got {values.dtype}")
        rest, at = values.view(np.uint8).data, start * self.dtype.itemsize
        try:
            while rest:
                done = os.pwrite(self._file, rest, at)
                rest, at = rest[done:], at + done
        except OSError as error:
            raise self._problem("written", error) from error

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the values [start, stop), in the first places of ``out`` if given."""
        self._check(start, stop)
        values = np.empty(stop - start, self.dtype) if out is None else out[: stop - start]
        rest, at = values.view(np.uint8).data, start * self.dtype.itemsize
        try:
            while rest:
                done = os.preadv(self._file, [rest], at)
                if done == 0:
                    raise StoreError(f"{self.path} ends at byte {at}: it was changed by another program")
                rest, at = rest[done:], at + done
        except OSError as error:
            raise self._problem("read", error) from error
        return values

    def remove(self) -> None:
        """Close and remove the file; once only."""
        os.close(self._file)
        self.path.unlink(missing_ok=True)


class ArrayMemory:
    """An array in memory with the methods of :class:`ArrayFile`; reading gives a view."""

    def __init__(self, dtype: DTypeLike, size: int) -> None:
        self._values = empty_pages(size, dtype)

    def write(self, start: int, values: NDArray[Any]) -> None:
        """Write values from place ``start`` on."""
        self._values[start : start + values.size] = values

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a view of the values [start, stop)."""
        return self._values[start:stop]

    def remove(self) -> None:
        self._values = empty_pages(0, self._values.dtype)


SLICE_ENTRIES = 1 << 20
"""Entries of a slice, held in memory at a time: 8 MiB."""


def file_vector(directory: Path, size: int) -> NDArray[np.uint64]:
    """Return a vector of ``size`` zeros, uint64, in a file of ``directory`` that is removed with the vector.

    Touched pages stay in memory until :func:`release_pages`. Raises StoreError if there is no space.
    """
    if size == 0:
        return np.zeros(0, np.uint64)
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, 8 * size)
            return np.memmap(file, dtype=np.uint64, mode="r+", shape=(size,))
    except OSError as error:
        raise StoreError(
            f"{directory}: cannot hold a vector of {size} counts, {8 * size} bytes {explain(error)}"
        ) from error


def release_pages(array: NDArray[Any]) -> None:
    """Release all pages of an array that lives in a file, or is a slice of such an array, from memory.

    Written values are kept. Other arrays are left alone.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None:
        mapped.madvise(mmap.MADV_DONTNEED)


LATE_S = 60.0
"""How long a path that another host has written may be missing here: network file systems keep what they know of a
directory for up to a minute (``acdirmax`` of NFS)."""

_LATE_POLL_S, _LATE_TOLD_S = 0.02, 5.0


def await_paths(paths: Iterable[str], limit_s: float = LATE_S) -> None:
    """Wait until paths that another host has written exist here too, for at most ``limit_s`` in all.

    The user of a path that is still missing reports that.
    """
    began, told = monotonic(), False
    for path in paths:
        while not os.path.exists(path) and (waited_s := monotonic() - began) < limit_s:
            if waited_s >= _LATE_TOLD_S and not told:
                told = True
                _LOG.warning(
                    "papilio: another machine wrote %s, which this one does not find yet; waiting up to %.0f s",
                    path, limit_s,
                )  # fmt: skip
            sleep(_LATE_POLL_S)


def slices_of(array: NDArray[Any], entries: int = SLICE_ENTRIES) -> Iterator[NDArray[Any]]:
    """Yield the array slice by slice; if it lives in a file, the pages of each slice are released after use."""
    for start in range(0, array.size, entries):
        yield array[start : start + entries]
        release_pages(array)


def release_memory() -> None:
    """Return free memory to the system, as far as the allocators of Arrow and the C library support it.

    They keep it for the next allocation of the same kind, which may never come: some 50 MB after a pass over a store.
    Takes a few milliseconds at most.
    """
    pa.default_memory_pool().release_unused()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
