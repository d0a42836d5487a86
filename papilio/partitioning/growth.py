"""Groups of roots for parts of a graph: BCPar's greedy growth.

All functions take :class:`PricedRows`: ``columns[indptr[r]:indptr[r + 1]]`` lists the columns that root r needs,
without repetition, with a cost in bytes per column and per root. A column is a neighbour of the root, with the part's
list of that neighbour. The cost of a group is the sum of its roots and of the distinct columns in their rows.

A column may shrink: with ``entry_bytes`` it costs ``column_bytes + entry_bytes * k``, where k is the number of roots
that hold it and are in no earlier group, as in parts that leave out the roots of earlier parts.

Groups are numbered 0, 1, ... in the order in which they grow. Results are the same on every run and for any number of
threads. Arrays are on the host: ``indptr``, ``column_bytes`` and ``root_bytes`` of int64, ``columns`` and groups of
int32.

If the rows do not fit in host memory, they are grown in chunks of roots:

1. Order the roots so that roots with common columns are close: every root starts with a random number; a column takes
   the mean of its roots, a root the mean of its columns, and so on, with the columns spread evenly by rank in between.
   Each round is one pass over the rows, which are read block by block.
2. Cut this order into chunks of consecutive roots, as many as fit in a chunk's memory, and grow each chunk separately.
3. If the last groups of a chunk are far below the limit, join them with the next such groups, which are close in the
   order, as long as the limit allows. A chunk may be smaller than a group.

If columns shrink, a chunk assumes that all earlier chunks are parts already. Roots that fit in no part while all other
roots are still to come are kept for the end, and the groups of step 3 come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from papilio.errors import CapacityError
from papilio.kernels.biclique.core import Rows, transpose_rows
from papilio.kernels.offsets import count_ids, offsets_of
from papilio.partitioning import Ids, Ints
from papilio.partitioning.growth_loops import (
    NO_GROUP,
    ByteCosts,
    add_closures,
    add_to_columns,
    grow,
    scatter_rows,
    smooth_rows,
    sum_closures,
)
from papilio.partitioning.rows import span_rows


@dataclass(frozen=True, eq=False)
class PricedRows:
    """Rows of roots, with the costs of roots and columns in bytes."""

    indptr: Ints  # (n_roots + 1,)
    columns: Ids  # (n_entries,)
    column_bytes: Ints  # (n_columns,): cost of each column, or an upper bound
    root_bytes: Ints  # (n_roots,)
    entry_bytes: int = 0  # added to its columns by each root without an earlier group

    def column_costs(self) -> Ints:
        """Return the bytes of each column while no root has a group; a copy."""
        if not self.entry_bytes:
            return self.column_bytes.astype(np.int64)
        return self.column_bytes + self.entry_bytes * count_ids(self.columns, self.column_bytes.size)

    def root_costs(self) -> Ints:
        """Return the bytes of each root with its closure, as the only member of the first group."""
        return np.asarray(sum_closures(self.indptr, self.columns, self.column_costs()) + self.root_bytes)


def growth_bytes(n_roots: int, n_columns: int, n_entries: int) -> int:
    """Return the peak host bytes of :func:`grow_groups`, arguments included."""
    return 104 * n_roots + 44 * n_columns + 8 * n_entries


def closure_cost(rows: PricedRows, groups: Ids) -> Ints:
    """Return the bytes of the roots and columns of each group, for any groups numbered from 0; shape (n_groups,).

    Other numbers may replace the bytes, such as list lengths for columns and 0 for roots; they are summed the same way.
    """
    n_groups = int(groups.max(initial=-1)) + 1
    order = np.argsort(groups, kind="stable")
    costs = ByteCosts(rows.column_costs(), rows.root_bytes, rows.root_bytes, rows.entry_bytes, 0, False)
    nbytes = add_closures(rows.indptr, rows.columns, costs, order, groups, n_groups)
    np.add.at(nbytes, groups, rows.root_bytes)
    return nbytes


def require_roots_fit(costs: Ints, limit_bytes: int, names: Ints | None = None) -> None:
    """Raise if any root with its closure costs more than the limit; the message names the most expensive root."""
    if costs.size and int(costs.max()) > limit_bytes:
        worst = int(np.argmax(costs))
        root = worst if names is None else int(names[worst])
        raise CapacityError(
            f"root {root} with its closure needs {int(costs[worst]):,} bytes, more than the {limit_bytes:,} bytes "
            "of a part; allow more memory per part, or cut by pairs of blocks if the motif supports it"
        )


def grow_rows(rows: PricedRows, costs: Ints, limit_bytes: int, by_share: bool = True) -> Ids:
    """Grow groups by these costs of columns, which are overwritten.

    A root that fits in no group after all others have theirs gets ``NO_GROUP``.
    """
    closure = sum_closures(rows.indptr, rows.columns, costs)
    average = closure // np.maximum(np.diff(rows.indptr), 1)
    order = np.argsort(-average, kind="stable")
    prices = ByteCosts(costs, rows.root_bytes, closure, rows.entry_bytes, limit_bytes, by_share)
    holders = transpose_rows(Rows(rows.indptr, rows.columns), costs.size)
    return grow(rows.indptr, rows.columns, *holders, prices, order)[0]


def grow_groups(rows: PricedRows, limit_bytes: int, by_share: bool = True) -> Ids:
    """Group the roots by Algorithm 3 of the GBC paper: grow from the heaviest, by shared columns, under a limit.

    Returns the group of each root, int32. The next root is the one whose closure shares the largest fraction of its
    bytes with the group, or, without ``by_share`` and as in the paper, the most bytes. Raises CapacityError, naming the
    root, if a root with its closure exceeds the limit.

    O(replication x n_entries) visits of entries, each with at most O(log n_roots) heap steps. The paper closes a group
    at the first candidate that does not fit; here up to ``MISSES`` candidates in a row are skipped, and a group that
    shares nothing with any other root continues with the next heaviest. Hub columns, which nearly every root holds,
    count in the scores: they are walked once per group that has them, which the bound above includes. The added cost
    of a root is thereby known exactly without reading its row.
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


