"""A job whose cluster fails says that it is kept and how it goes on; a client that closes is silent."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest
from distributed import LocalCluster

import papilio
from papilio.cluster import driver
from papilio.cluster.pool import open_client
from papilio.errors import ClusterError, InputError, WorkerError
from papilio.storage.store import GraphStore

BUTTERFLIES = 341


@pytest.fixture
def scheduler() -> Iterator[LocalCluster]:
    """A scheduler without workers."""
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def job(women: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that has begun, and has not finished."""

    def fail(*_: object) -> None:
        raise WorkerError("the test ends it")

    with monkeypatch.context() as patch:
        patch.setattr(driver, "run_lease", fail)
        with pytest.raises(WorkerError, match=f"papilio resume {tmp_path / 'job'} continues it"):
            papilio.count(women, papilio.Butterfly(), engine="cpu", job=tmp_path / "job")
    return tmp_path / "job"


def test_a_job_without_workers_says_how_long_it_waited_and_how_it_goes_on(
    scheduler: LocalCluster, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAPILIO_JOIN_SECONDS", "0.2")
    with pytest.raises(
        ClusterError,
        match=r"0 of 1 workers joined .* in 0 s, none in the last 0\.2 s .*PAPILIO_JOIN_SECONDS.*start workers"
        rf".*kept in {job}: papilio resume {job} continues it, with --cluster",
    ):
        papilio.resume_job(job, cluster=scheduler.scheduler_address)
    assert papilio.resume_job(job, cluster="inline").count == BUTTERFLIES


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_wait_that_is_no_number_of_seconds_is_refused(
    text: str, scheduler: LocalCluster, women: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAPILIO_JOIN_SECONDS", text)
    with pytest.raises(InputError, match=f"PAPILIO_JOIN_SECONDS is '{text}'; set it to a number of seconds"):
        papilio.count(women, papilio.Butterfly(), cluster=scheduler.scheduler_address)


def test_a_job_whose_scheduler_ends_while_it_waits_says_how_it_goes_on(scheduler: LocalCluster, job: Path) -> None:
    ends = Timer(0.5, scheduler.close)
    ends.start()
    try:
        with pytest.raises(
            ClusterError, match=rf"lost the connection to the scheduler.*kept in {job}: papilio resume {job} continues"
        ):
            papilio.resume_job(job, cluster=scheduler.scheduler_address)
    finally:
        ends.join()


def test_a_count_without_a_job_promises_nothing(
    scheduler: LocalCluster, women: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAPILIO_JOIN_SECONDS", "0")
    with pytest.raises(ClusterError, match="joined") as caught:
        papilio.count(women, papilio.Butterfly(), cluster=scheduler.scheduler_address)
    assert "resume" not in str(caught.value)


@pytest.mark.parametrize(("error", "printed"), [(TimeoutError(), 0), (ConnectionError(), 0), (ValueError("a bug"), 1)])
def test_a_client_leaves_no_error_of_the_network_to_asyncio(
    error: Exception, printed: int, scheduler: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing may be printed after the answer, where asyncio prints what nobody waited for."""

    async def leave_one() -> None:
        client.loop.asyncio_loop.create_future().set_exception(error)  # type: ignore[attr-defined]

    with ExitStack() as stack, caplog.at_level(logging.ERROR, logger="asyncio"):
        client = open_client(stack, scheduler.scheduler_address)
        client.sync(leave_one)
        stack.close()
        gc.collect()
    assert len([each for each in caplog.records if each.name == "asyncio"]) == printed
