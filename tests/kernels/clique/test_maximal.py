"""The laws of the engines of maximal cliques: every one runs on every engine."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.motifs import MaximalClique
from papilio.registry import load_engine
from tests.kernels.clique.test_clique import (
    cocktail_party,
    complete,
    edges_of,
    graphs,
    laws,
    make,
    random_graph,
    read,
    union,
)
from tests.tools.oracle_clique import maximal_cliques

ENGINES = ["cpu"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Name of the engine."""
    return str(request.param)


def count(name: str, graph: UnipartiteGraph, least: int = 1) -> Partial:
    motif = MaximalClique(least)
    made = load_engine(motif, name, 2)  # type: ignore[arg-type]
    prepared = made.prepare(graph, motif, "total")
    return made.run(prepared, 0, prepared.n_items)


def checksum_of(cliques: list[tuple[int, ...]]) -> int:
    offsets = np.cumsum([0, *map(len, cliques)])
    ids = np.array([vertex for clique in cliques for vertex in clique], np.int64)
    return sum_hashes(hash_rows((offsets, ids)))


def test_sizes_and_checksum_follow_the_definition(engine: str) -> None:
    @laws(120)
    @given(graphs())
    def run(graph: UnipartiteGraph) -> None:
        cliques = maximal_cliques(graph.n, edges_of(graph))
        for least in (1, 2, 4):
            kept = [clique for clique in cliques if len(clique) >= least]
            got = count(engine, graph, least)
            assert got.cells == dict(Counter((len(clique),) for clique in kept))
            assert (got.total, got.checksum) == (len(kept), checksum_of(kept))

    run()


@pytest.mark.parametrize(("n", "share"), [(60, 0.3), (90, 0.6), (150, 0.2)])
def test_graphs_of_more_than_a_word(engine: str, n: int, share: float) -> None:
    graph = random_graph(n, n, share)
    made = nx.Graph(edges_of(graph))
    made.add_nodes_from(range(n))
    cliques = [tuple(sorted(clique)) for clique in nx.find_cliques(made)]
    got = count(engine, graph)
    assert got.cells == dict(Counter((len(clique),) for clique in cliques))
    assert got.checksum == checksum_of(cliques)


@pytest.mark.parametrize("n", [1, 2, 64, 65, 130])
def test_a_complete_graph_is_one(engine: str, n: int) -> None:
    assert count(engine, complete(n)).cells == {(n,): 1}


@pytest.mark.parametrize("m", [1, 2, 9, 12])
def test_cocktail_parties_have_all_choices(engine: str, m: int) -> None:
    assert count(engine, cocktail_party(m)).cells == {(m,): 2**m}


@pytest.mark.parametrize("thirds", [1, 3, 7])
def test_moon_and_mosers_graph_has_the_most(engine: str, thirds: int) -> None:
    n = 3 * thirds
    graph = make(n, [(a, b) for a, b in combinations(range(n), 2) if a // 3 != b // 3])
    assert count(engine, graph).cells == {(thirds,): 3**thirds}


def test_vertices_without_edges_are_of_size_one(engine: str) -> None:
    graph = make(7, [(1, 2), (2, 4)])
    assert count(engine, graph).cells == {(1,): 4, (2,): 2}
    assert count(engine, graph, 2).cells == {(2,): 2}


def test_unions_add_and_joins_multiply(engine: str) -> None:
    @laws(25)
    @given(graphs(8), graphs(8))
    def run(a: UnipartiteGraph, b: UnipartiteGraph) -> None:
        one, two = count(engine, a).cells, count(engine, b).cells
        assert count(engine, union(a, b, joined=False)).cells == dict(Counter(one) + Counter(two))
        joined = Counter[tuple[int, ...]]()
        for (k, x), (j, y) in product(one.items(), two.items()):
            joined[(k[0] + j[0],)] += x * y
        assert count(engine, union(a, b, joined=True)).cells == dict(joined)

    run()


def test_any_split_and_any_cut_folds_to_the_whole(engine: str) -> None:
    graph, motif = random_graph(5, 90, 0.3), MaximalClique()
    made = load_engine(motif, engine, 2)  # type: ignore[arg-type]
    prepared = made.prepare(graph, motif, "total")
    whole = made.run(prepared, 0, prepared.n_items)
    assert bool((np.diff(made.work(prepared)) <= 0).all())
    folded = Partial(0, 0, 0)
    for begin, end in ((30, 90), (1, 30), (0, 1)):
        folded = fold_partials(folded, made.run(prepared, begin, end))
    assert folded == whole
    calls = iter(range(10**9))
    part = made.run(prepared, 0, prepared.n_items, (10, 20, 30), lambda: next(calls) >= 3)
    assert fold_partials(part, made.run(prepared, part.n_items, prepared.n_items)) == whole


def test_what_cannot_be_counted_is_refused(engine: str) -> None:
    made = load_engine(MaximalClique(), engine)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="unipartite"):
        made.prepare(BipartiteGraph.from_edges([0], [0]), MaximalClique(), "total")
    with pytest.raises(UnsupportedError, match="cannot be counted per 'vertex'"):
        made.prepare(complete(3), MaximalClique(), "vertex")
    with pytest.raises(InputError, match="min_size"):
        MaximalClique(0)


KNOWN = {
    "email-Eu-core": (42_709, 18),
    "wiki-Vote": (459_002, 17),
    "ca-HepPh": (14_937, 239),
    "ca-AstroPh": (36_427, 57),
    "soc-Epinions1": (1_775_065, 23),
}


@pytest.mark.parametrize("name", KNOWN)
def test_real_graphs(engine: str, shared_data: Path, name: str) -> None:
    got = count(engine, read(shared_data, name))
    assert (got.total, max(got.cells)[0]) == KNOWN[name]
