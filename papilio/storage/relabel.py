"""Dense ids for integer labels, without a join: ids follow the numerical order of the labels.

While edges are read, a table of marks notes which labels occur. Then one of two maps serves:

* an offset, when the labels are an interval, or lie within the sizes that a header declares
  (declared vertices without an edge are kept, isolated);
* a table of ranks, when there are gaps.

Labels too widespread for a table within the memory budget, and text, are joined by DuckDB instead; see
:mod:`papilio.storage.ordering`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.storage.formats import Declared

__all__ = ["IdMap", "LabelTracker", "OffsetMap", "TableMap", "declared_maps", "dense_map"]

BYTES_PER_LABEL = 5
"""A mark of one byte and a rank of four, for every integer up to the largest label."""

_CHUNK_LABELS = 1 << 20


class LabelTracker:
    """Notes which integer labels of a layer occur.

    Parameters
    ----------
    max_labels : int
        Largest table; labels from this on, and negative ones, leave only the range known.
    """

    def __init__(self, max_labels: int) -> None:
        self._max_labels = min(max_labels, 2**31 - 1)
        self.smallest: int | None = None
        self.largest: int | None = None
        self.marks: NDArray[np.bool_] | None = np.zeros(1024, np.bool_)

    def add(self, labels: NDArray[np.int64]) -> None:
        """Note labels, shape (k,)."""
        if not labels.size:
            return
        low, high = int(labels.min()), int(labels.max())
        self.smallest = low if self.smallest is None else min(self.smallest, low)
        self.largest = high if self.largest is None else max(self.largest, high)
        if self.marks is None:
            return
        if low < 0 or high >= self._max_labels:
            self.marks = None
            return
        if high >= self.marks.size:
            marks = np.zeros(min(max(high + 1, 2 * self.marks.size), self._max_labels), np.bool_)
            marks[: self.marks.size] = self.marks
            self.marks = marks
        self.marks[labels] = True


class IdMap(Protocol):
    """Dense ids of integer labels, in numerical order."""

    @property
    def size(self) -> int:
        """Number of vertices."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        ...

    @property
    def is_identity(self) -> bool:
        """Whether labels are the ids."""
        ...

    def ids(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the id of each label; both of shape (k,)."""
        ...

    def label(self, vertex: int) -> int:
        """Return the label of an id."""
        ...

    def labels(self) -> Iterator[NDArray[np.int64]]:
        """Yield all labels in id order, in parts."""
        ...

    def describe(self) -> str:
        """Return how ids follow from labels, for the provenance."""
        ...


@dataclass(frozen=True)
class OffsetMap:
    """Labels that start at ``base``: id = label - base.

    Attributes
    ----------
    base : int
        Label of vertex 0.
    size : int
        Vertices.
    """

    base: int
    size: int

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return 0

    @property
    def is_identity(self) -> bool:
        """Whether labels are the ids."""
        return self.base == 0

    def describe(self) -> str:
        """Return how ids follow from labels, for the provenance."""
        return "labels" if self.base == 0 else f"labels minus {self.base}"

    def ids(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the id of each label; both of shape (k,)."""
        return labels if self.base == 0 else labels - np.int32(self.base)

    def label(self, vertex: int) -> int:
        """Return the label of an id."""
        return vertex + self.base

    def labels(self) -> Iterator[NDArray[np.int64]]:
        """Yield all labels in id order, in parts."""
        for start in range(0, self.size, _CHUNK_LABELS):
            stop = min(start + _CHUNK_LABELS, self.size)
            yield np.arange(start + self.base, stop + self.base, dtype=np.int64)


class TableMap:
    """Labels with gaps: the id of a label is its rank among those that occur.

    Parameters
    ----------
    marks : ndarray of bool, shape (largest label + 1,), host
        Which labels occur.
    """

    def __init__(self, marks: NDArray[np.bool_]) -> None:
        self._marks = marks
        self._rank = np.cumsum(marks, dtype=np.int32)
        self._rank -= 1
        self._size = int(self._rank[-1]) + 1 if marks.size else 0

    @property
    def size(self) -> int:
        """Number of vertices."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._rank.nbytes + self._marks.nbytes

    @property
    def is_identity(self) -> bool:
        """Whether labels are the ids."""
        return False

    def describe(self) -> str:
        """Return how ids follow from labels, for the provenance."""
        return "ranks of integer labels"

    def ids(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the id of each label; both of shape (k,)."""
        return self._rank[labels]

    def label(self, vertex: int) -> int:
        """Return the label of an id."""
        return int(np.searchsorted(self._rank, vertex))

    def labels(self) -> Iterator[NDArray[np.int64]]:
        """Yield all labels in id order, in parts."""
        for start in range(0, self._marks.size, _CHUNK_LABELS):
            yield np.flatnonzero(self._marks[start : start + _CHUNK_LABELS]) + start


def dense_map(tracker: LabelTracker) -> IdMap | None:
    """Return the map that leaves no gaps between the labels seen, or None when they are too widespread."""
    if tracker.smallest is None or tracker.largest is None:
        return OffsetMap(0, 0)
    if tracker.marks is None:
        return None
    marks = tracker.marks[: tracker.largest + 1]
    count = int(np.count_nonzero(marks))
    if count == tracker.largest - tracker.smallest + 1:
        return OffsetMap(tracker.smallest, count)
    return TableMap(marks)


def declared_maps(
    name: str, declared: Declared, trackers: tuple[LabelTracker, LabelTracker]
) -> tuple[OffsetMap, OffsetMap] | None:
    """Return the maps by which all labels lie within declared sizes, or None when there are none.

    Both layers count from the same base, the first of ``declared.bases`` that fits.

    Raises
    ------
    InputError
        When labels do not fit and the sizes are binding.
    """
    sizes = (declared.n_u, declared.n_v)
    for base in declared.bases:
        if all(
            t.smallest is None or t.largest is None or (t.smallest >= base and t.largest < base + size)
            for t, size in zip(trackers, sizes, strict=True)
        ):
            return OffsetMap(base, sizes[0]), OffsetMap(base, sizes[1])
    if not declared.binding:
        return None
    found = " and ".join(f"{t.smallest} to {t.largest}" for t in trackers)
    raise InputError(
        f"{name} declares {sizes[0]} and {sizes[1]} vertices and holds ids {found}; correct the header, "
        "or force another format, such as edges, if its first line is an edge"
    )
