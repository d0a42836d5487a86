"""Small blocks of parts and small partitions; what parts must be by the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import Partial
from papilio.motifs import Granularity, Motif
from papilio.partitioning.partition import PartInfo, Partition, PartitionManifest, write_partition
from papilio.parts import EndBlock, PartBytes, RootPart, StartBlock, WedgePart
from papilio.registry import load_engine

GRAPH_HASH = "0123456789abcdef" * 2


def assert_counted_as_whole(
    found: Partial, graph: BipartiteGraph | UnipartiteGraph, motif: Motif, per: Granularity = "total"
) -> None:
    """Check that what parts add up to is what the whole graph has."""
    engine = load_engine(motif, "cpu", 2)
    prepared = engine.prepare(graph, motif, per)
    whole = engine.run(prepared, 0, prepared.n_items)
    assert (found.total, found.cells, found.checksum) == (whole.total, whole.cells, whole.checksum)
    for name, vector in whole.vectors.items():
        assert np.array_equal(found.vectors.get(name, np.zeros_like(vector)), vector)


def assert_parts_fit(partition: Partition, parts: Sequence[Any], part_bytes: PartBytes) -> None:
    """Check that parts have the sizes that the manifest says, within its limit."""
    for part, info in zip(parts, partition.manifest.parts, strict=True):
        assert part.sizes == info.sizes
        assert part_bytes.of(info.sizes) <= partition.manifest.part_bytes_limit
        part.graph.validate()


def start_block(n_rows: int, *, edges: bool = False, seed: int = 1) -> StartBlock:
    """Make a block of starts with rows of 0 to 9 entries."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 10, n_rows)))).astype(np.int64)
    size = int(indptr[-1])
    rank = np.arange(n_rows, dtype=np.int32) * 3
    ids = rng.permutation(n_rows).astype(np.int32)
    work = rng.integers(1, 1 << 40, n_rows)
    middles = rng.integers(0, 2**31 - 1, size, dtype=np.int32)
    edge_ids = rng.integers(0, 1 << 40, size) if edges else np.empty(0, np.int64)
    return StartBlock("u", rank, ids, work, indptr, middles, edge_ids)


def end_block(n_rows: int, *, edges: bool = False, seed: int = 2) -> EndBlock:
    """Make a block of ends with ``n_rows`` middles of 1 to 5 entries."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate(([0], np.cumsum(rng.integers(1, 6, n_rows)))).astype(np.int64)
    size = int(indptr[-1])
    rank, ids = np.arange(7, dtype=np.int32), rng.permutation(7).astype(np.int32)
    middle_rank = np.arange(n_rows, dtype=np.int32) + 5
    middle_ids = rng.permutation(n_rows).astype(np.int32)
    ends = rng.integers(0, 7, size, dtype=np.int32)
    edge_ids = rng.integers(0, 1 << 40, size) if edges else np.empty(0, np.int64)
    return EndBlock("u", rank, ids, middle_rank, middle_ids, indptr, ends, edge_ids)


def root_part() -> RootPart:
    """Make a part of two roots of U among three vertices."""
    graph = BipartiteGraph.from_edges([0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2], 3, 3)
    ids_u, ids_v = np.array([7, 3, 9], np.int32), np.array([1, 5, 2], np.int32)
    return RootPart("u", graph, ids_u, ids_v, np.array([1, 0], np.int32), np.array([4, 1], np.int64))


def part_info(index: int, names: tuple[str, str], part: WedgePart) -> PartInfo:
    """Describe a part with a table of two steps."""
    costs = np.sort(part.starts.work)[::-1]
    n_items, work, half = costs.size, int(costs.sum()), costs.size // 2
    items = sorted({0, half, n_items})
    table = {"items": items, "work": [int(costs[:i].sum()) for i in items]}
    return PartInfo(index, names, part.layer, part.sizes, n_items, work, table, part.nbytes)


def manifest_of(*parts: PartInfo, **values: Any) -> PartitionManifest:
    """Make a manifest of a graph of 100 edges, cut into these parts."""
    manifest = PartitionManifest(
        graph_hash=GRAPH_HASH,
        n_u=20,
        n_v=30,
        n_edges=100,
        family="wedges",
        strategy="bcpar",
        reason="the graph needs more than a device has",
        layer=None,
        least_p=2,
        least_q=2,
        per="vertex",
        part_bytes_limit=1 << 20,
        parts=parts,
        decisions=(("core", "dropped 3 vertices"),),
        seconds={"cut": 1.5},
        peak_bytes=1 << 25,
    )
    return replace(manifest, **values)


def write_wedges(path: Path, n_parts: int, *, overwrite: bool = False, change: int = 0, **values: Any) -> Partition:
    """Write a partition of ``n_parts`` parts of the same content; ``change`` is added to a middle."""
    starts, ends = start_block(9), end_block(9)
    starts.middles[0] += change
    with write_partition(path, overwrite=overwrite) as writer:
        parts = []
        for i in range(n_parts):
            writer.write_block(f"s{i}", starts)
            writer.write_block(f"e{i}", ends)
            parts.append(part_info(i, (f"s{i}", f"e{i}"), WedgePart(starts, ends)))
        return writer.finish(manifest_of(*parts, **values))
