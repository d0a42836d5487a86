"""What tasks answer: the report of a preparation, and the result of a lease with its proof of work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.engine import Best, CostTable, EngineName
from papilio.motifs import Cell
from papilio.storage.listings import ListingShard
from papilio.storage.records import Digits, write_record


@dataclass(frozen=True)
class Movement:
    """What was read of the parts of a graph."""

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
    """What preparing found."""

    worker: str
    engine: EngineName
    n_items: int  # number of work items
    total_work: int  # their cost, in work units
    # hash of all costs; equal on every worker, or the workers would not share one list of items
    costs_digest: str
    table: CostTable | None  # the costs at breakpoints; from slot 0 alone
    prepared_bytes: int  # memory that the prepared graph keeps
    seconds: dict[str, float]  # ``read`` and ``prepare``; 0 when the graph was prepared already
    peak_bytes: int  # largest host memory of the process so far
    decisions: tuple[tuple[str, str], ...] = ()  # what the engine decided, and why


@dataclass(frozen=True)
class LeaseResult:
    """The partial of one interval, with its proof of work."""

    partition: int  # the interval that was run: the first items of the lease, all of them unless it was cut
    start: int
    stop: int
    total: Digits  # motifs that its items answer for
    work: int
    worker: str
    engine: EngineName
    # ``read``, ``prepare`` (both 0 when the graph was prepared already), ``run``, ``write``. Of a part also ``load``
    # and ``stage``: reading from storage and copying to the device since the lease before, mostly while that ran;
    # ``read`` is then what this one waited for.
    seconds: dict[str, float]
    peak_bytes: int  # largest host memory of the process so far
    shard: ShardRef | None = None  # where the vectors of the partial are
    # the vectors themselves, when they need not leave the process
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    began_at: float = 0.0  # By the clock of the worker, seconds since 1970
    ended_at: float = 0.0
    # counts by size, for a motif whose answer is a table
    cells: dict[Cell, int] = field(default_factory=dict)
    listed: tuple[ListingShard, ...] = ()  # files of what a listing listed; ``total`` rows in all
    # whether a listing ended with this lease, which listed as many as were asked for and left the rest
    capped: bool = False
    # largest device memory that the process has held so far for arrays; 0 without a GPU
    device_peak_bytes: int = 0
    # device memory in use by the driver's account when the lease ended, by this process and all others
    device_used_bytes: int = 0
    # what was read from storage, and copied to the device, of parts since the lease before
    read_bytes: int = 0
    staged_bytes: int = 0
    checksum: int = 0  # sum, modulo 2^64, of the hashes of the motifs; 0 for a family that has none
    best: tuple[Best, ...] = ()  # the largest motifs, where they are asked for

    @property
    def movement(self) -> Movement:
        """What was read of parts, by this lease or ahead, since the lease before."""
        seconds = self.seconds
        if "load" not in seconds:
            return Movement()
        return Movement(
            self.read_bytes, self.staged_bytes, seconds["load"], seconds["stage"], seconds["read"]
        )

    def move_files(self, move: Callable[[str], str]) -> Self:
        """Return the result with other paths of its files."""
        return replace(
            self,
            shard=None if self.shard is None else replace(self.shard, path=move(self.shard.path)),
            listed=tuple(replace(each, path=move(each.path)) for each in self.listed),
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything but the vectors as a JSON object."""
        written = write_record(replace(self, vectors={}))
        del written["vectors"]
        for name in ("checksum", "best"):
            if not written[name]:
                del written[name]
        return written
