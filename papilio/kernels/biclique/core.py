"""The part of a graph that can hold (p,q)-bicliques, by rows of either layer.

A vertex of the left layer with fewer than q neighbours, or of the right with fewer than p, is in no biclique;
what remains when they are removed again and again is the core. Left and right are U and V, or V and U.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Bools, Ints, compiled
from papilio.kernels.offsets import count_ids, offsets_of

Ids32 = NDArray[np.int32]


class Rows(NamedTuple):
    """Rows of ascending ids: row x is ``ids[indptr[x]:indptr[x + 1]]``."""

    indptr: Ints
    ids: Ids32


class Core(NamedTuple):
    """What remains of a graph, in the order of the original ids.

    ``rows`` are the right ids of every left vertex; ``left_ids`` and ``right_ids`` the original ids.
    """

    rows: Rows
    left_ids: Ids32
    right_ids: Ids32


@compiled
def _transpose(rows: Rows, cursor: Ints, ids: Ids32) -> None:
    for row in range(rows.indptr.size - 1):
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            column = rows.ids[at]
            ids[cursor[column]] = row
            cursor[column] += 1


def transpose_rows(rows: Rows, n_columns: int) -> Rows:
    """Return the rows of the other layer; O(entries)."""
    indptr, ids = offsets_of(count_ids(rows.ids, n_columns)), np.empty_like(rows.ids)
    _transpose(rows, indptr[:-1].copy(), ids)
    return Rows(indptr, ids)


@compiled
def _peel(
    rows: Rows,
    columns: Rows,
    least_row: int,
    least_column: int,
    row_degree: Ints,
    column_degree: Ints,
    row_kept: Bools,
    column_kept: Bools,
    queue: Ints,
) -> None:
    """Mark what is not in the core, where rows keep ``least_row`` entries; O(entries)."""
    n_rows, n_columns = rows.indptr.size - 1, columns.indptr.size - 1
    begin, end = 0, 0
    for row in range(n_rows):
        if row_degree[row] < least_row:
            row_kept[row] = False
            queue[end] = row
            end += 1
    for column in range(n_columns):
        if column_degree[column] < least_column:
            column_kept[column] = False
            queue[end] = n_rows + column
            end += 1
    while begin < end:
        vertex = queue[begin]
        begin += 1
        if vertex < n_rows:
            for at in range(rows.indptr[vertex], rows.indptr[vertex + 1]):
                column = rows.ids[at]
                column_degree[column] -= 1
                if column_kept[column] and column_degree[column] < least_column:
                    column_kept[column] = False
                    queue[end] = n_rows + column
                    end += 1
        else:
            vertex -= n_rows
            for at in range(columns.indptr[vertex], columns.indptr[vertex + 1]):
                row = columns.ids[at]
                row_degree[row] -= 1
                if row_kept[row] and row_degree[row] < least_row:
                    row_kept[row] = False
                    queue[end] = row
                    end += 1


@compiled
def _keep(rows: Rows, lefts: Ids32, column_kept: Bools, new: Ints, indptr: Ints, ids: Ids32) -> None:
    end = 0
    for i in range(lefts.size):
        for at in range(rows.indptr[lefts[i]], rows.indptr[lefts[i] + 1]):
            if column_kept[rows.ids[at]]:
                ids[end] = new[rows.ids[at]]
                end += 1
        indptr[i + 1] = end


def _keep_rows(rows: Rows, lefts: Ids32, column_kept: Bools) -> Rows:
    """Return the kept entries of some rows, rows and columns numbered anew in their order."""
    indptr, ids = np.zeros(lefts.size + 1, np.int64), np.empty_like(rows.ids)
    _keep(rows, lefts, column_kept, np.cumsum(column_kept) - 1, indptr, ids)
    return Rows(indptr, ids[: indptr[-1]].copy())


@compiled
def _copy_rows(rows: Rows, order: Ints, indptr: Ints, ids: Ids32) -> None:
    for i in range(order.size):
        begin, end = rows.indptr[order[i]], rows.indptr[order[i] + 1]
        for at in range(begin, end):
            ids[indptr[i] + at - begin] = rows.ids[at]


def order_rows(rows: Rows, order: Ints) -> Rows:
    """Return the rows in the order given: row i is the old row ``order[i]``."""
    indptr, ids = offsets_of(np.diff(rows.indptr)[order]), np.empty_like(rows.ids)
    _copy_rows(rows, order, indptr, ids)
    return Rows(indptr, ids)


def make_rows(graph: BipartiteGraph, swapped: bool) -> Rows:
    """Return the rows of U, or of V when ``swapped``; O(n_edges)."""
    rows = Rows(graph.indptr, graph.v)
    return transpose_rows(rows, graph.n_v) if swapped else rows


def reduce_to_core(graph: BipartiteGraph, swapped: bool, least_left: int, least_right: int) -> Core:
    """Remove what is in no biclique of ``least_left`` left and ``least_right`` right vertices; O(n_edges)."""
    return reduce_rows(make_rows(graph, swapped), make_rows(graph, not swapped), least_left, least_right)


def reduce_rows(lefts: Rows, rights: Rows, least_left: int, least_right: int) -> Core:
    """Do the same to a graph given by the rows of both layers."""
    degrees = np.diff(lefts.indptr), np.diff(rights.indptr)
    left_kept, right_kept = (np.ones(each.size, np.bool_) for each in degrees)
    queue = np.empty(left_kept.size + right_kept.size, np.int64)
    _peel(lefts, rights, least_right, least_left, *degrees, left_kept, right_kept, queue)
    left_ids = np.flatnonzero(left_kept).astype(np.int32)
    right_ids = np.flatnonzero(right_kept).astype(np.int32)
    if not left_ids.size or not right_ids.size:
        return Core(Rows(np.zeros(1, np.int64), left_ids[:0]), left_ids[:0], right_ids[:0])
    return Core(_keep_rows(lefts, left_ids, right_kept), left_ids, right_ids)
