"""The CUDA kernel of maximal cliques on every schedule, against the definition, closed forms and the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given

from papilio.errors import LeaseTooLargeError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique.cpu import MaximalCliqueCpu
from papilio.kernels.clique.gpu import MaximalCliqueGpu
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import MaximalClique
from tests.conftest import share_of_examples
from tests.kernels.clique.test_clique import (
    cocktail_party,
    complete,
    edges_of,
    graphs,
    laws,
    make,
    random_graph,
    read,
)
from tests.kernels.clique.test_gpu_clique import EAGER, SCHEDULES
from tests.kernels.clique.test_maximal import KNOWN, checksum_of
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_clique import maximal_cliques

GRAPHS: dict[str, Callable[[], UnipartiteGraph]] = {
    "small": lambda: random_graph(2, 30, 0.4),
    "many excluded": lambda: random_graph(9, 110, 0.5),
    "wide": lambda: random_graph(5, 80, 0.6),
    "sparse": lambda: random_graph(8, 200, 0.08),
    "pairs": lambda: cocktail_party(9),
    "thirds": lambda: make(21, [(a, b) for a, b in combinations(range(21), 2) if a // 3 != b // 3]),
    "complete": lambda: complete(70),
}


def count(engine: MaximalCliqueGpu | MaximalCliqueCpu, graph: UnipartiteGraph, least: int = 1) -> Partial:
    """Count all items at once; what was intersected is left out, which depends on the schedule."""
    prepared = engine.prepare(graph, MaximalClique(least), "total")
    partial = engine.run(prepared, 0, prepared.n_items)
    assert partial.n_items == prepared.n_items
    return replace(partial, work=0)


@cache
def on_cpu(name: str, least: int) -> Partial:
    """Return what the CPU engine counts in one of the graphs."""
    return count(MaximalCliqueCpu(1), GRAPHS[name](), least)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_counts_by_the_definition(device: Device, schedule: str, name: str) -> None:
    for least in (1, 5):
        got = count(MaximalCliqueGpu(device, SCHEDULES[schedule]), GRAPHS[name](), least)
        assert got == on_cpu(name, least)


@pytest.mark.slow
def test_lanes_that_share_at_every_turn_count_the_same(device: Device) -> None:
    """Sub-trees are so large that a lane leaves branches again and again, and takes others'."""
    engine = MaximalCliqueGpu(device, EAGER)
    engine._defines = {"SHARE_TURNS": 1}
    for graph, least in ((random_graph(0, 34, 0.9), 1), (random_graph(1, 60, 0.75), 9)):
        assert count(engine, graph, least) == count(MaximalCliqueCpu(1), graph, least)


def test_sizes_and_checksum_follow_the_definition(device: Device) -> None:
    @laws(24)
    @given(graphs())
    def run(graph: UnipartiteGraph) -> None:
        cliques = maximal_cliques(graph.n, edges_of(graph))
        for least in (1, 2, 4):
            kept = [clique for clique in cliques if len(clique) >= least]
            got = count(MaximalCliqueGpu(device, EAGER), graph, least)
            assert got.cells == dict(Counter((len(clique),) for clique in kept))
            assert (got.total, got.checksum) == (len(kept), checksum_of(kept))

    run()


def test_closed_forms(device: Device) -> None:
    assert count(MaximalCliqueGpu(device), cocktail_party(12)).cells == {(12,): 2**12}
    assert count(MaximalCliqueGpu(device), GRAPHS["thirds"]()).cells == {(7,): 3**7}
    for n in (1, 2, 32, 33, 34, 65):
        assert count(MaximalCliqueGpu(device), complete(n)).cells == {(n,): 1}
    assert count(MaximalCliqueGpu(device), make(7, [(1, 2), (2, 4)])).cells == {(1,): 4, (2,): 2}


def test_items_are_those_of_the_cpu(device: Device) -> None:
    for graph in (random_graph(1, 50, 0.1), random_graph(2, 30, 0.6), make(6, []), make(1, [])):
        for least in (1, 4):
            cpu, gpu, motif = MaximalCliqueCpu(1), MaximalCliqueGpu(device), MaximalClique(least)
            of_cpu, of_gpu = cpu.prepare(graph, motif, "total"), gpu.prepare(graph, motif, "total")
            assert gpu.work(of_gpu).tolist() == cpu.work(of_cpu).tolist()
            assert device.to_host(of_gpu.items.roots).tolist() == of_cpu.roots.tolist()
            assert of_gpu.decisions == of_cpu.decisions != ()


def test_every_order_of_threads_comes_to_the_same_end() -> None:
    graph = random_graph(6, 60, 0.7)
    wanted = count(MaximalCliqueCpu(1), graph)
    for seed in range(share_of_examples(6)):
        tuning = replace(EAGER, slots=2 << seed % 3)
        assert count(MaximalCliqueGpu(emulator(seed), tuning), graph) == wanted


