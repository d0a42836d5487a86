"""The cuda executor: one worker process per GPU of this machine, by dask-cuda."""

from __future__ import annotations

from typing import Any

from papilio.cluster.executor import missing_for_cuda
from papilio.cluster.own_cluster import OwnCluster
from papilio.errors import EngineUnavailableError, InputError
from papilio.kernels.device.discovery import list_visible_ids


class CudaExecutor(OwnCluster):
    """A LocalCUDACluster with a worker for each GPU, or slice of one, by default for all that are visible.

    This process itself creates no CUDA context.
    """

    name = "cuda"

    def __init__(self, n_workers: int | None = None, *, insecure: bool = False) -> None:
        missing = missing_for_cuda()
        if missing is not None:
            raise EngineUnavailableError(
                f"the cuda cluster cannot be started: {missing}; use --cluster local"
            )
        self._devices = list_visible_ids()
        n_gpus = len(self._devices)
        if n_workers is not None and not 1 <= n_workers <= n_gpus:
            raise InputError(
                f"workers is {n_workers}; this machine offers 1 to {n_gpus} GPUs, one worker each"
            )
        super().__init__(n_workers or n_gpus, insecure=insecure)

    def _make_cluster(self, **common: Any) -> Any:
        from dask_cuda import LocalCUDACluster

        devices = ",".join(self._devices[: self._n_workers])
        return LocalCUDACluster(CUDA_VISIBLE_DEVICES=devices, threads_per_worker=1, **common)
