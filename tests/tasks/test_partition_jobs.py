"""Jobs over the parts of a graph give what the whole graph gives, whoever counts them and whatever goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from papilio import registry
from papilio.api.read import open_graph
from papilio.cluster.driver import JobOutcome, count_job, plan_job, recount_leases
from papilio.cluster.events import Event, LeaseFinished, PlanMade, ignore_events
from papilio.cluster.executor import InlineExecutor
from papilio.cluster.own_cluster import LocalExecutor
from papilio.errors import (
    CapacityError,
    ExecutionError,
    InputError,
    StoreError,
    TilingError,
    UnsupportedError,
)
from papilio.graph import BipartiteGraph
from papilio.kernels.device.discovery import GpuInfo
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.kernels.wedge.gpu import ButterflyGpu
from papilio.motifs import Biclique, Butterfly, Granularity, Motif
from papilio.partitioning.partition import open_partition
from papilio.registry import load_engine
from papilio.storage.store import GraphStore, write_store
from papilio.tasks import leases as lease_policy
from papilio.tasks import worker_state as ready
from papilio.tasks.directory import JobDirectory
from papilio.tasks.job import Budget, JobSpec
from papilio.tasks.job_remote import check_job
from papilio.tasks.lease_scheduler import LeaseScheduler
from papilio.tasks.memory import CONTEXT_BYTES
from papilio.tasks.plan import CountPlan
from papilio.tasks.session import JobSession
from tests.tools.devices import emulator
from tests.tools.stored_parts import job_on, store_grid, store_roots
from tests.tools.strategies import planted_graph

QUESTIONS: list[tuple[Motif, Granularity]] = [
    (Butterfly(), "total"),
    (Butterfly(), "vertex"),
    (Butterfly(), "edge"),
    (Biclique(2, 3), "total"),
    (Biclique(3, 2), "vertex"),
    (Biclique(), "total"),
]

SETTINGS = {"cluster": "inline", "engine": "cpu", "workers": None, "output": None}


@pytest.fixture(autouse=True)
def small_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make leases so short that each part has several."""
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-7)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 1e-7)
    monkeypatch.setattr(lease_policy, "VECTOR_OVERHEAD", 1e9)


@pytest.fixture(scope="module")
def graph() -> BipartiteGraph:
    return planted_graph(5, 60, 50, blocks=6, block_side=7, noise_edges=200, missing=0.1)


@pytest.fixture
def store(graph: BipartiteGraph, tmp_path: Path) -> GraphStore:
    return write_store(tmp_path / "graph", graph, provenance={})


def part_job(store: GraphStore, motif: Motif, per: Granularity, **budget: int) -> JobSpec:
    """Return the job on a new partition of the graph, which lies beside it."""
    path = Path(store.path).parent / f"parts-{motif.name}-{QUESTIONS.index((motif, per))}"
    if isinstance(motif, Biclique):
        partition = store_roots(path, store, motif, per)
    else:
        partition = store_grid(path, store, motif, per)
    return job_on(store, partition, motif, per, Budget(**budget))


def expect(graph: BipartiteGraph, motif: Motif, per: Granularity, outcome: JobOutcome) -> None:
    engine = load_engine(motif, "cpu", 1)
    prepared = engine.prepare(graph, motif, per)
    whole, found = engine.run(prepared, 0, prepared.n_items), outcome.partial
    assert (found.total, found.cells) == (whole.total, whole.cells)
    assert found.total > 0
    assert found.vectors.keys() == whole.vectors.keys()
    for name, vector in whole.vectors.items():
        assert np.array_equal(found.vectors[name], vector), name
    assert found.n_items == outcome.plan.n_items


