"""What a lease needs beyond the memory of its worker splits it; what one item needs is an error that names it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import papilio
from papilio import registry
from papilio.errors import CapacityError, LeaseTooLargeError
from papilio.kernels.biclique import cpu as on_cpu
from papilio.kernels.biclique import gpu as on_gpu
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.engine import Engine
from papilio.kernels.search import bits as leaf_table
from papilio.motifs import Biclique, Butterfly
from papilio.tasks import run
from papilio.tasks import worker_state as ready
from tests.kernels.biclique.test_gpu_biclique import EAGER, GRAPHS, expected
from tests.tools.devices import emulator
from tests.tools.strategies import planted_graph

NAME, MOTIF = "planted", Biclique(3, 4)


@pytest.fixture(autouse=True)
def _empty_caches() -> Iterator[None]:
    def empty() -> None:
        ready.forget_graphs()
        ready._engines.clear()
        ready.warm_engine.cache_clear()

    empty()
    yield
    empty()


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the list that gets every interval that an engine is asked to run."""
    asked: list[tuple[int, int]] = []
    found = run._run_items

    def record(task: Any, *arguments: Any) -> Any:
        asked.append((task.start, task.stop))
        return found(task, *arguments)

    monkeypatch.setattr(run, "_run_items", record)
    return asked


def use(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    """Have jobs for CPUs run on ``engine``, which need not be one."""
    engine.name = "cpu"
    monkeypatch.setattr(registry, "load_engine", lambda *key, **options: engine)
    monkeypatch.setattr(ready, "warm_engine", lambda *key: None)


def emulated(**options: int) -> BicliqueGpu:
    """Return the GPU engine on an emulator."""
    return BicliqueGpu(emulator(1, **options), "pivot", "u", EAGER)


def test_a_table_of_leaves_beyond_device_memory_splits_the_lease(
    monkeypatch: pytest.MonkeyPatch, leases: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(on_gpu, "_MAX_SLOTS", 32)
    use(monkeypatch, emulated())
    assert papilio.count(GRAPHS[NAME](), MOTIF, cluster="inline").count == expected(NAME, 3, 4)
    assert any((start, (start + stop) // 2) in leases for start, stop in leases if stop - start > 1)


def test_a_table_of_leaves_beyond_host_memory_splits_the_lease(
    monkeypatch: pytest.MonkeyPatch, leases: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(on_cpu, "JOB_SLOTS", 2)
    limit_host_tables(monkeypatch, 64)
    use(monkeypatch, BicliqueCpu(1, "pivot", "u"))
    monkeypatch.setattr(on_cpu, "CHILD_SLOTS", 2)
    assert papilio.count(GRAPHS[NAME](), MOTIF, cluster="inline").count == expected(NAME, 3, 4)
    assert len(leases) > 1


def limit_host_tables(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let memory run out when a thread's table gets more than ``most`` slots."""
    found = leaf_table.make_leaves

    def make(n_slots: int) -> leaf_table.LeafTable:
        if n_slots > most:
            raise MemoryError(f"Unable to allocate {24 * n_slots} bytes")
        return found(n_slots)

    monkeypatch.setattr(leaf_table, "make_leaves", make)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_one_item_whose_leaves_do_not_fit_is_named_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, leases: list[tuple[int, int]], name: str
) -> None:
    monkeypatch.setattr(on_gpu, "_MAX_SLOTS", 4)
    monkeypatch.setattr(on_cpu, "JOB_SLOTS", 2)
    limit_host_tables(monkeypatch, 4)
    use(monkeypatch, emulated() if name == "gpu" else BicliqueCpu(1, "pivot", "u"))
    with pytest.raises(CapacityError, match=r"items \[\d+, \d+\) do not fit .* use workers with more memory"):
        papilio.count(GRAPHS[NAME](), MOTIF, cluster="inline")
    first, last = leases[-1]
    assert last - first == 1


def test_items_that_fit_are_counted_where_heavier_ones_do_not() -> None:
    """What one vertex needs is looked at among the items of the run alone."""
    graph = planted_graph(7, 130, 14, 1, 14, 900, 0.1)
    roomy = emulated()
    prepared = roomy.prepare(graph, MOTIF, "total")
    need = np.concatenate([one.need_words for one in prepared.classes])
    items = np.concatenate([one.items for one in prepared.classes])
    light = int(items[need.argmin()])
    assert 1.2 * need.min() < need.max()
    small = emulated(free_bytes=int(4 * need.min() / 0.75 * 1.1))
    one = small.run(prepared, light, light + 1)
    assert (one.total, one.cells) == (roomy.run(prepared, light, light + 1).total, {})
    with pytest.raises(LeaseTooLargeError, match=r"needs \d+ bytes of device memory; .* more memory"):
        small.run(prepared, 0, prepared.n_items)


def test_vertices_likewise() -> None:
    graph = planted_graph(7, 130, 14, 1, 11, 500, 0.1)
    roomy = BicliqueGpu(emulator(1), anchor="u", tuning=EAGER)
    prepared = roomy.prepare(graph, MOTIF, "vertex")
    need = np.concatenate([one.need_words for one in prepared.classes])
    items = np.concatenate([one.items for one in prepared.classes])
    light = int(items[need.argmin()])
    assert 1.2 * need.min() < need.max()
    small = BicliqueGpu(emulator(1, free_bytes=int(4 * need.min() / 0.75 * 1.1)), anchor="u", tuning=EAGER)
    wanted, got = (each.run(prepared, light, light + 1) for each in (roomy, small))
    assert got.total == wanted.total
    np.testing.assert_array_equal(got.vectors["u"], wanted.vectors["u"])
    with pytest.raises(LeaseTooLargeError, match=r"needs \d+ bytes of device memory"):
        small.run(prepared, 0, prepared.n_items)


def test_a_first_table_leaves_room_for_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that begins larger than the memory is made smaller instead of refused."""
    free_bytes = 1 << 14
    engine = emulated(free_bytes=free_bytes)
    engine.tuning = replace(EAGER, leaf_slots=1 << 20)
    made: list[int] = []
    found = engine._make_counts
    monkeypatch.setattr(engine, "_make_counts", lambda prepared, n: made.append(n) or found(prepared, n))  # type: ignore[func-returns-value]
    prepared = emulated().prepare(GRAPHS[NAME](), MOTIF, "total")
    assert engine.run(prepared, 0, prepared.n_items).total == expected(NAME, 3, 4)
    assert 16 * made[0] <= free_bytes // 4 < 16 * 2 * made[0]


@pytest.mark.parametrize("times", [1, 2])
def test_a_graph_that_cannot_be_prepared_is_tried_once_more_and_then_named(
    monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    engine = papilio.registry.load_engine(Butterfly(), "cpu", 1)
    use(monkeypatch, engine)
    found, failures = engine.prepare, [MemoryError("12 bytes")] * times

    def prepare(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return found(*arguments)

    monkeypatch.setattr(engine, "prepare", prepare)
    graph = GRAPHS[NAME]()
    if times == 1:
        assert papilio.count(graph, Butterfly(), cluster="inline").count > 0
        return
    expected = rf"{graph.n_edges} edges .* \(12 bytes\), although .* were predicted: use workers with more"
    with pytest.raises(CapacityError, match=expected):
        papilio.count(graph, Butterfly(), cluster="inline")
