"""A job, its tasks and their results: all data exchanged between the client and its workers.

A job and its tasks are frozen, hold no arrays, and survive a round trip through JSON. Workers read the graph from
storage, or find it in their own process.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import Bytes, read_bytes
from papilio.errors import InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.kernels.engine import CostTable, EngineName, LargestMotif
from papilio.kernels.null.ensemble import MOMENTS, RANKS
from papilio.motifs import Cell, EngineOptions, Motif, choose_options, motif_to_json
from papilio.partitioning.partition import Partition, open_partition
from papilio.question import Question
from papilio.registry import MOTIF_ROWS, motif_row
from papilio.storage.edge_files import ContentHash
from papilio.storage.listings import ListingShard
from papilio.storage.records import SignedDigits, write_record
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.forecast import Forecast


@dataclass(frozen=True)
class Budget:
    """Memory that a job may use on each of its workers; None leaves all memory of the worker."""

    device_bytes: int | None = None  # of its device, with the CUDA context
    # of its process, resident. If the leases run in the process that folds, this includes the fold.
    host_bytes: int | None = None

    def __post_init__(self) -> None:
        for kind, limit in (("device", self.device_bytes), ("host", self.host_bytes)):
            if limit is not None and limit <= 0:
                raise InputError(f"the budget of {kind} memory is {limit} bytes; the minimum is 1")

    @classmethod
    def of(cls, device_memory: Bytes | None, host_memory: Bytes | None) -> Budget:
        """Return the budget from bytes or sizes such as ``8GiB``. InputError for an invalid size."""
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
"""No limit beyond the memory of the workers."""


def digest(data: Any) -> str:
    """Return 32 hexadecimal digits that identify a JSON value."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class PartitionRef:
    """A partition of the graph into self-contained parts, which workers read instead of the graph."""

    path: str  # directory of the partition, the same for all workers
    hash: str  # its content hash; a worker that finds another one raises


