"""The decomposers under test, each as a function of a graph; and what a forest must be."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.peel.decompose import Decomposed, decompose_on_cpu, decompose_on_gpu
from papilio.kernels.peel.gpu import PeelTuning
from papilio.kernels.peel.phases import Forest, Layer, PeelingKind, ignore_report
from tests.conftest import EMULATOR_SEED, check_law
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_peeling import components_of

__all__ = ["DECOMPOSERS", "SMALL_BLOCKS", "Decomposer", "check_forest", "make_decomposer"]


@dataclass(frozen=True)
class Decomposer:
    """A decomposer and how much can be asked of it.

    Attributes
    ----------
    name : str
        Parameter of the fixture.
    run : callable
        Of a graph, a kind, a layer and, for cores, the least degree of that layer.
    max_examples : int
        Hypothesis examples per law.
    max_side : int
        Largest layer of a drawn graph.
    """

    name: str
    run: Callable[..., Decomposed]
    max_examples: int
    max_side: int

    def check(self, strategy: st.SearchStrategy[Any], law: Callable[[Any], None]) -> None:
        """Run a law over drawn examples."""
        check_law(self.max_examples, strategy, law)

    def need_fast(self, name: str) -> None:
        """Skip a real graph that would take the emulator too long."""
        if self.name == "emulator" and name != "southern-women":
            pytest.skip(f"{name} is too large for the emulator")

    def numbers(
        self,
        graph: BipartiteGraph | UnipartiteGraph,
        kind: PeelingKind,
        layer: Layer | None = None,
        least: int | None = None,
    ) -> list[int]:
        """Return the numbers alone."""
        found: list[int] = self.run(graph, kind, layer, least).peeled.numbers.tolist()
        return found


SMALL_BLOCKS = PeelTuning(coarse_threads=64, fine_threads=64, links_per_range=40)
"""Ranges of a few links, so that small graphs have several."""


def make_decomposer(name: str) -> Decomposer:
    """Return a decomposer, or skip with the reason why it cannot run here."""
    if name == "cpu":
        return Decomposer(
            name,
            lambda graph, kind, layer=None, least=None: decompose_on_cpu(
                graph, kind, layer, 2, None, True, ignore_report, least=least
            ),
            60,
            12,
        )
    device = cuda_device() if name == "gpu" else emulator(EMULATOR_SEED)
    tuning = PeelTuning() if name == "gpu" else SMALL_BLOCKS
    examples, side = (60, 12) if name == "gpu" else (12, 8)
    return Decomposer(
        name,
        lambda graph, kind, layer=None, least=None: decompose_on_gpu(
            device, graph, kind, layer, True, ignore_report, tuning=tuning, least=least
        ),
        examples,
        side,
    )


DECOMPOSERS = ["cpu", "emulator", pytest.param("gpu", marks=pytest.mark.gpu)]


def check_forest(forest: Forest, numbers: list[int], motifs: list[tuple[Hashable, ...]]) -> None:
    """Compare a forest with the components by definition; items are numbered from 0."""
    wanted = components_of(dict(enumerate(numbers)), motifs)
    levels, parents = forest.levels.tolist(), forest.parents.tolist()
    assert levels == sorted(levels)
    assert set(levels) == set(wanted)
    assert sum(forest.members.tolist()) == sum(number > 0 for number in numbers)
    for node, parent in enumerate(parents):
        assert parent < node
        assert parent < 0 or levels[parent] < levels[node]
    for item, (node, number) in enumerate(zip(forest.item_nodes.tolist(), numbers, strict=True)):
        assert (node < 0) == (number == 0), item
        assert node < 0 or levels[node] == number
    for level, components in wanted.items():
        groups: dict[int, set[Hashable]] = {}
        for item, node in enumerate(forest.components_at(level).tolist()):
            if node >= 0:
                groups.setdefault(node, set()).add(item)
        assert {frozenset(group) for group in groups.values()} == components
        assert all(forest.sizes[node] == len(group) for node, group in groups.items())