ROUNDS = 6
"""Rounds of averaging. On community graphs and skewed ones, more rounds lower the replication by a few percent."""

CHUNKS_AT_ONCE = 4
"""Maximum number of chunks that share the memory. Fixed, because groups depend on the chunk size: a machine with more
threads must find the same groups.
"""

ONE_CHUNK_ENTRIES = 1 << 28
"""Maximum number of entries in one chunk if everything fits: about a minute of one thread."""

_MOST_READ_ENTRIES = 1 << 22
"""Maximum number of entries that a thread reads at a time: 16 MiB. All threads together read at most a sixteenth of the
memory.
"""

_ROOT_BYTES, _COLUMN_BYTES = 104, 32
"""Host memory per root and per column besides the chunks: arguments, values, orders, costs and groups."""

_ORDER_BYTES = 96
"""Host memory per column while the roots are ordered: values, and sums for each thread."""

_SPREAD = 1 << 31
"""Values of columns lie between 0 and this: sums over 2^31 of them stay below 2^62."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that are read block by block, with the costs of roots and columns while no root has a group."""

    indptr: Ints
    read: Callable[[int, int], Ids]
    columns: Ints
    roots: Ints
    entry_bytes: int
    limit_bytes: int
    read_entries: int

    @property
    def n_roots(self) -> int:
        return int(self.roots.size)

    @property
    def lengths(self) -> Ints:
        return np.diff(self.indptr)

    def blocks(self, wanted: Ints | None = None) -> list[tuple[int, int]]:
        """Return ranges of roots with few entries each; with ``wanted`` (ascending), only ranges with any of these."""
        return [
            (first, last)
            for first, last in span_rows(self.indptr, 0, self.n_roots, self.read_entries)
            if wanted is None or np.searchsorted(wanted, first) < np.searchsorted(wanted, last)
        ]

    def load(self, chunks: Sequence[Ints]) -> list[tuple[Ints, Ids]]:
        """Return the rows of each chunk of roots; roots ascend within a chunk."""
        slots = np.full(self.n_roots, -1, np.int32)
        sizes = []
        for slot, chunk in enumerate(chunks):
            slots[chunk] = slot
            sizes.append(int(self.lengths[chunk].sum()))
        ends = np.cumsum(sizes)
        out = np.empty(int(ends[-1]), np.int32)
        at = (ends - sizes).astype(np.int64)
        for first, last in self.blocks(np.flatnonzero(slots >= 0)):
            scatter_rows(self.indptr[first : last + 1], self.read(first, last), slots[first:last], at, out)
        loaded = []
        for chunk, size, end in zip(chunks, sizes, ends, strict=True):
            loaded.append((offsets_of(self.lengths[chunk]), out[end - size : end]))
        return loaded


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
) -> Ids:
    """Group the roots as :func:`papilio.partitioning.growth.grow_groups` does, within a bound of host memory.

    ``read(first, last)`` returns the concatenated rows of the roots [first, last), int32. Several threads call it at
    once, about ten times per root. ``host_bytes`` bounds the memory, arguments and result included; together with the
    graph it determines the chunks. ``threads`` do not change the groups. Raises CapacityError if a root with its
    closure exceeds the limit, or host memory has no room for a chunk.
    """
    n_roots, n_columns, n_entries = root_bytes.size, column_bytes.size, int(indptr[-1])
    fits = growth_bytes(n_roots, n_columns, n_entries) <= host_bytes
    if fits and n_entries <= ONE_CHUNK_ENTRIES:
        columns = read(0, n_roots)
        whole = PricedRows(indptr, columns, column_bytes, root_bytes, entry_bytes)
        return grow_groups(whole, limit_bytes)
    at_once, share_bytes = _share_memory(indptr, n_columns, host_bytes)
    with ThreadPoolExecutor(max(1, min(threads, CHUNKS_AT_ONCE))) as pool:
        rows = _Rows(
            indptr,
            read,
            column_bytes.astype(np.int64),
            root_bytes,
            entry_bytes,
            limit_bytes,
            _read_entries(host_bytes),
        )
        order, closure = order_roots(rows, pool, max(1, min(threads, CHUNKS_AT_ONCE)))
        is_heavy = closure > limit_bytes
        if not entry_bytes:
            require_roots_fit(closure, limit_bytes)
        chunks = _cut(order[~is_heavy[order]], rows.lengths, share_bytes)
        grown = _Growth(rows)
        for first in range(0, len(chunks), at_once):
            grown.grow_side_by_side(chunks[first : first + at_once], pool)
        grown.grow_heavy(order[is_heavy[order]], share_bytes)
        grown.join_tails()
    return grown.number()


