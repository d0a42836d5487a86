"""Generated graphs of given layers, edges and skew of degrees, drawn in memory on several threads.

The vertex at place r of a layer of n vertices has the weight ``integral of x^-fall from r to r + 1``, r = 1 ... n, over
the sum of all weights; ``fall`` is 0 for layers of equal vertices. An edge exists with the probability
``1 - exp(-draws * weight_u * weight_v)``, independently of all others, so that pairs of heavy vertices fill up and no
degree passes the other layer. The number of draws is solved for the requested edges; the few surplus edges are removed
at random. Places are given to ids at random. Expectations for such a graph can be computed without drawing it.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.storage.random_edges import edge_signs, stream

__all__ = ["draw_skewed", "expected_butterflies"]

_BLOCK_DRAWS = 1 << 22
_BINS = 400
_SURPLUS = 2e-3
"""Surplus of drawn edges, as a share: more than the error of grouping vertices into bins."""


def _masses(places: NDArray[np.float64], fall: float) -> NDArray[np.float64]:
    """Return the integral of ``x^-fall`` from 1 to each place + 1."""
    if fall == 1.0:
        return np.log1p(places)
    return np.asarray(((places + 1.0) ** (1.0 - fall) - 1.0) / (1.0 - fall))


def _weights(n: int, fall: float) -> NDArray[np.float64]:
    masses = _masses(np.arange(n + 1, dtype=np.float64), fall)
    return np.asarray(np.diff(masses) / masses[-1])


def _bins(n: int, fall: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the size of bins of neighbouring places, and the mean weight of a vertex of each."""
    cuts = np.unique(np.rint(np.geomspace(1, n + 1, _BINS)).astype(np.int64)) - 1
    masses = _masses(cuts.astype(np.float64), fall)
    sizes = np.diff(cuts).astype(np.float64)
    return sizes, np.diff(masses) / masses[-1] / sizes


def _solve(n_u: int, n_v: int, edges: float, falls: tuple[float, float]) -> tuple[float, NDArray[np.float64]]:
    """Return the draws that leave ``edges`` expected edges, and the probability of an edge of two bins."""
    (size_u, weight_u), (size_v, weight_v) = _bins(n_u, falls[0]), _bins(n_v, falls[1])
    products = np.outer(weight_u, weight_v)
    low, high = edges, edges
    while size_u @ -np.expm1(-high * products) @ size_v < edges:
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if size_u @ -np.expm1(-middle * products) @ size_v < edges:
            low = middle
        else:
            high = middle
    return high, -np.expm1(-high * products)


def expected_butterflies(n_u: int, n_v: int, edges: int, falls: tuple[float, float]) -> float:
    """Return the expected number of butterflies of a graph of :func:`draw_skewed`, within about 1 %."""
    if n_u > n_v:
        n_u, n_v, falls = n_v, n_u, falls[::-1]
    probability = _solve(n_u, n_v, edges, falls)[1]
    size_u, size_v = _bins(n_u, falls[0])[0], _bins(n_v, falls[1])[0]
    common = (probability * size_v) @ probability.T
    squares = probability**2
    twice = (squares * size_v) @ squares.T
    pairs = np.outer(size_u, size_u)
    pairs[np.diag_indices_from(pairs)] = size_u * (size_u - 1.0)
    return float((pairs * (common**2 - twice)).sum()) / 4.0


def _places(random: Generator, n_draws: int, n: int, fall: float) -> NDArray[np.int64]:
    """Draw places 0 ... n - 1 by weight, shape (n_draws,)."""
    whole = float(_masses(np.array([n], dtype=np.float64), fall)[0])
    masses = random.random(n_draws) * whole
    if fall == 1.0:
        np.exp(masses, out=masses)
    else:
        masses *= 1.0 - fall
        masses += 1.0
        np.power(masses, 1.0 / (1.0 - fall), out=masses)
    masses -= 1.0
    return np.minimum(masses.astype(np.int64), n - 1)


def draw_skewed(
    n_u: int,
    n_v: int,
    edges: int,
    falls: tuple[float, float],
    *,
    positive: float,
    seed: int,
    workers: int | None = None,
) -> BipartiteGraph:
    """Return a signed graph of exactly these sizes; the same for any number of workers.

    Parameters
    ----------
    n_u, n_v, edges : int
        Some vertices may have no edge.
    falls : tuple of float
        How fast the weights of U and of V fall with the place, at least 0.
    positive : float
        Probability that an edge is positive, independent of all others.
    seed : int
    workers : int, optional
        Threads; by default one per processor that this process may use.

    Raises
    ------
    ValueError
        When the layers have no room for as many edges.
    """
    wanted = edges * (1.0 + _SURPLUS) + 6.0 * math.sqrt(edges)
    if wanted > 0.99 * n_u * n_v:
        raise ValueError(f"{edges} edges do not fit into layers of {n_u} and {n_v} vertices with room to spare")
    draws = _solve(n_u, n_v, wanted, falls)[0]
    random = Generator(stream(seed, 0))
    weights = draws * _weights(n_u, falls[0])[random.permutation(n_u)]
    ids_v = random.permutation(n_v)
    cuts = np.searchsorted(np.cumsum(weights), np.arange(0.0, draws, _BLOCK_DRAWS))
    bounds = [*np.unique(cuts).tolist(), n_u]

    def draw(at: int) -> NDArray[np.int64]:
        own = Generator(stream(seed, 1, at))
        first, last = bounds[at], bounds[at + 1]
        keys = np.repeat(np.arange(first, last) << 32, own.poisson(weights[first:last]))
        keys |= ids_v[_places(own, keys.size, n_v, falls[1])]
        keys.sort()
        kept = np.ones(keys.size, dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=kept[1:])
        return keys[kept]

    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        blocks = list(pool.map(draw, range(len(bounds) - 1)))
        surplus = sum(block.size for block in blocks) - edges
        if surplus < 0:
            raise ValueError(f"{-surplus} edges of {edges} are missing; take another seed")
        ends = np.cumsum([0, *(block.size for block in blocks)])
        dropped = np.sort(random.choice(int(ends[-1]), surplus, replace=False, shuffle=False))
        at = np.searchsorted(dropped, ends)

        def finish(i: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int8]]:
            keys = np.delete(blocks[i], dropped[at[i] : at[i + 1]] - ends[i])
            signs = edge_signs(keys, positive, seed)
            return (keys >> 32).astype(np.int32), keys.astype(np.int32), signs

        parts = list(pool.map(finish, range(len(blocks))))
    u, v, sign = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return BipartiteGraph(n_u, n_v, u, v, sign)
