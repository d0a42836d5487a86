"""Rows on disk against the index in memory: order, rows, edge ids, splits and work, for every way of making them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.errors import CapacityError, StoreError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.rows.index import index_wedges
from papilio.partitioning import disk_rows
from papilio.partitioning.disk_rows import (
    SCAN_BYTES,
    SORT_BYTES,
    VERTEX_BYTES,
    DiskRows,
    SortPlan,
    plan_sort,
    write_disk_rows,
)
from papilio.partitioning.rows import core_masks, degrees
from papilio.storage import edge_files as edges
from papilio.storage.store import GraphStore, open_store, write_store
from tests.tools.tampering import reseal

BATCH = 256
"""Edges of a row group in these tests."""


def skewed(n_edges: int, n_u: int, n_v: int, seed: int = 0) -> BipartiteGraph:
    """Return a graph with hubs, ties and isolated vertices in both layers."""
    rng = np.random.default_rng(seed)
    u = (rng.random(n_edges) ** 4 * n_u * 0.95).astype(np.int64)
    v = (rng.random(n_edges) ** 2 * n_v * 0.95).astype(np.int64)
    shuffle_u, shuffle_v = rng.permutation(n_u), rng.permutation(n_v)
    return BipartiteGraph.from_edges(shuffle_u[u], shuffle_v[v], n_u, n_v)


GRAPHS = {
    "skewed": skewed(6000, 900, 300),
    "wide": skewed(3000, 50, 3000, seed=3),
    "ties": BipartiteGraph.from_edges(np.repeat(np.arange(40), 40), np.tile(np.arange(40), 40), 41, 43),
    "one hub": BipartiteGraph.from_edges(np.zeros(500, int), np.arange(500), 3, 500),
    "one edge": BipartiteGraph.from_edges([2], [1], 4, 4),
    "no edges": BipartiteGraph.from_edges([], [], 3, 2),
    "no vertices": BipartiteGraph.from_edges([], [], 0, 0),
}


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "ROW_GROUP_EDGES", BATCH)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory in which nothing may be left."""
    path = tmp_path / "scratch"
    path.mkdir()
    yield path
    assert os.listdir(path) == []


def store_of(path: Path, graph: BipartiteGraph) -> GraphStore:
    return write_store(path / "graph", graph, provenance={})


def least_bytes(graph: BipartiteGraph, with_edges: bool = False) -> int:
    """Return the least memory that is accepted for a graph."""
    longest = max(int(graph.degree_u.max(initial=0)), int(graph.degree_v.max(initial=0)))
    batch = min(BATCH, graph.n_edges)
    beside = max(SCAN_BYTES[with_edges] * batch, SORT_BYTES[with_edges] * longest)
    return VERTEX_BYTES * (graph.n_u + graph.n_v) + beside


def assert_rows(rows: DiskRows, graph: BipartiteGraph, edge_ids: NDArray[np.int64] | None = None) -> None:
    """Compare with the index of ``graph``, whose edges have these ids in the store."""
    index = index_wedges(graph, with_edge_ids=True)
    sums = np.concatenate(([0], np.cumsum(index.prefix, dtype=np.int64)))
    work = sums[index.offsets[1:]] - sums[index.offsets[:-1]]
    assert rows.n_edges == graph.n_edges
    n_kept = int((graph.degree_u > 0).sum()), int((graph.degree_v > 0).sum())
    assert (rows.u.n_rows, rows.v.n_rows) == n_kept
    for layer, first, order in (("u", 0, index.order_u), ("v", graph.n_u, index.order_v)):
        own = rows.u if layer == "u" else rows.v
        size = own.n_rows
        places = slice(index.offsets[first], index.offsets[first + size])
        np.testing.assert_array_equal(own.indptr, index.offsets[first : first + size + 1] - index.offsets[first])
        np.testing.assert_array_equal(own.order, order[:size])
        np.testing.assert_array_equal(own.split, index.split[first : first + size])
        np.testing.assert_array_equal(own.work, work[first : first + size])
        ids = own.read(0, size)
        assert ids.dtype == np.int32
        np.testing.assert_array_equal(ids, index.ids[places])
        if edge_ids is not None:
            ids = own.read_edges(0, size)
            np.testing.assert_array_equal(ids, edge_ids[index.edge_ids[places].astype(np.int64)])


