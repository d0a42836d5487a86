"""Answers about signed graphs by definition, for small ones; shares no code with the package's engines.

A biclique is balanced when the product of the signs around each of its cycles of four edges is positive. Here every one
is visited, and each of its cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from math import prod

Edge = tuple[int, int]
Signs = dict[Edge, int]
"""The sign, +1 or -1, of every edge (u, v)."""

Cell = tuple[int, int]


def butterflies(signs: Signs) -> list[tuple[int, int, int, int]]:
    """List every butterfly as (u1, u2, v1, v2)."""
    return [(*pair, *others) for pair, others in _bicliques(signs, 2)]


def is_balanced(signs: Signs, u1: int, u2: int, v1: int, v2: int) -> bool:
    """Multiply the signs of the four edges."""
    return prod(signs[u, v] for u in (u1, u2) for v in (v1, v2)) > 0


def count_balanced(signs: Signs, k: int, pair_side: str) -> int:
    """Count the balanced bicliques of a pair in ``pair_side`` and k vertices of the other layer."""
    if pair_side == "v":
        signs = {(v, u): sign for (u, v), sign in signs.items()}
    return sum(
        all(is_balanced(signs, *pair, *two) for two in combinations(others, 2)) for pair, others in _bicliques(signs, k)
    )


def balanced_vertices(signs: Signs) -> Counter[tuple[str, int]]:
    """Count the balanced butterflies of each vertex ("u" or "v", id)."""
    counts: Counter[tuple[str, int]] = Counter()
    for u1, u2, v1, v2 in butterflies(signs):
        if is_balanced(signs, u1, u2, v1, v2):
            counts.update([("u", u1), ("u", u2), ("v", v1), ("v", v2)])
    return counts


def balanced_bicliques(signs: Signs) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """List every balanced biclique as its vertices of U and of V: each cycle of four edges is looked at."""
    neighbours: dict[int, set[int]] = {}
    for u, v in signs:
        neighbours.setdefault(u, set()).add(v)
    for p in range(1, len(neighbours) + 1):
        for chosen in combinations(sorted(neighbours), p):
            shared = sorted(set.intersection(*(neighbours[u] for u in chosen)))
            stack: list[tuple[int, ...]] = [()]
            while stack:
                taken = stack.pop()
                for v in shared:
                    if (not taken or v > taken[-1]) and all(
                        is_balanced(signs, *pair, old, v) for pair in combinations(chosen, 2) for old in taken
                    ):
                        stack.append((*taken, v))
                        yield chosen, (*taken, v)


def census(signs: Signs, pair_side: str) -> dict[str, int]:
    """Count the butterflies of each class, by the signs of the pair of ``pair_side`` at both other vertices."""
    counts: Counter[str] = Counter()
    for u1, u2, v1, v2 in butterflies(signs):
        if pair_side == "u":
            corners = ((signs[u1, v1], signs[u2, v1]), (signs[u1, v2], signs[u2, v2]))
        else:
            corners = ((signs[u1, v1], signs[u1, v2]), (signs[u2, v1], signs[u2, v2]))
        names = sorted((_name_corner(*corner) for corner in corners), key=["++", "--", "+-"].index)
        counts["/".join(names)] += 1
    return dict(counts)


def _name_corner(one: int, two: int) -> str:
    if one != two:
        return "+-"
    return "++" if one > 0 else "--"


def _bicliques(signs: Signs, k: int) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """List the pairs of U with every k vertices of V that both are adjacent to."""
    neighbours: dict[int, set[int]] = {}
    for u, v in signs:
        neighbours.setdefault(u, set()).add(v)
    return [
        (pair, others)
        for pair in combinations(sorted(neighbours), 2)
        for others in combinations(sorted(neighbours[pair[0]] & neighbours[pair[1]]), k)
    ]
