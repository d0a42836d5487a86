"""Parts for cliques: whatever the budget, they are what the whole graph is, each within its limit."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.groupings import Grouping, cutting_by, hash_groups
from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.kernels.clique.question import predict_maximal_work, predict_work
from papilio.motifs import Clique, Granularity, MaximalClique
from papilio.partitioning import root_parts
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.growth import grow_groups
from papilio.parts import PartSizes
from papilio.registry import load_engine
from papilio.storage import edge_files as edges
from papilio.storage.store import write_store
from tests.kernels.clique.test_clique import edges_of, graphs, laws, make, random_graph, read
from tests.partitioning.clique_cuts import PART_BYTES, clique_parts_of, cut, cutter_for
from tests.partitioning.helpers import assert_counted_as_whole, assert_parts_fit
from tests.partitioning.root_cuts import least_bytes
from tests.tools.clique_parts import count_clique_parts
from tests.tools.oracle_clique import cliques_of, count_cliques, maximal_cliques

Question = Clique | MaximalClique


def assert_equal_counts(
    graph: UnipartiteGraph,
    path: Path,
    motif: Question,
    share: float,
    per: Granularity = "total",
) -> int:
    """Cut, count all parts and the whole graph, compare; return how many parts there are."""
    partition = cut(graph, path, motif, share, per)
    parts = clique_parts_of(partition)
    found = count_clique_parts(load_engine(motif, "cpu", 2), graph, parts, motif, per)
    assert_counted_as_whole(found, graph, motif, per)
    assert_parts_fit(partition, parts, PART_BYTES)
    for part in parts:
        out = np.diff(part.graph.indptr)
        back = np.bincount(part.graph.v, minlength=part.graph.n)
        work = predict_work(out) if isinstance(motif, Clique) else predict_maximal_work(out, back)
        assert part.work.tolist() == work[part.roots].tolist()
    return len(parts)


@pytest.mark.parametrize("motif", [Clique(), Clique(3), Clique(4), MaximalClique(), MaximalClique(3)], ids=str)
def test_any_budget_counts_by_the_definition(motif: Question) -> None:
    @laws(12)
    @given(graphs(), st.floats(0, 1.2))
    def run(graph: UnipartiteGraph, share: float) -> None:
        with TemporaryDirectory() as path:
            parts = clique_parts_of(cut(graph, Path(path), motif, share, threads=1))
        found = count_clique_parts(load_engine(motif, "cpu", 1), graph, parts, motif)
        if isinstance(motif, MaximalClique):
            kept = [each for each in maximal_cliques(graph.n, edges_of(graph)) if len(each) >= motif.min_size]
            assert found.total == len(kept)
        else:
            wanted = count_cliques(graph.n, edges_of(graph))
            assert found.total == sum(count for cell, count in wanted.items() if motif.has_cell(cell))

    run()


@pytest.mark.parametrize("group", [grow_groups, hash_groups])
@pytest.mark.parametrize("motif", [Clique(), Clique(4), MaximalClique(), MaximalClique(4)], ids=str)
def test_parts_of_a_random_graph(tmp_path: Path, motif: Question, group: Grouping) -> None:
    with cutting_by(group):
        assert assert_equal_counts(random_graph(3, 90, 0.1), tmp_path, motif, 0.3) > 2


@pytest.mark.parametrize("per", ["vertex", "edge"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_every_vertex_and_every_edge(tmp_path: Path, k: int, per: Granularity) -> None:
    assert assert_equal_counts(random_graph(5, 60, 0.3), tmp_path, Clique(k), 0.5, per) > 1


def test_isolated_vertices_are_maximal_cliques_of_their_own(tmp_path: Path) -> None:
    graph = make(30, [(3, 9), (9, 20), (3, 20), (20, 21)])
    assert assert_equal_counts(graph, tmp_path, MaximalClique(), 0.1) > 1
    assert assert_equal_counts(graph, tmp_path, Clique(), 0.1) > 1
    assert assert_equal_counts(make(5, []), tmp_path, MaximalClique(), 0.1) > 0
    assert assert_equal_counts(make(5, []), tmp_path, Clique(3), 0.1) == 0


def test_down_to_one_root_for_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(8, 40, 0.2)
    monkeypatch.setattr(
        "papilio.partitioning.clique_parts.grow_chunks",
        lambda indptr, *rest: np.arange(indptr.size - 1, dtype=np.int32),
    )
    for motif in (Clique(), MaximalClique()):
        partition = cut(graph, tmp_path, motif, 0.9)
        parts = clique_parts_of(partition)
        assert {part.roots.size for part in parts} == {1}
        found = count_clique_parts(load_engine(motif, "cpu", 1), graph, parts, motif)
        cliques = list((cliques_of if isinstance(motif, Clique) else maximal_cliques)(graph.n, edges_of(graph)))
        assert found.total == len(cliques)
        assert partition.manifest.replication > 1


def test_several_row_groups_runs_and_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "ROW_GROUP_EDGES", 64)
    monkeypatch.setattr(root_parts, "RUN_ENTRIES", 16)
    graph = random_graph(4, 80, 0.12)
    for motif in (Clique(3), MaximalClique()):
        one, two = (cut(graph, tmp_path, motif, 0.3, threads=threads) for threads in (1, 3))
        assert one.hash == two.hash
        assert assert_equal_counts(graph, tmp_path, motif, 0.3) > 2


@pytest.mark.parametrize(
    ("name", "motif", "share"),
    [
        ("ca-GrQc", Clique(), 0.2), ("email-Eu-core", Clique(5), 0.5), ("wiki-Vote", Clique(4), 0.3),
        ("ca-GrQc", MaximalClique(), 0.2), ("ca-HepTh", MaximalClique(3), 0.1),
        pytest.param("wiki-Vote", MaximalClique(), 0.6, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_reference_graphs(tmp_path: Path, shared_data: Path, name: str, motif: Question, share: float) -> None:
    graph = read(shared_data, name)
    assert assert_equal_counts(graph, tmp_path, motif, share) > 1


def test_a_root_that_fits_no_part_is_named_with_the_budget_that_would_do(tmp_path: Path) -> None:
    hub = make(41, [(0, other) for other in range(1, 41)] + [(a, a + 1) for a in range(1, 40)])
    for motif in (Clique(), MaximalClique()):
        with pytest.raises(CapacityError, match=r"vertex \d+, a root that needs") as refused:
            cut(hub, tmp_path, motif, limit_bytes=PART_BYTES.fixed + 60)
        assert not [path for path in tmp_path.iterdir() if path.name != "graph"]
        needed = least_bytes(refused.value)
        assert len(cut(hub, tmp_path, motif, limit_bytes=needed).manifest.parts) > 1
        with pytest.raises(CapacityError, match="a root that needs"):
            cut(hub, tmp_path, motif, limit_bytes=needed - 1)
        for path in tmp_path.glob("parts-*"):
            path.rename(tmp_path.parent / f"{tmp_path.name}-{motif.name}-{path.name}")


@pytest.mark.parametrize(
    ("options", "strategy", "word"),
    [
        ({"order": "degeneracy"}, "auto", "ordered by degree"),
        ({}, "pair_blocks", "for butterflies"),
    ],
)
def test_what_cannot_be_cut_is_refused(tmp_path: Path, options: dict[str, str], strategy: Strategy, word: str) -> None:
    with pytest.raises(UnsupportedError, match=word):
        cut(random_graph(1, 20, 0.2), tmp_path, Clique(3), strategy=strategy, options=options)


def test_a_partition_says_whom_it_serves(tmp_path: Path) -> None:
    graph = random_graph(1, 40, 0.3)
    partition = cut(graph, tmp_path, Clique(4), 0.5)
    for motif in (Clique(4), Clique(6)):
        partition.require_serves(motif, "total")
    with pytest.raises(UnsupportedError, match="cliques of at least 4 vertices"):
        partition.require_serves(Clique(3), "total")
    with pytest.raises(UnsupportedError, match="parts for clique, not for maximal clique of at least 5"):
        partition.require_serves(MaximalClique(5), "total")
    with pytest.raises(UnsupportedError, match="not per vertex"):
        partition.require_serves(Clique(4), "vertex")


@pytest.mark.slow
@pytest.mark.parametrize("motif", [Clique(3), MaximalClique(3)], ids=str)
def test_cutting_stays_within_the_host_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, motif: Question) -> None:
    monkeypatch.setattr(edges, "ROW_GROUP_EDGES", 1 << 17)
    random = np.random.default_rng(1)
    n, degree, host_bytes = 80_000, 30, 44 << 20
    a = np.repeat(np.arange(n), degree)
    b = (a + random.integers(1, 300, a.size)) % n
    graph = UnipartiteGraph.from_edges(a, b, n)
    for place, each in (("compile", random_graph(1, 60, 0.2)), ("cut", graph)):
        store = write_store(tmp_path / place, each, provenance={})
        limit = max(PART_BYTES.of(PartSizes(each.n, each.n_edges, 0, 0)) // 10, 4096)
        request = CutRequest("total", PART_BYTES, limit, host_bytes, 2)
        partition = cutter_for(motif)(store, tmp_path / f"{place}-parts", motif, {}, request)
    assert len(partition.manifest.parts) > 10
    assert partition.manifest.peak_bytes < host_bytes < 24 * graph.n_edges