def test_one_root_keeps_all_blocks_busy() -> None:
    graph = random_graph(8, 90, 0.75)
    share = {}
    for slots in (0, 64):
        tuning = replace(EAGER, threads=32, slots=slots, slot_words=1 << 12, check_steps=4)
        engine = MaximalCliqueGpu(emulator(1), tuning)
        prepared = engine.prepare(graph, MaximalClique(), "total")
        assert engine.run(prepared, 0, 1).total > 0
        share[slots] = float(engine.block_words.max() / engine.block_words.sum())
    assert share[0] == 1.0
    assert share[64] < 0.6


def test_lanes_of_one_warp_are_left_to_others() -> None:
    graph, cpu, share = random_graph(8, 33, 0.85), MaximalCliqueCpu(1), {}
    of_cpu = cpu.prepare(graph, MaximalClique(), "total")
    for slots in (0, 64):
        tuning = replace(EAGER, threads=32, slots=slots, slot_words=1 << 13)
        engine = MaximalCliqueGpu(emulator(1), tuning)
        prepared = engine.prepare(graph, MaximalClique(), "total")
        assert int(prepared.items.sizes.max()) <= 32  # the search of a root is that of a lane
        assert engine.run(prepared, 0, 1).cells == cpu.run(of_cpu, 0, 1).cells
        share[slots] = float(engine.block_words.max() / engine.block_words.sum())
    assert share[0] == 1.0
    assert share[64] < 0.7


def test_any_split_and_any_cut_folds_to_the_whole(device: Device) -> None:
    graph, motif = random_graph(5, 60, 0.4), MaximalClique()
    cpu, engine = MaximalCliqueCpu(1), MaximalCliqueGpu(device, EAGER)
    of_cpu, prepared = cpu.prepare(graph, motif, "total"), engine.prepare(graph, motif, "total")
    n_items = prepared.n_items
    first = engine.run(prepared, 0, n_items, [3, n_items // 2, n_items - 1], lambda: True)
    assert 0 < first.n_items <= n_items  # a GPU may be done before it is asked to end
    middle = (first.n_items + n_items) // 2
    parts = [cpu.run(of_cpu, middle, n_items), engine.run(prepared, first.n_items, middle)]
    folded = replace(fold_partials(fold_partials(parts[0], first), parts[1]), work=0)
    assert folded == count(MaximalCliqueCpu(1), graph)
    assert engine.run(prepared, 2, 2) == Partial(0, 0, 0)


def test_counts_are_right_where_memory_is_short() -> None:
    for free_bytes in (1 << 17, 1 << 20):
        engine = MaximalCliqueGpu(emulator(2, free_bytes=free_bytes))
        prepared = engine.prepare(GRAPHS["small"](), MaximalClique(), "total")
        assert len(prepared.decisions) > 1
        partial = engine.run(prepared, 0, prepared.n_items)
        assert replace(partial, work=0) == on_cpu("small", 1)


def test_what_it_cannot_count_is_refused_with_a_way_out() -> None:
    engine = MaximalCliqueGpu(emulator(0))
    with pytest.raises(UnsupportedError, match="unipartite"):
        engine.prepare(BipartiteGraph.from_edges([0], [0]), MaximalClique(), "total")
    with pytest.raises(UnsupportedError, match="cannot be counted per 'vertex'"):
        engine.prepare(complete(3), MaximalClique(), "vertex")
    prepared = engine.prepare(complete(60), MaximalClique(), "total")
    with pytest.raises(LeaseTooLargeError, match=r"needs \d+ bytes of device memory; \d+ bytes .* or --engine cpu"):
        MaximalCliqueGpu(emulator(0, free_bytes=1 << 10)).run(prepared, 0, prepared.n_items)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KNOWN)
def test_real_graphs(shared_data: Path, name: str) -> None:
    graph = read(shared_data, name)
    engine = MaximalCliqueGpu(cuda_device())
    prepared = engine.prepare(graph, MaximalClique(), "total")
    third = prepared.n_items // 3
    parts = engine.run(prepared, 0, third), engine.run(prepared, third, prepared.n_items)
    got = replace(fold_partials(*parts), work=0)
    assert got == count(MaximalCliqueCpu(), graph)
    assert (got.total, max(got.cells)[0]) == KNOWN[name]


@pytest.mark.gpu
def test_facebook(shared_data: Path) -> None:
    graph = read(shared_data, "facebook_combined")
    got = count(MaximalCliqueGpu(cuda_device()), graph)
    assert got.total == 869_325_383
    tuning = MaximalCliqueGpu(cuda_device()).tuning
    again = count(MaximalCliqueGpu(cuda_device(), replace(tuning, slots=16, check_steps=7)), graph)
    assert (again.cells, again.checksum) == (got.cells, got.checksum)
