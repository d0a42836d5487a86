"""Operations on a job from any machine that sees its directory: wait, cancel, read its log.

Nothing here contacts the cluster.

The log of a job directory has one line per event, with the time, for people.

Also checks a finished job from its files alone: ledger, tiling, sums, shards, graph.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from papilio.arguments import Between, checked, show_share
from papilio.errors import ExecutionError, InputError, JobCancelledError, JobUnfinishedError, StoreError
from papilio.storage.ledger import find_holder
from papilio.storage.store import open_store
from papilio.tasks.directory import JobDirectory, resume_command
from papilio.tasks.fold import Fold
from papilio.tasks.job_state import ACTIVE_STATES, CancelRequest, JobHistory, JobStatus
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult, ListingResult

FOLLOW_PAUSE_S = 0.5
"""Polling interval of a followed log."""


class JobLog:
    """Append lines to ``coordinator.log``; may be used by several threads and processes.

    A line that cannot be written is dropped: a log error must not end a job whose ledger can still be written.
    """

    def __init__(self, root: Path) -> None:
        self.path = root / "coordinator.log"

    def write(self, text: str) -> None:
        """Append ``text``, each of its lines with the time before it."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        lines = "".join(f"{at}  {line}\n" for line in text.splitlines())
        with suppress(OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(lines)


def read_log(root: Path, follow_while: Callable[[], bool] | None = None) -> Iterator[str]:
    """Yield the log in pieces: all existing text, and new text until ``follow_while`` returns false."""
    offset = 0
    path = JobLog(root).path
    while True:
        going_on = follow_while is not None and follow_while()
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as file:
                file.seek(offset)
                text, offset = file.read(), file.tell()
            if text:
                yield text
        if not going_on:
            return
        time.sleep(FOLLOW_PAUSE_S)


POLL_S = 1.0
"""Interval between two looks at a job."""

POLL_SHARE = 0.1
"""Largest share of the time spent looking: a long ledger is read less often."""


@checked
def cancel_job(path: str | os.PathLike[str]) -> Literal["requested", "already requested"]:
    """Ask, durably, that the process that runs a job stop; the ledger is kept, and the job can be resumed.

    The coordinator of a submitted job stops within about two seconds, a count in a terminal after its next lease.
    Repeating the request does no harm. InputError if the job is finished, or no process runs it or will run it.
    StoreError if it is no job directory, or the request cannot be written.
    """
    directory = JobDirectory(path)
    status = directory.status()
    if status.state == "finished":
        raise InputError(f"the job of {directory.root} is already finished")
    control, holder = directory.control, find_holder(directory.ledger_path)
    submission = control.active
    if submission is None and holder is None:
        if status.state == "cancelled":
            return "already requested"
        raise InputError(
            f"the job of {directory.root} is {status.state} and no process is running it: nothing to cancel"
        )
    asked = CancelRequest.now(None if submission is None else submission.id, None if holder is None else holder.token)
    before = control.request
    if before is not None and (before.submission, before.holder) == (asked.submission, asked.holder):
        return "already requested"
    again = submission is not None and control.is_cancelled(submission=submission.id)
    control.write(asked)
    return "already requested" if again else "requested"


@checked
def wait_job(
    path: str | os.PathLike[str],
    *,
    timeout_s: Annotated[float, Between(0, inf)] | None = None,
    report: Callable[[JobStatus], None] | None = None,
) -> CountResult:
    """Wait until a job has ended, and return its result.

    Parameters
    ----------
    timeout_s : float, optional
        Time limit; by default none.
    report : callable, optional
        Called with the status at each look, about once a second.

    Raises
    ------
    JobCancelledError
        When it was cancelled.
    JobUnfinishedError
        When the time is over; the job continues.
    ExecutionError
        When it failed, with the reason, or when no process runs it.
    StoreError
        When it is no job directory.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        looked_at = time.monotonic()
        directory = JobDirectory(path)
        status = directory.status()
        if report is not None:
            report(status)
        if status.state not in ACTIVE_STATES:
            break
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            raise JobUnfinishedError(
                f"the job of {directory.root} is {status.state} after {timeout_s:g} s "
                f"({show_share(status.share)} of the predicted work is done); the job is still running"
            )
        pause = max(POLL_S, (now - looked_at) / POLL_SHARE)
        time.sleep(pause if deadline is None else min(pause, max(deadline - now, 0.0)))
    return _result_of(directory, status)


def _result_of(directory: JobDirectory, status: JobStatus) -> CountResult:
    again = f"{resume_command(directory.root)} continues it"
    if status.state == "cancelled":
        raise JobCancelledError(f"the job of {directory.root} was cancelled; {again}")
    if status.state == "failed":
        text = f"the job of {directory.root} failed: {status.reason}"
        raise ExecutionError(text if again in text else f"{text}; {again}")
    if status.state == "interrupted":
        ended = status.sessions[-1].outcome if status.sessions else None
        raise ExecutionError(
            f"the job of {directory.root} was interrupted ({ended or 'its process was killed'}); {again}"
        )
    return directory.result()


@checked
def read_job_log(path: str | os.PathLike[str], *, follow: bool = False) -> Iterator[str]:
    """Yield the log of a submitted job in pieces of text; with ``follow`` until the job has ended.

    InputError if the job was never submitted. StoreError if it is no job directory.
    """
    directory = JobDirectory(path)
    if not JobLog(directory.root).path.exists() and directory.control.submission is None:
        raise InputError(f"the job of {directory.root} was never submitted; only submitted jobs have a log")
    return read_log(directory.root, (lambda: directory.status().state in ACTIVE_STATES) if follow else None)


@dataclass(frozen=True)
class JobCheck:
    """The result of a successful check."""

    count: int  # the answer, which is the sum of the partials
    records: int  # records of the ledger
    leases: int  # leases and their work items, which tile every partition
    items: int
    shards: int  # shards with the right size and checksum, which make the vectors or the rows of the answer
    # content hash of the store, computed from its edges; None for a graph in memory, which was not checked
    graph: str | None
    # whether a listing ended at its limit, so that the leases need not tile the items
    limit_reached: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_job(directory: JobDirectory) -> JobCheck:
    """Check everything that can be checked without counting.

    InputError if the job is not finished. StoreError naming the missing or damaged file. TilingError if leases
    overlap or leave a gap. ExecutionError if the partials do not add up to the answer.
    """
    if not directory.finished:
        raise InputError(f"the job of {directory.root} is not finished; run papilio resume {directory.root}")
    history, plan = directory.history(), directory.plan()
    result = directory.result(history=history)
    done = directory.book(plan, history)
    limit_reached = isinstance(result, ListingResult) and result.limit_reached
    if not limit_reached:
        done.require_complete()
    n_shards = _check_shards(directory, plan, history, result)
    graph = None
    if directory.source is not None:
        store = open_store(directory.source)
        if store.hash != plan.job.graph_hash:
            raise StoreError(f"{directory.source} is the graph {store.hash}, but the job counted {plan.job.graph_hash}")
        store.verify()
        graph = store.hash
    return JobCheck(result.count, history.n_records, len(history.leases), plan.n_items, n_shards, graph, limit_reached)


def _check_shards(directory: JobDirectory, plan: CountPlan, history: JobHistory, result: CountResult) -> int:
    for shard in (lease.shard for lease in history.leases):
        if shard is not None and Path(shard.path).is_file():
            size = Path(shard.path).stat().st_size
            if size != shard.n_bytes:
                raise StoreError(f"{shard.path} has {size} bytes, but the ledger records {shard.n_bytes}")
    plan = replace(plan, leases=(), finished=history.intervals)
    fold = Fold(plan, keep_shards=True, directory=directory.root)
    for lease in history.leases:
        fold.add(lease)
    partial = fold.finish()
    for name, vector in partial.vectors.items():
        if not np.array_equal(vector, result.vectors.get(name, np.empty(0))):
            raise ExecutionError(f"{directory.root}: the shards do not sum to the vector {name!r} of the answer")
    return sum((lease.shard is not None) + len(lease.listed) for lease in history.leases)
