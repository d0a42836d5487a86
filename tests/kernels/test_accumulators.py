"""Accumulators and packed fields of the CUDA sources and the CPU kernels at the sizes at which they would run over."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest

from papilio.errors import CapacityError, LeaseTooLargeError
from papilio.kernels import exact as bounds
from papilio.kernels.engine import Engine
from papilio.kernels.memory import MAX_EDGES
from papilio.kernels.peel.gpu import Cut, PeelTuning, peel_on_gpu, peel_ranges
from papilio.kernels.peel.gpu_index import index_wing_gpu
from papilio.kernels.rows.gpu_index import check_rows
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.kernels.wedge.gpu import ButterflyGpu
from papilio.motifs import GRANULARITIES, Butterfly, Granularity
from tests.kernels.wedge.test_gpu_butterfly import SCHEDULES
from tests.tools.devices import emulator
from tests.tools.strategies import complete_graph, skewed_graph


def check_pair(engine: Engine, degree: int, per: Granularity) -> None:
    """Count K(2, degree), all of whose wedges are in one counter, which comes to ``degree``."""
    graph = complete_graph(2, degree)
    prepared = engine.prepare(graph, Butterfly(), per)
    partial = engine.run(prepared, 0, prepared.n_items)
    assert partial.total == comb(degree, 2)
    wanted = {"total": {}, "edge": {"edge": degree - 1}, "vertex": {"u": comb(degree, 2), "v": degree - 1}}
    assert partial.vectors.keys() == wanted[per].keys()
    for name, value in wanted[per].items():
        assert set(partial.vectors[name].tolist()) == {value}


@pytest.mark.parametrize("per", GRANULARITIES)
@pytest.mark.parametrize("degree", [255, 256, 257, 65_535, 65_536, 65_537])
def test_counters_of_the_cpu_hold_every_degree(degree: int, per: Granularity) -> None:
    check_pair(ButterflyCpu(1), degree, per)


@pytest.mark.parametrize("per", GRANULARITIES)
@pytest.mark.parametrize("degree", [255, 256, 257])
def test_counters_of_8_bits_are_left_in_time(degree: int, per: Granularity) -> None:
    check_pair(ButterflyGpu(emulator(3), SCHEDULES["dense, four warps"]), degree, per)


@pytest.mark.parametrize("degree", [65_535, 65_536])
def test_counters_of_16_bits_are_left_in_time(degree: int) -> None:
    check_pair(ButterflyGpu(emulator(3), SCHEDULES["dense, four warps"]), degree, "vertex")


_SPLIT_SUM = """
#include "warp.cuh"
extern "C" __global__ void add_terms(const unsigned long long* terms, const int n, unsigned long long* out) {
    SplitSum sum;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum.add(terms[i]);
    sum.flush(out);
}
extern "C" __global__ void sum_segments(const unsigned long long* values, const int* firsts, unsigned long long* out) {
    out[threadIdx.x] = warp_segment_sum(values[threadIdx.x], firsts[threadIdx.x]);
}
"""


def test_sums_of_large_terms_keep_both_halves() -> None:
    device: Any = emulator(1)
    terms = np.random.default_rng(1).integers(0, 2**64, 96, np.uint64)
    terms[::3] >>= np.uint64(40)
    out = np.zeros(2, np.uint64)
    kernel = device.loads(_SPLIT_SUM, "sums.cu", {}).get_function("add_terms")
    given = device.xp.asarray(terms), np.int32(terms.size), device.xp.asarray(out)
    kernel((1,), (64,), given)
    low, high = (int(each) for each in device.to_host(given[2]))
    assert low + (high << 32) == sum(terms.tolist()) > 2**64


_CLIQUE_SUM = """
#include "clique_lanes.cuh"
extern "C" __global__ void add_nodes(const int* missing, const int* free, const int* n, const unsigned* edges,
                                     const unsigned long long* triangles, const int n_nodes,
                                     const unsigned long long before, unsigned long long* out) {
    CliqueSum sum;
    sum.low = before;
    for (int i = threadIdx.x; i < n_nodes; i += blockDim.x)
        sum.add(missing[i], free[i], n[i], FewCounts{edges[i], triangles[i]});
    sum.flush(out);
}
"""


@pytest.mark.parametrize("before", [0, 2**64 - 1])
def test_sums_of_cliques_are_those_of_the_definition_and_run_over(before: int) -> None:
    device: Any = emulator(2)
    nodes = [
        (missing, free, n, comb(n, 2) // 2, comb(n, 3) // 3)
        for missing in range(4)
        for free in (0, 1, 2, 3, 65_534)
        for n in (0, 1, 2, 7, 65_534)
    ]
    types = (np.int32, np.int32, np.int32, np.uint32, np.uint64)
    columns = [
        device.xp.asarray(np.array(column, dtype=type_))
        for column, type_ in zip(zip(*nodes, strict=True), types, strict=True)
    ]
    out = device.xp.asarray(np.zeros(3, np.uint64))
    kernel = device.loads(_CLIQUE_SUM, "cliques.cu", {}).get_function("add_nodes")
    kernel((1,), (32,), (*columns, np.int32(len(nodes)), np.uint64(before), out))
    low, high, carries = (int(each) for each in device.to_host(out))
    wanted = sum(
        comb(free, missing - j) * cliques
        for missing, free, n, edges, triangles in nodes
        for j, cliques in enumerate((1, n, edges, triangles))
        if j <= missing
    )
    assert low + (high << 32) + (carries << 64) == wanted + 32 * before
    assert (carries > 0) == (before > 0)


def test_segments_are_summed_in_64_bits() -> None:
    device: Any = emulator(1)
    values = np.full(32, 2**31 + 5, np.uint64)
    firsts = np.array([0] * 7 + [7] * 25, np.int32)
    out = device.xp.zeros(32, dtype=np.uint64)
    kernel = device.loads(_SPLIT_SUM, "sums.cu", {}).get_function("sum_segments")
    kernel((1,), (32,), (device.xp.asarray(values), device.xp.asarray(firsts), out))
    assert [int(device.to_host(out)[lane]) for lane in (6, 31)] == [7 * (2**31 + 5), 25 * (2**31 + 5)]


_HISTOGRAM = """
#include "leaves.cuh"
extern "C" __global__ void count_leaves(const int n, unsigned long long* sums) {
    __shared__ unsigned words[kLeafWords];
    LeafHistogram leaves(words, sums, 3);
    for (int i = 0; i < n; ++i) {
        leaves.reserve(1);
        if (threadIdx.x < 2) leaves.add(threadIdx.x == 0 ? 4 : 40);
    }
    leaves.flush();
}
"""


@pytest.mark.parametrize("n", [65_535, 65_536, 65_600])
def test_leaves_are_brought_out_before_16_bits_run_over(n: int) -> None:
    device: Any = emulator(1)
    sums = device.xp.zeros(64, dtype=np.uint64)
    kernel = device.loads(_HISTOGRAM, "histogram.cu", {}).get_function("count_leaves")
    kernel((1,), (32,), (np.int32(n), sums))
    assert {at: int(device.to_host(sums)[at]) for at in np.flatnonzero(sums)} == {4: n, 40: n}


def test_a_run_of_more_wedges_than_its_sums_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job does then is split the lease."""
    engine = ButterflyGpu(emulator(1))
    prepared = engine.prepare(skewed_graph(1, 40, 30, 300), Butterfly(), "total")
    wedges = engine.work(prepared)
    most = int(wedges.sum())
    monkeypatch.setattr(bounds, "MAX_RUN_WEDGES", most)
    whole = engine.run(prepared, 0, prepared.n_items).total
    monkeypatch.setattr(bounds, "MAX_RUN_WEDGES", most - 1)
    with pytest.raises(LeaseTooLargeError, match=rf"work items have {most} wedges; .* at most {most - 1}"):
        engine.run(prepared, 0, prepared.n_items)
    parts = engine.run(prepared, 0, 1), engine.run(prepared, 1, prepared.n_items)
    assert sum(each.total for each in parts) == whole


