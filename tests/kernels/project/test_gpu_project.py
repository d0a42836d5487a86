"""Projections on a GPU: the rows of the CPU engine bit for bit, by every schedule, from launches of any size."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import strategies as st

from papilio.errors import CapacityError, InputError, LeaseTooLargeError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels import listing as row_blocks
from papilio.kernels.announce import get_passed
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial
from papilio.kernels.project import cpu
from papilio.kernels.project.cpu import ProjectionCpu
from papilio.kernels.project.gpu import ProjectionGpu
from papilio.kernels.tuning import TableClass, WedgeTuning
from papilio.motifs import Butterfly, Listing, PairSide, PairTest, Projection, Weighting
from papilio.parts import StartBlock
from papilio.registry import motif_row
from tests.conftest import EMULATOR_SEED, check_law, read_edges
from tests.kernels.wedge.test_gpu_butterfly import NEVER, PLAIN, SCHEDULES
from tests.tools.devices import cuda_device, emulator
from tests.tools.pairs import all_pairs
from tests.tools.strategies import bipartite_graphs, complete_graph, graphs_of_all_starts, skewed_graph

TABLES = {name: tuning for name, tuning in SCHEDULES.items() if "hubs" not in name}
QUESTIONS: list[tuple[Weighting | None, PairTest | None, float]] = [
    (None, None, 0.0), ("jaccard", None, 0.0), ("cosine", "hypergeometric", 0.3), ("hyperbolic", None, 0.0),
    ("resource", "hypergeometric", 1.0), (None, "expected-degrees", 0.2), ("checkerboards", None, 0.0),
    ("togetherness", None, 0.0),
]  # fmt: skip

Columns = list[list[Any]]


def ask(layer: PairSide, min_common: int, question: tuple[Weighting | None, PairTest | None, float]) -> Projection:
    weighting, test, fdr = question
    return Projection(layer, min_common, weighting, test, fdr if test else None)


def list_parts(
    engine: Any, graph: BipartiteGraph, motif: Projection, cuts: Sequence[int] = ()
) -> tuple[dict[int | None, Columns], list[Partial]]:
    """List all items, run by run between the cuts; return the columns of each part, and the partials."""
    prepared, parts, lock = (
        engine.prepare(graph, motif, "total"),
        dict[int | None, Columns](),
        threading.Lock(),
    )

    def sink(*columns: Any, part: int | None = None) -> None:
        with lock:
            own = parts.setdefault(part, [[] for _ in columns])
            for values, column in zip(own, columns, strict=True):
                values += column.tolist()

    inner = sorted({min(cut, prepared.n_items) for cut in cuts})
    spans = zip([0, *inner], [*inner, prepared.n_items], strict=True)
    return parts, [engine.run(prepared, *span, sink=sink) for span in spans]


def sort_rows(parts: dict[int | None, Columns]) -> list[tuple[Any, ...]]:
    rows = [row for columns in parts.values() for row in zip(*columns, strict=True)]
    return sorted((tuple(pair), *numbers) for pair, *numbers in rows)


def check_against_cpu(engine: ProjectionGpu, graph: BipartiteGraph, motif: Projection, cuts: Sequence[int] = ()) -> int:
    """Compare items, costs, rows and partials, listed and counted; return the number of rows."""
    on_cpu, counting = ProjectionCpu(1, Listing()), ProjectionGpu(engine.device, tuning=engine.tuning)
    expected, wanted = list_parts(on_cpu, graph, motif, cuts)
    found, got = list_parts(engine, graph, motif, cuts)
    rows = sort_rows(found)
    assert rows == sort_rows(expected)  # equal floats have equal bits: none is NaN or less than 0
    assert got == wanted
    prepared = engine.prepare(graph, motif, "total")
    one = on_cpu.prepare(graph, motif, "total")
    assert engine.work(prepared).tolist() == one.work.tolist()
    for layer in ("ids_u", "ids_v"):
        assert getattr(prepared, layer).tolist() == getattr(one, layer).tolist()
    assert counting.run(prepared, 0, prepared.n_items) == ProjectionCpu(1).run(one, 0, one.n_items)
    return len(rows)


@pytest.fixture(scope="module")
def graphs() -> dict[str, BipartiteGraph]:
    """Graphs with hubs on both layers, twins, stars, and starts of one to many entries and wedges."""
    return graphs_of_all_starts()


@pytest.mark.parametrize("schedule", TABLES)
def test_every_schedule_finds_the_rows_of_the_cpu(
    device: Device, graphs: dict[str, BipartiteGraph], schedule: str
) -> None:
    engine = ProjectionGpu(device, Listing(), TABLES[schedule])
    for number, graph in enumerate(graphs.values()):
        for layer in ("u", "v"):
            least = 1 + number % 3
            assert check_against_cpu(engine, graph, Projection(layer, least)) > 0  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", TABLES)
def test_tuning_reaches_the_schedule(device: Device, graphs: dict[str, BipartiteGraph], schedule: str) -> None:
    """The kernel that a schedule is named after is launched, so that the test above tests it."""
    engine, launched = ProjectionGpu(device, Listing(), TABLES[schedule]), set()
    for graph in graphs.values():
        prepared = engine.prepare(graph, Projection("u"), "total")
        if prepared.split is not None and (prepared.split.chunks > 1).any():
            launched.add("split")
        found = engine._find_bounds(prepared, [0, prepared.n_items])
        for each, (first, last) in zip(prepared.schedules, found, strict=True):
            launched |= {each.kernel.removeprefix("butterfly_")} if first < last else set()
    assert schedule.split(",")[0] in launched
    assert not any(name.startswith("hubs") for name in launched)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("layer", ["u", "v"])
def test_weights_and_tests_are_those_of_the_cpu_bit_for_bit(
    device: Device, layer: PairSide, question: tuple[Weighting | None, PairTest | None, float]
) -> None:
    engine = ProjectionGpu(device, Listing())
    u = np.r_[np.zeros(90, int), np.repeat(np.arange(1, 9), 40)]  # one row three windows longer than the others
    hub = BipartiteGraph.from_edges(u, np.r_[np.arange(90), np.tile(np.arange(20, 60), 8)])
    n_rows = [
        check_against_cpu(engine, graph, ask(layer, 2, question), (3, 40))
        for graph in (skewed_graph(5, 120, 80, 1100), hub)
    ]
    assert n_rows[0] > 50


@pytest.mark.parametrize("layer", ["u", "v"])
def test_rows_of_any_graph_are_those_of_the_cpu(device: Device, layer: PairSide) -> None:
    engine = ProjectionGpu(device, Listing())

    def law(example: tuple[BipartiteGraph, int, int]) -> None:
        graph, least, number = example
        check_against_cpu(engine, graph, ask(layer, least, QUESTIONS[number]))

    strategy = st.tuples(bipartite_graphs(), st.integers(1, 4), st.integers(0, len(QUESTIONS) - 1))
    check_law(24, strategy, law)


@pytest.mark.parametrize("layer", ["u", "v"])
def test_pairs_are_those_of_the_product(device: Device, layer: PairSide) -> None:
    graph = skewed_graph(8, 250, 150, 2500)
    matrix = scipy.sparse.csr_matrix((np.ones(graph.n_edges, np.int64), (graph.u, graph.v)), (graph.n_u, graph.n_v))
    product = scipy.sparse.triu(matrix @ matrix.T if layer == "u" else matrix.T @ matrix, 1).tocoo()
    for least in (1, 2, 9):
        kept = product.data >= least
        columns = (each[kept].tolist() for each in (product.row, product.col, product.data))
        expected = sorted(((a, b), common) for a, b, common in zip(*columns, strict=True))
        found, (partial,) = list_parts(ProjectionGpu(device, Listing()), graph, Projection(layer, least))
        assert sort_rows(found) == expected
        assert partial.total == len(expected) > 0


@pytest.mark.parametrize("n", [31, 255, 256, 257, 300])
def test_counts_up_to_the_degree(device: Device, n: int) -> None:
    """Counters of 8 and 16 bits, in tables and of starts that blocks share."""
    graph = complete_graph(3, n)
    for schedule in ("dense, four warps", "split, four warps", "hash, four warps"):
        engine = ProjectionGpu(device, Listing(), TABLES[schedule])
        assert check_against_cpu(engine, graph, Projection("u", n, "resource")) == 3
        assert check_against_cpu(engine, graph, Projection("u", n + 1)) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("n", [65_535, 65_536, 200_000])
def test_widest_counters(n: int) -> None:
    device, graph = cuda_device(), complete_graph(3, n)
    for schedule in ("dense, four warps", "split, four warps"):
        engine = ProjectionGpu(device, Listing(), TABLES[schedule])
        assert check_against_cpu(engine, graph, Projection("u", n, "hyperbolic")) == 3


@pytest.mark.parametrize(("max_pairs", "cuts"), all_pairs([1, 60, 500], [(), (1, 2, 30, 70)], share=2))
def test_small_launches_and_any_split_list_the_same(
    max_pairs: int, cuts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProjectionGpu, "max_pairs", max_pairs)
    monkeypatch.setattr(ProjectionGpu, "chunk_rows", 23)
    engine = ProjectionGpu(emulator(EMULATOR_SEED), Listing())
    for number in (0, 3, 4):
        motif = ask("u", 2, QUESTIONS[number])
        assert check_against_cpu(engine, skewed_graph(3, 110, 70, 800), motif, cuts) > 100


def test_launches_have_few_wedges_and_few_pairs(
    device: Device, monkeypatch: pytest.MonkeyPatch, graphs: dict[str, BipartiteGraph]
) -> None:
    engine, motif = ProjectionGpu(device, Listing()), Projection("u", 2)
    prepared = engine.prepare(graphs["skewed"], motif, "total")
    costs, most = engine.work(prepared), prepared.most_pairs
    spans = list[tuple[int, int]]()
    plain = engine._run_slices

    def run(prepared: Any, bounds: Any, *given: Any) -> int:
        spans.append((bounds[0], bounds[1]))
        return plain(prepared, bounds, *given)

    monkeypatch.setattr(engine, "_run_slices", run)
    for max_pairs, max_wedges in ((200, NEVER), (NEVER, 300), (200, 300)):
        spans.clear()
        monkeypatch.setattr(ProjectionGpu, "max_pairs", max_pairs)
        monkeypatch.setattr(ProjectionGpu, "max_wedges", max_wedges)
        total = engine.run(prepared, 0, prepared.n_items).total
        assert total == check_against_cpu(engine, graphs["skewed"], motif)
        assert len(spans) > 3
        for begin, end in spans:
            alone = end - begin == 1
            assert alone or most[begin:end].sum() <= max(max_pairs, most.max())
            assert alone or costs[begin:end].sum() <= max_wedges


def test_rows_come_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ranks of start and end, whatever the order in which threads ran; shared out to writers by turns."""
    monkeypatch.setattr(row_blocks, "available_threads", lambda: 3)
    monkeypatch.setattr(ProjectionGpu, "chunk_rows", 50)
    graph, motif = skewed_graph(4, 90, 60, 700), Projection("u", 2, "resource")
    runs = [list_parts(ProjectionGpu(emulator(seed), Listing()), graph, motif) for seed in (1, 2)]
    assert runs[0] == runs[1]
    assert sorted(runs[0][0]) == [0, 1, 2]
    monkeypatch.setattr(ProjectionGpu, "chunk_rows", 1 << 20)
    monkeypatch.setattr(row_blocks, "available_threads", lambda: 1)
    (columns,) = list_parts(ProjectionGpu(emulator(3), Listing()), graph, motif)[0].values()
    by_degree = np.argsort(-graph.degree_u, kind="stable")
    rank = np.empty(graph.n_u, int)
    rank[by_degree] = np.arange(graph.n_u)
    places = [tuple(sorted((rank[a], rank[b]), reverse=True)) for a, b in columns[0]]
    assert places == sorted(places)