def _read_entries(host_bytes: int) -> int:
    return min(_MOST_READ_ENTRIES, host_bytes // (16 * 4 * CHUNKS_AT_ONCE))


def _share_memory(indptr: Ints, n_columns: int, host_bytes: int) -> tuple[int, int]:
    """Return how many chunks grow at a time, and the bytes of each for its roots and entries."""
    n_roots = indptr.size - 1
    base = _ROOT_BYTES * n_roots + _COLUMN_BYTES * n_columns
    room = host_bytes - base - 4 * CHUNKS_AT_ONCE * _read_entries(host_bytes)
    held = growth_bytes(0, n_columns, 0)
    at_once = next((n for n in (CHUNKS_AT_ONCE, 2) if n * held <= room // 2), 1)
    share = room // at_once - held
    largest = growth_bytes(1, 0, int(np.diff(indptr).max(initial=0)))
    if share < largest or room < _ORDER_BYTES * n_columns:
        needed = host_bytes - room + max(held + largest, _ORDER_BYTES * n_columns)
        raise CapacityError(
            f"grouping {n_roots:,} roots with {n_columns:,} columns needs at least {needed:,} bytes of host memory, "
            f"more than the limit of {host_bytes:,}; raise --host-memory"
        )
    return at_once, share


def order_roots(rows: _Rows, pool: Executor, threads: int) -> tuple[Ints, Ints]:
    """Order the roots so that roots with common columns are close; return the order and the cost of each root alone.

    Also counts the roots of each column, and adds ``entry_bytes`` for each to ``rows.columns``.
    """
    n_columns = rows.columns.size
    values = np.random.default_rng(0).integers(0, _SPREAD, rows.n_roots)
    ranges = rows.blocks()

    def run(work: Callable[[int, int, Ids, Ints], None]) -> Ints:
        """Call ``work(first, last, columns, sums)`` for all blocks; return the sums."""

        def run_some(mine: Sequence[tuple[int, int]]) -> Ints:
            sums = np.zeros(n_columns, np.int64)
            for first, last in mine:
                work(first, last, rows.read(first, last), sums)
            return sums

        parts = list(pool.map(run_some, [ranges[i::threads] for i in range(threads)]))
        for part in parts[1:]:
            parts[0] += part
        return parts[0]

    def count(first: int, last: int, columns: Ids, sums: Ints) -> None:
        add_to_columns(rows.indptr[first : last + 1], columns, np.ones(last - first, np.int64), sums)

    def add(first: int, last: int, columns: Ids, sums: Ints) -> None:
        add_to_columns(rows.indptr[first : last + 1], columns, values[first:last], sums)

    holders = run(count)
    np.maximum(holders, 1, out=holders)
    sums = run(add)
    spread = np.empty(n_columns, np.int64)

    def smooth(first: int, last: int, columns: Ids, sums: Ints) -> None:
        smooth_rows(rows.indptr[first : last + 1], columns, spread, values[first:last], sums)

    for _ in range(ROUNDS):
        by_mean = np.argsort(sums // holders, kind="stable")
        spread[by_mean] = np.arange(n_columns) * (_SPREAD // max(n_columns, 1))
        sums = run(smooth)
    if rows.entry_bytes:
        rows.columns[:] += rows.entry_bytes * holders
    closure = rows.roots.copy()

    def price(first: int, last: int, columns: Ids, sums: Ints) -> None:
        closure[first:last] += sum_closures(rows.indptr[first : last + 1] - rows.indptr[first], columns, rows.columns)

    run(price)
    return np.argsort(values, kind="stable"), closure


def _cut(order: Ints, lengths: Ints, share_bytes: int) -> list[Ints]:
    """Cut ordered roots into the fewest pieces that fit in memory, of similar sizes; each piece ascends."""
    if not order.size:
        return []
    used = np.cumsum(growth_bytes(1, 0, 0) + growth_bytes(0, 0, 1) * lengths[order])
    bounds = [0]
    target = share_bytes
    pieces = -(-int(used[-1]) // share_bytes)
    if pieces > 1:
        target = min(share_bytes, int(used[-1]) // pieces + int(used[0]))
    while bounds[-1] < order.size:
        before = int(used[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(int(np.searchsorted(used, before + target, "right")), bounds[-1] + 1))
    return [np.sort(order[first:last]) for first, last in pairwise(bounds)]


class _Growth:
    """Groups found so far, as lists of roots in order."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._whole = rows.columns.copy()
        self._costs = rows.columns
        self._lists: list[Ints] = []
        self._small: list[int] = []

    def _grow(self, chunk: Ints, indptr: Ints, columns: Ids, costs: Ints) -> Ids:
        rows = self._rows
        own = PricedRows(indptr, columns, rows.columns, rows.roots[chunk], rows.entry_bytes)
        return grow_rows(own, costs, rows.limit_bytes)

    def _take_out(self, columns: Ids) -> None:
        if self._rows.entry_bytes:
            self._costs -= self._rows.entry_bytes * count_ids(columns, self._costs.size)

    def grow_side_by_side(self, chunks: Sequence[Ints], pool: Executor) -> None:
        """Grow several chunks at a time, each as if all roots of earlier chunks already had groups."""
        running = []
        for chunk, (indptr, columns) in zip(chunks, self._rows.load(chunks), strict=True):
            running.append(
                (chunk, indptr, columns, pool.submit(self._grow, chunk, indptr, columns, self._costs.copy()))
            )
            self._take_out(columns)
        for chunk, indptr, columns, future in running:
            groups = future.result()
            self._lists += _split(chunk, groups)
            is_last = groups == groups.max()
            used = np.zeros(self._whole.size, bool)
            used[columns[np.repeat(is_last, np.diff(indptr))]] = True
            cost = int(self._whole[used].sum() + self._rows.roots[chunk[is_last]].sum())
            if cost <= self._rows.limit_bytes // 2:
                self._small.append(len(self._lists) - 1)

    def grow_heavy(self, order: Ints, share_bytes: int) -> None:
        """Grow the roots that fit in no part until others have groups, as soon as they fit."""
        stalled = 0
        while order.size:
            piece = _cut(order, self._rows.lengths, share_bytes)[0]
            order = order[piece.size :]
            [(indptr, columns)] = self._rows.load([piece])
            groups = self._grow(piece, indptr, columns, self._costs.copy())
            placed = groups != NO_GROUP
            stalled = 0 if placed.any() else stalled + piece.size
            self._lists += _split(piece[placed], groups[placed])
            self._take_out(columns[np.repeat(placed, np.diff(indptr))])
            order = np.concatenate((order, piece[~placed]))
            if stalled >= order.size > 0:
                closure = sum_closures(indptr, columns, self._costs)
                require_roots_fit(closure + self._rows.roots[piece], self._rows.limit_bytes, piece)

    def join_tails(self) -> None:
        """Join the last groups of chunks where the limit allows; joined groups come before all others."""
        joined: list[list[int]] = []
        held = np.zeros(self._whole.size, bool)
        cost = 0
        for place in self._small:
            roots = self._lists[place]
            [(_, columns)] = self._rows.load([roots])
            used = np.zeros(self._whole.size, bool)
            used[columns] = True
            own = int(self._rows.roots[roots].sum())
            added = int(self._whole[used & ~held].sum()) + own
            if joined and cost + added <= self._rows.limit_bytes:
                joined[-1].append(place)
                held |= used
                cost += added
            else:
                joined.append([place])
                held, cost = used, int(self._whole[used].sum()) + own
        joined = [places for places in joined if len(places) > 1]
        gone = {place for places in joined for place in places}
        first = [np.concatenate([self._lists[place] for place in places]) for places in joined]
        self._lists = first + [roots for place, roots in enumerate(self._lists) if place not in gone]

    def number(self) -> Ids:
        groups = np.empty(self._rows.n_roots, np.int32)
        for group, roots in enumerate(self._lists):
            groups[roots] = group
        return groups


def _split(roots: Ints, groups: Ids) -> list[Ints]:
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups)) if groups.size else np.zeros(0, np.int64)
    return [np.sort(part) for part in np.split(roots[order], ends[:-1])] if groups.size else []
