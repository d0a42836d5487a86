"""Cuts a stored graph into parts for bicliques (:class:`~papilio.parts.RootPart`), out of core and in parallel.

1. Anchor one layer, as the engines choose it; reduce the graph to its core and write it as rows on disk.
2. Group the vertices of the anchored layer so that the closure of each group fits in a part. The closure consists of
   the group's columns (the right vertices adjacent to its roots), with their lists cut to the vertices of its group and
   later ones.
3. Each group becomes a part: all edges between the columns of its roots and the left vertices of its group and later
   ones, reduced once more.

The price of a closure is at least the bytes that the part needs. A part holds the roots, the columns, the lists, and
the other vertices in the lists. Each of these vertices is in at least as many lists as a biclique has right vertices.

Every (p,q)-biclique belongs to the first part that has one of its anchored vertices as a root. The core of p and q
keeps every biclique of at least p and q vertices, stars too, so the parts serve all larger p and q.

Maximal bicliques belong to parts in the same way, but a vertex that extends one may be a root of an earlier part. So
the lists are complete in every part (:class:`~papilio.parts.MaximalPart`), and the roots of earlier parts in them are
excluded. A core keeps every vertex that extends a biclique of the core.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import ceil
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Core, Rows, order_rows, reduce_rows, transpose_rows
from papilio.kernels.biclique.forms import Degrees
from papilio.kernels.biclique.question import (
    choose_anchor,
    choose_maximal_anchor,
    choose_sizes,
    explain_choice,
    resolve_anchor,
)
from papilio.kernels.engine import Choice
from papilio.kernels.offsets import offsets_of
from papilio.motifs import Biclique, MaximalBiclique, Motif
from papilio.partitioning import Ids, Ints, Roles
from papilio.partitioning.cut_request import CutProgress, CutRequest
from papilio.partitioning.cut_run import cut_run
from papilio.partitioning.disk_rows import DiskRows
from papilio.partitioning.growth import grow_chunks
from papilio.partitioning.part_loops import (
    Prices,
    count_entries_by_root,
    count_root_wedges,
    cut_runs,
    drop_columns,
    find_worst_root,
    keep_lists,
    mark_ids,
    number_lefts,
)
from papilio.partitioning.partition import Partition
from papilio.partitioning.rows import LayerRows, degrees
from papilio.parts import Layer, MaximalPart, PartSizes, RootPart
from papilio.storage.files import release_memory
from papilio.storage.store import GraphStore

RUN_GAP = 1 << 16
"""Longest gap between two rows that is read rather than skipped: 256 KiB take as long as another request."""

RUN_ENTRIES = 1 << 22
"""Maximum number of entries read at once: 16 MiB."""

KEPT_BYTES = 12 << 20
"""Host memory that libraries and allocators retain. Measured: 8 to 12 MB."""

RUN_SHARE = 8
"""All threads together read at most one part in this many of the host memory at once."""

STRANGERS = 16
"""Columns that lost their roots are removed if they hold more than one entry in this many."""

WRITER_BYTES = 16 << 20
"""Host memory of a thread that cuts and writes parts of any size: file buffers and the allocator's overhead.
Measured: 12 to 15 MB.
"""

ENTRY_BYTES, EDGE_ENTRY_BYTES = 24, 36
"""Host memory per edge of a part while it is cut, without and with edge ids: its columns' lists, both directions, the
core and the part.
"""


@dataclass(frozen=True, eq=False)
class AnchoredRows:
    """Rows on disk, with the anchored layer on the left."""

    left: LayerRows
    right: LayerRows
    run_entries: int = RUN_ENTRIES  # maximum that a thread reads at once, unless a row is longer
    entry_bytes: int = ENTRY_BYTES

    @classmethod
    def of(cls, disk: DiskRows, request: CutRequest) -> AnchoredRows:
        """Return the rows of a graph with U on the left, read in runs that leave room for the parts."""
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
        """Return the places [first, last) of the left rows in reverse order: place i is rank n_left - 1 - i."""
        left = self.left
        low, high = left.n_rows - last, left.n_rows - first
        rows = Rows(left.indptr[low : high + 1] - left.indptr[low], left.read(low, high))
        return order_rows(rows, np.arange(high - low, dtype=np.int64)[::-1])


@dataclass(frozen=True, eq=False)
class Scratch:
    """Arrays for one thread that cuts parts."""

    roles: Roles  # (n_right,): 0 between parts
    places: Ids  # (n_left,): -1 between parts

    @classmethod
    def of(cls, rows: AnchoredRows) -> Scratch:
        return cls(np.zeros(rows.right.n_rows, np.uint8), np.full(rows.left.n_rows, -1, np.int32))


def materialise_bytes(rows: AnchoredRows, n_entries: int) -> int:
    """Return the host bytes of one thread that cuts a part whose lists have at most ``n_entries``."""
    longest = max(_longest(rows.left.indptr), _longest(rows.right.indptr), rows.run_entries)
    blocks = (4 if rows.left.edge_ids is None else 12) * min(longest, rows.n_edges)
    return (
        WRITER_BYTES
        + 5 * rows.right.n_rows
        + 9 * rows.left.n_rows
        + blocks
        + rows.entry_bytes * min(n_entries, rows.n_edges)
    )


class HostBudget(NamedTuple):
    """Shares of the host memory of a cut into parts of roots."""

    request: CutRequest  # parts no larger than one thread can cut
    threads: int  # parts cut at a time
    group_bytes: int  # for grouping the roots

    @classmethod
    def of(cls, rows: AnchoredRows, request: CutRequest, left_bytes: int, right_bytes: int = 0) -> HostBudget:
        """Share the memory left besides the rows and these bytes for each left and right vertex.

        Raises CapacityError if no memory is left to cut a part.
        """
        held = (
            KEPT_BYTES
            + rows.left.nbytes
            + rows.right.nbytes
            + left_bytes * rows.left.n_rows
            + right_bytes * rows.right.n_rows
        )
        price, room = request.part_bytes, request.host_bytes - held
        fixed = materialise_bytes(rows, 0)
        if rows.n_edges and room <= fixed:
            raise CapacityError(
                f"cutting a part takes more than {fixed:,} bytes of host memory besides {held:,} for the vertices, "
                f"but the limit is {request.host_bytes:,}; allow at least {2 * fixed + held:,}"
            )
        entry = max(int(min(price.entry, price.root_entry)), 1)
        most = min((request.limit_bytes - price.fixed) // entry, rows.n_edges)
        fitting = max(room - fixed, 0) // rows.entry_bytes
        if most > fitting:
            most = fitting
            request = replace(request, limit_bytes=price.fixed + 1 + most * entry)
        threads = max(min(request.threads, room // max(materialise_bytes(rows, most), 1)), 1)
        return cls(request, threads, room * 15 // 16)


def _longest(indptr: Ints) -> int:
    return int(np.diff(indptr).max(initial=0))


def read_runs(
    ids: Ids, indptr: Ints, read: Callable[[int, int], Ids], run_entries: int
) -> Iterator[tuple[int, int, Ids]]:
    """Read ascending rows in runs: yield the places [begin, end) in ``ids`` of a run, and all of its entries."""
    for begin, end in pairwise(cut_runs(ids, indptr, RUN_GAP, run_entries).tolist()):
        yield begin, end, read(int(ids[begin]), int(ids[end - 1]) + 1)


def _gather_lists(rows: AnchoredRows, groups: Ids, group: int, columns: Ids) -> tuple[Ints, Ids]:
    """Return the vertices of this and later groups in the lists of some columns, as offsets and entries."""
    room = int((rows.right.indptr[columns + 1] - rows.right.indptr[columns]).sum())
    indptr, kept = np.zeros(columns.size + 1, np.int64), np.empty(room, np.int32)
    to = 0
    for begin, end, entries in read_runs(columns, rows.right.indptr, rows.right.read, rows.run_entries):
        run, of_run = columns[begin:end], indptr[begin + 1 : end + 1]
        to = keep_lists(run, rows.right.indptr, entries, groups, group, of_run, kept, to)
    return np.cumsum(indptr), kept[:to]


def _drop_strangers(core: Core, is_root: NDArray[np.bool_], least: tuple[int, int]) -> Core:
    """Remove columns without a root and reduce to the core again, as long as this removes many entries."""
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
    """Cut the part of one group; return None if none of its roots is in a biclique.

    ``groups`` has the group of each left rank; ``roots`` are the left ranks of this group, ascending; ``least`` has the
    least left and right sizes of the bicliques that the part must serve. Without ``shrinks`` the part is a
    :class:`~papilio.parts.MaximalPart`: the roots of earlier parts are excluded.
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


