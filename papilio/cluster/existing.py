"""The executor for a Dask cluster that runs already: by address, by scheduler file, or a client's."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from distributed import Client, Security
from distributed.comm import connect

from papilio.cluster.pool import DaskPool
from papilio.errors import ClusterError, InputError
from papilio.tasks.run import forget_graphs

__all__ = ["ExistingExecutor"]

CONNECT_S = 5.0
"""How long to try an address: a scheduler that is there answers in milliseconds."""


class ExistingExecutor(DaskPool):
    """Workers of a scheduler that someone else started and that stays when the run ends.

    Parameters
    ----------
    target : str, path-like or distributed.Client
        ``tcp://host:port`` (or another protocol of Dask), the path of a scheduler file, or a connected
        client, which stays open.
    n_workers : int, optional
        Workers to wait for; by default one.
    """

    name = "existing"

    def __init__(self, target: str | os.PathLike[str] | Client, n_workers: int | None = None) -> None:
        if n_workers is not None and n_workers < 1:
            raise InputError(f"workers is {n_workers}; at least 1")
        super().__init__(n_workers)
        self._target = target

    def close(self) -> None:
        """Let the workers forget the graphs of this executor's jobs, and hang up."""
        if self._client is not None and self._client.status == "running" and self._graph_hashes:
            self._client.run(forget_graphs, self._graph_hashes, on_error="ignore")
        super().close()

    def _connect(self, stack: ExitStack) -> Any:
        if isinstance(self._target, Client):
            return self._target
        address = os.fspath(self._target)
        if "://" not in address:
            address = _address_in(Path(address))
        try:
            _reach(address)
            client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {address} within {CONNECT_S:.0f} s ({error}); "
                "check that it runs and that this machine can reach it"
            ) from error
        return stack.enter_context(client)


def _reach(address: str) -> None:
    """Connect to ``address`` and hang up again.

    A client that fails to connect leaves a half-started object whose collection may block any thread; so the
    client is made only once the address is known to answer.
    """

    async def connect_once() -> None:
        comm = await connect(address, timeout=CONNECT_S, **Security().get_connection_args("client"))
        await comm.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, connect_once()).result()


def _address_in(path: Path) -> str:
    """Return the address that a scheduler file holds."""
    try:
        address = json.loads(path.read_text(encoding="utf-8"))["address"]
    except FileNotFoundError as error:
        raise ClusterError(
            f"cluster {str(path)!r} is none of auto, inline, local and cuda, no address such as "
            "tcp://host:8786, and no scheduler file that exists"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterError(
            f"{path} is not a scheduler file ({error!r}); 'dask scheduler --scheduler-file' writes one"
        ) from error
    return str(address)
