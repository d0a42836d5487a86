"""Parts for bicliques through the CPU engine: what they add up to is what the whole graph has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique, Granularity
from papilio.partitioning.cut_request import CutRequest
from papilio.partitioning.root_parts import cut_roots
from papilio.parts import PartBytes, PartSizes
from papilio.registry import load_engine
from papilio.storage import edge_files as edges
from papilio.storage.store import write_store
from tests.conftest import read_edges
from tests.partitioning.helpers import assert_counted_as_whole
from tests.partitioning.root_cuts import cut, parts_of
from tests.tools.root_parts import count_parts
from tests.tools.strategies import planted_graph


def assert_equal_counts(
    graph: BipartiteGraph,
    path: Path,
    motif: Biclique,
    share: float,
    anchor: str = "auto",
    per: Granularity = "total",
) -> int:
    """Cut, count all parts and the whole graph, compare; return how many parts there are."""
    parts = parts_of(cut(graph, path, motif, anchor, share))
    found = count_parts(load_engine(motif, "cpu", 2), graph, parts, motif, per)
    assert_counted_as_whole(found, graph, motif, per)
    return len(parts)


@pytest.mark.parametrize("anchor", ["u", "v"])
@pytest.mark.parametrize("motif", [Biclique(1, 3), Biclique(2, 2), Biclique(3, 3), Biclique(), Biclique(q=2)], ids=str)
def test_southern_women(tmp_path: Path, example_data: Path, motif: Biclique, anchor: str) -> None:
    graph = read_edges(example_data / "southern-women.txt.gz")
    assert assert_equal_counts(graph, tmp_path, motif, 0.3, anchor) > 1


@pytest.mark.parametrize("size", [(2, 2), (3, 3)])
def test_senate_votes(tmp_path: Path, example_data: Path, size: tuple[int, int]) -> None:
    graph = read_edges(example_data / "senate-votes.txt.gz", skip_lines=1)
    assert assert_equal_counts(graph, tmp_path, Biclique(*size), 0.6) > 1


@pytest.mark.parametrize("size", [(1, 4), (3, 1), (2, 3), (3, 3)])
def test_every_vertex(tmp_path: Path, size: tuple[int, int]) -> None:
    graph = planted_graph(7, 150, 120, 8, 8, 500, 0.1)
    for anchor in ("u", "v"):
        assert assert_equal_counts(graph, tmp_path, Biclique(*size), 0.25, anchor, "vertex") > 2


@pytest.mark.parametrize(
    ("name", "motif", "share"),
    [
        ("marvel", Biclique(3, 3), 0.25),
        ("marvel", Biclique(4, 4), 0.1),
        ("marvel", Biclique(), 0.5),
        ("moreno-crime", Biclique(2, 2), 0.1),
        ("youtube-groupmemberships", Biclique(3, 3), 0.2),
        ("youtube-groupmemberships", Biclique(2, 4), 0.1),
    ],
)
def test_reference_graphs(
    tmp_path: Path,
    reference_graph: Callable[[str], BipartiteGraph],
    name: str,
    motif: Biclique,
    share: float,
) -> None:
    assert assert_equal_counts(reference_graph(name), tmp_path, motif, share) > 1


@pytest.mark.slow
def test_cutting_stays_within_the_host_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "ROW_GROUP_EDGES", 1 << 17)
    random = np.random.default_rng(1)
    n_u, n_v, degree = 100_000, 80_000, 35
    near = np.arange(n_u)[:, None] * n_v // n_u + random.integers(-400, 400, (n_u, degree))
    v = np.where(random.random(near.shape) < 0.95, near % n_v, random.integers(0, n_v, near.shape))
    graph = BipartiteGraph.from_edges(np.repeat(np.arange(n_u), degree), v.ravel(), n_u, n_v)
    price, host_bytes = PartBytes(1 << 16, 40, 20, 24, 16), 48 << 20
    for place, each in (("compile", planted_graph(1, 90, 80, 9, 6, 80, 0.1)), ("cut", graph)):
        store = write_store(tmp_path / place, each, provenance={})
        whole = price.of(PartSizes(each.n_u, each.n_edges, each.n_v, 0))
        limit = max(whole // 10, price.of(PartSizes(20, 200, 100, 200)))
        request = CutRequest("total", price, limit, host_bytes, 2)
        partition = cut_roots(store, tmp_path / f"{place}-parts", Biclique(2, 2), {"anchor": "u"}, request)
    assert len(partition.manifest.parts) > 10
    assert partition.manifest.peak_bytes < host_bytes < 16 * graph.n_edges
