"""The engines of (p,q)-bicliques under test, and graphs of which the answer has a closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import pytest

from papilio.errors import EngineUnavailableError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Engine, Partial, fold_partials
from papilio.motifs import Biclique, Granularity
from papilio.parts import RootPart
from papilio.registry import load_engine
from tests.conftest import EMULATOR_SEED, EngineCase
from tests.tools.devices import emulator
from tests.tools.strategies import graph_of

Cells = dict[tuple[int, int], int]

ALGORITHMS = ("auto", "enumerate", "pivot")
ANCHORS = ("auto", "u", "v")


@dataclass(frozen=True)
class BicliqueCase(EngineCase):
    """An engine of bicliques; ``make`` makes it with other options than the defaults of ``engine``.

    ``max_wedges`` bounds the set operations of explicit graphs.
    """

    make: Callable[..., Engine]

    def need(self, wedges: int) -> None:
        """Skip the test when its graph takes more set operations than this engine is asked for."""
        if wedges > self.max_wedges:
            pytest.skip(f"{wedges} set operations; the {self.name} engine is tested up to {self.max_wedges}")

    def prepare(
        self, graph: BipartiteGraph | RootPart, motif: Biclique, per: Granularity = "total", **options: str
    ) -> tuple[Engine, Any]:
        """Return the engine with these options and the graph prepared for it."""
        engine = self.make(**options) if options else self.engine
        return engine, engine.prepare(graph, motif, per)

    def bicliques(self, graph: BipartiteGraph, motif: Biclique, per: Granularity = "total", **options: str) -> Partial:
        """Count all items at once."""
        engine, prepared = self.prepare(graph, motif, per, **options)
        partial = engine.run(prepared, 0, prepared.n_items)
        assert partial.n_items == prepared.n_items
        return partial

    def split_bicliques(
        self, graph: BipartiteGraph, motif: Biclique, cuts: list[int], per: Granularity = "total"
    ) -> Partial:
        """Count the items in intervals that end at the cuts, in a shuffled order, and fold."""
        engine, prepared = self.prepare(graph, motif, per)
        ends = sorted({min(cut, prepared.n_items) for cut in cuts} | {prepared.n_items})
        intervals = list(zip([0, *ends[:-1]], ends, strict=True))
        parts = [engine.run(prepared, *each) for each in intervals[1::2] + intervals[::2]]
        folded = parts[0]
        for part in parts[1:]:
            folded = fold_partials(folded, part)
        return folded


def make_biclique_case(name: str) -> BicliqueCase:
    """Build one engine of the fixture, or skip with the reason why it cannot run here."""
    motif = Biclique(2, 2)
    if name == "cpu":
        return BicliqueCase(
            name,
            load_engine(motif, "cpu", 2),
            50,
            11,
            10**9,
            lambda **options: load_engine(motif, "cpu", 2, **options),
        )
    if name == "emulator":
        from papilio.kernels.biclique.gpu import BicliqueGpu

        device = emulator(EMULATOR_SEED)
        return BicliqueCase(name, BicliqueGpu(device), 8, 8, 20_000, lambda **options: BicliqueGpu(device, **options))
    try:
        engine = load_engine(motif, "gpu")
    except EngineUnavailableError as error:
        pytest.skip(str(error))
    return BicliqueCase(name, engine, 50, 11, 10**11, lambda **options: load_engine(motif, "gpu", **options))


def nested_graph(n: int) -> BipartiteGraph:
    """Return the graph in which vertex i of U has the first i + 1 of n vertices of V."""
    return graph_of({(i, j) for i in range(n) for j in range(i + 1)}, n, n)


def count_nested(n: int, p: int, q: int) -> int:
    """Count the bicliques of :func:`nested_graph` by their first vertex of U."""
    return sum(comb(n - 1 - i, p - 1) * comb(i + 1, q) for i in range(q - 1, n - p + 1))


def crown_graph(n: int) -> BipartiteGraph:
    """Return K(n, n) without the edges of a perfect matching; it has 2^n - 2 maximal bicliques."""
    return graph_of({(i, j) for i in range(n) for j in range(n) if i != j}, n, n)


def count_crown(n: int, p: int, q: int) -> int:
    """Count the bicliques of :func:`crown_graph`."""
    return comb(n, p) * comb(n - p, q)


def disjoint_union(one: BipartiteGraph, two: BipartiteGraph) -> BipartiteGraph:
    """Return both graphs beside each other."""
    moved = {(one.n_u + u, one.n_v + v) for u, v in zip(two.u.tolist(), two.v.tolist(), strict=True)}
    edges = set(zip(one.u.tolist(), one.v.tolist(), strict=True)) | moved
    return graph_of(edges, one.n_u + two.n_u, one.n_v + two.n_v)
