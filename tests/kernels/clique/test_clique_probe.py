"""Probes of the searches for cliques: unbiased, the same on CPU and GPU, whatever they are asked for."""

from __future__ import annotations

from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.graph import UnipartiteGraph
from papilio.kernels.clique.cpu import CliqueCpu, MaximalCliqueCpu
from papilio.kernels.clique.gpu import CliqueGpu, MaximalCliqueGpu
from papilio.kernels.clique.list import CliqueLister, MaximalCliqueLister
from papilio.kernels.clique.list_gpu import CliqueGpuLister, MaximalCliqueGpuLister
from papilio.kernels.clique.order import order_by_degree
from papilio.kernels.clique.probe_loops import probe_cliques
from papilio.kernels.clique.question import (
    WHOLE,
    Narrowing,
    list_maximal_bounds,
    list_probe_tables,
    weigh_maximal_roots,
)
from papilio.kernels.device.protocol import Device
from papilio.kernels.probe import STEP, Found
from papilio.motifs import Clique, Granularity, Listing, MaximalClique
from tests import conftest
from tests.kernels.clique.test_clique import cocktail_party, complete, make, random_graph, union
from tests.tools.clique_parts import cut_cliques_by_definition
from tests.tools.devices import cuda_device, emulator
from tests.tools.pairs import all_pairs

GRAPHS = {
    "sparse": random_graph(1, 150, 0.08),
    "half": random_graph(2, 60, 0.5),
    "dense": random_graph(3, 60, 0.75),
    "wide": random_graph(6, 190, 0.5),  # more than a word of candidates
    "planted": union(random_graph(4, 70, 0.15), complete(12), joined=False),
    "joined": union(random_graph(5, 40, 0.3), cocktail_party(6), joined=True),
}
QUESTIONS: list[tuple[Clique | MaximalClique, dict[str, str]]] = [
    (Clique(1), {}),
    (Clique(2), {}),
    (Clique(3), {}),
    (Clique(4), {}),
    (Clique(5), {"algorithm": "orient"}),
    (Clique(6), {"order": "degree"}),
    (Clique(9), {}),
    (Clique(), {}),
    (Clique(max_k=2), {}),
    (Clique(max_k=5), {}),
    (MaximalClique(), {}),
    (MaximalClique(5), {}),
]
REPEATS = 200
NAMES = [f"{motif.title} {'-'.join(options.values())}".strip() for motif, options in QUESTIONS]
asked = pytest.mark.parametrize(("motif", "options"), QUESTIONS, ids=NAMES)


def cpu_engine(motif: Clique | MaximalClique, threads: int, options: dict[str, str]) -> Any:
    return CliqueCpu(threads, **options) if isinstance(motif, Clique) else MaximalCliqueCpu(threads)


def same(one: Found, two: Found) -> bool:
    return all(mine.tolist() == theirs.tolist() for mine, theirs in zip(one, two, strict=True))