def test_a_run_is_cut_between_launches_and_tells_how_far_it_is(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProjectionGpu, "max_pairs", 100)
    graph, motif = skewed_graph(3, 110, 70, 800), Projection("u", 2)
    engine = ProjectionGpu(device, Listing())
    prepared = engine.prepare(graph, motif, "total")
    passed, n_rows = list[int](), 0

    def cut() -> bool:
        passed.append(get_passed().items)
        return len(passed) == 3

    def sink(pairs: Any, common: Any, part: int | None = None) -> None:
        nonlocal n_rows
        n_rows += len(pairs)

    monkeypatch.setattr(row_blocks, "available_threads", lambda: 1)
    found = engine.run(prepared, 5, prepared.n_items, (), cut, sink)
    assert passed == sorted(set(passed))
    assert 0 < found.n_items == passed[-1] < prepared.n_items - 5
    one = ProjectionCpu(1, Listing())
    assert found == one.run(one.prepare(graph, motif, "total"), 5, 5 + found.n_items)
    assert n_rows == found.total > 0
    assert engine.run(prepared, 5, prepared.n_items, (), lambda: True).n_items > 0


def test_a_limit_ends_a_listing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProjectionGpu, "chunk_rows", 10)
    graph, motif = skewed_graph(3, 110, 70, 800), Projection("u", 2)
    every = sort_rows(list_parts(ProjectionCpu(1, Listing()), graph, motif)[0])
    for limit in (1, 25, len(every)):
        found, (partial,) = list_parts(ProjectionGpu(device, Listing(limit)), graph, motif)
        rows = sort_rows(found)
        assert len(set(rows)) == len(rows) == partial.total == limit
        assert partial.capped
        assert set(rows) <= set(every)
    found, (partial,) = list_parts(ProjectionGpu(device, Listing(len(every) + 1)), graph, motif)
    assert (sort_rows(found), partial.capped) == (every, False)


