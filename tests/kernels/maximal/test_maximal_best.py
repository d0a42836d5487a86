"""The largest maximal bicliques: those of the oracle, with ties by ids, on any number of threads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph
from papilio.kernels.engine import LargestMotif, choose_best
from papilio.kernels.maximal.list import MaximalBicliqueLister, find_best
from papilio.motifs import Listing, MaximalBiclique
from tests.kernels.maximal.questions import motifs
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import bipartite_graphs, edge_list, planted_graph, skewed_graph


def expect(graph: BipartiteGraph, motif: MaximalBiclique, by: str, n: int) -> tuple[LargestMotif, ...]:
    found = (row for row in maximal_bicliques_of(edge_list(graph)) if motif.has_cell(tuple(map(len, row))))
    return choose_best(
        (LargestMotif(len(u) * len(v) if by == "edges" else min(len(u), len(v)), (u, v)) for u, v in found), n
    )


def best_of(
    graph: BipartiteGraph, motif: MaximalBiclique, by: str, n: int, anchor: str = "auto", threads: int = 1
) -> tuple[LargestMotif, ...]:
    prepared = MaximalBicliqueLister(threads, Listing(), anchor).prepare(graph, motif, "total")
    return find_best(prepared, by, n, threads)


@given(
    graph=bipartite_graphs(max_side=10),
    motif=motifs(),
    by=st.sampled_from(["edges", "balanced"]),
    n=st.integers(1, 20),
    anchor=st.sampled_from(["u", "v"]),
)
@settings(deadline=None)
def test_the_largest_are_those_of_the_oracle(
    graph: BipartiteGraph, motif: MaximalBiclique, by: str, n: int, anchor: str
) -> None:
    assert best_of(graph, motif, by, n, anchor) == expect(graph, motif, by, n)


@pytest.mark.parametrize("by", ["edges", "balanced"])
def test_threads_share_a_bound(by: str) -> None:
    for graph in (planted_graph(3, 60, 70, 4, 9, 300, 0.1), skewed_graph(5, 60, 50, 600)):
        for n in (1, 3, 40):
            assert best_of(graph, MaximalBiclique(), by, n, threads=3) == expect(graph, MaximalBiclique(), by, n)
