"""The part of a graph in which bicliques that must hold given vertices lie."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.core import Ids32


class Restricted(NamedTuple):
    """What is left to search for once the vertices that every biclique must hold are set aside."""

    # The edges between the vertices that can go with all of them; the layers keep their sizes
    graph: BipartiteGraph
    # Sizes of the bicliques searched for there, at least 1
    p: int
    q: int
    # Ids that are added to each of them
    held_u: Ids32
    held_v: Ids32


def _common(graph: BipartiteGraph, ids: Ids32, of_u: bool) -> NDArray[np.bool_]:
    """Return which vertices of the other layer are neighbours of all of ``ids``; O(n_edges)."""
    own, others, n = (graph.u, graph.v, graph.n_v) if of_u else (graph.v, graph.u, graph.n_u)
    if not ids.size:
        return np.ones(n, np.bool_)
    met: NDArray[np.bool_] = np.bincount(others[np.isin(own, ids)], minlength=n) == ids.size
    return met


def restrict_graph(graph: BipartiteGraph, p: int, q: int, with_u: Ids32, with_v: Ids32) -> Restricted:
    """Restrict the graph to what can go with the vertices of ``with_u`` and ``with_v``.

    These are left out themselves, except for one where they fill their side, so that both sizes stay at least 1.
    """
    if not with_u.size and not with_v.size:
        return Restricted(graph, p, q, with_u, with_v)
    kept_u, kept_v = _common(graph, with_v, of_u=False), _common(graph, with_u, of_u=True)
    complete = kept_u[with_u].all() and kept_v[with_v].all()
    sides = []
    for kept, ids, size in ((kept_u, with_u, p), (kept_v, with_v, q)):
        kept[ids] = False
        if ids.size == size:
            kept[:] = False
            kept[ids[:1]] = True
            ids = ids[1:]
        sides.append((size - ids.size, ids))
    edges = kept_u[graph.u] & kept_v[graph.v] & complete
    restricted = BipartiteGraph(graph.n_u, graph.n_v, graph.u[edges], graph.v[edges])
    return Restricted(restricted, sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def restrict_to_common(graph: BipartiteGraph, with_u: Ids32, with_v: Ids32) -> BipartiteGraph:
    """Return the edges between what can go with all of ``with_u`` and ``with_v``, these vertices included.

    Every maximal biclique of the graph returned holds them all, and is one of the whole graph: what would extend it
    there goes with all of them, too. There is no edge where they cannot go together.
    """
    if not with_u.size and not with_v.size:
        return graph
    kept_u, kept_v = _common(graph, with_v, of_u=False), _common(graph, with_u, of_u=True)
    complete = bool(kept_u[with_u].all() and kept_v[with_v].all())
    edges = kept_u[graph.u] & kept_v[graph.v] & complete
    return BipartiteGraph(graph.n_u, graph.n_v, graph.u[edges], graph.v[edges])
