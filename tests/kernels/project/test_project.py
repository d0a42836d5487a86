"""Pairs of a layer with their common neighbours, weights and p-values, against definitions that share no code."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, fsum, sqrt
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import threads as chunks
from papilio.kernels.engine import Partial
from papilio.kernels.null.fitness import solve_chances
from papilio.kernels.project import cpu
from papilio.kernels.project.cpu import ProjectionCpu
from papilio.kernels.project.q_values import FalseDiscovery
from papilio.kernels.project.tails import PValues, TailQuestion, find_p_value, hypergeometric_tail, make_room, sum_tails
from papilio.motifs import Listing, PairSide, Projection, Weighting
from tests.conftest import share_of_examples
from tests.tools.strategies import bipartite_graphs, complete_graph, planted_graph, skewed_graph

WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


class Pair(NamedTuple):
    first: int
    second: int
    common: int
    numbers: tuple[float, ...]


def list_pairs(
    graph: BipartiteGraph, motif: Projection, threads: int = 1, cuts: tuple[int, ...] = ()
) -> tuple[list[Pair], Partial]:
    """List all items, run by run between the cuts."""
    engine, rows, total, work = ProjectionCpu(threads, Listing()), list[Pair](), 0, 0
    prepared = engine.prepare(graph, motif, "total")

    def sink(pairs: Any, common: Any, *numbers: Any, part: int | None = None) -> None:
        values = zip(*(each.tolist() for each in numbers), strict=True) if numbers else ((),) * len(common)
        rows.extend(
            Pair(*ids, number, tuple(others))
            for ids, number, others in zip(pairs.tolist(), common.tolist(), values, strict=True)
        )

    inner = sorted({min(cut, prepared.n_items) for cut in cuts})
    for start, stop in zip([0, *inner], [*inner, prepared.n_items], strict=True):
        found = engine.run(prepared, start, stop, sink=sink)
        total, work = total + found.total, work + found.work
    return sorted(rows), Partial(prepared.n_items, total, work)


def pairs_by_definition(graph: BipartiteGraph, layer: PairSide, min_common: int) -> dict[tuple[int, int], set[int]]:
    """Return the common neighbours of all pairs with enough of them."""
    own, other = (graph.u, graph.v) if layer == "u" else (graph.v, graph.u)
    neighbours: dict[int, set[int]] = {}
    for one, two in zip(own.tolist(), other.tolist(), strict=True):
        neighbours.setdefault(one, set()).add(two)
    found = {(a, b): neighbours[a] & neighbours[b] for a, b in combinations(sorted(neighbours), 2)}
    return {pair: common for pair, common in found.items() if len(common) >= min_common}


def degrees_of(graph: BipartiteGraph, layer: PairSide) -> NDArray[np.int64]:
    return np.bincount(graph.u, minlength=graph.n_u) if layer == "u" else np.bincount(graph.v, minlength=graph.n_v)


def other_of(layer: PairSide) -> PairSide:
    return "v" if layer == "u" else "u"


def tail_by_definition(common: int, degree: int, other: int, n: int) -> Fraction:
    chosen = sum(comb(degree, k) * comb(n - degree, other - k) for k in range(common, min(degree, other) + 1))
    return Fraction(chosen, comb(n, other))


@pytest.mark.parametrize("layer", ["u", "v"])
def test_pairs_weights_and_tests_are_those_of_the_definitions(layer: PairSide) -> None:
    @settings(max_examples=share_of_examples(60), deadline=None, derandomize=True, database=None)
    @given(bipartite_graphs(), st.integers(1, 4))
    def run(graph: BipartiteGraph, min_common: int) -> None:
        expected = pairs_by_definition(graph, layer, min_common)
        own, other = degrees_of(graph, layer), degrees_of(graph, other_of(layer))
        plain, _ = list_pairs(graph, Projection(layer, min_common))
        assert plain == sorted(Pair(a, b, len(common), ()) for (a, b), common in expected.items())
        counted = ProjectionCpu(1)
        prepared = counted.prepare(graph, Projection(layer, min_common), "total")
        assert counted.run(prepared, 0, prepared.n_items).total == len(expected)
        for weighting in WEIGHTINGS:
            rows, _ = list_pairs(graph, Projection(layer, min_common, weighting, "hypergeometric", 1.0))
            assert [row[:3] for row in rows] == [row[:3] for row in plain]
            for a, b, c, (weight, p) in rows:
                d, e, met = int(own[a]), int(own[b]), expected[a, b]
                by_definition = {
                    "jaccard": c / (d + e - c),
                    "cosine": c / sqrt(d * e),
                    "checkerboards": (d - c) * (e - c),
                    "togetherness": c * (other.size - d - e + c),
                    "hyperbolic": fsum(1 / (other[v] - 1) for v in met),
                    "resource": fsum(1 / other[v] for v in met),
                }
                assert weight == pytest.approx(by_definition[weighting], rel=1e-14)
                assert p == pytest.approx(float(tail_by_definition(c, d, e, other.size)), rel=1e-12)

    run()


GRAPHS = {
    "wide": skewed_graph(1, 1500, 700, 9000),  # hubs, and starts with few wedges
    "long": skewed_graph(2, 90, 700, 6000),
    "planted": planted_graph(3, 700, 600, 4, 60, 9000, 0.2),
    "path": BipartiteGraph.from_edges(np.arange(40_000) // 2, (np.arange(40_000) + 1) // 2),
}


@pytest.mark.parametrize(
    ("name", "layer"),
    [("wide", "u"), ("wide", "v"), ("long", "u"), pytest.param("long", "v", marks=pytest.mark.slow),
     pytest.param("planted", "u", marks=pytest.mark.slow), ("planted", "v"), ("path", "u"), ("path", "v")],
)  # fmt: skip
def test_pairs_are_those_of_the_product(name: str, layer: PairSide) -> None:
    graph = GRAPHS[name]
    matrix = scipy.sparse.csr_matrix((np.ones(graph.n_edges, np.int64), (graph.u, graph.v)), (graph.n_u, graph.n_v))
    product = scipy.sparse.triu(matrix @ matrix.T if layer == "u" else matrix.T @ matrix, 1).tocoo()
    for min_common in (1, 2, 3, 9):
        kept = product.data >= min_common
        expected = sorted(
            zip(
                product.row[kept].tolist(),
                product.col[kept].tolist(),
                product.data[kept].tolist(),
                strict=True,
            )
        )
        rows, found = list_pairs(graph, Projection(layer, min_common), 2)
        assert [row[:3] for row in rows] == expected
        assert found.total == len(expected)
    shares = scipy.sparse.diags_array(1 / np.maximum(degrees_of(graph, other_of(layer)), 1))
    shared = matrix @ shares @ matrix.T if layer == "u" else matrix.T @ shares @ matrix
    rows, _ = list_pairs(graph, Projection(layer, 1 if product.nnz < 200_000 else 3, "resource"), 2)
    ends = tuple(np.array([row[:2] for row in rows], np.int64).T)
    weights = np.asarray(shared.tocsr()[ends]).ravel()
    np.testing.assert_allclose([row.numbers[0] for row in rows], weights, rtol=1e-12)


def test_complete_graphs() -> None:
    for m, n in ((2, 1), (5, 7), (300, 3), (3, 300)):
        rows, found = list_pairs(complete_graph(m, n), Projection("u", 1, "jaccard", "hypergeometric", 1.0))
        assert rows == [Pair(a, b, n, (1.0, 1.0)) for a, b in combinations(range(m), 2)]
        rows, _ = list_pairs(complete_graph(m, n), Projection("v", m, "resource"))
        assert [row[:3] for row in rows] == [(a, b, m) for a, b in combinations(range(n), 2)]
        assert all(row.numbers[0] == pytest.approx(m / n) for row in rows)
        assert list_pairs(complete_graph(m, n), Projection("u", n + 1))[0] == []
        assert found.total == comb(m, 2)
    empty = BipartiteGraph.from_edges([], [], 4, 0)
    assert list_pairs(empty, Projection("u", 1, "cosine", "hypergeometric")) == ([], Partial(0, 0, 0))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("cuts", [(), (1, 2, 5), (40, 41, 90)])
def test_neither_split_nor_threads_nor_blocks_change_a_bit(
    threads: int, cuts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = skewed_graph(5, 300, 200, 4000)
    for weighting in ("hyperbolic", "cosine"):
        motif = Projection("u", 2, weighting, "hypergeometric", 0.3)
        monkeypatch.undo()
        whole = list_pairs(graph, motif)
        monkeypatch.setattr(chunks, "SERIAL_COST", 1)
        monkeypatch.setattr(cpu, "BLOCK_ROWS", 1)
        assert list_pairs(graph, motif, threads, cuts) == whole
        assert whole[1].total == len(whole[0]) > 100


def test_a_weight_is_the_same_from_both_ends() -> None:
    graph = skewed_graph(6, 120, 150, 3000)
    order = np.random.default_rng(1).permutation(graph.n_u)
    moved = BipartiteGraph.from_edges(order[graph.u], graph.v, graph.n_u, graph.n_v)
    for weighting in WEIGHTINGS:
        rows, _ = list_pairs(graph, Projection("u", 1, weighting))
        again, _ = list_pairs(moved, Projection("u", 1, weighting))
        named = sorted(Pair(*sorted((int(order[a]), int(order[b]))), c, n) for a, b, c, n in rows)
        assert named == again


def test_p_values_are_exact_to_twelve_digits() -> None:
    random = np.random.default_rng(2)
    worst = 0.0
    for n in (1, 2, 9, 100, 3000, 40_000):
        for _ in range(100):
            degree, other = sorted(int(n ** random.uniform(0, 1)) for _ in range(2))[::-1]
            mean = degree * other / n
            common = int(np.clip(round(mean + 5 * random.normal() * sqrt(mean + 1)), 0, other))
            if other > 600:
                continue
            expected = float(tail_by_definition(common, degree, other, n))
            found = hypergeometric_tail(common, degree, other, n)
            if expected > 1e-290:
                worst = max(worst, abs(found - expected) / expected)
                reference = scipy.stats.hypergeom.sf(common - 1, n, degree, other)
                assert found == pytest.approx(reference, rel=1e-8)  # of SciPy, which loses digits in the tail
    assert worst < 1e-12
    assert hypergeometric_tail(3, 2, 2, 9) == 0.0
    assert hypergeometric_tail(0, 2, 2, 9) == hypergeometric_tail(3, 5, 7, 9) == 1.0


def test_expected_degrees_are_those_of_the_random_graphs() -> None:
    graph = skewed_graph(7, 60, 80, 900)
    chances = solve_chances(graph)
    by_vertex = np.empty((graph.n_u, graph.n_v))
    class_of = np.repeat(np.arange(chances.degrees.size), np.diff(chances.offsets))
    us, vs = slice(0, graph.n_u), slice(graph.n_u, None)
    by_vertex[np.ix_(chances.members[us], chances.members[vs])] = chances.chances[np.ix_(class_of[us], class_of[vs])]
    assert by_vertex.sum(axis=1) == pytest.approx(graph.degree_u, abs=1e-6)
    for layer, matrix in (("u", by_vertex), ("v", by_vertex.T)):
        rows, _ = list_pairs(graph, Projection(layer, 1, None, "expected-degrees", 1.0))  # type: ignore[arg-type]
        assert len(rows) == len(pairs_by_definition(graph, layer, 1))  # type: ignore[arg-type]
        for a, b, common, (p,) in rows[::30]:
            assert p == pytest.approx(sums_by_definition(matrix[a] * matrix[b])[common], rel=1e-9)


def test_expected_degrees_of_complete_graphs_and_of_too_many_degrees(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = list_pairs(complete_graph(5, 7), Projection("u", 1, None, "expected-degrees", 1.0))
    assert [row.numbers[0] for row in rows] == [1.0] * 10
    star = BipartiteGraph(6, 1, np.arange(6, dtype=np.int32), np.zeros(6, np.int32))
    rows, _ = list_pairs(star, Projection("u", 1, None, "expected-degrees", 1.0))
    assert [row.numbers[0] for row in rows] == [1.0] * 15
    monkeypatch.setattr(cpu, "MAX_CLASSES", 1)
    with pytest.raises(CapacityError, match=r"2 different degrees; .* use significance 'hypergeometric'"):
        list_pairs(complete_graph(5, 7), Projection("u", 1, None, "expected-degrees"))


_DIGITS = 1200
"""Binary digits of the probabilities that tails are compared with."""


def sums_by_definition(chances: Sequence[float] | NDArray[np.float64]) -> list[float]:
    """Return P(X >= c) for c from 0 on, where X is a sum of 0s and 1s with these chances of a 1; by convolution."""
    one = 1 << _DIGITS
    found = [one]
    for chance in chances:
        top, bottom = float(chance).as_integer_ratio()
        share = (top << _DIGITS) // bottom
        found = [
            (below * share + own * (one - share)) >> _DIGITS
            for below, own in zip([0, *found], [*found, 0], strict=True)
        ]
    tails = np.cumsum(np.array(found[::-1], object))[::-1]
    return [tail / one for tail in tails]


def draw_sum(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return two falling rows of probabilities and the sizes of their classes: sparse, dense, with certain ones."""
    n = int(random.integers(1, 12))
    one, other = (np.sort(random.random(n) ** random.choice([1, 3, 8, 20]))[::-1].copy() for _ in range(2))
    if random.random() < 0.2:
        one[0] = other[0] = 1.0
    return one, other, random.choice([1, 1, 1, 2, 3, 7, 20, 60], n).astype(np.int64)


