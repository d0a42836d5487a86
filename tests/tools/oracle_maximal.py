"""Maximal bicliques by definition: all sets that neighbourhoods share; shares no code with the engines."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["maximal_bicliques_of"]


def maximal_bicliques_of(edges: Iterable[tuple[int, int]]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return every maximal biclique with a vertex of both layers, as rising ids of U and of V.

    A set of V is the side of one if it is what the neighbourhoods of some vertices of U share.
    """
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
    shared: set[frozenset[int]] = set()
    for around in neighbours.values():
        shared |= {frozenset(around)} | {each & around for each in shared}
    return {
        (tuple(sorted(u for u, around in neighbours.items() if side <= around)), tuple(sorted(side)))
        for side in shared
        if side
    }
