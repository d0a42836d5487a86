"""Nestedness and co-occurrence: equal to definitions and to R's vegan, laws, random graphs, files, what is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import papilio
from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.store import write_store
from tests.conftest import share_of_examples
from tests.tools.commands import Run
from tests.tools.matrices import SAFARILAND, SIPOO, Matrix
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, relabelled, skewed_graph

MATRICES = pytest.mark.parametrize("matrix", [SIPOO, SAFARILAND], ids=["sipoo", "safariland"])
LAYERS = ("u", "v")


def neighbours_of(graph: BipartiteGraph, layer: str) -> list[set[int]]:
    edges = edge_list(graph) if layer == "u" else [(v, u) for u, v in edge_list(graph)]
    found: list[set[int]] = [set() for _ in range(graph.n_u if layer == "u" else graph.n_v)]
    for own, other in edges:
        found[own].add(other)
    return found


def nest(graph: BipartiteGraph) -> tuple[dict[str, Fraction | None], dict[str, list[int]]]:
    """Return NODF and the overlaps of all vertices, pair by pair."""
    sums, pairs, overlaps = {}, {}, {}
    for layer in LAYERS:
        held = neighbours_of(graph, layer)
        sums[layer], pairs[layer], overlaps[layer] = Fraction(0), math.comb(len(held), 2), [0] * len(held)
        for a, b in combinations(range(len(held)), 2):
            less, more = sorted((a, b), key=lambda each: len(held[each]))
            if 0 < len(held[less]) < len(held[more]):
                overlaps[layer][less] += len(held[less] & held[more])
                sums[layer] += Fraction(100 * len(held[less] & held[more]), len(held[less]))
    sums["nodf"], pairs["nodf"] = sum(sums.values(), Fraction(0)), sum(pairs.values())
    return {name: sums[name] / pairs[name] if pairs[name] else None for name in ("nodf", *LAYERS)}, overlaps


@settings(max_examples=share_of_examples(80), deadline=None)
@given(bipartite_graphs())
def test_nestedness_is_the_mean_over_pairs(graph: BipartiteGraph) -> None:
    found = papilio.nestedness(graph, threads=1)
    fractions, overlaps = nest(graph)
    assert found.fractions == fractions
    assert found.nodf == (None if fractions["nodf"] is None else float(fractions["nodf"]))
    for layer in LAYERS:
        assert found.overlaps[layer].tolist() == overlaps[layer]
        degrees = [len(each) for each in neighbours_of(graph, layer)]
        wanted = [sum_ / degree if degree else math.nan for sum_, degree in zip(overlaps[layer], degrees, strict=True)]
        np.testing.assert_array_equal(found.shares[layer], wanted)


@settings(max_examples=share_of_examples(30), deadline=None)
@given(bipartite_graphs())
def test_names_and_layers_change_nothing(graph: BipartiteGraph) -> None:
    found = papilio.nestedness(graph, threads=1)
    named, to_u, _ = relabelled(graph, 7)
    again = papilio.nestedness(named, threads=1)
    assert again.fractions == found.fractions
    assert again.overlaps["u"][to_u].tolist() == found.overlaps["u"].tolist()
    turned = papilio.nestedness(graph.swap_layers(), threads=1).fractions
    assert turned == {"nodf": found.fractions["nodf"], "u": found.fractions["v"], "v": found.fractions["u"]}
    for layer, other in (("u", "v"), ("v", "u")):
        one, two = papilio.cooccurrence(graph, layer), papilio.cooccurrence(graph.swap_layers(), other)
        assert (one.checkerboards, one.togetherness, one.pairs) == (two.checkerboards, two.togetherness, two.pairs)


@MATRICES
def test_nestedness_is_that_of_vegan(matrix: Matrix) -> None:
    found = papilio.nestedness(matrix.graph).values
    assert tuple(found.values()) == pytest.approx(matrix.nodf, rel=1e-14)


@MATRICES
def test_scores_are_those_of_vegan_and_bipartite(matrix: Matrix) -> None:
    """The C-score of species of sipoo is 2.258776 in vegan's manual."""
    graph = matrix.graph
    for layer, n, together in (("u", graph.n_u, 0), ("v", graph.n_v, 1)):
        found = papilio.cooccurrence(graph, layer, engine="cpu")
        assert (found.checkerboards, found.togetherness) == (matrix.checkerboards, matrix.togetherness[together])
        assert found.pairs == math.comb(n, 2)
        assert found.c_score == matrix.checkerboards / math.comb(n, 2)
        assert found.t_score == matrix.togetherness[together] / math.comb(n, 2)
    if matrix is SIPOO:
        assert papilio.cooccurrence(graph, "v").c_score == pytest.approx(2.258776, abs=5e-7)


