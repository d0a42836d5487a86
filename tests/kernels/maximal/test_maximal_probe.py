"""Probes of the search for maximal bicliques: unbiased, the same on CPU and GPU, and by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.exact import mix
from papilio.kernels.maximal.cpu import MaximalBicliqueCpu
from papilio.kernels.maximal.gpu import MaximalBicliqueGpu
from papilio.kernels.maximal.list import MaximalBicliqueLister
from papilio.kernels.maximal.list_gpu import MaximalBicliqueGpuLister
from papilio.kernels.maximal.loops import BRANCHES
from papilio.kernels.probe import Found, cut_strata, draw_items
from papilio.motifs import Listing, MaximalBiclique
from tests.conftest import EMULATOR_SEED, share_of_examples
from tests.kernels.maximal.questions import motifs
from tests.tools.devices import cuda_device, emulator
from tests.tools.pairs import all_pairs
from tests.tools.root_parts import cut_maximal_by_definition, group_at_random
from tests.tools.strategies import bipartite_graphs, complete_graph, graph_of, planted_graph, skewed_graph


def dense_graph(seed: int, n_u: int, n_v: int) -> BipartiteGraph:
    """Return a graph with half of all edges."""
    u, v = np.nonzero(np.random.default_rng(seed).random((n_u, n_v)) < 0.5)
    return BipartiteGraph.from_edges(u, v, n_u, n_v)


GRAPHS = {
    "skewed": skewed_graph(3, 120, 90, 1500),
    "planted": planted_graph(5, 70, 60, blocks=4, block_side=14, noise_edges=200, missing=0.2),
    "wide": dense_graph(3, 16, 150),  # rows of several words, which shrink
    "crown": graph_of({(u, v) for u in range(9) for v in range(9) if u != v}, 9, 9),
    "nested": graph_of({(u, v) for u in range(20) for v in range(20) if u <= v}, 20, 20),
    "complete": complete_graph(9, 70),
    "twins": graph_of({(u, v) for u in range(24) for v in range(24) if (u // 3 + v // 4) % 3}, 24, 24),
}
QUESTIONS = [MaximalBiclique(), MaximalBiclique(min_u=3, min_v=4), MaximalBiclique(max_u=5, max_v=6)]
DEVICES = [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)]


def probe_all(engine: Any, prepared: Any, times: int) -> Found:
    """Probe every item so often; arrays of shape (times, n_items)."""
    n = prepared.n_items
    found = engine.prober(prepared).walk(np.tile(np.arange(n), times), mix(np.arange(times * n, dtype=np.uint64)))
    return Found(*(each.reshape(times, n) for each in found))


def assert_mean(estimates: np.ndarray, exact: np.ndarray | float) -> None:
    """The mean of the estimates is within 4.5 standard errors of what is exact, for each column."""
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert (abs(estimates.mean(axis=0) - exact) <= 4.5 * error + 1e-9 * np.abs(exact)).all()


def count_branches(engine: Any, prepared: Any) -> int:
    """Return the branches of the search, as the CPU engine counts them itself."""
    state = engine._make_state(prepared)
    engine._begin(state, 0)
    assert engine._search(prepared, state, prepared.n_items)
    return int(state.found.sums[BRANCHES])


@pytest.mark.parametrize(("name", "motif"), all_pairs(GRAPHS, QUESTIONS), ids=str)
@pytest.mark.parametrize("anchor", ["u", "v"])
def test_counts_and_branches_are_unbiased(name: str, anchor: str, motif: MaximalBiclique) -> None:
    engine = MaximalBicliqueCpu(1, anchor)
    prepared = engine.prepare(GRAPHS[name], motif, "total")
    found = probe_all(engine, prepared, max(300, 50_000 // prepared.n_items))
    whole = engine.run(prepared, 0, prepared.n_items)
    assert_mean(found.motifs.sum(axis=1), whole.total - engine.prober(prepared).known)
    stars = sum(count * sum(cell) for cell, count in prepared.stars.cells.items())
    assert_mean(found.members.sum(axis=1), sum(count * sum(cell) for cell, count in whole.cells.items()) - stars)
    assert_mean(found.nodes.sum(axis=1), count_branches(engine, prepared))


@pytest.mark.parametrize("anchor", ["u", pytest.param("v", marks=pytest.mark.slow)])
def test_every_item_is_estimated(anchor: str) -> None:
    """Items are ranges of the children of roots, which are cut where there are many."""
    graph = skewed_graph(9, 600, 500, 15_000)
    engine = MaximalBicliqueCpu(2, anchor)
    prepared = engine.prepare(graph, MaximalBiclique(), "total")
    assert prepared.n_items > np.unique(prepared.index.item_root).size
    found = probe_all(engine, prepared, 400)
    some = np.arange(0, prepared.n_items, 7)
    counts = [engine.run(prepared, i, i + 1).total for i in some.tolist()]
    counts[0] -= engine.prober(prepared).known
    estimates = found.motifs[:, some]
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    off = abs(estimates.mean(axis=0) - counts) / np.maximum(error, 1e-9 * np.maximum(counts, 1))
    assert np.quantile(off, 0.9) < 3  # few probes of heavy items are far off by their own error
    assert sum(counts) > 1000


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("name", GRAPHS)
def test_devices_walk_the_branches_of_the_cpu(name: str, anchor: str, device: Any) -> None:
    on: Device = device(EMULATOR_SEED) if device is emulator else device()
    for motif in QUESTIONS:
        check_same(GRAPHS[name], motif, anchor, on, 1 if device is emulator else 50)


def check_same(graph: Any, motif: MaximalBiclique, anchor: str, device: Device, times: int) -> None:
    """Probe on both engines with the same seeds; the answers are equal to the last bit."""
    answers, known = [], set()
    for engine in (MaximalBicliqueCpu(2, anchor), MaximalBicliqueGpu(device, anchor)):
        prepared = engine.prepare(graph, motif, "total")
        answers.append(probe_all(engine, prepared, times))
        known.add(engine.prober(prepared).known)
    assert len(known) == 1
    for mine, theirs in zip(*answers, strict=True):
        assert mine.tolist() == theirs.tolist()


@settings(max_examples=12, deadline=None)
@given(bipartite_graphs(9), motifs(), st.sampled_from(["u", "v"]))
def test_devices_walk_small_graphs_alike(graph: BipartiteGraph, motif: MaximalBiclique, anchor: str) -> None:
    check_same(graph, motif, anchor, emulator(EMULATOR_SEED), 3)


@settings(max_examples=share_of_examples(40), deadline=None)
@given(bipartite_graphs(9), motifs(), st.sampled_from(["u", "v"]))
def test_small_graphs_are_unbiased(graph: BipartiteGraph, motif: MaximalBiclique, anchor: str) -> None:
    engine = MaximalBicliqueCpu(1, anchor)
    prepared = engine.prepare(graph, motif, "total")
    found = probe_all(engine, prepared, 1000)
    exact = engine.run(prepared, 0, prepared.n_items).total - engine.prober(prepared).known
    estimates = found.motifs.sum(axis=1)
    error = estimates.std() / np.sqrt(len(estimates))
    assert abs(estimates.mean() - exact) <= 5.5 * error + 1e-9 * exact


def test_parts_are_probed_alike() -> None:
    """Rows of earlier parts are excluded; the estimates of all parts add up to the whole."""
    graph, device = GRAPHS["planted"], emulator(EMULATOR_SEED)
    groups = group_at_random(graph, "u", 3, 1)
    parts = cut_maximal_by_definition(graph, "u", groups)
    engine, mean, variance, known = MaximalBicliqueCpu(1), 0.0, 0.0, 0
    for part in parts:
        check_same(part, MaximalBiclique(), "auto", device, 1)
        prepared = engine.prepare(part, MaximalBiclique(), "total")
        sums = probe_all(engine, prepared, 1500).motifs.sum(axis=1)
        mean, variance = mean + sums.mean(), variance + sums.var() / 1500
        known += engine.prober(prepared).known
    whole = engine.prepare(graph, MaximalBiclique(), "total")
    exact = engine.run(whole, 0, whole.n_items).total
    assert abs(mean + known - exact) <= 4.5 * np.sqrt(variance)


@pytest.mark.parametrize("edges", [set(), {(0, v) for v in range(5)}, {(u, u) for u in range(4)}])
def test_stars_are_known_and_not_probed(edges: set[tuple[int, int]]) -> None:
    graph = graph_of(edges, 5, 5)
    for engine in (MaximalBicliqueCpu(1), MaximalBicliqueGpu(emulator(1))):
        prepared: Any = engine.prepare(graph, MaximalBiclique(), "total")
        found = probe_all(engine, prepared, 2)
        assert not any(each.any() for each in found)
        assert engine.prober(prepared).known == engine.run(prepared, 0, prepared.n_items).total


def test_listings_are_probed_as_counts() -> None:
    """What every row must hold makes the graph smaller; members are the vertices of all rows but stars."""
    graph, listing = GRAPHS["planted"], Listing(with_u=(3,))
    cpu = MaximalBicliqueLister(1, listing)
    prepared: Any = cpu.prepare(graph, MaximalBiclique(), "total")
    found = probe_all(cpu, prepared, 2000)
    members = []
    listed = cpu.run(prepared, 0, prepared.n_items, sink=lambda u, v, part=None: members.append(u[1].size + v[1].size))
    assert_mean(found.motifs.sum(axis=1), listed.total - cpu.prober(prepared).known)
    stars = sum(count * sum(cell) for cell, count in prepared.stars.cells.items())
    assert_mean(found.members.sum(axis=1), sum(members) - stars)
    gpu: Any = MaximalBicliqueGpuLister(emulator(EMULATOR_SEED), listing)
    made = gpu.prepare(graph, MaximalBiclique(), "total")
    for mine, theirs in zip(probe_all(cpu, prepared, 1), probe_all(gpu, made, 1), strict=True):
        assert mine.tolist() == theirs.tolist()
    assert gpu.prober(made).known == cpu.prober(prepared).known
    assert gpu.prober(made).rates.words_s > cpu.prober(prepared).rates.words_s


def test_strata_estimate_the_whole_and_seeds_decide() -> None:
    engine = MaximalBicliqueCpu(2)
    prepared = engine.prepare(GRAPHS["skewed"], MaximalBiclique(), "total")
    bounds = cut_strata(prepared.work, 4)
    estimates = []
    for seed in range(200):
        drawn = draw_items(prepared.work, bounds, np.full(bounds.size - 1, 100), seed)
        found = engine.prober(prepared).walk(drawn.items, drawn.seeds)
        alone = engine.prober(prepared).walk(drawn.items[5:9], drawn.seeds[5:9])
        assert all(np.array_equal(one[5:9], two) for one, two in zip(found, alone, strict=True))
        estimates.append(float((drawn.weights * found.motifs).sum()))
    assert len(set(estimates)) > 190
    exact = engine.run(prepared, 0, prepared.n_items).total - engine.prober(prepared).known
    assert_mean(np.array(estimates), exact)
