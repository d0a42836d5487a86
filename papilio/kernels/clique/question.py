"""Common ground of both clique engines: the algorithm, its predictions, and the count from leaves.

Also holds the clique counts of every graph of at most six vertices, where a small GPU search ends, and the restriction
of a graph to cliques with given vertices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.kernels.exact import choose_modulo
from papilio.kernels.probe import Rates, join_lots
from papilio.motifs import Clique, Granularity

Ids32 = NDArray[np.int32]
Floats = NDArray[np.float64]

MOST_ORIENTED: Mapping[EngineName, int] = {"cpu": 3, "gpu": 4}
"""Maximum k for which vertices are taken in order: only edges or triangles of roots remain to be counted.

Beyond it pivots win on every graph. A pivot saves the branches of all its neighbours and costs a scan of the rows of a
node, little compared to the edges or triangles that both algorithms count in the end. One thread, ms, in order and by
pivots: facebook_combined k=3 2 and 13, k=4 17 and 16, k=5 105 and 41; soc-Epinions1 k=4 50 and 49, k=5 79 and 77;
ca-HepPh k=4 22 and 13, k=5 528 and 13. One H200, ms: facebook_combined k=4 0.19 and 0.24, k=5 0.73 and 0.83, k=6 4.8
and 1.7; soc-Epinions1 k=5 0.47 and 0.40; ca-HepPh k=5 2.2 and 0.5; an R-MAT graph of 9,144,391 edges k=4 15 and 18, k=5
123 and 120, k=6 3258 and 1156.
"""


MOST_WIDE = 1024
"""Maximum later neighbours of a root with triangles counted in order: n^3 / 192 words if all are adjacent.

Pivots first take vertices next to all others, for n^2 / 32 words; cliques of thousands are common in webs.
"""


def choose_algorithm(
    motif: Clique, per: Granularity, asked: str, engine: EngineName, max_later: int = 0
) -> tuple[str, str]:
    """Return the algorithm, and the reason, for roots with at most ``max_later`` later neighbours."""
    able = motif.k is not None and motif.k >= 3 and per == "total"
    if asked == "orient" and not able:
        raise UnsupportedError(
            f"algorithm 'orient' counts totals, of a single k of at least 3; use 'pivot' for {motif.title} per {per}"
        )
    if asked != "auto":
        return asked, "requested"
    if not able or motif.k is None:
        return "pivot", "a leaf has every size, vertex and edge" if motif.k != 2 else "k is below 3"
    most = MOST_ORIENTED[engine]
    if motif.k > most:
        return "pivot", f"k is above {most}: a pivot saves the branches of all its neighbours"
    if motif.k > 3 and max_later > MOST_WIDE:
        return (
            "pivot",
            f"a root has {max_later} later neighbours; if these are dense, pivots save their triangles",
        )
    return "orient", f"k is at most {most}: only edges or triangles of roots are counted"


def choose_probed(motif: Clique, per: Granularity, asked: str) -> str:
    """Return the algorithm that probes use, on every engine."""
    return choose_algorithm(motif, per, asked, "cpu")[0]


_LISTS = Rates(1e10, 1.1e7, 1.5e9)
"""Rates of a thread that counts triangles from lists."""

_GPU_RATES: Mapping[str, Rates] = {
    "orient": Rates(3e11, 1e12, 1e12, 6e-4),
    "pivot": Rates(3e11, 1e12, 2.3e11, 7e-4),
    "vertex": Rates(1.2e11, 3.5e9, 1e13, 1e-3),
    "edge": Rates(1.4e10, 6.7e8, 1e12, 1e-3),
    "maximal": Rates(2.5e10, 1e12, 1.5e11, 1e-3),
}
"""Rates of one H200 as below. Totals and maximal cliques: fitted to 37 runs of 0.6 to 140 ms on eight graphs.

