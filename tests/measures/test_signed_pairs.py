"""Pairs and vertices by class: a definition, laws, ties, threads, and the known census of the Senate."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels import exact as bounds
from papilio.kernels import threads as chunks
from papilio.measures.signed_pairs import bytes_of_pairs, find_pairs, sum_vertices
from papilio.motifs import CENSUS_CLASSES, PairSide
from tests.conftest import share_of_examples
from tests.kernels.wedge.test_balanced_butterfly import random_signs, signed_graphs, signs_of
from tests.tools import oracle_signed as oracle
from tests.tools.strategies import complete_graph, skewed_graph

SIDES: tuple[PairSide, ...] = ("u", "v")
GROUPS = ("coherent", "incoherent", "mixed")
NAMES = [each.name for each in CENSUS_CLASSES]


def chosen_of(group: str) -> list[bool]:
    return [each.group == group for each in CENSUS_CLASSES]


def turned(graph: BipartiteGraph, side: str) -> oracle.Signs:
    """Return the signs by (vertex of the side, other vertex)."""
    signs = signs_of(graph)
    return signs if side == "u" else {(v, u): sign for (u, v), sign in signs.items()}


def pairs_by_definition(signs: oracle.Signs, group: str) -> list[list[int]]:
    """Return every pair of U with a butterfly of the group, in the order that is asked for."""
    found = []
    n = 1 + max((u for u, _ in signs), default=0)
    for first in range(n):
        for second in range(first + 1, n):
            both = {edge: sign for edge, sign in signs.items() if edge[0] in (first, second)}
            classes = oracle.census(both, "u")
            number = sum(classes.get(each.name, 0) for each in CENSUS_CLASSES if each.group == group)
            corners = Counter(
                (sign, both[second, v]) for (u, v), sign in both.items() if u == first and (second, v) in both
            )
            if number:
                different = corners[1, -1] + corners[-1, 1]
                found.append([number, first, second, corners[1, 1], corners[-1, -1], different])
    return sorted(found, key=lambda row: (-row[0], row[1], row[2]))


@settings(max_examples=share_of_examples(40), deadline=None)
@given(signed_graphs(9), st.sampled_from(SIDES), st.sampled_from(GROUPS), st.integers(1, 40))
def test_pairs_are_those_of_the_definition(graph: BipartiteGraph, side: PairSide, group: str, k: int) -> None:
    pairs, totals = find_pairs(graph, side, chosen_of(group), k, threads=1)
    assert pairs.tolist() == pairs_by_definition(turned(graph, side), group)[:k]
    census = oracle.census(signs_of(graph), side)
    assert list(totals) == [census.get(name, 0) for name in NAMES]


@settings(max_examples=share_of_examples(40), deadline=None)
@given(signed_graphs(9), st.sampled_from(SIDES))
def test_vertices_are_those_of_the_definition(graph: BipartiteGraph, side: PairSide) -> None:
    got = sum_vertices(graph, side, threads=1)
    signs = turned(graph, side)
    wanted = np.zeros_like(got)
    for u1, u2, v1, v2 in oracle.butterflies(signs):
        four = {(u, v): signs[u, v] for u in (u1, u2) for v in (v1, v2)}
        (name,) = oracle.census(four, "u")
        wanted[NAMES.index(name), [u1, u2]] += np.uint64(1)
    np.testing.assert_array_equal(got, wanted)


@settings(max_examples=share_of_examples(25), deadline=None)
@given(signed_graphs(12), st.sampled_from(SIDES), st.data())
def test_flipping_a_vertex_of_the_other_layer_keeps_the_groups(
    graph: BipartiteGraph, side: PairSide, data: st.DataObject
) -> None:
    size, ends = (graph.n_v, graph.v) if side == "u" else (graph.n_u, graph.u)
    if not size or graph.sign is None:
        return
    flipped = data.draw(st.integers(0, size - 1))
    sign = np.where(ends == flipped, -graph.sign, graph.sign).astype(np.int8)
    other = BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, sign)
    for group in GROUPS:
        mask = np.array(chosen_of(group))
        one, two = (sum_vertices(each, side, threads=1)[mask].sum(axis=0) for each in (graph, other))
        np.testing.assert_array_equal(one, two)
        one, two = (find_pairs(each, side, mask.tolist(), 50, threads=1)[0] for each in (graph, other))
        np.testing.assert_array_equal(one[:, :3], two[:, :3])


@pytest.mark.parametrize("side", SIDES)
def test_threads_change_nothing(side: PairSide, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_signs(skewed_graph(5, 300, 200, 5000), 5)
    chosen = chosen_of("mixed")
    alone, totals = find_pairs(graph, side, chosen, 25, threads=1)
    every, _ = find_pairs(graph, side, chosen, 10**9, threads=1)
    vertices = sum_vertices(graph, side, threads=1)
    np.testing.assert_array_equal(alone, every[:25])
    assert every[:, 0].sum() == sum(np.array(totals)[np.array(chosen)])
    assert vertices.sum(axis=1).tolist() == [2 * total for total in totals]
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    for threads in (2, 3, 5):
        shares: list[float] = []
        found, again = find_pairs(graph, side, chosen, 25, threads, shares.append)
        np.testing.assert_array_equal(found, alone)
        assert again == totals
        np.testing.assert_array_equal(sum_vertices(graph, side, threads, shares.append), vertices)
        assert len(shares) > 20
        assert max(shares) == 1.0


def test_ties_go_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    graph = random_signs(complete_graph(40, 6), 0, positive=1.1)
    in_order = [[15, i, j, 6, 0, 0] for i in range(40) for j in range(i + 1, 40)]
    for k in (1, 7, 100, 779, 780, 5000):
        for threads in (1, 3):
            assert find_pairs(graph, "u", chosen_of("coherent"), k, threads)[0].tolist() == in_order[:k]
    assert find_pairs(graph, "u", chosen_of("mixed"), 5)[0].shape == (0, 6)


@pytest.mark.parametrize(("n_u", "n_v"), [(0, 0), (0, 4), (3, 0), (1, 1), (1, 5)])
def test_graphs_without_pairs(n_u: int, n_v: int) -> None:
    graph = random_signs(complete_graph(n_u, n_v), 1)
    pairs, totals = find_pairs(graph, "u", chosen_of("coherent"), 3)
    assert pairs.shape == (0, 6)
    assert totals == (0,) * 6
    assert sum_vertices(graph, "u").tolist() == [[0] * n_u] * 6


def test_long_rows_are_exact() -> None:
    n = 70_000  # past the 16 bits that the narrower tables of other kernels hold
    sign = np.ones(2 * n, np.int8)
    sign[:20_000] = -1
    pair = complete_graph(2, n)
    graph = BipartiteGraph(2, n, pair.u, pair.v, sign)
    pairs, totals = find_pairs(graph, "u", chosen_of("mixed"), 1)
    assert pairs.tolist() == [[50_000 * 20_000, 0, 1, 50_000, 0, 20_000]]
    assert totals == (50_000 * 49_999 // 2, 0, 0, 20_000 * 19_999 // 2, 50_000 * 20_000, 0)
    assert sum_vertices(graph, "u").tolist() == [[total, total] for total in totals]


def test_counts_that_could_be_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_VERTEX_COUNT", 10)
    with pytest.raises(CapacityError, match="could be in"):
        sum_vertices(random_signs(complete_graph(6, 6), 1), "u")


def test_bytes_grow_with_what_is_held() -> None:
    base = bytes_of_pairs(100, 40, 1000, 2, 5)
    assert base < bytes_of_pairs(101, 40, 1000, 2, 5) < bytes_of_pairs(101, 41, 2000, 2, 5)
    assert base < bytes_of_pairs(100, 40, 1000, 3, 5) < bytes_of_pairs(100, 40, 1000, 3, 50)
    assert bytes_of_pairs(100, 40, 1000, 2, 10**4) == bytes_of_pairs(100, 40, 1000, 2, 10**12)
