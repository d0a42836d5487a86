"""Pairs of a layer beside random graphs of the same degrees: against all such graphs, and samples by definition."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import sqrt
from typing import Any

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels import threads
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.null import small
from papilio.kernels.null.cpu import make_randomizer
from papilio.kernels.null.fitness import solve_chances
from papilio.kernels.null.models import NullModel
from papilio.kernels.project import cpu, sampled
from papilio.kernels.project.sampled import SampledProjectionCpu
from papilio.motifs import Listing, PairSide, Projection
from papilio.registry import load_engine
from tests.tools.pairs import all_pairs
from tests.tools.strategies import complete_graph, graph_of, skewed_graph

Row = tuple[tuple[int, int], tuple[float, ...]]


def list_pairs(
    graph: BipartiteGraph,
    motif: Projection,
    n_threads: int = 1,
    cuts: tuple[int, ...] = (),
    *,
    counted: bool = True,
) -> tuple[dict[tuple[int, int], tuple[float, ...]], Partial]:
    """Return the numbers of each pair that is listed, and the partial of all items, which counting finds too."""
    engine: Any = load_engine(motif, "cpu", n_threads, listing=Listing())
    assert isinstance(engine, SampledProjectionCpu)
    prepared, rows = engine.prepare(graph, motif, "total"), list[Row]()

    def sink(pairs: Any, *numbers: Any, part: int | None = None) -> None:
        columns = zip(*(each.tolist() for each in numbers), strict=True)
        rows.extend(zip(map(tuple, pairs.tolist()), columns, strict=True))

    partial = Partial(0, 0, 0)
    inner = [min(cut, prepared.n_items) for cut in cuts]
    for start, stop in zip([0, *inner], [*inner, prepared.n_items], strict=True):
        partial = fold_partials(partial, engine.run(prepared, start, stop, sink=sink))
    found = dict(rows)
    assert len(found) == len(rows) == partial.total
    if counted:
        counter: Any = load_engine(motif, "cpu", n_threads)
        assert counter.run(counter.prepare(graph, motif, "total"), 0, prepared.n_items) == partial
    return found, partial


@pytest.fixture(params=["at once", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to draw and compare samples: many in a call, in several calls here, and one."""
    if request.param == "one by one":
        monkeypatch.setattr(small, "FEW_WEDGES", -1)
    monkeypatch.setattr(threads, "SERIAL_COST", 1)


def asked(layer: PairSide, min_common: int = 1, samples: int = 50, **others: Any) -> Projection:
    return Projection(layer, min_common, significance="degrees", samples=samples, **{"fdr": 1.0, **others})


def product_of(u: Any, v: Any, shape: tuple[int, int], layer: PairSide) -> NDArray[np.int64]:
    """Return the common neighbours of all pairs of a layer as a square matrix."""
    matrix = np.zeros(shape, np.int64)
    matrix[u, v] = 1
    return matrix @ matrix.T if layer == "u" else matrix.T @ matrix


def common_of(graph: BipartiteGraph, layer: PairSide) -> NDArray[np.int64]:
    return product_of(graph.u, graph.v, (graph.n_u, graph.n_v), layer)


