"""In-memory graphs: order, duplicates, sizes, signs, and what is refused."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papilio.errors import CapacityError, GraphError
from papilio.graph import _SORTED_AT_ONCE, MAX_VERTICES, BipartiteGraph, UnipartiteGraph
from tests.tools.strategies import bipartite_graphs, edge_list

pairs = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60)


@given(pairs)
def test_edges_come_out_sorted_once_each(drawn: list[tuple[int, int]]) -> None:
    graph = BipartiteGraph.from_edges([u for u, _ in drawn], [v for _, v in drawn])
    assert edge_list(graph) == sorted(set(drawn))
    assert graph.u.dtype == graph.v.dtype == np.int32
    assert (graph.n_u, graph.n_v) == tuple(max((p[i] for p in drawn), default=-1) + 1 for i in (0, 1))
    graph.validate()


@given(bipartite_graphs())
def test_views_agree_with_the_edges(graph: BipartiteGraph) -> None:
    edges = edge_list(graph)
    assert graph.n_edges == len(edges)
    assert graph.degree_u.tolist() == [sum(u == i for u, _ in edges) for i in range(graph.n_u)]
    assert graph.degree_v.tolist() == [sum(v == i for _, v in edges) for i in range(graph.n_v)]
    assert graph.indptr.dtype == np.int64
    for i in range(graph.n_u):
        assert graph.v[graph.indptr[i] : graph.indptr[i + 1]].tolist() == [v for u, v in edges if u == i]


@given(bipartite_graphs())
def test_swapping_layers_twice_is_the_identity(graph: BipartiteGraph) -> None:
    swapped = graph.swap_layers()
    swapped.validate()
    assert edge_list(swapped) == sorted((v, u) for u, v in edge_list(graph))
    assert swapped.swap_layers() == graph


@pytest.mark.parametrize("n_rows", [1000, _SORTED_AT_ONCE, _SORTED_AT_ONCE + 1, 400_003])
@pytest.mark.parametrize("sizes", [(70_000, 61_000), (2**16, 2**16), (2**16, 2**16 + 1), (5, 2**31 - 1), (900, 800)])
def test_many_edges_are_sorted_by_any_key(sizes: tuple[int, int], n_rows: int) -> None:
    """Keys of 32 bits or 64, sorted by one thread or two; the corners of both layers among them, edges twice."""
    rng = np.random.default_rng(n_rows)
    u, v = (np.append(rng.integers(0, size, n_rows), (0, 0, size - 1, size - 1)) for size in sizes)
    v[-4:] = 0, sizes[1] - 1, 0, sizes[1] - 1
    u[::7], v[::7] = u[0], v[0]
    graph = BipartiteGraph.from_edges(u, v, *sizes)
    expected = np.unique(u << 32 | v)
    assert np.array_equal(graph.u, expected >> 32)
    assert np.array_equal(graph.v, expected & 0xFFFFFFFF)
    assert graph.u.dtype == graph.v.dtype == np.int32
    signed = BipartiteGraph.from_edges(u, v, *sizes, sign=np.ones(u.size))
    assert np.array_equal(graph.v, signed.v)
    assert np.array_equal(graph.u, signed.u)


def test_signs_follow_their_edges_and_the_first_duplicate_wins() -> None:
    graph = BipartiteGraph.from_edges([1, 0, 1, 0], [0, 1, 0, 0], sign=[-1, 1, 1, -1])
    assert edge_list(graph) == [(0, 0), (0, 1), (1, 0)]
    assert graph.signed
    assert graph.sign is not None
    assert graph.sign.dtype == np.int8
    assert graph.sign.tolist() == [-1, 1, -1]
    assert graph.swap_layers().sign.tolist() == [-1, -1, 1]  # type: ignore[union-attr]
    assert graph != BipartiteGraph.from_edges([0, 0, 1], [0, 1, 0])
    assert graph != "graph"


def test_given_sizes_keep_isolated_vertices() -> None:
    graph = BipartiteGraph.from_edges([1], [2], n_u=5, n_v=9)
    assert (graph.n_u, graph.n_v) == (5, 9)
    empty = BipartiteGraph.from_edges([], [], n_u=3)
    assert (empty.n_u, empty.n_v, empty.n_edges) == (3, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 5], [0, 0], 3, 1), "u holds ids 0 to 5; expected 0 to 2"),
        (([0, 0], [0, -1], 1, 2), "v holds ids -1 to 0"),
        (([0, 1], [0], 2, 1), "u has 2 entries and v has 1"),
        (([[0]], [0], 1, 1), "u has 2 dimensions"),
        (([0.5], [0], 1, 1), "dtype float64"),
        (([], [], -1, 1), "n_u is -1"),
        (([0, 1], [0, 0], 2, 1, [1, 2]), "sign"),
        (([0, 1], [0, 0], 2, 1, [1]), "sign has shape"),
    ],
)
def test_wrong_bipartite_input_is_named(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        BipartiteGraph.from_edges(*arguments)  # type: ignore[arg-type]


def test_layers_beyond_32_bit_ids_are_refused() -> None:
    assert BipartiteGraph.from_edges([], [], MAX_VERTICES, MAX_VERTICES).n_u == 2**31 - 1
    with pytest.raises(CapacityError, match=f"n_v is {2**31}; at most {2**31 - 1}"):
        BipartiteGraph.from_edges([0], [2**31 - 1])


def test_validate_names_the_first_edge_out_of_order() -> None:
    u, v = np.array([0, 1, 1], np.int32), np.array([0, 1, 1], np.int32)
    with pytest.raises(GraphError, match=r"edge 2 is \(1, 1\) after \(1, 1\)"):
        BipartiteGraph(2, 2, u, v).validate()
    with pytest.raises(GraphError, match="shape"):
        BipartiteGraph(2, 2, u, v[:2]).validate()


@given(pairs)
def test_unipartite_edges_are_oriented_once_without_loops(drawn: list[tuple[int, int]]) -> None:
    graph = UnipartiteGraph.from_edges([u for u, _ in drawn], [v for _, v in drawn])
    wanted = sorted({(min(p), max(p)) for p in drawn if p[0] != p[1]})
    assert list(zip(graph.u.tolist(), graph.v.tolist(), strict=True)) == wanted
    assert graph.n == max((max(p) for p in drawn), default=-1) + 1
    assert graph.degree.tolist() == [sum(i in p for p in wanted) for i in range(graph.n)]
    assert not graph.signed
    graph.validate()


def test_wrong_unipartite_graphs_are_named() -> None:
    one, two = np.array([1], np.int32), np.array([2], np.int32)
    with pytest.raises(GraphError, match="u >= v"):
        UnipartiteGraph(3, two, one).validate()
    with pytest.raises(GraphError, match="sign contains"):
        UnipartiteGraph(3, one, two, np.array([3], np.int8)).validate()
    with pytest.raises(GraphError, match="expected the same number"):
        UnipartiteGraph.from_edges([0, 1], [1])
    with pytest.raises(CapacityError, match=f"n is {2**31}"):
        UnipartiteGraph.from_edges([0], [1], n=2**31)


def test_arrays_of_a_device_are_taken() -> None:
    """They are no NumPy arrays; engines make graphs of what they have staged."""

    class OnDevice:
        __cuda_array_interface__: ClassVar[dict[str, object]] = {}
        dtype = np.dtype(np.int32)

    array = OnDevice()
    graph = BipartiteGraph(1, 1, array, array)  # type: ignore[arg-type]
    assert graph.u is array
