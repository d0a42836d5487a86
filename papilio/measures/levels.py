"""Cohesion of a graph, level by level: edges, degrees and components.

Each vertex has a level. The graph of a level holds the vertices of that level or a higher one, and the edges between
them. Levels are added from the highest down, each by one pass over the edges, in any pieces: memory O(n_u + n_v).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ints, compiled
from papilio.kernels.peel.forest import find_root

Ends = NDArray[np.int32]
Levels = NDArray[np.uint8]


@dataclass(frozen=True)
class CohesionLevel:
    """The graph of a level."""

    level: int
    n_u: int
    n_v: int
    n_edges: int
    components: int  # number of connected components; an isolated vertex is one
    largest: int  # vertices of the largest component
    least_degree: int  # of its vertices, within it

    @property
    def least(self) -> int:
        """Least number of butterflies of its vertices, for levels by powers of two."""
        return 1 << (self.level - 1) if self.level else 0

    @property
    def cut_at_most(self) -> int:
        """Upper bound on the edges to remove to disconnect it: 0 if it is in pieces, else the least degree."""
        return 0 if self.components > 1 else self.least_degree

    def to_dict(self) -> dict[str, int]:
        """Return ``least``, the sizes, and ``cut_at_most``."""
        sizes = asdict(self)
        del sizes["level"]
        return {"least": self.least, **sizes, "cut_at_most": self.cut_at_most}


@compiled
def _join_edges(
    u: Ends, v: Ends, n_u: np.int64, levels: Levels, level: np.uint8, above: Ints, sizes: Ints, degrees: Ints
) -> tuple[np.int64, np.int64, np.int64]:
    """Add the edges of exactly this level; return their number, the components that they save, the largest made."""
    n_edges, n_unions, largest = np.int64(0), np.int64(0), np.int64(0)
    for edge in range(u.size):
        a, b = np.int64(u[edge]), n_u + np.int64(v[edge])
        if min(levels[a], levels[b]) != level:
            continue
        n_edges += 1
        degrees[a] += 1
        degrees[b] += 1
        root, other = find_root(above, a), find_root(above, b)
        if root != other:
            if sizes[root] < sizes[other]:
                root, other = other, root
            above[other] = root
            sizes[root] += sizes[other]
            n_unions += 1
            largest = max(largest, sizes[root])
    return n_edges, n_unions, largest


def join_levels(
    levels_u: Levels, levels_v: Levels, passes: Iterable[Iterable[tuple[Ends, Ends]]]
) -> Iterator[CohesionLevel]:
    """Yield the graphs of all occupied levels, from the highest down.

    ``passes`` yields all edges of the graph again for each level: pieces of their ends, each of int32.
    """
    n_u = int(levels_u.size)
    levels = np.concatenate((levels_u, levels_v))
    above = np.arange(levels.size, dtype=np.int64)
    sizes, degrees = np.ones(levels.size, np.int64), np.zeros(levels.size, np.int64)
    n_edges, components, largest = 0, 0, 1
    for level, edges in zip(np.unique(levels)[::-1], passes, strict=False):
        components += int(np.count_nonzero(levels == level))
        for u, v in edges:
            added, unions, grown = _join_edges(u, v, np.int64(n_u), levels, level, above, sizes, degrees)
            n_edges += int(added)
            components -= int(unions)
            largest = max(largest, int(grown))
        inside = levels >= level
        in_u, in_v = (int(np.count_nonzero(each)) for each in (inside[:n_u], inside[n_u:]))
        yield CohesionLevel(int(level), in_u, in_v, n_edges, components, largest, int(degrees[inside].min()))