SMALL = {
    "square": graph_of({(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0)}, 3, 3),
    "hub": graph_of({(0, 0), (0, 1), (0, 2), (1, 3), (1, 0), (2, 1), (3, 2)}, 4, 4),
    "few_columns": graph_of({(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (4, 0)}, 5, 3),
    "dense": graph_of({(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 2), (2, 3), (3, 1), (3, 3)}, 4, 4),
}


@pytest.mark.parametrize(("name", "layer"), all_pairs(SMALL, ["u", "v"], share=2))
def test_p_values_are_shares_of_all_graphs_of_the_same_degrees(name: str, layer: PairSide) -> None:
    graph, n = SMALL[name], 1500
    cells = [*product(range(graph.n_u), range(graph.n_v))]
    tails: dict[tuple[int, int], int] = {}
    n_graphs, observed = 0, common_of(graph, layer)
    pairs = [(a, b) for a, b in combinations(range(len(observed)), 2) if observed[a, b]]
    for edges in combinations(cells, graph.n_edges):
        u, v = np.array(edges).T
        if np.array_equal(np.bincount(u, minlength=graph.n_u), graph.degree_u) and np.array_equal(
            np.bincount(v, minlength=graph.n_v), graph.degree_v
        ):
            n_graphs += 1
            drawn = product_of(u, v, (graph.n_u, graph.n_v), layer)
            for pair in pairs:
                tails[pair] = tails.get(pair, 0) + int(drawn[pair] >= observed[pair])
    found, _ = list_pairs(graph, asked(layer, samples=n, seed=5), 2, counted=False)
    assert n_graphs > 2
    assert found.keys() == set(pairs)
    for pair, (common, p) in found.items():
        expected = Fraction(tails[pair], n_graphs)
        assert common == observed[pair]
        spread = sqrt(n * expected * (1 - expected))
        assert abs(p * (n + 1) - 1 - n * expected) <= 4.5 * spread


HUBS = BipartiteGraph.from_edges(
    *np.nonzero(np.random.default_rng(8).random((40, 700)) < np.linspace(0.9, 0.02, 40)[:, None])
)
"""Rows of more than 255 entries, which have counters of their own."""


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("layer", ["u", "v"])
@pytest.mark.parametrize("graph", [skewed_graph(5, 60, 45, 500), HUBS], ids=["skewed", "hubs"])
def test_p_values_are_those_of_the_samples_by_definition(graph: BipartiteGraph, layer: PairSide) -> None:
    n, min_common = 25, 2
    observed = common_of(graph, layer)
    randomizer: Any = make_randomizer(graph, NullModel("degrees"))
    reached = sum((common_of(randomizer.sample(3, i), layer) >= observed).astype(int) for i in range(n))
    found, partial = list_pairs(graph, asked(layer, min_common, n, seed=3, weighting="jaccard"))
    plain = np.argwhere(np.triu(observed, 1) >= min_common).tolist()
    assert len(found) > 10
    assert {*found} == {*map(tuple, plain)}
    degrees = observed.diagonal()
    for (a, b), (common, weight, p) in found.items():
        assert common == observed[a, b]
        assert weight == common / (degrees[a] + degrees[b] - common)
        assert p == (1 + reached[a, b]) / (1 + n)
    assert partial.n_items == 1
    fewer, _ = list_pairs(graph, asked(layer, min_common, n, seed=3, weighting="jaccard", fdr=0.3))
    assert fewer == {pair: row for pair, row in found.items() if row[-1] <= 0.3}
    assert 0 < len(fewer) < len(found)
    other, _ = list_pairs(graph, asked(layer, min_common, n, seed=4))
    assert {pair: row[-1] for pair, row in found.items()} != {pair: row[-1] for pair, row in other.items()}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("cuts", [(), (1, 2, 5)])
def test_neither_threads_nor_groups_nor_splits_change_a_bit(
    cuts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, motif = skewed_graph(6, 120, 90, 1500), asked("u", 2, 30, weighting="resource")
    whole, one = list_pairs(graph, motif)
    monkeypatch.setattr(sampled, "LEAST_ROOM", 300)
    monkeypatch.setattr(sampled, "ROOM_PER_EDGE", 0)
    monkeypatch.setattr(sampled, "BLOCK_ROWS", 7)
    monkeypatch.setattr(cpu, "BLOCK_ROWS", 5)
    for n_threads in (1, 3):
        parts, several = list_pairs(graph, motif, n_threads, cuts)
        assert parts == whole
        assert several.n_items > 5 > one.n_items
        assert several.total == one.total > 1000


def test_a_cut_run_answers_for_its_first_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "LEAST_ROOM", 200)
    monkeypatch.setattr(sampled, "ROOM_PER_EDGE", 0)
    graph, motif, looks = skewed_graph(6, 120, 90, 1500), asked("u", 2, 5), iter(range(99))
    engine = SampledProjectionCpu(1)
    prepared = engine.prepare(graph, motif, "total")
    first = engine.run(prepared, 1, prepared.n_items, cut=lambda: next(looks) >= 3)
    assert first.n_items == 3
    rest = engine.run(prepared, 4, prepared.n_items)
    assert fold_partials(first, rest) == engine.run(prepared, 1, prepared.n_items)
    assert engine.run(prepared, 2, 2) == Partial(0, 0, 0)


def test_p_values_agree_with_an_independent_chain() -> None:
    """Ends of random pairs of edges are switched, where that makes no edge twice."""
    graph, n = skewed_graph(2, 14, 12, 60), 1500
    observed, random = common_of(graph, "u"), np.random.default_rng(9)
    edges = list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    there, reached = set(edges), np.zeros_like(observed)
    for _ in range(n):
        for a, b in random.integers(0, len(edges), (2 * len(edges), 2)).tolist():
            (u1, v1), (u2, v2) = edges[a], edges[b]
            if (u1, v2) not in there and (u2, v1) not in there:
                there -= {(u1, v1), (u2, v2)}
                there |= {(u1, v2), (u2, v1)}
                edges[a], edges[b] = (u1, v2), (u2, v1)
        u, v = np.array(edges).T
        reached += product_of(u, v, (graph.n_u, graph.n_v), "u") >= observed
    found, _ = list_pairs(graph, asked("u", 1, n), 2, counted=False)
    assert len(found) > 30
    for (a, b), (_, p) in found.items():
        share = reached[a, b] / n
        # Successive graphs of the other chain are alike: twice the variance of independent ones
        assert abs((p * (n + 1) - 1) / n - share) < 5 * sqrt(3 * max(share * (1 - share), 0.001) / n)


def test_p_values_are_near_hypergeometric_ones_if_the_other_layer_is_regular() -> None:
    random = np.random.default_rng(1)
    rows = np.concatenate([random.choice(80, 40, replace=False) for _ in range(100)])
    graph = BipartiteGraph.from_edges(rows, np.arange(100).repeat(40), 80, 100)
    assert set(graph.degree_v.tolist()) == {40}
    found, _ = list_pairs(graph, asked("u", 1, 1000), 2, counted=False)
    p_values = np.array([p for _, p in found.values()])
    expected = np.array([
        scipy.stats.hypergeom.sf(common - 1, 100, graph.degree_u[a], graph.degree_u[b])
        for (a, b), (common, _) in found.items()
    ])  # fmt: skip
    assert len(found) > 2000
    apart = np.abs(p_values - expected)
    assert apart.mean() < 0.04
    assert apart.max() < 0.13
    assert np.corrcoef(p_values, expected)[0, 1] > 0.99


def test_graphs_without_another_one_or_without_pairs() -> None:
    found, _ = list_pairs(complete_graph(4, 6), asked("u", 2, 20), 2)
    assert found == dict.fromkeys(combinations(range(4), 2), (6, 1.0))
    engine = SampledProjectionCpu(1)
    prepared = engine.prepare(complete_graph(4, 6), asked("v", 2, 20), "total")
    assert "one realisation" in {what for what, _ in prepared.decisions}
    for graph in (BipartiteGraph.from_edges([], [], 4, 0), graph_of({(0, 0), (1, 1)}, 2, 2)):
        assert list_pairs(graph, asked("u", 1, 5)) == ({}, Partial(0, 0, 0))
    assert list_pairs(complete_graph(3, 4), asked("u", 5, 5))[0] == {}


def test_figures_of_the_package_backbone() -> None:
    """Those in ``tests/testthat/test-backbone.R`` of the R package backbone (Neal, PLoS ONE 17, e0269137, 2022)."""
    graph = graph_of({(0, 0), (0, 2), (0, 3), (1, 1), (2, 0), (2, 3)}, 3, 4)
    found, _ = list_pairs(graph, asked("u", 1, 4000), counted=False)
    assert found == {(0, 2): (2, pytest.approx(0.265, abs=4 * sqrt(0.2 / 1000)))}  # fdsm, of 1,000 trials
    rows: list[Any] = []
    fixed_rows = Projection("u", 1, significance="hypergeometric", fdr=1.0)
    engine: Any = load_engine(fixed_rows, "cpu", 1, listing=Listing())
    prepared = engine.prepare(graph, fixed_rows, "total")
    engine.run(prepared, 0, prepared.n_items, sink=lambda *columns: rows.append([each.tolist() for each in columns]))
    assert rows == [[[[0, 2]], [2], [pytest.approx(0.5)]]]  # fixedrow
    for pair, common, expected in (
        ((0, 0), 3, 0.432),
        ((0, 2), 2, 0.549),
        ((1, 1), 1, 0.304),
        ((2, 2), 2, 0.329),
    ):
        assert refined_tail(by_vertex(graph)[[*pair]].prod(axis=0), common) == pytest.approx(expected, abs=5e-4)  # sdsm
    other = by_vertex(graph_of({(0, 2), (1, 1), (2, 0), (2, 2)}, 3, 3))
    bicm = [[0.216, 0.216, 0.568], [0.216, 0.216, 0.568], [0.568, 0.568, 0.863]]
    assert np.allclose(other, bicm, atol=5e-4)


def refined_tail(chances: NDArray[np.float64], common: int) -> float:
    """Return P(X >= common) of a sum of independent events by the refined normal approximation, which sdsm takes."""
    variance = float((chances * (1 - chances)).sum())
    skewness = float((chances * (1 - chances) * (1 - 2 * chances)).sum()) / variance**1.5
    x, normal = (common - 0.5 - float(chances.sum())) / sqrt(variance), scipy.stats.norm
    return float(1 - normal.cdf(x) - skewness * (1 - x * x) * normal.pdf(x) / 6)


def by_vertex(graph: BipartiteGraph) -> NDArray[np.float64]:
    """Return the probability of each edge in random graphs of the same expected degrees, shape (n_u, n_v)."""
    found = solve_chances(graph)
    class_of = np.repeat(np.arange(found.degrees.size), np.diff(found.offsets))
    places = np.empty(found.members.size, np.int64)
    places[: graph.n_u][found.members[: graph.n_u]] = class_of[: graph.n_u]
    places[graph.n_u :][found.members[graph.n_u :]] = class_of[graph.n_u :]
    return found.chances[np.ix_(places[: graph.n_u], places[graph.n_u :])]
