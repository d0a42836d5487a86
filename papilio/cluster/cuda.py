"""The cuda executor: one worker process per GPU of this machine, by dask-cuda."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import dask
from distributed import Client

from papilio.cluster.credentials import make_security, say_insecure
from papilio.cluster.local import NO_DASHBOARD, WORKER_CONFIG, private_scratch
from papilio.cluster.pool import DaskPool
from papilio.cluster.quiet import hold_interrupts
from papilio.errors import EngineUnavailableError, InputError
from papilio.kernels.device.discovery import list_visible_ids, missing_for_gpu

__all__ = ["CudaExecutor", "missing_for_cuda"]


def missing_for_cuda() -> str | None:
    """Say what a cluster of this machine's GPUs lacks, or None when it can be started."""
    missing = missing_for_gpu()
    if missing is None and find_spec("dask_cuda") is None:
        return "dask-cuda is not installed (install papilio[cuda13] or papilio[cuda12])"
    return missing


class CudaExecutor(DaskPool):
    """A LocalCUDACluster; this process itself creates no CUDA context.

    Parameters
    ----------
    n_workers : int, optional
        GPUs, or slices of partitioned ones, to use; by default all that are visible.
    insecure : bool
        Whether the scheduler takes connections without credentials.

    Raises
    ------
    EngineUnavailableError
        Without a GPU, CuPy or dask-cuda.
    InputError
        When more workers than GPUs are asked for.
    """

    name = "cuda"
    owns_processes = True

    def __init__(self, n_workers: int | None = None, *, insecure: bool = False) -> None:
        missing = missing_for_cuda()
        if missing is not None:
            raise EngineUnavailableError(
                f"the cuda cluster cannot be started: {missing}; use --cluster local"
            )
        self._devices, self._insecure = list_visible_ids(), insecure
        n_gpus = len(self._devices)
        if n_workers is not None and not 1 <= n_workers <= n_gpus:
            raise InputError(
                f"workers is {n_workers}; this machine offers 1 to {n_gpus} GPUs, one worker each"
            )
        super().__init__(n_workers or n_gpus)

    def _connect(self, stack: ExitStack) -> Any:
        from dask_cuda import LocalCUDACluster

        stack.enter_context(dask.config.set(WORKER_CONFIG))
        stack.enter_context(private_scratch())
        if self._insecure:
            say_insecure(self.name)
        with hold_interrupts():
            cluster = LocalCUDACluster(
                CUDA_VISIBLE_DEVICES=",".join(self._devices[: self._n_workers]),
                threads_per_worker=1,
                scheduler_kwargs=NO_DASHBOARD,
                security=None if self._insecure else make_security(),
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        return stack.enter_context(Client(cluster, set_as_default=False))
