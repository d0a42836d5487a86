"""The CUDA sources of decompositions: schedules of threads, ranges, limits of memory, the same answers as the CPU."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.peel.gpu import PeelTuning, peel_on_gpu
from papilio.kernels.peel.gpu_index import index_tip_gpu, index_wing_gpu
from papilio.kernels.peel.phases import N_BINS, Layer, Peeled, bin_end, bin_start, next_limit
from papilio.kernels.peel.tip import index_tip, peel_tip
from papilio.kernels.peel.wing import index_wing, peel_wing
from tests.tools.decomposers import SMALL_BLOCKS
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_peeling import wing_numbers
from tests.tools.strategies import complete_graph, planted_graph, skewed_graph


def wings_of(device: Device, graph: BipartiteGraph, n_ranges: int | None, tuning: PeelTuning) -> Peeled:
    return peel_on_gpu(device, index_wing_gpu(device, graph), n_ranges=n_ranges, tuning=tuning)


def tips_of(device: Device, graph: BipartiteGraph, layer: Layer, n_ranges: int | None, tuning: PeelTuning) -> Peeled:
    return peel_on_gpu(device, index_tip_gpu(device, graph, layer), n_ranges=n_ranges, tuning=tuning)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("sm_count", [1, 4])
def test_any_schedule_and_number_of_ranges_gives_one_answer(seed: int, sm_count: int) -> None:
    graph = planted_graph(seed, 16, 14, blocks=2, block_side=5, noise_edges=60, missing=0.2)
    device = emulator(seed, sm_count=sm_count)
    wanted = wing_numbers(graph)
    tips = peel_tip(index_tip(graph, "u", 1), 1).numbers
    for n_ranges in (1, 3, 50):
        assert wings_of(device, graph, n_ranges, SMALL_BLOCKS).numbers.tolist() == wanted
        assert np.array_equal(tips_of(device, graph, "u", n_ranges, SMALL_BLOCKS).numbers, tips)


def test_ranges_of_one_number_are_not_peeled_again() -> None:
    """With as many ranges as numbers below 64, the coarse phase is all."""
    graph = skewed_graph(4, 20, 16, 110)
    device = emulator(5)
    found = wings_of(device, graph, 1000, SMALL_BLOCKS)
    assert found.numbers.tolist() == wing_numbers(graph)
    assert int(found.numbers.max()) < 64
    assert found.ranges > 5
    assert found.fine_rounds < found.coarse_rounds


def test_lists_of_more_than_one_entry() -> None:
    """Blooms of more wedges, and edges with more links, than a group has lanes."""
    device = emulator(6)
    graph = complete_graph(12, 11)
    assert set(wings_of(device, graph, 3, SMALL_BLOCKS).numbers.tolist()) == {110}
    assert set(tips_of(device, graph, "v", 3, SMALL_BLOCKS).numbers.tolist()) == {10 * 66}


def test_bins_cover_all_supports_in_order() -> None:
    ends = [bin_end(place) for place in range(N_BINS)]
    assert ends[:64] == list(range(1, 65))
    assert all(low < high for low, high in pairwise(ends))
    assert ends[-1] >= 2**63
    assert [bin_start(place) for place in range(1, N_BINS)] == ends[:-1]
    lows = [0, 1, 15, 16, 2**40, 2**62, 2**63 - 2**40]
    assert all(low < next_limit(low) <= min(2**63 - 1, max(low + 1, low * 9 // 8)) for low in lows)


@pytest.mark.parametrize("kind", ["wing", "tip"])
def test_a_graph_without_edges(kind: str) -> None:
    device, graph = emulator(1), BipartiteGraph.from_edges(np.zeros(0, int), np.zeros(0, int), 4, 3)
    found = (
        wings_of(device, graph, None, SMALL_BLOCKS)
        if kind == "wing"
        else tips_of(device, graph, "u", None, SMALL_BLOCKS)
    )
    assert found.numbers.tolist() == ([] if kind == "wing" else [0] * 4)


def test_a_graph_without_butterflies() -> None:
    device, graph = emulator(1), BipartiteGraph.from_edges([0, 1, 2], [0, 0, 1])
    assert wings_of(device, graph, None, SMALL_BLOCKS).numbers.tolist() == [0, 0, 0]
    assert tips_of(device, graph, "u", None, SMALL_BLOCKS).numbers.tolist() == [0, 0, 0]


def test_what_does_not_fit_the_device_is_refused() -> None:
    device, graph = emulator(1, free_bytes=2000), skewed_graph(3, 40, 30, 300)
    with pytest.raises(CapacityError, match=r"wing numbers of .* need about .* of device memory"):
        index_wing_gpu(device, graph)
    with pytest.raises(CapacityError, match=r"tip numbers of layer v, .* of device memory"):
        index_tip_gpu(device, graph, "v")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["senate", "opsahl-ucforum", "marvel", "youtube-groupmemberships"])
def test_the_gpu_equals_the_cpu_on_real_graphs(name: str, reference_graph: Callable[[str], BipartiteGraph]) -> None:
    device, graph = cuda_device(), reference_graph(name)
    wings = peel_wing(index_wing(graph)).numbers
    for n_ranges in (None, 1, 200):
        assert np.array_equal(wings_of(device, graph, n_ranges, PeelTuning()).numbers, wings)
    layers: tuple[Layer, ...] = ("u", "v")
    for layer in layers:
        tips = peel_tip(index_tip(graph, layer)).numbers
        for n_ranges in (None, 1, 200):
            assert np.array_equal(tips_of(device, graph, layer, n_ranges, PeelTuning()).numbers, tips)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", [1, 2])
def test_the_gpu_equals_the_cpu_on_skewed_graphs(seed: int) -> None:
    device, graph = cuda_device(), skewed_graph(seed, 3000, 2500, 60_000)
    wings = peel_wing(index_wing(graph)).numbers
    assert np.array_equal(wings_of(device, graph, None, PeelTuning()).numbers, wings)
    tips = peel_tip(index_tip(graph, "u")).numbers
    assert np.array_equal(tips_of(device, graph, "u", None, PeelTuning()).numbers, tips)
