"""The loop that lists the cliques of k vertices: each at its first vertex, the others in their order behind it."""

from __future__ import annotations

import numpy as np

from papilio.kernels.clique.loops import Search, open_root, take_candidate
from papilio.kernels.clique.order import Later
from papilio.kernels.clique.rows import LEVEL, PLACE, Rows, add_clique
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.tree.bits import ONE, fill_span, first_bit, words_of


@compiled
def _list_root(search: Search, rows: Rows, d: int, k: int) -> int:
    """List the cliques of one root, from the level of the cursor on; return the words intersected."""
    w, level, work = words_of(d), rows.cursor[LEVEL], 0
    while level >= 0:
        # `left` vertices are to be taken from this level on.
        at, left = level * w, k - 1 - level
        chosen = first_bit(search.rest, at, w)
        if chosen < 0:
            level -= 1
            continue
        rows.path[level + 1] = search.names[chosen]
        if left == 1:
            search.rest[at + (chosen >> 6)] &= ~(ONE << np.uint64(chosen & 63))
            if not add_clique(rows, k):
                break
            continue
        size = take_candidate(search, at, w, chosen)
        work += w
        if size >= left - 1:
            level += 1
    rows.cursor[LEVEL] = level
    return work


@compiled
def list_cliques(later: Later, search: Search, rows: Rows, roots: Ints, end: int, k: int) -> bool:
    """List the cliques of k vertices whose first ones are the roots below a place, from the cursor on.

    Returns whether the end was reached: else the block is full.
    """
    while rows.cursor[PLACE] < end:
        root = roots[rows.cursor[PLACE]]
        d = int(later.indptr[root + 1] - later.indptr[root])
        if rows.cursor[LEVEL] < 0:
            rows.path[0] = root
            if k == 1:
                rows.cursor[PLACE] += 1
                if not add_clique(rows, 1):
                    return False
                continue
            open_root(later, search, root, True, False)
            fill_span(search.sets, d)
            fill_span(search.rest, d)
            rows.cursor[LEVEL] = 0
        search.total[2] += np.uint64(_list_root(search, rows, d, k))
        if rows.cursor[LEVEL] >= 0:
            return False
        rows.cursor[PLACE] += 1
    return True
