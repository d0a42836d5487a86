"""Evidence that edges are of the other kind than assumed: one set of vertices, or two layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.graph import GraphKind, deduplicate
from papilio.storage.column_choice import are_of_one_set, are_of_two_sets
from papilio.storage.edge_files import numbers_of

LOOKS_BIPARTITE = "the input looks bipartite"
"""Beginning of a note. It is not repeated: a graph that looks bipartite is read as unipartite only on request."""

_SAMPLE_EDGES = 1 << 17
_SLICE_EDGES = 1 << 20
_ENOUGH_LABELS = 100
"""Distinct labels on each side from which a sample without a common label represents the whole input."""
_ENOUGH_EDGES = 20
_SHIFTS, _PROBES = 16, 4096
_TURNED = 0.9
_TABLE_ENTRIES, _LEAST_TABLE = 8, 1 << 16
"""Maximum entries of a table of labels: a number per edge, plus a constant."""


class Sides:
    """A sample of the edges of an input, as labels on the left and on the right.

    It has at most 131,072 edges. With integer labels, it contains an edge and its reverse, or neither. ``names`` are
    the names of the two columns, if any; ``said`` is the reason if the input declares itself to be of the other kind.
    """

    def __init__(self, names: Sequence[Any] = (), said: str = "") -> None:
        self.names = [str(name) for name in names]
        self._said = said
        self._u: list[NDArray[Any]] = []
        self._v: list[NDArray[Any]] = []
        self._n_held = 0
        self._halvings = 0  # one edge in 2^halvings is kept

    def add(self, u: Any, v: Any) -> None:
        """Add the next edges, NumPy or Arrow arrays of shape (k,)."""
        for start in range(0, len(u), _SLICE_EDGES):
            self._add(u[start : start + _SLICE_EDGES], v[start : start + _SLICE_EDGES])

    @staticmethod
    def takes_labels(u: NDArray[Any], v: NDArray[Any]) -> bool:
        """Return whether distinct labels tell as much as edges: for text, if they are not too many."""
        return u.dtype == v.dtype == object and max(u.size, v.size) <= _SAMPLE_EDGES

    def add_labels(self, u: NDArray[Any], v: NDArray[Any]) -> None:
        """Add the distinct labels of all edges, shapes (n_u,) and (n_v,), instead of edges."""
        self._u.append(u)
        self._v.append(v)
        self._n_held += max(u.size, v.size)

    def _add(self, u: Any, v: Any) -> None:
        while len(u) >> self._halvings > _SAMPLE_EDGES:
            self._halvings += 1
        u, v = self._thinned(_as_numpy(u, self._halvings), _as_numpy(v, self._halvings))
        self._u.append(u)
        self._v.append(v)
        self._n_held += u.size
        while self._n_held > _SAMPLE_EDGES:
            self._halvings += 1
            u, v = np.concatenate(self._u), np.concatenate(self._v)
            u, v = self._thinned(u, v) if _are_integers(u, v) else (u[::2], v[::2])
            if u.size == self._n_held:  # the same edge over and over
                u, v = u[::2], v[::2]
            self._u, self._v, self._n_held = [u], [v], u.size

    def _thinned(self, u: NDArray[Any], v: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the edges to keep, by a hash of the sum of both labels: both directions of an edge, or neither."""
        if not self._halvings or not _are_integers(u, v):
            return u.copy(), v.copy()
        hashed = (u + v).view(np.uint64)
        hashed *= np.uint64(0x9E3779B97F4A7C15)
        held = np.flatnonzero(hashed < np.uint64(1 << (64 - self._halvings)))
        return u[held], v[held]

    def doubt(self, kind: GraphKind) -> str:
        """Return the reason why edges read as ``kind`` look like the other kind, or an empty string."""
        if self._said or not self._n_held:
            return self._said
        u, v = np.concatenate(self._u), np.concatenate(self._v)
        if not _are_integers(u, v):
            try:
                left, right = set(u.tolist()), set(v.tolist())
            except TypeError:  # labels that are not hashable; the reader rejects them
                return ""
            both, smaller = len(left & right), min(len(left), len(right))
            if all(type(label) is int and abs(label) < 2**62 for label in (*left, *right)):
                u, v = u.astype(np.int64), v.astype(np.int64)
        if _are_integers(u, v):
            lefts, rights = _Labels(u), _Labels(v)
            few, many = sorted((lefts, rights), key=lambda each: each.ordered.size)
            both, smaller = many.count(few.ordered), few.ordered.size
        where = " and ".join(self.names[:2])
        if kind == "unipartite":
            if are_of_two_sets(self.names):
                return f"{where} are names of two kinds of things"
            is_clear = both == 0 and smaller > 1 and (not self._halvings or smaller >= _ENOUGH_LABELS)
            return "no label is in both columns" if is_clear else ""
        if both and are_of_one_set(self.names):
            return f"{where} are names of one kind of thing"
        if both < 3 or 10 * both < smaller:
            return ""
        if _are_integers(u, v):
            return _why_one_set(u, v, lefts, rights, 1 << self._halvings)
        return "most labels are in both columns" if 2 * both >= smaller else ""

    def note(self, provenance: dict[str, Any], kind: GraphKind) -> None:
        """Add a doubt to the provenance of a conversion, as ``doubt`` and among the notes."""
        read = provenance["layout"].get("read", {})
        self.names = [re.sub(r" \(column \d+\)$", "", read[role]) for role in ("u", "v") if role in read]
        why = self.doubt(kind)
        if not why:
            return
        provenance["doubt"] = why
        if kind == "unipartite":
            provenance["notes"].append(f"{LOOKS_BIPARTITE} ({why}), and was read as unipartite")
        elif not any("--unipartite" in note for note in provenance["notes"]):
            provenance["notes"].append(
                f"the input looks unipartite ({why}), and was read as bipartite; --unipartite (in Python "
                "kind='unipartite') if both columns name the same things"
            )