def test_what_a_sink_raises_ends_the_run(device: Device) -> None:
    def fail(*columns: Any, part: int | None = None) -> None:
        raise OSError("disk full")

    engine = ProjectionGpu(device, Listing())
    prepared = engine.prepare(complete_graph(9, 17), Projection("u"), "total")
    with pytest.raises(OSError, match="disk full"):
        engine.run(prepared, 0, prepared.n_items, sink=fail)


def test_memory_bounds_launches() -> None:
    graph, motif = skewed_graph(3, 110, 70, 800), Projection("u", 2)
    every = sort_rows(list_parts(ProjectionCpu(1, Listing()), graph, motif)[0])
    most = int(ProjectionGpu(emulator(1)).prepare(graph, motif, "total").most_pairs.max())
    scarce = ProjectionGpu(emulator(1, free_bytes=48 * most), Listing())
    assert scarce._find_room(most, 10**6) == most
    assert sort_rows(list_parts(scarce, graph, motif)[0]) == every
    short = ProjectionGpu(emulator(1, free_bytes=48 * most - 1), Listing())
    with pytest.raises(LeaseTooLargeError, match=rf"in {most} pairs, which take {48 * most} bytes"):
        list_parts(short, graph, motif)
    assert ProjectionGpu(emulator(1, free_bytes=1 << 30))._find_room(10, 10**9) == (1 << 28) // 48