SCAN_ENTRIES = 1 << 24
"""Entries that the search for the worst root reads at once: 64 MiB."""


class ClosureTooLargeError(CapacityError):
    """A root with the lists of its neighbours fits in no part."""


def price_closures(request: CutRequest, rows: AnchoredRows, min_right: int) -> list[tuple[Prices, int]]:
    """Return two price lists for closures, each with the price limit of a part in bytes; the better one first.

    The number of a part's left vertices that are no roots is unknown from its lists. Either each list entry pays for a
    share of such a vertex, as each has at least ``min_right`` edges, or room is reserved for all of them. The better
    way leaves room for more entries.
    """
    price, limit = request.part_bytes, request.limit_bytes - request.part_bytes.fixed - 1
    ways = []
    for entry, kept in (
        (ceil(price.entry + price.vertex / min_right), 0),
        (ceil(price.entry), ceil(price.vertex * rows.left.n_rows)),
    ):
        prices = Prices(ceil(price.root), ceil(price.root_entry) - entry, ceil(price.vertex), entry)
        ways.append((prices, limit - kept))
    return sorted(ways, key=lambda way: -way[1] / max(way[0].entry, 1))


def group_roots(rows: AnchoredRows, request: CutRequest, min_right: int, *, shrinks: bool) -> tuple[Ids, str, int]:
    """Return the group of each left rank, the reason for the grouping, and how many parts may be cut at a time.

    The groups, in order, are the parts. ``min_right`` is the least number of right vertices of a biclique. With
    ``shrinks`` a part leaves the roots of earlier parts out of its lists. Raises ClosureTooLargeError if a root with
    its closure exceeds the limit; the message names the root and the least sufficient budget. Raises CapacityError if
    host memory is too small.
    """
    host = HostBudget.of(rows, request, LEFT_BYTES, RIGHT_BYTES)
    if host.request.fits(PartSizes(rows.left.n_rows, rows.n_edges, rows.right.n_rows, 0)):
        why = "one part: everything that can be in a biclique fits in one part"
        return np.zeros(rows.left.n_rows, np.int32), why, host.threads
    degrees = np.diff(rows.left.indptr)[::-1]
    indptr = offsets_of(degrees)

    def group(prices: Prices, limit: int) -> Ids:
        column_bytes = np.full(rows.right.n_rows, prices.column, np.int64)
        if not shrinks:
            column_bytes += prices.entry * np.diff(rows.right.indptr)
        root_bytes = prices.root + prices.root_entry * degrees
        return grow_chunks(
            indptr, lambda first, last: rows.read_falling(first, last).ids, column_bytes, root_bytes, limit,
            host.group_bytes, request.threads, entry_bytes=prices.entry if shrinks else 0,
        )  # fmt: skip

    failures: list[tuple[int, int, CapacityError]] = []
    for prices, limit in price_closures(host.request, rows, min_right):
        try:
            groups = group(prices, limit)[::-1].copy()  # from the last rank to the first
        except CapacityError as error:
            root, cost = _find_worst(rows, prices, shrinks)
            if cost <= limit:
                raise
            failures.append((cost - limit, root, error))
        else:
            why = "the core does not fit in one part; roots that share columns share their storage"
            return groups, why, host.threads
    excess, worst, cause = min(failures, key=itemgetter(0))
    raise _root_too_large(rows, request, host.request.limit_bytes, worst, excess) from cause


