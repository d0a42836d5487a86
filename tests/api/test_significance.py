"""Counts against random graphs: against counts by definition, closed forms and another chain, and however they run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import ceil, comb, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import papilio
from papilio.cluster.events import Noted
from papilio.cluster.executor import Executor
from papilio.errors import CapacityError, ExecutionError, InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels import threads
from papilio.kernels.engine import fold_partials
from papilio.kernels.null import small
from papilio.kernels.null.cpu import make_randomizer
from papilio.kernels.null.engine import SampleEngine
from papilio.kernels.null.ensemble import MOMENTS, RANKS, Ensemble, moments_of
from papilio.kernels.null.models import NullModel, NullName
from papilio.motifs import (
    BalancedButterfly,
    Biclique,
    Butterfly,
    Census,
    Clique,
    FourCycle,
    MaximalBiclique,
    MaximalClique,
    Motif,
)
from papilio.question import Question
from papilio.registry import motif_row
from papilio.storage.answers import read_partial_shard
from papilio.storage.store import open_store, write_store
from papilio.tasks.fold import find_wrong_cell
from papilio.tasks.job import job_of
from papilio.tasks.memory import PROCESS_BYTES, predict_memory, require_memory
from papilio.tasks.significance import CORRECTIONS, VERTEX_COLUMNS, Comparison, SignificanceResult
from tests.conftest import EMULATOR_SEED
from tests.tasks.fakes import make_worker
from tests.tools import oracle_biclique, oracle_clique, oracle_signed
from tests.tools.commands import Run
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle import count_butterflies
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import skewed_graph
from tests.tools.tampering import reseal

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}

GRAPH = skewed_graph(5, 14, 11, 60)
SIGNED = BipartiteGraph(
    GRAPH.n_u, GRAPH.n_v, GRAPH.u, GRAPH.v, np.where(np.arange(GRAPH.n_edges) % 3, 1, -1).astype(np.int8)
)
FRIENDS = UnipartiteGraph.from_edges(*np.random.default_rng(3).integers(0, 12, (2, 60)), n=12)

Counts = dict[tuple[int, ...], int]


def edges_of(graph: BipartiteGraph | UnipartiteGraph) -> list[tuple[int, int]]:
    return list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))


def signs_of(graph: BipartiteGraph) -> dict[tuple[int, int], int]:
    assert graph.sign is not None
    return dict(zip(edges_of(graph), graph.sign.tolist(), strict=True))


def sizes_of(bicliques: set[tuple[tuple[int, ...], tuple[int, ...]]]) -> Counts:
    found: Counts = {}
    for us, vs in bicliques:
        found[len(us), len(vs)] = found.get((len(us), len(vs)), 0) + 1
    return found


CASES: dict[str, tuple[Any, Motif, NullName, Callable[[Any], Counts]]] = {
    "butterflies": (GRAPH, Butterfly(), "degrees", lambda g: {(): count_butterflies(edges_of(g)).total}),
    "butterflies by edges": (GRAPH, Butterfly(), "edges", lambda g: {(): count_butterflies(edges_of(g)).total}),
    "butterflies by expected degrees": (
        GRAPH, Butterfly(), "expected-degrees", lambda g: {(): count_butterflies(edges_of(g)).total},
    ),
    "bicliques": (
        GRAPH, Biclique(2, 3), "degrees", lambda g: {(): oracle_biclique.count_bicliques(edges_of(g), 2, 3)},
    ),
    "every size": (GRAPH, Biclique(None, None), "degrees", lambda g: oracle_biclique.count_all(edges_of(g))),
    "maximal bicliques": (
        GRAPH, MaximalBiclique(), "degrees", lambda g: sizes_of(maximal_bicliques_of(edges_of(g))),
    ),
    "balanced": (
        SIGNED, BalancedButterfly(), "signs", lambda g: {(): oracle_signed.count_balanced(signs_of(g), 2, "u")},
    ),
    "census": (
        SIGNED, Census("u"), "signs",
        lambda g: {
            each.cell: oracle_signed.census(signs_of(g), "u").get(each.name, 0)
            for each in papilio.motifs.CENSUS_CLASSES
        },
    ),
    "cliques": (
        FRIENDS, Clique(3), "degrees", lambda g: {(): oracle_clique.count_cliques(g.n, edges_of(g)).get((3,), 0)},
    ),
    "cliques of every size": (
        FRIENDS, Clique(None), "edges", lambda g: oracle_clique.count_cliques(g.n, edges_of(g)),
    ),
    "4-cycles": (
        FRIENDS, FourCycle(), "degrees",
        lambda g: {(): count_butterflies([*edges_of(g), *((v, u) for u, v in edges_of(g))]).total // 2},
    ),
    "maximal cliques": (
        FRIENDS, MaximalClique(), "degrees",
        lambda g: sizes_of({(clique, ()) for clique in oracle_clique.maximal_cliques(g.n, edges_of(g))}),
    ),
}  # fmt: skip
"""Graph, motif, null model, and the counts of a graph by definition."""

N = 12


def samples_of(graph: Any, null: NullName, n: int, seed: int = 4) -> Iterator[Any]:
    randomizer = make_randomizer(graph, NullModel(null))
    return (randomizer.sample(seed, index) for index in range(n))


@pytest.mark.parametrize("case", CASES)
def test_counts_are_those_of_the_samples_by_definition(case: str) -> None:
    graph, motif, null, by_definition = CASES[case]
    found = papilio.significance(graph, motif, null=null, samples=N, seed=4, **HERE)
    own, samples = by_definition(graph), [by_definition(each) for each in samples_of(graph, null, N)]
    own = {cell if len(cell) == 2 and cell[1] else cell[:1]: count for cell, count in own.items()}
    samples = [
        {cell if len(cell) == 2 and cell[1] else cell[:1]: count for cell, count in each.items()} for each in samples
    ]
    assert found.count == found.observed == sum(own.values())
    assert found.samples == tuple(sum(each.values()) for each in samples)
    cells = {cell for each in (own, *samples) for cell, count in each.items() if count}
    assert found.cells.keys() == (cells if motif.is_table else set())
    for cell, one in found.cells.items():
        assert one == Comparison.of(own.get(cell, 0), [each.get(cell, 0) for each in samples])
    assert found.motif == motif
    assert found.null == null


def test_statistics_are_those_of_the_standard_library() -> None:
    counts = [7, 3, 3, 10, 5, 8, 1, 3]
    found = Comparison.of(8, counts)
    assert found.mean == statistics.mean(counts)
    assert found.std == pytest.approx(statistics.stdev(counts), rel=1e-15)
    assert found.z == pytest.approx((8 - statistics.mean(counts)) / statistics.stdev(counts), rel=1e-14)
    assert (found.p_more, found.p_less, found.p_value) == (3 / 9, 8 / 9, 6 / 9)
    assert found.quantiles == {0.025: 1, 0.25: 3, 0.5: 3, 0.75: 7, 0.975: 10}
    assert Comparison.of(0, counts).z == pytest.approx(-5 / statistics.stdev(counts), rel=1e-14)
    low, high = (float(scipy.stats.beta.ppf(*at)) for at in ((0.025, 2, 7), (0.975, 3, 6)))
    assert (found.p_low, found.p_high) == pytest.approx((min(1, 2 * low), min(1, 2 * high)), rel=1e-9)
    same = Comparison.of(5, [5, 5, 5])
    assert (same.mean, same.std, same.z, same.z_low, same.z_high) == (5.0, 0.0, None, None, None)
    assert (same.p_more, same.p_less, same.p_value, same.p_high) == (1.0, 1.0, 1.0, 1.0)
    assert same.quantiles == dict.fromkeys(found.quantiles, 5)


def test_intervals_of_z_hold_what_they_say() -> None:
    """Of skewed samples, near and far from the mean: 95 % of the intervals hold z of the distribution."""
    random = np.random.default_rng(3)
    for observed in (9, 14, 40):
        right = (observed - 9) / sqrt(9)
        held = 0
        for _ in range(400):
            one = Comparison.of(observed, random.poisson(9, 300).tolist())
            assert one.z_low is not None
            assert one.z_high is not None
            held += one.z_low <= right <= one.z_high
        assert 368 <= held <= 394  # 380 expected; three and a half standard errors


def test_statistics_of_large_counts_lose_nothing() -> None:
    """Counts that differ in their last digits alone, and counts beyond floating point."""
    for base in (10**17, 10**40, 10**320):
        near = Comparison.of(base + 9, [base + each for each in (1, 2, 3, 4)])
        assert near.z == pytest.approx(6.5 / statistics.stdev([1, 2, 3, 4]), rel=1e-14)
        assert near.std == pytest.approx(statistics.stdev([1, 2, 3, 4]), rel=1e-14)
    far = Comparison.of(10**320, [0, 2 * 10**320, 10**320, 0])
    assert far.z == pytest.approx(0.25 / statistics.stdev([0, 2, 1, 0]))
    assert (far.mean, far.std, far.to_dict()["mean"]) == (float("inf"), float("inf"), None)


@pytest.mark.parametrize("motif", [Butterfly(), Biclique(2, 2)])
def test_vertices_by_definition(motif: Motif) -> None:
    found = papilio.significance(GRAPH, motif, samples=N, seed=4, per="vertex", **HERE)
    own, samples = count_butterflies(edges_of(GRAPH)).vertex, samples_of(GRAPH, "degrees", N)
    counts = [count_butterflies(edges_of(each)).vertex for each in samples]
    for layer, size in (("u", GRAPH.n_u), ("v", GRAPH.n_v)):
        for vertex in range(size):
            values = [each[layer, vertex] for each in counts]
            one = Comparison.of(own[layer, vertex], values)
            assert found.vectors[layer][vertex] == own[layer, vertex]
            assert found.means[layer][vertex] == one.mean
            assert found.stds[layer][vertex] == one.std
            assert found.p_values[layer][vertex] == one.p_value
            z = found.scores[layer][vertex]
            assert np.isnan(z) if one.z is None else z == one.z
    assert found.samples == papilio.significance(GRAPH, motif, samples=N, seed=4, **HERE).samples
    frame = found.to_pandas()
    assert [*frame.columns] == ["layer", "id", "count", *VERTEX_COLUMNS, *CORRECTIONS]
    varies = (frame["std"] > 0).to_numpy()
    corrected = scipy.stats.false_discovery_control(frame["p_value"][varies])
    assert frame["q_value"][varies].tolist() == pytest.approx(corrected.tolist())
    assert frame["q_value"][~varies].isna().all()
    assert found.q_values["u"].tolist() == pytest.approx(frame["q_value"][: GRAPH.n_u].tolist(), nan_ok=True)
    assert [frame[each].tolist() for each in ("p_more", "p_less")] == [
        [each for layer in "uv" for each in found._statistics[layer][at].tolist()] for at in (3, 4)
    ]
    assert frame["z"].isna().sum() == sum(int(np.isnan(found.scores[each]).sum()) for each in "uv")
    best = found.top(3)
    assert [each.value for each in best[:3]] == sorted(found.scores["u"][~np.isnan(found.scores["u"])])[:-4:-1]


def test_too_few_samples_for_a_small_q_are_told(example_data: Path) -> None:
    women = example_data / "southern-women.txt.gz"
    found = papilio.significance(women, "butterfly", samples=100, per="vertex", **HERE)
    frame = found.to_pandas()
    n_least = int((frame["p_value"] == 2 / 101).sum())
    assert n_least
    assert 0.05 < frame["q_value"].min() <= len(frame) * 2 / 101 / n_least
    wanted = 2 * len(frame) / (0.05 * n_least)
    assert f"100 samples are too few for q below {frame['q_value'].min():.2g}" in found.warning
    assert f"{ceil(wanted) - 1:,} samples may give q up to 0.05" in found.warning
    assert not papilio.significance(women, "butterfly", samples=100, **HERE).warning


def test_sums_of_squares_are_exact() -> None:
    counts = np.array([0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63 + 12345, 2**64 - 1], np.uint64)
    many = [digits * np.uint64(10**6) for digits in moments_of(counts)]
    for place, count in enumerate(counts.tolist()):
        sums = dict(zip(MOMENTS, (int(each[place]) for each in many), strict=True))
        assert sums["sum0"] + (sums["sum1"] << 32) == count * 10**6
        assert sum(sums[f"square{k}"] << 32 * k for k in range(4)) == count**2 * 10**6


def test_edges_have_the_expected_butterflies() -> None:
    """Four given edges are all there with probability (m)_4 / (n_u n_v)_4."""
    n_u, n_v, m = GRAPH.n_u, GRAPH.n_v, GRAPH.n_edges
    expected = comb(n_u, 2) * comb(n_v, 2) * Fraction(comb(m, 4), comb(n_u * n_v, 4))
    found = papilio.significance(GRAPH, "butterfly", null="edges", samples=2000, **HERE)
    assert abs(found.mean - expected) < 4 * found.std / sqrt(2000)


def test_permuted_signs_have_the_expected_balance() -> None:
    """A butterfly is balanced where an even number of its four edges are negative (hypergeometric)."""
    assert SIGNED.sign is not None
    m, negative = SIGNED.n_edges, int((SIGNED.sign < 0).sum())
    even = sum(comb(negative, k) * comb(m - negative, 4 - k) for k in (0, 2, 4))
    expected = papilio.count(SIGNED, "butterfly", **HERE).count * Fraction(even, comb(m, 4))
    found = papilio.significance(SIGNED, "balanced-butterfly", samples=2000, **HERE)
    assert found.null == "signs"
    assert abs(found.mean - expected) < 4 * found.std / sqrt(2000)


def swapped(graph: BipartiteGraph, n_swaps: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Switch the ends of random pairs of edges, where that makes no edge twice."""
    edges = edges_of(graph)
    there = set(edges)
    for a, b in random.integers(0, len(edges), (n_swaps, 2)).tolist():
        (u1, v1), (u2, v2) = edges[a], edges[b]
        if (u1, v2) not in there and (u2, v1) not in there:
            there -= {(u1, v1), (u2, v2)}
            there |= {(u1, v2), (u2, v1)}
            edges[a], edges[b] = (u1, v2), (u2, v1)
    return edges


