"""Closed forms for (p,q)-bicliques, and the conversion of kernel results to counts; Python integers of any size.

The kernels never multiply: they count stars by degree, leaves by the size of their right set, and leaves of pivot
trees by the numbers of held and free vertices on either side. This module turns these into numbers of bicliques.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.exact import choose_modulo
from papilio.motifs import Biclique, Cell
from papilio.parts import Layer

Cells = dict[Cell, int]
"""Nonzero counts by (p, q)."""

_MOST_STAR_BITS = 1 << 33
"""Bits of the counts of all stars, at most: a gigabyte of integers, twice as many digits, a minute of one processor."""

Integers = NDArray[np.object_]
"""Python integers of any size."""


@dataclass(frozen=True, eq=False)
class Degrees:
    """Layer sizes and vertex degrees, on the host, of a graph on a device."""

    n_u: int
    n_v: int
    degree_u: NDArray[np.int64]
    degree_v: NDArray[np.int64]


Layers = BipartiteGraph | Degrees
"""Input of decisions and stars."""


def count_stars(degrees: NDArray[np.int64], least: int, most: int) -> dict[int, int]:
    """Return the nonzero sums of C(degree, k), for every size k in ``[least, most]``.

    ``degrees`` are int64 of shape (n,); ``most`` may be larger than any degree.
    """
    found, times = np.unique(degrees, return_counts=True)
    return _sum_choices(dict(zip(found.tolist(), times.tolist(), strict=True)), range(least, most + 1))


@dataclass(frozen=True, eq=False)
class RootStars:
    """The stars of a part of a graph: those with a root."""

    layer: Layer  # Layer of the roots
    is_root: NDArray[np.bool_]  # shape (size of the layer,)
    # shape (size of the other layer,): number of neighbours of each vertex that are not roots
    others: NDArray[np.int64]


def needs_stars(motif: Biclique) -> bool:
    """Return whether the motif includes stars."""
    return motif.p in (None, 1) or motif.q in (None, 1)


def find_root_stars(graph: BipartiteGraph, layer: Layer, roots: NDArray[np.int32], xp: Any = np) -> RootStars:
    """Return the stars with a root (int32, host) of a layer; O(n_edges).

    The edges of the graph, and the result, are arrays of ``xp``, NumPy or CuPy.
    """
    own, other, n_own, n_other = (
        (graph.u, graph.v, graph.n_u, graph.n_v) if layer == "u" else (graph.v, graph.u, graph.n_v, graph.n_u)
    )
    is_root = xp.zeros(n_own, dtype=np.bool_)
    is_root[xp.asarray(roots)] = True
    others = xp.bincount(other[~is_root[own]], minlength=n_other).astype(np.int64)
    return RootStars(layer, is_root, others)


def closed_cells(graph: Layers, motif: Biclique, of_roots: RootStars | None = None) -> Cells:
    """Return the stars of ``motif`` (p = 1 or q = 1), by (p, q). Only ``of_roots``, if given.

    CapacityError if the numbers would fill gigabytes.
    """
    cells: Cells = {}
    if motif.p in (None, 1):
        most = motif.q or motif.max_q or graph.n_v
        _require_room(graph.degree_u, (motif.q or 1, most), "q")
        stars = _count_centres("u", graph.degree_u, (motif.q or 1, most), of_roots)
        cells.update({(1, size): count for size, count in stars.items()})
    if motif.q in (None, 1):
        most = motif.p or motif.max_p or graph.n_u
        _require_room(graph.degree_v, (motif.p or 1, most), "p")
        stars = _count_centres("v", graph.degree_v, (motif.p or 1, most), of_roots)
        cells.update({(size, 1): count for size, count in stars.items()})
    return cells


def _require_room(degrees: NDArray[np.int64], sizes: tuple[int, int], side: str) -> None:
    """Raise CapacityError for stars of too many sizes: a vertex of degree d is in 2^d of them."""
    degree = int(degrees.max(initial=0))
    n_sizes = min(sizes[1], degree) - sizes[0] + 1
    if n_sizes * degree > _MOST_STAR_BITS:
        most = sizes[0] - 1 + _MOST_STAR_BITS // degree
        raise CapacityError(
            f"a vertex has {degree} neighbours, and the counts of its stars of up to {min(sizes[1], degree)} of them "
            f"have {degree} bits each, {n_sizes * degree // 8 >> 20} MiB in all: limit the size to --max-{side} {most} "
            f"or less"
        )


def count_choices(most: int, q: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return C(n, q) and C(n - 1, q - 1) modulo 2^64, both for n up to ``most``, shape (most + 1,)."""
    sets = choose_modulo(most, q)
    members = np.zeros_like(sets)
    members[1:] = choose_modulo(most, q - 1)[:-1]
    return sets, members


