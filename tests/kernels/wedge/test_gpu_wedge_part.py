"""Parts of the GPU butterfly engine: every schedule, partials equal to those of the CPU, staging, limits of memory."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial
from papilio.kernels.memory import WEDGES
from papilio.kernels.wedge import gpu_schedule as wedge_schedule
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.kernels.wedge.gpu import ButterflyGpu
from papilio.motifs import GRANULARITIES, Butterfly, Granularity
from papilio.parts import RootPart, WedgePart
from tests.kernels.wedge.test_butterfly import assert_same
from tests.kernels.wedge.test_gpu_butterfly import SCHEDULES, VECTORS
from tests.tools.devices import cuda_device
from tests.tools.parts import cut_closures, cut_grid, whole_parts
from tests.tools.strategies import complete_graph, planted_graph, skewed_graph
from tests.tools.wedge_parts import drawn_part


@pytest.fixture(scope="module")
def parts() -> dict[Granularity, list[WedgePart]]:
    """Parts with tiles, twins, hubs on both layers, and starts of one to many entries."""
    graphs = [skewed_graph(1, 90, 60, 600), planted_graph(2, 40, 100, 3, 9, 120, 0.1), complete_graph(9, 17)]
    return {
        per: [
            part
            for graph in graphs
            for part in [*cut_grid(graph, 2, 2, per)[:4:3], *cut_closures(graph, 1, 1, per)[:1]]
        ]
        for per in GRANULARITIES
    }


def count(engine: ButterflyCpu | ButterflyGpu, part: WedgePart, per: Granularity) -> Partial:
    """Count all items of a part at once."""
    prepared = engine.prepare(part, Butterfly(), per)
    return engine.run(prepared, 0, prepared.n_items)


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name != "hubs, four words"])
def test_schedules_count_totals_as_the_cpu_does(
    device: Device, parts: dict[Granularity, list[WedgePart]], schedule: str
) -> None:
    engine, launched = ButterflyGpu(device, SCHEDULES[schedule]), set()
    for part in parts["total"]:
        prepared = engine.prepare(part, Butterfly(), "total")
        assert_same(engine.run(prepared, 0, prepared.n_items), count(ButterflyCpu(1), part, "total"))
        if prepared.schedules:
            found = engine._find_bounds(prepared, [0, prepared.n_items])
            used = zip(prepared.schedules, found, strict=True)
            launched |= {launch.kernel for launch, (first, last) in used if first < last}
    assert any("hubs" in kernel for kernel in launched) == ("hubs" in schedule)


@pytest.mark.parametrize(("schedule", "per"), [case for case in VECTORS if case[0] != "hubs, four words"])
def test_schedules_count_vectors_as_the_cpu_does(
    device: Device, parts: dict[Granularity, list[WedgePart]], schedule: str, per: Granularity
) -> None:
    engine = ButterflyGpu(device, SCHEDULES[schedule])
    for part in parts[per]:
        assert_same(count(engine, part, per), count(ButterflyCpu(1), part, per))


def test_work_beyond_32_bits_is_ordered_exactly(device: Device) -> None:
    engine = ButterflyGpu(device)
    part = whole_parts(skewed_graph(3, 30, 20, 120))[0]
    large = replace(part, starts=replace(part.starts, work=part.starts.work << 33))
    one, other = (engine.prepare(each, Butterfly(), "total") for each in (part, large))
    assert device.to_host(one.items).tolist() == device.to_host(other.items).tolist()


def test_a_part_that_could_pass_64_bits_is_refused(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are lowered: no part of that size fits a test."""
    from papilio.kernels import exact as bounds

    part = whole_parts(complete_graph(20, 20), "vertex")[0]
    monkeypatch.setattr(bounds, "MAX_VERTEX_COUNT", 1000)
    for engine in (ButterflyCpu(1), ButterflyGpu(device)):
        with pytest.raises(CapacityError, match="cut smaller parts"):
            engine.prepare(part, Butterfly(), "vertex")
    monkeypatch.setattr(wedge_schedule, "MAX_START_COUNT", 1000)
    with pytest.raises(CapacityError, match="64 bits"):
        ButterflyGpu(device).prepare(part, Butterfly(), "total")


def test_a_part_of_another_engine_is_not_staged(device: Device) -> None:
    ids = np.arange(4, dtype=np.int32)
    roots = RootPart("u", complete_graph(4, 4), ids, ids, ids, np.ones(4, np.int64))
    with pytest.raises(UnsupportedError, match="RootPart"):
        ButterflyGpu(device).stage(roots)


@pytest.mark.gpu
@pytest.mark.parametrize("per", GRANULARITIES)
def test_large_parts_count_as_the_cpu_does(per: Granularity) -> None:
    part = drawn_part(1, 60_000, 40_000, 50_000, 12, per)
    wanted = count(ButterflyCpu(), part, per)
    assert wanted.total > 0
    assert_same(count(ButterflyGpu(cuda_device()), part, per), wanted)


@pytest.mark.gpu
def test_blocks_are_staged_beside_a_run() -> None:
    engine = ButterflyGpu(cuda_device())
    parts = [drawn_part(seed, 200_000, 150_000, 150_000, 12, "total") for seed in range(4)]
    wanted = [count(engine, part, "total") for part in parts]
    staged: list[WedgePart] = []

    def stage() -> None:
        staged.extend(WedgePart(engine.stage(part.starts), engine.stage(part.ends)) for part in parts)

    thread = threading.Thread(target=stage)
    thread.start()
    while thread.is_alive():
        assert_same(count(engine, parts[0], "total"), wanted[0])
    thread.join()
    for part, partial in zip(staged, wanted, strict=True):
        assert_same(count(engine, part, "total"), partial)


@pytest.mark.gpu
@pytest.mark.parametrize("per", GRANULARITIES)
def test_a_part_runs_within_the_memory_that_was_predicted(per: Granularity) -> None:
    import cupy

    cuda_device()
    pool = cupy.get_default_memory_pool()
    part = drawn_part(2, 1_500_000, 1_000_000, 1_000_000, 16, per)
    _, device_bytes = WEDGES.predict_part(Butterfly(), "gpu", per, 1)
    limit = device_bytes.of(part.sizes) + WEDGES.staged.of(part.sizes)
    pool.free_all_blocks()
    from papilio.kernels.device.cuda import CudaDevice

    before = pool.get_limit()
    try:
        device = CudaDevice(limit)
        assert device.free_bytes() <= limit
        wanted = count(ButterflyCpu(), part, per)
        assert_same(count(ButterflyGpu(device), part, per), wanted)
        assert pool.total_bytes() <= limit
        pool.free_all_blocks()
        device = CudaDevice(max(1, WEDGES.staged.of(part.sizes) // 2))
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            count(ButterflyGpu(device), part, per)
    finally:
        pool.set_limit(size=before)
        pool.free_all_blocks()


@pytest.mark.gpu
def test_a_limit_below_one_byte_is_refused() -> None:
    cuda_device()
    from papilio.kernels.device.cuda import CudaDevice

    with pytest.raises(InputError, match="0 bytes"):
        CudaDevice(0)
