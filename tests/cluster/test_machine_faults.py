"""What the machine refuses to this process is not held against the leases: the run stops at once and can go on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio.cluster import driver
from papilio.errors import (
    CapacityError,
    DeviceLostError,
    EngineUnavailableError,
    ExecutionError,
    FailedItemsError,
    PapilioError,
    StoreError,
    WorkerError,
)
from papilio.storage.store import GraphStore
from papilio.tasks import leases as lease_policy
from papilio.tasks import run
from papilio.tasks.job import LeaseTask
from papilio.tasks.lease_scheduler import MAX_FAILED_IN_ROW
from papilio.tasks.machine import WorkerInfo

BUTTERFLIES = 25_666_956


def failing(function: Callable[..., Any], calls: list[LeaseTask], good: int, error: Exception) -> Any:
    """Return a function that does its work for a while, and from then on raises, whatever it is given."""

    def call(task: LeaseTask, worker: WorkerInfo) -> Any:
        calls.append(task)
        if len(calls) > good:
            raise error
        return function(task, worker)

    return call


@pytest.mark.parametrize(
    ("raised", "kind", "text", "resume"),
    [
        (
            DeviceLostError("this process can no longer use GPU 0"),
            DeviceLostError,
            "no longer use GPU 0",
            True,
        ),
        (EngineUnavailableError("no usable CUDA device"), EngineUnavailableError, "no usable CUDA", True),
        (
            OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/a"),
            WorkerError,
            "Too many open files.*ulimit",
            True,
        ),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a"),
            WorkerError,
            "error at /a .No space left.*free space there",
            True,
        ),
        (StoreError("/g: row group 3 is gone"), StoreError, "row group 3 is gone", False),
        (CapacityError("part 3 cannot be prepared"), CapacityError, "part 3 cannot", False),
        (MemoryError("8 EiB"), CapacityError, "out of memory .8 EiB", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_the_run_stops_at_the_first_lease_and_can_be_resumed(
    raised: Exception,
    kind: type[PapilioError],
    text: str,
    resume: bool,
    senate: GraphStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 2e-5)
    job, calls = tmp_path / "job", list[LeaseTask]()
    with monkeypatch.context() as patch:
        patch.setattr(driver, "run_lease", failing(run.run_lease, calls, 1, raised))
        with pytest.raises(kind, match=text) as caught:
            papilio.count(senate, papilio.Butterfly(), engine="cpu", job=job)
    assert len(calls) == 2, "the lease that met it is the last one"
    assert (f"papilio resume {job} continues it" in str(caught.value)) == resume
    history = papilio.open_job(job).history()
    assert [(each.start, each.stop) for each in history.leases] == [(calls[0].start, calls[0].stop)]
    outcome = history.sessions[0].outcome
    assert outcome is not None
    assert str(caught.value).startswith(outcome)
    result = papilio.resume_job(job)
    assert (result.count, result.leases_before) == (BUTTERFLIES, 1)


def test_when_nothing_but_failures_is_met_the_rest_is_not_tried(
    senate: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 2e-5)
    job, calls = tmp_path / "job", list[LeaseTask]()
    with monkeypatch.context() as patch:
        patch.setattr(driver, "run_lease", failing(run.run_lease, calls, 0, ExecutionError("a broken engine")))
        with pytest.raises(FailedItemsError, match=rf"{MAX_FAILED_IN_ROW} of .* others were not tried"):
            papilio.count(senate, papilio.Butterfly(), engine="cpu", job=job)
    assert len(calls) < 6 * MAX_FAILED_IN_ROW
    assert papilio.resume_job(job).count == BUTTERFLIES
