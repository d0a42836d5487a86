"""The loops that list (p,q)-bicliques: they fill a block of rows, and resume after it was full.

A search takes left vertices one after the other as :mod:`papilio.kernels.biclique.search` does. Each left set that
shares enough right vertices is a *leaf*, and every subset of the shared vertices of the requested size is a row. If one
side of a biclique has a single vertex, the leaves are the vertices of that side with their neighbours. Rows follow the
first left vertices and the lexicographic order of the subsets, so no row appears twice.

Vertices are written as *positions*: numbers that increase with the ids of their layer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.core import Ids32, Rows
from papilio.kernels.biclique.local import LeftGraph, RootGraph, open_root, seek_candidates, set_bits
from papilio.kernels.biclique.search import Items, take_row
from papilio.kernels.biclique.subset import Levels
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.search.bits import ONE, lowest_bit, words_of

_NEXT_ITEM, _NEXT_CHILD, _GROW, _LEAF = 0, 1, 2, 3

_PHASE, _ITEM, _PLACE, _DEPTH, _SHARED, _LEAD = 0, 1, 2, 3, 4, 5


class Block(NamedTuple):
    """Rows waiting to be written: ``lefts[:size[0]]`` and ``rights[:size[0]]``, one biclique each."""

    lefts: NDArray[np.int32]
    rights: NDArray[np.int32]
    size: Ints


class Positions(NamedTuple):
    """Positions of the left and of the right vertices, and of the left vertices that are in every row."""

    lefts: Ids32
    rights: Ids32
    required: Ids32


class Cursor(NamedTuple):
    """The current place of a search."""

    # shape (6,): phase; item; next place among its children; level; right vertices of the current leaf; end of
    # their first
    at: Ints
    path: Ids32  # shape (left vertices to search for,)
    lefts: Ids32  # shape (left vertices of a row,): positions of the current leaf, ascending
    shared: Ids32  # shape (maximum right vertices of a leaf,): positions of its right vertices, ascending
    chosen: Ints  # shape (right vertices to search for,): the next subset of them
    ids: Ids32  # shape (words of the levels,): candidate of each row of the levels
    leaves: Ints  # shape (maximum right vertices of a leaf + 1,): leaves by number of right vertices
    work: Ints  # shape (1,): set operations: words intersected and entries walked


def make_block(n_rows: int, n_left: int, n_right: int) -> Block:
    """Return an empty block."""
    lefts, rights = np.empty((n_rows, n_left), np.int32), np.empty((n_rows, n_right), np.int32)
    return Block(lefts, rights, np.zeros(1, np.int64))


def make_cursor(sizes: tuple[int, int], n_required: int, max_shared: int, n_words: int) -> Cursor:
    """Return a cursor for left and right sides of ``sizes`` besides the required left vertices."""
    left, right = sizes
    return Cursor(
        at=np.zeros(6, np.int64),
        path=np.empty(left, np.int32),
        lefts=np.empty(left + n_required, np.int32),
        shared=np.empty(max_shared, np.int32),
        chosen=np.empty(right, np.int64),
        ids=np.empty(n_words, np.int32),
        leaves=np.zeros(max_shared + 1, np.int64),
        work=np.zeros(1, np.int64),
    )


def start_items(cursor: Cursor, item: int) -> None:
    """Set the cursor to the start of an item."""
    cursor.at[_PHASE], cursor.at[_ITEM] = _NEXT_ITEM, item


@compiled
def _open_leaf(cursor: Cursor, positions: Positions, n_shared: int, first: int, last: int) -> None:
    """Start a leaf with the path and its shared vertices: subsets whose first element is in ``[first, last)``."""
    n_required = positions.required.size
    for i in range(n_required + cursor.path.size):
        position = positions.required[i] if i < n_required else positions.lefts[cursor.path[i - n_required]]
        place = i
        while place > 0 and cursor.lefts[place - 1] > position:
            cursor.lefts[place] = cursor.lefts[place - 1]
            place -= 1
        cursor.lefts[place] = position
    for i in range(cursor.chosen.size):
        cursor.chosen[i] = first + i
    cursor.at[_PHASE], cursor.at[_SHARED], cursor.at[_LEAD] = _LEAF, n_shared, last


@compiled
def _write_rows(cursor: Cursor, block: Block) -> bool:
    """Write the rows of the leaf from the chosen subset on. Return whether all are written."""
    chosen, size = cursor.chosen, cursor.chosen.size
    n_shared, lead = cursor.at[_SHARED], cursor.at[_LEAD]
    n, room = block.size[0], block.lefts.shape[0]
    last = size - 1
    end = lead if size == 1 else n_shared
    while True:
        while chosen[last] < end:
            if n == room:
                block.size[0] = n
                return False
            for i in range(cursor.lefts.size):
                block.lefts[n, i] = cursor.lefts[i]
            for i in range(size):
                block.rights[n, i] = cursor.shared[chosen[i]]
            n += 1
            chosen[last] += 1
        i = last - 1
        while i >= 0:
            chosen[i] += 1
            if chosen[i] + last - i < n_shared and (i > 0 or chosen[0] < lead):
                break
            i -= 1
        if i < 0:
            block.size[0] = n
            return True
        for j in range(i + 1, size):
            chosen[j] = chosen[j - 1] + 1


@compiled
def list_stars(rows: Rows, positions: Positions, cursor: Cursor, block: Block, items: Items, end: int) -> bool:
    """List the items up to ``end``, with one left vertex in each row. Return False when the block is full.

    The children of a root are the entries of its row, as places in ``rows.ids``: the first right vertices.
    """
    at = cursor.at
    while at[_ITEM] < end or at[_PHASE] == _LEAF:
        if at[_PHASE] == _LEAF:
            if not _write_rows(cursor, block):
                return False
            at[_PHASE] = _NEXT_ITEM
            continue
        item = at[_ITEM]
        root = items.roots[item]
        begin, n_shared = rows.indptr[root], rows.indptr[root + 1] - rows.indptr[root]
        for i in range(n_shared):
            cursor.shared[i] = positions.rights[rows.ids[begin + i]]
        cursor.path[0] = root
        _open_leaf(cursor, positions, n_shared, items.firsts[item] - begin, items.lasts[item] - begin)
        at[_ITEM] += 1
        cursor.work[0] += 1
    return True


@compiled
def _share_all(graph: LeftGraph, around: RootGraph, positions: Positions, cursor: Cursor, root: int, kid: int) -> int:
    """Take all columns of a child as shared by the leaf; return their number."""
    first, top = around.kid_ptr[kid], graph.lefts.indptr[root]
    n = around.kid_ptr[kid + 1] - first
    for i in range(n):
        cursor.shared[i] = positions.rights[graph.lefts.ids[top + around.kid_columns[first + i]]]
    return int(n)


@compiled
def _share_row(
    graph: LeftGraph,
    around: RootGraph,
    levels: Levels,
    positions: Positions,
    cursor: Cursor,
    child: tuple[int, int, int],
    row: int,
) -> int:
    """Take the bits of a row as the right vertices shared by the leaf. Return their number."""
    root, kid, n_words = child
    first, top = around.kid_ptr[kid], graph.lefts.indptr[root]
    n = 0
    for w in range(n_words):
        rest = levels.rows[row + w]
        while rest:
            column = around.kid_columns[first + w * 64 + lowest_bit(rest)]
            cursor.shared[n] = positions.rights[graph.lefts.ids[top + column]]
            n += 1
            rest &= rest - ONE
    return n


@compiled
def _open_child(
    graph: LeftGraph, around: RootGraph, levels: Levels, positions: Positions, cursor: Cursor, root: int
) -> None:
    """Start the next child: with its leaf, if there are only two left vertices, else with its candidates."""
    at, path = cursor.at, cursor.path
    place = at[_PLACE]
    kid = place - graph.hop_indptr[root]
    at[_PLACE] = place + 1
    path[0], path[1] = root, graph.hop[place]
    if path.size == 2:
        n_shared = _share_all(graph, around, positions, cursor, root, kid)
        cursor.leaves[n_shared] += 1
        _open_leaf(cursor, positions, n_shared, 0, n_shared)
        at[_DEPTH] = -1
        return
    n, walked = seek_candidates(around, kid, cursor.chosen.size)
    n_words = words_of(int(graph.hop_common[place]))
    set_bits(around, kid, n, n_words, levels.rows)
    for i in range(n):
        cursor.ids[i * n_words] = i
    levels.begin[0], levels.size[0], levels.next[0] = 0, n, 0
    cursor.work[0] += walked
    at[_PHASE], at[_DEPTH] = _GROW, 0


@compiled
def _grow(graph: LeftGraph, around: RootGraph, levels: Levels, positions: Positions, cursor: Cursor, root: int) -> None:
    """Take the next candidate of the current level, or go back a level."""
    at, path = cursor.at, cursor.path
    depth, place, top = at[_DEPTH], at[_PLACE] - 1, graph.hop_indptr[root]
    n_words = words_of(int(graph.hop_common[place]))
    i, size, more = levels.next[depth], levels.size[depth], path.size - 2 - depth
    if size - i < more:
        at[_DEPTH] = depth - 1
        return
    levels.next[depth] = i + 1
    row = levels.begin[depth] + i * n_words
    path[2 + depth] = graph.hop[top + around.met[cursor.ids[row]]]
    if more == 1:
        child = root, place - top, n_words
        n_shared = _share_row(graph, around, levels, positions, cursor, child, row)
        cursor.leaves[n_shared] += 1
        _open_leaf(cursor, positions, n_shared, 0, n_shared)
        return
    cursor.work[0] += (size - i - 1) * n_words
    if take_row(levels, cursor.ids, depth, i, n_words, cursor.chosen.size) >= more - 1:
        at[_DEPTH] = depth + 1


@compiled
def list_items(
    graph: LeftGraph,
    around: RootGraph,
    levels: Levels,
    positions: Positions,
    cursor: Cursor,
    block: Block,
    items: Items,
    end: int,
) -> bool:
    """List the items up to ``end``, two left vertices or more in each row. Return False when the block is full."""
    at = cursor.at
    while True:
        phase, item = at[_PHASE], at[_ITEM]
        if phase == _LEAF:
            if not _write_rows(cursor, block):
                return False
            at[_PHASE] = _GROW
        elif phase == _NEXT_ITEM:
            if item == end:
                return True
            at[_PHASE], at[_PLACE] = _NEXT_CHILD, items.firsts[item]
            open_root(graph, around, items.roots[item], items.firsts[item])
        elif phase == _NEXT_CHILD:
            if at[_PLACE] == items.lasts[item]:
                at[_PHASE], at[_ITEM] = _NEXT_ITEM, item + 1
            else:
                _open_child(graph, around, levels, positions, cursor, items.roots[item])
        elif at[_DEPTH] < 0:
            at[_PHASE] = _NEXT_CHILD
        else:
            _grow(graph, around, levels, positions, cursor, items.roots[item])
