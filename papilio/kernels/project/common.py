"""The common neighbours of pairs of one layer themselves, by merging the sorted neighbours of both; compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError
from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.project.loops import Ids32
from papilio.motifs import PairSide

MOST_LISTED = 1 << 22
"""Common neighbours that are listed at a time, unless one pair has more: 16 MiB."""


class CommonNeighbours:
    """The neighbours of a layer of a graph, O(n_edges) in memory; finds the shared ones of pairs of this layer."""

    def __init__(self, graph: BipartiteGraph, layer: PairSide) -> None:
        rows = graph if layer == "u" else graph.swap_layers()
        self._offsets, self._neighbours = rows.indptr, rows.v

    def find(
        self, source: Ids32, target: Ids32, common: Ids32
    ) -> Iterator[tuple[slice, tuple[NDArray[np.int64], Ids32]]]:
        """Yield the common neighbours of some pairs at a time: their rows, offsets and ids, which rise in each pair.

        The arrays, all of shape (n,), are ids of both vertices and numbers of common neighbours; ExecutionError if
        one of them is not the number in the graph.
        """
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(common, dtype=np.int64)))
        source, target = np.array(source, np.int32), np.array(target, np.int32)  # one layout, for one compilation
        start = 0
        while start < source.size:
            stop = int(np.searchsorted(ends, ends[start] + MOST_LISTED, side="right")) - 1
            part = slice(start, max(stop, start + 1))
            offsets = ends[start : part.stop + 1] - ends[start]
            found = np.empty(int(offsets[-1]), np.int32)
            wrong = fill_common(self._offsets, self._neighbours, source[part], target[part], offsets, found)
            if wrong >= 0:
                at = start + wrong
                raise ExecutionError(
                    f"the vertices {source[at]} and {target[at]} do not have {common[at]} common neighbours: the graph "
                    "may have changed; read it again"
                )
            yield part, (offsets, found)
            start = part.stop


@compiled
def fill_common(
    offsets: Ints, neighbours: Ids32, source: Ids32, target: Ids32, ends: Ints, found: Ids32
) -> int:  # fmt: skip
    """Write the common neighbours of pair i to ``found[ends[i] : ends[i + 1]]``.

    Return the first pair that has more or fewer, or -1.
    """
    for pair in range(len(source)):
        one, one_end = offsets[source[pair]], offsets[source[pair] + 1]
        other, other_end = offsets[target[pair]], offsets[target[pair] + 1]
        to, end = ends[pair], ends[pair + 1]
        while one < one_end and other < other_end:
            first, second = neighbours[one], neighbours[other]
            if first == second:
                if to == end:
                    return pair
                found[to] = first
                to += 1
            if first <= second:
                one += 1
            if second <= first:
                other += 1
        if to < end:
            return pair
    return -1
