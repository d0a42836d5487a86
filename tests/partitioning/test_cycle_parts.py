"""Parts for 4-cycles: whatever the budget, they add up to the whole graph, each within its limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import UnipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Engine, Partial
from papilio.kernels.wedge.gpu import FourCycleGpu
from papilio.motifs import GRANULARITIES, Butterfly, Clique, FourCycle, Granularity
from papilio.partitioning import disk_rows
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.partition import Partition
from papilio.partitioning.wedge_parts import cut_wedges
from papilio.registry import load_engine
from papilio.storage.store import write_store
from tests.kernels.clique.test_clique import graphs, laws
from tests.partitioning.helpers import assert_counted_as_whole
from tests.partitioning.wedge_reference import BYTES, limits
from tests.tools.devices import cuda_device, emulator
from tests.tools.differential.cases import Question
from tests.tools.differential.definition import OracleAnswerer

STRATEGIES: list[Strategy] = ["auto", "pair_blocks", "bcpar"]


def skewed(seed: int, n: int, n_edges: int) -> UnipartiteGraph:
    """Return a graph in which vertices of small ids are hubs."""
    ends = (n * np.random.default_rng(seed).random((2, n_edges)) ** 3).astype(np.int64)
    return UnipartiteGraph.from_edges(*ends, n)


def cut(path: Path, graph: UnipartiteGraph, share: float, per: Granularity, strategy: Strategy) -> Partition:
    """Cut a graph into parts that take at most about a share of it."""
    store = write_store(path / "graph", graph, provenance={})
    request = CutRequest(per, BYTES, limits(graph, (2 * share,))[0], 64 << 20, 2, strategy)
    return cut_wedges(store, path / "parts", FourCycle(), {}, request)


def count(partition: Partition, engine: Engine, graph: UnipartiteGraph, per: Granularity) -> Partial:
    """Count all parts, each in two runs, and add up their vectors by the ids that the partition has for them."""
    sizes = {"total": {}, "vertex": {"n": graph.n}, "edge": {"edge": graph.n_edges}}[per]
    total, vectors = 0, {name: np.zeros(size, np.uint64) for name, size in sizes.items()}
    for info in partition.manifest.parts:
        part = partition.read_part(info.index)
        assert part.sizes == info.sizes
        assert BYTES.of(info.sizes) <= partition.manifest.part_bytes_limit
        prepared = engine.prepare(part, FourCycle(), per)
        assert prepared.n_items == info.n_items
        for bounds in ((0, info.n_items // 2), (info.n_items // 2, info.n_items)):
            partial = engine.run(prepared, *bounds)
            total += partial.total
            for name, ids in partition.read_vector_ids(info.index, per).items():
                np.add.at(vectors[name], ids, partial.vectors[name])
    return Partial(0, total, 0, vectors)


def test_any_budget_counts_by_the_definition() -> None:
    engine, oracle = load_engine(FourCycle(), "cpu", 2), OracleAnswerer()

    @laws(15)
    @given(graphs(9), st.floats(0.1, 1.2), st.sampled_from(GRANULARITIES), st.sampled_from(STRATEGIES))
    def run(graph: UnipartiteGraph, share: float, per: Granularity, strategy: Strategy) -> None:
        with TemporaryDirectory() as directory:
            try:
                partition = cut(Path(directory), graph, share, per, strategy)
            except CapacityError:
                return
            found = count(partition, engine, graph, per)
        wanted = oracle(graph, Question(FourCycle(), per, ()), {})
        assert found.total == wanted.total
        assert {name: vector.tolist() for name, vector in found.vectors.items()} == {
            name: vector.tolist() for name, vector in wanted.vectors.items()
        }

    run()


@pytest.mark.parametrize("per", GRANULARITIES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_parts_are_the_whole_graph(tmp_path: Path, per: Granularity, strategy: Strategy) -> None:
    graph = skewed(5, 700, 4000)
    partition = cut(tmp_path, graph, 0.3, per, strategy)
    manifest = partition.manifest
    assert len(manifest.parts) > 1
    assert (manifest.kind, manifest.layer) == ("cycles", "u")
    assert_counted_as_whole(count(partition, load_engine(FourCycle(), "cpu", 3), graph, per), graph, FourCycle(), per)


@pytest.mark.parametrize("in_memory", [True, False])
def test_rows_are_sorted_in_memory_or_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    plan = disk_rows.plan_sort
    monkeypatch.setattr(
        disk_rows, "plan_sort", lambda *asked: replace(plan(*asked), in_memory=in_memory, bucket_entries=1000)
    )
    graph = skewed(6, 1500, 9000)
    partition = cut(tmp_path, graph, 1.0, "edge", "pair_blocks")
    found = count(partition, load_engine(FourCycle(), "cpu", 2), graph, "edge")
    assert_counted_as_whole(found, graph, FourCycle(), "edge")


@pytest.mark.parametrize("device", ["emulator", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("per", GRANULARITIES)
def test_gpus_count_parts(tmp_path: Path, device: str, per: Granularity) -> None:
    chosen: Device = cuda_device() if device == "gpu" else emulator(1)
    graph = skewed(7, 90, 400)
    partition = cut(tmp_path, graph, 0.2, per, "pair_blocks")
    assert len(partition.manifest.parts) > 1
    assert_counted_as_whole(count(partition, FourCycleGpu(chosen), graph, per), graph, FourCycle(), per)


def test_parts_serve_their_motif_alone(tmp_path: Path) -> None:
    partition = cut(tmp_path, skewed(8, 60, 300), 1.0, "vertex", "auto")
    partition.require_serves(FourCycle(), "vertex")
    for motif in (Butterfly(), Clique(3)):
        with pytest.raises(UnsupportedError, match="has parts for four-cycle, not for"):
            partition.require_serves(motif, "total")
