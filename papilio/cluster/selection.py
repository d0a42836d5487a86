"""Turn the name that a user gives into an executor.

Trust: a scheduler can run code in its clients, so it must be named by the user, or in a file that others cannot write.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeGuard

from papilio.arguments import read_path
from papilio.cluster.executor import OWN_CLUSTERS, Executor, InlineExecutor, missing_for_cuda
from papilio.errors import EngineUnavailableError, InputError
from papilio.kernels.device.discovery import list_visible_ids, missing_for_gpu
from papilio.kernels.engine import EngineChoice

_INSECURE = "insecure"
"""Option of a cluster started by the run: its scheduler accepts connections without credentials."""


def make_executor(
    cluster: str | os.PathLike[str] | Any,
    engine: EngineChoice = "auto",
    n_workers: int | None = None,
    threads: int | None = None,
) -> Executor:
    """Return the executor that ``cluster`` names, not yet started.

    EngineUnavailableError when GPUs are requested and cannot be used. InputError for an invalid cluster or number of
    workers.

    Parameters
    ----------
    cluster : str, path-like, distributed.Client or Dask cluster
        ``auto`` (see :func:`resolve_auto`), ``inline``, ``local``, ``cuda``, ``slurm`` (also with options,
        ``slurm:partition=long,cores=4,memory=16GiB``), an address such as ``tcp://host:8786``, the path of a scheduler
        file, a connected client, or a cluster of Dask such as ``LocalCluster``; these two stay open.
        ``local:insecure``, ``cuda:insecure``, ``auto:insecure`` and ``slurm:insecure,...`` start without credentials.
    engine : {"auto", "cpu", "gpu"}
        ``auto`` does not start GPU workers for the engine ``cpu``.
    n_workers : int, optional
        Processes (``local``), GPUs (``cuda``), or workers to wait for.
    threads : int, optional
        Of each worker of the ``local`` cluster; by default the processors are divided among them.
    """
    check_cluster(cluster)
    why = ""
    if is_auto(cluster):
        cluster, why = resolve_auto(cluster, engine, n_workers)
    name, options = _split(cluster)
    insecure = _INSECURE in options
    executor: Executor
    if name == "inline":
        executor = InlineExecutor(n_workers)
    elif name == "local":
        from papilio.cluster.own_cluster import LocalExecutor

        executor = LocalExecutor(n_workers, threads, insecure=insecure)
    elif name == "cuda":
        from papilio.cluster.own_cluster import CudaExecutor

        executor = CudaExecutor(n_workers, insecure=insecure)
    elif name == "slurm":
        from papilio.cluster.slurm import SlurmExecutor

        others = ",".join(option for option in options if option != _INSECURE)
        executor = SlurmExecutor(others, n_workers, insecure=insecure)
    else:
        from papilio.cluster.existing import ExistingExecutor

        executor = ExistingExecutor(cluster, n_workers)
    executor.why_chosen = why
    return executor


def check_cluster(cluster: Any) -> None:
    """Raise InputError for a value that neither is nor names a cluster."""
    if isinstance(cluster, str | os.PathLike):
        read_path("cluster", cluster)
        return
    from distributed import Client
    from distributed.deploy import Cluster

    if not isinstance(cluster, Client | Cluster):
        raise InputError(
            f"cluster is a {type(cluster).__name__}; expected a name, an address, a scheduler file, "
            "a cluster of Dask (LocalCluster, SLURMCluster, ...), a distributed.Client or an executor"
        )


def _split(cluster: Any) -> tuple[str | None, list[str]]:
    """Return name and options of a cluster that the run starts; no name for any other. Unknown options raise."""
    if not isinstance(cluster, str):
        return None, []
    name, _, text = cluster.partition(":")
    if name not in OWN_CLUSTERS:
        return None, []
    options = [option for option in text.split(",") if option]
    unknown = [option for option in options if option != _INSECURE]
    if unknown and name != "slurm":
        raise InputError(f"{unknown[0]!r} is not an option of the {name} cluster; known: {_INSECURE}")
    return name, options


def with_insecure(cluster: str) -> str:
    """Return the name of the same cluster without credentials; InputError if the run does not start it."""
    name, options = _split(cluster)
    if name is None:
        raise InputError(
            f"insecure is only for clusters that a run starts ({', '.join(OWN_CLUSTERS)}); Dask's configuration "
            f"determines how to connect to {cluster}"
        )
    return f"{name}:{','.join(dict.fromkeys([_INSECURE, *options]))}"


def is_auto(cluster: Any) -> TypeGuard[str]:
    """Return whether ``cluster`` leaves the choice to this machine."""
    return _split(cluster)[0] == "auto"


def resolve_auto(cluster: str, engine: EngineChoice, n_workers: int | None = None) -> tuple[str, str]:
    """Return the cluster that ``auto``, with its options, means on this machine, and the reason.

    With one device, or CPUs alone, this process counts: worker processes are not needed. EngineUnavailableError if the
    engine ``gpu`` is requested and cannot run here.
    """
    _, sign, options = cluster.partition(":")
    name, why = _choose_own(engine, n_workers)
    return f"{name}{sign}{options}", why


def resolve_workers(cluster: str, engine: EngineChoice) -> str:
    """Return the same cluster with ``auto`` replaced by ``cuda`` or ``local``, which have any number of workers.

    Raises the errors of :func:`resolve_auto`.
    """
    if not is_auto(cluster):
        return cluster
    _, sign, options = cluster.partition(":")
    return f"{'cuda' if _missing(engine, missing_for_cuda) is None else 'local'}{sign}{options}"


def _missing(engine: EngineChoice, find: Callable[[], str | None]) -> str | None:
    """Return why no GPU is used, from ``find``; EngineUnavailableError if the engine must be ``gpu``."""
    if engine == "cpu":
        return "the engine is cpu"
    missing = find()
    if engine == "gpu" and missing is not None:
        raise EngineUnavailableError(f"engine gpu cannot run here: {missing}")
    return missing


def _choose_own(engine: EngineChoice, n_workers: int | None) -> tuple[str, str]:
    missing = _missing(engine, missing_for_gpu)
    if n_workers not in (None, 1):
        lacking = _missing(engine, missing_for_cuda)
        why = f"{n_workers} workers are requested"
        return ("cuda", why) if lacking is None else ("local", f"{why}; {lacking}")
    if missing is not None:
        return "inline", f"{missing}: this process counts on all its processors"
    n_gpus = len(list_visible_ids())
    if n_gpus == 1 or n_workers == 1:
        return "inline", f"one GPU is {'visible' if n_gpus == 1 else 'requested'}: this process counts on it"
    lacking = missing_for_cuda()
    if lacking is not None:
        return "inline", f"{n_gpus} GPUs are visible; this process counts on one of them: {lacking}"
    return "cuda", f"{n_gpus} GPUs are visible: one worker per GPU"
