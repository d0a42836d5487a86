"""The index of (p,q)-bicliques that is built on the device equals the one that the CPU builds, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError, InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique import gpu_pairs as biclique_pairs
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu_index import build_device_index
from papilio.kernels.biclique.index import build_biclique_index
from papilio.kernels.biclique.items import divide_index
from papilio.kernels.device.protocol import Device
from papilio.kernels.tuning import PairTuning, TableClass, pair_tuning
from papilio.motifs import Biclique
from tests.conftest import EMULATOR_SEED, share_of_examples
from tests.kernels.biclique.cases import ANCHORS, crown_graph, disjoint_union, nested_graph
from tests.kernels.biclique.indices import assert_equal
from tests.tools.devices import cuda_device, emulator
from tests.tools.strategies import bipartite_graphs, complete_graph, graph_of, planted_graph, skewed_graph

NEVER = 1 << 62
MAX = 2**31 - 1
"""The largest p and q that there can be."""

SLAB = TableClass("slab", 64, 0, NEVER)

SCHEDULES: dict[str, PairTuning] = {
    "hash, one warp": PairTuning(tables=(TableClass("hash", 32, 8 << 10, 640), SLAB)),
    "hash, four warps": PairTuning(tables=(TableClass("hash", 128, 8 << 10, 640), SLAB)),
    "dense, one warp": PairTuning(tables=(TableClass("dense", 32, 2048, NEVER), SLAB)),
    "dense, four warps": PairTuning(tables=(TableClass("dense", 128, 2048, NEVER), SLAB)),
    "slab": PairTuning(tables=(SLAB,)),
    "slab, one block": PairTuning(tables=(SLAB,), slabs_per_sm=1, slab_fraction=1e-7),
    "all": PairTuning(
        tables=(TableClass("hash", 32, 256, 20), TableClass("dense", 64, 64, NEVER), SLAB), blocks_per_sm=1
    ),
}

MOTIFS = (
    Biclique(3, 3),
    Biclique(2, 3),
    Biclique(4, 2),
    Biclique(3, None, max_q=6),
    Biclique(None, 2),
    Biclique(),
    Biclique(1, 4),
    Biclique(max_p=2),
)


@pytest.fixture(scope="module")
def graphs() -> dict[str, BipartiteGraph]:
    """Graphs with twins, hubs on either layer, blocks with noise, layers that peel away, and none of all that."""
    hub = {(0, v) for v in range(40)} | {(u, 0) for u in range(30)} | {(1, v) for v in range(0, 40, 2)}
    return {
        "skewed": skewed_graph(1, 50, 40, 350),
        "planted": planted_graph(2, 40, 60, 3, 7, 60, 0.1),
        "complete": complete_graph(7, 11),
        "crown": crown_graph(8),
        "nested": nested_graph(9),
        "hubs": graph_of(hub, 35, 40),
        "two parts": disjoint_union(complete_graph(4, 5), skewed_graph(3, 20, 30, 90)),
        "path": graph_of({(i, i) for i in range(30)} | {(i + 1, i) for i in range(30)}, 31, 30),
    }


@pytest.mark.parametrize("motif", MOTIFS, ids=str)
@pytest.mark.parametrize("anchor", ANCHORS)
def test_both_indices_are_equal(
    device: Device, graphs: dict[str, BipartiteGraph], motif: Biclique, anchor: str
) -> None:
    for graph in graphs.values():
        assert_equal(device, graph, motif, anchor)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_finds_the_same_pairs(device: Device, graphs: dict[str, BipartiteGraph], schedule: str) -> None:
    for name in ("skewed", "planted", "hubs"):
        for motif in (Biclique(3, 2), Biclique(2, 2)):
            for keep_pairs in (True, False):
                assert_equal(device, graphs[name], motif, "u", tuning=SCHEDULES[schedule], keep_pairs=keep_pairs)


def test_schedules_reach_their_kernels(device: Device, graphs: dict[str, BipartiteGraph]) -> None:
    """The roots of one graph divide among the schedules as the tuning says, so that the tests above test them."""
    from papilio.kernels.biclique import gpu_index as biclique_index

    seen: list[list[int]] = []
    found = biclique_pairs._Passes.__init__

    def record(self: biclique_pairs._Passes, *arguments: object) -> None:
        found(self, *arguments)  # type: ignore[arg-type]
        seen.append(np.diff([0, *self.bounds[1:]]).tolist())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(biclique_pairs._Passes, "__init__", record)
        for schedule in SCHEDULES.values():
            biclique_index.build_device_index(device, graphs["skewed"], Biclique(3, 2), "u", tuning=schedule)
    counts = dict(zip(SCHEDULES, seen, strict=True))
    assert all(counts["all"])
    for name in ("hash, one warp", "hash, four warps", "dense, one warp", "dense, four warps"):
        assert counts[name][0] > 0
        assert counts[name][1] == 0
    for name in ("slab", "slab, one block"):
        assert counts[name][0] > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_schedule_of_threads_gives_the_same(graphs: dict[str, BipartiteGraph], seed: int) -> None:
    device = emulator(seed)
    for name in ("planted", "path"):
        for keep_pairs in (True, False):
            assert_equal(device, graphs[name], Biclique(2, 2), tuning=SCHEDULES["all"], keep_pairs=keep_pairs)


@settings(deadline=None, max_examples=share_of_examples(25))
@given(bipartite_graphs(9), st.sampled_from(MOTIFS), st.sampled_from(ANCHORS), st.booleans())
def test_drawn_graphs(graph: BipartiteGraph, motif: Biclique, anchor: str, keep_pairs: bool) -> None:
    assert_equal(emulator(EMULATOR_SEED), graph, motif, anchor, keep_pairs=keep_pairs)


@pytest.mark.parametrize("size", [(40, 3), (3, 40), (MAX, 2), (2, MAX), (MAX, MAX)])
def test_sizes_beyond_any_degree_have_no_items(
    device: Device, graphs: dict[str, BipartiteGraph], size: tuple[int, int]
) -> None:
    for anchor in ANCHORS:
        got, _ = assert_equal(device, graphs["complete"], Biclique(*size), anchor)
        assert (got.n_items, got.n_left, got.n_right) == (0, 0, 0)


def test_graphs_without_edges(device: Device) -> None:
    none = np.zeros(0, np.int32)
    for graph in (BipartiteGraph(0, 0, none, none), BipartiteGraph(5, 3, none, none)):
        assert_equal(device, graph, Biclique(2, 2))
        assert_equal(device, graph, Biclique())


@pytest.mark.parametrize("name", ["nested", "skewed", "crown"])
def test_items_are_divided_alike_and_hold_every_child_once(device: Device, name: str) -> None:
    graph = {"nested": nested_graph(20), "skewed": skewed_graph(5, 60, 60, 900), "crown": crown_graph(15)}[name]
    of_cpu = build_biclique_index(graph, Biclique(5, 3), 1, "u")
    of_gpu = build_device_index(device, graph, Biclique(5, 3), "u")
    got, wanted = divide_index(of_gpu, 8192), divide_index(of_cpu, 8192)
    for field in ("item_root", "item_first", "item_last", "item_later", "costs"):
        assert np.array_equal(getattr(got, field), getattr(wanted, field)), field
    for field in ("item_root", "item_first", "item_last"):
        assert np.array_equal(device.to_host(got.arrays[field]), getattr(got, field))
    assert got.item_degree.size == got.item_common.size == got.n_items > of_gpu.n_items
    places = np.concatenate([np.arange(*ends) for ends in zip(wanted.item_first, wanted.item_last, strict=True)])
    assert np.array_equal(np.sort(places), np.arange(of_cpu.hop.size))
    assert np.array_equal(np.searchsorted(of_cpu.hop_indptr, wanted.item_first, side="right") - 1, wanted.item_root)
    assert np.array_equal(wanted.item_later, of_cpu.hop_indptr[wanted.item_root + 1] - wanted.item_first)
    assert (np.diff(wanted.costs) <= 0).all()
    assert wanted.costs[-1] >= 1
    engine = BicliqueCpu(1, anchor="u")
    whole, divided = (replace(engine.prepare(graph, Biclique(5, 3), "total"), index=each) for each in (of_cpu, wanted))
    assert engine.run(divided, 0, divided.n_items).total == engine.run(whole, 0, whole.n_items).total


def test_heavy_roots_are_cut_alike(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items of few children, of one, and those that end where a window of a warp does."""
    graph = complete_graph(80, 4)
    for most in (1, 4, 100, 130, 1000):
        monkeypatch.setattr("papilio.kernels.biclique.items.LEAST_ITEM_COST", most)
        monkeypatch.setattr("papilio.kernels.biclique.items.ITEMS_PER_JOB", 1 << 40)
        assert_equal(device, graph, Biclique(2, 3), "u")
        got, _ = assert_equal(device, graph, Biclique(3, 3), "u")
        assert got.n_items > 79


