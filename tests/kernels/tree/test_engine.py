"""What all GPU engines of searches keep of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from papilio.families import FAMILIES, family_of, resolve
from papilio.kernels.device.protocol import Kernel, Module
from papilio.kernels.tree.gpu import TreeEngine
from papilio.motifs import Biclique, Clique, Granularity, MaximalBiclique, MaximalClique, Motif
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
