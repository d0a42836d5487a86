"""The loops that cut parts of roots and cliques out of rows, for ``root_parts`` and ``clique_parts``.

Bicliques: vertices are ranks in their layer, by decreasing degree; left is the anchored layer. Every left vertex has a
group; the groups, in order, are the parts. The *columns* of a part are the right vertices adjacent to its roots. From
the list of each column, the part keeps the vertices of its group and later ones.

Cliques: vertices are ranks. The *candidates* of a part are the later neighbours of its roots; the *outer* vertices,
for maximal cliques, their earlier neighbours. A vertex may have several of these roles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papilio.kernels.biclique.core import Rows
from papilio.kernels.jit import Bools, compiled
from papilio.kernels.offsets import offsets_of
from papilio.partitioning import Ids, Ints, Roles


class Prices(NamedTuple):
    """Prices of the closure of roots, in bytes; at least the bytes that the part needs."""

    root: int  # price of a root
    # added for each edge of a root, which is also priced as an entry of a list; may be negative
    root_entry: int
    column: int  # price of a column, without its list
    entry: int  # price of an entry of the list of a column


@compiled
def find_worst_root(rows: Rows, first: int, prices: Prices, shrinks: bool, kept: Ids, worst: Ints) -> None:
    """Find the most expensive root when every root is a separate part, from the last to the first; O(entries).

    ``rows`` are the columns of the roots from rank ``first`` on. ``kept``, int32 (n_right,), holds the number of
    entries kept of each list; if lists shrink, the entries of the roots are subtracted. ``worst``, the worst root so
    far and its cost, is updated.
    """
    for row in range(rows.indptr.size - 2, -1, -1):
        begin, end = rows.indptr[row], rows.indptr[row + 1]
        cost = prices.root + (prices.root_entry) * (end - begin)
        for at in range(begin, end):
            cost += prices.column + prices.entry * kept[rows.ids[at]]
            kept[rows.ids[at]] -= shrinks
        if cost > worst[1]:
            worst[0], worst[1] = first + row, cost


def cut_runs(rows: Ids, indptr: Ints, most_gap: int, max_entries: int) -> Ints:
    """Cut ascending rows into runs, each read at once; return the place of the first row of each, and the end.

    A run skips no gap shorter than ``most_gap`` entries. It has at most ``max_entries``, including entries between its
    rows, or one row.
    """
    begins = np.empty(rows.size + 1, np.int64)
    return begins[: _cut_runs(rows, indptr, most_gap, max_entries, begins) + 1].copy()


@compiled
def _cut_runs(rows: Ids, indptr: Ints, most_gap: int, max_entries: int, begins: Ints) -> int:
    n = 0
    for i in range(rows.size):
        if (
            n == 0
            or indptr[rows[i]] - indptr[rows[i - 1] + 1] > most_gap
            or indptr[rows[i] + 1] - indptr[rows[begins[n - 1]]] > max_entries
        ):
            begins[n] = i
            n += 1
    begins[n] = rows.size
    return n


@compiled
def mark_ids(rows: Ids, indptr: Ints, entries: Ids, roles: Roles, role: int) -> None:
    """Give a role to all ids in some ascending rows; ``entries`` are the entries from the first row to the last."""
    base = indptr[rows[0]]
    for i in range(rows.size):
        for at in range(indptr[rows[i]] - base, indptr[rows[i] + 1] - base):
            roles[entries[at]] |= role


@compiled
def keep_lists(
    columns: Ids, indptr: Ints, entries: Ids, groups: Ids, group: int, sizes: Ints, kept: Ids, to: int
) -> int:
    """Write the entries that a part keeps of some columns to ``kept``, from ``to`` on; return the place after them.

    ``columns`` ascend; ``indptr`` has the offsets of the lists of all columns; ``entries`` are the lists from the first
    to the last of ``columns``. ``groups`` has the group of each left vertex; ``group`` is the group of the part.
    ``sizes``, int64 (columns.size,), is set to the number of entries kept of each list.
    """
    base = indptr[columns[0]]
    for i in range(columns.size):
        begin = to
        for at in range(indptr[columns[i]] - base, indptr[columns[i] + 1] - base):
            left = entries[at]
            if groups[left] >= group:
                kept[to] = left
                to += 1
        sizes[i] = to - begin
    return to


def number_lefts(entries: Ids, places: Ids) -> Ids:
    """Renumber the ranks in ``entries`` in place, in order of rank; return the old ranks, ascending.

    ``places`` has shape (n_left,) and is -1 throughout, before and after.
    """
    met = np.empty(min(entries.size, places.size), np.int32)
    lefts = np.sort(met[: _meet_lefts(entries, places, met)])
    _number_entries(entries, places, lefts)
    return lefts


@compiled
def _meet_lefts(entries: Ids, places: Ids, met: Ids) -> int:
    n = 0
    for at in range(entries.size):
        if places[entries[at]] < 0:
            places[entries[at]] = n
            met[n] = entries[at]
            n += 1
    return n


@compiled
def _number_entries(entries: Ids, places: Ids, lefts: Ids) -> None:
    for i in range(lefts.size):
        places[lefts[i]] = i
    for at in range(entries.size):
        entries[at] = places[entries[at]]
    for i in range(lefts.size):
        places[lefts[i]] = -1


def drop_columns(lefts: Rows, kept: Bools) -> Rows:
    """Return the rows without the dropped columns; column numbers do not change."""
    indptr = np.zeros_like(lefts.indptr)
    ids = np.empty(_count_kept(lefts.ids, kept), np.int32)
    _copy_kept(lefts, kept, indptr, ids)
    return Rows(indptr, ids)


@compiled
def _count_kept(ids: Ids, kept: Bools) -> int:
    n = 0
    for at in range(ids.size):
        n += kept[ids[at]]
    return n


@compiled
def _copy_kept(lefts: Rows, kept: Bools, indptr: Ints, ids: Ids) -> None:
    to = 0
    for left in range(indptr.size - 1):
        for at in range(lefts.indptr[left], lefts.indptr[left + 1]):
            if kept[lefts.ids[at]]:
                ids[to] = lefts.ids[at]
                to += 1
        indptr[left + 1] = to


def count_entries_by_root(lefts: Rows, is_root: Bools, n_right: int) -> tuple[Bools, Ints]:
    """Return which columns have a root, and how many entries each column has."""
    has_root, entries = np.zeros(n_right, np.bool_), np.zeros(n_right, np.int64)
    _add_by_root(lefts, is_root, has_root, entries)
    return has_root, entries


@compiled
def _add_by_root(lefts: Rows, is_root: Bools, has_root: Bools, entries: Ints) -> None:
    for left in range(lefts.indptr.size - 1):
        for at in range(lefts.indptr[left], lefts.indptr[left + 1]):
            entries[lefts.ids[at]] += 1
            has_root[lefts.ids[at]] |= is_root[left]


def count_root_wedges(lefts: Rows, right_degree: Ints, roots: Ints) -> Ints:
    """Return the wedges from each root to other left vertices, at least 1, shape (n_roots,)."""
    wedges = np.empty(roots.size, np.int64)
    _sum_root_wedges(lefts, right_degree, roots, wedges)
    return wedges


@compiled
def _sum_root_wedges(lefts: Rows, right_degree: Ints, roots: Ints, wedges: Ints) -> None:
    for i in range(roots.size):
        total = 0
        for at in range(lefts.indptr[roots[i]], lefts.indptr[roots[i] + 1]):
            total += right_degree[lefts.ids[at]] - 1
        wedges[i] = max(total, 1)


CANDIDATE, ROOT, OUTER = 1, 2, 4
"""Bits of roles."""

_INNER = CANDIDATE | ROOT


def join_rows(earlier: Rows, later: Rows, wanted: Bools) -> Rows:
    """Concatenate the rows of both, the earlier ones first; unwanted rows are empty."""
    indptr = offsets_of(np.where(wanted, np.diff(earlier.indptr) + np.diff(later.indptr), 0))
    ids = np.empty(indptr[-1], np.int32)
    _copy_joined(earlier, later, wanted, indptr, ids)
    return Rows(indptr, ids)


@compiled
def _copy_joined(earlier: Rows, later: Rows, wanted: Bools, indptr: Ints, ids: Ids) -> None:
    for row in range(wanted.size):
        if wanted[row]:
            to = indptr[row]
            for rows in (earlier, later):
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    ids[to] = rows.ids[at]
                    to += 1


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

    ``vertices`` ascend; ``indptr`` has the offsets of the later neighbours of all vertices; ``entries`` and ``edges``
    (which may be empty) run from the first of ``vertices`` to the last. Writing begins at ``to``. ``sizes``, int64
    (vertices.size,), is set to the number of neighbours kept of each vertex, or -1 if no root needs the vertex: an
    outer vertex that is adjacent to no candidate.
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
