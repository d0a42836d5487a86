"""What tasks answer: the report of a preparation, and the result of a lease with its proof of work."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.costs import CostTable
from papilio.kernels.engine import Best, EngineName
from papilio.motifs import Cell
from papilio.storage.listings import ListingShard
from papilio.storage.records import write_record

__all__ = ["LeaseResult", "Movement", "PrepareReport", "ShardRef"]


@dataclass(frozen=True)
class Movement:
    """What was read of the parts of a graph.

    Attributes
    ----------
    read_bytes : int
        From storage to host memory.
    staged_bytes : int
        From host to device memory.
    load_s, stage_s : float
        Seconds that these took, in whichever thread.
    waited_s : float
        Seconds that leases waited for them.
    """

    read_bytes: int = 0
    staged_bytes: int = 0
    load_s: float = 0.0
    stage_s: float = 0.0
    waited_s: float = 0.0

    def __add__(self, other: Movement) -> Movement:
        return Movement(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Movement)))


@dataclass(frozen=True)
class ShardRef:
    """The vectors of one partial, in a file.

    Attributes
    ----------
    path : str
    checksum : str
        As :func:`papilio.storage.results.write_partial_shard` returned it.
    """

    path: str
    checksum: str


@dataclass(frozen=True)
class PrepareReport:
    """What preparing found.

    Attributes
    ----------
    worker : str
    engine : str
    n_items : int
        Number of work items.
    total_work : int
        Their cost, in work units.
    costs_digest : str
        Hash of all costs; equal on every worker, or the workers would not share one list of items.
    table : CostTable or None
        The costs at breakpoints; from slot 0 alone.
    prepared_bytes : int
        Memory that the prepared graph keeps.
    seconds : dict of str to float
        ``read`` and ``prepare``; 0 when the graph was prepared already.
    peak_bytes : int
        Largest host memory of the process so far.
    decisions : tuple of (str, str)
        What the engine decided, and why.
    """

    worker: str
    engine: EngineName
    n_items: int
    total_work: int
    costs_digest: str
    table: CostTable | None
    prepared_bytes: int
    seconds: dict[str, float]
    peak_bytes: int
    decisions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class LeaseResult:
    """The partial of one interval, with its proof of work.

    Attributes
    ----------
    partition, start, stop : int
        The interval that was run: the first items of the lease, all of them unless it was cut.
    total : int
        Motifs that its items answer for.
    work : int
        Work units done.
    worker : str
    engine : str
    seconds : dict of str to float
        ``read``, ``prepare`` (both 0 when the graph was prepared already), ``run``, ``write``. Of a part also
        ``load`` and ``stage``: reading from storage and copying to the device since the lease before, mostly
        while that ran; ``read`` is then what this one waited for.
    peak_bytes : int
        Largest host memory of the process so far.
    shard : ShardRef or None
        Where the vectors of the partial are.
    vectors : dict of str to ndarray of uint64, host
        The vectors themselves, when they need not leave the process.
    began_at, ended_at : float
        By the clock of the worker, seconds since 1970.
    cells : dict of tuple of int to int
        Counts by size, for a motif whose answer is a table.
    checksum : int
        Sum, modulo 2^64, of the hashes of the motifs; 0 for a family that has none.
    best : tuple of Best
        The largest motifs, where they are asked for.
    listed : tuple of ListingShard
        Files of what a listing listed; ``total`` rows in all.
    capped : bool
        Whether a listing ended with this lease, which listed as many as were asked for and left the rest.
    device_peak_bytes : int
        Largest device memory that the process has held so far for arrays; 0 without a GPU.
    device_used_bytes : int
        Device memory in use by the driver's account when the lease ended, by this process and all others.
    read_bytes, staged_bytes : int
        What was read from storage, and copied to the device, of parts since the lease before.
    """

    partition: int
    start: int
    stop: int
    total: int
    work: int
    worker: str
    engine: EngineName
    seconds: dict[str, float]
    peak_bytes: int
    shard: ShardRef | None = None
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    began_at: float = 0.0
    ended_at: float = 0.0
    cells: dict[Cell, int] = field(default_factory=dict)
    listed: tuple[ListingShard, ...] = ()
    capped: bool = False
    device_peak_bytes: int = 0
    device_used_bytes: int = 0
    read_bytes: int = 0
    staged_bytes: int = 0
    checksum: int = 0
    best: tuple[Best, ...] = ()

    @property
    def movement(self) -> Movement:
        """What was read of parts, by this lease or ahead, since the lease before."""
        seconds = self.seconds
        if "load" not in seconds:
            return Movement()
        return Movement(
            self.read_bytes, self.staged_bytes, seconds["load"], seconds["stage"], seconds["read"]
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything but the vectors as a JSON object."""
        written = write_record(replace(self, vectors={}))
        del written["vectors"]
        for name in ("checksum", "best"):
            if not written[name]:
                del written[name]
        return written