def _count_centres(
    layer: Layer, degrees: NDArray[np.int64], sizes: tuple[int, int], of_roots: RootStars | None
) -> dict[int, int]:
    if of_roots is None:
        return count_stars(degrees, *sizes)
    if of_roots.layer == layer:
        return count_stars(degrees[of_roots.is_root], *sizes)
    stars, without = count_stars(degrees, *sizes), count_stars(of_roots.others, *sizes)
    differences = ((size, count - without.get(size, 0)) for size, count in stars.items())
    return {size: count for size, count in differences if count}


def expand_sizes(histogram: dict[int, int], left: int, rights: range) -> Cells:
    """Return the number of bicliques, by (left, right) size, from left sets counted by shared columns.

    ``histogram`` holds the number of sets of ``left`` vertices by the number of shared right ones; ``rights`` are the
    requested right sizes, and may exceed any size in the graph.
    """
    return {(left, size): count for size, count in _sum_choices(histogram, rights).items()}


def _sum_choices(times: dict[int, int], sizes: range) -> dict[int, int]:
    """Return the nonzero sums of times[n] * C(n, k) over n, for every k of ``sizes``, which may exceed any n."""
    if len(sizes) == 1:
        total = sum(count * comb(n, sizes.start) for n, count in times.items())
        return {sizes.start: total} if total else {}
    sums = np.zeros(max(0, min(sizes.stop, max(times, default=0) + 1) - sizes.start), object)
    for n, count in times.items():
        row = np.array(_binomials(n, sizes), object)
        sums[: row.size] += row if count == 1 else row * count
    return {sizes.start + at: int(sums[at]) for at in np.flatnonzero(sums).tolist()}


Leaf = tuple[int, int, int, int]
"""Numbers of held left, free left, held right and free right vertices of leaves of pivot trees."""


def expand_leaves(leaves: dict[Leaf, int], lefts: range, rights: range) -> Cells:
    """Return the number of bicliques, by (left, right) size, from leaves counted by key.

    A leaf (h, f, i, g) represents C(f, p - h) * C(g, q - i) bicliques of p left and q right vertices. Leaves with the
    same (i, g) are added up first, over all p at once, as polynomials packed into one integer; the coefficient of each
    p is then multiplied by the row of binomials of g. The side with fewer sizes is packed: if one side is large, the
    other is small, so packed integers and rows of binomials stay short.
    """
    if not leaves:
        return {}
    n_left, n_right = _count_sizes(leaves, 0, lefts), _count_sizes(leaves, 2, rights)
    if n_left <= n_right:
        return _expand_packed(leaves, range(lefts.start, lefts.start + n_left), rights)
    turned = {(i, g, h, f): count for (h, f, i, g), count in leaves.items()}
    cells = _expand_packed(turned, range(rights.start, rights.start + n_right), lefts)
    return {(left, right): count for (right, left), count in cells.items()}


def _count_sizes(leaves: dict[Leaf, int], held: int, asked: range) -> int:
    """Return the number of requested sizes that leaves can reach, on the side whose held number is at ``held``."""
    return len(range(asked.start, min(asked.stop, max(key[held] + key[held + 1] for key in leaves) + 1)))


