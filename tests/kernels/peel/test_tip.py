"""Tip numbers and their components: against the definition, by laws, in closed form, and on real graphs."""

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
from papilio.kernels.peel.blooms import index_pairs, pair_bytes
from papilio.kernels.peel.phases import Layer
from papilio.kernels.peel.tip import index_tip, peel_tip
from papilio.kernels.rows.index import index_wedges
from tests.tools.decomposers import DECOMPOSERS, Decomposer, check_forest, make_decomposer
from tests.tools.oracle_peeling import tip_butterflies, tip_numbers
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    planted_graph,
    skewed_graph,
)

LAYERS: tuple[Layer, ...] = ("u", "v")


@pytest.fixture(scope="module", params=DECOMPOSERS)
def decomposer(request: pytest.FixtureRequest) -> Decomposer:
    return make_decomposer(request.param)


def seen_from(graph: BipartiteGraph, layer: Layer) -> BipartiteGraph:
    """Return the graph with the layer as U."""
    return graph if layer == "u" else graph.swap_layers()


def test_drawn_graphs_equal_the_definition(decomposer: Decomposer) -> None:
    def law(graph: BipartiteGraph) -> None:
        for layer in LAYERS:
            found = decomposer.run(graph, "tip", layer)
            numbers, turned = found.peeled.numbers.tolist(), seen_from(graph, layer)
            assert numbers == tip_numbers(turned)
            assert found.forest is not None
            check_forest(found.forest, numbers, tip_butterflies(edge_list(turned)))

    decomposer.check(bipartite_graphs(decomposer.max_side), law)


def test_random_graphs_equal_the_definition(decomposer: Decomposer) -> None:
    for seed in range(decomposer.max_examples // 4):
        graph = skewed_graph(seed, 5 + 3 * (seed % 5), 20 - 2 * (seed % 4), 40 + 9 * seed)
        for layer in LAYERS:
            assert decomposer.numbers(graph, "tip", layer) == tip_numbers(seen_from(graph, layer))


def test_relabelling_changes_nothing(decomposer: Decomposer) -> None:
    def law(example: tuple[BipartiteGraph, int]) -> None:
        graph, seed = example
        random = np.random.default_rng(seed)
        rename_u, rename_v = random.permutation(graph.n_u), random.permutation(graph.n_v)
        other = BipartiteGraph.from_edges(rename_u[graph.u], rename_v[graph.v], graph.n_u, graph.n_v)
        numbers, renamed = (np.array(decomposer.numbers(each, "tip", "u")) for each in (graph, other))
        assert np.array_equal(renamed[rename_u], numbers)

    graphs = st.tuples(bipartite_graphs(decomposer.max_side), st.integers(0, 2**32 - 1))
    decomposer.check(graphs, law)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 7), (2, 2), (2, 9), (5, 5), (6, 13)])
def test_complete_graphs(a: int, b: int, decomposer: Decomposer) -> None:
    graph = complete_graph(a, b)
    for layer, n, other in (("u", a, b), ("v", b, a)):
        found = decomposer.run(graph, "tip", layer)
        assert found.peeled.numbers.tolist() == [(n - 1) * comb(other, 2)] * n
        assert found.forest is not None
        assert found.forest.sizes.tolist() == ([n] if min(a, b) > 1 else [])


def test_numbers_beyond_32_bits(decomposer: Decomposer) -> None:
    """Two vertices that share n neighbours are in C(n, 2) butterflies, here beyond 2^32."""
    n = 100_000 if decomposer.name != "emulator" else 100
    graph = BipartiteGraph.from_edges(np.repeat([0, 1], n), np.tile(np.arange(n), 2), 3, n)
    assert decomposer.numbers(graph, "tip", "u") == [comb(n, 2), comb(n, 2), 0]
    assert comb(n, 2) > 2**32 or decomposer.name == "emulator"


def test_blocks_that_share_a_vertex_of_the_other_layer_are_components_of_their_own(
    decomposer: Decomposer,
) -> None:
    first = {(u, v) for u in range(3) for v in range(3)}
    second = {(u, v) for u in (3, 4) for v in range(2, 6)}
    graph = graph_of(first | second, 6, 6)
    found = decomposer.run(graph, "tip", "u")
    assert found.peeled.numbers.tolist() == [6, 6, 6, 6, 6, 0]
    assert found.forest is not None
    assert found.forest.item_nodes.tolist() == [0, 0, 0, 1, 1, -1]
    assert found.forest.parents.tolist() == [-1, -1]


@pytest.mark.parametrize(("threads", "n_ranges"), [(1, 1), (1, 7), (3, 1), (3, 2), (4, 1000)])
def test_any_number_of_ranges_and_threads_gives_one_answer(
    threads: int, n_ranges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = planted_graph(5, 1500, 280, blocks=6, block_side=16, noise_edges=9000, missing=0.2)
    alone = peel_tip(index_tip(graph, "u", 1), 1, n_ranges=1).numbers
    assert len(set(alone.tolist())) > 20
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    monkeypatch.setattr(phases, "SLICE_EFFORT", 700)
    found = peel_tip(index_tip(graph, "u", threads), threads, n_ranges=n_ranges)
    assert np.array_equal(found.numbers, alone)
    assert (found.ranges == 1) == (n_ranges == 1)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_pairs_are_those_of_the_matrix_product(layer: Layer) -> None:
    graph = skewed_graph(3, 200, 150, 2500)
    pairs = index_pairs(index_wedges(graph), layer, threads=2)
    turned = seen_from(graph, layer)
    dense = np.zeros((turned.n_u, turned.n_v), np.int64)
    dense[turned.u, turned.v] = 1
    shared = dense @ dense.T
    np.fill_diagonal(shared, 0)
    found = np.zeros_like(shared)
    found[np.repeat(np.arange(pairs.n), np.diff(pairs.offsets)), pairs.others] = pairs.common
    assert np.array_equal(found, np.where(shared > 1, shared, 0))
    assert sum(array.nbytes for array in pairs) == pair_bytes(pairs.others.size // 2, pairs.n) + 8


def test_a_graph_too_large_for_the_memory_is_refused_before_it_is_taken() -> None:
    index = index_wedges(skewed_graph(3, 200, 150, 2500))
    with pytest.raises(CapacityError, match=r"tip numbers of layer u, .* choose the other layer, or use a machine"):
        index_pairs(index, "u", 1, memory_bytes=1000)


def test_counts_that_could_pass_64_bits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.kernels.exact.MAX_VERTEX_COUNT", 100)
    with pytest.raises(CapacityError, match="butterflies"):
        index_tip(complete_graph(12, 12), "u", 1)


@pytest.mark.parametrize(
    ("name", "layer", "largest"),
    [("southern-women", "u", 45), ("marvel", "u", 708_599), ("marvel", "v", 6762)],
)
def test_real_graphs(
    name: str,
    layer: Layer,
    largest: int,
    decomposer: Decomposer,
    reference_graph: Callable[[str], BipartiteGraph],
) -> None:
    decomposer.need_fast(name)
    graph = reference_graph(name)
    found = decomposer.run(graph, "tip", layer)
    assert int(found.peeled.numbers.max()) == largest
    if name == "southern-women":
        assert found.peeled.numbers.tolist() == tip_numbers(seen_from(graph, layer))
    assert found.forest is not None
    assert int(found.forest.members.sum()) == int((found.peeled.numbers > 0).sum())
