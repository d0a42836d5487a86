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

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.storage.formats import Declared

BYTES_PER_LABEL = 5
"""A mark of one byte and a rank of four, for every integer up to the largest label."""

_CHUNK_LABELS = 1 << 20


class LabelTracker:
    """The integer labels of a layer that occur; ``max_labels`` is the size of the largest table.

    Labels from this on, and negative ones, leave only the range known.
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


@dataclass(frozen=True)
class OffsetMap:
    """Labels that start at ``base``, the label of vertex 0: id = label - base."""

    base: int
    size: int
    nbytes = 0

    @property
    def is_identity(self) -> bool:
        return self.base == 0

    def describe(self) -> str:
        """Return how ids follow from labels, for the provenance."""
        return "labels" if self.base == 0 else f"labels minus {self.base}"

    def ids(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        return labels if self.base == 0 else labels - np.int32(self.base)

    def label(self, vertex: int) -> int:
        return vertex + self.base

    def labels(self) -> Iterator[NDArray[np.int64]]:
        """Yield all labels in id order, in parts."""
        for start in range(0, self.size, _CHUNK_LABELS):
            stop = min(start + _CHUNK_LABELS, self.size)
            yield np.arange(start + self.base, stop + self.base, dtype=np.int64)


class TableMap:
    """Labels with gaps: the id of a label is its rank among those that occur, which ``marks`` tells of each."""

    is_identity = False

    def __init__(self, marks: NDArray[np.bool_]) -> None:
        self._marks = marks
        self._rank = np.cumsum(marks, dtype=np.int32)
        self._rank -= 1
        self.size = int(self._rank[-1]) + 1 if marks.size else 0
        self.nbytes = self._rank.nbytes + marks.nbytes

    def describe(self) -> str:
        return "ranks of integer labels"

    def ids(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        return self._rank[labels]

    def label(self, vertex: int) -> int:
        return int(np.searchsorted(self._rank, vertex))

    def labels(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, self._marks.size, _CHUNK_LABELS):
            yield np.flatnonzero(self._marks[start : start + _CHUNK_LABELS]) + start


IdMap = OffsetMap | TableMap
"""Dense ids of integer labels, in numerical order; arrays of labels and ids have shape (k,)."""


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

    Both layers count from the same base, the first of ``declared.bases`` that fits. InputError when labels do not fit
    and the sizes are binding.
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
