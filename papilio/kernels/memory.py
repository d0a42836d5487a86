"""What the ``memory`` module of a motif family is asked: it predicts peaks from the sizes of a graph or of a part.

Each family's folder has one, with ``predict_graph`` for whole graphs, and ``part_arrays``, ``staged_part`` and
``predict_part`` for parts. Formulas for graphs are sums over the arrays that are alive at the peak, with the widths
that the engines use; they are meant to be above the measured peak, by less than a factor of two on graphs that matter.
"""

from __future__ import annotations

from typing import Protocol

from papilio.kernels.engine import EngineName
from papilio.motifs import Granularity, Listing, Motif

ID, OFFSET, COUNT = 4, 8, 8
"""Bytes of a vertex or edge id, of an offset and of a count."""

DEVICE_PART_BYTES = 48 << 20
"""Of any part on a device: tables of one slice of the schedule, and what the pool rounds up."""

_ROWS_BYTES = {"cpu": 32 << 20, "gpu": 80 << 20}
"""What one thread of a listing holds: blocks of rows, their names, and the file that it writes. A block of a CPU has a
million vertices, one of a GPU four."""

_DEVICE_ROWS_BYTES = 256 << 20
"""What a device makes the rows of a listing in; its buffer takes a share of what is free beside that."""

_NAME_BYTES = 24
"""Name of a vertex in a listing, and the column of labels that it is read from."""


def listing_bytes(n_vertices: int, threads: int, engine: EngineName) -> int:
    """Return the host memory that the rows of a listing take on their way to files, with the names of all vertices."""
    return threads * _ROWS_BYTES[engine] + 2 * n_vertices * _NAME_BYTES


def listing_device_bytes(n_vertices: int) -> int:
    """Return the device memory that the rows of a listing take, with what is known of each vertex."""
    return _DEVICE_ROWS_BYTES + n_vertices * (2 * ID + COUNT)


class CountedGraph(Protocol):
    """A job, as far as its memory depends on it."""

    @property
    def n_u(self) -> int: ...

    @property
    def n_v(self) -> int: ...

    @property
    def n_vertices(self) -> int: ...

    @property
    def n_edges(self) -> int: ...

    @property
    def signed(self) -> bool: ...

    @property
    def motif(self) -> Motif: ...

    @property
    def per(self) -> Granularity: ...

    @property
    def listing(self) -> Listing | None: ...

    @property
    def vector_entries(self) -> int: ...
