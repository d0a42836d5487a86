"""What is asked and what is handed out: the job, the task that prepares it and the task that runs one lease.

All of these are frozen, hold no arrays, and survive a round trip through JSON; they are all that a worker
receives. The graph itself it reads from storage.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from papilio.errors import InputError, UnsupportedError
from papilio.families import EngineChoice, Family, WorkRate, family_of
from papilio.kernels.engine import EngineName
from papilio.motifs import GRANULARITIES, EngineOptions, Granularity, Motif
from papilio.questions import Listing, choose_options, motif_to_json
from papilio.tasks.budget import NO_BUDGET, Budget


def digest(data: Any) -> str:
    """Return 32 hexadecimal digits that identify a JSON value."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def name_question(motif: Motif, per: str, listing: Listing | None) -> str:
    """Return what a job asks, for people."""
    if listing is None:
        return f"{motif.title} per {per}"
    return f"listing of {motif.title}, {listing.title(family_of(motif).graph_kind)}"


@dataclass(frozen=True)
class PartitionRef:
    """A partition of the graph into self-contained parts, which workers read instead of the graph."""

    path: str  # directory of the partition, the same for all workers
    hash: str  # its content hash; a worker that finds another one refuses


@dataclass(frozen=True)
class JobSpec:
    """One question about one graph."""

    # where a worker finds the graph: a store's path or URL, or ``memory:<name>`` inside this process
    source: str
    graph_hash: str  # content hash of the graph; a worker that finds another one refuses
    kind: str  # ``bipartite`` or ``unipartite``
    n_u: int  # sizes of the graph, for predictions (a unipartite graph has n_u = n_v)
    n_v: int
    n_edges: int
    signed: bool  # whether the edges carry signs
    motif: Motif
    per: Granularity
    # how its engines compute it, as :func:`papilio.questions.choose_options` returns it; no part of the question
    options: EngineOptions = ()
    listing: Listing | None = None  # that the motifs are listed, and which; None when they are counted
    # the parts that are counted one by one; None when every worker holds the whole graph. No part of the question.
    partition: PartitionRef | None = None
    budget: Budget = NO_BUDGET  # memory that it may use on each worker; no part of the question

    def __post_init__(self) -> None:
        if self.per not in GRANULARITIES:
            raise UnsupportedError(f"per is {self.per!r}; expected one of {', '.join(GRANULARITIES)}")
        if self.per not in self.motif.granularities:
            asked = "a table of counts" if self.motif.is_table else f"a {self.motif.name}"
            raise UnsupportedError(
                f"{asked} cannot be counted per {self.per}; it can per {' or '.join(self.motif.granularities)}"
            )
        if self.motif.needs_signs and not self.signed:
            name = "the graph in memory" if self.source.startswith("memory:") else self.source
            raise UnsupportedError(
                f"{name} has no signs, and a {self.motif.title} is defined by the signs of edges; convert "
                "the input again with --sign-column N (values above 0 are positive) or --positive-from X (ratings of "
                "X and more are positive)"
            )
        if self.listing is not None:
            self._require_listable(self.listing)
            if self.partition is not None:
                raise UnsupportedError(
                    f"{self.motif.name}s are listed on the whole graph, not on the parts of {self.partition.path}: "
                    "leave the partition out"
                )
        if self.options != choose_options(self.motif, dict(self.options)):
            raise UnsupportedError(
                f"options {self.options!r} are not sorted, or hold a default or a name twice"
            )

    def _require_listable(self, listing: Listing) -> None:
        columns = self.family.columns(self.motif)
        held = {"n" if self.kind == "unipartite" else "u": listing.with_u, "v": listing.with_v}
        for layer, ids in held.items():
            size = columns.get(layer, 0)
            if size is not None and len(ids) > size:
                raise InputError(
                    f"{len(ids)} vertices{'' if layer == 'n' else f' of {layer.upper()}'} are asked for in each "
                    f"{self.motif.title}, which has {size} of them"
                )

    @property
    def question(self) -> dict[str, Any]:
        """What alone determines the answer: graph content, motif with its parameters, granularity, what is listed."""
        question = {"graph": self.graph_hash, "motif": motif_to_json(self.motif), "per": self.per}
        return question if self.listing is None else {**question, "listing": asdict(self.listing)}

    @property
    def title(self) -> str:
        """What is asked, for people."""
        return name_question(self.motif, self.per, self.listing)

    @property
    def family(self) -> Family:
        return family_of(self.motif)

    def settle_engine(self, choice: EngineChoice) -> tuple[EngineChoice, str]:
        """Return the engine to ask for, and why where only one counts, or lists, the motif."""
        return self.family.settle_engine(choice, listing=self.listing is not None)

    def rate(self, engine: EngineName) -> WorkRate:
        """Return the speed of an engine before anything was measured."""
        return self.family.rate(engine, listing=self.listing is not None)

    @property
    def is_search(self) -> bool:
        """Whether motifs are searched for and counted: then predicted work leaves out how deep the search goes."""
        return not self.family.same_work and self.listing is None

    def searches_alone(self, engine: EngineName, n_workers: int) -> bool:
        """Return whether one GPU searches, and no other worker waits for a rest."""
        return self.is_search and engine == "gpu" and n_workers == 1

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
        parts = [self.job.question, self.engine, self.run_id, self.slot, self.attempt]
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
            self.job.question, self.plan_key, self.engine, self.run_id,
            self.partition, self.start, self.stop, self.sequence,
        ]  # fmt: skip
        return f"papilio-lease-{digest(parts)}"

    def __str__(self) -> str:
        return f"items [{self.start}, {self.stop}) of partition {self.partition}"
