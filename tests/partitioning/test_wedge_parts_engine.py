"""Butterflies of all parts together, by the engines, against the whole graph in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from papilio.kernels.memory import WEDGES
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.motifs import GRANULARITIES, Butterfly, Granularity
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.partition import Partition
from papilio.partitioning.wedge_parts import cut_wedges
from tests.conftest import EngineCase, read_edges
from tests.partitioning.wedge_reference import store_of
from tests.tools.oracle import count_butterflies
from tests.tools.parts import vector_ids
from tests.tools.strategies import edge_list


def cut(directory: Path, graph: BipartiteGraph, per: Granularity, share: float, strategy: Strategy) -> Partition:
    """Cut a graph into parts that take at most a share of the larger layer's as one part."""
    part_bytes = WEDGES.raw(per) + WEDGES.predict_part(Butterfly(), "cpu", per, 1)[0]
    store = store_of(directory / "graph", graph)
    request = CutRequest(per, part_bytes, 1 << 40, 256 << 20, 2, strategy)
    whole = cut_wedges(store, directory / "whole", Butterfly(), {}, request).manifest.parts
    assert len(whole) == 2
    needed = max(part_bytes.of(info.sizes) for info in whole) - part_bytes.fixed
    request = replace(request, limit_bytes=part_bytes.fixed + int(share * needed))
    return cut_wedges(store, directory / "parts", Butterfly(), {}, request)


def count(partition: Partition, engine: EngineCase, graph: BipartiteGraph, per: Granularity) -> tuple[int, dict]:
    """Run every part and add up."""
    total = 0
    sums = {"u": np.zeros(graph.n_u, np.uint64), "v": np.zeros(graph.n_v, np.uint64)}
    sums["edge"] = np.zeros(graph.n_edges, np.uint64)
    for info in partition.manifest.parts:
        part = partition.read_part(info.index)
        prepared = engine.engine.prepare(part, Butterfly(), per)
        assert prepared.n_items == info.n_items
        partial = engine.engine.run(prepared, 0, info.n_items)
        total += partial.total
        for name, ids in vector_ids(part, per).items():
            np.add.at(sums[name], ids, partial.vectors[name])
    return total, sums


def check(
    directory: Path,
    graph: BipartiteGraph,
    engine: EngineCase,
    per: Granularity,
    share: float,
    strategy: Strategy,
) -> Partition:
    """Count by parts and compare with the whole graph in memory."""
    cpu = ButterflyCpu(1)
    engine.need(int(cpu.work(cpu.prepare(graph, Butterfly(), "total")).sum()))  # parts have no less
    partition = cut(directory, graph, per, share, strategy)
    engine.need(sum(info.work for info in partition.manifest.parts))
    total, sums = count(partition, engine, graph, per)
    whole = engine.count(graph, per)
    assert total == whole.total
    for name, expected in whole.vectors.items():
        np.testing.assert_array_equal(sums[name], expected)
    return partition


@pytest.mark.parametrize("per", GRANULARITIES)
@pytest.mark.parametrize(("share", "strategy"), [(0.7, "pair_blocks"), (0.7, "bcpar"), (0.6, "auto")])
def test_southern_women(
    tmp_path: Path, example_data: Path, engine: EngineCase, per: Granularity, share: float, strategy: Strategy
) -> None:
    graph = read_edges(example_data / "southern-women.txt.gz")
    partition = check(tmp_path, graph, engine, per, share, strategy)
    assert len(partition.manifest.parts) > 2
    assert count(partition, engine, graph, per)[0] == count_butterflies(edge_list(graph)).total


@pytest.mark.parametrize(("per", "share"), [("total", 0.22), ("vertex", 0.3), ("edge", 0.5)])
@pytest.mark.parametrize("strategy", ["pair_blocks", "bcpar"])
def test_senate_votes(
    tmp_path: Path, example_data: Path, engine: EngineCase, per: Granularity, share: float, strategy: Strategy
) -> None:
    graph = read_edges(example_data / "senate-votes.txt.gz")
    partition = check(tmp_path, graph, engine, per, share, strategy)
    assert len(partition.manifest.parts) > 2


@pytest.mark.parametrize(
    ("name", "share", "per"),
    [
        ("marvel", 0.1, "edge"),
        ("moreno-crime", 0.1, "vertex"),
        ("bonanza", 0.1, "vertex"),
        ("movielens-100k", 0.05, "total"),
        ("youtube-groupmemberships", 0.1, "total"),
    ],
)
def test_real_graphs(
    tmp_path: Path,
    reference_graph: Callable[[str], BipartiteGraph],
    engine: EngineCase,
    name: str,
    share: float,
    per: Granularity,
) -> None:
    partition = check(tmp_path, reference_graph(name), engine, per, share, "auto")
    assert len(partition.manifest.parts) > 2
