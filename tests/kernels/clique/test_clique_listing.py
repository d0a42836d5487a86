"""The listers of cliques and of maximal cliques, against their definition."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, RowColumn, UnipartiteGraph
from papilio.kernels import listing as row_blocks
from papilio.kernels.clique.list import CliqueLister
from papilio.kernels.engine import Partial
from papilio.motifs import Clique, Listing, MaximalClique
from papilio.registry import load_engine
from tests.kernels.clique.test_clique import complete, edges_of, graphs, laws, make, random_graph
from tests.kernels.clique.test_maximal import checksum_of
from tests.tools.oracle_clique import cliques_of, maximal_cliques

Row = tuple[int, ...]
Question = Clique | MaximalClique


def expected_rows(graph: UnipartiteGraph, motif: Question, held: Collection[int] = ()) -> set[Row]:
    edges = edges_of(graph)
    if isinstance(motif, Clique):
        found = [clique for clique in cliques_of(graph.n, edges) if len(clique) == motif.k]
    else:
        found = [clique for clique in maximal_cliques(graph.n, edges) if len(clique) >= motif.min_size]
    return {clique for clique in found if set(held) <= set(clique)}


def list_rows(
    graph: UnipartiteGraph,
    motif: Question,
    held: Collection[int] = (),
    limit: int | None = None,
    cuts: Collection[int] = (),
    threads: int = 1,
    **options: str,
) -> tuple[list[Row], list[Partial]]:
    """List all items, in intervals that end at the cuts."""
    made: Any = load_engine(motif, "cpu", threads, listing=Listing(limit, tuple(sorted(held))), **options)
    prepared = made.prepare(graph, motif, "total")
    rows: list[Row] = []

    def sink(column: RowColumn) -> None:
        if isinstance(motif, Clique):
            assert not isinstance(column, tuple)
            assert column.shape == (len(column), motif.k)
            rows.extend(map(tuple, prepared.ids_n[column].tolist()))
        else:
            assert isinstance(column, tuple)
            offsets, values = column
            assert (offsets[0], offsets[-1]) == (0, len(values))
            rows.extend(tuple(prepared.ids_n[values[a:b]].tolist()) for a, b in pairwise(offsets))

    ends = sorted({min(cut, prepared.n_items) for cut in cuts} | {prepared.n_items})
    runs = [made.run(prepared, start, stop, sink=sink) for start, stop in pairwise([0, *ends])]
    assert all(list(row) == sorted(row) for row in rows)
    return rows, runs


QUESTIONS = st.one_of(st.integers(1, 6).map(Clique), st.sampled_from([1, 2, 4]).map(MaximalClique))


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "BLOCK_VALUES", 9)


@pytest.mark.usefixtures("_small_blocks")
def test_every_clique_is_listed_once() -> None:
    @laws(150)
    @given(graphs(11), QUESTIONS, st.sets(st.integers(0, 10), max_size=3), st.data())
    def law(graph: UnipartiteGraph, motif: Question, wanted: set[int], data: st.DataObject) -> None:
        held = {vertex for vertex in wanted if vertex < graph.n}
        expected = expected_rows(graph, motif, held)
        cuts, threads = data.draw(st.lists(st.integers(0, 9), max_size=3)), data.draw(st.integers(1, 2))
        rows, runs = list_rows(graph, motif, held, cuts=cuts, threads=threads)
        assert len(rows) == len(set(rows)) == sum(run.total for run in runs)
        assert set(rows) == expected
        if isinstance(motif, MaximalClique):
            assert sum(run.checksum for run in runs) % (1 << 64) == checksum_of(sorted(expected))
        limit = data.draw(st.integers(1, 12))
        rows, (run,) = list_rows(graph, motif, held, limit)
        assert len(rows) == len(set(rows)) == run.total == min(limit, len(expected))
        assert set(rows) <= expected
        assert run.capped == (limit <= len(expected))

    law()


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("motif", [Clique(1), Clique(2), Clique(4), MaximalClique()], ids=str)
def test_graphs_of_more_than_a_word(motif: Question) -> None:
    graph = random_graph(11, 80, 0.45)
    expected = expected_rows(graph, motif)
    rows, _ = list_rows(graph, motif, cuts=(3, 40))
    assert (len(rows), set(rows)) == (len(expected), expected)
    held = edges_of(graph)[len(edges_of(graph)) // 2]
    rows, _ = list_rows(graph, motif, held)
    among = {row for row in expected if set(held) <= set(row)}
    assert (len(rows), set(rows)) == (len(among), among)


def test_blocks_of_full_size_hold_all_rows() -> None:
    made: Any = load_engine(Clique(5), "cpu", 2, listing=Listing())
    prepared = made.prepare(complete(34), Clique(5), "total")
    found: list[NDArray[np.int32]] = []
    run = made.run(prepared, 0, prepared.n_items, sink=lambda column: found.append(column.copy()))
    rows = np.concatenate(found)
    assert len(found) > 1
    assert len(rows) == len(np.unique(rows @ 34 ** np.arange(5))) == run.total == comb(34, 5)
    assert bool((np.diff(rows, axis=1) > 0).all())
    assert list_rows(complete(300), MaximalClique())[0] == [tuple(range(300))]


def test_the_search_is_restricted_to_what_can_go_with_what_is_held() -> None:
    graph = random_graph(3, 60, 0.3)
    made: Any = load_engine(Clique(4), "cpu", 1, listing=Listing(None, (7,)))
    prepared = made.prepare(graph, Clique(4), "total")
    neighbours = {other for edge in edges_of(graph) if 7 in edge for other in edge} - {7}
    assert set(prepared.ids_n.tolist()) == neighbours | {7}
    assert prepared.n_items <= len(neighbours)
    assert prepared.decisions[0][0].startswith(f"search among {len(neighbours)} vertices and ")


@pytest.mark.parametrize("order", ["degree", "degeneracy"])
def test_any_order_lists_the_same(order: str) -> None:
    graph = random_graph(8, 50, 0.4)
    assert set(list_rows(graph, Clique(4), order=order)[0]) == expected_rows(graph, Clique(4))


def test_vertices_without_edges_and_graphs_without_vertices() -> None:
    graph = make(4, [(1, 2)])
    assert sorted(list_rows(graph, MaximalClique())[0]) == [(0,), (1, 2), (3,)]
    assert list_rows(graph, MaximalClique(), held=[3])[0] == [(3,)]
    assert list_rows(graph, MaximalClique(2), held=[3])[0] == []
    assert list_rows(graph, Clique(1), held=[0])[0] == [(0,)]
    assert list_rows(graph, Clique(2), held=[0, 1])[0] == []
    nothing = UnipartiteGraph(0, np.zeros(0, np.int32), np.zeros(0, np.int32))
    for motif in (Clique(2), MaximalClique()):
        assert list_rows(nothing, motif) == ([], [Partial(0, 0, 0)])


def test_what_a_sink_raises_ends_the_run() -> None:
    made: Any = load_engine(MaximalClique(), "cpu", 2, listing=Listing())
    prepared = made.prepare(random_graph(5, 60, 0.3), MaximalClique(), "total")

    def refuse(column: NDArray[np.int32]) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        made.run(prepared, 0, prepared.n_items, sink=refuse)


def test_what_cannot_be_listed_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'pivot' counts without visiting every clique"):
        load_engine(Clique(3), "cpu", listing=Listing(), algorithm="pivot")
    for motif in (Clique(3), MaximalClique()):
        made: Any = load_engine(motif, "cpu", 1, listing=Listing())
        with pytest.raises(UnsupportedError, match="unipartite"):
            made.prepare(BipartiteGraph.from_edges([0], [0]), motif, "total")
        prepared = made.prepare(complete(3), motif, "total")
        with pytest.raises(InputError, match="not within"):
            made.run(prepared, 0, prepared.n_items + 1)


def test_a_cut_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliqueLister, "serial_cost", 1)
    graph = random_graph(5, 90, 0.3)
    made: Any = load_engine(Clique(3), "cpu", 1, listing=Listing())
    prepared = made.prepare(graph, Clique(3), "total")
    calls = iter(range(10**9))
    part = made.run(prepared, 0, prepared.n_items, (10, 20, 30), lambda: next(calls) >= 3)
    rest = made.run(prepared, part.n_items, prepared.n_items)
    assert 0 < part.n_items < prepared.n_items
    assert part.total + rest.total == len(expected_rows(graph, Clique(3)))
