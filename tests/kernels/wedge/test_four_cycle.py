"""The engine of 4-cycles: its work items, and graphs whose cycles another count knows."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels import exact
from papilio.kernels.engine import Engine, Partial
from papilio.kernels.wedge.cycles import index_layer
from papilio.motifs import Butterfly, FourCycle, Granularity
from papilio.registry import load_engine
from tests.kernels.clique.test_clique import complete, edges_of, graphs, laws


@pytest.fixture(params=[1, 3])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The engine with one thread, and with several."""
    return load_engine(FourCycle(), "cpu", request.param)


def count(engine: Engine, graph: UnipartiteGraph, per: Granularity = "vertex") -> Partial:
    prepared = engine.prepare(graph, FourCycle(), per)
    return engine.run(prepared, 0, prepared.n_items)


def test_a_cycle_belongs_to_the_vertex_opposite_its_first_one(engine: Engine) -> None:
    @laws(60)
    @given(graphs(9))
    def run(graph: UnipartiteGraph) -> None:
        around: list[set[int]] = [set() for _ in range(graph.n)]
        for a, b in edges_of(graph):
            around[a].add(b)
            around[b].add(a)
        order = sorted(range(graph.n), key=lambda vertex: (-len(around[vertex]), vertex))
        place = {vertex: at for at, vertex in enumerate(order)}
        ends = {w: [a for m in around[w] for a in around[m] if place[a] < min(place[m], place[w])] for w in order}
        items = sorted((w for w in order if ends[w] and len(around[w]) > 1), key=lambda w: -len(ends[w]))
        prepared = engine.prepare(graph, FourCycle(), "total")
        assert prepared.index.order_v[prepared.index.items].tolist() == items
        for at, w in enumerate(items):
            got = engine.run(prepared, at, at + 1)
            cycles = sum(comb(ends[w].count(a), 2) for a in set(ends[w]))
            assert (got.total, got.work, engine.work(prepared)[at]) == (cycles, len(ends[w]), len(ends[w]))

    run()


@pytest.mark.parametrize(("n", "n_edges"), [(900, 20_000), (3000, 9000)], ids=["dense", "sparse"])
def test_the_double_cover_has_twice_as_many_butterflies(engine: Engine, n: int, n_edges: int) -> None:
    """A cycle is two pairs of opposite vertices, either of which may be in U; starts have more than 255 neighbours.

    Each direction of an edge of the cycle is in one of the two butterflies.
    """
    ends = (n * np.random.default_rng(n).random((2, n_edges)) ** 3).astype(np.int64)
    graph = UnipartiteGraph.from_edges(*ends, n)
    assert graph.degree.max() > 255
    both = np.concatenate((graph.u, graph.v)), np.concatenate((graph.v, graph.u))
    butterflies, cover = load_engine(Butterfly(), "cpu", 2), BipartiteGraph.from_edges(*both, n, n)
    for per in ("vertex", "edge"):
        prepared = butterflies.prepare(cover, Butterfly(), per)
        wanted, got = butterflies.run(prepared, 0, prepared.n_items), count(engine, graph, per)
        assert wanted.total == 2 * got.total > 0
        vectors = {"n": wanted.vectors["u"]} if per == "vertex" else {"edge": wanted.vectors["edge"][cover.u < cover.v]}
        assert list(got.vectors) == list(vectors)
        for name, vector in vectors.items():
            np.testing.assert_array_equal(got.vectors[name], vector)
    least = np.minimum(graph.degree[graph.u], graph.degree[graph.v])
    assert 0 < index_layer(graph).costs.sum() <= least.sum()


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 300, 701])
def test_a_complete_graph_has_three_of_each_four_vertices(engine: Engine, n: int) -> None:
    got = count(engine, complete(n))
    assert (got.total, got.vectors["n"].tolist()) == (3 * comb(n, 4), [3 * comb(n - 1, 3) if n else 0] * n)
    if n < 400:
        of_edges = count(engine, complete(n), "edge").vectors["edge"]
        assert of_edges.tolist() == [(n - 2) * (n - 3)] * comb(n, 2)


def test_counts_per_vertex_that_could_wrap_are_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vertex of K(5) is in 3 C(4, 3) = 12 cycles; its 12 wedges with 3 other middles each bound these by 18."""
    monkeypatch.setattr(exact, "MAX_VERTEX_COUNT", 18)
    assert count(engine, complete(5)).total == 15
    monkeypatch.setattr(exact, "MAX_VERTEX_COUNT", 17)
    with pytest.raises(CapacityError, match=r"could be in 18 4-cycles; .*: count the total or per edge instead"):
        count(engine, complete(5))
    assert count(engine, complete(5), "total").total == 15
