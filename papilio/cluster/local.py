"""The local executor: CPU worker processes on this machine."""

from __future__ import annotations

from typing import Any

from distributed import LocalCluster

from papilio.cluster.own_cluster import OwnCluster
from papilio.errors import InputError
from papilio.kernels.threads import available_threads


class LocalExecutor(OwnCluster):
    """A LocalCluster sized to the machine.

    By default it is one process, whose engine uses all processors: threads share the prepared graph, processes would
    each hold their own. The processors are divided among the workers unless ``threads`` says how many each has.
    """

    name = "local"
    gpu_refusal: str | None = (
        "engine gpu is not offered by the local cluster, whose processes would share one GPU; "
        "use --cluster cuda (one worker per GPU) or --cluster inline"
    )

    def __init__(
        self, n_workers: int | None = None, threads: int | None = None, *, insecure: bool = False
    ) -> None:
        super().__init__(1 if n_workers is None else n_workers, insecure=insecure)
        if threads is not None and threads < 1:
            raise InputError(f"threads is {threads}; at least 1")
        self._threads = threads

    def _make_cluster(self, **common: Any) -> Any:
        return LocalCluster(
            n_workers=self._n_workers,
            threads_per_worker=self._threads or max(1, available_threads() // self._n_workers),
            processes=True,
            **common,
        )
