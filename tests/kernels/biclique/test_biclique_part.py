"""Bicliques counted by parts of a graph: on every engine, their sum is what the whole graph has."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import Biclique, Granularity
from papilio.parts import RootPart
from papilio.registry import load_engine
from tests.conftest import ENGINES
from tests.kernels.biclique.cases import ALGORITHMS, BicliqueCase, make_biclique_case
from tests.tools.oracle_biclique import count_all, count_bicliques, count_vertices
from tests.tools.root_parts import count_parts, cut_by_definition, group_at_random
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, planted_graph, skewed_graph

ONE_SIZE = [Biclique(*size) for size in [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 4)]]
TABLES = [Biclique(), Biclique(3), Biclique(None, 2), Biclique(2), Biclique(max_p=2), Biclique(1, max_q=3)]

LAYERS = ("u", "v")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> BicliqueCase:
    """Each engine in turn: Numba, the CUDA sources on the emulator, the CUDA sources on a GPU."""
    return make_biclique_case(request.param)


@st.composite
def cut_graphs(draw: st.DrawFn, max_side: int) -> tuple[BipartiteGraph, Any, list[list[int]]]:
    """Draw a graph, the layer of the roots and their groups."""
    graph = draw(bipartite_graphs(max_side))
    layer = draw(st.sampled_from(LAYERS))
    return graph, layer, group_at_random(graph, layer, draw(st.integers(1, 4)), draw(st.integers(0, 99)))


def core_of(motif: Biclique, layer: str, reduces: bool) -> tuple[int, int] | None:
    """Return the least sides of what a motif searches for, anchored first; None where stars forbid a core."""
    p, q = motif.p or 1, motif.q or 1
    if not reduces or p == 1 or q == 1:
        return None
    return (p, q) if layer == "u" else (q, p)


def is_asked(motif: Biclique, p: int, q: int) -> bool:
    """Return whether a cell is among those that the motif asks for."""
    fits_p, fits_q = motif.p in (None, p), motif.q in (None, q)
    return fits_p and fits_q and p <= (motif.max_p or p) and q <= (motif.max_q or q)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_parts_add_up_to_the_definition(engine: BicliqueCase, algorithm: str) -> None:
    def law(drawn: tuple[tuple[BipartiteGraph, Any, list[list[int]]], Biclique, bool]) -> None:
        (graph, layer, groups), motif, reduces = drawn
        parts = cut_by_definition(graph, layer, groups, core_of(motif, layer, reduces))
        got = count_parts(engine.make(algorithm=algorithm), graph, parts, motif)
        assert got.total == count_bicliques(edge_list(graph), motif.p or 0, motif.q or 0)

    graphs = cut_graphs(engine.max_side)
    engine.check(st.tuples(graphs, st.sampled_from(ONE_SIZE), st.booleans()), law)


def test_tables_of_parts_add_up_to_the_definition(engine: BicliqueCase) -> None:
    def law(drawn: tuple[tuple[BipartiteGraph, Any, list[list[int]]], Biclique]) -> None:
        (graph, layer, groups), motif = drawn
        wanted = {cell: n for cell, n in count_all(edge_list(graph)).items() if is_asked(motif, *cell)}
        got = count_parts(engine.engine, graph, cut_by_definition(graph, layer, groups), motif)
        assert got.cells == wanted
        assert got.total == sum(wanted.values())

    engine.check(st.tuples(cut_graphs(engine.max_side), st.sampled_from(TABLES)), law)


def test_vertices_of_parts_add_up_to_the_definition(engine: BicliqueCase) -> None:
    def law(drawn: tuple[tuple[BipartiteGraph, Any, list[list[int]]], Biclique, bool]) -> None:
        (graph, layer, groups), motif, reduces = drawn
        assert motif.p
        assert motif.q
        parts = cut_by_definition(graph, layer, groups, core_of(motif, layer, reduces))
        got = count_parts(engine.engine, graph, parts, motif, "vertex")
        of_u, of_v = count_vertices(edge_list(graph), motif.p, motif.q)
        assert got.total == count_bicliques(edge_list(graph), motif.p, motif.q)
        assert got.vectors["u"].tolist() == [of_u[u] for u in range(graph.n_u)]
        assert got.vectors["v"].tolist() == [of_v[v] for v in range(graph.n_v)]

    graphs = cut_graphs(min(engine.max_side, 9))
    engine.check(st.tuples(graphs, st.sampled_from(ONE_SIZE), st.booleans()), law)


def parts_of(graph: BipartiteGraph, n_groups: int = 3, layer: Any = "u") -> list[RootPart]:
    """Cut a graph into parts of random roots."""
    return cut_by_definition(graph, layer, group_at_random(graph, layer, n_groups, 5))


def fold_all(partials: list[Partial]) -> Partial:
    """Fold at least one partial."""
    folded = partials[0]
    for each in partials[1:]:
        folded = fold_partials(folded, each)
    return folded


def assert_same(got: Partial, wanted: Partial) -> None:
    """Compare answers exactly; work may be counted otherwise."""
    assert (got.n_items, got.total, got.cells) == (wanted.n_items, wanted.total, wanted.cells)
    assert got.vectors.keys() == wanted.vectors.keys()
    for name, vector in wanted.vectors.items():
        np.testing.assert_array_equal(got.vectors[name], vector)


@pytest.mark.parametrize(
    ("motif", "per"),
    [
        (Biclique(3, 3), "total"), (Biclique(2, 2), "total"), (Biclique(), "total"), (Biclique(1, 2), "total"),
        (Biclique(2, 2), "vertex"), (Biclique(4, 3), "vertex"), (Biclique(2, 1), "vertex"),
    ],
)  # fmt: skip
def test_any_split_of_the_items_and_any_cut_add_up_to_the_part(
    engine: BicliqueCase, motif: Biclique, per: Granularity
) -> None:
    graph = planted_graph(2, 14, 12, 2, 6, 20, 0.1)
    part = parts_of(graph, 2, LAYERS[(motif.p or 0) % 2])[0]
    made, prepared = engine.prepare(part, motif, per)
    n = prepared.n_items
    assert made.work(prepared).shape == (n,)
    assert (made.work(prepared) >= 1).all()
    whole = made.run(prepared, 0, n)
    ends = [0, 1, n // 2, n]
    assert_same(fold_all([made.run(prepared, a, b) for a, b in pairwise(ends)]), whole)
    first = made.run(prepared, 0, n, [1, n // 2], lambda: True)
    assert first.n_items <= n
    assert_same(first, made.run(prepared, 0, first.n_items))


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_roots_of_many_pieces_are_counted_whole_when_a_run_is_cut(
    engine: BicliqueCase, per: Granularity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papilio.kernels.biclique.items.LEAST_ITEM_COST", 1)
    monkeypatch.setattr("papilio.kernels.biclique.items.ITEMS_PER_JOB", 1 << 40)
    monkeypatch.setattr("papilio.kernels.biclique.cpu.BicliqueCpu.serial_cost", 1)
    n = 5
    (part,) = parts_of(complete_graph(n, 5), 1)
    made, prepared = engine.prepare(part, Biclique(3, 3), per)
    assert prepared.index.item_root.size == n * (n - 1) // 2
    assert prepared.n_items == n
    counted = [made.run(prepared, item, item + 1).total for item in range(n)]
    assert sorted(counted) == sorted((n - 1 - i) * (n - 2 - i) // 2 * 10 for i in range(n))
    for patience in (0, 2):
        asked = 0

        def cut(patience: int = patience) -> bool:
            nonlocal asked
            asked += 1
            return asked > patience

        first = made.run(prepared, 0, n, [1, 3, 4], cut)
        assert first.total == sum(counted[: first.n_items])
        rest = made.run(prepared, first.n_items, n)
        assert first.total + rest.total == sum(counted)


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_a_part_without_a_biclique_has_items_without_work(engine: BicliqueCase, per: Granularity) -> None:
    graph = BipartiteGraph.from_edges([0, 1, 2], [0, 1, 2], 4, 4)
    for part in parts_of(graph, 1):
        made, prepared = engine.prepare(part, Biclique(2, 2), per)
        assert made.work(prepared).tolist() == [1] * part.roots.size
        got = made.run(prepared, 0, prepared.n_items)
        assert (got.n_items, got.total) == (part.roots.size, 0)


@pytest.mark.parametrize("motif", [Biclique(3, 3), Biclique(2, 3), Biclique()])
def test_one_part_of_all_roots_is_the_whole_graph(engine: BicliqueCase, motif: Biclique) -> None:
    graph = skewed_graph(4, 20, 24, 110)
    for layer in LAYERS:
        (part,) = parts_of(graph, 1, layer)
        made, prepared = engine.prepare(part, motif)
        _, whole = engine.prepare(graph, motif, anchor=layer)
        got, wanted = (
            made.run(prepared, 0, prepared.n_items),
            engine.make(anchor=layer).run(whole, 0, whole.n_items),
        )
        assert (got.total, got.cells) == (wanted.total, wanted.cells)
        assert got.total > 0
        assert int(made.work(prepared).sum()) >= int(made.work(whole).sum())


def test_preparing_and_running_leave_a_part_as_it_is(engine: BicliqueCase) -> None:
    for part in parts_of(skewed_graph(4, 20, 24, 110)):
        arrays = (part.graph.u, part.graph.v, part.ids_u, part.ids_v, part.roots, part.work)
        before = [each.copy() for each in arrays]
        staged = engine.engine.stage(part)
        assert isinstance(staged, RootPart)
        for given, per in product((part, staged), ("total", "vertex")):
            made, prepared = engine.prepare(given, Biclique(3, 2), per)
            made.run(prepared, 0, prepared.n_items)
        for each, was in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(each, was)


def test_a_staged_part_counts_as_the_one_on_the_host(engine: BicliqueCase) -> None:
    for layer, per in product(LAYERS, ("total", "vertex")):
        for part in parts_of(planted_graph(3, 12, 12, 2, 5, 20, 0.1), 2, layer)[1:]:
            for motif in (Biclique(3, 3), Biclique(3, 1)):
                made, prepared = engine.prepare(part, motif, per)
                _, staged = engine.prepare(engine.engine.stage(part), motif, per)
                assert_same(made.run(staged, 0, staged.n_items), made.run(prepared, 0, prepared.n_items))


def test_the_part_says_which_layer_is_anchored(engine: BicliqueCase) -> None:
    graph = skewed_graph(4, 20, 24, 110)
    for layer, other in (LAYERS, LAYERS[::-1]):
        part = parts_of(graph, layer=layer)[0]
        for anchor in ("auto", layer):
            _, prepared = engine.prepare(part, Biclique(3, 3), anchor=anchor)
            told = dict(prepared.decisions)
            assert told[f"layer {layer.upper()} anchored"] == "the roots of the part are in this layer"
        with pytest.raises(UnsupportedError, match=rf"anchor is '{other}', .* has roots in layer {layer.upper()}"):
            engine.prepare(part, Biclique(3, 3), anchor=other)


def test_enumeration_of_a_side_without_a_size_is_refused(engine: BicliqueCase) -> None:
    part = parts_of(complete_graph(5, 5))[0]
    with pytest.raises(UnsupportedError, match="needs a single size of the anchored layer"):
        engine.prepare(part, Biclique(None, 3), algorithm="enumerate")


def test_roots_in_another_order_are_items_in_another_order() -> None:
    engine: Any = load_engine(Biclique(3, 3), "cpu", 1)
    (part,) = parts_of(planted_graph(2, 24, 20, 2, 7, 40, 0.1), 1)
    turned = replace(part, roots=part.roots[::-1].copy(), work=part.work[::-1].copy())
    counts = []
    for each in (part, turned):
        prepared = engine.prepare(each, Biclique(3, 3), "total")
        counts.append([engine.run(prepared, i, i + 1).total for i in range(prepared.n_items)])
    assert counts[0] == counts[1][::-1]
    assert sum(counts[0]) > 0
