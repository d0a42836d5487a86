"""4-cycles by every schedule of the CUDA butterfly kernels, against the butterflies of the double cover."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from papilio.graph import UnipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import fold_partials
from papilio.kernels.wedge.cycles import index_layer
from papilio.kernels.wedge.gpu import FourCycleGpu
from papilio.motifs import FourCycle, Granularity
from tests.kernels.wedge.test_gpu_butterfly import SCHEDULES, VECTORS
from tests.tools.oracle import count_butterflies
from tests.tools.strategies import edge_list, graphs_of_all_starts

Wanted = tuple[int, list[int], list[int]]


@cache
def graphs_with_counts() -> dict[str, tuple[UnipartiteGraph, Wanted]]:
    """Return graphs with odd cycles, tiles, hubs and twins; their total, and counts per vertex and edge.

    In the double cover each 4-cycle is two butterflies, and a vertex or edge is in as many from either layer.
    """
    found = {}
    for name, given in graphs_of_all_starts().items():
        graph = UnipartiteGraph.from_edges(given.u, given.v, max(given.n_u, given.n_v) + 1)
        edges = edge_list(graph)
        cover = count_butterflies([*edges, *((v, u) for u, v in edges)])
        vertices = [cover.vertex["u", x] for x in range(graph.n)]
        found[name] = graph, (cover.total // 2, vertices, [cover.edge[edge] for edge in edges])
    return found


def check(engine: FourCycleGpu, name: str, per: Granularity) -> None:
    """Compare the total and the vectors, counted in two intervals, and the items of the CPU engine."""
    graph, (total, vertices, edges) = graphs_with_counts()[name]
    prepared = engine.prepare(graph, FourCycle(), per)
    middle = prepared.n_items // 3
    partial = fold_partials(engine.run(prepared, 0, middle), engine.run(prepared, middle, prepared.n_items))
    assert partial.total == total > 0
    vectors = {name: vector.tolist() for name, vector in partial.vectors.items()}
    assert vectors == {"total": {}, "vertex": {"n": vertices}, "edge": {"edge": edges}}[per]
    index = index_layer(graph)
    np.testing.assert_array_equal(engine.device.to_host(prepared.items), index.items)
    np.testing.assert_array_equal(engine.work(prepared), index.costs)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedule_counts_totals(device: Device, schedule: str) -> None:
    for name in graphs_with_counts():
        check(FourCycleGpu(device, SCHEDULES[schedule]), name, "total")


@pytest.mark.parametrize(("schedule", "per"), VECTORS)
def test_schedule_counts_vectors(device: Device, schedule: str, per: Granularity) -> None:
    for name in ("skewed", "two hubs"):
        check(FourCycleGpu(device, SCHEDULES[schedule]), name, per)


@pytest.mark.parametrize("per", FourCycle().granularities)
def test_graphs_without_wedges(device: Device, per: Granularity) -> None:
    for n_edges, n in ((0, 0), (0, 3), (1, 2), (2, 3)):
        graph = UnipartiteGraph.from_edges(np.arange(n_edges), np.arange(n_edges) + 1, n)
        engine = FourCycleGpu(device)
        prepared = engine.prepare(graph, FourCycle(), per)
        partial = engine.run(prepared, 0, prepared.n_items)
        sizes = {"total": {}, "vertex": {"n": n}, "edge": {"edge": n_edges}}[per]
        assert (partial.total, {name: vector.tolist() for name, vector in partial.vectors.items()}) == (
            0, {name: [0] * size for name, size in sizes.items()}
        )  # fmt: skip


@pytest.mark.parametrize("tiles", [1, 3])
def test_tiles_of_hub_columns(device: Device, tiles: int) -> None:
    """Stars of 1,200 hubs come first, so that a clique of 8 vertices and its ends are in the second tile."""
    hubs, clique = 1200, 8
    pairs = np.triu_indices(clique, 1)
    leaves = np.repeat(np.arange(hubs), 8)
    first = hubs + clique
    u = np.r_[pairs[0] + hubs, leaves]
    v = np.r_[pairs[1] + hubs, first + np.arange(leaves.size)]
    graph = UnipartiteGraph.from_edges(u, v)
    tuning = replace(SCHEDULES["hubs by block"], hub_tiles=tiles, hub_tile_wedges=0)
    engine = FourCycleGpu(device, tuning)
    prepared = engine.prepare(graph, FourCycle(), "vertex")
    assert prepared.graph is not None
    assert prepared.graph.hub_columns == 1024 * tiles
    partial = engine.run(prepared, 0, prepared.n_items)
    assert partial.total == 3 * 70
    wanted = np.zeros(graph.n, np.int64)
    wanted[hubs : hubs + clique] = 3 * 35
    np.testing.assert_array_equal(partial.vectors["n"], wanted)
