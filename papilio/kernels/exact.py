"""Bounds that prove a count fits its accumulator. Counts that may exceed them are rejected before a run.

Also binomial coefficients modulo 2^64, for counts of vertices and edges, and hashes of motifs, whose sum modulo 2^64
identifies a set of motifs, whatever their order.

The hash of a vertex is ``mix(layer << 32 | id)``, with layer 0 for U and for unipartite graphs, and 1 for V. The hash
of a motif is ``mix`` of the sum of its vertices' hashes, modulo 2^64: a search adds the hash of a vertex when it takes
the vertex and subtracts it on the way back. ``mix`` is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA
2014).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import show_bytes
from papilio.errors import CapacityError, LeaseTooLargeError
from papilio.graph import BipartiteGraph, RowColumn, UnipartiteGraph

MAX_VERTEX_COUNT = 2**63 - 1
"""Maximum number of butterflies of one vertex that the vectors can hold."""

MAX_START_COUNT = 2**63 - 1
"""Maximum number of butterflies that one start may own if its sum has 64 bits."""

MAX_RUN_WEDGES, MAX_RUN_ENTRIES = 2**48, 2**36
"""Maximum wedges of a run of the wedge engine on a GPU, and maximum entries of all starts, for which the low halves of
its sums (``SplitSum`` in warp.cuh) provably stay below 2^64. A term t adds min(t, 2^32) <= sqrt(2^32 t) at most.

* Totals: the T <= 2^11 terms of a start (lanes of a block with a table, and of a block with hub columns, for two kinds)
  sum to at most its W (d - 1) / 2 butterflies, for W wedges and d entries. By Cauchy and Schwarz the low
  halves of one start are at most sqrt(T * 2^32 * W d / 2) <= 2^21 sqrt(W d), and the low halves of all at most
  2^21 sqrt(sum W * sum d) <= 2^21 * sqrt(2^48 * 2^36) = 2^63.
* Census: the term of a class and a pair with c wedges is at most c^2 / 2, its low half at most sqrt(2^31) c; so the sum
  of each class is at most 2^15.5 * 2^48 = 2^63.5.

