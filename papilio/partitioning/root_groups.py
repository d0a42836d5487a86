"""Which roots make a part: their closures priced in bytes, and the ways to group them under a limit.

The closure of a group is its columns, the right vertices next to its roots, with their lists cut to the vertices of
its own and later groups. Its price is never less than what the part needs: a part holds the roots, the columns, the
lists, and the other vertices in them, each of which is in at least as many lists as a biclique has right vertices.

Where parts have excluded vertices, the lists are whole in all parts.

The closure of the GBC paper (ICDE 2024) holds a root and its 2-hop neighbours that share enough, each with its
neighbours and its own 2-hop neighbours. It decides the groups only; the parts are then cut as for the other, and
a group whose part would pass the limit is split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from papilio.errors import CapacityError
from papilio.kernels.biclique.core import Rows
from papilio.kernels.biclique.pairs import Pairs, find_pairs
from papilio.partitioning.arrays import Ids, Ints
from papilio.partitioning.cut_request import CutRequest
from papilio.partitioning.growth import PricedRows, fill_rows, grow_groups, growth_bytes, hash_groups
from papilio.partitioning.growth_chunks import grow_chunks
from papilio.partitioning.metis_groups import metis_groups
from papilio.partitioning.root_loops import Prices, find_worst_root
from papilio.partitioning.root_subgraphs import AnchoredRows
from papilio.parts import PartSizes

SCAN_ENTRIES = 1 << 24
"""Entries that the search for the worst root reads at once: 64 MiB."""


class ClosureTooLargeError(CapacityError):
    """A root with the lists of its neighbours fits no part."""


@dataclass(frozen=True, eq=False)
class RootGroups:
    """How roots are grouped."""

    groups: Ids  # (n_left,): group of each left rank; groups are parts in their order
    strategy: str  # what was done, and why
    reason: str


def price_closures(request: CutRequest, rows: AnchoredRows, least_right: int) -> list[tuple[Prices, int]]:
    """Return prices of closures with the limit on the price of a part, in bytes: two ways, the better one first.

    What a part holds of left vertices that are no roots is not known from its lists. Either each entry of a list pays
    for a share of one, as each has at least ``least_right`` edges, or room is kept for all there are. The better way
    leaves room for more entries.
    """
    price, limit = request.part_bytes, request.limit_bytes - request.part_bytes.fixed - 1
    ways = []
    for entry, kept in (
        (ceil(price.entry + price.vertex / least_right), 0),
        (ceil(price.entry), ceil(price.vertex * rows.left.n_rows)),
    ):
        prices = Prices(ceil(price.root), ceil(price.root_entry) - entry, ceil(price.vertex), entry)
        ways.append((prices, limit - kept))
    return sorted(ways, key=lambda way: -way[1] / max(way[0].entry, 1))


def group_roots(
    rows: AnchoredRows,
    request: CutRequest,
    least: tuple[int, int],
    host_bytes: int,
    *,
    shrinks: bool = True,
) -> RootGroups:
    """Group all left vertices within ``host_bytes``.

    ``least`` are the fewest left and fewest right vertices of a biclique. ``shrinks`` says whether a part leaves the
    roots of earlier parts out of its lists. ClosureTooLargeError when a root with its
    closure passes the limit alone; names it, and the least budget that would do. CapacityError when the host memory
    does not do.
    """
    if request.fits(PartSizes(rows.left.n_rows, rows.n_edges, rows.right.n_rows, 0)):
        return RootGroups(
            np.zeros(rows.left.n_rows, np.int32),
            "bcpar",
            "one part: all that can be in a biclique fits one part",
        )
    name = "bcpar" if request.strategy == "auto" else request.strategy
    if request.closure == "paper" and name == "bcpar":
        groups, reason = _group_by_paper(rows, request, least, host_bytes)
        return RootGroups(groups[::-1].copy(), "bcpar, closure paper", reason)
    groups, reason = _group_by_columns(rows, request, name, least[1], host_bytes, shrinks)
    return RootGroups(groups[::-1].copy(), name, reason)


def _group_by_columns(
    rows: AnchoredRows,
    request: CutRequest,
    name: str,
    least_right: int,
    host_bytes: int,
    shrinks: bool,
) -> tuple[Ids, str]:
    """Group the left vertices from the last rank to the first by our closure; return the groups and the reason."""
    degrees = np.diff(rows.left.indptr)[::-1]
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(degrees)))
    require_strategy(name, growth_bytes(rows.left.n_rows, rows.right.n_rows, rows.n_edges), host_bytes)

    def group(prices: Prices, limit: int) -> Ids:
        column_bytes = np.full(rows.right.n_rows, prices.column, np.int64)
        if not shrinks:
            column_bytes += prices.entry * np.diff(rows.right.indptr)
        root_bytes = prices.root + prices.root_entry * degrees
        return group_priced(
            name, indptr, lambda first, last: rows.read_falling(first, last).ids, column_bytes, root_bytes, limit,
            host_bytes, request.threads, entry_bytes=prices.entry if shrinks else 0,
        )  # fmt: skip

    groups = _within_limit(rows, request, name, least_right, group, shrinks=shrinks)
    if name != "bcpar":
        return groups, "asked for"
    return groups, "the core does not fit one part, and roots that share columns do not repeat them"


def group_priced(
    name: str,
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
    """Group roots by the strategy of this name; the rest as for :func:`papilio.partitioning.growth_chunks.grow_chunks`.

    CapacityError when a root fits no part.
    """
    if name == "bcpar":
        return grow_chunks(
            indptr, read, column_bytes, root_bytes, limit_bytes, host_bytes, threads, entry_bytes=entry_bytes
        )
    priced = PricedRows(indptr, read(0, root_bytes.size), column_bytes, root_bytes, entry_bytes)
    return hash_groups(priced, limit_bytes) if name == "hash" else metis_groups(priced, limit_bytes)


def _within_limit(
    rows: AnchoredRows,
    request: CutRequest,
    name: str,
    least_right: int,
    group: Callable[[Prices, int], Ids],
    *,
    shrinks: bool = True,
) -> Ids:
    """Group by the better prices; where a root does not fit by these, by the others.

    Raises ClosureTooLargeError where one fits by neither; it names the worst one, and the least budget that would do.
    """
    worst = -1
    excess: int | None = None
    cause: CapacityError | None = None
    for prices, limit in price_closures(request, rows, least_right):
        try:
            return group(prices, limit)
        except CapacityError as error:
            root, cost = _find_worst(rows, prices, shrinks)
            if cost <= limit and name == "bcpar":
                raise
            if excess is None or cost - limit < excess:
                worst, excess, cause = root, cost - limit, error
    if excess is None or excess <= 0:
        raise ClosureTooLargeError(
            f"{name} comes to a root whose neighbours still have lists too long for the {request.limit_bytes:,} bytes "
            "of a part; strategy bcpar with closure columns comes to such roots last: use it, or raise the budget"
        ) from cause
    raise _root_too_large(rows, request, worst, excess) from cause


def require_strategy(name: str, needed: int, host_bytes: int) -> None:
    """Refuse a strategy that works in memory where that has no room for what it needs."""
    if name != "bcpar":
        _require_host(f"strategy {name}", needed, host_bytes)


def _require_host(what: str, needed: int, host_bytes: int) -> None:
    if needed > host_bytes:
        raise CapacityError(
            f"{what} needs all edges in memory, {needed:,} bytes beside what is held already, and {host_bytes:,} "
            "are left; raise --host-memory, or use strategy bcpar with closure columns, which works in chunks"
        )


def _find_worst(rows: AnchoredRows, prices: Prices, shrinks: bool) -> tuple[int, int]:
    """Return the root whose closure costs most when every root is a part, least degree first, and what it costs."""
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


def _root_too_large(rows: AnchoredRows, request: CutRequest, rank: int, excess: int) -> ClosureTooLargeError:
    layer, vertex = rows.left.layer.upper(), int(rows.left.order[rank])
    degree = int(rows.left.indptr[rank + 1] - rows.left.indptr[rank])
    needed = request.limit_bytes + excess
    return ClosureTooLargeError(
        f"vertex {vertex} of layer {layer}, a root with {degree:,} edges, needs {needed:,} bytes with the lists of its "
        f"neighbours, and a part may take {request.limit_bytes:,}; give a part at least {needed:,} bytes, or anchor "
        "the other layer"
    )


def _group_by_paper(
    rows: AnchoredRows, request: CutRequest, least: tuple[int, int], host_bytes: int
) -> tuple[Ids, str]:
    """Group the left vertices from the last rank to the first by the closure of the GBC paper."""
    what = "the paper's closure"
    _require_host(what, growth_bytes(rows.left.n_rows, rows.right.n_rows, rows.n_edges), host_bytes)
    lefts = rows.read_falling(0, rows.left.n_rows)
    held = growth_bytes(rows.left.n_rows, rows.right.n_rows, rows.n_edges)
    pairs = find_pairs(
        lefts, rows.right.n_rows, least[1], request.threads, host_bytes - held, rows.left.n_rows
    )
    priced = _paper_rows(lefts, pairs)
    _require_host(
        what, held + growth_bytes(rows.left.n_rows, rows.left.n_rows, priced.columns.size), host_bytes
    )
    limit = request.limit_bytes
    alone = priced.root_costs()
    if int(alone.max(initial=0)) > limit:
        worst = int(np.argmax(alone))
        raise ClosureTooLargeError(
            f"vertex {rows.left.order[rows.left.n_rows - 1 - worst]} of layer {rows.left.layer.upper()} needs "
            f"{int(alone[worst]):,} bytes with the paper's closure, and a part may take {limit:,}; "
            "raise the budget, or use closure columns"
        )
    grown = grow_groups(priced, limit)
    last = np.zeros(int(grown.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last, grown, np.arange(grown.size))
    order = np.lexsort((grown, last[grown]))
    groups = _within_limit(
        rows,
        request,
        what,
        least[1],
        lambda prices, limit: _split_groups(lefts, rows.right.n_rows, prices, limit, order, grown),
    )
    n_grown, n_groups = int(grown.max(initial=-1)) + 1, int(groups.max(initial=-1)) + 1
    return groups, f"asked for; {n_grown} groups by the paper's closure, {n_groups} once their parts fit"


def _split_groups(lefts: Rows, n_right: int, prices: Prices, limit: int, order: Ints, labels: Ids) -> Ids:
    """Split groups, which ``order`` lists one after the other, where their parts would pass the limit."""
    column_bytes = np.full(n_right, prices.column, np.int64)
    root_bytes = prices.root + prices.root_entry * np.diff(lefts.indptr)
    priced = PricedRows(lefts.indptr, lefts.ids, column_bytes, root_bytes, prices.entry)
    return fill_rows(priced, limit, order, labels)


def _paper_rows(lefts: Rows, pairs: Pairs) -> PricedRows:
    """Return, per root, itself and the later vertices that share enough with it; bytes of each with all its ids."""
    n_left = lefts.indptr.size - 1
    sizes = np.diff(pairs.indptr) + 1
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    columns = np.empty(int(indptr[-1]), np.int32)
    own = np.zeros(columns.size, np.bool_)
    own[indptr[:-1]] = True
    columns[own] = np.arange(n_left, dtype=np.int32)
    columns[~own] = pairs.others
    weights = 4 * (np.diff(lefts.indptr) + np.diff(pairs.indptr))
    return PricedRows(indptr, columns, weights, np.zeros(n_left, np.int64))
