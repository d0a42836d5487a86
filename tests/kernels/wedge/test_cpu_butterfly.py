"""What only the CPU engine has: threads, the width of its accumulators, its refusals."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import comb
from pathlib import Path

import numpy as np
import pytest

from papilio.errors import InputError
from papilio.graph import BipartiteGraph
from papilio.kernels import jit
from papilio.kernels import threads as chunks
from papilio.kernels.engine import Partial
from papilio.kernels.rows.index import WedgeIndex, index_wedges, order_falling
from papilio.kernels.wedge import loops as kernels
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.motifs import GRANULARITIES, Butterfly, Granularity
from tests.tools.strategies import complete_graph, graph_of, planted_graph, skewed_graph


def count(engine: ButterflyCpu, graph: BipartiteGraph, per: Granularity) -> Partial:
    """Count all items of a graph."""
    prepared = engine.prepare(graph, Butterfly(), per)
    return engine.run(prepared, 0, prepared.n_items)


def same(a: Partial, b: Partial) -> bool:
    """Tell whether two partials are equal."""
    vectors = all(np.array_equal(a.vectors[name], b.vectors[name]) for name in a.vectors)
    return (a.total, a.work, a.vectors.keys()) == (b.total, b.work, b.vectors.keys()) and vectors


@pytest.mark.parametrize("per", GRANULARITIES)
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_any_number_of_threads_gives_one_answer(
    per: Granularity, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    for seed in range(6):
        graph = skewed_graph(seed, 200, 170, 2500)
        alone = count(ButterflyCpu(threads=1), graph, per)
        assert alone.total > 0
        assert same(count(ButterflyCpu(threads=threads), graph, per), alone)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_one_engine_serves_several_threads_at_once(per: Granularity) -> None:
    graph = planted_graph(3, 400, 380, blocks=5, block_side=40, noise_edges=9000, missing=0.1)
    engine = ButterflyCpu(threads=2)
    prepared = engine.prepare(graph, Butterfly(), per)
    alone = engine.run(prepared, 0, prepared.n_items)
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(engine.run, prepared, 0, prepared.n_items) for _ in range(12)]
        assert all(same(run.result(), alone) for run in runs)


def test_threads_default_to_the_processors_of_the_process() -> None:
    assert ButterflyCpu().threads == chunks.available_threads() >= 1
    with pytest.raises(InputError, match="threads is 0"):
        ButterflyCpu(threads=0)


def test_chunks_tile_the_items_with_even_costs() -> None:
    random = np.random.default_rng(1)
    for size in (1, 2, 5, 1000):
        costs = np.sort(random.integers(0, 10**6, size))[::-1].astype(np.int64) + chunks.SERIAL_COST
        cuts = chunks.cut_by_cost(costs, threads=4)
        assert cuts[0][0] == 0
        assert cuts[-1][1] == size
        assert all(a[1] == b[0] for a, b in pairwise(cuts))
        assert all(start < stop for start, stop in cuts)
        share = int(costs.sum()) / (4 * chunks.CHUNKS_PER_THREAD)
        assert all(costs[start : stop - 1].sum() <= share for start, stop in cuts)
    for threads in (2, 16, 64):
        costs = np.full(10_000, 1000, np.int64)  # ten times what is worth a second thread
        least = chunks.SERIAL_COST * threads // chunks.THREADS_PER_SERIAL_COST
        found = len(chunks.cut_by_cost(costs, threads))
        assert threads <= found <= max(threads, costs.sum() // least)
        assert len(chunks.cut_by_cost(costs, threads, n_slices=9)) >= 9 * threads, "a slice has a chunk for each thread"
    assert chunks.cut_by_cost(np.zeros(0, np.int64), threads=4) == []
    assert chunks.cut_by_cost(np.zeros(3, np.int64), threads=4) == [(0, 3)]


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_run_before_a_cut_are_the_first_chunks(threads: int) -> None:
    seen: list[int] = []
    runner = chunks.ChunkRunner(lambda: None, threads)
    done = runner.run(
        [(i, i + 1) for i in range(100)], lambda _, start, __: seen.append(start), lambda: len(seen) >= 10
    )
    assert 10 <= done <= 10 + threads
    assert sorted(seen) == list(range(done))
    assert len(runner.states) <= threads


def test_an_error_in_one_thread_stops_the_others() -> None:
    """The first thread waits in chunk 0 until the other has failed: nearly all chunks are never begun."""
    seen: list[int] = []
    failing = threading.Event()

    def fail_in_chunk_1(_: None, start: int, stop: int) -> None:
        seen.append(start)
        if start == 0:
            failing.wait(timeout=600)
        elif start == 1:
            failing.set()
            raise MemoryError("chunk 1")

    with pytest.raises(MemoryError, match="chunk 1"):
        chunks.ChunkRunner(lambda: None, threads=2).run([(i, i + 1) for i in range(1_000_000)], fail_in_chunk_1)
    assert len(seen) < 1_000_000


def test_sums_carry_beyond_64_bits() -> None:
    sums = np.zeros(2, np.uint64)
    amounts = [2**63 - 1] * 9 + [1, 2**62, 12345, 2**63 - 1]
    for amount in amounts:
        kernels.add_to_sums(sums, np.uint64(amount))
    assert kernels.join_sums(sums) == sum(amounts) > 2**66


BIAS = 2**32 - 100
"""Put into every counter beforehand, so that a few wedges reach sums that need far more than 32 bits."""


def biased_tables(index: WedgeIndex) -> kernels.Tables:
    """Return tables whose 32-bit counters start near their end instead of at zero."""
    tables = kernels.make_tables(index.n_counters, 2**20)
    assert tables.wide.dtype == np.uint32
    return tables._replace(narrow=np.full_like(tables.wide, BIAS))


def test_accumulators_are_wider_than_the_counters() -> None:
    """K(3, 40): its item 0 is the last U vertex, whose two other ends share 40 neighbours with it."""
    n, ends = 40, 2
    graph = complete_graph(3, n)
    index = index_wedges(graph, with_edge_ids=True)
    rows, items, edge_ids = index.rows, index.items, index.edge_ids
    assert (items.tolist(), index.costs.tolist()) == ([2, 1], [ends * n, n])
    total = ends * sum(BIAS + old for old in range(n))
    last, per_edge = BIAS + n, ends * (BIAS + n - 1)

    tables = biased_tables(index)
    kernels.count_total(rows, items, 0, 1, tables)
    assert kernels.join_sums(tables.sums) == total

    tables, counts = biased_tables(index), np.zeros(3 + n, np.uint64)
    kernels.count_vertices(rows, items, 0, 1, tables, counts)
    assert kernels.join_sums(tables.sums) == total
    assert counts.tolist() == [comb(last, 2), comb(last, 2), total] + [per_edge] * n

    tables, support = biased_tables(index), np.zeros(graph.n_edges, np.uint64)
    kernels.count_start_edges(rows, edge_ids, items, 0, 1, tables, support)
    assert support.tolist() == [0] * (2 * n) + [per_edge] * n

    starts = kernels.KeptStarts(graph.n_edges, *np.zeros((2, graph.n_edges), np.uint32))
    kernels.keep_members(rows, np.ones(3, np.bool_), 3, 3 + n, starts)
    tables, support = biased_tables(index), np.zeros(graph.n_edges, np.uint64)
    kernels.count_hub_edges(rows, index.split, edge_ids, starts, 0, 1, tables, support)
    assert support.tolist() == [per_edge] * n + [0] * (2 * n)


def test_wedges_are_indexed_for_every_row() -> None:
    graph = graph_of({(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 2)}, 3, 3)
    index = index_wedges(graph, with_edge_ids=True)
    assert index.order_u.tolist() == [0, 1, 2]
    assert index.order_v.tolist() == [0, 1, 2]
    assert index.edge_ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 3, 5, 1, 4, 2, 6]
    assert index.max_degree == 3
    assert index.split.tolist() == [0, 1, 1, 1, 2, 2]
    assert index.prefix.tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1]


def test_order_falling_is_a_stable_sort() -> None:
    random = np.random.default_rng(2)
    for largest in (0, 1, 5, 3000, 2**40, 2**62):
        keys = random.integers(0, largest + 1, 5000)
        wanted = sorted(range(keys.size), key=(-keys).tolist().__getitem__)
        assert order_falling(keys).tolist() == wanted
    assert order_falling(np.zeros(0, np.int64)).tolist() == []


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert jit.compiled(lambda x: x + 1)(41) == 42
