"""Every (p,q) of small graphs on the CPU engine, by every algorithm, against the definition."""

from __future__ import annotations

import random
from typing import Any

import pytest

from papilio.errors import UnsupportedError
from papilio.kernels.engine import fold_partials, load_engine
from papilio.motifs import Biclique
from tests.oracle_biclique import count_all, count_bicliques, count_vertices
from tests.strategies import graph_of

ALGORITHMS = ("auto", "enumerate", "pivot")


def random_edges(seed: int) -> tuple[set[tuple[int, int]], int, int]:
    chance = random.Random(seed)
    n_u, n_v, density = chance.randint(2, 9), chance.randint(2, 9), chance.random()
    return {(u, v) for u in range(n_u) for v in range(n_v) if chance.random() < density}, n_u, n_v


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(8))
def test_one_size_equals_the_definition(seed: int, algorithm: str) -> None:
    edges, n_u, n_v = random_edges(seed)
    graph = graph_of(edges, n_u, n_v)
    for p in range(1, 5):
        for q in range(1, 5):
            engine: Any = load_engine(Biclique(p, q), "cpu", 1, algorithm=algorithm)
            prepared = engine.prepare(graph, Biclique(p, q), "total")
            assert engine.run(prepared, 0, prepared.n_items).total == count_bicliques(edges, p, q)


@pytest.mark.parametrize("seed", range(20))
def test_the_table_of_all_sizes_equals_the_definition_and_any_split_folds_to_it(seed: int) -> None:
    edges, n_u, n_v = random_edges(100 + seed)
    engine: Any = load_engine(Biclique(), "cpu", 2)
    prepared = engine.prepare(graph_of(edges, n_u, n_v), Biclique(), "total")
    expected = {cell: count for cell, count in count_all(edges).items() if count}
    whole = engine.run(prepared, 0, prepared.n_items)
    assert whole.cells == expected
    assert whole.total == sum(expected.values())
    middle = prepared.n_items // 2
    parts = [engine.run(prepared, 0, middle), engine.run(prepared, middle, prepared.n_items)]
    assert fold_partials(*parts).cells == expected


@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("seed", range(8))
def test_every_vertex_equals_the_definition(seed: int, anchor: str) -> None:
    edges, n_u, n_v = random_edges(200 + seed)
    graph = graph_of(edges, n_u, n_v)
    engine: Any = load_engine(Biclique(2, 2), "cpu", 2, anchor=anchor)
    for p in range(1, 5):
        for q in range(1, 5):
            prepared = engine.prepare(graph, Biclique(p, q), "vertex")
            partial = engine.run(prepared, 0, prepared.n_items)
            of_u, of_v = count_vertices(edges, p, q)
            assert partial.total == count_bicliques(edges, p, q)
            assert partial.vectors["u"].tolist() == [of_u[u] for u in range(n_u)]
            assert partial.vectors["v"].tolist() == [of_v[v] for v in range(n_v)]


def test_pivoting_cannot_tell_vertices_and_says_so() -> None:
    engine: Any = load_engine(Biclique(2, 2), "cpu", 1, algorithm="pivot")
    with pytest.raises(UnsupportedError, match="use 'enumerate' or 'auto'"):
        engine.prepare(graph_of({(0, 0)}, 1, 1), Biclique(2, 2), "vertex")