@pytest.mark.parametrize(("motif", "per"), QUESTIONS)
def test_parts_give_what_the_whole_graph_gives(
    graph: BipartiteGraph, store: GraphStore, motif: Motif, per: Granularity
) -> None:
    with InlineExecutor(threads=1) as executor:
        outcome = count_job(executor, part_job(store, motif, per), "cpu", None, ignore_events)
    expect(graph, motif, per, outcome)
    plan = outcome.plan
    assert plan.strategy == ("pair_blocks" if motif == Butterfly() else "bcpar")
    assert len(plan.partitions) > 3
    assert sum(outcome.result.leases_by_worker.values()) > len(plan.partitions)
    moved = outcome.result.moved
    stored = sum(part.nbytes for part in plan.partitions)
    assert 0 < moved.read_bytes <= stored
    assert moved.staged_bytes == 0
    assert moved.load_s > 0
    assert CountPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_decisions_have_figures(store: GraphStore) -> None:
    job = part_job(store, Butterfly(), "total", host_bytes=3 << 30)
    with InlineExecutor(threads=1) as executor:
        plan, _, report = plan_job(executor, job, "cpu", ignore_events)
    said = {decision.what: decision.reason for decision in plan.decisions}
    assert said["strategy pair_blocks"] == "as the test wants it"
    assert f"{len(plan.partitions)} parts, replication {plan.replication:.2f}" in said
    assert plan.replication > 1
    assert any(what.startswith("largest part ") and "B of host" in reason for what, reason in said.items())
    assert any(
        re.fullmatch(r"peak of a worker about 35\d\.\d\d MiB of host memory of a budget of 3\.00 GiB", w) for w in said
    ), said
    assert report.prepared_bytes == 0
    assert job.partition is not None
    assert plan.costs_digest == report.costs_digest == job.partition.hash
    assert plan.key != plan_with_other_hash(plan).key


def plan_with_other_hash(plan: CountPlan) -> CountPlan:
    return replace(plan, costs_digest="f" * 32)


@pytest.mark.slow
def test_two_workers_count_parts_though_one_is_killed(graph: BipartiteGraph, store: GraphStore, tmp_path: Path) -> None:
    finished: list[LeaseFinished] = []
    with LocalExecutor(2, threads=1) as executor:

        def kill_one(event: Event) -> None:
            if isinstance(event, LeaseFinished):
                finished.append(event)
                if len(finished) == 4:
                    os.kill(executor.workers[0].pid, signal.SIGKILL)

        for motif, per in (QUESTIONS[1], QUESTIONS[4]):
            job = part_job(store, motif, per)
            listener: Callable[[Event], None] = kill_one if (motif, per) == QUESTIONS[1] else ignore_events
            outcome = count_job(executor, job, "cpu", tmp_path, listener)
            expect(graph, motif, per, outcome)
    assert len(finished) > 4
    assert not list(tmp_path.glob(".papilio-run-*"))


class Stopped(Exception):
    """Ends a session from a listener."""


def stop_after(n: int) -> Callable[[Event], None]:
    left = [n]

    def listener(event: Event) -> None:
        left[0] -= isinstance(event, LeaseFinished)
        if not left[0]:
            raise Stopped

    return listener


@pytest.mark.parametrize(("motif", "per"), [QUESTIONS[1], QUESTIONS[2], QUESTIONS[4]])
def test_a_job_of_parts_is_resumed_checked_and_counted_again(
    graph: BipartiteGraph, store: GraphStore, tmp_path: Path, motif: Motif, per: Granularity
) -> None:
    job, root = part_job(store, motif, per), tmp_path / "job"

    def count(listener: Callable[[Event], None], asked: JobSpec = job) -> JobOutcome:
        with InlineExecutor(threads=1) as executor, JobSession(root, asked, store.path, SETTINGS) as session:
            outcome = count_job(executor, asked, "cpu", None, listener, session)
            seconds = {"start": 0.0, **outcome.result.seconds, "write": 0.0, "total": 0.0}
            result = replace(outcome.result, graph=open_graph(store, "bipartite", {}).describe(), seconds=seconds)
            session.finish(result, outcome.partial.vectors)
        return outcome

    with pytest.raises(Stopped):
        count(stop_after(5))
    assert not JobDirectory(root).finished
    with pytest.raises(InputError, match="was begun on the partition"):
        count(ignore_events, replace(job, partition=None))
    outcome = count(ignore_events)
    assert outcome.result.leases_before == 5
    expect(graph, motif, per, outcome)
    directory = JobDirectory(root)
    checked = check_job(directory)
    assert checked.count == outcome.partial.total
    assert checked.shards == checked.leases > 5
    again = recount_leases(directory, 7, "cpu", 3)
    assert again.leases == 7
    shard = next((root / "shards" / "1").iterdir())
    shard.unlink()
    with pytest.raises(StoreError, match="run the lease again"):
        check_job(directory)


