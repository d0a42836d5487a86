"""What the loops that list cliques need beside their search: whom the ranks are, what every row holds, and a block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ints, Sums, inlined
from papilio.kernels.rows import RowBlock, end_row, has_room, make_row_block

PLACE, LEVEL = 0, 1
"""Entries of a cursor: the place of the root at hand, and the level its search is at, -1 where it has not begun."""


class Rows(NamedTuple):
    """Where the rows of one thread go; ``positions`` is empty where cliques are only counted.

    ``positions`` (n) has the position of each rank in the ids of the listing; ``held`` the positions, and ``held_hash``
    (1) the sum of the hashes, of what is added to every clique. ``longest`` (1) is the most vertices of a row.
    ``path`` is the clique at hand, as ranks; ``cursor`` (2) says where the search goes on.
    """

    positions: NDArray[np.int32]
    held: NDArray[np.int32]
    held_hash: Sums
    longest: Ints
    path: NDArray[np.int32]
    cursor: Ints
    block: RowBlock


def make_rows(
    longest: int,
    positions: NDArray[np.int32] | None = None,
    held: NDArray[np.int32] | None = None,
    held_hash: int = 0,
    limit: int | None = 1,
) -> Rows:
    """Return the rows of one thread, of at most ``longest`` vertices beside what is held; of a count by default."""
    nothing = np.zeros(0, np.int32)
    positions, held = nothing if positions is None else positions, nothing if held is None else held
    longest += held.size
    return Rows(
        positions=positions,
        held=held,
        held_hash=np.array([held_hash], np.uint64),
        longest=np.array([longest], np.int64),
        path=np.zeros(longest + 1, np.int32),
        cursor=np.array([0, -1], np.int64),
        block=make_row_block(longest if positions.size else 0, limit),
    )


def begin_chunk(rows: Rows, place: int) -> None:
    """Go on at the root of a place."""
    rows.cursor[PLACE], rows.cursor[LEVEL] = place, -1


@inlined
def add_clique(rows: Rows, size: int) -> bool:
    """Write the first ranks of the path as a row; return whether a further one surely fits."""
    block = rows.block
    at = block.offsets[block.size[0]]
    for i in range(size):
        block.values[at + i] = rows.positions[rows.path[i]]
    for i in range(rows.held.size):
        block.values[at + size + i] = rows.held[i]
    end_row(block, size + rows.held.size)
    return has_room(block, rows.longest[0])
