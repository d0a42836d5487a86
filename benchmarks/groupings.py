"""Other ways to group roots into parts, to compare growth with: by a hash, by METIS, by the closure of the GBC paper.

All of them take :class:`papilio.partitioning.growth.PricedRows` and the most bytes of a group, need all rows in memory,
and return the group of each root. :func:`cutting_by` has the cutters of Papilio group their roots by one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from papilio.kernels.biclique.core import PAIR_BYTES, Rows, find_pairs
from papilio.kernels.jit import Index, compiled
from papilio.partitioning import Ids, Ints
from papilio.partitioning.growth import PricedRows, grow_groups, require_roots_fit
from papilio.partitioning.growth_loops import NO_GROUP, ByteCosts, sum_closures

Grouping = Callable[..., Ids]

MAX_PAIRS = 1 << 22
"""Pairs of holders of one column in the graph of METIS, which takes some ten seconds for as many edges. Four times as
many lowered the replication of yelp2018 from 8.3 to 6.6 and changed nothing elsewhere."""

_TRIES = 3
"""Attempts with METIS, each with another number of parts, before its last groups are split."""


@contextmanager
def cutting_by(group: Grouping) -> Iterator[None]:
    """Cut with groups by ``group`` while the block runs: strategy bcpar with other groups."""

    def in_memory(
        indptr: Ints, read: Callable[[int, int], Ids], column_bytes: Ints, root_bytes: Ints,
        limit_bytes: int, host_bytes: int, threads: int, *, entry_bytes: int = 0,
    ) -> Ids:  # fmt: skip
        columns = read(0, root_bytes.size)
        return group(PricedRows(indptr, columns, column_bytes, root_bytes, entry_bytes), limit_bytes)

    with ExitStack() as stack:
        for module in ("root_parts", "clique_parts"):
            stack.enter_context(mock.patch(f"papilio.partitioning.{module}.grow_chunks", in_memory))
        stack.enter_context(mock.patch("papilio.partitioning.wedge_plan.grow_groups", group))
        yield


def fill_groups(indptr: Ints, columns: Ids, costs: ByteCosts, order: Ints, label: Ids) -> tuple[Ids, Index]:
    """Group the roots in a given order: a group ends before a root that does not fit, and where the label changes.

    Returns the groups, and -1 or a root that fits no group. ``label`` is int32, shape (n_roots,), by root.
    """
    groups = np.full(costs.root.size, NO_GROUP, np.int32)
    stamp = np.full(costs.column.size, NO_GROUP, np.int32)
    return groups, _fill_groups(indptr, columns, costs, order, label, groups, stamp)


@compiled
def _fill_groups(
    indptr: Ints, columns: Ids, costs: ByteCosts, order: Ints, label: Ids, groups: Ids, stamp: Ids
) -> Index:
    n_roots = costs.root.size
    group, begun, cost = 0, 0, np.int64(0)
    for place in range(n_roots):
        root = order[place]
        row = columns[indptr[root] : indptr[root + 1]]
        added = costs.root[root]
        for column in row:
            if stamp[column] != group:
                added += costs.column[column]
        is_other = place > begun and label[root] != label[order[place - 1]]
        if place > begun and (is_other or cost + added > costs.limit):
            if costs.entry > 0:
                for earlier in order[begun:place]:
                    for column in columns[indptr[earlier] : indptr[earlier + 1]]:
                        costs.column[column] -= costs.entry
            group, begun, cost = group + 1, place, np.int64(0)
            added = costs.root[root]
            for column in row:
                added += costs.column[column]
        if cost + added > costs.limit:
            return root
        for column in row:
            stamp[column] = group
        cost += added
        groups[root] = group
    return np.int64(-1)


def fill_rows(rows: PricedRows, limit_bytes: int, order: Ints, labels: Ids) -> Ids:
    """Group the roots in ``order``; a group ends where the next root does not fit, and where the label changes.

    Roots that fit no group before others have theirs come last.
    """
    costs = rows.column_costs()
    closure = sum_closures(rows.indptr, rows.columns, costs)
    is_heavy = closure + rows.root_bytes > limit_bytes
    if not rows.entry_bytes:
        require_roots_fit(closure + rows.root_bytes, limit_bytes)
    order = np.concatenate((order[~is_heavy[order]], order[is_heavy[order]]))
    prices = ByteCosts(costs, rows.root_bytes, closure, rows.entry_bytes, limit_bytes, False)
    groups, refused = fill_groups(rows.indptr, rows.columns, prices, order, labels)
    if refused >= 0:
        own = slice(int(refused), int(refused) + 1)
        now = sum_closures(rows.indptr[int(refused) : int(refused) + 2], rows.columns, costs)
        require_roots_fit(now + rows.root_bytes[own], limit_bytes, np.array([refused]))
    return groups


def hash_groups(rows: PricedRows, limit_bytes: int) -> Ids:
    """Group the roots by a hash of their number: in its order, a group ends before the first root that does not fit."""
    n_roots = rows.root_bytes.size
    # The finalizer of SplitMix64: a bijection that scatters consecutive numbers.
    keys = np.arange(n_roots, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    order = np.argsort(keys ^ (keys >> np.uint64(31)), kind="stable")
    return fill_rows(rows, limit_bytes, order, np.zeros(n_roots, dtype=np.int32))


def metis_groups(rows: PricedRows, limit_bytes: int, max_pairs: int = MAX_PAIRS) -> Ids:
    """Group the roots by METIS; a group over the limit is split in the order of its roots.

    METIS cuts graphs of one layer. So roots are joined where they are 2-hop neighbours, by edges that weigh as many
    columns as the two share, and METIS cuts few of these into parts of equally many entries. ``max_pairs`` bounds this
    graph: columns with the fewest holders come in first, as the pairs of a hub are most, and tell least.
    """
    import pymetis

    if not rows.entry_bytes:
        require_roots_fit(rows.root_costs(), limit_bytes)
    n_roots = rows.root_bytes.size
    starts, others, weights = _join_roots(rows.indptr, rows.columns, rows.column_bytes.size, max_pairs)
    adjacency: Any = pymetis.CSRAdjacency(starts, others)
    whole = int(rows.column_costs().sum() + rows.root_bytes.sum())
    n_parts = max(1, -(-whole // max(limit_bytes, 1)))
    best: Ids | None = None
    for _ in range(_TRIES):
        n_parts = min(n_parts, max(n_roots, 1))
        labels = np.zeros(n_roots, dtype=np.int32)
        if n_parts > 1:
            sizes: Any = 1 + np.diff(rows.indptr)
            _, found = pymetis.part_graph(n_parts, adjacency, vweights=sizes, eweights=weights)
            labels = np.asarray(found, dtype=np.int32)
        groups = fill_rows(rows, limit_bytes, np.argsort(labels, kind="stable"), labels)
        n_groups = int(groups.max(initial=-1)) + 1
        if best is None or n_groups <= int(best.max(initial=-1)):
            best = groups
        if n_groups <= n_parts + n_parts // 4 or n_parts == n_roots:
            break
        n_parts = n_groups
    assert best is not None
    return best


def _join_roots(indptr: Ints, columns: Ids, n_columns: int, max_pairs: int) -> tuple[Ints, Ints, Any]:
    """Return the auxiliary graph of METIS: offsets, neighbours and the weights of these, all int64."""
    holders = np.bincount(columns, minlength=n_columns).astype(np.int64)
    smallest = np.argsort(holders, kind="stable")
    pairs = np.cumsum((holders * (holders - 1) // 2)[smallest])
    used = np.zeros(n_columns, dtype=bool)
    used[smallest[: np.searchsorted(pairs, max_pairs, "right")]] = True
    kept = used[columns]
    below = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept)))
    n_roots = indptr.size - 1
    found = find_pairs(Rows(below[indptr], columns[kept]), n_columns, 1, 1, max_pairs * PAIR_BYTES, n_roots)
    first = np.repeat(np.arange(n_roots), np.diff(found.indptr))
    ends = np.concatenate((first, found.others))
    others = np.concatenate((found.others, first))
    order = np.lexsort((others, ends))
    starts = np.zeros(n_roots + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=n_roots), out=starts[1:])
    weights = np.concatenate((found.common, found.common))[order].astype(np.int64)
    return starts, others[order].astype(np.int64), weights


def paper_rows(indptr: Ints, ids: Ids, n_right: int, least: int) -> PricedRows:
    """Return the closures of the GBC paper: roots and later ones that share ``least`` columns, each with its lists.

    The lists hold 1-hop and 2-hop neighbours, at four bytes an id. Roots are grouped as given.
    """
    n_left = indptr.size - 1
    pairs = find_pairs(Rows(indptr, ids), n_right, least, 2, PAIR_BYTES << 27, n_left)
    starts = pairs.indptr + np.arange(n_left + 1)
    columns = np.empty(int(starts[-1]), np.int32)
    own = np.zeros(columns.size, bool)
    own[starts[:-1]] = True
    columns[own] = np.arange(n_left)
    columns[~own] = pairs.others
    lists = 4 * (np.diff(indptr) + np.diff(pairs.indptr))
    return PricedRows(starts, columns, lists, np.zeros(n_left, np.int64))


def paper_groups(rows: PricedRows, limit_bytes: int, least: int) -> Ids:
    """Group the roots by the closure of the GBC paper, and split groups whose parts would pass the limit."""
    grown = grow_groups(paper_rows(rows.indptr, rows.columns, rows.column_bytes.size, least), limit_bytes)
    last = np.zeros(int(grown.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last, grown, np.arange(grown.size))
    return fill_rows(rows, limit_bytes, np.lexsort((grown, last[grown])), grown)