def test_degrees_have_the_mean_of_another_chain() -> None:
    random, n = np.random.default_rng(11), 400
    found = papilio.significance(GRAPH, "butterfly", samples=2000, **HERE)
    others = [count_butterflies(swapped(GRAPH, 30 * GRAPH.n_edges, random)).total for _ in range(n)]
    error = sqrt(found.std**2 / 2000 + statistics.variance(others) / n)
    assert abs(found.mean - statistics.mean(others)) < 4 * error
    assert abs(statistics.stdev(others) / found.std - 1) < 0.2
    assert found.warning == ""
    assert [steps for steps, _ in found.mixing] == [0, 1, 2, 3, 5, 10, 20, 25, 30, 35, 40]
    assert found.mixing[0][1] == found.count


def test_a_chain_that_is_too_short_is_doubted() -> None:
    """Two blocks of dense rows need many steps to dissolve."""
    u, v = np.indices((120, 40)).reshape(2, -1)
    blocks = BipartiteGraph.from_edges(*(each[(u < 60) == (v < 20)] for each in (u, v)))
    found = papilio.significance(blocks, "butterfly", steps=1, samples=200, **HERE)
    assert found.warning.startswith("1 step is too few: with more of them the mean count is ")
    assert papilio.significance(blocks, "butterfly", samples=200, **HERE).warning == ""


