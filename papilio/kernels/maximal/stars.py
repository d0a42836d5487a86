"""Maximal bicliques of one vertex on a side: found for each vertex alone, without a search.

A vertex and all of its neighbours are one if no other vertex has all of these neighbours. An edge whose ends have no
other neighbour is found at both ends, and belongs to the one in U.

Of a part of a graph the roots are centres, and what is next to a root and to no excluded vertex: no earlier part has
the star then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Ids32, Rows, make_rows
from papilio.kernels.biclique.forms import Cells
from papilio.kernels.checksum import hash_rows, sum_hashes
from papilio.kernels.jit import Bools, compiled
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart

RaggedColumn = tuple[NDArray[np.int64], NDArray[np.int32]]
"""The :data:`~papilio.graph.RowColumn` of rows of any length."""


@dataclass(frozen=True, eq=False)
class Stars:
    """All that are asked for: ``of_u`` and ``of_v`` are columns of U and of V, for centres in U and in V."""

    of_u: tuple[RaggedColumn, RaggedColumn]
    of_v: tuple[RaggedColumn, RaggedColumn]
    cells: Cells
    checksum: int


@compiled
def _has(rows: Rows, row: int, column: int) -> bool:
    low, high = rows.indptr[row], rows.indptr[row + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if rows.ids[middle] < column:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and rows.ids[low] == column)


@compiled
def _is_covered(rows: Rows, columns: Rows, row: int) -> bool:
    """Whether another row has all entries of this one; seeks them among the rows of its shortest column."""
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    shortest = rows.ids[begin]
    for at in range(begin, end):
        column = rows.ids[at]
        if columns.indptr[column + 1] - columns.indptr[column] < (
            columns.indptr[shortest + 1] - columns.indptr[shortest]
        ):
            shortest = column
    for place in range(columns.indptr[shortest], columns.indptr[shortest + 1]):
        other = columns.ids[place]
        if other == row or rows.indptr[other + 1] - rows.indptr[other] < end - begin:
            continue
        at = begin
        while at < end and _has(rows, other, rows.ids[at]):
            at += 1
        if at == end:
            return True
    return False


@compiled
def _find_uncovered(rows: Rows, columns: Rows, least: int, most: int, found: Bools) -> None:
    """Leave of the rows in ``found`` those of ``least`` (at least 1) to ``most`` entries that are centres of stars."""
    for row in range(found.size):
        size = rows.indptr[row + 1] - rows.indptr[row]
        found[row] = found[row] and least <= size <= most and not _is_covered(rows, columns, row)


def _take_rows(rows: Rows, centres: Ids32) -> tuple[RaggedColumn, RaggedColumn]:
    """Return the centres and their rows as columns of a listing."""
    sizes = np.diff(rows.indptr)[centres]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    at = np.arange(offsets[-1]) + np.repeat(rows.indptr[centres] - offsets[:-1], sizes)
    return (np.arange(centres.size + 1), centres), (offsets, rows.ids[at])


def _ask_centres(part: MaximalPart, lefts: Rows, n_right: int) -> tuple[Bools, Bools]:
    """Return which vertices of the anchored layer, and of the other one, are centres of stars of this part."""
    first = np.repeat(np.arange(lefts.indptr.size - 1), np.diff(lefts.indptr))
    is_root, is_excluded = np.zeros((2, lefts.indptr.size - 1), np.bool_)
    is_root[part.roots], is_excluded[part.excluded] = True, True
    n_roots, n_excluded = (
        np.bincount(lefts.ids[each[first]], minlength=n_right) for each in (is_root, is_excluded)
    )
    return is_root, (n_roots > 0) & (n_excluded == 0)


def find_stars(graph: BipartiteGraph, motif: MaximalBiclique, part: MaximalPart | None = None) -> Stars:
    """Return the maximal bicliques with one vertex of U or of V, as far as they are asked for.

    With a ``part``, ``graph`` is its graph, on the host, and stars have their ids in the whole graph.

    O(n_edges) for each vertex of the shortest row of the other layer that a vertex is in, at most.
    """
    rows, columns = make_rows(graph, False), make_rows(graph, True)
    asked_u, asked_v = np.ones(graph.n_u, np.bool_), np.ones(graph.n_v, np.bool_)
    if part is not None and part.layer == "u":
        asked_u, asked_v = _ask_centres(part, rows, graph.n_v)
    elif part is not None:
        asked_v, asked_u = _ask_centres(part, columns, graph.n_u)
    (_, least_u, most_u), (_, least_v, most_v) = motif.bounds

    def centres(
        own: Rows, other: Rows, asked: Bools, least_own: int, least: int, most: int | None
    ) -> NDArray[np.int32]:
        if least_own > 1 or (most is not None and most < least):
            return np.empty(0, np.int32)
        top = other.indptr.size if most is None else most
        found = asked.copy()
        _find_uncovered(own, other, least, top, found)
        return np.flatnonzero(found).astype(np.int32)

    of_u = _take_rows(rows, centres(rows, columns, asked_u, least_u, least_v, most_v))
    lists_v, lists_u = _take_rows(columns, centres(columns, rows, asked_v, least_v, max(least_u, 2), most_u))
    of_v = lists_u, lists_v
    if part is not None:
        of_u, of_v = (((u[0], part.ids_u[u[1]]), (v[0], part.ids_v[v[1]])) for u, v in (of_u, of_v))
    cells: Cells = {}
    for at, sizes in enumerate((np.diff(of_u[1][0]), np.diff(of_v[0][0]))):
        for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
            cells[(1, int(size)) if at == 0 else (int(size), 1)] = int(count)
    checksum = sum(sum_hashes(hash_rows(*columns)) for columns in (of_u, of_v)) % (1 << 64)
    return Stars(of_u, of_v, cells, checksum)