def test_a_nested_graph_has_100_and_equal_degrees_have_0() -> None:
    steps = np.tril_indices(9)
    assert papilio.nestedness(BipartiteGraph.from_edges(*steps)).fractions == {"nodf": 100, "u": 100, "v": 100}
    assert papilio.nestedness(complete_graph(4, 7)).fractions == {"nodf": 0, "u": 0, "v": 0}
    assert papilio.nestedness(BipartiteGraph.from_edges([], [], 1, 0)).values == {"nodf": None, "u": None, "v": None}
    assert papilio.cooccurrence(BipartiteGraph.from_edges([0], [0], 1, 1), "u").c_score is None


@pytest.mark.parametrize("null", ["degrees", "expected-degrees", "edges"])
def test_values_are_compared_with_random_graphs(null: Any) -> None:
    graph = SAFARILAND.graph
    found = papilio.nestedness(graph, samples=12, null=null, seed=4, threads=2)
    drawn: list[Any] = [each.arrays() for each in papilio.randomize(graph, null=null, samples=12, seed=4)]
    samples = [nest(each)[0] for each in drawn]
    assert found.ensemble is not None
    assert (found.ensemble.null, found.ensemble.samples) == (null, 12)
    assert (found.trades is None) == (null != "degrees")
    for name, observed in found.fractions.items():
        values = [each[name] or Fraction(0) for each in samples]
        mean, got = sum(values, Fraction(0)) / 12, found.comparisons[name]
        std = math.sqrt(sum((each - mean) ** 2 for each in values) / 11)
        assert observed is not None
        assert (got.observed, got.mean) == pytest.approx((float(observed), float(mean)), rel=1e-12)
        assert got.std == pytest.approx(std, rel=1e-9)
        assert got.z == pytest.approx((float(observed) - float(mean)) / std, rel=1e-9)
        assert got.p_more == (1 + sum(each >= observed for each in values)) / 13
        assert got.p_less == (1 + sum(each <= observed for each in values)) / 13
        assert got.quantiles[0.5] == pytest.approx(float(sorted(values)[5]), rel=1e-12)
    assert papilio.nestedness(graph, samples=12, null=null, seed=4, threads=1).comparisons == found.comparisons


def test_sipoo_is_as_nested_as_vegan_says() -> None:
    """Of 1,999 graphs of quasiswap: NODF 58.319, z -1.334; rows 69.705, columns 56.897."""
    found = papilio.nestedness(SIPOO.graph, samples=400, seed=1).comparisons
    assert [found[name].mean for name in ("nodf", "u", "v")] == pytest.approx([58.319, 69.705, 56.897], abs=0.2)
    assert found["nodf"].z == pytest.approx(-1.334, abs=0.3)


def test_graphs_without_pairs_have_no_comparison() -> None:
    found = papilio.nestedness(BipartiteGraph.from_edges([0], [0], 1, 1), samples=3)
    assert found.comparisons == {}
    assert "z" not in found.headline


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(
        tmp_path / "graph", SAFARILAND.graph, provenance={}, labels_u=np.array([f"p{i}" for i in range(9)], object)
    )
    return tmp_path / "graph"