Predicted times of these are 0.43 to 1.3 times the measured ones. Counts by vertex and edge: fitted to 26 runs on three
graphs; runs of 22 ms or more are predicted at 0.7 to 1.5 times their time. The rates of the costs of cliques are from a
graph of 21.8 million edges instead: 1e10 a second, as fitted, predicts 35 times the time of its triangles. Nodes of
large roots have matrices of their own, whose words count: 0.77 and 8.5 s are predicted for its 5- and 6-cliques, 0.92
and 11.7 s measured.
"""

_RATES: Mapping[str, Rates] = {
    "orient": Rates(4.2e8, 1.04e8, 8.1e8),
    "pivot": Rates(2e8, 1e9, 3.3e8),
    "vertex": Rates(1.6e8, 4e7, 3e9),
    "edge": Rates(8e7, 4e7, 5e9),
    "maximal": Rates(1e10, 2.2e7, 4.5e8),
}
"""Rates of one CPU thread: totals in order and by pivots, counts by vertex and edge, maximal cliques.

In order and maximal: fitted to 200 runs of 3 ms to 18 s on eight real graphs and six random ones, k from 3 to 14 and
every k. By pivots: fitted to 36 runs of 8 ms to 23 s on seven real graphs, k from 5 to 10 and every k; predicted times
of those of 0.1 s or more are 0.8 to 1.2 times the measured ones, the others down to 0.5 times. By vertex and edge:
fitted to 17 runs on four graphs; runs of 0.1 s or more are predicted at 0.6 to 1.25 times their time.
"""


def find_rates(engine: EngineName, algorithm: str, per: Granularity = "total", k: int | None = None) -> Rates:
    """Return the rates of a search; ``algorithm`` is orient, pivot or maximal."""
    if engine == "cpu" and algorithm == "orient" and k == 3:
        return _LISTS
    return (_RATES if engine == "cpu" else _GPU_RATES)[algorithm if per == "total" else per]


def weigh_maximal_roots(costs: NDArray[np.int64], later: NDArray[np.int64], edges: Floats) -> Floats:
    """Return sampling weights of roots for estimates of maximal cliques, shape (n_items,).

    Half of the draws go by cost, half by the root of the number of cliques expected among ``later`` neighbours if the
    ``edges`` among them were spread at random. Rounding is the same on all machines. The standard deviation falls from
    15 to 4 times the mean on ca-HepPh, from 3.4 to 2.0 on facebook_combined.
    """
    wanted = np.where(later == 0, 1.0, 0.0)
    for size, roots, cliques, near_all in _expect_cliques(later, edges, int(later.max(initial=0))):
        # Each other neighbour misses at least one vertex of the clique.
        base, times = 1.0 - near_all, later[roots] - size
        while times.any():
            cliques = np.where(times & 1, cliques * base, cliques)
            base, times = base * base, times >> 1
        wanted[roots] = np.minimum(wanted[roots] + cliques, _LARGEST_BOUND)
    return join_lots(costs, np.sqrt(wanted))


def _expect_cliques(
    later: NDArray[np.int64], edges: Floats, most: int
) -> Iterator[tuple[int, NDArray[np.int64], Floats, Floats]]:
    """Yield sizes, roots by later neighbours, and their expected cliques of that size with random edges.

    That is C(d, j) q^(j (j - 1) / 2) for d neighbours, with q the share of pairs that are edges. The last array is q^j.
    """
    roots = np.arange(later.size)
    share = np.minimum(edges / np.maximum(later * (later - 1) / 2, 1.0), 1.0)
    cliques, power = np.ones(later.size), np.ones(later.size)
    for size in range(1, most + 1):
        kept = (later[roots] >= size) & (cliques > 0.0)
        roots, cliques, power = roots[kept], cliques[kept], power[kept]
        if not roots.size:
            return
        cliques = np.minimum(cliques * ((later[roots] - size + 1) / size) * power, _LARGEST_BOUND)
        power = power * share[roots]
        yield size, roots, cliques, power


def require_part_order(order: str) -> None:
    """Reject the order by degeneracy, which a part of a graph does not have."""
    if order == "degeneracy":
        raise UnsupportedError("parts of a graph are ordered by degree; use order 'auto' or 'degree'")


def predict_work(out: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the matrix words of a root with ``out`` later neighbours, plus one per neighbour."""
    return 1 + out + out * (out + 1) // 2 * ((out + 63) >> 6)


