"""What can be done to a job from any machine that sees its directory: wait for it, cancel it, read its log.

Nothing here contacts the cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from math import inf
from typing import Annotated, Literal

from papilio.arguments import Between, checked
from papilio.errors import ExecutionError, InputError, JobCancelledError, JobUnfinishedError
from papilio.storage.ledger import find_holder
from papilio.tasks.control import CancelRequest
from papilio.tasks.directory import JobDirectory
from papilio.tasks.log import JobLog, read_log
from papilio.tasks.result import CountResult
from papilio.tasks.status import ACTIVE_STATES, JobStatus
from papilio.wording import show_share

POLL_S = 1.0
"""How often a job is looked at."""

POLL_SHARE = 0.1
"""Share of the time that looking may take: a long ledger is looked at less often."""


@checked
def cancel_job(path: str | os.PathLike[str]) -> Literal["requested", "already requested"]:
    """Ask, durably, that the process that runs a job stop; the ledger is kept, and the job can be resumed.

    The coordinator of a submitted job stops within about two seconds, a count in a terminal after its next lease.
    Asking twice does no harm. InputError when the job is finished, or nothing runs it or is to run it. StoreError when
    it is no job directory, or the request cannot be written.
    """
    directory = JobDirectory(path)
    status = directory.status()
    if status.state == "finished":
        raise InputError(f"the job of {directory.root} is finished; there is nothing to cancel")
    control, holder = directory.control, find_holder(directory.ledger_path)
    submission = control.active
    if submission is None and holder is None:
        if status.state == "cancelled":
            return "already requested"
        raise InputError(
            f"the job of {directory.root} is {status.state} and no process has it; there is nothing to cancel"
        )
    asked = CancelRequest.now(
        None if submission is None else submission.id, None if holder is None else holder.token
    )
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
        How long to wait; by default as long as it takes.
    report : callable, optional
        Called with the status each time that the job is looked at, about once a second.

    Raises
    ------
    JobCancelledError
        When it was cancelled.
    JobUnfinishedError
        When the time is over; the job goes on.
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
    again = f"papilio resume {directory.root} goes on with it"
    if status.state == "cancelled":
        raise JobCancelledError(f"the job of {directory.root} was cancelled; {again}")
    if status.state == "failed":
        raise ExecutionError(f"the job of {directory.root} failed: {status.reason}; {again}")
    if status.state == "interrupted":
        ended = status.sessions[-1].outcome if status.sessions else None
        raise ExecutionError(
            f"the job of {directory.root} was interrupted ({ended or 'its process was killed'}); {again}"
        )
    return directory.result()


@checked
def read_job_log(path: str | os.PathLike[str], *, follow: bool = False) -> Iterator[str]:
    """Yield the log of a submitted job in pieces of text; with ``follow`` until the job has ended.

    InputError when the job was never submitted. StoreError when it is no job directory.
    """
    directory = JobDirectory(path)
    if not JobLog(directory.root).path.exists() and directory.control.submission is None:
        raise InputError(f"the job of {directory.root} was never submitted; only submitted jobs have a log")
    return read_log(directory.root, (lambda: directory.status().state in ACTIVE_STATES) if follow else None)
