"""``result.json``, the answer of a finished job: its form, and whether it is the answer that the ledger gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError
from papilio.kernels.engine import Best, EngineName, choose_best
from papilio.motifs import Cell, Granularity, Motif
from papilio.questions import Listing
from papilio.storage.labelled import Vectors
from papilio.storage.records import SignedInt, read_record
from papilio.tasks.history import JobHistory
from papilio.tasks.plan import CountPlan, Decision
from papilio.tasks.reports import Movement
from papilio.tasks.result import CountResult, ListingResult, TopEntry, find_largest
from papilio.tasks.worker import WorkerInfo

ADVICE = "it was damaged: restore it, or give another job directory"
"""What to do about a file of a job directory that is not what it should be."""

_PHASES = frozenset({"start", "plan", "read", "prepare", "run", "fold", "write", "total"})


@dataclass(frozen=True)
class LedgerEnd:
    """The state of a ledger."""

    n_records: int
    tip: str  # checksum of the last record


@dataclass(frozen=True, kw_only=True)
class _WorkerRow(WorkerInfo):
    may_grow: ClassVar[bool] = True

    leases: int


@dataclass(frozen=True)
class _TopRow(TopEntry):
    place: Literal["u", "v", "n", "edge"]
    labels: tuple[str | bool | SignedInt, ...]


@dataclass(frozen=True)
class _GraphRow:
    path: str | None
    hash: str
    kind: str
    n_u: int
    n_v: int
    n_edges: int
    signed: bool
    provenance: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _JobRow:
    path: str | None = None
    leases_before: int = 0
    work_before: int = 0
    reused: bool = False


@dataclass(frozen=True)
class _WrittenResult:
    """What ``CountResult.to_json`` and ``ListingResult.to_json`` return; the latter has all fields."""

    may_grow: ClassVar[bool] = True

    motif: str
    parameters: dict[str, Any]
    per: Granularity
    count: int
    engine: EngineName
    cluster: str
    worker_details: tuple[_WorkerRow, ...]
    items: int
    leases: int
    plan_key: str
    seconds: dict[str, float]
    work: dict[str, int]
    graph: _GraphRow
    peak_memory_bytes: int
    decisions: tuple[Decision, ...]
    output: str | None
    top: tuple[_TopRow, ...]
    job: _JobRow | None
    table: dict[Cell, int] | None = None
    strategy: str = "replicate"
    replication: float = 1.0
    moved: Movement = field(default_factory=Movement)
    peak_device_bytes: int = 0
    used_device_bytes: int = 0
    listing: Listing | None = None
    limit_reached: bool = False
    files: int = 0
    checked: bool = False
    checksum: int | None = None
    best: tuple[Best, ...] = ()

    def __post_init__(self) -> None:
        if not self.seconds.keys() >= _PHASES:
            raise ValueError(f"seconds lack {', '.join(sorted(_PHASES - self.seconds.keys()))}")
        if len(self.units) != 1:
            raise ValueError(f"work is of {len(self.units)} units; expected one")

    @property
    def units(self) -> list[str]:
        """Names of units of work; one."""
        return [name for name in self.work if not name.endswith("_per_second")]


@dataclass(frozen=True)
class JobAnswer:
    """What ``result.json`` holds."""

    result: _WrittenResult  # the answer, as it was written
    ledger: LedgerEnd  # the state of the ledger that it was made from
    vectors_digest: str | None  # of ``vectors.parquet``; None for an answer without vectors

    def rebuild(self, vectors: Mapping[str, NDArray[np.uint64]], name: str) -> CountResult:
        """Return the result, with the vectors that the file leaves out; ``name`` is the file, for messages.

        StoreError when its motif is none.
        """
        data = self.result
        job = data.job or _JobRow()
        (unit,) = data.units
        kind = CountResult if data.listing is None else ListingResult
        found: dict[str, Any] = {
            "motif": read_record(Motif, {**data.parameters, "name": data.motif}, name, ADVICE),
            "workers": tuple(_plain(WorkerInfo, each) for each in data.worker_details),
            "leases_by_worker": {each.name: each.leases for each in data.worker_details},
            "work": data.work[unit],
            "work_unit": unit,
            "graph": asdict(data.graph),
            "top": tuple(_plain(TopEntry, each) for each in data.top),
            "vectors": Vectors(vectors),
            "table": data.table or {},
            "job_directory": job.path,
            "leases_before": job.leases_before,
            "work_before": job.work_before,
            "reused": job.reused,
        }
        same = {each.name for each in fields(kind)} & {each.name for each in fields(data)} - found.keys()
        return kind(**found, **{each: getattr(data, each) for each in same})


def _plain(kind: Any, row: Any) -> Any:
    """Return the dataclass that a row of the file extends."""
    return kind(**{each.name: getattr(row, each.name) for each in fields(kind)})


def check_answer(name: str, result: CountResult, plan: CountPlan, history: JobHistory) -> None:
    """Refuse an answer that is not the one of this plan and these leases; reads no shard.

    ExecutionError names the first thing that differs, and the job directory ``name``. Vectors may be left out.
    """
    job, listing = plan.job, result.listing if isinstance(result, ListingResult) else None
    for what, said, asked in (
        ("plan", result.plan_key, plan.key),
        ("motif", result.motif, job.motif),
        ("granularity", result.per, job.per),
        ("listing", listing, job.listing),
        ("graph", result.graph["hash"], job.graph_hash),
    ):
        if said != asked:
            raise ExecutionError(f"{name}: the answer is of {what} {said}, not {asked}; {ADVICE}")
    total, checksum, cells = 0, 0, Counter[Cell]()
    for lease in history.leases:
        total += lease.total
        checksum = (checksum + lease.checksum) % (1 << 64)
        cells.update(lease.cells)
    if listing is not None and listing.limit is not None:
        total = min(total, listing.limit)
    work = sum(lease.work for lease in history.leases)
    sums = [("count", total, result.count), ("work", work, result.work)]
    if result.checksum is not None:
        sums.append(("checksum", checksum, result.checksum))
    largest = choose_best((each for lease in history.leases for each in lease.best), job.motif.n_best)
    if largest != result.best:
        raise ExecutionError(f"{name}: the largest motifs of the leases are not those of the answer")
    for what, sum_, number in sums:
        if sum_ != number:
            raise ExecutionError(f"{name}: the leases sum to {what} {sum_}; the answer says {number}")
    for cell in sorted(cells.keys() | result.table.keys()):
        if cells[cell] != result.table.get(cell, 0):
            raise ExecutionError(
                f"{name}: the leases sum to {cells[cell]} in cell {cell}; the answer says {result.table.get(cell, 0)}"
            )
    if result.top and job.per == "total":
        raise ExecutionError(
            f"{name}: the answer has largest counts, and was counted per {job.per}; {ADVICE}"
        )
    for place, counts in result.vectors.items():
        top = [
            (each.ids if place != "edge" else None, each.count) for each in result.top if each.place == place
        ]
        best = find_largest(counts, len(top)) if top else []
        if top != [((i,) if place != "edge" else None, int(counts[i])) for i in best]:
            raise ExecutionError(f"{name}: the largest counts of {place} are not those that the answer says")
