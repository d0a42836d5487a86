"""Count 4-cycles of unipartite graphs on the CPU, by the loops for butterflies.

All vertices have one total order: descending degree, ties by id. A wedge (a, m, w) with ends a, w and middle m is
counted if a precedes both m and w. Two vertices opposite each other in a 4-cycle are ends of two wedges; only those of
the first vertex of a cycle and of the vertex opposite it are both counted. So a pair of ends with c counted wedges has
C(c, 2) cycles, each cycle belongs to one pair, and its item is the later end w. The work is O(sum over edges of
min(d(u), d(v))) (Chiba and Nishizeki, SIAM J. Comput. 14, 1985).

The loops read only rows. Here all rows are of the second layer, so middles and ends of a start are rows of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import require_request
from papilio.kernels.exact import check_four_cycles
from papilio.kernels.jit import Ids, Ints, compiled
from papilio.kernels.offsets import list_neighbours, offsets_of
from papilio.kernels.rows.index import WedgeIndex, order_falling
from papilio.kernels.wedge.cpu import ButterflyCpu, PreparedButterflyCpu
from papilio.motifs import FourCycle, Granularity, Motif
from papilio.parts import Part


class LayerIndex(WedgeIndex):
    """A unipartite graph by rank, with its wedge counts: an index without a first layer."""

    def vertex_vectors(self, counts: NDArray[np.uint64]) -> dict[str, NDArray[np.uint64]]:
        return {"n": super().vertex_vectors(counts)["v"]}


@compiled
def _fill_ranks(order: NDArray[np.int32], starts: Ints, neighbours: NDArray[np.int32], cursor: Ints, ids: Ids) -> None:
    """Write the ranks of the neighbours of each vertex, ascending; ``cursor`` has the start of its row by rank."""
    for rank in range(order.size):
        vertex = order[rank]
        for at in range(starts[vertex], starts[vertex + 1]):
            other = neighbours[at]
            ids[cursor[other]] = rank
            cursor[other] += 1


@compiled
def _count_wedges(offsets: Ints, ids: Ids, prefix: Ids, split: Ints, seen: Ints, costs: Ints) -> None:
    """Write the counted wedges of each entry, their sum over each row, and the neighbours ahead of each row.

    The ends of a start w and a middle m are the neighbours of m before both. ``seen``, zeros at first, has the
    neighbours of each row before the current start; rows are walked in order.
    """
    for row in range(costs.size):
        split[row] = seen[row]
        total = np.int64(0)
        for at in range(offsets[row], offsets[row + 1]):
            middle = np.int64(ids[at])
            length = seen[middle] if row < middle else split[middle]
            seen[middle] += 1
            prefix[at] = length
            total += length
        costs[row] = total


def index_layer(graph: UnipartiteGraph) -> LayerIndex:
    """Rank the vertices, build the rows and count the wedges of every start; O(n + n_edges)."""
    degree = graph.degree
    order = order_falling(degree).astype(np.int32)
    starts, neighbours = list_neighbours(degree, graph.u, graph.v)
    offsets, ids = offsets_of(degree[order]), np.empty(2 * graph.n_edges, np.uint32)
    cursor = np.empty(graph.n, np.int64)
    cursor[order] = offsets[:-1]
    _fill_ranks(order, starts, neighbours, cursor, ids)
    prefix, split, costs = np.empty_like(ids), np.empty(graph.n, np.int64), np.empty(graph.n, np.int64)
    _count_wedges(offsets, ids, prefix, split, np.zeros(graph.n, np.int64), costs)
    rows = np.flatnonzero((costs > 0) & (np.diff(offsets) >= 2))
    items = rows[order_falling(costs[rows])]
    no_edges, no_order = np.empty(0, np.uint32), np.empty(0, np.int32)
    return LayerIndex(0, graph.n, offsets, ids, prefix, no_edges, split, no_order, order, items, costs[items])


class FourCycleCpu(ButterflyCpu):
    """The CPU engine of :class:`~papilio.motifs.FourCycle`."""

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedButterflyCpu:
        """Rank, index and cost the graph, O(n + n_edges)."""
        require_request("four-cycle", FourCycle, graph, motif, per, graph_type=UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph)
        index = index_layer(graph)
        if per == "vertex":
            check_four_cycles(graph, index.max_degree)
        return PreparedButterflyCpu(index, motif, per)
