"""The laws of balanced (p,q)-bicliques: every one runs on every engine of bicliques."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import MAX_VERTICES, BipartiteGraph
from papilio.kernels.biclique.signed_cover import make_cover
from papilio.kernels.engine import Partial
from papilio.kernels.wedge.cpu import BalancedButterflyCpu
from papilio.motifs import BalancedBiclique, BalancedButterfly, Biclique, Granularity
from papilio.parts import RootPart
from tests.conftest import ENGINES
from tests.kernels.biclique.cases import ALGORITHMS, ANCHORS, BicliqueCase, make_biclique_case
from tests.kernels.wedge.test_balanced_butterfly import (
    REFERENCE,
    SIDES,
    flip_layers,
    random_signs,
    read_signed,
    signed_graphs,
    signs_of,
    with_signs,
)
from tests.tools import oracle_signed as oracle
from tests.tools.strategies import complete_graph, skewed_graph

PER: tuple[Granularity, ...] = ("total", "vertex")
sizes = st.integers(1, 4)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> BicliqueCase:
    """Each engine in turn: Numba, the CUDA sources on the emulator, the CUDA sources on a GPU."""
    case = make_biclique_case(request.param)
    return replace(case, max_examples=3, max_side=6) if case.name == "emulator" else case


def count_by_definition(graph: BipartiteGraph) -> dict[tuple[int, int], int]:
    """Count the balanced bicliques of every size."""
    return dict(Counter((len(us), len(vs)) for us, vs in oracle.balanced_bicliques(signs_of(graph))))


def assert_same(got: Partial, wanted: Partial) -> None:
    """Compare answers exactly."""
    assert (got.n_items, got.total, got.cells) == (wanted.n_items, wanted.total, wanted.cells)
    assert got.vectors.keys() == wanted.vectors.keys()
    for name, vector in wanted.vectors.items():
        np.testing.assert_array_equal(got.vectors[name], vector)


def graph_for(engine: BicliqueCase, seed: int) -> BipartiteGraph:
    """Return a graph with hubs, larger than drawn ones, of which two thirds of the butterflies are balanced."""
    size = 1 if engine.name == "emulator" else 4
    return random_signs(skewed_graph(seed, 20 * size, 15 * size, 90 * size), seed)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_size_equals_the_definition(engine: BicliqueCase, algorithm: str) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int, str]) -> None:
        graph, p, q, anchor = drawn
        got = engine.bicliques(graph, BalancedBiclique(p, q), algorithm=algorithm, anchor=anchor)
        assert type(got.total) is int
        assert (got.total, got.cells) == (count_by_definition(graph).get((p, q), 0), {})

    graphs = signed_graphs(min(engine.max_side, 8))
    engine.check(st.tuples(graphs, sizes, sizes, st.sampled_from(ANCHORS)), law)


def test_tables_equal_the_definition(engine: BicliqueCase) -> None:
    def law(drawn: tuple[BipartiteGraph, int, str]) -> None:
        graph, size, anchor = drawn
        cells = count_by_definition(graph)
        assert engine.bicliques(graph, BalancedBiclique(), anchor=anchor).cells == cells
        row = {cell: count for cell, count in cells.items() if cell[0] == size}
        column = {cell: count for cell, count in cells.items() if cell[1] == size}
        for algorithm in ALGORITHMS:
            got = engine.bicliques(graph, BalancedBiclique(size), algorithm=algorithm, anchor="u")
            assert got.cells == row
        assert engine.bicliques(graph, BalancedBiclique(size, max_q=2)).cells == {
            cell: count for cell, count in row.items() if cell[1] <= 2
        }
        assert engine.bicliques(graph, BalancedBiclique(None, size)).cells == column

    graphs = signed_graphs(min(engine.max_side, 7))
    engine.check(st.tuples(graphs, sizes, st.sampled_from(ANCHORS)), law)


def test_every_vertex_equals_the_definition(engine: BicliqueCase) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int, str]) -> None:
        graph, p, q, anchor = drawn
        got = engine.bicliques(graph, BalancedBiclique(p, q), "vertex", anchor=anchor)
        counts: Counter[tuple[str, int]] = Counter()
        for us, vs in oracle.balanced_bicliques(signs_of(graph)):
            if (len(us), len(vs)) == (p, q):
                counts.update([("u", u) for u in us] + [("v", v) for v in vs])
        for layer, size in (("u", graph.n_u), ("v", graph.n_v)):
            assert got.vectors[layer].dtype == np.uint64
            assert got.vectors[layer].tolist() == [counts[layer, at] for at in range(size)]
        assert sum(got.vectors["u"].tolist()) == p * got.total

    graphs = signed_graphs(min(engine.max_side, 7))
    engine.check(st.tuples(graphs, sizes, sizes, st.sampled_from(ANCHORS)), law)


@pytest.mark.parametrize("per", PER)
def test_any_split_folds_to_the_whole_and_a_cut_run_answers_for_its_items(
    engine: BicliqueCase, per: Granularity
) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int | None, list[int], int]) -> None:
        graph, p, q, cuts, patience = drawn
        motif = BalancedBiclique(p, q if per == "total" else q or 2)
        whole = engine.bicliques(graph, motif, per)
        assert_same(engine.split_bicliques(graph, motif, cuts, per), whole)
        running, prepared = engine.prepare(graph, motif, per)
        asked = 0

        def cut() -> bool:
            nonlocal asked
            asked += 1
            return asked > patience

        bounds = sorted({each for each in cuts if 0 < each < prepared.n_items})
        first = running.run(prepared, 0, prepared.n_items, bounds, cut)
        assert_same(first, running.run(prepared, 0, first.n_items))

    cuts = st.lists(st.integers(0, engine.max_side), max_size=4)
    drawn = st.tuples(signed_graphs(engine.max_side), sizes, st.none() | sizes, cuts, st.integers(0, 3))
    engine.check(drawn, law)


@pytest.mark.parametrize("per", PER)
def test_without_negative_edges_all_bicliques_are_balanced(engine: BicliqueCase, per: Granularity) -> None:
    graph = graph_for(engine, 1)
    for p, q in ((1, 2), (2, 2), (3, 2), (3, 3), (4, 2)):
        wanted = engine.bicliques(graph, Biclique(p, q), per)
        for sign in (1, -1):
            same = with_signs(graph, np.full(graph.n_edges, sign))
            got = engine.bicliques(same, BalancedBiclique(p, q), per)
            assert got.total == wanted.total
            for layer, vector in wanted.vectors.items():
                np.testing.assert_array_equal(got.vectors[layer], vector)
    if per == "total":
        assert engine.bicliques(same, BalancedBiclique()).cells == engine.bicliques(graph, Biclique()).cells


def test_flipping_all_signs_of_a_vertex_changes_nothing(engine: BicliqueCase) -> None:
    graph = graph_for(engine, 2)
    assert graph.sign is not None
    random = np.random.default_rng(2)
    turned = (
        np.where(random.random(graph.n_u) < 0.5, 1, -1)[graph.u]
        * np.where(random.random(graph.n_v) < 0.5, 1, -1)[graph.v]
    )
    flipped = with_signs(graph, graph.sign * turned)
    for motif in (BalancedBiclique(3, 2), BalancedBiclique(3), BalancedBiclique(None, 3)):
        for per in motif.granularities:
            assert_same(engine.bicliques(flipped, motif, per), engine.bicliques(graph, motif, per))


def test_layers_swapped_with_the_sizes_give_the_same(engine: BicliqueCase) -> None:
    graph = graph_for(engine, 3)
    swapped = flip_layers(graph)
    turned = engine.bicliques(swapped, BalancedBiclique(None, 3)).cells
    assert engine.bicliques(graph, BalancedBiclique(3)).cells == {(p, q): n for (q, p), n in turned.items()}
    one = engine.bicliques(graph, BalancedBiclique(3, 2), "vertex")
    other = engine.bicliques(swapped, BalancedBiclique(2, 3), "vertex")
    assert one.total == other.total > 0
    np.testing.assert_array_equal(one.vectors["u"], other.vectors["v"])


@pytest.mark.parametrize("side", SIDES)
def test_two_vertices_of_a_side_are_pairs_of_the_wedge_engine(engine: BicliqueCase, side: str) -> None:
    graph = graph_for(engine, 4)
    wedges = BalancedButterflyCpu(1)
    asked = BalancedButterfly(None, pair_side="u" if side == "u" else "v")
    prepared = wedges.prepare(graph, asked, "total")
    wanted = wedges.run(prepared, 0, prepared.n_items).cells
    motif = BalancedBiclique(2) if side == "u" else BalancedBiclique(None, 2)
    for options in ({}, {"algorithm": "pivot"}):
        cells = engine.bicliques(graph, motif, **options).cells
        assert {cell: count for cell, count in cells.items() if 1 not in cell} == wanted
    prepared = wedges.prepare(graph, BalancedButterfly(), "vertex")
    butterflies = wedges.run(prepared, 0, prepared.n_items)
    got = engine.bicliques(graph, BalancedBiclique(2, 2), "vertex")
    assert got.total == butterflies.total
    for layer in "uv":
        np.testing.assert_array_equal(got.vectors[layer], butterflies.vectors[layer])


def test_counts_beyond_64_bits(engine: BicliqueCase) -> None:
    """K(3, n) with one vertex at odds with the others at half of its neighbours."""
    n = 80
    sign = np.ones((3, n), np.int8)
    sign[2, ::2] = -1
    cells = engine.bicliques(with_signs(complete_graph(3, n), sign.ravel()), BalancedBiclique(3)).cells
    wanted = {(3, 1): n} | {(3, q): 2 * comb(n // 2, q) for q in range(2, n // 2 + 1)}
    assert cells == wanted
    everywhere = with_signs(complete_graph(3, n), np.ones(3 * n))
    assert engine.bicliques(everywhere, BalancedBiclique(3, n // 2)).total == comb(n, n // 2) > 1 << 64


@pytest.mark.parametrize("per", PER)
def test_what_cannot_be_counted_is_refused(engine: BicliqueCase, per: Granularity) -> None:
    signed = random_signs(complete_graph(3, 3), 1)
    with pytest.raises(UnsupportedError, match=r"balanced biclique \(3, 3\) needs a sign for every edge"):
        engine.prepare(complete_graph(3, 3), BalancedBiclique(3, 3), per)
    with pytest.raises(UnsupportedError, match="per 'edge'"):
        engine.prepare(signed, BalancedBiclique(3, 3), "edge")
    ids = np.arange(3, dtype=np.int32)
    part = RootPart("u", signed, ids, ids, ids, np.ones(3, np.int64))
    with pytest.raises(UnsupportedError, match="cannot count a RootPart"):
        engine.prepare(part, BalancedBiclique(3, 3), per)


def test_the_plan_says_what_is_searched(engine: BicliqueCase) -> None:
    graph = graph_for(engine, 5)
    _, prepared = engine.prepare(graph, BalancedBiclique(3, 3))
    assert prepared.decisions[0][0] == "signed double cover searched, half of its roots"
    _, plain = engine.prepare(graph, Biclique(3, 3))
    assert "cover" not in str(plain.decisions)


@pytest.mark.parametrize("anchor", SIDES)
def test_items_are_one_of_each_two_mirror_images_and_those_of_the_cpu(engine: BicliqueCase, anchor: str) -> None:
    """Copies stand beside each other in the order of left vertices, and only x+ are roots."""
    graph = graph_for(engine, 6)
    cpu = make_biclique_case("cpu")
    (running, prepared), (_, wanted) = (
        each.prepare(graph, BalancedBiclique(3, 3), anchor=anchor) for each in (engine, cpu)
    )
    left_ids = wanted.index.left_ids
    np.testing.assert_array_equal(left_ids[::2] ^ 1, left_ids[1::2])
    assert prepared.n_items > 1
    assert not (left_ids[prepared.index.item_root] & 1).any()
    np.testing.assert_array_equal(running.work(prepared), wanted.index.costs)
    for name in ("item_root", "item_first", "item_last"):
        np.testing.assert_array_equal(getattr(prepared.index, name), getattr(wanted.index, name))


def test_the_cover_has_both_copies_of_every_edge() -> None:
    graph = random_signs(skewed_graph(6, 30, 20, 100), 6)
    cover = make_cover(graph)
    cover.validate()
    assert (cover.n_u, cover.n_v, cover.sign) == (60, 40, None)
    edges = set(zip(cover.u.tolist(), cover.v.tolist(), strict=True))
    assert edges == {
        (2 * u + a, 2 * v + b)
        for (u, v), sign in signs_of(graph).items()
        for a in (0, 1)
        for b in ((a,) if sign > 0 else (1 - a,))
    }


def test_layers_beyond_32_bits_are_refused() -> None:
    none = np.empty(0, np.int32)
    graph = BipartiteGraph(1, MAX_VERTICES // 2 + 1, none, none, np.empty(0, np.int8))
    with pytest.raises(CapacityError, match="layer V has 1073741824 vertices"):
        make_cover(graph)


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def fast(request: pytest.FixtureRequest) -> BicliqueCase:
    """The engines that are fast enough for real graphs."""
    return make_biclique_case(request.param)


def test_senate_votes_bundled(fast: BicliqueCase, example_data: Path) -> None:
    graph = read_signed(example_data / "senate-votes.txt.gz", 1)
    assert fast.bicliques(graph, BalancedBiclique(2, 2)).total == REFERENCE["senate", "u"][0]
    by_u, by_v = (fast.bicliques(graph, BalancedBiclique(3, 3), anchor=side) for side in SIDES)
    assert by_u.total == by_v.total > 0
    vertex = fast.bicliques(graph, BalancedBiclique(3, 3), "vertex")
    assert vertex.total == by_u.total
    assert [int(vertex.vectors[layer].sum()) for layer in "uv"] == [3 * vertex.total] * 2


def test_real_graphs_agree_between_anchors_and_algorithms(fast: BicliqueCase, shared_data: Path) -> None:
    graph = read_signed(shared_data / "bipartite" / "bonanza.txt.gz")
    assert fast.bicliques(graph, BalancedBiclique(2, 2)).total == REFERENCE["bonanza", "u"][0]
    motif = BalancedBiclique(4, 3)
    totals = {
        fast.bicliques(graph, motif, anchor=side, algorithm=each).total
        for side in SIDES
        for each in ("enumerate", "pivot")
    }
    assert len(totals) == 1
    assert min(totals) > 0
