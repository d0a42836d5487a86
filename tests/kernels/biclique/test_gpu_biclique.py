"""Every schedule of the CUDA biclique kernels, forced by the tuning, against the definition and closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import comb

import numpy as np
import pytest

from papilio.errors import CapacityError, LeaseTooLargeError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu import BicliqueGpu, _has_large_leaves
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Biclique, Granularity
from tests.conftest import share_of_examples
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_biclique import count_all
from tests.tools.strategies import complete_graph, edge_list, graph_of, planted_graph, skewed_graph

EAGER = TreeTuning(
    threads=64,
    blocks_per_sm=(4, 4, 3),
    near_words=64,
    pair_blocks_per_sm=4,
    pair_near_words=64,
    list_blocks_per_sm=4,
    list_near_words=64,
    far_words=(1 << 12,),
    slots=8,
    slot_words=1 << 11,
    check_steps=1,
    share_cost=1,
    leaf_slots=1 << 12,
)
"""Shares at every turn, and has hardly any shared memory."""

SCHEDULES: dict[str, TreeTuning] = {
    "eager": EAGER,
    "alone": replace(EAGER, slots=0, threads=128),
    "two slots": replace(EAGER, slots=2, slot_words=256),
    "near": replace(EAGER, near_words=4096, pair_near_words=4096, list_near_words=4096),
}


def hub_pair(n: int, seed: int) -> BipartiteGraph:
    """Return two vertices with the same n neighbours, among which others have random thirds: one root, one child."""
    random = np.random.default_rng(seed)
    inside = random.random((n, n)) < 0.3
    inside[:2] = True
    u, v = np.nonzero(inside)
    return BipartiteGraph.from_edges(u, v, n, n)


GRAPHS: dict[str, Callable[[], BipartiteGraph]] = {
    "skewed": lambda: skewed_graph(1, 90, 60, 700),
    "planted": lambda: planted_graph(2, 40, 150, 3, 9, 120, 0.1),
    "many columns": lambda: planted_graph(6, 14, 160, 2, 11, 500, 0.1),
    "many rows": lambda: planted_graph(7, 130, 14, 1, 11, 500, 0.1),
    "exact blocks": lambda: planted_graph(8, 60, 60, 2, 14, 100, 0.0),
    "twins": lambda: complete_graph(9, 17),
    "one root": lambda: hub_pair(36, 3),
}


def count(engine: BicliqueGpu, graph: BipartiteGraph, motif: Biclique) -> Partial:
    """Count all items at once."""
    prepared = engine.prepare(graph, motif, "total")
    partial = engine.run(prepared, 0, prepared.n_items)
    assert partial.n_items == prepared.n_items
    return partial


def count_sets(graph: BipartiteGraph, p: int, q: int) -> int:
    """Count (p,q)-bicliques by the definition: every set of p vertices of U, unless a part of it shares too few."""
    rows = [0] * graph.n_u
    for u, v in zip(graph.u.tolist(), graph.v.tolist(), strict=True):
        rows[u] |= 1 << v

    def below(at: int, missing: int, shared: int) -> int:
        if missing == 0:
            return comb(shared.bit_count(), q)
        both = ((i + 1, shared & rows[i]) for i in range(at, graph.n_u))
        return sum(below(i, missing - 1, each) for i, each in both if each.bit_count() >= q)

    return below(0, p, (1 << graph.n_v) - 1)


@cache
def expected(name: str, p: int, q: int) -> int:
    """Return the right answer for one of the graphs."""
    total = count_sets(GRAPHS[name](), p, q)
    assert total > 0, "a test of nothing"
    return total


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_counts_by_the_definition(device: Device, schedule: str, name: str) -> None:
    asked = [("enumerate", 3, 3), ("enumerate", 4, 2), ("pivot", 3, 4)]
    if name in ("many columns", "planted", "twins"):
        asked.append(("auto", 6, 2))
    for anchor in ("u", "v"):
        for algorithm, p, q in asked:
            engine = BicliqueGpu(device, algorithm, anchor, SCHEDULES[schedule])
            assert count(engine, GRAPHS[name](), Biclique(p, q)).total == expected(name, p, q)


@pytest.mark.parametrize(
    ("p", "q", "free_bytes", "said"),
    [(3, 3, 4_000, "2 blocks at a time"), (4, 2, 18_000, "1 blocks at a time"), (4, 2, 5_000, "one warp")],
)
def test_blocks_that_share_a_matrix_in_little_memory(p: int, q: int, free_bytes: int, said: str) -> None:
    engine = BicliqueGpu(emulator(1, free_bytes=free_bytes), "enumerate", "u", replace(EAGER, threads=128))
    prepared = engine.prepare(GRAPHS["many columns"](), Biclique(p, q), "total")
    assert any(said in what for what, _ in prepared.decisions)
    assert engine.run(prepared, 0, prepared.n_items).total == expected("many columns", p, q)


@pytest.mark.parametrize("name", ["many columns", "planted", "twins"])
def test_the_table_of_all_sizes(device: Device, name: str) -> None:
    graph = GRAPHS[name]()
    wanted = count_all(edge_list(graph))
    for anchor in ("u", "v"):
        assert count(BicliqueGpu(device, anchor=anchor, tuning=EAGER), graph, Biclique()).cells == wanted


@pytest.mark.parametrize("algorithm", ["enumerate", "pivot"])
def test_every_order_of_threads_comes_to_the_same_end(algorithm: str) -> None:
    graph = planted_graph(4, 24, 50, 2, 10, 60, 0.1)
    wanted = count_sets(graph, 4, 3)
    for seed in range(share_of_examples(12)):
        tuning = replace(EAGER, slots=2 << seed % 3)
        engine = BicliqueGpu(emulator(seed), algorithm, "u", tuning)
        assert count(engine, graph, Biclique(4, 3)).total == wanted


@pytest.mark.parametrize("algorithm", ["enumerate", "pivot"])
def test_one_root_keeps_all_blocks_busy(algorithm: str) -> None:
    graph, motif = planted_graph(5, 26, 26, 1, 26, 26, 0.1), Biclique(7, 2)
    share = {}
    for slots in (0, 64):
        tuning = replace(EAGER, threads=32, slots=slots, check_steps=4, blocks_per_sm=(2, 2, 2))
        engine = BicliqueGpu(emulator(1), algorithm, "u", tuning)
        prepared = engine.prepare(graph, motif, "total")
        assert engine.run(prepared, 0, 1).total > 0
        assert engine.block_words.size == 4
        share[slots] = float(engine.block_words.max() / engine.block_words.sum())
    assert share[0] == 1.0
    assert share[64] < 0.5


def test_blocks_beyond_the_items_share_one_root() -> None:
    graph = hub_pair(140, 5)
    tuning = replace(EAGER, threads=32, pair_blocks_per_sm=2)
    engine = BicliqueGpu(emulator(1), "enumerate", "u", tuning)
    prepared = engine.prepare(graph, Biclique(3, 6), "total")
    item = int(np.argmax(prepared.index.item_later))
    assert prepared.index.item_later[item] > 3 * 32
    alone = BicliqueGpu(emulator(1), "enumerate", "u", replace(tuning, share_cost=1 << 40))
    assert engine.run(prepared, item, item + 1).total == alone.run(prepared, item, item + 1).total > 0
    assert (engine.block_words.size, alone.block_words.size) == (4, 4)
    assert np.count_nonzero(engine.block_words) > 1 == np.count_nonzero(alone.block_words)


def test_three_left_vertices_beyond_64_bits(device: Device) -> None:
    """Sizes beyond the counters of a warp, and every right size from one run."""
    graph = complete_graph(40, 90)
    engine = BicliqueGpu(device, "enumerate", "u")
    assert count(engine, graph, Biclique(3, 45)).total == comb(40, 3) * comb(90, 45) > 1 << 64
    cells = count(engine, graph, Biclique(p=3)).cells
    assert cells == {(3, q): comb(40, 3) * comb(90, q) for q in range(1, 91)}


def test_blocks_count_the_large_leaves_of_dense_graphs(device: Device) -> None:
    crown = graph_of({(i, j) for i in range(42) for j in range(42) if i != j}, 42, 42)
    engine = BicliqueGpu(device, "enumerate", "u")
    prepared = engine.prepare(crown, Biclique(5, 3), "total")
    assert _has_large_leaves(prepared.index)
    assert engine.run(prepared, 0, prepared.n_items).total == comb(42, 5) * comb(37, 3)
    assert not _has_large_leaves(engine.prepare(GRAPHS["planted"](), Biclique(5, 3), "total").index)


def test_a_table_of_leaves_that_is_full_is_made_larger(device: Device) -> None:
    engine = BicliqueGpu(device, "pivot", "u", replace(EAGER, leaf_slots=1))
    assert count(engine, GRAPHS["planted"](), Biclique(3, 4)).total == expected("planted", 3, 4)


@pytest.mark.parametrize("motif", [Biclique(3, 3), Biclique(3), Biclique(q=3), Biclique()])
def test_any_split_and_any_cut_folds_to_the_whole(device: Device, motif: Biclique) -> None:
    graph = GRAPHS["skewed"]()
    engine = BicliqueGpu(device, tuning=EAGER)
    prepared = engine.prepare(graph, motif, "total")
    n_items = prepared.n_items
    whole = engine.run(prepared, 0, n_items)
    first = engine.run(prepared, 0, n_items, [3, n_items // 2, n_items - 1], lambda: True)
    assert 0 < first.n_items <= n_items  # a GPU may be done before it is asked to end
    middle = (first.n_items + n_items) // 2
    parts = [engine.run(prepared, middle, n_items), engine.run(prepared, first.n_items, middle)]
    folded = fold_partials(fold_partials(parts[0], first), parts[1])
    assert (folded.n_items, folded.total, folded.cells) == (n_items, whole.total, whole.cells)


@pytest.mark.parametrize("algorithm", ["auto", "pivot"])
@pytest.mark.parametrize("motif", [Biclique(3, 3), Biclique(2, 3), Biclique(q=3), Biclique()])
def test_items_and_costs_are_those_of_the_cpu(device: Device, motif: Biclique, algorithm: str) -> None:
    graph = GRAPHS["skewed"]()
    cpu, gpu = BicliqueCpu(1, algorithm), BicliqueGpu(device, algorithm, tuning=EAGER)
    on_cpu, on_gpu = cpu.prepare(graph, motif, "total"), gpu.prepare(graph, motif, "total")
    assert cpu.work(on_cpu).tolist() == gpu.work(on_gpu).tolist()
    assert on_cpu.decisions == on_gpu.decisions != ()
    half = on_cpu.n_items // 2
    mixed = fold_partials(cpu.run(on_cpu, 0, half), gpu.run(on_gpu, half, on_gpu.n_items))
    whole = cpu.run(on_cpu, 0, on_cpu.n_items)
    assert (mixed.n_items, mixed.total, mixed.cells) == (whole.n_items, whole.total, whole.cells)


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_what_was_decided_is_told_with_its_reason(device: Device, per: Granularity) -> None:
    prepared = BicliqueGpu(device, tuning=EAGER).prepare(GRAPHS["skewed"](), Biclique(4, 4), per)
    (layer, _), (algorithm, reason) = prepared.decisions
    assert layer in {"layer U anchored", "layer V anchored"}
    assert algorithm == "algorithm enumerate"
    assert reason in {
        "all sets of its vertices are few",
        "it counts per vertex",
    }


@pytest.mark.parametrize("motif", [Biclique(p=3), Biclique(q=3)])
def test_one_side_is_enumerated_where_it_is_asked_for(device: Device, motif: Biclique) -> None:
    graph = GRAPHS["skewed"]()
    engine = BicliqueGpu(device, "enumerate", tuning=EAGER)
    prepared = engine.prepare(graph, motif, "total")
    assert prepared.index.anchor == ("v" if motif.p is None else "u")
    cpu = BicliqueCpu(1, "pivot", "u" if motif.q is None else "v")
    on_cpu = cpu.prepare(graph, motif, "total")
    wanted = cpu.run(on_cpu, 0, on_cpu.n_items).cells
    assert engine.run(prepared, 0, prepared.n_items).cells == wanted
    assert len(wanted) > 2


def test_a_hub_on_the_right_and_one_on_the_left(device: Device) -> None:
    """The matrix of a root is filled along the shorter ones of its own columns' rows and its children's rows."""
    random = np.random.default_rng(9)
    block = [(u, v) for u in range(12) for v in range(10)]
    hub = [(u, 0) for u in range(200)] + [(200 + u, v) for u in range(2) for v in range(10, 160)]
    noise = [(int(u), int(v)) for u, v in zip(random.integers(0, 200, 150), random.integers(10, 40, 150), strict=True)]
    graph = graph_of(set(block + hub + noise), 202, 160)
    wanted = count_sets(graph, 3, 3)
    assert wanted >= comb(12, 3) * comb(10, 3)
    for anchor in ("u", "v"):
        assert count(BicliqueGpu(device, "enumerate", anchor, EAGER), graph, Biclique(3, 3)).total == wanted


@pytest.mark.parametrize("n_u", [20, 56])
def test_lists_below_a_list_are_short_or_long(device: Device, n_u: int) -> None:
    engine = BicliqueGpu(device, "enumerate", "u", replace(EAGER, near_words=1024))
    assert count(engine, complete_graph(n_u, 6), Biclique(5, 4)).total == comb(n_u, 5) * comb(6, 4)


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 4, 5])
def test_many_columns_where_no_pivots_are(device: Device, p: int) -> None:
    graph, n_v = complete_graph(6, 1 << 16), 1 << 16
    assert count(BicliqueGpu(device, "enumerate", "u"), graph, Biclique(p, 2)).total == comb(6, p) * comb(n_v, 2)
    with pytest.raises(CapacityError, match=f"two vertices share .*{n_v}"):
        BicliqueGpu(device, "pivot", "u").prepare(graph, Biclique(p, 2), "total")


def test_counts_beyond_64_bits(device: Device) -> None:
    graph = complete_graph(44, 70)
    for anchor in ("u", "v"):
        assert count(BicliqueGpu(device, "pivot", anchor), graph, Biclique(22, 35)).total == comb(44, 22) * comb(70, 35)
    cells = count(BicliqueGpu(device), graph, Biclique()).cells
    assert cells == {(p, q): comb(44, p) * comb(70, q) for p in range(1, 45) for q in range(1, 71)}


@pytest.mark.parametrize("motif", [Biclique(40, 2), Biclique(2, 1 << 20), Biclique(1 << 20, 3)])
def test_sides_larger_than_any_degree(device: Device, motif: Biclique) -> None:
    assert count(BicliqueGpu(device), GRAPHS["planted"](), motif).total == 0


def test_what_it_cannot_count_is_refused_with_a_way_out() -> None:
    graph, motif = complete_graph(9, 17), Biclique(3, 3)
    full = BicliqueGpu(emulator(0, free_bytes=1 << 10), "pivot", tuning=EAGER)
    with pytest.raises(CapacityError, match=r"36 pairs .* bytes of device memory hold .* use --engine cpu"):
        full.prepare(graph, motif, "total")
    prepared = BicliqueGpu(emulator(0), "pivot", tuning=EAGER).prepare(graph, motif, "total")
    for algorithm in ("pivot", "enumerate"):
        engine = BicliqueGpu(full.device, algorithm, tuning=EAGER)
        with pytest.raises(LeaseTooLargeError, match=r"needs \d+ bytes of device memory; 768 bytes .* or --engine cpu"):
            engine.run(replace(prepared, algorithm=algorithm), 0, prepared.n_items)
    none = BicliqueGpu(emulator(0, free_bytes=60), "pivot", tuning=EAGER)
    with pytest.raises(LeaseTooLargeError, match=r"more than 0 slots of 16 bytes; 60 bytes .* --engine cpu"):
        none.run(prepared, 0, prepared.n_items)


REFERENCES = [
    ("marvel", Biclique(3, 3), 462_550_547),
    ("marvel", Biclique(4, 4), 8_634_112_357),
    ("marvel", Biclique(8, 8), 4_316_588_655),
    ("youtube-groupmemberships", Biclique(3, 3), 146_517_782),
    ("youtube-groupmemberships", Biclique(4, 4), 626_892_852),
    ("youtube-groupmemberships", Biclique(6, 6), 1_309_342_703),
    ("youtube-groupmemberships", Biclique(8, 8), 205_411_586),
    ("senate", Biclique(4, 5), 17_445_456_680_663),
    ("movielens-100k", Biclique(3, 3), 94_084_647_182),
    ("movielens-1m", Biclique(3, 3), 47_604_269_608_734),
    ("movielens-1m", Biclique(2, 3), 1_012_196_331_323),
    ("movielens-1m", Biclique(3, 2), 2_202_667_336_899),
    ("yelp2018", Biclique(2, 3), 1_633_657_016),
    ("yelp2018", Biclique(3, 2), 1_497_669_692),
    ("yelp2018", Biclique(4, 4), 2_902_288_106),
    ("yelp2018", Biclique(8, 8), 108_309_892),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "motif", "total"), REFERENCES)
def test_real_graphs(reference_graph: Callable[[str], BipartiteGraph], name: str, motif: Biclique, total: int) -> None:
    engine = BicliqueGpu(cuda_device())
    prepared = engine.prepare(reference_graph(name), motif, "total")
    third = prepared.n_items // 3
    parts = engine.run(prepared, 0, third), engine.run(prepared, third, prepared.n_items)
    assert fold_partials(*parts).total == total


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["marvel", "youtube-groupmemberships"])
def test_tables_of_real_graphs_hold_the_known_counts(
    reference_graph: Callable[[str], BipartiteGraph], name: str
) -> None:
    cells = count(BicliqueGpu(cuda_device()), reference_graph(name), Biclique()).cells
    known = {(motif.p, motif.q): total for graph, motif, total in REFERENCES if graph == name}
    assert {cell: cells[cell] for cell in known} == known
