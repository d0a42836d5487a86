"""The listing of bicliques on the CPU, against their definition."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from papilio.errors import ExecutionError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import listing as row_blocks
from papilio.kernels.biclique import list as biclique_listing
from papilio.kernels.biclique.list import BicliqueLister
from papilio.kernels.engine import Partial
from papilio.kernels.probe import cut_strata, draw_items
from papilio.motifs import Biclique, Butterfly, Listing
from tests.conftest import share_of_examples
from tests.tools.strategies import bipartite_graphs

Row = tuple[tuple[int, ...], tuple[int, ...]]


def bicliques_by_definition(graph: BipartiteGraph, p: int, q: int) -> set[Row]:
    edges = set(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    return {
        (us, vs)
        for us in combinations(range(graph.n_u), p)
        for vs in combinations(sorted({v for _, v in edges}), q)
        if all((u, v) in edges for u in us for v in vs)
    }


def list_rows(
    lister: BicliqueLister, graph: BipartiteGraph, p: int, q: int, cuts: Collection[int] = ()
) -> tuple[list[Row], list[Partial]]:
    """List all items, in intervals that end at the cuts."""
    prepared = lister.prepare(graph, Biclique(p, q), "total")
    rows: list[Row] = []

    def sink(u: NDArray[np.int32], v: NDArray[np.int32]) -> None:
        assert u.shape == (len(u), p)
        assert v.shape == (len(u), q)
        pairs = zip(prepared.ids_u[u].tolist(), prepared.ids_v[v].tolist(), strict=True)
        rows.extend((tuple(us), tuple(vs)) for us, vs in pairs)

    ends = sorted({min(cut, prepared.n_items) for cut in cuts} | {prepared.n_items})
    starts = [0, *ends[:-1]]
    runs = [lister.run(prepared, start, stop, sink=sink) for start, stop in zip(starts, ends, strict=True)]
    return rows, runs


@st.composite
def questions(draw: st.DrawFn) -> tuple[BipartiteGraph, int, int, set[int], set[int]]:
    graph = draw(bipartite_graphs(max_side=7))
    p, q = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    with_u = draw(st.sets(st.sampled_from(range(graph.n_u)), max_size=p)) if graph.n_u else set()
    with_v = draw(st.sets(st.sampled_from(range(graph.n_v)), max_size=q)) if graph.n_v else set()
    return graph, p, q, with_u, with_v


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "BLOCK_VALUES", 9)


@pytest.mark.usefixtures("small_blocks")
def test_every_biclique_is_listed_once() -> None:
    @settings(max_examples=share_of_examples(120), deadline=None, derandomize=True, database=None)
    @given(
        questions(),
        st.sampled_from(["u", "v", "auto"]),
        st.integers(1, 2),
        st.lists(st.integers(0, 9), max_size=3),
    )
    def law(question: Any, anchor: str, threads: int, cuts: list[int]) -> None:
        graph, p, q, with_u, with_v = question
        expected = {
            (us, vs)
            for us, vs in bicliques_by_definition(graph, p, q)
            if set(with_u) <= set(us) and set(with_v) <= set(vs)
        }
        listing = Listing(None, tuple(sorted(with_u)), tuple(sorted(with_v)))
        lister = BicliqueLister(threads, listing, anchor=anchor)
        rows, runs = list_rows(lister, graph, p, q, cuts)
        assert sum(run.total for run in runs) == len(rows) == len(set(rows))
        assert set(rows) == expected
        assert not any(run.capped for run in runs)

    law()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("p", "q"), [(1, 3), (3, 1), (2, 3), (3, 3), (4, 2)])
def test_a_limit_cuts_exactly(p: int, q: int) -> None:
    graph = BipartiteGraph.from_edges(np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6))
    there_are = comb(6, p) * comb(5, q)
    everything = bicliques_by_definition(graph, p, q)
    for limit in (1, 7, there_are - 1, there_are, there_are + 1):
        rows, (run,) = list_rows(BicliqueLister(2, Listing(limit)), graph, p, q)
        assert len(rows) == len(set(rows)) == run.total == min(limit, there_are)
        assert set(rows) <= everything
        assert run.capped == (limit <= there_are)


def test_a_run_that_is_cut_lists_its_first_items_alone() -> None:
    graph = BipartiteGraph.from_edges(np.repeat(np.arange(60), 40), np.tile(np.arange(40), 60))
    lister = BicliqueLister(2, Listing())
    prepared = lister.prepare(graph, Biclique(2, 2), "total")
    assert prepared.n_items > 4
    found: list[NDArray[np.int32]] = []
    answers = iter([False, False] + [True] * 1000)

    def sink(u: NDArray[np.int32], v: NDArray[np.int32]) -> None:
        found.append(np.hstack((u, v)))

    bounds = range(1, prepared.n_items)
    first = lister.run(prepared, 0, prepared.n_items, bounds, lambda: next(answers), sink)
    assert 0 < first.n_items < prepared.n_items
    rest = lister.run(prepared, first.n_items, prepared.n_items, sink=sink)
    rows = np.concatenate(found)
    assert len(rows) == first.total + rest.total == comb(60, 2) * comb(40, 2)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_all_threads_end_when_one_fails() -> None:
    graph = BipartiteGraph.from_edges(np.repeat(np.arange(40), 40), np.tile(np.arange(40), 40))
    lister = BicliqueLister(2, Listing())
    prepared = lister.prepare(graph, Biclique(10, 10), "total")
    blocks = 0

    def fail(u: NDArray[np.int32], v: NDArray[np.int32]) -> None:
        nonlocal blocks
        blocks += 1
        if blocks in (1, 100):
            raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        lister.run(prepared, 0, prepared.n_items, sink=fail)
    assert blocks < 100, "the other thread went on"


def test_costs_fall_and_tell_the_rows_of_a_star() -> None:
    graph = BipartiteGraph.from_edges([0] * 30 + [1] * 3, [*range(30), 0, 1, 2])
    lister = BicliqueLister(None, Listing())
    prepared = lister.prepare(graph, Biclique(1, 3), "total")
    costs = lister.work(prepared)
    assert (np.diff(costs) <= 0).all()
    assert costs.sum() == comb(30, 3) + comb(3, 3) + graph.n_edges
    assert prepared.nbytes > 0


def test_rows_that_go_missing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(biclique_listing, "_expect_rows", lambda *args: 13)
    graph = BipartiteGraph.from_edges(np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3))
    with pytest.raises(ExecutionError, match=r"listed 12 rows of items .* but counted 13"):
        list_rows(BicliqueLister(1, Listing()), graph, 2, 3)


def test_what_cannot_be_listed_is_refused() -> None:
    graph = BipartiteGraph.from_edges([0, 1], [0, 1])
    with pytest.raises(InputError, match="threads is 0"):
        BicliqueLister(0, Listing())
    with pytest.raises(UnsupportedError, match="cannot count 'butterfly'"):
        BicliqueLister(None, Listing()).prepare(graph, Butterfly(), "total")
    assert list_rows(BicliqueLister(None, Listing()), graph, 2, 2) == ([], [Partial(0, 0, 0)])
    lister = BicliqueLister(None, Listing())
    prepared = lister.prepare(graph, Biclique(1, 1), "total")
    with pytest.raises(InputError, match="not within"):
        lister.run(prepared, 0, 5)


@pytest.mark.parametrize("listing", [Listing(), Listing(with_u=(3,)), Listing(with_v=(1, 2))])
def test_probes_expect_the_rows(listing: Listing) -> None:
    random = np.random.default_rng(2)
    graph = BipartiteGraph.from_edges(*np.nonzero(random.random((20, 24)) < np.linspace(0.5, 0.95, 20)[:, None]))
    lister, motif = BicliqueLister(1, listing), Biclique(3, 4)
    prepared = lister.prepare(graph, motif, "total")
    rows = lister.run(prepared, 0, prepared.n_items).total
    lots = lister.prober(prepared).lots
    bounds = cut_strata(lots)
    found = []
    for seed in range(300):
        drawn = draw_items(lots, bounds, np.full(bounds.size - 1, 2), seed)
        walked = lister.prober(prepared).walk(drawn.items, drawn.seeds)
        assert walked.members.sum() == pytest.approx(7 * walked.motifs.sum())
        found.append(float((walked.motifs * drawn.weights).sum()))
    assert rows > 100
    assert abs(np.mean(found) - rows) < 4 * np.std(found) / np.sqrt(len(found))


def test_stars_are_not_probed() -> None:
    lister = BicliqueLister(1, Listing())
    graph = BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1])
    with pytest.raises(UnsupportedError, match="stars"):
        lister.prober(lister.prepare(graph, Biclique(1, 2), "total"))
