"""Wing and tip numbers by definition, and their components: slow, and no code shared with the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from itertools import combinations

from papilio.graph import BipartiteGraph
from tests.tools.strategies import edge_list

Edge = tuple[int, int]
Butterfly = tuple[Edge, Edge, Edge, Edge]

__all__ = ["components_of", "tip_butterflies", "tip_numbers", "wing_butterflies", "wing_numbers"]


def list_butterflies(edges: Collection[Edge]) -> list[tuple[int, int, int, int]]:
    """Return (u, x, v, y) with u < x, v < y and all four edges present."""
    present = set(edges)
    rows: dict[int, set[int]] = {}
    for u, v in present:
        rows.setdefault(u, set()).add(v)
    found = []
    for u, x in combinations(sorted(rows), 2):
        found += [(u, x, v, y) for v, y in combinations(sorted(rows[u] & rows[x]), 2)]
    return found


def wing_butterflies(edges: Collection[Edge]) -> list[tuple[Edge, ...]]:
    """Return the butterflies as sets of edges."""
    return [((u, v), (u, y), (x, v), (x, y)) for u, x, v, y in list_butterflies(edges)]


def tip_butterflies(edges: Collection[Edge]) -> list[tuple[int, ...]]:
    """Return the butterflies as pairs of vertices of U."""
    return [(u, x) for u, x, _, _ in list_butterflies(edges)]


def _numbers(items: Collection[Hashable], motifs: list[tuple[Hashable, ...]]) -> dict[Hashable, int]:
    """Return the largest k for which each item is in a set whose items are each in k motifs within the set."""
    numbers = dict.fromkeys(items, 0)
    left, inside = set(items), list(motifs)
    k = 0
    while left:
        k += 1
        while True:
            counts = dict.fromkeys(left, 0)
            for motif in inside:
                for item in motif:
                    counts[item] += 1
            weak = {item for item in left if counts[item] < k}
            if not weak:
                break
            for item in weak:
                numbers[item] = k - 1
            left -= weak
            inside = [motif for motif in inside if not weak & set(motif)]
        if left:
            k = min(counts.values())
    return numbers


def wing_numbers(graph: BipartiteGraph) -> list[int]:
    """Return the wing number of every edge, by edge id."""
    edges = edge_list(graph)
    numbers = _numbers(edges, wing_butterflies(edges))
    return [numbers[edge] for edge in edges]


def tip_numbers(graph: BipartiteGraph) -> list[int]:
    """Return the tip number of every vertex of U."""
    numbers = _numbers(range(graph.n_u), tip_butterflies(edge_list(graph)))
    return [numbers[u] for u in range(graph.n_u)]


def components_of(
    numbers: dict[Hashable, int], motifs: list[tuple[Hashable, ...]]
) -> dict[int, set[frozenset[Hashable]]]:
    """Return, for each number k above 0 that occurs, the components of the items numbered k or more.

    Items are connected when a motif holds both whose items are all numbered k or more.
    """
    found = {}
    for k in sorted(set(numbers.values()) - {0}):
        groups = [{item} for item, number in numbers.items() if number >= k]
        for motif in motifs:
            if min(numbers[item] for item in motif) >= k:
                joined = [group for group in groups if group & set(motif)]
                groups = [group for group in groups if not group & set(motif)]
                groups.append(set().union(*joined))
        found[k] = {frozenset(group) for group in groups}
    return found


Lister = Callable[[Collection[Edge]], list[tuple[Hashable, ...]]]
