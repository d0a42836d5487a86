"""Count 4-cycles of unipartite graphs on the CPU, by the loops for butterflies.

All vertices have one total order: descending degree, ties by id. A wedge (a, m, w) with ends a, w and middle m is
counted if a precedes both m and w. Two vertices opposite each other in a 4-cycle are ends of two wedges; only those of
the first vertex of a cycle and of the vertex opposite it are both counted. So a pair of ends with c counted wedges has
C(c, 2) cycles, each cycle belongs to one pair, and its item is the later end w. The work is O(sum over edges of
min(d(u), d(v))) (Chiba and Nishizeki, SIAM J. Comput. 14, 1985).

The loops read only rows. Here all rows are of the second layer, so middles and ends of a start are rows of its own.
Each direction of an edge has an id: a start and a hub write only the ids in their own rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import require_request
from papilio.kernels.exact import check_vertices
from papilio.kernels.jit import EdgeIds, Ids, Ints, compiled
from papilio.kernels.offsets import list_incident, list_neighbours, offsets_of
from papilio.kernels.rows.index import WedgeIndex, order_falling
from papilio.kernels.wedge.cpu import ButterflyCpu, PreparedButterflyCpu
from papilio.motifs import FourCycle, Granularity, Motif
from papilio.parts import Part, WedgePart


class LayerIndex(WedgeIndex):
    """A unipartite graph by rank, with its wedge counts: an index without a first layer."""

    @property
    def sides(self) -> tuple[tuple[range, range], ...]:
        rows = range(self.n_rows)
        return ((rows, rows),)

    @property
    def n_supports(self) -> int:
        return 2 * self.n_edges

    def edge_vector(self, supports: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return supports[: self.n_edges] + supports[self.n_edges :]

    def vertex_vectors(self, counts: NDArray[np.uint64]) -> dict[str, NDArray[np.uint64]]:
        return {"n": super().vertex_vectors(counts)["v"]}


@compiled
def _fill_ranks(
    order: NDArray[np.int32],
    starts: Ints,
    neighbours: NDArray[np.int32],
    edges: EdgeIds,
    cursor: Ints,
    ids: Ids,
    edge_ids: EdgeIds,
) -> None:
    """Write the ranks of the neighbours of each vertex, ascending, and their edges, if any.

    ``cursor`` has the start of the row of each vertex by rank.
    """
    for rank in range(order.size):
        vertex = order[rank]
        for at in range(starts[vertex], starts[vertex + 1]):
            to = cursor[neighbours[at]]
            ids[to] = rank
            if edge_ids.size:
                edge_ids[to] = edges[at]
            cursor[neighbours[at]] = to + 1


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


def index_layer(graph: UnipartiteGraph, *, with_edge_ids: bool = False) -> LayerIndex:
    """Rank the vertices, build the rows and count the wedges of every start; O(n + n_edges).

    Edge e has the ids e, in the row of one of its ends, and ``n_edges + e`` in the other.
    """
    degree = graph.degree
    order = order_falling(degree).astype(np.int32)
    starts, neighbours = list_neighbours(degree, graph.u, graph.v)
    offsets, ids = offsets_of(degree[order]), np.empty(2 * graph.n_edges, np.uint32)
    cursor = np.empty(graph.n, np.int64)
    cursor[order] = offsets[:-1]
    edge_type = np.uint32 if ids.size < 2**32 else np.int64
    edges = edge_ids = np.empty(0, edge_type)
    if with_edge_ids:
        edges = list_incident(starts, graph.u, graph.v, *np.arange(ids.size, dtype=edge_type).reshape(2, -1))
        edge_ids = np.empty_like(edges)
    _fill_ranks(order, starts, neighbours, edges, cursor, ids, edge_ids)
    del neighbours, edges
    prefix, split, costs = np.empty_like(ids), np.empty(graph.n, np.int64), np.empty(graph.n, np.int64)
    _count_wedges(offsets, ids, prefix, split, np.zeros(graph.n, np.int64), costs)
    rows = np.flatnonzero((costs > 0) & (np.diff(offsets) >= 2))
    items = rows[order_falling(costs[rows])]
    no_order = np.empty(0, np.int32)
    return LayerIndex(0, graph.n, offsets, ids, prefix, edge_ids, split, no_order, order, items, costs[items])


class FourCycleCpu(ButterflyCpu):
    """The CPU engine of :class:`~papilio.motifs.FourCycle`."""

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedButterflyCpu:
        """Rank, index and cost the graph, O(n + n_edges), or join the blocks of a part, in all threads."""
        require_request("four-cycle", FourCycle, graph, motif, per, WedgePart, UnipartiteGraph)
        if isinstance(graph, WedgePart):
            return self._prepare_part(graph, motif, per, "n")
        assert isinstance(graph, UnipartiteGraph)
        index = index_layer(graph, with_edge_ids=per == "edge")
        if per == "vertex":
            check_vertices(graph, index.max_degree)
        return PreparedButterflyCpu(index, motif, per)
