"""Groups of roots for parts of a graph: BCPar's greedy growth, in memory or by chunks, and the baselines.

All functions take rows of roots: ``columns[indptr[r]:indptr[r + 1]]`` is what root r needs, without repetition, with
a cost in bytes per column and per root. What a column is, the caller decides: for our closure the neighbours of the
root, each with the list that a part keeps of it; for the closure of the GBC paper (ICDE 2024) the 2-hop neighbours.
The cost of a group is the sum of its roots and, once each, of the columns in their rows.

A column may shrink: with ``entry_bytes`` it costs ``column_bytes + entry_bytes * k``, where k is the number of roots
that hold it and have no earlier group, as where a part leaves out the roots of parts before it.

Groups are numbered 0, 1, ... in the order in which they grow. All results are the same on every run and for any
number of threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.partitioning.group_rows import (
    GroupCosts,
    Ids,
    Ints,
    Score,
    closure_cost,
    column_costs,
    fill_rows,
    grow_rows,
    growth_bytes,
    require_groups,
    require_roots_fit,
    root_costs,
)
from papilio.partitioning.growth_chunks import grow_chunks
from papilio.partitioning.growth_loops import sum_closures
from papilio.partitioning.metis_groups import metis_groups

__all__ = [
    "GroupCosts",
    "closure_cost",
    "grow_chunks",
    "grow_groups",
    "growth_bytes",
    "hash_groups",
    "metis_groups",
    "root_costs",
]


def grow_groups(
    indptr: Ints,
    columns: Ids,
    column_bytes: Ints,
    root_bytes: Ints,
    limit_bytes: int,
    *,
    entry_bytes: int = 0,
    score: Score = "share",
) -> Ids:
    """Group the roots by Algorithm 3 of the GBC paper: grow from the heaviest, by shared columns, under a limit.

    Parameters
    ----------
    indptr : ndarray of int64, shape (n_roots + 1,), host
    columns : ndarray of int32, shape (n_entries,), host
    column_bytes : ndarray of int64, shape (n_columns,), host
        Bytes of each column, or an upper bound.
    root_bytes : ndarray of int64, shape (n_roots,), host
    limit_bytes : int
        Most bytes of a group.
    entry_bytes : int
        What each root without an earlier group adds to its columns.
    score : {"share", "shared"}
        Which root joins next: that of whose closure the group has the largest share of bytes, or, as in the paper,
        that of whose closure it has the most bytes.

    Returns
    -------
    ndarray of int32, shape (n_roots,), host
        Group of each root.

    Raises
    ------
    CapacityError
        When a root with its closure passes the limit alone; names it.

    Notes
    -----
    O(replication x n_entries) visits of entries, each with at most O(log n_roots) steps in the heap. Unlike the
    paper, which closes a group at the first candidate that does not fit, candidates are passed over up to
    ``MISSES`` times in a row, and a group that shares nothing with any other root goes on from the next heaviest.
    Hub columns, which nearly every root holds, stay in the scores: they are walked once per group that has them,
    which the bound above includes, and with them what a root would add is known exactly without a look at its row.
    """
    costs = column_costs(columns, column_bytes, entry_bytes)
    if not entry_bytes:
        require_roots_fit(sum_closures(indptr, columns, costs) + root_bytes, limit_bytes)
    groups = grow_rows(indptr, columns, costs.copy(), root_bytes, limit_bytes, entry_bytes, score)
    require_groups(groups, indptr, columns, costs, root_bytes, limit_bytes)
    return groups


def hash_groups(
    indptr: Ints,
    columns: Ids,
    column_bytes: Ints,
    root_bytes: Ints,
    limit_bytes: int,
    *,
    entry_bytes: int = 0,
) -> Ids:
    """Group the roots by a hash of their number: in its order, a group ends before the first root that does not fit.

    A baseline. Parameters, result and errors as for :func:`grow_groups`.
    """
    labels = np.zeros(root_bytes.size, dtype=np.int32)
    order = np.argsort(_mix(np.arange(root_bytes.size, dtype=np.uint64)), kind="stable")
    return fill_rows(indptr, columns, column_bytes, root_bytes, limit_bytes, entry_bytes, order, labels)


def _mix(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalizer of SplitMix64: a bijection that scatters consecutive numbers."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(keys ^ (keys >> np.uint64(31)))
