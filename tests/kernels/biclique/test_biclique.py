"""The laws of the engines of (p,q)-bicliques: every one runs on every engine."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import PapilioError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import Biclique, Butterfly, Granularity
from tests.conftest import ENGINES
from tests.kernels.biclique.cases import (
    ALGORITHMS,
    ANCHORS,
    BicliqueCase,
    Cells,
    count_crown,
    count_nested,
    crown_graph,
    disjoint_union,
    make_biclique_case,
    nested_graph,
)
from tests.tools import oracle
from tests.tools.oracle_biclique import count_all, count_bicliques, count_vertices
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    planted_graph,
    relabelled,
    skewed_graph,
)

PER: tuple[Granularity, ...] = ("total", "vertex")
sizes = st.integers(1, 5)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> BicliqueCase:
    """Each engine in turn: Numba, the CUDA sources on the emulator, the CUDA sources on a GPU."""
    return make_biclique_case(request.param)


def assert_same(got: Partial, wanted: Partial) -> None:
    """Compare answers exactly, types included."""
    assert type(got.total) is int
    assert (got.n_items, got.total, got.cells) == (wanted.n_items, wanted.total, wanted.cells)
    assert got.vectors.keys() == wanted.vectors.keys()
    for name, vector in wanted.vectors.items():
        assert got.vectors[name].dtype == np.uint64
        np.testing.assert_array_equal(got.vectors[name], vector)


@st.composite
def tables(draw: st.DrawFn) -> Biclique:
    """Draw a motif whose answer is a table."""
    p, q = draw(st.sampled_from([(None, None), (2, None), (3, None), (None, 2), (None, 3), (1, None), (None, 1)]))
    bound = st.none() | sizes
    return Biclique(p, q, draw(bound) if p is None else None, draw(bound) if q is None else None)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_size_equals_the_definition(engine: BicliqueCase, algorithm: str) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int, str]) -> None:
        graph, p, q, anchor = drawn
        got = engine.bicliques(graph, Biclique(p, q), algorithm=algorithm, anchor=anchor)
        assert got.total == count_bicliques(edge_list(graph), p, q)
        assert (got.cells, got.vectors) == ({}, {})

    graphs = bipartite_graphs(engine.max_side)
    engine.check(st.tuples(graphs, sizes, sizes, st.sampled_from(ANCHORS)), law)


@pytest.mark.parametrize("algorithm", ["auto", "pivot"])
def test_tables_equal_the_definition(engine: BicliqueCase, algorithm: str) -> None:
    def law(drawn: tuple[BipartiteGraph, Biclique, str]) -> None:
        graph, motif, anchor = drawn
        wanted = {
            (p, q): count
            for (p, q), count in count_all(edge_list(graph)).items()
            if motif.p in (None, p) and motif.q in (None, q)
            if p <= (motif.max_p or p) and q <= (motif.max_q or q)
        }
        got = engine.bicliques(graph, motif, algorithm=algorithm, anchor=anchor)
        assert got.cells == wanted
        assert got.total == sum(wanted.values())

    engine.check(st.tuples(bipartite_graphs(engine.max_side), tables(), st.sampled_from(ANCHORS)), law)


def test_a_row_by_enumeration_is_that_by_pivoting(engine: BicliqueCase) -> None:
    def law(drawn: tuple[BipartiteGraph, int, str]) -> None:
        graph, size, side = drawn
        motif = Biclique(size) if side == "u" else Biclique(None, size)
        rows = [engine.bicliques(graph, motif, algorithm=each, anchor=side) for each in ALGORITHMS]
        assert rows[0].cells == rows[1].cells == rows[2].cells

    engine.check(st.tuples(bipartite_graphs(engine.max_side), sizes, st.sampled_from(["u", "v"])), law)


def test_every_vertex_equals_the_definition(engine: BicliqueCase) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int, str]) -> None:
        graph, p, q, anchor = drawn
        got = engine.bicliques(graph, Biclique(p, q), "vertex", anchor=anchor)
        of_u, of_v = count_vertices(edge_list(graph), p, q)
        assert got.total == count_bicliques(edge_list(graph), p, q)
        assert got.vectors["u"].tolist() == [of_u[u] for u in range(graph.n_u)]
        assert got.vectors["v"].tolist() == [of_v[v] for v in range(graph.n_v)]
        assert sum(got.vectors["u"].tolist()) == p * got.total
        assert sum(got.vectors["v"].tolist()) == q * got.total

    graphs = bipartite_graphs(min(engine.max_side, 9))
    engine.check(st.tuples(graphs, st.integers(1, 4), st.integers(1, 4), st.sampled_from(ANCHORS)), law)


def motifs(per: Granularity) -> st.SearchStrategy[Biclique]:
    """Draw a motif of a granularity."""
    one = st.builds(Biclique, sizes, sizes)
    return one | tables() if per == "total" else one


@pytest.mark.parametrize("per", PER)
def test_any_split_folds_to_the_whole(engine: BicliqueCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, Biclique, list[int]]) -> None:
        graph, motif, cuts = drawn
        assert_same(engine.split_bicliques(graph, motif, cuts, per), engine.bicliques(graph, motif, per))

    cuts = st.lists(st.integers(0, engine.max_side), max_size=5)
    engine.check(st.tuples(bipartite_graphs(engine.max_side), motifs(per), cuts), law)


@pytest.mark.parametrize("per", PER)
def test_a_run_that_is_cut_answers_for_the_items_that_it_finished(engine: BicliqueCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, Biclique, list[int], int]) -> None:
        graph, motif, at, patience = drawn
        made, prepared = engine.prepare(graph, motif, per)
        bounds = sorted({each for each in at if 0 < each < prepared.n_items})
        asked = 0

        def cut() -> bool:
            nonlocal asked
            asked += 1
            return asked > patience

        first = made.run(prepared, 0, prepared.n_items, bounds, cut)
        assert 0 <= first.n_items <= prepared.n_items
        assert_same(first, made.run(prepared, 0, first.n_items))
        rest = made.run(prepared, first.n_items, prepared.n_items)
        assert_same(fold_partials(first, rest), made.run(prepared, 0, prepared.n_items))

    cuts = st.lists(st.integers(0, engine.max_side), max_size=5)
    engine.check(st.tuples(bipartite_graphs(engine.max_side), motifs(per), cuts, st.integers(0, 3)), law)


def test_items_come_heaviest_first_and_none_is_counted_twice(engine: BicliqueCase) -> None:
    def law(graph: BipartiteGraph) -> None:
        made, prepared = engine.prepare(graph, Biclique())
        work = made.work(prepared)
        assert work.dtype == np.int64
        assert work.tolist() == sorted(work.tolist(), reverse=True)
        cells: Counter[tuple[int, int]] = Counter()
        for item in range(prepared.n_items):
            cells.update(made.run(prepared, item, item + 1).cells)
        assert cells == count_all(edge_list(graph))

    engine.check(bipartite_graphs(min(engine.max_side, 8)), law)


def transposed(cells: Cells) -> Cells:
    """Return a table of the swapped layers."""
    return {(q, p): count for (p, q), count in cells.items()}


def test_swapping_the_layers_transposes(engine: BicliqueCase) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int]) -> None:
        graph, p, q = drawn
        swapped = graph.swap_layers()
        table = engine.bicliques(graph, Biclique()).cells
        assert engine.bicliques(swapped, Biclique()).cells == transposed(table)
        assert engine.bicliques(swapped, Biclique(q, p)).total == table.get((p, q), 0)
        assert engine.bicliques(swapped, Biclique(q)).cells == transposed(
            engine.bicliques(graph, Biclique(None, q)).cells
        )

    engine.check(st.tuples(bipartite_graphs(engine.max_side), sizes, sizes), law)


def test_swapping_the_layers_swaps_the_vectors(engine: BicliqueCase) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int]) -> None:
        graph, p, q = drawn
        swapped = graph.swap_layers()
        before = engine.bicliques(graph, Biclique(p, q), "vertex").vectors
        after = engine.bicliques(swapped, Biclique(q, p), "vertex").vectors
        np.testing.assert_array_equal(before["u"], after["v"])
        np.testing.assert_array_equal(before["v"], after["u"])

    engine.check(st.tuples(bipartite_graphs(engine.max_side), sizes, sizes), law)


@pytest.mark.parametrize("per", PER)
def test_relabelling_changes_nothing(engine: BicliqueCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, Biclique, int]) -> None:
        graph, motif, seed = drawn
        other, new_u, new_v = relabelled(graph, seed)
        before, after = engine.bicliques(graph, motif, per), engine.bicliques(other, motif, per)
        assert (before.total, before.cells) == (after.total, after.cells)
        if per == "vertex":
            np.testing.assert_array_equal(before.vectors["u"], after.vectors["u"][new_u])
            np.testing.assert_array_equal(before.vectors["v"], after.vectors["v"][new_v])

    seeds = st.integers(0, 2**32 - 1)
    engine.check(st.tuples(bipartite_graphs(engine.max_side), motifs(per), seeds), law)


def test_graphs_beside_each_other_add_up(engine: BicliqueCase) -> None:
    def law(drawn: tuple[BipartiteGraph, BipartiteGraph]) -> None:
        parts = [Counter(engine.bicliques(graph, Biclique()).cells) for graph in drawn]
        assert engine.bicliques(disjoint_union(*drawn), Biclique()).cells == parts[0] + parts[1]

    graphs = bipartite_graphs(engine.max_side)
    engine.check(st.tuples(graphs, graphs), law)


COMPLETE = [
    (1, 1), (1, 9), (9, 1), (2, 2), (2, 5), (5, 5), (4, 70), (70, 4), (66, 130),
    pytest.param(40, 33, marks=pytest.mark.slow),  # the emulator takes longest for it, and for less than for (66, 130)
]  # fmt: skip


@pytest.mark.parametrize(("m", "n"), COMPLETE)
def test_complete_graphs_have_a_closed_form(engine: BicliqueCase, m: int, n: int) -> None:
    engine.need(m * n)
    graph = complete_graph(m, n)
    wanted = {(p, q): comb(m, p) * comb(n, q) for p, q in product(range(1, m + 1), range(1, n + 1))}
    assert engine.bicliques(graph, Biclique()).cells == wanted
    for p, q in ((2, 3), (3, 2), (m, n), (min(m, 3), min(n, 4))):
        assert engine.bicliques(graph, Biclique(p, q)).total == wanted.get((p, q), 0)


@pytest.mark.parametrize(("m", "n"), COMPLETE)
def test_vertices_of_complete_graphs_have_a_closed_form(engine: BicliqueCase, m: int, n: int) -> None:
    engine.need(m * n)
    graph = complete_graph(m, n)
    for p, q in ((2, 3), (3, 2), (min(m, 3), n)):
        vectors = engine.bicliques(graph, Biclique(p, q), "vertex").vectors
        assert vectors["u"].tolist() == [comb(m - 1, p - 1) * comb(n, q) % 2**64] * m
        assert vectors["v"].tolist() == [comb(m, p) * comb(n - 1, q - 1) % 2**64] * n


@pytest.mark.parametrize(("p", "q"), [(50, 50), (199, 2), (2, 199), (100, 100), (200, 200)])
def test_counts_far_beyond_64_bits(engine: BicliqueCase, p: int, q: int) -> None:
    engine.need(10**6)
    assert engine.bicliques(complete_graph(200, 200), Biclique(p, q)).total == comb(200, p) * comb(200, q)


CROWNS = [
    *((8, p, q, algorithm) for (p, q) in ((3, 2), (4, 4)) for algorithm in ALGORITHMS),
    *((90, 3, 20, algorithm) for algorithm in ("auto", "enumerate")),
    (150, 3, 3, "enumerate"),
]
"""Pivot trees of large crowns are beyond any machine: as many leaves as maximal bicliques."""


@pytest.mark.parametrize(("n", "p", "q", "algorithm"), CROWNS)
def test_crowns_have_a_closed_form(engine: BicliqueCase, n: int, p: int, q: int, algorithm: str) -> None:
    engine.need(n**3 // 2)
    assert engine.bicliques(crown_graph(n), Biclique(p, q), algorithm=algorithm).total == count_crown(n, p, q)


@pytest.mark.parametrize("n", [12, 63, 65, 140])
def test_nested_neighbourhoods_have_a_closed_form(engine: BicliqueCase, n: int) -> None:
    """Twins, hubs, and matrices of more than one word either way, with few maximal bicliques."""
    engine.need(n**3)
    graph = nested_graph(n)
    cells = engine.bicliques(graph, Biclique()).cells
    square = range(1, n + 1)
    assert cells == {(p, q): count for p, q in product(square, square) if (count := count_nested(n, p, q))}
    for p, q in ((3, 3), (5, 4), (n // 2, n // 3), (n - 3, 2)):
        for anchor in ("u", "v"):
            assert engine.bicliques(graph, Biclique(p, q), anchor=anchor).total == count_nested(n, p, q)


@pytest.mark.parametrize("n", range(62, 70))
def test_one_word_or_more_on_cpus(n: int) -> None:
    """Matrices of one word have code of their own; from here to there by one row or column at a time."""
    graph, engine = nested_graph(n), make_biclique_case("cpu")
    square = range(1, n + 1)
    wanted = {(p, q): count for p, q in product(square, square) if (count := count_nested(n, p, q))}
    for anchor in ("u", "v"):
        assert engine.bicliques(graph, Biclique(), anchor=anchor).cells == wanted
        assert engine.bicliques(graph, Biclique(5, 4), anchor=anchor, algorithm="pivot").total == wanted[5, 4]
    wide = planted_graph(n, 30, n, blocks=2, block_side=9, noise_edges=150, missing=0.1)
    for p, q in ((3, 3), (4, 2)):
        by_rows = {
            algorithm: engine.bicliques(wide, Biclique(p, q), anchor="u", algorithm=algorithm).total
            for algorithm in ALGORITHMS
        }
        assert len({*by_rows.values()}) == 1, by_rows


NOISY = {
    "blocks": lambda: planted_graph(5, 40, 44, blocks=3, block_side=7, noise_edges=90, missing=0.1),
    "hubs": lambda: skewed_graph(6, 40, 30, 110, exponent=2.5),
    "wide": lambda: skewed_graph(7, 9, 200, 420),
    "tall": lambda: skewed_graph(8, 200, 9, 420),
}


@pytest.mark.parametrize("name", NOISY)
def test_all_ways_agree_with_the_definition_on_noisy_graphs(engine: BicliqueCase, name: str) -> None:
    graph = NOISY[name]()
    engine.need(15_000 if name == "hubs" else 10**5)
    wanted = (
        count_all(edge_list(graph)) if name != "tall" else transposed(count_all([(v, u) for u, v in edge_list(graph)]))
    )
    assert engine.bicliques(graph, Biclique()).cells == wanted
    for (p, q), algorithm in product([(2, 3), (3, 3), (4, 2), (4, 4), (6, 5), (7, 7)], ALGORITHMS):
        got = engine.bicliques(graph, Biclique(p, q), algorithm=algorithm)
        assert got.total == wanted.get((p, q), 0)
        assert_same(
            engine.split_bicliques(graph, Biclique(p, q), [1, 2, 9, 50]),
            engine.bicliques(graph, Biclique(p, q)),
        )


@pytest.mark.parametrize(("p", "q"), [(2, 2), (3, 3), (4, 6), (7, 7)])
def test_both_algorithms_agree_on_larger_graphs(engine: BicliqueCase, p: int, q: int) -> None:
    engine.need(10**7)
    graph = planted_graph(11, 600, 500, blocks=9, block_side=14, noise_edges=4000, missing=0.08)
    wanted = engine.bicliques(graph, Biclique(p)).cells[p, q]
    assert wanted == engine.bicliques(graph, Biclique(max_p=8)).cells[p, q]
    for algorithm, anchor in product(ALGORITHMS, ("u", "v")):
        assert engine.bicliques(graph, Biclique(p, q), algorithm=algorithm, anchor=anchor).total == wanted


@pytest.mark.parametrize(("p", "q"), [(2, 2), (3, 3), (4, 6), (6, 4)])
def test_vertices_sum_to_the_total_on_larger_graphs(engine: BicliqueCase, p: int, q: int) -> None:
    engine.need(10**7)
    graph = planted_graph(11, 600, 500, blocks=9, block_side=14, noise_edges=4000, missing=0.08)
    total = engine.bicliques(graph, Biclique(p, q)).total
    got = engine.bicliques(graph, Biclique(p, q), "vertex")
    assert got.total == total > 0
    assert sum(got.vectors["u"].tolist()) == p * total
    assert sum(got.vectors["v"].tolist()) == q * total


@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("kind", ["skewed", "wide", "tall"])
def test_two_by_two_are_the_butterflies(engine: BicliqueCase, kind: str, per: Granularity) -> None:
    n_u, n_v = {"skewed": (900, 700), "wide": (40, 3000), "tall": (3000, 40)}[kind]
    engine.need(10**6)
    graph = skewed_graph(8, n_u, n_v, 9000, exponent=2.5)
    wanted = oracle.sparse_counts(graph.n_u, graph.n_v, graph.u, graph.v)
    got = engine.bicliques(graph, Biclique(2, 2), per)
    assert got.total == wanted.total > 0
    if per == "vertex":
        np.testing.assert_array_equal(got.vectors["u"], wanted.u.astype(np.uint64))
        np.testing.assert_array_equal(got.vectors["v"], wanted.v.astype(np.uint64))


DEGENERATE = {
    "nothing": graph_of(set(), 0, 0),
    "one layer": graph_of(set(), 5, 0),
    "no edges": graph_of(set(), 4, 7),
    "one edge": graph_of({(2, 1)}, 4, 3),
    "matching": graph_of({(i, i) for i in range(40)}, 40, 40),
    "two stars": graph_of({(0, i) for i in range(9)} | {(i, 9) for i in range(9)}, 9, 10),
    "six-cycle": graph_of({(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)}, 3, 3),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("per", PER)
def test_degenerate_graphs(engine: BicliqueCase, name: str, per: Granularity) -> None:
    graph = DEGENERATE[name]
    edges = edge_list(graph)
    for p, q in ((1, 1), (1, 2), (2, 1), (1, 9), (2, 2), (3, 3), (2, 50)):
        got = engine.bicliques(graph, Biclique(p, q), per)
        of_u, of_v = count_vertices(edges, p, q)
        assert got.total == count_bicliques(edges, p, q)
        if per == "vertex":
            assert got.vectors["u"].tolist() == [of_u[u] for u in range(graph.n_u)]
            assert got.vectors["v"].tolist() == [of_v[v] for v in range(graph.n_v)]


@pytest.mark.parametrize(("p", "q"), [(31, 2), (2, 26), (31, 1), (1, 26), (10**6, 10**6), (31, None), (None, 26)])
def test_sizes_beyond_any_degree_are_answered_at_once(engine: BicliqueCase, p: int | None, q: int | None) -> None:
    made, prepared = engine.prepare(complete_graph(30, 25), Biclique(p, q))
    assert prepared.n_items == 0
    partial = made.run(prepared, 0, 0)
    assert (partial.total, partial.cells) == (0, {})


@pytest.mark.parametrize(("p", "q"), [(1, 3), (3, 1), (1, 40), (1, 1)])
def test_stars_have_a_closed_form(engine: BicliqueCase, p: int, q: int) -> None:
    graph = skewed_graph(3, 300, 250, 2500)
    degrees = (graph.degree_u if p == 1 else graph.degree_v).tolist()
    made, prepared = engine.prepare(graph, Biclique(p, q))
    assert prepared.n_items == 1
    assert made.run(prepared, 0, 1).total == sum(comb(degree, max(p, q)) for degree in degrees)


@pytest.mark.usefixtures("counts_of_any_size")
@pytest.mark.parametrize(("p", "q"), [(1, 3), (3, 1), (1, 40), (1, 1)])
def test_vertices_of_stars_have_a_closed_form(engine: BicliqueCase, p: int, q: int) -> None:
    graph = skewed_graph(3, 300, 250, 2500)
    degrees = (graph.degree_u if p == 1 else graph.degree_v).tolist()
    vectors = engine.bicliques(graph, Biclique(p, q), "vertex").vectors
    if p == 1:
        assert vectors["u"].tolist() == [comb(degree, q) % 2**64 for degree in degrees]
    else:
        assert vectors["v"].tolist() == [comb(degree, p) % 2**64 for degree in degrees]


def test_the_largest_star_needs_all_its_digits(engine: BicliqueCase) -> None:
    graph = complete_graph(1, 3000)
    assert engine.bicliques(graph, Biclique(1, 1500)).total == comb(3000, 1500) > 10**900


def test_isolated_vertices_and_ids_change_nothing(engine: BicliqueCase) -> None:
    edges = {(10, 20), (10, 30), (10, 31), (12, 20), (12, 30), (12, 31), (13, 30)}
    got = engine.bicliques(graph_of(edges, 15, 40), Biclique(2, 2), "vertex")
    assert got.total == 3
    assert {at: count for at, count in enumerate(got.vectors["u"].tolist()) if count} == {10: 3, 12: 3}
    assert {at: count for at, count in enumerate(got.vectors["v"].tolist()) if count} == {20: 2, 30: 2, 31: 2}


def test_twins_answer_alike(engine: BicliqueCase) -> None:
    base = planted_graph(seed=5, n_u=12, n_v=12, blocks=2, block_side=5, noise_edges=30, missing=0.1)
    edges = set(edge_list(base))
    edges |= {(12 + u, v) for u, v in edges if u < 4}
    edges |= {(u, 12) for u, v in edges if v == 3}
    got = engine.bicliques(graph_of(edges, 16, 13), Biclique(3, 2), "vertex")
    assert got.total == count_bicliques(edges, 3, 2)
    assert got.vectors["u"][:4].tolist() == got.vectors["u"][12:].tolist()
    assert got.vectors["v"][3] == got.vectors["v"][12]


def test_signs_are_ignored(engine: BicliqueCase) -> None:
    graph = complete_graph(4, 5)
    signs = np.where(np.arange(20) % 3, 1, -1)
    signed = BipartiteGraph.from_edges(graph.u, graph.v, 4, 5, signs)
    assert_same(engine.bicliques(signed, Biclique()), engine.bicliques(graph, Biclique()))


def test_a_prepared_graph_tells_its_memory(engine: BicliqueCase) -> None:
    small, large = (engine.prepare(complete_graph(n, n), Biclique(3, 3))[1].nbytes for n in (4, 40))
    assert small >= 16 * 4
    assert large - small >= (1600 - 16) * 4


@pytest.mark.parametrize("interval", [(-1, 2), (3, 2), (0, 10**9), (10**9, 10**9)])
def test_intervals_outside_the_items_are_refused(engine: BicliqueCase, interval: tuple[int, int]) -> None:
    made, prepared = engine.prepare(complete_graph(4, 4), Biclique(3, 3))
    with pytest.raises(PapilioError, match=f"{interval[0]}.*{interval[1]}.*{prepared.n_items}"):
        made.run(prepared, *interval)


def test_what_an_algorithm_cannot_count_is_refused(engine: BicliqueCase) -> None:
    graph = complete_graph(3, 3)
    with pytest.raises(UnsupportedError, match="a single size of the anchored layer"):
        engine.prepare(graph, Biclique(), algorithm="enumerate")
    with pytest.raises(UnsupportedError, match="q, as V is anchored"):
        engine.prepare(graph, Biclique(2), algorithm="enumerate", anchor="v")


def test_pivoting_cannot_tell_vertices(engine: BicliqueCase) -> None:
    with pytest.raises(UnsupportedError, match="use 'enumerate' or 'auto'"):
        engine.prepare(complete_graph(3, 3), Biclique(2, 2), "vertex", algorithm="pivot")


def test_other_motifs_graphs_and_granularities_are_refused(engine: BicliqueCase) -> None:
    graph, one = complete_graph(2, 2), Biclique(2, 2)
    refused: list[Any] = [
        ((graph, Butterfly(), "total"), "butterfly"),
        ((UnipartiteGraph.from_edges([0], [1]), one, "total"), "bipartite"),
        ((graph, one, "colour"), "colour"),
        ((graph, one, "edge"), "cannot be counted per 'edge'"),
        ((graph, Biclique(2), "vertex"), "cannot be counted per 'vertex'"),
    ]
    for request, message in refused:
        with pytest.raises(UnsupportedError, match=message):
            engine.engine.prepare(*request)
