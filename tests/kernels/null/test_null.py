"""Null models on CPUs: every graph that may be drawn is as likely as its model says, and no other one is drawn."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, product
from math import ceil
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.null import fitness
from papilio.kernels.null.cpu import Randomizer, RowTrades, make_randomizer
from papilio.kernels.null.ensemble import Ensemble
from papilio.kernels.null.fitness import draw_independent, make_skips, solve_chances
from papilio.kernels.null.loops import MAX_BINS, find_smallest, layer_of
from papilio.kernels.null.models import DEFAULT_STEPS, NULL_NAMES, NullModel, count_trades
from papilio.motifs import Butterfly, Clique
from papilio.question import Question
from papilio.tasks.job import job_of
from papilio.tasks.memory import predict_memory
from tests.tools.strategies import bipartite_graphs, complete_graph, graph_of, skewed_graph

Edges = frozenset[tuple[int, int]]


def edges_of(graph: Any) -> Edges:
    return frozenset(zip(graph.u.tolist(), graph.v.tolist(), strict=True))


def with_signs(graph: BipartiteGraph, n_negative: int) -> BipartiteGraph:
    sign = np.where(np.arange(graph.n_edges) < n_negative, -1, 1)
    return BipartiteGraph.from_edges(graph.u, graph.v, graph.n_u, graph.n_v, sign)


def unipartite(n: int, *edges: tuple[int, int]) -> UnipartiteGraph:
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return UnipartiteGraph.from_edges(pairs[:, 0], pairs[:, 1], n)


def degrees_of(graph: Any) -> list[list[int]]:
    if isinstance(graph, UnipartiteGraph):
        return [graph.degree.tolist()]
    return [graph.degree_u.tolist(), graph.degree_v.tolist()]


def all_graphs(graph: Any, keeps: Callable[[Any], Hashable]) -> set[Edges]:
    """Return the edges of all graphs of the same size for which something is the same."""
    if isinstance(graph, UnipartiteGraph):
        cells = list(combinations(range(graph.n), 2))
        made = [unipartite(graph.n, *edges) for edges in combinations(cells, graph.n_edges)]
        return {edges_of(one) for one in made if keeps(one) == keeps(graph)}
    cells = list(product(range(graph.n_u), range(graph.n_v)))
    found = (graph_of(set(edges), graph.n_u, graph.n_v) for edges in combinations(cells, graph.n_edges))
    return {edges_of(one) for one in found if keeps(one) == keeps(graph)}


def check_uniform(drawn: Iterable[Hashable], possible: set[Any]) -> None:
    """Check that all that is possible is drawn about as often, and nothing else: one time in 10,000 by chance."""
    times = Counter(drawn)
    assert times.keys() <= possible
    expected = times.total() / len(possible)
    assert expected > 5
    distance = sum((times[one] - expected) ** 2 for one in possible) / expected
    assert distance < scipy.stats.chi2.isf(1e-4, len(possible) - 1)


SMALL: dict[str, Any] = {
    "square": graph_of({(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0)}, 3, 3),
    "hub": graph_of({(0, 0), (0, 1), (0, 2), (1, 3), (1, 0), (2, 1), (3, 2)}, 4, 4),
    "few_columns": graph_of({(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (4, 0)}, 5, 3),
    "isolated": graph_of({(0, 1), (2, 3), (2, 1), (3, 4)}, 5, 5),
    "full_row": graph_of({(0, 0), (0, 1), (0, 2), (1, 0), (2, 1), (3, 2)}, 4, 3),
    "path": unipartite(5, (0, 1), (1, 2), (2, 3), (3, 4)),
    "two_triangles": unipartite(6, (0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)),
    "odd": unipartite(7, (0, 1), (0, 2), (0, 3), (4, 5), (1, 5)),
}


@pytest.mark.parametrize("name", SMALL)
def test_all_graphs_of_the_same_degrees_are_as_likely(name: str) -> None:
    graph = SMALL[name]
    possible = all_graphs(graph, lambda one: str(degrees_of(one)))
    assert len(possible) > 2
    randomizer = make_randomizer(graph, NullModel("degrees", 30))
    check_uniform((edges_of(randomizer.sample(7, i)) for i in range(40 * len(possible))), possible)


@pytest.mark.parametrize("name", ["square", "few_columns", "path", "odd"])
def test_a_long_chain_visits_all_graphs_as_often(name: str) -> None:
    """States that are five trades apart, of one chain; that a trade is its own reverse makes the limit uniform."""
    graph = SMALL[name]
    possible = all_graphs(graph, lambda one: str(degrees_of(one)))
    chain = make_randomizer(graph, NullModel("degrees")).chain(3, 0, range(400 * len(possible) + 1))
    check_uniform([edges_of(one) for one in chain][5::5], possible)


@pytest.mark.parametrize("graph", [SMALL["square"], graph_of({(0, 0), (0, 5), (1, 2)}, 2, 6), SMALL["path"]])
def test_all_graphs_of_as_many_edges_are_as_likely(graph: Any) -> None:
    possible = all_graphs(graph, lambda one: 0)
    randomizer = make_randomizer(graph, NullModel("edges"))
    check_uniform((edges_of(randomizer.sample(11, i)) for i in range(12 * len(possible))), possible)


def test_a_dense_graph_is_drawn_by_its_missing_edges() -> None:
    cells = set(product(range(3), range(4)))
    for graph, n_cells in ((graph_of(cells - {(1, 2), (0, 3)}, 3, 4), 12), (unipartite(5, *[
        (a, b) for a, b in combinations(range(5), 2) if (a, b) not in ((0, 1), (2, 4), (3, 4))
    ]), 10)):  # fmt: skip
        assert 2 * graph.n_edges > n_cells
        possible = all_graphs(graph, lambda one: 0)
        randomizer: Any = make_randomizer(graph, NullModel("edges"))
        check_uniform((edges_of(randomizer.sample(2, i)) for i in range(40 * len(possible))), possible)


def test_all_placements_of_signs_are_as_likely() -> None:
    graph = with_signs(SMALL["hub"], 3)
    randomizer = make_randomizer(graph, NullModel("signs"))
    samples = [randomizer.sample(5, i) for i in range(2000)]
    assert all(np.array_equal(one.u, graph.u) and np.array_equal(one.v, graph.v) for one in samples)
    negative = [frozenset(np.flatnonzero(one.sign == -1).tolist()) for one in samples]
    check_uniform(negative, {frozenset(edges) for edges in combinations(range(7), 3)})


@pytest.mark.parametrize("name", ["hub", "full_row", "path", "odd"])
def test_independent_edges_have_their_probabilities(name: str) -> None:
    """Every edge exists as often as it must, within four standard errors, and pairs of edges are independent."""
    graph = SMALL[name]
    randomizer: Any = make_randomizer(graph, NullModel("expected-degrees"))
    n_samples, is_bipartite = 4000, isinstance(graph, BipartiteGraph)
    drawn = np.zeros((n_samples, graph.n_u, graph.n_v))
    for i in range(n_samples):
        sample = randomizer.sample(1, i)
        sample.validate()
        drawn[i, sample.u, sample.v] = 1
    found = randomizer.chances
    class_of = np.repeat(np.arange(found.degrees.size), np.diff(found.offsets))
    places = [np.argsort(layer) for layer in np.split(found.members, [graph.n_u])[: 1 + is_bipartite]]
    rows, columns = (
        (class_of[places[0]], class_of[graph.n_u :][places[1]]) if is_bipartite else (class_of[places[0]],) * 2
    )
    wanted = found.chances[np.ix_(rows, columns)]
    if not is_bipartite:
        wanted = np.triu(wanted, 1)
    errors = np.sqrt(wanted * (1 - wanted) / n_samples)
    assert (np.abs(drawn.mean(axis=0) - wanted) <= 4 * errors).all()
    free = drawn.reshape(n_samples, -1)[:, (errors > 0).ravel()]
    correlation = np.corrcoef(free.T) - np.eye(free.shape[1])
    assert np.abs(correlation).max() < 4.5 / n_samples**0.5


@pytest.mark.parametrize("seed", range(6))
def test_expected_degrees_are_those_of_the_graph(seed: int) -> None:
    for graph in (
        skewed_graph(seed, 60, 40, 300 + 150 * seed),
        UnipartiteGraph.from_edges(*np.random.default_rng(seed).integers(0, 50, (2, 200 + 100 * seed)) ** 2 // 50),
    ):
        found = solve_chances(graph)
        assert np.abs(found.expect_degrees() - found.degrees).max() < 1e-8
        assert found.expect_edges() == pytest.approx(graph.n_edges, abs=1e-6)
        if isinstance(graph, BipartiteGraph):
            sizes = np.diff(found.offsets)
            assert (found.chances[: found.n_u_classes, : found.n_u_classes] == 0).all()
            chances = found.chances[: found.n_u_classes, found.n_u_classes :]
            assert sizes[: found.n_u_classes] @ chances @ sizes[found.n_u_classes :] == pytest.approx(graph.n_edges)
            inside = chances[((chances > 1e-6) & (chances < 1 - 1e-6)).all(axis=1)]
            odds = np.log(inside / (1 - inside))
            assert np.allclose(odds - odds[:1], (odds - odds[:1])[:, :1], atol=1e-5)  # products of fitnesses


@pytest.mark.parametrize("is_bipartite", [True, False])
def test_the_solver_takes_no_more_memory_than_predicted(is_bipartite: bool) -> None:
    chance = np.add.outer(np.arange(500), np.arange(500)) / 1000
    found = np.random.default_rng(0).random((500, 500)) < chance
    graph: Any = (
        BipartiteGraph.from_edges(*np.nonzero(found))
        if is_bipartite
        else UnipartiteGraph.from_edges(*np.nonzero(np.triu(found, 1)))
    )
    solve_chances(SMALL["square" if is_bipartite else "path"])  # compiles
    tracemalloc.start()
    n_classes = solve_chances(graph).degrees.size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    motif = Butterfly() if is_bipartite else Clique(3)
    ensembles = (Ensemble(null, 0, 9, 0) for null in ("expected-degrees", "edges"))
    with_solver, without = (
        predict_memory(job_of(graph, Question(motif, "total", ensemble=each)), "cpu").host_bytes for each in ensembles
    )
    assert 4.5 < peak / (8 * n_classes**2) < 5.2
    assert peak < with_solver - without < 10 * peak


def test_probabilities_of_regular_graphs() -> None:
    found = solve_chances(SMALL["square"])
    assert found.chances[0, 1] == pytest.approx(2 / 3, abs=1e-9)
    found = solve_chances(SMALL["two_triangles"])
    assert found.chances[0, 0] == pytest.approx(2 / 5, abs=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_the_solution_is_that_of_the_package_bicm() -> None:
    bicm = pytest.importorskip("bicm", reason="bicm is not installed; it solves the same model")
    graph = skewed_graph(3, 30, 25, 160)
    matrix = np.zeros((30, 25), int)
    matrix[graph.u, graph.v] = 1
    theirs = bicm.BipartiteGraph(biadjacency=matrix)
    theirs.solve_tool(verbose=False, tol=1e-10)
    found = solve_chances(graph)
    class_of = np.repeat(np.arange(found.degrees.size), np.diff(found.offsets))
    rows, columns = (class_of[np.argsort(found.members[:30])], class_of[30:][np.argsort(found.members[30:])])
    assert np.allclose(found.chances[np.ix_(rows, columns)], theirs.get_bicm_matrix(), atol=1e-6)


def test_samples_without_room_are_drawn_again() -> None:
    """The edges that have room are the first ones, and all are counted."""
    found = solve_chances(skewed_graph(3, 30, 25, 160))
    given = (found.members, found.offsets, found.n_u_classes, True, found.chances, make_skips())
    full = np.empty((2, 1000), np.int32)
    short = np.empty((2, 10), np.int32)
    n_found = draw_independent(np.uint64(5), *given, *full)
    assert 100 < n_found < 220
    assert draw_independent(np.uint64(5), *given, *short) == n_found
    assert np.array_equal(short, full[:, :10])


def test_skips_have_a_geometric_distribution() -> None:
    """Thresholds of bits: exact rationals for the first, the mean of all is that of failures before a success."""
    skips = make_skips()
    assert not skips[0].any()
    assert int(skips[1, 0]) == (1 << 64) // 3
    assert int(skips[2, 1]) == (9 << 64) // 25
    for shift in (1, 5, 20, 50):
        mean = sum(int(skips[shift, bit]) / 2**64 * 2**bit for bit in range(shift + 7))
        assert mean == pytest.approx(2**shift - 1, rel=1e-12)


@given(bipartite_graphs(), st.integers(0, 2**64 - 1), st.sampled_from(NULL_NAMES))
def test_every_sample_is_a_simple_graph_of_its_model(graph: BipartiteGraph, seed: int, name: Any) -> None:
    if name == "signs":
        graph = with_signs(graph, graph.n_edges // 3)
    randomizer = make_randomizer(graph, NullModel(name))
    sample = randomizer.sample(seed, 3)
    sample.validate()
    assert (type(sample), sample.n_u, sample.n_v) == (type(graph), graph.n_u, graph.n_v)
    assert sample.signed == (name == "signs")
    if name != "expected-degrees":
        assert sample.n_edges == graph.n_edges
    if name in ("degrees", "signs"):
        assert degrees_of(sample) == degrees_of(graph)
    if name == "signs":
        assert np.count_nonzero(sample.sign == -1) == graph.n_edges // 3
    if randomizer.has_one_realisation():
        assert edges_of(sample) == edges_of(graph)


@given(st.integers(0, 12), st.data())
def test_every_unipartite_sample_is_a_simple_graph_of_its_model(n: int, data: st.DataObject) -> None:
    cells = list(combinations(range(n), 2))
    graph = unipartite(n, *data.draw(st.sets(st.sampled_from(cells)) if cells else st.just(set())))
    for name in NULL_NAMES[:3]:
        randomizer: Any = make_randomizer(graph, NullModel(name))
        sample = randomizer.sample(data.draw(st.integers(0, 99)), 0)
        sample.validate()
        assert (type(sample), sample.n) == (type(graph), graph.n)
        if name != "expected-degrees":
            assert sample.n_edges == graph.n_edges
        if name == "degrees":
            assert degrees_of(sample) == degrees_of(graph)
        if randomizer.has_one_realisation():
            assert edges_of(sample) == edges_of(graph)


def test_graphs_with_one_realisation_are_all_found() -> None:
    """By counting the realisations of every small bipartite and unipartite graph."""
    shapes: list[tuple[list[Any], int]] = []
    cells = list(product(range(3), range(3)))
    shapes += [([graph_of(set(e), 3, 3) for e in combinations(cells, m)], m) for m in range(10)]
    pairs = list(combinations(range(5), 2))
    shapes += [([unipartite(5, *e) for e in combinations(pairs, m)], m) for m in range(11)]
    for graphs, _ in shapes:
        times = Counter(str(degrees_of(one)) for one in graphs)
        for graph in graphs:
            is_one = make_randomizer(graph, NullModel("degrees")).has_one_realisation()
            assert is_one == (times[str(degrees_of(graph))] == 1)


def test_other_models_with_one_realisation() -> None:
    full, empty = complete_graph(3, 4), graph_of(set(), 3, 4)
    for graph in (full, empty, UnipartiteGraph.from_edges([0, 0, 1], [1, 2, 2]), unipartite(0)):
        for name in NULL_NAMES[:3]:
            randomizer: Any = make_randomizer(graph, NullModel(name))
            assert randomizer.has_one_realisation()
            assert edges_of(randomizer.sample(1, 2)) == edges_of(graph)
    for n_negative in (0, 12):
        assert make_randomizer(with_signs(full, n_negative), NullModel("signs")).has_one_realisation()
    nested = graph_of({(0, 0), (0, 1), (1, 0)}, 2, 2)
    assert solve_chances(nested).is_certain
    for one, name in (
        (SMALL["hub"], "edges"),
        (SMALL["hub"], "expected-degrees"),
        (SMALL["path"], "degrees"),
    ):
        assert not make_randomizer(one, NullModel(name)).has_one_realisation()
    assert not make_randomizer(with_signs(full, 5), NullModel("signs")).has_one_realisation()


@pytest.mark.parametrize("name", ["hub", "few_columns", "odd"])
def test_a_chain_passes_through_its_samples(name: str) -> None:
    graph = SMALL[name]
    states = list(make_randomizer(graph, NullModel("degrees")).chain(4, 9, range(7)))
    assert len(states) == 7
    assert states[0] == graph if isinstance(graph, BipartiteGraph) else edges_of(states[0]) == edges_of(graph)
    for steps in range(1, 7):
        sample = make_randomizer(graph, NullModel("degrees", steps)).sample(4, 9)
        assert edges_of(sample) == edges_of(states[steps])
    some = make_randomizer(graph, NullModel("degrees")).chain(4, 9, (2, 3, 6))
    assert [edges_of(one) for one in some] == [edges_of(states[steps]) for steps in (2, 3, 6)]


@pytest.mark.parametrize("name", NULL_NAMES)
def test_samples_depend_on_the_seed_and_the_number_alone(name: Any) -> None:
    graph = with_signs(skewed_graph(5, 40, 30, 200), 60)
    before = edges_of(graph)
    randomizer = make_randomizer(graph, NullModel(name))
    wanted = [randomizer.sample(8, i) for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda i: randomizer.sample(8, i), reversed(range(24))))[::-1]
    assert wanted == again
    assert wanted[3] == make_randomizer(graph, NullModel(name)).sample(8, 3)
    everything = [(edges_of(one), None if one.sign is None else tuple(one.sign)) for one in wanted]
    assert len(set(everything)) == 24
    assert randomizer.sample(9, 0) != wanted[0]
    assert edges_of(graph) == before


def test_both_layers_trade_by_turns() -> None:
    assert [layer_of(trade) for trade in range(9)] == [0, 1, 1, 0, 0, 1, 1, 0, 0]
    graph = graph_of({(u, 0) for u in range(5)} | {(0, 1), (1, 2), (2, 3)}, 5, 4)
    trades = RowTrades(graph, NullModel("degrees"))
    assert [active.tolist() for _, active in trades._layers] == [[0, 1, 2, 3, 4], [1, 2, 3]]


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_hub_forgets_its_neighbours_within_the_default_steps(is_turned: bool) -> None:
    """Were only rows of the hub's layer to trade, three entries at a time, it would keep 82 % of them."""
    edges = {(0, v) for v in range(300)}
    edges |= {(1 + i % 300, int(v)) for i, v in enumerate(np.random.default_rng(1).integers(0, 600, 900))}
    graph = graph_of(edges, 301, 600)
    if is_turned:
        graph = graph.swap_layers()
    means, errors = [], []
    for steps in (DEFAULT_STEPS, 10 * DEFAULT_STEPS):
        trades = RowTrades(graph, NullModel("degrees", steps))
        assert trades.trades_per_step == 1
        samples = (edges_of(trades.sample(steps, i)) for i in range(60))
        kept = [sum((v, 0) in one if is_turned else (0, v) in one for v in range(300)) for one in samples]
        means.append(np.mean(kept))
        errors.append(np.var(kept) / 60)
    assert abs(means[0] - means[1]) < 4 * sum(errors) ** 0.5
    assert means[0] < 0.75 * 300


