"""A scheduler that somebody else may have named is not connected to unasked; looking at a job contacts nobody."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import papilio
from papilio.cluster import trust
from papilio.cluster.existing import ExistingExecutor
from papilio.cluster.trust import find_stranger, require_trusted
from papilio.errors import ClusterError, InputError
from papilio.question import Question
from papilio.reports.experiment import begin_scaling
from papilio.storage.store import GraphStore
from papilio.tasks.job import job_of
from papilio.tasks.job_state import Submission
from papilio.tasks.session import JobSession
from tests.tools.commands import Run
from tests.tools.tampering import reseal

OTHER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")


class Listener:
    """A port at which nobody answers, and whether somebody came."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.address = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"

    def was_called(self) -> bool:
        """Whether there was a connection since the last time."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr("papilio.cluster.existing.CONNECT_S", 0.2)
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def job(women: GraphStore, tmp_path: Path, listener: Listener) -> Path:
    """The directory of a job that was begun on a scheduler, and submitted to it."""
    path = tmp_path / "job"
    settings = {"cluster": listener.address, "engine": "cpu", "workers": None, "output": None}
    with JobSession(path, job_of(women, Question(papilio.Butterfly(), "total")), women.path, settings):
        pass
    submission = Submission("1", listener.address, "auto", None, "normal", None, "host", time.time())
    papilio.open_job(path).control.write(submission)
    path.chmod(0o755)
    (path / "job.json").chmod(0o644)
    return path


def open_to_all(job: Path) -> None:
    job.chmod(0o777)


def writable_file(job: Path) -> None:
    (job / "job.json").chmod(0o666)


def other_group(job: Path) -> None:
    os.chown(job, -1, OTHER)
    job.chmod(0o775)


def other_owner(job: Path) -> None:
    os.chown(job / "job.json", OTHER, -1)


def other_owner_of_all(job: Path) -> None:
    for path in (job, *job.rglob("*")):
        os.chown(path, OTHER, -1)


CHANGES = [
    (open_to_all, "job is writable by others (mode 0777)"),
    (writable_file, "job.json is writable by others (mode 0666)"),
    pytest.param(other_group, "job is writable by others (mode 0775)", marks=needs_root),
    pytest.param(other_owner, "job.json belongs to user", marks=needs_root),
    pytest.param(other_owner_of_all, "belongs to user", marks=needs_root),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_resume_connects_to_no_scheduler_that_others_may_have_named(
    change: object, message: str, job: Path, listener: Listener, run: Run
) -> None:
    assert callable(change)
    change(job)
    with pytest.raises(InputError) as caught:
        papilio.resume_job(job)
    assert message in str(caught.value)
    refused = run("resume", job)
    assert refused.exit_code == 2
    assert "--trust" in refused.stderr
    assert not listener.was_called()
    trusted = run("resume", job, "--trust")
    assert f"no Dask scheduler answers at {listener.address}" in trusted.stderr
    assert listener.was_called()
    done = run("resume", job, "--cluster", "inline")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "341")
    assert run("resume", job).exit_code == 0, "a finished job contacts nobody"
    assert not listener.was_called()


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_resume_replaces_no_file_that_others_may_have_named(change: object, message: str, job: Path, run: Run) -> None:
    precious = job.with_name("precious.csv")
    precious.write_text("precious")
    settings = json.loads((job / "job.json").read_text())["settings"]
    reseal(job / "job.json", settings={**settings, "cluster": "inline", "output": str(precious)})
    assert callable(change)
    change(job)
    with pytest.raises(InputError, match=r"job.json names the existing output .*precious.csv") as caught:
        papilio.resume_job(job)
    assert message in str(caught.value)
    assert run("resume", job).exit_code == 2
    assert precious.read_text() == "precious"


def test_resume_connects_to_the_scheduler_of_a_directory_of_ones_own(job: Path, listener: Listener) -> None:
    with pytest.raises(ClusterError, match="no Dask scheduler answers"):
        papilio.resume_job(job)
    assert listener.was_called()


@pytest.mark.parametrize("change", [open_to_all, pytest.param(other_owner_of_all, marks=needs_root)])
def test_looking_at_a_job_and_cancelling_it_contacts_nobody(
    change: object, job: Path, listener: Listener, run: Run
) -> None:
    assert callable(change)
    change(job)
    for command in (("status",), ("wait", "--timeout", 0), ("logs",), ("cancel",)):
        run(command[0], job, *command[1:])
    run("jobs", job.parent)
    assert not listener.was_called()


def test_an_experiment_of_others_names_no_scheduler(
    women: GraphStore, tmp_path: Path, listener: Listener, run: Run
) -> None:
    root = tmp_path / "experiment"
    begin_scaling(root, papilio.Butterfly(), [women.path], [1], repeat=1, cluster=listener.address)
    root.chmod(0o777)
    refused = run("scale", "run", root, "--no-figures", "--no-warm-up")
    assert refused.exit_code == 2
    assert "is writable by others" in refused.stderr
    assert not listener.was_called()
    run("scale", "run", root, "--no-figures", "--no-warm-up", "--trust")
    assert listener.was_called()


def test_clusters_that_a_run_starts_need_no_trust(tmp_path: Path) -> None:
    (tmp_path / "job.json").touch(0o666)
    (tmp_path / "job.json").chmod(0o666)
    for cluster in (None, "auto", "inline", "local", "cuda", "slurm"):
        require_trusted(cluster, tmp_path / "job.json")
    for cluster in ("local:insecure", "slurm:logs=/tmp", "tcp://a:1", "tls://a:1", "scheduler.json"):
        with pytest.raises(InputError, match="who could run code as you"):
            require_trusted(cluster, tmp_path / "job.json")


def test_a_scheduler_file_that_others_can_write_is_refused_from_a_directory_and_said_by_name(
    tmp_path: Path, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    named_in, scheduler = tmp_path / "job.json", tmp_path / "shared" / "scheduler.json"
    named_in.touch(0o644)
    scheduler.parent.mkdir(mode=0o755)
    scheduler.write_text(json.dumps({"address": listener.address}))
    scheduler.chmod(0o644)
    require_trusted(str(scheduler), named_in)
    with caplog.at_level(logging.WARNING, "papilio"):
        with pytest.raises(ClusterError), ExistingExecutor(scheduler):
            pass
        assert caplog.text == ""
        scheduler.chmod(0o666)
        with pytest.raises(ClusterError), ExistingExecutor(scheduler):
            pass
    assert f"scheduler file {scheduler}: {scheduler} is writable by others (mode 0666)" in caplog.text
    with pytest.raises(InputError, match=r"scheduler\.json is writable by others"):
        require_trusted(str(scheduler), named_in)


def test_a_group_of_ones_own_and_a_sticky_directory_are_no_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "folder" / "job.json"
    file.parent.mkdir(mode=0o755)
    file.touch(0o644)
    file.parent.chmod(0o1777)
    assert find_stranger(file) is None
    file.parent.chmod(0o775)
    monkeypatch.setattr(trust, "_is_private_group", lambda gid: True)
    assert find_stranger(file) is None
    monkeypatch.setattr(trust, "_is_private_group", lambda gid: False)
    assert str(find_stranger(file)).endswith(f"(mode {stat.S_IMODE(0o775):04o})")
    assert "cannot be examined" in str(find_stranger(tmp_path / "none"))