def draws(n_items: int, n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    made = np.random.default_rng(seed)
    return made.integers(0, n_items, n), made.integers(0, 2**63, n).astype(np.uint64)


@pytest.mark.parametrize("k", [6, None])
def test_words_are_of_the_matrices_of_nodes(k: int | None) -> None:
    """Fewer words below the same branches; roots of at most ``whole`` neighbours have one matrix."""
    graph, limits = random_graph(8, 300, 0.5), (k or 1, k or 301)
    cpu = CliqueCpu(2).prepare(graph, Clique(k), "total")
    items, seeds = draws(cpu.n_items, 40, 7)
    plain, narrow, whole = (
        probe_cliques(cpu.later, cpu.roots[items], seeds, False, limits, 0, cpu.max_later, 2, kind)
        for kind in (WHOLE, Narrowing(40, 32, 32), Narrowing(299, 32, 32))
    )
    assert same(plain, whole)
    assert same(plain._replace(words=narrow.words), narrow)
    assert narrow.words.sum() < 0.8 * plain.words.sum()


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
@asked
def test_the_rows_of_a_device_give_the_same_probes(motif: Any, options: dict[str, str], device: Any) -> None:
    on: Device = device(3) if device is emulator else device()
    mine = cpu_engine(motif, 2, options)
    theirs = CliqueGpu(on, **options) if isinstance(motif, Clique) else MaximalCliqueGpu(on)
    for graph in GRAPHS.values():
        here, there = mine.prepare(graph, motif, "total"), theirs.prepare(graph, motif, "total")
        if here.n_items:
            probes = draws(here.n_items, 40, 7)
            one, two = mine.prober(here).walk(*probes), theirs.prober(there).walk(*probes)
            assert same(one._replace(words=two.words), two)
            assert one.words.sum() <= two.words.sum()  # nodes of the CPU's search have matrices of their own


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
def test_roots_are_drawn_by_the_cliques_that_they_may_have(device: Any) -> None:
    """By exactly those where no size is above 3; the same on every device."""
    on: Device = device(5) if device is emulator else device()
    for motif in (Clique(1), Clique(3), Clique(6), Clique(), Clique(max_k=4), MaximalClique()):
        engine = cpu_engine(motif, 1, {})
        there: Any = CliqueGpu(on) if isinstance(motif, Clique) else MaximalCliqueGpu(on)
        for graph in (*GRAPHS.values(), complete(1)):
            prepared = engine.prepare(graph, motif, "total")
            lots = engine.prober(prepared).count_lots
            if conftest.thorough or motif in (Clique(6), Clique(), MaximalClique()):
                assert lots.tolist() == there.prober(there.prepare(graph, motif, "total")).count_lots.tolist()
            assert lots.shape == (prepared.n_items,)
            drawn, times = lots > 0, 4 if isinstance(motif, Clique) else 2
            assert (lots >= prepared.costs)[drawn].all()
            assert lots.sum() == pytest.approx(times * prepared.costs[drawn].sum())
            assert not any(engine.run(prepared, at, at + 1).total for at in np.flatnonzero(~drawn).tolist())
    engine = CliqueCpu(1)
    prepared = engine.prepare(GRAPHS["half"], Clique(3), "total")
    triangles = [engine.run(prepared, at, at + 1).total for at in range(prepared.n_items)]
    lots = engine.prober(prepared).count_lots
    extra = np.where(lots > 0, lots - prepared.costs, 0)
    assert extra * sum(triangles) == pytest.approx(np.array(triangles) * extra.sum())


def test_roots_of_thousands_have_finite_lots() -> None:
    """A clique of 3,000 has more cliques than a double can hold; a root of few neighbours is still drawn."""
    costs, later = np.array([10**9, 10], np.int64), np.array([3000, 4], np.int64)
    lots = weigh_maximal_roots(costs, later, later * (later - 1) / 2.0)
    assert np.isfinite(lots).all()
    assert (lots >= costs).all()
    assert lots.sum() == pytest.approx(2.0 * costs.sum())
    engine = CliqueCpu(1)
    for motif in (Clique(550), Clique()):
        prepared = engine.prepare(complete(1100), motif, "total")
        lots = engine.prober(prepared).count_lots
        assert np.isfinite(lots).all()
        assert lots[0] > lots[1] > 0


def test_random_graphs_have_the_maximal_cliques_that_are_expected() -> None:
    """Of one root whose neighbours are a random graph: the square of what is added to the cost, by definition."""
    later = np.array([4, 3], np.int64)
    edges = np.array([3.0, 3.0])
    wanted = sum(comb(4, j) * 0.5 ** (j * (j - 1) // 2) * (1 - 0.5**j) ** (4 - j) for j in range(1, 5))
    lots = weigh_maximal_roots(np.array([5, 5], np.int64), later, edges) - 5
    assert (lots[0] / lots[1]) ** 2 == pytest.approx(wanted)


def count_nodes(graph: UnipartiteGraph, motif: Clique) -> int:
    """Return the nodes of the trees of pivots of all roots, by their definition."""
    engine = CliqueCpu(1, "pivot")
    prepared = engine.prepare(graph, motif, "total")
    later, (least, most) = prepared.later, prepared.sizes
    near = [set() for _ in range(graph.n)]
    for x in range(graph.n):
        for y in later.ids[later.indptr[x] : later.indptr[x + 1]].tolist():
            near[x].add(y)
            near[y].add(x)

    def visit(candidates: set[int], held: int, free: int) -> int:
        if held + free + len(candidates) < least or most - held <= 2:
            return 1
        universal = {x for x in candidates if candidates - near[x] == {x}}
        candidates, free = candidates - universal, free + len(universal)
        if not candidates:
            return 1
        pivot = max(sorted(candidates), key=lambda x: len(candidates & near[x]))
        nodes = 1 + visit(candidates & near[pivot], held, free + 1)
        gone = {pivot}
        for x in sorted(candidates - near[pivot] - {pivot}):
            nodes += visit((candidates - gone) & near[x], held + 1, free)
            gone.add(x)
        return nodes

    return sum(
        visit(set(later.ids[later.indptr[x] : later.indptr[x + 1]].tolist()), 1, 0) for x in prepared.roots.tolist()
    )


@cache
def counted(name: str, motif: Clique | MaximalClique, algorithm: str) -> tuple[int, int, int]:
    """Return the cliques, the vertices of all of them, and the words that the search intersects or reads."""
    engine = cpu_engine(motif, 1, {"algorithm": algorithm} if algorithm else {})
    prepared = engine.prepare(GRAPHS[name], motif, "total")
    found = engine.run(prepared, 0, prepared.n_items)
    cells = found.cells or {(getattr(motif, "k", 0),): found.total}
    out, roots = np.diff(prepared.later.indptr), prepared.roots
    words = 0 if motif == Clique(3) and not algorithm else found.work
    for graph in (prepared.later, getattr(prepared, "earlier", None)):
        for root in roots[out[roots] > 0].tolist() if graph is not None else ():
            words += int(out[graph.ids[graph.indptr[root] : graph.indptr[root + 1]]].sum())
    return found.total, sum(size * count for (size,), count in cells.items()), words


@pytest.mark.parametrize(("name", "question"), all_pairs(GRAPHS, NAMES))
def test_what_probes_find_is_unbiased(name: str, question: str) -> None:
    """Means over seeds are within four standard errors of what the search counts, and of its words and nodes."""
    motif, options = QUESTIONS[NAMES.index(question)]
    graph, algorithm = GRAPHS[name], options.get("algorithm", "")
    engine = cpu_engine(motif, 1, {"algorithm": algorithm} if algorithm else {})
    prepared = engine.prepare(graph, motif, "total")
    n = prepared.n_items
    items, seeds = np.tile(np.arange(n), REPEATS), np.arange(n * REPEATS).astype(np.uint64) * STEP
    found = engine.prober(prepared).walk(items, seeds)
    each = np.array([found.motifs, found.members, found.words, found.nodes])
    sums = each.reshape(4, REPEATS, n).sum(2)
    mean, error = sums.mean(1), sums.std(1) / np.sqrt(REPEATS)
    wanted: list[int] = list(counted(name, motif, algorithm))
    if isinstance(motif, Clique) and prepared.algorithm == "pivot" and name != "wide":
        wanted.append(count_nodes(graph, motif))
    for got, by, right in zip(mean, error, wanted, strict=False):
        assert abs(got - right) <= 4 * by + 1e-9 * right


def test_wide_roots_have_more_than_a_word() -> None:
    prepared = CliqueCpu(1).prepare(GRAPHS["wide"], Clique(4), "total")
    assert prepared.max_later > 64


def test_seeds_decide_and_threads_do_not() -> None:
    for motif, options in QUESTIONS:
        engines = [cpu_engine(motif, threads, options) for threads in (1, 2)]
        prepared = engines[0].prepare(GRAPHS["dense"], motif, "total")
        items, seeds = draws(prepared.n_items, 600, 1)
        one, two = (engine.prober(prepared).walk(items, seeds) for engine in engines)
        assert same(one, two)
        assert same(Found(*(part[::-1] for part in one)), engines[1].prober(prepared).walk(items[::-1], seeds[::-1]))
        if motif != Clique(1) and motif != Clique(2) and motif != Clique(3) and motif != Clique(max_k=2):
            assert not same(one, engines[0].prober(prepared).walk(items, ~seeds))


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("per", ["vertex", "edge"])
def test_sums_of_vertices_and_edges_are_words(per: Granularity, device: Any) -> None:
    """The tree is the same; its leaves have as many words more as there are sums to add to."""
    on: Device = device(4) if device is emulator else device()
    engine, graph = CliqueCpu(1), GRAPHS["half"]
    total, vectors = (engine.prepare(graph, Clique(5), each) for each in ("total", per))
    probes = draws(total.n_items, 50, 3)
    counts, found = engine.prober(total).walk(*probes), engine.prober(vectors).walk(*probes)
    assert same(counts._replace(words=found.words), found)
    assert (found.words >= counts.words).all()
    theirs = CliqueGpu(on)
    assert same(found, theirs.prober(theirs.prepare(graph, Clique(5), per)).walk(*probes))
    # One root of a complete graph: one leaf with all vertices, beside the matrix that is read.
    whole = complete(20)
    one, more = (
        engine.prober(engine.prepare(whole, Clique(5), each)).walk(np.zeros(1, np.int64), np.zeros(1, np.uint64))
        for each in ("total", per)
    )
    assert more.words.sum() - one.words.sum() == (20 if per == "vertex" else comb(20, 2))


@pytest.mark.parametrize("n", [2, 5, 70, 130])
def test_complete_graphs_are_found_by_every_probe(n: int) -> None:
    graph = complete(n)
    for k in {1, 2, 3, 4, 7, n}:
        engine, k = CliqueCpu(1), min(k, n)
        prepared = engine.prepare(graph, Clique(k), "total")
        items = np.arange(prepared.n_items)
        found = engine.prober(prepared).walk(items, items.astype(np.uint64))
        assert found.motifs.sum() == pytest.approx(comb(n, k), rel=1e-12)
        assert found.members.sum() == pytest.approx(k * comb(n, k), rel=1e-12)
    engine = CliqueCpu(1)
    prepared = engine.prepare(graph, Clique(), "total")
    items = np.arange(prepared.n_items)
    found = engine.prober(prepared).walk(items, items.astype(np.uint64))
    assert found.motifs.sum() == pytest.approx(2**n - 1, rel=1e-12)
    assert found.members.sum() == pytest.approx(n * 2 ** (n - 1), rel=1e-12)
    maximal = MaximalCliqueCpu(1)
    whole = maximal.prepare(graph, MaximalClique(), "total")
    found = maximal.prober(whole).walk(items, items.astype(np.uint64))
    assert (found.motifs.sum(), found.members.sum()) == (1, n)


@pytest.mark.parametrize("device", [None, emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
def test_nothing_to_probe_is_found_to_be_nothing(device: Any) -> None:
    on = None if device is None else device(1) if device is emulator else device()
    cliques: Any = CliqueCpu(1) if on is None else CliqueGpu(on)
    maximal: Any = MaximalCliqueCpu(1) if on is None else MaximalCliqueGpu(on)
    none = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    for graph in (make(0, []), make(3, []), complete(4)):
        for engine, motif in ((cliques, Clique(5)), (maximal, MaximalClique(5))):
            prepared = engine.prepare(graph, motif, "total")
            assert prepared.n_items == 0
            found = engine.prober(prepared).walk(*none)
            assert [part.shape for part in found] == [(0,)] * 4
    # No clique is so large, though a root has enough neighbours.
    graph = cocktail_party(4)
    prepared = cliques.prepare(graph, Clique(5), "total")
    assert prepared.n_items
    for seed in range(4):
        items = np.arange(prepared.n_items)
        assert not cliques.prober(prepared).walk(items, items.astype(np.uint64) + np.uint64(seed)).motifs.any()
    # Vertices without edges are maximal.
    alone = maximal.prepare(make(3, []), MaximalClique(), "total")
    found = maximal.prober(alone).walk(np.arange(3), np.arange(3).astype(np.uint64))
    assert found.motifs.tolist() == found.members.tolist() == [1, 1, 1]


def test_parts_are_probed() -> None:
    """The probes of all parts together estimate the whole."""
    graph = GRAPHS["half"]
    for engine, motif in ((CliqueCpu(1), Clique(5)), (MaximalCliqueCpu(1), MaximalClique())):
        whole: Any = engine.prepare(graph, motif, "total")  # type: ignore[attr-defined]
        total = engine.run(whole, 0, whole.n_items).total
        sums = np.zeros(60)
        order = order_by_degree(graph).tolist()
        groups = [order[at::3] for at in range(3)]
        for part in cut_cliques_by_definition(graph, order, groups, outer=isinstance(motif, MaximalClique)):
            prepared = engine.prepare(part, motif, "total")  # type: ignore[attr-defined]
            items = np.tile(np.arange(prepared.n_items), 60)
            found = engine.prober(prepared).walk(items, np.arange(items.size).astype(np.uint64))
            sums += found.motifs.reshape(60, -1).sum(1)
        assert abs(sums.mean() - total) <= 4 * sums.std() / np.sqrt(60)


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
def test_rows_have_what_every_one_must_hold(device: Any) -> None:
    """Members are the vertices of rows of the whole graph, and rows are leaves of the tree."""
    on: Device = device(2) if device is emulator else device()
    graph, listing = complete(9), Listing(with_u=(0, 4), limit=None)
    for motif, rows, listers in (
        (Clique(5), comb(7, 3), (CliqueLister(1, listing), CliqueGpuLister(on, listing))),
        (MaximalClique(), 1, (MaximalCliqueLister(1, listing), MaximalCliqueGpuLister(on, listing))),
    ):
        found, counted_nodes = [], []
        for lister in listers:
            prepared: Any = lister.prepare(graph, motif, "total")  # type: ignore[attr-defined]
            items = np.arange(prepared.n_items)
            found.append(lister.prober(prepared).walk(items, items.astype(np.uint64)))  # type: ignore[attr-defined]
            assert lister.prober(prepared).rates.nodes_s > 0  # type: ignore[attr-defined]
            if isinstance(lister, CliqueCpu | MaximalCliqueCpu):
                counter: Any = CliqueCpu if isinstance(motif, Clique) else MaximalCliqueCpu
                counted_nodes.append(counter.prober(lister, prepared).walk(items, items.astype(np.uint64)).nodes)
        assert same(*found)
        assert found[0].motifs.sum() == rows
        assert found[0].members.sum() == rows * (5 if isinstance(motif, Clique) else 9)
        assert found[0].nodes.tolist() == (counted_nodes[0] + found[0].motifs).tolist()


def test_tables_stay_finite_where_they_are_summed() -> None:
    tables = list_probe_tables(1, 5001, 5000)
    assert tables.ways.shape == (1, 5002)
    assert np.isinf(tables.ways[0, -1])
    assert all(np.isfinite(each.sum()) for each in (*tables.bounds, *list_maximal_bounds(5000)))
    for least, most in ((7, 7), (1, 7)):
        ways = list_probe_tables(least, most, 40).ways
        for missing in range(most + 1):
            wanted = [
                comb(n, missing) if least == most else sum(comb(n, j) for j in range(missing + 1)) for n in range(42)
            ]
            assert ways[missing].tolist() == wanted
