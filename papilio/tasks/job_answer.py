"""The answer of a job, as its directory keeps it: written, read, and checked against the leases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError, StoreError
from papilio.kernels.engine import choose_best
from papilio.motifs import Cell
from papilio.storage.labelled import Vectors
from papilio.storage.records import SignedInt, read_record, write_record
from papilio.tasks.job_state import JobHistory
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult, ListingResult, TopEntry, find_largest
from papilio.tasks.significance import SignificanceResult

ADVICE = "it was damaged: restore it, or choose another job directory"
"""Advice for a damaged file of a job directory."""

ANSWER_VERSION = 2
"""Version of ``result.json``. Version 1 had the keys of ``--json``."""

_PHASES = frozenset({"start", "plan", "read", "prepare", "run", "fold", "write", "total"})


@dataclass(frozen=True)
class LedgerEnd:
    """The state of a ledger."""

    n_records: int
    tip: str  # checksum of the last record


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
class _TopRow(TopEntry):
    place: Literal["u", "v", "n", "edge"]
    labels: tuple[str | bool | SignedInt, ...]


@dataclass(frozen=True)
class _Rows:
    """Types that the annotations of :class:`CountResult` leave open."""

    may_grow: ClassVar[bool] = True

    graph: _GraphRow
    top: tuple[_TopRow, ...]


def _class_of(fields: Mapping[str, Any]) -> type[CountResult]:
    """Return the class of an answer, by a field that only this class has."""
    if "ensemble" in fields:
        return SignificanceResult
    return ListingResult if "listing" in fields else CountResult


@dataclass(frozen=True)
class JobAnswer:
    """The content of ``result.json``."""

    result: dict[str, Any]  # the fields of the answer except its vectors
    ledger: LedgerEnd  # the state of the ledger that it was made from
    vectors_digest: str | None  # of ``vectors.parquet``; None for an answer without vectors
    format_version: int = ANSWER_VERSION

    @classmethod
    def of(cls, result: CountResult, ledger: LedgerEnd, vectors_digest: str | None) -> JobAnswer:
        """Return the stored fields of a result."""
        written = write_record(replace(result, vectors=Vectors(), source=None, largest=()))
        del written["vectors"], written["source"], written["largest"]
        return cls({**written, "top": [entry.to_dict() for entry in result.largest]}, ledger, vectors_digest)

    @classmethod
    def read(cls, data: dict[str, Any], name: str) -> JobAnswer:
        """Read the keys of a file ``name``; StoreError if it is of another version, or damaged."""
        version = data.get("format_version", 1)
        if version != ANSWER_VERSION:
            raise StoreError(
                f"{name} has format_version {version!r}; this version of Papilio reads {ANSWER_VERSION}: remove the "
                f"file, then resume the job to write it again from the ledger"
            )
        return read_record(cls, data, name, ADVICE)

    def rebuild(self, vectors: Mapping[str, NDArray[np.uint64]], name: str) -> CountResult:
        """Return the result with its vectors; ``name`` is the file. StoreError if a field does not fit."""
        where = f"{name}: result"
        rows = read_record(_Rows, self.result, where, ADVICE)
        found = read_record(_class_of(self.result), self.result, where, ADVICE)
        if not found.seconds.keys() >= _PHASES:
            raise StoreError(f"{where}: seconds lack {', '.join(sorted(_PHASES - found.seconds.keys()))}; {ADVICE}")
        largest = tuple(TopEntry(each.place, each.ids, each.labels, each.count) for each in rows.top)
        return replace(found, graph=asdict(rows.graph), vectors=Vectors(vectors), largest=largest)


def check_answer(name: str, result: CountResult, plan: CountPlan, history: JobHistory) -> None:
    """Raise if an answer does not match this plan and these leases; reads no shard.

    ExecutionError names the first thing that differs, and the job directory ``name``. Vectors may be left out.
    """
    job, listing = plan.job, result.listing if isinstance(result, ListingResult) else None
    for what, said, asked in (
        ("plan", result.plan_key, plan.key),
        ("motif", result.motif, job.motif),
        ("granularity", result.per, job.per),
        ("listing", listing, job.listing),
        ("random graphs", getattr(result, "ensemble", None), job.ensemble),
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
        raise ExecutionError(f"{name}: the largest motifs of the leases and of the answer differ")
    for what, sum_, number in sums:
        if sum_ != number:
            raise ExecutionError(f"{name}: the leases sum to {what} {sum_}, but the answer has {number}")
    for cell in sorted(cells.keys() | result.table.keys()):
        if cells[cell] != result.table.get(cell, 0):
            raise ExecutionError(
                f"{name}: the leases sum to {cells[cell]} in cell {cell}, but the answer has "
                f"{result.table.get(cell, 0)}"
            )
    if result.largest and job.per == "total":
        raise ExecutionError(f"{name}: the answer has largest counts, but was counted per {job.per}; {ADVICE}")
    for place, counts in result.vectors.items():
        top = [(each.ids if place != "edge" else None, each.count) for each in result.largest if each.place == place]
        best = find_largest(counts, len(top)) if top else []
        if top != [((i,) if place != "edge" else None, int(counts[i])) for i in best]:
            raise ExecutionError(f"{name}: the largest counts of {place} differ from the answer")
