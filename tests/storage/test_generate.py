"""Generated graphs: fixed content, one answer for any threads and memory, the right distributions."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from hashlib import blake2b
from itertools import combinations, islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from benchmarks import graphs
from papilio.errors import CapacityError, InputError, StoreError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage import generate as drawing
from papilio.storage import rmat
from papilio.storage.generate import generate, generate_graph
from papilio.storage.graph_models import Blocks, Complete, Model, Planted, PowerLaw, Rmat
from papilio.storage.store import open_store

RECORDED = [
    (Rmat(12, 10, 50_000), None, 36400, "55c0f6d10efbbc12c26ab24f29ef7220"),
    (Rmat(12, 10, 50_000, compact=True), 0.3, 36400, "e4999f04ac3ddd978180d956c2d95d0e"),
    (Rmat(11, None, 40_000, a=0.5, b=0.1, c=0.25), None, 34636, "d84c918c046532dddc85037d59b311d4"),
    (PowerLaw(3000, 2000, 2.1, 2.6, 2, 1, 200, 300), None, 4331, "b112f0a2e42ef69570c49d0aafcb29b1"),
    (PowerLaw(4000, None, 2.3), 0.8, 6819, "4d105c46ec1bd3f505b732478ef6a909"),
    (Planted(500, 300, 5, 10, 8, 4000), None, 4326, "cc6eba519d43b1f794668f3b770aa1e0"),
    (Planted(400, None, 4, 12, None, 3000), 0.5, 3208, "247aece179b87d1bfa9f246cac73fcc3"),
    (Complete(30, 20), 0.5, 600, "611318d8c316d550f121db410e914912"),
    (Complete(25), None, 300, "f39194bdbb8e6580af2056e43b8695d6"),
    (Blocks("3*20x15+2*1x40+1e1x0+25x1"), 0.5, 1005, "e7c046f1e4e44bdaca8d1ff175634589"),
    (Blocks("40*9+3*2+1"), None, 1443, "2560149fa75dda1b9d59cf82c636d6e4"),
]
RECORDED_OF_SEVERAL_BLOCKS = [
    (Rmat(18, 16, 3_000_000), None, 2_724_809, "128a15f277c94138d818cb5897c351d5"),
    (Rmat(17, None, 3_000_000), None, 2_596_328, "f0f2534172edda8f6c11a58d79050f14"),
    (PowerLaw(900_000, 700_000, 2.2, 2.4, 2, 2), None, 4_171_008, "16758d6c6c968748313aa45d8d655778"),
]
"""Seed 7. The content of a generated graph is part of its interface: these hashes hold on every machine."""

EMPTY: list[Model] = [
    Rmat(3, 2, 0),
    Rmat(3, None, 0, compact=True),
    Rmat(0, None, 10),
    PowerLaw(0, 5),
    PowerLaw(0, None),
    Planted(4, 3, 0, 0, 0, 0),
    Planted(4, None, 2, 1, None, 0),
    Complete(0, 5),
    Complete(1),
    Blocks("0*3x3+4x0"),
    Blocks("5*1"),
]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Cut graphs into blocks of 512 edges, so that small graphs take the way of large ones."""
    for module in (rmat, drawing):
        monkeypatch.setattr(module, "BLOCK_EDGES", 512)
    return 512


def edge_set(graph: BipartiteGraph | UnipartiteGraph) -> set[tuple[int, int]]:
    return set(zip(graph.u.tolist(), graph.v.tolist(), strict=True))


@pytest.mark.parametrize(("model", "signs", "n_edges", "content"), RECORDED + RECORDED_OF_SEVERAL_BLOCKS)
def test_recorded_content(model: Model, signs: float | None, n_edges: int, content: str, tmp_path: Path) -> None:
    store = generate(model, tmp_path / "graph", seed=7, signs=signs)
    assert (store.n_edges, store.hash, store.kind) == (n_edges, content, model.kind)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("model", [row[0] for row in RECORDED] + EMPTY)