def test_a_replaced_partition_is_refused(store: GraphStore, tmp_path: Path) -> None:
    job = part_job(store, Butterfly(), "total")
    assert job.partition is not None
    other = replace(job, partition=replace(job.partition, hash="e" * 32))
    with InlineExecutor() as executor:
        with pytest.raises(StoreError, match="it was replaced"):
            plan_job(executor, other, "cpu", ignore_events)
        with pytest.raises(UnsupportedError, match="not per edge"):
            plan_job(executor, replace(job, per="edge"), "cpu", ignore_events)
        with pytest.raises(UnsupportedError, match="is a partition of the graph"):
            plan_job(executor, replace(job, graph_hash="d" * 32), "cpu", ignore_events)


def test_a_partition_replaced_while_it_is_counted_is_refused(store: GraphStore) -> None:
    """Ids of another cut of the same sizes would put counts at wrong vertices, and their sums would not tell."""
    job = part_job(store, Butterfly(), "vertex")
    assert job.partition is not None
    path = Path(job.partition.path)
    other = replace(open_partition(path).manifest, strategy="other")

    def listen(event: Event) -> None:
        if isinstance(event, LeaseFinished):
            (path / "partition.json").write_text(other.to_json())

    with InlineExecutor(threads=1) as executor, pytest.raises(StoreError, match="it was replaced"):
        count_job(executor, job, "cpu", None, listen)


