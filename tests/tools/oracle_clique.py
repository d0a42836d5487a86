"""Cliques by definition: sets of neighbours, grown vertex by vertex; shares no code with the engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

__all__ = ["cliques_of", "count_cliques", "maximal_cliques"]


def cliques_of(n: int, edges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yield every clique of a graph of n vertices, from single vertices on, as rising ids."""
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)

    def grow(clique: tuple[int, ...], candidates: set[int]) -> Iterator[tuple[int, ...]]:
        yield clique
        for vertex in sorted(candidates):
            yield from grow((*clique, vertex), {other for other in candidates & neighbours[vertex] if other > vertex})

    for vertex in range(n):
        yield from grow((vertex,), {other for other in neighbours[vertex] if other > vertex})


def count_cliques(n: int, edges: Iterable[tuple[int, int]]) -> dict[tuple[int, ...], int]:
    """Return the number of cliques of every size that there is, by (k,)."""
    return dict(Counter((len(clique),) for clique in cliques_of(n, edges)))


def maximal_cliques(n: int, edges: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return the maximal cliques: those that no clique of one vertex more holds."""
    found = [frozenset(clique) for clique in cliques_of(n, edges)]
    larger = {clique - {vertex} for clique in found for vertex in clique}
    return [tuple(sorted(clique)) for clique in found if clique not in larger]
