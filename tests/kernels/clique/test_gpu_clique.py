"""The CUDA kernels of cliques on every schedule, forced by the tuning, against the oracle, closed forms and the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from papilio.errors import CapacityError, LeaseTooLargeError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique import question
from papilio.kernels.clique.cpu import CliqueCpu
from papilio.kernels.clique.gpu import CliqueGpu
from papilio.kernels.clique.gpu_graph import orient_on_device
from papilio.kernels.clique.order import order_by_degeneracy, order_by_degree, orient
from papilio.kernels.clique.question import MOST_WIDE, VERTICES, choose_algorithm, list_closed
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.tuning import TreeTuning, tree_tuning
from papilio.motifs import Clique, Granularity
from tests.conftest import share_of_examples
from tests.kernels.clique.test_clique import (
    KNOWN,
    cocktail_party,
    complete,
    edges_of,
    graphs,
    laws,
    make,
    random_graph,
    read,
)
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_clique import count_cliques

EAGER = TreeTuning(
    threads=64,
    blocks_per_sm=(2, 2, 2),
    near_words=64,
    far_words=(1 << 12,),
    slots=8,
    slot_words=1 << 10,
    check_steps=1,
    share_cost=1,
)
"""Shares at every turn and has hardly any shared memory beside that of its lanes."""

SCHEDULES: dict[str, TreeTuning] = {
    "eager": EAGER,
    "alone": replace(EAGER, slots=0),
    "two slots": replace(EAGER, slots=2, slot_words=128),
    "near": replace(EAGER, near_words=4096),
    "lanes": replace(EAGER, threads=32, slots=2, slot_words=1 << 13),
}

GRAPHS: dict[str, Callable[[], UnipartiteGraph]] = {
    "small": lambda: random_graph(2, 40, 0.4),
    "one wide root": lambda: random_graph(3, 70, 0.7),
    "sparse": lambda: random_graph(4, 200, 0.05),
    "pairs": lambda: cocktail_party(18),
    "thirds": lambda: make(27, [(a, b) for a, b in combinations(range(27), 2) if a // 3 != b // 3]),
    "complete": lambda: complete(40),
}


def count(engine: CliqueGpu | CliqueCpu, graph: UnipartiteGraph, motif: Clique) -> Partial:
    """Count all items at once."""
    prepared = engine.prepare(graph, motif, "total")
    partial = engine.run(prepared, 0, prepared.n_items)
    assert partial.n_items == prepared.n_items
    return partial


@cache
def on_cpu(name: str, k: int | None) -> Partial:
    """Return what the CPU engine counts in one of the graphs."""
    return count(CliqueCpu(1), GRAPHS[name](), Clique(k))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_counts_by_the_definition(device: Device, schedule: str, name: str) -> None:
    for k, algorithm in ((None, "pivot"), (5, "pivot"), (3, "orient"), (5, "orient")):
        got = count(CliqueGpu(device, algorithm, tuning=SCHEDULES[schedule]), GRAPHS[name](), Clique(k))
        wanted = on_cpu(name, k)
        assert (got.total, got.cells) == (wanted.total, wanted.cells)


@pytest.mark.parametrize("most", [3, 4, 5])
def test_tables_up_to_a_size_end_as_one_size_does(device: Device, most: int) -> None:
    """The last vertices of the largest cliques come from edges and triangles of warps, and of lanes."""
    for graph in (random_graph(3, 90, 0.5), random_graph(4, 120, 0.15), cocktail_party(18)):
        got = count(CliqueGpu(device, tuning=EAGER), graph, Clique(max_k=most)).cells
        assert got == count(CliqueCpu(1), graph, Clique(max_k=most)).cells
        for k in range(3, most + 1):
            assert got[(k,)] == count(CliqueCpu(1, "orient"), graph, Clique(k)).total


@pytest.mark.slow
@pytest.mark.parametrize("k", [None, 8])
def test_lanes_that_share_at_every_turn_count_the_same(device: Device, k: int | None) -> None:
    """Sub-trees are so large that a lane leaves branches again and again, and takes others'."""
    engine = CliqueGpu(device, "pivot", tuning=EAGER)
    engine._defines = {"SHARE_TURNS": 1}
    for graph in (random_graph(0, 34, 0.9), random_graph(1, 60, 0.75)):
        wanted = count(CliqueCpu(1), graph, Clique(k))
        got = count(engine, graph, Clique(k))
        assert (got.total, got.cells) == (wanted.total, wanted.cells)