def test_tails_of_sums_are_exact_to_eleven_digits() -> None:
    random, worst = np.random.default_rng(3), 0.0
    for _ in range(150):
        one, other, sizes = draw_sum(random)
        top = int(min(sizes.sum(), random.integers(1, 60)))
        room = make_room(TailQuestion.of(2, 0, np.arange(top + 1), np.stack([one, other]), sizes))
        sum_tails(one, other, sizes, top, room)
        expected = sums_by_definition(np.repeat(one * other, sizes))
        for found, right in zip(room.below[: top + 1].tolist(), expected, strict=False):
            if right > 1e-290:
                worst = max(worst, abs(found - right) / right)
    assert worst < 1e-11


@pytest.mark.parametrize(("n", "chance"), [(100_000, 0.05), (3000, 0.4), (900, 0.99), (1_000_000, 2e-5)])
def test_tails_of_sums_of_many(n: int, chance: float) -> None:
    mean, deviation = n * chance, sqrt(n * chance * (1 - chance))
    tops = {int(min(n, max(1, round(mean + at * deviation)))) for at in (-20, -3, 0, 2, 8, 25)}
    for top in tops:
        row, sizes = np.full(2, sqrt(chance)), np.array([n // 3, n - n // 3])
        room = make_room(TailQuestion.of(2, n, np.arange(top + 1), np.stack([row, row]), sizes))
        sum_tails(row, row, sizes, top, room)
        assert room.below[top] == pytest.approx(scipy.stats.binom.sf(top - 1, n, row[0] * row[0]), rel=1e-9)


def test_pairs_of_the_matrix_that_another_package_is_tested_on() -> None:
    """The published values of the tests of R's backbone; its "sdsm" (0.549) approximates a sum that is summed here."""
    rows, columns = np.nonzero(np.array([[1, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 1]]))
    graph = BipartiteGraph.from_edges(rows, columns, 3, 4)
    (fixed_row,), _ = list_pairs(graph, Projection("u", 1, None, "hypergeometric", 1.0))
    (expected,), _ = list_pairs(graph, Projection("u", 1, None, "expected-degrees", 1.0))
    assert fixed_row.numbers[0] == pytest.approx(0.5)
    assert expected.numbers[0] == pytest.approx(0.5553, abs=5e-5)
    rows, columns = np.nonzero(np.array([[0, 0, 1], [0, 1, 0], [1, 0, 1]]))
    chances = solve_chances(BipartiteGraph.from_edges(rows, columns, 3, 3)).chances[:2, 2:]
    assert chances.round(3).tolist() == [[0.216, 0.568], [0.568, 0.863]]


def test_p_values_do_not_depend_on_those_computed_before() -> None:
    random = np.random.default_rng(5)
    one, other, sizes = np.sort(random.random(40))[::-1].copy(), np.sort(random.random(40))[::-1].copy(), np.full(40, 4)
    question = TailQuestion.of(2, 160, np.array([90, 120]), np.stack([one, other]), sizes)
    room, first = make_room(question), PValues(question, 0)
    for commons in ([3, 88, 17, 40], [88, 40, 17, 3]):
        again = PValues(question, 1 << 20)
        for common in commons:
            found = find_p_value(question, again.find_table(90), room, common, 90, 120)
            assert found == find_p_value(question, first.find_table(90), room, common, 90, 120)
    first.find_table(120)
    assert not first.find_table(90).any()  # the older table has gone


def q_values_by_definition(p_values: NDArray[np.float64]) -> list[float]:
    ranks = [int((p_values <= p).sum()) for p in p_values]
    return [
        min(1.0, *(p_values[j] * (p_values.size / ranks[j]) for j in range(p_values.size) if p_values[j] >= p))
        for p in p_values
    ]


@pytest.mark.parametrize("fdr", [1e-3, 0.05, 0.4, 1.0])
def test_q_values_are_those_of_all_tests(fdr: float) -> None:
    random = np.random.default_rng(4)
    for n in (1, 2, 40, 200):
        p_values = np.round(random.random(n) ** random.choice([1, 4, 9]), 3)
        expected = np.array(q_values_by_definition(p_values))
        discovery = FalseDiscovery(n, fdr)
        seen = p_values[p_values <= fdr]
        for block in np.array_split(seen, 3):
            discovery.add(block)
        discovery.settle()
        found, kept = discovery.q_values(seen)
        assert (expected <= fdr).sum() == kept.sum()
        assert found[kept].tolist() == expected[expected <= fdr].tolist()


def test_pending_p_values_are_counted_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from papilio.kernels.project import q_values as module

    monkeypatch.setattr(module, "_PENDING", 5)
    p_values = np.array([0.01, 0.02, 0.01, 0.04, 0.02, 0.01, 0.03])
    discovery = FalseDiscovery(100, 0.5)
    for p in p_values:
        discovery.add(np.array([p]))
    discovery.settle()
    rest = np.concatenate((p_values, np.ones(93)))
    assert discovery.q_values(p_values)[0].tolist() == q_values_by_definition(rest)[:7]


def test_questions_that_make_no_sense_are_refused() -> None:
    for given_, message in (
        ({"layer": "n"}, "layer"), ({"layer": "u", "min_common": 0}, "min_common"), ({"layer": "u", "fdr": 0.1}, "fdr"),
        ({"layer": "u", "significance": "hypergeometric", "fdr": 0.0}, "above 0 and at most 1"),
        ({"layer": "u", "significance": "hypergeometric", "fdr": 1.5}, "above 0 and at most 1"),
        ({"layer": "u", "significance": "hypergeometric", "fdr": float("nan")}, "fdr"),
        ({"layer": "u", "significance": "guess"}, "significance"), ({"layer": "u", "weighting": "common"}, "weighting"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            Projection(**given_)
    with pytest.raises(UnsupportedError, match="leave out the required ones"):
        ProjectionCpu(1, Listing(with_u=(1,)))