def test_correlated_chains_are_doubted() -> None:
    """Chains of a first-order process of known correlation, in the place of counted ones."""
    found = papilio.significance(GRAPH, "butterfly", samples=200, **HERE)
    assert found.independent_draws is not None
    assert found.independent_draws > 1.5
    assert json.loads(found.to_json())["independent_draws"] == found.independent_draws
    stops = [stop for stop in found.ensemble.stops if stop >= 20]
    random, draws = np.random.default_rng(2), {}
    for correlation in (0.0, 0.4, 0.97):
        table = dict(found.table)
        for chain in range(20):
            value = random.normal()
            for stop in stops:
                table[chain, stop] = round(found.mean + found.std * value)
                value = correlation * value + sqrt(1 - correlation**2) * random.normal()
        draws[correlation] = replace(found, table=table)
    worth = {each: one.independent_draws for each, one in draws.items()}
    assert worth[0.0] > worth[0.4] > 1 > 0.3 > worth[0.97]
    assert worth[0.4] == pytest.approx(4 * 0.6 / 1.4, abs=0.9)
    assert draws[0.4].warning == ""
    assert "20 steps are too few: " in draws[0.97].warning
    assert papilio.significance(GRAPH, "butterfly", null="edges", samples=200, **HERE).independent_draws is None
    far = replace(found, table={cell: count + 10**320 for cell, count in found.table.items()})
    assert far.mean == float("inf")
    assert far.independent_draws == pytest.approx(found.independent_draws, rel=1e-9)


