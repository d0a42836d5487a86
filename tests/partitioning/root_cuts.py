"""Cuts of small graphs into parts for bicliques, for tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique, MaximalBiclique
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.partition import Partition
from papilio.partitioning.root_parts import cut_roots
from papilio.parts import PartBytes, PartSizes, RootPart
from papilio.storage.store import write_store

__all__ = ["HOST_BYTES", "PART_BYTES", "cut", "least_bytes", "parts_of"]

PART_BYTES = PartBytes(100, 12.5, 9, 8, 4.25)
HOST_BYTES = 1 << 30


def cut(
    graph: BipartiteGraph,
    path: Path,
    motif: Biclique | MaximalBiclique,
    anchor: str = "auto",
    share: float = 0.3,
    *,
    strategy: Strategy = "bcpar",
    threads: int = 2,
    limit_bytes: int | None = None,
    cutter: Callable[..., Partition] = cut_roots,
) -> Partition:
    """Cut with a budget of a share of the whole graph's bytes, or with the least that does, if that is more."""
    store = write_store(path / "graph", graph, provenance={}, overwrite=True)
    whole = PART_BYTES.of(PartSizes(graph.n_u, graph.n_edges, graph.n_v, graph.n_edges))

    def attempt(limit: int) -> Partition:
        request = CutRequest("total", PART_BYTES, limit, HOST_BYTES, threads, strategy)
        output = path / f"parts-{len(list(path.iterdir()))}"
        return cutter(store, output, motif, {"anchor": anchor}, request)

    return cut_within(attempt, limit_bytes, max(int(share * whole), PART_BYTES.fixed + 50))


def cut_within(attempt: Callable[[int], Partition], limit_bytes: int | None, wanted_bytes: int) -> Partition:
    """Cut with a limit, or, without one, with what is wanted, or with the least that does, if that is more."""
    if limit_bytes:
        return attempt(limit_bytes)
    try:
        return attempt(wanted_bytes)
    except CapacityError as error:
        return attempt(least_bytes(error))


def least_bytes(error: CapacityError) -> int:
    """Return the budget that the message says would do."""
    found = re.search(r"at least ([\d,]+) bytes", str(error))
    return int(found[1].replace(",", "")) if found else 0


def parts_of(partition: Partition) -> list[RootPart]:
    parts = [partition.read_part(index) for index in range(len(partition.manifest.parts))]
    assert all(isinstance(part, RootPart) for part in parts)
    return [part for part in parts if isinstance(part, RootPart)]
