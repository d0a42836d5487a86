"""Maximal bicliques counted by parts of a graph: on every engine, their sum is what the whole graph has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import EngineUnavailableError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Engine, fold_partials
from papilio.kernels.exact import hash_rows
from papilio.kernels.maximal.gpu import MaximalBicliqueGpu
from papilio.motifs import Biclique, MaximalBiclique
from papilio.registry import load_engine
from tests.conftest import EMULATOR_SEED, ENGINES, EngineCase
from tests.kernels.maximal.questions import motifs
from tests.tools.devices import emulator
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.root_parts import (
    count_parts,
    cut_by_definition,
    cut_maximal_by_definition,
    group_at_random,
)
from tests.tools.strategies import bipartite_graphs, edge_list, planted_graph, skewed_graph

Drawn = tuple[BipartiteGraph, Any, list[list[int]]]

LAYERS = ("u", "v")


def load(name: str, anchor: str = "auto") -> Engine:
    if name == "emulator":
        return MaximalBicliqueGpu(emulator(EMULATOR_SEED), anchor)
    try:
        return load_engine(MaximalBiclique(), name, 2, anchor=anchor)  # type: ignore[arg-type]
    except EngineUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=ENGINES)
def case(request: pytest.FixtureRequest) -> EngineCase:
    """How much each engine is asked for: Numba, the CUDA sources on the emulator, the CUDA sources on a GPU."""
    examples, side = {"cpu": (60, 11), "emulator": (10, 9), "gpu": (60, 12)}[request.param]
    return EngineCase(request.param, load(request.param), examples, side, 10**6)


@st.composite
def cut_graphs(draw: st.DrawFn, max_side: int) -> Drawn:
    """Draw a graph, the layer of the roots and their groups: down to one root each."""
    graph = draw(bipartite_graphs(max_side))
    layer = draw(st.sampled_from(LAYERS))
    n_groups = draw(st.sampled_from([1, 2, 3, 50]))
    return graph, layer, group_at_random(graph, layer, n_groups, draw(st.integers(0, 99)))


def test_parts_add_up_to_the_definition(case: EngineCase) -> None:
    def law(drawn: tuple[Drawn, MaximalBiclique, bool]) -> None:
        (graph, layer, groups), motif, reduces = drawn
        least = (motif.min_u, motif.min_v) if layer == "u" else (motif.min_v, motif.min_u)
        parts = cut_maximal_by_definition(graph, layer, groups, least if reduces else None)
        got = count_parts(case.engine, graph, parts, motif)
        found = [each for each in maximal_bicliques_of(edge_list(graph)) if motif.has_cell(tuple(map(len, each)))]
        hashes = [int(hash_rows(*(np.array([side], np.int32) for side in each))[0]) for each in found]
        assert got.cells == dict(Counter(tuple(map(len, each)) for each in found))
        assert got.checksum == sum(hashes) % (1 << 64)

    case.check(st.tuples(cut_graphs(case.max_side), motifs(), st.booleans()), law)


@pytest.mark.parametrize(("layer", "seed"), [("u", 1), ("v", 2)])
def test_parts_add_up_to_the_whole_graph(case: EngineCase, layer: Any, seed: int) -> None:
    side = 90 if case.name != "emulator" else 15
    graph = skewed_graph(seed, side, side, 9 * side) if seed == 1 else planted_graph(2, side, side, 5, 7, side, 0.1)
    prepared: Any = case.engine.prepare(graph, MaximalBiclique(), "total")
    whole = case.engine.run(prepared, 0, prepared.n_items)
    parts = cut_maximal_by_definition(graph, layer, group_at_random(graph, layer, 4, seed))
    got = count_parts(case.engine, graph, parts, MaximalBiclique())
    assert (got.total, got.cells, got.checksum) == (whole.total, whole.cells, whole.checksum)
    assert got.total > 20


def test_any_split_of_the_items_adds_up_to_the_part(case: EngineCase) -> None:
    graph = planted_graph(2, 14, 13, 3, 5, 20, 0.1)
    part = cut_maximal_by_definition(graph, "u", group_at_random(graph, "u", 2, 1))[1]
    assert part.excluded.size > 0
    engine, motif = case.engine, MaximalBiclique()
    prepared: Any = engine.prepare(engine.stage(part), motif, "total")
    n = prepared.n_items
    whole = engine.run(prepared, 0, n)
    for step in (1, 5):
        ends = [*range(0, n, step), n]
        folded = engine.run(prepared, 0, 0)
        for begin, end in pairwise(ends):
            folded = fold_partials(folded, engine.run(prepared, begin, end))
        assert replace(folded, work=0) == replace(whole, work=0)
    sliced = engine.run(prepared, 0, n, bounds=list(range(1, n)))
    assert replace(sliced, work=0) == replace(whole, work=0)
    calls = iter([False, True])
    some = engine.run(prepared, 0, n, bounds=list(range(1, n)), cut=lambda: next(calls, True))
    rest = engine.run(prepared, some.n_items, n)
    assert replace(fold_partials(some, rest), work=0) == replace(whole, work=0)


def test_engines_agree_on_the_items_of_a_part() -> None:
    graph = planted_graph(3, 40, 30, 4, 6, 60, 0.1)
    for layer in LAYERS:
        groups = group_at_random(graph, layer, 3, 5)  # type: ignore[arg-type]
        for part in cut_maximal_by_definition(graph, layer, groups):  # type: ignore[arg-type]
            cpu, gpu = (load(name) for name in ("cpu", "emulator"))
            works = [
                each.work(each.prepare(each.stage(part), MaximalBiclique(), "total")).tolist() for each in (cpu, gpu)
            ]
            assert works[0] == works[1]


def test_parts_of_another_layer_or_motif_are_refused() -> None:
    graph = planted_graph(3, 20, 20, 2, 5, 20, 0.1)
    groups = group_at_random(graph, "u", 2, 1)
    of_bicliques = cut_by_definition(graph, "u", groups)[0]
    part = cut_maximal_by_definition(graph, "u", groups)[0]
    for name in ("cpu", "emulator"):
        with pytest.raises(UnsupportedError, match="roots in layer U"):
            load(name, "v").prepare(part, MaximalBiclique(), "total")
        with pytest.raises(UnsupportedError, match="cannot count a RootPart"):
            load(name).prepare(of_bicliques, MaximalBiclique(), "total")
    with pytest.raises(UnsupportedError, match="cannot count a MaximalPart"):
        load_engine(Biclique(2, 2), "cpu").prepare(part, Biclique(2, 2), "total")
