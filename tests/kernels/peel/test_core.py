"""Core numbers, (alpha, beta)-cores and their table: against the definition, by laws, on real graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.biclique.core import reduce_to_core
from papilio.kernels.jit import Ints
from papilio.kernels.peel import core, core_gpu
from papilio.kernels.peel.core import NONE_FIXED, core_bytes, count_vertices, index_core, peel_by_degree
from papilio.kernels.peel.core_gpu import index_core_gpu
from papilio.kernels.peel.core_table import list_cores_on_cpu, list_cores_on_gpu
from papilio.kernels.peel.phases import Layer, ignore_report
from tests.conftest import EMULATOR_SEED
from tests.kernels.clique.test_clique import read
from tests.tools.decomposers import DECOMPOSERS, Decomposer, check_forest, make_decomposer
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle_peeling import core_edges, core_numbers, core_of
from tests.tools.strategies import bipartite_graphs, complete_graph, relabelled, skewed_graph

LAYERS: tuple[Layer, ...] = ("u", "v")

DEGENERACY = {"email-Eu-core": 34, "facebook_combined": 115, "ca-HepPh": 238, "soc-Epinions1": 67}


@pytest.fixture(scope="module", params=DECOMPOSERS)
def decomposer(request: pytest.FixtureRequest) -> Decomposer:
    return make_decomposer(request.param)


def one_layer(graph: BipartiteGraph) -> UnipartiteGraph:
    """Return a unipartite graph with the edges of another one."""
    return UnipartiteGraph.from_edges(graph.u, graph.v, max(graph.n_u, graph.n_v))


def tabulate(decomposer: Decomposer, graph: BipartiteGraph | UnipartiteGraph) -> Ints:
    """Return the table of all cores."""
    if decomposer.name == "cpu":
        return list_cores_on_cpu(graph, 2, None, ignore_report)
    device = cuda_device() if decomposer.name == "gpu" else emulator(EMULATOR_SEED)
    return list_cores_on_gpu(device, graph, ignore_report)


def sizes_by_definition(graph: BipartiteGraph) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Return the vertices of both layers and the edges of every core that is not empty."""
    edges, found = core_edges(graph), {}
    most = max(graph.n_u, graph.n_v)
    for alpha, beta in product(range(1, most + 1), repeat=2):
        inside = core_of(edges, lambda x, least=(alpha, beta): least[x >= graph.n_u])  # type: ignore[misc]
        if inside:
            n_u = sum(x < graph.n_u for x in inside)  # type: ignore[operator]
            found[alpha, beta] = (n_u, len(inside) - n_u, sum(inside >= set(edge) for edge in edges))
    return found


def test_drawn_graphs_equal_the_definition(decomposer: Decomposer) -> None:
    def law(example: tuple[BipartiteGraph, Layer, int]) -> None:
        graph, layer, least = example
        for each, fixed in ((graph, layer), (one_layer(graph), None)):
            found = decomposer.run(each, "core", fixed, least if fixed else None)
            numbers = found.peeled.numbers.tolist()
            assert numbers == core_numbers(each, fixed, least)
            assert found.forest is not None
            check_forest(found.forest, numbers, core_edges(each))

    graphs = st.tuples(bipartite_graphs(decomposer.max_side), st.sampled_from(LAYERS), st.integers(1, 4))
    decomposer.check(graphs, law)


def test_the_table_has_each_core_once_at_its_least_degrees(decomposer: Decomposer) -> None:
    def law(graph: BipartiteGraph) -> None:
        sizes = sizes_by_definition(graph)
        wanted: dict[tuple[int, int, int], tuple[int, int]] = {}
        for pair, size in sizes.items():  # cores are nested, so that equal sizes are equal cores
            wanted[size] = max(pair, wanted.get(size, (0, 0)))
        table = tabulate(decomposer, graph).tolist()
        assert table == sorted([*pair, *size] for size, pair in wanted.items())
        for (alpha, beta), size in sizes.items():
            inside = [row[2:] for row in table if row[0] >= alpha and row[1] >= beta]
            assert max(inside, key=lambda row: row[0] + row[1]) == list(size)

    decomposer.check(bipartite_graphs(min(decomposer.max_side, 8)), law)


def test_the_table_of_a_unipartite_graph(decomposer: Decomposer) -> None:
    graph = one_layer(skewed_graph(5, 30, 30, 120))
    numbers = core_numbers(graph)
    wanted = []
    for k in sorted(set(numbers) - {0}):
        inside = [numbers[u] >= k and numbers[v] >= k for u, v in core_edges(graph)]
        wanted.append([k, sum(number >= k for number in numbers), sum(inside)])
    assert tabulate(decomposer, graph).tolist() == wanted


