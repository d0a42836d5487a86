"""Many jobs, and workers and clients killed at random: every count exact, nothing counted twice, nothing lost.

``PAPILIO_SOAK_JOBS`` sets the number of jobs of the long soak, ``PAPILIO_SOAK_SEED`` the first seed.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import comb
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from distributed import Client, Future

import papilio
from papilio.cluster.own_cluster import LocalExecutor
from papilio.graph import BipartiteGraph
from papilio.storage.ledger import read_ledger
from papilio.storage.store import GraphStore, write_store
from tests.cli.test_jobs import SHORT_LEASES
from tests.cluster.conftest import dask_processes
from tests.tools.oracle import SparseCounts, sparse_counts

N_WORKERS = 3
MAX_SESSIONS = 8
SESSION_LIMIT_S = 120.0

EXISTING_SHARE = 0.6
"""Of the jobs, on the cluster of worker processes; the others count in the process of the client."""

LOST_CLUSTER = 6
"""Exit code of a client that could not go on for a killed worker: the job is resumed, as a user would."""


@dataclass(frozen=True)
class Known:
    """A stored graph and its counts, known by a formula or by the oracle."""

    path: Path
    counts: SparseCounts


@dataclass
class Tally:
    """What the soak did."""

    jobs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    leases: int = 0
    seconds: float = 0.0


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> list[Known]:
    """A complete graph, one with hubs, a sparse one."""
    folder = tmp_path_factory.mktemp("soak graphs")
    side = 900
    around = np.full(side, (side - 1) * comb(side, 2))
    complete = papilio.generate(papilio.storage.graph_models.Complete(side, side), folder / "complete")
    known = [Known(Path(complete.path), SparseCounts(comb(side, 2) ** 2, around, around, np.zeros(0, np.int64)))]
    source = np.random.default_rng(20_261_121)
    for name, n, n_edges, skew in (("hubs", 3000, 300_000, 2.5), ("sparse", 4000, 60_000, 1.0)):
        u, v = (np.floor(n * source.random(n_edges) ** skew).astype(np.int64) for _ in "uv")
        graph = BipartiteGraph.from_edges(u, v)
        store = write_store(folder / name, graph, provenance={})
        known.append(Known(Path(store.path), sparse_counts(graph.n_u, graph.n_v, graph.u, graph.v)))
    return known


@functools.cache
def _processes() -> ForkServerContext:
    """Return the starter of clients: it imports everything once, as starting Python anew takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["papilio.cli", "papilio.api.count", "papilio.cluster.existing", __name__])
    return context


