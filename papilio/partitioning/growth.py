"""Groups of roots for parts of a graph: BCPar's greedy growth.

All functions take :class:`PricedRows`: ``columns[indptr[r]:indptr[r + 1]]`` is what root r needs, without repetition,
with a cost in bytes per column and per root. A column is a neighbour of the root, with the list that a part keeps of
it. The cost of a group is the sum of its roots and, once each, of the columns in their rows.

A column may shrink: with ``entry_bytes`` it costs ``column_bytes + entry_bytes * k``, where k is the number of roots
that hold it and have no earlier group, as where a part leaves out the roots of parts before it.

Groups are numbered 0, 1, ... in the order in which they grow. All results are the same on every run and for any
number of threads. Arrays are on the host: ``indptr``, ``column_bytes`` and ``root_bytes`` of int64, ``columns`` and
groups of int32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from papilio.errors import CapacityError
from papilio.kernels.biclique.core import Rows, transpose_rows
from papilio.partitioning.arrays import Ids, Ints
from papilio.partitioning.growth_loops import (
    NO_GROUP,
    Costs,
    add_closures,
    count_holders,
    grow,
    sum_closures,
)


@dataclass(frozen=True, eq=False)
class PricedRows:
    """Rows of roots, and what their roots and columns cost in bytes."""

    indptr: Ints  # (n_roots + 1,)
    columns: Ids  # (n_entries,)
    column_bytes: Ints  # (n_columns,): of each column, or an upper bound
    root_bytes: Ints  # (n_roots,)
    entry_bytes: int = 0  # what each root without an earlier group adds to its columns

    def column_costs(self) -> Ints:
        """Return the bytes of each column while no root has a group; a copy."""
        if not self.entry_bytes:
            return self.column_bytes.astype(np.int64)
        holders = count_holders(self.columns, self.column_bytes.size)
        return np.asarray(self.column_bytes + self.entry_bytes * holders)

    def root_costs(self) -> Ints:
        """Return the bytes of each root with its closure as a group of its own, before all others."""
        return np.asarray(sum_closures(self.indptr, self.columns, self.column_costs()) + self.root_bytes)


def growth_bytes(n_roots: int, n_columns: int, n_entries: int) -> int:
    """Return the host bytes at the peak of :func:`grow_groups`, its arguments included."""
    return 104 * n_roots + 44 * n_columns + 8 * n_entries


def closure_cost(rows: PricedRows, groups: Ids) -> Ints:
    """Return the bytes of the roots and columns of each group, for any groups numbered from 0; shape (n_groups,).

    With other numbers for bytes, such as the lengths of the lists of the columns and 0 for roots, the sum of those.
    """
    n_groups = int(groups.max(initial=-1)) + 1
    order = np.argsort(groups, kind="stable")
    costs = Costs(rows.column_costs(), rows.root_bytes, rows.root_bytes, rows.entry_bytes, 0, False)
    nbytes = add_closures(rows.indptr, rows.columns, costs, order, groups, n_groups)
    np.add.at(nbytes, groups, rows.root_bytes)
    return nbytes


def require_roots_fit(costs: Ints, limit_bytes: int, names: Ints | None = None) -> None:
    """Refuse roots that cost more than the limit, each with its closure; names the one that costs most."""
    if costs.size and int(costs.max()) > limit_bytes:
        worst = int(np.argmax(costs))
        root = worst if names is None else int(names[worst])
        raise CapacityError(
            f"root {root} with its closure needs {int(costs[worst]):,} bytes, more than the {limit_bytes:,} bytes "
            "of a part; give a part more memory, or cut by pairs of blocks where the motif allows it"
        )


def grow_rows(rows: PricedRows, costs: Ints, limit_bytes: int, by_share: bool = True) -> Ids:
    """Grow groups by these costs of columns, which are overwritten.

    ``NO_GROUP`` is given to roots that fit none when all others have theirs.
    """
    closure = sum_closures(rows.indptr, rows.columns, costs)
    average = closure // np.maximum(np.diff(rows.indptr), 1)
    order = np.argsort(-average, kind="stable")
    prices = Costs(costs, rows.root_bytes, closure, rows.entry_bytes, limit_bytes, by_share)
    holders = transpose_rows(Rows(rows.indptr, rows.columns), costs.size)
    return grow(rows.indptr, rows.columns, *holders, prices, order)[0]


def grow_groups(rows: PricedRows, limit_bytes: int, by_share: bool = True) -> Ids:
    """Group the roots by Algorithm 3 of the GBC paper: grow from the heaviest, by shared columns, under a limit.

    Returns the group of each root, int32. The root joins next of whose closure the group has the largest share
    of bytes, or, without ``by_share`` and as in the paper, the most bytes. CapacityError when a root with its closure
    passes the limit alone; names it.

    O(replication x n_entries) visits of entries, each with at most O(log n_roots) steps in the heap. Unlike the paper,
    which closes a group at the first candidate that does not fit, candidates are passed over up to ``MISSES`` times in
    a row, and a group that shares nothing with any other root goes on from the next heaviest. Hub columns, which nearly
    every root holds, stay in the scores: they are walked once per group that has them, which the bound above includes,
    and with them what a root would add is known exactly without a look at its row.
    """
    costs = rows.column_costs()
    if not rows.entry_bytes:
        require_roots_fit(sum_closures(rows.indptr, rows.columns, costs) + rows.root_bytes, limit_bytes)
    groups = grow_rows(rows, costs.copy(), limit_bytes, by_share)
    left_out = groups == NO_GROUP
    if left_out.any():
        closure = sum_closures(rows.indptr, rows.columns, costs) + rows.root_bytes
        require_roots_fit(np.where(left_out, closure, 0), limit_bytes)
    return groups