def _expand_packed(leaves: dict[Leaf, int], lefts: range, rights: range) -> Cells:
    """Expand leaves, all left sizes of a (held, free) right at once. The leaves bound ``lefts``."""
    bound = sum(count << free for (_, free, _, _), count in leaves.items())
    width = bound.bit_length() // 8 + 1
    by_right = _pack_lefts(leaves, lefts, width)
    max_held = max(held for _, held in by_right)
    sums: dict[int, Integers] = {}
    row = np.zeros(0, object)
    for free, held in sorted(by_right, reverse=True):
        if row.size != free + 1:
            row = np.array(_binomials(free, range(free + 1)), object)
        begin = max(0, rights.start - held)
        part = row[begin : max(begin, rights.stop - held)]
        if not part.size:
            continue
        first = held + begin - rights.start
        n_lefts = -(-by_right[free, held].bit_length() // (8 * width))
        packed = by_right[free, held].to_bytes(width * n_lefts, "little")
        for left in range(n_lefts):
            ways = int.from_bytes(packed[left * width : (left + 1) * width], "little")
            if not ways:
                continue
            if left not in sums:
                sums[left] = np.zeros(min(len(rights), max_held + free + 1), object)
            sums[left][first : first + part.size] += part * ways
    return {
        (lefts.start + left, rights.start + at): int(total[at])
        for left, total in sums.items()
        for at in np.flatnonzero(total).tolist()
    }


def _pack_lefts(leaves: dict[Leaf, int], lefts: range, width: int) -> dict[tuple[int, int], int]:
    """Return, by (free, held) right, the sums of count * C(free left, p - held left): all p, ``width`` bytes each."""
    choices: dict[tuple[int, int], int] = {}
    by_right: dict[tuple[int, int], int] = {}
    for (held_left, free_left, held_right, free_right), count in leaves.items():
        left = held_left, free_left
        if left not in choices:
            row = _binomials(free_left, range(max(0, lefts.start - held_left), lefts.stop - held_left))
            packed = int.from_bytes(b"".join([ways.to_bytes(width, "little") for ways in row]), "little")
            choices[left] = packed << 8 * width * max(0, held_left - lefts.start)
        right = free_right, held_right
        by_right[right] = by_right.get(right, 0) + count * choices[left]
    return by_right


def _binomials(n: int, sizes: range) -> list[int]:
    """Return C(n, k) for every k of ``sizes``, none of them negative, up to n."""
    first, last = sizes.start, min(sizes.stop - 1, n)
    if first > last:
        return []
    middle = n // 2
    if first > middle:
        return _binomials(n, range(n - last, n - first + 1))[::-1]
    # C(n, k) = C(n, n - k), and numbers up to the middle are enough.
    low = min(first, n - last)
    ways = comb(n, low)
    row = [ways]
    for k in range(low, min(last, middle)):
        ways = ways * (n - k) // (k + 1)
        row.append(ways)
    if last > middle:
        row += row[::-1][1 - n % 2 :]
    return row[first - low : last - low + 1]


def turn(cells: Cells, anchor: Layer) -> Cells:
    """Convert cells by (left, right) to cells by (p, q); the anchored layer is left."""
    return cells if anchor == "u" else {(right, left): count for (left, right), count in cells.items()}


def star_vectors(
    graph: BipartiteGraph, motif: Biclique, of_roots: RootStars | None = None
) -> dict[str, NDArray[np.uint64]]:
    """Return the number of (p,q)-bicliques of each vertex, modulo 2^64, if p or q is 1.

    A centre of degree d has C(d, size) stars; each of its neighbours is in C(d - 1, size - 1) of them. For a part,
    only stars with a root count: as their centre, or among their neighbours.
    """
    if motif.p == 1:
        centres, ends, size, degree, n_ends = "u", "v", motif.q or 1, graph.degree_u, graph.n_v
        edges_centre, edges_end = graph.u, graph.v
    else:
        centres, ends, size, degree, n_ends = "v", "u", motif.p or 1, graph.degree_v, graph.n_u
        edges_centre, edges_end = graph.v, graph.u
    most = int(degree.max(initial=0))
    own, of_others = choose_modulo(most, size), choose_modulo(most, size - 1)
    at_centres, at_edges = own[degree], of_others[degree[edges_centre] - 1]
    if of_roots is not None and of_roots.layer == centres:
        at_centres[~of_roots.is_root] = 0
        at_edges[~of_roots.is_root[edges_centre]] = 0
    elif of_roots is not None:
        at_centres -= own[of_roots.others]
        without = ~of_roots.is_root[edges_end]
        at_edges[without] -= of_others[of_roots.others[edges_centre[without]] - 1]
    at_ends = np.zeros(n_ends, np.uint64)
    np.add.at(at_ends, edges_end, at_edges)
    return {centres: at_centres, ends: at_ends}
