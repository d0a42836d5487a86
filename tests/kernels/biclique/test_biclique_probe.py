"""Probes of searches: the same on CPU and GPU, unbiased, and what they choose."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu import BicliqueGpu, _add_right_rows
from papilio.kernels.biclique.gpu_index import build_device_index
from papilio.kernels.biclique.gpu_probe import measure_probes as measure_on_device
from papilio.kernels.biclique.index import BicliqueIndex, build_biclique_index
from papilio.kernels.biclique.items import SizeRange
from papilio.kernels.biclique.probe import (
    CPU_RATES,
    GPU_RATES,
    Measured,
    Probes,
    Rates,
    choose_search,
    count_ways,
    draw_probes,
)
from papilio.kernels.biclique.probe_loops import measure_probes
from papilio.kernels.device.protocol import Device
from papilio.motifs import Biclique
from tests.tools.devices import cuda_device, emulator
from tests.tools.strategies import complete_graph, planted_graph, skewed_graph

GRAPHS = {
    "skewed": skewed_graph(3, 120, 90, 1500),
    "planted": planted_graph(5, 90, 80, blocks=4, block_side=24, noise_edges=400, missing=0.2),
    "wide": skewed_graph(7, 40, 300, 5000, exponent=1.2),
    "complete": complete_graph(40, 70),
}
QUESTIONS = [(4, 3), (5, 2), (6, 6)]


def index_of(graph: BipartiteGraph, p: int, q: int, anchor: str = "u") -> BicliqueIndex:
    return build_biclique_index(graph, Biclique(p, q), 1, anchor)


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("name", GRAPHS)
def test_devices_walk_the_branches_of_the_cpu(name: str, anchor: str, device: object) -> None:
    on: Device = device(3) if device is emulator else device()
    for p, q in QUESTIONS:
        index = index_of(GRAPHS[name], p, q, anchor)
        made = _add_right_rows(on, build_device_index(on, GRAPHS[name], Biclique(p, q), anchor))
        if not index.hop.size or index.sizes.min_left < 3:
            continue
        probes = draw_probes(index, 24, seed=p)
        for mine, theirs in zip(probes, draw_probes(made, 24, seed=p), strict=True):
            assert np.array_equal(mine, theirs)
        for mine, theirs in zip(
            measure_probes(index, probes, 2), measure_on_device(on, made, probes), strict=True
        ):
            assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("name", GRAPHS)
def test_counts_and_words_are_unbiased(name: str, anchor: str) -> None:
    """Means over many seeds are within four standard errors of what the search counts, and of its words."""
    for p, q in QUESTIONS[:2]:
        index = index_of(GRAPHS[name], p, q, anchor)
        if not index.hop.size or index.sizes.min_left < 3:
            continue
        seeds = range(60)
        sums = np.array(
            [
                [each.sum() for each in measure_probes(index, draw_probes(index, 1024, seed), 1)]
                for seed in seeds
            ]
        )
        mean, error = sums.mean(axis=0), sums.std(axis=0) / np.sqrt(len(seeds))
        engine = BicliqueCpu(1, "enumerate", anchor)
        prepared = engine.prepare(GRAPHS[name], Biclique(p, q), "total")
        counted = engine.run(prepared, 0, prepared.n_items)
        for column in (2, 5):
            assert abs(mean[column] - counted.total) <= 4 * error[column] + 1e-9 * counted.total
        assert mean[0] <= counted.work + 4 * error[0]


def test_ways_are_binomials() -> None:
    ways = count_ways(4, 9)
    assert [[round(way) for way in row] for row in ways] == [
        [comb(n, 4 - held) for n in range(10)] for held in range(5)
    ]


@pytest.mark.parametrize("device", [None, emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
def test_the_layer_that_is_cheap_is_anchored(device: Callable[..., Device] | None) -> None:
    """Sets of eight of one layer are many, sets of three of the other few; wedges alone would take the first."""
    inside = np.random.default_rng(1).random((60, 90)) < 0.6
    u, v = np.nonzero(inside)
    graph = BipartiteGraph.from_edges(u, v, 60, 90)
    engine: Any = BicliqueCpu(1)
    if device is not None:
        if device is emulator:
            pytest.skip("the search is too long for the emulator")
        engine = BicliqueGpu(device())
    prepared = engine.prepare(graph, Biclique(8, 3), "total")
    (layer, reason), (algorithm, _) = prepared.decisions
    assert (layer, algorithm) == ("layer V anchored", "algorithm enumerate")
    assert reason.startswith("probes predict")
    wanted = sum(comb(n, 8) for n in _common_of_triples(inside))
    assert engine.run(prepared, 0, prepared.n_items).total == wanted


def _common_of_triples(inside: np.ndarray) -> list[int]:
    """Return the common neighbours of every three columns."""
    sizes = []
    for a in range(inside.shape[1]):
        for b in range(a):
            both = inside[:, a] & inside[:, b]
            sizes += inside[both, :b].sum(axis=0).tolist()
    return sizes


def _index(swapped: bool, cost: int) -> Any:
    one = np.ones(4, np.int64)
    return SimpleNamespace(
        swapped=swapped, sizes=SizeRange(4, 4, 4, 4), n_left=10**8, costs=one * cost,
        item_root=np.arange(4, dtype=np.int32),
        item_first=0 * one, item_last=one,
    )  # fmt: skip


def _measure(words: dict[bool, tuple[float, float]]) -> Callable[[Any, Probes], Measured]:
    def measure(index: Any, probes: Probes) -> Measured:
        by_sets, by_pivots = (
            np.full(probes.roots.size, each / probes.roots.size) for each in words[index.swapped]
        )
        return Measured(by_sets, 0 * by_sets, by_sets, by_pivots, 0 * by_pivots, by_pivots)

    return measure


@pytest.mark.parametrize("rates", [CPU_RATES, GPU_RATES], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    ("words", "wedges", "swapped", "algorithm"),
    [
        ({False: (1e12, 1e12), True: (1e8, 1e12)}, 1_000, True, "enumerate"),
        ({False: (1e12, 1e12), True: (1e12, 1e8)}, 1_000, True, "pivot"),
        ({False: (1e10, 1e12), True: (1e12, 1e12)}, 1_000, False, "enumerate"),
        ({False: (1e12, 1e8), True: (1e12, 1e12)}, 1_000, False, "pivot"),
        ({False: (1e10, 1e12), True: (1.0, 1.0)}, 10**9, False, "enumerate"),  # its pairs take longer to find
        ({False: (1.0, 1e12), True: (0.0, 0.0)}, 0, False, "enumerate"),  # not worth a look
    ],
)  # fmt: skip
def test_the_cheapest_search_is_chosen(
    words: dict[bool, tuple[float, float]], wedges: int, swapped: bool, algorithm: str, rates: Rates
) -> None:
    """Every engine takes the same layer: work items depend on it."""
    built = []

    def build() -> Any:
        built.append(True)
        return _index(True, 1)

    chosen = choose_search(
        _index(False, 1), ("enumerate", "pivot"), _measure(words), build, lambda: (0, wedges), rates
    )
    assert chosen.index.swapped == swapped
    assert bool(built) == (wedges == 1_000)
    if rates is CPU_RATES:
        assert chosen.algorithm == algorithm


def test_a_layer_whose_pairs_do_not_fit_is_left() -> None:
    def build() -> Any:
        raise CapacityError("no room")

    words = {False: (1e12, 1e12)}
    chosen = choose_search(
        _index(False, 1), ("enumerate",), _measure(words), build, lambda: (1, 1), CPU_RATES
    )
    assert (chosen.index.swapped, chosen.algorithm) == (False, "enumerate")
    assert chosen.layer_reason == "pairs of the other layer do not fit the memory"