def _as_numpy(labels: Any, halvings: int) -> NDArray[Any]:
    """Return labels as int64, to be thinned later, or one in 2^halvings of them as objects."""
    if isinstance(labels, pa.Array):
        if pa.types.is_integer(labels.type) and not labels.null_count:
            return numbers_of(labels).astype(np.int64, copy=False)
        labels = labels.take(pa.array(np.arange(0, len(labels), 1 << halvings)))
        if pa.types.is_dictionary(labels.type):
            labels = labels.cast(labels.type.value_type)
        return object_array(labels.to_pylist())
    if labels.dtype.kind in "iu":
        return np.asarray(labels, np.int64)
    if labels.dtype.kind == "f" and bool((np.abs(labels) < 2**53).all() and (labels == np.rint(labels)).all()):
        return np.asarray(labels, np.int64)
    return object_array(labels[:: 1 << halvings].tolist())


def object_array(labels: list[Any]) -> NDArray[Any]:
    """Return labels as an array of objects, shape (k,), tuples as one label each."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _are_integers(u: NDArray[Any], v: NDArray[Any]) -> bool:
    return u.dtype == np.int64 and v.dtype == np.int64


class _Labels:
    """The distinct labels of one side: sorted, and found by a table if they are not far apart."""

    def __init__(self, labels: NDArray[np.int64]) -> None:
        self._first, last = int(labels.min()) - 1, int(labels.max()) + 1  # of the table: two absent labels
        self._table = None
        is_near = last - self._first < _TABLE_ENTRIES * labels.size + _LEAST_TABLE
        if is_near and max(-self._first, last) < 2**62:
            self._table = np.zeros(last - self._first + 1, bool)
            self._table[labels - self._first] = True
            self.ordered = np.flatnonzero(self._table) + self._first
        else:
            self.ordered = deduplicate(labels.copy())

    def holds(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which labels, shape (k,), are among these."""
        if self._table is None:
            at = np.minimum(np.searchsorted(self.ordered, labels), self.ordered.size - 1)
            return np.asarray(self.ordered[at] == labels)
        return self._table[np.clip(labels, self._first, self._first + self._table.size - 1) - self._first]

    def count(self, labels: NDArray[np.int64]) -> int:
        """Return how many labels, shape (k,), are among these."""
        return int(np.count_nonzero(self.holds(labels)))


def _why_one_set(u: NDArray[np.int64], v: NDArray[np.int64], left: _Labels, right: _Labels, weight: int) -> str:
    """Return the reason why integers look like labels of one set; each edge stands for ``weight`` edges.

    ``left`` and ``right`` are the distinct labels. Two dense ranges, of users and of items, overlap anyway. Labels of
    one set have the same gaps: far more are common than if one side is shifted a little.
    """
    n_left, n_right = left.ordered.size, right.ordered.size
    probes = left.ordered[:: -(-n_left // _PROBES)]
    common = right.count(probes)
    shifts = [step for size in range(1, _SHIFTS + 1) for step in (-size, size)]
    chance = max(right.count(probes + step) for step in shifts)
    if common > 1.5 * chance and common - chance > 4 * chance**0.5:
        return "labels with the same gaps are in both columns"
    proper = u != v
    n_proper = int(np.count_nonzero(proper))
    if n_proper < _ENOUGH_EDGES:
        return ""
    if 2 * weight * n_proper < n_left * n_right and _are_turned(u, v, proper, left, right):
        return "nearly every edge occurs in both directions"  # which chance alone does not do
    if bool((u < v).all()) or bool((u > v).all()):
        mixed = u < np.random.default_rng(0).permutation(v)
        if 0.1 < mixed.mean() < 0.9:
            return "every edge has the smaller label on the same side"
    return ""


def _are_turned(
    u: NDArray[np.int64], v: NDArray[np.int64], proper: NDArray[np.bool_], left: _Labels, right: _Labels
) -> bool:
    """Return whether nearly all edges that are no loops, ``proper``, are there in both directions."""
    n_proper = int(np.count_nonzero(proper))
    few = np.flatnonzero(proper)[:: -(-n_proper // _PROBES)]
    possible = left.holds(v[few]) & right.holds(u[few])  # both ends must be on both sides
    if np.count_nonzero(possible) < _TURNED * few.size:
        return False
    edges, turned = deduplicate(_mixed(u, v)), _mixed(v[proper], u[proper])
    return all(
        np.count_nonzero(edges[np.minimum(np.searchsorted(edges, each), edges.size - 1)] == each) >= _TURNED * each.size
        for each in (turned[:: -(-n_proper // _PROBES)], turned)
    )


def _mixed(u: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for each edge that another edge has only by chance."""
    numbers = u.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    numbers ^= numbers >> np.uint64(32)
    return numbers * np.uint64(0xC2B2AE3D27D4EB4F) + v.astype(np.uint64)
