"""Memory that counts are predicted to need, and whether a job needs parts for it."""

from __future__ import annotations

import re
from dataclasses import astuple, replace
from typing import Any

import pytest

from papilio.errors import CapacityError
from papilio.motifs import Biclique, Butterfly, Census, Listing, MaximalBiclique
from papilio.parts import PartBytes, PartSizes
from papilio.registry import load_engine
from papilio.tasks.job import NO_BUDGET, Budget
from papilio.tasks.memory import (
    device_room,
    host_room,
    needs_parts,
    part_limit,
    part_memory,
    predict_memory,
    require_memory,
)
from tests.tasks.fakes import make_job, make_worker
from tests.tools.budgets import named_budget
from tests.tools.strategies import planted_graph


def test_bicliques_are_given_room_for_pairs_of_vertices() -> None:
    sizes = {"n_u": 10**5, "n_v": 10**5, "n_edges": 10**6}
    one = make_job(**sizes, motif=Biclique(3, 3))
    cpu, more_threads = predict_memory(one, "cpu", 1), predict_memory(one, "cpu", 8)
    assert cpu.host_bytes > 16 * 10**6 * 8
    assert cpu.device_bytes == 0 < more_threads.host_bytes - cpu.host_bytes
    vertex = predict_memory(make_job(**sizes, motif=Biclique(3, 3), per="vertex"), "cpu", 1)
    assert vertex.host_bytes > cpu.host_bytes
    listing = predict_memory(make_job(**sizes, motif=Biclique(3, 3), listing=Listing(5)), "cpu", 1)
    assert listing.host_bytes > cpu.host_bytes + 2 * 10**5 * 8 + (4 << 20)
    gpu = predict_memory(one, "gpu")
    assert gpu.device_bytes > 2 << 30
    worker = make_worker(memory_bytes=1 << 42, gpu="GPU", gpu_memory_bytes=1 << 30, gpu_missing=None)
    with pytest.raises(CapacityError, match="of device memory"):
        require_memory(one, "gpu", (worker,))


def test_the_memory_of_a_count_of_bicliques_is_predicted_from_above() -> None:
    graph = planted_graph(3, 2000, 1500, blocks=40, block_side=12, noise_edges=9000, missing=0.1)
    engine: Any = load_engine(Biclique(3, 3), "cpu", 1)
    prepared = engine.prepare(graph, Biclique(3, 3), "total")
    job = make_job(n_u=graph.n_u, n_v=graph.n_v, n_edges=graph.n_edges, motif=Biclique(3, 3))
    assert prepared.nbytes < predict_memory(job, "cpu", 1).host_bytes - (350 << 20)


LARGE = {"n_u": 10**6, "n_v": 10**6, "n_edges": 10**8}

WORKERS = (make_worker(threads=2), make_worker("w1", threads=4, memory_bytes=6 << 30))

GPUS = tuple(
    make_worker(f"g{i}", gpu="GPU", gpu_memory_bytes=80 << 30, gpu_missing=None, memory_bytes=64 << 30) for i in (0, 1)
)


def test_the_whole_graph_is_taken_where_it_fits_the_budget() -> None:
    job = make_job(**LARGE)
    needed = require_memory(job, "cpu", WORKERS).host_bytes
    for engine, workers, budget, expected in (
        ("cpu", WORKERS, NO_BUDGET, False),
        ("cpu", WORKERS, Budget(host_bytes=needed), False),
        ("cpu", WORKERS, Budget(host_bytes=needed - 1), True),
        ("gpu", GPUS, Budget(device_bytes=1 << 30), True),
        ("gpu", GPUS, Budget(device_bytes=8 << 30), False),
    ):
        assert needs_parts(replace(job, budget=budget), engine, workers) is expected  # type: ignore[arg-type]
    with pytest.raises(CapacityError, match=rf"may use .* needs about {needed / 2**30:.2f} GiB"):
        require_memory(replace(job, budget=Budget(host_bytes=needed - 1)), "cpu", WORKERS)
    with pytest.raises(CapacityError, match=r"raise --host-memory to at least .*, or count part by part"):
        require_memory(replace(job, budget=Budget(host_bytes=1 << 30)), "cpu", WORKERS)
    listing = make_job(**LARGE, motif=Biclique(3, 3), listing=Listing(5))
    with pytest.raises(CapacityError, match="listed on the whole graph only"):
        needs_parts(replace(listing, budget=Budget(host_bytes=1 << 30)), "cpu", WORKERS)


@pytest.mark.parametrize(
    "sizes", [{"n_u": 10**6, "n_v": 10**6, "n_edges": 2**32}, {"n_u": 2**30, "n_v": 2**30, "n_edges": 10}]
)
def test_a_graph_with_too_many_edges_or_vertices_for_a_gpu_is_counted_in_parts(sizes: dict[str, int]) -> None:
    """Also where a device has memory for all of it."""
    worker = make_worker(memory_bytes=1 << 50, gpu="GPU", gpu_memory_bytes=1 << 50, gpu_missing=None)
    for job in (make_job(**sizes), make_job(**sizes, motif=Biclique(3, 3))):
        assert needs_parts(job, "gpu", (worker,))
        assert not needs_parts(job, "cpu", (worker,))
        with pytest.raises(CapacityError, match=r"at most 4294959104 edges and 2146435072 vertices; count part by"):
            require_memory(job, "gpu", (worker,))
    census = make_job(**sizes, motif=Census("u"), signed=True)
    with pytest.raises(CapacityError, match=r"2146435072 vertices; census .* is counted on the whole graph only"):
        needs_parts(census, "gpu", (worker,))
    fits = make_job(n_u=2**30, n_v=2**30 - 2**20, n_edges=2**32 - 2**13)
    assert not needs_parts(fits, "gpu", (worker,))


