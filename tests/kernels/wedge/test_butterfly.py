"""The laws of the butterfly engines: every one runs on every engine (see the ``engine`` fixture)."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import PapilioError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import GRANULARITIES, Butterfly, Granularity, Motif
from tests.conftest import EngineCase
from tests.tools import oracle
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    planted_graph,
    relabelled,
    skewed_graph,
)


def expected(graph: BipartiteGraph, counts: oracle.Counts, n_items: int, work: int, per: Granularity) -> Partial:
    """Put the oracle's answer into the form of a partial."""
    if per == "vertex":
        vectors = {
            layer: np.array([counts.vertex[layer, at] for at in range(size)], np.uint64)
            for layer, size in (("u", graph.n_u), ("v", graph.n_v))
        }
    elif per == "edge":
        vectors = {"edge": np.array([counts.edge[edge] for edge in edge_list(graph)], np.uint64)}
    else:
        vectors = {}
    return Partial(n_items, counts.total, work, vectors)


def assert_same(got: Partial, wanted: Partial) -> None:
    """Compare partials exactly, types included."""
    assert type(got.total) is int
    assert type(got.work) is int
    assert (got.n_items, got.total, got.work) == (wanted.n_items, wanted.total, wanted.work)
    assert got.vectors.keys() == wanted.vectors.keys()
    for name, vector in wanted.vectors.items():
        assert isinstance(got.vectors[name], np.ndarray)
        assert got.vectors[name].dtype == np.uint64
        np.testing.assert_array_equal(got.vectors[name], vector)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_equals_the_oracle(engine: EngineCase, per: Granularity) -> None:
    def law(graph: BipartiteGraph) -> None:
        edges = edge_list(graph)
        items = oracle.work_items(edges)
        work = sum(item.cost for item in items)
        counts = oracle.count_butterflies(edges)
        assert_same(engine.count(graph, per), expected(graph, counts, len(items), work, per))

    engine.check(bipartite_graphs(engine.max_side), law)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_items_and_their_order_follow_the_definition(engine: EngineCase, per: Granularity) -> None:
    def law(graph: BipartiteGraph) -> None:
        items = oracle.work_items(edge_list(graph))
        prepared = engine.engine.prepare(graph, Butterfly(), per)
        assert prepared.n_items == len(items)
        work = engine.engine.work(prepared)
        assert work.dtype == np.int64
        assert work.tolist() == [item.cost for item in items]
        for at, item in enumerate(items):
            got = engine.engine.run(prepared, at, at + 1)
            assert_same(got, expected(graph, item.counts, 1, item.cost, per))

    engine.check(bipartite_graphs(min(engine.max_side, 9)), law)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_any_split_folds_to_the_whole(engine: EngineCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, list[int]]) -> None:
        graph, cuts = drawn
        assert_same(engine.count_split(graph, per, cuts), engine.count(graph, per))

    cuts = st.lists(st.integers(0, 2 * engine.max_side), max_size=6)
    engine.check(st.tuples(bipartite_graphs(engine.max_side), cuts), law)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_a_run_that_is_cut_answers_for_the_items_that_it_finished(engine: EngineCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, list[int], int]) -> None:
        graph, at, patience = drawn
        prepared = engine.engine.prepare(graph, Butterfly(), per)
        bounds = sorted({each for each in at if 0 < each < prepared.n_items})
        asked = 0

        def cut() -> bool:
            nonlocal asked
            asked += 1
            return asked > patience

        first = engine.engine.run(prepared, 0, prepared.n_items, bounds, cut)
        assert 0 <= first.n_items <= prepared.n_items
        assert_same(first, engine.engine.run(prepared, 0, first.n_items))
        rest = engine.engine.run(prepared, first.n_items, prepared.n_items)
        assert_same(fold_partials(first, rest), engine.engine.run(prepared, 0, prepared.n_items))

    cuts = st.lists(st.integers(0, 2 * engine.max_side), max_size=6)
    engine.check(st.tuples(bipartite_graphs(engine.max_side), cuts, st.integers(0, 3)), law)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_a_run_that_is_cut_at_once_ends_at_once(engine: EngineCase, per: Granularity) -> None:
    graph = skewed_graph(3, 40, 60, 300)
    prepared = engine.engine.prepare(graph, Butterfly(), per)
    n_items = prepared.n_items
    bounds = list(range(1, n_items, max(1, n_items // 8)))
    cut = engine.engine.run(prepared, 0, n_items, bounds, lambda: True)
    assert cut.n_items <= bounds[0]


@pytest.mark.parametrize("per", GRANULARITIES)
def test_relabelling_changes_nothing(engine: EngineCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, int]) -> None:
        graph, seed = drawn
        other, new_u, new_v = relabelled(graph, seed)
        before, after = engine.count(graph, per), engine.count(other, per)
        assert before.total == after.total
        if per == "vertex":
            np.testing.assert_array_equal(before.vectors["u"], after.vectors["u"][new_u])
            np.testing.assert_array_equal(before.vectors["v"], after.vectors["v"][new_v])
        elif per == "edge":
            moved = dict(zip(edge_list(other), after.vectors["edge"].tolist(), strict=True))
            new_edges = [(int(new_u[u]), int(new_v[v])) for u, v in edge_list(graph)]
            assert before.vectors["edge"].tolist() == [moved[edge] for edge in new_edges]

    engine.check(st.tuples(bipartite_graphs(engine.max_side), st.integers(0, 2**32 - 1)), law)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_swapping_the_layers_changes_nothing(engine: EngineCase, per: Granularity) -> None:
    def law(graph: BipartiteGraph) -> None:
        swapped = graph.swap_layers()
        before, after = engine.count(graph, per), engine.count(swapped, per)
        assert before.total == after.total
        if per == "vertex":
            np.testing.assert_array_equal(before.vectors["u"], after.vectors["v"])
            np.testing.assert_array_equal(before.vectors["v"], after.vectors["u"])
        elif per == "edge":
            support = dict(zip(edge_list(swapped), after.vectors["edge"].tolist(), strict=True))
            assert before.vectors["edge"].tolist() == [support[v, u] for u, v in edge_list(graph)]

    engine.check(bipartite_graphs(engine.max_side), law)


def test_vertices_and_edges_sum_to_four_times_the_total(engine: EngineCase) -> None:
    def law(graph: BipartiteGraph) -> None:
        total = engine.count(graph).total
        vertex, edge = engine.count(graph, "vertex"), engine.count(graph, "edge")
        assert vertex.total == edge.total == total
        assert sum(vertex.vectors["u"].tolist()) == sum(vertex.vectors["v"].tolist()) == 2 * total
        assert sum(edge.vectors["edge"].tolist()) == 4 * total

    engine.check(bipartite_graphs(engine.max_side), law)


@pytest.mark.parametrize(
    ("m", "n"), [(1, 1), (1, 9), (2, 2), (2, 3), (3, 2), (5, 5), (4, 60), (70, 3), (33, 31), (300, 280)]
)
@pytest.mark.parametrize("per", GRANULARITIES)
def test_complete_graphs_have_a_closed_form(engine: EngineCase, m: int, n: int, per: Granularity) -> None:
    engine.need(m * n * min(m, n))
    got = engine.count(complete_graph(m, n), per)
    assert got.total == comb(m, 2) * comb(n, 2)
    if per == "vertex":
        assert got.vectors["u"].tolist() == [(m - 1) * comb(n, 2)] * m
        assert got.vectors["v"].tolist() == [(n - 1) * comb(m, 2)] * n
    elif per == "edge":
        assert got.vectors["edge"].tolist() == [(m - 1) * (n - 1)] * (m * n)


DEGENERATE = {
    "nothing": graph_of(set(), 0, 0),
    "one layer": graph_of(set(), 5, 0),
    "no edges": graph_of(set(), 4, 7),
    "one edge": graph_of({(2, 1)}, 4, 3),
    "path": graph_of({(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)}, 3, 3),
    "matching": graph_of({(i, i) for i in range(40)}, 40, 40),
    "star of u": graph_of({(0, i) for i in range(70)}, 1, 70),
    "star of v": graph_of({(i, 0) for i in range(70)}, 70, 1),
    "two stars": graph_of({(0, i) for i in range(9)} | {(i, 9) for i in range(9)}, 9, 10),
    "six-cycle": graph_of({(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)}, 3, 3),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("per", GRANULARITIES)
def test_graphs_without_butterflies(engine: EngineCase, name: str, per: Granularity) -> None:
    graph = DEGENERATE[name]
    got = engine.count(graph, per)
    items = oracle.work_items(edge_list(graph))
    work = sum(item.cost for item in items)
    assert_same(got, expected(graph, oracle.Counts(), len(items), work, per))


@pytest.mark.parametrize("per", GRANULARITIES)
def test_isolated_vertices_change_nothing(engine: EngineCase, per: Granularity) -> None:
    edges = {(10, 20), (10, 30), (12, 20), (12, 30), (13, 30)}
    got = engine.count(graph_of(edges, 15, 40), per)
    counts = oracle.count_butterflies(edges)
    assert got.total == 1
    n_items = len(oracle.work_items(edges))
    assert_same(got, expected(graph_of(edges, 15, 40), counts, n_items, got.work, per))


@pytest.mark.parametrize("per", GRANULARITIES)
def test_twins_answer_alike(engine: EngineCase, per: Granularity) -> None:
    """Vertices with one neighbourhood have one count, and so have their edges to one neighbour."""
    base = planted_graph(seed=5, n_u=12, n_v=12, blocks=2, block_side=5, noise_edges=30, missing=0.1)
    edges = set(edge_list(base))
    twins = edges | {(12 + u, v) for u, v in edges if u < 4} | {(u, 12) for u, v in edges if v == 3}
    graph = graph_of(twins | {(12 + u, 12) for u, v in edges if u < 4 and v == 3}, 16, 13)
    got = engine.count(graph, per)
    assert got.total == oracle.count_butterflies(edge_list(graph)).total
    if per == "vertex":
        assert got.vectors["u"][:4].tolist() == got.vectors["u"][12:].tolist()
        assert got.vectors["v"][3] == got.vectors["v"][12]
    elif per == "edge":
        support = dict(zip(edge_list(graph), got.vectors["edge"].tolist(), strict=True))
        assert all(support[u, v] == support[12 + u, v] for u, v in support if u < 4)


LARGER = {
    "planted": lambda: planted_graph(7, 300, 260, blocks=6, block_side=18, noise_edges=2500, missing=0.05),
    "skewed": lambda: skewed_graph(8, 900, 700, 9000, exponent=2.5),
    "wide": lambda: skewed_graph(9, 40, 5000, 12000),
    "tall": lambda: skewed_graph(10, 5000, 40, 12000),
}
SMALLER = {
    "planted": lambda: planted_graph(11, 40, 36, blocks=2, block_side=7, noise_edges=120, missing=0.1),
    "skewed": lambda: skewed_graph(12, 60, 50, 300, exponent=2.5),
    "wide": lambda: skewed_graph(13, 6, 150, 350),
    "tall": lambda: skewed_graph(14, 150, 6, 350),
}


@pytest.mark.parametrize("kind", LARGER)
@pytest.mark.parametrize("per", GRANULARITIES)
def test_equals_sparse_products_on_larger_graphs(engine: EngineCase, kind: str, per: Granularity) -> None:
    graph = (SMALLER if engine.name == "emulator" else LARGER)[kind]()
    wanted = oracle.sparse_counts(graph.n_u, graph.n_v, graph.u, graph.v)
    got = engine.count(graph, per)
    assert got.total == wanted.total > 0
    if per == "vertex":
        np.testing.assert_array_equal(got.vectors["u"], wanted.u.astype(np.uint64))
        np.testing.assert_array_equal(got.vectors["v"], wanted.v.astype(np.uint64))
    elif per == "edge":
        np.testing.assert_array_equal(got.vectors["edge"], wanted.edge.astype(np.uint64))
    assert_same(engine.count_split(graph, per, [1, 2, 17, 100]), got)


@pytest.mark.parametrize(
    ("per", "swap"),
    [
        *((per, False) for per in GRANULARITIES), ("total", True),
        *(pytest.param(per, True, marks=pytest.mark.slow) for per in ("vertex", "edge")),  # the layers exchanged only
    ],
)  # fmt: skip
def test_one_pair_beyond_32_bits(engine: EngineCase, per: Granularity, swap: bool) -> None:
    """Two vertices share n neighbours: C(n, 2) passes 2^32, for the pair and for each of the two."""
    n = 93_000
    engine.need(2 * n)
    graph = complete_graph(n, 2) if swap else complete_graph(2, n)
    got = engine.count(graph, per)
    assert got.total == comb(n, 2) > 2**32
    if per == "vertex":
        hubs, others = ("v", "u") if swap else ("u", "v")
        assert got.vectors[hubs].tolist() == [comb(n, 2)] * 2
        assert got.vectors[others].tolist() == [n - 1] * n
    elif per == "edge":
        assert got.vectors["edge"].tolist() == [n - 1] * (2 * n)


def test_vertices_beyond_32_bits_that_are_not_a_single_pair(engine: EngineCase) -> None:
    m, n = 40, 15_000
    engine.need(m * m * n)
    got = engine.count(complete_graph(m, n), "vertex")
    assert got.vectors["u"].tolist() == [(m - 1) * comb(n, 2)] * m
    assert got.vectors["u"].tolist()[0] > 2**32
    assert got.vectors["v"].tolist() == [(n - 1) * comb(m, 2)] * n


def test_signs_are_ignored(engine: EngineCase) -> None:
    graph = complete_graph(4, 5)
    signs = np.where(np.arange(20) % 3, 1, -1)
    signed = BipartiteGraph.from_edges(graph.u, graph.v, 4, 5, signs)
    assert_same(engine.count(signed, "edge"), engine.count(graph, "edge"))


def test_a_prepared_graph_tells_its_memory(engine: EngineCase) -> None:
    small = engine.engine.prepare(complete_graph(3, 3), Butterfly(), "total")
    large = engine.engine.prepare(complete_graph(30, 30), Butterfly(), "total")
    assert small.nbytes >= 9 * 4
    assert large.nbytes - small.nbytes >= (900 - 9) * 4


@pytest.mark.parametrize("interval", [(-1, 2), (3, 2), (0, 10**9), (10**9, 10**9)])
def test_intervals_outside_the_items_are_refused(engine: EngineCase, interval: tuple[int, int]) -> None:
    prepared = engine.engine.prepare(complete_graph(4, 4), Butterfly(), "total")
    with pytest.raises(PapilioError, match=f"{interval[0]}.*{interval[1]}.*{prepared.n_items}"):
        engine.engine.run(prepared, *interval)


def test_other_motifs_graphs_and_granularities_are_refused(engine: EngineCase) -> None:
    class Triangle(Motif):
        name = "triangle"

    graph = complete_graph(2, 2)
    with pytest.raises(UnsupportedError, match="triangle"):
        engine.engine.prepare(graph, Triangle(), "total")
    with pytest.raises(UnsupportedError, match="bipartite"):
        engine.engine.prepare(UnipartiteGraph.from_edges([0], [1]), Butterfly(), "total")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="colour"):
        engine.engine.prepare(graph, Butterfly(), "colour")  # type: ignore[arg-type]
