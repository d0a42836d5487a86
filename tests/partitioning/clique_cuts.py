"""Cuts of small graphs into parts for cliques, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from papilio.graph import UnipartiteGraph
from papilio.motifs import Clique, Granularity, MaximalClique
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.cutters import cutter_of
from papilio.partitioning.partition import Partition
from papilio.parts import CliquePart, PartBytes, PartSizes
from papilio.registry import motif_row
from papilio.storage.store import write_store
from tests.partitioning.root_cuts import HOST_BYTES, cut_within

__all__ = ["PART_BYTES", "clique_parts_of", "cut", "cutter_for"]

PART_BYTES = PartBytes(100, 20.5, 9, 8, 6.25)


def cutter_for(motif: Clique | MaximalClique) -> Callable[..., Partition]:
    """Return what cuts parts for a motif."""
    parted = motif_row(motif).parted
    assert parted is not None
    return cutter_of(parted.kind)


def cut(
    graph: UnipartiteGraph,
    path: Path,
    motif: Clique | MaximalClique,
    share: float = 0.3,
    per: Granularity = "total",
    *,
    strategy: Strategy = "auto",
    threads: int = 2,
    limit_bytes: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Partition:
    """Cut with a budget of a share of the whole graph's bytes, or with the least that does, if that is more."""
    store = write_store(path / "graph", graph, provenance={}, overwrite=True)
    whole = PART_BYTES.of(PartSizes(graph.n, graph.n_edges, 0, 0))

    def attempt(limit: int) -> Partition:
        request = CutRequest(per, PART_BYTES, limit, HOST_BYTES, threads, strategy)
        output = path / f"parts-{len(list(path.iterdir()))}"
        return cutter_for(motif)(store, output, motif, options or {}, request)

    return cut_within(attempt, limit_bytes, max(int(share * whole), PART_BYTES.fixed + 50))


def clique_parts_of(partition: Partition) -> list[CliquePart]:
    parts = [partition.read_part(index) for index in range(len(partition.manifest.parts))]
    assert all(isinstance(part, CliquePart) for part in parts)
    return [part for part in parts if isinstance(part, CliquePart)]
