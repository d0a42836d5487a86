"""Maximal bicliques: against the oracle, against closed forms, and under every split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.kernels.maximal.cpu import MaximalBicliqueCpu
from papilio.kernels.maximal.loops import Stack, grow_stack
from papilio.motifs import Biclique, MaximalBiclique
from tests.conftest import share_of_examples
from tests.kernels.maximal.questions import motifs
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    relabelled,
    skewed_graph,
)

anchors = st.sampled_from(["u", "v"])


def count(
    graph: BipartiteGraph, motif: MaximalBiclique | None = None, anchor: str = "auto", threads: int = 1
) -> Partial:
    engine = MaximalBicliqueCpu(threads, anchor)
    prepared = engine.prepare(graph, motif or MaximalBiclique(), "total")
    return engine.run(prepared, 0, prepared.n_items)


def answer(partial: Partial) -> tuple[int, dict[tuple[int, ...], int], int]:
    return partial.total, partial.cells, partial.checksum


def expect(graph: BipartiteGraph, motif: MaximalBiclique) -> tuple[int, dict[tuple[int, ...], int], int]:
    wanted = [(u, v) for u, v in maximal_bicliques_of(edge_list(graph)) if motif.has_cell((len(u), len(v)))]
    hashes = [hash_rows(np.array([u], np.int32), np.array([v], np.int32)) for u, v in wanted]
    cells = Counter((len(u), len(v)) for u, v in wanted)
    return len(wanted), cells, sum(map(sum_hashes, hashes)) % 2**64


@given(graph=bipartite_graphs(max_side=10), motif=motifs(), anchor=anchors)
@settings(deadline=None)
def test_counts_equal_the_oracle(graph: BipartiteGraph, motif: MaximalBiclique, anchor: str) -> None:
    assert answer(count(graph, motif, anchor)) == expect(graph, motif)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(2, 9),
    n_columns=st.sampled_from([63, 64, 65, 128, 129, 200, 330]),
    missing=st.sampled_from([0.02, 0.2, 0.5, 0.8]),
    turned=st.booleans(),
)
@settings(deadline=None, max_examples=share_of_examples(40))
def test_rows_of_many_words_equal_the_oracle(
    seed: int, n_rows: int, n_columns: int, missing: float, turned: bool
) -> None:
    """Such rows are cut, numbered anew as they become shorter, and at last have one word."""
    present = np.random.default_rng(seed).random((n_rows, n_columns)) >= missing
    graph = graph_of(set(zip(*(ids.tolist() for ids in np.nonzero(present)), strict=True)), n_rows, n_columns)
    motif = MaximalBiclique()
    wanted = expect(graph, motif)
    assert answer(count(graph, motif, "u")) == answer(count(graph, motif, "v")) == wanted
    if turned:
        swapped = {(v, u): n for (u, v), n in wanted[1].items()}
        assert count(graph.swap_layers(), motif).cells == swapped


@given(graph=bipartite_graphs(), seed=st.integers(0, 2**32 - 1), motif=motifs(), anchor=anchors)
@settings(deadline=None)
def test_labels_and_layers_do_not_matter(graph: BipartiteGraph, seed: int, motif: MaximalBiclique, anchor: str) -> None:
    found = count(graph, motif, anchor)
    assert count(relabelled(graph, seed)[0], motif, anchor).cells == found.cells
    turned = MaximalBiclique(motif.min_v, motif.min_u, motif.max_v, motif.max_u)
    assert count(graph.swap_layers(), turned, anchor).cells == {(u, v): n for (v, u), n in found.cells.items()}


@given(graph=bipartite_graphs(), motif=motifs(), cuts=st.lists(st.integers(0, 100), max_size=5))
@settings(deadline=None)
def test_any_split_folds_to_the_whole(graph: BipartiteGraph, motif: MaximalBiclique, cuts: list[int]) -> None:
    engine = MaximalBicliqueCpu(1)
    prepared = engine.prepare(graph, motif, "total")
    n = prepared.n_items
    bounds = sorted({0, n, *(min(cut, n) for cut in cuts)})
    pieces = [engine.run(prepared, a, b) for a, b in pairwise(bounds)] or [engine.run(prepared, 0, n)]
    assert answer(reduce(fold_partials, pieces)) == answer(count(graph, motif))


def test_children_of_a_root_are_divided_among_items(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = skewed_graph(3, 60, 80, 900)
    whole = count(graph)
    for most in (1, 7, 100):
        monkeypatch.setattr("papilio.kernels.biclique.items.LEAST_ITEM_COST", most)
        monkeypatch.setattr("papilio.kernels.biclique.items.ITEMS_PER_JOB", 1 << 40)
        engine = MaximalBicliqueCpu(1)
        prepared = engine.prepare(graph, MaximalBiclique(), "total")
        roots = prepared.index.item_root
        assert len(set(roots.tolist())) < roots.size
        split = [engine.run(prepared, item, item + 1) for item in range(prepared.n_items)]
        assert answer(reduce(fold_partials, split)) == answer(whole)
        assert answer(count(graph, threads=3)) == answer(whole)


@pytest.mark.parametrize("n_columns", [40, 300])
def test_a_search_goes_on_where_its_stack_was_full(n_columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack has room for one word at first, and grows by no more than what is asked for."""
    graph, grown = skewed_graph(3, 40, n_columns, 15 * n_columns), list[int]()
    whole = count(graph)

    def grow_a_little(stack: Stack, n_words: int) -> Stack:
        grown.append(n_words // 2)
        return grow_stack(stack, n_words // 2)

    monkeypatch.setattr("papilio.kernels.maximal.cpu.STACK_WORDS", 1)
    monkeypatch.setattr("papilio.kernels.maximal.cpu.grow_stack", grow_a_little)
    narrow = count(graph)
    assert len(grown) > 5
    assert grown == sorted(set(grown))
    assert (answer(narrow), narrow.work) == (answer(whole), whole.work)


@given(one=bipartite_graphs(max_side=9), two=bipartite_graphs(max_side=9))
@settings(deadline=None, max_examples=share_of_examples(40))
def test_a_disjoint_union_adds(one: BipartiteGraph, two: BipartiteGraph) -> None:
    edges = {*edge_list(one), *((u + one.n_u, v + one.n_v) for u, v in edge_list(two))}
    both = graph_of(edges, one.n_u + two.n_u, one.n_v + two.n_v)
    assert count(both).cells == Counter(count(one).cells) + Counter(count(two).cells)


@given(graph=bipartite_graphs(max_side=9), which=st.integers(0, 100), anchor=anchors)
@settings(deadline=None, max_examples=share_of_examples(40))
def test_a_twin_changes_sizes_and_not_their_number(graph: BipartiteGraph, which: int, anchor: str) -> None:
    if not graph.n_u:
        return
    twin = which % graph.n_u
    edges = {*edge_list(graph), *((graph.n_u, v) for u, v in edge_list(graph) if u == twin)}
    grown = count(graph_of(edges, graph.n_u + 1, graph.n_v), anchor=anchor)
    found = count(graph, anchor=anchor)
    assert grown.total == found.total
    for v in range(1, graph.n_v + 1):
        assert sum(n for (_, size), n in grown.cells.items() if size == v) == sum(
            n for (_, size), n in found.cells.items() if size == v
        )


@pytest.mark.parametrize("anchor", ["u", "v"])
def test_closed_forms(anchor: str) -> None:
    def cells(graph: BipartiteGraph) -> dict[tuple[int, ...], int]:
        return count(graph, anchor=anchor).cells

    assert cells(complete_graph(4, 7)) == {(4, 7): 1}
    assert cells(complete_graph(3, 200)) == {(3, 200): 1}
    n = 9
    crown = count(graph_of({(u, v) for u in range(n) for v in range(n) if u != v}, n, n), anchor=anchor)
    assert crown.total == 2**n - 2
    assert crown.cells[(4, 5)] == 126
    assert cells(graph_of({(i, i) for i in range(5)}, 5, 6)) == {(1, 1): 5}
    assert cells(graph_of(set(), 3, 3)) == cells(graph_of(set(), 0, 0)) == {}


@given(graph=bipartite_graphs())
@settings(deadline=None, max_examples=share_of_examples(40))
def test_corner_cells_are_those_of_the_table_of_all_bicliques(graph: BipartiteGraph) -> None:
    """Where none is larger in either direction, a biclique of that size is maximal, and is counted once."""
    engine = BicliqueCpu(1)
    prepared = engine.prepare(graph, Biclique(), "total")
    every = engine.run(prepared, 0, prepared.n_items).cells
    corners = {(p, q): n for (p, q), n in every.items() if not every.get((p + 1, q)) and not every.get((p, q + 1))}
    found = count(graph).cells
    assert {cell: found.get(cell, 0) for cell in corners} == corners
    assert max(found, default=None) == max(corners, default=None)


def test_sizes_are_those_of_a_filter_of_the_whole() -> None:
    graph = skewed_graph(7, 40, 50, 500)
    every = count(graph).cells
    for min_u, min_v, max_u, max_v in combinations([1, 2, 3, 4, 6, 9], 4):
        motif = MaximalBiclique(min_u, min_v, max_u + min_u, max_v)
        for anchor in ("u", "v"):
            wanted = {cell: n for cell, n in every.items() if motif.has_cell(cell)}
            assert count(graph, motif, anchor).cells == wanted


@pytest.mark.parametrize(
    ("name", "total", "checksum"),
    [
        ("southern-women", 63, 0x6D8D2E29BB5DCF4C),
        ("moreno-crime", 620, 0x7C01AC3954181100),
        ("opsahl-ucforum", 16_261, 0x506B08E0D34E16B8),
        ("bonanza", 54_036, 0x696C4D08FC270361),
        ("marvel", 206_135, 0x198E7178DB01518F),
        pytest.param("youtube-groupmemberships", 1_826_587, 0x5EFD2DD65693C2FA, marks=pytest.mark.slow),
        pytest.param("senate", 19_610_854, 0x67C288E9FDF0C7DC, marks=pytest.mark.slow),
    ],
)
def test_known_answers(name: str, total: int, checksum: int, reference_graph: Callable[[str], BipartiteGraph]) -> None:
    found = count(reference_graph(name), threads=2)
    assert (found.total, found.checksum) == (total, checksum)
