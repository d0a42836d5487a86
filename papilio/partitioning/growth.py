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

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.cpu.growth import Costs, add_closures, fill_groups, grow, sum_closures

__all__ = [
    "GroupCosts",
    "closure_cost",
    "grow_chunks",
    "grow_groups",
    "growth_bytes",
    "hash_groups",
    "root_costs",
]

Ids = NDArray[np.int32]
Ints = NDArray[np.int64]
Score = Literal["share", "shared"]

READ_ENTRIES = 1 << 24
"""Entries that are read at a time: 64 MiB."""

CHUNKS_AT_ONCE = 4
"""Chunks that share the memory. Fixed, because the groups depend on the size of a chunk: a machine with more threads
must find the same groups."""


@dataclass(frozen=True, eq=False)
class GroupCosts:
    """What groups of roots cost. All arrays have shape (n_groups,), int64, host.

    Attributes
    ----------
    nbytes : ndarray
        Bytes of the roots and columns.
    roots, root_entries : ndarray
        Number of roots, and of entries in their rows.
    columns : ndarray
        Number of different columns in these rows.
    """

    nbytes: Ints
    roots: Ints
    root_entries: Ints
    columns: Ints


def growth_bytes(n_roots: int, n_columns: int, n_entries: int) -> int:
    """Return the host bytes at the peak of :func:`grow_groups`, its arguments included."""
    return 92 * n_roots + 44 * n_columns + 8 * n_entries


def root_costs(
    indptr: Ints, columns: Ids, column_bytes: Ints, root_bytes: Ints, entry_bytes: int = 0
) -> Ints:
    """Return the bytes of each root with its closure as a group of its own, before all others; shape (n_roots,)."""
    costs = _column_costs(columns, column_bytes, entry_bytes)
    return np.asarray(sum_closures(indptr, columns, costs) + root_bytes)


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
    costs = _column_costs(columns, column_bytes, entry_bytes)
    return _grow(indptr, columns, costs, root_bytes, limit_bytes, entry_bytes, score)


def _column_costs(columns: Ids, column_bytes: Ints, entry_bytes: int) -> Ints:
    """Bytes of each column while no root has a group; a copy."""
    if not entry_bytes:
        return column_bytes.astype(np.int64)
    return np.asarray(column_bytes + entry_bytes * np.bincount(columns, minlength=column_bytes.size))


def _grow(
    indptr: Ints,
    columns: Ids,
    column_costs: Ints,
    root_bytes: Ints,
    limit_bytes: int,
    entry_bytes: int,
    score: Score,
    first: int = 0,
) -> Ids:
    """Grow the groups of one chunk whose roots are numbered from ``first``; ``column_costs`` is overwritten."""
    closure = sum_closures(indptr, columns, column_costs)
    if not entry_bytes:
        _require_roots_fit(closure + root_bytes, limit_bytes, first)
    average = closure // np.maximum(np.diff(indptr), 1)
    order = np.argsort(-average, kind="stable")
    costs = Costs(column_costs, root_bytes, closure, entry_bytes, limit_bytes, score == "share")
    groups, refused = grow(indptr, columns, costs, order)
    if refused >= 0:
        raise _root_too_large(first + int(refused), int(closure[refused] + root_bytes[refused]), limit_bytes)
    return groups


def _require_roots_fit(root_costs: Ints, limit_bytes: int, first: int = 0) -> None:
    if root_costs.size and int(root_costs.max()) > limit_bytes:
        worst = int(np.argmax(root_costs))
        raise _root_too_large(first + worst, int(root_costs[worst]), limit_bytes)


def _root_too_large(root: int, needed_bytes: int, limit_bytes: int) -> CapacityError:
    return CapacityError(
        f"root {root} with its closure needs {needed_bytes:,} bytes, more than the {limit_bytes:,} bytes of a part; "
        "give a part more memory, or cut by pairs of blocks where the motif allows it"
    )


