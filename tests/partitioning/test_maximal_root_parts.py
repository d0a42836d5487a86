"""Parts for maximal bicliques: whatever the budget, they are what the whole graph is, each within its limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.groupings import Grouping, cutting_by, hash_groups
from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique, MaximalBiclique
from papilio.partitioning.growth import grow_groups
from papilio.partitioning.partition import Partition
from papilio.partitioning.root_parts import cut_maximal_roots
from papilio.parts import MaximalPart
from papilio.registry import load_engine
from tests.conftest import read_edges, share_of_examples
from tests.kernels.maximal.questions import motifs
from tests.partitioning.helpers import assert_counted_as_whole, assert_parts_fit
from tests.partitioning.root_cuts import PART_BYTES, cut, least_bytes, parts_of
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.root_parts import count_parts
from tests.tools.strategies import bipartite_graphs, edge_list, graph_of, planted_graph, skewed_graph


def cut_maximal(
    graph: BipartiteGraph,
    path: Path,
    motif: MaximalBiclique,
    anchor: str = "auto",
    share: float = 0.3,
    **options: Any,
) -> Partition:
    return cut(graph, path, motif, anchor, share, cutter=cut_maximal_roots, **options)


def assert_equal_counts(
    graph: BipartiteGraph, path: Path, motif: MaximalBiclique, share: float, anchor: str = "auto"
) -> int:
    """Cut, count all parts and the whole graph, compare; return how many parts there are."""
    partition = cut_maximal(graph, path, motif, anchor, share)
    parts = parts_of(partition)
    found = count_parts(load_engine(motif, "cpu", 2), graph, parts, motif)
    assert_counted_as_whole(found, graph, motif)
    assert_parts_fit(partition, parts, PART_BYTES)
    for part in parts:
        assert isinstance(part, MaximalPart)
        assert not np.isin(part.roots, part.excluded).any()
    return len(parts)


def test_any_budget_counts_by_the_definition() -> None:
    @settings(max_examples=share_of_examples(30), deadline=None, derandomize=True, database=None)
    @given(bipartite_graphs(10), motifs(), st.sampled_from(["auto", "u", "v"]), st.floats(0, 1.2))
    def run(graph: BipartiteGraph, motif: MaximalBiclique, anchor: str, share: float) -> None:
        with TemporaryDirectory() as path:
            parts = parts_of(cut_maximal(graph, Path(path), motif, anchor, share, threads=1))
        found = count_parts(load_engine(motif, "cpu", 1), graph, parts, motif)
        sizes = Counter(tuple(map(len, each)) for each in maximal_bicliques_of(edge_list(graph)))
        assert found.cells == {cell: count for cell, count in sizes.items() if motif.has_cell(cell)}

    run()


@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("motif", [MaximalBiclique(), MaximalBiclique(2, 3), MaximalBiclique(3, 1)], ids=str)
def test_parts_of_known_graphs(tmp_path: Path, example_data: Path, motif: MaximalBiclique, anchor: str) -> None:
    women = read_edges(example_data / "southern-women.txt.gz")
    assert assert_equal_counts(women, tmp_path, motif, 0.5, anchor) > 0
    planted = planted_graph(7, 150, 120, 8, 8, 500, 0.1)
    assert assert_equal_counts(planted, tmp_path, motif, 0.3, anchor) > 2


@pytest.mark.parametrize("group", [grow_groups, hash_groups])
def test_the_cut_depends_on_no_threads(tmp_path: Path, group: Grouping) -> None:
    graph = skewed_graph(4, 120, 100, 900)
    with cutting_by(group):
        one, two = (cut_maximal(graph, tmp_path, MaximalBiclique(), "u", 0.5, threads=threads) for threads in (1, 3))
    assert one.hash == two.hash
    assert one.manifest.replication > 1
    assert any(part.excluded.size for part in parts_of(one) if isinstance(part, MaximalPart))


@pytest.mark.parametrize(
    ("name", "motif", "share", "known"),
    [
        ("moreno-crime", MaximalBiclique(), 0.1, 620),
        ("opsahl-ucforum", MaximalBiclique(), 0.6, 16_261),
        ("bonanza", MaximalBiclique(), 0.35, 54_036),
        pytest.param("marvel", MaximalBiclique(3, 3), 0.5, None, marks=pytest.mark.slow),
    ],
)
def test_reference_graphs(
    tmp_path: Path,
    reference_graph: Callable[[str], BipartiteGraph],
    name: str,
    motif: MaximalBiclique,
    share: float,
    known: int | None,
) -> None:
    graph = reference_graph(name)
    assert assert_equal_counts(graph, tmp_path, motif, share) > 1
    if known is not None:
        prepared: Any = (engine := load_engine(motif, "cpu", 2)).prepare(graph, motif, "total")
        assert engine.run(prepared, 0, prepared.n_items).total == known


def test_a_root_that_fits_no_part_is_named_with_the_budget_that_would_do(tmp_path: Path) -> None:
    hub = {(7, v) for v in range(40)} | {(u, v) for u in (1, 2, 3) for v in range(0, 40, 2)}
    graph, motif = graph_of(hub, 9, 40), MaximalBiclique()
    with pytest.raises(CapacityError, match=r"vertex 7 of layer U, a root with 40 edges") as refused:
        cut_maximal(graph, tmp_path, motif, "u", limit_bytes=300)
    assert {path.name for path in tmp_path.iterdir()} == {"graph"}
    least = least_bytes(refused.value)
    parts = parts_of(cut_maximal(graph, tmp_path, motif, "u", limit_bytes=least))
    found = count_parts(load_engine(motif, "cpu", 1), graph, parts, motif)
    assert found.total == len(maximal_bicliques_of(edge_list(graph)))


def test_what_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    graph = planted_graph(1, 20, 20, 2, 4, 20, 0.1)
    with pytest.raises(UnsupportedError, match="pair_blocks is for butterflies"):
        cut_maximal(graph, tmp_path, MaximalBiclique(), strategy="pair_blocks")
    with pytest.raises(InputError, match="anchor is 'x'"):
        cut_maximal(graph, tmp_path, MaximalBiclique(), "x")
    partition = cut_maximal(graph, tmp_path, MaximalBiclique(2, 2), share=0.9)
    partition.require_serves(MaximalBiclique(3, 2), "total")
    with pytest.raises(UnsupportedError, match="supports p >= 2"):
        partition.require_serves(MaximalBiclique(), "total")
    with pytest.raises(UnsupportedError, match="parts for maximal-biclique"):
        partition.require_serves(Biclique(2, 2), "total")
