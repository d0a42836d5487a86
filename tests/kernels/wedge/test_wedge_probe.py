"""Probes of the wedge engines: unbiased for every question, the same on CPU and GPU, and by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Engine
from papilio.kernels.exact import mix
from papilio.kernels.probe import cut_strata, draw_items
from papilio.kernels.wedge.cpu import BalancedButterflyCpu, ButterflyCpu
from papilio.kernels.wedge.gpu import BalancedButterflyGpu, ButterflyGpu
from papilio.kernels.wedge.probe_loops import weigh_pairs
from papilio.motifs import BalancedButterfly, Butterfly, Census, Motif
from papilio.parts import Part
from tests.kernels.wedge.test_gpu_balanced import with_signs
from tests.tools.devices import cuda_device, emulator
from tests.tools.parts import cut_grid
from tests.tools.strategies import complete_graph, graph_of, planted_graph, skewed_graph

_CROWN = graph_of({(u, v) for u in range(14) for v in range(14) if u != v}, 14, 14)
_NESTED = graph_of({(u, v) for u in range(20) for v in range(20) if u <= v}, 20, 20)
GRAPHS = {
    name: with_signs(graph, seed)
    for seed, (name, graph) in enumerate(
        {
            "skewed": skewed_graph(1, 90, 60, 700),
            "planted": planted_graph(2, 40, 150, 3, 9, 120, 0.1),
            "complete": complete_graph(9, 17),
            "crown": _CROWN,
            "nested": _NESTED,
        }.items()
    )
}
MOTIFS: list[Motif] = [
    Butterfly(),
    BalancedButterfly(),
    BalancedButterfly(3, pair_side="v"),
    BalancedButterfly(None, 5, pair_side="u"),
    Census("u"),
]


def engine_of(motif: Motif, device: Device | None = None) -> Engine:
    """Return the engine of a motif on a device, or on one thread."""
    if device is None:
        return ButterflyCpu(1) if isinstance(motif, Butterfly) else BalancedButterflyCpu(2)
    return ButterflyGpu(device) if isinstance(motif, Butterfly) else BalancedButterflyGpu(device)


def probe_all(engine: Engine, prepared: Any, times: int) -> NDArray[np.float64]:
    """Probe every item so often; shape (times, n_items)."""
    n = prepared.n_items
    items, seeds = np.tile(np.arange(n), times), mix(np.arange(times * n, dtype=np.uint64))
    return engine.prober(prepared).count(items, seeds).reshape(times, n)


@pytest.mark.parametrize("motif", MOTIFS, ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_counts_are_unbiased_for_every_item(name: str, motif: Motif) -> None:
    engine = engine_of(motif)
    prepared = engine.prepare(GRAPHS[name], motif, "total")
    times = 2000
    found = probe_all(engine, prepared, times)
    exact = np.array([engine.run(prepared, i, i + 1).total for i in range(prepared.n_items)])
    error = found.std(axis=0) / np.sqrt(times)
    assert (abs(found.mean(axis=0) - exact) <= 4.5 * error + 1e-9 * exact).all()
    assert exact.sum() > 0


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("motif", MOTIFS, ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_rows_of_a_device_give_the_same_probes(name: str, motif: Motif, device: Any) -> None:
    check_same(GRAPHS[name], motif, device(3) if device is emulator else device())


def test_parts_are_probed() -> None:
    """Parts whose starts have middles without ends, and items without wedges; their estimates add up to the whole."""
    graph = GRAPHS["skewed"]
    engine, total, variance = ButterflyCpu(1), 0.0, 0.0
    for part in cut_grid(graph, 2, 2):
        sums = probe_all(engine, engine.prepare(part, Butterfly(), "total"), 500).sum(axis=1)
        total, variance = total + sums.mean(), variance + sums.var() / 500
    whole = engine.prepare(graph, Butterfly(), "total")
    assert abs(total - engine.run(whole, 0, whole.n_items).total) <= 4.5 * np.sqrt(variance)


def check_same(graph: BipartiteGraph | Part, motif: Motif, device: Device) -> None:
    """Probe on both engines with the same seeds; the answers are equal to the last bit."""
    answers = []
    for engine in (engine_of(motif), engine_of(motif, device)):
        prepared = engine.prepare(graph, motif, "total")
        assert engine.prober(prepared).known == 0
        answers.append(probe_all(engine, prepared, 3))
    assert answers[0].tolist() == answers[1].tolist()


def test_strata_estimate_the_whole_and_seeds_decide() -> None:
    engine, graph = ButterflyCpu(2), GRAPHS["planted"]
    prepared = engine.prepare(graph, Butterfly(), "total")
    bounds = cut_strata(prepared.work, 4)
    estimates = []
    for seed in range(300):
        drawn = draw_items(prepared.work, bounds, np.full(bounds.size - 1, 20), seed)
        found = engine.prober(prepared).count(drawn.items, drawn.seeds)
        assert np.array_equal(found, engine.prober(prepared).count(drawn.items, drawn.seeds))
        estimates.append(float((drawn.weights * found).sum()))
    assert len(set(estimates)) > 250
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - engine.run(prepared, 0, prepared.n_items).total) <= 4 * error


@pytest.mark.parametrize("edges", [set(), {(0, 0), (1, 1)}, {(0, v) for v in range(5)}])
def test_graphs_without_items(edges: set[tuple[int, int]]) -> None:
    graph, nothing = graph_of(edges, 3, 6), np.zeros(0, np.int64)
    for engine in (ButterflyCpu(1), ButterflyGpu(emulator(1))):
        prepared: Any = engine.prepare(graph, Butterfly(), "total")
        assert prepared.n_items == 0
        assert engine.prober(prepared).count(nothing, nothing.astype(np.uint64)).shape == (0,)


def test_worth_of_a_wedge() -> None:
    """C(c, k) / c motifs; all sizes together pass the range of floating point."""
    assert weigh_pairs(Butterfly(), 5).tolist() == [0, 0, 0.5, 1, 1.5, 2]
    assert weigh_pairs(BalancedButterfly(4), 6)[6] == 15 / 6
    every = weigh_pairs(BalancedButterfly(None), 2000)
    assert every[10] == (2**10 - 11) / 10
    assert every[1000] == pytest.approx((2**1000 - 1001) / 1000)
    assert np.isfinite(every[:1024]).all()
    assert np.isposinf(every[1040:]).all()
