"""Probes of searches: the same for an index on a device, unbiased, and what they choose."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.cluster import driver
from papilio.errors import CapacityError, ExecutionError, FailedItemsError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.choice import (
    CPU_INDEX,
    CPU_RATES,
    GPU_INDEX,
    GPU_RATES,
    WALKS,
    Children,
    choose_search,
    predict,
)
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu import BicliqueGpu, _add_right_rows
from papilio.kernels.biclique.gpu_index import build_device_index
from papilio.kernels.biclique.gpu_prober import rows_near_on_device
from papilio.kernels.biclique.index import BicliqueIndex, build_biclique_index, lay_graph
from papilio.kernels.biclique.items import SizeRange
from papilio.kernels.biclique.probe_loops import Near, rows_near
from papilio.kernels.biclique.prober import measure_with
from papilio.kernels.device.protocol import Device
from papilio.kernels.exact import mix
from papilio.kernels.probe import Found, Rates, count_ways
from papilio.motifs import BalancedBiclique, Biclique, Granularity
from papilio.parts import Layer
from papilio.storage.store import write_store
from papilio.tasks.job import LeaseTask
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.worker_state import forget_graphs
from tests.kernels.biclique.cases import nested_graph
from tests.tools.devices import cuda_device, emulator
from tests.tools.pairs import all_pairs
from tests.tools.strategies import complete_graph, planted_graph, skewed_graph

GRAPHS = {
    "skewed": skewed_graph(3, 120, 90, 1500),
    "planted": planted_graph(5, 90, 80, blocks=4, block_side=24, noise_edges=400, missing=0.2),
    "wide": skewed_graph(7, 40, 300, 5000, exponent=1.2),
    "complete": complete_graph(40, 70),
}
QUESTIONS = [(4, 3), (5, 2), (6, 6)]


def seeds_of(n: int, seed: int) -> np.ndarray:
    return mix(np.arange(n, dtype=np.uint64) + np.uint64(seed << 32))


def index_of(graph: BipartiteGraph, p: int, q: int, anchor: str = "u") -> BicliqueIndex:
    return build_biclique_index(graph, Biclique(p, q), 1, anchor)


def rows_here(index: BicliqueIndex, children: Children) -> Near:
    return rows_near(lay_graph(index), children)


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_rows_of_an_index_on_a_device_give_the_same_probes(name: str, anchor: str, device: object) -> None:
    on: Device = device(3) if device is emulator else device()
    for p, q in QUESTIONS:
        index = index_of(GRAPHS[name], p, q, anchor)
        made = _add_right_rows(on, build_device_index(on, GRAPHS[name], Biclique(p, q), anchor))
        if not index.hop.size or index.sizes.min_left < 3:
            continue
        items = np.arange(24) * 7 % index.n_items
        seeds = seeds_of(24, p)
        mine = measure_with(rows_here, 2)(index, items, seeds, WALKS)
        theirs = measure_with(partial(rows_near_on_device, on), 1)(made, items, seeds, WALKS)
        assert mine.keys() == theirs.keys() == set(WALKS)
        for walk in WALKS:
            for one, other in zip(mine[walk], theirs[walk], strict=True):
                assert one.tolist() == other.tolist()
            assert mine[walk].nodes.shape == (24,)


COUNTS = [
    Biclique(3, 3),
    Biclique(4, 3),
    Biclique(6, 6),
    Biclique(2, 4),
    Biclique(3, None, max_q=5),
    Biclique(None, None, max_p=5, max_q=6),
]


@pytest.mark.parametrize("device", [emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("name", GRAPHS)
def test_devices_estimate_as_the_cpu(name: str, anchor: str, device: object) -> None:
    on: Device = device(3) if device is emulator else device()
    for motif in COUNTS[:3] if name == "skewed" else COUNTS[3:]:
        algorithm = "pivot" if motif.is_table else "enumerate"
        cpu, gpu = BicliqueCpu(2, algorithm, anchor), BicliqueGpu(on, algorithm, anchor)
        one, other = (engine.prepare(GRAPHS[name], motif, "total") for engine in (cpu, gpu))
        assert cpu.prober(one).count_lots.tolist() == gpu.prober(other).count_lots.tolist()
        items, seeds = np.arange(16) * 7 % max(one.n_items, 1), seeds_of(16, 5)
        assert cpu.prober(one).count(items, seeds).tolist() == gpu.prober(other).count(items, seeds).tolist()


@pytest.mark.parametrize(("name", "motif"), all_pairs(GRAPHS, [*COUNTS, BalancedBiclique(3, 3)]), ids=str)
def test_estimates_are_unbiased(name: str, motif: Biclique) -> None:
    graph = GRAPHS[name]
    if motif.needs_signs:
        signs = np.where(np.random.default_rng(4).random(graph.n_edges) < 0.3, -1, 1).astype(np.int8)
        graph = BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, signs)
    for anchor in "uv":
        engine = BicliqueCpu(2, anchor=anchor)
        prepared = engine.prepare(graph, motif, "total")
        assert (engine.prober(prepared).count_lots >= 0).all()
        items, repeats = np.arange(prepared.n_items), 200
        seeds = seeds_of(repeats * items.size, 2)
        sums = engine.prober(prepared).count(np.tile(items, repeats), seeds).reshape(repeats, -1).sum(axis=1)
        exact = engine.run(prepared, 0, items.size).total - engine.prober(prepared).known
        assert abs(sums.mean() - exact) <= 4 * sums.std() / np.sqrt(repeats) + 1e-4 * exact


TOTALS: list[tuple[Biclique, Granularity]] = [
    (Biclique(4, 3), "total"),
    (Biclique(5, 2), "total"),
    (Biclique(3, None, max_q=4), "total"),
    (Biclique(None, None, max_p=3, max_q=3), "total"),
    (Biclique(2, 4), "vertex"),
    (Biclique(2, 3), "total"),
    (Biclique(1, 3), "total"),
    (BalancedBiclique(3, 3), "total"),
]


@pytest.mark.parametrize(("name", "asked"), all_pairs(GRAPHS, TOTALS), ids=str)
def test_counts_and_words_are_unbiased(name: str, asked: tuple[Biclique, Granularity]) -> None:
    """Means over many seeds of every item are within four standard errors of what the search finds in it."""
    graph, (motif, per) = GRAPHS[name], asked
    if motif.needs_signs:
        signs = np.where(np.random.default_rng(4).random(graph.n_edges) < 0.3, -1, 1).astype(np.int8)
        graph = BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, signs)
    for anchor, algorithm in product("uv", WALKS if per == "total" else ("enumerate",)):
        engine = BicliqueCpu(1, algorithm, anchor)
        try:
            prepared = engine.prepare(graph, motif, per)
        except UnsupportedError:
            continue  # enumerating several sizes
        middle = prepared.n_items // 3
        known = engine.prober(prepared).known
        for first, last in ((0, middle), (middle, prepared.n_items)):
            items = np.arange(first, last)
            if not items.size:
                continue
            repeats = max(-(-20_000 // items.size), 20)
            found = engine.prober(prepared).walk(np.tile(items, repeats), seeds_of(repeats * items.size, 1))
            counted = engine.run(prepared, first, last)
            sums = found.motifs.reshape(repeats, -1).sum(axis=1)
            error = sums.std() / np.sqrt(repeats)
            exact = counted.total - (known if first == 0 else 0)
            assert abs(sums.mean() - exact) <= 4 * error + 1e-9 * exact
            words = found.words.reshape(repeats, -1).sum(axis=1)
            assert words.mean() <= counted.work + 4 * words.std() / np.sqrt(repeats) or algorithm == "pivot"


def test_ways_are_binomials() -> None:
    for low, high in ((0, 0), (4, 4), (2, 5), (3, 100)):
        wanted = [sum(comb(n, size) for size in range(low, min(high, n) + 1)) for n in range(10)]
        assert [round(way) for way in count_ways(9, low, high)] == wanted


@pytest.mark.parametrize("device", [None, emulator, pytest.param(cuda_device, marks=pytest.mark.gpu)])
def test_the_layer_that_is_cheap_is_anchored(
    device: Callable[..., Device] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets of eight of U are many, sets of three of V few, whose wedges are many only outside of the core."""
    # Otherwise a GPU takes less than it needs for another index.
    monkeypatch.setattr("papilio.kernels.biclique.choice.GPU_INDEX", GPU_INDEX._replace(least=1e-3))
    inside = np.random.default_rng(1).random((60, 90)) < 0.6
    u, v = np.nonzero(inside)
    leaves = np.arange(90, 120_000)
    graph = BipartiteGraph.from_edges(np.append(u, leaves * 0), np.append(v, leaves), 60, 120_000)
    engine: Any = BicliqueCpu(1)
    if device is not None:
        if device is emulator:
            pytest.skip("the search is too long for the emulator")
        engine = BicliqueGpu(device())
    prepared = engine.prepare(graph, Biclique(8, 3), "total")
    (layer, reason), (algorithm, _) = prepared.decisions
    assert (layer, algorithm) == ("layer V anchored", "algorithm enumerate")
    assert reason.startswith("probes predict")
    wanted = sum(comb(n, 8) for n in _common_of_triples(inside))
    assert engine.run(prepared, 0, prepared.n_items).total == wanted