def test_graphs_without_pairs(device: Device) -> None:
    engine = ProjectionGpu(device, Listing())
    for graph in (
        BipartiteGraph.from_edges([], [], 4, 0),
        BipartiteGraph.from_edges([0, 1, 2], [0, 1, 2]),
        complete_graph(1, 5),
    ):
        for number in (0, 4):
            assert check_against_cpu(engine, graph, ask("u", 1, QUESTIONS[number])) == 0
    assert check_against_cpu(engine, complete_graph(5, 1), Projection("u", 1, "resource")) == comb(5, 2)


def test_examples_have_the_rows_of_the_cpu(device: Device, example_data: Any) -> None:
    women = read_edges(example_data / "southern-women.txt.gz")
    for layer in ("u", "v"):
        for question in QUESTIONS:
            motif = ask(layer, 2, question)  # type: ignore[arg-type]
            assert check_against_cpu(ProjectionGpu(device, Listing()), women, motif) >= 0
    assert check_against_cpu(ProjectionGpu(device, Listing()), women, Projection("u", 1)) == 139


@pytest.mark.parametrize("layer", ["u", "v"])
def test_a_real_graph_has_the_rows_of_the_cpu(device: Device, reference_graph: Any, layer: PairSide) -> None:
    engine, graph = ProjectionGpu(device, Listing()), reference_graph("moreno-crime")
    assert check_against_cpu(engine, graph, ask(layer, 1, ("resource", "hypergeometric", 1.0))) > 1000


