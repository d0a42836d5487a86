"""Reading edges from NumPy ``.npy`` arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.storage.column_choice import choose_columns
from papilio.storage.formats import ReadOptions, SourceInfo, describe_columns, raw_schema

_CHUNK_ROWS = 1 << 20
"""Rows read at a time."""


class _NpyFile:
    """The header of a ``.npy`` file of integers, and reads of its rows that do not load the rest."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                version = npy_format.read_magic(file)
                read = (
                    npy_format.read_array_header_1_0
                    if version == (1, 0)
                    else npy_format.read_array_header_2_0
                )
                self.shape, self._fortran, self._dtype = read(file)
                self._offset = file.tell()
        except Exception as error:  # NumPy tokenizes and evaluates the header: a damaged one raises anything
            raise InputError(f"{name} is not a readable .npy file ({error!r}); write it again") from error
        if self._dtype.kind not in "iu":
            raise InputError(f"{name} has dtype {self._dtype}; expected integers")
        if not 1 <= len(self.shape) <= 2 or min(self.shape) < 0:
            raise InputError(f"{name} has shape {self.shape}; expected (k, 2), or two arrays of shape (k,)")
        expected = self._offset + prod(self.shape) * self._dtype.itemsize
        if path.stat().st_size != expected:
            raise InputError(
                f"{name} has {path.stat().st_size} bytes; its header describes {expected}: write it again"
            )

    @property
    def columns(self) -> int:
        return self.shape[1] if len(self.shape) == 2 else 1

    def read(self, start: int, count: int) -> list[NDArray[Any]]:
        """Return ``count`` rows from ``start`` on, one array of shape (count,) per column."""
        width = self._dtype.itemsize
        if self._fortran or self.columns == 1:
            places = [
                self._offset + (column * self.shape[0] + start) * width for column in range(self.columns)
            ]
            return [np.fromfile(self.path, self._dtype, count, offset=place) for place in places]
        place = self._offset + start * self.columns * width
        rows = np.fromfile(self.path, self._dtype, count * self.columns, offset=place)
        return list(rows.reshape(count, self.columns).T)


class NpySource:
    """The edges of one uncompressed ``.npy`` array of shape (k, c), c >= 2, or of two of shape (k,).

    ``names`` are for messages; ``on_read`` is told the fraction read so far, times the size of the files in bytes.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        names: Sequence[str],
        options: ReadOptions,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self._files = [_NpyFile(path, name) for path, name in zip(paths, names, strict=True)]
        self._names = names
        self._options = options
        self._on_read = on_read
        first = self._files[0]
        if len(self._files) == 1 and (len(first.shape) != 2 or first.columns < 2):
            raise InputError(
                f"{names[0]} has shape {first.shape}; expected (k, 2): one row per edge "
                "(transpose it, or give two arrays of shape (k,))"
            )
        if len(self._files) == 2 and any(f.shape != (first.shape[0],) for f in self._files):
            shapes = " and ".join(str(f.shape) for f in self._files)
            raise InputError(f"{' and '.join(names)} have shapes {shapes}; expected the same (k,)")
        columns = sum(f.columns for f in self._files)
        self._columns = choose_columns(names[0], (), columns, options.columns)
        timed = options.sign is not None and self._columns.time is not None
        self.info = SourceInfo("npy", time=pa.int64() if timed else None, layout={"columns": columns})
        describe_columns(self.info, (), columns, self._columns, options.sign is not None)
        if options.labels == "text":
            self.info.labels = ("text", "text")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges in order."""
        schema = raw_schema(self.info, self._options.sign is not None)
        rows = self._files[0].shape[0]
        total = sum(file.path.stat().st_size for file in self._files)
        for start in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - start)
            columns = [column for file in self._files for column in file.read(start, count)]
            chosen = self._columns
            arrays = [_integers(self._names[0], columns[at]) for at in (chosen.u, chosen.v)]
            if self._options.sign is not None and chosen.sign is not None:
                signs = self._options.sign.from_numbers(columns[chosen.sign])
                if signs is None:
                    raise InputError(f"{self._names[0]} holds numbers; sign_values are for words")
                arrays.append(pa.array(signs))
            if self.info.time is not None and chosen.time is not None:
                arrays.append(_integers(self._names[0], columns[chosen.time]))
            fields = [array.cast(f.type) for array, f in zip(arrays, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(fields, schema=schema)
            if self._on_read is not None:
                self._on_read(total * (start + count) // rows)


def _integers(name: str, column: NDArray[Any]) -> pa.Array:
    if column.dtype == np.uint64 and column.size and int(column.max()) >= 2**63:
        raise InputError(f"{name} holds {column.max()}; integers go up to 2^63 - 1")
    return pa.array(column.astype(np.int64))
