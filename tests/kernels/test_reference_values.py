"""Butterflies and bicliques of real graphs, against answers that other programs computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique
from tests.conftest import EngineCase, make_engine_case, read_edges
from tests.kernels.biclique.cases import ALGORITHMS, BicliqueCase, make_biclique_case

BUTTERFLIES = {
    "southern-women": 341,
    "moreno-crime": 143,
    "opsahl-ucforum": 76_095,
    "senate": 25_666_956,
    "bonanza": 671_893,
    "marvel": 10_709_594,
    "movielens-100k": 220_548_028,
    "youtube-groupmemberships": 12_540_261,
    "movielens-1m": 16_671_201_295,
    "yelp2018": 185_725_582,
}

BICLIQUES: dict[str, dict[tuple[int, int], int]] = {
    "southern-women": {(2, 3): 267, (3, 2): 389, (3, 3): 128},
    "moreno-crime": {(2, 3): 60, (3, 2): 7, (3, 3): 0},
    "opsahl-ucforum": {(2, 3): 109_687, (3, 2): 172_745, (3, 3): 39_733},
    "senate": {
        (2, 3): 1_745_697_264,
        (3, 2): 135_408_710,
        (3, 3): 6_097_450_881,
        (4, 5): 17_445_456_680_663,
    },
    "bonanza": {(2, 3): 273_423, (3, 2): 9_933_158, (3, 3): 809_791},
    "marvel": {
        (2, 3): 896_875_631,
        (3, 2): 13_882_653,
        (3, 3): 462_550_547,
        (4, 4): 8_634_112_357,
        (8, 8): 4_316_588_655,
    },
    "movielens-100k": {(2, 3): 6_937_935_632, (3, 2): 6_779_918_559, (3, 3): 94_084_647_182},
    "youtube-groupmemberships": {
        (2, 3): 29_386_656,
        (3, 2): 867_741_405,
        (3, 3): 146_517_782,
        (4, 4): 626_892_852,
        (6, 6): 1_309_342_703,
        (8, 8): 205_411_586,
    },
    "movielens-1m": {(2, 3): 1_012_196_331_323, (3, 2): 2_202_667_336_899},
    "yelp2018": {(2, 3): 1_633_657_016, (3, 2): 1_497_669_692},
}

TABLES = ("southern-women", "moreno-crime", "opsahl-ucforum", "bonanza", "marvel", "youtube-groupmemberships")
"""Graphs of which every size is counted in seconds on two processors."""

WEDGES = {"youtube-groupmemberships": 2_256_150, "movielens-1m": 193_107_456, "yelp2018": 58_790_600}
"""Counted wedges of all starts, those of degree 1 included (they are no work items)."""

LARGE = ("youtube-groupmemberships", "movielens-1m", "yelp2018")
"""Graphs that take seconds each: the butterflies of all are counted in every run, the rest among the slow tests."""


def by_size(names: Iterable[str], *others: str) -> list[Any]:
    """Return the names as parameters, those of large graphs and of the others that are given marked as slow."""
    slow = {*LARGE, *others}
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


Reader = Callable[[str], BipartiteGraph]


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def engine(request: pytest.FixtureRequest) -> EngineCase:
    """The engines that are fast enough for real graphs."""
    return make_engine_case(request.param)


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def bicliques(request: pytest.FixtureRequest) -> BicliqueCase:
    """The engines of bicliques that are fast enough for real graphs."""
    return make_biclique_case(request.param)


@pytest.mark.parametrize("name", BUTTERFLIES)
def test_total(engine: EngineCase, reference_graph: Reader, name: str) -> None:
    graph = reference_graph(name)
    partial = engine.count(graph)
    assert partial.total == BUTTERFLIES[name]
    if name in WEDGES:
        assert partial.work == WEDGES[name] - wedges_of_leaves(graph)


@pytest.mark.parametrize("name", by_size(BUTTERFLIES))
def test_per_vertex_and_per_edge(engine: EngineCase, reference_graph: Reader, name: str) -> None:
    graph = reference_graph(name)
    vertex, edge = engine.count(graph, "vertex"), engine.count(graph, "edge")
    total = BUTTERFLIES[name]
    assert vertex.total == edge.total == total
    support = edge.vectors["edge"]
    assert sum(support.tolist()) == 4 * total
    for layer, ends in (("u", graph.u), ("v", graph.v)):
        # A butterfly of a vertex has two edges at it.
        twice = np.zeros(vertex.vectors[layer].size, np.uint64)
        np.add.at(twice, ends, support)
        np.testing.assert_array_equal(twice, 2 * vertex.vectors[layer])


def test_southern_women_bundled(engine: EngineCase, example_data: Path) -> None:
    graph = read_edges(example_data / "southern-women.txt.gz")
    assert (graph.n_u, graph.n_v, graph.n_edges) == (18, 14, 89)
    assert engine.count(graph).total == BUTTERFLIES["southern-women"]


def test_senate_votes_bundled(engine: EngineCase, example_data: Path) -> None:
    graph = read_edges(example_data / "senate-votes.txt.gz", skip_lines=1)
    assert (graph.n_u, graph.n_v, graph.n_edges) == (145, 1056, 27083)
    assert engine.count(graph).total == BUTTERFLIES["senate"]


@pytest.mark.parametrize("name", by_size(BICLIQUES, "marvel"))
def test_bicliques_of_one_size(bicliques: BicliqueCase, reference_graph: Reader, name: str) -> None:
    graph = reference_graph(name)
    assert bicliques.bicliques(graph, Biclique(2, 2)).total == BUTTERFLIES[name]
    for (p, q), count in BICLIQUES[name].items():
        assert bicliques.bicliques(graph, Biclique(p, q)).total == count


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", by_size(TABLES))
def test_bicliques_by_each_algorithm_and_anchor(
    bicliques: BicliqueCase, reference_graph: Reader, name: str, algorithm: str
) -> None:
    graph = reference_graph(name)
    for p, q in BICLIQUES[name].keys() - {(2, 3), (3, 2)}:
        count = BICLIQUES[name][p, q]
        for anchor in ("u", "v") if p == q == 3 and algorithm != "pivot" else ("auto",):
            got = bicliques.bicliques(graph, Biclique(p, q), algorithm=algorithm, anchor=anchor)
            assert got.total == count


@pytest.mark.parametrize("name", by_size(TABLES))
def test_tables_of_bicliques(bicliques: BicliqueCase, reference_graph: Reader, name: str) -> None:
    graph = reference_graph(name)
    table = bicliques.bicliques(graph, Biclique()).cells
    wanted = {**BICLIQUES[name], (2, 2): BUTTERFLIES[name], (1, 1): graph.n_edges}
    assert {cell: table.get(cell, 0) for cell in wanted} == wanted
    for side in (2, 3):
        row = bicliques.bicliques(graph, Biclique(side)).cells
        assert row == {cell: count for cell, count in table.items() if cell[0] == side}
        column = bicliques.bicliques(graph, Biclique(None, side)).cells
        assert column == {cell: count for cell, count in table.items() if cell[1] == side}


@pytest.mark.parametrize("name", ["senate", "movielens-100k"])
def test_rows_of_bicliques_of_dense_graphs(bicliques: BicliqueCase, reference_graph: Reader, name: str) -> None:
    row = bicliques.bicliques(reference_graph(name), Biclique(3)).cells
    assert {cell: row[cell] for cell in ((3, 2), (3, 3))} == {cell: BICLIQUES[name][cell] for cell in ((3, 2), (3, 3))}


@pytest.mark.parametrize("name", by_size(["opsahl-ucforum", "bonanza", "marvel", "youtube-groupmemberships"]))
def test_bicliques_of_every_vertex(bicliques: BicliqueCase, reference_graph: Reader, name: str) -> None:
    graph = reference_graph(name)
    for (p, q), count in BICLIQUES[name].items():
        if p + q > 6:
            continue
        got = bicliques.bicliques(graph, Biclique(p, q), "vertex")
        assert got.total == count
        assert sum(got.vectors["u"].tolist()) == p * count
        assert sum(got.vectors["v"].tolist()) == q * count


def wedges_of_leaves(graph: BipartiteGraph) -> int:
    """Count the wedges that start at a vertex of degree 1, by the definition of the total order."""
    degree = {"u": graph.degree_u, "v": graph.degree_v}
    neighbours = {"u": adjacency(graph.u, graph.v, graph.n_u), "v": adjacency(graph.v, graph.u, graph.n_v)}
    count = 0
    for layer, other in (("u", "v"), ("v", "u")):
        for leaf in np.flatnonzero(degree[layer] == 1).tolist():
            middle = int(neighbours[layer][leaf][0])
            ends = neighbours[other][middle]
            least, side, name = min((-1, layer, leaf), (-int(degree[other][middle]), other, middle))
            tied = ends < name if side == layer else np.full(ends.size, layer < side)
            count += int(np.sum((degree[layer][ends] > -least) | ((degree[layer][ends] == -least) & tied)))
    return count


def adjacency(rows: np.ndarray, columns: np.ndarray, n_rows: int) -> list[np.ndarray]:
    """Return the neighbours of each row."""
    order = np.argsort(rows, kind="stable")
    return np.split(columns[order], np.cumsum(np.bincount(rows, minlength=n_rows))[:-1])
