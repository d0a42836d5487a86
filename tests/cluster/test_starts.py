"""A cluster that does not start: one error that names it, the first cause and what to do; nothing is left behind."""

from __future__ import annotations

import errno
import multiprocessing.util
import os
import subprocess
import sys
import tempfile
from asyncio import CancelledError
from collections.abc import Callable
from multiprocessing import resource_tracker
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

import dask
import psutil
import pytest
from distributed import Scheduler
from distributed.comm import CommClosedError

from papilio.cluster import own_cluster as cuda
from papilio.cluster import own_cluster as local
from papilio.cluster import pool, slurm
from papilio.cluster.doctor import check_cluster
from papilio.cluster.own_cluster import LocalExecutor
from papilio.cluster.pool import DaskPool, start_errors_named
from papilio.errors import ClusterError, InputError, StoreError
from papilio.storage.store import GraphStore
from tests.conftest import ROOT, START_METHOD

TIMEOUT_S = 600


def caused(error: BaseException, *causes: BaseException) -> BaseException:
    """Return an error as each raised from the next."""
    for outer, inner in zip((error, *causes), causes, strict=False):
        outer.__cause__ = inner
    return error


NANNY = RuntimeError("Nanny failed to start.")

CAUSES: dict[str, tuple[BaseException, str]] = {
    "killed": (
        caused(NANNY, RuntimeError("Nanny failed to start worker process")),
        "RuntimeError: Nanny failed to start worker process",
    ),
    "memory": (
        caused(RuntimeError("Worker failed to start."), MemoryError("8 GiB")),
        "MemoryError: 8 GiB",
    ),
    "port": (
        caused(RuntimeError("Cluster failed to start: in use"), OSError(98, "Address already in use")),
        "OSError: [Errno 98] Address already in use",
    ),
    "room": (
        OSError(28, "No space left on device", "/scratch"),
        "OSError: [Errno 28] No space left on device: '/scratch'",
    ),
    "threads": (RuntimeError("can't start new thread"), "RuntimeError: can't start new thread"),
    "time": (
        caused(TimeoutError("Nanny start timed out after 60s."), TimeoutError()),
        "TimeoutError: Nanny start timed out after 60s.",
    ),
    "without a word": (TimeoutError(), "TimeoutError"),
    "lost": (CommClosedError("in <TLS>:\nStream is closed"), "CommClosedError: in <TLS>: Stream is closed"),
    "cancelled": (CancelledError(), "CancelledError"),
    "assertion": (AssertionError("Status.running"), "AssertionError: Status.running"),
}


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """Return what raises ``error`` however it is called."""

    def call(*_: Any, **__: Any) -> NoReturn:
        raise error

    return call


def start_error(executor: DaskPool) -> str:
    """Return the error with which an executor does not start, having seen that it is one line."""
    with pytest.raises(ClusterError) as caught, executor:
        pass
    text = str(caught.value)
    assert text.startswith(f"the {executor.name} cluster does not start: ")
    assert text.endswith(executor.remedy)
    assert "\n" not in text
    return text


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files that is empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("cause", CAUSES)
def test_what_dask_raises_is_named_on_every_cluster_that_a_run_starts(
    cause: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, text = CAUSES[cause]
    fails = raising(error)
    monkeypatch.setattr(local, "LocalCluster", fails)
    monkeypatch.setattr(cuda, "missing_for_cuda", lambda: None)
    monkeypatch.setattr(cuda, "list_visible_ids", lambda: ["0"])
    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace(LocalCUDACluster=fails))
    monkeypatch.setattr(slurm, "find_spec", lambda name: name)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=fails))
    monkeypatch.chdir(temporary)
    executors = [LocalExecutor(1), cuda.CudaExecutor(1), slurm.SlurmExecutor("cores=1,memory=1GiB")]
    for executor in executors:
        assert f"does not start: {text}; {executor.remedy}" in start_error(executor)
        assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("cause", ["threads", "lost", "time"])
def test_a_client_that_does_not_connect_closes_the_cluster(
    cause: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, text = CAUSES[cause]
    ended: list[bool] = []

    class Cluster:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            ended.append(True)

    monkeypatch.setattr(local, "LocalCluster", lambda **_: Cluster())
    monkeypatch.setattr(pool, "Client", raising(error))
    assert text in start_error(LocalExecutor(1))
    assert ended == [True]
    assert list(temporary.iterdir()) == []


def test_a_scheduler_that_cannot_bind(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "listen", raising(OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))))
    assert "Address already in use" in start_error(LocalExecutor(1))
    assert list(temporary.iterdir()) == []


def test_a_limit_of_processes(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource_tracker.ensure_running()
    before = psutil.Process().children()
    limit = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", raising(limit))
    with dask.config.set({START_METHOD: "spawn"}), patch.dict(os.environ):  # in which Dask leaves variables
        text = start_error(LocalExecutor(2))
    assert "Resource temporarily unavailable" in text
    assert "ulimit -u" in text
    assert psutil.Process().children() == before
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("place", ["missing", "file"])
def test_no_directory_for_temporary_files(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / place))
    text = start_error(LocalExecutor(1))
    assert str(tmp_path / place) in text
    assert "TMPDIR" in text
    (check,) = check_cluster("local")
    assert check.status == "fail"
    assert "the local cluster does not start" in check.found


def test_other_errors_of_papilio_stay_what_they_are() -> None:
    with pytest.raises(InputError, match="as it was"), start_errors_named("local", "do something"):
        raise InputError("as it was")
    with pytest.raises(ClusterError, match=r"^as it was$"), start_errors_named("local", "do something"):
        raise ClusterError("as it was")
    with (
        pytest.raises(ClusterError, match=r"^the local cluster does not start: StoreError: /x; do something$"),
        start_errors_named("local", "do something"),
    ):
        raise StoreError("/x")
    with pytest.raises(KeyboardInterrupt), start_errors_named("local", "do something"):
        raise KeyboardInterrupt


ONE_IS_KILLED = """
import os, signal
try:
    os.mkdir(os.environ["PAPILIO_TEST_FIRST"])
except FileExistsError:
    pass
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    "preload", [ONE_IS_KILLED, "raise MemoryError('a worker of the test')"], ids=["killed", "raises"]
)
def test_a_worker_that_ends_at_once_is_one_line_of_the_command(preload: str, women: GraphStore, tmp_path: Path) -> None:
    (tmp_path / "preload.py").write_text(preload)
    (tmp_path / "scratch").mkdir()
    environment = {
        **os.environ,
        "DASK_DISTRIBUTED__WORKER__PRELOAD": str(tmp_path / "preload.py"),
        "PAPILIO_TEST_FIRST": str(tmp_path / "first"),
        "TMPDIR": str(tmp_path / "scratch"),
    }
    command = [
        sys.executable,
        "-m",
        "papilio",
        "count",
        "butterfly",
        women.path,
        "--cluster",
        "local",
        "--workers",
        "2",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (6, "")
    assert err.startswith("papilio: the local cluster does not start: ")
    assert err.count("\n") == 1
    assert ("MemoryError: a worker of the test;" in err) == (preload is not ONE_IS_KILLED)
    left = [each for each in psutil.process_iter() if session_of(each.pid) == process.pid]
    assert psutil.wait_procs(left, TIMEOUT_S)[1] == []
    assert list((tmp_path / "scratch").iterdir()) == []


def session_of(pid: int) -> int | None:
    """Return the session of a process; None when it has ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
