"""Cores on the CPU: vertices are peeled by their degrees, in rounds.

The core number of a vertex is the largest k such that the vertex is in a subgraph with all degrees at least k (Seidman
1983; Matula and Beck 1983). In a bipartite graph the degrees of one layer may have a fixed minimum: with ``alpha`` for
layer U, the number of a vertex is the largest beta such that it is in the (alpha, beta)-core, the largest subgraph in
which vertices of U have at least alpha neighbours and vertices of V at least beta (Ahmed et al. 2007; Liu et al., WWW
2020). Vertices of the fixed layer leave as soon as they have too few neighbours.

A round removes all vertices with no more neighbours left than the level, which rises to the least degree left when no
vertex is below it. A vertex is listed for the next round by the decrement that takes it to its limit. Every level scans
the vertices left, each of which has at least as many neighbours as the level: O(n + n_edges * log of the largest
level) in all. ``rounds.cuh`` peels in the same rounds.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import MAX_VERTICES, BipartiteGraph, UnipartiteGraph
from papilio.kernels.exact import require_room
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.offsets import list_neighbours
from papilio.kernels.peel.phases import Layer, Peeled, Report, ignore_report

Ids32 = NDArray[np.int32]

_SLICE_EFFORT = 1 << 24
"""Edges and vertices visited between two progress reports, up to the end of a level."""

_NO_DEGREE = 2**31 - 1


class Fixed(NamedTuple):
    """The vertices ``[begin, end)``, which stay as long as they have more than ``limit`` neighbours left."""

    begin: int = 0
    end: int = 0
    limit: int = 0


NONE_FIXED = Fixed()


class CoreRows(NamedTuple):
    """The neighbours of all vertices; of a bipartite graph, vertex i of layer V is vertex ``first_v + i``."""

    indptr: Ints
    """Neighbours of vertex x are ``ids[indptr[x]:indptr[x + 1]]``, shape (n + 1,)."""
    ids: Ids32
    first_v: int
    """Number of vertices of layer U; 0 for a unipartite graph."""

    @property
    def n(self) -> int:
        return int(self.indptr.size) - 1


def core_bytes(n: int, n_edges: int) -> int:
    """Return the bytes of the rows of a graph and of the arrays that peel them."""
    return 12 * n_edges + 44 * n


def count_vertices(graph: BipartiteGraph | UnipartiteGraph) -> tuple[int, int]:
    """Return the number of vertices of both layers, and the first one of layer V; CapacityError for too many."""
    if isinstance(graph, UnipartiteGraph):
        return graph.n, 0
    n = graph.n_u + graph.n_v
    if n > MAX_VERTICES:
        raise CapacityError(f"the graph has {n} vertices; the maximum for cores is {MAX_VERTICES}")
    return n, graph.n_u


def fix_layer(first_v: int, n: int, layer: Layer | None, least: int | None) -> Fixed:
    """Return the vertices of a layer that need ``least`` neighbours, at least 1; none without a layer."""
    if layer is None or least is None:
        return NONE_FIXED
    return Fixed(0, first_v, least - 1) if layer == "u" else Fixed(first_v, n, least - 1)


def index_core(graph: BipartiteGraph | UnipartiteGraph, memory_bytes: int | None = None) -> CoreRows:
    """Return the neighbours of all vertices; CapacityError if they exceed ``memory_bytes``."""
    n, first_v = count_vertices(graph)
    needed = core_bytes(n, graph.n_edges)
    require_room(f"cores of {graph.n_edges} edges need", needed, memory_bytes, "use a machine with more memory")
    degree = graph.degree if isinstance(graph, UnipartiteGraph) else np.append(graph.degree_u, graph.degree_v)
    return CoreRows(*list_neighbours(degree, graph.u, graph.v + np.int32(first_v)), first_v)


def peel_core(rows: CoreRows, fixed: Fixed = NONE_FIXED, report: Report = ignore_report) -> Peeled:
    """Return the core number of every vertex; layer V follows layer U."""
    began = perf_counter()
    numbers, rounds = peel_by_degree(rows.indptr, rows.ids, np.diff(rows.indptr), fixed, False, report)
    seconds = {"coarse": 0.0, "fine": perf_counter() - began}
    return Peeled(numbers.astype(np.uint64), 0, 0, rounds, rows.ids.size, seconds)


def peel_by_degree(
    indptr: Ints, ids: Ids32, degree: Ints, fixed: Fixed, by_round: bool, report: Report = ignore_report
) -> tuple[Ids32, int]:
    """Return the level at which each vertex is removed, or its round, shape (n,); and the number of rounds."""
    n = indptr.size - 1
    told, left = np.full(n, -1, np.int32), degree.astype(np.int32)
    alive, going = np.arange(n, dtype=np.int32), np.empty(n, np.int32)
    places = np.array([n, 0, 0, 0], np.int64)
    while places[0]:
        _peel_slice(indptr, ids, left, fixed, by_round, told, alive, going, places, _SLICE_EFFORT)
        report("fine", int(places[3]), n)
    return told, int(places[2])


@compiled
def _peel_slice(
    indptr: Ints,
    ids: Ids32,
    left: Ids32,
    fixed: Fixed,
    by_round: bool,
    told: Ids32,
    alive: Ids32,
    going: Ids32,
    places: Ints,
    most: int,
) -> None:
    """Remove vertices, level by level, until about ``most`` vertices and edges are visited.

    ``left`` holds the neighbours left of each vertex, ``alive`` the vertices to scan. ``places`` are the number of
    these, the level, the rounds so far, and the vertices removed, whose ids are in ``going``.
    """
    n_alive, level, rounds, end = places[0], places[1], places[2], places[3]
    begin = end
    while n_alive > 0 and most > 0:
        most -= n_alive
        n_kept, least = 0, np.int32(_NO_DEGREE)
        for at in range(n_alive):
            x = alive[at]
            if told[x] >= 0:
                continue
            is_fixed = fixed.begin <= x < fixed.end
            if left[x] <= (fixed.limit if is_fixed else level):
                told[x] = rounds if by_round else level
                going[end] = x
                end += 1
            elif not is_fixed:  # others leave by decrements alone
                alive[n_kept] = x
                n_kept += 1
                least = min(least, left[x])
        n_alive = n_kept
        if begin == end:
            level = np.int64(least)
            continue
        while begin < end:
            stop = end
            rounds += 1
            for at in range(begin, stop):
                x = going[at]
                most -= indptr[x + 1] - indptr[x]
                for entry in range(indptr[x], indptr[x + 1]):
                    other = ids[entry]
                    left[other] -= 1
                    if left[other] == (fixed.limit if fixed.begin <= other < fixed.end else level):
                        told[other] = rounds if by_round else level
                        going[end] = other
                        end += 1
            begin = stop
        level += 1
    places[0], places[1], places[2], places[3] = n_alive, level, rounds, end