def test_store_equals_memory_for_any_threads(
    model: Model, cut: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if cut:
        request.getfixturevalue("small_blocks")
    store = generate(model, tmp_path / "one", seed=3, signs=0.6, workers=1)
    many = generate(model, tmp_path / "many", seed=3, signs=0.6, workers=5, memory_bytes=1 << 31)
    graph = generate_graph(model, 3, signs=0.6, workers=2)
    graph.validate()
    assert store.hash == many.hash
    assert store.manifest.dropped == many.manifest.dropped
    read = open_store(tmp_path / "one").read()
    assert (store.n_u, store.n_v) == (many.n_u, many.n_v)
    assert np.array_equal(read.u, graph.u)
    assert np.array_equal(read.v, graph.v)
    assert np.array_equal(read.sign, graph.sign)  # type: ignore[arg-type]


def test_seeds_differ(tmp_path: Path) -> None:
    for model in (Rmat(8, 8, 500), PowerLaw(100, 100), Planted(50, 50, 1, 3, 3, 100)):
        hashes = {generate(model, tmp_path / f"{model.name}{seed}", seed=seed).hash for seed in range(4)}
        assert len(hashes) == 4


def test_provenance_and_dropped(tmp_path: Path) -> None:
    store = generate(Rmat(5, None, 3000), tmp_path / "graph", seed=11, signs=0.25)
    found = open_store(tmp_path / "graph").manifest
    assert found.provenance["model"] == "rmat"
    assert found.provenance["edges"] == 3000
    assert (found.provenance["seed"], found.provenance["signs"]) == (11, 0.25)
    assert found.provenance["papilio"] == papilio.__version__
    assert store.n_edges + found.dropped["duplicates"] + found.dropped["self_loops"] == 3000


def test_progress_reaches_the_end_and_a_failure_leaves_nothing(tmp_path: Path, small_blocks: int) -> None:
    seen: list[tuple[int, int]] = []
    generate(
        Rmat(9, 9, 5000, compact=True),
        tmp_path / "graph",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (10_000, 10_000)

    def fail(done: int, total: int) -> None:
        if done > 2000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(Rmat(9, 9, 5000), tmp_path / "other", progress=fail)
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
    with pytest.raises(StoreError, match="already exists"):
        generate(
            Rmat(9, 9, 5000, compact=True),
            tmp_path / "graph",
            progress=lambda done, total: pytest.fail("drawn"),
        )
    assert generate(Complete(2, 2), tmp_path / "graph", overwrite=True).n_edges == 4


def test_memory_does_not_grow_with_the_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmat, "BLOCK_EDGES", 1 << 14)
    tracemalloc.start()
    try:
        store = generate(Rmat(20, 20, 4_000_000), tmp_path / "graph", workers=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert store.n_edges > 3_500_000
    assert peak < 24 << 20, f"{peak / 2**20:.1f} MiB for edges of {8 * store.n_edges / 2**20:.1f} MiB"


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("scales", [(3, 3), (4, 2), (2, 4), (3, None), (8, 1), (0, 3)])
def test_rmat_cells_have_their_probabilities(
    scales: tuple[int, int | None], cut: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if cut:
        request.getfixturevalue("small_blocks")
    monkeypatch.setattr(rmat, "deduplicate", np.sort)
    model = Rmat(scales[0], scales[1], 60_000, a=0.45, b=0.1, c=0.25)
    found: Counter[int] = Counter()
    for draw in rmat.RmatSource(model, 5).blocks():
        found.update(draw().keys.tolist())
    expected: Counter[int] = Counter()
    scale_v = model.scale_u if model.scale_v is None else model.scale_v
    margin_u, margin_v = model.c + model.d, model.b + model.d
    for u in range(1 << model.scale_u):
        for v in range(1 << scale_v):
            p = 1.0
            for level in range(max(model.scale_u, scale_v)):
                bit_u = u >> (model.scale_u - 1 - level) & 1 if level < model.scale_u else 0
                bit_v = v >> (scale_v - 1 - level) & 1 if level < scale_v else 0
                if level >= scale_v:
                    p *= margin_u if bit_u else 1 - margin_u
                elif level >= model.scale_u:
                    p *= margin_v if bit_v else 1 - margin_v
                else:
                    p *= (model.a, model.b, model.c, model.d)[2 * bit_u + bit_v]
            if model.scale_v is not None:
                expected[u << 32 | v] += p * model.edges
            elif u != v:
                expected[min(u, v) << 32 | max(u, v)] += p * model.edges
    assert set(found) <= set(expected)
    common = [key for key, count in expected.items() if count >= 5]
    chi2 = sum((found[key] - expected[key]) ** 2 / expected[key] for key in common)
    assert chi2 < len(common) + 5 * np.sqrt(2 * len(common)), chi2
    if model.scale_v is not None:
        assert sum(found.values()) == model.edges


def test_rmat_of_one_cell_and_of_hubs_beyond_a_block(small_blocks: int) -> None:
    assert edge_set(generate_graph(Rmat(4, 4, 5000, a=1.0, b=0.0, c=0.0))) == {(0, 0)}
    assert edge_set(generate_graph(Rmat(4, 4, 5000, a=0.0, b=0.0, c=0.0))) == {(15, 15)}
    hub = generate_graph(Rmat(2, 12, 20_000, a=0.5, b=0.5, c=0.0))
    assert isinstance(hub, BipartiteGraph)
    assert hub.degree_u.tolist()[1:] == [0, 0, 0]
    assert hub.n_edges > 3 * small_blocks
    assert generate_graph(Rmat(3, None, 5000, a=1.0, b=0.0, c=0.0)).n_edges == 0


def test_rmat_compact_keeps_order_and_drops_isolated_vertices(tmp_path: Path) -> None:
    for scale_v in (9, None):
        plain = generate_graph(Rmat(11, scale_v, 2000), 4)
        compact = generate(Rmat(11, scale_v, 2000, compact=True), tmp_path / f"{scale_v}", seed=4)
        if scale_v is None:
            used = np.unique(np.concatenate((plain.u, plain.v)))
            used_u, used_v = used, used
        else:
            used_u, used_v = np.unique(plain.u), np.unique(plain.v)
        graph = compact.read()
        assert (compact.n_u, compact.n_v) == (used_u.size, used_v.size)
        assert np.array_equal(used_u[graph.u], plain.u)
        assert np.array_equal(used_v[graph.v], plain.v)
        isolated = (1 << 11) - used_u.size + (0 if scale_v is None else (1 << scale_v) - used_v.size)
        assert compact.manifest.dropped["isolated_vertices"] == isolated


def test_power_law_degrees_follow_the_law() -> None:
    offsets = drawing.draw_degrees(400_000, 2.2, 3, 500, 1, 0)
    degrees = np.diff(offsets)
    assert degrees.min() == 3
    assert degrees.max() <= 500
    for k in (4, 6, 10, 30, 100, 300):
        expected = (k**-1.2 - 501**-1.2) / (3**-1.2 - 501**-1.2)
        error = np.sqrt(expected * (1 - expected) / degrees.size)
        assert abs((degrees >= k).mean() - expected) < 5 * error


def test_portable_power_is_the_power() -> None:
    base = np.concatenate((np.arange(1.0, 3000.0), 2.0 ** np.arange(40), [1e-9, 0.3, 12345.678]))
    for exponent in (-1.5, -0.001, 0.0, 1.0, -19.0, 2.5):
        assert np.allclose(drawing.portable_power(base, exponent), base**exponent, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n_v", [None, 300, 3000])
def test_power_law_matches_every_stub_once(n_v: int | None, small_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "deduplicate", np.sort)
    source = drawing.PowerLawSource(PowerLaw(1000, n_v, 2.0, 2.0, max_degree_u=700, max_degree_v=90), 2)
    blocks = [draw() for draw in source.blocks()]
    keys = np.concatenate([block.keys for block in blocks])
    dropped = sum((Counter(block.dropped) for block in blocks), Counter(source.dropped))
    degree_u = np.bincount(keys >> 32, minlength=source.n_u)
    degree_v = np.bincount(keys & 0xFFFFFFFF, minlength=source.n_v)
    drawn_u, drawn_v = np.diff(source._offsets_u), np.diff(source._offsets_v)
    if n_v is None:
        lost = drawn_u - degree_u - degree_v
        assert lost.min() >= 0
        assert lost.sum() == 2 * dropped["self_loops"] + dropped["unmatched_stubs"]
        assert dropped["unmatched_stubs"] == drawn_u.sum() % 2
    else:
        assert (drawn_u - degree_u).min() >= 0
        assert (drawn_v - degree_v).min() >= 0
        assert keys.size == min(drawn_u.sum(), drawn_v.sum())
        assert dropped["unmatched_stubs"] == abs(drawn_u.sum() - drawn_v.sum())
    assert sum(block.drawn for block in blocks) == source.total_draws


def test_planted_blocks_are_there() -> None:
    one = generate_graph(Planted(1000, 800, 1, 12, 9), 5)
    assert isinstance(one, BipartiteGraph)
    assert (one.n_edges, np.unique(one.u).size, np.unique(one.v).size) == (108, 12, 9)
    clique = generate_graph(Planted(1000, None, 1, 9, None), 5)
    assert (clique.n_edges, np.unique(np.concatenate((clique.u, clique.v))).size) == (36, 9)
    noisy = generate_graph(Planted(1000, 800, 1, 12, 9, noise=3000), 5)
    assert edge_set(one) <= edge_set(noisy)
    assert 3050 < noisy.n_edges <= 3108


@pytest.mark.parametrize("model", [Planted(60, 50, 7, 9, 11, 2500), Planted(80, None, 6, 15, None, 2500)])
def test_planted_blocks_survive_any_cut(model: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    members = drawing.PlantedSource(model, 1)
    wanted = {
        (u, v)
        for i in range(model.count)
        for u in members._member_u[members._member_block == i].tolist()
        for v in members._members_v[i].tolist()
        if model.n_v is not None or u < v
    }
    for block_edges in (1, 16, 300, 1 << 20):
        monkeypatch.setattr(drawing, "BLOCK_EDGES", block_edges)
        assert wanted <= edge_set(generate_graph(model, 1))


def test_noise_is_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "BLOCK_EDGES", 5000)
    monkeypatch.setattr(drawing, "deduplicate", np.sort)
    for n_v, pairs in ((8, 96), (None, 66)):
        model = Planted(12, n_v, 0, 0, None if n_v is None else 0, 48_000)
        keys = np.concatenate([draw().keys for draw in drawing.PlantedSource(model, 6).blocks()])
        counts = np.unique(keys, return_counts=True)[1]
        assert (counts.size, counts.sum()) == (pairs, 48_000)
        mean = 48_000 / pairs
        assert ((counts - mean) ** 2 / mean).sum() < pairs + 5 * np.sqrt(2 * pairs)


def test_complete_graphs(small_blocks: int) -> None:
    assert edge_set(generate_graph(Complete(70, 40))) == {(u, v) for u in range(70) for v in range(40)}
    assert edge_set(generate_graph(Complete(61))) == {(u, v) for v in range(61) for u in range(v)}


def blocks_by_definition(model: Blocks) -> set[tuple[int, int]]:
    edges, next_u, next_v = set(), 0, 0
    for copies, size_u, size_v in model.terms:
        for _ in range(copies):
            us, vs = range(next_u, next_u + size_u), range(next_v, next_v + (size_v or 0))
            edges |= set(combinations(us, 2) if size_v is None else product(us, vs))
            next_u, next_v = next_u + size_u, next_v + (size_v or 0)
    return edges


@pytest.mark.parametrize(
    "shapes", ["3*20x15+2*1x40+10x0+25x1", "70x40", "300*2x1+1x300", "9+20*12+3*1+61", "2*3x4 + 0x5 + 1x1"]
)
def test_blocks_are_disjoint_and_complete(shapes: str, small_blocks: int) -> None:
    model = Blocks(shapes)
    graph = generate_graph(model)
    assert edge_set(graph) == blocks_by_definition(model)
    assert graph.n_edges == sum(term.n_edges for term in model.terms)
    assert (graph.n_u, graph.n_v) == (model.n_u, model.n_u if model.n_v is None else model.n_v)
    grown = generate_graph(model.grow(3))
    assert (grown.n_u, grown.n_v, grown.n_edges) == (3 * graph.n_u, 3 * graph.n_v, 3 * graph.n_edges)


def test_blocks_beyond_2_31_edges() -> None:
    """The blocks around edge 2^31, and the last ones, drawn alone."""
    source = drawing.CompleteSource(Blocks("64x23e6+12e6x64+2000*200x200"), 0)
    assert source.total_draws == 2_320_000_000
    n_blocks = -(-source.total_draws // drawing.BLOCK_EDGES)
    for number in (2047, 2048, n_blocks - 1):
        block = next(islice(source.blocks(), number, None))()
        edge = number * drawing.BLOCK_EDGES
        for at in (0, block.keys.size - 1):
            if edge + at < 2_240_000_000:
                u, v = divmod(edge + at - 64 * 23_000_000, 64)
                expected = (64 + u, 23_000_000 + v)
            else:
                copy, rest = divmod(edge + at - 2_240_000_000, 40_000)
                expected = (12_000_064 + 200 * copy + rest // 200, 23_000_064 + 200 * copy + rest % 200)
            assert divmod(int(block.keys[at]), 1 << 32) == expected
        assert (np.diff(block.keys) > 0).all()
    assert edge + block.keys.size == source.total_draws


@pytest.mark.parametrize("n", [2, 3, 65_536, 2**31 - 1])
def test_pair_numbers_of_large_unipartite_graphs(n: int) -> None:
    pairs = drawing.PairSpace(n, None)
    for u in {u for u in (0, 1, n // 3, n - 2) if u < n - 1}:
        first = u * (n - 1) - u * (u - 1) // 2
        assert pairs.key(first) == u << 32 | (u + 1)
        assert pairs.key(first + n - 2 - u) == u << 32 | (n - 1)


def test_signs_depend_on_the_edge_and_the_seed_alone() -> None:
    small, large = (
        generate_graph(Complete(40, 30), 9, signs=0.3),
        generate_graph(Complete(90, 400), 9, signs=0.3),
    )
    assert small.sign is not None
    assert large.sign is not None
    shared = (large.u < 40) & (large.v < 30)
    assert np.array_equal(large.sign[shared], small.sign)
    assert abs((large.sign > 0).mean() - 0.3) < 5 * np.sqrt(0.21 / large.n_edges)
    other = generate_graph(Complete(40, 30), 10, signs=0.3)
    assert not np.array_equal(small.sign, other.sign)
    assert set(np.unique(generate_graph(Complete(9, 9), signs=1.0).sign)) == {1}  # type: ignore[arg-type]
    assert set(np.unique(generate_graph(Complete(9, 9), signs=0.0).sign)) == {-1}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Rmat(31, 4, 10), CapacityError, "scale_u is 31; the maximum is 30"),
        (lambda: Rmat(4, 4, -1), InputError, "edges is -1"),
        (lambda: Rmat(4, 4, 1.5), InputError, "edges is 1.5; expected an integer"),  # type: ignore[arg-type]
        (lambda: Rmat(4, 4, 10, a=1.2), InputError, "a is 1.2"),
        (lambda: Rmat(4, 4, 10, a=0.6, b=0.3, c=0.2), InputError, "at most 1"),
        (lambda: PowerLaw(5, 5, 1.0), InputError, "exponent_u is 1.0"),
        (lambda: PowerLaw(5, 5, max_degree_v=0), InputError, "max_degree_v is 0; expected at least 1"),
        (lambda: Planted(5, 5, 1, 6, 2), CapacityError, "size_u is 6; the maximum is 5"),
        (lambda: Planted(5, 5, 1, 2, None), InputError, "give both"),
        (lambda: Planted(1, None, 0, 0, None, 3), InputError, "no pair of vertices"),
        (lambda: Complete(2**31), CapacityError, "n_u"),
        (lambda: Complete(2**30, 2**30), CapacityError, "number of edges"),
        (lambda: Blocks("3x4,5x6"), InputError, "shapes is '3x4,5x6'; expected blocks such as"),
        (lambda: Blocks(""), InputError, "shapes is ''"),
        (lambda: Blocks("3x4+5"), InputError, "either blocks .AxB. or cliques .A."),
        (lambda: Blocks("3e9x1"), CapacityError, "n_u is 3000000000; the maximum is 2147483647"),
        (lambda: Blocks("2*1x2e9"), CapacityError, "n_v is 4000000000"),
        (lambda: Blocks("1e9x1e9"), CapacityError, "number of edges"),
        (lambda: generate_graph(Complete(2), -1), InputError, "seed is -1"),
        (lambda: generate_graph(Complete(2), signs=1.5), InputError, "signs is 1.5"),
        (lambda: generate_graph(Complete(2), workers=0), InputError, "workers is 0"),
        (lambda: generate_graph("complete"), InputError, "expected a Model"),  # type: ignore[arg-type]
        (
            lambda: generate(Rmat(9, 9, 10**7), "x", memory_bytes=2**20),
            CapacityError,
            "the limit is 1.00 MiB",
        ),
        (lambda: generate(Rmat(2, 30, 10**10), "x", memory_bytes=2**30), CapacityError, "one worker"),
        (lambda: generate(PowerLaw(10**9, 5), "x", memory_bytes=2**30), CapacityError, "the vertices alone"),
    ],
)
def test_errors_name_value_and_limit(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("block", [1 << 20, 1001])
@pytest.mark.parametrize(
    ("arguments", "sizes", "digest"),
    [
        (("bipartite", 10, 14, 60_001, 5), (949, 7219, 49_499), "ebf3a4bf7d7023ba03e4ef25bda8d764"),
        (("unipartite", 12, 12, 50_001, 3), (3201, 3201, 38_420), "9ecdee0904dcb24724b8b31d0a685d86"),
    ],
)
def test_baseline_rmat_is_bit_exact(
    arguments: tuple[str, int, int, int, int],
    sizes: tuple[int, int, int],
    digest: str,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sizes and the digest were taken from arrays of the program that made the published baselines."""
    monkeypatch.setattr(graphs, "_BLOCK", block)
    n_u, n_v, u, v = graphs.rmat_baseline(*arguments, workers=2)
    assert (n_u, n_v, u.size) == sizes
    assert blake2b(np.stack((u, v), axis=1).astype("<i4").tobytes(), digest_size=16).hexdigest() == digest
