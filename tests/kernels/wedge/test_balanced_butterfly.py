"""The laws of signed motifs: every one runs on every engine (see the ``signed`` fixture)."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import EngineUnavailableError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import threads as chunks
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.wedge.cpu import BalancedButterflyCpu
from papilio.kernels.wedge.gpu import BalancedButterflyGpu
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Butterfly, Census, Granularity, Motif, PairSide
from papilio.registry import load_engine
from tests.conftest import EMULATOR_SEED, ENGINES, EngineCase
from tests.tools import oracle_signed as oracle
from tests.tools.devices import emulator
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, skewed_graph

MOTIFS: tuple[Motif, ...] = (
    BalancedButterfly(),
    BalancedButterfly(3, pair_side="u"),
    BalancedButterfly(3, pair_side="v"),
    BalancedButterfly(None, pair_side="u"),
    BalancedButterfly(None, max_k=3, pair_side="v"),
    Census("u"),
    Census("v"),
)

SIDES: tuple[PairSide, ...] = ("u", "v")


@dataclass(frozen=True)
class SignedCase(EngineCase):
    """An engine of signed motifs under test."""

    def ask(self, graph: BipartiteGraph, motif: Motif, per: Granularity = "total") -> Partial:
        """Count all items at once."""
        prepared = self.engine.prepare(graph, motif, per)
        return self.engine.run(prepared, 0, prepared.n_items)


@pytest.fixture(scope="module", params=ENGINES)
def signed(request: pytest.FixtureRequest) -> SignedCase:
    """Each engine in turn: Numba, the CUDA sources on the emulator, the CUDA sources on a GPU."""
    return make_signed_case(request.param)


def make_signed_case(name: str) -> SignedCase:
    """Build one engine of the fixture, or skip with the reason why it cannot run here."""
    if name == "cpu":
        return SignedCase(name, BalancedButterflyCpu(threads=2), 40, 9, 10**9)
    if name == "emulator":
        return SignedCase(name, BalancedButterflyGpu(emulator(EMULATOR_SEED)), 8, 7, 250_000)
    try:
        return SignedCase(name, load_engine(BalancedButterfly(), "gpu"), 40, 9, 10**11)
    except EngineUnavailableError as error:
        pytest.skip(str(error))


def with_signs(graph: BipartiteGraph, sign: np.ndarray) -> BipartiteGraph:
    """Return the graph with these signs."""
    return BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, sign.astype(np.int8))


def random_signs(graph: BipartiteGraph, seed: int, positive: float = 0.7) -> BipartiteGraph:
    """Return the graph with random signs."""
    random = np.random.default_rng(seed)
    return with_signs(graph, np.where(random.random(graph.n_edges) < positive, 1, -1))


@st.composite
def signed_graphs(draw: st.DrawFn, max_side: int) -> BipartiteGraph:
    """Draw a small graph and a sign for each of its edges."""
    graph = draw(bipartite_graphs(max_side))
    return random_signs(graph, draw(st.integers(0, 2**32)), draw(st.sampled_from([0.0, 0.3, 0.7, 1.0])))


def signs_of(graph: BipartiteGraph) -> oracle.Signs:
    """Return the sign of every edge."""
    assert graph.sign is not None
    return dict(zip(edge_list(graph), graph.sign.tolist(), strict=True))


def flip_layers(graph: BipartiteGraph) -> BipartiteGraph:
    """Return the graph with U and V swapped."""
    return BipartiteGraph.from_edges(graph.v, graph.u, graph.n_v, graph.n_u, graph.sign)


def classes_of(partial: Partial) -> dict[str, int]:
    """Return the classes of a census that are not empty."""
    return {each.name: partial.cells[each.cell] for each in CENSUS_CLASSES if each.cell in partial.cells}


def assert_same(got: Partial, wanted: Partial) -> None:
    """Compare partials exactly."""
    assert (got.n_items, got.total, got.work, got.cells) == (
        wanted.n_items, wanted.total, wanted.work, wanted.cells,
    )  # fmt: skip
    assert got.vectors.keys() == wanted.vectors.keys()
    for name, vector in wanted.vectors.items():
        np.testing.assert_array_equal(got.vectors[name], vector)


def test_balanced_butterflies_follow_the_definition(signed: SignedCase) -> None:
    def law(graph: BipartiteGraph) -> None:
        counts = oracle.balanced_vertices(signs_of(graph))
        got = signed.ask(graph, BalancedButterfly(), "vertex")
        assert got.total == sum(counts.values()) // 4 == signed.ask(graph, BalancedButterfly()).total
        for layer, size in (("u", graph.n_u), ("v", graph.n_v)):
            assert got.vectors[layer].dtype == np.uint64
            assert got.vectors[layer].tolist() == [counts[layer, at] for at in range(size)]

    signed.check(signed_graphs(signed.max_side), law)


@pytest.mark.parametrize("pair_side", SIDES)
def test_balanced_bicliques_follow_the_definition(signed: SignedCase, pair_side: PairSide) -> None:
    def law(graph: BipartiteGraph) -> None:
        signs = signs_of(graph)
        wanted = {k: oracle.count_balanced(signs, k, pair_side) for k in range(2, signed.max_side + 1)}
        table = signed.ask(graph, BalancedButterfly(None, pair_side=pair_side))
        cells = {(2, k) if pair_side == "u" else (k, 2): count for k, count in wanted.items() if count}
        assert table.cells == cells
        assert table.total == sum(cells.values())
        for k in (3, 4):
            one = signed.ask(graph, BalancedButterfly(k, pair_side=pair_side))
            assert (one.total, one.cells) == (wanted[k], {})
        some = signed.ask(graph, BalancedButterfly(None, 3, pair_side))
        assert some.cells == {cell: count for cell, count in cells.items() if max(cell) <= 3}

    signed.check(signed_graphs(min(signed.max_side, 8)), law)


@pytest.mark.parametrize("pair_side", SIDES)
def test_census_follows_the_definition(signed: SignedCase, pair_side: PairSide) -> None:
    def law(graph: BipartiteGraph) -> None:
        signs = signs_of(graph)
        got = signed.ask(graph, Census(pair_side))
        assert classes_of(got) == oracle.census(signs, pair_side)
        assert got.total == len(oracle.butterflies(signs))

    signed.check(signed_graphs(signed.max_side), law)


@pytest.mark.parametrize("motif", MOTIFS, ids=lambda motif: "-".join(motif.words))
def test_any_split_folds_to_the_whole_and_a_cut_run_answers_for_its_items(signed: SignedCase, motif: Motif) -> None:
    def law(drawn: tuple[BipartiteGraph, list[int], int]) -> None:
        graph, cuts, patience = drawn
        prepared = signed.engine.prepare(graph, motif, "total")
        n_items = prepared.n_items
        whole = signed.engine.run(prepared, 0, n_items)
        assert whole.work == int(signed.engine.work(prepared).sum())
        ends = sorted({min(cut, n_items) for cut in cuts} | {n_items})
        folded = Partial(0, 0, 0)
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            folded = fold_partials(folded, signed.engine.run(prepared, start, stop))
        assert_same(folded, whole)
        asked = 0

        def cut() -> bool:
            nonlocal asked
            asked += 1
            return asked > patience

        first = signed.engine.run(prepared, 0, n_items, [end for end in ends if 0 < end < n_items], cut)
        assert_same(first, signed.engine.run(prepared, 0, first.n_items))

    cuts = st.lists(st.integers(0, 2 * signed.max_side), max_size=5)
    signed.check(st.tuples(signed_graphs(signed.max_side), cuts, st.integers(0, 3)), law)


def graph_for(signed: SignedCase, seed: int) -> BipartiteGraph:
    """Return a graph with hubs, larger than drawn ones."""
    size = 1 if signed.name == "emulator" else 4
    return random_signs(skewed_graph(seed, 60 * size, 45 * size, 500 * size), seed)


def test_without_negative_edges_all_butterflies_are_balanced(
    signed: SignedCase, engine_of_butterflies: EngineCase
) -> None:
    graph = graph_for(signed, 1)
    for sign in (1, -1):
        same = with_signs(graph, np.full(graph.n_edges, sign))
        for per in ("total", "vertex"):
            expected = engine_of_butterflies.count(graph, per)
            assert_same(signed.ask(same, BalancedButterfly(), per), expected)
        name = "++/++" if sign > 0 else "--/--"
        for side in SIDES:
            assert classes_of(signed.ask(same, Census(side))) == {name: expected.total}


def test_flipping_all_signs_of_a_vertex_changes_nothing_balanced(signed: SignedCase) -> None:
    graph = graph_for(signed, 2)
    assert graph.sign is not None
    random = np.random.default_rng(2)
    turned = (
        np.where(random.random(graph.n_u) < 0.5, 1, -1)[graph.u]
        * np.where(random.random(graph.n_v) < 0.5, 1, -1)[graph.v]
    )
    flipped = with_signs(graph, graph.sign * turned)
    for motif in MOTIFS[:5]:
        assert_same(signed.ask(flipped, motif), signed.ask(graph, motif))
    assert_same(signed.ask(flipped, BalancedButterfly(), "vertex"), signed.ask(graph, BalancedButterfly(), "vertex"))


def test_the_census_agrees_with_both_counts(signed: SignedCase, engine_of_butterflies: EngineCase) -> None:
    for seed in (3, 4):
        graph = graph_for(signed, seed)
        balanced = signed.ask(graph, BalancedButterfly()).total
        by_u, by_v = (signed.ask(graph, Census(side)) for side in SIDES)
        assert by_u.total == by_v.total == engine_of_butterflies.count(graph).total
        for partial in (by_u, by_v):
            groups = {
                name: sum(partial.cells[each.cell] for each in CENSUS_CLASSES if each.group == name)
                for name in ("coherent", "incoherent", "mixed")
            }
            assert groups["coherent"] + groups["incoherent"] == balanced
        assert classes_of(by_u) != classes_of(by_v)
        for name in ("++/++", "--/--", "++/+-", "--/+-"):
            assert classes_of(by_u)[name] == classes_of(by_v)[name]


def test_layers_swapped_with_the_pair_side_give_the_same(signed: SignedCase) -> None:
    graph = graph_for(signed, 5)
    swapped = flip_layers(graph)
    for one, other in zip(SIDES, SIDES[::-1], strict=True):
        assert signed.ask(graph, Census(one)).cells == signed.ask(swapped, Census(other)).cells
        cells = signed.ask(graph, BalancedButterfly(None, 5, one)).cells
        turned = signed.ask(swapped, BalancedButterfly(None, 5, other)).cells
        assert cells == {(q, p): count for (p, q), count in turned.items()}
        assert cells[2, 2] == signed.ask(graph, BalancedButterfly()).total


def test_counts_beyond_64_bits(signed: SignedCase) -> None:
    """K(3, n) with one vertex at odds with the others at half of its neighbours."""
    n = 240
    graph = complete_graph(3, n)
    sign = np.ones((3, n), np.int8)
    sign[2, ::2] = -1
    table = signed.ask(with_signs(graph, sign.ravel()), BalancedButterfly(None, pair_side="u")).cells
    assert table == {(2, k): count for k in range(2, n + 1) if (count := comb(n, k) + 4 * comb(n // 2, k))}


@pytest.mark.parametrize("degree", [254, 255, 256, 257, 300])
def test_degrees_at_the_widths_of_counters(signed: SignedCase, degree: int) -> None:
    graph = with_signs(complete_graph(2, degree), np.r_[np.ones(degree), np.ones(degree - 3), -np.ones(3)])
    assert signed.ask(graph, BalancedButterfly()).total == comb(degree - 3, 2) + 3
    assert classes_of(signed.ask(graph, Census("u"))) == {
        "++/++": comb(degree - 3, 2), "+-/+-": 3, "++/+-": 3 * (degree - 3),
    }  # fmt: skip
    assert classes_of(signed.ask(graph, Census("v")))["++/--"] == 3


@pytest.mark.parametrize("motif", MOTIFS, ids=lambda motif: "-".join(motif.words))
def test_graphs_without_signs_are_refused(signed: SignedCase, motif: Motif) -> None:
    with pytest.raises(UnsupportedError, match="needs a sign for every edge"):
        signed.engine.prepare(complete_graph(3, 3), motif, "total")
    with pytest.raises(UnsupportedError, match="per 'edge'"):
        signed.engine.prepare(random_signs(complete_graph(3, 3), 1), motif, "edge")
    with pytest.raises(UnsupportedError, match="cannot count 'butterfly'"):
        signed.engine.prepare(random_signs(complete_graph(3, 3), 1), Butterfly(), "total")


@pytest.mark.parametrize("motif", MOTIFS, ids=lambda motif: "-".join(motif.words))
def test_any_number_of_threads_gives_one_answer(motif: Motif, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    graph = random_signs(skewed_graph(7, 200, 170, 2500), 7)
    answers = []
    for threads in (1, 3):
        engine = BalancedButterflyCpu(threads)
        for per in motif.granularities:
            prepared = engine.prepare(graph, motif, per)
            answers.append(engine.run(prepared, 0, prepared.n_items))
    for one, other in zip(answers, answers[len(answers) // 2 :], strict=False):
        assert_same(one, other)


REFERENCE: dict[tuple[str, PairSide], tuple[int, tuple[int, ...]]] = {
    ("senate", "u"): (15_323_136, (3_351_042, 4_702_003, 1_703_831, 5_566_260, 6_225_745, 4_118_075)),
    ("senate", "v"): (15_323_136, (3_351_042, 2_797_720, 1_703_831, 7_470_543, 6_225_745, 4_118_075)),
    ("bonanza", "u"): (641_108, (638_597, 363, 5, 2_143, 30_685, 100)),
    ("movielens-100k", "u"): (
        116_511_267, (40_570_591, 26_584_318, 9_958_179, 39_398_179, 69_429_380, 34_607_381),
    ),
    ("movielens-1m", "u"): (
        8_905_629_109,
        (3_274_087_162, 2_038_709_478, 808_316_191, 2_784_516_278, 5_205_985_979, 2_559_586_207),
    ),
}  # fmt: skip
"""Balanced butterflies, and those of each class, as other programs counted them."""


def read_signed(path: Path, skip_lines: int = 0) -> BipartiteGraph:
    """Read lines ``u v value``; ratings of 4 and more, and else values above 0, are positive."""
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, np.int64, skiprows=skip_lines, ndmin=2)
    least = 4 if table[:, 2].max() > 1 else 1
    return BipartiteGraph.from_edges(table[:, 0], table[:, 1], sign=np.where(table[:, 2] >= least, 1, -1))


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def fast(request: pytest.FixtureRequest) -> SignedCase:
    """The engines that are fast enough for real graphs."""
    return make_signed_case(request.param)


def check_reference(fast: SignedCase, graph: BipartiteGraph, name: str, side: PairSide) -> None:
    balanced, classes = REFERENCE[name, side]
    assert fast.ask(graph, BalancedButterfly()).total == balanced
    assert fast.ask(graph, BalancedButterfly(None, 2, side)).total == balanced
    assert classes_of(fast.ask(graph, Census(side))) == dict(
        zip((each.name for each in CENSUS_CLASSES), classes, strict=True)
    )


@pytest.mark.parametrize(("name", "side"), REFERENCE)
def test_real_graphs(fast: SignedCase, shared_data: Path, name: str, side: PairSide) -> None:
    check_reference(fast, read_signed(shared_data / "bipartite" / f"{name}.txt.gz"), name, side)


@pytest.mark.parametrize("side", SIDES)
def test_senate_votes_bundled(fast: SignedCase, example_data: Path, side: PairSide) -> None:
    graph = read_signed(example_data / "senate-votes.txt.gz", 1)
    check_reference(fast, graph, "senate", side)
    vertex = fast.ask(graph, BalancedButterfly(), "vertex")
    assert [int(vertex.vectors[layer].sum()) for layer in "uv"] == [2 * vertex.total] * 2


@pytest.fixture(scope="module")
def engine_of_butterflies() -> EngineCase:
    """The CPU engine of butterflies, which signs are held against."""
    from papilio.kernels.wedge.cpu import ButterflyCpu

    return EngineCase("cpu", ButterflyCpu(threads=2), 1, 1, 10**9)