def test_a_step_has_as_many_trades_as_the_degrees_need() -> None:
    """By the rates of all pairs of degrees; many for hubs among short rows, which trades change slowly."""
    sparse = skewed_graph(1, 4000, 3000, 8000, 5.0)
    assert count_trades(sparse) == find_trades(sparse) > 2
    for graph in (skewed_graph(1, 400, 900, 1000, 4.0), skewed_graph(2, 30, 60, 200), SMALL["hub"]):
        assert count_trades(graph) == count_trades(graph.swap_layers()) == find_trades(graph)
    star = unipartite(4001, *((0, v) for v in range(1, 4001)))
    assert count_trades(star) == ceil(0.1 / min(8000 / 4001 / d + d / 4001 for d in range(1, 4001))) == 3
    for empty in (graph_of(set(), 0, 0), graph_of(set(), 2, 3), unipartite(3)):
        assert count_trades(empty) == 1


def find_trades(graph: BipartiteGraph) -> int:
    n_u, n_v = np.count_nonzero(graph.degree_u), np.count_nonzero(graph.degree_v)
    d = np.arange(1, graph.degree_u.max() + 1)[:, None]
    e = np.arange(1, graph.degree_v.max() + 1)
    rates = (e / n_u + graph.n_edges / n_u / d + d / n_v + graph.n_edges / n_v / e) / 2
    return ceil(4 / DEFAULT_STEPS / float(rates.min()))


