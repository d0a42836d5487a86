"""Counts per vertex that must exceed 64 bits are an error before the search; others are not."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import papilio
from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels import exact
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list


def largest_count(graph: BipartiteGraph, p: int, q: int) -> int:
    """The most (p,q)-bicliques of one vertex, by definition."""
    edges = set(edge_list(graph))
    members = np.zeros(graph.n_u + graph.n_v, int)
    for left in combinations(range(graph.n_u), p):
        shared = [v for v in range(graph.n_v) if all((u, v) in edges for u in left)]
        for right in combinations(shared, q):
            members[[*left, *(graph.n_u + v for v in right)]] += 1
    return int(members.max(initial=0))


@given(
    graph=bipartite_graphs(max_side=7),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    limit=st.integers(0, 40),
)
def test_no_graph_whose_counts_fit_is_an_error(graph: BipartiteGraph, sizes: tuple[int, int], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MAX_BICLIQUES", limit)
        try:
            exact.check_bicliques(graph, *sizes)
        except CapacityError:
            assert largest_count(graph, *sizes) > limit


@pytest.mark.parametrize(("sides", "sizes"), [((200, 200), (50, 50)), ((70, 300), (35, 20)), ((3, 30_000), (2, 5))])
@pytest.mark.parametrize("swapped", [False, True])
def test_complete_graphs_are_an_error_before_the_search(
    sides: tuple[int, int], sizes: tuple[int, int], swapped: bool
) -> None:
    if swapped:
        sides, sizes = sides[::-1], sizes[::-1]
    graph = complete_graph(*sides)
    with pytest.raises(CapacityError, match=r"limited to 18446744073709551615: count in total"):
        papilio.count(graph, papilio.Biclique(*sizes), per="vertex", engine="cpu")


def test_a_balanced_complete_graph_is_an_error_before_the_search() -> None:
    """Its signs are products of signs of the vertices; with one sign more, most of it is still balanced."""
    n = 80
    of_u, of_v = np.random.default_rng(3).choice([-1, 1], (2, n))
    plain = complete_graph(n, n)
    sign = of_u[plain.u] * of_v[plain.v]
    sign[0] = -sign[0]
    graph = BipartiteGraph.from_edges(plain.u, plain.v, sign=sign)
    with pytest.raises(CapacityError, match=r"\(30,30\)-bicliques; counts per vertex are limited"):
        papilio.count(graph, papilio.BalancedBiclique(30, 30), per="vertex", engine="cpu")


def test_the_bound_of_a_complete_graph_is_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, (p, q) = complete_graph(9, 12), (4, 5)
    most = max(comb(8, p - 1) * comb(12, q), comb(9, p) * comb(11, q - 1))
    monkeypatch.setattr(exact, "MAX_BICLIQUES", most)
    exact.check_bicliques(graph, p, q)
    monkeypatch.setattr(exact, "MAX_BICLIQUES", most - 1)
    with pytest.raises(CapacityError, match=f"at least {most} "):
        exact.check_bicliques(graph, p, q)


def test_totals_beyond_64_bits_are_counted() -> None:
    graph = complete_graph(70, 70)
    assert papilio.count(graph, papilio.Biclique(2, 35), engine="cpu").count == comb(70, 2) * comb(70, 35)