def test_keys_too_wide_to_hold_what_pairs_share(
    device: Device, graphs: dict[str, BipartiteGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(biclique_pairs, "_KEY_BITS", 14)
    for name in ("skewed", "planted"):
        assert_equal(device, graphs[name], Biclique(3, 2), "u")


def test_pairs_that_share_more_than_the_bins_count(device: Device) -> None:
    graph = complete_graph(4, 300)
    got, _ = assert_equal(device, graph, Biclique(2, 299), "u", keep_pairs=False)
    assert got.closed_cells == {(2, 299): 6 * 300}
    assert_equal(device, graph, Biclique(3, 299), "u")


def test_more_pairs_than_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch, device: Device, graphs: dict[str, BipartiteGraph]
) -> None:
    room = 640
    monkeypatch.setattr(biclique_pairs, "pair_room", lambda *_: room)
    with pytest.raises(CapacityError, match=r"21 pairs .* 640 bytes of device memory hold 20"):
        build_device_index(device, graphs["complete"], Biclique(3, 3), "u")
    room = 672
    build_device_index(device, graphs["complete"], Biclique(3, 3), "u")
    room = 0
    build_device_index(device, graphs["complete"], Biclique(2, 3), "u", keep_pairs=False)


def test_more_left_vertices_than_a_slab_has_room_for_are_refused(
    device: Device, graphs: dict[str, BipartiteGraph]
) -> None:
    tuning = replace(SCHEDULES["slab"], slab_fraction=0.0)
    with pytest.raises(CapacityError, match="table of counters for all vertices"):
        build_device_index(device, graphs["skewed"], Biclique(2, 2), "u", tuning=tuning)


def test_requests_that_are_refused(device: Device, graphs: dict[str, BipartiteGraph]) -> None:
    with pytest.raises(InputError, match="anchor is 'left'"):
        build_device_index(device, graphs["crown"], Biclique(2, 2), "left")
    few = np.zeros(1, dtype=np.int32)
    with pytest.raises(CapacityError, match=r"4294967294 vertices.*2146435072"):
        build_device_index(device, BipartiteGraph(2**31 - 1, 2**31 - 1, few, few), Biclique(2, 2))


def test_default_tunings_agree(device: Device, graphs: dict[str, BipartiteGraph]) -> None:
    for shared_bytes in (64 << 10, 227 << 10):
        tuning = pair_tuning(min(shared_bytes, device.max_shared_bytes))
        assert_equal(device, graphs["skewed"], Biclique(3, 3), tuning=tuning)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["southern-women", "marvel", "youtube-groupmemberships", "movielens-1m", "yelp2018"])
def test_real_graphs(reference_graph: Callable[[str], BipartiteGraph], name: str) -> None:
    device, graph = cuda_device(), reference_graph(name)
    for motif in (Biclique(3, 3), Biclique(4, 4), Biclique(2, 3)):
        for anchor in ANCHORS:
            assert_equal(device, graph, motif, anchor)
    assert_equal(device, graph, Biclique(2, 3), keep_pairs=False)
    assert_equal(device, graph, Biclique())
    slabs = PairTuning(tables=(TableClass("slab", 512, 0, NEVER),))
    assert_equal(device, graph, Biclique(3, 4), tuning=slabs)
