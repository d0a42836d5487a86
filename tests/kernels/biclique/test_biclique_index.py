"""The index on which both engines search (p,q)-bicliques: what it keeps, in which order, cut into which items."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError, InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique import cpu as biclique
from papilio.kernels.biclique import index as biclique_index
from papilio.kernels.biclique.index import BicliqueIndex, build_biclique_index
from papilio.kernels.biclique.local import make_around, open_root
from papilio.kernels.biclique.question import PAIR_TIMES, count_wedges
from papilio.motifs import Biclique, Granularity
from papilio.registry import load_engine
from tests.conftest import share_of_examples
from tests.tools.oracle_biclique import count_all, count_bicliques
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    planted_graph,
    skewed_graph,
)

MOTIFS = [
    Biclique(2, 2),
    Biclique(3, 2),
    Biclique(1, 3),
    Biclique(None, 2),
    Biclique(3),
    Biclique(),
    Biclique(4, 3),
]


def rows_of(index: BicliqueIndex) -> list[set[int]]:
    """Return the right ids of every left vertex of the index, as original ids."""
    ends = [index.columns[a:b] for a, b in pairwise(index.indptr.tolist())]
    return [set(index.right_ids[row].tolist()) for row in ends]


@settings(max_examples=share_of_examples(60), deadline=None, derandomize=True, database=None)
@given(bipartite_graphs(12), st.sampled_from(MOTIFS), st.sampled_from(["auto", "u", "v"]))
def test_the_index_follows_its_description(graph: BipartiteGraph, motif: Biclique, anchor: str) -> None:
    index = build_biclique_index(graph, motif, 1, anchor)
    if anchor != "auto":
        assert index.anchor == anchor
    neighbours: dict[int, set[int]] = {}
    for u, v in edge_list(graph):
        left, right = (u, v) if index.anchor == "u" else (v, u)
        neighbours.setdefault(left, set()).add(right)
    rows = rows_of(index)
    for x, row in enumerate(rows):
        assert row <= neighbours[int(index.left_ids[x])]
        assert len(row) >= index.sizes.min_right
    degrees = np.bincount(index.columns, minlength=index.n_right)
    assert all(degree >= index.sizes.min_left for degree in degrees.tolist())
    found = {
        (x, int(index.hop[at])): int(index.hop_common[at])
        for x, (a, b) in enumerate(pairwise(index.hop_indptr.tolist()))
        for at in range(a, b)
    }
    assert found == {
        (x, y): len(rows[x] & rows[y])
        for x, y in combinations(range(index.n_left), 2)
        if len(rows[x] & rows[y]) >= index.sizes.min_right
    }
    for a, b in pairwise(index.hop_indptr.tolist()):
        assert index.hop[a:b].tolist() == sorted(index.hop[a:b].tolist())
    if index.n_items and index.item_root[0] >= 0:
        spans = sorted(zip(index.item_first.tolist(), index.item_last.tolist(), strict=True))
        assert spans[0][0] == 0
        assert spans[-1][1] == index.hop.size
        assert all(a[1] == b[0] for a, b in pairwise(spans))
        for root, first, last in zip(index.item_root, index.item_first, index.item_last, strict=True):
            assert index.hop_indptr[root] <= first < last <= index.hop_indptr[root + 1]
    assert (np.diff(index.costs) <= 0).all()
    assert (index.costs >= 1).all()


def test_threads_change_nothing() -> None:
    graph = planted_graph(3, 1500, 1200, blocks=40, block_side=14, noise_edges=9000, missing=0.1)
    one, four = (build_biclique_index(graph, Biclique(3, 3), threads) for threads in (1, 4))
    for name in ("indptr", "columns", "hop_indptr", "hop", "hop_common", "item_root", "item_first", "costs"):
        np.testing.assert_array_equal(getattr(one, name), getattr(four, name))


def test_the_layer_of_which_fewer_are_taken_is_anchored() -> None:
    wide, tall = complete_graph(9, 30), complete_graph(30, 9)
    for graph in (wide, tall):
        assert build_biclique_index(graph, Biclique(2, 5), 1).anchor == "u"
        assert build_biclique_index(graph, Biclique(5, 2), 1).anchor == "v"
        assert build_biclique_index(graph, Biclique(3), 1).anchor == "u"
        assert build_biclique_index(graph, Biclique(None, 3), 1).anchor == "v"
        assert build_biclique_index(graph, Biclique(max_q=2), 1).anchor == "v"
    flat = complete_graph(4, 60)
    assert build_biclique_index(flat, Biclique(None, 3), 1).anchor == "u"
    assert build_biclique_index(flat.swap_layers(), Biclique(3), 1).anchor == "v"
    told = load_engine(Biclique(), "cpu", 1).prepare(flat, Biclique(None, 3), "total")
    assert ("layer U anchored", "pairs of the other layer have many times the wedges") in told.decisions
    assert build_biclique_index(wide, Biclique(3, 3), 1).anchor == "u"
    assert build_biclique_index(tall, Biclique(3, 3), 1).anchor == "v"


def test_enumeration_that_is_asked_for_gets_the_layer_that_it_needs() -> None:
    flat = complete_graph(4, 60)
    engine: Any = load_engine(Biclique(), "cpu", 1, algorithm="enumerate")
    prepared = engine.prepare(flat, Biclique(None, 3), "total")
    assert (prepared.index.anchor, prepared.algorithm) == ("v", "enumerate")
    cells = engine.run(prepared, 0, prepared.n_items).cells
    assert cells == {(p, 3): comb(4, p) * comb(60, 3) for p in range(1, 5)}


def test_a_heavy_root_is_cut_into_items() -> None:
    """One vertex has all of the others' neighbours: alone it holds more than a thousandth part of the work."""
    random = np.random.default_rng(4)
    edges = {(u, int(v)) for u in range(1, 700) for v in random.choice(400, 40, replace=False)}
    edges |= {(0, v) for v in range(400)}
    index = build_biclique_index(graph_of(edges, 700, 400), Biclique(4, 3), 1, "u")
    roots, times = np.unique(index.item_root, return_counts=True)
    assert times.max() > 1
    assert index.costs[0] < index.costs.sum() / 100
    assert roots.size > 1