@pytest.mark.parametrize("null", ["degrees", "edges", "expected-degrees"])
def test_a_graph_alone_has_no_z(null: NullName) -> None:
    whole = BipartiteGraph.from_edges(*np.indices((5, 4)).reshape(2, -1))
    found = papilio.significance(whole, "butterfly", null=null, samples=100, **HERE)
    assert (found.count, found.mean, found.std, found.z) == (60, 60.0, 0.0, None)
    assert (found.p_more, found.p_less, found.p_value) == (1.0, 1.0, 1.0)
    assert found.warning.startswith("all 100 random graphs have the same count, 60: std is 0 and z is undefined")
    assert any(each.what == "one realisation" for each in found.decisions)
    assert "z undefined" in repr(found)
    assert json.loads(found.to_json())["z"] is None


def ask(ensemble: Ensemble, motif: Motif, per: Any, name: str = "cpu", threads: int = 1) -> Any:
    """Return the engine and the graph prepared for it."""
    if name == "cpu":
        engine = Question(motif, per, ensemble=ensemble).load_engine("cpu", threads, None)
    else:
        device = cuda_device() if name == "gpu" else emulator(EMULATOR_SEED)
        engine = SampleEngine(motif_row(motif).engines["gpu"]()(device), ensemble, threads)
    return engine, engine.prepare(graph_of(motif), motif, per)