def test_files_tables_and_objects(store: Path, tmp_path: Path) -> None:
    found = papilio.nestedness(store, samples=5, output=tmp_path / "values.parquet")
    table = pq.read_table(tmp_path / "values.parquet")
    assert table.column_names == ["layer", "id", "label", "overlap", "share"]
    assert table.to_pylist() == found.to_arrow().to_pylist()
    assert len(table) == 9 + 27
    assert found.top(1)[0].labels == ("p3",)
    object_ = json.loads(found.to_json())
    assert (object_["measure"], object_["nodf"]) == ("nestedness", found.nodf)
    assert object_["compared"]["u"]["z"] == found.comparisons["u"].z
    assert object_["ensemble"]["samples"] == 5
    assert [row["of"] for row in found.rows()] == ["nodf", "u", "v"]
    assert "5 random graphs of null model degrees" in found.headline
    counted = papilio.cooccurrence(store, "u", engine="cpu")
    assert counted.to_arrow().to_pylist() == [{
        "layer": "u", "pairs": 36, "checkerboards": 359, "togetherness": 216, "c_score": 359 / 36, "t_score": 6.0,
    }]  # fmt: skip
    assert json.loads(counted.to_json())["count"]["count"] == counted.counted.count


def test_larger_graphs_and_graphs_beyond_memory(tmp_path: Path) -> None:
    graph = skewed_graph(3, 300, 200, 3000)
    held = np.zeros((300, 200), np.int64)
    held[graph.u, graph.v] = 1
    for layer, own in (("u", held), ("v", held.T)):
        common, degrees = own @ own.T, own.sum(axis=1)
        d, e = degrees[:, None], degrees[None, :]
        pairs = np.triu_indices(degrees.size, 1)
        apart, together = (
            ((d - common) * (e - common))[pairs].sum(),
            (common * (own.shape[1] - d - e + common))[pairs].sum(),
        )
        found = papilio.cooccurrence(graph, layer, engine="cpu")
        assert (found.checkerboards, found.togetherness) == (apart, together)
        np.testing.assert_array_equal(papilio.nestedness(graph).overlaps[layer], (common * (e > d)).sum(axis=1))
    write_store(tmp_path / "graph", graph, provenance={})
    parts = papilio.partition(tmp_path / "graph", tmp_path / "parts", "butterfly", host_memory=1 << 30).path
    parted = papilio.cooccurrence(tmp_path / "graph", "u", engine="cpu", parts=parts)
    assert parted.checkerboards == papilio.cooccurrence(graph, "v").checkerboards


def test_what_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="null is 'signs', and nestedness ignores signs"):
        papilio.nestedness(store, samples=3, null="signs")
    with pytest.raises(InputError, match="seed is 3, which is for random graphs: set samples, too"):
        papilio.nestedness(store, seed=3)
    with pytest.raises(InputError, match="steps"):
        papilio.nestedness(store, samples=3, null="edges", steps=3)
    with pytest.raises(InputError, match="layer"):
        papilio.cooccurrence(store, "w")
    one = UnipartiteGraph.from_edges([0, 1], [1, 2])
    for measure in (papilio.nestedness, lambda graph: papilio.cooccurrence(graph, "u")):
        with pytest.raises(UnsupportedError, match="bipartite"):
            measure(one)
    (tmp_path / "values.csv").write_text("kept")
    with pytest.raises(papilio.PapilioError, match="exists"):
        papilio.nestedness(store, output=tmp_path / "values.csv")


def test_commands(store: Path, run: Run) -> None:
    code, out, err = run("measure", "nestedness", store)
    assert (code, out.split()[:4]) == (0, ["of", "value", "nodf", repr(papilio.nestedness(store).nodf)]), err
    code, out, err = run("measure", "nestedness", store, "--samples", 5, "--null", "edges", "--json")
    assert code == 0, err
    assert set(json.loads(out)["compared"]) == {"nodf", "u", "v"}
    code, out, err = run("measure", "nestedness", store, "--samples", 5, "--format", "csv")
    assert (code, len(out.splitlines())) == (0, 37), err
    code, out, err = run("measure", "cooccurrence", store, "--layer", "v", "--engine", "cpu", "--cluster", "inline")
    assert code == 0, err
    assert [line.split() for line in out.splitlines()] == [
        ["of", "mean", "sum"], ["C-score", repr(359 / 351), "359"], ["T-score", repr(1128 / 351), "1128"],
    ]  # fmt: skip
    assert run("measure", "nestedness", store, "--seed", 5)[0] == 2
