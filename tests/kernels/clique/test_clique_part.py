"""Cliques counted by parts of a graph: on every engine, any order and any grouping has what the whole graph has."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import EngineUnavailableError, UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.kernels.clique.gpu import CliqueGpu, MaximalCliqueGpu
from papilio.kernels.engine import Engine
from papilio.motifs import Clique, MaximalClique, Motif
from papilio.registry import load_engine
from tests.conftest import EMULATOR_SEED, ENGINES, EngineCase
from tests.kernels.clique.test_clique import edges_of, graphs, random_graph
from tests.kernels.clique.test_maximal import checksum_of
from tests.tools.clique_parts import count_clique_parts, cut_cliques_by_definition
from tests.tools.devices import emulator
from tests.tools.oracle_clique import cliques_of, count_cliques, maximal_cliques

Drawn = tuple[UnipartiteGraph, list[int], list[list[int]]]


@pytest.fixture(scope="module", params=ENGINES)
def case(request: pytest.FixtureRequest) -> EngineCase:
    """How much each engine is asked for: Numba, the CUDA sources on the emulator, the CUDA sources on a GPU."""
    examples, side = {"cpu": (25, 12), "emulator": (6, 9), "gpu": (40, 12)}[request.param]
    return EngineCase(request.param, load(request.param, Clique(3)), examples, side, 10**6)


def load(name: str, motif: Motif, **options: str) -> Engine:
    if name == "emulator":
        device = emulator(EMULATOR_SEED)
        return CliqueGpu(device, **options) if isinstance(motif, Clique) else MaximalCliqueGpu(device)
    try:
        return load_engine(motif, name, 2, **options)  # type: ignore[arg-type]
    except EngineUnavailableError as error:
        pytest.skip(str(error))


@st.composite
def cut_graphs(draw: st.DrawFn, most: int) -> Drawn:
    """Draw a graph, an order and groups of all vertices: from one group down to one of each."""
    graph = draw(graphs(most))
    order = draw(st.permutations(range(graph.n)))
    n_groups = draw(st.integers(1, graph.n))
    groups: list[list[int]] = [[] for _ in range(n_groups)]
    for at, vertex in enumerate(draw(st.permutations(range(graph.n)))):
        groups[at % n_groups if draw(st.booleans()) else 0].append(vertex)
    return graph, order, groups


def test_parts_add_up_to_the_definition(case: EngineCase) -> None:
    def law(drawn: Drawn) -> None:
        graph, order, groups = drawn
        wanted = count_cliques(graph.n, edges_of(graph))
        parts = cut_cliques_by_definition(graph, order, groups, outer=False)
        for motif in (Clique(), Clique(max_k=3)):
            bounded = {cell: count for cell, count in wanted.items() if motif.has_cell(cell)}
            assert count_clique_parts(load(case.name, motif), graph, parts, motif).cells == bounded
        for k, algorithm in ((1, "pivot"), (3, "orient"), (3, "pivot"), (4, "orient"), (4, "auto")):
            engine = load(case.name, Clique(k), algorithm=algorithm)
            assert count_clique_parts(engine, graph, parts, Clique(k), cut_at=2).total == wanted.get((k,), 0)

    case.check(cut_graphs(case.max_side), law)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_every_vertex_and_every_edge_of_parts(case: EngineCase, k: int) -> None:
    def law(drawn: Drawn) -> None:
        graph, order, groups = drawn
        parts = cut_cliques_by_definition(graph, order, groups, outer=False)
        found = [clique for clique in cliques_of(graph.n, edges_of(graph)) if len(clique) == k]
        of_vertices = count_clique_parts(load(case.name, Clique(k)), graph, parts, Clique(k), "vertex")
        of_edges = count_clique_parts(load(case.name, Clique(k)), graph, parts, Clique(k), "edge")
        members = Counter(vertex for clique in found for vertex in clique)
        assert of_vertices.vectors["n"].tolist() == [members[vertex] for vertex in range(graph.n)]
        assert of_edges.vectors["edge"].tolist() == [
            sum({a, b} <= set(clique) for clique in found) for a, b in edges_of(graph)
        ]

    case.check(cut_graphs(case.max_side), law)


def test_maximal_cliques_of_parts_add_up_to_the_definition(case: EngineCase) -> None:
    def law(drawn: Drawn) -> None:
        graph, order, groups = drawn
        parts = cut_cliques_by_definition(graph, order, beginnings(graph, order, groups), outer=True)
        cliques = maximal_cliques(graph.n, edges_of(graph))
        for least in (1, 3):
            motif = MaximalClique(least)
            kept = [clique for clique in cliques if len(clique) >= least]
            got = count_clique_parts(load(case.name, motif), graph, parts, motif, cut_at=1)
            assert got.cells == dict(Counter((len(clique),) for clique in kept))
            assert got.checksum == checksum_of(kept)

    case.check(cut_graphs(case.max_side), law)


def beginnings(graph: UnipartiteGraph, order: list[int], groups: list[list[int]]) -> list[list[int]]:
    """Leave out the vertices whose neighbours all come before: they begin no maximal clique."""
    rank = {vertex: at for at, vertex in enumerate(order)}
    last = {vertex: vertex for vertex in order}
    for a, b in edges_of(graph):
        for one, two in ((a, b), (b, a)):
            last[one] = max(last[one], two, key=rank.__getitem__)
    alone = set(order) - {vertex for edge in edges_of(graph) for vertex in edge}
    return [[vertex for vertex in group if vertex in alone or last[vertex] != vertex] for group in groups]


def test_engines_agree_on_the_work_of_a_part() -> None:
    graph = random_graph(1, 40, 0.4)
    groups = [list(range(0, 40, 2)), list(range(1, 40, 2))]
    for motif, outer in ((Clique(4), False), (MaximalClique(), True)):
        for part in cut_cliques_by_definition(graph, list(range(40)), groups, outer=outer):
            works = []
            for name in ("cpu", "emulator"):
                engine = load(name, motif)
                staged: Any = engine.stage(part)
                works.append(engine.work(engine.prepare(staged, motif, "total")).tolist())
            assert works[0] == works[1]
            assert np.array_equal(part.ids_n, staged.ids_n)


def test_the_order_of_parts_is_by_degree() -> None:
    graph = random_graph(1, 10, 0.5)
    (part,) = cut_cliques_by_definition(graph, list(range(10)), [list(range(10))], outer=False)
    for name in ("cpu", "emulator"):
        engine = load(name, Clique(3), order="degeneracy")
        with pytest.raises(UnsupportedError, match="ordered by degree"):
            engine.prepare(part, Clique(3), "total")
