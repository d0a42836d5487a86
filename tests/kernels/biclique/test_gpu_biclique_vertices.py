"""Bicliques of every vertex by the CUDA kernel: against the definition, the CPU engine and closed forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Biclique
from papilio.registry import load_engine
from tests.conftest import share_of_examples
from tests.kernels.biclique.test_gpu_biclique import EAGER, GRAPHS
from tests.tools.devices import cuda_device, emulator
from tests.tools.strategies import complete_graph, planted_graph

TUNINGS: dict[str, TreeTuning] = {
    "near": replace(EAGER, near_words=4096, far_words=(), threads=128),
    "far": replace(EAGER, far_words=(256, 512, 1024, 2048), threads=32),
}
"""Where the sums, matrices and lists of a warp lie, and how many warps a block has."""


def count(engine: BicliqueGpu, graph: BipartiteGraph, p: int, q: int) -> Partial:
    """Count all items at once."""
    prepared = engine.prepare(graph, Biclique(p, q), "vertex")
    partial = engine.run(prepared, 0, prepared.n_items)
    assert partial.n_items == prepared.n_items
    return partial


def assert_vectors(got: Partial, of_u: NDArray[np.uint64], of_v: NDArray[np.uint64]) -> None:
    """Compare both vectors exactly, types included."""
    assert got.vectors.keys() == {"u", "v"}
    for layer, wanted in (("u", of_u), ("v", of_v)):
        assert got.vectors[layer].dtype == np.uint64
        np.testing.assert_array_equal(got.vectors[layer], wanted)


def count_vertices(graph: BipartiteGraph, p: int, q: int) -> tuple[int, Counter[int], Counter[int]]:
    """Count by the definition: every set of p vertices of U, unless a part of it shares too few."""
    rows = [0] * graph.n_u
    for u, v in zip(graph.u.tolist(), graph.v.tolist(), strict=True):
        rows[u] |= 1 << v
    of_u: Counter[int] = Counter()
    of_v: Counter[int] = Counter()

    def below(at: int, missing: int, shared: int) -> int:
        size = shared.bit_count()
        if missing == 0:
            for v in range(graph.n_v):
                of_v[v] += comb(size - 1, q - 1) * (shared >> v & 1)
            return comb(size, q)
        total = 0
        for i in range(at, graph.n_u):
            both = shared & rows[i]
            if both.bit_count() >= q:
                found = below(i + 1, missing - 1, both)
                of_u[i] += found
                total += found
        return total

    return below(0, p, (1 << graph.n_v) - 1), of_u, of_v


@cache
def expected(name: str, p: int, q: int) -> tuple[int, NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the right answer for one of the graphs."""
    graph = GRAPHS[name]()
    total, of_u, of_v = count_vertices(graph, p, q)
    assert total > 0, "a test of nothing"
    u, v = (np.array([of[i] for i in range(n)], np.uint64) for of, n in ((of_u, graph.n_u), (of_v, graph.n_v)))
    return total, u, v


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("tuning", TUNINGS)
def test_vertices_by_the_definition(device: Device, tuning: str, name: str) -> None:
    for anchor in ("u", "v"):
        for p, q in ((2, 3), (3, 3), (4, 2)):
            total, of_u, of_v = expected(name, p, q)
            got = count(BicliqueGpu(device, anchor=anchor, tuning=TUNINGS[tuning]), GRAPHS[name](), p, q)
            assert (got.total, got.cells) == (total, {})
            assert_vectors(got, of_u, of_v)
            assert sum(got.vectors["u"].tolist()) == p * total
            assert sum(got.vectors["v"].tolist()) == q * total


@pytest.mark.parametrize(("p", "q"), [(5, 3), (9, 4), (2, 8)])
def test_many_levels(device: Device, p: int, q: int) -> None:
    for name in ("planted", "twins"):
        total, of_u, of_v = expected(name, p, q)
        for anchor in ("u", "v"):
            got = count(BicliqueGpu(device, "enumerate", anchor, EAGER), GRAPHS[name](), p, q)
            assert got.total == total
            assert_vectors(got, of_u, of_v)


