"""The CUDA source of trades: the same graphs as on CPUs, bit for bit, for pairs of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.null.cpu import draw_words, make_randomizer, sample_key
from papilio.kernels.null.gpu import DeviceTrades, make_randomizer_gpu
from papilio.kernels.null.loops import draw_at
from papilio.kernels.null.models import NULL_NAMES, NullModel
from tests.tools.devices import emulator
from tests.tools.strategies import complete_graph, graph_of, planted_graph, skewed_graph


def hubs(*degrees: int) -> BipartiteGraph:
    """Return rows whose columns overlap, of these degrees."""
    ends = np.cumsum(degrees)
    columns = np.concatenate([np.arange(d) + (at % 3) * (max(degrees) // 4) for at, d in enumerate(degrees)])
    return BipartiteGraph.from_edges(np.searchsorted(ends, np.arange(ends[-1]), side="right"), columns)


GRAPHS = {
    "skewed": skewed_graph(1, 40, 60, 300),
    "turned": skewed_graph(2, 50, 20, 260),
    "planted": planted_graph(3, 16, 25, blocks=2, block_side=5, noise_edges=60, missing=0.2),
    "odd": graph_of({(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)}, 3, 3),
    "hubs": hubs(700, 300, 1, 650),
    "two_hubs": hubs(1500, 1500),
    "complete": complete_graph(4, 5),
    "nested": graph_of({(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)}, 4, 4),
    "full_rows": graph_of({(u, v) for u in range(9) for v in range(7) if u < 3 or v in (0, u % 5)}, 9, 7),
    "empty": graph_of(set(), 3, 4),
    "matching": graph_of({(i, i) for i in range(9)}, 9, 9),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_samples_are_those_of_the_cpu(device: Device, name: str) -> None:
    graph, model = GRAPHS[name], NullModel("degrees", 4)
    wanted, found = make_randomizer(graph, model), make_randomizer_gpu(device, graph, model)
    for index in range(2):
        sample = found.sample(12, index)
        sample.validate()
        assert sample == wanted.sample(12, index)
    assert found.has_one_realisation() == wanted.has_one_realisation()


def test_chains_are_those_of_the_cpu(device: Device) -> None:
    graph, model = GRAPHS["turned"], NullModel("degrees")
    wanted, found = make_randomizer(graph, model), make_randomizer_gpu(device, graph, model)
    states = list(found.chain(3, 1, range(6)))
    assert states == list(wanted.chain(3, 1, range(6)))
    assert states[0] == graph
    assert states[1] != graph


@pytest.mark.parametrize("name", ["skewed", "turned"])
def test_samples_stay_on_the_device(device: Device, name: str) -> None:
    graph, model = GRAPHS[name], NullModel("degrees", 3)
    found: Any = make_randomizer_gpu(device, graph, model, stays=True)
    wanted = make_randomizer(graph, model)
    wanted_ones = wanted.sample(5, 2), *wanted.chain(5, 2, (1, 2))
    for sample, other in zip((found.sample(5, 2), *found.chain(5, 2, (1, 2))), wanted_ones, strict=True):
        u, v = device.to_host(sample.u), device.to_host(sample.v)
        assert u.tolist() == other.u.tolist()
        assert BipartiteGraph(graph.n_u, graph.n_v, u, v[np.lexsort((v, u))]) == other


@pytest.mark.parametrize("name", ["skewed", "hubs"])
def test_few_blocks_and_any_schedule_give_the_same_sample(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = GRAPHS[name], NullModel("degrees", 2)
    wanted = make_randomizer(graph, model).sample(1, 1)
    monkeypatch.setattr("papilio.kernels.null.gpu.BLOCKS_PER_PROCESSOR", 1)
    for seed in (1, 2):
        assert make_randomizer_gpu(emulator(seed, sm_count=1), graph, model).sample(1, 1) == wanted


@pytest.mark.parametrize("name", NULL_NAMES)
def test_other_models_are_drawn_on_the_host(name: Any) -> None:
    graph = GRAPHS["skewed"]
    signed = BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, np.where(graph.u % 3, 1, -1).astype(np.int8))
    device, model = emulator(1), NullModel(name)
    made = make_randomizer_gpu(device, signed, model)
    assert isinstance(made, DeviceTrades) == (name == "degrees")
    if name != "degrees":
        assert made.sample(1, 2) == make_randomizer(signed, model).sample(1, 2)


def test_keys_of_trades_are_words_of_the_loops() -> None:
    key = sample_key(3, 4)
    assert [int(draw_at(key, i)) for i in range(5, 9)] == draw_words(key, 5, 4).tolist()
