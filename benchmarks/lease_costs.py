"""Measure the costs of a lease in the client and in the Dask scheduler, by the number of worker processes.

    python -m benchmarks.lease_costs --workers 2,8,32,64

Starts a Dask scheduler and worker processes of one thread on this machine, and counts a small graph on them twice: in
as few leases as possible, and in several for each worker, most of which are idle at any time. The difference between
the two runs, divided by the additional leases, is the cost of a lease. Each worker takes about 0.1 GB of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, gettempdir
from typing import Any
from unittest.mock import patch

import dask
from distributed import Scheduler, Worker
from distributed.deploy import Cluster

import papilio
from papilio.cluster.existing import ExistingExecutor
from papilio.cluster.own_cluster import WORKER_CONFIG
from papilio.storage.generate import generate
from papilio.storage.graph_models import Complete
from papilio.tasks import leases

__all__ = ["LEASES_PER_WORKER", "SIDE", "LeaseCosts", "Spent", "measure", "worker_processes"]

LEASES_PER_WORKER = 4

REPEATS = 3

IDLE_S = 2.0
"""Time for which the idle cluster is watched."""

SIDE = 600
"""A complete bipartite graph of this many vertices on each side has as many work items, of 0.2 ms each."""


class _Counted(dict[str, Any]):
    """Handlers of messages, which are looked up once for each message."""

    def __init__(self, handlers: dict[str, Any], counts: Counter[str]) -> None:
        super().__init__(handlers)
        self.counts = counts

    def __getitem__(self, operation: str) -> Any:
        self.counts[operation] += 1
        return super().__getitem__(operation)


def read_scheduler(dask_scheduler: Scheduler) -> tuple[float, dict[str, int]]:
    """Return processor time and received messages of the scheduler; counts them from the first call on."""
    if not hasattr(dask_scheduler.handlers, "counts"):
        counts: Counter[str] = Counter()
        dask_scheduler.handlers = _Counted(dask_scheduler.handlers, counts)
        dask_scheduler.stream_handlers = _Counted(dask_scheduler.stream_handlers, counts)
    return time.process_time(), dict(dask_scheduler.handlers.counts)


@dataclass(frozen=True)
class Spent:
    """The cost of one count, or of one lease.

    Attributes
    ----------
    wall_s, client_s, scheduler_s : float
        Time, and processor time of the client's and the scheduler's process.
    messages : float
        Messages that the scheduler received, without heartbeats.
    """

    wall_s: float
    client_s: float
    scheduler_s: float
    messages: float

    @property
    def values(self) -> tuple[float, ...]:
        return self.wall_s, self.client_s, self.scheduler_s, self.messages


@dataclass(frozen=True)
class LeaseCosts:
    """The costs of leases on a cluster.

    Attributes
    ----------
    n_workers : int
    count : int
        Number of butterflies, the same in all runs.
    leases : int
        Leases of the run with many leases.
    idle_share : float
        Processor time of the scheduler while nothing runs, by the time that passes.
    run : Spent
        A count in few leases.
    lease : Spent
        Each additional lease, without the scheduler's time for idle workers.
    """

    n_workers: int
    count: int
    leases: int
    idle_share: float
    run: Spent
    lease: Spent


def _count(executor: ExistingExecutor, store: str, share: float) -> tuple[papilio.CountResult, Spent]:
    """Count in leases of at most a share of the predicted work."""
    plan = papilio.plan(store, papilio.Butterfly(), cluster=executor, engine="cpu")
    lease_s = max(plan.predicted_ns / 1e9 * share, 1e-9)
    began_s, before = executor.client.run_on_scheduler(read_scheduler)
    wall_s, client_s = time.perf_counter(), time.process_time()
    with patch.object(leases, "SHORTEST_LEASE_S", lease_s / 2), patch.object(leases, "MAX_LEASE_S", lease_s):
        result = papilio.count(store, papilio.Butterfly(), cluster=executor, engine="cpu")
    wall_s, client_s = time.perf_counter() - wall_s, time.process_time() - client_s
    ended_s, after = executor.client.run_on_scheduler(read_scheduler)
    messages = sum(after[each] - before.get(each, 0) for each in after if "heartbeat" not in each)
    return result, Spent(wall_s, client_s, ended_s - began_s, messages)


def measure(target: Path | Cluster, n_workers: int, store: str, repeats: int = REPEATS) -> LeaseCosts:
    """Measure leases on a running cluster, or that of a scheduler file; medians of ``repeats`` runs.

    Raises SystemExit when two runs give different counts.
    """
    with ExistingExecutor(target, n_workers) as executor:
        papilio.count(store, papilio.Butterfly(), cluster=executor, engine="cpu")  # every worker reads the graph
        began_s, _ = executor.client.run_on_scheduler(read_scheduler)
        time.sleep(IDLE_S)
        idle_share = (executor.client.run_on_scheduler(read_scheduler)[0] - began_s) / IDLE_S
        few, many = (
            [_count(executor, store, share) for _ in range(repeats)]
            for share in (1.0, 1 / (LEASES_PER_WORKER * n_workers))
        )
    counts = {result.count for result, _ in few + many}
    if len(counts) > 1:
        raise SystemExit(f"the counts differ: {counts}")
    run = Spent(*(median(each) for each in zip(*(spent.values for _, spent in few), strict=True)))
    per_lease = [
        [(high - low) / (more.leases - fewer.leases) for high, low in zip(b.values, a.values, strict=True)]
        for (fewer, a), (more, b) in zip(few, many, strict=True)
    ]
    lease = Spent(*(median(each) for each in zip(*per_lease, strict=True)))
    lease = replace(lease, scheduler_s=lease.scheduler_s - idle_share * lease.wall_s)
    return LeaseCosts(n_workers, counts.pop(), many[0][0].leases, idle_share, run, lease)


def _run_worker(address: str) -> None:
    """Be a worker of the scheduler at ``address`` until the scheduler or this process ends."""
    logging.getLogger("distributed").setLevel(logging.ERROR)
    dask.config.set(WORKER_CONFIG)

    async def run() -> None:
        async with Worker(address, nthreads=1, dashboard=False, local_directory=gettempdir()) as worker:
            await worker.finished()

    asyncio.run(run())


@contextmanager
def worker_processes(folder: Path, n_workers: int) -> Iterator[Path]:
    """Run a scheduler and workers in processes of their own; yield the scheduler file.

    Workers are forked from a process that has loaded the program, so that they start in a fraction of a second.
    """
    path = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(path)]
    command += ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with (folder / "log").open("wb") as log, ExitStack() as started:
        scheduler = subprocess.Popen(command, stdout=log, stderr=log)
        started.callback(scheduler.wait, 60)
        started.callback(scheduler.terminate)
        while not (path.exists() and path.stat().st_size):
            time.sleep(0.05)
        address = json.loads(path.read_text())["address"]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(
            ["papilio.api.count", "papilio.cluster.own_cluster", "papilio.kernels.wedge.cpu"]
        )
        for _ in range(n_workers):
            worker = context.Process(target=_run_worker, args=(address,), daemon=True)
            worker.start()
            started.callback(worker.join, 60)
            started.callback(worker.terminate)
        yield path


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print one row of a table for each number of workers."""
    parser = argparse.ArgumentParser(description="Measure the costs of a lease by the number of workers")
    parser.add_argument("--workers", default="2,8,32,64", help="numbers of worker processes")
    options = parser.parse_args(arguments)
    print("| workers | leases | time per lease | client | scheduler | messages | scheduler, idle |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for n_workers in map(int, options.workers.split(",")):
        with TemporaryDirectory() as folder:
            store = generate(Complete(n_u=SIDE, n_v=SIDE), Path(folder) / "graph").path
            with worker_processes(Path(folder), n_workers) as path:
                costs = measure(path, n_workers, store)
        lease = costs.lease
        times = (f"{1e3 * each:.2f} ms" for each in (lease.wall_s, lease.client_s, lease.scheduler_s))
        row = [f"{n_workers}", f"{costs.leases}", *times, f"{lease.messages:.1f}", f"{costs.idle_share:.1%}"]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
