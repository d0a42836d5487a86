"""What a cluster offers: its workers, their versions, their GPUs, and whether they reach a store."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from papilio.cluster.devices import ONE_WORKER_PER_GPU, find_shared_gpu
from papilio.cluster.doctor import Check, installed_version
from papilio.cluster.executor import Executor
from papilio.cluster.selection import make_executor
from papilio.errors import PapilioError
from papilio.kernels.device.discovery import GpuInfo, list_gpus
from papilio.storage.records import read_record, write_record
from papilio.storage.store import GraphStore
from papilio.version import __version__

_COMPARED = ("numpy", "numba", "dask", "distributed", "pyarrow")


@dataclass(frozen=True)
class WorkerFacts:
    """One process that runs tasks."""

    host: str
    versions: Mapping[str, str]  # of Python, Papilio and the packages that both ends should have alike
    gpus: tuple[GpuInfo, ...]  # those that are visible; the first is the one that is used


def describe_process() -> WorkerFacts:
    """Describe the process that this runs in; creates no CUDA context."""
    versions = {"python": platform.python_version(), "papilio": __version__}
    versions |= {name: version for name in _COMPARED if (version := installed_version(name)) is not None}
    return WorkerFacts(platform.node(), versions, list_gpus())


def describe_as_json() -> dict[str, Any]:
    """Describe the worker process that this runs in, as JSON, so that versions may differ."""
    return write_record(describe_process())


def check_worker_versions(own: WorkerFacts, workers: Mapping[str, WorkerFacts]) -> Check:
    """Compare the versions of the workers with those of this process."""
    differing = [
        f"{address} on {facts.host} has {name} {facts.versions.get(name, 'missing')}, this process {version}"
        for address, facts in workers.items()
        for name, version in own.versions.items()
        if facts.versions.get(name) != version
    ]
    if not differing:
        return Check("worker versions", "ok", f"the same on all {len(workers)}, and here")
    more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
    return Check("worker versions", "warn", differing[0] + more, "install the same versions on both")


def check_worker_gpus(workers: Mapping[str, WorkerFacts]) -> Check:
    """Check that no two workers use one GPU, by its UUID."""
    first = {address: facts.gpus[0].uuid for address, facts in workers.items() if facts.gpus}
    if not first:
        return Check("worker gpus", "skip", "no worker sees a GPU; the cpu engine needs none")
    found = f"{len(first)} of {len(workers)} workers use a GPU"
    shared = find_shared_gpu((uuid, address) for address, uuid in first.items())
    if shared is not None:
        uuid, addresses = shared
        return Check("worker gpus", "fail", f"{', '.join(addresses)} share {uuid}", ONE_WORKER_PER_GPU)
    if list(first.values()).count("") > 1:
        what = f"{found}; the driver names no UUID, so sharing cannot be excluded"
        return Check("worker gpus", "warn", what, "update the driver")
    # dask-cuda lets every worker see all GPUs, each with another one first.
    idle = {gpu.uuid for facts in workers.values() for gpu in facts.gpus} - set(first.values()) - {""}
    if idle:
        advice = "a worker uses its first GPU only: start one worker per GPU with 'dask cuda worker'"
        return Check("worker gpus", "warn", f"{found}; {len(idle)} of the GPUs they see are nobody's", advice)
    return Check("worker gpus", "ok", f"{found}, each its own")


def check_worker_stores(path: str, problems: Mapping[str, str | None]) -> Check:
    """Say which workers do not find the store; ``problems`` holds None for those that do."""
    failing = {address: problem for address, problem in problems.items() if problem is not None}
    if not failing:
        return Check("worker store reach", "ok", f"all {len(problems)} workers read {path}")
    address, problem = next(iter(failing.items()))
    what = f"{len(failing)} of {len(problems)} workers do not; {address}: {problem}"
    return Check(
        "worker store reach", "fail", what, "put the store where every worker sees it at the same path"
    )


def check_cluster(cluster: str, store: GraphStore | None = None, n_workers: int | None = None) -> list[Check]:
    """Start or reach a cluster, with ``n_workers`` workers, and check that all of them are fit and read the store."""
    try:
        with make_executor(cluster, "auto", n_workers) as executor:
            return _check_started(executor, store)
    except PapilioError as error:
        return [Check("cluster", "fail", str(error), "see docs/cli.md for what --cluster takes")]


def _check_started(executor: Executor, store: GraphStore | None) -> list[Check]:
    from papilio.cluster.pool import DaskPool
    from papilio.cluster.remote import find_store_problem

    workers, own = executor.workers, describe_process()
    hosts = len({worker.host for worker in workers})
    summary = (
        f"{executor.name}: {len(workers)} worker{'s'[: len(workers) != 1]} on {hosts} host{'s'[: hosts != 1]}, "
        f"{sum(worker.threads for worker in workers)} threads"
    )
    checks = [Check("cluster", "ok", summary)]
    if not isinstance(executor, DaskPool):
        return [*checks, check_worker_gpus({workers[0].name: own})]
    answers: dict[str, Any] = executor.client.run(describe_as_json, on_error="return")
    facts = {}
    for address, answer in answers.items():
        if isinstance(answer, BaseException):
            what = f"{address} cannot describe itself: {type(answer).__name__}: {answer}"
            checks.append(
                Check("worker", "fail", what, "see that worker's log; install the same papilio there")
            )
        else:
            facts[address] = read_record(WorkerFacts, answer, address, "install the same papilio there")
    checks.append(check_worker_versions(own, facts))
    if executor.gpu_refusal is None:
        checks.append(check_worker_gpus(facts))
    if store is not None:
        path = store.path if "://" in store.path else os.path.abspath(store.path)
        found = executor.client.run(find_store_problem, path, store.hash, on_error="return")
        problems = {name: None if problem is None else str(problem) for name, problem in found.items()}
        checks.append(check_worker_stores(path, problems))
    return checks
