"""Bicliques by definition, for small graphs; shares no code with the package's engines.

A (p,q)-biclique is p vertices of U and q of V with all p * q edges; here each set of p vertices is visited, and each
set of q common neighbours where vertices are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from math import comb

Edge = tuple[int, int]


def _neighbours(edges: Iterable[Edge]) -> dict[int, set[int]]:
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
    return neighbours


def count_bicliques(edges: Iterable[Edge], p: int, q: int) -> int:
    """Count the (p,q)-bicliques."""
    neighbours = _neighbours(edges)
    sets = combinations(sorted(neighbours), p)
    return sum(comb(len(set.intersection(*(neighbours[u] for u in chosen))), q) for chosen in sets)


def count_all(edges: Iterable[Edge]) -> dict[tuple[int, int], int]:
    """Count the bicliques of every size, without those that do not occur."""
    neighbours = _neighbours(edges)
    cells: Counter[tuple[int, int]] = Counter()
    stack = [(0, 0, frozenset[int]())]
    order = sorted(neighbours)
    while stack:
        at, p, shared = stack.pop()
        for i in range(at, len(order)):
            both = frozenset(neighbours[order[i]]) if p == 0 else shared & neighbours[order[i]]
            if both:
                for q in range(1, len(both) + 1):
                    cells[p + 1, q] += comb(len(both), q)
                stack.append((i + 1, p + 1, both))
    return dict(cells)


def count_vertices(edges: Iterable[Edge], p: int, q: int) -> tuple[Counter[int], Counter[int]]:
    """Visit every (p,q)-biclique; return how many each vertex of U and of V is in."""
    neighbours = _neighbours(edges)
    of_u: Counter[int] = Counter()
    of_v: Counter[int] = Counter()
    for chosen in combinations(sorted(neighbours), p):
        shared = set.intersection(*(neighbours[u] for u in chosen))
        for others in combinations(sorted(shared), q):
            of_u.update(chosen)
            of_v.update(others)
    return of_u, of_v
