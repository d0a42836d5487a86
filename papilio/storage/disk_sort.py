"""Sorting edges out of core with DuckDB within a memory limit, and leaving out equal ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.storage.edge_files import EdgeBatch

_BATCH_ROWS = 1 << 19
"""Rows of a batch from DuckDB; deduplicating one takes about 50 MB."""


def connect(**config: Any) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection without a progress bar, which would also be written to files.

    DuckDB draws one in notebooks and with ``python -c``; in a notebook without ipywidgets it neither draws it nor lets
    the setting change.
    """
    connection = duckdb.connect(config=config)
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return connection


class DiskSorter:
    """A DuckDB connection that spills into a scratch directory; a context manager."""

    def __init__(self, scratch: Path, memory_bytes: int, threads: int) -> None:
        self._memory_bytes = memory_bytes
        self._scratch = scratch
        config = {
            "memory_limit": f"{memory_bytes // 2**20}MiB",
            "threads": threads,
            "temp_directory": str(scratch / "spill"),
            "preserve_insertion_order": False,
        }
        with self._errors_named():
            self._connection = connect(**config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def stream(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches, as they arrive; raise CapacityError if memory or disk runs out."""
        with self._errors_named():
            relation = self._connection.sql(query)
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            yield from reader(_BATCH_ROWS)

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Turn errors of DuckDB, which Arrow re-raises as Arrow errors, into a CapacityError."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException) as error:
            raise CapacityError(
                f"sorting failed with {self._memory_bytes // 2**20} MiB of memory and scratch files in "
                f"{self._scratch.parent} ({error}); allow more memory, or use a temporary directory with more space"
            ) from error

    def distinct_labels(self, raw: Path, columns: tuple[str, ...]) -> Iterator[pa.Array]:
        """Yield the distinct labels of some columns of ``raw``, sorted, in parts."""
        parts = " UNION ".join(f"SELECT {column} AS label FROM {_file(raw)}" for column in columns)
        for batch in self.stream(f"SELECT DISTINCT label FROM ({parts}) ORDER BY label"):
            yield batch.column(0)

    def order_edges(
        self,
        raw: Path,
        columns: tuple[str, ...],
        last: bool,
        label_files: tuple[Path, Path] | None = None,
        undirected: bool = False,
    ) -> Iterator[EdgeBatch]:
        """Yield raw edges as ids below 2^31, sorted by (u, v); of equal edges, the one to keep comes first.

        ``raw`` has the columns ``u``, ``v``, and optionally ``sign`` and ``time``. With ``last`` the last of equal
        edges comes first. ``label_files`` have columns id and label, which map labels to ids; with ``undirected`` the
        smaller id of an edge is then u.
        """
        table = _scan(raw, columns)
        if label_files is not None:
            ids = "least(lu.id, lv.id) AS u, greatest(lu.id, lv.id) AS v"
            ids = ids if undirected else "lu.id AS u, lv.id AS v"
            others = "".join(f", raw.{name}" for name in columns[2:])
            others += ", raw.file_row_number" if others else ""
            table = (
                f"(SELECT {ids}{others} FROM {table} raw "
                f"JOIN {_file(label_files[0])} lu ON raw.u = lu.label "
                f"JOIN {_file(label_files[1])} lv ON raw.v = lv.label)"
            )
        selected = "u::INTEGER AS u, v::INTEGER AS v" + (", sign" if "sign" in columns else "")
        for batch in self.stream(f"SELECT {selected} FROM {table} ORDER BY {_order(columns, last)}"):
            arrays = [batch.column(i).to_numpy(zero_copy_only=False) for i in range(batch.num_columns)]
            yield arrays[0], arrays[1], arrays[2] if len(arrays) == 3 else None


def _file(path: Path) -> str:
    return "read_parquet('" + str(path).replace("'", "''") + "')"


def _scan(path: Path, columns: tuple[str, ...]) -> str:
    """Return the table of raw edges; with the position in the input if equal edges can differ (by sign)."""
    if len(columns) == 2:
        return _file(path)
    return _file(path)[:-1] + ", file_row_number = true)"


def _order(columns: tuple[str, ...], last: bool) -> str:
    direction = "DESC" if last else "ASC"
    keys = ["u", "v"]
    if "time" in columns:
        keys.append(f"time {direction}")
    if len(columns) > 2:
        keys.append(f"file_row_number {direction}")
    return ", ".join(keys)


class Deduplicator:
    """Iterates over sorted batches, keeping only the first of equal edges.

    ``duplicates`` counts the edges left out so far; ``example`` is the first of them.
    """

    def __init__(self, batches: Iterator[EdgeBatch]) -> None:
        self._batches = batches
        self.duplicates = 0
        self.example: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[EdgeBatch]:
        previous = -1
        for u, v, sign in self._batches:
            if not u.size:
                continue
            key: NDArray[np.int64] = (u.astype(np.int64) << 32) | v
            new: NDArray[Any] = np.empty(key.size, np.bool_)
            new[0] = int(key[0]) != previous
            np.not_equal(key[1:], key[:-1], out=new[1:])
            previous = int(key[-1])
            repeated = key.size - int(np.count_nonzero(new))
            if not repeated:
                yield u, v, sign
                continue
            self.duplicates += repeated
            if self.example is None:
                at = int(np.argmin(new))
                self.example = (int(u[at]), int(v[at]))
            yield u[new], v[new], None if sign is None else sign[new]
