"""The local executor: CPU worker processes on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import dask
from distributed import Client, LocalCluster

from papilio.cluster.credentials import make_security, say_insecure
from papilio.cluster.driver import run_directory
from papilio.cluster.pool import DaskPool
from papilio.cluster.quiet import hold_interrupts
from papilio.errors import InputError

__all__ = ["NO_DASHBOARD", "WORKER_CONFIG", "LocalExecutor", "private_scratch"]

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
"""Workers keep one prepared graph and no Dask data: nothing to spill, and a pause would end in a stall. Dask's pages
over HTTP ask nobody for credentials: there are none. Nobody looks at samples of the threads' stacks, which Dask takes
a hundred times a second, nor at how late its event loops wake up, fifty times a second."""


NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Any free port, rather than a warning when the usual one is taken by another cluster."""


@contextmanager
def private_scratch(parent: Path | None = None) -> Iterator[Path]:
    """Give Dask a directory for temporary files that only this user can enter, until the block ends.

    Schedulers and workers put a directory of theirs first on Python's path. Where Dask makes it by itself has the same
    name for all users of a machine, so that another one could be there first.

    Parameters
    ----------
    parent : Path, optional
        Where to make it; by default where temporary files go.
    """
    with (
        run_directory(parent or Path(gettempdir()), private=True) as folder,
        dask.config.set({"temporary-directory": folder}),
    ):
        yield Path(folder)


class LocalExecutor(DaskPool):
    """A LocalCluster sized to the machine.

    By default one process, whose engine uses all processors: threads share the prepared graph, processes
    would each hold their own.

    Parameters
    ----------
    n_workers : int, optional
        Worker processes, 1 by default.
    threads : int, optional
        Threads of each; by default the processors are divided among the workers.
    insecure : bool
        Whether the scheduler takes connections without credentials.
    """

    name = "local"
    owns_processes = True
    prefers_gpu = False
    gpu_refusal: str | None = (
        "engine gpu is not offered by the local cluster, whose processes would share one GPU; "
        "use --cluster cuda (one worker per GPU) or --cluster inline"
    )

    def __init__(
        self, n_workers: int | None = None, threads: int | None = None, *, insecure: bool = False
    ) -> None:
        if n_workers is not None and n_workers < 1:
            raise InputError(f"workers is {n_workers}; at least 1")
        if threads is not None and threads < 1:
            raise InputError(f"threads is {threads}; at least 1")
        super().__init__(n_workers or 1)
        self._threads, self._insecure = threads, insecure

    def _connect(self, stack: ExitStack) -> Any:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        n_workers = self._n_workers or 1
        stack.enter_context(dask.config.set(WORKER_CONFIG))
        stack.enter_context(private_scratch())
        if self._insecure:
            say_insecure(self.name)
        with hold_interrupts():
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=self._threads or max(1, processors // n_workers),
                processes=True,
                scheduler_kwargs=NO_DASHBOARD,
                security=None if self._insecure else make_security(),
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        return stack.enter_context(Client(cluster, set_as_default=False))
