"""Vectors that live in a file without a name: as large as the disk, with only a slice of them in memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import StoreError

__all__ = ["SLICE_ENTRIES", "file_vector", "release_pages", "slices_of"]

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