def predict_maximal_work(out: NDArray[np.int64], back: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the words of the rows of a root's candidates and excluded vertices, plus one."""
    return 1 + (out + back) * out * ((out + 63) >> 6)


def expand_leaves(
    leaves: NDArray[np.uint64], stride: int, least: int, most: int, cells: dict[tuple[int, ...], int]
) -> None:
    """Add the cliques of a thread's leaves, C(p, k - h) each, to the cliques by (k,).

    The counts of every k are the coefficients of the sum of x^h (1 + x)^p over the leaves, evaluated from the largest p
    down (Horner).
    """
    found = leaves.reshape(-1, stride)[: most + 1]
    held, pivots = np.nonzero(found)
    if not held.size:
        return
    if least == most:
        of_one = zip(held.tolist(), pivots.tolist(), found[held, pivots].tolist(), strict=True)
        if number := sum(count * comb(pivot, most - hold) for hold, pivot, count in of_one):
            cells[(most,)] = cells.get((most,), 0) + number
        return
    table = found[: int(held.max()) + 1].astype(object)
    sums = np.zeros(min(int((held + pivots).max()), most) + 1, dtype=object)
    for pivot in range(int(pivots.max()), -1, -1):
        sums[1:] += sums[:-1]
        sums[: len(table)] += table[:, pivot]
    for k in range(least, sums.size):
        if sums[k]:
            cells[(k,)] = cells.get((k,), 0) + sums[k]


def size_range(motif: Clique, max_later: int) -> tuple[int, int]:
    """Return the least and most vertices of a counted clique. Without k, at most the largest possible size."""
    if motif.k is not None:
        return motif.k, motif.k
    return 1, min(motif.max_k or max_later + 1, max_later + 1)


def list_choices(most: int, size: int) -> NDArray[np.uint64]:
    """Return C(n, j) modulo 2^64 at place n * (size + 1) + j, for n up to ``most`` and j up to ``size``."""
    return np.stack([choose_modulo(most, j) for j in range(size + 1)], axis=1).ravel()


PROBE_GROWTH = 1.4
"""Largest factor by which one more candidate raises the bound of the cliques below a node, if every size counts.

The factor is 2 if all are adjacent; n vertices have at most 3^(n / 3) maximal cliques (Moon and Moser 1965). With 1.2,
1.4 and 2 probes of facebook_combined, every k, have standard deviations of 23, 6.4 and 12.7 times the mean.
"""

_LARGEST_BOUND = 1e300
"""Largest bound; sums of such bounds are finite."""


class Narrowing(NamedTuple):
    """When nodes of a search by pivots get a matrix of their own, whose rows have fewer words.

    Nodes of more than ``fewest`` candidates, of roots with more than ``whole`` neighbours, that need half of the words
    of ``bits`` columns.
    """

    whole: int
    bits: int
    fewest: int


WHOLE, FRAMES = Narrowing(2**31 - 1, 64, 0), Narrowing(-1, 64, 2)
"""Never, and the search of the CPU engine."""


class ProbeTables(NamedTuple):
    """Lookup tables of clique probes, in double precision.

    ``ways[missing, n]`` is the number of cliques of a leaf with n free vertices that lacks ``missing`` of the largest
    size: infinity beyond 1.8e308. It has one row if no size is too large. ``bounds`` has two numbers per entry: the
    bound by which a branch with n free vertices and candidates is drawn, and its square root.
    """

    least: int
    most: int
    ways: Floats
    bounds: tuple[Floats, Floats]
    narrowing: Narrowing


def list_probe_tables(least: int, most: int, max_later: int, narrowing: Narrowing = WHOLE) -> ProbeTables:
    """Return the tables for cliques of ``least`` to ``most`` vertices; ``least`` is 1 or ``most``."""
    one_size, n = least == most, max_later + 2
    ways: Floats = np.ones((1 if most > max_later and not one_size else most + 1, n))
    with np.errstate(over="ignore"):
        if ways.shape[0] == 1:
            ways[0] = _list_powers(2.0, n)
        # C(n, j) = C(n - 1, j) + C(n - 1, j - 1); sums of these over j obey the same rule.
        for missing in range(1, ways.shape[0]):
            ways[missing, 0] = 0.0 if one_size else 1.0
            ways[missing, 1:] = ways[missing, 0] + np.cumsum(ways[missing - 1, :-1])
    bounds = np.minimum(ways, _LARGEST_BOUND if one_size else list_maximal_bounds(max_later)[0])
    return ProbeTables(least, most, ways, (bounds.ravel(), np.sqrt(bounds).ravel()), narrowing)


def list_maximal_bounds(max_later: int) -> tuple[Floats, Floats]:
    """Return the bound by which a branch with n candidates is drawn, and its square root."""
    bounds: Floats = np.minimum(_list_powers(PROBE_GROWTH, max_later + 2), _LARGEST_BOUND)
    return bounds, np.sqrt(bounds)


def _list_powers(base: float, n: int) -> Floats:
    """Return the first n powers, the same on every machine; infinity beyond 1.8e308."""
    powers: Floats = np.full(n, base)
    powers[0] = 1.0
    with np.errstate(over="ignore"):
        np.cumprod(powers, out=powers)
    return powers


VERTICES = 6
"""Maximum vertices of a graph; pair j (j - 1) / 2 + i of vertices i < j is a bit of its number."""

_SHIFTS = {3: 0, 4: 5, 5: 9, 6: 12}
"""First bit of the number of cliques of each size in an entry; sizes 1 and 2 need no table."""


@cache
def list_closed() -> NDArray[np.uint16]:
    """Return the numbers of cliques of 3 to 6 vertices, shape (2^15,), in 5, 4, 3 and 1 bits from the lowest on."""
    graphs = np.arange(1 << VERTICES * (VERTICES - 1) // 2)
    table = np.zeros(graphs.size, np.uint16)
    for size, shift in _SHIFTS.items():
        for members in combinations(range(VERTICES), size):
            pairs = sum(1 << j * (j - 1) // 2 + i for i, j in combinations(members, 2))
            table += ((graphs & pairs) == pairs).astype(np.uint16) << np.uint16(shift)
    return table


class Restricted(NamedTuple):
    """The remaining graph to search after setting aside the vertices that every clique must contain."""

    graph: UnipartiteGraph  # the vertices adjacent to all of these, numbered by ascending id
    ids: Ids32  # of its vertices in the whole graph
    held: Ids32  # ids added to each clique

    @property
    def reason(self) -> tuple[str, str]:
        what = f"search among {self.graph.n} vertices and {self.graph.n_edges} edges"
        return what, "only these are compatible with the required vertices"


def restrict_graph(graph: UnipartiteGraph, held: Ids32, k: int | None) -> Restricted:
    """Restrict a graph to the common neighbours of the vertices ``held``; O(n_edges).

    The maximal cliques with these vertices correspond to the maximal cliques among the neighbours, and k-cliques to
    smaller ones. If nothing needs to be added, one held vertex remains to be found; if no clique exists, nothing
    remains.
    """
    if not held.size:
        return Restricted(graph, np.arange(graph.n, dtype=np.int32), held)
    met = np.bincount(graph.v[np.isin(graph.u, held)], minlength=graph.n)
    met += np.bincount(graph.u[np.isin(graph.v, held)], minlength=graph.n)
    ids = np.flatnonzero(met == held.size).astype(np.int32)
    if not bool((met[held] == held.size - 1).all()) or (k is not None and k < held.size):
        ids = ids[:0]
    elif not ids.size or k == held.size:
        ids, held = held[:1], held[1:]
    number = np.full(graph.n, -1, np.int32)
    number[ids] = np.arange(ids.size)
    u, v = number[graph.u], number[graph.v]
    kept = (u >= 0) & (v >= 0)
    return Restricted(UnipartiteGraph(int(ids.size), u[kept], v[kept]), ids, held)
