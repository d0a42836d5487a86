"""One-dimensional arrays in scratch files, larger than memory, and memory that goes back to the system."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from papilio.errors import StoreError


def empty_pages(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros in pages of its own, which go back to the system with it.

    What ``np.empty`` takes for arrays below 32 MB stays with the process when they end: so much for each thread that
    the memory of a phase would be added to that of the phase before.
    """
    n_bytes = size * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, n_bytes), dtype) if n_bytes else np.empty(0, dtype)


class ArrayFile:
    """A new file that holds ``size`` values of one type, zero until they are written.

    What is read or written is copied, so that only the caller's arrays are resident. Threads may read and write at
    once; what two of them write to one place is either's. Every method raises StoreError when the system refuses.
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
            f"{self.path} ({n_bytes} bytes) cannot be {what}: {error.strerror}; "
            "name a scratch directory with room for it"
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
        """Return the values [start, stop), in the first places of ``out`` if it is given."""
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
    """An array in memory with the methods of :class:`ArrayFile`, for what fits there: reading gives a view."""

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
"""Entries of a slice, 8 MiB: what is in memory at a time."""


def file_vector(directory: Path, size: int) -> NDArray[np.uint64]:
    """Return a vector of ``size`` zeros, uint64, in a file of ``directory``, which goes when the vector does.

    Its pages stay in memory once they are touched, until :func:`release_pages`. StoreError when there is no room.
    """
    if size == 0:
        return np.zeros(0, np.uint64)
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, 8 * size)
            return np.memmap(file, dtype=np.uint64, mode="r+", shape=(size,))
    except OSError as error:
        raise StoreError(
            f"{directory}: cannot hold a vector of {size} counts, {8 * size} bytes ({error.strerror}); make room there"
        ) from error


def release_pages(array: NDArray[Any]) -> None:
    """Take all pages of an array out of memory that lives in a file, this one or one that it is a slice of.

    What was written stays. Any other array is left alone.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None:
        mapped.madvise(mmap.MADV_DONTNEED)


def slices_of(array: NDArray[Any], entries: int = SLICE_ENTRIES) -> Iterator[NDArray[Any]]:
    """Yield the array slice by slice; the pages of one in a file are released after each."""
    for start in range(0, array.size, entries):
        yield array[start : start + entries]
        release_pages(array)


def release_memory() -> None:
    """Return free memory to the system, as far as the allocators of Arrow and of the C library do so on request.

    They keep it for the next allocation of the same kind, which may never come: after a pass over a store some 50 MB.
    Takes a millisecond or a few.
    """
    pa.default_memory_pool().release_unused()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
