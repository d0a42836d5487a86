"""Probes of searches: the same on CPU and GPU, unbiased, and what they choose."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu import _add_right_rows
from papilio.kernels.biclique.gpu_index import build_device_index
from papilio.kernels.biclique.gpu_probe import measure_probes as measure_on_device
from papilio.kernels.biclique.index import BicliqueIndex, build_biclique_index
from papilio.kernels.biclique.probe import count_ways, draw_probes
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
        if not index.hop.size or index.sizes.least_left < 3:
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
        if not index.hop.size or index.sizes.least_left < 3:
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
        for column in (1, 3):
            assert abs(mean[column] - counted.total) <= 4 * error[column] + 1e-9 * counted.total
        assert mean[0] <= counted.work + 4 * error[0]


def test_ways_are_binomials() -> None:
    ways = count_ways(4, 9)
    assert [[round(way) for way in row] for row in ways] == [
        [comb(n, 4 - held) for n in range(10)] for held in range(5)
    ]