def test_a_part_that_does_not_fit_is_named_before_anything_is_read(
    store: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = part_job(store, Butterfly(), "total", host_bytes=351 << 20)
    monkeypatch.setattr("papilio.tasks.parts.PartLoader.load", None)
    with (
        InlineExecutor(threads=1) as executor,
        pytest.raises(CapacityError, match=r"part \d+ of .*parts-but"),
    ):
        count_job(executor, job, "cpu", None, ignore_events)


def test_vectors_that_the_budget_has_no_room_for_are_summed_in_files(
    graph: BipartiteGraph, store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papilio.tasks.memory.FOLD_SHARE", 1 << 26)
    monkeypatch.setattr("papilio.tasks.parts.SLICE_ENTRIES", 7)
    for motif, per in (QUESTIONS[1], QUESTIONS[2], QUESTIONS[4]):
        job = part_job(store, motif, per, host_bytes=1 << 30)
        with InlineExecutor(threads=1) as executor:
            outcome = count_job(executor, job, "cpu", tmp_path, ignore_events)
        assert all(isinstance(vector, np.memmap) for vector in outcome.partial.vectors.values())
        expect(graph, motif, per, outcome)


def test_wrong_vectors_and_items_of_a_part_are_refused(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    job = part_job(store, Butterfly(), "vertex")
    right = ButterflyCpu.run

    def spoil(*args: Any, **options: Any) -> Any:
        partial = right(*args, **options)
        return replace(partial, vectors={name: vector + np.uint64(1) for name, vector in partial.vectors.items()})

    with InlineExecutor(threads=1) as executor:
        monkeypatch.setattr(ButterflyCpu, "run", spoil)
        with pytest.raises(ExecutionError, match="the counts of layer u sum to"):
            count_job(executor, job, "cpu", None, ignore_events)
        monkeypatch.setattr(ButterflyCpu, "run", lambda *args, **options: replace(right(*args, **options), vectors={}))
        with pytest.raises(ExecutionError, match=r"returned vectors {}; part \d+ needs"):
            count_job(executor, job, "cpu", None, ignore_events)
        monkeypatch.setattr(ButterflyCpu, "run", right)
        works = ButterflyCpu.work
        monkeypatch.setattr(ButterflyCpu, "work", lambda engine, prepared: works(engine, prepared)[:-1])
        with pytest.raises(ExecutionError, match="items in its manifest"):
            count_job(executor, job, "cpu", None, ignore_events)


def test_when_memory_runs_out_a_part_is_tried_alone_and_its_leases_are_halved(
    graph: BipartiteGraph, store: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = part_job(store, Butterfly(), "total")
    prepare, right, tried = ButterflyCpu.prepare, ButterflyCpu.run, [0]

    def fail_at_first(*args: Any) -> Any:
        tried[0] += 1
        if tried[0] == 3:
            raise MemoryError("no room")
        return prepare(*args)

    def hold_four_items(engine: Any, prepared: Any, start: int, stop: int, *rest: Any) -> Any:
        if stop - start > 4:
            raise MemoryError("too many items")
        return right(engine, prepared, start, stop, *rest)

    monkeypatch.setattr(ButterflyCpu, "prepare", fail_at_first)
    with InlineExecutor(threads=1) as executor:
        monkeypatch.setattr(ready, "warm_engine", lambda *key: None)
        monkeypatch.setattr(ButterflyCpu, "run", hold_four_items)
        outcome = count_job(executor, job, "cpu", None, ignore_events)
        monkeypatch.setattr(ButterflyCpu, "run", right)
        expect(graph, Butterfly(), "total", outcome)
        assert sum(outcome.result.leases_by_worker.values()) >= outcome.plan.n_items / 4
        monkeypatch.setattr(ButterflyCpu, "prepare", Mock(side_effect=MemoryError("none")))
        with pytest.raises(CapacityError, match=r"part \d+ of .* cannot be prepared in the free memory"):
            count_job(executor, job, "cpu", None, ignore_events)


def test_leases_that_are_lost_leave_a_gap_that_is_found(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[CountPlan] = []

    def keep(event: Event) -> None:
        if isinstance(event, PlanMade):
            plans.append(event.plan)

    job = part_job(store, Butterfly(), "total")
    monkeypatch.setattr(
        "papilio.tasks.lease_scheduler.PartAffinity.choose_partition",
        lambda self, worker, left, *least: max(left),
    )
    take = LeaseScheduler.take
    monkeypatch.setattr(
        LeaseScheduler,
        "take",
        lambda self, n, worker: take(self, n, worker) if len(self._pending.left) > 1 else None,
    )
    with InlineExecutor(threads=1) as executor, pytest.raises(TilingError, match="of partition 0 were never"):
        count_job(executor, job, "cpu", None, keep)
    assert len(plans[0].partitions) > 1


@pytest.mark.parametrize("per", ["total", "vertex", "edge"])
def test_parts_are_staged_for_the_gpu_engine(
    graph: BipartiteGraph, store: GraphStore, monkeypatch: pytest.MonkeyPatch, per: Granularity
) -> None:
    engine = ButterflyGpu(emulator(7))
    limits: list[int | None] = []

    def load(motif: Motif, name: str, threads: int, **options: Any) -> Any:
        limits.append(options["memory_bytes"])
        return engine

    gpu = GpuInfo("emulated", 8 << 30)
    monkeypatch.setattr(registry, "load_engine", load)
    monkeypatch.setattr(ready, "list_gpus", lambda: (gpu,))
    monkeypatch.setattr(ready.worker_state, "device_limit", None)
    ready._engines.clear()
    job = part_job(store, Butterfly(), per, device_bytes=1 << 30)
    with InlineExecutor(threads=1) as executor:
        executor._worker = replace(
            executor.workers[0], gpu=gpu.name, gpu_memory_bytes=gpu.memory_bytes, gpu_missing=None
        )
        executor.workers = (executor._worker,)
        outcome = count_job(executor, job, "gpu", None, ignore_events)
    ready._engines.clear()
    expect(graph, Butterfly(), per, outcome)
    assert limits == [(1 << 30) - CONTEXT_BYTES]
    assert 0 < outcome.result.moved.staged_bytes <= outcome.result.moved.read_bytes + (1 << 16)
    assert "of device memory of a budget of 1.00 GiB and" in str(outcome.plan.decisions)