@pytest.mark.parametrize("motif", [Biclique(2, 3), Biclique(3, 2), Biclique(2), Biclique(max_p=2), Biclique(2, 2)])
def test_pairs_that_are_all_the_answer_are_counted_and_not_kept(motif: Biclique) -> None:
    graph = skewed_graph(5, 12, 60, 260)
    kept = build_biclique_index(graph, motif, 2)
    counted = build_biclique_index(graph, motif, 2, keep_pairs=False)
    assert kept.hop.size > 0 == counted.hop.size
    assert (counted.n_items, counted.item_root[0]) == (1, -1)
    wanted = {
        (p, q): count
        for (p, q), count in count_all(edge_list(graph)).items()
        if motif.p in (None, p) and motif.q in (None, q) and p <= (motif.max_p or p)
    }
    assert counted.closed_cells == wanted
    assert kept.closed_cells == {cell: count for cell, count in wanted.items() if 1 in cell}


def test_unknown_options_and_threads_are_refused() -> None:
    for options, message in (
        ({"threads": 0}, "threads is 0; expected at least 1"),
        ({"algorithm": "guess"}, "'guess'; expected one of auto, enumerate, pivot"),
    ):
        with pytest.raises(InputError, match=message):
            biclique.BicliqueCpu(**options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'w'; expected one of auto, u, v"):
        biclique.BicliqueCpu(anchor="w").prepare(complete_graph(2, 2), Biclique(2, 2), "total")


def test_more_pairs_than_memory_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(biclique_index, "available_bytes", lambda: 12_000)
    graph = complete_graph(50, 50)
    with pytest.raises(CapacityError, match=r"share 3 neighbours; 12000 bytes hold 500 \(24 bytes each\)"):
        build_biclique_index(graph, Biclique(3, 3), 2)
    monkeypatch.setattr(biclique_index, "available_bytes", lambda: 0)
    assert build_biclique_index(graph, Biclique(2, 3), 2, keep_pairs=False).closed_total > 0


def test_tables_of_leaves_grow_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = planted_graph(7, 60, 50, blocks=3, block_side=8, noise_edges=200, missing=0.15)
    engine: Any = load_engine(Biclique(), "cpu", 2)
    prepared = engine.prepare(graph, Biclique(), "total")
    wanted = engine.run(prepared, 0, prepared.n_items)
    monkeypatch.setattr(biclique, "JOB_SLOTS", 4)
    monkeypatch.setattr(biclique, "CHILD_SLOTS", 4)
    assert engine.run(prepared, 0, prepared.n_items).cells == wanted.cells
    assert len(wanted.cells) > 40


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_search_changes_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = planted_graph(seed, 40, 30, blocks=3, block_side=6, noise_edges=90, missing=0.1)
    wanted = count_all(edge_list(graph))
    monkeypatch.setattr(
        biclique_index,
        "order_left",
        lambda rows, pairs: np.random.default_rng(seed).permutation(rows.indptr.size - 1),
    )
    for motif in (Biclique(), Biclique(3), Biclique(None, 4), Biclique(5, 4)):
        engine: Any = load_engine(motif, "cpu", 1)
        prepared = engine.prepare(graph, motif, "total")
        asked = {(p, q): count for (p, q), count in wanted.items() if motif.p in (None, p) and motif.q in (None, q)}
        assert engine.run(prepared, 0, prepared.n_items).total == sum(asked.values())


@pytest.mark.parametrize(
    ("motif", "per"), [(Biclique(), "total"), (Biclique(5, 3), "total"), (Biclique(3, 3), "vertex")]
)
def test_threads_count_alike(motif: Biclique, per: Granularity, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = planted_graph(9, 300, 250, blocks=6, block_side=9, noise_edges=1500, missing=0.1)
    one: Any = load_engine(motif, "cpu", 1)
    prepared = one.prepare(graph, motif, per)
    wanted = one.run(prepared, 0, prepared.n_items)
    monkeypatch.setattr(biclique.BicliqueCpu, "serial_cost", 1)
    monkeypatch.setattr(biclique, "JOB_SLOTS", 64)
    got = biclique.BicliqueCpu(threads=5).run(prepared, 0, prepared.n_items)
    assert (got.n_items, got.total, got.cells) == (wanted.n_items, wanted.total, wanted.cells)
    for name, vector in wanted.vectors.items():
        np.testing.assert_array_equal(got.vectors[name], vector)
    assert wanted.total > 0


def test_dense_roots_are_searched_by_intersection_and_count_alike() -> None:
    """Half of all edges, so that every root is dense; and a matrix that is wider than a word."""
    random = np.random.default_rng(2)
    u, v = np.nonzero(random.random((70, 240)) < 0.5)
    graph = BipartiteGraph.from_edges(u, v, 70, 240)
    engine: Any = load_engine(Biclique(3, 3), "cpu", 1, anchor="u")
    prepared = engine.prepare(graph, Biclique(3, 3), "total")
    around = make_around(prepared.graph)
    root, first = int(prepared.index.item_root[0]), int(prepared.index.item_first[0])
    open_root(prepared.graph, around, root, first)
    assert around.dense[0] == (prepared.index.indptr[root + 1] - prepared.index.indptr[root] + 63) // 64 > 1
    edges = edge_list(graph)
    total = count_bicliques(edges, 3, 3)
    assert engine.run(prepared, 0, prepared.n_items).total == total
    for anchor in ("u", "v"):
        engine = load_engine(Biclique(3, 3), "cpu", 1, anchor=anchor)
        prepared = engine.prepare(graph, Biclique(3, 3), "vertex")
        partial = engine.run(prepared, 0, prepared.n_items)
        assert partial.total == total
        assert sum(partial.vectors["u"].tolist()) == sum(partial.vectors["v"].tolist()) == 3 * total


@pytest.mark.parametrize(
    ("motif", "per", "options", "expected"),
    [
        (Biclique(1, 3), "total", {}, [("no search", "every requested size has a closed form")]),
        (Biclique(2, 3), "total", {}, [("layer U anchored", "only two"), ("pairs counted", "only pairs of")]),
        (Biclique(3, 2), "vertex", {}, [("layer V anchored", "only two"), ("algorithm enumerate", "per vertex")]),
        (Biclique(3), "total", {}, [("layer U anchored", "given size"), ("algorithm enumerate", "one level deep")]),
        (Biclique(), "total", {}, [("layer U anchored", "no more wedges"), ("algorithm pivot", "many sizes")]),
        (Biclique(5, 5), "total", {}, [("layer U anchored", "no more"), ("algorithm enumerate", "are few")]),
        (
            Biclique(3, 3), "total", {"anchor": "v", "algorithm": "pivot"},
            [("layer V anchored", "requested"), ("algorithm pivot", "requested")],
        ),
    ],
)  # fmt: skip
def test_what_was_decided_is_told_with_its_reason(
    motif: Biclique, per: Granularity, options: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    engine: Any = load_engine(motif, "cpu", 1, **options)
    told = engine.prepare(complete_graph(9, 30), motif, per).decisions
    assert len(told) == len(expected)
    for (what, reason), (start, part) in zip(told, expected, strict=True):
        assert what.startswith(start)
        assert part in reason


@pytest.mark.parametrize(
    ("motif", "layer"),
    [(Biclique(2, 3), "layer V"), (Biclique(2, 4), "layer U"), (Biclique(2, 2), "layer V")],
    ids=str,
)
def test_three_of_a_layer_are_searched_where_the_pairs_of_the_other_are_far_more(motif: Biclique, layer: str) -> None:
    u, v = np.nonzero(np.random.default_rng(2).random((200, 6)) < 0.4)
    graph = BipartiteGraph.from_edges(u, v, 200, 6)
    of_u, of_v = count_wedges(graph)
    assert of_u > PAIR_TIMES * of_v
    wanted = count_bicliques(edge_list(graph), motif.p or 0, motif.q or 0)
    for per in ("total", "vertex"):
        engine: Any = load_engine(motif, "cpu", 1)
        prepared = engine.prepare(graph, motif, per)
        assert prepared.decisions[0][0] == f"{layer} anchored"
        assert engine.run(prepared, 0, prepared.n_items).total == wanted
