"""A stored graph and running clusters, shared by the tests of the executors."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest

from papilio.cluster import pool
from papilio.cluster.executor import Executor
from papilio.cluster.existing import ExistingExecutor
from papilio.cluster.own_cluster import WORKER_CONFIG, LocalExecutor
from papilio.storage.store import GraphStore, write_store
from tests.conftest import ROOT, read_edges
from tests.tools.numba_cache import compile_here

USERS_CONFIG = deepcopy(WORKER_CONFIG)
"""What users' workers have; tests change :data:`WORKER_CONFIG`."""

# A busy machine may take longer to start a worker than users would wait for one.
WORKER_CONFIG["distributed.comm.timeouts.connect"] = "300s"
pool.JOIN_S = 300.0


@pytest.fixture(scope="session")
def senate(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> GraphStore:
    """The bundled votes of the Senate: 25,666,956 butterflies."""
    graph = read_edges(example_data / "senate-votes.txt.gz", skip_lines=1)
    store = write_store(tmp_path_factory.mktemp("senate") / "graph", graph, provenance={})
    compile_here(store.path, "total", "vertex")
    return store


@pytest.fixture(scope="session")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> GraphStore:
    """The bundled Southern Women: 341 butterflies."""
    graph = read_edges(example_data / "southern-women.txt.gz")
    return write_store(tmp_path_factory.mktemp("women") / "graph", graph, provenance={})


@pytest.fixture(scope="module")
def local() -> Iterator[Executor]:
    """Two worker processes on this machine; no longer than the module, as idle ones take processor time too."""
    with LocalExecutor(2) as executor:
        yield executor


@contextmanager
def dask_processes(folder: Path, n_workers: int, *options: str) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Run a scheduler and workers of two threads each, or as ``options`` say, in processes of their own.

    Gives the scheduler file and the scheduler's process.
    """
    path = folder / "scheduler.json"
    scheduler = [
        sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(path),
        "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
    ]  # fmt: skip
    workers = [
        sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(path),
        "--nworkers", str(n_workers), "--nthreads", "2", "--no-dashboard", "--local-directory", str(folder),
        *options,
    ]  # fmt: skip
    environment = os.environ | {
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
        "PAPILIO_TEST_GATE": str(folder / "gate"),
    }
    with (folder / "log").open("wb") as log:
        processes = [
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
            for command in (scheduler, workers)
        ]
        try:
            deadline = time.monotonic() + 600
            while not (path.exists() and path.stat().st_size):
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.05)
            yield path, processes[0]
        finally:
            end_processes(reversed(processes))


def end_processes(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Ask one process after the other to end; those that a test left cut off or busy are killed after 30 s.

    A worker whose scheduler ends at the same moment may wait for it until its nanny kills it, after 8 s.
    """
    for process in processes:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


@pytest.fixture(scope="module")
def scheduler_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The scheduler file of a cluster of two workers that stays for the tests of a module."""
    with dask_processes(tmp_path_factory.mktemp("existing"), 2) as (path, _):
        with ExistingExecutor(path, 2):  # both have joined
            pass
        yield path
