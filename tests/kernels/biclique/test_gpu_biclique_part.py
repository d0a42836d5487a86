"""Parts of a graph on the device: the CPU's index bit by bit, its partials item by item, within little memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique import gpu_pairs as biclique_pairs
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.biclique.gpu_index import build_device_index
from papilio.kernels.device.protocol import Device
from papilio.kernels.search.gpu import TreeLauncher
from papilio.kernels.tuning import PairTuning, TableClass
from papilio.motifs import Biclique, Granularity
from papilio.parts import RootPart
from tests.conftest import EMULATOR_SEED, share_of_examples
from tests.kernels.biclique.indices import assert_equal
from tests.kernels.biclique.test_gpu_biclique import EAGER
from tests.tools.devices import cuda_device, emulator
from tests.tools.root_parts import cut_by_definition, group_at_random
from tests.tools.strategies import bipartite_graphs, complete_graph, planted_graph, skewed_graph

NEVER = 1 << 62
SCHEDULES = {
    "hash": PairTuning(tables=(TableClass("hash", 64, 8 << 10, 640), TableClass("slab", 64, 0, NEVER))),
    "dense": PairTuning(tables=(TableClass("dense", 64, 2048, NEVER), TableClass("slab", 64, 0, NEVER))),
    "slab": PairTuning(tables=(TableClass("slab", 64, 0, NEVER),)),
}
MOTIFS = (Biclique(3, 3), Biclique(2, 3), Biclique(4, 2), Biclique(None, 2), Biclique(), Biclique(1, 4))
REQUESTS: list[tuple[Biclique, Granularity]] = [
    (Biclique(3, 3), "total"), (Biclique(2, 2), "total"), (Biclique(), "total"), (Biclique(3, 2), "vertex"),
    (Biclique(3, 1), "vertex"),
]  # fmt: skip


def parts_of(graph: BipartiteGraph, layer: Any, n_groups: int = 3, seed: int = 5) -> list[RootPart]:
    """Cut a graph into parts of random roots."""
    return cut_by_definition(graph, layer, group_at_random(graph, layer, n_groups, seed))


def compare(device: Device, part: RootPart, motif: Biclique, **options: object) -> None:
    """Build both indices of a part and compare all they hold."""
    assert_equal(device, part.graph, motif, part.layer, roots=part.roots, **options)


@pytest.mark.slow
@pytest.mark.parametrize("motif", MOTIFS, ids=str)
@pytest.mark.parametrize("layer", ["u", "v"])
def test_both_indices_of_a_part_are_equal(device: Device, motif: Biclique, layer: str) -> None:
    for graph in (
        skewed_graph(1, 40, 30, 260),
        planted_graph(2, 30, 40, 3, 7, 60, 0.1),
        complete_graph(7, 11),
    ):
        for part in parts_of(graph, layer):
            compare(device, part, motif)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_finds_the_pairs_of_the_roots(device: Device, schedule: str) -> None:
    for part in parts_of(skewed_graph(1, 50, 40, 350), "u"):
        for keep_pairs in (True, False):
            compare(device, part, Biclique(2, 2), tuning=SCHEDULES[schedule], keep_pairs=keep_pairs)


@settings(deadline=None, max_examples=share_of_examples(20), derandomize=True, database=None)
@given(bipartite_graphs(9), st.sampled_from(MOTIFS), st.sampled_from(["u", "v"]), st.integers(0, 50))
def test_drawn_parts(graph: BipartiteGraph, motif: Biclique, layer: str, seed: int) -> None:
    for part in parts_of(graph, layer, 2, seed):
        compare(emulator(EMULATOR_SEED), part, motif)


def test_heavy_roots_of_a_part_are_cut_alike(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    (part, _) = parts_of(complete_graph(60, 4), "u", 2)
    for most in (1, 4, 100):
        monkeypatch.setattr("papilio.kernels.biclique.items.LEAST_ITEM_COST", most)
        monkeypatch.setattr("papilio.kernels.biclique.items.ITEMS_PER_JOB", 1 << 40)
        compare(device, part, Biclique(3, 3))


@pytest.mark.slow
@pytest.mark.parametrize(("motif", "per"), REQUESTS)
def test_partials_are_those_of_the_cpu_item_by_item(device: Device, motif: Biclique, per: Granularity) -> None:
    cpu, gpu = BicliqueCpu(1), BicliqueGpu(device, tuning=EAGER)
    for layer in ("u", "v"):
        for part in parts_of(planted_graph(2, 16, 18, 2, 6, 30, 0.1), layer)[:2]:
            on_cpu, on_gpu = cpu.prepare(part, motif, per), gpu.prepare(gpu.stage(part), motif, per)
            assert cpu.work(on_cpu).tolist() == gpu.work(on_gpu).tolist()
            for item in range(on_cpu.n_items):
                one, two = cpu.run(on_cpu, item, item + 1), gpu.run(on_gpu, item, item + 1)
                assert (one.n_items, one.total, one.cells) == (two.n_items, two.total, two.cells)
                for name, vector in one.vectors.items():
                    np.testing.assert_array_equal(two.vectors[name], vector)


def launched(patch: pytest.MonkeyPatch) -> list[TreeLauncher]:
    """Return the list to which every launcher adds itself from now on."""
    made: list[TreeLauncher] = []
    found = TreeLauncher.__init__

    def record(self: TreeLauncher, *arguments: Any) -> None:
        found(self, *arguments)
        made.append(self)

    patch.setattr(TreeLauncher, "__init__", record)
    return made


@pytest.mark.parametrize("algorithm", ["enumerate", pytest.param("pivot", marks=pytest.mark.slow)])
def test_little_memory_makes_for_smaller_arenas_and_the_same_count(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, motif = planted_graph(5, 22, 22, 1, 18, 20, 0.1), Biclique(5, 3)
    (part,) = parts_of(graph, "u", 1)
    made = launched(monkeypatch)
    totals, seen = set(), []
    for free_bytes in (1 << 32, 1 << 19, 1 << 17):
        engine = BicliqueGpu(emulator(EMULATOR_SEED), algorithm, tuning=EAGER)
        prepared = engine.prepare(part, motif, "total")
        small: Any = BicliqueGpu(emulator(EMULATOR_SEED, free_bytes=free_bytes), algorithm, tuning=EAGER)
        totals.add(small.run(prepared, 0, prepared.n_items).total)
        launcher = made[-1]
        seen.append((launcher.layout.n_streams, launcher.layout.n_warps, launcher.layout.n_slots))
        held = sum(each.slab.nbytes + each.slots.nbytes for each in launcher._memory.values())
        assert held <= free_bytes
    assert len(totals) == 1
    assert totals.pop() > 0
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == 3


def test_pairs_of_a_part_beyond_memory_are_refused() -> None:
    (part,) = parts_of(complete_graph(9, 17), "u", 1)
    engine = BicliqueGpu(emulator(EMULATOR_SEED, free_bytes=1 << 10), "pivot")
    with pytest.raises(CapacityError, match=r"36 pairs of vertices .* bytes of device memory hold"):
        engine.prepare(part, Biclique(3, 3), "total")


def test_counters_of_blocks_make_room_for_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both do not fit, fewer blocks count; the index is the same."""
    made: list[Any] = []
    found = biclique_pairs._Passes.__init__

    def record(self: Any, *arguments: Any) -> None:
        made.append(self)
        found(self, *arguments)

    monkeypatch.setattr(biclique_pairs._Passes, "__init__", record)
    (part, _) = parts_of(complete_graph(60, 8), "u", 2)
    device: Any = emulator(EMULATOR_SEED)
    held = ("counters", "lists")

    def free_bytes() -> int:
        arrays = [getattr(made[-1], name, None) for name in held] if made else []
        return 56_000 - sum(array.nbytes for array in arrays if array is not None)

    monkeypatch.setattr(device, "free_bytes", free_bytes)
    tuning = PairTuning(
        tables=(TableClass("slab", 64, 0, NEVER),), slabs_per_sm=16, slab_fraction=0.5, pair_fraction=0.9
    )
    roomy = PairTuning(tables=tuning.tables, slabs_per_sm=16, slab_fraction=0.5, pair_fraction=1e3)
    slabs = []
    for each in (roomy, tuning):
        compare(device, part, Biclique(3, 3), tuning=each)
        slabs.append(made[-1].n_slabs)
    assert slabs[0] > slabs[1] >= 1
    told = made[-1].explain()
    assert told == (
        (
            f"pairs of the heaviest vertices counted by {slabs[1]} blocks, not {slabs[0]}",
            f"a block needs {8 * made[-1].rows.n_left} bytes of device memory",
        ),
    )
    index = build_device_index(device, part.graph, Biclique(3, 3), "u", tuning=tuning, roots=part.roots)
    assert index.choices == told


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["marvel", "youtube-groupmemberships"])
def test_parts_of_real_graphs(reference_graph: Callable[[str], BipartiteGraph], name: str) -> None:
    """Both indices of each of three parts are equal, and the parts add up to the whole, within a limit of memory."""
    device, graph = cuda_device(), reference_graph(name)
    engine = BicliqueGpu(device)
    motif = Biclique(3, 3)
    whole = engine.prepare(graph, motif, "total")
    total, of_u = 0, np.zeros(graph.n_u, np.uint64)
    for part in parts_of(graph, "u"):
        compare(device, part, motif)
        prepared = engine.prepare(engine.stage(part), motif, "total")
        third = prepared.n_items // 3
        total += engine.run(prepared, 0, third).total
        total += engine.run(prepared, third, prepared.n_items).total
        prepared = engine.prepare(part, motif, "vertex")
        of_u[part.ids_u] += engine.run(prepared, 0, prepared.n_items).vectors["u"]
    assert total == engine.run(whole, 0, whole.n_items).total
    vertices = engine.prepare(graph, motif, "vertex")
    np.testing.assert_array_equal(engine.run(vertices, 0, vertices.n_items).vectors["u"], of_u)