def test_the_bounds_of_sums_are_what_their_proof_needs() -> None:
    wedges, entries = bounds.MAX_RUN_WEDGES, bounds.MAX_RUN_ENTRIES
    assert (2**21) ** 2 * wedges * entries < (2**64) ** 2, "totals"
    assert 2**31 * wedges**2 < (2**64) ** 2, "a class of the census"
    assert entries >= 2 * MAX_EDGES


def test_wedges_of_a_warp_are_numbered_in_32_bits() -> None:
    """The last window that is looked at begins 4 x 32 x 32 wedges behind the last one at most."""
    assert MAX_EDGES + 4 * 32 * 32 < 2**32
    check_rows(MAX_EDGES, 2)
    with pytest.raises(CapacityError, match=f"number of edges is {MAX_EDGES + 1} edges"):
        check_rows(MAX_EDGES + 1, 2)


def test_ranges_of_wings_have_no_bound_of_their_own() -> None:
    """Ranges far beyond 2^11, most of them empty, order the wedges of a bloom as few do."""
    device, graph = emulator(1), skewed_graph(5, 24, 18, 150)
    index = index_wing_gpu(device, graph)
    wanted = peel_on_gpu(device, index, n_ranges=1).numbers
    of = np.minimum(wanted // np.uint64(3), np.uint64(3)).astype(np.int32)
    assert of.max() == 3
    spread = 3_000
    lowest = [int(wanted[of == number].min()) for number in range(4)]
    spans = [low for number, low in enumerate(lowest) for low in [low] * (spread if number < 3 else 1)]
    cut = Cut(device.to_device(of * np.int32(spread)), [*spans, int(wanted.max()) + 1], 0, 0)
    np.testing.assert_array_equal(peel_ranges(device, index, cut, PeelTuning())[0], wanted)
