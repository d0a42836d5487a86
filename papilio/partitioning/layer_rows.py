"""The rows of one layer by rank, in scratch files, read a range at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from papilio.partitioning.arrays import Ids, Ints
from papilio.parts import Layer
from papilio.storage.files import ArrayFile


class LayerRows:
    """The rows of one layer: its vertices by rank, those without a kept edge left out. Any thread may read."""

    def __init__(self, layer: Layer, directory: Path, order: Ids, indptr: Ints, with_edges: bool) -> None:
        self.layer = layer
        # Id in the store of each rank, and where its row begins: int32 (n_rows,), int64 (n_rows + 1,).
        self.order, self.indptr = order, indptr
        self.n_rows, self.n_entries = int(order.size), int(indptr[-1])
        # Neighbours of each vertex that precede it in the order of both layers, and counted wedges that start there.
        self.split, self.work = np.empty(self.n_rows, np.int32), np.zeros(self.n_rows, np.int64)
        # Rank of each neighbour.
        with ExitStack() as stack:
            self.ids = ArrayFile(directory / f"ids-{layer}", np.int32, self.n_entries)
            stack.callback(self.ids.remove)
            self.edge_ids = (
                ArrayFile(directory / f"edges-{layer}", np.int64, self.n_entries) if with_edges else None
            )
            stack.pop_all()

    @property
    def nbytes(self) -> int:
        return self.order.nbytes + self.indptr.nbytes + self.split.nbytes + self.work.nbytes

    def read(self, first: int, stop: int) -> Ids:
        """Return the neighbours of the ranks [first, stop), ranks in the other layer, ascending for each."""
        return self.ids.read(int(self.indptr[first]), int(self.indptr[stop]))

    def read_edges(self, first: int, stop: int) -> Ints:
        """Return the edge ids in the store of what :meth:`read` returns; only if they were asked for."""
        if self.edge_ids is None:
            raise ValueError("the rows were made without edge ids; make them with_edges")
        return self.edge_ids.read(int(self.indptr[first]), int(self.indptr[stop]))

    def end_entries(self, first: int, stop: int) -> Ints:
        """Return the number of middles of which each vertex of ranks [first, stop) is an end."""
        return np.asarray(np.diff(self.indptr[first : stop + 1]) - self.split[first:stop], dtype=np.int64)

    def remove(self) -> None:
        """Remove the files."""
        self.ids.remove()
        if self.edge_ids is not None:
            self.edge_ids.remove()


@dataclass(frozen=True, eq=False)
class RowPair:
    """The rows of a graph seen from one of its layers, and those of the other."""

    own: LayerRows
    other: LayerRows


def span_rows(indptr: Ints, first: int, stop: int, max_entries: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that tile [first, stop), each of at most so many entries, or of one row.

    Row i has the entries ``[indptr[i], indptr[i + 1])``.
    """
    while first < stop:
        last = int(np.searchsorted(indptr, indptr[first] + max_entries, side="right")) - 1
        last = min(max(last, first + 1), stop)
        yield first, last
        first = last
