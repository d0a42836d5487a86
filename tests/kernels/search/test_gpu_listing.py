"""Listings from the GPU, of all families, against those of the CPU and the definition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from papilio.errors import CapacityError, ExecutionError, InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, RowColumn, UnipartiteGraph
from papilio.kernels import listing as row_blocks
from papilio.kernels.clique import list_gpu
from papilio.kernels.device.constants import LONG_ROW
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial
from papilio.kernels.search import gpu_listing as module
from papilio.kernels.search.gpu_listing import RaggedOnDevice, TreeLister
from papilio.kernels.threads import Outlet
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Biclique, Clique, Listing, MaximalBiclique, MaximalClique, Motif
from papilio.registry import MOTIF_ROWS, motif_row
from tests.conftest import EMULATOR_SEED
from tests.kernels.clique.test_clique import edges_of, graphs, laws, make, random_graph
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_clique import maximal_cliques
from tests.tools.strategies import planted_graph, skewed_graph

EAGER = replace(TreeTuning(), threads=64, slots=8, slot_words=1 << 10, check_steps=1, share_cost=1)
"""Sub-trees are left to others wherever that is possible."""

BIPARTITE = planted_graph(5, 22, 100, 2, 9, 250, 0.1)
QUESTIONS: dict[str, tuple[Any, Motif]] = {
    "maximal cliques": (random_graph(3, 40, 0.4), MaximalClique()),
    "large maximal cliques": (random_graph(5, 45, 0.5), MaximalClique(7)),
    "sparse maximal cliques": (random_graph(8, 90, 0.04), MaximalClique()),
    "edges": (random_graph(3, 40, 0.4), Clique(2)),
    "4-cliques": (random_graph(5, 60, 0.3), Clique(4)),
    "cliques in a clique": (make(14, [(a, b) for a in range(14) for b in range(a)]), Clique(6)),
    "maximal bicliques": (BIPARTITE, MaximalBiclique()),
    "wide maximal bicliques": (planted_graph(7, 14, 180, 2, 12, 1700, 0.0), MaximalBiclique(2, 40)),
    "maximal bicliques of hubs": (skewed_graph(5, 40, 30, 300), MaximalBiclique(min_u=2)),
    "stars alone": (BipartiteGraph.from_edges([0, 0, 1, 2], [0, 1, 2, 3]), MaximalBiclique()),
    "nothing": (make(5, []), Clique(3)),
}

Row = tuple[tuple[int, ...], ...]


def list_rows(lister: Any, graph: Any, motif: Motif, *spans: tuple[int, int]) -> tuple[list[Row], list[Partial]]:
    """Return the rows, as ids by column, and the partials of some intervals, or of all items."""
    prepared = lister.prepare(graph, motif, "total")
    ids = [getattr(prepared, f"ids_{layer}") for layer in motif_row(motif).columns(motif)]
    rows: list[Row] = []
    lock = threading.Lock()

    def sink(*columns: RowColumn, part: int = 0) -> None:
        cut = [np.split(column[1], column[0][1:-1]) if isinstance(column, tuple) else column for column in columns]
        with lock:
            rows.extend(
                tuple(tuple(of[side].tolist()) for of, side in zip(ids, sides, strict=True))
                for sides in zip(*cut, strict=True)
            )

    partials = [lister.run(prepared, *span, sink=sink) for span in spans or ((0, prepared.n_items),)]
    return rows, partials


def on_gpu(device: Device, motif: Motif, listing: Listing | None = None, **options: Any) -> TreeLister:
    """Return the lister of a motif on a device."""
    listed = motif_row(motif).listed
    assert listed is not None
    made: TreeLister = listed.engines["gpu"]()(device, listing or Listing(), **options)
    return made


def on_cpu(motif: Motif, listing: Listing | None = None) -> Any:
    """Return the lister of a motif on one thread."""
    listed = motif_row(motif).listed
    assert listed is not None
    return listed.engines["cpu"]()(1, listing or Listing())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers of which the emulator need not keep a gigabyte."""
    monkeypatch.setattr(TreeLister, "max_words", 1 << 18)