def grow_chunks(
    indptr: Ints,
    read: Callable[[int, int], Ids],
    column_bytes: Ints,
    root_bytes: Ints,
    limit_bytes: int,
    host_bytes: int,
    threads: int,
    *,
    entry_bytes: int = 0,
    score: Score = "share",
) -> Ids:
    """Group the roots as :func:`grow_groups` does, chunk by chunk, where the rows do not fit host memory.

    Parameters
    ----------
    indptr, column_bytes, root_bytes, limit_bytes, entry_bytes, score
        As for :func:`grow_groups`.
    read : callable
        ``read(first, last)`` returns the rows of the roots [first, last) one after the other, int32; it is called
        from one thread.
    host_bytes : int
        Most bytes of all chunks at work. Decides, with the graph, what the chunks are.
    threads : int
        Chunks that grow at a time, at most; does not change the groups.

    Returns
    -------
    ndarray of int32, shape (n_roots,), host

    Raises
    ------
    CapacityError
        When a root with its closure passes the limit alone, or a chunk of one root the host memory.
    """
    bounds = _chunk_bounds(indptr, column_bytes.size, host_bytes)
    groups = np.empty(root_bytes.size, dtype=np.int32)
    remaining = column_bytes.astype(np.int64)
    if entry_bytes:
        for first, last in pairwise(bounds):
            remaining += entry_bytes * np.bincount(read(first, last), minlength=remaining.size)

    def grow_one(first: int, last: int, columns: Ids, costs: Ints) -> Ids:
        local = indptr[first : last + 1] - indptr[first]
        return _grow(local, columns, costs, root_bytes[first:last], limit_bytes, entry_bytes, score, first)

    n_groups = 0
    with ThreadPoolExecutor(max(1, min(threads, CHUNKS_AT_ONCE))) as pool:
        running: list[tuple[int, Future[Ids]]] = []
        for first, last in pairwise(bounds):
            if len(running) >= CHUNKS_AT_ONCE:
                running[-CHUNKS_AT_ONCE][1].result()
            columns = read(first, last)
            running.append((first, pool.submit(grow_one, first, last, columns, remaining.copy())))
            if entry_bytes:
                remaining -= entry_bytes * np.bincount(columns, minlength=remaining.size)
        for first, future in running:
            found = future.result()
            groups[first : first + found.size] = found + n_groups
            n_groups += int(found.max(initial=-1)) + 1
    return groups


def _chunk_bounds(indptr: Ints, n_columns: int, host_bytes: int) -> list[int]:
    """Return the ends of chunks of roots, each within its share of the memory."""
    n_roots = indptr.size - 1
    share = host_bytes // CHUNKS_AT_ONCE - growth_bytes(0, n_columns, 0)
    used = growth_bytes(1, 0, 0) * np.arange(n_roots + 1) + growth_bytes(0, 0, 1) * indptr
    bounds = [0]
    while bounds[-1] < n_roots:
        last = int(np.searchsorted(used, used[bounds[-1]] + share, "right")) - 1
        if last <= bounds[-1]:
            needed = CHUNKS_AT_ONCE * (growth_bytes(0, n_columns, 0) + int(np.diff(used).max()))
            raise CapacityError(
                f"cutting the graph needs at least {needed:,} bytes of host memory, more than the {host_bytes:,} "
                "that it may have; raise --host-memory"
            )
        bounds.append(last)
    return bounds


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
    costs = _column_costs(columns, column_bytes, entry_bytes)
    nbytes, counts = add_closures(
        indptr, columns, Costs(costs, root_bytes, root_bytes, entry_bytes, 0, False), order, groups, n_groups
    )
    roots = np.bincount(groups, minlength=n_groups)
    entries = np.zeros(n_groups, dtype=np.int64)
    np.add.at(entries, groups, np.diff(indptr))
    np.add.at(nbytes, groups, root_bytes)
    return GroupCosts(nbytes, roots, entries, counts)


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
    return _fill(indptr, columns, column_bytes, root_bytes, limit_bytes, entry_bytes, order, labels)


def _mix(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalizer of SplitMix64: a bijection that scatters consecutive numbers."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(keys ^ (keys >> np.uint64(31)))


def _fill(
    indptr: Ints,
    columns: Ids,
    column_bytes: Ints,
    root_bytes: Ints,
    limit_bytes: int,
    entry_bytes: int,
    order: Ints,
    labels: Ids,
) -> Ids:
    costs = _column_costs(columns, column_bytes, entry_bytes)
    closure = sum_closures(indptr, columns, costs)
    groups, refused = fill_groups(
        indptr, columns, Costs(costs, root_bytes, closure, entry_bytes, limit_bytes, False), order, labels
    )
    if refused >= 0:
        raise _root_too_large(int(refused), int(closure[refused] + root_bytes[refused]), limit_bytes)
    return groups
