"""What a search for maximal bicliques does with what it finds: it counts it, ranks it, or passes it on as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from papilio.kernels.biclique.core import Ids32
from papilio.kernels.exact import mix
from papilio.kernels.jit import Ints, Sums, compiled, inlined
from papilio.kernels.listing import RowBlock, end_row, has_room
from papilio.kernels.tree.bits import ONE

_mix = cast(Callable[[np.uint64], np.uint64], compiled(mix))
"""Of one value."""

CHECKSUM, WORDS, BRANCHES = range(3)
"""Of the sums."""

EDGES, BALANCED = 1, 2
"""What maximal bicliques are ranked by: their edges, or the vertices of the smaller side; 0 for none."""


class Limits(NamedTuple):
    """Least and most rows and columns of what is counted; what it is ranked by."""

    least_rows: int
    most_rows: int
    least_columns: int
    most_columns: int
    by: int


class Found(NamedTuple):
    """What a thread has found.

    ``histogram`` counts by size: ``cell_at[rows] + columns`` is the place of a size. ``sums`` has the checksum, the
    words intersected, and the branches of the search.

    Where it is listed, ``row_places`` and ``column_places`` are the positions of all vertices in the ids of the
    listing, else they are empty; ``longest`` (2) are the most vertices of either side, ``rows`` and ``columns`` the
    blocks.

    Where it is ranked, only what has the value ``bound[0]`` or more counts. ``heap`` (n + 1) has the largest values of
    this thread, the least of them first, and before them how many there are; of no length where the bound is fixed, and
    else the bound, which all threads share, rises above what n values are known to reach.
    """

    cell_at: Ints
    histogram: Sums
    sums: Sums
    row_places: Ids32
    column_places: Ids32
    longest: Ints
    rows: RowBlock
    columns: RowBlock
    bound: Ints
    heap: Ints


@compiled
def _value(by: int, rows: int, columns: int) -> int:
    return rows * columns if by == EDGES else min(rows, columns)


@compiled
def _push(heap: Ints, bound: Ints, value: int) -> None:
    """Keep a value, if it is among the largest."""
    n, room = heap[0], heap.size - 1
    if n < room:
        n += 1
        at = n
        while at > 1 and heap[at // 2] > value:
            heap[at] = heap[at // 2]
            at //= 2
        heap[at], heap[0] = value, n
    elif value > heap[1]:
        at = 1
        while 2 * at <= n:
            child = 2 * at
            child += child < n and heap[child + 1] < heap[child]
            if heap[child] >= value:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = value
    if n == room:
        bound[0] = max(bound[0], heap[1] + 1)


@compiled
def _write_row(block: RowBlock, places: Ids32, ids: Ids32, n: int) -> None:
    at = block.offsets[block.size[0]]
    for i in range(n):
        block.values[at + i] = places[ids[i]]
    end_row(block, n)


@compiled
def _rank(found: Found, by: int, rows: int, columns: int) -> bool:
    """Whether something of that size is listed, by its value; keep the value where the bound is not fixed."""
    value = _value(by, rows, columns)
    if value < found.bound[0]:
        return False
    if found.heap.size:
        _push(found.heap, found.bound, value)
        return False
    return True


@compiled
def _write(found: Found, taken: Ids32, rows: int, shared: Ids32, columns: int) -> bool:
    """Pass a row on; return whether there is room for another one."""
    _write_row(found.rows, found.row_places, taken, rows)
    _write_row(found.columns, found.column_places, shared, columns)
    return has_room(found.rows, found.longest[0]) and has_room(found.columns, found.longest[1])


@inlined
def report(
    found: Found, limits: Limits, taken: Ids32, rows: int, shared: Ids32, columns: int, sides: np.uint64
) -> bool:
    """Count a maximal biclique if it is asked for, and pass it on; return whether there is room for another one.

    Its vertices are the first ``rows`` of ``taken`` and ``columns`` of ``shared``, and ``sides`` the sum of the hashes.
    """
    room = True
    asked = limits.least_rows <= rows <= limits.most_rows and columns <= limits.most_columns
    if asked and (limits.by == 0 or _rank(found, limits.by, rows, columns)):
        found.histogram[found.cell_at[rows] + columns] += ONE
        found.sums[CHECKSUM] += _mix(sides)
        if found.row_places.size:
            room = _write(found, taken, rows, shared, columns)
    return room


@inlined
def can_extend(found: Found, limits: Limits, taken: int, candidates: int, columns: int) -> bool:
    """Whether more rows, of the candidates, can make something of fewer columns that is asked for."""
    rows = taken + candidates
    enough = candidates > 0 and taken < limits.most_rows and rows >= limits.least_rows
    return enough and (limits.by == 0 or _value(limits.by, rows, columns - 1) >= found.bound[0])