def run_client(words: list[str], log: str) -> None:
    """Be the command ``papilio`` with short leases; the whole process is the client."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.argv = ["papilio", *words]
    exec(SHORT_LEASES, {"__name__": "__main__"})


class Cluster:
    """A scheduler and workers in processes of their own, and who may be killed."""

    def __init__(self, scheduler_file: Path) -> None:
        self.scheduler_file = scheduler_file
        self._client = Client(scheduler_file=str(scheduler_file), set_as_default=False)

    def worker_pids(self) -> list[int]:
        """Return the processes of the workers that are there, at least one; the others are being started anew."""
        pids: list[int] = []
        while not pids:
            self._client.wait_for_workers(1, timeout=600)
            pids = sorted(self._client.run(os.getpid, on_error="ignore").values())
        return pids

    def close(self) -> None:
        self._client.close()


@contextmanager
def soak_cluster(folder: Path) -> Iterator[Cluster]:
    with dask_processes(folder, N_WORKERS) as (scheduler_file, _):
        cluster = Cluster(scheduler_file)
        try:
            yield cluster
        finally:
            cluster.close()
            # The nanny of a killed worker may never leave by itself.
            for process in psutil.Process().children():
                if {"distributed.cli.dask_worker", str(scheduler_file)} <= set(process.cmdline()):
                    for each in [process, *process.children(recursive=True)]:
                        kill(each.pid)


def leases_of(job: Path) -> list[dict[str, Any]]:
    path = job / "ledger.jsonl"
    if not path.exists():
        return []
    return [record for record in read_ledger(path).records if record["type"] == "lease"]


def kill(pid: int) -> bool:
    """Kill a process at once; False when it is gone already."""
    try:
        psutil.Process(pid).kill()
    except psutil.NoSuchProcess:
        return False
    return True


def run_session(
    words: list[str], job: Path, source: random.Random, victims: list[int], kills_client: bool, tally: Tally
) -> int:
    """Run one client to its end, with up to one kill of each victim on the way; return its exit code."""
    client = _processes().Process(target=run_client, args=(words, f"{job}.log"))
    client.start()
    assert client.pid is not None
    deadline = time.monotonic() + SESSION_LIMIT_S
    planned = ["worker"] * len(victims) + ["client"] * kills_client
    source.shuffle(planned)
    for what in planned:
        # Half of the kills come at any time, half soon after some lease was registered.
        if source.random() < 0.5:
            client.join(source.uniform(0.0, 1.2))
        else:
            wanted = len(leases_of(job)) + source.randrange(1, 5)
            while client.is_alive() and len(leases_of(job)) < wanted and time.monotonic() < deadline:
                client.join(0.005)
            client.join(source.uniform(0.0, 0.05))
        if not client.is_alive() or time.monotonic() > deadline:
            break
        tally.kills[what] += kill(client.pid if what == "client" else victims.pop())
    client.join(max(0.0, deadline - time.monotonic()))
    if client.is_alive():
        os.kill(client.pid, signal.SIGUSR1)
        client.join(1.0)
        client.kill()
        client.join()
        log = Path(f"{job}.log").read_text()
        pytest.fail(f"{words} did not end within {SESSION_LIMIT_S:.0f} s; its threads:\n{log}")
    tally.sessions += 1
    assert client.exitcode is not None
    return client.exitcode


def run_job(seed: int, job: Path, graphs: list[Known], cluster: Cluster, tally: Tally) -> None:
    """Count one graph, killing what the seed says, and check the answer."""
    source = random.Random(seed)
    known, per = source.choice(graphs), source.choice(["total", "vertex"])
    on_cluster = source.random() < EXISTING_SHARE
    mode = source.choice(["workers", "client", "both", "both", "none"] if on_cluster else ["client", "none"])
    where = [str(cluster.scheduler_file), "--workers", "1"] if on_cluster else ["inline"]
    words = ["count", "butterfly", str(known.path), "--per", per, "--engine", "cpu"]
    words += ["--job", str(job), "--cluster", *where]
    kept: list[dict[str, Any]] = []
    planned_clients = source.randrange(1, 4) if mode in ("client", "both") else 0
    for _ in range(MAX_SESSIONS):
        victims: list[int] = []
        if on_cluster:
            pids = cluster.worker_pids()
            if mode in ("workers", "both"):
                victims = source.sample(pids, source.randrange(1, len(pids) + 1))
        killed = tally.kills.copy()
        code = run_session(words, job, source, victims, planned_clients > 0, tally)
        planned_clients -= 1
        now = leases_of(job)
        assert now[: len(kept)] == kept, "a finished lease was lost or counted again"
        kept = now
        if code == 0:
            break
        lost = tally.kills - killed
        log = Path(f"{job}.log").read_text()
        assert (code == -9 and lost["client"]) or (code == LOST_CLUSTER and lost["worker"]), (code, log)
        tally.kills["sessions that gave up"] += code == LOST_CLUSTER
    assert code == 0, f"not finished after {MAX_SESSIONS} sessions"
    check_answer(job, known, kept)
    tally.jobs += 1
    tally.leases += len(kept)


def check_answer(job: Path, known: Known, leases: list[dict[str, Any]]) -> None:
    """Compare the answer with the known one, and its leases with the items."""
    checked, _ = papilio.verify_job(job)
    result = papilio.open_job(job).result()
    assert checked.count == result.count == known.counts.total
    assert sum(int(lease["total"]) for lease in leases) == result.count
    ends = sorted((lease["start"], lease["stop"]) for lease in leases)
    assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
    assert ends[-1][1] == result.items
    for name, vector in result.vectors.items():
        assert np.array_equal(vector, getattr(known.counts, name)), name


def soak(n_jobs: int, first_seed: int, graphs: list[Known], folder: Path) -> Tally:
    """Run jobs one after the other on one cluster; a failure names its seed."""
    tally, started = Tally(), time.monotonic()
    with soak_cluster(folder) as cluster:
        for seed in range(first_seed, first_seed + n_jobs):
            try:
                run_job(seed, folder / f"job-{seed}", graphs, cluster, tally)
            except (Exception, pytest.fail.Exception) as error:
                raise AssertionError(f"the job of seed {seed} failed: {error!r}") from error
    tally.seconds = time.monotonic() - started
    print(json.dumps({"first_seed": first_seed, **vars(tally)}))
    return tally


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1])
def test_a_worker_lost_with_its_answer(at: int, women: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when its task, a preparation or a lease, is finished and the answer not yet fetched."""
    whole, calls = Future.result, 0

    with LocalExecutor(2) as executor:
        pids = {worker.name: worker.pid for worker in executor.workers}

        def kill_and_fetch(self: Future, timeout: float | None = None) -> Any:
            nonlocal calls
            if calls == at:
                (holder,) = executor.client.who_has([self])[self.key]
                os.kill(pids[holder], signal.SIGKILL)
                time.sleep(0.5)
            calls += 1
            return whole(self, timeout)

        monkeypatch.setattr(Future, "result", kill_and_fetch)
        assert papilio.count(women, papilio.Butterfly(), cluster=executor).count == 341
        assert calls > at


@pytest.mark.slow
def test_a_short_soak(graphs: list[Known], tmp_path: Path) -> None:
    tally = soak(8, 17, graphs, tmp_path)
    assert tally.jobs == 8
    assert tally.kills["worker"] > 0
    assert tally.kills["client"] > 0


@pytest.mark.slow
def test_a_long_soak(graphs: list[Known], tmp_path: Path) -> None:
    n_jobs = int(os.environ.get("PAPILIO_SOAK_JOBS", "200"))
    first_seed = int(os.environ.get("PAPILIO_SOAK_SEED", "1000"))
    tally = soak(n_jobs, first_seed, graphs, tmp_path)
    assert tally.jobs == n_jobs
    assert tally.kills["worker"] > n_jobs // 10
    assert tally.kills["client"] > n_jobs // 10