def graph_of(motif: Motif) -> Any:
    return GRAPH if motif_row(motif).graph_kind == "bipartite" else UnipartiteGraph.from_edges(GRAPH.u, GRAPH.v)


@pytest.mark.parametrize("per", ["total", "vertex"])
@pytest.mark.parametrize("name", ["cpu", "emulator", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("motif", [Butterfly(), FourCycle()], ids=["butterfly", "four-cycle"])
def test_any_split_gives_the_same_answer(motif: Motif, name: str, per: Any) -> None:
    ensemble = Ensemble("degrees", 3, 9, 5, chains=2)
    engine, prepared = ask(ensemble, motif, per)
    whole = engine.run(prepared, 0, prepared.n_items)
    assert whole.n_items == prepared.n_items == 12
    assert whole.total == papilio.count(graph_of(motif), motif, **HERE).count > 0
    for n_threads, cuts in ((1, (0, 1, 2, 3, 7, 12)), (3, (0, 5, 12)), (2, (0, 12))):
        other, held = ask(ensemble, motif, per, name, n_threads)
        parts = [other.run(held, *each) for each in pairwise(cuts)]
        folded = parts[-1]
        for part in parts[:-1]:
            folded = fold_partials(folded, part)
        assert (folded.total, folded.cells) == (whole.total, whole.cells)
        assert folded.work == other.run(held, 0, held.n_items).work
        assert folded.vectors.keys() == whole.vectors.keys()
        assert all(np.array_equal(folded.vectors[each], whole.vectors[each]) for each in whole.vectors)


@pytest.mark.parametrize(
    "graph", [GRAPH, GRAPH.swap_layers(), skewed_graph(3, 120, 40, 900), BipartiteGraph.from_edges([], [], 3, 2)]
)
@pytest.mark.parametrize("cuts", [(), (7,), (2, 3, 5, 6, 8, 21)])
def test_small_graphs_at_once_have_the_counts_of_one_after_the_other(
    graph: BipartiteGraph, cuts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = Question(Butterfly(), "total", ensemble=Ensemble("degrees", 3, 20, 5, chains=4)).load_engine(
        "cpu", 2, None
    )
    at_once = engine.prepare(graph, Butterfly(), "total")
    monkeypatch.setattr(small, "FEW_WEDGES", -1)
    one_by_one = engine.prepare(graph, Butterfly(), "total")
    assert "samples at once" in dict(at_once.decisions).keys() - dict(one_by_one.decisions).keys()
    expected = engine.run(one_by_one, 0, 25)
    monkeypatch.setattr(threads, "SERIAL_COST", 1)
    found = reduce(fold_partials, [engine.run(at_once, *each) for each in pairwise((0, *cuts, 25))])
    assert (found.n_items, found.total, found.cells) == (25, expected.total, expected.cells)


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_a_cut_run_answers_for_its_first_items(per: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SERIAL_COST", 1)
    ensemble = Ensemble("degrees", 3, 30, 5)
    engine, prepared = ask(ensemble, Butterfly(), per)
    looks = iter(range(100))
    first = engine.run(prepared, 4, 31, cut=lambda: next(looks) >= 9)
    assert first.n_items == 9
    rest = engine.run(prepared, 13, 31)
    whole = engine.run(prepared, 4, 31)
    assert fold_partials(first, rest).cells == whole.cells
    assert not any(vector.sum() for vector in engine.run(prepared, 4, 4).vectors.values())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("significance") / "graph"
    write_store(path, skewed_graph(3, 120, 90, 1500), provenance={})
    return path


def facts_of(found: SignificanceResult) -> dict[str, Any]:
    """What does not depend on where and how it was counted."""
    vectors = {name: vector.tolist() for name, vector in found.vectors.items()}
    names = ("count", "samples", "cells", "mixing", "z", "quantiles", "warning")
    return {name: getattr(found, name) for name in names} | {"table": found.table, "vectors": vectors}


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_workers_and_the_form_of_the_graph_do_not_matter(
    store: Path, tmp_path: Path, two_workers: Executor, per: Any
) -> None:
    asked: dict[str, Any] = {"samples": 150, "seed": 9, "per": per, "engine": "cpu"}
    one = facts_of(papilio.significance(str(store), "butterfly", cluster="inline", **asked))
    assert one == facts_of(papilio.significance(open_store(store).read(), "butterfly", **asked))
    job = tmp_path / "job"
    there = papilio.significance(str(store), "butterfly", cluster=two_workers, job=job, **asked)
    assert one == facts_of(there)
    other = papilio.significance(str(store), "butterfly", cluster="inline", **{**asked, "seed": 10})
    assert one["samples"] != other.samples

    again = papilio.significance(str(store), "butterfly", cluster="inline", job=job, **asked)
    assert again.reused
    assert facts_of(again) == one
    resumed = papilio.resume_job(job, trust=True)
    assert isinstance(resumed, SignificanceResult)
    assert facts_of(resumed) == one
    checked, recount = papilio.verify_job(job, sample=2, engine="cpu")
    assert checked.count == one["count"]
    assert recount is not None
    assert recount.leases > 0
    plan = papilio.open_job(job).plan()
    assert plan.n_items == 171
    assert plan.run_s is not None
    assert plan.run_s.value > 1e-4
    assert "one random graph was drawn and counted" in {each.reason for each in plan.decisions}
    status = papilio.open_job(job).status()
    assert status.count == one["count"]
    assert status.title == f"butterfly per {per} against 150 random graphs (null model degrees)"
    for changed in ({"seed": 8}, {"samples": 151}, {"null": "edges"}, {"steps": 21}):
        with pytest.raises(InputError, match=r"has job .* against random graphs"):
            papilio.significance(str(store), "butterfly", job=job, cluster="inline", **{**asked, **changed})
    with pytest.raises(InputError, match="choose another directory"):
        papilio.count(str(store), "butterfly", job=job, per=per, cluster="inline")


class _Stopped(Exception): ...


def test_what_was_finished_is_not_counted_again(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that ends in the middle leaves its leases to the next one."""
    from papilio.tasks import leases

    monkeypatch.setattr(leases, "KEPT_LEASE_S", 0.05)
    asked: dict[str, Any] = {"samples": 400, "seed": 2, "per": "vertex", "job": tmp_path / "job", **HERE}

    def stop(event: Any) -> None:
        if type(event).__name__ == "LeaseFinished":
            raise _Stopped

    with pytest.raises(_Stopped):
        papilio.significance(str(store), "butterfly", progress=stop, **asked)
    found = papilio.significance(str(store), "butterfly", **asked)
    assert found.leases_before == 1
    assert 0 < found.work_before < found.work
    del asked["job"]
    assert facts_of(found) == facts_of(papilio.significance(str(store), "butterfly", **asked))


def test_wrong_cells_are_refused() -> None:
    ensemble = Ensemble("degrees", 3, 5, 0, chains=2)
    question = Question(Butterfly(), "total", ensemble=ensemble)
    assert find_wrong_cell(question, {(2,): 7, (3,): 9, (0, 3): 4}, 7) is None
    assert find_wrong_cell(question, {(3,): 9}, 0) is None
    assert find_wrong_cell(question, {(2,): 7, ensemble.trades_cell: 4, ensemble.bias_cell: 30}, 7) is None
    for cells in ({(2,): 8}, {(10,): 1}, {(3,): 0}, {(3, 2): 1}, {(0,): 1}, {(0, 4 * 3): 1}, {(): 1}):
        assert find_wrong_cell(question, {(2,): 7, **cells}, 7) is not None
    table = Question(Biclique(None, 3), "total", ensemble=ensemble)
    assert find_wrong_cell(table, {(2, 1, 3): 7, (3, 2, 3): 9}, 7) is None
    assert find_wrong_cell(table, {(2, 1, 2): 7}, 7) is not None


def test_a_job_directory_whose_samples_were_changed_is_refused(store: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    papilio.significance(str(store), "butterfly", samples=20, per="vertex", job=job, **HERE)
    vectors = job / "vectors.parquet"
    answer = json.loads((job / "result.json").read_text())
    assert read_partial_shard(vectors, answer["vectors_digest"]).keys() == {
        *"uv", *(f"{layer}.{each}" for layer in "uv" for each in (*MOMENTS, *RANKS))
    }  # fmt: skip
    result = answer["result"]
    result["table"][3][1] = str(int(result["table"][3][1]) + 1)
    reseal(job / "result.json", result=result)
    with pytest.raises(ExecutionError, match="in cell"):
        papilio.open_job(job).result()


@pytest.mark.parametrize(
    ("graph", "motif", "asked", "error", "message"),
    [
        (GRAPH, "butterfly", {"samples": 0}, InputError, "samples is 0; the minimum is 2"),
        (GRAPH, "butterfly", {"samples": -3}, InputError, "samples is -3; the minimum is 2"),
        (GRAPH, "butterfly", {"samples": 1}, InputError, "samples is 1; the minimum is 2"),
        (GRAPH, "butterfly", {"samples": 10**7}, InputError, "the maximum is 1000000"),
        (GRAPH, "butterfly", {"seed": -1}, InputError, "seed is -1; the minimum is 0"),
        (GRAPH, "butterfly", {"steps": 0}, InputError, "steps is 0; the minimum is 1"),
        (GRAPH, "butterfly", {"null": "edges", "steps": 5}, InputError, "only the null model 'degrees' takes steps"),
        (GRAPH, "butterfly", {"null": "none"}, InputError, "null is 'none'"),
        (GRAPH, "butterfly", {"per": "edge"}, UnsupportedError, "random graphs have different edges"),
        (GRAPH, "butterfly", {"null": "signs"}, UnsupportedError, "does not depend on signs: use null 'degrees'"),
        (SIGNED, "census", {"pair_side": "u", "null": "edges"}, UnsupportedError, "by signs: use null 'signs'"),
        (GRAPH, "balanced-butterfly", {}, UnsupportedError, "has no signs"),
        (GRAPH, Biclique(2, None), {"per": "vertex"}, UnsupportedError, "cannot be counted per vertex"),
        (GRAPH, Clique(3), {}, UnsupportedError, "defined on unipartite graphs"),
        (GRAPH, "butterfly", {"device_memory": "8GiB"}, TypeError, "device_memory"),
        (GRAPH, "butterfly", {"output": "samples.txt"}, InputError, "samples.txt"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    graph: Any, motif: Any, asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        papilio.significance(graph, motif, **asked)


def test_a_graph_beyond_memory_is_refused_before_it_is_read(store: Path) -> None:
    """Each thread holds a random graph of its own; parts of a graph are no way out."""
    question = Question(Butterfly(), "total", ensemble=Ensemble("degrees", 20, 10, 0))
    job = replace(job_of(open_store(store), question), n_edges=10**8)
    one, four = (predict_memory(job, "cpu", threads).host_bytes for threads in (1, 4))
    assert four - PROCESS_BYTES["cpu"] > 2 * (one - PROCESS_BYTES["cpu"])
    worker = make_worker(threads=4, memory_bytes=(one + four) // 2)
    require_memory(job, "cpu", (replace(worker, threads=1),))
    with pytest.raises(CapacityError, match="use workers with at least") as caught:
        require_memory(job, "cpu", (worker,))
    assert "part" not in str(caught.value)


def test_files_and_figures(store: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"samples": 100, **HERE}
    file = tmp_path / "samples.csv"
    found = papilio.significance(str(store), "butterfly", output=file, **asked)
    lines = file.read_text().splitlines()
    assert lines[0] == '"sample","count"'
    assert tuple(int(each.split(",")[1]) for each in lines[1:]) == found.samples
    with pytest.raises(StoreError, match="exists"):
        papilio.significance(str(store), "butterfly", output=file, **asked)
    axes = found.plot()
    assert axes.get_xlabel() == "count of butterfly"
    assert sum(patch.get_height() for patch in axes.patches) == 100
    axes = found.plot(kind="mixing")
    assert axes.lines[0].get_ydata()[0] == found.count
    with pytest.raises(InputError, match="no chains"):
        papilio.significance(str(store), "butterfly", null="edges", **asked).plot(kind="mixing")
    table = papilio.significance(str(store), Biclique(2, None, max_q=4), output=tmp_path / "z.parquet", **asked)
    frame = table.to_pandas()
    assert frame["z"].dropna().tolist() == [each.z for each in table.cells.values() if each.z is not None]
    assert [*frame.columns[:4]] == ["p", "q", "observed", "mean"]


def test_the_command(store: Path, run: Run, tmp_path: Path) -> None:
    words = (
        "significance",
        "butterfly",
        store,
        "--samples",
        120,
        "--seed",
        3,
        "--cluster",
        "inline",
        "--engine",
        "cpu",
    )
    found = papilio.significance(str(store), "butterfly", samples=120, seed=3, **HERE)
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    names, values = (line.split() for line in done.stdout.splitlines())
    shown = dict(zip(names, values, strict=True))
    assert shown["observed"] == str(found.count)
    assert float(shown["z"]) == pytest.approx(found.z, rel=1e-5)
    assert "compared with 120 random graphs of null model degrees" in done.stderr
    assert json.loads(run(*words, "--json").stdout)["samples"] == list(found.samples)
    rows = run(*words, "--format", "csv").stdout.splitlines()
    assert rows[1:] == [f"{at},{count}" for at, count in enumerate(found.samples)]
    job = tmp_path / "job"
    assert run(*words, "--per", "vertex", "--job", job).exit_code == 0
    resumed = run("resume", job)
    assert "was already finished; nothing was counted now" in resumed.stderr
    best = papilio.significance(str(store), "butterfly", samples=120, seed=3, per="vertex", **HERE).top(1)[0]
    assert resumed.stdout.splitlines()[0] == f"u\t{best.ids[0]}\t{best.value:.6g}"
    assert run(*words, "--per", "edge").exit_code == 2
    alone = run("significance", "butterfly", store, "--null", "signs")
    assert (alone.exit_code, alone.stdout) == (4, "")


def test_plans_are_those_of_the_runs(store: Path, run: Run) -> None:
    asked: dict[str, Any] = {"samples": 150, "seed": 9, "per": "vertex", **HERE}
    made = papilio.plan(str(store), "butterfly", **asked)
    found = papilio.significance(str(store), "butterfly", **asked)
    assert made.n_items == found.items == 171
    assert made.key == found.plan_key
    assert made.run_s is not None
    assert 0 < made.run_s.low < made.run_s.value
    assert made.memory == predict_memory(made.job, "cpu", made.threads)
    whats = [each.what for each in made.decisions]
    assert "20 chains of 40 steps" in whats
    assert "20 steps of 1 global trade" in whats
    assert "one random graph was drawn and counted" in {each.reason for each in made.decisions}
    words = ("--samples", 150, "--seed", 9, "--per", "vertex", "--cluster", "inline", "--engine", "cpu")
    shown = run("plan", "butterfly", store, *words)
    assert "butterfly per vertex against 150 random graphs (null model degrees)" in shown.stdout
    assert "171 items" in shown.stdout
    assert json.loads(run("plan", "butterfly", store, *words, "--json").stdout)["key"] == made.key
    assert papilio.plan(str(store), "butterfly", **HERE).job.ensemble is None
    for given, message in (
        ({"null": "edges"}, "null is 'edges', which is for random graphs: set samples"),
        ({"seed": 0}, "seed is 0, which is for random graphs"),
        ({"samples": 9, "device_memory": "8GiB"}, "drawn from the whole graph: leave it out"),
    ):
        with pytest.raises(InputError, match=message):
            papilio.plan(str(store), "butterfly", **given, **HERE)
    assert run("plan", "butterfly", store, "--steps", 9).exit_code == 2


def test_random_graphs_of_each_layer_are_alike() -> None:
    """Swapping the layers of graph and motif changes the sample, not what it is drawn from."""
    one = papilio.significance(GRAPH, Biclique(2, 3), samples=500, **HERE)
    other = papilio.significance(GRAPH.swap_layers(), Biclique(3, 2), samples=500, seed=1, **HERE)
    assert one.count == other.count
    assert abs(one.mean - other.mean) < 4 * sqrt((one.std**2 + other.std**2) / 500)


def test_a_comparison_of_a_large_graph_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    women = papilio.example("southern-women")
    for edges, told in ((10**6, False), (89, True)):
        monkeypatch.setattr("papilio.cluster.driver.TOLD_EDGES", edges)
        events: list[Any] = []
        papilio.significance(women, "butterfly", samples=2, engine="cpu", progress=events.append)
        notes = [each.text for each in events if isinstance(each, Noted)]
        assert notes == ["one random graph is drawn and counted first, to predict the time of the others"] * told