@dataclass(frozen=True, kw_only=True)
class JobSpec(Question):
    """One question about one graph."""

    # where a worker finds the graph: a store's path or URL, or ``memory:<name>`` inside this process
    source: str
    graph_hash: str  # content hash of the graph; a worker that finds another one raises
    kind: str  # ``bipartite`` or ``unipartite``
    n_u: int  # sizes of the graph, for predictions (a unipartite graph has n_u = n_v)
    n_v: int
    n_edges: int
    signed: bool  # whether the edges carry signs
    # the parts that are counted one by one; None when every worker holds the whole graph. Not in the identity.
    partition: PartitionRef | None = None
    budget: Budget = NO_BUDGET  # memory that it may use on each worker; not in the identity
    # the work items are dealt in this many hands (:func:`papilio.kernels.engine.deal_items`); not in the identity
    hands: int = 1
    # what the first session settled (:class:`papilio.kernels.engine.Prepared`); not in the identity
    settled: EngineOptions = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "the graph in memory" if self.source.startswith(_SCHEME) else self.source
        require_graph(self, self.kind, signed=self.signed, source=name)
        if self.ensemble is not None and self.partition is not None:
            raise UnsupportedError(
                f"random graphs are drawn from the whole graph, not from the parts of {self.partition.path}: leave "
                f"out the partition"
            )
        if self.listing is not None and self.partition is not None:
            raise UnsupportedError(
                f"{self.motif.name}s are listed on the whole graph, not on the parts of {self.partition.path}: leave "
                f"out the partition"
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What alone determines the answer: graph content, motif, granularity, listing options, null model."""
        identity = {"graph": self.graph_hash, "motif": motif_to_json(self.motif), "per": self.per}
        special = {"listing": self.listing, "ensemble": self.ensemble}
        return identity | {name: asdict(each) for name, each in special.items() if each is not None}

    @cached_property
    def engine_options(self) -> EngineOptions:
        """The options of the question, and what the first session settled."""
        return choose_options(self.motif, {**dict(self.settled), **dict(self.options)})

    @property
    def layer_sizes(self) -> dict[str, int]:
        return {"n": self.n_u} if self.kind == "unipartite" else {"u": self.n_u, "v": self.n_v}

    @property
    def n_vertices(self) -> int:
        return sum(self.layer_sizes.values())

    @property
    def vector_sizes(self) -> dict[str, int]:
        """Entries of each vector of a partial, by name."""
        sizes = {"total": {}, "vertex": self.layer_sizes, "edge": {"edge": self.n_edges}}[self.per]
        if self.ensemble is None:
            return sizes
        return sizes | {f"{layer}.{each}": size for layer, size in sizes.items() for each in (*MOMENTS, *RANKS)}

    @property
    def vector_entries(self) -> int:
        return sum(self.vector_sizes.values())

    @property
    def has_shards(self) -> bool:
        return self.vector_entries > 0 or self.listing is not None


MOST_HANDS = 64
"""More workers than this share hands."""


def choose_hands(job: JobSpec, n_workers: int) -> int:
    """Return the hands in which the items of a job are dealt: one for each worker, in a search of a whole graph."""
    is_search = job.partition is None and job.listing is None and job.ensemble is None
    return min(n_workers, MOST_HANDS) if is_search and not job.row.same_work else 1


@dataclass(frozen=True)
class PrepareTask:
    """Read the graph, prepare it in a worker's cache, and report the items and their costs."""

    job: JobSpec
    engine: EngineName
    run_id: str  # identifies one call; results are never shared between calls
    slot: int = 0  # number of the worker among those preparing now; only slot 0 returns costs
    attempt: int = 0  # how many times the task was dispatched before
    predict: bool = False  # whether to probe the items, to predict the run time and the size of a listing
    limit_s: float | None = None  # time limit of these probes

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
    work: int  # predicted nanoseconds of the interval on one worker
    costs_digest: str  # hash of the costs of all items in the plan: the worker must have the same items
    # directory for a partial's vectors, or for the rows of a listing; without it vectors come back in memory (same
    # process only), and motifs are only counted
    shard_dir: str | None = None
    attempt: int = 0  # how many times workers failed with the interval before
    sequence: int = 0  # number of the lease in its run; with the interval it names the task and its shard
    # the partition that the worker will probably get next, so that it can be read ahead; None if no other partition
    # is left
    next_partition: int | None = None
    limit_s: float | None = None  # seconds after which it is cut; None for no limit

    @cached_property
    def key(self) -> str:
        parts = [
            self.job.identity, self.plan_key, self.engine, self.run_id,
            self.partition, self.start, self.stop, self.sequence,
        ]  # fmt: skip
        return f"papilio-lease-{digest(parts)}"

    def __str__(self) -> str:
        return f"items [{self.start}, {self.stop}) of partition {self.partition}"


@dataclass(frozen=True)
class Movement:
    """Data read from the parts of a graph, and the time taken."""

    read_bytes: int = 0  # from storage to host memory
    staged_bytes: int = 0  # from host to device memory
    load_s: float = 0.0  # seconds that these took, in whichever thread
    stage_s: float = 0.0
    waited_s: float = 0.0  # seconds that leases waited for them

    def __add__(self, other: Movement) -> Movement:
        return Movement(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Movement)))


@dataclass(frozen=True)
class ShardRef:
    """The vectors of one partial, in a file."""

    path: str
    digest: str  # as :func:`papilio.storage.answers.write_partial_shard` returned it
    n_bytes: int


