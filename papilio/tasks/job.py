"""What is asked and what is handed out: the job, the task that prepares it and the task that runs one lease.

All of these are frozen, hold no arrays, and survive a round trip through JSON; they are all that a worker
receives. The graph itself it reads from storage.

Where a task finds its graph: a store, or a graph that this very process holds.

How much memory a job may use on each of its workers.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

from papilio.arguments import Bytes, read_bytes
from papilio.errors import CapacityError, InputError, StoreError, UnsupportedError
from papilio.families import FAMILIES, Question, family_of
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.motifs import Motif, motif_to_json
from papilio.partitioning.store import Partition, open_partition
from papilio.storage.edge_files import ContentHash
from papilio.storage.store import GraphStore, open_store


@dataclass(frozen=True)
class Budget:
    """Memory that a job may use on each of its workers; None leaves what a worker has."""

    device_bytes: int | None = None  # of its device, with the CUDA context
    # of its process, resident. Where the leases run in the process that folds, that is in it.
    host_bytes: int | None = None

    def __post_init__(self) -> None:
        for kind, limit in (("device", self.device_bytes), ("host", self.host_bytes)):
            if limit is not None and limit <= 0:
                raise InputError(f"the budget of {kind} memory is {limit} bytes; give at least 1")

    @classmethod
    def of(cls, device_memory: Bytes | None, host_memory: Bytes | None) -> Budget:
        """Return the budget that was asked for, in bytes or as ``8GiB``. InputError for what is no size."""
        return cls(read_bytes("device_memory", device_memory), read_bytes("host_memory", host_memory))

    @property
    def is_set(self) -> bool:
        return self.device_bytes is not None or self.host_bytes is not None

    def of_host(self, memory_bytes: int) -> int:
        """Return the host memory that the job may use on a worker that has ``memory_bytes``."""
        return memory_bytes if self.host_bytes is None else min(self.host_bytes, memory_bytes)

    def of_device(self, memory_bytes: int) -> int:
        """Return the device memory that the job may use on a device of ``memory_bytes``."""
        return memory_bytes if self.device_bytes is None else min(self.device_bytes, memory_bytes)


NO_BUDGET = Budget()
"""Whatever the workers have."""


class LeastBudget(NamedTuple):
    """A budget that works: the least in whole MiB, unless the search ended early."""

    budget: Budget
    is_exact: bool


def find_least_budget(
    require: Callable[[Budget], object], given: Budget, most: Budget, limit_s: float
) -> LeastBudget | None:
    """Return the least budget that ``require`` accepts, where ``given`` is too small; None without one up to ``most``.

    Raises one kind of memory where that is enough, else both; a kind that ``given`` leaves out stays out. The search
    ends after ``limit_s`` seconds.

    Parameters
    ----------
    require : callable
        Raises CapacityError for a budget that is too small, and for no larger budget than one that it accepts.
    """
    search = _Search(require, monotonic() + limit_s)
    device, host = given.device_bytes, given.host_bytes
    most_device, most_host = most.device_bytes or 0, most.host_bytes or 0
    if host is not None:
        found = search.least(lambda each: Budget(device, each), host, most_host)
        if found is not None:
            return LeastBudget(Budget(device, found), search.is_exact)
    if device is None:
        return None
    found = search.least(lambda each: Budget(each, host), device, most_device)
    if found is not None or host is None:
        return None if found is None else LeastBudget(Budget(found, host), search.is_exact)
    both = search.least(lambda each: Budget(each, most_host), device, most_device)
    if both is None:
        return None
    found = search.least(lambda each: Budget(both, each), host, most_host)
    return None if found is None else LeastBudget(Budget(both, found), search.is_exact)


class _Search:
    """Looks for the least bytes, in whole MiB, with which budgets are accepted."""

    def __init__(self, require: Callable[[Budget], object], ends_s: float) -> None:
        self._require, self._ends_s, self.is_exact = require, ends_s, True

    def _accepts(self, budget: Budget) -> bool:
        try:
            self._require(budget)
        except CapacityError:
            return False
        return True

    def least(self, make: Callable[[int], Budget], low_bytes: int, most_bytes: int) -> int | None:
        """Return the least bytes above ``low_bytes``, which are too few; None where none up to ``most_bytes`` is."""
        low, most = low_bytes // _MIB, most_bytes // _MIB
        step = max(1, low // 16)
        high = low
        while True:
            if high >= most or monotonic() > self._ends_s:
                return None
            low, high = high, min(high + step, most)
            if self._accepts(make(high * _MIB)):
                break
            step *= 2
        while high - low > 1:
            if monotonic() > self._ends_s:
                self.is_exact = False
                break
            middle = (low + high) // 2
            if self._accepts(make(middle * _MIB)):
                high = middle
            else:
                low = middle
        return high * _MIB


_MIB = 1 << 20


def digest(data: Any) -> str:
    """Return 32 hexadecimal digits that identify a JSON value."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class PartitionRef:
    """A partition of the graph into self-contained parts, which workers read instead of the graph."""

    path: str  # directory of the partition, the same for all workers
    hash: str  # its content hash; a worker that finds another one refuses


