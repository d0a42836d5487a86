"""Partitions on disk of small graphs, cut by the cutters of the tests, and the jobs that count them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from papilio.kernels.engine import CostTable
from papilio.motifs import Biclique, Granularity, Motif
from papilio.partitioning.partition import PartInfo, Partition, PartitionManifest, write_partition
from papilio.parts import EndBlock, Part, RootPart, StartBlock, WedgePart
from papilio.question import Question
from papilio.registry import load_engine
from papilio.storage.store import GraphStore
from papilio.tasks.job import NO_BUDGET, Budget, JobSpec, PartitionRef, job_of
from tests.tools.parts import cut_grid
from tests.tools.root_parts import cut_by_definition, group_at_random

__all__ = ["job_on", "store_grid", "store_parts", "store_roots"]


def store_parts(path: Path, store: GraphStore, parts: Sequence[Part], motif: Motif, per: Granularity) -> Partition:
    """Write parts as a partition; blocks that several of them share are written once."""
    engine = load_engine(motif, "cpu", 1)
    names: dict[int, str] = {}
    infos = []
    with write_partition(path) as writer:

        def write(block: StartBlock | EndBlock | RootPart) -> str:
            if id(block) in names:
                return names[id(block)]
            name = f"b{len(names)}"
            writer.write_block(name, block)
            names[id(block)] = name
            return name

        for part in parts:
            blocks = (part.starts, part.ends) if isinstance(part, WedgePart) else (part,)
            table = CostTable.from_costs(engine.work(engine.prepare(part, motif, per)), 16)
            infos.append(
                PartInfo(
                    len(infos),
                    tuple(write(block) for block in blocks),
                    part.layer,
                    part.sizes,
                    table.n_items,
                    table.total,
                    {"items": list(table.items), "work": list(table.work)},
                    part.nbytes,
                )
            )
        roots = isinstance(motif, Biclique)
        least = (motif.p or 1, motif.q or 1) if isinstance(motif, Biclique) else (2, 2)
        layer = parts[0].layer if roots else None
        return writer.finish(
            PartitionManifest(
                store.hash,
                store.n_u,
                store.n_v,
                store.n_edges,
                "roots" if roots else "wedges",
                "bcpar" if roots else "pair_blocks",
                "as the test wants it",
                layer,
                *least,
                per,
                0,
                tuple(infos),
            )
        )


def store_grid(
    root: Path, store: GraphStore, motif: Motif, per: Granularity, starts: int = 3, ends: int = 2
) -> Partition:
    """Write pairs of blocks of starts and ends of a stored graph."""
    graph = store.read()
    return store_parts(root, store, cut_grid(graph, starts, ends, per), motif, per)  # type: ignore[arg-type]


def store_roots(
    root: Path, store: GraphStore, motif: Biclique, per: Granularity, groups: int = 4, seed: int = 1
) -> Partition:
    """Write random groups of roots of layer U of a stored graph."""
    graph = store.read()
    chosen = group_at_random(graph, "u", groups, seed)  # type: ignore[arg-type]
    return store_parts(root, store, cut_by_definition(graph, "u", chosen), motif, per)  # type: ignore[arg-type]


def job_on(
    store: GraphStore, partition: Partition, motif: Motif, per: Granularity, budget: Budget = NO_BUDGET
) -> JobSpec:
    """Return the job that asks ``motif`` of a partitioned graph."""
    job = job_of(store, Question(motif, per))
    return replace(job, partition=PartitionRef(partition.path, partition.hash), budget=budget)