@pytest.mark.gpu
@pytest.mark.parametrize("layer", ["u", "v"])
@pytest.mark.parametrize("name", ["bonanza", "marvel", "movielens-1m", "yelp2018"])
def test_large_graphs_have_the_rows_of_the_cpu(reference_graph: Any, name: str, layer: PairSide) -> None:
    engine, graph = ProjectionGpu(cuda_device(), Listing()), reference_graph(name)
    least = {"movielens-1m": 100, "yelp2018": 20}.get(name, 2)
    for question in (QUESTIONS[0], ("hyperbolic", "hypergeometric", 0.05)):
        assert check_against_cpu(engine, graph, ask(layer, least, question)) > 1000  # type: ignore[arg-type]


def test_what_is_refused(device: Device) -> None:
    engine = ProjectionGpu(device, Listing())
    prepared = engine.prepare(complete_graph(3, 3), Projection("u"), "total")
    with pytest.raises(InputError, match="are not within"):
        engine.run(prepared, 0, prepared.n_items + 1)
    with pytest.raises(UnsupportedError, match="cannot probe"):
        engine.prober(prepared).count(np.zeros(1, np.int64), np.zeros(1, np.uint64))
    with pytest.raises(UnsupportedError, match="leave out the required ones"):
        ProjectionGpu(device, Listing(with_v=(1,)))
    with pytest.raises(UnsupportedError, match="cannot count 'butterfly'"):
        engine.prepare(complete_graph(3, 3), Butterfly(), "total")
    block: Any = StartBlock.__new__(StartBlock)
    with pytest.raises(UnsupportedError, match="whole graphs, not of a StartBlock"):
        engine.stage(block)


def test_the_family_has_this_engine() -> None:
    family = motif_row(Projection("u"))
    assert family.listed is not None
    assert family.engines["gpu"]() is family.listed.engines["gpu"]() is ProjectionGpu


def test_too_many_degrees_are_refused_as_on_the_cpu(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "MAX_CLASSES", 1)
    with pytest.raises(CapacityError, match="2 different degrees"):
        ProjectionGpu(device).prepare(complete_graph(5, 7), Projection("u", 1, None, "expected-degrees"), "total")


def test_tables_of_devices_with_more_and_less_shared_memory(graphs: dict[str, BipartiteGraph]) -> None:
    tight = replace(PLAIN, tables=(TableClass("hash", 64, 8 * 64, 40), TableClass("dense", 64, 64, NEVER)))
    for tuning in (WedgeTuning(), tight):
        engine = ProjectionGpu(emulator(7), Listing(), tuning)
        assert check_against_cpu(engine, graphs["skewed"], Projection("u", 3, "hyperbolic")) > 0