def test_every_order_of_threads_comes_to_the_same_end() -> None:
    graph = planted_graph(4, 24, 50, 2, 10, 60, 0.1)
    for p, q in ((3, 3), (5, 2)):
        total, of_u, of_v = count_vertices(graph, p, q)
        for seed in range(share_of_examples(6)):
            got = count(BicliqueGpu(emulator(seed), anchor="u", tuning=EAGER), graph, p, q)
            assert (got.total, sum(got.vectors["u"].tolist())) == (total, p * total)
            assert got.vectors["u"].tolist() == [of_u[u] for u in range(graph.n_u)]
            assert got.vectors["v"].tolist() == [of_v[v] for v in range(graph.n_v)]


@pytest.mark.parametrize(("p", "q"), [(3, 3), (2, 4), (1, 3), (4, 1)])
def test_any_split_and_any_cut_folds_to_the_whole(device: Device, p: int, q: int) -> None:
    engine = BicliqueGpu(device, tuning=EAGER)
    prepared = engine.prepare(GRAPHS["skewed"](), Biclique(p, q), "vertex")
    n_items = prepared.n_items
    whole = engine.run(prepared, 0, n_items)
    bounds = [bound for bound in (3, n_items // 2, n_items - 1) if 0 < bound < n_items]
    first = engine.run(prepared, 0, n_items, bounds, lambda: True)
    assert 0 < first.n_items <= n_items  # a GPU may be done before it is asked to end
    middle = (first.n_items + n_items) // 2
    parts = [engine.run(prepared, middle, n_items), engine.run(prepared, first.n_items, middle)]
    folded = fold_partials(fold_partials(parts[0], first), parts[1])
    assert (folded.n_items, folded.total) == (n_items, whole.total)
    assert_vectors(folded, whole.vectors["u"], whole.vectors["v"])


@pytest.mark.usefixtures("counts_of_any_size")
@pytest.mark.parametrize(("m", "n", "p", "q"), [(12, 70, 2, 35), (12, 70, 3, 35), (70, 9, 35, 2), (9, 80, 1, 40)])
def test_sums_are_kept_modulo_and_the_total_is_exact(device: Device, m: int, n: int, p: int, q: int) -> None:
    got = count(BicliqueGpu(device, anchor="v" if m > n else "u"), complete_graph(m, n), p, q)
    assert got.total == comb(m, p) * comb(n, q) > 2**64
    of_u, of_v = comb(m - 1, p - 1) * comb(n, q) % 2**64, comb(m, p) * comb(n - 1, q - 1) % 2**64
    assert_vectors(got, np.full(m, of_u, np.uint64), np.full(n, of_v, np.uint64))


@pytest.mark.usefixtures("counts_of_any_size")
@pytest.mark.parametrize(
    ("n_u", "n_v", "q"),
    [
        (75, 60, 3),  # worths of two bytes, three words of rows
        (40, 150, 4),  # of three bytes
        (40, 90, 8),  # of four
        (40, 90, 30),  # of eight
        (40, 90, 58),  # of few rows of 32
        (9, 4500, 3),  # more columns than are counted at once
    ],
)
@pytest.mark.parametrize("tuning", [{}, {"near_words": 4096, "far_words": (1 << 16,)}], ids=["default", "near"])
def test_rows_of_the_matrix_of_the_root_are_counted_without_lists(
    device: Device, n_u: int, n_v: int, q: int, tuning: dict[str, Any]
) -> None:
    """Sides of three: many rows share columns with each child."""
    u, v = np.nonzero(np.random.default_rng(n_u + q).random((n_u, n_v)) < 0.85)
    graph, motif = BipartiteGraph.from_edges(u, v, n_u, n_v), Biclique(3, q)
    wanted = count_on_cpu(graph, motif)
    got = count(BicliqueGpu(device, anchor="u", tuning=replace(EAGER, **tuning)), graph, 3, q)
    assert got.total == wanted.total > 0
    assert_vectors(got, wanted.vectors["u"], wanted.vectors["v"])


def count_on_cpu(graph: BipartiteGraph, motif: Biclique) -> Partial:
    engine = load_engine(motif, "cpu", 1, anchor="u")
    prepared = engine.prepare(graph, motif, "vertex")
    return engine.run(prepared, 0, prepared.n_items)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_work_items_and_vectors_are_those_of_the_cpu(device: Device, name: str) -> None:
    motif, graph = Biclique(3, 2), GRAPHS[name]()
    for anchor in ("u", "v"):
        cpu, gpu = (
            load_engine(motif, "cpu", 1, anchor=anchor),
            BicliqueGpu(device, anchor=anchor, tuning=EAGER),
        )
        on_host, on_device = (each.prepare(graph, motif, "vertex") for each in (cpu, gpu))
        np.testing.assert_array_equal(cpu.work(on_host), gpu.work(on_device))
        half = on_host.n_items // 2
        wanted, got = cpu.run(on_host, half, on_host.n_items), gpu.run(on_device, half, on_host.n_items)
        assert (got.n_items, got.total) == (wanted.n_items, wanted.total)
        assert_vectors(got, wanted.vectors["u"], wanted.vectors["v"])


@pytest.mark.parametrize(("p", "q"), [(40, 2), (2, 1 << 20), (1 << 20, 3)])
def test_sides_larger_than_any_degree(device: Device, p: int, q: int) -> None:
    graph = GRAPHS["planted"]()
    got = count(BicliqueGpu(device), graph, p, q)
    assert got.total == 0
    assert_vectors(got, np.zeros(graph.n_u, np.uint64), np.zeros(graph.n_v, np.uint64))


def test_what_does_not_fit_is_refused_with_a_way_out() -> None:
    prepared = BicliqueGpu(emulator(0), tuning=EAGER).prepare(complete_graph(9, 17), Biclique(3, 3), "vertex")
    engine = BicliqueGpu(emulator(0, free_bytes=1 << 8), tuning=EAGER)
    with pytest.raises(LeaseTooLargeError, match=r"needs \d+ bytes of device memory; 192 bytes .* --engine cpu"):
        engine.run(prepared, 0, prepared.n_items)


REFERENCES = [
    ("marvel", 3, 3, 462_550_547),
    ("marvel", 4, 4, 8_634_112_357),
    ("youtube-groupmemberships", 3, 3, 146_517_782),
    ("movielens-1m", 2, 3, 1_012_196_331_323),
    ("yelp2018", 3, 2, 1_497_669_692),
    ("yelp2018", 4, 4, 2_902_288_106),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "p", "q", "total"), REFERENCES)
def test_real_graphs(reference_graph: Callable[[str], BipartiteGraph], name: str, p: int, q: int, total: int) -> None:
    engine = BicliqueGpu(cuda_device())
    prepared = engine.prepare(reference_graph(name), Biclique(p, q), "vertex")
    third = prepared.n_items // 3
    got = fold_partials(engine.run(prepared, 0, third), engine.run(prepared, third, prepared.n_items, [third + 1]))
    assert got.total == total
    assert sum(got.vectors["u"].tolist()) == p * total
    assert sum(got.vectors["v"].tolist()) == q * total


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "p", "q"), [("marvel", 3, 3), ("youtube-groupmemberships", 3, 2)])
def test_vectors_of_real_graphs_are_those_of_the_cpu(
    reference_graph: Callable[[str], BipartiteGraph], name: str, p: int, q: int
) -> None:
    graph, motif = reference_graph(name), Biclique(p, q)
    cpu = load_engine(motif, "cpu")
    prepared = cpu.prepare(graph, motif, "vertex")
    wanted = cpu.run(prepared, 0, prepared.n_items)
    got = count(BicliqueGpu(cuda_device()), graph, p, q)
    assert got.total == wanted.total
    assert_vectors(got, wanted.vectors["u"], wanted.vectors["v"])