def test_two_hubs_deal_all_their_columns_anew() -> None:
    """One trade of one pair is uniform; pools of 20,000 columns take several rounds of selection."""
    columns = np.arange(20_000)
    graph = BipartiteGraph.from_edges(np.where(columns < 6_000, 0, 1), columns)
    randomizer: Any = make_randomizer(graph, NullModel("degrees", 1))
    kept = np.array([np.count_nonzero(randomizer.sample(1, i).u[:1] == 0) for i in range(3)])
    assert kept.all()
    shares = []
    for i in range(200):
        sample = randomizer.sample(2, i)
        sample.validate()
        row = sample.v[: int(sample.degree_u[0])]
        assert row.size == 6_000
        shares.append(np.count_nonzero(row < 6_000))
    # Hypergeometric: 6,000 drawn of 20,000, of which 6,000 were there before.
    deviation = (6_000 * 0.3 * 0.7 * 14_000 / 19_999) ** 0.5
    assert abs(np.mean(shares) - 1_800) < 4 * deviation / 200**0.5
    assert 0.8 < np.std(shares) / deviation < 1.2


@given(st.lists(st.integers(0, 2**64 - 1), unique=True, min_size=1, max_size=300), st.data())
def test_the_smallest_of_any_words_are_found(words: list[int], data: st.DataObject) -> None:
    """Also of words that are not random: alike in their upper, or lower, bits."""
    shift = data.draw(st.integers(0, 56))
    words = sorted({word >> shift for word in words})
    given_words = np.array(data.draw(st.permutations(words)), np.uint64)
    k = data.draw(st.integers(1, len(words)))
    found = find_smallest(given_words, len(words), k, np.empty(len(words), np.uint64), np.empty(MAX_BINS, np.int64))
    assert found == words[k - 1]


