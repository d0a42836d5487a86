"""Butterflies of real graphs, against answers that other programs computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from tests.conftest import EngineCase, make_engine_case, read_edges

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

WEDGES = {"youtube-groupmemberships": 2_256_150, "movielens-1m": 193_107_456, "yelp2018": 58_790_600}
"""Counted wedges of all starts, those of degree 1 included (they are no work items)."""

Reader = Callable[[str], BipartiteGraph]


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def engine(request: pytest.FixtureRequest) -> EngineCase:
    """The engines that are fast enough for real graphs."""
    return make_engine_case(request.param)


@pytest.mark.parametrize("name", BUTTERFLIES)
def test_total(engine: EngineCase, reference_graph: Reader, name: str) -> None:
    graph = reference_graph(name)
    partial = engine.count(graph)
    assert partial.total == BUTTERFLIES[name]
    if name in WEDGES:
        assert partial.work == WEDGES[name] - wedges_of_leaves(graph)


@pytest.mark.parametrize("name", BUTTERFLIES)
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
