"""The stars among maximal bicliques, found on the host (:mod:`papilio.kernels.maximal.stars`)."""

from __future__ import annotations

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Ids32, Rows, make_rows
from papilio.kernels.jit import Bools, compiled
from papilio.kernels.maximal.stars import RaggedColumn, Stars, ask_centres, ask_sizes, make_stars
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart


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


def find_stars(graph: BipartiteGraph, motif: MaximalBiclique, part: MaximalPart | None = None) -> Stars:
    """Return the maximal bicliques with one vertex of U or of V, as far as they are asked for.

    With a ``part``, ``graph`` is its graph, on the host, and stars have their ids in the whole graph.

    O(n_edges) for each vertex of the shortest row of the other layer that a vertex is in, at most.
    """
    rows, columns = make_rows(graph, False), make_rows(graph, True)
    can_be = ask_centres(part, graph.n_u, graph.n_v, graph.u, graph.v)
    found = []
    for own, other, asked, wanted in zip(
        (rows, columns), (columns, rows), can_be, ask_sizes(motif), strict=True
    ):
        centres = np.empty(0, np.int32)
        if wanted is not None:
            least, most = wanted
            _find_uncovered(own, other, least, other.indptr.size if most is None else most, asked)
            centres = np.flatnonzero(asked).astype(np.int32)
        found.append(_take_rows(own, centres))
    return make_stars(found[0], found[1], part)