@pytest.mark.parametrize("with_edges", [False, True])
@pytest.mark.parametrize("extra", [0, 20_000, 10**9])
@pytest.mark.parametrize("name", GRAPHS)
def test_rows_are_those_of_the_index(tmp_path: Path, scratch: Path, name: str, extra: int, with_edges: bool) -> None:
    graph = GRAPHS[name]
    store = store_of(tmp_path, graph)
    with write_disk_rows(store, scratch, least_bytes(graph, with_edges) + extra, 3, with_edges=with_edges) as rows:
        assert_rows(rows, graph, np.arange(graph.n_edges) if with_edges else None)


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("entries", [1, 7, 300, 10**6])
def test_any_size_of_buckets(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, entries: int, in_memory: bool
) -> None:
    plan = SortPlan(3, 3, entries, in_memory)
    monkeypatch.setattr("papilio.partitioning.disk_rows.plan_sort", lambda *_: plan)
    graph = GRAPHS["skewed"]
    with write_disk_rows(store_of(tmp_path, graph), scratch, 10**9, 3, with_edges=True) as rows:
        assert_rows(rows, graph, np.arange(graph.n_edges))


def test_long_rows_are_sorted_like_short_ones(tmp_path: Path, scratch: Path) -> None:
    graph = skewed(40_000, 12, 70_000, seed=5)
    with write_disk_rows(store_of(tmp_path, graph), scratch, 10**9, 2, with_edges=True) as rows:
        assert int(np.diff(rows.u.indptr).max()) > 2**13
        assert_rows(rows, graph, np.arange(graph.n_edges))


def test_ranges_of_rows(tmp_path: Path, scratch: Path) -> None:
    graph = GRAPHS["skewed"]
    with write_disk_rows(store_of(tmp_path, graph), scratch, 10**9, 2, with_edges=True) as rows:
        whole, edge_ids = rows.v.read(0, rows.v.n_rows), rows.v.read_edges(0, rows.v.n_rows)
        for first, last in ((0, 1), (5, 5), (17, 90), (rows.v.n_rows - 1, rows.v.n_rows)):
            part = slice(rows.v.indptr[first], rows.v.indptr[last])
            np.testing.assert_array_equal(rows.v.read(first, last), whole[part])
            np.testing.assert_array_equal(rows.v.read_edges(first, last), edge_ids[part])


@pytest.mark.parametrize("extra", [0, 10**9])
def test_only_kept_vertices(tmp_path: Path, scratch: Path, extra: int) -> None:
    graph = GRAPHS["skewed"]
    rng = np.random.default_rng(1)
    keep_u, keep_v = rng.random(graph.n_u) < 0.6, rng.random(graph.n_v) < 0.7
    kept = np.flatnonzero(keep_u[graph.u] & keep_v[graph.v])
    part = BipartiteGraph(graph.n_u, graph.n_v, graph.u[kept], graph.v[kept])
    store = store_of(tmp_path, graph)
    with write_disk_rows(
        store, scratch, least_bytes(graph, True) + extra, 2, with_edges=True, keep_u=keep_u, keep_v=keep_v
    ) as rows:
        assert_rows(rows, part, kept)


def test_spill_or_memory() -> None:
    assert plan_sort(10**9, 2**20, 4 * 10**9, 16, False).in_memory is False
    assert plan_sort(10**9, 2**20, 10**10, 16, False).in_memory is True
    for free in (10**8, 10**9, 10**11):
        for with_edges in (False, True):
            for n_edges in (10**6, 10**9, 10**11):
                plan = plan_sort(n_edges, 2**20, free, 16, with_edges)
                held = n_edges * (16 if with_edges else 8) if plan.in_memory else 0
                assert held + plan.scan_threads * 2**20 * SCAN_BYTES[with_edges] <= free
                sort = SORT_BYTES[with_edges] - ((16 if with_edges else 8) if plan.in_memory else 0)
                assert held + plan.sort_threads * plan.bucket_entries * sort <= free


