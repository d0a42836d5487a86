"""The executor for a running Dask cluster: by address, by scheduler file, or by client."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from distributed import Client, Scheduler, Security
from distributed.comm import connect
from distributed.deploy import Cluster

from papilio.cluster.pool import DaskPool, open_client, scheduler_errors_named
from papilio.cluster.trust import find_stranger
from papilio.errors import ClusterError, InputError, StoreError
from papilio.storage.records import read_json, read_record
from papilio.tasks.job import JobSpec
from papilio.tasks.job_state import Priority
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.worker_state import forget_graphs

LAG_S: dict[Priority, float] = {"high": 0.0, "normal": 60.0, "low": 600.0}
"""Delay in the queue of a worker, by priority: leases of equal jobs run in dispatch order, and a lease of low priority
lets only those pass that higher ones dispatch within the following ten minutes."""

_USERS = "papilio-graph-users"
"""Name in the scheduler's metadata of the users of each graph."""

_LOG = logging.getLogger("papilio")

CONNECT_S = 5.0
"""How long to try an address: a live scheduler answers in milliseconds."""


WRITE_S = 1.0
"""How long a scheduler may take to write its file: the file is empty first, then whole."""

FORGET_S = 3.0
"""Time limit for the workers to forget graphs when a run ends."""


@dataclass(frozen=True)
class _SchedulerFile:
    """The address in a scheduler file, which Dask writes."""

    may_grow: ClassVar[bool] = True

    address: str


class ExistingExecutor(DaskPool):
    """Workers of a scheduler that someone else started and that stays when the run ends.

    The target is an address such as ``tcp://host:port``, the path of a scheduler file, a connected client or a cluster
    of Dask; these stay open. ``priority`` is relative to other jobs on the cluster, see :data:`LAG_S`.
    """

    name = "existing"
    remedy = "check that its scheduler and workers are running, and that this machine can reach them"

    def __init__(
        self,
        target: str | os.PathLike[str] | Client | Cluster,
        n_workers: int | None = None,
        *,
        priority: Priority = "normal",
        inside_worker: bool = False,
    ) -> None:
        super().__init__(1 if n_workers is None else n_workers, inside_worker=inside_worker)
        if priority not in LAG_S:
            raise InputError(f"priority is {priority!r}; expected one of {', '.join(LAG_S)}")
        self._target = target
        self._lag_s = LAG_S[priority]
        self._user = uuid4().hex
        self._graph_hashes: set[str] = set()

    def task_priority(self) -> int:
        """Return the due time of a lease that is dispatched now, as a priority in milliseconds."""
        return -round((time.time() + self._lag_s) * 1000)

    def check_source(self, job: JobSpec, workers: Sequence[WorkerInfo]) -> None:
        """Raise unless every worker finds the store, and record that its graph is in use."""
        super().check_source(job, workers)
        self._graph_hashes.add(job.graph_hash)
        with scheduler_errors_named(self.client):
            self.client.run_on_scheduler(use_graphs, self.client.id, self._user, sorted(self._graph_hashes))

    def close(self) -> None:
        """Let the workers forget the graphs that no other job on this cluster uses, and disconnect.

        A scheduler that no longer answers is left as it is: the answer of the run does not depend on it.
        """
        if self._client is not None and self._client.status == "running" and self._graph_hashes:
            unused = []
            with suppress(OSError):
                unused = self._client.run_on_scheduler(leave_graphs, self._user, sorted(self._graph_hashes))
            if unused:
                # Do not wait for a worker that does not answer, such as a stopped one.
                self.ask_all(forget_graphs, unused, addresses=None, patience_s=FORGET_S)
        super().close()

    def _connect(self, stack: ExitStack) -> Any:
        if isinstance(self._target, Client):
            return self._target
        if isinstance(self._target, Cluster):
            return open_client(stack, self._target, timeout=CONNECT_S)
        address = os.fspath(self._target)
        if "://" not in address:
            path = Path(address)
            address, stranger = _address_in(path), find_stranger(path)
            if stranger is not None:
                _LOG.warning(
                    "papilio: scheduler file %s: %s, who could run code as you through its scheduler",
                    path, stranger,
                )  # fmt: skip
        try:
            _reach(address)
            return open_client(stack, address, timeout=CONNECT_S)
        except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {address} within {CONNECT_S:.0f} s ({error}); check that it is "
                f"running and that this machine can reach it; for TLS, the address must begin with tls:// and Dask's "
                f"configuration must name the credentials (distributed.comm.tls)"
            ) from error


def use_graphs(client_id: str, user: str, graph_hashes: Iterable[str], dask_scheduler: Scheduler) -> None:
    """Record, on the scheduler, that ``user`` with the client ``client_id`` uses some graphs."""
    users: dict[str, dict[str, str]] = dask_scheduler.task_metadata.setdefault(_USERS, {})
    for graph_hash in graph_hashes:
        users.setdefault(graph_hash, {})[user] = client_id


def leave_graphs(user: str, graph_hashes: Iterable[str], dask_scheduler: Scheduler) -> list[str]:
    """Record, on the scheduler, that ``user`` no longer needs these graphs; return the graphs without other users."""
    users: dict[str, dict[str, str]] = dask_scheduler.task_metadata.setdefault(_USERS, {})
    unused = []
    for graph_hash in graph_hashes:
        others = users.get(graph_hash, {})
        others.pop(user, None)
        if not any(client_id in dask_scheduler.clients for client_id in others.values()):
            users.pop(graph_hash, None)
            unused.append(graph_hash)
    return unused


def _reach(address: str) -> None:
    """Connect to ``address`` and disconnect again.

    A client that fails to connect leaves a half-started object whose collection may block any thread; so the client is
    made only once the address is known to answer.
    """

    async def connect_once() -> None:
        # If something listens on the port but never answers, Dask would wait for ever.
        async with asyncio.timeout(2 * CONNECT_S):
            comm = await connect(address, timeout=CONNECT_S, **Security().get_connection_args("client"))
            await comm.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, connect_once()).result()


def _address_in(path: Path) -> str:
    """Return the address in a scheduler file; a file that Dask is still writing is read again."""
    advice, deadline = "'dask scheduler --scheduler-file' writes one", time.monotonic() + WRITE_S
    try:
        while True:
            try:
                return read_record(_SchedulerFile, read_json(path, advice), str(path), advice).address
            except StoreError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
    except FileNotFoundError as error:
        raise ClusterError(
            f"cluster is {str(path)!r}; expected auto, inline, local, cuda, an address such as tcp://host:8786, or "
            f"an existing scheduler file"
        ) from error
    except StoreError as error:
        raise ClusterError(f"{path} is not a scheduler file ({error})") from error
