"""Where a task finds its graph: a store, or a graph that this very process holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from papilio.errors import StoreError, UnsupportedError
from papilio.families import FAMILIES, family_of
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.motifs import EngineOptions, Granularity, Motif
from papilio.partitioning.store import Partition, open_partition
from papilio.questions import Listing
from papilio.storage.edges import ContentHash
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.job import JobSpec

_SCHEME = "memory:"
_held: dict[str, BipartiteGraph | UnipartiteGraph] = {}
_held_lock = threading.Lock()


def hash_graph(graph: BipartiteGraph | UnipartiteGraph) -> str:
    """Return the content hash of a graph in memory, the same as that of a store written from it."""
    content = ContentHash(graph.kind, graph.n_u, graph.n_v, graph.signed)
    content.update(graph.u, graph.v, graph.sign)
    return content.hexdigest()


@contextmanager
def held_graph(graph: BipartiteGraph | UnipartiteGraph) -> Iterator[str]:
    """Give a source under which the tasks of this process find ``graph`` until the block ends."""
    source = f"{_SCHEME}{uuid4().hex}"
    with _held_lock:
        _held[source] = graph
    try:
        yield source
    finally:
        with _held_lock:
            del _held[source]


def job_of_store(
    store: GraphStore,
    motif: Motif,
    per: Granularity,
    options: EngineOptions = (),
    listing: Listing | None = None,
) -> JobSpec:
    """Return the job that asks ``motif`` of a stored graph."""
    return JobSpec(store.path, store.hash, *_sizes_of(store), motif, per, options, listing)


def job_of_graph(
    graph: BipartiteGraph | UnipartiteGraph,
    source: str,
    motif: Motif,
    per: Granularity,
    options: EngineOptions = (),
    *,
    graph_hash: str | None = None,
) -> JobSpec:
    """Return the job that asks ``motif`` of a graph in memory, held under ``source``.

    Hashes the edges, unless their hash is given.
    """
    return JobSpec(source, graph_hash or hash_graph(graph), *_sizes_of(graph), motif, per, options)


def _sizes_of(graph: GraphStore | BipartiteGraph | UnipartiteGraph) -> tuple[GraphKind, int, int, int, bool]:
    return graph.kind, graph.n_u, graph.n_v, graph.n_edges, graph.signed


def require_kind(motif: Motif, kind: str, source: str) -> None:
    """Refuse a motif on a kind of graph that it is not defined on; as :func:`require_graph_kind`."""
    require_graph_kind(f"motif {motif.name!r} is", family_of(motif).graph_kind, kind, source)


def require_graph_kind(what: str, needed: GraphKind, kind: str, source: str) -> None:
    """Refuse a graph of another kind. UnsupportedError, with what is counted there, and how to convert the input."""
    if kind != needed:
        there = ", ".join(name for name, row in FAMILIES.items() if row.graph_kind == kind)
        how = f"else convert the input as {needed} (--{needed})"
        if needed == "bipartite":
            how += " if its columns are two sets, or make its double cover or its incidence graph (docs/formats.md)"
        raise UnsupportedError(
            f"{what} defined on {needed} graphs; {source} is {kind}, where these motifs are counted: {there}; {how}"
        )


def read_job_graph(job: JobSpec) -> BipartiteGraph | UnipartiteGraph:
    """Read the graph of a job into memory.

    StoreError when the graph cannot be read here, or is not the one that the job was planned for.
    """
    if job.source.startswith(_SCHEME):
        with _held_lock:
            graph = _held.get(job.source)
        if graph is None:
            raise StoreError(
                f"{job.source} lives in another process; write the graph to a store for a cluster"
            )
    else:
        store = open_store(job.source)
        if store.hash != job.graph_hash:
            raise StoreError(
                f"{job.source} holds the graph {store.hash}; the job was planned for {job.graph_hash}: "
                "the store was replaced meanwhile, count again"
            )
        graph = store.read()
    return graph


def open_job_partition(job: JobSpec) -> Partition:
    """Open the partition of a job; reads its manifest only.

    StoreError when it cannot be read here, or is not the one that the job was planned for. UnsupportedError when it is
    one of another graph, or does not serve the question.
    """
    assert job.partition is not None, "the job is on the whole graph"
    partition = open_partition(job.partition.path)
    if partition.hash != job.partition.hash:
        raise StoreError(
            f"{job.partition.path} is the partition {partition.hash}; the job was planned for {job.partition.hash}: "
            "it was replaced meanwhile, count again"
        )
    partition.require_graph(job.graph_hash)
    partition.require_serves(job.motif, job.per)
    return partition