def test_every_size_follows_the_definition(device: Device) -> None:
    @laws(16)
    @given(graphs())
    def run(graph: UnipartiteGraph) -> None:
        wanted = count_cliques(graph.n, edges_of(graph))
        for order in ("degeneracy", "degree"):
            assert count(CliqueGpu(device, order=order, tuning=EAGER), graph, Clique()).cells == wanted
        for most in (1, 2, 3, 5):
            few = {cell: number for cell, number in wanted.items() if cell[0] <= most}
            assert count(CliqueGpu(device, tuning=EAGER), graph, Clique(max_k=most)).cells == few
        for k in (1, 2, 3, 4, 7):
            for algorithm in ("pivot", "orient") if k >= 3 else ("pivot",):
                assert count(CliqueGpu(device, algorithm, tuning=EAGER), graph, Clique(k)).total == wanted.get((k,), 0)

    run()


def test_the_order_and_the_items_are_those_of_the_cpu(device: Device) -> None:
    for graph in (random_graph(1, 50, 0.1), random_graph(2, 30, 0.6), make(6, []), make(1, [])):
        for by_degree, order in ((False, order_by_degeneracy), (True, order_by_degree)):
            wanted, got = orient(graph, order(graph)), orient_on_device(device, graph, by_degree)
            for name in ("indptr", "ids", "vertices"):
                assert device.to_host(getattr(got, name)).tolist() == getattr(wanted, name).tolist()
        for motif in (Clique(), Clique(4)):
            cpu, gpu = CliqueCpu(1, "pivot"), CliqueGpu(device, "pivot")
            of_cpu, of_gpu = cpu.prepare(graph, motif, "total"), gpu.prepare(graph, motif, "total")
            assert gpu.work(of_gpu).tolist() == cpu.work(of_cpu).tolist()
            assert device.to_host(of_gpu.items.roots).tolist() == of_cpu.roots.tolist()
            assert of_gpu.decisions == of_cpu.decisions != ()
        for k, wanted in ((3, "orient"), (4, "orient"), (5, "pivot")):
            prepared = CliqueGpu(device).prepare(graph, Clique(k), "total")
            assert prepared.algorithm == wanted
            assert dict(prepared.decisions)["algorithm"].startswith(f"{wanted}: k is ")


