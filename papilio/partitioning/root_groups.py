"""Which roots make a part: their closures priced in bytes, and the ways to group them under a limit.

The closure of a group is its columns, the right vertices next to its roots, with their lists cut to the vertices of
its own and later groups. Its price is never less than what the part needs: a part holds the roots, the columns, the
lists, and the other vertices in them, each of which is in at least as many lists as a biclique has right vertices.

Where parts have excluded vertices, the lists are whole in all parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from papilio.errors import CapacityError
from papilio.kernels.biclique.core import Rows
from papilio.partitioning.arrays import Ids
from papilio.partitioning.cut_request import CutRequest
from papilio.partitioning.growth_chunks import grow_chunks
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
    least_right: int,
    host_bytes: int,
    *,
    shrinks: bool,
) -> RootGroups:
    """Group all left vertices within ``host_bytes``.

    ``least_right`` is the fewest right vertices of a biclique. ``shrinks`` says whether a part leaves the roots of
    earlier parts out of its lists. ClosureTooLargeError when a root with its closure passes the limit alone; names it,
    and the least budget that would do. CapacityError when the host memory does not do.
    """
    if request.fits(PartSizes(rows.left.n_rows, rows.n_edges, rows.right.n_rows, 0)):
        whole = np.zeros(rows.left.n_rows, np.int32)
        return RootGroups(whole, "one part: all that can be in a biclique fits one part")
    degrees = np.diff(rows.left.indptr)[::-1]
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(degrees)))

    def group(prices: Prices, limit: int) -> Ids:
        column_bytes = np.full(rows.right.n_rows, prices.column, np.int64)
        if not shrinks:
            column_bytes += prices.entry * np.diff(rows.right.indptr)
        root_bytes = prices.root + prices.root_entry * degrees
        return grow_chunks(
            indptr, lambda first, last: rows.read_falling(first, last).ids, column_bytes, root_bytes, limit,
            host_bytes, request.threads, entry_bytes=prices.entry if shrinks else 0,
        )  # fmt: skip

    # From the last rank to the first.
    groups = _within_limit(rows, request, least_right, group, shrinks)
    why = "the core does not fit one part, and roots that share columns do not repeat them"
    return RootGroups(groups[::-1].copy(), why)


def _within_limit(
    rows: AnchoredRows,
    request: CutRequest,
    least_right: int,
    group: Callable[[Prices, int], Ids],
    shrinks: bool,
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
            if cost <= limit:
                raise
            if excess is None or cost - limit < excess:
                worst, excess, cause = root, cost - limit, error
    assert excess is not None
    raise _root_too_large(rows, request, worst, excess) from cause


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