def _common_of_triples(inside: np.ndarray) -> list[int]:
    """Return the common neighbours of every three columns."""
    sizes = []
    for a in range(inside.shape[1]):
        for b in range(a):
            both = inside[:, a] & inside[:, b]
            sizes += inside[both, :b].sum(axis=0).tolist()
    return sizes


def _index(anchor: Layer, cost: int) -> Any:
    one = np.ones(4, np.int64)
    return SimpleNamespace(
        anchor=anchor, sizes=SizeRange(4, 4, 4, 4), n_left=10**8, costs=one * cost, lots=np.ones(4), work=one * cost,
        item_root=np.arange(4, dtype=np.int32),
    )  # fmt: skip


def _measure(words: dict[Layer, tuple[float, float]]) -> Any:
    """Return a measure by which all items together take so many words, by sets and by pivots."""

    def measure(index: Any, items: Any, seeds: Any, walks: Any) -> dict[str, Found]:
        nothing, taken = np.zeros(items.size), dict(zip(WALKS, words[index.anchor], strict=True))
        return {walk: Found(nothing, nothing, nothing, nothing + taken[walk] / 4) for walk in walks}

    return measure


@pytest.mark.parametrize("rates", [CPU_RATES, GPU_RATES], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    ("words", "other", "anchor", "algorithm"),
    [
        ({"u": (1e12, 1e12), "v": (1e8, 1e12)}, (1e-5, 1.0), "v", "enumerate"),
        ({"u": (1e12, 1e12), "v": (1e12, 1e8)}, (1e-5, 1.0), "v", "pivot"),
        ({"u": (1e10, 1e12), "v": (1e12, 1e12)}, (1e-5, 1.0), "u", "enumerate"),
        ({"u": (1e12, 1e8), "v": (1e12, 1e12)}, (1e-5, 1.0), "u", "pivot"),
        ({"u": (1e10, 1e12), "v": (1.0, 1.0)}, (10.0, 1.0), "u", "enumerate"),  # its pairs take longer to find
        ({"u": (1e10, 1e12), "v": (1.0, 1.0)}, (1.0, 100.0), "u", "enumerate"),  # and it seems 100 times longer
        ({"u": (1.0, 1e12), "v": (0.0, 0.0)}, (0.0, 1.0), "u", "enumerate"),  # not worth a look
    ],
)  # fmt: skip
def test_the_cheapest_search_is_chosen(
    words: dict[Layer, tuple[float, float]],
    other: tuple[float, float],
    anchor: Layer,
    algorithm: str,
    rates: dict[str, Rates],
) -> None:
    built = []

    def build() -> Any:
        built.append(True)
        return _index("v", 1)

    chosen = choose_search(_index("u", 1), ("enumerate", "pivot"), _measure(words), build, lambda: other, rates)
    assert chosen.index.anchor == anchor
    assert bool(built) == (other[0] == 1e-5)
    if rates is CPU_RATES:
        assert chosen.prediction.algorithm == algorithm


