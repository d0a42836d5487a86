"""Pairs of vertices of one layer with at least two common neighbours: what tips are peeled from.

Peeling takes vertices of one layer away and leaves the other layer whole, so that the number c of common neighbours of
a pair never changes: the pair is in C(c, 2) butterflies until one of its vertices goes. The pairs are counted once, and
peeling is then a walk over rows of numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.atomics import fetch_add
from papilio.kernels.bounds import require_room
from papilio.kernels.jit import Ids, Ints, Place, compiled
from papilio.kernels.peel.phases import Layer
from papilio.kernels.threads import ChunkRunner, cut_by_cost
from papilio.kernels.wedge.graph import WedgeIndex, WedgeRows

Items = NDArray[np.int32]


class PairGraph(NamedTuple):
    """The pairs of one layer, in both directions, on the host; vertices by id within the layer."""

    offsets: Ints
    """Pairs of vertex i are ``[offsets[i], offsets[i + 1])`` of the next two arrays, shape (n + 1,)."""
    others: Items
    """The other vertex of each pair, shape (2 * n_pairs,)."""
    common: Ids
    """Common neighbours of the pair, at least 2, of the same shape."""

    @property
    def n(self) -> int:
        """Vertices of the layer."""
        return int(self.offsets.size) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return sum(array.nbytes for array in self)


def pair_bytes(n_pairs: int, n: int) -> int:
    """Return the bytes of the pairs of a layer, of which there are so many."""
    return 16 * n_pairs + 8 * n


@compiled
def _count_before(
    rows: WedgeRows, row: Place, first: Place, middles: Place, counters: Ids, met: Ids
) -> Place:
    """Count the wedges from a row to the rows of its layer before it; return how many of those were met."""
    rank = row - first
    n_met = 0
    for at in range(rows.offsets[row], rows.offsets[row + 1]):
        middle = middles + np.int64(rows.ids[at])
        for to in range(rows.offsets[middle], rows.offsets[middle + 1]):
            end = rows.ids[to]
            if end >= rank:
                break
            if counters[end] == 0:
                met[n_met] = end
                n_met += 1
            counters[end] += np.uint32(1)
    return n_met


@compiled
def _measure_pairs(
    rows: WedgeRows,
    first: Place,
    middles: Place,
    order: Items,
    start: Place,
    stop: Place,
    counters: Ids,
    met: Ids,
    degrees: Ints,
) -> None:
    """Add the pairs of the ranks ``[start, stop)`` with earlier ones to the degrees of both, beside other threads."""
    for rank in range(start, stop):
        found = np.int64(0)
        for place in range(_count_before(rows, first + rank, first, middles, counters, met)):
            end = met[place]
            if counters[end] > 1:
                found += 1
                fetch_add(degrees, np.int64(order[end]), np.int64(1))
            counters[end] = np.uint32(0)
        fetch_add(degrees, np.int64(order[rank]), found)


@compiled
def _fill_pairs(
    rows: WedgeRows,
    first: Place,
    middles: Place,
    order: Items,
    start: Place,
    stop: Place,
    counters: Ids,
    met: Ids,
    cursors: Ints,
    others: Items,
    common: Ids,
) -> None:
    """Write the pairs of the ranks ``[start, stop)`` with earlier ones in both directions, beside other threads."""
    for rank in range(start, stop):
        own = order[rank]
        for place in range(_count_before(rows, first + rank, first, middles, counters, met)):
            end = met[place]
            count = counters[end]
            counters[end] = np.uint32(0)
            if count > 1:
                other = order[end]
                to = fetch_add(cursors, np.int64(own), np.int64(1))
                others[to], common[to] = other, count
                to = fetch_add(cursors, np.int64(other), np.int64(1))
                others[to], common[to] = own, count


@compiled
def _two_hops(rows: WedgeRows, first: Place, middles: Place, costs: Ints) -> None:
    """Write an upper bound of the wedges from each rank to earlier ones, and one more."""
    for rank in range(costs.size):
        cost = np.int64(1)
        for at in range(rows.offsets[first + rank], rows.offsets[first + rank + 1]):
            middle = middles + np.int64(rows.ids[at])
            cost += min(rows.offsets[middle + 1] - rows.offsets[middle], rank)
        costs[rank] = cost


def index_pairs(index: WedgeIndex, layer: Layer, threads: int, memory_bytes: int | None = None) -> PairGraph:
    """Count the common neighbours of all pairs of a layer; two traversals of the wedges between its vertices.

    ``memory_bytes`` is room for the pairs, and for what peeling takes beside them.

    Raises
    ------
    CapacityError
        For more bytes than there is room for; known before they are taken.
    """
    rows = index.rows
    n, first, middles, order = (
        (index.n_u, 0, index.n_u, index.order_u) if layer == "u" else (index.n_v, index.n_u, 0, index.order_v)
    )
    costs = np.empty(n, np.int64)
    _two_hops(rows, first, middles, costs)
    chunks = cut_by_cost(costs, threads)
    runner = ChunkRunner(lambda: (np.zeros(n, np.uint32), np.empty(n, np.uint32)), threads)
    degrees = np.zeros(n, np.int64)

    def measure(state: tuple[Ids, Ids], start: int, stop: int) -> None:
        _measure_pairs(rows, first, middles, order, start, stop, *state, degrees)

    runner.run(chunks, measure)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(degrees, out=offsets[1:])
    size = int(offsets[-1])
    needed = pair_bytes(size // 2, 6 * n)
    what = f"tip numbers of layer {layer}, with {size // 2} pairs of two common neighbours or more, need"
    require_room(what, needed, memory_bytes, "take the other layer, or a machine with more memory")
    others, common = np.empty(size, np.int32), np.empty(size, np.uint32)
    cursors = offsets[:-1].copy()

    def fill(state: tuple[Ids, Ids], start: int, stop: int) -> None:
        _fill_pairs(rows, first, middles, order, start, stop, *state, cursors, others, common)

    runner.run(chunks, fill)
    return PairGraph(offsets, others, common)
