"""Parts for bicliques: every biclique lies in exactly one part, whatever the budget, the anchor and the grouping."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.groupings import Grouping, cutting_by, hash_groups, metis_groups, paper_groups
from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique
from papilio.partitioning import root_parts
from papilio.partitioning.cut_request import CutRequest
from papilio.partitioning.growth import grow_groups
from papilio.partitioning.partition import Partition, open_partition
from papilio.partitioning.root_parts import cut_roots
from papilio.parts import PartSizes, RootPart
from papilio.storage.store import write_store
from tests.conftest import share_of_examples
from tests.partitioning.root_cuts import HOST_BYTES, PART_BYTES, cut, least_bytes, parts_of
from tests.tools.oracle_biclique import count_all, count_bicliques
from tests.tools.pairs import all_pairs
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    planted_graph,
    skewed_graph,
)

SIZES = [(1, 1), (1, 3), (3, 1), (2, 2), (3, 2), (3, 3)]

Found = tuple[tuple[int, ...], tuple[int, ...]]


def without_roots(part: RootPart) -> list[tuple[int, int]]:
    roots = set(part.roots.tolist())
    return [edge for edge in edge_list(part.graph) if edge[part.layer == "v"] not in roots]


def count_of_roots(part: RootPart, p: int, q: int) -> int:
    """Count the bicliques of the part that hold a root, as those of all minus those of the others."""
    return count_bicliques(edge_list(part.graph), p, q) - count_bicliques(without_roots(part), p, q)


def list_bicliques(edges: list[tuple[int, int]], p: int, q: int) -> set[Found]:
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
    return {
        (us, vs)
        for us in combinations(sorted(neighbours), p)
        for vs in combinations(sorted(set.intersection(*(neighbours[u] for u in us))), q)
    }


def list_of_roots(part: RootPart, p: int, q: int) -> set[Found]:
    """List the bicliques of the part that hold a root, by ids in the whole graph."""
    roots = set(part.roots.tolist())
    return {
        (tuple(sorted(part.ids_u[list(us)].tolist())), tuple(sorted(part.ids_v[list(vs)].tolist())))
        for us, vs in list_bicliques(edge_list(part.graph), p, q)
        if roots & set(us if part.layer == "u" else vs)
    }


def assert_each_once(graph: BipartiteGraph, partition: Partition, p: int, q: int) -> None:
    """Check that each biclique of the graph is found by exactly one part, and nothing else."""
    found = Counter(one for part in parts_of(partition) for one in list_of_roots(part, p, q))
    assert set(found) == list_bicliques(edge_list(graph), p, q)
    assert set(found.values()) <= {1}


GRAPHS = {
    "planted": planted_graph(1, 24, 20, 3, 6, 40, 0.1),
    "skewed": skewed_graph(2, 30, 22, 130),
    "complete": complete_graph(6, 5),
}


@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize(("name", "size"), all_pairs(GRAPHS, SIZES), ids=str)
def test_every_biclique_is_in_exactly_one_part(tmp_path: Path, name: str, size: tuple[int, int], anchor: str) -> None:
    graph, (p, q) = GRAPHS[name], size
    several = 0
    for share in (0.05, 0.4, 1.0):
        partition = cut(graph, tmp_path, Biclique(p, q), anchor, share)
        assert partition.manifest.layer == anchor
        assert_each_once(graph, partition, p, q)
        several += len(partition.manifest.parts) > 1
    assert several or name == "complete"


@given(
    bipartite_graphs(10),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["auto", "u", "v"]),
    st.sampled_from([0.02, 0.2, 0.5]),
)
@settings(max_examples=share_of_examples(40), deadline=None)
def test_every_biclique_of_any_graph_is_in_exactly_one_part(
    graph: BipartiteGraph, size: tuple[int, int], anchor: str, share: float
) -> None:
    with TemporaryDirectory() as directory:
        partition = cut(graph, Path(directory), Biclique(*size), anchor, share, threads=1)
        assert_each_once(graph, partition, *size)


@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("motif", [Biclique(), Biclique(p=2), Biclique(q=3, max_p=4)], ids=str)
def test_parts_of_a_table_serve_all_its_sizes(tmp_path: Path, motif: Biclique, anchor: str) -> None:
    graph = GRAPHS["planted"]
    partition = cut(graph, tmp_path, motif, anchor, 0.3)
    assert len(partition.manifest.parts) > 2
    sums: Counter[tuple[int, int]] = Counter()
    for part in parts_of(partition):
        sums.update(count_all(edge_list(part.graph)))
        sums.subtract(count_all(without_roots(part)))
    least = motif.p or 1, motif.q or 1
    expected = {
        cell: count
        for cell, count in count_all(edge_list(graph)).items()
        if cell[0] >= least[0] and cell[1] >= least[1]
    }
    assert {cell: sums[cell] for cell in expected} == expected


def test_parts_serve_larger_sizes_and_refuse_smaller_ones(tmp_path: Path) -> None:
    graph = GRAPHS["planted"]
    partition = open_partition(cut(graph, tmp_path, Biclique(2, 3), "u", 0.2).path)
    for p, q in [(2, 3), (3, 3), (2, 4), (4, 4)]:
        partition.require_serves(Biclique(p, q), "total")
        total = sum(count_of_roots(part, p, q) for part in parts_of(partition))
        assert total == count_bicliques(edge_list(graph), p, q)
    for p, q in [(1, 3), (2, 2)]:
        with pytest.raises(UnsupportedError, match="supports p >= 2 and q >= 3"):
            partition.require_serves(Biclique(p, q), "total")
    with pytest.raises(UnsupportedError, match="per vertex"):
        partition.require_serves(Biclique(2, 3), "vertex")


@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("group", [grow_groups, hash_groups, metis_groups, partial(paper_groups, least=3)])
def test_parts_of_any_groups_have_every_biclique_once(tmp_path: Path, group: Grouping, anchor: str) -> None:
    graph = planted_graph(5, 60, 50, 6, 6, 80, 0.05)
    with cutting_by(group):
        partition = cut(graph, tmp_path, Biclique(3, 2), anchor, 0.4)
    assert len(partition.manifest.parts) > 1
    assert_each_once(graph, partition, 3, 2)


def test_what_the_manifest_says_of_parts(tmp_path: Path) -> None:
    graph = skewed_graph(3, 200, 150, 1500)
    partition = cut(graph, tmp_path, Biclique(2, 2), "v", 0.2)
    manifest = partition.manifest
    assert (manifest.family, manifest.strategy, manifest.layer, manifest.per) == (
        "roots",
        "bcpar",
        "v",
        "total",
    )
    parts = parts_of(partition)
    assert len(parts) > 3
    for info, part in zip(manifest.parts, parts, strict=True):
        part.graph.validate()
        neighbours = Counter(part.graph.v.tolist())
        degree = Counter(part.graph.u.tolist())
        lists = {v: [u for u, w in edge_list(part.graph) if w == v] for v in part.roots.tolist()}
        assert part.work.tolist() == [sum(degree[u] - 1 for u in lists[v]) for v in part.roots.tolist()]
        assert part.work.tolist() == sorted(part.work.tolist(), reverse=True)
        root_entries = sum(neighbours[v] for v in part.roots.tolist())
        others = part.graph.n_u + part.graph.n_v - part.roots.size
        sizes = PartSizes(part.roots.size, root_entries, others, part.graph.n_edges - root_entries)
        assert info.sizes == sizes == part.sizes
        assert PART_BYTES.of(sizes) <= manifest.part_bytes_limit
        assert (info.n_items, info.work, info.nbytes) == (part.roots.size, part.work.sum(), part.nbytes)
        assert (info.table["items"][-1], info.table["work"][-1]) == (info.n_items, info.work)
        originals = set(edge_list(graph))
        assert {(part.ids_u[u], part.ids_v[v]) for u, v in edge_list(part.graph)} <= originals
    roots = Counter(v for part in parts for v in part.ids_v[part.roots].tolist())
    assert set(roots.values()) == {1}
    stored = sum(part.graph.n_edges for part in parts)
    assert (manifest.stored_edges, manifest.replication) == (stored, stored / graph.n_edges)
    assert set(manifest.seconds) == {"rows", "groups", "parts"}
    assert [what for what, _ in manifest.decisions][:2] == ["layer V anchored", "core of p >= 2 and q >= 2"]


def test_the_cut_depends_on_neither_threads_nor_the_length_of_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = skewed_graph(4, 300, 200, 2500)
    one = cut(graph, tmp_path, Biclique(3, 3), "u", 0.2, threads=1)
    monkeypatch.setattr(root_parts, "RUN_ENTRIES", 64)
    monkeypatch.setattr(root_parts, "RUN_GAP", 3)
    two = cut(graph, tmp_path, Biclique(3, 3), "u", 0.2, threads=2)
    assert len(one.manifest.parts) > 2
    assert one.hash == two.hash


def test_a_graph_that_fits_is_one_part_with_only_its_core(tmp_path: Path) -> None:
    edges = {(u, v) for u in range(4) for v in range(4)} | {(4, 9), (5, 0), (6, 0)}
    partition = cut(graph_of(edges, 8, 10), tmp_path, Biclique(2, 2), "u", 2.0)
    (part,) = parts_of(partition)
    assert sorted(part.ids_u.tolist()) == sorted(part.ids_v.tolist()) == [0, 1, 2, 3]
    assert partition.manifest.reason.startswith("one part")
    assert partition.manifest.replication == 16 / 19


@pytest.mark.parametrize("graph", [graph_of(set(), 0, 0), graph_of({(0, 0), (1, 1)}, 2, 2)], ids=["empty", "matching"])
def test_nothing_in_a_biclique_is_no_part(tmp_path: Path, graph: BipartiteGraph) -> None:
    partition = cut(graph, tmp_path, Biclique(2, 2), "auto", 0.5)
    assert partition.manifest.parts == ()
    assert ("no part", "nothing is in a biclique") in partition.manifest.decisions


def test_a_root_that_fits_no_part_is_named_before_anything_is_written(tmp_path: Path) -> None:
    hub = {(7, v) for v in range(40)} | {(u, v) for u in (1, 2, 3) for v in range(0, 40, 2)}
    graph = graph_of(hub, 9, 40)
    with pytest.raises(CapacityError, match=r"vertex \d of layer U, a root with 20 edges") as info:
        cut(graph, tmp_path, Biclique(2, 2), "u", limit_bytes=300)
    assert {path.name for path in tmp_path.iterdir()} == {"graph"}
    least = least_bytes(info.value)
    partition = cut(graph, tmp_path, Biclique(2, 2), "u", limit_bytes=least)
    assert_each_once(graph, partition, 2, 2)
    with pytest.raises(CapacityError, match=f"at least {least:,} bytes"):
        cut(graph, tmp_path, Biclique(2, 2), "u", limit_bytes=least - 2)


def test_the_other_layer_is_anchored_where_only_its_roots_fit(tmp_path: Path) -> None:
    edges = {(0, v) for v in range(60)} | {(1 + v // 6, v) for v in range(60)}
    graph = graph_of(edges, 11, 60)
    limit = 900
    with pytest.raises(CapacityError, match="vertex 0 of layer U, a root"):
        cut(graph, tmp_path, Biclique(2, 2), "u", limit_bytes=limit)
    partition = cut(graph, tmp_path, Biclique(2, 2), "auto", limit_bytes=limit)
    assert partition.manifest.layer == "v"
    assert partition.manifest.decisions[0] == (
        "layer V anchored",
        "a vertex of layer U does not fit in a part with the lists of its neighbours",
    )
    assert_each_once(graph, partition, 2, 2)


def test_host_memory_that_does_not_do_is_refused_with_what_would(tmp_path: Path) -> None:
    graph = GRAPHS["skewed"]
    store = write_store(tmp_path / "graph", graph, provenance={})
    request = CutRequest("total", PART_BYTES, 3000, 4096, 2)
    with pytest.raises(CapacityError, match="host"):
        cut_roots(store, tmp_path / "parts", Biclique(2, 2), {"anchor": "u"}, request)
    assert {path.name for path in tmp_path.iterdir()} == {"graph"}


def test_parts_are_no_larger_than_the_host_memory_can_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = skewed_graph(3, 200, 150, 1500)
    assert len(cut(graph, tmp_path, Biclique(2, 2), "v", 2.0).manifest.parts) == 1
    monkeypatch.setattr(root_parts, "ENTRY_BYTES", HOST_BYTES // 600)
    partition = cut(graph, tmp_path, Biclique(2, 2), "v", 2.0)
    assert len(partition.manifest.parts) > 1
    assert all(part.sizes.edges < 600 for part in partition.manifest.parts)
    assert_each_once(graph, partition, 2, 2)
    monkeypatch.setattr(root_parts, "ENTRY_BYTES", HOST_BYTES // 30)
    with pytest.raises(CapacityError, match="so raise that"):
        cut(graph, tmp_path, Biclique(2, 2), "v", limit_bytes=10**6)


def test_what_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    store = write_store(tmp_path / "b", GRAPHS["complete"], provenance={})
    request = CutRequest("total", PART_BYTES, 3000, HOST_BYTES, 1, "pair_blocks")
    with pytest.raises(UnsupportedError, match="pair_blocks is for butterflies"):
        cut_roots(store, tmp_path / "parts", Biclique(2, 2), {}, request)


def test_progress_rises_to_one(tmp_path: Path) -> None:
    store = write_store(tmp_path / "graph", GRAPHS["planted"], provenance={})
    request = CutRequest("total", PART_BYTES, 1200, HOST_BYTES, 1)
    seen: list[float] = []
    partition = cut_roots(store, tmp_path / "parts", Biclique(2, 2), {"anchor": "u"}, request, seen.append)
    assert len(seen) > len(partition.manifest.parts) > 1
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert np.all(np.array(seen) >= 0)