@pytest.mark.parametrize("n", range(60, 76))
def test_few_probes_meet_the_sets_of_the_first_roots(n: int) -> None:
    """Most sets of many vertices of a nested graph are below few children, of roots that cost no more than others."""
    index = index_of(nested_graph(n), n // 2, n // 3)
    assert index.n_left > n // 2 + 5
    measure = measure_with(rows_here, 1)
    chosen = choose_search(index, ("enumerate", "pivot"), measure, None, lambda: (0.0, 1.0), GPU_RATES)
    assert chosen.prediction.algorithm == "pivot"


def test_a_layer_that_is_far_behind_gets_few_probes() -> None:
    """Most probes would otherwise be walked on the layer that is not searched."""
    walked = dict.fromkeys(("u", "v"), 0)

    def measure(index: Any, items: Any, seeds: Any, walks: Any) -> dict[str, Found]:
        walked[index.anchor] += items.size
        return _measure({"u": (1e12, 1e12), "v": (2e9, 2e9)})(index, items, seeds, walks)

    algorithms = "enumerate", "pivot"
    chosen = choose_search(_index("u", 1), algorithms, measure, lambda: _index("v", 1), lambda: (1e-8, 1.0), CPU_RATES)
    assert chosen.index.anchor == "v"
    assert walked["u"] < walked["v"]


def test_more_sets_than_floating_point_holds_are_no_error() -> None:
    index = _index("u", 1)
    index.n_left, index.sizes = 3000, SizeRange(1400, 1400, 3, 3)
    assert predict(index, ("enumerate",), _measure({"u": (1e9, 1e9)}), CPU_RATES).seconds > 0


def test_a_layer_whose_pairs_do_not_fit_is_left() -> None:
    def build() -> Any:
        raise CapacityError("no room")

    words = {"u": (1e12, 1e12)}
    chosen = choose_search(_index("u", 1), ("enumerate",), _measure(words), build, lambda: (1e-7, 1.0), CPU_RATES)
    assert (chosen.index.anchor, chosen.prediction.algorithm) == ("u", "enumerate")
    assert chosen.layer_reason == "pairs of the other layer do not fit in memory"


@pytest.mark.parametrize("rates", [CPU_RATES, GPU_RATES], ids=["cpu", "gpu"])
def test_the_items_of_a_layer_are_the_same_whoever_chose_it(rates: dict[str, Rates]) -> None:
    """Items are divided by the seconds of a CPU thread, which more probes may change."""
    chosen = set()
    for mine, theirs, first, enough_s in product(
        (1e7, 1e10, 1e12, 1e14), (1e9, 1e11, 1e13), (0.05, 1, 30), (1e-4, 2.0)
    ):

        def measure(index: Any, items: Any, seeds: Any, walks: Any) -> dict[str, Found]:
            words = (mine if index.anchor == "u" else theirs) * (first if items.size <= 64 else 1.0)  # noqa: B023
            return _measure({index.anchor: (words, 4 * words)})(index, items, seeds, walks)

        def choose(anchor: Layer, build: Any, rates: dict[str, Rates]) -> Any:
            other = enough_s, 1.0  # noqa: B023
            return choose_search(_index(anchor, 1), WALKS, measure, build, lambda: other, rates)

        one = choose("u", lambda: _index("v", 1), rates)
        anchor = one.index.anchor
        assert choose(anchor, None, CPU_RATES).prediction.seconds == one.prediction.seconds
        chosen.add(anchor)
    assert chosen == {"u", "v"}


def test_engines_choose_the_layer_by_their_own_times() -> None:
    """A search of 1,000 s of a thread takes 1.6 s of a GPU, which then is not worth another index."""
    words = {"u": (1.5e12, 1e15), "v": (1e9, 1e15)}
    found = [
        choose_search(
            _index("u", 1),
            ("enumerate",),
            _measure(words),
            lambda: _index("v", 1),
            lambda: (2.0, 1.0),
            rates,
        )
        for rates in (CPU_RATES, GPU_RATES)
    ]
    assert [each.index.anchor for each in found] == ["v", "u"]


def test_a_resumed_job_keeps_the_layer_that_its_first_session_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another engine may find the other layer faster."""
    inside = np.random.default_rng(1).random((60, 90)) < 0.6
    u, v = np.nonzero(inside)
    leaves = np.arange(90, 120_000)
    graph = BipartiteGraph.from_edges(np.append(u, leaves * 0), np.append(v, leaves), 60, 120_000)
    store, job, motif = tmp_path / "graph", tmp_path / "job", Biclique(8, 3)
    write_store(store, graph, provenance={})

    def fail(task: LeaseTask, worker: WorkerInfo) -> None:
        raise ExecutionError(f"{task}: bug")

    with monkeypatch.context() as patch:
        patch.setattr(driver, "run_lease", fail)
        with pytest.raises(FailedItemsError):
            papilio.count(store, motif, job=job, engine="cpu")
    first = papilio.open_job(job).plan()
    assert first.decisions
    monkeypatch.setattr("papilio.kernels.biclique.choice.CPU_INDEX", CPU_INDEX._replace(least=1e9))
    forget_graphs()
    assert papilio.plan(store, motif, engine="cpu").key != first.key
    result = papilio.resume_job(job)
    said = {decision.what: decision.reason for decision in result.decisions}
    assert said["anchor v"] == "the first session of this job settled it"
    assert result.count == sum(comb(n, 8) for n in _common_of_triples(inside))
    assert papilio.verify_job(job, sample=1, engine="cpu")