def test_models_say_what_they_do_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NullModel("degrees").steps == DEFAULT_STEPS
    assert NullModel("edges").steps == 0
    with pytest.raises(InputError, match="null model is 'swaps'; use one of degrees, expected-degrees, edges, signs"):
        NullModel("swaps")  # type: ignore[arg-type]
    for steps in (0, -2):
        with pytest.raises(InputError, match=f"steps is {steps}; the null model 'degrees' needs at least 1"):
            NullModel("degrees", steps)
    with pytest.raises(InputError, match="steps is 3; only the null model 'degrees' takes steps"):
        NullModel("edges", 3)
    with pytest.raises(UnsupportedError, match="permutes signs, and the graph has none"):
        make_randomizer(SMALL["hub"], NullModel("signs"))
    with pytest.raises(UnsupportedError, match="draws samples in one step; it has no chain"):
        make_randomizer(SMALL["hub"], NullModel("edges")).chain(1, 0, [3])
    monkeypatch.setattr(fitness, "MAX_CLASSES", 3)
    with pytest.raises(CapacityError, match="different degrees; expected degrees are solved for at most 3"):
        make_randomizer(SMALL["hub"], NullModel("expected-degrees"))


def test_few_edges_of_very_many_possible_ones() -> None:
    graph = BipartiteGraph.from_edges(np.arange(1000), np.arange(1000), 2**26, 2**30)
    sample = make_randomizer(graph, NullModel("edges")).sample(1, 1)
    sample.validate()
    assert sample.n_edges == 1000
    assert 0.4 < sample.v.mean() / 2**30 < 0.6
    assert len(set(sample.v.tolist())) > 990


def test_randomizers_are_of_the_class_of_the_graph() -> None:
    made: Randomizer = make_randomizer(SMALL["path"], NullModel("degrees"))
    assert isinstance(made.sample(1, 1), UnipartiteGraph)
