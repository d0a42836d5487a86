"""The clusters that a run starts and ends: on the processors or GPUs of this machine, or elsewhere.

They share configuration, credentials and scratch directory.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import dask
from distributed import LocalCluster

from papilio.cluster.credentials import make_security
from papilio.cluster.driver import run_directory
from papilio.cluster.executor import missing_for_cuda
from papilio.cluster.pool import DaskPool, kill_workers, open_client
from papilio.errors import EngineUnavailableError, InputError
from papilio.kernels.device.discovery import list_visible_ids
from papilio.kernels.threads import available_threads
from papilio.signals import hold_interrupts

WORKER_CONFIG = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}
"""Workers keep one prepared graph and no Dask data: nothing can be spilled, and a pause would end in a stall. Dask's
HTTP pages require no credentials, so they are disabled. So are the samples of the threads' stacks, a hundred a second
by default; the delays of event loops are measured once a second, not fifty times: nothing uses either."""

NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Any free port, without a warning when another cluster has the usual one."""

_LOG = logging.getLogger("papilio")


class OwnCluster(DaskPool):
    """Base of the executors that start a cluster; a subclass makes it in :meth:`_make_cluster`.

    Without credentials (``insecure``) anyone who can reach this machine can connect to the scheduler.
    """

    def __init__(self, n_workers: int, *, insecure: bool = False) -> None:
        super().__init__(n_workers)
        self._insecure = insecure

    @abstractmethod
    def _make_cluster(self, **common: Any) -> Any:
        """Return a started cluster, made with ``common`` and the arguments of its class."""

    def _connect(self, stack: ExitStack) -> Any:
        self._configure(stack, Path(gettempdir()))
        with hold_interrupts():
            cluster = self._make_cluster(
                scheduler_kwargs=NO_DASHBOARD,
                security=None if self._insecure else make_security(),
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        return open_client(stack, cluster)

    def _configure(self, stack: ExitStack, scratch_parent: Path) -> dict[str, Any]:
        """Set Dask's configuration until ``stack`` ends, with a directory for temporary files in ``scratch_parent``.

        Only this user can enter that directory. Schedulers and workers put one of their directories first on Python's
        path. Dask's default directory has the same name for all users of a machine, so another user could create it
        first.
        """
        if self._insecure:
            _LOG.warning(
                "papilio: the %s cluster starts without credentials (insecure): any user who can connect to this "
                "machine can run code as you while it runs",
                self.name,
            )
        scratch = stack.enter_context(run_directory(scratch_parent, private=True))
        # Dask keeps references to the lists that it is given.
        config = {**deepcopy(WORKER_CONFIG), "temporary-directory": scratch}
        stack.enter_context(dask.config.set(config))
        return config

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        if interrupted and self._client is not None:
            kill_workers(self._client.cluster)
        super().__exit__(kind, error, trace)


class LocalExecutor(OwnCluster):
    """A LocalCluster sized to the machine.

    By default it is one process, whose engine uses all processors: threads share the prepared graph, processes would
    each hold their own. Without ``threads``, the processors are divided among the workers.
    """

    name = "local"
    gpu_refusal: str | None = (
        "the local cluster does not support the engine gpu, because its processes would share one GPU; use --cluster "
        "cuda (one worker per GPU) or --cluster inline"
    )

    def __init__(self, n_workers: int | None = None, threads: int | None = None, *, insecure: bool = False) -> None:
        super().__init__(1 if n_workers is None else n_workers, insecure=insecure)
        if threads is not None and threads < 1:
            raise InputError(f"threads is {threads}; the minimum is 1")
        self._threads = threads

    def _make_cluster(self, **common: Any) -> Any:
        return LocalCluster(
            n_workers=self._n_workers,
            threads_per_worker=self._threads or max(1, available_threads() // self._n_workers),
            processes=True,
            **common,
        )


class CudaExecutor(OwnCluster):
    """A LocalCUDACluster with a worker for each GPU, or slice of one, by default for all visible ones.

    This process itself creates no CUDA context.
    """

    name = "cuda"

    def __init__(self, n_workers: int | None = None, *, insecure: bool = False) -> None:
        missing = missing_for_cuda()
        if missing is not None:
            raise EngineUnavailableError(f"the cuda cluster cannot be started: {missing}; use --cluster local")
        self._devices = list_visible_ids()
        n_gpus = len(self._devices)
        if n_workers is not None and not 1 <= n_workers <= n_gpus:
            raise InputError(f"workers is {n_workers}; this machine supports 1 to {n_gpus}, one per GPU")
        super().__init__(n_workers or n_gpus, insecure=insecure)

    def _make_cluster(self, **common: Any) -> Any:
        from dask_cuda import LocalCUDACluster

        devices = ",".join(self._devices[: self._n_workers])
        return LocalCUDACluster(CUDA_VISIBLE_DEVICES=devices, threads_per_worker=1, **common)