def test_a_budget_that_holds_no_part_is_refused() -> None:
    job = make_job(**LARGE)
    for engine, workers, budget, kind in (
        ("cpu", WORKERS, Budget(host_bytes=300 << 20), "host"),
        ("gpu", GPUS, Budget(device_bytes=500 << 20), "device"),
        ("gpu", GPUS, Budget(device_bytes=1 << 30, host_bytes=800 << 20), "host"),
    ):
        with pytest.raises(
            CapacityError, match=rf"(GiB|bytes) of {kind} memory for parts.* but a part of one edge needs"
        ):
            needs_parts(replace(job, budget=budget), engine, workers)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["cpu", "gpu"])
@pytest.mark.parametrize("per", ["total", "vertex", "edge"])
@pytest.mark.parametrize("motif", [Butterfly(), Biclique(3, 3), MaximalBiclique()], ids=lambda each: each.name)
def test_the_budget_that_an_error_names_is_the_least(motif: Any, per: Any, engine: Any) -> None:
    job = make_job(**LARGE, motif=motif, per=per if per in motif.granularities else "total")
    workers = GPUS if engine == "gpu" else (replace(WORKERS[0], memory_bytes=1 << 45),)
    given = Budget(1 << 20 if engine == "gpu" else None, 1 << 20)
    named = named_budget(lambda: require_memory(replace(job, budget=given), engine, workers), given)
    require_memory(replace(job, budget=named), engine, workers)
    for kind in ("device_bytes", "host_bytes")[engine == "cpu" :]:
        less = replace(named, **{kind: getattr(named, kind) - (1 << 20)})
        with pytest.raises(CapacityError):
            require_memory(replace(job, budget=less), engine, workers)


def test_workers_that_are_too_small_are_told_what_they_need() -> None:
    job = make_job(**LARGE)
    with pytest.raises(CapacityError, match="use workers with at least") as caught:
        require_memory(job, "cpu", (make_worker(memory_bytes=1 << 30),))
    found = re.search(r"at least (\d+)MiB of host memory, 350MiB of it for the process", str(caught.value))
    assert found is not None
    least = int(found[1]) << 20
    require_memory(job, "cpu", (make_worker(memory_bytes=least),))
    with pytest.raises(CapacityError):
        require_memory(job, "cpu", (make_worker(memory_bytes=least - (1 << 20)),))


def test_a_budget_of_device_memory_is_noted_where_it_bounds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    job = make_job(budget=Budget(device_bytes=1 << 30))
    require_memory(job, "cpu", WORKERS)
    assert "the budget of device memory, 1.00 GiB, has no effect" in caplog.text
    caplog.clear()
    require_memory(job, "gpu", GPUS)
    require_memory(make_job(), "cpu", WORKERS)
    assert caplog.text == ""


@pytest.mark.parametrize("per", ["total", "vertex", "edge"])
def test_parts_of_the_limit_leave_room_for_the_next_one(per: str) -> None:
    sizes = PartSizes(10_000, 3_000_000, 40_000, 2_000_000)
    job = make_job(**LARGE, per=per)
    for engine, workers, budget in (
        ("cpu", WORKERS, Budget(host_bytes=2 << 30)),
        ("gpu", GPUS, Budget(2 << 30, 4 << 30)),
        ("gpu", GPUS, Budget(8 << 30, 2 << 30)),
    ):
        asked = replace(job, budget=budget)
        needed, limit = part_limit(asked, engine, workers)  # type: ignore[arg-type]
        scaled = _largest_within(sizes, needed, limit)
        assert needed.of(scaled) <= limit < needed.of(_times(scaled, 1.01))
        for worker in workers:
            memory = part_memory(asked, engine, worker.threads)  # type: ignore[arg-type]
            host = (memory.raw + memory.raw + memory.host).of(scaled)
            assert host <= host_room(asked, engine, worker.memory_bytes)  # type: ignore[arg-type]
            if engine == "gpu":
                device = (memory.staged + memory.staged + memory.device).of(scaled)
                assert device <= device_room(budget, worker.gpu_memory_bytes)


def _times(sizes: PartSizes, share: float) -> PartSizes:
    return PartSizes(*(int(size * share) for size in astuple(sizes)))


def _largest_within(sizes: PartSizes, needed: PartBytes, limit: int) -> PartSizes:
    fixed = needed.of(PartSizes(0, 0, 0, 0))
    return _times(sizes, (limit - fixed) / (needed.of(sizes) - fixed) * 0.999)
