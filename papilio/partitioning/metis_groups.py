"""Groups of roots by METIS: a baseline for the growth of groups, after the GBC paper (ICDE 2024, Figure 10).

METIS cuts graphs of one layer. So the roots are joined where they are 2-hop neighbours, by edges that weigh as many
columns as the two share, and METIS cuts few of these into parts of equally many entries. It knows nothing of costs:
a part whose closure passes the limit is split further.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.extras import import_extra
from papilio.kernels.biclique.core import Rows
from papilio.kernels.biclique.pairs import PAIR_BYTES, find_pairs
from papilio.partitioning.arrays import Ids, Ints
from papilio.partitioning.growth import PricedRows, fill_rows, require_roots_fit

MAX_PAIRS = 1 << 22
"""Pairs of holders of one column that are looked at: METIS takes some ten seconds for as many edges. Four times as many
lowered the replication of yelp2018 from 8.3 to 6.6 and changed nothing elsewhere."""

_TRIES = 3
"""Numbers of parts that METIS is asked for before what it gave last is split."""


def metis_groups(rows: PricedRows, limit_bytes: int, max_pairs: int = MAX_PAIRS) -> Ids:
    """Group the roots by METIS; a group over the limit is split in the order of its roots.

    ``max_pairs`` bounds the auxiliary graph: columns with the fewest holders come in first, until the pairs of their
    holders are as many: the pairs of a hub are most, and tell least. The rest as for
    :func:`papilio.partitioning.growth.grow_groups`. EngineUnavailableError when pymetis is not installed.
    """
    metis = _load_metis()
    if not rows.entry_bytes:
        require_roots_fit(rows.root_costs(), limit_bytes)
    n_roots = rows.root_bytes.size
    starts, others, weights = _join_roots(rows.indptr, rows.columns, rows.column_bytes.size, max_pairs)
    adjacency = metis.CSRAdjacency(starts, others)
    whole = int(rows.column_costs().sum() + rows.root_bytes.sum())
    n_parts = max(1, -(-whole // max(limit_bytes, 1)))
    best: Ids | None = None
    for _ in range(_TRIES):
        n_parts = min(n_parts, max(n_roots, 1))
        labels = np.zeros(n_roots, dtype=np.int32)
        if n_parts > 1:
            sizes = 1 + np.diff(rows.indptr)
            _, found = metis.part_graph(n_parts, adjacency, vweights=sizes, eweights=weights)
            labels = np.asarray(found, dtype=np.int32)
        order = np.argsort(labels, kind="stable")
        groups = fill_rows(rows, limit_bytes, order, labels)
        n_groups = int(groups.max(initial=-1)) + 1
        if best is None or n_groups <= int(best.max(initial=-1)):
            best = groups
        if n_groups <= n_parts + n_parts // 4 or n_parts == n_roots:
            break
        n_parts = n_groups
    assert best is not None
    return best


def _load_metis() -> Any:
    return import_extra("pymetis", "the strategy metis needs", "use the strategy bcpar")


def _join_roots(indptr: Ints, columns: Ids, n_columns: int, max_pairs: int) -> tuple[Ints, Ints, Ints]:
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
