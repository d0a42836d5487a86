"""The loops that cut a unipartite graph into parts for cliques; the policy is :mod:`papilio.partitioning.clique_parts`.

Vertices are ranks. The *candidates* of a part are the later neighbours of its roots; the *outer* vertices, for maximal
cliques, their earlier ones. A vertex may have several of these roles.
"""

from __future__ import annotations

import numpy as np

from papilio.kernels.biclique.core import Rows
from papilio.kernels.jit import Bools, allocating, compiled
from papilio.partitioning.arrays import Ids, Ints, Roles

CANDIDATE, ROOT, OUTER = 1, 2, 4
"""Bits of roles."""

_INNER = CANDIDATE | ROOT


@allocating
def join_rows(earlier: Rows, later: Rows, wanted: Bools) -> Rows:
    """Return the rows of both, the earlier ones first; what is not wanted has an empty row."""
    n = wanted.size
    indptr = np.zeros(n + 1, np.int64)
    for row in range(n):
        size = earlier.indptr[row + 1] - earlier.indptr[row] + later.indptr[row + 1] - later.indptr[row]
        indptr[row + 1] = indptr[row] + (size if wanted[row] else 0)
    ids = np.empty(indptr[n], np.int32)
    for row in range(n):
        if wanted[row]:
            to = indptr[row]
            for rows in (earlier, later):
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    ids[to] = rows.ids[at]
                    to += 1
    return Rows(indptr, ids)


@compiled
def keep_inner(
    vertices: Ids,
    indptr: Ints,
    entries: Ids,
    edges: Ints,
    roles: Roles,
    sizes: Ints,
    kept: Ids,
    kept_edges: Ints,
    to: int,
) -> int:
    """Write the candidates and roots among the later neighbours of some vertices to ``kept``; return the place after.

    ``vertices`` ascend; ``indptr`` is that of the later neighbours of all; ``entries`` and ``edges``, or no edges, are
    those from the first of ``vertices`` to the last. Writing begins at ``to``. ``sizes``, int64 (vertices.size,), is
    set to what is kept of each; -1 for one that no root needs: an outer vertex that is next to no candidate.
    """
    base = indptr[vertices[0]]
    for i in range(vertices.size):
        begin = to
        needed = roles[vertices[i]] & _INNER != 0
        for at in range(indptr[vertices[i]] - base, indptr[vertices[i] + 1] - base):
            role = roles[entries[at]]
            if role & _INNER:
                needed |= role & CANDIDATE != 0
                kept[to] = entries[at]
                if edges.size:
                    kept_edges[to] = edges[at]
                to += 1
        sizes[i] = to - begin
        if not needed:
            sizes[i], to = -1, begin
    return to


@compiled
def price_rows(rows: Rows, column_bytes: Ints, costs: Ints) -> None:
    """Add the bytes of its columns to the cost of each row."""
    for row in range(costs.size):
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            costs[row] += column_bytes[rows.ids[at]]