@dataclass(frozen=True)
class PrepareReport:
    """The result of preparing: items, costs, memory and time."""

    worker: str
    engine: EngineName
    n_items: int  # number of work items
    total_work: int  # their cost, in the engine's units of work
    # hash of all costs; must be equal on every worker, since all share one list of items
    costs_digest: str
    table: CostTable | None  # their predicted nanoseconds on one worker at breakpoints; from slot 0 alone
    prepared_bytes: int  # memory that the prepared graph keeps
    seconds: dict[str, float]  # ``read`` and ``prepare``; 0 when the graph was prepared already
    peak_bytes: int  # largest host memory of the process so far
    decisions: tuple[tuple[str, str], ...] = ()  # what the engine decided, and why
    settled: EngineOptions = ()  # options to continue the job with, on any engine
    forecast: Forecast | None = None  # None for a partition, and if not requested


@dataclass(frozen=True)
class LeaseResult:
    """The partial of one interval, with its proof of work."""

    partition: int  # the interval that was run: the first items of the lease, all of them unless it was cut
    start: int
    stop: int
    total: SignedDigits  # number of motifs of its items; some items hold what is subtracted from others
    work: int
    worker: str
    engine: EngineName
    # ``read``, ``prepare`` (both 0 when the graph was prepared already), ``run``, ``write``. For a part also ``load``
    # and ``stage``: reading from storage and copying to the device since the lease before, mostly during its run;
    # ``read`` is then the time that this lease waited for the part.
    seconds: dict[str, float]
    peak_bytes: int  # largest host memory of the process so far
    shard: ShardRef | None = None  # where the vectors of the partial are
    # the vectors themselves, when they need not leave the process
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    began_at: float = 0.0  # by the clock of the worker, seconds since 1970
    ended_at: float = 0.0
    # counts by size, for a motif whose answer is a table
    cells: dict[Cell, int] = field(default_factory=dict)
    listed: tuple[ListingShard, ...] = ()  # files of a listing; ``total`` rows in all
    # whether this lease reached the limit of a listing, and skipped its remaining items
    capped: bool = False
    # largest device memory that the process has used for arrays so far; 0 without a GPU
    device_peak_bytes: int = 0
    # device memory in use by this process and all others when the lease ended, as the driver reports it
    device_used_bytes: int = 0
    # bytes of parts read from storage, and copied to the device, since the lease before
    read_bytes: int = 0
    staged_bytes: int = 0
    checksum: int = 0  # sum, modulo 2^64, of the hashes of the motifs; 0 for a family without hashes
    best: tuple[LargestMotif, ...] = ()  # the largest motifs, if requested

    @property
    def movement(self) -> Movement:
        """Data read from parts, by this lease or ahead, since the lease before."""
        seconds = self.seconds
        if "load" not in seconds:
            return Movement()
        return Movement(self.read_bytes, self.staged_bytes, seconds["load"], seconds["stage"], seconds["read"])

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of its shard and its listing."""
        return (*(() if self.shard is None else (self.shard.path,)), *(each.path for each in self.listed))

    def move_files(self, move: Callable[[str], str]) -> Self:
        """Return the result with the paths of its files replaced."""
        return replace(
            self,
            shard=None if self.shard is None else replace(self.shard, path=move(self.shard.path)),
            listed=tuple(replace(each, path=move(each.path)) for each in self.listed),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the vectors as a JSON object."""
        written = write_record(replace(self, vectors={}))
        del written["vectors"]
        for name in ("checksum", "best"):
            if not written[name]:
                del written[name]
        return written


_SCHEME = "memory:"
_in_memory: dict[str, BipartiteGraph | UnipartiteGraph] = {}
_memory_lock = threading.Lock()


def is_in_memory(source: str) -> bool:
    """Whether a source names a graph in memory."""
    return source.startswith(_SCHEME)


def hash_graph(graph: BipartiteGraph | UnipartiteGraph) -> str:
    """Return the content hash of a graph in memory, equal to the hash of a store written from it."""
    content = ContentHash(graph.kind, graph.n_u, graph.n_v, graph.signed)
    content.update(graph.u, graph.v, graph.sign)
    return content.hexdigest()


