"""Communities by definition: all cliques, or bicliques, joined pair by pair; shares no code with the package."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations

from tests.tools.oracle_clique import cliques_of

Biclique = tuple[frozenset[int], frozenset[int]]


def groups_of(items: Sequence[Hashable], adjacent: Callable[..., bool]) -> list[list[Hashable]]:
    """Return the items that chains of adjacent ones connect."""
    groups: list[list[Hashable]] = []
    for item in items:
        touched = [group for group in groups if any(adjacent(item, other) for other in group)]
        groups = [group for group in groups if not any(group is each for each in touched)]
        groups.append([item, *(other for group in touched for other in group)])
    return groups


def clique_communities(n: int, edges: Iterable[tuple[int, int]], k: int) -> list[tuple[int, ...]]:
    """Return the vertices of each community of k-cliques that share k - 1 vertices, in any order."""
    cliques = [frozenset(clique) for clique in cliques_of(n, edges) if len(clique) == k]
    groups = groups_of(cliques, lambda one, other: len(one & other) >= k - 1)
    return sorted(tuple(sorted(frozenset().union(*group))) for group in groups)  # type: ignore[arg-type]


def biclique_communities(
    edges: Iterable[tuple[int, int]], p: int, q: int, shared: str
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the vertices of U and of V of each community of (p, q)-bicliques.

    They share p - 1 vertices of U and q - 1 of V, or more, with ``smaller``; with ``same`` p - 1 and q, or p and q - 1.
    """
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
    bicliques: list[Biclique] = [
        (frozenset(us), frozenset(vs))
        for us in combinations(sorted(neighbours), p)
        for vs in combinations(sorted(set.intersection(*(neighbours[u] for u in us))), q)
    ]

    def adjacent(one: Biclique, other: Biclique) -> bool:
        a, b = len(one[0] & other[0]), len(one[1] & other[1])
        if shared == "smaller":
            return a >= p - 1 and b >= q - 1
        return (a >= p - 1 and b >= q) or (a >= p and b >= q - 1)

    groups: list[list[Biclique]] = groups_of(bicliques, adjacent)  # type: ignore[assignment]
    layers = [[frozenset().union(*layer) for layer in zip(*group, strict=True)] for group in groups]
    return sorted((tuple(sorted(us)), tuple(sorted(vs))) for us, vs in layers)