def test_relabelling_changes_nothing(decomposer: Decomposer) -> None:
    def law(example: tuple[BipartiteGraph, int]) -> None:
        graph, seed = example
        other, new_u, new_v = relabelled(graph, seed)
        numbers, renamed = (np.array(decomposer.numbers(each, "core", "u", 2)) for each in (graph, other))
        assert np.array_equal(renamed[np.append(new_u, graph.n_u + new_v)], numbers)

    decomposer.check(st.tuples(bipartite_graphs(decomposer.max_side), st.integers(0, 2**32 - 1)), law)


def test_layers_are_exchanged_with_their_degrees(decomposer: Decomposer) -> None:
    graph = skewed_graph(2, 25, 30, 150)
    turned = graph.swap_layers()
    for least in (1, 3):
        numbers = decomposer.numbers(graph, "core", "u", least)
        assert decomposer.numbers(turned, "core", "v", least) == numbers[graph.n_u :] + numbers[: graph.n_u]
    table, other = tabulate(decomposer, graph), tabulate(decomposer, turned)
    assert sorted(table[:, [1, 0, 3, 2, 4]].tolist()) == other.tolist()


def test_cores_are_nested(decomposer: Decomposer) -> None:
    graph = skewed_graph(3, 25, 20, 130)
    before = np.full(graph.n_u + graph.n_v, graph.n_edges)
    for alpha in range(1, 8):
        numbers = np.array(decomposer.numbers(graph, "core", "u", alpha))
        assert bool((numbers <= before).all())
        before = numbers
    both = np.array(decomposer.numbers(graph, "core"))
    for k in range(1, int(both.max()) + 2):
        assert np.array_equal(both >= k, np.array(decomposer.numbers(graph, "core", "u", k)) >= k)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 7), (3, 5), (6, 40)])
def test_complete_graphs(a: int, b: int, decomposer: Decomposer) -> None:
    graph = complete_graph(a, b)
    found = decomposer.run(graph, "core", "u", b)
    assert found.peeled.numbers.tolist() == [a] * (a + b)
    assert found.forest is not None
    assert found.forest.sizes.tolist() == [a + b]
    assert decomposer.numbers(graph, "core", "u", b + 1) == [0] * (a + b)
    assert tabulate(decomposer, graph).tolist() == [[b, a, a, b, a * b]]


@pytest.mark.parametrize("graph", [BipartiteGraph.from_edges([], [], 3, 2), UnipartiteGraph.from_edges([], [], 4)])
def test_graphs_without_edges(graph: BipartiteGraph | UnipartiteGraph, decomposer: Decomposer) -> None:
    n, _ = count_vertices(graph)
    assert decomposer.numbers(graph, "core") == [0] * n
    assert len(tabulate(decomposer, graph)) == 0


