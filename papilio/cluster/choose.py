"""From the word that a user gives to an executor."""

from __future__ import annotations

import os
from typing import Any

from papilio.cluster.executor import Executor
from papilio.cluster.inline import InlineExecutor
from papilio.errors import EngineUnavailableError, InputError
from papilio.kernels.gpu.discovery import list_gpus
from papilio.tasks.job import EngineChoice

__all__ = ["make_executor", "resolve_auto"]


def make_executor(
    cluster: str | os.PathLike[str] | Any,
    engine: EngineChoice = "auto",
    n_workers: int | None = None,
    threads: int | None = None,
) -> Executor:
    """Return the executor that ``cluster`` names, not yet started.

    Parameters
    ----------
    cluster : str, path-like or distributed.Client
        ``auto`` (``cuda`` where GPUs are seen and can be used, else ``local``), ``inline``, ``local``,
        ``cuda``, ``slurm`` (also with options, ``slurm:partition=long,cores=4,memory=16GiB``), an address such
        as ``tcp://host:8786``, the path of a scheduler file, or a connected client.
    engine : {"auto", "cpu", "gpu"}
        ``auto`` does not start GPU workers for the engine ``cpu``.
    n_workers : int, optional
        Processes (``local``), GPUs (``cuda``), or workers to wait for.
    threads : int, optional
        Threads of each worker of the ``local`` cluster; by default it divides the processors.

    Raises
    ------
    EngineUnavailableError
        When GPUs are asked for and cannot be used.
    InputError
        For a cluster or number of workers that makes no sense.
    """
    if cluster == "inline":
        return InlineExecutor(n_workers)
    if cluster == "auto":
        cluster = resolve_auto(engine)
    if cluster == "local":
        from papilio.cluster.local import LocalExecutor

        return LocalExecutor(n_workers, threads)
    if cluster == "cuda":
        from papilio.cluster.cuda import CudaExecutor

        return CudaExecutor(n_workers)
    if isinstance(cluster, str) and (cluster == "slurm" or cluster.startswith("slurm:")):
        from papilio.cluster.slurm import SlurmExecutor

        return SlurmExecutor(cluster.removeprefix("slurm").removeprefix(":"), n_workers)
    from distributed import Client

    from papilio.cluster.existing import ExistingExecutor

    if not isinstance(cluster, (str, os.PathLike, Client)):
        raise InputError(
            f"cluster is a {type(cluster).__name__}; expected a name, an address, a scheduler file, "
            "a distributed.Client or an executor"
        )
    return ExistingExecutor(cluster, n_workers)


def resolve_auto(engine: EngineChoice) -> str:
    """Return the cluster that ``auto`` means on this machine: ``cuda`` or ``local``.

    Raises
    ------
    EngineUnavailableError
        When the engine ``gpu`` is asked for and cannot run here.
    """
    if engine == "cpu" or (engine == "auto" and not list_gpus()):
        return "local"
    from papilio.cluster.cuda import missing_for_cuda

    missing = missing_for_cuda()
    if missing is None:
        return "cuda"
    if engine == "gpu":
        raise EngineUnavailableError(f"engine gpu was asked for and cannot run here: {missing}")
    return "local"
