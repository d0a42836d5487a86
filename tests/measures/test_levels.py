"""Graphs of levels: equal to NetworkX on the subgraphs that they are, however the edges are cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph
from papilio.measures.levels import CohesionLevel, join_levels
from tests.conftest import share_of_examples
from tests.tools.strategies import bipartite_graphs, edge_list


def pieces(graph: BipartiteGraph, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, graph.n_edges, size):
        yield graph.u[start : start + size], graph.v[start : start + size]


def level_by_definition(graph: BipartiteGraph, level: int, levels: dict[tuple[str, int], int]) -> CohesionLevel:
    whole = nx.Graph()
    whole.add_nodes_from(levels)
    whole.add_edges_from((("u", u), ("v", v)) for u, v in edge_list(graph))
    inside = whole.subgraph([vertex for vertex, own in levels.items() if own >= level])
    parts = [len(part) for part in nx.connected_components(inside)]
    n_u = sum(vertex[0] == "u" for vertex in inside)
    least = min(degree for _, degree in inside.degree)
    return CohesionLevel(level, n_u, len(inside) - n_u, inside.size(), len(parts), max(parts), least)


@settings(max_examples=share_of_examples(80), deadline=None)
@given(bipartite_graphs(), st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_levels_are_those_of_the_definition(graph: BipartiteGraph, n: int, seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    levels_u = random.integers(0, n, graph.n_u).astype(np.uint8)
    levels_v = random.integers(0, n, graph.n_v).astype(np.uint8)
    of = {("u", i): int(x) for i, x in enumerate(levels_u)} | {("v", i): int(x) for i, x in enumerate(levels_v)}
    found = list(join_levels(levels_u, levels_v, (pieces(graph, size) for _ in repeat(None))))
    assert [row.level for row in found] == sorted(set(of.values()), reverse=True)
    assert found == [level_by_definition(graph, row.level, of) for row in found]
