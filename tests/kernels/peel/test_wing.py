"""Wing numbers and their components: against the definition, by laws, in closed form, and on real graphs."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels import threads as chunks
from papilio.kernels.peel import cpu as phases
from papilio.kernels.peel.blooms import bloom_bytes, index_blooms
from papilio.kernels.peel.wing import index_wing, peel_wing
from papilio.kernels.rows.index import index_wedges
from tests.tools.decomposers import DECOMPOSERS, Decomposer, check_forest, make_decomposer
from tests.tools.oracle_peeling import wing_butterflies, wing_numbers
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    planted_graph,
    skewed_graph,
)


@pytest.fixture(scope="module", params=DECOMPOSERS)
def decomposer(request: pytest.FixtureRequest) -> Decomposer:
    return make_decomposer(request.param)


def motifs_of(graph: BipartiteGraph) -> list[tuple[int, ...]]:
    """Return the butterflies of a graph as edge ids."""
    edges = edge_list(graph)
    ids = {edge: i for i, edge in enumerate(edges)}
    return [tuple(ids[edge] for edge in motif) for motif in wing_butterflies(edges)]


def test_drawn_graphs_equal_the_definition(decomposer: Decomposer) -> None:
    def law(graph: BipartiteGraph) -> None:
        found = decomposer.run(graph, "wing", None)
        numbers = found.peeled.numbers.tolist()
        assert numbers == wing_numbers(graph)
        assert found.forest is not None
        check_forest(found.forest, numbers, motifs_of(graph))

    decomposer.check(bipartite_graphs(decomposer.max_side), law)


def test_random_graphs_equal_the_definition(decomposer: Decomposer) -> None:
    for seed in range(decomposer.max_examples // 4):
        graph = skewed_graph(seed, 5 + 3 * (seed % 5), 20 - 2 * (seed % 4), 40 + 9 * seed)
        assert decomposer.numbers(graph, "wing") == wing_numbers(graph)


def test_relabelling_and_swapping_the_layers_change_nothing(decomposer: Decomposer) -> None:
    def law(example: tuple[BipartiteGraph, int]) -> None:
        graph, seed = example
        random = np.random.default_rng(seed)
        rename_u, rename_v = random.permutation(graph.n_u), random.permutation(graph.n_v)
        other = BipartiteGraph.from_edges(rename_u[graph.u], rename_v[graph.v], graph.n_u, graph.n_v)
        numbers = dict(zip(edge_list(graph), decomposer.numbers(graph, "wing"), strict=True))
        renamed = dict(zip(edge_list(other), decomposer.numbers(other, "wing"), strict=True))
        assert all(renamed[int(rename_u[u]), int(rename_v[v])] == number for (u, v), number in numbers.items())
        swapped = graph.swap_layers()
        turned = dict(zip(edge_list(swapped), decomposer.numbers(swapped, "wing"), strict=True))
        assert {(u, v): number for (v, u), number in turned.items()} == numbers

    graphs = st.tuples(bipartite_graphs(decomposer.max_side), st.integers(0, 2**32 - 1))
    decomposer.check(graphs, law)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 7), (2, 2), (2, 9), (5, 5), (6, 13)])
def test_complete_graphs(a: int, b: int, decomposer: Decomposer) -> None:
    found = decomposer.run(complete_graph(a, b), "wing", None)
    assert found.peeled.numbers.tolist() == [(a - 1) * (b - 1)] * (a * b)
    assert found.forest is not None
    assert found.forest.sizes.tolist() == ([a * b] if min(a, b) > 1 else [])


def test_blocks_that_share_a_vertex_are_components_of_their_own(decomposer: Decomposer) -> None:
    """Two complete blocks through one vertex of U share no butterfly; an edge between them is in none."""
    first = {(u, v) for u in range(3) for v in range(3)}
    second = {(u, v) for u in (2, 3) for v in range(3, 7)}
    graph = graph_of(first | second | {(0, 7)}, 4, 8)
    found = decomposer.run(graph, "wing", None)
    numbers = dict(zip(edge_list(graph), found.peeled.numbers.tolist(), strict=True))
    assert {numbers[edge] for edge in first} == {4}
    assert {numbers[edge] for edge in second} == {3}
    assert numbers[0, 7] == 0
    assert found.forest is not None
    assert found.forest.levels.tolist() == [3, 4]
    assert found.forest.parents.tolist() == [-1, -1]
    assert found.forest.sizes.tolist() == [8, 9]


@pytest.mark.parametrize(("threads", "n_ranges"), [(1, 1), (1, 7), (3, 1), (3, 2), (4, 1000)])
def test_any_number_of_ranges_and_threads_gives_one_answer(
    threads: int, n_ranges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = planted_graph(5, 150, 140, blocks=4, block_side=14, noise_edges=1200, missing=0.2)
    alone = peel_wing(index_wing(graph, 1), 1, n_ranges=1).numbers
    assert len(set(alone.tolist())) > 20
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    monkeypatch.setattr(phases, "SLICE_EFFORT", 700)
    found = peel_wing(index_wing(graph, threads), threads, n_ranges=n_ranges)
    assert np.array_equal(found.numbers, alone)
    assert (found.ranges == 1) == (n_ranges == 1)


def test_every_edge_has_its_number_within_the_subgraph_of_its_level() -> None:
    """In the subgraph of wings numbered k or more, every edge is in k butterflies: the law of the definition."""
    graph = skewed_graph(11, 400, 300, 6000)
    numbers = peel_wing(index_wing(graph), n_ranges=9).numbers
    for level in np.unique(numbers)[:: len(np.unique(numbers)) // 6]:
        kept = numbers >= level
        part = BipartiteGraph(graph.n_u, graph.n_v, graph.u[kept], graph.v[kept])
        dense = np.zeros((graph.n_u, graph.n_v), np.int64)
        dense[part.u, part.v] = 1
        shared = dense @ dense.T
        # Of an edge (u, v): the sum over the other neighbours x of v of their common neighbours with u, less v.
        supports = (shared @ dense - dense * (shared.diagonal()[:, None])) - dense.sum(axis=0) + 1
        assert int(supports[part.u, part.v].min()) >= int(level)


def test_the_index_holds_every_butterfly_once() -> None:
    graph = skewed_graph(3, 200, 150, 2500)
    index = index_blooms(index_wedges(graph, with_edge_ids=True), threads=2)
    sizes = np.diff(index.offsets)
    assert int(sizes.min()) >= 2
    assert sum(comb(int(size), 2) for size in sizes) == len(wing_butterflies(edge_list(graph)))
    for wedge in range(index.n_wedges):
        ends = [(int(graph.u[e]), int(graph.v[e])) for e in (index.first[wedge], index.second[wedge])]
        assert (ends[0][0] == ends[1][0]) != (ends[0][1] == ends[1][1])
    assert sum(array.nbytes for array in index) == bloom_bytes(index.n_wedges, index.n_blooms, graph.n_edges) + 16


def test_a_graph_too_large_for_the_memory_is_refused_before_it_is_taken() -> None:
    graph = skewed_graph(3, 200, 150, 2500)
    index = index_wedges(graph, with_edge_ids=True)
    full = index_blooms(index, 1)
    needed = 2 * bloom_bytes(full.n_wedges, full.n_blooms, graph.n_edges)
    assert index_blooms(index, 1, needed).n_wedges == full.n_wedges
    with pytest.raises(CapacityError, match=r"wing numbers of .* need about .* use a machine with more"):
        index_blooms(index, 1, needed - 1)


@pytest.mark.parametrize(
    ("name", "largest"), [("southern-women", 12), ("marvel", 1761), ("youtube-groupmemberships", 1316)]
)
def test_real_graphs(
    name: str, largest: int, decomposer: Decomposer, reference_graph: Callable[[str], BipartiteGraph]
) -> None:
    decomposer.need_fast(name)
    graph = reference_graph(name)
    found = decomposer.run(graph, "wing", None)
    assert int(found.peeled.numbers.max()) == largest
    if name == "southern-women":
        assert found.peeled.numbers.tolist() == wing_numbers(graph)
    assert found.forest is not None
    assert int(found.forest.members.sum()) == int((found.peeled.numbers > 0).sum())