The high halves are at most 2^-32 of the butterflies, which are fewer than 2^48 * 2^31."""


def require_room(what: str, needed_bytes: int, room_bytes: int | None, remedy: str, kind: str = "memory") -> None:
    """Raise CapacityError if more memory is needed than is available. No limit if ``room_bytes`` is None."""
    if room_bytes is not None and needed_bytes > room_bytes:
        raise CapacityError(
            f"{what} about {show_bytes(needed_bytes)} of {kind}, but {show_bytes(room_bytes)} are available: {remedy}"
        )


def check_run_wedges(wedges: int, n_items: int) -> None:
    """Raise LeaseTooLargeError for a run of more than 2^48 wedges, whose sums could wrap.

    A single item has fewer than 2^36 wedges, so some part of the run always fits.
    """
    if wedges > MAX_RUN_WEDGES:
        raise LeaseTooLargeError(
            f"{n_items} work items have {wedges} wedges; a run of the gpu engine can add up at most {MAX_RUN_WEDGES}: "
            "split the items into several runs"
        )


def check_vertex_bound(
    degrees: NDArray[np.int64], two_hop: NDArray[np.int64], motifs: str = "butterflies", *, has_edges: bool = True
) -> None:
    """Raise CapacityError, naming the first vertex, if a vertex could be in more than 2^63 - 1 ``motifs``.

    A vertex w of degree d with ``two_hop`` wedges, the sum of (degree - 1) over its neighbours, meets each
    other end u in c <= d of them, so its butterflies, the sum of C(c, 2), are at most ``two_hop * (d - 1) / 2``.
    ``degrees`` and ``two_hop`` are int64 of shape (n,). Set ``has_edges`` if the motif can be counted per edge.
    """
    others = np.maximum(degrees - 1, 1).astype(np.uint64)
    allowed = np.uint64(2 * MAX_VERTEX_COUNT + 1) // others
    over = np.flatnonzero((two_hop.astype(np.uint64) > allowed) & (degrees > 1))
    if over.size:
        at = int(over[0])
        bound = int(two_hop[at]) * (int(degrees[at]) - 1) // 2
        raise CapacityError(
            f"a vertex of degree {degrees[at]} with {two_hop[at]} wedges could be in {bound} {motifs}; "
            f"counts per vertex are limited to {MAX_VERTEX_COUNT}: count the total{' or per edge' * has_edges} instead"
        )


def check_vertices(graph: BipartiteGraph | UnipartiteGraph, max_degree: int, *, has_edges: bool = True) -> None:
    """Apply :func:`check_vertex_bound` to both layers, or to a unipartite graph; O(n_edges log n_edges).

    If ``n_edges`` times ``max_degree`` proves the bound, degrees are not counted.
    """
    if graph.n_edges * max_degree <= MAX_VERTEX_COUNT:
        return
    if isinstance(graph, UnipartiteGraph):
        two_hop = np.zeros(graph.n, np.int64)
        for ends, middles in ((graph.u, graph.v), (graph.v, graph.u)):
            np.add.at(two_hop, ends, graph.degree[middles] - 1)
        check_vertex_bound(graph.degree, two_hop, "4-cycles", has_edges=has_edges)
        return
    for one in (graph, graph.swap_layers()):
        others = np.zeros(one.n_edges + 1, dtype=np.int64)
        np.cumsum(one.degree_v[one.v] - 1, out=others[1:])
        check_vertex_bound(one.degree_u, np.diff(others[one.indptr]), has_edges=has_edges)


MAX_BICLIQUES = 2**64 - 1
"""Maximum number of bicliques of one vertex that the vectors can hold."""

_GREEDY_STEPS = 256
"""Vertices of a complete block that is grown one by one, at most."""


def check_bicliques(graph: BipartiteGraph, p: int, q: int) -> None:
    """Raise CapacityError if a vertex is certain to be in more than 2^64 - 1 of the (p,q)-bicliques.

    The proof is a complete block, grown from the vertex of either layer with the most neighbours: the next vertex is
    one that shares the most of the neighbours left. A block of a by b vertices puts each of the a in
    C(a - 1, p - 1) C(b, q) bicliques. Blocks are not searched for if no vertex has enough neighbours.
    O(edges of the block's neighbours) for each of at most 256 vertices.
    """
    for layer, one, size, other in (("u", graph, p, q), ("v", graph.swap_layers(), q, p)):
        most = int(one.degree_u.max(initial=0))
        if not most or _choose(one.n_u - 1, size - 1) * _choose(most, other) <= MAX_BICLIQUES:
            continue
        for n_own, n_other in _grow_block(one, other):
            of_own = _choose(n_own - 1, size - 1) * _choose(n_other, other)
            of_other = _choose(n_own, size) * _choose(n_other - 1, other - 1)
            if max(of_own, of_other) > MAX_BICLIQUES:
                sides = (n_own, n_other) if layer == "u" else (n_other, n_own)
                raise CapacityError(
                    f"a vertex of a complete block of {sides[0]} by {sides[1]} vertices is in at least "
                    f"{max(of_own, of_other)} ({p},{q})-bicliques; counts per vertex are limited to {MAX_BICLIQUES}: "
                    "count in total, or use larger or smaller sides"
                )


def _choose(n: int, k: int) -> int:
    """Return C(n, k), or 2^64 for one that is larger and whose digits would take long."""
    return comb(n, k) if min(k, n - k) <= 64 else 2**64


def _grow_block(graph: BipartiteGraph, least: int) -> Iterator[tuple[int, int]]:
    """Yield the sizes of complete blocks with 1, 2, ... vertices of U, as long as they have ``least`` of V."""
    u, v = graph.u, graph.v
    own = int(np.argmax(graph.degree_u))
    for n_own in range(1, _GREEDY_STEPS + 1):
        kept = np.zeros(graph.n_v, bool)
        kept[v[u == own]] = True
        inside = kept[v] & (u != own)
        n_other = int(np.count_nonzero(kept))
        if n_other < least:
            return
        yield n_own, n_other
        u, v = u[inside], v[inside]
        if not u.size:
            return
        own = int(np.argmax(np.bincount(u)))


def check_part_vertices(root_entries: int, entries: int, widest_start: int, widest_middle: int) -> None:
    """Raise CapacityError for a part in which a vertex could be in more than 2^63 - 1 butterflies.

    A butterfly of a start w is given by an entry (middle, end) and the other middle; a butterfly of an end by an entry
    (start, middle) and the other middle; a butterfly of a middle v by an end in its row and an entry (start, other
    middle). ``widest_start`` and ``widest_middle`` are the largest numbers of middles of a start, and ends of a middle.
    """
    bound = max(max(root_entries, entries) * widest_start, root_entries * widest_middle)
    if bound > MAX_VERTEX_COUNT:
        raise CapacityError(
            f"a vertex of a part of {root_entries} and {entries} edges, with rows of {widest_start} and "
            f"{widest_middle}, could be in {bound} butterflies; counts per vertex are limited to {MAX_VERTEX_COUNT}: "
            "cut smaller parts, or count the total or per edge instead"
        )


def choose_modulo(most: int, size: int) -> NDArray[np.uint64]:
    """Return C(n, size) modulo 2^64 for n up to ``most``, shape (most + 1,)."""
    ways = np.zeros(most + 1, np.uint64)
    exact = 1
    for n in range(size, most + 1):
        ways[n] = exact % (1 << 64)
        exact = exact * (n + 1) // (n + 1 - size)
    return ways


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit value for each value, one to one. Changing any bit changes half of them on average."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hash_rows(*columns: RowColumn) -> NDArray[np.uint64]:
    """Return the hash of the motif in each row, shape (n_rows,).

    The columns are the ids of the vertices of U and of V, or of a unipartite graph.
    """
    sums: NDArray[np.uint64] = np.zeros(1, np.uint64)
    for layer, column in enumerate(columns):
        if isinstance(column, tuple):
            offsets, ids = column
        else:
            offsets, ids = np.arange(len(column) + 1) * column.shape[1], column.ravel()
        n = int(ids.max(initial=-1)) + 1
        if n < ids.size:  # mixing takes longer than looking up
            hashes = mix(np.arange(n, dtype=np.uint64) | np.uint64(layer << 32))[ids]
        else:
            hashes = mix(ids.astype(np.uint64) | np.uint64(layer << 32))
        before = np.zeros(ids.size + 1, np.uint64)
        np.cumsum(hashes, out=before[1:])
        sums = sums + (before[offsets[1:]] - before[offsets[:-1]])
    return mix(sums)


def sum_hashes(hashes: NDArray[np.uint64]) -> int:
    """Return the sum modulo 2^64: the ``checksum`` of a partial."""
    return int(hashes.sum(dtype=np.uint64))