def test_too_little_memory_is_said_before_anything_is_written(tmp_path: Path, scratch: Path) -> None:
    graph = GRAPHS["one hub"]
    store = store_of(tmp_path, graph)
    with pytest.raises(CapacityError, match=r"503 vertices need 14084 bytes .* a row group of 256 edges 12288"):
        write_disk_rows(store, scratch, 26_000, 2)
    wide = skewed(20_000, 3, 9000)
    shutil.rmtree(tmp_path / "graph")
    store = store_of(tmp_path, wide)
    longest = int(wide.degree_u.max())
    with pytest.raises(CapacityError, match=rf"sorting the {longest} neighbours of its largest vertex needs"):
        write_disk_rows(store, scratch, least_bytes(wide) - 1, 2)


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_rows_of_a_unipartite_graph_are_later_and_earlier_neighbours(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool, keeps: bool
) -> None:
    plan = SortPlan(2, 2, 200, in_memory)
    monkeypatch.setattr(disk_rows, "plan_sort", lambda *given: plan)
    both = skewed(4000, 500, 500)
    graph = UnipartiteGraph.from_edges(both.u, both.v, 520)
    store = write_store(tmp_path / "graph", graph, provenance={})
    keep = core_masks(store, 4, 4)[0] if keeps else np.ones(520, bool)
    near: dict[int, dict[int, int]] = {vertex: {} for vertex in np.flatnonzero(keep).tolist()}
    for edge, (a, b) in enumerate(zip(graph.u.tolist(), graph.v.tolist(), strict=True)):
        if keep[a] and keep[b]:
            near[a][b] = near[b][a] = edge
    order = sorted(near, key=lambda vertex: (len(near[vertex]), vertex))
    rank = {vertex: at for at, vertex in enumerate(order)}
    masks = {"keep_u": keep, "keep_v": keep} if keeps else {}
    with write_disk_rows(store, scratch, 10**9, 2, with_edges=True, **masks) as rows:
        assert rows.u.order.tolist() == rows.v.order.tolist() == order
        for layer, side in ((rows.u, 1), (rows.v, -1)):
            wanted = [
                sorted((rank[b], edge) for b, edge in near[a].items() if (rank[b] - rank[a]) * side > 0) for a in order
            ]
            found = layer.read(0, layer.n_rows).tolist(), layer.read_edges(0, layer.n_rows).tolist()
            assert list(zip(*found, strict=True)) == [each for row in wanted for each in row]
            assert np.diff(layer.indptr).tolist() == [len(row) for row in wanted]
    assert not keeps or (0 < len(order) < 500 and min(map(len, near.values())) >= 4)


@pytest.mark.parametrize("in_memory", [False, True])
def test_nothing_is_left_on_failure(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    def fail(*args: object) -> None:
        if in_memory:
            assert sorted(os.listdir(next(scratch.iterdir()))) == ["ids-u", "ids-v"]
        else:
            assert "words-v" in os.listdir(next(scratch.iterdir()))
        raise MemoryError("no more")

    monkeypatch.setattr(disk_rows, "sort_rows", fail)
    monkeypatch.setattr("papilio.partitioning.disk_rows.plan_sort", lambda *_: SortPlan(2, 2, 300, in_memory))
    store = store_of(tmp_path, GRAPHS["skewed"])
    with pytest.raises(MemoryError, match="no more"):
        write_disk_rows(store, scratch, 10**9, 2)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_store_that_changes_while_it_is_read(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    store = store_of(tmp_path, GRAPHS["skewed"])
    wrong = degrees(store)
    for degree in wrong:
        degree[np.argmax(degree)] += change
    monkeypatch.setattr("papilio.partitioning.disk_rows.degrees", lambda *_, **__: wrong)
    with pytest.raises(StoreError, match="changed during reading"):
        write_disk_rows(store, scratch, 10**9, 2)


def test_a_store_that_is_replaced_by_one_of_the_same_degrees(tmp_path: Path, scratch: Path) -> None:
    """Numbers of edges do not tell: the rows would be those of one graph under the name of another."""
    square, swapped = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)], [(0, 0), (0, 2), (1, 0), (1, 1), (2, 1)]
    graphs = [BipartiteGraph.from_edges(*zip(*pairs, strict=True), 3, 3) for pairs in (square, swapped)]
    store = write_store(tmp_path / "graph", graphs[0], provenance={})
    write_store(tmp_path / "graph", graphs[1], provenance={}, overwrite=True)
    with pytest.raises(StoreError, match=f"contained the graph {store.hash} and was replaced by"):
        write_disk_rows(store, scratch, 10**9, 1)


