"""Every schedule of the CUDA kernels of maximal bicliques, forced by the tuning, against the oracle and the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from papilio.errors import LeaseTooLargeError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.exact import hash_rows
from papilio.kernels.maximal import gpu_roots
from papilio.kernels.maximal.cpu import MaximalBicliqueCpu
from papilio.kernels.maximal.gpu import MaximalBicliqueGpu
from papilio.kernels.maximal.gpu_roots import hold_matrices
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import MaximalBiclique
from tests.kernels.biclique.test_gpu_biclique import GRAPHS as BICLIQUE_GRAPHS
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import edge_list, graph_of, planted_graph

EAGER = TreeTuning(
    threads=64,
    blocks_per_sm=(4, 4, 4),
    near_words=64,
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
    "alone": replace(EAGER, slots=0),
    "two slots": replace(EAGER, slots=2, slot_words=512),
    "near": replace(EAGER, near_words=4096),
}


def dense_graph(seed: int, n_u: int, n_v: int, density: float) -> BipartiteGraph:
    """Return a random graph whose rows share many columns."""
    inside = np.random.default_rng(seed).random((n_u, n_v)) < density
    u, v = np.nonzero(inside)
    return BipartiteGraph.from_edges(u, v, n_u, n_v)


def crown_graph(n: int) -> BipartiteGraph:
    """Return K(n, n) without a perfect matching."""
    return graph_of({(u, v) for u in range(n) for v in range(n) if u != v}, n, n)


GRAPHS: dict[str, Callable[[], BipartiteGraph]] = {
    **BICLIQUE_GRAPHS,
    "wide": lambda: dense_graph(1, 8, 200, 0.8),
    "wide and deep": lambda: planted_graph(3, 11, 150, 1, 11, 900, 0.1),
    "crown": lambda: crown_graph(9),
    "many rows": lambda: dense_graph(5, 40, 11, 0.75),
    "few and deep": lambda: dense_graph(7, 12, 30, 0.75),
}


@cache
def expected(name: str, motif: MaximalBiclique) -> tuple[Counter[tuple[int, ...]], int]:
    """Return the cells of one of the graphs, and the checksum."""
    found = [each for each in maximal_bicliques_of(edge_list(GRAPHS[name]())) if motif.has_cell(tuple(map(len, each)))]
    assert found, "a test of nothing"
    hashes = [int(hash_rows(*(np.array([side], np.int32) for side in each))[0]) for each in found]
    return Counter(tuple(map(len, each)) for each in found), sum(hashes) % (1 << 64)


def eager_engine(device: Device, anchor: str, tuning: TreeTuning = EAGER) -> MaximalBicliqueGpu:
    """Return an engine whose warps leave to others whatever these want."""
    return MaximalBicliqueGpu(device, anchor, tuning, patience=0)


def count(engine: MaximalBicliqueGpu, graph: BipartiteGraph, motif: MaximalBiclique | None = None) -> Partial:
    """Count all items at once."""
    prepared = engine.prepare(graph, motif or MaximalBiclique(), "total")
    partial = engine.run(prepared, 0, prepared.n_items)
    assert partial.n_items == prepared.n_items
    return partial


USUAL = {
    ("eager", "many columns"),
    ("eager", "wide"),
    ("two slots", "one root"),
    ("near", "skewed"),
    ("near", "many rows"),
    ("eager", "few and deep"),
    ("alone", "crown"),
}
"""What every run tries of the schedules and graphs; a GPU tries all."""


def _pairs() -> list[Any]:
    pairs = ((schedule, name) for schedule in SCHEDULES for name in GRAPHS)
    return [pytest.param(*pair, marks=() if pair in USUAL else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize(("schedule", "name"), _pairs())
def test_every_schedule_counts_by_the_definition(device: Device, schedule: str, name: str) -> None:
    for anchor in ("u", "v"):
        found = count(eager_engine(device, anchor, SCHEDULES[schedule]), GRAPHS[name]())
        assert (found.cells, found.checksum) == expected(name, MaximalBiclique())


@pytest.mark.parametrize(
    "motif",
    [
        MaximalBiclique(2, 3),
        MaximalBiclique(3, 2, 5, 6),
        MaximalBiclique(1, 4, 3),
        MaximalBiclique(4, 1, None, 5),
    ],
)
@pytest.mark.parametrize("name", ["skewed", "many columns"])
def test_sizes_that_are_asked_for(device: Device, name: str, motif: MaximalBiclique) -> None:
    for anchor in ("u", "v"):
        found = count(eager_engine(device, anchor), GRAPHS[name](), motif)
        assert (found.cells, found.checksum) == expected(name, motif)


@pytest.mark.slow
@pytest.mark.parametrize("filters", [0, 1])
@pytest.mark.parametrize("drops", [0, 1])
def test_filters_change_the_branches_and_not_the_answer(device: Device, filters: int, drops: int) -> None:
    engine = MaximalBicliqueGpu(device, "v", EAGER, {"FILTERS": filters, "DROPS": drops, "TABLES": 0})
    found = count(engine, GRAPHS["skewed"]())
    assert (found.cells, found.checksum) == expected("skewed", MaximalBiclique())
    searched = sum(count for (u, v), count in found.cells.items() if min(u, v) > 1)
    assert engine.n_branches > searched
    whole = MaximalBicliqueGpu(device, "v", EAGER, {"TABLES": 0})
    count(whole, GRAPHS["skewed"]())
    assert (engine.n_branches > whole.n_branches) == (filters + drops < 2)


def test_every_order_of_threads_comes_to_the_same_end() -> None:
    graph = GRAPHS["many columns"]()
    for seed in range(3):
        tuning = replace(EAGER, slots=2 << seed % 3)
        found = count(eager_engine(emulator(seed), "u", tuning), graph)
        assert (found.cells, found.checksum) == expected("many columns", MaximalBiclique())


@pytest.mark.parametrize("name", ["many columns", pytest.param("wide", marks=pytest.mark.slow)])
def test_one_root_keeps_all_blocks_busy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_roots, "_MANY_RANGES", 1)
    monkeypatch.setattr(gpu_roots, "_MANY_CHILDREN", 100)
    share = {}
    for slots in (0, 64):
        tuning = replace(EAGER, threads=32, slots=slots, blocks_per_sm=(2, 2, 2))
        engine = eager_engine(emulator(1), "u", tuning)
        prepared = engine.prepare(GRAPHS[name](), MaximalBiclique(), "total")
        assert engine.run(prepared, 0, 1).total > 0
        share[slots] = float(engine.block_words.max() / engine.block_words.sum())
    assert share[0] == 1.0
    assert share[64] < 0.75


def test_branches_of_nodes_of_many_candidates_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes of up to 64 columns and more than 32 candidates, one above the other; other warps have nothing else."""
    monkeypatch.setattr(gpu_roots, "_MANY_RANGES", 1)
    monkeypatch.setattr(gpu_roots, "_MANY_CHILDREN", 100)
    graph, motif = dense_graph(7, 42, 60, 0.6), MaximalBiclique(max_u=4)
    tuning = replace(EAGER, threads=32, slots=64, slot_words=1 << 13, blocks_per_sm=(2, 2, 2))
    engines = MaximalBicliqueCpu(1, "u"), eager_engine(emulator(1), "u", tuning)
    wanted, found = (engine.run(engine.prepare(graph, motif, "total"), 0, 1) for engine in engines)
    assert (found.cells, found.checksum) == (wanted.cells, wanted.checksum)


