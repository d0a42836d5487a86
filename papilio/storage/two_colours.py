"""The two layers of a bipartite graph that is given as one set of vertices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import GraphError

ONE_SET = "kind='unipartite' (--unipartite) reads it as one set of vertices"


def colour(n: int, ends: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64], tuple[int, int] | None]:
    """Return a colouring of a graph with n vertices and edges ``ends``, shape (k, 2), and its components.

    The first vertex of each component has the colour False. Returns the colours and the components of the vertices,
    shapes (n,), and an edge within a colour if the graph is not bipartite.
    """
    both = np.concatenate((ends, ends[:, ::-1]))
    order = np.argsort(both[:, 0], kind="stable")
    neighbours = both[order, 1].tolist()
    offsets = np.searchsorted(both[order, 0], np.arange(n + 1)).tolist()
    colours, component, n_components = [-1] * n, [0] * n, 0
    odd: tuple[int, int] | None = None
    for start in range(n):
        if colours[start] >= 0:
            continue
        colours[start], component[start], waiting = 0, n_components, [start]
        while waiting:
            at = waiting.pop()
            for other in neighbours[offsets[at] : offsets[at + 1]]:
                if colours[other] < 0:
                    colours[other], component[other] = 1 - colours[at], n_components
                    waiting.append(other)
                elif colours[other] == colours[at] and odd is None:
                    odd = (at, other)
        n_components += 1
    return np.array(colours, dtype=bool), np.array(component, dtype=np.int64), odd


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
    place: dict[Any, int] = {}
    ends = [[place.setdefault(end, len(place)) for end in edge] for edge in zip(u, v, strict=True)]
    colours, component, odd = colour(len(place), np.array(ends, np.int64).reshape(-1, 2))
    if odd is not None:
        here, other = ([*place][at] for at in odd)
        raise GraphError(
            f"{name}: the graph is not bipartite: the edge ({here!r}, {other!r}) closes a cycle of an odd number of "
            f"edges; {ONE_SET}"
        )
    if component.any():
        raise GraphError(
            f"{name}: the graph has {int(component.max()) + 1:,} components, so its two layers are not clear; give "
            f"edges from layer U to layer V, or the biadjacency matrix; {ONE_SET}"
        )
    return [bool(colours[a]) for a, _ in ends]