def _find_worst(rows: AnchoredRows, prices: Prices, shrinks: bool) -> tuple[int, int]:
    """Return the root with the most expensive closure if every root is a part, least degree first, and its cost."""
    kept = np.diff(rows.right.indptr).astype(np.int32)
    worst = np.array([-1, -1], np.int64)
    last = rows.left.n_rows
    while last > 0:
        target = rows.left.indptr[last] - SCAN_ENTRIES
        first = min(int(np.searchsorted(rows.left.indptr, target)), last - 1)
        indptr = rows.left.indptr[first : last + 1] - rows.left.indptr[first]
        find_worst_root(Rows(indptr, rows.left.read(first, last)), first, prices, shrinks, kept, worst)
        last = first
    return int(worst[0]), int(worst[1])


def _root_too_large(
    rows: AnchoredRows, request: CutRequest, limit_bytes: int, rank: int, excess: int
) -> ClosureTooLargeError:
    layer, vertex = rows.left.layer.upper(), int(rows.left.order[rank])
    degree = int(rows.left.indptr[rank + 1] - rows.left.indptr[rank])
    needed, more_host = limit_bytes + excess, ""
    if limit_bytes < request.limit_bytes:
        more_host = (
            "; the limit is low because larger parts need more host memory for cutting than the "
            "{request.host_bytes:,} bytes allowed, so raise that"
        )
    return ClosureTooLargeError(
        f"vertex {vertex} of layer {layer}, a root with {degree:,} edges, needs {needed:,} bytes with the lists of "
        f"its neighbours, more than the {limit_bytes:,} bytes of a part; allow at least {needed:,} bytes per part, "
        f"or anchor the other layer{more_host}"
    )