def test_a_table_of_sizes_that_is_full_is_made_larger(device: Device) -> None:
    found = count(MaximalBicliqueGpu(device, "u", replace(EAGER, leaf_slots=1)), GRAPHS["many columns"]())
    assert (found.cells, found.checksum) == expected("many columns", MaximalBiclique())


def test_any_split_and_any_cut_folds_to_the_whole(device: Device) -> None:
    engine = MaximalBicliqueGpu(device, tuning=EAGER)
    prepared = engine.prepare(GRAPHS["skewed"](), MaximalBiclique(), "total")
    n_items = prepared.n_items
    first = engine.run(prepared, 0, n_items, [3, n_items // 2, n_items - 1], lambda: True)
    assert 0 < first.n_items <= n_items  # a GPU may be done before it is asked to end
    middle = (first.n_items + n_items) // 2
    parts = [engine.run(prepared, middle, n_items), engine.run(prepared, first.n_items, middle)]
    folded = fold_partials(fold_partials(parts[0], first), parts[1])
    assert (folded.cells, folded.checksum) == expected("skewed", MaximalBiclique())
    assert folded.n_items == n_items


@pytest.mark.parametrize("anchor", ["u", "v"])
def test_items_and_costs_are_those_of_the_cpu(device: Device, anchor: str) -> None:
    graph, motif = GRAPHS["skewed"](), MaximalBiclique()
    cpu, gpu = MaximalBicliqueCpu(1, anchor), eager_engine(device, anchor)
    on_cpu, on_gpu = cpu.prepare(graph, motif, "total"), gpu.prepare(graph, motif, "total")
    assert cpu.work(on_cpu).tolist() == gpu.work(on_gpu).tolist()
    assert on_cpu.decisions == on_gpu.decisions != ()
    for item in range(0, on_cpu.n_items, 9):
        one, other = cpu.run(on_cpu, item, item + 1), gpu.run(on_gpu, item, item + 1)
        assert (one.cells, one.checksum) == (other.cells, other.checksum)


def test_matrices_come_in_groups_where_memory_is_short() -> None:
    graph, tuning = GRAPHS["many columns"](), replace(EAGER, slots=0, leaf_slots=1 << 6)
    little = MaximalBicliqueGpu(emulator(0, free_bytes=32 << 10), "v", tuning)
    prepared = MaximalBicliqueGpu(emulator(0), "v", tuning).prepare(graph, MaximalBiclique(), "total")
    assert 4 * int(prepared.roots.matrix_words.sum()) > 16 << 10
    assert prepared.matrices is not None
    assert hold_matrices(emulator(0, free_bytes=32 << 10), prepared.index, prepared.roots) is None
    prepared = replace(prepared, matrices=None)
    found = little.run(prepared, 0, prepared.n_items, [prepared.n_items // 2])
    assert (found.cells, found.checksum) == expected("many columns", MaximalBiclique())
    begun = little.run(prepared, 0, prepared.n_items, cut=lambda: True)
    assert 0 < begun.n_items < prepared.n_items
    rest = little.run(prepared, begun.n_items, prepared.n_items)
    assert fold_partials(begun, rest).checksum == found.checksum
    none = MaximalBicliqueGpu(emulator(0, free_bytes=64), "v", tuning)
    with pytest.raises(LeaseTooLargeError, match=r"take \d+ bytes of device memory; 32 bytes .* --engine cpu"):
        none.run(prepared, 0, prepared.n_items)


REFERENCES = {
    "southern-women": 63,
    "moreno-crime": 620,
    "opsahl-ucforum": 16_261,
    "bonanza": 54_036,
    "marvel": 206_135,
    "youtube-groupmemberships": 1_826_587,
    "senate": 19_610_854,
    "yelp2018": 88_977_524,
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", REFERENCES)
def test_real_graphs(reference_graph: Callable[[str], BipartiteGraph], name: str) -> None:
    engine = MaximalBicliqueGpu(cuda_device())
    prepared = engine.prepare(reference_graph(name), MaximalBiclique(), "total")
    third = prepared.n_items // 3
    parts = engine.run(prepared, 0, third), engine.run(prepared, third, prepared.n_items)
    assert fold_partials(*parts).total == REFERENCES[name]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["opsahl-ucforum", "bonanza", "marvel"])
def test_checksums_of_real_graphs_are_those_of_the_cpu(
    reference_graph: Callable[[str], BipartiteGraph], name: str
) -> None:
    graph, motif = reference_graph(name), MaximalBiclique()
    cpu = MaximalBicliqueCpu()
    prepared = cpu.prepare(graph, motif, "total")
    wanted = cpu.run(prepared, 0, prepared.n_items)
    for anchor in ("u", "v"):
        found = count(MaximalBicliqueGpu(cuda_device(), anchor), graph, motif)
        assert (found.cells, found.checksum) == (wanted.cells, wanted.checksum)
