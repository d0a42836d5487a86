"""The smallest part of a graph that still fails: vertices are taken away as long as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from tests.tools.differential.cases import Case
from tests.tools.differential.graphs import Graph

Kept = NDArray[np.bool_]


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float) -> Case:
    """Take away halves, quarters and so on of the vertices, down to one by one, while the case fails."""
    end = monotonic() + seconds
    n_layers, changed = (2 if isinstance(case.graph, BipartiteGraph) else 1), True
    while changed and monotonic() < end:
        changed = False
        for layer in range(n_layers):
            piece = max(1, _sizes(case.graph)[layer] // 2)
            while piece and monotonic() < end:
                for smaller in _without(case, layer, piece):
                    if monotonic() < end and fails(smaller):
                        case, changed = smaller, True
                        break
                else:
                    piece //= 2
    return case


def _sizes(graph: Graph) -> tuple[int, ...]:
    return (graph.n_u, graph.n_v) if isinstance(graph, BipartiteGraph) else (graph.n,)


def _without(case: Case, layer: int, piece: int) -> Iterator[Case]:
    """Yield the case without some vertices of a layer in a row; those that a listing must hold stay."""
    sizes, listing = _sizes(case.graph), case.question.listing
    held = max((*listing.with_u, *listing.with_v), default=-1) + 1 if listing is not None else 0
    for begin in range(held, sizes[layer] - piece + 1, piece):
        kept = [np.ones(size, bool) for size in sizes]
        kept[layer][begin : begin + piece] = False
        yield replace(case, graph=induce(case.graph, kept))


def induce(graph: Graph, kept: list[Kept]) -> Graph:
    """Return the graph of the vertices that are kept, numbered anew."""
    to = [np.cumsum(each) - 1 for each in kept]
    inside = kept[0][graph.u] & kept[-1][graph.v]
    u, v = to[0][graph.u[inside]], to[-1][graph.v[inside]]
    n = [int(each.sum()) for each in kept]
    if isinstance(graph, UnipartiteGraph):
        return UnipartiteGraph.from_edges(u, v, *n)
    return BipartiteGraph.from_edges(u, v, *n, None if graph.sign is None else graph.sign[inside])
