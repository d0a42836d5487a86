"""Checkerboards and togetherness: items, the item that is subtracted, bounds, GPUs, random graphs, numbers of vegan."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import papilio
from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Engine, Partial, fold_partials
from papilio.kernels.null.engine import SampleEngine
from papilio.kernels.null.ensemble import Ensemble
from papilio.kernels.null.gpu import make_randomizer_gpu
from papilio.kernels.null.models import NullModel
from papilio.kernels.null.small import SmallSamples
from papilio.kernels.wedge import submatrices
from papilio.kernels.wedge.submatrices import SubmatrixCpu, SubmatrixGpu
from papilio.motifs import Butterfly, Checkerboard, Granularity, Motif, Togetherness
from tests.conftest import share_of_examples
from tests.tools.matrices import SAFARILAND, SIPOO, Matrix
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, skewed_graph

MOTIFS = (Checkerboard(), Togetherness("u"), Togetherness("v"))

of_motifs = pytest.mark.parametrize("motif", MOTIFS, ids=lambda motif: motif.title)


def count(engine: Engine, graph: Any, motif: Motif, per: Granularity = "vertex") -> Partial:
    prepared = engine.prepare(graph, motif, per)
    return engine.run(prepared, 0, prepared.n_items)


def count_pairs(graph: BipartiteGraph, motif: Motif) -> int:
    """Sum over the pairs of a layer, by the formulas of Stone and Roberts."""
    edges, n = edge_list(graph), (graph.n_u, graph.n_v)
    if motif == Togetherness("v"):
        edges, n = [(v, u) for u, v in edges], n[::-1]
    held = [{b for a, b in edges if a == each} for each in range(n[0])]
    total = 0
    for one, two in combinations(held, 2):
        c, d, e = len(one & two), len(one), len(two)
        total += (d - c) * (e - c) if motif == Checkerboard() else c * (n[1] - d - e + c)
    return total


@of_motifs
def test_counts_are_the_sums_over_pairs(motif: Motif) -> None:
    @settings(max_examples=share_of_examples(60), deadline=None)
    @given(bipartite_graphs())
    def run(graph: BipartiteGraph) -> None:
        got = count(SubmatrixCpu(1), graph, motif)
        assert got.total == count_pairs(graph, motif) >= 0
        for vector in got.vectors.values():
            assert sum(vector.tolist()) == 2 * got.total

    run()


@pytest.mark.parametrize("matrix", [SIPOO, SAFARILAND], ids=["sipoo", "safariland"])
def test_numbers_are_those_of_vegan(matrix: Matrix) -> None:
    engine = SubmatrixCpu(1)
    got = [count(engine, matrix.graph, motif).total for motif in MOTIFS]
    assert got == [matrix.checkerboards, *matrix.togetherness]


def test_the_last_item_is_what_twice_the_butterflies_lack() -> None:
    """A complete graph has no checkerboard: its last item is negative."""
    graph, engine = complete_graph(9, 17), SubmatrixCpu(1)
    prepared = engine.prepare(graph, Checkerboard(), "vertex")
    last = prepared.n_items - 1
    assert engine.work(prepared).tolist()[last:] == [1]
    rest = engine.run(prepared, last, last + 1)
    assert (rest.n_items, rest.work, rest.total) == (1, 1, -2 * comb(9, 2) * comb(17, 2))
    first = engine.run(prepared, 0, last)
    whole = fold_partials(rest, first)
    assert (whole.total, {name: int(each.max()) for name, each in whole.vectors.items()}) == (0, {"u": 0, "v": 0})
    assert engine.run(prepared, last, last).n_items == 0
    assert engine.run(prepared, last + 1, last + 1).total == 0


def test_a_cut_run_leaves_the_last_item() -> None:
    engine = SubmatrixCpu(1)
    prepared = engine.prepare(skewed_graph(1, 60, 50, 400), Checkerboard(), "total")
    partial = engine.run(prepared, 0, prepared.n_items, (), lambda: True)
    assert (partial.n_items, partial.total) == (0, 0)


@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_a_matching_has_no_wedge_and_all_checkerboards(n: int) -> None:
    graph = BipartiteGraph.from_edges(np.arange(n), np.arange(n), n, n)
    got = count(SubmatrixCpu(2), graph, Checkerboard())
    assert got.total == comb(n, 2)
    assert got.vectors["u"].tolist() == got.vectors["v"].tolist() == [max(n - 1, 0)] * n
    prepared = SubmatrixCpu(1).prepare(graph, Checkerboard(), "total")
    assert prepared.n_items == 1


def test_layers_without_edges_or_vertices() -> None:
    for sizes in ((0, 0), (4, 0), (0, 4), (4, 3)):
        graph = BipartiteGraph.from_edges([], [], *sizes)
        for motif in MOTIFS:
            got = count(SubmatrixCpu(1), graph, motif)
            assert (got.total, got.vectors["u"].tolist(), got.vectors["v"].tolist()) == (
                0,
                [0] * sizes[0],
                [0] * sizes[1],
            )


def test_counts_per_vertex_that_could_wrap_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vertex of K(3, 2) has two edges, and the graph six; two vertices of V share three, in a layer of three."""
    graph = complete_graph(3, 2)
    for motif, bound in ((Checkerboard(), 18), (Togetherness("u"), 12), (Togetherness("v"), 9)):
        monkeypatch.setattr(submatrices, "MAX_VERTEX_COUNT", bound)
        assert count(SubmatrixCpu(1), graph, motif).total == 0
        monkeypatch.setattr(submatrices, "MAX_VERTEX_COUNT", bound - 1)
        with pytest.raises(CapacityError, match=rf"could be in {bound} of .*: count the total instead"):
            count(SubmatrixCpu(1), graph, motif)
        assert count(SubmatrixCpu(1), graph, motif, "total").total == 0


