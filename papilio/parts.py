"""Self-contained parts of a graph that does not fit in memory: the data that one worker needs for some of the work
items.

Families of motifs cut a graph in three ways.

Wedges (butterflies). A part has *starts* of one layer and *ends* of the same layer, and counts the wedges (end, middle,
start) whose end precedes both middle and start in the total order of :mod:`papilio.kernels.rows.index`: decreasing
degree, ties by layer (U before V), then id. The *rank* of a vertex is its position in this order within its layer.
Every pair (start, end) of a layer belongs to exactly one part. For 4-cycles of a unipartite graph, all vertices are one
layer, called u, that also contains the middles.

Roots ((p,q)-bicliques). A part has *roots* of the anchored layer, with the subgraph of all bicliques that contain a
root of this part and no root of an earlier part. Every biclique belongs to the first part with one of its vertices as a
root. For maximal bicliques, a part also has the roots of earlier parts, as *excluded* vertices: a biclique that they
extend is not maximal.

First vertices (cliques, maximal cliques). A part has *roots*, and the graph induced by them and their neighbours, in an
order of all vertices shared by all parts. Every clique belongs to the part whose root is its first vertex.

The work items of a part are its starts by decreasing work, ties by rank, or its roots in the order of the part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph, array_bytes

Layer = Literal["u", "v"]


class _Arrays:
    """A block or part, and its size in bytes."""

    @property
    def nbytes(self) -> int:
        graph = getattr(self, "graph", None)
        return array_bytes(self) + (0 if graph is None else int(graph.u.nbytes) + int(graph.v.nbytes))


PartitionKind = Literal["wedges", "cycles", "roots", "maximal-bicliques", "cliques", "maximal-cliques"]
"""Purpose of the parts: butterflies or 4-cycles by wedges, bicliques by roots, or cliques by their first vertices."""


@dataclass(frozen=True, eq=False)
class StartBlock(_Arrays):
    """Starts of wedges with all their middles. Arrays are C-contiguous; on the host, or, once staged, on a device."""

    layer: Layer
    rank: NDArray[np.int32]  # of the starts, ascending, shape (n,)
    ids: NDArray[np.int32]  # their ids in the whole graph
    work: NDArray[np.int64]  # wedges that start at each in the whole graph, at least 1
    indptr: NDArray[np.int64]  # shape (n + 1,); row i of the next two is [indptr[i], indptr[i + 1])
    # Ranks in the other layer, ascending in each row; one without an end before the start may lack.
    middles: NDArray[np.int32]
    # Edge ids in the whole graph; shape (0,) where counts per edge are not asked for.
    edges: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EndBlock(_Arrays):
    """Ends of wedges by their middles. Arrays are C-contiguous; on the host, or, once staged, on a device."""

    layer: Layer
    rank: NDArray[np.int32]  # of the ends, ascending, shape (n_ends,)
    ids: NDArray[np.int32]  # their ids in the whole graph
    # In the other layer, of the middles that have ends here, ascending, shape (n_middles,).
    middle_rank: NDArray[np.int32]
    middle_ids: NDArray[np.int32]
    # Shape (n_middles + 1,); row i of the next two is [indptr[i], indptr[i + 1]), none is empty.
    indptr: NDArray[np.int64]
    # Places in ``rank`` of the ends next to the middle that precede it, ascending in each row.
    ends: NDArray[np.int32]
    # Edge ids in the whole graph; shape (0,) where counts per edge are not asked for.
    edges: NDArray[np.int64]


@dataclass(frozen=True)
class PartSizes:
    """The size of a part."""

    roots: int  # starts or roots: the work items
    root_entries: int  # edges at them, as the part holds them
    vertices: int  # all other vertices that the part holds
    entries: int  # all other edges, as the part holds them

    @property
    def edges(self) -> int:
        """Number of edges of the part; an edge of both a start and an end counts twice."""
        return self.root_entries + self.entries


@dataclass(frozen=True)
class PartBytes:
    """Memory that a part needs, as a sum over its sizes; all in bytes."""

    # For any part; the others are for each start or root, edge of these, other vertex and other edge.
    fixed: int
    root: float
    root_entry: float
    vertex: float
    entry: float

    def of(self, sizes: PartSizes) -> int:
        return self.fixed + round(
            self.root * sizes.roots
            + self.root_entry * sizes.root_entries
            + self.vertex * sizes.vertices
            + self.entry * sizes.entries
        )

    def __add__(self, other: PartBytes) -> PartBytes:
        return PartBytes(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(PartBytes)))


@dataclass(frozen=True, eq=False)
class WedgePart(_Arrays):
    """Starts and ends of one layer: a part of the wedge engine. Made of two blocks, which other parts may share.

    Work items are the starts by decreasing ``starts.work``, ties by rank.
    """

    starts: StartBlock
    ends: EndBlock

    @property
    def layer(self) -> Layer:
        return self.starts.layer

    @property
    def sizes(self) -> PartSizes:
        starts, ends = self.starts, self.ends
        return PartSizes(
            int(starts.rank.size),
            int(starts.middles.size),
            int(ends.rank.size) + int(ends.middle_rank.size),
            int(ends.ends.size),
        )


@dataclass(frozen=True, eq=False)
class RootPart(_Arrays):
    """Roots of the anchored layer with the subgraph of their bicliques: a part of the biclique engine.

    Once it is staged, ``graph.u`` and ``graph.v`` are on a device; everything else stays on the host.
    """

    layer: Layer  # the anchored layer
    graph: BipartiteGraph  # the subgraph under ids of its own
    ids_u: NDArray[np.int32]  # ids of its vertices in the whole graph, shape (graph.n_u,)
    ids_v: NDArray[np.int32]
    roots: NDArray[np.int32]  # ids in ``graph`` of the roots, in the order of the work items
    work: NDArray[np.int64]  # estimated work of each, falling, at least 1

    @property
    def sizes(self) -> PartSizes:
        """The size of the part; on the host only. O(edges)."""
        graph, n_roots = self.graph, int(self.roots.size)
        n_left, left = (graph.n_v, graph.v) if self.layer == "v" else (graph.n_u, graph.u)
        is_root = np.zeros(n_left, np.bool_)
        is_root[self.roots] = True
        root_entries = int(np.count_nonzero(is_root[left]))
        return PartSizes(n_roots, root_entries, graph.n_u + graph.n_v - n_roots, graph.n_edges - root_entries)


@dataclass(frozen=True, eq=False)
class MaximalPart(RootPart):
    """Roots with all neighbours of their neighbours: a part of the engine of maximal bicliques."""

    excluded: NDArray[np.int32]  # ids in ``graph`` of the roots of earlier parts, ascending


@dataclass(frozen=True, eq=False)
class CliquePart(_Arrays):
    """Roots of a unipartite graph with their neighbourhoods: a part of the engines of cliques.

    The ids in ``graph`` are in the order of all vertices: a clique belongs to the root with its smallest id; the graph
    contains the required later neighbours, for maximal cliques also the earlier ones. Once it is staged, ``graph.u``
    and ``graph.v`` are on a device; everything else stays on the host.
    """

    graph: UnipartiteGraph
    ids_n: NDArray[np.int32]  # ids of its vertices in the whole graph, shape (graph.n,)
    edges: NDArray[np.int64]  # edge ids in the whole graph; shape (0,) where counts per edge are not asked for
    roots: NDArray[np.int32]  # ids in ``graph`` of the roots, in the order of the work items
    work: NDArray[np.int64]  # predicted work of each, falling, at least 1

    @property
    def layer(self) -> Layer:
        return "u"

    @property
    def sizes(self) -> PartSizes:
        """The size of the part; on the host only. O(edges)."""
        graph, n_roots = self.graph, int(self.roots.size)
        root_entries = int(np.diff(graph.indptr)[self.roots].sum())
        return PartSizes(n_roots, root_entries, graph.n - n_roots, graph.n_edges - root_entries)


Part = WedgePart | RootPart | MaximalPart | CliquePart
Block = StartBlock | EndBlock | RootPart | MaximalPart | CliquePart


def join_blocks(blocks: Sequence[Any]) -> Part:
    """Return the part made of one block, or of a block of starts and a block of ends."""
    part: Part = WedgePart(*blocks) if len(blocks) == 2 else blocks[0]
    return part
