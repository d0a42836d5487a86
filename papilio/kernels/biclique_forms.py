"""Closed forms and the expansion of what the (p,q)-biclique kernels count; Python integers of any size.

The kernels never multiply: they count stars by degree, leaves by the size of their right set, and leaves of pivot
trees by how many vertices are held and how many are free on either side. Here those become numbers of bicliques.
"""

from __future__ import annotations

from math import comb
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique

__all__ = [
    "Cells",
    "Layers",
    "Leaf",
    "add_cells",
    "choose_modulo",
    "closed_cells",
    "count_stars",
    "expand_leaves",
    "expand_sizes",
    "star_vectors",
    "turn",
]

Cells = dict[tuple[int, int], int]
"""Counts by (p, q), without those that are 0."""


class Layers(Protocol):
    """What stars depend on: sizes and degrees of the layers, as a graph has them, on the host."""

    @property
    def n_u(self) -> int: ...

    @property
    def n_v(self) -> int: ...

    @property
    def degree_u(self) -> NDArray[np.int64]: ...

    @property
    def degree_v(self) -> NDArray[np.int64]: ...


def count_stars(degrees: NDArray[np.int64], least: int, most: int) -> dict[int, int]:
    """Return, for every size k in ``[least, most]``, the sum of C(degree, k), without those that are 0.

    Parameters
    ----------
    degrees : ndarray of int64, shape (n,)
    least, most : int
        ``most`` may be larger than any degree.
    """
    stars: dict[int, int] = {}
    sizes, times = np.unique(degrees, return_counts=True)
    for degree, count in zip(sizes.tolist(), times.tolist(), strict=True):
        ways = comb(degree, least) * count
        for size in range(least, min(degree, most) + 1):
            stars[size] = stars.get(size, 0) + ways
            ways = ways * (degree - size) // (size + 1)
    return stars


def closed_cells(graph: Layers, motif: Biclique) -> Cells:
    """Return the counts that ``motif`` asks for with p = 1 or q = 1: stars, by (p, q)."""
    cells: Cells = {}
    if motif.p in (None, 1):
        most = motif.q or motif.max_q or graph.n_v
        stars = count_stars(graph.degree_u, motif.q or 1, most)
        cells.update({(1, size): count for size, count in stars.items()})
    if motif.q in (None, 1):
        most = motif.p or motif.max_p or graph.n_u
        stars = count_stars(graph.degree_v, motif.p or 1, most)
        cells.update({(size, 1): count for size, count in stars.items()})
    return cells


def expand_sizes(histogram: dict[int, int], left: int, rights: range) -> Cells:
    """Return the bicliques, by (left, right) size, of left sets counted by the columns that they share.

    Parameters
    ----------
    histogram : dict of int to int
        Number of left sets of ``left`` vertices that share exactly so many right ones.
    rights : range
        Right sizes asked for; it may end beyond any size.
    """
    cells: Cells = {}
    for shared, count in histogram.items():
        ways = comb(shared, rights.start) * count
        for size in range(rights.start, min(shared + 1, rights.stop)):
            cells[left, size] = cells.get((left, size), 0) + ways
            ways = ways * (shared - size) // (size + 1)
    return cells


Leaf = tuple[int, int, int, int]
"""Held left, free left, held right and free right vertices of leaves of pivot trees."""


def expand_leaves(leaves: dict[Leaf, int], lefts: range, rights: range) -> Cells:
    """Return the bicliques, by (left, right) size, of leaves counted by key.

    A leaf (h, f, i, g) stands for C(f, p - h) * C(g, q - i) bicliques of p left and q right vertices. With x for the
    left and y for the right size they are the coefficients of x^h (1 + x)^f y^i (1 + y)^g. The powers of 1 + x are
    applied by Horner's rule, from the leaves with most free left vertices on; a coefficient of x is a polynomial in y
    packed into one integer, wide enough for the sum of all coefficients.
    """
    if not leaves:
        return {}
    if len(lefts) == 1:
        return _expand_row(leaves, lefts.start, rights)
    bound = sum(count << (free_left + free_right) for (_, free_left, _, free_right), count in leaves.items())
    width = bound.bit_length() + 1
    powers = _Powers(width)
    by_free: dict[int, dict[int, int]] = {}
    for (held_left, free_left, held_right, free_right), count in leaves.items():
        row = by_free.setdefault(free_left, {})
        row[held_left] = row.get(held_left, 0) + count * (powers.of(free_right) << width * held_right)
    packed: list[int] = []
    for free_left in range(max(by_free), -1, -1):
        packed = [a + b for a, b in zip([*packed, 0], [0, *packed], strict=True)] if packed else []
        row = by_free.get(free_left, {})
        packed += [0] * (max(row, default=0) + 1 - len(packed))
        for held_left, polynomial in row.items():
            packed[held_left] += polynomial
    cells: Cells = {}
    for left in range(lefts.start, min(lefts.stop, len(packed))):
        for right, count in enumerate(_unpack(packed[left], width)):
            if count and right in rights:
                cells[left, right] = count
    return cells


