"""The two layers of a bipartite graph that is given as one set of vertices."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from papilio.errors import GraphError

ONE_SET = "kind='unipartite' (--unipartite) reads it as one set of vertices"


CLEAR_ADJACENCY = 5
"""Vertices from which a symmetric matrix with an empty diagonal is no biadjacency matrix by chance."""


def are_two_colours(u: Sequence[Hashable], v: Sequence[Hashable]) -> bool:
    """Return whether edges of one set of vertices make one bipartite component."""
    try:
        two_colours("", u, v)
    except GraphError:
        return False
    return True


def two_colours(name: str, u: Sequence[Hashable], v: Sequence[Hashable]) -> list[bool]:
    """Return for each edge (u, v), both of one set, whether v is in layer U.

    The end that comes first is in U. ``name`` is the source in messages. Raises GraphError if the graph is not
    bipartite, or has several components with edges, whose layers could be paired in several ways.
    """
    neighbours: dict[Any, list[Any]] = {}
    for a, b in zip(u, v, strict=True):
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    side: dict[Any, bool] = {}
    for start in neighbours:
        if start in side:
            continue
        if side:
            raise GraphError(
                f"{name}: the graph has several components, so its two layers are not clear; give edges from layer U "
                f"to layer V, or the biadjacency matrix; {ONE_SET}"
            )
        side[start] = False
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for other in neighbours[here]:
                if other not in side:
                    side[other] = not side[here]
                    queue.append(other)
                elif side[other] == side[here]:
                    raise GraphError(
                        f"{name}: the graph is not bipartite ({here!r} and {other!r} are joined, and in one layer); "
                        f"{ONE_SET}"
                    )
    return [side[a] for a in u]
