"""Graphs that cross the sizes at which kernels take other paths: words, warps, lanes, planes, tables, queues.

Sides are drawn from ``STEPS``. Shapes have few maximal motifs for their size, or a small side: a search stays short.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph

Graph = BipartiteGraph | UnipartiteGraph
Pairs = NDArray[np.int64]
"""Edges, shape (n_edges, 2)."""
Shape = Callable[[Generator, int, int], Pairs]
"""Draws edges between two layers of at most so many vertices."""

STEPS = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 39, 40, 41, 47, 48, 49, 63, 64, 65, 95, 96, 97, 123,
    124, 125, 127, 128, 129, 191, 192, 193, 255, 256, 257, 383, 384, 385, 511, 512, 513, 639, 640, 641, 1023, 1024,
    1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 12289, 16385, 32769, 65537,
)  # fmt: skip
"""Sizes beside those at which code changes its way: see tuning.py and device/constants.py."""

_DENSE_SIDE = 14
_LEAST_MISSING = 9
"""Most edges that are missing in a complete block: each can double the maximal motifs."""


def draw_size(random: Generator, most: int) -> int:
    """Return a size up to ``most``; the larger ones as often as the smaller ones."""
    steps = [step for step in STEPS if step <= most] or [1]
    return int(random.choice(steps))


def _all_pairs(a: int, b: int) -> Pairs:
    return np.stack(np.divmod(np.arange(a * b), max(1, b)), axis=1)


def _complete(random: Generator, a: int, b: int) -> Pairs:
    """Return a complete block, without an edge or without some."""
    pairs = _all_pairs(a, b)
    n_missing = int(random.choice([0, 0, 1, 2, _LEAST_MISSING]))
    return np.delete(pairs, random.integers(0, len(pairs), min(n_missing, len(pairs) - 1)), axis=0)


def _crown(random: Generator, a: int, b: int) -> Pairs:
    """Return the complement of a matching; beside it rows that are next to all."""
    pairs, n = _all_pairs(a, b), int(random.integers(1, _DENSE_SIDE))
    return pairs[(pairs[:, 0] != pairs[:, 1]) | (pairs[:, 0] >= n)]


def _chain(random: Generator, a: int, b: int) -> Pairs:
    """Return nested neighbourhoods."""
    reach = random.integers(0, b + 1, a)
    return _ragged(np.minimum(reach, random.integers(1, b + 1)) if random.random() < 0.5 else reach)


def _ragged(lengths: NDArray[np.int64]) -> Pairs:
    rows = np.repeat(np.arange(lengths.size), lengths)
    return np.stack((rows, np.arange(rows.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)), axis=1)


def _twins(random: Generator, a: int, b: int) -> Pairs:
    """Return many equal rows and many equal columns: a small pattern, each of its vertices repeated."""
    pattern = random.random((int(random.integers(1, 7)), int(random.integers(1, 7)))) < random.uniform(0.3, 0.9)
    of_row, of_column = random.integers(0, pattern.shape[0], a), random.integers(0, pattern.shape[1], b)
    return np.argwhere(pattern[np.ix_(of_row, of_column)])


def _skewed(random: Generator, a: int, b: int) -> Pairs:
    """Return few hubs and many vertices of low degree, on both layers."""
    n, power = int(3 * (a + b) * random.uniform(0.2, 1)), random.uniform(1.0, 4.0, 2)
    drawn = random.random((n, 2)) ** power
    return (drawn * (a, b)).astype(np.int64)


def _giant(random: Generator, a: int, b: int) -> Pairs:
    """Return a row that is next to nearly all columns, and some next to a few."""
    others = random.integers(0, (max(1, a), max(1, b)), (2 * (a + b), 2))
    return np.concatenate((others, _all_pairs(1, max(1, b - int(random.integers(0, 3))))))


def _dense(random: Generator, a: int, b: int) -> Pairs:
    """Return a random block with a small side, or of two sides that are not large, and sparser."""
    if random.random() < 0.7:
        a = min(a, int(random.integers(1, _DENSE_SIDE + 1)))
        return np.argwhere(random.random((a, b)) < random.choice([0.3, 0.5, 0.7, 0.9]))
    a, b = min(a, 129), min(b, 129)
    return np.argwhere(random.random((a, b)) < random.uniform(3, 9) / max(9, min(a, b)))


def _stars(random: Generator, a: int, b: int) -> Pairs:
    return np.stack((random.integers(0, max(1, a // 8), b), np.arange(b)), axis=1)


SHAPES: dict[str, Shape] = {
    "complete": _complete, "crown": _crown, "chain": _chain, "twins": _twins, "skewed": _skewed, "giant": _giant,
    "dense": _dense, "stars": _stars,
}  # fmt: skip


def draw_bipartite(random: Generator, most_side: int, most_edges: int, signed: bool) -> tuple[str, BipartiteGraph]:
    """Draw one to three shapes side by side or one over the other, with names that say nothing."""
    names, parts, ends = [], [], np.zeros(2, np.int64)
    n_parts = int(random.choice([1, 1, 1, 2, 3]))
    beside = random.random() < 0.7
    for _ in range(n_parts):
        name = str(random.choice(list(SHAPES)))
        over = most_side if beside else min(most_side, 33)
        a = draw_size(random, over)
        b = draw_size(random, max(1, min(over, most_edges // n_parts // a)))
        pairs = SHAPES[name](random, a, b)
        names.append(f"{name} {a} x {b}")
        parts.append((pairs[:, ::-1] if random.random() < 0.5 else pairs) + (ends if beside else 0))
        ends = np.max([ends, *(part.max(axis=0) + 1 for part in parts if part.size)], axis=0)
    if random.random() < 0.3:
        noise = int(random.integers(0, 40))
        parts.append(random.integers(0, ends + 1, (noise, 2)))
        names.append(f"{noise} more")
    pairs = np.concatenate(parts)
    n_u, n_v = (int(end) + int(random.choice([1, 1, 5])) for end in ends)
    to_u, to_v = (random.permutation(n) if random.random() < 0.8 else np.arange(n) for n in (n_u, n_v))
    plain = BipartiteGraph.from_edges(to_u[pairs[:, 0]], to_v[pairs[:, 1]], n_u, n_v)
    if not signed:
        return " + ".join(names), plain
    how, sign = _draw_signs(random, plain)
    return " + ".join([*names, how]), BipartiteGraph.from_edges(plain.u, plain.v, n_u, n_v, sign)


def _draw_signs(random: Generator, graph: BipartiteGraph) -> tuple[str, NDArray[np.int64]]:
    """Return all of one kind, a few of the other, a coin's, or those of which every cycle is balanced."""
    how = str(random.choice(["all +", "all -", "few -", "coin", "balanced"]))
    negative = {"all +": 0.0, "all -": 1.0, "few -": 0.1, "coin": 0.5}.get(how, 0.02)
    sign = np.where(random.random(graph.n_edges) < negative, -1, 1)
    if how == "balanced":
        of_u, of_v = (2 * random.integers(0, 2, n) - 1 for n in (graph.n_u, graph.n_v))
        sign = sign * of_u[graph.u] * of_v[graph.v]
    return how, sign


