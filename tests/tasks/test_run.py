"""One task's run and the fold, with an engine that records what it is asked."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio import registry
from papilio.errors import ClusterError, ExecutionError, StoreError, TilingError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.announce import get_passed, say_passed
from papilio.kernels.engine import Partial
from papilio.kernels.threads import ChunkRunner
from papilio.motifs import Butterfly, MaximalBiclique
from papilio.question import Question
from papilio.storage.records import read_record
from papilio.storage.store import write_store
from papilio.tasks import run
from papilio.tasks import worker_state as ready
from papilio.tasks.fold import Fold
from papilio.tasks.forecast import NS, Pace
from papilio.tasks.job import (
    JobSpec,
    LeaseResult,
    LeaseTask,
    PrepareTask,
    graph_in_memory,
    hash_graph,
    job_of,
    read_job_graph,
)
from papilio.tasks.run import CutWatch, request_cuts, run_lease, run_prepare
from tests.tasks.fakes import FakeEngine, make_job, make_worker, plan_of

GRAPH = BipartiteGraph.from_edges(*np.divmod(np.arange(0, 400, 3), 20))

TOTAL = Question(Butterfly(), "total")

SPEED = registry.MOTIF_ROWS["butterfly"].rates["cpu"].per_second

WORKER = make_worker("w", threads=1)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    fake = FakeEngine()
    ready._engines.clear()
    monkeypatch.setattr(registry, "load_engine", lambda motif, name, threads, **options: fake)
    monkeypatch.setattr(ready, "warm_engine", lambda *key: None)
    ready.forget_graphs()
    yield fake
    ready.forget_graphs()
    ready._engines.clear()


@pytest.fixture
def job(tmp_path: Path) -> JobSpec:
    return job_of(write_store(tmp_path / "graph", GRAPH, provenance={}), TOTAL)


def lease(job: JobSpec, start: int, stop: int, shard_dir: str | None = None) -> LeaseTask:
    digest = run_prepare(PrepareTask(job, "cpu", "run", 1), WORKER).costs_digest
    return LeaseTask(job, "cpu", "plan", "run", 0, start, stop, 0, digest, shard_dir)


def test_a_worker_with_other_hands_counts_nothing_even_where_all_items_cost_the_same(tmp_path: Path) -> None:
    u, v = np.indices((6, 6)).reshape(2, -1)
    store = write_store(tmp_path / "graph", BipartiteGraph.from_edges(u, v), provenance={})
    job = job_of(store, Question(MaximalBiclique(), "total"))
    planned = run_prepare(PrepareTask(replace(job, hands=2), "cpu", "run"), WORKER)
    task = LeaseTask(job, "cpu", "plan", "run", 0, 0, planned.n_items, 0, planned.costs_digest)
    with pytest.raises(ClusterError, match="differently from the plan"):
        run_lease(task, WORKER)
    assert run_lease(replace(task, job=replace(job, hands=2)), WORKER).total == 1


def test_a_worker_with_other_items_counts_nothing(engine: FakeEngine, job: JobSpec) -> None:
    task = replace(lease(job, 0, 2), costs_digest="0" * 32)
    with pytest.raises(ClusterError, match=r"orders the work items of .* differently from the plan"):
        run_lease(task, WORKER)


def test_prepare_reports_items_and_costs_once(engine: FakeEngine, job: JobSpec) -> None:
    plain = run_prepare(PrepareTask(job, "cpu", "run", 0), WORKER)
    assert (plain.forecast, plain.seconds["read"] > 0) == (None, True)
    first = run_prepare(PrepareTask(job, "cpu", "run", 0, predict=True), WORKER)
    second = run_prepare(PrepareTask(job, "cpu", "run", 1, predict=True), WORKER)
    assert (first.n_items, first.total_work) == (GRAPH.n_u, GRAPH.n_edges)
    assert first.table is not None
    assert first.table.total == pytest.approx(GRAPH.n_edges / SPEED * NS, abs=1)
    assert first.forecast is not None
    assert second.forecast == first.forecast
    assert second.table is None
    assert plain.costs_digest == first.costs_digest == second.costs_digest
    assert engine.prepared == 1
    assert second.seconds == {"read": 0.0, "prepare": 0.0}


def test_kernels_are_loaded_by_a_few_edges_once(
    engine: FakeEngine, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    ready.warm_engine.cache_clear()
    monkeypatch.setattr(registry, "load_engine", lambda motif, name, threads, **options: engine)
    for slot in range(2):
        assert run_prepare(PrepareTask(job, "cpu", "run", slot), WORKER).n_items == GRAPH.n_u
        ready.forget_graphs()
    assert engine.prepared == 3, "a few edges, and the graph twice"
    assert engine.intervals == [(0, 4)]
    ready.warm_engine.cache_clear()


def test_threads_of_one_process_prepare_once_and_run_one_at_a_time(engine: FakeEngine, job: JobSpec) -> None:
    engine.prepare_s = 0.05
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda k: run_lease(lease(job, 5 * k, 5 * k + 5), WORKER), range(4)))
    assert engine.prepared == 1
    assert not engine.overlapped
    assert sorted(engine.intervals) == [(0, 5), (5, 10), (10, 15), (15, 20)]
    assert sum(result.total for result in results) == 20


def test_forgotten_graphs_are_prepared_again(engine: FakeEngine, job: JobSpec) -> None:
    for forgotten, prepared in ((["0" * 32], 1), ([job.graph_hash], 2), (None, 3)):
        run_lease(lease(job, 0, 5), WORKER)
        ready.forget_graphs(forgotten)
        run_lease(lease(job, 0, 5), WORKER)
        assert engine.prepared == prepared


def test_lease_results_survive_json(engine: FakeEngine, job: JobSpec, tmp_path: Path) -> None:
    result = run_lease(lease(replace(job, per="edge"), 0, 3, str(tmp_path)), WORKER)
    assert result.shard is not None
    assert read_record(LeaseResult, json.loads(json.dumps(result.to_dict())), "a lease", "") == result


def test_slices_are_sized_by_predicted_work_whatever_an_engine_reports(
    engine: FakeEngine, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.slice_s = run.LEAST_TIMED_S
    right = engine.run
    monkeypatch.setattr(engine, "run", lambda *args: replace(right(*args), work=10**15))
    run_lease(lease(job, 3, 9), WORKER)
    kept = ready.prepare_graph(job, engine, WORKER, {})
    costs = np.sort(GRAPH.degree_u)[::-1]
    predicted = kept.work_between(3, 9)
    assert predicted == pytest.approx(costs[3:9].sum() / SPEED * NS, abs=2)
    assert 0 < kept.speed <= predicted / run.LEAST_TIMED_S


def test_the_speed_is_by_the_clock_that_stands_still_while_compiling(
    engine: FakeEngine, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run_clock", iter([10.0, 12.0]).__next__)
    run_lease(lease(job, 3, 9), WORKER)
    kept = ready.prepare_graph(job, engine, WORKER, {})
    assert kept.speed == kept.work_between(3, 9) / 2


def test_slices_end_at_equal_steps_of_the_work() -> None:
    pace = Pace.even(7000, 1e9)
    held = ready.PreparedGraph(None, pace, np.arange(1001), 7 * np.arange(1001))
    assert max(np.diff([100, *held.bounds(100, 350, 70), 350])) <= 10
    assert held.bounds(0, 1000, 10**9) == []


def test_a_lease_tells_how_far_it_is(engine: FakeEngine, job: JobSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """In predicted time: of the items that are done, and of a share of the cost of others; to its own run alone."""
    seen: list[int] = []

    def look(*args: Any) -> Partial:
        for items, share in ((0, 0.0), (2, 0.0), (2, 1.0)):
            say_passed(items, share)
            seen.append(run.work_underway("run"))
        assert run.work_underway("another") == 0
        return right(*args)

    right = engine.run
    task = lease(job, 3, 9)
    monkeypatch.setattr(engine, "run", look)
    run_lease(task, WORKER)
    held = ready.prepare_graph(job, engine, WORKER, {})
    assert seen == pytest.approx([0, held.work_between(3, 5), held.work_between(3, 9)], abs=2)
    assert run.work_underway("run") == 0


def test_chunks_tell_how_many_of_them_are_done() -> None:
    seen: list[float] = []
    say_passed()
    runner = ChunkRunner(lambda: None, 1)
    runner.run([(0, 1), (1, 2)], lambda *_: seen.append(get_passed().share))
    assert get_passed() == (0, 0), "only runs of engines tell"
    runner.run([(0, 1), (1, 2), (2, 3), (3, 4)], lambda *_: seen.append(get_passed().share), tells=True)
    assert (seen[2:], get_passed().share) == ([0, 0.25, 0.5, 0.75], 1)


def test_vectors_stay_in_the_process_or_go_to_a_shard(engine: FakeEngine, job: JobSpec, tmp_path: Path) -> None:
    vertex = replace(job, per="vertex")
    inside = run_lease(lease(vertex, 0, 3), WORKER)
    outside = run_lease(lease(vertex, 3, 20, str(tmp_path)), WORKER)
    assert inside.vectors["u"].tolist() == [0] * (GRAPH.n_u - 1) + [6]
    assert outside.vectors == {}
    fold = Fold(plan_with(vertex, [(0, 3), (3, 20)]))
    fold.add(outside)
    fold.add(inside)
    assert fold.finish().vectors["v"].tolist() == [0] * (GRAPH.n_v - 1) + [40]
    assert outside.shard is not None
    assert not Path(outside.shard.path).exists()


def plan_with(job: JobSpec, intervals: list[tuple[int, int]]):  # type: ignore[no-untyped-def]
    from papilio.tasks.plan import Lease

    plan = plan_of(np.sort(GRAPH.degree_u)[::-1].copy(), job=job)
    return replace(plan, leases=tuple(Lease(0, start, stop, 0) for start, stop in intervals))


def result_of(start: int, stop: int, **changes: object) -> LeaseResult:
    known = LeaseResult(0, start, stop, 2**63 + start, stop - start, "w", "cpu", {}, 0)
    return replace(known, **changes)  # type: ignore[arg-type]


def test_fold_is_independent_of_the_order_and_exact_beyond_64_bits() -> None:
    intervals = [(0, 1), (1, 4), (4, 9), (9, 20)]
    totals = set()
    for seed in range(6):
        fold = Fold(plan_with(make_job(), intervals))
        for start, stop in random.Random(seed).sample(intervals, 4):
            fold.add(result_of(start, stop))
        totals.add((fold.finish().total, fold.finish().work))
    assert totals == {(4 * 2**63 + 14, 20)}


def test_tampered_repeated_and_missing_intervals_are_refused() -> None:
    fold = Fold(plan_with(make_job(), [(0, 5), (5, 20)]))
    fold.add(result_of(0, 5))
    with pytest.raises(TilingError, match=r"items \[5, 21\) of partition 0 were finished; the partition has"):
        fold.add(result_of(5, 21))
    with pytest.raises(TilingError, match="overlap"):
        fold.add(result_of(0, 5))
    with pytest.raises(TilingError, match="never finished"):
        fold.finish()
    fold.add(result_of(5, 20))
    assert fold.finish().work == 20


def test_fold_refuses_vectors_of_another_granularity() -> None:
    fold = Fold(plan_with(make_job(per="vertex"), [(0, 20)]))
    with pytest.raises(ExecutionError, match="the job needs"):
        fold.add(result_of(0, 20))


def test_fold_refuses_a_damaged_shard(engine: FakeEngine, job: JobSpec, tmp_path: Path) -> None:
    edge = replace(job, per="edge")
    result = run_lease(lease(edge, 0, 20, str(tmp_path)), WORKER)
    assert result.shard is not None
    fold = Fold(plan_with(edge, [(0, 20)]))
    with pytest.raises(StoreError, match="digest"):
        fold.add(replace(result, shard=replace(result.shard, digest="0" * 32)))
    fold.add(result)
    assert fold.finish().vectors["edge"].tolist() == [0] * (GRAPH.n_edges - 1) + [80]


def test_a_replaced_store_is_noticed(engine: FakeEngine, job: JobSpec) -> None:
    with pytest.raises(StoreError, match="the store was replaced"):
        read_job_graph(replace(job, graph_hash="1" * 32))


def test_graph_in_memory_has_the_hash_of_its_store_and_is_found_while_held(job: JobSpec) -> None:
    assert hash_graph(GRAPH) == job.graph_hash
    with graph_in_memory(GRAPH) as source:
        held = job_of(GRAPH, TOTAL, source)
        assert held.identity == job.identity
        assert read_job_graph(held) is GRAPH
    with pytest.raises(StoreError, match="is in the memory of another process"):
        read_job_graph(held)


def test_unipartite_graphs_are_hashed_and_refused_for_bipartite_motifs(tmp_path: Path) -> None:
    graph = UnipartiteGraph.from_edges([0, 1, 2], [1, 2, 0])
    store = write_store(tmp_path / "g", graph, provenance={})
    assert hash_graph(graph) == store.hash
    with pytest.raises(UnsupportedError, match=r"butterfly' is defined on bipartite graphs; .* is unipartite"):
        job_of(store, TOTAL)


def alike(start: int, stop: int) -> NDArray[np.float64]:
    return np.ones(stop - start)


def test_half_of_a_run_is_left_where_that_is_worth_it() -> None:
    now = 0.0
    watch = CutWatch("half", 100.0, alike, lambda: now)
    assert not watch()
    now = 1.0
    for done, left, is_worth in ((0, 100, False), (99, 1, False), (50, 50, True)):
        watch.want_half()
        assert watch.is_wanted()
        assert watch.is_worth(done, left) == is_worth
        assert watch.is_wanted() == is_worth
        assert not watch()
    watch.leave(75)
    assert (watch.is_wanted(), watch.left_at, watch.has_left) == (False, 75, True)
    watch.want_half()
    now += run.UNHEARD_S
    assert watch(), "the engine has not looked"


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_of_a_run_are_left_to_another_worker(threads: int) -> None:
    """Asked at any chunk: what is run ends where it was said to."""
    for asked_at in range(20):
        watch, done = CutWatch("chunks", None, alike, map((0.1).__mul__, count()).__next__), list[int]()

        def run_chunk(
            state: None,
            begin: int,
            end: int,
            watch: CutWatch = watch,
            done: list[int] = done,
            at: int = asked_at,
        ) -> None:
            done.extend(range(begin, end))
            if begin == 3 * at:
                watch.want_half()

        chunks = [(at, at + 3) for at in range(0, 60, 3)]
        n_chunks = ChunkRunner(lambda: None, threads).run(chunks, run_chunk, watch, lambda at: 100 + at)
        assert sorted(done) == list(range(3 * n_chunks))
        assert watch.left_at == (None if n_chunks == 20 else 100 + 3 * n_chunks)
        if threads == 1:
            assert n_chunks == 20 - (20 - asked_at) // 2


async def _ask_twice(key: str) -> list[int | None]:
    return [await run.leave_half(key), await run.leave_half(key)]


def test_a_lease_leaves_its_last_items_and_answers_for_the_others(
    engine: FakeEngine, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine waits until it is asked, by a thread as that of a Dask worker."""
    task, left = lease(job, 0, 20), list[list[int | None]]()

    def run_half(prepared: Any, start: int, stop: int, bounds: Any, cut: CutWatch) -> Partial:
        assert not cut()
        asking = threading.Thread(target=lambda: left.append(asyncio.run(_ask_twice(task.key))))
        asking.start()
        for stop_at in (15, 9):
            while not cut.is_wanted():
                time.sleep(0.001)
            cut.leave(stop_at)
        asking.join()
        return Partial(9, 9, 9)

    monkeypatch.setattr(engine, "run", run_half)
    assert asyncio.run(run.leave_half(task.key)) is None
    assert run_lease(task, WORKER).stop == 9
    assert left == [[15, 9]]
    assert asyncio.run(run.leave_half(task.key)) is None