def test_triangles_of_wide_roots_are_left_to_pivots(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_algorithm(Clique(4), "total", "auto", "gpu", MOST_WIDE)[0] == "orient"
    assert choose_algorithm(Clique(3), "total", "auto", "gpu", MOST_WIDE + 1)[0] == "orient"
    assert choose_algorithm(Clique(4), "total", "orient", "gpu", MOST_WIDE + 1)[0] == "orient"
    monkeypatch.setattr(question, "MOST_WIDE", 38)
    for graph, wanted in ((complete(40), "pivot"), (complete(39), "orient")):
        prepared = CliqueGpu(device, tuning=EAGER).prepare(graph, Clique(4), "total")
        assert prepared.algorithm == wanted
        assert count(CliqueGpu(device, tuning=EAGER), graph, Clique(4)).total == comb(graph.n, 4)
    assert (
        "a root has 39 later neighbours"
        in dict(CliqueGpu(device, tuning=EAGER).prepare(complete(40), Clique(4), "total").decisions)["algorithm"]
    )


def test_every_order_of_threads_comes_to_the_same_end() -> None:
    graph = random_graph(6, 56, 0.75)
    for k, algorithm in ((None, "pivot"), (6, "orient")):
        wanted = count(CliqueCpu(1), graph, Clique(k))
        for seed in range(share_of_examples(4)):
            tuning = replace(EAGER, slots=2 << seed % 3)
            got = count(CliqueGpu(emulator(seed), algorithm, tuning=tuning), graph, Clique(k))
            assert (got.total, got.cells) == (wanted.total, wanted.cells)


@pytest.mark.parametrize(
    ("algorithm", "slot_words", "most"),
    [("pivot", 1 << 10, 0.6), ("orient", 1 << 10, 0.4), ("pivot", 96, 0.6)],
)
def test_one_root_keeps_all_blocks_busy(algorithm: str, slot_words: int, most: float) -> None:
    """Where halves of its branches have no room in a slot of 96 words, smaller nodes below it are left to others."""
    graph = random_graph(8, 80, 0.8)
    share = {}
    for slots in (0, 64):
        tuning = replace(EAGER, threads=32, slots=slots, slot_words=slot_words, check_steps=4)
        engine = CliqueGpu(emulator(1), algorithm, tuning=tuning)
        prepared = engine.prepare(graph, Clique(6), "total")
        assert engine.run(prepared, 0, 1).total > 0
        assert engine.block_words.size == 4
        share[slots] = float(engine.block_words.max() / engine.block_words.sum())
    assert share[0] == 1.0
    assert share[64] < most


def test_lanes_of_one_warp_are_left_to_others() -> None:
    graph, cpu, share = random_graph(8, 60, 0.55), CliqueCpu(1), {}
    of_cpu = cpu.prepare(graph, Clique(), "total")
    for slots in (0, 64):
        tuning = replace(EAGER, threads=32, slots=slots, slot_words=1 << 13)
        engine = CliqueGpu(emulator(1), "pivot", tuning=tuning)
        prepared = engine.prepare(graph, Clique(), "total")
        assert prepared.max_later <= 32  # the search of a root is that of a lane
        assert engine.run(prepared, 0, 1).cells == cpu.run(of_cpu, 0, 1).cells
        share[slots] = float(engine.block_words.max() / engine.block_words.sum())
    assert share[0] == 1.0
    assert share[64] < 0.6


@pytest.mark.parametrize("motif", [Clique(), Clique(4)])
def test_any_split_and_any_cut_folds_to_the_whole(device: Device, motif: Clique) -> None:
    graph = random_graph(5, 60, 0.4)
    cpu, engine = CliqueCpu(1), CliqueGpu(device, tuning=EAGER)
    of_cpu, prepared = cpu.prepare(graph, motif, "total"), engine.prepare(graph, motif, "total")
    n_items = prepared.n_items
    whole = engine.run(prepared, 0, n_items)
    first = engine.run(prepared, 0, n_items, [3, n_items // 2, n_items - 1], lambda: True)
    assert 0 < first.n_items <= n_items  # a GPU may be done before it is asked to end
    middle = (first.n_items + n_items) // 2
    parts = [cpu.run(of_cpu, middle, n_items), engine.run(prepared, first.n_items, middle)]
    folded = fold_partials(fold_partials(parts[0], first), parts[1])
    assert (folded.n_items, folded.total, folded.cells) == (n_items, whole.total, whole.cells)
    assert engine.run(prepared, 2, 2) == Partial(0, 0, 0)


def compare_vectors(device: Device, graph: UnipartiteGraph, k: int, per: Granularity, tuning: TreeTuning) -> None:
    """Count in two parts, and compare every entry with what the CPU engine says."""
    cpu, engine = CliqueCpu(1), CliqueGpu(device, tuning=tuning)
    of_cpu, prepared = cpu.prepare(graph, Clique(k), per), engine.prepare(graph, Clique(k), per)
    wanted, n_items = cpu.run(of_cpu, 0, of_cpu.n_items), prepared.n_items
    got = fold_partials(engine.run(prepared, 0, n_items // 2), engine.run(prepared, n_items // 2, n_items))
    assert (got.n_items, got.total) == (wanted.n_items, wanted.total)
    assert got.vectors.keys() == wanted.vectors.keys() != set()
    for name, vector in wanted.vectors.items():
        assert np.array_equal(got.vectors[name], vector)


@pytest.mark.parametrize("per", ["vertex", "edge"])
@pytest.mark.parametrize("name", ["small", "sparse"])
def test_vertices_and_edges_are_those_of_the_cpu(device: Device, name: str, per: Granularity) -> None:
    for k in (2, 3, 6):
        compare_vectors(device, GRAPHS[name](), k, per, EAGER)
    compare_vectors(device, make(5, [(1, 3)]), 2, per, EAGER)
    compare_vectors(device, cocktail_party(7), 4, per, EAGER)
    if per == "vertex":
        compare_vectors(device, GRAPHS[name](), 1, per, EAGER)


@pytest.mark.slow
@pytest.mark.parametrize("per", ["vertex", "edge"])
def test_vertices_and_edges_on_every_schedule(per: Granularity) -> None:
    graph = random_graph(3, 50, 0.6)
    for seed, tuning in enumerate(SCHEDULES.values()):
        for k in (3, 5, 9):
            compare_vectors(emulator(seed), graph, k, per, tuning)


@cache
def overlapping(n: int, inside: float, apart: float) -> UnipartiteGraph:
    """Return a graph whose first root has n later neighbours: two communities of two communities each.

    Further vertices, of 32 edges each, give its neighbours larger degrees.
    """
    rng = np.random.default_rng(n)
    u, v = np.triu_indices(n, 1)
    nearness = (u * 4 // n == v * 4 // n).astype(int) + (u * 2 // n == v * 2 // n)
    kept = rng.random(u.size) < np.array([0.0, apart, inside])[nearness]
    members = np.arange(n)
    further = np.arange(n * (n + 1))
    return UnipartiteGraph.from_edges(
        np.concatenate((u[kept], members, further % n)),
        np.concatenate((v[kept], np.full(n, n), n + 1 + further // 32)),
    )


def compare_first_root(
    device: Device, graph: UnipartiteGraph, motif: Clique, per: Granularity, tuning: TreeTuning
) -> None:
    """Compare the counts of the first item with the CPU engine's, and the words with those of a single matrix."""

    def run(engine: CliqueCpu | CliqueGpu) -> Partial:
        return engine.run(engine.prepare(graph, motif, per), 0, 1)

    wanted, got = run(CliqueCpu(1, "pivot", "degree")), run(CliqueGpu(device, "pivot", "degree", tuning))
    assert (got.total, got.cells) == (wanted.total, wanted.cells)
    assert got.total > 1000
    for name, vector in wanted.vectors.items():
        assert np.array_equal(got.vectors[name], vector)
    if not tuning.slots:  # what is left to others has a matrix of its own anyway
        whole = run(CliqueGpu(device, "pivot", "degree", replace(SCHEDULES["alone"], near_words=6144)))
        assert whole.total == wanted.total
        assert got.work < 0.85 * whole.work


@pytest.mark.parametrize("schedule", ["eager", "near"])
def test_nodes_of_few_candidates_have_matrices_of_their_own(device: Device, schedule: str) -> None:
    compare_first_root(device, overlapping(160, 0.9, 0.3), Clique(7), "total", SCHEDULES[schedule])


@pytest.mark.parametrize("motif", [Clique(6), Clique()])
def test_matrices_of_nodes_narrow_again(device: Device, motif: Clique) -> None:
    """Rows of the root have nine words, those of the nodes below it four and two."""
    compare_first_root(device, overlapping(280, 0.5, 0.2), motif, "total", SCHEDULES["alone"])


@pytest.mark.parametrize(("per", "schedule"), [("vertex", "alone"), ("edge", "alone"), ("edge", "eager")])
def test_vertices_of_matrices_of_nodes_keep_their_names(device: Device, per: Granularity, schedule: str) -> None:
    compare_first_root(device, overlapping(100, 0.75, 0.3), Clique(7), per, SCHEDULES[schedule])


def test_counts_beyond_64_bits(device: Device) -> None:
    assert count(CliqueGpu(device), complete(200), Clique(100)).total == comb(200, 100)
    assert count(CliqueGpu(device), complete(130), Clique()).cells == {(k,): comb(130, k) for k in range(1, 131)}


def test_the_table_of_small_graphs_follows_the_definition() -> None:
    table = list_closed()
    pairs = list(combinations(range(VERTICES), 2))
    for number in np.random.default_rng(1).integers(0, table.size, 300).tolist():
        edges = [(i, j) for i, j in pairs if number >> j * (j - 1) // 2 + i & 1]
        entry, wanted = int(table[number]), count_cliques(VERTICES, edges)
        got = (entry & 31, entry >> 5 & 15, entry >> 9 & 7, entry >> 12)
        assert got == tuple(wanted.get((k,), 0) for k in (3, 4, 5, 6))


def test_counts_are_right_where_memory_is_short() -> None:
    for free_bytes in (1 << 17, 1 << 20):
        engine = CliqueGpu(emulator(2, free_bytes=free_bytes))
        prepared = engine.prepare(GRAPHS["small"](), Clique(), "total")
        assert len(prepared.decisions) > 2
        assert engine.run(prepared, 0, prepared.n_items).cells == on_cpu("small", None).cells


def test_what_it_cannot_count_is_refused_with_a_way_out() -> None:
    engine = CliqueGpu(emulator(0))
    with pytest.raises(UnsupportedError, match="unipartite"):
        engine.prepare(BipartiteGraph.from_edges([0], [0]), Clique(3), "total")
    with pytest.raises(UnsupportedError, match="'orient' counts totals, of a single k of at least 3"):
        CliqueGpu(emulator(0), "orient").prepare(complete(4), Clique(), "total")
    with pytest.raises(CapacityError, match=r"need \d+ bytes of device memory .* 64 bytes are free: .* --engine cpu"):
        CliqueGpu(emulator(0, free_bytes=64)).prepare(complete(4), Clique(), "total")
    prepared = engine.prepare(complete(60), Clique(3), "total")
    with pytest.raises(LeaseTooLargeError, match=r"needs \d+ bytes of device memory; \d+ bytes .* or --engine cpu"):
        CliqueGpu(emulator(0, free_bytes=1 << 9)).run(prepared, 0, prepared.n_items)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KNOWN)
def test_every_size_of_real_graphs(shared_data: Path, name: str) -> None:
    graph = read(shared_data, name)
    engine, cpu = CliqueGpu(cuda_device()), CliqueCpu()
    prepared = engine.prepare(graph, Clique(), "total")
    third = prepared.n_items // 3
    halves = engine.run(prepared, 0, third).cells, engine.run(prepared, third, prepared.n_items).cells
    cells = dict(Counter(halves[0]) + Counter(halves[1]))
    assert cells == count(cpu, graph, Clique()).cells
    assert {k: cells[(k,)] for k in KNOWN[name]} == KNOWN[name]


@pytest.mark.gpu
@pytest.mark.parametrize("algorithm", ["pivot", "orient"])
def test_one_size_of_real_graphs(shared_data: Path, algorithm: str) -> None:
    engine = CliqueGpu(cuda_device(), algorithm)
    for name, known in KNOWN.items():
        graph = read(shared_data, name)
        for k in (4, 6):
            assert count(engine, graph, Clique(k)).total == known[k]
    facebook = read(shared_data, "facebook_combined")
    assert count(engine, facebook, Clique(6)).total == 7_830_937_838
    assert count(engine, facebook, Clique(5)).total == 517_965_151


@pytest.mark.gpu
@pytest.mark.parametrize("per", ["vertex", "edge"])
def test_vertices_and_edges_of_real_graphs(shared_data: Path, per: Granularity) -> None:
    for name, k in (
        ("ca-GrQc", 5),
        ("email-Eu-core", 4),
        ("wiki-Vote", 5),
        ("ca-AstroPh", 8),
        ("ca-HepPh", 40),
    ):
        device = cuda_device()
        compare_vectors(device, read(shared_data, name), k, per, tree_tuning("clique", device.max_shared_bytes))