def _expand_row(leaves: dict[Leaf, int], left: int, rights: range) -> Cells:
    """Return the cells of one left size, directly."""
    ways: dict[tuple[int, int], int] = {}
    for (held_left, free_left, held_right, free_right), count in leaves.items():
        key = held_right, free_right
        if held_left <= left <= held_left + free_left:
            ways[key] = ways.get(key, 0) + count * comb(free_left, left - held_left)
    cells: Cells = {}
    for (held, free), count in ways.items():
        for right in range(max(held, rights.start), min(held + free + 1, rights.stop)):
            cells[left, right] = cells.get((left, right), 0) + count * comb(free, right - held)
    return cells


class _Powers:
    """(1 + y)^n as packed integers, for any n, made one from the other."""

    def __init__(self, width: int) -> None:
        self._width, self._known = width, [1]

    def of(self, n: int) -> int:
        while len(self._known) <= n:
            last = self._known[-1]
            self._known.append(last + (last << self._width))
        return self._known[n]


def _unpack(packed: int, width: int) -> list[int]:
    """Return the coefficients of a packed polynomial, by halving, so that the time is not quadratic."""
    n = -(-packed.bit_length() // width)
    if n <= 1:
        return [packed]
    half = n // 2
    low = packed & ((1 << width * half) - 1)
    first = _unpack(low, width)
    return first + [0] * (half - len(first)) + _unpack(packed >> width * half, width)


def turn(cells: Cells, swapped: bool) -> Cells:
    """Return cells by (left, right) as cells by (p, q)."""
    return {(right, left): count for (left, right), count in cells.items()} if swapped else cells


def wrap(count: int) -> int:
    """Return the count modulo 2^64."""
    return count & (2**64 - 1)


def choose_modulo(most: int, size: int) -> NDArray[np.uint64]:
    """Return C(n, size) modulo 2^64 for n up to ``most``, shape (most + 1,)."""
    ways = np.zeros(most + 1, np.uint64)
    exact = 1
    for n in range(size, most + 1):
        ways[n] = wrap(exact)
        exact = exact * (n + 1) // (n + 1 - size)
    return ways


def star_vectors(graph: BipartiteGraph, motif: Biclique) -> dict[str, NDArray[np.uint64]]:
    """Return how many (p,q)-bicliques each vertex is in, modulo 2^64, where p or q is 1.

    A centre of degree d has C(d, size) stars; each of its neighbours is in C(d - 1, size - 1) of them.
    """
    swapped = motif.p != 1
    centres, ends = ("v", "u") if swapped else ("u", "v")
    size = (motif.p if swapped else motif.q) or 1
    degree = graph.degree_v if swapped else graph.degree_u
    most = int(degree.max(initial=0))
    own, of_others = choose_modulo(most, size), choose_modulo(most, size - 1)
    edges_centre, edges_end = (graph.v, graph.u) if swapped else (graph.u, graph.v)
    at_ends = np.zeros(graph.n_u if swapped else graph.n_v, np.uint64)
    np.add.at(at_ends, edges_end, of_others[degree[edges_centre] - 1])
    return {centres: own[degree], ends: at_ends}


def add_cells(cells: Cells, more: Cells) -> Cells:
    """Return the sums by (p, q)."""
    sums = dict(cells)
    for cell, count in more.items():
        sums[cell] = sums.get(cell, 0) + count
    return sums
