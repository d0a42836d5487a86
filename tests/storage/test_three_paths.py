"""Degrees, wedges and paths of three edges: one by one, in any pieces, beyond 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph
from papilio.storage.statistics import (
    Degrees,
    count_degrees,
    count_three_paths,
    count_wedges,
    edge_three_paths,
)
from tests.conftest import share_of_examples
from tests.tools.oracle import neighbour_sets
from tests.tools.strategies import bipartite_graphs, edge_list


@settings(max_examples=share_of_examples(60), deadline=None)
@given(bipartite_graphs(max_side=8), st.integers(1, 9))
def test_they_are_those_that_a_walk_meets(graph: BipartiteGraph, size: int) -> None:
    def edges() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, graph.n_edges + 1, size):
            yield graph.u[start : start + size], graph.v[start : start + size]

    sets = neighbour_sets(edge_list(graph))
    degrees = count_degrees(graph.n_u, graph.n_v, edges)
    wedges = count_wedges(degrees, edges)
    for layer, found, walks, n in (
        ("u", degrees.u, wedges.u, graph.n_u),
        ("v", degrees.v, wedges.v, graph.n_v),
    ):
        for i in range(n):
            near = sets.get((layer, i), set())
            assert found[i] == len(near)
            assert walks[i] == sum(end != (layer, i) for middle in near for end in sets[middle])
    per_edge = [
        sum(1 for a in sets["v", v] - {("u", u)} for b in sets["u", u] - {("v", v)} if a and b)
        for u, v in edge_list(graph)
    ]
    assert edge_three_paths(degrees, graph.u, graph.v).tolist() == per_edge
    assert count_three_paths(degrees, edges) == sum(per_edge)


def test_sums_beyond_64_bits() -> None:
    degrees = Degrees(np.full(1, 2**31 - 1), np.full(1, 2**31 - 1))
    zeros = np.zeros(1000, np.int32)
    assert count_three_paths(degrees, lambda: iter([(zeros, zeros)] * 9)) == 9000 * (2**31 - 2) ** 2 > 2**64
