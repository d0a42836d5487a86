"""The laws of the engines of cliques: every one runs on every engine, with every order and algorithm."""

from __future__ import annotations

import gzip
from collections import Counter
from itertools import combinations, pairwise, product
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique.order import order_by_degeneracy
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import Butterfly, Clique, Granularity
from papilio.registry import load_engine
from tests.conftest import share_of_examples
from tests.tools.oracle_clique import cliques_of, count_cliques

ENGINES = ["cpu"]
ORDERS = ["degeneracy", "degree"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Name of the engine."""
    return str(request.param)


def prepared_and_engine(name: str, graph: UnipartiteGraph, motif: Clique, per: Granularity, **options: str):
    made = load_engine(motif, name, 2, **options)  # type: ignore[arg-type]
    return made.prepare(graph, motif, per), made


def count(name: str, graph: UnipartiteGraph, motif: Clique, per: Granularity = "total", **options: str) -> Partial:
    prepared, made = prepared_and_engine(name, graph, motif, per, **options)
    return made.run(prepared, 0, prepared.n_items)


def table(name: str, graph: UnipartiteGraph, **options: str) -> dict[tuple[int, ...], int]:
    return count(name, graph, Clique(), **options).cells


def edges_of(graph: UnipartiteGraph) -> list[tuple[int, int]]:
    return list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))


def make(n: int, edges: list[tuple[int, int]]) -> UnipartiteGraph:
    a, b = zip(*edges, strict=True) if edges else ((), ())
    return UnipartiteGraph.from_edges(np.array(a, np.int64), np.array(b, np.int64), n)


def complete(n: int) -> UnipartiteGraph:
    return make(n, list(combinations(range(n), 2)))


def cocktail_party(m: int) -> UnipartiteGraph:
    """All of 2m vertices are neighbours but m pairs."""
    return make(2 * m, [(a, b) for a, b in combinations(range(2 * m), 2) if b != a + m])


def union(a: UnipartiteGraph, b: UnipartiteGraph, joined: bool) -> UnipartiteGraph:
    """Both graphs beside each other; joined: with all edges between them."""
    between = list(product(range(a.n), range(a.n, a.n + b.n))) if joined else []
    return make(a.n + b.n, edges_of(a) + [(x + a.n, y + a.n) for x, y in edges_of(b)] + between)


@st.composite
def graphs(draw: st.DrawFn, most: int = 13) -> UnipartiteGraph:
    n = draw(st.integers(1, most))
    pairs = list(combinations(range(n), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    dense = draw(st.booleans())
    return make(n, sorted(set(pairs) - set(chosen)) if dense else chosen)


def random_graph(seed: int, n: int, share: float) -> UnipartiteGraph:
    pairs = np.array(list(combinations(range(n), 2)))
    kept = pairs[np.random.default_rng(seed).random(len(pairs)) < share]
    return UnipartiteGraph.from_edges(kept[:, 0], kept[:, 1], n)


def laws(number: int):
    return settings(max_examples=share_of_examples(number), deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("order", ORDERS)
def test_every_size_follows_the_definition(engine: str, order: str) -> None:
    @laws(80)
    @given(graphs())
    def run(graph: UnipartiteGraph) -> None:
        wanted = count_cliques(graph.n, edges_of(graph))
        got = count(engine, graph, Clique(), order=order)
        assert got.cells == wanted
        assert got.total == sum(wanted.values())
        for most in (1, 2, 4):
            bounded = {cell: number for cell, number in wanted.items() if cell[0] <= most}
            assert count(engine, graph, Clique(max_k=most), order=order).cells == bounded

    run()


@pytest.mark.parametrize(("algorithm", "order"), [*product(["pivot", "orient"], ORDERS), ("auto", "auto")])
def test_one_size_follows_the_definition(engine: str, algorithm: str, order: str) -> None:
    @laws(40)
    @given(graphs(), st.integers(1, 8))
    def run(graph: UnipartiteGraph, k: int) -> None:
        if algorithm == "orient" and k < 3:
            return
        got = count(engine, graph, Clique(k), algorithm=algorithm, order=order)
        assert got.total == count_cliques(graph.n, edges_of(graph)).get((k,), 0)
        assert got.cells == {}

    run()


def test_both_algorithms_agree_where_a_row_has_more_than_a_word(engine: str) -> None:
    """The last vertices of one size come from edges among the candidates, with pivots and without."""
    dense, sparse = random_graph(2, 75, 0.8), random_graph(3, 300, 0.2)
    for graph, k in (
        (dense, 3),
        (dense, 4),
        (dense, 5),
        (sparse, 4),
        (sparse, 6),
        (union(dense, sparse, False), 5),
    ):
        found = {
            count(engine, graph, Clique(k), algorithm=algorithm).total for algorithm in ("orient", "pivot", "auto")
        }
        assert len(found) == 1 < found.pop()


def overlapping_casts() -> UnipartiteGraph:
    """Return a graph of overlapping cliques, whose roots have up to four words of candidates."""
    rng = np.random.default_rng(5)
    casts = [rng.choice(330, size, replace=False) for size in (*(140,) * 6, *(30,) * 10)]
    return make(330, sorted({tuple(sorted(pair)) for cast in casts for pair in combinations(cast.tolist(), 2)}))


@pytest.mark.parametrize("k", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_frames_within_frames(engine: str, k: int) -> None:
    """Nodes with few of many candidates get matrices of their own; the other algorithm has none."""
    graph = overlapping_casts()
    prepared, made = prepared_and_engine(engine, graph, Clique(k), "total", algorithm="pivot")
    assert int(np.diff(prepared.later.indptr).max()) > 3 * 64
    total = made.run(prepared, 0, prepared.n_items).total
    assert total == count(engine, graph, Clique(k), algorithm="orient").total
    assert table(engine, graph)[k,] == total
    edges = edges_of(graph)
    assert table(engine, graph)[k,] == total
    of_edges = count(engine, graph, Clique(k), "edge").vectors["edge"]
    of_vertices = count(engine, graph, Clique(k), "vertex").vectors["n"]
    assert int(of_edges.sum()) == comb(k, 2) * total
    assert int(of_vertices.sum()) == k * total
    sums = np.bincount(np.array(edges).ravel(), np.repeat(of_edges, 2).astype(float), 330)
    assert (sums == (k - 1.0) * of_vertices).all()
    for i in range(0, len(edges), len(edges) // 5):
        others = make(330, edges[:i] + edges[i + 1 :])
        assert total - count(engine, others, Clique(k), algorithm="orient").total == of_edges[i]


def test_what_is_chosen_is_told(engine: str) -> None:
    chosen = {}
    for k in (2, 3, 4, 9, None):
        decisions = dict(prepared_and_engine(engine, complete(5), Clique(k), "total")[0].decisions)
        assert set(decisions) == {"order", "algorithm"}
        chosen[k] = decisions["algorithm"].split(":")[0]
    assert chosen == {2: "pivot", 3: "orient", 4: "pivot", 9: "pivot", None: "pivot"}
    prepared, _ = prepared_and_engine(engine, complete(5), Clique(3), "edge")
    assert dict(prepared.decisions)["algorithm"].startswith("pivot: a leaf has")


@pytest.mark.parametrize("order", ORDERS)
def test_vertices_and_edges_follow_the_definition(engine: str, order: str) -> None:
    @laws(60)
    @given(graphs(11), st.integers(1, 7))
    def run(graph: UnipartiteGraph, k: int) -> None:
        edges = edges_of(graph)
        found = [clique for clique in cliques_of(graph.n, edges) if len(clique) == k]
        vertices = Counter(vertex for clique in found for vertex in clique)
        got = count(engine, graph, Clique(k), "vertex", order=order)
        assert got.total == len(found)
        assert got.vectors["n"].tolist() == [vertices[vertex] for vertex in range(graph.n)]
        if k == 1:
            return
        pairs = Counter(pair for clique in found for pair in combinations(clique, 2))
        got = count(engine, graph, Clique(k), "edge", order=order)
        assert got.total == len(found)
        assert got.vectors["edge"].tolist() == [pairs[pair] for pair in edges]

    run()


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 66, 130])
def test_complete_graphs_have_a_closed_form(engine: str, n: int) -> None:
    graph = complete(n)
    assert table(engine, graph) == {(k,): comb(n, k) for k in range(1, n + 1)}
    for k in {3, min(n, 5), n}:
        assert count(engine, graph, Clique(k)).total == comb(n, k)
    assert count(engine, graph, Clique(4), algorithm="orient").total == comb(n, 4)


@pytest.mark.parametrize("m", [1, 2, 7, 20, 40])
def test_cocktail_parties_have_a_closed_form(engine: str, m: int) -> None:
    """C(m, k) 2^k cliques of size k; the whole tree is beyond any machine where m is large."""
    graph = cocktail_party(m)
    if m <= 20:
        assert table(engine, graph) == {(k,): comb(m, k) * 2**k for k in range(1, m + 1)}
    for k in (3, 4):
        for algorithm in ("orient", "pivot"):
            assert count(engine, graph, Clique(k), algorithm=algorithm).total == comb(m, k) * 2**k


def test_counts_beyond_64_bits(engine: str) -> None:
    assert count(engine, complete(200), Clique(100)).total == comb(200, 100)
    assert count(engine, complete(200), Clique()).total == 2**200 - 1


@pytest.mark.parametrize("per", ["total", "vertex", "edge"])
def test_sizes_beyond_any_clique_have_none(engine: str, per: Granularity) -> None:
    got = count(engine, complete(5), Clique(2**31 - 1), per)
    assert got.total == 0
    assert not any(vector.any() for vector in got.vectors.values())


def test_sums_of_128_bits_are_carried(engine: str) -> None:
    """Taken in order, one root has more cliques than 64 bits hold only where no machine comes to the end of it."""
    from papilio.kernels.clique import loops

    total = np.array([2**64 - 3, 0, 0], np.uint64)
    for _ in range(2):
        loops._add_wide(total, np.uint64(5))
    assert (int(total[0]), int(total[1])) == (7, 1)


def test_unions_add_and_joins_multiply(engine: str) -> None:
    @laws(25)
    @given(graphs(8), graphs(8))
    def run(a: UnipartiteGraph, b: UnipartiteGraph) -> None:
        one, two = table(engine, a), table(engine, b)
        beside = Counter(one) + Counter(two)
        assert table(engine, union(a, b, joined=False)) == dict(beside)
        product_ = Counter[tuple[int, ...]]()
        for (k, x), (j, y) in product([((0,), 1), *one.items()], [((0,), 1), *two.items()]):
            product_[(k[0] + j[0],)] += x * y
        del product_[(0,)]
        assert table(engine, union(a, b, joined=True)) == dict(product_)

    run()


def test_a_vertex_has_the_cliques_of_its_neighbourhood(engine: str) -> None:
    graph = random_graph(3, 40, 0.4)
    edges = set(edges_of(graph))
    per_vertex = count(engine, graph, Clique(4), "vertex").vectors["n"].tolist()
    for vertex in range(graph.n):
        near = [x for x in range(graph.n) if (min(x, vertex), max(x, vertex)) in edges]
        inside = [(near.index(a), near.index(b)) for a, b in edges if a in near and b in near]
        assert per_vertex[vertex] == count(engine, make(len(near), inside), Clique(3)).total


@pytest.mark.parametrize("per", ["total", "vertex", "edge"])
@pytest.mark.parametrize("motif", [Clique(3), Clique(5)])
def test_any_split_and_any_cut_folds_to_the_whole(engine: str, motif: Clique, per: Granularity) -> None:
    graph = random_graph(5, 90, 0.3)
    prepared, made = prepared_and_engine(engine, graph, motif, per)
    whole = made.run(prepared, 0, prepared.n_items)
    ends = [0, 1, 2, 17, prepared.n_items // 2, prepared.n_items]
    folded = Partial(0, 0, 0, {name: np.zeros_like(vector) for name, vector in whole.vectors.items()})
    for begin, end in reversed(list(pairwise(ends))):
        folded = fold_partials(folded, made.run(prepared, begin, end))
    assert (folded.total, folded.n_items, folded.work) == (whole.total, whole.n_items, whole.work)
    for name, vector in whole.vectors.items():
        assert np.array_equal(folded.vectors[name], vector)
    calls = iter(range(10**9))
    part = made.run(prepared, 0, prepared.n_items, (10, 20, 30), lambda: next(calls) >= 3)
    rest = made.run(prepared, part.n_items, prepared.n_items)
    assert 0 < part.n_items <= prepared.n_items
    assert part.total + rest.total == whole.total


def test_items_come_heaviest_first_and_tables_fold(engine: str) -> None:
    graph = random_graph(7, 60, 0.5)
    prepared, made = prepared_and_engine(engine, graph, Clique(), "total")
    work = made.work(prepared)
    assert work.shape == (prepared.n_items,) == (60,)
    assert bool((np.diff(work) <= 0).all())
    assert prepared.nbytes > 0
    halves = [made.run(prepared, begin, end).cells for begin, end in ((0, 20), (20, 60))]
    assert dict(Counter(halves[0]) + Counter(halves[1])) == made.run(prepared, 0, 60).cells


def test_rounds_are_sorted_whether_they_are_short_or_long() -> None:
    """Vertices alone and stars, in ids of no order: who is alone goes first, then all leaves, then the centres."""
    sizes = [700, 300, 40, 2]
    n = sum(sizes) + len(sizes) + 900
    ids, edges, at, leaves = (
        np.random.default_rng(5).permutation(n),
        list[tuple[int, int]](),
        900,
        set(range(900)),
    )
    for size in sizes:
        edges += [(at, at + 1 + leaf) for leaf in range(size)]
        leaves |= set(range(at + 1, at + 1 + size))
        at += size + 1
    graph = UnipartiteGraph.from_edges(*(ids[list(side)] for side in zip(*edges, strict=True)), n=n)
    alone, single = sorted(ids[:900].tolist()), sorted(ids[[*(leaves - set(range(900)))]].tolist())
    centres = sorted(ids[[x for x in range(n) if x not in leaves]].tolist())
    assert order_by_degeneracy(graph).tolist() == alone + single + centres


def test_the_order_is_that_of_peeling_in_rounds() -> None:
    @laws(80)
    @given(graphs())
    def run(graph: UnipartiteGraph) -> None:
        edges, left, order, degree = edges_of(graph), set(range(graph.n)), list[int](), 0
        while left:
            degrees = {x: sum((a == x and b in left) or (b == x and a in left) for a, b in edges) for x in left}
            round_ = sorted(x for x in left if degrees[x] <= degree)
            if not round_:
                degree += 1
            order += round_
            left -= set(round_)
        assert order_by_degeneracy(graph).tolist() == order

    run()


def test_what_cannot_be_counted_is_refused(engine: str) -> None:
    graph = complete(4)
    with pytest.raises(UnsupportedError, match="'orient' counts totals, of a single k of at least 3"):
        prepared_and_engine(engine, graph, Clique(), "total", algorithm="orient")
    with pytest.raises(UnsupportedError, match="cannot be counted per 'edge'"):
        prepared_and_engine(engine, graph, Clique(1), "edge")
    with pytest.raises(UnsupportedError, match="cannot be counted per 'vertex'"):
        prepared_and_engine(engine, graph, Clique(), "vertex")
    made = load_engine(Clique(3), engine)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="unipartite"):
        made.prepare(BipartiteGraph.from_edges([0], [0]), Clique(3), "total")
    with pytest.raises(UnsupportedError, match="butterfly"):
        made.prepare(graph, Butterfly(), "total")
    prepared = made.prepare(graph, Clique(3), "total")
    for interval in ((-1, 2), (3, 2), (0, 10**9)):
        with pytest.raises(InputError, match=f"not within \\[0, {prepared.n_items}\\)"):
            made.run(prepared, *interval)


KNOWN = {
    "ca-GrQc": {3: 48_260, 4: 329_297, 5: 2_215_500, 6: 12_898_478},
    "email-Eu-core": {3: 105_461, 4: 423_750, 5: 1_222_005, 6: 2_701_759, 18: 56},
    "ca-HepTh": {3: 28_339, 4: 65_592, 5: 279_547, 6: 1_123_584},
    "wiki-Vote": {3: 608_389, 4: 2_077_903, 5: 4_514_137, 6: 6_931_312, 17: 23},
    "ca-HepPh": {3: 3_358_499, 4: 150_281_372, 5: 6_491_049_885, 6: 246_404_858_376},
    "ca-AstroPh": {3: 1_351_441, 4: 9_580_415, 5: 64_997_961, 6: 400_401_488, 57: 1},
    "soc-Epinions1": {3: 1_624_481, 4: 5_803_397, 5: 17_417_432, 6: 45_703_641, 23: 18},
}


def read(shared_data: Path, name: str) -> UnipartiteGraph:
    with gzip.open(shared_data / "unipartite" / f"{name}.txt.gz", "rt") as file:
        pairs = np.loadtxt(file, dtype=np.int64)
    return UnipartiteGraph.from_edges(pairs[:, 0], pairs[:, 1])


@pytest.mark.parametrize("name", KNOWN)
def test_every_size_of_real_graphs(engine: str, shared_data: Path, name: str) -> None:
    graph = read(shared_data, name)
    cells = table(engine, graph)
    assert {k: cells[(k,)] for k in KNOWN[name]} == KNOWN[name]
    assert max(cells)[0] == max(max(cells))
    assert (cells[(1,)], cells[(2,)]) == (graph.n, graph.n_edges)


@pytest.mark.parametrize("per", ["vertex", "edge"])
def test_vectors_of_real_graphs_sum_to_the_total(engine: str, shared_data: Path, per: Granularity) -> None:
    got = count(engine, read(shared_data, "ca-HepTh"), Clique(5), per)
    assert got.total == 279_547
    (vector,) = got.vectors.values()
    assert int(vector.sum()) == got.total * (5 if per == "vertex" else comb(5, 2))


FACEBOOK = [
    (3, 1_612_010),
    (4, 30_004_668),
    (5, 517_965_151),
    pytest.param(6, 7_830_937_838, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("k", "number"), FACEBOOK)
def test_facebook(engine: str, shared_data: Path, k: int, number: int) -> None:
    assert count(engine, read(shared_data, "facebook_combined"), Clique(k)).total == number