def test_bounds_hold() -> None:
    @settings(max_examples=share_of_examples(40), deadline=None)
    @given(bipartite_graphs())
    def run(graph: BipartiteGraph) -> None:
        for motif in MOTIFS:
            most = max(int(each.max(initial=0)) for each in count(SubmatrixCpu(1), graph, motif).vectors.values())
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(submatrices, "MAX_VERTEX_COUNT", most - 1)
                if most:
                    with pytest.raises(CapacityError):
                        count(SubmatrixCpu(1), graph, motif)

    run()


def test_parts_and_edges_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot be counted per 'edge'"):
        SubmatrixCpu(1).prepare(complete_graph(3, 3), Checkerboard(), "edge")


@of_motifs
@pytest.mark.parametrize("per", ["total", "vertex"])
def test_gpus_count_as_many(device: Device, motif: Motif, per: Granularity) -> None:
    cpu, gpu = SubmatrixCpu(2), SubmatrixGpu(device)
    for graph in (skewed_graph(1, 90, 60, 700), complete_graph(2, 70), BipartiteGraph.from_edges([], [], 3, 2)):
        items = [engine.work(engine.prepare(graph, motif, per)).tolist() for engine in (cpu, gpu)]
        assert items[0] == items[1]
        got, wanted = count(gpu, graph, motif, per), count(cpu, graph, motif, per)
        assert (got.total, got.work, got.n_items) == (wanted.total, wanted.work, wanted.n_items)
        for name, vector in wanted.vectors.items():
            np.testing.assert_array_equal(got.vectors[name], vector)


@of_motifs
@pytest.mark.parametrize("per", ["total", "vertex"])
def test_graphs_on_a_device_are_counted_there(device: Device, motif: Motif, per: Granularity) -> None:
    graph = skewed_graph(2, 60, 40, 400)
    drawn: Any = make_randomizer_gpu(device, graph, NullModel("degrees", 2), stays=True).sample(5, 2)
    u, v = device.to_host(drawn.u), device.to_host(drawn.v)
    got = count(SubmatrixGpu(device), drawn, motif, per)
    wanted = count(SubmatrixCpu(1), BipartiteGraph.from_edges(u, v, graph.n_u, graph.n_v), motif, per)
    assert got.total == wanted.total
    for name, vector in wanted.vectors.items():
        np.testing.assert_array_equal(got.vectors[name], vector)


@of_motifs
def test_samples_of_small_graphs_are_counted_at_once(motif: Motif, monkeypatch: pytest.MonkeyPatch) -> None:
    """By butterflies and paths of three edges, with the counts of the engine."""
    graph, ensemble = SIPOO.graph, Ensemble.of("degrees", 30, 3)
    found = []
    for small in (True, False):
        if not small:
            monkeypatch.setattr(SmallSamples, "of", lambda *given, **named: None)
        engine = SampleEngine(SubmatrixCpu(1), ensemble, 1)
        prepared = engine.prepare(graph, motif, "total")
        assert (prepared.small is not None) == small
        found.append(engine.run(prepared, 0, prepared.n_items))
    assert found[0].cells == found[1].cells
    assert len(set(found[0].cells.values())) > 10


def test_a_constant_beyond_64_bits_is_not_added_at_once() -> None:
    engine = SubmatrixCpu(1)
    wide = BipartiteGraph.from_edges(np.arange(2**17), np.zeros(2**17, int), 2**17, 2**31 - 1)
    prepared = submatrices.PreparedSubmatrices(None, 2**62, 0, {}, ())
    assert engine.in_butterflies(prepared) is None
    constant = submatrices.count_constant(
        Togetherness("u"), wide.n_edges, {"u": wide.n_u, "v": wide.n_v}, {"u": 0, "v": comb(2**17, 2)}
    )
    assert constant > 2**62


@pytest.mark.parametrize("null", ["degrees", "expected-degrees", "edges"])
def test_random_graphs_of_every_null_model_are_counted(null: Any) -> None:
    """Samples are the graphs of papilio.randomize."""
    here: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}
    graph = SAFARILAND.graph
    for motif in MOTIFS:
        found = papilio.significance(
            graph, motif, null=null, samples=4, seed=5, steps=3 if null == "degrees" else None, **here
        )
        drawn = papilio.randomize(graph, null=null, samples=4, seed=5, steps=3 if null == "degrees" else None)
        arrays: list[Any] = [each.arrays() for each in drawn]
        assert list(found.samples) == [count_pairs(each, motif) for each in arrays]
        assert found.count == count_pairs(graph, motif)


def test_checkerboards_of_sipoo_are_as_random_as_vegan_says() -> None:
    """Of 1,999 graphs of its null model quasiswap the mean is 2705.0, and z 0.684; z of 99 is 0.461 in its manual."""
    found = papilio.significance(SIPOO.graph, "checkerboard", samples=1000, seed=1, cluster="inline", engine="cpu")
    assert found.mean == pytest.approx(2705, abs=12)
    assert found.z == pytest.approx(0.68, abs=0.15)
    assert papilio.significance(SIPOO.graph, Butterfly(), samples=9, cluster="inline", engine="cpu").count > 0
