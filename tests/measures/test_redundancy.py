"""Redundant pairs: the definition, complete graphs, and any number of threads."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from papilio.graph import BipartiteGraph
from papilio.kernels import threads as chunks
from papilio.measures.redundancy import count_redundant_pairs
from tests.conftest import share_of_examples
from tests.tools.oracle import neighbour_sets
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, skewed_graph


@settings(max_examples=share_of_examples(60), deadline=None)
@given(bipartite_graphs())
def test_pairs_are_those_of_the_definition(graph: BipartiteGraph) -> None:
    sets = neighbour_sets(edge_list(graph))
    found = count_redundant_pairs(graph, threads=1)
    for layer, counts in found.items():
        for vertex, count in enumerate(counts.tolist()):
            near = [sets[neighbour] for neighbour in sets.get((layer, vertex), ())]
            assert count == sum(bool(a & b - {(layer, vertex)}) for a, b in combinations(near, 2))


@pytest.mark.parametrize(("m", "n", "u", "v"), [(1, 5, 0, 0), (2, 3, 3, 1), (4, 7, 21, 6)])
def test_complete_graphs(m: int, n: int, u: int, v: int) -> None:
    found = count_redundant_pairs(complete_graph(m, n))
    assert found["u"].tolist() == [u] * m
    assert found["v"].tolist() == [v] * n


def test_threads_and_exchanged_layers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = skewed_graph(3, 400, 300, 6000)
    alone = count_redundant_pairs(graph, threads=1)
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    for swapped in (False, True):
        found = count_redundant_pairs(graph.swap_layers() if swapped else graph, threads=3)
        assert np.array_equal(found["v" if swapped else "u"], alone["u"])
        assert np.array_equal(found["u" if swapped else "v"], alone["v"])