@dataclass(frozen=True, kw_only=True)
class JobSpec(Question):
    """One question about one graph."""

    # where a worker finds the graph: a store's path or URL, or ``memory:<name>`` inside this process
    source: str
    graph_hash: str  # content hash of the graph; a worker that finds another one refuses
    kind: str  # ``bipartite`` or ``unipartite``
    n_u: int  # sizes of the graph, for predictions (a unipartite graph has n_u = n_v)
    n_v: int
    n_edges: int
    signed: bool  # whether the edges carry signs
    # the parts that are counted one by one; None when every worker holds the whole graph. No part of the identity.
    partition: PartitionRef | None = None
    budget: Budget = NO_BUDGET  # memory that it may use on each worker; no part of the identity

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "the graph in memory" if self.source.startswith(_SCHEME) else self.source
        require_graph(self, self.kind, signed=self.signed, source=name)
        if self.listing is not None and self.partition is not None:
            raise UnsupportedError(
                f"{self.motif.name}s are listed on the whole graph, not on the parts of {self.partition.path}: "
                "leave the partition out"
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What alone determines the answer: graph content, motif with its parameters, granularity, what is listed."""
        identity = {"graph": self.graph_hash, "motif": motif_to_json(self.motif), "per": self.per}
        return identity if self.listing is None else {**identity, "listing": asdict(self.listing)}

    @property
    def question(self) -> Question:
        """The question alone, for engines: those of one question serve all graphs."""
        return Question(self.motif, self.per, self.options, self.listing)

    @property
    def layer_sizes(self) -> dict[str, int]:
        """Vertices of the layers ``u`` and ``v``, or of the whole graph, ``n``."""
        return {"n": self.n_u} if self.kind == "unipartite" else {"u": self.n_u, "v": self.n_v}

    @property
    def n_vertices(self) -> int:
        return sum(self.layer_sizes.values())

    @property
    def vector_sizes(self) -> dict[str, int]:
        """Entries of each vector of a partial, by name."""
        return {"total": {}, "vertex": self.layer_sizes, "edge": {"edge": self.n_edges}}[self.per]

    @property
    def vector_entries(self) -> int:
        return sum(self.vector_sizes.values())

    @property
    def has_shards(self) -> bool:
        """Whether its leases answer with files."""
        return self.vector_entries > 0 or self.listing is not None


@dataclass(frozen=True)
class PrepareTask:
    """Read the graph and prepare it in a worker's cache, and report the items and their costs."""

    job: JobSpec
    engine: EngineName
    run_id: str  # identifies one call; results are never shared between calls
    slot: int = 0  # which of the workers that prepare at the same time; the costs travel from slot 0 alone
    attempt: int = 0  # how many times the task was handed out before

    @property
    def key(self) -> str:
        parts = [self.job.identity, self.engine, self.run_id, self.slot, self.attempt]
        return f"papilio-prepare-{digest(parts)}"

    def __str__(self) -> str:
        return f"prepare {self.job.source}"


@dataclass(frozen=True)
class LeaseTask:
    """Count exactly the items [start, stop) of one partition."""

    job: JobSpec
    engine: EngineName
    plan_key: str  # identity of the plan that the interval belongs to; see ``CountPlan.key``
    run_id: str  # identifies one call; results are never shared between calls
    partition: int
    start: int
    stop: int
    work: int  # predicted work units of the interval
    # directory for a partial's vectors, or for what is listed; without it vectors come back in memory (same process
    # only), and motifs are only counted as they are found
    shard_dir: str | None = None
    attempt: int = 0  # how many times workers failed with the interval before
    sequence: int = 0  # number of the lease in its run; with the interval it names the task and its shard
    # the partition that the worker will probably get once this one is done, so that it can be read ahead; None where
    # no other one is left
    next_partition: int | None = None
    limit_s: float | None = None  # seconds after which it is cut; None for no limit

    @property
    def key(self) -> str:
        """Name of the task, unique to question, plan, engine, interval, call and lease."""
        parts = [
            self.job.identity, self.plan_key, self.engine, self.run_id,
            self.partition, self.start, self.stop, self.sequence,
        ]  # fmt: skip
        return f"papilio-lease-{digest(parts)}"

    def __str__(self) -> str:
        return f"items [{self.start}, {self.stop}) of partition {self.partition}"


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


def job_of(
    graph: GraphStore | BipartiteGraph | UnipartiteGraph,
    question: Question,
    source: str = "",
    graph_hash: str = "",
) -> JobSpec:
    """Return the job of a question about a store, or a graph in memory that is held under ``source``.

    The edges of a graph in memory are hashed unless their hash is given.
    """
    if isinstance(graph, GraphStore):
        source, graph_hash = graph.path, graph.hash
    else:
        graph_hash = graph_hash or hash_graph(graph)
    return JobSpec(
        question.motif,
        question.per,
        question.options,
        question.listing,
        source=source,
        graph_hash=graph_hash,
        kind=graph.kind,
        n_u=graph.n_u,
        n_v=graph.n_v,
        n_edges=graph.n_edges,
        signed=graph.signed,
    )


def require_graph(question: Question, kind: str, *, signed: bool, source: str) -> None:
    """Refuse a graph of another kind than the motif is defined on, or without the signs that it needs."""
    require_kind(question.motif, kind, source)
    if question.motif.needs_signs and not signed:
        raise UnsupportedError(
            f"{source} has no signs, and a {question.motif.title} is defined by the signs of edges; convert "
            "the input again with --sign-column N (values above 0 are positive) or --positive-from X (ratings of "
            "X and more are positive)"
        )


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