def test_the_clock_of_a_lease_begins_with_its_first_slice() -> None:
    now = 100.0
    watch = CutWatch("of the clock", 2.5, alike, lambda: now)
    now = 1000.0
    assert not watch()
    now = 1002.4
    assert not watch()
    now = 1002.5
    assert watch()
    endless = CutWatch("without a clock", None, alike, lambda: 1e9)
    assert not endless()
    request_cuts(["without a clock"])
    assert endless()


def test_a_lease_ends_by_the_clock_after_a_slice_at_least(
    engine: FakeEngine, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SLICE_S", 0.0)
    short = replace(lease(job, 0, 20), limit_s=engine.slice_s / 2)
    result = run_lease(short, WORKER)
    assert 0 < result.stop < 20
    assert result.total == result.stop
    assert run_lease(replace(short, limit_s=1e9), WORKER).stop == 20


def test_slices_are_as_long_as_the_engine_wants(
    engine: FakeEngine, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SLICE_S", 0.0)
    n_bounds = list[int]()

    def count_bounds(prepared: Any, start: int, stop: int, bounds: Any, cut: CutWatch) -> Partial:
        n_bounds.append(len(bounds))
        return Partial(stop - start, 0, 1)

    monkeypatch.setattr(engine, "run", count_bounds)
    for least_slice_s in (0.0, 1e9):
        monkeypatch.setattr(FakeEngine, "least_slice_s", least_slice_s)
        run_lease(lease(job, 0, 20), WORKER)
    assert n_bounds == [19, 0]
