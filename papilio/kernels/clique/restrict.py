"""The part of a graph in which cliques that must hold given vertices lie."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph

Ids32 = NDArray[np.int32]


class Restricted(NamedTuple):
    """What is left to search for once the vertices that every clique must hold are set aside."""

    graph: UnipartiteGraph  # what can go with all of them, numbered by rising id
    ids: Ids32  # of its vertices in the whole graph
    held: Ids32  # ids that are added to each clique

    @property
    def reason(self) -> tuple[str, str]:
        """What is decided with it, and why."""
        what = f"search among {self.graph.n} vertices and {self.graph.n_edges} edges"
        return what, "only these go with what every clique must hold"


def restrict_graph(graph: UnipartiteGraph, held: Ids32, k: int | None) -> Restricted:
    """Restrict a graph to the common neighbours of the vertices ``held``; O(n_edges).

    The maximal cliques with them are those that the neighbours have among themselves, as the cliques of k vertices are
    those of fewer. Where there is nothing to add, one of the held vertices is left to be found; where there is no
    clique to be, nothing is.
    """
    if not held.size:
        return Restricted(graph, np.arange(graph.n, dtype=np.int32), held)
    met = np.bincount(graph.v[np.isin(graph.u, held)], minlength=graph.n)
    met += np.bincount(graph.u[np.isin(graph.v, held)], minlength=graph.n)
    ids = np.flatnonzero(met == held.size).astype(np.int32)
    if not bool((met[held] == held.size - 1).all()) or (k is not None and k < held.size):
        ids = ids[:0]
    elif not ids.size or k == held.size:
        ids, held = held[:1], held[1:]
    number = np.full(graph.n, -1, np.int32)
    number[ids] = np.arange(ids.size)
    u, v = number[graph.u], number[graph.v]
    kept = (u >= 0) & (v >= 0)
    return Restricted(UnipartiteGraph(int(ids.size), u[kept], v[kept]), ids, held)