def _clique(random: Generator, n: int) -> Pairs:
    """Return a complete graph without some edges."""
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    n_missing = min(int(random.choice([0, 0, 1, _LEAST_MISSING])), len(pairs))
    return np.delete(pairs, random.integers(0, max(1, len(pairs)), n_missing), axis=0)


def _apart(random: Generator, n: int) -> Pairs:
    """Return a complete graph without the edges within some groups of two, three or four."""
    size = int(random.integers(2, 5))
    limit = int(random.integers(1, 7)) * size
    group = np.where(np.arange(n) < limit, np.arange(n) // size, n + np.arange(n))
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    return pairs[group[pairs[:, 0]] != group[pairs[:, 1]]]


def _nested(random: Generator, n: int) -> Pairs:
    """Return vertices that are next to all before them, or to none."""
    return np.stack(np.nonzero(np.tri(n, n, -1, dtype=bool) & (random.random(n) < 0.6)[:, None]), axis=1)


def _blown(random: Generator, n: int) -> Pairs:
    """Return a small graph of which each vertex is a clique, or a set of vertices that are apart, of equals."""
    k = int(random.integers(1, 7))
    pattern = np.triu(random.random((k, k)) < random.uniform(0.3, 0.9))
    of = random.integers(0, k, n)
    inside = (pattern | pattern.T)[np.ix_(of, of)]
    return np.argwhere(np.triu(inside, 1))


def _split(random: Generator, n: int) -> Pairs:
    """Return a clique, and vertices that are apart beside it with neighbours in it."""
    a = draw_size(random, min(n, 129))
    name = str(random.choice(["chain", "twins", "dense", "skewed"]))
    across = SHAPES[name](random, a, n) + np.array([0, a])
    return np.concatenate((np.stack(np.triu_indices(a, 1), axis=1), across))


def _random(random: Generator, n: int) -> Pairs:
    """Return a sparse graph, or a dense one that is not large."""
    if random.random() < 0.5:
        n = min(n, 193)
        return np.argwhere(np.triu(random.random((n, n)) < min(0.8, random.uniform(5, 30) / n), 1))
    drawn = random.random((int(n * random.uniform(0.5, 6)), 2)) ** random.uniform(1.0, 3.0)
    return (drawn * n).astype(np.int64)


def _wheel(random: Generator, n: int) -> Pairs:
    """Return a vertex that is next to all others, of which each is next to a few after it."""
    around = np.arange(1, n)
    steps = [np.stack((around, (around + step) % n), axis=1) for step in range(1, int(random.integers(2, 5)))]
    return np.concatenate((np.stack((np.zeros(n - 1, np.int64), around), axis=1), *steps))


UNIPARTITE_SHAPES: dict[str, Callable[[Generator, int], Pairs]] = {
    "clique": _clique, "apart": _apart, "nested": _nested, "blown": _blown, "split": _split, "random": _random,
    "wheel": _wheel,
}  # fmt: skip


def draw_unipartite(random: Generator, most_side: int, most_dense: int) -> tuple[str, UnipartiteGraph]:
    """Draw one to three shapes, side by side or over one another; those of many edges up to ``most_dense`` vertices."""
    names, parts, end, beside = [], [], 0, random.random() < 0.6
    for _ in range(int(random.choice([1, 1, 2, 3]))):
        name = str(random.choice(list(UNIPARTITE_SHAPES)))
        most = most_side if name in ("split", "random", "wheel") else most_dense
        n = draw_size(random, most if beside else min(most, 41))
        pairs = UNIPARTITE_SHAPES[name](random, n).reshape(-1, 2)
        names.append(f"{name} {n}")
        parts.append(pairs + (end if beside else 0))
        end = max(end, *(int(part.max(initial=-1)) + 1 for part in parts))
    if random.random() < 0.3:
        noise = int(random.integers(0, 40))
        parts.append(random.integers(0, end + 1, (noise, 2)))
        names.append(f"{noise} more")
    pairs, n = np.concatenate(parts), end + int(random.choice([1, 1, 5]))
    to = random.permutation(n) if random.random() < 0.8 else np.arange(n)
    return " + ".join(names), UnipartiteGraph.from_edges(to[pairs[:, 0]], to[pairs[:, 1]], n)
