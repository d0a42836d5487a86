"""Check a finished job from its files alone: ledger, tiling, sums, shards, graph."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from papilio.errors import ExecutionError, InputError, StoreError
from papilio.storage.store import open_store
from papilio.tasks.directory import JobDirectory
from papilio.tasks.history import JobHistory
from papilio.tasks.listing import make_fold
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult, ListingResult


@dataclass(frozen=True)
class JobCheck:
    """What was checked, all of it found right."""

    count: int  # the answer, which is the sum of the partials
    records: int  # records of the ledger
    leases: int  # leases and their work items, which tile every partition
    items: int
    shards: int  # shards with the right size and checksum, which make the vectors or the rows of the answer
    # content hash of the store, computed from its edges; None for a graph in memory, which was not checked
    graph: str | None
    # whether a listing ended at its limit, so that the leases need not tile the items
    limit_reached: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


def check_job(directory: JobDirectory) -> JobCheck:
    """Check everything that can be checked without counting.

    InputError when the job is not finished. StoreError naming the file that is missing or damaged. TilingError when
    leases overlap or leave a gap. ExecutionError when the partials do not add up to the answer.
    """
    if not directory.finished:
        raise InputError(f"the job of {directory.root} is not finished; run papilio resume {directory.root}")
    history, plan = directory.history(), directory.plan()
    result = directory.result(history=history)
    book = directory.book(plan, history)
    limit_reached = isinstance(result, ListingResult) and result.limit_reached
    if not limit_reached:
        book.require_complete()
    n_shards = _check_shards(directory, plan, history, result)
    graph = None
    if directory.source is not None:
        store = open_store(directory.source)
        if store.hash != plan.job.graph_hash:
            raise StoreError(
                f"{directory.source} holds the graph {store.hash}; the job counted {plan.job.graph_hash}"
            )
        store.verify()
        graph = store.hash
    return JobCheck(
        result.count, history.n_records, len(history.leases), plan.n_items, n_shards, graph, limit_reached
    )


def _check_shards(directory: JobDirectory, plan: CountPlan, history: JobHistory, result: CountResult) -> int:
    """Add the partials up again; return the number of shards."""
    for lease, n_bytes in zip(history.leases, history.shard_bytes, strict=True):
        if lease.shard is not None and Path(lease.shard.path).is_file():
            size = Path(lease.shard.path).stat().st_size
            if size != n_bytes:
                raise StoreError(f"{lease.shard.path} has {size} bytes; the ledger says {n_bytes}")
    plan = replace(plan, leases=(), finished=history.intervals)
    fold = make_fold(plan, keep_shards=True, directory=directory.root)
    for lease in history.leases:
        fold.add(lease)
    partial = fold.finish()
    for name, vector in partial.vectors.items():
        if not np.array_equal(vector, result.vectors.get(name, np.empty(0))):
            raise ExecutionError(
                f"{directory.root}: the shards do not sum to the vector {name!r} of the answer"
            )
    return sum((lease.shard is not None) + len(lease.listed) for lease in history.leases)
