"""Signed motifs on the GPU: every schedule against the CPU engine, and the widths of counters."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device, check_fits
from papilio.kernels.engine import Engine, Partial, fold_partials
from papilio.kernels.rows import gpu_index as wedge_graph
from papilio.kernels.wedge.cpu import BalancedButterflyCpu
from papilio.kernels.wedge.gpu import BalancedButterflyGpu
from papilio.motifs import BalancedButterfly, Census, Granularity, Motif
from tests.kernels.wedge.test_gpu_butterfly import SCHEDULES
from tests.tools.devices import cuda_device
from tests.tools.strategies import complete_graph, planted_graph, skewed_graph

TABLES = [name for name in SCHEDULES if "hubs" not in name]
"""Schedules with counters in tables; the hub columns only give sums."""

SWEPT: tuple[Motif, ...] = (
    BalancedButterfly(None, pair_side="u"),
    BalancedButterfly(4, pair_side="v"),
    Census("u"),
    Census("v"),
)


def with_signs(graph: BipartiteGraph, seed: int) -> BipartiteGraph:
    """Return the graph with random signs."""
    sign = np.where(np.random.default_rng(seed).random(graph.n_edges) < 0.6, 1, -1).astype(np.int8)
    return BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, sign)


@pytest.fixture(scope="module")
def graphs() -> dict[str, BipartiteGraph]:
    """Graphs with tiles, twins, hubs on both layers, and starts of one to many entries."""
    plain = {
        "skewed": skewed_graph(1, 90, 60, 700),
        "planted": planted_graph(2, 40, 150, 3, 9, 120, 0.1),
        "complete": complete_graph(9, 17),
        "two hubs": complete_graph(2, 70),
    }
    return {name: with_signs(graph, seed) for seed, (name, graph) in enumerate(plain.items())}


def ask(engine: Engine, graph: BipartiteGraph, motif: Motif, per: Granularity) -> Partial:
    """Count in two intervals."""
    prepared = engine.prepare(graph, motif, per)
    middle = prepared.n_items // 3
    return fold_partials(engine.run(prepared, 0, middle), engine.run(prepared, middle, prepared.n_items))


def check_against_cpu(engine: Engine, graph: BipartiteGraph, motif: Motif, per: Granularity = "total") -> None:
    """Compare everything, and the items, with the CPU engine."""
    cpu = BalancedButterflyCpu(1)
    items, expected_items = (each.work(each.prepare(graph, motif, per)) for each in (engine, cpu))
    np.testing.assert_array_equal(items, expected_items)
    got, expected = ask(engine, graph, motif, per), ask(cpu, graph, motif, per)
    assert expected.work > 0
    assert (got.n_items, got.total, got.work, got.cells) == (
        expected.n_items, expected.total, expected.work, expected.cells,
    )  # fmt: skip
    assert got.vectors.keys() == expected.vectors.keys()
    for name, vector in expected.vectors.items():
        np.testing.assert_array_equal(got.vectors[name], vector)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedule_counts_balanced_butterflies(device: Device, graphs: dict[str, BipartiteGraph], schedule: str) -> None:
    engine = BalancedButterflyGpu(device, SCHEDULES[schedule])
    for graph in graphs.values():
        check_against_cpu(engine, graph, BalancedButterfly())


@pytest.mark.parametrize("schedule", ["hubs by block", "hubs of large starts"])
def test_hub_columns_count_vertices(device: Device, graphs: dict[str, BipartiteGraph], schedule: str) -> None:
    engine = BalancedButterflyGpu(device, SCHEDULES[schedule])
    assert engine.prepare(graphs["skewed"], BalancedButterfly(), "vertex").hub_rows is not None
    for name in ("skewed", "two hubs"):
        check_against_cpu(engine, graphs[name], BalancedButterfly(), "vertex")


@pytest.mark.slow
@pytest.mark.parametrize("schedule", TABLES)
def test_schedule_counts_vertices_histograms_and_classes(
    device: Device, graphs: dict[str, BipartiteGraph], schedule: str
) -> None:
    engine = BalancedButterflyGpu(device, SCHEDULES[schedule])
    for graph in graphs.values():
        check_against_cpu(engine, graph, BalancedButterfly(), "vertex")
        for motif in SWEPT:
            check_against_cpu(engine, graph, motif)


def test_tables_do_without_the_hub_columns_where_counters_are_swept(
    device: Device, graphs: dict[str, BipartiteGraph]
) -> None:
    engine = BalancedButterflyGpu(device, SCHEDULES["hubs by warp"])
    assert engine.prepare(graphs["skewed"], BalancedButterfly(), "total").hub_rows is not None
    for motif in SWEPT:
        assert engine.prepare(graphs["skewed"], motif, "total").hub_rows is None


def check_wide(device: Device, degree: int, schedule: str, motifs: dict[Motif, int]) -> None:
    """Count K(2, degree) whose vertices of the pair do not agree at three of their neighbours."""
    graph = complete_graph(2, degree)
    sign = np.ones(graph.n_edges, np.int8)
    sign[-3:] = -1
    graph = replace(graph, sign=sign)
    engine = BalancedButterflyGpu(device, replace(SCHEDULES[schedule], block_degree=256, large_degree=1 << 12))
    for motif, expected in motifs.items():
        prepared = engine.prepare(graph, motif, "total")
        partial = engine.run(prepared, 0, prepared.n_items)
        assert partial.total == expected
        if isinstance(motif, Census):
            assert partial.cells == {
                (1, 1): comb(degree - 3, 2), (3, 3): 3, (1, 3): 3 * (degree - 3),
            }  # fmt: skip


@pytest.mark.parametrize("degree", [255, 256, 257, 300])
def test_wide_counters(device: Device, degree: int) -> None:
    """Degrees of 2^8 and more need 16-bit counters and more planes."""
    balanced = comb(degree - 3, 2) + 3
    check_wide(device, degree, "hubs by warp", {BalancedButterfly(): balanced})
    swept = {BalancedButterfly(3): comb(degree - 3, 3) + 1, Census("u"): comb(degree, 2)}
    check_wide(device, degree, "dense, four warps", {BalancedButterfly(): balanced, **swept})


@pytest.mark.gpu
@pytest.mark.parametrize("degree", [4_095, 4_096, 65_535, 65_536, 200_000])
def test_widest_counters(degree: int) -> None:
    """Degrees of 2^16 and more need 32-bit counters and the large planes."""
    device = cuda_device()
    balanced = comb(degree - 3, 2) + 3
    check_wide(device, degree, "hubs by warp", {BalancedButterfly(): balanced})
    swept = {BalancedButterfly(3): comb(degree - 3, 3) + 1, Census("u"): comb(degree, 2)}
    check_wide(device, degree, "dense, four warps", {BalancedButterfly(): balanced, **swept})


@pytest.mark.gpu
@pytest.mark.parametrize("motif", [BalancedButterfly(), *SWEPT], ids=lambda motif: "-".join(motif.words))
def test_large_graph_with_the_tuning_of_the_device(motif: Motif) -> None:
    engine = BalancedButterflyGpu(cuda_device())
    graph = with_signs(skewed_graph(8, 30_000, 20_000, 600_000), 8)
    for per in motif.granularities:
        check_against_cpu(engine, graph, motif, per)


@pytest.mark.parametrize("limit", ["the larger layer", "the largest degree"])
def test_graphs_beyond_the_proven_bounds_are_refused(
    device: Device, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(name: str, size: int, most: int, unit: str) -> None:
        check_fits(name, size, 3 if name == limit else most, unit)

    monkeypatch.setattr(wedge_graph, "check_fits", check)
    engine = BalancedButterflyGpu(device)
    with pytest.raises(CapacityError, match=f"{limit} is 5"):
        engine.prepare(with_signs(complete_graph(4, 5), 1), BalancedButterfly(3), "total")


@pytest.mark.gpu
@pytest.mark.parametrize("motif", SWEPT, ids=str)
def test_tables_of_every_size_on_a_device(motif: Motif) -> None:
    """Starts of some hundred to some ten thousand wedges, with the launches that this device gets."""
    rng = np.random.default_rng(4)
    ends = [(12_000 * rng.random(900_000) ** fall).astype(np.int64) for fall in (1.6, 1.0)]
    graph = with_signs(BipartiteGraph.from_edges(*ends, n_u=12_000, n_v=12_000), 9)
    check_against_cpu(BalancedButterflyGpu(cuda_device()), graph, motif)
