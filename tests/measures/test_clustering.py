"""Clustering by pairs: NetworkX, a definition in fractions, laws, and closed forms."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.algorithms import bipartite

from papilio.graph import BipartiteGraph
from papilio.kernels import threads as chunks
from papilio.measures.clustering import MODES, PairMeans, cluster_pairs
from papilio.parts import Layer
from tests.conftest import share_of_examples
from tests.tools.oracle import neighbour_sets
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, relabelled, skewed_graph

BOTH: tuple[Layer, ...] = ("u", "v")


def means_by_definition(graph: BipartiteGraph, layer: str) -> dict[str, list[Fraction | None]]:
    """Return the exact means of every vertex of a layer, None without another vertex that shares a neighbour."""
    sets = neighbour_sets(edge_list(graph))
    found: dict[str, list[Fraction | None]] = {mode: [] for mode in MODES}
    for vertex in range(graph.n_u if layer == "u" else graph.n_v):
        own = sets.get((layer, vertex), set())
        pairs = [(own, other) for key, other in sets.items() if key[0] == layer and key[1] != vertex and own & other]
        for mode, divisor in (
            ("dot", lambda a, b: len(a | b)),
            ("min", lambda a, b: min(len(a), len(b))),
            ("max", lambda a, b: max(len(a), len(b))),
        ):
            overlaps = [Fraction(len(a & b), divisor(a, b)) for a, b in pairs]
            found[mode].append(sum(overlaps, Fraction(0)) / len(overlaps) if overlaps else None)
    return found


def check(found: PairMeans, expected: dict[str, list[Fraction | None]]) -> None:
    for mode in MODES:
        for value, exact in zip(found.means[mode].tolist(), expected[mode], strict=True):
            if exact is None:
                assert np.isnan(value)
            else:
                assert abs(Fraction(value) - exact) <= exact / 2**50


@settings(max_examples=share_of_examples(60), deadline=None)
@given(bipartite_graphs())
def test_the_means_are_those_of_the_definition(graph: BipartiteGraph) -> None:
    found = cluster_pairs(graph, BOTH, threads=1)
    for layer in BOTH:
        check(found[layer], means_by_definition(graph, layer))


@settings(max_examples=share_of_examples(25), deadline=None)
@given(bipartite_graphs())
def test_networkx_gives_the_same(graph: BipartiteGraph) -> None:
    other = nx.Graph()
    other.add_nodes_from([("u", i) for i in range(graph.n_u)] + [("v", i) for i in range(graph.n_v)])
    other.add_edges_from((("u", u), ("v", v)) for u, v in edge_list(graph))
    found = cluster_pairs(graph, BOTH, threads=1)
    for mode in MODES:
        theirs = bipartite.clustering(other, mode=mode)
        for layer in BOTH:
            for i, value in enumerate(found[layer].means[mode].tolist()):
                partners = found[layer].partners[i]
                assert (value if partners else 0.0) == pytest.approx(theirs[(layer, i)], rel=1e-12)


@settings(max_examples=share_of_examples(25), deadline=None)
@given(bipartite_graphs(), st.integers(0, 2**32 - 1))
def test_relabelling_and_swapping_layers(graph: BipartiteGraph, seed: int) -> None:
    found = cluster_pairs(graph, BOTH, threads=1)
    renamed, new_u, new_v = relabelled(graph, seed)
    again = cluster_pairs(renamed, BOTH, threads=1)
    swapped = cluster_pairs(graph.swap_layers(), BOTH, threads=1)
    for layer, other, new in (("u", "v", new_u), ("v", "u", new_v)):
        assert np.array_equal(again[layer].partners[new], found[layer].partners)
        assert np.array_equal(swapped[other].partners, found[layer].partners)
        for mode in MODES:
            for values in (again[layer].means[mode][new], swapped[other].means[mode]):
                np.testing.assert_allclose(values, found[layer].means[mode], rtol=2**-49)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 5), (2, 3), (7, 4)])
def test_complete_graphs(m: int, n: int) -> None:
    found = cluster_pairs(complete_graph(m, n), BOTH)
    for layer, size in (("u", m), ("v", n)):
        assert found[layer].partners.tolist() == [size - 1] * size
        expected = 1.0 if size > 1 else np.nan
        for mode in MODES:
            np.testing.assert_array_equal(found[layer].means[mode], np.full(size, expected))


def test_threads_and_one_layer_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = skewed_graph(3, 400, 300, 6000)
    alone = cluster_pairs(graph, BOTH, threads=1)
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    shares: list[float] = []
    together = cluster_pairs(graph, ("v",), threads=3, report=shares.append)
    assert list(together) == ["v"]
    assert np.array_equal(together["v"].partners, alone["v"].partners)
    for mode in MODES:
        np.testing.assert_array_equal(together["v"].means[mode], alone["v"].means[mode])
    assert len(shares) > 10
    assert max(shares) == 1.0
    assert all(0 < share <= 1 for share in shares)


def test_the_sum_keeps_what_a_plain_sum_loses() -> None:
    # One hub of U meets every other vertex: 1 / max(d, e) with d = 20,000 is far below the one large overlap.
    n = 20_000
    u = np.concatenate([np.zeros(n, np.int64), np.arange(1, n + 1), np.full(n - 1, n + 1)])
    v = np.concatenate([np.arange(n), np.arange(n), np.arange(n - 1)])
    graph = BipartiteGraph.from_edges(u, v, n + 2, n)
    found = cluster_pairs(graph, ("u",))["u"]
    exact = (n * Fraction(1, n) + Fraction(n - 1, n)) / (n + 1)
    assert found.partners[0] == n + 1
    assert abs(Fraction(float(found.means["max"][0])) - exact) <= exact / 2**50
    assert all(a <= b for a, b in pairwise([found.means["dot"][0], found.means["max"][0], found.means["min"][0]]))