@contextmanager
def graph_in_memory(graph: BipartiteGraph | UnipartiteGraph) -> Iterator[str]:
    """Yield a source under which the tasks of this process find ``graph`` until the block ends."""
    source = f"{_SCHEME}{uuid4().hex}"
    with _memory_lock:
        _in_memory[source] = graph
    try:
        yield source
    finally:
        with _memory_lock:
            del _in_memory[source]


def job_of(
    graph: GraphStore | BipartiteGraph | UnipartiteGraph, question: Question, source: str = "", graph_hash: str = ""
) -> JobSpec:
    """Return the job of a question about a store, or about a graph in memory that is held under ``source``.

    The edges of a graph in memory are hashed unless their hash is given.
    """
    if isinstance(graph, GraphStore):
        source, graph_hash = graph.path, graph.hash
    else:
        graph_hash = graph_hash or hash_graph(graph)
    asked = {each.name: getattr(question, each.name) for each in fields(Question)}
    sizes = {name: getattr(graph, name) for name in ("kind", "n_u", "n_v", "n_edges", "signed")}
    return JobSpec(**asked, **sizes, source=source, graph_hash=graph_hash)


def require_graph(question: Question, kind: str, *, signed: bool, source: str) -> None:
    """Raise unless the graph is of the kind that the motif is defined on, with the signs that it needs."""
    require_kind(question.motif, kind, source)
    if question.motif.needs_signs and not signed:
        raise UnsupportedError(
            f"{source} has no signs, but a {question.motif.title} is defined by the signs of edges; convert the "
            f"input again with --sign N (values above 0 are positive) or --positive-from X (ratings of "
            "X and more are positive)"
        )


def require_kind(motif: Motif, kind: str, source: str) -> None:
    """Raise if a motif is not defined on a kind of graph; as :func:`require_graph_kind`."""
    require_graph_kind(f"motif {motif.name!r} is", motif_row(motif).graph_kind, kind, source)


def require_graph_kind(what: str, needed: GraphKind, kind: str, source: str) -> None:
    """Raise UnsupportedError for a graph of another kind; names the motifs counted there and the conversion."""
    if kind != needed:
        there = ", ".join(name for name, row in MOTIF_ROWS.items() if row.graph_kind == kind)
        how = f"else read the input as {needed} (--{needed}, in Python kind={needed!r})"
        if needed == "bipartite":
            how += " if its columns are two sets, or make its double cover or its incidence graph (docs/formats.md)"
        raise UnsupportedError(
            f"{what} defined on {needed} graphs; {source} is {kind}, where these motifs are counted: {there}; {how}"
        )


def read_job_graph(job: JobSpec) -> BipartiteGraph | UnipartiteGraph:
    """Read the graph of a job into memory.

    StoreError if the graph cannot be read here, or is not the graph that the job was planned for.
    """
    if is_in_memory(job.source):
        with _memory_lock:
            graph = _in_memory.get(job.source)
        if graph is None:
            raise StoreError(
                f"{job.source} is in the memory of another process; write the graph to a store for a cluster"
            )
    else:
        store = open_store(job.source)
        if store.hash != job.graph_hash:
            raise StoreError(
                f"{job.source} is the graph {store.hash}, but the job was planned for {job.graph_hash}: the store "
                f"was replaced, count again"
            )
        graph = store.read()
    return graph


def open_job_partition(job: JobSpec) -> Partition:
    """Open the partition of a job; reads its manifest only.

    StoreError if it cannot be read here, or is not the one that the job was planned for. UnsupportedError if it
    belongs to another graph, or does not serve the question.
    """
    assert job.partition is not None, "the job is on the whole graph"
    partition = open_partition(job.partition.path)
    if partition.hash != job.partition.hash:
        raise StoreError(
            f"{job.partition.path} is the partition {partition.hash}, but the job was planned for "
            f"{job.partition.hash}: it was replaced, count again"
        )
    partition.require_graph(job.graph_hash)
    partition.require_serves(job.motif, job.per)
    return partition
