"""What all GPU engines of searches keep of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from papilio.errors import LeaseTooLargeError
from papilio.families import FAMILIES, family_of, resolve
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.device.protocol import Kernel, Module
from papilio.kernels.tree.gpu import TreeEngine, explain_layout, join_classes, lay_out, make_classes
from papilio.motifs import Biclique, Clique, Granularity, MaximalBiclique, MaximalClique, Motif
from tests.kernels.biclique.test_gpu_biclique import EAGER, GRAPHS
from tests.kernels.clique.test_clique import random_graph
from tests.tools.devices import emulator
from tests.tools.strategies import planted_graph

QUESTIONS: list[tuple[Motif, Granularity]] = [
    (Biclique(3, 3), "total"),
    (Biclique(4, 3), "total"),
    (Biclique(3, 3), "vertex"),
    (Biclique(), "total"),
    (Clique(4), "total"),
    (Clique(4), "edge"),
    (Clique(), "total"),
    (MaximalBiclique(), "total"),
    (MaximalClique(), "total"),
]


def test_all_engines_of_searches_are_asked() -> None:
    found = {
        name
        for name, family in FAMILIES.items()
        if isinstance(made := resolve(family.engines["gpu"]), type) and issubclass(made, TreeEngine)
    }
    assert found == {motif.name for motif, _ in QUESTIONS} | {"balanced-biclique"}


class Listening:
    """A module that notes which sources were waited for, with their defines."""

    def __init__(self, module: Module, source: tuple[Any, ...], waited: set[tuple[Any, ...]]) -> None:
        self._module, self._source, self._waited = module, source, waited

    def get_function(self, name: str) -> Kernel:
        self._waited.add(self._source)
        return self._module.get_function(name)


@pytest.mark.parametrize(
    ("motif", "per"), QUESTIONS, ids=[f"{motif.title} per {per}" for motif, per in QUESTIONS]
)
def test_a_run_waits_for_no_compiler(motif: Motif, per: Granularity, monkeypatch: pytest.MonkeyPatch) -> None:
    device, waited = emulator(3), set[tuple[Any, ...]]()
    load = device.load

    def listen(stem: str, defines: Mapping[str, int]) -> Module:
        return Listening(load(stem, defines), (stem, *sorted(defines.items())), waited)

    monkeypatch.setattr(device, "load", listen)
    engine: Any = resolve(family_of(motif).engines["gpu"])(device)
    kind = family_of(motif).graph_kind
    graph = random_graph(3, 24, 0.5) if kind == "unipartite" else planted_graph(3, 12, 14, 2, 6, 30, 0.1)
    prepared = engine.prepare(graph, motif, per)
    ready = set(waited)
    assert engine.run(prepared, 0, prepared.n_items).total > 0
    assert waited == ready


HEAVY = make_classes(np.array([40, 10_000, 3_000, 9_998]), EAGER)
SHAPE = 0, 4
ROOM_STREAMS = 4 * 4 * 10_000 * 2 * 4
"""Bytes that must be free for two warps in each of four streams, with a quarter of the memory for their slabs."""


def test_items_are_classed_by_what_they_need() -> None:
    assert [one.items.tolist() for one in HEAVY] == [[0, 2], [1, 3]]
    assert [one.far_words for one in HEAVY] == [3_000, 10_000]
    assert HEAVY[1].between(2, 4).items.tolist() == [3]
    assert HEAVY[1].between(2, 4).far_words == 10_000
    assert HEAVY[0].between(0, 1).far_words == 40
    assert HEAVY[1].between(2, 3).far_words == 0


@pytest.mark.parametrize(
    ("free_bytes", "said"),
    [
        (1 << 32, []),
        (
            ROOM_STREAMS,
            ["1 blocks at a time, not 8, for the heaviest work items", "queues of 4 sub-trees, not 8"],
        ),
        (ROOM_STREAMS - 1, ["launches follow each other in one stream"]),
        (
            54_000,
            [
                "launches follow each other in one stream",
                "blocks of one warp",
                "1 blocks at a time, not 16, for the heaviest work items",
                "no sub-trees are left to waiting warps",
            ],
        ),
        (50_000, ["2 work items do not fit the device"]),
    ],
)
def test_what_is_too_little_is_told(free_bytes: int, said: list[str]) -> None:
    told = explain_layout(emulator(0, free_bytes=free_bytes), EAGER, HEAVY, *SHAPE)
    assert [what for what, _ in told] == said
    assert all("bytes" in reason and str(free_bytes) in reason for what, reason in told if "fit" not in what)


@pytest.mark.parametrize(("free_bytes", "n_classes"), [(1 << 32, 1), (ROOM_STREAMS, 2), (54_000, 2)])
def test_classes_that_memory_does_not_bound_are_launched_together(free_bytes: int, n_classes: int) -> None:
    layout = lay_out(emulator(0, free_bytes=free_bytes), EAGER, HEAVY, *SHAPE)
    classes, joined = join_classes(HEAVY, layout)
    assert len(classes) == len(joined.blocks) == n_classes
    assert sorted(item for one in classes for item in one.items.tolist()) == [0, 1, 2, 3]
    assert all((np.diff(one.items) > 0).all() for one in classes)
    assert [one.far_words for one in classes] == [3_000, 10_000][2 - n_classes :]
    assert joined.blocks == layout.blocks[2 - n_classes :]


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_a_plan_says_so(per: Granularity) -> None:
    tight = replace(EAGER, slab_fraction=1e-6)
    for tuning, wanted in ((EAGER, False), (tight, True)):
        prepared = BicliqueGpu(emulator(0), tuning=tuning).prepare(GRAPHS["planted"](), Biclique(5, 4), per)
        told = [what for what, _ in prepared.decisions]
        assert ("launches follow each other in one stream" in told) == wanted
        assert ("no sub-trees are left to waiting warps" in told) == (wanted and per == "total")


def test_what_is_told_is_what_is_done() -> None:
    for free_bytes in (1 << 32, 1 << 21, 1 << 20, 1 << 18, 1 << 17, 54_000):
        device = emulator(0, free_bytes=free_bytes)
        layout = lay_out(device, EAGER, HEAVY, *SHAPE)
        told = " ".join(what for what, _ in explain_layout(device, EAGER, HEAVY, *SHAPE))
        assert ("one stream" in told) == (layout.n_streams == 1)
        assert ("one warp" in told) == (layout.n_warps == 1)
        assert ("blocks at a time" in told) == (min(layout.blocks) < layout.resident)
        assert ("sub-trees" in told) == (layout.n_slots < EAGER.slots)
    with pytest.raises(LeaseTooLargeError):
        lay_out(emulator(0, free_bytes=50_000), EAGER, HEAVY, *SHAPE)
