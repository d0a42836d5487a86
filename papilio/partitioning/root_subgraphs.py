"""From groups of roots to parts: the subgraph of every biclique that has its first root in a group, from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Core, Rows, order_rows, reduce_rows, transpose_rows
from papilio.partitioning.arrays import Ids, Ints, Roles
from papilio.partitioning.cut_request import CutRequest
from papilio.partitioning.disk_rows import DiskRows
from papilio.partitioning.layer_rows import LayerRows
from papilio.partitioning.root_loops import (
    count_entries_by_root,
    count_root_wedges,
    cut_runs,
    drop_columns,
    keep_lists,
    mark_ids,
    number_lefts,
)
from papilio.parts import MaximalPart, RootPart

RUN_GAP = 1 << 16
"""Entries between two rows that are read along rather than skipped: 256 KiB take as long as another request."""

RUN_ENTRIES = 1 << 22
"""Entries that are read at once, at most: 16 MiB."""

KEPT_BYTES = 12 << 20
"""Host memory that libraries and allocators keep on the way. Measured: 8 to 12 MB."""

RUN_SHARE = 8
"""All threads together read at most this part of the host memory at once."""

STRANGERS = 16
"""Columns that lost their roots are removed where they have more than this part of the entries."""

WRITER_BYTES = 16 << 20
"""Host memory of a thread that cuts and writes parts, whatever their size: buffers of files, and what allocators keep.
Measured: 12 to 15 MB."""

ENTRY_BYTES, EDGE_ENTRY_BYTES = 24, 36
"""Host memory per edge of a part while it is cut, without and with edge ids: its columns' lists, both directions, the
core and the part."""


@dataclass(frozen=True, eq=False)
class AnchoredRows:
    """Rows on disk, with the anchored layer as left."""

    left: LayerRows
    right: LayerRows
    run_entries: int = RUN_ENTRIES  # that a thread reads at once, where no row has more
    entry_bytes: int = ENTRY_BYTES

    @classmethod
    def of(cls, disk: DiskRows, request: CutRequest) -> AnchoredRows:
        """Return the rows of a graph with U as left, read in runs that leave room for what is made of them."""
        id_bytes, entry_bytes = (4, ENTRY_BYTES) if disk.u.edge_ids is None else (12, EDGE_ENTRY_BYTES)
        share = request.host_bytes // (RUN_SHARE * id_bytes * request.threads)
        return cls(disk.u, disk.v, min(RUN_ENTRIES, share), entry_bytes)

    @property
    def n_edges(self) -> int:
        return self.left.n_entries

    def swap(self) -> AnchoredRows:
        """Return the same rows with the other layer anchored."""
        return replace(self, left=self.right, right=self.left)

    def read_falling(self, first: int, last: int) -> Rows:
        """Return left rows from the last rank to the first: place i is rank n_left - 1 - i; places [first, last)."""
        left = self.left
        low, high = left.n_rows - last, left.n_rows - first
        rows = Rows(left.indptr[low : high + 1] - left.indptr[low], left.read(low, high))
        return order_rows(rows, np.arange(high - low, dtype=np.int64)[::-1])


@dataclass(frozen=True, eq=False)
class Scratch:
    """What one thread needs to cut parts."""

    roles: Roles  # (n_right,): 0 between parts
    places: Ids  # (n_left,): -1 between parts

    @classmethod
    def of(cls, rows: AnchoredRows) -> Scratch:
        """Return what a thread needs to cut parts of these rows."""
        return cls(np.zeros(rows.right.n_rows, np.uint8), np.full(rows.left.n_rows, -1, np.int32))


def materialise_bytes(rows: AnchoredRows, n_entries: int) -> int:
    """Return the host bytes of one thread that cuts a part whose lists have ``n_entries`` at most."""
    longest = max(_longest(rows.left.indptr), _longest(rows.right.indptr), rows.run_entries)
    blocks = (4 if rows.left.edge_ids is None else 12) * min(longest, rows.n_edges)
    return (
        WRITER_BYTES
        + 5 * rows.right.n_rows
        + 9 * rows.left.n_rows
        + blocks
        + rows.entry_bytes * min(n_entries, rows.n_edges)
    )


def find_fitting_entries(rows: AnchoredRows, host_bytes: int) -> int:
    """Return how many entries the lists of a part may have at most that one thread cuts within the memory."""
    return max(host_bytes - materialise_bytes(rows, 0), 0) // rows.entry_bytes


def bind_parts(rows: AnchoredRows, request: CutRequest, held: int) -> tuple[CutRequest, int]:
    """Return the request with parts no larger than the host memory can cut, and how many may be cut at a time.

    ``held`` bytes of the host memory are taken. CapacityError when nothing is left to cut a part in.
    """
    price, room = request.part_bytes, request.host_bytes - held
    fixed = materialise_bytes(rows, 0)
    if rows.n_edges and room <= fixed:
        raise CapacityError(
            f"cutting a part takes more than {fixed:,} bytes of host memory beside {held:,} for the vertices, and "
            f"{request.host_bytes:,} are given; give at least {2 * fixed + held:,}"
        )
    entry = max(int(min(price.entry, price.root_entry)), 1)
    most = min((request.limit_bytes - price.fixed) // entry, rows.n_edges)
    fitting = find_fitting_entries(rows, room)
    if most > fitting:
        most = fitting
        request = replace(request, limit_bytes=price.fixed + 1 + most * entry)
    return request, max(min(request.threads, room // max(materialise_bytes(rows, most), 1)), 1)


def _longest(indptr: Ints) -> int:
    return int(np.diff(indptr).max(initial=0))


def read_runs(
    ids: Ids, indptr: Ints, read: Callable[[int, int], Ids], run_entries: int
) -> Iterator[tuple[int, int, Ids]]:
    """Read ascending rows in runs: yield the places [begin, end) in ``ids`` of a run, and all of its entries."""
    for begin, end in pairwise(cut_runs(ids, indptr, RUN_GAP, run_entries).tolist()):
        yield begin, end, read(int(ids[begin]), int(ids[end - 1]) + 1)


def _gather_lists(rows: AnchoredRows, groups: Ids, group: int, columns: Ids) -> tuple[Ints, Ids]:
    """Return the vertices of a group and of later ones in the lists of some columns, as offsets and entries."""
    room = int((rows.right.indptr[columns + 1] - rows.right.indptr[columns]).sum())
    indptr, kept = np.zeros(columns.size + 1, np.int64), np.empty(room, np.int32)
    to = 0
    for begin, end, entries in read_runs(columns, rows.right.indptr, rows.right.read, rows.run_entries):
        run, of_run = columns[begin:end], indptr[begin + 1 : end + 1]
        to = keep_lists(run, rows.right.indptr, entries, groups, group, of_run, kept, to)
    return np.cumsum(indptr), kept[:to]


def _drop_strangers(core: Core, is_root: NDArray[np.bool_], least: tuple[int, int]) -> Core:
    """Remove columns without a root, and what is in no biclique then, again as long as that takes much away."""
    while core.left_ids.size:
        n_right = core.right_ids.size
        has_root, entries = count_entries_by_root(core.rows, is_root[core.left_ids], n_right)
        if int(entries[~has_root].sum()) * STRANGERS <= core.rows.ids.size:
            break
        lefts = drop_columns(core.rows, has_root)
        inner = reduce_rows(lefts, transpose_rows(lefts, n_right), *least)
        core = Core(inner.rows, core.left_ids[inner.left_ids], core.right_ids[inner.right_ids])
    return core


def cut_root_part(
    rows: AnchoredRows,
    groups: Ids,
    group: int,
    roots: Ids,
    least: tuple[int, int],
    scratch: Scratch,
    *,
    shrinks: bool = True,
) -> RootPart | None:
    """Cut the part of one group; None when none of its roots is in a biclique.

    ``groups`` are those of all left ranks; ``roots`` are the left ranks of this one, ascending; ``least`` are the
    fewest left and fewest right vertices of a biclique that the part must serve. Where parts do not shrink, it is a
    :class:`~papilio.parts.MaximalPart`: the roots of earlier ones are excluded.
    """
    for begin, end, entries in read_runs(roots, rows.left.indptr, rows.left.read, rows.run_entries):
        mark_ids(roots[begin:end], rows.left.indptr, entries, scratch.roles, 1)
    columns = np.flatnonzero(scratch.roles).astype(np.int32)
    scratch.roles[columns] = 0
    indptr, entries = _gather_lists(rows, groups, group if shrinks else 0, columns)
    lefts = number_lefts(entries, scratch.places)
    rights = Rows(indptr, entries)
    core = reduce_rows(transpose_rows(rights, lefts.size), rights, *least)
    del rights, entries
    core = _drop_strangers(core, groups[lefts] == group, least)
    left_ids, right_ids = lefts[core.left_ids], columns[core.right_ids]
    local_roots = np.flatnonzero(groups[left_ids] == group)
    if not local_roots.size:
        return None
    part = _make_part(rows, core.rows, (left_ids, right_ids), local_roots)
    if shrinks:
        return part
    excluded = np.flatnonzero(groups[left_ids] < group).astype(np.int32)
    return MaximalPart(**vars(part), excluded=excluded)


def _make_part(rows: AnchoredRows, lefts: Rows, ranks: tuple[Ids, Ids], roots: Ints) -> RootPart:
    """Number a subgraph for an engine: ``ranks`` of its left and right vertices, ``roots`` among its left rows."""
    n_left, n_right = ranks[0].size, ranks[1].size
    right_degree = np.bincount(lefts.ids, minlength=n_right)
    work = count_root_wedges(lefts, right_degree, roots)
    order = np.argsort(-work, kind="stable")
    major = transpose_rows(lefts, n_right) if rows.left.layer == "v" else lefts
    first = np.repeat(np.arange(major.indptr.size - 1, dtype=np.int32), np.diff(major.indptr))
    ids = rows.left.order[ranks[0]], rows.right.order[ranks[1]]
    sizes = n_left, n_right
    ids_u, ids_v = ids[::-1] if rows.left.layer == "v" else ids
    n_u, n_v = sizes[::-1] if rows.left.layer == "v" else sizes
    return RootPart(
        rows.left.layer,
        BipartiteGraph(n_u, n_v, first, major.ids),
        np.ascontiguousarray(ids_u),
        np.ascontiguousarray(ids_v),
        roots[order].astype(np.int32),
        work[order],
    )
