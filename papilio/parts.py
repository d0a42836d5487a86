"""Self-contained parts of a graph that does not fit a memory: what one worker needs for some of the work items.

Two families of motifs cut a graph in two ways.

Wedges (butterflies). A part has *starts* of one layer and *ends* of the same layer, and counts the wedges (end,
middle, start) whose end precedes both middle and start in the total order of :mod:`papilio.kernels.wedge.graph`:
falling degree, ties by layer (U before V), then id. A vertex is known by its *rank* in its layer, its place in that
order. Every pair (start, end) of a layer belongs to exactly one part.

Roots ((p,q)-bicliques). A part has *roots* of the anchored layer, with the subgraph in which every biclique lies that
holds a root of this part and no vertex of an earlier part's roots. Every biclique belongs to the first part that has
one of its vertices for a root.

The work items of a part are its starts by falling work, ties by rank, or its roots in the order in which it lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph

__all__ = [
    "Block",
    "EndBlock",
    "Layer",
    "Part",
    "PartBytes",
    "PartSizes",
    "RootPart",
    "StartBlock",
    "WedgePart",
]

Layer = Literal["u", "v"]


def _nbytes(block: Any) -> int:
    values = (getattr(block, item.name) for item in fields(block))
    return sum(int(value.nbytes) for value in values if hasattr(value, "nbytes"))


@dataclass(frozen=True, eq=False)
class StartBlock:
    """Starts of wedges with all their middles. Arrays are C-contiguous; on the host, or, once staged, on a device.

    Attributes
    ----------
    layer : {"u", "v"}
        Layer of the starts.
    rank : ndarray of int32, shape (n,)
        Ranks of the starts, ascending.
    ids : ndarray of int32, shape (n,)
        Their ids in the whole graph.
    work : ndarray of int64, shape (n,)
        Wedges that start at each in the whole graph, at least 1.
    indptr : ndarray of int64, shape (n + 1,)
        Row i of the next two is ``[indptr[i], indptr[i + 1])``.
    middles : ndarray of int32, shape (n_entries,)
        Ranks in the other layer of the middles, ascending in each row. Middles without an end before the start may
        be left out.
    edges : ndarray of int64, shape (n_entries,) or (0,)
        Edge id of each entry in the whole graph; empty where counts per edge are not asked for.
    """

    layer: Layer
    rank: NDArray[np.int32]
    ids: NDArray[np.int32]
    work: NDArray[np.int64]
    indptr: NDArray[np.int64]
    middles: NDArray[np.int32]
    edges: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return _nbytes(self)


@dataclass(frozen=True, eq=False)
class EndBlock:
    """Ends of wedges by their middles. Arrays are C-contiguous; on the host, or, once staged, on a device.

    Attributes
    ----------
    layer : {"u", "v"}
        Layer of the ends.
    rank, ids : ndarray of int32, shape (n_ends,)
        Ranks of the ends, ascending, and their ids in the whole graph.
    middle_rank, middle_ids : ndarray of int32, shape (n_middles,)
        Ranks in the other layer of the middles that have ends here, ascending, and their ids in the whole graph.
    indptr : ndarray of int64, shape (n_middles + 1,)
        Row i of the next two is ``[indptr[i], indptr[i + 1])``; none is empty.
    ends : ndarray of int32, shape (n_entries,)
        Places in ``rank`` of the ends next to the middle that precede it, ascending in each row.
    edges : ndarray of int64, shape (n_entries,) or (0,)
        Edge id of each entry in the whole graph; empty where counts per edge are not asked for.
    """

    layer: Layer
    rank: NDArray[np.int32]
    ids: NDArray[np.int32]
    middle_rank: NDArray[np.int32]
    middle_ids: NDArray[np.int32]
    indptr: NDArray[np.int64]
    ends: NDArray[np.int32]
    edges: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return _nbytes(self)


@dataclass(frozen=True)
class PartSizes:
    """How large a part is.

    Attributes
    ----------
    roots : int
        Starts or roots: the work items.
    root_entries : int
        Edges at them, as the part holds them.
    vertices : int
        All other vertices that the part holds.
    entries : int
        All other edges, as the part holds them.
    """

    roots: int
    root_entries: int
    vertices: int
    entries: int

    @property
    def edges(self) -> int:
        """Edges that the part holds; one that it holds as that of a start and of an end counts twice."""
        return self.root_entries + self.entries


@dataclass(frozen=True)
class PartBytes:
    """Memory that a part needs, as a sum over its sizes; all in bytes.

    Attributes
    ----------
    fixed : int
        For any part.
    root, root_entry, vertex, entry : float
        For each start or root, edge of these, other vertex and other edge.
    """

    fixed: int
    root: float
    root_entry: float
    vertex: float
    entry: float

    def of(self, sizes: PartSizes) -> int:
        """Return the bytes that a part of these sizes needs."""
        return self.fixed + round(
            self.root * sizes.roots
            + self.root_entry * sizes.root_entries
            + self.vertex * sizes.vertices
            + self.entry * sizes.entries
        )

    def __add__(self, other: PartBytes) -> PartBytes:
        return PartBytes(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(PartBytes)))


@dataclass(frozen=True, eq=False)
class WedgePart:
    """Starts and ends of one layer: a part of the wedge engine. Made of two blocks, which other parts may share.

    Work items are the starts by falling ``starts.work``, ties by rank.
    """

    starts: StartBlock
    ends: EndBlock

    @property
    def layer(self) -> Layer:
        """Layer of the starts and ends."""
        return self.starts.layer

    @property
    def sizes(self) -> PartSizes:
        """How large it is."""
        starts, ends = self.starts, self.ends
        return PartSizes(
            int(starts.rank.size),
            int(starts.middles.size),
            int(ends.rank.size) + int(ends.middle_rank.size),
            int(ends.ends.size),
        )

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of both blocks."""
        return self.starts.nbytes + self.ends.nbytes

    def vector_ids(self, per: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield, for each vector of a partial of this part, its name and the id in the whole graph of each entry.

        For ``vertex``: in the layer of the starts these, then the ends, so that a vertex may come twice; in the other
        layer the middles of ``ends``. For ``edge``: the entries of the starts, then those of the ends; an edge may
        come twice. The count of an id is the sum of its entries. On the host.
        """
        starts, ends = self.starts, self.ends
        if per == "vertex":
            yield self.layer, np.concatenate((starts.ids, ends.ids))
            yield ("v" if self.layer == "u" else "u"), ends.middle_ids
        elif per == "edge":
            yield "edge", np.concatenate((starts.edges, ends.edges))


@dataclass(frozen=True, eq=False)
class RootPart:
    """Roots of the anchored layer with the subgraph of their bicliques: a part of the biclique engine.

    Attributes
    ----------
    layer : {"u", "v"}
        The anchored layer.
    graph : BipartiteGraph
        The subgraph under ids of its own; ``graph.u`` and ``graph.v`` are on the host, or, once staged, on a device.
    ids_u, ids_v : ndarray of int32, shape (graph.n_u,) and (graph.n_v,), host
        Ids of its vertices in the whole graph.
    roots : ndarray of int32, shape (n_roots,), host
        Ids in ``graph`` of the roots, in the order of the work items.
    work : ndarray of int64, shape (n_roots,), host
        Estimated work of each, falling, at least 1.
    """

    layer: Layer
    graph: BipartiteGraph
    ids_u: NDArray[np.int32]
    ids_v: NDArray[np.int32]
    roots: NDArray[np.int32]
    work: NDArray[np.int64]

    @property
    def sizes(self) -> PartSizes:
        """How large it is; on the host only. O(edges)."""
        graph, n_roots = self.graph, int(self.roots.size)
        n_left, left = (graph.n_v, graph.v) if self.layer == "v" else (graph.n_u, graph.u)
        is_root = np.zeros(n_left, np.bool_)
        is_root[self.roots] = True
        root_entries = int(np.count_nonzero(is_root[left]))
        return PartSizes(n_roots, root_entries, graph.n_u + graph.n_v - n_roots, graph.n_edges - root_entries)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays, those of the graph included."""
        return _nbytes(self) + int(self.graph.u.nbytes) + int(self.graph.v.nbytes)

    def vector_ids(self, per: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield, for each vector of a partial of this part, its name and the id in the whole graph of each entry."""
        if per == "vertex":
            yield "u", self.ids_u
            yield "v", self.ids_v


Part = WedgePart | RootPart
Block = StartBlock | EndBlock | RootPart