def test_progress(tmp_path: Path, scratch: Path) -> None:
    graph, seen = GRAPHS["skewed"], []
    store = store_of(tmp_path, graph)
    with write_disk_rows(store, scratch, 10**9, 2, progress=lambda *step: seen.append(step)):
        pass
    phases = list(dict.fromkeys(phase for phase, _, _ in seen))
    assert phases == ["degrees", "rows of v", "sorting v", "rows of u", "sorting u"]
    for phase in phases:
        assert max(done for name, done, _ in seen if name == phase) == graph.n_edges


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_degrees(tmp_path: Path, name: str, threads: int) -> None:
    graph = GRAPHS[name]
    store = store_of(tmp_path, graph)
    degree_u, degree_v = degrees(store, threads=threads)
    np.testing.assert_array_equal(degree_u, graph.degree_u)
    np.testing.assert_array_equal(degree_v, graph.degree_v)
    keep_u, keep_v = np.arange(graph.n_u) % 3 > 0, np.arange(graph.n_v) % 4 > 0
    degree_u, degree_v = degrees(store, keep_u=keep_u, keep_v=keep_v, threads=threads)
    kept = keep_u[graph.u] & keep_v[graph.v]
    np.testing.assert_array_equal(degree_u, np.bincount(graph.u[kept], minlength=graph.n_u))
    np.testing.assert_array_equal(degree_v, np.bincount(graph.v[kept], minlength=graph.n_v))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("least_u", "least_v"), [(1, 1), (2, 3), (6, 4), (60, 60)])
def test_cores(tmp_path: Path, seed: int, least_u: int, least_v: int) -> None:
    graph = skewed(3000, 800, 500, seed=seed)
    keep_u, keep_v = core_masks(store_of(tmp_path, graph), least_u, least_v, threads=2)
    alive = np.ones(graph.n_edges, bool)
    while True:
        enough_u = np.bincount(graph.u[alive], minlength=graph.n_u) >= least_u
        enough_v = np.bincount(graph.v[alive], minlength=graph.n_v) >= least_v
        left = alive & enough_u[graph.u] & enough_v[graph.v]
        if (left == alive).all():
            break
        alive = left
    np.testing.assert_array_equal(keep_u, enough_u)
    np.testing.assert_array_equal(keep_v, enough_v)


def test_a_store_out_of_order(tmp_path: Path, scratch: Path) -> None:
    graph = GRAPHS["skewed"]
    u, v = graph.u.copy(), graph.v.copy()
    u[300:302], v[300:302] = u[[301, 300]], v[[301, 300]]
    store = rewrite(store_of(tmp_path, graph), u, v)
    with pytest.raises(
        StoreError, match=r"part-00000.parquet, row group 1: edge .* comes after .*convert the graph again"
    ):
        write_disk_rows(store, scratch, 10**9, 2)
    u, v = graph.u.copy(), graph.v.copy()
    u[7] = graph.n_u
    with pytest.raises(StoreError, match=rf"row group 0: u holds ids 1 to {graph.n_u}; expected 0 to {graph.n_u - 1}"):
        degrees(rewrite(store, u, v))
    swap = np.r_[BATCH : 2 * BATCH, :BATCH, 2 * BATCH : graph.n_edges]
    with pytest.raises(StoreError, match=r"row group 1: edge .* comes after"):
        degrees(rewrite(store, graph.u[swap], graph.v[swap]))


def rewrite(store: GraphStore, u: NDArray[np.int32], v: NDArray[np.int32]) -> GraphStore:
    """Put other edges, unchecked, into the only edge file of a store."""
    root = Path(store.path)
    shutil.rmtree(root / "edges")
    writer = edges.EdgeFilesWriter(root, signed=False)
    writer.append([u, v])
    writer.close()
    reseal(root / "graph.json", edge_files=[asdict(entry) for entry in writer.files])
    return open_store(store.path)