@pytest.fixture
def device() -> Device:
    """The emulator: on a GPU one test of each kernel is enough."""
    return emulator(EMULATOR_SEED)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers of a few records, and chunks of a few rows."""
    monkeypatch.setattr(TreeLister, "max_words", 512)
    monkeypatch.setattr(TreeLister, "chunk_values", 200)


def test_every_lister_of_the_gpu_is_asked() -> None:
    found = {
        name
        for name, row in MOTIF_ROWS.items()
        if row.listed is not None
        and "gpu" in row.listed.engines
        and issubclass(row.listed.engines["gpu"](), TreeLister)
    }
    assert found == {motif.name for _, motif in QUESTIONS.values()}


@pytest.mark.parametrize("name", QUESTIONS)
def test_rows_are_those_of_the_cpu(device: Device, name: str) -> None:
    graph, motif = QUESTIONS[name]
    expected, (wanted,) = list_rows(on_cpu(motif), graph, motif)
    for options in ({}, {"tuning": EAGER}):
        rows, (got,) = list_rows(on_gpu(device, motif, **options), graph, motif)
        assert sorted(rows) == sorted(expected)
        assert len(set(rows)) == len(rows)
        assert replace(got, work=0) == replace(wanted, work=0)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["maximal cliques", "4-cliques", "cliques in a clique", "maximal bicliques"])
def test_small_buffers_and_any_split_list_the_same(device: Device, name: str) -> None:
    graph, motif = QUESTIONS[name]
    expected, (wanted,) = list_rows(on_cpu(motif), graph, motif)
    n, some = wanted.n_items, min(3, wanted.n_items)
    rows, parts = list_rows(on_gpu(device, motif), graph, motif, (some, n), (0, 0), (0, some))
    assert sorted(rows) == sorted(expected)
    assert [part.n_items for part in parts] == [n - some, 0, some]
    assert sum(part.checksum for part in parts) % (1 << 64) == wanted.checksum


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["maximal cliques", "4-cliques", "wide maximal bicliques", "maximal bicliques"])
def test_a_gpu_lists_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, (graph, motif) = cuda_device(), QUESTIONS[name]
    expected, (wanted,) = list_rows(on_cpu(motif), graph, motif)
    for max_words, chunk_values in ((1 << 18, 1 << 16), (1 << 10, 1 << 8)):
        monkeypatch.setattr(TreeLister, "max_words", max_words)
        monkeypatch.setattr(TreeLister, "chunk_values", chunk_values)
        rows, (got,) = list_rows(on_gpu(gpu, motif), graph, motif)
        assert sorted(rows) == sorted(expected)
        assert replace(got, work=0) == replace(wanted, work=0)
        again, _ = list_rows(on_gpu(gpu, motif), graph, motif)
        assert sorted(again) == sorted(rows)
        some, (part,) = list_rows(on_gpu(gpu, motif, Listing(7)), graph, motif)
        assert len(set(some)) == 7
        assert part.capped
        assert set(some) <= set(expected)


def test_maximal_cliques_follow_the_definition(device: Device) -> None:
    @laws(8)
    @given(graphs())
    def run(graph: UnipartiteGraph) -> None:
        expected = sorted((tuple(sorted(clique)),) for clique in maximal_cliques(graph.n, edges_of(graph)))
        rows, _ = list_rows(on_gpu(device, MaximalClique(), tuning=EAGER), graph, MaximalClique())
        assert sorted(rows) == expected

    run()


@pytest.mark.parametrize("name", ["maximal cliques", "4-cliques", "maximal bicliques"])
def test_blocks_are_the_same_in_every_order_of_threads(name: str) -> None:
    graph, motif = QUESTIONS[name]
    found = []
    for seed in range(2):
        lister = on_gpu(emulator(seed), motif, tuning=EAGER)
        prepared = lister.prepare(graph, motif, "total")
        parts: dict[int, list[bytes]] = {}

        def sink(*columns: Any, part: int, parts: dict[int, list[bytes]] = parts) -> None:
            flat = [each for column in columns for each in (column if isinstance(column, tuple) else (column,))]
            parts.setdefault(part, []).extend(each.tobytes() for each in flat)

        lister.run(prepared, 0, prepared.n_items, sink=sink)
        found.append(parts)
    assert found[0] == found[1] != {}


@pytest.mark.parametrize("name", ["maximal cliques", "cliques in a clique", "maximal bicliques"])
@pytest.mark.parametrize("max_words", [512, 1 << 18])
def test_a_limit_gives_as_many_rows(device: Device, name: str, max_words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeLister, "max_words", max_words)
    graph, motif = QUESTIONS[name]
    expected, _ = list_rows(on_cpu(motif), graph, motif)
    for limit in (7, 150):
        rows, (part,) = list_rows(on_gpu(device, motif, Listing(limit)), graph, motif)
        assert len(set(rows)) == len(rows) == part.total == limit < len(expected)
        assert set(rows) <= set(expected)
        assert part.capped
    rows, (part,) = list_rows(on_gpu(device, motif, Listing(len(expected) + 1)), graph, motif)
    assert (len(rows), part.capped) == (len(expected), False)


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("maximal cliques", {"with_u": (3,)}),
        ("maximal cliques", {"with_u": (3, 5)}),
        ("4-cliques", {"with_u": (7, 11)}),
        ("4-cliques", {"with_u": (1, 2, 3, 4)}),
        ("maximal bicliques", {"with_u": (2, 4)}),
        ("maximal bicliques", {"with_u": (1,), "with_v": (3,)}),
    ],
)
def test_rows_hold_what_they_must(device: Device, name: str, held: dict[str, tuple[int, ...]]) -> None:
    graph, motif = QUESTIONS[name]
    every, _ = list_rows(on_cpu(motif), graph, motif)
    sides = [held.get("with_u", ()), held.get("with_v", ())]
    expected = [row for row in every if all(set(ids) <= set(side) for ids, side in zip(sides, row, strict=False))]
    rows, (got,) = list_rows(on_gpu(device, motif, Listing(**held)), graph, motif)
    _, (wanted,) = list_rows(on_cpu(motif, Listing(**held)), graph, motif)
    assert sorted(rows) == sorted(expected)
    assert (got.total, got.checksum) == (wanted.total, wanted.checksum)


def test_rows_longer_than_a_warp_sorts(device: Device) -> None:
    random, lengths = np.random.default_rng(3), [40, LONG_ROW + 1, 7]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    rows = [random.permutation(LONG_ROW + 9)[:length].astype(np.int32) for length in lengths]
    hashes = random.integers(0, 1 << 64, LONG_ROW + 9, np.uint64)
    row_hashes = device.xp.zeros(len(rows), dtype=np.uint64)
    column = RaggedOnDevice(device.to_device(ends), ends, device.to_device(np.concatenate(rows)), max(lengths))
    _, made = module._sort_rows(device, column, device.to_device(hashes), row_hashes, None)
    assert [row.tolist() for row in np.split(made, ends[1:-1])] == [sorted(row.tolist()) for row in rows]
    assert device.to_host(row_hashes).tolist() == [int(hashes[row].sum()) for row in rows]


@pytest.mark.parametrize("name", ["maximal cliques", "4-cliques", "maximal bicliques"])
def test_no_row_is_longer_than_its_column_says(device: Device, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sort, longest = module._sort_rows, []

    def check(device: Device, column: RaggedOnDevice, *rest: Any) -> RowColumn:
        longest.append((column.longest, int(np.diff(column.host_offsets).max())))
        return sort(device, column, *rest)

    monkeypatch.setattr(module, "_sort_rows", check)
    list_rows(on_gpu(device, QUESTIONS[name][1]), *QUESTIONS[name])
    assert longest
    assert all(told == found for told, found in longest)


@pytest.mark.usefixtures("tiny")
def test_a_cut_leaves_the_rest(device: Device) -> None:
    graph, motif = QUESTIONS["maximal cliques"]
    lister = on_gpu(device, motif)
    prepared = lister.prepare(graph, motif, "total")
    part = lister.run(prepared, 0, prepared.n_items, (5, 9, 20), lambda: True)
    rest = lister.run(prepared, part.n_items, prepared.n_items)
    assert 0 < part.n_items < prepared.n_items
    assert part.total + rest.total == len(list_rows(on_cpu(motif), graph, motif)[0])


@pytest.mark.usefixtures("tiny")
def test_what_the_sink_raises_ends_the_run() -> None:
    graph, motif = QUESTIONS["maximal cliques"]
    lister = on_gpu(emulator(0), motif)
    prepared = lister.prepare(graph, motif, "total")

    def refuse(*columns: RowColumn, part: int) -> None:
        raise StoreError("no room")

    with pytest.raises(StoreError, match="no room"):
        lister.run(prepared, 0, prepared.n_items, sink=refuse)
    assert lister.run(prepared, 0, prepared.n_items).total > 0


def test_what_cannot_be_listed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device, graph = emulator(0), QUESTIONS["cliques in a clique"][0]
    with pytest.raises(UnsupportedError, match="to list them"):
        on_gpu(device, Clique(3), algorithm="pivot")
    for motif in (Clique(3), MaximalClique()):
        with pytest.raises(UnsupportedError, match="unipartite"):
            on_gpu(device, motif).prepare(BIPARTITE, motif, "total")
    with pytest.raises(UnsupportedError, match="cannot count"):
        on_gpu(device, MaximalBiclique()).prepare(BIPARTITE, Biclique(2, 2), "total")
    lister = on_gpu(device, Clique(6))
    prepared = lister.prepare(graph, Clique(6), "total")
    with pytest.raises(InputError, match="not within"):
        lister.run(prepared, 0, prepared.n_items + 1)
    monkeypatch.setattr(list_gpu, "_MOST_WAYS", 100)
    prepared = lister.prepare(graph, Clique(6), "total")
    with pytest.raises(CapacityError, match="more than 100 cliques of 6 vertices"):
        lister.run(prepared, 0, prepared.n_items)
    rows, _ = list_rows(on_gpu(device, Clique(6), Listing(30)), graph, Clique(6))
    assert len(set(rows)) == 30


@pytest.mark.usefixtures("tiny")
def test_one_item_that_finds_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PARTS", 1)
    graph, motif = QUESTIONS["maximal cliques"]
    with pytest.raises(CapacityError, match="were found in one work item"):
        list_rows(on_gpu(emulator(0), motif), graph, motif)


def test_records_that_lost_a_row_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, motif = QUESTIONS["maximal bicliques"]
    lister = on_gpu(emulator(0), motif)
    leave: Callable[..., int] = lister.engine.leave_records  # type: ignore[attr-defined]

    def spoil(prepared: Any, group: Any, span: tuple[int, int], cut: Any, arguments: tuple[Any, ...]) -> int:
        end = leave(prepared, group, span, cut, arguments)
        ends, places, _, words, *_ = arguments
        words[int(places[int(ends[0]) // 2] >> np.uint64(24)) + 1] += 1
        return end

    monkeypatch.setattr(lister.engine, "leave_records", spoil)
    with pytest.raises(ExecutionError, match="bicliques differ from the search"):
        list_rows(lister, graph, motif)


def test_every_thread_writes_while_one_block_of_each_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    n_threads, n_blocks = 3, 30
    monkeypatch.setattr(row_blocks, "available_threads", lambda: n_threads)
    lock, all_write = threading.Lock(), threading.Barrier(n_threads, timeout=600)
    begun, ended, most, parts = 0, 0, 0, []

    def cut(columns: Any) -> Any:
        nonlocal begun, most
        for at in range(n_blocks):
            with lock:
                begun += 1
                most = max(most, begun - ended)
            yield [columns[0][at : at + 1]]

    def sink(column: Any, part: int) -> None:
        nonlocal ended
        all_write.wait()
        with lock:
            ended += 1
            parts.append((int(column[0, 0]), part))

    monkeypatch.setattr(row_blocks, "cut_blocks", cut)
    writers = row_blocks.RowWriters(Outlet(sink, None).take)
    writers.write([np.arange(n_blocks, dtype=np.int32)[:, None]])
    writers.close()
    assert sorted(parts) == [(block, block % n_threads) for block in range(n_blocks)]
    assert most <= 2 * n_threads + 1


def test_the_first_blocks_are_small_and_later_ones_whole_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "available_threads", lambda: 2)
    monkeypatch.setattr(row_blocks, "BLOCK_VALUES", 4)
    found: dict[int, list[int]] = {0: [], 1: []}
    chunk = np.arange(10, dtype=np.int32)[:, None]
    writers = row_blocks.RowWriters(Outlet(lambda rows, part: found[part].append(len(rows)), None).take)
    for _ in range(4):
        writers.write([chunk])
    writers.close()
    assert found == {0: [4, 2, 4, 10], 1: [4, 4, 2, 10]}
