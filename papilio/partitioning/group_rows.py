"""Rows of roots and what groups of them cost: what every way of grouping has in common.

The words are those of :mod:`papilio.partitioning.growth`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.partitioning.growth_loops import (
    NO_GROUP,
    Costs,
    add_closures,
    count_holders,
    fill_groups,
    grow,
    sum_closures,
)

__all__ = [
    "GroupCosts",
    "Ids",
    "Ints",
    "Score",
    "closure_cost",
    "column_costs",
    "fill_rows",
    "grow_rows",
    "growth_bytes",
    "require_groups",
    "require_roots_fit",
    "root_costs",
]

Ids = NDArray[np.int32]
Ints = NDArray[np.int64]
Score = Literal["share", "shared"]


@dataclass(frozen=True, eq=False)
class GroupCosts:
    """What groups of roots cost. All arrays have shape (n_groups,), int64, host."""

    nbytes: Ints  # bytes of the roots and columns
    # number of roots, and of entries in their rows
    roots: Ints
    root_entries: Ints
    columns: Ints  # number of different columns in these rows


def growth_bytes(n_roots: int, n_columns: int, n_entries: int) -> int:
    """Return the host bytes at the peak of :func:`grow_groups`, its arguments included."""
    return 104 * n_roots + 44 * n_columns + 8 * n_entries


def root_costs(
    indptr: Ints, columns: Ids, column_bytes: Ints, root_bytes: Ints, entry_bytes: int = 0
) -> Ints:
    """Return the bytes of each root with its closure as a group of its own, before all others; shape (n_roots,)."""
    costs = column_costs(columns, column_bytes, entry_bytes)
    return np.asarray(sum_closures(indptr, columns, costs) + root_bytes)


def column_costs(columns: Ids, column_bytes: Ints, entry_bytes: int) -> Ints:
    """Bytes of each column while no root has a group; a copy."""
    if not entry_bytes:
        return column_bytes.astype(np.int64)
    return np.asarray(column_bytes + entry_bytes * count_holders(columns, column_bytes.size))


def grow_rows(
    indptr: Ints,
    columns: Ids,
    column_costs: Ints,
    root_bytes: Ints,
    limit_bytes: int,
    entry_bytes: int,
    score: Score,
) -> Ids:
    """Grow groups; ``NO_GROUP`` for roots that fit none when all others have theirs. Overwrites ``column_costs``."""
    closure = sum_closures(indptr, columns, column_costs)
    average = closure // np.maximum(np.diff(indptr), 1)
    order = np.argsort(-average, kind="stable")
    costs = Costs(column_costs, root_bytes, closure, entry_bytes, limit_bytes, score == "share")
    return grow(indptr, columns, costs, order)[0]


def require_roots_fit(costs: Ints, limit_bytes: int, names: Ints | None = None) -> None:
    """Refuse roots that cost more than the limit, each with its closure; names the one that costs most."""
    if costs.size and int(costs.max()) > limit_bytes:
        worst = int(np.argmax(costs))
        root = worst if names is None else int(names[worst])
        raise CapacityError(
            f"root {root} with its closure needs {int(costs[worst]):,} bytes, more than the {limit_bytes:,} bytes "
            "of a part; give a part more memory, or cut by pairs of blocks where the motif allows it"
        )


def require_groups(
    groups: Ids, indptr: Ints, columns: Ids, column_costs: Ints, root_bytes: Ints, limit_bytes: int
) -> None:
    """Refuse groups that leave roots out; names the one that costs most. ``column_costs`` are those at the start."""
    left_out = groups == NO_GROUP
    if left_out.any():
        closure = sum_closures(indptr, columns, column_costs) + root_bytes
        require_roots_fit(np.where(left_out, closure, 0), limit_bytes)


def closure_cost(
    indptr: Ints,
    columns: Ids,
    column_bytes: Ints,
    root_bytes: Ints,
    groups: Ids,
    *,
    entry_bytes: int = 0,
) -> GroupCosts:
    """Return what each group costs; parameters as for :func:`grow_groups`, any groups numbered from 0.

    With other numbers for bytes, such as the lengths of the lists of the columns and 0 for roots, ``nbytes`` is the
    sum of those.
    """
    n_groups = int(groups.max(initial=-1)) + 1
    order = np.argsort(groups, kind="stable")
    costs = column_costs(columns, column_bytes, entry_bytes)
    nbytes, counts = add_closures(
        indptr, columns, Costs(costs, root_bytes, root_bytes, entry_bytes, 0, False), order, groups, n_groups
    )
    roots = np.bincount(groups, minlength=n_groups)
    entries = np.zeros(n_groups, dtype=np.int64)
    np.add.at(entries, groups, np.diff(indptr))
    np.add.at(nbytes, groups, root_bytes)
    return GroupCosts(nbytes, roots, entries, counts)


def fill_rows(
    indptr: Ints,
    columns: Ids,
    column_bytes: Ints,
    root_bytes: Ints,
    limit_bytes: int,
    entry_bytes: int,
    order: Ints,
    labels: Ids,
) -> Ids:
    """Group the roots in ``order``; a group ends where the next root does not fit, and where the label changes.

    Roots that fit no group before others have theirs come last.
    """
    costs = column_costs(columns, column_bytes, entry_bytes)
    closure = sum_closures(indptr, columns, costs)
    is_heavy = closure + root_bytes > limit_bytes
    if not entry_bytes:
        require_roots_fit(closure + root_bytes, limit_bytes)
    order = np.concatenate((order[~is_heavy[order]], order[is_heavy[order]]))
    groups, refused = fill_groups(
        indptr, columns, Costs(costs, root_bytes, closure, entry_bytes, limit_bytes, False), order, labels
    )
    if refused >= 0:
        own = slice(int(refused), int(refused) + 1)
        now = sum_closures(indptr[int(refused) : int(refused) + 2], columns, costs)
        require_roots_fit(now + root_bytes[own], limit_bytes, np.array([refused]))
    return groups
