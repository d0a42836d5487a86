"""Concordant and discordant pairs, against definitions in fractions that share no code."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import threads as chunks
from papilio.kernels.project import cpu
from papilio.kernels.project.signed import SignedProjectionCpu
from papilio.motifs import Listing, PairSide, Projection
from papilio.question import Question
from tests.conftest import share_of_examples
from tests.tools.strategies import bipartite_graphs, skewed_graph

Row = tuple[int, int, int, int, int, int, float]


def list_pairs(graph: BipartiteGraph, motif: Projection, threads: int = 1, cuts: tuple[int, ...] = ()) -> list[Row]:
    """List all items, run by run between the cuts; the same runs without rows count as many."""
    engine, rows = SignedProjectionCpu(threads, Listing()), list[Row]()
    prepared = engine.prepare(graph, motif, "total")

    def sink(pairs: Any, *numbers: Any, part: int | None = None) -> None:
        rows.extend((*ids, *of) for ids, *of in zip(pairs.tolist(), *(each.tolist() for each in numbers), strict=True))

    inner = sorted({min(cut, prepared.n_items) for cut in cuts})
    spans = [*zip([0, *inner], [*inner, prepared.n_items], strict=True)]
    totals = [engine.run(prepared, *span, sink=sink).total for span in spans]
    counting = SignedProjectionCpu(threads)
    assert [counting.run(prepared, *span).total for span in spans] == totals
    assert sum(totals) == len(rows)
    return sorted(rows)


def tail(c: int, a: int, b: int, least: int) -> Fraction:
    """Return the probability that two subsets of a and b of c share ``least`` or more."""
    return Fraction(sum(comb(a, x) * comb(c - a, b - x) for x in range(least, min(a, b) + 1)), comb(c, b))


def by_definition(graph: BipartiteGraph, layer: PairSide, min_common: int) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Return common, concordant and discordant neighbours, sign and p-value of each pair."""
    assert graph.sign is not None
    own, other = (graph.u, graph.v) if layer == "u" else (graph.v, graph.u)
    signs: dict[int, dict[int, int]] = {}
    for one, two, sign in zip(own.tolist(), other.tolist(), graph.sign.tolist(), strict=True):
        signs.setdefault(one, {})[two] = sign
    found = {}
    for one, two in combinations(sorted(signs), 2):
        shared = [(signs[one][at], signs[two][at]) for at in signs[one].keys() & signs[two].keys()]
        if len(shared) < min_common:
            continue
        c, same = len(shared), sum(a == b for a, b in shared)
        a, b = (sum(each[at] > 0 for each in shared) for at in (0, 1))
        both = shared.count((1, 1))
        assert same == c - a - b + 2 * both
        expected = c - a - b + 2 * Fraction(a * b, c)
        sign = (same > expected) - (same < expected)
        # Flipping all signs of one vertex exchanges concordant and discordant
        p = {1: tail(c, a, b, both), -1: tail(c, a, c - b, a - both), 0: Fraction(1)}[sign]
        found[one, two] = c, same, c - same, sign, p
    return found


def with_signs(graph: BipartiteGraph, seed: int, share: float = 0.5) -> BipartiteGraph:
    sign = np.where(np.random.default_rng(seed).random(graph.n_edges) < share, 1, -1).astype(np.int8)
    return BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, sign)


@given(
    bipartite_graphs(), st.integers(0, 9), st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]), st.sampled_from(["u", "v"]),
    st.integers(1, 3), st.integers(0, 40),
)  # fmt: skip
@settings(max_examples=share_of_examples(100))
def test_pairs_equal_the_definition(
    graph: BipartiteGraph, seed: int, share: float, layer: PairSide, min_common: int, cut: int
) -> None:
    graph = with_signs(graph, seed, share)
    motif = Projection(layer, min_common, significance="signs", fdr=1.0)
    expected = by_definition(graph, layer, min_common)
    rows = list_pairs(graph, motif, cuts=(cut,))
    assert {row[:2]: row[2:6] for row in rows} == {pair: of[:4] for pair, of in expected.items()}
    for row in rows:
        assert row[6] == pytest.approx(float(expected[row[0], row[1]][4]), rel=1e-12)


def signed_graph(seed: int) -> BipartiteGraph:
    """Return a graph with hubs of more than 255 neighbours, whose signs depend on both ends."""
    graph = skewed_graph(seed, 60, 700, 9000)
    chance = np.random.default_rng(seed)
    bias_u, bias_v = chance.normal(0, 1, 60), chance.normal(0, 1, 700)
    sign = np.where(bias_u[graph.u] * bias_v[graph.v] + chance.normal(0, 1, graph.n_edges) > 0, 1, -1)
    return BipartiteGraph(60, 700, graph.u, graph.v, sign.astype(np.int8))


@pytest.mark.parametrize("layer", ["u", "v"])
def test_threads_and_splits_change_no_bit(layer: PairSide, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = signed_graph(5)
    assert np.bincount(graph.u).max() > 255
    motif = Projection(layer, 3, significance="signs", fdr=0.2123)
    expected = by_definition(graph, layer, 3)
    whole = list_pairs(graph, motif)
    assert {row[:2] for row in whole} == {pair for pair, of in expected.items() if of[4] <= 0.2123}
    assert {row[5] for row in whole} == {1, -1}
    for row in whole:
        assert row[2:6] == expected[row[0], row[1]][:4]
        assert row[6] == pytest.approx(float(expected[row[0], row[1]][4]), rel=1e-12)
    assert min(row[6] for row in whole) < (1e-6 if layer == "u" else 0.1)
    monkeypatch.setattr(chunks, "SERIAL_COST", 100)
    monkeypatch.setattr(cpu, "BLOCK_ROWS", 1)
    assert list_pairs(graph, motif, threads=3, cuts=(1, 7, 20)) == whole


def test_signs_are_turned_with_a_vertex() -> None:
    """If all signs of one vertex change, its concordant pairs become discordant, with the same p-values."""
    graph = signed_graph(6)
    assert graph.sign is not None
    turned = BipartiteGraph(60, 700, graph.u, graph.v, np.where(graph.u == 0, -graph.sign, graph.sign).astype(np.int8))
    motif = Projection("u", 2, significance="signs", fdr=1.0)
    before, after = ({row[:2]: row[2:] for row in list_pairs(each, motif)} for each in (graph, turned))
    assert before.keys() == after.keys()
    for pair, (common, same, different, sign, p) in before.items():
        expected = (common, different, same, -sign, pytest.approx(p, rel=1e-12)) if 0 in pair else (
            common, same, different, sign, p,
        )  # fmt: skip
        assert after[pair] == expected


def test_questions_that_are_refused() -> None:
    motif = Projection("u", significance="signs")
    assert (motif.needs_signs, motif.fdr, Projection("u").needs_signs) == (True, 0.05, False)
    with pytest.raises(
        InputError, match="weighting is 'jaccard', and significance 'signs', whose pairs have no weights"
    ):
        Projection("u", weighting="jaccard", significance="signs")
    with pytest.raises(InputError, match="draws no random graphs"):
        Projection("u", significance="signs", samples=10)
    with pytest.raises(UnsupportedError, match="needs a sign for every edge"):
        SignedProjectionCpu().prepare(BipartiteGraph.from_edges([0, 1], [0, 0]), motif, "total")
    for listing in (None, Listing()):
        question = Question(motif, "total", listing=listing)
        with pytest.raises(
            UnsupportedError, match=r'projections with significance "signs" are (counted|listed) on CPUs'
        ):
            question.settle_engine("gpu")