def test_a_long_tail_and_a_hub_take_a_round_for_each_step(decomposer: Decomposer) -> None:
    """A path leaves from its ends, two vertices a round; a star of many leaves is gone in two."""
    n = 41
    path = UnipartiteGraph.from_edges(np.arange(n - 1), np.arange(1, n))
    found = decomposer.run(path, "core").peeled
    assert (found.numbers.tolist(), found.fine_rounds) == ([1] * n, (n + 1) // 2)
    star = UnipartiteGraph.from_edges(np.zeros(300, int), np.arange(1, 301))
    found = decomposer.run(star, "core").peeled
    assert (found.numbers.tolist(), found.fine_rounds) == ([1] * 301, 2)


def test_slices_of_the_peeling_give_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = one_layer(skewed_graph(7, 300, 300, 3000))
    rows = index_core(graph)
    degree, seen = np.diff(rows.indptr), []
    whole = peel_by_degree(rows.indptr, rows.ids, degree, NONE_FIXED, True)
    monkeypatch.setattr(core, "_SLICE_EFFORT", 1)
    found = peel_by_degree(rows.indptr, rows.ids, degree, NONE_FIXED, True, lambda *event: seen.append(event))
    assert np.array_equal(found[0], whole[0])
    assert found[1] == whole[1]
    assert len(seen) > 5
    assert seen[-1] == ("fine", graph.n, graph.n)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_schedule_of_one_block_or_more_gives_one_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = skewed_graph(seed, 20, 30, 160)
    wanted = core_numbers(graph, "v", 2)
    for most in (0, 1 << 17):
        monkeypatch.setattr(core_gpu, "_BLOCK_EDGES", most)
        device = emulator(seed, sm_count=3)
        rows = index_core_gpu(device, graph)
        assert core_gpu.peel_core_gpu(device, rows, core.fix_layer(20, 50, "v", 2)).numbers.tolist() == wanted


@pytest.mark.parametrize("most", [0, 1 << 22])
def test_peelings_one_by_one_and_side_by_side_give_one_table(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = skewed_graph(4, 20, 30, 160)
    wanted = list_cores_on_cpu(graph, 1, None, ignore_report)
    monkeypatch.setattr(core_gpu, "_BATCH_EDGES", most)
    seen: list[tuple[str, int, int]] = []
    found = list_cores_on_gpu(emulator(2, sm_count=3), graph, lambda *event: seen.append(event))
    assert np.array_equal(found, wanted)
    total = seen[-1][2]
    assert [done for phase, done, _ in seen if phase == "fine"] == [
        *range(3 if most else 1, total, 3 if most else 1), total
    ]  # fmt: skip


def test_numbers_counted_in_shared_memory_and_beyond() -> None:
    """Stars of more leaves than bins: the numbers of alpha = 1 are the degrees of their centres."""
    n = 1100
    graph = BipartiteGraph.from_edges(np.arange(n), np.r_[np.zeros(n - 3, int), 1, 1, 1])
    wanted = [[1, 3, n, 2, n], [1, n - 3, n - 3, 1, n - 3]]
    assert list_cores_on_gpu(emulator(1), graph, ignore_report).tolist() == wanted
    assert list_cores_on_cpu(graph, 1, None, ignore_report).tolist() == wanted


def test_the_reduction_before_bicliques_is_the_same_core() -> None:
    graph = skewed_graph(9, 200, 150, 1500)
    rows = index_core(graph)
    for p, q in ((2, 3), (4, 4), (7, 2)):
        kept = core.peel_core(rows, core.fix_layer(rows.first_v, rows.n, "u", q)).numbers >= p
        reduced = reduce_to_core(graph, "u", p, q)
        assert np.flatnonzero(kept[: graph.n_u]).tolist() == reduced.left_ids.tolist()
        assert np.flatnonzero(kept[graph.n_u :]).tolist() == reduced.right_ids.tolist()


def test_a_graph_too_large_for_the_memory_is_refused() -> None:
    graph = skewed_graph(3, 200, 150, 2500)
    with pytest.raises(CapacityError, match=r"cores of \d+ edges need about .* of memory"):
        index_core(graph, core_bytes(350, graph.n_edges) - 1)
    with pytest.raises(CapacityError, match=r"cores of \d+ edges need about .* of device memory"):
        index_core_gpu(emulator(1, free_bytes=2000), graph)
    with pytest.raises(CapacityError, match="the graph has 2147483648 vertices"):
        count_vertices(BipartiteGraph(2**31 - 1, 1, graph.u[:0], graph.v[:0]))


@pytest.mark.parametrize("name", DEGENERACY)
def test_real_graphs(name: str, decomposer: Decomposer, shared_data: Path) -> None:
    decomposer.need_fast(name)
    graph = read(shared_data, name)
    found = decomposer.run(graph, "core")
    assert int(found.peeled.numbers.max()) == DEGENERACY[name]
    assert found.forest is not None
    assert int(found.forest.members.sum()) == int((found.peeled.numbers > 0).sum())


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["senate", "marvel", "youtube-groupmemberships", "facebook_combined", "soc-Epinions1"])
def test_the_gpu_equals_the_cpu_on_real_graphs(
    name: str, reference_graph: Callable[[str], BipartiteGraph], shared_data: Path
) -> None:
    graph = read(shared_data, name) if name in DEGENERACY else reference_graph(name)
    cpu, gpu = make_decomposer("cpu"), make_decomposer("gpu")
    asked: list[tuple[Layer | None, int | None]] = [(None, None)]
    if isinstance(graph, BipartiteGraph):
        asked = [(layer, least) for layer in LAYERS for least in (1, 3, 10)]
    for layer, least in asked:
        one, other = (each.run(graph, "core", layer, least) for each in (cpu, gpu))
        assert np.array_equal(one.peeled.numbers, other.peeled.numbers)
        assert one.peeled.fine_rounds == other.peeled.fine_rounds
        assert one.forest is not None
        assert other.forest is not None
        assert np.array_equal(one.forest.item_nodes, other.forest.item_nodes)
    assert np.array_equal(tabulate(cpu, graph), tabulate(gpu, graph))
