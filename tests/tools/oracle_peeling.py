"""Wing, tip and core numbers by definition, and their components: slow, and no code shared with the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from itertools import combinations

from papilio.graph import BipartiteGraph, UnipartiteGraph
from tests.tools.strategies import edge_list

Edge = tuple[int, int]
Butterfly = tuple[Edge, Edge, Edge, Edge]

__all__ = [
    "components_of",
    "core_numbers",
    "core_of",
    "tip_butterflies",
    "tip_numbers",
    "wing_butterflies",
    "wing_numbers",
]


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


def core_of(edges: Collection[tuple[Hashable, Hashable]], least: Callable[[Hashable], int]) -> set[Hashable]:
    """Return the ends of the edges left once no vertex has fewer than its least number of edges, at least 1."""
    left = set(edges)
    while True:
        ends = [end for edge in left for end in edge]
        weak = {end for end in set(ends) if ends.count(end) < least(end)}
        if not weak:
            return set(ends)
        left = {edge for edge in left if not weak & set(edge)}


def core_numbers(graph: BipartiteGraph | UnipartiteGraph, layer: str | None = None, fixed: int = 1) -> list[int]:
    """Return the core number of every vertex, V after U; vertices of ``layer`` need ``fixed`` edges."""
    edges = core_edges(graph)
    first_v = graph.n_u if isinstance(graph, BipartiteGraph) else 0
    numbers = [0] * (first_v + graph.n_v)

    def least(x: Hashable) -> int:
        return fixed if layer is not None and (x < first_v) == (layer == "u") else k  # type: ignore[operator]

    k = 1
    while inside := core_of(edges, least):
        for x in inside:
            numbers[x] = k  # type: ignore[call-overload]
        k += 1
    return numbers


def core_edges(graph: BipartiteGraph | UnipartiteGraph) -> list[tuple[int, int]]:
    """Return the edges, with the vertices of V after those of U."""
    first_v = graph.n_u if isinstance(graph, BipartiteGraph) else 0
    return [(u, first_v + v) for u, v in zip(graph.u.tolist(), graph.v.tolist(), strict=True)]


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
