"""What a job directory says of submissions, and what can be asked of it without a cluster."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import papilio
from papilio.errors import ExecutionError, InputError, JobCancelledError, StoreError
from papilio.tasks.directory import JobDirectory
from papilio.tasks.job import LeaseResult
from papilio.tasks.job_remote import JobLog
from papilio.tasks.job_state import CancelRequest, Coordinator, JobControl, Submission
from papilio.tasks.session import JobSession
from tests.tasks.fakes import make_job, plan_of

SUBMISSION = Submission("s1", "tcp://head:8786", "cpu", None, "normal", None, "desk", 1.0)
COORDINATOR = Coordinator("s1", 1, 0, "node7", 42, "tcp://node7:1", "running", None, 0, 2.0)
COSTS = np.arange(30, 0, -1, dtype=np.int64)
SETTINGS = {"cluster": None, "engine": "cpu", "workers": None, "output": None}


def session_of(root: Path) -> JobSession:
    return JobSession(root, make_job(), "/nowhere/graph", SETTINGS)


def result_of(start: int, stop: int) -> LeaseResult:
    return LeaseResult(0, start, stop, 1, 1, "w0", "cpu", {"run": 0.5}, 9)


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    """A job of no session."""
    with session_of(tmp_path / "job"):
        pass
    return JobDirectory(tmp_path / "job")


def state(job: JobDirectory) -> tuple[str, str | None]:
    found = job.status()
    return found.state, found.reason


def test_the_state_follows_submission_and_coordinator(job: JobDirectory) -> None:
    control = job.control
    assert state(job) == ("interrupted", None)
    control.write(SUBMISSION)
    assert state(job) == ("submitted", "no worker of tcp://head:8786 has started it yet")
    control.write(replace(COORDINATOR, state="waiting", reason="1 of 2 workers have joined"))
    assert state(job) == ("waiting", "1 of 2 workers have joined")
    control.write(COORDINATOR)
    assert state(job)[0] == "waiting"
    assert "process 42 on node7, was lost" in str(state(job)[1])
    control.write(replace(COORDINATOR, state="failed", reason="no memory"))
    assert state(job) == ("failed", "no memory")
    control.write(replace(COORDINATOR, state="cancelled"))
    assert state(job) == ("cancelled", None)
    control.write(replace(SUBMISSION, id="s2"))
    assert state(job)[0] == "submitted", "the coordinator was that of the submission before"
    assert control.coordinator is None


def test_a_later_count_outside_the_cluster_overtakes_a_failure(job: JobDirectory) -> None:
    job.control.write(SUBMISSION)
    job.control.write(replace(COORDINATOR, state="failed", reason="no memory"))
    session = session_of(job.root).__enter__()
    session.begin_leases(plan_of(COSTS), "inline")
    assert state(job) == ("running", None)
    session.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert state(job) == ("interrupted", None)
    with pytest.raises(ExecutionError, match=r"was interrupted \(KeyboardInterrupt\)"):
        papilio.wait_job(job.root)


def test_cancelling_a_submission_needs_nobody_to_listen(job: JobDirectory) -> None:
    job.control.write(SUBMISSION)
    assert papilio.cancel_job(job.root) == "requested"
    assert papilio.cancel_job(job.root) == "already requested"
    assert state(job)[0] == "cancelled"
    with pytest.raises(JobCancelledError, match="papilio resume"):
        papilio.wait_job(job.root)
    job.control.write(replace(SUBMISSION, id="s2"))
    assert state(job)[0] == "submitted", "the request was about the submission before"
    assert papilio.cancel_job(job.root) == "requested"


def test_a_session_ends_after_the_lease_that_follows_a_request(job: JobDirectory) -> None:
    session = session_of(job.root).__enter__()
    session.begin_leases(plan_of(COSTS), "inline")
    session.record(result_of(0, 4))
    assert papilio.cancel_job(job.root) == "requested"
    assert job.status().cancel_requested
    with pytest.raises(JobCancelledError) as caught:
        session.record(result_of(4, 9))
    session.__exit__(JobCancelledError, caught.value, None)
    found = job.status()
    assert (found.state, found.leases, found.sessions[0].outcome) == ("cancelled", 2, "cancelled")
    assert papilio.cancel_job(job.root) == "already requested"
    with session_of(job.root) as session:
        session.begin_leases(replace(plan_of(COSTS), leases=()), "inline")
        session.record(result_of(9, 30))
    assert job.status().leases == 3


def test_nothing_to_cancel_is_said(job: JobDirectory) -> None:
    with pytest.raises(InputError, match="is interrupted and no process is running it"):
        papilio.cancel_job(job.root)
    assert job.control.request is None


def test_only_the_submission_that_no_cluster_got_is_withdrawn(job: JobDirectory) -> None:
    job.control.write(SUBMISSION)
    job.control.withdraw(replace(SUBMISSION, id="s0"))
    assert job.control.active == SUBMISSION
    job.control.withdraw(SUBMISSION)
    assert job.control.submission is None


def test_damaged_control_files_are_named(job: JobDirectory) -> None:
    job.control.write(CancelRequest.now("s1", None))
    (job.root / "control" / "cancel.json").write_text("{")
    with pytest.raises(StoreError, match=r"control/cancel\.json is not valid JSON"):
        JobControl(job.root).is_cancelled(submission="s1")


def test_a_log_is_followed_until_the_job_has_ended(job: JobDirectory) -> None:
    with pytest.raises(InputError, match="was never submitted"):
        papilio.read_job_log(job.root)
    job.control.write(SUBMISSION)
    JobLog(job.root).write("first\nsecond")
    pieces = papilio.read_job_log(job.root, follow=True)
    assert [line[20:] for line in next(pieces).splitlines()] == ["  first", "  second"]

    def go_on() -> None:
        time.sleep(0.2)
        JobLog(job.root).write("third")
        job.control.write(replace(COORDINATOR, state="failed", reason="no memory"))

    thread = threading.Thread(target=go_on)
    thread.start()
    assert [piece[20:] for piece in pieces] == ["  third\n"]
    thread.join()