LEFT_BYTES = 28
"""Host memory per left vertex besides that: its group, its place among the roots, offsets and bytes during grouping."""

RIGHT_BYTES = 12
"""Host memory per right vertex besides that: bytes of its list during grouping."""


def cut_roots(
    store: GraphStore,
    output: str | os.PathLike[str],
    motif: Motif,
    options: Mapping[str, str],
    request: CutRequest,
    progress: CutProgress | None = None,
    *,
    is_maximal: bool = False,
) -> Partition:
    """Cut a stored graph into parts for the bicliques of ``motif``, and for all larger least sizes.

    ``output`` is the path of the new partition and must not exist. The option ``anchor`` is the layer of the roots:
    ``u``, ``v``, or ``auto``: the layer that the engines choose, or the other one if a root of the first fits in no
    part.

    Raises UnsupportedError for a strategy of other motifs, and InputError for an unknown anchor. Raises CapacityError,
    before writing anything, if a part of one root exceeds the limit or host memory is too small. Raises StoreError if
    ``output`` cannot be written.
    """
    shrinks = not is_maximal
    choose: Any = _choose_maximal_anchor if is_maximal else _choose_anchor
    with cut_run(store, output, motif, request, progress) as run, ExitStack() as stack:
        layers = Degrees(store.n_u, store.n_v, *degrees(store, threads=request.threads))
        requested, anchor, anchor_choice = choose(layers, motif, options)
        del layers
        release_memory()
        p, q = least = run.least
        disk, share = run.write_core("biclique", (q, p) if max(p, q) > 1 else None, KEPT_BYTES)
        rows = AnchoredRows.of(stack.enter_context(disk), request)
        rows = rows if anchor == "u" else rows.swap()
        core_choice = f"core of p >= {p} and q >= {q}", share
        run.lap("rows")
        try:
            groups, reason, threads = group_roots(rows, request, _fewest(rows, least)[1], shrinks=shrinks)
        except ClosureTooLargeError as error:
            if requested != "auto":
                raise
            refused, rows = rows.left.layer.upper(), rows.swap()
            anchor_choice = (
                f"layer {rows.left.layer.upper()} anchored",
                f"a vertex of layer {refused} does not fit in a part with the lists of its neighbours",
            )
            try:
                groups, reason, threads = group_roots(rows, request, _fewest(rows, least)[1], shrinks=shrinks)
            except ClosureTooLargeError:
                raise error from None
        fewest = _fewest(rows, least)
        return run.cut_groups(
            groups,
            threads,
            lambda: Scratch.of(rows),
            lambda scratch, group, roots: cut_root_part(rows, groups, group, roots, fewest, scratch, shrinks=shrinks),
            decisions=(anchor_choice, core_choice),
            reason=reason,
            nothing="nothing is in a biclique",
            layer=rows.left.layer,
        )


cut_maximal_roots = partial(cut_roots, is_maximal=True)


def _choose_maximal_anchor(
    layers: Degrees, motif: MaximalBiclique, options: Mapping[str, str]
) -> tuple[str, Layer, Choice]:
    requested = options.get("anchor", "auto")
    anchor = choose_maximal_anchor(layers, requested)
    return requested, anchor, (f"layer {anchor.upper()} anchored", explain_choice(requested))


def _choose_anchor(layers: Degrees, motif: Biclique, options: Mapping[str, str]) -> tuple[str, Layer, Choice]:
    """Return the resolved option, the anchored layer, and the choice with its reason, from the degrees alone."""
    option, reason = resolve_anchor(motif, options.get("anchor", "auto"), options.get("algorithm", "auto"))
    anchor, why = choose_anchor(layers, motif, option)
    if choose_sizes(layers, motif, anchor).is_empty:
        why, reason = "nothing to search: closed forms give all counts", ""
    return option, anchor, (f"layer {anchor.upper()} anchored", reason or why)


def _fewest(rows: AnchoredRows, least: tuple[int, int]) -> tuple[int, int]:
    return least if rows.left.layer == "u" else least[::-1]
