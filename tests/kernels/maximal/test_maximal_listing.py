"""Listing maximal bicliques: every one asked for is a row, once, whatever the blocks and the split."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import listing as rows
from papilio.kernels.engine import Partial
from papilio.kernels.maximal.cpu import MaximalBicliqueCpu
from papilio.kernels.maximal.list import MaximalBicliqueLister
from papilio.motifs import Biclique, Listing, MaximalBiclique
from tests.kernels.maximal.questions import motifs
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import bipartite_graphs, edge_list, skewed_graph

Row = tuple[tuple[int, ...], tuple[int, ...]]


def list_all(
    graph: BipartiteGraph,
    motif: MaximalBiclique,
    listing: Listing | None = None,
    anchor: str = "auto",
    threads: int = 1,
    bounds: tuple[int, ...] = (),
) -> tuple[list[Row], list[Partial]]:
    """Return the rows of all runs between the bounds, and the partials."""
    engine = MaximalBicliqueLister(threads, listing or Listing(), anchor)
    prepared = engine.prepare(graph, motif, "total")
    found: list[Row] = []

    def sink(u: Any, v: Any) -> None:
        sides = []
        for ids, (offsets, places) in ((prepared.ids_u, u), (prepared.ids_v, v)):
            assert places.max(initial=0) < ids.size
            sides.append([tuple(ids[places[a:b]].tolist()) for a, b in pairwise(offsets.tolist())])
        found.extend(zip(*sides, strict=True))

    n = prepared.n_items
    ends = sorted({0, n, *(min(bound, n) for bound in bounds)})
    partials = [engine.run(prepared, a, b, sink=sink) for a, b in pairwise(ends)]
    return found, partials


@given(
    graph=bipartite_graphs(max_side=10),
    motif=motifs(),
    anchor=st.sampled_from(["u", "v"]),
    bounds=st.lists(st.integers(0, 40), max_size=3).map(tuple),
    held=st.tuples(st.sets(st.integers(0, 9), max_size=2), st.sets(st.integers(0, 9), max_size=2)),
)
@settings(deadline=None)
def test_rows_are_those_of_the_oracle(
    graph: BipartiteGraph,
    motif: MaximalBiclique,
    anchor: str,
    bounds: tuple[int, ...],
    held: tuple[set[int], set[int]],
) -> None:
    with_u = tuple(sorted(id_ for id_ in held[0] if id_ < graph.n_u))
    with_v = tuple(sorted(id_ for id_ in held[1] if id_ < graph.n_v))
    listing = Listing(with_u=with_u, with_v=with_v)
    wanted = {
        (u, v)
        for u, v in maximal_bicliques_of(edge_list(graph))
        if motif.has_cell((len(u), len(v))) and set(with_u) <= set(u) and set(with_v) <= set(v)
    }
    found, partials = list_all(graph, motif, listing, anchor, bounds=bounds)
    assert len(found) == len(wanted) == sum(partial.total for partial in partials)
    assert set(found) == wanted
    if not with_u and not with_v:
        engine = MaximalBicliqueCpu(1)
        prepared = engine.prepare(graph, motif, "total")
        counted = engine.run(prepared, 0, prepared.n_items)
        assert sum(partial.checksum for partial in partials) % 2**64 == counted.checksum


@pytest.mark.parametrize("anchor", ["u", "v"])
def test_a_search_goes_on_where_its_block_was_full(anchor: str) -> None:
    """With blocks of one row the search stops after each: at roots, at children, and below them."""
    graph, motif = skewed_graph(3, 30, 40, 400), MaximalBiclique(min_v=2)
    whole, (partial,) = list_all(graph, motif, anchor=anchor)
    for values in (1, 50):
        with mock.patch.object(rows, "BLOCK_VALUES", values):
            again, (told,) = list_all(graph, motif, anchor=anchor)
            assert again == whole
            assert (told.total, told.checksum, told.work) == (partial.total, partial.checksum, partial.work)
            assert sorted(list_all(graph, motif, anchor=anchor, threads=3)[0]) == sorted(whole)


def test_a_limit_is_met_exactly() -> None:
    graph, motif = skewed_graph(5, 30, 40, 300), MaximalBiclique()
    whole, (partial,) = list_all(graph, motif)
    assert len(set(whole)) == len(whole) == partial.total
    for limit in (1, 7, len(whole) - 1, len(whole)):
        found, (told,) = list_all(graph, motif, Listing(limit))
        assert len(set(found)) == len(found) == told.total == limit
        assert told.capped
        assert set(found) <= set(whole)
    found, (told,) = list_all(graph, motif, Listing(len(whole) + 1))
    assert (len(found), told.capped) == (len(whole), False)


def test_a_run_that_is_cut_at_once_lists_nothing() -> None:
    engine = MaximalBicliqueLister(1, Listing())
    prepared = engine.prepare(skewed_graph(5, 20, 20, 100), MaximalBiclique(), "total")
    told = engine.run(prepared, 0, prepared.n_items, cut=lambda: True, sink=lambda u, v: pytest.fail("a row"))
    assert (told.n_items, told.total) == (0, 0)


def test_another_motif_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot count 'biclique'"):
        MaximalBicliqueLister(1, Listing()).prepare(skewed_graph(5, 20, 20, 100), Biclique(3, 3), "total")
